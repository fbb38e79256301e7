/* threshold.c - the rule everybody writes first: any of CPU, GPU or queue over its threshold adds a
 * step, any of CPU or GPU under the low mark removes one, then it waits.
 *
 * Because the two ORs look at different metrics, both can hold at once (CPU at 0.82 with GPU at
 * 0.25), and because units that were just asked for are minutes from helping, it keeps adding.  It
 * is here to show that. */
#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/policy_priv.h"
#include "decide/sane.h"

#define O struct threshold_options
static const struct opt_row rows[] = {
    OPT_DOUBLE(O, cpu_frac, "cpu", "0.80", "0", "1", "CPU use that adds a step",
               .unit = "fraction"),
    OPT_DOUBLE(O, gpu_frac, "gpu", "0.85", "0", "1", "GPU use that adds a step",
               .unit = "fraction"),
    OPT_DOUBLE(O, queue, "queue", "20", "0", "1e6", "queue that adds a step", .unit = "requests"),
    OPT_DOUBLE(O, low_frac, "low", "0.30", "0", "1", "CPU or GPU use that removes a step",
               .unit = "fraction"),
    OPT_INT(O, step_units, "step", "1", "1", "4096", "units added or removed at once",
            .unit = "units"),
    OPT_DURATION(O, wait_us, "wait", "2min", "0s", "1h", "wait after an action"),
};
#undef O
static const struct opt_table options =
    OPT_TABLE("threshold", struct threshold_options, rows, "Fixed thresholds, any of them.");
static const struct policy_range ranges[] = {
    {"gpu", 0.2, 0.98, false}, {"cpu", 0.2, 0.98, false},   {"low", 0.05, 0.9, false},
    {"step", 1, 8, true},      {"wait", 15e6, 600e6, true},
};

static void init(const struct capacity_config *cfg, const union policy_options *opt,
                 union policy_memory *m)
{
    (void)cfg;
    (void)opt;
    m->threshold.acted_us = GUARD_NEVER;
}

static void propose(const struct policy_input *in, union policy_memory *m, struct rng *rng,
                    struct policy_proposal *out)
{
    const struct threshold_options *o = &in->opt->threshold;
    const float *v = in->view->value;
    float cpu = v[FIELD_CPU_UTIL], gpu = v[FIELD_GPU_UTIL], mark = (float)o->low_frac;
    (void)rng;
    /* A missing metric crosses nothing: comparisons with NaN are false. */
    bool high = cpu > (float)o->cpu_frac || gpu > (float)o->gpu_frac ||
                v[FIELD_QUEUE_LEN] > (float)o->queue;
    bool low = cpu < mark || gpu < mark;
    out->units = in->view->units_requested;
    if ((!high && !low) || in->view->now_us - m->threshold.acted_us < o->wait_us)
        return;
    int change = high ? (int)o->step_units : -(int)o->step_units;
    int units = clamp_int(out->units + change, in->cfg->spec.units_min, in->cfg->spec.units_max);
    if (units != out->units)
        m->threshold.acted_us = in->view->now_us;
    out->units = units;
}

static bool sane(const union policy_memory *m)
{
    return sane_time(m->threshold.acted_us);
}

const struct policy policy_threshold = {
    .name = "threshold",
    .summary = "CPU, GPU or queue over fixed thresholds, as commonly written",
    .memory_bytes = sizeof(struct threshold_memory),
    .options = &options,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .init = init,
    .sane = sane,
    .propose = propose,
};
