/* net.c - wiring of layers into the three shapes.
 *
 * A "chain" is a row of dense layers whose last one is a linear head.  NN_SEPARATE has two chains
 * on the observation; NN_SHARED one, whose head holds the logits followed by the values; NN_LSTM
 * the same on top of the recurrent layer.  A tile is 128 rows, or 16 sequences of all their steps:
 * its activations and derivatives stay in the L2 cache between the forward and the backward
 * pass. */
#include "nn/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "nn/dense.h"
#include "nn/lstm.h"
#include "nn/vec.h"

enum { TILE_ROWS = 128, TILE_SEQS = 16, CHAIN_MAX = 3 };

struct chain {
    int n; /* layers, the head included */
    struct dense layer[CHAIN_MAX];
};

struct nn_net {
    struct nn_net_cfg cfg;
    struct nn_params params;
    int n_chains;
    struct chain chain[2];
    struct lstm lstm;
    size_t grad_size;
    float *grad_sum; /* [grad_size], of nn_net_reduce */
};

struct chain_ws {
    float *y[CHAIN_MAX], *dy[CHAIN_MAX]; /* [rows][padded width] */
};

struct nn_ws {
    size_t grad_size;
    float *grad;
    float *x;     /* [rows][padded n_obs] */
    int32_t *row; /* [rows] */
    struct chain_ws chain[2];
    struct dense_pairs pairs; /* bf16_grad */
    struct lstm_trace trace;  /* NN_LSTM; buffers owned here */
    uint8_t *reset;
};

struct nn_net_cfg nn_net_cfg_default(enum nn_shape shape, int n_obs, int n_actions, int n_values)
{
    return (struct nn_net_cfg){
        .shape = shape,
        .act = NN_TANH,
        .n_obs = n_obs,
        .n_actions = n_actions,
        .n_values = n_values,
        .n_hidden = 64,
        .n_dense = 32,
        .head_gain = 0.01f,
    };
}

static enum err_code check_range(const char *name, int value, int min, int max, struct err *e)
{
    if (value < min || value > max)
        return err_set(e, ERR_RANGE, "%s: %d is outside %d..%d", name, value, min, max);
    return ERR_OK;
}

static enum err_code check_cfg(const struct nn_net_cfg *c, struct err *e)
{
    const struct {
        const char *name;
        int value, min, max;
    } field[] = {
        {"shape", (int)c->shape, NN_SEPARATE, NN_LSTM},
        {"act", (int)c->act, NN_TANH, NN_LINEAR},
        {"n_obs", c->n_obs, 1, 1024},
        {"n_actions", c->n_actions, 1, 256},
        {"n_values", c->n_values, c->shape == NN_SEPARATE, 8},
        {"n_hidden", c->n_hidden, 8, 512},
        {"n_dense", c->shape == NN_LSTM ? c->n_dense : 8, 8, 512},
    };
    for (size_t i = 0; i < ARRAY_LEN(field); i++)
        if (check_range(field[i].name, field[i].value, field[i].min, field[i].max, e))
            return ERR_RANGE;
    if (c->shape == NN_LSTM && c->n_hidden % VEC != 0)
        return err_set(e, ERR_RANGE, "n_hidden: %d is not a multiple of 16, which the LSTM needs",
                       c->n_hidden);
    if (!isfinite(c->head_gain))
        return err_set(e, ERR_RANGE, "head_gain is not finite");
    return ERR_OK;
}

static void chain_declare(struct chain *ch, struct nn_params *p, const char *name, const int *width,
                          int n, enum nn_act act)
{
    char full[NN_NAME_MAX];
    ch->n = n;
    for (int i = 0; i < n - 1; i++) {
        (void)snprintf(full, sizeof full, "%s.%d", name, i);
        dense_declare(&ch->layer[i], p, full, width[i], width[i + 1], act);
    }
    (void)snprintf(full, sizeof full, "%s.head", name);
    dense_declare(&ch->layer[n - 1], p, full, width[n - 1], width[n], NN_LINEAR);
}

