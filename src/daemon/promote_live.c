/* promote_live.c - what a store says of two policies at work.
 *
 * Whose decision a row is, its configuration says: the policy's name, or the file of a learned one.
 * What a step cost is the units asked for over those its demand needed, so that targets and hours
 * can be compared; misses are measured latencies over the target.  Of each switchback period the
 * first ten minutes are left out: the sizes are still the other policy's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/promote_priv.h"
#include "daemon/record.h"
#include "model/latency.h"

enum { CONFIGS_MAX = 256, DAYS_MAX = 400, PAIRS_MAX = 4096, IDS_MAX = 64, CHANGES_LEAST = 3 };
enum { DAYS_LEAST = 3, TARGETS_LEAST = 5, PAIRS_LEAST = 8 };
#define CARRY_US (600 * US_PER_S)

enum side { SIDE_NONE, SIDE_CHAMPION, SIDE_CHALLENGER, SIDE_OTHER };

struct measured {
    double units, needed, steps, misses;
};

struct pair {
    int64_t at_us;
    struct measured champion, challenger;
};

struct promote_live {
    const char *champion, *challenger;
    struct {
        const struct store *store;
        int64_t id;
        enum side side;
    } config[CONFIGS_MAX];
    int n_configs;
    int64_t day0;
    struct {
        double champion, difference;
    } day[DAYS_MAX];
    int64_t shadowed, differed;
    double units[2][PROMOTE_TARGETS_MAX], misses[2][PROMOTE_TARGETS_MAX]; /* A/B, by side */
    size_t n_ab[2];
    struct pair *pair; /* [PAIRS_MAX] */
    size_t n_pairs;
};

struct promote_live *promote_live_new(const char *champion, const char *challenger)
{
    struct promote_live *l = mem_zero(1, sizeof *l);
    l->champion = champion;
    l->challenger = challenger;
    l->pair = mem_zero(PAIRS_MAX, sizeof *l->pair);
    return l;
}

void promote_live_free(struct promote_live *l)
{
    if (l)
        mem_free(l->pair);
    mem_free(l);
}

/* ---- whose row --------------------------------------------------------------------------------
 */

/* "hpa" of "hpa:gpu=0.7" and "hpa+guard"; a file's name as it is. */
static bool is_named(const char *wanted, const char *policy, const char *file)
{
    size_t n = strcspn(wanted, ":+");
    if (file)
        return strcmp(wanted, file) == 0;
    return policy && strlen(policy) == n && strncmp(wanted, policy, n) == 0;
}

struct looked {
    char file[256];
    struct err e;
    enum err_code rc;
};

static bool on_config(void *ctx, const struct store_config *c)
{
    struct looked *x = ctx;
    struct record_rebuilt *made = NULL;
    x->rc = record_rebuild_service(c->text, &made, &x->e);
    if (!x->rc) {
        const char *file = record_rebuilt_source(made)->policy_file;
        (void)snprintf(x->file, sizeof x->file, "%s", file ? file : "");
        record_rebuilt_free(made);
    }
    return true;
}

static enum side side_of_policy(const struct promote_live *l, const char *policy, const char *file)
{
    return is_named(l->challenger, policy, file) ? SIDE_CHALLENGER
           : is_named(l->champion, policy, file) ? SIDE_CHAMPION
                                                 : SIDE_OTHER;
}

/* A configuration that this build cannot read is neither's. */
static enum side side_of(struct promote_live *l, struct store *s, const struct store_decision *d)
{
    struct looked x = {.rc = ERR_OK};
    for (int i = 0; i < l->n_configs; i++)
        if (l->config[i].store == s && l->config[i].id == d->config_id)
            return l->config[i].side;
    enum err_code rc = store_config_get(s, d->config_id, on_config, &x, &x.e);
    enum side side =
        rc || x.rc ? SIDE_OTHER : side_of_policy(l, d->policy, *x.file ? x.file : NULL);
    if (l->n_configs < CONFIGS_MAX) {
        l->config[l->n_configs].store = s;
        l->config[l->n_configs].id = d->config_id;
        l->config[l->n_configs++].side = side;
    }
    return side;
}

/* ---- one target -------------------------------------------------------------------------------
 */

struct step {
    uint8_t acting, shadow; /* enum side */
    uint8_t miss;           /* 0 unknown, 1 no, 2 yes */
    int16_t acting_units, shadow_units;
};

struct reading {
    struct promote_live *l;
    struct store *s;
    const struct recorded *past;
    struct step *step;
    int64_t id[IDS_MAX];
    int n_ids;
};

static struct step *step_at(const struct reading *r, int64_t t_us)
{
    int64_t step_us = r->past->scenario.step_us,
            i = (t_us - r->past->start_us - step_us / 2) / step_us;
    return i >= 0 && i < r->past->n ? &r->step[i] : NULL;
}

