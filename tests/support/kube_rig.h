/* kube_rig.h - a client at the test API server. */
#ifndef TESTS_SUPPORT_KUBE_RIG_H
#define TESTS_SUPPORT_KUBE_RIG_H

#include "kube/client.h"
#include "tests/apiserver/apiserver.h"

struct kube_rig {
    struct apiserver *api; /* borrowed */
    struct http_client *http;
    struct kube_config *config;
    struct kube *kube;
};
/* token NULL: the admin's.  o NULL: the defaults. */
void kube_rig_start(struct kube_rig *r, struct apiserver *api, const char *token,
                    const struct kube_opts *o);
void kube_rig_stop(struct kube_rig *r);
struct apiserver *kube_rig_server(const struct apiserver_opts *o); /* started or the test fails */

#endif
