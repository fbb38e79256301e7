/* backfill.h - months of a running Prometheus into raw samples, in chunks, resumable.
 *
 * Every (query, span) fetched is appended to PART at once, with a checksum.  An import that is interrupted
 * and started again fetches what PART does not cover yet: chunks are cut at fixed times, so they fit
 * whatever the new range is. A chunk the server finds too heavy is halved and tried again.  docs/collect.md
 * has the file's layout. */
#ifndef COLLECT_BACKFILL_H
#define COLLECT_BACKFILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "history/import.h"
#include "history/raw.h"
#include "prom/client.h"

enum { BACKFILL_QUERIES_MAX = 64 };
struct backfill_query {
    enum field field;
    const char *query; /* PromQL, ready to send; borrowed */
    double scale;      /* on top of the import's own */
};
struct backfill {
    struct prom *prom;
    struct http_client *http;
    const struct backfill_query *queries;
    size_t n_queries;
    int64_t start_us, end_us, step_us; /* multiples of step_us; end included */
    int parallel;                      /* queries at once */
    const char *part;                  /* path of the file that makes it resumable; NULL: none */
    /* Now and then: points (steps times queries) done of all, kept: of them from PART.  May be NULL.  False
     * stops. */
    bool (*progress)(void *ctx, int64_t done, int64_t all, int64_t samples);
    void *ctx;
};
struct backfill_report {
    int64_t points, points_kept;  /* asked for; of them found in PART */
    uint64_t requests, retries, halved;
    uint64_t samples;
    int64_t wire_bytes, body_bytes;
    int64_t server_us, parse_us;  /* waiting for answers; reading them */
    uint64_t warnings;
    char warning[256];            /* the first */
    int failed;                   /* index of the query that failed; -1: none did */
};
/* Fills raw with one series per (field, label set), cfg's options applied.  Errors: those of prom_query,
 * with the field and the span (which query: out->failed); ERR_INTERRUPTED; what came so far is in PART. */
NODISCARD enum err_code backfill_run(const struct backfill *b, const struct import_cfg *cfg, struct raw *raw,
                                     struct backfill_report *out, struct err *e);

#endif
