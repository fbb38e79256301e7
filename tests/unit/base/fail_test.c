/* fail_test.c - calls of the system and of the allocator that fail in turn: files are whole or untouched, parsers say
 * what it was and leave nothing behind. */
#include "tests/support/fail.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/intern.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/stats.h"
#include "base/thread.h"
#include "base/yaml.h"
#include "tests/support/alloc_count.h"
#include "tests/support/test.h"

/* ---- writing --------------------------------------------------------------------------------- */

static const char old[] = "old", new[] = "what is new and longer";

static int names_in(const char *dir)
{
    int n = -2; /* . and .. */
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

static void assert_holds(const char *path, const char *want)
{
    struct buf b;
    struct err e;
    assert_ok(file_read(path, 1 << 20, &b, &e), &e);
    assert_string_equal(b.p, want);
    buf_fini(&b);
}

static const char *fresh_folder(const char *name)
{
    struct err e;
    const char *dir = test_path("%s/%s", test_tmp_dir(), name);
    assert_ok(file_make_dirs(dir, &e), &e);
    return dir;
}

TEST(whichever_call_of_a_write_fails_it_says_so_and_the_file_is_the_old_or_the_new_one_whole)
{
    static const struct {
        enum fail_kind kind;
        int code, at_least; /* calls of the kind */
        const char *text;
    } rows[] = {
        {FAIL_OPEN, EMFILE, 1, "Too many open files"},  {FAIL_WRITE, ENOSPC, 1, "No space left"},
        {FAIL_WRITE, EIO, 1, "Input/output error"},     {FAIL_SYNC, EIO, 2, "Input/output error"},
        {FAIL_SYNC, ENOSPC, 2, "No space left"},        {FAIL_LINK, EDQUOT, 0, "quota exceeded"},
        {FAIL_RENAME, ENOSPC, 1, "No space left"},      {FAIL_CLOSE, EIO, 1, "Input/output error"},
    };
    const char *dir = fresh_folder("turns"), *path = test_path("%s/a", dir);
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int nth = 1;; nth++) {
            assert_ok(file_write(path, old, strlen(old), &e), &e);
            fail_at(rows[i].kind, nth, rows[i].code);
            enum err_code rc = file_write(path, new, strlen(new), &e);
            if (!fail_off()) {
                assert_ok(rc, &e);
                assert_true(nth > rows[i].at_least);
                assert_holds(path, new);
                break;
            }
            assert_int_equal(names_in(dir), 1);
            if (!rc) { /* did without: a named temporary, a folder's descriptor that closes badly */
                assert_true(rows[i].kind == FAIL_OPEN || rows[i].kind == FAIL_CLOSE);
                assert_holds(path, new);
                continue;
            }
            assert_err(rc, ERR_IO, &e, rows[i].text);
            assert_err(rc, ERR_IO, &e, path);
            assert_int_equal(e.sys, rows[i].code);
            bool renamed = strstr(e.msg, "folder"); /* only its name is not known to be safe */
            assert_holds(path, renamed ? new : old);
        }
}

TEST(interrupted_calls_of_a_byte_each_read_and_write_the_whole)
{
    const char *path = test_path("%s/small", fresh_folder("small"));
    struct buf b;
    struct err e;
    fail_in_small_parts();
    enum err_code written = file_write(path, new, strlen(new), &e);
    enum err_code read = written ? written : file_read(path, 100, &b, &e);
    (void)fail_off();
    assert_ok(read, &e);
    assert_string_equal(b.p, new);
    buf_fini(&b);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Lines of a file, the longest over a window of the reader. */
static enum err_code read_lines(void *ctx, struct err *e)
{
    struct file_reader *r;
    const char *line = "";
    size_t n;
    enum err_code rc = file_reader_open(ctx, 1 << 24, &r, e);
    while (!rc && line)
        rc = file_reader_line(r, &line, &n, e);
    file_reader_close(rc && !r ? NULL : r);
    return rc;
}

static char *long_lines(void)
{
    size_t n = 3 * FILE_CHUNK;
    char *path = mem_strdup(test_path("%s/lines", test_tmp_dir())), *text = mem_zero(n, 1);
    memset(text, 'x', n);
    text[5] = text[n - 10] = '\n';
    test_write_file(path, text, n);
    mem_free(text);
    return path;
}

TEST(whichever_call_of_reading_fails_the_error_names_the_file)
{
    char *path = long_lines();
    struct err e;
    assert_true(fail_sweep(FAIL_READ, EIO, ERR_IO, read_lines, path) >= 3);
    assert_int_equal(fail_sweep(FAIL_OPEN, EMFILE, ERR_IO, read_lines, path), 1);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, read_lines, path) >= 1);
    fail_at(FAIL_READ, 2, EIO);
    enum err_code rc = read_lines(path, &e);
    assert_true(fail_off());
    assert_err(rc, ERR_IO, &e, path);
    mem_free(path);
}

