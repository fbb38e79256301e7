/* sql_notes_priv.h - notes: what people and the process did, with who and until when. */
#ifndef STORE_SQL_NOTES_PRIV_H
#define STORE_SQL_NOTES_PRIV_H

#include "store/store.h" /* the rows these columns are read into */

#define SQL_NOTES_CREATE                                                                           \
    "CREATE TABLE notes ("                                                                         \
    " id INTEGER PRIMARY KEY AUTOINCREMENT, time_us INTEGER NOT NULL, kind TEXT NOT NULL,"         \
    " target_id INTEGER, author TEXT, text TEXT, until_us INTEGER) STRICT"
#define SQL_NOTES_BY_TIME "CREATE INDEX notes_time ON notes (time_us)"

#define SQL_NOTE_PUT                                                                               \
    "INSERT INTO notes (time_us, kind, target_id, author, text, until_us)"                         \
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
#define SQL_NOTE_RANGE                                                                             \
    "SELECT id, time_us, kind, target_id, author, text, until_us FROM notes"                       \
    " WHERE time_us >= ?1 AND time_us < ?2 ORDER BY id"
#define SQL_NOTE_EXPIRE                                                                            \
    "DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE time_us < ?1 LIMIT ?2)"

#endif
