/* commands.h - the commands, one file each, and what they share. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "base/buf.h"
#include "base/cli.h"
#include "base/thread.h"
#include "train/world.h"

extern const struct cli_cmd cmd_demo, cmd_import, cmd_inspect, cmd_forecast, cmd_calibrate, cmd_simulate, cmd_tune,
    cmd_train, cmd_evaluate, cmd_explain, cmd_config;

enum { CLI_TEXT_MAX = 64 << 20 }; /* bytes of one command's output */

/* The first positional argument as a scenario made ready to run. */
struct cli_world {
    struct scenario scenario;
    struct world *world;
    struct thread_pool *pool;
};
NODISCARD enum err_code cli_world_open(const struct cli_ctx *c, const char *path, struct cli_world *out,
                                       struct err *e);
void cli_world_close(struct cli_world *w); /* safe on a zeroed one */

/* Whether tables on this output may carry colour. */
bool cli_colour(const struct cli_ctx *c);
/* Writes the buffer to -o or stdout and releases it. */
NODISCARD enum err_code cli_finish(const struct cli_ctx *c, struct buf *text, struct err *e);
/* Progress of evaluate: a line per stage unless -q.  ctx is the struct cli_ctx. */
void cli_stage(void *ctx, const char *what, int done, int total);

#endif
