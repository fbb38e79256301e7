/* past.h - the past of new targets from Prometheus, read in a thread of its own.
 *
 * For each target asked for: load as 5-min means for the forecaster, and load, latency and units from which the latency
 * curve is calibrated.  The thread has its own http_client; months of samples never hold up a decision.  One target at a
 * time, in the order asked.  Results are taken by the main thread. */
#ifndef DAEMON_PAST_H
#define DAEMON_PAST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "collect/queries.h"
#include "sim/calibrate.h"

struct past_opts {
    const struct http_server_opts *server; /* of Prometheus; texts borrowed */
    const struct queries_cfg *queries;     /* borrowed */
    int64_t span_us;
    int64_t timeout_us;
    struct log *log;
    void (*ready)(void *ctx);              /* from the thread: a result can be taken */
    void *ctx;
};

struct past_question {
    int slot;
    char uid[64];          /* of the target: a slot may have been given to another meanwhile */
    char namespace_[254], name[254], kind[64];
    double slo_ms;         /* 0: unknown; no curve then */
    int64_t until_us;      /* wall clock */
    const char *own[FIELD_COUNT]; /* its own queries in place of the configured ones; copied by past_ask, NULL in answers */
};

struct past_answer {
    struct past_question asked;
    enum err_code rc;      /* of reading */
    struct err error;
    int64_t start_us;      /* of the first point, a multiple of 5 min; wall clock */
    int32_t n_points;
    float *point;          /* [n_points] mean load, NaN missing; owned */
    bool calibrated;
    struct calibration curve;
    char note[256];        /* why there is no curve */
};

struct past;
NODISCARD enum err_code past_start(const struct past_opts *o, struct past **out, struct err *e);
void past_stop(struct past *p); /* NULL is fine; ends a running read */
/* False when 2,000 wait already. */
bool past_ask(struct past *p, const struct past_question *q);
bool past_take(struct past *p, struct past_answer *out); /* false: nothing is ready */
void past_answer_fini(struct past_answer *a);
size_t past_waiting(struct past *p);

#endif