static void declare(struct nn_net *net)
{
    const struct nn_net_cfg *c = &net->cfg;
    const int h = c->n_hidden, outputs = c->n_actions + c->n_values;
    net->n_chains = 1;
    if (c->shape == NN_SEPARATE) {
        net->n_chains = 2;
        chain_declare(&net->chain[0], &net->params, "actor", (int[]){c->n_obs, h, h, c->n_actions},
                      3, c->act);
        chain_declare(&net->chain[1], &net->params, "critic", (int[]){c->n_obs, h, h, c->n_values},
                      3, c->act);
    } else if (c->shape == NN_SHARED) {
        chain_declare(&net->chain[0], &net->params, "trunk", (int[]){c->n_obs, h, h, outputs}, 3,
                      c->act);
    } else {
        lstm_declare(&net->lstm, &net->params, "lstm", c->n_obs, h);
        chain_declare(&net->chain[0], &net->params, "trunk", (int[]){h, c->n_dense, outputs}, 2,
                      c->act);
        net->grad_size += lstm_grad_size(&net->lstm);
    }
    for (int c_i = 0; c_i < net->n_chains; c_i++)
        for (int i = 0; i < net->chain[c_i].n; i++)
            net->grad_size += dense_grad_size(&net->chain[c_i].layer[i]);
}

static enum err_code alloc_layers(struct nn_net *net, struct err *e)
{
    if (nn_params_alloc(&net->params, e))
        return e ? e->code : ERR_NOMEM;
    if (net->cfg.shape == NN_LSTM && lstm_alloc(&net->lstm, e))
        return ERR_NOMEM;
    for (int c = 0; c < net->n_chains; c++)
        for (int i = 0; i < net->chain[c].n; i++)
            if (dense_alloc(&net->chain[c].layer[i], e))
                return ERR_NOMEM;
    net->grad_sum = try_zero_aligned(net->grad_size, sizeof(float));
    return net->grad_sum ? ERR_OK : err_set(e, ERR_NOMEM, "gradient sums");
}

/* Hidden layers: gain sqrt 2; values: 1; actions: head_gain (Andrychowicz et al. 2021 on small
 * policy heads). Logits and values are drawn apart even where they share one matrix. */
static void init_head(const struct nn_net *net, const struct dense *d, int n_small, struct rng *rng)
{
    float *w = nn_params_value(&net->params, d->w);
    int n_rest = d->n_out - n_small;
    float *part = mem_zero((size_t)d->n_in * (size_t)d->n_out, sizeof *part);
    if (n_small > 0)
        nn_init_orthogonal(part, d->n_in, n_small, net->cfg.head_gain, rng);
    float *rest = part + (size_t)d->n_in * (size_t)n_small;
    if (n_rest > 0)
        nn_init_orthogonal(rest, d->n_in, n_rest, 1.0f, rng);
    for (int i = 0; i < d->n_in; i++) {
        memcpy(w + i * d->n_out, part + i * n_small, (size_t)n_small * sizeof *w);
        memcpy(w + i * d->n_out + n_small, rest + i * n_rest, (size_t)n_rest * sizeof *w);
    }
    mem_free(part);
}

static void init_values(struct nn_net *net, struct rng *rng)
{
    if (net->cfg.shape == NN_LSTM)
        lstm_init(&net->lstm, &net->params, rng);
    for (int c = 0; c < net->n_chains; c++) {
        const struct chain *ch = &net->chain[c];
        for (int i = 0; i < ch->n - 1; i++)
            nn_init_orthogonal(nn_params_value(&net->params, ch->layer[i].w), ch->layer[i].n_in,
                               ch->layer[i].n_out, sqrtf(2.0f), rng);
        init_head(net, &ch->layer[ch->n - 1], c == 0 ? net->cfg.n_actions : 0, rng);
    }
    nn_net_pack(net);
}

enum err_code nn_net_new(const struct nn_net_cfg *cfg, struct rng *rng, struct nn_net **out,
                         struct err *e)
{
    enum err_code rc = check_cfg(cfg, e);
    *out = NULL;
    if (rc)
        return rc;
    struct nn_net *net = mem_zero(1, sizeof *net);
    net->cfg = *cfg;
    declare(net);
    rc = alloc_layers(net, e);
    if (rc) {
        nn_net_free(net);
        return rc;
    }
    init_values(net, rng);
    *out = net;
    return ERR_OK;
}

