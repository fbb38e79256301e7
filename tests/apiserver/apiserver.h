/* apiserver.h - a Kubernetes API server to test against: in the test's process, or as a program.
 *
 * Answers as a real 1.36 API server does (docs/apiserver.md says which captures it is held to, and
 * what is not modelled): storage with resource versions, list pages, watches, patches, /scale,
 * /status, binding, eviction, custom resources, RBAC, Status bodies.  On top, what a real one
 * cannot do: controllers that start pods after delays you choose, faults on demand, a record of
 * every request, 100,000 pods in a second.
 *
 *     struct apiserver *api;
 *     assert_ok(apiserver_start(&(struct apiserver_opts){.controllers = true}, &api, &e), &e);
 *     apiserver_must_load(api, yaml);                      // objects, as kubectl would apply them
 *     assert_ok(apiserver_kubeconfig(api, path, NULL, &e), &e); // or apiserver_url() and a token
 *     ...
 *     apiserver_free(api);
 *
 * Listens on 127.0.0.1.  Every function may be called from any thread.  Texts returned are the
 * caller's (mem_free). Same options, seed and order of requests give the same names, uids and
 * delays. */
#ifndef TESTS_APISERVER_H
#define TESTS_APISERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Tokens known from the start. */
#define APISERVER_ADMIN_TOKEN "admin-token"   /* may do everything */
#define APISERVER_READER_TOKEN "reader-token" /* get, list, watch, and the self-reviews */

struct apiserver_opts {
    const char *address;              /* NULL: 127.0.0.1 */
    uint16_t port;                    /* 0: any free one; kept over apiserver_down and _up */
    uint64_t seed;                    /* 0: 1 */
    bool refuse_anonymous;            /* 401 instead of 403 for requests without credentials */
    const char *cert_file, *key_file; /* PEM, both or none: HTTPS */
    const char *client_ca_file;       /* certificates of clients are users */
    const char *ca_file; /* what the kubeconfig trusts; NULL: cert_file, when self-signed */

    bool controllers;  /* workloads get pods, pods get nodes and start, ... */
    bool keep_unbound; /* controllers, but pods wait for somebody else's binding */
    int64_t pod_start_min_us, pod_start_max_us; /* bound to Ready, uniform; default 0 */
    int64_t pod_stop_us;                        /* deleted to gone; default 0 */
    /* Server time (stamps, delays of controllers) runs so much faster than real time; 0: 1. */
    double time_scale;
    int64_t time_origin_us; /* server time at the start; 0: now */

    int64_t crd_delay_us; /* until a new CRD is served (real time); default 0, a real one 2 s */
    int64_t bookmark_us;  /* between bookmarks (real time); default 60 s */
    size_t history; /* events remembered per resource, older are compacted; default 50,000 */
    bool managed_fields; /* filled pods carry them, as real ones do: 1.1 KB more each */
    bool no_gzip;
    bool metrics_api; /* serves metrics.k8s.io: put PodMetrics and NodeMetrics objects */
};

struct apiserver;

/* Zeroed options are fine.  Errors: ERR_IO (port taken, files), ERR_INVAL. */
NODISCARD enum err_code apiserver_start(const struct apiserver_opts *o, struct apiserver **out,
                                        struct err *e);
void apiserver_free(struct apiserver *a); /* NULL is fine */

/* Connections are cut and new ones refused, as when the process is gone; objects stay.  _up listens
 * on the same port again; watches there start from the state kept (lose_history: from nothing: old
 * versions are expired). */
void apiserver_down(struct apiserver *a);
NODISCARD enum err_code apiserver_up(struct apiserver *a, bool lose_history, struct err *e);
/* As a real one stops: new connections are refused at once, open watches end cleanly after so long
 * (60 s).  Call apiserver_down afterwards. */
void apiserver_drain(struct apiserver *a, int64_t watches_us);

