/* get.c - rows out.  Rows are borrowed from SQLite for the time of the callback. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/store_priv.h"

/* ---- decisions ------------------------------------------------------------------------------- */

/* Columns in the order of SQL_DECISION_COLUMNS, then of SQL_DECISION_BLOBS. */
static void read_decision(sqlite3_stmt *st, bool blobs, struct store_decision *d,
                          struct store_target *t)
{
    int at = 0;
    int64_t action, role;
    memset(d, 0, sizeof *d);
    d->id = sqlite3_column_int64(st, at++);
    d->target_id = sqlite3_column_int64(st, at++);
    d->config_id = sqlite3_column_int64(st, at++);
    d->time_us = sqlite3_column_int64(st, at++);
    role = sqlite3_column_int64(st, at++);
    d->role = role == STORE_SHADOW ? STORE_SHADOW : STORE_ACTING;
    action = sqlite3_column_int64(st, at++);
    d->action = action >= 0 && action < STORE_ACTIONS ? (enum store_action)action : STORE_NONE;
    d->action_us = sqlite3_column_int64(st, at++);
    d->outcome = store_column_text(st, at++);
    d->stage = store_column_text(st, at++);
    d->policy = store_column_text(st, at++);
    d->inputs_hash = (uint64_t)sqlite3_column_int64(st, at++);
    d->units_before = sqlite3_column_int(st, at++);
    d->units_ready = sqlite3_column_int(st, at++);
    d->proposed = sqlite3_column_int(st, at++);
    d->executed = sqlite3_column_int(st, at++);
    d->verdict = store_column_text(st, at++);
    d->decisive = store_column_text(st, at++);
    d->rule = store_column_text(st, at++);
    d->rule_units = sqlite3_column_int(st, at++);
    d->value = store_column_number(st, at++);
    d->reward_cost = store_column_number(st, at++);
    d->reward_slo = store_column_number(st, at++);
    d->reward_churn = store_column_number(st, at++);
    d->error = store_column_text(st, at++);
    d->why = store_column_text(st, at++);
    d->holder = store_column_text(st, at++);
    t->id = sqlite3_column_int64(st, at++);
    const char **const part[] = {&t->cluster,    &t->group, &t->kind,
                                 &t->namespace_, &t->name,  &t->uid};
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        *part[i] = store_column_text(st, at++);
    struct store_blob *const blob[] = {&d->view, &d->obs, &d->choice, &d->chain, &d->state};
    for (size_t i = 0; blobs && i < ARRAY_LEN(blob); i++)
        *blob[i] = store_column_blob(st, at++);
}

/* One condition of a query: its SQL and its parameter. */
struct condition {
    bool wanted;
    const char *sql; /* with one ?, or none */
    int64_t number;
    const char *text; /* instead of the number */
};

/* Conditions by name go through the small table of targets first. */
#define IN_TARGETS(column) "d.target_id IN (SELECT id FROM targets WHERE " column " = ?)"

static size_t conditions_of(const struct store_query *q, struct condition c[])
{
    const struct condition all[] = {
        {q->target_id != 0, "d.target_id = ?", q->target_id, NULL},
        {q->namespace_ != NULL, IN_TARGETS("namespace"), 0, q->namespace_},
        {q->name != NULL, IN_TARGETS("name"), 0, q->name},
        {q->since_us != 0, "d.time_us >= ?", q->since_us, NULL},
        {q->until_us != 0, "d.time_us < ?", q->until_us, NULL},
        {q->first_id != 0, "d.id >= ?", q->first_id, NULL},
        {q->last_id != 0, "d.id <= ?", q->last_id, NULL},
        {q->verdict != NULL, "d.verdict = ?", 0, q->verdict},
        {q->role != 0, "d.role = ?", q->role - 1, NULL},
        {q->acted, "d.action <> 0", 0, NULL},
        {q->pending, "d.action = 1", 0, NULL},
    };
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].wanted)
            c[n++] = all[i];
    return n;
}

enum { CONDITIONS_MAX = 12 };

static enum err_code prepare_query(struct store *s, const struct store_query *q, sqlite3_stmt **out,
                                   struct err *e)
{
    struct condition c[CONDITIONS_MAX];
    struct buf sql = buf_init(1 << 16);
    size_t n = conditions_of(q, c);
    buf_fmt(&sql, "SELECT %s%s%s%s", SQL_DECISION_COLUMNS, q->blobs ? SQL_DECISION_BLOBS : "",
            SQL_DECISION_FROM, q->blobs ? SQL_DECISION_STATE : "");
    for (size_t i = 0; i < n; i++)
        buf_fmt(&sql, "%s%s", i ? " AND " : " WHERE ", c[i].sql);
    buf_fmt(&sql, " ORDER BY d.id%s LIMIT ?", q->newest_first ? " DESC" : "");
    int rc = sqlite3_prepare_v2(s->db, sql.p, (int)sql.n, out, NULL), at = 1;
    buf_fini(&sql);
    for (size_t i = 0; i < n && !rc; i++)
        if (strchr(c[i].sql, '?'))
            rc = c[i].text ? store_bind_text(*out, at++, c[i].text)
                           : sqlite3_bind_int64(*out, at++, c[i].number);
    if (!rc)
        rc = sqlite3_bind_int64(*out, at, q->limit > 0 ? q->limit : -1);
    return rc ? store_error(s, rc, "query", e) : ERR_OK;
}

