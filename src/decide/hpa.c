#include "decide/hpa.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/extreme.h"
#include "decide/policy_priv.h"
#include "decide/sane.h"

/* ---- options ------------------------------------------------------------------------------------
 */
static const char *const select_names[] = {"max", "min", "disabled", NULL};

#define O struct hpa_options
static const struct opt_row rows[] = {
    OPT_DOUBLE(O, gpu_target_frac, "gpu", "0.70", "0", "2", "target GPU use; 0: not a metric",
               .unit = "fraction"),
    OPT_DOUBLE(O, cpu_target_frac, "cpu", "0", "0", "2", "target CPU use; 0: not a metric",
               .unit = "fraction"),
    OPT_DOUBLE(O, unit_qps, "unit_qps", "0", "0", "1e9", "target load per unit; 0: not a metric",
               .unit = "1/s"),
    OPT_DOUBLE(O, unit_qps_frac, "unit_qps_share", "0", "0", "2",
               "the same as a share of what one unit serves at full use; 0: not a metric"),
    OPT_DOUBLE(O, tolerance, "tolerance", "0.1", "0", "1", "change that is not worth an action"),
    OPT_DURATION(O, up_window_us, "up_window", "0s", "0s", "1h", "stabilisation of scale-out"),
    OPT_DURATION(O, down_window_us, "down_window", "5min", "0s", "1h", "stabilisation of scale-in"),
    OPT_INT(O, up_percent, "up_percent", "100", "0", "10000",
            "growth per period; 0: no such policy"),
    OPT_DURATION(O, up_percent_us, "up_percent_period", "15s", "1s", "30min", "its period"),
    OPT_INT(O, up_pods, "up_pods", "4", "0", "4096", "units added per period; 0: no such policy"),
    OPT_DURATION(O, up_pods_us, "up_pods_period", "15s", "1s", "30min", "its period"),
    OPT_ENUM(O, up_select, "up_select", "max", select_names, "which policy counts for scale-out"),
    OPT_INT(O, down_percent, "down_percent", "100", "0", "100", "share removed; 0: no such policy"),
    OPT_DURATION(O, down_percent_us, "down_percent_period", "15s", "1s", "30min", "its period"),
    OPT_INT(O, down_pods, "down_pods", "0", "0", "4096", "units removed; 0: no such policy"),
    OPT_DURATION(O, down_pods_us, "down_pods_period", "15s", "1s", "30min", "its period"),
    OPT_ENUM(O, down_select, "down_select", "max", select_names,
             "which policy counts for scale-in"),
};
#undef O
static const struct opt_table options = OPT_TABLE(
    "hpa", struct hpa_options, rows, "Kubernetes HorizontalPodAutoscaler, autoscaling/v2.");
static const struct policy_range ranges[] = {
    {"gpu", 0.2, 0.98, false},
    {"down_window", 15e6, 3600e6, true},
    {"tolerance", 0.01, 0.2, false},
};

/* ---- one metric ---------------------------------------------------------------------------------
 */
/* Over `n` units: whole percent of the target's percent, or whole milli-units of the target's. */
static double usage_ratio(const struct hpa_metric *m, double total, int n)
{
    double scale = m->kind == HPA_UTILISATION ? 100 : 1000;
    return floor(total / n * scale + 1e-9) / (m->target * scale);
}

static bool within(double ratio, double tolerance)
{
    return ratio >= 1 - tolerance && ratio <= 1 + tolerance;
}

/* However absurd the measurement. */
static int whole_units(double x)
{
    return (int)fmin(ceil(x), 1 << 20);
}

int hpa_metric_units(const struct hpa_metric *m, int current, double tolerance)
{
    double total = m->total;
    int n = m->n_ready;
    if (n <= 0 || !isfinite(total))
        return -1;
    double ratio = usage_ratio(m, total, n);
    bool grow_not_ready = m->n_not_ready > 0 && ratio > 1;
    if (!grow_not_ready && m->n_missing == 0)
        return within(ratio, tolerance) ? current : whole_units(ratio * n);
    if (m->n_missing > 0 && ratio < 1)
        total += m->n_missing * (m->kind == HPA_UTILISATION ? fmax(1, m->target) : m->target);
    if (m->n_missing > 0 && ratio != 1)
        n += m->n_missing;
    if (grow_not_ready)
        n += m->n_not_ready;
    double second = usage_ratio(m, total, n);
    if (within(second, tolerance) || (ratio < 1 && second > 1) || (ratio > 1 && second < 1))
        return current;
    int units = whole_units(second * n);
    if ((second < 1 && units > current) || (second > 1 && units < current))
        return current;
    return units;
}

