/* serve.h - the daemon's two listeners.
 *
 *   people    probes, metrics, the API that people and `sluice freeze` call.  Loopback unless told otherwise; beyond
 *             loopback only with TLS.  Everything but /healthz and /readyz (and /metrics if so configured) wants a token
 *             or a known client certificate.
 *   cluster   what the API server calls: external.metrics.k8s.io (external.h).  TLS always; callers prove to be the API
 *             server by a client certificate of the request-header CA.
 *
 *   GET  /healthz                     200 while the main loop moves, else 503; says in any case what else is wrong
 *   GET  /readyz                      200 when configured, synced and not stopping
 *   GET  /metrics                     Prometheus text
 *   GET  /api/v1/targets[/NS/NAME]    what the newest round knows of the targets
 *   GET  /api/v1/freeze               who froze, since when
 *   POST /api/v1/freeze|unfreeze      {"author", "reason"}, both optional; the body too
 *   POST /api/v1/override             {"namespace", "name", "units", "for" or "until", "reason"} or {..., "clear": true}
 *   POST /api/v1/breaker-reset        {"namespace", "name"}
 *   POST /api/v1/release              {} or {"namespace", "name"}
 *
 * Errors are {"error", "what_to_do"}.  Freezing touches neither the main loop nor the network.  The answers to other
 * commands wait at most 5 s for the main loop; no thread does, so nothing delays a freeze. */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "daemon/auth.h"
#include "daemon/freeze.h"
#include "daemon/metrics.h"
#include "daemon/shared.h"

/* All texts are copied. */
struct serve_opts {
    const char *replica;             /* this replica's identity, in answers */
    /* people */
    const char *address;             /* NULL: 127.0.0.1 */
    uint16_t port;                   /* 0: any free one */
    const char *cert_file, *key_file; /* both or none */
    const char *client_ca_file;      /* client certificates are verified against it */
    struct auth_opts auth;
    bool metrics_open;               /* /metrics without authentication */
    bool allow_plain;                /* no TLS beyond loopback all the same */
    /* cluster; served from serve_trust() on */
    bool cluster;
    const char *cluster_address;     /* NULL: 127.0.0.1 */
    uint16_t cluster_port;
    const char *cluster_cert_file, *cluster_key_file;
    /* caps, 0: default; for tests */
    int64_t idle_us;                 /* 10 s */
    int max_connections;             /* 128 */
    int64_t wait_us;                 /* 5 s */
    /* borrowed until serve_stop */
    struct shared *shared;
    struct freeze *freeze;
    struct metrics *metrics;
    struct log *log;
};

struct serve;
/* Errors: ERR_INVAL (not loopback and no TLS, half a key pair), ERR_IO (address in use, files). */
NODISCARD enum err_code serve_start(const struct serve_opts *o, struct serve **out, struct err *e);
void serve_stop(struct serve *s); /* call shared_stop() before, so that pending commands are answered; NULL is fine */

uint16_t serve_port(const struct serve *s);
uint16_t serve_cluster_port(const struct serve *s); /* 0 while it is not served */

/* Main thread.  Whom to take for the API server: names none means any name the CA vouches for.  user_header NULL:
 * X-Remote-User.  Starts the cluster listener the first time, takes a changed CA file and changed names from then on.
 * Errors: ERR_IO, ERR_LIMIT; what was in force stays. */
NODISCARD enum err_code serve_trust(struct serve *s, const char *ca_file, const char *const *names, size_t n_names,
                                    const char *user_header, struct err *e);
/* Certificates and trust of both listeners from their files again: after a rotation.  Errors: ERR_IO, ERR_PARSE; the
 * old ones stay. */
NODISCARD enum err_code serve_reload_tls(struct serve *s, struct err *e);

#endif
