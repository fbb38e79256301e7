/* put.c - rows in.  Every statement is prepared once and borrows what it binds for the call. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "model/history.h"
#include "store/store_priv.h"

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

/* The id a find statement returns; 0: no such row. */
static enum err_code find_id(struct store *s, sqlite3_stmt *st, int bound, int64_t *id,
                             struct err *e)
{
    int rc = bound ? SQLITE_TOOBIG : sqlite3_step(st);
    *id = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    enum err_code code =
        rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK : store_error(s, rc, "find", e);
    (void)sqlite3_reset(st);
    return code;
}

static enum err_code insert(struct store *s, sqlite3_stmt *st, int bound, const char *what,
                            int64_t *id, struct err *e)
{
    enum err_code rc = store_run(s, st, bound, what, e);
    if (!rc)
        *id = sqlite3_last_insert_rowid(s->db);
    return rc;
}

/* ---- what decisions refer to ----------------------------------------------------------------- */

static int bind_target(sqlite3_stmt *st, const struct store_target *t)
{
    const char *const part[] = {t->cluster, t->group, t->kind, t->namespace_, t->name, t->uid};
    int bound = 0;
    for (int i = 0; i < (int)ARRAY_LEN(part); i++)
        bound |= store_bind_text(st, 1 + i, or_empty(part[i]));
    return bound;
}

static enum err_code target_id(struct store *s, const struct store_target *t, int64_t now_us,
                               int64_t *id, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_TARGET_FIND, &st, e);
    if (!rc)
        rc = find_id(s, st, bind_target(st, t), id, e);
    if (rc || *id)
        return rc;
    if ((rc = store_take(s, STATEMENT_TARGET_PUT, &st, e)))
        return rc;
    return insert(s, st, bind_target(st, t) | sqlite3_bind_int64(st, 7, now_us), "target", id, e);
}

enum err_code store_target_id(struct store *s, const struct store_target *t, int64_t now_us,
                              int64_t *id, struct err *e)
{
    enum err_code rc = store_may_write(s, e);
    return rc ? rc : store_ended(s, target_id(s, t, now_us, id, e), e);
}

static enum err_code config_id(struct store *s, const char *text, int64_t now_us, int64_t *id,
                               struct err *e)
{
    sqlite3_stmt *st = NULL;
    int64_t hash = (int64_t)hash_of(text, strlen(text));
    enum err_code rc = store_take(s, STATEMENT_CONFIG_FIND, &st, e);
    if (!rc)
        rc = find_id(s, st, sqlite3_bind_int64(st, 1, hash) | store_bind_text(st, 2, text), id, e);
    if (rc || *id)
        return rc;
    if ((rc = store_take(s, STATEMENT_CONFIG_PUT, &st, e)))
        return rc;
    int bound = sqlite3_bind_int64(st, 1, hash) | store_bind_text(st, 2, text) |
                sqlite3_bind_int64(st, 3, now_us);
    return insert(s, st, bound, "config", id, e);
}

enum err_code store_config_id(struct store *s, const char *text, int64_t now_us, int64_t *id,
                              struct err *e)
{
    enum err_code rc = store_may_write(s, e);
    return rc ? rc : store_ended(s, config_id(s, text, now_us, id, e), e);
}

/* Looked up once: this replica's identity is the same in every row. */
static enum err_code know_holder(struct store *s, const char *name, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (s->holder_id && strcmp(s->holder, name) == 0)
        return ERR_OK;
    if (strlen(name) >= sizeof s->holder)
        return err_set(e, ERR_LIMIT, "store: the identity \"%.40s...\" is longer than %d bytes",
                       name, STORE_HOLDER_MAX - 1);
    memcpy(s->holder, name, strlen(name) + 1);
    enum err_code rc = store_take(s, STATEMENT_HOLDER_FIND, &st, e);
    if (!rc)
        rc = find_id(s, st, store_bind_text(st, 1, name), &s->holder_id, e);
    if (rc || s->holder_id)
        return rc;
    if ((rc = store_take(s, STATEMENT_HOLDER_PUT, &st, e)))
        return rc;
    return insert(s, st, store_bind_text(st, 1, name), "holder", &s->holder_id, e);
}

/* ---- decisions ------------------------------------------------------------------------------- */

