/* fault_test.c - full and failing disks, and kill -9: what was acknowledged stays, nothing stays by
 * halves, and the store goes on by itself afterwards. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/rng.h"
#include "tests/unit/store/store_fixture.h"

enum { ROUND = 5 };

/* One round of ROUND decisions, the first with a keyframe. */
static enum err_code put_round(struct store *s, int64_t target, int64_t time_us, struct err *e)
{
    int64_t id;
    enum err_code rc = store_begin(s, e);
    for (int i = 0; i < ROUND && !rc; i++) {
        static const unsigned char state[9000] = {7};
        struct store_decision d = decision_of(target, time_us);
        if (i == 0)
            d.state = (struct store_blob){state, sizeof state};
        rc = store_put_decision(s, &d, &id, e);
    }
    if (!rc)
        return store_commit(s, e);
    store_rollback(s);
    return rc;
}

/* ---- a disk that fails on demand ------------------------------------------------------------- */

/* A VFS in front of the usual one.  The operation number `at` fails, and with `stays` all after it.
 */
static struct {
    sqlite3_vfs vfs, *real;
    int64_t n, at; /* at 0: none fails */
    int code;
    bool stays;
} disk;

struct disk_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this one */
};

static int fails(void)
{
    disk.n++;
    return disk.at && (disk.n == disk.at || (disk.stays && disk.n > disk.at)) ? disk.code
                                                                              : SQLITE_OK;
}

#define REAL(f) (((struct disk_file *)(void *)(f))->real)

static int disk_close(sqlite3_file *f)
{
    return REAL(f)->pMethods ? REAL(f)->pMethods->xClose(REAL(f)) : SQLITE_OK;
}
static int disk_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return REAL(f)->pMethods->xRead(REAL(f), p, n, at);
}
static int disk_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    int rc = fails();
    return rc ? rc : REAL(f)->pMethods->xWrite(REAL(f), p, n, at);
}
static int disk_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    int rc = fails();
    return rc ? rc : REAL(f)->pMethods->xTruncate(REAL(f), n);
}
static int disk_sync(sqlite3_file *f, int flags)
{
    int rc = fails();
    (void)f;
    (void)flags;
    return rc == SQLITE_FULL ? SQLITE_IOERR_FSYNC
                             : rc; /* it is not about power: no waiting for the real one */
}
static int disk_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return REAL(f)->pMethods->xFileSize(REAL(f), n);
}
static int disk_lock(sqlite3_file *f, int level)
{
    return REAL(f)->pMethods->xLock(REAL(f), level);
}
static int disk_unlock(sqlite3_file *f, int level)
{
    return REAL(f)->pMethods->xUnlock(REAL(f), level);
}
static int disk_reserved(sqlite3_file *f, int *out)
{
    return REAL(f)->pMethods->xCheckReservedLock(REAL(f), out);
}
static int disk_control(sqlite3_file *f, int op, void *arg)
{
    return REAL(f)->pMethods->xFileControl(REAL(f), op, arg);
}
static int disk_sector(sqlite3_file *f)
{
    return REAL(f)->pMethods->xSectorSize(REAL(f));
}
static int disk_traits(sqlite3_file *f)
{
    return REAL(f)->pMethods->xDeviceCharacteristics(REAL(f));
}
static int disk_shm_map(sqlite3_file *f, int page, int n, int extend, void volatile **out)
{
    return REAL(f)->pMethods->xShmMap(REAL(f), page, n, extend, out);
}
static int disk_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return REAL(f)->pMethods->xShmLock(REAL(f), at, n, flags);
}
static void disk_shm_barrier(sqlite3_file *f)
{
    REAL(f)->pMethods->xShmBarrier(REAL(f));
}
static int disk_shm_unmap(sqlite3_file *f, int delete)
{
    return REAL(f)->pMethods->xShmUnmap(REAL(f), delete);
}

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    static const sqlite3_io_methods methods = {
        2,           disk_close,   disk_read,     disk_write,       disk_truncate,  disk_sync,
        disk_size,   disk_lock,    disk_unlock,   disk_reserved,    disk_control,   disk_sector,
        disk_traits, disk_shm_map, disk_shm_lock, disk_shm_barrier, disk_shm_unmap, NULL,
        NULL};
    struct disk_file *d = (void *)f;
    (void)vfs;
    d->real = (sqlite3_file *)(void *)(d + 1);
    int rc = disk.real->xOpen(disk.real, name, d->real, flags, out);
    f->pMethods = d->real->pMethods ? &methods : NULL;
    return rc;
}

