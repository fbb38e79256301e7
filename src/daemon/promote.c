#include "daemon/promote.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stats.h"
#include "daemon/promote_priv.h"
#include "daemon/record.h"
#include "train/evaluate.h"
#include "train/run.h"

enum { NAME = 520, TEXT = 600, DAYS_MAX = 400, POLICY = 256, WARM_DAYS = 15, SHARE = 2 };

struct one {
    struct promotion_target t;
    char name[NAME], note[TEXT];
};

/* One local day, all targets. */
struct day {
    int32_t day;
    double cost[2], misses[2], steps;
};

struct promote {
    struct promotion r;
    const struct promote_opts *o;
    struct store *const *store; /* [n_stores] */
    size_t n_stores;
    struct one *one;
    size_t n;
    struct promotion_target *target;
    char champion[POLICY], words[TEXT], setting[POLICY + 32];
    struct day *day; /* [DAYS_MAX] */
    size_t n_days;
    double violation_max; /* the strictest */
    struct promote_live *live;
};

struct promote_opts promote_opts_default(const char *challenger)
{
    return (struct promote_opts){.challenger = challenger, .n_seeds = 5, .miss_share = 0.2};
}

/* ---- intervals --------------------------------------------------------------------------------
 */

/* 97.5 % point of Student's distribution; between the rows the smaller df is taken, so intervals
 * are never too narrow. */
static double student(double df)
{
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                   2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                   2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                   2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    size_t n = sizeof table / sizeof table[0];
    if (!(df >= 1))
        return NAN;
    return df < (double)n + 1 ? table[(size_t)df - 1] : df < 60 ? 2.042 : df < 120 ? 2.000 : 1.980;
}

struct promotion_interval promote_interval(const double *x, size_t n)
{
    double mean = stats_mean(x, n);
    double half = n > 1 ? student((double)n - 1) * sqrt(stats_var(x, n) / (double)n) : NAN;
    return (struct promotion_interval){mean, mean - half, mean + half};
}

struct promotion_interval promote_welch(const double *a, size_t na, const double *b, size_t nb)
{
    double mean = stats_mean(a, na) - stats_mean(b, nb), half = NAN;
    if (na > 1 && nb > 1) {
        double va = stats_var(a, na) / (double)na, vb = stats_var(b, nb) / (double)nb;
        double df = va + vb > 0 ? (va + vb) * (va + vb) /
                                      (va * va / (double)(na - 1) + vb * vb / (double)(nb - 1))
                                : 1e9;
        half = student(df) * sqrt(va + vb);
    }
    return (struct promotion_interval){mean, mean - half, mean + half};
}

/* ---- replay -----------------------------------------------------------------------------------
 */

static struct day *day_of(struct promote *p, int32_t day)
{
    for (size_t i = 0; i < p->n_days; i++)
        if (p->day[i].day == day)
            return &p->day[i];
    if (p->n_days == DAYS_MAX)
        return NULL;
    p->day[p->n_days].day = day;
    return &p->day[p->n_days++];
}

/* Sums of one policy over the seeds, by day; a day that was measured for less than half counts for
 * nothing. */
struct side {
    struct run_result *result;
    struct run_day *day; /* [n_days] */
    int n_days;
};

static enum err_code run_side(struct promote *p, const struct world *w, const char *policy,
                              int32_t from, struct side *out, struct err *e)
{
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    struct learned l = {0};
    struct contender c;
    enum err_code rc = contender_parse(policy, &c, e);
    c.guarded = true; /* as it would run */
    if (!rc)
        rc = contender_config(&c, w, &l, cfg, e);
    for (int i = 0; i < p->o->n_seeds && !rc; i++) {
        struct chance *chance;
        rc = chance_new(w, (uint64_t)(w->scenario->chance.seed + i), &chance, e);
        if (rc)
            break;
        struct run_opts o = run_opts_default(w);
        o.from = from;
        o.warm_steps = from < world_steps_per_day(w) ? from : world_steps_per_day(w);
        rc = run_policy(w, chance, cfg, &o, out->result, e);
        out->n_days = rc ? 0 : out->result->n_days;
        for (int k = 0; k < out->n_days; k++) {
            out->day[k].day = out->result->day[k].day;
            run_day_add(&out->day[k], &out->result->day[k]);
        }
        chance_free(chance);
    }
    learned_fini(&l);
    mem_free(cfg);
    return rc;
}

