/* env_test.c - lanes: independent, exactly saved, the same whatever the sharding; what a step is
 * worth. */
#include "base/hash.h"
#include "tests/unit/train/world_fixture.h"
#include "train/env.h"

enum { LANES = 6, SEEDS = 2 };

struct env_fixture {
    struct scenario sc;
    struct world *w;
    struct chance *chance[SEEDS];
    struct capacity_config cfg;
    struct capacity_env_opts o;
    struct capacity_env *env;
    struct rl_venv v;
    float obs[LANES * CAPACITY_OBS], final_obs[LANES * CAPACITY_OBS], reward[LANES], cost[LANES];
    uint8_t mask[LANES * CAPACITY_ACTIONS], end[LANES];
    int32_t action[LANES];
};

static void make_env(struct env_fixture *f)
{
    struct err e;
    assert_ok(capacity_env_new(f->w, f->chance, SEEDS, &f->cfg, &f->o, &f->env, &e), &e);
    f->v = capacity_env_venv(f->env);
}

static struct env_fixture *fixture_new(const char *base)
{
    struct env_fixture *f = mem_zero(1, sizeof *f);
    struct err e;
    small_scenario(&f->sc);
    f->w = wave_world(&f->sc, 6, 8);
    assert_ok(chance_new_many(f->w, 1, SEEDS, NULL, f->chance, &e), &e);
    config_of(f->w, "ppo", true, &f->cfg);
    if (base) {
        policy_use_default(&f->cfg.base, policy_find(base));
        f->cfg.main.opt.ppo.base = PPO_BASE_MPC;
        assert_ok(capacity_config_finish(&f->cfg, &e), &e);
    }
    f->o = capacity_env_opts_default(f->w);
    f->o.n_lanes = LANES;
    f->o.episode_steps = 300;
    make_env(f);
    return f;
}

static void fixture_free(struct env_fixture *f)
{
    capacity_env_free(f->env);
    for (int i = 0; i < SEEDS; i++)
        chance_free(f->chance[i]);
    world_free(f->w);
    scenario_fini(&f->sc);
    mem_free(f);
}

static void reset_all(struct env_fixture *f)
{
    f->v.reset(f->env, 0, LANES, f->obs, f->mask);
}

/* An allowed action that depends on (t, lane) only. */
static void choose(struct env_fixture *f, int t)
{
    for (int i = 0; i < LANES; i++) {
        int a = (int)(rng_at(7, (uint64_t)t, (uint64_t)i) % CAPACITY_ACTIONS);
        while (!f->mask[i * CAPACITY_ACTIONS + a])
            a = (a + 1) % CAPACITY_ACTIONS;
        f->action[i] = a;
    }
}

static void step_range(struct env_fixture *f, int begin, int end)
{
    const struct rl_step_out out = {f->obs, f->mask, f->reward, f->cost, f->end, f->final_obs};
    f->v.step(f->env, begin, end, f->action, &out);
}

static void mix(struct env_fixture *f, struct hash *h, int lane)
{
    hash_bytes(h, f->obs + lane * CAPACITY_OBS, CAPACITY_OBS * sizeof(float));
    hash_bytes(h, f->mask + lane * CAPACITY_ACTIONS, CAPACITY_ACTIONS);
    hash_bytes(h, &f->reward[lane], sizeof(float));
    hash_bytes(h, &f->cost[lane], sizeof(float));
    hash_u64(h, f->end[lane]);
    if (f->end[lane] != RL_RUNNING)
        hash_bytes(h, f->final_obs + lane * CAPACITY_OBS, CAPACITY_OBS * sizeof(float));
}

