/* sql_samples_priv.h - samples: what was measured, one row per target and step; a column per field
 * of model/field.h.
 *
 * Clustered by target, so that reading one target's week reads nothing else. */
#ifndef STORE_SQL_SAMPLES_PRIV_H
#define STORE_SQL_SAMPLES_PRIV_H

#include "store/store.h" /* the rows these columns are read into */

#define SQL_SAMPLES_CREATE                                                                         \
    "CREATE TABLE samples ("                                                                       \
    " target_id INTEGER NOT NULL, time_us INTEGER NOT NULL,"                                       \
    " gpu_util REAL, gpu_mem_util REAL, cpu_util REAL, mem_util REAL, qps REAL,"                   \
    " p50_latency_ms REAL, p99_latency_ms REAL, queue_len REAL, units_ready REAL,"                 \
    " units_total REAL, PRIMARY KEY (target_id, time_us)) STRICT, WITHOUT ROWID"

/* Fields in the order of FIELD_LIST. */
#define SQL_SAMPLES_FIELDS                                                                         \
    "gpu_util, gpu_mem_util, cpu_util, mem_util, qps, p50_latency_ms, p99_latency_ms, queue_len,"  \
    " units_ready, units_total"
#define SQL_SAMPLE_PUT                                                                             \
    "INSERT OR REPLACE INTO samples (target_id, time_us, " SQL_SAMPLES_FIELDS ")"                  \
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
#define SQL_SAMPLE_RANGE                                                                           \
    "SELECT target_id, time_us, " SQL_SAMPLES_FIELDS " FROM samples"                               \
    " WHERE target_id = ?1 AND time_us >= ?2 AND time_us < ?3 ORDER BY time_us"

/* A slice of one target's oldest. */
#define SQL_SAMPLE_EXPIRE                                                                          \
    "DELETE FROM samples WHERE target_id = ?1 AND time_us < ?2 AND time_us <="                     \
    " (SELECT min(time_us) FROM samples WHERE target_id = ?1) + ?3"
#define SQL_SAMPLE_OLDEST "SELECT min(time_us) FROM samples WHERE target_id = ?1"

#endif
