/* backfill_test.c - long ranges from a server that makes up every point, and the file that lets an import go on. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "collect/backfill.h"
#include "collect/part.h"
#include "history/table.h"
#include "net/server.h"
#include "tests/support/test.h"

#define STEP (15 * US_PER_S)

struct world {
    pthread_mutex_t lock;
    int asked, most_points; /* more points than this are "too many samples"; 0: any */
    int fail_at;            /* the so-manieth request is refused for good; 0: none */
    bool warn, native;
    const char *labels;     /* of the one series */

    struct server *backend;
    struct http_client *http;
    struct http_server *server;
    struct prom *prom;
    struct raw raw;
    struct import_cfg cfg;
    struct backfill_query query[2];
    struct backfill b;
    struct backfill_report report;
    int64_t stop_at, seen; /* points after which progress says stop */
    char part[512];
};

/* Value of a point: tells its time and its query. */
static double point(int64_t t_s, const char *query)
{
    return (double)(t_s % 100000) + (strstr(query, "second") ? 0.5 : 0);
}

static void write_points(struct world *w, const struct server_request *in, struct buf *out)
{
    int64_t start = strtoll(server_query(in, "start"), NULL, 10), end = strtoll(server_query(in, "end"), NULL, 10);
    int64_t step = strtoll(server_query(in, "step"), NULL, 10);
    buf_fmt(out, "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{%s},\"%s\":[",
            w->labels ? w->labels : "", w->native ? "histograms" : "values");
    for (int64_t t = start; t <= end && !w->native; t += step)
        buf_fmt(out, "%s[%lld,\"%g\"]", t > start ? "," : "", (long long)t, point(t, server_query(in, "query")));
    buf_fmt(out, "]}]}%s}", w->warn ? ",\"warnings\":[\"one store is down\"]" : "");
}

static void answer(void *ctx, const struct server_request *in, struct server_reply *out)
{
    struct world *w = ctx;
    int64_t points = (strtoll(server_query(in, "end"), NULL, 10) - strtoll(server_query(in, "start"), NULL, 10)) / 15 + 1;
    out->body = buf_init(8 << 20);
    (void)pthread_mutex_lock(&w->lock);
    w->asked++;
    if (w->fail_at && w->asked == w->fail_at) {
        out->status = 400;
        buf_str(&out->body, "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"no\"}");
    } else if (w->most_points && points > w->most_points) {
        out->status = 422;
        buf_str(&out->body, "{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"query processing would load too "
                            "many samples into memory in query execution\"}");
    } else {
        out->status = 200;
        write_points(w, in, &out->body);
    }
    (void)pthread_mutex_unlock(&w->lock);
}

static bool on_progress(void *ctx, int64_t done, int64_t all, int64_t samples)
{
    struct world *w = ctx;
    assert_true(done >= w->seen && done <= all);
    (void)samples;
    w->seen = done;
    return !w->stop_at || done < w->stop_at;
}

static void open_world(struct world *w, int64_t points)
{
    static int n;
    struct server_opts so = server_opts_default();
    struct prom_opts po = prom_opts_default();
    struct err e;
    memset(w, 0, sizeof *w);
    (void)pthread_mutex_init(&w->lock, NULL);
    so.handler = answer;
    so.ctx = w;
    assert_ok(server_start(&so, &w->backend, &e), &e);
    assert_ok(http_client_new(&w->http, &e), &e);
    const char *url = test_path("http://127.0.0.1:%u", server_port(w->backend));
    assert_ok(http_server_new(&(struct http_server_opts){.url = url}, &w->server, &e), &e);
    po.backoff_us = po.backoff_max_us = US_PER_MS;
    prom_new(w->http, w->server, &po, &w->prom);
    raw_init(&w->raw);
    opt_init(&import_table, &w->cfg);
    (void)snprintf(w->part, sizeof w->part, "%s/%d.part", test_tmp_dir(), n++);
    w->query[0] = (struct backfill_query){FIELD_QPS, "first", 1};
    w->query[1] = (struct backfill_query){FIELD_QUEUE_LEN, "second", 2};
    w->b = (struct backfill){.prom = w->prom, .http = w->http, .queries = w->query, .n_queries = 2, .step_us = STEP,
                             .parallel = 2, .part = w->part, .progress = on_progress, .ctx = w};
    w->b.start_us = prom_align(INT64_C(1700000000) * US_PER_S, STEP);
    w->b.end_us = w->b.start_us + (points - 1) * STEP;
}

static void close_world(struct world *w)
{
    raw_fini(&w->raw);
    opt_fini(&import_table, &w->cfg);
    prom_free(w->prom);
    http_server_free(w->server);
    http_client_free(w->http);
    server_stop(w->backend);
    (void)pthread_mutex_destroy(&w->lock);
}

