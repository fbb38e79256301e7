/* sweep_test.c - two replicas on one target under random faults, crashes, changes of leader and
 * people.
 *
 * A watcher sees every version of the workload and of the CapacityTarget. In the order of versions,
 * each change of the size that no person made must be announced by the intent that stands at that
 * time, and each intent is used at most once: no action without intent, no action twice. At the end
 * of each sequence nothing is left over. People choose sizes from 1000 on, orders below, so a
 * change tells who made it. */
#include <stdlib.h>

#include "base/rng.h"
#include "tests/unit/execute/act_rig.h"

enum { PEOPLE = 1000, DEADLINE_US = 40000, LATE_US = 60000, SEQUENCES = 40, STEPS = 40 };

/* ---- the watcher ----------------------------------------------------------------------------- */

struct seen {
    long version;
    bool size; /* else the status */
    int32_t replicas;
    char intent[STATUS_ID];
    int32_t from, to;
    char outcome[STATUS_ID];
    int32_t outcome_to;
    int result;
};

struct watcher {
    struct http_client *http;
    struct http_server *server;
    struct buf line[2];
    struct seen *seen;
    size_t n, room;
    long newest[2];
};

struct stream {
    struct watcher *w;
    int which;
};

static void take_line(struct watcher *w, int which, const char *text, size_t n)
{
    struct json_doc *doc;
    struct err e;
    assert_ok(json_parse(text, n, 1 << 20, "event", &doc, &e), &e);
    const struct json *o = json_find(json_root(doc), "object"), *meta = json_find(o, "metadata");
    struct seen s = {.version = strtol(json_text(json_find(meta, "resourceVersion")), NULL, 10),
                     .size = which == 0};
    if (which == 0) {
        s.replicas = (int32_t)json_number(json_find(json_find(o, "spec"), "replicas"));
    } else {
        struct target_status status;
        assert_ok(target_status_parse(doc, json_find(o, "status"), &status, &e), &e);
        memcpy(s.intent, status.intent.id, STATUS_ID);
        s.from = status.intent.from;
        s.to = status.intent.to;
        memcpy(s.outcome, status.outcome.id, STATUS_ID);
        s.outcome_to = status.outcome.to;
        s.result = (int)status.outcome.result;
    }
    if (w->n == w->room) {
        w->room = w->room ? 2 * w->room : 256;
        w->seen = mem_grow(w->seen, w->room, sizeof *w->seen);
    }
    w->seen[w->n++] = s;
    w->newest[which] = s.version;
    json_free(doc);
}

static bool take_bytes(void *ctx, const char *p, size_t n)
{
    struct stream *s = ctx;
    struct buf *line = &s->w->line[s->which];
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '\n') {
            buf_char(line, p[i]);
            continue;
        }
        take_line(s->w, s->which, line->p, line->n);
        buf_clear(line);
    }
    return true;
}

static void stream_end(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e)
{
    (void)ctx, (void)rc, (void)reply, (void)e;
}

static void watcher_start(struct watcher *w, struct stream s[2], struct apiserver *api)
{
    static const char *const lists[] = {
        "/apis/apps/v1/namespaces/shop/deployments",
        "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets"};
    static const struct apiserver_rule all = {"*", "*", "*", NULL};
    struct err e;
    *w = (struct watcher){0};
    apiserver_token(api, "watcher", "watcher", &all, 1);
    assert_ok(http_client_new(&w->http, &e), &e);
    assert_ok(
        http_server_new(&(struct http_server_opts){.url = apiserver_url(api), .token = "watcher"},
                        &w->server, &e),
        &e);
    for (int i = 0; i < 2; i++) {
        char path[256];
        http_id id;
        w->line[i] = buf_init(1 << 20);
        s[i] = (struct stream){w, i};
        (void)snprintf(path, sizeof path, "%s?watch=true&resourceVersion=%llu", lists[i],
                       (unsigned long long)apiserver_version(api));
        struct http_request r = {.method = HTTP_GET,
                                 .path = path,
                                 .deadline_us = 3600 * US_PER_S,
                                 .data = take_bytes,
                                 .done = stream_end,
                                 .ctx = &s[i]};
        assert_ok(http_start(w->http, w->server, &r, &id, &e), &e);
    }
}

