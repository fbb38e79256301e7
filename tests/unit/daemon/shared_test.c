#include "daemon/shared.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/test.h"

static struct shared *new_shared(void)
{
    return shared_new(&(struct shared_opts){.period_us = 15 * US_PER_S});
}

static void put(struct doc *d, const char *ns, const char *name, const char *text)
{
    doc_item(d, ns, name);
    buf_str(&d->text, text);
}

TEST(shared_document_items_are_found_by_namespace_and_name)
{
    struct doc d;
    const char *p;
    size_t n;
    doc_init(&d);
    put(&d, "prod", "chat", "{1}");
    put(&d, "prod", "chat-2", "{22}");
    put(&d, "pro", "d/chat", "{333}");
    assert_true(doc_find(&d, "prod", "chat", &p, &n));
    assert_int_equal(n, 3);
    assert_memory_equal(p, "{1}", 3);
    assert_true(doc_find(&d, "prod", "chat-2", &p, &n));
    assert_memory_equal(p, "{22}", n);
    assert_false(doc_find(&d, "prod", "cha", &p, &n));
    assert_false(doc_find(&d, "", "prod/chat", &p, &n));
    doc_clear(&d);
    assert_false(doc_find(&d, "prod", "chat", &p, &n));
    doc_fini(&d);
}

TEST(shared_reader_keeps_the_document_it_borrowed_while_newer_ones_come)
{
    struct shared *s = new_shared();
    struct doc d;
    struct err e;
    doc_init(&d);
    assert_null(shared_borrow(s, SHARED_TARGETS));
    put(&d, "a", "b", "first");
    assert_ok(shared_publish(s, SHARED_TARGETS, &d, &e), &e);
    const struct doc *old = shared_borrow(s, SHARED_TARGETS);
    for (int i = 0; i < 5; i++) {
        put(&d, "a", "b", "newer");
        assert_ok(shared_publish(s, SHARED_TARGETS, &d, &e), &e);
    }
    assert_string_equal(old->text.p, "first");
    const struct doc *now = shared_borrow(s, SHARED_TARGETS);
    assert_string_equal(now->text.p, "newer");
    shared_return(s, old);
    shared_return(s, now);
    shared_return(s, NULL);
    doc_fini(&d);
    shared_free(s);
}

TEST(shared_publishing_again_and_again_allocates_nothing_once_warm)
{
    struct shared *s = new_shared();
    struct doc d;
    struct err e;
    const char *seen[3] = {0};
    doc_init(&d);
    for (int i = 0; i < 12; i++) {
        doc_clear(&d);
        put(&d, "ns", "name", "some text of a steady length");
        const char *block = d.text.p;
        bool known = block == seen[0] || block == seen[1] || block == seen[2];
        assert_true(i < 3 || known);
        if (!known)
            seen[i] = block;
        assert_ok(shared_publish(s, SHARED_TARGETS, &d, &e), &e);
    }
    doc_fini(&d);
    shared_free(s);
}

TEST(shared_document_that_did_not_fit_is_refused_and_the_old_one_stays)
{
    struct shared *s = new_shared();
    struct doc d;
    struct err e;
    doc_init(&d);
    put(&d, "a", "b", "good");
    assert_ok(shared_publish(s, SHARED_HEALTH, &d, &e), &e);
    put(&d, "a", "b", "bad");
    d.text.failed = true;
    assert_err(shared_publish(s, SHARED_HEALTH, &d, &e), ERR_LIMIT, &e, "publish");
    const struct doc *now = shared_borrow(s, SHARED_HEALTH);
    assert_string_equal(now->text.p, "good");
    shared_return(s, now);
    doc_fini(&d);
    shared_free(s);
}

TEST(shared_loop_is_stuck_after_three_silent_periods_but_never_before_five_seconds)
{
    struct shared *s = new_shared();
    int64_t t0 = clock_mono_us();
    shared_beat(s, t0);
    assert_false(shared_stuck(s, t0 + 45 * US_PER_S));
    assert_true(shared_stuck(s, t0 + 45 * US_PER_S + 1));
    shared_set_period(s, US_PER_MS);
    assert_false(shared_stuck(s, t0 + 5 * US_PER_S));
    assert_true(shared_stuck(s, t0 + 5 * US_PER_S + 1));
    shared_free(s);
}

