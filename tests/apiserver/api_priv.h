/* api_priv.h - shared by the parts of the test API server.
 *
 *   apiserver.c   options, start, stop, down, up; the HTTP handler         call.c      one request:
 * parsed, refused, dispatched auth.c        tokens, RBAC, self-reviews status.c    Status bodies
 *   kinds.c       built-in resources                                       discovery.c /api, /apis,
 * /version, health crd.c         custom resources  schema.c  their validation             json.c
 * helpers over cJSON store.c       versions, events, compaction                             list.c
 * lists, pages, gzip watch.c       streams select.c    label and field selectors write.c create,
 * update, delete                                   patch.c     merge, strategic, JSON patch, apply
 *   pod.c, podspec.c  defaults, what an update may change, binding, eviction   scale.c, check.c
 * /scale; leases, events, ... control.c, workload.c, node.c, kubelet.c  controllers, scheduler,
 * kubelet   fault.c, log.c, fill.c, load.c, inside.c
 *
 * One lock (struct apiserver.lock) guards everything below it.  A function called with it held says
 * so by taking the apiserver and being named here; apiserver.h's functions take it themselves.
 * Stored objects are immutable texts with counted references: a write parses, changes and stores a
 * new one.  */
#ifndef TESTS_API_PRIV_H
#define TESTS_API_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include <cjson/cJSON.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "net/server.h"
#include "tests/apiserver/apiserver.h"

/* ---- JSON (json.c) ---- */
const cJSON *api_js_at(const cJSON *v,
                       const char *path); /* "spec.template.0.name"; NULL when absent */
cJSON *api_js_at_mut(cJSON *v, const char *path);
const char *api_js_str(const cJSON *v, const char *path); /* NULL unless a string */
const char *api_js_str_or(const cJSON *v, const char *path, const char *other);
double api_js_num(const cJSON *v, const char *path, double absent);
bool api_js_true(const cJSON *v, const char *path);
cJSON *api_js_obj(cJSON *parent,
                  const char *key); /* the object there, made when absent or of another type */
cJSON *api_js_list(cJSON *parent, const char *key);
void api_js_set(cJSON *obj, const char *key, cJSON *value); /* replaces or adds; takes value */
void api_js_set_str(cJSON *obj, const char *key, const char *s);
void api_js_set_str_at(cJSON *v, const char *s); /* turns v itself into a string */
void api_js_set_num(cJSON *obj, const char *key, double v);
void api_js_drop(cJSON *obj, const char *key);
void api_js_default(cJSON *obj, const char *key,
                    cJSON *value);                /* takes value, drops it when the key is there */
bool api_js_same(const cJSON *a, const cJSON *b); /* NULL only like NULL */
char *api_js_text(const cJSON *v);                /* mem_free */
void api_js_add_text(struct buf *out, const cJSON *v);
void api_js_quote(struct buf *out, const char *s);
#define js_each(item, list)                                                                        \
    for (cJSON *item = (list) ? (list)->child : NULL; item; item = item->next)

/* ---- resources ---- */
enum {
    KIND_STATUS = 1, /* has /status, written apart */
    KIND_SCALE = 2,
    KIND_GENERATION = 4,
    KIND_CUSTOM = 8,
    KIND_VERSIONED_PUT = 16, /* PUT needs a resourceVersion */
    KIND_REVIEW = 32,        /* create only, not stored */
    KIND_NO_COLLECTION = 64,
    KIND_LATER = 128, /* only with opts.metrics_api */
};
struct kind {
    const char *group, *version, *plural, *singular, *name, *shorts, *categories; /* csv or NULL */
    bool namespaced;
    unsigned flags;
    const char *replicas_path, *status_replicas_path, *selector_path; /* scale */
};

struct need { /* what a pod asks for */
    const char *resource;
    int64_t milli;
};

