/* doctor_targets.c - steps 8 to 10: who else sizes the targets, what their owners state, how long
 * their units take to start. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/doctor_priv.h"

enum { SLOW_S = 180, WIDE_S = 120 }; /* preload; the guard steps wider */

const char *doctor_target(const struct live *l, char out[2 * TARGET_NAME])
{
    (void)snprintf(out, 2 * TARGET_NAME, "%s/%s", l->target.id.namespace_, l->name);
    return out;
}

/* ---- the cluster, once ------------------------------------------------------------------------
 */

static bool scales_known(struct doctor *d)
{
    bool all = true;
    for (size_t i = 0; i < roster_count(d->roster); i++) {
        struct live *l = roster_at(d->roster, i);
        cluster_scale_follow(d->cluster, &l->target.id, &l->scale, clock_mono_us());
        all = all && (l->scale.known || l->scale.error.code);
    }
    return all;
}

static void count_pods(struct doctor *d)
{
    size_t n = roster_count(d->roster);
    struct cluster_count *t = mem_zero(n + 1, sizeof *t);
    for (size_t i = 0; i < n; i++) {
        struct live *l = roster_at(d->roster, i);
        t[i] = (struct cluster_count){
            .id = &l->target.id, .scale = &l->scale, .startup = &l->startup};
    }
    struct cluster_index *x = cluster_index_new(t, n);
    cluster_count(d->cluster, x, t, n, d->now_us);
    cluster_index_free(x);
    mem_free(t);
}

/* What earlier leaders measured is in the status. */
static void restore_startup(struct doctor *d, struct live *l)
{
    const struct kube_obj *o =
        cluster_find(d->cluster, CLUSTER_TARGETS, l->target.id.namespace_, l->name);
    struct target_status status;
    struct json_doc *doc;
    if (l->source != LIVE_SPEC || !o || kube_raw_json(kube_as_raw(o), &doc, NULL))
        return;
    if (target_status_parse(doc, json_find(json_root(doc), "status"), &status, &l->status_error) ==
        ERR_OK)
        startup_restore(&l->startup, status.startup.seconds, status.startup.n);
    json_free(doc);
}

static bool open_cluster(struct doctor *d, char *why, size_t n)
{
    struct cluster_opts o = {.namespaces = (const char *const *)d->config->kube.namespaces.items,
                             .n_namespaces = d->config->kube.namespaces.n};
    int64_t until_us = clock_mono_us() + d->wait_us;
    struct err e;
    if (cluster_new(d->kube, &o, &d->cluster, &e)) {
        (void)snprintf(why, n, "%s", e.msg);
        return false;
    }
    while (!cluster_synced(d->cluster, why, n)) {
        if (clock_mono_us() > until_us)
            return false;
        cluster_tick(d->cluster, clock_mono_us());
        (void)kube_poll(d->kube, 50 * US_PER_MS);
    }
    d->roster = roster_new(&(struct roster_opts){.config = d->config, .cluster = d->cluster});
    (void)roster_sync(d->roster, d->now_us);
    while (!scales_known(d) && clock_mono_us() <= until_us)
        (void)kube_poll(d->kube, 50 * US_PER_MS);
    for (size_t i = 0; i < roster_count(d->roster); i++)
        restore_startup(d, roster_at(d->roster, i));
    count_pods(d);
    (void)roster_sync(d->roster, d->now_us);
    return true;
}

bool doctor_need_roster(struct doctor *d, enum doctor_check c)
{
    char why[600] = "";
    if (d->roster)
        return true;
    if (!d->kube) {
        doctor_note(d, c, DOCTOR_SKIP, NULL, NULL, "waits for api-access");
    } else if (!d->may_read) {
        doctor_note(d, c, DOCTOR_SKIP, NULL, NULL, "waits for permissions: what must be read is refused");
    } else if (d->cluster) {
        doctor_note(d, c, DOCTOR_SKIP, NULL, NULL, "the cluster could not be listed");
    } else if (!open_cluster(d, why, sizeof why)) {
        doctor_note(d, c, DOCTOR_FAIL, NULL,
                    "A list that is refused: see permissions. A slow one: name the namespaces to "
                    "watch (kube.namespaces), or "
                    "give it longer with --wait.",
                    "the cluster could not be listed in %.0f s: %s", (double)d->wait_us * 1e-6,
                    why);
    } else {
        return true;
    }
    return false;
}