static int bind_decision(sqlite3_stmt *st, const struct store_decision *d, int64_t holder)
{
    int at = 1, bound = 0;
    const int64_t key[] = {d->target_id, d->config_id, holder, d->time_us, d->role, d->action};
    for (size_t i = 0; i < ARRAY_LEN(key); i++)
        bound |= sqlite3_bind_int64(st, at++, key[i]);
    bound |= store_bind_time(st, at++, d->action_us);
    bound |= store_bind_text(st, at++, d->stage);
    bound |= store_bind_text(st, at++, d->policy);
    const int64_t size[] = {(int64_t)d->inputs_hash, d->units_before, d->units_ready, d->proposed,
                            d->executed};
    for (size_t i = 0; i < ARRAY_LEN(size); i++)
        bound |= sqlite3_bind_int64(st, at++, size[i]);
    bound |= store_bind_text(st, at++, d->verdict);
    bound |= store_bind_text(st, at++, d->decisive);
    bound |= store_bind_text(st, at++, d->rule);
    bound |= d->rule ? sqlite3_bind_int64(st, at, d->rule_units) : sqlite3_bind_null(st, at);
    at++;
    const double number[] = {d->value, d->reward_cost, d->reward_slo, d->reward_churn};
    for (size_t i = 0; i < ARRAY_LEN(number); i++)
        bound |= store_bind_number(st, at++, number[i]);
    bound |= store_bind_text(st, at++, d->error);
    bound |= store_bind_text(st, at++, d->why);
    const struct store_blob *const blob[] = {&d->view, &d->obs, &d->choice, &d->chain};
    for (size_t i = 0; i < ARRAY_LEN(blob); i++)
        bound |= store_bind_blob(st, at++, blob[i]);
    return bound;
}

static enum err_code put_state(struct store *s, const struct store_decision *d, int64_t id,
                               struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_STATE_PUT, &st, e);
    if (rc)
        return rc;
    int bound = sqlite3_bind_int64(st, 1, id) | sqlite3_bind_int64(st, 2, d->target_id) |
                sqlite3_bind_int64(st, 3, d->role) | store_bind_blob(st, 4, &d->state);
    return store_run(s, st, bound, "keyframe", e);
}

static enum err_code put_decision(struct store *s, const struct store_decision *d, int64_t *id,
                                  struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = know_holder(s, or_empty(d->holder), e);
    if (!rc)
        rc = store_take(s, STATEMENT_DECISION_PUT, &st, e);
    if (!rc)
        rc = insert(s, st, bind_decision(st, d, s->holder_id), "decision", id, e);
    return rc || !d->state.n ? rc : put_state(s, d, *id, e);
}

enum err_code store_put_decision(struct store *s, const struct store_decision *d, int64_t *id,
                                 struct err *e)
{
    enum err_code rc = store_may_write(s, e);
    if (rc || s->in_round)
        return rc ? rc : store_ended(s, put_decision(s, d, id, e), e);
    if ((rc = store_begin(
             s, e))) /* a decision and its keyframe are two rows: never one without the other */
        return rc;
    if ((rc = put_decision(s, d, id, e))) {
        store_rollback(s);
        return rc;
    }
    return store_commit(s, e);
}

static enum err_code set_action(struct store *s, int64_t decision_id, enum store_action a,
                                int64_t now_us, const char *text, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_DECISION_ACTION, &st, e);
    if (rc)
        return rc;
    int bound = sqlite3_bind_int64(st, 1, decision_id) | sqlite3_bind_int64(st, 2, a) |
                store_bind_time(st, 3, now_us) | store_bind_text(st, 4, text);
    return store_run(s, st, bound, "outcome", e);
}

enum err_code store_set_action(struct store *s, int64_t decision_id, enum store_action a,
                               int64_t now_us, const char *text, struct err *e)
{
    enum err_code rc = store_may_write(s, e);
    if (rc || (rc = store_ended(s, set_action(s, decision_id, a, now_us, text, e), e)))
        return rc;
    if (sqlite3_changes(s->db) == 0) /* costs nobody the round */
        return err_set(e, ERR_MISSING, "store %s: decision %lld is not kept any longer",
                       s->opt.path, (long long)decision_id);
    return ERR_OK;
}

/* ---- measurements and forecasts -------------------------------------------------------------- */

