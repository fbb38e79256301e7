#include "rl/ppo_loss.h"

#include <math.h>
#include <string.h>

#include "nn/vec.h"

/* Up to sixteen rows, one per vector lane; unused lanes repeat the first row with no weight.  What
 * is gathered row by row goes through these arrays: scalar stores first, vector loads much
 * later. */
struct block {
    int n;
    v16 weight, live; /* loss->weight and 1; 0 in unused lanes */
    int32_t action[VEC];
    float adv[VEC], logp_old[VEC], value[ROLLOUT_VALUES_MAX][VEC], ret[ROLLOUT_VALUES_MAX][VEC];
    float value_old[ROLLOUT_VALUES_MAX][VEC];
    v16 logit[PPO_ACTIONS_MAX], p[PPO_ACTIONS_MAX];
};

#define MASKED_LOGIT (-1e30f) /* swallows any logit added to it */

static void load_rows(struct block *b, const struct ppo_loss *l, const struct nn_tile *tile, int at)
{
    static const float penalty[2] = {MASKED_LOGIT, 0.0f};
    float *logit = (float *)b->logit;
    b->n = tile->n - at < VEC ? tile->n - at : VEC;
    for (int i = 0; i < VEC; i++) {
        size_t from = (size_t)(at + (i < b->n ? i : 0));
        int row = tile->row[from];
        const uint8_t *mask = l->mask + (size_t)row * (size_t)l->n_actions;
        const float *logits = tile->logits + from * tile->ld_logits;
        for (int a = 0; a < l->n_actions; a++)
            logit[a * VEC + i] =
                logits[a] + penalty[mask[a] != 0]; /* a branch here would be mispredicted */
        b->action[i] = l->action[row];
        b->adv[i] = l->adv[row];
        b->logp_old[i] = l->logp_old[row];
        for (int k = 0; k < l->n_values; k++) {
            b->value[k][i] = tile->values[from * tile->ld_values + (size_t)k];
            b->ret[k][i] = l->ret[k][row];
            if (l->value_clip > 0)
                b->value_old[k][i] = l->value_old[k][row];
        }
    }
    static const float lane[VEC] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    b->live = v16_pick((v16i)(v16_load(lane) < (float)b->n), v16_set(1.0f), v16_set(0.0f));
    b->weight = b->live * l->weight;
}

/* logit becomes the log-probability, p the probability; returns the entropy. */
static v16 softmax(struct block *b, int n_actions)
{
    v16 top = b->logit[0], sum = v16_set(0.0f), dot = v16_set(0.0f);
    for (int a = 1; a < n_actions; a++)
        top = v16_max(top, b->logit[a]);
    for (int a = 0; a < n_actions; a++) {
        v16 x = b->logit[a] - top;
        v16i allowed = (v16i)(b->logit[a] > v16_set(0.5f * MASKED_LOGIT));
        b->p[a] = v16_pick(allowed, v16_exp(x), v16_set(0.0f));
        sum += b->p[a];
        b->logit[a] = x;
    }
    v16 log_sum = v16_log(sum), inverse = 1.0f / sum;
    for (int a = 0; a < n_actions; a++) {
        b->p[a] *= inverse;
        b->logit[a] -= log_sum;
        dot = v16_fma(b->p[a], b->logit[a], dot);
    }
    return -dot;
}

/* Log-probability of the action taken. */
static v16 chosen_logp(const struct block *b, int n_actions)
{
    v16i action = (v16i)v16_load((const float *)b->action);
    v16 x = b->logit[0];
    for (int a = 1; a < n_actions; a++)
        x = v16_pick((v16i)(action == a), b->logit[a], x);
    return x;
}

static double total(const struct block *b, v16 x)
{
    return (double)v16_sum(x * b->live);
}

/* d L / d logp(action) of the clipped term, and its sums. */
static v16 surrogate(const struct block *b, struct ppo_loss *l)
{
    v16 adv = v16_load(b->adv), old = v16_load(b->logp_old);
    v16 log_ratio = chosen_logp(b, l->n_actions) - old, ratio = v16_exp(log_ratio);
    v16 low = v16_set(1.0f - l->clip), high = v16_set(1.0f + l->clip);
    v16 plain = ratio * adv, clipped = v16_min(v16_max(ratio, low), high) * adv;
    l->policy_loss -= total(b, v16_min(plain, clipped));
    l->kl += total(b, (ratio - 1.0f) - log_ratio); /* Schulman's low-variance estimate */
    v16i outside = (v16i)(ratio < low) | (v16i)(ratio > high);
    l->clipped += total(b, v16_pick(outside, v16_set(1.0f), v16_set(0.0f)));
    return v16_pick((v16i)(plain <= clipped), -plain, v16_set(0.0f));
}

static v16 prior_mean(const struct block *b, const struct ppo_loss *l)
{
    v16 mean = v16_set(0.0f);
    for (int a = 0; a < l->n_actions; a++)
        mean = v16_fma(b->p[a], b->logit[a] - l->prior[a], mean);
    return mean;
}

static void policy_grad(struct block *b, struct ppo_loss *l, float *dlogits, size_t ld)
{
    v16 entropy = softmax(b, l->n_actions);
    l->entropy += total(b, entropy);
    v16 g = surrogate(b, l), mean = l->kl_prior > 0 ? prior_mean(b, l) : v16_set(0.0f);
    v16i action = (v16i)v16_load((const float *)b->action);
    float *out = (float *)b->logit;
    for (int a = 0; a < l->n_actions; a++) {
        v16 hit = v16_pick((v16i)(action == a), g, v16_set(0.0f));
        v16 d = v16_fma(-g, b->p[a], hit);
        d = v16_fma(l->entropy_coef * b->p[a], b->logit[a] + entropy, d);
        if (l->kl_prior > 0)
            d = v16_fma(l->kl_prior * b->p[a], b->logit[a] - l->prior[a] - mean, d);
        b->logit[a] = d * b->weight;
    }
    for (int i = 0; i < b->n; i++)
        for (int a = 0; a < l->n_actions; a++)
            dlogits[(size_t)i * ld + (size_t)a] = out[a * VEC + i];
}

