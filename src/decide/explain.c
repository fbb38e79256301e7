#include "decide/explain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "decide/capacity_priv.h"

/* What a feature speaks for and how it is said.  Features of one family say the same thing in other
 * words: only the strongest of a family is told.  `scale` is what counts as far from ordinary. */
enum family {
    FAM_NONE,
    FAM_GPU,
    FAM_LOAD,
    FAM_LATENCY,
    FAM_QUEUE,
    FAM_SUPPLY,
    FAM_USE,
    FAM_SLOPE,
    FAM_FORECAST,
    FAM_BASE,
    FAM_WAIT,
    FAM_WATER,
    FAM_WEIGHT,
    FAM_CALENDAR,
    FAM_MISSING,
    FAMILIES
};
enum number { NUM_PLAIN, NUM_TENS, NUM_UNITS, NUM_SHARE_WORDS, NUM_BASE, NUM_NONE };

struct wording {
    enum family family;
    int sign; /* +1: high speaks for more units */
    float scale;
    enum number number;
    const char *text; /* with one %g-like conversion unless NUM_NONE */
};

/* clang-format off */
static const struct wording words[CAPACITY_OBS] = {
    [OBS_GPU_USE] = {FAM_GPU, 1, 0.25f, NUM_PLAIN, "GPU use %.2f"},
    [OBS_GPU_MEM] = {FAM_GPU, 0, 1, NUM_PLAIN, "GPU memory use %.2f"},
    [OBS_QPS_OVER_MEDIAN] = {FAM_LOAD, 1, 0.5f, NUM_PLAIN, "QPS %.1fx the same-slot median"},
    [OBS_P50_OVER_TARGET] = {FAM_LATENCY, 1, 0.5f, NUM_PLAIN, "p50 %.1fx the target"},
    [OBS_P99_OVER_TARGET] = {FAM_LATENCY, 1, 0.4f, NUM_PLAIN, "p99 %.1fx the target"},
    [OBS_QUEUE_PER_UNIT] = {FAM_QUEUE, 1, 0.3f, NUM_TENS, "%.0f requests queued per ready unit"},
    [OBS_SIZE] = {FAM_SUPPLY, 0, 1, NUM_PLAIN, "size at %.2f of the maximum"},
    [OBS_READY] = {FAM_SUPPLY, 0, 1, NUM_PLAIN, "%.2f of the units ready"},
    [OBS_WARMING] = {FAM_SUPPLY, -1, 0.3f, NUM_UNITS, "%.0f units warming"},
    [OBS_WARM_YOUNG] = {FAM_SUPPLY, -1, 0.3f, NUM_UNITS, "%.0f units just asked for"},
    [OBS_WARM_MID] = {FAM_SUPPLY, -1, 0.3f, NUM_UNITS, "%.0f units half started"},
    [OBS_WARM_OLD] = {FAM_SUPPLY, -1, 0.3f, NUM_UNITS, "%.0f units nearly started"},
    [OBS_USE_READY] = {FAM_USE, 1, 0.25f, NUM_PLAIN, "demand at %.2f of what the ready units serve in target"},
    [OBS_USE_REQUESTED] = {FAM_USE, 1, 0.2f, NUM_PLAIN, "demand at %.2f of the capacity asked for"},
    [OBS_USE_LAST] = {FAM_USE, 1, 0.3f, NUM_PLAIN, "newest demand at %.2f of the capacity asked for"},
    [OBS_USE_LEVEL] = {FAM_USE, 1, 0.3f, NUM_PLAIN, "half-hour level at %.2f of the capacity asked for"},
    [OBS_USE_PEAK] = {FAM_USE, 1, 0.25f, NUM_PLAIN, "peak of 5 min at %.2f of the capacity asked for"},
    [OBS_SLOPE_1MIN] = {FAM_SLOPE, 1, 0.1f, NUM_PLAIN, "demand %+.2f of capacity within 1 min"},
    [OBS_SLOPE_5MIN] = {FAM_SLOPE, 1, 0.15f, NUM_PLAIN, "demand %+.2f of capacity within 5 min"},
    [OBS_FORECAST_5MIN] = {FAM_FORECAST, 1, 0.25f, NUM_PLAIN, "forecast for 5 min at %.2f of capacity"},
    [OBS_FORECAST_10MIN] = {FAM_FORECAST, 1, 0.25f, NUM_PLAIN, "forecast for 10 min at %.2f of capacity"},
    [OBS_FORECAST_15MIN] = {FAM_FORECAST, 1, 0.25f, NUM_PLAIN, "forecast for 15 min at %.2f of capacity"},
    [OBS_FORECAST_UPPER] = {FAM_FORECAST, 1, 0.25f, NUM_PLAIN, "upper forecast at %.2f of capacity"},
    [OBS_FORECAST_HIGH] = {FAM_FORECAST, 1, 0.3f, NUM_PLAIN, "forecast high water at %.2f of capacity"},
    [OBS_FORECAST_ERROR] = {FAM_FORECAST, 1, 0.15f, NUM_PLAIN, "demand off its forecast by %+.2f of capacity"},
    [OBS_UNCERTAINTY] = {FAM_FORECAST, 1, 0.5f, NUM_PLAIN, "forecast uncertainty %.2f"},
    [OBS_NEED_NOW] = {FAM_USE, 1, 0.2f, NUM_UNITS, "demand needs %.1f units now"},
    [OBS_NEED_MEAN] = {FAM_FORECAST, 1, 0.2f, NUM_UNITS, "forecast needs %.1f units"},
    [OBS_NEED_UPPER] = {FAM_FORECAST, 1, 0.25f, NUM_UNITS, "upper forecast needs %.1f units"},
    [OBS_NEED_HIGH] = {FAM_FORECAST, 1, 0.3f, NUM_UNITS, "95 %% upper forecast needs %.1f units"},
    [OBS_BASE_MOVE] = {FAM_BASE, 1, 0.1f, NUM_BASE, "base policy plans %.0f units"},
    [OBS_WAIT_OUT] = {FAM_WAIT, 0, 1, NUM_PLAIN, "%.2f of the wait before scale-out left"},
    [OBS_WAIT_IN] = {FAM_WAIT, 0, 1, NUM_PLAIN, "%.2f of the wait before scale-in left"},
    [OBS_WATCH] = {FAM_WAIT, 0, 1, NUM_PLAIN, "%.2f of the watch after a scale-in left"},
    [OBS_BREAKER] = {FAM_WAIT, 0, 1, NUM_PLAIN, "%.2f of the breaker's time left"},
    [OBS_RATE_ROOM] = {FAM_WAIT, 0, 1, NUM_PLAIN, "%.2f of the rate cap left"},
    [OBS_FLAP_ROOM] = {FAM_WAIT, 0, 1, NUM_PLAIN, "%.2f of the flap budget left"},
    [OBS_HELD_HIGH] = {FAM_WATER, 1, 0.5f, NUM_PLAIN, "over a high watermark for %.2f of its hold"},
    [OBS_HELD_LOW] = {FAM_WATER, -1, 0.5f, NUM_PLAIN, "under the low watermark for %.2f of its hold"},
    [OBS_HELD_WATER] = {FAM_WATER, 0, 1, NUM_PLAIN, "high water over the mark for %.2f of its hold"},
    [OBS_WEIGHT_LATENCY] = {FAM_WEIGHT, 0, 1, NUM_PLAIN, "latency weight %.1f"},
    [OBS_WEIGHT_COST] = {FAM_WEIGHT, 0, 1, NUM_PLAIN, "cost weight %.1f"},
    [OBS_DAY_SIN] = {FAM_CALENDAR, 0, 1, NUM_NONE, "time of day"},
    [OBS_DAY_COS] = {FAM_CALENDAR, 0, 1, NUM_NONE, "time of day"},
    [OBS_WEEK_SIN] = {FAM_CALENDAR, 0, 1, NUM_NONE, "day of the week"},
    [OBS_WEEK_COS] = {FAM_CALENDAR, 0, 1, NUM_NONE, "day of the week"},
    [OBS_HOUR_SIN] = {FAM_CALENDAR, 0, 1, NUM_NONE, "minute of the hour"},
    [OBS_HOUR_COS] = {FAM_CALENDAR, 0, 1, NUM_NONE, "minute of the hour"},
    [OBS_HOLIDAY] = {FAM_CALENDAR, 0, 1, NUM_NONE, "whether it is a holiday"},
    [OBS_MONTH_END] = {FAM_CALENDAR, 0, 1, NUM_NONE, "whether the month ends"},
    [OBS_QUARTER_END] = {FAM_CALENDAR, 0, 1, NUM_NONE, "whether the quarter ends"},
    [OBS_TO_PEAK] = {FAM_CALENDAR, 0, 1, NUM_SHARE_WORDS, "%.1f h to the usual peak"},
    [OBS_NO_GPU] = {FAM_MISSING, 0, 1, NUM_NONE, "GPU metrics missing"},
    [OBS_NO_LOAD] = {FAM_MISSING, 0, 1, NUM_NONE, "load missing"},
    [OBS_NO_LATENCY] = {FAM_MISSING, 0, 1, NUM_NONE, "latency missing"},
    [OBS_NO_FORECAST] = {FAM_MISSING, 0, 1, NUM_NONE, "no usable forecast"},
};
/* clang-format on */

