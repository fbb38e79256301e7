/* target_fuzz.c - a CapacityTarget (or any workload) from a hostile server: labels, annotations,
 * pod template, spec, status, references of owners. Whatever is accepted holds its bounds, and a
 * status that is read is written back to itself. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execute/ownership.h"
#include "execute/status.h"
#include "profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void read_profile(const struct json *root)
{
    struct profile layer[4], merged;
    const struct profile *const list[] = {&layer[0], &layer[1], &layer[2], &layer[3]};
    struct profile_faults faults;
    struct profile_id id = {0};
    profile_faults_init(&faults);
    profile_defaults(&layer[0]);
    for (int i = 1; i < 4; i++)
        profile_init(&layer[i]);
    const struct json *spec = json_find(root, "spec");
    profile_read_template(&layer[1], "Deployment ns/x", json_find(spec, "template"), &faults);
    profile_read_metadata(&layer[2], PROFILE_WORKLOAD, "Deployment ns/x",
                          json_find(root, "metadata"), &faults);
    profile_read_spec(&layer[3], "CapacityTarget ns/x", spec, &id, &faults);
    if (layer[3].source[PROFILE_F_UNITS_MAX] && layer[3].units_max > 256)
        layer[3].units_max =
            256; /* the latency table of thousands of units is not what is tested */
    profile_merge(list, 4, "ns/x", &merged, &faults);
    if (faults.n == 0) {
        struct capacity_spec s = {.step_us = 15000000};
        struct latency_model m;
        profile_spec(&merged, __builtin_nan(""), 1000000, &s);
        check(s.units_min >= 0 && s.units_min <= s.units_max &&
              s.units_max <= CAPACITY_UNITS_LIMIT);
        check(s.slo_p99_ms > 0 && s.price_usd_h >= 0 && s.start_us > 0 && *id.name);
        check(profile_latency(&merged, &m, NULL) == ERR_OK);
        latency_fini(&m);
    }
    check(strlen(faults.text) < sizeof faults.text && (faults.n == 0) == (*faults.text == '\0'));
    profile_fini(&merged);
    for (int i = 0; i < 4; i++)
        profile_fini(&layer[i]);
}

static void write_back(const struct target_status *s)
{
    struct buf a = buf_init(1 << 20), b = buf_init(1 << 20);
    struct target_status again;
    struct json_doc *doc;
    check(target_status_patch(s, "1", &a, NULL) == ERR_OK);
    check(json_parse(a.p, a.n, 1 << 20, "again", &doc, NULL) == ERR_OK);
    check(target_status_parse(doc, json_find(json_root(doc), "status"), &again, NULL) == ERR_OK);
    check(target_status_patch(&again, "1", &b, NULL) == ERR_OK);
    check(a.n == b.n && memcmp(a.p, b.p, a.n) == 0);
    json_free(doc);
    buf_fini(&a);
    buf_fini(&b);
}

static void read_status(const struct json_doc *doc)
{
    struct target_status s;
    if (target_status_parse(doc, json_find(json_root(doc), "status"), &s, NULL))
        return;
    check(s.desired <= STATUS_UNITS_MAX && s.startup.n <= STATUS_STARTS);
    check(!*s.intent.id ||
          (s.intent.from >= 0 && s.intent.to >= 0 && s.intent.to <= STATUS_UNITS_MAX));
    write_back(&s);
    int64_t now = INT64_C(1795953600000000);
    (void)safety_clamp(&s.safety, now, 3600000000);
    safety_window_fit(&s.safety.rate, 20, 15000000, now);
    safety_window_fit(&s.safety.flap, 12, 300000000, now);
    check(s.safety.rate.sum >= 0 && s.safety.last_out_us <= now);
    write_back(&s);
}

static void read_owners(const struct json_doc *doc)
{
    struct owner_object o[4];
    struct owner_target t = {.namespace_ = "shop"};
    size_t n = 0;
    for (enum owner_kind k = OWNER_CAPACITY_TARGET; k <= OWNER_VPA; k++)
        n += owner_object_read(k, doc, &o[n], NULL) == ERR_OK;
    owner_marks_read(json_find(json_root(doc), "metadata"), &t.marks);
    if (n) {
        t.ref = o[0].ref;
        t.namespace_ = o[0].namespace_;
    }
    struct ownership out;
    ownership_find(&t, o, n, &out);
    check(strlen(out.owner) < sizeof out.owner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_doc *doc;
    char *text = try_zero(size + 1, 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    if (json_parse(text, size, 1 << 20, "fuzz", &doc, NULL) == ERR_OK) {
        read_profile(json_root(doc));
        read_status(doc);
        read_owners(doc);
        json_free(doc);
    }
    mem_free(text);
    return 0;
}
