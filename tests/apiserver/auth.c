/* auth.c - who asks (bearer tokens, client certificates), what they may do (rules, or RBAC
 * objects), and the reviews that say so. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

/* ---- tokens ---- */

static char *copy_or_null(const char *s)
{
    return s ? mem_strdup(s) : NULL;
}

void apiserver_token(struct apiserver *a, const char *token, const char *user,
                     const struct apiserver_rule *rules, size_t n)
{
    struct token *t = mem_zero(1, sizeof *t);
    t->token = mem_strdup(token);
    t->user = mem_strdup(user);
    t->n_rules = n;
    t->rules = mem_zero(n + 1, sizeof *t->rules);
    for (size_t i = 0; i < n; i++)
        t->rules[i] = (struct apiserver_rule){
            copy_or_null(rules[i].verbs), copy_or_null(rules[i].groups),
            copy_or_null(rules[i].resources), copy_or_null(rules[i].namespaces)};
    api_lock(a);
    t->next = a->tokens;
    a->tokens = t;
    api_unlock(a);
}

void apiserver_revoke(struct apiserver *a, const char *token)
{
    api_lock(a);
    for (struct token *t = a->tokens; t; t = t->next) {
        if (strcmp(t->token, token) == 0)
            t->revoked = true;
    }
    api_unlock(a);
}

static const struct token *find_token(struct apiserver *a, const char *token)
{
    for (const struct token *t = a->tokens; t; t = t->next) {
        if (strcmp(t->token, token) == 0)
            return t->revoked ? NULL : t;
    }
    return NULL;
}

static const struct token *find_user(struct apiserver *a, const char *user)
{
    for (const struct token *t = a->tokens; t; t = t->next) {
        if (!t->revoked && strcmp(t->user, user) == 0)
            return t;
    }
    return NULL;
}

static bool unauthorized(struct call *c)
{
    return api_fail(c, 401, "Unauthorized", NULL, "Unauthorized");
}

bool api_auth_user(struct call *c)
{
    if (c->token) {
        c->who = find_token(c->a, c->token);
        if (!c->who)
            return unauthorized(c);
        c->user = c->who->user;
    } else if (*c->cert_user) {
        c->who = find_user(c->a, c->cert_user);
        c->user = c->cert_user;
    } else {
        c->user = "system:anonymous";
        if (c->a->o.refuse_anonymous)
            return unauthorized(c);
    }
    return true;
}

/* ---- rules ---- */

static bool in_csv(const char *list, const char *word)
{
    size_t n = strlen(word);
    if (!list)
        return false;
    for (const char *p = list;;) {
        size_t len = strcspn(p, ",");
        if ((len == 1 && *p == '*') || (len == n && memcmp(p, word, n) == 0))
            return true;
        if (!p[len])
            return false;
        p += len + 1;
    }
}

struct ask {
    const char *verb, *group, *resource, *ns, *name; /* resource with "/sub" */
};

static bool rules_allow(const struct token *t, const struct ask *q)
{
    for (size_t i = 0; i < t->n_rules; i++) {
        const struct apiserver_rule *r = &t->rules[i];
        if (in_csv(r->verbs, q->verb) && in_csv(r->groups, q->group) &&
            in_csv(r->resources, q->resource) && (!r->namespaces || in_csv(r->namespaces, q->ns)))
            return true;
    }
    return false;
}

static bool in_list(const cJSON *list, const char *word, bool absent)
{
    if (cJSON_GetArraySize(list) == 0)
        return absent;
    js_each (x, list) {
        if (cJSON_IsString(x) &&
            (strcmp(x->valuestring, "*") == 0 || strcmp(x->valuestring, word) == 0))
            return true;
    }
    return false;
}

/* "*\/scale" speaks of a subresource of anything. */
static bool resource_in(const cJSON *list, const char *resource)
{
    const char *slash = strchr(resource, '/');
    char any[64] = "";
    if (slash)
        snprintf(any, sizeof any, "*%s", slash);
    return in_list(list, resource, false) || (slash && in_list(list, any, false));
}

static bool role_allows(const cJSON *role, const struct ask *q)
{
    js_each (r, api_js_at(role, "rules")) {
        if (in_list(api_js_at(r, "verbs"), q->verb, false) &&
            in_list(api_js_at(r, "apiGroups"), q->group, false) &&
            resource_in(api_js_at(r, "resources"), q->resource) &&
            in_list(api_js_at(r, "resourceNames"), q->name, true))
            return true;
    }
    return false;
}

