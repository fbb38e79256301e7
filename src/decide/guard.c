#include "decide/guard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "decide/capacity_priv.h"

/* ---- options ------------------------------------------------------------------------------------
 */
static const char *const preset_names[] = {"default", "reference", NULL};
static const char *const auditor_names[] = {"any", "all", "off", NULL};
static const char *const min_safe_names[] = {"level_p95", "slot_p95", "stated", NULL};

#define G struct guard_options
static const struct opt_row rows[] = {
    OPT_ENUM(G, preset, "preset", "default", preset_names,
             "reference: the published waits of 5 min both ways, instead of cooldown_out and _in"),
    OPT_BOOL(G, freeze, "freeze", "false", "execute nothing", .reloadable = true),
    OPT_DURATION(G, stale_us, "stale", "90s", "15s", "1h", "oldest sample a decision may rest on"),
    OPT_DOUBLE(G, high_cpu_frac, "high_cpu", "0.80", "0", "1", "high watermark of CPU use",
               .unit = "fraction"),
    OPT_DOUBLE(G, high_mem_frac, "high_mem", "0.70", "0", "1", "high watermark of memory use",
               .unit = "fraction"),
    OPT_DOUBLE(G, high_gpu_frac, "high_gpu", "0.85", "0", "1", "high watermark of GPU use",
               .unit = "fraction"),
    OPT_DOUBLE(G, low_frac, "low", "0.30", "0", "1", "low watermark of CPU and GPU use",
               .unit = "fraction"),
    OPT_DURATION(G, watermark_hold_us, "watermark_hold", "5min", "0s", "1h",
                 "a watermark counts once crossed for this long"),
    OPT_ENUM(G, auditor, "auditor", "any", auditor_names,
             "evidence a scale-out needs: any one, all, or off"),
    OPT_DOUBLE(G, audit_queue, "audit_queue", "10", "0", "1e6", "queue above this is evidence",
               .unit = "requests"),
    OPT_DOUBLE(G, audit_idle_frac, "audit_idle", "0.50", "0", "1",
               "latency over target at less use than this is not for capacity to solve",
               .unit = "fraction"),
    OPT_DOUBLE(G, headroom_min_frac, "headroom_min", "0.10", "0", "1",
               "less headroom than this overrules the auditor's doubts", .unit = "fraction"),
    OPT_ENUM(G, min_safe, "min_safe", "level_p95", min_safe_names,
             "least size for scale-in unless the owner states one: what carries the same-slot P95 "
             "scaled down when load runs under the slot's median, the P95 itself, or none"),
    OPT_INT(G, up_steps, "up_steps", "8", "1", "4096",
            "rate cap: steps that may be added within up_window"),
    OPT_DOUBLE(G, up_frac, "up_frac", "0.25", "0", "10",
               "rate cap: or this share of the current size, whichever is more",
               .unit = "fraction"),
    OPT_DURATION(G, up_window_us, "up_window", "5min", "15s", "1h", "window of the rate cap"),
    OPT_DURATION(G, slow_start_us, "slow_start", "2min", "0s", "1h",
                 "start-up above this makes the largest step up one wider"),
    OPT_DURATION(G, cooldown_out_us, "cooldown_out", "60s", "0s", "1h",
                 "wait after any action before scale-out"),
    OPT_DURATION(G, cooldown_in_us, "cooldown_in", "5min", "0s", "24h",
                 "wait after any action before scale-in"),
    OPT_DOUBLE(G, uncertain_frac, "uncertain", "0.70", "0", "1",
               "forecast uncertainty that asks for caution", .unit = "fraction"),
    OPT_DOUBLE(G, uncertain_factor, "uncertain_factor", "1.5", "1", "10",
               "multiplies the wait before scale-in then"),
    OPT_INT(G, flap_budget_units, "flap_budget", "0", "0", "1000000",
            "starts + stops per hour after which nothing is removed; 0: max(12, units_max)",
            .unit = "units"),
    OPT_DOUBLE(G, staged_frac, "staged", "0.70", "0", "1",
               "one scale-in leaves at least this share", .unit = "fraction"),
    OPT_DURATION(G, watch_us, "watch", "10min", "0s", "24h",
                 "wait after a scale-in that was cut short"),
    OPT_DURATION(G, start_budget_us, "start_budget", "5min", "15s", "24h",
                 "a unit not ready by then has failed to start"),
    OPT_DOUBLE(G, start_budget_factor, "start_budget_factor", "2", "1", "100",
               "or by this many times the measured start-up, whichever is more"),
    OPT_DURATION(G, breaker_us, "breaker", "10min", "0s", "24h",
                 "no scale-out for this long after a failed start"),
};
#undef G
const struct opt_table guard_options_table =
    OPT_TABLE("guard", struct guard_options, rows, "Checks between a proposal and its execution.");

