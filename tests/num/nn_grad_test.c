/* Gradients of every layer against central differences of a slow reference in double.
 *
 * The loss is a fixed random linear function of the outputs.  Tolerance: 3e-4 of the largest
 * derivative of the tensor, which is what single precision sums and the fast tanh (6e-6) leave; a
 * wrong term is off by 1. */
#include "base/mem.h"
#include "base/rng.h"
#include "nn/conv.h"
#include "nn/gconv.h"
#include "nn/lnorm.h"
#include "nn/lstm.h"
#include "nn/net.h"
#include "tests/support/test.h"

static const double tolerance = 3e-4;

/* Weight of output k of row r in the loss, in [-1, 1). */
static double weight_of(int r, int k)
{
    return 2 * rng_to_unit(rng_at(7, (uint64_t)r, (uint64_t)k)) - 1;
}

typedef double reference_fn(const void *ctx, const struct nn_params *p, const double *theta);

static const double *tensor(const struct nn_params *p, const double *theta, const char *name)
{
    int i = nn_params_find(p, name);
    if (i < 0)
        fail_msg("no tensor %s", name);
    return theta + p->table[i].offset;
}

static double slope(reference_fn *f, const void *ctx, const struct nn_params *p, double *theta,
                    size_t at)
{
    const double h = 1e-5;
    double x = theta[at];
    theta[at] = x + h;
    double up = f(ctx, p, theta);
    theta[at] = x - h;
    double down = f(ctx, p, theta);
    theta[at] = x;
    return (up - down) / (2 * h);
}

/* p->grad against differences of f, at up to 40 places of every tensor. */
static void check_gradient(const struct nn_params *p, reference_fn *f, const void *ctx)
{
    double *theta = mem_zero(p->total, sizeof *theta);
    struct rng rng = rng_stream(test_seed(), "places");
    for (size_t i = 0; i < p->total; i++)
        theta[i] = (double)p->value[i];
    for (int t = 0; t < p->n; t++) {
        const struct nn_param *q = &p->table[t];
        double largest = 0;
        for (size_t i = 0; i < q->size; i++)
            largest = fmax(largest, fabs((double)p->grad[q->offset + i]));
        for (int k = 0; k < 40; k++) {
            size_t at = q->offset + rng_below(&rng, (uint32_t)q->size);
            double want = slope(f, ctx, p, theta, at), got = (double)p->grad[at];
            if (fabs(got - want) > tolerance * fmax(largest, fabs(want)) + 1e-6)
                fail_msg("%s[%zu]: %.8g, differences give %.8g", q->name, at - q->offset, got,
                         want);
        }
    }
    mem_free(theta);
}

static void randomise(struct nn_params *p, float scale)
{
    struct rng rng = rng_stream(test_seed(), "values");
    for (int t = 0; t < p->n; t++)
        for (size_t i = 0; i < p->table[t].size; i++)
            nn_params_value(p, t)[i] += scale * (float)rng_normal(&rng);
}

static double squash(enum nn_act act, double x)
{
    return act == NN_TANH ? tanh(x) : act == NN_RELU ? fmax(0, x) : x;
}

static void ref_dense(const double *w, const double *b, int n_in, int n_out, enum nn_act act,
                      const double *x, double *y)
{
    for (int o = 0; o < n_out; o++) {
        double sum = b ? b[o] : 0;
        for (int i = 0; i < n_in; i++)
            sum += x[i] * w[i * n_out + o];
        y[o] = squash(act, sum);
    }
}

/* ---- networks
 * --------------------------------------------------------------------------------- */

enum { LANES = 37, STEPS = 5, WIDTH_MAX = 600 };

struct net_case {
    struct nn_net_cfg cfg;
    const float *obs; /* [LANES * STEPS][n_obs] */
    const float *state0;
    const uint8_t *reset;
    int n_steps;
};

static double head_loss(const struct nn_net_cfg *c, int row, const double *logits,
                        const double *values)
{
    double loss = 0;
    for (int a = 0; a < c->n_actions; a++)
        loss += weight_of(row, a) * logits[a];
    for (int k = 0; k < c->n_values; k++)
        loss += weight_of(row, 1000 + k) * values[k];
    return loss;
}