static enum err_code run(struct world *w, struct err *e)
{
    raw_fini(&w->raw);
    raw_init(&w->raw);
    w->asked = 0;
    w->seen = 0;
    return backfill_run(&w->b, &w->cfg, &w->raw, &w->report, e);
}

/* Every point of the range once, in order, of both queries. */
static void check_all(const struct world *w)
{
    int64_t n = (w->b.end_us - w->b.start_us) / STEP + 1;
    assert_int_equal(w->raw.n_series, 2);
    assert_int_equal(w->report.samples, 2 * n);
    for (size_t k = 0; k < 2; k++) {
        const struct raw_series *s = &w->raw.series[k];
        assert_int_equal(s->n, n);
        assert_false(s->unsorted);
        for (int64_t i = 0; i < n; i++) {
            int64_t t = w->b.start_us + i * STEP;
            double want = point(t / US_PER_S, w->query[k].query) * w->query[k].scale;
            if (s->s[i].t_us != t || fabs(s->s[i].v - want) > 1)
                fail_msg("series %zu point %lld", k, (long long)i);
        }
    }
}

TEST(a_long_range_arrives_whole_and_in_order)
{
    struct world w;
    struct err e;
    open_world(&w, 25000);
    assert_ok(run(&w, &e), &e);
    check_all(&w);
    assert_true(w.asked >= 6 && w.asked <= 8);
    assert_int_equal(w.seen, 50000);
    assert_int_equal(w.report.points, 50000);
    assert_int_equal(w.report.points_kept, 0);
    close_world(&w);
}

TEST(an_interrupted_import_goes_on_where_it_was)
{
    struct world w;
    struct err e;
    open_world(&w, 45000);
    w.stop_at = 30000;
    assert_err(run(&w, &e), ERR_INTERRUPTED, &e, "interrupted");
    int asked = w.asked;
    w.stop_at = 0;
    assert_ok(run(&w, &e), &e);
    check_all(&w);
    assert_true(w.report.points_kept >= 30000);
    assert_true(w.asked <= 11 - asked + 3); /* two were under way */
    assert_ok(run(&w, &e), &e); /* all of it is there */
    check_all(&w);
    assert_int_equal(w.asked, 0);
    close_world(&w);
}

TEST(a_later_range_fetches_only_what_is_new)
{
    struct world w;
    struct err e;
    open_world(&w, 25000);
    assert_ok(run(&w, &e), &e);
    w.b.start_us += 100 * STEP; /* a day later, say */
    w.b.end_us += 100 * STEP;
    assert_ok(run(&w, &e), &e);
    check_all(&w);
    assert_int_equal(w.report.points_kept, 2 * 24900);
    assert_int_equal(w.asked, 2);
    w.b.start_us -= 200 * STEP; /* and further back */
    assert_ok(run(&w, &e), &e);
    check_all(&w);
    close_world(&w);
}

TEST(another_step_or_query_does_not_find_the_pieces_of_this_one)
{
    struct world w;
    struct err e;
    open_world(&w, 4000);
    assert_ok(run(&w, &e), &e);
    w.query[0].query = "first of another kind";
    assert_ok(run(&w, &e), &e);
    check_all(&w);
    assert_int_equal(w.report.points_kept, 4000);
    w.b.step_us = 2 * STEP;
    w.b.start_us = prom_align(w.b.start_us, w.b.step_us);
    w.b.end_us = prom_align(w.b.end_us, w.b.step_us);
    assert_ok(run(&w, &e), &e);
    assert_int_equal(w.report.points_kept, 0);
    close_world(&w);
}

TEST(a_span_too_heavy_for_the_server_is_halved)
{
    struct world w;
    struct err e;
    open_world(&w, 12000);
    w.most_points = 1500;
    assert_ok(run(&w, &e), &e);
    check_all(&w);
    assert_true(w.report.halved > 0);
    w.most_points = 40; /* less than what we stoop to */
    (void)unlink(w.part);
    assert_err(run(&w, &e), ERR_LIMIT, &e, "query of qps, 2023-11-1");
    close_world(&w);
}

TEST(a_refused_query_names_itself_and_the_span)
{
    struct world w;
    struct err e;
    open_world(&w, 25000);
    w.fail_at = 2;
    w.b.parallel = 1;
    assert_err(run(&w, &e), ERR_INVAL, &e, "query of qps, 2023-11-");
    assert_int_equal(w.report.failed, 0);
    assert_non_null(strstr(e.msg, "HTTP 400, bad_data: no"));
    assert_true(file_exists(w.part)); /* the first span is kept */
    close_world(&w);
}

