/* hist_fixture.h - imports in one line: options as "key=value", files as text. */
#ifndef TESTS_HIST_FIXTURE_H
#define TESTS_HIST_FIXTURE_H

#include "base/mem.h"
#include "base/opt.h"
#include "history/file.h"
#include "history/import.h"
#include "history/table.h"
#include "tests/support/test.h"

enum { FIXTURE_OPTIONS_MAX = 12 };

struct fixture {
    struct import_cfg cfg;
    struct history h;
    struct import_report report;
    struct err e;
};

/* options: NULL-terminated "key=value".  Leaves f ready for fixture_fini() whatever the result. */
static inline enum err_code fixture_import_paths(struct fixture *f, const char *format,
                                                 const char *const *options, char **paths, size_t n)
{
    memset(f, 0, sizeof *f);
    opt_init(&import_table, &f->cfg);
    for (; options && *options; options++)
        if (opt_set(&import_table, &f->cfg, *options, NULL, &f->e))
            fail_msg("option %s: %s", *options, f->e.msg);
    return import_run(format, &f->cfg, paths, n, &f->h, &f->report, &f->e);
}

static inline enum err_code fixture_import(struct fixture *f, const char *format,
                                           const char *const *options, const char *path)
{
    char *own = mem_strdup(path);
    enum err_code rc = fixture_import_paths(f, format, options, &own, 1);
    mem_free(own);
    return rc;
}

/* Imports text written to a file of the test folder. */
static inline enum err_code fixture_text(struct fixture *f, const char *format,
                                         const char *const *options, const char *text, size_t n)
{
    const char *path = test_path("%s/in.txt", test_tmp_dir());
    test_write_file(path, text, n);
    return fixture_import(f, format, options, path);
}

static inline void fixture_fini(struct fixture *f)
{
    history_close(&f->h);
    opt_fini(&import_table, &f->cfg);
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
