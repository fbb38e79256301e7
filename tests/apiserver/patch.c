/* patch.c - JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch, and apply.
 *
 * Strategic merges know lists as maps by a key, per field name: containers by name, conditions by
 * type.  Apply is the same merge with a manager's name on it; who owns which field is not tracked
 * (docs/apiserver.md). */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"

/* ---- JSON patch ---- */

static void unescape(char *s) /* ~1 is '/', ~0 is '~' */
{
    char *w = s;
    for (const char *r = s; *r; r++) {
        if (*r == '~' && (r[1] == '0' || r[1] == '1'))
            *w++ = *++r == '1' ? '/' : '~';
        else
            *w++ = *r;
    }
    *w = '\0';
}

static cJSON *child_of(cJSON *at, const char *part)
{
    int64_t i;
    if (cJSON_IsObject(at))
        return cJSON_GetObjectItemCaseSensitive(at, part);
    if (cJSON_IsArray(at) && num_i64(part, strlen(part), &i) && i >= 0 && i < (1 << 30))
        return cJSON_GetArrayItem(at, (int)i);
    return NULL;
}

/* Walks to the parent of the last part; `last` gets that part.  NULL when something on the way is
 * missing. */
static cJSON *pointer_parent(cJSON *doc, const char *path, char *last, size_t n_last)
{
    char *copy = mem_strdup(path);
    cJSON *at = *copy == '/' ? doc : NULL;
    char *part = copy + (*copy == '/');
    while (at) {
        char *slash = strchr(part, '/');
        if (slash)
            *slash = '\0';
        unescape(part);
        if (!slash) {
            snprintf(last, n_last, "%s", part);
            break;
        }
        at = child_of(at, part);
        part = slash + 1;
    }
    mem_free(copy);
    return at;
}

static cJSON *pointer_get(cJSON *doc, const char *path)
{
    char last[512];
    if (!*path)
        return doc;
    cJSON *parent = pointer_parent(doc, path, last, sizeof last);
    return parent ? child_of(parent, last) : NULL;
}

static bool pointer_add(cJSON *doc, const char *path, cJSON *value)
{
    char last[512];
    cJSON *parent = pointer_parent(doc, path, last, sizeof last);
    int64_t i = -1;
    if (cJSON_IsObject(parent)) {
        api_js_set(parent, last, value);
        return true;
    }
    bool end = strcmp(last, "-") == 0;
    if (cJSON_IsArray(parent) &&
        (end || (num_i64(last, strlen(last), &i) && i >= 0 && i <= cJSON_GetArraySize(parent)))) {
        if (end || i == cJSON_GetArraySize(parent))
            cJSON_AddItemToArray(parent, value);
        else
            cJSON_InsertItemInArray(parent, (int)i, value);
        return true;
    }
    cJSON_Delete(value);
    return false;
}

static bool pointer_remove(cJSON *doc, const char *path)
{
    char last[512];
    cJSON *parent = pointer_parent(doc, path, last, sizeof last);
    cJSON *v = parent ? child_of(parent, last) : NULL;
    if (!v)
        return false;
    cJSON_Delete(cJSON_DetachItemViaPointer(parent, v));
    return true;
}

static bool patch_op(cJSON *doc, const cJSON *op)
{
    const char *what = api_js_str_or(op, "op", ""), *path = api_js_str(op, "path"),
               *from = api_js_str(op, "from");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(op, "value");
    if (!path)
        return false;
    if (strcmp(what, "test") == 0)
        return api_js_same(pointer_get(doc, path), value) && value;
    if (strcmp(what, "remove") == 0)
        return pointer_remove(doc, path);
    if (strcmp(what, "add") == 0)
        return value && pointer_add(doc, path, cJSON_Duplicate(value, true));
    if (strcmp(what, "replace") == 0) {
        cJSON *old = pointer_get(doc, path);
        bool list_item = old && cJSON_IsArray(old) == false && old->string == NULL;
        if (!value || !old || !*path)
            return false;
        return (list_item && !pointer_remove(doc, path))
                   ? false
                   : pointer_add(doc, path, cJSON_Duplicate(value, true));
    }
    bool move = strcmp(what, "move") == 0;
    cJSON *src = from && (move || strcmp(what, "copy") == 0) ? pointer_get(doc, from) : NULL;
    if (!src)
        return false;
    cJSON *copy = cJSON_Duplicate(src, true);
    if (move && !pointer_remove(doc, from)) {
        cJSON_Delete(copy);
        return false;
    }
    return pointer_add(doc, path, copy);
}

