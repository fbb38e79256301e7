/* fault_test.c - faults on demand do what they say, to whom they say, as often as they say. */
#include "tests/unit/apiserver/rest.h"

#define MAPS "/api/v1/namespaces/default/configmaps"
#define MAP(name)                                                                                  \
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"" name "\"}}"

static struct apiserver *start(void)
{
    struct apiserver *a = NULL;
    struct err e;
    assert_ok(apiserver_start(&(struct apiserver_opts){0}, &a, &e), &e);
    return a;
}

TEST(statuses_carry_the_bodies_a_real_server_gives)
{
    static const struct {
        struct apiserver_fault f;
        const char *type, *reason, *retry;
    } row[] = {
        {{.kind = APISERVER_STATUS, .status = 409}, "application/json", "Conflict", ""},
        {{.kind = APISERVER_STATUS, .status = 410}, "application/json", "Expired", ""},
        {{.kind = APISERVER_STATUS, .status = 429, .plain = true, .retry_after_s = 1},
         "text/plain; charset=utf-8",
         "",
         "1"},
        {{.kind = APISERVER_STATUS, .status = 429}, "application/json", "TooManyRequests", ""},
        {{.kind = APISERVER_STATUS, .status = 500}, "application/json", "InternalError", ""},
        {{.kind = APISERVER_STATUS, .status = 503, .retry_after_s = 5},
         "application/json",
         "ServiceUnavailable",
         "5"},
        {{.kind = APISERVER_HANG, .latency_us = 1000}, "application/json", "Timeout", ""},
        {{.kind = APISERVER_EXPIRE}, "application/json", "Expired", ""},
    };
    struct apiserver *a = start();
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        int id = apiserver_fault(a, &row[i].f);
        struct rest r = rest(a, "GET", MAPS, NULL);
        assert_int_equal(r.status, row[i].f.kind == APISERVER_HANG     ? 504
                                   : row[i].f.kind == APISERVER_EXPIRE ? 410
                                                                       : row[i].f.status);
        assert_string_equal(r.type, row[i].type);
        assert_string_equal(rest_text(&r, "reason"), row[i].reason);
        assert_string_equal(r.retry_after, row[i].retry);
        rest_fini(&r);
        assert_int_equal(apiserver_hits(a, id), 1);
        apiserver_clear(a, id);
        assert_int_equal(rest_status(a, "GET", MAPS, NULL), 200);
    }
    apiserver_free(a);
}

TEST(a_fault_hits_the_requests_it_names_as_often_as_it_says)
{
    struct apiserver *a = start();
    apiserver_fault(a, &(struct apiserver_fault){.kind = APISERVER_STATUS,
                                                 .status = 500,
                                                 .method = "POST",
                                                 .path = "/configmaps",
                                                 .skip = 1,
                                                 .count = 2});
    assert_int_equal(rest_status(a, "GET", MAPS, NULL), 200);
    assert_int_equal(rest_status(a, "POST", "/api/v1/namespaces/default/secrets",
                                 "{\"metadata\":{\"name\":\"s\"}}"),
                     201);
    assert_int_equal(rest_status(a, "POST", MAPS, MAP("a")), 201);
    assert_int_equal(rest_status(a, "POST", MAPS, MAP("b")), 500);
    assert_int_equal(rest_status(a, "POST", MAPS, MAP("b")), 500);
    assert_int_equal(rest_status(a, "POST", MAPS, MAP("b")), 201);
    int other = apiserver_fault(
        a, &(struct apiserver_fault){.kind = APISERVER_STATUS, .status = 503, .token = "nobody"});
    assert_int_equal(rest_status(a, "GET", MAPS, NULL), 200);
    assert_int_equal(apiserver_hits(a, other), 0);
    apiserver_free(a);
}

TEST(a_probable_fault_hits_its_share_and_the_same_ones_for_a_seed)
{
    char seen[2][201];
    for (int run = 0; run < 2; run++) {
        struct apiserver *a = start();
        apiserver_fault(a, &(struct apiserver_fault){
                               .kind = APISERVER_STATUS, .status = 500, .probability = 0.3});
        for (int i = 0; i < 200; i++)
            seen[run][i] = rest_status(a, "GET", MAPS, NULL) == 500 ? 'x' : '.';
        seen[run][200] = '\0';
        apiserver_free(a);
    }
    assert_string_equal(seen[0], seen[1]);
    int n = 0;
    for (int i = 0; i < 200; i++)
        n += seen[0][i] == 'x';
    assert_true(n > 35 && n < 90);
}

