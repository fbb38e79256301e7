#include "daemon/roster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "daemon/roster_priv.h"

static const char *const hold_names[] = {
#define X(id, name) name,
    LIVE_HOLD_LIST(X)
#undef X
};

const char *live_hold_name(enum live_hold h)
{
    return hold_names[h];
}

struct roster *roster_new(const struct roster_opts *o)
{
    struct roster *r = mem_zero(1, sizeof *r);
    r->o = *o;
    r->synced_of = UINT64_MAX;
    return r;
}

static void live_free(struct roster *r, struct live *l)
{
    if (r->o.removed)
        r->o.removed(r->o.ctx, l);
    executor_free(l->executor);
    cluster_scale_fini(r->o.cluster, &l->scale);
    profile_fini(&l->profile);
    profile_fini(&l->history);
    target_fini(&l->target);
    mem_free(l);
}

void roster_free(struct roster *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++)
        live_free(r, r->live[i]);
    mem_free(r);
}

void roster_reconfigure(struct roster *r, const struct run_config *config)
{
    r->o.config = config;
    r->synced_of = UINT64_MAX;
    for (size_t i = 0; i < r->n; i++)
        r->live[i]->merged_of = 0;
}

void roster_set_history(struct roster *r, struct live *l, struct profile *history)
{
    profile_fini(&l->history);
    l->history = *history;
    profile_init(history);
    l->has_history = true;
    l->merged_of = 0;
    r->synced_of = UINT64_MAX;
}

uint64_t roster_generation(const struct roster *r)
{
    return r->generation;
}

size_t roster_count(const struct roster *r)
{
    return r->n;
}

size_t roster_refused(const struct roster *r)
{
    return r->refused;
}

struct live *roster_at(const struct roster *r, size_t i)
{
    return r->live[i];
}

struct live *roster_slot(const struct roster *r, int slot)
{
    return slot >= 0 && slot < ROSTER_MAX ? r->by_slot[slot] : NULL;
}

struct live *roster_find(const struct roster *r, const char *ns, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->live[i]->target.id.namespace_, ns) == 0 && strcmp(r->live[i]->name, name) == 0)
            return r->live[i];
    return NULL;
}

/* ---- the set ---------------------------------------------------------------------------------- */

/* A target as its source names it. */
struct found {
    enum live_source source;
    struct target_id id;
    const char *name, *uid, *version;
    int64_t created_us, generation;
};

static struct live *existing(const struct roster *r, const struct found *f)
{
    for (size_t i = 0; i < r->n; i++) {
        struct live *l = r->live[i];
        if (l->source == f->source && strcmp(l->target.id.namespace_, f->id.namespace_) == 0 &&
            strcmp(l->name, f->name) == 0 && strcmp(l->uid, f->uid) == 0 &&
            strcmp(l->target.id.api_version, f->id.api_version) == 0 && strcmp(l->target.id.kind, f->id.kind) == 0 &&
            strcmp(l->target.id.name, f->id.name) == 0)
            return l;
    }
    return NULL;
}

static int free_slot(const struct roster *r)
{
    for (int i = 0; i < ROSTER_MAX; i++)
        if (!r->by_slot[i])
            return i;
    return -1;
}

static struct live *add(struct roster *r, const struct found *f)
{
    int slot = free_slot(r);
    if (slot < 0) {
        r->refused++;
        return NULL;
    }
    struct live *l = mem_zero(1, sizeof *l);
    l->slot = slot;
    l->source = f->source;
    l->told_cause = -1;
    (void)snprintf(l->name, sizeof l->name, "%s", f->name);
    (void)snprintf(l->uid, sizeof l->uid, "%s", f->uid);
    target_init(&l->target, &f->id);
    profile_init(&l->profile);
    profile_init(&l->history);
    startup_init(&l->startup);
    target_status_init(&l->status);
    r->by_slot[slot] = l;
    r->live[r->n++] = l;
    r->generation++;
    log_write(r->o.log, LOG_INFO, "roster", "target", "target=%s/%s kind=%s workload=%s", f->id.namespace_, f->name,
              f->id.kind, f->id.name);
    return l;
}

static struct live *note(struct roster *r, const struct found *f)
{
    struct live *l = existing(r, f);
    if (!l)
        l = add(r, f);
    if (!l)
        return NULL;
    l->seen = true;
    l->created_us = f->created_us;
    l->generation = f->generation;
    (void)snprintf(l->version, sizeof l->version, "%s", f->version);
    return l;
}

