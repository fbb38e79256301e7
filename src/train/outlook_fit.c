#include "train/outlook_fit.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/signal.h"
#include "nn/adam.h"
#include "nn/net.h"
#include "train/run.h"

enum { CANDIDATES = 4, ROUND_SAMPLES = 100000, BATCH_MAX = 4096, VALID_ROWS = 20000 };

/* The features of one seed's training part, the levels and the demand they look ahead to. */
struct table {
    float *features; /* [n][OUTLOOK_FEATURES] */
    float *level;    /* [n] */
    float *demand;   /* [n + ahead] as it arrived */
    const uint8_t *barred;
    int32_t n;       /* steps with a full look ahead */
    int32_t edge[OUTLOOK_WINDOWS + 1]; /* window edges in steps */
};

struct candidate {
    int64_t samples;
    double weight_decay;
    int32_t to;      /* fitted on steps [first, to) */
    struct outlook net;
    double valid_nats, train_nats;
    enum err_code rc;
    struct err err;
};

struct fit {
    const struct world *w;
    struct chance *const *chance;
    int n_chances;
    const struct outlook_fit_opts *o;
    int32_t first;      /* averages need a first hour */
    int32_t valid_from; /* steps [valid_from, n) choose between candidates */
    struct candidate cand[CANDIDATES];
    int64_t total;         /* samples, the fit on all days included */
    _Atomic int64_t *done; /* of them */
};

struct outlook_fit_opts outlook_fit_opts_default(void)
{
    return (struct outlook_fit_opts){.samples = 1000000, .batch = 512, .lr = 2e-3, .seed = 1};
}

static void table_fini(struct table *t)
{
    mem_free(t->features);
    mem_free(t->level);
    mem_free(t->demand);
    *t = (struct table){0};
}

static enum err_code table_alloc(struct table *t, const struct world *w, struct err *e)
{
    *t = (struct table){.barred = w->barred};
    int64_t step_us = w->sim.spec.step_us;
    for (int i = 0; i <= OUTLOOK_WINDOWS; i++) /* rounded up: no window is empty, not even at steps of 5 min */
        t->edge[i] = (int32_t)((outlook_edge_s[i] * US_PER_S + step_us - 1) / step_us);
    t->n = w->train_end - t->edge[OUTLOOK_WINDOWS] - 1;
    if (t->n < 2 * world_steps_per_day(w))
        return err_set(e, ERR_RANGE, "the training part has %.1f days; an outlook needs 2 and the half hour that it looks ahead",
                       (double)w->train_end / world_steps_per_day(w));
    t->features = try_zero_aligned((size_t)t->n, OUTLOOK_FEATURES * sizeof(float));
    t->level = try_zero((size_t)t->n, sizeof(float));
    t->demand = try_zero((size_t)w->train_end, sizeof(float));
    return t->features && t->level && t->demand ? ERR_OK
                                                : err_set(e, ERR_NOMEM, "features of %d steps", t->n);
}

/* Runs the training part at full size and notes what an outlook would have seen at each step. */
static enum err_code table_fill(struct table *t, const struct world *w, const struct chance *c, struct err *e)
{
    struct capsim *lane = try_zero_aligned(1, sizeof *lane);
    struct capacity_view view;
    struct outlook_state s;
    if (!lane)
        return err_set(e, ERR_NOMEM, "a lane");
    outlook_state_init(&s);
    run_view_init(&view, w, 1, 1);
    int units = w->sim.spec.units_max;
    capsim_reset(lane, &w->sim, &w->trace, c->seed, 0, units, &view);
    for (int32_t i = 0; i < t->n; i++) {
        struct capsim_out out;
        if (i % w->point_steps == 0)
            view.forecast = *chance_forecast(c, w, i);
        outlook_observe(&s, &w->sim.spec, &view);
        outlook_features(&s, &w->sim.spec, &view, t->features + (size_t)i * OUTLOOK_FEATURES);
        t->level[i] = outlook_level(&s, &w->sim.spec);
        capsim_step(lane, &w->sim, &w->trace, units, &view, &out);
    }
    for (int32_t i = 0; i < w->train_end; i++)
        t->demand[i] = w->demand[i] * c->factor[i];
    mem_free(lane);
    return ERR_OK;
}

struct loss {
    const struct table *t;
    uint64_t key;   /* picks the step of each window */
    float scale;    /* of the gradient: 1 / rows of the batch */
    double nats;
    int64_t terms;
};

/* Bin of the demand at one step of the window, or -1 where that step is barred. */
static int target(const struct loss *l, int32_t row, int window)
{
    const struct table *t = l->t;
    uint32_t span = (uint32_t)(t->edge[window + 1] - t->edge[window]);
    int32_t ahead = t->edge[window] + (int32_t)(rng_at(l->key, (uint64_t)row, (uint64_t)window) % span);
    if (t->barred[row + ahead])
        return -1;
    float load = fmaxf(t->demand[row + ahead], 1e-6f * t->level[row]);
    return outlook_bin(load, t->level[row]);
}

