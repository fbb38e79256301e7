#include "daemon/round.h"

#include <string.h>

#include "base/num.h"

static bool before(const struct round_input *a, const struct round_input *b)
{
    const struct target *x = a->target, *y = b->target;
    if (x->spec.cls != y->spec.cls)
        return x->spec.cls < y->spec.cls;
    int c = strcmp(x->id.namespace_, y->id.namespace_);
    return c ? c < 0 : strcmp(x->id.name, y->id.name) < 0;
}

/* Shell's sort with Ciura's gaps: qsort of the C library allocates. */
static void sort(struct round_input *in, size_t n)
{
    static const size_t gaps[] = {301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (size_t gap = gaps[g], i = gap; i < n; i++) {
            struct round_input x = in[i];
            size_t at = i;
            for (; at >= gap && before(&x, &in[at - gap]); at -= gap)
                in[at] = in[at - gap];
            in[at] = x;
        }
}

static bool decides(const struct round_input *in)
{
    return in->target->main.ready && in->counts.known;
}

/* GPUs that nobody has asked for yet; negative when the budget is already exceeded. */
static int64_t gpus_left(const struct round_input *in, size_t n, int64_t gpu_budget)
{
    int64_t left = gpu_budget;
    for (size_t i = 0; i < n; i++)
        if (in[i].counts.known)
            left -= (int64_t)in[i].counts.requested * in[i].target->spec.gpus_per_unit;
    return left;
}

size_t round_run(struct round_input *in, size_t n, const struct calendar *cal, int64_t now_us, int64_t gpu_budget)
{
    size_t decided = 0;
    sort(in, n);
    int64_t left = gpu_budget ? gpus_left(in, n, gpu_budget) : 0;
    for (size_t i = 0; i < n; i++) {
        struct target *t = in[i].target;
        t->decided = false;
        if (in[i].sample.sample_us > 0)
            target_push_load(t, cal, now_us, in[i].sample.sample_us, in[i].sample.qps_last);
        if (!decides(&in[i]))
            continue;
        int gpus = t->spec.gpus_per_unit, budget = t->spec.units_max;
        if (gpu_budget && gpus > 0)
            budget = in[i].counts.requested + (int)(left > 0 ? left / gpus : 0);
        target_view(t, cal, now_us, &in[i].counts, &in[i].sample, &in[i].claims, budget, in[i].weight_latency,
                    in[i].weight_cost);
        target_decide(t);
        int64_t grown = (int64_t)(target_acting(t)->plan.units - in[i].counts.requested) * gpus;
        left -= grown > 0 && !in[i].only_watched ? grown : 0; /* what is given up is free only once its pods have gone */
        decided++;
    }
    return decided;
}
