/* gconv.h - graph convolution by message passing over an edge list.
 *
 *     y_i = act( x_i W_self + agg over edges (j -> i) of x_j  W_near + b )
 *
 * agg is the sum (GIN-like) or the mean (Kipf & Welling 2017 without the self-loop); a node without
 * incoming edges aggregates to zero.  Edges are listed once; repeated edges count twice.  Summation
 * is in edge order, so the result has the same bits for the same list.
 * Row strides are multiples of 16 floats; padding of x must be finite. */
#ifndef NN_GCONV_H
#define NN_GCONV_H

#include <stdint.h>

#include "nn/dense.h"

enum gconv_agg { GCONV_SUM, GCONV_MEAN };

struct gconv_edge {
    int32_t from, to;
};

struct gconv {
    enum gconv_agg agg;
    enum nn_act act;
    struct dense self,
        near; /* near has no bias of its own: its bias stays 0 and gets no gradient */
};

struct gconv_graph {
    int n_nodes, n_edges;
    const struct gconv_edge *edge;
    const float *weight; /* [n_nodes], filled by gconv_weights: 1 or 1 / indegree */
};

void gconv_declare(struct gconv *g, struct nn_params *p, const char *name, int n_in, int n_out,
                   enum nn_act act, enum gconv_agg agg);
NODISCARD enum err_code gconv_alloc(struct gconv *g, struct err *e);
void gconv_fini(struct gconv *g);
void gconv_pack(struct gconv *g, const struct nn_params *p);
/* Checks the edges and fills weight[n_nodes].  Errors: ERR_RANGE naming the edge. */
NODISCARD enum err_code gconv_weights(enum gconv_agg agg, const struct gconv_edge *edge,
                                      int n_edges, int n_nodes, float *weight, struct err *e);
/* y[n_nodes][ldy]; near: [n_nodes][ldx] aggregated inputs, kept for the backward pass; scratch: as
 * y. */
void gconv_forward(const struct gconv *g, const struct gconv_graph *graph, const float *x,
                   size_t ldx, float *near, float *scratch, float *y, size_t ldy);
/* dy: derivative by pre-activation.  dx (may be NULL): derivative by x, times x_act'(x).
 * dnear: [n_nodes][ldx] scratch.  grad: gconv_grad_size floats, added to. */
void gconv_backward(const struct gconv *g, const struct gconv_graph *graph, const float *x,
                    size_t ldx, enum nn_act x_act, const float *near, const float *dy, size_t ldy,
                    float *dnear, float *dx, float *grad);
size_t gconv_grad_size(const struct gconv *g);
void gconv_grad_unpack(const struct gconv *g, const float *grad, struct nn_params *p);

#endif