static void ref_chain(const struct nn_params *p, const double *theta, const char *name,
                      const int *width, int n, enum nn_act act, const double *x, double *y)
{
    double a[WIDTH_MAX], b[WIDTH_MAX];
    memcpy(a, x, (size_t)width[0] * sizeof *a);
    for (int i = 0; i < n; i++) {
        const char *layer = i == n - 1 ? "head" : i == 0 ? "0" : "1";
        ref_dense(tensor(p, theta, test_path("%s.%s.weight", name, layer)),
                  tensor(p, theta, test_path("%s.%s.bias", name, layer)), width[i], width[i + 1],
                  i == n - 1 ? NN_LINEAR : act, a, b);
        memcpy(a, b, (size_t)width[i + 1] * sizeof *a);
    }
    memcpy(y, a, (size_t)width[n] * sizeof *a);
}

static double ref_feed_forward(const void *ctx, const struct nn_params *p, const double *theta)
{
    const struct net_case *k = ctx;
    const struct nn_net_cfg *c = &k->cfg;
    int h = c->n_hidden;
    double loss = 0;
    for (int r = 0; r < LANES; r++) {
        double x[WIDTH_MAX], y[WIDTH_MAX], v[WIDTH_MAX];
        for (int j = 0; j < c->n_obs; j++)
            x[j] = (double)k->obs[r * c->n_obs + j];
        if (c->shape == NN_SEPARATE) {
            ref_chain(p, theta, "actor", (int[]){c->n_obs, h, h, c->n_actions}, 3, c->act, x, y);
            ref_chain(p, theta, "critic", (int[]){c->n_obs, h, h, c->n_values}, 3, c->act, x, v);
            loss += head_loss(c, r, y, v);
        } else {
            ref_chain(p, theta, "trunk", (int[]){c->n_obs, h, h, c->n_actions + c->n_values}, 3,
                      c->act, x, y);
            loss += head_loss(c, r, y, y + c->n_actions);
        }
    }
    return loss;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void ref_cell(const struct nn_params *p, const double *theta, int n_in, int h,
                     const double *x, double *hidden, double *cell)
{
    double g[4 * 64], r[4 * 64];
    ref_dense(tensor(p, theta, "lstm.weight_x"), tensor(p, theta, "lstm.bias"), n_in, 4 * h,
              NN_LINEAR, x, g);
    ref_dense(tensor(p, theta, "lstm.weight_h"), NULL, h, 4 * h, NN_LINEAR, hidden, r);
    for (int j = 0; j < h; j++) {
        double i = sigmoid(g[j] + r[j]), f = sigmoid(g[h + j] + r[h + j]);
        double n = tanh(g[2 * h + j] + r[2 * h + j]), o = sigmoid(g[3 * h + j] + r[3 * h + j]);
        cell[j] = f * cell[j] + i * n;
        hidden[j] = o * tanh(cell[j]);
    }
}

static double ref_lstm(const void *ctx, const struct nn_params *p, const double *theta)
{
    const struct net_case *k = ctx;
    const struct nn_net_cfg *c = &k->cfg;
    int h = c->n_hidden;
    double loss = 0;
    for (int q = 0; q < LANES; q++) {
        double hidden[64], cell[64], x[WIDTH_MAX], y[WIDTH_MAX];
        for (int j = 0; j < h; j++) {
            hidden[j] = (double)k->state0[q * 2 * h + j];
            cell[j] = (double)k->state0[q * 2 * h + h + j];
        }
        for (int s = 0; s < k->n_steps; s++) {
            int row = s * LANES + q;
            for (int j = 0; j < h && k->reset[row]; j++)
                hidden[j] = cell[j] = 0;
            for (int j = 0; j < c->n_obs; j++)
                x[j] = (double)k->obs[row * c->n_obs + j];
            ref_cell(p, theta, c->n_obs, h, x, hidden, cell);
            ref_chain(p, theta, "trunk", (int[]){h, c->n_dense, c->n_actions + c->n_values}, 2,
                      c->act, hidden, y);
            loss += head_loss(c, row, y, y + c->n_actions);
        }
    }
    return loss;
}

static void linear_loss(void *ctx, const struct nn_tile *t)
{
    const struct nn_net_cfg *c = ctx;
    for (int i = 0; i < t->n; i++) {
        for (int a = 0; a < c->n_actions; a++)
            t->dlogits[(size_t)i * t->ld_logits + (size_t)a] = (float)weight_of(t->row[i], a);
        for (int k = 0; k < c->n_values; k++)
            t->dvalues[(size_t)i * t->ld_values + (size_t)k] =
                (float)weight_of(t->row[i], 1000 + k);
    }
}

static float *normals(size_t n, const char *stream, double scale)
{
    float *x = mem_zero(n, sizeof *x);
    struct rng rng = rng_stream(test_seed(), stream);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(scale * rng_normal(&rng));
    return x;
}

static void check_net(struct nn_net_cfg cfg, int n_steps)
{
    struct err e;
    struct nn_net *net;
    struct nn_ws *ws[2];
    struct rng rng = rng_stream(test_seed(), "net");
    cfg.head_gain = 0.5f;
    assert_ok(nn_net_new(&cfg, &rng, &net, &e), &e);
    randomise(nn_net_params(net), 0.05f);
    nn_net_pack(net);
    float *obs = normals((size_t)(LANES * STEPS * cfg.n_obs), "obs", 1);
    float *state = normals((size_t)(LANES * STEPS * 2 * cfg.n_hidden), "state", 0.5);
    uint8_t reset[LANES * STEPS] = {0};
    for (int i = 0; i < LANES * STEPS; i++)
        reset[i] = i % 7 == 3;
    for (int i = 0; i < 2; i++)
        assert_ok(nn_ws_new(net, &ws[i], &e), &e);
    int32_t first[LANES]; /* backwards, and in two workspaces, as a shuffled minibatch would */
    for (int i = 0; i < LANES; i++)
        first[i] = LANES - 1 - i;
    struct nn_batch b = {.obs = obs,
                         .obs_stride = (size_t)cfg.n_obs,
                         .first = first,
                         .n = 20,
                         .n_steps = n_steps,
                         .step_rows = LANES,
                         .state0 = state,
                         .reset = reset};
    nn_net_grad(net, ws[0], &b, linear_loss, &cfg);
    b.first = first + 20;
    b.n = LANES - 20;
    nn_net_grad(net, ws[1], &b, linear_loss, &cfg);
    nn_net_reduce(net, ws, 2);
    struct net_case k = {cfg, obs, state, reset, n_steps};
    check_gradient(nn_net_params(net), cfg.shape == NN_LSTM ? ref_lstm : ref_feed_forward, &k);
    for (int i = 0; i < 2; i++)
        nn_ws_free(ws[i]);
    mem_free(obs);
    mem_free(state);
    nn_net_free(net);
}

TEST(gradients_of_separate_networks_match_differences)
{
    check_net(nn_net_cfg_default(NN_SEPARATE, 48, 7, 1), 1);
    check_net(nn_net_cfg_default(NN_SEPARATE, 5, 19, 3), 1);
}

TEST(gradients_of_a_shared_trunk_match_differences)
{
    check_net(nn_net_cfg_default(NN_SHARED, 48, 7, 1), 1);
    check_net(nn_net_cfg_default(NN_SHARED, 33, 17, 2), 1);
}

TEST(gradients_of_odd_widths_and_relu_match_differences)
{
    struct nn_net_cfg c = nn_net_cfg_default(NN_SHARED, 3, 2, 0);
    c.n_hidden = 41;
    c.act = NN_RELU;
    check_net(c, 1);
    c = nn_net_cfg_default(NN_SEPARATE, 7, 1, 1);
    c.n_hidden = 100;
    check_net(c, 1);
}

TEST(gradients_of_an_lstm_match_differences_through_time_and_resets)
{
    check_net(nn_net_cfg_default(NN_LSTM, 48, 7, 1), STEPS);
    struct nn_net_cfg c = nn_net_cfg_default(NN_LSTM, 3, 2, 2);
    c.n_hidden = 16;
    c.n_dense = 9;
    check_net(c, 3);
}

/* ---- bfloat16 products
 * ------------------------------------------------------------------------- */

static float *gradient_of(struct nn_net_cfg cfg, bool bf16, int n_steps, bool into, size_t *n)
{
    struct err e;
    struct nn_net *net;
    struct nn_ws *ws, *sums;
    struct rng rng = rng_stream(test_seed(), "net");
    cfg.head_gain = 0.5f;
    cfg.bf16_grad = bf16;
    assert_ok(nn_net_new(&cfg, &rng, &net, &e), &e);
    assert_ok(nn_ws_new(net, &ws, &e), &e);
    assert_ok(nn_ws_new_sums(net, &sums, &e), &e);
    float *obs = normals((size_t)(LANES * STEPS * cfg.n_obs), "obs", 1);
    float *hidden = normals((size_t)(LANES * STEPS * 2 * cfg.n_hidden), "state", 0.5);
    struct nn_batch b = {.obs = obs,
                         .obs_stride = (size_t)cfg.n_obs,
                         .n = LANES,
                         .n_steps = n_steps,
                         .step_rows = LANES,
                         .state0 = hidden};
    nn_net_grad_into(net, ws, into ? sums : ws, &b, linear_loss, &cfg);
    nn_net_reduce(net, into ? &sums : &ws, 1);
    const struct nn_params *p = nn_net_params_const(net);
    *n = p->total;
    float *grad = mem_zero(p->total, sizeof *grad);
    memcpy(grad, p->grad, p->total * sizeof *grad);
    mem_free(obs);
    mem_free(hidden);
    nn_ws_free(ws);
    nn_ws_free(sums);
    nn_net_free(net);
    return grad;
}

TEST(bfloat16_gradients_point_where_float_ones_do)
{
    const enum nn_shape shapes[] = {NN_SEPARATE, NN_SHARED, NN_LSTM};
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        struct nn_net_cfg cfg = nn_net_cfg_default(shapes[s], 48, 7, 1);
        int n_steps = shapes[s] == NN_LSTM ? STEPS : 1;
        size_t n;
        float *a = gradient_of(cfg, false, n_steps, false, &n),
              *b = gradient_of(cfg, true, n_steps, false, &n);
        double aa = 0, bb = 0, ab = 0, diff = 0;
        for (size_t i = 0; i < n; i++) {
            aa += (double)a[i] * (double)a[i];
            bb += (double)b[i] * (double)b[i];
            ab += (double)a[i] * (double)b[i];
            diff += pow((double)(a[i] - b[i]), 2);
        }
        assert_true(ab / sqrt(aa * bb) >
                    0.99998); /* rounding is 2^-9 a product, and averages out */
        assert_true(sqrt(diff / aa) < 0.005);
        assert_true(diff > 0); /* it was used */
        mem_free(a);
        mem_free(b);
    }
}

