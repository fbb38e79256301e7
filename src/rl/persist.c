#include "rl/persist.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/mem.h"

enum {
    FIELD_TEXT = 32,
    FIELD_KEY = 48,
    META_OURS = 64 /* keys kept free for the network's and ours */
};

/* ---- fields --------------------------------------------------------------------------- */

static double field_value(const void *cfg, const struct rl_field *f)
{
    const char *at = (const char *)cfg + f->offset;
    switch (f->kind) {
    case RL_INT:
        return *(const int *)at;
    case RL_I64:
        return (double)*(const int64_t *)at;
    case RL_U64:
        return (double)*(const uint64_t *)at;
    case RL_FLOAT:
        return (double)*(const float *)at;
    case RL_BOOL:
        return *(const bool *)at;
    }
    return NAN;
}

enum err_code rl_fields_check(const struct rl_field *f, int n, const void *cfg, struct err *e)
{
    for (int i = 0; i < n; i++) {
        double x = field_value(cfg, &f[i]),
               slack = 1e-6 * fabs(f[i].max); /* floats do not hit decimal bounds */
        if (!(x >= f[i].min - 1e-9 && x <= f[i].max + slack))
            return err_set(e, ERR_RANGE, "%s: %g is outside %g..%g", f[i].name, x, f[i].min,
                           f[i].max);
    }
    return ERR_OK;
}

static void field_text(const void *cfg, const struct rl_field *f, char out[FIELD_TEXT])
{
    const char *at = (const char *)cfg + f->offset;
    switch (f->kind) {
    case RL_INT:
        (void)snprintf(out, FIELD_TEXT, "%d", *(const int *)at);
        break;
    case RL_I64:
        (void)snprintf(out, FIELD_TEXT, "%" PRId64, *(const int64_t *)at);
        break;
    case RL_U64:
        (void)snprintf(out, FIELD_TEXT, "%" PRIu64, *(const uint64_t *)at);
        break;
    case RL_FLOAT:
        (void)snprintf(out, FIELD_TEXT, "%.9g", (double)*(const float *)at);
        break;
    case RL_BOOL:
        (void)snprintf(out, FIELD_TEXT, "%s", *(const bool *)at ? "true" : "false");
        break;
    }
}

static void our_key(const struct rl_frame *k, const char *name, char out[FIELD_KEY])
{
    (void)snprintf(out, FIELD_KEY, "%s.%s", k->algorithm, name);
}

/* ---- out ------------------------------------------------------------------------------ */

static bool is_ours(const struct rl_frame *k, const char *key)
{
    size_t n = strlen(k->algorithm);
    return strncmp(key, "nn.", 3) == 0 || (strncmp(key, k->algorithm, n) == 0 && key[n] == '.');
}

static enum err_code add_meta(const struct rl_frame *k, const struct st_meta *meta, int n_meta,
                              struct ckpt_out *c, struct err *e)
{
    if (n_meta > ST_META_MAX - META_OURS)
        return err_set(e, ERR_LIMIT, "%d metadata keys are above %d", n_meta,
                       ST_META_MAX - META_OURS);
    for (int i = 0; i < n_meta; i++) {
        if (is_ours(k, meta[i].key))
            return err_set(e, ERR_INVAL, "metadata key %s is reserved", meta[i].key);
        ckpt_meta(c, meta[i].key, "%s", meta[i].value);
    }
    return ERR_OK;
}

static enum err_code add_env(const struct rl_venv *v, struct ckpt_out *c, unsigned char **out,
                             struct err *e)
{
    size_t n = v->save ? v->save(v->env, NULL, 0) : 0;
    *out = try_zero(n, 1);
    if (!*out)
        return err_set(e, ERR_NOMEM, "%zu bytes of environment state", n);
    if (v->save && v->save(v->env, *out, n) != n)
        return err_set(e, ERR_INVAL, "the environment's state changed size while it was saved");
    ckpt_add(c, "env.state", ST_U8, *out, n);
    return ERR_OK;
}

enum err_code rl_frame_add(const struct rl_frame *k, const struct st_meta *meta, int n_meta,
                           bool resumable, struct ckpt_out *c, unsigned char **env, struct err *e)
{
    const struct nn_params *params = nn_net_params_const(k->net);
    char key[FIELD_KEY], text[FIELD_TEXT];
    *env = NULL;
    enum err_code rc = add_meta(k, meta, n_meta, c, e);
    if (rc == ERR_OK)
        rc = add_env(k->venv, c, env, e);
    if (rc)
        return rc;
    ckpt_add_net(c, k->net);
    ckpt_add_norm(c, k->norm);
    ckpt_add(c, "adam.m", ST_F32, params->m, params->total);
    ckpt_add(c, "adam.v", ST_F32, params->v, params->total);
    for (int i = 0; i < k->n_fields; i++) {
        our_key(k, k->field[i].name, key);
        field_text(k->cfg, &k->field[i], text);
        ckpt_meta(c, key, "%s", text);
    }
    our_key(k, "resumable", key);
    ckpt_meta(c, key, "%s", resumable ? "true" : "false");
    return ERR_OK;
}

/* ---- in ------------------------------------------------------------------------------- */

static enum err_code expect_config(const struct rl_frame *k, const struct st_file *f, struct err *e)
{
    char key[FIELD_KEY], text[FIELD_TEXT];
    enum err_code rc = ERR_OK;
    for (int i = 0; i < k->n_fields && rc == ERR_OK; i++) {
        our_key(k, k->field[i].name, key);
        field_text(k->cfg, &k->field[i], text);
        rc = ckpt_expect(f, &(struct st_meta){key, text}, 1, e);
    }
    our_key(k, "resumable", key);
    const struct st_meta same[] = {
        {key, "true"},
        {"nn.isa", build_isa()}, /* another one would go on with other bits */
        {"nn.version", build_version()},
    };
    return rc ? rc : ckpt_expect(f, same, ARRAY_LEN(same), e);
}

enum err_code rl_frame_load(const struct rl_frame *k, const struct st_file *f,
                            const struct st_meta *expect, int n_expect, struct err *e)
{
    struct nn_params *params = nn_net_params(k->net);
    enum err_code rc = ckpt_expect(f, expect, n_expect, e);
    if (rc == ERR_OK)
        rc = expect_config(k, f, e);
    if (rc == ERR_OK)
        rc = ckpt_load_net(f, k->net, e);
    if (rc == ERR_OK)
        rc = ckpt_load_norm(f, k->norm, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "adam.m", ST_F32, params->m, params->total, e);
    return rc ? rc : ckpt_copy(f, "adam.v", ST_F32, params->v, params->total, e);
}

enum err_code rl_frame_load_env(const struct rl_frame *k, const struct st_file *f, struct err *e)
{
    const struct st_tensor *env = st_find(f, "env.state");
    if (!k->venv->load)
        return err_set(e, ERR_INVAL, "the environment cannot restore its state");
    if (!env || env->dtype != ST_U8)
        return err_set(e, ERR_MISMATCH, "tensor env.state is missing");
    enum err_code rc = k->venv->load(k->venv->env, env->data, env->n_bytes, e);
    return rc ? err_wrap(e, "environment state") : ERR_OK;
}
