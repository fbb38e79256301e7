/* auth.h - who may call the daemon: a bearer token from a file, or a client certificate by name.
 *
 * The token is re-read when its file changes (a rotated Secret needs no restart).  A file that is gone, empty
 * or too short lets nobody in; one that cannot be read for want of descriptors or memory leaves the last good token in force,
 * so that trouble on the node does not lock out the person with the brake.  Tokens are compared in time
 * that does not depend on where they differ, and appear in no message.
 * A certificate counts when the server verified it and its common name is on the list.  Thread-safe. */
#ifndef DAEMON_AUTH_H
#define DAEMON_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "net/server.h"

enum { AUTH_TOKEN_LEAST = 16, AUTH_TOKEN_MOST = 4096, AUTH_WHO = 128 };

/* Texts are copied. */
struct auth_opts {
    const char *token_file;   /* NULL: no token is accepted */
    const char *const *names; /* common names accepted */
    size_t n_names;
};

struct auth;
/* Errors: ERR_IO, ERR_INVAL for a token that is too short or long. */
NODISCARD enum err_code auth_new(const struct auth_opts *o, struct auth **out, struct err *e);
void auth_free(struct auth *a); /* NULL is fine */

enum auth_verdict {
    AUTH_TOKEN,       /* let in; who is "token" */
    AUTH_CERTIFICATE, /* let in; who is the common name */
    AUTH_NOTHING,     /* neither token nor certificate was shown */
    AUTH_WRONG_TOKEN,
    AUTH_WRONG_NAME,
    AUTH_UNREADABLE,  /* a token was shown, ours cannot be read */
    AUTH_OFF,         /* nothing is configured that could let anyone in */
};
enum auth_verdict auth_check(struct auth *a, const struct server_request *in, char who[AUTH_WHO]);
bool auth_let_in(enum auth_verdict v);
/* What to tell the caller: "no bearer token was sent". */
const char *auth_words(enum auth_verdict v);

/* Makes a file with a fresh random token (mode 0600) unless there is one.  Errors: ERR_IO. */
NODISCARD enum err_code auth_token_create(const char *path, struct err *e);
/* The token in a file, without blanks around; for clients.  Errors as auth_new. */
NODISCARD enum err_code auth_token_read(const char *path, char out[AUTH_TOKEN_MOST + 1], struct err *e);
/* Equal, in time that depends on n_given only. */
bool auth_equal(const char *given, size_t n_given, const char *secret, size_t n_secret);

#endif