enum err_code store_decisions(struct store *s, const struct store_query *q, store_decision_fn *fn,
                              void *ctx, struct err *e)
{
    sqlite3_stmt *st = NULL;
    struct store_decision d;
    struct store_target t;
    int step = SQLITE_DONE;
    enum err_code rc = prepare_query(s, q, &st, e);
    while (!rc && (step = sqlite3_step(st)) == SQLITE_ROW) {
        read_decision(st, q->blobs, &d, &t);
        if (!fn(ctx, &d, &t))
            break;
    }
    if (!rc && step != SQLITE_DONE && step != SQLITE_ROW)
        rc = store_error(s, step, "read", e);
    (void)sqlite3_finalize(st);
    return rc;
}

struct one {
    store_decision_fn *fn;
    void *ctx;
    bool found;
};

static bool on_one(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct one *o = ctx;
    o->found = true;
    return o->fn(o->ctx, d, t);
}

static enum err_code no_such_decision(struct store *s, int64_t id, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_DECISION_SPAN, &st, e);
    if (rc)
        return rc;
    int step = sqlite3_step(st);
    if (step != SQLITE_ROW)
        rc = store_error(s, step, "read", e);
    else if (sqlite3_column_type(st, 0) == SQLITE_NULL)
        rc = err_set(e, ERR_MISSING, "decision %" PRId64 ": store %s has no decisions yet", id,
                     s->opt.path);
    else
        rc = err_set(e, ERR_MISSING,
                     "decision %" PRId64 ": store %s has the decisions %" PRId64 " to %" PRId64, id,
                     s->opt.path, (int64_t)sqlite3_column_int64(st, 0),
                     (int64_t)sqlite3_column_int64(st, 1));
    (void)sqlite3_reset(st);
    return rc;
}

enum err_code store_decision_get(struct store *s, int64_t id, store_decision_fn *fn, void *ctx,
                                 struct err *e)
{
    struct one o = {.fn = fn, .ctx = ctx};
    struct store_query q = {.first_id = id, .last_id = id, .blobs = true, .limit = 1};
    enum err_code rc = id > 0 ? store_decisions(s, &q, on_one, &o, e) : ERR_OK;
    return rc || o.found ? rc : no_such_decision(s, id, e);
}

/* ---- other tables ---------------------------------------------------------------------------- */

/* Steps through a statement; row() returns false to stop. */
typedef bool row_fn(sqlite3_stmt *st, void *arg);
static enum err_code each_row(struct store *s, sqlite3_stmt *st, int bound, row_fn *row, void *arg,
                              struct err *e)
{
    int step = bound ? SQLITE_TOOBIG : SQLITE_DONE;
    while (!bound && (step = sqlite3_step(st)) == SQLITE_ROW)
        if (!row(st, arg))
            break;
    enum err_code rc =
        step == SQLITE_DONE || step == SQLITE_ROW ? ERR_OK : store_error(s, step, "read", e);
    (void)sqlite3_reset(st);
    return rc;
}

enum err_code store_keyframe_before(struct store *s, int64_t decision_id, int64_t *id,
                                    struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_KEYFRAME_BEFORE, &st, e);
    *id = 0;
    if (rc)
        return rc;
    int step = sqlite3_bind_int64(st, 1, decision_id) ? SQLITE_TOOBIG : sqlite3_step(st);
    if (step == SQLITE_ROW)
        *id = sqlite3_column_int64(st, 0);
    else if (step != SQLITE_DONE)
        rc = store_error(s, step, "read", e);
    (void)sqlite3_reset(st);
    return rc;
}

struct target_reader {
    store_target_fn *fn;
    void *ctx;
};

static bool read_target(sqlite3_stmt *st, void *arg)
{
    struct target_reader *r = arg;
    struct store_target t = {.id = sqlite3_column_int64(st, 0)};
    const char **const part[] = {&t.cluster, &t.group, &t.kind, &t.namespace_, &t.name, &t.uid};
    for (int i = 0; i < (int)ARRAY_LEN(part); i++)
        *part[i] = store_column_text(st, 1 + i);
    return r->fn(r->ctx, &t);
}

enum err_code store_targets(struct store *s, store_target_fn *fn, void *ctx, struct err *e)
{
    sqlite3_stmt *st = NULL;
    struct target_reader r = {fn, ctx};
    enum err_code rc = store_take(s, STATEMENT_TARGET_LIST, &st, e);
    return rc ? rc : each_row(s, st, 0, read_target, &r, e);
}

struct config_reader {
    store_config_fn *fn;
    void *ctx;
    bool found;
};

