#include "nn/head.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "nn/vec.h"

static int first_allowed(const uint8_t *mask, int n)
{
    int a = 0;
    while (mask && a < n && !mask[a])
        a++;
    ASSERT(a < n);
    return a;
}

int nn_head_argmax(const float *logits, const uint8_t *mask, int n_actions)
{
    int best = first_allowed(mask, n_actions);
    for (int a = best + 1; a < n_actions; a++)
        if ((!mask || mask[a]) && logits[a] > logits[best])
            best = a;
    return best;
}

/* Sixteen logits less the largest, masked ones so low that exp() of them is far below rounding. */
static v16 load_shifted(const float *logits, const uint8_t *mask, int at, int n_actions, float top)
{
    float x[VEC];
    for (int i = 0; i < VEC; i++)
        x[i] = at + i < n_actions && (!mask || mask[at + i]) ? logits[at + i] - top : -INFINITY;
    return v16_load(x);
}

/* exp of what load_shifted gives, exactly 0 for masked actions. */
static v16 exp_shifted(v16 x)
{
    return v16_pick((v16i)(x > v16_set(-INFINITY)), v16_exp(x), v16_set(0.0f));
}

float nn_head_logp(const float *logits, const uint8_t *mask, int n_actions, float *logp)
{
    float top = logits[nn_head_argmax(logits, mask, n_actions)], sum = 0, dot = 0;
    for (int at = 0; at < n_actions; at += VEC) {
        v16 x = load_shifted(logits, mask, at, n_actions, top), p = exp_shifted(x);
        sum += v16_sum(p);
        dot += v16_sum(v16_pick((v16i)(p > 0.0f), p * x, v16_set(0.0f)));
    }
    float log_sum = v16_log(v16_set(sum))[0];
    for (int a = 0; a < n_actions; a++)
        logp[a] = !mask || mask[a] ? logits[a] - top - log_sum : -INFINITY;
    return log_sum - dot / sum;
}

float nn_head_draw(const float *logits, const uint8_t *mask, int n_actions, double u,
                   int32_t *action)
{
    float top = logits[nn_head_argmax(logits, mask, n_actions)], p[NN_HEAD_MAX + VEC], sum = 0,
          below = 0;
    ASSERT(n_actions <= NN_HEAD_MAX);
    for (int at = 0; at < n_actions; at += VEC) {
        v16 z = exp_shifted(load_shifted(logits, mask, at, n_actions, top));
        v16_store(p + at, z);
        sum += v16_sum(z);
    }
    float target = (float)u * sum;
    int last = -1;
    for (int a = 0; a < n_actions && (last < 0 || below <= target); a++) {
        below += p[a];
        if (p[a] > 0.0f)
            last = a;
    }
    *action = last < 0 ? first_allowed(mask, n_actions) : last;
    return last < 0 ? NAN : logits[last] - top - v16_log(v16_set(sum))[0];
}

int nn_head_sample(const float *logp, int n_actions, double u)
{
    double below = 0;
    int last = -1;
    for (int a = 0; a < n_actions; a++) {
        if (isinf(logp[a]))
            continue;
        last = a;
        below += exp((double)logp[a]);
        if (u < below)
            break;
    }
    ASSERT(last >= 0); /* rounding may leave the sum a hair under u: the last action then */
    return last;
}

void nn_head_grad(const float *logp, float entropy, int n_actions, int action, float a, float b,
                  float *dlogits)
{
    for (int i = 0; i < n_actions; i++) {
        if (isinf(logp[i])) {
            dlogits[i] = 0.0f;
            continue;
        }
        float p = expf(logp[i]);
        dlogits[i] = a * ((i == action ? 1.0f : 0.0f) - p) - b * p * (logp[i] + entropy);
    }
}
