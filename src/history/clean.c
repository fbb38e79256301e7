#include "history/clean.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/opt.h"
#include "history/grid.h"
#include "history/table.h"

/* One field's steps while its series are combined. */
struct acc {
    double *v;
    uint32_t *n; /* series that had the step */
    int64_t len;
    enum raw_combine how;
};

static double combine(enum raw_combine how, double a, double b)
{
    switch (how) {
    case RAW_SUM:
    case RAW_MEAN:
        return a + b;
    case RAW_MAX:
        return a > b ? a : b;
    case RAW_MIN:
        return a < b ? a : b;
    case RAW_LAST:
        break;
    }
    return b;
}

static void acc_add(struct acc *a, int64_t i, double v)
{
    a->v[i] = a->n[i] ? combine(a->how, a->v[i], v) : v;
    a->n[i]++;
}

/* v0 at step i0 and v1 at i1 <= i0 + GAP_STEPS: what lies between. */
static double between(int64_t i, int64_t i0, double v0, int64_t i1, double v1, bool is_load)
{
    return is_load ? v0 + (v1 - v0) * (double)(i - i0) / (double)(i1 - i0) : v0;
}

/* Samples with a value only; the grid is known, so the others have done their part. */
static void drop_missing(struct raw *r, struct raw_series *s)
{
    size_t out = 0;
    for (size_t i = 0; i < s->n; i++)
        if (!isnan(s->s[i].v))
            s->s[out++] = s->s[i];
    r->n_samples -= s->n - out;
    s->n = out;
}

static void rates_of(struct raw *r, struct raw_series *s, const struct grid *g)
{
    size_t out = 0, prev = 0;
    drop_missing(r, s);
    for (size_t i = 1; i < s->n; i++) {
        struct raw_sample a = s->s[prev], b = s->s[i];
        int64_t dt = b.t_us - a.t_us;
        if (dt == 0) { /* a repeat: the last counts */
            raw_tally(r, TALLY_REPEATED, b.file, b.line);
            prev = i;
            continue;
        }
        if (b.v < a.v)
            raw_tally(r, TALLY_RESET, b.file, b.line);
        if (dt <= GAP_STEPS * g->native_us + g->native_us / 2) {
            double growth = b.v >= a.v ? b.v - a.v : b.v;
            s->s[out] = a;
            s->s[out++].v = growth * 1e6 / (double)dt;
        }
        prev = i;
    }
    r->n_samples -= s->n - out;
    r->n_usable -= s->n - out;
    s->n = out;
}

/* The factor that makes a count a rate per second. */
static double per_second(const struct raw_series *s, const struct grid *g)
{
    if (s->event)
        return 1e6 / (double)g->step_us;
    double k = s->per_step ? 1e6 / (double)g->native_us : 1;
    if (g->coarse && s->in_step == RAW_SUM)
        k *= (double)g->native_us / (double)g->step_us;
    return k;
}

static enum raw_combine in_step_rule(const struct raw_series *s, const struct grid *g)
{
    return g->coarse && s->in_step == RAW_LAST ? RAW_MEAN : s->in_step;
}

/* Walks the steps of a sorted series: *at is the next sample; *v is the value of one whole step,
 * NaN when none of its rows has one. */
static int64_t next_step(struct raw *r, const struct raw_series *s, const struct grid *g,
                         size_t *at, double *v)
{
    enum raw_combine how = in_step_rule(s, g);
    int64_t index = grid_index(g, s->s[*at].t_us);
    uint64_t n = 0;
    *v = NAN;
    for (; *at < s->n && grid_index(g, s->s[*at].t_us) == index; (*at)++) {
        const struct raw_sample *x = &s->s[*at];
        if (isnan(x->v))
            continue;
        if (n > 0 && how == RAW_LAST)
            raw_tally(r, TALLY_REPEATED, x->file, x->line);
        *v = n++ ? combine(how, *v, x->v) : x->v;
    }
    if (how == RAW_MEAN)
        *v /= (double)n;
    return index;
}

static void add_series(struct raw *r, const struct raw_series *s, const struct grid *g,
                       int64_t first, bool fill, struct acc *a)
{
    double k = per_second(s, g), v_prev = 0;
    int64_t i_prev = -1;
    bool is_load = field_get(s->field)->is_load;
    for (size_t at = 0; at < s->n;) {
        double v;
        int64_t i = next_step(r, s, g, &at, &v) - first;
        if (isnan(v))
            continue;
        v *= k;
        if (fill && i_prev >= 0 && i - i_prev <= GAP_STEPS)
            for (int64_t j = i_prev + 1; j < i; j++, r->report.filled++)
                acc_add(a, j, between(j, i_prev, v_prev, i, v, is_load));
        acc_add(a, i, v);
        i_prev = i;
        v_prev = v;
    }
}