static bool json_patch(struct call *c, cJSON *doc, const cJSON *patch)
{
    bool ok = cJSON_IsArray(patch);
    if (!ok)
        return api_fail_bad(c, "error decoding patch: json: cannot unmarshal object into Go value "
                               "of type jsonpatch.Patch");
    js_each (op, patch) {
        if (!patch_op(doc, op))
            return api_fail(c, 422, "Invalid", cJSON_CreateObject(),
                            "the server rejected our request due to an error in our request");
    }
    return true;
}

/* ---- merge patch ---- */

static void merge(cJSON *to, const cJSON *patch)
{
    js_each (p, patch) {
        if (cJSON_IsNull(p)) {
            api_js_drop(to, p->string);
        } else if (cJSON_IsObject(p)) {
            merge(api_js_obj(to, p->string), p);
        } else {
            api_js_set(to, p->string, cJSON_Duplicate(p, true));
        }
    }
}

/* ---- strategic merge ---- */

static const char *merge_key(const char *field)
{
    static const struct {
        const char *field, *key;
    } table[] = {
        {"containers", "name"},
        {"initContainers", "name"},
        {"ephemeralContainers", "name"},
        {"env", "name"},
        {"volumes", "name"},
        {"imagePullSecrets", "name"},
        {"schedulingGates", "name"},
        {"secrets", "name"},
        {"resourceClaims", "name"},
        {"volumeMounts", "mountPath"},
        {"volumeDevices", "devicePath"},
        {"ports", "containerPort"},
        {"conditions", "type"},
        {"addresses", "type"},
        {"ownerReferences", "uid"},
        {"taints", "key"},
        {"hostAliases", "ip"},
        {"topologySpreadConstraints", "topologyKey"},
        {"podIPs", "ip"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (strcmp(table[i].field, field) == 0)
            return table[i].key;
    }
    return NULL;
}

static void strategic(cJSON *to, const cJSON *patch);

static cJSON *find_by(cJSON *list, const char *key, const cJSON *item)
{
    const cJSON *want = cJSON_GetObjectItemCaseSensitive(item, key);
    js_each (x, list) {
        if (want && api_js_same(cJSON_GetObjectItemCaseSensitive(x, key), want))
            return x;
    }
    return NULL;
}

static bool replaces(const cJSON *list)
{
    js_each (x, list) {
        if (strcmp(api_js_str_or(x, "$patch", ""), "replace") == 0)
            return true;
    }
    return false;
}

static void strategic_list(cJSON *to, const cJSON *patch, const char *key)
{
    bool replace = replaces(patch);
    while (replace && to->child)
        cJSON_DeleteItemFromArray(to, 0);
    js_each (p, patch) {
        const char *directive = api_js_str_or(p, "$patch", "");
        cJSON *there = find_by(to, key, p);
        if (strcmp(directive, "delete") == 0) {
            if (there)
                cJSON_Delete(cJSON_DetachItemViaPointer(to, there));
        } else if (strcmp(directive, "replace") == 0 && cJSON_GetArraySize(p) == 1) {
            continue;
        } else if (there) {
            strategic(there, p);
        } else {
            cJSON *fresh = cJSON_CreateObject();
            cJSON_AddItemToArray(to, fresh);
            strategic(fresh, p);
        }
    }
}

static void union_list(cJSON *to, const cJSON *patch) /* finalizers */
{
    js_each (p, patch) {
        bool there = false;
        js_each (x, to)
            there |= api_js_same(x, p);
        if (!there)
            cJSON_AddItemToArray(to, cJSON_Duplicate(p, true));
    }
}

static void delete_primitives(cJSON *list, const cJSON *patch)
{
    js_each (p, patch) {
        for (cJSON *x = list ? list->child : NULL; x;) {
            cJSON *next = x->next;
            if (api_js_same(x, p))
                cJSON_Delete(cJSON_DetachItemViaPointer(list, x));
            x = next;
        }
    }
}

static void strategic_field(cJSON *to, const cJSON *p)
{
    static const char drop[] = "$deleteFromPrimitiveList/";
    const char *key = cJSON_IsArray(p) ? merge_key(p->string) : NULL;
    /* Service ports go by port; a list of the wrong shape is replaced. */
    if (key && strcmp(p->string, "ports") == 0 && p->child &&
        !cJSON_GetObjectItemCaseSensitive(p->child, key))
        key = "port";
    if (strncmp(p->string, drop, sizeof drop - 1) == 0)
        delete_primitives(cJSON_GetObjectItemCaseSensitive(to, p->string + sizeof drop - 1), p);
    else if (p->string[0] == '$')
        return;
    else if (cJSON_IsNull(p))
        api_js_drop(to, p->string);
    else if (cJSON_IsObject(p))
        strategic(api_js_obj(to, p->string), p);
    else if (key && (!p->child || cJSON_IsObject(p->child)))
        strategic_list(api_js_list(to, p->string), p, key);
    else if (cJSON_IsArray(p) && strcmp(p->string, "finalizers") == 0)
        union_list(api_js_list(to, p->string), p);
    else
        api_js_set(to, p->string, cJSON_Duplicate(p, true));
}

static void strategic(cJSON *to, const cJSON *patch)
{
    const char *directive = api_js_str_or(patch, "$patch", "");
    if (strcmp(directive, "replace") == 0 || strcmp(directive, "delete") == 0) {
        while (to->child)
            cJSON_Delete(cJSON_DetachItemViaPointer(to, to->child));
        if (strcmp(directive, "delete") == 0)
            return;
    }
    const cJSON *retain = cJSON_GetObjectItemCaseSensitive(patch, "$retainKeys");
    for (cJSON *x = retain ? to->child : NULL; x;) {
        cJSON *next = x->next;
        bool keep = false;
        js_each (k, retain)
            keep |= cJSON_IsString(k) && strcmp(k->valuestring, x->string) == 0;
        if (!keep)
            api_js_drop(to, x->string);
        x = next;
    }
    js_each (p, patch)
        strategic_field(to, p);
}

/* ---- choosing ---- */

enum patch_type { PATCH_JSON, PATCH_MERGE, PATCH_STRATEGIC, PATCH_APPLY, PATCH_UNKNOWN };

static enum patch_type type_of(const char *content_type)
{
    static const char *const name[] = {
        "application/json-patch+json", "application/merge-patch+json",
        "application/strategic-merge-patch+json", "application/apply-patch+yaml"};
    for (size_t i = 0; content_type && i < ARRAY_LEN(name); i++) {
        if (strncmp(content_type, name[i], strlen(name[i])) == 0)
            return (enum patch_type)i;
    }
    return PATCH_UNKNOWN;
}

static bool refuse_type(struct call *c, bool custom)
{
    if (custom)
        return api_fail(c, 415, "UnsupportedMediaType", NULL,
                        "the body of the request was in an unknown format - accepted media types "
                        "include: application/json-patch+json, application/merge-patch+json, "
                        "application/apply-patch+yaml");
    return api_fail(c, 415, "UnsupportedMediaType", cJSON_CreateObject(),
                    "415: Unsupported Media Type");
}

bool api_patch_is_apply(const struct call *c)
{
    return type_of(c->content_type) == PATCH_APPLY;
}

bool api_patch_apply(struct call *c, const struct kind *k, cJSON *doc, cJSON **out)
{
    enum patch_type t = type_of(c->content_type);
    bool custom = k->flags & KIND_CUSTOM;
    if (t == PATCH_UNKNOWN || (t == PATCH_STRATEGIC && custom))
        return refuse_type(c, custom);
    const char *manager = api_call_query(c, "fieldManager");
    if (t == PATCH_APPLY && !(manager && *manager)) {
        struct causes l = {0};
        api_cause(&l, REQUIRED, "fieldManager", "Required value: is required for apply patch");
        return api_fail_invalid(c, "PatchOptions", "meta.k8s.io", "", &l);
    }
    bool utf8 = utf8_valid_prefix(c->body, c->n_body) == c->n_body;
    cJSON *patch = !utf8              ? NULL
                   : t == PATCH_APPLY ? api_load_one(c->body, c->n_body)
                                      : cJSON_ParseWithLength(c->body, c->n_body);
    if (!patch)
        return api_fail_bad(c, "error decoding patch: unexpected end of JSON input");
    cJSON *now = cJSON_Duplicate(doc, true);
    bool ok = true;
    if (t == PATCH_JSON)
        ok = json_patch(c, now, patch);
    else if (!cJSON_IsObject(patch))
        ok = api_fail_bad(c, "error decoding patch: json: cannot unmarshal array into Go value of "
                             "type map[string]interface {}");
    else if (t == PATCH_MERGE || custom)
        merge(now, patch);
    else
        strategic(now, patch);
    cJSON_Delete(patch);
    if (!ok || !cJSON_IsObject(now)) {
        cJSON_Delete(now);
        return ok && api_fail_bad(c, "the patched object is no object");
    }
    *out = now;
    return true;
}

/* The patched object as the server's decoder sees it. */
bool api_patch_decoded(struct call *c, const struct shelf *s, cJSON *now, bool scale)
{
    char wrong[512], field[256] = "";
    const char *validation = api_call_query(c, "fieldValidation");
    char *text = api_js_text(now);
    api_kind_decode(s->kind, now, scale, wrong, sizeof wrong);
    if (!scale)
        api_field_unknown(s, now, field, sizeof field);
    if (!*wrong && *field && validation && strcmp(validation, "Strict") == 0)
        snprintf(wrong, sizeof wrong, "strict decoding error: unknown field \"%s\"", field);
    if (!*wrong) {
        mem_free(text);
        return true;
    }
    struct causes l = {0};
    struct buf quoted = buf_init(16 << 20);
    api_js_quote(&quoted, text);
    api_cause(&l, INVALID, "patch", "Invalid value: %s: %s", quoted.p, wrong);
    mem_free(text);
    buf_fini(&quoted);
    return api_fail_invalid(c, "", "", "", &l);
}

void api_write_patch(struct call *c)
{
    struct shelf *s = c->shelf;
    const struct kind *k = s->kind;
    struct obj *old = api_store_get(s, c->ns, c->name);
    cJSON *doc, *now = NULL;
    if (!old && (!api_patch_is_apply(c) || *c->sub)) {
        api_fail_not_found(c, c->name);
        return;
    }
    doc = old ? api_obj_parse(old) : cJSON_CreateObject();
    api_js_set_str(doc, "kind", k->name);
    char version[112];
    snprintf(version, sizeof version, "%s%s%s", k->group, *k->group ? "/" : "", k->version);
    api_js_set_str(doc, "apiVersion", version);
    if (api_patch_apply(c, k, doc, &now) && api_patch_decoded(c, s, now, false)) {
        if (old) {
            api_write_commit(c, old, now, c->sub, 200);
            now = NULL;
        } else {
            api_js_set_str(api_js_obj(now, "metadata"), "name", c->name);
            api_write_insert(c, s, now);
        }
    }
    cJSON_Delete(now);
    cJSON_Delete(doc);
}
