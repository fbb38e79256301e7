#include "kube/objects.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/kube_capture.h"
#include "tests/support/test.h"

static enum err_code make(const struct kube_projection *p, const char *text, struct kube_obj **out,
                          struct err *e)
{
    struct json_doc *doc;
    assert_ok(json_parse(text, strlen(text), 1 << 20, "object", &doc, e), e);
    enum err_code rc = p->make(p->ctx, json_root(doc), text, strlen(text), out, e);
    json_free(doc);
    return rc;
}

static void release(struct text_pool *pool, const struct kube_projection *p, struct kube_obj *o)
{
    p->free(p->ctx, o);
    assert_int_equal(text_count(pool), 0);
    text_pool_free(pool);
}

#define META                                                                                       \
    "\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"7\""

TEST(pod_keeps_what_is_read_later)
{
    struct text_pool *pool = text_pool_new();
    struct kube_projection proj = kube_pod_projection(pool);
    struct kube_obj *o;
    struct err e;
    assert_ok(
        make(&proj,
             "{" META ",\"creationTimestamp\":\"2026-11-29T12:00:00Z\",\"deletionTimestamp\":"
                      "\"2026-11-29T12:10:00Z\","
             "\"labels\":{\"b\":\"2\",\"a\":\"1\"},"
             "\"annotations\":{\"sluice.dev/class\":\"P1\",\"other\":\"x\",\"sluice.dev/a\":\"y\"},"
             "\"ownerReferences\":[{\"kind\":\"X\",\"name\":\"x\",\"uid\":\"0\"},"
             "{\"kind\":\"ReplicaSet\",\"name\":\"web-1\",\"uid\":\"9\",\"controller\":true}]},"
             "\"spec\":{\"nodeName\":\"gpu-1\",\"schedulerName\":\"sluice\",\"priority\":100,"
             "\"priorityClassName\":\"high\","
             "\"schedulingGates\":[{\"name\":\"g\"}],\"containers\":[]},"
             "\"status\":{\"phase\":\"Running\",\"reason\":\"Preempting\",\"startTime\":\"2026-11-"
             "29T12:01:00Z\",\"conditions\":["
             "{\"type\":\"PodScheduled\",\"status\":\"True\",\"lastTransitionTime\":\"2026-11-"
             "29T12:00:30Z\"},"
             "{\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"2026-11-29T12:02:"
             "00Z\"}],"
             "\"containerStatuses\":[{\"restartCount\":2,\"state\":{\"running\":{}}},"
             "{\"restartCount\":1,\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}}}]}}",
             &o, &e),
        &e);
    const struct kube_pod *p = kube_as_pod(o);
    const int64_t t0 = 1795953600 * US_PER_S;
    assert_string_equal(o->ns, "n");
    assert_string_equal(o->name, "p");
    assert_string_equal(o->uid, "u");
    assert_string_equal(o->version, "7");
    assert_true(o->bytes >= sizeof *p);
    assert_string_equal(p->node, "gpu-1");
    assert_string_equal(p->scheduler, "sluice");
    assert_string_equal(p->priority_class, "high");
    assert_int_equal(p->priority, 100);
    assert_string_equal(p->owner_kind, "ReplicaSet");
    assert_string_equal(p->owner_name, "web-1");
    assert_string_equal(p->owner_uid, "9");
    assert_string_equal(p->waiting, "CrashLoopBackOff");
    assert_string_equal(p->reason, "Preempting");
    assert_int_equal(p->created_us, t0);
    assert_int_equal(p->scheduled_us, t0 + 30 * US_PER_S);
    assert_int_equal(p->started_us, t0 + 60 * US_PER_S);
    assert_int_equal(p->ready_since_us, t0 + 120 * US_PER_S);
    assert_int_equal(p->deletion_us, t0 + 600 * US_PER_S);
    assert_true(p->ready && p->gated && p->terminating && !p->unschedulable);
    assert_int_equal(p->restarts, 3);
    assert_int_equal(p->phase, KUBE_RUNNING);
    assert_int_equal(p->n_labels, 2);
    assert_string_equal(p->labels[0].key, "a");
    assert_string_equal(p->labels[1].value, "2");
    assert_int_equal(p->n_annotations, 2);
    assert_string_equal(kube_label_find(p->annotations, 2, "sluice.dev/class"), "P1");
    assert_null(kube_label_find(p->annotations, 2, "other"));
    release(pool, &proj, o);
}

