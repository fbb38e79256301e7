#include "base/json.h"
#include "base/mem.h"
#include "report/evaluation.h"
#include "tests/support/test.h"

/* Three policies whose equal-misses intervals are below, across and above 1; one reference. */
struct sample {
    struct eval_metric metric[4][5];
    struct eval_policy policy[4];
    struct eval_bound bound;
    struct evaluation ev;
};

static void sample_init(struct sample *s)
{
    static const struct {
        const char *name;
        enum eval_role role;
        double cost, misses, lo, hi;
    } rows[] = {{"hpa", EVAL_CONTENDER, 200, 0.008, 1, 1},
                {"ppo", EVAL_CONTENDER, 180, 0.006, 0.86, 0.94},
                {"mpc", EVAL_CONTENDER, 195, 0.02, 0.95, 1.02},
                {"oracle", EVAL_REFERENCE, 150, 0.001, 0.7, 0.8}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct eval_metric m[] = {
            {"cost_usd", rows[i].cost, rows[i].cost - 5, rows[i].cost + 5},
            {"slo_violation_frac", rows[i].misses, rows[i].misses / 2, rows[i].misses * 2},
            {"cost_at_equal_misses_frac", (rows[i].lo + rows[i].hi) / 2, rows[i].lo, rows[i].hi},
            {"p99_latency_ms", NAN, NAN, NAN},
            {"regret_frac", rows[i].cost / 150 - 1, 0, 1},
        };
        memcpy(s->metric[i], m, sizeof m);
        s->policy[i] = (struct eval_policy){rows[i].name, rows[i].role, s->metric[i], ARRAY_LEN(m)};
    }
    s->bound = (struct eval_bound){"cost_usd", 144};
    s->ev = (struct evaluation){.scenario = "nasa",
                                .n_seeds = 5,
                                .n_days = 9,
                                .policies = s->policy,
                                .n_policies = 4,
                                .bounds = &s->bound,
                                .n_bounds = 1,
                                .slo_p99_ms = 200,
                                .slo_violation_max = 0.01};
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" lacks \"%s\"", text, part);
}

TEST(evaluation_json_has_exactly_the_members_of_the_contract)
{
    struct sample s;
    sample_init(&s);
    s.ev.n_policies = 1;
    s.policy[0].n_metrics = 1;
    struct buf out = buf_init(1 << 16);
    evaluation_json(&s.ev, 0, &out);
    assert_string_equal(out.p,
                        "{\"scenario\":\"nasa\",\"seeds\":5,\"policies\":[{\"name\":\"hpa\","
                        "\"metrics\":{\"cost_usd\":"
                        "{\"mean\":200,\"lo\":195,\"hi\":205}}}],\"bounds\":{\"cost_usd\":144}}\n");
    buf_fini(&out);
}

TEST(evaluation_json_writes_null_for_what_is_not_known_and_escapes_names)
{
    struct sample s;
    sample_init(&s);
    s.policy[1].name = "a\"\\\n<b>";
    struct buf out = buf_init(1 << 16);
    struct json_doc *doc;
    struct err e;
    evaluation_json(&s.ev, 2, &out);
    assert_ok(json_parse(out.p, out.n, 1 << 16, "evaluation", &doc, &e), &e);
    const struct json *p = json_next(json_first(json_find(json_root(doc), "policies")));
    assert_string_equal(json_text(json_find(p, "name")), "a\"\\\n<b>");
    assert_true(
        json_is_null(json_find(json_find(json_find(p, "metrics"), "p99_latency_ms"), "mean")));
    json_free(doc);
    buf_fini(&out);
}

TEST(evaluation_csv_has_a_row_per_policy_and_metric_then_the_bounds)
{
    struct sample s;
    sample_init(&s);
    s.ev.n_policies = 1;
    s.policy[0].n_metrics = 4;
    s.policy[0].name = "a,b";
    struct buf out = buf_init(1 << 16);
    evaluation_csv(&s.ev, &out);
    assert_string_equal(out.p, "scenario,seeds,policy,metric,mean,lo,hi\r\n"
                               "nasa,5,\"a,b\",cost_usd,200,195,205\r\n"
                               "nasa,5,\"a,b\",slo_violation_frac,0.008,0.004,0.016\r\n"
                               "nasa,5,\"a,b\",cost_at_equal_misses_frac,1,1,1\r\n"
                               "nasa,5,\"a,b\",p99_latency_ms,,,\r\n"
                               "nasa,5,,cost_usd,144,,\r\n");
    buf_fini(&out);
}

