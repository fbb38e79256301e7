#include "nn/lstm.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "nn/gemm.h"
#include "nn/vec.h"

enum { GATE_I, GATE_F, GATE_G, GATE_O, N_GATES };

void lstm_declare(struct lstm *l, struct nn_params *p, const char *name, int n_in, int n_hidden)
{
    char full[NN_NAME_MAX];
    ASSERT(n_hidden % VEC == 0);
    *l = (struct lstm){.n_in = n_in, .n_hidden = n_hidden};
    (void)snprintf(full, sizeof full, "%s.weight_x", name);
    l->wx = nn_params_add(p, full, n_in, N_GATES * n_hidden, 0, 0);
    (void)snprintf(full, sizeof full, "%s.weight_h", name);
    l->wh = nn_params_add(p, full, n_hidden, N_GATES * n_hidden, 0, 0);
    (void)snprintf(full, sizeof full, "%s.bias", name);
    l->b = nn_params_add(p, full, N_GATES * n_hidden, 0, 0, 0);
}

enum err_code lstm_alloc(struct lstm *l, struct err *e)
{
    size_t in = (size_t)l->n_in, h = (size_t)l->n_hidden, gates = N_GATES * h;
    l->panels_x = try_zero_aligned(in * gates, sizeof(float));
    l->panels_h = try_zero_aligned(h * gates, sizeof(float));
    l->panels_ht = try_zero_aligned(h * gates, sizeof(float));
    l->pairs_ht = try_zero_aligned(h * gates, sizeof(float));
    l->bias = try_zero_aligned(gates, sizeof(float));
    l->ordered = try_zero_aligned((in > h ? in : h) * gates, sizeof(float));
    if (!l->panels_x || !l->panels_h || !l->panels_ht || !l->pairs_ht || !l->bias || !l->ordered)
        return err_set(e, ERR_NOMEM, "LSTM layer %d x %d", l->n_in, l->n_hidden);
    return ERR_OK;
}

void lstm_fini(struct lstm *l)
{
    mem_free(l->panels_x);
    mem_free(l->panels_h);
    mem_free(l->panels_ht);
    mem_free(l->pairs_ht);
    mem_free(l->bias);
    mem_free(l->ordered);
    *l = (struct lstm){0};
}

void lstm_init(const struct lstm *l, const struct nn_params *p, struct rng *rng)
{
    nn_init_orthogonal(nn_params_value(p, l->wx), l->n_in, N_GATES * l->n_hidden, 1.0f, rng);
    nn_init_orthogonal(nn_params_value(p, l->wh), l->n_hidden, N_GATES * l->n_hidden, 1.0f, rng);
    float *b = nn_params_value(p, l->b);
    for (int j = 0; j < l->n_hidden; j++)
        b[GATE_F * l->n_hidden + j] = 1.0f;
}

/* Kernel column of a gate's 16 units from `unit` on. */
static int column(int gate, int unit)
{
    return unit * N_GATES + gate * VEC;
}

static void order_columns(const float *w, int rows, int n_hidden, float *out)
{
    int width = N_GATES * n_hidden;
    for (int i = 0; i < rows; i++)
        for (int gate = 0; gate < N_GATES; gate++)
            for (int j = 0; j < n_hidden; j += VEC)
                v16_store(out + i * width + column(gate, j),
                          v16_load(w + i * width + gate * n_hidden + j));
}

static void restore_columns(const float *w, int rows, int n_hidden, float *out)
{
    int width = N_GATES * n_hidden;
    for (int i = 0; i < rows; i++)
        for (int gate = 0; gate < N_GATES; gate++)
            for (int j = 0; j < n_hidden; j += VEC)
                v16_store(out + i * width + gate * n_hidden + j,
                          v16_load(w + i * width + column(gate, j)));
}

void lstm_pack(struct lstm *l, const struct nn_params *p)
{
    int h = l->n_hidden, width = N_GATES * h;
    order_columns(nn_params_value(p, l->wx), l->n_in, h, l->ordered);
    gemm_pack(l->ordered, l->n_in, width, (size_t)width, l->panels_x);
    order_columns(nn_params_value(p, l->wh), h, h, l->ordered);
    gemm_pack(l->ordered, h, width, (size_t)width, l->panels_h);
    gemm_pack_transposed(l->ordered, width, h, (size_t)width, l->panels_ht);
    gemm_pairs_panels(l->panels_ht, width, h, l->pairs_ht);
    order_columns(nn_params_value(p, l->b), 1, h, l->bias);
}

