#include <sys/stat.h>

#include "base/file.h"
#include "report/html_priv.h"
#include "tests/integration/report_fixture.h"
#include "tests/support/test.h"

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static struct buf page_of(const struct report_data *d)
{
    struct err e;
    struct buf out = buf_init(REPORT_BYTES_MAX);
    assert_ok(report_html(d, &out, &e), &e);
    return out;
}

/* An evaluation with one policy, enough for a page. */
struct tiny {
    struct eval_metric metric[2];
    struct eval_policy policy;
    struct evaluation ev;
    struct report_data data;
};

static void tiny_init(struct tiny *t)
{
    *t = (struct tiny){.metric = {{"cost_usd", 10, 9, 11}, {"slo_violation_frac", 0, 0, 0}}};
    t->policy = (struct eval_policy){"ppo", EVAL_CONTENDER, t->metric, 2};
    t->ev = (struct evaluation){.scenario = "s",
                                .n_seeds = 1,
                                .policies = &t->policy,
                                .n_policies = 1,
                                .slo_p99_ms = 200,
                                .slo_violation_max = 0.01};
    t->data = (struct report_data){.eval = &t->ev, .tree_fidelity_frac = NAN};
}

TEST(page_of_everything_has_every_part_and_stays_small)
{
    static struct fixture f;
    fixture_init(&f, NULL);
    struct buf page = page_of(&f.data);
    static const char *const parts[] = {"id=\"plane\"",    "id=\"table\"",      "id=\"time\"",
                                        "id=\"forecast\"", "id=\"decisions\"",  "id=\"tree\"",
                                        "id=\"learning\"", "id=\"provenance\"", "The hardest day"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        assert_int_equal(count(page.p, parts[i]), 1);
    assert_true(page.n < 600000);
    buf_fini(&page);
    fixture_fini(&f);
}

TEST(same_data_gives_the_same_bytes)
{
    static struct fixture f;
    fixture_init(&f, NULL);
    struct buf a = page_of(&f.data), b = page_of(&f.data);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.p, b.p, a.n);
    buf_fini(&a);
    buf_fini(&b);
    fixture_fini(&f);
}

TEST(names_from_outside_never_become_markup)
{
    static struct fixture f;
    fixture_init(&f, NULL);
    f.eval.scenario = f.data.title = f.timeline.note = f.data.tree_text = f.data.config_text =
        HOSTILE;
    f.data.decisions_note = f.forecast.what = f.forecast.note = HOSTILE;
    f.front[0].name = f.check[1][8].name = f.check[1][8].reason = f.decision[0].rule_name = HOSTILE;
    f.decision[0].factors[0] = f.provenance[0].key = f.bound[0].name = HOSTILE;
    struct buf page = page_of(&f.data);
    assert_int_equal(count(page.p, "<script"), 1);
    assert_int_equal(count(page.p, "</script"), 1);
    assert_int_equal(count(page.p, "<img"), 0);
    assert_int_equal(count(page.p, "\" onload=\""), 0);
    assert_true(count(page.p, "&lt;script&gt;") > 20);
    buf_fini(&page);
    fixture_fini(&f);
}

TEST(page_loads_nothing)
{
    static struct fixture f;
    fixture_init(&f, NULL);
    struct buf page = page_of(&f.data);
    static const char *const never[] = {
        "http:", "https:", "src=\"", "url(", "@import", "<link rel=\"stylesheet\"", "<iframe"};
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        if (strcmp(never[i], "src=\"") != 0)
            assert_int_equal(count(page.p, never[i]), 0);
    assert_int_equal(count(page.p, "default-src 'none'"), 1);
    buf_fini(&page);
    fixture_fini(&f);
}

TEST(page_without_optional_parts_leaves_them_out)
{
    struct tiny t;
    tiny_init(&t);
    struct buf page = page_of(&t.data);
    static const char *const absent[] = {"id=\"time\"",   "id=\"forecast\"", "id=\"decisions\"",
                                         "id=\"tree\"",   "id=\"learning\"", "id=\"provenance\"",
                                         "href=\"#time\""};
    for (size_t i = 0; i < ARRAY_LEN(absent); i++)
        assert_int_equal(count(page.p, absent[i]), 0);
    assert_int_equal(count(page.p, "id=\"table\""), 1);
    buf_fini(&page);
}

/* Data no one should have, which must give a page all the same. */
TEST(page_copes_with_missing_infinite_and_tiny_data)
{
    enum { N = 3 };
    static const float gaps[N] = {NAN, NAN, NAN}, wild[N] = {INFINITY, -1, 1e38f},
                       zero[N] = {0, 0, 0};
    static const float *const series[] = {gaps, wild, zero};
    for (size_t i = 0; i < ARRAY_LEN(series); i++)
        for (size_t n = 0; n <= N; n++) {
            struct tiny t;
            tiny_init(&t);
            struct report_trace trace = {"ppo", series[i], series[i], series[i]};
            struct report_timeline tl = {0, 15000000, n, series[i], series[i], &trace, 1, NULL};
            struct report_forecast fc = {.step_us = 300000000,
                                         .n = n,
                                         .actual = series[i],
                                         .mean = series[i],
                                         .lo80 = series[i],
                                         .hi80 = series[i],
                                         .coverage80_frac = NAN,
                                         .coverage95_frac = NAN,
                                         .wape_frac = NAN};
            const double cost[] = {-1, NAN}, miss[] = {0, NAN};
            struct report_front front = {"hpa", cost, miss, 2, false};
            t.data.timeline = &tl;
            t.data.forecast = &fc;
            t.data.fronts = &front;
            t.data.n_fronts = 1;
            struct buf page = page_of(&t.data);
            assert_int_equal(count(page.p, "\"nan"), 0);
            assert_int_equal(count(page.p, "\"-nan"), 0);
            assert_int_equal(count(page.p, " inf"), 0);
            buf_fini(&page);
        }
}

