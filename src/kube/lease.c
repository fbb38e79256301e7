/* lease.c - one attempt at a time.
 *
 * What is known of the record is the last answer of the server (`doc`), so a write changes our
 * fields and keeps all others. Each attempt goes: know the record (read it unless the last write
 * told us), decide, write.  A conflict starts over once with a fresh read. */
#include "kube/lease.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "kube/client_priv.h"
#include "kube/objects_priv.h"

struct record {
    char *holder, *acquired, *version; /* "" when unset */
    int64_t duration_us, transitions;
    uint64_t hash; /* of what a holder writes: its change is a sign of life */
};

struct lease {
    struct kube *k;
    struct lease_opts o;
    char *ns, *name, *me;
    struct json_doc *doc; /* the record as last seen; NULL: not known */
    struct record seen;
    int64_t changed_us; /* monotonic, when we saw it change */
    int64_t until_us;   /* of the attempt under way */
    int64_t next_us;
    _Atomic int64_t held_until_us;
    _Atomic uint64_t epoch;
};

struct lease_opts lease_opts_default(void)
{
    return (struct lease_opts){.duration_us = 15 * US_PER_S,
                               .renew_us = 10 * US_PER_S,
                               .retry_us = 2 * US_PER_S,
                               .margin_us = 500 * US_PER_MS};
}

static void record_fini(struct record *r)
{
    mem_free(r->holder);
    mem_free(r->acquired);
    mem_free(r->version);
    *r = (struct record){0};
}

static void forget(struct lease *l)
{
    json_free(l->doc);
    l->doc = NULL;
}

enum err_code lease_new(struct kube *k, const struct lease_opts *o, struct lease **out,
                        struct err *e)
{
    *out = NULL;
    if (!o->ns || !*o->ns || !o->name || !*o->name || !o->holder || !*o->holder)
        return err_set(e, ERR_INVAL, "lease: namespace, name and holder are needed");
    if (o->retry_us <= 0 || o->margin_us < 0 || o->duration_us % US_PER_S ||
        o->retry_us >= o->renew_us || o->renew_us >= o->duration_us - o->margin_us)
        return err_set(e, ERR_INVAL,
                       "lease %s: expected retry < renew < duration - margin, and a duration of "
                       "whole seconds; "
                       "they are %g, %g, %g and %g s",
                       o->name, (double)o->retry_us / 1e6, (double)o->renew_us / 1e6,
                       (double)o->duration_us / 1e6, (double)o->margin_us / 1e6);
    struct lease *l = mem_zero(1, sizeof *l);
    l->k = k;
    l->o = *o;
    l->ns = mem_strdup(o->ns);
    l->name = mem_strdup(o->name);
    l->me = mem_strdup(o->holder);
    *out = l;
    return ERR_OK;
}

void lease_free(struct lease *l)
{
    if (!l)
        return;
    forget(l);
    record_fini(&l->seen);
    mem_free(l->ns);
    mem_free(l->name);
    mem_free(l->me);
    mem_free(l);
}

/* ---- the record -------------------------------------------------------------------------- */

static enum err_code read_record(const struct json *root, struct record *out, struct err *e)
{
    struct reader r = {.e = e};
    const struct json *meta = read_object(&r, root, "metadata"),
                      *spec = read_object(&r, root, "spec");
    const char *version = read_text(&r, meta, "resourceVersion"),
               *renewed = read_text(&r, spec, "renewTime");
    const char *holder = read_text(&r, spec, "holderIdentity"),
               *acquired = read_text(&r, spec, "acquireTime");
    int64_t seconds = read_int(&r, spec, "leaseDurationSeconds", 0);
    int64_t transitions = read_int(&r, spec, "leaseTransitions", 0);
    if (!r.rc && !*version)
        read_fail(&r, ERR_PARSE, "metadata.resourceVersion", "is missing");
    if (!r.rc && (seconds < 0 || seconds > 86400))
        read_fail(&r, ERR_RANGE, "leaseDurationSeconds", "expected at most a day");
    if (r.rc)
        return r.rc;
    struct hash h = hash_init(0);
    hash_str(&h, holder);
    hash_str(&h, acquired);
    hash_str(&h, renewed);
    hash_i64(&h, transitions);
    *out = (struct record){.holder = mem_strdup(holder),
                           .acquired = mem_strdup(acquired),
                           .version = mem_strdup(version),
                           .duration_us = seconds * US_PER_S,
                           .transitions = transitions,
                           .hash = hash_value(&h)};
    return ERR_OK;
}

