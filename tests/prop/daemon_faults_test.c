/* Two replicas under random faults of the API server, Prometheus, the disk, clocks and processes.
 *
 * Each sequence is a fresh target and some twenty rounds in which anything may happen: requests that fail, are answered
 * late, not at all or after the work was done; a leader killed, deposed, or replaced while its requests are under
 * way; a store that cannot be written; metrics that vanish or lie; clocks that jump; people who freeze and who put
 * sizes back.  From the API server's own record:
 *
 *   - every accepted size lies within the target's bounds, and grows no faster than the guard's rate cap allows
 *   - every accepted size was announced: an intent with these numbers was accepted before it
 *   - no intent is carried out twice
 *   - no replica wrote while it did not lead
 *   - every intent has its record in the store of the replica that made it, and its record an outcome in the end
 *   - when the faults end, decisions go on and nothing stays open
 *
 * FAULT_SEQUENCES (default 40; `make check-long`: 10,000) says how many. */
#include <signal.h>
#include <sys/resource.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "store/store.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

enum { ROUNDS = 20, CALM_ROUNDS = 10, UNITS_MAX = 40, LOG_MAX = 20000, INTENTS_MAX = 400 };

struct intent {
    char id[80];
    int from, to;
    int carried_out; /* sizes accepted for it */
};

struct sequence {
    struct live_world *w;
    struct rng rng;
    char name[32];
    uint64_t seed;
    double qps;
    uint64_t log_from;
    struct intent intent[INTENTS_MAX];
    int n_intents;
    int units_calm;    /* when the faults ended */
};

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

static void put_back(struct sequence *s)
{
    char path[160], body[64];
    (void)snprintf(path, sizeof path, "/apis/apps/v1/namespaces/shop/deployments/%s/scale", s->name);
    (void)snprintf(body, sizeof body, "{\"spec\":{\"replicas\":%d}}", 1 + (int)rng_below(&s->rng, UNITS_MAX));
    (void)apiserver_call(s->w->api, "PATCH", path, NULL, body, NULL);
}

static void something(struct sequence *s)
{
    struct live_world *w = s->w;
    int i = (int)rng_below(&s->rng, LIVE_REPLICAS);
    switch (rng_below(&s->rng, 14)) {
    case 0: case 1: case 2: case 3: api_fault(s); break;
    case 4: fake_prometheus_fault(w->prom, (enum fake_fault)rng_below(&s->rng, FAKE_FAULTS)); break;
    case 5: fake_prometheus_fault(w->prom, FAKE_FINE), disk_full(false); break;
    case 6: w->leader = i; break;
    case 7: w->leader = -1; break;
    case 8: restart(s, i); break;
    case 9: s->qps = 100 + rng_unit(&s->rng) * 3000; break;
    case 10: w->skew_us[i] = (int64_t)(rng_unit(&s->rng) * 120e6 - 60e6); break;
    case 11: put_back(s); break;
    case 12: disk_full(true); break;
    default: break;
    }
}

/* ---- what the API server saw -------------------------------------------------------------------- */

static struct intent *intent_find(struct sequence *s, int from_i, int to)
{
    for (int i = s->n_intents; i-- > from_i;)
        if (s->intent[i].to == to && !s->intent[i].carried_out)
            return &s->intent[i];
    return NULL;
}

static void note_intent(struct sequence *s, const char *body)
{
    struct json_doc *doc;
    struct err e;
    if (json_parse(body, strlen(body), 1 << 20, "status", &doc, &e))
        return;
    const struct json *v = json_find(json_find(json_root(doc), "status"), "intent");
    const char *id = json_text(json_find(v, "id"));
    if (id && (!s->n_intents || strcmp(s->intent[s->n_intents - 1].id, id) != 0) && s->n_intents < INTENTS_MAX) {
        struct intent *n = &s->intent[s->n_intents++];
        *n = (struct intent){.from = (int)json_number(json_find(v, "from")), .to = (int)json_number(json_find(v, "to"))};
        (void)snprintf(n->id, sizeof n->id, "%s", id);
    }
    json_free(doc);
}

static void check_size(struct sequence *s, const struct apiserver_record *r)
{
    struct json_doc *doc;
    struct err e;
    assert_ok(json_parse(r->body, strlen(r->body), 1 << 20, "scale", &doc, &e), &e);
    int to = (int)json_number(json_find(json_find(json_root(doc), "spec"), "replicas"));
    json_free(doc);
    if (to < 1 || to > UNITS_MAX)
        fail_msg("seed %llu: size %d is out of bounds", (unsigned long long)s->seed, to);
    struct intent *n = intent_find(s, 0, to);
    if (!n)
        fail_msg("seed %llu: size %d was written without an open intent", (unsigned long long)s->seed, to);
    n->carried_out++;
}

