/* run.c - `sluice run`: the daemon. */
#include "base/build.h"
#include "base/mem.h"
#include "base/signal.h"
#include "cli/commands.h"
#include "daemon/config.h"
#include "daemon/daemon.h"

struct run_cmd {
    char *replica, *stage;
};
static const struct opt_row rows[] = {
    OPT_STRING(struct run_cmd, replica, "replica", NULL,
               "identity of this replica in the lease and in records; else the host's name and a random part",
               .metavar = "NAME"),
    OPT_STRING(struct run_cmd, stage, "stage", NULL, "short for --set stage=STAGE", .metavar = "STAGE"),
};
static const struct opt_table table = OPT_TABLE("run", struct run_cmd, rows, "The daemon.");

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct run_cmd *o = c->opts;
    struct daemon *d;
    char **sets = mem_zero(c->n_sets + 1, sizeof *sets);
    struct buf stage = buf_init(256);
    size_t n = 0;
    for (; n < c->n_sets; n++)
        sets[n] = c->sets[n];
    if (o->stage) {
        buf_fmt(&stage, "stage=%s", o->stage);
        sets[n++] = stage.p;
    }
    struct log *log = log_new(stderr, log_level_of(c->verbosity + 1)); /* a daemon says what it does */
    struct daemon_opts opts = {.config_path = c->config, .sets = sets, .n_sets = n, .replica = o->replica,
                               .seed = c->seed, .log = log};
    enum err_code rc = daemon_new(&opts, &d, e);
    if (!rc) {
        rc = daemon_run(d, e);
        daemon_free(d);
    }
    log_free(log);
    buf_fini(&stage);
    mem_free(sets);
    return rc;
}

const struct cli_cmd cmd_run = {
    .name = "run",
    .summary = "decides and, as far as the stage allows, scales the targets of a cluster",
    .help = "Reads its settings from -c FILE (see `sluice config run`).  In the stage observe, the default, nothing is\n"
            "written to the cluster.  SIGHUP reads the settings again, SIGUSR1 freezes, SIGTERM stops in order.\n"
            "docs/try-live.md starts all it needs on one machine.",
    .opts = &table,
    .config = &run_config_table,
    .run = run,
};