void guard_options_default(struct guard_options *g)
{
    opt_init(&guard_options_table, g);
}

void guard_options_apply(struct guard_options *g)
{
    if (g->preset == GUARD_PRESET_REFERENCE)
        g->cooldown_out_us = g->cooldown_in_us = INT64_C(300000000);
}

void guard_options_reference(struct guard_options *g)
{
    guard_options_default(g);
    g->preset = GUARD_PRESET_REFERENCE;
    guard_options_apply(g);
}

/* ---- words --------------------------------------------------------------------------------------
 */
/* X(id, verdict when it keeps the current size, text; the numbers in order) */
/* clang-format off */
#define REASON_LIST(X)                                                                             \
    X(NONE, HOLD, "nothing against it")                                                            \
    X(FROZEN, VETO, "everything is frozen")                                                        \
    X(PAUSED, VETO, "the target is paused")                                                        \
    X(UNMANAGED, VETO, "the target is not managed at this stage")                                  \
    X(OWNED, VETO, "another controller owns the size of this target")                              \
    X(STALE, HOLD, "the newest complete sample is %.0f s old, over %.0f s")                        \
    X(MISSING_QPS, HOLD, "the load is missing")                                                    \
    X(MISSING_LATENCY, HOLD, "latency is missing although there is load (%.3g/s)")                 \
    X(NOT_FINITE, HOLD, "a measurement is not a finite number (field %.0f)")                       \
    X(PERSON_DECIDES, HOLD, "metrics are not fit to decide on, but a person fixed the size")       \
    X(OVERRIDDEN, HOLD, "a person fixed the size at %.0f for another %.0f s")                      \
    X(AUDITOR_OFF, HOLD, "auditor is off")                                                         \
    X(QUEUE, HOLD, "queue of %.0f requests is over %.0f")                                          \
    X(USE, HOLD, "use %.2f is over %.2f")                                                          \
    X(HIGH_WATER, HOLD, "high water is %.2f of the capacity, over %.2f for %.0f s")                \
    X(NO_EVIDENCE, VETO, "not short of capacity: queue %.0f, use %.2f, high water %.2f of capacity") \
    X(DEPENDENCY, VETO, "p99 is %.1fx the target at use of only %.2f: look at the code or a dependency") \
    X(CPU_ONLY, HOLD, "CPU at %.2f with p99 at %.2fx the target: not short of capacity, headroom %.2f") \
    X(FALLING, HOLD, "load is %.1fx the slot's median but falling (%.3g/s in 5 min), headroom %.2f") \
    X(HEADROOM, HOLD, "headroom of %.2f is under %.2f")                                            \
    X(MAXIMUM, VETO, "the owner's maximum is %.0f units")                                          \
    X(MINIMUM, VETO, "the owner's minimum is %.0f units")                                          \
    X(BUDGET, VETO, "the shared GPU budget leaves %.0f units")                                     \
    X(MIN_SAFE, VETO, "the least safe size is %.0f units, %.0f are there")                         \
    X(SERVES_NOW, VETO, "demand of %.4g/s needs %.0f units now")                                   \
    X(GAUGE, VETO, "GPU at %.2f does not fit the demand of %.4g/s: by demand %.0f units stay")             \
    X(RATE, HOLD, "%.0f units were added within the window, %.0f are allowed")                     \
    X(OUT_WAIT, HOLD, "acted %.0f s ago, scale-out waits %.0f s")                                  \
    X(IN_WAIT, HOLD, "acted %.0f s ago, scale-in waits %.0f s")                                    \
    X(FLAPPING, HOLD, "%.0f starts and stops within the hour, budget %.0f: nothing is removed")    \
    X(WATCHING, HOLD, "watching the last scale-in for another %.0f s")                             \
    X(STAGE, HOLD, "one action leaves at least %.0f of %.0f units")                                \
    X(BREAKER_OPEN, VETO, "units do not start (oldest waits %.0f s, allowed %.0f s): shut for %.0f s") \
    X(TRIAL, HOLD, "breaker expired %.0f s ago: %.0f unit(s) on trial at once until one becomes ready") \
    X(ON_TRIAL, HOLD, "breaker expired %.0f s ago: %.0f warming unit(s) have until %.0f s to become ready") \
    X(ABNORMAL, VETO, "the cluster is in an abnormal state: people decide")
/* clang-format on */

enum reason {
#define X(id, verdict, text) R_##id,
    REASON_LIST(X)
#undef X
        REASONS
};

static const struct {
    enum guard_verdict keeps;
    const char *text;
} reasons[REASONS] = {
#define X(id, verdict, text) [R_##id] = {GUARD_##verdict, text},
    REASON_LIST(X)
#undef X
};

static const struct {
    const char *name, *what;
} checks[GUARD_CHECKS] = {
#define X(id, name, what) [GUARD_##id] = {name, what},
    GUARD_CHECK_LIST(X)
#undef X
};

