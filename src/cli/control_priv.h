/* control_priv.h - commands to a running daemon: which replicas, how to ask them, what they said.
 *
 *   control.c       freeze, unfreeze, release, override
 *   control_call.c  replicas from --url, --all-replicas, -c and the environment; requests side by
 * side
 */
#ifndef CLI_CONTROL_PRIV_H
#define CLI_CONTROL_PRIV_H

#include "cli/commands.h"
#include "daemon/shared.h"

enum { CONTROL_REPLICAS_MAX = 64, CONTROL_URL = 512, CONTROL_TEXT = 640 };

/* Options of all four; those of `override` are at the end. */
struct control_opts {
    struct opt_strings urls;
    char *all_replicas;
    char *token_file, *ca_file, *cert_file, *key_file, *server_name;
    int64_t timeout_us;
    char *author, *reason;
    int64_t units; /* -1: not given */
    char *until;
    bool clear, reset_breaker;
};

/* What one replica said. */
struct control_answer {
    char url[CONTROL_URL];
    int status;                /* 0: it did not answer, `error` says why */
    char replica[SHARED_NAME]; /* "" when it did not say */
    char result[64];           /* "frozen", "done" ... */
    bool frozen, persisted;
    char text[CONTROL_TEXT]; /* state or message */
    char warning[CONTROL_TEXT], error[CONTROL_TEXT], what_to_do[CONTROL_TEXT]; /* "" for none */
};

struct control;
/* Errors: ERR_USAGE, ERR_IO (files, a name that does not resolve). */
NODISCARD enum err_code control_new(const struct cli_ctx *c, struct control **out, struct err *e);
void control_free(struct control *k);
size_t control_count(const struct control *k);
const struct control_answer *control_answer(const struct control *k, size_t i);
/* POST to one replica, or to all of them at once. */
void control_ask(struct control *k, size_t i, const char *path, const char *body);
void control_ask_all(struct control *k, const char *path, const char *body);
/* --author, or user@host. */
void control_author(const struct control_opts *o, char out[SHARED_PERSON]);

#endif
