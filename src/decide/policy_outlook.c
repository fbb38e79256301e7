/* policy_outlook.c - sizes from a learned distribution of demand (outlook.h).
 *
 * Learned from history, not by trial: the network predicts, the newsvendor rule decides.  It runs on its own and
 * is the base that ppo corrects.  The rate limit it plans around is the guard's own, so its plans are ones the
 * guard lets through; unguarded it plans for the first window only. */
#include <math.h>
#include <string.h>

#include "decide/capacity_priv.h"
#include "decide/extreme.h"
#include "decide/policy_priv.h"
#include "decide/sane.h"

static const struct opt_row rows[] = {
    OPT_DOUBLE(struct outlook_options, lambda, "lambda", "60", "0.01", "1000000",
               "price of one violated step", .unit = "unit-steps"),
    OPT_DOUBLE(struct outlook_options, ahead, "ahead", "0.3", "0", "1",
               "share of lambda in the windows after the first: how far a burst can be seen coming"),
    OPT_DURATION(struct outlook_options, hold_us, "hold", "10min", "0s", "1h",
                 "the plan must be lower for this long before units go"),
    OPT_DOUBLE(struct outlook_options, hysteresis, "hysteresis", "4", "1", "1000",
               "units go only to the plan for this many times lambda"),
    OPT_DOUBLE(struct outlook_options, budget_gain, "budget_gain", "1.5", "0", "10",
               "how strongly lambda follows the error budget; 0: not at all"),
    OPT_DOUBLE(struct outlook_options, calm, "calm", "0", "0", "10000",
               "reversals to stay within: near it the hysteresis grows; 0: whatever comes", .unit = "per day"),
};
static const struct opt_table options = OPT_TABLE("outlook", struct outlook_options, rows,
                                                  "Learned demand distribution, newsvendor plan.");

static const struct policy_range ranges[] = {
    {"lambda", 4, 20000, true},
    {"ahead", 0.003, 1, true},
    {"hold", 600e6, 3000e6, true},
    {"hysteresis", 1.5, 60, true},
};

/* The budget aims at this share of the allowed misses: what drifts should drift within the target. */
static const double budget_share = 0.7;
enum { CALM_US = 600 * 1000000 }; /* an opposite action within this time is a reversal */
#define DAY_US 86400e6f
#define FLIPS_MAX 10000

static void init(const struct capacity_config *cfg, const union policy_options *opt, union policy_memory *m)
{
    (void)cfg;
    (void)opt;
    memset(&m->outlook, 0, sizeof m->outlook);
    outlook_state_init(&m->outlook.seen);
    m->outlook.size = -1;
}

static struct outlook_cfg plan_cfg(const struct policy_input *in)
{
    const struct capacity_config *cfg = in->cfg;
    double weight = (double)in->view->weight_cost > 0
                        ? (double)in->view->weight_latency / (double)in->view->weight_cost
                        : 1;
    return (struct outlook_cfg){
        .lambda = in->opt->outlook.lambda * weight,
        .budget_gain = in->opt->outlook.budget_gain,
        .budget_limit = budget_share * cfg->spec.slo_violation_max,
        .up_units = cfg->guarded ? guard_rate_cap(cfg, in->view->units_requested) : 0,
    };
}

static int plan_at(const struct policy_input *in, const struct outlook_memory *m, double lambda)
{
    int wants[OUTLOOK_WINDOWS];
    struct outlook_cfg c = plan_cfg(in);
    outlook_wants(m->tail, &m->sizes, lambda, in->opt->outlook.ahead, wants);
    return outlook_plan(wants, &c) + in->view->units_failed; /* they serve nobody until repaired */
}

static void fail(struct policy_proposal *out, int units, enum err_code why)
{
    *out = (struct policy_proposal){.units = units, .action = -1, .value = NAN, .error = why};
}

/* Counts what the size did since the step before, whoever moved it. */
static void count_flips(const struct policy_input *in, struct outlook_memory *m)
{
    const float allowed = (float)in->opt->outlook.calm * (float)in->cfg->spec.step_us / DAY_US;
    int now = in->view->units_requested, direction = (now > m->size) - (now < m->size);
    m->flips = m->flips > allowed ? m->flips - allowed : 0;
    if (m->size >= 0 && direction) {
        if (direction == -m->direction && in->view->now_us - m->moved_us <= CALM_US && m->flips < FLIPS_MAX)
            m->flips += 1;
        m->direction = direction;
        m->moved_us = in->view->now_us;
    }
    m->size = now;
}

/* The bucket holds a day's reversals, at least two.  The fuller it is the dearer a move, eight times when it is full, so
 * that in the long run no more come in than may leak out; a plan that is calm by itself pays nothing. */
static double hysteresis(const struct outlook_options *o, const struct outlook_memory *m)
{
    double level = o->calm > 0 ? (double)m->flips / fmax(2, o->calm) : 0;
    return o->hysteresis * pow(8, fmin(level, 1.5));
}