TEST(verdict_needs_the_whole_interval_on_one_side)
{
    static const struct {
        double lo, hi;
        enum eval_verdict want;
    } cases[] = {{0.8, 0.99, EVAL_WIN},   {0.9, 1.0, EVAL_TIE},   {0.9, 1.1, EVAL_TIE},
                 {1.0, 1.1, EVAL_TIE},    {1.01, 1.1, EVAL_LOSS}, {NAN, 1.1, EVAL_UNKNOWN},
                 {0.9, NAN, EVAL_UNKNOWN}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct eval_metric m = {"cost_at_equal_misses_frac", 0.95, cases[i].lo, cases[i].hi};
        struct eval_policy p = {"p", EVAL_CONTENDER, &m, 1};
        assert_int_equal(eval_verdict(&p), cases[i].want);
    }
    struct eval_policy none = {"p", EVAL_CONTENDER, NULL, 0};
    assert_int_equal(eval_verdict(&none), EVAL_UNKNOWN);
}

TEST(proposal_is_the_first_contender_that_is_not_the_baseline)
{
    struct sample s;
    sample_init(&s);
    assert_string_equal(eval_baseline(&s.ev)->name, "hpa");
    assert_string_equal(eval_proposal(&s.ev)->name, "ppo");
    s.ev.baseline = "ppo";
    assert_string_equal(eval_proposal(&s.ev)->name, "hpa");
    s.ev.proposal = "mpc";
    assert_string_equal(eval_proposal(&s.ev)->name, "mpc");
    s.ev.proposal = "absent";
    assert_null(eval_proposal(&s.ev));
}

TEST(table_shows_wins_ties_losses_and_policies_that_miss_too_often)
{
    struct sample s;
    sample_init(&s);
    s.metric[2][1].mean = 0.009;
    struct buf out = buf_init(1 << 16);
    evaluation_table(&s.ev, false, &out);
    assert_has(out.p, "nasa, 9 test days, 5 seeds");
    assert_has(out.p, "0.900 (0.860..0.940)");
    assert_has(out.p, "cheaper\n");
    assert_has(out.p, "no clear difference\n");
    assert_has(out.p, "rules today\n");
    assert_has(out.p, "knows the future\n");
    assert_has(out.p, "bound: cost_usd $144\n");
    assert_has(out.p, "target: p99 within 200 ms in all but 1 % of steps\n");
    buf_clear(&out);
    s.metric[1][2] = (struct eval_metric){"cost_at_equal_misses_frac", 1.1, 1.05, 1.2};
    s.metric[2][1].mean = 0.02;
    evaluation_table(&s.ev, false, &out);
    assert_has(out.p, "dearer\n");
    assert_has(out.p, "misses too often\n");
    buf_fini(&out);
}

TEST(summary_says_plainly_what_was_won_tied_or_lost)
{
    static const struct {
        double misses, lo, hi;
        const char *say[3];
    } cases[] = {
        {0.006,
         0.86,
         0.94,
         {"At equal misses it costs 10 % less than hpa", "within the allowed 1 %",
          "25 % above that bound"}},
        {0.006,
         0.95,
         1.02,
         {"there is no clear difference to hpa", "0.985 times its cost",
          "(hpa) would have cost $200"}},
        {0.03,
         1.05,
         1.15,
         {"it costs 10 % more than hpa", "more than the allowed 1 %", "(oracle) costs $150"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sample s;
        sample_init(&s);
        s.metric[1][1].mean = cases[i].misses;
        s.metric[1][2] = (struct eval_metric){
            "cost_at_equal_misses_frac", (cases[i].lo + cases[i].hi) / 2, cases[i].lo, cases[i].hi};
        struct buf out = buf_init(1 << 16);
        evaluation_summary(&s.ev, &out);
        for (size_t k = 0; k < 3; k++)
            assert_has(out.p, cases[i].say[k]);
        buf_fini(&out);
    }
}

TEST(summary_and_table_cope_with_nothing_known)
{
    struct evaluation none = {.scenario = "x", .slo_p99_ms = NAN, .slo_violation_max = NAN};
    struct buf out = buf_init(1 << 16);
    evaluation_summary(&none, &out);
    assert_has(out.p, "Nothing to compare");
    buf_clear(&out);
    struct eval_policy bare = {"p", EVAL_CONTENDER, NULL, 0};
    none.policies = &bare;
    none.n_policies = 1;
    evaluation_summary(&none, &out);
    assert_has(out.p, "p has no measured cost.");
    buf_clear(&out);
    evaluation_format(&none, CLI_TABLE, false, &out);
    assert_has(out.p, "p            -");
    assert_null(strstr(out.p, "nan"));
    buf_fini(&out);
}
