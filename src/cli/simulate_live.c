/* simulate_live.c - `sluice simulate --from-cluster`: the hours to come for a live target,
 * read-only. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/tz.h"
#include "cli/simulate_priv.h"
#include "daemon/from_cluster.h"
#include "report/table.h"

enum { POLICIES_MAX = 16 };

struct asked {
    const char *name[POLICIES_MAX];
    struct contender who[POLICIES_MAX];
    size_t n;
};

static void add(struct asked *a, const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->name[i], name) == 0)
            return;
    if (a->n < POLICIES_MAX)
        a->name[a->n++] = name;
}

static enum err_code parse_policies(const struct simulate_opts *o, struct asked *a, struct err *e)
{
    enum err_code rc = ERR_OK;
    if (o->policies.n > POLICIES_MAX)
        return err_set(e, ERR_USAGE, "more than %d policies", POLICIES_MAX);
    for (size_t i = 0; i < o->policies.n; i++)
        add(a, o->policies.items[i]);
    for (size_t i = 0; i < a->n && !rc; i++) {
        rc = cli_contender(a->name[i], &a->who[i], e);
        if (!rc && a->who[i].kind == CONTENDER_ORACLE)
            rc = err_set(e, ERR_USAGE, "--policy oracle is a row of `sluice evaluate`");
        a->who[i].guarded = true; /* as it would run there */
    }
    return rc;
}

static enum err_code usual_policies(const struct from_cluster *f, struct asked *a, struct err *e)
{
    enum err_code rc = ERR_OK;
    if (a->n)
        return ERR_OK;
    if (*f->policy)
        add(a, f->policy);
    add(a, "hpa");
    add(a, "predictive");
    add(a, "mpc");
    for (size_t i = 0; i < a->n && !rc; i++) {
        rc = cli_contender(a->name[i], &a->who[i], e);
        a->who[i].guarded = true;
    }
    return rc;
}

/* ---- tables -----------------------------------------------------------------------------------
 */

static struct table *policies_table(void)
{
    return table_new((struct table_column[]){{"policy", NULL, 0},
                                             {"cost_usd", "cost $", 2},
                                             {"unit_hours", "unit h", 1},
                                             {"slo_violation_frac", "misses", 4},
                                             {"p99_latency_ms", "p99 ms", 1},
                                             {"scale_actions", "actions", 1},
                                             {"reversals", NULL, 1}},
                     7);
}

static void row(struct table *t, const char *name, const struct run_day *sum, double seeds)
{
    char shown[24];
    table_text(t, name);
    table_num(t, sum->cost_usd / seeds);
    table_num(t, sum->unit_h / seeds);
    (void)snprintf(shown, sizeof shown, "%.2f %%", 100 * run_miss_frac(sum));
    table_num_text(t, run_miss_frac(sum), shown);
    table_num(t, sum->steps ? sum->p99_sum_ms / (double)sum->steps : (double)NAN);
    table_num(t, (double)sum->actions / seeds);
    table_num(t, (double)sum->reversals / seeds);
}

static enum err_code run_row(const struct cli_ctx *c, const struct from_cluster *f,
                             const char *name, const struct contender *who, struct table *t,
                             struct err *e)
{
    const struct simulate_opts *o = c->opts;
    struct run_day sum = {0}, one;
    enum err_code rc = ERR_OK;
    for (int i = 0; i < o->seeds && !rc; i++) {
        rc = from_cluster_run(f, who, c->seed + (uint64_t)i, NULL, NULL, &one, e);
        run_day_add(&sum, &one);
    }
    if (!rc)
        row(t, name, &sum, (double)o->seeds);
    return rc;
}

