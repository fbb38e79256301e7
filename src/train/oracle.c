/* oracle.c - the clairvoyant plan: what is known beforehand, and the search for a price of a miss.
 *
 * One price for all steps rarely gives up exactly as many as allowed: at the price where the count
 * passes the limit a whole stretch may be given up at once (on a smooth load, a pause without any
 * unit near the peak is the cheapest way to spend 1 % of the steps).  So of the steps that only the
 * cheaper price gives up, the first or the last ones are declared free and the others out of the
 * question, whichever is cheaper.
 * The plan then misses a few more steps than it gave up, since backlogs carry over and starts go by
 * the slot they land in; polishing mends most, and another round aims higher or lower by what is
 * left. */
#include "train/oracle.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "train/oracle_priv.h"

enum {
    ROUNDS = 4,      /* of choosing and polishing, once a plan within the limit is found */
    ROUNDS_MAX = 8,  /* until then */
    PASSES = 2,      /* of polishing in a round */
    PASSES_LAST = 6, /* where nothing is given up on purpose any more */
    LEAD_SAMPLES = 256,
    LANES = 8,
};

/* ---- what is known ------------------------------------------------------------------------- */

/* Latest request that is ready at a step, averaged over slots and steps. */
static int32_t average_lead(const struct oracle *o)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < LEAD_SAMPLES; k++) {
        int slot = k % o->units_max;
        int32_t due = o->from + (int32_t)((int64_t)k * o->n / LEAD_SAMPLES) + UINT16_MAX;
        int32_t lead = o->b.lag;
        while (capsim_start_steps(o->w, o->seed, slot, due - lead) > lead)
            lead++;
        sum += lead;
    }
    return (int32_t)((sum + LEAD_SAMPLES / 2) / LEAD_SAMPLES);
}

/* Smallest size whose ready units suffice if the lowest slots run; 0 when none does. */
static uint16_t size_for(const struct capsim *lane, int need, int units_max)
{
    int units = need, down;
    do {
        if (units > units_max)
            return 0;
        down = 0;
        for (int k = 0; k * CAPSIM_GROUP < units; k++) {
            int left = units - k * CAPSIM_GROUP;
            uint64_t mask = left >= CAPSIM_GROUP ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;
            down += __builtin_popcountll(lane->group[k].down & mask);
        }
        if (need + down == units)
            return (uint16_t)units;
        units = need + down;
    } while (true);
}

static void fill_known(struct oracle *o)
{
    struct capacity_view view;
    struct capsim_out out;
    int32_t sum = 0;
    o->lead = average_lead(o);
    capsim_reset(o->lane, o->w, o->t, o->seed, o->from, o->units0, &view);
    for (int32_t i = 0; i < o->n; i++) {
        o->want[i] = o->b.need[i] ? size_for(o->lane, o->b.need[i], o->units_max) : 0;
        capsim_step(o->lane, o->w, o->t, 0, &view, &out);
        o->start[i] = i < o->lead ? ORACLE_NO_START : (uint16_t)sum;
        sum += o->b.billed[i] - (i >= o->lead ? o->b.billed[i - o->lead] : 0);
    }
}

static enum err_code oracle_init(struct oracle *o, struct err *e)
{
    enum err_code rc =
        bound_init(&o->b, o->w, o->t, o->seed, o->from, o->from + o->n, o->units0, e);
    if (rc)
        return rc;
    size_t n = (size_t)o->n, width = (size_t)o->units_max + 1, kept = n / ORACLE_BLOCK + 1;
    o->want = try_zero(n, sizeof *o->want);
    o->start = try_zero(n, sizeof *o->start);
    o->price = try_zero(n, sizeof *o->price);
    o->serve = try_zero(n, sizeof *o->serve);
    o->above = try_zero(n, sizeof *o->above);
    o->marks = try_zero(kept * width, sizeof *o->marks);
    o->rows = try_zero((ORACLE_BLOCK + 1) * width, sizeof *o->rows);
    o->state = try_zero(n, sizeof *o->state);
    o->miss = try_zero(n, sizeof *o->miss);
    o->lane = try_zero_aligned(1, sizeof *o->lane);
    o->cursor = try_zero_aligned(1, sizeof *o->cursor);
    if (!o->want || !o->start || !o->price || !o->serve || !o->above || !o->marks || !o->rows ||
        !o->state || !o->miss || !o->lane || !o->cursor)
        return err_set(e, ERR_NOMEM, "oracle of %d steps", o->n);
    fill_known(o);
    return ERR_OK;
}

