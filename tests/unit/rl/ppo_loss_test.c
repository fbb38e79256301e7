#include "base/mem.h"
#include "base/rng.h"
#include "rl/ppo_loss.h"
#include "tests/support/test.h"

enum { ROWS = 45, MAX_ACTIONS = 20, LD = 32 };

struct data {
    int32_t action[ROWS], row[ROWS];
    uint8_t mask[ROWS * MAX_ACTIONS];
    float logp_old[ROWS], adv[ROWS], ret[2][ROWS], old[2][ROWS], prior[MAX_ACTIONS];
    float logits[ROWS * LD], values[ROWS * LD], dlogits[ROWS * LD], dvalues[ROWS * LD];
    struct ppo_loss loss;
    struct nn_tile tile;
};

static void fill(struct data *d, int n_actions, int n_values)
{
    struct rng rng = rng_stream(test_seed(), "loss");
    memset(d, 0, sizeof *d);
    for (int i = 0; i < ROWS; i++) {
        d->row[i] = (i * 7) % ROWS;
        d->action[i] = (int32_t)rng_below(&rng, (uint32_t)n_actions);
        for (int a = 0; a < n_actions; a++)
            d->mask[i * n_actions + a] = a == d->action[i] || rng_unit(&rng) < 0.7;
        d->logp_old[i] = (float)(-2 + 0.5 * rng_normal(&rng));
        d->adv[i] = (float)rng_normal(&rng);
        for (int k = 0; k < 2; k++) {
            d->ret[k][i] = (float)rng_normal(&rng);
            d->old[k][i] = (float)rng_normal(&rng);
        }
        for (int a = 0; a < n_actions; a++)
            d->logits[i * LD + a] = (float)(1.5 * rng_normal(&rng));
        for (int k = 0; k < n_values; k++)
            d->values[i * LD + k] = (float)rng_normal(&rng);
    }
    for (int a = 0; a < n_actions; a++)
        d->prior[a] = (float)rng_normal(&rng);
    d->loss = (struct ppo_loss){
        .n_actions = n_actions,
        .n_values = n_values,
        .action = d->action,
        .mask = d->mask,
        .logp_old = d->logp_old,
        .adv = d->adv,
        .ret = {d->ret[0], d->ret[1]},
        .value_old = {d->old[0], d->old[1]},
        .clip = 0.2f,
        .value_coef = 0.5f,
        .entropy_coef = 0.05f,
        .prior = d->prior,
        .weight = 1.0f / ROWS,
    };
    d->tile = (struct nn_tile){.n = ROWS,
                               .row = d->row,
                               .ld_logits = LD,
                               .ld_values = LD,
                               .logits = d->logits,
                               .values = d->values,
                               .dlogits = d->dlogits,
                               .dvalues = d->dvalues};
}

TEST(the_fast_loss_agrees_with_the_reference)
{
    static const struct {
        int n_actions, n_values;
        float value_clip, kl_prior;
    } cases[] = {{7, 1, 0, 0}, {7, 2, 0.3f, 0}, {2, 1, 0, 0.5f}, {20, 2, 0.1f, 0.1f}, {1, 1, 0, 0}};
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        struct data fast, slow;
        fill(&fast, cases[c].n_actions, cases[c].n_values);
        fast.loss.value_clip = cases[c].value_clip;
        fast.loss.kl_prior = cases[c].kl_prior;
        fill(&slow, cases[c].n_actions, cases[c].n_values);
        slow.loss.value_clip = cases[c].value_clip;
        slow.loss.kl_prior = cases[c].kl_prior;
        ppo_loss(&fast.loss, &fast.tile);
        ppo_loss_reference(&slow.loss, &slow.tile);
        for (int i = 0; i < ROWS * LD; i++) {
            assert_near((double)fast.dlogits[i], (double)slow.dlogits[i], 3e-7, 1e-4);
            assert_near((double)fast.dvalues[i], (double)slow.dvalues[i], 3e-7, 1e-5);
        }
        assert_near(fast.loss.policy_loss, slow.loss.policy_loss, 1e-4, 1e-4);
        assert_near(fast.loss.entropy, slow.loss.entropy, 1e-4, 1e-5);
        assert_near(fast.loss.kl, slow.loss.kl, 1e-4, 1e-4);
        assert_near(fast.loss.clipped, slow.loss.clipped, 0, 0);
        for (int k = 0; k < cases[c].n_values; k++)
            assert_near(fast.loss.value_loss[k], slow.loss.value_loss[k], 1e-4, 1e-5);
    }
}

/* The objective itself, for differences of it. */
static double objective(const struct data *d, int tile_row, const double *logits)
{
    int row = d->row[tile_row], n = d->loss.n_actions;
    const uint8_t *mask = d->mask + row * n;
    double sum = 0, entropy = 0, kl = 0;
    for (int a = 0; a < n; a++)
        sum += mask[a] ? exp(logits[a]) : 0;
    double sum_prior = 0;
    for (int a = 0; a < n; a++)
        sum_prior += mask[a] ? exp((double)d->prior[a]) : 0;
    for (int a = 0; a < n; a++)
        if (mask[a]) {
            double logp = logits[a] - log(sum);
            entropy -= exp(logp) * logp;
            kl += exp(logp) * (logp - (double)d->prior[a] + log(sum_prior));
        }
    double ratio = exp(logits[d->action[row]] - log(sum) - (double)d->logp_old[row]),
           adv = (double)d->adv[row];
    double clipped = fmin(fmax(ratio, 0.8), 1.2);
    return -fmin(ratio * adv, clipped * adv) - (double)d->loss.entropy_coef * entropy +
           (double)d->loss.kl_prior * kl;
}

TEST(the_reference_is_the_slope_of_the_objective)
{
    struct data d;
    fill(&d, 7, 1);
    d.loss.kl_prior = 0.3f;
    ppo_loss_reference(&d.loss, &d.tile);
    for (int i = 0; i < ROWS; i++)
        for (int a = 0; a < 7; a++) {
            double x[7];
            for (int k = 0; k < 7; k++)
                x[k] = (double)d.logits[i * LD + k];
            x[a] += 1e-5;
            double up = objective(&d, i, x);
            x[a] -= 2e-5;
            double down = objective(&d, i, x);
            assert_near((double)d.dlogits[i * LD + a] * ROWS, (up - down) / 2e-5, 1e-4, 1e-4);
        }
}