static bool on_decision(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct reading *r = ctx;
    struct step *x = step_at(r, d->time_us);
    bool known = false;
    for (int i = 0; i < r->n_ids && !known; i++)
        known = r->id[i] == t->id;
    if (!known && r->n_ids < IDS_MAX)
        r->id[r->n_ids++] = t->id;
    if (!x)
        return true;
    enum side side = side_of(r->l, r->s, d);
    if (d->role == STORE_ACTING) {
        x->acting = (uint8_t)side;
        x->acting_units = (int16_t)d->executed;
    } else {
        x->shadow = (uint8_t)side;
        x->shadow_units = (int16_t)d->executed;
    }
    return true;
}

static bool on_sample(void *ctx, const struct store_sample *x)
{
    struct reading *r = ctx;
    struct step *s = step_at(r, x->time_us);
    double p99_ms = (double)x->value[FIELD_P99_LATENCY_MS];
    if (s && isfinite(p99_ms))
        s->miss = p99_ms * 1000 > (double)r->past->scenario.service.slo_p99_us ? 2 : 1;
    return true;
}

static void count_shadow(struct promote_live *l, const struct recorded *past, int64_t i,
                         const struct step *x)
{
    bool acts = x->acting == SIDE_CHALLENGER;
    if ((acts ? x->shadow != SIDE_CHAMPION
              : x->acting != SIDE_CHAMPION || x->shadow != SIDE_CHALLENGER))
        return;
    int champion = acts ? x->shadow_units : x->acting_units,
        challenger = acts ? x->acting_units : x->shadow_units;
    int64_t day = (past->start_us + i * past->scenario.step_us) / US_PER_DAY;
    l->day0 = l->day0 ? l->day0 : day - DAYS_MAX / 2;
    day -= l->day0;
    if (day < 0 || day >= DAYS_MAX)
        return;
    l->shadowed++;
    l->differed += champion != challenger;
    l->day[day].champion += champion;
    l->day[day].difference += challenger - champion;
}

static struct measured measured_over(const struct recorded *past, const struct latency_model *m,
                                     const struct step *step, int64_t from, int64_t to)
{
    struct measured t = {0};
    for (int64_t i = from; i < to; i++) {
        if (past->barred[i])
            continue;
        int needed = latency_units_for(m, (double)past->qps[i]);
        t.units += past->units[i];
        t.needed += needed > 0 ? needed : 1;
        t.steps += step[i].miss > 0;
        t.misses += step[i].miss == 2;
    }
    return t;
}

static double over(const struct measured *t)
{
    return t->needed > 0 ? t->units / t->needed : NAN;
}

static double miss_frac(const struct measured *t)
{
    return t->steps > 0 ? t->misses / t->steps : NAN;
}

static void measured_add(struct measured *sum, const struct measured *t)
{
    sum->units += t->units;
    sum->needed += t->needed;
    sum->steps += t->steps;
    sum->misses += t->misses;
}

/* Periods that begin together are one observation, however many targets they hold. */
static void add_pair(struct promote_live *l, const struct pair *p)
{
    size_t i = 0;
    while (i < l->n_pairs && llabs(l->pair[i].at_us - p->at_us) > US_PER_MIN)
        i++;
    if (i == PAIRS_MAX)
        return;
    if (i == l->n_pairs)
        l->pair[l->n_pairs++].at_us = p->at_us;
    measured_add(&l->pair[i].champion, &p->champion);
    measured_add(&l->pair[i].challenger, &p->challenger);
}

/* End of the run of one side's steps that begins at i; steps without a decision belong to it. */
static int64_t run_end(const struct step *step, int64_t i, int64_t n)
{
    int64_t j = i + 1;
    while (j < n && (step[j].acting == step[i].acting || step[j].acting == SIDE_NONE))
        j++;
    return j;
}

static void add_periods(struct promote_live *l, const struct recorded *past,
                        const struct latency_model *m, const struct step *step, int64_t from)
{
    int64_t carry = CARRY_US / past->scenario.step_us;
    for (int64_t i = from, j, k; i < past->n; i = j) {
        j = run_end(step, i, past->n);
        if (step[i].acting != SIDE_CHAMPION || j >= past->n || step[j].acting != SIDE_CHALLENGER)
            continue;
        k = run_end(step, j, past->n);
        struct pair p = {.at_us = past->start_us + i * past->scenario.step_us,
                         .champion = measured_over(past, m, step, i + carry, j),
                         .challenger = measured_over(past, m, step, j + carry, k)};
        if (p.champion.needed > 0 && p.challenger.needed > 0)
            add_pair(l, &p);
        j = k;
    }
}

