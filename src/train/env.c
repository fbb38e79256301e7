/* env.c - lanes of capacity environments.
 *
 * A step touches about 1.5 KB of a lane.  Kept together in one struct per lane that would be spread
 * over 60 KB, for the simulator and the decision reserve room for 4096 units and for every policy's
 * memory; a few dozen lanes would then miss the caches and the TLB at each step.  So each part has
 * an array of its own: `lane` and `sim` are packed, `state` is as large as decide/ needs it.  The
 * configuration is one for all lanes, unless an outlook gives each its own network workspace.
 *
 * Every 16 lanes are followed by a gap as wide.  A thread that walks along its lanes has the hardware fetch some 14
 * lanes ahead; past its last one they would be those that another core is changing, and between cores without a
 * common cache that made the other thread's steps three times as long. */
#include "train/env.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "decide/sane.h"
#include "nn/net.h"
#include "train/run.h"

enum { WARM_STEPS = 240, BLOB_VERSION = 3, APART = 16 };

/* What a checkpoint of a lane holds, apart from the simulator's and the decision's own state. */
struct lane_core {
    struct rng rng;
    struct capacity_view view;
    struct reward_terms terms;
    int32_t chance, left;
    int32_t units[CAPACITY_ACTIONS];
    double weight_latency;
};

struct lane {
    _Alignas(64) struct lane_core core;
    const struct capacity_config *cfg; /* env.cfg, or the lane's own with an outlook */
    struct capacity_state *state;      /* in env.state */
    struct capsim *sim;                /* in env.sim */
    int32_t next_point;                /* step at which the next forecast is made */
};

/* A configuration with an outlook: its workspace belongs to one thread, so each lane has one. */
struct lane_outlook {
    struct capacity_config cfg;
    struct outlook outlook; /* net borrowed from the shared one */
};

struct capacity_env {
    const struct world *w;
    struct chance *const *chance;
    int n_chances;
    struct capacity_env_opts o;
    struct capacity_config cfg;
    struct lane *lane;            /* [places(n_lanes)] by place() */
    struct capacity_state *state; /* likewise */
    unsigned char *sim;           /* likewise, of capsim_bytes() */
    struct lane_outlook *outlook; /* [n_lanes], NULL without an outlook */
};

static size_t place(int lane)
{
    return (size_t)(lane + lane / APART * APART);
}

static size_t places(int n_lanes)
{
    return place(n_lanes - 1) + 1;
}

static struct lane *lane_at(const struct capacity_env *env, int i)
{
    return &env->lane[place(i)];
}

struct capacity_env_opts capacity_env_opts_default(const struct world *w)
{
    return (struct capacity_env_opts){
        .n_lanes = 16,
        .from = 0,
        .to = w->train_end,
        .weights = reward_weights_of(REWARD_SLO),
        .draw_weights = true,
        .seed = 1,
    };
}

/* The one made last; a division here, none at the steps between. */
static void take_forecast(const struct capacity_env *env, struct lane *l)
{
    int32_t every = env->w->point_steps;
    l->core.view.forecast = *chance_forecast(env->chance[l->core.chance], env->w, l->sim->step);
    l->next_point = (l->sim->step / every + 1) * every;
}

/* obs NULL where nobody looks. */
static void observe(const struct capacity_env *env, struct lane *l, float *obs)
{
    if (l->sim->step == l->next_point)
        take_forecast(env, l);
    capacity_observe(l->cfg, &l->core.view, l->state, obs);
}

static void show(const struct capacity_env *env, struct lane *l, float *obs, uint8_t *mask)
{
    observe(env, l, obs);
    capacity_mask(l->cfg, &l->core.view, l->state, mask, l->core.units);
}

static void advance(const struct capacity_env *env, struct lane *l, int proposed,
                    struct capsim_out *out, int *change)
{
    struct capacity_plan plan;
    capacity_commit(l->cfg, &l->core.view, l->state, proposed, &plan, NULL);
    *change = plan.units - l->core.view.units_requested;
    capsim_step(l->sim, &env->w->sim, &env->w->trace, plan.units, &l->core.view, out);
}

