#include "tests/support/kube_rig.h"

#include "tests/support/test.h"

struct apiserver *kube_rig_server(const struct apiserver_opts *o)
{
    struct apiserver *api;
    struct err e;
    assert_ok(apiserver_start(o, &api, &e), &e);
    return api;
}

void kube_rig_start(struct kube_rig *r, struct apiserver *api, const char *token,
                    const struct kube_opts *o)
{
    struct err e;
    const char *path = test_path("%s/kubeconfig", test_tmp_dir());
    struct kube_config_opts co = kube_config_opts_default();
    struct kube_opts ko = kube_opts_default();
    *r = (struct kube_rig){.api = api};
    assert_ok(apiserver_kubeconfig(api, path, token, &e), &e);
    co.path = path;
    assert_ok(kube_config_load(&co, &r->config, &e), &e);
    assert_ok(http_client_new(&r->http, &e), &e);
    assert_ok(kube_new(r->config, r->http, o ? o : &ko, &r->kube, &e), &e);
}

void kube_rig_stop(struct kube_rig *r)
{
    kube_free(r->kube);
    kube_config_free(r->config);
    http_client_free(r->http);
}
