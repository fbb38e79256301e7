/* ppo_save.c - the trainer's whole state in and out of a safetensors file.
 *
 * Beside the policy (checkpoint.h): "adam.m", "adam.v" in the layout of the parameter table;
 * "lane.*", what the collector knows of each lane; "env.state", the environment's own bytes;
 * "ppo.real" and "ppo.count", the counters in the order of struct reals and struct counts; metadata
 * "ppo.<field>" for every field of the configuration that decides the result. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/mem.h"
#include "nn/checkpoint.h"
#include "rl/ppo_priv.h"

enum { FIELD_TEXT = 32, FIELD_KEY = 40 };

struct reals {
    double lambda, integral, cost_mean, reward_count, reward_mean, reward_m2;
};
struct counts {
    int64_t iteration, steps, episodes, adam_t, collector_step, started, warm, n_lanes;
};
enum {
    N_REALS = sizeof(struct reals) / sizeof(double),
    N_COUNTS = sizeof(struct counts) / sizeof(int64_t)
};

static void field_text(const struct ppo_cfg *c, const struct ppo_field *f, char out[FIELD_TEXT])
{
    const char *at = (const char *)c + f->offset;
    switch (f->kind) {
    case PPO_INT:
        (void)snprintf(out, FIELD_TEXT, "%d", *(const int *)at);
        break;
    case PPO_I64:
        (void)snprintf(out, FIELD_TEXT, "%" PRId64, *(const int64_t *)at);
        break;
    case PPO_U64:
        (void)snprintf(out, FIELD_TEXT, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PPO_FLOAT:
        (void)snprintf(out, FIELD_TEXT, "%.9g", (double)*(const float *)at);
        break;
    case PPO_BOOL:
        (void)snprintf(out, FIELD_TEXT, "%s", *(const bool *)at ? "true" : "false");
        break;
    }
}

static void field_key(const struct ppo_field *f, char out[FIELD_KEY])
{
    (void)snprintf(out, FIELD_KEY, "ppo.%s", f->name);
}

/* ---- out
 * -------------------------------------------------------------------------------------- */

static void add_lanes(struct ckpt_out *c, const struct ppo *p)
{
    const struct collector *k = &p->collector;
    size_t lanes = (size_t)p->venv->n_lanes;
    ckpt_add(c, "lane.obs", ST_F32, k->obs, lanes * (size_t)p->venv->obs_dim);
    ckpt_add(c, "lane.mask", ST_U8, k->mask, lanes * (size_t)p->venv->n_actions);
    ckpt_add(c, "lane.reset", ST_U8, k->reset, lanes);
    ckpt_add(c, "lane.state", ST_F32, k->state, lanes * (size_t)k->state_dim);
    ckpt_add(c, "lane.discounted", ST_F64, k->discounted, lanes);
    ckpt_add(c, "lane.return", ST_F64, k->episode_return, lanes);
    ckpt_add(c, "lane.length", ST_F64, k->episode_length, lanes);
}

static void add_config(struct ckpt_out *c, const struct ppo *p, bool resumable)
{
    for (int i = 0; i < ppo_n_fields; i++) {
        char key[FIELD_KEY], text[FIELD_TEXT];
        field_key(&ppo_fields[i], key);
        field_text(&p->cfg, &ppo_fields[i], text);
        ckpt_meta(c, key, "%s", text);
    }
    ckpt_meta(c, "ppo.steps_done", "%" PRId64, p->steps);
    ckpt_meta(c, "ppo.resumable", "%s", resumable ? "true" : "false");
}

static enum err_code add_meta(struct ckpt_out *c, const struct st_meta *meta, int n_meta,
                              struct err *e)
{
    if (n_meta > ST_META_MAX - 64)
        return err_set(e, ERR_LIMIT, "%d metadata keys are above %d", n_meta, ST_META_MAX - 64);
    for (int i = 0; i < n_meta; i++) {
        if (strncmp(meta[i].key, "ppo.", 4) == 0 || strncmp(meta[i].key, "nn.", 3) == 0)
            return err_set(e, ERR_INVAL, "metadata key %s is reserved", meta[i].key);
        ckpt_meta(c, meta[i].key, "%s", meta[i].value);
    }
    return ERR_OK;
}

