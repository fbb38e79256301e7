/* capacity_priv.h - the chance of the capacity simulator, shared by its set-up and its step.
 *
 * Correlated noise is a first-order autoregression x' = phi x + g eps that any lane can enter at
 * any step with the same bits.  Time is cut into blocks of B steps with phi^B = 1/600.  Within a
 * block the lane runs the recursion from zero (ar_sum); what earlier blocks contribute (ar_carry)
 * starts as X = S1 + phi^B (S2 + phi^B S3), S1..S3 being the block sums before it, and decays by
 * phi per step.  X forgets what is older than three blocks, a relative 5e-9.  Entering costs at
 * most 4 B draws (B = 256 for 10 min at 15 s: 3 us).  Multipliers are made 16 at a time.
 *
 * Failures: each slot's time is cut into windows of repair_s, shifted by a phase of its own; in a
 * window it is down with probability unavailable_frac.  So unavailability is exact and a repair
 * takes one window (two with probability unavailable_frac).  Windows are drawn for 64 slots at once
 * every repair_s. */
#ifndef SIM_CAPACITY_PRIV_H
#define SIM_CAPACITY_PRIV_H

#include "base/rng.h"
#include "sim/capacity.h"

/* Step numbers as the noise sees them: blocks before the trace exist too. */
static inline uint32_t noise_index(const struct capsim_world *w, int32_t step)
{
    return (uint32_t)(step + 4 * w->ar_block);
}

/* 2 Phi(x) - 1, Abramowitz & Stegun 7.1.27, error below 5e-4: a Gaussian becomes uniform. */
static inline float uniform_of_gauss(float x)
{
    float z = __builtin_fabsf(x) * 0.70710678f;
    float p = 1 + z * (0.278393f + z * (0.230389f + z * (0.000972f + z * 0.078108f)));
    p *= p;
    return __builtin_copysignf(1 - 1 / (p * p), x);
}

static inline void noise_next_block(struct capsim *s, const struct capsim_world *w)
{
    s->ar_carry = s->ar_sum +
                  w->ar_block_decay * (s->ar_block_sum[0] + w->ar_block_decay * s->ar_block_sum[1]);
    s->ar_block_sum[1] = s->ar_block_sum[0];
    s->ar_block_sum[0] = s->ar_sum;
    s->ar_sum = 0;
    s->ar_left = w->ar_block;
}

/* The next CAPSIM_NOISE_RUN multipliers.  Only the recursion in the middle is serial; the loops
 * around it are vectorised. */
static inline void noise_refill(struct capsim *s, const struct capsim_world *w)
{
    float innovation[CAPSIM_NOISE_RUN], independent[CAPSIM_NOISE_RUN], x[CAPSIM_NOISE_RUN];
    if (s->ar_left == 0)
        noise_next_block(s, w);
    for (uint32_t i = 0; i < CAPSIM_NOISE_RUN; i++) {
        uint64_t h =
            rng_mix(s->key_noise + (uint64_t)(s->noise_index + i) * UINT64_C(0x9e3779b97f4a7c15));
        independent[i] = (float)(int32_t)(h >> 32) * 0x1p-31f;
        innovation[i] = (float)(int32_t)h * 0x1p-31f;
    }
    for (int i = 0; i < CAPSIM_NOISE_RUN; i++) {
        s->ar_sum = w->ar_decay * s->ar_sum + w->ar_gain * innovation[i];
        s->ar_carry *= w->ar_decay;
        x[i] = s->ar_sum + s->ar_carry;
    }
    for (int i = 0; i < CAPSIM_NOISE_RUN; i++)
        s->noise[i] = 1 + w->noise_independent * independent[i] +
                      w->noise_correlated * uniform_of_gauss(x[i]);
    s->ar_left -= CAPSIM_NOISE_RUN;
}

/* The demand multiplier of the next step. */
static inline float noise_step(struct capsim *s, const struct capsim_world *w)
{
    uint32_t i = s->noise_index % CAPSIM_NOISE_RUN;
    if (i == 0)
        noise_refill(s, w);
    s->noise_index++;
    return s->noise[i];
}

/* Enter the noise before `step` (>= -CAPSIM_WINDOW). */
void capsim_noise_enter(struct capsim *s, const struct capsim_world *w, int32_t step);

static inline int32_t fail_phase_of(int slot, int32_t repair_steps)
{
    uint32_t x = (uint32_t)(slot % CAPSIM_GROUP) * 2654435769u; /* golden ratio: evenly spread */
    return (int32_t)(((uint64_t)x * (uint32_t)repair_steps) >> 32);
}

static inline bool window_down(const struct capsim_world *w, uint64_t key, int slot,
                               uint32_t window)
{
    return rng_at(key, (uint64_t)slot, window) < w->fail_below;
}

/* Slots of a group that are down in the window that opens during repair block `block`. */
static inline uint64_t group_windows(const struct capsim_world *w, uint64_t key, int group,
                                     uint32_t block)
{
    uint64_t draw[CAPSIM_GROUP], mask = 0;
    for (int i = 0; i < CAPSIM_GROUP; i++) /* apart from the loop below: this one is vectorised */
        draw[i] = rng_at(key, (uint64_t)(group * CAPSIM_GROUP + i), block);
    for (int i = 0; i < CAPSIM_GROUP; i++)
        mask |= (uint64_t)(draw[i] < w->fail_below) << i;
    return mask;
}

static inline int32_t start_steps_at(const struct capsim_world *w, uint64_t key, int slot,
                                     int32_t asked)
{
    int32_t d = w->start_steps[rng_at(key, (uint64_t)slot, (uint64_t)asked) >> 54];
    if (w->n_registry == 0)
        return d;
    int32_t begin = asked;
    for (int i = 0; i < w->cfg.n_faults; i++) { /* sorted by from_step */
        const struct capsim_fault *f = &w->cfg.fault[i];
        if (f->kind == CAPSIM_REGISTRY_DOWN && begin < f->to_step && begin + d > f->from_step)
            begin = f->to_step;
    }
    return begin + d - asked;
}

#endif
