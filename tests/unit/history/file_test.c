#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/rng.h"
#include "history/inspect.h"
#include "tests/unit/history/hist_fixture.h"

/* n samples of random fields with holes. */
static void random_history(struct rng *r, struct history *h)
{
    bool has[FIELD_COUNT] = {false};
    struct err e;
    has[rng_below(r, FIELD_COUNT)] = true;
    for (int f = 0; f < FIELD_COUNT; f++)
        has[f] |= rng_below(r, 2) == 0;
    int64_t n = 1 + rng_below(r, 300);
    int64_t start = ((int64_t)rng_below(r, 2000000000) - 500000000) * US_PER_S;
    assert_ok(history_new(start, 1 + rng_below(r, 90000000), n, has, h, &e), &e);
    for (int f = 0; f < FIELD_COUNT; f++)
        for (int64_t i = 0; has[f] && i < n; i++)
            if (rng_below(r, 10) > 0)
                history_col(h, (enum field)f)[i] = (float)rng_unit(r);
    for (int64_t i = 0; i < n; i++)
        history_barred(h)[i] = rng_below(r, 20) == 0;
    (void)snprintf(h->workload_id, sizeof h->workload_id, "w%u", rng_below(r, 1000));
    (void)snprintf(h->zone, sizeof h->zone, "Europe/Berlin");
    h->data_hash = history_hash(h);
}

static void assert_same(const struct history *a, const struct history *b)
{
    assert_string_equal(a->workload_id, b->workload_id);
    assert_string_equal(a->task_type, b->task_type);
    assert_string_equal(a->zone, b->zone);
    assert_int_equal(a->start_us, b->start_us);
    assert_int_equal(a->step_us, b->step_us);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->data_hash, b->data_hash);
    assert_memory_equal(a->barred, b->barred, (size_t)a->n);
    for (int f = 0; f < FIELD_COUNT; f++) {
        assert_int_equal(a->col[f] != NULL, b->col[f] != NULL);
        if (a->col[f]) {
            assert_memory_equal(a->col[f], b->col[f], (size_t)a->n * sizeof(float));
            assert_int_equal((uintptr_t)b->col[f] % 64, 0);
        }
    }
}

TEST(what_is_written_opens_the_same)
{
    struct rng r = rng_stream(test_seed(), "history-file");
    const char *path = test_path("%s/h.hist", test_tmp_dir());
    for (int i = 0; i < 200; i++) {
        struct history h, back;
        struct import_report rep, rep_back;
        struct err e;
        random_history(&r, &h);
        report_init(&rep);
        rep.rows = rng_next(&r);
        rep.native_step_us = h.step_us;
        rep.step_share = 0.75;
        report_add(&rep, TALLY_HUGE, "/x/y.csv", 17);
        report_note(&rep, "note %d", i);
        assert_ok(history_write(path, &h, &rep, &e), &e);
        assert_ok(history_open(path, &back, &rep_back, &e), &e);
        assert_same(&h, &back);
        assert_int_equal(rep.rows, rep_back.rows);
        assert_near(rep_back.step_share, 0.75, 1e-6, 0);
        assert_int_equal(rep_back.tally[TALLY_HUGE].line, 17);
        assert_string_equal(rep_back.tally[TALLY_HUGE].file, "y.csv");
        assert_string_equal(rep.notes, rep_back.notes);
        history_close(&h);
        history_close(&back);
    }
}

TEST(an_imported_history_opens_as_it_was_in_memory)
{
    static const char text[] = "time,qps,cpu_util\n0,1,0.5\n60,2,0.6\n120,,0.7\n600,1,0.9\n";
    const char *path = test_path("%s/i.hist", test_tmp_dir());
    struct fixture f;
    struct history back;
    struct import_report rep;
    assert_ok(fixture_text(&f, "csv", NULL, text, sizeof text - 1), &f.e);
    assert_ok(history_write(path, &f.h, &f.report, &f.e), &f.e);
    assert_ok(history_open(path, &back, &rep, &f.e), &f.e);
    assert_same(&f.h, &back);
    assert_memory_equal(rep.tally, f.report.tally, sizeof rep.tally);
    history_close(&back);
    fixture_fini(&f);
}

/* A small valid file in memory, 64-byte aligned. */
struct bytes {
    unsigned char *p;
    size_t n;
};

static struct bytes valid_file(void)
{
    const char *path = test_path("%s/v.hist", test_tmp_dir());
    struct rng r = rng_stream(7, "v");
    struct history h;
    struct import_report rep;
    struct err e;
    struct bytes b;
    report_init(&rep);
    report_add(&rep, TALLY_NAN, "a.csv", 3);
    report_note(&rep, "a note");
    random_history(&r, &h);
    assert_ok(history_write(path, &h, &rep, &e), &e);
    history_close(&h);
    FILE *f = fopen(path, "rb");
    struct stat st;
    assert_int_equal(fstat(fileno(f), &st), 0);
    b.n = (size_t)st.st_size;
    b.p = try_zero_aligned(b.n + 64, 1);
    assert_int_equal(fread(b.p, 1, b.n, f), b.n);
    (void)fclose(f);
    return b;
}