static void start_episode(const struct capacity_env *env, struct lane *l)
{
    struct capsim_out out;
    int change;
    struct lane_core *c = &l->core;
    uint32_t room = (uint32_t)(env->o.to - env->o.from - WARM_STEPS - env->o.episode_steps);
    int32_t start = env->o.from + (int32_t)rng_below(&c->rng, room);
    c->chance = (int32_t)rng_below(&c->rng, (uint32_t)env->n_chances);
    c->left = env->o.episode_steps;
    double draw = rng_unit(&c->rng), which = rng_unit(&c->rng);
    c->weight_latency = env->o.draw_weights && which < 0.5 ? pow(4, draw - 0.5) : 1;
    run_view_init(&c->view, env->w, c->weight_latency, 1);
    capacity_state_init(l->cfg, l->state);
    capsim_reset(l->sim, &env->w->sim, &env->w->trace, env->chance[c->chance]->seed, start,
                 run_start_units(env->w, start), &c->view);
    take_forecast(env, l);
    for (int i = 0; i < WARM_STEPS; i++) {
        observe(env, l, NULL);
        int units = l->state->base_units >= 0 ? l->state->base_units
                                              : run_start_units(env->w, l->sim->step);
        advance(env, l, units, &out, &change);
    }
}

static void venv_reset(void *arg, int lane_begin, int lane_end, float *obs, uint8_t *mask)
{
    struct capacity_env *env = arg;
    for (int i = lane_begin; i < lane_end; i++) {
        start_episode(env, lane_at(env, i));
        show(env, lane_at(env, i), obs + (size_t)i * CAPACITY_OBS,
             mask + (size_t)i * CAPACITY_ACTIONS);
    }
}

static void score(const struct capacity_env *env, struct lane *l, const struct capsim_out *out,
                  int change, float *reward, float *cost)
{
    struct reward_terms t =
        reward_of(&env->o.weights, &(struct reward_input){
                                       .p99_ms = (double)out->p99_ms,
                                       .target_ms = env->w->sim.spec.slo_p99_ms,
                                       .units = out->units_billed,
                                       .price_usd_h = env->w->sim.spec.price_usd_h,
                                       .price_ref_usd_h = env->w->price_ref_usd_h,
                                       .change = change,
                                   });
    t.latency *= l->core.weight_latency;
    l->core.terms.latency += t.latency;
    l->core.terms.cost += t.cost;
    l->core.terms.hold += t.hold;
    l->core.terms.churn += t.churn;
    *reward = out->barred ? 0 : (float)reward_sum(&t);
    *cost = !out->barred && out->miss ? (float)l->core.weight_latency : 0;
}

/* Lanes stand far apart in the trace, so its lines are the ones that miss. */
static void prefetch_trace(const struct capacity_env *env, const struct lane *l)
{
    int32_t step = l->sim->step;
    __builtin_prefetch(&env->w->trace.demand[step]);
    __builtin_prefetch(&env->w->trace.peak_ahead[step + 1]);
}

static void venv_step(void *arg, int lane_begin, int lane_end, const int32_t *action,
                      const struct rl_step_out *out)
{
    struct capacity_env *env = arg;
    for (int i = lane_begin; i < lane_end; i++) {
        struct lane *l = lane_at(env, i);
        float *obs = out->obs + (size_t)i * CAPACITY_OBS;
        uint8_t *mask = out->mask + (size_t)i * CAPACITY_ACTIONS;
        struct capsim_out what;
        int change;
        if (i + 1 < lane_end)
            prefetch_trace(env, lane_at(env, i + 1));
        advance(env, l, l->core.units[action[i]], &what, &change);
        score(env, l, &what, change, &out->reward[i], &out->cost[i]);
        show(env, l, obs, mask);
        out->end[i] = RL_RUNNING;
        if (--l->core.left > 0)
            continue;
        out->end[i] = RL_TRUNCATED;
        memcpy(out->final_obs + (size_t)i * CAPACITY_OBS, obs, CAPACITY_OBS * sizeof *obs);
        start_episode(env, l);
        show(env, l, obs, mask);
    }
}

/* ---- checkpoint -------------------------------------------------------------------------------
 */

