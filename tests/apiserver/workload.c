/* workload.c - Deployments make ReplicaSets, ReplicaSets and StatefulSets make pods.
 *
 * What a workload owns is found by name: owned names start with the owner's, and the table is
 * sorted.  Deleting takes pods without a node first, then those not ready, then the newest; of a
 * StatefulSet the highest ordinal. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/num.h"

struct owned {
    struct obj **v;
    size_t n;
};

/* Objects of `s` whose controller is `owner`, by name order; mem_free(v). */
static struct owned find_owned(const struct shelf *s, const struct obj *owner)
{
    char prefix[400];
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "%s-", owner->key);
    struct owned w = {0};
    for (size_t i = api_store_lower(s, prefix); i < s->n && strncmp(s->v[i]->key, prefix, n) == 0;
         i++) {
        if (strcmp(s->v[i]->owner, owner->uid) != 0)
            continue;
        w.v = mem_grow(w.v, w.n + 1, sizeof(struct obj *));
        w.v[w.n++] = s->v[i];
    }
    return w;
}

/* The owner of o in s, found by the same rule: its name with parts cut off the end. */
struct obj *api_workload_owner(struct apiserver *a, const struct shelf *s, const struct obj *o)
{
    char name[256];
    (void)a;
    if (!*o->owner)
        return NULL;
    snprintf(name, sizeof name, "%s", o->name);
    for (char *dash = strrchr(name, '-'); dash; dash = strrchr(name, '-')) {
        *dash = '\0';
        struct obj *owner = api_store_get(s, o->ns, name);
        if (owner && strcmp(owner->uid, o->owner) == 0)
            return owner;
    }
    return NULL;
}

static void own(cJSON *j, const struct shelf *s, const struct obj *owner)
{
    cJSON *r = cJSON_CreateObject();
    char version[64];
    snprintf(version, sizeof version, "%.30s/%.30s", s->kind->group, s->kind->version);
    api_js_set_str(r, "apiVersion", version);
    api_js_set_str(r, "kind", s->kind->name);
    api_js_set_str(r, "name", owner->name);
    api_js_set_str(r, "uid", owner->uid);
    api_js_set(r, "controller", cJSON_CreateTrue());
    api_js_set(r, "blockOwnerDeletion", cJSON_CreateTrue());
    cJSON *list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, r);
    api_js_set(api_js_obj(j, "metadata"), "ownerReferences", list);
}

static void stamp(struct apiserver *a, cJSON *j, const char *ns, const char *name)
{
    cJSON *m = api_js_obj(j, "metadata");
    char uid[37], at[32];
    api_store_uid(a, uid);
    api_js_set_str(m, "name", name);
    api_js_set_str(m, "namespace", ns);
    api_js_set_str(m, "uid", uid);
    api_js_set_num(m, "generation", 1);
    api_js_set_str(m, "creationTimestamp", api_call_time(a, at));
}

static void set_or_drop(cJSON *status, const char *key, size_t n)
{
    if (n)
        api_js_set_num(status, key, (double)n);
    else
        api_js_drop(status, key);
}

/* ---- pods ---- */

static void make_pod(struct apiserver *a, const struct shelf *s, const struct obj *owner,
                     const cJSON *template, const char *name, const char *gen)
{
    cJSON *pod = cJSON_CreateObject();
    cJSON *m = cJSON_Duplicate(api_js_at(template, "metadata"), true);
    api_js_set(pod, "metadata", m ? m : cJSON_CreateObject());
    api_js_set(pod, "spec", cJSON_Duplicate(api_js_at(template, "spec"), true));
    if (gen)
        api_js_set_str(api_js_obj(pod, "metadata"), "generateName", gen);
    stamp(a, pod, owner->ns, name);
    own(pod, s, owner);
    api_js_default(api_js_obj(pod, "spec"), "priority", cJSON_CreateNumber(0));
    api_pod_defaults(a, pod);
    api_store_put(a, a->control->pods, pod);
    cJSON_Delete(pod);
}

/* Sooner to go comes first. */
static int by_worth(const void *x, const void *y)
{
    const struct obj *p = *(struct obj *const *)x, *q = *(struct obj *const *)y;
    if ((*p->node != 0) != (*q->node != 0))
        return (*p->node != 0) - (*q->node != 0);
    if (p->ready != q->ready)
        return p->ready - q->ready;
    cJSON *i = api_obj_parse(p), *j = api_obj_parse(q);
    int d = strcmp(api_js_str_or(j, "metadata.creationTimestamp", ""),
                   api_js_str_or(i, "metadata.creationTimestamp", ""));
    cJSON_Delete(i);
    cJSON_Delete(j);
    return d ? d : strcmp(q->key, p->key);
}

