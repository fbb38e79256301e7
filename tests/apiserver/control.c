/* control.c - the thread that plays controllers, scheduler and kubelets.
 *
 * Events mark workloads dirty and arm timers; the thread reconciles what is dirty, places pods, and
 * fires what is due, one thing at a time under the lock.  Delays are in server time. */
#include "tests/apiserver/api_priv.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- queues ---- */

void api_control_dirty(struct apiserver *a, struct shelf *s, const char *key, bool owner_gone)
{
    struct control *k = a->control;
    for (size_t i = k->n_dirty, back = 0; i > 0 && back < 64; i--, back++) {
        const struct dirty *d = &k->dirty[i - 1];
        if (d->shelf == s && d->owner_gone == owner_gone && strcmp(d->key, key) == 0)
            return;
    }
    if (k->n_dirty == k->size_dirty) {
        k->size_dirty = k->size_dirty ? 2 * k->size_dirty : 64;
        k->dirty = mem_grow(k->dirty, k->size_dirty, sizeof *k->dirty);
    }
    k->dirty[k->n_dirty++] = (struct dirty){s, mem_strdup(key), owner_gone};
    a->waking = true;
}

static bool earlier(const struct timer *x, const struct timer *y)
{
    return x->due_us < y->due_us;
}

static void swap(struct timer *x, struct timer *y)
{
    struct timer t = *x;
    *x = *y;
    *y = t;
}

void api_control_timer(struct apiserver *a, int64_t in_us, enum timer_what what,
                       const struct obj *pod)
{
    struct control *k = a->control;
    if (k->n_timers == k->size_timers) {
        k->size_timers = k->size_timers ? 2 * k->size_timers : 64;
        k->timer = mem_grow(k->timer, k->size_timers, sizeof *k->timer);
    }
    int64_t real = (int64_t)((double)in_us / a->o.time_scale);
    k->timer[k->n_timers] =
        (struct timer){clock_mono_us() + real, what, mem_strdup(pod->key), mem_strdup(pod->uid)};
    for (size_t i = k->n_timers++; i > 0 && earlier(&k->timer[i], &k->timer[(i - 1) / 2]);
         i = (i - 1) / 2)
        swap(&k->timer[i], &k->timer[(i - 1) / 2]);
    a->waking = true;
}

static struct timer pop_timer(struct control *k)
{
    struct timer first = k->timer[0];
    k->timer[0] = k->timer[--k->n_timers];
    for (size_t i = 0;;) {
        size_t l = 2 * i + 1, r = l + 1, min = i;
        if (l < k->n_timers && earlier(&k->timer[l], &k->timer[min]))
            min = l;
        if (r < k->n_timers && earlier(&k->timer[r], &k->timer[min]))
            min = r;
        if (min == i)
            return first;
        swap(&k->timer[i], &k->timer[min]);
        i = min;
    }
}

/* ---- events ---- */

void api_control_event(struct apiserver *a, struct shelf *s, const struct event *e)
{
    struct control *k = a->control;
    if (!k)
        return;
    if (s == k->deployments || s == k->replicasets || s == k->statefulsets) {
        if (e->type == EVENT_DELETED && !a->orphan)
            api_control_dirty(a, s, e->now->uid, true);
        if (e->type != EVENT_DELETED)
            api_control_dirty(a, s, e->now->key, false);
    }
    if (s == k->replicasets && *e->now->owner) {
        struct obj *d = api_workload_owner(a, k->deployments, e->now);
        if (d)
            api_control_dirty(a, k->deployments, d->key, false);
    }
    if (s == k->nodes) {
        k->schedule = true;
        if (e->type != EVENT_DELETED)
            api_node_event(a, e->now);
    }
    if (s == k->pods) {
        struct obj *rs = api_workload_owner(a, k->replicasets, e->now),
                   *ss = rs ? NULL : api_workload_owner(a, k->statefulsets, e->now);
        if (rs || ss)
            api_control_dirty(a, rs ? k->replicasets : k->statefulsets, rs ? rs->key : ss->key,
                              false);
        api_kubelet_event(a, e);
    }
    for (size_t i = 0; (s == k->pods || s == k->budgets) && i < k->budgets->n; i++) {
        if (strcmp(k->budgets->v[i]->ns, e->now->ns) == 0)
            api_control_dirty(a, k->budgets, k->budgets->v[i]->key, false);
    }
}

void api_control_put(struct apiserver *a, struct shelf *s, const struct obj *o, cJSON *j)
{
    cJSON *was = api_obj_parse(o);
    if (!api_js_same(was, j))
        api_store_put(a, s, j);
    cJSON_Delete(was);
    cJSON_Delete(j);
}

