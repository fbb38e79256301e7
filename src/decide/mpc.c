/* mpc.c - plans sizes over a receding horizon from a level, the forecast's shape and its own
 * record.
 *
 * Every step it expects for h ahead
 *
 *     E(h) = level * (1 + trust * (f(now + h) / f(now) - 1)) * (1 + hour_trust * error[minute])
 *
 * where the level follows the newest load (so a forecast made minutes ago is rescaled by what
 * happened since), f is the forecast, and error[] is the mean relative error its own expectations
 * had at that minute of the hour (jobs that start on the hour are common, and a 15-min profile
 * smears them).  The spread of those errors, measured one lead ahead, says how far demand may
 * stray.  The size is the newsvendor's (Arrow, Harris & Marschak 1951):
 *
 *     plan(h) = argmin over u of   u + lambda * P(demand > capacity(u)),   demand / E(h) ~ 1 +
 * spread * t4
 *
 * t4 because relative errors of request rates have heavier tails than a normal one.  lambda, the
 * price of a missed step in unit-steps, is one number for quiet and nervous times alike: where the
 * spread is large it accepts more risk, since covering it is dear.  This is what a fixed margin
 * cannot do.
 *
 * Asked-for units help after the start-up, so scale-out follows plan(lead).  Scale-in is immediate
 * but a unit missed later costs a start-up (billed) and the wait: units go only when the plans of
 * the whole horizon, at `keep` times lambda, have been lower for `hold`.  The two prices leave a
 * band in which nothing happens: at 5, reversals fall to a fifth for 1 % of cost.  Failed units are
 * covered until repaired. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/extreme.h"
#include "decide/policy_priv.h"
#include "decide/sane.h"

#define O struct mpc_options
static const struct opt_row rows[] = {
    OPT_DOUBLE(O, lambda, "lambda", "40", "0", "1e6", "price of one missed step",
               .unit = "unit-steps"),
    OPT_DOUBLE(O, keep, "keep", "5", "1", "1000", "scale-in plans with this many times lambda"),
    OPT_DOUBLE(O, margin, "margin", "0", "-0.5", "2", "added to the expected demand",
               .unit = "fraction"),
    OPT_DOUBLE(O, spread, "spread", "1", "0", "10", "multiplies the measured spread"),
    OPT_DOUBLE(O, trust, "trust", "1", "0", "1", "weight of the forecast's shape against a level"),
    OPT_DOUBLE(O, hour_trust, "hour_trust", "0", "0", "1",
               "weight of the pattern by minute of the hour"),
    OPT_DURATION(O, lead_us, "lead", "0s", "0s", "10min", "0s: start-up and two steps"),
    OPT_DURATION(O, horizon_us, "horizon", "6min", "0s", "15min",
                 "units stay if demand expected within it needs them"),
    OPT_DURATION(O, smooth_us, "smooth", "45s", "1s", "1h", "time constant of the level"),
    OPT_DURATION(O, hold_us, "hold", "10min", "0s", "1h",
                 "plans are lower for this long before units go"),
    OPT_DOUBLE(O, deadband_frac, "deadband", "0.03", "0", "1", "smallest scale-in worth an action",
               .unit = "fraction"),
};
#undef O
static const struct opt_table options = OPT_TABLE(
    "mpc", struct mpc_options, rows, "Plans over a level, a forecast and measured errors.");
/* In the order of what they change; the rest moved the front by less than its noise. */
static const struct policy_range ranges[] = {
    {"lambda", 1, 2000, true}, {"keep", 1, 50, true},       {"hold", 300e6, 2400e6, true},
    {"trust", 0, 1, false},    {"hour_trust", 0, 1, false},
};

static void init(const struct capacity_config *cfg, const union policy_options *opt,
                 union policy_memory *m)
{
    (void)cfg;
    (void)opt;
    memset(&m->mpc, 0, sizeof m->mpc);
    m->mpc.level = NAN;
    m->mpc.units = -1;
    for (int i = 0; i < MPC_LEADS; i++)
        m->mpc.expected[i] = NAN;
}

/* ---- expectation --------------------------------------------------------------------------------
 */
static const float point_us = 300e6f; /* of a forecast */

/* The forecast's mean at `ahead_us` from now: its points are means of 5 min, so they stand mid-way.
 */
static float forecast_at(const struct forecast *f, int64_t now_us, int64_t ahead_us)
{
    float x = (float)(now_us + ahead_us - f->made_us) / point_us - 0.5f;
    if (!(x > 0))
        return f->mean[0];
    if (x >= FORECAST_POINTS - 1)
        return f->mean[FORECAST_POINTS - 1];
    int i = (int)x;
    return f->mean[i] + (x - (float)i) * (f->mean[i + 1] - f->mean[i]);
}

