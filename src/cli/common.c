#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "report/table.h"

enum err_code cli_world_open(const struct cli_ctx *c, const char *path, struct cli_world *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    enum err_code rc = scenario_load(&out->scenario, path, c->sets, c->n_sets, e);
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

void cli_stage(void *ctx, const char *what, int done, int total)
{
    const struct cli_ctx *c = ctx;
    if (c->verbosity >= 0)
        (void)fprintf(stderr, "[%d/%d] %s\n", done < total ? done + 1 : total, total, what);
}
