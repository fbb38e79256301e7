#include "nn/adam.h"

#include <math.h>

#include "nn/vec.h"

struct nn_adam nn_adam_default(void)
{
    return (struct nn_adam){.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-5f, .max_norm = 0.5f};
}

static double sum_of_squares(const float *g, size_t n)
{
    /* Sixteen float lanes over short spans, the spans in double: exact enough at any size, fixed
     * order. */
    enum { SPAN = 4096 };
    double total = 0;
    for (size_t begin = 0; begin < n; begin += SPAN) {
        size_t end = begin + SPAN < n ? begin + SPAN : n;
        v16 sum = v16_set(0.0f);
        for (size_t i = begin; i < end; i += VEC) {
            v16 x = v16_load(g + i);
            sum = v16_fma(x, x, sum);
        }
        total += (double)v16_sum(sum);
    }
    return total;
}

static enum err_code name_bad_tensor(const struct nn_params *p, struct err *e)
{
    for (int i = 0; i < p->n; i++) {
        const float *g = nn_params_grad(p, i);
        for (size_t k = 0; k < p->table[i].size; k++)
            if (!isfinite(g[k]))
                return err_set(e, ERR_NUMERIC, "gradient of %s[%zu] is %g", p->table[i].name, k,
                               (double)g[k]);
    }
    return err_set(e, ERR_NUMERIC, "gradient norm is not finite");
}

enum err_code nn_adam_step(struct nn_adam *a, struct nn_params *p, float lr, float *norm,
                           struct err *e)
{
    double length = sqrt(sum_of_squares(p->grad, p->total));
    if (!isfinite(length))
        return name_bad_tensor(p, e);
    if (norm)
        *norm = (float)length;
    float clip =
        a->max_norm > 0 && length > (double)a->max_norm ? a->max_norm / (float)length : 1.0f;
    a->t++;
    double correct1 = 1.0 - pow((double)a->beta1, (double)a->t),
           correct2 = 1.0 - pow((double)a->beta2, (double)a->t);
    /* m^ / (sqrt(v^) + eps) with both corrections folded into the step size and eps (Kingma & Ba,
     * section 2). */
    v16 step = v16_set((float)((double)lr * sqrt(correct2) / correct1));
    v16 eps = v16_set((float)((double)a->eps * sqrt(correct2)));
    v16 keep = v16_set(1.0f - lr * a->weight_decay), scale = v16_set(clip);
    v16 b1 = v16_set(a->beta1), c1 = v16_set(1.0f - a->beta1), b2 = v16_set(a->beta2),
        c2 = v16_set(1.0f - a->beta2);
    for (size_t i = 0; i < p->total; i += VEC) {
        v16 g = v16_load(p->grad + i) * scale;
        v16 m = v16_fma(b1, v16_load(p->m + i), c1 * g);
        v16 v = v16_fma(b2, v16_load(p->v + i), c2 * (g * g));
        v16_store(p->m + i, m);
        v16_store(p->v + i, v);
        v16_store(p->value + i, v16_load(p->value + i) * keep - step * m / (v16_sqrt(v) + eps));
    }
    return ERR_OK;
}
