#include "collect/collect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/collect_priv.h"
#include "collect/queries_priv.h"

/* Of one answer: what every pod of a large cluster needs, several times over. */
enum { BODY_MAX = 64 << 20, SERIES_MAX = 200000, SAMPLES_MAX = 2000000 };
static const int64_t BEHIND_US = 30 * US_PER_S; /* a scrape interval that is no skew */

struct collect_opts collect_opts_default(void)
{
    return (struct collect_opts){.max_targets = 1024,
                                 .step_us = 10 * US_PER_S,
                                 .window_us = 50 * US_PER_S,
                                 .stale_us = 60 * US_PER_S,
                                 .speed = 1};
}

/* ---- queries ------------------------------------------------------------------------------------
 */

/* What metrics.k8s.io gives is not asked of Prometheus as well; without Prometheus nothing is. */
static void leave_out(struct queries *q, const struct collect_opts *o)
{
    int kept = 0;
    for (int i = 0; i < q->n; i++) {
        enum field f = q->q[i].field;
        bool out = !o->prom || (o->kube_get && (f == FIELD_CPU_UTIL || f == FIELD_MEM_UTIL));
        if (out)
            mem_free(q->q[i].text);
        else
            q->q[kept++] = q->q[i];
    }
    q->n = kept;
}

static enum err_code make_queries(const struct collect_opts *o, const struct queries_cfg *cfg,
                                  struct queries *out, struct err *e)
{
    enum err_code rc = queries_make(cfg, out, e);
    if (rc)
        return rc;
    leave_out(out, o);
    for (int i = 0; i < out->n; i++)
        if (out->q[i].by == QUERY_BY_POD && !o->pod) {
            rc = err_set(e, ERR_INVAL, "query %s goes by pod, but pods cannot be looked up",
                         field_get(out->q[i].field)->name);
            queries_free(out);
            return rc;
        }
    return ERR_OK;
}

static bool wants_samples_clock(const struct collect *c)
{
    return c->o.prom && c->cfg->skew_query && strcmp(c->cfg->skew_query, "none") != 0;
}

static void name_health(struct collect *c)
{
    memset(c->health_on, 0, sizeof c->health_on);
    for (int f = 0; f < FIELD_COUNT; f++)
        c->health[f].name = field_get((enum field)f)->name;
    for (int i = 0; i < c->queries.n; i++) {
        c->health_on[c->queries.q[i].field] = true;
        c->health[c->queries.q[i].field].query = c->queries.q[i].text;
    }
    c->health[HEALTH_CLOCK].name = "clock";
    c->health[HEALTH_CLOCK].query = "time()";
    c->health_on[HEALTH_CLOCK] = c->o.prom != NULL;
    c->health[HEALTH_SAMPLES].name = "clock of samples";
    c->health[HEALTH_SAMPLES].query = c->cfg->skew_query;
    c->health_on[HEALTH_SAMPLES] = wants_samples_clock(c);
    c->health[HEALTH_PODS_API].name = "metrics.k8s.io";
    c->health[HEALTH_PODS_API].query = PODS_API_PATH;
    c->health_on[HEALTH_PODS_API] = c->o.kube_get != NULL;
    for (int i = 0; i < HEALTH_COUNT; i++) {
        c->shown[i].name = c->health[i].name;
        c->shown[i].query = c->health[i].query;
    }
}

/* ---- life ---------------------------------------------------------------------------------------
 */

static enum err_code check_opts(const struct collect_opts *o, struct err *e)
{
    int64_t records = o->step_us > 0 ? (o->window_us + o->step_us - 1) / o->step_us : 0;
    if (o->max_targets < 1 || o->max_targets > 1000000 || o->step_us <= 0 ||
        o->window_us < o->step_us || o->stale_us <= 0 || !(o->speed > 0))
        return err_set(e, ERR_INVAL, "collect: a size, step, window or speed that is none");
    if (records + RING_SPARE > RING_MAX)
        return err_set(e, ERR_INVAL, "collect: a window of %" PRId64 " steps is too long", records);
    if (o->kube_get && !o->pod)
        return err_set(e, ERR_INVAL, "collect: metrics.k8s.io needs pods to be looked up");
    return ERR_OK;
}

