/* serve_read.c - what is only looked at: health, metrics, targets. */
#include <string.h>

#include "base/clock.h"
#include "daemon/serve_priv.h"

static double silent_s(const struct serve *s)
{
    return (double)(shared_silent_us(s->o.shared, clock_mono_us()) / US_PER_MS) / 1000;
}

static void put_leader(struct serve *s, struct json_writer *w)
{
    char holder[SHARED_NAME];
    shared_holder(s->o.shared, holder);
    json_put_bool(w, "leader", shared_leader(s->o.shared));
    json_put_str(w, "holder", holder[0] ? holder : NULL);
}

static void put_freeze(struct serve *s, struct json_writer *w)
{
    struct freeze_info info;
    char words[640];
    freeze_info(s->o.freeze, &info);
    freeze_words(&info, words, sizeof words);
    json_put_bool(w, "frozen", info.frozen);
    json_put_str(w, "freeze", words);
}

/* The main loop's own words, as they are: the writer has no verbatim text, so the object is closed
 * by hand. */
static void put_detail(struct call *c, const char *before)
{
    const struct doc *d = shared_borrow(c->s->o.shared, SHARED_HEALTH);
    buf_str(&c->out->body, before);
    if (d && d->text.n)
        buf_add(&c->out->body, d->text.p, d->text.n);
    else
        buf_str(&c->out->body, "null");
    buf_str(&c->out->body, "}\n");
    shared_return(c->s->o.shared, d);
}

/* Only a loop that stands still is worth a restart; everything else is said, not acted on by a
 * kubelet. */
void serve_health(struct call *c)
{
    char why[SHARED_REASON];
    bool stuck = shared_stuck(c->s->o.shared, clock_mono_us());
    bool ready = shared_ready(c->s->o.shared, why);
    struct json_writer w = call_answer(c, stuck ? 503 : 200);
    json_put_str(&w, "status", stuck ? "stuck" : "ok");
    json_put_f64(&w, "loop_silent_s", silent_s(c->s));
    json_put_bool(&w, "ready", ready);
    json_put_str(&w, "unready", ready ? NULL : why);
    put_leader(c->s, &w);
    put_freeze(c->s, &w);
    put_detail(c, ",\"detail\":");
}

void serve_ready(struct call *c)
{
    char why[SHARED_REASON];
    bool ready = shared_ready(c->s->o.shared, why);
    struct json_writer w = call_answer(c, ready ? 200 : 503);
    json_put_str(&w, "status", ready ? "ready" : "not ready");
    json_put_str(&w, "why", ready ? NULL : why);
    json_close(&w);
}

void serve_metrics(struct call *c)
{
    struct serve *s = c->s;
    metric_set(s->o.metrics, METRIC_LEADER, shared_leader(s->o.shared), NULL);
    metric_set(s->o.metrics, METRIC_FROZEN, freeze_on(s->o.freeze), NULL);
    metric_set(s->o.metrics, METRIC_QUEUE_DEPTH, (double)shared_commands_waiting(s->o.shared),
               METRIC_LABELS("commands"));
    metrics_write(s->o.metrics, &c->out->body);
    c->out->content_type = metrics_content_type;
    c->out->status = 200;
}

static bool before_first_round(struct call *c, const struct doc *d)
{
    if (d)
        return false;
    call_refuse(c, 503, "Ask again once /readyz says ready.", "no decision round has finished yet");
    return true;
}

static double age_s(const struct doc *d)
{
    return (double)((clock_mono_us() - d->published_us) / US_PER_MS) / 1000;
}

void serve_targets(struct call *c)
{
    struct serve *s = c->s;
    const struct doc *d = shared_borrow(s->o.shared, SHARED_TARGETS);
    if (!before_first_round(c, d)) {
        struct json_writer w = call_answer(c, 200);
        put_leader(s, &w);
        put_freeze(s, &w);
        json_put_f64(&w, "age_s", age_s(d));
        buf_str(&c->out->body, ",\"targets\":[");
        for (size_t i = 0; i < d->n_items; i++) {
            size_t end = i + 1 < d->n_items ? d->item[i + 1].at : d->text.n;
            buf_str(&c->out->body, i ? ",\n" : "\n");
            buf_add(&c->out->body, d->text.p + d->item[i].at, end - d->item[i].at);
        }
        buf_str(&c->out->body, "]}\n");
    }
    shared_return(s->o.shared, d);
}

void serve_target(struct call *c)
{
    char ns[SHARED_NAMESPACE];
    const char *p = NULL, *name = strchr(c->item, '/');
    size_t n = 0, n_ns = name ? (size_t)(name - c->item) : SHARED_NAMESPACE;
    const struct doc *d = shared_borrow(c->s->o.shared, SHARED_TARGETS);
    if (!before_first_round(c, d)) {
        if (n_ns < sizeof ns) {
            memcpy(ns, c->item, n_ns);
            ns[n_ns] = '\0';
        }
        if (n_ns < sizeof ns && doc_find(d, ns, name + 1, &p, &n)) {
            c->out->status = 200;
            buf_add(&c->out->body, p, n);
            buf_char(&c->out->body, '\n');
        } else {
            call_refuse(c, 404, "GET /api/v1/targets lists what this replica knows.",
                        "there is no target %.330s", c->item);
        }
    }
    shared_return(c->s->o.shared, d);
}

void serve_freeze_state(struct call *c)
{
    struct freeze_info info;
    freeze_info(c->s->o.freeze, &info);
    struct json_writer w = call_answer(c, 200);
    put_freeze(c->s, &w);
    json_put_bool(&w, "person", info.person);
    json_put_bool(&w, "config", info.config);
    json_put_bool(&w, "cluster", info.cluster);
    json_put_bool(&w, "persisted", info.persisted);
    json_close(&w);
}