const char *guard_check_name(enum guard_check c)
{
    return checks[c].name;
}

const char *guard_check_what(enum guard_check c)
{
    return checks[c].what;
}

const char *guard_verdict_name(enum guard_verdict v)
{
    static const char *const names[GUARD_VERDICTS] = {"pass", "clamp", "hold", "veto"};
    return names[v];
}

/* The formats are the constants above, each with at most three %f-like conversions. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void guard_reason(const struct guard_result *r, char *buf, size_t n)
{
    const float never_s = 1e8f; /* three years: the age of a time that is 0 */
    if (r->reason >= REASONS)
        (void)snprintf(buf, n, "unreadable");
    else if (r->reason == R_STALE && r->num[0] > never_s)
        (void)snprintf(buf, n, "there is no complete sample yet");
    else
        (void)snprintf(buf, n, reasons[r->reason].text, (double)r->num[0], (double)r->num[1], (double)r->num[2]);
}
#pragma GCC diagnostic pop

bool guard_silent(const struct guard_result *r)
{
    return r->verdict == GUARD_PASS && r->reason == R_NONE;
}

void guard_explain(const struct guard_result *r, char *buf, size_t n)
{
    char words[160];
    if (r->check >= GUARD_CHECKS || r->reason >= REASONS || r->verdict >= GUARD_VERDICTS) {
        (void)snprintf(buf, n, "unreadable guard result");
        return;
    }
    guard_reason(r, words, sizeof words);
    (void)snprintf(buf, n, "%s %s: %s", checks[r->check].name,
                   guard_verdict_name((enum guard_verdict)r->verdict), words);
}

/* ---- windows ------------------------------------------------------------------------------------
 */
static inline int window_slot(int64_t bucket, int n)
{
    int i = (int)(bucket % n);
    return i < 0 ? i + n : i;
}

/* Moves to the bucket of now_us, width_us wide.  No division where it is this one or one of the next. */
static inline void window_advance(struct guard_window *w, int64_t now_us, int64_t width_us, int n)
{
    int64_t ahead = w->bucket == GUARD_NEVER ? -1 : now_us - w->bucket * width_us;
    if (ahead < 0 || ahead >= width_us * n) {
        *w = (struct guard_window){.bucket = now_us / width_us};
        return;
    }
    for (; ahead >= width_us; ahead -= width_us) {
        int i = window_slot(++w->bucket, n);
        w->sum -= w->at[i];
        w->at[i] = 0;
    }
}

static void window_add(struct guard_window *w, int n, int64_t bucket, int units)
{
    int i = window_slot(bucket, n);
    int room = clamp_int(units, 0, INT16_MAX - w->at[i]); /* saturates: a budget long exceeded */
    w->at[i] = (int16_t)(w->at[i] + room);
    w->sum += room;
}

/* ---- the checks ---------------------------------------------------------------------------------
 */
/* What one check permits, and why. */
struct allow {
    int lo, hi;
    enum reason reason;
    float num[3];
};

struct ask {
    const struct capacity_config *cfg;
    const struct capacity_view *view;
    const struct capacity_state *state;
    int units;     /* requested now */
    int direction; /* of the proposal as it stands: picks the words, never the limits */
};

enum { ANY_LO = 0, ANY_HI = CAPACITY_UNITS_LIMIT };
#define ALLOW_ALL ((struct allow){ANY_LO, ANY_HI, R_NONE, {0}})
#define ALLOW(l, h, why, ...) ((struct allow){(l), (h), (why), {__VA_ARGS__}})
#define KEEP(a, why, ...) ALLOW((a)->units, (a)->units, (why), __VA_ARGS__)

static inline bool override_active(const struct capacity_view *view)
{
    return view->claims.override_on && view->claims.override_until_us > view->now_us;
}

static inline struct allow check_freeze(const struct ask *a)
{
    if (a->cfg->guard.freeze || a->view->claims.frozen)
        return KEEP(a, R_FROZEN, 0);
    return a->view->claims.paused ? KEEP(a, R_PAUSED, 0) : ALLOW_ALL;
}

static inline struct allow check_ownership(const struct ask *a)
{
    if (a->view->claims.unmanaged)
        return KEEP(a, R_UNMANAGED, 0);
    return a->view->claims.owned_by_other ? KEEP(a, R_OWNED, 0) : ALLOW_ALL;
}

/* Infinite or negative; NaN is missing, which is another matter. */
static inline int not_finite(const struct capacity_view *view)
{
    int bad = 0;
    for (int i = 0; i < FIELD_COUNT; i++)
        bad |= (view->value[i] < 0) | (view->value[i] >= USABLE_END);
    return bad;
}

/* Somebody made it smaller than its owner's least size: an override that has ended, a hand. */
static inline bool under_minimum(const struct ask *a)
{
    return a->units < a->cfg->spec.units_min;
}

