/* extreme.h - largest or smallest value of a sliding window, amortised O(1) (monotone queue).
 *
 * The queue keeps only values that can still become the extreme: each push drops from the back
 * those it beats.  The window is (now - window_us, now], as Kubernetes counts it.  The oldest entry
 * is dropped when a window holds more steps than the queue, which options forbid (an hour of 15-s
 * steps fits). */
#ifndef DECIDE_EXTREME_H
#define DECIDE_EXTREME_H

#include <math.h>

#include "decide/policy.h"

enum { EXTREME_HIGHEST = 1, EXTREME_LOWEST = -1 };

static inline int extreme_slot(const struct extreme_window *w, int i)
{
    int at = w->head + i;
    return at >= EXTREME_CAP ? at - EXTREME_CAP : at;
}

/* Adds `value` at now_us and returns the extreme of the window, which includes it. */
static inline float extreme_push(struct extreme_window *w, int sign, int64_t now_us,
                                 int64_t window_us, float value)
{
    while (w->n > 0 && (float)sign * w->value[extreme_slot(w, w->n - 1)] <= (float)sign * value)
        w->n--;
    while (w->n > 0 && (w->n == EXTREME_CAP || w->at_us[w->head] <= now_us - window_us)) {
        w->head = extreme_slot(w, 1);
        w->n--;
    }
    int at = extreme_slot(w, w->n++);
    w->at_us[at] = now_us;
    w->value[at] = value;
    return w->value[w->head];
}

/* Also its values fit an int: they stand for units. */
static inline bool extreme_sane(const struct extreme_window *w)
{
    bool ok = w->head >= 0 && w->head < EXTREME_CAP && w->n >= 0 && w->n <= EXTREME_CAP;
    for (int i = 0; ok && i < w->n; i++)
        ok = fabsf(w->value[extreme_slot(w, i)]) <= 1e9f;
    return ok;
}

#endif
