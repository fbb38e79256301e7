/* prometheus_bench.c - 90 days x 15 s x 10 series out of a local Prometheus into a history file.
 *
 *   prometheus_import_cpu_frac   our own processor time over elapsed time: the rest is Prometheus
 *   prometheus_import_s          elapsed time
 *
 * The server's blocks are made with `promtool tsdb create-blocks-from openmetrics` in build/bench and kept
 * there. Plain selectors are queried, the least work a server can have.  BENCH_DAYS changes the 90.
 * Without Debian's prometheus package nothing is measured, and said so. */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "collect/backfill.h"
#include "history/file.h"
#include "model/history.h"

static_assert(FIELD_COUNT >= 10, "a field per series");
enum { SERIES = 10, STEP_S = 15, RUNS = 3 };
static const int64_t START_S = 1750000005; /* a multiple of 15 */

struct setup {
    int days;
    char dir[256], url[64];
    pid_t pid;
    double elapsed_s, cpu_s;
};

static void stop(const char *what, const struct err *e)
{
    (void)fprintf(stderr, "prometheus_bench: %s%s%s\n", what, e ? ": " : "", e ? e->msg : "");
    exit(1);
}

/* ---- the server ---------------------------------------------------------------------------------
 */

static void write_openmetrics(const struct setup *s, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        stop(path, NULL);
    for (int k = 0; k < SERIES; k++) {
        (void)fprintf(f, "# TYPE m%d gauge\n", k);
        for (int64_t i = 0; i < (int64_t)s->days * 86400 / STEP_S; i++)
            (void)fprintf(f, "m%d{pod=\"web-%d\"} %.17g %lld\n", k, k,
                          (double)((i * 7919 + k * 104729) % 1000003) / 1000004,
                          (long long)(START_S + i * STEP_S));
    }
    (void)fputs("# EOF\n", f);
    if (fclose(f) != 0)
        stop(path, NULL);
}

static void make_blocks(const struct setup *s)
{
    char mark[300], command[2000], text[300];
    (void)snprintf(mark, sizeof mark, "%s/done", s->dir);
    if (file_exists(mark))
        return;
    (void)fprintf(stderr, "prometheus_bench: making %d days of blocks in %s ...\n", s->days,
                  s->dir);
    (void)snprintf(text, sizeof text, "%s/in.om", s->dir);
    write_openmetrics(s, text);
    (void)snprintf(command, sizeof command,
                   "promtool tsdb create-blocks-from openmetrics --max-block-duration=744h -q %s "
                   "%s/data && rm %s && touch %s",
                   text, s->dir, text, mark);
    if (system(command) != 0)
        stop("promtool failed", NULL);
}

static uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        stop("no free port", NULL);
    (void)close(fd);
    return ntohs(a.sin_port);
}

static void start_server(struct setup *s)
{
    char config[300], data[300], listen[64], log[300];
    uint16_t port = free_port();
    (void)snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u", port);
    (void)snprintf(listen, sizeof listen, "--web.listen-address=127.0.0.1:%u", port);
    (void)snprintf(config, sizeof config, "--config.file=%s/prometheus.yml", s->dir);
    (void)snprintf(data, sizeof data, "--storage.tsdb.path=%s/data", s->dir);
    (void)snprintf(log, sizeof log, "%s/prometheus.yml", s->dir);
    struct err e;
    if (file_write(log, "{}\n", 3, &e))
        stop("config", &e);
    (void)snprintf(log, sizeof log, "%s/log", s->dir);
    s->pid = fork();
    if (s->pid == 0) {
        char name[] = "prometheus", keep[] = "--storage.tsdb.retention.time=30y";
        char *argv[] = {name, config, data, listen, keep, NULL};
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen(log, "w", stderr))
            (void)execvp(name, argv);
        _exit(127);
    }
}

static void stop_server(const struct setup *s)
{
    (void)kill(s->pid, SIGTERM);
    (void)waitpid(s->pid, NULL, 0);
}

/* ---- the import ---------------------------------------------------------------------------------
 */

struct job {
    struct backfill b;
    struct import_cfg cfg;
    struct backfill_report report;
};

static enum err_code fill(void *ctx, struct raw *raw, struct err *e)
{
    struct job *j = ctx;
    return backfill_run(&j->b, &j->cfg, raw, &j->report, e);
}

