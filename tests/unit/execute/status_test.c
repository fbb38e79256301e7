#include "execute/status.h"

#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "profile/profile.h"
#include "tests/support/test.h"

static const int64_t T0 = INT64_C(1795953600) * US_PER_S; /* 2026-11-29T12:00:00Z */

/* Every member set. */
static struct target_status whole(void)
{
    struct target_status s;
    target_status_init(&s);
    s.observed_generation = 4;
    s.desired = 12;
    s.current = 12;
    s.ready = 10;
    (void)snprintf(s.stage, sizeof s.stage, "single");
    s.forecast = (struct status_forecast){T0, {100.5, 110, 120}, 115, 150, 0.25, true};
    s.decision =
        (struct status_decision){"d-17", T0, 12, 10, "mpc", "QPS 1.8x the same-slot median"};
    s.safety.last_out_us = s.safety.last_in_us = s.safety.reversed_us = T0;
    s.safety.watch_until_us = s.safety.breaker_until_us = s.safety.breaker_retry_us = T0 + 5;
    s.safety.high_since_us = s.safety.low_since_us = s.safety.water_since_us = T0 - 5;
    s.safety.rate =
        (struct safety_window){.width_us = 15000000, .bucket = T0 / 15000000, .n = 20, .sum = 2};
    s.safety.rate.at[s.safety.rate.bucket % 20] = 2;
    s.safety.flap =
        (struct safety_window){.width_us = 300000000, .bucket = T0 / 300000000, .n = 12};
    s.intent = (struct status_intent){"d-17", 10, 12, T0, "sluice-0_1", "381", "6fe10e79"};
    s.outcome = (struct status_outcome){OUTCOME_EXECUTED,   "d-16", 8,        10, 10, T0 - 60000000,
                                        STATUS_READY_READY, T0,     "8 -> 10"};
    s.freeze = (struct status_freeze){true, T0, "jane", "incident"};
    s.fixed = (struct status_override){
        .units = 12, .until_us = T0 + 60000000, .author = "ann", .reason = "launch"};
    s.fixed = (struct status_override){9, T0 + 3600000000, "jane", "sale"};
    s.startup = (struct status_startup){2, {90.5f, 101.25f}};
    for (int t = 0; t < CONDITIONS; t++)
        (void)condition_set(&s, (enum condition_type)t, CONDITION_TRUE, "AllWell", "all is well",
                            T0);
    return s;
}

static char *patch(const struct target_status *s)
{
    struct buf b = buf_init(STATUS_BYTES_MAX + 1024);
    struct err e;
    assert_ok(target_status_patch(s, "417", &b, &e), &e);
    return buf_take(&b);
}

static enum err_code parse(const char *text, struct target_status *s, struct err *e)
{
    struct json_doc *doc;
    assert_ok(json_parse(text, strlen(text), 1 << 20, "test", &doc, e), e);
    enum err_code rc = target_status_parse(doc, json_find(json_root(doc), "status"), s, e);
    json_free(doc);
    return rc;
}

/* Member by member, as it is written: padding is not compared. */
static void assert_same(const struct target_status *a, const struct target_status *b)
{
    char *x = patch(a), *y = patch(b);
    assert_string_equal(x, y);
    mem_free(x);
    mem_free(y);
}

TEST(status_reads_back_what_was_written)
{
    struct target_status s = whole(), back;
    struct err e;
    char *text = patch(&s);
    assert_non_null(strstr(
        text, "{\"metadata\":{\"resourceVersion\":\"417\"},\"status\":{\"observedGeneration\":4,"));
    assert_ok(parse(text, &back, &e), &e);
    assert_same(&s, &back);
    mem_free(text);
}

TEST(status_that_is_not_set_is_written_as_null_and_reads_as_fresh)
{
    struct target_status s, back;
    struct err e;
    target_status_init(&s);
    char *text = patch(&s);
    static const char *const nulls[] = {"desired",  "current",      "ready",         "stage",
                                        "forecast", "lastDecision", "intent",        "outcome",
                                        "freeze",   "override",     "startupSeconds"};
    for (size_t i = 0; i < ARRAY_LEN(nulls); i++) {
        char member[64];
        (void)snprintf(member, sizeof member, "\"%s\":null", nulls[i]);
        assert_non_null(strstr(text, member));
    }
    assert_ok(parse(text, &back, &e), &e);
    assert_same(&s, &back);
    assert_ok(parse("{}", &back, &e), &e);
    assert_same(&s, &back);
    mem_free(text);
}

