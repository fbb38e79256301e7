/* learn_test.c - the same command gives the same bytes, for one thread and two, at once or with an
 * interruption. */
#include <signal.h>

#include "base/signal.h"
#include "tests/unit/train/learn_fixture.h"

struct learn_fixture {
    struct scenario sc;
    struct world *w;
    struct learn_report report;
    int64_t stop_at;  /* environment steps of ppo after which Ctrl-C is pressed; 0: never */
    char stop_in[32]; /* or a stage */
    int stages, ppo_calls;
    char stage[32];   /* told last, and what its counts came to */
    int64_t done, total;
};

static struct learn_fixture *fixture_new(void)
{
    struct learn_fixture *f = mem_zero(1, sizeof *f);
    f->w = learn_world(&f->sc);
    return f;
}

static void fixture_free(struct learn_fixture *f)
{
    world_free(f->w);
    scenario_fini(&f->sc);
    mem_free(f);
}

static void on_progress(void *ctx, const struct learn_progress *p)
{
    struct learn_fixture *f = ctx;
    bool ppo = strcmp(p->stage, "ppo") == 0;
    f->stages += !ppo;
    f->ppo_calls += ppo;
    assert_true(p->done >= 0 && p->done <= p->total);
    if (!ppo && strcmp(p->stage, f->stage) == 0)
        assert_true(p->done >= f->done);
    (void)snprintf(f->stage, sizeof f->stage, "%s", p->stage);
    f->done = p->done;
    f->total = p->total;
    bool begins = p->done == 0 && strcmp(p->stage, f->stop_in) == 0;
    if ((ppo && f->stop_at && p->done >= f->stop_at) || begins)
        (void)raise(SIGINT);
}

static enum err_code learn(struct learn_fixture *f, const struct learn_opts *o, const char *name,
                           struct err *e)
{
    signal_clear();
    signal_catch();
    enum err_code rc =
        learn_run(f->w, o, test_path("%s/%s", test_tmp_dir(), name), on_progress, f, &f->report, e);
    signal_clear();
    return rc;
}

static void assert_learns(struct learn_fixture *f, const struct learn_opts *o, const char *name)
{
    struct err e;
    assert_ok(learn(f, o, name, &e), &e);
}

static void compare(const char *a, const char *b)
{
    assert_same_files(test_path("%s/%s", test_tmp_dir(), a), test_path("%s/%s", test_tmp_dir(), b));
}

/* An outlook learned by two threads, once for all tests that look at one. */
static const char outlook_file[] = "outlook-two.safetensors";
static const struct learn_fixture *learned_outlook(void)
{
    static struct learn_fixture *f;
    struct learn_opts o = learn_small(LEARN_OUTLOOK, PPO_BASE_NONE);
    if (f)
        return f;
    o.threads = 2;
    f = fixture_new();
    assert_learns(f, &o, outlook_file);
    return f;
}

TEST(ppo_writes_the_same_bytes_for_one_thread_and_two)
{
    static const int bases[] = {PPO_BASE_NONE, PPO_BASE_PREDICTIVE};
    for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
        struct learn_fixture *f = fixture_new();
        struct learn_opts o = learn_small(LEARN_PPO, bases[i]);
        assert_learns(f, &o, "one.safetensors");
        assert_true(f->report.finished);
        assert_false(f->report.resumed);
        assert_int_equal(f->report.steps, o.steps);
        o.threads = 2;
        assert_learns(f, &o, "two.safetensors");
        compare("one.safetensors", "two.safetensors");
        fixture_free(f);
    }
}

TEST(an_interrupted_ppo_run_goes_on_to_the_same_bytes)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    assert_learns(f, &o, "whole.safetensors");
    f->stop_at = 1;
    for (int stops = 0; stops < 2;
         stops++) { /* twice, and on the other number of threads in between */
        assert_learns(f, &o, "cut.safetensors");
        assert_false(f->report.finished);
        assert_true(f->report.resumed == (stops > 0));
        o.threads = 3 - o.threads;
        f->stop_at = 3000;
    }
    f->stop_at = 0;
    assert_learns(f, &o, "cut.safetensors");
    assert_true(f->report.resumed && f->report.finished);
    compare("whole.safetensors", "cut.safetensors");
    fixture_free(f);
}