static void cross_entropy(const float *z, int answer, float scale, float *dz, double *nats)
{
    float top = z[0], p[OUTLOOK_BINS], sum = 0;
    for (int b = 1; b < OUTLOOK_BINS; b++)
        top = fmaxf(top, z[b]);
    for (int b = 0; b < OUTLOOK_BINS; b++)
        sum += p[b] = expf(z[b] - top);
    *nats += (double)(logf(sum) + top - z[answer]);
    for (int b = 0; b < OUTLOOK_BINS; b++)
        dz[b] = scale * (p[b] / sum - (b == answer ? 1.0f : 0.0f));
}

static void loss_tile(void *ctx, const struct nn_tile *tile)
{
    struct loss *l = ctx;
    for (int i = 0; i < tile->n; i++) {
        const float *z = tile->logits + (size_t)i * tile->ld_logits;
        float *dz = tile->dlogits + (size_t)i * tile->ld_logits;
        for (int w = 0; w < OUTLOOK_WINDOWS; w++, z += OUTLOOK_BINS, dz += OUTLOOK_BINS) {
            int answer = target(l, tile->row[i], w);
            if (answer < 0) {
                memset(dz, 0, OUTLOOK_BINS * sizeof *dz);
                continue;
            }
            cross_entropy(z, answer, l->scale, dz, &l->nats);
            l->terms++;
        }
    }
}

/* Mean cross-entropy over rows [from, to), on at most VALID_ROWS of them. */
static double measure(const struct outlook *net, const struct table *t, int32_t from, int32_t to, uint64_t key)
{
    struct loss l = {.t = t, .key = key};
    float logits[OUTLOOK_OUTPUTS], unused[OUTLOOK_BINS];
    int32_t stride = (to - from) / VALID_ROWS + 1;
    for (int32_t row = from; row < to; row += stride) {
        if (t->barred[row])
            continue;
        outlook_logits(net, t->features + (size_t)row * OUTLOOK_FEATURES, 1, logits);
        for (int w = 0; w < OUTLOOK_WINDOWS; w++) {
            int answer = target(&l, row, w);
            if (answer < 0)
                continue;
            cross_entropy(logits + w * OUTLOOK_BINS, answer, 0, unused, &l.nats);
            l.terms++;
        }
    }
    return l.terms ? l.nats / (double)l.terms : NAN;
}

static void advance(const struct fit *f, int64_t samples)
{
    int64_t done = atomic_fetch_add(f->done, samples) + samples;
    if (f->o->at)
        f->o->at(f->o->at_arg, done < f->total ? done : f->total, f->total);
}

/* Steps [first, to) must hold something to sample from. */
static enum err_code check_rows(const struct fit *f, const struct table *t, struct candidate *c)
{
    int32_t usable = 0;
    for (int32_t i = f->first; i < c->to; i++)
        usable += !t->barred[i];
    if (usable >= f->o->batch && usable >= (c->to - f->first) / 100)
        return ERR_OK;
    return err_set(&c->err, ERR_RANGE, "%d of %d training steps lie outside gaps: too few to learn from", usable,
                   c->to - f->first);
}

static enum err_code train_batch(struct candidate *c, const struct fit *f, const struct table *t, struct rng *rng,
                                 struct nn_adam *adam, int64_t done)
{
    int32_t rows[BATCH_MAX];
    int n = 0;
    while (n < f->o->batch) {
        int32_t row = f->first + (int32_t)rng_below(rng, (uint32_t)(c->to - f->first));
        if (!t->barred[row])
            rows[n++] = row;
    }
    struct loss loss = {.t = t, .key = rng_next(rng), .scale = 1.0f / (float)n};
    struct nn_batch batch = {.obs = t->features, .obs_stride = OUTLOOK_FEATURES, .first = rows, .n = n, .n_steps = 1};
    double left = 1 - (double)done / (double)c->samples;
    nn_ws_zero(c->net.ws);
    nn_net_grad(c->net.net, c->net.ws, &batch, loss_tile, &loss);
    nn_net_reduce(c->net.net, &c->net.ws, 1);
    c->train_nats += 0.01 * (loss.nats / (double)(loss.terms ? loss.terms : 1) - c->train_nats);
    enum err_code rc = nn_adam_step(adam, nn_net_params(c->net.net), (float)(f->o->lr * left), NULL, &c->err);
    if (!rc)
        nn_net_pack(c->net.net);
    return rc;
}