TEST(bare_pod_has_neutral_values)
{
    struct text_pool *pool = text_pool_new();
    struct kube_projection proj = kube_pod_projection(pool);
    struct kube_obj *o;
    struct err e;
    assert_ok(make(&proj,
                   "{\"metadata\":{\"name\":\"p\",\"resourceVersion\":\"1\",\"labels\":null},"
                   "\"spec\":{\"containers\":null},\"status\":{}}",
                   &o, &e),
              &e);
    const struct kube_pod *p = kube_as_pod(o);
    const char *empty[] = {o->ns,         o->uid,     p->node,  p->scheduler,
                           p->owner_kind, p->waiting, p->reason};
    for (size_t i = 0; i < ARRAY_LEN(empty); i++)
        assert_string_equal(empty[i], "");
    const int64_t unset[] = {p->created_us, p->scheduled_us, p->started_us, p->ready_since_us,
                             p->deletion_us};
    for (size_t i = 0; i < ARRAY_LEN(unset); i++)
        assert_int_equal(unset[i], -1);
    assert_int_equal(p->phase, KUBE_PENDING);
    assert_int_equal(p->cpu_milli, 0);
    release(pool, &proj, o);
}

TEST(requests_are_counted_as_the_scheduler_does)
{
#define C(req) "{\"resources\":{\"requests\":{" req "}}}"
#define SIDE(req) "{\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{" req "}}}"
    static const struct {
        const char *spec;
        int64_t cpu_milli, mem_bytes, gpus;
    } rows[] = {
        {"\"containers\":[" C("\"cpu\":\"1\",\"memory\":\"1Ki\"") "," C(
             "\"cpu\":\"500m\",\"nvidia.com/gpu\":\"2\"") "]",
         1500, 1024, 2},
        {"\"containers\":[" C("\"cpu\":2,\"memory\":1024") "]", 2000, 1024, 0}, /* plain numbers */
        {"\"containers\":[" C("\"cpu\":\"1\"") "],\"initContainers\":[" C("\"cpu\":\"3\"") "," C(
             "\"cpu\":\"2\",\"amd.com/gpu\":\"1\"") "]",
         3000, 0, 1},
        {"\"containers\":[" C("\"cpu\":\"1\"") "],\"initContainers\":[" SIDE("\"cpu\":\"2\"") "]",
         3000, 0, 0},
        /* the plain one runs beside the sidecar started before it, not the one after */
        {"\"containers\":[" C("\"cpu\":\"1\"") "],\"initContainers\":[" SIDE("\"cpu\":\"1\"") "," C(
             "\"cpu\":\"5\"") "," SIDE("\"cpu\":\"1\"") "]",
         6000, 0, 0},
        {"\"containers\":[" C(
             "\"cpu\":\"1\",\"memory\":\"1\"") "],\"overhead\":{\"cpu\":\"250m\",\"memory\":\"9\"}",
         1250, 10, 0},
        {"\"resources\":{\"requests\":{\"cpu\":\"4\"}},\"containers\":[" C(
             "\"cpu\":\"1\",\"memory\":\"5\"") "],\"overhead\":{\"cpu\":\"1\"}",
         5000, 5, 0},
        {"\"containers\":[" C(
             "\"nvidia.com/mig-1g.10gb\":\"3\",\"gpu.intel.com/"
             "i915\":\"1\",\"ephemeral-storage\":\"1Gi\",\"nvidia.com/gpumem\":\"5\"") "]",
         0, 0, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct text_pool *pool = text_pool_new();
        struct kube_projection proj = kube_pod_projection(pool);
        struct kube_obj *o;
        struct err e;
        assert_ok(make(&proj, test_path("{" META "},\"spec\":{%s}}", rows[i].spec), &o, &e), &e);
        const struct kube_pod *p = kube_as_pod(o);
        assert_int_equal(p->cpu_milli, rows[i].cpu_milli);
        assert_int_equal(p->mem_bytes, rows[i].mem_bytes);
        assert_int_equal(p->gpus, rows[i].gpus);
        release(pool, &proj, o);
    }
}

TEST(first_reason_that_says_something_is_the_waiting_reason)
{
#define W(reason) "{\"state\":{\"waiting\":{\"reason\":\"" reason "\"}}}"
    static const struct {
        const char *status, *waiting;
    } rows[] = {
        {"\"containerStatuses\":[" W("ContainerCreating") "," W("ImagePullBackOff") "]",
         "ImagePullBackOff"},
        {"\"containerStatuses\":[" W("ErrImagePull") "," W("ContainerCreating") "]",
         "ErrImagePull"},
        {"\"initContainerStatuses\":[" W("CrashLoopBackOff") "],\"containerStatuses\":[" W(
             "PodInitializing") "]",
         "CrashLoopBackOff"},
        {"\"containerStatuses\":[" W("PodInitializing") "]", "PodInitializing"},
        {"\"containerStatuses\":[{\"state\":{}}]", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct text_pool *pool = text_pool_new();
        struct kube_projection proj = kube_pod_projection(pool);
        struct kube_obj *o;
        struct err e;
        assert_ok(make(&proj, test_path("{" META "},\"status\":{%s}}", rows[i].status), &o, &e),
                  &e);
        assert_string_equal(kube_as_pod(o)->waiting, rows[i].waiting);
        release(pool, &proj, o);
    }
}

TEST(wrong_types_are_refused_with_the_field_and_leave_nothing_behind)
{
    static const struct {
        const char *json, *text;
        enum err_code rc;
    } rows[] = {
        {"{}", "metadata.name: is missing", ERR_PARSE},
        {"{\"metadata\":{\"name\":\"\"}}", "metadata.name: is missing", ERR_PARSE},
        {"{\"metadata\":{\"name\":\"a\"}}", "metadata.resourceVersion: is missing", ERR_PARSE},
        {"{\"metadata\":[]}", "metadata: expected an object", ERR_PARSE},
        {"{\"metadata\":{\"name\":5,\"resourceVersion\":\"1\"}}", "name: expected a string",
         ERR_PARSE},
        {"{" META ",\"labels\":[]}}", "labels: expected an object", ERR_PARSE},
        {"{" META ",\"labels\":{\"a\":1}}}", "labels: expected strings", ERR_PARSE},
        {"{" META ",\"creationTimestamp\":\"now\"}}", "creationTimestamp: expected a time",
         ERR_PARSE},
        {"{" META "},\"spec\":[]}", "spec: expected an object", ERR_PARSE},
        {"{" META "},\"spec\":{\"nodeName\":{}}}", "nodeName: expected a string", ERR_PARSE},
        {"{" META "},\"spec\":{\"priority\":\"high\"}}", "priority: expected an integer",
         ERR_PARSE},
        {"{" META "},\"spec\":{\"containers\":{}}}", "containers: expected a list", ERR_PARSE},
        {"{" META "},\"spec\":{\"containers\":[5]}}", "", ERR_OK},
        {"{" META "},\"spec\":{\"containers\":[" C("\"cpu\":\"lots\"") "]}}",
         "cpu: \"lots\" is not a quantity", ERR_PARSE},
        {"{" META "},\"spec\":{\"containers\":[" C("\"cpu\":\"-1\"") "]}}",
         "cpu: a request below zero", ERR_RANGE},
        {"{" META
         "},\"spec\":{\"containers\":[" C("\"memory\":\"7Ei\"") "," C("\"memory\":\"7Ei\"") "]}}",
         "memory: sum is too large", ERR_RANGE},
        {"{" META "},\"spec\":{\"containers\":[" C("\"memory\":1e300") "]}}",
         "memory: quantity is too large", ERR_RANGE},
        {"{" META "},\"spec\":{\"containers\":[" C("\"a/gpu\":[]") "]}}",
         "a/gpu: expected a quantity", ERR_PARSE},
        {"{" META "},\"status\":{\"phase\":1}}", "phase: expected a string", ERR_PARSE},
        {"{" META
         "},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"lastTransitionTime\":\"x\"}]}}",
         "lastTransitionTime", ERR_PARSE},
        {"{" META "},\"status\":{\"containerStatuses\":[{\"restartCount\":1.5}]}}",
         "restartCount: expected an integer", ERR_PARSE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct text_pool *pool = text_pool_new();
        struct kube_projection proj = kube_pod_projection(pool);
        struct kube_obj *o = NULL;
        struct err e;
        if (rows[i].rc == ERR_OK) {
            assert_ok(make(&proj, rows[i].json, &o, &e), &e);
            proj.free(proj.ctx, o);
        } else {
            assert_err(make(&proj, rows[i].json, &o, &e), rows[i].rc, &e, rows[i].text);
            assert_null(o);
        }
        assert_int_equal(text_count(pool), 0);
        text_pool_free(pool);
    }
}

TEST(node_keeps_what_it_offers_and_whether_it_takes_pods)
{
    struct text_pool *pool = text_pool_new();
    struct kube_projection proj = kube_node_projection(pool);
    struct kube_obj *o;
    struct err e;
    assert_ok(make(&proj,
                   "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":\"3\","
                   "\"labels\":{\"pool\":\"a\"}},"
                   "\"spec\":{\"unschedulable\":true,\"taints\":[{\"key\":\"k\",\"value\":\"v\","
                   "\"effect\":\"NoSchedule\"},{\"key\":\"q\",\"effect\":\"NoExecute\"}]},"
                   "\"status\":{\"allocatable\":{\"cpu\":\"31850m\",\"memory\":\"126Gi\",\"pods\":"
                   "\"110\",\"nvidia.com/gpu\":\"8\",\"x/mig-2g\":\"2\"},"
                   "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":"
                   "\"2026-11-29T12:00:00Z\"}]}}",
                   &o, &e),
              &e);
    const struct kube_node *n = kube_as_node(o);
    assert_string_equal(o->ns, "");
    assert_int_equal(n->cpu_milli, 31850);
    assert_int_equal(n->mem_bytes, INT64_C(126) << 30);
    assert_int_equal(n->pods, 110);
    assert_int_equal(n->gpus, 10);
    assert_int_equal(n->n_devices, 2);
    assert_true(n->ready && n->unschedulable && !n->terminating);
    assert_int_equal(n->ready_since_us, 1795953600 * US_PER_S);
    assert_int_equal(n->n_taints, 2);
    assert_string_equal(n->taints[0].effect, "NoSchedule");
    assert_string_equal(n->taints[1].value, "");
    release(pool, &proj, o);
}

TEST(raw_object_keeps_its_text_and_parses_again)
{
    struct text_pool *pool = text_pool_new();
    struct kube_projection proj = kube_raw_projection(pool);
    struct kube_obj *o;
    struct json_doc *doc;
    struct err e;
    assert_ok(make(&proj,
                   "{" META ",\"generation\":4,\"labels\":{\"a\":\"b\"},\"annotations\":{\"sluice."
                            "dev/max\":\"9\"}},\"spec\":{\"replicas\":3}}",
                   &o, &e),
              &e);
    const struct kube_raw *x = kube_as_raw(o);
    assert_int_equal(x->generation, 4);
    assert_string_equal(kube_label_find(x->labels, x->n_labels, "a"), "b");
    assert_string_equal(kube_label_find(x->annotations, x->n_annotations, "sluice.dev/max"), "9");
    assert_ok(kube_raw_json(x, &doc, &e), &e);
    assert_near(json_number(json_find(json_find(json_root(doc), "spec"), "replicas")), 3, 0, 0);
    json_free(doc);
    release(pool, &proj, o);
}

/* ---- what a real server said ------------------------------------------------------------- */

TEST(every_captured_object_is_projected)
{
    static const struct {
        const char *file;
        size_t at_least;
        char kind;
    } rows[] = {{"pod_list", 11, 'p'},
                {"deployment_pods", 2, 'p'},
                {"node_list", 3, 'n'},
                {"pod_create", 1, 'p'},
                {"pod_create_gated", 1, 'p'},
                {"pod_unschedulable", 1, 'p'},
                {"pod_bound_by_default_scheduler", 1, 'p'},
                {"node_create", 1, 'n'},
                {"node_notready", 1, 'n'},
                {"deployment", 1, 'r'},
                {"replicaset_list", 1, 'r'},
                {"lease_list", 1, 'r'},
                {"cr_get", 1, 'r'}};
    (void)test_data_dir(); /* skips, before anything is to be released */
    struct text_pool *pool = text_pool_new();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_projection proj = rows[i].kind == 'p'   ? kube_pod_projection(pool)
                                      : rows[i].kind == 'n' ? kube_node_projection(pool)
                                                            : kube_raw_projection(pool);
        struct kube_capture *c = kube_capture_load(rows[i].file);
        const struct json *body = kube_capture_body(c), *items = json_find(body, "items");
        size_t n = 0;
        for (const struct json *v = items ? json_first(items) : body; v;
             v = items ? json_next(v) : NULL) {
            struct kube_obj *o;
            struct err e;
            assert_ok(proj.make(proj.ctx, v, "{}", 2, &o, &e), &e);
            proj.free(proj.ctx, o);
            n++;
        }
        if (n < rows[i].at_least)
            fail_msg("%s: %zu objects", rows[i].file, n);
        kube_capture_free(c);
    }
    assert_int_equal(text_count(pool), 0);
    text_pool_free(pool);
}

TEST(captured_pod_asks_for_its_gpu_and_waits_to_be_deleted)
{
    struct kube_capture *c = kube_capture_load("pod_list");
    struct text_pool *pool = text_pool_new();
    struct kube_projection proj = kube_pod_projection(pool);
    struct kube_obj *o;
    struct err e;
    assert_ok(
        proj.make(proj.ctx, json_first(json_find(kube_capture_body(c), "items")), "", 0, &o, &e),
        &e);
    const struct kube_pod *p = kube_as_pod(o);
    assert_string_equal(o->name, "b1");
    assert_string_equal(p->node, "gpu-1");
    assert_int_equal(p->gpus, 1);
    assert_int_equal(p->cpu_milli, 1000);
    assert_int_equal(p->mem_bytes, 1 << 30);
    assert_true(p->terminating);
    kube_capture_free(c);
    release(pool, &proj, o);
}

/* ---- was it ever ready? ------------------------------------------------------------------ */

#define AT(s) "2026-11-29T12:" s "Z"
#define READY(is, since) "{\"type\":\"Ready\",\"status\":\"" is "\",\"lastTransitionTime\":\"" AT(since) "\"}"
#define STAMPLESS(is) "{\"type\":\"Ready\",\"status\":\"" is "\"}"
#define BEGUN(ready, more) "\"phase\":\"Running\",\"startTime\":\"" AT("01:00") "\",\"conditions\":[" ready "]" more
#define NO_START(ready) "\"phase\":\"Running\",\"conditions\":[" ready "]"
#define CRASHED(where, from, to)                                                                   \
    ",\"containerStatuses\":[{\"restartCount\":1,\"" where "\":{\"terminated\":{\"startedAt\":\"" AT(from)      \
    "\",\"finishedAt\":\"" AT(to) "\"}}}]"

static struct kube_obj *pod_of_status(const struct kube_projection *proj, const char *status)
{
    struct kube_obj *o;
    struct err e;
    assert_ok(make(proj, test_path("{" META ",\"creationTimestamp\":\"" AT("00:00") "\"},\"status\":{%s}}", status), &o, &e),
              &e);
    return o;
}

TEST(whether_a_pod_was_ready_before_is_told_by_its_conditions_and_by_what_was_seen)
{
    static const struct {
        const char *name, *seen, *then, *now; /* states one after the other; NULL: not seen */
        bool served;
    } rows[] = {
        {"nothing is known", NULL, NULL, "", false},
        {"running, no conditions", NULL, NULL, "\"phase\":\"Running\"", false},
        {"starting", NULL, NULL, BEGUN(READY("False", "01:00"), ""), false},
        {"stamped a moment after its start", NULL, NULL, BEGUN(READY("False", "01:02"), ""), false},
        {"ready for the first time", NULL, NULL, BEGUN(READY("True", "03:00"), ""), false},
        {"not ready since later than its start", NULL, NULL, BEGUN(READY("False", "09:00"), ""), true},
        {"the node is lost", NULL, NULL, BEGUN(READY("Unknown", "09:00"), ""), true},
        {"no stamp", NULL, NULL, BEGUN(STAMPLESS("False"), ""), false},
        {"no start, so no telling", NULL, NULL, NO_START(READY("False", "09:00")), false},
        {"crashes before it is ready", NULL, NULL,
         BEGUN(READY("False", "01:00"), CRASHED("lastState", "02:00", "02:40")), false},
        {"ready without a probe until it crashes at once", NULL, NULL,
         BEGUN(READY("False", "02:03"), CRASHED("state", "02:00", "02:03")), false},
        {"the same, waiting for its next run", NULL, NULL,
         BEGUN(READY("False", "02:03"), CRASHED("lastState", "02:00", "02:03")), false},
        {"crashed after it had served", NULL, NULL,
         BEGUN(READY("False", "09:00"), CRASHED("state", "02:00", "09:00")), true},
        {"crashed at its start, served, lost it", NULL, NULL,
         BEGUN(READY("False", "09:00"), CRASHED("lastState", "01:10", "01:20")), true},
        {"seen ready, no conditions any more", NULL, BEGUN(READY("True", "03:00"), ""), "\"phase\":\"Running\"", true},
        {"seen ready, no start", NULL, NO_START(READY("True", "03:00")), NO_START(READY("False", "09:00")), true},
        {"seen ready without stamps", NULL, NO_START(STAMPLESS("True")), NO_START(STAMPLESS("False")), true},
        {"seen ready for a moment", NULL, BEGUN(READY("True", "02:00"), ""),
         BEGUN(READY("False", "02:03"), CRASHED("state", "02:00", "02:03")), false},
        {"a probe that fails soon is no crash", NULL, BEGUN(READY("True", "02:00"), ""),
         BEGUN(READY("False", "02:20"), ""), true},
        {"seen to serve, then crashing again and again", BEGUN(READY("True", "02:00"), ""),
         BEGUN(READY("False", "09:00"), CRASHED("state", "01:30", "09:00")),
         BEGUN(READY("False", "09:33"), CRASHED("state", "09:30", "09:33")), true},
        {"still ready", BEGUN(READY("True", "02:00"), ""), BEGUN(READY("True", "02:00"), ""),
         BEGUN(READY("True", "02:00"), ""), false},
        {"lost and found again", BEGUN(READY("True", "02:00"), ""), BEGUN(READY("False", "09:00"), ""),
         BEGUN(READY("True", "09:30"), ""), true},
        {"lost and found again while nobody looked", NULL, BEGUN(READY("True", "02:00"), ""),
         BEGUN(READY("True", "09:30"), ""), true},
        {"seen starting, then ready", BEGUN(READY("False", "01:00"), ""), BEGUN(READY("False", "01:00"), ""),
         BEGUN(READY("True", "03:00"), ""), false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct text_pool *pool = text_pool_new();
        struct kube_projection proj = kube_pod_projection(pool);
        const char *states[] = {rows[i].seen, rows[i].then, rows[i].now};
        struct kube_obj *last = NULL;
        for (size_t k = 0; k < ARRAY_LEN(states); k++) {
            struct kube_obj *o = states[k] ? pod_of_status(&proj, states[k]) : NULL;
            if (o && last)
                proj.inherit(proj.ctx, last, o);
            if (o && last)
                proj.free(proj.ctx, last);
            last = o ? o : last;
        }
        if (kube_as_pod(last)->served != rows[i].served)
            fail_msg("%s: served is %d", rows[i].name, kube_as_pod(last)->served);
        release(pool, &proj, last);
    }
}
