#include "tests/exporter/service.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { BUCKETS = 14, NAME_LEN = 128 };
static const double bound_s[BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                        1,     2.5,  5,     10,   25,  60,   120};

struct pod {
    char name[NAME_LEN];
    double requests, cpu_s;
    double bucket[BUCKETS]; /* cumulative over bounds, counters */
};

struct service {
    struct service_opts o;
    char namespace[NAME_LEN], name[NAME_LEN];
    struct pod pod[SERVICE_PODS_MAX];
    int n_pods, ready;
    int64_t wall0_us, wall_us;
    double qps, use, backlog, p50_s, p99_s;
};

struct service_opts service_opts_default(void)
{
    return (struct service_opts){.namespace = "shop",
                                 .name = "web",
                                 .load_scale = 1,
                                 .speed = 1,
                                 .unit_qps = 50,
                                 .base_ms = 40,
                                 .units = 2};
}

struct service *service_new(const struct service_opts *o, int64_t wall_us)
{
    struct service *s = mem_zero(1, sizeof *s);
    s->o = *o;
    (void)snprintf(s->namespace, sizeof s->namespace, "%s", o->namespace);
    (void)snprintf(s->name, sizeof s->name, "%s", o->name);
    s->wall0_us = s->wall_us = wall_us;
    service_units(s, o->units, o->units);
    return s;
}

void service_free(struct service *s)
{
    mem_free(s);
}

const char *service_namespace(const struct service *s)
{
    return s->namespace;
}

const char *service_name(const struct service *s)
{
    return s->name;
}

double service_qps(const struct service *s)
{
    return s->qps;
}

double service_use(const struct service *s)
{
    return s->use;
}

/* A pod of this name, with its counters if it was there, at place i. */
static void place_pod(struct service *s, const char *name, int i)
{
    struct pod fresh = {0};
    int at = 0;
    while (at < s->n_pods && strcmp(s->pod[at].name, name) != 0)
        at++;
    (void)snprintf(fresh.name, sizeof fresh.name, "%s", name);
    if (at < s->n_pods) {
        struct pod old = s->pod[at];
        s->pod[at] = s->pod[i];
        s->pod[i] = old;
    } else {
        ASSERT(s->n_pods < SERVICE_PODS_MAX);
        s->pod[s->n_pods++] = s->pod[i];
        s->pod[i] = fresh;
    }
}

void service_pods(struct service *s, const char *const *names, int ready, int total)
{
    ASSERT(ready >= 0 && ready <= total && total <= SERVICE_PODS_MAX / 2);
    for (int i = 0; i < total; i++)
        place_pod(s, names[i], i);
    s->n_pods = total;
    s->ready = ready;
}

void service_units(struct service *s, int ready, int total)
{
    char text[SERVICE_PODS_MAX / 2][NAME_LEN + 16];
    const char *names[SERVICE_PODS_MAX / 2];
    ASSERT(total <= SERVICE_PODS_MAX / 2);
    for (int i = 0; i < total; i++) {
        (void)snprintf(text[i], sizeof text[i], "%s-%d", s->name, i);
        names[i] = text[i];
    }
    service_pods(s, names, ready, total);
}

/* ---- the model ----------------------------------------------------------------------------------
 */

static double load_at(const struct service *s, int64_t wall_us)
{
    const struct history *h = s->o.load;
    double t = (double)(wall_us - s->wall0_us) * s->o.speed + (double)s->o.offset_us;
    int64_t i = (int64_t)(t / (double)h->step_us) % h->n;
    double v = (double)h->col[FIELD_QPS][i];
    return isnan(v) ? 0 : v * s->o.load_scale;
}

/* Share of requests faster than x, lognormal through p50 and p99. */
static double share_below(const struct service *s, double x)
{
    double sigma = log(s->p99_s / s->p50_s) / 2.326;
    return 0.5 * erfc(-log(x / s->p50_s) / (sigma * sqrt(2)));
}