static void watcher_stop(struct watcher *w)
{
    http_client_free(w->http);
    http_server_free(w->server);
    buf_fini(&w->line[0]);
    buf_fini(&w->line[1]);
    mem_free(w->seen);
}

static long version_of(struct apiserver *api, const char *path)
{
    char *text = apiserver_field(api, path, "metadata.resourceVersion");
    assert_non_null(text);
    long v = strtol(text, NULL, 10);
    mem_free(text);
    return v;
}

static void watcher_catch_up(struct watcher *w, struct apiserver *api)
{
    int64_t until = clock_mono_us() + 10 * US_PER_S;
    long want[2] = {version_of(api, WORKLOAD_PATH), version_of(api, TARGET_PATH)};
    while (w->newest[0] < want[0] || w->newest[1] < want[1]) {
        (void)http_poll(w->http, 10000);
        if (clock_mono_us() > until)
            fail_msg("the watcher does not see versions %ld and %ld", want[0], want[1]);
    }
}

static int by_version(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return (x->version > y->version) - (x->version < y->version);
}

/* Intents that were seen, and which of them acted: the newest, over sequences. */
enum { USED = 4096 };
struct used {
    char id[USED][STATUS_ID];
    size_t n;
    struct seen intent[USED];
    size_t n_intents;
    int late; /* acted after their intent was cleared */
};

static bool used_has(const struct used *u, const char *id)
{
    for (size_t i = 0; i < USED && i < u->n; i++)
        if (strcmp(u->id[i], id) == 0)
            return true;
    return false;
}

/* What the status says of an intent that ended, against what happened before. It may say abandoned
 * of what was done only when somebody changed the size before it could be read back. */
static void check_outcome(const struct used *u, const struct seen *s, int32_t size, uint64_t seed)
{
    bool says = s->result == OUTCOME_EXECUTED || s->result == OUTCOME_FOUND,
         did = used_has(u, s->outcome);
    if (*s->outcome && says != did && (says || size == s->outcome_to))
        fail_msg("sequence %llu: outcome of %s is %s, and it was %sdone", (unsigned long long)seed,
                 s->outcome, outcome_name((enum outcome_result)s->result), did ? "" : "not ");
}

static void remember_intent(struct used *u, const struct seen *s)
{
    const struct seen *last = u->n_intents ? &u->intent[(u->n_intents - 1) % USED] : NULL;
    if (*s->intent && (!last || strcmp(last->intent, s->intent) != 0))
        u->intent[u->n_intents++ % USED] = *s;
}

/* The newest intent for this change that has not acted; NULL: none. */
static const struct seen *find_intent(const struct used *u, int32_t from, int32_t to)
{
    for (size_t i = u->n_intents; i > 0 && u->n_intents - i < USED; i--) {
        const struct seen *s = &u->intent[(i - 1) % USED];
        if (s->from == from && s->to == to && !used_has(u, s->intent))
            return s;
    }
    return NULL;
}

/* A size that no person chose: announced, and for the first time. On a machine that is busy enough,
 * a request of a leader that crashed may outlast the wait for the next one: its intent was there,
 * and is counted as late. */
static void check_action(struct used *u, const struct seen *status, int32_t from, int32_t to,
                         uint64_t seed)
{
    bool stands = status && *status->intent && status->from == from && status->to == to;
    const struct seen *intent = stands ? status : find_intent(u, from, to);
    if (!intent)
        fail_msg("sequence %llu: %d -> %d without an intent", (unsigned long long)seed, from, to);
    else if (used_has(u, intent->intent))
        fail_msg("sequence %llu: intent %s acted twice", (unsigned long long)seed, intent->intent);
    else
        memcpy(u->id[u->n++ % USED], intent->intent, STATUS_ID);
    u->late += !stands;
}

/* The history of one sequence; starts at size `before`. */
static void check_history(struct watcher *w, struct used *u, int32_t before, uint64_t seed)
{
    const struct seen *status = NULL;
    int32_t size = before;
    qsort(w->seen, w->n, sizeof *w->seen, by_version);
    for (size_t i = 0; i < w->n; i++) {
        const struct seen *s = &w->seen[i];
        if (!s->size) {
            check_outcome(u, s, size, seed);
            remember_intent(u, s);
            status = s;
        } else if (s->replicas != size) {
            if (s->replicas < PEOPLE)
                check_action(u, status, size, s->replicas, seed);
            size = s->replicas;
        }
    }
    w->n = 0;
}

