#include "rl/replay.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum err_code replay_init(struct replay *r, const struct rl_venv *venv, int capacity, struct err *e)
{
    *r = (struct replay){
        .n_lanes = venv->n_lanes, .obs_dim = venv->obs_dim, .n_actions = venv->n_actions};
    r->n_slots = capacity / venv->n_lanes;
    if (r->n_slots < 1 || capacity > REPLAY_ROWS_MAX)
        return err_set(e, ERR_RANGE, "replay_capacity: %d is outside %d..%d", capacity,
                       venv->n_lanes, REPLAY_ROWS_MAX);
    size_t rows = (size_t)r->n_slots * (size_t)r->n_lanes;
    r->obs = try_zero_aligned(rows * (size_t)r->obs_dim, sizeof(float));
    r->next_obs = try_zero_aligned(rows * (size_t)r->obs_dim, sizeof(float));
    r->next_mask = try_zero(rows * (size_t)r->n_actions, 1);
    r->action = try_zero(rows, sizeof *r->action);
    r->reward = try_zero(rows, sizeof(float));
    r->end = try_zero(rows, 1);
    if (r->obs && r->next_obs && r->next_mask && r->action && r->reward && r->end)
        return ERR_OK;
    replay_fini(r);
    return err_set(e, ERR_NOMEM, "replay of %zu rows", rows);
}

void replay_fini(struct replay *r)
{
    void *buffer[] = {r->obs, r->next_obs, r->next_mask, r->action, r->reward, r->end};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
    *r = (struct replay){0};
}

int32_t replay_slot(const struct replay *r, int64_t step)
{
    return (int32_t)(step % r->n_slots) * r->n_lanes;
}

int32_t replay_rows(const struct replay *r)
{
    return (int32_t)(r->n_steps < r->n_slots ? r->n_steps : r->n_slots) * r->n_lanes;
}

void replay_add_obs(struct replay *r, int begin, int end, const float *obs, int64_t step)
{
    size_t dim = (size_t)r->obs_dim, first = (size_t)replay_slot(r, step) + (size_t)begin;
    memcpy(r->obs + first * dim, obs + (size_t)begin * dim,
           (size_t)(end - begin) * dim * sizeof(float));
}

void replay_add_step(struct replay *r, int begin, int end, const int32_t *action, float cost_price,
                     const struct rl_step_out *out, int64_t step)
{
    size_t dim = (size_t)r->obs_dim, actions = (size_t)r->n_actions;
    for (size_t lane = (size_t)begin; lane < (size_t)end; lane++) {
        size_t row = (size_t)replay_slot(r, step) + lane;
        bool ended = out->end[lane] != RL_RUNNING;
        memcpy(r->next_obs + row * dim, (ended ? out->final_obs : out->obs) + lane * dim,
               dim * sizeof(float));
        if (ended)
            memset(r->next_mask + row * actions, 1, actions);
        else
            memcpy(r->next_mask + row * actions, out->mask + lane * actions, actions);
        r->action[row] = action[lane];
        r->reward[row] = out->reward[lane] - cost_price * out->cost[lane];
        r->end[row] = out->end[lane];
    }
}

float replay_weight(const struct replay *r, int32_t row)
{
    return r->masked && r->end[row] == RL_TRUNCATED ? 0.0f : 1.0f;
}
