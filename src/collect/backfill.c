#include "collect/backfill.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/mem.h"
#include "base/tz.h"
#include "collect/part.h"

enum { PARALLEL_MAX = 8, POINTS_MIN = 60, KEY_MAX = 64 * 1024 };
static const int64_t TURN_US = 200 * 1000; /* longest wait between two looks at `progress` */

/* One span of one query: fetched, or found in the part file. */
struct span {
    size_t query;
    int64_t first_us, last_us;
    bool kept; /* as `piece` of the part file; else to be fetched */
    struct part_piece piece;
};

/* Spans are taken in order and delivered in order, so that samples of a series arrive sorted; up to
 * `parallel` of them are under way. */
struct slot {
    struct run *run;
    struct span span;
    bool done;
    enum err_code rc;
    struct err err;
    prom_id id;
    struct prom_result result;
};

struct run {
    const struct backfill *b;
    const struct import_cfg *cfg;
    struct raw *raw;
    struct backfill_report *out;
    struct part *part;
    struct intern *names; /* "3{labels}" -> place in series[] */
    size_t *series;       /* index in raw */
    size_t n_series, size_series;
    struct buf key;
    uint32_t file;
    uint64_t lines;
    struct slot slot[PARALLEL_MAX];
    int head, n_busy; /* a ring of slots */
    struct span next; /* where planning stands */
    int64_t done;     /* points delivered */
};

/* ---- planning -----------------------------------------------------------------------------------
 */

static uint64_t key_of(const struct run *r, size_t query)
{
    struct hash h = hash_init(0);
    hash_str(&h, prom_url(r->b->prom));
    hash_str(&h, r->b->queries[query].query);
    return hash_value(&h);
}

static int64_t points(const struct run *r, int64_t first_us, int64_t last_us)
{
    return (last_us - first_us) / r->b->step_us + 1;
}

/* The next span from r->next.first_us of r->next.query on; false at the end of all queries. */
static bool take_span(struct run *r, struct span *out)
{
    const struct backfill *b = r->b;
    if (r->next.query == b->n_queries)
        return false;
    int64_t at = r->next.first_us, last = b->end_us;
    uint64_t key = key_of(r, r->next.query);
    struct part_piece piece = {0};
    bool kept = r->part && part_find(r->part, key, b->step_us, at, &piece);
    if (kept) {
        last = piece.last_us < b->end_us ? piece.last_us : b->end_us;
    } else {
        int64_t until = r->part ? part_next(r->part, key, b->step_us, at) : INT64_MAX;
        int64_t end = until <= b->end_us ? until - b->step_us : b->end_us;
        struct prom_chunks c = prom_chunks(at, end, b->step_us, PROM_POINTS_MAX);
        (void)prom_chunks_next(&c, &at, &last);
    }
    *out = (struct span){r->next.query, at, last, kept, piece};
    r->next.first_us = last + b->step_us;
    if (last >= b->end_us)
        r->next = (struct span){.query = r->next.query + 1, .first_us = b->start_us};
    return true;
}

/* ---- delivering ---------------------------------------------------------------------------------
 */

/* The raw series of a query's label set; labels is not NUL-terminated. */
static enum err_code series_of(struct run *r, size_t query, const char *labels, size_t n,
                               size_t *index, struct err *e)
{
    uint32_t id;
    buf_clear(&r->key);
    buf_fmt(&r->key, "%zu", query);
    size_t brace = r->key.n;
    buf_add(&r->key, labels, n);
    enum err_code rc = buf_check(&r->key, NULL)
                           ? err_set(e, ERR_LIMIT, "labels of more than %d bytes", KEY_MAX)
                           : intern_id(r->names, r->key.p, r->key.n, &id, e);
    if (rc)
        return rc;
    if (id == r->n_series) {
        const struct backfill_query *q = &r->b->queries[query];
        if (r->n_series == r->size_series) {
            r->size_series = r->size_series ? 2 * r->size_series : 64;
            r->series = mem_grow(r->series, r->size_series, sizeof *r->series);
        }
        rc = import_series(r->cfg, r->raw, q->field, r->key.p + brace, &r->series[r->n_series], e);
        if (rc)
            return rc;
        r->raw->series[r->series[r->n_series++]].scale *= q->scale;
    }
    *index = r->series[id];
    return ERR_OK;
}

struct delivery {
    struct run *r;
    const struct span *span;
};

