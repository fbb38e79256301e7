/* client.h - requests to the API server: verbs, status, retries, a read-only switch, counters.
 *
 * One struct kube is one account at one API server, on one http_client, in one thread.  Requests
 * run side by side; kube_poll() moves them (and everything else on the same http_client), waits
 * between retries, and drives informers and events.  kube_do() runs one to its end while the others
 * move.
 *
 * Retries, inside the call's one deadline and with full jitter: 429 for every verb (the server did
 * not do it), after Retry-After when given; 5xx and a lost connection only where doing it twice is
 * the same as once: get, list, update, merge and apply patch, delete.  409 is never retried here:
 * the caller re-reads and decides again.
 *
 * read_only (the observe stage) is checked where requests leave: all but GET and self-reviews
 * (selfsubjectaccessreviews, selfsubjectrulesreviews) is refused with ERR_INVAL naming verb and
 * path. */
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "kube/config.h"
#include "net/http.h"

/* ---- resources and paths ----------------------------------------------------------------- */

struct kube_resource {
    char group[64]; /* "" for core */
    char version[32];
    char plural[64];
    char kind[64];
    bool namespaced;
    bool has_scale; /* known after kube_discover */
};
extern const struct kube_resource KUBE_PODS, KUBE_NODES, KUBE_NAMESPACES, KUBE_DEPLOYMENTS,
    KUBE_STATEFULSETS, KUBE_REPLICASETS, KUBE_HPAS, KUBE_LEASES, KUBE_EVENTS, KUBE_CAPACITY_TARGETS,
    KUBE_SCALED_OBJECTS, KUBE_VPAS;

/* Appends /api/v1/namespaces/NS/pods/NAME/SUB with every segment escaped.  ns NULL or "": all
 * namespaces; name and sub may be NULL.  ns is left out for cluster-scoped resources. */
void kube_path(struct buf *out, const struct kube_resource *r, const char *ns, const char *name,
               const char *sub);
void kube_query(struct buf *path, const char *key,
                const char *value); /* adds ?key=value or &key=value */
/* "apps/v1" -> group "apps", version "v1"; "v1" -> "", "v1".  False when too long or malformed. */
bool kube_split_api_version(const char *api_version, char group[64], char version[32]);

/* ---- status ------------------------------------------------------------------------------ */

struct kube_status {
    int http;        /* 0: no answer */
    char reason[64]; /* "Conflict", "Expired" ... of the Status, else derived from http; "" for 2xx
                      */
    char message[256];      /* of the Status or the text/plain body; printable, cut */
    char cause[64];         /* reason of the first cause, e.g. "ResourceVersionTooLarge" */
    int64_t retry_after_us; /* -1 without */
    int64_t date_us;        /* the server's clock, -1 without */
};
bool kube_is_ok(const struct kube_status *s);           /* 2xx */
bool kube_is_conflict(const struct kube_status *s);     /* 409 by a stale version or precondition */
bool kube_is_exists(const struct kube_status *s);       /* 409 AlreadyExists */
bool kube_is_gone(const struct kube_status *s);         /* 410, or reason Expired or Gone */
bool kube_is_not_found(const struct kube_status *s);    /* 404, of an object or of a path */
bool kube_is_forbidden(const struct kube_status *s);    /* 403 */
bool kube_is_unauthorized(const struct kube_status *s); /* 401 */
bool kube_is_invalid(const struct kube_status *s);   /* 400, 413, 415, 422: our request is wrong */
bool kube_is_throttled(const struct kube_status *s); /* 429 */
bool kube_is_transient(const struct kube_status *s); /* no answer, 408, 429, 5xx: later may work */
/* From an answer's status, content type and body; the body of 2xx is not looked at. */
void kube_status_decode(int http, const char *content_type, const char *body, size_t n,
                        struct kube_status *out);
/* The same from a Status object inside a watch. */
void kube_status_from_json(const struct json *status, struct kube_status *out);

/* "2026-11-29T12:48:36.123456Z": exactly six digits, as MicroTime wants them.  us from year 0 to
 * 9999. */
enum { KUBE_TIME_TEXT = 32 };
void kube_time_format(int64_t wall_us, char out[KUBE_TIME_TEXT]);

/* ---- the client -------------------------------------------------------------------------- */

enum kube_verb {
    KUBE_GET,
    KUBE_LIST,
    KUBE_WATCH,
    KUBE_CREATE,
    KUBE_UPDATE,
    KUBE_PATCH_MERGE,
    KUBE_PATCH_JSON,
    KUBE_PATCH_APPLY,
    KUBE_DELETE,
    KUBE_N_VERBS
};
const char *kube_verb_name(enum kube_verb v); /* "get" ... "patch-apply" */

struct kube_opts {
    bool read_only;
    int64_t deadline_us;                /* of a call that states none; 10 s */
    int attempts;                       /* most tries of one call; 4 */
    int64_t backoff_us, backoff_max_us; /* 100 ms, 5 s */
    int64_t absent_us;   /* how long discovery remembers that something is not served; 5 s */
    int64_t discover_us; /* how long it remembers what is served; 10 min */
    int64_t renew_us;    /* least time between two runs of a credential plugin; 5 s */
    uint64_t seed;       /* of the jitter */
};
struct kube_opts kube_opts_default(void);

struct kube;
/* config and client are borrowed for the kube's lifetime. */
NODISCARD enum err_code kube_new(const struct kube_config *config, struct http_client *client,
                                 const struct kube_opts *o, struct kube **out, struct err *e);
/* Ends what still runs (done with ERR_INTERRUPTED).  Informers and event sinks on it must be freed
 * before. */