static void add_days(struct promote *p, struct one *x, const struct world *w,
                     const struct side side[2])
{
    int64_t full = (int64_t)world_steps_per_day(w) * p->o->n_seeds;
    double seeds = p->o->n_seeds, steps = 0, misses[2] = {0};
    for (int k = 0; k < side[0].n_days; k++) {
        if (side[0].day[k].steps * SHARE < full)
            continue;
        struct day *d = day_of(p, side[0].day[k].day);
        if (!d)
            return;
        for (int s = 0; s < 2; s++) {
            const struct run_day *r = &side[s].day[k];
            d->cost[s] += r->cost_usd / seeds;
            d->misses[s] += (double)r->misses / seeds;
            misses[s] += (double)r->misses;
            *(s ? &x->t.cost_challenger_usd : &x->t.cost_champion_usd) += r->cost_usd / seeds;
        }
        d->steps += (double)side[0].day[k].steps / seeds;
        steps += (double)side[0].day[k].steps;
        x->t.days++;
    }
    x->t.compared = x->t.days > 0;
    x->t.miss_champion = steps > 0 ? misses[0] / steps : NAN;
    x->t.miss_challenger = steps > 0 ? misses[1] / steps : NAN;
}

static enum err_code replay(struct promote *p, struct one *x, const struct world *w, int32_t from,
                            struct err *e)
{
    struct side side[2] = {{0}};
    enum err_code rc = ERR_OK;
    for (int s = 0; s < 2; s++) {
        side[s].result = mem_zero(1, sizeof *side[s].result);
        side[s].day = mem_zero(RUN_DAYS_MAX, sizeof *side[s].day);
        if (!rc)
            rc = run_side(p, w, s ? p->o->challenger : p->champion, from, &side[s], e);
    }
    if (!rc)
        add_days(p, x, w, side);
    for (int s = 0; s < 2; s++) {
        mem_free(side[s].result);
        mem_free(side[s].day);
    }
    return rc;
}

/* First judged step: at `since`, or after an hour of warming up when there are no records before
 * it. */
static int32_t first_step(const struct promote *p, const struct recorded *past)
{
    int64_t step_us = past->scenario.step_us, from = (p->r.since_us - past->start_us) / step_us;
    int64_t least = US_PER_H / step_us;
    least = least < past->n / 4 ? least : past->n / 4;
    return (int32_t)(from > least ? from < past->n ? from : past->n - 1 : least);
}

static struct store_query query_of(const struct promote *p, const struct one *x, char ns[254])
{
    const char *slash = strchr(x->name, '/');
    (void)snprintf(ns, 254, "%.*s", (int)(slash - x->name), x->name);
    return (struct store_query){
        .namespace_ = ns, .name = slash + 1, .since_us = p->r.since_us, .until_us = p->r.until_us};
}

/* A target that cannot be compared is named; what is wrong with a policy is an error. */
static enum err_code compare(struct promote *p, struct one *x, struct err *e)
{
    struct recorded past = {0};
    struct world *w = NULL;
    struct err why = {0};
    char ns[254];
    struct store_query q = query_of(p, x, ns), all = q;
    all.since_us = p->r.since_us - WARM_DAYS * US_PER_DAY;
    enum err_code rc = recorded_load_all(p->store, p->n_stores, &all, &past, &why), bad = ERR_OK;
    if (!rc) {
        double frac = (double)first_step(p, &past) / (double)past.n;
        past.scenario.train_frac = frac < 0.05 ? 0.05 : frac > 0.95 ? 0.95 : frac;
        rc = world_from_demand(&past.scenario, past.qps, past.barred, past.n, past.start_us,
                               *past.zone ? past.zone : NULL, &w, &why);
    }
    if (!rc) {
        const struct scenario_service *service = &past.scenario.service;
        x->t.miss_margin = p->o->miss_share * service->slo_violation_max;
        p->violation_max = fmin(p->violation_max, service->slo_violation_max);
        bad = replay(p, x, w, first_step(p, &past), e);
    }
    if (!rc && !bad)
        bad = promote_live_add(p->live, p->store, p->n_stores, &q, &past, &w->latency, first_step(p, &past), e);
    if (rc || (!bad && !x->t.compared)) {
        (void)snprintf(x->note, sizeof x->note, "not compared: %.500s",
                       rc ? why.msg : "no day was measured for more than half");
        x->t.note = x->note;
    }
    world_free(w);
    recorded_fini(&past);
    return bad;
}

