#include "profile/profile.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/support/test.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static struct json_doc *parse(const char *text)
{
    struct json_doc *doc;
    struct err e;
    assert_ok(json_parse(text, strlen(text), 1 << 20, "test", &doc, &e), &e);
    return doc;
}

static void read_spec(const char *text, struct profile *p, struct profile_id *id,
                      struct profile_faults *f)
{
    struct json_doc *doc = parse(text);
    profile_init(p);
    profile_faults_init(f);
    *id = (struct profile_id){0};
    profile_read_spec(p, "CapacityTarget shop/api", json_root(doc), id, f);
    json_free(doc);
}

static void read_meta(const char *text, struct profile *p, struct profile_faults *f)
{
    struct json_doc *doc = parse(text);
    profile_init(p);
    profile_faults_init(f);
    profile_read_metadata(p, PROFILE_WORKLOAD, "Deployment shop/api", json_root(doc), f);
    json_free(doc);
}

static void assert_faults(const struct profile_faults *f, int n, const char *text)
{
    if (f->n != n || (text && !strstr(f->text, text)))
        fail_msg("faults: %d, expected %d with \"%s\": %s", f->n, n, text ? text : "", f->text);
}

#define REF                                                                                        \
    "\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"api\"}"
#define WHOLE                                                                                      \
    "{" REF ",\"minUnits\":2,\"maxUnits\":40,\"minSafeUnits\":3,\"gpusPerUnit\":1,"                \
    "\"priceUsdPerHour\":2.5,\"class\":\"P1\",\"type\":\"llm\","                                   \
    "\"slo\":{\"p99Milliseconds\":250.5,\"violationMaxFraction\":0.02},\"policy\":\"mpc\","        \
    "\"policyFile\":\"/p.safetensors\",\"paused\":false,\"startSeconds\":150.5,"                   \
    "\"latency\":{\"serviceMilliseconds\":25,\"slots\":2},\"queries\":{\"qps\":\"sum(rate(x[1m]))" \
    "\"},"                                                                                         \
    "\"weights\":{\"latency\":2,\"cost\":0.5},"                                                    \
    "\"override\":{\"units\":7,\"until\":\"2026-11-29T12:00:00.5Z\",\"author\":\"jane\","          \
    "\"reason\":\"sale\"}}"

/* ---- the spec -------------------------------------------------------------------------------- */

TEST(spec_states_every_field)
{
    struct profile p;
    struct profile_id id;
    struct profile_faults f;
    read_spec(WHOLE, &p, &id, &f);
    assert_faults(&f, 0, NULL);
    assert_string_equal(id.api_version, "apps/v1");
    assert_string_equal(id.kind, "Deployment");
    assert_string_equal(id.name, "api");
    assert_int_equal(p.units_min, 2);
    assert_int_equal(p.units_max, 40);
    assert_int_equal(p.units_min_safe, 3);
    assert_int_equal(p.gpus_per_unit, 1);
    assert_near(p.price_usd_h, 2.5, 0, 0);
    assert_int_equal(p.cls, CLASS_P1);
    assert_string_equal(p.type, "llm");
    assert_near(p.slo_p99_ms, 250.5, 0, 0);
    assert_near(p.slo_violation_max, 0.02, 0, 0);
    assert_string_equal(p.policy, "mpc");
    assert_string_equal(p.policy_file, "/p.safetensors");
    assert_false(p.paused);
    assert_int_equal(p.source[PROFILE_F_PAUSED], PROFILE_SPEC);
    assert_int_equal(p.start_us, 150500000);
    assert_near(p.service_ms, 25, 0, 0);
    assert_int_equal(p.slots, 2);
    assert_string_equal(p.query[FIELD_QPS], "sum(rate(x[1m]))");
    assert_null(p.query[FIELD_GPU_UTIL]);
    assert_near(p.weight_latency, 2, 0, 0);
    assert_int_equal(p.override_units, 7);
    assert_int_equal(p.override_until_us, INT64_C(1795953600500000));
    assert_string_equal(p.override_author, "jane");
    assert_int_equal(p.source[PROFILE_F_TENANT], PROFILE_UNSET);
    profile_fini(&p);
}

