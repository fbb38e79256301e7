/* oracle_choose.c - which steps to serve, and when to ask for the units that serve them.
 *
 * Choosing is the bound's dynamic programme with want[] (failures known) in place of need[], an
 * average start and one price per step.  Values are kept relative to that of no units, so they fit
 * int32; only every 1024th row is kept, the rows between are made again on the way back.
 *
 * Asking.  Sizes form a stack: new units take the lowest free slots, scale-in stops the newest.  So
 * slot s runs whenever slot s + 1 does, and otherwise from the latest request still in time for its
 * next use to its last use: start times depend on (slot, step) and are known.  Nesting holds by
 * going from the highest slot down. */
#include <string.h>

#include "train/oracle_priv.h"

enum { UNREACHABLE = 1 << 28 };

/* F of the step from K of the step before (see bound.c), then W without its backward sweep. */
static void add_step(const struct oracle *o, int32_t i, int32_t *f)
{
    int32_t units_max = o->units_max, want = o->want[i], price = o->price[i];
    int32_t hold = o->b.billed[i] * ORACLE_SCALE;
    if (o->start[i] != ORACLE_NO_START) {
        int32_t start = o->start[i] * ORACLE_SCALE;
        for (int32_t q = 1; q <= units_max; q++) {
            int32_t up = f[q - 1] + start;
            f[q] = up < f[q] ? up : f[q];
        }
    }
    for (int32_t q = 0; q < want; q++)
        f[q] += q * hold + price;
    for (int32_t q = want; q <= units_max; q++)
        f[q] += q * hold;
}

static void close_step(const struct oracle *o, int32_t i, int32_t *f)
{
    for (int32_t q = o->want[i] - 1; q >= 0; q--)
        f[q] = f[q + 1] < f[q] ? f[q + 1] : f[q];
    int32_t base = f[0];
    for (int32_t q = 0; q <= o->units_max; q++)
        f[q] -= base;
}

/* Units before step i of a best plan that has *after units behind it; sets serve[i].
 * before: K of the step before; w: scratch row. */
static int step_back(struct oracle *o, int32_t i, const int32_t *before, int32_t *w, int after)
{
    size_t width = (size_t)o->units_max + 1;
    memcpy(w, before, width * sizeof *w);
    add_step(o, i, w);
    int at = after;
    for (int q = after + 1; q <= o->units_max; q++)
        if (w[q] < w[at])
            at = q;
    o->serve[i] = (int16_t)(at >= o->want[i] ? o->want[i] : 0);
    if (o->start[i] == ORACLE_NO_START)
        return at;
    int32_t start = o->start[i] * ORACLE_SCALE, best = before[at];
    int from = at;
    for (int q = at - 1; q >= 0; q--) {
        int32_t via = before[q] + (at - q) * start;
        if (via < best) {
            best = via;
            from = q;
        }
    }
    return from;
}

static int block_back(struct oracle *o, int32_t first, int32_t last, int units)
{
    size_t width = (size_t)o->units_max + 1;
    for (int32_t i = first; i + 1 < last; i++) {
        int32_t *row = o->rows + (size_t)(i - first + 1) * width;
        memcpy(row, row - width, width * sizeof *row);
        add_step(o, i, row);
        close_step(o, i, row);
    }
    int32_t *w = o->rows + (size_t)ORACLE_BLOCK * width;
    for (int32_t i = last - 1; i >= first; i--)
        units = step_back(o, i, o->rows + (size_t)(i - first) * width, w, units);
    return units;
}

int32_t oracle_choose(struct oracle *o)
{
    size_t width = (size_t)o->units_max + 1;
    int32_t *f = o->rows;
    for (int32_t q = 0; q <= o->units_max; q++)
        f[q] = q <= o->units0 ? 0 : UNREACHABLE;
    for (int32_t i = 0; i < o->n; i++) {
        if (i % ORACLE_BLOCK == 0)
            memcpy(o->marks + (size_t)(i / ORACLE_BLOCK) * width, f, width * sizeof *f);
        add_step(o, i, f);
        close_step(o, i, f);
    }
    int units = 0;
    for (int32_t k = (o->n - 1) / ORACLE_BLOCK; k >= 0; k--) {
        memcpy(o->rows, o->marks + (size_t)k * width, width * sizeof *f);
        int32_t last = (k + 1) * ORACLE_BLOCK;
        units = block_back(o, k * ORACLE_BLOCK, last < o->n ? last : o->n, units);
    }
    int32_t given_up = 0;
    for (int32_t i = 0; i < o->n; i++)
        given_up += o->want[i] && !o->serve[i];
    return given_up;
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Backwards in time: `due` is the first step the run now open has to be ready for. */
static void ask_slot(struct oracle *o, int slot, int16_t *units)
{
    const int32_t never = INT32_MAX;
    int32_t due = never;
    bool on = false;
    for (int32_t i = o->n - 1; i >= 0; i--) {
        bool used = o->serve[i] > slot;
        if (on && !used && !o->above[i]) {
            int32_t asked = i + 1;
            on = due != never &&
                 asked + capsim_start_steps(o->w, o->seed, slot, o->from + asked) > due;
        } else {
            on = used || o->above[i];
        }
        due = used ? i : on ? due : never;
        o->above[i] = on;
        units[i] = (int16_t)(units[i] + on);
    }
}

void oracle_ask(struct oracle *o, int16_t *units)
{
    int top = 0;
    for (int32_t i = 0; i < o->n; i++)
        top = o->serve[i] > top ? o->serve[i] : top;
    memset(units, 0, (size_t)o->n * sizeof *units);
    memset(o->above, 0, (size_t)o->n);
    for (int slot = top - 1; slot >= 0; slot--)
        ask_slot(o, slot, units);
}
