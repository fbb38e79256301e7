#include "kube/split_priv.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/support/test.h"

struct got {
    struct buf all; /* what was emitted, one per line: M or O, text, object */
    int n, stop_at;
};

static bool take(void *ctx, bool is_metadata, const char *text, size_t n, const char *object,
                 size_t n_object)
{
    struct got *g = ctx;
    assert_int_equal(strlen(text), n);
    buf_fmt(&g->all, "%c %s | %.*s\n", is_metadata ? 'M' : 'O', text, object ? (int)n_object : 1,
            object ? object : "-");
    return ++g->n != g->stop_at;
}

/* Feeds text cut into pieces of `piece` bytes. */
static enum err_code run(enum split_kind kind, const char *text, size_t piece, size_t cap,
                         struct got *g, struct err *e)
{
    struct splitter s = split_init(kind, cap, take, g);
    size_t n = strlen(text);
    enum err_code rc = ERR_OK;
    g->all = buf_init(1 << 20);
    for (size_t at = 0; at < n && !rc; at += piece) {
        char *copy = mem_zero(piece, 1); /* exact size: reading past it shows under the sanitizer */
        size_t k = n - at < piece ? n - at : piece;
        memcpy(copy, text + at, k);
        rc = split_feed(&s, copy, k, e);
        mem_free(copy);
    }
    if (!rc)
        rc = split_end(&s, e);
    split_fini(&s);
    return rc;
}

TEST(objects_are_cut_out_at_any_chunk_boundary)
{
    static const struct {
        enum split_kind kind;
        const char *text, *want;
    } rows[] = {
        {SPLIT_LIST, "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}",
         "M {\"resourceVersion\":\"5\"} | {\"resourceVersion\":\"5\"}\n"},
        {SPLIT_LIST,
         " { \"items\" : [ {\"a\":1} , {\"b\":[1,2,{\"c\":\"}\"}]} ] , \"metadata\":{} } \n",
         "O {\"a\":1} | {\"a\":1}\nO {\"b\":[1,2,{\"c\":\"}\"}]} | {\"b\":[1,2,{\"c\":\"}\"}]}\nM "
         "{} | {}\n"},
        {SPLIT_LIST, "{\"items\":null,\"metadata\":{}}", "M {} | {}\n"},
        {SPLIT_LIST,
         "{\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"a\",\"managedFields\":[{\"x\":{"
         "\"y\":\"]\"}}],\"z\":1}}]}",
         "M {} | {}\nO {\"metadata\":{\"name\":\"a\",\"managedFields\":null,\"z\":1}} | "
         "{\"metadata\":{\"name\":\"a\",\"managedFields\":null,\"z\":1}}\n"},
        {SPLIT_LIST,
         "{\"metadata\":{},\"items\":[{\"metadata\":{\"managedFields\":7,\"z\":1},"
         "\"managedFields\":[2]}]}",
         "M {} | {}\nO {\"metadata\":{\"managedFields\":null,\"z\":1},\"managedFields\":[2]} | "
         "{\"metadata\":{\"managedFields\":null,\"z\":1},\"managedFields\":[2]}\n"},
        {SPLIT_LIST,
         "{\"other\":{\"items\":[{\"no\":1}],\"metadata\":{\"no\":2}},\"items\":[{}],\"metadata\":{"
         "}}",
         "O {} | {}\nM {} | {}\n"},
        {SPLIT_WATCH, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n",
         "O {\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}} | "
         "{\"metadata\":{\"name\":\"a\"}}\n"},
        {SPLIT_WATCH,
         "{\"object\":{\"metadata\":{\"managedFields\":[{}]}},\"type\":\"ADDED\"}{\"type\":\"X\"}",
         "O {\"object\":{\"metadata\":{\"managedFields\":null}},\"type\":\"ADDED\"} | "
         "{\"metadata\":{\"managedFields\":null}}\n"
         "O {\"type\":\"X\"} | -\n"},
        {SPLIT_WATCH, "{\"object\":{\"metadata\":{\"x\":1,\"managedFields\":true}}}",
         "O {\"object\":{\"metadata\":{\"x\":1,\"managedFields\":null}}} | "
         "{\"metadata\":{\"x\":1,\"managedFields\":null}}\n"},
        {SPLIT_WATCH, "{\"a\\\"b\":\"\\\\\",\"object\":{\"k\":\"\\\"{\"}}",
         "O {\"a\\\"b\":\"\\\\\",\"object\":{\"k\":\"\\\"{\"}} | {\"k\":\"\\\"{\"}\n"},
        {SPLIT_WATCH, "\n\n", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t piece = 1; piece <= strlen(rows[i].text); piece++) {
            struct got g = {0};
            struct err e;
            assert_ok(run(rows[i].kind, rows[i].text, piece, 1000, &g, &e), &e);
            assert_string_equal(g.all.p, rows[i].want);
            buf_fini(&g.all);
        }
    }
}

