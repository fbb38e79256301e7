#include "tests/support/test.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static char tmp_dir[256];

const char *test_data_dir(void)
{
    const char *dir = getenv("SLUICE_DATA");
    struct stat st;
    if (!dir || !*dir)
        dir = "../shared/data";
    if (stat(dir, &st) != 0)
        skip();
    return dir;
}

const char *test_program(void)
{
    static char path[600];
    const char *given = getenv("SLUICE_BIN");
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
    assert_true(n > 0);
    path[n] = '\0';
    for (int up = 0; up < 3; up++) /* build/<config>/tests/integration/run */
        *strrchr(path, '/') = '\0';
    (void)strcat(path, "/sluice");
    if (given && *given)
        (void)snprintf(path, sizeof path, "%s", given);
    if (access(path, X_OK) != 0)
        fail_msg("no program %s: build it with make, or name it in SLUICE_BIN", path);
    return path;
}

uint64_t test_seed(void)
{
    const char *s = getenv("TEST_SEED");
    return s && *s ? strtoull(s, NULL, 10) : 1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

static void remove_tmp_dir(void)
{
    (void)nftw(tmp_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_tmp_dir(void)
{
    if (!tmp_dir[0]) {
        const char *base = getenv("TMPDIR");
        (void)snprintf(tmp_dir, sizeof tmp_dir, "%s/sluice-test-XXXXXX", base ? base : "/tmp");
        ASSERT(mkdtemp(tmp_dir));
        (void)atexit(remove_tmp_dir);
    }
    return tmp_dir;
}

const char *test_path(const char *fmt, ...)
{
    static char ring[8][512];
    static unsigned next;
    char *out = ring[next++ % 8];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(out, sizeof ring[0], fmt, ap);
    va_end(ap);
    return out;
}

void test_write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        fail_msg("cannot create %s", path);
    size_t written = fwrite(bytes, 1, n, f);
    if (fclose(f) != 0 || written != n)
        fail_msg("cannot write %s", path);
}

void test_near(double a, double b, double abs_tol, double rel_tol, const char *what, const char *file,
               int line)
{
    if (isnan(a) && isnan(b))
        return;
    if (fabs(a - b) <= abs_tol + rel_tol * fabs(b))
        return;
    print_error("%s: %.17g against %.17g, allowed %.3g + %.3g relative\n", what, a, b, abs_tol, rel_tol);
    _fail(file, line);
}

void test_err(enum err_code got, enum err_code want, const struct err *e, const char *text,
              const char *file, int line)
{
    if (got != want) {
        print_error("returned \"%s\", expected \"%s\": %s\n", err_code_text(got), err_code_text(want),
                    got && e ? e->msg : "");
        _fail(file, line);
    }
    if (got && text && !strstr(e->msg, text)) {
        print_error("message \"%s\" lacks \"%s\"\n", e->msg, text);
        _fail(file, line);
    }
}
