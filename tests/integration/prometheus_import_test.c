/* prometheus_import_test.c - `sluice import prometheus --url` as a program, from a real Prometheus over blocks that promtool
 * made; interrupted in the middle and started again. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "history/file.h"
#include "tests/support/prometheus.h"
#include "tests/support/test.h"

enum { POINTS = 5760, STEP_S = 15, OUT_MAX = 1 << 20 }; /* one day */
static const int64_t START_S = 1750000005;
#define UNTIL "2025-06-16T15:06:30Z" /* the last point */

static double value(int i)
{
    return 100 + (i % 960) / 8.0;
}

static void start_prometheus(struct test_prometheus *p)
{
    const char *text = test_path("%s/in.om", test_tmp_dir());
    char data[512];
    (void)snprintf(data, sizeof data, "%s/blocks", test_tmp_dir());
    (void)test_prometheus_program("promtool");
    FILE *f = fopen(text, "w");
    assert_non_null(f);
    (void)fputs("# TYPE load gauge\n", f);
    for (int i = 0; i < POINTS; i++)
        if (i < 1000 || i >= 1100) /* an outage of 25 minutes */
            (void)fprintf(f, "load{pod=\"web-0\"} %.17g %lld\n", value(i), (long long)(START_S + i * STEP_S));
    (void)fputs("# EOF\n", f);
    assert_int_equal(fclose(f), 0);
    test_prometheus_blocks(text, data);
    test_prometheus_run(p, "{}\n", NULL, data);
}

/* ---- the program --------------------------------------------------------------------------------
 */

static pid_t start_program(const char *const *args)
{
    const char *path = test_program();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    int fd = open(test_path("%s/said", test_tmp_dir()), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)dup2(fd, 1);
    (void)dup2(fd, 2);
    char *argv[40] = {NULL};
    int n = 0;
    argv[n++] = strdup(path);
    for (; *args; args++)
        argv[n++] = strdup(*args);
    (void)execv(path, argv);
    _exit(127);
}

static int finish(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void said(int got, int want, const char *text)
{
    struct buf b;
    struct err e;
    assert_ok(file_read(test_path("%s/said", test_tmp_dir()), OUT_MAX, &b, &e), &e);
    if (got != want || (text && !strstr(b.p, text)))
        fail_msg("exit %d, expected %d; \"%s\" in: %s", got, want, text ? text : "", b.n ? b.p : "");
    buf_fini(&b);
}

/* ---- tests --------------------------------------------------------------------------------------
 */

TEST(a_day_of_prometheus_becomes_a_history)
{
    struct test_prometheus p = {0};
    struct history h;
    struct err e;
    start_prometheus(&p);
    char out[512];
    (void)snprintf(out, sizeof out, "%s/web.hist", test_tmp_dir());
    const char *args[] = {"import", "prometheus", "--url", p.url, "--until", UNTIL, "--since", "1d", "--workload", "shop/web",
                          "--query", "qps=last_over_time(load[10s])", "--query", "queue_len=load * 2", "-o", out, NULL};
    said(finish(start_program(args)), 0, "requests, 0 tried again");
    assert_ok(history_open(out, &h, NULL, &e), &e);
    assert_int_equal(h.step_us, STEP_S * US_PER_S);
    assert_int_equal(h.start_us, START_S * US_PER_S);
    assert_int_equal(h.n, POINTS);
    assert_string_equal(h.workload_id, "shop/web");
    for (int i = 0; i < POINTS; i += 7)
        if (i < 990 || i > 1110)
            assert_near((double)h.col[FIELD_QPS][i], value(i), 1e-4, 0);
    assert_true(h.barred[1050] && !h.barred[500]); /* missing, never 0 */
    assert_true(h.col[FIELD_QPS][1050] != h.col[FIELD_QPS][1050]);
    assert_false(file_exists(test_path("%s.part", out)));
    history_close(&h);
    test_prometheus_stop(&p);
}

TEST(an_import_that_was_interrupted_goes_on)
{
    struct test_prometheus p = {0};
    struct history h;
    struct stat st;
    struct err e;
    char out[512], part[520];
    start_prometheus(&p);
    (void)snprintf(out, sizeof out, "%s/long.hist", test_tmp_dir());
    (void)snprintf(part, sizeof part, "%s.part", out);
    const char *args[] = {"import", "prometheus", "--url", p.url, "--until", UNTIL, "--since", "1d", "--step", "1s",
                          "--query", "qps=load", "--query", "queue_len=load + 0", "--query", "p50_latency_ms=load + 1",
                          "--query", "p99_latency_ms=load + 2", "-o", out, NULL};
    pid_t pid = start_program(args);
    while (stat(part, &st) != 0 || st.st_size < 1000) {
        struct timespec nap = {.tv_nsec = 1000000};
        (void)nanosleep(&nap, NULL);
    }
    (void)kill(p.pid, SIGSTOP); /* some 30 pieces are still to come */
    (void)kill(pid, SIGINT);
    said(finish(pid), 1, "started again, this goes on with what is in");
    assert_false(file_exists(out));
    assert_true(file_exists(part));
    (void)kill(p.pid, SIGCONT);
    said(finish(start_program(args)), 0, "points had been fetched before");
    assert_ok(history_open(out, &h, NULL, &e), &e);
    assert_int_equal(h.n, 86386); /* the day at 1 s, from the first sample on */
    assert_false(file_exists(part));
    history_close(&h);
    test_prometheus_stop(&p);
}

TEST(imports_that_cannot_work_say_why)
{
    static const struct {
        const char *args[4];
        int status;
        const char *text;
    } rows[] = {
        {{"--query", "qps=sum("}, 1, "HTTP 400, bad_data"},
        {{"--query", "qps=sum by (a_label_with_a_long_name, another_label_with_a_long_name, a_third_one) (load"},
         1,
         "the query of qps was:\n  sum by (a_label_with_a_long_name, another_label_with_a_long_name, a_third_one) (load\n"},
        {{"--query", "qps=nothing_here"}, 1, "no samples for these queries"},
        {{"--target", "shop/absent"}, 1, "no samples for these queries"},
        {{NULL}, 2, "--target NAMESPACE/NAME, or --query"},
        {{"--query", "speed=load"}, 2, "expected FIELD=PROMQL"},
        {{"--query", "qps={pods}"}, 2, "no value for this placeholder"},
        {{"--target", "web"}, 2, "expected NAMESPACE/NAME"},
        {{"--target", "shop/web", "--sources", "dcmg"}, 2, "there is no \"dcmg\""},
        {{"--query", "qps=load", "--until", "yesterday"}, 2, "--until"},
    };
    struct test_prometheus p = {0};
    start_prometheus(&p);
    char out[512];
    (void)snprintf(out, sizeof out, "%s/none.hist", test_tmp_dir());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *args[16] = {"import", "prometheus", "--url", p.url, "--since", "1h", "-o", out};
        memcpy(args + 8, rows[i].args, sizeof rows[i].args);
        said(finish(start_program(args)), rows[i].status, rows[i].text);
        assert_false(file_exists(out));
        assert_false(file_exists(test_path("%s.part", out)));
    }
    test_prometheus_stop(&p);
    const char *gone[] = {"import", "prometheus", "--url", p.url, "--query", "qps=load", "-o", out, NULL};
    said(finish(start_program(gone)), 1, p.url);
    const char *files[] = {"import", "csv", "--since", "3d", "x.csv", "-o", out, NULL};
    said(finish(start_program(files)), 2, "option since goes with --url");
}