TEST(every_truncation_is_refused)
{
    struct bytes b = valid_file();
    for (size_t n = 0; n < b.n; n++) {
        struct history h;
        struct err e;
        assert_true(history_decode(b.p, n, &h, NULL, &e) != ERR_OK);
    }
    struct history h;
    struct err e;
    assert_err(history_decode(b.p, b.n + 1, &h, NULL, &e), ERR_PARSE, &e, "truncated or added to");
    mem_free(b.p);
}

TEST(every_flipped_bit_is_noticed)
{
    struct bytes b = valid_file();
    size_t silent = 0;
    for (size_t i = 0; i < b.n * 8; i++) {
        struct history h;
        struct err e;
        b.p[i / 8] ^= (unsigned char)(1u << (i % 8));
        silent += history_decode(b.p, b.n, &h, NULL, &e) == ERR_OK;
        b.p[i / 8] ^= (unsigned char)(1u << (i % 8));
    }
    /* Only the padding between columns (under 64 bytes each) carries nothing. */
    assert_true(silent < 8 * 64 * (FIELD_COUNT + 1));
    mem_free(b.p);
}

static void put32(unsigned char *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

/* Offsets of docs/history-file.md. */
enum {
    AT_VERSION = 8,
    AT_ORDER = 12,
    AT_HEADER_HASH = 24,
    AT_START = 32,
    AT_STEP = 40,
    AT_N = 48,
    AT_COLUMNS = 64,
    AT_WORKLOAD = 80,
    AT_DATA_OFFSET = 336,
    AT_TABLE = 384
};

static void fix_header_hash(struct bytes b)
{
    uint64_t data_offset;
    memcpy(&data_offset, b.p + AT_DATA_OFFSET, 8);
    uint64_t h = hash_of(b.p + AT_START, data_offset - AT_START);
    memcpy(b.p + AT_HEADER_HASH, &h, 8);
}

static void break_version(unsigned char *p)
{
    put32(p + AT_VERSION, 2);
}
static void break_order(unsigned char *p)
{
    put32(p + AT_ORDER, 0x04030201);
}
static void break_magic(unsigned char *p)
{
    p[1] = 'X';
}
static void break_text_mode(unsigned char *p)
{
    p[4] = '\n';
}
static void break_n(unsigned char *p)
{
    memset(p + AT_N, 0xff, 8);
}
static void break_n_columns(unsigned char *p)
{
    put32(p + AT_COLUMNS, 0xffffffff);
}
static void break_step(unsigned char *p)
{
    memset(p + AT_STEP, 0, 8);
}
static void break_start(unsigned char *p)
{
    memset(p + AT_START, 0x7f, 8);
}
static void break_name(unsigned char *p)
{
    memset(p + AT_WORKLOAD, 'a', WORKLOAD_ID_MAX);
}
static void break_field(unsigned char *p)
{
    memcpy(p + AT_TABLE, "qqs", 4);
}
static void break_offset(unsigned char *p)
{
    memset(p + AT_TABLE + 40, 0x40, 8);
}

TEST(damaged_headers_say_what_is_wrong)
{
    static const struct {
        void (*damage)(unsigned char *p);
        bool rehash;
        enum err_code code;
        const char *text;
    } cases[] = {
        {break_version, false, ERR_MISMATCH, "version 2, this program reads version 1"},
        {break_order, false, ERR_MISMATCH, "another byte order"},
        {break_magic, false, ERR_PARSE, "not a history file"},
        {break_text_mode, false, ERR_PARSE, "text mode"},
        {break_n, true, ERR_PARSE, "a count is out of range"},
        {break_n_columns, true, ERR_PARSE, "a count is out of range"},
        {break_step, true, ERR_PARSE, "times out of range"},
        {break_start, true, ERR_PARSE, "times out of range"},
        {break_name, true, ERR_PARSE, "a name is not terminated"},
        {break_field, true, ERR_MISMATCH, "unknown field"},
        {break_offset, true, ERR_PARSE, "named twice or out of place"},
        {break_start, false, ERR_PARSE, "checksum"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct bytes b = valid_file();
        struct history h;
        struct err e;
        print_message("           %s\n", cases[i].text);
        cases[i].damage(b.p);
        if (cases[i].rehash)
            fix_header_hash(b);
        assert_err(history_decode(b.p, b.n, &h, NULL, &e), cases[i].code, &e, cases[i].text);
        mem_free(b.p);
    }
}

TEST(values_no_field_can_have_are_not_written)
{
    static const float bad[] = {-1, 2, INFINITY, -INFINITY};
    const char *path = test_path("%s/w.hist", test_tmp_dir());
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bool has[FIELD_COUNT] = {[FIELD_CPU_UTIL] = true};
        struct history h;
        struct err e;
        assert_ok(history_new(0, US_PER_S, 3, has, &h, &e), &e);
        history_col(&h, FIELD_CPU_UTIL)[1] = bad[i];
        assert_err(history_write(path, &h, NULL, &e), ERR_RANGE, &e, "cpu_util: sample 1");
        history_close(&h);
    }
}

TEST(an_unwritable_place_and_a_full_disk_are_errors_and_leave_nothing)
{
    struct rng r = rng_stream(3, "full");
    struct history h;
    struct err e;
    random_history(&r, &h);
    assert_err(history_write("/no/such/folder/h.hist", &h, NULL, &e), ERR_IO, &e,
               "/no/such/folder");
    if (access("/dev/full", W_OK) == 0)
        assert_err(history_write("/dev/full", &h, NULL, &e), ERR_IO, &e, NULL);
    struct rlimit old, small;
    const char *path = test_path("%s/full.hist", test_tmp_dir());
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 64;
    void (*sig)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum err_code rc = history_write(path, &h, NULL, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, sig);
    assert_err(rc, ERR_IO, &e, NULL);
    assert_int_equal(access(path, F_OK), -1);
    history_close(&h);
}

TEST(other_files_are_not_histories)
{
    struct history h;
    struct err e;
    const char *path = test_path("%s/other", test_tmp_dir());
    test_write_file(path, "ts,v\n1,2\n", 9);
    assert_err(history_open(path, &h, NULL, &e), ERR_PARSE, &e,
               "not a history file (make one with");
    test_write_file(path, "", 0);
    assert_err(history_open(path, &h, NULL, &e), ERR_PARSE, &e, "the file is empty");
    assert_err(history_open("/no/such", &h, NULL, &e), ERR_IO, &e, "/no/such");
    assert_err(history_open(test_tmp_dir(), &h, NULL, &e), ERR_IO, &e, NULL);
}

TEST(ninety_days_of_every_field_fit_in_40_mb)
{
    bool has[FIELD_COUNT];
    struct history h;
    struct err e;
    struct stat st;
    const char *path = test_path("%s/big.hist", test_tmp_dir());
    memset(has, 1, sizeof has);
    assert_ok(history_new(0, 15 * US_PER_S, 518400, has, &h, &e), &e);
    assert_ok(history_write(path, &h, NULL, &e), &e);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 40 * 1000 * 1000);
    history_close(&h);
}

