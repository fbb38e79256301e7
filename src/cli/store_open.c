/* store_open.c - finding and asking a store from the command line. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "daemon/config.h"
#include "history/time_text.h"

enum err_code cli_store_open(const char *path, struct store **out, struct err *e)
{
    char *usual = path ? NULL : store_path_default(NULL);
    struct store_opts o = store_opts_default(path ? path : usual);
    o.read_only = true;
    enum err_code rc = store_open(&o, out, e);
    mem_free(usual);
    return rc;
}

enum err_code cli_store_settings(const struct cli_ctx *c, const char *path, const char *timezone, struct store **out,
                                 struct tz **zone, struct err *e)
{
    bool settings = c->config || c->n_sets;
    struct run_config config;
    char *place = path ? mem_strdup(path) : NULL;
    char *name = timezone ? mem_strdup(timezone) : NULL;
    enum err_code rc = ERR_OK;
    *zone = NULL;
    if (settings) {
        rc = run_config_load(&config, c->config, c->sets, c->n_sets, NULL, e);
        if (!rc && !place)
            place = store_path_default(config.state_dir);
        if (!rc && !name)
            name = mem_strdup(config.timezone);
        run_config_fini(&config);
    }
    if (!rc)
        rc = cli_store_open(place, out, e);
    if (!rc && name)
        rc = tz_load(name, zone, e);
    mem_free(place);
    mem_free(name);
    return rc;
}

enum { NAMES_ENOUGH = 240 }; /* bytes of names after which the rest is counted */

struct wanted {
    const char *text;
    bool found;
    size_t n, left_out;
    struct buf names; /* "shop/chat, shop/web" */
};

static bool on_target(void *ctx, const struct store_target *t)
{
    struct wanted *w = ctx;
    char name[600];
    (void)snprintf(name, sizeof name, "%s/%s", t->namespace_, t->name);
    w->found = strcmp(w->text, name) == 0 || strcmp(w->text, t->name) == 0;
    if (w->names.n < NAMES_ENOUGH)
        buf_fmt(&w->names, "%s%s", w->n ? ", " : "", name);
    else
        w->left_out++;
    w->n++;
    return !w->found;
}

enum err_code cli_store_target(struct store *s, const char *target, struct err *e)
{
    struct wanted w = {.text = target, .names = buf_init(4096)};
    enum err_code rc = target ? store_targets(s, on_target, &w, e) : ERR_OK;
    if (!rc && target && !w.found && w.n == 0) {
        rc = err_set(e, ERR_MISSING, "no target %.80s: %s has no target at all yet", target, store_path(s));
    } else if (!rc && target && !w.found && !(rc = buf_check(&w.names, e))) {
        char more[48] = "";
        if (w.left_out)
            (void)snprintf(more, sizeof more, " and %zu more", w.left_out);
        utf8_make_plain(w.names.p);
        rc = err_set(e, ERR_MISSING, "no target %.80s; there are %s%s", target, w.names.p, more);
    }
    buf_fini(&w.names);
    return rc;
}

struct newest {
    int64_t time_us;
};

static bool on_newest(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)t;
    ((struct newest *)ctx)->time_us = d->time_us;
    return false;
}

static enum err_code newest_time(struct store *s, int64_t *t_us, struct err *e)
{
    const struct store_query q = {.newest_first = true, .limit = 1};
    struct newest n = {0};
    enum err_code rc = store_decisions(s, &q, on_newest, &n, e);
    *t_us = n.time_us;
    return rc;
}

enum err_code cli_store_time(struct store *s, const char *option, const char *text,
                             const struct tz *zone, int64_t *t_us, struct err *e)
{
    int64_t span;
    struct time_reader r;
    *t_us = 0;
    if (!text)
        return ERR_OK;
    if (!opt_parse_duration(text, &span, NULL)) {
        if (span <= 0)
            return err_set(e, ERR_USAGE, "--%s %.60s: not a span to look back", option, text);
        enum err_code rc = newest_time(s, t_us, e);
        *t_us -= *t_us ? span : 0;
        return rc;
    }
    time_reader_init(&r, TIME_AUTO, zone, false);
    enum time_result how = time_read(&r, text, strlen(text), t_us);
    if (how == TIME_BAD || how == TIME_OUT_OF_RANGE)
        return err_set(e, ERR_USAGE,
                       "--%s %.60s: expected a span before the newest decision, such as 24h, or a "
                       "time such as "
                       "2024-05-01T12:00",
                       option, text);
    return ERR_OK;
}

/* ---- the stores of several replicas ---------------------------------------------------------- */

enum err_code cli_stores_open(const struct opt_strings *paths, struct cli_stores *out, struct err *e)
{
    enum err_code rc = ERR_OK;
    out->n = 0;
    if (paths->n > CLI_STORES_MAX)
        return err_set(e, ERR_USAGE, "--store: %zu files, at most %d", paths->n, CLI_STORES_MAX);
    for (size_t i = 0; i < (paths->n ? paths->n : 1) && !rc; i++) {
        rc = cli_store_open(paths->n ? paths->items[i] : NULL, &out->s[i], e);
        out->n += !rc;
    }
    return rc;
}

void cli_stores_close(struct cli_stores *x)
{
    while (x->n > 0)
        store_close(x->s[--x->n]);
}

enum err_code cli_stores_times(const struct cli_stores *x, const char *since, const char *until,
                               const struct tz *zone, int64_t *since_us, int64_t *until_us, struct err *e)
{
    enum err_code rc = ERR_OK;
    *since_us = *until_us = 0;
    for (size_t i = 0; i < x->n && !rc; i++) {
        int64_t from = 0, to = 0;
        rc = cli_store_time(x->s[i], "since", since, zone, &from, e);
        if (!rc)
            rc = cli_store_time(x->s[i], "until", until, zone, &to, e);
        *since_us = from > *since_us ? from : *since_us;
        *until_us = to > *until_us ? to : *until_us;
    }
    return rc;
}
