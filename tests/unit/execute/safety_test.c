#include "execute/safety.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/support/test.h"

static const int64_t T0 = INT64_C(1795953600) * US_PER_S; /* 2026-11-29T12:00:00Z */
static const int64_t W = 15 * US_PER_S;

/* units[i] in the bucket i before the newest. */
static struct safety_window window(int32_t n, int64_t width_us, int64_t newest_us,
                                   const int16_t *units, int32_t n_units)
{
    struct safety_window w = {.width_us = width_us, .n = n, .bucket = newest_us / width_us};
    for (int32_t i = 0; i < n_units; i++) {
        w.at[(w.bucket - i) % n] = units[i];
        w.sum += units[i];
    }
    return w;
}

static int32_t sum_of(const struct safety_window *w)
{
    int32_t sum = 0;
    for (int i = 0; i < SAFETY_BUCKETS; i++)
        sum += w->at[i];
    return sum;
}

static char *put(const struct safety_status *s)
{
    struct buf b = buf_init(1 << 16);
    struct json_writer w = json_writer_init(&b, 0);
    json_open(&w, NULL);
    safety_status_put(&w, "safety", s);
    json_close(&w);
    return buf_take(&b);
}

static enum err_code get(const char *text, struct safety_status *s, struct err *e)
{
    struct json_doc *doc;
    assert_ok(json_parse(text, strlen(text), 1 << 16, "test", &doc, e), e);
    enum err_code rc = safety_status_parse(doc, json_find(json_root(doc), "safety"), s, e);
    json_free(doc);
    return rc;
}

static struct safety_status sample(void)
{
    static const int16_t up[] = {3, 0, 2}, flap[] = {5, 1};
    struct safety_status s;
    safety_status_init(&s);
    s.state = SAFETY_WATCHING;
    s.last_out_us = T0 - 123456;
    s.watch_until_us = T0 + 600 * US_PER_S;
    s.water_since_us = T0 - 1;
    s.ready_before = 9;
    s.failed_before = 1;
    s.rate = window(20, W, T0, up, 3);
    s.flap = window(12, 300 * US_PER_S, T0, flap, 2);
    s.reversals = 1;
    s.reversed_us = T0 - 5;
    return s;
}

TEST(safety_reads_back_what_was_written)
{
    struct safety_status s = sample(), back;
    struct err e;
    char *text = put(&s);
    assert_ok(get(text, &back, &e), &e);
    assert_memory_equal(&s, &back, sizeof s);
    mem_free(text);
}

TEST(safety_is_written_for_people)
{
    struct safety_status s = sample();
    char *text = put(&s);
    assert_non_null(
        strstr(text, "\"state\":\"Watching\",\"lastScaleOut\":\"2026-11-29T11:59:59.876544Z\","
                     "\"lastScaleIn\":null,\"watchUntil\":\"2026-11-29T12:10:00.000000Z\""));
    assert_non_null(strstr(
        text, "\"rateWindow\":{\"bucketSeconds\":15,\"newest\":\"2026-11-29T12:00:00.000000Z\","
              "\"units\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,2,0,3]}"));
    mem_free(text);
}

TEST(safety_that_never_was_is_fresh)
{
    struct safety_status s, fresh;
    struct err e;
    safety_status_init(&fresh);
    assert_ok(get("{}", &s, &e), &e);
    assert_memory_equal(&s, &fresh, sizeof s);
    assert_ok(get("{\"safety\":null}", &s, &e), &e);
    char *text = put(&fresh);
    assert_ok(get(text, &s, &e), &e);
    assert_memory_equal(&s, &fresh, sizeof s);
    mem_free(text);
}

