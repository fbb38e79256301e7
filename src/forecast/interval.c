/* Intervals around the clamped mean, in four layers:
 *
 *  1. spread s: exp of a ridge on logs of recent errors, errors of the same slot and minute, level,
 *     distance from the usual, disagreement - so an interval widens where this load is hard;
 *  2. a fading histogram of (load - mean) / s, read at 2.5, 10, 90 and 97.5 %;
 *  3. each bound mixes that, the same moved by what slot and minute taught, and same-slot quantiles
 * (plain, and moved to the present level) by ML-Poly on pinball loss, so it cannot stay worse than
 * they are;
 *  4. a tracker shifts the bound after each miss, and back by less after each hit (quantile
 * tracking, Angelopoulos, Candes & Tibshirani 2023; adaptive conformal inference, Gibbs & Candes
 * 2021, in score space): long-run coverage holds whatever the data do.  Its step grows while recent
 * coverage is off. All of it is told what happened only when the horizon has passed.  A bound may
 * pass the mean by a hair: where the load mostly stands still, an interval that always held the
 * mean would cover too much. */
#include <math.h>
#include <string.h>

#include "forecast/ridge_priv.h"
#include "forecast/scalar_priv.h"
#include "forecast/state_priv.h"

static const float TRACK_STEP = 0.01f,
                   TRACK_MORE = 0.3f; /* spreads per miss; more while coverage is off */
static const float SLOT_STEP = 0.2f, PHASE_STEP = 0.15f; /* spreads per miss, per slot and minute */
static const float TRACK_SHARE = 0.15f; /* of a wide bound, where that is more than a spread */
static const float MISS_RATE = 0.003f;
static const float SURPRISE = 50; /* one error counts at most this many mean ones */
static const float KEEP_BOUND = 0.9999f;
static const float REGRET_CAP = 30;
static const float FAST = 0.2f, SLOW = 0.008f, SLOT_RATE = 0.2f, PHASE_RATE = 0.03f;
static const float KEEP_PER_DAY = 0.97f;
static const double GROW = 1.0007; /* weight of a newer error over an older: 1/e in 5 days */
static const float REACH = 60,
                   BEND = 4; /* scaled errors are binned by +-log(1 + BEND |u|), |u| <= REACH */
static const float SLOT_REACH =
    8; /* a wild load of last week opens its slot at most this many usual widths */
enum { WARM_ERRORS = 20, SPREAD_ERRORS = 50, TRACK_ERRORS = 200 };

static void start_bound(struct interval *v, int b)
{
    v->bin[b] = BINS / 2;
    v->inside[b] = (float)(b >= BOUND_HI80 ? bound_prob[b] : 1 - bound_prob[b]);
}

void interval_init(struct interval *v)
{
    v->weight = 1;
    for (int b = 0; b < BOUNDS; b++)
        start_bound(v, b);
}

void interval_edges(float edge[BINS + 1])
{
    for (int k = 0; k <= BINS; k++) {
        double a = (2.0 * k / BINS - 1) * log((double)(1 + BEND * REACH));
        edge[k] = (float)copysign((exp(fabs(a)) - 1) / (double)BEND, a);
    }
}

/* ---- histogram
 * ------------------------------------------------------------------------------------ */

static int bin_of(float u)
{
    static const float PER_LOG = BINS / 2 / 5.4847970f; /* log(1 + BEND REACH) */
    float a = logf(1 + BEND * fabsf(u)) * PER_LOG;
    int b = BINS / 2 + (int)floorf(u < 0 ? -a : a);
    return b < 0 ? 0 : b >= BINS ? BINS - 1 : b;
}

/* Each bound's bin follows its quantile; moves are few per added error. */
static void follow(struct interval *v, int b)
{
    double want = bound_prob[b] * v->total;
    while (v->bin[b] > 0 && v->below[b] > want)
        v->below[b] -= v->mass[--v->bin[b]];
    while (v->bin[b] < BINS - 1 && v->below[b] + v->mass[v->bin[b]] < want)
        v->below[b] += v->mass[v->bin[b]++];
}

static void histogram_rescale(struct interval *v)
{
    v->total = 0;
    for (int k = 0; k < BINS; k++) {
        v->mass[k] /= v->weight;
        v->total += v->mass[k];
    }
    v->weight = 1;
    for (int b = 0; b < BOUNDS; b++) {
        v->below[b] = 0;
        for (int k = 0; k < v->bin[b]; k++)
            v->below[b] += v->mass[k];
    }
}