static void oracle_fini(struct oracle *o)
{
    bound_fini(&o->b);
    mem_free(o->want);
    mem_free(o->start);
    mem_free(o->price);
    mem_free(o->serve);
    mem_free(o->above);
    mem_free(o->marks);
    mem_free(o->rows);
    mem_free(o->state);
    mem_free(o->miss);
    mem_free(o->lane);
    mem_free(o->cursor);
}

struct oracle_tally oracle_simulate(struct oracle *o, const int16_t *units)
{
    struct oracle_tally sum = {0};
    struct capacity_view view;
    struct capsim_out out;
    capsim_reset(o->lane, o->w, o->t, o->seed, o->from, o->units0, &view);
    for (int32_t i = 0; i < o->n; i++) {
        capsim_step(o->lane, o->w, o->t, units[i], &view, &out);
        if (out.barred)
            continue;
        sum.unit_steps += out.units_billed;
        sum.cost_usd += (double)out.cost_usd;
        sum.misses += out.miss;
    }
    return sum;
}

/* ---- the price of a miss ------------------------------------------------------------------- */

static int32_t price_max(const struct oracle *o)
{
    return (o->lead + 1) * o->units_max * ORACLE_SCALE; /* nothing is given up at this */
}

/* Neighbouring prices, *lo giving up more than `target` steps, *hi at most so many.  The same
 * programme without the way back is the bound's, which takes eight prices at once. */
static void bracket_price(struct oracle *o, int32_t target, int32_t *lo, int32_t *hi)
{
    struct bound b = o->b;
    b.need = o->want;
    b.start = o->start;
    b.lag = o->lead;
    b.n_forced = 0;
    *lo = 0;
    *hi = price_max(o);
    while (*hi - *lo > 1) {
        double lambda[LANES];
        struct bound_point p[LANES];
        for (int l = 0; l < LANES; l++)
            lambda[l] = (double)(*lo + (int64_t)(*hi - *lo) * (l + 1) / (LANES + 1)) / ORACLE_SCALE;
        bound_relaxed(&b, lambda, LANES, p);
        for (int l = 0; l < LANES; l++) {
            int32_t price = (int32_t)lround(p[l].lambda * ORACLE_SCALE);
            if (p[l].misses > target)
                *lo = price > *lo ? price : *lo;
            else
                *hi = price < *hi ? price : *hi;
        }
    }
}

static int32_t choose_at(struct oracle *o, int32_t price)
{
    for (int32_t i = 0; i < o->n; i++)
        o->price[i] = price;
    return oracle_choose(o);
}

static int64_t plan_unit_steps(const struct oracle *o, const int16_t *units)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < o->n; i++)
        sum += units[i] * o->b.billed[i];
    return sum;
}

/* A plan in units[], a second one in spare[]: what is given up beside the dear price's choice are
 * the steps [first, first + n) of the list `extra`. */
static void plan_with(struct oracle *o, int32_t dear, const int32_t *extra, int32_t n_extra,
                      int32_t first, int32_t n, int16_t *units)
{
    for (int32_t i = 0; i < o->n; i++)
        o->price[i] = dear;
    for (int32_t k = 0; k < n_extra; k++)
        o->price[extra[k]] = k >= first && k < first + n ? 0 : price_max(o);
    (void)oracle_choose(o);
    oracle_ask(o, units);
}

/* Plan giving up about `target` of the steps that could be served; *price: what a miss is worth
 * there. */
static void plan_for(struct oracle *o, int32_t target, int32_t *extra, int16_t *units,
                     int16_t *spare, double *price)
{
    int32_t cheap, dear, n_extra = 0;
    bracket_price(o, target, &cheap, &dear);
    dear++; /* at the bracket itself plans may tie; here even the one with most misses has few
               enough */
    *price = (double)cheap /
             ORACLE_SCALE; /* the lower one: polishing is not to buy back what was freed */
    (void)choose_at(o, cheap);
    for (int32_t i = 0; i < o->n; i++)
        if (o->want[i] && !o->serve[i])
            extra[n_extra++] = i;
    int32_t given_up = choose_at(o, dear), kept = 0;
    for (int32_t k = 0; k < n_extra; k++)
        if (o->serve[extra[k]])
            extra[kept++] = extra[k];
    n_extra = kept;
    int32_t n = target > given_up ? target - given_up : 0;
    n = n < n_extra ? n : n_extra;
    plan_with(o, dear, extra, n_extra, 0, n, units);
    plan_with(o, dear, extra, n_extra, n_extra - n, n, spare);
    if (plan_unit_steps(o, spare) < plan_unit_steps(o, units))
        memcpy(units, spare, (size_t)o->n * sizeof *units);
}

