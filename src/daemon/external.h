/* external.h - forecasts for those who keep their HPA: the aggregated API external.metrics.k8s.io/v1beta1.
 *
 *   GET /apis                                                   APIGroupList, our one group
 *   GET /apis/external.metrics.k8s.io                           APIGroup
 *   GET /apis/external.metrics.k8s.io/v1beta1                   APIResourceList: the metrics below
 *   GET .../v1beta1/namespaces/NS/METRIC?labelSelector=SEL      ExternalMetricValueList
 *   GET /openapi/v2, /openapi/v3                                documents without paths: nothing to publish
 *
 * Each value carries the labels `target` (name of the target) and `namespace`.  A forecast that is stale or
 * not usable is left out of the list: the HPA then says that it has no metric and keeps its size, which an
 * invented number would not let it do.  Values are quantities in thousandths, rounded up ("1500m").
 * Requests are answered only if they come through the API server: a client certificate of the request-header CA with an
 * allowed name, and the user it names in a header.  The API server has authorised that user by then (RBAC on
 * external.metrics.k8s.io); a SubjectAccessReview of our own would be a write, which observe forbids.
 * Shape: k8s.io/metrics/pkg/apis/external_metrics/v1beta1/types.go; discovery: captures of a real server. */
#ifndef DAEMON_EXTERNAL_H
#define DAEMON_EXTERNAL_H

#include <stdint.h>

#include "daemon/shared.h"
#include "net/server.h"

/* X(id, name): what a target publishes */
#define EXTERNAL_LIST(X)                                                                           \
    X(DESIRED_UNITS, "sluice-desired-units")                                                       \
    X(QPS_5M, "sluice-forecast-qps-5m")                                                            \
    X(QPS_10M, "sluice-forecast-qps-10m")                                                          \
    X(QPS_15M, "sluice-forecast-qps-15m")                                                          \
    X(QPS_30M, "sluice-forecast-qps-30m")                                                          \
    X(HIGH_QPS, "sluice-forecast-high-qps")

enum external_metric {
#define X(id, name) EXTERNAL_##id,
    EXTERNAL_LIST(X)
#undef X
        EXTERNAL_METRICS
};

struct external_row {
    char ns[SHARED_NAMESPACE], target[SHARED_NAME];
    int64_t time_us;                 /* wall time the values were made */
    double value[EXTERNAL_METRICS];  /* NaN: unknown or not usable */
};
/* Main thread, once a round.  scratch is the caller's, kept between rounds (doc_init).  Errors: ERR_LIMIT. */
NODISCARD enum err_code external_publish(struct shared *s, struct doc *scratch, const struct external_row *rows,
                                         size_t n, struct err *e);

/* Who may ask: from the ConfigMap kube-system/extension-apiserver-authentication.  Texts are borrowed. */
struct external_trust {
    const char *const *names;  /* requestheader-allowed-names; none: any name the CA vouches for */
    size_t n_names;
    const char *user_header;   /* first of requestheader-username-headers; NULL: X-Remote-User */
};

/* One request.  Nothing is served from a round older than 3 decision periods. */
void external_answer(struct shared *s, const struct external_trust *trust, const struct server_request *in,
                     struct server_reply *out);

/* The list for one metric, for tests: selector is the text form, NULL for all.  Errors: ERR_PARSE, ERR_LIMIT. */
NODISCARD enum err_code external_write_list(struct shared *s, const char *ns, enum external_metric m,
                                            const char *selector, struct buf *out, struct err *e);
/* A quantity, or false for what is none: not finite, negative or over 1e15. */
bool external_quantity(double v, char out[32]);

#endif
