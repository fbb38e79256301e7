/* requests.c - the request-level simulation: see requests.h.
 *
 * Requests are numbered as they arrive, so whoever waits is the range [head, n_arrived) plus the
 * few that a failure sent back (`retry`, oldest on top); no queue is stored.  Time-outs need no
 * events: the oldest waiting request always times out first. */
#include "sim/requests.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"
#include "model/history.h"
#include "sim/event.h"

enum { EVENTS_MAX = 4000000 }; /* void ones included */

enum kind { EV_DEPART, EV_UNIT_READY, EV_UNIT_FAIL, EV_UNIT_REPAIRED, EV_STEP, EV_ARRIVE };

enum unit_state { UNIT_OFF, UNIT_WARMING, UNIT_READY, UNIT_FAILED, UNIT_STATES };

struct unit {
    enum unit_state state;
    uint32_t generation; /* its pending events carry it; others are void */
    int64_t asked_us;
};

struct server {
    int32_t request;     /* served now, or -1 */
    uint32_t generation; /* of its departure event */
    bool listed;         /* on the idle stack */
};

struct des {
    const struct requests_cfg *cfg;
    const float *qps;
    const int32_t *want;
    int32_t n_steps, step; /* step: the one that runs */
    int64_t now_us, end_us;
    struct rng arrival_rng, service_rng, unit_rng;
    struct event_queue events;
    struct unit *unit;     /* [units_max] */
    struct server *server; /* [units_max x slots], unit by unit */
    int32_t *idle;         /* stack of servers that may be free; checked when popped */
    int32_t n_idle;
    int32_t *retry; /* stack, oldest request on top */
    int32_t n_retry;
    int32_t count[UNIT_STATES];
    /* per request, in order of arrival */
    int64_t *arrived_us, *began_us;
    float *response_ms; /* NaN while in the system, -1 when dropped */
    int32_t n_arrived, n_room, head;
    int64_t in_system;
    double area;      /* integral of in_system, request-us */
    int64_t area_us;  /* up to here */
    double next_need; /* unit-rate exponential still to pass before the next arrival */
    struct requests_totals t;
    struct hash hash;
};

static int64_t seconds_us(double s)
{
    return (int64_t)llround(s * US_PER_S);
}

static enum err_code push(struct des *d, int64_t time_us, enum kind kind, int32_t arg, uint32_t tag,
                          struct err *e)
{
    return event_push(&d->events,
                      (struct event){.time_us = time_us,
                                     .priority = (int32_t)kind,
                                     .kind = (int32_t)kind,
                                     .arg = arg,
                                     .tag = tag},
                      e);
}

static void advance(struct des *d, int64_t now_us)
{
    d->area += (double)d->in_system * (double)(now_us - d->area_us);
    d->area_us = now_us;
    d->now_us = now_us;
}

/* ---- service -------------------------------------------------------------------------------- */

static enum err_code begin_service(struct des *d, int32_t server, int32_t request, struct err *e)
{
    struct server *s = &d->server[server];
    s->request = request;
    s->generation++;
    d->began_us[request] = d->now_us;
    double ms = d->cfg->service_ms * rng_exponential(&d->service_rng);
    return push(d, d->now_us + seconds_us(ms / 1000), EV_DEPART, server, s->generation, e);
}

static void list_idle(struct des *d, int32_t server)
{
    if (d->server[server].listed)
        return;
    d->server[server].listed = true;
    d->idle[d->n_idle++] = server;
}

/* A free server of a ready unit, or -1. */
static int32_t take_idle(struct des *d)
{
    while (d->n_idle > 0) {
        int32_t s = d->idle[--d->n_idle];
        d->server[s].listed = false;
        if (d->server[s].request < 0 && d->unit[s / d->cfg->slots].state == UNIT_READY)
            return s;
    }
    return -1;
}

static int32_t oldest_waiting(const struct des *d)
{
    if (d->n_retry > 0)
        return d->retry[d->n_retry - 1];
    return d->head < d->n_arrived ? d->head : -1;
}

static void take_oldest(struct des *d)
{
    if (d->n_retry > 0)
        d->n_retry--;
    else
        d->head++;
}

