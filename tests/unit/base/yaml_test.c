#include "base/yaml.h"

#include "base/buf.h"
#include "tests/support/test.h"

static enum err_code parse(const char *text, struct yaml_doc **doc, struct err *e)
{
    return yaml_parse(text, strlen(text), "t.yaml", doc, e);
}

TEST(yaml_tree_has_keys_values_and_true_lines)
{
    static const char text[] = "# comment\n"
                               "a: 1\n"
                               "b:\n"
                               "  c: \"x\"\n"
                               "  d:\n"
                               "list:\n"
                               "  - name: n\n"
                               "    flow: [1, {k: v}]\n"
                               "  - 'two'\n"
                               "text: |\n"
                               "  line 1\n"
                               "  line 2\n";
    struct err e;
    struct yaml_doc *doc;
    assert_ok(parse(text, &doc, &e), &e);
    const struct yaml_node *root = yaml_root(doc);
    assert_int_equal(root->n_children, 4);
    assert_string_equal(yaml_name(doc), "t.yaml");
    const struct yaml_node *c = yaml_find(yaml_find(root, "b"), "c");
    assert_string_equal(c->text, "x");
    assert_true(c->quoted);
    assert_int_equal(c->key_line, 4);
    const struct yaml_node *d = yaml_find(yaml_find(root, "b"), "d");
    assert_true(yaml_is_null(d));
    assert_int_equal(d->key_line, 5);
    const struct yaml_node *list = yaml_find(root, "list");
    assert_int_equal(list->kind, YAML_LIST);
    assert_int_equal(list->first->line, 7);
    assert_string_equal(yaml_find(list->first, "flow")->first->next->first->key, "k");
    assert_int_equal(yaml_find(list->first, "flow")->line, 8);
    assert_false(yaml_is_null(list->first->next));
    assert_string_equal(yaml_find(root, "text")->text, "line 1\nline 2\n");
    assert_null(yaml_find(root, "absent"));
    assert_null(yaml_find(NULL, "a"));
    yaml_free(doc);
}

TEST(yaml_without_content_has_no_root)
{
    static const char *const cases[] = {"", "\n\n", "# only a comment\n"};
    for (size_t i = 0; i < 3; i++) {
        struct err e;
        struct yaml_doc *doc;
        assert_ok(parse(cases[i], &doc, &e), &e);
        assert_null(yaml_root(doc));
        yaml_free(doc);
    }
    yaml_free(NULL);
}

TEST(yaml_that_is_wrong_or_hostile_is_refused_with_its_line)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a: 1\nb: 2\na: 3\n", "t.yaml:3: a: given twice, first in line 1"},
        {"a: {b: 1, b: 2}\n", "t.yaml:1: b: given twice"},
        {"x: 1\na: &anchor 1\nb: *anchor\n", "t.yaml:2: anchors and tags"},
        {"a: !!int 3\n", "t.yaml:1: anchors and tags"},
        {"a: !!map {}\n", "anchors and tags"},
        {"a: *nothing\n", "t.yaml:1: "},
        {"a: 1\n---\nb: 2\n", "t.yaml:2: more than one document"},
        {"? [1, 2]\n: x\n", "a key must be plain text"},
        {"\"\": 1\n", "a key is empty"},
        {"ok: 1\nbad: [1, 2\n", "t.yaml:"},
        {"ok: 1\nbad: \"no end\n", "t.yaml:"},
        {"a: b: c\n", "t.yaml:1: "},
        {"ok: 1\n\tb: 2\n", "t.yaml:"},
        {"ok: 1\nx: \xff\n", "t.yaml:2: not UTF-8"},
        {"a: \"\\0\"\n", "zero byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        struct yaml_doc *doc;
        assert_err(parse(cases[i].text, &doc, &e), ERR_PARSE, &e, cases[i].want);
        assert_null(doc);
    }
    struct err e;
    struct yaml_doc *doc;
    assert_err(yaml_parse("a: \0b\n", 7, "t.yaml", &doc, &e), ERR_PARSE, &e, "t.yaml:1: not UTF-8 text");
}

static void assert_limit(struct buf *text, const char *want)
{
    struct err e;
    struct yaml_doc *doc;
    assert_err(yaml_parse(text->p, text->n, "t.yaml", &doc, &e), ERR_LIMIT, &e, want);
    buf_fini(text);
}

TEST(yaml_is_capped_in_bytes_depth_values_and_keys)
{
    struct buf b = buf_init(4 << 20);
    buf_pad(&b, '#', YAML_BYTES_MAX + 1);
    assert_limit(&b, "bytes of YAML");
    buf_pad(&b, '[', YAML_DEPTH_MAX + 1);
    assert_limit(&b, "nested too deeply");
    for (int i = 0; i <= YAML_NODES_MAX; i++)
        buf_str(&b, "- 1\n");
    assert_limit(&b, "too many values");
    for (int i = 0; i < 1001; i++)
        buf_fmt(&b, "k%d: 1\n", i);
    assert_limit(&b, "too many keys");
}

TEST(yaml_depth_up_to_the_cap_is_accepted)
{
    struct err e;
    struct yaml_doc *doc;
    struct buf b = buf_init(1000);
    buf_pad(&b, '[', YAML_DEPTH_MAX);
    buf_pad(&b, ']', YAML_DEPTH_MAX);
    assert_ok(yaml_parse(b.p, b.n, "t", &doc, &e), &e);
    yaml_free(doc);
    buf_fini(&b);
}

TEST(yaml_file_that_is_missing_or_too_large_is_an_error)
{
    struct err e;
    struct yaml_doc *doc;
    assert_err(yaml_load(test_path("%s/none.yaml", test_tmp_dir()), &doc, &e), ERR_IO, &e, "none.yaml");
    struct buf b = buf_init(4 << 20);
    buf_pad(&b, '\n', YAML_BYTES_MAX + 1);
    const char *path = test_path("%s/large.yaml", test_tmp_dir());
    test_write_file(path, b.p, b.n);
    assert_err(yaml_load(path, &doc, &e), ERR_LIMIT, &e, "large.yaml");
    assert_null(doc);
    buf_fini(&b);
}