static bool is_subject(const cJSON *binding, const char *user)
{
    js_each (s, api_js_at(binding, "subjects")) {
        const char *kind = api_js_str_or(s, "kind", ""), *name = api_js_str_or(s, "name", "");
        char sa[320];
        snprintf(sa, sizeof sa, "system:serviceaccount:%.120s:%.120s",
                 api_js_str_or(s, "namespace", ""), name);
        bool sas = strcmp(kind, "Group") == 0 && strncmp(user, "system:serviceaccount:", 22) == 0 &&
                   strcmp(name, "system:serviceaccounts") == 0;
        bool all = strcmp(kind, "Group") == 0 && strcmp(name, "system:authenticated") == 0;
        if (strcmp(strcmp(kind, "ServiceAccount") == 0 ? sa : name, user) == 0 || sas || all)
            return true;
    }
    return false;
}

static bool bound_role_allows(struct apiserver *a, const cJSON *binding, const char *ns,
                              const struct ask *q)
{
    bool cluster = strcmp(api_js_str_or(binding, "roleRef.kind", ""), "ClusterRole") == 0;
    const struct obj *o =
        api_store_get(api_store_core(a, cluster ? "clusterroles" : "roles"), cluster ? NULL : ns,
                      api_js_str_or(binding, "roleRef.name", ""));
    cJSON *role = o ? api_obj_parse(o) : NULL;
    bool ok = role && role_allows(role, q);
    cJSON_Delete(role);
    return ok;
}

static bool rbac_allows(struct apiserver *a, const char *user, const struct ask *q)
{
    static const char *const kind[] = {"clusterrolebindings", "rolebindings"};
    for (size_t k = 0; k < ARRAY_LEN(kind); k++) {
        const struct shelf *s = api_store_core(a, kind[k]);
        for (size_t i = 0; i < s->n; i++) {
            if (k == 1 && strcmp(s->v[i]->ns, q->ns) != 0)
                continue;
            cJSON *b = api_obj_parse(s->v[i]);
            bool ok = is_subject(b, user) && bound_role_allows(a, b, s->v[i]->ns, q);
            cJSON_Delete(b);
            if (ok)
                return true;
        }
    }
    return false;
}

static bool allowed(struct call *c, const struct ask *q)
{
    bool anonymous = strcmp(c->user, "system:anonymous") == 0;
    bool self_review = strcmp(q->verb, "create") == 0 &&
                       strncmp(q->resource, "selfsubject", 11) == 0 && strstr(q->group, "k8s.io");
    if (self_review && !anonymous)
        return true;
    return c->who && c->who->n_rules ? rules_allow(c->who, q) : rbac_allows(c->a, c->user, q);
}

/* Health and version are anybody's, discovery is for the authenticated. */
static bool path_allowed(struct call *c)
{
    static const char *const open[] = {"/version", "/healthz", "/livez", "/readyz"};
    for (size_t i = 0; i < ARRAY_LEN(open); i++) {
        if (strncmp(c->path, open[i], strlen(open[i])) == 0)
            return true;
    }
    if (strcmp(c->user, "system:anonymous") != 0)
        return true;
    return api_fail(c, 403, "Forbidden", cJSON_CreateObject(),
                    "forbidden: User \"%s\" cannot %s path \"%s\"", c->user,
                    strcmp(c->method, "GET") == 0 ? "get" : c->verb, c->path);
}

bool api_auth_allowed(struct call *c)
{
    if (!c->is_resource)
        return path_allowed(c);
    char resource[128], where[96], of[160];
    snprintf(resource, sizeof resource, "%s%s%s", c->resource, *c->sub ? "/" : "", c->sub);
    /* A namespace itself is asked about in itself. */
    const char *ns = strcmp(c->resource, "namespaces") == 0 && !*c->ns ? c->name : c->ns;
    struct ask q = {c->verb, c->group, resource, ns, c->name};
    if (allowed(c, &q))
        return true;
    if (*ns)
        snprintf(where, sizeof where, "in the namespace \"%.60s\"", ns);
    else
        snprintf(where, sizeof where, "at the cluster scope");
    snprintf(of, sizeof of, "%s%s%s", c->resource, *c->group ? "." : "", c->group);
    char name[280] = "";
    if (*c->name)
        snprintf(name, sizeof name, " \"%s\"", c->name);
    return api_fail(
        c, 403, "Forbidden", api_detail(c->name, c->group, c->resource),
        "%s%s is forbidden: User \"%s\" cannot %s resource \"%s\" in API group \"%s\" %s", of, name,
        c->user, c->verb, resource, c->group, where);
}