static void histogram_add(struct interval *v, float u)
{
    int k = bin_of(u);
    v->mass[k] += v->weight;
    v->total += v->weight;
    for (int b = 0; b < BOUNDS; b++) {
        if (k < v->bin[b])
            v->below[b] += v->weight;
        follow(v, b);
    }
    v->weight *= GROW;
    if (v->weight > 1e6)
        histogram_rescale(v);
}

static float histogram_read(const struct interval *v, const float *edge, int b)
{
    int k = v->bin[b];
    double in = v->mass[k] > 0 ? (bound_prob[b] * v->total - v->below[b]) / v->mass[k] : 0.5;
    in = fmin(fmax(in, 0), 1);
    return edge[k] + (float)in * (edge[k + 1] - edge[k]);
}

/* ---- learning
 * ------------------------------------------------------------------------------------- */

static void learn_bound(struct interval *v, const struct said *s, int b, float load)
{
    bool upper = b >= BOUND_HI80;
    float p = (float)bound_prob[b];
    bool under = upper ? load <= s->bound[b] : load < s->bound[b];
    float part = upper ? p : 1 - p; /* nominal share inside this bound */
    bool inside = upper ? under : !under;
    v->inside[b] += MISS_RATE * ((inside ? 1 : 0) - v->inside[b]);
    float off = min_f(1, fabsf(v->inside[b] - part) / (1 - part));
    v->shift[b] += (TRACK_STEP + TRACK_MORE * off) * (p - (under ? 1 : 0));
    float step = p - (load < s->bound_expert[b][3] ? 1 : 0);
    v->slot_shift[s->slot][b] += SLOT_STEP * step;
    v->phase_shift[s->phase][b] += PHASE_STEP * step;
    float slope = load < s->bound_mixed[b] ? 1 - p : -p; /* of the pinball loss */
    for (int k = 0; k < BOUND_EXPERTS; k++) {
        float r = slope * (s->bound_mixed[b] - s->bound_expert[b][k]) / (v->slow + 1e-20f);
        r = min_f(max_f(r, -REGRET_CAP), REGRET_CAP);
        v->regret[b][k] = KEEP_BOUND * v->regret[b][k] + r;
        v->square[b][k] = KEEP_BOUND * v->square[b][k] + r * r;
    }
}

static float grain(const struct interval *v, float mean_load)
{
    return 0.05f * v->slow + 1e-4f * mean_load + 1e-9f;
}

void interval_learn(struct interval *v, const struct said *s, float load, float mean_load)
{
    float err = load - s->mean, miss = fabsf(err);
    if (v->seen < 1000000)
        v->seen++;
    if (v->seen > TRACK_ERRORS)
        for (int b = 0; b < BOUNDS; b++)
            learn_bound(v, s, b, load);
    if (v->seen > WARM_ERRORS)
        histogram_add(v, err / s->spread);
    if (v->seen > SPREAD_ERRORS) {
        ridge_add(v->a, v->b, s->z, SCALE_FEATURES, SCALE_STRIDE, 1,
                  logf(miss + 2 * grain(v, mean_load)));
        v->rows++;
    }
    float first = 1 / (float)v->seen;
    if (v->seen > WARM_ERRORS)
        miss = min_f(miss, SURPRISE * v->slow + grain(v, mean_load));
    v->fast += max_f(FAST, first) * (miss - v->fast);
    v->slow += max_f(SLOW, first) * (miss - v->slow);
    v->slot[s->slot] += SLOT_RATE * (miss - v->slot[s->slot]);
    v->phase[s->phase] += PHASE_RATE * (miss - v->phase[s->phase]);
}

void interval_day(struct interval *v, double alpha)
{
    if (v->rows > DAY)
        v->fitted |=
            ridge_solve(v->a, v->b, SCALE_FEATURES, SCALE_STRIDE, alpha / (double)v->rows, v->w);
    ridge_fade(v->a, v->b, SCALE_FEATURES, SCALE_STRIDE, KEEP_PER_DAY);
    v->rows *= KEEP_PER_DAY;
}

/* ---- bounds
 * --------------------------------------------------------------------------------------- */

