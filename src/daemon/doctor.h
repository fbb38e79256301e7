/* doctor.h - is this cluster ready for sluice, and sluice for its stage?  Twelve checks, each
 * explained.
 *
 * They are the twelve steps of the go-live checklist (docs/operations.md), in the same order under
 * the same names.  A check says what was seen and, unless all is well, what to do.  One that cannot
 * be made (Prometheus is down, so nothing can be said about its history) is skipped and says what
 * it waits for: one cause, one failure.
 *
 *   ok     as it should be
 *   warn   works; somebody should know, or a promotion should wait
 *   fail   sluice would not do its work, or not safely
 *   skip   could not be looked at
 *
 * Reads only: the client refuses every write, the store is opened read-only.  Runs from anywhere
 * with a configuration; inside a replica's pod it sees what the replica sees (its account, its
 * network, its disk).  One thread. */
#ifndef DAEMON_DOCTOR_H
#define DAEMON_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "daemon/config.h"

/* X(id, name, why) */
#define DOCTOR_CHECK_LIST(X)                                                                       \
    X(API_ACCESS, "api-access", "without the API server nothing is seen or done")                  \
    X(CRD, "crd", "only what a CapacityTarget names is ever acted on")                             \
    X(PERMISSIONS, "permissions", "what the stage needs, and nothing more")                        \
    X(PROMETHEUS, "prometheus", "without measurements every target holds")                         \
    X(QUERIES, "queries", "each field of each target answers with one fresh sample")               \
    X(HISTORY, "history", "forecasts learn a daily rhythm from 14 days")                           \
    X(CLOCK_SKEW, "clock-skew", "samples are judged by their age")                                 \
    X(OWNERSHIP, "ownership", "two controllers on one size fight")                                 \
    X(PROFILE, "profile", "a decision is as good as its target, limits and prices")                \
    X(START_UP, "start-up", "capacity must be asked for this much ahead")                          \
    X(STORE_AND_FREEZE, "store-and-freeze",                                                        \
      "what cannot be recorded is not done; what runs must be stoppable")                          \
    X(STAGE, "stage", "a week of proof comes before every promotion")

enum doctor_check {
#define X(id, name, why) DOCTOR_##id,
    DOCTOR_CHECK_LIST(X)
#undef X
        DOCTOR_CHECKS
};
const char *doctor_check_name(enum doctor_check c);
const char *doctor_check_why(enum doctor_check c);

enum doctor_verdict {
    DOCTOR_OK,
    DOCTOR_SKIP,
    DOCTOR_WARN,
    DOCTOR_FAIL,
    DOCTOR_VERDICTS
}; /* worse is greater */
const char *doctor_verdict_name(enum doctor_verdict v);

enum { DOCTOR_NOTES_MAX = 200 }; /* of one check; more are counted */

struct doctor_note {
    enum doctor_verdict verdict;
    char *about; /* "shop/api", "query qps"; "" for the whole */
    char *seen;
    char *todo; /* "" when there is nothing to do */
};
struct doctor_result {
    enum doctor_verdict verdict; /* the worst of its notes */
    struct doctor_note *notes;
    size_t n, hidden;
};
struct doctor_report {
    char cluster[64], stage[16], account[600];
    struct doctor_result check[DOCTOR_CHECKS];
};

struct doctor_opts {
    const struct run_config *config; /* as `sluice run` would load it; borrowed */
    const char *const
        *replicas; /* base URLs of the replicas' endpoints; none: the configuration's own port */
    size_t n_replicas;
    const char *token_file;  /* for them; NULL: serve.token_file */
    const char *ca_file;     /* NULL: serve.cert_file, whose own key proves it */
    const char *server_name; /* name the certificate is for; NULL: the URL's host */
    int64_t
        wait_us; /* longest wait for the cluster's lists and for one round of queries; 0: 60 s */
    void (*progress)(void *ctx, enum doctor_check c); /* before each check; may be NULL */
    void *ctx;
    struct log *log;
};

/* Runs all twelve.  What is wrong with the cluster goes into the report; an error is of the doctor
 * itself (memory, limits). Release with doctor_fini whatever the result. */
NODISCARD enum err_code doctor_run(const struct doctor_opts *o, struct doctor_report *out,
                                   struct err *e);
void doctor_fini(struct doctor_report *r);
size_t doctor_count(const struct doctor_report *r,
                    enum doctor_verdict v); /* checks with this verdict */

/* For people; `all`: also what is well in checks that are not.  Outside text is made safe for a
 * terminal. */
void doctor_write_text(const struct doctor_report *r, bool all, struct buf *out);
void doctor_write_json(const struct doctor_report *r, struct buf *out);

#endif