/* Blob: version, hash of what follows, then per lane: core, simulator bytes, packed decision state.
 * Native layout. Forecast and calendar follow from seed and step: they are left out, so no padding
 * of theirs gets into the file. */
struct blob_header {
    uint64_t version, hash;
};

static size_t lane_bytes(const struct capacity_env *env)
{
    return sizeof(struct lane_core) + capsim_bytes(&env->w->sim) +
           capacity_state_pack_size(env->lane[0].cfg);
}

static size_t venv_save(const void *arg, void *buf, size_t cap)
{
    const struct capacity_env *env = arg;
    size_t n_sim = capsim_bytes(&env->w->sim), n_lanes = (size_t)env->o.n_lanes;
    size_t body = n_lanes * lane_bytes(env), need = sizeof(struct blob_header) + body;
    struct blob_header h = {.version = BLOB_VERSION};
    if (!buf || cap < need)
        return need;
    unsigned char *p = (unsigned char *)buf + sizeof h;
    for (int i = 0; i < env->o.n_lanes; i++, p += lane_bytes(env)) {
        const struct lane *l = lane_at(env, i);
        const size_t view = offsetof(struct lane_core, view);
        memcpy(p, &l->core, sizeof l->core);
        memset(p + view + offsetof(struct capacity_view, forecast), 0, sizeof(struct forecast));
        memset(p + view + offsetof(struct capacity_view, when), 0, sizeof(struct calendar_point));
        memcpy(p + sizeof l->core, l->sim, n_sim);
        capacity_state_pack(l->cfg, l->state, p + sizeof l->core + n_sim);
    }
    h.hash = hash_of((unsigned char *)buf + sizeof h, body);
    memcpy(buf, &h, sizeof h);
    return need;
}

static bool core_sane(const struct capacity_env *env, const struct lane_core *c,
                      const struct capsim *sim)
{
    return c->chance >= 0 && c->chance < env->n_chances && c->left > 0 &&
           c->left <= env->o.episode_steps && sim->step >= 0 && sim->step < env->o.to &&
           sim->step + c->left <= env->o.to && sim->seed == env->chance[c->chance]->seed;
}

static bool units_sane(const struct capacity_env *env, const struct capsim *sim,
                       const struct capacity_view *v)
{
    const struct capsim_world *w = &env->w->sim;
    int requested = 0, warming = 0;
    for (int k = 0; k < w->n_groups; k++) {
        int left = w->spec.units_max - k * CAPSIM_GROUP;
        uint64_t valid = left >= CAPSIM_GROUP ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;
        const struct capsim_group *g = &sim->group[k];
        if ((g->requested & ~valid) || (g->warming & ~g->requested))
            return false;
        for (uint64_t m = g->warming; m; m &= m - 1)
            if (g->asked_step[__builtin_ctzll(m)] > (uint32_t)sim->step)
                return false;
        requested += __builtin_popcountll(g->requested);
        warming += __builtin_popcountll(g->warming);
    }
    return sim->units_requested == requested && sim->units_warming == warming &&
           sane_int(sim->units_failed, 0, requested) && sane_int(sim->units_ready, 0, requested) &&
           sim->units_ready + sim->units_failed + warming == requested &&
           v->units_requested == requested && v->units_warming == warming &&
           v->units_ready == sim->units_ready && v->units_failed == sim->units_failed;
}

/* What decide/ reads beside units and calendar: measurements, ages and the weights of the episode. */
static bool view_sane(const struct capacity_env *env, const struct lane_core *c)
{
    const struct capacity_view *v = &c->view;
    bool ok = sane_time(v->sample_us) && sane_time(v->warm_oldest_us) && v->budget_units == env->w->sim.spec.units_max &&
              sane_floats(v->value, FIELD_COUNT, 1e30f) && sane_floats(&v->qps_last, 1, 1e30f) &&
              sane_floats(&v->foresight_qps, 1, 1e30f) && c->weight_latency >= 0.1 && c->weight_latency <= 10 &&
              v->weight_latency >= 0.1f && v->weight_latency <= 10 && v->weight_cost >= 0.1f && v->weight_cost <= 10;
    for (int i = 0; i < CAPACITY_WARM_BINS; i++)
        ok &= sane_int(v->warm[i], 0, CAPACITY_UNITS_LIMIT);
    return ok;
}

