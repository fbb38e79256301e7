/* replay_test.c - stored decisions come out the same bits again, and what does not is said. */
#include "daemon/replay.h"

#include <sqlite3.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/unit/daemon/record_fixture.h"
#include "tests/unit/train/learn_fixture.h"

/* What replay told, the first thing it told in words. */
struct told {
    int n;
    int64_t first_id;
    enum replay_fate fate;
    char why[600];
};

static bool on_finding(void *ctx, const struct replay_finding *f)
{
    struct told *t = ctx;
    if (t->n++ == 0) {
        t->first_id = f->decision->id;
        t->fate = f->fate;
        (void)snprintf(t->why, sizeof t->why, "%s", f->why);
    }
    return true;
}

static struct replay_counts replayed(const char *path, const struct store_query *q,
                                     const char *policy_file, struct told *told)
{
    struct store_opts o = store_opts_default(path);
    struct store *s;
    struct replay_counts c;
    struct err e;
    memset(told, 0, sizeof *told);
    o.read_only = true;
    assert_ok(store_open(&o, &s, &e), &e);
    assert_ok(replay_run(s, q, policy_file, on_finding, told, &c, &e), &e);
    store_close(s);
    return c;
}

static void sql(const char *path, const char *text)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static const struct store_query all = {0};

TEST(every_rule_policy_decides_the_same_bits_again)
{
    static const char *const name[] = {"static",     "threshold", "hpa",      "queue",
                                       "predictive", "mpc",       "foresight"};
    for (size_t i = 0; i < ARRAY_LEN(name); i++) {
        struct told told;
        struct fix *f = fix_new(test_path("rules-%s.db", name[i]), name[i]);
        fix_steps(f, 700);
        struct replay_counts c = replayed(f->path, &all, NULL, &told);
        if (c.n[REPLAY_SAME] != 700)
            fail_msg("%s: %d of 700 the same, decision %d: %s", name[i], (int)c.n[REPLAY_SAME],
                     (int)told.first_id, told.why);
        assert_int_equal(c.total, 700);
        assert_int_equal(c.keyframes, 3); /* at the start, and every 240 */
        assert_true(replay_passed(&c));
        fix_free(f);
    }
}

/* A learned policy in use, from its file. */
static void use_file(struct fix *f, struct learned *l, const char *path)
{
    struct err e;
    assert_ok(learned_load(path, l, &e), &e);
    learned_apply(l, &f->cfg);
    f->source.policy_file = path;
    memset(&f->stream, 0, sizeof f->stream);
    fix_configure(f);
}

static const char *learned_file(int base)
{
    struct scenario sc;
    struct world *w = learn_world(&sc);
    struct learn_opts o = learn_small(LEARN_PPO, base);
    struct learn_report report;
    struct err e;
    const char *path = test_path("%s/p%d.safetensors", test_tmp_dir(), base);
    o.steps = 2048;
    assert_ok(learn_run(w, &o, path, NULL, NULL, &report, &e), &e);
    world_free(w);
    scenario_fini(&sc);
    return path;
}

TEST(a_learned_policy_decides_the_same_bits_again_also_from_a_moved_file_but_not_from_another)
{
    static const int base[] = {PPO_BASE_NONE, PPO_BASE_MPC};
    for (size_t i = 0; i < ARRAY_LEN(base); i++) {
        struct learned l;
        struct told told;
        struct fix *f = fix_new(test_path("learned-%d.db", base[i]), "ppo");
        const char *path = learned_file(base[i]), *moved = test_path("%s/moved", test_tmp_dir());
        use_file(f, &l, path);
        fix_steps(f, 300);
        struct replay_counts c = replayed(f->path, &all, NULL, &told);
        if (c.n[REPLAY_SAME] != 300)
            fail_msg("%d of 300 the same: %s", (int)c.n[REPLAY_SAME], told.why);

        assert_int_equal(rename(path, moved), 0);
        c = replayed(f->path, &all, NULL, &told);
        assert_int_equal(c.n[REPLAY_NO_CONFIG], 300);
        assert_non_null(strstr(told.why, "is not there"));
        assert_false(replay_passed(&c));
        c = replayed(f->path, &all, moved, &told);
        assert_int_equal(c.n[REPLAY_SAME], 300);

        test_write_file(path, "other", 5);
        c = replayed(f->path, &all, NULL, &told);
        assert_int_equal(c.n[REPLAY_NO_CONFIG], 300);
        assert_non_null(strstr(told.why, "is another one"));
        learned_fini(&l);
        fix_free(f);
    }
}

