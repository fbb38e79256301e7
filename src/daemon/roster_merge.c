/* roster_merge.c - one target's profile from its layers, its specification, and the policies that follow from it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "daemon/roster_priv.h"

/* The layers of one merge, lowest first. */
struct layers {
    struct profile defaults, template, workload, config, spec;
    struct profile_faults faults;
};

/* ---- layers ----------------------------------------------------------------------------------- */

static void read_defaults(const struct run_config *c, struct layers *x)
{
    const struct run_defaults *d = &c->defaults;
    struct profile *p = &x->defaults;
    struct profile_faults *f = &x->faults;
    static const char what[] = "defaults";
    if (d->service_ms > 0) {
        profile_set_num(p, PROFILE_DEFAULTS, PROFILE_F_SERVICE, d->service_ms, what, f);
        profile_set_int(p, PROFILE_DEFAULTS, PROFILE_F_SLOTS, d->slots, what, f);
    }
    if (d->slo_p99_us > 0)
        profile_set_num(p, PROFILE_DEFAULTS, PROFILE_F_SLO_P99, (double)d->slo_p99_us / 1000, what, f);
    profile_set_num(p, PROFILE_DEFAULTS, PROFILE_F_SLO_VIOLATION, d->slo_violation_max, what, f);
    profile_set_num(p, PROFILE_DEFAULTS, PROFILE_F_PRICE, d->price_usd_h, what, f);
    profile_set_int(p, PROFILE_DEFAULTS, PROFILE_F_GPUS, d->gpus_per_unit, what, f);
    profile_set_int(p, PROFILE_DEFAULTS, PROFILE_F_UNITS_MIN, 1, what, f);
    profile_set_int(p, PROFILE_DEFAULTS, PROFILE_F_CLASS, CLASS_P0, what, f);
}

static const struct run_target *configured(const struct run_config *c, const struct live *l)
{
    const struct run_target *t = c->targets.items;
    for (size_t i = 0; i < c->targets.n; i++)
        if (strcmp(t[i].namespace_, l->target.id.namespace_) == 0 && strcmp(t[i].name, l->target.id.name) == 0 &&
            strcmp(t[i].kind, l->target.id.kind) == 0)
            return &t[i];
    return NULL;
}