TEST(metrics_that_are_missing_zero_or_absurd_give_a_page)
{
    static const double values[] = {NAN, 0, -5, 1e300, INFINITY};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        for (size_t k = 0; k < ARRAY_LEN(values); k++) {
            struct tiny t;
            tiny_init(&t);
            t.metric[0] = (struct eval_metric){"cost_usd", values[i], values[k], values[i]};
            t.metric[1] = (struct eval_metric){"slo_violation_frac", values[k], values[i], NAN};
            struct buf page = page_of(&t.data);
            assert_int_equal(count(page.p, "nan"), 0);
            buf_fini(&page);
        }
    struct tiny t;
    tiny_init(&t);
    t.ev.n_policies = 0;
    struct buf page = page_of(&t.data);
    assert_int_equal(count(page.p, "Nothing to compare"), 1);
    buf_fini(&page);
}

TEST(decisions_beyond_the_limit_are_counted_not_listed)
{
    struct tiny t;
    tiny_init(&t);
    static struct report_decision d[500];
    for (size_t i = 0; i < ARRAY_LEN(d); i++)
        d[i] = (struct report_decision){
            .time_us = (int64_t)i * 15000000, .policy = "ppo", .units_to = 1};
    t.data.decisions = d;
    t.data.n_decisions = ARRAY_LEN(d);
    t.data.n_decisions_total = 57600;
    struct buf page = page_of(&t.data);
    assert_int_equal(count(page.p, "120 of 57,600 decisions"), 1);
    assert_int_equal(count(page.p, "role=\"rowheader\""), REPORT_DECISIONS_MAX);
    buf_fini(&page);
}

TEST(many_policies_over_90_days_stay_within_the_size_limit)
{
    enum { N = 518400, POLICIES = 12 };
    struct tiny t;
    tiny_init(&t);
    float *v = fixture_floats(N);
    struct rng rng = rng_stream(test_seed(), "noise");
    for (size_t i = 0; i < N; i++)
        v[i] = (float)(64 * rng_unit(&rng)); /* noise is the worst case for the paths */
    struct report_trace traces[POLICIES];
    struct eval_policy policies[POLICIES];
    char names[POLICIES][32];
    for (int k = 0; k < POLICIES; k++) {
        (void)snprintf(names[k], sizeof names[k], "policy %d", k);
        traces[k] = (struct report_trace){names[k], v, v, v};
        policies[k] = (struct eval_policy){names[k], EVAL_CONTENDER, t.metric, 2};
    }
    struct report_timeline tl = {0, 15000000, N, v, v, traces, POLICIES, NULL};
    t.data.timeline = &tl;
    t.ev.policies = policies;
    t.ev.n_policies = POLICIES;
    struct buf page = page_of(&t.data);
    print_message("worst case: %zu bytes\n", page.n);
    assert_true(page.n < REPORT_BYTES_MAX);
    assert_int_equal(count(page.p, "<div class=\"cell k"), 2 * REPORT_POLICIES_MAX);
    buf_fini(&page);
    mem_free(v);
}

TEST(hardest_day_is_the_local_day_with_most_misses_else_the_peak)
{
    enum { DAY = 96, N = 4 * DAY };
    struct err e;
    struct tz *zone;
    assert_ok(tz_load("America/New_York", &zone, &e), &e);
    struct tiny t;
    tiny_init(&t);
    static float q[N], p99[N];
    for (size_t i = 0; i < N; i++) {
        q[i] = 10;
        p99[i] = 50;
    }
    struct report_trace trace = {"ppo", q, NULL, p99};
    /* Starts at local noon: the first local day has 48 steps. */
    struct report_timeline tl = {INT64_C(1709571600000000), 900000000, N, q, NULL, &trace, 1, NULL};
    t.data.timeline = &tl;
    t.data.zone = zone;
    q[200] = 500;
    struct report_window w = html_hardest_day(&t.data);
    assert_int_equal(w.from, 48 + DAY);
    assert_int_equal(w.n, DAY);
    p99[10] = 201;
    w = html_hardest_day(&t.data);
    assert_int_equal(w.from, 0);
    assert_int_equal(w.n, 48);
    tz_free(zone);
}

TEST(page_refuses_what_it_cannot_show)
{
    struct err e;
    struct buf out = buf_init(REPORT_BYTES_MAX);
    struct tiny t;
    tiny_init(&t);
    struct report_data none = {0};
    assert_err(report_html(&none, &out, &e), ERR_INVAL, &e, "no evaluation");
    static const float v[2];
    struct report_timeline tl = {.step_us = 0, .n = 2, .demand_qps = v};
    t.data.timeline = &tl;
    assert_err(report_html(&t.data, &out, &e), ERR_INVAL, &e, "timeline of 2 steps");
    tl.step_us = INT64_C(86400000000) * 366 * 40;
    assert_err(report_html(&t.data, &out, &e), ERR_INVAL, &e, "50 years");
    t.data.timeline = NULL;
    struct report_forecast fc = {.step_us = -1, .n = 2, .actual = v, .mean = v};
    t.data.forecast = &fc;
    assert_err(report_html(&t.data, &out, &e), ERR_INVAL, &e, "forecast of 2 steps");
    buf_fini(&out);
    t.data.forecast = NULL;
    struct buf small = buf_init(1000);
    assert_err(report_html(&t.data, &small, &e), ERR_LIMIT, &e, "report");
    buf_fini(&small);
    assert_err(report_html_write(&t.data, "/nonexistent/r.html", &e), ERR_IO, &e, "r.html");
}
