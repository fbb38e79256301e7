/* Two replicas under random faults of the API server, Prometheus, the disk, clocks, processes and people.
 *
 * Each sequence is a fresh target and some twenty rounds in which anything may happen: requests that fail, are answered
 * late, not at all or after the work was done; a leader killed, deposed or joined by a second one, between rounds or at
 * any turn of an action; a store that cannot be written; metrics that vanish or lie; clocks that jump; people who
 * freeze, unfreeze and put sizes back.  The API server's own record says what was done, whatever was answered:
 *
 *   - every size lies within the target's bounds
 *   - every size replaces the one it was decided on, whoever changed it meanwhile
 *   - every size was announced: it is written while an intent for it stands in the status (where a process was cut off with
 *     requests under way: after one did), and no intent is carried out twice
 *   - sizes and statuses are written by a replica that leads, sizes by one that nobody froze
 *   - whoever leads: no growth within a minute of the last action, and none faster than the guard's rate cap
 *   - every intent has its record in the store of the replica that made it, the record has an outcome in the end, and one
 *     that says "done" is of a size that was written
 *   - when the faults end, decisions go on and nothing stays open
 *
 * FAULT_SEQUENCES (default 40; tools/check long: 10,000) says how many; FAULT_SEED runs one again, alone. */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "store/store.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

enum {
    ROUNDS = 20,
    CALM_ROUNDS = 4,      /* of the first leader; the second's go on until the target has recovered */
    RECOVER_ROUNDS = 80,  /* 20 min: a breaker opened at the last moment (10), a start on trial, the rate cap's window (5) */
    UNITS_START = 10,
    UNITS_MAX = 40,
    LOG_MAX = 20000,
    ACTIONS_MAX = 400,
    TURNS_MAX = 30,       /* an action takes fewer */
    WORLD_SEQUENCES = 250, /* then both replicas start over with empty folders */
    UP_STEPS = 8,         /* of the guard, within five minutes */
};
#define UP_WINDOW_US INT64_C(300000000)
#define OUT_WAIT_US INT64_C(60000000)

struct intent {
    char id[80];
    int replica, from, to;
    int64_t decision;
    int carried_out; /* sizes accepted for it */
    int64_t at_us;   /* when */
};

struct sequence {
    struct live_world *w;
    struct rng rng;
    char name[32];
    uint64_t seed;
    double qps;
    uint64_t log_from;
    struct intent intent[ACTIONS_MAX];
    int n_intents;
    int open;                   /* the one in the status; -1: none */
    int carried[ACTIONS_MAX];   /* intents, as their sizes were written */
    int n_carried;
    bool frozen[LIVE_REPLICAS];   /* for certain */
    int under_way[LIVE_REPLICAS]; /* requests that may have left just before the replica was deposed, frozen or killed */
    bool skewed;                /* clocks jump in this sequence: waits are not what the test's clock says */
    int size, size_before;      /* now, and before a person changed it last */
    int64_t person_us[2];       /* real time just before and after that */
    int cut_off;                /* rounds in which a request may still be on its way that nobody waits for */
    int units_calm;             /* when the faults ended */
};

/* A seed alone repeats a sequence but for the order in which requests of the two replicas arrive. */
#define FAIL(s, ...)                                                                                \
    do {                                                                                            \
        char why_[400];                                                                             \
        (void)snprintf(why_, sizeof why_, __VA_ARGS__);                                             \
        apiserver_print_log((s)->w->api, 60);                                                       \
        fail_msg("seed %llu: %s", (unsigned long long)(s)->seed, why_);                             \
    } while (0)

/* ---- faults ------------------------------------------------------------------------------------ */

static void api_fault(struct sequence *s)
{
    static const struct apiserver_fault kinds[] = {
        {.kind = APISERVER_STATUS, .status = 409},
        {.kind = APISERVER_STATUS, .status = 429, .plain = true},
        {.kind = APISERVER_STATUS, .status = 500},
        {.kind = APISERVER_STATUS, .status = 504},
        {.kind = APISERVER_STATUS, .status = 403},
        {.kind = APISERVER_AFTER, .status = 500},
        {.kind = APISERVER_AFTER, .status = 504},
        {.kind = APISERVER_CUT},
        {.kind = APISERVER_CUT_AFTER},
        {.kind = APISERVER_HALF_BODY},
        {.kind = APISERVER_GARBAGE},
        {.kind = APISERVER_EXPIRE, .method = "WATCH"},
        {.kind = APISERVER_HALF_BODY, .method = "WATCH"},
    };
    static const char *const paths[] = {NULL, "/scale", "/status", "capacitytargets", "pods"};
    struct apiserver_fault f = kinds[rng_below(&s->rng, ARRAY_LEN(kinds))];
    f.path = paths[rng_below(&s->rng, ARRAY_LEN(paths))];
    f.count = 1 + (int)rng_below(&s->rng, 3);
    f.skip = (int)rng_below(&s->rng, 3);
    (void)apiserver_fault(s->w->api, &f);
}