TEST(sums_apart_from_scratch_have_the_same_bits)
{
    size_t n;
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SEPARATE, 48, 7, 1);
    float *a = gradient_of(cfg, true, 1, false, &n), *b = gradient_of(cfg, true, 1, true, &n);
    assert_memory_equal(a, b, n * sizeof *a);
    mem_free(a);
    mem_free(b);
}

/* ---- single layers; the input is a tensor too, so its derivative is checked as well
 * ------------------ */

static float *padded_copy(const float *x, int rows, int width)
{
    int ld = gemm_pad(width);
    float *out = try_zero_aligned((size_t)rows * (size_t)ld, sizeof *out);
    for (int r = 0; r < rows; r++)
        memcpy(out + r * ld, x + r * width, (size_t)width * sizeof *out);
    return out;
}

static float *zeros(int rows, int width)
{
    return try_zero_aligned((size_t)rows * (size_t)gemm_pad(width), sizeof(float));
}

static void unpad(const float *x, int rows, int width, float *out)
{
    for (int r = 0; r < rows; r++)
        memcpy(out + r * width, x + r * gemm_pad(width), (size_t)width * sizeof *out);
}

/* Derivative of the loss by pre-activation. */
static float *loss_grad(const float *y, enum nn_act act, int rows, int width)
{
    int ld = gemm_pad(width);
    float *dy = zeros(rows, width);
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < width; k++) {
            float v = y[r * ld + k], slope_here = act == NN_TANH   ? 1 - v * v
                                                  : act == NN_RELU ? v > 0
                                                                   : 1;
            dy[r * ld + k] = (float)weight_of(r, k) * slope_here;
        }
    return dy;
}