/* Hash per lane of everything it showed in `n` steps cut into shards of `shard` lanes. */
static void run_steps(struct env_fixture *f, int from, int n, int shard, uint64_t out[LANES])
{
    struct hash h[LANES];
    for (int i = 0; i < LANES; i++)
        h[i] = hash_init(0);
    for (int t = from; t < from + n; t++) {
        choose(f, t);
        for (int i = 0; i < LANES; i += shard)
            step_range(f, i, i + shard < LANES ? i + shard : LANES);
        for (int i = 0; i < LANES; i++)
            mix(f, &h[i], i);
    }
    for (int i = 0; i < LANES; i++)
        out[i] = hash_value(&h[i]);
}

TEST(lanes_show_the_same_whatever_the_sharding)
{
    uint64_t whole[LANES], cut[LANES];
    for (int shard = 1; shard <= 4; shard++) {
        struct env_fixture *a = fixture_new(NULL), *b = fixture_new(NULL);
        reset_all(a);
        for (int i = LANES - 1; i >= 0; i--) /* in another order too */
            b->v.reset(b->env, i, i + 1, b->obs, b->mask);
        run_steps(a, 0, 700, LANES, whole);
        run_steps(b, 0, 700, shard, cut);
        assert_memory_equal(whole, cut, sizeof whole);
        fixture_free(a);
        fixture_free(b);
    }
}

struct threaded {
    struct env_fixture *f;
    int t;
};

static void step_shard(size_t shard, int worker, void *arg)
{
    struct threaded *t = arg;
    (void)worker;
    step_range(t->f, 2 * (int)shard, 2 * (int)shard + 2);
}

TEST(lanes_show_the_same_stepped_by_one_thread_or_two)
{
    struct err e;
    struct thread_pool *pool;
    uint64_t one[LANES], two[LANES];
    struct env_fixture *a = fixture_new("mpc"), *b = fixture_new("mpc");
    assert_ok(thread_pool_new(2, &pool, &e), &e);
    reset_all(a);
    reset_all(b);
    run_steps(a, 0, 400, LANES, one);
    struct hash h[LANES];
    for (int i = 0; i < LANES; i++)
        h[i] = hash_init(0);
    for (int t = 0; t < 400; t++) {
        choose(b, t);
        parallel_for(pool, LANES / 2, step_shard, &(struct threaded){b, t});
        for (int i = 0; i < LANES; i++)
            mix(b, &h[i], i);
    }
    for (int i = 0; i < LANES; i++)
        two[i] = hash_value(&h[i]);
    assert_memory_equal(one, two, sizeof one);
    thread_pool_free(pool);
    fixture_free(a);
    fixture_free(b);
}

TEST(an_action_moves_its_own_lane_only)
{
    struct env_fixture *a = fixture_new(NULL), *b = fixture_new(NULL);
    reset_all(a);
    reset_all(b);
    int differ = 0;
    for (int t = 0; t < 250; t++) {
        choose(a, t);
        choose(b, t);
        b->action[2] = 0;
        while (!b->mask[2 * CAPACITY_ACTIONS + b->action[2]]) /* lane 2 shrinks as it may */
            b->action[2]++;
        step_range(a, 0, LANES);
        step_range(b, 0, LANES);
        for (int i = 0; i < LANES; i++) {
            bool same = memcmp(a->obs + i * CAPACITY_OBS, b->obs + i * CAPACITY_OBS,
                               CAPACITY_OBS * sizeof(float)) == 0;
            differ += i == 2 && !same;
            assert_true(same || i == 2);
        }
    }
    assert_true(differ > 50);
    fixture_free(a);
    fixture_free(b);
}

TEST(lanes_differ_in_days_seeds_and_weights)
{
    struct env_fixture *f = fixture_new(NULL);
    int weighted = 0, n = 0;
    for (int k = 0; k < 20; k++) {
        reset_all(f);
        for (int i = 0; i < LANES; i++, n++) {
            float weight = f->obs[i * CAPACITY_OBS + OBS_WEIGHT_LATENCY];
            assert_true(weight >= 0.49f && weight <= 2.01f);
            weighted += weight != 1;
            for (int j = 0; j < i; j++)
                assert_true(memcmp(f->obs + i * CAPACITY_OBS, f->obs + j * CAPACITY_OBS,
                                   CAPACITY_OBS * sizeof(float)) != 0);
        }
    }
    assert_in_range(weighted, 3 * n / 10, 7 * n / 10); /* in half of the episodes */
    f->o.draw_weights = false;
    capacity_env_free(f->env);
    make_env(f);
    reset_all(f);
    for (int i = 0; i < LANES; i++)
        assert_near((double)f->obs[i * CAPACITY_OBS + OBS_WEIGHT_LATENCY], 1, 0, 0);
    fixture_free(f);
}

