/* The asynchronous trainer: stopping, errors of one worker, statistics, files.  What it learns is
 * in tests/num. */
#include "base/mem.h"
#include "rl/a3c.h"
#include "rl/a3c_priv.h"
#include "tests/support/rl_file.h"
#include "tests/support/rl_ref.h"
#include "tests/support/test.h"

enum { LANES = 10 };

static struct a3c_cfg small(enum nn_shape shape, int n_threads)
{
    struct a3c_cfg c = a3c_cfg_default();
    c.shape = shape;
    c.n_hidden = 16;
    c.n_steps = 8;
    c.seq_steps = 4;
    c.n_threads = n_threads;
    c.total_steps = 4000;
    c.report_steps = 200;
    return c;
}

struct run {
    struct test_env *env;
    struct rl_venv venv;
    struct a3c *a3c;
};

static struct run start(const struct a3c_cfg *c, enum test_env_kind kind)
{
    struct run r = {.env = test_env_new(kind, LANES, 3)};
    struct err e;
    r.venv = test_env_venv(r.env);
    assert_ok(a3c_new(c, &r.venv, &r.a3c, &e), &e);
    return r;
}

static void finish(struct run *r)
{
    a3c_free(r->a3c);
    test_env_free(r->env);
}

static const struct st_meta layout = {"layout", "L1"};

static const char *save(const struct run *r, const char *name)
{
    const char *path = test_path("%s/%s.safetensors", test_tmp_dir(), name);
    struct err e;
    assert_ok(a3c_save(r->a3c, path, &layout, 1, NULL, 0, &e), &e);
    return path;
}

struct seen {
    int64_t reports, steps, updates, stop_after;
    double staleness, rows;
};

static bool watch(void *ctx, const struct a3c_stats *s)
{
    struct seen *seen = ctx; /* under the trainer's lock: no lock of ours needed */
    assert_int_equal(s->iteration, seen->reports + 1);
    assert_true(s->steps >= seen->steps + 200 && s->updates > seen->updates);
    assert_near(s->mean_reward, 1, 1e-9, 0);
    seen->reports++;
    seen->steps = s->steps;
    seen->updates = s->updates;
    seen->staleness += s->staleness;
    return seen->reports != seen->stop_after;
}

TEST(every_shape_trains_with_any_number_of_workers_and_reports)
{
    for (enum nn_shape shape = NN_SEPARATE; shape <= NN_LSTM; shape++)
        for (int n = 1; n <= 3; n++) {
            struct a3c_cfg c = small(shape, n);
            struct run r = start(&c, ENV_CARTPOLE);
            struct seen seen = {0};
            struct err e;
            assert_ok(a3c_train(r.a3c, watch, &seen, &e), &e);
            assert_true(a3c_done(r.a3c));
            assert_true(seen.reports >= 10 && seen.steps <= c.total_steps + LANES * c.n_steps);
            if (n == 1)
                assert_near(seen.staleness, 0, 0, 0);
            finish(&r);
        }
}

TEST(one_worker_gives_the_same_bits_again)
{
    struct a3c_cfg c = small(NN_SHARED, 1);
    const char *path[2];
    for (int i = 0; i < 2; i++) {
        struct run r = start(&c, ENV_CARTPOLE);
        struct err e;
        assert_ok(a3c_train(r.a3c, NULL, NULL, &e), &e);
        path[i] = save(&r, i ? "again" : "first");
        finish(&r);
    }
    assert_same_file(path[0], path[1]);
}

TEST(the_hook_stops_every_worker_and_training_can_go_on)
{
    struct a3c_cfg c = small(NN_SEPARATE, 3);
    struct run r = start(&c, ENV_CARTPOLE);
    struct seen seen = {.stop_after = 3};
    struct err e;
    assert_ok(a3c_train(r.a3c, watch, &seen, &e), &e);
    assert_int_equal(seen.reports, 3);
    assert_false(a3c_done(r.a3c));
    assert_ok(a3c_train(r.a3c, watch, &seen, &e), &e);
    assert_true(a3c_done(r.a3c));
    int64_t reports = seen.reports;
    assert_ok(a3c_train(r.a3c, watch, &seen, &e), &e); /* nothing left to do */
    assert_int_equal(seen.reports, reports);
    finish(&r);
}

