#include "daemon/morning.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/daily.h"

enum { KEEP_DAYS = 60, PATH = 1100, PAGE_BYTES = 16 << 20, SEEDS = 5 };

struct morning {
    struct morning_opts o;
    int32_t day;         /* reported last */
    bool running;        /* the thread is to be joined */
    atomic_bool done;
    pthread_t thread;
    int64_t until_us;
    char base[PATH];
};

static enum err_code write_one(const char *base, const char *ending, const struct buf *text, struct err *e)
{
    char path[PATH + 8];
    (void)snprintf(path, sizeof path, "%s%s", base, ending);
    enum err_code rc = buf_check(text, e);
    return rc ? rc : file_write(path, text->p, text->n, e);
}

static enum err_code write_all(const struct morning_opts *o, const struct daily_report *r, const char *base, struct err *e)
{
    struct buf text = buf_init(PAGE_BYTES);
    daily_format(r, CLI_TABLE, false, &text);
    enum err_code rc = write_one(base, ".txt", &text, e);
    buf_clear(&text);
    daily_format(r, CLI_JSON, false, &text);
    if (!rc)
        rc = write_one(base, ".json", &text, e);
    buf_clear(&text);
    daily_html(r, &text);
    if (!rc)
        rc = write_one(base, ".html", &text, e);
    buf_clear(&text);
    daily_summary(r, &text);
    if (!rc)
        log_write(o->log, LOG_INFO, "report", "daily report", "file=%s.html summary=\"%s\"", base, text.p);
    buf_fini(&text);
    return rc;
}

enum err_code morning_write(const struct morning_opts *o, int64_t until_us, const char *base, struct err *e)
{
    char *path = store_path_default(o->state_dir);
    struct store_opts where = store_opts_default(path);
    struct store *s = NULL;
    struct tz *zone = NULL;
    struct daily *d = NULL;
    where.read_only = true;
    enum err_code rc = store_open(&where, &s, e);
    mem_free(path);
    if (!rc)
        rc = tz_load(o->zone, &zone, e);
    struct daily_opts opts = {.since_us = until_us - US_PER_DAY, .until_us = until_us, .n_seeds = SEEDS, .zone = zone};
    if (!rc)
        rc = daily_new(s, &opts, &d, e);
    if (!rc)
        rc = write_all(o, daily_report_of(d), base, e);
    daily_free(d);
    tz_free(zone);
    store_close(s);
    return rc;
}

/* Names sort by day, so all before the oldest day kept can go. */
static void prune(const char *dir, int32_t day)
{
    int year, month, date;
    char oldest[16], path[PATH + 256];
    DIR *d = opendir(dir);
    const struct dirent *f;
    tz_date(day - KEEP_DAYS, &year, &month, &date);
    (void)snprintf(oldest, sizeof oldest, "%04d-%02d-%02d", year % 10000, month % 100, date % 100);
    while (d && (f = readdir(d)))
        if (f->d_name[0] != '.' && strcmp(f->d_name, oldest) < 0) {
            (void)snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
            (void)unlink(path);
        }
    if (d)
        (void)closedir(d);
}

static void *run(void *arg)
{
    struct morning *m = arg;
    struct err e = {0};
    enum err_code rc = morning_write(&m->o, m->until_us, m->base, &e);
    if (rc == ERR_MISSING) /* the first day of a replica */
        log_write(m->o.log, LOG_INFO, "report", "nothing to report yet", "why=\"%s\"", e.msg);
    else if (rc)
        log_write(m->o.log, LOG_WARN, "report", "no daily report", "error=\"%s\"", e.msg);
    atomic_store(&m->done, true);
    return NULL;
}

static void join(struct morning *m)
{
    if (m->running)
        (void)pthread_join(m->thread, NULL);
    m->running = false;
}

struct morning *morning_new(const struct morning_opts *o)
{
    struct morning *m = mem_zero(1, sizeof *m);
    m->o = *o;
    m->day = INT32_MIN;
    return m;
}

void morning_free(struct morning *m)
{
    if (!m)
        return;
    join(m);
    mem_free(m);
}

void morning_tick(struct morning *m, int32_t day, int minute, int64_t now_us)
{
    char dir[PATH - 32], page[PATH + 8];
    int year, month, date;
    struct err e;
    if (m->running && atomic_load(&m->done))
        join(m);
    if (m->running || day == m->day || minute < MORNING_MINUTE)
        return;
    m->day = day;
    (void)snprintf(dir, sizeof dir, "%s/reports", m->o.state_dir);
    tz_date(day, &year, &month, &date);
    (void)snprintf(m->base, sizeof m->base, "%s/%04d-%02d-%02d", dir, year % 10000, month % 100, date % 100);
    (void)snprintf(page, sizeof page, "%s.html", m->base);
    if (file_exists(page))
        return;
    if (file_make_dirs(dir, &e)) {
        log_write(m->o.log, LOG_WARN, "report", "no daily report", "error=\"%s\"", e.msg);
        return;
    }
    prune(dir, day);
    m->until_us = now_us;
    atomic_store(&m->done, false);
    m->running = pthread_create(&m->thread, NULL, run, m) == 0;
    if (!m->running)
        log_write(m->o.log, LOG_WARN, "report", "no daily report", "error=\"no thread can be started\"");
}
