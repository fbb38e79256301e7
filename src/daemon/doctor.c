#include "daemon/doctor.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/doctor_priv.h"

/* ---- notes ------------------------------------------------------------------------------------
 */

void doctor_note(struct doctor *d, enum doctor_check c, enum doctor_verdict v, const char *about,
                 const char *todo, const char *fmt, ...)
{
    struct doctor_result *r = &d->report->check[c];
    va_list ap, again;
    if (v > r->verdict)
        r->verdict = v;
    if (r->n == DOCTOR_NOTES_MAX) {
        r->hidden++;
        return;
    }
    va_start(ap, fmt);
    va_copy(again, ap);
    int n_seen = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ASSERT(n_seen >= 0);
    char *seen = mem_zero((size_t)n_seen + 1, 1);
    (void)vsnprintf(seen, (size_t)n_seen + 1, fmt, again);
    va_end(again);
    r->notes = mem_grow(r->notes, r->n + 1, sizeof *r->notes);
    r->notes[r->n++] = (struct doctor_note){
        .verdict = v,
        .about = mem_strdup(about ? about : ""),
        .seen = seen,
        .todo = mem_strdup(todo ? todo : ""),
    };
}

void doctor_fini(struct doctor_report *r)
{
    for (int c = 0; c < DOCTOR_CHECKS; c++) {
        for (size_t i = 0; i < r->check[c].n; i++) {
            mem_free(r->check[c].notes[i].about);
            mem_free(r->check[c].notes[i].seen);
            mem_free(r->check[c].notes[i].todo);
        }
        mem_free(r->check[c].notes);
        r->check[c] = (struct doctor_result){0};
    }
}

/* ---- the visit --------------------------------------------------------------------------------
 */

static void (*const see[])(struct doctor *d) = {
    [DOCTOR_API_ACCESS] = doctor_see_api,          [DOCTOR_CRD] = doctor_see_crd,
    [DOCTOR_PERMISSIONS] = doctor_see_permissions, [DOCTOR_PROMETHEUS] = doctor_see_prometheus,
    [DOCTOR_QUERIES] = doctor_see_queries,         [DOCTOR_HISTORY] = doctor_see_history,
    [DOCTOR_CLOCK_SKEW] = doctor_see_clocks,       [DOCTOR_OWNERSHIP] = doctor_see_ownership,
    [DOCTOR_PROFILE] = doctor_see_profile,         [DOCTOR_START_UP] = doctor_see_startup,
    [DOCTOR_STORE_AND_FREEZE] = doctor_see_store,  [DOCTOR_STAGE] = doctor_see_stage,
};
static_assert(ARRAY_LEN(see) == DOCTOR_CHECKS, "a function per check");

enum err_code doctor_run(const struct doctor_opts *o, struct doctor_report *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    struct doctor d = {
        .o = o,
        .config = o->config,
        .report = out,
        .now_us = clock_wall_us(),
        .wait_us = o->wait_us ? o->wait_us : 60 * US_PER_S,
        .prom_skew_us = INT64_MIN,
        .samples_skew_us = INT64_MIN,
    };
    (void)snprintf(out->cluster, sizeof out->cluster, "%s", o->config->cluster);
    (void)snprintf(out->stage, sizeof out->stage, "%s", run_stage_names[o->config->stage]);
    enum err_code rc = http_client_new(&d.http, e);
    if (rc)
        return rc;
    for (int c = 0; c < DOCTOR_CHECKS; c++) {
        if (o->progress)
            o->progress(o->ctx, (enum doctor_check)c);
        see[c](&d);
        ASSERT(out->check[c].n > 0);
    }
    roster_free(d.roster);
    cluster_free(d.cluster);
    prom_free(d.prom);
    http_server_free(d.prom_server);
    mem_free(d.prom_password);
    kube_free(d.kube);
    kube_config_free(d.kube_config);
    http_client_free(d.http);
    return ERR_OK;
}
