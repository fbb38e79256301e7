/* event_text.h - reason and message of the Events people read with `kubectl describe`.
 *
 *     ScaledOut    10 -> 12: QPS 1.8x the same-slot median, above its P95; GPU rising for 3 steps
 *     NotScaled    12 stays, 11 proposed: cooldown hold: scaled 45 s ago, next scale-in after 300 s
 *     ScaleFailed  10 -> 12: deployments.apps "api" is forbidden: ...
 *
 * Reasons are few and CamelCase; numbers are in the message, which is cut at a character's boundary
 * to what an Event holds. */
#ifndef EXECUTE_EVENT_TEXT_H
#define EXECUTE_EVENT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "execute/act.h"
#include "execute/ownership.h"

enum { EVENT_MESSAGE = 1024 };
struct event_text {
    const char *reason; /* static */
    bool warning;
    char message[EVENT_MESSAGE];
};

/* Of an action that ended; `why` is the decision's explanation. */
void event_text_act(struct event_text *t, const struct act_result *r, const char *why);
/* The size stays although the policy proposed another one; `why` names the check. */
void event_text_held(struct event_text *t, int32_t units, int32_t proposed, const char *why);
void event_text_owned(struct event_text *t, const struct ownership *o);
/* Units asked for did not become ready in time. */
void event_text_late(struct event_text *t, int32_t ready, int32_t wanted, int64_t waited_us);

#endif
