#include "base/opt.h"

#include "base/mem.h"
#include "tests/support/test.h"

enum mode { MODE_RULES, MODE_LEARNED };
static const char *const mode_names[] = {[MODE_RULES] = "rules", [MODE_LEARNED] = "learned", NULL};

struct pool {
    char *name;
    int64_t max_nodes;
    double weight;
    struct opt_strings labels;
};

struct guard {
    int64_t cooldown_us;
    double high_frac;
    bool freeze;
};

struct cfg {
    struct guard guard;
    struct opt_subs pools;
    enum mode mode;
    struct opt_strings policies;
    struct opt_doubles curve;
    struct opt_ints hidden;
    int64_t mem_bytes;
    int64_t lo, hi;
    char *note;
};

static const struct opt_row pool_rows[] = {
    OPT_STRING(struct pool, name, "name", NULL, "name of the pool", .required = true),
    OPT_INT(struct pool, max_nodes, "max_nodes", "32", "1", "1000", "most nodes", .unit = "nodes"),
    OPT_DOUBLE(struct pool, weight, "weight", NULL, "0", "1", "share of the reward"),
    OPT_STRINGS(struct pool, labels, "labels", NULL, "label selectors"),
};
static const struct opt_table pool_table = OPT_TABLE("pool", struct pool, pool_rows, "A pool.");

static const struct opt_row guard_rows[] = {
    OPT_DURATION(struct guard, cooldown_us, "cooldown", "60s", "0s", "1h", "wait between steps"),
    OPT_DOUBLE(struct guard, high_frac, "high", "0.85", "0", "1", "high watermark", .reloadable = true),
    OPT_BOOL(struct guard, freeze, "freeze", "false", "act on nothing"),
};
static const struct opt_table guard_table = OPT_TABLE("guard", struct guard, guard_rows, "The guard.");

static enum err_code check_cfg(const void *dst, struct err *e)
{
    const struct cfg *c = dst;
    if (c->lo > c->hi)
        return err_set(e, ERR_RANGE, "lo is above hi");
    return ERR_OK;
}

static const struct opt_row cfg_rows[] = {
    OPT_SUB(struct cfg, guard, "guard", &guard_table, "the guard"),
    OPT_SUBS(struct cfg, pools, "pools", &pool_table, "node pools"),
    OPT_ENUM(struct cfg, mode, "mode", "rules", mode_names, "who decides"),
    OPT_STRINGS(struct cfg, policies, "policies", "hpa,mpc", "policies to compare"),
    OPT_DOUBLES(struct cfg, curve, "curve", "1,2.5", "0", "100", "points of a curve"),
    OPT_INTS(struct cfg, hidden, "hidden", "64,64", "1", "1024", "hidden layers"),
    OPT_BYTES(struct cfg, mem_bytes, "mem", "16GiB", "0B", NULL, "memory"),
    OPT_INT(struct cfg, lo, "lo", "1", NULL, NULL, "low end"),
    OPT_INT(struct cfg, hi, "hi", "9", NULL, NULL, "high end"),
    OPT_STRING(struct cfg, note, "note", NULL, "free | text"),
};
static const struct opt_table cfg_table = {
    .name = "cfg",
    .rows = cfg_rows,
    .n = ARRAY_LEN(cfg_rows),
    .size = sizeof(struct cfg),
    .help = "Everything.",
    .check = check_cfg,
};

static const char *write_cfg(const char *text)
{
    const char *path = test_path("%s/c.yaml", test_tmp_dir());
    test_write_file(path, text, strlen(text));
    return path;
}

TEST(options_start_from_their_defaults)
{
    struct err e;
    struct cfg c;
    assert_ok(opt_load(&cfg_table, &c, NULL, NULL, 0, NULL, &e), &e);
    assert_int_equal(c.guard.cooldown_us, 60000000);
    assert_near(c.guard.high_frac, 0.85, 0, 0);
    assert_false(c.guard.freeze);
    assert_int_equal(c.pools.n, 0);
    assert_int_equal(c.mode, MODE_RULES);
    assert_int_equal(c.policies.n, 2);
    assert_string_equal(c.policies.items[1], "mpc");
    assert_near(c.curve.items[1], 2.5, 0, 0);
    assert_int_equal(c.hidden.items[0], 64);
    assert_int_equal(c.mem_bytes, 17179869184);
    assert_null(c.note);
    opt_fini(&cfg_table, &c);
}