/* ---- weights ------------------------------------------------------------------------------------
 */
void explain_neutral(float *baseline)
{
    for (int i = 0; i < CAPACITY_OBS; i++)
        baseline[i] = observation_get((enum observation)i)->neutral;
}

void explain_attribute(explain_score_fn *score, void *ctx, const float *obs, const float *baseline,
                       float *weight)
{
    float at[CAPACITY_OBS];
    double sum[CAPACITY_OBS] = {0};
    for (int k = 0; k < EXPLAIN_STEPS; k++) {
        float t = ((float)k + 0.5f) / EXPLAIN_STEPS; /* midpoint rule: exact for quadratics */
        for (int i = 0; i < CAPACITY_OBS; i++)
            at[i] = baseline[i] + t * (obs[i] - baseline[i]);
        for (int i = 0; i < CAPACITY_OBS; i++) {
            float middle = at[i], h = 0.5f / EXPLAIN_STEPS * (obs[i] - baseline[i]);
            if (h == 0)
                continue;
            at[i] = middle + h;
            double above = score(ctx, at);
            at[i] = middle - h;
            sum[i] += above - score(ctx, at); /* the derivative times the step along the path */
            at[i] = middle;
        }
    }
    for (int i = 0; i < CAPACITY_OBS; i++)
        weight[i] = (float)sum[i];
}

