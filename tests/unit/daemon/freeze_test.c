#include "daemon/freeze.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "tests/support/test.h"

static const int64_t T0 = INT64_C(1714564800000000); /* 2024-05-01T12:00:00Z */

enum { DIR_BYTES = 300 };

static void state_dir(char out[DIR_BYTES], const char *name)
{
    (void)snprintf(out, DIR_BYTES, "%s/freeze-%s", test_tmp_dir(), name);
}

static struct freeze *start(const char *dir, bool config)
{
    struct freeze *f = NULL;
    struct err e;
    assert_ok(freeze_new(dir, config, NULL, &f, &e), &e);
    return f;
}

static struct freeze_info look(struct freeze *f)
{
    struct freeze_info i;
    freeze_info(f, &i);
    return i;
}

TEST(freeze_holds_over_a_restart_with_author_reason_and_time)
{
    char dir[DIR_BYTES];
    state_dir(dir, "restart");
    struct err e;
    struct freeze *f = start(dir, false);
    assert_false(freeze_on(f));
    assert_ok(freeze_set(f, FREEZE_ENDPOINT, "ann", "bad \"rollout\"\nof chat", T0, &e), &e);
    assert_true(freeze_on(f));
    freeze_free(f);

    f = start(dir, false);
    struct freeze_info i = look(f);
    assert_true(i.frozen && i.person && i.persisted && !i.config && !i.cluster);
    assert_string_equal(i.word.author, "ann");
    assert_string_equal(i.word.reason, "bad \"rollout\"\nof chat");
    assert_int_equal(i.word.source, FREEZE_ENDPOINT);
    assert_int_equal(i.word.at_us, T0);
    assert_ok(freeze_clear(f, FREEZE_ENDPOINT, "bob", "", T0 + 1, &e), &e);
    assert_false(freeze_on(f));
    assert_false(file_exists(test_path("%s/frozen", dir)));
    freeze_free(f);

    f = start(dir, false);
    assert_false(freeze_on(f));
    freeze_free(f);
}

TEST(freeze_file_that_cannot_be_understood_starts_frozen)
{
    static const char *const text[] = {
        "",
        "frozen",
        "{",
        "[]",
        "{\"author\":\"a\"}",
        "\xff\xfe",
        "{\"author\":\"a\",\"reason\":\"\",\"source\":\"moon\",\"time\":\"2024-05-01T12:00:00Z\"}",
        "{\"author\":\"a\",\"reason\":\"\",\"source\":\"signal\",\"time\":\"soon\"}",
        "{\"author\":1,\"reason\":\"\",\"source\":\"signal\",\"time\":\"2024-05-01T12:00:00Z\"}",
    };
    char dir[DIR_BYTES];
    state_dir(dir, "damaged");
    struct err e;
    assert_ok(file_make_dirs(dir, &e), &e);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        test_write_file(test_path("%s/frozen", dir), text[i], strlen(text[i]));
        struct freeze *f = start(dir, false);
        assert_true(freeze_on(f));
        assert_int_equal(look(f).word.source, FREEZE_FILE);
        assert_true(look(f).word.reason[0] != '\0');
        assert_ok(freeze_clear(f, FREEZE_ENDPOINT, "ann", "", T0, &e), &e);
        assert_false(freeze_on(f));
        freeze_free(f);
    }
}

TEST(freeze_file_that_is_a_folder_starts_frozen_and_cannot_be_lifted)
{
    char dir[DIR_BYTES];
    state_dir(dir, "folder");
    struct err e;
    assert_ok(file_make_dirs(test_path("%s/frozen/inside", dir), &e), &e);
    struct freeze *f = start(dir, false);
    assert_true(freeze_on(f));
    assert_err(freeze_clear(f, FREEZE_ENDPOINT, "ann", "", T0, &e), ERR_IO, &e, "still frozen");
    assert_true(freeze_on(f));
    freeze_free(f);
}

TEST(freeze_holds_in_memory_when_the_disk_takes_nothing_and_is_kept_once_it_does)
{
    char dir[DIR_BYTES];
    state_dir(dir, "full");
    struct rlimit before, none;
    struct err e;
    struct freeze *f = start(dir, false);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0; /* every write fails, as on a full disk */
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    enum err_code rc = freeze_set(f, FREEZE_ENDPOINT, "ann", "now", T0, &e);
    freeze_retry(f);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_err(rc, ERR_IO, &e, "frozen, but not kept");
    assert_true(freeze_on(f));
    assert_false(look(f).persisted);
    assert_false(file_exists(test_path("%s/frozen", dir)));
    freeze_retry(f);
    assert_true(look(f).persisted);
    freeze_free(f);
    f = start(dir, false);
    assert_true(freeze_on(f));
    freeze_free(f);
}

