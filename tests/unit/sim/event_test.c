/* event_test.c - order of the event queue. */
#include "sim/event.h"

#include "base/rng.h"
#include "tests/support/test.h"

TEST(events_leave_by_time_then_priority_then_entry)
{
    struct err e;
    struct event_queue q;
    event_queue_init(&q, 100000);
    struct rng r = rng_stream(test_seed(), "events");
    for (int i = 0; i < 20000; i++) {
        struct event ev = {
            .time_us = rng_below(&r, 50), .priority = (int32_t)rng_below(&r, 3), .arg = i};
        assert_ok(event_push(&q, ev, &e), &e);
        if (i % 3 == 0)
            (void)event_pop(&q);
    }
    struct event last = event_pop(&q);
    while (event_peek(&q)) {
        struct event ev = event_pop(&q);
        assert_true(ev.time_us >= last.time_us);
        if (ev.time_us == last.time_us) {
            assert_true(ev.priority >= last.priority);
            assert_true(ev.priority > last.priority || ev.arg > last.arg);
        }
        last = ev;
    }
    event_queue_fini(&q);
}

TEST(a_full_event_queue_says_so)
{
    struct err e;
    struct event_queue q;
    event_queue_init(&q, 300);
    for (int i = 0; i < 300; i++)
        assert_ok(event_push(&q, (struct event){.time_us = -i}, &e), &e);
    assert_err(event_push(&q, (struct event){0}, &e), ERR_LIMIT, &e, "300 events");
    assert_int_equal(event_pop(&q).time_us, -299);
    assert_ok(event_push(&q, (struct event){0}, &e), &e);
    event_queue_fini(&q);
    assert_null(event_peek(&q));
}
