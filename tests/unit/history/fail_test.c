/* fail_test.c - reading and writing a history while memory or the disk gives out, at every point in turn. */
#include <errno.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/support/fail.h"
#include "tests/unit/history/hist_fixture.h"

/* ---- imports --------------------------------------------------------------------------------- */

struct import {
    const char *format;
    struct import_cfg cfg;
    char *path;
};

static enum err_code import(void *ctx, struct err *e)
{
    const struct import *in = ctx;
    char *const paths[] = {in->path};
    struct import_report report;
    struct history h;
    enum err_code rc = import_run(in->format, &in->cfg, paths, 1, &h, &report, e);
    history_close(&h); /* whatever the result */
    return rc;
}

static void options(struct import *in, const char *const *option)
{
    struct err e;
    opt_init(&import_table, &in->cfg);
    for (; *option; option++)
        assert_ok(opt_set(&import_table, &in->cfg, *option, NULL, &e), &e);
}

/* `row` once for each of n times. */
static void write_rows(const char *path, const char *head, const char *row, int n, const char *tail)
{
    struct buf b = buf_init(1 << 20);
    buf_str(&b, head);
    for (int i = 0; i < n; i++)
        buf_fmt(&b, "%s%d%s", i && *tail == ']' ? "," : "", 57 * i, row);
    buf_str(&b, tail);
    test_write_file(path, b.p, b.n);
    buf_fini(&b);
}

static const char *genai_folder(void)
{
    const char *dir = test_path("%s/fail-genai", test_tmp_dir());
    struct err e;
    assert_ok(file_make_dirs(dir, &e), &e);
    write_rows(test_path("%s/qps.csv", dir), "timestamp_anon,value,container_ip\n", ",2,a\n", 300, "");
    write_rows(test_path("%s/pod_gpu_duty_cycle_anon.csv", dir), "timestamp_anon,value,container_ip\n", ",50,a\n", 300,
               "");
    write_rows(test_path("%s/pipeline_inference_data_anon.csv", dir), "timestamp_anon,value,container_ip\n",
               ",0.5,a\n", 300, "");
    return dir;
}

static const char *csv_file(void)
{
    const char *path = test_path("%s/fail-rows.csv", test_tmp_dir());
    write_rows(path, "t,\"v, quoted\"\n", ",3\n", 300, "");
    return path;
}

static const char *prometheus_file(void)
{
    const char *path = test_path("%s/fail-matrix.json", test_tmp_dir());
    struct buf b = buf_init(1 << 20);
    buf_str(&b, "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[");
    for (int pod = 0; pod < 20; pod++) {
        buf_fmt(&b, "%s{\"metric\":{\"pod\":\"p%d\"},\"values\":[", pod ? "," : "", pod);
        for (int i = 0; i < 40; i++)
            buf_fmt(&b, "%s[%d,\"%d\"]", i ? "," : "", 15 * i, i);
        buf_str(&b, "]}");
    }
    buf_str(&b, "]}}");
    test_write_file(path, b.p, b.n);
    buf_fini(&b);
    return path;
}

TEST(whichever_allocation_of_an_import_fails_it_is_told_and_nothing_stays)
{
    static const struct {
        const char *format;
        const char *option[3];
        const char *(*make)(void);
        long at_least;
    } rows[] = {
        {"csv", {"time=t", "qps=v, quoted"}, csv_file, 8},
        {"prometheus", {"qps=*", "combine=sum"}, prometheus_file, 25},
        {"genai", {"zero_gap=0s"}, genai_folder, 15},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct import in = {.format = rows[i].format, .path = mem_strdup(rows[i].make())};
        options(&in, rows[i].option);
        long n = fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, import, &in);
        if (n < rows[i].at_least)
            fail_msg("%s: %ld allocations", rows[i].format, n);
        assert_true(fail_sweep(FAIL_READ, EIO, ERR_IO, import, &in) >= 2);
        opt_fini(&import_table, &in.cfg);
        mem_free(in.path);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static void small_history(struct history *h)
{
    struct fixture f;
    struct err e;
    assert_ok(fixture_import(&f, "csv", OPTIONS("time=t", "qps=v, quoted"), csv_file()), &f.e);
    const char *path = test_path("%s/fail-small.hist", test_tmp_dir());
    assert_ok(history_write(path, &f.h, &f.report, &e), &e);
    fixture_fini(&f);
    assert_ok(history_open(path, h, NULL, &e), &e);
}

static enum err_code open_it(void *ctx, struct err *e)
{
    struct import_report report;
    struct history h;
    enum err_code rc = history_open(ctx, &h, &report, e);
    history_close(&h);
    return rc;
}

TEST(whichever_call_of_opening_a_history_fails_it_can_be_opened_after)
{
    char *path = mem_strdup(test_path("%s/fail-small.hist", test_tmp_dir()));
    struct history h;
    small_history(&h);
    history_close(&h);
    assert_int_equal(fail_sweep(FAIL_OPEN, EMFILE, ERR_IO, open_it, path), 1);
    (void)fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, open_it, path); /* it is mapped: maybe none */
    mem_free(path);
}

TEST(a_disk_that_fills_up_anywhere_leaves_the_old_history)
{
    static const struct {
        enum fail_kind kind;
        int code;
    } rows[] = {{FAIL_WRITE, ENOSPC}, {FAIL_SYNC, EIO}, {FAIL_RENAME, EIO}, {FAIL_ALLOC, 0}};
    const char *path = test_path("%s/turns.hist", test_tmp_dir());
    struct history h, back;
    struct stat before, after;
    struct err e;
    small_history(&h);
    assert_ok(history_write(path, &h, NULL, &e), &e);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int nth = 1;; nth++) {
            assert_int_equal(stat(path, &before), 0);
            fail_at(rows[i].kind, nth, rows[i].code);
            enum err_code rc = history_write(path, &h, NULL, &e);
            if (!fail_off())
                break;
            assert_err(rc, rows[i].kind == FAIL_ALLOC ? ERR_NOMEM : ERR_IO, &e, NULL);
            assert_int_equal(stat(path, &after), 0);
            if (!strstr(e.msg, "folder"))
                assert_int_equal(after.st_ino, before.st_ino);
            assert_ok(history_open(path, &back, NULL, &e), &e);
            assert_int_equal(back.data_hash, h.data_hash);
            history_close(&back);
        }
    history_close(&h);
}
