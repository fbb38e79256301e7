/* daemon_priv.h - the daemon's parts, for the files daemon_*.c only; everything else is given the few it needs. */
#ifndef DAEMON_DAEMON_PRIV_H
#define DAEMON_DAEMON_PRIV_H

#include <sys/stat.h>

#include "base/tz.h"
#include "collect/collect.h"
#include "daemon/cluster.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/external.h"
#include "daemon/freeze.h"
#include "daemon/lead.h"
#include "daemon/metrics.h"
#include "daemon/morning.h"
#include "daemon/pace.h"
#include "daemon/past.h"
#include "daemon/record.h"
#include "daemon/roster.h"
#include "daemon/round.h"
#include "daemon/serve.h"
#include "daemon/shared.h"
#include "decide/explain.h"
#include "kube/event.h"
#include "prom/client.h"

/* The configuration in force, and the file it came from.  What is made at the start (clients, listeners, the lease, the
 * history thread) borrows texts of the one it was made from, which therefore lives as long as the daemon. */
struct daemon_config {
    struct run_config *c, *start;
    char *path;
    struct stat seen;     /* of the file last looked at, accepted or not */
    int64_t looked_us;    /* mono */
};

/* Where measurements come from. */
struct daemon_sources {
    struct http_server *server;
    char *password;
    struct prom *prom;
    struct collect *collect;
    int64_t next_us;      /* decision time of the next collection */
};

/* Scratch of a round, sized once. */
struct daemon_scratch {
    struct round_input *in;       /* [ROSTER_MAX] */
    struct cluster_count *count;  /* [ROSTER_MAX], in the roster's order */
    struct cluster_index *index;  /* of generation */
    uint64_t generation;
    size_t n;
    struct external_row *rows;    /* [ROSTER_MAX] */
    struct doc targets, external, health;
};

struct daemon {
    struct log *log;
    const struct daemon_outside *outside; /* NULL: the real ones */
    uint64_t seed;
    char replica[128];
    struct daemon_config config;
    char *const *sets;
    size_t n_sets;
    struct tz *zone;
    struct calendar calendar;
    int32_t *holidays;

    struct pace pace;
    int64_t now_us;               /* decision time of this turn */
    int64_t mono_us;
    int64_t next_decide_us;
    int64_t wait_until_us;        /* mono: a due decision waits for its collection until then; 0: none is due */
    double round_s;               /* of the newest round */
    int64_t jumped_us;            /* decision time of the last jump of the clock; 0: never */

    struct http_client *http;
    struct kube_config *kube_config;
    struct kube *kube;
    struct kube_events *events;
    struct cluster *cluster;
    struct daemon_sources sources;
    struct past *past;            /* NULL without Prometheus */
    struct roster *roster;
    char waits_for[256];          /* what the log said last about the cluster's list */

    struct store *store;
    struct recorder *recorder;
    bool stored;                  /* the newest round is in the store */
    struct err store_error;
    struct store_loss {
        int64_t told_us; /* mono; of the log's last word on it */
        int health;      /* as told */
        uint64_t rounds; /* lost since the last that was kept */
    } loss;
    struct morning *morning;
    int64_t actuals_us;           /* decision time forecasts were last scored */

    struct freeze *freeze;
    uint64_t freeze_seen;
    struct shared *shared;
    struct metrics *metrics;
    struct serve *serve;
    struct daemon_trust {
        int64_t next_us; /* mono */
        bool asking, known;
    } trust;              /* who the API server is (daemon_trust.c) */
    struct lead *lead;            /* NULL: observe, or no lease wanted */
    bool leading;                 /* at the last turn */
    uint64_t epoch;               /* of the leadership whose state was adopted */
    struct act_env act;
    int64_t ready_peak;           /* most units ready lately, for abnormal states */
    bool abnormal;
    char owners_unknown[512];     /* why it is not known who else sizes targets; "": it is */
    uint64_t inputs_down;         /* bit per query, as told in the log */
    bool stopping;
    struct kube_stats api_shown;
    struct err config_error;      /* why the newest file was refused; ERR_OK */
    int hup;                      /* signalfd of SIGHUP, -1 */
    bool reload;
    struct daemon_scratch scratch;
};

/* daemon_start.c */
/* Loads the configuration anew from where it came from.  *out is the caller's: config_free. */
enum err_code daemon_load_config(const struct daemon *d, struct run_config **out, struct err *e);
void config_free(struct run_config *c);
int64_t daemon_wall_us(const struct daemon *d);
int64_t daemon_mono_us(const struct daemon *d);
enum err_code daemon_clock(struct daemon *d, struct err *e); /* zone and holidays */
bool daemon_acts_in(const struct daemon *d); /* the stage may write at all */

/* daemon_learn.c: what the past of a target is good for. */
void daemon_learn(struct daemon *d, struct live *l, const struct past_answer *a);

/* daemon_trust.c: every turn. */
void daemon_trust(struct daemon *d);

/* daemon_reload.c: a changed file or SIGHUP. */
void daemon_look_for_config(struct daemon *d);

/* daemon_round.c */
void daemon_round(struct daemon *d);
/* Units, samples and claims of every target into scratch.in. */
void daemon_fill_inputs(struct daemon *d);

/* daemon_store.c: what people and the process did, stamped now; a note that cannot be kept is logged. */
void daemon_keep_note(struct daemon *d, const struct store_note *note);
/* daemon_store.c: one transaction for the round; d->stored tells. */
void daemon_store_round(struct daemon *d, const struct round_input *in, size_t n);

/* daemon_act.c */
void daemon_act_init(struct daemon *d);
void daemon_act(struct daemon *d);   /* orders of this round, statuses */
bool daemon_may_order(const struct daemon *d, const struct live *l); /* its decision of this round would be acted on */
void daemon_adopt(struct daemon *d); /* what the cluster says of each target: every turn */
void daemon_idle(const struct daemon *d, bool *busy); /* whether an action is under way */

/* daemon_status.c: l->status as it is to stand now. */
void daemon_fill_status(struct daemon *d, struct live *l);
void daemon_tell_late(struct daemon *d, struct live *l); /* daemon_act.c */

/* daemon_show.c */
void daemon_show(struct daemon *d, double round_s);
void daemon_event(struct daemon *d, const struct live *l, bool warning, const char *reason, const char *action,
                  const char *note);

/* daemon_commands.c */
void daemon_commands(struct daemon *d);
void daemon_note(struct daemon *d, enum store_note_kind kind, const struct live *l, const struct command *c,
                 int64_t until_us);

/* daemon_override.c: sizes fixed by people, kept in the status. */
struct override_wait;
void daemon_override(struct daemon *d, struct live *l, const struct command *c); /* answers it, now or later */
void daemon_overrides(struct daemon *d);                                         /* every turn */
void daemon_overrides_stop(struct daemon *d);                                    /* answers those that wait */
void daemon_override_written(struct daemon *d, struct live *l, const struct act_result *r); /* a publish ended */
void daemon_override_drop(struct daemon *d, struct live *l, enum command_result result, const char *why);
/* What holds for the target now: the status, else its owner's spec; units -1: nothing. */
struct status_override daemon_override_of(const struct daemon *d, const struct live *l);
/* What the status is to say: what it says, or is about to, until it ends. */
void daemon_fill_override(const struct daemon *d, struct live *l);

#endif