TEST(observations_are_scaled_by_what_all_workers_saw)
{
    struct a3c_cfg c = small(NN_SEPARATE, 3);
    struct run r = start(&c, ENV_CHAIN); /* one-hot: the means of the eight inputs sum to 1 */
    struct err e;
    assert_ok(a3c_train(r.a3c, NULL, NULL, &e), &e);
    const struct nn_norm *n = a3c_norm(r.a3c);
    double sum = 0;
    for (int j = 0; j < n->dim; j++) {
        sum += n->mean[j];
        assert_near(n->m2[j] / n->count, n->mean[j] * (1 - n->mean[j]), 1e-9, 1e-6); /* Bernoulli */
    }
    assert_near(sum, 1, 1e-9, 0);
    assert_true(n->count > (double)c.total_steps); /* the first rollouts are in it too */
    finish(&r);
}

TEST(a3c_never_takes_a_masked_action)
{
    enum { MANY = 150 }; /* several shards in each worker */
    struct a3c_cfg c = small(NN_SEPARATE, 2);
    struct test_env *env = test_env_new(ENV_MASKED, MANY, 3);
    struct rl_venv venv = test_env_venv(env);
    struct a3c *a;
    struct err e;
    c.total_steps = 4 * MANY * c.n_steps;
    assert_ok(a3c_new(&c, &venv, &a, &e), &e);
    assert_ok(a3c_train(a, NULL, NULL, &e), &e);
    assert_int_equal(test_env_breaches(env), 0);
    a3c_free(a);
    test_env_free(env);
}

TEST(a_resumed_a3c_goes_on_from_the_same_parameters_and_counts)
{
    struct a3c_cfg c = small(NN_SEPARATE, 2);
    struct run r = start(&c, ENV_CARTPOLE), again = start(&c, ENV_CARTPOLE);
    struct seen seen = {.stop_after = 4};
    struct err e;
    assert_ok(a3c_train(r.a3c, watch, &seen, &e), &e);
    const char *path = save(&r, "half");
    assert_ok(a3c_load(again.a3c, path, &layout, 1, &e), &e);
    assert_same_file(path, save(&again, "copy"));
    seen.stop_after = 0;
    assert_ok(a3c_train(again.a3c, watch, &seen, &e), &e); /* watch: counts go on where they were */
    assert_true(a3c_done(again.a3c));
    finish(&r);
    finish(&again);
}

TEST(a_worker_scales_by_the_shared_statistics_not_its_own)
{
    struct a3c_cfg c = small(NN_SEPARATE, 1);
    struct run r = start(&c, ENV_CARTPOLE), again = start(&c, ENV_CARTPOLE);
    struct seen seen = {.stop_after = 4};
    struct err e;
    assert_ok(a3c_train(r.a3c, watch, &seen, &e), &e);
    assert_ok(a3c_load(again.a3c, save(&r, "half"), &layout, 1, &e), &e);
    assert_ok(a3c_train(again.a3c, NULL, NULL, &e), &e);
    const struct nn_norm *shared = &again.a3c->norm, *own = &again.a3c->worker[0].norm;
    assert_true(shared->count > own->count); /* the loaded part is in the one only */
    for (int j = 0; j < shared->dim; j++) {
        assert_true(shared->mean[j] != own->mean[j]);
        assert_near((double)own->shift[j], shared->mean[j], 1e-9, 1e-6);
        assert_near((double)own->scale[j], (double)shared->scale[j], 0, 0);
    }
    finish(&r);
    finish(&again);
}

TEST(a_checkpoint_of_another_a3c_run_is_refused_by_what_differs)
{
    struct a3c_cfg c = small(NN_SHARED, 1);
    const struct st_meta other = {"layout", "L2"}, reserved = {"a3c.lr", "1"};
    struct run r = start(&c, ENV_CARTPOLE);
    const char *path = save(&r, "other");
    struct err e;
    assert_err(a3c_save(r.a3c, path, &reserved, 1, NULL, 0, &e), ERR_INVAL, &e, "a3c.lr");
    assert_err(a3c_load(r.a3c, path, &other, 1, &e), ERR_MISMATCH, &e, "layout");
    finish(&r);
    c.gamma = 0.5f;
    r = start(&c, ENV_CARTPOLE);
    assert_err(a3c_load(r.a3c, path, NULL, 0, &e), ERR_MISMATCH, &e,
               "a3c.gamma: the file has \"0.99");
    assert_err(a3c_load(r.a3c, test_path("%s/none", test_tmp_dir()), NULL, 0, &e), ERR_IO, &e,
               NULL);
    finish(&r);
}

