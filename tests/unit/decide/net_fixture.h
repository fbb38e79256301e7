/* net_fixture.h - small random networks on disk, whose choice is known. */
#ifndef TESTS_UNIT_DECIDE_NET_FIXTURE_H
#define TESTS_UNIT_DECIDE_NET_FIXTURE_H

#include "nn/checkpoint.h"
#include "nn/policy.h"
#include "tests/unit/decide/decide_fixture.h"

/* Saves a random network; `bias` is added to the logit of one action, so that the choice is known.
 */
static inline const char *save_net(enum nn_shape shape, int n_obs, int hidden, int action,
                                   float bias)
{
    const char *path =
        test_path("%s/net-%d-%d-%d.safetensors", test_tmp_dir(), (int)shape, n_obs, hidden);
    struct nn_net_cfg cfg = nn_net_cfg_default(shape, n_obs, CAPACITY_ACTIONS, 1);
    struct rng rng = rng_stream(test_seed(), "net");
    struct ckpt_out *out = ckpt_out_new();
    struct nn_norm norm;
    struct nn_net *net;
    struct err e;
    cfg.n_hidden = hidden;
    assert_ok(nn_net_new(&cfg, &rng, &net, &e), &e);
    nn_net_action_bias(net)[action] += bias;
    nn_norm_init(&norm, n_obs);
    ckpt_add_net(out, net);
    ckpt_add_norm(out, &norm);
    assert_ok(ckpt_write(out, path, &e), &e);
    ckpt_out_free(out);
    nn_norm_fini(&norm);
    nn_net_free(net);
    return path;
}

static inline struct nn_policy *load_net(enum nn_shape shape, int action)
{
    struct nn_policy *p;
    struct err e;
    assert_ok(nn_policy_load(save_net(shape, CAPACITY_OBS, 32, action, 50), NULL, 0, &p, &e), &e);
    return p;
}

#endif