/* What is simulated, above the table; beside other formats on stderr. */
static void tell(const struct cli_ctx *c, const struct from_cluster *f, int64_t ahead_us,
                 struct buf *text)
{
    char head[700];
    (void)snprintf(
        head, sizeof head,
        "%.400s now: %d units asked for, %d ready, %d warming; the next %.1f h with the load of %s",
        f->name, f->units_asked, f->units_ready, f->units_warming, (double)ahead_us / 3600e6,
        f->replayed);
    if (c->format == CLI_TABLE)
        buf_fmt(text, "%s\n", head);
    else
        log_write(c->log, LOG_INFO, "simulate", "from the cluster", "what=\"%s\"", head);
}

static void tell_notes(const struct cli_ctx *c, const struct from_cluster *f, struct buf *text)
{
    for (char *at = f->notes.p; at && *at;) {
        int n = (int)strcspn(at, "\n");
        if (c->format == CLI_TABLE)
            buf_fmt(text, "note: %.*s\n", n, at);
        else
            log_write(c->log, LOG_INFO, "simulate", "about this", "note=\"%.*s\"", n, at);
        at += n + (at[n] == '\n');
    }
}

static void warn_writable(const struct cli_ctx *c, const struct from_cluster *f)
{
    const struct simulate_opts *o = c->opts;
    if (*f->writable && !o->allow_writable)
        log_write(
            c->log, LOG_WARN, "simulate",
            "these credentials could write; nothing is written, but a reading account is enough "
            "(--allow-writable-credentials silences this)",
            "may=\"%s\"", f->writable);
}

static enum err_code show(const struct cli_ctx *c, const struct from_cluster *f,
                          const struct asked *a, struct buf *text, struct err *e)
{
    const struct simulate_opts *o = c->opts;
    enum err_code rc = ERR_OK;
    if (o->records) {
        struct simulate_steps steps = {.t = simulate_steps_table(), .zone = f->world->zone};
        struct run_day total;
        rc = from_cluster_run(f, &a->who[0], c->seed, simulate_on_step, &steps, &total, e);
        if (!rc)
            table_format(steps.t, c->format, cli_colour(c), text);
        table_free(steps.t);
        return rc;
    }
    struct table *t = policies_table();
    rc = run_row(c, f, "size as it is", NULL, t, e);
    for (size_t i = 0; i < a->n && !rc; i++)
        rc = run_row(c, f, a->who[i].name, &a->who[i], t, e);
    if (!rc)
        table_format(t, c->format, cli_colour(c), text);
    table_free(t);
    return rc;
}

static enum err_code check(const struct cli_ctx *c, struct err *e)
{
    const struct simulate_opts *o = c->opts;
    if (c->n_args)
        return err_set(e, ERR_USAGE, "either SCENARIO or --from-cluster, not both");
    if (o->test_only)
        return err_set(e, ERR_USAGE,
                       "--test is a part of a scenario; --ahead says how long is simulated");
    if (o->records && o->policies.n != 1)
        return err_set(e, ERR_USAGE, "--steps shows one policy: name it with --policy");
    return ERR_OK;
}

enum err_code simulate_from_cluster(struct cli_ctx *c, struct err *e)
{
    const struct simulate_opts *o = c->opts;
    struct run_config config;
    struct from_cluster f = {0};
    struct asked a = {.n = 0};
    struct buf text = buf_init((size_t)1 << 30);
    enum err_code rc = check(c, e);
    if (!rc)
        rc = parse_policies(o, &a, e);
    if (rc)
        return rc;
    rc = run_config_load(&config, c->config, c->sets, c->n_sets, NULL, e);
    if (!rc) {
        struct from_cluster_opts fo = {.config = &config,
                                       .target = o->target,
                                       .since_us = o->since_us,
                                       .ahead_us = o->ahead_us,
                                       .wait_us = o->wait_us};
        rc = from_cluster_read(&fo, &f, e);
        warn_writable(c, &f);
    }
    if (!rc)
        rc = usual_policies(&f, &a, e);
    if (!rc && !o->records)
        tell(c, &f, o->ahead_us, &text);
    if (!rc)
        rc = show(c, &f, &a, &text, e);
    if (!rc && !o->records)
        tell_notes(c, &f, &text);
    from_cluster_fini(&f);
    run_config_fini(&config);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
}
