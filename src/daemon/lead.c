#include "daemon/lead.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

struct lead {
    struct lead_opts o;
    struct http_client *http;
    struct kube *kube;
    struct lease *lease;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool stop, release;   /* under lock */
    char holder[256];     /* under lock */
};

static bool note(struct lead *l)
{
    const char *holder = lease_holder(l->lease);
    (void)pthread_mutex_lock(&l->lock);
    bool changed = strcmp(l->holder, holder) != 0;
    (void)snprintf(l->holder, sizeof l->holder, "%s", holder);
    (void)pthread_mutex_unlock(&l->lock);
    return changed;
}

/* Waits, or until told to stop; true when to stop. */
static bool wait_turn(struct lead *l, int64_t us)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + us % US_PER_S * 1000;
    until.tv_sec += us / US_PER_S + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    (void)pthread_mutex_lock(&l->lock);
    while (!l->stop && pthread_cond_timedwait(&l->turn, &l->lock, &until) == 0)
        continue;
    bool stop = l->stop;
    (void)pthread_mutex_unlock(&l->lock);
    return stop;
}

static void *run(void *arg)
{
    struct lead *l = arg;
    uint64_t epoch = 0;
    do {
        struct err e = {0};
        enum err_code rc = lease_try(l->lease, &e);
        if (rc)
            log_write(l->o.log, LOG_WARN, "lead", "lease cannot be asked for", "error=\"%s\"", e.msg);
        if (note(l) || lease_epoch(l->lease) != epoch) {
            epoch = lease_epoch(l->lease);
            log_write(l->o.log, LOG_INFO, "lead", "holder", "holder=%s mine=%d lease=%s/%s",
                      lease_holder(l->lease), lease_held(l->lease), l->o.lease.ns, l->o.lease.name);
            if (l->o.changed)
                l->o.changed(l->o.ctx);
        }
    } while (!wait_turn(l, lease_wait_us(l->lease)));
    struct err e;
    if (l->release && lease_release(l->lease, &e))
        log_write(l->o.log, LOG_WARN, "lead", "lease is not given back", "error=\"%s\"", e.msg);
    return NULL;
}

static void lead_free(struct lead *l)
{
    lease_free(l->lease);
    kube_free(l->kube);
    http_client_free(l->http);
    (void)pthread_cond_destroy(&l->turn);
    (void)pthread_mutex_destroy(&l->lock);
    mem_free(l);
}

enum err_code lead_start(const struct lead_opts *o, struct lead **out, struct err *e)
{
    struct lead *l = mem_zero(1, sizeof *l);
    struct kube_opts k = kube_opts_default();
    pthread_condattr_t monotonic;
    l->o = *o;
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&l->turn, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    k.deadline_us = o->lease.duration_us - o->lease.renew_us;
    enum err_code rc = http_client_new(&l->http, e);
    if (!rc)
        rc = kube_new(o->config, l->http, &k, &l->kube, e);
    if (!rc)
        rc = lease_new(l->kube, &o->lease, &l->lease, e);
    int sys = rc ? 0 : pthread_create(&l->thread, NULL, run, l);
    if (sys)
        rc = err_sys(e, sys, "start the lease thread");
    if (rc) {
        lead_free(l);
        return rc;
    }
    *out = l;
    return ERR_OK;
}

void lead_stop(struct lead *l, bool release)
{
    if (!l)
        return;
    (void)pthread_mutex_lock(&l->lock);
    l->stop = true;
    l->release = release;
    (void)pthread_cond_signal(&l->turn);
    (void)pthread_mutex_unlock(&l->lock);
    http_wake(l->http);
    (void)pthread_join(l->thread, NULL);
    lead_free(l);
}

bool lead_held(const struct lead *l)
{
    return lease_held(l->lease);
}

int64_t lead_held_until_us(const struct lead *l)
{
    return lease_held_until_us(l->lease);
}

uint64_t lead_epoch(const struct lead *l)
{
    return lease_epoch(l->lease);
}

void lead_holder(struct lead *l, char out[256])
{
    (void)pthread_mutex_lock(&l->lock);
    (void)snprintf(out, 256, "%s", l->holder);
    (void)pthread_mutex_unlock(&l->lock);
}