struct tally {
    size_t active, ready, deleting;
};

static struct tally count(const struct owned *w)
{
    struct tally t = {0};
    for (size_t i = 0; i < w->n; i++) {
        t.deleting += w->v[i]->deleting;
        t.active += !w->v[i]->deleting;
        t.ready += !w->v[i]->deleting && w->v[i]->ready;
    }
    return t;
}

static void drop_deleting(struct owned *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (!w->v[i]->deleting)
            w->v[n++] = w->v[i];
    }
    w->n = n;
}

/* ---- ReplicaSet ---- */

static void scale_pods(struct apiserver *a, struct shelf *s, struct obj *rs, const cJSON *j,
                       size_t want)
{
    struct owned w = find_owned(a->control->pods, rs);
    drop_deleting(&w);
    if (w.n > want) {
        qsort(w.v, w.n, sizeof(struct obj *), by_worth);
        for (size_t i = 0; i < w.n - want; i++)
            api_control_delete_pod(a, w.v[i]);
    }
    for (size_t i = w.n; i < want; i++) {
        char name[300], gen[280], suffix[6];
        api_store_suffix(a, suffix);
        snprintf(gen, sizeof gen, "%s-", rs->name);
        snprintf(name, sizeof name, "%s%s", gen, suffix);
        if (!api_store_get(a->control->pods, rs->ns, name))
            make_pod(a, s, rs, api_js_at(j, "spec.template"), name, gen);
    }
    mem_free(w.v);
}

static void reconcile_replicaset(struct apiserver *a, struct shelf *s, struct obj *rs)
{
    cJSON *j = api_obj_parse(rs);
    scale_pods(a, s, rs, j, (size_t)api_js_num(j, "spec.replicas", 1));
    struct owned w = find_owned(a->control->pods, rs);
    struct tally t = count(&w);
    mem_free(w.v);
    cJSON *status = api_js_obj(j, "status");
    api_js_set_num(status, "replicas", (double)t.active);
    set_or_drop(status, "fullyLabeledReplicas", t.active);
    set_or_drop(status, "readyReplicas", t.ready);
    set_or_drop(status, "availableReplicas", t.ready);
    api_js_set_num(status, "terminatingReplicas", 0);
    api_js_set_num(status, "observedGeneration", api_js_num(j, "metadata.generation", 1));
    api_control_put(a, s, rs, j);
}

/* ---- Deployment ---- */

static void template_hash(const cJSON *template, char out[11])
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    char *text = api_js_text(template);
    uint64_t h = hash_of(text, strlen(text));
    mem_free(text);
    for (int i = 0; i < 10; i++, h /= 27)
        out[i] = alphabet[h % 27];
    out[10] = '\0';
}

static void make_replicaset(struct apiserver *a, struct shelf *s, const struct obj *d,
                            const cJSON *dj, const char *hash, double replicas)
{
    char name[300];
    snprintf(name, sizeof name, "%s-%s", d->name, hash);
    cJSON *j = cJSON_CreateObject(), *spec = api_js_obj(j, "spec");
    cJSON *template = cJSON_Duplicate(api_js_at(dj, "spec.template"), true);
    api_js_set_num(spec, "replicas", replicas);
    api_js_set(spec, "selector", cJSON_Duplicate(api_js_at(dj, "spec.selector"), true));
    api_js_set(spec, "template", template);
    api_js_set_str(api_js_obj(api_js_obj(spec, "selector"), "matchLabels"), "pod-template-hash",
                   hash);
    api_js_set_str(api_js_obj(api_js_obj(template, "metadata"), "labels"), "pod-template-hash",
                   hash);
    api_js_set(api_js_obj(j, "metadata"), "labels",
               cJSON_Duplicate(api_js_at(template, "metadata.labels"), true));
    /* The annotations that steer pods, and the bookkeeping of a real controller. */
    api_js_set(api_js_obj(j, "metadata"), "annotations", cJSON_CreateObject());
    js_each (x, api_js_at(dj, "metadata.annotations"))
        api_js_set(api_js_obj(api_js_obj(j, "metadata"), "annotations"), x->string,
                   cJSON_Duplicate(x, true));
    api_js_set_str(api_js_obj(api_js_obj(j, "metadata"), "annotations"),
                   "deployment.kubernetes.io/revision", "1");
    stamp(a, j, d->ns, name);
    own(j, s, d);
    api_js_set_num(api_js_obj(j, "status"), "replicas", 0);
    api_store_put(a, a->control->replicasets, j);
    cJSON_Delete(j);
}

