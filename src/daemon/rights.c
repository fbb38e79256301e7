#include "daemon/rights.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define READ "get list watch"

/* One row per line: the table is read as a whole. */
/* clang-format off */
const struct right rights[] = {
    {"sluice.dev", "capacitytargets", NULL, READ, STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, "the targets"},
    {"", "pods", NULL, READ, STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, "units ready, warming and failed"},
    {"apps", "deployments", NULL, READ, STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, "labels, and changes of size"},
    {"apps", "statefulsets", NULL, READ, STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, "labels, and changes of size"},
    {"apps", "deployments", "scale", "get", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, "the size asked for"},
    {"apps", "statefulsets", "scale", "get", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, "the size asked for"},
    {"autoscaling", "horizontalpodautoscalers", NULL, READ, STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, "who else sizes a target"},
    {"keda.sh", "scaledobjects", NULL, READ, STAGE_OBSERVE, RIGHT_OPTIONAL, false, NULL, "who else sizes a target"},
    {"autoscaling.k8s.io", "verticalpodautoscalers", NULL, READ, STAGE_OBSERVE, RIGHT_OPTIONAL, false, NULL, "who else sizes a target"},
    {"metrics.k8s.io", "pods", NULL, "get list", STAGE_OBSERVE, RIGHT_OPTIONAL, false, NULL, "CPU and memory without Prometheus"},

    {"apps", "deployments", "scale", "update", STAGE_SINGLE, RIGHT_REQUIRED, false, NULL, "scaling"},
    {"apps", "statefulsets", "scale", "update", STAGE_SINGLE, RIGHT_REQUIRED, false, NULL, "scaling"},
    {"sluice.dev", "capacitytargets", NULL, "patch", STAGE_SINGLE, RIGHT_REQUIRED, false, NULL, "sluice override"},
    {"sluice.dev", "capacitytargets", "status", "patch", STAGE_SINGLE, RIGHT_REQUIRED, false, NULL, "safety state, intent and outcome"},
    {"events.k8s.io", "events", NULL, "create patch", STAGE_SINGLE, RIGHT_REQUIRED, false, NULL, "what was done, and why not"},
    {"coordination.k8s.io", "leases", NULL, "create", STAGE_SINGLE, RIGHT_REQUIRED, true, NULL, "which replica acts"},
    {"coordination.k8s.io", "leases", NULL, "get update", STAGE_SINGLE, RIGHT_REQUIRED, true, "sluice", "which replica acts"},

    {"cluster.x-k8s.io", "machinedeployments", NULL, READ, STAGE_GLOBAL, RIGHT_OPTIONAL, false, NULL, "nodes as units"},
    {"cluster.x-k8s.io", "machinepools", NULL, READ, STAGE_GLOBAL, RIGHT_OPTIONAL, false, NULL, "nodes as units"},
    {"cluster.x-k8s.io", "machinedeployments", "scale", "get update", STAGE_GLOBAL, RIGHT_OPTIONAL, false, NULL, "nodes as units"},
    {"cluster.x-k8s.io", "machinepools", "scale", "get update", STAGE_GLOBAL, RIGHT_OPTIONAL, false, NULL, "nodes as units"},
    {"leaderworkerset.x-k8s.io", "leaderworkersets", NULL, READ, STAGE_GLOBAL, RIGHT_OPTIONAL, false, NULL, "groups of pods as units"},
    {"leaderworkerset.x-k8s.io", "leaderworkersets", "scale", "get update", STAGE_GLOBAL, RIGHT_OPTIONAL, false, NULL, "groups of pods as units"},
};

const struct right rights_never[] = {
    {"", "secrets", NULL, "get list", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, ""},
    {"", "pods", NULL, "create delete patch", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, ""},
    {"", "pods", "exec", "create", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, ""},
    {"", "nodes", NULL, "patch delete", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, ""},
    {"apps", "deployments", NULL, "create update patch delete", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, ""},
    {"sluice.dev", "capacitytargets", NULL, "create delete", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, ""},
    {"rbac.authorization.k8s.io", "clusterrolebindings", NULL, "create", STAGE_OBSERVE, RIGHT_REQUIRED, false, NULL, ""},
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

void right_words(const struct right *r, const char *verb, char *out, size_t n)
{
    (void)snprintf(out, n, "%s %s%s%s%s%s%s%s", verb, r->resource, *r->group ? "." : "", r->group,
                   r->subresource ? "/" : "", r->subresource ? r->subresource : "", r->name ? " " : "",
                   r->name ? r->name : "");
}