TEST(a_policy_that_could_not_be_loaded_is_made_again_as_it_was)
{
    struct told told;
    struct fix *f = fix_new("unloaded.db", "ppo");
    fix_steps(f, 50);
    assert_int_equal(f->record.error, ERR_MISSING);
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_int_equal(c.n[REPLAY_SAME], 50);
    fix_free(f);
}

TEST(only_what_was_asked_for_is_counted_though_replay_begins_at_the_keyframe_before)
{
    struct told told;
    struct fix *f = fix_new("since.db", "mpc");
    fix_steps(f, 600);
    struct store_query q = {.first_id = 400, .last_id = 450};
    struct replay_counts c = replayed(f->path, &q, NULL, &told);
    assert_int_equal(c.total, 51);
    assert_int_equal(c.n[REPLAY_SAME], 51);
    q = (struct store_query){.since_us = f->now_us - 9 * FIX_STEP_US};
    c = replayed(f->path, &q, NULL, &told);
    assert_int_equal(c.n[REPLAY_SAME], 10);
    q = (struct store_query){.name = "nobody"};
    c = replayed(f->path, &q, NULL, &told);
    assert_int_equal(c.total, 0);
    assert_false(replay_passed(&c));
    fix_free(f);
}

/* ---- memory changed from outside ------------------------------------------------------------- */

TEST(memory_changed_between_decisions_starts_from_a_keyframe_of_its_own)
{
    struct told told;
    struct fix *f = fix_new("changed.db", "hpa");
    fix_steps(f, 20);
    guard_breaker_reset(&f->before.guard);
    f->before.guard.last_out_us = f->now_us - 1000000; /* what another leader had done */
    fix_steps(f, 20);
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_int_equal(c.n[REPLAY_SAME], 40);
    assert_int_equal(c.keyframes, 2);
    fix_free(f);
}

TEST(a_new_configuration_and_a_restart_start_from_keyframes)
{
    struct told told;
    struct fix *f = fix_new("restart.db", "hpa");
    fix_steps(f, 10);
    f->cfg.spec.units_max = 20;
    fix_configure(f);
    fix_steps(f, 10);
    fix_close(f);
    fix_open(f, f->path);
    memset(&f->stream, 0, sizeof f->stream);
    fix_steps(f, 10);
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_int_equal(c.n[REPLAY_SAME], 30);
    assert_int_equal(c.keyframes, 3);
    fix_free(f);
}

TEST(a_new_configuration_starts_from_a_keyframe_though_the_memory_is_the_same)
{
    struct told told;
    struct err e;
    struct fix *f = fix_new("price.db", "hpa");
    fix_steps(f, 10);
    f->cfg.spec.price_usd_h = 7;
    assert_ok(capacity_config_finish(&f->cfg, &e), &e);
    assert_ok(record_config(f->store, &f->cfg, &f->source, f->now_us, &f->config_id, &e), &e);
    fix_steps(f, 10);
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_int_equal(c.n[REPLAY_SAME], 20);
    assert_int_equal(c.keyframes, 2);
    fix_free(f);
}

TEST(a_lost_round_leaves_no_gap_in_the_memory)
{
    struct told told;
    struct err e;
    struct fix *f = fix_new("lost.db", "mpc");
    fix_steps(f, 10);
    assert_ok(store_begin(f->store, &e), &e);
    fix_step(f);
    fix_step(f);
    store_rollback(f->store);
    record_lost(f->rec);
    fix_steps(
        f,
        10); /* the memory of the two lost decisions is in use: the daemon would have put it back */
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_int_equal(c.total, 20);
    assert_int_equal(c.n[REPLAY_SAME], 20);
    fix_free(f);
}

