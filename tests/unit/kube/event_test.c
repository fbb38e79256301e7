#include "kube/event.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/kube_rig.h"
#include "tests/support/test.h"

#define EVENTS "/apis/events.k8s.io/v1/namespaces/default/events"

struct rig {
    struct kube_rig k;
    struct kube_events *events;
};

static void rig_start(struct rig *r, struct kube_events_opts o, bool read_only)
{
    struct kube_opts ko = kube_opts_default();
    struct err e;
    ko.read_only = read_only;
    ko.backoff_us = US_PER_MS;
    kube_rig_start(&r->k, kube_rig_server(&(struct apiserver_opts){0}), NULL, &ko);
    assert_ok(kube_events_new(r->k.kube, &o, &r->events, &e), &e);
}

static void rig_stop(struct rig *r)
{
    struct apiserver *api = r->k.api;
    kube_events_free(r->events);
    kube_rig_stop(&r->k);
    apiserver_free(api);
}

static struct kube_event scaled(const char *note)
{
    return (struct kube_event){.api_version = "apps/v1",
                               .kind = "Deployment",
                               .ns = "default",
                               .name = "web",
                               .uid = "u-1",
                               .reason = "ScaledUp",
                               .action = "Scale",
                               .note = note};
}

static void settle(struct rig *r)
{
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (kube_running(r->k.kube) && clock_mono_us() < give_up_us)
        kube_poll(r->k.kube, 10 * US_PER_MS);
    assert_int_equal(kube_running(r->k.kube), 0);
}

static void assert_item(struct rig *r, const char *list, const char *field, const char *want)
{
    char *got = apiserver_field(r->k.api, list, test_path("items.0.%s", field));
    if (!got || strcmp(got, want) != 0)
        fail_msg("%s is %s, not %s", field, got ? got : "absent", want);
    mem_free(got);
}

