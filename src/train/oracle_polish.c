/* oracle_polish.c - local search on a plan with the simulator as judge.
 *
 * A cursor lane walks through the plan.  At each step a few changes that begin there are tried on a
 * copy of the lane, which runs on until its state is that of the plan again; what it cost and
 * missed on the way is exact.  States are compared by a signature of all a size can influence
 * (slots, warm-up times, backlog); everything else in a lane is a function of seed and time.
 * Callers simulate the whole plan afterwards, so a collision could cost quality, never correctness. */
#include <string.h>

#include "base/rng.h"
#include "train/oracle_priv.h"

enum {
    TRIAL_TAIL = 400,      /* steps a trial may differ from the plan after its change */
    TRIAL_MISSES = 8,      /* more new misses than these are never worth it */
    BUMP_STEPS_MAX = 200,  /* a rise and fall longer than this is not a bump */
    EARLIER_FALL_MAX = 16, /* steps a fall may come earlier */
    LATER_ASK_MAX = 4,
    HELD_STEPS_MAX = 25,   /* steps a unit is held for a miss to come */
};

struct change {
    int32_t from, to; /* steps [from, to) get `delta` units more */
    int delta;
};

struct polish {
    struct oracle *o;
    int16_t *units;
    double price;
    int32_t misses;
};

static uint64_t signature(const struct capsim *s, const struct capsim_world *w)
{
    uint32_t backlog;
    memcpy(&backlog, &s->backlog, sizeof backlog);
    uint64_t h = rng_mix(backlog);
    for (int32_t k = 0; k < w->n_groups; k++) {
        const struct capsim_group *g = &s->group[k];
        h = rng_mix(h ^ g->requested);
        h = rng_mix(h ^ g->warming);
        for (uint64_t m = g->warming; m; m &= m - 1) {
            int i = __builtin_ctzll(m);
            h = rng_mix(h ^ ((uint64_t)g->asked_step[i] << 32 | g->ready_step[i]));
        }
    }
    return h;
}

/* Follow the plan from the cursor's step `from` and note states and misses until they are known
 * again. */
static void note(struct polish *p, int32_t from, int32_t until)
{
    struct oracle *o = p->o;
    struct capacity_view view;
    struct capsim_out out;
    capsim_copy(o->lane, o->cursor, o->w);
    for (int32_t i = from; i < o->n; i++) {
        uint64_t now = signature(o->lane, o->w);
        if (i >= until && now == o->state[i])
            return;
        o->state[i] = now;
        capsim_step(o->lane, o->w, o->t, p->units[i], &view, &out);
        o->miss[i] = out.miss && !out.barred;
    }
}

/* Cost and misses that the change adds; false when it cannot be made or wanders off. */
static bool trial(struct polish *p, const struct change *c, int32_t *cost, int32_t *misses)
{
    struct oracle *o = p->o;
    struct capacity_view view;
    struct capsim_out out;
    *cost = *misses = 0;
    capsim_copy(o->lane, o->cursor, o->w);
    for (int32_t i = c->from; i < o->n; i++) {
        if (i >= c->to && signature(o->lane, o->w) == o->state[i])
            return true;
        int units = p->units[i] + (i < c->to ? c->delta : 0);
        if (i >= c->to + TRIAL_TAIL || units < 0 || units > o->units_max || *misses > TRIAL_MISSES)
            return false;
        capsim_step(o->lane, o->w, o->t, units, &view, &out);
        if (!out.barred) {
            *cost += units - p->units[i];
            *misses += out.miss - o->miss[i];
        }
    }
    return true;
}

/* Make the change if it is worth it. */
static bool consider(struct polish *p, int32_t from, int32_t to, int delta)
{
    struct change c = {from, to < p->o->n ? to : p->o->n, delta};
    int32_t cost, misses;
    if (delta == 0 || !trial(p, &c, &cost, &misses) || cost + p->price * misses >= 0)
        return false;
    if (misses > 0 && p->misses + misses > p->o->allowed)
        return false;
    for (int32_t i = c.from; i < c.to; i++)
        p->units[i] = (int16_t)(p->units[i] + delta);
    p->misses += misses;
    note(p, c.from, c.to);
    return true;
}

/* A rise at step i: not at all, or one unit of it later. */
static void consider_rise(struct polish *p, int32_t i, int before)
{
    int32_t end = i, last = i + BUMP_STEPS_MAX;
    while (end < p->o->n && end < last && p->units[end] > before)
        end++;
    if (end < last && consider(p, i, end, -1))
        return;
    for (int32_t later = LATER_ASK_MAX; later >= 1; later--)
        if (i + later < end && consider(p, i, i + later, -1))
            return;
}

/* A fall soon after step i: one unit of it now. */
static void consider_earlier_fall(struct polish *p, int32_t i)
{
    int32_t fall = i + 1, last = i + EARLIER_FALL_MAX;
    while (fall < p->o->n && fall <= last && p->units[fall] >= p->units[i])
        fall++;
    if (fall <= last && fall < p->o->n)
        consider(p, i, fall, -1);
}

/* A unit is down: stop it for a while, since scale-in takes failed ones before ready ones. */
static void consider_failed(struct polish *p, int32_t i)
{
    for (int32_t len = p->o->w->repair_steps - 6; len >= 5; len -= 5)
        if (consider(p, i, i + len, -1))
            return;
}

/* A miss ahead: one unit more until then, asked for now, or held if one is just being let go. */
static void consider_miss(struct polish *p, int32_t i, bool falling)
{
    int32_t first = falling ? 0 : p->o->b.lag - 1, last = falling ? HELD_STEPS_MAX : p->o->lead + 4;
    for (int32_t m = i + first; m < p->o->n && m <= i + last; m++)
        if (p->o->miss[m] && consider(p, i, m + 1, 1))
            return;
}

int32_t oracle_polish(struct oracle *o, int16_t *units, double price)
{
    struct polish p = {.o = o, .units = units, .price = price};
    struct capacity_view view;
    struct capsim_out out;
    capsim_reset(o->cursor, o->w, o->t, o->seed, o->from, o->units0, &view);
    note(&p, 0, o->n);
    for (int32_t i = 0; i < o->n; i++)
        p.misses += o->miss[i];
    for (int32_t i = 0; i < o->n; i++) {
        int before = i ? units[i - 1] : o->units0;
        if (units[i] > before)
            consider_rise(&p, i, before);
        consider_earlier_fall(&p, i);
        if (o->cursor->units_failed > 0)
            consider_failed(&p, i);
        if (i + 1 < o->n)
            consider(&p, i, i + 1, units[i + 1] - units[i]);
        consider(&p, i, i + 1, before - units[i]);
        consider_miss(&p, i, units[i] < before);
        capsim_step(o->cursor, o->w, o->t, units[i], &view, &out);
    }
    return p.misses;
}