TEST(status_numbers_that_are_not_finite_leave_the_forecast_out)
{
    struct target_status s = whole();
    s.forecast.points[1] = NAN;
    char *text = patch(&s);
    assert_non_null(strstr(text, "\"forecast\":null"));
    mem_free(text);
}

TEST(status_edited_into_nonsense_is_an_error_and_changes_nothing)
{
    static const struct {
        const char *status, *error;
    } cases[] = {
        {"[]", "status: expected an object"},
        {"{\"desired\":-1}", "status.desired: -1 is outside"},
        {"{\"desired\":5000}", "status.desired: 5000 is outside"},
        {"{\"stage\":7}", "stage: expected a string"},
        {"{\"safety\":[]}", "safety: expected an object"},
        {"{\"intent\":{}}", "status.intent: needs id, from and to"},
        {"{\"intent\":{\"id\":\"x\",\"from\":1}}", "status.intent: needs id, from and to"},
        {"{\"intent\":{\"id\":\"x\",\"from\":1,\"to\":\"2\"}}", "to: expected a number"},
        {"{\"intent\":\"x\"}", "intent: expected an object"},
        {"{\"outcome\":{\"result\":\"Done\"}}", "status.outcome.result: not one of its values"},
        {"{\"override\":{\"units\":3}}", "status.override: needs units and until"},
        {"{\"override\":{\"units\":5000,\"until\":\"2030-01-01T00:00:00Z\"}}",
         "override.units: 5000 is outside"},
        {"{\"override\":{\"units\":3,\"until\":\"soon\"}}", "override.until"},
        {"{\"forecast\":{\"points\":[1,2,3,4]}}", "points: expected at most 3"},
        {"{\"forecast\":{\"points\":[\"1\"]}}", "points: expected numbers"},
        {"{\"override\":{\"units\":3}}", "status.override: needs units and until"},
        {"{\"override\":{\"until\":\"2026-01-01T00:00:00Z\"}}",
         "status.override: needs units and until"},
        {"{\"startupSeconds\":[1,-2]}", "startupSeconds: expected seconds"},
        {"{\"conditions\":[7]}", "conditions: expected objects"},
        {"{\"conditions\":[{\"type\":\"Ready\",\"status\":\"true\"}]}",
         "status: not one of its values"},
        {"{\"lastDecision\":{\"id\":"
         "\"0123456789012345678901234567890123456789012345678901234567890123\"}}",
         "lastDecision.id: too long"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        struct target_status s = whole(), before = s;
        struct err e = {0};
        (void)snprintf(text, sizeof text, "{\"status\":%s}", cases[i].status);
        assert_int_not_equal(parse(text, &s, &e), ERR_OK);
        if (!strstr(e.msg, cases[i].error))
            fail_msg("%s: %s, expected %s", cases[i].status, e.msg, cases[i].error);
        assert_memory_equal(&s, &before, sizeof s);
    }
}

TEST(status_of_a_newer_version_is_read_as_far_as_it_is_known)
{
    struct target_status s;
    struct err e;
    assert_ok(parse("{\"status\":{\"desired\":3,\"novel\":{\"x\":1},\"conditions\":[{\"type\":"
                    "\"Novel\",\"status\":\"Maybe\"}]}}",
                    &s, &e),
              &e);
    assert_int_equal(s.desired, 3);
}

TEST(condition_moves_its_transition_time_only_when_the_value_changes)
{
    struct target_status s;
    target_status_init(&s);
    assert_true(
        condition_set(&s, CONDITION_ACTIVE, CONDITION_FALSE, "Paused", "by annotation", T0));
    assert_false(
        condition_set(&s, CONDITION_ACTIVE, CONDITION_FALSE, "Owned", "by an HPA", T0 + 1));
    assert_true(s.conditions[CONDITION_ACTIVE].since_us == T0);
    assert_string_equal(s.conditions[CONDITION_ACTIVE].reason, "Owned");
    assert_true(condition_set(&s, CONDITION_ACTIVE, CONDITION_TRUE, "Deciding", "", T0 + 2));
    assert_true(s.conditions[CONDITION_ACTIVE].since_us == T0 + 2);
}

TEST(condition_without_a_message_says_its_reason)
{
    struct target_status s;
    target_status_init(&s);
    (void)condition_set(&s, CONDITION_INPUTS_FRESH, CONDITION_TRUE, "Fresh", "", T0);
    char *text = patch(&s);
    assert_null(strstr(text, ":\"\""));
    assert_non_null(strstr(text, "\"message\":\"Fresh\""));
    mem_free(text);
}

TEST(condition_text_is_cut_at_a_character)
{
    struct target_status s;
    char long_text[2000];
    target_status_init(&s);
    for (size_t i = 0; i + 2 < sizeof long_text; i += 2)
        memcpy(long_text + i, "\xc3\xa4", 3);
    (void)condition_set(&s, CONDITION_READY, CONDITION_TRUE, "Why", long_text, T0);
    assert_int_equal(strlen(s.conditions[CONDITION_READY].message), STATUS_TEXT - 2);
    (void)condition_set(&s, CONDITION_READY, CONDITION_TRUE, "Why", "bad \xff\x1b byte", T0);
    assert_string_equal(s.conditions[CONDITION_READY].message, "bad ?? byte");
}

/* ---- when to write --------------------------------------------------------------------------- */

TEST(idle_targets_write_nothing)
{
    struct target_status s = whole();
    struct status_gate g;
    status_gate_init(&g);
    assert_true(status_gate_due(&g, &s, 0));
    status_gate_written(&g, &s, 0);
    for (int64_t round = 1; round < 100; round++) {
        s.safety.ready_before = (int32_t)round; /* bookkeeping that no one reads */
        s.safety.rate.bucket++;
        (void)snprintf(s.decision.id, sizeof s.decision.id, "d-%d", (int)round);
        s.decision.time_us += 15 * US_PER_S;
        assert_false(status_gate_due(&g, &s, round * 15 * US_PER_S));
    }
}

TEST(changes_are_written_at_once_or_slowly_or_lazily)
{
    enum { AT_ONCE, SLOWLY, LAZILY };
    for (int k = 0; k < 12; k++) {
        struct target_status s = whole();
        struct status_gate g;
        status_gate_init(&g);
        status_gate_written(&g, &s, 0);
        int want = k < 6 ? AT_ONCE : k < 10 ? SLOWLY : LAZILY;
        switch (k) {
        case 0:
            s.intent.id[0] = 'x';
            break;
        case 1:
            s.outcome.ready = STATUS_READY_LATE;
            break;
        case 2:
            s.conditions[0].value = CONDITION_FALSE;
            break;
        case 3:
            s.safety.last_in_us++;
            break;
        case 4:
            s.safety.breaker_until_us = SAFETY_NEVER;
            break;
        case 5:
            s.freeze.on = false;
            break;
        case 6:
            s.ready++;
            break;
        case 7:
            s.decision.units++;
            break;
        case 8:
            s.safety.high_since_us = SAFETY_NEVER;
            break;
        case 9:
            s.conditions[1].reason[0] = 'X';
            break;
        case 10:
            s.forecast.made_us++;
            break;
        default:
            s.decision.reason[0] = 'X';
            break;
        }
        assert_int_equal(status_gate_due(&g, &s, 1), want == AT_ONCE);
        assert_int_equal(status_gate_due(&g, &s, 30 * US_PER_S - 1), want == AT_ONCE);
        assert_int_equal(status_gate_due(&g, &s, 30 * US_PER_S), want <= SLOWLY);
        assert_int_equal(status_gate_due(&g, &s, 600 * US_PER_S), true);
    }
}

/* ---- the CRD --------------------------------------------------------------------------------- */

static struct yaml_doc *crd(const struct yaml_node **schema)
{
    struct yaml_doc *doc;
    struct err e;
    assert_ok(yaml_load("deploy/crd/capacitytargets.yaml", &doc, &e), &e);
    const struct yaml_node *n = yaml_find(yaml_root(doc), "spec");
    n = yaml_find(n, "versions")->first;
    *schema = yaml_find(yaml_find(n, "schema"), "openAPIV3Schema");
    assert_non_null(*schema);
    return doc;
}

static const struct yaml_node *property(const struct yaml_node *schema, const char *name)
{
    return yaml_find(yaml_find(schema, "properties"), name);
}

static double number(const struct yaml_node *schema, const char *key)
{
    const struct yaml_node *n = yaml_find(schema, key);
    return n ? strtod(n->text, NULL) : NAN;
}

static bool has_type(const struct yaml_node *schema, const char *type)
{
    return strcmp(yaml_find(schema, "type")->text, type) == 0;
}

static void check_text(const struct json *v, const struct yaml_node *schema, const char *path)
{
    const struct yaml_node *names = yaml_find(schema, "enum");
    bool known = !names;
    for (const struct yaml_node *n = names ? names->first : NULL; n; n = n->next)
        known = known || strcmp(n->text, json_text(v)) == 0;
    if (!known)
        fail_msg("%s: %s is not in the enum", path, json_text(v));
    if (yaml_find(schema, "maxLength"))
        assert_true((double)strlen(json_text(v)) <= number(schema, "maxLength"));
}

/* A value against the schema as the API server would: types, bounds, no unknown members. */
static void check_schema(const struct json *v, const struct yaml_node *schema, const char *path)
{
    char below[256];
    if (json_is_null(v))
        return; /* deletes */
    if (json_is_object(v)) {
        assert_true(has_type(schema, "object"));
        for (const struct json *m = json_first(v); m; m = json_next(m)) {
            (void)snprintf(below, sizeof below, "%s.%s", path, json_key(m));
            if (!property(schema, json_key(m)))
                fail_msg("%s is not in the schema: it would be pruned", below);
            check_schema(m, property(schema, json_key(m)), below);
        }
    } else if (json_is_array(v)) {
        assert_true(has_type(schema, "array"));
        assert_false(number(schema, "maxItems") < (double)json_count(v));
        for (const struct json *m = json_first(v); m; m = json_next(m))
            check_schema(m, yaml_find(schema, "items"), path);
    } else if (json_is_string(v)) {
        assert_true(has_type(schema, "string"));
        check_text(v, schema, path);
    } else if (json_is_bool(v)) {
        assert_true(has_type(schema, "boolean"));
    } else {
        assert_true(has_type(schema, "number") || has_type(schema, "integer"));
        assert_false(json_number(v) < number(schema, "minimum") ||
                     json_number(v) > number(schema, "maximum"));
    }
}

/* Members of the schema that the value does not have. */
static void check_complete(const struct json *v, const struct yaml_node *schema, const char *path)
{
    const struct yaml_node *properties = yaml_find(schema, "properties");
    for (const struct yaml_node *p = properties ? properties->first : NULL; p; p = p->next) {
        const struct json *m = json_find(v, p->key);
        if (json_is_null(m))
            fail_msg("%s.%s is in the schema and never written", path, p->key);
        check_complete(m, p, p->key);
    }
}

TEST(status_written_whole_is_exactly_the_schema_of_the_crd)
{
    const struct yaml_node *schema;
    struct yaml_doc *doc = crd(&schema);
    struct target_status s = whole();
    struct json_doc *json;
    struct err e;
    char *text = patch(&s);
    assert_ok(json_parse(text, strlen(text), 1 << 20, "status", &json, &e), &e);
    const struct json *status = json_find(json_root(json), "status");
    check_schema(status, property(schema, "status"), "status");
    check_complete(status, property(schema, "status"), "status");
    json_free(json);
    mem_free(text);
    yaml_free(doc);
}

static const struct yaml_node *spec_schema(const struct yaml_node *schema, const char *path)
{
    const struct yaml_node *n = property(schema, "spec");
    char part[64];
    while (n && *path) {
        size_t len = strcspn(path, ".");
        (void)snprintf(part, sizeof part, "%.*s", (int)len, path);
        n = property(n, part);
        path += len + (path[len] == '.');
    }
    return n;
}

TEST(bounds_of_the_crd_are_those_of_the_profile)
{
    static const char *const types[] = {
        [PROFILE_INT] = "integer",  [PROFILE_NUM] = "number",   [PROFILE_TEXT] = "string",
        [PROFILE_FLAG] = "boolean", [PROFILE_CLASS] = "string", [PROFILE_DURATION] = "number",
        [PROFILE_TIME] = "string"};
    const struct yaml_node *schema;
    struct yaml_doc *doc = crd(&schema);
    for (int f = 0; f < PROFILE_FIELDS; f++) {
        const struct profile_row *r = profile_row((enum profile_field)f);
        if (!r->spec)
            continue;
        const struct yaml_node *n = spec_schema(schema, r->spec);
        if (!n || !has_type(n, types[r->kind]))
            fail_msg("spec.%s is missing in the CRD or of another type", r->spec);
        if (yaml_find(n, "default"))
            fail_msg("spec.%s: a default would outrank labels and annotations", r->spec);
        if (r->kind == PROFILE_INT || r->kind == PROFILE_NUM || r->kind == PROFILE_DURATION) {
            assert_near(number(n, "minimum"), r->min, 0, 0);
            assert_near(number(n, "maximum"), r->max, 0, 0);
        } else if (r->kind == PROFILE_TEXT) {
            assert_near(number(n, "minLength"), r->min, 0, 0);
            assert_near(number(n, "maxLength"), r->max, 0, 0);
        }
    }
    yaml_free(doc);
}

/* Paths of the CRD's spec that no row reads, counted. */
static void check_known(const struct yaml_node *schema, const char *path)
{
    const struct yaml_node *properties = yaml_find(schema, "properties");
    for (const struct yaml_node *p = properties ? properties->first : NULL; p; p = p->next) {
        char below[128];
        bool known = false;
        (void)snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", p->key);
        for (int f = 0; f < PROFILE_FIELDS; f++) {
            const char *row = profile_row((enum profile_field)f)->spec;
            known = known || (row && strcmp(row, below) == 0);
        }
        if (strcmp(below, "scaleTargetRef") == 0 || strcmp(below, "queries") == 0 ||
            strcmp(below, "latency.curve") == 0)
            continue;
        if (yaml_find(p, "properties"))
            check_known(p, below);
        else if (!known)
            fail_msg("spec.%s of the CRD is read by nobody", below);
    }
}

TEST(every_field_of_the_crds_spec_is_read)
{
    const struct yaml_node *schema;
    struct yaml_doc *doc = crd(&schema);
    check_known(property(schema, "spec"), "");
    yaml_free(doc);
}

TEST(every_key_of_the_profile_is_in_the_reference)
{
    struct err e;
    struct buf page;
    assert_ok(file_read("docs/capacitytarget.md", 1 << 20, &page, &e), &e);
    for (int f = 0; f < PROFILE_FIELDS; f++) {
        const struct profile_row *r = profile_row((enum profile_field)f);
        char key[128];
        (void)snprintf(key, sizeof key, "`%s`", r->spec);
        if (r->spec && !strstr(page.p, key))
            fail_msg("docs/capacitytarget.md: spec.%s is missing", r->spec);
        (void)snprintf(key, sizeof key, "`sluice.dev/%s`", r->meta);
        if (r->meta && !strstr(page.p, key))
            fail_msg("docs/capacitytarget.md: sluice.dev/%s is missing", r->meta);
    }
    buf_fini(&page);
}

/* What the API server asks of a structural schema, and what people ask of a reference. */
static void check_structural(const struct yaml_node *schema, const char *path)
{
    const struct yaml_node *properties = yaml_find(schema, "properties"),
                           *items = yaml_find(schema, "items");
    if (!yaml_find(schema, "type"))
        fail_msg("%s has no type", path);
    for (const struct yaml_node *p = properties ? properties->first : NULL; p; p = p->next)
        check_structural(p, p->key);
    if (items)
        check_structural(items, path);
    if (has_type(schema, "array"))
        assert_non_null(yaml_find(schema, "maxItems"));
}

TEST(schema_of_the_crd_is_structural_and_bounded)
{
    const struct yaml_node *schema;
    struct yaml_doc *doc = crd(&schema);
    check_structural(schema, "");
    yaml_free(doc);
}