static void disk_install(void)
{
    disk.real = sqlite3_vfs_find(NULL);
    disk.vfs = *disk.real;
    disk.vfs.zName = "failing";
    disk.vfs.pNext = NULL;
    disk.vfs.szOsFile = (int)sizeof(struct disk_file) + disk.real->szOsFile;
    disk.vfs.xOpen = disk_open;
    assert_int_equal(sqlite3_vfs_register(&disk.vfs, 1), SQLITE_OK);
}

static void disk_remove(void)
{
    disk.at = 0;
    assert_int_equal(sqlite3_vfs_unregister(&disk.vfs), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(disk.real, 1), SQLITE_OK);
}

static void arm(int64_t nth, int code, bool stays)
{
    disk.at = disk.n + nth;
    disk.code = code;
    disk.stays = stays;
}

/* The same store again, as another process sees it after this one was killed. */
static int rows_after_a_crash(const char *path)
{
    static const char *const part[] = {"", "-wal"};
    char from[600], to[600], *copy = mem_strdup(new_path("crashed.db"));
    for (int i = 0; i < 2; i++) {
        (void)snprintf(from, sizeof from, "%s%s", path, part[i]);
        (void)snprintf(to, sizeof to, "%s%s", copy, part[i]);
        FILE *f = fopen(from, "rb");
        static char bytes[1 << 21];
        size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
        assert_true(n < sizeof bytes);
        if (f)
            (void)fclose(f);
        test_write_file(to, bytes, n);
    }
    struct store *s = open_store(copy);
    struct err e;
    const struct store_query all = {0};
    assert_ok(store_check(s, &e), &e);
    int n = count_of(s, &all), states = (int)info_of(s).keyframes;
    assert_int_equal(n, states * ROUND); /* never by halves */
    store_close(s);
    mem_free(copy);
    return n;
}

TEST(whichever_write_of_a_round_fails_nothing_of_it_stays_and_the_next_round_works)
{
    static const int code[] = {SQLITE_FULL, SQLITE_IOERR_WRITE};
    const struct store_query all = {0};
    disk_install();
    for (int k = 0; k < 4; k++) {
        struct store_opts o = store_opts_default(new_path(test_path("sweep-%d.db", k)));
        struct store *s;
        struct err e;
        char *path = mem_strdup(o.path);
        assert_ok(store_open(&o, &s, &e), &e);
        int64_t target = put_target(s, "a");
        assert_ok(put_round(s, target, T0, &e), &e);
        int rounds = 1, failed = 0;
        for (int64_t nth = 1;; nth++) {
            arm(nth, code[k % 2], k >= 2);
            enum err_code rc = put_round(s, target, T0, &e);
            bool hit = disk.n >= disk.at;
            disk.at = 0;
            rounds += rc == ERR_OK;
            failed += rc != ERR_OK;
            if (rc) {
                assert_int_equal(rc, ERR_IO);
                assert_int_not_equal(store_health(s), STORE_OK);
                if (code[k % 2] == SQLITE_FULL && store_health(s) == STORE_FULL)
                    assert_int_equal(e.sys, ENOSPC);
            }
            assert_int_equal(count_of(s, &all), rounds * ROUND);
            int after =
                rows_after_a_crash(path); /* an unacknowledged round may be there, but whole */
            assert_true(after == rounds * ROUND || (rc && after == (rounds + 1) * ROUND));
            assert_ok(put_round(s, target, T0, &e), &e);
            rounds++;
            assert_int_equal(store_health(s), STORE_OK);
            assert_int_equal(count_of(s, &all), rounds * ROUND);
            if (!hit)
                break;
        }
        assert_true(failed >= 5); /* header, frames, sync */
        store_close(s);
        mem_free(path);
    }
    disk_remove();
}

