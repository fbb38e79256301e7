/* store_fixture.h - a store in a fresh file, and rows for it. */
#ifndef TESTS_UNIT_STORE_STORE_FIXTURE_H
#define TESTS_UNIT_STORE_STORE_FIXTURE_H

#include <sqlite3.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/store_priv.h"
#include "tests/support/test.h"

#define T0 INT64_C(1709510400000000) /* 2024-03-04 00:00 UTC */
#define STEP INT64_C(15000000)

static inline const char *new_path(const char *file)
{
    return test_path("%s/%s", test_tmp_dir(), file);
}

/* Without waiting for the disk: only a few tests are about that. */
static inline void hurry(struct store *s)
{
    struct err e;
    assert_ok(store_exec(s, "PRAGMA synchronous = OFF", "hurry", &e), &e);
}

static inline struct store *open_store(const char *path)
{
    struct store_opts o = store_opts_default(path);
    struct store *s;
    struct err e;
    assert_ok(store_open(&o, &s, &e), &e);
    hurry(s);
    return s;
}

static inline struct store *open_reader(const char *path)
{
    struct store_opts o = store_opts_default(path);
    struct store *s;
    struct err e;
    o.read_only = true;
    assert_ok(store_open(&o, &s, &e), &e);
    return s;
}

static inline int64_t put_target(struct store *s, const char *name)
{
    struct store_target t = {.cluster = "prod",
                             .group = "apps",
                             .kind = "Deployment",
                             .namespace_ = "shop",
                             .name = name,
                             .uid = "u1"};
    struct err e;
    int64_t id;
    assert_ok(store_target_id(s, &t, T0, &id, &e), &e);
    return id;
}

static inline struct store_decision decision_of(int64_t target, int64_t time_us)
{
    static const unsigned char bytes[900] = {1, 2, 3};
    return (struct store_decision){.target_id = target,
                                   .config_id = 1,
                                   .time_us = time_us,
                                   .holder = "replica-0",
                                   .stage = "single",
                                   .policy = "mpc",
                                   .inputs_hash = 0xfedcba9876543210u,
                                   .units_before = 5,
                                   .units_ready = 4,
                                   .proposed = 9,
                                   .executed = 7,
                                   .verdict = "clamp",
                                   .decisive = "step",
                                   .rule = "hpa",
                                   .rule_units = 6,
                                   .value = NAN,
                                   .reward_cost = 0.5,
                                   .reward_slo = NAN,
                                   .reward_churn = -1,
                                   .why = "QPS 1.8x the same-slot median",
                                   .action = STORE_INTENDED,
                                   .action_us = time_us,
                                   .view = {bytes, 300},
                                   .obs = {bytes, 240},
                                   .choice = {bytes, 100},
                                   .chain = {bytes, 200}};
}

/* An acknowledged decision. */
static inline int64_t put_one(struct store *s, int64_t target, int64_t time_us)
{
    struct store_decision d = decision_of(target, time_us);
    struct err e;
    int64_t id;
    assert_ok(store_put_decision(s, &d, &id, &e), &e);
    return id;
}

static inline bool count_row(void *ctx, const struct store_decision *d,
                             const struct store_target *t)
{
    (void)d;
    (void)t;
    ++*(int *)ctx;
    return true;
}

static inline int count_of(struct store *s, const struct store_query *q)
{
    struct err e;
    int n = 0;
    assert_ok(store_decisions(s, q, count_row, &n, &e), &e);
    return n;
}

static inline struct store_info info_of(struct store *s)
{
    struct store_info i;
    struct err e;
    assert_ok(store_info(s, &i, &e), &e);
    return i;
}

/* Behind the store's back. */
static inline void run_sql(const char *path, const char *text)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#endif
