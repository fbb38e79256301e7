/* collect.h - live measurements of all targets, every 10 s, as records in rings.
 *
 * A round starts one asynchronous query per field (by: pod, workload) or per field and target (by: target);
 * answers arrive through http_poll() and land in the round's record of each target.  When the last one is
 * in, the record is complete.  Rings hold the newest records at the collection step; collect_view() gives
 * the mean over the window.
 *
 *   missing   a sample that is absent, not finite, a blank marker, stale, or of a failed query is NaN.  A field
 *             is the mean over the window's records that have it, and missing when the newest of them is more
 *             than 3 steps old or fewer than half have it.  Until the records span the window, every field
 *             is missing.
 *   stale     judged by the samples' own times, put on our clock by the skew measured; older than `stale_us` is
 *             missing.  A sample from the future (beyond the skew allowed) counts as taken now and is counted.
 *   clocks    every round asks the server for its time().  If our clock jumps (back, or ahead by more than the
 *             ring holds), the rings are emptied and the jump counted: old records cannot be placed any more.
 *
 * `now_us` is the decision clock.  Samples are stamped on the wall clock; their age, times `speed` where
 * decisions run faster than real time, places them on it.  Steady state allocates nothing but HTTP bodies.
 * One thread, the http_client's. */
#ifndef COLLECT_COLLECT_H
#define COLLECT_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/queries.h"
#include "model/field.h"
#include "prom/client.h"

enum { COLLECT_NAME_MAX = 254, COLLECT_KIND_MAX = 64 };

struct collect_target {
    char namespace[COLLECT_NAME_MAX];
    char name[COLLECT_NAME_MAX];
    char kind[COLLECT_KIND_MAX]; /* "Deployment" */
};

/* What the cluster's cache knows of a pod. */
struct collect_pod {
    int target;            /* -1: of no target */
    double cpu_cores, mem_bytes; /* requests, 0 for none: for metrics.k8s.io */
};

struct collect_opts {
    struct prom *prom;                 /* NULL: none; then kube_get is needed */
    const struct queries_cfg *queries; /* borrowed until collect_free or collect_requery */
    int max_targets;                   /* fixes the memory; default 1024 */
    int64_t step_us;                   /* 10 s */
    int64_t window_us;                 /* 50 s */
    int64_t stale_us;                  /* oldest sample that counts; 60 s */
    double speed;                      /* decision time over real time; 1 */
    /* Target of a pod; false when the pod is unknown. */
    bool (*pod)(void *ctx, const char *namespace, const char *pod, struct collect_pod *out);
    /* Calls each(arg, name) for every pod of a target; for {pods}.  NULL: from the target's name. */
    void (*pods)(void *ctx, int target, void (*each)(void *arg, const char *pod), void *arg);
    /* metrics.k8s.io instead of the CPU and memory queries: a GET of the API server whose body, or error,
     * is given to done() later, exactly once.  NULL: not used. */
    enum err_code (*kube_get)(void *ctx, const char *path, size_t body_cap,
                              void (*done)(void *arg, enum err_code rc, const char *body, size_t n,
                                           const struct err *e),
                              void *arg, struct err *e);
    void *ctx;
};
struct collect_opts collect_opts_default(void);

struct collect;
/* Errors: those of queries_make; ERR_INVAL for look-ups a query needs and nobody gives. */
NODISCARD enum err_code collect_new(const struct collect_opts *o, struct collect **out, struct err *e);
void collect_free(struct collect *c); /* NULL is fine */
/* Other queries from the next round on; records stay.  After an error the old ones stay too. */
NODISCARD enum err_code collect_requery(struct collect *c, const struct queries_cfg *queries, struct err *e);

/* Target `index` in [0, max_targets) is t from now on, with an empty ring; NULL removes it.  The same
 * identity again changes nothing.  Errors: ERR_RANGE, ERR_INVAL for a name that is none. */
NODISCARD enum err_code collect_set(struct collect *c, int index, const struct collect_target *t, struct err *e);

/* A query of the target's own in place of the configured one (as by: target; `one` sample); NULL takes it
 * back. Errors: ERR_RANGE, ERR_INVAL (no such target, a placeholder that does not exist, no Prometheus). */
NODISCARD enum err_code collect_query(struct collect *c, int index, enum field f, const char *query, struct err *e);

/* Every step.  A round still running (slow server) is left to finish and this one is skipped and counted. */
void collect_start_round(struct collect *c, int64_t now_us);
/* Starts what waits for a free place; returns microseconds until it wants to be called again.  After
 * http_poll. */
int64_t collect_tick(struct collect *c);
bool collect_running(const struct collect *c); /* a round is under way */

struct collect_sample {
    float value[FIELD_COUNT]; /* mean over the window, NaN missing */
    float last[FIELD_COUNT];  /* the newest record's */
    float qps_last;           /* last[FIELD_QPS], or the newest within 3 steps */
    int64_t sample_us;        /* oldest sample of the newest complete record, decision clock; 0: none yet */
    int n_records;            /* complete ones within the window */
};
/* False (and everything missing) for a target without a complete record. */
bool collect_view(const struct collect *c, int target, int64_t now_us, struct collect_sample *out);
/* Record `back` steps before the newest (0), for storing as history.  False when there is none. */
bool collect_record(const struct collect *c, int target, int back, int64_t *t_us, float value[FIELD_COUNT]);

/* ---- health: /metrics, doctor, records ---- */
enum { COLLECT_ERROR_MAX = 320 };
struct collect_health {
    const char *name;        /* of the field, "clock" or "metrics.k8s.io" */
    const char *query;       /* PromQL as configured, or the path */
    int64_t last_ok_us;      /* wall clock; 0: never */
    int64_t last_try_us;
    int64_t duration_us;     /* of the last one */
    uint64_t n_ok, n_failed;
    uint64_t n_samples;      /* in the last answer */
    uint64_t n_targets;      /* that the last answer gave a value */
    uint64_t dropped;        /* total samples of unknown pods or workloads */
    uint64_t last_dropped;
    uint64_t bad;            /* total values judged missing: blank markers, NaN, out of range */
    uint64_t stale, future;  /* total samples */
    uint64_t ambiguous;      /* total times two samples came where one was expected */
    uint64_t warnings;       /* total answers with warnings: data may be partial */
    char error[COLLECT_ERROR_MAX]; /* of the last failure; "" after success */
    char warning[COLLECT_ERROR_MAX];
};
int collect_health_count(const struct collect *c);
const struct collect_health *collect_health_get(const struct collect *c, int i);

struct collect_clock {
    bool known;
    int64_t server_us;       /* the server's time() minus our wall clock */
    int64_t date_us;         /* its Date header minus our wall clock; INT64_MIN unknown */
    int64_t samples_us;      /* newest sample that stamps itself minus the server's clock; INT64_MIN unknown */
    bool skewed;             /* one of them is beyond the limit */
    char text[COLLECT_ERROR_MAX]; /* what is wrong, "" when nothing is */
};
struct collect_status {
    uint64_t rounds, skipped, clock_jumps;
    int64_t last_round_us;   /* duration of the last complete one, real time */
    struct collect_clock clock;
};
void collect_status(const struct collect *c, struct collect_status *out);
size_t collect_bytes(const struct collect *c); /* memory held in rings and results */

#endif
