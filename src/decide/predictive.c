/* predictive.c - forecast and watermarks: the size that carries the forecast at a planned use, more
 * when a high watermark was crossed for long, less only when the low one was.
 *
 * One unit more when the forecast is uncertain.  Without a usable forecast it plans for the demand
 * now. */
#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/extreme.h"
#include "decide/policy_priv.h"

#define O struct predictive_options
static const struct opt_row rows[] = {
    OPT_DOUBLE(O, target_frac, "target", "0.85", "0.05", "1.5",
               "planned use of the capacity within target", .unit = "fraction"),
    OPT_DOUBLE(O, quantile, "upper", "0.5", "0", "2",
               "how far from the forecast's mean to its 80 % upper end"),
    OPT_DURATION(O, down_window_us, "down_window", "15min", "0s", "1h",
                 "scale-in goes to the highest plan of this window"),
};
#undef O
static const struct opt_table options =
    OPT_TABLE("predictive", struct predictive_options, rows, "Forecast and watermarks.");
static const struct policy_range ranges[] = {
    {"target", 0.3, 1.2, false}, {"upper", 0, 2, false}, {"down_window", 15e6, 3600e6, true}};

static void init(const struct capacity_config *cfg, const union policy_options *opt,
                 union policy_memory *m)
{
    (void)cfg;
    (void)opt;
    m->predictive = (struct predictive_memory){0};
}

static int plan(const struct policy_input *in)
{
    const struct predictive_options *o = &in->opt->predictive;
    const struct sense_state *s = &in->state->sense;
    float demand = s->qps, target = (float)o->target_frac;
    if (in->view->forecast.usable) {
        float spread = s->forecast_hi80_max - s->forecast_mean_max;
        float ahead = s->forecast_mean_max + (float)o->quantile * spread;
        demand = ahead > demand ? ahead : demand;
    }
    int units = units_of(in->cfg, demand / target);
    return guard_cautious(in->cfg, in->view) ? units + 1 : units;
}

static bool held(int64_t since_us, const struct policy_input *in)
{
    return since_us != GUARD_NEVER &&
           in->view->now_us - since_us >= in->cfg->guard.watermark_hold_us;
}

/* Units asked for that should be ready by now: asking for one more each minute would not bring
 * them sooner.  In ordinary times starts end in their time and none is overdue. */
static int overdue(const struct policy_input *in)
{
    const int64_t due_us = in->cfg->spec.start_us + in->cfg->spec.start_us / 2;
    return in->view->warm_oldest_us > due_us ? in->view->units_warming : 0;
}

static void propose(const struct policy_input *in, union policy_memory *m, struct rng *rng,
                    struct policy_proposal *out)
{
    const struct guard_state *g = &in->state->guard;
    int now = in->view->units_requested;
    (void)rng;
    out->units = now;
    if (!present(in->state->sense.qps))
        return;
    int want = plan(in);
    if (held(g->high_since_us, in))
        want = max_int(want, now - overdue(in) + in->cfg->step_units);
    want = clamp_int(want, in->cfg->spec.units_min, in->cfg->spec.units_max);
    float highest = extreme_push(&m->predictive.highest, EXTREME_HIGHEST, in->view->now_us,
                                 in->opt->predictive.down_window_us, (float)want);
    out->units = want > now ? want : min_int(now, (int)highest);
}

static bool sane(const union policy_memory *m)
{
    return extreme_sane(&m->predictive.highest);
}

const struct policy policy_predictive = {
    .name = "predictive",
    .summary = "forecast and watermarks",
    .guarded = true,
    .memory_bytes = sizeof(struct predictive_memory),
    .options = &options,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .init = init,
    .sane = sane,
    .propose = propose,
};
