#include "tests/support/prometheus.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/http.h"
#include "tests/support/test.h"

static const int64_t READY_US = 20 * US_PER_S;

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

/* A port nobody listens on now.  Prometheus takes no socket from outside, so it could be lost again in
 * between; then it does not start, and the test says so. */
static uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(s, (struct sockaddr *)&a, &n) != 0)
        fail_msg("no free port");
    (void)close(s);
    return ntohs(a.sin_port);
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

static void wait_ready(struct test_prometheus *p)
{
    int64_t until = clock_mono_us() + READY_US;
    for (bool ready = false; !ready;) {
        struct http_reply reply;
        ready = get(p, "/-/ready", &reply);
        http_reply_fini(&reply);
        int status;
        if (!ready && (clock_mono_us() > until || waitpid(p->pid, &status, WNOHANG) == p->pid))
            fail_msg("prometheus does not start; see %s/log", p->dir);
        if (!ready)
            nap();
    }
}

void test_prometheus_run(struct test_prometheus *p, const char *config, const char *web,
                         const char *data)
{
    const char *program = test_prometheus_program("prometheus");
    *p = (struct test_prometheus){.port = free_port()};
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
    if (!web)
        wait_ready(p);
}

void test_prometheus_start(struct test_prometheus *p, uint16_t exporter_port, const char *interval)
{
    char config[1024];
    test_prometheus_config(config, sizeof config, &exporter_port, 1, interval);
    test_prometheus_run(p, config, NULL, NULL);
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
    int64_t until = clock_mono_us() + 10 * US_PER_S;
    struct buf path = buf_init(1 << 16);
    buf_str(&path, "/api/v1/query?query=");
    http_escape(&path, query);
    for (bool found = false; !found;) {
        struct http_reply reply;
        found = get(p, path.p, &reply) && strstr(reply.body.p, text);
        if (!found && clock_mono_us() > until)
            fail_msg("%s: no \"%s\" in 10 s: %.300s", query, text,
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
    const char *command = test_path("%s tsdb create-blocks-from openmetrics %s %s > %s.log 2>&1",
                                    tool, openmetrics_path, data, openmetrics_path);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}
