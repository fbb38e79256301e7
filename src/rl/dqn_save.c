/* dqn_save.c - the trainer's whole state in and out of a safetensors file.
 *
 * Beside what persist.h keeps: "dqn.target", the target network in the layout of the parameter
 * table; "lane.*"; "dqn.real" and "dqn.count" in the order of struct reals and struct counts;
 * "replay.*", the rows in use. Rows are drawn and acted on long after loading, so whatever could
 * index out of an array is checked here. */
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "rl/dqn_priv.h"

struct reals {
    double reward_count, reward_mean, reward_m2;
};
struct counts {
    int64_t iteration, steps, episodes, updates, adam_t, replay_steps, masked, started, n_lanes;
};
enum {
    N_REALS = sizeof(struct reals) / sizeof(double),
    N_COUNTS = sizeof(struct counts) / sizeof(int64_t)
};

/* One vector of the state. */
struct part {
    const char *name;
    enum st_dtype dtype;
    void *data;
    size_t n;
};
enum { N_PARTS = 12 };

static const int64_t COUNT_MAX = INT64_C(1) << 52; /* sums of counts stay far from overflow */

static struct rl_frame frame_of(const struct dqn *d)
{
    return (struct rl_frame){.algorithm = "dqn",
                             .field = dqn_fields,
                             .n_fields = dqn_n_fields,
                             .cfg = &d->cfg,
                             .venv = &d->venv,
                             .net = d->net,
                             .norm = (struct nn_norm *)(uintptr_t)&d->norm};
}

/* Everything that is a plain vector, for both directions. */
static void list_parts(const struct dqn *d, size_t rows, struct part out[N_PARTS])
{
    const struct dqn_lanes *l = &d->lanes;
    const struct replay *r = &d->replay;
    const struct nn_params *target = nn_net_params(d->target);
    size_t lanes = (size_t)d->venv.n_lanes, dim = (size_t)d->venv.obs_dim,
           actions = (size_t)d->venv.n_actions;
    const struct part list[N_PARTS] = {
        {"dqn.target", ST_F32, target->value, target->total},
        {"lane.obs", ST_F32, l->obs, lanes * dim},
        {"lane.mask", ST_U8, l->mask, lanes * actions},
        {"lane.discounted", ST_F64, l->discounted, lanes},
        {"lane.return", ST_F64, l->episode_return, lanes},
        {"lane.length", ST_F64, l->episode_length, lanes},
        {"replay.obs", ST_F32, r->obs, rows * dim},
        {"replay.next_obs", ST_F32, r->next_obs, rows * dim},
        {"replay.next_mask", ST_U8, r->next_mask, rows * actions},
        {"replay.action", ST_I32, r->action, rows},
        {"replay.reward", ST_F32, r->reward, rows},
        {"replay.end", ST_U8, r->end, rows},
    };
    memcpy(out, list, sizeof list);
}

/* ---- out ------------------------------------------------------------------------------ */

enum err_code dqn_save(const struct dqn *d, const char *path, const struct dqn_save_opts *o,
                       struct err *e)
{
    const struct reward_norm *rn = &d->reward_norm;
    struct reals reals = {rn->count, rn->mean, rn->m2};
    struct counts counts = {d->iteration,     d->steps,         d->episodes,
                            d->updates,       d->update.adam.t, d->replay.n_steps,
                            d->replay.masked, d->lanes.started, d->venv.n_lanes};
    struct rl_frame frame = frame_of(d);
    struct part part[N_PARTS];
    struct ckpt_out *c = ckpt_out_new();
    unsigned char *env;
    enum err_code rc =
        rl_frame_add(&frame, o->meta, o->n_meta, o->replay && d->venv.save, c, &env, e);
    if (rc)
        goto out;
    ckpt_meta(c, "dqn.steps_done", "%" PRId64, d->steps);
    ckpt_add(c, "dqn.real", ST_F64, &reals, N_REALS);
    ckpt_add(c, "dqn.count", ST_I64, &counts, N_COUNTS);
    list_parts(d, o->replay ? (size_t)replay_rows(&d->replay) : 0, part);
    for (int i = 0; i < N_PARTS; i++)
        ckpt_add(c, part[i].name, part[i].dtype, part[i].data, part[i].n);
    for (int i = 0; i < o->n_extra; i++)
        ckpt_add(c, o->extra[i].name, o->extra[i].dtype, o->extra[i].data,
                 o->extra[i].n_bytes / st_dtype_size(o->extra[i].dtype));
    rc = ckpt_write(c, path, e);
out:
    mem_free(env);
    ckpt_out_free(c);
    return rc;
}

