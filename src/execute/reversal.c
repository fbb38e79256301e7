#include "execute/reversal.h"

#include "execute/ownership.h"

bool reversal_observe(struct safety_status *s, const struct status_outcome *last, int32_t units,
                      int64_t now_us, int64_t window_us)
{
    bool ours = last->result == OUTCOME_EXECUTED || last->result == OUTCOME_FOUND;
    if (!ours || last->from == last->to || s->reversed_us >= last->time_us)
        return false; /* nothing of ours to put back, or counted already */
    int64_t age_us = now_us - last->time_us;
    if (units == last->from && age_us >= 0 && age_us <= window_us) {
        s->reversals++;
        s->reversed_us = now_us > last->time_us ? now_us : last->time_us;
        return true;
    }
    if (age_us > window_us && s->reversals < OWNER_REVERSALS)
        s->reversals = 0;
    return false;
}

void reversal_forgive(struct safety_status *s)
{
    s->reversals = 0;
}