static bool queue_sane(const struct capsim *sim)
{
    bool ok = sim->backlog >= 0 && sim->backlog < 1e30f && sane_time(sim->sample_us) &&
              sane_floats(sim->ring[0], CAPSIM_WINDOW * CAPSIM_V_COUNT, 1e30f);
    for (int i = 0; i < CAPSIM_TIMEOUT_STEPS_MAX; i++)
        ok &= sim->past_arrivals[i] >= 0 && sim->past_arrivals[i] < 1e30f;
    return ok;
}

/* Chance, time and what a lane indexes with follow from its seed and step: they must be what a
 * fresh lane there has.  *fresh is scratch; calendar and forecast are taken anew, and nobody claims
 * anything in training. */
static bool sim_sane(const struct capacity_env *env, const struct chance *chance,
                     const struct capsim *sim, struct capacity_view *v, struct capsim *fresh)
{
    const size_t noise = offsetof(struct capsim, ar_sum), noise_end = offsetof(struct capsim, step);
    struct capacity_view at;
    unsigned char cold;
    memset(&v->claims, 0, sizeof v->claims);
    v->forecast = *chance_forecast(chance, env->w, sim->step);
    at = *v;
    capsim_reset(fresh, &env->w->sim, &env->w->trace, sim->seed, sim->step, 0, &at);
    v->when = at.when;
    memcpy(&cold, &sim->window_cold, 1);
    return cold <= 1 &&
           memcmp((const char *)sim + noise, (const char *)fresh + noise, noise_end - noise) == 0 &&
           sim->slot == fresh->slot && sim->slot_steps_in == fresh->slot_steps_in &&
           sim->fail_phase == fresh->fail_phase && sim->faults == fresh->faults &&
           sim->fault_step == fresh->fault_step && sim->key_noise == fresh->key_noise &&
           sim->key_fail == fresh->key_fail && sim->key_start == fresh->key_start &&
           v->now_us == at.now_us && units_sane(env, sim, v) && queue_sane(sim);
}

static enum err_code load_lane(struct capacity_env *env, int i, const unsigned char *p,
                               struct capsim *fresh, struct err *e)
{
    struct lane *l = lane_at(env, i);
    size_t n_sim = capsim_bytes(&env->w->sim);
    memcpy(&l->core, p, sizeof l->core);
    memcpy(l->sim, p + sizeof l->core, n_sim);
    if (!core_sane(env, &l->core, l->sim) || !view_sane(env, &l->core) ||
        !sim_sane(env, env->chance[l->core.chance], l->sim, &l->core.view, fresh))
        return err_set(e, ERR_PARSE, "environment state of lane %d is damaged", i);
    take_forecast(env, l);
    enum err_code rc = capacity_state_unpack(l->cfg, p + sizeof l->core + n_sim,
                                             capacity_state_pack_size(l->cfg), l->state, e);
    return rc ? err_wrap(e, "lane %d", i) : ERR_OK;
}

static enum err_code venv_load(void *arg, const void *buf, size_t n, struct err *e)
{
    struct capacity_env *env = arg;
    struct blob_header h;
    size_t need = venv_save(env, NULL, 0);
    if (n != need)
        return err_set(e, ERR_MISMATCH, "environment state of %zu bytes, expected %zu", n, need);
    memcpy(&h, buf, sizeof h);
    const unsigned char *p = (const unsigned char *)buf + sizeof h;
    if (h.version != BLOB_VERSION)
        return err_set(e, ERR_MISMATCH, "environment state of another version");
    if (h.hash != hash_of(p, n - sizeof h))
        return err_set(e, ERR_PARSE, "environment state is damaged");
    struct capsim *fresh = try_zero_aligned(1, sizeof *fresh);
    enum err_code rc = fresh ? ERR_OK : err_set(e, ERR_NOMEM, "a lane");
    for (int i = 0; !rc && i < env->o.n_lanes; i++, p += lane_bytes(env))
        rc = load_lane(env, i, p, fresh, e);
    mem_free(fresh);
    return rc;
}

