#include "history/grid.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/opt.h"
#include "history/table.h"

enum { SAMPLED_DIFFS = 200000 };
static const double WINDOW = 0.05;       /* half width of the jitter window, relative */
static const double REGULAR_SHARE = 0.3; /* below it there is no step to speak of */
static const double PI = 3.14159265358979323846;

/* Majority vote (Boyer & Moore 1981): one pass finds the only value that can hold more than half.
 */
struct vote {
    int64_t value;
    int64_t lead;
};

static void vote_add(struct vote *v, int64_t x)
{
    if (v->lead == 0)
        v->value = x;
    v->lead += x == v->value ? 1 : -1;
}

/* Calls fn for each positive difference of neighbours. */
static uint64_t each_diff(const struct raw *r, void (*fn)(int64_t d, void *arg), void *arg)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->n_series; i++) {
        const struct raw_series *s = &r->series[i];
        for (size_t k = 1; k < s->n; k++) {
            int64_t d = s->s[k].t_us - s->s[k - 1].t_us;
            if (d <= 0)
                continue;
            fn(d, arg);
            n++;
        }
    }
    return n;
}

static void vote_diff(int64_t d, void *arg)
{
    vote_add(arg, d);
}

struct near {
    int64_t value, slack;
    uint64_t n;
};

static void count_near(int64_t d, void *arg)
{
    struct near *c = arg;
    c->n += d >= c->value - c->slack && d <= c->value + c->slack;
}

struct sample {
    int64_t *d;
    uint64_t every, seen;
    size_t n;
};

static void take_diff(int64_t d, void *arg)
{
    struct sample *s = arg;
    if (s->seen++ % s->every == 0 && s->n < SAMPLED_DIFFS)
        s->d[s->n++] = d;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Mean of the differences within a quarter of `about`: two such steps apart is out of reach. */
static double mean_near(const int64_t *d, size_t n, double about)
{
    double sum = 0;
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs((double)d[i] - about) <= about / 4) {
            sum += (double)d[i];
            k++;
        }
    return k ? sum / (double)k : about;
}

/* Clocks are set in whole minutes, seconds or milliseconds: the roundest of them within 0.5 %. */
static int64_t round_step(double us)
{
    static const double units[] = {60e6, 1e6, 1e3};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        double rounded = round(us / units[i]) * units[i];
        if (rounded > 0 && fabs(rounded - us) <= us / 200)
            return (int64_t)rounded;
    }
    return (int64_t)us;
}

/* The fullest window [d, d * (1 + 2 WINDOW)], its centre made precise by two means around it. */
static int64_t fullest_window(int64_t *d, size_t n)
{
    size_t best = 0, best_n = 0, hi = 0;
    qsort(d, n, sizeof *d, by_value);
    for (size_t lo = 0; lo < n; lo++) {
        while (hi < n && (double)d[hi] <= (double)d[lo] * (1 + 2 * WINDOW))
            hi++;
        if (hi - lo > best_n) {
            best = lo;
            best_n = hi - lo;
        }
    }
    double about = mean_near(d, n, (double)d[best + best_n / 2]);
    return round_step(mean_near(d, n, about));
}

static enum err_code jittered_step(const struct raw *r, uint64_t n, int64_t *step, struct err *e)
{
    struct sample s = {.every = n / SAMPLED_DIFFS + 1};
    s.d = try_zero(SAMPLED_DIFFS, sizeof *s.d);
    if (!s.d)
        return err_set(e, ERR_NOMEM, "time differences");
    (void)each_diff(r, take_diff, &s);
    *step = fullest_window(s.d, s.n);
    mem_free(s.d);
    return ERR_OK;
}