static float shape_at(const struct policy_input *in, int64_t ahead_us)
{
    const struct forecast *f = &in->view->forecast;
    float floor = 1e-3f * in->cfg->load_top;
    if (!f->usable)
        return 1;
    float now = forecast_at(f, in->view->now_us, 0),
          then = forecast_at(f, in->view->now_us, ahead_us);
    float ratio = clamp_float((then + floor) / (now + floor), 0.2f, 5);
    return 1 + (float)in->opt->mpc.trust * (ratio - 1);
}

static int minute_at(const struct capacity_view *v, int64_t ahead_us)
{
    int second = (int)(v->now_us / 1000000 % 60);
    return (v->when.minute + (second + (int)(ahead_us / 1000000)) / 60) % MPC_MINUTES;
}

/* The pattern by minute counts in full after half a day. */
static float pattern_weight(const struct policy_input *in, const struct mpc_memory *m)
{
    float young = (float)m->n_steps * (float)in->cfg->spec.step_us * (1 / 43200e6f);
    return (float)in->opt->mpc.hour_trust * (young < 1 ? young : 1);
}

static float expect(const struct policy_input *in, const struct mpc_memory *m, int64_t ahead_us)
{
    float error = m->minute_error[minute_at(in->view, ahead_us)];
    return m->level * shape_at(in, ahead_us) * (1 + pattern_weight(in, m) * error);
}

/* ---- size ---------------------------------------------------------------------------------------
 */
/* P(T > x) of Student's t with four degrees of freedom; closed form. */
static float tail_t4(float x)
{
    float q = 1 + 0.25f * x * x;
    return 0.5f - 0.375f * x / sqrtf(q) * (1 - x * x / (12 * q));
}

static int newsvendor(const struct policy_input *in, float demand, float spread, float lambda)
{
    const struct mpc_options *o = &in->opt->mpc;
    const struct capacity_config *cfg = in->cfg;
    demand *= 1 + (float)o->margin;
    int units = units_of(cfg, demand);
    float scale = 1 / (demand * spread + 1e-6f * cfg->load_top);
    float risk = tail_t4((cap_of(cfg, units) - demand) * scale);
    while (units < cfg->spec.units_max) {
        float next = tail_t4((cap_of(cfg, units + 1) - demand) * scale);
        if ((risk - next) * lambda <= 1)
            break;
        risk = next;
        units++;
    }
    return units;
}

/* ---- memory -------------------------------------------------------------------------------------
 */
static void learn(const struct policy_input *in, struct mpc_memory *m, int lead_steps, float load)
{
    float step_s = (float)in->cfg->spec.step_us * 1e-6f;
    int made = m->next - lead_steps;
    float expected = m->expected[made < 0 ? made + MPC_LEADS : made];
    if (!present(expected) || !(expected > 1e-3f * in->cfg->load_top))
        return;
    float error = clamp_float(load / expected - 1, -1, 4);
    float gain = step_s / 3600; /* nervous times come and go within hours */
    float start = 1 / (1 + (float)m->n_steps);
    m->spread2 += (gain > start ? gain : start) * (error * error - m->spread2);
    int minute = minute_at(in->view, 0);
    float by_minute = 0.02f;
    float stray = error - m->minute_error[minute];
    m->minute_error[minute] += by_minute * stray;
    m->minute_spread2[minute] += by_minute * (stray * stray - m->minute_spread2[minute]);
}

static void level_advance(const struct policy_input *in, struct mpc_memory *m, float load)
{
    float gain = (float)in->cfg->spec.step_us / (float)(in->opt->mpc.smooth_us + 1);
    gain = gain < 1 ? gain : 1;
    m->level = present(m->level) ? m->level + gain * (load - m->level) : load;
}

static float spread_at(const struct policy_input *in, const struct mpc_memory *m, int64_t ahead_us)
{
    float by_minute = m->minute_spread2[minute_at(in->view, ahead_us)];
    float s2 = m->spread2 + pattern_weight(in, m) * (by_minute - m->spread2);
    float s = sqrtf(s2 > 0 ? s2 : 0);
    return (float)in->opt->mpc.spread * (s > 0.01f ? s : 0.01f) * 0.7071f; /* t4 has variance 2 */
}

/* ---- plan ---------------------------------------------------------------------------------------
 */
static int plan_at(const struct policy_input *in, const struct mpc_memory *m, int64_t ahead_us,
                   double lambda)
{
    return newsvendor(in, expect(in, m, ahead_us), spread_at(in, m, ahead_us), (float)lambda);
}

/* The guard lets `cap` units be added per window, so what must stand later must be begun now: the
 * plan for h ahead, less what can still be added on the way.  Looks as far as the pattern or the
 * forecast does. */
