#include "kube/selector.h"

#include "base/mem.h"
#include "tests/support/test.h"

enum { LABELS = 3 };

static void hold_labels(struct text_pool *p, struct kube_label out[LABELS])
{
    static const char *const pairs[LABELS][2] = {{"app", "web"}, {"gpu", ""}, {"tier", "front"}};
    for (size_t i = 0; i < LABELS; i++)
        out[i] = (struct kube_label){.key = text_hold(p, pairs[i][0], strlen(pairs[i][0])),
                                     .value = text_hold(p, pairs[i][1], strlen(pairs[i][1]))};
}

static void drop_labels(struct text_pool *p, const struct kube_label l[LABELS])
{
    for (size_t i = 0; i < LABELS; i++) {
        text_drop(p, l[i].key);
        text_drop(p, l[i].value);
    }
}

TEST(text_form_selects_as_kubectl_does)
{
    static const struct {
        const char *text;
        bool match;
        const char *again; /* as printed; NULL: the same */
    } rows[] = {
        {"", true, NULL},
        {"app=web", true, NULL},
        {"app==web", true, "app=web"},
        {" app = web ", true, "app=web"},
        {"app=api", false, NULL},
        {"app!=api", true, NULL},
        {"app!=web", false, NULL},
        {"none!=x", true, NULL},
        {"none=x", false, NULL},
        {"app", true, NULL},
        {"none", false, NULL},
        {"!none", true, NULL},
        {"! app", false, "!app"},
        {"gpu=", true, NULL},
        {"gpu", true, NULL},
        {"app in (api, web)", true, "app in (api,web)"},
        {"app in (web)", true, "app=web"},
        {"app in (api,db)", false, NULL},
        {"app notin (api,db)", true, NULL},
        {"app notin (api,web)", false, NULL},
        {"none notin (a,b)", true, NULL},
        {"gpu in (,x)", true, NULL},
        {"app=web,tier in (front,back),!none,gpu", true, NULL},
        {"app=web,tier=back", false, NULL},
        {"in=x", false, NULL},
        {"nvidia.com/gpu.product=A100", false, NULL},
    };
    struct text_pool *p = text_pool_new();
    struct kube_label labels[LABELS];
    hold_labels(p, labels);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct selector *s;
        struct err e;
        struct buf b = buf_init(1000);
        assert_ok(selector_parse(p, rows[i].text, &s, &e), &e);
        if (selector_matches(s, labels, LABELS) != rows[i].match)
            fail_msg("%s", rows[i].text);
        selector_format(s, &b);
        assert_string_equal(b.p, rows[i].again ? rows[i].again : rows[i].text);
        buf_fini(&b);
        selector_free(s);
    }
    drop_labels(p, labels);
    assert_int_equal(text_count(p), 0);
    text_pool_free(p);
}

TEST(malformed_selectors_name_the_column)
{
    static const char *const rows[][2] = {
        {",", "column 1"},
        {"a,", "column 2"},
        {"a,,b", "column 3"},
        {"=x", "column 1: expected a label key"},
        {"a in", "expected ("},
        {"a in (b", "expected , or )"},
        {"a notin b", "expected ("},
        {"a b", "expected ="},
        {"!", "label key"},
        {"a=b c", "expected a comma"},
        {"a in (b) c", "expected a comma"},
        {"a>1", "expected ="},
        {"!a=b", "expected a comma"},
        {"a=(b)", "expected a comma"},
    };
    struct text_pool *p = text_pool_new();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct selector *s;
        struct err e;
        assert_err(selector_parse(p, rows[i][0], &s, &e), ERR_PARSE, &e, rows[i][1]);
        assert_null(s);
    }
    assert_int_equal(text_count(p), 0);
    text_pool_free(p);
}

TEST(selectors_have_limits)
{
    struct text_pool *p = text_pool_new();
    struct selector *s;
    struct err e;
    struct buf b = buf_init(100000);
    buf_str(&b, "a");
    for (int i = 0; i < SELECTOR_TERMS_MAX; i++)
        buf_str(&b, ",a");
    assert_err(selector_parse(p, b.p, &s, &e), ERR_LIMIT, &e, "requirements");
    buf_clear(&b);
    buf_str(&b, "a in (");
    for (int i = 0; i < SELECTOR_VALUES_MAX; i++)
        buf_str(&b, "v,");
    buf_str(&b, "v)");
    assert_err(selector_parse(p, b.p, &s, &e), ERR_LIMIT, &e, "values");
    buf_fini(&b);
    text_pool_free(p);
}

static enum err_code from_json(struct text_pool *p, const char *text, struct selector **s,
                               struct err *e)
{
    struct json_doc *doc;
    assert_ok(json_parse(text, strlen(text), 10000, "selector", &doc, e), e);
    enum err_code rc = selector_from_json(p, json_root(doc), s, e);
    json_free(doc);
    return rc;
}

TEST(object_form_selects_the_same)
{
    static const struct {
        const char *json;
        bool match;
        const char *text;
    } rows[] = {
        {"null", false, ""},
        {"{}", true, ""},
        {"{\"matchLabels\":{\"app\":\"web\"}}", true, "app=web"},
        {"{\"matchLabels\":{\"app\":\"web\",\"x\":\"y\"}}", false, "app=web,x=y"},
        {"{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"In\",\"values\":[\"web\",\"b\"]}]"
         "}",
         true, "app in (web,b)"},
        {"{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"NotIn\",\"values\":[\"web\"]}]}",
         false, "app!=web"},
        {"{\"matchExpressions\":[{\"key\":\"gpu\",\"operator\":\"Exists\"}]}", true, "gpu"},
        {"{\"matchExpressions\":[{\"key\":\"gpu\",\"operator\":\"DoesNotExist\",\"values\":[]}]}",
         false, "!gpu"},
    };
    static const char *const bad[] = {
        "[]",
        "{\"matchLabels\":[]}",
        "{\"matchLabels\":{\"a\":1}}",
        "{\"matchExpressions\":{}}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Near\"}]}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\"}]}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[1]}]}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\",\"values\":[\"x\"]}]}",
        "{\"matchExpressions\":[{\"operator\":\"Exists\"}]}",
        "{\"matchExpressions\":[1]}",
    };
    struct text_pool *p = text_pool_new();
    struct kube_label labels[LABELS];
    struct selector *s;
    struct err e;
    hold_labels(p, labels);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf b = buf_init(1000);
        assert_ok(from_json(p, rows[i].json, &s, &e), &e);
        assert_int_equal(selector_matches(s, labels, LABELS), rows[i].match);
        selector_format(s, &b);
        assert_string_equal(b.p, rows[i].text);
        buf_fini(&b);
        selector_free(s);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_err(from_json(p, bad[i], &s, &e), ERR_PARSE, &e, NULL);
        assert_null(s);
    }
    drop_labels(p, labels);
    assert_int_equal(text_count(p), 0);
    text_pool_free(p);
}
