#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/store_priv.h"

enum {
    APPLICATION_ID = 0x736c6365, /* "slce", in the file's header */
    CACHE_KIB = 16 * 1024,
    LOG_PAGES_AUTO = 16384, /* moved into the file by SQLite itself when nobody tends it: 64 MiB */
    LOG_KEPT_MIN = 1 << 20, /* bytes; an eighth of max_bytes within these */
    LOG_KEPT_MAX = 32 << 20,
};

/* ---- names ----------------------------------------------------------------------------------- */

const char *store_health_name(enum store_health h)
{
    static const char *const name[] = {[STORE_OK] = "ok",
                                       [STORE_FULL] = "full",
                                       [STORE_FAILING] = "failing",
                                       [STORE_DAMAGED] = "damaged"};
    return name[h];
}

const char *store_action_name(enum store_action a)
{
    static const char *const name[] = {
#define X(id, text) [STORE_##id] = text,
        STORE_ACTION_LIST(X)
#undef X
    };
    return name[a];
}

const char *store_role_name(enum store_role r)
{
    static const char *const name[] = {[STORE_ACTING] = "acting", [STORE_SHADOW] = "shadow"};
    return name[r];
}

const char *store_note_name(enum store_note_kind k)
{
    static const char *const name[] = {
#define X(id, text) [STORE_NOTE_##id] = text,
        STORE_NOTE_LIST(X)
#undef X
    };
    return name[k];
}

char *store_path_default(const char *state_dir)
{
    if (!state_dir)
        state_dir = getenv("SLUICE_STATE_DIR");
    struct buf b = buf_init(1 << 16);
    buf_fmt(&b, "%s/sluice.db", state_dir && *state_dir ? state_dir : "/var/lib/sluice");
    return buf_take(&b);
}

bool store_is_file(const void *head, size_t n)
{
    static const char magic[16] = "SQLite format 3";
    return n >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static bool no_space(const struct store *s, int rc)
{
    int sys = s->db ? sqlite3_system_errno(s->db) : 0;
    return (rc & 0xff) == SQLITE_FULL ||
           ((rc & 0xff) == SQLITE_IOERR && (sys == ENOSPC || sys == EDQUOT));
}

enum err_code store_error(struct store *s, int rc, const char *what, struct err *e)
{
    const char *path = s->opt.path, *text = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc);
    if (no_space(s, rc)) {
        s->health = STORE_FULL;
        enum err_code code = err_sys(e, ENOSPC, "store %s: %s", path, what);
        return code;
    }
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        s->health = STORE_DAMAGED;
        return err_set(e, ERR_PARSE,
                       "store %.180s is damaged (%s: %s); move it and its -wal away: a new one is "
                       "made at the next "
                       "start, and safety does not depend on it. What is left can be read with: "
                       "sqlite3 FILE .recover",
                       path, what, text);
    case SQLITE_NOMEM:
        s->health = STORE_FAILING;
        return err_set(e, ERR_NOMEM, "store %s: %s", path, what);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        s->health = STORE_FAILING;
        return err_set(e, ERR_IO, "store %s: %s: another process has held it for %.1f s", path,
                       what, (double)s->opt.busy_us * 1e-6);
    default:
        s->health = STORE_FAILING;
        return err_set(e, ERR_IO, "store %s: %s: %s", path, what, text);
    }
}

enum err_code store_exec(struct store *s, const char *sql, const char *what, struct err *e)
{
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc ? store_error(s, rc, what, e) : ERR_OK;
}

enum err_code store_number(struct store *s, const char *sql, int64_t *out, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);
    if (!rc)
        rc = sqlite3_step(st);
    *out = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    enum err_code code =
        rc == SQLITE_ROW || rc == SQLITE_DONE ? ERR_OK : store_error(s, rc, "read", e);
    (void)sqlite3_finalize(st);
    return code;
}

/* ---- statements ------------------------------------------------------------------------------ */