static enum err_code read_whole(void *ctx, struct err *e)
{
    struct buf b;
    enum err_code rc = file_read(ctx, 1 << 24, &b, e);
    buf_fini(&b);
    return rc;
}

/* ---- parsers and tables ---------------------------------------------------------------------- */

#define DEEP "{\"a\":[1,2.5e3,\"text\\u00e9\",{\"b\":null,\"c\":[[],{}]}],\"d\":{\"e\":true,\"f\":\"g\"}}"

static enum err_code parse_json(void *ctx, struct err *e)
{
    struct json_doc *doc;
    (void)ctx;
    enum err_code rc = json_parse(DEEP, strlen(DEEP), 1 << 20, "deep.json", &doc, e);
    json_free(doc);
    return rc;
}

static enum err_code parse_yaml(void *ctx, struct err *e)
{
    static const char text[] = "a: [1, two, {b: c}]\nd:\n  e: |\n    long\n    text\n  'f': \"g\"\n";
    struct yaml_doc *doc;
    (void)ctx;
    enum err_code rc = yaml_parse(text, strlen(text), "t.yaml", &doc, e);
    yaml_free(doc);
    return rc;
}

/* More names than the table has room for at first. */
static enum err_code intern_many(void *ctx, struct err *e)
{
    struct intern *in = intern_new(1000);
    enum err_code rc = ERR_OK;
    (void)ctx;
    for (int i = 0; i < 200 && !rc; i++) {
        char name[16];
        uint32_t id;
        size_t n = (size_t)snprintf(name, sizeof name, "n%d", i);
        rc = intern_id(in, name, n, &id, e);
        if (rc) { /* usable all the same */
            assert_int_equal(intern_count(in), i);
            assert_int_equal(intern_id(in, name, n, &id, NULL), ERR_OK);
            assert_int_equal(id, i);
            assert_string_equal(intern_name(in, id), name);
        }
    }
    intern_free(in);
    return rc;
}

static enum err_code bootstrap(void *ctx, struct err *e)
{
    static const double a[] = {1, 2, 4, 3}, b[] = {2, 2, 1, 0};
    struct rng rng = rng_stream(1, "boot");
    struct stats_interval out;
    (void)ctx;
    return stats_bootstrap_paired(a, b, ARRAY_LEN(a), 1, 100, 0.95, &rng, &out, e);
}

static enum err_code pool(void *ctx, struct err *e)
{
    struct thread_pool *p = NULL;
    (void)ctx;
    enum err_code rc = thread_pool_new(2, &p, e);
    thread_pool_free(p);
    return rc;
}

static enum err_code fill_buf(void *ctx, struct err *e)
{
    struct buf b = buf_init(1 << 20);
    (void)ctx;
    for (int i = 0; i < 5000; i++)
        buf_fmt(&b, "%d ", i);
    enum err_code rc = buf_check(&b, e);
    if (rc) {
        buf_clear(&b);
        buf_str(&b, "again");
        assert_int_equal(buf_check(&b, NULL), ERR_OK);
        assert_string_equal(b.p, "again");
    }
    buf_fini(&b);
    return rc;
}

TEST(whichever_allocation_fails_it_is_told_as_such_and_nothing_stays)
{
    static const struct {
        const char *name;
        enum err_code (*run)(void *ctx, struct err *e);
        long at_least;
    } rows[] = {
        {"json", parse_json, 3}, {"yaml", parse_yaml, 15}, {"intern", intern_many, 200},
        {"bootstrap", bootstrap, 2}, {"pool", pool, 2}, {"buf", fill_buf, 3},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        long n = fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, rows[i].run, NULL);
        if (n < rows[i].at_least)
            fail_msg("%s: %ld allocations", rows[i].name, n);
    }
}

TEST(a_small_buffer_needs_no_check_for_memory)
{
    struct buf b = buf_init(1 << 20);
    fail_at(FAIL_ALLOC, 1, 0);
    buf_pad(&b, 'x', BUF_SMALL - 1);
    assert_false(b.failed);
    buf_char(&b, 'y');
    assert_true(fail_off());
    assert_true(b.failed && b.no_memory);
    assert_int_equal(b.n, BUF_SMALL - 1);
    buf_fini(&b);
}

/* Under sanitizers these calls cannot be told from ours. */
TEST(a_library_that_runs_out_of_memory_is_not_taken_for_input_that_is_wrong)
{
    if (!ALLOC_COUNTED)
        skip();
    char *path = mem_strdup(test_path("%s/lines.gz", test_tmp_dir()));
    gzFile gz = gzopen(path, "wb");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, DEEP, sizeof DEEP), sizeof DEEP);
    assert_int_equal(gzclose(gz), Z_OK);
    assert_true(fail_sweep(FAIL_LIBRARY, 0, ERR_NOMEM, parse_json, NULL) > 20);
    assert_true(fail_sweep(FAIL_LIBRARY, 0, ERR_NOMEM, read_whole, path) >= 1);
    mem_free(path);
}