int hpa_metrics_units(const struct hpa_metric *m, int n, int current, double tolerance)
{
    int most = -1, invalid = 0;
    for (int i = 0; i < n; i++) {
        int units = hpa_metric_units(&m[i], current, tolerance);
        invalid += units < 0;
        most = max_int(most, units);
    }
    return invalid > 0 && most < current ? -1 : most;
}

/* ---- behaviour ----------------------------------------------------------------------------------
 */
void hpa_event(struct hpa_events *e, int64_t now_us, int change)
{
    int at = (e->head + e->n) % HPA_EVENTS;
    if (e->n == HPA_EVENTS)
        e->head = (e->head + 1) % HPA_EVENTS;
    else
        e->n++;
    e->at_us[at] = now_us;
    e->change[at] = (int16_t)change;
}

static int change_within(const struct hpa_events *e, int64_t now_us, int64_t period_us)
{
    int sum = 0;
    for (int i = e->n - 1; i >= 0; i--) {
        int at = e->head + i;
        at = at >= HPA_EVENTS ? at - HPA_EVENTS : at;
        if (e->at_us[at] <= now_us - period_us)
            break;
        sum += e->change[at];
    }
    return sum;
}

static int period_start(const struct hpa_memory *m, int current, int64_t now_us, int64_t period_us)
{
    return current - change_within(&m->up, now_us, period_us) +
           change_within(&m->down, now_us, period_us);
}

int hpa_limit_up(const struct hpa_behaviour *b, const struct hpa_memory *m, int current,
                 int64_t now_us)
{
    bool least = b->select == HPA_SELECT_MIN;
    int limit = least ? INT_MAX : INT_MIN;
    if (b->select == HPA_SELECT_DISABLED)
        return current;
    for (int i = 0; i < b->n_rules; i++) {
        const struct hpa_rule *r = &b->rule[i];
        int start = period_start(m, current, now_us, r->period_us);
        int reach = r->kind == HPA_PODS ? start + r->value
                                        : (int)ceil(start * (1 + (double)r->value / 100));
        limit = least ? min_int(limit, reach) : max_int(limit, reach);
    }
    return max_int(limit, current);
}

int hpa_limit_down(const struct hpa_behaviour *b, const struct hpa_memory *m, int current,
                   int64_t now_us)
{
    bool least = b->select == HPA_SELECT_MIN; /* of the changes: the highest size */
    int limit = least ? INT_MIN : INT_MAX;
    if (b->select == HPA_SELECT_DISABLED)
        return current;
    for (int i = 0; i < b->n_rules; i++) {
        const struct hpa_rule *r = &b->rule[i];
        int start = period_start(m, current, now_us, r->period_us);
        int reach =
            r->kind == HPA_PODS ? start - r->value : (int)(start * (1 - (double)r->value / 100));
        limit = least ? max_int(limit, reach) : min_int(limit, reach);
    }
    return min_int(limit, current);
}

void hpa_memory_init(struct hpa_memory *m)
{
    memset(m, 0, sizeof *m);
    m->seen_units = -1;
}

int hpa_normalise(const struct hpa_behaviour *up, const struct hpa_behaviour *down,
                  struct hpa_memory *m, int current, int desired, int min, int max, int64_t now_us)
{
    int lowest =
        (int)extreme_push(&m->lowest, EXTREME_LOWEST, now_us, up->window_us, (float)desired);
    int highest =
        (int)extreme_push(&m->highest, EXTREME_HIGHEST, now_us, down->window_us, (float)desired);
    int next = max_int(current, lowest);
    next = min_int(next, highest);
    if (next > current)
        return min_int(next, min_int(max, hpa_limit_up(up, m, current, now_us)));
    if (next < current)
        return max_int(next, max_int(min, hpa_limit_down(down, m, current, now_us)));
    return next;
}

static void add_rule(struct hpa_behaviour *b, enum hpa_change kind, int64_t value,
                     int64_t period_us)
{
    if (value > 0)
        b->rule[b->n_rules++] = (struct hpa_rule){kind, (int)value, period_us};
}

void hpa_behaviours(const struct hpa_options *o, struct hpa_behaviour *up,
                    struct hpa_behaviour *down)
{
    *up = (struct hpa_behaviour){.window_us = o->up_window_us, .select = o->up_select};
    *down = (struct hpa_behaviour){.window_us = o->down_window_us, .select = o->down_select};
    add_rule(up, HPA_PODS, o->up_pods, o->up_pods_us);
    add_rule(up, HPA_PERCENT, o->up_percent, o->up_percent_us);
    add_rule(down, HPA_PODS, o->down_pods, o->down_pods_us);
    add_rule(down, HPA_PERCENT, o->down_percent, o->down_percent_us);
}

/* ---- the policy ---------------------------------------------------------------------------------
 */