/* native_us 0 when there are no differences. */
static enum err_code detect(const struct raw *r, struct grid *g, struct err *e)
{
    struct vote v = {0, 0};
    uint64_t n = each_diff(r, vote_diff, &v);
    if (n == 0) {
        g->native_us = 0;
        g->share = NAN;
        return ERR_OK;
    }
    struct near c = {.value = v.value, .slack = 0};
    (void)each_diff(r, count_near, &c);
    if (2 * c.n <= n) {
        enum err_code rc = jittered_step(r, n, &c.value, e);
        if (rc)
            return rc;
        c.slack = c.value / 4;
        c.n = 0;
        (void)each_diff(r, count_near, &c);
    }
    g->native_us = c.value;
    g->share = (double)c.n / (double)n;
    return ERR_OK;
}

static int64_t residue(int64_t t, int64_t step)
{
    return t - step * grid_floor_div(t, step);
}

/* The residue most stamps share, else their circular mean, else 0 when they have no direction. */
static int64_t find_phase(const struct raw *r, const struct grid *g)
{
    struct vote v = {0, 0};
    double x = 0, y = 0;
    uint64_t n = 0, same = 0;
    for (size_t i = 0; i < r->n_series; i++)
        for (size_t k = 0; k < r->series[i].n; k++)
            vote_add(&v, residue(r->series[i].s[k].t_us + g->shift_us, g->step_us));
    for (size_t i = 0; i < r->n_series; i++)
        for (size_t k = 0; k < r->series[i].n; k++, n++)
            same += residue(r->series[i].s[k].t_us + g->shift_us, g->step_us) == v.value;
    if (2 * same >= n)
        return v.value;
    for (size_t i = 0; i < r->n_series; i++)
        for (size_t k = 0; k < r->series[i].n; k++) {
            int64_t res = residue(r->series[i].s[k].t_us + g->shift_us, g->step_us);
            double angle = 2 * PI * (double)res / (double)g->step_us;
            x += cos(angle);
            y += sin(angle);
        }
    if (hypot(x, y) < 0.5 * (double)n)
        return 0;
    double turn = atan2(y, x) / (2 * PI);
    int64_t unit = g->step_us >= 5000000 ? 1000000 : 1000; /* below it jitter is all there is */
    return residue((int64_t)llround(turn * (double)g->step_us / (double)unit) * unit, g->step_us);
}

static enum err_code no_step(const struct grid *g, struct err *e)
{
    char text[32];
    if (g->native_us == 0)
        return err_set(e, ERR_MISSING, "only one time: a step cannot be told from it, give `step`");
    opt_format_duration(g->native_us, text);
    return err_set(
        e, ERR_PARSE,
        "no regular step: the most common, %s, holds for %.0f %% of the rows; give `step`, or "
        "`events: true` when each row is one request",
        text, 100 * g->share);
}

enum err_code grid_find(struct raw *r, int64_t step_us, bool stamps_end, struct grid *out,
                        struct err *e)
{
    struct grid g = {.share = NAN};
    if (r->n_usable == 0)
        return err_set(e, ERR_MISSING, "no usable values");
    for (size_t i = 0; i < r->n_series; i++)
        raw_sort(&r->series[i]);
    enum err_code rc = detect(r, &g, e);
    if (rc)
        return rc;
    if (step_us == 0) {
        if (g.native_us == 0 || g.share < REGULAR_SHARE)
            return no_step(&g, e);
        g.step_us = g.native_us;
    } else {
        g.step_us = step_us;
        g.coarse = g.native_us > 0 && 2 * step_us >= 3 * g.native_us;
        if (!g.coarse)
            g.native_us = step_us;
    }
    if (g.step_us > HISTORY_STEP_MAX_US) { /* no file could hold it */
        char text[32];
        opt_format_duration(g.step_us, text);
        return err_set(e, ERR_RANGE, "the times are %s apart, at most 366d: is one of them wrong?", text);
    }
    g.shift_us = stamps_end ? -g.native_us : 0;
    g.phase_us = g.coarse ? 0 : find_phase(r, &g);
    *out = g;
    return ERR_OK;
}

struct grid grid_of_events(int64_t step_us)
{
    return (struct grid){.native_us = step_us, .step_us = step_us, .share = NAN, .coarse = true};
}
