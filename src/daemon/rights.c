#include "daemon/rights.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define READ "get list watch"
/* (group, resource, subresource, verbs, from, why): in the whole cluster, by enum right_need; OWN: in our namespace. */
#define NEED(g, r, sub, v, s, why) {g, r, sub, v, STAGE_##s, RIGHT_REQUIRED, false, NULL, why}
#define MAY(g, r, sub, v, s, why) {g, r, sub, v, STAGE_##s, RIGHT_OPTIONAL, false, NULL, why}
#define WHO(g, r, v, s, why) {g, r, NULL, v, STAGE_##s, RIGHT_OWNERS, false, NULL, why}
#define OWN(g, r, name, v, s, why) {g, r, NULL, v, STAGE_##s, RIGHT_REQUIRED, true, name, why}
#define NEVER(g, r, sub, v) {g, r, sub, v, STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, ""}

/* One row per line: the table is read as a whole. */
/* clang-format off */
const struct right rights[] = {
    NEED("sluice.dev", "capacitytargets", NULL, READ, OBSERVE, "the targets"),
    NEED("", "pods", NULL, READ, OBSERVE, "units ready, warming and failed"),
    NEED("apps", "deployments", NULL, READ, OBSERVE, "labels, and changes of size"),
    NEED("apps", "statefulsets", NULL, READ, OBSERVE, "labels, and changes of size"),
    NEED("apps", "deployments", "scale", "get", OBSERVE, "the size asked for"),
    NEED("apps", "statefulsets", "scale", "get", OBSERVE, "the size asked for"),
    NEED("autoscaling", "horizontalpodautoscalers", NULL, READ, OBSERVE, "who else sizes a target"),
    WHO("keda.sh", "scaledobjects", READ, OBSERVE, "who else sizes a target"),
    WHO("autoscaling.k8s.io", "verticalpodautoscalers", READ, OBSERVE, "who else sizes a target"),
    MAY("metrics.k8s.io", "pods", NULL, "get list", OBSERVE, "CPU and memory without Prometheus"),

    NEED("apps", "deployments", "scale", "update", SINGLE, "scaling"),
    NEED("apps", "statefulsets", "scale", "update", SINGLE, "scaling"),
    NEED("sluice.dev", "capacitytargets", "status", "patch", SINGLE, "safety state, overrides, intent, outcome"),
    NEED("events.k8s.io", "events", NULL, "create patch", SINGLE, "what was done, and why not"),
    OWN("coordination.k8s.io", "leases", NULL, "create", SINGLE, "which replica acts"),
    OWN("coordination.k8s.io", "leases", "sluice", "get update", SINGLE, "which replica acts"),

    MAY("cluster.x-k8s.io", "machinedeployments", NULL, READ, GLOBAL, "nodes as units"),
    MAY("cluster.x-k8s.io", "machinepools", NULL, READ, GLOBAL, "nodes as units"),
    MAY("cluster.x-k8s.io", "machinedeployments", "scale", "get update", GLOBAL, "nodes as units"),
    MAY("cluster.x-k8s.io", "machinepools", "scale", "get update", GLOBAL, "nodes as units"),
    MAY("leaderworkerset.x-k8s.io", "leaderworkersets", NULL, READ, GLOBAL, "groups as units"),
    MAY("leaderworkerset.x-k8s.io", "leaderworkersets", "scale", "get update", GLOBAL, "groups as units"),
};

const struct right rights_never[] = {
    NEVER("", "secrets", NULL, "get list"),
    NEVER("", "pods", NULL, "create delete patch"),
    NEVER("", "pods", "exec", "create"),
    NEVER("", "nodes", NULL, "patch delete"),
    NEVER("apps", "deployments", NULL, "create update patch delete"),
    NEVER("sluice.dev", "capacitytargets", NULL, "create patch delete"),
    NEVER("rbac.authorization.k8s.io", "clusterrolebindings", NULL, "create"),
};
/* clang-format on */
const size_t n_rights = ARRAY_LEN(rights);
const size_t n_rights_never = ARRAY_LEN(rights_never);

bool right_verb(const struct right *r, size_t i, char out[16])
{
    const char *at = r->verbs;
    while (i-- > 0) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
    }
    (void)snprintf(out, 16, "%.*s", (int)strcspn(at, " "), at);
    return true;
}

void right_add_verb(char verbs[RIGHT_VERBS], const char *verb)
{
    size_t n = strlen(verbs);
    (void)snprintf(verbs + n, RIGHT_VERBS - n, "%s%s", n ? ", " : "", verb);
}

void right_words(const struct right *r, const char *verbs, char *out, size_t n)
{
    (void)snprintf(out, n, "%s %s%s%s%s%s%s%s", verbs, r->resource, *r->group ? "." : "", r->group,
                   r->subresource ? "/" : "", r->subresource ? r->subresource : "",
                   r->name ? " " : "", r->name ? r->name : "");
}

void right_rule(const struct right *r, const char *verbs, struct buf *out)
{
    buf_fmt(out, "{apiGroups: [\"%s\"], resources: [\"%s%s%s\"], ", r->group, r->resource, r->subresource ? "/" : "",
            r->subresource ? r->subresource : "");
    if (r->name)
        buf_fmt(out, "resourceNames: [\"%s\"], ", r->name);
    buf_fmt(out, "verbs: [%s]}", verbs);
}

const char *right_file(const struct right *r)
{
    return r->from == STAGE_OBSERVE ? "deploy/base/rbac.yaml"
           : r->own_namespace       ? "deploy/overlays/single/namespace-rules.yaml"
           : r->from == STAGE_GLOBAL ? "deploy/overlays/global/cluster-rules.yaml"
                                     : "deploy/overlays/single/cluster-rules.yaml";
}