/* ---- verdict ----------------------------------------------------------------------------------
 */

static void fill_totals(struct promote *p)
{
    double *cost = mem_zero(2 * p->n_days + 1, sizeof *cost), *misses = cost + p->n_days;
    double steps = 0, m[2] = {0};
    struct promotion *r = &p->r;
    for (size_t i = 0; i < p->n_days; i++) {
        const struct day *d = &p->day[i];
        cost[i] = d->cost[1] - d->cost[0];
        misses[i] = (d->misses[1] - d->misses[0]) / d->steps;
        r->cost_champion_usd += d->cost[0];
        r->cost_challenger_usd += d->cost[1];
        m[0] += d->misses[0];
        m[1] += d->misses[1];
        steps += d->steps;
    }
    double mean = p->n_days ? r->cost_champion_usd / (double)p->n_days : NAN;
    r->cost_frac = promote_interval(cost, p->n_days);
    r->cost_frac.mean /= mean;
    r->cost_frac.lo /= mean;
    r->cost_frac.hi /= mean;
    r->misses = promote_interval(misses, p->n_days);
    r->miss_champion = steps > 0 ? m[0] / steps : NAN;
    r->miss_challenger = steps > 0 ? m[1] / steps : NAN;
    r->days = (int)p->n_days;
    r->miss_margin = p->o->miss_share * p->violation_max;
    mem_free(cost);
}

/* A target whose misses rose by more than its own margin; NULL: none. */
static const struct promotion_target *worst(const struct promote *p)
{
    const struct promotion_target *out = NULL;
    for (size_t i = 0; i < p->n; i++) {
        const struct promotion_target *t = &p->one[i].t;
        if (t->compared && t->miss_challenger - t->miss_champion > t->miss_margin &&
            (!out ||
             t->miss_challenger - t->miss_champion > out->miss_challenger - out->miss_champion))
            out = t;
    }
    return out;
}

static enum promotion_verdict judge(const struct promote *p)
{
    const struct promotion *r = &p->r;
    if (r->days < PROMOTE_DAYS_LEAST)
        return PROMOTION_TOO_SHORT;
    if (r->cost_frac.lo > 0)
        return PROMOTION_DEARER;
    if (!(r->cost_frac.hi < 0))
        return PROMOTION_NO_WIN;
    return !(r->misses.hi <= r->miss_margin) || worst(p) ? PROMOTION_MISSES : PROMOTION_PROMOTE;
}

static void say(struct promote *p)
{
    const struct promotion *r = &p->r;
    const struct promotion_target *t = worst(p);
    double cost = 100 * fabs(r->cost_frac.mean);
    char *out = p->words;
    switch (r->verdict) {
    case PROMOTION_PROMOTE:
        (void)snprintf(out, TEXT,
                       "%s costs %.1f %% less over %d days, significantly, and misses the SLO no "
                       "more often%s.",
                       r->challenger, cost, r->days,
                       r->days < PROMOTE_DAYS_ASKED ? "; seven days would be better ground" : "");
        break;
    case PROMOTION_NO_WIN:
        (void)snprintf(
            out, TEXT,
            "%s costs %.1f %% %s over %d days, which may be chance (95 %%: %+.1f to %+.1f %%).",
            r->challenger, cost, r->cost_frac.mean > 0 ? "more" : "less", r->days,
            100 * r->cost_frac.lo, 100 * r->cost_frac.hi);
        break;
    case PROMOTION_DEARER:
        (void)snprintf(out, TEXT, "%s costs %.1f %% more over %d days, significantly.",
                       r->challenger, cost, r->days);
        break;
    case PROMOTION_MISSES:
        (void)snprintf(
            out, TEXT,
            "%s costs %.1f %% less, but misses may rise by up to %.2f %% of the steps where %.2f "
            "%% is tolerated%s%.200s.",
            r->challenger, cost,
            100 * (t ? fmax(t->miss_challenger - t->miss_champion, r->misses.hi) : r->misses.hi),
            100 * (t ? t->miss_margin : r->miss_margin), t ? "; worst: " : "", t ? t->name : "");
        break;
    default:
        (void)snprintf(
            out, TEXT,
            "%d days are recorded (more than half of each measured); %d are needed, %d are better.",
            r->days, PROMOTE_DAYS_LEAST, PROMOTE_DAYS_ASKED);
    }
    p->r.words = p->words;
}

