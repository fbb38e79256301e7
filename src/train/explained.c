#include "train/explained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/tz.h"
#include "decide/tree.h"

enum { TREE_EVERY = 4, TREE_ROWS = 120000, RECORDS_MAX = 20000 };
enum { CLASS_IN, CLASS_HOLD, CLASS_OUT, CLASSES };

struct explained_texts {
    struct explained_text of[REPORT_DECISIONS_MAX];
};

/* What a run leaves behind. */
struct gather {
    struct capacity_record *record; /* changes and vetoes */
    int n, cap;
    size_t n_total;
    float *obs;      /* [n_rows][CAPACITY_OBS], every TREE_EVERY-th step */
    uint8_t *label;
    int32_t *day;
    size_t n_rows;
    struct nn_policy *net;
};

static void on_step(void *ctx, const struct run_look *l)
{
    struct gather *g = ctx;
    const struct capacity_record *r = l->record;
    if (l->step % TREE_EVERY == 0 && g->n_rows < TREE_ROWS) {
        memcpy(g->obs + g->n_rows * CAPACITY_OBS, r->obs, sizeof r->obs);
        g->label[g->n_rows] = r->executed < r->units_before ? CLASS_IN : r->executed > r->units_before ? CLASS_OUT
                                                                                                      : CLASS_HOLD;
        g->day[g->n_rows++] = l->view->when.day;
    }
    if (r->executed == r->units_before && r->proposed == r->executed)
        return;
    g->n_total++;
    if (g->n == g->cap && g->cap < RECORDS_MAX) {
        g->cap = g->cap ? 2 * g->cap : 256;
        g->record = mem_grow(g->record, (size_t)g->cap, sizeof *g->record);
    }
    if (g->n < g->cap)
        g->record[g->n++] = *r;
}

static int by_move(const void *a, const void *b)
{
    const struct capacity_record *x = a, *y = b;
    int dx = abs(x->executed - x->units_before), dy = abs(y->executed - y->units_before);
    if (dx != dy)
        return dx > dy ? -1 : 1;
    return (x->now_us > y->now_us) - (x->now_us < y->now_us);
}

static int by_time(const void *a, const void *b)
{
    const struct capacity_record *x = a, *y = b;
    return (x->now_us > y->now_us) - (x->now_us < y->now_us);
}

/* The record's place in the order of nearness to at_us: its distance, then the earlier one. */
static int by_distance(const void *a, const void *b, void *arg)
{
    const struct capacity_record *x = a, *y = b;
    int64_t at_us = *(const int64_t *)arg, dx = llabs(x->now_us - at_us), dy = llabs(y->now_us - at_us);
    if (dx != dy)
        return dx < dy ? -1 : 1;
    return by_time(a, b);
}

/* The first `n` of the records become the ones to list, in order of time. */
static void pick(struct gather *g, size_t n, int64_t at_us)
{
    if (g->n == 0)
        return;
    if (at_us == EXPLAINED_MOST)
        qsort(g->record, (size_t)g->n, sizeof *g->record, by_move);
    else
        qsort_r(g->record, (size_t)g->n, sizeof *g->record, by_distance, &at_us);
    qsort(g->record, n, sizeof *g->record, by_time);
}

static enum err_code check_time(const struct world *w, int64_t at_us, struct err *e)
{
    int64_t step_us = w->sim.spec.step_us, from_us = w->start_us + w->train_end * step_us,
            to_us = w->start_us + w->n * step_us;
    if (at_us == EXPLAINED_MOST || (at_us >= from_us && at_us < to_us))
        return ERR_OK;
    char from[TZ_TEXT], to[TZ_TEXT];
    tz_format_rfc3339(w->zone, from_us, from);
    tz_format_rfc3339(w->zone, to_us, to);
    return err_set(e, ERR_RANGE, "the time is outside the test days, %s to %s", from, to);
}

/* Weight of each feature in the network's choice, towards more units; false without a network. */
static bool network_weights(struct nn_policy *net, const struct capacity_record *r, float *weight)
{
    float neutral[CAPACITY_OBS];
    if (!net || r->action < 0 || nn_net_state_dim(nn_policy_net(net)) > 0)
        return false;
    explain_neutral(neutral);
    nn_policy_attribution(net, r->obs, r->mask, NULL, r->action, weight);
    float sign = r->action < CAPACITY_ACTION_HOLD ? -1 : 1;
    for (int i = 0; i < CAPACITY_OBS; i++)
        weight[i] *= sign * (r->obs[i] - neutral[i]);
    return true;
}

void explained_decision(const struct capacity_record *r, struct nn_policy *net, const char *rule,
                        struct explained_text *t, struct report_decision *d)
{
    static const enum report_verdict verdict[GUARD_VERDICTS] = {
        [GUARD_PASS] = REPORT_PASS, [GUARD_CLAMP] = REPORT_LIMIT, [GUARD_HOLD] = REPORT_VETO, [GUARD_VETO] = REPORT_VETO};
    float weight[CAPACITY_OBS];
    struct explain_factor factor[EXPLAIN_FACTORS];
    if (!network_weights(net, r, weight))
        explain_salience(r->obs, weight);
    int n = explain_factors(r, weight, factor);
    *d = (struct report_decision){.time_us = r->now_us, .policy = r->policy, .units_from = r->units_before,
                                  .units_proposed = r->proposed, .units_to = r->executed, .checks = t->check,
                                  .n_checks = r->n_checks, .rule_units = r->rule_units,
                                  .rule_name = r->rule_units >= 0 ? rule : NULL};
    for (int i = 0; i < n; i++) {
        explain_factor_text(r, &factor[i], t->factor[i], EXPLAINED_TEXT);
        d->factors[i] = t->factor[i];
    }
    for (int i = 0; i < r->n_checks; i++) {
        t->reason[i][0] = '\0';
        if (!guard_silent(&r->chain[i]))
            guard_reason(&r->chain[i], t->reason[i], EXPLAINED_TEXT);
        t->check[i] = (struct report_check){.name = guard_check_name((enum guard_check)r->chain[i].check),
                                            .verdict = verdict[r->chain[i].verdict], .reason = t->reason[i]};
    }
}

