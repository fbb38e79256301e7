/* static.c - a fixed size: the peak plan many services run today. */
#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/policy_priv.h"

static const struct opt_row rows[] = {
    OPT_INT(struct static_options, units, "units", "0", "0", "4096",
            "size to keep; 0 is the maximum", .unit = "units"),
};
static const struct opt_table options =
    OPT_TABLE("static", struct static_options, rows, "A fixed size.");
static const struct policy_range ranges[] = {{"units", 1, 64, true}};

static void propose(const struct policy_input *in, union policy_memory *m, struct rng *rng,
                    struct policy_proposal *out)
{
    (void)m;
    (void)rng;
    out->units = in->opt->fixed.units > 0 ? (int)in->opt->fixed.units : in->cfg->spec.units_max;
}

const struct policy policy_static = {
    .name = "static",
    .summary = "keeps a fixed size",
    .options = &options,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .propose = propose,
};