enum { NODES = 23, EDGES = 60, G_IN = 12, G_OUT = 20 };

struct graph_case {
    struct gconv_edge edge[EDGES];
    enum gconv_agg agg;
};

static double ref_gconv(const void *ctx, const struct nn_params *p, const double *theta)
{
    const struct graph_case *k = ctx;
    const double *x = tensor(p, theta, "x");
    double near[NODES][G_IN] = {{0}}, degree[NODES] = {0}, loss = 0;
    for (int i = 0; i < EDGES; i++) {
        degree[k->edge[i].to]++;
        for (int j = 0; j < G_IN; j++)
            near[k->edge[i].to][j] += x[k->edge[i].from * G_IN + j];
    }
    for (int i = 0; i < NODES; i++) {
        double a[G_OUT], b[G_OUT];
        for (int j = 0; j < G_IN && k->agg == GCONV_MEAN && degree[i] > 0; j++)
            near[i][j] /= degree[i];
        ref_dense(tensor(p, theta, "g.self.weight"), tensor(p, theta, "g.self.bias"), G_IN, G_OUT,
                  NN_LINEAR, x + i * G_IN, a);
        ref_dense(tensor(p, theta, "g.near.weight"), NULL, G_IN, G_OUT, NN_LINEAR, near[i], b);
        for (int o = 0; o < G_OUT; o++)
            loss += weight_of(i, o) * tanh(a[o] + b[o]);
    }
    return loss;
}