static void set_replicas(struct apiserver *a, struct obj *rs, double n)
{
    cJSON *j = api_obj_parse(rs);
    if (api_js_num(j, "spec.replicas", -1) != n) {
        api_js_set_num(api_js_obj(j, "spec"), "replicas", n);
        api_js_set_num(api_js_obj(j, "metadata"), "generation",
                       api_js_num(j, "metadata.generation", 0) + 1);
        api_store_put(a, a->control->replicasets, j);
    }
    cJSON_Delete(j);
}

static void condition(struct apiserver *a, cJSON *status, const char *type, bool ok,
                      const char *reason, const char *message)
{
    cJSON *list = api_js_list(status, "conditions"), *one = NULL;
    char now[32];
    js_each (x, list) {
        if (strcmp(api_js_str_or(x, "type", ""), type) == 0)
            one = x;
    }
    if (one && strcmp(api_js_str_or(one, "reason", ""), reason) == 0)
        return;
    api_call_time(a, now);
    if (!one) {
        one = cJSON_CreateObject();
        api_js_set_str(one, "type", type);
        cJSON_AddItemToArray(list, one);
    }
    if (strcmp(api_js_str_or(one, "status", ""), ok ? "True" : "False") != 0)
        api_js_set_str(one, "lastTransitionTime", now);
    api_js_set_str(one, "status", ok ? "True" : "False");
    api_js_set_str(one, "lastUpdateTime", now);
    api_js_set_str(one, "reason", reason);
    api_js_set_str(one, "message", message);
}

static void deployment_status(struct apiserver *a, cJSON *j, double total, double updated,
                              double ready)
{
    cJSON *status = api_js_obj(j, "status");
    double want = api_js_num(j, "spec.replicas", 1);
    api_js_set_num(status, "observedGeneration", api_js_num(j, "metadata.generation", 1));
    set_or_drop(status, "replicas", (size_t)total);
    set_or_drop(status, "updatedReplicas", (size_t)updated);
    set_or_drop(status, "readyReplicas", (size_t)ready);
    set_or_drop(status, "availableReplicas", (size_t)ready);
    double missing = (want > total ? want : total) - ready;
    set_or_drop(status, "unavailableReplicas", missing > 0 ? (size_t)missing : 0);
    api_js_set_num(status, "terminatingReplicas", 0);
    bool available = ready >= want - (double)(int64_t)(want * 0.25);
    condition(a, status, "Available", available,
              available ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable",
              available ? "Deployment has minimum availability."
                        : "Deployment does not have minimum availability.");
    bool done = ready >= want && updated >= want;
    condition(a, status, "Progressing", true, done ? "NewReplicaSetAvailable" : "ReplicaSetUpdated",
              done ? "ReplicaSet has successfully progressed." : "ReplicaSet is progressing.");
}

/* The pods of rs are what the deployment describes, apart from the hash. */
static bool same_template(const struct obj *rs, const cJSON *deployment)
{
    cJSON *j = api_obj_parse(rs), *template = api_js_at_mut(j, "spec.template");
    api_js_drop(api_js_at_mut(template, "metadata.labels"), "pod-template-hash");
    bool same = api_js_same(template, api_js_at(deployment, "spec.template"));
    cJSON_Delete(j);
    return same;
}

static void reconcile_deployment(struct apiserver *a, struct shelf *s, struct obj *d)
{
    cJSON *j = api_obj_parse(d);
    char hash[11];
    double want = api_js_num(j, "spec.replicas", 1), total = 0, updated = 0, ready = 0,
           new_ready = 0;
    template_hash(api_js_at(j, "spec.template"), hash);
    struct owned w = find_owned(a->control->replicasets, d);
    struct obj *current = NULL;
    for (size_t i = 0; i < w.n && !current; i++)
        current = same_template(w.v[i], j) ? w.v[i] : NULL;
    for (size_t i = 0; i < w.n; i++) {
        cJSON *r = api_obj_parse(w.v[i]);
        total += api_js_num(r, "status.replicas", 0);
        ready += api_js_num(r, "status.readyReplicas", 0);
        updated += w.v[i] == current ? api_js_num(r, "status.replicas", 0) : 0;
        new_ready += w.v[i] == current ? api_js_num(r, "status.readyReplicas", 0) : 0;
        cJSON_Delete(r);
    }
    api_js_set_str(api_js_obj(api_js_obj(j, "metadata"), "annotations"),
                   "deployment.kubernetes.io/revision", "1");
    deployment_status(a, j, total, updated, ready);
    api_control_put(a, s, d, j);
    cJSON *dj = api_obj_parse(api_store_get(s, d->ns, d->name));
    if (!current)
        make_replicaset(a, s, d, dj, hash, want);
    else
        set_replicas(a, current, want);
    bool rolled = current && updated >= want && new_ready >= want;
    for (size_t i = 0; i < w.n; i++) {
        if (w.v[i] != current && rolled)
            set_replicas(a, w.v[i], 0);
    }
    cJSON_Delete(dj);
    mem_free(w.v);
}