static enum err_code deliver(void *ctx, const char *labels, size_t n_labels,
                             const struct prom_sample *s, size_t n, struct err *e)
{
    struct delivery *d = ctx;
    struct run *r = d->r;
    size_t series;
    enum err_code rc = series_of(r, d->span->query, labels, n_labels, &series, e);
    for (size_t i = 0; i < n && !rc; i++) {
        if (s[i].t_us < d->span->first_us || s[i].t_us > d->span->last_us)
            continue; /* of a kept piece that reaches further */
        r->raw->report.rows++;
        r->out->samples++;
        if (s[i].t_us < RAW_TIME_MIN_US || s[i].t_us >= RAW_TIME_MAX_US)
            raw_tally(r->raw, TALLY_TIME_RANGE, r->file, ++r->lines);
        else
            rc = raw_value(r->raw, series, s[i].t_us, s[i].v, r->file, ++r->lines, e);
    }
    return rc;
}

static enum err_code deliver_result(struct run *r, const struct span *span,
                                    const struct prom_result *x, struct err *e)
{
    struct delivery d = {r, span};
    struct buf labels = buf_init(KEY_MAX);
    enum err_code rc = ERR_OK;
    if (x->n_histograms)
        rc = err_set(e, ERR_INVAL, "native histograms: query a quantile or rate of them instead");
    for (size_t i = 0; i < x->n_series && !rc; i++) {
        buf_clear(&labels);
        part_labels(x, &x->series[i], &labels);
        rc = buf_check(&labels, e);
        if (!rc)
            rc =
                deliver(&d, labels.p, labels.n, x->samples + x->series[i].first, x->series[i].n, e);
    }
    buf_fini(&labels);
    if (x->n_warnings && r->out->warnings == 0)
        (void)snprintf(r->out->warning, sizeof r->out->warning, "%s", x->warning[0]);
    r->out->warnings += x->n_warnings;
    return rc;
}

/* An answer is kept, unless it may be partial: then the next import asks again. */
static enum err_code deliver_fetched(struct run *r, const struct span *span,
                                     const struct prom_result *x, struct err *e)
{
    struct part_piece piece = {.key = key_of(r, span->query),
                               .first_us = span->first_us,
                               .last_us = span->last_us,
                               .step_us = r->b->step_us};
    enum err_code rc = r->part && x->n_warnings == 0 ? part_add(r->part, &piece, x, e) : ERR_OK;
    return rc ? rc : deliver_result(r, span, x, e);
}

/* ---- fetching -----------------------------------------------------------------------------------
 */

static struct prom_query query_of(struct run *r, const struct span *span,
                                  struct prom_result *result)
{
    return (struct prom_query){.query = r->b->queries[span->query].query,
                               .start_us = span->first_us,
                               .end_us = span->last_us,
                               .step_us = r->b->step_us,
                               .result = result};
}

static void count(struct run *r, const struct prom_info *info)
{
    r->out->requests += (uint64_t)info->tries;
    r->out->retries += (uint64_t)info->tries - 1;
    r->out->wire_bytes += info->wire_bytes;
    r->out->body_bytes += info->body_bytes;
    r->out->server_us += info->elapsed_us;
    r->out->parse_us += info->parse_us;
}

static void on_done(void *ctx, enum err_code rc, const struct prom_info *info, const struct err *e)
{
    struct slot *s = ctx;
    s->done = true;
    s->rc = rc;
    if (rc)
        s->err = *e;
    count(s->run, info);
}

static enum err_code start(struct run *r, const struct span *span, struct err *e)
{
    struct slot *s = &r->slot[(r->head + r->n_busy) % PARALLEL_MAX];
    s->run = r;
    s->span = *span;
    s->rc = ERR_OK;
    s->id = 0;
    s->done = span->kept;
    struct prom_query q = query_of(r, span, &s->result);
    q.done = on_done;
    q.ctx = s;
    enum err_code rc = s->done ? ERR_OK : prom_start(r->b->prom, &q, &s->id, e);
    r->n_busy += !rc;
    return rc;
}

static bool too_heavy(enum err_code rc, const struct err *e)
{
    return rc == ERR_LIMIT || (rc == ERR_IO && e->sys == ETIMEDOUT);
}

static enum err_code name_span(const struct run *r, const struct span *span, struct err *e)
{
    char from[TZ_TEXT], to[TZ_TEXT];
    tz_format_rfc3339(NULL, span->first_us, from);
    tz_format_rfc3339(NULL, span->last_us, to);
    const struct backfill_query *q = &r->b->queries[span->query];
    r->out->failed = (int)span->query;
    return err_wrap(e, "query of %s, %s to %s", field_get(q->field)->name, from, to);
}