static void drop_unseen(struct roster *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct live *l = r->live[i];
        if (l->seen) {
            r->live[kept++] = l;
            continue;
        }
        log_write(r->o.log, LOG_INFO, "roster", "target is gone", "target=%s/%s", l->target.id.namespace_, l->name);
        r->by_slot[l->slot] = NULL;
        live_free(r, l);
        r->generation++;
    }
    r->n = kept;
}

static void id_of(const struct roster *r, const char *ns, const char *api_version, const char *kind, const char *name,
                  struct target_id *id)
{
    char version[32], group[64] = "";
    memset(id, 0, sizeof *id);
    (void)kube_split_api_version(api_version, group, version);
    (void)snprintf(id->cluster, sizeof id->cluster, "%s", r->o.config->cluster);
    (void)snprintf(id->group, sizeof id->group, "%s", group);
    (void)snprintf(id->api_version, sizeof id->api_version, "%s", api_version);
    (void)snprintf(id->kind, sizeof id->kind, "%s", kind);
    (void)snprintf(id->namespace_, sizeof id->namespace_, "%s", ns);
    (void)snprintf(id->name, sizeof id->name, "%s", name);
}

static const char *text_of(const struct json *v, const char *otherwise)
{
    const char *t = json_text(v);
    return t ? t : otherwise;
}

static void read_capacity_targets(struct roster *r)
{
    const struct kube_obj *o;
    for (struct cluster_at at = {0}; (o = cluster_next(r->o.cluster, CLUSTER_TARGETS, &at));) {
        const struct kube_raw *raw = kube_as_raw(o);
        struct json_doc *doc;
        struct err e;
        if (raw->terminating || kube_raw_json(raw, &doc, &e))
            continue;
        const struct json *ref = json_find(json_find(json_root(doc), "spec"), "scaleTargetRef");
        struct found f = {.source = LIVE_SPEC, .name = o->name, .uid = o->uid, .version = o->version,
                          .created_us = raw->created_us, .generation = raw->generation};
        id_of(r, o->ns, text_of(json_find(ref, "apiVersion"), ""), text_of(json_find(ref, "kind"), ""),
              text_of(json_find(ref, "name"), ""), &f.id);
        (void)note(r, &f);
        json_free(doc);
    }
}

static bool has_target(const struct roster *r, const struct target_id *id)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct target_id *x = &r->live[i]->target.id;
        if (r->live[i]->seen && strcmp(x->namespace_, id->namespace_) == 0 && strcmp(x->kind, id->kind) == 0 &&
            strcmp(x->name, id->name) == 0 && strcmp(x->group, id->group) == 0)
            return true;
    }
    return false;
}

static void read_labelled(struct roster *r, int kind, const char *api_version, const char *kind_name)
{
    const struct kube_obj *o;
    for (struct cluster_at at = {0}; (o = cluster_next(r->o.cluster, kind, &at));) {
        const struct kube_raw *raw = kube_as_raw(o);
        const char *managed = kube_label_find(raw->labels, raw->n_labels, "sluice.dev/managed");
        if (!managed || strcmp(managed, "true") != 0 || raw->terminating)
            continue;
        struct found f = {.source = LIVE_LABEL, .name = o->name, .uid = o->uid, .version = o->version,
                          .created_us = raw->created_us, .generation = raw->generation};
        id_of(r, o->ns, api_version, kind_name, o->name, &f.id);
        if (!has_target(r, &f.id))
            (void)note(r, &f);
    }
}

static void read_config(struct roster *r)
{
    const struct run_target *t = r->o.config->targets.items;
    for (size_t i = 0; i < r->o.config->targets.n; i++) {
        struct found f = {.source = LIVE_CONFIG, .name = t[i].name, .uid = "", .version = ""};
        id_of(r, t[i].namespace_, t[i].api_version, t[i].kind, t[i].name, &f.id);
        if (!has_target(r, &f.id))
            (void)note(r, &f);
    }
}

bool roster_sync(struct roster *r, int64_t now_us)
{
    uint64_t of = cluster_changes(r->o.cluster);
    if (of == r->synced_of)
        return false;
    r->synced_of = of;
    for (size_t i = 0; i < r->n; i++)
        r->live[i]->seen = false;
    read_capacity_targets(r);
    read_labelled(r, CLUSTER_DEPLOYMENTS, "apps/v1", "Deployment");
    read_labelled(r, CLUSTER_STATEFULSETS, "apps/v1", "StatefulSet");
    read_config(r);
    drop_unseen(r);
    for (size_t i = 0; i < r->n; i++)
        roster_merge(r, r->live[i], now_us);
    roster_owners(r);
    return true;
}