/* Up to the plan at once, but soon after a scale-in only to what a cheaper miss would already want.  Down only to
 * what a dearer miss would still want, held against the recent past: a size just left is not wanted back on the
 * next gust. */
static int held(const struct policy_input *in, struct outlook_memory *m, int plan)
{
    const double cheaper_or_dearer = hysteresis(&in->opt->outlook, m);
    int now = in->view->units_requested;
    int safe = max_int(plan, plan_at(in, m, m->lambda * cheaper_or_dearer));
    int highest = (int)extreme_push(&m->highest, EXTREME_HIGHEST, in->view->now_us, in->opt->outlook.hold_us,
                                    (float)safe);
    if (plan > now && in->view->now_us - in->state->guard.last_in_us <= CALM_US)
        return max_int(now, plan_at(in, m, m->lambda / cheaper_or_dearer));
    return plan >= now ? plan : min_int(now, highest);
}

static void propose(const struct policy_input *in, union policy_memory *memory, struct rng *rng,
                    struct policy_proposal *out)
{
    struct outlook_memory *m = &memory->outlook;
    const struct capacity_config *cfg = in->cfg;
    float features[OUTLOOK_FEATURES], logits[OUTLOOK_OUTPUTS];
    (void)rng;
    outlook_observe(&m->seen, &cfg->spec, in->view);
    count_flips(in, m);
    if (!cfg->outlook || !present(usable(in->view->qps_last)) || m->seen.steps == 0) {
        m->ready = false;
        fail(out, in->view->units_requested, cfg->outlook ? ERR_OK : ERR_MISSING);
        return;
    }
    m->ready = true;
    outlook_features(&m->seen, &cfg->spec, in->view, features);
    outlook_logits(cfg->outlook, features, 1, logits);
    outlook_tails(logits, m->tail);
    outlook_sizes_fill(&m->sizes, &cfg->spec, outlook_level(&m->seen, &cfg->spec));
    struct outlook_cfg c = plan_cfg(in);
    m->lambda = outlook_lambda(&m->seen, &c);
    int units = held(in, m, plan_at(in, m, m->lambda));
    *out = (struct policy_proposal){.units = units, .action = -1, .value = NAN};
}

/* Sizes at lambda x 10^(k step), k = -3..3. */
static void levels(const struct policy_input *in, const union policy_memory *memory, double step,
                   int units[CAPACITY_ACTIONS])
{
    const struct outlook_memory *m = &memory->outlook;
    int now = in->view->units_requested;
    for (int a = 0; a < CAPACITY_ACTIONS; a++) {
        units[a] = now;
        if (m->ready)
            units[a] = plan_at(in, m, m->lambda * pow(10, (a - CAPACITY_ACTION_HOLD) * step));
        if (m->ready && a >= CAPACITY_ACTION_HOLD && units[a] < now && m->highest.n > 0)
            units[a] = max_int(units[a], min_int(now, (int)m->highest.value[m->highest.head]));
    }
}

static bool sizes_sane(const struct outlook_sizes *s, bool used)
{
    bool ok = sane_int(s->n, used, OUTLOOK_SIZES_MAX) && sane_floats(s->above, OUTLOOK_SIZES_MAX, 1);
    for (int i = 0; ok && i < s->n; i++)
        ok = sane_int(s->units[i], 0, CAPACITY_UNITS_LIMIT) && sane_int(s->bin[i], 0, OUTLOOK_BINS - 1);
    return ok;
}

static bool sane(const union policy_memory *memory)
{
    const struct outlook_memory *m = &memory->outlook;
    const struct outlook_state *s = &m->seen;
    return sane_bool(&m->ready) && sizes_sane(&m->sizes, m->ready) && extreme_sane(&m->highest) &&
           m->lambda >= 0 && m->lambda <= 1e12 && sane_floats(m->tail[0], OUTLOOK_WINDOWS * OUTLOOK_BINS, 1) &&
           sane_floats(s->mean, 4, 1e30f) && sane_floats(s->peak, 2, 1e30f) && sane_floats(&s->spread, 1, 1e30f) &&
           sane_floats(&s->profile_ratio, 1, 1e30f) && sane_floats(&s->misses, 1, 1) &&
           sane_int(s->steps, 0, 100000) && sane_time(m->moved_us) && sane_int(m->size, -1, CAPACITY_UNITS_LIMIT) &&
           sane_int(m->direction, -1, 1) && m->flips >= 0 && m->flips <= FLIPS_MAX + 1;
}

const struct policy policy_outlook = {
    .name = "outlook",
    .summary = "learned distribution of demand, newsvendor plan within the guard's rate cap",
    .guarded = true,
    .memory_bytes = sizeof(struct outlook_memory),
    .options = &options,
    .ranges = ranges,
    .n_ranges = sizeof ranges / sizeof ranges[0],
    .init = init,
    .propose = propose,
    .levels = levels,
    .sane = sane,
};
