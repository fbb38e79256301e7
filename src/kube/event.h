/* event.h - Kubernetes Events about objects, for `kubectl describe`.
 *
 * Never blocks and never fails the caller: events are queued, sent beside everything else by
 * kube_poll(), and dropped (counted) when there are too many.  The same event again within 10 min
 * is not sent anew; its count goes into the first one's series.  Each object has a token bucket, so
 * one that flaps cannot flood the API server. events.k8s.io/v1. */
#ifndef KUBE_EVENT_H
#define KUBE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/client.h"

struct kube_event {
    /* What it is about.  ns "" for a cluster-scoped object (the event then lives in "default"). */
    const char *api_version, *kind, *ns, *name, *uid;
    bool warning;       /* type Warning, else Normal */
    const char *reason; /* CamelCase, at most 128 bytes: "ScaledUp" */
    const char *action; /* what was done: "Scale" */
    const char *note;   /* for people; cut at 1,024 bytes */
};

struct kube_events_opts {
    const char *controller; /* reportingController: "sluice.dev/capacity" */
    const char *instance;   /* reportingInstance: the pod's name */
    int burst;              /* events of one object at once; 10 */
    int64_t refill_us;      /* one more after; 1 min */
    int queue;              /* waiting or being sent; 256 */
    int64_t series_us;      /* the same within this is one series; 10 min */
    int64_t count_us;       /* a series' count is written at most so often; 1 min */
};
struct kube_events_opts kube_events_opts_default(void);

struct kube_events_stats {
    uint64_t sent, repeated, limited, dropped, failed;
};

struct kube_events;
/* texts are copied.  On a read-only kube nothing is sent, and `dropped` counts. */
NODISCARD enum err_code kube_events_new(struct kube *k, const struct kube_events_opts *o,
                                        struct kube_events **out, struct err *e);
void kube_events_free(struct kube_events *s); /* cancels what is under way; NULL is fine */
/* now_us: wall clock, for the stamps. */
void kube_events_emit(struct kube_events *s, const struct kube_event *ev, int64_t now_us);
const struct kube_events_stats *kube_events_stats(const struct kube_events *s);

#endif
