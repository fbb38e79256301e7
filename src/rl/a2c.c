#include "rl/a2c.h"

#include <string.h>

#include "base/mem.h"

static const struct st_meta mark = {"a2c.format", "1"};

struct a2c {
    struct ppo *ppo;
};

struct a2c_cfg a2c_cfg_default(void)
{
    return (struct a2c_cfg){
        .shape = NN_SEPARATE,
        .n_hidden = 64,
        .n_steps = 16,
        .seq_steps = 16,
        .total_steps = 1000000,
        .lr = 2e-3f,
        .lr_final = 0.0f,
        .value_coef = 0.5f,
        .entropy = 0.01f,
        .entropy_final = 0.0f,
        .max_grad_norm = 0.5f,
        .gamma = 0.99f,
        .gae_lambda = 0.95f,
        .norm_obs = true,
        .norm_reward = true,
        .cost_limit = 0.01f,
        .dual_rate = 0.002f,
        .dual_smooth = 0.98f,
        .n_threads = 1,
        .seed = 1,
    };
}

static struct ppo_cfg as_ppo(const struct a2c_cfg *c)
{
    struct ppo_cfg p = ppo_cfg_default();
    p.epochs = 1;    /* one step ... */
    p.minibatch = 0; /* ... on the whole batch */
    p.clip = 1.0f;   /* wider than any rounding of a ratio of 1 */
    p.value_clip = 0;
    p.target_kl = 0;
    p.bf16_grad = false;
    p.shape = c->shape;
    p.n_hidden = c->n_hidden;
    p.n_steps = c->n_steps;
    p.seq_steps = c->seq_steps;
    p.total_steps = c->total_steps;
    p.lr = c->lr;
    p.lr_final = c->lr_final;
    p.value_coef = c->value_coef;
    p.entropy = c->entropy;
    p.entropy_final = c->entropy_final;
    p.max_grad_norm = c->max_grad_norm;
    p.gamma = c->gamma;
    p.gae_lambda = c->gae_lambda;
    p.norm_obs = c->norm_obs;
    p.norm_reward = c->norm_reward;
    p.constrained = c->constrained;
    p.cost_limit = c->cost_limit;
    p.dual_rate = c->dual_rate;
    p.dual_smooth = c->dual_smooth;
    p.logit_bias = c->logit_bias;
    p.n_threads = c->n_threads;
    p.seed = c->seed;
    return p;
}

enum err_code a2c_new(const struct a2c_cfg *cfg, const struct rl_venv *venv, struct a2c **out,
                      struct err *e)
{
    struct ppo_cfg p = as_ppo(cfg);
    struct ppo *ppo;
    *out = NULL;
    enum err_code rc = ppo_new(&p, venv, &ppo, e);
    if (rc)
        return rc;
    *out = mem_zero(1, sizeof **out);
    (*out)->ppo = ppo;
    return ERR_OK;
}

void a2c_free(struct a2c *a)
{
    if (!a)
        return;
    ppo_free(a->ppo);
    mem_free(a);
}

enum err_code a2c_train(struct a2c *a, ppo_hook_fn *hook, void *ctx, struct err *e)
{
    return ppo_train(a->ppo, hook, ctx, e);
}

bool a2c_done(const struct a2c *a)
{
    return ppo_done(a->ppo);
}

/* The caller's pairs and ours. */
static enum err_code with_mark(const struct st_meta *meta, int n, struct st_meta out[ST_META_MAX],
                               struct err *e)
{
    if (n < 0 || n >= ST_META_MAX)
        return err_set(e, ERR_LIMIT, "%d metadata keys are above %d", n, ST_META_MAX - 1);
    for (int i = 0; i < n; i++) {
        if (strncmp(meta[i].key, "a2c.", 4) == 0)
            return err_set(e, ERR_INVAL, "metadata key %s is reserved", meta[i].key);
        out[i] = meta[i];
    }
    out[n] = mark;
    return ERR_OK;
}

enum err_code a2c_save(const struct a2c *a, const char *path, const struct st_meta *meta,
                       int n_meta, const struct st_tensor *extra, int n_extra, struct err *e)
{
    struct st_meta all[ST_META_MAX];
    enum err_code rc = with_mark(meta, n_meta, all, e);
    return rc ? rc : ppo_save(a->ppo, path, all, n_meta + 1, extra, n_extra, e);
}

enum err_code a2c_load(struct a2c *a, const char *path, const struct st_meta *expect, int n_expect,
                       struct err *e)
{
    struct st_meta all[ST_META_MAX];
    enum err_code rc = with_mark(expect, n_expect, all, e);
    return rc ? rc : ppo_load(a->ppo, path, all, n_expect + 1, e);
}

const struct nn_net *a2c_net(const struct a2c *a)
{
    return ppo_net(a->ppo);
}

const struct nn_norm *a2c_norm(const struct a2c *a)
{
    return ppo_norm(a->ppo);
}
