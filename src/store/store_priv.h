/* store_priv.h - the open store, its statements, and how SQLite's result codes become errors. */
#ifndef STORE_STORE_PRIV_H
#define STORE_STORE_PRIV_H

#include <sqlite3.h>

#include "store/sql_configs_priv.h"
#include "store/sql_decisions_priv.h"
#include "store/sql_forecasts_priv.h"
#include "store/sql_notes_priv.h"
#include "store/sql_samples_priv.h"
#include "store/sql_targets_priv.h"
#include "store/store.h"

/* Prepared on first use, kept until the store is closed. */
#define STORE_STATEMENT_LIST(X)                                                                    \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(TARGET_FIND, SQL_TARGET_FIND)                                                                \
    X(TARGET_PUT, SQL_TARGET_PUT)                                                                  \
    X(TARGET_LIST, SQL_TARGET_LIST)                                                                \
    X(TARGETS_AFTER, SQL_TARGETS_AFTER)                                                            \
    X(CONFIG_FIND, SQL_CONFIG_FIND)                                                                \
    X(CONFIG_PUT, SQL_CONFIG_PUT)                                                                  \
    X(CONFIG_GET, SQL_CONFIG_GET)                                                                  \
    X(HOLDER_FIND, SQL_HOLDER_FIND)                                                                \
    X(HOLDER_PUT, SQL_HOLDER_PUT)                                                                  \
    X(DECISION_PUT, SQL_DECISION_PUT)                                                              \
    X(STATE_PUT, SQL_STATE_PUT)                                                                    \
    X(DECISION_ACTION, SQL_DECISION_ACTION)                                                        \
    X(DECISION_SPAN, SQL_DECISION_SPAN)                                                            \
    X(DECISION_EXPIRE, SQL_DECISION_EXPIRE)                                                        \
    X(DECISION_OLDEST, SQL_DECISION_OLDEST)                                                        \
    X(STATE_EXPIRE, SQL_STATE_EXPIRE)                                                              \
    X(KEYFRAME_BEFORE, SQL_KEYFRAME_BEFORE)                                                        \
    X(SAMPLE_PUT, SQL_SAMPLE_PUT)                                                                  \
    X(SAMPLE_RANGE, SQL_SAMPLE_RANGE)                                                              \
    X(SAMPLE_EXPIRE, SQL_SAMPLE_EXPIRE)                                                            \
    X(SAMPLE_OLDEST, SQL_SAMPLE_OLDEST)                                                            \
    X(FORECAST_PUT, SQL_FORECAST_PUT)                                                              \
    X(FORECAST_RANGE, SQL_FORECAST_RANGE)                                                          \
    X(FORECAST_ACTUAL, SQL_FORECAST_ACTUAL)                                                        \
    X(FORECAST_EXPIRE, SQL_FORECAST_EXPIRE)                                                        \
    X(NOTE_PUT, SQL_NOTE_PUT)                                                                      \
    X(NOTE_RANGE, SQL_NOTE_RANGE)                                                                  \
    X(NOTE_EXPIRE, SQL_NOTE_EXPIRE)                                                                \
    X(PAGE_COUNT, "PRAGMA page_count")                                                             \
    X(FREE_PAGES, "PRAGMA freelist_count")

enum store_statement {
#define X(id, sql) STATEMENT_##id,
    STORE_STATEMENT_LIST(X)
#undef X
        STATEMENTS
};

enum { STORE_HOLDER_MAX = 256 };

struct store {
    sqlite3 *db;
    struct store_opts opt; /* opt.path: ours */
    char *log_path;        /* of the write-ahead log */
    int lock_fd;           /* -1: a reader */
    enum store_health health;
    bool in_round;
    bool lost; /* the round is lost, `why` says how */
    struct err why;
    int64_t page_bytes;
    int64_t log_kept;       /* a longer log is cut after it was moved */
    int64_t expired_us;     /* when age was last looked at */
    int64_t expired_target; /* last one whose samples were */
    int64_t holder_id;      /* of `holder`; 0: not looked up */
    char holder[STORE_HOLDER_MAX];
    sqlite3_stmt *statement[STATEMENTS];
};

/* Migrations, in order: statement after statement in one transaction, then PRAGMA user_version. */
struct store_migration {
    const char *const *sql; /* NULL-terminated */
};
/* From the file's version to n.  Errors: ERR_MISMATCH when the file's is above n. */
NODISCARD enum err_code store_migrate(struct store *s, const struct store_migration *m, int n,
                                      struct err *e);

/* What SQLite said as an error; sets health.  `what` was being done.  Outside SQLITE_OK, ROW and
 * DONE. */
enum err_code store_error(struct store *s, int rc, const char *what, struct err *e);

/* One or more statements without results. */
NODISCARD enum err_code store_exec(struct store *s, const char *sql, const char *what,
                                   struct err *e);
/* The first column of the first row. */
NODISCARD enum err_code store_number(struct store *s, const char *sql, int64_t *out, struct err *e);

/* Prepared, reset and without bindings. */
NODISCARD enum err_code store_take(struct store *s, enum store_statement id, sqlite3_stmt **out,
                                   struct err *e);
/* Runs a statement that returns no row.  Binding errors surface here: SQLite remembers none, so
 * pass their sum. */
NODISCARD enum err_code store_run(struct store *s, sqlite3_stmt *st, int bound, const char *what,
                                  struct err *e);
/* The end of every put: an error loses the round, also where it was found before SQLite was asked.
 */
enum err_code store_ended(struct store *s, enum err_code rc, const struct err *e);
/* ERR_IO unless rows may be written now (read-only; a lost round: its own error again). */
NODISCARD enum err_code store_may_write(const struct store *s, struct err *e);

int store_bind_text(sqlite3_stmt *st, int at, const char *text); /* NULL: NULL; borrowed */
int store_bind_number(sqlite3_stmt *st, int at, double v);       /* NaN: NULL */
int store_bind_time(sqlite3_stmt *st, int at, int64_t t_us);     /* 0: NULL */
int store_bind_blob(sqlite3_stmt *st, int at, const struct store_blob *b); /* n 0: NULL; borrowed */
double store_column_number(sqlite3_stmt *st, int at);                      /* NULL: NaN */
const char *store_column_text(sqlite3_stmt *st,
                              int at); /* NULL: NULL; borrowed until the next step */
struct store_blob store_column_blob(sqlite3_stmt *st, int at);

int store_busy_ms(const struct store *s);
int64_t store_log_bytes(const struct store *s);

#endif
