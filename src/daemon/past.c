#include "daemon/past.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/backfill.h"
#include "forecast/forecaster.h"
#include "history/clean.h"
#include "history/table.h"

enum { QUESTIONS_MAX = 2000, STEP_US = 60 * 1000000, POINT_STEPS = 5, FIELDS = 5 };

/* Read for every target; the first must be there. */
static const enum field fields[FIELDS] = {FIELD_QPS, FIELD_UNITS_READY, FIELD_P99_LATENCY_MS, FIELD_P50_LATENCY_MS,
                                          FIELD_GPU_UTIL};

struct past {
    struct past_opts o;
    struct http_client *http;
    struct http_server *server;
    struct prom *prom;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool stop;                        /* under lock, as all below */
    struct past_question *question;   /* [QUESTIONS_MAX], a ring */
    size_t first, n_questions;
    struct past_answer *answer;       /* [QUESTIONS_MAX] */
    size_t n_answers;
};

/* ---- one target ------------------------------------------------------------------------------- */

static bool stopped(struct past *p)
{
    (void)pthread_mutex_lock(&p->lock);
    bool stop = p->stop;
    (void)pthread_mutex_unlock(&p->lock);
    return stop;
}

static bool go_on(void *ctx, int64_t done, int64_t all, int64_t samples)
{
    (void)done;
    (void)all;
    (void)samples;
    return !stopped(ctx);
}

/* The query of one field for one target alone; false when there is none. */
static bool query_of(const struct past *p, enum field f, const struct past_question *q, struct buf *text,
                     double *scale)
{
    struct query_target t = {.namespace = q->namespace_, .name = q->name, .kind = q->kind};
    struct err e;
    *scale = 1;
    if (q->own[f])
        return !query_fill(q->own[f], &t, p->o.queries->window_us, text, &e);
    return !query_for_target(p->o.queries, f, &t, p->o.queries->window_us, text, scale, &e) &&
           !buf_check(text, &e) && text->n > 0;
}

static enum err_code fetch(struct past *p, const struct past_question *q, struct history *h, struct err *e)
{
    struct buf text[FIELDS];
    struct backfill_query query[FIELDS];
    struct import_cfg cfg;
    struct raw raw;
    struct backfill_report report;
    struct backfill b = {.prom = p->prom,
                         .http = p->http,
                         .queries = query,
                         .end_us = prom_align(q->until_us, STEP_US),
                         .step_us = STEP_US,
                         .parallel = 2,
                         .progress = go_on,
                         .ctx = p};
    b.start_us = b.end_us - prom_align(p->o.span_us, STEP_US);
    for (int i = 0; i < FIELDS; i++) {
        double scale;
        text[i] = buf_init(1 << 16);
        if (query_of(p, fields[i], q, &text[i], &scale))
            query[b.n_queries++] = (struct backfill_query){.field = fields[i], .query = text[i].p, .scale = scale};
    }
    opt_init(&import_table, &cfg);
    raw_init(&raw);
    enum err_code rc = b.n_queries && query[0].field == FIELD_QPS
                           ? ERR_OK
                           : err_set(e, ERR_MISSING, "the load has no query for one target alone; history is not read");
    if (!rc)
        rc = backfill_run(&b, &cfg, &raw, &report, e);
    if (!rc && raw.n_usable == 0)
        rc = err_set(e, ERR_MISSING, "Prometheus has no samples of it");
    if (!rc)
        rc = clean(&(struct clean_cfg){.step_us = STEP_US}, &raw, h, e);
    raw_fini(&raw);
    opt_fini(&import_table, &cfg);
    for (int i = 0; i < FIELDS; i++)
        buf_fini(&text[i]);
    return rc;
}

/* Means of five minutes on the forecaster's grid; missing where over half is. */
static void fill_points(const struct history *h, struct past_answer *a)
{
    const float *qps = h->col[FIELD_QPS];
    int64_t first = (h->start_us + FORECAST_POINT_US - 1) / FORECAST_POINT_US * FORECAST_POINT_US;
    int64_t at = (first - h->start_us) / h->step_us;
    a->start_us = first;
    if (!qps || at >= h->n)
        return;
    a->n_points = (int32_t)((h->n - at) / POINT_STEPS);
    a->point = mem_zero((size_t)a->n_points + 1, sizeof *a->point);
    for (int32_t i = 0; i < a->n_points; i++) {
        double sum = 0;
        int n = 0;
        for (int64_t j = at + i * POINT_STEPS; j < at + (i + 1) * POINT_STEPS; j++)
            if (isfinite(qps[j])) {
                sum += (double)qps[j];
                n++;
            }
        a->point[i] = 2 * n > POINT_STEPS ? (float)(sum / n) : NAN;
    }
}

static void calibrate(const struct history *h, const struct past_question *q, struct past_answer *a)
{
    struct calibrate_history c = {.qps = h->col[FIELD_QPS],
                                  .units_ready = h->col[FIELD_UNITS_READY],
                                  .p50_ms = h->col[FIELD_P50_LATENCY_MS],
                                  .p99_ms = h->col[FIELD_P99_LATENCY_MS],
                                  .gpu_util = h->col[FIELD_GPU_UTIL],
                                  .barred = h->barred,
                                  .n = h->n,
                                  .step_us = h->step_us,
                                  .slo_ms = q->slo_ms};
    struct err e = {0};
    if (!(q->slo_ms > 0))
        err_set_text(&e, ERR_MISSING, "no latency target is stated");
    else if (!c.units_ready || !c.p99_ms)
        err_set_text(&e, ERR_MISSING, "%s has no samples", c.p99_ms ? "units_ready" : "p99_latency_ms");
    else
        a->calibrated = !calibrate_from_history(&c, &a->curve, &e);
    if (!a->calibrated)
        (void)snprintf(a->note, sizeof a->note, "%.255s", e.msg);
}

