/* sql_targets_priv.h - targets: who was decided about.  A new uid is a new target. */
#ifndef STORE_SQL_TARGETS_PRIV_H
#define STORE_SQL_TARGETS_PRIV_H

#include "store/store.h" /* the rows these columns are read into */

#define SQL_TARGETS_CREATE                                                                         \
    "CREATE TABLE targets ("                                                                       \
    " id INTEGER PRIMARY KEY,"                                                                     \
    " cluster TEXT NOT NULL, grp TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL,"      \
    " name TEXT NOT NULL, uid TEXT NOT NULL, first_us INTEGER NOT NULL,"                           \
    " UNIQUE (namespace, name, kind, grp, cluster, uid)) STRICT"

#define SQL_TARGETS_COLUMNS "id, cluster, grp, kind, namespace, name, uid"

#define SQL_TARGET_FIND                                                                            \
    "SELECT id FROM targets WHERE cluster = ?1 AND grp = ?2 AND kind = ?3 AND namespace = ?4"      \
    " AND name = ?5 AND uid = ?6"
#define SQL_TARGET_PUT                                                                             \
    "INSERT INTO targets (cluster, grp, kind, namespace, name, uid, first_us)"                     \
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
#define SQL_TARGET_LIST "SELECT " SQL_TARGETS_COLUMNS " FROM targets ORDER BY id"
#define SQL_TARGETS_AFTER "SELECT id FROM targets WHERE id > ?1 ORDER BY id LIMIT ?2"

#endif
