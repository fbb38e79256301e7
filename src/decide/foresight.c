/* foresight.c - a reference: it knows the noise-free demand of the next 3 min, and nothing else.
 * What it saves against a rule is what perfect short-term prediction would be worth. */
#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/extreme.h"
#include "decide/policy_priv.h"

#define O struct foresight_options
static const struct opt_row rows[] = {
    OPT_DOUBLE(O, margin, "margin", "0.10", "-0.5", "2", "added to the demand known",
               .unit = "fraction"),
    OPT_DURATION(O, down_window_us, "down_window", "0s", "0s", "1h",
                 "scale-in goes to the highest size of this window"),
};
#undef O
static const struct opt_table options =
    OPT_TABLE("foresight", struct foresight_options, rows, "Knows the demand of the next 3 min.");
static const struct policy_range ranges[] = {{"margin", -0.2, 0.6, false},
                                             {"down_window", 15e6, 1200e6, true}};

static void init(const struct capacity_config *cfg, const union policy_options *opt,
                 union policy_memory *m)
{
    (void)cfg;
    (void)opt;
    m->foresight = (struct foresight_memory){0};
}

static void propose(const struct policy_input *in, union policy_memory *m, struct rng *rng,
                    struct policy_proposal *out)
{
    const struct foresight_options *o = &in->opt->foresight;
    float demand = usable(in->view->foresight_qps);
    int now = in->view->units_requested;
    (void)rng;
    out->units = now;
    if (!present(demand))
        return;
    int want = clamp_int(units_of(in->cfg, demand * (1 + (float)o->margin)),
                         in->cfg->spec.units_min, in->cfg->spec.units_max);
    float highest = extreme_push(&m->foresight.highest, EXTREME_HIGHEST, in->view->now_us,
                                 o->down_window_us, (float)want);
    out->units = want > now ? want : min_int(now, (int)highest);
}

static bool sane(const union policy_memory *m)
{
    return extreme_sane(&m->foresight.highest);
}

const struct policy policy_foresight = {
    .name = "foresight",
    .summary = "knows the noise-free demand of the next 3 min (a reference)",
    .memory_bytes = sizeof(struct foresight_memory),
    .options = &options,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .init = init,
    .sane = sane,
    .propose = propose,
};
