/* fail_test.c - loading and saving a policy while memory or the disk gives out, at every point in turn. */
#include <errno.h>

#include "base/mem.h"
#include "nn/checkpoint.h"
#include "nn/policy.h"
#include "tests/support/fail.h"
#include "tests/support/test.h"

enum { N_OBS = 6, N_ACTIONS = 3 };

struct saved {
    struct nn_net *net;
    struct nn_norm norm;
    char *path;
};

static enum err_code make_net(struct saved *s, enum nn_shape shape, struct err *e)
{
    struct nn_net_cfg cfg = nn_net_cfg_default(shape, N_OBS, N_ACTIONS, 1);
    struct rng rng = rng_stream(1, "net");
    cfg.n_hidden = 16;
    s->net = NULL;
    return nn_net_new(&cfg, &rng, &s->net, e);
}

static enum err_code make(void *ctx, struct err *e)
{
    struct saved s;
    struct nn_ws *ws = NULL;
    enum err_code rc = make_net(&s, *(enum nn_shape *)ctx, e);
    if (!rc)
        rc = nn_ws_new(s.net, &ws, e);
    nn_ws_free(ws);
    nn_net_free(s.net);
    return rc;
}

static enum err_code save(void *ctx, struct err *e)
{
    struct saved *s = ctx;
    struct ckpt_out *out = ckpt_out_new();
    ckpt_add_net(out, s->net);
    ckpt_add_norm(out, &s->norm);
    ckpt_meta(out, "layout", "%s", "abc");
    enum err_code rc = ckpt_write(out, s->path, e);
    ckpt_out_free(out);
    return rc;
}

static enum err_code load(void *ctx, struct err *e)
{
    const struct saved *s = ctx;
    const struct st_meta expect = {"layout", "abc"};
    struct nn_policy *p;
    enum err_code rc = nn_policy_load(s->path, &expect, 1, &p, e);
    nn_policy_free(p);
    return rc;
}

TEST(whichever_allocation_of_a_network_or_of_loading_a_policy_fails_nothing_stays)
{
    for (int shape = NN_SEPARATE; shape <= NN_LSTM; shape++) {
        enum nn_shape of = (enum nn_shape)shape;
        struct saved s = {.path = mem_strdup(test_path("%s/p%d.safetensors", test_tmp_dir(), shape))};
        struct err e;
        assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, make, &of) >= 10);
        assert_ok(make_net(&s, of, &e), &e);
        nn_norm_init(&s.norm, N_OBS);
        assert_ok(save(&s, &e), &e);
        assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, load, &s) >= 15);
        assert_int_equal(fail_sweep(FAIL_OPEN, EMFILE, ERR_IO, load, &s), 1);
        (void)fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, save, &s);
        assert_true(fail_sweep(FAIL_WRITE, ENOSPC, ERR_IO, save, &s) >= 1);
        assert_int_equal(fail_sweep(FAIL_SYNC, EIO, ERR_IO, save, &s), 2);
        assert_ok(load(&s, &e), &e); /* what was there before each failure is whole */
        nn_norm_fini(&s.norm);
        nn_net_free(s.net);
        mem_free(s.path);
    }
}