static void acc_write(struct raw *r, const struct acc *a, enum field f, bool absent_is_zero,
                      float *col)
{
    for (int64_t i = 0; i < a->len; i++) {
        double v = a->n[i] && a->how == RAW_MEAN ? a->v[i] / a->n[i] : a->v[i];
        if (a->n[i] && raw_judge(r, f, &v, UINT32_MAX, 0)) /* rates and sums can leave the range */
            col[i] = (float)v;
        else if (!a->n[i] && absent_is_zero)
            col[i] = 0;
    }
}

static enum err_code add_field(struct raw *r, enum field f, const struct grid *g, int64_t first,
                               struct acc *a, float *col, struct err *e)
{
    size_t n_series = 0;
    bool absent_is_zero = false;
    for (size_t i = 0; i < r->n_series; i++)
        n_series += r->series[i].field == f && r->series[i].n > 0;
    a->how = n_series > 1 ? r->across[f] : RAW_LAST;
    if (n_series > 1 && a->how == RAW_LAST)
        return err_set(e, ERR_INVAL, "%s: %zu series and no rule to combine them",
                       field_get(f)->name, n_series);
    memset(a->n, 0, (size_t)a->len * sizeof *a->n);
    for (size_t i = 0; i < r->n_series; i++) {
        const struct raw_series *s = &r->series[i];
        if (s->field != f || s->n == 0)
            continue;
        add_series(r, s, g, first, n_series > 1 && !s->absent_is_zero, a);
        absent_is_zero |= s->absent_is_zero;
    }
    acc_write(r, a, f, absent_is_zero, col);
    return ERR_OK;
}

int64_t clean_zero_gaps(float *x, int64_t n, int64_t run_min)
{
    int64_t changed = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = i;
        while (end < n && x[end] == 0)
            end++;
        if (end - i >= run_min) {
            for (int64_t j = i; j < end; j++)
                x[j] = NAN;
            changed += end - i;
        }
        i = end > i ? end : i + 1;
    }
    return changed;
}

int64_t clean_fill(float *x, int64_t n, bool is_load)
{
    int64_t prev = -1, filled = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            continue;
        if (prev >= 0 && i - prev > 1 && i - prev <= GAP_STEPS) {
            for (int64_t j = prev + 1; j < i; j++)
                x[j] = (float)between(j, prev, (double)x[prev], i, (double)x[i], is_load);
            filled += i - prev - 1;
        }
        prev = i;
    }
    return filled;
}

/* Distances of more than min_steps between neighbours that are both present. */
static uint64_t count_gaps(const float *x, int64_t n, int64_t min_steps)
{
    uint64_t gaps = 0;
    int64_t prev = -1;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            continue;
        gaps += prev >= 0 && i - prev > min_steps;
        prev = i;
    }
    return gaps;
}

static uint64_t count_missing(const float *x, int64_t n)
{
    uint64_t missing = 0;
    for (int64_t i = 0; i < n; i++)
        missing += isnan(x[i]) != 0;
    return missing;
}

static void repair(const struct clean_cfg *cfg, struct history *h, struct import_report *rep)
{
    for (int f = 0; f < FIELD_COUNT; f++) {
        float *x = history_col(h, (enum field)f);
        bool is_load = field_get((enum field)f)->is_load;
        if (!x)
            continue;
        rep->gaps += count_gaps(x, h->n, 1);
        if (is_load && cfg->zero_gap_us > 0) {
            int64_t run = (cfg->zero_gap_us + h->step_us - 1) / h->step_us;
            rep->tally[TALLY_ZERO_GAP].count += (uint64_t)clean_zero_gaps(x, h->n, run);
        }
        rep->filled += (uint64_t)clean_fill(x, h->n, is_load);
        rep->long_gaps += count_gaps(x, h->n, 1);
        rep->missing += count_missing(x, h->n);
    }
}

static void bar(struct history *h, struct import_report *rep)
{
    uint8_t *barred = history_barred(h);
    bool any_load = false;
    for (int f = 0; f < FIELD_COUNT; f++)
        any_load |= h->col[f] && field_get((enum field)f)->is_load;
    memset(barred, any_load ? 0 : 1, (size_t)h->n);
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!h->col[f] || (any_load && !field_get((enum field)f)->is_load))
            continue;
        for (int64_t i = 0; i < h->n; i++) {
            bool missing = isnan(h->col[f][i]) != 0;
            barred[i] = any_load ? barred[i] | missing : barred[i] & missing;
        }
    }
    rep->barred = 0;
    for (int64_t i = 0; i < h->n; i++)
        rep->barred += barred[i];
}

struct span {
    int64_t first, last;
};

static struct span find_span(const struct raw *r, const struct grid *g)
{
    struct span sp = {INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < r->n_series; i++) {
        const struct raw_series *s = &r->series[i];
        if (s->n == 0)
            continue;
        int64_t a = grid_index(g, s->s[0].t_us), b = grid_index(g, s->s[s->n - 1].t_us);
        sp.first = a < sp.first ? a : sp.first;
        sp.last = b > sp.last ? b : sp.last;
    }
    return sp;
}