static struct allow freshness_fault(const struct ask *a)
{
    const struct capacity_view *v = a->view;
    int field = 0;
    if (v->now_us - v->sample_us > a->cfg->guard.stale_us)
        return KEEP(a, R_STALE, (float)(v->now_us - v->sample_us) * 1e-6f,
                    (float)a->cfg->guard.stale_us * 1e-6f);
    while (field < FIELD_COUNT && !(v->value[field] < 0) && !(v->value[field] >= USABLE_END))
        field++;
    if (field < FIELD_COUNT)
        return KEEP(a, R_NOT_FINITE, (float)field);
    if (!present(v->value[FIELD_QPS]))
        return KEEP(a, R_MISSING_QPS, 0);
    return KEEP(a, R_MISSING_LATENCY, v->value[FIELD_QPS]);
}

static inline struct allow check_freshness(const struct ask *a)
{
    const struct capacity_view *v = a->view;
    float qps = v->value[FIELD_QPS];
    bool stale = v->now_us - v->sample_us > a->cfg->guard.stale_us;
    bool missing = !present(qps) || (qps > 0 && !present(v->value[FIELD_P99_LATENCY_MS]));
    if (__builtin_expect(!(stale || missing || not_finite(v)), 1))
        return ALLOW_ALL;
    if (override_active(v)) /* a person does not scale on metrics */
        return ALLOW(ANY_LO, ANY_HI, R_PERSON_DECIDES, 0);
    if (under_minimum(a)) /* nothing runs that could be measured; what the owner promises needs no measurement */
        return ALLOW(a->cfg->spec.units_min, a->cfg->spec.units_min, R_MINIMUM, (float)a->cfg->spec.units_min);
    return freshness_fault(a);
}

static inline struct allow check_override(const struct ask *a)
{
    const struct capacity_view *v = a->view;
    if (__builtin_expect(!override_active(v), 1))
        return ALLOW_ALL;
    int u = clamp_int(v->claims.override_units, 0, a->cfg->spec.units_max);
    return ALLOW(u, u, R_OVERRIDDEN, (float)u,
                 (float)(v->claims.override_until_us - v->now_us) * 1e-6f);
}

/* Use of what is requested: the larger of GPU use and demand over capacity within target. */
static inline float audit_use(const struct ask *a)
{
    const struct sense_state *s = &a->state->sense;
    float use = s->cap_requested > 0 ? s->qps / s->cap_requested : s->qps > 0 ? 9.99f : 0;
    float gpu = usable(a->view->value[FIELD_GPU_UTIL]);
    use = present(use) ? use : 0;
    return gpu > use ? gpu : use;
}

/* Load to be ready for: 1.2 x the upper forecast, or without one 1.2 x the largest of 5 min. */
static inline float high_water(const struct capacity_view *view, const struct sense_state *s)
{
    return view->forecast.usable ? view->forecast.high : 1.2f * s->peak;
}

/* Latency is bad and use is low: more units would not help. */
static inline bool audit_dependency(const struct ask *a, float use, bool queue)
{
    float p99 = a->view->value[FIELD_P99_LATENCY_MS];
    float cpu = a->view->value[FIELD_CPU_UTIL];
    float idle = (float)a->cfg->guard.audit_idle_frac;
    return p99 > (float)a->cfg->spec.slo_p99_ms && use < idle && !(cpu >= idle) && !queue;
}

/* Signs that look like load but do not ask for units: R_NONE, or the doubt. */
static inline enum reason audit_doubt(const struct ask *a)
{
    const struct guard_options *g = &a->cfg->guard;
    const struct capacity_view *v = a->view;
    const struct sense_state *s = &a->state->sense;
    float p99 = v->value[FIELD_P99_LATENCY_MS];
    int before = s->ring_next - a->cfg->steps_5min;
    float ago = s->ring[before < 0 ? before + SENSE_RING : before];
    if (v->value[FIELD_CPU_UTIL] > (float)g->high_cpu_frac &&
        p99 < 0.5f * (float)a->cfg->spec.slo_p99_ms &&
        v->value[FIELD_GPU_UTIL] < (float)g->high_gpu_frac)
        return R_CPU_ONLY;
    if (v->forecast.usable && v->forecast.base > 0 && s->qps > 1.2f * v->forecast.base &&
        s->qps < ago && s->qps_fast < s->qps_level)
        return R_FALLING;
    return R_NONE;
}