static void read_configured(const struct run_target *t, struct layers *x)
{
    struct profile *p = &x->config;
    struct profile_faults *f = &x->faults;
    char what[160];
    (void)snprintf(what, sizeof what, "targets: %.40s %.40s/%.60s", t->kind, t->namespace_, t->name);
    const struct {
        enum profile_field field;
        int64_t v;
        bool set;
    } ints[] = {
        {PROFILE_F_UNITS_MIN, t->units_min, true},
        {PROFILE_F_UNITS_MAX, t->units_max, true},
        {PROFILE_F_UNITS_MIN_SAFE, t->units_min_safe, t->units_min_safe > 0},
        {PROFILE_F_GPUS, t->gpus_per_unit, t->gpus_per_unit > 0},
        {PROFILE_F_SLOTS, t->slots, t->slots > 0},
        {PROFILE_F_CLASS, t->cls, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(ints); i++)
        if (ints[i].set)
            profile_set_int(p, PROFILE_CONFIG, ints[i].field, ints[i].v, what, f);
    if (t->price_usd_h > 0)
        profile_set_num(p, PROFILE_CONFIG, PROFILE_F_PRICE, t->price_usd_h, what, f);
    if (t->slo_p99_us > 0)
        profile_set_num(p, PROFILE_CONFIG, PROFILE_F_SLO_P99, (double)t->slo_p99_us / 1000, what, f);
    if (t->service_ms > 0)
        profile_set_num(p, PROFILE_CONFIG, PROFILE_F_SERVICE, t->service_ms, what, f);
    if (t->policy)
        profile_set_text(p, PROFILE_CONFIG, PROFILE_F_POLICY, t->policy, what, f);
    if (t->policy_file)
        profile_set_text(p, PROFILE_CONFIG, PROFILE_F_POLICY_FILE, t->policy_file, what, f);
}

static void read_workload(const struct kube_raw *raw, const struct live *l, struct layers *x)
{
    char what[512];
    struct json_doc *doc;
    struct err e;
    (void)snprintf(what, sizeof what, "%.60s %.200s/%.200s", l->target.id.kind, raw->meta.ns, raw->meta.name);
    profile_read_labels(&x->workload, PROFILE_WORKLOAD, what, raw->labels, raw->n_labels, raw->annotations,
                        raw->n_annotations, &x->faults);
    if (kube_raw_json(raw, &doc, &e)) {
        profile_fault(&x->faults, "%s: %s", what, e.msg);
        return;
    }
    profile_read_template(&x->template, what, json_find(json_find(json_root(doc), "spec"), "template"), &x->faults);
    json_free(doc);
}

static void read_spec(const struct roster *r, const struct live *l, struct layers *x)
{
    const struct kube_obj *o = cluster_find(r->o.cluster, CLUSTER_TARGETS, l->target.id.namespace_, l->name);
    struct json_doc *doc;
    struct profile_id id = {0};
    struct err e;
    char what[512];
    if (!o)
        return;
    (void)snprintf(what, sizeof what, "CapacityTarget %.200s/%.200s", o->ns, o->name);
    if (kube_raw_json(kube_as_raw(o), &doc, &e)) {
        profile_fault(&x->faults, "%s: %s", what, e.msg);
        return;
    }
    profile_read_spec(&x->spec, what, json_find(json_root(doc), "spec"), &id, &x->faults);
    json_free(doc);
}

/* ---- policies --------------------------------------------------------------------------------- */

/* A share of the targets, always the same ones. */
static bool in_share(const struct live *l, double share)
{
    struct hash h = hash_init(0);
    hash_str(&h, l->target.id.namespace_);
    hash_str(&h, l->name);
    return rng_to_unit(hash_value(&h)) < share;
}

static void choose_both(struct roster *r, struct live *l)
{
    const struct run_config *c = r->o.config;
    const struct profile *p = &l->profile;
    struct target *t = &l->target;
    const char *file = p->policy_file ? p->policy_file : c->policy_file;
    const char *champion = p->policy ? p->policy : p->policy_file ? "learned" : c->policy;
    bool swap = c->challenger && c->challenger_share > 0 && in_share(l, c->challenger_share);
    struct choose choose = {
        .spec = &t->spec,
        .guard = &c->guard,
        .policy = swap ? c->challenger : champion,
        .policy_file = file,
        .rules = c->rules,
        .baseline = c->on_error == RUN_ON_ERROR_BASELINE,
    };
    if (strcmp(choose.policy, "learned") == 0 && !file)
        err_set_text(&l->policy_error, ERR_INVAL, "policy: learned, but no policy file is given");
    else if (!target_configure(t, &t->main, &choose, r->o.seed, &l->policy_error))
        l->policy_error = (struct err){0};
    choose.policy = swap ? champion : c->challenger;
    struct err e;
    if (!choose.policy)
        target_policy_fini(&t->challenger);
    else if (target_configure(t, &t->challenger, &choose, r->o.seed, &e))
        log_write(r->o.log, LOG_WARN, "roster", "challenger cannot be used", "target=%s/%s error=\"%s\"",
                  t->id.namespace_, l->name, e.msg);
}

/* Whoever acts from now on goes on with the memory of who acted until now. */
static void configure(struct roster *r, struct live *l)
{
    struct target *t = &l->target;
    bool had = target_acting(t)->ready;
    struct guard_state guard = target_acting(t)->state.guard;
    choose_both(r, l);
    if (had)
        target_acting(t)->state.guard = guard;
}

/* Of everything a latency table is made from. */
static uint64_t latency_hash(const struct profile *p)
{
    struct hash h = hash_init(2);
    hash_f64(&h, p->service_ms);
    hash_f64(&h, p->slo_p99_ms);
    hash_f64(&h, p->source[PROFILE_F_UNIT_QPS] != PROFILE_UNSET ? p->unit_qps : 0);
    hash_i64(&h, p->slots);
    hash_i64(&h, p->units_max);
    for (int i = 0; p->curve && i < p->n_curve; i++) {
        hash_f64(&h, p->curve[i].load_per_unit);
        hash_f64(&h, p->curve[i].p50_ms);
        hash_f64(&h, p->curve[i].p99_ms);
    }
    return hash_value(&h) | 1;
}

/* A table takes milliseconds, and a profile is merged whenever its workload changes. */
static enum err_code set_latency(struct live *l)
{
    struct latency_model latency;
    uint64_t of = latency_hash(&l->profile);
    if (l->target.has_latency && of == l->latency_of)
        return ERR_OK;
    enum err_code rc = profile_latency(&l->profile, &latency, &l->policy_error);
    if (rc)
        return rc;
    target_set_latency(&l->target, &latency);
    l->latency_of = of;
    return ERR_OK;
}

static void set_spec(struct roster *r, struct live *l)
{
    const struct run_config *c = r->o.config;
    double start_s = startup_quantile_s(&l->startup, 0.5);
    l->target.spec.step_us = c->step_us;
    profile_spec(&l->profile, start_s, c->defaults.start_us, &l->target.spec);
    if (!set_latency(l))
        configure(r, l);
}

/* ---- merging ---------------------------------------------------------------------------------- */

static const struct kube_raw *workload_of(const struct roster *r, const struct live *l)
{
    struct err e;
    int kind = cluster_workload_kind(r->o.cluster, l->target.id.api_version, l->target.id.kind, &e);
    const struct kube_obj *o =
        kind >= 0 ? cluster_find(r->o.cluster, kind, l->target.id.namespace_, l->target.id.name) : NULL;
    return o ? kube_as_raw(o) : NULL;
}

static void hash_labels(struct hash *h, const struct kube_label *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hash_str(h, labels[i].key);
        hash_str(h, labels[i].value);
    }
}

