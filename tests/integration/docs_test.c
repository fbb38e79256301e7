/* What the pages and the program's own texts point to exists. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/support/test.h"

enum { PAGE_MAX = 4 << 20, TARGET = 300 };

/* "](where)" of a page; links to elsewhere and to a heading of the same page are left out. */
static void check_links(const char *path)
{
    const char *slash = strrchr(path, '/');
    int n_dir = slash ? (int)(slash - path) + 1 : 0;
    struct buf text;
    struct err e;
    assert_ok(file_read(path, PAGE_MAX, &text, &e), &e);
    for (const char *at = text.p; (at = strstr(at, "](")); at++) {
        char target[TARGET];
        size_t n = strcspn(at + 2, ")#\n ");
        if (n == 0 || n >= sizeof target || strncmp(at + 2, "http", 4) == 0 || at[2 + n] == ' ' || at[2 + n] == '\n')
            continue;
        (void)snprintf(target, sizeof target, "%.*s", (int)n, at + 2);
        const char *place = test_path("%.*s%s", n_dir, path, target);
        if (access(place, F_OK) != 0)
            fail_msg("%s links to %s, which is not there", path, target);
    }
    buf_fini(&text);
}

/* "docs/NAME.md" anywhere in a file. */
static void check_pages(const char *path)
{
    struct buf text;
    struct err e;
    assert_ok(file_read(path, PAGE_MAX, &text, &e), &e);
    for (const char *at = text.p; (at = strstr(at, "docs/")); at++) {
        size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-_/");
        const char *page = test_path("%.*s.md", (int)n, at);
        if (strncmp(at + n, ".md", 3) == 0 && access(page, F_OK) != 0)
            fail_msg("%s names %s, which is not there", path, page);
    }
    buf_fini(&text);
}

static void each(const char *pattern, void (*check)(const char *path))
{
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i]);
    globfree(&found);
}

TEST(links_of_the_pages_lead_to_files_that_are_there)
{
    each("*.md", check_links);
    each("docs/*.md", check_links);
}

TEST(pages_that_the_program_and_the_manifests_name_are_there)
{
    static const char *const patterns[] = {"src/*/*.c", "docs/*.md", "docs/sluice.1", "*.md", "deploy/*/*.yaml", "deploy/*/*/*.yaml"};
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
        each(patterns[i], check_pages);
}
