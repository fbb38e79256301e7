/* The report in a real headless Chromium: tests/web/check_report.mjs looks for drawn marks.
 * Needs node, the locked packages of tests/web (npm ci --prefix tests/web) and Chromium ($CHROMIUM,
 * else /usr/bin/chromium).  Without them: skipped at a desk, failed where CI is set. */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/integration/report_fixture.h"
#include "tests/support/test.h"

extern char **environ;

static void need_browser(void)
{
    const char *chromium = getenv("CHROMIUM"), *ci = getenv("CI");
    chromium = chromium && *chromium ? chromium : "/usr/bin/chromium";
    const char *missing = access(chromium, X_OK) != 0 ? chromium
                          : access("tests/web/node_modules/playwright-core", F_OK) != 0
                              ? "tests/web/node_modules (run npm ci --prefix tests/web)"
                              : NULL;
    if (!missing)
        return;
    if (ci && *ci && strcmp(ci, "false") != 0)
        fail_msg("missing: %s", missing);
    print_message("skipped, missing: %s\n", missing);
    skip();
}

/* Exit code of the checker over a page.  Quiet: findings are expected, and one look on a desk will
 * do. */
static int check_page(const char *path, bool quiet)
{
    const char *const args[] = {"node",       "tests/web/check_report.mjs",
                                path,         quiet ? "--desk" : "table",
                                "plane",      "time",
                                "forecast",   "decisions",
                                "tree",       "learning",
                                "provenance", NULL};
    pid_t pid;
    int status;
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    if (quiet)
        assert_int_equal(posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0),
                         0);
    /* posix_spawnp takes char *const[] for history's sake and does not write to it. */
    assert_int_equal(
        posix_spawnp(&pid, "node", &actions, NULL, (char *const *)(uintptr_t)args, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void write_fixture(const char *path)
{
    struct err e;
    struct tz *zone;
    assert_ok(tz_load("America/New_York", &zone, &e), &e);
    static struct fixture f;
    fixture_init(&f, zone);
    assert_ok(report_html_write(&f.data, path, &e), &e);
    fixture_fini(&f);
    tz_free(zone);
}

TEST(report_is_drawn_readable_and_silent_in_a_real_browser)
{
    need_browser();
    const char *path = test_path("%s/report.html", test_tmp_dir());
    write_fixture(path);
    assert_int_equal(check_page(path, false), 0);
}

/* The checker itself must be able to fail: each damage leaves every element in place. */
TEST(browser_check_notices_damage_that_leaves_the_elements_in_place)
{
    need_browser();
    static const char *const damage[][2] = {
        {".pt{fill:var(--c)", ".pt{fill:none "},                    /* points without paint */
        {".layer .ln{stroke:var(--c)}", ".layer .ln{stroke:none}"}, /* lines without paint */
        {"<main>", "<main><img src=\"http://203.0.113.1/x.png\" alt=\"\">"}, /* a request */
        {"<main>", "<main><div style=\"width:900px;height:9px\"></div>"}, /* too wide for a phone */
    };
    const char *path = test_path("%s/report.html", test_tmp_dir());
    for (size_t i = 0; i < ARRAY_LEN(damage); i++) {
        struct err e;
        struct buf page, out = buf_init(2 * REPORT_BYTES_MAX);
        write_fixture(path);
        assert_ok(file_read(path, REPORT_BYTES_MAX, &page, &e), &e);
        const char *at = strstr(page.p, damage[i][0]);
        assert_non_null(at);
        buf_add(&out, page.p, (size_t)(at - page.p));
        buf_str(&out, damage[i][1]);
        buf_str(&out, at + strlen(damage[i][0]));
        assert_ok(file_write(path, out.p, out.n, &e), &e);
        buf_fini(&page);
        buf_fini(&out);
        assert_int_equal(check_page(path, true), 1);
    }
}