void api_control_delete_pod(struct apiserver *a, struct obj *pod)
{
    struct control *k = a->control;
    char at[32];
    cJSON *j = api_obj_parse(pod), *m = api_js_obj(j, "metadata");
    bool bound = *pod->node;
    int64_t grace_s = bound ? (int64_t)api_js_num(j, "spec.terminationGracePeriodSeconds", 30) : 0;
    api_js_set_str(m, "deletionTimestamp", api_time_text(api_now_us(a) + grace_s * US_PER_S, at));
    api_js_set_num(m, "deletionGracePeriodSeconds", (double)grace_s);
    api_js_set_num(m, "generation", api_js_num(m, "generation", 0) + 1);
    struct obj *marked = api_store_put(a, k->pods, j);
    if (!bound)
        api_remove_obj(a, k->pods, marked);
    cJSON_Delete(j);
}

/* ---- the thread ---- */

static bool step(struct apiserver *a)
{
    struct control *k = a->control;
    if (k->registry_was_down && !a->registry_down)
        api_kubelet_registry_up(a);
    k->registry_was_down = a->registry_down;
    if (k->n_dirty > 0) {
        struct dirty d = k->dirty[0];
        memmove(k->dirty, k->dirty + 1, --k->n_dirty * sizeof *k->dirty);
        if (d.owner_gone)
            api_workload_collect(a, d.key);
        else
            api_workload_reconcile(a, d.shelf, d.key);
        mem_free(d.key);
        return true;
    }
    if (k->schedule) {
        k->schedule = false;
        api_node_schedule(a);
        return true;
    }
    if (k->n_timers > 0 && k->timer[0].due_us <= clock_mono_us()) {
        struct timer t = pop_timer(k);
        api_kubelet_timer(a, &t);
        mem_free(t.key);
        mem_free(t.uid);
        return true;
    }
    return false;
}

static void *run(void *arg)
{
    struct apiserver *a = arg;
    struct control *k = a->control;
    api_lock(a);
    while (!k->stop) {
        k->busy = true;
        bool did = clock_mono_us() >= a->stall_until_us && step(a);
        k->busy = did;
        if (did) { /* let requests in between */
            api_unlock(a);
            api_lock(a);
            continue;
        }
        pthread_cond_broadcast(&a->changed);
        int64_t now = clock_mono_us(), until = now + 100 * US_PER_MS;
        if (k->n_timers > 0 && k->timer[0].due_us < until)
            until = k->timer[0].due_us > now ? k->timer[0].due_us : now + US_PER_MS;
        struct timespec t = {.tv_sec = until / US_PER_S, .tv_nsec = until % US_PER_S * 1000};
        pthread_cond_timedwait(&a->changed, &a->lock, &t);
    }
    api_unlock(a);
    return NULL;
}

void api_control_start(struct apiserver *a)
{
    if (!a->o.controllers)
        return;
    struct control *k = mem_zero(1, sizeof *k);
    k->pods = api_store_core(a, "pods");
    k->nodes = api_store_core(a, "nodes");
    k->deployments = api_store_core(a, "deployments");
    k->replicasets = api_store_core(a, "replicasets");
    k->statefulsets = api_store_core(a, "statefulsets");
    k->budgets = api_store_core(a, "poddisruptionbudgets");
    a->control = k;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    ASSERT(pthread_create(&k->thread, NULL, run, a) == 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void api_control_stop(struct apiserver *a)
{
    struct control *k = a->control;
    if (!k)
        return;
    api_lock(a);
    k->stop = true;
    pthread_cond_broadcast(&a->changed);
    api_unlock(a);
    pthread_join(k->thread, NULL);
    for (size_t i = 0; i < k->n_dirty; i++)
        mem_free(k->dirty[i].key);
    for (size_t i = 0; i < k->n_timers; i++) {
        mem_free(k->timer[i].key);
        mem_free(k->timer[i].uid);
    }
    mem_free(k->dirty);
    mem_free(k->timer);
    api_node_free(k);
    mem_free(k);
    a->control = NULL;
}

static bool settled(struct apiserver *a)
{
    const struct control *k = a->control;
    return !k->busy && k->registry_was_down == a->registry_down && k->n_dirty == 0 &&
           !k->schedule && (k->n_timers == 0 || k->timer[0].due_us > clock_mono_us());
}

void apiserver_settle(struct apiserver *a)
{
    api_lock(a);
    while (a->control && !settled(a)) {
        int64_t until = clock_mono_us() + 5 * US_PER_MS;
        struct timespec t = {.tv_sec = until / US_PER_S, .tv_nsec = until % US_PER_S * 1000};
        pthread_cond_timedwait(&a->changed, &a->lock, &t);
    }
    api_unlock(a);
}