TEST(freeze_without_a_state_folder_holds_and_says_that_it_is_not_kept)
{
    struct err e;
    struct freeze *f = start(NULL, false);
    assert_err(freeze_set(f, FREEZE_ENDPOINT, "ann", "", T0, &e), ERR_IO, &e, "no state folder");
    assert_true(freeze_on(f));
    assert_false(look(f).persisted);
    assert_ok(freeze_clear(f, FREEZE_ENDPOINT, "ann", "", T0, &e), &e);
    assert_false(freeze_on(f));
    assert_true(look(f).persisted);
    freeze_free(f);
}

TEST(freeze_state_folder_that_cannot_be_made_is_an_error_at_start)
{
    struct freeze *f = NULL;
    struct err e;
    test_write_file(test_path("%s/in-the-way", test_tmp_dir()), "x", 1);
    assert_err(freeze_new(test_path("%s/in-the-way/state", test_tmp_dir()), false, NULL, &f, &e),
               ERR_IO, &e, "state folder");
    assert_null(f);
}

TEST(freeze_of_the_configuration_is_not_lifted_by_a_person_and_says_so)
{
    char dir[DIR_BYTES], words[400];
    struct err e;
    state_dir(dir, "config");
    struct freeze *f = start(dir, true);
    assert_true(freeze_on(f));
    assert_ok(freeze_set(f, FREEZE_ENDPOINT, "ann", "why", T0, &e), &e);
    struct freeze_info i = look(f);
    freeze_words(&i, words, sizeof words);
    assert_string_equal(
        words, "frozen by ann (endpoint) since 2024-05-01T12:00:00Z: why, and by freeze: true in "
               "the configuration");
    assert_ok(freeze_clear(f, FREEZE_ENDPOINT, "ann", "", T0, &e), &e);
    assert_true(freeze_on(f));
    i = look(f);
    assert_true(i.config && !i.person);
    freeze_words(&i, words, sizeof words);
    assert_string_equal(words, "frozen by freeze: true in the configuration");
    uint64_t before = freeze_changes(f);
    freeze_set_config(f, false);
    assert_false(freeze_on(f));
    assert_true(freeze_changes(f) > before);
    before = freeze_changes(f);
    freeze_set_config(f, false);
    assert_true(freeze_changes(f) == before);
    freeze_free(f);
}

static struct freeze_word word(bool frozen, int64_t at_us, const char *author)
{
    struct freeze_word w = {.frozen = frozen, .at_us = at_us};
    (void)snprintf(w.author, sizeof w.author, "%s", author);
    return w;
}

TEST(freeze_of_the_cluster_counts_when_it_is_newer_and_is_overruled_when_it_is_older)
{
    char dir[DIR_BYTES];
    struct err e;
    state_dir(dir, "cluster");
    struct freeze *f = start(dir, false);
    struct freeze_word w = word(false, 0, "");
    assert_true(freeze_set_cluster(f, &w)); /* nobody ever said anything */
    w = word(true, T0, "other");
    assert_true(freeze_set_cluster(f, &w));
    assert_true(look(f).cluster && !look(f).person);
    assert_int_equal(look(f).word.source, FREEZE_CLUSTER);
    assert_true(freeze_set_cluster(f, &w)); /* again: agreed */

    /* Unfrozen here by a clock that runs behind: still the newer word. */
    assert_ok(freeze_clear(f, FREEZE_ENDPOINT, "ann", "", T0 - 30 * US_PER_S, &e), &e);
    assert_false(freeze_on(f));
    assert_true(look(f).word.at_us > T0);
    assert_false(freeze_set_cluster(f, &w)); /* ours is to be written */
    assert_false(freeze_on(f));

    assert_ok(freeze_set(f, FREEZE_ENDPOINT, "ann", "", T0 + 10, &e), &e);
    w = word(false, T0 + 20, "other");
    assert_true(freeze_set_cluster(f, &w)); /* lifts the person's freeze and its file */
    assert_false(freeze_on(f));
    freeze_free(f);
    f = start(dir, false);
    assert_false(freeze_on(f));
    freeze_free(f);
}

TEST(freeze_texts_are_cut_and_made_plain)
{
    char author[400], words[64];
    struct err e;
    char dir[DIR_BYTES];
    state_dir(dir, "texts");
    memset(author, 'x', sizeof author - 1);
    author[sizeof author - 1] = '\0';
    author[3] = '\x1b';
    struct freeze *f = start(dir, false);
    assert_ok(freeze_set(f, FREEZE_ENDPOINT, author, "caf\xc3", T0, &e), &e);
    assert_int_equal(strlen(look(f).word.author), 127);
    assert_memory_equal(look(f).word.author, "xxx?x", 5);
    assert_string_equal(look(f).word.reason, "caf?");
    struct freeze_info i = look(f);
    freeze_words(&i, words, sizeof words);
    assert_true(strlen(words) < sizeof words);
    freeze_free(f);
    f = start(dir, false);
    assert_int_equal(look(f).word.source, FREEZE_ENDPOINT);
    freeze_free(f);
}