struct obj { /* one version; immutable */
    int refs;
    uint64_t rv;
    const char *key; /* "ns/name" or "name" */
    const char *ns, *name, *uid;
    const char *node, *phase, *scheduler; /* pods: never NULL */
    const char *owner;                    /* uid of the controller, or "" */
    bool deleting, ready;
    struct need *need; /* of a pod: summed over containers */
    size_t n_needs;
    const char **label; /* key, value, key, value ... */
    size_t n_labels;
    const char *json; /* without kind and apiVersion */
    size_t n_json;
};

/* What the store knows of an object without parsing it; NULL for "". */
struct obj_facts {
    const char *ns, *name, *uid, *node, *phase, *scheduler, *owner;
    const char *const *label;
    size_t n_labels;
    bool deleting, ready;
    const struct need *need;
    size_t n_needs;
};

enum event_type { EVENT_ADDED, EVENT_MODIFIED, EVENT_DELETED };
struct event {
    uint64_t rv;
    enum event_type type;
    struct obj *now, *was; /* now of DELETED: the last state under the version of the deletion */
};

struct shelf { /* the objects of one resource */
    const struct kind *kind;
    bool served;
    char *prefix;   /* {"kind":"Pod","apiVersion":"v1", */
    struct obj **v; /* sorted by key */
    size_t n, size;
    struct event *ring; /* n_events from first on, modulo size_ring */
    size_t first, n_events, size_ring;
    uint64_t forgotten; /* newest version no longer in the ring */
    struct crd *crd;    /* of custom resources */
};

struct crd {
    struct kind kind;
    char *text[12]; /* owner of kind's strings */
    cJSON *schema;  /* NULL: anything */
    int64_t serve_at_us;
};

/* ---- one request ---- */
struct param {
    char *key, *value;
};
struct call {
    struct apiserver *a;
    const struct server_request *http; /* NULL for apiserver_call */
    struct param *param;               /* then these */
    size_t n_params;
    char *owned;
    const char *method, *path, *target, *body, *content_type, *accept, *token;
    size_t n_body;
    bool inside; /* past authentication, admission and faults */
    int did;     /* status of the work, before a fault changed the answer; 0: not begun */

    const struct token *who;
    const char *user;
    char cert_user[160];

    char verb[20], group[64], version[32], resource[64], sub[24], ns[64], name[256];
    bool is_resource; /* /api/... or /apis/G/V/... down to a resource */
    struct shelf *shelf;
    bool dry_run, wrote;
    struct fault *fault; /* what hits this request */
    struct server_reply *out;
};
const char *api_call_query(const struct call *c, const char *key);
bool api_call_flag(const struct call *c, const char *key); /* "1", "true" */
void api_call_run(struct call *c);                         /* locked; fills c->out */
void api_call_parse_path(struct call *c);
const char *api_call_time(struct apiserver *a, char out[32]); /* server time, RFC 3339 seconds */
const char *api_call_time_micro(struct apiserver *a, char out[40]);
const char *api_time_text(int64_t us, char out[32]);
int64_t api_time_parse(const char *s); /* -1 when it is none */