static enum err_code dispatch(struct des *d, struct err *e)
{
    enum err_code rc = ERR_OK;
    while (!rc && oldest_waiting(d) >= 0) {
        int32_t s = take_idle(d);
        if (s < 0)
            return ERR_OK;
        int32_t r = oldest_waiting(d);
        take_oldest(d);
        rc = begin_service(d, s, r, e);
    }
    return rc;
}

static void drop_expired(struct des *d, int64_t until_us)
{
    int64_t patience = seconds_us(d->cfg->timeout_s);
    for (int32_t r; (r = oldest_waiting(d)) >= 0 && d->arrived_us[r] + patience <= until_us;) {
        int64_t at = d->arrived_us[r] + patience;
        advance(d, at > d->now_us ? at : d->now_us);
        take_oldest(d);
        d->response_ms[r] = -1;
        d->in_system--;
        d->t.dropped++;
    }
}

static enum err_code depart(struct des *d, const struct event *ev, struct err *e)
{
    struct server *s = &d->server[ev->arg];
    if (s->generation != ev->tag || s->request < 0)
        return ERR_OK;
    int32_t r = s->request;
    s->request = -1;
    double response_us = (double)(d->now_us - d->arrived_us[r]);
    d->response_ms[r] = (float)(response_us / 1000);
    d->t.response_mean_ms += response_us / 1000;
    d->t.wait_mean_ms += (double)(d->began_us[r] - d->arrived_us[r]) / 1000;
    d->t.completed++;
    d->in_system--;
    if (d->unit[ev->arg / d->cfg->slots].state == UNIT_READY)
        list_idle(d, ev->arg);
    return dispatch(d, e);
}

/* ---- units ---------------------------------------------------------------------------------- */

static void set_state(struct des *d, int32_t u, enum unit_state state)
{
    d->count[d->unit[u].state]--;
    d->count[state]++;
    d->unit[u].state = state;
    d->unit[u].generation++;
}

static enum err_code make_ready(struct des *d, int32_t u, struct err *e)
{
    set_state(d, u, UNIT_READY);
    for (int i = 0; i < d->cfg->slots; i++)
        list_idle(d, u * d->cfg->slots + i);
    if (d->cfg->up_mean_s > 0) {
        int64_t up = seconds_us(d->cfg->up_mean_s * rng_exponential(&d->unit_rng));
        enum err_code rc = push(d, d->now_us + up, EV_UNIT_FAIL, u, d->unit[u].generation, e);
        if (rc)
            return rc;
    }
    return dispatch(d, e);
}

static void insert_retry(struct des *d, int32_t request)
{
    int32_t i = d->n_retry++;
    for (; i > 0 && d->retry[i - 1] < request; i--)
        d->retry[i] = d->retry[i - 1];
    d->retry[i] = request;
}

static enum err_code fail_unit(struct des *d, int32_t u, struct err *e)
{
    set_state(d, u, UNIT_FAILED);
    for (int i = 0; i < d->cfg->slots; i++) {
        struct server *s = &d->server[u * d->cfg->slots + i];
        if (s->request < 0)
            continue;
        insert_retry(d, s->request);
        s->request = -1;
        d->t.retried++;
    }
    int64_t down = seconds_us(d->cfg->repair_mean_s * rng_exponential(&d->unit_rng));
    enum err_code rc = push(d, d->now_us + down, EV_UNIT_REPAIRED, u, d->unit[u].generation, e);
    return rc ? rc : dispatch(d, e);
}

static enum err_code start_unit(struct des *d, int32_t u, struct err *e)
{
    const struct requests_cfg *c = d->cfg;
    d->unit[u].asked_us = d->now_us;
    set_state(d, u, UNIT_WARMING);
    if (c->start_max_s <= 0)
        return make_ready(d, u, e);
    double s = c->start_min_s + rng_unit(&d->unit_rng) * (c->start_max_s - c->start_min_s);
    return push(d, d->now_us + seconds_us(s), EV_UNIT_READY, u, d->unit[u].generation, e);
}

