#include "profile/startup.h"

#include <string.h>

#include "base/clock.h"
#include "base/stats.h"

static bool usable(double seconds)
{
    return seconds > 0 && seconds <= STARTUP_MAX_S;
}

void startup_init(struct startup *s)
{
    *s = (struct startup){0};
}

bool startup_add(struct startup *s, double seconds)
{
    if (!usable(seconds))
        return false;
    s->seconds[s->next] = (float)seconds;
    s->next = (s->next + 1) % STARTUP_RING;
    s->n += s->n < STARTUP_RING;
    return true;
}

static int waiting_find(const struct startup *s, uint64_t uid_hash)
{
    for (int i = 0; i < STARTUP_WAITING; i++)
        if (s->waiting[i] == uid_hash)
            return i;
    return -1;
}

/* 0 marks a free place: a UID that hashes to it shares the neighbour's. */
static uint64_t mark_of(uint64_t uid_hash)
{
    return uid_hash ? uid_hash : 1;
}

bool startup_pod(struct startup *s, uint64_t uid_hash, int64_t created_us, int64_t ready_us,
                 bool restarted)
{
    int at = waiting_find(s, mark_of(uid_hash));
    if (ready_us <= 0) {
        if (at < 0) {
            s->waiting[s->next_waiting] = mark_of(uid_hash);
            s->next_waiting = (s->next_waiting + 1) % STARTUP_WAITING;
        }
        return false;
    }
    bool first_seen = at < 0;
    if (!first_seen)
        s->waiting[at] = 0;
    if (first_seen && (restarted || ready_us <= s->newest_us))
        return false;
    if (created_us <= 0 || !startup_add(s, (double)(ready_us - created_us) / (double)US_PER_S))
        return false;
    s->newest_us = ready_us > s->newest_us ? ready_us : s->newest_us;
    return true;
}

double startup_quantile_s(const struct startup *s, double q)
{
    double x[STARTUP_RING];
    if (s->n < STARTUP_MIN)
        return __builtin_nan("");
    for (int i = 0; i < s->n; i++)
        x[i] = (double)s->seconds[i];
    return stats_quantile(x, (size_t)s->n, q);
}

int startup_save(const struct startup *s, float seconds[STARTUP_RING])
{
    int oldest = s->n < STARTUP_RING ? 0 : s->next;
    for (int i = 0; i < s->n; i++)
        seconds[i] = s->seconds[(oldest + i) % STARTUP_RING];
    return s->n;
}

void startup_restore(struct startup *s, const float *seconds, int n)
{
    startup_init(s);
    for (int i = 0; i < n; i++)
        (void)startup_add(s, (double)seconds[i]);
}