TEST(safety_edited_into_nonsense_is_an_error_with_its_path)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{\"safety\":{\"state\":\"Calm\"}}", "safety.state: not one of its values"},
        {"{\"safety\":{\"lastScaleOut\":\"noon\"}}", "safety.lastScaleOut: expected a time"},
        {"{\"safety\":{\"lastScaleOut\":5}}", "lastScaleOut: expected a string"},
        {"{\"safety\":{\"breakerUntil\":\"1969-12-31T23:59:59Z\"}}",
         "breakerUntil: expected a time"},
        {"{\"safety\":{\"readyBefore\":-1}}", "readyBefore: -1 is outside"},
        {"{\"safety\":{\"reversals\":1.5}}", "reversals: expected an integer"},
        {"{\"safety\":{\"rateWindow\":[]}}", "rateWindow: expected an object"},
        {"{\"safety\":{\"rateWindow\":{}}}", "rateWindow.bucketSeconds: missing"},
        {"{\"safety\":{\"rateWindow\":{\"bucketSeconds\":0,\"newest\":\"2026-01-01T00:00:00Z\","
         "\"units\":[1]}}}",
         "bucketSeconds: expected 0.001 to 86400"},
        {"{\"safety\":{\"rateWindow\":{\"bucketSeconds\":15,\"newest\":\"2026-01-01T00:00:00Z\","
         "\"units\":[]}}}",
         "units: expected 1 to 20"},
        {"{\"safety\":{\"rateWindow\":{\"bucketSeconds\":15,\"newest\":\"2026-01-01T00:00:00Z\","
         "\"units\":[-1]}}}",
         "units: expected whole numbers"},
        {"{\"safety\":{\"flapWindow\":{\"bucketSeconds\":15,\"newest\":\"2026-01-01T00:00:00Z\","
         "\"units\":[1,\"2\"]}}}",
         "flapWindow.units: expected whole numbers"},
        {"{\"safety\":{\"flapWindow\":{\"bucketSeconds\":15,\"newest\":\"2026-01-01T00:00:00Z\","
         "\"units\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}}",
         "units: expected 1 to 20"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct safety_status s = sample(), before = s;
        struct err e = {0};
        enum err_code rc = get(cases[i].text, &s, &e);
        assert_int_not_equal(rc, ERR_OK);
        if (!strstr(e.msg, cases[i].error))
            fail_msg("%s, expected %s", e.msg, cases[i].error);
        assert_memory_equal(&s, &before, sizeof s);
    }
}

TEST(safety_state_is_the_most_restrictive)
{
    struct safety_status s;
    struct safety_claims c = {.wait_us = 60 * US_PER_S};
    safety_status_init(&s);
    assert_int_equal(safety_state_of(&s, &c, T0), SAFETY_NORMAL);
    s.last_in_us = T0 - 59 * US_PER_S;
    assert_int_equal(safety_state_of(&s, &c, T0), SAFETY_COOLING);
    assert_int_equal(safety_state_of(&s, &c, T0 + US_PER_S), SAFETY_NORMAL);
    s.watch_until_us = T0 + 1;
    assert_int_equal(safety_state_of(&s, &c, T0), SAFETY_WATCHING);
    s.breaker_until_us = T0;
    assert_int_equal(safety_state_of(&s, &c, T0), SAFETY_BREAKER_HALF_OPEN);
    s.breaker_until_us = T0 + 1;
    assert_int_equal(safety_state_of(&s, &c, T0), SAFETY_BREAKER_OPEN);
    c.overridden = true;
    assert_int_equal(safety_state_of(&s, &c, T0), SAFETY_OVERRIDDEN);
    c.held = true;
    assert_int_equal(safety_state_of(&s, &c, T0), SAFETY_HELD);
    c.frozen = true;
    assert_int_equal(safety_state_of(&s, &c, T0), SAFETY_FROZEN);
    assert_string_equal(safety_state_name(SAFETY_BREAKER_HALF_OPEN), "BreakerHalfOpen");
}

TEST(safety_times_of_a_clock_ahead_are_clamped_and_counted)
{
    struct safety_status s;
    safety_status_init(&s);
    assert_int_equal(safety_clamp(&s, T0, US_PER_HOUR), 0);
    assert_true(s.last_out_us == SAFETY_NEVER);
    s.last_out_us = T0 + 30 * US_PER_S;
    s.breaker_until_us = T0 + 100 * US_PER_DAY;
    s.watch_until_us = T0 + 600 * US_PER_S;
    assert_int_equal(safety_clamp(&s, T0, US_PER_HOUR), 2);
    assert_true(s.last_out_us == T0);
    assert_true(s.breaker_until_us == T0 + US_PER_HOUR);
    assert_true(s.watch_until_us == T0 + 600 * US_PER_S);
}