TEST(an_episode_is_truncated_and_the_next_one_begins)
{
    struct env_fixture *f = fixture_new(NULL);
    uint64_t unused[LANES];
    reset_all(f);
    run_steps(f, 0, 299, LANES, unused);
    for (int i = 0; i < LANES; i++)
        assert_int_equal(f->end[i], RL_RUNNING);
    run_steps(f, 299, 1, LANES, unused);
    for (int i = 0; i < LANES; i++) {
        assert_int_equal(f->end[i], RL_TRUNCATED);
        assert_true(memcmp(f->obs + i * CAPACITY_OBS, f->final_obs + i * CAPACITY_OBS,
                           CAPACITY_OBS * sizeof(float)) != 0);
        /* the next one has been running for an hour under a plain rule: its averages are in use */
        assert_true(f->obs[i * CAPACITY_OBS + OBS_USE_LEVEL] > 0);
        assert_near((double)f->obs[i * CAPACITY_OBS + OBS_NO_LOAD], 0, 0, 0);
    }
    run_steps(f, 300, 1, LANES, unused);
    for (int i = 0; i < LANES; i++)
        assert_int_equal(f->end[i], RL_RUNNING);
    fixture_free(f);
}

TEST(every_observation_is_in_range_and_something_is_always_allowed)
{
    struct env_fixture *f = fixture_new("mpc");
    reset_all(f);
    for (int t = 0; t < 600; t++) {
        choose(f, t);
        step_range(f, 0, LANES);
        for (int i = 0; i < LANES; i++) {
            int any = 0;
            for (int a = 0; a < CAPACITY_ACTIONS; a++)
                any += f->mask[i * CAPACITY_ACTIONS + a];
            assert_true(any > 0);
            assert_true(isfinite(f->reward[i]));
            for (int k = 0; k < CAPACITY_OBS; k++) {
                float x = f->obs[i * CAPACITY_OBS + k];
                const struct observation_info *info = observation_get((enum observation)k);
                if (!(x >= info->lo && x <= info->hi))
                    fail_msg("%s is %g, outside %g..%g", info->name, (double)x, (double)info->lo,
                             (double)info->hi);
            }
        }
    }
    fixture_free(f);
}

/* ---- what a step is worth ---------------------------------------------------------------------
 */

TEST(rewards_and_costs_add_up_to_the_terms)
{
    struct env_fixture *f = fixture_new(NULL);
    double sum = 0, cost = 0;
    reset_all(f);
    for (int t = 0; t < 280; t++) {
        for (int i = 0; i < LANES; i++) {
            f->action[i] = 0;
            while (!f->mask[i * CAPACITY_ACTIONS + f->action[i]])
                f->action[i]++; /* as small as the guard lets it */
        }
        step_range(f, 0, LANES);
        for (int i = 0; i < LANES; i++) {
            sum += (double)f->reward[i];
            cost += (double)f->cost[i];
        }
    }
    struct reward_terms t = capacity_env_terms(f->env);
    assert_near(sum, reward_sum(&t), 0, 1e-5);
    assert_true(t.cost < 0 && t.churn < 0 && t.latency < 0);
    assert_near(t.hold, 0, 0, 0); /* the slo preset has no bonus for holding */
    assert_true(cost > 0);        /* so small that some steps miss */
    fixture_free(f);
}

