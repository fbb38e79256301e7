/* kubelet.c - bound pods start after a while, deleted ones go.
 *
 * The delay of a pod depends on the seed and its name only.  A broken image, or the registry being
 * down, leaves it pending in ImagePullBackOff until that ends. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Annotation of the pod, or of the ReplicaSet or StatefulSet that owns it (a ReplicaSet has its
 * Deployment's). */
static void annotation(struct apiserver *a, const struct obj *pod, const cJSON *j, const char *key,
                       char *out, size_t n)
{
    char full[96];
    snprintf(full, sizeof full, TEST_ANNOTATION "%s", key);
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(api_js_at(j, "metadata.annotations"), full);
    snprintf(out, n, "%s", cJSON_IsString(v) ? v->valuestring : "");
    struct shelf *of[] = {a->control->replicasets, a->control->statefulsets};
    for (size_t i = 0; i < ARRAY_LEN(of) && !*out; i++) {
        const struct obj *owner = api_workload_owner(a, of[i], pod);
        const struct obj *above =
            owner && i == 0 ? api_workload_owner(a, a->control->deployments, owner) : NULL;
        cJSON *w = above ? api_obj_parse(above) : owner ? api_obj_parse(owner) : NULL;
        v = cJSON_GetObjectItemCaseSensitive(api_js_at(w, "metadata.annotations"), full);
        snprintf(out, n, "%s", cJSON_IsString(v) ? v->valuestring : "");
        cJSON_Delete(w);
    }
}

static int64_t draw_us(struct apiserver *a, const struct obj *pod, const cJSON *j)
{
    int64_t min = a->o.pod_start_min_us, max = a->o.pod_start_max_us;
    char text[64], *end;
    annotation(a, pod, j, "pod-start-ms", text, sizeof text);
    if (*text) {
        min = (int64_t)(strtod(text, &end) * 1e3);
        max = *end == '-' ? (int64_t)(strtod(end + 1, NULL) * 1e3) : min;
    }
    double u =
        rng_to_unit(rng_at(rng_key(a->o.seed, "start"), hash_of(pod->key, strlen(pod->key)), 0));
    return min + (int64_t)(u * (double)(max > min ? max - min : 0));
}

/* ---- states of the containers ---- */

static void set_containers(struct apiserver *a, cJSON *j, bool ready, const char *waiting,
                           const char *message)
{
    cJSON *list = cJSON_CreateArray();
    char at[32];
    js_each (x, api_js_at(j, "spec.containers")) {
        cJSON *s = cJSON_CreateObject(), *state = api_js_obj(s, "state");
        api_js_set_str(s, "name", api_js_str_or(x, "name", ""));
        api_js_set_str(s, "image", api_js_str_or(x, "image", ""));
        api_js_set_str(s, "imageID", waiting ? "" : "sha256:0");
        api_js_set(s, "ready", cJSON_CreateBool(ready));
        api_js_set(s, "started", cJSON_CreateBool(!waiting));
        api_js_set_num(s, "restartCount", 0);
        if (waiting) {
            api_js_set_str(api_js_obj(state, "waiting"), "reason", waiting);
            api_js_set_str(api_js_obj(state, "waiting"), "message", message);
        } else {
            api_js_set_str(api_js_obj(state, "running"), "startedAt", api_call_time(a, at));
        }
        cJSON_AddItemToArray(list, s);
    }
    api_js_set(api_js_obj(j, "status"), "containerStatuses", list);
}

static void begin(struct apiserver *a, cJSON *j)
{
    char at[32];
    api_js_default(api_js_obj(j, "status"), "startTime", cJSON_CreateString(api_call_time(a, at)));
    api_pod_set_condition(a, j, "Initialized", "True", NULL, NULL);
}

static void pull_fails(struct apiserver *a, struct obj *pod, cJSON *j)
{
    begin(a, j);
    api_pod_set_condition(a, j, "Ready", "False", "ContainersNotReady",
                          "containers with unready status: [c]");
    api_pod_set_condition(a, j, "ContainersReady", "False", "ContainersNotReady",
                          "containers with unready status: [c]");
    set_containers(a, j, false, "ImagePullBackOff", "Back-off pulling image");
    api_control_put(a, a->control->pods, pod, j);
}

