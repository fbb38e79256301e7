#include "kube/lease.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/support/kube_rig.h"
#include "tests/support/test.h"

#define PATH "/apis/coordination.k8s.io/v1/namespaces/sluice/leases/sluice"

/* Short, but longer than a busy machine makes a test wait. */
static struct lease_opts quick(const char *holder)
{
    struct lease_opts o = lease_opts_default();
    o.ns = "sluice";
    o.name = "sluice";
    o.holder = holder;
    o.duration_us = 2 * US_PER_S;
    o.renew_us = 1400 * US_PER_MS;
    o.retry_us = 50 * US_PER_MS;
    o.margin_us = 100 * US_PER_MS;
    return o;
}

struct replica {
    struct kube_rig rig;
    struct lease *lease;
};

static void replica_start(struct replica *x, struct apiserver *api, const char *holder)
{
    struct lease_opts o = quick(holder);
    struct err e;
    kube_rig_start(&x->rig, api, NULL, NULL);
    assert_ok(lease_new(x->rig.kube, &o, &x->lease, &e), &e);
}

static void replica_stop(struct replica *x)
{
    lease_free(x->lease);
    kube_rig_stop(&x->rig);
}

static struct apiserver *server(void)
{
    struct apiserver *api = kube_rig_server(&(struct apiserver_opts){0});
    apiserver_must_load(
        api, "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"sluice\"}}");
    return api;
}

static void assert_field(struct apiserver *api, const char *field, const char *want)
{
    char *got = apiserver_field(api, PATH, field);
    if (!got || strcmp(got, want) != 0)
        fail_msg("%s is %s, not %s", field, got ? got : "absent", want);
    mem_free(got);
}

static void must_try(struct replica *x)
{
    struct err e;
    assert_ok(lease_try(x->lease, &e), &e);
}

/* Tries every retry time until it leads. */
static void until_held(struct replica *x)
{
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (!lease_held(x->lease) && clock_mono_us() < give_up_us) {
        (void)!lease_try(x->lease, NULL);
        int64_t until_us = clock_mono_us() + lease_wait_us(x->lease);
        while (!lease_held(x->lease) && clock_mono_us() < until_us)
            kube_poll(x->rig.kube, until_us - clock_mono_us());
    }
    assert_true(lease_held(x->lease));
}

TEST(first_attempt_creates_the_lease_and_leads)
{
    struct apiserver *api = server();
    struct replica a;
    replica_start(&a, api, "a");
    assert_false(lease_held(a.lease));
    assert_int_equal(lease_held_until_us(a.lease), 0);
    int64_t before_us = clock_mono_us();
    must_try(&a);
    assert_true(lease_held(a.lease));
    assert_int_equal(lease_epoch(a.lease), 1);
    assert_in_range(lease_held_until_us(a.lease) - before_us, 1900 * US_PER_MS,
                    1900 * US_PER_MS + clock_mono_us() - before_us);
    assert_field(api, "spec.holderIdentity", "a");
    assert_field(api, "spec.leaseDurationSeconds", "2");
    assert_field(api, "spec.leaseTransitions", "0");
    char *renewed = apiserver_field(api, PATH, "spec.renewTime");
    assert_int_equal(strlen(renewed), strlen("2026-11-29T12:48:36.123456Z"));
    mem_free(renewed);
    char *first = apiserver_field(api, PATH, "spec.acquireTime");
    must_try(&a);
    assert_field(api, "spec.acquireTime", first);
    mem_free(first);
    assert_int_equal(lease_epoch(a.lease), 1);
    assert_int_equal(apiserver_counted(api, "get", "leases", false),
                     1); /* renewing needs no read */
    replica_stop(&a);
    apiserver_free(api);
}

TEST(second_replica_waits_and_takes_over_only_after_the_first_has_stopped_leading)
{
    struct apiserver *api = server();
    struct replica a, b;
    replica_start(&a, api, "a");
    replica_start(&b, api, "b");
    must_try(&a);
    must_try(&b);
    assert_false(lease_held(b.lease));
    assert_string_equal(lease_holder(b.lease), "a");
    must_try(&a); /* a sign of life: b's count starts anew */
    int64_t a_until_us = lease_held_until_us(a.lease);
    until_held(&b);
    assert_true(clock_mono_us() > a_until_us);
    assert_false(lease_held(a.lease));
    assert_string_equal(lease_holder(b.lease), "b");
    assert_int_equal(lease_transitions(b.lease), 1);
    must_try(&a);
    assert_false(lease_held(a.lease));
    assert_string_equal(lease_holder(a.lease), "b");
    replica_stop(&a);
    replica_stop(&b);
    apiserver_free(api);
}