TEST(barred_steps_neither_reward_nor_cost)
{
    struct env_fixture *f = fixture_new(NULL);
    uint8_t *barred = mem_zero((size_t)f->w->n, 1);
    memset(barred, 1, (size_t)f->w->n);
    struct world *all_barred = world_of(&f->sc, f->w->demand, barred, f->w->n);
    capacity_env_free(f->env);
    world_free(f->w);
    f->w = all_barred;
    config_of(f->w, "ppo", true, &f->cfg);
    make_env(f);
    reset_all(f);
    for (int t = 0; t < 50; t++) {
        choose(f, t);
        step_range(f, 0, LANES);
        for (int i = 0; i < LANES; i++) {
            assert_near((double)f->reward[i], 0, 0, 0);
            assert_near((double)f->cost[i], 0, 0, 0);
        }
    }
    mem_free(barred);
    fixture_free(f);
}

/* ---- checkpoints ------------------------------------------------------------------------------
 */

static unsigned char *save(struct env_fixture *f, size_t *n)
{
    *n = f->v.save(f->env, NULL, 0);
    unsigned char *blob = mem_zero(*n, 1);
    assert_int_equal(f->v.save(f->env, blob, *n - 1), *n); /* too small: nothing is written */
    assert_int_equal(blob[0], 0);
    assert_int_equal(f->v.save(f->env, blob, *n), *n);
    return blob;
}