TEST(options_come_from_the_file_then_from_set_and_say_so)
{
    static const char text[] = "guard:\n"
                               "  cooldown: 90s\n"
                               "pools:\n"
                               "  - name: gpu\n"
                               "    max_nodes: 5\n"
                               "    labels: [a=b, c]\n"
                               "  - name: \"17\"\n"
                               "mode: learned\n"
                               "policies: []\n"
                               "note: 'x: y'\n";
    char *const sets[] = {"guard.freeze=true", "pools[1].max_nodes=7", "hidden=8,16,32", "note=a=b"};
    struct err e;
    struct cfg c;
    struct opt_sources *src = opt_sources_new();
    const char *path = write_cfg(text);
    assert_ok(opt_load(&cfg_table, &c, path, sets, ARRAY_LEN(sets), src, &e), &e);
    const struct pool *pools = c.pools.items;
    assert_int_equal(c.pools.n, 2);
    assert_string_equal(pools[0].name, "gpu");
    assert_int_equal(pools[0].max_nodes, 5);
    assert_true(isnan(pools[0].weight));
    assert_string_equal(pools[0].labels.items[0], "a=b");
    assert_string_equal(pools[1].name, "17");
    assert_int_equal(pools[1].max_nodes, 7);
    assert_int_equal(c.guard.cooldown_us, 90000000);
    assert_true(c.guard.freeze);
    assert_int_equal(c.mode, MODE_LEARNED);
    assert_int_equal(c.policies.n, 0);
    assert_int_equal(c.hidden.n, 3);
    assert_string_equal(c.note, "a=b");
    assert_string_equal(opt_source(src, "guard.cooldown"), test_path("%s:2", path));
    assert_string_equal(opt_source(src, "pools[0].max_nodes"), test_path("%s:5", path));
    assert_string_equal(opt_source(src, "pools[1].max_nodes"), "--set");
    assert_string_equal(opt_source(src, "guard.high"), "default");
    assert_string_equal(opt_source(NULL, "guard.high"), "default");
    opt_fini(&cfg_table, &c);
    opt_sources_free(src);
}