TEST(acting_policy_and_challenger_are_streams_of_their_own)
{
    struct told told;
    struct err e;
    struct fix *f = fix_new("shadow.db", "hpa");
    struct fix *g = fix_new("shadow-aside.db", "mpc"); /* only its configuration is used */
    struct record_stream stream = {0};
    int64_t config, id;
    assert_ok(record_config(f->store, &g->cfg, &g->source, 0, &config, &e), &e);
    for (int i = 0; i < 100; i++) {
        fix_step(f);
        memset(&g->record, 0, sizeof g->record);
        decide_capacity(&g->cfg, &f->view, &g->before, &g->rng, &g->after, &g->plan, &g->record);
        struct record_input in = fix_input(g, NULL);
        in.view = &f->view;
        in.config_id = config;
        in.role = STORE_SHADOW;
        assert_ok(record_put(f->rec, &stream, &in, &id, &e), &e);
        capacity_state_copy(&g->cfg, &g->before, &g->after);
    }
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_int_equal(c.n[REPLAY_SAME], 200);
    struct store_query q = {.role = 1 + STORE_SHADOW};
    c = replayed(f->path, &q, NULL, &told);
    assert_int_equal(c.n[REPLAY_SAME], 100);
    fix_free(g);
    fix_free(f);
}

/* ---- what is not the same -------------------------------------------------------------------- */

TEST(an_edited_output_is_found_and_named)
{
    static const struct {
        const char *sql, *why;
    } edit[] = {
        {"UPDATE decisions SET executed = executed + 1 WHERE id = 7", "executed"},
        {"UPDATE decisions SET proposed = proposed + 1 WHERE id = 7", "proposed"},
        {"UPDATE decisions SET rule_units = rule_units + 1 WHERE id = 7", "rule's size"},
        {"UPDATE decisions SET inputs_hash = inputs_hash + 1 WHERE id = 7", "inputs hash"},
        {"UPDATE decisions SET units_before = units_before + 1 WHERE id = 7", "units before"},
        {"UPDATE decisions SET obs = (SELECT obs FROM decisions WHERE id = 9) WHERE id = 7",
         "observation "},
        {"UPDATE decisions SET choice = (SELECT choice FROM decisions WHERE id = 9) WHERE id = 7",
         "the memory afterwards"},
        {"UPDATE decisions SET chain = (SELECT chain FROM decisions WHERE id = 400) WHERE id = 7",
         "guard "},
    };
    for (size_t i = 0; i < ARRAY_LEN(edit); i++) {
        struct told told;
        struct fix *f = fix_new(test_path("edit-%zu.db", i), "mpc");
        fix_steps(f, 420);
        fix_close(f);
        sql(f->path, edit[i].sql);
        struct replay_counts c = replayed(f->path, &all, NULL, &told);
        assert_int_equal(c.n[REPLAY_DIFFERENT], 1);
        assert_int_equal(c.n[REPLAY_SAME], 419);
        assert_int_equal(told.first_id, 7);
        if (!strstr(told.why, edit[i].why))
            fail_msg("%s: \"%s\" does not name %s", edit[i].sql, told.why, edit[i].why);
        assert_false(replay_passed(&c));
        fix_free(f);
    }
}

TEST(an_edited_view_shows_in_all_that_follows_from_it)
{
    struct told told;
    struct fix *f = fix_new("view.db", "mpc");
    fix_steps(f, 30);
    fix_close(f);
    sql(f->path,
        "UPDATE decisions SET view = (SELECT view FROM decisions WHERE id = 20) WHERE id = 7");
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_true(c.n[REPLAY_DIFFERENT] > 1);
    assert_int_equal(c.n[REPLAY_SAME], 30 - c.n[REPLAY_DIFFERENT]);
    assert_int_equal(told.first_id, 7);
    fix_free(f);
}

