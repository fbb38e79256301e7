#include "forecast/window_priv.h"

#include <math.h>
#include <string.h>

const double bound_prob[BOUNDS] = {0.025, 0.10, 0.90, 0.975};

static const double WILD = 20; /* a single load counts at most this many times the mean */

enum { FLAG_MISSING = 1, FLAG_REST = 2, SLOT_SAMPLES = WINDOW_DAYS * SLOT_POINTS };

int window_slot(const struct window *w, int q)
{
    return (w->five + q) % DAY / SLOT_POINTS;
}

bool window_rest(const struct window *w, int q)
{
    return w->five + q < DAY ? w->rest : (w->weekday + 1) % 7 >= 5;
}

static void sort_small(float *v, int n)
{
    for (int i = 1; i < n; i++) {
        float x = v[i];
        int j = i;
        for (; j > 0 && v[j - 1] > x; j--)
            v[j] = v[j - 1];
        v[j] = x;
    }
}

/* Type 7 (base/stats.h), for floats. */
static float quantile_sorted(const float *v, int n, double p)
{
    if (n == 0)
        return NAN;
    double h = p * (n - 1);
    int k = (int)h;
    return k >= n - 1 ? v[n - 1] : v[k] + (float)(h - k) * (v[k + 1] - v[k]);
}

static int merge_sorted(const float *a, int na, const float *b, int nb, float *out)
{
    int i = 0, j = 0, n = 0;
    while (i < na || j < nb)
        out[n++] = j >= nb || (i < na && a[i] <= b[j]) ? a[i++] : b[j++];
    return n;
}

/* Statistics of the slot that starts at newest + q. */
static void refresh_slot(struct window *w, int q)
{
    float kind[2][SLOT_SAMPLES], all[SLOT_SAMPLES];
    int n[2] = {0, 0}, days[2] = {0, 0};
    int rest = window_rest(w, q), slot = window_slot(w, q);
    int64_t first = window_last(w) + q - (w->five + q) % SLOT_POINTS;
    for (int d = 1; d <= WINDOW_DAYS; d++) {
        int64_t j = window_days_back(w, first, d);
        int seen[2] = {0, 0};
        for (int64_t k = j; k < j + SLOT_POINTS; k++) {
            if (!window_has(w, k) || window_missing(w, k))
                continue;
            int r = (w->flags[k & (RING - 1)] & FLAG_REST) != 0;
            kind[r][n[r]++] = window_y(w, k);
            seen[r] = 1;
        }
        days[0] += seen[0];
        days[1] += seen[1];
    }
    sort_small(kind[0], n[0]);
    sort_small(kind[1], n[1]);
    int n_all = merge_sorted(kind[0], n[0], kind[1], n[1], all);
    bool own = days[rest] >= OWN_DAYS_MIN;
    const float *v = own ? kind[rest] : all;
    int nv = own ? n[rest] : n_all;
    struct slot_stats *s = &w->slot[rest][slot];
    s->median = quantile_sorted(v, nv, 0.5);
    s->p95 = quantile_sorted(v, nv, 0.95);
    s->median_all = quantile_sorted(all, n_all, 0.5);
    for (int b = 0; b < BOUNDS; b++)
        s->bound[b] = quantile_sorted(all, n_all, bound_prob[b]);
}

static float median_of_point(const struct window *w, int64_t i)
{
    float v[WINDOW_DAYS];
    int n = 0;
    for (int d = 1; d <= WINDOW_DAYS; d++) {
        int64_t j = window_days_back(w, i, d);
        if (window_has(w, j) && !window_missing(w, j))
            v[n++] = window_y(w, j);
    }
    sort_small(v, n);
    return quantile_sorted(v, n, 0.5);
}

static void refresh_ahead(struct window *w, int q)
{
    int64_t i = window_last(w) + q;
    const struct slot_stats *s = &w->slot[window_rest(w, q)][window_slot(w, q)];
    struct ahead *a = &w->ahead[i & 7];
    a->slot = s->median;
    a->slot_all = s->median_all;
    a->five = median_of_point(w, i);
    if (isnan(a->slot))
        a->slot = a->slot_all = w->level_slow;
    if (isnan(a->five))
        a->five = w->level_slow;
    a->log_slot = logf(a->slot + w->log_shift);
    a->log_five = logf(a->five + w->log_shift);
}

