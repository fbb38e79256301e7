#include "nn/checkpoint.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/build.h"
#include "base/hash.h"
#include "base/mem.h"

enum { FORMAT_VERSION = 1 };

static const char *const shape_names[] = {
    [NN_SEPARATE] = "separate", [NN_SHARED] = "shared", [NN_LSTM] = "lstm"};
static const char *const act_names[] = {
    [NN_TANH] = "tanh", [NN_RELU] = "relu", [NN_LINEAR] = "linear"};

/* ---- out
 * -------------------------------------------------------------------------------------- */

struct ckpt_out *ckpt_out_new(void)
{
    return mem_zero(1, sizeof(struct ckpt_out));
}

void ckpt_out_free(struct ckpt_out *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_meta; i++) {
        mem_free((void *)(uintptr_t)c->meta[i].key); /* ours, made by ckpt_meta */
        mem_free((void *)(uintptr_t)c->meta[i].value);
    }
    mem_free(c);
}

static struct st_tensor *add_tensor(struct ckpt_out *c, const char *name, enum st_dtype dtype,
                                    const void *data)
{
    ASSERT(c->n < ST_TENSORS_MAX && strlen(name) < ST_NAME_MAX);
    struct st_tensor *t = &c->tensor[c->n++];
    *t = (struct st_tensor){.dtype = dtype, .data = data};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

void ckpt_add(struct ckpt_out *c, const char *name, enum st_dtype dtype, const void *data, size_t n)
{
    struct st_tensor *t = add_tensor(c, name, dtype, data);
    t->n_dims = 1;
    t->dim[0] = (int64_t)n;
    t->n_bytes = n * st_dtype_size(dtype);
}

void ckpt_meta(struct ckpt_out *c, const char *key, const char *fmt, ...)
{
    va_list ap;
    ASSERT(c->n_meta < ST_META_MAX);
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    char *value = mem_zero((size_t)n + 1, 1);
    va_start(ap, fmt);
    (void)vsnprintf(value, (size_t)n + 1, fmt, ap);
    va_end(ap);
    c->meta[c->n_meta++] = (struct st_meta){mem_strdup(key), value};
}

/* Of all values, in the order of the table. */
static void params_hash(const struct nn_params *p, char hex[HASH_HEX])
{
    struct hash h = hash_init(0);
    for (int i = 0; i < p->n; i++)
        hash_bytes(&h, p->value + p->table[i].offset, p->table[i].size * sizeof(float));
    hash_hex(hash_value(&h), hex);
}

void ckpt_add_net(struct ckpt_out *c, const struct nn_net *net)
{
    char hex[HASH_HEX];
    const struct nn_params *p = nn_net_params_const(net);
    const struct nn_net_cfg *cfg = nn_net_cfg_get(net);
    for (int i = 0; i < p->n; i++) {
        const struct nn_param *from = &p->table[i];
        struct st_tensor *t = add_tensor(c, from->name, ST_F32, p->value + from->offset);
        t->n_dims = from->n_dims;
        t->n_bytes = from->size * sizeof(float);
        for (int d = 0; d < from->n_dims; d++)
            t->dim[d] = from->dim[d];
    }
    params_hash(p, hex);
    ckpt_meta(c, "nn.hash", "%s", hex);
    ckpt_meta(c, "nn.format", "%d", FORMAT_VERSION);
    ckpt_meta(c, "nn.version", "%s", build_version());
    ckpt_meta(c, "nn.isa", "%s", build_isa());
    ckpt_meta(c, "nn.shape", "%s", shape_names[cfg->shape]);
    ckpt_meta(c, "nn.act", "%s", act_names[cfg->act]);
    ckpt_meta(c, "nn.n_obs", "%d", cfg->n_obs);
    ckpt_meta(c, "nn.n_actions", "%d", cfg->n_actions);
    ckpt_meta(c, "nn.n_values", "%d", cfg->n_values);
    ckpt_meta(c, "nn.n_hidden", "%d", cfg->n_hidden);
    ckpt_meta(c, "nn.n_dense", "%d", cfg->n_dense);
}

void ckpt_add_norm(struct ckpt_out *c, const struct nn_norm *norm)
{
    size_t dim = (size_t)norm->dim;
    ckpt_add(c, "norm.count", ST_F64, &norm->count, 1);
    ckpt_add(c, "norm.mean", ST_F64, norm->mean, dim);
    ckpt_add(c, "norm.m2", ST_F64, norm->m2, dim);
    ckpt_add(c, "norm.hist", ST_U64, norm->hist, dim * NN_NORM_BINS);
}

enum err_code ckpt_write(const struct ckpt_out *c, const char *path, struct err *e)
{
    return st_write(path, c->tensor, c->n, c->meta, c->n_meta, e);
}

/* ---- in
 * --------------------------------------------------------------------------------------- */

enum err_code ckpt_expect(const struct st_file *f, const struct st_meta *pairs, int n,
                          struct err *e)
{
    for (int i = 0; i < n; i++) {
        const char *found = st_meta_get(f, pairs[i].key);
        if (!found)
            return err_set(e, ERR_MISMATCH, "%s: the file has none, expected \"%.80s\"",
                           pairs[i].key, pairs[i].value);
        if (strcmp(found, pairs[i].value) != 0)
            return err_set(e, ERR_MISMATCH, "%s: the file has \"%.80s\", expected \"%.80s\"",
                           pairs[i].key, found, pairs[i].value);
    }
    return ERR_OK;
}

enum err_code ckpt_copy(const struct st_file *f, const char *name, enum st_dtype dtype, void *out,
                        size_t n, struct err *e)
{
    const struct st_tensor *t = st_find(f, name);
    if (!t)
        return err_set(e, ERR_MISMATCH, "tensor %s is missing", name);
    if (t->dtype != dtype || t->n_bytes != n * st_dtype_size(dtype))
        return err_set(e, ERR_MISMATCH,
                       "tensor %s has %zu bytes of another type or size, expected %zu", name,
                       t->n_bytes, n * st_dtype_size(dtype));
    if (t->n_bytes)
        memcpy(out, t->data, t->n_bytes);
    return ERR_OK;
}

static enum err_code read_name(const struct st_file *f, const char *key, const char *const *names,
                               size_t n, int *out, struct err *e)
{
    const char *text = st_meta_get(f, key);
    if (!text)
        return err_set(e, ERR_MISSING, "metadata %s is missing", key);
    for (size_t i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (int)i;
            return ERR_OK;
        }
    return err_set(e, ERR_PARSE, "metadata %s: \"%.32s\" is unknown", key, text);
}

static enum err_code read_count(const struct st_file *f, const char *key, int *out, struct err *e)
{
    const char *text = st_meta_get(f, key);
    char *end;
    if (!text)
        return err_set(e, ERR_MISSING, "metadata %s is missing", key);
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 0 || value > 1 << 20)
        return err_set(e, ERR_PARSE, "metadata %s: \"%.32s\" is not a small whole number", key,
                       text);
    *out = (int)value;
    return ERR_OK;
}

