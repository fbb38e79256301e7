/* cli_priv.h - the options every command takes, as a table like any other. */
#ifndef BASE_CLI_PRIV_H
#define BASE_CLI_PRIV_H

#include "base/cli.h"

struct cli_common {
    char *config;
    struct opt_strings sets;
    int64_t seed, threads;
    enum cli_format format;
    char *output;
    bool quiet, verbose, help; /* switches handled by the parser; here for help and completion */
};

extern const struct opt_table cli_common_table;

/* "--name NAME" with the letter, for a row. */
void cli_option_text(const struct opt_row *row, struct buf *out);
const char *cli_dashed(const char *name, char out[64]); /* "max_bad" -> "max-bad" */
const char *cli_metavar(const struct opt_row *row); /* "" for a switch */
const struct cli_cmd *cli_find(const struct cli_app *app, const char *name);

#endif