void nn_net_free(struct nn_net *net)
{
    if (!net)
        return;
    for (int c = 0; c < net->n_chains; c++)
        for (int i = 0; i < net->chain[c].n; i++)
            dense_fini(&net->chain[c].layer[i]);
    lstm_fini(&net->lstm);
    nn_params_fini(&net->params);
    mem_free(net->grad_sum);
    mem_free(net);
}

const struct nn_net_cfg *nn_net_cfg_get(const struct nn_net *net)
{
    return &net->cfg;
}

struct nn_params *nn_net_params(struct nn_net *net)
{
    return &net->params;
}

const struct nn_params *nn_net_params_const(const struct nn_net *net)
{
    return &net->params;
}

float *nn_net_action_bias(struct nn_net *net)
{
    const struct chain *ch = &net->chain[0];
    return nn_params_value(&net->params, ch->layer[ch->n - 1].b);
}

void nn_net_pack(struct nn_net *net)
{
    if (net->cfg.shape == NN_LSTM)
        lstm_pack(&net->lstm, &net->params);
    for (int c = 0; c < net->n_chains; c++)
        for (int i = 0; i < net->chain[c].n; i++)
            dense_pack(&net->chain[c].layer[i], &net->params);
}

void nn_net_copy(struct nn_net *dst, const struct nn_net *src)
{
    ASSERT(dst->params.total == src->params.total && dst->params.n == src->params.n);
    memcpy(dst->params.value, src->params.value, src->params.total * sizeof(float));
    nn_net_pack(dst);
}

int nn_net_state_dim(const struct nn_net *net)
{
    return net->cfg.shape == NN_LSTM ? 2 * net->cfg.n_hidden : 0;
}

/* ---- workspaces
 * ------------------------------------------------------------------------------- */

static bool ws_floats(float **p, int rows, int width)
{
    *p = try_zero_aligned((size_t)rows * (size_t)width, sizeof(float));
    return *p != NULL;
}

static bool trace_alloc(struct nn_ws *ws, int rows, int hidden)
{
    struct lstm_trace *t = &ws->trace;
    float **buffer[] = {&t->h_in, &t->c_in, &t->tanh_c, &t->h, &t->dh};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        if (!ws_floats(buffer[i], rows, hidden))
            return false;
    ws->reset = try_zero((size_t)rows, 1);
    return ws->reset && ws_floats(&t->gates, rows, 4 * hidden) &&
           ws_floats(&t->dc, TILE_SEQS, hidden) && ws_floats(&t->dh_prev, TILE_SEQS, hidden);
}

static bool pairs_alloc(struct nn_ws *ws, const struct nn_net_cfg *c, int rows)
{
    int width = gemm_pad(c->n_obs > c->n_hidden ? c->n_obs : c->n_hidden);
    if (c->n_dense > width)
        width = gemm_pad(c->n_dense);
    if (c->n_actions + c->n_values > width)
        width = gemm_pad(c->n_actions + c->n_values);
    bool ok = ws_floats(&ws->pairs.x, rows, width) && ws_floats(&ws->pairs.dy, rows, width) &&
              ws_floats(&ws->pairs.dy_near, rows, width);
    if (c->shape == NN_LSTM)
        ok = ok && ws_floats(&ws->trace.pairs_in, LSTM_CHUNK, width) &&
             ws_floats(&ws->trace.pairs_gates, LSTM_CHUNK, 4 * c->n_hidden);
    return ok;
}

static bool ws_alloc(struct nn_ws *ws, const struct nn_net *net)
{
    int rows = net->cfg.shape == NN_LSTM ? TILE_SEQS * NN_STEPS_MAX : TILE_ROWS;
    ws->row = try_zero((size_t)rows, sizeof *ws->row);
    if (!ws->row || !ws_floats(&ws->x, rows, gemm_pad(net->cfg.n_obs)))
        return false;
    if (net->cfg.bf16_grad && !pairs_alloc(ws, &net->cfg, rows))
        return false;
    if (net->cfg.shape == NN_LSTM && !trace_alloc(ws, rows, net->cfg.n_hidden))
        return false;
    for (int c = 0; c < net->n_chains; c++)
        for (int i = 0; i < net->chain[c].n; i++) {
            int width = gemm_pad(net->chain[c].layer[i].n_out);
            if (!ws_floats(&ws->chain[c].y[i], rows, width) ||
                !ws_floats(&ws->chain[c].dy[i], rows, width))
                return false;
        }
    return true;
}