static int plan_ramp(const struct policy_input *in, const struct mpc_memory *m, int64_t lead_us,
                     double lambda, int units)
{
    const int64_t minute = INT64_C(60000000);
    bool pattern = pattern_weight(in, m) > 0;
    if (!in->cfg->guarded || (!pattern && !in->view->forecast.usable))
        return units;
    float per_us = (float)guard_rate_cap(in->cfg, in->view->units_requested) /
                   (float)in->cfg->guard.up_window_us;
    int64_t stride = pattern ? minute : 5 * minute, far = (pattern ? 30 : 15) * minute;
    for (int64_t h = lead_us + stride; h <= far; h += stride) {
        int later = (int)(per_us * (float)(h - lead_us));
        float demand = expect(in, m, h), spread = spread_at(in, m, h);
        if (demand * (1 + 4 * spread) > cap_of(in->cfg, units + later)) /* else it cannot matter */
            units = max_int(units, newsvendor(in, demand, spread, (float)lambda) - later);
    }
    return units;
}

/* The largest plan of the horizon, at the price of keeping. */
static int plan_keep(const struct policy_input *in, const struct mpc_memory *m, int64_t lead_us)
{
    const struct mpc_options *o = &in->opt->mpc;
    const int64_t stride = INT64_C(120000000);
    double lambda = o->lambda * o->keep;
    float demand = expect(in, m, lead_us), spread = spread_at(in, m, lead_us);
    int units = newsvendor(in, demand, spread, (float)lambda);
    for (int64_t h = 0; h <= o->horizon_us; h += stride) {
        float then = expect(in, m, h), stray = spread_at(in, m, h);
        if (stray == spread && then <= demand)
            continue; /* less of the same */
        units = max_int(units, newsvendor(in, then, stray, (float)lambda));
        demand = stray == spread ? then : demand;
    }
    return plan_ramp(in, m, lead_us, lambda, units);
}

static void propose(const struct policy_input *in, union policy_memory *memory, struct rng *rng,
                    struct policy_proposal *out)
{
    const struct mpc_options *o = &in->opt->mpc;
    const struct capacity_config *cfg = in->cfg;
    struct mpc_memory *m = &memory->mpc;
    int now = in->view->units_requested;
    float load = usable(in->view->qps_last);
    load = present(load) ? load : in->state->sense.qps;
    (void)rng;
    out->units = now;
    int64_t lead_us = o->lead_us > 0 ? o->lead_us : cfg->spec.start_us + 2 * cfg->spec.step_us;
    int lead_steps = clamp_int((int)(lead_us / cfg->spec.step_us), 1, MPC_LEADS - 1);
    m->next = m->next == MPC_LEADS - 1 ? 0 : m->next + 1;
    m->expected[m->next] = NAN;
    if (!present(load))
        return; /* hold */
    learn(in, m, lead_steps, load);
    level_advance(in, m, load);
    m->expected[m->next] = m->level * shape_at(in, lead_us);
    m->n_steps += m->n_steps < 1000000;

    int failed = in->view->units_failed;
    int want = plan_at(in, m, lead_us, o->lambda);
    want = plan_ramp(in, m, lead_us, o->lambda, want) + failed;
    int keep = plan_keep(in, m, lead_us) + failed;
    int held =
        (int)extreme_push(&m->highest, EXTREME_HIGHEST, in->view->now_us, o->hold_us, (float)keep);
    int units = want > now ? want : min_int(now, max_int(held, want));
    if (units < now && (double)(now - units) < o->deadband_frac * now)
        units = now;
    m->units = clamp_int(units, cfg->spec.units_min, cfg->spec.units_max);
    out->units = m->units;
}

static void levels(const struct policy_input *in, const union policy_memory *m, double step,
                   int units[CAPACITY_ACTIONS])
{
    int plan = m->mpc.units >= 0 ? m->mpc.units : in->view->units_requested;
    float load = cap_of(in->cfg, plan);
    for (int a = 0; a < CAPACITY_ACTIONS; a++)
        units[a] = units_of(in->cfg, load * (1 + (float)step * (float)(a - CAPACITY_ACTION_HOLD)));
    units[CAPACITY_ACTION_HOLD] = plan;
}

static bool sane(const union policy_memory *m)
{
    const struct mpc_memory *p = &m->mpc;
    return sane_int(p->next, 0, MPC_LEADS - 1) && sane_int(p->n_steps, 0, 1000000) &&
           sane_int(p->units, -1, 2 * CAPACITY_UNITS_LIMIT) && sane_floats(&p->level, 1, 1e30f) &&
           sane_floats(&p->spread2, 1, 1e30f) && sane_floats(p->minute_error, MPC_MINUTES, 1e30f) &&
           sane_floats(p->minute_spread2, MPC_MINUTES, 1e30f) && sane_floats(p->expected, MPC_LEADS, 1e30f) &&
           extreme_sane(&p->highest);
}

const struct policy policy_mpc = {
    .name = "mpc",
    .summary = "plans over a level, the forecast's shape and measured errors",
    .guarded = true,
    .memory_bytes = sizeof(struct mpc_memory),
    .options = &options,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .init = init,
    .sane = sane,
    .propose = propose,
    .levels = levels,
};
