#include "execute/ownership.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execute/event_text.h"
#include "execute/reversal.h"
#include "tests/support/test.h"

static const int64_t T0 = INT64_C(1795953600) * US_PER_S;

static struct owner_object object(enum owner_kind kind, const char *json)
{
    struct owner_object o;
    struct json_doc *doc;
    struct err e;
    assert_ok(json_parse(json, strlen(json), 1 << 16, "object", &doc, &e), &e);
    assert_ok(owner_object_read(kind, doc, &o, &e), &e);
    json_free(doc);
    return o;
}

#define META(name, uid, at)                                                                        \
    "\"metadata\":{\"namespace\":\"shop\",\"name\":\"" name "\",\"uid\":\"" uid                    \
    "\",\"creationTimestamp\":\"" at "\"}"
#define REF(api, kind, name)                                                                       \
    "{\"apiVersion\":\"" api "\",\"kind\":\"" kind "\",\"name\":\"" name "\"}"
#define AT "2026-11-29T12:00:00Z"
#define LATER "2026-11-29T13:00:00Z"

static struct owner_target target(void)
{
    return (struct owner_target){
        .namespace_ = "shop",
        .ref = {.api_version = "apps/v1", .kind = "Deployment", .name = "api"}};
}

TEST(owners_are_named)
{
    static const struct {
        enum owner_kind kind;
        const char *json, *owner, *advice;
    } cases[] = {
        {OWNER_HPA,
         "{" META("web", "u1", AT) ",\"spec\":{\"scaleTargetRef\":" REF("apps/v1", "Deployment",
                                                                        "api") "}}",
         "HorizontalPodAutoscaler shop/web", "delete web"},
        {OWNER_HPA,
         "{" META("web", "u1", AT) ",\"spec\":{\"scaleTargetRef\":" REF("apps/v1beta1",
                                                                        "Deployment", "api") "}}",
         "HorizontalPodAutoscaler shop/web", NULL},
        {OWNER_HPA,
         "{" META("web", "u1", AT) ",\"spec\":{\"scaleTargetRef\":" REF("extensions/v1beta1",
                                                                        "Deployment", "api") "}}",
         "HorizontalPodAutoscaler shop/web", NULL},
        {OWNER_HPA,
         "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"keda-hpa-api\",\"ownerReferences\":[{"
         "\"kind\":"
         "\"ScaledObject\",\"name\":\"api-so\"}]},\"spec\":{\"scaleTargetRef\":" REF(
             "apps/v1", "Deployment", "api") "}}",
         "ScaledObject shop/api-so", NULL},
        {OWNER_KEDA, "{" META("so", "u2", AT) ",\"spec\":{\"scaleTargetRef\":{\"name\":\"api\"}}}",
         "ScaledObject shop/so", NULL},
        {OWNER_VPA,
         "{" META("v", "u3", AT) ",\"spec\":{\"targetRef\":" REF("apps/v1", "Deployment",
                                                                 "api") "}}",
         "VerticalPodAutoscaler shop/v", "updateMode of v to \"Off\""},
        {OWNER_VPA,
         "{" META("v", "u3", AT) ",\"spec\":{\"targetRef\":" REF(
             "apps/v1", "Deployment", "api") ",\"updatePolicy\":{"
                                             "\"updateMode\":\"Initial\"}}}",
         "VerticalPodAutoscaler shop/v", NULL},
        {OWNER_CAPACITY_TARGET,
         "{" META("old", "u4", AT) ",\"spec\":{\"scaleTargetRef\":" REF("apps/v1", "Deployment",
                                                                        "api") "}}",
         "CapacityTarget shop/old", "delete this one or old"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct owner_object o = object(cases[i].kind, cases[i].json);
        struct owner_target t = target();
        struct ownership out;
        ownership_find(&t, &o, 1, &out);
        assert_string_equal(out.owner, cases[i].owner);
        assert_int_not_equal(out.kind, OWNER_NONE);
        if (cases[i].advice)
            assert_non_null(strstr(out.advice, cases[i].advice));
    }
}

TEST(what_is_not_about_the_target_does_not_own_it)
{
    static const struct {
        enum owner_kind kind;
        const char *json;
    } cases[] = {
        {OWNER_HPA, "{" META("web", "u1", AT) ",\"spec\":{\"scaleTargetRef\":" REF(
                        "apps/v1", "Deployment", "api2") "}}"},
        {OWNER_HPA, "{" META("web", "u1", AT) ",\"spec\":{\"scaleTargetRef\":" REF(
                        "apps/v1", "StatefulSet", "api") "}}"},
        {OWNER_HPA, "{" META("web", "u1", AT) ",\"spec\":{\"scaleTargetRef\":" REF(
                        "rl.dev/v1", "Deployment", "api") "}}"},
        {OWNER_HPA, "{" META("web", "u1", AT) ",\"spec\":{\"scaleTargetRef\":" REF(
                        "v1", "Deployment", "api") "}}"},
        {OWNER_HPA, "{\"metadata\":{\"namespace\":\"other\",\"name\":\"web\"},\"spec\":{"
                    "\"scaleTargetRef\":" REF("apps/v1", "Deployment", "api") "}}"},
        {OWNER_KEDA,
         "{" META(
             "so", "u2",
             AT) ",\"spec\":{\"scaleTargetRef\":{\"kind\":\"StatefulSet\",\"name\":\"api\"}}}"},
        {OWNER_VPA, "{" META("v", "u3", AT) ",\"spec\":{\"targetRef\":" REF(
                        "apps/v1", "Deployment", "api") ",\"updatePolicy\":{"
                                                        "\"updateMode\":\"Off\"}}}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct owner_object o = object(cases[i].kind, cases[i].json);
        struct owner_target t = target();
        struct ownership out;
        ownership_find(&t, &o, 1, &out);
        assert_string_equal(out.owner, "");
        assert_int_equal(out.kind, OWNER_NONE);
    }
}

TEST(of_two_capacity_targets_exactly_one_owns)
{
    static const struct {
        const char *a, *b;
        int first; /* 0: a owns */
    } cases[] = {
        {"{" META("a", "u1", AT) ",\"spec\":{\"scaleTargetRef\":" REF("apps/v1", "Deployment",
                                                                      "api") "}}",
         "{" META("b", "u2", LATER) ",\"spec\":{\"scaleTargetRef\":" REF("apps/v1", "Deployment",
                                                                         "api") "}}",
         0},
        {"{" META("a", "u9", AT) ",\"spec\":{\"scaleTargetRef\":" REF("apps/v1", "Deployment",
                                                                      "api") "}}",
         "{" META("b", "u2", AT) ",\"spec\":{\"scaleTargetRef\":" REF("apps/v1", "Deployment",
                                                                      "api") "}}",
         1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct owner_object o[2] = {object(OWNER_CAPACITY_TARGET, cases[i].a),
                                    object(OWNER_CAPACITY_TARGET, cases[i].b)};
        for (int self = 0; self < 2; self++) {
            struct owner_target t = target();
            struct ownership out;
            t.self = &o[self];
            ownership_find(&t, o, 2, &out);
            assert_int_equal(out.kind, self == cases[i].first ? OWNER_NONE : OWNER_CAPACITY_TARGET);
        }
    }
}

TEST(the_answer_does_not_depend_on_the_order_of_the_lists)
{
    struct owner_object o[] = {
        object(OWNER_VPA, "{" META("v", "u3", AT) ",\"spec\":{\"targetRef\":" REF(
                              "apps/v1", "Deployment", "api") "}}"),
        object(OWNER_HPA, "{" META("h2", "u5", LATER) ",\"spec\":{\"scaleTargetRef\":" REF(
                              "apps/v1", "Deployment", "api") "}}"),
        object(OWNER_HPA, "{" META("h1", "u6", AT) ",\"spec\":{\"scaleTargetRef\":" REF(
                              "apps/v1", "Deployment", "api") "}}"),
    };
    for (int turn = 0; turn < 3; turn++) {
        struct owner_object first = o[0];
        struct owner_target t = target();
        struct ownership out;
        ownership_find(&t, o, 3, &out);
        assert_string_equal(out.owner, "HorizontalPodAutoscaler shop/h1");
        memmove(o, o + 1, 2 * sizeof o[0]);
        o[2] = first;
    }
}

TEST(objects_without_a_reference_are_errors)
{
    static const char *const bad[] = {
        "{}", "{\"metadata\":{},\"spec\":{}}", "{\"metadata\":{},\"spec\":{\"scaleTargetRef\":7}}",
        "{\"metadata\":{},\"spec\":{\"scaleTargetRef\":{\"name\":5}}}", "[]"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct owner_object o;
        struct json_doc *doc;
        struct err e;
        assert_ok(json_parse(bad[i], strlen(bad[i]), 1 << 16, "object", &doc, &e), &e);
        assert_int_not_equal(owner_object_read(OWNER_HPA, doc, &o, &e), ERR_OK);
        json_free(doc);
    }
}

static struct owner_marks marks(const char *json)
{
    struct owner_marks m;
    struct json_doc *doc;
    struct err e;
    assert_ok(json_parse(json, strlen(json), 1 << 16, "object", &doc, &e), &e);
    owner_marks_read(json_root(doc), &m);
    json_free(doc);
    return m;
}

TEST(cluster_autoscaler_bounds_make_an_owner)
{
    struct owner_target t = target();
    struct ownership out;
    t.marks = marks(
        "{\"annotations\":{\"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size\":\"2\","
        "\"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size\":\"10\"}}");
    ownership_find(&t, NULL, 0, &out);
    assert_string_equal(out.owner, "cluster autoscaler (2..10)");
    assert_non_null(strstr(out.advice, "remove the annotations"));
    t.marks = marks("{\"annotations\":{\"cluster.x-k8s.io/"
                    "cluster-api-autoscaler-node-group-max-size\":\"9\"}}");
    ownership_find(&t, NULL, 0, &out);
    assert_string_equal(out.owner, "cluster autoscaler (?..9)");
}

TEST(gitops_owns_after_two_reversals_and_is_recognised)
{
    static const struct {
        const char *metadata, *owner;
    } cases[] = {
        {"{\"annotations\":{\"argocd.argoproj.io/tracking-id\":\"shop-app:apps/Deployment:shop/"
         "api\"}}",
         "Argo CD application shop-app"},
        {"{\"labels\":{\"kustomize.toolkit.fluxcd.io/name\":\"apps\"}}", "Flux Kustomization apps"},
        {"{\"labels\":{\"helm.toolkit.fluxcd.io/name\":\"api\"}}", "Flux HelmRelease api"},
        {"{}", "somebody who puts the size back"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct owner_target t = target();
        struct ownership out;
        t.marks = marks(cases[i].metadata);
        t.reversals = 1;
        ownership_find(&t, NULL, 0, &out);
        assert_int_equal(out.kind, OWNER_NONE);
        t.reversals = OWNER_REVERSALS;
        ownership_find(&t, NULL, 0, &out);
        assert_int_equal(out.kind, OWNER_GITOPS);
        assert_string_equal(out.owner, cases[i].owner);
        assert_non_null(strstr(out.advice, "put back 2 times"));
    }
}

/* ---- reversals ------------------------------------------------------------------------------- */

static struct status_outcome wrote(int32_t from, int32_t to, int64_t at)
{
    return (struct status_outcome){
        .result = OUTCOME_EXECUTED, .id = "d", .from = from, .to = to, .time_us = at};
}

TEST(a_write_that_is_put_back_is_counted_once)
{
    struct safety_status s;
    struct status_outcome o = wrote(5, 7, T0);
    safety_status_init(&s);
    assert_false(reversal_observe(&s, &o, 7, T0 + US_PER_S, REVERSAL_WINDOW_US));
    assert_true(reversal_observe(&s, &o, 5, T0 + 30 * US_PER_S, REVERSAL_WINDOW_US));
    assert_false(reversal_observe(&s, &o, 5, T0 + 45 * US_PER_S, REVERSAL_WINDOW_US));
    assert_int_equal(s.reversals, 1);
    o = wrote(5, 8, T0 + US_PER_MIN);
    assert_true(reversal_observe(&s, &o, 5, T0 + 90 * US_PER_S, REVERSAL_WINDOW_US));
    assert_int_equal(s.reversals, OWNER_REVERSALS);
    /* Time does not heal it, only a person does. */
    assert_false(reversal_observe(&s, &o, 5, T0 + US_PER_DAY, REVERSAL_WINDOW_US));
    assert_int_equal(s.reversals, OWNER_REVERSALS);
    o = wrote(5, 9, T0 + 2 * US_PER_DAY); /* nor does a write under way when it was reached */
    assert_false(reversal_observe(&s, &o, 9, T0 + 3 * US_PER_DAY, REVERSAL_WINDOW_US));
    assert_int_equal(s.reversals, OWNER_REVERSALS);
    reversal_forgive(&s);
    assert_int_equal(s.reversals, 0);
}

TEST(a_write_that_lasts_clears_the_count)
{
    struct safety_status s;
    struct status_outcome o = wrote(5, 7, T0);
    safety_status_init(&s);
    assert_true(reversal_observe(&s, &o, 5, T0 + US_PER_S, REVERSAL_WINDOW_US));
    o = wrote(5, 7, T0 + US_PER_MIN);
    assert_false(reversal_observe(&s, &o, 7, T0 + 2 * US_PER_MIN, REVERSAL_WINDOW_US));
    assert_int_equal(s.reversals, 1);
    assert_false(
        reversal_observe(&s, &o, 7, T0 + US_PER_MIN + REVERSAL_WINDOW_US + 1, REVERSAL_WINDOW_US));
    assert_int_equal(s.reversals, 0);
}

TEST(other_sizes_late_changes_and_what_we_did_not_do_are_no_reversals)
{
    struct safety_status s;
    safety_status_init(&s);
    struct status_outcome o = wrote(5, 7, T0), none = {.result = OUTCOME_NONE}, failed = o;
    failed.result = OUTCOME_ABANDONED;
    assert_false(reversal_observe(&s, &o, 6, T0 + 1, REVERSAL_WINDOW_US));
    assert_false(reversal_observe(&s, &o, 5, T0 + REVERSAL_WINDOW_US + 1, REVERSAL_WINDOW_US));
    assert_false(reversal_observe(&s, &o, 5, T0 - 1, REVERSAL_WINDOW_US));
    assert_false(reversal_observe(&s, &none, 0, T0, REVERSAL_WINDOW_US));
    assert_false(reversal_observe(&s, &failed, 5, T0 + 1, REVERSAL_WINDOW_US));
    assert_int_equal(s.reversals, 0);
}

/* ---- events ---------------------------------------------------------------------------------- */

TEST(events_say_what_happened_with_numbers)
{
    static const struct {
        enum outcome_result outcome;
        int32_t from, to;
        const char *reason, *message;
        bool warning;
    } cases[] = {
        {OUTCOME_EXECUTED, 10, 12, "ScaledOut", "10 -> 12: QPS 1.8x", false},
        {OUTCOME_EXECUTED, 12, 10, "ScaledIn", "12 -> 10: QPS 1.8x", false},
        {OUTCOME_FOUND, 10, 12, "ScaledOut", "10 -> 12: QPS 1.8x (text)", false},
        {OUTCOME_ABANDONED, 10, 12, "ScaleAbandoned", "10 -> 12: text", false},
        {OUTCOME_FAILED, 10, 12, "ScaleFailed", "10 -> 12: text", true},
        {OUTCOME_NONE, 10, 12, "ScaleUnknown", "10 -> 12: text; it will be reconciled", true},
    };
    struct event_text t;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct act_result r = {
            .outcome = cases[i].outcome, .from = cases[i].from, .to = cases[i].to, .text = "text"};
        event_text_act(&t, &r, "QPS 1.8x");
        assert_string_equal(t.reason, cases[i].reason);
        assert_string_equal(t.message, cases[i].message);
        assert_int_equal(t.warning, cases[i].warning);
    }
    event_text_held(&t, 12, 11, "cooldown hold: acted 45 s ago, scale-in waits 300 s");
    assert_string_equal(
        t.message, "12 stays, 11 proposed: cooldown hold: acted 45 s ago, scale-in waits 300 s");
    event_text_late(&t, 9, 12, 400 * US_PER_S);
    assert_string_equal(
        t.message, "9 of 12 units are ready after 400 s; no scale-out while they fail to start");
    struct ownership o = {
        .kind = OWNER_HPA, .owner = "HorizontalPodAutoscaler shop/api", .advice = "delete api"};
    event_text_owned(&t, &o);
    assert_string_equal(
        t.message, "HorizontalPodAutoscaler shop/api sets the size of this target; delete api");
}

TEST(events_are_cut_to_what_an_event_holds)
{
    char why[3 * EVENT_MESSAGE];
    struct event_text t;
    memset(why, 'x', sizeof why - 1);
    why[sizeof why - 1] = '\0';
    event_text_held(&t, 1, 2, why);
    assert_int_equal(strlen(t.message), EVENT_MESSAGE - 1);
}

/* ---- until ready ----------------------------------------------------------------------------- */

TEST(outcome_is_followed_until_ready_or_late)
{
    struct status_outcome o = wrote(5, 7, T0), late = o, moved = o, failed = o;
    assert_false(outcome_follow(&o, 7, 5, T0 + 10 * US_PER_S, US_PER_MIN));
    assert_int_equal(o.ready, STATUS_READY_PENDING);
    assert_true(outcome_follow(&o, 7, 7, T0 + 20 * US_PER_S, US_PER_MIN));
    assert_int_equal(o.ready, STATUS_READY_READY);
    assert_true(o.ready_us == T0 + 20 * US_PER_S);
    assert_false(outcome_follow(&o, 7, 3, T0 + 30 * US_PER_S, US_PER_MIN)); /* told once */
    assert_false(outcome_follow(&late, 7, 6, T0 + US_PER_MIN, US_PER_MIN));
    assert_true(outcome_follow(&late, 7, 6, T0 + US_PER_MIN + 1, US_PER_MIN));
    assert_int_equal(late.ready, STATUS_READY_LATE);
    assert_false(
        outcome_follow(&moved, 9, 9, T0 + 1, US_PER_MIN)); /* another size is asked for now */
    failed.result = OUTCOME_FAILED;
    assert_false(outcome_follow(&failed, 7, 7, T0 + 1, US_PER_MIN));
}