/* A disk that takes no more: no file of this process may grow (the stores of both replicas among them). */
static void disk_full(bool full)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = full ? 4096 : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void restart(struct sequence *s, int i)
{
    disk_full(false); /* a start needs its store; failing to start is another test */
    if (s->w->daemon[i])
        live_world_down(s->w, i);
    live_world_up(s->w, i);
}

/* Nobody, either, or both: each believes it does. */
static void lead(struct sequence *s, int leader)
{
    s->w->leader = leader;
}

static bool leads(const struct sequence *s, int i)
{
    return s->w->leader == i || s->w->leader == LIVE_BOTH;
}

static void freeze(struct sequence *s, int i)
{
    assert_int_equal(live_world_post(s->w, i, "/api/v1/freeze", "{\"author\":\"ann\",\"reason\":\"test\"}"), 200);
    s->frozen[i] = true;
}

/* The word of one reaches the other through the status, when there is a leader to write it. */
static void unfreeze(struct sequence *s, int i)
{
    disk_full(false);
    assert_int_equal(live_world_post(s->w, i, "/api/v1/unfreeze", "{\"author\":\"ann\",\"reason\":\"test\"}"), 200);
    memset(s->frozen, 0, sizeof s->frozen);
}

static void put_back(struct sequence *s)
{
    char path[160], body[64];
    (void)snprintf(path, sizeof path, "/apis/apps/v1/namespaces/shop/deployments/%s/scale", s->name);
    int to = 1 + (int)rng_below(&s->rng, UNITS_MAX);
    (void)snprintf(body, sizeof body, "{\"spec\":{\"replicas\":%d}}", to);
    s->size_before = live_world_units(s->w, s->name);
    s->person_us[0] = clock_mono_us();
    assert_int_equal(apiserver_call(s->w->api, "PATCH", path, NULL, body, NULL), 200);
    s->person_us[1] = clock_mono_us();
    s->size = to;
}

static void something(struct sequence *s)
{
    struct live_world *w = s->w;
    int i = (int)rng_below(&s->rng, LIVE_REPLICAS);
    switch (rng_below(&s->rng, 18)) {
    case 0: case 1: case 2: case 3: api_fault(s); break;
    case 4: fake_prometheus_fault(w->prom, (enum fake_fault)rng_below(&s->rng, FAKE_FAULTS)); break;
    case 5: fake_prometheus_fault(w->prom, FAKE_FINE), disk_full(false); break;
    case 6: case 7: lead(s, i); break;
    case 8: lead(s, LIVE_NOBODY); break;
    case 9: lead(s, LIVE_BOTH); break;
    case 10: restart(s, i); break;
    case 11: s->qps = 100 + rng_unit(&s->rng) * 3000; break;
    case 12: w->skew_us[i] = s->skewed ? (int64_t)(rng_unit(&s->rng) * 120e6 - 60e6) : 0; break;
    case 13: put_back(s); break;
    case 14: disk_full(true); break;
    case 15: freeze(s, i); break;
    case 16: unfreeze(s, i); break;
    default: (void)kill(getpid(), SIGUSR1); break; /* one of the two takes it */
    }
}

/* ---- what the API server saw -------------------------------------------------------------------- */

static int replica_of(struct sequence *s, const struct apiserver_record *r)
{
    for (int i = 0; i < LIVE_REPLICAS; i++)
        if (strcmp(r->user, s->w->seat[i].user) == 0)
            return i;
    FAIL(s, "%s %s by \"%s\"", r->verb, r->path, r->user);
    return 0;
}

static int intent_find(const struct sequence *s, const char *id)
{
    for (int i = s->n_intents; i-- > 0;)
        if (strcmp(s->intent[i].id, id) == 0)
            return i;
    return -1;
}

static int intent_add(struct sequence *s, const struct json *v, const char *id, int replica)
{
    const char *number = strchr(id, '-');
    assert_true(s->n_intents < ACTIONS_MAX);
    struct intent *n = &s->intent[s->n_intents];
    *n = (struct intent){.replica = replica, .from = (int)json_number(json_find(v, "from")),
                         .to = (int)json_number(json_find(v, "to"))};
    (void)snprintf(n->id, sizeof n->id, "%s", id);
    assert_true(number && num_i64(number + 1, strlen(number + 1), &n->decision));
    return s->n_intents++;
}