TEST(an_interrupted_run_on_an_outlook_keeps_the_outlook_it_had)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_OUTLOOK);
    o.steps = 2 * 2048;
    o.residual = PPO_RESIDUAL_MARGIN;
    assert_learns(f, &o, "whole.safetensors");
    f->stop_at = 1;
    assert_learns(f, &o, "cut.safetensors");
    assert_false(f->report.finished);
    f->stop_at = 0;
    f->stages = 0;
    assert_learns(f, &o, "cut.safetensors");
    assert_true(f->report.resumed);
    assert_int_equal(f->stages, 1); /* forecasts only */
    compare("whole.safetensors", "cut.safetensors");
    fixture_free(f);
}

TEST(an_outlook_is_the_same_for_one_thread_and_two)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_OUTLOOK, PPO_BASE_NONE);
    assert_learns(f, &o, "one.safetensors");
    assert_true(f->report.finished);
    assert_true(f->report.outlook.samples > 0);
    assert_true(f->report.own.misses >= 0 && f->report.own.cost_usd_h > 0);
    (void)learned_outlook();
    compare("one.safetensors", outlook_file);
    fixture_free(f);
}

TEST(another_seed_learns_something_else)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    size_t n, m;
    o.steps = 2048;
    assert_learns(f, &o, "one.safetensors");
    o.seed = 2;
    assert_learns(f, &o, "two.safetensors");
    unsigned char *x = file_bytes(test_path("%s/one.safetensors", test_tmp_dir()), &n),
                  *y = file_bytes(test_path("%s/two.safetensors", test_tmp_dir()), &m);
    assert_true(n != m || memcmp(x, y, n) != 0);
    mem_free(x);
    mem_free(y);
    fixture_free(f);
}

TEST(an_unfinished_file_of_another_command_is_refused_and_says_what_differs)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    struct err e;
    f->stop_at = 1;
    assert_learns(f, &o, "other.safetensors");
    assert_false(f->report.finished);
    f->stop_at = 0;
    struct learn_opts other = o;
    other.seed = 2;
    assert_err(learn(f, &other, "other.safetensors", &e), ERR_MISMATCH, &e, "seed");
    other = o;
    other.objective = REWARD_COST;
    assert_err(learn(f, &other, "other.safetensors", &e), ERR_MISMATCH, &e,
               "unfinished run of another command");
    other = o;
    other.lr = 1e-3;
    assert_err(learn(f, &other, "other.safetensors", &e), ERR_MISMATCH, &e, "lr");
    assert_learns(f, &o, "other.safetensors"); /* and is as it was */
    assert_true(f->report.resumed && f->report.finished);
    fixture_free(f);
}

TEST(a_finished_file_is_replaced_not_continued)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    o.steps = 2048;
    assert_learns(f, &o, "done.safetensors");
    o.seed = 2;
    assert_learns(f, &o, "done.safetensors");
    assert_false(f->report.resumed);
    assert_learns(f, &o, "fresh.safetensors");
    compare("done.safetensors", "fresh.safetensors");
    fixture_free(f);
}

TEST(interrupted_before_there_is_anything_to_keep_says_so_and_writes_nothing)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_OUTLOOK, PPO_BASE_NONE);
    struct err e;
    (void)snprintf(f->stop_in, sizeof f->stop_in, "outlook");
    assert_err(learn(f, &o, "never.safetensors", &e), ERR_INTERRUPTED, &e, NULL);
    assert_null(fopen(test_path("%s/never.safetensors", test_tmp_dir()), "rb"));
    fixture_free(f);
}

TEST(the_report_tells_the_curve_and_the_terms)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    assert_learns(f, &o, "report.safetensors");
    assert_int_equal(f->ppo_calls, 4);
    assert_int_equal(f->report.n_curve, 4);
    for (int i = 0; i < 4; i++) {
        assert_near(f->report.curve_steps[i], 2048 * (i + 1), 0, 0);
        assert_true(f->report.curve_cost_usd_h[i] > 0 &&
                    f->report.curve_cost_usd_h[i] < 16 * 2.5 * 2);
        assert_in_range((int)(1000 * f->report.curve_misses[i]), 0, 1000);
    }
    /* cost per step, in steps of the reference price: somewhere about one, not thousands */
    assert_true(f->report.terms.cost < -0.3 && f->report.terms.cost > -5);
    fixture_free(f);
}