TEST(a_partial_answer_is_used_once_and_asked_for_again)
{
    struct world w;
    struct err e;
    open_world(&w, 2000);
    w.warn = true;
    assert_ok(run(&w, &e), &e);
    check_all(&w);
    assert_int_equal(w.report.warnings, w.asked);
    assert_string_equal(w.report.warning, "one store is down");
    assert_false(file_exists(w.part)); /* nothing worth keeping: the file is gone */
    w.warn = false;
    assert_ok(run(&w, &e), &e);
    assert_true(w.asked >= 2);
    close_world(&w);
}

TEST(native_histograms_are_refused)
{
    struct world w;
    struct err e;
    open_world(&w, 100);
    w.native = true;
    assert_err(run(&w, &e), ERR_INVAL, &e, "native histograms");
    close_world(&w);
}

TEST(ranges_and_steps_that_are_none_are_refused)
{
    struct world w;
    struct err e;
    open_world(&w, 100);
    w.b.start_us++;
    assert_err(run(&w, &e), ERR_INVAL, &e, NULL);
    w.b.start_us = w.b.end_us + STEP;
    assert_err(run(&w, &e), ERR_INVAL, &e, NULL);
    w.b.start_us = w.b.end_us;
    w.b.n_queries = 0;
    assert_err(run(&w, &e), ERR_INVAL, &e, "0 queries");
    close_world(&w);
}

TEST(labels_tell_series_apart_and_a_single_rule_joins_them)
{
    struct world w;
    struct err e;
    open_world(&w, 100);
    w.labels = "\"pod\":\"web-0\",\"x\":\"\\\"\\\\\"";
    assert_ok(run(&w, &e), &e);
    assert_string_equal(w.raw.series[0].label, "{pod=\"web-0\",x=\"\"\\\"}");
    assert_int_equal(w.raw.n_series, 2);
    close_world(&w);
}

/* ---- the part file ------------------------------------------------------------------------------
 */

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

TEST(a_torn_or_damaged_tail_is_cut_off_and_fetched_again)
{
    static const int64_t cuts[] = {1, 9, 100, 5000};
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        struct world w;
        struct err e;
        open_world(&w, 6000);
        assert_ok(run(&w, &e), &e);
        assert_int_equal(truncate(w.part, size_of(w.part) - cuts[i]), 0);
        assert_ok(run(&w, &e), &e);
        check_all(&w);
        assert_true(w.asked == 1 && w.report.points_kept >= 6000);
        int fd = open(w.part, O_RDWR);
        char byte;
        assert_int_equal(pread(fd, &byte, 1, size_of(w.part) / 3), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, size_of(w.part) / 3), 1);
        (void)close(fd);
        assert_ok(run(&w, &e), &e); /* damage in the first record: it and what follows */
        check_all(&w);
        assert_true(w.asked >= 1);
        close_world(&w);
    }
}

TEST(what_is_not_a_part_file_is_left_alone)
{
    struct world w;
    struct err e;
    open_world(&w, 100);
    test_write_file(w.part, "my thesis", 9);
    assert_err(run(&w, &e), ERR_MISMATCH, &e, "move it away");
    assert_int_equal(size_of(w.part), 9);
    close_world(&w);
}

TEST(two_imports_cannot_share_a_part_file)
{
    struct world w;
    struct part *p;
    struct err e;
    open_world(&w, 100);
    assert_ok(part_open(w.part, &p, &e), &e);
    assert_err(run(&w, &e), ERR_IO, &e, "another import");
    part_close(p);
    assert_ok(run(&w, &e), &e);
    close_world(&w);
}

static enum err_code fill(void *ctx, struct raw *raw, struct err *e)
{
    struct world *w = ctx;
    return backfill_run(&w->b, &w->cfg, raw, &w->report, e);
}

TEST(a_range_becomes_a_clean_history)
{
    struct world w;
    struct history h;
    struct import_report *report = mem_zero(1, sizeof *report);
    struct err e;
    open_world(&w, 3000);
    w.cfg.step_us = STEP;
    assert_ok(import_live("prometheus", &w.cfg, "shop/web", fill, &w, &h, report, &e), &e);
    assert_int_equal(h.n, 3000);
    assert_int_equal(h.start_us, w.b.start_us);
    assert_int_equal(h.step_us, STEP);
    assert_string_equal(h.workload_id, "web");
    assert_near((double)h.col[FIELD_QPS][7], point(h.start_us / US_PER_S + 105, "first"), 1, 0);
    assert_int_equal(report->rows, 6000);
    history_close(&h);
    assert_ok(opt_set(&import_table, &w.cfg, "events=true", NULL, &e), &e);
    assert_err(import_live("prometheus", &w.cfg, "x", fill, &w, &h, report, &e), ERR_USAGE, &e, "events");
    mem_free(report);
    close_world(&w);
}
