/* main.c - the stand-in API server as a program: `apiserver --help`.  Ends on SIGTERM or SIGINT. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/signal.h"
#include "tests/apiserver/api_priv.h"

enum { LIST_MAX = 64 };

static const char help[] =
    "usage: apiserver [OPTIONS]\n"
    "A Kubernetes API server to test against.  Prints its URL, serves until SIGTERM.\n\n"
    "  --address A           default 127.0.0.1\n"
    "  --port N              default any free one\n"
    "  --cert F --key F      HTTPS; --ca F: what the kubeconfig trusts; --client-ca F: client "
    "certificates are users\n"
    "  --kubeconfig F        writes one for the admin token \"" APISERVER_ADMIN_TOKEN "\"; kubectl sends no\n"
    "                        token over plain HTTP: for kubectl give --cert, --key and --ca\n"
    "  --token TOKEN=USER    another token; its rights are what RBAC objects say (repeatable)\n"
    "  --reader TOKEN=USER   another token that may read everything (repeatable)\n"
    "  --load F              YAML or JSON objects (repeatable)\n"
    "  --fill NODES,PODS[,PODS_PER_DEPLOYMENT]\n"
    "  --no-controllers      only storage: no pods for Deployments\n"
    "  --keep-unbound        pods wait for somebody else's binding\n"
    "  --pod-start-ms MIN[-MAX]   bound to Ready, in server time; default 0\n"
    "  --pod-stop-ms N       deleted to gone; default 0\n"
    "  --time-scale X        server time runs so much faster; default 1\n"
    "  --time-origin T       server time at the start, 2026-01-31T12:00:00Z; default now\n"
    "  --crd-delay-ms N      a new CRD is served after this; default 2000\n"
    "  --bookmark-ms N       between bookmarks of a watch; default 60000\n"
    "  --history N           events remembered per resource; default 50000\n"
    "  --managed-fields      filled pods carry them\n"
    "  --seed N              of names, delays and faults; default 1\n"
    "  --metrics             serves metrics.k8s.io\n"
    "  --refuse-anonymous    401 instead of 403 without credentials\n"
    "  --die-with-parent     ends when its parent does\n";

struct args {
    struct apiserver_opts o;
    const char *kubeconfig, *load[LIST_MAX], *token[LIST_MAX], *reader[LIST_MAX];
    int n_loads, n_tokens, n_readers;
    int fill[3];
};

static double number(const char *s, const char *option)
{
    double v;
    if (!num_f64(s, strlen(s), &v) || v < 0) {
        fprintf(stderr, "apiserver: --%s: %s is not a number\n", option, s);
        exit(2);
    }
    return v;
}

static int64_t ms(const char *s, const char *option)
{
    return (int64_t)(number(s, option) * 1e3);
}

static void pod_start(struct args *a, const char *s)
{
    char *dash = strchr(s, '-');
    if (dash)
        *dash = '\0';
    a->o.pod_start_min_us = ms(s, "pod-start-ms");
    a->o.pod_start_max_us = dash ? ms(dash + 1, "pod-start-ms") : a->o.pod_start_min_us;
}

static void set(struct args *a, const char *name, char *v)
{
    const char **list = strcmp(name, "load") == 0     ? a->load
                        : strcmp(name, "token") == 0  ? a->token
                        : strcmp(name, "reader") == 0 ? a->reader
                                                      : NULL;
    int *n = list == a->load ? &a->n_loads : list == a->token ? &a->n_tokens : &a->n_readers;
    if (list && *n < LIST_MAX)
        list[(*n)++] = v;
    else if (strcmp(name, "address") == 0)
        a->o.address = v;
    else if (strcmp(name, "port") == 0)
        a->o.port = (uint16_t)number(v, name);
    else if (strcmp(name, "cert") == 0)
        a->o.cert_file = v;
    else if (strcmp(name, "key") == 0)
        a->o.key_file = v;
    else if (strcmp(name, "ca") == 0)
        a->o.ca_file = v;
    else if (strcmp(name, "client-ca") == 0)
        a->o.client_ca_file = v;
    else if (strcmp(name, "kubeconfig") == 0)
        a->kubeconfig = v;
    else if (strcmp(name, "fill") == 0)
        sscanf(v, "%d,%d,%d", &a->fill[0], &a->fill[1], &a->fill[2]);
    else if (strcmp(name, "no-controllers") == 0)
        a->o.controllers = false;
    else if (strcmp(name, "keep-unbound") == 0)
        a->o.keep_unbound = true;
    else if (strcmp(name, "pod-start-ms") == 0)
        pod_start(a, v);
    else if (strcmp(name, "pod-stop-ms") == 0)
        a->o.pod_stop_us = ms(v, name);
    else if (strcmp(name, "time-scale") == 0)
        a->o.time_scale = number(v, name);
    else if (strcmp(name, "time-origin") == 0)
        a->o.time_origin_us = api_time_parse(v);
    else if (strcmp(name, "crd-delay-ms") == 0)
        a->o.crd_delay_us = ms(v, name);
    else if (strcmp(name, "bookmark-ms") == 0)
        a->o.bookmark_us = ms(v, name);
    else if (strcmp(name, "history") == 0)
        a->o.history = (size_t)number(v, name);
    else if (strcmp(name, "managed-fields") == 0)
        a->o.managed_fields = true;
    else if (strcmp(name, "seed") == 0)
        a->o.seed = (uint64_t)number(v, name);
    else if (strcmp(name, "metrics") == 0)
        a->o.metrics_api = true;
    else if (strcmp(name, "refuse-anonymous") == 0)
        a->o.refuse_anonymous = true;
    else if (strcmp(name, "die-with-parent") == 0)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static void parse(int argc, char **argv, struct args *a)
{
    static const char *const with[] = {"address",     "port",       "cert",        "key",
                                       "ca",          "client-ca",  "kubeconfig",  "token",
                                       "reader",      "load",       "fill",        "pod-start-ms",
                                       "pod-stop-ms", "time-scale", "time-origin", "crd-delay-ms",
                                       "bookmark-ms", "history",    "seed"};
    static const char *const without[] = {
        "no-controllers",   "keep-unbound",    "metrics", "managed-fields",
        "refuse-anonymous", "die-with-parent", "help"};
    struct option table[ARRAY_LEN(with) + ARRAY_LEN(without) + 1] = {0};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(with); i++)
        table[n++] = (struct option){with[i], required_argument, NULL, 0};
    for (size_t i = 0; i < ARRAY_LEN(without); i++)
        table[n++] = (struct option){without[i], no_argument, NULL, 0};
    *a = (struct args){.o = {.controllers = true, .crd_delay_us = 2 * US_PER_S}};
    int c, i = 0;
    while ((c = getopt_long(argc, argv, "h", table, &i)) != -1) {
        if (c == 0 && strcmp(table[i].name, "help") != 0) {
            set(a, table[i].name, optarg);
            continue;
        }
        fputs(help, c == '?' ? stderr : stdout);
        exit(c == '?' ? 2 : 0);
    }
    if (optind < argc) {
        fprintf(stderr, "apiserver: unknown argument %s\n", argv[optind]);
        exit(2);
    }
}

static void add_token(struct apiserver *api, const char *pair, bool reader)
{
    char *copy = mem_strdup(pair), *eq = strchr(copy, '=');
    struct apiserver_rule read = {"get,list,watch", "*", "*", NULL};
    if (eq) {
        *eq = '\0';
        apiserver_token(api, copy, eq + 1, &read, reader ? 1 : 0);
    }
    mem_free(copy);
}

static enum err_code prepare(struct apiserver *api, const struct args *a, struct err *e)
{
    for (int i = 0; i < a->n_loads; i++) {
        enum err_code rc = apiserver_load_file(api, a->load[i], e);
        if (rc)
            return rc;
    }
    if (a->fill[0] || a->fill[1])
        apiserver_fill(api, a->fill[0], a->fill[1], a->fill[2]);
    for (int i = 0; i < a->n_tokens; i++)
        add_token(api, a->token[i], false);
    for (int i = 0; i < a->n_readers; i++)
        add_token(api, a->reader[i], true);
    return a->kubeconfig ? apiserver_kubeconfig(api, a->kubeconfig, NULL, e) : ERR_OK;
}

int main(int argc, char **argv)
{
    struct args a;
    struct apiserver *api = NULL;
    struct err e;
    sigset_t wait;
    int sig;
    sigemptyset(&wait);
    sigaddset(&wait, SIGTERM);
    sigaddset(&wait, SIGINT);
    sigprocmask(SIG_BLOCK, &wait, NULL);
    signal_ignore_pipe();
    parse(argc, argv, &a);
    enum err_code rc = apiserver_start(&a.o, &api, &e);
    if (!rc)
        rc = prepare(api, &a, &e);
    if (rc) {
        fprintf(stderr, "apiserver: %s\n", e.msg);
        apiserver_free(api);
        return 1;
    }
    if (a.kubeconfig && !a.o.cert_file)
        fprintf(stderr, "apiserver: kubectl sends no token over plain HTTP, so to it %s is of no use: --cert, --key\n",
                a.kubeconfig);
    printf("%s\n", apiserver_url(api));
    fflush(stdout);
    sigwait(&wait, &sig);
    apiserver_free(api);
    return 0;
}
