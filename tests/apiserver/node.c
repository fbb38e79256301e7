/* node.c - nodes, and the scheduler: pods of "default-scheduler" go to the feasible node with most
 * room.
 *
 * Feasible: requests, cordon, NoSchedule taints, nodeSelector, required node affinity.  Use is
 * counted anew for each pass, so bindings by others are seen. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESOURCES_MAX = 24 };

struct node_info {
    struct obj *o; /* counted reference */
    bool cordoned;
    cJSON *taints;                   /* NoSchedule and NoExecute ones */
    struct need room[RESOURCES_MAX]; /* names borrowed from `json` */
    int64_t total[RESOURCES_MAX];
    size_t n_room;
    cJSON *json;
};

static void info_free(struct node_info *n)
{
    api_obj_unref(n->o);
    cJSON_Delete(n->taints);
    cJSON_Delete(n->json);
}

void api_node_free(struct control *k)
{
    for (size_t i = 0; i < k->n_nodes; i++)
        info_free(&k->node[i]);
    mem_free(k->node);
    k->node = NULL;
    k->n_nodes = 0;
}

static void info_read(struct node_info *n, struct obj *o)
{
    *n = (struct node_info){
        .o = api_obj_ref(o), .json = api_obj_parse(o), .taints = cJSON_CreateArray()};
    n->cordoned = api_js_true(n->json, "spec.unschedulable");
    js_each (t, api_js_at(n->json, "spec.taints")) {
        if (strcmp(api_js_str_or(t, "effect", ""), "PreferNoSchedule") != 0)
            cJSON_AddItemToArray(n->taints, cJSON_Duplicate(t, true));
    }
    js_each (v, api_js_at(n->json, "status.allocatable")) {
        if (n->n_room < RESOURCES_MAX) {
            n->total[n->n_room] = api_js_quantity(v);
            n->room[n->n_room++] = (struct need){v->string, 0};
        }
    }
}

/* Nodes as they are now; those unchanged are kept. */
static void refresh(struct control *k)
{
    struct node_info *fresh = mem_zero(k->nodes->n + 1, sizeof *fresh);
    size_t old = 0;
    for (size_t i = 0; i < k->nodes->n; i++) {
        struct obj *o = k->nodes->v[i];
        while (old < k->n_nodes && strcmp(k->node[old].o->key, o->key) < 0)
            info_free(&k->node[old++]);
        if (old < k->n_nodes && k->node[old].o == o) {
            fresh[i] = k->node[old++];
            continue;
        }
        if (old < k->n_nodes && strcmp(k->node[old].o->key, o->key) == 0)
            info_free(&k->node[old++]);
        info_read(&fresh[i], o);
    }
    while (old < k->n_nodes)
        info_free(&k->node[old++]);
    mem_free(k->node);
    k->node = fresh;
    k->n_nodes = k->nodes->n;
}

