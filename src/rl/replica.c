#include "rl/replica.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

#define STALE INT64_MIN

/* On cache lines of its own. */
struct replica {
    _Alignas(MEM_ALIGN) struct nn_net *net;
    struct nn_adam *adam;
    struct nn_adam own_adam; /* of the copies */
    int64_t step;            /* steps taken */
};

struct replicas {
    int n, n_sums;
    struct replica *of;      /* [n] */
    struct nn_ws **sums[2];  /* [n_sums] each, by step modulo 2 */
    int64_t step;            /* steps pushed */
    float lr;                /* of the newest */
    pthread_mutex_t lock;    /* of the first copy while workers run */
    float norm;              /* of the first copy's newest gradient */
    enum err_code rc;        /* of its steps */
    struct err err;
};

/* One step of a copy that is one behind. */
static enum err_code apply(struct replicas *r, struct replica *c, float *norm, struct err *e)
{
    nn_net_reduce(c->net, r->sums[c->step & 1], r->n_sums);
    enum err_code rc = nn_adam_step(c->adam, nn_net_params(c->net), r->lr, norm, e);
    nn_net_pack(c->net);
    c->step++;
    return rc;
}

/* Under the lock. */
static void advance_first(struct replicas *r)
{
    struct replica *first = &r->of[0];
    if (first->step == r->step)
        return;
    struct err e;
    enum err_code rc = apply(r, first, &r->norm, &e);
    if (rc && !r->rc) {
        r->rc = rc;
        r->err = e;
    }
}

static void copy_first(struct replicas *r, struct replica *c)
{
    (void)pthread_mutex_lock(&r->lock);
    advance_first(r);
    const struct nn_params *from = nn_net_params_const(r->of[0].net);
    struct nn_params *to = nn_net_params(c->net);
    memcpy(to->m, from->m, from->total * sizeof *to->m);
    memcpy(to->v, from->v, from->total * sizeof *to->v);
    nn_net_copy(c->net, r->of[0].net);
    c->own_adam = *r->of[0].adam;
    c->step = r->step;
    (void)pthread_mutex_unlock(&r->lock);
}

const struct nn_net *replicas_net(struct replicas *r, int worker)
{
    struct replica *c = &r->of[worker];
    if (worker == 0) {
        (void)pthread_mutex_lock(&r->lock);
        advance_first(r);
        (void)pthread_mutex_unlock(&r->lock);
    } else if (c->step == r->step - 1) {
        (void)apply(r, c, NULL, NULL); /* the first copy fails alike, and is asked */
    } else if (c->step != r->step) {
        copy_first(r, c);
    }
    return c->net;
}

struct nn_ws *const *replicas_sums(const struct replicas *r)
{
    return r->sums[r->step & 1];
}

void replicas_push(struct replicas *r, float lr)
{
    advance_first(r); /* it may have taken no part in the loop, and is at most one step behind from here on */
    r->lr = lr;
    r->step++;
}

enum err_code replicas_sync(struct replicas *r, float *norm, struct err *e)
{
    advance_first(r);
    enum err_code rc = r->rc;
    if (norm)
        *norm = r->norm;
    if (rc && e)
        *e = r->err;
    r->rc = ERR_OK;
    return rc;
}

void replicas_changed(struct replicas *r)
{
    for (int i = 1; i < r->n; i++)
        r->of[i].step = STALE;
}

static enum err_code make_copies(struct replicas *r, struct nn_net *net, struct nn_adam *adam, struct err *e)
{
    for (int i = 0; i < r->n; i++) {
        struct replica *c = &r->of[i];
        struct rng unused = rng_stream(0, "replica"); /* its values are copied over */
        c->adam = i == 0 ? adam : &c->own_adam;
        c->step = i == 0 ? 0 : STALE;
        if (i == 0)
            c->net = net;
        else if (nn_net_new(nn_net_cfg_get(net), &unused, &c->net, e))
            return ERR_NOMEM;
    }
    return ERR_OK;
}

static enum err_code make_sums(struct replicas *r, const struct nn_net *net, struct err *e)
{
    for (int k = 0; k < 2; k++) {
        r->sums[k] = mem_zero((size_t)r->n_sums, sizeof *r->sums[k]);
        for (int i = 0; i < r->n_sums; i++)
            if (nn_ws_new_sums(net, &r->sums[k][i], e))
                return ERR_NOMEM;
    }
    return ERR_OK;
}

enum err_code replicas_new(struct nn_net *net, struct nn_adam *adam, int n, int n_sums, struct replicas **out,
                           struct err *e)
{
    struct replicas *r = mem_zero(1, sizeof *r);
    (void)pthread_mutex_init(&r->lock, NULL);
    r->n = n;
    r->n_sums = n_sums;
    r->of = try_zero_aligned((size_t)n, sizeof *r->of);
    enum err_code rc = r->of ? ERR_OK : err_set(e, ERR_NOMEM, "%d copies of a network", n);
    if (!rc)
        rc = make_copies(r, net, adam, e);
    if (!rc)
        rc = make_sums(r, net, e);
    *out = rc ? NULL : r;
    if (rc)
        replicas_free(r);
    return rc;
}

void replicas_free(struct replicas *r)
{
    if (!r)
        return;
    for (int i = 1; r->of && i < r->n; i++)
        nn_net_free(r->of[i].net);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; r->sums[k] && i < r->n_sums; i++)
            nn_ws_free(r->sums[k][i]);
        mem_free(r->sums[k]);
    }
    mem_free(r->of);
    (void)pthread_mutex_destroy(&r->lock);
    mem_free(r);
}