TEST(config_mistakes_name_file_line_and_key)
{
    static const struct {
        const char *text, *want;
        enum err_code code;
    } cases[] = {
        {"gaurd: {}\n", "c.yaml:1: gaurd: unknown key; did you mean guard?", ERR_PARSE},
        {"zzzzzzzz: 1\n", "c.yaml:1: zzzzzzzz: unknown key", ERR_PARSE},
        {"lo: 1\nguard:\n  cooldwn: 3s\n", "c.yaml:3: guard: cooldwn: unknown key; did you mean cooldown?", ERR_PARSE},
        {"guard: {cooldown: 90}\n", "c.yaml:1: guard.cooldown: 90: a unit is required: us, ms, s, min, h, d", ERR_PARSE},
        {"guard: {cooldown: 0}\n", "a unit is required", ERR_PARSE},
        {"guard: {cooldown: 5m}\n", "5m: unknown unit m", ERR_PARSE},
        {"guard: {cooldown: 2h}\n", "guard.cooldown: 2h: above 1h", ERR_RANGE},
        {"guard: {cooldown: -1s}\n", "-1s: below 0s", ERR_RANGE},
        {"guard: {cooldown: 99999999999999999d}\n", "too large", ERR_RANGE},
        {"guard: {cooldown: 1e9s}\n", "cooldown: 1e9s: unknown unit", ERR_PARSE},
        {"guard:\n  high: 1.5\n", "c.yaml:2: guard.high: 1.5: above 1", ERR_RANGE},
        {"guard: {high: 1e999}\n", "1e999: expected a finite number", ERR_PARSE},
        {"guard: {high: .nan}\n", ".nan: expected a finite number", ERR_PARSE},
        {"guard: {high: nan}\n", "nan: expected a finite number", ERR_PARSE},
        {"guard: {high: .inf}\n", "expected a finite number", ERR_PARSE},
        {"guard: {high: 85%}\n", "expected a finite number", ERR_PARSE},
        {"guard: {high: \"0.5\"}\n", "guard.high: expected a plain value without quotes", ERR_PARSE},
        {"guard: {freeze: yes}\n", "yes: expected true or false", ERR_PARSE},
        {"guard: {freeze: True}\n", "True: expected true or false", ERR_PARSE},
        {"guard:\n", "c.yaml:1: guard: expected a mapping", ERR_PARSE},
        {"guard: [1]\n", "guard: expected a mapping", ERR_PARSE},
        {"note:\n", "note: has no value", ERR_PARSE},
        {"note: ~\n", "note: has no value", ERR_PARSE},
        {"note: {a: b}\n", "note: expected a single value", ERR_PARSE},
        {"mode: ruls\n", "mode: ruls: expected one of rules, learned", ERR_PARSE},
        {"lo: 1.5\n", "lo: 1.5: expected an integer", ERR_PARSE},
        {"lo: 99999999999999999999\n", "expected an integer", ERR_PARSE},
        {"mem: 16\n", "mem: 16: a unit is required", ERR_PARSE},
        {"mem: 16Gib\n", "unknown unit Gib", ERR_PARSE},
        {"policies: hpa\n", "policies: expected a list", ERR_PARSE},
        {"policies: [hpa, ]\npolicies: []\n", "c.yaml:2: policies: given twice, first in line 1", ERR_PARSE},
        {"policies:\n  - hpa\n  -\n", "policies[1]: has no value", ERR_PARSE},
        {"curve: [1, x]\n", "curve[1]: x: expected a finite number", ERR_PARSE},
        {"curve: [1, 101]\n", "curve[1]: 101: above 100", ERR_RANGE},
        {"hidden: [[1]]\n", "hidden[0]: expected a single value", ERR_PARSE},
        {"pools: {name: x}\n", "pools: expected a list of mappings", ERR_PARSE},
        {"pools: [x]\n", "pools[0]: expected a mapping", ERR_PARSE},
        {"pools:\n  - name: a\n  - max_nodes: 2\n", "c.yaml:3: pools[1]: name: required", ERR_MISSING},
        {"pools:\n  - name: a\n    max_nodes: 0\n", "c.yaml:3: pools[0].max_nodes: 0: below 1", ERR_RANGE},
        {"lo: 10\n", "c.yaml:1: lo is above hi", ERR_RANGE},
        {"note: x\nhi: -1\n", "c.yaml:2: lo is above hi", ERR_RANGE},
        {"- 1\n", "c.yaml:1: expected a mapping", ERR_PARSE},
        {"just text\n", "c.yaml:1: expected a mapping", ERR_PARSE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = {0};
        struct cfg c;
        enum err_code rc = opt_load_yaml(&cfg_table, &c, write_cfg(cases[i].text), NULL, &e);
        opt_fini(&cfg_table, &c);
        assert_err(rc, cases[i].code, &e, cases[i].want);
    }
}

TEST(set_mistakes_name_the_key)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"guard.cooldown", "expected key=value"},
        {"=5", "expected key=value"},
        {"gard.freeze=true", "--set gard.freeze=true: gard: unknown key; did you mean guard?"},
        {"guard.frieze=true", "frieze: unknown key; did you mean freeze?"},
        {"guard.cooldown=90", "--set guard.cooldown: 90: a unit is required"},
        {"guard=1", "set them one by one: guard.cooldown=..."},
        {"pools=1", "set them one by one: pools[0].name=..."},
        {"pools.name=x", "pools: is a list; write pools[0]"},
        {"pools[1].name=x", "the list has 1 entries"},
        {"pools[99999999].name=x", "pools"},
        {"pools[x].name=y", "expected an index"},
        {"pools[0=y", "expected an index"},
        {"pools[0]name=y", "unexpected"},
        {"pools[0].labels[1]=y", "labels: takes no index"},
        {"lo.x=1", "lo: holds no other keys"},
        {"lo.=1", "unexpected"},
        {"lo=", "expected an integer"},
        {".lo=1", "expected key=value"},
        {"hidden=1,,2", "expected an integer"},
    };
    struct err e = {0};
    struct cfg c;
    assert_ok(opt_load_yaml(&cfg_table, &c, write_cfg("pools: [{name: a}]\n"), NULL, &e), &e);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum err_code rc = opt_set(&cfg_table, &c, cases[i].text, NULL, &e);
        if (!rc || !strstr(e.msg, cases[i].want))
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].text, e.msg, cases[i].want);
    }
    opt_fini(&cfg_table, &c);
}