void explain_occlusion(explain_score_fn *score, void *ctx, const float *obs, const float *baseline,
                       float *weight)
{
    float at[CAPACITY_OBS];
    memcpy(at, obs, sizeof at);
    double whole = score(ctx, at);
    for (int i = 0; i < CAPACITY_OBS; i++) {
        at[i] = baseline[i];
        weight[i] = (float)(whole - score(ctx, at));
        at[i] = obs[i];
    }
}

void explain_salience(const float *obs, float *weight)
{
    for (int i = 0; i < CAPACITY_OBS; i++) {
        float away = obs[i] - observation_get((enum observation)i)->neutral;
        weight[i] = (float)words[i].sign * away / words[i].scale;
    }
}

/* ---- factors ------------------------------------------------------------------------------------
 */
static int direction(const struct capacity_record *r)
{
    int change = r->executed - r->units_before;
    if (change == 0)
        change = r->proposed - r->units_before; /* what the guard kept from happening */
    return (change > 0) - (change < 0);
}

/* Strongest feature not yet told, among those that speak for `sign` (0: any); -1 when there is
 * none. */
static int strongest(const float *weight, const bool *told, int sign)
{
    int best = -1;
    for (int i = 0; i < CAPACITY_OBS; i++) {
        float w = sign == 0 ? fabsf(weight[i]) : (float)sign * weight[i];
        if (told[words[i].family] || !(w > 1e-6f))
            continue;
        if (best < 0 || w > (sign == 0 ? fabsf(weight[best]) : (float)sign * weight[best]))
            best = i;
    }
    return best;
}

int explain_factors(const struct capacity_record *r, const float *weight,
                    struct explain_factor factor[EXPLAIN_FACTORS])
{
    bool told[FAMILIES] = {false};
    int n = 0, sign = direction(r);
    if (sign != 0 && strongest(weight, told, sign) < 0)
        sign = 0; /* nothing speaks for it: say what there is */
    for (int i = strongest(weight, told, sign); i >= 0 && n < EXPLAIN_FACTORS;
         i = strongest(weight, told, sign)) {
        factor[n++] = (struct explain_factor){(enum observation)i, r->obs[i], weight[i]};
        told[words[i].family] = true;
    }
    return n;
}

static double said(const struct capacity_record *r, const struct explain_factor *f)
{
    switch (words[f->obs].number) {
    case NUM_TENS:
        return 10 * (double)f->value;
    case NUM_UNITS:
        return (double)f->value * (r->units_before > 0 ? r->units_before : 1);
    case NUM_SHARE_WORDS:
        return 24 * (double)f->value;
    case NUM_BASE:
        return r->base_units;
    default:
        return (double)f->value;
    }
}