TEST(work_is_done_or_not_as_the_fault_says)
{
    static const struct {
        enum apiserver_fault_kind kind;
        int status;
        bool done;
    } row[] = {
        {APISERVER_STATUS, 504, false},   {APISERVER_AFTER, 504, true},
        {APISERVER_CUT, 0, false},        {APISERVER_CUT_AFTER, 0, true},
        {APISERVER_HALF_BODY, 201, true}, {APISERVER_GARBAGE, 200, true},
        {APISERVER_HANG, 504, false},     {APISERVER_LATENCY, 201, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct apiserver *a = start();
        apiserver_fault(
            a, &(struct apiserver_fault){
                   .kind = row[i].kind, .status = 504, .method = "POST", .latency_us = 20000});
        struct rest r = rest(a, "POST", MAPS, MAP("m"));
        if (r.status != row[i].status)
            fail_msg("fault %d: status %d", (int)row[i].kind, r.status);
        if (row[i].kind == APISERVER_HALF_BODY)
            assert_true(!r.whole && r.body.n > 0 && !r.json);
        if (row[i].kind == APISERVER_GARBAGE)
            assert_null(r.json);
        rest_fini(&r);
        assert_int_equal(rest_status(a, "GET", MAPS "/m", NULL), row[i].done ? 200 : 404);
        apiserver_free(a);
    }
}

TEST(latency_holds_up_the_request_it_hits_and_no_other)
{
    struct apiserver *a = start();
    apiserver_fault(a, &(struct apiserver_fault){.kind = APISERVER_LATENCY,
                                                 .path = "/slow",
                                                 .latency_us = 300 * US_PER_MS});
    int64_t from = clock_mono_us();
    int fd = rest_start(a, &(struct rest_ask){.method = "GET", .path = MAPS "/slow"});
    assert_int_equal(rest_status(a, "GET", MAPS, NULL), 200);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    struct buf b = buf_init(1 << 16);
    while (rest_more(fd, &b)) {
    }
    assert_true(strncmp(b.p, "HTTP/1.1 404", 12) == 0);
    assert_true(clock_mono_us() - from >= 290 * US_PER_MS);
    close(fd);
    buf_fini(&b);
    apiserver_free(a);
}

TEST(a_stall_holds_up_everything_and_late_writes_still_happen)
{
    struct apiserver *a = start();
    struct rest_watch w = rest_watch(a, MAPS "?watch=1&resourceVersion=6");
    apiserver_stall(a, 400 * US_PER_MS);
    int64_t from = clock_mono_us();
    /* A client that gives up at once. */
    int fd = rest_start(a, &(struct rest_ask){.method = "POST", .path = MAPS, .body = MAP("late")});
    poll(NULL, 0, 50);
    close(fd);
    char *early = apiserver_get(a, MAPS "/late");
    assert_null(early);
    assert_int_equal(rest_status(a, "POST", MAPS, MAP("patient")), 201);
    assert_true(clock_mono_us() - from >= 390 * US_PER_MS);
    const char *first = rest_watch_tell(&w);
    assert_true(strcmp(first, "ADDED late") == 0 || strcmp(first, "ADDED patient") == 0);
    rest_watch_tell(&w);
    assert_int_equal(apiserver_count(a, MAPS), 2);
    rest_watch_fini(&w);
    apiserver_free(a);
}

/* ---- streams ---- */

TEST(open_streams_are_cut_in_half_lines_garbled_and_expired)
{
    struct apiserver *a = start();
    struct rest_watch w = rest_watch(a, MAPS "?watch=1&resourceVersion=6");
    apiserver_must_load(a, MAP("one"));
    assert_string_equal(rest_watch_tell(&w), "ADDED one");
    apiserver_fault(
        a, &(struct apiserver_fault){.kind = APISERVER_HALF_BODY, .method = "WATCH", .count = 1});
    apiserver_must_load(a, MAP("two"));
    assert_string_equal(rest_watch_tell(&w), "END");
    assert_false(w.ended);        /* no last chunk */
    assert_true(w.text.n > w.at); /* half a line */
    rest_watch_fini(&w);

    w = rest_watch(a, MAPS "?watch=1&resourceVersion=6");
    assert_string_equal(rest_watch_tell(&w), "ADDED one");
    assert_string_equal(rest_watch_tell(&w), "ADDED two");
    apiserver_fault(
        a, &(struct apiserver_fault){.kind = APISERVER_GARBAGE, .method = "WATCH", .count = 1});
    apiserver_must_load(a, MAP("three"));
    cJSON *j = rest_watch_next(&w);
    assert_true(cJSON_IsString(j)); /* not JSON */
    cJSON_Delete(j);
    apiserver_must_load(a, MAP("four"));
    assert_string_equal(rest_watch_tell(&w), "ADDED four");
    apiserver_fault(
        a, &(struct apiserver_fault){.kind = APISERVER_CUT, .method = "WATCH", .count = 1});
    apiserver_must_load(a, MAP("five"));
    assert_string_equal(rest_watch_tell(&w), "END");
    assert_false(w.ended);
    rest_watch_fini(&w);

    w = rest_watch(a, MAPS "?watch=1&resourceVersion=6");
    for (int i = 0; i < 5; i++)
        rest_watch_tell(&w);
    apiserver_fault(
        a, &(struct apiserver_fault){.kind = APISERVER_EXPIRE, .method = "WATCH", .count = 1});
    assert_string_equal(rest_watch_tell(&w), "ERROR"); /* although nothing happened */
    assert_string_equal(rest_watch_tell(&w), "END");
    assert_true(w.ended);
    rest_watch_fini(&w);
    apiserver_free(a);
}

TEST(a_silent_stream_stays_open_and_says_nothing)
{
    struct apiserver *a = NULL;
    struct err e;
    assert_ok(apiserver_start(&(struct apiserver_opts){.bookmark_us = 10 * US_PER_MS}, &a, &e), &e);
    apiserver_fault(
        a, &(struct apiserver_fault){
               .kind = APISERVER_SILENT, .method = "WATCH", .path = "labelSelector", .count = 1});
    struct rest_watch silent =
        rest_watch(a, MAPS "?watch=1&resourceVersion=6&labelSelector=!x&allowWatchBookmarks=1");
    struct rest_watch other = rest_watch(a, MAPS "?watch=1&resourceVersion=6");
    for (int i = 0; i < 20; i++)
        apiserver_must_load(
            a, test_path(
                   "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m%d\"}}",
                   i));
    for (int i = 0; i < 20; i++)
        assert_string_equal(rest_watch_tell(&other), test_path("ADDED m%d", i));
    struct pollfd p = {.fd = silent.fd, .events = POLLIN};
    char head[2000];
    ssize_t n = recv(silent.fd, head, sizeof head - 1, MSG_DONTWAIT);
    head[n > 0 ? n : 0] = '\0';
    assert_null(strstr(head, "ADDED"));
    assert_int_equal(poll(&p, 1, 50), 0);
    assert_int_equal(apiserver_watches(a), 2);
    apiserver_cut_watches(a);
    assert_string_equal(rest_watch_tell(&other), "END");
    rest_watch_fini(&silent);
    rest_watch_fini(&other);
    apiserver_free(a);
}

TEST(huge_objects_are_as_large_as_asked)
{
    struct apiserver *a = start();
    apiserver_must_load(a, MAP("m"));
    apiserver_fault(a, &(struct apiserver_fault){.kind = APISERVER_HUGE, .size = 3000000});
    struct rest r = rest(a, "GET", MAPS "/m", NULL);
    assert_int_equal(strlen(rest_text(&r, "metadata.selfLink")), 3000000);
    rest_fini(&r);
    r = rest(a, "GET", MAPS, NULL);
    assert_int_equal(strlen(rest_text(&r, "items.0.metadata.selfLink")), 3000000);
    rest_fini(&r);
    struct rest_watch w = rest_watch(a, MAPS "?watch=1");
    cJSON *j = rest_watch_next(&w);
    assert_int_equal(strlen(rest_at(j, "object.metadata.selfLink")->valuestring), 3000000);
    cJSON_Delete(j);
    rest_watch_fini(&w);
    apiserver_free(a);
}

/* ---- restarts ---- */

TEST(a_server_that_is_down_refuses_and_comes_back_with_its_state)
{
    struct apiserver *a = start();
    struct err e;
    apiserver_must_load(a, MAP("m"));
    uint64_t v = apiserver_version(a);
    struct rest_watch w = rest_watch(a, MAPS "?watch=1");
    assert_string_equal(rest_watch_tell(&w), "ADDED m");
    uint16_t port = apiserver_port(a);
    apiserver_down(a);
    assert_string_equal(rest_watch_tell(&w), "END");
    assert_int_equal(rest_dial(a), -1);
    apiserver_must_load(a, MAP("n")); /* the state goes on inside */
    assert_ok(apiserver_up(a, false, &e), &e);
    assert_ok(apiserver_up(a, false, &e), &e);
    assert_int_equal(apiserver_port(a), port);
    rest_watch_fini(&w);
    w = rest_watch(a, test_path(MAPS "?watch=1&resourceVersion=%llu", (unsigned long long)v));
    assert_string_equal(rest_watch_tell(&w), "ADDED n");
    rest_watch_fini(&w);
    apiserver_down(a);
    apiserver_down(a);
    assert_ok(apiserver_up(a, true, &e), &e);
    w = rest_watch(a, test_path(MAPS "?watch=1&resourceVersion=%llu", (unsigned long long)v));
    assert_string_equal(rest_watch_tell(&w), "ERROR");
    rest_watch_fini(&w);
    apiserver_free(a);
}

TEST(a_server_that_stops_refuses_at_once_and_ends_its_streams_cleanly)
{
    struct apiserver *a = start();
    struct err e;
    struct rest_watch w = rest_watch(a, MAPS "?watch=1&resourceVersion=6");
    apiserver_drain(a, 100 * US_PER_MS);
    assert_int_equal(rest_dial(a), -1);
    apiserver_must_load(a, MAP("m"));
    assert_string_equal(rest_watch_tell(&w), "ADDED m");
    assert_string_equal(rest_watch_tell(&w), "END");
    assert_true(w.ended);
    rest_watch_fini(&w);
    apiserver_down(a);
    assert_ok(apiserver_up(a, false, &e), &e);
    assert_int_equal(rest_status(a, "GET", MAPS, NULL), 200);
    apiserver_free(a);
}

TEST(while_storage_is_away_caches_answer_and_the_rest_times_out)
{
    static const struct {
        const char *method, *path;
        int status;
    } row[] = {
        {"GET", MAPS "?resourceVersion=0", 200},
        {"GET", "/readyz", 200},
        {"GET", "/version", 200},
        {"GET", MAPS, 504},
        {"GET", MAPS "/m", 504},
        {"POST", MAPS, 504},
    };
    struct apiserver *a = start();
    apiserver_storage_away(a, 20 * US_PER_MS, 10 * US_PER_MS);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const char *body = strcmp(row[i].method, "POST") == 0 ? MAP("m") : NULL;
        int status = rest_status(a, row[i].method, row[i].path, body);
        if (status != row[i].status)
            fail_msg("%s %s: %d", row[i].method, row[i].path, status);
    }
    struct rest_watch w = rest_watch(a, MAPS "?watch=1&resourceVersion=6");
    apiserver_storage_away(a, -1, -1);
    assert_int_equal(rest_status(a, "POST", MAPS, MAP("m")), 201);
    assert_string_equal(rest_watch_tell(&w), "ADDED m");
    rest_watch_fini(&w);
    apiserver_free(a);
}

