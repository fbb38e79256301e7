#include "daemon/pace.h"

#include <stdlib.h>

#include "base/clock.h"

struct pace pace_init(double speed, int64_t epoch_us, int64_t wall_us, int64_t mono_us)
{
    return (struct pace){.speed = speed, .epoch_us = epoch_us, .wall_us = wall_us, .mono_us = mono_us};
}

int64_t pace_from_real(const struct pace *p, int64_t wall_us)
{
    if (p->speed == 1)
        return wall_us;
    return p->epoch_us + (int64_t)((double)(wall_us - p->epoch_us) * p->speed);
}

int64_t pace_real_span(const struct pace *p, int64_t span_us)
{
    return p->speed == 1 ? span_us : (int64_t)((double)span_us / p->speed);
}

int64_t pace_now_us(struct pace *p, int64_t wall_us, int64_t mono_us, int64_t *jump_us)
{
    int64_t steady_us = p->wall_us + (mono_us - p->mono_us);
    *jump_us = 0;
    if (llabs(wall_us - steady_us) > US_PER_S) {
        *jump_us = pace_from_real(p, wall_us) - pace_from_real(p, steady_us);
        steady_us = wall_us;
    }
    p->wall_us = steady_us;
    p->mono_us = mono_us;
    return pace_from_real(p, steady_us);
}