static double cpu_s(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* The server's, from /proc. */
static double server_cpu_s(const struct setup *s)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, sys = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)s->pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    const char *p = n ? strrchr(text, ')') : NULL;
    if (!p ||
        sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) != 2)
        return 0;
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static void open_prom(const struct setup *s, struct job *j, struct http_server **server)
{
    struct prom_opts po = prom_opts_default();
    struct prom_result r = {0};
    struct err e = {0};
    struct http_server_opts so = {.url = s->url};
    if (http_client_new(&j->b.http, &e) || http_server_new(&so, server, &e))
        stop("client", &e);
    prom_new(j->b.http, *server, &po, &j->b.prom);
    for (int i = 0; i < 300; i++) { /* until it serves */
        struct timespec nap = {.tv_nsec = 100000000};
        struct prom_query q = {.query = "vector(1)", .result = &r, .attempts = 1};
        if (prom_do(j->b.prom, &q, NULL, &e) == ERR_OK)
            break;
        (void)nanosleep(&nap, NULL);
    }
    prom_result_fini(&r);
}

static void import_once(struct setup *s)
{
    static const char *const name[SERIES] = {"m0", "m1", "m2", "m3", "m4",
                                             "m5", "m6", "m7", "m8", "m9"};
    struct backfill_query query[SERIES];
    struct http_server *server;
    struct history h;
    struct import_report report;
    struct job j = {
        .b = {.queries = query, .n_queries = SERIES, .step_us = STEP_S * US_PER_S, .parallel = 1}};
    struct err e = {0};
    char part[300], out[300];
    for (int k = 0; k < SERIES; k++)
        query[k] = (struct backfill_query){.field = (enum field)k, .query = name[k], .scale = 1};
    j.b.start_us = START_S * US_PER_S;
    j.b.end_us = j.b.start_us + ((int64_t)s->days * 86400 - STEP_S) * US_PER_S;
    (void)snprintf(part, sizeof part, "%s/out.hist.part", s->dir);
    (void)snprintf(out, sizeof out, "%s/out.hist", s->dir);
    j.b.part = part;
    opt_init(&import_table, &j.cfg);
    j.cfg.step_us = j.b.step_us;
    open_prom(s, &j, &server);
    double t0 = bench_now_s(), c0 = cpu_s(), v0 = server_cpu_s(s);
    if (import_live("prometheus", &j.cfg, "bench", fill, &j, &h, &report, &e) ||
        history_write(out, &h, &report, &e))
        stop("import", &e);
    (void)unlink(part);
    s->elapsed_s = bench_now_s() - t0;
    s->cpu_s = cpu_s() - c0;
    if (j.report.samples != (uint64_t)SERIES * (uint64_t)s->days * 86400 / STEP_S)
        stop("not every sample arrived", NULL);
    if (getenv("BENCH_VERBOSE"))
        (void)fprintf(stderr,
                      "%.2f s, own %.2f s, server %.2f s; %llu requests, %.1f MB on the wire, %.1f "
                      "MB of JSON, parsed in %.2f s\n",
                      s->elapsed_s, s->cpu_s, server_cpu_s(s) - v0,
                      (unsigned long long)j.report.requests, (double)j.report.wire_bytes * 1e-6,
                      (double)j.report.body_bytes * 1e-6, (double)j.report.parse_us * 1e-6);
    history_close(&h);
    opt_fini(&import_table, &j.cfg);
    prom_free(j.b.prom);
    http_server_free(server);
    http_client_free(j.b.http);
}

static double run_frac(void *arg)
{
    struct setup *s = arg;
    import_once(s);
    return s->cpu_s / s->elapsed_s;
}

static double run_s(void *arg)
{
    struct setup *s = arg;
    import_once(s);
    return s->elapsed_s;
}

int main(void)
{
    const char *days = getenv("BENCH_DAYS");
    struct setup s = {.days = days ? (int)strtol(days, NULL, 10) : 90};
    struct err e;
    if (!bench_wanted("prometheus_import_cpu_frac") && !bench_wanted("prometheus_import_s"))
        return 0;
    if (system("command -v prometheus promtool >/dev/null 2>&1") != 0) {
        (void)fputs("prometheus_bench: not measured, prometheus and promtool are missing\n",
                    stderr);
        return getenv("CI") != NULL;
    }
    (void)snprintf(s.dir, sizeof s.dir, "build/bench/prometheus-%dd", s.days);
    if (s.days < 1 || file_make_dirs(s.dir, &e))
        stop("BENCH_DAYS or folder", NULL);
    make_blocks(&s);
    start_server(&s);
    bench_report("prometheus_import_cpu_frac", "fraction", RUNS, run_frac, &s);
    bench_report("prometheus_import_s", "s", RUNS, run_s, &s);
    stop_server(&s);
    return 0;
}