static void starts(struct apiserver *a, struct obj *pod, cJSON *j)
{
    char text[64], ip[24];
    annotation(a, pod, j, "never-ready", text, sizeof text);
    bool ready = strcmp(text, "true") != 0;
    uint64_t h = hash_of(pod->uid, strlen(pod->uid));
    begin(a, j);
    api_js_set_str(api_js_obj(j, "status"), "phase", "Running");
    snprintf(ip, sizeof ip, "10.%u.%u.%u", (unsigned)(h >> 16 & 255), (unsigned)(h >> 8 & 255),
             (unsigned)(h & 255));
    api_js_set_str(api_js_obj(j, "status"), "podIP", ip);
    api_pod_set_condition(a, j, "Ready", ready ? "True" : "False",
                          ready ? NULL : "ContainersNotReady", NULL);
    api_pod_set_condition(a, j, "ContainersReady", ready ? "True" : "False",
                          ready ? NULL : "ContainersNotReady", NULL);
    set_containers(a, j, ready, NULL, NULL);
    annotation(a, pod, j, "run-ms", text, sizeof text);
    if (*text)
        api_control_timer(a, (int64_t)(strtod(text, NULL) * 1e3), TIMER_FINISH, pod);
    api_control_put(a, a->control->pods, pod, j);
}

static void finishes(struct apiserver *a, struct obj *pod, cJSON *j)
{
    api_js_set_str(api_js_obj(j, "status"), "phase", "Succeeded");
    api_pod_set_condition(a, j, "Ready", "False", "PodCompleted", NULL);
    api_pod_set_condition(a, j, "ContainersReady", "False", "PodCompleted", NULL);
    api_control_put(a, a->control->pods, pod, j);
    a->control->schedule = true;
}

/* ---- events and timers ---- */

static bool waits(const struct obj *pod)
{
    return *pod->node && strcmp(pod->phase, "Pending") == 0 && !pod->deleting;
}

void api_kubelet_event(struct apiserver *a, const struct event *e)
{
    struct obj *pod = e->now;
    bool was_bound = e->was && *e->was->node && e->type == EVENT_MODIFIED;
    if (e->type == EVENT_DELETED || (!*pod->node && !pod->deleting))
        a->control->schedule = true; /* room is free, or somebody wants some */
    if (e->type == EVENT_DELETED)
        return;
    if (waits(pod) && !was_bound) {
        cJSON *j = api_obj_parse(pod);
        api_control_timer(a, draw_us(a, pod, j), TIMER_START, pod);
        cJSON_Delete(j);
    }
    if (*pod->node && pod->deleting && !(e->was && e->was->deleting))
        api_control_timer(a, a->o.pod_stop_us, TIMER_STOP, pod);
}

void api_kubelet_timer(struct apiserver *a, const struct timer *t)
{
    struct shelf *pods = a->control->pods;
    size_t i = api_store_lower(pods, t->key);
    struct obj *pod = i < pods->n && strcmp(pods->v[i]->key, t->key) == 0 ? pods->v[i] : NULL;
    char broken[64];
    if (!pod || strcmp(pod->uid, t->uid) != 0)
        return;
    if (t->what == TIMER_STOP) {
        if (pod->deleting && !strstr(pod->json, "\"finalizers\":[\""))
            api_remove_obj(a, pods, pod);
        return;
    }
    if (pod->deleting)
        return;
    cJSON *j = api_obj_parse(pod);
    annotation(a, pod, j, "image", broken, sizeof broken);
    api_obj_ref(pod);
    if (t->what == TIMER_FINISH)
        finishes(a, pod, j);
    else if (!waits(pod))
        cJSON_Delete(j);
    else if (a->registry_down || strcmp(broken, "broken") == 0)
        pull_fails(a, pod, j);
    else
        starts(a, pod, j);
    api_obj_unref(pod);
}

/* The next attempt to pull comes soon after. */
void api_kubelet_registry_up(struct apiserver *a)
{
    struct shelf *pods = a->control->pods;
    for (size_t i = 0; i < pods->n; i++) {
        if (waits(pods->v[i]) && strstr(pods->v[i]->json, "ImagePullBackOff")) {
            cJSON *j = api_obj_parse(pods->v[i]);
            api_control_timer(a, draw_us(a, pods->v[i], j), TIMER_START, pods->v[i]);
            cJSON_Delete(j);
        }
    }
}