void kube_free(struct kube *k);
bool kube_read_only(const struct kube *k);
const char *kube_url(const struct kube *k);
const char *kube_namespace(const struct kube *k);

struct kube_reply {
    struct kube_status status; /* of the last attempt */
    struct buf body;           /* of the last attempt */
    int attempts;
    int64_t elapsed_us;
};
void kube_reply_fini(struct kube_reply *r);
/* The body as JSON.  Errors: ERR_PARSE, ERR_LIMIT. */
NODISCARD enum err_code kube_reply_json(const struct kube_reply *r, struct json_doc **out,
                                        struct err *e);

struct kube_call {
    enum kube_verb verb;
    const char *path;    /* with query; copied */
    const char *body;    /* copied; NULL: none */
    size_t n_body;       /* 0 with a body: its strlen */
    int64_t deadline_us; /* all attempts and waits together; 0: of kube_opts */
    size_t body_cap;     /* 0: 16 MiB */
    bool once;           /* no retries */
    /* Asynchronous calls only.  Exactly once, from kube_poll or kube_do, never from kube_start. rc,
     * as kube_do returns it. */
    void (*done)(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *e);
    void *ctx;
};
typedef uint64_t kube_id; /* never reused; 0 is none */

/* ERR_OK only for 2xx.  Otherwise reply->status tells, and the code is ERR_MISSING for 404 and 410,
 * ERR_MISMATCH for 409, ERR_INVAL for 400, 401, 403, 405, 413, 415, 422 and a refused write,
 * ERR_LIMIT for a body over its cap, ERR_INTERRUPTED, else ERR_IO (e->sys is ETIMEDOUT past the
 * deadline).  The text names verb, path, status, reason and message. reply is init'd here;
 * kube_reply_fini() whatever the result. */
NODISCARD enum err_code kube_do(struct kube *k, const struct kube_call *call,
                                struct kube_reply *reply, struct err *e);
NODISCARD enum err_code kube_start(struct kube *k, const struct kube_call *call, kube_id *id,
                                   struct err *e);
void kube_cancel(struct kube *k,
                 kube_id id); /* done() with ERR_INTERRUPTED; unknown ids are ignored */
size_t kube_running(const struct kube *k); /* calls begun by kube_start */

/* Moves requests and runs what is due: retries, informers, events.  Waits at most wait_us.
 * http_wake() on the http_client ends the wait.  Returns the number of callbacks made. */
int kube_poll(struct kube *k, int64_t wait_us);
/* For a loop that polls the http_client itself: run kube_tick every turn, and wait at most
 * kube_next_us. */
void kube_tick(struct kube *k);
int64_t kube_next_us(const struct kube *k); /* until something is due; INT64_MAX when nothing is */

/* ---- discovery --------------------------------------------------------------------------- */

/* apiVersion and kind to the resource, from GET /apis/GROUP/VERSION.  What was found is remembered
 * for discover_us, and beyond while the server cannot be asked.  ERR_MISSING when the server does
 * not serve it (asked again after absent_us: a CRD may appear late); other errors as kube_do. */
NODISCARD enum err_code kube_discover(struct kube *k, const char *api_version, const char *kind,
                                      struct kube_resource *out, struct err *e);
/* The same from what is known by now, without waiting: what is not known, or too old, is asked for, once
 * at a time, and answered here when called again later.  Until then ERR_MISSING. */
NODISCARD enum err_code kube_discover_soon(struct kube *k, const char *api_version, const char *kind,
                                           struct kube_resource *out, struct err *e);

/* ---- may we? ----------------------------------------------------------------------------- */

struct kube_access {
    const char *verb;                           /* "create", "patch", "watch" ... */
    const char *group, *resource, *subresource; /* NULL: "" */
    const char *ns, *name;                      /* NULL: all */
};
/* Asks with a SelfSubjectAccessReview (allowed in read_only).  reason, when not NULL, gets the
 * server's words. */
NODISCARD enum err_code kube_can(struct kube *k, const struct kube_access *a, bool *allowed,
                                 char reason[256], struct err *e);

/* ---- counters ---------------------------------------------------------------------------- */

enum kube_class {
    KUBE_CLASS_OK,        /* 2xx */
    KUBE_CLASS_CONFLICT,  /* 409 */
    KUBE_CLASS_THROTTLED, /* 429 */
    KUBE_CLASS_CLIENT,    /* other 4xx */
    KUBE_CLASS_SERVER,    /* 5xx */
    KUBE_CLASS_TRANSPORT, /* no answer, cut, time-out */
    KUBE_N_CLASSES
};
const char *kube_class_name(enum kube_class c); /* "2xx", "409", "429", "4xx", "5xx", "transport" */
enum { KUBE_N_BUCKETS = 12 };
extern const double kube_bucket_s[KUBE_N_BUCKETS]; /* upper bounds; the last is infinite */
struct kube_count {
    uint64_t n;
    int64_t sum_us, max_us;
};
/* Attempts, not calls.  A watch counts once, with the time to its first byte. */
struct kube_stats {
    struct kube_count count[KUBE_N_VERBS][KUBE_N_CLASSES];
    uint64_t bucket[KUBE_N_VERBS][KUBE_N_BUCKETS]; /* per bucket, not cumulative */
    uint64_t retries, refused;                     /* refused: writes stopped by read_only */
    int64_t wire_bytes;
    int64_t skew_us; /* server's Date minus ours at the last answer (whole seconds: +-1 s);
                        INT64_MIN: none yet */
};
const struct kube_stats *kube_stats(const struct kube *k);

#endif