/* ---- in ------------------------------------------------------------------------------- */

static bool sane(const struct reals *r, const struct counts *c)
{
    const int64_t count[] = {c->iteration, c->steps,  c->episodes,
                             c->updates,   c->adam_t, c->replay_steps};
    bool ok = r->reward_count >= 0 && r->reward_m2 >= 0;
    for (size_t i = 0; i < ARRAY_LEN(count); i++)
        ok = ok && count[i] >= 0 && count[i] <= COUNT_MAX;
    return ok;
}

static enum err_code load_counters(struct dqn *d, const struct st_file *f, struct err *e)
{
    struct reals r;
    struct counts c;
    enum err_code rc = ckpt_copy(f, "dqn.real", ST_F64, &r, N_REALS, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "dqn.count", ST_I64, &c, N_COUNTS, e);
    if (rc)
        return rc;
    if (c.n_lanes != d->venv.n_lanes)
        return err_set(e, ERR_MISMATCH, "lanes: the file has %" PRId64 ", expected %d", c.n_lanes,
                       d->venv.n_lanes);
    if (!sane(&r, &c))
        return err_set(e, ERR_RANGE, "a counter is negative or too large");
    d->reward_norm = (struct reward_norm){r.reward_count, r.reward_mean, r.reward_m2};
    d->iteration = c.iteration;
    d->steps = c.steps;
    d->episodes = c.episodes;
    d->updates = c.updates;
    d->update.adam.t = c.adam_t;
    d->replay.n_steps = c.replay_steps;
    d->replay.masked = c.masked != 0;
    d->lanes.started = c.started != 0;
    return ERR_OK;
}

static enum err_code check_rows(const struct replay *r, struct err *e)
{
    size_t actions = (size_t)r->n_actions;
    for (int32_t i = 0; i < replay_rows(r); i++)
        if (r->action[i] < 0 || r->action[i] >= r->n_actions || r->end[i] > RL_TRUNCATED ||
            !memchr(r->next_mask + (size_t)i * actions, 1, actions))
            return err_set(e, ERR_RANGE, "replay row %" PRId32 ": action, end or mask cannot be",
                           i);
    return ERR_OK;
}

static enum err_code load_state(struct dqn *d, const struct st_file *f, struct err *e)
{
    struct part part[N_PARTS];
    enum err_code rc = load_counters(d, f, e);
    if (rc)
        return rc;
    list_parts(d, (size_t)replay_rows(&d->replay), part);
    for (int i = 0; i < N_PARTS && rc == ERR_OK; i++)
        rc = ckpt_copy(f, part[i].name, part[i].dtype, part[i].data, part[i].n, e);
    if (rc == ERR_OK)
        rc = check_rows(&d->replay, e);
    if (rc == ERR_OK)
        nn_net_pack(d->target);
    return rc;
}

enum err_code dqn_load(struct dqn *d, const char *path, const struct st_meta *expect, int n_expect,
                       struct err *e)
{
    struct rl_frame frame = frame_of(d);
    struct st_file *f;
    enum err_code rc = st_open(path, &f, e);
    if (rc)
        return rc;
    rc = rl_frame_load(&frame, f, expect, n_expect, e);
    if (rc == ERR_OK)
        rc = load_state(d, f, e);
    if (rc == ERR_OK)
        rc = rl_frame_load_env(&frame, f, e);
    if (rc)
        (void)err_wrap(e, "%s", path);
    st_free(f);
    return rc;
}