TEST(freeze_by_signal_is_in_force_and_kept_without_any_main_loop_thread)
{
    char dir[DIR_BYTES];
    state_dir(dir, "signal");
    struct err e;
    struct freeze *f = start(dir, false);
    assert_ok(freeze_catch_signal(f, &e), &e);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    int64_t until_us = clock_mono_us() + 2 * US_PER_S; /* the promise */
    while (!freeze_on(f) && clock_mono_us() < until_us)
        sched_yield();
    assert_true(freeze_on(f));
    for (until_us = clock_mono_us() + 30 * US_PER_S;
         !look(f).persisted && clock_mono_us() < until_us;)
        sched_yield();
    assert_true(look(f).persisted);
    assert_int_equal(look(f).word.source, FREEZE_SIGNAL);
    assert_non_null(strstr(look(f).word.author, "pid"));
    freeze_free(f);
    f = start(dir, false);
    assert_true(freeze_on(f));
    freeze_free(f);
}

/* A hand in a thread of its own. */
struct hand {
    struct freeze *f;
    bool freeze;
    pthread_t thread;
    atomic_int tid; /* once it is about to act */
};

static void *hand_run(void *arg)
{
    struct hand *h = arg;
    struct err e;
    atomic_store(&h->tid, gettid());
    if (h->freeze ? freeze_set(h->f, FREEZE_ENDPOINT, "me", "", T0, &e)
                  : freeze_clear(h->f, FREEZE_ENDPOINT, "other", "", T0, &e))
        abort();
    return NULL;
}

/* Returns when the hand waits for something. */
static void hand_start(struct hand *h, struct freeze *f, bool freeze)
{
    char line[256] = "";
    *h = (struct hand){.f = f, .freeze = freeze};
    assert_int_equal(pthread_create(&h->thread, NULL, hand_run, h), 0);
    for (const char *state = NULL; !state || state[2] != 'S'; sched_yield()) {
        FILE *in = fopen(test_path("/proc/self/task/%d/stat", atomic_load(&h->tid)), "r");
        if (!in)
            continue; /* not there yet */
        line[fread(line, 1, sizeof line - 1, in)] = '\0';
        state = strrchr(line, ')');
        (void)fclose(in);
    }
}

/* The first freeze hangs in the disk, an unfreeze waits behind it, then somebody freezes again. */
TEST(freeze_that_comes_while_an_unfreeze_waits_for_the_disk_wins_thread)
{
    char dir[DIR_BYTES], path[DIR_BYTES + 8], byte;
    struct hand first, unfreeze, second;
    state_dir(dir, "wins");
    struct freeze *f = start(dir, false);
    (void)snprintf(path, sizeof path, "%s/frozen", dir);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it hangs until there is a reader */
    hand_start(&first, f, true);
    assert_true(freeze_on(f)); /* in force although nothing is written */
    hand_start(&unfreeze, f, false);
    hand_start(&second, f, true);
    FILE *reader = fopen(path, "r");
    assert_non_null(reader);
    assert_int_equal(fread(&byte, 1, 1, reader), 1);
    assert_int_equal(pthread_join(first.thread, NULL), 0);
    assert_int_equal(pthread_join(unfreeze.thread, NULL), 0);
    assert_int_equal(pthread_join(second.thread, NULL), 0);
    (void)fclose(reader);
    assert_true(freeze_on(f));
    assert_true(look(f).persisted && file_exists(path));
    freeze_free(f);
}

struct hands {
    struct freeze *f;
    atomic_bool end;
};

static void *freeze_and_look(void *arg)
{
    struct hands *h = arg;
    struct err e;
    while (!atomic_load(&h->end)) {
        (void)freeze_on(h->f);
        (void)look(h->f);
        freeze_retry(h->f);
        if (freeze_clear(h->f, FREEZE_ENDPOINT, "other", "", T0, &e))
            abort();
    }
    return NULL;
}

/* What returned as frozen stays so until a later unfreeze; afterwards file and memory agree. */
TEST(freeze_and_unfreeze_at_the_same_time_leave_file_and_memory_agreeing_thread)
{
    char dir[DIR_BYTES];
    state_dir(dir, "race");
    struct hands h = {.f = start(dir, false)};
    pthread_t other;
    struct err e;
    for (int round = 0; round < 20; round++) {
        atomic_store(&h.end, false);
        assert_int_equal(pthread_create(&other, NULL, freeze_and_look, &h), 0);
        for (int i = 0; i < 5; i++)
            assert_ok(freeze_set(h.f, FREEZE_ENDPOINT, "me", "", T0, &e), &e);
        atomic_store(&h.end, true);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(freeze_on(h.f), file_exists(test_path("%s/frozen", dir)));
        assert_ok(freeze_set(h.f, FREEZE_ENDPOINT, "me", "", T0, &e), &e);
        assert_true(freeze_on(h.f) && file_exists(test_path("%s/frozen", dir)));
    }
    freeze_free(h.f);
}