/* What to change, by an overlay or `kubectl edit`: sluice writes nobody's ConfigMap. */
static void fill_setting(struct promote *p)
{
    bool file = strchr(p->o->challenger, '.') != NULL;
    (void)snprintf(p->setting, sizeof p->setting,
                   file ? "policy: learned\n  policy_file: %s" : "policy: %s", p->o->challenger);
    p->r.setting = p->r.verdict == PROMOTION_PROMOTE ? p->setting : NULL;
}

/* ---- who and when -----------------------------------------------------------------------------
 */

static bool on_target(void *ctx, const struct store_target *t)
{
    struct promote *p = ctx;
    const char *wanted = p->o->target;
    char name[NAME];
    (void)snprintf(name, sizeof name, "%s/%s", t->namespace_, t->name);
    if (wanted && strcmp(wanted, name) != 0 && strcmp(wanted, t->name) != 0)
        return true;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->one[i].name, name) == 0)
            return true;
    if (p->n == PROMOTE_TARGETS_MAX)
        return false;
    p->one = mem_grow(p->one, p->n + 1, sizeof *p->one);
    memset(&p->one[p->n], 0, sizeof *p->one);
    (void)snprintf(p->one[p->n++].name, NAME, "%s", name);
    return true;
}

static bool on_newest(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    int64_t *last_us = ctx;
    (void)t;
    *last_us = d->time_us > *last_us ? d->time_us : *last_us;
    return false;
}

static enum err_code set_span(struct promote *p, struct err *e)
{
    struct store_query newest = {.newest_first = true, .limit = 1, .until_us = p->o->until_us};
    int64_t last_us = 0;
    enum err_code rc = ERR_OK;
    for (size_t i = 0; i < p->n_stores && !rc; i++)
        rc = store_decisions(p->store[i], &newest, on_newest, &last_us, e);
    if (!rc && !last_us)
        rc = err_set(e, ERR_MISSING, "store %s holds no decision of that time", store_path(p->store[0]));
    p->r.until_us = p->o->until_us ? p->o->until_us : last_us + 1;
    p->r.since_us =
        p->o->since_us ? p->o->since_us : p->r.until_us - PROMOTE_DAYS_ASKED * US_PER_DAY;
    return rc;
}

/* The policies rows name, with the file of learned ones, newest first until one is not the
 * challenger. */
struct champion {
    struct promote *p;
    struct store *s;
    int64_t time_us; /* of the row that named it; 0: none did */
};

static bool on_config(void *ctx, const struct store_config *c)
{
    char *out = ctx;
    struct record_rebuilt *made = NULL;
    struct err e;
    if (record_rebuild_service(c->text, &made, &e))
        return true;
    const char *file = record_rebuilt_source(made)->policy_file;
    if (file)
        (void)snprintf(out, POLICY, "%s", file);
    record_rebuilt_free(made);
    return true;
}

static bool same_policy(const char *a, const char *b)
{
    size_t n = strcspn(a, "+"), k = strcspn(b, "+"); /* live, both are guarded */
    return strcmp(a, b) == 0 ||
           (n == k && strncmp(a, b, n) == 0 && !strchr(a, ':') && !strchr(b, ':'));
}

static bool on_policy(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct champion *c = ctx;
    struct err e;
    char name[POLICY];
    (void)t;
    (void)snprintf(name, sizeof name, "%s", d->policy ? d->policy : "");
    if (store_config_get(c->s, d->config_id, on_config, name, &e) || !*name)
        return true;
    if (same_policy(name, c->p->o->challenger))
        return true;
    if (d->time_us > c->time_us) {
        c->time_us = d->time_us;
        (void)snprintf(c->p->champion, POLICY, "%s", name);
    }
    return false;
}

/* Who acts, else who is decided beside: with A/B and switchback either may be the newest row of a
 * target. */
