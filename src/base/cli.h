/* cli.h - commands as rows: parsing, help, man page and shell completion from the same tables.
 *
 * A command has a name, a summary, positional arguments, an option table (opt.h: BOOL rows are
 * switches with a --no- form, list rows may be repeated) and a run function.  Every command also takes
 *   -c FILE  --set key=value (repeatable)  --seed N  --threads N  --format table|json|csv  -o FILE
 *   -q  -v  --help
 * In option names '-' and '_' are the same; texts show '-'.
 * Exit codes: 0 done, 1 failed (stderr says what, where and what to do), 2 usage. */
#ifndef BASE_CLI_H
#define BASE_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"

enum cli_format { CLI_TABLE, CLI_JSON, CLI_CSV };

struct cli_common;

struct cli_ctx {
    const struct cli_app *app;
    const struct cli_cmd *cmd;
    const char *config;   /* -c, or NULL */
    char **sets;          /* --set, in order */
    size_t n_sets;
    uint64_t seed;        /* --seed, default 1 */
    bool seed_given;
    int threads;          /* --threads, default the number of CPUs */
    enum cli_format format;
    bool format_given;
    const char *output;   /* -o, or NULL */
    int verbosity;        /* -q is -1 each, -v is +1 each */
    struct log *log;
    char **args;          /* positional */
    size_t n_args;
    void *opts;           /* the command's struct, filled from its table; NULL without one */
    struct cli_common *common; /* owner of config, sets and output */
};

struct cli_cmd {
    const char *name;
    const char *summary;  /* one line, no full stop */
    const char *args;     /* "SCENARIO", "FORMAT PATH..."; NULL for none */
    size_t min_args, max_args;
    const char *help;     /* more text, or NULL */
    const struct opt_table *opts;   /* command line options, or NULL */
    const struct opt_table *config; /* what -c and --set speak about; NULL: the command refuses both */
    unsigned formats; /* 1u << CLI_TABLE | ...: what --format may be; 0: anything */
    enum err_code (*run)(struct cli_ctx *c, struct err *e);
    bool hidden;          /* left out of help and completion */
};

struct cli_app {
    const char *name, *version, *summary;
    const struct cli_cmd *cmds;
    size_t n_cmds;
    const char *settings; /* the command that lists the keys of -c and --set; NULL: man */
};

/* The whole program: parses, runs, prints the error, returns the exit code.  Knows `help`, `version`,
 * `completion bash|zsh` and `man` by itself. */
int cli_main(const struct cli_app *app, int argc, char **argv);
/* The parser alone.  Errors: ERR_USAGE.  `c` is released by cli_fini() whatever the result. */
NODISCARD enum err_code cli_parse(const struct cli_app *app, const struct cli_cmd *cmd, int argc,
                                  char **argv, struct cli_ctx *c, bool *want_help, struct err *e);
void cli_fini(struct cli_ctx *c);

void cli_write_help(const struct cli_app *app, struct buf *out);
void cli_write_cmd_help(const struct cli_app *app, const struct cli_cmd *cmd, struct buf *out);
void cli_write_man(const struct cli_app *app, struct buf *out);
void cli_write_completion_bash(const struct cli_app *app, struct buf *out);
void cli_write_completion_zsh(const struct cli_app *app, struct buf *out);

/* Result text to -o (atomically) or stdout. */
NODISCARD enum err_code cli_output(const struct cli_ctx *c, const struct buf *text, struct err *e);

#endif
