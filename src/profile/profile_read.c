/* profile_read.c - labels, annotations, pod templates and specs into layers.
 *
 * Both readers end in the same table row: text and JSON are two ways to write the row's kind. A key
 * is looked up in the table, in the list of keys that belong to single tasks, or it is a fault with
 * the nearest known key. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/tz.h"
#include "base/utf8.h"
#include "kube/objects.h"
#include "kube/quantity.h"
#include "profile/profile_priv.h"

#define PREFIX "sluice.dev/"

/* Keys of pods and workflow tasks, for placement and the queue. */
static const char *const task_keys[] = {"deadline",      "start-within", "runtime-estimate",
                                        "workflow",      "task",         "depends-on",
                                        "node-override", "placement",    "dependencies"};

/* ---- text ------------------------------------------------------------------------------------ */

static bool class_from_text(const char *s, size_t n, int64_t *out)
{
    if (n != 2 || s[0] != 'P' || s[1] < '0' || s[1] > '3')
        return false;
    *out = s[1] - '0';
    return true;
}

static bool flag_from_text(const char *s, bool *out)
{
    *out = strcmp(s, "true") == 0;
    return *out || strcmp(s, "false") == 0;
}

static bool value_from_text(const struct profile_row *r, const char *s, struct profile_value *v)
{
    size_t n = strlen(s);
    *v = (struct profile_value){.text = s, .n = n};
    switch (r->kind) {
    case PROFILE_INT:
        return num_i64(s, n, &v->i);
    case PROFILE_CLASS:
        return class_from_text(s, n, &v->i);
    case PROFILE_NUM:
        return num_f64(s, n, &v->num);
    case PROFILE_FLAG:
        return flag_from_text(s, &v->flag);
    case PROFILE_TIME:
        return tz_parse_rfc3339(s, n, &v->i, NULL) == ERR_OK;
    case PROFILE_DURATION:
        return opt_parse_duration(s, &v->i, NULL) == ERR_OK;
    case PROFILE_TEXT:
        break;
    }
    return true;
}

/* ---- labels and annotations ------------------------------------------------------------------ */

struct meta_reader {
    struct profile *p;
    enum profile_source source;
    const char *object;
    struct profile_faults *faults;
    const char *said[PROFILE_FIELDS]; /* by the labels */
};

static int field_of_meta(const char *key)
{
    for (int f = 0; f < PROFILE_FIELDS; f++) {
        const char *known = profile_row((enum profile_field)f)->meta;
        if (known && strcmp(known, key) == 0)
            return f;
    }
    return -1;
}

static const char *meta_key(size_t i, const void *arg)
{
    (void)arg;
    for (int f = 0; f < PROFILE_FIELDS; f++)
        if (profile_row((enum profile_field)f)->meta && i-- == 0)
            return profile_row((enum profile_field)f)->meta;
    return i < ARRAY_LEN(task_keys) ? task_keys[i] : NULL;
}

static bool is_task_key(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(task_keys); i++)
        if (strcmp(task_keys[i], key) == 0)
            return true;
    return false;
}

static void unknown_key(struct meta_reader *m, const char *what, const char *key)
{
    const char *near = opt_nearest(key, meta_key, NULL);
    char shown[PROFILE_SHOWN];
    profile_show(key - strlen(PREFIX), shown);
    profile_fault(m->faults, "%s: %s: unknown key %s%s%s%s", m->object, what, shown,
                  near ? ", did you mean " PREFIX : "", near ? near : "", near ? "?" : "");
}

static void meta_pair(struct meta_reader *m, bool label, const char *key, const char *value)
{
    const char *what = label ? "label" : "annotation";
    if (strncmp(key, PREFIX, strlen(PREFIX)) != 0)
        return;
    key += strlen(PREFIX);
    int f = field_of_meta(key);
    if (f < 0) {
        if (!is_task_key(key))
            unknown_key(m, what, key);
        return;
    }
    const struct profile_row *r = profile_row((enum profile_field)f);
    struct profile_value v;
    char shown[PROFILE_SHOWN], expected[96];
    profile_show(value, shown);
    if (!label && m->said[f] && strcmp(m->said[f], value) != 0) {
        profile_fault(m->faults, "%s: label and annotation " PREFIX "%s differ: \"%.63s\" and %s",
                      m->object, key, m->said[f], shown);
    } else if (!value_from_text(r, value, &v) || !profile_value_ok(r, &v)) {
        profile_expects(r, expected);
        profile_fault(m->faults, "%s: %s " PREFIX "%s: %s is not %s", m->object, what, key, shown,
                      expected);
    } else {
        profile_store(m->p, m->source, (enum profile_field)f, &v);
        if (label)
            m->said[f] = value;
    }
}

