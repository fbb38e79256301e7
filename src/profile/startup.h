/* startup.h - how long a unit takes from its creation to being ready, measured.
 *
 * The time billed before a unit serves anything: scheduling, a node that must first be added, image
 * pull, model load. Each pod counts once: when it is ready after it was seen not ready; a pod that
 * is ready when it is first seen counts only if it never restarted and became ready after all that
 * were counted, since readiness lost and found again says nothing about starting (and so a pass
 * over the same pods every 15 s adds nothing). More than an hour is no start-up but a queue, or a
 * pod that lost its readiness late in life. The last STARTUP_RING values are kept (restored from
 * CapacityTarget.status), and a quantile of them is the profile's start-up time once there are
 * STARTUP_MIN. Plain values, no allocation; one thread. */
#ifndef PROFILE_STARTUP_H
#define PROFILE_STARTUP_H

#include <stdbool.h>
#include <stdint.h>

enum { STARTUP_RING = 16, STARTUP_MIN = 3, STARTUP_WAITING = 64 };
#define STARTUP_MAX_S 3600.0

struct startup {
    int32_t n, next; /* values kept, place of the next */
    float seconds[STARTUP_RING];
    int64_t newest_us;    /* latest instant of readiness counted */
    int32_t next_waiting; /* pods seen not ready yet, by hash of their UID; oldest forgotten */
    uint64_t waiting[STARTUP_WAITING];
};

void startup_init(struct startup *s);
/* A measurement in seconds; false, and not kept, unless in (0, STARTUP_MAX_S]. */
bool startup_add(struct startup *s, double seconds);
/* What is known of a pod now. ready_us: since when it is ready, <= 0 when it is not. Returns
 * whether it was counted. */
bool startup_pod(struct startup *s, uint64_t uid_hash, int64_t created_us, int64_t ready_us,
                 bool restarted);
/* q in [0, 1]; NaN below STARTUP_MIN values. */
double startup_quantile_s(const struct startup *s, double q);
/* Oldest first, to and from the status.  Restoring drops values out of range. */
int startup_save(const struct startup *s, float seconds[STARTUP_RING]);
void startup_restore(struct startup *s, const float *seconds, int n);

#endif