static struct allow audit_words(const struct ask *a, enum reason why, int hi, float use,
                                float water)
{
    const struct guard_options *g = &a->cfg->guard;
    const struct capacity_view *v = a->view;
    const struct sense_state *s = &a->state->sense;
    float slo = v->value[FIELD_P99_LATENCY_MS] * a->cfg->inv_slo;
    float headroom = 1 - (s->cap_requested > 0 ? s->qps / s->cap_requested : 0);
    int before = s->ring_next - a->cfg->steps_5min;
    struct allow r = {ANY_LO, hi, why, {0}};
    switch ((int)why) {
    case R_QUEUE:
        memcpy(r.num, (float[]){v->value[FIELD_QUEUE_LEN], (float)g->audit_queue, 0}, sizeof r.num);
        break;
    case R_USE:
        memcpy(r.num, (float[]){use, (float)g->high_gpu_frac, 0}, sizeof r.num);
        break;
    case R_HIGH_WATER:
        memcpy(r.num,
               (float[]){water, (float)g->high_gpu_frac,
                         (float)(v->now_us - a->state->guard.water_since_us) * 1e-6f},
               sizeof r.num);
        break;
    case R_NO_EVIDENCE:
        memcpy(r.num, (float[]){v->value[FIELD_QUEUE_LEN], use, water}, sizeof r.num);
        break;
    case R_DEPENDENCY:
        memcpy(r.num, (float[]){slo, use, 0}, sizeof r.num);
        break;
    case R_CPU_ONLY:
        memcpy(r.num, (float[]){v->value[FIELD_CPU_UTIL], slo, headroom}, sizeof r.num);
        break;
    case R_FALLING:
        memcpy(r.num,
               (float[]){s->qps / v->forecast.base,
                         s->qps - s->ring[before < 0 ? before + SENSE_RING : before], headroom},
               sizeof r.num);
        break;
    case R_HEADROOM:
        memcpy(r.num, (float[]){headroom, (float)g->headroom_min_frac, 0}, sizeof r.num);
        break;
    default:
        break;
    }
    return r;
}

static inline struct allow check_auditor(const struct ask *a)
{
    const struct guard_options *g = &a->cfg->guard;
    const struct capacity_view *v = a->view;
    const struct sense_state *s = &a->state->sense;
    if (__builtin_expect(under_minimum(a), 0))
        return ALLOW_ALL;
    if (g->auditor == GUARD_AUDITOR_OFF)
        return ALLOW(ANY_LO, ANY_HI, R_AUDITOR_OFF, 0);
    float use = audit_use(a);
    float cap = s->cap_requested > 0 ? s->cap_requested : 1e-6f * a->cfg->load_top;
    bool queue = v->value[FIELD_QUEUE_LEN] > (float)g->audit_queue;
    bool busy = use > (float)g->high_gpu_frac;
    bool water = a->state->guard.water_since_us != GUARD_NEVER &&
                 v->now_us - a->state->guard.water_since_us >= g->watermark_hold_us;
    bool evidence =
        g->auditor == GUARD_AUDITOR_ALL ? queue && busy && water : queue || busy || water;
    enum reason why = queue ? R_QUEUE : busy ? R_USE : R_HIGH_WATER;
    enum reason doubt = audit_doubt(a);
    int hi = ANY_HI;
    if (audit_dependency(a, use, queue)) {
        hi = a->units;
        why = R_DEPENDENCY;
    } else if (!evidence) {
        hi = a->units;
        why = R_NO_EVIDENCE;
    } else if (doubt != R_NONE) {
        bool tight = s->qps > (1 - (float)g->headroom_min_frac) * cap;
        hi = tight ? ANY_HI : a->units;
        why = tight ? R_HEADROOM : doubt;
    }
    return a->direction
               ? audit_words(a, a->direction > 0 ? why : R_NONE, hi, use, high_water(v, s) / cap)
               : ALLOW(ANY_LO, hi, R_NONE, 0); /* nothing was asked: no words, their numbers are not made */
}

/* Sizes under which a scale-in must not go. */
static inline int floor_safe(const struct ask *a)
{
    const struct capacity_spec *spec = &a->cfg->spec;
    if (spec->units_min_safe > 0)
        return spec->units_min_safe;
    return a->cfg->guard.min_safe != GUARD_MIN_SAFE_STATED ? a->state->sense.units_p95 : 0;
}

/* The GPU gauge shows less than 0.8 of the use that the demand makes of the ready units, over the
 * same window: it is stuck or of something else. */
static inline bool gauge_doubtful(const struct ask *a)
{
    const float *v = a->view->value, share = 0.8f;
    float full = v[FIELD_UNITS_READY] * (float)a->cfg->spec.latency->unit_qps;
    return v[FIELD_GPU_UTIL] < share && v[FIELD_GPU_UTIL] * full < share * v[FIELD_QPS];
}

/* Then a policy that believes the gauge shrinks at every lull and never comes back: keep what
 * carries the level under the mark at which scale-out has evidence, and failed units replaced. */
static int floor_by_demand(const struct ask *a)
{
    const struct sense_state *s = &a->state->sense;
    float load = s->qps_level > s->qps ? s->qps_level : s->qps;
    return units_of(a->cfg, load / (float)a->cfg->guard.high_gpu_frac) + a->view->units_failed;
}

