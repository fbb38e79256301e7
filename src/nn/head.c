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

float nn_head_logp(const float *logits, const uint8_t *mask, int n_actions, float *logp)
{
    float top = logits[nn_head_argmax(logits, mask, n_actions)], sum = 0, entropy = 0;
    for (int at = 0; at < n_actions; at += VEC) {
        int n = n_actions - at < VEC ? n_actions - at : VEC;
        v16 x = v16_set(0.0f);
        for (int i = 0; i < n; i++)
            x[i] = logits[at + i] - top;
        v16 p = v16_exp(x);
        for (int i = 0; i < n; i++) {
            bool allowed = !mask || mask[at + i];
            logp[at + i] = allowed ? x[i] : -INFINITY;
            sum += allowed ? p[i] : 0.0f;
        }
    }
    float log_sum = v16_log(v16_set(sum))[0];
    for (int at = 0; at < n_actions; at += VEC) {
        int n = n_actions - at < VEC ? n_actions - at : VEC;
        v16 x = v16_set(0.0f);
        for (int i = 0; i < n; i++)
            x[i] = logp[at + i] -= log_sum;
        v16 p = v16_exp(x);
        for (int i = 0; i < n; i++)
            if (!mask || mask[at + i])
                entropy -= p[i] * x[i];
    }
    return entropy;
}

int nn_head_sample(const float *logp, int n_actions, double u)
{
    double below = 0;
    int last = -1;
    for (int at = 0; at < n_actions; at += VEC) {
        int n = n_actions - at < VEC ? n_actions - at : VEC;
        v16 x = v16_set(-87.0f);
        for (int i = 0; i < n; i++)
            x[i] = logp[at + i];
        v16 p = v16_exp(x);
        for (int i = 0; i < n; i++) {
            if (isinf(x[i]))
                continue;
            last = at + i;
            below += (double)p[i];
            if (u < below)
                return last;
        }
    }
    ASSERT(last >= 0);
    return last; /* rounding left the sum a hair under u */
}

void nn_head_grad(const float *logp, float entropy, int n_actions, int action, float a, float b, float *dlogits)
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
