#include "tests/support/rl_ref.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "nn/head.h"
#include "tests/support/test.h"

enum { WIDTH_MAX = 512, OBS_MAX = 64 };

/* ---- networks in double --------------------------------------------------------------- */

struct ref_net ref_net_new(const struct nn_net *net)
{
    const struct nn_params *p = nn_net_params_const(net);
    struct ref_net r = {.net = net, .value = mem_zero(p->total, sizeof(double))};
    for (size_t i = 0; i < p->total; i++)
        r.value[i] = (double)p->value[i];
    return r;
}

void ref_net_free(struct ref_net *r)
{
    mem_free(r->value);
    *r = (struct ref_net){0};
}

static double activate(enum nn_act act, double x)
{
    return act == NN_TANH ? tanh(x) : act == NN_RELU ? fmax(x, 0) : x;
}

/* One dense layer in place; returns its width. */
static int layer(const struct ref_net *r, const char *name, enum nn_act act, double *x)
{
    const struct nn_params *p = nn_net_params_const(r->net);
    char full[NN_NAME_MAX];
    double y[WIDTH_MAX];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    int w = nn_params_find(p, full);
    (void)snprintf(full, sizeof full, "%s.bias", name);
    int b = nn_params_find(p, full);
    assert_true(w >= 0 && b >= 0);
    int n_in = p->table[w].dim[0], n_out = p->table[w].dim[1];
    for (int o = 0; o < n_out; o++) {
        y[o] = r->value[p->table[b].offset + (size_t)o];
        for (int i = 0; i < n_in; i++)
            y[o] += x[i] * r->value[p->table[w].offset + (size_t)(i * n_out + o)];
    }
    for (int o = 0; o < n_out; o++)
        x[o] = activate(act, y[o]);
    return n_out;
}

static void chain(const struct ref_net *r, const char *name, const float *obs, double *out)
{
    const struct nn_net_cfg *c = nn_net_cfg_get(r->net);
    char full[NN_NAME_MAX];
    for (int i = 0; i < c->n_obs; i++)
        out[i] = (double)obs[i];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(full, sizeof full, "%s.%d", name, i);
        (void)layer(r, full, c->act, out);
    }
    (void)snprintf(full, sizeof full, "%s.head", name);
    (void)layer(r, full, NN_LINEAR, out);
}

void ref_forward(const struct ref_net *r, const float *obs, double *logits, double *values)
{
    const struct nn_net_cfg *c = nn_net_cfg_get(r->net);
    double x[WIDTH_MAX];
    assert_true(c->shape != NN_LSTM);
    chain(r, c->shape == NN_SHARED ? "trunk" : "actor", obs, x);
    if (logits)
        memcpy(logits, x, (size_t)c->n_actions * sizeof *x);
    if (values && c->shape == NN_SHARED)
        memcpy(values, x + c->n_actions, (size_t)c->n_values * sizeof *x);
    if (values && c->shape == NN_SEPARATE) {
        chain(r, "critic", obs, x);
        memcpy(values, x, (size_t)c->n_values * sizeof *x);
    }
}

double ref_logp(const double *logits, const uint8_t *mask, int n_actions, double *logp)
{
    double sum = 0, entropy = 0;
    for (int a = 0; a < n_actions; a++)
        sum += mask[a] ? exp(logits[a]) : 0;
    for (int a = 0; a < n_actions; a++) {
        logp[a] = mask[a] ? logits[a] - log(sum) : -INFINITY;
        entropy -= mask[a] ? exp(logp[a]) * logp[a] : 0;
    }
    return entropy;
}

void ref_check_grad(struct ref_net *r, const float *grad, int stride,
                    double (*loss)(void *ctx, const struct ref_net *r), void *ctx)
{
    const struct nn_params *p = nn_net_params_const(r->net);
    for (int t = 0; t < p->n; t++)
        for (size_t i = 0; i < p->table[t].size; i += (size_t)stride) {
            size_t at = p->table[t].offset + i;
            double x = r->value[at], h = 1e-5;
            r->value[at] = x + h;
            double up = loss(ctx, r);
            r->value[at] = x - h;
            double down = loss(ctx, r);
            r->value[at] = x;
            assert_near((double)grad[at], (up - down) / (2 * h), 2e-6, 2e-3);
        }
}

/* ---- recording ------------------------------------------------------------------------ */

struct rl_tape *rl_tape_new(const struct rl_venv *inner)
{
    struct rl_tape *t = mem_zero(1, sizeof *t);
    size_t lanes = (size_t)inner->n_lanes, rows = (TAPE_STEPS + 1) * lanes;
    t->inner = *inner;
    t->obs = mem_zero(rows * (size_t)inner->obs_dim, sizeof(float));
    t->final_obs = mem_zero(rows * (size_t)inner->obs_dim, sizeof(float));
    t->mask = mem_zero(rows * (size_t)inner->n_actions, 1);
    t->end = mem_zero(rows, 1);
    t->action = mem_zero(rows, sizeof *t->action);
    t->reward = mem_zero(rows, sizeof(float));
    t->cost = mem_zero(rows, sizeof(float));
    return t;
}

void rl_tape_free(struct rl_tape *t)
{
    void *buffer[] = {t->obs, t->final_obs, t->mask, t->end, t->action, t->reward, t->cost, t};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
}

