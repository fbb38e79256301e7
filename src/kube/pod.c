/* pod.c - pods: what they ask for, where they are, how they are.
 *
 * Requests are counted as the scheduler does (k8s.io/component-helpers/resource PodRequests):
 * containers plus sidecars (init containers that restart always) run together; each plain init
 * container runs beside the sidecars started before it; the pod needs the larger of the two, plus
 * overhead.  Pod-level requests (spec.resources) replace cpu and memory of that. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/objects_priv.h"

/* Stamps are whole seconds, and startTime and the first Ready False are taken one after the other. */
#define STAMP_SLACK_US (5 * US_PER_S)
#define HELD_US US_PER_MIN /* readiness that a crash ended sooner was no service */

const char *kube_phase_name(enum kube_phase p)
{
    static const char *const names[] = {"Pending", "Running", "Succeeded", "Failed", "Unknown"};
    return names[p];
}

static enum kube_phase read_phase(struct reader *r, const struct json *status)
{
    const char *s = read_text(r, status, "phase");
    for (int p = KUBE_PENDING; p < KUBE_UNKNOWN; p++) {
        if (strcmp(s, kube_phase_name((enum kube_phase)p)) == 0)
            return (enum kube_phase)p;
    }
    return *s ? KUBE_UNKNOWN : KUBE_PENDING;
}

/* ---- requests ---------------------------------------------------------------------------- */

struct requests {
    int64_t cpu_milli, mem_bytes;
    struct devices devices;
};

static void add_checked(struct reader *r, const char *key, int64_t *sum, int64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        read_fail(r, ERR_RANGE, key, "sum is too large");
}

/* The map of one container, added to q.  A negative request does not exist. */
static void add_map(struct reader *r, const struct json *map, struct requests *q)
{
    for (const struct json *v = map ? json_first(map) : NULL; v; v = json_next(v)) {
        const char *key = json_key(v);
        bool cpu = strcmp(key, "cpu") == 0, mem = strcmp(key, "memory") == 0;
        if (!cpu && !mem && !kube_is_gpu(key))
            continue;
        int64_t n = read_quantity(r, v, key, cpu ? 1000 : 1);
        if (n < 0)
            read_fail(r, ERR_RANGE, key, "a request below zero");
        else if (cpu)
            add_checked(r, key, &q->cpu_milli, n);
        else if (mem)
            add_checked(r, key, &q->mem_bytes, n);
        else
            device_add(r, &q->devices, key, n);
    }
}

static void add_all(struct reader *r, struct requests *to, const struct requests *q)
{
    add_checked(r, "cpu", &to->cpu_milli, q->cpu_milli);
    add_checked(r, "memory", &to->mem_bytes, q->mem_bytes);
    for (size_t i = 0; i < q->devices.n; i++)
        device_add(r, &to->devices, q->devices.of[i].resource, q->devices.of[i].n);
}

static void max_all(struct reader *r, struct requests *to, const struct requests *q)
{
    to->cpu_milli = q->cpu_milli > to->cpu_milli ? q->cpu_milli : to->cpu_milli;
    to->mem_bytes = q->mem_bytes > to->mem_bytes ? q->mem_bytes : to->mem_bytes;
    for (size_t i = 0; i < q->devices.n; i++)
        device_max(r, &to->devices, q->devices.of[i].resource, q->devices.of[i].n);
}

static const struct json *requests_of(struct reader *r, const struct json *container)
{
    return read_object(r, read_object(r, container, "resources"), "requests");
}

static const struct json *elements(const struct json *list)
{
    return list ? json_first(list) : NULL;
}

static void read_requests(struct reader *r, const struct json *spec, struct requests *sum)
{
    struct requests init = {0}, sidecars = {0};
    for (const struct json *c = elements(read_list(r, spec, "containers")); c; c = json_next(c))
        add_map(r, requests_of(r, c), sum);
    for (const struct json *c = elements(read_list(r, spec, "initContainers")); c;
         c = json_next(c)) {
        struct requests beside = sidecars;
        if (strcmp(read_text(r, c, "restartPolicy"), "Always") == 0) {
            add_map(r, requests_of(r, c), &sidecars);
            beside = sidecars;
        } else {
            add_map(r, requests_of(r, c), &beside);
        }
        max_all(r, &init, &beside);
    }
    add_all(r, sum, &sidecars);
    max_all(r, sum, &init);
    const struct json *whole = requests_of(r, spec);
    struct requests stated = {0};
    add_map(r, whole, &stated);
    if (whole && json_find(whole, "cpu"))
        sum->cpu_milli = stated.cpu_milli;
    if (whole && json_find(whole, "memory"))
        sum->mem_bytes = stated.mem_bytes;
    add_map(r, read_object(r, spec, "overhead"), sum);
}