static enum err_code new_ws(const struct nn_net *net, bool scratch, struct nn_ws **out,
                            struct err *e)
{
    struct nn_ws *ws = mem_zero(1, sizeof *ws);
    *out = NULL;
    ws->grad_size = net->grad_size;
    ws->grad = try_zero_aligned(net->grad_size, sizeof(float));
    if (!ws->grad || (scratch && !ws_alloc(ws, net))) {
        nn_ws_free(ws);
        return err_set(e, ERR_NOMEM, "workspace of a network");
    }
    *out = ws;
    return ERR_OK;
}

enum err_code nn_ws_new(const struct nn_net *net, struct nn_ws **out, struct err *e)
{
    return new_ws(net, true, out, e);
}

enum err_code nn_ws_new_sums(const struct nn_net *net, struct nn_ws **out, struct err *e)
{
    return new_ws(net, false, out, e);
}

void nn_ws_free(struct nn_ws *ws)
{
    if (!ws)
        return;
    struct lstm_trace *t = &ws->trace;
    float *buffer[] = {t->h_in,     t->c_in,      t->tanh_c,         t->h,        t->dh,
                       t->gates,    t->dc,        t->dh_prev,        t->pairs_in, t->pairs_gates,
                       ws->pairs.x, ws->pairs.dy, ws->pairs.dy_near, ws->grad,    ws->x};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < CHAIN_MAX; i++) {
            mem_free(ws->chain[c].y[i]);
            mem_free(ws->chain[c].dy[i]);
        }
    mem_free(ws->reset);
    mem_free(ws->row);
    mem_free(ws);
}

void nn_ws_zero(struct nn_ws *ws)
{
    memset(ws->grad, 0, ws->grad_size * sizeof(float));
}

/* ---- forward
 * ---------------------------------------------------------------------------------- */

static void chain_forward(const struct chain *ch, struct chain_ws *w, const float *x, size_t ldx,
                          int n)
{
    for (int i = 0; i < ch->n; i++) {
        size_t ldy = (size_t)gemm_pad(ch->layer[i].n_out);
        dense_forward(&ch->layer[i], x, ldx, n, w->y[i], ldy);
        x = w->y[i];
        ldx = ldy;
    }
}

static struct nn_tile tile_of(const struct nn_net *net, struct nn_ws *ws, int n)
{
    const struct chain *actor = &net->chain[0];
    int top = actor->n - 1;
    struct nn_tile t = {
        .n = n,
        .row = ws->row,
        .ld_logits = (size_t)gemm_pad(actor->layer[top].n_out),
        .logits = ws->chain[0].y[top],
        .dlogits = ws->chain[0].dy[top],
    };
    if (net->n_chains == 2) {
        int critic_top = net->chain[1].n - 1;
        t.ld_values = (size_t)gemm_pad(net->cfg.n_values);
        t.values = ws->chain[1].y[critic_top];
        t.dvalues = ws->chain[1].dy[critic_top];
    } else {
        t.ld_values = t.ld_logits;
        t.values = t.logits + net->cfg.n_actions;
        t.dvalues = t.dlogits + net->cfg.n_actions;
    }
    return t;
}

static void copy_rows(const float *from, size_t ld, int n, int width, float *to)
{
    for (int r = 0; r < n; r++)
        memcpy(to + (size_t)r * (size_t)width, from + (size_t)r * ld,
               (size_t)width * sizeof(float));
}

static void forward_tile(const struct nn_net *net, struct nn_ws *ws, const float *obs,
                         size_t stride, int n, float *state, float *logits, float *values)
{
    if (net->cfg.shape == NN_LSTM) {
        size_t h = (size_t)net->cfg.n_hidden;
        lstm_step(&net->lstm, obs, stride, n, state, state + h, 2 * h, ws->trace.gates);
        obs = state;
        stride = 2 * h;
    }
    if (logits || net->n_chains == 1)
        chain_forward(&net->chain[0], &ws->chain[0], obs, stride, n);
    if (values && net->n_chains == 2)
        chain_forward(&net->chain[1], &ws->chain[1], obs, stride, n);
    struct nn_tile t = tile_of(net, ws, n);
    if (logits)
        copy_rows(t.logits, t.ld_logits, n, net->cfg.n_actions, logits);
    if (values)
        copy_rows(t.values, t.ld_values, n, net->cfg.n_values, values);
}