TEST(inspection_counts_runs_gaps_and_zeros)
{
    static const float x[] = {0, 0, 1, NAN, 2, 0, 0, 0, NAN, NAN, 3, NAN};
    bool has[FIELD_COUNT] = {[FIELD_QPS] = true};
    struct history h;
    struct inspect in;
    struct err e;
    assert_ok(history_new(0, US_PER_H, 12, has, &h, &e), &e);
    memcpy(history_col(&h, FIELD_QPS), x, sizeof x);
    assert_ok(history_inspect(&h, &in, &e), &e);
    const struct inspect_field *f = &in.field[FIELD_QPS];
    assert_int_equal(f->n, 8);
    assert_int_equal(f->missing, 4);
    assert_int_equal(f->gaps, 2);
    assert_int_equal(f->longest_gap, 2);
    assert_int_equal(f->zeros, 5);
    assert_int_equal(f->longest_zero_run, 3);
    assert_near(f->max, 3, 0, 0);
    assert_near(f->median, 0, 0, 0);
    assert_near(f->mean, 0.75, 1e-12, 0);
    assert_true(isnan(f->autocorr_day));
    assert_false(in.field[FIELD_CPU_UTIL].present);
    struct buf out = buf_init(1 << 16);
    struct json_writer w = json_writer_init(&out, 0);
    inspect_json(&in, &h, NULL, &w, NULL);
    assert_ok(buf_check(&out, &e), &e);
    assert_non_null(strstr(out.p, "\"longest_zero_run_steps\":3"));
    buf_clear(&out);
    inspect_text(&in, &h, NULL, &out);
    assert_non_null(strstr(out.p, "qps"));
    buf_fini(&out);
    history_close(&h);
}

TEST(a_daily_pattern_shows_in_the_autocorrelation)
{
    bool has[FIELD_COUNT] = {[FIELD_QPS] = true};
    struct history h;
    struct inspect in;
    struct err e;
    assert_ok(history_new(0, US_PER_H, 24 * 30, has, &h, &e), &e);
    for (int i = 0; i < 24 * 30; i++)
        history_col(&h, FIELD_QPS)[i] = (float)(10 + 5 * sin(2 * 3.14159265358979 * i / 24));
    history_col(&h, FIELD_QPS)[50] = NAN;
    assert_ok(history_inspect(&h, &in, &e), &e);
    assert_near(in.field[FIELD_QPS].autocorr_day, 29.0 / 30, 0.005, 0);
    assert_near(in.field[FIELD_QPS].autocorr_week, 23.0 / 30, 0.005, 0);
    history_close(&h);
}