static enum err_code find_champion(struct promote *p, struct err *e)
{
    enum { ROWS = 20000 }; /* an hour or more of any store */
    struct champion c = {.p = p};
    enum err_code rc = ERR_OK;
    if (p->o->champion) {
        (void)snprintf(p->champion, POLICY, "%s", p->o->champion);
    } else {
        for (int role = STORE_ACTING; role < STORE_ROLES && !*p->champion && !rc; role++) {
            struct store_query q = {.newest_first = true,
                                    .limit = ROWS,
                                    .role = 1 + role,
                                    .since_us = p->r.since_us,
                                    .until_us = p->r.until_us};
            for (size_t i = 0; i < p->n_stores && !rc; i++) {
                c.s = p->store[i];
                rc = store_decisions(c.s, &q, on_policy, &c, e);
            }
        }
    }
    if (!rc && !*p->champion)
        rc = err_set(e, ERR_MISMATCH,
                     "%s already decides every target of this time; name another --challenger, or "
                     "what it is "
                     "to be compared with by --champion",
                     p->o->challenger);
    if (!rc && same_policy(p->champion, p->o->challenger))
        rc = err_set(e, ERR_MISMATCH, "champion and challenger are both %s", p->champion);
    return rc;
}

/* Both names before the days are replayed. */
static enum err_code check_names(const struct promote *p, struct err *e)
{
    struct contender c;
    enum err_code rc = contender_parse(p->champion, &c, e);
    if (rc)
        return err_wrap(e, "champion %.100s (name another by --champion)", p->champion);
    rc = contender_parse(p->o->challenger, &c, e);
    if (!rc && c.kind == CONTENDER_ORACLE)
        rc = err_set(e, ERR_INVAL, "challenger: the oracle knows the future");
    if (!rc && (strchr(p->o->challenger, ':') || strlen(p->o->challenger) >= POLICY))
        rc = err_set(
            e, ERR_INVAL,
            "challenger %.100s: live, policies run with their defaults; compare settings with "
            "`sluice evaluate --from-store`",
            p->o->challenger);
    return rc;
}

static enum err_code examine(struct promote *p, struct err *e)
{
    enum err_code rc = set_span(p, e);
    for (size_t i = 0; i < p->n_stores && !rc; i++)
        rc = store_targets(p->store[i], on_target, p, e);
    if (!rc && p->n == 0)
        rc = err_set(e, ERR_MISSING, "store %s has no target %s", store_path(p->store[0]),
                     p->o->target ? p->o->target : "at all");
    if (!rc)
        rc = find_champion(p, e);
    if (!rc)
        rc = check_names(p, e);
    if (rc)
        return rc;
    p->live = promote_live_new(p->champion, p->o->challenger);
    for (size_t i = 0; i < p->n && !rc; i++) {
        p->one[i].t.name = p->one[i].name;
        rc = compare(p, &p->one[i], e);
    }
    return rc;
}

enum err_code promote_new(struct store *const *s, size_t n, const struct promote_opts *o,
                          struct promote **out, struct err *e)
{
    struct promote *p = mem_zero(1, sizeof *p);
    p->o = o;
    p->store = s;
    p->n_stores = n;
    p->violation_max = 1;
    p->day = mem_zero(DAYS_MAX, sizeof *p->day);
    p->r = (struct promotion){.champion = p->champion,
                              .challenger = o->challenger,
                              .zone = o->zone,
                              .n_seeds = o->n_seeds,
                              .days_least = PROMOTE_DAYS_LEAST,
                              .days_asked = PROMOTE_DAYS_ASKED};
    enum err_code rc = examine(p, e);
    if (rc) {
        promote_free(p);
        return rc;
    }
    fill_totals(p);
    p->r.verdict = judge(p);
    say(p);
    fill_setting(p);
    promote_live_end(p->live, &p->r);
    p->target = mem_zero(p->n, sizeof *p->target);
    for (size_t i = 0; i < p->n; i++)
        p->target[i] = p->one[i].t;
    p->r.target = p->target;
    p->r.n_targets = p->n;
    *out = p;
    return ERR_OK;
}

void promote_free(struct promote *p)
{
    if (!p)
        return;
    promote_live_free(p->live);
    mem_free(p->day);
    mem_free(p->one);
    mem_free(p->target);
    mem_free(p);
}

const struct promotion *promote_result(const struct promote *p)
{
    return &p->r;
}