/* ---- reviews ---- */

static bool attributes_allowed(struct call *c, const cJSON *at)
{
    char resource[192];
    const char *sub = api_js_str_or(at, "subresource", "");
    snprintf(resource, sizeof resource, "%.96s%s%.64s", api_js_str_or(at, "resource", ""),
             *sub ? "/" : "", sub);
    struct ask q = {api_js_str_or(at, "verb", ""), api_js_str_or(at, "group", ""), resource,
                    api_js_str_or(at, "namespace", ""), api_js_str_or(at, "name", "")};
    return c->inside || allowed(c, &q);
}

static void review_access(struct call *c, cJSON *j)
{
    bool ok = attributes_allowed(c, api_js_at(j, "spec.resourceAttributes"));
    cJSON *status = cJSON_CreateObject();
    api_js_set(status, "allowed", cJSON_CreateBool(ok));
    if (ok)
        api_js_set_str(
            status, "reason",
            "RBAC: allowed by ClusterRoleBinding \"test\" of ClusterRole \"test\" to User");
    api_js_set(j, "status", status);
}

static void add_words(cJSON *rule, const char *key, const char *list)
{
    cJSON *a = api_js_list(rule, key);
    for (const char *p = list ? list : "";;) {
        size_t n = strcspn(p, ",");
        char one[96];
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        cJSON_AddItemToArray(a, cJSON_CreateString(one));
        if (!p[n])
            break;
        p += n + 1;
    }
}

static void add_role_rules(struct call *c, cJSON *rules, const char *bindings, const char *ns)
{
    const struct shelf *s = api_store_core(c->a, bindings);
    for (size_t i = 0; i < s->n; i++) {
        if (*s->v[i]->ns && strcmp(s->v[i]->ns, ns) != 0)
            continue;
        cJSON *b = api_obj_parse(s->v[i]);
        bool cluster = strcmp(api_js_str_or(b, "roleRef.kind", ""), "ClusterRole") == 0;
        const struct obj *o =
            api_store_get(api_store_core(c->a, cluster ? "clusterroles" : "roles"),
                          cluster ? NULL : s->v[i]->ns, api_js_str_or(b, "roleRef.name", ""));
        cJSON *role = o && is_subject(b, c->user) ? api_obj_parse(o) : NULL;
        js_each (r, api_js_at(role, "rules"))
            cJSON_AddItemToArray(rules, cJSON_Duplicate(r, true));
        cJSON_Delete(role);
        cJSON_Delete(b);
    }
}

static void review_rules(struct call *c, cJSON *j)
{
    cJSON *status = api_js_obj(j, "status"), *rules = api_js_list(status, "resourceRules");
    const char *ns = api_js_str_or(j, "spec.namespace", "");
    api_js_list(status, "nonResourceRules");
    api_js_set(status, "incomplete", cJSON_CreateBool(false));
    for (size_t i = 0; c->who && i < c->who->n_rules; i++) {
        const struct apiserver_rule *r = &c->who->rules[i];
        if (r->namespaces && !in_csv(r->namespaces, ns))
            continue;
        cJSON *one = cJSON_CreateObject();
        add_words(one, "verbs", r->verbs);
        add_words(one, "apiGroups", r->groups);
        add_words(one, "resources", r->resources);
        cJSON_AddItemToArray(rules, one);
    }
    if (c->user && !(c->who && c->who->n_rules)) {
        add_role_rules(c, rules, "clusterrolebindings", ns);
        add_role_rules(c, rules, "rolebindings", ns);
    }
    cJSON *self = cJSON_CreateObject();
    add_words(self, "verbs", "create");
    add_words(self, "apiGroups", "authorization.k8s.io");
    add_words(self, "resources", "selfsubjectaccessreviews,selfsubjectrulesreviews");
    cJSON_AddItemToArray(rules, self);
}

