/* objects.h - what is kept of pods, nodes and the rest.
 *
 * A pod or node becomes one block of memory holding the fields that are read later; repeated text
 * is pooled (kube/text.h), so names compare by address within one pool.  Everything else
 * (workloads, autoscalers, our own resource) is kept as its JSON text without managedFields and
 * parsed again when looked at: there are few.
 *
 * Times are microseconds since 1970 UTC, -1 when unset.  Texts are never NULL: "" when unset.
 * Projections refuse wrong types (ERR_PARSE naming the field): an API server never sends them. */
#ifndef KUBE_OBJECTS_H
#define KUBE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "kube/informer.h"
#include "kube/selector.h"
#include "kube/text.h"

/* A countable extended resource, see kube_is_gpu(). */
struct kube_device {
    const char *resource;
    int64_t n;
};
/* nvidia.com/gpu, VENDOR/gpu, anything under gpu.VENDOR (gpu.intel.com/i915) and VENDOR/mig-... */
bool kube_is_gpu(const char *resource);

enum kube_phase { KUBE_PENDING, KUBE_RUNNING, KUBE_SUCCEEDED, KUBE_FAILED, KUBE_UNKNOWN };
const char *kube_phase_name(enum kube_phase p); /* "Pending" */

struct kube_pod {
    struct kube_obj meta;
    const char *node;      /* "" while unbound */
    const char *scheduler; /* spec.schedulerName */
    const char *priority_class;
    const char *owner_kind, *owner_name, *owner_uid; /* of the controller reference */
    const char
        *waiting; /* reason a container waits for: ImagePullBackOff, CrashLoopBackOff ...; "" */
    const char *reason; /* status.reason: Evicted, Preempting ...; "" */
    int64_t created_us, scheduled_us, started_us, ready_since_us;
    int64_t unready_since_us;     /* of condition Ready while it is not True */
    int64_t deletion_us;          /* deletionTimestamp: when its grace ends */
    int64_t cpu_milli, mem_bytes; /* requests: containers, sidecars, init containers and overhead,
                                     as the scheduler counts */
    int64_t gpus;                 /* sum over devices */
    int32_t priority;
    int32_t restarts;
    enum kube_phase phase;
    bool ready;
    /* Was ready before, and lost it: served and not ready is lost, served and ready is regained.  The
     * kubelet stamps Ready False together with startTime, and again only when it was True: a stamp
     * later than that tells it of a pod never seen before.  Beyond that it is what the informer saw of
     * this pod.  Readiness that ended with a crash within a minute was no service: without a probe
     * every container is ready for a moment. */
    bool served;
    bool crashed_soon; /* not ready since a run of a container ended that took less than that minute */
    bool gated;         /* has scheduling gates */
    bool terminating;   /* deletionTimestamp set */
    bool unschedulable; /* PodScheduled is False with reason Unschedulable */
    uint16_t n_labels, n_annotations, n_devices;
    const struct kube_label *labels;      /* sorted by key text */
    const struct kube_label *annotations; /* sluice.dev/... only, sorted by key text */
    const struct kube_device *devices;
};

struct kube_taint {
    const char *key, *value, *effect;
};
struct kube_node {
    struct kube_obj meta;
    int64_t created_us, ready_since_us;
    int64_t cpu_milli, mem_bytes, pods; /* allocatable */
    int64_t gpus;
    bool ready, unschedulable, terminating;
    uint16_t n_labels, n_annotations, n_devices, n_taints;
    const struct kube_label *labels;
    const struct kube_label *annotations; /* sluice.dev/... only */
    const struct kube_device *devices;    /* allocatable */
    const struct kube_taint *taints;
};

/* Any other object. */
struct kube_raw {
    struct kube_obj meta;
    int64_t created_us;
    int64_t generation; /* -1 without */
    bool terminating;
    uint16_t n_labels, n_annotations;
    const struct kube_label *labels;
    const struct kube_label *annotations; /* sluice.dev/... only */
    const char *text; /* the whole JSON, managedFields null; kind and apiVersion may be absent
                         (lists leave them out) */
    size_t n_text;
};
/* Parsed anew; free with json_free. */
NODISCARD enum err_code kube_raw_json(const struct kube_raw *r, struct json_doc **out,
                                      struct err *e);

/* For informer_opts.projection; the pool is borrowed and must outlive the informer. */
struct kube_projection kube_pod_projection(struct text_pool *pool);
struct kube_projection kube_node_projection(struct text_pool *pool);
struct kube_projection kube_raw_projection(struct text_pool *pool);

/* Casts, checked by the reader: the informer's projection decides. */
static inline const struct kube_pod *kube_as_pod(const struct kube_obj *o)
{
    return (const struct kube_pod *)(const void *)o;
}
static inline const struct kube_node *kube_as_node(const struct kube_obj *o)
{
    return (const struct kube_node *)(const void *)o;
}
static inline const struct kube_raw *kube_as_raw(const struct kube_obj *o)
{
    return (const struct kube_raw *)(const void *)o;
}
/* The value of a label or annotation, NULL when absent. */
const char *kube_label_find(const struct kube_label *labels, size_t n, const char *key);

#endif