static inline struct allow check_bounds(const struct ask *a)
{
    const struct capacity_spec *spec = &a->cfg->spec;
    const struct sense_state *s = &a->state->sense;
    int safe = floor_safe(a);
    float need = clamp_float(s->need_now, 0, CAPACITY_UNITS_LIMIT); /* NaN is 0: freshness holds already */
    int serves = (int)need;
    serves += (float)serves < need;
    bool doubtful = gauge_doubtful(a);
    if (__builtin_expect(doubtful, 0))
        serves = max_int(serves, floor_by_demand(a));
    int floor = min_int(max_int(safe, serves), a->units);  /* stops scale-in, forces nothing */
    int budget = max_int(a->view->budget_units, a->units); /* stops scale-out, forces nothing */
    int hi = min_int(spec->units_max, budget);
    int lo = min_int(max_int(spec->units_min, floor), hi);
    if (a->direction == 0)
        return ALLOW(lo, hi, R_NONE, 0);
    if (a->direction > 0)
        return hi < spec->units_max ? ALLOW(lo, hi, R_BUDGET, (float)a->view->budget_units)
                                    : ALLOW(lo, hi, R_MAXIMUM, (float)hi);
    if (floor <= spec->units_min)
        return ALLOW(lo, hi, R_MINIMUM, (float)spec->units_min);
    if (doubtful && serves > safe)
        return ALLOW(lo, hi, R_GAUGE, a->view->value[FIELD_GPU_UTIL], s->qps, (float)serves);
    return safe > serves ? ALLOW(lo, hi, R_MIN_SAFE, (float)safe, (float)a->units)
                         : ALLOW(lo, hi, R_SERVES_NOW, s->qps, (float)serves);
}

static inline struct allow check_step(const struct ask *a)
{
    int cap = guard_rate_cap(a->cfg, a->units), used = a->state->guard.up.sum;
    return ALLOW(ANY_LO, a->units + max_int(0, cap - used), R_RATE, (float)used, (float)cap);
}

static inline int64_t cooldown_in_us(const struct capacity_config *cfg,
                                     const struct capacity_view *view)
{
    int64_t wait = cfg->guard.cooldown_in_us;
    return guard_cautious(cfg, view) ? (int64_t)((double)wait * cfg->guard.uncertain_factor) : wait;
}

static inline struct allow check_cooldown(const struct ask *a)
{
    const struct guard_state *g = &a->state->guard;
    int64_t ago = a->view->now_us - max_i64(g->last_out_us, g->last_in_us);
    int64_t wait_in = cooldown_in_us(a->cfg, a->view), wait_out = a->cfg->guard.cooldown_out_us;
    bool flapping = g->flap.sum >= a->cfg->flap_budget_units;
    int hi = ago < wait_out ? a->units : ANY_HI;
    int lo = ago < wait_in || flapping ? a->units : ANY_LO;
    if (a->direction > 0 && hi == a->units)
        return ALLOW(lo, hi, R_OUT_WAIT, (float)ago * 1e-6f, (float)wait_out * 1e-6f);
    if (a->direction < 0 && ago < wait_in)
        return ALLOW(lo, hi, R_IN_WAIT, (float)ago * 1e-6f, (float)wait_in * 1e-6f);
    if (a->direction < 0 && flapping)
        return ALLOW(lo, hi, R_FLAPPING, (float)g->flap.sum, (float)a->cfg->flap_budget_units);
    return ALLOW(lo, hi, R_NONE, 0);
}

/* Smallest size one scale-in may leave; at least one step can always go. */
static inline int staged_floor(const struct capacity_config *cfg, int units)
{
    float share = (float)cfg->guard.staged_frac * (float)units - 1e-4f; /* 0.7f * 10 is above 7 */
    int by_share = (int)share + ((float)(int)share < share);
    return max_int(0, min_int(by_share, units - cfg->step_units));
}

static inline struct allow check_staged(const struct ask *a)
{
    int64_t left = a->state->guard.watch_until_us - a->view->now_us;
    if (left > 0)
        return ALLOW(a->units, ANY_HI, R_WATCHING, (float)left * 1e-6f);
    int lo = staged_floor(a->cfg, a->units);
    return ALLOW(lo, ANY_HI, R_STAGE, (float)lo, (float)a->units);
}

/* Whether a unit younger than the start budget warms.  The last bin of ages is open: there the
 * guard's own memory tells. */
static bool start_pending(const struct ask *a)
{
    const struct capacity_view *v = a->view;
    int64_t budget = a->cfg->start_budget_us;
    int bins = (int)(budget / CAPACITY_WARM_BIN_US), young = 0;
    for (int i = 0; i < min_int(bins, CAPACITY_WARM_BINS - 1); i++)
        young += v->warm[i];
    return young > 0 ||
           (v->units_warming > 0 && v->now_us - a->state->guard.last_out_us < budget);
}