/* The two halves of a span the server finds too heavy, each on its own, halved again where need be. */
static enum err_code fetch_halves(struct run *r, const struct span *span,
                                  struct prom_result *result, struct err *e)
{
    int64_t n = points(r, span->first_us, span->last_us) / 2;
    struct span half[2] = {*span, *span};
    half[0].last_us = span->first_us + (n - 1) * r->b->step_us;
    half[1].first_us = half[0].last_us + r->b->step_us;
    r->out->halved++;
    for (int i = 0; i < 2; i++) {
        struct prom_query q = query_of(r, &half[i], result);
        struct prom_info info = {0};
        enum err_code rc = prom_do(r->b->prom, &q, &info, e);
        if (info.tries)
            count(r, &info);
        if (rc && too_heavy(rc, e) &&
            points(r, half[i].first_us, half[i].last_us) >= 2 * POINTS_MIN)
            rc = fetch_halves(r, &half[i], result, e);
        else if (!rc)
            rc = deliver_fetched(r, &half[i], result, e);
        else
            (void)name_span(r, &half[i], e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

/* The oldest slot, which is done. */
static enum err_code settle(struct run *r, struct err *e)
{
    struct slot *s = &r->slot[r->head];
    struct delivery d = {r, &s->span};
    enum err_code rc = s->rc;
    int64_t n = points(r, s->span.first_us, s->span.last_us);
    if (s->span.kept) {
        rc = part_read(r->part, &s->span.piece, deliver, &d, e);
        r->out->points_kept += n;
    } else if (!rc) {
        rc = deliver_fetched(r, &s->span, &s->result, e);
    } else if (too_heavy(rc, &s->err) && n >= 2 * POINTS_MIN) {
        rc = fetch_halves(r, &s->span, &s->result, e);
    } else {
        if (e)
            *e = s->err;
        (void)name_span(r, &s->span, e);
    }
    r->head = (r->head + 1) % PARALLEL_MAX;
    r->n_busy--;
    r->done += n;
    return rc;
}

/* ---- running ------------------------------------------------------------------------------------
 */

static enum err_code look_around(struct run *r, struct err *e)
{
    const struct backfill *b = r->b;
    if (b->progress && !b->progress(b->ctx, r->done, r->out->points, (int64_t)r->out->samples))
        return err_set(e, ERR_INTERRUPTED, "interrupted");
    return ERR_OK;
}

static enum err_code fill_slots(struct run *r, bool *more, struct err *e)
{
    int most = r->b->parallel < PARALLEL_MAX ? r->b->parallel : PARALLEL_MAX;
    while (*more && r->n_busy < most) {
        struct span span;
        *more = take_span(r, &span);
        enum err_code rc = *more ? start(r, &span, e) : ERR_OK;
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err_code fetch_all(struct run *r, struct err *e)
{
    bool more = true;
    for (;;) {
        enum err_code rc = fill_slots(r, &more, e);
        if (!rc && r->n_busy == 0)
            return ERR_OK;
        if (!rc && r->slot[r->head].done)
            rc = settle(r, e);
        else if (!rc) {
            int64_t wait = prom_tick(r->b->prom);
            (void)http_poll(r->b->http, wait < TURN_US ? wait : TURN_US);
        }
        if (!rc)
            rc = look_around(r, e);
        if (rc)
            return rc;
    }
}

static void cancel_all(struct run *r)
{
    for (int i = 0; i < PARALLEL_MAX; i++) {
        struct slot *s = &r->slot[i];
        if (s->id && !s->done)
            prom_cancel(r->b->prom, s->id);
        prom_result_fini(&s->result);
    }
}

static enum err_code check(const struct backfill *b, struct err *e)
{
    bool aligned = b->step_us > 0 && b->start_us % b->step_us == 0 && b->end_us % b->step_us == 0;
    if (!aligned || b->end_us < b->start_us || b->parallel < 1)
        return err_set(e, ERR_INVAL, "a range or step that is none");
    if (b->n_queries == 0 || b->n_queries > BACKFILL_QUERIES_MAX)
        return err_set(e, ERR_INVAL, "%zu queries; 1 to %d are possible", b->n_queries,
                       BACKFILL_QUERIES_MAX);
    return ERR_OK;
}

enum err_code backfill_run(const struct backfill *b, const struct import_cfg *cfg, struct raw *raw,
                           struct backfill_report *out, struct err *e)
{
    *out = (struct backfill_report){.failed = -1};
    enum err_code rc = check(b, e);
    if (rc)
        return rc;
    struct run *r = mem_zero(1, sizeof *r);
    *r = (struct run){.b = b, .cfg = cfg, .raw = raw, .out = out, .next.first_us = b->start_us};
    r->key = buf_init(KEY_MAX);
    r->names = intern_new(RAW_SERIES_MAX);
    out->points = points(r, b->start_us, b->end_us) * (int64_t)b->n_queries;
    rc = raw_file(raw, prom_url(b->prom), &r->file, e);
    if (!rc && b->part)
        rc = part_open(b->part, &r->part, e);
    if (!rc)
        rc = fetch_all(r, e);
    cancel_all(r);
    part_close(r->part);
    intern_free(r->names);
    mem_free(r->series);
    buf_fini(&r->key);
    mem_free(r);
    return rc;
}