static enum err_code copy_env(const struct rl_venv *v, unsigned char **out, size_t *n,
                              struct err *e)
{
    *n = v->save ? v->save(v->env, NULL, 0) : 0;
    *out = try_zero(*n, 1);
    if (!*out)
        return err_set(e, ERR_NOMEM, "%zu bytes of environment state", *n);
    if (v->save && v->save(v->env, *out, *n) != *n)
        return err_set(e, ERR_INVAL, "the environment's state changed size while it was saved");
    return ERR_OK;
}

enum err_code ppo_save(const struct ppo *p, const char *path, const struct st_meta *meta,
                       int n_meta, const struct st_tensor *extra, int n_extra, struct err *e)
{
    const struct nn_params *params = nn_net_params_const(p->net);
    const struct reward_norm *rn = &p->collector.reward_norm;
    struct reals reals = {p->lambda, p->integral, p->cost_mean, rn->count, rn->mean, rn->m2};
    struct counts counts = {p->iteration,     p->steps,          p->episodes,
                            p->update.adam.t, p->collector.step, p->collector.started,
                            p->warm,          p->venv->n_lanes};
    struct ckpt_out *c = ckpt_out_new();
    unsigned char *env;
    size_t n_env;
    enum err_code rc = copy_env(p->venv, &env, &n_env, e);
    if (rc == ERR_OK)
        rc = add_meta(c, meta, n_meta, e);
    if (rc)
        goto out;
    ckpt_add_net(c, p->net);
    ckpt_add_norm(c, &p->norm);
    add_config(c, p, p->venv->save != NULL);
    ckpt_add(c, "ppo.prior", ST_F32, p->prior, (size_t)p->venv->n_actions);
    ckpt_add(c, "ppo.real", ST_F64, &reals, N_REALS);
    ckpt_add(c, "ppo.count", ST_I64, &counts, N_COUNTS);
    ckpt_add(c, "adam.m", ST_F32, params->m, params->total);
    ckpt_add(c, "adam.v", ST_F32, params->v, params->total);
    add_lanes(c, p);
    ckpt_add(c, "env.state", ST_U8, env, n_env);
    for (int i = 0; i < n_extra; i++)
        ckpt_add(c, extra[i].name, extra[i].dtype, extra[i].data,
                 extra[i].n_bytes / st_dtype_size(extra[i].dtype));
    rc = ckpt_write(c, path, e);
out:
    mem_free(env);
    ckpt_out_free(c);
    return rc;
}

/* ---- in
 * --------------------------------------------------------------------------------------- */

static enum err_code check_config(const struct ppo *p, const struct st_file *f, struct err *e)
{
    enum err_code rc = ERR_OK;
    for (int i = 0; i < ppo_n_fields && rc == ERR_OK; i++) {
        char key[FIELD_KEY], text[FIELD_TEXT];
        field_key(&ppo_fields[i], key);
        field_text(&p->cfg, &ppo_fields[i], text);
        rc = ckpt_expect(f, &(struct st_meta){key, text}, 1, e);
    }
    const struct st_meta same[] = {
        {"ppo.resumable", "true"},
        {"nn.isa", build_isa()}, /* another one would go on with other bits */
        {"nn.version", build_version()},
    };
    if (rc == ERR_OK)
        rc = ckpt_expect(f, same, ARRAY_LEN(same), e);
    if (rc == ERR_OK && !p->venv->load)
        rc = err_set(e, ERR_INVAL, "the environment cannot restore its state");
    return rc;
}

