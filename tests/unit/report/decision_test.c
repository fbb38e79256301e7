#include "base/json.h"
#include "report/decision.h"
#include "tests/support/test.h"

static const struct report_check checks[] = {
    {"freshness", REPORT_PASS, ""},
    {"bounds", REPORT_PASS, NULL},
    {"staged scale-in", REPORT_LIMIT, "at most to 16, then watch 10 min"},
};

static struct report_decision sample(void)
{
    return (struct report_decision){.time_us = INT64_C(1709593200000000),
                                    .policy = "ppo",
                                    .units_from = 22,
                                    .units_proposed = 12,
                                    .units_to = 16,
                                    .factors = {"QPS 0.5x the same-slot median", NULL},
                                    .checks = checks,
                                    .n_checks = 3,
                                    .rule_name = "hpa",
                                    .rule_units = 20};
}

static void assert_text(const struct report_decision *d, bool every, const char *want)
{
    struct buf out = buf_init(1 << 16);
    decision_text(d, NULL, every, false, &out);
    assert_string_equal(out.p, want);
    buf_fini(&out);
}

TEST(decision_reads_as_change_reason_guard_and_rule)
{
    struct report_decision d = sample();
    assert_text(&d, false,
                "2024-03-04 23:00  ppo: 22 -> 16 units (proposed 12)\n"
                "  why    QPS 0.5x the same-slot median\n"
                "  guard  staged scale-in limited: at most to 16, then watch 10 min\n"
                "         2 other checks passed\n"
                "  rules  hpa would have asked for 20\n");
    assert_text(&d, true,
                "2024-03-04 23:00  ppo: 22 -> 16 units (proposed 12)\n"
                "  why    QPS 0.5x the same-slot median\n"
                "  guard  freshness passed\n"
                "         bounds passed\n"
                "         staged scale-in limited: at most to 16, then watch 10 min\n"
                "  rules  hpa would have asked for 20\n");
}

TEST(decision_without_guard_or_rule_says_so)
{
    struct report_decision d = sample();
    d.n_checks = 0;
    d.rule_name = NULL;
    d.factors[0] = NULL;
    d.units_to = d.units_proposed = d.units_from;
    assert_text(&d, false, "2024-03-04 23:00  ppo: stay at 22 units\n  guard  none\n");
}

TEST(decision_text_from_outside_cannot_steer_the_terminal)
{
    struct report_decision d = sample();
    d.factors[0] = "\033]0;owned\a";
    struct buf out = buf_init(1 << 16);
    decision_text(&d, NULL, false, false, &out);
    assert_null(strchr(out.p, '\033'));
    buf_fini(&out);
}

TEST(decisions_as_json_carry_the_whole_chain)
{
    struct report_decision d[] = {sample(), sample()};
    d[1].rule_name = NULL;
    struct buf out = buf_init(1 << 16);
    struct json_doc *doc;
    struct err e;
    decisions_format(d, 2, NULL, CLI_JSON, false, &out);
    assert_ok(json_parse(out.p, out.n, 1 << 16, "decisions", &doc, &e), &e);
    const struct json *a = json_first(json_root(doc)), *b = json_next(a);
    assert_string_equal(json_text(json_find(a, "time")), "2024-03-04T23:00:00Z");
    assert_int_equal(json_count(json_find(a, "checks")), 3);
    assert_near(json_number(json_find(json_find(a, "rule"), "units")), 20, 0, 0);
    assert_true(json_is_null(json_find(b, "rule")));
    json_free(doc);
    buf_fini(&out);
}

TEST(decisions_as_csv_are_one_row_each)
{
    struct report_decision d = sample();
    struct buf out = buf_init(1 << 16);
    decisions_format(&d, 1, NULL, CLI_CSV, false, &out);
    assert_string_equal(
        out.p,
        "time,policy,units_from,units_proposed,units_to,factors,guard,rule_name,rule_units\r\n"
        "2024-03-04T23:00:00Z,ppo,22,12,16,QPS 0.5x the same-slot median,"
        "\"staged scale-in limited: at most to 16, then watch 10 min\",hpa,20\r\n");
    buf_fini(&out);
}
