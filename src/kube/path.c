/* path.c - where resources live; times and values in bodies. */
#include <string.h>

#include "base/mem.h"
#include "base/tz.h"
#include "kube/client_priv.h"

const struct kube_resource
    KUBE_PODS = {"", "v1", "pods", "Pod", true, false},
    KUBE_NODES = {"", "v1", "nodes", "Node", false, false},
    KUBE_NAMESPACES = {"", "v1", "namespaces", "Namespace", false, false},
    KUBE_DEPLOYMENTS = {"apps", "v1", "deployments", "Deployment", true, true},
    KUBE_STATEFULSETS = {"apps", "v1", "statefulsets", "StatefulSet", true, true},
    KUBE_REPLICASETS = {"apps", "v1", "replicasets", "ReplicaSet", true, true},
    /* v1, not v2: whom it sizes is the same in both, and v1 is served by every version of Kubernetes. */
    KUBE_HPAS = {"autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler",
                 true,          false},
    KUBE_LEASES = {"coordination.k8s.io", "v1", "leases", "Lease", true, false},
    KUBE_EVENTS = {"events.k8s.io", "v1", "events", "Event", true, false},
    KUBE_CAPACITY_TARGETS = {"sluice.dev",     "v1alpha1", "capacitytargets",
                             "CapacityTarget", true,       false},
    KUBE_SCALED_OBJECTS = {"keda.sh", "v1alpha1", "scaledobjects", "ScaledObject", true, false},
    KUBE_VPAS = {"autoscaling.k8s.io",    "v1", "verticalpodautoscalers",
                 "VerticalPodAutoscaler", true, false};

static void segment(struct buf *out, const char *s)
{
    buf_char(out, '/');
    http_escape(out, s);
}

void kube_path(struct buf *out, const struct kube_resource *r, const char *ns, const char *name,
               const char *sub)
{
    buf_str(out, r->group[0] ? "/apis" : "/api");
    if (r->group[0])
        segment(out, r->group);
    segment(out, r->version);
    if (r->namespaced && ns && *ns) {
        buf_str(out, "/namespaces");
        segment(out, ns);
    }
    segment(out, r->plural);
    if (name)
        segment(out, name);
    if (sub)
        segment(out, sub);
}

void kube_query(struct buf *path, const char *key, const char *value)
{
    buf_char(path, path->n && memchr(path->p, '?', path->n) ? '&' : '?');
    http_escape(path, key);
    buf_char(path, '=');
    http_escape(path, value);
}

bool kube_split_api_version(const char *api_version, char group[64], char version[32])
{
    const char *slash = strchr(api_version, '/');
    size_t n_group = slash ? (size_t)(slash - api_version) : 0;
    const char *v = slash ? slash + 1 : api_version;
    if (n_group >= 64 || strlen(v) >= 32 || *v == '\0' || strchr(v, '/') || (slash && n_group == 0))
        return false;
    memcpy(group, api_version, n_group);
    group[n_group] = '\0';
    memcpy(version, v, strlen(v) + 1);
    return true;
}

static char *digits(char *at, int n, int v)
{
    for (int i = n - 1; i >= 0; i--, v /= 10)
        at[i] = (char)('0' + v % 10);
    return at + n;
}

void kube_time_format(int64_t wall_us, char out[KUBE_TIME_TEXT])
{
    struct tz_civil c = tz_civil(wall_us);
    char *at = digits(out, 4, c.year);
    *at++ = '-';
    at = digits(at, 2, c.month);
    *at++ = '-';
    at = digits(at, 2, c.day);
    *at++ = 'T';
    at = digits(at, 2, c.hour);
    *at++ = ':';
    at = digits(at, 2, c.minute);
    *at++ = ':';
    at = digits(at, 2, c.second);
    *at++ = '.';
    at = digits(at, 6, c.us);
    *at++ = 'Z';
    *at = '\0';
}

bool json_copy(struct json_writer *w, const char *key, const struct json *v)
{
    if (json_is_object(v) || json_is_array(v)) {
        bool object = json_is_object(v), whole = true;
        if (w->depth >= JSON_DEPTH_MAX)
            return false;
        object ? json_open(w, key) : json_open_array(w, key);
        for (const struct json *c = json_first(v); c && whole; c = json_next(c))
            whole = json_copy(w, json_key(c), c);
        object ? json_close(w) : json_close_array(w);
        return whole;
    }
    if (json_is_string(v))
        json_put_str(w, key, json_text(v));
    else if (json_is_number(v))
        json_put_f64(w, key, json_number(v));
    else if (json_is_bool(v))
        json_put_bool(w, key, json_is_true(v));
    else
        json_put_null(w, key);
    return true;
}
