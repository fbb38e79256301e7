/* Many rounds of two replicas over twenty targets whose load moves, with watches that end, an API server that restarts,
 * configurations that are swapped and reloaded, and a store that forgets: memory, open files and the store stay flat.
 *
 * SOAK_ROUNDS (default 500; tools/check long: 24,000, 100 hours of decisions) says how many.  Under a sanitizer, whose
 * heap tells nothing, each disturbance comes twice.  The stand-ins run in this process and keep
 * a bounded past, so what grows is the daemon's. */
#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "store/store.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
enum { TARGETS = 20, UNITS_MAX = 24, EVERY = 25, MB = 1 << 20 };

struct sizes {
    int64_t heap_bytes, rss_bytes, store_bytes;
    int files;
};

/* ---- what is held ------------------------------------------------------------------------------- */

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

static int64_t rss_bytes(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    (void)fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static int64_t store_bytes(const struct live_world *w)
{
    int64_t sum = 0;
    for (int i = 0; i < LIVE_REPLICAS; i++) {
        struct stat st;
        char *path = store_path_default(w->seat[i].dir);
        assert_int_equal(stat(path, &st), 0);
        sum += st.st_size;
        mem_free(path);
    }
    return sum;
}

static struct sizes measure(const struct live_world *w)
{
    return (struct sizes){.heap_bytes = (int64_t)mallinfo2().uordblks,
                          .rss_bytes = rss_bytes(),
                          .store_bytes = store_bytes(w),
                          .files = open_files()};
}

static struct sizes most(struct sizes a, struct sizes b)
{
    return (struct sizes){.heap_bytes = max_i64(a.heap_bytes, b.heap_bytes),
                          .rss_bytes = max_i64(a.rss_bytes, b.rss_bytes),
                          .store_bytes = max_i64(a.store_bytes, b.store_bytes),
                          .files = max_int(a.files, b.files)};
}

/* ---- what happens ------------------------------------------------------------------------------- */

static void name_of(int i, char out[32])
{
    (void)snprintf(out, 32, "svc-%d", i);
}

static void load(struct live_world *w, int round)
{
    for (int i = 0; i < TARGETS; i++) {
        char name[32];
        name_of(i, name);
        live_world_demand(w, name, 500 + 400 * sin(round / 40.0 + i));
    }
}

/* As a ConfigMap is changed: a new file, then the link to it is replaced. */
static void swap_config(struct live_world *w, int generation)
{
    for (int i = 0; i < LIVE_REPLICAS; i++) {
        const struct live_seat *s = &w->seat[i];
        const char *link_name = test_path("%s.new", s->config), *file = test_path("%s.%d", s->config, generation % 2);
        assert_int_equal(symlink(file, link_name), 0);
        assert_int_equal(rename(link_name, s->config), 0);
    }
}

/* Two copies of each configuration, and a link to one in its place. */
static void prepare_configs(struct live_world *w)
{
    for (int i = 0; i < LIVE_REPLICAS; i++) {
        const struct live_seat *s = &w->seat[i];
        char text[16384];
        FILE *f = fopen(s->config, "r");
        assert_non_null(f);
        size_t n = fread(text, 1, sizeof text, f);
        (void)fclose(f);
        test_write_file(test_path("%s.0", s->config), text, n);
        test_write_file(test_path("%s.1", s->config), text, n);
        assert_int_equal(unlink(s->config), 0);
    }
    swap_config(w, 0);
}

static void disturb(struct live_world *w, int round)
{
    struct err e;
    switch (round / EVERY % 6) {
    case 0: apiserver_cut_watches(w->api); break;
    case 1: swap_config(w, round); break;
    case 2: (void)kill(getpid(), SIGHUP); break; /* one of the two takes it */
    case 3: w->leader = 1 - w->leader; break;
    case 4: apiserver_compact(w->api); break;
    default:
        apiserver_down(w->api);
        live_world_turn(w);
        assert_ok(apiserver_up(w->api, false, &e), &e);
        break;
    }
}

static void start(struct live_world *w)
{
    static const struct apiserver_opts api = {.controllers = true, .history = 500};
    live_world_start(w, "single", "policy: rules\nstore: {retention: 1h}\n", &api);
    prepare_configs(w);
    for (int i = 0; i < TARGETS; i++) {
        char name[32];
        name_of(i, name);
        live_world_target(w, name, 8, UNITS_MAX, "");
    }
    live_world_up(w, 0);
    live_world_up(w, 1);
}

static struct sizes rounds(struct live_world *w, int from, int n)
{
    struct sizes x = {0};
    for (int i = from; i < from + n; i++) {
        load(w, i);
        live_world_round(w);
        if (i % EVERY == EVERY - 1) {
            disturb(w, i);
            apiserver_forget(w->api);
            x = most(x, measure(w));
        }
    }
    return x;
}

/* The first half fills what is bounded: the store's hour, windows, pools, connections. */
static void check(const struct sizes *first, const struct sizes *second)
{
    if (second->files > first->files + 4)
        fail_msg("open files: %d, then %d", first->files, second->files);
    if (SANITIZED)
        return; /* what is freed is kept for a while, and the store's hour is not over */
    if (second->store_bytes > first->store_bytes + first->store_bytes / 5 + MB)
        fail_msg("store: %.1f MB, then %.1f MB", (double)first->store_bytes / MB, (double)second->store_bytes / MB);
    if (second->heap_bytes > first->heap_bytes + first->heap_bytes / 20 + MB)
        fail_msg("heap: %.1f MB, then %.1f MB", (double)first->heap_bytes / MB, (double)second->heap_bytes / MB);
    if (second->rss_bytes > first->rss_bytes + first->rss_bytes / 20 + 4 * MB)
        fail_msg("resident: %.1f MB, then %.1f MB", (double)first->rss_bytes / MB, (double)second->rss_bytes / MB);
}

TEST(memory_files_and_the_store_stay_flat_over_many_rounds)
{
    const char *text = getenv("SOAK_ROUNDS");
    struct live_world w;
    sigset_t set;
    int64_t n = SANITIZED ? 12 * EVERY : 500;
    if (text)
        assert_true(num_i64(text, strlen(text), &n) && n >= 12 * EVERY && n < 10000000);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP); /* no thread but the daemons' loop takes it */
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    start(&w);
    int64_t from_us = clock_mono_us();
    struct sizes first = rounds(&w, 0, (int)n / 2), second = rounds(&w, (int)n / 2, (int)n - (int)n / 2);
    double real_s = (double)(clock_mono_us() - from_us) * 1e-6;
    (void)fprintf(stderr,
                  "%lld rounds at %.0f x real time; heap %.1f then %.1f MB, resident %.1f then %.1f MB, files %d then %d, "
                  "store %.1f then %.1f MB\n",
                  (long long)n, (double)n * LIVE_STEP_US * 1e-6 / real_s, (double)first.heap_bytes / MB,
                  (double)second.heap_bytes / MB, (double)first.rss_bytes / MB, (double)second.rss_bytes / MB,
                  first.files, second.files, (double)first.store_bytes / MB, (double)second.store_bytes / MB);
    check(&first, &second);
    live_world_stop(&w);
}
