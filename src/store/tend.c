/* tend.c - what is done when nothing is urgent: the log into the file, old rows out; and what the
 * file holds.
 *
 * Retention works in slices, so that a round is never late for it: a slice takes more than a round
 * of 500 targets adds.  By age, each table gives up what is older.  By bytes, the oldest decisions
 * go, and with them what was measured before the oldest one left.  Pages that become free are used
 * again; they are given back to the file system only while the file is above its limit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/history.h"
#include "store/store_priv.h"

enum {
    SLICE_ROWS = 2000,  /* decisions */
    SLICE_TARGETS = 16, /* whose samples and forecasts are looked at, in turn */
    SLICE_PAGES = 1000, /* given back at once */
    NOTES_ROWS = 500,
};
#define SLICE_US (2 * US_PER_H) /* of samples and forecasts, per target */
#define EXPIRE_EVERY_US (15 * US_PER_S)
#define AHEAD_US US_PER_DAY /* rows further in the future were written by a clock gone wrong */
#define USED_SHARE 15 / 16  /* of max_bytes; the rest is room for the next rounds */

static enum err_code pages(struct store *s, enum store_statement which, int64_t *n, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, which, &st, e);
    if (rc)
        return rc;
    int step = sqlite3_step(st);
    *n = step == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    if (step != SQLITE_ROW)
        rc = store_error(s, step, "size", e);
    (void)sqlite3_reset(st);
    return rc;
}

struct size {
    int64_t file, free, log; /* bytes */
};

static enum err_code size_of(struct store *s, struct size *z, struct err *e)
{
    int64_t all = 0, unused = 0;
    enum err_code rc = pages(s, STATEMENT_PAGE_COUNT, &all, e);
    if (!rc)
        rc = pages(s, STATEMENT_FREE_PAGES, &unused, e);
    z->file = all * s->page_bytes;
    z->free = unused * s->page_bytes;
    z->log = store_log_bytes(s);
    return rc;
}

/* ---- deleting -------------------------------------------------------------------------------- */

/* Runs a prepared deletion and adds up what it took. */
static enum err_code take_away(struct store *s, sqlite3_stmt *st, int bound, int64_t *deleted,
                               struct err *e)
{
    enum err_code rc = store_run(s, st, bound, "retention", e);
    if (!rc)
        *deleted += sqlite3_changes(s->db);
    return rc;
}

/* Among the oldest SLICE_ROWS by id, those outside [from, to]. */
static enum err_code expire_decisions(struct store *s, int64_t from_us, int64_t to_us,
                                      int64_t *deleted, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, STATEMENT_DECISION_EXPIRE, &st, e);
    if (rc)
        return rc;
    int bound = sqlite3_bind_int64(st, 1, SLICE_ROWS) | sqlite3_bind_int64(st, 2, from_us) |
                sqlite3_bind_int64(st, 3, to_us);
    int64_t before = *deleted, states = 0;
    rc = take_away(s, st, bound, deleted, e);
    if (!rc && *deleted > before && !(rc = store_take(s, STATEMENT_STATE_EXPIRE, &st, e)))
        rc = take_away(s, st, 0, &states, e);
    return rc;
}

struct turn {
    int64_t id[SLICE_TARGETS];
    int n;
};

/* The targets whose turn it is.  They are read before anything is deleted. */
static enum err_code next_targets(struct store *s, struct turn *t, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int step = SQLITE_DONE;
    t->n = 0;
    enum err_code rc = store_take(s, STATEMENT_TARGETS_AFTER, &st, e);
    if (rc)
        return rc;
    int bound =
        sqlite3_bind_int64(st, 1, s->expired_target) | sqlite3_bind_int64(st, 2, SLICE_TARGETS);
    while (!bound && t->n < SLICE_TARGETS && (step = sqlite3_step(st)) == SQLITE_ROW)
        t->id[t->n++] = sqlite3_column_int64(st, 0);
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        rc = store_error(s, step, "read", e);
    (void)sqlite3_reset(st);
    s->expired_target = t->n == SLICE_TARGETS ? t->id[t->n - 1] : 0;
    return rc;
}

static enum err_code expire_of_target(struct store *s, enum store_statement which, int64_t id,
                                      int64_t cut_us, int64_t *deleted, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_take(s, which, &st, e);
    if (rc)
        return rc;
    int bound = sqlite3_bind_int64(st, 1, id) | sqlite3_bind_int64(st, 2, cut_us) |
                sqlite3_bind_int64(st, 3, SLICE_US);
    return take_away(s, st, bound, deleted, e);
}

/* Samples, forecasts and notes before the cut. */
static enum err_code expire_measured(struct store *s, int64_t cut_us, int64_t *deleted,
                                     struct err *e)
{
    sqlite3_stmt *st = NULL;
    struct turn t;
    enum err_code rc = next_targets(s, &t, e);
    for (int i = 0; i < t.n && !rc; i++) {
        rc = expire_of_target(s, STATEMENT_SAMPLE_EXPIRE, t.id[i], cut_us, deleted, e);
        if (!rc)
            rc = expire_of_target(s, STATEMENT_FORECAST_EXPIRE, t.id[i], cut_us, deleted, e);
    }
    if (!rc)
        rc = store_take(s, STATEMENT_NOTE_EXPIRE, &st, e);
    if (!rc)
        rc = take_away(s, st,
                       sqlite3_bind_int64(st, 1, cut_us) | sqlite3_bind_int64(st, 2, NOTES_ROWS),
                       deleted, e);
    return rc;
}

