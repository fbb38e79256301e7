/* service.h - a service that replays a trace: load from a history, latency and use from a model, metrics
 * per pod under the names DCGM, cAdvisor, kube-state-metrics and HTTP services use.
 *
 * Trace time runs `speed` times as fast as real time.  Counters still grow per real second (rate() then
 * gives the trace's own requests per second), so nothing after the exporter needs to know the speed.
 *   load      qps of the history at the trace's time, times `load_scale`, around again at the end
 *   capacity  ready * unit_qps; what exceeds it waits in a backlog that grows in trace time
 *   use       load over capacity, at most 1; p50 grows as 1 / (1 - use), p99 = 4 p50 + the backlog's wait
 * The units come from whoever plays the cluster: service_units(), or an HTTP request to the program. */
#ifndef TESTS_EXPORTER_SERVICE_H
#define TESTS_EXPORTER_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/history.h"

enum { SERVICE_PODS_MAX = 256 };

struct service_opts {
    const char *namespace, *name; /* borrowed */
    const struct history *load;   /* borrowed; its qps column */
    double load_scale;
    double speed;
    double unit_qps;              /* one unit's capacity */
    double base_ms;               /* p50 of an idle unit */
    int units;                    /* ready at the start */
    int64_t offset_us;            /* where in the trace to begin */
};
struct service_opts service_opts_default(void);

struct service;
struct service *service_new(const struct service_opts *o, int64_t wall_us);
void service_free(struct service *s); /* NULL is fine */
const char *service_namespace(const struct service *s);
const char *service_name(const struct service *s);
/* Pods name-0 ... unless named by service_pods(). */
void service_units(struct service *s, int ready, int total);
/* Names of the pods, ready ones first. */
void service_pods(struct service *s, const char *const *names, int ready, int total);
/* Moves on to wall_us and appends the page. */
void service_page(struct service *s, int64_t wall_us, struct buf *out);
double service_qps(const struct service *s); /* of the last page */
double service_use(const struct service *s);

#endif