enum err_code ckpt_net_cfg(const struct st_file *f, struct nn_net_cfg *out, struct err *e)
{
    int shape, act, format;
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SEPARATE, 1, 1, 1);
    const struct {
        const char *key;
        int *to;
    } count[] = {
        {"nn.format", &format},           {"nn.n_obs", &cfg.n_obs},
        {"nn.n_actions", &cfg.n_actions}, {"nn.n_values", &cfg.n_values},
        {"nn.n_hidden", &cfg.n_hidden},   {"nn.n_dense", &cfg.n_dense},
    };
    enum err_code rc = read_name(f, "nn.shape", shape_names, ARRAY_LEN(shape_names), &shape, e);
    if (rc == ERR_OK)
        rc = read_name(f, "nn.act", act_names, ARRAY_LEN(act_names), &act, e);
    for (size_t i = 0; i < ARRAY_LEN(count) && rc == ERR_OK; i++)
        rc = read_count(f, count[i].key, count[i].to, e);
    if (rc)
        return rc;
    if (format != FORMAT_VERSION)
        return err_set(e, ERR_MISMATCH, "nn.format: the file has %d, this program reads %d", format,
                       FORMAT_VERSION);
    cfg.shape = (enum nn_shape)shape;
    cfg.act = (enum nn_act)act;
    *out = cfg;
    return ERR_OK;
}

static bool same_shape(const struct st_tensor *t, const struct nn_param *p)
{
    bool same = t->dtype == ST_F32 && t->n_dims == p->n_dims;
    for (int d = 0; same && d < p->n_dims; d++)
        same = t->dim[d] == p->dim[d];
    return same;
}

enum err_code ckpt_load_net(const struct st_file *f, struct nn_net *net, struct err *e)
{
    const struct nn_params *p = nn_net_params_const(net);
    for (int i = 0; i < p->n; i++) {
        const struct st_tensor *t = st_find(f, p->table[i].name);
        if (!t)
            return err_set(e, ERR_MISMATCH, "tensor %s is missing", p->table[i].name);
        if (!same_shape(t, &p->table[i]))
            return err_set(e, ERR_MISMATCH,
                           "tensor %s has another shape: %d x %d expected, %" PRId64 " x %" PRId64
                           " found",
                           t->name, p->table[i].dim[0], p->table[i].dim[1], t->dim[0], t->dim[1]);
    }
    for (int i = 0; i < p->n; i++)
        memcpy(nn_params_value(p, i), st_find(f, p->table[i].name)->data,
               p->table[i].size * sizeof(float));
    nn_net_pack(net);
    char hex[HASH_HEX];
    params_hash(p, hex);
    const struct st_meta whole = {"nn.hash", hex};
    if (st_meta_get(f, whole.key) && ckpt_expect(f, &whole, 1, e))
        return err_wrap(e, "weights are damaged");
    return ERR_OK;
}

static bool sane_norm(const struct nn_norm *n)
{
    bool ok = n->count >= 0;
    for (int j = 0; j < n->dim; j++)
        ok = ok && n->m2[j] >= 0;
    return ok;
}

enum err_code ckpt_load_norm(const struct st_file *f, struct nn_norm *norm, struct err *e)
{
    size_t dim = (size_t)norm->dim;
    enum err_code rc = ckpt_copy(f, "norm.count", ST_F64, &norm->count, 1, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "norm.mean", ST_F64, norm->mean, dim, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "norm.m2", ST_F64, norm->m2, dim, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "norm.hist", ST_U64, norm->hist, dim * NN_NORM_BINS, e);
    if (rc == ERR_OK && !sane_norm(norm))
        rc = err_set(e, ERR_RANGE, "normaliser: negative count or variance");
    if (rc == ERR_OK)
        nn_norm_refresh(norm);
    return rc;
}