/* ---- status ------------------------------------------------------------------------------ */

struct condition {
    bool found, is_true;
    const char *reason;
    int64_t since_us;
};

static struct condition find_condition(struct reader *r, const struct json *status,
                                       const char *type)
{
    struct condition out = {.reason = "", .since_us = -1};
    for (const struct json *c = elements(read_list(r, status, "conditions")); c; c = json_next(c)) {
        if (strcmp(read_text(r, c, "type"), type) != 0)
            continue;
        out.found = true;
        out.is_true = strcmp(read_text(r, c, "status"), "True") == 0;
        out.reason = read_text(r, c, "reason");
        out.since_us = read_time_us(r, c, "lastTransitionTime");
        break;
    }
    return out;
}

/* Restarts over all containers, and the first reason one waits for; ContainerCreating and
 * PodInitializing are the ordinary course, any other reason says more. */
static void read_containers(struct reader *r, const struct json *status, const char *key,
                            int64_t *restarts, const char **waiting)
{
    for (const struct json *c = elements(read_list(r, status, key)); c; c = json_next(c)) {
        add_checked(r, "restartCount", restarts, read_int(r, c, "restartCount", 0));
        const struct json *wait = read_object(r, read_object(r, c, "state"), "waiting");
        const char *reason = read_text(r, wait, "reason");
        bool ordinary =
            strcmp(*waiting, "ContainerCreating") == 0 || strcmp(*waiting, "PodInitializing") == 0;
        if (*reason && (!**waiting || ordinary))
            *waiting = reason;
    }
}

/* Whether this run ended at that time, soon after it began. */
static bool ended_soon(struct reader *r, const struct json *state, int64_t at_us)
{
    const struct json *ended = read_object(r, state, "terminated");
    int64_t from_us = read_time_us(r, ended, "startedAt"), to_us = read_time_us(r, ended, "finishedAt");
    return at_us >= 0 && from_us >= 0 && to_us >= from_us && to_us - from_us < HELD_US &&
           to_us - at_us <= STAMP_SLACK_US && at_us - to_us <= STAMP_SLACK_US;
}

static bool crashed_soon(struct reader *r, const struct json *status, int64_t at_us)
{
    bool out = false;
    for (const struct json *c = elements(read_list(r, status, "containerStatuses")); c; c = json_next(c)) {
        out |= ended_soon(r, read_object(r, c, "state"), at_us);
        out |= ended_soon(r, read_object(r, c, "lastState"), at_us);
    }
    return out;
}

static const struct json *controller_of(struct reader *r, const struct json *meta)
{
    for (const struct json *o = elements(read_list(r, meta, "ownerReferences")); o;
         o = json_next(o)) {
        if (read_true(r, o, "controller"))
            return o;
    }
    return NULL;
}

/* ---- the projection ---------------------------------------------------------------------- */

