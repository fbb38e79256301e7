/* doctor_access.c - steps 1 to 3: is there an API server, does it know our resource, may we do what
 * the stage does. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/doctor_priv.h"
#include "daemon/rights.h"

/* ---- 1 api-access -----------------------------------------------------------------------------
 */

static const char *api_advice(const struct kube_status *s, const struct err *e, bool in_cluster)
{
    if (kube_is_unauthorized(s))
        return in_cluster ? "The pod's token is not accepted: is the ServiceAccount still the one "
                            "the pod was started with? "
                            "kubectl -n sluice rollout restart statefulset/sluice"
                          : "The credentials are not accepted: log in again, or name others with "
                            "--set kube.kubeconfig=FILE, kube.context=NAME.";
    if (kube_is_forbidden(s))
        return "The account may not even read /version: bind system:public-info-viewer to it, or "
               "see whether another "
               "cluster's credentials are in use.";
    if (s->http >= 500)
        return "The API server is there, but unwell: kubectl get --raw '/readyz?verbose', then run "
               "doctor again.";
    if (e->sys == ETIMEDOUT)
        return "Nobody answers in time: the NetworkPolicy's egress to ports 443 and 6443, a "
               "firewall, or a wrong address.";
    return "Compare the address and authority with `kubectl cluster-info`; proxies of the "
           "environment are not used (kube.proxy).";
}

static void say_account(struct doctor *d)
{
    const struct kube_config *k = d->kube_config;
    if (k->in_cluster)
        (void)snprintf(d->report->account, sizeof d->report->account,
                       "the pod's own account, namespace %s", k->ns);
    else
        (void)snprintf(d->report->account, sizeof d->report->account, "%s (context %s of %s)",
                       k->user, k->context, k->source);
}

static bool connect_api(struct doctor *d, struct err *e)
{
    struct kube_config_opts o = kube_config_opts_default();
    o.path = d->config->kube.kubeconfig;
    o.context = d->config->kube.context;
    if (kube_config_load(&o, &d->kube_config, e))
        return false;
    say_account(d);
    d->kube_config->server.proxy = d->config->kube.proxy;
    struct kube_opts ko = kube_opts_default();
    ko.read_only = true;
    ko.deadline_us = d->config->kube.timeout_us;
    return kube_new(d->kube_config, d->http, &ko, &d->kube, e) == ERR_OK;
}

void doctor_see_api(struct doctor *d)
{
    struct err e;
    struct kube_reply reply;
    struct json_doc *doc = NULL;
    if (!connect_api(d, &e)) {
        doctor_note(d, DOCTOR_API_ACCESS, DOCTOR_FAIL, NULL,
                    "Run it in the pod (kubectl -n sluice exec sluice-0 -- sluice doctor), or name "
                    "a kubeconfig that `kubectl` "
                    "works with.",
                    "%s", e.msg);
        return;
    }
    enum err_code rc =
        kube_do(d->kube, &(struct kube_call){.verb = KUBE_GET, .path = "/version"}, &reply, &e);
    if (!rc)
        rc = kube_reply_json(&reply, &doc, &e);
    if (rc) {
        doctor_note(d, DOCTOR_API_ACCESS, DOCTOR_FAIL, kube_url(d->kube),
                    api_advice(&reply.status, &e, d->kube_config->in_cluster), "%s", e.msg);
        kube_free(d->kube);
        d->kube = NULL;
    } else {
        const char *version = json_text(json_find(json_root(doc), "gitVersion"));
        doctor_note(d, DOCTOR_API_ACCESS, DOCTOR_OK, NULL, NULL,
                    "%s answers in %.0f ms, Kubernetes %s", kube_url(d->kube),
                    (double)reply.elapsed_us * 1e-3, version ? version : "of unknown version");
        if (reply.elapsed_us > US_PER_S)
            doctor_note(d, DOCTOR_API_ACCESS, DOCTOR_WARN, NULL,
                        "Slow for so small an answer; at kube.timeout requests are given up. Ask "
                        "whoever runs the control plane.",
                        "that is slow");
    }
    json_free(doc);
    kube_reply_fini(&reply);
}

/* ---- 2 crd ------------------------------------------------------------------------------------
 */

static bool lists(const struct json *resources, const char *name)
{
    for (const struct json *r = json_first(resources); r; r = json_next(r)) {
        const char *n = json_text(json_find(r, "name"));
        if (n && strcmp(n, name) == 0)
            return true;
    }
    return false;
}

static void see_crd_answer(struct doctor *d, const struct kube_reply *reply)
{
    struct json_doc *doc = NULL;
    struct err e;
    if (kube_reply_json(reply, &doc, &e)) {
        doctor_note(d, DOCTOR_CRD, DOCTOR_FAIL, NULL, NULL, "%s", e.msg);
        return;
    }
    const struct json *resources = json_find(json_root(doc), "resources");
    d->crd = lists(resources, "capacitytargets");
    if (!d->crd)
        doctor_note(d, DOCTOR_CRD, DOCTOR_FAIL, NULL, "kubectl apply -k deploy/crd",
                    "sluice.dev/v1alpha1 is served without capacitytargets");
    else if (!lists(resources, "capacitytargets/status"))
        doctor_note(d, DOCTOR_CRD, DOCTOR_FAIL, NULL,
                    "The definition lacks its status subresource, where safety state lives: "
                    "kubectl apply -k deploy/crd",
                    "capacitytargets.sluice.dev is served without /status");
    else
        doctor_note(d, DOCTOR_CRD, DOCTOR_OK, NULL, NULL,
                    "capacitytargets.sluice.dev v1alpha1 is served, with /status");
    json_free(doc);
}

