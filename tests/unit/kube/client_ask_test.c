/* client_ask_test.c - what is asked of the server before and beside the work: discovery, reviews, credentials of plugins. */
#include <sys/stat.h>

#include "base/file.h"
#include "tests/unit/kube/client_world.h"

/* ---- discovery and reviews --------------------------------------------------------------- */

#define APPS                                                                                       \
    "{\"kind\":\"APIResourceList\",\"groupVersion\":\"apps/v1\",\"resources\":["                   \
    "{\"name\":\"deployments/scale\",\"kind\":\"Scale\",\"namespaced\":true},"                     \
    "{\"name\":\"deployments\",\"kind\":\"Deployment\",\"namespaced\":true},"                      \
    "{\"name\":\"deployments/status\",\"kind\":\"Deployment\",\"namespaced\":true},"               \
    "{\"name\":\"daemonsets\",\"kind\":\"DaemonSet\",\"namespaced\":true},"                        \
    "{\"name\":\"zones\",\"kind\":\"Zone\",\"namespaced\":false}]}"

TEST(discovery_asks_once_per_group_and_knows_scale_and_scope)
{
    RIG(r, {.status = 200, .body = APPS});
    struct kube_resource res;
    struct err e;
    assert_ok(kube_discover(r.kube, "apps/v1", "Deployment", &res, &e), &e);
    assert_string_equal(r.script.path, "/apis/apps/v1");
    assert_string_equal(res.plural, "deployments");
    assert_true(res.namespaced && res.has_scale);
    assert_ok(kube_discover(r.kube, "apps/v1", "DaemonSet", &res, &e), &e);
    assert_false(res.has_scale);
    assert_ok(kube_discover(r.kube, "apps/v1", "Zone", &res, &e), &e);
    assert_false(res.namespaced);
    assert_err(kube_discover(r.kube, "apps/v1", "Nope", &res, &e), ERR_MISSING, &e,
               "kind Nope: apps/v1 is served without it");
    assert_int_equal(raw_server_requests(r.raw), 1);
    assert_ok(kube_discover(r.kube, "v1", "Deployment", &res, &e), &e);
    assert_string_equal(r.script.path, "/api/v1");
    assert_err(kube_discover(r.kube, "a/b/c", "X", &res, &e), ERR_INVAL, &e, "GROUP/VERSION");
    rig_stop(&r);
}

TEST(definition_that_appears_late_is_found_on_a_later_try)
{
    static const struct step late[] = {
        {.status = 404, .type = "text/plain", .body = "404 page not found\n"},
        {.status = 200, .body = "{\"resources\":[]}"},
        {.status = 200,
         .body = "{\"resources\":[{\"name\":\"capacitytargets\",\"kind\":\"CapacityTarget\","
                 "\"namespaced\":true}]}"}};
    struct kube_opts o = fast();
    struct kube_resource res;
    struct err e;
    struct rig r;
    o.absent_us = 40 * US_PER_MS;
    rig_start(&r, late, 3, &o);
    assert_err(kube_discover(r.kube, "sluice.dev/v1alpha1", "CapacityTarget", &res, &e),
               ERR_MISSING, &e, "not served by");
    assert_err(kube_discover(r.kube, "sluice.dev/v1alpha1", "CapacityTarget", &res, &e),
               ERR_MISSING, &e, "not served by");
    assert_int_equal(raw_server_requests(r.raw), 1);
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (kube_discover(r.kube, "sluice.dev/v1alpha1", "CapacityTarget", &res, &e) &&
           clock_mono_us() < give_up_us)
        kube_poll(r.kube, 5 * US_PER_MS);
    assert_string_equal(res.plural, "capacitytargets");
    assert_int_equal(raw_server_requests(r.raw), 3);
    rig_stop(&r);
}