/* Warming first, newest first; then failed; then ready; higher numbers first. */
static int32_t unit_to_stop(const struct des *d)
{
    static const enum unit_state order[] = {UNIT_WARMING, UNIT_FAILED, UNIT_READY};
    for (size_t k = 0; k < ARRAY_LEN(order); k++) {
        int32_t best = -1;
        if (d->count[order[k]] == 0)
            continue;
        for (int32_t u = 0; u < d->cfg->units_max; u++)
            if (d->unit[u].state == order[k] && (best < 0 || order[k] != UNIT_WARMING ||
                                                 d->unit[u].asked_us >= d->unit[best].asked_us))
                best = u;
        return best;
    }
    return -1;
}

static enum err_code resize(struct des *d, struct err *e)
{
    int32_t have = d->cfg->units_max - d->count[UNIT_OFF], want = d->want[d->step];
    enum err_code rc = ERR_OK;
    for (int32_t u = 0; !rc && have < want && u < d->cfg->units_max; u++) {
        bool drained = true; /* a stopped unit that still serves does not start again yet */
        for (int i = 0; i < d->cfg->slots; i++)
            drained &= d->server[u * d->cfg->slots + i].request < 0;
        if (d->unit[u].state != UNIT_OFF || !drained)
            continue;
        rc = start_unit(d, u, e);
        have++;
    }
    for (; have > want; have--)
        set_state(d, unit_to_stop(d), UNIT_OFF);
    return rc;
}

static enum err_code unit_event(struct des *d, const struct event *ev, struct err *e)
{
    if (d->unit[ev->arg].generation != ev->tag)
        return ERR_OK;
    if (ev->kind == EV_UNIT_FAIL)
        return fail_unit(d, ev->arg, e);
    return make_ready(d, ev->arg, e);
}

/* ---- arrivals ------------------------------------------------------------------------------- */

/* The next arrival of the inhomogeneous process: pass `next_need` through the steps' rates. */
static enum err_code plan_arrival(struct des *d, struct err *e)
{
    double at_us = (double)d->now_us;
    int32_t k = d->step;
    d->next_need = rng_exponential(&d->arrival_rng);
    for (; k < d->n_steps; k++) {
        double end = (double)(k + 1) * (double)d->cfg->step_us;
        double rate_us = (double)d->qps[k] / US_PER_S;
        double room = (end - at_us) * rate_us;
        if (d->next_need < room)
            return push(d, (int64_t)(at_us + d->next_need / rate_us), EV_ARRIVE, 0, 0, e);
        d->next_need -= room;
        at_us = end;
    }
    return ERR_OK;
}

static enum err_code grow_requests(struct des *d, struct err *e)
{
    int64_t room = d->n_room ? (int64_t)d->n_room * 2 : 4096;
    room = room < REQUESTS_ARRIVALS_MAX * INT64_C(2) ? room : REQUESTS_ARRIVALS_MAX * INT64_C(2);
    if (room <= d->n_arrived)
        return err_set(e, ERR_LIMIT, "requests: more than %d arrivals", d->n_arrived);
    int64_t *arrived = try_grow(d->arrived_us, (size_t)room, sizeof *arrived);
    d->arrived_us = arrived ? arrived : d->arrived_us;
    int64_t *began = try_grow(d->began_us, (size_t)room, sizeof *began);
    d->began_us = began ? began : d->began_us;
    float *response = try_grow(d->response_ms, (size_t)room, sizeof *response);
    d->response_ms = response ? response : d->response_ms;
    if (!arrived || !began || !response)
        return err_set(e, ERR_NOMEM, "requests: %lld arrivals", (long long)room);
    d->n_room = (int32_t)room;
    return ERR_OK;
}

static enum err_code arrive(struct des *d, struct err *e)
{
    enum err_code rc = d->n_arrived == d->n_room ? grow_requests(d, e) : ERR_OK;
    if (rc)
        return rc;
    d->arrived_us[d->n_arrived] = d->now_us;
    d->response_ms[d->n_arrived++] = NAN;
    d->in_system++;
    rc = dispatch(d, e);
    return rc ? rc : plan_arrival(d, e);
}

/* ---- results -------------------------------------------------------------------------------- */

