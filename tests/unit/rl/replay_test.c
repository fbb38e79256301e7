#include "rl/replay.h"
#include "tests/support/test.h"

enum { LANES = 3, DIM = 2, ACTIONS = 2 };

static const struct rl_venv sizes = {.n_lanes = LANES, .obs_dim = DIM, .n_actions = ACTIONS};

/* Step number `step`: obs 100 step + lane, next 100 (step + 1) + lane, final 7000 + lane; reward 1,
 * cost 2. */
static void add(struct replay *r, int step, const uint8_t *end)
{
    float obs[LANES * DIM], next[LANES * DIM], final[LANES * DIM], reward[LANES], cost[LANES];
    uint8_t mask[LANES * ACTIONS], ends[LANES];
    int32_t action[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        for (int j = 0; j < DIM; j++) {
            obs[lane * DIM + j] = (float)(100 * step + lane) + 0.5f * (float)j;
            next[lane * DIM + j] = (float)(100 * (step + 1) + lane) + 0.5f * (float)j;
            final[lane * DIM + j] = (float)(7000 + lane) + 0.5f * (float)j;
        }
        reward[lane] = 1;
        cost[lane] = 2;
        action[lane] = lane % ACTIONS;
        mask[lane * ACTIONS] = 1;
        mask[lane * ACTIONS + 1] = 0;
        ends[lane] = end[lane];
    }
    replay_add_obs(r, 0, LANES, obs, step);
    replay_add_step(r, 0, LANES, action, 0.25f,
                    &(struct rl_step_out){.obs = next,
                                          .mask = mask,
                                          .reward = reward,
                                          .cost = cost,
                                          .end = ends,
                                          .final_obs = final},
                    step);
    r->n_steps++;
}

static const uint8_t running[LANES];

TEST(the_oldest_transitions_make_way)
{
    struct replay r;
    struct err e;
    assert_ok(replay_init(&r, &sizes, 4 * LANES + 2, &e), &e); /* the rest of a slot is not used */
    assert_int_equal(replay_rows(&r), 0);
    for (int step = 0; step < 6; step++) {
        add(&r, step, running);
        assert_int_equal(replay_rows(&r), step < 4 ? (step + 1) * LANES : 4 * LANES);
    }
    for (int slot = 0; slot < 4; slot++) {
        int step = slot < 2 ? slot + 4 : slot;
        assert_int_equal(replay_slot(&r, step), slot * LANES);
        assert_near((double)r.obs[(slot * LANES + 2) * DIM + 1], 100 * step + 2.5, 0, 0);
        assert_near((double)r.next_obs[(slot * LANES + 2) * DIM + 1], 100 * (step + 1) + 2.5, 0, 0);
        assert_near((double)r.reward[slot * LANES + 1], 0.5, 0, 0); /* 1 - 0.25 * 2 */
        assert_int_equal(r.action[slot * LANES + 1], 1);
        assert_int_equal(r.next_mask[(slot * LANES + 1) * ACTIONS + 1], 0);
    }
    replay_fini(&r);
}

TEST(an_episode_that_ended_keeps_its_last_observation_not_the_next_first)
{
    const uint8_t end[LANES] = {RL_RUNNING, RL_TERMINATED, RL_TRUNCATED};
    struct replay r;
    struct err e;
    assert_ok(replay_init(&r, &sizes, 10 * LANES, &e), &e);
    add(&r, 0, end);
    assert_near((double)r.next_obs[0], 100, 0, 0);
    assert_near((double)r.next_obs[DIM], 7001, 0, 0);
    assert_near((double)r.next_obs[2 * DIM], 7002, 0, 0);
    for (int lane = 1; lane < LANES; lane++) /* the mask given belongs to the next episode */
        assert_int_equal(r.next_mask[lane * ACTIONS + 1], 1);
    replay_fini(&r);
}

TEST(truncated_rows_carry_weight_only_while_no_mask_forbids)
{
    const uint8_t end[LANES] = {RL_RUNNING, RL_TERMINATED, RL_TRUNCATED};
    struct replay r;
    struct err e;
    assert_ok(replay_init(&r, &sizes, LANES, &e), &e);
    add(&r, 0, end);
    for (int lane = 0; lane < LANES; lane++)
        assert_near((double)replay_weight(&r, lane), 1, 0, 0);
    r.masked = true;
    assert_near((double)replay_weight(&r, 0), 1, 0, 0);
    assert_near((double)replay_weight(&r, 1), 1, 0, 0);
    assert_near((double)replay_weight(&r, 2), 0, 0, 0);
    replay_fini(&r);
}

TEST(a_replay_that_cannot_hold_a_step_or_is_huge_is_refused)
{
    struct replay r;
    struct err e;
    assert_err(replay_init(&r, &sizes, LANES - 1, &e), ERR_RANGE, &e, "replay_capacity");
    assert_err(replay_init(&r, &sizes, REPLAY_ROWS_MAX + 1, &e), ERR_RANGE, &e, "replay_capacity");
}