/* A status was written: which intent stands in it now? */
static void note_status(struct sequence *s, const struct apiserver_record *r)
{
    struct json_doc *doc;
    struct err e;
    assert_ok(json_parse(r->body, strlen(r->body), 1 << 20, "status", &doc, &e), &e);
    const struct json *v = json_find(json_find(json_root(doc), "status"), "intent");
    const char *id = json_text(json_find(v, "id"));
    s->open = id ? intent_find(s, id) : -1;
    if (id && s->open < 0)
        s->open = intent_add(s, v, id, replica_of(s, r));
    json_free(doc);
}

static int size_of(const struct apiserver_record *r)
{
    struct json_doc *doc;
    struct err e;
    assert_ok(json_parse(r->body, strlen(r->body), 1 << 20, "scale", &doc, &e), &e);
    int to = (int)json_number(json_find(json_find(json_root(doc), "spec"), "replicas"));
    json_free(doc);
    return to;
}

/* The intent a size belongs to: the one that stands open, or one that did when its process was cut off. */
static struct intent *intent_of(struct sequence *s, int to)
{
    if (s->open >= 0 && s->intent[s->open].to == to)
        return &s->intent[s->open];
    for (int i = s->n_intents; s->cut_off && i-- > 0;)
        if (s->intent[i].to == to && !s->intent[i].carried_out)
            return &s->intent[i];
    FAIL(s, "size %d was written without an open intent", to);
    return NULL;
}

/* No growth too soon after another action, nor too much in five minutes: over all replicas that led meanwhile. */
static void check_pace(struct sequence *s, const struct intent *now)
{
    int cap = max_int(UP_STEPS, (now->from + 3) / 4), added = now->to - now->from;
    if (s->skewed || added <= 0)
        return;
    for (int i = s->n_carried; i-- > 0;) {
        const struct intent *x = &s->intent[s->carried[i]];
        int64_t ago_us = now->at_us - x->at_us;
        if (ago_us < OUT_WAIT_US)
            FAIL(s, "%d -> %d came %.0f s after %d -> %d", now->from, now->to, (double)ago_us * 1e-6, x->from, x->to);
        if (ago_us < UP_WINDOW_US && x->to > x->from)
            added += x->to - x->from;
    }
    if (added > cap)
        FAIL(s, "%d -> %d: %d units were added in five minutes, %d may be", now->from, now->to, added, cap);
}

/* The size that stood when this one was written must be the one it was decided on. */
static void check_from(struct sequence *s, const struct intent *n, int64_t mono_us)
{
    bool earlier = mono_us <= s->person_us[0], later = mono_us > s->person_us[1];
    int stood = earlier ? s->size_before : s->size;
    if ((earlier || later) && stood != n->from)
        FAIL(s, "%d -> %d was written when the size was %d", n->from, n->to, stood);
    if (later)
        s->size = n->to;
    else
        s->size_before = n->to;
}

static void note_size(struct sequence *s, const struct apiserver_record *r)
{
    int to = size_of(r), replica = replica_of(s, r);
    if (to < 1 || to > UNITS_MAX)
        FAIL(s, "size %d is out of bounds", to);
    if (s->frozen[replica] && s->under_way[replica]-- <= 0)
        FAIL(s, "size %d was written by frozen replica %d", to, replica);
    struct intent *n = intent_of(s, to);
    if (n->carried_out++)
        FAIL(s, "intent %s was carried out twice", n->id);
    n->at_us = s->w->now_us;
    check_from(s, n, r->mono_us);
    check_pace(s, n);
    s->carried[s->n_carried++] = (int)(n - s->intent);
}

static void note_write(struct sequence *s, const struct apiserver_record *r)
{
    bool size = strcmp(r->subresource, "scale") == 0 && strcmp(r->verb, "update") == 0;
    bool status = strcmp(r->resource, "capacitytargets") == 0 && strcmp(r->subresource, "status") == 0;
    int replica = replica_of(s, r);
    if ((size || status) && !leads(s, replica) && s->under_way[replica]-- <= 0)
        FAIL(s, "%s was written by replica %d, which does not lead", size ? "a size" : "the status", replica);
    if (status)
        note_status(s, r);
    if (size)
        note_size(s, r);
}

