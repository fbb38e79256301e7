/* exporter_test.c - the tests' own exporter: what it serves can be read, and its service keeps its books. */
#include <math.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/http.h"
#include "prom/text.h"
#include "tests/exporter/exporter.h"
#include "tests/exporter/service.h"
#include "tests/support/test.h"

static int get(const struct exporter *x, const char *path, struct buf *out)
{
    struct http_client *c;
    struct http_server *s;
    struct http_reply reply;
    struct err e;
    const char *url = test_path("http://127.0.0.1:%u", exporter_port(x));
    assert_ok(http_client_new(&c, &e), &e);
    assert_ok(http_server_new(&(struct http_server_opts){.url = url}, &s, &e), &e);
    struct http_request r = {.method = HTTP_GET, .path = path};
    assert_ok(http_do(c, s, &r, &reply, &e), &e);
    int status = reply.status;
    *out = buf_init(1 << 22);
    buf_add(out, reply.body.p, reply.body.n);
    http_reply_fini(&reply);
    http_client_free(c);
    http_server_free(s);
    return status;
}

/* Value of the first sample of this name (and label value, unless NULL); NaN when there is none. */
static double value(const struct buf *page, const char *name, const char *label, const char *want)
{
    struct prom_text_reader *r = mem_zero(1, sizeof *r);
    struct prom_text_item *i = mem_zero(1, sizeof *i);
    struct err e;
    double v = NAN;
    prom_text_open(r, page->p, page->n, false);
    for (;;) {
        assert_ok(prom_text_next(r, i, &e), &e);
        if (i->kind == PROM_TEXT_END)
            break;
        if (i->kind == PROM_TEXT_SAMPLE && strcmp(i->name, name) == 0 &&
            (!label || strcmp(prom_text_label(i, label), want) == 0)) {
            v = i->value;
            break;
        }
    }
    mem_free(r);
    mem_free(i);
    return v;
}

TEST(an_exporter_serves_what_was_set)
{
    struct exporter *x;
    struct buf page;
    struct err e;
    assert_ok(exporter_start(0, &x, &e), &e);
    exporter_set(x, "b", "pod=\"web-0\"", 1.5);
    exporter_set(x, "a_total", "", 3);
    exporter_add(x, "a_total", "", 4);
    exporter_set_stamped(x, "c", "", 2, -60000);
    assert_int_equal(get(x, "/metrics", &page), 200);
    assert_near(value(&page, "a_total", NULL, NULL), 7, 0, 0);
    assert_near(value(&page, "b", "pod", "web-0"), 1.5, 0, 0);
    assert_non_null(strstr(page.p, "# TYPE a_total counter\n"));
    buf_fini(&page);
    exporter_remove(x, "b", NULL);
    exporter_fail(x, 503);
    assert_int_equal(get(x, "/metrics", &page), 503);
    buf_fini(&page);
    exporter_fail(x, 0);
    assert_int_equal(get(x, "/metrics", &page), 200);
    assert_true(isnan(value(&page, "b", NULL, NULL)));
    assert_int_equal(exporter_scrapes(x), 2);
    buf_fini(&page);
    assert_int_equal(get(x, "/other", &page), 404);
    buf_fini(&page);
    exporter_stop(x);
}

static void *count(void *arg)
{
    for (int i = 0; i < 1000; i++)
        exporter_add(arg, "n_total", "", 1);
    return NULL;
}

TEST(an_exporter_takes_values_from_any_thread)
{
    struct exporter *x;
    struct buf page;
    pthread_t t[4];
    struct err e;
    assert_ok(exporter_start(0, &x, &e), &e);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, count, x), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(get(x, "/metrics", &page), 200);
    assert_near(value(&page, "n_total", NULL, NULL), 4000, 0, 0);
    buf_fini(&page);
    exporter_stop(x);
}

