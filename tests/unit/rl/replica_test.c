/* replica_test.c - copies of a network take the same steps to the same bits, whoever slept through some. */
#include "rl/replica.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/support/test.h"

enum { WIDTH = 9, SUMS = 2, WORKERS = 3, STEPS = 20 };

struct copies {
    struct nn_net *net, *plain;
    struct nn_adam adam, plain_adam;
    struct nn_ws *ws;
    struct replicas *r;
    float obs[6 * WIDTH];
};

static void slope(void *ctx, const struct nn_tile *tile)
{
    float x = *(const float *)ctx;
    for (int i = 0; i < tile->n; i++) {
        for (int a = 0; a < 3; a++)
            tile->dlogits[(size_t)i * tile->ld_logits + (size_t)a] = x * (float)(a - 1);
        tile->dvalues[(size_t)i * tile->ld_values] = x;
    }
}

static void copies_init(struct copies *c)
{
    struct err e;
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SHARED, WIDTH, 3, 1);
    struct rng rng = rng_stream(4, "copies");
    memset(c, 0, sizeof *c);
    cfg.n_hidden = 16;
    c->adam = c->plain_adam = nn_adam_default();
    assert_ok(nn_net_new(&cfg, &rng, &c->net, &e), &e);
    assert_ok(nn_net_new(&cfg, &rng, &c->plain, &e), &e);
    nn_net_copy(c->plain, c->net);
    assert_ok(nn_ws_new(c->net, &c->ws, &e), &e);
    assert_ok(replicas_new(c->net, &c->adam, WORKERS, SUMS, &c->r, &e), &e);
    for (int i = 0; i < 6 * WIDTH; i++)
        c->obs[i] = (float)rng_normal(&rng);
}

static void copies_fini(struct copies *c)
{
    replicas_free(c->r);
    nn_ws_free(c->ws);
    nn_net_free(c->net);
    nn_net_free(c->plain);
}

/* Fills the sums as a loop would and steps the plain network alike. */
static void step(struct copies *c, int k, float x, float lr)
{
    struct err e;
    struct nn_ws *const *sums = replicas_sums(c->r);
    struct nn_batch batch = {.obs = c->obs, .obs_stride = WIDTH, .n = 3 + k % 3, .n_steps = 1};
    for (int i = 0; i < SUMS; i++) {
        x += 0.25f * (float)i;
        nn_ws_zero(sums[i]);
        nn_net_grad_into(c->plain, c->ws, sums[i], &batch, slope, &x);
    }
    nn_net_reduce(c->plain, sums, SUMS);
    if (nn_adam_step(&c->plain_adam, nn_net_params(c->plain), lr, NULL, &e) == ERR_OK)
        nn_net_pack(c->plain);
    replicas_push(c->r, lr);
}

static void assert_same_network(const struct nn_net *a, const struct nn_net *b)
{
    const struct nn_params *p = nn_net_params_const(a), *q = nn_net_params_const(b);
    assert_memory_equal(p->value, q->value, p->total * sizeof *p->value);
    assert_memory_equal(p->m, q->m, p->total * sizeof *p->m);
    assert_memory_equal(p->v, q->v, p->total * sizeof *p->v);
}

TEST(copies_take_the_same_steps_whoever_sleeps_through_some)
{
    struct copies c;
    struct err e;
    copies_init(&c);
    for (int k = 0; k < STEPS; k++) {
        step(&c, k, 0.1f * (float)(k % 5 - 2), 1e-2f / (float)(k + 1));
        assert_same_network(replicas_net(c.r, 1), c.plain); /* every step */
        if (k % 3 == 1)
            assert_same_network(replicas_net(c.r, 2), c.plain); /* one in three */
        if (k % 4 == 2)
            assert_same_network(replicas_net(c.r, 0), c.plain);
    }
    float norm = 0;
    assert_ok(replicas_sync(c.r, &norm, &e), &e);
    assert_true(norm > 0);
    assert_same_network(c.net, c.plain);
    assert_int_equal(c.adam.t, STEPS);
    copies_fini(&c);
}

TEST(copies_are_made_anew_after_a_change_from_outside)
{
    struct copies c;
    copies_init(&c);
    step(&c, 0, 0.5f, 1e-2f);
    (void)replicas_net(c.r, 1);
    (void)replicas_net(c.r, 0);
    struct nn_params *p = nn_net_params(c.net);
    p->value[0] += 1;
    p->m[0] += 1;
    nn_net_pack(c.net);
    assert_true(nn_net_params_const(replicas_net(c.r, 1))->value[0] != p->value[0]);
    replicas_changed(c.r);
    assert_same_network(replicas_net(c.r, 1), c.net);
    assert_same_network(replicas_net(c.r, 2), c.net);
    copies_fini(&c);
}

TEST(a_gradient_that_is_not_finite_is_told_once_by_the_name_of_its_tensor)
{
    struct copies c;
    struct err e;
    copies_init(&c);
    step(&c, 0, 0.5f, 1e-2f);
    step(&c, 1, NAN, 1e-2f);
    (void)replicas_net(c.r, 1);
    step(&c, 2, 0.5f, 1e-2f);
    assert_err(replicas_sync(c.r, NULL, &e), ERR_NUMERIC, &e, "gradient of trunk.");
    assert_ok(replicas_sync(c.r, NULL, &e), &e);
    assert_same_network(replicas_net(c.r, 1), c.net); /* the step is left out of both */
    assert_int_equal(c.adam.t, 2);
    copies_fini(&c);
}