TEST(the_curve_and_the_state_of_the_run_are_in_the_file)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    const char *path = test_path("%s/curve.safetensors", test_tmp_dir());
    struct err e;
    for (int part = 1; part <= 2; part++) {
        double *rows;
        size_t n;
        struct learned l;
        f->stop_at = part == 1 ? 2 * 2048 : 0;
        assert_learns(f, &o, "curve.safetensors");
        assert_ok(learned_curve_load(path, &rows, &n, &e), &e);
        assert_int_equal(n, 2 * part);
        for (size_t i = 0; i < n; i++) {
            assert_near(rows[3 * i], 2048 * ((double)i + 1), 0, 0);
            assert_near(rows[3 * i + 1], f->report.curve_cost_usd_h[i], 0, 0);
            assert_near(rows[3 * i + 2], f->report.curve_misses[i], 0, 0);
        }
        mem_free(rows);
        assert_ok(learned_load(path, &l, &e), &e);
        assert_true(l.interrupted == (part == 1));
        learned_fini(&l);
    }
    double *rows;
    size_t n;
    (void)learned_outlook();
    assert_ok(learned_curve_load(test_path("%s/%s", test_tmp_dir(), outlook_file), &rows, &n, &e), &e);
    assert_null(rows);
    assert_int_equal(n, 0);
    fixture_free(f);
}

TEST(every_stage_counts_up_to_what_it_said_it_would_be)
{
    const struct learn_fixture *f = learned_outlook();
    assert_string_equal(f->stage, "calibration");
    assert_in_range((uint64_t)f->done, 9 * (uint64_t)f->total / 10, (uint64_t)f->total); /* at most, since a search may end early */
    assert_true(f->stages > 100);
}

TEST(too_little_to_learn_from_is_a_clear_error)
{
    struct scenario sc;
    struct err e;
    struct learn_report *r = mem_zero(1, sizeof *r);
    struct learn_opts o = learn_small(LEARN_OUTLOOK, PPO_BASE_NONE);
    float demand[300];
    const char *path = test_path("%s/little.safetensors", test_tmp_dir());
    small_scenario(&sc);
    for (int i = 0; i < 300; i++)
        demand[i] = 100;
    struct world *w = world_of(&sc, demand, NULL, 300);
    assert_err(learn_run(w, &o, path, NULL, NULL, r, &e), ERR_RANGE, &e, "at least 2");
    o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    assert_err(learn_run(w, &o, path, NULL, NULL, r, &e), ERR_RANGE, &e,
               "too little to learn from");
    memset(w->barred, 1, (size_t)w->train_end); /* or enough, but all of it gap */
    assert_err(learn_run(w, &o, path, NULL, NULL, r, &e), ERR_RANGE, &e, "0 of the 200 training steps");
    world_free(w);
    scenario_fini(&sc);
    mem_free(r);
}

TEST(bad_learning_options_are_refused)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_OUTLOOK, PPO_BASE_MPC);
    struct err e;
    assert_err(learn(f, &o, "x.safetensors", &e), ERR_USAGE, &e, "--base");
    o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    o.lanes = 0;
    assert_err(learn(f, &o, "x.safetensors", &e), ERR_RANGE, &e, "0 lanes");
    o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    o.seeds = 0;
    assert_err(learn(f, &o, "x.safetensors", &e), ERR_RANGE, &e, "0 seeds");
    o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    o.threads = 0;
    assert_err(learn(f, &o, "x.safetensors", &e), ERR_RANGE, &e, NULL);
    fixture_free(f);
}

TEST(an_unwritable_output_is_an_error)
{
    struct learn_fixture *f = fixture_new();
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_NONE);
    struct err e;
    o.steps = 2048;
    assert_err(learn(f, &o, "no/such/folder/x.safetensors", &e), ERR_IO, &e, "no/such/folder");
    fixture_free(f);
}