static void allocate(struct collect *c)
{
    size_t n = (size_t)c->o.max_targets, ring = (size_t)c->ring;
    c->table_size = 2 * n + 1;
    c->slot = mem_zero(n, sizeof *c->slot);
    c->table = mem_zero(c->table_size, sizeof *c->table);
    c->value = mem_zero(n * ring, FIELD_COUNT * sizeof *c->value);
    c->oldest_us = mem_zero(n * ring, sizeof *c->oldest_us);
    c->t_us = mem_zero(ring, sizeof *c->t_us);
    c->acc = mem_zero(n, FIELD_COUNT * sizeof *c->acc);
    c->counter = mem_zero(n, FIELD_COUNT * sizeof *c->counter);
    c->ticket = mem_zero(1, sizeof *c->ticket);
    c->ticket->c = c;
    c->namespaces = buf_init(QUERY_TEXT_MAX);
    c->table_dirty = true;
    for (int i = 0; i < RUNS_MAX; i++) {
        c->run[i].c = c;
        c->run[i].text = buf_init(QUERY_TEXT_MAX);
        prom_result_init(&c->run[i].result);
    }
}

enum err_code collect_new(const struct collect_opts *o, struct collect **out, struct err *e)
{
    struct queries queries;
    enum err_code rc = check_opts(o, e);
    if (!rc)
        rc = make_queries(o, o->queries, &queries, e);
    if (rc)
        return rc;
    struct collect *c = mem_zero(1, sizeof *c);
    c->o = *o;
    c->cfg = o->queries;
    c->queries = queries;
    c->need = (int)((o->window_us + o->step_us - 1) / o->step_us);
    c->ring = c->need + RING_SPARE;
    c->status.clock.date_us = c->status.clock.samples_us = INT64_MIN;
    allocate(c);
    name_health(c);
    *out = c;
    return ERR_OK;
}

static void slot_clear(struct slot *s)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        mem_free(s->own[f]);
    *s = (struct slot){.first_round = s->first_round};
}

/* Ends the round under way; its answers are lost. */
static void abandon_round(struct collect *c)
{
    c->closing = true;
    for (int i = 0; i < RUNS_MAX; i++)
        if (c->run[i].busy)
            prom_cancel(c->o.prom, c->run[i].id);
    c->closing = false;
    c->in_round = false;
    c->next.kind = JOB_END;
}

void collect_free(struct collect *c)
{
    if (!c)
        return;
    abandon_round(c);
    pods_api_orphan(c);
    for (int i = 0; i < RUNS_MAX; i++) {
        buf_fini(&c->run[i].text);
        prom_result_fini(&c->run[i].result);
    }
    for (int i = 0; i < c->o.max_targets; i++)
        slot_clear(&c->slot[i]);
    queries_free(&c->queries);
    buf_fini(&c->namespaces);
    mem_free(c->slot);
    mem_free(c->table);
    mem_free(c->value);
    mem_free(c->oldest_us);
    mem_free(c->t_us);
    mem_free(c->acc);
    mem_free(c->counter);
    mem_free(c);
}

enum err_code collect_requery(struct collect *c, const struct queries_cfg *cfg, struct err *e)
{
    struct queries queries;
    enum err_code rc = make_queries(&c->o, cfg, &queries, e);
    if (rc)
        return rc;
    abandon_round(c);
    queries_free(&c->queries);
    c->queries = queries;
    c->cfg = cfg;
    memset(c->counter, 0, (size_t)c->o.max_targets * FIELD_COUNT * sizeof *c->counter);
    name_health(c);
    return ERR_OK;
}

