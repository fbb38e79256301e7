/* client_priv.h - inside kube/: timers, one HTTP exchange, and struct kube itself.
 *
 *   send.c      credentials, the read-only switch, one exchange and its counters
 *   client.c    calls: retries over exchanges; timers; polling
 *   status.c    Status objects and what they mean
 *   path.c      resources and paths
 *   discover.c  apiVersion and kind to resource; self-reviews */
#ifndef KUBE_CLIENT_PRIV_H
#define KUBE_CLIENT_PRIV_H

#include "base/rng.h"
#include "kube/client.h"
#include "kube/config_priv.h"

/* ---- timers ------------------------------------------------------------------------------ */

/* Lives in its owner; zeroed is "not set".  Fires once, from kube_tick. */
struct kube_timer {
    struct kube_timer *next, **link; /* link is NULL while not set */
    int64_t at_us;                   /* monotonic */
    void (*fire)(void *ctx);
    void *ctx;
};
void kube_timer_set(struct kube *k, struct kube_timer *t, int64_t delay_us, void (*fire)(void *ctx),
                    void *ctx);
void kube_timer_stop(struct kube_timer *t);

/* ---- exchanges --------------------------------------------------------------------------- */

/* One HTTP request of an account: what http_start takes, plus the verb. */
struct kube_exchange;
NODISCARD enum err_code kube_send(struct kube *k, enum kube_verb verb, const struct http_request *r,
                                  struct kube_exchange **out, struct err *e);
void kube_unsend(struct kube_exchange *x); /* done() with ERR_INTERRUPTED */
/* The server refuses the credentials: the plugin is asked again, and exchanges wait for it.  False when there
 * is none. */
bool kube_renew_credentials(struct kube *k);
/* The plugin runs, and until it ends nothing can be sent: kube_send() would be an error. */
bool kube_credentials_awaited(struct kube *k);
/* Jitter in [0, 1). */
double kube_random(struct kube *k);

/* An http_server together with the credentials it borrows; replaced when a plugin's credentials
 * expire, and freed when its last exchange is over. */
struct kube_server {
    struct http_server *http;
    struct kube_credential cred;
    struct http_server_opts opts;
    int n_users;
    bool retired;
};

struct kube_call_run;
struct kube_discovery;
struct kube {
    const struct kube_config *config;
    struct http_client *http;
    struct kube_opts o;
    struct kube_server *server;
    /* Credentials of a plugin are renewed while the loop goes on. */
    bool renew;                /* those at hand were refused */
    int64_t fresh_until_us;    /* monotonic: those at hand are too new to be doubted */
    int64_t plugin_again_us;   /* monotonic: not before then */
    struct kube_plugin *plugin; /* runs; NULL: none */
    struct err plugin_error;   /* of its last run */
    struct kube_timer plugin_timer;
    struct rng rng;
    struct kube_timer *timers;
    struct kube_call_run *calls;
    size_t n_calls;
    kube_id last_id;
    int n_callbacks; /* made by timers since the last kube_poll began */
    struct kube_discovery *discovery;
    struct kube_stats stats;
};
NODISCARD enum err_code kube_server_open(struct kube *k, struct err *e);
void kube_server_close(struct kube *k);
void kube_discovery_free(struct kube_discovery *d);

/* "GET /api/v1/pods" without the query, for messages. */
void kube_describe(struct buf *out, enum kube_verb verb, const char *path);
/* The error a status other than 2xx stands for. */
enum err_code kube_status_error(const struct kube_status *s, enum kube_verb verb, const char *path,
                                struct err *e);

/* A value of an answer into a new body; false when it is nested too deeply to be written. */
NODISCARD bool json_copy(struct json_writer *w, const char *key, const struct json *v);

#endif
