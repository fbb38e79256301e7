/* doctor_access.c - steps 1 and 2: is there an API server, whom does it take us for, does it know our
 * resource. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/doctor_priv.h"

/* ---- 1 api-access -----------------------------------------------------------------------------
 */

static const char *api_advice(const struct kube_status *s, const struct err *e, bool in_cluster)
{
    if (kube_is_unauthorized(s))
        return in_cluster ? "The pod's token is not accepted: is the ServiceAccount still the one "
                            "the pod was started with? "
                            "kubectl -n sluice rollout restart statefulset/sluice"
                          : "The credentials are absent, expired or of another cluster, and so not accepted: log "
                            "in again (kubectl auth whoami tries the same ones), or name others with "
                            "--set kube.kubeconfig=FILE --set kube.context=NAME.";
    if (kube_is_forbidden(s))
        return "The account may not even read /version, which every cluster grants by the ClusterRole "
               "system:public-info-viewer: bind it to the account, or see whether another cluster's "
               "credentials are in use.";
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

/* Who the server says that we are: the answer of a self-review, else the words of a refusal. */
static void read_who(struct doctor *d, const struct kube_reply *reply)
{
    static const char mark[] = "User \"";
    struct json_doc *doc = NULL;
    struct err e;
    const char *name = NULL, *said = strstr(reply->status.message, mark);
    if (kube_is_ok(&reply->status) && kube_reply_json(reply, &doc, &e) == ERR_OK)
        name = json_text(json_find(json_find(json_find(json_root(doc), "status"), "userInfo"), "username"));
    if (name)
        (void)snprintf(d->who, sizeof d->who, "%s", name);
    else if (kube_is_forbidden(&reply->status) && said)
        (void)snprintf(d->who, sizeof d->who, "%.*s", (int)strcspn(said + strlen(mark), "\""), said + strlen(mark));
    json_free(doc);
}

/* Servers before 1.28 do not know this review; then a refusal says it, if there is one. */
static void ask_who(struct doctor *d)
{
    static const char body[] = "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"SelfSubjectReview\"}";
    const struct kube_call call = {.verb = KUBE_CREATE,
                                   .body = body,
                                   .n_body = sizeof body - 1,
                                   .body_cap = 1 << 20,
                                   .path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"};
    struct kube_reply reply;
    struct err e;
    enum err_code rc = kube_do(d->kube, &call, &reply, &e);
    if (!rc || kube_is_forbidden(&reply.status)) /* else it stays unsaid */
        read_who(d, &reply);
    kube_reply_fini(&reply);
}

static bool anonymous(const struct doctor *d)
{
    return strcmp(d->who, "system:anonymous") == 0;
}

static void see_who(struct doctor *d)
{
    char *account = d->report->account;
    size_t n = strlen(account), size = sizeof d->report->account;
    ask_who(d);
    if (*d->who && strcmp(account, d->who) != 0)
        (void)snprintf(account + n, size - n, "; to the server: %s", d->who);
    if (!anonymous(d))
        return;
    doctor_note(d, DOCTOR_API_ACCESS, DOCTOR_FAIL, kube_url(d->kube),
                "Give the user of the kubeconfig a token, a client certificate or an exec helper, or name "
                "another one: --set kube.kubeconfig=FILE --set kube.context=NAME. In a pod: the token of "
                "its ServiceAccount must be mounted (automountServiceAccountToken).",
                "no credentials reached the server: to it we are system:anonymous, whom it refuses nearly "
                "everything");
    kube_free(d->kube);
    d->kube = NULL;
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
        see_who(d);
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
                    "capacitytargets.sluice.dev is not served%s%s%s%s",
                    kube_is_forbidden(&reply.status) ? ", or " : "",
                    kube_is_forbidden(&reply.status) && *d->who ? d->who : "",
                    kube_is_forbidden(&reply.status) && !*d->who ? "this account" : "",
                    kube_is_forbidden(&reply.status)
                        ? " may not look (403: get path /apis/sluice.dev/v1alpha1, by the ClusterRole system:discovery)"
                        : "");
    else
        doctor_note(d, DOCTOR_CRD, DOCTOR_FAIL, NULL, NULL, "%s", e.msg);
    kube_reply_fini(&reply);
}
