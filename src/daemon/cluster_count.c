/* cluster_count.c - pods to units: one pass over the cache, each pod to the workload that owns it. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "daemon/cluster.h"

struct cluster_index {
    uint32_t mask;
    int32_t *at;     /* [mask + 1] target, -1: empty */
    uint64_t *key;   /* [mask + 1] */
    int32_t *by_selector; /* targets of other kinds */
    size_t n_by_selector;
};

static uint64_t key_of(const char *ns, const char *kind, const char *name, size_t n_name)
{
    struct hash h = hash_init(0);
    hash_str(&h, ns);
    hash_str(&h, kind);
    hash_bytes(&h, name, n_name);
    return hash_value(&h);
}

static bool by_owner(const char *kind)
{
    return strcmp(kind, "Deployment") == 0 || strcmp(kind, "StatefulSet") == 0;
}

struct cluster_index *cluster_index_new(const struct cluster_count *t, size_t n)
{
    struct cluster_index *x = mem_zero(1, sizeof *x);
    uint32_t size = 16;
    while (size < 2 * n)
        size *= 2;
    x->mask = size - 1;
    x->at = mem_zero(size, sizeof *x->at);
    x->key = mem_zero(size, sizeof *x->key);
    x->by_selector = mem_zero(n + 1, sizeof *x->by_selector);
    memset(x->at, 0xff, size * sizeof *x->at);
    for (size_t i = 0; i < n; i++) {
        const struct target_id *id = t[i].id;
        if (t[i].skip)
            continue;
        if (!by_owner(id->kind)) {
            x->by_selector[x->n_by_selector++] = (int32_t)i;
            continue;
        }
        uint64_t key = key_of(id->namespace_, id->kind, id->name, strlen(id->name));
        uint32_t at = (uint32_t)key & x->mask;
        while (x->at[at] >= 0 && x->key[at] != key)
            at = (at + 1) & x->mask;
        if (x->at[at] >= 0)
            continue; /* named twice: the first counts */
        x->at[at] = (int32_t)i;
        x->key[at] = key;
    }
    return x;
}

void cluster_index_free(struct cluster_index *x)
{
    if (!x)
        return;
    mem_free(x->at);
    mem_free(x->key);
    mem_free(x->by_selector);
    mem_free(x);
}

static int find(const struct cluster_index *x, uint64_t key)
{
    for (uint32_t at = (uint32_t)key & x->mask; x->at[at] >= 0; at = (at + 1) & x->mask)
        if (x->key[at] == key)
            return x->at[at];
    return -1;
}

/* A ReplicaSet of a Deployment is called NAME-HASH, and its pods carry the hash as a label. */
static int by_replica_set(const struct cluster_index *x, const struct kube_pod *p)
{
    const char *hash = kube_label_find(p->labels, p->n_labels, "pod-template-hash");
    size_t n = strlen(p->owner_name), k = hash ? strlen(hash) : 0;
    if (!hash || n <= k + 1 || p->owner_name[n - k - 1] != '-' || strcmp(p->owner_name + n - k, hash) != 0)
        return -1;
    return find(x, key_of(p->meta.ns, "Deployment", p->owner_name, n - k - 1));
}

static int by_labels(const struct cluster_index *x, const struct cluster_count *t, const struct kube_pod *p)
{
    for (size_t j = 0; j < x->n_by_selector; j++) {
        int i = x->by_selector[j];
        if (strcmp(t[i].id->namespace_, p->meta.ns) == 0 && t[i].scale->match &&
            selector_matches(t[i].scale->match, p->labels, p->n_labels))
            return i;
    }
    return -1;
}

static int target_of(const struct cluster_index *x, const struct cluster_count *t, const struct kube_pod *p)
{
    int i = -1;
    if (strcmp(p->owner_kind, "ReplicaSet") == 0)
        i = by_replica_set(x, p);
    else if (strcmp(p->owner_kind, "StatefulSet") == 0)
        i = find(x, key_of(p->meta.ns, "StatefulSet", p->owner_name, strlen(p->owner_name)));
    return i >= 0 || !x->n_by_selector ? i : by_labels(x, t, p);
}

int cluster_target_of(const struct cluster *c, const struct cluster_index *x, const struct cluster_count *t, size_t n,
                      const char *ns, const char *pod)
{
    const struct kube_obj *o = n ? cluster_find(c, CLUSTER_PODS, ns, pod) : NULL;
    return o ? target_of(x, t, kube_as_pod(o)) : -1;
}

/* A unit that has served before and does not now.  One that never was ready is still starting, however long it
 * takes: the guard's breaker looks at its age. */
static bool lost(const struct kube_pod *p)
{
    return p->phase == KUBE_UNKNOWN || (p->served && !p->ready);
}

/* Start-up ends with the first readiness; one that was lost and found again says nothing about it. */
static void measure_start(struct startup *s, const struct kube_pod *p)
{
    if (!p->served && p->phase != KUBE_UNKNOWN)
        (void)startup_pod(s, hash_of(p->meta.uid, strlen(p->meta.uid)), p->created_us,
                          p->ready ? p->ready_since_us : 0, p->restarts > 0);
}

static void count_pod(struct cluster_count *t, const struct kube_pod *p, int64_t now_us)
{
    if (p->terminating || p->phase == KUBE_SUCCEEDED || p->phase == KUBE_FAILED)
        return; /* the controller replaces it */
    if (t->startup)
        measure_start(t->startup, p);
    if (p->ready) {
        t->out.ready++;
    } else if (lost(p)) {
        t->out.failed++;
    } else {
        int64_t age_us = max_i64(0, now_us - p->created_us);
        int64_t bin = age_us / CAPACITY_WARM_BIN_US;
        t->out.warm[bin < CAPACITY_WARM_BINS ? bin : CAPACITY_WARM_BINS - 1]++;
        t->out.warm_oldest_us = max_i64(t->out.warm_oldest_us, age_us);
    }
}

static int sum_warm(const struct target_counts *n)
{
    int sum = 0;
    for (int i = 0; i < CAPACITY_WARM_BINS; i++)
        sum += n->warm[i];
    return sum;
}

/* The size asked for rules: pods above it are about to go, pods below it are about to come. */
static void settle(struct target_counts *n)
{
    n->ready = min_int(n->ready, n->requested);
    n->failed = min_int(n->failed, n->requested - n->ready);
    int room = n->requested - n->ready - n->failed, warm = sum_warm(n);
    for (int i = 0; i < CAPACITY_WARM_BINS && warm > room; i++) { /* the youngest go first */
        int drop = min_int(n->warm[i], warm - room);
        n->warm[i] -= drop;
        warm -= drop;
    }
    n->warm[0] += room - warm;
    if (sum_warm(n) == 0)
        n->warm_oldest_us = 0;
}

void cluster_count(struct cluster *c, const struct cluster_index *x, struct cluster_count *t, size_t n,
                   int64_t now_us)
{
    const struct kube_obj *o;
    for (size_t i = 0; i < n; i++)
        t[i].out = (struct target_counts){.known = t[i].scale->known, .requested = t[i].scale->replicas};
    for (struct cluster_at at = {0}; n && (o = cluster_next(c, CLUSTER_PODS, &at));) {
        int i = target_of(x, t, kube_as_pod(o));
        if (i >= 0)
            count_pod(&t[i], kube_as_pod(o), now_us);
    }
    for (size_t i = 0; i < n; i++)
        settle(&t[i].out);
}
