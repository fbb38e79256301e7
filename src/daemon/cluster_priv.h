/* cluster_priv.h - shared by the files of cluster.h. */
#ifndef DAEMON_CLUSTER_PRIV_H
#define DAEMON_CLUSTER_PRIV_H

#include "daemon/cluster.h"

struct kube *cluster_kube(struct cluster *c);
const struct kube_resource *cluster_resource(const struct cluster *c, int kind);

#endif