TEST(what_cannot_be_made_again_says_why)
{
    static const struct {
        const char *sql, *why;
        enum replay_fate fate;
        int least;
    } spoil[] = {
        {"DELETE FROM states", "no keyframe", REPLAY_NO_KEYFRAME, 30},
        {"UPDATE states SET state = x'00'", "capacity state", REPLAY_UNREADABLE, 30},
        {"UPDATE decisions SET view = x'07' WHERE id = 5", "version 7", REPLAY_UNREADABLE, 26},
        {"UPDATE decisions SET view = x'01' WHERE id = 5", "damaged", REPLAY_UNREADABLE, 26},
        {"UPDATE decisions SET chain = NULL WHERE id = 30", "no guard chain kept",
         REPLAY_UNREADABLE, 1},
        {"UPDATE configs SET text = 'config: {version: 1}'", "configuration", REPLAY_NO_CONFIG, 30},
        {"UPDATE configs SET text = replace(text, 'version: 1' || char(10), 'version: 9' || "
         "char(10))",
         "version 9", REPLAY_NO_CONFIG, 30},
        {"UPDATE configs SET text = replace(text, 'name: mpc', 'name: oracle9')", "knows no policy",
         REPLAY_NO_CONFIG, 30},
        {"UPDATE configs SET text = replace(text, 'deadband', 'deadbend')", "reads the options",
         REPLAY_NO_CONFIG, 30},
        {"UPDATE configs SET text = replace(text, 'service_ms: 25', 'service_ms: 26')",
         "is not the one decided with", REPLAY_NO_CONFIG, 30},
        {"DELETE FROM configs", "no configuration", REPLAY_NO_CONFIG, 30},
    };
    for (size_t i = 0; i < ARRAY_LEN(spoil); i++) {
        struct told told;
        struct fix *f = fix_new(test_path("spoil-%zu.db", i), "mpc");
        fix_steps(f, 30);
        fix_close(f);
        sql(f->path, spoil[i].sql);
        struct replay_counts c = replayed(f->path, &all, NULL, &told);
        if (c.n[spoil[i].fate] != spoil[i].least)
            fail_msg("%s: %d are %s, expected %d: %s", spoil[i].sql, (int)c.n[spoil[i].fate],
                     replay_fate_name(spoil[i].fate), spoil[i].least, told.why);
        if (!strstr(told.why, spoil[i].why))
            fail_msg("%s: \"%s\" lacks \"%s\"", spoil[i].sql, told.why, spoil[i].why);
        assert_false(replay_passed(&c));
        fix_free(f);
    }
}

TEST(another_build_is_never_counted_as_the_same)
{
    struct told told;
    struct fix *f = fix_new("build.db", "hpa");
    fix_steps(f, 10);
    fix_close(f);
    sql(f->path, "UPDATE configs SET text = replace(text, 'isa: ', 'isa: other-')");
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_int_equal(c.n[REPLAY_OTHER_BUILD_SAME], 10);
    assert_int_equal(c.n[REPLAY_SAME], 0);
    assert_non_null(strstr(told.why, " other-"));
    assert_false(replay_passed(&c));
    fix_free(f);
}

TEST(decisions_whose_keyframe_retention_took_do_not_count_against_the_rest)
{
    struct told told;
    struct fix *f = fix_new("cut.db", "hpa");
    fix_steps(f, 500);
    fix_close(f);
    sql(f->path,
        "DELETE FROM decisions WHERE id < 100; DELETE FROM states WHERE decision_id < 100");
    struct replay_counts c = replayed(f->path, &all, NULL, &told);
    assert_int_equal(c.total, 401);
    assert_true(c.n[REPLAY_NO_KEYFRAME] > 0 && c.n[REPLAY_NO_KEYFRAME] < 240);
    assert_int_equal(c.n[REPLAY_SAME] + c.n[REPLAY_NO_KEYFRAME], 401);
    assert_true(replay_passed(&c));
    fix_free(f);
}