static void trend_text(const char *what, int steps, char *buf, size_t n)
{
    size_t used = strlen(buf);
    if ((steps >= 2 || steps <= -2) && used < n)
        (void)snprintf(buf + used, n - used, "%s%s for %d steps", what,
                       steps > 0 ? "rising" : "falling", steps > 0 ? steps : -steps);
}

/* The formats are the constants above, each with at most one conversion of a double. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void explain_factor_text(const struct capacity_record *r, const struct explain_factor *f, char *buf,
                         size_t n)
{
    (void)snprintf(buf, n, words[f->obs].text, said(r, f));
    size_t used = strlen(buf);
    if (f->obs == OBS_QPS_OVER_MEDIAN && r->qps > r->slot_p95 && used < n)
        (void)snprintf(buf + used, n - used, ", above its P95");
    if (f->obs == OBS_GPU_USE)
        trend_text(", ", r->gpu_trend, buf, n);
    if (words[f->obs].family == FAM_SLOPE)
        trend_text(", ", r->qps_trend, buf, n);
}
#pragma GCC diagnostic pop

void explain_factors_text(const struct capacity_record *r, const float *weight, char *buf, size_t n)
{
    struct explain_factor factor[EXPLAIN_FACTORS];
    float ordinary[CAPACITY_OBS];
    char text[128];
    if (!weight) {
        explain_salience(r->obs, ordinary);
        weight = ordinary;
    }
    int k = explain_factors(r, weight, factor);
    (void)snprintf(buf, n, "%s", k == 0 ? "nothing out of the ordinary" : "");
    for (int i = 0; i < k; i++) {
        explain_factor_text(r, &factor[i], text, sizeof text);
        size_t used = strlen(buf);
        if (used < n)
            (void)snprintf(buf + used, n - used, "%s%s", i ? "; " : "", text);
    }
}

/* ---- change, rule, guard ------------------------------------------------------------------------
 */
void explain_change_text(const struct capacity_record *r, char *buf, size_t n)
{
    if (r->executed == r->units_before)
        (void)snprintf(buf, n, "%d units, kept", r->units_before);
    else
        (void)snprintf(buf, n, "%d -> %d units", r->units_before, r->executed);
    size_t used = strlen(buf);
    if (r->proposed != r->executed && used < n)
        (void)snprintf(buf + used, n - used, " (%s proposed %d)", r->policy, r->proposed);
}

void explain_rule_text(const struct capacity_record *r, char *buf, size_t n)
{
    if (!r->rule || r->rule_units < 0)
        (void)snprintf(buf, n, "%s", "");
    else if (r->rule_units == r->units_before)
        (void)snprintf(buf, n, "%s would have kept %d", r->rule, r->units_before);
    else
        (void)snprintf(buf, n, "%s would have gone to %d", r->rule, r->rule_units);
}

const struct guard_result *explain_decisive(const struct capacity_record *r)
{
    for (int i = r->n_checks - 1; i >= 0; i--)
        if (r->chain[i].verdict != GUARD_PASS)
            return &r->chain[i];
    return NULL;
}

void explain_guard(const struct capacity_record *r, bool all, struct buf *out)
{
    char text[256];
    if (r->n_checks == 0) {
        buf_str(out, "no guard: the policy runs as published\n");
        return;
    }
    if (!all && !explain_decisive(r)) {
        buf_str(out, "the guard passed it\n");
        return;
    }
    for (int i = 0; i < r->n_checks; i++) {
        const struct guard_result *g = &r->chain[i];
        if (!all && g->verdict == GUARD_PASS)
            continue;
        guard_explain(g, text, sizeof text);
        buf_fmt(out, "%s [%d..%d]\n", text, g->lo, g->hi);
    }
}

void explain_decision(const struct capacity_record *r, const float *weight, bool all,
                      struct buf *out)
{
    char text[512];
    explain_change_text(r, text, sizeof text);
    buf_fmt(out, "%s by %s\n", text, r->policy);
    if (r->error)
        buf_fmt(out, "the policy could not decide (%s): fallback\n",
                err_code_text((enum err_code)r->error));
    explain_factors_text(r, weight, text, sizeof text);
    buf_fmt(out, "because: %s\n", text);
    if (r->action >= 0 && r->action < CAPACITY_ACTIONS)
        buf_fmt(out, "choice: action %+d of -3..+3, probability %.2f\n",
                r->action - CAPACITY_ACTION_HOLD, (double)r->prob[r->action]);
    explain_rule_text(r, text, sizeof text);
    if (text[0])
        buf_fmt(out, "rule: %s\n", text);
    explain_guard(r, all, out);
}
