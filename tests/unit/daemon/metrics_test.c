#include "daemon/metrics.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "tests/support/test.h"

enum { PAGE_BYTES = 64 << 20 };

static char *page_of(struct metrics *m)
{
    struct buf b = buf_init(PAGE_BYTES);
    metrics_write(m, &b);
    assert_false(b.failed);
    return buf_take(&b);
}

static void assert_has(struct metrics *m, const char *text)
{
    char *page = page_of(m);
    if (!strstr(page, text))
        fail_msg("\"%s\" is not in\n%s", text, page);
    mem_free(page);
}

static void assert_lacks(struct metrics *m, const char *text)
{
    char *page = page_of(m);
    if (strstr(page, text))
        fail_msg("\"%s\" is in\n%s", text, page);
    mem_free(page);
}

TEST(metrics_page_has_help_type_and_value)
{
    struct metrics *m = metrics_new();
    metric_set(m, METRIC_LEADER, 1, NULL);
    metric_set(m, METRIC_TARGET_UNITS, 4, METRIC_LABELS("prod", "chat", "ready"));
    metric_add(m, METRIC_DECISIONS, 1, METRIC_LABELS("hold"));
    metric_add(m, METRIC_DECISIONS, 2, METRIC_LABELS("hold"));
    assert_has(m, "# HELP sluice_leader 1 when this replica holds the lease.\n"
                  "# TYPE sluice_leader gauge\nsluice_leader 1\n");
    assert_has(m, "\nsluice_target_units{namespace=\"prod\",target=\"chat\",state=\"ready\"} 4\n");
    assert_has(
        m, "# TYPE sluice_decisions_total counter\nsluice_decisions_total{verdict=\"hold\"} 3\n");
    assert_has(m, "sluice_build_info{version=\"");
    metrics_free(m);
}

TEST(metrics_that_are_not_known_are_absent_not_zero)
{
    struct metrics *m = metrics_new();
    assert_lacks(m, "sluice_forecast_error_frac");
    metric_set(m, METRIC_FORECAST_ERROR, NAN, METRIC_LABELS("a", "b"));
    assert_lacks(m, "sluice_forecast_error_frac");
    metric_set(m, METRIC_FORECAST_ERROR, 0.25, METRIC_LABELS("a", "b"));
    metric_set(m, METRIC_FORECAST_ERROR, 0.5, METRIC_LABELS("a", "c"));
    assert_has(m, "sluice_forecast_error_frac{namespace=\"a\",target=\"b\"} 0.25\n");
    metric_set(m, METRIC_FORECAST_ERROR, NAN, METRIC_LABELS("a", "b"));
    assert_lacks(m, "target=\"b\"");
    assert_has(m, "target=\"c\"} 0.5");
    assert_near(metric_get(m, METRIC_FORECAST_ERROR, METRIC_LABELS("a", "b")), NAN, 0, 0);
    metrics_free(m);
}

TEST(metrics_histogram_buckets_are_cumulative_and_a_bound_belongs_to_its_bucket)
{
    struct metrics *m = metrics_new();
    assert_has(m, "sluice_decision_round_seconds_count 0\n");
    metric_observe(m, METRIC_ROUND_SECONDS, 0.001, NULL);
    metric_observe(m, METRIC_ROUND_SECONDS, 0.3, NULL);
    metric_observe(m, METRIC_ROUND_SECONDS, 99, NULL);
    assert_has(m, "sluice_decision_round_seconds_bucket{le=\"0.001\"} 1\n");
    assert_has(m, "sluice_decision_round_seconds_bucket{le=\"0.25\"} 1\n");
    assert_has(m, "sluice_decision_round_seconds_bucket{le=\"0.5\"} 2\n");
    assert_has(m, "sluice_decision_round_seconds_bucket{le=\"30\"} 2\n");
    assert_has(m, "sluice_decision_round_seconds_bucket{le=\"+Inf\"} 3\n");
    assert_has(m, "sluice_decision_round_seconds_sum 99.301\n");
    assert_has(m, "sluice_decision_round_seconds_count 3\n");
    metric_observe(m, METRIC_API_SECONDS, 0.02, METRIC_LABELS("get"));
    assert_has(m, "sluice_api_request_seconds_bucket{verb=\"get\",le=\"0.025\"} 1\n");
    assert_near(metric_get(m, METRIC_ROUND_SECONDS, NULL), 3, 0, 0);
    metrics_free(m);
}

