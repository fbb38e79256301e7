/* queries_priv.h - shared by the two halves of queries: configuration and built-ins. */
#ifndef COLLECT_QUERIES_PRIV_H
#define COLLECT_QUERIES_PRIV_H

#include "collect/queries.h"

enum { QUERY_TEXT_MAX = 64 * 1024 };

/* What Deployments and StatefulSets append to their name for a pod: a hash of 6 to 10 and a tail of 5
 * letters of Kubernetes' own alphabet (k8s.io/apimachinery/pkg/util/rand), or an ordinal.  RE2, anchored by
 * PromQL. */
#define QUERY_SAFE "[bcdfghjklmnpqrstvwxz2456789]"
#define QUERY_POD_SUFFIX "(?:-" QUERY_SAFE "{6,10})?-(?:" QUERY_SAFE "{5}|[0-9]+)"

/* The PromQL of all built-in sources of a field, for all targets; fills q's sources.  Nothing when there is
 * none. */
void query_builtin(enum field f, const struct opt_strings *sources, struct query *q, struct buf *out);
/* The same for one target, {namespace} {name} {pods} {window} still in it: one series. */
void query_builtin_target(enum field f, const struct opt_strings *sources, struct buf *out);
bool query_source_known(const char *name);

bool query_is_name(const char *s); /* of a Kubernetes object */
/* A name as part of a regular expression, no backslashes needed. */
void query_pattern(struct buf *out, const char *name);
void query_duration(struct buf *out, int64_t us); /* "60s", "600ms" */

#endif