static void fill_spread(const struct forecaster *f, int level, const struct origin *o,
                        struct said *s)
{
    const struct interval *v = &f->interval[level];
    float mean_load = f->window.mean, d = grain(v, mean_load);
    int k = s->slot, before = (k + SLOTS_PER_DAY - 1) % SLOTS_PER_DAY,
        after = (k + 1) % SLOTS_PER_DAY;
    float slot = 0.5f * v->slot[k] + 0.25f * (v->slot[before] + v->slot[after]);
    const float raw[SCALE_FEATURES - 1] = {
        v->fast + d,
        v->slow + d,
        slot + d,
        v->phase[s->phase] + d,
        s->mean + 0.02f * mean_load + 1e-9f,
        fabsf(o->y - f->levels.ewma[1]) + d,
        s->disagreement + d,
        fabsf(s->mean - o->y) + d,
    };
    memset(s->z, 0, sizeof s->z);
    s->z[0] = 1;
    for (int j = 0; j < SCALE_FEATURES - 1; j++)
        s->z[j + 1] = logf(raw[j]);
    float spread = v->slow + d;
    if (v->fitted) {
        float p = 0;
        for (int j = 0; j < SCALE_FEATURES; j++)
            p += v->w[j] * s->z[j];
        spread = expf(min_f(p, 80));
    }
    s->spread = min_f(max_f(spread, 0.05f * v->slow + d), 50 * v->slow + d);
}

static float mix_bound(const struct interval *v, int b, const float *expert)
{
    float all = 0, sum = 0;
    for (int k = 0; k < BOUND_EXPERTS; k++) {
        float w = max_f(v->regret[b][k], 0) / (1 + v->square[b][k]);
        all += w;
        sum += w * expert[k];
    }
    return all > 0 ? sum / all : expert[0];
}

static void fill_bound(const struct forecaster *f, int level, const struct slot_stats *slot, int b,
                       struct said *s)
{
    const struct interval *v = &f->interval[level];
    float *e = s->bound_expert[b];
    float c = 0.02f * f->window.mean + 1e-9f;
    e[0] = s->mean + s->spread * histogram_read(v, f->bin_edge, b);
    e[1] = e[2] = e[0];
    e[3] = s->mean + s->spread * (histogram_read(v, f->bin_edge, b) + v->slot_shift[s->slot][b] +
                                  v->phase_shift[s->phase][b]);
    if (!isnan(slot->bound[b])) {
        e[1] = slot->bound[b];
        e[2] =
            s->mean + (slot->bound[b] - slot->median_all) * (s->mean + c) / (slot->median_all + c);
    }
    float reach = SLOT_REACH * (e[0] > s->mean ? e[0] - s->mean : s->mean - e[0]);
    for (int k = 0; k < BOUND_EXPERTS; k++)
        e[k] = max_f(clamp_f(e[k], s->mean - reach, s->mean + reach), 0);
    s->bound_mixed[b] = mix_bound(v, b, e);
    float half =
        s->bound_mixed[b] > s->mean ? s->bound_mixed[b] - s->mean : s->mean - s->bound_mixed[b];
    s->bound[b] = max_f(s->bound_mixed[b] + max_f(s->spread, TRACK_SHARE * half) * v->shift[b], 0);
}

void interval_fill(const struct forecaster *f, int level, const struct origin *o, struct said *s)
{
    const struct window *w = &f->window;
    const struct interval *v = &f->interval[level];
    int ahead = level_last[level];
    s->slot = (int16_t)window_slot(w, ahead);
    s->phase = (int16_t)((w->five + ahead) % PHASES);
    fill_spread(f, level, o, s);
    if (v->seen <= WARM_ERRORS) { /* nothing known: anything up to a fifth above the largest load */
        for (int b = 0; b < BOUNDS; b++)
            s->bound[b] = s->bound_mixed[b] = b >= BOUND_HI80 ? max_f(1.2f * w->peak, s->mean) : 0;
        for (int b = 0; b < BOUNDS; b++)
            for (int k = 0; k < BOUND_EXPERTS; k++)
                s->bound_expert[b][k] = s->bound[b];
        return;
    }
    const struct slot_stats *slot = &w->slot[window_rest(w, ahead)][s->slot];
    for (int b = 0; b < BOUNDS; b++)
        fill_bound(f, level, slot, b, s);
    if (s->bound[BOUND_LO80] > s->bound[BOUND_HI80])
        s->bound[BOUND_LO80] = s->bound[BOUND_HI80] =
            0.5f * (s->bound[BOUND_LO80] + s->bound[BOUND_HI80]);
    s->bound[BOUND_LO95] = min_f(s->bound[BOUND_LO95], s->bound[BOUND_LO80]);
    s->bound[BOUND_HI95] = max_f(s->bound[BOUND_HI95], s->bound[BOUND_HI80]);
}