/* ---- making -----------------------------------------------------------------------------------
 */

static enum err_code lane_init(struct capacity_env *env, int i, struct err *e)
{
    struct lane *l = lane_at(env, i);
    char name[32];
    (void)snprintf(name, sizeof name, "lane %d", i);
    l->core.rng = rng_stream(env->o.seed, name);
    l->state = &env->state[place(i)];
    l->sim = (struct capsim *)(env->sim + place(i) * capsim_bytes(&env->w->sim));
    l->cfg = &env->cfg;
    if (!env->outlook)
        return ERR_OK;
    struct lane_outlook *own = &env->outlook[i];
    own->cfg = env->cfg;
    own->outlook.net = env->cfg.outlook->net;
    own->cfg.outlook = &own->outlook;
    l->cfg = &own->cfg;
    return nn_ws_new(own->outlook.net, &own->outlook.ws, e);
}

static enum err_code lanes_new(struct capacity_env *env, struct err *e)
{
    size_t n_lanes = (size_t)env->o.n_lanes, n = places(env->o.n_lanes);
    env->lane = try_zero_aligned(n, sizeof *env->lane);
    env->state = try_zero_aligned(n, sizeof *env->state);
    env->sim = try_zero_aligned(n, capsim_bytes(&env->w->sim));
    env->outlook = env->cfg.outlook ? try_zero_aligned(n_lanes, sizeof *env->outlook) : NULL;
    if (!env->lane || !env->state || !env->sim || (env->cfg.outlook && !env->outlook))
        return err_set(e, ERR_NOMEM, "%zu lanes", n_lanes);
    for (int i = 0; i < env->o.n_lanes; i++) {
        enum err_code rc = lane_init(env, i, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

enum err_code capacity_env_new(const struct world *w, struct chance *const *chance, int n_chances,
                               const struct capacity_config *cfg, const struct capacity_env_opts *o,
                               struct capacity_env **out, struct err *e)
{
    struct capacity_env *env = mem_zero(1, sizeof *env);
    *env = (struct capacity_env){
        .w = w, .chance = chance, .n_chances = n_chances, .o = *o, .cfg = *cfg};
    if (env->o.episode_steps <= 0)
        env->o.episode_steps = world_steps_per_day(w);
    int32_t room = o->to - o->from - WARM_STEPS - 1;
    if (env->o.episode_steps > room / 2) /* a short history: episodes shrink, starts stay varied */
        env->o.episode_steps = room / 2;
    if (o->n_lanes < 1 || n_chances < 1 || o->from < 0 || o->to > w->train_end ||
        env->o.episode_steps < 16) {
        mem_free(env);
        return err_set(e, ERR_RANGE, "%d lanes, %d seeds, steps %d to %d: too little to learn from",
                       o->n_lanes, n_chances, o->from, o->to);
    }
    enum err_code rc = lanes_new(env, e);
    if (rc) {
        capacity_env_free(env);
        return rc;
    }
    *out = env;
    return ERR_OK;
}

void capacity_env_free(struct capacity_env *env)
{
    if (!env)
        return;
    for (int i = 0; env->outlook && i < env->o.n_lanes; i++)
        nn_ws_free(env->outlook[i].outlook.ws);
    mem_free(env->outlook);
    mem_free(env->sim);
    mem_free(env->state);
    mem_free(env->lane);
    mem_free(env);
}

struct rl_venv capacity_env_venv(struct capacity_env *env)
{
    return (struct rl_venv){
        .env = env,
        .n_lanes = env->o.n_lanes,
        .obs_dim = CAPACITY_OBS,
        .n_actions = CAPACITY_ACTIONS,
        .reset = venv_reset,
        .step = venv_step,
        .save = venv_save,
        .load = venv_load,
    };
}

struct reward_terms capacity_env_terms(const struct capacity_env *env)
{
    struct reward_terms t = {0};
    for (int i = 0; i < env->o.n_lanes; i++) {
        const struct reward_terms *l = &lane_at(env, i)->core.terms;
        t.latency += l->latency;
        t.cost += l->cost;
        t.hold += l->hold;
        t.churn += l->churn;
    }
    return t;
}
