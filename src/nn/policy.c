#include "nn/policy.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "nn/checkpoint.h"
#include "nn/head.h"

enum { ROWS = 64 }; /* of one pass through the network */

struct nn_policy {
    struct st_file *file;
    struct nn_net *net;
    struct nn_norm norm;
    struct nn_ws *ws;
    float *scaled, *logits, *logp,
        *values;  /* [ROWS][n_obs], [ROWS][n_actions], [n_actions], [ROWS][n_values] */
    float *state; /* [state_dim], scratch of attributions */
};

static enum err_code load(struct nn_policy *p, const struct st_meta *expect, int n_expect,
                          struct err *e)
{
    struct nn_net_cfg cfg;
    struct rng rng = rng_stream(0, "nn.policy"); /* the values drawn are replaced at once */
    enum err_code rc = ckpt_expect(p->file, expect, n_expect, e);
    if (rc == ERR_OK)
        rc = ckpt_net_cfg(p->file, &cfg, e);
    if (rc == ERR_OK)
        rc = nn_net_new(&cfg, &rng, &p->net, e);
    if (rc == ERR_OK)
        rc = ckpt_load_net(p->file, p->net, e);
    if (rc)
        return rc;
    nn_norm_init(&p->norm, cfg.n_obs);
    p->scaled = mem_zero(ROWS * (size_t)cfg.n_obs, sizeof(float));
    p->logits = mem_zero(ROWS * (size_t)cfg.n_actions, sizeof(float));
    p->logp = mem_zero((size_t)cfg.n_actions, sizeof(float));
    p->values = mem_zero(ROWS * (size_t)cfg.n_values, sizeof(float));
    p->state = mem_zero((size_t)nn_net_state_dim(p->net), sizeof(float));
    rc = ckpt_load_norm(p->file, &p->norm, e);
    return rc ? rc : nn_ws_new(p->net, &p->ws, e);
}

enum err_code nn_policy_load(const char *path, const struct st_meta *expect, int n_expect,
                             struct nn_policy **out, struct err *e)
{
    struct nn_policy *p = mem_zero(1, sizeof *p);
    *out = NULL;
    enum err_code rc = st_open(path, &p->file, e);
    if (rc == ERR_OK) {
        rc = load(p, expect, n_expect, e);
        if (rc)
            (void)err_wrap(e, "%s", path);
    }
    if (rc) {
        nn_policy_free(p);
        return rc;
    }
    *out = p;
    return ERR_OK;
}

void nn_policy_free(struct nn_policy *p)
{
    if (!p)
        return;
    st_free(p->file);
    nn_net_free(p->net);
    nn_norm_fini(&p->norm);
    nn_ws_free(p->ws);
    mem_free(p->scaled);
    mem_free(p->logits);
    mem_free(p->logp);
    mem_free(p->values);
    mem_free(p->state);
    mem_free(p);
}

const struct nn_net *nn_policy_net(const struct nn_policy *p)
{
    return p->net;
}

const struct nn_norm *nn_policy_norm(const struct nn_policy *p)
{
    return &p->norm;
}

const struct st_file *nn_policy_file(const struct nn_policy *p)
{
    return p->file;
}

static enum err_code check_row(const float *obs, int n_obs, const uint8_t *mask, int n_actions,
                               struct err *e)
{
    for (int j = 0; j < n_obs; j++)
        if (!isfinite(obs[j]))
            return err_set(e, ERR_NUMERIC, "observation %d is not finite", j);
    if (mask && !memchr(mask, 1, (size_t)n_actions))
        return err_set(e, ERR_INVAL, "the mask allows no action");
    return ERR_OK;
}

static enum err_code check_outputs(const float *x, int n, const char *what, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return err_set(e, ERR_NUMERIC, "%s %d is not finite", what, i);
    return ERR_OK;
}

