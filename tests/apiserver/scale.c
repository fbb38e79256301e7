/* scale.c - /scale: spec.replicas of any resource as an autoscaling/v1 Scale. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

/* Number at a path like ".status.replicas" or "status.replicas". */
static double number_at(const cJSON *j, const char *path)
{
    return path && *path ? api_js_num(j, path + (*path == '.'), 0) : 0;
}

static void add_selector(cJSON *status, const struct kind *k, const cJSON *j)
{
    struct buf text = buf_init(1 << 20);
    if (!(k->flags & KIND_CUSTOM))
        api_selector_text(&text, api_js_at(j, "spec.selector"));
    else if (k->selector_path)
        buf_str(&text, api_js_str_or(j, k->selector_path + (*k->selector_path == '.'), ""));
    if (text.n)
        api_js_set_str(status, "selector", text.p);
    buf_fini(&text);
}

/* Zero replicas are left out of the spec, as Go's omitempty does. */
static cJSON *scale_of(const struct shelf *s, const struct obj *o)
{
    cJSON *j = api_obj_parse(o), *scale = cJSON_CreateObject(), *m = cJSON_CreateObject();
    static const char *const field[] = {"name", "namespace", "uid", "resourceVersion",
                                        "creationTimestamp"};
    api_js_set_str(scale, "kind", "Scale");
    api_js_set_str(scale, "apiVersion", "autoscaling/v1");
    api_js_set(scale, "metadata", m);
    for (size_t i = 0; i < ARRAY_LEN(field); i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(api_js_at(j, "metadata"), field[i]);
        if (v)
            cJSON_AddItemToObject(m, field[i], cJSON_Duplicate(v, true));
    }
    double replicas = number_at(j, s->kind->replicas_path);
    cJSON *spec = api_js_obj(scale, "spec"), *status = api_js_obj(scale, "status");
    if (replicas != 0)
        api_js_set_num(spec, "replicas", replicas);
    api_js_set_num(status, "replicas", number_at(j, s->kind->status_replicas_path));
    add_selector(status, s->kind, j);
    cJSON_Delete(j);
    return scale;
}

static bool check_scale(struct call *c, const cJSON *scale)
{
    double n = api_js_num(scale, "spec.replicas", 0);
    struct causes l = {0};
    if (n < 0)
        api_cause(&l, INVALID, "spec.replicas",
                  "Invalid value: %d: must be greater than or equal to 0", (int)n);
    return api_causes_none(&l) || api_fail_invalid(c, "Scale", "autoscaling", c->name, &l);
}

static void set_replicas(cJSON *j, const char *path, double n)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", path + (*path == '.'));
    cJSON *at = j;
    char *part = copy, *dot;
    while ((dot = strchr(part, '.')) != NULL) {
        *dot = '\0';
        at = api_js_obj(at, part);
        part = dot + 1;
    }
    api_js_set_num(at, part, n);
}

/* Writes the scale back; the answer is the scale that results. */
static void commit(struct call *c, struct obj *old, const cJSON *scale)
{
    struct shelf *s = c->shelf;
    if (!check_scale(c, scale))
        return;
    cJSON *j = api_obj_parse(old);
    double n = api_js_num(scale, "spec.replicas", 0);
    if (n != number_at(j, s->kind->replicas_path))
        set_replicas(j, s->kind->replicas_path, n);
    const char *rv = api_js_str(scale, "metadata.resourceVersion"),
               *uid = api_js_str(scale, "metadata.uid");
    api_js_drop(api_js_obj(j, "metadata"), "resourceVersion");
    if (rv)
        api_js_set_str(api_js_obj(j, "metadata"), "resourceVersion", rv);
    if (uid)
        api_js_set_str(api_js_obj(j, "metadata"), "uid", uid);
    api_write_commit(c, old, j, "scale", 200);
    struct obj *now = c->out->status == 200 ? api_store_get(s, c->ns, c->name) : NULL;
    if (now) {
        cJSON *answered = scale_of(s, now);
        if (c->dry_run)
            api_js_set_num(api_js_obj(answered, "spec"), "replicas", n);
        api_answer(c, 200, answered);
        cJSON_Delete(answered);
    }
}

static cJSON *parse_put(struct call *c)
{
    cJSON *j = cJSON_ParseWithLength(c->body, c->n_body);
    char wrong[512] = "";
    if (!cJSON_IsObject(j)) {
        api_fail_bad(c, "the object provided is unrecognized (must be of type Scale): couldn't get "
                        "version/kind; json parse error: "
                        "unexpected end of JSON input");
        cJSON_Delete(j);
        return NULL;
    }
    api_kind_decode(c->shelf->kind, j, true, wrong, sizeof wrong);
    const char *name = api_js_str_or(j, "metadata.name", "");
    bool ok = true;
    if (*wrong)
        ok = api_fail_bad(c, "Scale in version \"v1\" cannot be handled as a Scale: %s", wrong);
    else if (*name && strcmp(name, c->name) != 0)
        ok = api_fail_bad(c, "the name of the object (%s) does not match the name on the URL (%s)",
                          name, c->name);
    if (ok)
        return j;
    cJSON_Delete(j);
    return NULL;
}

void api_scale_run(struct call *c)
{
    struct obj *old = api_store_get(c->shelf, c->ns, c->name);
    cJSON *now = NULL, *scale;
    if (!old) {
        api_fail_not_found(c, c->name);
        return;
    }
    scale = scale_of(c->shelf, old);
    if (strcmp(c->verb, "get") == 0) {
        api_answer(c, 200, scale);
    } else if (strcmp(c->verb, "update") == 0) {
        now = parse_put(c);
        if (now)
            commit(c, old, now);
    } else if (strcmp(c->verb, "patch") == 0) {
        if (api_patch_apply(c, c->shelf->kind, scale, &now) &&
            api_patch_decoded(c, c->shelf, now, true))
            commit(c, old, now);
    } else {
        api_fail(c, 405, "MethodNotAllowed", cJSON_CreateObject(),
                 "the server does not allow this method on the requested resource");
    }
    cJSON_Delete(now);
    cJSON_Delete(scale);
}