static void note_view(struct rl_tape *t, const float *obs, const uint8_t *mask)
{
    size_t lanes = (size_t)t->inner.n_lanes, dim = (size_t)t->inner.obs_dim,
           actions = (size_t)t->inner.n_actions;
    memcpy(t->obs + (size_t)t->n_steps * lanes * dim, obs, lanes * dim * sizeof *obs);
    memcpy(t->mask + (size_t)t->n_steps * lanes * actions, mask, lanes * actions);
}

static void tape_reset(void *self, int begin, int end, float *obs, uint8_t *mask)
{
    struct rl_tape *t = self;
    assert_true(begin == 0 && end == t->inner.n_lanes);
    t->inner.reset(t->inner.env, begin, end, obs, mask);
    note_view(t, obs, mask);
}

/* Reward of the first lane, cost of the last, the first lane's observation or mask. */
static void spoil(const struct rl_tape *t, const struct rl_step_out *out)
{
    size_t last = (size_t)t->inner.n_lanes - 1, dim = (size_t)t->inner.obs_dim;
    switch (t->spoil) {
    case TAPE_FINE:
        break;
    case TAPE_BAD_REWARD:
        out->reward[0] = NAN;
        break;
    case TAPE_BAD_COST:
        out->cost[last] = INFINITY;
        break;
    case TAPE_BAD_OBS:
        out->obs[dim - 1] = NAN;
        break;
    case TAPE_BAD_FINAL_OBS:
        out->end[last] = RL_TRUNCATED;
        out->final_obs[last * dim] = -INFINITY;
        break;
    case TAPE_BAD_MASK:
        memset(out->mask, 0, (size_t)t->inner.n_actions);
        break;
    }
}

static void tape_step(void *self, int begin, int end, const int32_t *action,
                      const struct rl_step_out *out)
{
    struct rl_tape *t = self;
    size_t lanes = (size_t)t->inner.n_lanes, row = (size_t)t->n_steps * lanes,
           dim = (size_t)t->inner.obs_dim;
    t->inner.step(t->inner.env, begin, end, action, out);
    for (size_t i = 0; i < lanes; i++)
        if (t->terminate && out->end[i] == RL_TRUNCATED)
            out->end[i] = RL_TERMINATED;
    if (t->n_steps >= TAPE_SPOIL_FROM)
        spoil(t, out);
    if (t->n_steps == TAPE_STEPS)
        return;
    memcpy(t->action + row, action, lanes * sizeof *action);
    memcpy(t->reward + row, out->reward, lanes * sizeof(float));
    memcpy(t->cost + row, out->cost, lanes * sizeof(float));
    memcpy(t->end + row, out->end, lanes);
    memcpy(t->final_obs + row * dim, out->final_obs, lanes * dim * sizeof(float));
    t->n_steps++;
    note_view(t, out->obs, out->mask);
}

struct rl_venv rl_tape_venv(struct rl_tape *t)
{
    struct rl_venv v = t->inner;
    v.env = t;
    v.reset = tape_reset;
    v.step = tape_step;
    v.save = NULL;
    v.load = NULL;
    return v;
}

/* ---- playing -------------------------------------------------------------------------- */

static void scale(const struct nn_norm *norm, const float *obs, int dim, float *out)
{
    assert_true(dim <= OBS_MAX);
    if (norm)
        nn_norm_apply(norm, obs, (size_t)dim, 1, out, (size_t)dim);
    else
        memcpy(out, obs, (size_t)dim * sizeof *obs);
}

void rl_outputs(const struct nn_net *net, const struct nn_norm *norm, const float *obs,
                float *logits, float *values)
{
    struct nn_ws *ws;
    struct err e;
    float scaled[OBS_MAX];
    int dim = nn_net_cfg_get(net)->n_obs;
    assert_ok(nn_ws_new(net, &ws, &e), &e);
    scale(norm, obs, dim, scaled);
    nn_net_forward(net, ws, scaled, (size_t)dim, 1, NULL, logits, values);
    nn_ws_free(ws);
}

static double play_once(const struct nn_net *net, const struct nn_norm *norm, struct nn_ws *ws,
                        struct test_env *env)
{
    struct rl_venv v = test_env_venv(env);
    float obs[OBS_MAX], scaled[OBS_MAX], final[OBS_MAX], reward, cost, logits[8],
        hidden[1024] = {0};
    uint8_t mask[8], end = RL_RUNNING;
    double sum = 0;
    v.reset(v.env, 0, 1, obs, mask);
    while (end == RL_RUNNING) {
        scale(norm, obs, v.obs_dim, scaled);
        nn_net_forward(net, ws, scaled, (size_t)v.obs_dim, 1, hidden, logits, NULL);
        int32_t action = nn_head_argmax(logits, mask, v.n_actions);
        v.step(v.env, 0, 1, &action, &(struct rl_step_out){obs, mask, &reward, &cost, &end, final});
        sum += (double)reward;
    }
    return sum;
}

double rl_play(const struct nn_net *net, const struct nn_norm *norm, enum test_env_kind kind,
               uint64_t seed, int n)
{
    struct nn_ws *ws;
    struct err e;
    double sum = 0;
    assert_ok(nn_ws_new(net, &ws, &e), &e);
    for (int episode = 0; episode < n; episode++) {
        struct test_env *env = test_env_new(kind, 1, seed + (uint64_t)episode);
        sum += play_once(net, norm, ws, env);
        test_env_free(env);
    }
    nn_ws_free(ws);
    return sum / n;
}