static void read_past(struct past *p, const struct past_question *q, struct past_answer *a)
{
    struct history h = {0};
    memset(a, 0, sizeof *a);
    a->asked = *q;
    memset(a->asked.own, 0, sizeof a->asked.own);
    a->rc = fetch(p, q, &h, &a->error);
    if (!a->rc) {
        fill_points(&h, a);
        calibrate(&h, q, a);
    }
    history_close(&h);
}

/* ---- questions -------------------------------------------------------------------------------- */

static void question_copy(struct past_question *to, const struct past_question *q)
{
    *to = *q;
    for (int f = 0; f < FIELD_COUNT; f++)
        to->own[f] = q->own[f] ? mem_strdup(q->own[f]) : NULL;
}

static void question_fini(struct past_question *q)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        mem_free((char *)(uintptr_t)q->own[f]);
}

/* ---- the thread ------------------------------------------------------------------------------- */

static bool next_question(struct past *p, struct past_question *q)
{
    (void)pthread_mutex_lock(&p->lock);
    while (!p->stop && !p->n_questions)
        (void)pthread_cond_wait(&p->turn, &p->lock);
    bool got = !p->stop;
    if (got) {
        *q = p->question[p->first];
        p->first = (p->first + 1) % QUESTIONS_MAX;
        p->n_questions--;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return got;
}

static void *run(void *arg)
{
    struct past *p = arg;
    struct past_question q;
    struct past_answer *a = mem_zero(1, sizeof *a);
    while (next_question(p, &q)) {
        read_past(p, &q, a);
        question_fini(&q);
        (void)pthread_mutex_lock(&p->lock);
        bool room = p->n_answers < QUESTIONS_MAX;
        if (room)
            p->answer[p->n_answers++] = *a;
        (void)pthread_mutex_unlock(&p->lock);
        if (!room)
            past_answer_fini(a);
        if (p->o.ready)
            p->o.ready(p->o.ctx);
    }
    mem_free(a);
    return NULL;
}

static void past_free(struct past *p)
{
    for (size_t i = 0; i < p->n_answers; i++)
        past_answer_fini(&p->answer[i]);
    for (size_t i = 0; i < p->n_questions; i++)
        question_fini(&p->question[(p->first + i) % QUESTIONS_MAX]);
    prom_free(p->prom);
    http_client_free(p->http);
    http_server_free(p->server);
    (void)pthread_cond_destroy(&p->turn);
    (void)pthread_mutex_destroy(&p->lock);
    mem_free(p->question);
    mem_free(p->answer);
    mem_free(p);
}

enum err_code past_start(const struct past_opts *o, struct past **out, struct err *e)
{
    struct past *p = mem_zero(1, sizeof *p);
    struct prom_opts prom = prom_opts_default();
    p->o = *o;
    prom.timeout_us = 4 * o->timeout_us; /* weeks take longer than an instant */
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->turn, NULL);
    p->question = mem_zero(QUESTIONS_MAX, sizeof *p->question);
    p->answer = mem_zero(QUESTIONS_MAX, sizeof *p->answer);
    enum err_code rc = http_client_new(&p->http, e);
    if (!rc)
        rc = http_server_new(o->server, &p->server, e);
    if (!rc)
        prom_new(p->http, p->server, &prom, &p->prom);
    int sys = rc ? 0 : pthread_create(&p->thread, NULL, run, p);
    if (sys)
        rc = err_sys(e, sys, "start the history thread");
    if (rc) {
        past_free(p);
        return rc;
    }
    *out = p;
    return ERR_OK;
}

void past_stop(struct past *p)
{
    if (!p)
        return;
    (void)pthread_mutex_lock(&p->lock);
    p->stop = true;
    (void)pthread_cond_signal(&p->turn);
    (void)pthread_mutex_unlock(&p->lock);
    http_wake(p->http);
    (void)pthread_join(p->thread, NULL);
    past_free(p);
}

bool past_ask(struct past *p, const struct past_question *q)
{
    (void)pthread_mutex_lock(&p->lock);
    bool room = p->n_questions < QUESTIONS_MAX;
    if (room)
        question_copy(&p->question[(p->first + p->n_questions++) % QUESTIONS_MAX], q);
    (void)pthread_cond_signal(&p->turn);
    (void)pthread_mutex_unlock(&p->lock);
    return room;
}

bool past_take(struct past *p, struct past_answer *out)
{
    (void)pthread_mutex_lock(&p->lock);
    bool got = p->n_answers > 0;
    if (got)
        *out = p->answer[--p->n_answers];
    (void)pthread_mutex_unlock(&p->lock);
    return got;
}

void past_answer_fini(struct past_answer *a)
{
    mem_free(a->point);
    a->point = NULL;
}

size_t past_waiting(struct past *p)
{
    (void)pthread_mutex_lock(&p->lock);
    size_t n = p->n_questions;
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}
