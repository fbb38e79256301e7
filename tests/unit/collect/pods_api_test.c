/* pods_api_test.c - CPU and memory from metrics.k8s.io. */
#include <math.h>

#include "collect/collect_priv.h"
#include "tests/unit/collect/collect_fixture.h"

TEST(quantities_are_read_as_kubernetes_writes_them)
{
    static const struct {
        const char *text;
        double want; /* NaN: none */
    } rows[] = {{"250m", 0.25},  {"12345678n", 0.012345678}, {"3u", 3e-6},    {"2", 2},      {"64Mi", 67108864},
                {"1.5Gi", 1610612736}, {"1e3", 1000},      {"1E3", 1000},    {"1E", 1e18},  {"100k", 1e5},
                {"1Ki", 1024},   {"-1", -1},                 {"", NAN},        {"m", NAN},    {"1mi", NAN},
                {"1 Mi", NAN},   {"0x10", NAN},              {"1e", NAN},      {"..1", NAN}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        double v = NAN;
        bool ok = pods_api_quantity(rows[i].text, &v);
        if (ok != !isnan(rows[i].want) || (ok && fabs(v - rows[i].want) > 1e-9 * fabs(v)))
            fail_msg("\"%s\": %d %g", rows[i].text, ok, v);
    }
}

struct api {
    struct world w;
    const char *body;
    enum err_code rc;
    bool later; /* the answer is kept back */
    void (*done)(void *arg, enum err_code rc, const char *body, size_t n, const struct err *e);
    void *arg;
    char path[128];
};

static enum err_code get(void *ctx, const char *path, size_t cap,
                         void (*done)(void *arg, enum err_code rc, const char *body, size_t n, const struct err *e),
                         void *arg, struct err *e)
{
    struct world *w = ctx;
    struct api *a = (struct api *)w; /* its first member */
    struct err mine = {0};
    (void)cap;
    (void)snprintf(a->path, sizeof a->path, "%s", path);
    if (a->rc == ERR_LIMIT)
        return err_set(e, ERR_LIMIT, "too many calls");
    if (a->later) {
        a->done = done;
        a->arg = arg;
        return ERR_OK;
    }
    if (a->rc)
        (void)err_set(&mine, a->rc, "HTTP 503");
    struct buf b = buf_init(1 << 20);
    fx_fill(&b, a->body, clock_wall_us());
    done(arg, a->rc, b.p, b.n, &mine);
    buf_fini(&b);
    return ERR_OK;
}

static void open_api(struct api *a)
{
    static const char *const settings[] = {NULL};
    struct err e;
    memset(a, 0, sizeof *a);
    (void)pthread_mutex_init(&a->w.lock, NULL);
    a->w.now_us = INT64_C(1700000000) * US_PER_S;
    fx_config(&a->w.cfg, settings);
    struct collect_opts o = fx_opts(&a->w);
    o.kube_get = get;
    assert_ok(collect_new(&o, &a->w.c, &e), &e);
    fx_set(&a->w, 0, "shop", "web");
    fx_add_pod(&a->w, "shop", "web-0", 0);
    fx_add_pod(&a->w, "shop", "web-1", 0);
}

static void close_api(struct api *a)
{
    collect_free(a->w.c);
    opt_fini(&queries_table, &a->w.cfg);
    (void)pthread_mutex_destroy(&a->w.lock);
}

static void round_of(struct api *a)
{
    collect_start_round(a->w.c, a->w.now_us += STEP);
}

#define POD(name, cpu1, mem1, cpu2, mem2)                                                          \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"shop\",\"labels\":{\"name\":\"x\"}},\"window\":\"30s\","   \
    "\"containers\":[{\"name\":\"a\",\"usage\":{\"cpu\":\"" cpu1 "\",\"memory\":\"" mem1 "\"}},{\"name\":\"b\"," \
    "\"usage\":{\"cpu\":\"" cpu2 "\",\"memory\":\"" mem2 "\"}}]}"