TEST(a_contradiction_is_blamed_on_the_key_that_was_given_and_where)
{
    static const struct {
        const char *yaml, *set, *text, *want;
    } cases[] = {
        {"lo: 1\n", NULL, "lo: 1 is above hi", "c.yaml:1: lo: 1 is above hi"},
        {"hi: 1\n", "lo=2", "lo: 2 is above hi", "--set lo: 2 is above hi"},
        {"lo: 1\n", "hi=0", "lo: 1 is above hi", "--set hi: lo: 1 is above hi"},
        {"guard:\n  high: 0.5\n", NULL, "guard.cooldown and high: one or the other",
         "c.yaml:2: guard.cooldown and high: one or the other"},
        {"guard:\n  high: 0.5\n", NULL, "guard: high: 0.5 is odd", "c.yaml:2: guard: high: 0.5 is odd"},
        {"note: x\nguard:\n  high: 0.5\n", NULL, "guard: high and low do not fit", "c.yaml:3: guard: high and low do not fit"},
        {"pools:\n  - {name: a}\n  - name: b\n    max_nodes: 3\n", "note=x",
         "pools[1].max_nodes: 3 is too few for note", "c.yaml:4: pools[1].max_nodes: 3 is too few for note"},
        {"note: x\n", NULL, "mode: says nothing", "c.yaml: mode: says nothing"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct opt_sources *src = opt_sources_new();
        char *set = (char *)(uintptr_t)cases[i].set;
        struct err e = {0};
        struct cfg c;
        const char *path = write_cfg(cases[i].yaml);
        opt_init(&cfg_table, &c);
        assert_ok(opt_read_file(&cfg_table, &c, path, src, &e), &e);
        if (set)
            assert_ok(opt_set(&cfg_table, &c, set, src, &e), &e);
        (void)err_set(&e, ERR_RANGE, "%s", cases[i].text);
        assert_int_equal(opt_blame(src, path, &e), ERR_RANGE);
        const char *from = strncmp(e.msg, "--set", 5) == 0 ? e.msg : strstr(e.msg, "c.yaml");
        if (!from || strcmp(from, cases[i].want) != 0)
            fail_msg("\"%s\" is not \"%s\"", e.msg, cases[i].want);
        opt_fini(&cfg_table, &c);
        opt_sources_free(src);
    }
}

TEST(missing_config_file_is_an_error_not_the_defaults)
{
    struct err e;
    struct cfg c;
    assert_err(opt_load_yaml(&cfg_table, &c, test_path("%s/none.yaml", test_tmp_dir()), NULL, &e), ERR_IO, &e, "none.yaml");
    opt_fini(&cfg_table, &c);
}

TEST(empty_config_file_is_all_defaults)
{
    struct err e;
    struct cfg c;
    assert_ok(opt_load_yaml(&cfg_table, &c, write_cfg("# nothing\n"), NULL, &e), &e);
    assert_int_equal(c.hi, 9);
    opt_fini(&cfg_table, &c);
}

TEST(durations_and_sizes_parse_and_format_back)
{
    static const struct {
        const char *text;
        int64_t us;
        const char *back;
    } cases[] = {
        {"15s", 15000000, "15s"}, {"5min", 300000000, "5min"}, {"200ms", 200000, "200ms"},
        {"1h", 3600000000, "1h"}, {"90min", 5400000000, "90min"}, {"0s", 0, "0s"},
        {"1.5s", 1500000, "1500ms"}, {"2d", 172800000000, "2d"}, {"24h", 86400000000, "1d"},
        {"7us", 7, "7us"}, {"-5s", -5000000, "-5s"}, {"0.5us", 1, "1us"},
    };
    struct err e;
    char text[32];
    int64_t v;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_ok(opt_parse_duration(cases[i].text, &v, &e), &e);
        assert_int_equal(v, cases[i].us);
        opt_format_duration(v, text);
        assert_string_equal(text, cases[i].back);
    }
    assert_ok(opt_parse_bytes("1.5GiB", &v, &e), &e);
    assert_int_equal(v, 1610612736);
    opt_format_bytes(v, text);
    assert_string_equal(text, "1536MiB");
    assert_ok(opt_parse_bytes("2GB", &v, &e), &e);
    opt_format_bytes(v, text);
    assert_string_equal(text, "2GB");
    opt_format_bytes(0, text);
    assert_string_equal(text, "0B");
    assert_err(opt_parse_duration("", &v, &e), ERR_PARSE, &e, "expected a number and a unit");
    assert_err(opt_parse_duration("s", &v, &e), ERR_PARSE, &e, "expected a number and a unit");
    assert_err(opt_parse_duration("1 s", &v, &e), ERR_PARSE, &e, "unknown unit");
    assert_err(opt_parse_duration("1.5e3s", &v, &e), ERR_PARSE, &e, "unknown unit");
    assert_err(opt_parse_bytes("9e9GB", &v, &e), ERR_PARSE, &e, "unknown unit");
}

