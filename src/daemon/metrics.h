/* metrics.h - the daemon's own metrics: one table of names, types, labels and help; bounded series; Prometheus text.
 *
 * The table below gives the enum, the exposition page and docs/metrics.md (`sluice metrics`).
 * A series comes into being when it is first set and goes when it is dropped or set to NaN: what is not known is absent,
 * not 0.  Each metric takes at most `most` series; what does not fit is refused and counted in
 * sluice_metrics_refused_total{metric}, so a flood of label values costs a bounded amount of memory.
 *
 * Any thread may set, any thread may write the page (a lock, held while one family is copied).  Setting an
 * existing series allocates nothing. */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM };
enum { METRIC_LABELS_MAX = 3 };

/* X(id, name, type, labels, most, help).  Labels are space-separated, values are given in that order. */
#define METRIC_LIST(X)                                                                             \
    X(BUILD_INFO, "sluice_build_info", GAUGE, "version commit isa", 1,                             \
      "Always 1; the labels say which build runs.")                                                \
    X(LEADER, "sluice_leader", GAUGE, "", 1, "1 when this replica holds the lease.")               \
    X(FROZEN, "sluice_frozen", GAUGE, "", 1, "1 when this replica acts on nothing.")               \
    X(STAGE, "sluice_stage", GAUGE, "stage", 8, "1 for the stage in force: observe, single, extended or global.") \
    X(DECISIONS, "sluice_decisions_total", COUNTER, "verdict", 64,                                 \
      "Decisions by what became of them: the guard's last word, or scaled, held, failed.")         \
    X(ROUND_SECONDS, "sluice_decision_round_seconds", HISTOGRAM, "", 1,                            \
      "Time of one decision round over all targets.")                                              \
    X(LAST_ROUND, "sluice_last_round_timestamp_seconds", GAUGE, "", 1,                             \
      "Unix time of the newest finished decision round.")                                          \
    X(INPUT_AGE, "sluice_input_age_seconds", GAUGE, "query", 256,                                  \
      "Time since a query last succeeded; absent until it has.")                                   \
    X(INPUT_UP, "sluice_input_up", GAUGE, "query", 256, "1 when the newest run of a query succeeded.") \
    X(CLOCK_SKEW, "sluice_clock_skew_seconds", GAUGE, "source", 16,                                \
      "Clock of a source minus the clock here.")                                                   \
    X(FORECAST_ERROR, "sluice_forecast_error_frac", GAUGE, "namespace target", 2000,               \
      "Mean absolute forecast error over mean load, 24 h.")                                        \
    X(FORECAST_COVERAGE, "sluice_forecast_coverage_frac", GAUGE, "namespace target level", 4000,   \
      "Fraction of outcomes inside the forecast interval of a level, 24 h.")                       \
    X(TARGET_UNITS, "sluice_target_units", GAUGE, "namespace target state", 12000,                 \
      "Units of a target by state: desired, max, requested, ready, warming, failed.")         \
    X(SAMPLE_AGE, "sluice_sample_age_seconds", GAUGE, "namespace target", 2000,                    \
      "Age of the newest complete measurement of a target, by the samples' own stamps; absent while there is none.") \
    X(HOLD, "sluice_hold", GAUGE, "namespace target cause", 4000,                                  \
      "1 for the reason why a target is not acted on; absent while it is.")                        \
    X(TARGET_DEMAND, "sluice_target_demand_qps", GAUGE, "namespace target", 2000,                  \
      "Load of a target, requests per second.")                                                    \
    X(PRESSURE, "sluice_pressure", GAUGE, "namespace target", 2000,                                \
      "1 minus the rank of the critic's value in its own history; near 1 is trouble ahead.")       \
    X(REWARD, "sluice_reward", GAUGE, "namespace target term", 16000,                              \
      "Terms of the newest step's reward: latency, cost, held, churn.")                            \
    X(BREAKER_OPEN, "sluice_breaker_open", GAUGE, "namespace target", 2000,                        \
      "1 while a target is not scaled out because its units do not become ready.")                 \
    X(POLICY_ERROR, "sluice_policy_error", GAUGE, "namespace target", 2000,                        \
      "1 while the configured policy cannot decide and on_error rules the target.")                \
    X(OWNERSHIP_CONFLICT, "sluice_ownership_conflict", GAUGE, "namespace target", 2000,            \
      "1 while a target is refused because another controller owns it.")                           \
    X(API_REQUESTS, "sluice_api_requests_total", COUNTER, "verb code", 256,                        \
      "Requests to the API server by verb and class of answer: 2xx, 409, 429, 4xx, 5xx, transport.") \
    X(API_SECONDS, "sluice_api_request_seconds", HISTOGRAM, "verb", 16,                            \
      "Time from a request to the API server to its answer, watches left out.")                    \
    X(QUEUE_DEPTH, "sluice_queue_depth", GAUGE, "queue", 16, "Entries waiting in an internal queue.") \
    X(ARENA_HIGH_WATER, "sluice_arena_high_water_bytes", GAUGE, "arena", 32,                       \
      "Most bytes ever used of a fixed memory area.")                                              \
    X(STORE_UP, "sluice_store_up", GAUGE, "", 1, "1 when the audit store can be written; nothing is acted on without.") \
    X(STORE_BYTES, "sluice_store_bytes", GAUGE, "", 1, "Size of the audit store.")                 \
    X(INFORMER_AGE, "sluice_informer_age_seconds", GAUGE, "resource", 32,                          \
      "Time since the watch of a resource last said anything, bookmarks included.")                \
    X(INFORMER_OBJECTS, "sluice_informer_objects", GAUGE, "resource", 32, "Objects in the cache of a resource.") \
    X(RELOAD_OK, "sluice_config_reload_ok", GAUGE, "", 1, "1 when the newest configuration was accepted.") \
    X(RELOAD_TIME, "sluice_config_reload_timestamp_seconds", GAUGE, "", 1,                         \
      "Unix time of the newest accepted configuration.")                                           \
    X(HTTP_REQUESTS, "sluice_http_requests_total", COUNTER, "endpoint code", 256,                  \
      "Requests answered by this replica's endpoints.")                                            \
    X(REFUSED, "sluice_metrics_refused_total", COUNTER, "metric", 64,                              \
      "Samples refused because a metric had its full number of series.")

