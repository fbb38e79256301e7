/* ppo.c - a trained network chooses among seven sizes, alone or on top of a base policy.
 *
 * Alone, action a stands for the requested size plus (a - 3) steps.  With a base, it shifts what
 * the base proposes, by units or by a margin on the demand planned for (`residual`).  It acts by
 * arg max over the actions the guard would execute.  A network that is absent, or an observation or
 * output that is not finite, is an error in the record; then the size is held, or the base's or the
 * rule's taken (`on_error`). */
#include <string.h>

#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/policy_priv.h"
#include "decide/sane.h"
#include "nn/policy.h"

static const char *const base_names[] = {"none", "mpc", "predictive", "outlook", NULL};
static const char *const residual_names[] = {"units", "margin", NULL};
static const char *const on_error_names[] = {"hold", "baseline", NULL};

#define O struct ppo_options
static const struct opt_row rows[] = {
    OPT_ENUM(O, base, "base", "none", base_names, "policy whose proposal an action shifts"),
    OPT_ENUM(O, residual, "residual", "units", residual_names, "what an action shifts"),
    OPT_DOUBLE(O, residual_step, "residual_step", "0.08", "0.001", "0.3",
               "margin: relative change of the planned demand per step of an action"),
    OPT_ENUM(O, on_error, "on_error", "hold", on_error_names,
             "when the network cannot decide: hold the size, or take the base's or rule's"),
};
#undef O
static const struct opt_table options =
    OPT_TABLE("ppo", struct ppo_options, rows, "A policy learned in the simulator.");

static enum err_code validate_base(const struct capacity_config *cfg, const struct ppo_options *o,
                                   struct err *e)
{
    const char *want = base_names[o->base];
    const struct policy *base = cfg->base.policy;
    if (o->base == PPO_BASE_NONE && base)
        return err_set(e, ERR_INVAL, "base: none, but a base policy %s is given", base->name);
    if (o->base != PPO_BASE_NONE && (!base || strcmp(base->name, want) != 0))
        return err_set(e, ERR_INVAL, "base: %s, but the base policy given is %s", want,
                       base ? base->name : "none");
    if (o->base != PPO_BASE_NONE && o->residual == PPO_RESIDUAL_MARGIN && !base->levels)
        return err_set(e, ERR_INVAL, "residual: margin: %s has no planned demand to shift",
                       base->name);
    return ERR_OK;
}

static enum err_code validate(const struct capacity_config *cfg, const union policy_options *opt,
                              struct err *e)
{
    enum err_code rc = validate_base(cfg, &opt->ppo, e);
    if (rc || !cfg->net)
        return rc;
    const struct nn_net *net = nn_policy_net(cfg->net);
    const struct nn_net_cfg *c = nn_net_cfg_get(net);
    if (c->n_obs != CAPACITY_OBS || c->n_actions != CAPACITY_ACTIONS)
        return err_set(e, ERR_MISMATCH,
                       "network has %d inputs and %d actions, this build %d and %d", c->n_obs,
                       c->n_actions, CAPACITY_OBS, CAPACITY_ACTIONS);
    if (nn_net_state_dim(net) > PPO_STATE_MAX)
        return err_set(e, ERR_LIMIT, "network carries %d floats of state, at most %d",
                       nn_net_state_dim(net), PPO_STATE_MAX);
    return ERR_OK;
}

static void init(const struct capacity_config *cfg, const union policy_options *opt,
                 union policy_memory *m)
{
    (void)cfg;
    (void)opt;
    m->ppo = (struct ppo_memory){{0}};
}

static void fall_back(const struct policy_input *in, enum err_code why, struct policy_proposal *out)
{
    int units = -1;
    out->error = why;
    if (in->opt->ppo.on_error == PPO_ON_ERROR_BASELINE)
        units = in->state->base_units >= 0 ? in->state->base_units : in->state->rule_units;
    out->units = units >= 0 ? units : in->view->units_requested;
}

static void propose(const struct policy_input *in, union policy_memory *m, struct rng *rng,
                    struct policy_proposal *out)
{
    struct nn_policy *net = in->cfg->net;
    float value[8] = {0}; /* nn_net_cfg.n_values is at most 8 */
    struct err e;
    int action;
    (void)rng; /* live acts by arg max */
    if (!net) {
        fall_back(in, ERR_MISSING, out);
        return;
    }
    float *state = nn_net_state_dim(nn_policy_net(net)) > 0 ? m->ppo.hc : NULL;
    enum err_code rc = nn_policy_act(net, in->obs, in->mask, state, &action, out->prob, value, &e);
    if (rc) {
        fall_back(in, rc, out);
        return;
    }
    out->action = action;
    out->value = value[0];
    out->units = in->units[action];
}

static bool sane(const union policy_memory *m)
{
    return sane_floats(m->ppo.hc, PPO_STATE_MAX, 1e6f);
}

const struct policy policy_ppo = {
    .name = "ppo",
    .summary = "a network trained in the simulator",
    .guarded = true,
    .learned = true,
    .memory_bytes = sizeof(struct ppo_memory),
    .options = &options,
    .validate = validate,
    .init = init,
    .propose = propose,
    .sane = sane,
};