TEST(whichever_write_of_tending_fails_no_record_is_lost)
{
    const struct store_query all = {0};
    disk_install();
    struct store_opts o = store_opts_default(new_path("tend.db"));
    struct store *s;
    struct store_tended t;
    struct err e;
    char *path = mem_strdup(o.path);
    assert_ok(store_open(&o, &s, &e), &e);
    int64_t target = put_target(s, "a");
    int rounds = 0, failed = 0;
    for (int64_t nth = 1;; nth++) {
        assert_ok(put_round(s, target, T0, &e), &e);
        rounds++;
        arm(nth, nth % 2 ? SQLITE_FULL : SQLITE_IOERR_WRITE, true);
        failed += store_tend(s, T0, &t, &e) != ERR_OK;
        bool hit = disk.n >= disk.at;
        disk.at = 0;
        assert_int_equal(count_of(s, &all), rounds * ROUND);
        assert_int_equal(rows_after_a_crash(path), rounds * ROUND);
        assert_ok(store_tend(s, T0, &t, &e), &e);
        if (!hit)
            break;
    }
    assert_true(failed >= 3);
    store_close(s);
    mem_free(path);
    disk_remove();
}

/* ---- a disk that is full --------------------------------------------------------------------- */

TEST(a_store_that_may_not_grow_says_there_is_no_space_and_goes_on_when_there_is)
{
    struct store *s = open_store(new_path("full.db"));
    struct err e;
    const struct store_query all = {0};
    int64_t target = put_target(s, "a");
    int rounds = 0;
    assert_ok(store_exec(s, "PRAGMA max_page_count = 60", "limit", &e), &e);
    while (!put_round(s, target, T0 + rounds * STEP, &e))
        rounds++;
    assert_true(rounds > 1);
    assert_int_equal(e.sys, ENOSPC);
    assert_non_null(strstr(e.msg, "No space left"));
    assert_int_equal(store_health(s), STORE_FULL);
    for (int i = 0; i < 3; i++)
        assert_err(put_round(s, target, T0, &e), ERR_IO, &e, "No space left");
    assert_int_equal(count_of(s, &all), rounds * ROUND);
    assert_ok(store_set_action(s, 1, STORE_DONE, T0, "an outcome may still fit", &e), &e);
    assert_ok(store_exec(s, "PRAGMA max_page_count = 100000", "limit", &e), &e);
    assert_ok(put_round(s, target, T0, &e), &e);
    assert_int_equal(store_health(s), STORE_OK);
    assert_int_equal(count_of(s, &all), (rounds + 1) * ROUND);
    store_close(s);
}

/* A file that takes what room is left. */
static void take_room(const char *path)
{
    static char block[4096];
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    setbuf(f, NULL);
    memset(block, 1, sizeof block);
    while (fwrite(block, 1, sizeof block, f) == sizeof block) {
    }
    (void)fclose(f);
}

TEST(on_a_full_disk_rounds_fail_whole_and_work_again_when_there_is_room)
{
    char dir[256], path[300], filler[300];
    (void)snprintf(dir, sizeof dir, "%s", new_path("small-disk"));
    (void)snprintf(path, sizeof path, "%s/sluice.db", dir);
    (void)snprintf(filler, sizeof filler, "%s/filler", dir);
    assert_int_equal(mkdir(dir, 0755), 0);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", dir, "tmpfs", 0, "size=4m")) {
        print_message("skipped: mounting a small disk is not permitted here\n");
        skip();
    }
    struct store_opts o = store_opts_default(path);
    struct store *s;
    struct store_tended t;
    struct err e;
    const struct store_query all = {0};
    assert_ok(store_open(&o, &s, &e), &e);
    int64_t target = put_target(s, "a");
    int rounds = 0;
    for (int turn = 0; turn < 3; turn++) {
        take_room(filler);
        for (int bad = 0; bad < 3;) {
            if (put_round(s, target, T0 + rounds * STEP, &e)) {
                assert_int_equal(e.sys, ENOSPC);
                assert_int_equal(store_health(s), STORE_FULL);
                bad++;
                if (store_tend(s, T0, &t, &e)) /* does what it can */
                    assert_int_equal(e.sys, ENOSPC);
            } else {
                rounds++;
            }
        }
        assert_int_equal(count_of(s, &all), rounds * ROUND);
        assert_int_equal(unlink(filler), 0);
        assert_ok(put_round(s, target, T0 + rounds * STEP, &e), &e);
        rounds++;
        assert_int_equal(store_health(s), STORE_OK);
        assert_ok(store_tend(s, T0, &t, &e), &e);
    }
    store_close(s);
    take_room(filler); /* a start on a full disk: no store, and the reason */
    enum err_code rc = store_open(&o, &s, &e);
    if (rc)
        assert_int_equal(e.sys, ENOSPC);
    else
        store_close(s);
    assert_int_equal(unlink(filler), 0);
    assert_ok(store_open(&o, &s, &e), &e);
    assert_int_equal(count_of(s, &all), rounds * ROUND);
    store_close(s);
    assert_int_equal(umount(dir), 0);
}