/* Gates of one row and 16 units: g points at their 64 pre-activations, which become activations. */
VEC_INLINE void cell(float *g, const float *c_in, float *h, float *c, float *tanh_c)
{
    v16 i = v16_sigmoid(v16_load(g + GATE_I * VEC)), f = v16_sigmoid(v16_load(g + GATE_F * VEC));
    v16 n = v16_tanh(v16_load(g + GATE_G * VEC)), o = v16_sigmoid(v16_load(g + GATE_O * VEC));
    v16 next = v16_fma(f, v16_load(c_in), i * n);
    v16 squashed = v16_tanh(next);
    v16_store(g + GATE_I * VEC, i);
    v16_store(g + GATE_F * VEC, f);
    v16_store(g + GATE_G * VEC, n);
    v16_store(g + GATE_O * VEC, o);
    v16_store(c, next);
    v16_store(h, o * squashed);
    if (tanh_c)
        v16_store(tanh_c, squashed);
}

/* Pre-activations of all gates of n rows. */
static void gate_sums(const struct lstm *l, const float *x, size_t ldx, int n, const float *h,
                      size_t ld, float *gates)
{
    size_t width = N_GATES * (size_t)l->n_hidden;
    struct gemm g = {.m = n,
                     .n = (int)width,
                     .k = l->n_in,
                     .a = x,
                     .a_m = ldx,
                     .a_k = 1,
                     .b = l->panels_x,
                     .c = gates,
                     .c_m = width,
                     .init = GEMM_BIAS,
                     .bias = l->bias};
    gemm_run(&g);
    g.k = l->n_hidden;
    g.a = h;
    g.a_m = ld;
    g.b = l->panels_h;
    g.init = GEMM_ADD;
    gemm_run(&g);
}

void lstm_step(const struct lstm *l, const float *x, size_t ldx, int n, float *h, float *c,
               size_t ld, float *gates)
{
    size_t hidden = (size_t)l->n_hidden, width = N_GATES * hidden;
    gate_sums(l, x, ldx, n, h, ld, gates);
    for (size_t r = 0; r < (size_t)n; r++)
        for (size_t j = 0; j < hidden; j += VEC)
            cell(gates + r * width + N_GATES * j, c + r * ld + j, h + r * ld + j, c + r * ld + j,
                 NULL);
}

/* The state row r of step s starts from. */
static void reset_rows(const struct lstm_trace *t, size_t s, size_t hidden)
{
    for (size_t r = s * (size_t)t->n_seq; r < (s + 1) * (size_t)t->n_seq; r++)
        if (t->reset[r]) {
            memset(t->h_in + r * hidden, 0, hidden * sizeof(float));
            memset(t->c_in + r * hidden, 0, hidden * sizeof(float));
        }
}

void lstm_forward(const struct lstm *l, struct lstm_trace *t)
{
    size_t hidden = (size_t)l->n_hidden, rows = (size_t)t->n_seq, width = N_GATES * hidden;
    for (size_t s = 0; s < (size_t)t->n_steps; s++) {
        bool last = s + 1 == (size_t)t->n_steps;
        reset_rows(t, s, hidden);
        gate_sums(l, t->x + s * rows * t->ldx, t->ldx, t->n_seq, t->h_in + s * rows * hidden,
                  hidden, t->gates + s * rows * width);
        for (size_t r = 0; r < rows; r++) {
            size_t row = s * rows + r, next = row + rows;
            for (size_t j = 0; j < hidden; j += VEC) {
                float *c = last ? t->dc + r * hidden + j
                                : t->c_in + next * hidden + j; /* dc: not needed yet */
                float *h = t->h + row * hidden + j;
                cell(t->gates + row * width + N_GATES * j, t->c_in + row * hidden + j, h, c,
                     t->tanh_c + row * hidden + j);
                if (!last)
                    v16_store(t->h_in + next * hidden + j, v16_load(h));
            }
        }
    }
}

/* Derivatives of one row and 16 units: g holds the gates, and receives the derivative by
 * pre-activation. */
VEC_INLINE void cell_backward(float *g, v16 dh, float *dc_io, v16 c_in, v16 squashed)
{
    v16 one = v16_set(1.0f);
    v16 i = v16_load(g + GATE_I * VEC), f = v16_load(g + GATE_F * VEC);
    v16 n = v16_load(g + GATE_G * VEC), o = v16_load(g + GATE_O * VEC);
    v16 dc = v16_fma(dh * o, v16_fma(-squashed, squashed, one), v16_load(dc_io));
    v16_store(g + GATE_I * VEC, dc * n * i * (one - i));
    v16_store(g + GATE_F * VEC, dc * c_in * f * (one - f));
    v16_store(g + GATE_G * VEC, dc * i * v16_fma(-n, n, one));
    v16_store(g + GATE_O * VEC, dh * squashed * o * (one - o));
    v16_store(dc_io, dc * f);
}