void profile_read_labels(struct profile *p, enum profile_source source, const char *object,
                         const struct kube_label *labels, size_t n_labels,
                         const struct kube_label *annotations, size_t n_annotations,
                         struct profile_faults *faults)
{
    struct meta_reader m = {.p = p, .source = source, .object = object, .faults = faults};
    for (size_t i = 0; i < n_labels; i++)
        meta_pair(&m, true, labels[i].key, labels[i].value);
    for (size_t i = 0; i < n_annotations; i++)
        meta_pair(&m, false, annotations[i].key, annotations[i].value);
}

static void meta_members(struct meta_reader *m, const struct json *metadata, const char *list)
{
    const struct json *pairs = json_find(metadata, list);
    if (!json_is_null(pairs) && !json_is_object(pairs)) {
        profile_fault(m->faults, "%s: metadata.%s: expected an object", m->object, list);
        return;
    }
    for (const struct json *v = json_is_null(pairs) ? NULL : json_first(pairs); v;
         v = json_next(v)) {
        if (json_is_string(v))
            meta_pair(m, list[0] == 'l', json_key(v), json_text(v));
        else
            profile_fault(m->faults, "%s: metadata.%s.%.63s: expected a string", m->object, list,
                          json_key(v));
    }
}

void profile_read_metadata(struct profile *p, enum profile_source source, const char *object,
                           const struct json *metadata, struct profile_faults *faults)
{
    struct meta_reader m = {.p = p, .source = source, .object = object, .faults = faults};
    if (json_is_null(metadata))
        return;
    if (!json_is_object(metadata)) {
        profile_fault(faults, "%s: metadata: expected an object", object);
        return;
    }
    meta_members(&m, metadata, "labels");
    meta_members(&m, metadata, "annotations");
}

/* ---- the pod template ------------------------------------------------------------------------ */

/* GPUs of one container: extended resources cannot differ between request and limit, the limit is
 * always there. */
static bool container_gpus(const struct json *container, int64_t *gpus)
{
    const struct json *limits = json_find(json_find(container, "resources"), "limits");
    for (const struct json *v = json_is_object(limits) ? json_first(limits) : NULL; v;
         v = json_next(v)) {
        int64_t n;
        char number[NUM_TEXT];
        const char *text = json_is_number(v) ? num_format(json_number(v), number) : json_text(v);
        if (!kube_is_gpu(json_key(v)))
            continue;
        if (!text || quantity_parse(text, 1, &n, NULL) || n < 0 || n > CAPACITY_UNITS_LIMIT)
            return false;
        *gpus += n;
    }
    return true;
}

void profile_read_template(struct profile *p, const char *object, const struct json *template_,
                           struct profile_faults *faults)
{
    if (json_is_null(template_))
        return;
    profile_read_metadata(p, PROFILE_TEMPLATE, object, json_find(template_, "metadata"), faults);
    const struct json *containers = json_find(json_find(template_, "spec"), "containers");
    int64_t gpus = 0;
    for (const struct json *c = json_is_array(containers) ? json_first(containers) : NULL; c;
         c = json_next(c)) {
        if (!container_gpus(c, &gpus)) {
            profile_fault(faults,
                          "%s: spec.template.spec.containers: a GPU limit is not a whole number",
                          object);
            return;
        }
    }
    if (json_is_array(containers))
        profile_set_int(p, PROFILE_TEMPLATE, PROFILE_F_GPUS, gpus, object, faults);
}

/* ---- the spec -------------------------------------------------------------------------------- */

struct spec_reader {
    struct profile *p;
    const char *object;
    struct profile_id *id;
    struct profile_faults *faults;
};

static bool whole(const struct json *v, int64_t *out)
{
    double d = json_number(v);
    if (!json_is_number(v) || !(fabs(d) <= 0x1p53) || d != floor(d))
        return false;
    *out = (int64_t)d;
    return true;
}

/* The document is only needed for messages, and the type is known to be right. */
static bool flag_from_json(const struct json *parent, const char *key, bool *out)
{
    return json_is_bool(json_find(parent, key)) &&
           json_get_bool(NULL, parent, key, out, NULL) == ERR_OK;
}