/* ---- kill -9 --------------------------------------------------------------------------------- */

/* What the child has told: decisions committed, and the newest outcome written. */
struct told {
    int64_t last_id, done_id;
};

static void write_for_ever(const char *path, int fd)
{
    struct store_opts o = store_opts_default(path);
    struct store *s;
    struct store_tended tended;
    if (store_open(&o, &s, NULL))
        _exit(1);
    hurry(s); /* a killed process takes nothing from the page cache with it */
    struct store_target t = {.name = "a"};
    int64_t target, id = 0;
    if (store_target_id(s, &t, T0, &target, NULL))
        _exit(2);
    struct told told = {0};
    for (int r = 0;; r++) {
        if (store_begin(s, NULL))
            _exit(3);
        for (int i = 0; i < ROUND; i++) {
            struct store_decision d = decision_of(target, T0 + r * STEP);
            if (i == 0)
                d.state = d.view;
            if (store_put_decision(s, &d, &id, NULL))
                _exit(4);
        }
        if (store_commit(s, NULL))
            _exit(5);
        told.last_id = id;
        if (write(fd, &told, sizeof told) != sizeof told)
            _exit(6);
        if (store_set_action(s, id, STORE_DONE, T0, "ok", NULL))
            _exit(7);
        told.done_id = id;
        if (write(fd, &told, sizeof told) != sizeof told)
            _exit(8);
        if (r % 3 == 0 && store_tend(s, T0, &tended, NULL))
            _exit(9);
    }
}

static bool done_row(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)t;
    *(bool *)ctx = d->action == STORE_DONE;
    return true;
}

TEST(kill_9_loses_no_acknowledged_record)
{
    char *path = mem_strdup(new_path("killed.db"));
    struct rng rng = rng_stream(test_seed(), "kill");
    struct told last = {0};
    for (int turn = 0; turn < 12; turn++) {
        int fd[2];
        assert_int_equal(pipe(fd), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(fd[0]);
            write_for_ever(path, fd[1]);
        }
        (void)close(fd[1]);
        struct told told;
        for (uint32_t more = rng_below(&rng, 30);
             more > 0 && read(fd[0], &told, sizeof told) == sizeof told; more--)
            last = told;
        assert_int_equal(kill(child, SIGKILL), 0); /* wherever it is just now */
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how));
        while (read(fd[0], &told, sizeof told) == sizeof told) /* told before it died */
            last = told;
        (void)close(fd[0]);
        if (last.last_id == 0)
            continue;
        struct store *s = open_store(path);
        struct err e;
        assert_ok(store_check(s, &e), &e);
        struct store_info i = info_of(s);
        assert_int_equal(i.first_id, 1);
        assert_true(i.last_id >= last.last_id);
        assert_int_equal(i.decisions, i.last_id); /* no holes */
        assert_int_equal(i.decisions, i.keyframes * ROUND);
        bool done = last.done_id == 0; /* of an earlier turn, or told by this child */
        if (last.done_id)
            assert_ok(store_decision_get(s, last.done_id, done_row, &done, &e), &e);
        assert_true(done);
        store_close(s);
    }
    assert_true(last.done_id > 0);
    mem_free(path);
}

TEST(a_reader_works_while_a_writer_writes)
{
    char *path = mem_strdup(new_path("busy.db"));
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(fd[0]);
        write_for_ever(path, fd[1]);
    }
    (void)close(fd[1]);
    struct told told;
    const struct store_query all = {.blobs = true};
    int last = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(read(fd[0], &told, sizeof told), sizeof told);
        struct store *r = open_reader(path);
        int n = count_of(r, &all);
        assert_true(n >= told.last_id && n >= last);
        assert_int_equal(n % ROUND, 0);
        last = n;
        store_close(r);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(fd[0]);
    mem_free(path);
}