static enum err_code put_sample(struct store *s, const struct store_sample *x, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_SAMPLE_PUT, &st, e);
    if (rc)
        return rc;
    int bound = sqlite3_bind_int64(st, 1, x->target_id) | sqlite3_bind_int64(st, 2, x->time_us);
    for (int f = 0; f < FIELD_COUNT; f++)
        bound |= store_bind_number(st, 3 + f, (double)x->value[f]);
    return store_run(s, st, bound, "sample", e);
}

enum err_code store_put_sample(struct store *s, const struct store_sample *x, struct err *e)
{
    enum err_code rc = store_may_write(s, e);
    return rc ? rc : store_ended(s, put_sample(s, x, e), e);
}

/* Where a level of a forecast lies (model/forecast.h). */
static struct store_forecast level_of(const struct forecast *f, int64_t target, int i)
{
    const int64_t point_us = 5 * US_PER_MIN;
    bool point = i < FORECAST_POINTS;
    return (struct store_forecast){.target_id = target,
                                   .made_us = f->made_us,
                                   .level = i,
                                   .from_us = f->made_us + (point ? i * point_us : 0),
                                   .to_us =
                                       f->made_us + (point ? (i + 1) * point_us : 6 * point_us),
                                   .mean = (double)f->mean[i],
                                   .lo80 = (double)f->lo80[i],
                                   .hi80 = (double)f->hi80[i],
                                   .lo95 = (double)f->lo95[i],
                                   .hi95 = (double)f->hi95[i]};
}

static enum err_code put_level(struct store *s, const struct store_forecast *l, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_FORECAST_PUT, &st, e);
    if (rc)
        return rc;
    const int64_t key[] = {l->target_id, l->made_us, l->level, l->from_us, l->to_us};
    const double number[] = {l->mean, l->lo80, l->hi80, l->lo95, l->hi95};
    int at = 1, bound = 0;
    for (size_t k = 0; k < ARRAY_LEN(key); k++)
        bound |= sqlite3_bind_int64(st, at++, key[k]);
    for (size_t k = 0; k < ARRAY_LEN(number); k++)
        bound |= store_bind_number(st, at++, number[k]);
    return store_run(s, st, bound, "forecast", e);
}

enum err_code store_put_forecast(struct store *s, int64_t target, const struct forecast *f,
                                 struct err *e)
{
    enum err_code rc = store_may_write(s, e);
    for (int i = 0; i < FORECAST_LEVELS && !rc; i++) {
        struct store_forecast l = level_of(f, target, i);
        rc = store_ended(s, put_level(s, &l, e), e);
    }
    return rc;
}

static enum err_code fill_actuals(struct store *s, int64_t now_us, int64_t step_us, int64_t *filled,
                                  struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_FORECAST_ACTUAL, &st, e);
    if (rc)
        return rc;
    int bound = sqlite3_bind_int64(st, 1, now_us) | sqlite3_bind_int64(st, 2, now_us - US_PER_H) |
                sqlite3_bind_int64(st, 3, step_us);
    rc = store_run(s, st, bound, "forecast's outcome", e);
    if (!rc && filled)
        *filled = sqlite3_changes(s->db);
    return rc;
}

enum err_code store_fill_actuals(struct store *s, int64_t now_us, int64_t step_us, int64_t *filled,
                                 struct err *e)
{
    if (filled)
        *filled = 0;
    enum err_code rc = store_may_write(s, e);
    return rc ? rc : store_ended(s, fill_actuals(s, now_us, step_us, filled, e), e);
}

static enum err_code put_note(struct store *s, const struct store_note *n, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_NOTE_PUT, &st, e);
    if (rc)
        return rc;
    int bound = sqlite3_bind_int64(st, 1, n->time_us) |
                store_bind_text(st, 2, store_note_name(n->kind)) |
                store_bind_time(st, 3, n->target_id) | store_bind_text(st, 4, n->author) |
                store_bind_text(st, 5, n->text) | store_bind_time(st, 6, n->until_us);
    return store_run(s, st, bound, "note", e);
}

enum err_code store_put_note(struct store *s, const struct store_note *n, struct err *e)
{
    enum err_code rc = store_may_write(s, e);
    return rc ? rc : store_ended(s, put_note(s, n, e), e);
}
