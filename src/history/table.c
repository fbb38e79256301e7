#include "history/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

/* Columns start on cache lines. */
static size_t padded(int64_t n)
{
    size_t per_line = MEM_ALIGN / sizeof(float);
    return ((size_t)n + per_line - 1) / per_line * per_line;
}

enum err_code history_new(int64_t start_us, int64_t step_us, int64_t n, const bool has[FIELD_COUNT],
                          struct history *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    if (n < 1 || n > HISTORY_SAMPLES_MAX)
        return err_set(e, ERR_LIMIT,
                       "%" PRId64 " steps (at most %" PRId64
                       "): is a stray time far from the rest, or the "
                       "step too small?",
                       n, HISTORY_SAMPLES_MAX);
    size_t n_cols = 0, stride = padded(n);
    for (int f = 0; f < FIELD_COUNT; f++)
        n_cols += has[f];
    struct history_owner *owner = mem_zero(1, sizeof *owner);
    owner->cols = try_zero_aligned(stride * (n_cols ? n_cols : 1), sizeof(float));
    owner->bars = try_zero((size_t)n, 1);
    out->owner = owner;
    if (!owner->cols || !owner->bars) {
        history_close(out);
        return err_set(e, ERR_NOMEM, "%zu columns of %" PRId64 " samples", n_cols, n);
    }
    float *next = owner->cols;
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!has[f])
            continue;
        for (int64_t i = 0; i < n; i++)
            next[i] = NAN;
        out->col[f] = next;
        next += stride;
    }
    out->barred = owner->bars;
    out->start_us = start_us;
    out->step_us = step_us;
    out->n = n;
    return ERR_OK;
}

float *history_col(struct history *h, enum field f)
{
    struct history_owner *owner = h->owner;
    ASSERT(owner && !owner->map);
    return h->col[f] ? owner->cols + (h->col[f] - owner->cols) : NULL;
}

uint8_t *history_barred(struct history *h)
{
    struct history_owner *owner = h->owner;
    ASSERT(owner && !owner->map);
    return owner->bars;
}

uint64_t history_hash(const struct history *h)
{
    struct hash x = hash_init(0);
    hash_i64(&x, h->start_us);
    hash_i64(&x, h->step_us);
    hash_i64(&x, h->n);
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!h->col[f])
            continue;
        hash_str(&x, field_get((enum field)f)->name);
        hash_bytes(&x, h->col[f], (size_t)h->n * sizeof(float));
    }
    hash_bytes(&x, h->barred, (size_t)h->n);
    return hash_value(&x);
}

void history_close(struct history *h)
{
    struct history_owner *owner = h->owner;
    if (owner) {
        if (owner->map) {
            file_map_close(owner->map);
            mem_free(owner->map);
        }
        mem_free(owner->cols);
        mem_free(owner->bars);
        mem_free(owner);
    }
    memset(h, 0, sizeof *h);
}