static enum err_code learn(struct lease *l, const struct kube_reply *reply, struct err *e)
{
    struct json_doc *doc;
    struct record now;
    enum err_code rc = kube_reply_json(reply, &doc, e);
    if (rc)
        return rc;
    rc = read_record(json_root(doc), &now, e);
    if (rc) {
        json_free(doc);
        return rc;
    }
    if (!l->changed_us || now.hash != l->seen.hash)
        l->changed_us = clock_mono_us(); /* after the answer: later is safer */
    record_fini(&l->seen);
    l->seen = now;
    forget(l);
    l->doc = doc;
    return ERR_OK;
}

/* ---- writing ----------------------------------------------------------------------------- */

struct claim {
    const char *holder, *acquired, *renewed;
    int64_t duration_us, transitions;
};

static void write_spec(struct json_writer *w, const struct json *old, const struct claim *c,
                       bool *whole)
{
    static const char *const ours[] = {"holderIdentity", "leaseDurationSeconds", "acquireTime",
                                       "renewTime", "leaseTransitions"};
    json_open(w, "spec");
    json_put_str(w, ours[0], c->holder);
    json_put_i64(w, ours[1], c->duration_us / US_PER_S);
    json_put_str(w, ours[2], c->acquired);
    json_put_str(w, ours[3], c->renewed);
    json_put_i64(w, ours[4], c->transitions);
    for (const struct json *v = old ? json_first(old) : NULL; v; v = json_next(v)) {
        size_t i = 0;
        while (i < ARRAY_LEN(ours) && strcmp(json_key(v), ours[i]) != 0)
            i++;
        if (i == ARRAY_LEN(ours))
            *whole = json_copy(w, json_key(v), v) && *whole;
    }
    json_close(w);
}

static void write_metadata(struct json_writer *w, const struct lease *l, bool *whole)
{
    const struct json *old = l->doc ? json_find(json_root(l->doc), "metadata") : NULL;
    json_open(w, "metadata");
    if (!old) {
        json_put_str(w, "name", l->name);
        json_put_str(w, "namespace", l->ns);
    }
    for (const struct json *v = old ? json_first(old) : NULL; v; v = json_next(v)) {
        if (strcmp(json_key(v), "managedFields") != 0)
            *whole = json_copy(w, json_key(v), v) && *whole;
    }
    json_close(w);
}

static enum err_code call(struct lease *l, enum kube_verb verb, const char *body,
                          struct kube_reply *reply, struct err *e)
{
    struct buf path = buf_init(4096);
    kube_path(&path, &KUBE_LEASES, l->ns, verb == KUBE_CREATE ? NULL : l->name, NULL);
    int64_t left_us = l->until_us - clock_mono_us();
    struct kube_call c = {.verb = verb,
                          .path = path.p,
                          .body = body,
                          .once = true,
                          .body_cap = 1 << 20,
                          .deadline_us = left_us > 0 ? left_us : 1};
    enum err_code rc = kube_do(l->k, &c, reply, e);
    buf_fini(&path);
    return rc;
}

/* Creates or updates the record.  *conflict: somebody was faster, nothing was written. */
static enum err_code put(struct lease *l, const struct claim *c, bool *conflict, struct err *e)
{
    struct buf body = buf_init(1 << 20);
    struct json_writer w = json_writer_init(&body, 0);
    struct kube_reply reply;
    bool whole = true;
    json_open(&w, NULL);
    json_put_str(&w, "apiVersion", "coordination.k8s.io/v1");
    json_put_str(&w, "kind", "Lease");
    write_metadata(&w, l, &whole);
    write_spec(&w, l->doc ? json_find(json_root(l->doc), "spec") : NULL, c, &whole);
    json_close(&w);
    enum err_code rc = buf_check(&body, e);
    *conflict = false;
    if (!rc && !whole)
        rc = err_set(e, ERR_LIMIT, "lease %s/%s: nested too deeply", l->ns, l->name);
    if (!rc) {
        rc = call(l, l->doc ? KUBE_UPDATE : KUBE_CREATE, body.p, &reply, e);
        *conflict = reply.status.http == 409 || (l->doc && kube_is_not_found(&reply.status));
        if (!rc)
            rc = learn(l, &reply, e);
        else
            forget(l); /* written or not, what we know may be old */
        kube_reply_fini(&reply);
    }
    buf_fini(&body);
    return *conflict ? ERR_OK : rc;
}

/* ---- deciding ---------------------------------------------------------------------------- */

static bool is_mine(const struct lease *l)
{
    return l->doc && strcmp(l->seen.holder, l->me) == 0;
}