static enum err_code load_lanes(struct ppo *p, const struct st_file *f, struct err *e)
{
    struct collector *k = &p->collector;
    size_t lanes = (size_t)p->venv->n_lanes;
    const struct {
        const char *name;
        enum st_dtype dtype;
        void *to;
        size_t n;
    } part[] = {
        {"lane.obs", ST_F32, k->obs, lanes * (size_t)p->venv->obs_dim},
        {"lane.mask", ST_U8, k->mask, lanes * (size_t)p->venv->n_actions},
        {"lane.reset", ST_U8, k->reset, lanes},
        {"lane.state", ST_F32, k->state, lanes * (size_t)k->state_dim},
        {"lane.discounted", ST_F64, k->discounted, lanes},
        {"lane.return", ST_F64, k->episode_return, lanes},
        {"lane.length", ST_F64, k->episode_length, lanes},
        {"ppo.prior", ST_F32, p->prior, (size_t)p->venv->n_actions},
    };
    enum err_code rc = ERR_OK;
    for (size_t i = 0; i < ARRAY_LEN(part) && rc == ERR_OK; i++)
        rc = ckpt_copy(f, part[i].name, part[i].dtype, part[i].to, part[i].n, e);
    return rc;
}

static bool sane(const struct reals *r, const struct counts *c)
{
    return r->lambda >= 0 && r->integral >= 0 && r->reward_count >= 0 && r->reward_m2 >= 0 &&
           c->iteration >= 0 && c->steps >= 0 && c->episodes >= 0 && c->adam_t >= 0 &&
           c->collector_step >= 0;
}

static enum err_code load_counters(struct ppo *p, const struct st_file *f, struct err *e)
{
    struct reals r;
    struct counts c;
    enum err_code rc = ckpt_copy(f, "ppo.real", ST_F64, &r, N_REALS, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "ppo.count", ST_I64, &c, N_COUNTS, e);
    if (rc)
        return rc;
    if (c.n_lanes != p->venv->n_lanes)
        return err_set(e, ERR_MISMATCH, "lanes: the file has %" PRId64 ", expected %d", c.n_lanes,
                       p->venv->n_lanes);
    if (!sane(&r, &c))
        return err_set(e, ERR_RANGE, "a counter is negative");
    p->lambda = r.lambda;
    p->integral = r.integral;
    p->cost_mean = r.cost_mean;
    p->collector.reward_norm = (struct reward_norm){r.reward_count, r.reward_mean, r.reward_m2};
    p->iteration = c.iteration;
    p->steps = c.steps;
    p->episodes = c.episodes;
    p->update.adam.t = c.adam_t;
    p->collector.step = c.collector_step;
    p->collector.started = c.started != 0;
    p->warm = c.warm != 0;
    return ERR_OK;
}

static enum err_code load_training(struct ppo *p, const struct st_file *f, struct err *e)
{
    struct nn_params *params = nn_net_params(p->net);
    enum err_code rc = load_counters(p, f, e);
    if (rc == ERR_OK)
        rc = load_lanes(p, f, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "adam.m", ST_F32, params->m, params->total, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "adam.v", ST_F32, params->v, params->total, e);
    if (rc)
        return rc;
    const struct st_tensor *env = st_find(f, "env.state");
    if (!env || env->dtype != ST_U8)
        return err_set(e, ERR_MISMATCH, "tensor env.state is missing");
    rc = p->venv->load(p->venv->env, env->data, env->n_bytes, e);
    return rc ? err_wrap(e, "environment state") : ERR_OK;
}

enum err_code ppo_load(struct ppo *p, const char *path, const struct st_meta *expect, int n_expect,
                       struct err *e)
{
    struct st_file *f;
    enum err_code rc = st_open(path, &f, e);
    if (rc)
        return rc;
    rc = ckpt_expect(f, expect, n_expect, e);
    if (rc == ERR_OK)
        rc = check_config(p, f, e);
    if (rc == ERR_OK)
        rc = ckpt_load_net(f, p->net, e);
    if (rc == ERR_OK)
        rc = ckpt_load_norm(f, &p->norm, e);
    if (rc == ERR_OK)
        rc = load_training(p, f, e);
    replicas_changed(p->update.replicas);
    if (rc)
        (void)err_wrap(e, "%s", path);
    st_free(f);
    return rc;
}
