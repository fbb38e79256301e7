/* import_live.c - `sluice import prometheus --url`: a running Prometheus to a history. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/signal.h"
#include "base/tz.h"
#include "cli/import_priv.h"
#include "collect/backfill.h"
#include "collect/queries.h"
#include "history/file.h"

enum { TEXT_CAP = 64 * 1024, PASSWORD_CAP = 4096 };
static const int64_t STEP_US = 15 * US_PER_S;

struct live {
    const struct import_opts *o;
    struct import_cfg cfg; /* o->import with the step settled */
    struct http_client *http;
    struct http_server *server;
    struct prom *prom;
    struct buf password;
    char namespace[256], name[256]; /* of --target */
    struct buf text[BACKFILL_QUERIES_MAX];
    struct backfill_query query[BACKFILL_QUERIES_MAX];
    struct backfill b;
    struct backfill_report fetched;
    struct progress progress;
    char *part;
};

/* What the command line got wrong is usage, whoever notices. */
static enum err_code usage(enum err_code rc, const char *option, struct err *e)
{
    if (rc == ERR_OK)
        return rc;
    (void)err_wrap(e, "%s", option);
    e->code = ERR_USAGE;
    return ERR_USAGE;
}

/* ---- what to ask --------------------------------------------------------------------------------
 */

static enum err_code split_target(struct live *l, struct err *e)
{
    const char *text = l->o->target, *slash = text ? strchr(text, '/') : NULL;
    if (!text)
        return ERR_OK;
    if (!slash || slash == text || !slash[1] || strchr(slash + 1, '/') ||
        (size_t)(slash - text) >= sizeof l->namespace || strlen(slash + 1) >= sizeof l->name)
        return err_set(e, ERR_USAGE, "--target \"%.80s\": expected NAMESPACE/NAME", text);
    (void)snprintf(l->namespace, sizeof l->namespace, "%.*s", (int)(slash - text), text);
    (void)snprintf(l->name, sizeof l->name, "%s", slash + 1);
    return ERR_OK;
}

static struct query_target target_of(const struct live *l)
{
    bool one = l->o->target != NULL;
    return (struct query_target){.namespace = one ? l->namespace : NULL,
                                 .name = one ? l->name : NULL,
                                 .kind = one ? "Deployment" : NULL};
}

static struct buf *next_text(struct live *l)
{
    struct buf *text = &l->text[l->b.n_queries];
    *text = buf_init(TEXT_CAP);
    return text;
}

static void add_query(struct live *l, enum field f, double scale)
{
    l->query[l->b.n_queries] =
        (struct backfill_query){.field = f, .query = l->text[l->b.n_queries].p, .scale = scale};
    l->b.n_queries++;
}

static enum err_code add_given(struct live *l, const char *given, bool has[FIELD_COUNT],
                               struct err *e)
{
    char name[32];
    const char *eq = strchr(given, '=');
    size_t n = eq ? (size_t)(eq - given) : sizeof name;
    (void)snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), given);
    int f = field_find(name);
    if (f < 0 || !eq[1])
        return err_set(e, ERR_USAGE,
                       "--query \"%.60s\": expected FIELD=PROMQL with a field such as qps", given);
    if (has[f])
        return err_set(e, ERR_USAGE, "--query: %s twice", name);
    struct query_target t = target_of(l);
    has[f] = true;
    enum err_code rc =
        usage(query_fill(eq + 1, &t, l->o->window_us, next_text(l), e), "--query", e);
    if (!rc)
        add_query(l, (enum field)f, 1);
    return rc;
}

static enum err_code add_builtin(struct live *l, const struct queries_cfg *cfg, enum field f,
                                 struct err *e)
{
    struct query_target t = target_of(l);
    struct buf *text = next_text(l);
    double scale = 1;
    enum err_code rc = query_for_target(cfg, f, &t, l->o->window_us, text, &scale, e);
    if (!rc && text->n)
        add_query(l, f, scale);
    else
        buf_fini(text);
    return rc;
}

static enum err_code make_queries(struct live *l, struct err *e)
{
    bool has[FIELD_COUNT] = {false};
    struct queries_cfg cfg;
    enum err_code rc = split_target(l, e);
    for (size_t i = 0; i < l->o->query.n && !rc; i++)
        rc = add_given(l, l->o->query.items[i], has, e);
    if (!rc && !l->o->target && l->b.n_queries == 0)
        rc =
            err_set(e, ERR_USAGE, "what to read? --target NAMESPACE/NAME, or --query FIELD=PROMQL");
    opt_init(&queries_table, &cfg);
    struct opt_strings none = cfg.sources;
    cfg.sources = l->o->sources;
    struct queries checked = {0};
    if (!rc)
        rc = usage(queries_make(&cfg, &checked, e), "--sources", e); /* their names */
    queries_free(&checked);
    for (int f = 0; f < FIELD_COUNT && !rc && l->o->target; f++)
        if (!has[f])
            rc = add_builtin(l, &cfg, (enum field)f, e);
    cfg.sources = none;
    opt_fini(&queries_table, &cfg);
    return rc;
}

static enum err_code make_range(struct live *l, struct err *e)
{
    int64_t until = clock_wall_us(), step = l->o->import.step_us ? l->o->import.step_us : STEP_US;
    enum err_code rc =
        l->o->until ? tz_parse_rfc3339(l->o->until, strlen(l->o->until), &until, e) : ERR_OK;
    if (rc)
        return usage(rc, "--until", e);
    if (step % US_PER_MS)
        return err_set(e, ERR_USAGE, "--step: Prometheus knows whole milliseconds");
    l->cfg = l->o->import;
    l->cfg.step_us = step;
    l->b.step_us = step;
    l->b.end_us = prom_align(until, step);
    l->b.start_us = prom_align(until - l->o->since_us, step);
    return ERR_OK;
}