static bool value_from_json(const struct profile_row *r, const struct json *parent,
                            const struct json *json, struct profile_value *v)
{
    const char *s = json_text(json);
    *v = (struct profile_value){.text = s, .n = s ? strlen(s) : 0, .num = json_number(json)};
    switch (r->kind) {
    case PROFILE_INT:
        return whole(json, &v->i);
    case PROFILE_NUM:
        return json_is_number(json);
    case PROFILE_FLAG:
        return flag_from_json(parent, json_key(json), &v->flag);
    case PROFILE_DURATION:
        if (!json_is_number(json) || !(fabs(v->num) <= 1e9))
            return false;
        v->i = (int64_t)(v->num * (double)US_PER_S);
        return true;
    case PROFILE_CLASS:
    case PROFILE_TIME:
    case PROFILE_TEXT:
        break;
    }
    return s && value_from_text(r, s, v);
}

/* What stands there, for a message. */
static void json_show(const struct json *v, char out[PROFILE_SHOWN])
{
    if (json_is_string(v))
        profile_show(json_text(v), out);
    else if (json_is_number(v))
        (void)snprintf(out, PROFILE_SHOWN, "%g", json_number(v));
    else
        (void)snprintf(out, PROFILE_SHOWN, "%s",
                       json_is_bool(v)     ? "a boolean"
                       : json_is_object(v) ? "an object"
                       : json_is_array(v)  ? "a list"
                                           : "null");
}

static int field_of_spec(const char *path)
{
    for (int f = 0; f < PROFILE_FIELDS; f++) {
        const char *known = profile_row((enum profile_field)f)->spec;
        if (known && strcmp(known, path) == 0)
            return f;
    }
    return -1;
}

static const char *spec_key(size_t i, const void *arg)
{
    static const char *const others[] = {"scaleTargetRef", "latency.curve", "queries"};
    (void)arg;
    for (int f = 0; f < PROFILE_FIELDS; f++)
        if (profile_row((enum profile_field)f)->spec && i-- == 0)
            return profile_row((enum profile_field)f)->spec;
    return i < ARRAY_LEN(others) ? others[i] : NULL;
}

static void spec_unknown(struct spec_reader *s, const char *path)
{
    const char *near = opt_nearest(path, spec_key, NULL);
    char shown[PROFILE_SHOWN];
    profile_show(path, shown);
    profile_fault(s->faults, "%s: spec: unknown key %s%s%s%s", s->object, shown,
                  near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
}

static void spec_value(struct spec_reader *s, const char *path, const struct json *parent,
                       const struct json *json)
{
    int f = field_of_spec(path);
    if (f < 0) {
        spec_unknown(s, path);
        return;
    }
    const struct profile_row *r = profile_row((enum profile_field)f);
    struct profile_value v;
    if (value_from_json(r, parent, json, &v) && profile_value_ok(r, &v)) {
        profile_store(s->p, PROFILE_SPEC, (enum profile_field)f, &v);
        return;
    }
    char shown[PROFILE_SHOWN], expected[96];
    json_show(json, shown);
    profile_expects(r, expected);
    profile_fault(s->faults, "%s: spec.%s: %s is not %s", s->object, path, shown, expected);
}

static bool curve_point(const struct json *v, struct latency_point *out)
{
    const struct {
        const char *key;
        double *to;
    } parts[] = {{"loadPerUnit", &out->load_per_unit},
                 {"p50Milliseconds", &out->p50_ms},
                 {"p99Milliseconds", &out->p99_ms}};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const struct json *part = json_find(v, parts[i].key);
        *parts[i].to = json_number(part);
        if (!json_is_number(part) || !(*parts[i].to >= 0) || !(*parts[i].to <= 1e9))
            return false;
    }
    return json_count(v) == ARRAY_LEN(parts);
}

static void spec_curve(struct spec_reader *s, const struct json *list)
{
    struct latency_point point[PROFILE_CURVE_MAX];
    int n = 0;
    if (!json_is_array(list) || json_count(list) > PROFILE_CURVE_MAX) {
        profile_fault(s->faults, "%s: spec.latency.curve: expected a list of 2 to %d points",
                      s->object, PROFILE_CURVE_MAX);
        return;
    }
    for (const struct json *v = json_first(list); v; v = json_next(v), n++) {
        if (!curve_point(v, &point[n])) {
            profile_fault(s->faults,
                          "%s: spec.latency.curve[%d]: expected loadPerUnit, p50Milliseconds and "
                          "p99Milliseconds "
                          "from 0 to 1e+09 and nothing else",
                          s->object, n);
            return;
        }
    }
    char object[512];
    (void)snprintf(object, sizeof object, "%s: spec", s->object);
    profile_set_curve(s->p, PROFILE_SPEC, point, n, object, s->faults);
}

