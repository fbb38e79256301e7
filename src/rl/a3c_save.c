/* a3c_save.c - the shared state in and out of a safetensors file: what persist.h keeps, "a3c.real"
 * and "a3c.count" in the order of struct reals and struct counts.  Lanes are not kept: a resumed
 * run starts fresh episodes. */
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "rl/a3c_priv.h"

struct reals {
    double reward_count, reward_mean, reward_m2;
};
struct counts {
    int64_t iteration, steps, episodes, updates, adam_t;
};
enum {
    N_REALS = sizeof(struct reals) / sizeof(double),
    N_COUNTS = sizeof(struct counts) / sizeof(int64_t)
};

static const int64_t COUNT_MAX = INT64_C(1) << 52; /* sums of counts stay far from overflow */

static struct rl_frame frame_of(const struct a3c *a)
{
    return (struct rl_frame){.algorithm = "a3c",
                             .field = a3c_fields,
                             .n_fields = a3c_n_fields,
                             .cfg = &a->cfg,
                             .venv = &a->venv,
                             .net = a->net,
                             .norm = (struct nn_norm *)(uintptr_t)&a->norm};
}

enum err_code a3c_save(const struct a3c *a, const char *path, const struct st_meta *meta,
                       int n_meta, const struct st_tensor *extra, int n_extra, struct err *e)
{
    struct reals reals = {a->reward_norm.count, a->reward_norm.mean, a->reward_norm.m2};
    struct counts counts = {a->iteration, a->steps, a->episodes, a->updates, a->adam.t};
    struct rl_frame frame = frame_of(a);
    struct ckpt_out *c = ckpt_out_new();
    unsigned char *env;
    enum err_code rc = rl_frame_add(&frame, meta, n_meta, true, c, &env, e);
    if (rc)
        goto out;
    ckpt_meta(c, "a3c.steps_done", "%" PRId64, a->steps);
    ckpt_add(c, "a3c.real", ST_F64, &reals, N_REALS);
    ckpt_add(c, "a3c.count", ST_I64, &counts, N_COUNTS);
    for (int i = 0; i < n_extra; i++)
        ckpt_add(c, extra[i].name, extra[i].dtype, extra[i].data,
                 extra[i].n_bytes / st_dtype_size(extra[i].dtype));
    rc = ckpt_write(c, path, e);
out:
    mem_free(env);
    ckpt_out_free(c);
    return rc;
}

static bool sane(const struct reals *r, const struct counts *c)
{
    const int64_t count[N_COUNTS] = {c->iteration, c->steps, c->episodes, c->updates, c->adam_t};
    bool ok = r->reward_count >= 0 && r->reward_m2 >= 0;
    for (int i = 0; i < N_COUNTS; i++)
        ok = ok && count[i] >= 0 && count[i] <= COUNT_MAX;
    return ok;
}

static enum err_code load_counters(struct a3c *a, const struct st_file *f, struct err *e)
{
    struct reals r;
    struct counts c;
    enum err_code rc = ckpt_copy(f, "a3c.real", ST_F64, &r, N_REALS, e);
    if (rc == ERR_OK)
        rc = ckpt_copy(f, "a3c.count", ST_I64, &c, N_COUNTS, e);
    if (rc)
        return rc;
    if (!sane(&r, &c))
        return err_set(e, ERR_RANGE, "a counter is negative or too large");
    a->part[0].reward = (struct reward_norm){r.reward_count, r.reward_mean, r.reward_m2};
    a->iteration = c.iteration;
    a->steps = c.steps;
    a->episodes = c.episodes;
    a->updates = c.updates;
    a->adam.t = c.adam_t;
    return ERR_OK;
}

/* What the file knows becomes part 0; the workers begin to count anew. */
static void adopt_statistics(struct a3c *a)
{
    struct a3c_part *p = &a->part[0];
    size_t dim = (size_t)a->norm.dim;
    p->count = a->norm.count;
    memcpy(p->mean, a->norm.mean, dim * sizeof(double));
    memcpy(p->m2, a->norm.m2, dim * sizeof(double));
    memcpy(p->hist, a->norm.hist, dim * NN_NORM_BINS * sizeof *p->hist);
    a3c_combine(a);
    for (int i = 0; i < a->cfg.n_threads; i++)
        a->worker[i].warm = a->updates > 0;
}

enum err_code a3c_load(struct a3c *a, const char *path, const struct st_meta *expect, int n_expect,
                       struct err *e)
{
    struct rl_frame frame = frame_of(a);
    struct st_file *f;
    enum err_code rc = st_open(path, &f, e);
    if (rc)
        return rc;
    rc = rl_frame_load(&frame, f, expect, n_expect, e);
    if (rc == ERR_OK)
        rc = load_counters(a, f, e);
    if (rc == ERR_OK && a->venv.load)
        rc = rl_frame_load_env(&frame, f, e);
    if (rc == ERR_OK)
        adopt_statistics(a);
    else
        (void)err_wrap(e, "%s", path);
    st_free(f);
    return rc;
}
