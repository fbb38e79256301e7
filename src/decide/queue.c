/* queue.c - queue length per unit, after KEDA: a scaler reports a queue, an HPA divides it by the
 * target per unit, and activation decides between zero (here: the minimum) and one.
 *
 * Sources: keda.sh docs "Scaling Deployments" (activation, cooldownPeriod 300 s) and the
 * AverageValue case of the HPA algorithm for external metrics: desired = ceil(queue / target),
 * tolerance 0.1.  A queue says nothing before it is too late, which is what the comparison shows.
 */
#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/extreme.h"
#include "decide/policy_priv.h"
#include "decide/sane.h"

#define O struct queue_options
static const struct opt_row rows[] = {
    OPT_DOUBLE(O, queue_per_unit, "queue_per_unit", "5", "0.001", "1e6", "queue one unit may have",
               .unit = "requests"),
    OPT_DOUBLE(O, activation, "activation", "0", "0", "1e6", "queue up to which the scaler sleeps",
               .unit = "requests"),
    OPT_DURATION(O, cooldown_us, "cooldown", "5min", "0s", "1h",
                 "sleep this long before going to the minimum"),
    OPT_DURATION(O, down_window_us, "down_window", "5min", "0s", "1h",
                 "scale-in goes to the highest recommendation of this window"),
};
#undef O
static const struct opt_table options =
    OPT_TABLE("queue", struct queue_options, rows, "Queue length per unit, as KEDA does it.");
static const struct policy_range ranges[] = {{"queue_per_unit", 0.01, 100, true},
                                             {"down_window", 15e6, 3600e6, true}};

static void init(const struct capacity_config *cfg, const union policy_options *opt,
                 union policy_memory *m)
{
    (void)cfg;
    (void)opt;
    m->queue = (struct queue_memory){.active_us = GUARD_NEVER};
}

static int recommend(const struct policy_input *in, struct queue_memory *m)
{
    const struct queue_options *o = &in->opt->queue;
    double queue = (double)in->view->value[FIELD_QUEUE_LEN];
    int units = in->view->units_requested;
    if (queue > o->activation)
        m->active_us = in->view->now_us;
    else
        return in->view->now_us - m->active_us >= o->cooldown_us ? in->cfg->spec.units_min : units;
    double ratio = queue / (o->queue_per_unit * (double)max_int(units, 1));
    if (units > 0 && ratio >= 0.9 && ratio <= 1.1)
        return units;
    double want = queue / o->queue_per_unit;
    if (want >= CAPACITY_UNITS_LIMIT)
        return in->cfg->spec.units_max;
    return max_int(1, (int)want + ((double)(int)want < want));
}

static void propose(const struct policy_input *in, union policy_memory *m, struct rng *rng,
                    struct policy_proposal *out)
{
    struct queue_memory *q = &m->queue;
    (void)rng;
    out->units = in->view->units_requested;
    if (!present(usable(in->view->value[FIELD_QUEUE_LEN])))
        return;
    int want = clamp_int(recommend(in, q), in->cfg->spec.units_min, in->cfg->spec.units_max);
    float highest = extreme_push(&q->highest, EXTREME_HIGHEST, in->view->now_us,
                                 in->opt->queue.down_window_us, (float)want);
    out->units = want > out->units ? want : min_int(out->units, (int)highest);
}

static bool sane(const union policy_memory *m)
{
    return sane_time(m->queue.active_us) && extreme_sane(&m->queue.highest);
}

const struct policy policy_queue = {
    .name = "queue",
    .summary = "queue length per unit, as KEDA",
    .memory_bytes = sizeof(struct queue_memory),
    .options = &options,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .init = init,
    .sane = sane,
    .propose = propose,
};
