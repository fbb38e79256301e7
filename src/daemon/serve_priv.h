/* serve_priv.h - shared by the parts of the endpoints.
 *
 *   serve.c          listeners, routes, authentication, trust of the API server
 *   serve_body.c     JSON bodies, answers and errors
 *   serve_read.c     health, metrics, targets
 *   serve_command.c  freeze, override and the other commands
 */
#ifndef DAEMON_SERVE_PRIV_H
#define DAEMON_SERVE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/json.h"
#include "daemon/external.h"
#include "daemon/serve.h"
#include "net/server.h"

enum { SERVE_REPLY_BYTES = SHARED_DOC_BYTES + (1 << 20), SERVE_NAMES = 16, SERVE_TEXTS = 9 };

struct serve_trusted {
    char name[SERVE_NAMES][AUTH_WHO];
    size_t n_names;
    char user_header[64]; /* "": the default */
};

struct serve {
    struct serve_opts o; /* its texts are in `text` */
    char *text[SERVE_TEXTS];
    size_t n_texts;
    struct auth *auth;
    struct server *people, *cluster;
    atomic_int n_pending; /* answers that wait for the main loop */
    char *ca_file;       /* of the cluster listener that runs */
    pthread_mutex_t trust_lock;
    struct serve_trusted trust; /* under trust_lock */
};

/* One request of a person. */
struct call {
    struct serve *s;
    const struct server_request *in;
    struct server_reply *out;
    enum auth_verdict verdict;
    char who[AUTH_WHO];
    const char *endpoint; /* the route's path */
    const char *item;     /* of a route with one: what follows its path */
};
typedef void call_handler(struct call *c);
call_handler serve_health, serve_ready, serve_metrics, serve_targets, serve_target, serve_freeze_state,
    serve_freeze, serve_unfreeze, serve_override, serve_breaker_reset, serve_release;

/* One more answer of this status, for the metrics. */
void serve_count(struct serve *s, const char *endpoint, int status);
/* {"error", "what_to_do"} with this status. */
void call_refuse(struct call *c, int status, const char *what_to_do, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* "replica" and an open object; the caller adds members and closes it. */
struct json_writer call_answer(struct call *c, int status);

/* A body of the given keys (NULL-terminated); an empty one is an object without members.  False: refused. */
struct body {
    struct json_doc *doc;
    const struct json *root;
};
bool body_open(struct call *c, const char *const *keys, struct body *b);
void body_close(struct body *b);
/* Each false after a refusal.  Absent: text "", has false. */
bool body_text(struct call *c, const struct body *b, const char *key, char *out, size_t size);
bool body_int(struct call *c, const struct body *b, const char *key, int64_t min, int64_t max,
              int64_t *out, bool *has);
bool body_flag(struct call *c, const struct body *b, const char *key, bool *out);
/* "author" of the body beside who called: "ann", "ann (by cert ops)", or the caller alone. */
bool body_author(struct call *c, const struct body *b, char out[SHARED_PERSON]);

#endif