enum err_code nn_policy_act(struct nn_policy *p, const float *obs, const uint8_t *mask,
                            float *state, int *action, float *prob, float *value, struct err *e)
{
    const struct nn_net_cfg *c = nn_net_cfg_get(p->net);
    size_t n_obs = (size_t)c->n_obs;
    enum err_code rc = check_row(obs, c->n_obs, mask, c->n_actions, e);
    if (rc)
        return rc;
    nn_norm_apply(&p->norm, obs, n_obs, 1, p->scaled, n_obs);
    nn_net_forward(p->net, p->ws, p->scaled, n_obs, 1, state, p->logits, value ? p->values : NULL);
    rc = check_outputs(p->logits, c->n_actions, "logit", e);
    if (rc == ERR_OK && value)
        rc = check_outputs(p->values, c->n_values, "value", e);
    if (rc)
        return rc;
    *action = nn_head_argmax(p->logits, mask, c->n_actions);
    if (value)
        memcpy(value, p->values, (size_t)c->n_values * sizeof(float));
    if (prob) {
        (void)nn_head_logp(p->logits, mask, c->n_actions, p->logp);
        for (int a = 0; a < c->n_actions; a++)
            prob[a] = expf(p->logp[a]);
    }
    return ERR_OK;
}

static enum err_code act_rows(struct nn_policy *p, const float *obs, const uint8_t *mask, int n,
                              float *state, int32_t *action, struct err *e)
{
    const struct nn_net_cfg *c = nn_net_cfg_get(p->net);
    size_t n_obs = (size_t)c->n_obs, n_actions = (size_t)c->n_actions;
    for (int i = 0; i < n; i++) {
        enum err_code rc = check_row(obs + (size_t)i * n_obs, c->n_obs,
                                     mask ? mask + (size_t)i * n_actions : NULL, c->n_actions, e);
        if (rc)
            return rc;
    }
    nn_norm_apply(&p->norm, obs, n_obs, n, p->scaled, n_obs);
    nn_net_forward(p->net, p->ws, p->scaled, n_obs, n, state, p->logits, NULL);
    enum err_code rc = check_outputs(p->logits, n * c->n_actions, "logit", e);
    for (int i = 0; i < n && rc == ERR_OK; i++)
        action[i] = nn_head_argmax(p->logits + (size_t)i * n_actions,
                                   mask ? mask + (size_t)i * n_actions : NULL, c->n_actions);
    return rc;
}

enum err_code nn_policy_act_many(struct nn_policy *p, const float *obs, const uint8_t *mask, int n,
                                 float *state, int32_t *action, struct err *e)
{
    const struct nn_net_cfg *c = nn_net_cfg_get(p->net);
    size_t state_dim = (size_t)nn_net_state_dim(p->net);
    for (int i = 0; i < n; i += ROWS) {
        size_t at = (size_t)i;
        enum err_code rc = act_rows(
            p, obs + at * (size_t)c->n_obs, mask ? mask + at * (size_t)c->n_actions : NULL,
            n - i < ROWS ? n - i : ROWS, state_dim ? state + at * state_dim : NULL, action + i, e);
        if (rc)
            return err_wrap(e, "rows from %d", i);
    }
    return ERR_OK;
}

/* Logit of the action minus the mean of the other allowed ones, at p->scaled. */
static double preference(struct nn_policy *p, const uint8_t *mask, const float *state, int action)
{
    const struct nn_net_cfg *c = nn_net_cfg_get(p->net);
    size_t state_dim = (size_t)nn_net_state_dim(p->net);
    double others = 0;
    int n = 0;
    if (state_dim > 0)
        memcpy(p->state, state, state_dim * sizeof(float));
    nn_net_forward(p->net, p->ws, p->scaled, (size_t)c->n_obs, 1, p->state, p->logits, NULL);
    for (int a = 0; a < c->n_actions; a++)
        if (a != action && (!mask || mask[a])) {
            others += (double)p->logits[a];
            n++;
        }
    return (double)p->logits[action] - (n ? others / n : 0.0);
}

void nn_policy_attribution(struct nn_policy *p, const float *obs, const uint8_t *mask,
                           const float *state, int action, float *grad)
{
    const float half_step = 0.05f; /* of a deviation: wide enough that rounding does not show */
    size_t n_obs = (size_t)nn_net_cfg_get(p->net)->n_obs;
    nn_norm_apply(&p->norm, obs, n_obs, 1, p->scaled, n_obs);
    for (size_t j = 0; j < n_obs; j++) {
        float x = p->scaled[j];
        p->scaled[j] = x + half_step;
        double up = preference(p, mask, state, action);
        p->scaled[j] = x - half_step;
        double down = preference(p, mask, state, action);
        p->scaled[j] = x;
        grad[j] = (float)((up - down) / (2 * (double)half_step) * (double)p->norm.scale[j]);
    }
}