static struct node_info *info_of(struct control *k, const char *name)
{
    size_t lo = 0, hi = k->n_nodes;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (strcmp(k->node[mid].o->key, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < k->n_nodes && strcmp(k->node[lo].o->key, name) == 0 ? &k->node[lo] : NULL;
}

static void occupy(struct node_info *n, const struct obj *pod)
{
    for (size_t i = 0; i < n->n_room; i++) {
        if (strcmp(n->room[i].resource, "pods") == 0)
            n->room[i].milli -= 1000;
        for (size_t k = 0; k < pod->n_needs; k++) {
            if (strcmp(n->room[i].resource, pod->need[k].resource) == 0)
                n->room[i].milli -= pod->need[k].milli;
        }
    }
}

static bool ended(const struct obj *pod)
{
    return strcmp(pod->phase, "Succeeded") == 0 || strcmp(pod->phase, "Failed") == 0;
}

static void count_use(struct control *k)
{
    for (size_t i = 0; i < k->n_nodes; i++) {
        for (size_t r = 0; r < k->node[i].n_room; r++)
            k->node[i].room[r].milli = k->node[i].total[r];
    }
    for (size_t i = 0; i < k->pods->n; i++) {
        const struct obj *pod = k->pods->v[i];
        struct node_info *n = *pod->node && !ended(pod) ? info_of(k, pod->node) : NULL;
        if (n)
            occupy(n, pod);
    }
}

/* ---- feasible? ---- */

static bool tolerates(const cJSON *pod, const cJSON *taint)
{
    js_each (t, api_js_at(pod, "spec.tolerations")) {
        const char *key = api_js_str_or(t, "key", ""), *op = api_js_str_or(t, "operator", "Equal"),
                   *effect = api_js_str_or(t, "effect", "");
        bool key_ok = !*key || strcmp(key, api_js_str_or(taint, "key", "")) == 0;
        bool value_ok = strcmp(op, "Exists") == 0 || strcmp(api_js_str_or(t, "value", ""),
                                                            api_js_str_or(taint, "value", "")) == 0;
        if (key_ok && value_ok &&
            (!*effect || strcmp(effect, api_js_str_or(taint, "effect", "")) == 0))
            return true;
    }
    return false;
}

static bool expression_holds(const cJSON *x, const struct obj *node)
{
    const char *op = api_js_str_or(x, "operator", ""),
               *v = api_obj_label(node, api_js_str_or(x, "key", ""));
    bool in = false;
    js_each (one, api_js_at(x, "values"))
        in |= v && cJSON_IsString(one) && strcmp(v, one->valuestring) == 0;
    if (strcmp(op, "In") == 0)
        return in;
    if (strcmp(op, "NotIn") == 0)
        return !in;
    return strcmp(op, "Exists") == 0 ? v != NULL : v == NULL;
}

static bool affinity_holds(const cJSON *pod, const struct obj *node)
{
    const cJSON *terms =
        api_js_at(pod, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                       "nodeSelectorTerms");
    bool any = !terms;
    js_each (t, terms) {
        bool all = true;
        js_each (x, api_js_at(t, "matchExpressions"))
            all &= expression_holds(x, node);
        any |= all;
    }
    return any;
}

static bool selector_holds(const cJSON *pod, const struct obj *node)
{
    js_each (x, api_js_at(pod, "spec.nodeSelector")) {
        const char *v = api_obj_label(node, x->string);
        if (!v || !cJSON_IsString(x) || strcmp(v, x->valuestring) != 0)
            return false;
    }
    return true;
}

/* The first resource that does not fit, or NULL. */
static const char *lacks(const struct node_info *n, const struct obj *pod)
{
    for (size_t k = 0; k < pod->n_needs; k++) {
        int64_t room = 0;
        for (size_t i = 0; i < n->n_room; i++) {
            if (strcmp(n->room[i].resource, pod->need[k].resource) == 0)
                room = n->room[i].milli;
        }
        if (pod->need[k].milli > room)
            return pod->need[k].resource;
    }
    for (size_t i = 0; i < n->n_room; i++) {
        if (strcmp(n->room[i].resource, "pods") == 0 && n->room[i].milli < 1000)
            return "pods";
    }
    return NULL;
}

/* Why not on n, in the words of a scheduler; NULL when it may. */
static const char *refuses(const struct node_info *n, const struct obj *pod, const cJSON *j,
                           char *text, size_t size)
{
    if (n->cordoned)
        return "node(s) were unschedulable";
    js_each (t, n->taints) {
        if (!tolerates(j, t)) {
            snprintf(text, size, "node(s) had untolerated taint {%s: %s}",
                     api_js_str_or(t, "key", ""), api_js_str_or(t, "value", ""));
            return text;
        }
    }
    if (!selector_holds(j, n->o) || !affinity_holds(j, n->o))
        return "node(s) didn't match Pod's node affinity/selector";
    const char *what = lacks(n, pod);
    if (what) {
        snprintf(text, size, strcmp(what, "pods") == 0 ? "Too many %s" : "Insufficient %s", what);
        return text;
    }
    return NULL;
}

/* Share of the scarcest asked-for resource left after placing: more is better. */
static double room_left(const struct node_info *n, const struct obj *pod)
{
    double least = 1;
    for (size_t k = 0; k < pod->n_needs; k++) {
        for (size_t i = 0; i < n->n_room; i++) {
            if (strcmp(n->room[i].resource, pod->need[k].resource) != 0 || n->total[i] <= 0)
                continue;
            double left = (double)(n->room[i].milli - pod->need[k].milli) / (double)n->total[i];
            least = left < least ? left : least;
        }
    }
    return least;
}

/* ---- a pass ---- */

struct reasons {
    char text[8][160];
    size_t count[8], n;
};

static void add_reason(struct reasons *r, const char *why)
{
    size_t i = 0;
    while (i < r->n && strcmp(r->text[i], why) != 0)
        i++;
    if (i == ARRAY_LEN(r->text))
        return;
    if (i == r->n) {
        snprintf(r->text[i], sizeof r->text[i], "%s", why);
        r->n++;
    }
    r->count[i]++;
}

static void say_unschedulable(struct apiserver *a, const struct obj *pod, cJSON *j,
                              const struct reasons *r)
{
    struct control *k = a->control;
    struct buf b = buf_init(4096);
    if (k->n_nodes == 0)
        buf_str(&b, "no nodes available to schedule pods");
    else
        buf_fmt(&b, "0/%zu nodes are available:", k->n_nodes);
    for (size_t i = 0; i < r->n; i++)
        buf_fmt(&b, "%s %zu %s", i ? "," : "", r->count[i], r->text[i]);
    if (r->n)
        buf_str(&b, ".");
    api_pod_set_condition(a, j, "PodScheduled", "False", "Unschedulable", b.p);
    api_control_put(a, k->pods, pod, j);
    buf_fini(&b);
}

static void place(struct apiserver *a, struct obj *pod)
{
    struct control *k = a->control;
    cJSON *j = api_obj_parse(pod);
    if (cJSON_GetArraySize(api_js_at(j, "spec.schedulingGates")) > 0) {
        cJSON_Delete(j);
        return;
    }
    struct node_info *best = NULL;
    struct reasons why = {0};
    for (size_t i = 0; i < k->n_nodes; i++) {
        char text[160];
        const char *no = refuses(&k->node[i], pod, j, text, sizeof text);
        if (no)
            add_reason(&why, no);
        else if (!best || room_left(&k->node[i], pod) > room_left(best, pod))
            best = &k->node[i];
    }
    if (!best) {
        say_unschedulable(a, pod, j, &why);
        return;
    }
    occupy(best, pod);
    api_pod_bind(a, j, best->o->name, true);
    api_store_put(a, k->pods, j);
    cJSON_Delete(j);
}

void api_node_schedule(struct apiserver *a)
{
    struct control *k = a->control;
    if (a->o.keep_unbound)
        return;
    struct obj **waiting = NULL;
    size_t n = 0;
    for (size_t i = 0; i < k->pods->n; i++) {
        struct obj *pod = k->pods->v[i];
        if (*pod->node || pod->deleting || ended(pod) ||
            strcmp(pod->scheduler, "default-scheduler") != 0)
            continue;
        waiting = mem_grow(waiting, n + 1, sizeof(struct obj *));
        waiting[n++] = api_obj_ref(pod);
    }
    if (n > 0) {
        refresh(k);
        count_use(k);
    }
    for (size_t i = 0; i < n; i++) {
        place(a, waiting[i]);
        api_obj_unref(waiting[i]);
    }
    mem_free(waiting);
    /* The writes above asked for another pass, but nothing that matters to it has changed. */
    k->schedule = false;
}

/* A Ready node loses the taint it was created with. */
void api_node_event(struct apiserver *a, struct obj *o)
{
    if (!o->ready || !strstr(o->json, "node.kubernetes.io/not-ready"))
        return;
    cJSON *j = api_obj_parse(o), *taints = api_js_at_mut(j, "spec.taints");
    for (cJSON *t = taints ? taints->child : NULL; t;) {
        cJSON *next = t->next;
        if (strcmp(api_js_str_or(t, "key", ""), "node.kubernetes.io/not-ready") == 0)
            cJSON_Delete(cJSON_DetachItemViaPointer(taints, t));
        t = next;
    }
    if (taints && !taints->child)
        api_js_drop(api_js_obj(j, "spec"), "taints");
    api_store_put(a, a->control->nodes, j);
    cJSON_Delete(j);
}
