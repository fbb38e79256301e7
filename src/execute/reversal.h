/* reversal.h - does somebody put our writes back?
 *
 * GitOps tools re-apply replicas from a repository. After we wrote from -> to, seeing `from` again
 * within the window, with no write of ours in between, is a reversal; OWNER_REVERSALS of them in a
 * row make the target somebody else's (ownership.h). A write that lasts a whole window clears the
 * count, unless it is reached: then only reversal_forgive() does, called when the CapacityTarget's
 * spec changes (someone looked at it). The count is part of safety_status, so it survives a change
 * of leader. */
#ifndef EXECUTE_REVERSAL_H
#define EXECUTE_REVERSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "execute/safety.h"
#include "execute/status.h"

#define REVERSAL_WINDOW_US INT64_C(600000000) /* 10 min */

/* Once per step with the size seen now.  Returns whether a reversal was just counted. */
bool reversal_observe(struct safety_status *s, const struct status_outcome *last, int32_t units,
                      int64_t now_us, int64_t window_us);
void reversal_forgive(struct safety_status *s);

#endif
