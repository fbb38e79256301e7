#include "decide/tree.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BINS = 64, SAMPLE_MAX = 20000, F = CAPACITY_OBS };

struct tree_opts tree_opts_default(void)
{
    return (struct tree_opts){
        .depth = TREE_DEPTH_MAX, .min_leaf = 50, .n_classes = 3, .balance = 0.5};
}

/* Rows are cut into bins once; every node then needs counts only. */
struct fit {
    const struct tree_opts *o;
    const uint8_t *label;
    size_t n;
    float edge[F][BINS];             /* bin b holds values under edge[b]; the last is infinite */
    uint8_t *bin;                    /* [n][F] */
    uint32_t *row;                   /* [n], permuted so that a node's rows are together */
    uint32_t *swap;                  /* [n] */
    float *sample;                   /* [SAMPLE_MAX] */
    double weight[TREE_CLASSES_MAX]; /* of a row, by class */
    double count[F][BINS][TREE_CLASSES_MAX];
    struct tree *t;
};

static enum err_code check(const float *obs, const uint8_t *label, size_t n,
                           const struct tree_opts *o, struct err *e)
{
    if (n == 0)
        return err_set(e, ERR_INVAL, "tree: no decisions to learn from");
    if (n > TREE_ROWS_MAX)
        return err_set(e, ERR_LIMIT, "tree: %zu decisions, at most %d", n, TREE_ROWS_MAX);
    if (o->depth < 1 || o->depth > TREE_DEPTH_MAX)
        return err_set(e, ERR_INVAL, "tree: depth %d is outside 1..%d", o->depth, TREE_DEPTH_MAX);
    if (o->n_classes < 2 || o->n_classes > TREE_CLASSES_MAX || o->min_leaf < 1 ||
        !(o->balance >= 0 && o->balance <= 1))
        return err_set(e, ERR_INVAL, "tree: %d classes, leaves of %d, balance %g", o->n_classes,
                       o->min_leaf, o->balance);
    for (size_t i = 0; i < n; i++)
        if (label[i] >= o->n_classes)
            return err_set(e, ERR_INVAL, "tree: decision %zu has class %d of %d", i, label[i],
                           o->n_classes);
    for (size_t i = 0; i < n * F; i++)
        if (!isfinite(obs[i]))
            return err_set(e, ERR_NUMERIC, "tree: decision %zu: %s is not finite", i / F,
                           observation_get((enum observation)(i % F))->name);
    return ERR_OK;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Edges at quantiles of an even sample of rows, each half-way between two values that occur. */
static void cut_feature(struct fit *f, const float *obs, int feature)
{
    size_t n = f->n < SAMPLE_MAX ? f->n : SAMPLE_MAX;
    for (size_t i = 0; i < n; i++)
        f->sample[i] = obs[i * f->n / n * F + (size_t)feature];
    qsort(f->sample, n, sizeof f->sample[0], by_value);
    int k = 0;
    for (int b = 1; b < BINS; b++) {
        size_t at = (size_t)b * n / BINS;
        while (at > 0 && at < n && f->sample[at] == f->sample[at - 1])
            at++;
        if (at == 0 || at >= n)
            continue;
        float edge = 0.5f * (f->sample[at - 1] + f->sample[at]);
        if (k == 0 || edge > f->edge[feature][k - 1])
            f->edge[feature][k++] = edge;
    }
    while (k < BINS)
        f->edge[feature][k++] = INFINITY;
    for (size_t i = 0; i < f->n; i++) {
        float x = obs[i * F + (size_t)feature];
        int lo = 0, hi = BINS - 1; /* first edge above x */
        while (lo < hi) {
            int mid = (lo + hi) / 2;
            if (x < f->edge[feature][mid])
                hi = mid;
            else
                lo = mid + 1;
        }
        f->bin[i * F + (size_t)feature] = (uint8_t)lo;
    }
}

static void weigh_classes(struct fit *f)
{
    size_t count[TREE_CLASSES_MAX] = {0};
    int present = 0;
    for (size_t i = 0; i < f->n; i++)
        count[f->label[i]]++;
    for (int c = 0; c < f->o->n_classes; c++)
        present += count[c] > 0;
    for (int c = 0; c < f->o->n_classes; c++)
        f->weight[c] =
            count[c] ? pow((double)f->n / ((double)present * (double)count[c]), f->o->balance) : 0;
}

/* Weighted Gini impurity times weight. */
static double impurity(const double *count, int n_classes)
{
    double sum = 0, square = 0;
    for (int c = 0; c < n_classes; c++) {
        sum += count[c];
        square += count[c] * count[c];
    }
    return sum > 0 ? sum - square / sum : 0;
}

struct split {
    int feature, bin; /* rows with bin <= this go left */
    double gain;
};

static void count_rows(struct fit *f, size_t from, size_t to)
{
    memset(f->count, 0, sizeof f->count);
    for (size_t i = from; i < to; i++) {
        size_t row = f->row[i];
        int c = f->label[row];
        for (int k = 0; k < F; k++)
            f->count[k][f->bin[row * F + (size_t)k]][c] += 1;
    }
}

static void try_feature(const struct fit *f, int k, const double *total, double n,
                        struct split *best)
{
    double left[TREE_CLASSES_MAX] = {0}, wl[TREE_CLASSES_MAX], wr[TREE_CLASSES_MAX],
           whole[TREE_CLASSES_MAX];
    double n_left = 0;
    for (int c = 0; c < f->o->n_classes; c++)
        whole[c] = total[c] * f->weight[c];
    double before = impurity(whole, f->o->n_classes);
    for (int b = 0; b < BINS - 1 && isfinite(f->edge[k][b]); b++) {
        for (int c = 0; c < f->o->n_classes; c++) {
            left[c] += f->count[k][b][c];
            n_left += f->count[k][b][c];
            wl[c] = left[c] * f->weight[c];
            wr[c] = whole[c] - wl[c];
        }
        if (n_left < f->o->min_leaf || n - n_left < f->o->min_leaf)
            continue;
        double gain = before - impurity(wl, f->o->n_classes) - impurity(wr, f->o->n_classes);
        if (gain > best->gain * (1 + 1e-9))
            *best = (struct split){k, b, gain};
    }
}

/* Moves the rows that go left to the front, order kept; returns where the right ones begin. */
static size_t part(struct fit *f, size_t from, size_t to, const struct split *s)
{
    size_t at = from, n_right = 0;
    for (size_t i = from; i < to; i++) {
        uint32_t row = f->row[i];
        if (f->bin[(size_t)row * F + (size_t)s->feature] <= s->bin)
            f->row[at++] = row;
        else
            f->swap[n_right++] = row;
    }
    memcpy(f->row + at, f->swap, n_right * sizeof f->swap[0]);
    return at;
}

/* Depth is at most TREE_DEPTH_MAX, so recursion is too. */
static int grow(struct fit *f, size_t from, size_t to, int depth)
{
    int at = f->t->n_nodes++;
    struct tree_node *node = &f->t->node[at];
    double total[TREE_CLASSES_MAX] = {0}, n = (double)(to - from);
    struct split best = {-1, 0, 1e-9 * n};
    int label = 0;
    for (size_t i = from; i < to; i++)
        total[f->label[f->row[i]]] += 1;
    for (int c = 1; c < f->o->n_classes; c++)
        if (total[c] * f->weight[c] > total[label] * f->weight[label])
            label = c;
    *node = (struct tree_node){.feature = -1,
                               .label = (int16_t)label,
                               .share = (float)(total[label] / n),
                               .n = (int32_t)(to - from)};
    if (depth == f->o->depth)
        return at;
    count_rows(f, from, to);
    for (int k = 0; k < F; k++)
        try_feature(f, k, total, n, &best);
    if (best.feature < 0)
        return at;
    size_t middle = part(f, from, to, &best);
    node->feature = (int16_t)best.feature;
    node->threshold = f->edge[best.feature][best.bin];
    node->left = (int16_t)grow(f, from, middle, depth + 1);
    node->right = (int16_t)grow(f, middle, to, depth + 1);
    return at;
}

/* Splits whose sides say the same add nothing for a reader. */
static bool same_label(const struct tree *t, int i, int label)
{
    const struct tree_node *n = &t->node[i];
    return n->feature < 0 ? n->label == label
                          : same_label(t, n->left, label) && same_label(t, n->right, label);
}

static void prune(struct tree *t, int i)
{
    struct tree_node *n = &t->node[i];
    if (n->feature < 0)
        return;
    prune(t, n->left);
    prune(t, n->right);
    if (same_label(t, i, n->label))
        n->feature = -1;
}

enum err_code tree_fit(const float *obs, const uint8_t *label, size_t n, const struct tree_opts *o,
                       struct tree *out, struct err *e)
{
    enum err_code rc = check(obs, label, n, o, e);
    if (rc)
        return rc;
    struct fit *f = try_zero(1, sizeof *f);
    if (!f)
        return err_set(e, ERR_NOMEM, "tree: out of memory");
    *out = (struct tree){.n_classes = o->n_classes};
    f->o = o;
    f->label = label;
    f->n = n;
    f->t = out;
    f->bin = try_zero(n, F);
    f->row = try_zero(n, sizeof f->row[0]);
    f->swap = try_zero(n, sizeof f->swap[0]);
    f->sample = try_zero(SAMPLE_MAX, sizeof f->sample[0]);
    if (!f->bin || !f->row || !f->swap || !f->sample) {
        rc = err_set(e, ERR_NOMEM, "tree: out of memory for %zu decisions", n);
    } else {
        for (size_t i = 0; i < n; i++)
            f->row[i] = (uint32_t)i;
        for (int k = 0; k < F; k++)
            cut_feature(f, obs, k);
        weigh_classes(f);
        (void)grow(f, 0, n, 0);
        prune(out, 0);
    }
    mem_free(f->bin);
    mem_free(f->row);
    mem_free(f->swap);
    mem_free(f->sample);
    mem_free(f);
    return rc;
}

int tree_predict(const struct tree *t, const float *obs)
{
    int i = 0;
    while (t->node[i].feature >= 0)
        i = obs[t->node[i].feature] < t->node[i].threshold ? t->node[i].left : t->node[i].right;
    return t->node[i].label;
}

struct tree_fidelity tree_fidelity(const struct tree *t, const float *obs, const uint8_t *label,
                                   size_t n)
{
    size_t count[256] = {0}, right[256] = {0}, most = 0, agree = 0;
    struct tree_fidelity f = {.n = n, .agreement = NAN, .majority = NAN, .balanced = NAN};
    int present = 0;
    if (n == 0)
        return f;
    for (size_t i = 0; i < n; i++) {
        bool hit = tree_predict(t, obs + i * F) == label[i];
        count[label[i]]++;
        right[label[i]] += hit;
        agree += hit;
    }
    double balanced = 0;
    for (int c = 0; c < 256; c++) {
        if (count[c] == 0)
            continue;
        present++;
        balanced += (double)right[c] / (double)count[c];
        most = count[c] > most ? count[c] : most;
    }
    f.agreement = (double)agree / (double)n;
    f.majority = (double)most / (double)n;
    f.balanced = balanced / present;
    return f;
}

static void write_node(const struct tree *t, int i, int depth, const char *const *names,
                       struct buf *out)
{
    const struct tree_node *n = &t->node[i];
    if (n->feature < 0) {
        buf_fmt(out, "%s (%.2f of %d)\n", names[n->label], (double)n->share, n->n);
        return;
    }
    const char *name = observation_get((enum observation)n->feature)->name;
    const int child[2] = {n->left, n->right};
    for (int side = 0; side < 2; side++) {
        if (side > 0 || depth > 0)
            buf_pad(out, ' ', side > 0 ? (size_t)(4 * depth) : 0);
        buf_fmt(out, "%s %s %.3g:", name, side ? ">=" : "<", (double)n->threshold);
        bool leaf = t->node[child[side]].feature < 0;
        buf_char(out, leaf ? ' ' : '\n');
        if (!leaf)
            buf_pad(out, ' ', (size_t)(4 * (depth + 1)));
        write_node(t, child[side], depth + 1, names, out);
    }
}

void tree_text(const struct tree *t, const char *const *names, struct buf *out)
{
    write_node(t, 0, 0, names, out);
}