enum err_code collect_set(struct collect *c, int index, const struct collect_target *t,
                          struct err *e)
{
    if (index < 0 || index >= c->o.max_targets)
        return err_set(e, ERR_RANGE, "target %d: there are %d places", index, c->o.max_targets);
    if (t && (!query_is_name(t->namespace) || !query_is_name(t->name)))
        return err_set(e, ERR_INVAL, "\"%.60s/%.60s\" is no name of an object", t->namespace,
                       t->name);
    struct slot *s = &c->slot[index];
    bool same = t && s->used && strcmp(s->t.namespace, t->namespace) == 0 &&
                strcmp(s->t.name, t->name) == 0 && strcmp(s->t.kind, t->kind) == 0;
    if (same || (!t && !s->used))
        return ERR_OK;
    slot_clear(s);
    ring_reset(c, index);
    memset(c->acc + (size_t)index * FIELD_COUNT, 0, FIELD_COUNT * sizeof *c->acc);
    if (t) {
        s->used = true;
        s->t = *t;
        s->first_round += c->in_round; /* the round under way was not asked for it */
    }
    c->table_dirty = true;
    if (c->in_round)
        spread_table(c);
    return ERR_OK;
}

enum err_code collect_query(struct collect *c, int index, enum field f, const char *query,
                            struct err *e)
{
    struct buf text = buf_init(QUERY_TEXT_MAX);
    if (index < 0 || index >= c->o.max_targets)
        return err_set(e, ERR_RANGE, "target %d: there are %d places", index, c->o.max_targets);
    struct slot *s = &c->slot[index];
    if (!s->used || (query && !c->o.prom))
        return err_set(e, ERR_INVAL,
                       s->used ? "there is no Prometheus to query" : "place %d has no target",
                       index);
    struct query_target t = {.namespace = s->t.namespace, .name = s->t.name, .kind = s->t.kind};
    enum err_code rc = !query     ? ERR_OK
                       : query[0] ? query_fill(query, &t, c->queries.window_us, &text, e)
                                  : err_set(e, ERR_INVAL, "an empty query");
    buf_fini(&text);
    if (rc)
        return err_wrap(e, "%s of %s/%s", field_get(f)->name, s->t.namespace, s->t.name);
    s->n_own += (query != NULL) - (s->own[f] != NULL);
    mem_free(s->own[f]);
    s->own[f] = query ? mem_strdup(query) : NULL;
    return ERR_OK;
}

/* ---- jobs of a round ----------------------------------------------------------------------------
 */

static int jobs_of(const struct collect *c, enum job_kind kind)
{
    switch (kind) {
    case JOB_CLOCK:
    case JOB_SAMPLES:
        return 1;
    case JOB_ALL:
        return c->queries.n;
    case JOB_TARGET:
        return c->queries.n * c->end;
    case JOB_OWN:
        return FIELD_COUNT * c->end;
    default:
        return 0;
    }
}

static struct job job_at(const struct collect *c, enum job_kind kind, int at)
{
    struct job j = {.kind = kind, .at = at, .target = -1};
    if (kind == JOB_ALL) {
        j.query = at;
    } else if (kind == JOB_TARGET) {
        j.query = at / c->end;
        j.target = at % c->end;
    } else if (kind == JOB_OWN) {
        j.target = at / FIELD_COUNT;
        j.field = (enum field)(at % FIELD_COUNT);
    }
    return j;
}

static bool job_wanted(const struct collect *c, const struct job *j)
{
    const struct slot *s = j->target >= 0 ? &c->slot[j->target] : NULL;
    const struct query *q =
        j->kind == JOB_ALL || j->kind == JOB_TARGET ? &c->queries.q[j->query] : NULL;
    switch (j->kind) {
    case JOB_SAMPLES:
        return wants_samples_clock(c) && c->status.rounds % SKEW_ROUNDS == 1;
    case JOB_ALL:
        return q->by != QUERY_BY_TARGET;
    case JOB_TARGET:
        return q->by == QUERY_BY_TARGET && s->used && !s->own[q->field];
    case JOB_OWN:
        return s->own[j->field] != NULL;
    default:
        return true;
    }
}

/* The next job of the round, from c->next on. */
static bool take_job(struct collect *c, struct job *out)
{
    struct job *n = &c->next;
    while (n->kind != JOB_END) {
        if (n->at == jobs_of(c, n->kind)) {
            *n = (struct job){.kind = n->kind + 1};
            continue;
        }
        *out = job_at(c, n->kind, n->at++);
        if (job_wanted(c, out))
            return true;
    }
    return false;
}