static bool may_take(const struct lease *l)
{
    if (!l->doc || !*l->seen.holder || is_mine(l))
        return true;
    int64_t theirs_us =
        l->seen.duration_us > l->o.duration_us ? l->seen.duration_us : l->o.duration_us;
    return clock_mono_us() - l->changed_us > theirs_us;
}

/* Reads the record unless it is known; a record that is not there leaves doc NULL. */
static enum err_code know(struct lease *l, struct err *e)
{
    struct kube_reply reply;
    if (l->doc && is_mine(l))
        return ERR_OK; /* nobody else writes it while we do; if so the write conflicts */
    enum err_code rc = call(l, KUBE_GET, NULL, &reply, e);
    if (!rc)
        rc = learn(l, &reply, e);
    else
        forget(l);
    if (kube_is_not_found(&reply.status))
        rc = ERR_OK;
    kube_reply_fini(&reply);
    return rc;
}

static void lead(struct lease *l, int64_t began_us)
{
    int64_t until_us = began_us + l->o.duration_us - l->o.margin_us;
    if (clock_mono_us() >= atomic_load(&l->held_until_us))
        atomic_fetch_add(&l->epoch,
                         1); /* before held: a reader never sees the new term with the old number */
    atomic_store(&l->held_until_us, until_us);
}

static enum err_code claim(struct lease *l, bool *conflict, struct err *e)
{
    char now[KUBE_TIME_TEXT];
    bool mine = is_mine(l);
    struct claim c = {.holder = l->me,
                      .renewed = now,
                      .duration_us = l->o.duration_us,
                      .transitions = l->doc ? l->seen.transitions + !mine : 0};
    kube_time_format(clock_wall_us(), now);
    char *acquired = mem_strdup(mine && *l->seen.acquired ? l->seen.acquired : now);
    c.acquired = acquired;
    int64_t began_us = clock_mono_us();
    enum err_code rc = put(l, &c, conflict, e);
    mem_free(acquired);
    if (!rc && !*conflict)
        lead(l, began_us);
    return rc;
}

enum err_code lease_try(struct lease *l, struct err *e)
{
    enum err_code rc = ERR_OK;
    bool conflict = true;
    l->until_us = clock_mono_us() + l->o.duration_us - l->o.renew_us;
    for (int round = 0; round < 2 && conflict && !rc; round++) {
        rc = know(l, e);
        conflict = false;
        if (rc)
            break;
        if (may_take(l))
            rc = claim(l, &conflict, e);
        else
            atomic_store(&l->held_until_us,
                         0); /* another took it: no need to wait for our time to end */
    }
    if (rc)
        err_wrap(e, "lease %s/%s", l->ns, l->name);
    double jitter = lease_held(l) ? 0 : 0.2 * kube_random(l->k);
    l->next_us = clock_mono_us() + (int64_t)((double)l->o.retry_us * (1 + jitter));
    return rc;
}

enum err_code lease_release(struct lease *l, struct err *e)
{
    char now[KUBE_TIME_TEXT];
    bool conflict = true;
    enum err_code rc = ERR_OK;
    atomic_store(&l->held_until_us, 0);
    l->until_us = clock_mono_us() + l->o.duration_us - l->o.renew_us;
    kube_time_format(clock_wall_us(), now);
    for (int round = 0; round < 2 && conflict && !rc; round++) {
        conflict = false;
        rc = know(l, e);
        if (rc || !l->doc || !is_mine(l))
            break;
        struct claim c = {.holder = "",
                          .acquired = now,
                          .renewed = now,
                          .duration_us = US_PER_S,
                          .transitions = l->seen.transitions};
        rc = put(l, &c, &conflict, e);
    }
    if (rc)
        err_wrap(e, "lease %s/%s", l->ns, l->name);
    return rc;
}

/* ---- what others see --------------------------------------------------------------------- */

int64_t lease_wait_us(const struct lease *l)
{
    int64_t left_us = l->next_us - clock_mono_us();
    return left_us > 0 ? left_us : 0;
}

bool lease_held(const struct lease *l)
{
    return clock_mono_us() < atomic_load(&l->held_until_us);
}

int64_t lease_held_until_us(const struct lease *l)
{
    int64_t until_us = atomic_load(&l->held_until_us);
    return clock_mono_us() < until_us ? until_us : 0;
}

uint64_t lease_epoch(const struct lease *l)
{
    return atomic_load(&l->epoch);
}

const char *lease_holder(const struct lease *l)
{
    return l->seen.holder ? l->seen.holder : "";
}

int64_t lease_transitions(const struct lease *l)
{
    return l->seen.transitions;
}