static enum err_code fit_candidate(const struct fit *f, struct candidate *c)
{
    struct table t;
    struct rng rng = rng_stream(f->o->seed, "outlook samples");
    struct nn_adam adam = nn_adam_default();
    adam.weight_decay = (float)c->weight_decay;
    adam.max_norm = 1;
    enum err_code rc = table_alloc(&t, f->w, &c->err);
    if (!rc)
        rc = check_rows(f, &t, c);
    if (!rc)
        rc = outlook_new(f->o->seed, &c->net, &c->err);
    for (int64_t done = 0, round = 0; !rc && done < c->samples; round++) {
        rc = table_fill(&t, f->w, f->chance[round % f->n_chances], &c->err);
        for (int64_t end = done + ROUND_SAMPLES; !rc && done < end && done < c->samples; done += f->o->batch) {
            rc = train_batch(c, f, &t, &rng, &adam, done);
            advance(f, f->o->batch);
        }
        if (!rc)
            rc = signal_check(&c->err);
    }
    if (!rc && c->to < f->valid_from)
        c->valid_nats = measure(&c->net, &t, f->valid_from, t.n, rng_key(f->o->seed, "validation"));
    table_fini(&t);
    return rc;
}

static void fit_shard(size_t shard, int worker, void *arg)
{
    struct fit *f = arg;
    (void)worker;
    f->cand[shard].rc = fit_candidate(f, &f->cand[shard]);
}

static int best_candidate(const struct fit *f)
{
    int best = 0;
    for (int i = 1; i < CANDIDATES; i++)
        if (f->cand[i].valid_nats < f->cand[best].valid_nats)
            best = i;
    return best;
}

static void fit_init(struct fit *f)
{
    int32_t day = world_steps_per_day(f->w), ahead = (int32_t)(outlook_edge_s[OUTLOOK_WINDOWS] * US_PER_S /
                                                              f->w->sim.spec.step_us);
    int32_t n = f->w->train_end - ahead - 1;
    f->first = day / 24;
    f->valid_from = n - n / 5;
    static const double share[CANDIDATES] = {0.125, 0.5, 0.5, 1}, decay[CANDIDATES] = {0, 1e-2, 1, 1};
    int32_t gap = f->valid_from - day > day ? day : ahead;
    f->total = f->o->samples;
    for (int i = 0; i < CANDIDATES; i++) {
        f->cand[i] = (struct candidate){
            .samples = (int64_t)(share[i] * (double)f->o->samples),
            .weight_decay = decay[i],
            .to = f->valid_from - gap,
        };
        f->total += f->cand[i].samples;
    }
}

static enum err_code refit(struct fit *f, const struct candidate *best, struct outlook *out, struct err *e)
{
    struct candidate all = {
        .samples = best->samples,
        .weight_decay = best->weight_decay,
        .to = f->w->train_end - (int32_t)(outlook_edge_s[OUTLOOK_WINDOWS] * US_PER_S / f->w->sim.spec.step_us) - 1,
    };
    enum err_code rc = fit_candidate(f, &all);
    if (rc) {
        *e = all.err;
        outlook_fini(&all.net);
        return rc;
    }
    *out = all.net;
    return ERR_OK;
}

enum err_code outlook_fit(const struct world *w, struct chance *const *chance, int n,
                          const struct outlook_fit_opts *o, struct thread_pool *pool, struct outlook *out,
                          struct outlook *held_out, struct outlook_fit_report *report, struct err *e)
{
    _Atomic int64_t done = 0;
    struct fit f = {.w = w, .chance = chance, .n_chances = n, .o = o, .done = &done};
    enum err_code rc = ERR_OK;
    *out = *held_out = (struct outlook){0};
    if (n < 1 || o->batch < 1 || o->batch > BATCH_MAX || o->samples < o->batch)
        return err_set(e, ERR_RANGE, "outlook: %d seeds, batch %d, %lld samples", n, o->batch,
                       (long long)o->samples);
    if (w->train_end < 2 * world_steps_per_day(w))
        return err_set(e, ERR_RANGE, "the training part has %.1f days; an outlook needs at least 2.1",
                       (double)w->train_end / world_steps_per_day(w));
    fit_init(&f);
    parallel_for(pool, CANDIDATES, fit_shard, &f);
    for (int i = 0; i < CANDIDATES && !rc; i++)
        if ((rc = f.cand[i].rc) != ERR_OK)
            *e = f.cand[i].err;
    int best = rc ? 0 : best_candidate(&f);
    f.total += f.cand[best].samples - o->samples;
    if (!rc)
        rc = refit(&f, &f.cand[best], out, e);
    if (!rc) {
        *held_out = f.cand[best].net;
        f.cand[best].net = (struct outlook){0};
        *report = (struct outlook_fit_report){
            .train_nats = f.cand[best].train_nats,
            .valid_nats = f.cand[best].valid_nats,
            .uniform_nats = log(OUTLOOK_BINS),
            .samples = f.cand[best].samples,
            .weight_decay = f.cand[best].weight_decay,
            .valid_from = f.valid_from,
        };
    }
    for (int i = 0; i < CANDIDATES; i++)
        outlook_fini(&f.cand[i].net);
    return rc ? err_wrap(e, "fitting the outlook") : ERR_OK;
}
