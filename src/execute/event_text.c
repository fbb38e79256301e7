#include "execute/event_text.h"

#include <stdio.h>

#include "base/clock.h"
#include "execute/json_priv.h"

PRINTF_LIKE(4, 5)
static void say(struct event_text *t, const char *reason, bool warning, const char *fmt, ...)
{
    char text[2 * EVENT_MESSAGE];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    t->reason = reason;
    t->warning = warning;
    text_copy(t->message, sizeof t->message, text);
}

void event_text_act(struct event_text *t, const struct act_result *r, const char *why)
{
    switch (r->outcome) {
    case OUTCOME_EXECUTED:
        say(t, r->to > r->from ? "ScaledOut" : "ScaledIn", false, "%d -> %d: %s", r->from, r->to,
            why);
        return;
    case OUTCOME_FOUND:
        say(t, r->to > r->from ? "ScaledOut" : "ScaledIn", false, "%d -> %d: %s (%s)", r->from,
            r->to, why, r->text);
        return;
    case OUTCOME_ABANDONED:
        say(t, "ScaleAbandoned", false, "%d -> %d: %s", r->from, r->to, r->text);
        return;
    case OUTCOME_FAILED:
        say(t, "ScaleFailed", true, "%d -> %d: %s", r->from, r->to, r->text);
        return;
    case OUTCOME_NONE:
    case OUTCOMES:
        break;
    }
    say(t, "ScaleUnknown", true, "%d -> %d: %s; it will be reconciled", r->from, r->to, r->text);
}

void event_text_held(struct event_text *t, int32_t units, int32_t proposed, const char *why)
{
    say(t, "NotScaled", false, "%d stays, %d proposed: %s", units, proposed, why);
}

void event_text_owned(struct event_text *t, const struct ownership *o)
{
    say(t, "OwnedByOther", true, "%s sets the size of this target; %s", o->owner, o->advice);
}

void event_text_late(struct event_text *t, int32_t ready, int32_t wanted, int64_t waited_us)
{
    say(t, "UnitsLate", true,
        "%d of %d units are ready after %lld s; no scale-out while they fail to start", ready,
        wanted, (long long)(waited_us / US_PER_S));
}
