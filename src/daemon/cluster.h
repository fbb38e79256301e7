/* cluster.h - what the daemon sees of Kubernetes: workloads, pods, other owners, our own resource, and sizes.
 *
 * Informers for pods, Deployments, StatefulSets, HorizontalPodAutoscalers and CapacityTargets; KEDA ScaledObjects and
 * VerticalPodAutoscalers where they are served, looked for again every minute, since a CRD may appear late; and one per further
 * kind that a target names.  The size asked for comes from /scale, whatever the kind: read when a target is new,
 * and again whenever its object changed, so a quiet cluster costs no requests.
 *
 * Counting pods is one pass over the pod cache per round.  A pod that is ready counts as ready, one that was ready and is
 * not any more as failed, one that never was as warming since its creation (kube/objects.h: served).  A pod belongs to the workload that owns it: a StatefulSet
 * by its owner reference; a Deployment by the ReplicaSet's name without the pod-template-hash; any other kind by the
 * selector its /scale reports.  Stamps of the API server are decision time (in a rehearsal its stand-in runs as fast).  One thread; runs inside kube_poll(). */
#ifndef DAEMON_CLUSTER_H
#define DAEMON_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "daemon/target.h"
#include "kube/informer.h"
#include "kube/objects.h"
#include "profile/startup.h"

enum cluster_kind {
    CLUSTER_PODS,
    CLUSTER_DEPLOYMENTS,
    CLUSTER_STATEFULSETS,
    CLUSTER_HPAS,
    CLUSTER_TARGETS,        /* CapacityTargets */
    CLUSTER_SCALED_OBJECTS, /* optional from here on */
    CLUSTER_VPAS,
    CLUSTER_OTHER,          /* first of the further kinds */
    CLUSTER_KINDS_MAX = CLUSTER_OTHER + 8
};

struct cluster_opts {
    const char *const *namespaces; /* watched; none: all */
    size_t n_namespaces;
    struct log *log;
    int64_t retry_us;   /* first wait after a failed list or watch, eightfold at most; 0: the usual ones */
    /* Further kinds are looked up beside the loop, and not served until the answer is there.  False: the look-up is
     * waited for (a visit, not a daemon). */
    bool asks_aside;
};

struct cluster;
NODISCARD enum err_code cluster_new(struct kube *k, const struct cluster_opts *o, struct cluster **out,
                                    struct err *e);
void cluster_free(struct cluster *c);
struct text_pool *cluster_pool(struct cluster *c);

/* Looks for kinds that were not served, and for definitions that were deleted; once a turn of the loop. */
void cluster_tick(struct cluster *c, int64_t mono_us);
/* Everything that is served has been listed once.  Not yet: why (at most n bytes).  Further kinds that targets name do
 * not count: one that cannot be listed concerns its targets alone.  Neither do ScaledObjects and VerticalPodAutoscalers
 * that may not be read, or that come later: the next function tells of them. */
bool cluster_synced(const struct cluster *c, char *why, size_t n);
/* Who else sizes targets is known: ScaledObjects and VerticalPodAutoscalers are either not served (404: there are none) or
 * read.  False, with the reason, when they may not be read (403), are not listed yet or were not heard of for five minutes. */
bool cluster_owners_known(const struct cluster *c, char *why, size_t n);
bool cluster_kind_listed(const struct cluster *c, int kind, char *why, size_t n); /* of one kind */
/* Counts changes of anything but pods: the roster compares it. */
uint64_t cluster_changes(const struct cluster *c);
/* Slots of informers: NULL where the kind is not served. */
const struct informer *cluster_informer(const struct cluster *c, int kind, size_t namespace_i);
size_t cluster_namespaces(const struct cluster *c); /* informers per kind, >= 1 */
const char *cluster_kind_name(const struct cluster *c, int kind); /* plural; NULL: no such slot */
/* Over every namespace: for (struct cluster_at at = {0}; (o = cluster_next(c, kind, &at));) */
struct cluster_at {
    size_t ns, at;
};
const struct kube_obj *cluster_next(const struct cluster *c, int kind, struct cluster_at *at);
const struct kube_obj *cluster_find(const struct cluster *c, int kind, const char *ns, const char *name);
/* The slot of a workload's kind, begun if need be; -1, and *e, when it is not served, not known yet, refused, has no
 * size or there are too many. */
int cluster_workload_kind(struct cluster *c, const char *api_version, const char *kind, struct err *e);
/* Real time since the API server was last heard of pods, workloads and HorizontalPodAutoscalers: the least recent of
 * them.  Bookmarks count, so a quiet cluster is not old. */
int64_t cluster_age_us(const struct cluster *c);

/* ---- sizes ---- */
struct cluster_scale {
    bool known;
    int32_t replicas, status_replicas;
    char version[64], uid[64];
    char selector[1024];
    struct selector *match;   /* of selector; NULL when it cannot be read */
    struct err error;         /* why it is not known */
    int64_t read_us;          /* mono */
    /* private */
    bool reading, dirty;
    char seen_version[64];    /* of the workload object when read */
    struct cluster *owner;
    kube_id call;
};
/* Keeps *s up to date with the workload; call once per turn for each target.  Starts a read when its object is new or changed,
 * or the last one failed more than 10 s ago.  id.api_version, kind, namespace_ and name say which. */
void cluster_scale_follow(struct cluster *c, const struct target_id *id, struct cluster_scale *s, int64_t mono_us);
/* Adds the path of its /scale; false while its kind is not known or has no size. */
bool cluster_scale_path(struct cluster *c, const struct target_id *id, struct buf *out);
void cluster_scale_dirty(struct cluster_scale *s); /* read again soon: it was written */
void cluster_scale_fini(struct cluster *c, struct cluster_scale *s);

/* ---- pods ---- */
/* One target to count for. */
struct cluster_count {
    const struct target_id *id;
    const struct cluster_scale *scale;
    struct startup *startup;  /* measured start-ups; may be NULL */
    bool skip;                /* another target has this workload's pods */
    struct target_counts out;
};
/* n targets, in place.  index: scratch made by cluster_index for the same targets in the same order. */
struct cluster_index;
struct cluster_index *cluster_index_new(const struct cluster_count *t, size_t n);
void cluster_index_free(struct cluster_index *x);
void cluster_count(struct cluster *c, const struct cluster_index *x, struct cluster_count *t, size_t n,
                   int64_t now_us);
/* Which target a pod belongs to, -1: none.  For metrics by pod. */
int cluster_target_of(const struct cluster *c, const struct cluster_index *x, const struct cluster_count *t, size_t n,
                      const char *ns, const char *pod);

#endif