TEST(a3c_configurations_out_of_range_are_refused_by_field)
{
    const struct a3c_cfg ok = a3c_cfg_default();
    struct {
        struct a3c_cfg cfg;
        const char *field;
    } bad[] = {{ok, "lr:"},       {ok, "gamma:"},   {ok, "n_threads: 3"},
               {ok, "seq_steps"}, {ok, "n_hidden"}, {ok, "report_steps"}};
    bad[0].cfg.lr = NAN;
    bad[1].cfg.gamma = 1.5f;
    bad[2].cfg.n_threads = 3; /* of 2 lanes */
    bad[3].cfg.shape = NN_LSTM;
    bad[3].cfg.n_steps = 30;
    bad[4].cfg.n_hidden = 4;
    bad[5].cfg.report_steps = 0;
    struct test_env *env = test_env_new(ENV_CARTPOLE, 2, 1);
    struct rl_venv venv = test_env_venv(env);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct a3c *a;
        struct err e;
        assert_err(a3c_new(&bad[i].cfg, &venv, &a, &e), ERR_RANGE, &e, bad[i].field);
        assert_null(a);
    }
    test_env_free(env);
}

TEST(an_environment_that_misbehaves_under_a3c_is_named)
{
    static const struct {
        enum tape_spoil how;
        enum err_code code;
        const char *text;
    } cases[] = {
        {TAPE_BAD_REWARD, ERR_NUMERIC, "lane 0: reward"},
        {TAPE_BAD_OBS, ERR_NUMERIC, "lane 0: observation"},
        {TAPE_BAD_MASK, ERR_INVAL,
         "worker 0, update 1: lane 0: the mask"}, /* its second update, after a warm-up of 8 */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_env *env = test_env_new(ENV_CARTPOLE, 8, 1);
        struct rl_venv inner = test_env_venv(env);
        struct rl_tape *tape = rl_tape_new(&inner);
        struct rl_venv venv = rl_tape_venv(tape);
        struct a3c_cfg c = small(NN_SEPARATE, 1);
        struct a3c *a;
        struct err e;
        tape->spoil = cases[i].how;
        assert_ok(a3c_new(&c, &venv, &a, &e), &e);
        assert_err(a3c_train(a, NULL, NULL, &e), cases[i].code, &e, cases[i].text);
        a3c_free(a);
        rl_tape_free(tape);
        test_env_free(env);
    }
}

/* Lane 9, of the last worker, loses its mask; the others must stop too. */
static void no_mask(void *self, int begin, int end, const int32_t *action,
                    const struct rl_step_out *out)
{
    const struct rl_venv *inner = self;
    inner->step(inner->env, begin, end, action, out);
    if (end == LANES)
        memset(out->mask + 9 * inner->n_actions, 0, (size_t)inner->n_actions);
}

static void plain_reset(void *self, int begin, int end, float *obs, uint8_t *mask)
{
    const struct rl_venv *inner = self;
    inner->reset(inner->env, begin, end, obs, mask);
}

TEST(the_error_of_one_worker_stops_all)
{
    struct test_env *env = test_env_new(ENV_CARTPOLE, LANES, 1);
    struct rl_venv inner = test_env_venv(env), venv = inner;
    struct a3c_cfg c = small(NN_SEPARATE, 3);
    struct a3c *a;
    struct err e;
    venv.env = &inner;
    venv.step = no_mask;
    venv.reset = plain_reset;
    venv.save = NULL;
    venv.load = NULL;
    c.total_steps = INT64_C(1) << 40;
    assert_ok(a3c_new(&c, &venv, &a, &e), &e);
    assert_err(a3c_train(a, NULL, NULL, &e), ERR_INVAL, &e, "worker 2"); /* lane 2 of its three */
    a3c_free(a);
    test_env_free(env);
}