/* Half-open: one step at a time must prove that units start again. */
static struct allow breaker_trial(const struct ask *a, int64_t ago_us)
{
    float ago_s = (float)ago_us * 1e-6f;
    int step = a->cfg->step_units;
    if (start_pending(a))
        return ALLOW(ANY_LO, a->units, R_ON_TRIAL, ago_s, (float)a->view->units_warming,
                     (float)a->cfg->start_budget_us * 1e-6f);
    return ALLOW(ANY_LO, a->units + step, R_TRIAL, ago_s, (float)step);
}

static inline struct allow check_breaker(const struct ask *a)
{
    int64_t until_us = a->state->guard.breaker_until_us, left = until_us - a->view->now_us;
    if (__builtin_expect(until_us == GUARD_NEVER, 1))
        return ALLOW_ALL;
    if (left <= 0)
        return breaker_trial(a, -left);
    return ALLOW(ANY_LO, a->units, R_BREAKER_OPEN, (float)a->view->warm_oldest_us * 1e-6f,
                 (float)a->cfg->start_budget_us * 1e-6f, (float)left * 1e-6f);
}

static inline struct allow check_anomaly(const struct ask *a)
{
    return a->view->claims.cluster_abnormal ? KEEP(a, R_ABNORMAL, 0) : ALLOW_ALL;
}

/* ---- the chain ----------------------------------------------------------------------------------
 */
struct span {
    int lo, hi;
};

/* An earlier check outranks: the later one narrows what is left, or takes its nearest size. */
static inline struct span narrow(struct span s, const struct allow *r)
{
    struct span next = {clamp_int(r->lo, s.lo, s.hi), clamp_int(r->hi, s.lo, s.hi)};
    return next;
}

#define CHAIN(X)                                                                                   \
    X(FREEZE, check_freeze)                                                                        \
    X(OWNERSHIP, check_ownership)                                                                  \
    X(FRESHNESS, check_freshness)                                                                  \
    X(OVERRIDE, check_override)                                                                    \
    X(AUDITOR, check_auditor)                                                                      \
    X(BOUNDS, check_bounds)                                                                        \
    X(STEP, check_step)                                                                            \
    X(COOLDOWN, check_cooldown)                                                                    \
    X(STAGED, check_staged)                                                                        \
    X(BREAKER, check_breaker)                                                                      \
    X(ANOMALY, check_anomaly)

static struct span permitted(const struct ask *a)
{
    struct span s = {ANY_LO, ANY_HI};
#define X(id, check)                                                                               \
    {                                                                                              \
        struct allow r = check(a);                                                                 \
        s = narrow(s, &r);                                                                         \
    }
    CHAIN(X)
#undef X
    return s;
}

/* What a check did to the proposal, given the permitted sizes before and after it. */
static void judge(struct guard_result *out, enum guard_check check, const struct allow *r,
                  struct span before, struct span after, int proposed, int units)
{
    int was = clamp_int(proposed, before.lo, before.hi);
    int is = clamp_int(proposed, after.lo, after.hi);
    bool changed = was != is;
    /* Passing words are evidence (the auditor's), not limits that were not reached. */
    bool evidence = check == GUARD_AUDITOR || r->reason == R_PERSON_DECIDES;
    *out = (struct guard_result){
        .check = (uint8_t)check,
        .verdict = (uint8_t)(!changed      ? GUARD_PASS
                             : is == units ? reasons[r->reason].keeps
                                           : GUARD_CLAMP),
        .reason = (uint8_t)(changed || evidence ? r->reason : R_NONE),
        .lo = (int16_t)after.lo,
        .hi = (int16_t)after.hi,
    };
    memcpy(out->num, r->num, sizeof out->num);
}

