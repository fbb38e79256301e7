/* commands.h - the commands, one file each, and what they share. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <pthread.h>

#include "base/buf.h"
#include "base/cli.h"
#include "base/progress.h"
#include "base/thread.h"
#include "store/store.h"
#include "train/evaluate.h"
#include "train/world.h"

extern const struct cli_cmd cmd_demo, cmd_import, cmd_inspect, cmd_forecast, cmd_calibrate,
    cmd_simulate, cmd_tune, cmd_train, cmd_evaluate, cmd_explain, cmd_report, cmd_promote, cmd_config, cmd_run,
    cmd_decisions, cmd_freeze, cmd_unfreeze, cmd_release, cmd_override, cmd_doctor, cmd_metrics, cmd_gpus;

enum { CLI_TEXT_MAX = 64 << 20 }; /* bytes of one command's output */

/* The first positional argument, -c and --set as a scenario made ready to run. */
struct cli_world {
    struct scenario scenario;
    struct world *world;
    struct thread_pool *pool;
};
NODISCARD enum err_code cli_world_open(const struct cli_ctx *c, const char *path,
                                       struct cli_world *out, struct err *e);
void cli_world_close(struct cli_world *w); /* safe on a zeroed one */

/* A policy named on the command line.  Errors: ERR_USAGE whatever is wrong with the name. */
NODISCARD enum err_code cli_contender(const char *text, struct contender *out, struct err *e);

/* The first bytes of a regular file, to tell what it is; a pipe would lose them. */
enum { CLI_HEAD = 64 };
NODISCARD enum err_code cli_head(const char *path, unsigned char head[CLI_HEAD], size_t *n, struct err *e);

/* Where a replica's record is and in which zone its times are shown: as given (either may be NULL), else as the daemon's
 * settings say (-c FILE, --set), else the usual place and UTC.  *zone is released with tz_free. */
NODISCARD enum err_code cli_store_settings(const struct cli_ctx *c, const char *path, const char *timezone,
                                           struct store **out, struct tz **zone, struct err *e);
/* A store for reading; path NULL: the usual place. */
NODISCARD enum err_code cli_store_open(const char *path, struct store **out, struct err *e);
/* Whether a store knows "NAMESPACE/NAME" or "NAME"; NULL: any.  Errors: ERR_MISSING, naming those it knows. */
NODISCARD enum err_code cli_store_target(struct store *s, const char *target, struct err *e);
/* "24h" before the newest decision kept, or a time; text NULL: 0.  Errors: ERR_USAGE. */
NODISCARD enum err_code cli_store_time(struct store *s, const char *option, const char *text, const struct tz *zone,
                                       int64_t *t_us, struct err *e);

/* What several replicas recorded, read together: each records while it leads. */
enum { CLI_STORES_MAX = 8 };
struct cli_stores {
    struct store *s[CLI_STORES_MAX];
    size_t n;
};
/* --store, repeated; none: the usual place.  After an error, too, closed with cli_stores_close.
 * Errors: ERR_USAGE for more than CLI_STORES_MAX, those of cli_store_open. */
NODISCARD enum err_code cli_stores_open(const struct opt_strings *paths, struct cli_stores *out, struct err *e);
void cli_stores_close(struct cli_stores *x);
/* --since and --until, either may be NULL: 0.  Spans count back from the newest decision of all. */
NODISCARD enum err_code cli_stores_times(const struct cli_stores *x, const char *since, const char *until,
                                         const struct tz *zone, int64_t *since_us, int64_t *until_us, struct err *e);

/* Whether tables on this output may carry colour. */
bool cli_colour(const struct cli_ctx *c);
/* Writes the buffer to -o or stdout and releases it. */
NODISCARD enum err_code cli_finish(const struct cli_ctx *c, struct buf *text, struct err *e);
/* The outcome in words (evaluation_summary), wrapped before column 100. */
void cli_summary(const struct evaluation *ev, struct buf *out);

/* Progress of work on several threads: rate and time left on a terminal, else a line per stage.
 * Silent with -q. */
struct cli_progress {
    pthread_mutex_t lock;
    struct progress p;
    char what[96];
    int64_t done;
    bool drawn;
};
void cli_progress_init(struct cli_progress *p, const struct cli_ctx *c, const char *name,
                       int64_t total);
void cli_progress_at(void *p, const char *what, int64_t done,
                     int64_t total); /* an evaluate_progress_fn */
void cli_progress_tick(void *p);     /* one more done; for tune_opts.tick */
void cli_progress_fini(struct cli_progress *p);

#endif
