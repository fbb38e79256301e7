#include "nn/gconv.h"

#include <stdio.h>
#include <string.h>

#include "nn/vec.h"

void gconv_declare(struct gconv *g, struct nn_params *p, const char *name, int n_in, int n_out,
                   enum nn_act act, enum gconv_agg agg)
{
    char full[NN_NAME_MAX];
    *g = (struct gconv){.agg = agg, .act = act};
    (void)snprintf(full, sizeof full, "%s.self", name);
    dense_declare(&g->self, p, full, n_in, n_out, NN_LINEAR);
    (void)snprintf(full, sizeof full, "%s.near", name);
    dense_declare(&g->near, p, full, n_in, n_out, NN_LINEAR);
}

enum err_code gconv_alloc(struct gconv *g, struct err *e)
{
    enum err_code rc = dense_alloc(&g->self, e);
    return rc ? rc : dense_alloc(&g->near, e);
}

void gconv_fini(struct gconv *g)
{
    dense_fini(&g->self);
    dense_fini(&g->near);
}

void gconv_pack(struct gconv *g, const struct nn_params *p)
{
    dense_pack(&g->self, p);
    dense_pack(&g->near, p);
}

enum err_code gconv_weights(enum gconv_agg agg, const struct gconv_edge *edge, int n_edges,
                            int n_nodes, float *weight, struct err *e)
{
    for (int i = 0; i < n_nodes; i++)
        weight[i] = 0;
    for (int k = 0; k < n_edges; k++) {
        if (edge[k].from < 0 || edge[k].from >= n_nodes || edge[k].to < 0 || edge[k].to >= n_nodes)
            return err_set(e, ERR_RANGE, "edge %d: %d -> %d leaves the %d nodes", k, edge[k].from,
                           edge[k].to, n_nodes);
        weight[edge[k].to] += 1;
    }
    for (int i = 0; i < n_nodes; i++)
        weight[i] = agg == GCONV_MEAN && weight[i] > 0 ? 1 / weight[i] : 1;
    return ERR_OK;
}

/* to[b] += from[a] * w over width floats. */
static void add_row(float *to, const float *from, float w, int width)
{
    for (int j = 0; j < width; j += VEC)
        v16_store(to + j, v16_fma(v16_load(from + j), v16_set(w), v16_load(to + j)));
}

void gconv_forward(const struct gconv *g, const struct gconv_graph *graph, const float *x,
                   size_t ldx, float *near, float *scratch, float *y, size_t ldy)
{
    int n = graph->n_nodes, in = gemm_pad(g->self.n_in), out = gemm_pad(g->self.n_out);
    memset(near, 0, (size_t)n * ldx * sizeof(float));
    for (int k = 0; k < graph->n_edges; k++) {
        size_t from = (size_t)graph->edge[k].from, to = (size_t)graph->edge[k].to;
        add_row(near + to * ldx, x + from * ldx, graph->weight[to], in);
    }
    dense_forward(&g->self, x, ldx, n, y, ldy);
    dense_forward(&g->near, near, ldx, n, scratch, ldy);
    for (size_t i = 0; i < (size_t)n; i++)
        for (int j = 0; j < out; j += VEC) {
            v16 sum = v16_load(y + i * ldy + j) + v16_load(scratch + i * ldy + j);
            if (g->act == NN_TANH)
                sum = v16_tanh(sum);
            else if (g->act == NN_RELU)
                sum = v16_max(sum, v16_set(0.0f));
            v16_store(y + i * ldy + j, sum);
        }
}

static void apply_derivative(enum nn_act act, const float *x, float *dx, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (act == NN_TANH)
            dx[i] *= 1 - x[i] * x[i];
        else if (act == NN_RELU && x[i] <= 0)
            dx[i] = 0;
}

void gconv_backward(const struct gconv *g, const struct gconv_graph *graph, const float *x,
                    size_t ldx, enum nn_act x_act, const float *near, const float *dy, size_t ldy,
                    float *dnear, float *dx, float *grad)
{
    int n = graph->n_nodes, in = gemm_pad(g->self.n_in);
    dense_backward(&g->self, x, ldx, NN_LINEAR, dy, ldy, n, dx, ldx, grad, NULL);
    dense_backward(&g->near, near, ldx, NN_LINEAR, dy, ldy, n, dx ? dnear : NULL, ldx,
                   grad + dense_grad_size(&g->self), NULL);
    if (!dx)
        return;
    for (int k = 0; k < graph->n_edges; k++) {
        size_t from = (size_t)graph->edge[k].from, to = (size_t)graph->edge[k].to;
        add_row(dx + from * ldx, dnear + to * ldx, graph->weight[to], in);
    }
    apply_derivative(x_act, x, dx, (size_t)n * ldx);
}

size_t gconv_grad_size(const struct gconv *g)
{
    return dense_grad_size(&g->self) + dense_grad_size(&g->near);
}

void gconv_grad_unpack(const struct gconv *g, const float *grad, struct nn_params *p)
{
    dense_grad_unpack(&g->self, grad, p);
    dense_grad_unpack(&g->near, grad + dense_grad_size(&g->self), p);
    memset(nn_params_grad(p, g->near.b), 0, (size_t)g->near.n_out * sizeof(float));
}