static void assert_resumes(const char *base)
{
    struct err e;
    struct env_fixture *a = fixture_new(base), *b = fixture_new(base);
    uint64_t unused[LANES], want[LANES], got[LANES];
    size_t n, m;
    reset_all(a);
    run_steps(a, 0, 450, LANES, unused); /* into the second episode */
    unsigned char *blob = save(a, &n);
    assert_ok(b->v.load(b->env, blob, n, &e), &e);
    unsigned char *again = save(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(blob, again, n);
    memcpy(b->mask, a->mask, sizeof a->mask); /* the collector keeps these itself */
    run_steps(a, 450, 500, LANES, want);
    run_steps(b, 450, 500, 2, got);
    assert_memory_equal(want, got, sizeof want);
    mem_free(blob);
    mem_free(again);
    fixture_free(a);
    fixture_free(b);
}

TEST(saved_lanes_go_on_exactly_where_they_were)
{
    assert_resumes(NULL);
    assert_resumes("mpc");
}

TEST(damaged_lane_states_are_refused)
{
    struct err e;
    struct env_fixture *a = fixture_new(NULL), *b = fixture_new(NULL);
    uint64_t unused[LANES];
    size_t n;
    reset_all(a);
    run_steps(a, 0, 100, LANES, unused);
    unsigned char *blob = save(a, &n);
    assert_err(b->v.load(b->env, blob, n - 1, &e), ERR_MISMATCH, &e, "expected");
    assert_err(b->v.load(b->env, blob, 0, &e), ERR_MISMATCH, &e, "expected");
    struct rng rng = rng_stream(test_seed(), "damage");
    for (int k = 0; k < 300; k++) {
        size_t at = rng_below(&rng, (uint32_t)n);
        unsigned char was = blob[at];
        blob[at] ^= (unsigned char)(1 + rng_below(&rng, 255));
        assert_true(b->v.load(b->env, blob, n, &e) != ERR_OK);
        blob[at] = was;
    }
    assert_ok(b->v.load(b->env, blob, n, &e), &e);
    mem_free(blob);
    fixture_free(a);
    fixture_free(b);
}

/* Somebody who knows the format writes the right hash: still no index may leave its array. */
TEST(forged_lane_states_are_refused_or_run_within_bounds)
{
    struct err e;
    struct env_fixture *a = fixture_new(NULL);
    uint64_t unused[LANES];
    size_t n;
    int refused = 0;
    reset_all(a);
    run_steps(a, 0, 100, LANES, unused);
    unsigned char *blob = save(a, &n);
    struct rng rng = rng_stream(test_seed(), "forgery");
    for (int k = 0; k < 2000; k++) {
        unsigned char *forged = mem_zero(n, 1);
        memcpy(forged, blob, n);
        for (int i = 0; i < 4; i++)
            forged[16 + rng_below(&rng, (uint32_t)n - 16)] = (unsigned char)rng_next(&rng);
        uint64_t hash = hash_of(forged + 16, n - 16);
        memcpy(forged + 8, &hash, sizeof hash);
        if (a->v.load(a->env, forged, n, &e)) {
            refused++;
        } else {
            memset(a->mask, 1, sizeof a->mask);
            run_steps(a, 0, 20, LANES, unused);
        }
        mem_free(forged);
    }
    assert_true(refused > 1200); /* most hit the hash of a decision state, a count or a time */
    mem_free(blob);
    fixture_free(a);
}

TEST(states_of_other_lanes_or_policies_are_refused)
{
    struct err e;
    struct env_fixture *a = fixture_new(NULL), *b = fixture_new("mpc");
    size_t n;
    reset_all(a);
    unsigned char *blob = save(a, &n);
    assert_err(b->v.load(b->env, blob, n, &e), ERR_MISMATCH, &e, "expected");
    a->o.n_lanes = LANES - 1;
    capacity_env_free(a->env);
    make_env(a);
    assert_err(a->v.load(a->env, blob, n, &e), ERR_MISMATCH, &e, "expected");
    mem_free(blob);
    fixture_free(a);
    fixture_free(b);
}

/* ---- limits -----------------------------------------------------------------------------------
 */

TEST(an_environment_needs_lanes_seeds_and_a_training_part)
{
    struct err e;
    struct env_fixture *f = fixture_new(NULL);
    struct capacity_env *env;
    struct capacity_env_opts o = f->o;
    o.n_lanes = 0;
    assert_err(capacity_env_new(f->w, f->chance, SEEDS, &f->cfg, &o, &env, &e), ERR_RANGE, &e,
               "0 lanes");
    assert_err(capacity_env_new(f->w, f->chance, 0, &f->cfg, &f->o, &env, &e), ERR_RANGE, &e,
               "0 seeds");
    o = f->o;
    o.to = f->w->train_end + 1; /* never on what is evaluated */
    assert_err(capacity_env_new(f->w, f->chance, SEEDS, &f->cfg, &o, &env, &e), ERR_RANGE, &e,
               "too little");
    o.from = o.to = 0;
    assert_err(capacity_env_new(f->w, f->chance, SEEDS, &f->cfg, &o, &env, &e), ERR_RANGE, &e,
               "too little");
    o.to = 260;
    assert_err(capacity_env_new(f->w, f->chance, SEEDS, &f->cfg, &o, &env, &e), ERR_RANGE, &e,
               "too little");
    fixture_free(f);
}

TEST(a_short_history_gives_short_episodes)
{
    struct env_fixture *f = fixture_new(NULL);
    uint64_t unused[LANES];
    f->o.to = 400; /* 159 steps beside the hour of warming up: episodes of 79 */
    f->o.episode_steps = 0;
    capacity_env_free(f->env);
    make_env(f);
    reset_all(f);
    run_steps(f, 0, 78, LANES, unused);
    assert_int_equal(f->end[0], RL_RUNNING);
    run_steps(f, 78, 1, LANES, unused);
    assert_int_equal(f->end[0], RL_TRUNCATED);
    fixture_free(f);
}

TEST(episodes_stay_inside_the_training_part)
{
    struct env_fixture *f = fixture_new(NULL);
    uint64_t unused[LANES];
    size_t n;
    reset_all(f);
    for (int k = 0; k < 40; k++) {
        run_steps(f, 0, 300, LANES, unused);
        unsigned char *blob = save(f, &n); /* load checks step + left <= to of every lane */
        struct err e;
        assert_ok(f->v.load(f->env, blob, n, &e), &e);
        mem_free(blob);
    }
    fixture_free(f);
}