/* ---- StatefulSet ---- */

static size_t ordinal(const struct obj *pod)
{
    const char *dash = strrchr(pod->name, '-');
    uint64_t n = 0;
    return dash && num_u64(dash + 1, strlen(dash + 1), &n) ? (size_t)n : SIZE_MAX;
}

static struct obj *pod_at(const struct owned *w, size_t n)
{
    for (size_t i = 0; i < w->n; i++) {
        if (ordinal(w->v[i]) == n)
            return w->v[i];
    }
    return NULL;
}

static void scale_ordered(struct apiserver *a, struct shelf *s, struct obj *ss, const cJSON *j,
                          size_t want)
{
    bool parallel = strcmp(api_js_str_or(j, "spec.podManagementPolicy", ""), "Parallel") == 0;
    struct owned w = find_owned(a->control->pods, ss);
    for (size_t i = 0; i < want; i++) {
        char name[300];
        struct obj *pod = pod_at(&w, i);
        snprintf(name, sizeof name, "%s-%zu", ss->name, i);
        if (!pod)
            make_pod(a, s, ss, api_js_at(j, "spec.template"), name, NULL);
        if (!parallel && (!pod || !pod->ready || pod->deleting))
            break;
    }
    for (size_t left = w.n; left > 0; left--) {
        struct obj *last = NULL;
        for (size_t i = 0; i < w.n; i++) {
            if (w.v[i] && ordinal(w.v[i]) >= want && (!last || ordinal(w.v[i]) > ordinal(last)))
                last = w.v[i];
        }
        if (!last)
            break;
        bool deleting = last->deleting;
        for (size_t i = 0; i < w.n; i++) {
            if (w.v[i] == last)
                w.v[i] = NULL;
        }
        if (!deleting)
            api_control_delete_pod(a, last);
        if (!parallel)
            break; /* the next one when this one is gone */
    }
    mem_free(w.v);
}

static void reconcile_statefulset(struct apiserver *a, struct shelf *s, struct obj *ss)
{
    cJSON *j = api_obj_parse(ss);
    scale_ordered(a, s, ss, j, (size_t)api_js_num(j, "spec.replicas", 1));
    struct owned w = find_owned(a->control->pods, ss);
    struct tally t = count(&w);
    mem_free(w.v);
    cJSON *status = api_js_obj(j, "status");
    api_js_set_num(status, "replicas", (double)(t.active + t.deleting));
    set_or_drop(status, "readyReplicas", t.ready);
    set_or_drop(status, "currentReplicas", t.active);
    set_or_drop(status, "updatedReplicas", t.active);
    api_js_set_num(status, "availableReplicas", (double)t.ready);
    api_js_set_num(status, "observedGeneration", api_js_num(j, "metadata.generation", 1));
    api_control_put(a, s, ss, j);
}

/* ---- dispatch ---- */

void api_workload_reconcile(struct apiserver *a, struct shelf *s, const char *key)
{
    size_t i = api_store_lower(s, key);
    if (i == s->n || strcmp(s->v[i]->key, key) != 0)
        return;
    struct obj *o = api_obj_ref(s->v[i]); /* writes replace it meanwhile */
    if (o->deleting)
        ;
    else if (s == a->control->budgets)
        api_pod_budget_status(a, s, o);
    else if (s == a->control->deployments)
        reconcile_deployment(a, s, o);
    else if (s == a->control->replicasets)
        reconcile_replicaset(a, s, o);
    else
        reconcile_statefulset(a, s, o);
    api_obj_unref(o);
}

void api_workload_collect(struct apiserver *a, const char *owner_uid)
{
    struct shelf *of[] = {a->control->replicasets, a->control->pods};
    for (size_t k = 0; k < ARRAY_LEN(of); k++) {
        for (size_t i = of[k]->n; i > 0; i--) {
            struct obj *o = of[k]->v[i - 1];
            if (strcmp(o->owner, owner_uid) != 0 || o->deleting)
                continue;
            if (k == 0)
                api_remove_obj(a, of[k], o);
            else
                api_control_delete_pod(a, o);
        }
    }
}