static struct collect_health *health_of(struct collect *c, const struct job *j)
{
    switch (j->kind) {
    case JOB_CLOCK:
        return &c->health[HEALTH_CLOCK];
    case JOB_SAMPLES:
        return &c->health[HEALTH_SAMPLES];
    case JOB_OWN:
        return &c->health[j->field];
    default:
        return &c->health[c->queries.q[j->query].field];
    }
}

/* ---- text of a query ----------------------------------------------------------------------------
 */

struct pods_text {
    struct buf *out;
    size_t from;
};

static void add_pod(void *arg, const char *pod)
{
    struct pods_text *p = arg;
    if (!query_is_name(pod))
        return;
    if (p->out->n > p->from)
        buf_char(p->out, '|');
    query_pattern(p->out, pod);
}

static enum err_code fill_target(struct collect *c, const char *text, int target, struct buf *out,
                                 struct err *e)
{
    const struct collect_target *t = &c->slot[target].t;
    struct query_target q = {.namespace = t->namespace,
                             .name = t->name,
                             .kind = t->kind,
                             .namespaces = c->namespaces.n ? c->namespaces.p : NULL};
    struct buf pods = buf_init(QUERY_TEXT_MAX);
    if (c->o.pods && strstr(text, "{pods}")) {
        struct pods_text p = {.out = &pods};
        c->o.pods(c->o.ctx, target, add_pod, &p);
        if (pods.n == 0)
            buf_char(&pods, '-'); /* no pod is called that: an empty answer */
        q.pods = pods.p;
    }
    enum err_code rc = buf_check(&pods, e);
    if (!rc)
        rc = query_fill(text, &q, (int64_t)((double)c->queries.window_us / c->o.speed), out, e);
    buf_fini(&pods);
    return rc;
}

static enum err_code write_text(struct collect *c, const struct job *j, struct buf *out,
                                struct err *e)
{
    int64_t window_us = (int64_t)((double)c->queries.window_us / c->o.speed);
    struct query_target all = {.namespaces = c->namespaces.n ? c->namespaces.p : NULL};
    buf_clear(out);
    switch (j->kind) {
    case JOB_CLOCK:
        buf_str(out, "time()");
        return buf_check(out, e);
    case JOB_SAMPLES:
        return query_fill(c->cfg->skew_query, NULL, window_us, out, e);
    case JOB_ALL:
        return query_fill(c->queries.q[j->query].text, &all, window_us, out, e);
    case JOB_TARGET:
        return fill_target(c, c->queries.q[j->query].text, j->target, out, e);
    default:
        return fill_target(c, c->slot[j->target].own[j->field], j->target, out, e);
    }
}

/* ---- answers ------------------------------------------------------------------------------------
 */

void collect_failed(struct collect_health *h, const char *what, const struct err *e)
{
    h->n_failed++;
    (void)snprintf(h->error, sizeof h->error, "%.120s: %.190s", what, e->msg);
}

static void describe_clock(struct collect *c)
{
    struct collect_clock *k = &c->status.clock;
    int64_t most = c->cfg->skew_us;
    int64_t behind = most + BEHIND_US;
    bool server = k->known && (k->server_us > most || k->server_us < -most);
    bool date =
        k->date_us != INT64_MIN && (k->date_us > most + US_PER_S || k->date_us < -most - US_PER_S);
    bool samples = k->samples_us != INT64_MIN && (k->samples_us > most || k->samples_us < -behind);
    k->skewed = server || date || samples;
    k->text[0] = 0;
    if (server)
        (void)snprintf(k->text, sizeof k->text, "Prometheus' clock is %.1f s %s ours",
                       fabs((double)k->server_us) * 1e-6, k->server_us > 0 ? "ahead of" : "behind");
    else if (date)
        (void)snprintf(k->text, sizeof k->text, "the Date of answers is %.0f s %s our clock",
                       fabs((double)k->date_us) * 1e-6, k->date_us > 0 ? "ahead of" : "behind");
    else if (samples)
        (void)snprintf(k->text, sizeof k->text,
                       "the newest sample that stamps itself is %.1f s %s Prometheus' clock",
                       fabs((double)k->samples_us) * 1e-6,
                       k->samples_us > 0 ? "ahead of" : "behind");
}

