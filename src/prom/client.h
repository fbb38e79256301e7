/* client.h - queries to one Prometheus (or anything that speaks its API: Thanos, Mimir, VictoriaMetrics).
 *
 * Bodies are parsed while they arrive (result.h); nothing of the JSON is kept.  A query that fails for a
 * passing reason (no connection, cut off, 429, 500, 502, 503, 504) is tried again after a wait with full
 * jitter, or what Retry-After says.  What the query itself got wrong (400, 422, 401 ...) is reported at
 * once.  The time-out of a try is also sent as `timeout=`, so that the server stops working when we stop
 * waiting.  Long queries go as a form.
 *
 * Authentication, TLS, compression are the http_server's and http_client's.  One thread, that of the
 * http_client: prom_start() never calls back; http_poll(), prom_tick(), prom_cancel() and prom_free() do. */
#ifndef PROM_CLIENT_H
#define PROM_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/http.h"
#include "prom/result.h"

/* The server's own limit is 11,000 points of a range per series; we ask for fewer to leave room for
 * rounding. */
enum { PROM_POINTS_MAX = 10000 };

struct prom_opts {
    int64_t timeout_us;   /* of one try; 30 s */
    int attempts;         /* tries in all; 4 */
    int64_t backoff_us, backoff_max_us; /* 250 ms, 10 s */
    size_t form_over;     /* queries longer than this are POSTed; 1500 bytes */
    struct prom_caps caps;
    uint64_t seed;        /* of the jitter */
};
struct prom_opts prom_opts_default(void);

struct prom;
/* Borrows both. */
void prom_new(struct http_client *http, struct http_server *server, const struct prom_opts *o, struct prom **out);
void prom_free(struct prom *p); /* ends what runs with ERR_INTERRUPTED; NULL is fine */
const char *prom_url(const struct prom *p);

/* How it went; valid during the callback. */
struct prom_info {
    int tries;
    int status;            /* HTTP, 0 without an answer */
    int64_t elapsed_us;    /* all tries and waits */
    int64_t last_us;       /* the last try alone */
    int64_t sent_us, received_us; /* our wall clock around the last try */
    int64_t date_us;       /* the Date header, -1 without */
    int64_t wire_bytes, body_bytes;
    int64_t parse_us;      /* of elapsed_us, spent reading the answer */
    bool permanent;        /* the same query would fail again (the query, the credentials) */
};

struct prom_query {
    const char *query;     /* PromQL, copied */
    int64_t time_us;       /* instant: evaluate at; 0 is the server's own now */
    int64_t start_us, end_us, step_us; /* a range when step_us > 0; both ends included */
    int64_t timeout_us;    /* of one try; 0: the options' */
    int64_t deadline_us;   /* all tries and waits; 0: none */
    int attempts;          /* 0: the options' */
    struct prom_caps caps; /* bytes 0: the options' */
    struct prom_result *result; /* the caller's, until done */
    /* Exactly once.  Errors: ERR_INVAL the query is wrong; ERR_LIMIT too many samples for the server or for
     * us; ERR_PARSE the answer; ERR_IO transport or status, e->sys ETIMEDOUT for a time-out on either side;
     * ERR_INTERRUPTED.  With warnings rc is ERR_OK: see result->n_warnings. */
    void (*done)(void *ctx, enum err_code rc, const struct prom_info *info, const struct err *e);
    void *ctx;
};
typedef uint64_t prom_id; /* 0 is none */

/* Errors: ERR_INVAL for an empty query or range; ERR_LIMIT for more than PROM_POINTS_MAX points. */
NODISCARD enum err_code prom_start(struct prom *p, const struct prom_query *q, prom_id *id, struct err *e);
void prom_cancel(struct prom *p, prom_id id);
/* Starts the retries that are due; microseconds until the next one, INT64_MAX for none.  Call it after
 * http_poll. */
int64_t prom_tick(struct prom *p);
size_t prom_running(const struct prom *p);
/* One query to its end; others move along.  q->done is not used; info may be NULL. */
NODISCARD enum err_code prom_do(struct prom *p, const struct prom_query *q, struct prom_info *info, struct err *e);

/* A range in pieces of at most `points` points, aligned so that the same pieces come out for a later range.
 * Start and end are multiples of step_us (prom_align). */
struct prom_chunks {
    int64_t at_us, end_us, step_us;
    int64_t points;
};
int64_t prom_align(int64_t t_us, int64_t step_us); /* down to a multiple */
struct prom_chunks prom_chunks(int64_t start_us, int64_t end_us, int64_t step_us, int64_t points);
bool prom_chunks_next(struct prom_chunks *c, int64_t *first_us, int64_t *last_us); /* both included */

#endif