/* Fitted on even days, measured on odd ones. */
static enum err_code distil(struct gather *g, struct explained *out, struct err *e)
{
    static const char *const names[CLASSES] = {"scale in", "hold", "scale out"};
    struct tree_opts o = tree_opts_default();
    struct tree tree;
    size_t even = 0;
    o.n_classes = CLASSES;
    for (size_t i = 0; i < g->n_rows; i++) { /* even days to the front, order kept */
        if (g->day[i] % 2)
            continue;
        float obs[CAPACITY_OBS];
        uint8_t label = g->label[i];
        memcpy(obs, g->obs + i * CAPACITY_OBS, sizeof obs);
        memcpy(g->obs + i * CAPACITY_OBS, g->obs + even * CAPACITY_OBS, sizeof obs);
        g->label[i] = g->label[even];
        g->day[i] = g->day[even];
        memcpy(g->obs + even * CAPACITY_OBS, obs, sizeof obs);
        g->label[even] = label;
        g->day[even++] = 0;
    }
    if (even < 500 || g->n_rows - even < 500)
        return ERR_OK; /* too few days to hold any out */
    enum err_code rc = tree_fit(g->obs, g->label, even, &o, &tree, e);
    if (rc)
        return rc;
    struct tree_fidelity f = tree_fidelity(&tree, g->obs + even * CAPACITY_OBS, g->label + even, g->n_rows - even);
    struct buf text = buf_init(REPORT_TEXT_MAX);
    buf_fmt(&text, "agrees with the policy in %.1f %% of %zu held-out states (always \"hold\": %.1f %%); averaged over "
                   "the three kinds of move: %.1f %%\n", 100 * f.agreement, f.n, 100 * f.majority, 100 * f.balanced);
    tree_text(&tree, names, &text);
    out->tree = buf_take(&text);
    out->tree_fidelity = f.agreement;
    out->tree_rows = (int)even;
    return ERR_OK;
}

static enum err_code run_records(const struct world *w, const struct chance *c, const struct contender *who,
                                 const struct policy_use *rule, struct learned *l, struct gather *g, struct err *e)
{
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    struct run_result *result = mem_zero(1, sizeof *result);
    struct run_opts o = run_opts_default(w);
    o.records = true;
    o.look = on_step;
    o.ctx = g;
    enum err_code rc = contender_config(who, w, l, cfg, e);
    if (!rc && rule) {
        cfg->rule = *rule;
        rc = capacity_config_finish(cfg, e);
    }
    g->net = l->net;
    if (!rc)
        rc = run_policy(w, c, cfg, &o, result, e);
    mem_free(result);
    mem_free(cfg);
    return rc;
}

enum err_code explained_make(const struct world *w, const struct chance *c, const struct contender *who,
                             const struct policy_use *rule, size_t max, int64_t at_us, struct explained *out,
                             struct err *e)
{
    struct learned l = {0};
    struct gather g = {0};
    memset(out, 0, sizeof *out);
    out->tree_fidelity = NAN;
    enum err_code rc = check_time(w, at_us, e);
    if (rc)
        return rc;
    g.obs = mem_zero(TREE_ROWS, sizeof(float) * CAPACITY_OBS);
    g.label = mem_zero(TREE_ROWS, 1);
    g.day = mem_zero(TREE_ROWS, sizeof *g.day);
    rc = run_records(w, c, who, rule, &l, &g, e);
    if (!rc)
        rc = distil(&g, out, e);
    if (!rc) {
        max = max < REPORT_DECISIONS_MAX ? max : REPORT_DECISIONS_MAX;
        out->n = (size_t)g.n < max ? (size_t)g.n : max;
        out->n_total = g.n_total;
        out->note = out->n == g.n_total        ? "all changes and vetoes"
                    : at_us == EXPLAINED_MOST ? "those that moved most"
                                              : "those nearest to the time asked for";
        out->decision = mem_zero(out->n + 1, sizeof *out->decision);
        out->texts = mem_zero(1, sizeof *out->texts);
        pick(&g, out->n, at_us);
        for (size_t i = 0; i < out->n; i++)
            explained_decision(&g.record[i], g.net, rule ? rule->policy->name : NULL, &out->texts->of[i],
                               &out->decision[i]);
    }
    learned_fini(&l);
    mem_free(g.record);
    mem_free(g.obs);
    mem_free(g.label);
    mem_free(g.day);
    if (rc)
        explained_fini(out);
    return rc;
}

void explained_fini(struct explained *x)
{
    mem_free(x->decision);
    mem_free(x->tree);
    mem_free(x->texts);
    memset(x, 0, sizeof *x);
}