enum err_code store_take(struct store *s, enum store_statement id, sqlite3_stmt **out,
                         struct err *e)
{
    static const char *const sql[] = {
#define X(name, text) [STATEMENT_##name] = text,
        STORE_STATEMENT_LIST(X)
#undef X
    };
    if (!s->statement[id]) {
        int rc = sqlite3_prepare_v3(s->db, sql[id], -1, SQLITE_PREPARE_PERSISTENT,
                                    &s->statement[id], NULL);
        if (rc)
            return store_error(s, rc, "prepare", e);
    }
    *out = s->statement[id];
    (void)sqlite3_reset(*out);
    (void)sqlite3_clear_bindings(*out);
    return ERR_OK;
}

enum err_code store_run(struct store *s, sqlite3_stmt *st, int bound, const char *what,
                        struct err *e)
{
    int rc = bound ? SQLITE_TOOBIG : sqlite3_step(st);
    enum err_code code =
        rc == SQLITE_DONE || rc == SQLITE_ROW ? ERR_OK : store_error(s, rc, what, e);
    (void)sqlite3_reset(st); /* says the same again */
    return code;
}

int store_bind_text(sqlite3_stmt *st, int at, const char *text)
{
    return text ? sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC) : sqlite3_bind_null(st, at);
}

int store_bind_number(sqlite3_stmt *st, int at, double v)
{
    return isnan(v) ? sqlite3_bind_null(st, at) : sqlite3_bind_double(st, at, v);
}

int store_bind_time(sqlite3_stmt *st, int at, int64_t t_us)
{
    return t_us ? sqlite3_bind_int64(st, at, t_us) : sqlite3_bind_null(st, at);
}

int store_bind_blob(sqlite3_stmt *st, int at, const struct store_blob *b)
{
    return b->n ? sqlite3_bind_blob64(st, at, b->p, b->n, SQLITE_STATIC)
                : sqlite3_bind_null(st, at);
}

double store_column_number(sqlite3_stmt *st, int at)
{
    return sqlite3_column_type(st, at) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(st, at);
}

const char *store_column_text(sqlite3_stmt *st, int at)
{
    return (const char *)sqlite3_column_text(st, at);
}