TEST(spec_faults_name_object_key_value_and_what_is_expected)
{
    static const struct {
        const char *spec, *fault;
    } cases[] = {
        {"{" REF ",\"minUnits\":\"3\"}",
         "CapacityTarget shop/api: spec.minUnits: \"3\" is not a whole number from 0 to 4096"},
        {"{" REF ",\"minUnits\":-1}", "spec.minUnits: -1 is not a whole number from 0 to 4096"},
        {"{" REF ",\"maxUnits\":0}", "spec.maxUnits: 0 is not a whole number from 1 to 4096"},
        {"{" REF ",\"maxUnits\":4097}", "spec.maxUnits: 4097 is not"},
        {"{" REF ",\"maxUnits\":1.5}", "spec.maxUnits: 1.5 is not a whole number"},
        {"{" REF ",\"maxUnits\":1e300}", "spec.maxUnits: 1e+300 is not a whole number"},
        {"{" REF ",\"maxUnits\":[1]}", "spec.maxUnits: a list is not a whole number"},
        {"{" REF ",\"paused\":\"yes\"}", "spec.paused: \"yes\" is not true or false"},
        {"{" REF ",\"paused\":1}", "spec.paused: 1 is not true or false"},
        {"{" REF ",\"class\":\"P4\"}", "spec.class: \"P4\" is not P0, P1, P2 or P3"},
        {"{" REF ",\"class\":0}", "spec.class: 0 is not P0, P1, P2 or P3"},
        {"{" REF ",\"type\":\"\"}", "spec.type: \"\" is not printable text of 1 to 63 bytes"},
        {"{" REF ",\"type\":\"a\\u001bb\"}", "spec.type: \"a?b\" is not printable text"},
        {"{" REF ",\"priceUsdPerHour\":-0.1}",
         "spec.priceUsdPerHour: -0.1 is not a number from 0 to 1e+06"},
        {"{" REF ",\"slo\":{\"p99Milliseconds\":0}}",
         "spec.slo.p99Milliseconds: 0 is not a number from 0.001"},
        {"{" REF ",\"slo\":{\"p99\":5}}", "spec: unknown key \"slo.p99\""},
        {"{" REF ",\"slo\":7}", "spec.slo: expected an object"},
        {"{" REF ",\"minUnit\":2}", "spec: unknown key \"minUnit\", did you mean minUnits?"},
        {"{" REF ",\"startSeconds\":0}", "spec.startSeconds: 0 is not seconds from 0.001 to 86400"},
        {"{" REF ",\"startSeconds\":1e20}", "spec.startSeconds: 1e+20 is not seconds"},
        {"{" REF ",\"override\":{\"until\":\"tomorrow\"}}", "\"tomorrow\" is not a time such as"},
        {"{" REF ",\"queries\":{\"qqs\":\"x\"}}",
         "spec.queries: \"qqs\" is no measured field, did you mean qps?"},
        {"{" REF ",\"queries\":{\"qps\":\"\"}}",
         "spec.queries.qps: expected PromQL of 1 to 4096 bytes"},
        {"{" REF ",\"queries\":{\"qps\":4}}", "spec.queries.qps: expected PromQL"},
        {"{" REF ",\"queries\":[]}", "spec.queries: expected an object"},
        {"{" REF ",\"latency\":{\"curve\":{}}}", "spec.latency.curve: expected a list"},
        {"{" REF ",\"latency\":{\"curve\":[]}}", "latency curve: 0 points, expected 2 to 64"},
        {"{" REF ",\"latency\":{\"curve\":[{\"loadPerUnit\":1}]}}",
         "spec.latency.curve[0]: expected loadPerUnit"},
        {"{\"maxUnits\":3}", "spec.scaleTargetRef: missing"},
        {"{\"scaleTargetRef\":{\"kind\":\"D\",\"name\":\"a\"}}",
         "spec.scaleTargetRef: expected apiVersion"},
        {"{\"scaleTargetRef\":{\"apiVersion\":\"v1\",\"kind\":\"D\",\"name\":\"../a\"}}",
         "spec.scaleTargetRef:"},
        {"{\"scaleTargetRef\":{\"apiVersion\":\"v1\",\"kind\":\"D\",\"name\":\"a b\"}}",
         "spec.scaleTargetRef:"},
        {"{\"scaleTargetRef\":{\"apiVersion\":\"v1\",\"kind\":\"D\",\"name\":\"a\",\"x\":1}}",
         "spec.scaleTargetRef:"},
        {"[]", "spec: expected an object"},
        {"null", "spec: expected an object"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct profile p;
        struct profile_id id;
        struct profile_faults f;
        read_spec(cases[i].spec, &p, &id, &f);
        assert_faults(&f, 1, cases[i].fault);
        profile_fini(&p);
    }
}

TEST(spec_members_that_are_null_are_not_stated)
{
    struct profile p;
    struct profile_id id;
    struct profile_faults f;
    read_spec("{" REF ",\"minUnits\":null,\"slo\":null}", &p, &id, &f);
    assert_faults(&f, 0, NULL);
    assert_int_equal(p.source[PROFILE_F_UNITS_MIN], PROFILE_UNSET);
    profile_fini(&p);
}

TEST(faults_past_the_cap_are_counted_and_the_text_stays_whole)
{
    struct profile_faults f;
    profile_faults_init(&f);
    for (int i = 0; i < 40; i++)
        profile_fault(&f, "object %d: some key: some value is not what was expected there at all",
                      i);
    assert_int_equal(f.n, 40);
    assert_non_null(strstr(f.text, "object 0: some key"));
    char tail[32];
    (void)snprintf(tail, sizeof tail, "; and %d more", 40 - f.n_shown);
    assert_string_equal(f.text + strlen(f.text) - strlen(tail), tail);
    assert_true(f.n_shown > 5);
}

/* ---- labels and annotations ------------------------------------------------------------------ */

TEST(labels_and_annotations_state_what_they_can)
{
    struct profile p;
    struct profile_faults f;
    read_meta(
        "{\"labels\":{\"app\":\"x\",\"sluice.dev/managed\":\"true\",\"sluice.dev/class\":\"P2\","
        "\"sluice.dev/tenant\":\"search\"},\"annotations\":{\"sluice.dev/slo-p99-ms\":\"250\","
        "\"sluice.dev/min-safe\":\"4\",\"sluice.dev/max\":\"64\",\"sluice.dev/paused\":\"true\","
        "\"sluice.dev/checkpoint\":\"true\",\"sluice.dev/"
        "checkpoint-time\":\"2026-11-29T12:00:00Z\","
        "\"sluice.dev/deadline\":\"any\",\"sluice.dev/class\":\"P2\",\"other.dev/max\":\"9\"}}",
        &p, &f);
    assert_faults(&f, 0, NULL);
    assert_true(p.managed && p.paused && p.checkpoint);
    assert_int_equal(p.cls, CLASS_P2);
    assert_string_equal(p.tenant, "search");
    assert_near(p.slo_p99_ms, 250, 0, 0);
    assert_int_equal(p.units_min_safe, 4);
    assert_int_equal(p.units_max, 64);
    assert_int_equal(p.checkpoint_us, INT64_C(1795953600000000));
    assert_int_equal(p.source[PROFILE_F_UNITS_MAX], PROFILE_WORKLOAD);
    profile_fini(&p);
}

TEST(wrong_labels_and_annotations_are_named)
{
    static const struct {
        const char *meta, *fault;
    } cases[] = {
        {"{\"annotations\":{\"sluice.dev/min-safe\":\"three\"}}",
         "Deployment shop/api: annotation sluice.dev/min-safe: \"three\" is not a whole number "
         "from 0 to 4096"},
        {"{\"annotations\":{\"sluice.dev/min-safe\":\"\"}}",
         "sluice.dev/min-safe: \"\" is not a whole number"},
        {"{\"annotations\":{\"sluice.dev/min-safe\":\" 3\"}}",
         "sluice.dev/min-safe: \" 3\" is not"},
        {"{\"annotations\":{\"sluice.dev/max\":\"99999999999999999999\"}}",
         "sluice.dev/max: \"9999"},
        {"{\"labels\":{\"sluice.dev/managed\":\"yes\"}}",
         "label sluice.dev/managed: \"yes\" is not true or false"},
        {"{\"labels\":{\"sluice.dev/managed\":\"True\"}}",
         "label sluice.dev/managed: \"True\" is not"},
        {"{\"annotations\":{\"sluice.dev/slo-p99-ms\":\"nan\"}}",
         "sluice.dev/slo-p99-ms: \"nan\" is not a number"},
        {"{\"annotations\":{\"sluice.dev/min_safe\":\"3\"}}",
         "annotation: unknown key \"sluice.dev/min_safe\", did you mean sluice.dev/min-safe?"},
        {"{\"annotations\":{\"sluice.dev/zzzzzzzzzzzz\":\"3\"}}",
         "unknown key \"sluice.dev/zzzzzzzzzzzz\""},
        {"{\"annotations\":{\"sluice.dev/\":\"3\"}}", "unknown key"},
        {"{\"annotations\":{\"sluice.dev/max\":3}}",
         "metadata.annotations.sluice.dev/max: expected a string"},
        {"{\"annotations\":[]}", "metadata.annotations: expected an object"},
        {"{\"labels\":{\"sluice.dev/max\":\"3\"},\"annotations\":{\"sluice.dev/max\":\"4\"}}",
         "label and annotation sluice.dev/max differ: \"3\" and \"4\""},
        {"{\"annotations\":{\"sluice.dev/checkpoint-time\":\"2h ago\"}}", "is not a time such as"},
        {"5", "metadata: expected an object"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct profile p;
        struct profile_faults f;
        read_meta(cases[i].meta, &p, &f);
        assert_faults(&f, 1, cases[i].fault);
        profile_fini(&p);
    }
}

TEST(pooled_labels_of_a_pod_read_like_metadata)
{
    const struct kube_label labels[] = {{"sluice.dev/type", "batch"}};
    const struct kube_label annotations[] = {{"sluice.dev/checkpoint", "true"},
                                             {"sluice.dev/type", "train"}};
    struct profile p;
    struct profile_faults f;
    profile_init(&p);
    profile_faults_init(&f);
    profile_read_labels(&p, PROFILE_WORKLOAD, "Pod shop/api-1", labels, 1, annotations, 2, &f);
    assert_faults(&f, 1, "Pod shop/api-1: label and annotation sluice.dev/type differ");
    assert_true(p.checkpoint);
    assert_string_equal(p.type, "batch");
    profile_fini(&p);
}

TEST(gpus_of_a_unit_are_those_its_containers_ask_for)
{
    static const struct {
        const char *containers;
        int gpus, faults;
    } cases[] = {
        {"[{\"resources\":{\"limits\":{\"cpu\":\"2\",\"nvidia.com/gpu\":\"4\"}}},"
         "{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}},{}]",
         5, 0},
        {"[{}]", 0, 0},
        {"[{\"resources\":{\"limits\":{\"amd.com/gpu\":2}}}]", 2, 0},
        {"[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"many\"}}}]", 0, 1},
        {"[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"100000000000\"}}}]", 0, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        struct profile p;
        struct profile_faults f;
        (void)snprintf(
            text, sizeof text,
            "{\"metadata\":{\"labels\":{\"sluice.dev/type\":\"a\"}},\"spec\":{\"containers\":%s}}",
            cases[i].containers);
        struct json_doc *doc = parse(text);
        profile_init(&p);
        profile_faults_init(&f);
        profile_read_template(&p, "Deployment shop/api", json_root(doc), &f);
        assert_int_equal(f.n, cases[i].faults);
        assert_int_equal(p.gpus_per_unit, cases[i].gpus);
        assert_int_equal(p.source[PROFILE_F_GPUS],
                         cases[i].faults ? PROFILE_UNSET : PROFILE_TEMPLATE);
        assert_string_equal(p.type, "a");
        json_free(doc);
        profile_fini(&p);
    }
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Defaults, a pod template, a workload and a spec, each may be NULL. */
static void merge(const char *template_, const char *workload, const char *spec,
                  struct profile *out, struct profile_faults *f)
{
    struct profile layer[4];
    const struct profile *list[] = {&layer[0], &layer[1], &layer[2], &layer[3]};
    struct profile_id id = {0};
    profile_defaults(&layer[0]);
    for (int i = 1; i < 4; i++)
        profile_init(&layer[i]);
    profile_faults_init(f);
    const char *texts[] = {template_, workload, spec};
    for (int i = 0; i < 3; i++) {
        struct json_doc *doc = parse(texts[i] ? texts[i] : "{}");
        if (i == 0)
            profile_read_template(&layer[1], "Deployment shop/api",
                                  texts[i] ? json_root(doc) : NULL, f);
        else if (i == 1)
            profile_read_metadata(&layer[2], PROFILE_WORKLOAD, "Deployment shop/api",
                                  json_root(doc), f);
        else if (texts[i])
            profile_read_spec(&layer[3], "CapacityTarget shop/api", json_root(doc), &id, f);
        json_free(doc);
    }
    profile_merge(list, 4, "shop/api", out, f);
    for (int i = 0; i < 4; i++)
        profile_fini(&layer[i]);
}

#define TEMPLATE                                                                                   \
    "{\"metadata\":{\"annotations\":{\"sluice.dev/slo-p99-ms\":\"100\",\"sluice.dev/"              \
    "max\":\"10\"}},"                                                                              \
    "\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}"
#define LATENCY "\"latency\":{\"serviceMilliseconds\":25,\"slots\":2},\"priceUsdPerHour\":3"

TEST(higher_layers_win_and_say_so)
{
    struct profile p;
    struct profile_faults f;
    merge(TEMPLATE,
          "{\"annotations\":{\"sluice.dev/slo-p99-ms\":\"200\",\"sluice.dev/class\":\"P1\"}}",
          "{" REF ",\"maxUnits\":30,\"class\":\"P2\"," LATENCY "}", &p, &f);
    assert_faults(&f, 0, NULL);
    assert_near(p.slo_p99_ms, 200, 0, 0);
    assert_int_equal(p.source[PROFILE_F_SLO_P99], PROFILE_WORKLOAD);
    assert_int_equal(p.units_max, 30);
    assert_int_equal(p.source[PROFILE_F_UNITS_MAX], PROFILE_SPEC);
    assert_int_equal(p.cls, CLASS_P2);
    assert_int_equal(p.gpus_per_unit, 2);
    assert_int_equal(p.source[PROFILE_F_GPUS], PROFILE_TEMPLATE);
    assert_int_equal(p.units_min, 1);
    assert_int_equal(p.source[PROFILE_F_UNITS_MIN], PROFILE_DEFAULTS);
    profile_fini(&p);
}

TEST(a_pause_in_any_layer_pauses)
{
    struct profile p;
    struct profile_faults f;
    merge(TEMPLATE, "{\"annotations\":{\"sluice.dev/paused\":\"true\"}}",
          "{" REF ",\"paused\":false," LATENCY "}", &p, &f);
    assert_faults(&f, 0, NULL);
    assert_true(p.paused);
    assert_int_equal(p.source[PROFILE_F_PAUSED], PROFILE_WORKLOAD);
    profile_fini(&p);
}

TEST(a_wrong_value_counts_also_where_a_higher_layer_covers_it)
{
    struct profile p;
    struct profile_faults f;
    merge(TEMPLATE, "{\"annotations\":{\"sluice.dev/max\":\"-3\"}}",
          "{" REF ",\"maxUnits\":30," LATENCY "}", &p, &f);
    assert_faults(&f, 1, "annotation sluice.dev/max: \"-3\" is not a whole number");
    profile_fini(&p);
}

TEST(what_must_be_stated_is_asked_for)
{
    static const struct {
        const char *template_, *spec, *fault;
    } cases[] = {
        {TEMPLATE, "{" REF ",\"latency\":{\"serviceMilliseconds\":25,\"slots\":2}}",
         "shop/api: priceUsdPerHour: not stated"},
        {TEMPLATE, "{" REF ",\"priceUsdPerHour\":3}", "shop/api: latency: not stated"},
        {NULL, "{" REF ",\"maxUnits\":3,\"slo\":{\"p99Milliseconds\":9}," LATENCY "}",
         "gpusPerUnit: not stated"},
        {NULL, "{" REF ",\"gpusPerUnit\":1,\"slo\":{\"p99Milliseconds\":90}," LATENCY "}",
         "maxUnits (or annotation"},
        {NULL, "{" REF ",\"gpusPerUnit\":1,\"maxUnits\":3," LATENCY "}",
         "slo.p99Milliseconds (or annotation"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct profile p;
        struct profile_faults f;
        merge(cases[i].template_, NULL, cases[i].spec, &p, &f);
        assert_faults(&f, 1, cases[i].fault);
        profile_fini(&p);
    }
}

TEST(rules_over_several_fields)
{
    static const struct {
        const char *spec, *fault;
    } cases[] = {
        {"\"minUnits\":20," LATENCY,
         "minUnits 20 (CapacityTarget) is above maxUnits 10 (pod template)"},
        {"\"minSafeUnits\":11," LATENCY, "minSafeUnits 11 (CapacityTarget) is above maxUnits 10"},
        {"\"override\":{\"units\":11,\"until\":\"2026-01-01T00:00:00Z\",\"author\":\"a\"}," LATENCY,
         "override.units 11 is above maxUnits 10"},
        {"\"override\":{\"units\":5}," LATENCY, "override: needs units, until and author"},
        {"\"latency\":{\"serviceMilliseconds\":25},\"priceUsdPerHour\":1",
         "needs both serviceMilliseconds and slots"},
        {"\"latency\":{\"serviceMilliseconds\":25,\"slots\":2,\"unitQps\":5},\"priceUsdPerHour\":1",
         "latency.unitQps: belongs to a curve"},
        {"\"latency\":{\"slots\":2,\"serviceMilliseconds\":2,\"curve\":["
         "{\"loadPerUnit\":1,\"p50Milliseconds\":10,\"p99Milliseconds\":20},"
         "{\"loadPerUnit\":9,\"p50Milliseconds\":20,\"p99Milliseconds\":90}]},\"priceUsdPerHour\":"
         "1",
         "not both"},
        {"\"latency\":{\"curve\":[{\"loadPerUnit\":9,\"p50Milliseconds\":10,\"p99Milliseconds\":20}"
         ","
         "{\"loadPerUnit\":1,\"p50Milliseconds\":20,\"p99Milliseconds\":90}]},\"priceUsdPerHour\":"
         "1",
         "shop/api: latency: "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char spec[1024];
        struct profile p;
        struct profile_faults f;
        (void)snprintf(spec, sizeof spec, "{" REF ",%s}", cases[i].spec);
        merge(TEMPLATE, NULL, spec, &p, &f);
        assert_faults(&f, 1, cases[i].fault);
        profile_fini(&p);
    }
}

TEST(a_curve_of_a_higher_layer_replaces_a_service_time)
{
    static const struct latency_point curve[] = {{1, 10, 20}, {50, 30, 90}};
    struct profile low, high, p;
    struct profile_faults f;
    struct latency_model m;
    struct err e;
    profile_defaults(&low);
    profile_init(&high);
    profile_faults_init(&f);
    profile_set_num(&low, PROFILE_DEFAULTS, PROFILE_F_SERVICE, 25, "configuration", &f);
    profile_set_int(&low, PROFILE_DEFAULTS, PROFILE_F_SLOTS, 2, "configuration", &f);
    profile_set_num(&low, PROFILE_DEFAULTS, PROFILE_F_SLO_P99, 100, "configuration", &f);
    profile_set_num(&low, PROFILE_DEFAULTS, PROFILE_F_PRICE, 1, "configuration", &f);
    profile_set_int(&low, PROFILE_DEFAULTS, PROFILE_F_GPUS, 1, "configuration", &f);
    profile_set_int(&low, PROFILE_DEFAULTS, PROFILE_F_UNITS_MAX, 8, "configuration", &f);
    profile_set_curve(&high, PROFILE_HISTORY, curve, 2, "history", &f);
    profile_merge((const struct profile *const[]){&low, &high}, 2, "shop/api", &p, &f);
    assert_faults(&f, 0, NULL);
    assert_int_equal(p.source[PROFILE_F_SERVICE], PROFILE_UNSET);
    assert_ok(profile_latency(&p, &m, &e), &e);
    assert_near(m.unit_qps, 50, 0, 0); /* the largest load measured */
    latency_fini(&m);
    profile_fini(&p);

    /* The other way round the service time stands. */
    profile_merge((const struct profile *const[]){&high, &low}, 2, "shop/api", &p, &f);
    assert_non_null(p.curve);
    assert_int_equal(p.curve_source, PROFILE_HISTORY); /* by source, not by place */
    profile_fini(&p);
    profile_set_num(&low, PROFILE_CONFIG, PROFILE_F_SERVICE, 25, "configuration", &f);
    profile_merge((const struct profile *const[]){&high, &low}, 2, "shop/api", &p, &f);
    assert_null(p.curve);
    assert_ok(profile_latency(&p, &m, &e), &e);
    assert_near(m.unit_qps, 80, 1e-9, 0);
    latency_fini(&m);
    profile_fini(&p);
    profile_fini(&low);
    profile_fini(&high);
}

TEST(values_set_by_code_are_checked_like_any_other)
{
    struct profile p;
    struct profile_faults f;
    profile_init(&p);
    profile_faults_init(&f);
    profile_set_int(&p, PROFILE_CONFIG, PROFILE_F_UNITS_MAX, 5000, "configuration", &f);
    assert_faults(&f, 1, "configuration: most units: 5000 is not a whole number from 1 to 4096");
    profile_set_num(&p, PROFILE_CONFIG, PROFILE_F_PRICE, NAN, "configuration", &f);
    profile_set_text(&p, PROFILE_CONFIG, PROFILE_F_TYPE, "", "configuration", &f);
    profile_set_int(&p, PROFILE_CONFIG, PROFILE_F_START, -1, "configuration", &f);
    assert_faults(&f, 4, "from request to ready");
    for (int i = 0; i < PROFILE_FIELDS; i++)
        assert_int_equal(p.source[i], PROFILE_UNSET);
    profile_fini(&p);
}

/* ---- for the decision ------------------------------------------------------------------------ */

TEST(start_up_time_is_stated_else_measured_else_the_default)
{
    struct profile p;
    struct capacity_spec s = {.step_us = 7};
    profile_defaults(&p);
    profile_spec(&p, NAN, 5 * US_PER_MIN, &s);
    assert_int_equal(s.start_us, 5 * US_PER_MIN);
    profile_spec(&p, 90.5, 5 * US_PER_MIN, &s);
    assert_int_equal(s.start_us, 90500000);
    p.start_us = 3 * US_PER_MIN;
    p.source[PROFILE_F_START] = PROFILE_SPEC;
    profile_spec(&p, 90.5, 5 * US_PER_MIN, &s);
    assert_int_equal(s.start_us, 3 * US_PER_MIN);
    assert_int_equal(s.step_us, 7);
    assert_int_equal(s.cls, CLASS_P0);
    profile_fini(&p);
}

TEST(a_checkpoint_is_recent_for_two_hours)
{
    struct profile p;
    int64_t now = INT64_C(1700000000) * US_PER_S;
    profile_init(&p);
    p.checkpoint = true;
    assert_false(profile_checkpoint_recent(&p, now)); /* no time stated */
    p.source[PROFILE_F_CHECKPOINT_TIME] = PROFILE_WORKLOAD;
    p.checkpoint_us = now - 2 * US_PER_HOUR + 1;
    assert_true(profile_checkpoint_recent(&p, now));
    p.checkpoint_us = now - 2 * US_PER_HOUR;
    assert_false(profile_checkpoint_recent(&p, now));
    p.checkpoint_us = now + US_PER_S; /* a clock that is ahead */
    assert_false(profile_checkpoint_recent(&p, now));
    p.checkpoint_us = now;
    p.checkpoint = false;
    assert_false(profile_checkpoint_recent(&p, now));
    profile_fini(&p);
}