static const char *field_key(size_t i, const void *arg)
{
    (void)arg;
    return i < FIELD_COUNT ? field_get((enum field)i)->name : NULL;
}

static void spec_query(struct spec_reader *s, const struct json *v)
{
    const char *text = json_text(v), *near = opt_nearest(json_key(v), field_key, NULL);
    int f = field_find(json_key(v));
    size_t n = text ? strlen(text) : 0;
    char shown[PROFILE_SHOWN];
    profile_show(json_key(v), shown);
    if (f < 0) {
        profile_fault(s->faults, "%s: spec.queries: %s is no measured field%s%s%s", s->object,
                      shown, near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
    } else if (n == 0 || n > PROFILE_QUERY_BYTES) {
        profile_fault(s->faults, "%s: spec.queries.%s: expected PromQL of 1 to %d bytes", s->object,
                      json_key(v), PROFILE_QUERY_BYTES);
    } else {
        mem_free(s->p->query[f]);
        s->p->query[f] = mem_strdup(text);
    }
}

static void spec_queries(struct spec_reader *s, const struct json *v)
{
    if (!json_is_object(v)) {
        profile_fault(s->faults, "%s: spec.queries: expected an object", s->object);
        return;
    }
    for (const struct json *q = json_first(v); q; q = json_next(q))
        spec_query(s, q);
}

/* Copies a string member of the reference; Kubernetes names are ASCII without blanks or slashes
 * (but "apps/v1"). */
static bool ref_text(const struct json *ref, const char *key, char *out, size_t size)
{
    const char *text = json_text(json_find(ref, key));
    size_t n = text ? strlen(text) : 0;
    if (n == 0 || n >= size ||
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-./:") != n)
        return false;
    memcpy(out, text, n + 1);
    return true;
}

static void spec_ref(struct spec_reader *s, const struct json *ref)
{
    struct profile_id *id = s->id;
    if (!ref_text(ref, "apiVersion", id->api_version, sizeof id->api_version) ||
        !ref_text(ref, "kind", id->kind, sizeof id->kind) ||
        !ref_text(ref, "name", id->name, sizeof id->name) || json_count(ref) != 3 ||
        strcmp(id->name, ".") == 0 || strcmp(id->name, "..") == 0 || strchr(id->name, '/')) {
        id->api_version[0] = id->kind[0] = id->name[0] = '\0';
        profile_fault(s->faults,
                      "%s: spec.scaleTargetRef: expected apiVersion, kind and name of one object",
                      s->object);
    }
}

static void spec_group(struct spec_reader *s, const char *name, const struct json *group)
{
    char path[128];
    if (!json_is_object(group)) {
        profile_fault(s->faults, "%s: spec.%s: expected an object", s->object, name);
        return;
    }
    for (const struct json *v = json_first(group); v; v = json_next(v)) {
        (void)snprintf(path, sizeof path, "%s.%s", name, json_key(v));
        if (strcmp(path, "latency.curve") == 0)
            spec_curve(s, v);
        else
            spec_value(s, path, group, v);
    }
}

static void spec_member(struct spec_reader *s, const struct json *spec, const struct json *v)
{
    static const char *const groups[] = {"slo", "latency", "weights", "override"};
    const char *key = json_key(v);
    if (json_is_null(v))
        return; /* not stated */
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        if (strcmp(key, groups[i]) == 0) {
            spec_group(s, groups[i], v);
            return;
        }
    }
    if (strcmp(key, "scaleTargetRef") == 0)
        spec_ref(s, v);
    else if (strcmp(key, "queries") == 0)
        spec_queries(s, v);
    else
        spec_value(s, key, spec, v);
}

void profile_read_spec(struct profile *p, const char *object, const struct json *spec,
                       struct profile_id *id, struct profile_faults *faults)
{
    struct spec_reader s = {.p = p, .object = object, .id = id, .faults = faults};
    if (!json_is_object(spec)) {
        profile_fault(faults, "%s: spec: expected an object", object);
        return;
    }
    for (const struct json *v = json_first(spec); v; v = json_next(v))
        spec_member(&s, spec, v);
    if (!json_find(spec, "scaleTargetRef"))
        profile_fault(faults, "%s: spec.scaleTargetRef: missing", object);
}