/* ---- 8 ownership ------------------------------------------------------------------------------
 */

static void see_owner(struct doctor *d, const struct live *l)
{
    bool acts = d->config->stage != STAGE_OBSERVE;
    char about[2 * TARGET_NAME];
    doctor_target(l, about);
    if (l->owner.kind != OWNER_NONE)
        doctor_note(d, DOCTOR_OWNERSHIP, acts ? DOCTOR_FAIL : DOCTOR_WARN, about, l->owner.advice,
                    "is sized by %s; sluice will not act on it", l->owner.owner);
    else if (l->source == LIVE_LABEL)
        doctor_note(d, DOCTOR_OWNERSHIP, acts ? DOCTOR_WARN : DOCTOR_OK, about,
                    "To have it acted on, describe it in a CapacityTarget: its status is where "
                    "safety state lives.",
                    "is known by its label alone, so it is only observed");
    else if (l->source == LIVE_CONFIG)
        doctor_note(d, DOCTOR_OWNERSHIP, acts ? DOCTOR_WARN : DOCTOR_OK, about,
                    "To have it acted on, describe it in a CapacityTarget.",
                    "is named in the configuration alone, so it is only observed");
    else if (!l->profile.managed && d->config->stage != STAGE_GLOBAL)
        doctor_note(d, DOCTOR_OWNERSHIP, acts ? DOCTOR_WARN : DOCTOR_OK, about,
                    "Label the workload sluice.dev/managed=true once its owner agrees that sluice "
                    "sizes it.",
                    "belongs to nobody else, and lacks the label that lets sluice act");
    else
        doctor_note(d, DOCTOR_OWNERSHIP, DOCTOR_OK, about, NULL, "belongs to nobody else");
}

void doctor_see_ownership(struct doctor *d)
{
    if (!doctor_need_roster(d, DOCTOR_OWNERSHIP))
        return;
    for (size_t i = 0; i < roster_count(d->roster); i++)
        see_owner(d, roster_at(d->roster, i));
    if (!roster_count(d->roster))
        doctor_note(d, DOCTOR_OWNERSHIP, DOCTOR_SKIP, NULL, NULL, "there is no target yet");
}

/* ---- 9 profile --------------------------------------------------------------------------------
 */

static void see_missing_choices(struct doctor *d, const struct live *l, const char *about)
{
    const struct profile *p = &l->profile;
    if (p->source[PROFILE_F_PRICE] == PROFILE_DEFAULTS)
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_WARN, about,
                    "State priceUsdPerHour of one unit: reports and the trade of cost against "
                    "latency are made with it.",
                    "price is the default, %.2f USD/h", p->price_usd_h);
    if (p->source[PROFILE_F_SLO_P99] == PROFILE_DEFAULTS)
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_WARN, about,
                    "State slo.p99Milliseconds: everything is decided to meet it.",
                    "latency target is the default, p99 %.0f ms", p->slo_p99_ms);
    if (p->units_min_safe == 0 && p->cls == CLASS_P0)
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_OK, about,
                    "State minSafeUnits if its owner knows it.",
                    "least safe size comes from history (95th percentile of the hour)");
    if (l->scale.known && l->scale.replicas > p->units_max)
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_WARN, about,
                    "Raise maxUnits, or expect it to be scaled in.",
                    "runs %d units, above its maximum of %d", l->scale.replicas, p->units_max);
    if (p->units_min_safe > p->units_max)
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_WARN, about, "One of the two is wrong.",
                    "least safe size %d is above the maximum %d", p->units_min_safe, p->units_max);
}