static enum err_code validate(const struct capacity_config *cfg, const union policy_options *opt,
                              struct err *e)
{
    const struct hpa_options *o = &opt->hpa;
    (void)cfg;
    if (!(o->gpu_target_frac > 0) && !(o->cpu_target_frac > 0) && !(o->unit_qps > 0) &&
        !(o->unit_qps_frac > 0))
        return err_set(e, ERR_INVAL, "no metric: set gpu, cpu, unit_qps or unit_qps_share");
    if (o->up_select != HPA_SELECT_DISABLED && o->up_percent == 0 && o->up_pods == 0)
        return err_set(e, ERR_INVAL,
                       "no scale-out policy: set up_percent, up_pods or up_select: disabled");
    if (o->down_select != HPA_SELECT_DISABLED && o->down_percent == 0 && o->down_pods == 0)
        return err_set(e, ERR_INVAL,
                       "no scale-in policy: set down_percent, down_pods or down_select: disabled");
    return ERR_OK;
}

static void init(const struct capacity_config *cfg, const union policy_options *opt,
                 union policy_memory *m)
{
    (void)cfg;
    (void)opt;
    hpa_memory_init(&m->hpa);
}

/* The view has means over ready units; failed units run but report nothing. */
static struct hpa_metric metric(const struct capacity_view *v, enum hpa_kind kind, double target,
                                double total)
{
    return (struct hpa_metric){kind,           target,           total,
                               v->units_ready, v->units_warming, v->units_failed};
}

static int metrics_of(const struct policy_input *in, struct hpa_metric *m)
{
    const struct hpa_options *o = &in->opt->hpa;
    const struct capacity_view *v = in->view;
    double qps = (double)usable(v->value[FIELD_QPS]);
    int n = 0;
    if (o->gpu_target_frac > 0)
        m[n++] = metric(v, HPA_UTILISATION, o->gpu_target_frac,
                        (double)usable(v->value[FIELD_GPU_UTIL]) * v->units_ready);
    if (o->cpu_target_frac > 0)
        m[n++] = metric(v, HPA_UTILISATION, o->cpu_target_frac,
                        (double)usable(v->value[FIELD_CPU_UTIL]) * v->units_ready);
    if (o->unit_qps > 0)
        m[n++] = metric(v, HPA_AVERAGE, o->unit_qps, qps);
    if (o->unit_qps_frac > 0)
        m[n++] = metric(v, HPA_AVERAGE, o->unit_qps_frac * in->cfg->spec.latency->unit_qps, qps);
    return n;
}

/* What was done since the last step, by this policy or after a guard: the controller's scale
 * events. */
static void note_change(struct hpa_memory *m, const struct capacity_view *v)
{
    int change = m->seen_units < 0 ? 0 : v->units_requested - m->seen_units;
    if (change > 0)
        hpa_event(&m->up, m->seen_us, change);
    if (change < 0)
        hpa_event(&m->down, m->seen_us, -change);
    m->seen_units = v->units_requested;
    m->seen_us = v->now_us;
}

static void propose(const struct policy_input *in, union policy_memory *memory, struct rng *rng,
                    struct policy_proposal *out)
{
    const struct capacity_spec *spec = &in->cfg->spec;
    struct hpa_memory *m = &memory->hpa;
    struct hpa_metric metrics[4];
    struct hpa_behaviour up, down;
    int current = in->view->units_requested;
    (void)rng;
    note_change(m, in->view);
    out->units = current;
    if (current == 0 && spec->units_min != 0)
        return; /* switched off */
    if (current < spec->units_min || current > spec->units_max) {
        out->units = clamp_int(current, spec->units_min, spec->units_max);
        return;
    }
    int n = metrics_of(in, metrics);
    int desired = hpa_metrics_units(metrics, n, current, in->opt->hpa.tolerance);
    if (desired < 0)
        return;
    hpa_behaviours(&in->opt->hpa, &up, &down);
    out->units = hpa_normalise(&up, &down, m, current, desired, spec->units_min, spec->units_max,
                               in->view->now_us);
}

static bool events_sane(const struct hpa_events *e)
{
    return e->head >= 0 && e->head < HPA_EVENTS && e->n >= 0 && e->n <= HPA_EVENTS;
}

static bool sane(const union policy_memory *m)
{
    return sane_int(m->hpa.seen_units, -1, CAPACITY_UNITS_LIMIT) && sane_time(m->hpa.seen_us) &&
           events_sane(&m->hpa.up) && events_sane(&m->hpa.down) && extreme_sane(&m->hpa.lowest) &&
           extreme_sane(&m->hpa.highest);
}

const struct policy policy_hpa = {
    .name = "hpa",
    .summary = "Kubernetes HorizontalPodAutoscaler (autoscaling/v2)",
    .memory_bytes = sizeof(struct hpa_memory),
    .options = &options,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .validate = validate,
    .init = init,
    .sane = sane,
    .propose = propose,
};
