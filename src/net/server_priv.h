/* server_priv.h - shared by the parts of the server.
 *
 *   server.c          start, stop, the callbacks libmicrohttpd makes for one request
 *   server_conn.c     the table of connections and the watchdog thread that times and wakes them
 *   server_request.c  request target: path and query, decoded under caps
 *   server_tls.c      certificate, trust and the check of client certificates
 *
 * Locks: `lock` guards the connection table and everything marked below.  It is taken last: neither
 * handlers nor pull functions are called under it. */
#ifndef NET_SERVER_PRIV_H
#define NET_SERVER_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>

#include "net/server.h"

enum {
    SERVER_QUERY_MAX = 128, /* parameters of one request */
    SERVER_DRAIN_BYTES =
        32 << 20, /* of a body over the cap: read and dropped, so that the client sees the 413 */
    SERVER_PULL_BYTES = 64 << 10,
};
#define SERVER_ASK_AGAIN_US INT64_C(100000)

/* ---- request target ---- */
struct server_param {
    const char *key, *value;
};
struct server_target {
    char *text; /* owner of what the rest points to */
    const char *path;
    struct server_param param[SERVER_QUERY_MAX];
    size_t n_params;
};
/* Errors: ERR_PARSE (bad escape, NUL, control byte), ERR_LIMIT (too many parameters). */
NODISCARD enum err_code server_target_parse(const char *uri, struct server_target *out,
                                            struct err *e);
void server_target_fini(struct server_target *t);

/* ---- certificates ---- */
struct server_tls;
NODISCARD enum err_code server_tls_new(const struct server_opts *o, struct server_tls **out,
                                       struct err *e);
NODISCARD enum err_code server_tls_reload(struct server_tls *t, struct err *e);
void server_tls_free(struct server_tls *t);
/* For a session that is about to shake hands. */
void server_tls_attach(struct server_tls *t, gnutls_session_t session);
/* MHD_OPTION_HTTPS_CERT_CALLBACK. */
int server_tls_certificate(gnutls_session_t session, const gnutls_datum_t *ca, int n_ca,
                           const gnutls_pk_algorithm_t *algos, int n_algos, gnutls_pcert_st **chain,
                           unsigned int *n_chain, gnutls_privkey_t *key);
/* Common name of the verified certificate of the peer; false without one. */
bool server_tls_peer(gnutls_session_t session, char *cn, size_t n);

/* ---- connections ---- */
enum server_phase {
    SERVER_WAIT, /* for the first byte, or the next request */
    SERVER_HEADERS,
    SERVER_BODY,
    SERVER_BUSY,  /* the handler, a delayed answer */
    SERVER_REPLY, /* libmicrohttpd times the writing */
};

struct server_exchange;
struct server_conn {
    struct server *s;
    struct MHD_Connection *mhd;
    int fd;
    enum server_phase phase; /* this and all below: under lock */
    int64_t since_us;        /* last progress in the phase */
    int64_t begin_us;        /* of the request */
    uint64_t n_served;
    bool cut;
    bool asleep; /* suspended, until wake_us or server_wake */
    bool stream; /* asleep as a streamed answer */
    int64_t wake_us;
    char cn[128]; /* of the client certificate; its own thread's */
    char peer[80];
    struct server_exchange *x; /* its own thread's */
    struct server_conn *prev, *next;
};

struct server {
    struct server_opts o; /* its texts are in `text` */
    char *text[4];
    struct MHD_Daemon *daemon;
    uint16_t port;
    int quiet_fd; /* the listening socket after server_quiesce; -1 */
    struct server_tls *tls;
    pthread_t watchdog;
    bool watching;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct server_conn *conns; /* under lock */
    atomic_bool stopping;
    atomic_uint_fast64_t wakes;
};

struct server_conn *server_conn_of(struct MHD_Connection *mhd);
/* MHD_OPTION_NOTIFY_CONNECTION; cls is the server. */
void server_conn_notify(void *cls, struct MHD_Connection *mhd, void **slot,
                        enum MHD_ConnectionNotificationCode what);
void server_conn_phase(struct server_conn *c, enum server_phase phase);
/* Suspends until `wake_us` (clock_mono_us), or server_wake for a stream.  False when the server
 * stops, or when it was woken since `wakes` was read. */
bool server_conn_sleep(struct server_conn *c, int64_t wake_us, bool stream, uint64_t wakes);
bool server_conn_gone(const struct server_conn *c); /* the client has closed its side */
NODISCARD enum err_code server_watchdog_start(struct server *s, struct err *e);
void server_watchdog_stop(struct server *s);          /* wakes all that sleep, for good */
void server_exchange_free(struct server_exchange *x); /* NULL is fine */

#endif
