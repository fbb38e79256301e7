/* oracle_priv.h - the parts of the clairvoyant plan: what is known, choosing, asking, polishing. */
#ifndef TRAIN_ORACLE_PRIV_H
#define TRAIN_ORACLE_PRIV_H

#include "train/bound.h"
#include "train/oracle.h"

enum {
    ORACLE_SCALE = 32,           /* prices are in 1/32 unit-step, as the bound's */
    ORACLE_BLOCK = 1024,         /* steps between kept rows of the dynamic programme */
    ORACLE_NO_START = UINT16_MAX /* start[]: nothing can become ready at this step */
};

/* Everything about one stretch.  Step i is step from + i of the trace.  All arrays are owned. */
struct oracle {
    const struct capsim_world *w;
    const struct capsim_trace *t;
    uint64_t seed;
    int32_t from, n, units0, units_max;
    int32_t allowed; /* misses */
    int32_t lead;    /* steps from request to ready that a plan of hindsight needs on average */
    struct bound b;  /* billed[], need[]: ready units of a step in target, 0: nothing to win */
    uint16_t *want;  /* [n] fewest requested units whose ready ones suffice, were they the lowest
                        slots;  0: nothing to win */
    uint16_t *start; /* [n] counted steps among the `lead` before, or ORACLE_NO_START */
    int32_t *price;  /* [n] of a miss, input of oracle_choose */
    int16_t *serve;  /* [n] its output: want[i], or 0 where the step is given up */
    uint8_t *above;  /* [n] scratch of oracle_ask */
    int32_t *marks;  /* [ceil(n / BLOCK)][units_max + 1] */
    int32_t *rows;   /* [BLOCK + 1][units_max + 1] */
    uint64_t *state; /* [n] signature of the lane before each step of the plan being polished */
    uint8_t *miss;   /* [n] whether that plan misses */
    struct capsim *lane, *cursor;
};

/* What a plan does in the simulator, over counted steps. */
struct oracle_tally {
    int64_t unit_steps;
    double cost_usd;
    int32_t misses;
};

struct oracle_tally oracle_simulate(struct oracle *o, const int16_t *units);

/* Fill serve[] with the cheapest choice under price[]; returns the steps given up, forced ones
 * included. Two sweeps over the stretch, about 0.3 us per step at 64 units. */
int32_t oracle_choose(struct oracle *o);

/* Sizes units[n] that have serve[] ready in time as far as the start times of this seed allow. */
void oracle_ask(struct oracle *o, int16_t *units);

/* Improve `units` by small changes, each worth it at `price` unit-steps per miss; misses never rise
 * above max(allowed, what they were).  Returns the plan's misses. */
int32_t oracle_polish(struct oracle *o, int16_t *units, double price);

#endif