TEST(annotated_default_config_loads_back_to_the_defaults)
{
    struct err e;
    struct buf text = buf_init(1 << 16);
    struct cfg a, b;
    opt_write_config(&cfg_table, &text);
    assert_non_null(strstr(text.p, "  # wait between steps (duration; default 60s; 0s to 1h)\n  cooldown: 1min\n"));
    assert_non_null(strstr(text.p, "(number; default 0.85; 0 to 1; reloadable)"));
    assert_non_null(strstr(text.p, "\n# note:\n"));
    assert_non_null(strstr(text.p, "\n#   - name:")); /* an example element lines up when uncommented */
    assert_non_null(strstr(text.p, "\n#     weight:"));
    opt_init(&cfg_table, &a);
    opt_init(&cfg_table, &b);
    assert_ok(opt_read_text(&cfg_table, &b, text.p, text.n, "default.yaml", NULL, &e), &e);
    struct hash ha = hash_init(0), hb = hash_init(0);
    opt_hash(&cfg_table, &a, &ha);
    opt_hash(&cfg_table, &b, &hb);
    assert_int_equal(hash_value(&ha), hash_value(&hb));
    opt_fini(&cfg_table, &a);
    opt_fini(&cfg_table, &b);
    buf_fini(&text);
}

TEST(effective_values_show_their_source_and_load_back)
{
    static const char yaml[] = "pools:\n  - name: a\n    weight: 0.1\n  - name: 'true'\nnote: \"1: [\\n]\"\n";
    char *const sets[] = {"lo=-3"};
    struct err e;
    struct cfg a, b;
    struct opt_sources *src = opt_sources_new();
    struct buf text = buf_init(1 << 16);
    assert_ok(opt_load(&cfg_table, &a, write_cfg(yaml), sets, 1, src, &e), &e);
    opt_write_effective(&cfg_table, &a, src, &text);
    assert_non_null(strstr(text.p, "\nlo: -3  # --set\n"));
    assert_non_null(strstr(text.p, "\nhi: 9  # default\n"));
    assert_non_null(strstr(text.p, "c.yaml:3\n"));
    opt_init(&cfg_table, &b);
    assert_ok(opt_read_text(&cfg_table, &b, text.p, text.n, "back", NULL, &e), &e);
    struct hash ha = hash_init(0), hb = hash_init(0);
    opt_hash(&cfg_table, &a, &ha);
    opt_hash(&cfg_table, &b, &hb);
    assert_int_equal(hash_value(&ha), hash_value(&hb));
    assert_string_equal(b.note, "1: [\n]");
    assert_ok(opt_set(&cfg_table, &b, "pools[0].weight=0.2", NULL, &e), &e);
    hb = hash_init(0);
    opt_hash(&cfg_table, &b, &hb);
    assert_int_not_equal(hash_value(&ha), hash_value(&hb));
    opt_fini(&cfg_table, &a);
    opt_fini(&cfg_table, &b);
    opt_sources_free(src);
    buf_fini(&text);
}

