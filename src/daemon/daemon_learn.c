/* daemon_learn.c - what the past of a target is good for: forecasts, a latency curve. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "daemon/daemon_priv.h"

/* The history runs on the wall clock; decision time is the same but in a rehearsal, which has no past to speak of. */
static void push_points(struct daemon *d, struct live *l, const struct past_answer *a)
{
    struct target *t = &l->target;
    struct forecast_config f = forecast_config_default();
    struct forecaster *fresh = forecast_new(&f);
    struct err e;
    int64_t pushed = 0;
    for (int32_t i = 0; i < a->n_points; i++) {
        int64_t at_us = a->start_us + i * FORECAST_POINT_US;
        struct calendar_point when = calendar_at(&d->calendar, at_us);
        if (t->point_us != INT64_MIN && at_us >= t->point_us)
            break; /* live from here on */
        if (forecast_push(fresh, at_us, a->point[i], &when, &e))
            break;
        pushed++;
    }
    forecast_free(t->forecaster);
    t->forecaster = fresh;
    forecast_get(fresh, &t->forecast);
    log_write(d->log, LOG_INFO, "past", "history read", "target=%s/%s points=%lld usable=%d", t->id.namespace_,
              l->name, (long long)pushed, t->forecast.usable);
}

void daemon_learn(struct daemon *d, struct live *l, const struct past_answer *a)
{
    struct profile p;
    struct profile_faults faults;
    char what[512];
    profile_init(&p);
    profile_faults_init(&faults);
    (void)snprintf(what, sizeof what, "history of %.200s/%.200s", l->target.id.namespace_, l->name);
    if (a->rc)
        log_write(d->log, LOG_WARN, "past", "history cannot be read", "target=%s/%s error=\"%s\"",
                  l->target.id.namespace_, l->name, a->error.msg);
    if (!a->rc && d->pace.speed == 1)
        push_points(d, l, a);
    if (a->calibrated)
        profile_set_curve(&p, PROFILE_HISTORY, a->curve.point, a->curve.n, what, &faults);
    else if (*a->note)
        log_write(d->log, LOG_INFO, "past", "no latency curve", "target=%s/%s why=\"%s\"", l->target.id.namespace_,
                  l->name, a->note);
    if (faults.n)
        log_write(d->log, LOG_WARN, "past", "curve cannot be used", "why=\"%s\"", faults.text);
    roster_set_history(d->roster, l, &p);
}