TEST(shared_replica_is_not_ready_until_told_so_and_says_why)
{
    struct shared *s = new_shared();
    char why[SHARED_REASON];
    assert_false(shared_ready(s, why));
    assert_string_equal(why, "starting");
    shared_set_unready(s, NULL);
    assert_true(shared_ready(s, why));
    shared_set_unready(s, "pods are not synced");
    assert_false(shared_ready(s, why));
    assert_string_equal(why, "pods are not synced");
    shared_set_unready(s, NULL);
    shared_stop(s);
    assert_false(shared_ready(s, why));
    assert_string_equal(why, "stopping");
    shared_free(s);
}

TEST(shared_holder_and_leader_are_seen_as_set)
{
    struct shared *s = new_shared();
    char holder[SHARED_NAME];
    shared_holder(s, holder);
    assert_string_equal(holder, "");
    assert_false(shared_leader(s));
    shared_set_leader(s, true, "sluice-0");
    shared_holder(s, holder);
    assert_string_equal(holder, "sluice-0");
    assert_true(shared_leader(s));
    shared_set_leader(s, false, NULL);
    shared_holder(s, holder);
    assert_string_equal(holder, "");
    shared_free(s);
}

/* ---- commands ----------------------------------------------------------------------------------
 */

/* A main loop in a thread of its own: answers until told to end. */
struct loop {
    struct shared *s;
    pthread_t thread;
    atomic_bool end;
    atomic_int n_taken;
    enum command_result result;
};

static void *loop_run(void *arg)
{
    struct loop *l = arg;
    struct command c;
    while (!atomic_load(&l->end)) {
        while (shared_command_take(l->s, &c)) {
            atomic_fetch_add(&l->n_taken, 1);
            shared_command_answer(l->s, c.id, l->result, "%s/%s is at %d", c.ns, c.name, c.units);
        }
        sched_yield();
    }
    return NULL;
}

static void loop_start(struct loop *l, struct shared *s, enum command_result r)
{
    *l = (struct loop){.s = s, .result = r};
    assert_int_equal(pthread_create(&l->thread, NULL, loop_run, l), 0);
}

static void loop_end(struct loop *l)
{
    atomic_store(&l->end, true);
    assert_int_equal(pthread_join(l->thread, NULL), 0);
}

static struct command command_of(int units)
{
    return (struct command){.kind = COMMAND_OVERRIDE, .ns = "prod", .name = "chat", .units = units};
}

/* Sends and asks until there is an outcome. */
static struct command_answer ask(struct shared *s, struct command *c)
{
    struct command_answer a;
    if (shared_command_send(s, c, &a))
        while (!shared_command_settled(s, c->id, &a))
            sched_yield();
    return a;
}

TEST(shared_command_is_answered_by_the_loop_in_its_own_words_thread)
{
    struct shared *s = new_shared();
    struct loop l;
    loop_start(&l, s, COMMAND_DONE);
    for (int i = 0; i < 200; i++) {
        struct command c = command_of(i);
        char want[64];
        struct command_answer a = ask(s, &c);
        (void)snprintf(want, sizeof want, "prod/chat is at %d", i);
        assert_int_equal(a.result, COMMAND_DONE);
        assert_string_equal(a.text, want);
        assert_true(c.id != 0 && c.at_us > 0);
    }
    loop_end(&l);
    assert_int_equal(shared_commands_waiting(s), 0);
    assert_int_equal(shared_commands_late(s), 0);
    shared_free(s);
}

static void count_call(void *ctx)
{
    (*(int *)ctx)++;
}

TEST(shared_command_wakes_the_loop_and_its_answer_wakes_the_endpoint)
{
    int n_woken = 0, n_told = 0;
    struct shared *s =
        shared_new(&(struct shared_opts){.period_us = 1, .wake = count_call, .wake_ctx = &n_woken});
    struct command c = command_of(7), taken;
    struct command_answer a;
    shared_on_answer(s, count_call, &n_told);
    assert_true(shared_command_send(s, &c, &a));
    assert_int_equal(n_woken, 1);
    assert_false(shared_command_settled(s, c.id, &a));
    assert_true(shared_command_take(s, &taken));
    assert_false(shared_command_settled(s, c.id, &a));
    assert_int_equal(n_told, 0);
    shared_command_answer(s, taken.id, COMMAND_REFUSED, "no");
    assert_int_equal(n_told, 1);
    assert_true(shared_command_settled(s, c.id, &a));
    assert_int_equal(a.result, COMMAND_REFUSED);
    shared_stop(s);
    assert_int_equal(n_told, 2);
    shared_free(s);
}

