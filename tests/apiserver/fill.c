/* fill.c - placeholder */
#include "tests/apiserver/api_priv.h"
void apiserver_fill(struct apiserver *a, int n_nodes, int n_pods, int per_workload) { (void)a; (void)n_nodes; (void)n_pods; (void)per_workload; }
