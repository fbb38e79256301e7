#include "base/mem.h"
#include "base/rng.h"
#include "rl/gae.h"
#include "rl/venv.h"
#include "tests/support/test.h"

enum { STEPS = 50, LANES = 3, ROWS = STEPS * LANES };

struct data {
    float reward[ROWS], value[ROWS], boot[ROWS], last[LANES], adv[ROWS], ret[ROWS];
    uint8_t end[ROWS];
    struct gae_in in;
};

static void fill(struct data *d, float gamma, float lambda)
{
    struct rng rng = rng_stream(test_seed(), "gae");
    for (int i = 0; i < ROWS; i++) {
        d->reward[i] = (float)rng_normal(&rng);
        d->value[i] = (float)rng_normal(&rng);
        d->boot[i] = (float)rng_normal(&rng);
        double u = rng_unit(&rng);
        d->end[i] = u < 0.05 ? RL_TERMINATED : u < 0.1 ? RL_TRUNCATED : RL_RUNNING;
    }
    for (int i = 0; i < LANES; i++)
        d->last[i] = (float)rng_normal(&rng);
    d->in =
        (struct gae_in){STEPS, LANES, d->reward, d->value, d->boot, d->last, d->end, gamma, lambda};
}

/* Value of what follows step t. */
static double next_value(const struct data *d, int t, int lane)
{
    int i = t * LANES + lane;
    if (d->end[i] == RL_TERMINATED)
        return 0;
    if (d->end[i] == RL_TRUNCATED)
        return (double)d->boot[i];
    return (double)(t + 1 < STEPS ? d->value[i + LANES] : d->last[lane]);
}

TEST(advantages_match_the_double_sum_of_the_paper)
{
    struct data d;
    const float factors[][2] = {{0.99f, 0.95f}, {1, 1}, {0.9f, 0}, {0, 0.5f}};
    for (size_t f = 0; f < ARRAY_LEN(factors); f++) {
        fill(&d, factors[f][0], factors[f][1]);
        gae_compute(&d.in, 0, LANES, d.adv, d.ret);
        for (int lane = 0; lane < LANES; lane++)
            for (int t = 0; t < STEPS; t++) {
                double sum = 0, decay = 1, gamma = (double)d.in.gamma;
                for (int k = t; k < STEPS; k++) {
                    int i = k * LANES + lane;
                    sum += decay * ((double)d.reward[i] + gamma * next_value(&d, k, lane) -
                                    (double)d.value[i]);
                    decay *= gamma * (double)d.in.lambda;
                    if (d.end[i] != RL_RUNNING)
                        break;
                }
                int i = t * LANES + lane;
                assert_near((double)d.adv[i], sum, 1e-5, 1e-5);
                assert_near((double)d.ret[i], sum + (double)d.value[i], 1e-5, 1e-5);
            }
    }
}

TEST(lanes_are_computed_alone)
{
    struct data d, part;
    fill(&d, 0.99f, 0.95f);
    part = d;
    gae_compute(&d.in, 0, LANES, d.adv, d.ret);
    for (int lane = 0; lane < LANES; lane++)
        gae_compute(&d.in, lane, lane + 1, part.adv, part.ret);
    assert_memory_equal(part.adv, d.adv, sizeof d.adv);
}

TEST(a_window_credits_exactly_its_rewards)
{
    struct data d;
    fill(&d, 1, 1);
    memset(d.end, RL_RUNNING, sizeof d.end);
    gae_window(&d.in, 20, 0, LANES, d.adv, d.ret);
    double sum = 0;
    for (int t = 5; t < 25; t++)
        sum += (double)d.reward[t * LANES + 1];
    assert_near((double)d.ret[5 * LANES + 1], sum, 1e-5, 1e-5);
    assert_near((double)d.adv[5 * LANES + 1], sum - (double)d.value[5 * LANES + 1], 1e-5, 1e-5);
}

TEST(a_window_past_the_end_takes_the_missing_share_of_the_value)
{
    struct data d;
    fill(&d, 1, 1);
    memset(d.end, RL_RUNNING, sizeof d.end);
    gae_window(&d.in, 20, 0, LANES, d.adv, d.ret);
    int t = STEPS - 5; /* five rewards are there, fifteen twentieths are not */
    double sum = 0.75 * (double)d.last[2];
    for (int k = t; k < STEPS; k++)
        sum += (double)d.reward[k * LANES + 2];
    assert_near((double)d.ret[t * LANES + 2], sum, 1e-5, 1e-5);
}

TEST(a_window_stops_at_a_terminal_step_and_bootstraps_a_truncated_one)
{
    struct data d;
    for (int end = RL_TERMINATED; end <= RL_TRUNCATED; end++) {
        fill(&d, 0.5f, 1);
        memset(d.end, RL_RUNNING, sizeof d.end);
        d.end[1 * LANES] = (uint8_t)end;
        gae_window(&d.in, 4, 0, 1, d.adv, d.ret);
        double want = (double)d.reward[0] + 0.5 * (double)d.reward[LANES];
        if (end == RL_TRUNCATED)
            want += 0.25 * 0.5 * (double)d.boot[LANES];
        assert_near((double)d.ret[0], want, 1e-6, 1e-6);
    }
}