TEST(shared_command_that_nobody_waits_for_any_more_is_still_carried_out)
{
    struct shared *s = new_shared();
    struct command c = command_of(7), taken;
    struct command_answer a;
    assert_true(shared_command_send(s, &c, &a));
    shared_command_leave(s, c.id);
    assert_int_equal(shared_commands_waiting(s), 1);
    assert_true(shared_command_take(s, &taken));
    assert_int_equal(taken.units, 7);
    shared_command_answer(s, taken.id, COMMAND_DONE, "late");
    assert_int_equal(shared_commands_late(s), 1);

    assert_true(shared_command_send(s, &c, &a)); /* left after the answer: the same */
    assert_true(shared_command_take(s, &taken));
    shared_command_answer(s, taken.id, COMMAND_DONE, "in time");
    shared_command_leave(s, c.id);
    assert_int_equal(shared_commands_late(s), 2);
    assert_int_equal(shared_commands_waiting(s), 0);
    assert_false(shared_command_take(s, &taken));
    shared_free(s);
}

TEST(shared_commands_are_taken_in_order_and_a_full_queue_refuses)
{
    struct shared *s = new_shared();
    struct command_answer a;
    struct command c, taken;
    for (int i = 0; i < SHARED_COMMANDS; i++) {
        c = command_of(i);
        assert_true(shared_command_send(s, &c, &a));
        shared_command_leave(s, c.id);
    }
    c = command_of(-1);
    assert_false(shared_command_send(s, &c, &a));
    assert_int_equal(a.result, COMMAND_FULL);
    for (int i = 0; i < SHARED_COMMANDS; i++) {
        assert_true(shared_command_take(s, &taken));
        assert_int_equal(taken.units, i);
        shared_command_answer(s, taken.id, COMMAND_DONE, "ok");
        c = command_of(SHARED_COMMANDS + i); /* into the hole, and still last */
        assert_true(shared_command_send(s, &c, &a));
    }
    assert_true(shared_command_take(s, &taken));
    assert_int_equal(taken.units, SHARED_COMMANDS);
    shared_free(s);
}

TEST(shared_stop_settles_what_was_not_taken_and_accepts_nothing_more)
{
    struct shared *s = new_shared();
    struct command c[2] = {command_of(1), command_of(2)}, taken;
    struct command_answer a;
    assert_true(shared_command_send(s, &c[0], &a) && shared_command_send(s, &c[1], &a));
    assert_true(shared_command_take(s, &taken));
    shared_stop(s);
    assert_false(
        shared_command_settled(s, c[0].id, &a)); /* in hand: its outcome is still to come */
    assert_true(shared_command_settled(s, c[1].id, &a));
    assert_int_equal(a.result, COMMAND_STOPPING);
    shared_command_answer(s, taken.id, COMMAND_DONE, "done");
    assert_true(shared_command_settled(s, c[0].id, &a));
    assert_int_equal(a.result, COMMAND_DONE);
    assert_false(shared_command_send(s, &c[0], &a));
    assert_int_equal(a.result, COMMAND_STOPPING);
    shared_free(s);
}

static void *publish_many(void *arg)
{
    struct loop *l = arg;
    struct doc d;
    struct err e;
    doc_init(&d);
    for (int i = 0; !atomic_load(&l->end); i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%08d%08d", i, i);
        put(&d, "a", "b", text);
        if (shared_publish(l->s, SHARED_TARGETS, &d, &e))
            abort();
        shared_beat(l->s, i);
        shared_set_leader(l->s, i % 2, i % 2 ? "odd" : "even");
        shared_set_unready(l->s, i % 3 ? NULL : "third");
        atomic_fetch_add(&l->n_taken, 1);
    }
    doc_fini(&d);
    return NULL;
}

TEST(shared_readers_in_other_threads_see_whole_documents_thread)
{
    struct shared *s = new_shared();
    struct loop l = {.s = s};
    char text[SHARED_REASON];
    assert_int_equal(pthread_create(&l.thread, NULL, publish_many, &l), 0);
    for (int i = 0; i < 20000 || atomic_load(&l.n_taken) < 1000; i++) {
        const struct doc *d = shared_borrow(s, SHARED_TARGETS);
        if (d) {
            assert_int_equal(d->text.n, 16);
            assert_memory_equal(d->text.p, d->text.p + 8, 8);
        }
        (void)shared_ready(s, text);
        (void)shared_stuck(s, 0);
        shared_holder(s, text);
        shared_return(s, d);
    }
    loop_end(&l);
    shared_free(s);
}