/* ---- whom to ask --------------------------------------------------------------------------------
 */

static enum err_code read_password(struct live *l, struct err *e)
{
    enum err_code rc = file_read(l->o->password_file, PASSWORD_CAP, &l->password, e);
    if (!rc)
        l->password.p[strcspn(l->password.p, "\r\n")] = 0;
    return rc ? err_wrap(e, "--password-file") : ERR_OK;
}

static enum err_code connect_to(struct live *l, struct err *e)
{
    const struct import_opts *o = l->o;
    struct prom_opts po = prom_opts_default();
    enum err_code rc = o->password_file ? read_password(l, e) : ERR_OK;
    if (rc)
        return rc;
    struct http_server_opts so = {.url = o->url,
                                  .ca_file = o->ca_file,
                                  .cert_file = o->cert_file,
                                  .key_file = o->key_file,
                                  .insecure = o->insecure,
                                  .token_file = o->token_file,
                                  .user = o->user,
                                  .password = l->password.n ? l->password.p : NULL};
    po.timeout_us = o->timeout_us;
    po.seed = (uint64_t)clock_mono_us();
    rc = http_client_new(&l->http, e);
    if (!rc)
        rc = http_server_new(&so, &l->server, e);
    if (rc)
        return err_wrap(e, "--url");
    prom_new(l->http, l->server, &po, &l->prom);
    l->b.prom = l->prom;
    l->b.http = l->http;
    l->b.parallel = (int)o->parallel;
    return ERR_OK;
}

/* ---- reading ------------------------------------------------------------------------------------
 */

static bool on_progress(void *ctx, int64_t done, int64_t all, int64_t samples)
{
    struct live *l = ctx;
    char extra[64], count[PROGRESS_TEXT];
    progress_count_text((double)samples, count);
    (void)snprintf(extra, sizeof extra, "%s samples", count);
    l->progress.total = (uint64_t)all;
    progress_update(&l->progress, (uint64_t)done, extra);
    return !signal_stop();
}

static enum err_code fill(void *ctx, struct raw *raw, struct err *e)
{
    struct live *l = ctx;
    enum err_code rc = backfill_run(&l->b, &l->cfg, raw, &l->fetched, e);
    const struct backfill_report *f = &l->fetched;
    if (rc && f->failed >= 0) /* whole, since the server counts its characters */
        (void)fprintf(stderr, "the query of %s was:\n  %s\n", field_get(l->query[f->failed].field)->name,
                      l->query[f->failed].query);
    if (rc)
        return rc;
    report_note(&raw->report,
                "read from %s: %" PRIu64 " requests, %" PRIu64 " tried again, %" PRIu64 " halved",
                prom_url(l->prom), f->requests, f->retries, f->halved);
    if (f->points_kept)
        report_note(&raw->report, "%" PRId64 " of %" PRId64 " points had been fetched before",
                    f->points_kept, f->points);
    if (f->warnings)
        report_note(&raw->report, "the server warned %" PRIu64 " times, data may be partial: %s",
                    f->warnings, f->warning);
    if (f->samples == 0)
        return err_set(e, ERR_MISSING, "the server has no samples for these queries in this time: is the name right, --since long enough?");
    return ERR_OK;
}

static void close_live(struct live *l)
{
    prom_free(l->prom);
    http_server_free(l->server);
    http_client_free(l->http);
    for (int i = 0; i < BACKFILL_QUERIES_MAX; i++)
        buf_fini(&l->text[i]);
    buf_fini(&l->password);
    mem_free(l->part);
    mem_free(l);
}

static enum err_code prepare(struct cli_ctx *c, struct live *l, struct err *e)
{
    enum err_code rc = ERR_OK;
    if (strcmp(c->args[0], "prometheus") != 0)
        return err_set(e, ERR_USAGE, "--url goes with format prometheus");
    if (c->n_args > 1)
        return err_set(e, ERR_USAGE, "either --url or files (%.60s)", c->args[1]);
    rc = make_range(l, e);
    if (!rc)
        rc = make_queries(l, e);
    if (!rc)
        rc = file_check_writable(c->output, e);
    return rc ? rc : connect_to(l, e);
}

enum err_code import_from_url(struct cli_ctx *c, struct history *h, struct import_report *report,
                              struct err *e)
{
    struct live *l = mem_zero(1, sizeof *l);
    struct buf part = buf_init(1 << 16);
    l->o = c->opts;
    l->b.queries = l->query;
    l->b.progress = on_progress;
    l->b.ctx = l;
    buf_fmt(&part, "%s.part", c->output);
    l->part = buf_take(&part);
    l->b.part = l->part;
    enum err_code rc = prepare(c, l, e);
    if (!rc) {
        l->progress = progress_start(stderr, progress_mode_of(stderr, c->verbosity), "import",
                                     "points", 0, 0);
        rc = import_live("prometheus", &l->cfg, l->o->target ? l->name : "prometheus", fill, l, h,
                         report, e);
        if (!rc)
            progress_finish(&l->progress, (uint64_t)l->fetched.points, NULL);
        if (rc && l->fetched.samples == 0)
            (void)unlink(l->part); /* holds nothing */
        if ((rc == ERR_INTERRUPTED || rc == ERR_IO) && file_exists(l->part))
            (void)err_wrap(e, "started again, this goes on with what is in %s", l->part);
    }
    if (!rc)
        rc = history_write(c->output, h, report, e);
    if (!rc)
        (void)unlink(l->part);
    close_live(l);
    return rc;
}
