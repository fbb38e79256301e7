/* pace.h - the daemon's clock: decision time as a function of real time.
 *
 * Decisions, cooldowns, samples and stored times run on decision time; HTTP deadlines and the lease run on real
 * time.  In production both are the same.  A rehearsal or a soak test runs decision time `speed` times as fast, from
 * an epoch that all replicas and the stand-in of the API server share (`epoch_us`, real = decision time there), so
 * that its stamps are decision time too; Prometheus stamps samples in real time (collect.h carries them over).
 *
 * Decision time comes from the monotonic clock, re-anchored to the wall clock when the two disagree by more than a
 * second: a step of the wall clock becomes a jump of decision time that the caller is told about. */
#ifndef DAEMON_PACE_H
#define DAEMON_PACE_H

#include <stdint.h>

struct pace {
    double speed;       /* >= 1; 1 in production */
    int64_t epoch_us;   /* wall clock at which decision time equals it */
    int64_t wall_us, mono_us; /* anchor */
};

struct pace pace_init(double speed, int64_t epoch_us, int64_t wall_us, int64_t mono_us);
/* Decision time now.  *jump_us: how far a wall clock step moved it since the anchor, 0 mostly. */
int64_t pace_now_us(struct pace *p, int64_t wall_us, int64_t mono_us, int64_t *jump_us);
/* Decision time of a wall-clock stamp. */
int64_t pace_from_real(const struct pace *p, int64_t wall_us);
/* Real duration of a span of decision time. */
int64_t pace_real_span(const struct pace *p, int64_t span_us);

#endif