static bool read_config(sqlite3_stmt *st, void *arg)
{
    struct config_reader *r = arg;
    struct store_config c = {.id = sqlite3_column_int64(st, 0),
                             .first_us = sqlite3_column_int64(st, 1),
                             .hash = (uint64_t)sqlite3_column_int64(st, 2),
                             .text = store_column_text(st, 3)};
    r->found = true;
    return r->fn(r->ctx, &c);
}

enum err_code store_config_get(struct store *s, int64_t id, store_config_fn *fn, void *ctx,
                               struct err *e)
{
    sqlite3_stmt *st = NULL;
    struct config_reader r = {fn, ctx, false};
    enum err_code rc = store_take(s, STATEMENT_CONFIG_GET, &st, e);
    if (!rc)
        rc = each_row(s, st, sqlite3_bind_int64(st, 1, id), read_config, &r, e);
    if (!rc && !r.found)
        rc = err_set(e, ERR_MISSING, "store %s: no configuration %" PRId64, s->opt.path, id);
    return rc;
}

struct sample_reader {
    store_sample_fn *fn;
    void *ctx;
};

static bool read_sample(sqlite3_stmt *st, void *arg)
{
    struct sample_reader *r = arg;
    struct store_sample x = {.target_id = sqlite3_column_int64(st, 0),
                             .time_us = sqlite3_column_int64(st, 1)};
    for (int f = 0; f < FIELD_COUNT; f++)
        x.value[f] = (float)store_column_number(st, 2 + f);
    return r->fn(r->ctx, &x);
}

static int bind_range(sqlite3_stmt *st, int64_t target_id, int64_t since_us, int64_t until_us)
{
    return sqlite3_bind_int64(st, 1, target_id) | sqlite3_bind_int64(st, 2, since_us) |
           sqlite3_bind_int64(st, 3, until_us);
}

enum err_code store_samples(struct store *s, int64_t target_id, int64_t since_us, int64_t until_us,
                            store_sample_fn *fn, void *ctx, struct err *e)
{
    sqlite3_stmt *st = NULL;
    struct sample_reader r = {fn, ctx};
    enum err_code rc = store_take(s, STATEMENT_SAMPLE_RANGE, &st, e);
    return rc ? rc
              : each_row(s, st, bind_range(st, target_id, since_us, until_us), read_sample, &r, e);
}

struct forecast_reader {
    store_forecast_fn *fn;
    void *ctx;
};

static bool read_forecast(sqlite3_stmt *st, void *arg)
{
    struct forecast_reader *r = arg;
    struct store_forecast f = {.target_id = sqlite3_column_int64(st, 0),
                               .made_us = sqlite3_column_int64(st, 1),
                               .level = sqlite3_column_int(st, 2),
                               .from_us = sqlite3_column_int64(st, 3),
                               .to_us = sqlite3_column_int64(st, 4)};
    double *const number[] = {&f.mean, &f.lo80, &f.hi80, &f.lo95, &f.hi95, &f.actual};
    for (int i = 0; i < (int)ARRAY_LEN(number); i++)
        *number[i] = store_column_number(st, 5 + i);
    return r->fn(r->ctx, &f);
}

enum err_code store_forecasts(struct store *s, int64_t target_id, int64_t since_us,
                              int64_t until_us, store_forecast_fn *fn, void *ctx, struct err *e)
{
    sqlite3_stmt *st = NULL;
    struct forecast_reader r = {fn, ctx};
    enum err_code rc = store_take(s, STATEMENT_FORECAST_RANGE, &st, e);
    return rc ? rc
              : each_row(s, st, bind_range(st, target_id, since_us, until_us), read_forecast, &r,
                         e);
}

struct note_reader {
    store_note_fn *fn;
    void *ctx;
};

static enum store_note_kind note_kind(const char *name)
{
    for (int k = 0; name && k < STORE_NOTES; k++)
        if (strcmp(store_note_name((enum store_note_kind)k), name) == 0)
            return (enum store_note_kind)k;
    return STORE_NOTES;
}

static bool read_note(sqlite3_stmt *st, void *arg)
{
    struct note_reader *r = arg;
    struct store_note n = {.id = sqlite3_column_int64(st, 0),
                           .time_us = sqlite3_column_int64(st, 1),
                           .kind = note_kind(store_column_text(st, 2)),
                           .target_id = sqlite3_column_int64(st, 3),
                           .author = store_column_text(st, 4),
                           .text = store_column_text(st, 5),
                           .until_us = sqlite3_column_int64(st, 6)};
    return n.kind == STORE_NOTES ||
           r->fn(r->ctx, &n); /* kinds that are no longer known are passed over */
}

enum err_code store_notes(struct store *s, int64_t since_us, int64_t until_us, store_note_fn *fn,
                          void *ctx, struct err *e)
{
    sqlite3_stmt *st = NULL;
    struct note_reader r = {fn, ctx};
    enum err_code rc = store_take(s, STATEMENT_NOTE_RANGE, &st, e);
    if (rc)
        return rc;
    int bound = sqlite3_bind_int64(st, 1, since_us) | sqlite3_bind_int64(st, 2, until_us);
    return each_row(s, st, bound, read_note, &r, e);
}