static int32_t clamp32(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

static void fill_spec(struct reader *r, struct kube_pod *p, const struct json *spec,
                      const struct json *owner)
{
    p->node = hold(r, read_text(r, spec, "nodeName"));
    p->scheduler = hold(r, read_text(r, spec, "schedulerName"));
    p->priority_class = hold(r, read_text(r, spec, "priorityClassName"));
    p->priority = clamp32(read_int(r, spec, "priority", 0));
    p->owner_kind = hold(r, read_text(r, owner, "kind"));
    p->owner_name = hold(r, read_text(r, owner, "name"));
    p->owner_uid = hold(r, read_text(r, owner, "uid"));
    const struct json *gates = read_list(r, spec, "schedulingGates");
    p->gated = gates && json_count(gates) > 0;
}

/* By the conditions alone. */
static bool told_served(const struct kube_pod *p)
{
    bool told = p->started_us >= 0 && p->unready_since_us >= 0;
    return told && p->unready_since_us - p->started_us > STAMP_SLACK_US && !p->crashed_soon;
}

/* By what was seen of it.  A readiness whose length the stamps do not tell counts. */
static void pod_inherit(void *ctx, const struct kube_obj *before, struct kube_obj *o)
{
    const struct kube_pod *old = kube_as_pod(before);
    struct kube_pod *p = (struct kube_pod *)(void *)o;
    int64_t until_us = p->ready ? p->ready_since_us : p->unready_since_us;
    bool lost = old->ready && (!p->ready || p->ready_since_us > old->ready_since_us);
    bool timed = old->ready_since_us >= 0 && until_us >= 0;
    bool soon = timed ? until_us - old->ready_since_us < HELD_US && (p->ready || p->crashed_soon)
                      : p->crashed_soon;
    (void)ctx;
    p->served = p->served || old->served || (lost && !soon);
}

static void fill_status(struct reader *r, struct kube_pod *p, const struct json *status)
{
    const char *waiting = "";
    int64_t restarts = 0;
    struct condition ready = find_condition(r, status, "Ready");
    struct condition scheduled = find_condition(r, status, "PodScheduled");
    p->phase = read_phase(r, status);
    p->ready = ready.is_true;
    p->ready_since_us = ready.is_true ? ready.since_us : -1;
    p->unready_since_us = ready.is_true ? -1 : ready.since_us;
    p->scheduled_us = scheduled.is_true ? scheduled.since_us : -1;
    p->unschedulable =
        scheduled.found && !scheduled.is_true && strcmp(scheduled.reason, "Unschedulable") == 0;
    p->started_us = read_time_us(r, status, "startTime");
    read_containers(r, status, "initContainerStatuses", &restarts, &waiting);
    read_containers(r, status, "containerStatuses", &restarts, &waiting);
    p->restarts = clamp32(restarts);
    p->waiting = hold(r, waiting);
    p->reason = hold(r, read_text(r, status, "reason"));
    p->crashed_soon = crashed_soon(r, status, p->unready_since_us);
    p->served = told_served(p);
}

static void pod_free(void *ctx, struct kube_obj *o)
{
    struct kube_pod *p = (struct kube_pod *)(void *)o;
    const char *texts[] = {o->ns,         p->node,       p->scheduler, p->priority_class,
                           p->owner_kind, p->owner_name, p->owner_uid, p->waiting,
                           p->reason};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        text_drop(ctx, texts[i]);
    drop_pairs(ctx, p->labels, p->n_labels);
    drop_pairs(ctx, p->annotations, p->n_annotations);
    for (size_t i = 0; i < p->n_devices; i++)
        text_drop(ctx, p->devices[i].resource);
    mem_free(o);
}

static enum err_code pod_make(void *ctx, const struct json *obj, const char *text, size_t n,
                              struct kube_obj **out, struct err *e)
{
    (void)text, (void)n;
    struct reader r = {.pool = ctx, .e = e};
    struct requests q = {0};
    struct meta_texts m = read_meta(&r, obj);
    const struct json *spec = read_object(&r, obj, "spec"),
                      *status = read_object(&r, obj, "status");
    const struct json *owner = controller_of(&r, m.meta);
    struct pairs labels = read_pairs(&r, m.meta, "labels", false);
    struct pairs annotations = read_pairs(&r, m.meta, "annotations", true);
    read_requests(&r, spec, &q);
    size_t n_pairs = (size_t)labels.n + annotations.n;
    *out = NULL;
    struct kube_pod *p = r.rc ? NULL
                              : block_new(&r, &m,
                                          sizeof *p + n_pairs * sizeof(struct kube_label) +
                                              q.devices.n * sizeof(struct kube_device));
    if (!p)
        return r.rc;
    struct kube_label *pairs = (struct kube_label *)(void *)(p + 1);
    struct kube_device *devices = (struct kube_device *)(void *)(pairs + n_pairs);
    fill_pairs(&r, &labels, pairs);
    fill_pairs(&r, &annotations, pairs + labels.n);
    p->gpus = fill_devices(&r, &q.devices, devices);
    p->n_labels = labels.n;
    p->n_annotations = annotations.n;
    p->n_devices = q.devices.n;
    p->labels = pairs;
    p->annotations = pairs + labels.n;
    p->devices = devices;
    p->created_us = m.created_us;
    p->deletion_us = m.deletion_us;
    p->terminating = m.deletion_us >= 0;
    p->cpu_milli = q.cpu_milli;
    p->mem_bytes = q.mem_bytes;
    fill_spec(&r, p, spec, owner);
    fill_status(&r, p, status);
    if (r.rc) {
        pod_free(ctx, &p->meta);
        return r.rc;
    }
    *out = &p->meta;
    return ERR_OK;
}

struct kube_projection kube_pod_projection(struct text_pool *pool)
{
    return (struct kube_projection){.make = pod_make, .free = pod_free, .inherit = pod_inherit, .ctx = pool};
}
