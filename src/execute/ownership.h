/* ownership.h - who else sets the size of a target? A pure function over projected objects.
 *
 * Two controllers on one size fight. sluice yields: a target that somebody else owns is not acted
 * on, and the owner is named. Owners, strongest first: another CapacityTarget on the same reference
 * (the older one wins, ties by UID), a KEDA ScaledObject, a HorizontalPodAutoscaler (one that KEDA
 * made is named as KEDA's), a VerticalPodAutoscaler whose updateMode is not Off, the cluster
 * autoscaler by its annotations on a Cluster API object, and whoever put our writes back twice
 * (reversal.h; Argo CD and Flux are recognised by their labels).
 *
 * References match by group, kind, name and namespace, not by version; `extensions` is `apps`.
 * Kinds whose CRD is absent are simply not in the lists; when it appears, they are. */
#ifndef EXECUTE_OWNERSHIP_H
#define EXECUTE_OWNERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define OWNER_LIST(X)                                                                              \
    X(NONE, "")                                                                                    \
    X(CAPACITY_TARGET, "CapacityTarget")                                                           \
    X(KEDA, "ScaledObject")                                                                        \
    X(HPA, "HorizontalPodAutoscaler")                                                              \
    X(VPA, "VerticalPodAutoscaler")                                                                \
    X(CLUSTER_AUTOSCALER, "cluster autoscaler")                                                    \
    X(GITOPS, "GitOps")

enum owner_kind {
#define X(id, name) OWNER_##id,
    OWNER_LIST(X)
#undef X
        OWNERS
};
const char *owner_kind_name(enum owner_kind k);

struct owner_ref {
    char api_version[254], kind[64], name[254];
};
bool owner_ref_same(const struct owner_ref *a, const struct owner_ref *b);

/* An object that may own a target: a CapacityTarget, ScaledObject, HorizontalPodAutoscaler or
 * VerticalPodAutoscaler. */
struct owner_object {
    enum owner_kind kind;
    char namespace_[64], name[254], uid[64];
    int64_t created_us;
    struct owner_ref ref; /* scaleTargetRef or targetRef */
    char made_by[254];    /* HPA: the ScaledObject that made it; "" none */
    bool passive;         /* VPA with updateMode Off: recommends only */
};
/* From the whole object.  Errors: ERR_PARSE, ERR_MISSING with the path. */
NODISCARD enum err_code owner_object_read(enum owner_kind kind, const struct json_doc *doc,
                                          struct owner_object *out, struct err *e);

/* What a workload's own labels and annotations say. */
struct owner_marks {
    char autoscaled[96]; /* cluster autoscaler's bounds, "2..10"; "" none */
    char gitops[320];    /* "Argo CD application shop"; "" not recognised */
};
void owner_marks_read(const struct json *metadata, struct owner_marks *out); /* NULL: none */

struct owner_target {
    const char *namespace_;
    struct owner_ref ref;
    const struct owner_object *self; /* the CapacityTarget; NULL: named in the configuration only */
    struct owner_marks marks;
    int32_t reversals; /* safety_status.reversals */
};

struct ownership {
    enum owner_kind kind; /* OWNER_NONE: nobody else */
    char owner[352];      /* "HorizontalPodAutoscaler shop/api" */
    char advice[320];     /* what to do to let sluice size it */
};

enum { OWNER_REVERSALS = 2 };
void ownership_find(const struct owner_target *t, const struct owner_object *objects, size_t n,
                    struct ownership *out);

#endif
