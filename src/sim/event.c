#include "sim/event.h"

#include "base/mem.h"

enum { ROOM_FIRST = 256 };

void event_queue_init(struct event_queue *q, size_t cap)
{
    *q = (struct event_queue){.cap = cap};
}

void event_queue_fini(struct event_queue *q)
{
    mem_free(q->heap);
    *q = (struct event_queue){0};
}

static bool before(const struct event *a, const struct event *b)
{
    if (a->time_us != b->time_us)
        return a->time_us < b->time_us;
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->seq < b->seq;
}

static enum err_code make_room(struct event_queue *q, struct err *e)
{
    if (q->n >= q->cap)
        return err_set(e, ERR_LIMIT, "event queue: %zu events are pending", q->n);
    size_t room = q->room ? 2 * q->room : ROOM_FIRST;
    room = room < q->cap ? room : q->cap;
    struct event *heap = try_grow(q->heap, room, sizeof *heap);
    if (!heap)
        return err_set(e, ERR_NOMEM, "event queue of %zu events", room);
    q->heap = heap;
    q->room = room;
    return ERR_OK;
}

enum err_code event_push(struct event_queue *q, struct event ev, struct err *e)
{
    if (q->n == q->room) {
        enum err_code rc = make_room(q, e);
        if (rc)
            return rc;
    }
    ev.seq = q->next_seq++;
    size_t i = q->n++;
    while (i > 0 && before(&ev, &q->heap[(i - 1) / 2])) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = ev;
    return ERR_OK;
}

const struct event *event_peek(const struct event_queue *q)
{
    return q->n ? &q->heap[0] : NULL;
}

struct event event_pop(struct event_queue *q)
{
    ASSERT(q->n > 0);
    struct event top = q->heap[0], last = q->heap[--q->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= q->n)
            break;
        if (child + 1 < q->n && before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    q->heap[i] = last;
    return top;
}