static void end_step(const struct des *d, struct requests_step *out)
{
    out->units_ready = d->count[UNIT_READY];
    out->units_warming = d->count[UNIT_WARMING];
    out->units_failed = d->count[UNIT_FAILED];
}

/* Requests still in the system count as waiting until the end. */
static double response_at_end_ms(const struct des *d, int32_t r)
{
    if (d->response_ms[r] < 0)
        return d->cfg->timeout_s * 1000;
    if (isnan(d->response_ms[r]))
        return (double)(d->end_us - d->arrived_us[r]) / 1000;
    return (double)d->response_ms[r];
}

static void fill_step(const struct des *d, int32_t from, int32_t to, double *x,
                      struct requests_step *out)
{
    size_t n = (size_t)(to - from);
    int64_t over = 0;
    out->arrivals = (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        x[i] = response_at_end_ms(d, from + (int32_t)i);
        bool dropped = d->response_ms[from + (int32_t)i] < 0;
        over += dropped || x[i] > d->cfg->slo_ms;
        out->dropped += dropped;
    }
    out->over_frac = n ? (float)over / (float)n : 0;
    out->p50_ms = out->p99_ms = NAN;
    if (n == 0)
        return;
    stats_sort(x, n);
    out->p50_ms = (float)stats_quantile_sorted(x, n, 0.50);
    out->p99_ms = (float)stats_quantile_sorted(x, n, 0.99);
}

static enum err_code fill_steps(const struct des *d, struct requests_step *steps, struct err *e)
{
    double *x = try_zero((size_t)d->n_arrived + 1, sizeof *x);
    if (!x)
        return err_set(e, ERR_NOMEM, "requests: %d responses", d->n_arrived);
    for (int32_t k = 0, from = 0; k < d->n_steps; k++) {
        int32_t to = from;
        while (to < d->n_arrived && d->arrived_us[to] < (k + 1) * d->cfg->step_us)
            to++;
        fill_step(d, from, to, x, &steps[k]);
        from = to;
    }
    mem_free(x);
    return ERR_OK;
}

static void fill_totals(struct des *d, struct requests_totals *t)
{
    advance(d, d->end_us);
    *t = d->t;
    t->arrivals = d->n_arrived;
    t->left = d->in_system;
    t->seconds = (double)d->end_us / US_PER_S;
    t->in_system_mean = d->area / (double)d->end_us;
    double n = d->t.completed ? (double)d->t.completed : NAN;
    t->wait_mean_ms /= n;
    t->response_mean_ms /= n;
    t->hash = hash_value(&d->hash);
}

/* ---- the run -------------------------------------------------------------------------------- */

static enum err_code handle(struct des *d, const struct event *ev, struct requests_step *steps,
                            struct err *e)
{
    switch ((enum kind)ev->kind) {
    case EV_DEPART:
        return depart(d, ev, e);
    case EV_UNIT_READY:
    case EV_UNIT_FAIL:
    case EV_UNIT_REPAIRED:
        return unit_event(d, ev, e);
    case EV_ARRIVE:
        return arrive(d, e);
    case EV_STEP:
        break;
    }
    if (steps && ev->arg > 0)
        end_step(d, &steps[ev->arg - 1]);
    if (ev->arg == d->n_steps)
        return ERR_OK;
    d->step = ev->arg;
    enum err_code rc = push(d, (ev->arg + 1) * d->cfg->step_us, EV_STEP, ev->arg + 1, 0, e);
    return rc ? rc : resize(d, e);
}

static enum err_code loop(struct des *d, struct requests_step *steps, struct err *e)
{
    enum err_code rc = push(d, 0, EV_STEP, 0, 0, e);
    if (!rc)
        rc = plan_arrival(d, e);
    while (!rc && event_peek(&d->events) && event_peek(&d->events)->time_us <= d->end_us) {
        struct event ev = event_pop(&d->events);
        if (d->cfg->timeout_s > 0)
            drop_expired(d, ev.time_us);
        advance(d, ev.time_us);
        hash_i64(&d->hash, ev.time_us);
        hash_i64(&d->hash, ev.kind);
        d->t.n_events++;
        rc = handle(d, &ev, steps, e);
    }
    return rc;
}