TEST(discovery_beside_the_loop_answers_once_the_server_has_and_asks_once_at_a_time)
{
    static const struct step steps[] = {{.status = 403}, {.status = 200, .body = APPS}};
    struct kube_opts o = fast();
    struct kube_resource res;
    struct err e;
    struct rig r;
    o.absent_us = 30 * US_PER_MS;
    rig_start(&r, steps, 2, &o);
    for (int i = 0; i < 5; i++)
        assert_err(kube_discover_soon(r.kube, "apps/v1", "Zone", &res, &e), ERR_MISSING, &e, "is being asked");
    assert_int_equal(kube_running(r.kube), 1);
    bool refused = false;
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (kube_discover_soon(r.kube, "apps/v1", "Zone", &res, &e) && clock_mono_us() < give_up_us) {
        refused = refused || strstr(e.msg, "403 Forbidden");
        kube_poll(r.kube, 5 * US_PER_MS);
    }
    assert_string_equal(res.plural, "zones");
    assert_true(refused);
    assert_int_equal(raw_server_requests(r.raw), 2);
    assert_err(kube_discover_soon(r.kube, "apps/v1", "Nope", &res, &e), ERR_MISSING, &e, "served without it");
    assert_err(kube_discover_soon(r.kube, "a/b/c", "X", &res, &e), ERR_INVAL, &e, "GROUP/VERSION");
    assert_err(kube_discover_soon(r.kube, "batch/v1", "Job", &res, &e), ERR_MISSING, &e, "is being asked");
    rig_stop(&r); /* with a question under way */
}

TEST(what_was_discovered_stays_when_the_server_cannot_be_asked)
{
    static const struct step steps[] = {{.status = 200, .body = APPS}, {.status = 403}};
    struct kube_opts o = fast();
    struct kube_resource res;
    struct err e;
    struct rig r;
    o.discover_us = 0;
    rig_start(&r, steps, 2, &o);
    assert_ok(kube_discover(r.kube, "apps/v1", "Zone", &res, &e), &e);
    assert_ok(kube_discover(r.kube, "apps/v1", "Zone", &res, &e), &e);
    assert_int_equal(raw_server_requests(r.raw), 2);
    assert_err(kube_discover(r.kube, "batch/v1", "Job", &res, &e), ERR_INVAL, &e, "403 Forbidden");
    rig_stop(&r);
}

TEST(bad_discovery_answers_are_errors)
{
    static const char *const bodies[] = {"{}",
                                         "[]",
                                         "{\"resources\":{}}",
                                         "<html>",
                                         "{\"resources\":[",
                                         "{\"resources\":[1,{\"name\":5},{\"name\":\"x\"}]}"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct step one[] = {{.status = 200, .body = bodies[i]}};
        struct kube_opts o = fast();
        struct kube_resource res;
        struct err e;
        struct rig r;
        rig_start(&r, one, 1, &o);
        bool last = i + 1 == ARRAY_LEN(bodies); /* items that are no resources are passed over */
        enum err_code rc = kube_discover(r.kube, "apps/v1", "Zone", &res, &e);
        assert_int_equal(rc == ERR_MISSING && strstr(e.msg, "without it") != NULL, last);
        assert_true(rc == ERR_PARSE || rc == ERR_MISSING);
        rig_stop(&r);
    }
}

TEST(self_review_sends_what_is_asked_and_reads_the_answer)
{
    RIG(r, {.status = 201, .body = "{\"status\":{\"allowed\":true,\"reason\":\"RBAC: yes\"}}"},
        {.status = 201, .body = "{\"status\":{\"allowed\":false}}"},
        {.status = 201, .body = "{\"status\":{}}"}, {.status = 403});
    struct kube_access a = {.verb = "patch",
                            .group = "apps",
                            .resource = "deployments",
                            .subresource = "scale",
                            .ns = "d"};
    bool allowed;
    char reason[256];
    struct err e;
    assert_ok(kube_can(r.kube, &a, &allowed, reason, &e), &e);
    assert_true(allowed);
    assert_string_equal(reason, "RBAC: yes");
    assert_string_equal(
        r.script.body,
        "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\",\"spec\":"
        "{\"resourceAttributes\":{\"verb\":\"patch\",\"group\":\"apps\",\"resource\":"
        "\"deployments\","
        "\"subresource\":\"scale\",\"namespace\":\"d\"}}}\n");
    assert_ok(kube_can(r.kube, &a, &allowed, reason, &e), &e);
    assert_false(allowed);
    assert_string_equal(reason, "");
    assert_err(kube_can(r.kube, &a, &allowed, NULL, &e), ERR_MISSING, &e,
               "SelfSubjectAccessReview");
    assert_err(kube_can(r.kube, &a, &allowed, NULL, &e), ERR_INVAL, &e, "403");
    assert_false(allowed);
    rig_stop(&r);
}

/* ---- credential plugins ------------------------------------------------------------------ */

/* A client whose credentials come from a shell script; $n is the number of its run, and so of its token. */
struct plugin_rig {
    struct rig r;
    char dir[256];
};