static void take_clock(struct collect *c, const struct prom_result *r, const struct prom_info *info)
{
    struct collect_clock *k = &c->status.clock;
    double server_us = r->n_samples == 1 ? r->samples[0].v * 1e6 : (double)NAN;
    int64_t middle = info->sent_us + (info->received_us - info->sent_us) / 2;
    if (!(fabs(server_us) < 9e18))
        return;
    k->known = true;
    k->server_us = (int64_t)server_us - middle;
    k->date_us =
        info->date_us < 0 ? INT64_MIN : info->date_us + US_PER_S / 2 - middle; /* cut to seconds */
}

static void take_samples_clock(struct collect *c, const struct prom_result *r)
{
    double v = r->n_samples == 1 ? r->samples[0].v : (double)NAN;
    c->status.clock.samples_us = fabs(v) < 1e9 ? (int64_t)(v * 1e6) : INT64_MIN;
}

static void take_answer(struct collect *c, struct run *run, const struct prom_info *info)
{
    const struct job *j = &run->job;
    struct prom_result *r = &run->result;
    struct query own = {
        .by = QUERY_BY_TARGET, .aggregate = QUERY_ONE, .scale = 1, .field = j->field};
    switch (j->kind) {
    case JOB_CLOCK:
        take_clock(c, r, info);
        describe_clock(c);
        break;
    case JOB_SAMPLES:
        take_samples_clock(c, r);
        describe_clock(c);
        break;
    case JOB_OWN:
        if (c->slot[j->target].used)
            spread_result(c, &own, j->target, r);
        break;
    default:
        spread_result(c, &c->queries.q[j->query], j->target, r);
        break;
    }
}

static void note_health(struct collect *c, const struct run *run, enum err_code rc,
                        const struct prom_info *info, const struct err *e)
{
    struct collect_health *h = health_of(c, &run->job);
    const struct prom_result *r = &run->result;
    h->duration_us = info->elapsed_us;
    if (rc) {
        char what[120];
        const struct slot *s = run->job.target >= 0 ? &c->slot[run->job.target] : NULL;
        (void)snprintf(what, sizeof what, "query %s%s%.40s%s%.40s", h->name, s ? " of " : "",
                       s ? s->t.namespace : "", s ? "/" : "", s ? s->t.name : "");
        collect_failed(h, what, e);
        return;
    }
    h->n_ok++;
    h->last_ok_us = info->received_us;
    h->n_samples += r->n_series;
    h->warnings += r->n_warnings > 0;
    if (r->n_warnings)
        (void)snprintf(h->warning, sizeof h->warning, "%s", r->warning[0]);
}

static void start_runs(struct collect *c);

static void on_answer(void *ctx, enum err_code rc, const struct prom_info *info,
                      const struct err *e)
{
    struct run *run = ctx;
    struct collect *c = run->c;
    run->busy = false;
    c->n_busy--;
    if (c->closing)
        return;
    note_health(c, run, rc, info, e);
    if (!rc)
        take_answer(c, run, info);
    if (run->job.kind == JOB_CLOCK)
        c->clock_waiting = false;
    start_runs(c);
    collect_close_if_done(c);
}

/* ---- starting -----------------------------------------------------------------------------------
 */

static enum err_code start_run(struct collect *c, struct run *run, struct err *e)
{
    enum err_code rc = write_text(c, &run->job, &run->text, e);
    if (rc)
        return rc;
    struct prom_caps caps = {.bytes = BODY_MAX, .series = SERIES_MAX, .samples = SAMPLES_MAX, .labels = 128};
    struct prom_query q = {.query = run->text.p,
                           .caps = caps,
                           .timeout_us = c->cfg->timeout_us,
                           .deadline_us = c->cfg->timeout_us,
                           .attempts = 2,
                           .result = &run->result,
                           .done = on_answer,
                           .ctx = run};
    rc = prom_start(c->o.prom, &q, &run->id, e);
    if (!rc) {
        run->busy = true;
        c->n_busy++;
    }
    return rc;
}

static struct run *free_run(struct collect *c)
{
    for (int i = 0; i < RUNS_MAX && i < c->cfg->parallel; i++)
        if (!c->run[i].busy)
            return &c->run[i];
    return NULL;
}