TEST(event_arrives_with_all_its_fields)
{
    struct rig r;
    rig_start(&r, kube_events_opts_default(), false);
    struct kube_event ev = scaled("3 to 5 units");
    ev.warning = true;
    kube_events_emit(r.events, &ev, 1795956516123456);
    assert_int_equal(kube_running(r.k.kube), 1); /* emit does not wait */
    settle(&r);
    static const char *const want[][2] = {{"regarding.kind", "Deployment"},
                                          {"regarding.name", "web"},
                                          {"regarding.namespace", "default"},
                                          {"regarding.uid", "u-1"},
                                          {"regarding.apiVersion", "apps/v1"},
                                          {"type", "Warning"},
                                          {"reason", "ScaledUp"},
                                          {"action", "Scale"},
                                          {"note", "3 to 5 units"},
                                          {"eventTime", "2026-11-29T12:48:36.123456Z"},
                                          {"reportingController", "sluice.dev/sluice"},
                                          {"reportingInstance", "sluice"},
                                          {"metadata.namespace", "default"}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        assert_item(&r, EVENTS, want[i][0], want[i][1]);
    assert_int_equal(kube_events_stats(r.events)->sent, 1);
    rig_stop(&r);
}

TEST(same_event_again_is_counted_in_one_series)
{
    struct rig r;
    struct kube_events_opts o = kube_events_opts_default();
    o.count_us = 20 * US_PER_MS;
    rig_start(&r, o, false);
    struct kube_event ev = scaled("x");
    for (int i = 0; i < 5; i++)
        kube_events_emit(r.events, &ev, 1795956516000000 + i);
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (apiserver_counted(r.k.api, "patch", "events", true) == 0 && clock_mono_us() < give_up_us)
        kube_poll(r.k.kube, 5 * US_PER_MS);
    settle(&r);
    assert_int_equal(apiserver_count(r.k.api, EVENTS), 1);
    assert_item(&r, EVENTS, "series.count", "5");
    assert_item(&r, EVENTS, "series.lastObservedTime", "2026-11-29T12:48:36.000004Z");
    assert_int_equal(kube_events_stats(r.events)->sent, 1);
    assert_int_equal(kube_events_stats(r.events)->repeated, 4);
    assert_int_equal(apiserver_counted(r.k.api, "create", "events", false), 1);
    rig_stop(&r);
}

TEST(object_that_flaps_is_limited_and_others_are_not)
{
    struct rig r;
    struct kube_events_opts o = kube_events_opts_default();
    o.burst = 3;
    o.refill_us = US_PER_HOUR;
    rig_start(&r, o, false);
    for (int i = 0; i < 10; i++) {
        struct kube_event ev = scaled(test_path("note %d", i));
        kube_events_emit(r.events, &ev, 1795956516000000);
    }
    struct kube_event other = scaled("x");
    other.name = "api";
    kube_events_emit(r.events, &other, 1795956516000000);
    settle(&r);
    assert_int_equal(kube_events_stats(r.events)->sent, 4);
    assert_int_equal(kube_events_stats(r.events)->limited, 7);
    assert_int_equal(apiserver_count(r.k.api, EVENTS), 4);
    rig_stop(&r);
}

TEST(bucket_fills_again_with_time)
{
    struct rig r;
    struct kube_events_opts o = kube_events_opts_default();
    o.burst = 1;
    o.refill_us = 10 * US_PER_MS;
    rig_start(&r, o, false);
    int n = 0;
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (kube_events_stats(r.events)->sent < 3 && clock_mono_us() < give_up_us) {
        struct kube_event ev = scaled(test_path("note %d", n++));
        kube_events_emit(r.events, &ev, 1795956516000000);
        kube_poll(r.k.kube, US_PER_MS);
    }
    assert_int_equal(kube_events_stats(r.events)->sent, 3);
    settle(&r);
    rig_stop(&r);
}

TEST(full_queue_drops_and_counts)
{
    struct rig r;
    struct kube_events_opts o = kube_events_opts_default();
    o.queue = 2;
    o.burst = 100;
    rig_start(&r, o, false);
    for (int i = 0; i < 5; i++) {
        struct kube_event ev = scaled(test_path("note %d", i));
        kube_events_emit(r.events, &ev, 1795956516000000);
    }
    assert_int_equal(kube_events_stats(r.events)->dropped, 3);
    settle(&r);
    struct kube_event ev = scaled("after"); /* an idle series makes room */
    kube_events_emit(r.events, &ev, 1795956516000000);
    settle(&r);
    assert_int_equal(kube_events_stats(r.events)->sent, 3);
    rig_stop(&r);
}

TEST(event_about_a_cluster_scoped_object_lives_in_default_and_texts_are_cut)
{
    struct rig r;
    char longer[2000];
    memset(longer, 'n', sizeof longer);
    memcpy(longer + 1023, "\xc3\xa4", 2); /* a character across the limit */
    longer[sizeof longer - 1] = '\0';
    rig_start(&r, kube_events_opts_default(), false);
    struct kube_event ev = {.api_version = "v1",
                            .kind = "Node",
                            .name = "gpu-1",
                            .reason = "Full",
                            .action = "Watch",
                            .note = longer};
    kube_events_emit(r.events, &ev, 1795956516000000);
    settle(&r);
    assert_int_equal(kube_events_stats(r.events)->sent, 1);
    char *note = apiserver_field(r.k.api, EVENTS, "items.0.note");
    assert_int_equal(strlen(note), 1023);
    mem_free(note);
    rig_stop(&r);
}

TEST(refused_and_failing_events_are_counted_and_tried_anew)
{
    struct rig r;
    rig_start(&r, kube_events_opts_default(), false);
    struct kube_event ev = scaled("x");
    apiserver_fault(r.k.api,
                    &(struct apiserver_fault){
                        .kind = APISERVER_STATUS, .path = "events", .status = 500, .count = 1});
    kube_events_emit(r.events, &ev, 1795956516000000);
    settle(&r);
    assert_int_equal(kube_events_stats(r.events)->failed, 1);
    kube_events_emit(r.events, &ev, 1795956516000000);
    settle(&r);
    assert_int_equal(kube_events_stats(r.events)->sent, 1);
    rig_stop(&r);
}

TEST(read_only_sink_sends_nothing)
{
    struct rig r;
    rig_start(&r, kube_events_opts_default(), true);
    struct kube_event ev = scaled("x");
    kube_events_emit(r.events, &ev, 1795956516000000);
    kube_poll(r.k.kube, 0);
    assert_int_equal(kube_events_stats(r.events)->dropped, 1);
    assert_int_equal(apiserver_requests(r.k.api), 0);
    rig_stop(&r);
}

TEST(sink_is_freed_with_events_under_way)
{
    struct rig r;
    rig_start(&r, kube_events_opts_default(), false);
    for (int i = 0; i < 5; i++) {
        struct kube_event ev = scaled(test_path("note %d", i));
        kube_events_emit(r.events, &ev, 1795956516000000);
    }
    rig_stop(&r);
    struct kube_events *s;
    struct kube_events_opts bad = kube_events_opts_default();
    struct err e;
    bad.queue = 0;
    assert_err(kube_events_new(NULL, &bad, &s, &e), ERR_INVAL, &e, "events");
}