uint16_t apiserver_port(const struct apiserver *a);
const char *apiserver_url(const struct apiserver *a); /* http://127.0.0.1:PORT, borrowed */
/* A kubeconfig with the token (NULL: admin), context "test", namespace "default". */
NODISCARD enum err_code apiserver_kubeconfig(struct apiserver *a, const char *path,
                                             const char *token, struct err *e);
int64_t apiserver_now_us(struct apiserver *a); /* server time */

/* ---- who may do what ---- */
struct apiserver_rule {     /* "*" matches all; lists are comma separated */
    const char *verbs;      /* "get,list,watch" */
    const char *groups;     /* "" is the core group: "apps,coordination.k8s.io" */
    const char *resources;  /* "pods,deployments/scale" */
    const char *namespaces; /* NULL: everywhere */
};
/* `user` like "system:serviceaccount:sluice:sluice" or "jane".  With n == 0 what it may do is what
 * the RBAC objects in the server say (ClusterRole, ClusterRoleBinding, Role, RoleBinding). */
void apiserver_token(struct apiserver *a, const char *token, const char *user,
                     const struct apiserver_rule *rules, size_t n);
void apiserver_revoke(struct apiserver *a, const char *token); /* 401 from now on */

/* ---- objects, past authentication, admission and faults ---- */
/* YAML (several documents) or JSON, single objects or List: created or replaced whole, status
 * included; namespaces are made. */
NODISCARD enum err_code apiserver_load(struct apiserver *a, const char *text, struct err *e);
NODISCARD enum err_code apiserver_load_file(struct apiserver *a, const char *path, struct err *e);
void apiserver_must_load(struct apiserver *a, const char *text); /* prints and aborts on an error */
/* Any request, as admin, answered as over HTTP: path with query, content_type NULL for
 * application/json (a patch: merge). The body of the answer is added to `out` unless NULL.  Returns
 * the HTTP status; 0 for a watch. */
int apiserver_call(struct apiserver *a, const char *method, const char *path,
                   const char *content_type, const char *body, struct buf *out);
/* GET as JSON text, NULL when there is none. */
char *apiserver_get(struct apiserver *a, const char *path);
/* A value inside, "spec.replicas", "status.conditions.0.type", "metadata.labels.app": text, or JSON
 * for other types; NULL when absent. */
char *apiserver_field(struct apiserver *a, const char *path, const char *field);
/* Number at `field`, or `absent`. */
double apiserver_number(struct apiserver *a, const char *path, const char *field, double absent);
/* Items of a list; selectors allowed. */
size_t apiserver_count(struct apiserver *a, const char *list_path);
/* Waits (real time) until pred says so, asked after each change; false after timeout_us. */
bool apiserver_wait(struct apiserver *a, bool (*pred)(struct apiserver *a, void *ctx), void *ctx,
                    int64_t timeout_us);
uint64_t apiserver_version(struct apiserver *a); /* the newest resource version */

/* n_nodes nodes of 8 GPUs in pools, n_pods pods bound to them, owned by Deployments of
 * `per_workload` pods (0: 20) in namespaces fill-0 ...; labels as production has them; every 50th
 * node is cordoned, every 20th pod pending. */
void apiserver_fill(struct apiserver *a, int n_nodes, int n_pods, int per_workload);

/* ---- the cluster's behaviour (controllers) ---- */
/* Pods that start while it is down stay in ImagePullBackOff. */
void apiserver_registry_down(struct apiserver *a, bool down);
/* Per workload, on the Deployment or StatefulSet: annotation test.sluice.dev/pod-start-ms:
 * "MIN-MAX", test.sluice.dev/image: "broken", test.sluice.dev/never-ready: "true". */
/* Waits until controllers have nothing left to do now. */
void apiserver_settle(struct apiserver *a);