/* ---- rounds -------------------------------------------------------------------------------- */

struct best {
    int16_t *units; /* the caller's */
    struct oracle_tally tally;
    bool any;
};

/* Fewest misses first while over the limit, then the cheapest. */
static void keep_better(struct best *best, struct oracle *o, const int16_t *units)
{
    struct oracle_tally now = oracle_simulate(o, units);
    int32_t over = now.misses > o->allowed ? now.misses : 0;
    int32_t over_best = best->tally.misses > o->allowed ? best->tally.misses : 0;
    if (best->any &&
        (over > over_best || (over == over_best && now.unit_steps >= best->tally.unit_steps)))
        return;
    best->any = true;
    best->tally = now;
    memcpy(best->units, units, (size_t)o->n * sizeof *units);
}

/* Polish what is in units[]; dearer where the limit is still exceeded.  Returns its misses. */
static int32_t polish_passes(struct oracle *o, struct best *best, int16_t *units, double price,
                             int passes)
{
    int32_t misses = 0;
    for (int pass = 0; pass < passes; pass++) {
        misses = oracle_polish(o, units, price);
        keep_better(best, o, units);
        if (misses > o->allowed)
            price = 1.3 * price + 1;
    }
    return misses;
}

static void search(struct oracle *o, struct best *best, int16_t *units, int16_t *spare,
                   int32_t *extra)
{
    int32_t can = 0, lost = o->b.n_forced; /* steps that could be served, and that could not */
    for (int32_t i = 0; i < o->n; i++) {
        can += o->want[i] > 0;
        lost += o->b.need[i] > 0 && !o->want[i];
    }
    int32_t aim = o->allowed - lost;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        double price = 0;
        int32_t target = aim < 0 ? 0 : aim;
        if (target >= can)
            memset(units, 0, (size_t)o->n * sizeof *units);
        else
            plan_for(o, target, extra, units, spare, &price);
        int32_t misses = polish_passes(o, best, units, price, target > 0 ? PASSES : PASSES_LAST);
        int32_t left = o->allowed - misses;
        bool met = best->tally.misses <= o->allowed;
        if (target == 0 || left == 0 || (met && round + 1 >= ROUNDS))
            break;
        aim = target + left - (left < 0 ? round : 0);
    }
}

static enum err_code check(const struct capsim_world *w, const struct capsim_trace *t, int32_t from,
                           int32_t to, int units0, double limit, struct err *e)
{
    if (from < 0 || to > t->n || from >= to)
        return err_set(e, ERR_RANGE, "oracle: steps %d..%d are not a stretch of 0..%d", from, to,
                       t->n);
    if (units0 < 0 || units0 > w->spec.units_max)
        return err_set(e, ERR_RANGE, "oracle: %d units at the start are outside 0..%d", units0,
                       w->spec.units_max);
    if (!(limit >= 0 && limit <= 1))
        return err_set(e, ERR_INVAL, "oracle: limit %g is outside 0..1", limit);
    return ERR_OK;
}

enum err_code oracle_plan(const struct capsim_world *w, const struct capsim_trace *t, uint64_t seed,
                          int32_t from, int32_t to, int units0, double limit, int16_t *units,
                          struct oracle_result *out, struct err *e)
{
    enum err_code rc = check(w, t, from, to, units0, limit, e);
    if (rc)
        return rc;
    struct oracle o = {.w = w,
                       .t = t,
                       .seed = seed,
                       .from = from,
                       .n = to - from,
                       .units0 = units0,
                       .units_max = w->spec.units_max};
    struct best best = {.units = units};
    int16_t *plan = try_zero((size_t)o.n, sizeof *plan),
            *spare = try_zero((size_t)o.n, sizeof *spare);
    int32_t *extra = try_zero((size_t)o.n, sizeof *extra);
    rc = plan && spare && extra ? oracle_init(&o, e)
                                : err_set(e, ERR_NOMEM, "oracle of %d steps", o.n);
    if (!rc) {
        o.allowed = bound_allowed(&o.b, limit);
        search(&o, &best, plan, spare, extra);
        *out = (struct oracle_result){.cost_usd = best.tally.cost_usd,
                                      .unit_steps = best.tally.unit_steps,
                                      .misses = best.tally.misses,
                                      .counted = o.b.n_counted,
                                      .met = best.tally.misses <= o.allowed};
    }
    oracle_fini(&o);
    mem_free(plan);
    mem_free(spare);
    mem_free(extra);
    return rc;
}