struct store_blob store_column_blob(sqlite3_stmt *st, int at)
{
    struct store_blob b = {.p = sqlite3_column_blob(st, at)};
    b.n = b.p ? (size_t)sqlite3_column_bytes(st, at) : 0;
    return b;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

enum err_code store_may_write(const struct store *s, struct err *e)
{
    if (s->opt.read_only)
        return err_set(e, ERR_IO, "store %s was opened for reading", s->opt.path);
    if (!s->lost)
        return ERR_OK;
    if (e)
        *e = s->why;
    return s->why.code;
}

/* SQLite may have rolled back by itself, or may hold on to half a transaction. */
static void roll_back(struct store *s)
{
    s->holder_id = 0; /* its row may be gone with the rest */
    if (!sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

static void settle(struct store *s)
{
    if (s->health != STORE_DAMAGED) /* that does not heal */
        s->health = STORE_OK;
}

enum err_code store_ended(struct store *s, enum err_code rc, const struct err *e)
{
    if (!rc && !s->in_round)
        settle(s);
    if (!rc || (s->in_round && s->lost))
        return rc;
    s->lost = s->in_round;
    if (e)
        s->why = *e;
    else
        err_set_text(&s->why, rc, "store %s: the round was lost", s->opt.path);
    roll_back(s);
    return rc;
}

enum err_code store_begin(struct store *s, struct err *e)
{
    sqlite3_stmt *st = NULL;
    ASSERT(!s->in_round);
    enum err_code rc = store_may_write(s, e);
    if (!rc)
        rc = store_take(s, STATEMENT_BEGIN, &st, e);
    if (!rc)
        rc = store_run(s, st, 0, "begin", e);
    s->in_round = rc == ERR_OK;
    return rc;
}

enum err_code store_commit(struct store *s, struct err *e)
{
    sqlite3_stmt *st = NULL;
    enum err_code rc = store_may_write(s, e);
    ASSERT(s->in_round);
    if (!rc)
        rc = store_take(s, STATEMENT_COMMIT, &st, e);
    if (!rc)
        rc = store_run(s, st, 0, "commit", e);
    s->in_round = s->lost = false;
    if (rc)
        roll_back(s);
    else
        settle(s);
    return rc;
}

void store_rollback(struct store *s)
{
    s->in_round = s->lost = false;
    roll_back(s);
}

/* ---- schema ---------------------------------------------------------------------------------- */

static const char *const schema_1[] = {
    SQL_TARGETS_CREATE,      SQL_CONFIGS_CREATE,    SQL_HOLDERS_CREATE,  SQL_DECISIONS_CREATE,
    SQL_DECISIONS_BY_TARGET, SQL_DECISIONS_BY_TIME, SQL_DECISIONS_ACTED, SQL_DECISIONS_PENDING,
    SQL_STATES_CREATE,       SQL_STATES_BY_TARGET,  SQL_SAMPLES_CREATE,  SQL_FORECASTS_CREATE,
    SQL_FORECASTS_OPEN,      SQL_NOTES_CREATE,      SQL_NOTES_BY_TIME,   NULL,
};
static const struct store_migration migrations[STORE_SCHEMA] = {{schema_1}};

static enum err_code migrate_one(struct store *s, const struct store_migration *m, int version,
                                 struct err *e)
{
    char set[64];
    enum err_code rc = store_exec(s, "BEGIN IMMEDIATE", "migrate", e);
    for (const char *const *sql = m->sql; !rc && *sql; sql++)
        rc = store_exec(s, *sql, "migrate", e);
    (void)snprintf(set, sizeof set, "PRAGMA user_version = %d; COMMIT", version);
    if (!rc)
        rc = store_exec(s, set, "migrate", e);
    if (rc && !sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc ? err_wrap(e, "schema %d", version) : ERR_OK;
}

static bool makes_nothing(const struct store *s)
{
    return s->opt.read_only || s->opt.beside;
}

enum err_code store_migrate(struct store *s, const struct store_migration *m, int n, struct err *e)
{
    int64_t version;
    enum err_code rc = store_number(s, "PRAGMA user_version", &version, e);
    if (rc)
        return rc;
    if (version > n)
        return err_set(e, ERR_MISMATCH,
                       "store %s was written by a newer version of this program (schema %" PRId64
                       ", this one knows up to %d): run that version, or move the file away and "
                       "start with a new one",
                       s->opt.path, version, n);
    if (version < n && makes_nothing(s))
        return err_set(e, ERR_MISMATCH,
                       "store %s has schema %" PRId64
                       ", this version reads %d: `sluice run` of this "
                       "version brings it up to date when it starts",
                       s->opt.path, version, n);
    for (int i = (int)version; i < n && !rc; i++)
        rc = migrate_one(s, &m[i], i + 1, e);
    return rc;
}

/* Ours, empty, or somebody else's. */
static enum err_code check_identity(struct store *s, struct err *e)
{
    int64_t id, tables;
    char set[128];
    enum err_code rc = store_number(s, "PRAGMA application_id", &id, e);
    if (!rc)
        rc = store_number(s, "SELECT count(*) FROM sqlite_schema", &tables, e);
    if (rc)
        return rc;
    if (id == APPLICATION_ID)
        return ERR_OK;
    if (id != 0 || tables != 0)
        return err_set(e, ERR_MISMATCH, "%s is a SQLite file, but no store of this program",
                       s->opt.path);
    if (makes_nothing(s))
        return err_set(e, ERR_MISMATCH, "store %s is empty: nothing was ever recorded there",
                       s->opt.path);
    /* These two are part of the file's header and cannot be changed once there are tables. */
    (void)snprintf(set, sizeof set, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = %d",
                   APPLICATION_ID);
    return store_exec(s, set, "make", e);
}

static enum err_code configure(struct store *s, struct err *e)
{
    char set[256];
    if (s->opt.read_only)
        return ERR_OK;
    if (s->opt.beside) /* the log is the other's to tend */
        return store_exec(s, "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0", "open", e);
    int64_t share = s->opt.max_bytes > 0 ? s->opt.max_bytes / 8 : LOG_KEPT_MAX;
    s->log_kept = share < LOG_KEPT_MIN ? LOG_KEPT_MIN : share > LOG_KEPT_MAX ? LOG_KEPT_MAX : share;
    (void)snprintf(set, sizeof set,
                   "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -%d; "
                   "PRAGMA wal_autocheckpoint = %d; PRAGMA journal_size_limit = %" PRId64,
                   CACHE_KIB, LOG_PAGES_AUTO, s->log_kept);
    return store_exec(s, set, "open", e);
}

/* ---- open and close -------------------------------------------------------------------------- */

/* PATH with a suffix.  mem_free. */
static char *beside(const char *path, const char *suffix)
{
    struct buf b = buf_init(1 << 16);
    buf_fmt(&b, "%s%s", path, suffix);
    return buf_take(&b);
}

/* PATH.lock holds the writer's pid, for people; the lock itself ends with the process. */
static enum err_code take_lock(struct store *s, struct err *e)
{
    char pid[32] = "", *name = beside(s->opt.path, ".lock");
    s->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    int sys = errno;
    mem_free(name);
    if (s->lock_fd < 0)
        return err_sys(e, sys, "store %s: lock file", s->opt.path);
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(s->lock_fd, pid, sizeof pid - 1, 0);
        pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
        return err_set(
            e, ERR_IO,
            "store %s is written by another process%s%s: each replica needs a store of its own",
            s->opt.path, *pid ? ", pid " : "", pid);
    }
    int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(s->lock_fd, 0) != 0 || pwrite(s->lock_fd, pid, (size_t)n, 0) != n) {
        /* A full disk: the lock holds without the number in it. */
    }
    return ERR_OK;
}

static enum err_code make_folder(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return ERR_OK;
    struct buf dir = buf_init(1 << 16);
    buf_add(&dir, path, (size_t)(slash - path));
    enum err_code rc = file_make_dirs(dir.p, e);
    buf_fini(&dir);
    return rc;
}

/* SQLite would only say that it cannot. */
static enum err_code check_there(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? err_set(e, ERR_MISSING,
                                         "no store at %s: `sluice run` makes it; --store or "
                                         "SLUICE_STATE_DIR name another",
                                         path)
                               : err_sys(e, errno, "store %s", path);
    return S_ISREG(st.st_mode) ? ERR_OK
                               : err_set(e, ERR_IO, "store %s is not a regular file", path);
}

static enum err_code connect_to(struct store *s, struct err *e)
{
    int flags = s->opt.read_only ? SQLITE_OPEN_READONLY
                : s->opt.beside  ? SQLITE_OPEN_READWRITE
                                 : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(s->opt.path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc)
        return store_error(s, rc, "open", e);
    (void)sqlite3_extended_result_codes(s->db, 1);
    (void)sqlite3_busy_timeout(s->db, store_busy_ms(s));
    enum err_code code = check_identity(s, e);
    if (!code)
        code = configure(s, e);
    if (!code)
        code = store_migrate(s, migrations, STORE_SCHEMA, e);
    if (!code)
        code = store_number(s, "PRAGMA page_size", &s->page_bytes, e);
    return code;
}

struct store_opts store_opts_default(const char *path)
{
    return (struct store_opts){.path = path, .busy_us = 5000000};
}

enum err_code store_open(const struct store_opts *o, struct store **out, struct err *e)
{
    struct store *s = mem_zero(1, sizeof *s);
    s->opt = *o;
    s->opt.path = mem_strdup(o->path);
    s->log_path = beside(o->path, "-wal");
    s->lock_fd = -1;
    enum err_code rc = makes_nothing(s) ? check_there(o->path, e) : make_folder(o->path, e);
    if (!rc && !makes_nothing(s))
        rc = take_lock(s, e);
    if (!rc)
        rc = connect_to(s, e);
    if (rc) {
        store_close(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        (void)sqlite3_finalize(s->statement[i]);
    (void)sqlite3_close_v2(s->db); /* rolls back what is open */
    if (s->lock_fd >= 0)
        (void)close(s->lock_fd);
    mem_free(s->log_path);
    mem_free((char *)(uintptr_t)s->opt.path);
    mem_free(s);
}

const char *store_path(const struct store *s)
{
    return s->opt.path;
}

enum store_health store_health(const struct store *s)
{
    return s->health;
}

int store_busy_ms(const struct store *s)
{
    return (int)(s->opt.busy_us / 1000);
}

int64_t store_log_bytes(const struct store *s)
{
    struct stat st;
    return stat(s->log_path, &st) == 0 ? (int64_t)st.st_size : 0;
}