TEST(reference_and_help_list_every_key)
{
    struct buf md = buf_init(1 << 16), help = buf_init(1 << 16);
    opt_write_markdown(&cfg_table, &md);
    opt_write_help(&cfg_table, &help);
    static const char *const keys[] = {"guard.cooldown", "pools[i].name", "mode", "hidden", "note"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        assert_non_null(strstr(md.p, test_path("| `%s` |", keys[i])));
        assert_non_null(strstr(help.p, test_path("  %s ", keys[i])));
    }
    assert_non_null(strstr(md.p, "free \\| text"));
    assert_non_null(strstr(md.p, "| true\\|false | false |"));
    buf_fini(&md);
    buf_fini(&help);
}

TEST(table_check_finds_our_own_mistakes)
{
    struct err e;
    assert_ok(opt_table_check(&cfg_table, &e), &e);
    static const struct {
        struct opt_row row;
        const char *want;
    } cases[] = {
        {OPT_INT(struct cfg, lo, "a", "5", "6", NULL, "h"), "5: below 6"},
        {OPT_INT(struct cfg, lo, "a", "5", "9", "8", "h"), "below 9"},
        {OPT_INT(struct cfg, lo, "a", "x", NULL, NULL, "h"), "expected an integer"},
        {OPT_INT(struct cfg, lo, "a", NULL, NULL, NULL, "h"), "neither a default nor required"},
        {OPT_INT(struct cfg, lo, "a", "1", NULL, NULL, ""), "no help"},
        {OPT_INT(struct cfg, lo, "a.b", "1", NULL, NULL, "h"), "key syntax"},
        {OPT_ENUM(struct cfg, mode, "a", "none", mode_names, "h"), "expected one of"},
        {OPT_DOUBLES(struct cfg, curve, "a", "1,x", NULL, NULL, "h"), "expected a finite number"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct opt_table t = {.name = "t", .help = "h", .rows = &cases[i].row, .n = 1,
                                    .size = sizeof(struct cfg)};
        if (opt_table_check(&t, &e) == ERR_OK || !strstr(e.msg, cases[i].want))
            fail_msg("case %zu: \"%s\"", i, e.msg);
    }
    const struct opt_row twice[] = {cases[0].row, cases[0].row};
    const struct opt_table t = {.name = "t", .help = "h", .rows = twice + 0, .n = 2, .size = sizeof(struct cfg)};
    assert_int_not_equal(opt_table_check(&t, &e), ERR_OK);
}

TEST(list_options_grow_past_their_first_allocation)
{
    struct err e;
    struct cfg c;
    opt_init(&cfg_table, &c);
    struct buf text = buf_init(1 << 20);
    buf_str(&text, "hidden=");
    for (int i = 0; i < 1000; i++)
        buf_fmt(&text, "%s%d", i ? "," : "", i + 1);
    assert_ok(opt_set(&cfg_table, &c, text.p, NULL, &e), &e);
    assert_int_equal(c.hidden.n, 1000);
    assert_int_equal(c.hidden.items[999], 1000);
    buf_clear(&text);
    buf_str(&text, "policies=");
    for (int i = 0; i <= OPT_LIST_MAX; i++)
        buf_str(&text, "a,");
    assert_err(opt_set(&cfg_table, &c, text.p, NULL, &e), ERR_LIMIT, &e, "more than 10000");
    buf_fini(&text);
    opt_fini(&cfg_table, &c);
}