static void check_gconv(enum gconv_agg agg)
{
    struct err e;
    struct nn_params p = {0};
    struct gconv g;
    struct graph_case k = {.agg = agg};
    float weight[NODES];
    gconv_declare(&g, &p, "g", G_IN, G_OUT, NN_TANH, agg);
    int ix = nn_params_add(&p, "x", NODES, G_IN, 0, 0);
    assert_ok(nn_params_alloc(&p, &e), &e);
    assert_ok(gconv_alloc(&g, &e), &e);
    randomise(&p, 0.3f);
    memset(nn_params_value(&p, g.near.b), 0, G_OUT * sizeof(float));
    gconv_pack(&g, &p);
    for (int i = 0; i < EDGES; i++)
        k.edge[i] = (struct gconv_edge){(int32_t)(rng_at(1, (uint64_t)i, 0) % NODES),
                                        (int32_t)(rng_at(2, (uint64_t)i, 0) % (NODES - 3))};
    assert_ok(gconv_weights(agg, k.edge, EDGES, NODES, weight, &e), &e);
    struct gconv_graph graph = {NODES, EDGES, k.edge, weight};
    size_t ldx = (size_t)gemm_pad(G_IN), ldy = (size_t)gemm_pad(G_OUT);
    float *x = padded_copy(nn_params_value(&p, ix), NODES, G_IN), *near = zeros(NODES, G_IN);
    float *y = zeros(NODES, G_OUT), *scratch = zeros(NODES, G_OUT), *dx = zeros(NODES, G_IN),
          *dnear = zeros(NODES, G_IN);
    float *grad = mem_zero(gconv_grad_size(&g), sizeof *grad);
    gconv_forward(&g, &graph, x, ldx, near, scratch, y, ldy);
    float *dy = loss_grad(y, NN_TANH, NODES, G_OUT);
    gconv_backward(&g, &graph, x, ldx, NN_LINEAR, near, dy, ldy, dnear, dx, grad);
    gconv_grad_unpack(&g, grad, &p);
    unpad(dx, NODES, G_IN, nn_params_grad(&p, ix));
    check_gradient(&p, ref_gconv, &k);
    float *all[] = {x, near, y, scratch, dx, dnear, grad, dy};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        mem_free(all[i]);
    gconv_fini(&g);
    nn_params_fini(&p);
}

TEST(gradients_of_a_graph_convolution_match_differences)
{
    check_gconv(GCONV_SUM);
    check_gconv(GCONV_MEAN);
}

enum { HEIGHT = 5, WIDTH = 4, PIXELS = HEIGHT * WIDTH, C_IN = 3, C_OUT = 6 };

static double ref_conv(const void *ctx, const struct nn_params *p, const double *theta)
{
    const double *x = tensor(p, theta, "x"), *w = tensor(p, theta, "c.weight"),
                 *b = tensor(p, theta, "c.bias");
    double loss = 0;
    (void)ctx;
    for (int r = 0; r < HEIGHT; r++)
        for (int c = 0; c < WIDTH; c++)
            for (int o = 0; o < C_OUT; o++) {
                double sum = b[o];
                for (int dr = -1; dr <= 1; dr++)
                    for (int dc = -1; dc <= 1; dc++)
                        for (int i = 0; i < C_IN; i++)
                            if (r + dr >= 0 && r + dr < HEIGHT && c + dc >= 0 && c + dc < WIDTH)
                                sum += x[((r + dr) * WIDTH + c + dc) * C_IN + i] *
                                       w[(((dr + 1) * 3 + dc + 1) * C_IN + i) * C_OUT + o];
                loss += weight_of(r * WIDTH + c, o) * tanh(sum);
            }
    return loss;
}