static enum err_code check_input(const struct requests_cfg *c, const float *qps,
                                 const int32_t *units, int32_t n, struct err *e)
{
    const struct {
        const char *name;
        double v, lo, hi;
    } rows[] = {
        {"service_ms", c->service_ms, 1e-2, 1e7},
        {"slots", c->slots, 1, REQUESTS_SERVERS_MAX},
        {"units_max", c->units_max, 1, (double)REQUESTS_SERVERS_MAX / c->slots},
        {"step_us", (double)c->step_us, 1000, 3600e6},
        {"timeout_s", c->timeout_s, 0, 1e6},
        {"slo_ms", c->slo_ms, 0, 1e9},
        {"start_min_s", c->start_min_s, 0, 1e6},
        {"start_max_s", c->start_max_s, c->start_min_s, 1e6},
        {"up_mean_s", c->up_mean_s, 0, 1e9},
        {"repair_mean_s", c->repair_mean_s, 0, 1e9},
        {"steps", n, 1, 10000000},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!(rows[i].v >= rows[i].lo && rows[i].v <= rows[i].hi))
            return err_set(e, ERR_RANGE, "requests: %s %g is outside %g..%g", rows[i].name,
                           rows[i].v, rows[i].lo, rows[i].hi);
    double expected = 0;
    for (int32_t k = 0; k < n; k++) {
        if (!(qps[k] >= 0 && qps[k] < 1e9f) || units[k] < 0 || units[k] > c->units_max)
            return err_set(e, ERR_RANGE, "requests: step %d: load %g, %d units", k, (double)qps[k],
                           units[k]);
        expected += (double)qps[k] * (double)c->step_us / US_PER_S;
    }
    if (expected > REQUESTS_ARRIVALS_MAX)
        return err_set(e, ERR_LIMIT, "requests: %.0f expected arrivals are over %d", expected,
                       REQUESTS_ARRIVALS_MAX);
    return ERR_OK;
}

static enum err_code des_init(struct des *d, uint64_t seed, struct err *e)
{
    const struct requests_cfg *c = d->cfg;
    size_t servers = (size_t)c->units_max * (size_t)c->slots;
    d->arrival_rng = rng_stream(seed, "arrivals");
    d->service_rng = rng_stream(seed, "service");
    d->unit_rng = rng_stream(seed, "units");
    d->end_us = d->n_steps * c->step_us;
    d->hash = hash_init(seed);
    d->count[UNIT_OFF] = c->units_max;
    event_queue_init(&d->events, servers + EVENTS_MAX);
    d->unit = try_zero((size_t)c->units_max, sizeof *d->unit);
    d->server = try_zero(servers, sizeof *d->server);
    d->idle = try_zero(servers, sizeof *d->idle);
    d->retry = try_zero(servers, sizeof *d->retry);
    if (!d->unit || !d->server || !d->idle || !d->retry)
        return err_set(e, ERR_NOMEM, "requests: %zu servers", servers);
    for (size_t i = 0; i < servers; i++)
        d->server[i].request = -1;
    return ERR_OK;
}

static void des_fini(struct des *d)
{
    event_queue_fini(&d->events);
    mem_free(d->unit);
    mem_free(d->server);
    mem_free(d->idle);
    mem_free(d->retry);
    mem_free(d->arrived_us);
    mem_free(d->began_us);
    mem_free(d->response_ms);
}

enum err_code requests_run(const struct requests_cfg *cfg, const float *qps, const int32_t *units,
                           int32_t n, uint64_t seed, struct requests_step *steps,
                           struct requests_totals *totals, struct err *e)
{
    enum err_code rc = check_input(cfg, qps, units, n, e);
    if (rc)
        return rc;
    struct des d = {.cfg = cfg, .qps = qps, .want = units, .n_steps = n};
    if (steps)
        memset(steps, 0, (size_t)n * sizeof *steps);
    rc = des_init(&d, seed, e);
    if (!rc)
        rc = loop(&d, steps, e);
    if (!rc && steps)
        rc = fill_steps(&d, steps, e);
    if (!rc)
        fill_totals(&d, totals);
    des_fini(&d);
    return rc;
}