static void check_log(struct sequence *s)
{
    static struct apiserver_record log[LOG_MAX];
    size_t n = apiserver_log(s->w->api, s->log_from, log, LOG_MAX);
    s->log_from += n;
    for (size_t i = 0; i < n; i++) {
        struct apiserver_record *r = &log[i];
        bool person = strncmp(r->user, "r", 1) != 0 || strlen(r->user) != 2;
        if (!person && r->write && strcmp(r->name, s->name) == 0 && r->did >= 200 && r->did < 300)
            note_write(s, r);
        apiserver_record_fini(r);
    }
}

/* At any turn of an action. */
static void something_in_between(struct sequence *s)
{
    int i = (int)rng_below(&s->rng, LIVE_REPLICAS);
    check_log(s);
    s->cut_off = 2;
    for (int k = 0; k < LIVE_REPLICAS; k++)
        s->under_way[k] = 1; /* an action has one request at a time */
    switch (rng_below(&s->rng, 8)) {
    case 0: restart(s, i), lead(s, 1 - i); break; /* the other takes over at once */
    case 1: restart(s, i); break;
    case 2: lead(s, i); break;
    case 3: lead(s, LIVE_BOTH); break;
    case 4: freeze(s, i); break;
    case 5: case 6: put_back(s); break; /* a person is quicker */
    default: disk_full(true); break;
    }
}

/* ---- what the stores hold ----------------------------------------------------------------------- */

struct rows {
    struct {
        int64_t id;
        enum store_action action;
        int from, to;
    } v[ACTIONS_MAX];
    int n;
};

static bool add_row(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct rows *r = ctx;
    (void)t;
    assert_true(r->n < ACTIONS_MAX);
    r->v[r->n].id = d->id;
    r->v[r->n].action = d->action;
    r->v[r->n].from = d->units_before;
    r->v[r->n++].to = d->executed;
    return true;
}

static void read_rows(struct sequence *s, int replica, struct rows *r)
{
    struct store_query q = {.namespace_ = "shop", .name = s->name, .acted = true};
    struct store *store;
    struct err e;
    char *path = store_path_default(s->w->seat[replica].dir);
    struct store_opts o = store_opts_default(path);
    o.read_only = true;
    r->n = 0;
    assert_ok(store_open(&o, &store, &e), &e);
    assert_ok(store_decisions(store, &q, add_row, r, &e), &e);
    store_close(store);
    mem_free(path);
}

static void check_record(struct sequence *s, const struct intent *n, const struct rows *r)
{
    for (int i = 0; i < r->n; i++) {
        if (r->v[i].id != n->decision)
            continue;
        if (r->v[i].from != n->from || r->v[i].to != n->to)
            FAIL(s, "intent %s is %d -> %d, its record %d -> %d", n->id, n->from, n->to, r->v[i].from, r->v[i].to);
        if (r->v[i].action == STORE_DONE && !n->carried_out)
            FAIL(s, "the record of intent %s says done, but it was not", n->id);
        return;
    }
    FAIL(s, "intent %s has no record", n->id);
}

static void check_records(struct sequence *s)
{
    static struct rows rows[LIVE_REPLICAS];
    for (int i = 0; i < LIVE_REPLICAS; i++) {
        read_rows(s, i, &rows[i]);
        for (int k = 0; k < rows[i].n; k++)
            if (rows[i].v[k].action == STORE_INTENDED)
                FAIL(s, "decision %lld of replica %d has no outcome", (long long)rows[i].v[k].id, i);
    }
    for (int i = 0; i < s->n_intents; i++)
        check_record(s, &s->intent[i], &rows[s->intent[i].replica]);
}

/* ---- in the end --------------------------------------------------------------------------------- */

