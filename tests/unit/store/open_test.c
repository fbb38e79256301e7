/* open_test.c - what is opened, what is refused, and in which words. */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/store/store_fixture.h"

static enum err_code try_open(const char *path, bool read_only, struct err *e)
{
    struct store_opts o = store_opts_default(path);
    struct store *s;
    o.read_only = read_only;
    enum err_code rc = store_open(&o, &s, e);
    if (!rc)
        store_close(s);
    return rc;
}

TEST(a_store_is_made_with_its_folders_and_read_again)
{
    const char *path = new_path("deep/er/sluice.db");
    struct store *s = open_store(path);
    struct store_info i = info_of(s);
    assert_int_equal(i.schema, STORE_SCHEMA);
    assert_int_equal(i.decisions, 0);
    assert_int_equal(i.first_us, 0);
    assert_string_equal(store_path(s), path);
    store_close(s);
    store_close(open_store(path));
    store_close(open_reader(path));
}

TEST(reading_what_is_not_there_makes_nothing)
{
    const char *path = new_path("absent.db");
    struct err e;
    assert_err(try_open(path, true, &e), ERR_MISSING, &e, "no store at");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_err(try_open(path, true, &e), ERR_IO, &e, "not a regular file");
    assert_err(try_open(path, false, &e), ERR_IO, &e, NULL);
}

TEST(a_reader_cannot_write)
{
    const char *path = new_path("reader.db");
    struct err e;
    int64_t id;
    store_close(open_store(path));
    struct store *r = open_reader(path);
    struct store_decision d = decision_of(1, T0);
    assert_err(store_begin(r, &e), ERR_IO, &e, "opened for reading");
    assert_err(store_put_decision(r, &d, &id, &e), ERR_IO, &e, "opened for reading");
    store_close(r);
}

TEST(a_second_writer_is_told_who_the_first_is)
{
    const char *path = new_path("two.db");
    struct store *s = open_store(path);
    struct err e;
    assert_err(try_open(path, false, &e), ERR_IO, &e, test_path("pid %ld", (long)getpid()));
    assert_ok(try_open(path, true, &e), &e);
    store_close(s);
    assert_ok(try_open(path, false, &e), &e);
}

TEST(files_that_are_no_store_of_ours_are_left_alone)
{
    struct err e;
    const char *path = new_path("text.db");
    test_write_file(
        path,
        "once upon a time, there was a file that was no database at all, and it was long enough",
        86);
    assert_err(try_open(path, false, &e), ERR_PARSE, &e, "move it");
    assert_err(try_open(path, true, &e), ERR_PARSE, &e, "move it");
    path = new_path("other.db");
    run_sql(path, "CREATE TABLE cats (name TEXT)");
    assert_err(try_open(path, false, &e), ERR_MISMATCH, &e, "no store of this program");
    assert_err(try_open(path, true, &e), ERR_MISMATCH, &e, "no store of this program");
    path = new_path("empty.db");
    test_write_file(path, "", 0);
    assert_err(try_open(path, true, &e), ERR_MISMATCH, &e, "nothing was ever recorded");
    assert_ok(try_open(path, false, &e), &e);
    assert_ok(try_open(path, true, &e), &e);
}

/* ---- schema ---------------------------------------------------------------------------------- */

TEST(a_newer_schema_is_refused_an_older_one_is_for_the_writer_to_bring_up_to_date)
{
    const char *path = new_path("newer.db");
    struct err e;
    store_close(open_store(path));
    run_sql(path, "PRAGMA user_version = 99");
    assert_err(try_open(path, false, &e), ERR_MISMATCH, &e, "newer version");
    assert_err(try_open(path, true, &e), ERR_MISMATCH, &e, "schema 99");
    run_sql(path, "PRAGMA user_version = 0");
    assert_err(try_open(path, true, &e), ERR_MISMATCH, &e, "has schema 0");
}

static int64_t number(struct store *s, const char *sql)
{
    struct err e;
    int64_t n;
    assert_ok(store_number(s, sql, &n, &e), &e);
    return n;
}

TEST(migrations_go_forward_one_by_one_and_a_failed_one_leaves_the_version_before)
{
    struct store *s = open_store(new_path("migrate.db"));
    struct err e;
    static const char *const one[] = {"CREATE TABLE never (x)", NULL}; /* is behind us */
    static const char *const two[] = {"CREATE TABLE extra (x)", "INSERT INTO extra VALUES (7)",
                                      NULL};
    static const char *const bad[] = {"INSERT INTO extra VALUES (8)", "CREATE TABLE extra (x)",
                                      NULL};
    static const char *const good[] = {"INSERT INTO extra VALUES (9)", NULL};
    const struct store_migration list[] = {{one}, {two}, {bad}}, mended[] = {{one}, {two}, {good}};
    assert_int_equal(STORE_SCHEMA, 1); /* else the list above begins too early */
    assert_err(store_migrate(s, list, 3, &e), ERR_IO, &e, "schema 3");
    assert_int_equal(number(s, "PRAGMA user_version"), 2);
    assert_int_equal(number(s, "SELECT count(*) FROM extra"), 1);
    assert_int_equal(number(s, "SELECT count(*) FROM sqlite_schema WHERE name = 'never'"), 0);
    assert_ok(store_migrate(s, mended, 3, &e), &e);
    assert_ok(store_migrate(s, mended, 3, &e), &e);
    assert_int_equal(number(s, "PRAGMA user_version"), 3);
    assert_int_equal(number(s, "SELECT sum(x) FROM extra"), 16);
    store_close(s);
}