/* An arrival log starts and ends somewhere inside a step; such a step would read too low. */
static void drop_edges(struct raw *r, const struct grid *g, struct span *sp)
{
    if (sp->last - sp->first < 2)
        return;
    sp->first++;
    sp->last--;
    for (size_t i = 0; i < r->n_series; i++) {
        struct raw_series *s = &r->series[i];
        size_t out = 0;
        for (size_t k = 0; k < s->n; k++) {
            int64_t at = grid_index(g, s->s[k].t_us);
            if (at >= sp->first && at <= sp->last) {
                s->s[out++] = s->s[k];
                continue;
            }
            raw_tally(r, TALLY_EDGE, s->s[k].file, s->s[k].line);
            r->n_usable -= isnan(s->s[k].v) ? 0 : 1;
        }
        s->n = out;
    }
}

static enum err_code fill_columns(struct raw *r, const struct grid *g, int64_t first,
                                  struct history *h, struct err *e)
{
    struct acc a = {.len = h->n};
    enum err_code rc = ERR_OK;
    a.v = try_zero((size_t)h->n, sizeof *a.v);
    a.n = try_zero((size_t)h->n, sizeof *a.n);
    if (!a.v || !a.n)
        rc = err_set(e, ERR_NOMEM, "%" PRId64 " steps", h->n);
    for (int f = 0; f < FIELD_COUNT && !rc; f++)
        if (h->col[f])
            rc = add_field(r, (enum field)f, g, first, &a, history_col(h, (enum field)f), e);
    mem_free(a.v);
    mem_free(a.n);
    return rc;
}

/* One stray time makes a table that is nearly all holes; say so instead. */
static enum err_code check_density(const struct raw *r, const struct span *sp, bool events,
                                   struct err *e)
{
    enum { SMALL = 10000 };
    uint64_t n = (uint64_t)(sp->last - sp->first) + 1, per_value = events ? 10000 : 100;
    if (n <= SMALL || n / per_value < r->n_usable)
        return ERR_OK;
    return err_set(e, ERR_LIMIT,
                   "%zu values for %" PRIu64 " steps: is a stray time far from the rest, or the "
                   "step too small?",
                   r->n_usable, n);
}

static bool is_event_log(const struct raw *r)
{
    for (size_t i = 0; i < r->n_series; i++)
        if (r->series[i].event)
            return true;
    return false;
}

static enum err_code make_grid(const struct clean_cfg *cfg, struct raw *r, bool events,
                               struct grid *g, struct err *e)
{
    if (!events)
        return grid_find(r, cfg->step_us, cfg->stamps_end, g, e);
    if (r->n_usable == 0)
        return err_set(e, ERR_MISSING, "no usable values");
    if (cfg->step_us == 0)
        return err_set(e, ERR_INVAL, "arrivals need a `step` to be counted in");
    for (size_t i = 0; i < r->n_series; i++)
        raw_sort(&r->series[i]);
    *g = grid_of_events(cfg->step_us);
    return ERR_OK;
}

static void note_grid(struct raw *r, const struct grid *g)
{
    r->report.native_step_us = g->native_us;
    r->report.step_share = g->share;
    if (!g->coarse || g->native_us == g->step_us)
        return;
    char native[32], step[32];
    opt_format_duration(g->native_us, native);
    opt_format_duration(g->step_us, step);
    report_note(&r->report,
                "step %s is coarser than the data's %s: each is the mean of its samples", step,
                native);
}

enum err_code clean(const struct clean_cfg *cfg, struct raw *r, struct history *out, struct err *e)
{
    struct grid g;
    bool has[FIELD_COUNT] = {false};
    bool events = is_event_log(r);
    memset(out, 0, sizeof *out);
    enum err_code rc = make_grid(cfg, r, events, &g, e);
    if (rc)
        return rc;
    note_grid(r, &g);
    for (size_t i = 0; i < r->n_series; i++)
        if (r->series[i].counter)
            rates_of(r, &r->series[i], &g);
    if (r->n_usable == 0)
        return err_set(e, ERR_MISSING, "no two values of a counter near enough to form a rate");
    struct span sp = find_span(r, &g);
    rc = check_density(r, &sp, events, e);
    if (rc)
        return rc;
    if (events)
        drop_edges(r, &g, &sp);
    for (size_t i = 0; i < r->n_series; i++)
        has[r->series[i].field] |= r->series[i].n > 0 || events;
    rc = history_new(grid_time(&g, sp.first), g.step_us, sp.last - sp.first + 1, has, out, e);
    if (rc)
        return rc;
    r->report.kept = r->n_usable;
    rc = fill_columns(r, &g, sp.first, out, e);
    if (rc) {
        history_close(out);
        return rc;
    }
    repair(cfg, out, &r->report);
    bar(out, &r->report);
    out->data_hash = history_hash(out);
    return ERR_OK;
}
