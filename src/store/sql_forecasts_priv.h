/* sql_forecasts_priv.h - forecasts: what was expected, a row per level, and what happened then. */
#ifndef STORE_SQL_FORECASTS_PRIV_H
#define STORE_SQL_FORECASTS_PRIV_H

#include "store/store.h" /* the rows these columns are read into */

#define SQL_FORECASTS_CREATE                                                                       \
    "CREATE TABLE forecasts ("                                                                     \
    " target_id INTEGER NOT NULL, made_us INTEGER NOT NULL,"                                       \
    " level INTEGER NOT NULL," /* 0..2: 5 min ending 5, 10, 15 min ahead; 3: the next 30 min */    \
    " from_us INTEGER NOT NULL, to_us INTEGER NOT NULL,"                                           \
    " mean REAL, lo80 REAL, hi80 REAL, lo95 REAL, hi95 REAL,"                                      \
    " actual REAL," /* mean load over (from_us, to_us]; NULL: not known */                         \
    " PRIMARY KEY (target_id, made_us, level)) STRICT, WITHOUT ROWID"
/* Those that wait for their span to end. */
#define SQL_FORECASTS_OPEN "CREATE INDEX forecasts_open ON forecasts (to_us) WHERE actual IS NULL"

#define SQL_FORECAST_PUT                                                                           \
    "INSERT OR REPLACE INTO forecasts (target_id, made_us, level, from_us, to_us, mean, lo80,"     \
    " hi80, lo95, hi95) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
#define SQL_FORECAST_RANGE                                                                         \
    "SELECT target_id, made_us, level, from_us, to_us, mean, lo80, hi80, lo95, hi95, actual"       \
    " FROM forecasts WHERE target_id = ?1 AND made_us >= ?2 AND made_us < ?3"                      \
    " ORDER BY made_us, level"

/* ?1 now, ?2 how long ago a span may have ended, ?3 step.  Where 4 of 5 steps of the span were
 * measured. */
#define SQL_FORECAST_SPAN                                                                          \
    " FROM samples s WHERE s.target_id = forecasts.target_id AND s.time_us > forecasts.from_us"    \
    " AND s.time_us <= forecasts.to_us"
#define SQL_FORECAST_ACTUAL                                                                        \
    "UPDATE forecasts SET actual = (SELECT avg(s.qps)" SQL_FORECAST_SPAN ")"                       \
    " WHERE actual IS NULL AND to_us <= ?1 AND to_us > ?2"                                         \
    " AND 5 * ?3 * (SELECT count(s.qps)" SQL_FORECAST_SPAN ") >= 4 * (to_us - from_us)"

#define SQL_FORECAST_EXPIRE                                                                        \
    "DELETE FROM forecasts WHERE target_id = ?1 AND made_us < ?2 AND made_us <="                   \
    " (SELECT min(made_us) FROM forecasts WHERE target_id = ?1) + ?3"

#endif
