/* Online mixing of experts (Gaillard, Stoltz & van Erven, "A second-order bound with excess
 * losses", 2014, ML-Poly): an expert weighs regret / (1 + squares) while its regret is positive.
 * Regrets are linearised absolute losses.  Three mixers forget at different speeds; a fourth picks
 * among them and persistence, so that where nothing beats persistence little is lost.  Losses
 * arrive with the horizon's delay. */
#include <assert.h>
#include <string.h>

#include "forecast/scalar_priv.h"
#include "forecast/state_priv.h"

static const float KEEP[RATES] = {0.9997f, 0.999f, 0.99f}; /* per point: 12 days, 3.5 days, 8 h */
static const float CHOICE_KEEP = 0.9998f;
static const float REGRET_CAP = 5; /* in typical steps: one burst does not decide */

static void learn(float *restrict regret, float *restrict square, const float *restrict expert,
                  int n, float said, float load, float scale, float keep)
{
    float sign = said > load ? 1 : said < load ? -1 : 0;
    float unit = sign / scale;
    for (int k = 0; k < n; k++) {
        float r = clamp_f(unit * (said - expert[k]), -REGRET_CAP, REGRET_CAP);
        regret[k] = keep * regret[k] + r;
        square[k] = keep * square[k] + r * r;
    }
}

void mixing_learn(struct mixing *m, const struct said *s, float load, float scale)
{
    for (int k = 0; k < RATES; k++)
        learn(m->rate[k].regret, m->rate[k].square, s->expert, EXPERTS, s->choice[k], load, scale,
              KEEP[k]);
    learn(m->choice_regret, m->choice_square, s->choice, CHOICES, s->mixed, load, scale,
          CHOICE_KEEP);
}

/* Weights summing to 1: all on the last point while no expert has shown anything. */
static void weigh_experts(const struct mixer *m, float w[EXPERTS])
{
    for (int k = 0; k < EXPERTS; k++)
        w[k] = max_f(m->regret[k], 0) / (1 + m->square[k]);
    float all = sum_16(w);
    if (!(all > 0)) {
        memset(w, 0, EXPERTS * sizeof *w);
        w[EXPERT_LAST] = 1;
        return;
    }
    float share = 1 / all;
    for (int k = 0; k < EXPERTS; k++)
        w[k] *= share;
}

static void weigh_choices(const struct mixing *m, float w[CHOICES])
{
    float all = 0;
    for (int k = 0; k < CHOICES; k++) {
        w[k] = max_f(m->choice_regret[k], 0) / (1 + m->choice_square[k]);
        all += w[k];
    }
    for (int k = 0; k < CHOICES; k++)
        w[k] = all > 0 ? w[k] / all : k < RATES ? 1.0f / RATES : 0;
}

static float dot_experts(const float w[EXPERTS], const float e[EXPERTS])
{
    float v[EXPERTS];
    for (int k = 0; k < EXPERTS; k++)
        v[k] = w[k] * e[k];
    return sum_16(v);
}

void mixing_fill(const struct mixing *m, struct said *s)
{
    float w[EXPERTS], choice[CHOICES];
    static_assert(EXPERTS == 16, "sum_16");
    for (int k = RATES - 1; k >= 0;
         k--) { /* the slowest last: its weights serve the disagreement */
        weigh_experts(&m->rate[k], w);
        s->choice[k] = dot_experts(w, s->expert);
    }
    s->choice[RATES] = s->expert[EXPERT_LAST];
    weigh_choices(m, choice);
    s->mixed = 0;
    for (int k = 0; k < CHOICES; k++)
        s->mixed += choice[k] * s->choice[k];
    for (int k = 0; k < EXPERTS; k++)
        w[k] *= s->expert[k] > s->mixed ? s->expert[k] - s->mixed : s->mixed - s->expert[k];
    s->disagreement = sum_16(w);
}

void mixing_shares(const struct mixing *m, float out[EXPERTS])
{
    float choice[CHOICES], w[EXPERTS];
    weigh_choices(m, choice);
    memset(out, 0, EXPERTS * sizeof *out);
    out[EXPERT_LAST] = choice[RATES];
    for (int k = 0; k < RATES; k++) {
        weigh_experts(&m->rate[k], w);
        for (int j = 0; j < EXPERTS; j++)
            out[j] += choice[k] * w[j];
    }
}