TEST(gradients_of_a_convolution_match_differences)
{
    struct err e;
    struct nn_params p = {0};
    struct conv c;
    conv_declare(&c, &p, "c", C_IN, C_OUT, 3, NN_TANH);
    int ix = nn_params_add(&p, "x", PIXELS, C_IN, 0, 0);
    assert_ok(nn_params_alloc(&p, &e), &e);
    assert_ok(conv_alloc(&c, &e), &e);
    randomise(&p, 0.3f);
    conv_pack(&c, &p);
    size_t ldx = (size_t)gemm_pad(C_IN), ldy = (size_t)gemm_pad(C_OUT);
    float *x = padded_copy(nn_params_value(&p, ix), PIXELS, C_IN), *dx = zeros(PIXELS, C_IN);
    float *y = zeros(PIXELS, C_OUT), *grad = mem_zero(conv_grad_size(&c), sizeof *grad);
    float *unfolded = mem_zero(conv_unfolded_size(&c, HEIGHT, WIDTH), sizeof *unfolded);
    float *dunfolded = mem_zero(conv_unfolded_size(&c, HEIGHT, WIDTH), sizeof *dunfolded);
    conv_forward(&c, x, ldx, HEIGHT, WIDTH, unfolded, y, ldy);
    float *dy = loss_grad(y, NN_TANH, PIXELS, C_OUT);
    conv_backward(&c, unfolded, HEIGHT, WIDTH, dy, ldy, dunfolded, dx, ldx, grad);
    conv_grad_unpack(&c, grad, &p);
    unpad(dx, PIXELS, C_IN, nn_params_grad(&p, ix));
    check_gradient(&p, ref_conv, NULL);
    float *all[] = {x, dx, y, grad, unfolded, dunfolded, dy};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        mem_free(all[i]);
    conv_fini(&c);
    nn_params_fini(&p);
}

enum { N_ROWS = 9, N_FEATURES = 21 };

static double ref_lnorm(const void *ctx, const struct nn_params *p, const double *theta)
{
    const double *x = tensor(p, theta, "x"), *gain = tensor(p, theta, "l.gain"),
                 *bias = tensor(p, theta, "l.bias");
    double loss = 0;
    (void)ctx;
    for (int r = 0; r < N_ROWS; r++) {
        double mean = 0, var = 0;
        for (int j = 0; j < N_FEATURES; j++)
            mean += x[r * N_FEATURES + j] / N_FEATURES;
        for (int j = 0; j < N_FEATURES; j++)
            var += pow(x[r * N_FEATURES + j] - mean, 2) / N_FEATURES;
        for (int j = 0; j < N_FEATURES; j++)
            loss += weight_of(r, j) *
                    ((x[r * N_FEATURES + j] - mean) / sqrt(var + 1e-5) * gain[j] + bias[j]);
    }
    return loss;
}

TEST(gradients_of_layer_normalisation_match_differences)
{
    struct err e;
    struct nn_params p = {0};
    struct lnorm l;
    lnorm_declare(&l, &p, "l", N_FEATURES);
    int ix = nn_params_add(&p, "x", N_ROWS, N_FEATURES, 0, 0);
    assert_ok(nn_params_alloc(&p, &e), &e);
    lnorm_init(&l, &p);
    randomise(&p, 0.4f);
    float unit[N_ROWS * N_FEATURES], inverse[N_ROWS], y[N_ROWS * N_FEATURES],
        dy[N_ROWS * N_FEATURES];
    float grad[2 * N_FEATURES] = {0};
    lnorm_forward(&l, &p, nn_params_value(&p, ix), N_FEATURES, N_ROWS, unit, inverse, y);
    for (int i = 0; i < N_ROWS * N_FEATURES; i++)
        dy[i] = (float)weight_of(i / N_FEATURES, i % N_FEATURES);
    lnorm_backward(&l, &p, unit, inverse, N_FEATURES, N_ROWS, dy, nn_params_grad(&p, ix), grad);
    lnorm_grad_unpack(&l, grad, &p);
    check_gradient(&p, ref_lnorm, NULL);
    nn_params_fini(&p);
}