TEST(what_is_not_a_list_or_an_event_is_refused)
{
    static const struct {
        enum split_kind kind;
        const char *text, *what;
        enum err_code rc;
    } rows[] = {
        {SPLIT_LIST, "", "empty answer", ERR_PARSE},
        {SPLIT_LIST, "{}", "without \"items\"", ERR_PARSE},
        {SPLIT_LIST, "<html>", "byte 0: expected an object", ERR_PARSE},
        {SPLIT_LIST, "[]", "expected an object", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":[]", "in the middle", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":[{\"a\":\"b", "in the middle", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":[1]}", "expected objects", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":[{}{}]}", "commas", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":{}}", "expected one list", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":nothing}", "expected a list", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":[],\"items\":[]}", "expected one list", ERR_PARSE},
        {SPLIT_LIST, "{\"metadata\":{},\"metadata\":{},\"items\":[]}", "expected one object",
         ERR_PARSE},
        {SPLIT_LIST, "{\"metadata\":[],\"items\":[]}", "expected one object", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":[]}{}", "text after the list", ERR_PARSE},
        {SPLIT_LIST, "{\"items\":[}", "does not match", ERR_PARSE},
        {SPLIT_LIST, "{1:2}", "expected a key", ERR_PARSE},
        {SPLIT_WATCH, "}", "does not match", ERR_PARSE},
        {SPLIT_WATCH, "{\"type\":\n{}", "not a whole event", ERR_PARSE},
        {SPLIT_WATCH, "{\"type\":\"half\n{\"type\":\"x\"}\n", "line break inside a string",
         ERR_PARSE},
        {SPLIT_LIST, "{\"items\":[{\"a\":\"b\n\"}]}", "line break inside a string", ERR_PARSE},
        {SPLIT_WATCH, "[{}]", "expected an object", ERR_PARSE},
        {SPLIT_WATCH, "{\"type\":\"ADD", "in the middle", ERR_PARSE},
        {SPLIT_WATCH, "{\"a\":\"0123456789012345678901234567890123456789\"}", "more than 40 bytes",
         ERR_LIMIT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t piece = 1; piece <= 60; piece += 59) {
            struct got g = {0};
            struct err e;
            assert_err(run(rows[i].kind, rows[i].text, piece, 40, &g, &e), rows[i].rc, &e,
                       rows[i].what);
            buf_fini(&g.all);
        }
    }
}

TEST(managed_fields_do_not_count_towards_the_cap)
{
    struct got g = {0};
    struct err e;
    struct buf b = buf_init(100000);
    buf_str(&b, "{\"object\":{\"metadata\":{\"managedFields\":[\"");
    buf_pad(&b, 'x', 50000);
    buf_str(&b, "\"]}}}");
    assert_ok(run(SPLIT_WATCH, b.p, 777, 100, &g, &e), &e);
    assert_int_equal(g.n, 1);
    buf_fini(&g.all);
    buf_fini(&b);
}

TEST(deep_nesting_is_refused)
{
    struct got g = {0};
    struct err e;
    struct buf b = buf_init(100000);
    buf_str(&b, "{\"a\":");
    buf_pad(&b, '[', 1000);
    assert_err(run(SPLIT_WATCH, b.p, 100, 10000, &g, &e), ERR_LIMIT, &e, "nested too deeply");
    buf_fini(&g.all);
    buf_fini(&b);
}

TEST(reader_stops_the_cutting)
{
    struct got g = {.stop_at = 1};
    struct err e;
    assert_err(run(SPLIT_WATCH, "{\"a\":1}{\"b\":2}", 100, 100, &g, &e), ERR_INTERRUPTED, &e, NULL);
    assert_int_equal(g.n, 1);
    buf_fini(&g.all);
}