TEST(acknowledged_means_synced_and_the_file_is_set_up_for_it)
{
    struct store_opts o = store_opts_default(new_path("pragma.db"));
    struct store *s;
    struct err e;
    assert_ok(store_open(&o, &s, &e), &e);
    assert_int_equal(number(s, "PRAGMA synchronous"), 2); /* FULL */
    assert_int_equal(number(s, "PRAGMA auto_vacuum"), 2); /* INCREMENTAL */
    assert_int_equal(
        number(s, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
    store_close(s);
}

/* A sample has a column per field, in the fields' order. */
TEST(columns_of_samples_are_the_fields)
{
    struct store *s = open_store(new_path("fields.db"));
    for (int f = 0; f < FIELD_COUNT; f++) {
        char sql[160];
        (void)snprintf(sql, sizeof sql,
                       "SELECT cid - 2 FROM pragma_table_info('samples') WHERE name = '%s'",
                       field_get((enum field)f)->name);
        assert_int_equal(number(s, sql), f);
    }
    assert_int_equal(number(s, "SELECT count(*) FROM pragma_table_info('samples')"),
                     2 + FIELD_COUNT);
    store_close(s);
}

/* ---- damage ---------------------------------------------------------------------------------- */

TEST(a_damaged_file_says_so_and_what_to_do_wherever_it_is_met)
{
    const char *path = new_path("damaged.db");
    struct store *s = open_store(path);
    struct err e;
    int64_t target = put_target(s, "a");
    for (int i = 0; i < 400; i++)
        (void)put_one(s, target, T0 + i * STEP);
    struct store_tended t;
    assert_ok(store_tend(s, T0, &t, &e), &e);
    store_close(s);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    for (long at = 20 * 4096; at + 4096 < st.st_size; at += 2 * 4096) {
        char junk[64];
        memset(junk, 0xa5, sizeof junk);
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        assert_int_equal(fwrite(junk, 1, sizeof junk, f), sizeof junk);
    }
    (void)fclose(f);
    int n = 0;
    const struct store_query all = {.blobs = true};
    s = open_reader(path);
    assert_err(store_check(s, &e), ERR_PARSE, &e, "move it");
    assert_err(store_decisions(s, &all, count_row, &n, &e), ERR_PARSE, &e, ".recover");
    assert_true(n < 400);
    assert_int_equal(store_health(s), STORE_DAMAGED);
    store_close(s);
    s = open_store(path);
    assert_err(store_check(s, &e), ERR_PARSE, &e, "is damaged");
    struct store_note note = {.time_us = T0, .kind = STORE_NOTE_START};
    if (store_put_note(s, &note, &e))
        assert_non_null(strstr(e.msg, "is damaged"));
    assert_int_equal(store_health(s), STORE_DAMAGED); /* does not heal by one good write */
    store_close(s);
    s = open_store(new_path("sound.db"));
    assert_ok(store_check(s, &e), &e);
    store_close(s);
}

TEST(a_truncated_file_is_no_store)
{
    const char *path = new_path("short.db");
    struct err e;
    store_close(open_store(path));
    assert_int_equal(truncate(path, 3000), 0);
    assert_true(try_open(path, false, &e) != ERR_OK);
    assert_non_null(strstr(e.msg, "damaged"));
}

TEST(the_usual_place_is_told_by_the_environment)
{
    (void)unsetenv("SLUICE_STATE_DIR");
    char *p = store_path_default(NULL);
    assert_string_equal(p, "/var/lib/sluice/sluice.db");
    mem_free(p);
    (void)setenv("SLUICE_STATE_DIR", "/tmp/state", 1);
    p = store_path_default(NULL);
    assert_string_equal(p, "/tmp/state/sluice.db");
    mem_free(p);
    p = store_path_default("/other");
    assert_string_equal(p, "/other/sluice.db");
    mem_free(p);
    (void)unsetenv("SLUICE_STATE_DIR");
}

TEST(a_store_is_told_from_other_files_by_its_first_bytes)
{
    assert_true(store_is_file("SQLite format 3\0...", 20));
    assert_false(store_is_file("SQLite format 3\0", 15));
    assert_false(store_is_file("{\"a\": 1}           ", 19));
}
