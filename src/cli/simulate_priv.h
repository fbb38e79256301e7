/* simulate_priv.h - `sluice simulate`: over a scenario (simulate.c), and from a cluster
 * (simulate_live.c). */
#ifndef CLI_SIMULATE_PRIV_H
#define CLI_SIMULATE_PRIV_H

#include "cli/commands.h"
#include "report/table.h"
#include "train/run.h"

struct simulate_opts {
    struct opt_strings policies;
    bool test_only, records;
    bool from_cluster, allow_writable;
    char *target;
    int64_t since_us, ahead_us, wait_us, seeds;
};

/* One row per step: a look of a run. */
struct simulate_steps {
    struct table *t;
    const struct tz *zone;
};
struct table *simulate_steps_table(void);
void simulate_on_step(void *ctx, const struct run_look *l);

NODISCARD enum err_code simulate_from_cluster(struct cli_ctx *c, struct err *e);

#endif