static void plugin_start(struct plugin_rig *p, const char *name, const struct step *steps, size_t n_steps,
                         int64_t renew_us, const char *script)
{
    struct rig *r = &p->r;
    struct kube_opts o = fast();
    struct err e;
    *r = (struct rig){.script = {.lock = PTHREAD_MUTEX_INITIALIZER, .steps = steps, .n_steps = n_steps}};
    (void)snprintf(p->dir, sizeof p->dir, "%s/%s", test_tmp_dir(), name);
    (void)mkdir(p->dir, 0700);
    r->raw = raw_server_start(play, &r->script);
    const char *plugin = test_path("%s/plugin", p->dir), *kc = test_path("%s/kc", p->dir);
    const char *text = test_path(
        "#!/bin/sh\ncd %s\necho x >> count\nn=$(wc -l < count)\nexp=2099-01-01T00:00:00Z\n%s\n"
        "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":"
        "{\"token\":\"t'$n'\",\"expirationTimestamp\":\"'$exp'\"}}'\n",
        p->dir, script);
    test_write_file(plugin, text, strlen(text));
    chmod(plugin, 0700);
    text = test_path("current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
                     "clusters: [{name: a, cluster: {server: '%s'}}]\n"
                     "users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, "
                     "command: %s}}}]\n",
                     raw_server_url(r->raw), plugin);
    test_write_file(kc, text, strlen(text));
    struct kube_config_opts co = kube_config_opts_default();
    co.path = kc;
    o.renew_us = renew_us;
    o.deadline_us = 10 * US_PER_S;
    assert_ok(kube_config_load(&co, &r->config, &e), &e);
    assert_ok(http_client_new(&r->http, &e), &e);
    assert_ok(kube_new(r->config, r->http, &o, &r->kube, &e), &e);
}

static int plugin_runs(const struct plugin_rig *p)
{
    struct buf b;
    struct err e;
    assert_ok(file_read(test_path("%s/count", p->dir), 1 << 16, &b, &e), &e);
    int n = (int)b.n / 2;
    buf_fini(&b);
    return n;
}

/* The loop goes on for so long, or until the plugin ran n times. */
static void turn(struct plugin_rig *p, int64_t us, int n)
{
    int64_t until_us = clock_mono_us() + us;
    while (clock_mono_us() < until_us && (n == 0 || plugin_runs(p) < n))
        (void)kube_poll(p->r.kube, 5 * US_PER_MS);
}

static void assert_get(struct plugin_rig *p, enum err_code rc, int attempts, const char *token)
{
    struct kube_call call = {.verb = KUBE_GET, .path = "/x"};
    struct kube_reply reply;
    struct err e;
    assert_err(kube_do(p->r.kube, &call, &reply, &e), rc, rc ? &e : NULL, NULL);
    assert_int_equal(reply.attempts, attempts);
    if (!strstr(p->r.script.headers, test_path("Authorization: Bearer %s\r\n", token)))
        fail_msg("not sent with %s: %s", token, p->r.script.headers);
    kube_reply_fini(&reply);
}

enum { RENEW_MS = 300 };

TEST(plugin_token_is_renewed_when_refused_or_about_to_expire)
{
    static const struct step steps[] = {{.status = 200}, {.status = 401}, {.status = 200}, {.status = 401},
                                        {.status = 401}, {.status = 200}, {.status = 200}};
    struct plugin_rig p;
    plugin_start(&p, "renewed", steps, ARRAY_LEN(steps), RENEW_MS * US_PER_MS,
                 "[ $n = 3 ] && exp=2001-01-01T00:00:00Z");
    assert_get(&p, ERR_OK, 1, "t1");
    turn(&p, 2 * RENEW_MS * US_PER_MS, 0);
    assert_get(&p, ERR_OK, 2, "t2");
    turn(&p, 2 * RENEW_MS * US_PER_MS, 0);
    assert_get(&p, ERR_INVAL, 2, "t3"); /* new ones that are refused too: an error, not a loop */
    assert_int_equal(plugin_runs(&p), 3);
    assert_get(&p, ERR_OK, 1, "t3");    /* expired, says our clock: while they are new, the server judges */
    turn(&p, 10 * US_PER_S, 4);
    turn(&p, 2 * RENEW_MS * US_PER_MS, 0);
    assert_get(&p, ERR_OK, 1, "t4"); /* renewed with nothing sent meanwhile */
    rig_stop(&p.r);
}