static void step_backward(const struct lstm *l, struct lstm_trace *t, size_t s)
{
    size_t hidden = (size_t)l->n_hidden, rows = (size_t)t->n_seq, width = N_GATES * hidden;
    for (size_t r = 0; r < rows; r++) {
        size_t row = s * rows + r;
        for (size_t j = 0; j < hidden; j += VEC) {
            v16 dh = v16_load(t->dh + row * hidden + j) + v16_load(t->dh_prev + r * hidden + j);
            cell_backward(t->gates + row * width + N_GATES * j, dh, t->dc + r * hidden + j,
                          v16_load(t->c_in + row * hidden + j),
                          v16_load(t->tanh_c + row * hidden + j));
        }
    }
    if (s == 0)
        return; /* truncation: nothing flows into the state the sequence started from */
    struct gemm g = {.m = t->n_seq,
                     .n = l->n_hidden,
                     .k = (int)width,
                     .a = t->gates + s * rows * width,
                     .a_m = width,
                     .a_k = 1,
                     .b = l->panels_ht,
                     .c = t->dh_prev,
                     .c_m = hidden};
    if (t->pairs_in) {
        gemm_pairs_neighbours(g.a, width, t->n_seq, (int)width, t->pairs_gates, width / 2);
        g.pairs = true;
        g.k = (int)width / 2;
        g.a = t->pairs_gates;
        g.a_m = width / 2;
        g.b = l->pairs_ht;
    }
    gemm_run(&g);
    for (size_t r = 0; r < rows; r++)
        if (t->reset[s * rows + r]) {
            memset(t->dh_prev + r * hidden, 0, hidden * sizeof(float));
            memset(t->dc + r * hidden, 0, hidden * sizeof(float));
        }
}

static void weight_grad(const struct lstm_trace *t, const float *in, size_t ld, int n_in,
                        size_t width, float *grad)
{
    int rows = t->n_seq * t->n_steps;
    size_t ld_pairs = (size_t)gemm_pad(n_in);
    for (int r = 0; r < rows; r += LSTM_CHUNK) {
        int n = rows - r < LSTM_CHUNK ? rows - r : LSTM_CHUNK;
        struct gemm g = {.m = n_in,
                         .n = (int)width,
                         .k = n,
                         .a = in + (size_t)r * ld,
                         .a_m = 1,
                         .a_k = ld,
                         .b = t->gates + (size_t)r * width,
                         .b_k = width,
                         .c = grad,
                         .c_m = width,
                         .init = GEMM_ADD};
        if (t->pairs_in) {
            gemm_pairs_rows(g.a, ld, n, (int)ld_pairs, t->pairs_in, ld_pairs);
            gemm_pairs_rows(g.b, width, n, (int)width, t->pairs_gates, width);
            g.pairs = true;
            g.k = (n + 1) / 2;
            g.a = t->pairs_in;
            g.a_k = ld_pairs;
            g.b = t->pairs_gates;
        }
        gemm_run(&g);
    }
}

void lstm_backward(const struct lstm *l, struct lstm_trace *t, float *grad)
{
    size_t hidden = (size_t)l->n_hidden, width = N_GATES * hidden;
    int rows = t->n_seq * t->n_steps;
    memset(t->dc, 0, (size_t)t->n_seq * hidden * sizeof(float));
    memset(t->dh_prev, 0, (size_t)t->n_seq * hidden * sizeof(float));
    for (int s = t->n_steps - 1; s >= 0; s--)
        step_backward(l, t, (size_t)s);
    float *grad_h = grad + (size_t)l->n_in * width, *grad_b = grad_h + hidden * width;
    weight_grad(t, t->x, t->ldx, l->n_in, width, grad);
    weight_grad(t, t->h_in, hidden, l->n_hidden, width, grad_h);
    for (size_t j = 0; j < width; j += VEC) {
        v16 sum = v16_load(grad_b + j);
        for (size_t r = 0; r < (size_t)rows; r++)
            sum += v16_load(t->gates + r * width + j);
        v16_store(grad_b + j, sum);
    }
}

size_t lstm_grad_size(const struct lstm *l)
{
    return (size_t)(l->n_in + l->n_hidden + 1) * N_GATES * (size_t)l->n_hidden;
}

void lstm_grad_unpack(const struct lstm *l, const float *grad, struct nn_params *p)
{
    size_t width = N_GATES * (size_t)l->n_hidden;
    restore_columns(grad, l->n_in, l->n_hidden, nn_params_grad(p, l->wx));
    grad += (size_t)l->n_in * width;
    restore_columns(grad, l->n_hidden, l->n_hidden, nn_params_grad(p, l->wh));
    grad += (size_t)l->n_hidden * width;
    restore_columns(grad, 1, l->n_hidden, nn_params_grad(p, l->b));
}
