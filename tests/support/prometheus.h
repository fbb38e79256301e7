/* prometheus.h - a real Prometheus for a test: Debian's, on a free port, with its data in a temporary
 * folder.
 *
 *     struct test_prometheus p;
 *     test_prometheus_start(&p, exporter_port(x), "100ms");
 *     ... p.url ...
 *     test_prometheus_stop(&p);
 *
 * It looks for what to scrape 5 s after it started and cannot be told otherwise, so tests share one where
 * they can. A machine without it skips the test, except where CI is set: then it fails. */
#ifndef TESTS_SUPPORT_PROMETHEUS_H
#define TESTS_SUPPORT_PROMETHEUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct exporter; /* tests/exporter/exporter.h */
struct test_prometheus {
    pid_t pid;
    uint16_t port;
    char url[64];
    char dir[256]; /* configuration, data, log */
};

/* Path of a program of the prometheus package; skips or fails the test when there is none. */
const char *test_prometheus_program(const char *name);
/* Writes the configuration: scrapes 127.0.0.1:port of each of n exporters under job "test", labels honoured. */
void test_prometheus_config(char *out, size_t size, const uint16_t *ports, int n, const char *interval);
/* Starts with this configuration (YAML), waits until it is ready.  Fails the test when it does not come up.
 * `web`: text of a --web.config.file (TLS, basic auth) or NULL; the ready check is then left out (see
 * test_prometheus_wait). data: folder of blocks to serve, or NULL for an empty one of its own. */
void test_prometheus_run(struct test_prometheus *p, const char *config, const char *web, const char *data);
void test_prometheus_start(struct test_prometheus *p, uint16_t exporter_port, const char *interval);
/* One that scrapes one exporter every 100 ms, both started at the first call and the same for all tests of a binary.
 * The exporter has nothing on its page now, but what it had is still known: names of one's own, or a wait. */
struct test_prometheus *test_prometheus_shared(struct exporter **x);
/* SIGTERM, then SIGKILL after 5 s.  Safe on a zeroed one. */
void test_prometheus_stop(struct test_prometheus *p);
/* Polls `query` (PromQL) until its answer contains `text`; fails the test after 30 s. */
void test_prometheus_until(const struct test_prometheus *p, const char *query, const char *text);
/* Blocks of the OpenMetrics file made with promtool in p->dir-like folder `data`. */
void test_prometheus_blocks(const char *openmetrics_path, const char *data);

#endif
