#include "base/mem.h"
#include "nn/net.h"
#include "tests/support/test.h"

enum { ROWS = 131, N_OBS = 48, N_ACTIONS = 7 };

static struct nn_net *make(struct nn_net_cfg cfg)
{
    struct err e;
    struct nn_net *net;
    struct rng rng = rng_stream(test_seed(), "net");
    cfg.head_gain = 1;
    assert_ok(nn_net_new(&cfg, &rng, &net, &e), &e);
    return net;
}

static struct nn_ws *workspace(const struct nn_net *net)
{
    struct err e;
    struct nn_ws *ws;
    assert_ok(nn_ws_new(net, &ws, &e), &e);
    return ws;
}

static void fill(float *x, size_t n, const char *stream)
{
    struct rng rng = rng_stream(test_seed(), stream);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(&rng);
}

static const enum nn_shape shapes[] = {NN_SEPARATE, NN_SHARED, NN_LSTM};

TEST(a_row_has_the_same_bits_alone_and_anywhere_in_a_batch)
{
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        struct nn_net *net = make(nn_net_cfg_default(shapes[s], N_OBS, N_ACTIONS, 2));
        struct nn_ws *ws = workspace(net);
        int dim = nn_net_state_dim(net);
        float obs[ROWS * N_OBS], logits[ROWS * N_ACTIONS], values[ROWS * 2], hidden[ROWS * 128],
            before[ROWS * 128];
        fill(obs, ROWS * N_OBS, "obs");
        fill(before, ROWS * 128, "state");
        memcpy(hidden, before, sizeof hidden);
        nn_net_forward(net, ws, obs, N_OBS, ROWS, hidden, logits, values);
        for (int n = 1; n <= 17; n++)
            for (int r = 0; r + n <= ROWS; r += 13) {
                float l[17 * N_ACTIONS], v[17 * 2], st[17 * 128];
                memcpy(st, before + r * dim, (size_t)(n * dim) * sizeof(float));
                nn_net_forward(net, ws, obs + r * N_OBS, N_OBS, n, st, l, v);
                assert_memory_equal(l, logits + r * N_ACTIONS,
                                    (size_t)n * N_ACTIONS * sizeof(float));
                assert_memory_equal(v, values + r * 2, (size_t)n * 2 * sizeof(float));
                assert_memory_equal(st, hidden + r * dim, (size_t)(n * dim) * sizeof(float));
            }
        nn_ws_free(ws);
        nn_net_free(net);
    }
}

TEST(values_do_not_depend_on_whether_logits_are_asked_for)
{
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        struct nn_net *net = make(nn_net_cfg_default(shapes[s], N_OBS, N_ACTIONS, 1));
        struct nn_ws *ws = workspace(net);
        float obs[N_OBS], logits[N_ACTIONS], only[N_ACTIONS], value[1], alone[1], hidden[128] = {0},
                                                                                  again[128] = {0};
        fill(obs, N_OBS, "obs");
        nn_net_forward(net, ws, obs, N_OBS, 1, hidden, logits, value);
        nn_net_forward(net, ws, obs, N_OBS, 1, again, NULL, alone);
        assert_memory_equal(value, alone, sizeof value);
        memset(again, 0, sizeof again);
        nn_net_forward(net, ws, obs, N_OBS, 1, again, only, NULL);
        assert_memory_equal(logits, only, sizeof logits);
        nn_ws_free(ws);
        nn_net_free(net);
    }
}

static void quadratic(void *ctx, const struct nn_tile *t)
{
    const float *target = ctx;
    for (int i = 0; i < t->n; i++)
        t->dlogits[(size_t)i * t->ld_logits] =
            (t->logits[(size_t)i * t->ld_logits] - target[t->row[i]]) / (float)ROWS;
}

TEST(tiles_name_the_rows_they_hold)
{
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SHARED, 3, 1, 0);
    struct nn_net *net = make(cfg);
    struct nn_ws *ws = workspace(net);
    float obs[ROWS * 3], target[ROWS];
    fill(obs, ROWS * 3, "obs");
    struct nn_ws *list[] = {ws};
    nn_net_forward(net, ws, obs, 3, ROWS, NULL, target, NULL); /* at the targets: no gradient */
    int32_t order[ROWS];
    for (int i = 0; i < ROWS; i++)
        order[i] = (i * 50) % ROWS;
    struct nn_batch b = {.obs = obs, .obs_stride = 3, .first = order, .n = ROWS, .n_steps = 1};
    nn_net_grad(net, ws, &b, quadratic, target);
    nn_net_reduce(net, list, 1);
    const struct nn_params *p = nn_net_params_const(net);
    for (size_t i = 0; i < p->total; i++)
        assert_true(p->grad[i] == 0.0f);
    nn_ws_free(ws);
    nn_net_free(net);
}

TEST(the_action_bias_is_the_bias_of_the_logits)
{
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        struct nn_net_cfg cfg = nn_net_cfg_default(shapes[s], N_OBS, N_ACTIONS, 1);
        struct err e;
        struct nn_net *net;
        struct rng rng = rng_stream(1, "x");
        cfg.head_gain = 0;
        assert_ok(nn_net_new(&cfg, &rng, &net, &e), &e);
        nn_net_action_bias(net)[4] = 2.5f;
        nn_net_pack(net);
        struct nn_ws *ws = workspace(net);
        float obs[N_OBS] = {1}, logits[N_ACTIONS], hidden[128] = {0};
        nn_net_forward(net, ws, obs, N_OBS, 1, hidden, logits, NULL);
        for (int a = 0; a < N_ACTIONS; a++)
            assert_true(logits[a] == (a == 4 ? 2.5f : 0.0f));
        nn_ws_free(ws);
        nn_net_free(net);
    }
}