/* ---- the sequence ---------------------------------------------------------------------------- */

struct sweep {
    struct apiserver *api;
    struct rig_replica r[2];
    struct watcher w;
    struct stream streams[2];
    struct used *used;
    struct rng rng;
    int leader;      /* -1: nobody for now */
    int64_t free_us; /* when the next may lead */
    int next_id;
    int n_orders, n_done, n_found, n_abandoned, n_pending, n_crashes, n_faults;
};

/* The lease: another leads only when the last one's requests are over. */
static void drop_leader(struct sweep *s)
{
    s->leader = -1;
    s->free_us = clock_mono_us() + DEADLINE_US + LATE_US;
    for (int i = 0; i < 2; i++)
        s->r[i].may_status = s->r[i].may_scale = false;
}

static void elect(struct sweep *s)
{
    if (s->leader >= 0 || clock_mono_us() < s->free_us)
        return;
    s->leader = (int)rng_below(&s->rng, 2);
    struct rig_replica *r = &s->r[s->leader];
    executor_forget(r->x);
    r->may_status = r->may_scale = true;
}

static void crash(struct sweep *s, int i)
{
    executor_free(s->r[i].x);
    rig_executor(&s->r[i]);
    s->n_crashes++;
    if (i == s->leader)
        drop_leader(s);
}

static void random_fault(struct sweep *s)
{
    static const struct apiserver_fault kinds[] = {
        {.kind = APISERVER_STATUS, .status = 409},
        {.kind = APISERVER_STATUS, .status = 429, .plain = true},
        {.kind = APISERVER_STATUS, .status = 500},
        {.kind = APISERVER_STATUS, .status = 504},
        {.kind = APISERVER_AFTER, .status = 500},
        {.kind = APISERVER_AFTER, .status = 504},
        {.kind = APISERVER_CUT},
        {.kind = APISERVER_CUT_AFTER},
        {.kind = APISERVER_HALF_BODY},
        {.kind = APISERVER_GARBAGE},
        {.kind = APISERVER_LATENCY, .latency_us = LATE_US},
        {.kind = APISERVER_LATENCY, .latency_us = 5000}};
    static const char *const methods[] = {NULL, "GET", "PUT", "PATCH"};
    struct apiserver_fault f = kinds[rng_below(&s->rng, ARRAY_LEN(kinds))];
    f.method = methods[rng_below(&s->rng, ARRAY_LEN(methods))];
    f.token = APISERVER_ADMIN_TOKEN;
    f.count = 1 + (int)rng_below(&s->rng, 3);
    f.skip = (int)rng_below(&s->rng, 3);
    (void)apiserver_fault(s->api, &f);
    s->n_faults++;
}

static void count_result(struct sweep *s, const struct act_result *r)
{
    s->n_done += r->outcome == OUTCOME_EXECUTED;
    s->n_found += r->outcome == OUTCOME_FOUND;
    s->n_abandoned += r->outcome == OUTCOME_ABANDONED || r->outcome == OUTCOME_FAILED;
    s->n_pending += r->pending;
}

/* What the daemon does with its leader each round. */
static void lead(struct sweep *s, struct rig_replica *r)
{
    struct err e;
    bool begun;
    if (executor_busy(r->x))
        return;
    if (!rng_below(&s->rng, 2))
        rig_see(s->api, r); /* else the informer lags */
    if (executor_pending(r->x)) {
        assert_ok(executor_reconcile(r->x, &e), &e);
        return;
    }
    struct target_status status = *executor_status(r->x);
    if (!rng_below(&s->rng, 4)) {
        status.ready = (int32_t)rng_below(&s->rng, 40);
        assert_ok(executor_publish(r->x, &status, true, &begun, &e), &e);
        return;
    }
    int from = rig_size(s->api), to = 1 + (int)rng_below(&s->rng, 40);
    char id[32];
    (void)snprintf(id, sizeof id, "%s-%d", r->holder, s->next_id++);
    if (to != from && rig_order(r, id, from, to, &e) == ERR_OK)
        s->n_orders++;
}