static void count_requests(struct service *s, double served, double dt_s)
{
    for (int i = 0; i < s->ready; i++) {
        struct pod *p = &s->pod[i];
        double n = served / s->ready * dt_s;
        p->requests += n;
        p->cpu_s += s->use * 2 * dt_s; /* of two cores requested */
        for (int b = 0; b < BUCKETS; b++)
            p->bucket[b] += n * share_below(s, bound_s[b]);
    }
}

static void advance(struct service *s, int64_t wall_us)
{
    double dt_s = (double)(wall_us - s->wall_us) * 1e-6;
    double capacity = s->ready * s->o.unit_qps, dt_trace_s = dt_s * s->o.speed;
    if (dt_s <= 0)
        return;
    s->wall_us = wall_us;
    s->qps = load_at(s, wall_us);
    double waiting = s->backlog + (s->qps - capacity) * dt_trace_s;
    double served = waiting > 0 ? capacity : s->qps;
    s->backlog = waiting > 0 ? waiting : 0;
    s->use = capacity > 0 ? fmin(1, (s->backlog > 0 ? capacity : s->qps) / capacity) : 0;
    s->p50_s = s->o.base_ms * 1e-3 / (1 - fmin(s->use, 0.95));
    s->p99_s = 4 * s->p50_s + (capacity > 0 ? s->backlog / capacity : 0);
    count_requests(s, served, dt_s);
}

/* ---- the page -----------------------------------------------------------------------------------
 */

static void put_pod(const struct service *s, const struct pod *p, bool ready, struct buf *out)
{
    char at[2 * NAME_LEN + 32];
    (void)snprintf(at, sizeof at, "namespace=\"%s\",pod=\"%s\"", s->namespace, p->name);
    buf_fmt(out,
            "kube_pod_container_resource_requests{%s,container=\"main\",resource=\"cpu\",unit="
            "\"core\"} 2\n",
            at);
    buf_fmt(out,
            "kube_pod_container_resource_requests{%s,container=\"main\",resource=\"memory\",unit="
            "\"byte\"} 8e9\n",
            at);
    if (!ready)
        return;
    buf_fmt(out, "http_requests_total{%s,code=\"200\"} %.3f\n", at, p->requests);
    for (int b = 0; b < BUCKETS; b++)
        buf_fmt(out, "http_request_duration_seconds_bucket{%s,le=\"%g\"} %.3f\n", at, bound_s[b],
                p->bucket[b]);
    buf_fmt(out, "http_request_duration_seconds_bucket{%s,le=\"+Inf\"} %.3f\n", at, p->requests);
    buf_fmt(out, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",%s,container=\"main\"} %.1f\n", at, 100 * s->use);
    buf_fmt(out, "DCGM_FI_DEV_FB_USED{gpu=\"0\",%s,container=\"main\"} 40000\n", at);
    buf_fmt(out, "DCGM_FI_DEV_FB_FREE{gpu=\"0\",%s,container=\"main\"} 41000\n", at);
    buf_fmt(out, "container_cpu_usage_seconds_total{%s,container=\"main\"} %.4f\n", at, p->cpu_s);
    buf_fmt(out, "container_memory_working_set_bytes{%s,container=\"main\"} 4e9\n", at);
    buf_fmt(out, "vllm:num_requests_waiting{%s} %.3f\n", at, s->backlog / s->ready);
}

void service_page(struct service *s, int64_t wall_us, struct buf *out)
{
    advance(s, wall_us);
    for (int i = 0; i < s->n_pods; i++)
        put_pod(s, &s->pod[i], i < s->ready, out);
    buf_fmt(out, "kube_deployment_status_replicas_ready{namespace=\"%s\",deployment=\"%s\"} %d\n",
            s->namespace, s->name, s->ready);
    buf_fmt(out, "kube_deployment_status_replicas{namespace=\"%s\",deployment=\"%s\"} %d\n",
            s->namespace, s->name, s->n_pods);
}
