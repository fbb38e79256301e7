#include "tests/support/kube_capture.h"

#include <strings.h>

#include "base/mem.h"
#include "tests/support/test.h"

struct kube_capture {
    struct json_doc *doc;
};

struct kube_capture *kube_capture_load(const char *name)
{
    const char *dir = test_data_dir();
    struct kube_capture *c = mem_zero(1, sizeof *c);
    struct err e;
    assert_ok(json_load(test_path("%s/kubernetes/%s.json", dir, name), 4 << 20, &c->doc, &e), &e);
    return c;
}

void kube_capture_free(struct kube_capture *c)
{
    json_free(c->doc);
    mem_free(c);
}

int kube_capture_status(const struct kube_capture *c)
{
    return (int)json_number(json_find(json_root(c->doc), "status"));
}

const struct json *kube_capture_body(const struct kube_capture *c)
{
    const struct json *wrapped = json_find(json_root(c->doc), "response");
    return wrapped ? wrapped : json_root(c->doc); /* a few files are the object alone */
}

static void write_value(struct json_writer *w, const char *key, const struct json *v)
{
    if (json_is_object(v) || json_is_array(v)) {
        bool object = json_is_object(v);
        object ? json_open(w, key) : json_open_array(w, key);
        for (const struct json *m = json_first(v); m; m = json_next(m))
            write_value(w, json_key(m), m);
        object ? json_close(w) : json_close_array(w);
    } else if (json_is_string(v)) {
        json_put_str(w, key, json_text(v));
    } else if (json_is_number(v)) {
        json_put_f64(w, key, json_number(v));
    } else if (json_is_bool(v)) {
        json_put_bool(w, key, json_is_true(v));
    } else {
        json_put_null(w, key);
    }
}

char *kube_capture_text(const struct kube_capture *c)
{
    const struct json *v = kube_capture_body(c);
    if (json_is_string(v))
        return mem_strdup(json_text(v));
    struct buf b = buf_init(8 << 20);
    struct json_writer w = json_writer_init(&b, 0);
    write_value(&w, NULL, v);
    return buf_take(&b);
}

const char *kube_capture_header(const struct kube_capture *c, const char *name)
{
    const struct json *headers = json_find(json_root(c->doc), "headers");
    for (const struct json *h = json_first(headers); h; h = json_next(h)) {
        if (strcasecmp(json_key(h), name) == 0)
            return json_text(h);
    }
    return NULL;
}

const char *kube_capture_path(const struct kube_capture *c)
{
    return json_text(json_find(json_find(json_root(c->doc), "request"), "path"));
}