/* Middle of the busiest hour of the profile. */
static void find_peak(struct window *w, int rest)
{
    const struct slot_stats *s = w->slot[rest];
    float best = -1;
    for (int k = 0; k < SLOTS_PER_DAY; k++) {
        float sum = 0;
        for (int j = 0; j < 4; j++)
            sum += s[(k + j) % SLOTS_PER_DAY].median;
        if (sum > best) { /* false for NaN: slots not seen yet */
            best = sum;
            w->peak_slot[rest] = (k + 2) % SLOTS_PER_DAY;
        }
    }
}

float window_hours_to_peak(const struct window *w)
{
    int away = w->peak_slot[w->rest] * SLOT_POINTS - w->five;
    return (float)((away + DAY) % DAY) / 12.0f;
}

static void forget_profile(struct window *w)
{
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < SLOTS_PER_DAY; k++) {
            struct slot_stats *s = &w->slot[r][k];
            s->median = s->median_all = s->p95 = NAN;
            for (int b = 0; b < BOUNDS; b++)
                s->bound[b] = NAN;
        }
}

/* Mean load over about 14 days and, hourly on the first day, daily later, the offset of the
 * logarithm. */
static void update_level(struct window *w, float value, int64_t i)
{
    if (!isnan(value)) {
        bool wild = w->count > DAY && (double)value > WILD * w->sum / w->count;
        w->sum += wild ? WILD * w->sum / w->count : (double)value;
        w->count++;
        w->peak = fmaxf(value, w->peak * 0.99966f); /* half in a week */
        w->level_slow = w->count <= 1 ? value : w->level_slow + 0.01f * (value - w->level_slow);
    }
    if (i % (i < DAY ? 12 : DAY) != 0 && w->count != 1)
        return;
    w->mean = w->count > 0 ? (float)(w->sum / w->count) : 0;
    w->log_shift = 0.02f * w->mean + 1e-9f;
    if (w->count > WINDOW_DAYS * DAY) {
        w->sum *= 0.5;
        w->count *= 0.5;
    }
}

static void append(struct window *w, float value, bool jumped)
{
    int64_t i = w->n++;
    int k = (int)(i & (RING - 1));
    bool missing = isnan(value);
    update_level(w, value, i);
    w->y[k] = missing ? (i ? w->y[(i - 1) & (RING - 1)] : 0) : value;
    w->log_y[k] = logf(w->y[k] + w->log_shift);
    w->flags[k] = (uint8_t)((missing ? FLAG_MISSING : 0) | (w->rest ? FLAG_REST : 0));
    w->since_seen = missing ? w->since_seen + 1 : 0;
    if (i == 0)
        forget_profile(w);
    for (int q = jumped || i == 0 ? 0 : AHEAD; q <= AHEAD; q++) {
        if ((w->five + q) % SLOT_POINTS == 0 || jumped)
            refresh_slot(w, q);
        refresh_ahead(w, q);
    }
    if (i % DAY == 0) {
        find_peak(w, 0);
        find_peak(w, 1);
    }
}

void window_push(struct window *w, int64_t time_us, float value, const struct calendar_point *at)
{
    int five = at->minute / 5;
    bool jumped = false;
    if (w->n > 0) {
        int off = (five - (w->five + 1) + DAY + DAY / 2) % DAY - DAY / 2;
        if (off != 0) {
            w->shift_at = w->n;
            w->shift_by = off;
            jumped = true;
        }
    }
    w->time_us = time_us;
    w->five = five;
    w->weekday = at->weekday;
    w->rest = !calendar_is_workday(at);
    append(w, value, jumped);
}

void window_push_gap(struct window *w)
{
    w->time_us += FORECAST_POINT_US;
    if (++w->five == DAY) {
        w->five = 0;
        w->weekday = (w->weekday + 1) % 7;
        w->rest = w->weekday >= 5;
    }
    append(w, NAN, false);
}
