/* doctor_rights.c - step 3: may we do what the stage does, and nothing beyond it. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "daemon/doctor_priv.h"
#include "daemon/rights.h"

/* Whether a verb of a right is allowed everywhere it is needed.  Errors: the review itself failed.
 */
static enum err_code may(struct doctor *d, const struct right *r, const char *verb, bool *allowed,
                         struct err *e)
{
    const struct opt_strings *ns = &d->config->kube.namespaces;
    size_t n = ns->n && !r->own_namespace ? ns->n : 1;
    struct kube_access a = {
        .verb = verb, .group = r->group, .resource = r->resource, .subresource = r->subresource};
    *allowed = true;
    if (r->name)
        a.name = d->config->lease.name;
    for (size_t i = 0; i < n && *allowed; i++) {
        if (r->own_namespace)
            a.ns =
                d->config->lease.namespace_ ? d->config->lease.namespace_ : kube_namespace(d->kube);
        else if (ns->n)
            a.ns = ns->items[i];
        enum err_code rc = kube_can(d->kube, &a, allowed, NULL, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

/* A group that is not installed needs no rights.  Only 404 says that it is not. */
static bool group_served(struct doctor *d, const char *group)
{
    struct kube_reply reply;
    char path[96];
    struct err e;
    (void)snprintf(path, sizeof path, "/apis/%s", group);
    enum err_code rc = kube_do(d->kube, &(struct kube_call){.verb = KUBE_GET, .path = path}, &reply, &e);
    bool served = !rc || !kube_is_not_found(&reply.status);
    kube_reply_fini(&reply);
    return served;
}

struct asked {
    int allowed, refused, excess;
    struct buf extra; /* what is allowed and should not be */
    struct err failed;
};

static bool reads(const char *verb)
{
    return strcmp(verb, "get") == 0 || strcmp(verb, "list") == 0 || strcmp(verb, "watch") == 0;
}

static bool needed(const struct doctor *d, const struct right *r)
{
    return r->need == RIGHT_REQUIRED || (r->need == RIGHT_OWNERS && d->config->stage != STAGE_OBSERVE);
}

/* Who is refused, what, what for, and which rule of which file would grant it. */
static void say_refused(struct doctor *d, const struct right *r, const char *verbs)
{
    char words[240];
    struct buf todo = buf_init(4096);
    right_words(r, verbs, words, sizeof words);
    buf_fmt(&todo, "kubectl apply -k deploy/overlays/%s grants it to the replicas' account, by the rule ",
            run_stage_names[d->config->stage]);
    right_rule(r, verbs, &todo);
    buf_fmt(&todo, " of %s.", right_file(r));
    doctor_note(d, DOCTOR_PERMISSIONS, needed(d, r) ? DOCTOR_FAIL : DOCTOR_WARN, words, todo.p,
                "refused to %s; needed for: %s", *d->who ? d->who : "this account", r->why);
    buf_fini(&todo);
}

static void ask_needed(struct doctor *d, const struct right *r, struct asked *a)
{
    char verb[16], verbs[RIGHT_VERBS] = "";
    for (size_t i = 0; right_verb(r, i, verb); i++) {
        bool allowed;
        if (may(d, r, verb, &allowed, &a->failed))
            return;
        a->allowed += allowed;
        if (allowed)
            continue;
        a->refused++;
        right_add_verb(verbs, verb);
        if (r->need == RIGHT_REQUIRED && reads(verb) && (d->crd || strcmp(r->group, "sluice.dev") != 0))
            d->may_read = false;
    }
    if (*verbs)
        say_refused(d, r, verbs);
}

/* never: no stage may do this; else a later one may, and of that only the writes count. */
static void ask_excess(struct doctor *d, const struct right *r, bool never, struct asked *a)
{
    char verb[16], verbs[RIGHT_VERBS] = "", words[240];
    for (size_t i = 0; right_verb(r, i, verb); i++) {
        bool allowed;
        if (!never && reads(verb))
            continue;
        if (may(d, r, verb, &allowed, &a->failed))
            return;
        if (!allowed)
            continue;
        a->excess++;
        right_add_verb(verbs, verb);
    }
    if (!*verbs)
        return;
    right_words(r, verbs, words, sizeof words);
    buf_fmt(&a->extra, "%s%s", a->extra.n ? "; " : "", words);
}

static void say_excess(struct doctor *d, const struct asked *a)
{
    bool own = d->kube_config->in_cluster, observe = d->config->stage == STAGE_OBSERVE;
    const char *who = *d->who ? d->who : "this account";
    if (!a->excess)
        return;
    if (!own && d->config->kube.allow_writable_credentials)
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_OK, NULL, NULL,
                    "%s may do more than the stage needs, as allowed by "
                    "kube.allow_writable_credentials", who);
    else
        doctor_note(d, DOCTOR_PERMISSIONS, own && observe ? DOCTOR_FAIL : DOCTOR_WARN, NULL,
                    own ? "Apply the overlay of this stage; look for other bindings of the "
                          "account: kubectl get "
                          "rolebindings,clusterrolebindings -A -o wide | grep sluice"
                        : "These are a person's credentials. What the replicas may do is seen in "
                          "the pod: kubectl -n sluice exec "
                          "sluice-0 -- sluice doctor -c /etc/sluice/sluice.yaml",
                    "%s may do %d things the stage does not need: %s", who, a->excess, a->extra.p);
}

static void say_whose(struct doctor *d, const struct asked *a)
{
    if (a->refused && !a->excess && !d->kube_config->in_cluster)
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_WARN, NULL,
                    "To see the replicas' own: kubectl -n sluice exec sluice-0 -- sluice doctor -c "
                    "/etc/sluice/sluice.yaml. To look from here: an account that may read all of the above.",
                    "these are the rights of %s, not those of the replicas", *d->who ? d->who : "this account");
}

static bool wanted(const struct doctor *d, const struct right *r)
{
    return d->config->lease.enabled || !r->own_namespace;
}

void doctor_see_permissions(struct doctor *d)
{
    struct asked a = {.extra = buf_init(16 << 10)};
    if (!d->kube) {
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_SKIP, NULL, NULL, "waits for api-access");
        buf_fini(&a.extra);
        return;
    }
    d->may_read = true;
    for (size_t i = 0; i < n_rights && !a.failed.code; i++) {
        const struct right *r = &rights[i];
        if (r->from > (enum run_stage)d->config->stage)
            ask_excess(d, r, false, &a);
        else if (wanted(d, r) && (r->need == RIGHT_REQUIRED || group_served(d, r->group)))
            ask_needed(d, r, &a);
    }
    for (size_t i = 0; i < n_rights_never && !a.failed.code; i++)
        ask_excess(d, &rights_never[i], true, &a);
    if (a.failed.code) {
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_SKIP, NULL,
                    "Every account may ask this by default (ClusterRole system:basic-user).",
                    "%s may not ask for its rights: %s", *d->who ? d->who : "this account", a.failed.msg);
        d->may_read = true; /* found out by trying */
        buf_fini(&a.extra);
        return;
    }
    say_excess(d, &a);
    say_whose(d, &a);
    if (d->config->lease.enabled && d->config->stage != STAGE_OBSERVE)
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_OK, NULL, NULL, "the Lease is %s/%s",
                    d->config->lease.namespace_ ? d->config->lease.namespace_ : kube_namespace(d->kube),
                    d->config->lease.name);
    if (!a.refused)
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_OK, NULL, NULL,
                    "all %d rights that %s needs are there%s", a.allowed,
                    run_stage_names[d->config->stage], a.excess ? "" : ", and none beyond them");
    buf_fini(&a.extra);
}