void doctor_see_crd(struct doctor *d)
{
    struct err e;
    struct kube_reply reply;
    bool observe = d->config->stage == STAGE_OBSERVE;
    if (!d->kube) {
        doctor_note(d, DOCTOR_CRD, DOCTOR_SKIP, NULL, NULL, "waits for api-access");
        return;
    }
    enum err_code rc =
        kube_do(d->kube, &(struct kube_call){.verb = KUBE_GET, .path = "/apis/sluice.dev/v1alpha1"},
                &reply, &e);
    if (!rc)
        see_crd_answer(d, &reply);
    else if (kube_is_not_found(&reply.status) || kube_is_forbidden(&reply.status))
        /* An account without rights gets 403 where an admin gets 404. */
        doctor_note(d, DOCTOR_CRD, observe ? DOCTOR_WARN : DOCTOR_FAIL, NULL,
                    observe ? "Enough to observe workloads by label or by name (targets: in the "
                              "configuration). Before `single`: "
                              "kubectl apply -k deploy/crd"
                            : "kubectl apply -k deploy/crd; it is served about 2 s later",
                    "capacitytargets.sluice.dev is not served");
    else
        doctor_note(d, DOCTOR_CRD, DOCTOR_FAIL, NULL, NULL, "%s", e.msg);
    kube_reply_fini(&reply);
}

/* ---- 3 permissions ----------------------------------------------------------------------------
 */

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

/* A group that is not installed needs no rights. */
static bool group_served(struct doctor *d, const char *group)
{
    struct kube_reply reply;
    char path[96];
    struct err e;
    (void)snprintf(path, sizeof path, "/apis/%s", group);
    bool served =
        kube_do(d->kube, &(struct kube_call){.verb = KUBE_GET, .path = path}, &reply, &e) == ERR_OK;
    kube_reply_fini(&reply);
    return served;
}

struct asked {
    int allowed, refused, excess;
    char extra[600]; /* what is allowed and should not be */
    struct err failed;
};

static void ask_needed(struct doctor *d, const struct right *r, struct asked *a)
{
    char verb[16], words[160];
    for (size_t i = 0; right_verb(r, i, verb) && !a->failed.code; i++) {
        bool allowed;
        if (may(d, r, verb, &allowed, &a->failed))
            return;
        a->allowed += allowed;
        if (allowed)
            continue;
        a->refused++;
        right_words(r, verb, words, sizeof words);
        doctor_note(d, DOCTOR_PERMISSIONS, r->need == RIGHT_REQUIRED ? DOCTOR_FAIL : DOCTOR_WARN,
                    words,
                    "Apply the overlay of the stage again; it holds exactly the rights that the "
                    "stage needs.",
                    "refused; needed for: %s", r->why);
    }
}

static bool reads(const char *verb)
{
    return strcmp(verb, "get") == 0 || strcmp(verb, "list") == 0 || strcmp(verb, "watch") == 0;
}

/* never: no stage may do this; else a later one may, and of that only the writes count. */
static void ask_excess(struct doctor *d, const struct right *r, bool never, struct asked *a)
{
    char verb[16], words[160];
    for (size_t i = 0; right_verb(r, i, verb) && !a->failed.code; i++) {
        bool allowed;
        if (!never && reads(verb))
            continue;
        if (may(d, r, verb, &allowed, &a->failed))
            return;
        if (!allowed)
            continue;
        right_words(r, verb, words, sizeof words);
        size_t at = strlen(a->extra);
        (void)snprintf(a->extra + at, sizeof a->extra - at, "%s%s", a->excess++ ? ", " : "", words);
    }
}

static void say_excess(struct doctor *d, const struct asked *a)
{
    bool own = d->kube_config->in_cluster, observe = d->config->stage == STAGE_OBSERVE;
    if (!a->excess)
        return;
    if (!own && d->config->kube.allow_writable_credentials)
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_OK, NULL, NULL,
                    "may do more than the stage needs, as allowed by "
                    "kube.allow_writable_credentials");
    else
        doctor_note(d, DOCTOR_PERMISSIONS, own && observe ? DOCTOR_FAIL : DOCTOR_WARN, NULL,
                    own ? "Apply the overlay of this stage; look for other bindings of the "
                          "account: kubectl get "
                          "rolebindings,clusterrolebindings -A -o wide | grep sluice"
                        : "These are a person's credentials. What the replicas may do is seen in "
                          "the pod: kubectl -n sluice exec "
                          "sluice-0 -- sluice doctor -c /etc/sluice/sluice.yaml",
                    "may do %d things the stage does not need: %s", a->excess, a->extra);
}

static bool wanted(const struct doctor *d, const struct right *r)
{
    return d->config->lease.enabled || !r->own_namespace;
}

void doctor_see_permissions(struct doctor *d)
{
    struct asked a = {0};
    if (!d->kube) {
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_SKIP, NULL, NULL, "waits for api-access");
        return;
    }
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
                    "rights cannot be asked for: %s", a.failed.msg);
        d->may_read = true; /* found out by trying */
        return;
    }
    say_excess(d, &a);
    d->may_read = true;
    if (!a.refused)
        doctor_note(d, DOCTOR_PERMISSIONS, DOCTOR_OK, NULL, NULL,
                    "all %d rights that %s needs are there%s", a.allowed,
                    run_stage_names[d->config->stage], a.excess ? "" : ", and none beyond them");
}