/* What a field reports is of this round from its first query on; the clock of samples is not asked in every
 * round. */
static void begin_health(struct collect_health *h)
{
    h->error[0] = h->warning[0] = 0;
    h->n_samples = h->last_dropped = 0;
}

static void start_runs(struct collect *c)
{
    struct run *run;
    while (c->in_round && !c->clock_waiting && (run = free_run(c)) && take_job(c, &run->job)) {
        struct err e = {0};
        struct collect_health *h = health_of(c, &run->job);
        if (run->job.kind == JOB_CLOCK || run->job.kind == JOB_SAMPLES)
            begin_health(h);
        h->last_try_us = clock_wall_us();
        if (start_run(c, run, &e))
            collect_failed(h, h->name, &e);
        else
            c->clock_waiting = run->job.kind == JOB_CLOCK && !c->status.clock.known;
    }
}

void collect_close_if_done(struct collect *c)
{
    if (!c->in_round || c->n_busy || c->ticket->pending || c->next.kind != JOB_END)
        return;
    ring_close(c);
    memcpy(c->shown, c->health, sizeof c->shown);
    c->in_round = false;
    c->status.last_round_us = clock_mono_us() - c->round_mono_us;
}

/* Records cannot be placed on a clock that was set: back, or ahead past all of them. */
static void look_for_jump(struct collect *c, int64_t now_us)
{
    int64_t ahead = now_us - c->round_now_us;
    bool jumped = c->status.rounds > 0 && (ahead <= 0 || ahead > (int64_t)c->ring * c->o.step_us);
    if (!jumped)
        return;
    c->status.clock_jumps++;
    ring_clear(c);
}

void collect_start_round(struct collect *c, int64_t now_us)
{
    if (c->in_round) {
        c->status.skipped++;
        return;
    }
    look_for_jump(c, now_us);
    if (c->table_dirty)
        spread_table(c);
    for (c->end = c->o.max_targets; c->end > 0 && !c->slot[c->end - 1].used;)
        c->end--;
    for (int f = 0; f < FIELD_COUNT; f++)
        begin_health(&c->health[f]);
    spread_begin(c);
    c->status.rounds++;
    c->in_round = true;
    c->round_now_us = now_us;
    c->round_wall_us = clock_wall_us();
    c->round_mono_us = clock_mono_us();
    c->clock_waiting = false;
    c->next = (struct job){.kind = c->o.prom ? JOB_CLOCK : JOB_END};
    pods_api_start(c);
    start_runs(c);
    collect_close_if_done(c);
}

int64_t collect_tick(struct collect *c)
{
    int64_t next = c->o.prom ? prom_tick(c->o.prom) : INT64_MAX;
    start_runs(c);
    collect_close_if_done(c);
    return next;
}

bool collect_running(const struct collect *c)
{
    return c->in_round;
}

/* ---- health -------------------------------------------------------------------------------------
 */

int collect_health_count(const struct collect *c)
{
    int n = 0;
    for (int i = 0; i < HEALTH_COUNT; i++)
        n += c->health_on[i];
    return n;
}

const struct collect_health *collect_health_get(const struct collect *c, int i)
{
    for (int k = 0; k < HEALTH_COUNT; k++)
        if (c->health_on[k] && i-- == 0)
            return &c->shown[k];
    return NULL;
}

void collect_status(const struct collect *c, struct collect_status *out)
{
    *out = c->status;
}

size_t collect_bytes(const struct collect *c)
{
    size_t n = (size_t)c->o.max_targets, ring = (size_t)c->ring;
    size_t bytes = sizeof *c + n * sizeof *c->slot + c->table_size * sizeof *c->table +
                   n * ring * (FIELD_COUNT * sizeof *c->value + sizeof *c->oldest_us) +
                   ring * sizeof *c->t_us + n * FIELD_COUNT * (sizeof *c->acc + sizeof *c->counter);
    for (int i = 0; i < RUNS_MAX; i++) {
        const struct prom_result *r = &c->run[i].result;
        bytes += r->size_series * sizeof *r->series + r->size_labels * sizeof *r->labels +
                 r->size_samples * sizeof *r->samples + r->size_text + c->run[i].text.size;
    }
    return bytes;
}