static void count_done(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *e)
{
    (void)reply;
    (void)e;
    *(int *)ctx += rc == ERR_OK;
}

TEST(a_slow_plugin_holds_up_neither_the_loop_nor_what_can_still_be_sent)
{
    static const struct step steps[] = {{.status = 200}, {.status = 401}, {.status = 200}, {.status = 200}};
    struct plugin_rig p;
    int done = 0;
    struct err e;
    plugin_start(&p, "slow", steps, ARRAY_LEN(steps), US_PER_MS,
                 "[ $n = 1 ] && exp=$(date -u -d '+30 seconds' +%Y-%m-%dT%H:%M:%SZ)\n"
                 "[ $n -gt 1 ] && while [ ! -e go ]; do sleep 0.05; done");
    turn(&p, 10 * US_PER_S, 2);
    assert_int_equal(plugin_runs(&p), 2); /* ahead of expiry */
    assert_get(&p, ERR_OK, 1, "t1");      /* which is half a minute away */
    struct kube_call call = {.verb = KUBE_GET, .path = "/x", .done = count_done, .ctx = &done};
    assert_ok(kube_start(p.r.kube, &call, NULL, &e), &e); /* 401: from now on it is needed */
    int64_t longest_us = 0;
    for (int64_t until_us = clock_mono_us() + 300 * US_PER_MS, at_us; (at_us = clock_mono_us()) < until_us;) {
        (void)kube_poll(p.r.kube, US_PER_MS);
        longest_us = clock_mono_us() - at_us > longest_us ? clock_mono_us() - at_us : longest_us;
    }
    assert_int_equal(done, 0);
    assert_ok(kube_start(p.r.kube, &call, NULL, &e), &e); /* begun while nothing can be sent: waits as well */
    assert_true(longest_us < 200 * US_PER_MS);
    test_write_file(test_path("%s/go", p.dir), "", 0);
    for (int64_t until_us = clock_mono_us() + 10 * US_PER_S; done < 2 && clock_mono_us() < until_us;)
        (void)kube_poll(p.r.kube, 5 * US_PER_MS);
    assert_int_equal(done, 2);
    rig_stop(&p.r);
}

TEST(a_plugin_that_hangs_ends_a_call_at_its_deadline_and_dies_with_its_client)
{
    static const struct step steps[] = {{.status = 401}};
    struct plugin_rig p;
    struct kube_reply reply;
    struct err e;
    plugin_start(&p, "hangs", steps, ARRAY_LEN(steps), 0, "[ $n -gt 1 ] && sleep 1000");
    struct kube_call call = {.verb = KUBE_GET, .path = "/x", .deadline_us = 200 * US_PER_MS};
    assert_err(kube_do(p.r.kube, &call, &reply, &e), ERR_IO, &e, "plugin still runs");
    kube_reply_fini(&reply);
    int64_t from_us = clock_mono_us();
    rig_stop(&p.r);
    assert_true(clock_mono_us() - from_us < 5 * US_PER_S);
}

TEST(a_plugin_that_fails_leaves_what_is_at_hand_in_use_and_is_asked_again)
{
    static const struct step steps[] = {{.status = 200}, {.status = 401}, {.status = 200}};
    struct plugin_rig p;
    struct kube_reply reply;
    struct err e;
    plugin_start(&p, "fails", steps, ARRAY_LEN(steps), 20 * US_PER_MS,
                 "[ $n = 1 ] && exp=$(date -u -d '+30 seconds' +%Y-%m-%dT%H:%M:%SZ)\n"
                 "[ $n -gt 1 ] && [ ! -e go ] && { echo no token today >&2; exit 1; }");
    turn(&p, 10 * US_PER_S, 4);
    assert_get(&p, ERR_OK, 1, "t1");
    struct kube_call call = {.verb = KUBE_GET, .path = "/x"};
    assert_err(kube_do(p.r.kube, &call, &reply, &e), ERR_IO, &e, "no token today"); /* refused: nothing at hand */
    kube_reply_fini(&reply);
    test_write_file(test_path("%s/go", p.dir), "", 0);
    int64_t until_us = clock_mono_us() + 10 * US_PER_S;
    enum err_code rc = ERR_IO;
    while (rc && clock_mono_us() < until_us) {
        (void)kube_poll(p.r.kube, 5 * US_PER_MS);
        rc = kube_do(p.r.kube, &call, &reply, &e);
        kube_reply_fini(&reply);
    }
    assert_ok(rc, &e);
    rig_stop(&p.r);
}