/* ---- windows --------------------------------------------------------------------------------- */

TEST(window_of_the_same_shape_is_left_alone)
{
    static const int16_t units[] = {3, 0, 2};
    struct safety_window w = window(20, W, T0, units, 3), before = w;
    safety_window_fit(&w, 20, W, T0 + 4 * W);
    assert_memory_equal(&w, &before, sizeof w);
}

TEST(window_of_another_width_keeps_its_units_longer_never_shorter)
{
    static const int16_t units[] = {4, 0, 2, 1};
    struct safety_window w = window(20, 30 * US_PER_S, T0, units, 4);
    safety_window_fit(&w, 20, W, T0 + 20 * US_PER_S);
    assert_int_equal(w.sum, 7);
    assert_int_equal(sum_of(&w), 7);
    assert_true(w.bucket == (T0 + 20 * US_PER_S) / W);
    assert_int_equal(w.at[w.bucket % 20], 4);       /* its end lies ahead of now */
    assert_int_equal(w.at[(w.bucket - 4) % 20], 2); /* 60 s before: ends 31 s before T0 */
}

TEST(window_in_the_future_is_moved_to_now)
{
    static const int16_t units[] = {4, 2};
    struct safety_window w = window(20, W, T0 + US_PER_HOUR, units, 2);
    safety_window_fit(&w, 20, W, T0);
    assert_int_equal(w.sum, 6);
    assert_true(w.bucket == T0 / W);
    assert_int_equal(w.at[w.bucket % 20], 6);
}

TEST(window_forgets_what_is_older_than_its_length)
{
    static const int16_t units[] = {4, 2};
    struct safety_window w = window(20, W, T0, units, 2);
    safety_window_fit(&w, 12, W, T0 + 12 * W);
    assert_int_equal(w.sum, 0);
    w = window(20, W, T0, units, 2);
    safety_window_fit(&w, 12, W, T0 + 11 * W);
    assert_int_equal(w.sum, 4);
}

TEST(window_that_never_was_stays_empty)
{
    struct safety_status s;
    safety_status_init(&s);
    safety_window_fit(&s.rate, 20, W, T0);
    assert_int_equal(s.rate.sum, 0);
    assert_true(s.rate.bucket == SAFETY_NEVER);
    assert_int_equal(s.rate.n, 20);
}

TEST(windows_never_lose_units_that_still_count)
{
    struct rng rng = rng_stream(test_seed(), "windows");
    for (int round = 0; round < 2000; round++) {
        int16_t units[20];
        int32_t n = 1 + (int32_t)rng_below(&rng, 20), to = 1 + (int32_t)rng_below(&rng, 20);
        int64_t from_us = US_PER_S * (1 + rng_below(&rng, 600)),
                to_us = US_PER_S * (1 + rng_below(&rng, 600));
        for (int32_t i = 0; i < n; i++)
            units[i] = (int16_t)rng_below(&rng, 5);
        struct safety_window w = window(n, from_us, T0, units, n);
        int64_t now = w.bucket * from_us + (int64_t)rng_below(&rng, (uint32_t)(from_us * 3));
        safety_window_fit(&w, to, to_us, now);
        int32_t must = 0, may = 0;
        for (int32_t i = 0; i < n;
             i++) { /* whole bucket within the new length of now: must be there */
            int64_t start = (T0 / from_us - i) * from_us;
            must += start > now - (to - 1) * to_us ? units[i] : 0;
            may += units[i];
        }
        assert_true(w.sum >= must && w.sum <= may);
        assert_int_equal(w.sum, sum_of(&w));
        assert_true(w.bucket == SAFETY_NEVER || w.bucket <= now / to_us);
    }
}
