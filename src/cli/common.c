#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "report/table.h"

enum { WIDTH = 100 };

enum err_code cli_world_open(const struct cli_ctx *c, const char *path, struct cli_world *out,
                             struct err *e)
{
    memset(out, 0, sizeof *out);
    enum err_code rc =
        scenario_load_over(&out->scenario, path, c->config, c->sets, c->n_sets, NULL, e);
    if (!rc)
        rc = world_new(&out->scenario, &out->world, e);
    if (!rc)
        rc = thread_pool_new(c->threads, &out->pool, e);
    if (rc)
        cli_world_close(out);
    return rc;
}

void cli_world_close(struct cli_world *w)
{
    thread_pool_free(w->pool);
    world_free(w->world);
    scenario_fini(&w->scenario);
    memset(w, 0, sizeof *w);
}

enum err_code cli_contender(const char *text, struct contender *out, struct err *e)
{
    if (!contender_parse(text, out, e))
        return ERR_OK;
    e->code = ERR_USAGE;
    return ERR_USAGE;
}

enum err_code cli_head(const char *path, unsigned char head[CLI_HEAD], size_t *n, struct err *e)
{
    struct stat st;
    *n = 0;
    if (stat(path, &st) != 0)
        return err_sys(e, errno, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_IO, "open %s: not a regular file", path);
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_sys(e, errno, "open %s", path);
    *n = fread(head, 1, CLI_HEAD, f);
    (void)fclose(f);
    return ERR_OK;
}

bool cli_colour(const struct cli_ctx *c)
{
    return !c->output && table_colour_wanted(stdout);
}

enum err_code cli_finish(const struct cli_ctx *c, struct buf *text, struct err *e)
{
    enum err_code rc = buf_check(text, e);
    if (!rc)
        rc = cli_output(c, text, e);
    buf_fini(text);
    return rc;
}

static void paragraph(const char *text, struct buf *out)
{
    size_t column = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ");
        bool turn = column && column + 1 + n > WIDTH;
        if (column)
            buf_char(out, turn ? '\n' : ' ');
        buf_add(out, p, n);
        column = turn || !column ? n : column + 1 + n;
        p += n + (p[n] == ' ');
    }
    buf_char(out, '\n');
}

void cli_summary(const struct evaluation *ev, struct buf *out)
{
    struct buf text = buf_init(1 << 16);
    evaluation_summary(ev, &text);
    paragraph(text.p, out);
    buf_fini(&text);
}

/* ---- progress ---------------------------------------------------------------------------------
 */

void cli_progress_init(struct cli_progress *p, const struct cli_ctx *c, const char *name,
                       int64_t total)
{
    memset(p, 0, sizeof *p);
    (void)pthread_mutex_init(&p->lock, NULL);
    p->p = progress_start(stderr, progress_mode_of(stderr, c->verbosity), name, "runs",
                          (uint64_t)total, 0);
}

void cli_progress_at(void *ctx, const char *what, int64_t done, int64_t total)
{
    struct cli_progress *p = ctx;
    (void)pthread_mutex_lock(&p->lock);
    bool new_stage = strcmp(p->what, what) != 0;
    (void)snprintf(p->what, sizeof p->what, "%s", what);
    p->p.total = (uint64_t)total;
    if (new_stage)
        p->done = done;
    p->done = done > p->done ? done : p->done; /* threads may report out of order */
    if (new_stage && p->p.mode == PROGRESS_PLAIN)
        (void)fprintf(stderr, "%s: %s\n", p->p.what, what);
    progress_update(&p->p, (uint64_t)p->done, p->what);
    (void)pthread_mutex_unlock(&p->lock);
}

void cli_progress_tick(void *ctx)
{
    struct cli_progress *p = ctx;
    (void)pthread_mutex_lock(&p->lock);
    p->done++;
    progress_update(&p->p, (uint64_t)p->done, NULL);
    (void)pthread_mutex_unlock(&p->lock);
}

void cli_progress_fini(struct cli_progress *p)
{
    if (p->p.mode == PROGRESS_TTY)
        (void)fputs("\r\033[K", stderr); /* the result follows: no trace is left of the line */
    (void)pthread_mutex_destroy(&p->lock);
}
