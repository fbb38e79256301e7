/* daemon_reload.c - another configuration while running: SIGHUP, or a file that changed (a ConfigMap's link was swapped).
 *
 * The new file is read whole and checked; if it is wrong, or changes what only a start can change, it is refused with
 * the reason in log and health, and the old one stays in force. */
#include <string.h>

#include "base/clock.h"
#include "daemon/daemon_priv.h"

enum { LOOK_US = 1000000 };

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool changed(struct daemon *d)
{
    struct daemon_config *c = &d->config;
    struct stat st;
    if (!c->path || d->mono_us - c->looked_us < LOOK_US)
        return false;
    c->looked_us = d->mono_us;
    if (stat(c->path, &st) != 0 || same_file(&st, &c->seen)) /* absent for a moment while a link is swapped */
        return false;
    c->seen = st;
    return true;
}

/* In force from here on, or not at all: queries are the last that can be refused. */
static enum err_code take(struct daemon *d, struct err *e)
{
    struct run_config *next, *old = d->config.c;
    enum err_code rc = daemon_load_config(d, &next, e);
    if (rc)
        return rc;
    if ((rc = run_config_check_reload(old, next, e)) ||
        (rc = collect_requery(d->sources.collect, &next->queries, e))) {
        config_free(next);
        return rc;
    }
    d->config.c = next;
    freeze_set_config(d->freeze, next->freeze || next->guard.freeze);
    roster_reconfigure(d->roster, next);
    if (old != d->config.start)
        config_free(old);
    return ERR_OK;
}

void daemon_look_for_config(struct daemon *d)
{
    struct err e = {0};
    if (!changed(d) && !d->reload)
        return;
    d->reload = false;
    enum err_code rc = take(d, &e);
    d->config_error = e;
    d->config_error.code = rc;
    metric_set(d->metrics, METRIC_RELOAD_OK, !rc, NULL);
    if (rc) {
        log_write(d->log, LOG_ERROR, "config", "new configuration is refused, the old one stays", "error=\"%s\"", e.msg);
    } else {
        metric_set(d->metrics, METRIC_RELOAD_TIME, (double)daemon_wall_us(d) * 1e-6, NULL);
        log_write(d->log, LOG_INFO, "config", "new configuration", "policy=%s rules=%s stage=%s", d->config.c->policy,
                  d->config.c->rules, run_stage_names[d->config.c->stage]);
    }
    daemon_keep_note(d, &(struct store_note){
                            .kind = STORE_NOTE_RELOAD, .author = d->replica, .text = rc ? e.msg : "accepted"});
    if (serve_reload_tls(d->serve, &e))
        log_write(d->log, LOG_WARN, "serve", "certificates are not read again", "error=\"%s\"", e.msg);
}