/* ---- Status bodies (status.c): each fills c->out and returns false ---- */
bool api_fail(struct call *c, int code, const char *reason, cJSON *details, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
bool api_fail_plain(struct call *c, int code, const char *text);
cJSON *api_detail(const char *name, const char *group,
                  const char *kind); /* NULL parts are left out */
void api_detail_cause(cJSON *details, const char *reason, const char *message, const char *field);
bool api_fail_not_found(struct call *c, const char *name);
bool api_fail_bad(struct call *c, const char *fmt, ...) PRINTF_LIKE(2, 3); /* 400 BadRequest */
bool api_fail_conflict(struct call *c, const char *name); /* 409, modified meanwhile */
/* 422: causes are gathered, then sent.  `what` is the kind as messages name it: "Pod",
 * "Scale.autoscaling". */
struct causes {
    cJSON *list;
    struct buf text;
    int n;
};
void api_cause(struct causes *l, const char *reason, const char *field, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
bool api_causes_none(struct causes *l); /* true when empty; releases it then */
bool api_fail_invalid(struct call *c, const char *kind, const char *group, const char *name,
                      struct causes *l);
void api_answer(struct call *c, int status, const cJSON *body);
void api_answer_obj(struct call *c, int status, const struct shelf *s, const struct obj *o);
void api_answer_success(struct call *c, int status,
                        cJSON *details); /* Status Success; takes details */
#define INVALID "FieldValueInvalid"
#define FORBIDDEN "FieldValueForbidden"
#define REQUIRED "FieldValueRequired"

/* ---- store (store.c) ---- */
struct shelf *api_store_shelf(struct apiserver *a, const char *group, const char *version,
                              const char *plural); /* served or not */
struct shelf *api_store_kind(struct apiserver *a, const char *group, const char *version,
                             const char *kind);
struct shelf *api_store_core(struct apiserver *a, const char *plural); /* built-in, any group */
struct shelf *api_store_add_shelf(struct apiserver *a, const struct kind *k, struct crd *crd);
void api_store_drop_shelf(struct apiserver *a, struct shelf *s); /* with its objects */
void api_store_fini(struct apiserver *a);
struct obj *api_store_get(const struct shelf *s, const char *ns, const char *name);
size_t api_store_lower(const struct shelf *s, const char *key); /* first with key >= */
/* Object from JSON: sets the resource version to the next one.  The JSON is the caller's. */
struct obj *api_store_put(struct apiserver *a, struct shelf *s,
                          cJSON *json); /* creates or replaces, with event */
/* While store_bulk is on: JSON as text, with the version a->rv in it, and what it says. */
void api_store_put_text(struct apiserver *a, struct shelf *s, const struct obj_facts *f,
                        const char *json, size_t n);
void api_store_delete(struct apiserver *a, struct shelf *s, struct obj *o,
                      cJSON *last); /* last: final state, or NULL */
void api_store_bulk(struct apiserver *a,
                    bool on); /* many objects at once: sorted at the end, no events */
void api_store_compact(struct apiserver *a, uint64_t rv);
struct obj *api_obj_ref(struct obj *o);
void api_obj_unref(struct obj *o);
cJSON *api_obj_parse(const struct obj *o); /* a copy to change */
void api_obj_add_json(struct buf *out, const struct shelf *s, const struct obj *o, bool with_kind);
const char *api_obj_label(const struct obj *o, const char *key);
const struct event *api_store_event(const struct shelf *s, size_t i);
size_t api_store_after(const struct shelf *s, uint64_t rv); /* index of the first event past rv */
void api_store_uid(struct apiserver *a, char out[37]);
void api_store_suffix(struct apiserver *a, char out[6]);

/* ---- selectors (select.c) ---- */
struct selector;
/* false: c->out holds the error.  NULL for "everything". */
bool api_selector_parse(struct call *c, struct selector **out);
struct selector *api_selector_of_labels(const cJSON *label_selector,
                                        bool *ok); /* matchLabels, matchExpressions */
bool api_selector_matches(const struct selector *s, const struct obj *o); /* NULL: all */
bool api_selector_has_fields(const struct selector *s);
void api_selector_free(struct selector *s);
void api_selector_text(struct buf *out, const cJSON *label_selector); /* "a=b,c in (d,e)" */

/* ---- verbs ---- */
void api_list_run(struct call *c);
void api_list_gzip(struct server_reply *r);
void api_watch_run(struct call *c);
void api_watch_drop_shelf(struct apiserver *a, const struct shelf *s); /* its resource is gone */
size_t api_watch_count(const struct apiserver *a);
void api_watch_close_all(struct apiserver *a);
void api_write_create(struct call *c);
void api_write_update(struct call *c);
void api_write_patch(struct call *c);
void api_write_delete(struct call *c);
void api_write_delete_collection(struct call *c);
/* Common end of updates: `json` replaces `old`; sub is "" or "status", "scale" ...  Takes json. */
void api_write_commit(struct call *c, struct obj *old, cJSON *json, const char *sub, int status);
/* Parses the body; checks kind, version, namespace, name.  NULL: c->out holds the error. */
cJSON *api_write_body(struct call *c);
bool api_write_insert(struct call *c, struct shelf *s,
                      cJSON *json); /* admission and creation of one object; fills c->out */
void api_remove_obj(struct apiserver *a, struct shelf *s,
                    struct obj *o); /* with what it owns, or later by controllers */
bool api_patch_apply(struct call *c, const struct kind *k, cJSON *doc,
                     cJSON **out); /* doc stays; false: c->out */
bool api_patch_is_apply(const struct call *c);
bool api_patch_decoded(struct call *c, const struct shelf *s, cJSON *now, bool scale);
/* Drops fields nobody knows (of what is checked: pod specs, custom resources); their first path
 * into `out`, or "". */
void api_field_unknown(const struct shelf *s, cJSON *json, char *out, size_t n);
enum { BODY_BYTES_MAX = 3 << 20, ANNOTATION_BYTES_MAX = 256 << 10 };

/* ---- kinds ---- */
extern const struct kind api_kind_table[];
extern const size_t api_n_kinds;
void api_kind_defaults(struct apiserver *a, const struct kind *k, cJSON *json);
void api_kind_normal(const struct kind *k, cJSON *json); /* of an update */
/* What Go's decoder would say about fields of the wrong type; "" when nothing. */
void api_kind_decode(const struct kind *k, const cJSON *json, bool scale, char *out, size_t n);
void api_kind_check(struct apiserver *a, const struct kind *k, const cJSON *was, const cJSON *json,
                    struct causes *l);
void api_pod_defaults(struct apiserver *a, cJSON *pod);
void api_pod_template_defaults(cJSON *spec);
void api_pod_check_create(const cJSON *pod, struct causes *l);
void api_pod_check_update(cJSON *was, cJSON *now, struct causes *l);
bool api_pod_admit(struct call *c, cJSON *pod); /* priority, quota */
void api_pod_set_condition(struct apiserver *a, cJSON *pod, const char *type, const char *status,
                           const char *reason, const char *message);
void api_pod_bind(struct apiserver *a, cJSON *pod, const char *node,
                  bool topology); /* topology: the zone becomes a label */
void api_pod_budget_status(struct apiserver *a, struct shelf *s, const struct obj *pdb);
void api_pod_binding(struct call *c);
void api_pod_eviction(struct call *c);
void api_pod_resize(struct call *c);
void api_pod_add_tolerations(cJSON *spec);
int64_t api_quantity_milli(const char *text, bool *ok); /* "500m", "1Gi" in thousandths */
void api_quantities_canonical(cJSON *map);
void api_quantity_text(int64_t milli, char out[32]);
int64_t api_js_quantity(const cJSON *v); /* milli, of a string or number; 0 when it is none */
bool api_pod_ready(const cJSON *pod);
void api_scale_run(struct call *c);
void api_crd_created(struct apiserver *a, struct obj *o);
void api_crd_changed(struct apiserver *a, struct obj *o);
void api_crd_deleted(struct apiserver *a, const struct obj *o);
void api_crd_tick(struct apiserver *a);      /* serves what is due */
void api_crd_serve_all(struct apiserver *a); /* now */
void api_crd_free(struct crd *crd);
bool api_schema_unknown(const cJSON *schema, const cJSON *json, char *out,
                        size_t n); /* the first field not in it */
void api_schema_apply(const cJSON *schema, cJSON *json,
                      struct causes *l); /* defaults, prunes, checks */
void api_discovery_run(struct call *c);
void api_review_run(struct call *c);

/* ---- authentication, authorization ---- */
bool api_auth_user(struct call *c);    /* false: 401 sent */
bool api_auth_allowed(struct call *c); /* false: 403 sent */

/* ---- faults, log ---- */
struct fault {
    struct apiserver_fault f;
    char *method, *path, *token;
    int id, seen, hits;
    bool off;
    struct rng rng;
    struct fault *next;
};
/* The first active fault of `kinds` (bits 1u << kind) that hits such a request; counts it. */
struct fault *api_fault_pick(struct apiserver *a, const char *method, const char *target,
                             const char *token, unsigned kinds);
bool api_fault_before(struct call *c); /* true: answered, or put off */
void api_fault_after(struct call *c);
void api_fault_body(int status, bool plain, int retry_after_s, struct call *c);
void api_fault_fini(struct apiserver *a);
void api_control_http(struct call *c); /* /_test/... */
void api_log_add(struct call *c);
void api_log_fini(struct apiserver *a);

/* ---- loading (load.c) ---- */
cJSON *api_load_one(const char *text,
                    size_t n); /* YAML or JSON, one document; NULL when it is neither */

/* ---- controllers (control.c: the thread; workload.c; node.c: scheduler; kubelet.c) ---- */
enum timer_what { TIMER_START, TIMER_FINISH, TIMER_STOP };
struct timer {
    int64_t due_us; /* clock_mono_us */
    enum timer_what what;
    char *key, *uid; /* of the pod */
};
struct dirty {
    struct shelf *shelf;
    char *key; /* of a workload; or the uid of a deleted owner */
    bool owner_gone;
};
struct control {
    pthread_t thread;
    bool stop, schedule, busy;
    struct dirty *dirty;
    size_t n_dirty, size_dirty;
    struct timer *timer; /* a heap by (due, order of making) */
    size_t n_timers, size_timers;
    struct node_info *node; /* of the last pass, sorted by name */
    size_t n_nodes;
    bool registry_was_down;
    struct shelf *pods, *nodes, *deployments, *replicasets, *statefulsets, *budgets;
};
void api_control_start(struct apiserver *a);
void api_control_stop(struct apiserver *a);
void api_control_event(struct apiserver *a, struct shelf *s, const struct event *e);
void api_control_dirty(struct apiserver *a, struct shelf *s, const char *key, bool owner_gone);
void api_control_timer(struct apiserver *a, int64_t in_us, enum timer_what what,
                       const struct obj *pod); /* in server time */
/* Writes j over o when they differ; takes j. */
void api_control_put(struct apiserver *a, struct shelf *s, const struct obj *o, cJSON *j);
void api_control_delete_pod(struct apiserver *a, struct obj *pod); /* gracefully */
struct obj *api_workload_owner(struct apiserver *a, const struct shelf *s,
                               const struct obj *o); /* the owner of o in s, or NULL */
void api_workload_reconcile(struct apiserver *a, struct shelf *s, const char *key);
void api_workload_collect(struct apiserver *a, const char *owner_uid);
void api_node_schedule(struct apiserver *a);
void api_node_event(struct apiserver *a, struct obj *node);
void api_node_free(struct control *k);
void api_kubelet_event(struct apiserver *a, const struct event *e);
void api_kubelet_timer(struct apiserver *a, const struct timer *t);
void api_kubelet_registry_up(struct apiserver *a);
#define TEST_ANNOTATION "test.sluice.dev/"

struct token {
    char *token, *user;
    struct apiserver_rule *rules; /* texts owned */
    size_t n_rules;
    bool admin, revoked;
    struct token *next;
};

struct apiserver {
    struct apiserver_opts o;
    char *text[5];
    struct server *server; /* NULL while down; changed under lock by down and up only */
    uint16_t port;
    char url[64];
    pthread_mutex_t lock;
    pthread_cond_t changed; /* after each write, and for controllers */
    uint64_t rv;
    struct shelf **shelf;
    size_t n_shelves;
    struct token *tokens;
    struct fault *faults;
    int n_faults;
    int64_t stall_until_us;
    int64_t drain_at_us;              /* watches end cleanly; 0: not draining */
    bool storage_away;
    int64_t away_read_us, away_write_us;
    struct watch *watches;
    struct log_record *log;
    size_t n_log, size_log;
    uint64_t n_requests;
    struct rng uids, names, delays;
    int64_t mono_start_us;
    bool registry_down, waking;
    struct control *control;
    bool bulk;          /* filling: no events, no order */
    bool orphan;        /* what a deleted object owns stays */
    struct buf scratch; /* text of the object being stored */
};
int64_t api_now_us(const struct apiserver *a); /* server time */
struct log_record {
    struct apiserver_record r;
};
static inline void api_lock(struct apiserver *a)
{
    pthread_mutex_lock(&a->lock);
}
void api_unlock(struct apiserver *a);

#endif