#define LIST(items) "{\"kind\":\"PodMetricsList\",\"apiVersion\":\"metrics.k8s.io/v1beta1\",\"metadata\":{},\"items\":[" items "]}"

TEST(use_of_all_containers_is_divided_by_the_pods_requests)
{
    struct api a;
    open_api(&a);
    a.body = LIST(POD("web-0", "500m", "2e9", "100000000n", "2e9") "," POD("web-1", "3", "1e9", "1", "1e9") "," POD("gone", "1", "1", "1", "1"));
    round_of(&a);
    assert_string_equal(a.path, "/apis/metrics.k8s.io/v1beta1/pods");
    struct collect_sample s = fx_view(&a.w, 0);
    assert_near((double)s.last[FIELD_CPU_UTIL], (0.3 + 1) / 2, 1e-6, 0); /* 4 of 2 cores reads as all of them */
    assert_near((double)s.last[FIELD_MEM_UTIL], (0.5 + 0.25) / 2, 1e-6, 0);
    assert_int_equal(fx_health(&a.w, "metrics.k8s.io")->last_dropped, 1);
    assert_int_equal(fx_health(&a.w, "metrics.k8s.io")->n_samples, 3);
    close_api(&a);
}

TEST(what_the_api_does_not_say_is_missing)
{
    static const char *const bodies[] = {
        LIST(""),
        LIST("{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"shop\"},\"containers\":[]}"),
        LIST("{\"metadata\":{\"name\":\"web-0\"},\"containers\":[{\"usage\":{\"cpu\":\"1\"}}]}"),
        LIST("{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"shop\"},\"containers\":[{\"usage\":{\"cpu\":\"lots\"}}]}"),
        LIST("{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"shop\"},\"timestamp\":\"2001-01-01T00:00:00Z\","
             "\"containers\":[{\"usage\":{\"cpu\":\"1\"}}]}"),
        LIST("{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"shop\"},\"containers\":{\"usage\":{\"cpu\":\"1\"}}}"),
        "{\"items\":{}}",
    };
    struct collect_sample s;
    struct api a;
    open_api(&a);
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        a.body = bodies[i];
        round_of(&a);
        if (collect_view(a.w.c, 0, a.w.now_us, &s))
            fail_msg("%s gave a value", bodies[i]);
        assert_string_equal(fx_health(&a.w, "metrics.k8s.io")->error, "");
    }
    close_api(&a);
}

TEST(failures_of_the_api_are_told)
{
    struct api a;
    open_api(&a);
    a.body = "{\"items\":[{\"metadata\"";
    round_of(&a);
    assert_non_null(strstr(fx_health(&a.w, "metrics.k8s.io")->error, "ends in the middle"));
    a.rc = ERR_IO;
    round_of(&a);
    assert_string_equal(fx_health(&a.w, "metrics.k8s.io")->error, "metrics.k8s.io: HTTP 503");
    a.rc = ERR_LIMIT;
    round_of(&a);
    assert_string_equal(fx_health(&a.w, "metrics.k8s.io")->error, "metrics.k8s.io: too many calls");
    assert_int_equal(fx_health(&a.w, "metrics.k8s.io")->n_failed, 3);
    a.rc = ERR_OK;
    a.body = LIST(POD("web-0", "1", "4e9", "0", "0"));
    round_of(&a);
    assert_near((double)fx_view(&a.w, 0).last[FIELD_CPU_UTIL], 0.5, 1e-6, 0);
    close_api(&a);
}

TEST(an_answer_that_comes_after_the_collector_is_gone_is_harmless)
{
    struct api a;
    open_api(&a);
    a.later = true;
    round_of(&a);
    assert_true(collect_running(a.w.c));
    close_api(&a);
    a.done(a.arg, ERR_OK, "{}", 2, NULL);
}
