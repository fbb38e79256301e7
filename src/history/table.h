/* table.h - a history in memory: one block for the columns, one for the bars.
 *
 * The writer's side of model/history.h.  history_new() gives writable columns, all NaN;
 * history_close() (history/file.h) releases it. */
#ifndef HISTORY_TABLE_H
#define HISTORY_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/history.h"

/* 19 years at 15 s; the message of the limit names what usually causes it. */
#define HISTORY_SAMPLES_MAX (INT64_C(40) * 1000 * 1000)
#define HISTORY_STEP_MAX_US (366 * US_PER_DAY)

/* has[f] tells which columns exist; n > 0.  Errors: ERR_LIMIT, ERR_NOMEM. */
NODISCARD enum err_code history_new(int64_t start_us, int64_t step_us, int64_t n,
                                    const bool has[FIELD_COUNT], struct history *out,
                                    struct err *e);
float *history_col(struct history *h, enum field f); /* NULL where absent */
uint8_t *history_barred(struct history *h);
/* XXH64 over start, step, n, each column's name and bytes, and the bars. */
uint64_t history_hash(const struct history *h);

/* What `owner` points to: a block in memory or a mapped file. */
struct history_owner {
    float *cols;
    uint8_t *bars;
    void *map; /* struct file_map, or NULL */
};
void history_close(struct history *h); /* safe on a zeroed or borrowed history */

#endif