/* Sizes put back twice make sluice yield until the spec changes: somebody has looked. */
static void touch_spec(struct sequence *s)
{
    char path[160];
    (void)snprintf(path, sizeof path, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/%s", s->name);
    assert_int_equal(apiserver_call(s->w->api, "PATCH", path, NULL, "{\"spec\":{\"startSeconds\":61}}", NULL), 200);
}

static void end_faults(struct sequence *s)
{
    struct live_world *w = s->w;
    disk_full(false);
    apiserver_clear(w->api, 0);
    fake_prometheus_fault(w->prom, FAKE_FINE);
    for (int i = 0; i < LIVE_REPLICAS; i++) {
        w->skew_us[i] = 0;
        unfreeze(s, i);
    }
    touch_spec(s);
    s->qps = 2400;
    s->units_calm = live_world_units(w, s->name);
}

/* Nothing is under way any more, unless a busy machine ran out of time. */
static void end_round(struct sequence *s)
{
    check_log(s);
    for (int i = 0; i < LIVE_REPLICAS; i++)
        s->under_way[i] = !live_world_quiet(s->w);
    s->cut_off -= s->cut_off > 0;
}

static void one_round(struct sequence *s)
{
    live_world_demand(s->w, s->name, s->qps);
    live_world_round(s->w);
    end_round(s);
}

/* 2,400/s need 30; eight are added in five minutes, some of which may have been just before. */
static bool recovered(const struct sequence *s)
{
    int units = live_world_units(s->w, s->name);
    return units >= 25 || units >= s->units_calm + 4;
}

static void fail_unrecovered(struct sequence *s)
{
    char path[160];
    (void)snprintf(path, sizeof path, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/%s", s->name);
    char *status = apiserver_field(s->w->api, path, "status");
    print_message("%s\n", status ? status : "no status");
    mem_free(status);
    FAIL(s, "has not recovered: %d units, were %d", live_world_units(s->w, s->name), s->units_calm);
}

static void calm(struct sequence *s)
{
    end_faults(s);
    for (int leader = 0; leader < LIVE_REPLICAS; leader++) { /* each settles its own open records */
        lead(s, leader);
        for (int i = 0; i < CALM_ROUNDS; i++)
            one_round(s);
    }
    for (int i = 0; i < RECOVER_ROUNDS && !(recovered(s) && s->open < 0); i++)
        one_round(s);
    if (!recovered(s))
        fail_unrecovered(s);
    if (s->open >= 0)
        FAIL(s, "intent %s stays open", s->intent[s->open].id);
}

/* ---- a sequence --------------------------------------------------------------------------------- */

static void faulty_round(struct sequence *s)
{
    if (rng_unit(&s->rng) < 0.6)
        something(s);
    live_world_demand(s->w, s->name, s->qps);
    if (rng_unit(&s->rng) < 0.25) {
        live_world_begin_round(s->w, (int)rng_below(&s->rng, TURNS_MAX));
        something_in_between(s);
        live_world_turn(s->w);
    } else {
        live_world_round(s->w);
    }
    end_round(s);
}

static void forget_target(struct sequence *s)
{
    char path[160];
    (void)snprintf(path, sizeof path, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/%s", s->name);
    (void)apiserver_call(s->w->api, "DELETE", path, NULL, NULL, NULL);
    (void)snprintf(path, sizeof path, "/apis/apps/v1/namespaces/shop/deployments/%s", s->name);
    (void)apiserver_call(s->w->api, "DELETE", path, NULL, NULL, NULL);
    fake_prometheus_clear(s->w->prom);
}

static void run(struct live_world *w, uint64_t seed)
{
    struct sequence *s = mem_zero(1, sizeof *s);
    s->w = w;
    s->seed = seed;
    s->rng = rng_stream(seed, "faults");
    s->qps = 800;
    s->open = -1;
    s->size = UNITS_START;
    s->skewed = rng_unit(&s->rng) < 0.4;
    s->log_from = apiserver_requests(w->api);
    (void)snprintf(s->name, sizeof s->name, "svc-%llu", (unsigned long long)seed);
    live_world_target(w, s->name, UNITS_START, UNITS_MAX, "");
    for (int i = 0; i < ROUNDS; i++)
        faulty_round(s);
    calm(s);
    check_records(s);
    forget_target(s);
    mem_free(s);
}

static void run_world(uint64_t from, int64_t n, struct log *log)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    w.log = log;
    live_world_up(&w, 0);
    live_world_up(&w, 1);
    for (int64_t i = 0; i < n; i++)
        run(&w, from + (uint64_t)i);
    live_world_stop(&w);
}

static int64_t number_of(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    if (text)
        assert_true(num_i64(text, strlen(text), &otherwise));
    return otherwise;
}

TEST(two_replicas_under_random_faults_stay_in_bounds_never_act_twice_and_recover)
{
    int64_t n = number_of("FAULT_SEQUENCES", 40), one = number_of("FAULT_SEED", -1);
    sigset_t set;
    (void)signal(SIGXFSZ, SIG_IGN); /* a write over the limit fails instead */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1); /* no thread but the daemons' takes it */
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (one >= 0) {
        struct log *log = log_new(stderr, LOG_INFO);
        run_world((uint64_t)one, 1, log);
        log_free(log);
    }
    for (int64_t done = 0; done < n && one < 0; done += WORLD_SEQUENCES)
        run_world(test_seed() * 1000003 + (uint64_t)done, n - done < WORLD_SEQUENCES ? n - done : WORLD_SEQUENCES, NULL);
}