int guard_chain(const struct capacity_config *cfg, const struct capacity_view *view,
                const struct capacity_state *state, int proposed, struct guard_result *chain)
{
    struct ask a = {cfg, view, state, view->units_requested, 0};
    struct span s = {ANY_LO, ANY_HI};
#define X(id, check)                                                                               \
    {                                                                                              \
        int standing = clamp_int(proposed, s.lo, s.hi);                                            \
        a.direction = (standing > a.units) - (standing < a.units);                                 \
        struct allow r = check(&a);                                                                \
        struct span next = narrow(s, &r);                                                          \
        judge(&chain[GUARD_##id], GUARD_##id, &r, s, next, proposed, a.units);                     \
        s = next;                                                                                  \
    }
    CHAIN(X)
#undef X
    return clamp_int(proposed, s.lo, s.hi);
}

/* ---- state --------------------------------------------------------------------------------------
 */
void guard_state_init(struct guard_state *g)
{
    *g = (struct guard_state){
        .last_out_us = GUARD_NEVER,
        .last_in_us = GUARD_NEVER,
        .watch_until_us = GUARD_NEVER,
        .breaker_until_us = GUARD_NEVER,
        .breaker_retry_us = GUARD_NEVER,
        .high_since_us = GUARD_NEVER,
        .low_since_us = GUARD_NEVER,
        .water_since_us = GUARD_NEVER,
        .up = {.bucket = GUARD_NEVER},
        .flap = {.bucket = GUARD_NEVER},
    };
}

static inline void hold_since(int64_t *since, bool on, int64_t now_us)
{
    *since = !on ? GUARD_NEVER : *since == GUARD_NEVER ? now_us : *since;
}

static void watermarks_advance(const struct capacity_config *cfg, const struct capacity_view *view,
                               const struct sense_state *s, struct guard_state *g)
{
    const struct guard_options *o = &cfg->guard;
    float cpu = view->value[FIELD_CPU_UTIL], gpu = view->value[FIELD_GPU_UTIL];
    float low = (float)o->low_frac;
    bool high = cpu > (float)o->high_cpu_frac || gpu > (float)o->high_gpu_frac ||
                view->value[FIELD_MEM_UTIL] > (float)o->high_mem_frac;
    bool idle = gpu < low && !(cpu >= low); /* missing GPU use is not idle */
    hold_since(&g->high_since_us, high, view->now_us);
    hold_since(&g->low_since_us, idle, view->now_us);
    hold_since(&g->water_since_us, high_water(view, s) > (float)o->high_gpu_frac * s->cap_requested,
               view->now_us);
}

/* A warming unit became ready since the step before; one that was only repaired did not start. */
static bool unit_started(const struct capacity_view *view, const struct guard_state *g)
{
    return view->units_ready - g->ready_before > max_int(0, g->failed_before - view->units_failed);
}

/* Opens when a unit is not ready in time.  Open, it expires and is half-open until a unit becomes
 * ready; starts are given their time before it may open again, so that a registry that is down
 * costs a unit on trial now and then, and not a blocked target. */
static void breaker_advance(const struct capacity_config *cfg, const struct capacity_view *view,
                            struct guard_state *g)
{
    if (g->breaker_until_us <= view->now_us && unit_started(view, g))
        g->breaker_until_us = GUARD_NEVER;
    g->ready_before = view->units_ready;
    g->failed_before = view->units_failed;
    if (view->warm_oldest_us <= cfg->start_budget_us || view->now_us < g->breaker_retry_us)
        return;
    g->breaker_until_us = view->now_us + cfg->guard.breaker_us;
    g->breaker_retry_us = g->breaker_until_us + cfg->start_budget_us;
}

void guard_advance(const struct capacity_config *cfg, const struct capacity_view *view,
                   struct capacity_state *state)
{
    struct guard_state *g = &state->guard;
    if (!cfg->guarded) {
        g->lo = cfg->spec.units_min;
        g->hi = cfg->spec.units_max;
        return;
    }
    window_advance(&g->up, view->now_us, cfg->up_bucket_us, GUARD_UP_BUCKETS);
    window_advance(&g->flap, view->now_us, INT64_C(3600000000) / GUARD_FLAP_BUCKETS,
                   GUARD_FLAP_BUCKETS);
    watermarks_advance(cfg, view, &state->sense, g);
    breaker_advance(cfg, view, g);
    struct ask a = {cfg, view, state, view->units_requested, 0};
    struct span s = permitted(&a);
    g->lo = s.lo;
    g->hi = s.hi;
}

void guard_commit(const struct capacity_config *cfg, const struct capacity_view *view,
                  struct capacity_state *state, int proposed, int executed)
{
    struct guard_state *g = &state->guard;
    int change = executed - view->units_requested;
    if (change == 0 || !cfg->guarded)
        return;
    if (change > 0) {
        g->last_out_us = view->now_us;
        /* Of an instant on the border the bucket before it: that one is forgotten exactly a window later. */
        window_add(&g->up, GUARD_UP_BUCKETS, g->up.bucket - (view->now_us % cfg->up_bucket_us == 0), change);
    } else {
        g->last_in_us = view->now_us;
        if (proposed < executed && executed == staged_floor(cfg, view->units_requested))
            g->watch_until_us = view->now_us + cfg->guard.watch_us;
    }
    window_add(&g->flap, GUARD_FLAP_BUCKETS, g->flap.bucket, change > 0 ? change : -change);
}

void guard_forget(struct guard_state *g, const struct guard_state *before)
{
    g->last_out_us = before->last_out_us;
    g->last_in_us = before->last_in_us;
    g->watch_until_us = before->watch_until_us;
    g->up = before->up; /* the next guard_advance() moves both windows on */
    g->flap = before->flap;
}

void guard_breaker_reset(struct guard_state *g)
{
    g->breaker_until_us = GUARD_NEVER;
}