/* A trace of three steps of 10 s: calm, twice what two units can do, calm. */
static struct service *make(struct history *h, double speed)
{
    static const float qps[] = {50, 200, 50};
    struct service_opts o = service_opts_default();
    *h = (struct history){.step_us = 10 * US_PER_S, .n = 3, .col[FIELD_QPS] = qps};
    o.load = h;
    o.speed = speed;
    return service_new(&o, 0);
}

static struct buf page_at(struct service *s, double t_s)
{
    struct buf b = buf_init(1 << 20);
    service_page(s, (int64_t)(t_s * 1e6), &b);
    return b;
}

TEST(a_service_counts_per_real_second_whatever_the_speed)
{
    static const double speeds[] = {1, 10};
    for (size_t i = 0; i < ARRAY_LEN(speeds); i++) {
        struct history h;
        struct service *s = make(&h, speeds[i]);
        struct buf page = page_at(s, 0.5);
        double a = value(&page, "http_requests_total", "pod", "web-0");
        buf_fini(&page);
        page = page_at(s, 0.9);
        double b = value(&page, "http_requests_total", "pod", "web-0");
        assert_near((b - a) / 0.4, 25, 1e-2, 0); /* 50 a second over two pods */
        assert_near(value(&page, "DCGM_FI_DEV_GPU_UTIL", "pod", "web-1"), 50, 0.1, 0);
        assert_near(value(&page, "http_request_duration_seconds_bucket", "le", "+Inf"), b, 1e-2, 0);
        buf_fini(&page);
        service_free(s);
    }
}

TEST(a_service_past_its_capacity_queues_and_slows_down_and_recovers)
{
    struct history h;
    struct service *s = make(&h, 1);
    double waiting = 0;
    struct buf page;
    for (int t = 1; t < 15; t++) {
        page = page_at(s, t);
        waiting = value(&page, "vllm:num_requests_waiting", "pod", "web-0");
        assert_true(t < 10 ? waiting == 0 : waiting > 0);
        buf_fini(&page);
    }
    assert_near(service_use(s), 1, 0, 0);
    assert_near(waiting, 250, 60, 0); /* 100 a second too many for 5 s, over two pods */
    service_units(s, 8, 8);
    for (int t = 15; t < 25; t++) {
        page = page_at(s, t);
        buf_fini(&page);
    }
    page = page_at(s, 25);
    assert_near(value(&page, "vllm:num_requests_waiting", "pod", "web-0"), 0, 1e-9, 0);
    assert_near(value(&page, "kube_deployment_status_replicas_ready", "deployment", "web"), 8, 0, 0);
    buf_fini(&page);
    service_free(s);
}

TEST(a_service_with_no_unit_ready_serves_nothing_and_queues)
{
    struct history h;
    struct service *s = make(&h, 1);
    service_units(s, 0, 2);
    struct buf page = page_at(s, 5);
    assert_true(isnan(value(&page, "http_requests_total", NULL, NULL)));
    assert_near(value(&page, "kube_deployment_status_replicas", "deployment", "web"), 2, 0, 0);
    buf_fini(&page);
    service_units(s, 1, 2);
    page = page_at(s, 6);
    assert_true(value(&page, "vllm:num_requests_waiting", "pod", "web-0") > 200);
    buf_fini(&page);
    service_free(s);
}

TEST(pods_keep_their_counters_when_others_come_and_go)
{
    static const char *const two[] = {"web-a", "web-b"}, *const other[] = {"web-c", "web-b"};
    struct history h;
    struct service *s = make(&h, 1);
    service_pods(s, two, 2, 2);
    struct buf page = page_at(s, 4);
    double b = value(&page, "http_requests_total", "pod", "web-b");
    buf_fini(&page);
    service_pods(s, other, 2, 2);
    page = page_at(s, 4); /* no time has passed */
    assert_near(value(&page, "http_requests_total", "pod", "web-b"), b, 1e-9, 0);
    assert_near(value(&page, "http_requests_total", "pod", "web-c"), 0, 1e-9, 0);
    assert_true(isnan(value(&page, "http_requests_total", "pod", "web-a")));
    buf_fini(&page);
    service_free(s);
}
