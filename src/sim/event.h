/* event.h - the queue of future events, a binary heap ordered by (time, priority, sequence).
 *
 * The sequence number is given at push, so events of equal time and priority leave in the order
 * they entered and a run never depends on how the heap happens to be laid out.  O(log n) per
 * operation; the heap grows up to a cap given at init.  `arg` and `tag` are the caller's. */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct event {
    int64_t time_us;
    uint64_t seq;
    int32_t priority; /* lower first */
    int32_t kind;
    int32_t arg;
    uint32_t tag; /* often a generation: an event whose tag is old is void */
};

struct event_queue {
    struct event *heap;
    size_t n, room, cap;
    uint64_t next_seq;
};

/* Release with event_queue_fini(). */
void event_queue_init(struct event_queue *q, size_t cap);
void event_queue_fini(struct event_queue *q);
/* e.seq is overwritten.  Errors: ERR_LIMIT at the cap, ERR_NOMEM. */
NODISCARD enum err_code event_push(struct event_queue *q, struct event ev, struct err *e);
const struct event *event_peek(const struct event_queue *q); /* NULL when empty */
struct event event_pop(struct event_queue *q);               /* not empty */

#endif