static void disturb(struct sweep *s)
{
    uint32_t dice = rng_below(&s->rng, 100);
    if (dice < 25)
        random_fault(s);
    else if (dice < 30)
        crash(s, (int)rng_below(&s->rng, 2));
    else if (dice < 33 && s->leader >= 0)
        drop_leader(s);
    else if (dice < 38)
        rig_person(s->api, PEOPLE + (int)rng_below(&s->rng, 10));
    else if (dice < 48)
        rig_touch(s->api, WORKLOAD_PATH, s->next_id++);
    else if (dice < 53)
        rig_touch(s->api, TARGET_PATH, s->next_id++);
    else if (dice < 56)
        s->r[0].refuse_commit = !s->r[0].refuse_commit;
}

static void move(struct sweep *s)
{
    for (int i = 0; i < 2; i++) {
        int done = s->r[i].n_done;
        (void)kube_poll(s->r[i].kube, 500 + rng_below(&s->rng, 3000));
        if (s->r[i].n_done > done)
            count_result(s, &s->r[i].last);
        s->r[i].mono_us += 2 * US_PER_S; /* lost writes settle within the sequence */
        s->r[i].now_us += US_PER_S;
    }
    (void)http_poll(s->w.http, 0);
}

/* Without faults, whoever leads brings everything to rest. */
static void come_to_rest(struct sweep *s, uint64_t seed)
{
    int64_t until = clock_mono_us() + 20 * US_PER_S;
    struct target_status status;
    struct err e;
    apiserver_clear(s->api, 0);
    s->r[0].refuse_commit = false;
    for (;;) {
        elect(s);
        move(s);
        rig_status(s->api, &status, NULL);
        bool busy = executor_busy(s->r[0].x) || executor_busy(s->r[1].x);
        if (s->leader >= 0 && !busy) {
            struct rig_replica *r = &s->r[s->leader];
            rig_see(s->api, r);
            if (!executor_pending(r->x) && !*status.intent.id)
                return;
            if (executor_pending(r->x))
                assert_ok(executor_reconcile(r->x, &e), &e);
        }
        if (clock_mono_us() > until)
            fail_msg("sequence %llu does not come to rest: intent %s", (unsigned long long)seed,
                     status.intent.id);
    }
}

static void run_sequence(struct sweep *s, uint64_t seed)
{
    int32_t before = rig_size(s->api);
    s->rng = rng_from_key(seed);
    for (int step = 0; step < STEPS; step++) {
        elect(s);
        disturb(s);
        if (s->leader >= 0)
            lead(s, &s->r[s->leader]);
        move(s);
    }
    come_to_rest(s, seed);
    watcher_catch_up(&s->w, s->api);
    check_history(&s->w, s->used, before, seed);
}

TEST(two_replicas_under_random_faults_never_act_twice_or_without_intent)
{
    struct sweep s = {.leader = -1};
    s.api = rig_server();
    s.used = mem_zero(1, sizeof *s.used);
    rig_replica_start(&s.r[0], s.api, "a", DEADLINE_US);
    rig_replica_start(&s.r[1], s.api, "b", DEADLINE_US);
    drop_leader(&s);
    watcher_start(&s.w, s.streams, s.api);
    const char *asked = getenv("SWEEP_SEQUENCES");
    uint64_t n = asked ? strtoull(asked, NULL, 10) : SEQUENCES;
    for (uint64_t i = 0; i < n; i++)
        run_sequence(&s, rng_mix(test_seed()) + i);
    print_message(
        "%llu sequences: %d orders, %d done, %d found, %d abandoned or failed, %d left pending; "
        "%d crashes, %d faults; %d late\n",
        (unsigned long long)n, s.n_orders, s.n_done, s.n_found, s.n_abandoned, s.n_pending,
        s.n_crashes, s.n_faults, s.used->late);
    assert_true(s.n_done > (int)n / 4 && s.n_abandoned > 0 && s.n_pending > 0);
    assert_true(s.used->late <= (int)n / 20);
    watcher_stop(&s.w);
    rig_replica_stop(&s.r[0]);
    rig_replica_stop(&s.r[1]);
    apiserver_free(s.api);
    mem_free(s.used);
}
