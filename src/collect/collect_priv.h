/* collect_priv.h - the collector's parts: rings (ring.c), answers to targets (spread.c), metrics.k8s.io
 * (pods_api.c), rounds and queries (collect.c). */
#ifndef COLLECT_COLLECT_PRIV_H
#define COLLECT_COLLECT_PRIV_H

#include "base/buf.h"
#include "collect/collect.h"

enum {
    RING_SPARE = 8,       /* records kept beyond the window */
    RING_MAX = 256,
    RUNS_MAX = 64,        /* queries at once */
    GAP_STEPS = 3,        /* a field older than this many steps is missing */
    SKEW_ROUNDS = 6,      /* the samples' own clock is asked for every so many rounds */
    HEALTH_CLOCK = FIELD_COUNT,
    HEALTH_SAMPLES,
    HEALTH_PODS_API,
    HEALTH_COUNT
};

/* A target and what it counts from round to round. */
struct slot {
    bool used;
    uint64_t first_round;     /* records before belong to another */
    struct collect_target t;
    char *own[FIELD_COUNT];   /* its own queries, or NULL */
    int n_own;
};

/* Samples of one field of one target in the round under way. */
struct acc {
    double sum, lo, hi;
    int32_t n;
    int32_t rank;             /* of the source they came from */
    int64_t oldest_us;        /* decision clock */
    int64_t stamp_us;         /* of the last one, the server's clock */
};

/* A counter's last reading. */
struct counter {
    bool known;
    double v;
    int64_t stamp_us;         /* the server's clock */
    float rate;               /* the last one formed, for a repeated time stamp */
};

/* The queries of a round in their order. */
enum job_kind { JOB_CLOCK, JOB_SAMPLES, JOB_ALL, JOB_TARGET, JOB_OWN, JOB_END };
struct job {
    enum job_kind kind;
    int at;                   /* number within the kind */
    int query;                /* index into queries, of JOB_ALL and JOB_TARGET */
    int target;               /* of JOB_TARGET and JOB_OWN, else -1 */
    enum field field;         /* of JOB_OWN */
};

struct run {
    struct collect *c;
    bool busy;
    struct job job;
    prom_id id;
    struct prom_result result;
    struct buf text;
};

/* Outlives the collector while the API server's answer is awaited. */
struct pods_ticket {
    struct collect *c;        /* NULL once that is gone */
    bool pending;
};

struct collect {
    struct collect_opts o;
    const struct queries_cfg *cfg;
    struct queries queries;
    int need;                 /* records that make a window */
    int ring;                 /* records kept */
    struct slot *slot;        /* [max_targets] */
    int end;                  /* places from here on are empty; of this round */
    int32_t *table;           /* [table_size] slots by namespace and name, -1 empty */
    size_t table_size;
    struct buf namespaces;    /* regular expression; empty: all */
    bool table_dirty;

    float *value;             /* [max_targets][ring][FIELD_COUNT] */
    int64_t *oldest_us;       /* [max_targets][ring]; 0: no field */
    int64_t *t_us;            /* [ring] decision time of each record */
    uint64_t closed;          /* records ever; the newest is at (closed - 1) % ring */

    struct acc *acc;          /* [max_targets][FIELD_COUNT] */
    struct counter *counter;  /* [max_targets][FIELD_COUNT] */

    bool in_round, closing;
    int64_t round_now_us, round_wall_us, round_mono_us;
    struct job next;
    struct run run[RUNS_MAX];
    int n_runs, n_busy;
    bool clock_waiting;       /* nothing else starts before the first time() */
    struct pods_ticket *ticket;

    struct collect_health health[HEALTH_COUNT]; /* of the round under way ... */
    struct collect_health shown[HEALTH_COUNT];  /* ... and of the last complete one */
    bool health_on[HEALTH_COUNT];
    struct collect_status status;
};

/* ---- ring.c ---- */
void ring_reset(struct collect *c, int slot);
void ring_clear(struct collect *c);  /* all targets */
/* The round under way becomes a record of every target. */
void ring_close(struct collect *c);

/* ---- spread.c ---- */
void spread_begin(struct collect *c);
/* Samples of an answer to where they belong. */
void spread_result(struct collect *c, const struct query *q, int target, const struct prom_result *r);
/* One value of a target, already in the field's unit; at_us on the decision clock, stamp_us on the server's. */
void spread_add(struct collect *c, int target, enum field f, double v, int rank, int64_t at_us, int64_t stamp_us);
/* False when the value counts as missing; 1 to 1.05 of a fraction becomes 1. */
bool spread_judge(enum field f, double *v);
/* Decision time of a sample stamped by the server; *stale when too old to count. */
int64_t spread_time(struct collect *c, int64_t t_us, struct collect_health *h, bool *stale);
void spread_table(struct collect *c); /* after targets changed */
int spread_find(const struct collect *c, const char *namespace, const char *name, const char *kind); /* -1 */

/* ---- pods_api.c ---- */
#define PODS_API_PATH "/apis/metrics.k8s.io/v1beta1/pods"
void pods_api_start(struct collect *c);
void pods_api_orphan(struct collect *c); /* the collector goes */
/* Reads a PodMetricsList.  Errors: ERR_PARSE, ERR_LIMIT. */
NODISCARD enum err_code pods_api_read(struct collect *c, const char *body, size_t n, struct err *e);
/* "250m", "12345678n", "64Mi", "1.5Gi", "1e3": false when it is no quantity. */
bool pods_api_quantity(const char *s, double *v);

/* ---- collect.c ---- */
void collect_failed(struct collect_health *h, const char *what, const struct err *e);
void collect_close_if_done(struct collect *c);

#endif