TEST(a_copied_network_gives_the_same_outputs)
{
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SHARED, N_OBS, N_ACTIONS, 0);
    struct nn_net *a = make(cfg), *b = make(cfg);
    struct nn_ws *ws = workspace(a);
    float obs[N_OBS], x[N_ACTIONS], y[N_ACTIONS];
    fill(obs, N_OBS, "obs");
    nn_params_value(nn_net_params(a), 0)[5] += 1;
    nn_net_pack(a);
    nn_net_copy(b, a);
    nn_net_forward(a, ws, obs, N_OBS, 1, NULL, x, NULL);
    nn_net_forward(b, ws, obs, N_OBS, 1, NULL, y, NULL);
    assert_memory_equal(x, y, sizeof x);
    nn_ws_free(ws);
    nn_net_free(a);
    nn_net_free(b);
}

TEST(configurations_out_of_range_are_refused_by_field)
{
    const struct nn_net_cfg ok = nn_net_cfg_default(NN_LSTM, N_OBS, N_ACTIONS, 1);
    struct {
        struct nn_net_cfg cfg;
        const char *field;
    } bad[] = {{ok, "n_obs"},     {ok, "n_obs"},          {ok, "n_actions"}, {ok, "n_values"},
               {ok, "n_hidden"},  {ok, "multiple of 16"}, {ok, "n_dense"},   {ok, "shape"},
               {ok, "head_gain"}, {ok, "n_values"}};
    bad[0].cfg.n_obs = 0;
    bad[1].cfg.n_obs = 1025;
    bad[2].cfg.n_actions = 257;
    bad[3].cfg.n_values = 9;
    bad[4].cfg.n_hidden = 513;
    bad[5].cfg.n_hidden = 40;
    bad[6].cfg.n_dense = 0;
    bad[7].cfg.shape = (enum nn_shape)7;
    bad[8].cfg.head_gain = NAN;
    bad[9].cfg.shape = NN_SEPARATE;
    bad[9].cfg.n_values = 0;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e;
        struct nn_net *net;
        struct rng rng = rng_stream(1, "x");
        assert_err(nn_net_new(&bad[i].cfg, &rng, &net, &e), ERR_RANGE, &e, bad[i].field);
        assert_null(net);
    }
}

TEST(orthogonal_matrices_keep_lengths)
{
    enum { IN = 20, OUT = 12 };
    float w[IN * OUT];
    struct rng rng = rng_stream(3, "w");
    nn_init_orthogonal(w, IN, OUT, 2.0f, &rng);
    for (int a = 0; a < OUT; a++)
        for (int b = 0; b < OUT; b++) {
            double dot = 0;
            for (int i = 0; i < IN; i++)
                dot += (double)w[i * OUT + a] * (double)w[i * OUT + b];
            assert_near(dot, a == b ? 4.0 : 0.0, 1e-5, 0);
        }
}

static void constant_slope(void *ctx, const struct nn_tile *tile)
{
    (void)ctx;
    for (int i = 0; i < tile->n; i++) {
        for (int a = 0; a < 3; a++)
            tile->dlogits[(size_t)i * tile->ld_logits + (size_t)a] = 0.5f - (float)a;
        tile->dvalues[(size_t)i * tile->ld_values] = 0.25f;
    }
}

TEST(sums_of_workspaces_are_those_of_the_gradient)
{
    enum { N_ROWS = 40, WIDTH = 21, SUMS = 3 };
    struct err e;
    struct rng rng = rng_stream(5, "reduce");
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SEPARATE, WIDTH, 3, 1);
    struct nn_net *net;
    struct nn_ws *ws[SUMS];
    assert_ok(nn_net_new(&cfg, &rng, &net, &e), &e);
    float *obs = mem_zero(N_ROWS * WIDTH, sizeof *obs);
    for (int i = 0; i < N_ROWS * WIDTH; i++)
        obs[i] = (float)rng_normal(&rng);
    for (int i = 0; i < SUMS; i++) {
        struct nn_batch b = {.obs = obs + i * WIDTH, .obs_stride = WIDTH, .n = N_ROWS - i, .n_steps = 1};
        assert_ok(nn_ws_new(net, &ws[i], &e), &e);
        nn_net_grad(net, ws[i], &b, constant_slope, NULL);
    }
    struct nn_params *p = nn_net_params(net);
    float *whole = mem_zero(p->total, sizeof *whole);
    nn_net_reduce(net, ws, SUMS);
    memcpy(whole, p->grad, p->total * sizeof *whole);
    memset(p->grad, 0, p->total * sizeof *whole);
    struct nn_ws *all;
    assert_ok(nn_ws_new_sums(net, &all, &e), &e);
    nn_ws_sum(all, ws, SUMS);
    nn_net_reduce(net, &all, 1);
    nn_ws_free(all);
    assert_memory_equal(whole, p->grad, p->total * sizeof *whole);
    for (int i = 0; i < SUMS; i++)
        nn_ws_free(ws[i]);
    nn_net_free(net);
    mem_free(obs);
    mem_free(whole);
}