TEST(faults_are_controlled_by_http_too)
{
    struct apiserver *a = start();
    struct rest r =
        rest(a, "POST", "/_test/faults",
             "{\"kind\":\"status\",\"status\":503,\"path\":\"/configmaps\",\"count\":1}");
    assert_int_equal(r.status, 200);
    assert_near(rest_number(&r, "id"), 1, 0, 0);
    rest_fini(&r);
    assert_int_equal(rest_status(a, "GET", MAPS, NULL), 503);
    assert_int_equal(rest_status(a, "GET", MAPS, NULL), 200);
    assert_int_equal(rest_status(a, "POST", "/_test/faults", "{\"kind\":\"cut\"}"), 200);
    assert_int_equal(rest_status(a, "GET", MAPS, NULL), 0);
    assert_int_equal(rest_status(a, "DELETE", "/_test/faults", NULL), 200);
    assert_int_equal(rest_status(a, "GET", MAPS, NULL), 200);
    assert_int_equal(rest_status(a, "POST", "/_test/compact", NULL), 200);
    struct rest_watch w = rest_watch(a, MAPS "?watch=1&resourceVersion=1");
    assert_string_equal(rest_watch_tell(&w), "ERROR");
    rest_watch_fini(&w);
    r = rest(a, "GET", "/_test/counts", NULL);
    assert_true(rest_number(&r, "requests") >= 4);
    rest_fini(&r);
    assert_int_equal(rest_status(a, "POST", "/_test/nonsense", NULL), 400);
    assert_int_equal(rest_status(a, "POST", "/_test/faults", "{\"kind\":\"nonsense\"}"), 400);
    apiserver_free(a);
}