static void add_target(struct promote_live *l, const struct recorded *past,
                       const struct latency_model *m, const struct step *step, int64_t from)
{
    int64_t of[4] = {0}, changes = 0;
    for (int64_t i = from, j; i < past->n; i = j) {
        j = run_end(step, i, past->n);
        of[step[i].acting] += j - i;
        changes += i > from;
    }
    if (of[SIDE_CHAMPION] && of[SIDE_CHALLENGER] && changes >= CHANGES_LEAST) {
        add_periods(l, past, m, step, from);
        return;
    }
    for (int side = 0; side < 2; side++) {
        if (of[SIDE_CHAMPION + side] * 10 < 9 * (past->n - from) ||
            l->n_ab[side] == PROMOTE_TARGETS_MAX)
            continue;
        struct measured t = measured_over(past, m, step, from, past->n);
        l->units[side][l->n_ab[side]] = over(&t);
        l->misses[side][l->n_ab[side]++] = miss_frac(&t);
    }
}

static enum err_code read_store(struct reading *r, struct store *s, const struct store_query *q, struct err *e)
{
    r->s = s;
    r->n_ids = 0;
    enum err_code rc = store_decisions(s, q, on_decision, r, e);
    for (int i = 0; i < r->n_ids && !rc; i++)
        rc = store_samples(s, r->id[i], q->since_us, q->until_us ? q->until_us : INT64_MAX,
                           on_sample, r, e);
    return rc;
}

enum err_code promote_live_add(struct promote_live *l, struct store *const *s, size_t n,
                               const struct store_query *q, const struct recorded *past,
                               const struct latency_model *m, int32_t from, struct err *e)
{
    struct reading r = {.l = l, .past = past};
    r.step = mem_zero((size_t)past->n + 1, sizeof *r.step);
    enum err_code rc = ERR_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = read_store(&r, s[i], q, e);
    for (int64_t i = from; i < past->n && !rc; i++)
        count_shadow(l, past, i, &r.step[i]);
    if (!rc)
        add_target(l, past, m, r.step, from);
    mem_free(r.step);
    return rc;
}

/* ---- conclusions ------------------------------------------------------------------------------
 */

static struct promotion_live shadow_of(const struct promote_live *l)
{
    double x[DAYS_MAX], sum = 0;
    size_t n = 0;
    for (int i = 0; i < DAYS_MAX; i++)
        if (l->day[i].champion > 0) {
            x[n++] = l->day[i].difference;
            sum += l->day[i].champion;
        }
    for (size_t i = 0; i < n; i++)
        x[i] *= (double)n / sum;
    return (struct promotion_live){.n = l->shadowed,
                                   .n_champion = (int)n,
                                   .n_challenger =
                                       l->shadowed ? (int)(1000 * l->differed / l->shadowed) : 0,
                                   .enough = n >= DAYS_LEAST,
                                   .units_frac = promote_interval(x, n),
                                   .misses = {NAN, NAN, NAN}};
}

/* No group without both sides. */
static struct promotion_live ab_of(const struct promote_live *l)
{
    size_t a = l->n_ab[1], b = l->n_ab[0];
    if (!a || !b)
        return (struct promotion_live){0};
    return (struct promotion_live){.n = (int64_t)(a + b),
                                   .n_champion = (int)b,
                                   .n_challenger = (int)a,
                                   .enough = a >= TARGETS_LEAST && b >= TARGETS_LEAST,
                                   .units_frac = promote_welch(l->units[1], a, l->units[0], b),
                                   .misses = promote_welch(l->misses[1], a, l->misses[0], b)};
}

static struct promotion_live switchback_of(const struct promote_live *l)
{
    double *units = mem_zero(2 * l->n_pairs + 1, sizeof *units), *misses = units + l->n_pairs;
    size_t n_misses = 0;
    for (size_t i = 0; i < l->n_pairs; i++) {
        const struct pair *p = &l->pair[i];
        units[i] = over(&p->challenger) - over(&p->champion);
        double m = miss_frac(&p->challenger) - miss_frac(&p->champion);
        if (isfinite(m))
            misses[n_misses++] = m;
    }
    struct promotion_live out = {.n = (int64_t)l->n_pairs,
                                 .n_champion = (int)l->n_pairs,
                                 .n_challenger = (int)l->n_pairs,
                                 .enough = l->n_pairs >= PAIRS_LEAST,
                                 .units_frac = promote_interval(units, l->n_pairs),
                                 .misses = promote_interval(misses, n_misses)};
    mem_free(units);
    return out;
}

void promote_live_end(struct promote_live *l, struct promotion *out)
{
    out->shadow = shadow_of(l);
    out->ab = ab_of(l);
    out->switchback = switchback_of(l);
}