/* What people wrote of a workload.  Its status changes with every pod and says nothing about what it is. */
static void hash_workload(struct hash *h, const struct kube_raw *w)
{
    if (w->generation < 0) {
        hash_str(h, w->meta.version);
        return;
    }
    hash_str(h, w->meta.uid);
    hash_i64(h, w->generation);
    hash_labels(h, w->labels, w->n_labels);
    hash_labels(h, w->annotations, w->n_annotations);
}

/* Of everything a profile is merged from. */
static uint64_t sources_hash(const struct live *l, const struct kube_raw *workload)
{
    struct hash h = hash_init(1);
    double start_s = startup_quantile_s(&l->startup, 0.5);
    if (l->generation < 0)
        hash_str(&h, l->version);
    hash_i64(&h, l->generation); /* of a CapacityTarget only its spec is read */
    if (workload)
        hash_workload(&h, workload);
    hash_u64(&h, l->has_history);
    /* in steps of a quarter, so that measuring does not reconfigure all the time */
    hash_i64(&h, start_s > 0 ? (int64_t)floor(log(start_s) * 4) : -1);
    return hash_value(&h) | 1;
}

enum { N_LAYERS = 6 };

static void all_layers(const struct layers *x, const struct live *l, const struct profile *all[N_LAYERS])
{
    const struct profile *const list[N_LAYERS] = {&x->defaults, &l->history, &x->template,
                                                  &x->workload, &x->config,  &x->spec};
    memcpy(all, list, sizeof list);
}

static double stated_slo(const struct profile *const all[N_LAYERS])
{
    for (int i = N_LAYERS; i-- > 0;)
        if (all[i]->source[PROFILE_F_SLO_P99] != PROFILE_UNSET)
            return all[i]->slo_p99_ms;
    return 0;
}

static bool states_latency(const struct profile *const all[N_LAYERS])
{
    for (int i = 0; i < N_LAYERS; i++)
        if (all[i]->n_curve > 0 || all[i]->source[PROFILE_F_SERVICE] != PROFILE_UNSET)
            return true;
    return false;
}

/* It is measured, and its past is read, before its profile is whole. */
static void keep_queries(struct live *l, const struct layers *x)
{
    for (int f = 0; f < FIELD_COUNT; f++) {
        mem_free(l->profile.query[f]);
        l->profile.query[f] = x->spec.query[f] ? mem_strdup(x->spec.query[f]) : NULL;
    }
}

static void merge(struct roster *r, struct live *l, struct layers *x)
{
    const struct profile *all[N_LAYERS];
    char what[512];
    all_layers(x, l, all);
    l->slo_ms = stated_slo(all);
    (void)snprintf(what, sizeof what, "%s %.200s/%.200s",
                   l->source == LIVE_SPEC ? "CapacityTarget" : l->target.id.kind, l->target.id.namespace_, l->name);
    l->hold = LIVE_HOLD_NONE;
    l->policy_error = (struct err){0};
    if (x->faults.n == 0 && !states_latency(all) && !l->has_history) {
        l->hold = LIVE_HOLD_LEARNING;
        keep_queries(l, x);
        return;
    }
    profile_fini(&l->profile);
    profile_merge(all, N_LAYERS, what, &l->profile, &x->faults);
    l->faults = x->faults;
    if (!x->faults.n)
        set_spec(r, l);
    if (x->faults.n || l->policy_error.code) {
        l->hold = LIVE_HOLD_INVALID;
        log_write(r->o.log, LOG_WARN, "roster", "target cannot be used", "target=%s/%s why=\"%s\"",
                  l->target.id.namespace_, l->name, x->faults.n ? x->faults.text : l->policy_error.msg);
    }
}

void roster_merge(struct roster *r, struct live *l, int64_t now_us)
{
    const struct kube_raw *workload = workload_of(r, l);
    uint64_t of = sources_hash(l, workload);
    (void)now_us;
    if (of == l->merged_of)
        return;
    l->merged_of = of;
    if (workload)
        (void)snprintf(l->target.id.uid, sizeof l->target.id.uid, "%s", workload->meta.uid);
    struct layers *x = mem_zero(1, sizeof *x);
    struct profile *all[] = {&x->defaults, &x->template, &x->workload, &x->config, &x->spec};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        profile_init(all[i]);
    profile_faults_init(&x->faults);
    read_defaults(r->o.config, x);
    if (workload)
        read_workload(workload, l, x);
    const struct run_target *t = configured(r->o.config, l);
    if (t)
        read_configured(t, x);
    if (l->source == LIVE_SPEC)
        read_spec(r, l, x);
    merge(r, l, x);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        profile_fini(all[i]);
    mem_free(x);
}