static void value_grad(const struct block *b, struct ppo_loss *l, int k, float *dvalues, size_t ld)
{
    v16 v = v16_load(b->value[k]), target = v16_load(b->ret[k]), err = v - target, grad = err,
        square = err * err;
    if (l->value_clip > 0) {
        v16 old = v16_load(b->value_old[k]), reach = v16_set(l->value_clip);
        v16 moved = v16_min(v16_max(v - old, -reach), reach);
        v16 other = old + moved - target;
        v16i take = (v16i)(other * other >
                           square); /* then V is outside the clip: no gradient unless inside */
        v16 inside = v16_pick((v16i)(moved == v - old), other, v16_set(0.0f));
        grad = v16_pick(take, inside, grad);
        square = v16_max(square, other * other);
    }
    float out[VEC];
    l->value_loss[k] += 0.5 * total(b, square);
    v16_store(out, grad * (l->value_coef * b->weight));
    for (int i = 0; i < b->n; i++)
        dvalues[(size_t)i * ld + (size_t)k] = out[i];
}

void ppo_loss(void *ctx, const struct nn_tile *tile)
{
    struct ppo_loss *l = ctx;
    struct block b;
    for (int at = 0; at < tile->n; at += VEC) {
        load_rows(&b, l, tile, at);
        policy_grad(&b, l, tile->dlogits + (size_t)at * tile->ld_logits, tile->ld_logits);
        for (int k = 0; k < l->n_values; k++)
            value_grad(&b, l, k, tile->dvalues + (size_t)at * tile->ld_values, tile->ld_values);
    }
}

/* ---- reference
 * -------------------------------------------------------------------------------- */

static double reference_logp(const float *logits, const uint8_t *mask, int n, double *logp)
{
    double top = -INFINITY, sum = 0, entropy = 0;
    for (int a = 0; a < n; a++)
        if (mask[a])
            top = fmax(top, (double)logits[a]);
    for (int a = 0; a < n; a++)
        sum += mask[a] ? exp((double)logits[a] - top) : 0.0;
    for (int a = 0; a < n; a++) {
        logp[a] = mask[a] ? (double)logits[a] - top - log(sum) : -INFINITY;
        entropy -= mask[a] ? exp(logp[a]) * logp[a] : 0.0;
    }
    return entropy;
}

static void reference_policy(struct ppo_loss *l, int row, const float *logits, float *dlogits)
{
    double logp[PPO_ACTIONS_MAX], mean = 0;
    const uint8_t *mask = l->mask + (size_t)row * (size_t)l->n_actions;
    double entropy = reference_logp(logits, mask, l->n_actions, logp);
    double log_ratio = logp[l->action[row]] - (double)l->logp_old[row], ratio = exp(log_ratio);
    double adv = (double)l->adv[row], clip = (double)l->clip;
    double bounded = fmin(fmax(ratio, 1 - clip), 1 + clip);
    double g = ratio * adv <= bounded * adv ? -ratio * adv : 0.0;
    for (int a = 0; a < l->n_actions && l->kl_prior > 0; a++)
        mean += mask[a] ? exp(logp[a]) * (logp[a] - (double)l->prior[a]) : 0.0;
    for (int a = 0; a < l->n_actions; a++) {
        double p = mask[a] ? exp(logp[a]) : 0.0, d = g * ((a == l->action[row]) - p);
        if (mask[a]) {
            d += (double)l->entropy_coef * p * (logp[a] + entropy);
            if (l->kl_prior > 0)
                d += (double)l->kl_prior * p * (logp[a] - (double)l->prior[a] - mean);
        }
        dlogits[a] = (float)(d * (double)l->weight);
    }
    l->policy_loss -= fmin(ratio * adv, bounded * adv);
    l->kl += ratio - 1 - log_ratio;
    l->clipped += bounded != ratio;
    l->entropy += entropy;
}

static void reference_value(struct ppo_loss *l, int row, int k, double v, float *dvalue)
{
    double err = v - (double)l->ret[k][row], grad = err, square = err * err;
    if (l->value_clip > 0) {
        double old = (double)l->value_old[k][row], reach = (double)l->value_clip;
        double moved = fmin(fmax(v - old, -reach), reach),
               other = old + moved - (double)l->ret[k][row];
        if (other * other > square) {
            square = other * other;
            grad = moved == v - old ? other : 0.0;
        }
    }
    l->value_loss[k] += 0.5 * square;
    *dvalue = (float)(grad * (double)l->value_coef * (double)l->weight);
}

void ppo_loss_reference(void *ctx, const struct nn_tile *tile)
{
    struct ppo_loss *l = ctx;
    for (int i = 0; i < tile->n; i++) {
        size_t at = (size_t)i * tile->ld_logits, at_v = (size_t)i * tile->ld_values;
        reference_policy(l, tile->row[i], tile->logits + at, tile->dlogits + at);
        for (int k = 0; k < l->n_values; k++)
            reference_value(l, tile->row[i], k, (double)tile->values[at_v + (size_t)k],
                            tile->dvalues + at_v + (size_t)k);
    }
}