TEST(released_lease_is_taken_at_once)
{
    struct apiserver *api = server();
    struct replica a, b;
    struct err e;
    replica_start(&a, api, "a");
    replica_start(&b, api, "b");
    must_try(&a);
    must_try(&b);
    assert_ok(lease_release(a.lease, &e), &e);
    assert_false(lease_held(a.lease));
    assert_field(api, "spec.holderIdentity", "");
    must_try(&b);
    assert_true(lease_held(b.lease));
    assert_ok(lease_release(a.lease, &e), &e); /* not ours any more: nothing is written */
    assert_field(api, "spec.holderIdentity", "b");
    replica_stop(&a);
    replica_stop(&b);
    apiserver_free(api);
}

TEST(record_touched_by_somebody_is_read_again_and_keeps_what_is_not_ours)
{
    struct apiserver *api = server();
    struct replica a;
    replica_start(&a, api, "a");
    must_try(&a);
    assert_int_equal(
        apiserver_call(api, "PATCH", PATH, "application/merge-patch+json",
                       "{\"metadata\":{\"labels\":{\"team\":\"ml\"},\"annotations\":{\"x\":\"y\"}},"
                       "\"spec\":{\"strategy\":\"OldestEmulationVersion\"}}",
                       NULL),
        200);
    must_try(&a);
    assert_true(lease_held(a.lease));
    assert_field(api, "metadata.labels.team", "ml");
    assert_field(api, "metadata.annotations.x", "y");
    assert_field(api, "spec.strategy", "OldestEmulationVersion");
    assert_int_equal(lease_epoch(a.lease), 1);
    replica_stop(&a);
    apiserver_free(api);
}

TEST(deleted_lease_is_made_again)
{
    struct apiserver *api = server();
    struct replica a;
    replica_start(&a, api, "a");
    must_try(&a);
    assert_int_equal(apiserver_call(api, "DELETE", PATH, NULL, NULL, NULL), 200);
    must_try(&a);
    assert_true(lease_held(a.lease));
    assert_field(api, "spec.holderIdentity", "a");
    replica_stop(&a);
    apiserver_free(api);
}

TEST(server_that_cannot_be_asked_ends_leadership_by_itself_and_it_can_be_won_again)
{
    struct apiserver *api = server();
    struct replica a;
    struct err e;
    replica_start(&a, api, "a");
    must_try(&a);
    int64_t until_us = lease_held_until_us(a.lease);
    apiserver_down(api);
    assert_err(lease_try(a.lease, &e), ERR_IO, &e, "lease sluice/sluice: ");
    assert_int_equal(lease_held_until_us(a.lease), clock_mono_us() < until_us ? until_us : 0);
    while (clock_mono_us() < until_us)
        kube_poll(a.rig.kube, until_us - clock_mono_us());
    assert_false(lease_held(a.lease));
    assert_ok(apiserver_up(api, false, &e), &e);
    until_held(&a);
    assert_int_equal(lease_epoch(a.lease), 2);
    assert_int_equal(lease_transitions(a.lease), 0);
    replica_stop(&a);
    apiserver_free(api);
}

TEST(attempt_ends_in_time_when_the_server_hangs)
{
    struct apiserver *api = server();
    struct replica a;
    struct err e;
    replica_start(&a, api, "a");
    must_try(&a);
    apiserver_stall(api, 2500 * US_PER_MS);
    int64_t start_us = clock_mono_us();
    assert_err(lease_try(a.lease, &e), ERR_IO, &e, NULL);
    assert_in_range(clock_mono_us() - start_us, 500 * US_PER_MS,
                    2300 * US_PER_MS); /* duration - renew is 600 ms */
    until_held(&a);
    replica_stop(&a);
    apiserver_free(api);
}

TEST(write_that_was_done_but_not_acknowledged_is_not_trusted)
{
    struct apiserver *api = server();
    struct replica a;
    struct err e;
    replica_start(&a, api, "a");
    apiserver_fault(api, &(struct apiserver_fault){.kind = APISERVER_AFTER,
                                                   .method = "POST",
                                                   .path = "leases",
                                                   .status = 504,
                                                   .count = 1});
    assert_err(lease_try(a.lease, &e), ERR_IO, &e, "504");
    assert_field(api, "spec.holderIdentity", "a");
    assert_false(lease_held(a.lease));
    must_try(&a);
    assert_true(lease_held(a.lease));
    apiserver_fault(
        api, &(struct apiserver_fault){
                 .kind = APISERVER_CUT_AFTER, .method = "PUT", .path = "leases", .count = 1});
    (void)!lease_try(a.lease, &e);
    must_try(&a);
    assert_true(lease_held(a.lease));
    replica_stop(&a);
    apiserver_free(api);
}

