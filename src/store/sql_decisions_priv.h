/* sql_decisions_priv.h - decisions: one row each; states: the keyframes that replay starts from.
 *
 * Columns that people filter by come first, blobs last, so that a scan does not touch what it does
 * not read. Ids rise and are never used twice (AUTOINCREMENT), also after the oldest were deleted.
 */
#ifndef STORE_SQL_DECISIONS_PRIV_H
#define STORE_SQL_DECISIONS_PRIV_H

#include "store/store.h" /* the rows these columns are read into */

#define SQL_DECISIONS_CREATE                                                                       \
    "CREATE TABLE decisions ("                                                                     \
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"                                                       \
    " target_id INTEGER NOT NULL, config_id INTEGER NOT NULL, holder_id INTEGER NOT NULL,"         \
    " time_us INTEGER NOT NULL,"                                                                   \
    " role INTEGER NOT NULL," /* 0 acting, 1 shadow */                                             \
    " action INTEGER NOT NULL,"                                                                    \
    " /* 0 none, 1 intended, 2 done, 3 failed, 4 abandoned, 5 found */"                            \
    " action_us INTEGER, outcome TEXT,"                                                            \
    " stage TEXT, policy TEXT, inputs_hash INTEGER NOT NULL,"                                      \
    " units_before INTEGER NOT NULL, units_ready INTEGER NOT NULL,"                                \
    " proposed INTEGER NOT NULL, executed INTEGER NOT NULL,"                                       \
    " verdict TEXT, decisive TEXT, rule TEXT, rule_units INTEGER, value REAL,"                     \
    " reward_cost REAL, reward_slo REAL, reward_churn REAL, error TEXT, why TEXT,"                 \
    " view BLOB, obs BLOB, choice BLOB, chain BLOB) STRICT"
/* By target for people and replay; by time for --since; few rows each for the last two. */
#define SQL_DECISIONS_BY_TARGET "CREATE INDEX decisions_target ON decisions (target_id, time_us)"
#define SQL_DECISIONS_BY_TIME "CREATE INDEX decisions_time ON decisions (time_us)"
#define SQL_DECISIONS_ACTED "CREATE INDEX decisions_acted ON decisions (time_us) WHERE action <> 0"
#define SQL_DECISIONS_PENDING "CREATE INDEX decisions_pending ON decisions (id) WHERE action = 1"

#define SQL_STATES_CREATE                                                                          \
    "CREATE TABLE states ("                                                                        \
    " decision_id INTEGER PRIMARY KEY, target_id INTEGER NOT NULL, role INTEGER NOT NULL,"         \
    " state BLOB NOT NULL) STRICT"
#define SQL_STATES_BY_TARGET "CREATE INDEX states_target ON states (target_id, role, decision_id)"

/* In the order of the statement's parameters. */
#define SQL_DECISION_PUT                                                                           \
    "INSERT INTO decisions (target_id, config_id, holder_id, time_us, role, action, action_us,"    \
    " stage, policy, inputs_hash, units_before, units_ready, proposed, executed, verdict,"         \
    " decisive, rule, rule_units, value, reward_cost, reward_slo, reward_churn, error, why, view," \
    " obs, choice, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,"    \
    " ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28)"
#define SQL_STATE_PUT                                                                              \
    "INSERT INTO states (decision_id, target_id, role, state) VALUES (?1, ?2, ?3, ?4)"
#define SQL_DECISION_ACTION                                                                        \
    "UPDATE decisions SET action = ?2, action_us = ?3, outcome = ?4 WHERE id = ?1"

/* In the order get.c reads them; the target's columns and the keyframe follow. */
#define SQL_DECISION_COLUMNS                                                                       \
    "d.id, d.target_id, d.config_id, d.time_us, d.role, d.action, d.action_us, d.outcome,"         \
    " d.stage, d.policy, d.inputs_hash, d.units_before, d.units_ready, d.proposed, d.executed,"    \
    " d.verdict, d.decisive, d.rule, d.rule_units, d.value, d.reward_cost, d.reward_slo,"          \
    " d.reward_churn, d.error, d.why, h.name,"                                                     \
    " t.id, t.cluster, t.grp, t.kind, t.namespace, t.name, t.uid"
#define SQL_DECISION_BLOBS ", d.view, d.obs, d.choice, d.chain, s.state"
#define SQL_DECISION_FROM                                                                          \
    " FROM decisions d JOIN targets t ON t.id = d.target_id"                                       \
    " LEFT JOIN holders h ON h.id = d.holder_id"
#define SQL_DECISION_STATE " LEFT JOIN states s ON s.decision_id = d.id"

#define SQL_DECISION_SPAN "SELECT min(id), max(id) FROM decisions"
#define SQL_KEYFRAME_BEFORE                                                                        \
    "SELECT max(s.decision_id) FROM states s JOIN decisions d ON d.id = ?1"                        \
    " WHERE s.target_id = d.target_id AND s.role = d.role AND s.decision_id <= ?1"

/* Oldest first, at most ?1 rows by id: by age (also what a clock ahead of time wrote), or without
 * asking. */
#define SQL_DECISION_EXPIRE                                                                        \
    "DELETE FROM decisions WHERE id < (SELECT min(id) FROM decisions) + ?1"                        \
    " AND (time_us < ?2 OR time_us > ?3)"
#define SQL_STATE_EXPIRE                                                                           \
    "DELETE FROM states WHERE decision_id < (SELECT coalesce(min(id), 9223372036854775807)"        \
    " FROM decisions)"
#define SQL_DECISION_OLDEST "SELECT time_us FROM decisions ORDER BY id LIMIT 1"

#endif