/* Time of the oldest decision left; of the oldest sample plus a slice where there is none. */
static enum err_code oldest_time(struct store *s, int64_t *t_us, struct err *e)
{
    enum err_code rc = store_number(s, SQL_DECISION_OLDEST, t_us, e);
    if (!rc && *t_us == 0) {
        rc = store_number(s, "SELECT min(time_us) FROM samples", t_us, e);
        *t_us += *t_us ? SLICE_US : 0;
    }
    return rc;
}

/* Looking for what is too old costs a moment too. */
static bool age_due(const struct store *s, int64_t now_us)
{
    return llabs(now_us - s->expired_us) >= EXPIRE_EVERY_US;
}

static enum err_code delete_slice(struct store *s, int64_t now_us, bool too_big, int64_t *deleted,
                                  struct err *e)
{
    int64_t cut_us = s->opt.keep_us > 0 ? now_us - s->opt.keep_us : INT64_MIN;
    enum err_code rc = store_begin(s, e);
    if (rc)
        return rc;
    if (s->opt.keep_us > 0) {
        rc = expire_decisions(s, cut_us, now_us + AHEAD_US, deleted, e);
        if (!rc)
            rc = expire_measured(s, cut_us, deleted, e);
        s->expired_us =
            *deleted ? INT64_MIN / 2 : now_us; /* a slice may not have been all: again next time */
    }
    if (!rc && too_big && *deleted == 0) {
        rc = expire_decisions(s, INT64_MAX, INT64_MIN, deleted, e);
        if (!rc)
            rc = oldest_time(s, &cut_us, e);
        if (!rc)
            rc = expire_measured(s, cut_us < now_us ? cut_us : now_us, deleted, e);
    }
    if (rc) {
        store_rollback(s);
        return rc;
    }
    return store_commit(s, e);
}

static enum err_code give_back(struct store *s, struct err *e)
{
    char sql[64];
    (void)snprintf(sql, sizeof sql, "PRAGMA incremental_vacuum(%d)", SLICE_PAGES);
    return store_exec(s, sql, "give space back", e);
}

/* Passive: never waits for a reader.  A log that has grown large, or stands in the way on a full
 * disk, is cut as well, if no reader needs it. */
static enum err_code move_log(struct store *s, struct err *e)
{
    bool cut = s->health == STORE_FULL || store_log_bytes(s) > s->log_kept;
    if (cut)
        (void)sqlite3_busy_timeout(s->db, 0);
    int rc = sqlite3_wal_checkpoint_v2(
        s->db, NULL, cut ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (cut)
        (void)sqlite3_busy_timeout(s->db, store_busy_ms(s));
    return rc == SQLITE_OK || (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED
               ? ERR_OK
               : store_error(s, rc, "checkpoint", e);
}

enum err_code store_tend(struct store *s, int64_t now_us, struct store_tended *out, struct err *e)
{
    struct size z = {0};
    const int64_t most = s->opt.max_bytes;
    *out = (struct store_tended){0};
    ASSERT(!s->in_round);
    enum err_code rc = store_may_write(s, e);
    if (!rc)
        rc = move_log(s, e);
    if (!rc)
        rc = size_of(s, &z, e);
    bool too_big = most > 0 && z.file - z.free + z.log > most * USED_SHARE;
    if (!rc && (too_big || (s->opt.keep_us > 0 && age_due(s, now_us))))
        rc = delete_slice(s, now_us, too_big, &out->deleted, e);
    if (!rc && most > 0 && z.file + z.log > most && z.free > 0)
        rc = give_back(s, e);
    if (!rc)
        rc = size_of(s, &z, e);
    out->bytes = z.file + z.log;
    out->more = out->deleted > 0 || (most > 0 && z.file + z.log > most && z.free > 0);
    return rc;
}

/* ---- what there is --------------------------------------------------------------------------- */

enum err_code store_info(struct store *s, struct store_info *out, struct err *e)
{
    struct size z = {0};
    enum err_code rc = size_of(s, &z, e);
    *out = (struct store_info){.bytes = z.file, .log_bytes = z.log, .free_bytes = z.free};
    const struct {
        const char *sql;
        int64_t *to;
    } all[] = {
        {"PRAGMA user_version", &out->schema},
        {"SELECT count(*) FROM targets", &out->targets},
        {"SELECT count(*) FROM configs", &out->configs},
        {"SELECT count(*) FROM decisions", &out->decisions},
        {"SELECT count(*) FROM states", &out->keyframes},
        {"SELECT count(*) FROM forecasts", &out->forecasts},
        {"SELECT count(actual) FROM forecasts", &out->forecasts_known},
        {"SELECT count(*) FROM samples", &out->samples},
        {"SELECT count(*) FROM notes", &out->notes},
        {"SELECT count(*) FROM decisions WHERE action <> 0", &out->acted},
        {"SELECT count(*) FROM decisions WHERE action = 1", &out->pending},
        {"SELECT min(time_us) FROM decisions", &out->first_us},
        {"SELECT max(time_us) FROM decisions", &out->last_us},
        {"SELECT min(id) FROM decisions", &out->first_id},
        {"SELECT max(id) FROM decisions", &out->last_id},
    };
    for (size_t i = 0; i < ARRAY_LEN(all) && !rc; i++)
        rc = store_number(s, all[i].sql, all[i].to, e);
    return rc;
}

enum err_code store_check(struct store *s, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &st, NULL);
    if (!rc)
        rc = sqlite3_step(st);
    enum err_code code = ERR_OK;
    if (rc != SQLITE_ROW) {
        code = store_error(s, rc, "check", e);
    } else if (strcmp(store_column_text(st, 0), "ok") != 0) {
        char what[128];
        (void)snprintf(what, sizeof what, "%s", store_column_text(st, 0));
        code = store_error(s, SQLITE_CORRUPT, what, e);
    }
    (void)sqlite3_finalize(st);
    return code;
}