TEST(damaged_record_is_an_error_and_nobody_leads_by_it)
{
    static const char *const specs[] = {"{\"holderIdentity\":7}",
                                        "{\"leaseDurationSeconds\":-5}",
                                        "{\"leaseDurationSeconds\":1e12}",
                                        "[]",
                                        "{\"renewTime\":{}}",
                                        "{\"leaseTransitions\":1.5}"};
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct apiserver *api = server();
        struct replica a;
        struct err e;
        replica_start(&a, api, "a");
        if (apiserver_load(api,
                           test_path("{\"apiVersion\":\"coordination.k8s.io/"
                                     "v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"sluice\","
                                     "\"namespace\":\"sluice\"},\"spec\":%s}",
                                     specs[i]),
                           &e) == ERR_OK) {
            enum err_code rc = lease_try(a.lease, &e);
            assert_true(rc == ERR_PARSE || rc == ERR_RANGE);
            assert_false(lease_held(a.lease));
        }
        replica_stop(&a);
        apiserver_free(api);
    }
}

TEST(times_that_contradict_each_other_are_refused)
{
    struct lease_opts bad[6];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = quick("a");
    bad[0].retry_us = 0;
    bad[1].retry_us = bad[1].renew_us;
    bad[2].renew_us = bad[2].duration_us - bad[2].margin_us;
    bad[3].duration_us = 1500 * US_PER_MS;
    bad[4].holder = "";
    bad[5].margin_us = -1;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct lease *l;
        struct err e;
        assert_err(lease_new(NULL, &bad[i], &l, &e), ERR_INVAL, &e, "lease");
        assert_null(l);
    }
}

TEST(read_only_client_cannot_lead)
{
    struct apiserver *api = server();
    struct kube_opts o = kube_opts_default();
    struct lease_opts lo = quick("a");
    struct lease *l;
    struct err e;
    struct kube_rig r;
    o.read_only = true;
    kube_rig_start(&r, api, NULL, &o);
    assert_ok(lease_new(r.kube, &lo, &l, &e), &e);
    assert_err(lease_try(l, &e), ERR_INVAL, &e, "refused");
    assert_false(lease_held(l));
    assert_int_equal(apiserver_counted(api, "write", NULL, false), 0);
    lease_free(l);
    kube_rig_stop(&r);
    apiserver_free(api);
}

/* Three replicas, each tried at random moments, under random faults: at no moment do two lead. */
TEST(never_do_two_lead_at_the_same_moment)
{
    static const struct apiserver_fault faults[] = {
        {.kind = APISERVER_LATENCY, .path = "leases", .latency_us = 500 * US_PER_MS, .count = 2},
        {.kind = APISERVER_STATUS, .path = "leases", .status = 409, .count = 2},
        {.kind = APISERVER_STATUS, .path = "leases", .status = 500, .count = 3},
        {.kind = APISERVER_AFTER, .path = "leases", .method = "PUT", .status = 504, .count = 2},
        {.kind = APISERVER_CUT_AFTER, .path = "leases", .method = "PUT", .count = 2},
        {.kind = APISERVER_CUT, .path = "leases", .count = 2},
        {.kind = APISERVER_GARBAGE, .path = "leases", .count = 1},
        {.kind = APISERVER_HALF_BODY, .path = "leases", .count = 1},
    };
    struct rng rng = rng_stream(test_seed(), "lease");
    struct apiserver *api = server();
    struct replica x[3];
    const char *const names[] = {"a", "b", "c"};
    uint64_t terms = 0;
    for (int i = 0; i < 3; i++)
        replica_start(&x[i], api, names[i]);
    int64_t end_us = clock_mono_us() + 8 * US_PER_S;
    while (clock_mono_us() < end_us) {
        int who = (int)rng_below(&rng, 3);
        if (rng_below(&rng, 12) == 0)
            apiserver_fault(api, &faults[rng_below(&rng, ARRAY_LEN(faults))]);
        if (rng_below(&rng, 40) == 0)
            apiserver_stall(api, (int64_t)rng_below(&rng, 700) * US_PER_MS);
        if (rng_below(&rng, 25) == 0) /* this one is busy elsewhere: nobody renews */
            kube_poll(x[who].rig.kube, (int64_t)rng_below(&rng, 1200) * US_PER_MS);
        else if (rng_below(&rng, 40) == 0)
            (void)!lease_release(x[who].lease, NULL);
        else
            (void)!lease_try(x[who].lease, NULL);
        int64_t now_us = clock_mono_us();
        int n_leaders = 0;
        for (int i = 0; i < 3; i++)
            n_leaders += now_us < lease_held_until_us(x[i].lease);
        assert_true(n_leaders <= 1);
    }
    for (int i = 0; i < 3; i++) {
        terms += lease_epoch(x[i].lease);
        replica_stop(&x[i]);
    }
    assert_true(terms >= 2);
    apiserver_free(api);
}