/* ---- faults ---- */
enum apiserver_fault_kind {
    /* The request waits latency_us (real time) and is done then, also when its client gave up. */
    APISERVER_LATENCY,
    /* `status` with the body a real server gives: 409, 410, 429, 500, 503, 504 ... */
    APISERVER_STATUS,
    /* Done, then answered `status`: a write that succeeded and was not acknowledged. */
    APISERVER_AFTER,
    /* The connection is closed without an answer, work not done; an open watch: at the next event. */
    APISERVER_CUT,
    APISERVER_CUT_AFTER, /* the same, work done */
    /* Closed in the middle of the body; an open watch: of the next line. */
    APISERVER_HALF_BODY,
    /* 200 with a body (an open watch: a line) that is not JSON. */
    APISERVER_GARBAGE,
    /* An open watch delivers nothing more, not even bookmarks, and stays open. */
    APISERVER_SILENT,
    APISERVER_EXPIRE, /* an open watch: ERROR 410 in the stream; others: 410 */
    /* An object (of a list: the first) carries metadata.selfLink of `size` bytes (0: 8 MiB). */
    APISERVER_HUGE,
    APISERVER_HANG, /* not done, and 504 after latency_us: storage is away */
    APISERVER_FAULT_KINDS,
};

struct apiserver_fault {
    enum apiserver_fault_kind kind;
    const char *method; /* NULL: any; "WATCH" for watches, "GET" is everything else read */
    const char *path;   /* part of the path and query; NULL: any */
    const char *token;  /* NULL: any */
    int skip;           /* let so many pass first */
    int count;          /* then hit so many; 0: until cleared */
    double probability; /* of those, 0: always; drawn from the seed */
    int64_t latency_us;
    int status;
    int retry_after_s; /* 0: no header */
    bool plain;        /* text/plain body, as throttling answers */
    size_t size;
};
int apiserver_fault(struct apiserver *a, const struct apiserver_fault *f); /* its id, from 1 */
void apiserver_clear(struct apiserver *a, int id);                         /* 0: all */
int apiserver_hits(struct apiserver *a, int id);
/* Nothing is answered for so long (real time), watches included; requests wait. */
void apiserver_stall(struct apiserver *a, int64_t us);
/* As when etcd is away: lists of version 0, watches and health are answered; other reads are 504
 * after read_us (a real one 60 s), writes after write_us (34 s).  Negative: it is back. */
void apiserver_storage_away(struct apiserver *a, int64_t read_us, int64_t write_us);
/* Versions before now are forgotten: watches from there and `continue` tokens get 410. */
void apiserver_compact(struct apiserver *a);
void apiserver_cut_watches(struct apiserver *a); /* closes each open watch now */
size_t apiserver_watches(struct apiserver *a); /* open now */

/* ---- what was asked ---- */
struct apiserver_record {
    int64_t mono_us;   /* clock_mono_us() */
    int64_t server_us; /* server time */
    char verb[20];     /* get, list, watch, create, update, patch, delete, deletecollection */
    char group[64], resource[64], subresource[24], namespace[64], name[128];
    char user[96];
    int status;        /* 0: no answer was given */
    int did;           /* status of the work itself, whatever a fault made of the answer; 0: it was not begun */
    bool write;        /* changes objects (a self-review or a dry run is none) */
    bool leader_lease; /* of a Lease */
    char *path, *body; /* as sent; body "" when there was none, at most 64 KiB kept */
};
/* Copies the records from number `from` on (0: the first), at most n; returns how many.  Release
 * each with apiserver_record_fini. The newest 100,000 are kept. */
size_t apiserver_log(struct apiserver *a, uint64_t from, struct apiserver_record *out, size_t n);
void apiserver_record_fini(struct apiserver_record *r);
uint64_t apiserver_requests(struct apiserver *a); /* number of records so far */
/* How many match: verb "write" for any write; NULL matches all; resource "deployments/scale". Only
 * answered 2xx when ok_only. */
size_t apiserver_counted(struct apiserver *a, const char *verb, const char *resource, bool ok_only);
void apiserver_forget(struct apiserver *a);                 /* empties the record and the counts */
void apiserver_print_log(struct apiserver *a, size_t last); /* to stderr, for a failing test */

#endif