TEST(metrics_label_values_are_escaped_cut_and_made_plain)
{
    struct metrics *m = metrics_new();
    char value[600];
    memset(value, 'y', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    metric_set(m, METRIC_INPUT_UP, 1, METRIC_LABELS("a\"b\\c\nd"));
    metric_set(m, METRIC_INPUT_UP, 1, METRIC_LABELS("bad\xff\x1b"));
    metric_set(m, METRIC_INPUT_UP, 1, METRIC_LABELS(value));
    assert_has(m, "sluice_input_up{query=\"a\\\"b\\\\c\\nd\"} 1\n");
    assert_has(m, "sluice_input_up{query=\"bad??\"} 1\n");
    value[255] = '\0';
    assert_near(metric_get(m, METRIC_INPUT_UP, METRIC_LABELS(value)), 1, 0, 0);
    metrics_free(m);
}

TEST(metrics_number_of_series_is_bounded_and_refusals_are_counted)
{
    struct metrics *m = metrics_new();
    char name[32];
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "query-%d", i);
        metric_set(m, METRIC_INPUT_UP, i, METRIC_LABELS(name));
    }
    assert_near(metric_get(m, METRIC_INPUT_UP, METRIC_LABELS("query-255")), 255, 0, 0);
    assert_near(metric_get(m, METRIC_INPUT_UP, METRIC_LABELS("query-256")), NAN, 0, 0);
    assert_has(m, "sluice_metrics_refused_total{metric=\"sluice_input_up\"} 44\n");
    metric_set(m, METRIC_INPUT_UP, NAN, METRIC_LABELS("query-3")); /* makes room */
    metric_set(m, METRIC_INPUT_UP, 7, METRIC_LABELS("query-299"));
    assert_near(metric_get(m, METRIC_INPUT_UP, METRIC_LABELS("query-299")), 7, 0, 0);
    metrics_free(m);
}

TEST(metrics_of_a_target_that_is_gone_are_dropped_everywhere_and_no_others)
{
    struct metrics *m = metrics_new();
    static const char *const targets[][2] = {{"a", "x"}, {"a", "y"}, {"b", "x"}};
    for (size_t i = 0; i < 3; i++) {
        const char *ns = targets[i][0], *name = targets[i][1];
        metric_set(m, METRIC_PRESSURE, 0.5, METRIC_LABELS(ns, name));
        metric_set(m, METRIC_REWARD, 1, METRIC_LABELS(ns, name, "cost"));
        metric_set(m, METRIC_REWARD, 2, METRIC_LABELS(ns, name, "latency"));
    }
    metric_set(m, METRIC_INPUT_UP, 1, METRIC_LABELS("a"));
    metrics_drop_target(m, "a", "x");
    assert_lacks(m, "namespace=\"a\",target=\"x\"");
    assert_near(metric_get(m, METRIC_REWARD, METRIC_LABELS("a", "y", "latency")), 2, 0, 0);
    assert_near(metric_get(m, METRIC_REWARD, METRIC_LABELS("b", "x", "cost")), 1, 0, 0);
    assert_near(metric_get(m, METRIC_INPUT_UP, METRIC_LABELS("a")), 1, 0, 0);
    metrics_drop(m, METRIC_REWARD);
    assert_lacks(m, "sluice_reward");
    metrics_free(m);
}