static void see_profile(struct doctor *d, const struct live *l, int64_t *gpus)
{
    const struct profile *p = &l->profile;
    char about[2 * TARGET_NAME];
    doctor_target(l, about);
    if (!l->scale.known)
        doctor_note(
            d, DOCTOR_PROFILE, DOCTOR_FAIL, about,
            "Does the workload exist, has its kind a /scale, and may it be read (permissions)?",
            "its size cannot be read: %s", l->scale.error.code ? l->scale.error.msg : "no answer");
    if (l->faults.n) {
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_FAIL, about,
                    "Nothing is guessed: correct it, and the target becomes active.", "%s",
                    l->faults.text);
        return;
    }
    if (l->hold == LIVE_HOLD_LEARNING) {
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_OK, about,
                    "Or state it: latency.serviceMilliseconds and slots, or a measured curve "
                    "(sluice calibrate).",
                    "its latency curve will be read from history when sluice starts");
        return;
    }
    if (l->policy_error.code)
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_FAIL, about,
                    "Correct the policy, or say policy: rules.", "%s", l->policy_error.msg);
    *gpus += (int64_t)p->units_max * p->gpus_per_unit;
    doctor_note(d, DOCTOR_PROFILE, DOCTOR_OK, about, NULL,
                "P%d, %d to %d units of %d GPUs at %.2f USD/h, p99 within %.0f ms in all but %.1f "
                "%% of the time",
                p->cls, p->units_min, p->units_max, p->gpus_per_unit, p->price_usd_h, p->slo_p99_ms,
                100 * p->slo_violation_max);
    see_missing_choices(d, l, about);
}

void doctor_see_profile(struct doctor *d)
{
    int64_t gpus = 0;
    if (!doctor_need_roster(d, DOCTOR_PROFILE))
        return;
    if (!roster_count(d->roster))
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_WARN, NULL,
                    "Create a CapacityTarget (docs/capacitytarget.md), or label a Deployment "
                    "sluice.dev/managed=true to observe it.",
                    "there is no target, so nothing is decided");
    for (size_t i = 0; i < roster_count(d->roster); i++)
        see_profile(d, roster_at(d->roster, i), &gpus);
    if (gpus > 0 && d->config->gpu_budget == 0)
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_OK, NULL,
                    "Set gpu_budget if they share fewer than that; the higher class goes first.",
                    "the targets' maxima add up to %lld GPUs, and no budget is set",
                    (long long)gpus);
    else if (d->config->gpu_budget > 0)
        doctor_note(d, DOCTOR_PROFILE, DOCTOR_OK, NULL, NULL,
                    "the targets share a budget of %lld GPUs; their maxima add up to %lld",
                    (long long)d->config->gpu_budget, (long long)gpus);
}

/* ---- 10 start-up ------------------------------------------------------------------------------
 */

static void see_startup(struct doctor *d, const struct live *l)
{
    char about[2 * TARGET_NAME];
    double p90_s = startup_quantile_s(&l->startup, 0.9);
    bool stated = l->profile.source[PROFILE_F_START] != PROFILE_UNSET;
    double s = isfinite(p90_s)
                   ? p90_s
                   : (double)(stated ? l->profile.start_us : d->config->defaults.start_us) * 1e-6;
    doctor_target(l, about);
    if (s > SLOW_S)
        doctor_note(d, DOCTOR_START_UP, DOCTOR_WARN, about,
                    "Preload what takes so long: model on the node's disk or in the image, image "
                    "pulled by a DaemonSet, a spare node. "
                    "Until then keep a higher min-safe.",
                    "units take %.0f s to become ready%s", s,
                    isfinite(p90_s) ? " (9 in 10 are faster)" : ", as stated");
    else if (isfinite(p90_s))
        doctor_note(d, DOCTOR_START_UP, DOCTOR_OK, about, NULL,
                    "9 in 10 of %d starts took at most %.0f s%s", l->startup.n, p90_s,
                    p90_s > WIDE_S ? "; over 2 min, so steps out are wider" : "");
    else
        doctor_note(d, DOCTOR_START_UP,
                    d->config->stage == STAGE_OBSERVE || stated ? DOCTOR_OK : DOCTOR_WARN, about,
                    "Restart one unit and look again: three starts make a measurement.",
                    "not measured yet; %.0f s is %s", s, stated ? "stated" : "the default");
}

void doctor_see_startup(struct doctor *d)
{
    if (!doctor_need_roster(d, DOCTOR_START_UP))
        return;
    for (size_t i = 0; i < roster_count(d->roster); i++)
        see_startup(d, roster_at(d->roster, i));
    if (!roster_count(d->roster))
        doctor_note(d, DOCTOR_START_UP, DOCTOR_SKIP, NULL, NULL, "there is no target yet");
}