enum metric_id {
#define X(id, name, type, labels, most, help) METRIC_##id,
    METRIC_LIST(X)
#undef X
        METRICS
};

struct metrics;
struct metrics *metrics_new(void); /* build_info and the counters without labels are there from the start */
void metrics_free(struct metrics *m);

/* Label values in the table's order; NULL for a metric without labels.  Values are cut at 255 bytes and made plain UTF-8.
 *     metric_set(m, METRIC_TARGET_UNITS, 4, METRIC_LABELS("prod", "chat", "ready")); */
#define METRIC_LABELS(...) ((const char *const[METRIC_LABELS_MAX]){__VA_ARGS__})
void metric_set(struct metrics *m, enum metric_id id, double value, const char *const *labels);  /* gauge; NaN drops */
void metric_add(struct metrics *m, enum metric_id id, double by, const char *const *labels);     /* counter, by >= 0 */
void metric_observe(struct metrics *m, enum metric_id id, double v, const char *const *labels);  /* histogram */
/* Every series whose first labels are namespace and target: a target that is gone. */
void metrics_drop_target(struct metrics *m, const char *ns, const char *target);
/* Every series of one metric, e.g. before a new stage is set. */
void metrics_drop(struct metrics *m, enum metric_id id);
/* NaN when there is no such series; a histogram's count.  For tests and health. */
double metric_get(struct metrics *m, enum metric_id id, const char *const *labels);

const char *metric_name(enum metric_id id);
/* The page, text format 0.0.4. */
void metrics_write(struct metrics *m, struct buf *out);
extern const char metrics_content_type[];
/* docs/metrics.md */
void metrics_write_markdown(struct buf *out);

#endif
