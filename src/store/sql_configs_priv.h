/* sql_configs_priv.h - configs: what decisions were made with, by the hash of its text; holders: by
 * whom. */
#ifndef STORE_SQL_CONFIGS_PRIV_H
#define STORE_SQL_CONFIGS_PRIV_H

#include "store/store.h" /* the rows these columns are read into */

#define SQL_CONFIGS_CREATE                                                                         \
    "CREATE TABLE configs ("                                                                       \
    " id INTEGER PRIMARY KEY,"                                                                     \
    " hash INTEGER NOT NULL," /* XXH64 of the text, as a signed number */                          \
    " text TEXT NOT NULL, first_us INTEGER NOT NULL,"                                              \
    " UNIQUE (hash, text)) STRICT"

#define SQL_CONFIG_FIND "SELECT id FROM configs WHERE hash = ?1 AND text = ?2"
#define SQL_CONFIG_PUT "INSERT INTO configs (hash, text, first_us) VALUES (?1, ?2, ?3)"
#define SQL_CONFIG_GET "SELECT id, first_us, hash, text FROM configs WHERE id = ?1"

#define SQL_HOLDERS_CREATE                                                                         \
    "CREATE TABLE holders (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT"

#define SQL_HOLDER_FIND "SELECT id FROM holders WHERE name = ?1"
#define SQL_HOLDER_PUT "INSERT INTO holders (name) VALUES (?1)"

#endif
