/* tree.h - a small decision tree that imitates a policy (CART, Breiman et al. 1984), to be read by
 * people.
 *
 * Fitted to (observation, class) pairs of a policy's own decisions, with its fidelity measured on
 * pairs it did not see.  Classes are the caller's: actions, or in / hold / out.  Splits are the
 * best of 63 quantile thresholds per feature by Gini impurity; O(depth * n * features).  Since most
 * decisions are "hold", plain agreement is easy to reach: read it beside `majority` and `balanced`.
 */
#ifndef DECIDE_TREE_H
#define DECIDE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "decide/observation.h"

enum { TREE_DEPTH_MAX = 4, TREE_NODES_MAX = 31, TREE_CLASSES_MAX = 8, TREE_ROWS_MAX = 1000000 };

struct tree_opts {
    int depth;      /* 1..TREE_DEPTH_MAX */
    int min_leaf;   /* rows */
    int n_classes;  /* 2..TREE_CLASSES_MAX */
    double balance; /* 0: every row counts alike .. 1: every class counts alike */
};
struct tree_opts tree_opts_default(void); /* depth 4, 50 rows, 3 classes, balance 0.5 */

struct tree_node {
    int16_t feature;     /* enum observation, -1 for a leaf */
    int16_t left, right; /* nodes: feature < threshold, and not */
    float threshold;
    int16_t label; /* weighted majority here */
    float share;   /* unweighted share of that class here */
    int32_t n;     /* rows that came here in fitting */
};

struct tree {
    int n_nodes;
    int n_classes;
    struct tree_node node[TREE_NODES_MAX]; /* 0 is the root */
};

struct tree_fidelity {
    size_t n;
    double agreement; /* share of rows with the policy's class */
    double majority;  /* what always saying the commonest class would reach */
    double balanced;  /* agreement averaged over the classes present */
};

/* obs: [n][CAPACITY_OBS], label: [n] below n_classes.
 * Errors: ERR_INVAL for no rows, a label or an option out of range; ERR_LIMIT over TREE_ROWS_MAX;
 * ERR_NUMERIC for a non-finite observation; ERR_NOMEM. */
NODISCARD enum err_code tree_fit(const float *obs, const uint8_t *label, size_t n,
                                 const struct tree_opts *o, struct tree *out, struct err *e);
int tree_predict(const struct tree *t, const float *obs);
struct tree_fidelity tree_fidelity(const struct tree *t, const float *obs, const uint8_t *label,
                                   size_t n);
/* Indented text, a line per node; names: [n_classes]. */
void tree_text(const struct tree *t, const char *const *names, struct buf *out);

#endif