void nn_net_forward(const struct nn_net *net, struct nn_ws *ws, const float *obs, size_t obs_stride,
                    int n, float *state, float *logits, float *values)
{
    int state_dim = nn_net_state_dim(net);
    ASSERT(state || state_dim == 0);
    for (int i = 0; i < n; i += TILE_ROWS)
        forward_tile(net, ws, obs + (size_t)i * obs_stride, obs_stride,
                     n - i < TILE_ROWS ? n - i : TILE_ROWS,
                     state_dim ? state + (size_t)i * (size_t)state_dim : NULL,
                     logits ? logits + (size_t)i * (size_t)net->cfg.n_actions : NULL,
                     values ? values + (size_t)i * (size_t)net->cfg.n_values : NULL);
}

/* ---- backward
 * --------------------------------------------------------------------------------- */

static void chain_backward(const struct chain *ch, struct chain_ws *w, const float *x, size_t ldx,
                           enum nn_act x_act, int n, float *dx, size_t lddx, float *grad,
                           const struct dense_pairs *pairs)
{
    for (int i = 0; i < ch->n; i++)
        grad += dense_grad_size(&ch->layer[i]);
    for (int i = ch->n - 1; i >= 0; i--) {
        const struct dense *d = &ch->layer[i];
        size_t ldy = (size_t)gemm_pad(d->n_out), below = (size_t)gemm_pad(d->n_in);
        grad -= dense_grad_size(d);
        if (i > 0)
            dense_backward(d, w->y[i - 1], below, ch->layer[i - 1].act, w->dy[i], ldy, n,
                           w->dy[i - 1], below, grad, pairs);
        else
            dense_backward(d, x, ldx, x_act, w->dy[i], ldy, n, dx, lddx, grad, pairs);
    }
}

static const struct dense_pairs *pairs_of(const struct nn_net *net, const struct nn_ws *ws)
{
    return net->cfg.bf16_grad ? &ws->pairs : NULL;
}

static size_t chain_grad_size(const struct chain *ch)
{
    size_t size = 0;
    for (int i = 0; i < ch->n; i++)
        size += dense_grad_size(&ch->layer[i]);
    return size;
}

static int32_t first_row(const struct nn_batch *b, int i)
{
    return b->first ? b->first[i] : i;
}

static void copy_floats(float *to, const float *from, int n)
{
    int j = 0;
    for (; j + VEC <= n; j += VEC)
        v16_store(to + j, v16_load(from + j));
    for (; j < n; j++)
        to[j] = from[j];
}

static void gather_row(const struct nn_net *net, struct nn_ws *ws, const struct nn_batch *b, int at,
                       int32_t row)
{
    ws->row[at] = row;
    copy_floats(ws->x + (size_t)at * (size_t)gemm_pad(net->cfg.n_obs),
                b->obs + (size_t)row * b->obs_stride, net->cfg.n_obs);
}

/* Shuffled rows defeat the hardware's prediction: ask for a row of the next tile while this one is
 * copied. */
static void prefetch_row(const struct nn_net *net, const struct nn_batch *b, int i)
{
    if (i >= b->n)
        return;
    const float *row = b->obs + (size_t)first_row(b, i) * b->obs_stride;
    for (int j = 0; j < net->cfg.n_obs; j += VEC)
        __builtin_prefetch(row + j);
}

static void grad_rows(const struct nn_net *net, struct nn_ws *ws, float *grad,
                      const struct nn_batch *b, int begin, int n, nn_loss_fn *loss, void *ctx)
{
    size_t ldx = (size_t)gemm_pad(net->cfg.n_obs);
    for (int i = 0; i < n; i++) {
        gather_row(net, ws, b, i, first_row(b, begin + i));
        prefetch_row(net, b, begin + i + TILE_ROWS);
    }
    for (int c = 0; c < net->n_chains; c++)
        chain_forward(&net->chain[c], &ws->chain[c], ws->x, ldx, n);
    struct nn_tile tile = tile_of(net, ws, n);
    loss(ctx, &tile);
    for (int c = 0; c < net->n_chains; c++) {
        chain_backward(&net->chain[c], &ws->chain[c], ws->x, ldx, NN_LINEAR, n, NULL, 0, grad,
                       pairs_of(net, ws));
        grad += chain_grad_size(&net->chain[c]);
    }
}

