#include "tests/support/prometheus.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/http.h"
#include "tests/exporter/exporter.h"
#include "tests/support/port.h"
#include "tests/support/test.h"

static const int64_t READY_US = 60 * US_PER_S, ANSWER_US = 30 * US_PER_S;

const char *test_prometheus_program(const char *name)
{
    static const char *const folders[] = {"/usr/bin", "/usr/local/bin"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        const char *path = test_path("%s/%s", folders[i], name);
        if (access(path, X_OK) == 0)
            return path;
    }
    if (getenv("CI"))
        fail_msg("%s is missing (apt install prometheus)", name);
    print_message("skipped: no %s (apt install prometheus)\n", name);
    skip();
    return NULL;
}

void test_prometheus_config(char *out, size_t size, const uint16_t *ports, int n,
                            const char *interval)
{
    int at = snprintf(out, size,
                      "global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: 1h}\n"
                      "scrape_configs:\n- job_name: test\n  honor_labels: true\n  "
                      "static_configs:\n  - targets: [",
                      interval, interval);
    for (int i = 0; i < n; i++)
        at += snprintf(out + at, size - (size_t)at, "%s'127.0.0.1:%u'", i ? ", " : "", ports[i]);
    at += snprintf(out + at, size - (size_t)at, "]\n");
    if ((size_t)at >= size)
        fail_msg("configuration does not fit");
}

static void child(const struct test_prometheus *p, const char *program, const char *data, bool web)
{
    char listen[64], config[300], storage[600], web_file[300];
    int log = open(test_path("%s/log", p->dir), O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(log, 1);
    (void)dup2(log, 2);
    (void)snprintf(listen, sizeof listen, "--web.listen-address=127.0.0.1:%u", p->port);
    (void)snprintf(config, sizeof config, "--config.file=%s/prometheus.yml", p->dir);
    (void)snprintf(storage, sizeof storage, "--storage.tsdb.path=%s", data);
    (void)snprintf(web_file, sizeof web_file, "--web.config.file=%s/web.yml", p->dir);
    char retention[] = "--storage.tsdb.retention.time=10y",
         reload[] = "--scrape.discovery-reload-interval=10ms";
    char name[] = "prometheus";
    char *argv[] = {name, listen, config, storage, retention, reload, web ? web_file : NULL, NULL};
    (void)execv(program, argv);
    _exit(127);
}

static bool get(const struct test_prometheus *p, const char *path, struct http_reply *reply)
{
    struct http_client *c;
    struct http_server *s;
    struct err e;
    struct http_server_opts o = {.url = p->url};
    struct http_request r = {.method = HTTP_GET, .path = path, .deadline_us = 5 * US_PER_S};
    assert_ok(http_client_new(&c, &e), &e);
    assert_ok(http_server_new(&o, &s, &e), &e);
    bool ok = http_do(c, s, &r, reply, &e) == ERR_OK && reply->status == 200;
    http_client_free(c);
    http_server_free(s);
    return ok;
}

static void nap(void)
{
    struct timespec t = {.tv_nsec = 10 * 1000 * 1000};
    (void)nanosleep(&t, NULL);
}

/* False: it ended, as it does when somebody else got its port. */
static bool wait_ready(const struct test_prometheus *p)
{
    int64_t until = clock_mono_us() + READY_US;
    for (;;) {
        struct http_reply reply;
        bool ready = get(p, "/-/ready", &reply);
        http_reply_fini(&reply);
        int status;
        if (ready)
            return true;
        if (waitpid(p->pid, &status, WNOHANG) == p->pid)
            return false;
        if (clock_mono_us() > until)
            fail_msg("prometheus is not ready in time; see %s/log", p->dir);
        nap();
    }
}

static void launch(struct test_prometheus *p, const char *config, const char *web, const char *data)
{
    const char *program = test_prometheus_program("prometheus");
    *p = (struct test_prometheus){.port = test_free_port()};
    (void)snprintf(p->dir, sizeof p->dir, "%s/prometheus-%u", test_tmp_dir(), p->port);
    (void)snprintf(p->url, sizeof p->url, "http%s://127.0.0.1:%u",
                   web && strstr(web, "cert_file") ? "s" : "", p->port);
    if (mkdir(p->dir, 0700) != 0)
        fail_msg("mkdir %s: %s", p->dir, strerror(errno));
    test_write_file(test_path("%s/prometheus.yml", p->dir), config, strlen(config));
    if (web)
        test_write_file(test_path("%s/web.yml", p->dir), web, strlen(web));
    const char *own = test_path("%s/data", p->dir);
    p->pid = fork();
    if (p->pid == 0)
        child(p, program, data ? data : own, web != NULL);
    if (p->pid < 0)
        fail_msg("fork: %s", strerror(errno));
}

void test_prometheus_run(struct test_prometheus *p, const char *config, const char *web,
                         const char *data)
{
    for (int tries = 0; tries < 5; tries++) {
        launch(p, config, web, data);
        if (web || wait_ready(p))
            return;
    }
    fail_msg("prometheus ends at once; see %s/log", p->dir);
}

void test_prometheus_start(struct test_prometheus *p, uint16_t exporter_port, const char *interval)
{
    char config[1024];
    test_prometheus_config(config, sizeof config, &exporter_port, 1, interval);
    test_prometheus_run(p, config, NULL, NULL);
}

struct test_prometheus *test_prometheus_shared(struct exporter **x)
{
    static struct test_prometheus prometheus; /* ends with this process: child() */
    static struct exporter *exporter;
    static bool ready;
    struct err e;
    (void)test_prometheus_program("prometheus");
    if (!exporter)
        assert_ok(exporter_start(0, &exporter, &e), &e);
    if (!ready) { /* also when it failed an earlier test */
        test_prometheus_stop(&prometheus);
        test_prometheus_start(&prometheus, exporter_port(exporter), "100ms");
        ready = true;
    }
    exporter_hook(exporter, NULL, NULL, NULL); /* what a test that failed left behind */
    exporter_clear(exporter);
    exporter_fail(exporter, 0);
    *x = exporter;
    return &prometheus;
}

void test_prometheus_stop(struct test_prometheus *p)
{
    int status;
    if (p->pid <= 0)
        return;
    (void)kill(p->pid, SIGTERM);
    int64_t until = clock_mono_us() + 5 * US_PER_S;
    while (waitpid(p->pid, &status, WNOHANG) == 0) {
        if (clock_mono_us() > until)
            (void)kill(p->pid, SIGKILL);
        nap();
    }
    p->pid = 0;
}

void test_prometheus_until(const struct test_prometheus *p, const char *query, const char *text)
{
    int64_t until = clock_mono_us() + ANSWER_US;
    struct buf path = buf_init(1 << 16);
    buf_str(&path, "/api/v1/query?query=");
    http_escape(&path, query);
    for (bool found = false; !found;) {
        struct http_reply reply;
        found = get(p, path.p, &reply) && strstr(reply.body.p, text);
        if (!found && clock_mono_us() > until)
            fail_msg("%s: no \"%s\" in time: %.300s", query, text,
                     reply.body.n ? reply.body.p : "no answer");
        http_reply_fini(&reply);
        if (!found)
            nap();
    }
    buf_fini(&path);
}

void test_prometheus_blocks(const char *openmetrics_path, const char *data)
{
    const char *tool = test_prometheus_program("promtool");
    /* Not one block for each two hours: 180 of them take 6 s where two take 0.1. */
    const char *command =
        test_path("%s tsdb create-blocks-from --max-block-duration=1000h openmetrics %s %s > %s.log 2>&1", tool,
                  openmetrics_path, data, openmetrics_path);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}
