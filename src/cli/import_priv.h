/* import_priv.h - what the two halves of `import` share. */
#ifndef CLI_IMPORT_PRIV_H
#define CLI_IMPORT_PRIV_H

#include "base/cli.h"
#include "history/import.h"

struct import_opts {
    struct import_cfg import;
    char *url;
    int64_t since_us;
    char *until, *target;
    struct opt_strings query, sources;
    int64_t window_us;
    char *token_file, *user, *password_file, *ca_file, *cert_file, *key_file;
    bool insecure;
    int64_t parallel, timeout_us;
};

/* Reads o->url and writes c->output; what was fetched stays in OUTPUT.part until that is done. */
NODISCARD enum err_code import_from_url(struct cli_ctx *c, struct history *h, struct import_report *report,
                                        struct err *e);

#endif