static void add_groups(cJSON *user, const char *name)
{
    cJSON *groups = api_js_list(user, "groups");
    if (strncmp(name, "system:serviceaccount:", 22) == 0) {
        char one[160];
        const char *ns = name + 22;
        snprintf(one, sizeof one, "system:serviceaccounts:%.*s", (int)strcspn(ns, ":"), ns);
        cJSON_AddItemToArray(groups, cJSON_CreateString("system:serviceaccounts"));
        cJSON_AddItemToArray(groups, cJSON_CreateString(one));
    }
    cJSON_AddItemToArray(groups, cJSON_CreateString("system:authenticated"));
}

static void review_token(struct call *c, cJSON *j)
{
    const struct token *t = find_token(c->a, api_js_str_or(j, "spec.token", ""));
    cJSON *status = api_js_obj(j, "status");
    if (!t) {
        api_js_set_str(status, "error", "[invalid bearer token, token lookup failed]");
        api_js_obj(status, "user");
        return;
    }
    api_js_set(status, "authenticated", cJSON_CreateBool(true));
    api_js_set_str(api_js_obj(status, "user"), "username", t->user);
    add_groups(api_js_obj(status, "user"), t->user);
    cJSON_AddItemToArray(api_js_list(status, "audiences"),
                         cJSON_CreateString("https://kubernetes.default.svc.cluster.local"));
}

/* POST serviceaccounts/X/token: a token that works from now on; expiry is left to apiserver_revoke.
 */
static void token_request(struct call *c, cJSON *j)
{
    double seconds = api_js_num(j, "spec.expirationSeconds", 3600);
    struct causes l = {0};
    if (seconds < 600) {
        api_cause(&l, INVALID, "spec.expirationSeconds",
                  "Invalid value: %d: may not specify a duration less than 10 minutes",
                  (int)seconds);
        api_fail_invalid(c, "TokenRequest", "authentication.k8s.io", "", &l);
        return;
    }
    struct token *t = mem_zero(1, sizeof *t);
    char text[400], uid[37];
    api_store_uid(c->a, uid);
    snprintf(text, sizeof text, "sa-token-%s", uid);
    t->token = mem_strdup(text);
    snprintf(text, sizeof text, "system:serviceaccount:%s:%s", c->ns, c->name);
    t->user = mem_strdup(text);
    t->rules = mem_zero(1, sizeof *t->rules);
    t->next = c->a->tokens;
    c->a->tokens = t;
    api_js_set_str(j, "kind", "TokenRequest");
    api_js_set_str(j, "apiVersion", "authentication.k8s.io/v1");
    cJSON *m = api_js_obj(j, "metadata"), *spec = api_js_obj(j, "spec"),
          *status = api_js_obj(j, "status");
    api_js_set_str(m, "name", c->name);
    api_js_set_str(m, "namespace", c->ns);
    api_js_set_str(m, "creationTimestamp", api_call_time(c->a, text));
    if (!api_js_at(spec, "audiences"))
        cJSON_AddItemToArray(api_js_list(spec, "audiences"),
                             cJSON_CreateString("https://kubernetes.default.svc.cluster.local"));
    api_js_set_num(spec, "expirationSeconds", seconds);
    api_js_default(spec, "boundObjectRef", cJSON_CreateNull());
    api_js_set_str(status, "token", t->token);
    api_js_set_str(status, "expirationTimestamp",
                   api_time_text(api_now_us(c->a) + (int64_t)(seconds * 1e6), text));
    api_answer(c, 201, j);
}

void api_review_run(struct call *c)
{
    cJSON *j = cJSON_ParseWithLength(c->body, c->n_body);
    const char *plural = c->shelf->kind->plural;
    if (!cJSON_IsObject(j)) {
        cJSON_Delete(j);
        api_fail_bad(c, "the object provided is unrecognized (must be of type %s)",
                     c->shelf->kind->name);
        return;
    }
    if (strcmp(plural, "serviceaccounts") == 0) {
        token_request(c, j);
        cJSON_Delete(j);
        return;
    }
    api_js_default(j, "metadata", cJSON_CreateObject());
    if (strcmp(plural, "selfsubjectaccessreviews") == 0 ||
        strcmp(plural, "subjectaccessreviews") == 0)
        review_access(c, j);
    else if (strcmp(plural, "selfsubjectrulesreviews") == 0)
        review_rules(c, j);
    else if (strcmp(plural, "tokenreviews") == 0)
        review_token(c, j);
    else
        api_js_set_str(api_js_obj(api_js_obj(j, "status"), "userInfo"), "username",
                       c->user ? c->user : "kubernetes-admin");
    api_answer(c, 201, j);
    cJSON_Delete(j);
}