TEST(metrics_index_agrees_with_a_plain_list_over_thousands_of_random_changes)
{
    enum { KEYS = 200, CHANGES = 20000 };
    struct metrics *m = metrics_new();
    double want[KEYS];
    uint64_t r = 88172645463325252ull + test_seed();
    char name[16];
    for (int i = 0; i < KEYS; i++)
        want[i] = NAN;
    for (int n = 0; n < CHANGES; n++) {
        r ^= r << 13, r ^= r >> 7, r ^= r << 17;
        int i = (int)(r % KEYS);
        want[i] = r >> 40 & 1 ? NAN : (double)n;
        (void)snprintf(name, sizeof name, "k%d", i);
        if (r >> 41 & 1 && isnan(want[i]))
            metrics_drop_target(m, "ns", name);
        else
            metric_set(m, METRIC_PRESSURE, want[i], METRIC_LABELS("ns", name));
    }
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(name, sizeof name, "k%d", i);
        assert_near(metric_get(m, METRIC_PRESSURE, METRIC_LABELS("ns", name)), want[i], 0, 0);
    }
    metrics_free(m);
}

static void fill_all(struct metrics *m)
{
    static const char *const label[METRIC_LABELS_MAX] = {"one", "two", "three"};
#define FILL_GAUGE(id) metric_set(m, METRIC_##id, 1.5, label)
#define FILL_COUNTER(id) metric_add(m, METRIC_##id, 1, label)
#define FILL_HISTOGRAM(id) metric_observe(m, METRIC_##id, 0.5, label)
#define X(id, name, type, labels, most, help) FILL_##type(id);
    METRIC_LIST(X)
#undef X
}

/* promtool also judges names and help. */
TEST(metrics_page_with_every_metric_passes_promtool)
{
    if (system("promtool --version > /dev/null 2>&1") != 0)
        skip();
    struct metrics *m = metrics_new();
    fill_all(m);
    char *page = page_of(m);
    const char *path = test_path("%s/page.txt", test_tmp_dir());
    test_write_file(path, page, strlen(page));
    assert_int_equal(system(test_path("promtool check metrics < %s", path)), 0);
    mem_free(page);
    metrics_free(m);
}

TEST(metrics_reference_lists_every_metric)
{
    struct buf b = buf_init(PAGE_BYTES);
    metrics_write_markdown(&b);
    for (int i = 0; i < METRICS; i++)
        assert_non_null(strstr(b.p, test_path("| `%s` |", metric_name((enum metric_id)i))));
    buf_fini(&b);
}

struct setter {
    struct metrics *m;
    int id;
};

static void *set_many(void *arg)
{
    struct setter *s = arg;
    char name[16];
    for (int i = 0; i < 4000; i++) {
        (void)snprintf(name, sizeof name, "t%d", i % 50);
        metric_add(s->m, METRIC_DECISIONS, 1, METRIC_LABELS(i % 2 ? "hold" : "scaled"));
        metric_observe(s->m, METRIC_API_SECONDS, 0.01, METRIC_LABELS("get"));
        metric_set(s->m, METRIC_PRESSURE, i % 7 ? i : NAN, METRIC_LABELS("ns", name));
        if (i % 500 == 0)
            metrics_drop_target(s->m, "ns", name);
    }
    return NULL;
}

TEST(metrics_are_set_by_several_threads_while_the_page_is_written_thread)
{
    struct metrics *m = metrics_new();
    struct setter s[2] = {{m, 0}, {m, 1}};
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, set_many, &s[i]), 0);
    for (int i = 0; i < 50; i++) {
        char *page = page_of(m);
        mem_free(page);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_near(metric_get(m, METRIC_DECISIONS, METRIC_LABELS("hold")), 4000, 0, 0);
    assert_near(metric_get(m, METRIC_API_SECONDS, METRIC_LABELS("get")), 8000, 0, 0);
    metrics_free(m);
}