static void check_log(struct sequence *s)
{
    static struct apiserver_record log[LOG_MAX];
    size_t n = apiserver_log(s->w->api, s->log_from, log, LOG_MAX);
    s->log_from += n;
    for (size_t i = 0; i < n; i++) {
        struct apiserver_record *r = &log[i];
        bool ours = strcmp(r->name, s->name) == 0 && r->write && r->status >= 200 && r->status < 300;
        if (ours && strcmp(r->resource, "capacitytargets") == 0 && strcmp(r->subresource, "status") == 0)
            note_intent(s, r->body);
        if (ours && strcmp(r->subresource, "scale") == 0 && strcmp(r->verb, "update") == 0)
            check_size(s, r);
        apiserver_record_fini(r);
    }
}

/* ---- in the end --------------------------------------------------------------------------------- */

static bool count_row(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)d;
    (void)t;
    ++*(int *)ctx;
    return true;
}

static int rows(struct sequence *s, int i, bool pending, bool acted)
{
    struct store_query q = {.namespace_ = "shop", .name = s->name, .pending = pending, .acted = acted};
    struct store *store;
    struct err e;
    int n = 0;
    char *path = store_path_default(s->w->seat[i].dir);
    struct store_opts o = store_opts_default(path);
    o.read_only = true;
    assert_ok(store_open(&o, &store, &e), &e);
    assert_ok(store_decisions(store, &q, count_row, &n, &e), &e);
    store_close(store);
    mem_free(path);
    return n;
}

static void calm(struct sequence *s)
{
    struct live_world *w = s->w;
    disk_full(false);
    apiserver_clear(w->api, 0);
    fake_prometheus_fault(w->prom, FAKE_FINE);
    s->qps = 2400;
    s->units_calm = live_world_units(w, s->name);
    for (int i = 0; i < LIVE_REPLICAS; i++) {
        w->skew_us[i] = 0;
        if (!w->daemon[i])
            live_world_up(w, i);
    }
    for (int leader = 0; leader < LIVE_REPLICAS; leader++) { /* each settles its own open records */
        w->leader = leader;
        for (int i = 0; i < CALM_ROUNDS; i++) {
            live_world_demand(w, s->name, s->qps);
            live_world_round(w);
        }
    }
}

static void check_end(struct sequence *s)
{
    char path[160];
    (void)snprintf(path, sizeof path, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/%s", s->name);
    char *open = apiserver_field(s->w->api, path, "status.intent.id");
    if (open && *open)
        fail_msg("seed %llu: intent %s stays open", (unsigned long long)s->seed, open);
    mem_free(open);
    int acted = 0;
    for (int i = 0; i < LIVE_REPLICAS; i++) {
        int pending = rows(s, i, true, false);
        if (pending)
            fail_msg("seed %llu: %d records of replica %d have no outcome", (unsigned long long)s->seed, pending, i);
        acted += rows(s, i, false, true);
    }
    if (acted < s->n_intents)
        fail_msg("seed %llu: %d intents, %d records", (unsigned long long)s->seed, s->n_intents, acted);
    for (int i = 0; i < s->n_intents; i++)
        if (s->intent[i].carried_out > 1)
            fail_msg("seed %llu: intent %s was carried out %d times", (unsigned long long)s->seed, s->intent[i].id,
                     s->intent[i].carried_out);
    /* 2,400/s need 30; five minutes of the rate cap are 8 steps, some of which may have been taken just before */
    int units = live_world_units(s->w, s->name);
    if (units < 25 && units < s->units_calm + 4)
        fail_msg("seed %llu: has not recovered: %d units, were %d", (unsigned long long)s->seed, units, s->units_calm);
}

static void run(struct live_world *w, uint64_t seed)
{
    struct sequence *s = mem_zero(1, sizeof *s);
    s->w = w;
    s->seed = seed;
    s->rng = rng_stream(seed, "faults");
    s->qps = 800;
    s->log_from = apiserver_requests(w->api);
    (void)snprintf(s->name, sizeof s->name, "svc-%llu", (unsigned long long)seed);
    live_world_target(w, s->name, 10, UNITS_MAX, "");
    for (int i = 0; i < ROUNDS; i++) {
        if (rng_unit(&s->rng) < 0.6)
            something(s);
        live_world_demand(w, s->name, s->qps);
        live_world_round(w);
        check_log(s);
    }
    calm(s);
    check_log(s);
    check_end(s);
    char path[160];
    (void)snprintf(path, sizeof path, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/%s", s->name);
    (void)apiserver_call(w->api, "DELETE", path, NULL, NULL, NULL);
    (void)snprintf(path, sizeof path, "/apis/apps/v1/namespaces/shop/deployments/%s", s->name);
    (void)apiserver_call(w->api, "DELETE", path, NULL, NULL, NULL);
    fake_prometheus_clear(w->prom);
    mem_free(s);
}

TEST(two_replicas_under_random_faults_stay_in_bounds_never_act_twice_and_recover)
{
    const char *text = getenv("FAULT_SEQUENCES");
    int64_t n = 40;
    if (text)
        assert_true(num_i64(text, strlen(text), &n));
    struct live_world w;
    (void)signal(SIGXFSZ, SIG_IGN); /* a write over the limit fails instead */
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_up(&w, 0);
    live_world_up(&w, 1);
    for (int64_t i = 0; i < n; i++)
        run(&w, test_seed() * 1000003 + (uint64_t)i);
    live_world_stop(&w);
}