static void gather_sequences(const struct nn_net *net, struct nn_ws *ws, const struct nn_batch *b,
                             int begin, int n)
{
    size_t h = (size_t)net->cfg.n_hidden;
    for (int q = 0; q < n; q++) {
        int32_t first = first_row(b, begin + q);
        const float *state = b->state0 + (size_t)first * 2 * h;
        memcpy(ws->trace.h_in + (size_t)q * h, state, h * sizeof(float));
        memcpy(ws->trace.c_in + (size_t)q * h, state + h, h * sizeof(float));
        for (int s = 0; s < b->n_steps; s++) {
            int32_t row = first + s * b->step_rows;
            gather_row(net, ws, b, s * n + q, row);
            ws->reset[s * n + q] = b->reset ? b->reset[row] : 0;
        }
    }
}

static void grad_sequences(const struct nn_net *net, struct nn_ws *ws, float *grad,
                           const struct nn_batch *b, int begin, int n, nn_loss_fn *loss, void *ctx)
{
    struct lstm_trace *t = &ws->trace;
    size_t h = (size_t)net->cfg.n_hidden;
    int rows = n * b->n_steps;
    gather_sequences(net, ws, b, begin, n);
    t->n_seq = n;
    t->n_steps = b->n_steps;
    t->x = ws->x;
    t->ldx = (size_t)gemm_pad(net->cfg.n_obs);
    t->reset = ws->reset;
    lstm_forward(&net->lstm, t);
    chain_forward(&net->chain[0], &ws->chain[0], t->h, h, rows);
    struct nn_tile tile = tile_of(net, ws, rows);
    loss(ctx, &tile);
    float *chain_grad = grad + lstm_grad_size(&net->lstm);
    chain_backward(&net->chain[0], &ws->chain[0], t->h, h, NN_LINEAR, rows, t->dh, h, chain_grad,
                   pairs_of(net, ws));
    lstm_backward(&net->lstm, t, grad);
}

void nn_net_grad_into(const struct nn_net *net, struct nn_ws *scratch, struct nn_ws *sums,
                      const struct nn_batch *batch, nn_loss_fn *loss, void *ctx)
{
    bool recurrent = net->cfg.shape == NN_LSTM;
    int step = recurrent ? TILE_SEQS : TILE_ROWS;
    ASSERT(recurrent ? batch->state0 && batch->n_steps >= 1 && batch->n_steps <= NN_STEPS_MAX
                     : batch->n_steps == 1);
    for (int i = 0; i < batch->n; i += step) {
        int n = batch->n - i < step ? batch->n - i : step;
        if (recurrent)
            grad_sequences(net, scratch, sums->grad, batch, i, n, loss, ctx);
        else
            grad_rows(net, scratch, sums->grad, batch, i, n, loss, ctx);
    }
}

void nn_net_grad(const struct nn_net *net, struct nn_ws *ws, const struct nn_batch *batch,
                 nn_loss_fn *loss, void *ctx)
{
    nn_net_grad_into(net, ws, ws, batch, loss, ctx);
}

static void sum_into(float *out, struct nn_ws *const *ws, int n_ws)
{
    for (size_t j = 0; j < ws[0]->grad_size; j += VEC) {
        v16 sum = v16_load(ws[0]->grad + j);
        for (int i = 1; i < n_ws; i++)
            sum += v16_load(ws[i]->grad + j);
        v16_store(out + j, sum);
    }
}

void nn_ws_sum(struct nn_ws *into, struct nn_ws *const *ws, int n_ws)
{
    sum_into(into->grad, ws, n_ws);
}

void nn_net_reduce(struct nn_net *net, struct nn_ws *const *ws, int n_ws)
{
    sum_into(net->grad_sum, ws, n_ws);
    const float *grad = net->grad_sum;
    if (net->cfg.shape == NN_LSTM) {
        lstm_grad_unpack(&net->lstm, grad, &net->params);
        grad += lstm_grad_size(&net->lstm);
    }
    for (int c = 0; c < net->n_chains; c++)
        for (int i = 0; i < net->chain[c].n; i++) {
            dense_grad_unpack(&net->chain[c].layer[i], grad, &net->params);
            grad += dense_grad_size(&net->chain[c].layer[i]);
        }
}
