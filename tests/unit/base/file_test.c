#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tests/support/test.h"

enum { MB = 1 << 20 };

static const char *tmp(const char *name)
{
    return test_path("%s/%s", test_tmp_dir(), name);
}

static size_t gzip(const void *p, size_t n, unsigned char *out, size_t room)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)p;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t len = room - z.avail_out;
    (void)deflateEnd(&z);
    return len;
}

static size_t zstd(const void *p, size_t n, unsigned char *out, size_t room)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    (void)ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    size_t len = ZSTD_compress2(c, out, room, p, n);
    assert_false(ZSTD_isError(len));
    (void)ZSTD_freeCCtx(c);
    return len;
}

typedef size_t pack_fn(const void *p, size_t n, unsigned char *out, size_t room);

static size_t plain(const void *p, size_t n, unsigned char *out, size_t room)
{
    assert_true(n <= room);
    if (n)
        memcpy(out, p, n);
    return n;
}

static const struct {
    const char *name;
    pack_fn *pack;
} codings[] = {{"plain", plain}, {"gzip", gzip}, {"zstd", zstd}};

/* Numbered lines with some noise: compresses to about a third. */
static struct buf sample(int n_lines)
{
    struct buf b = buf_init(64 * MB);
    struct rng r = rng_stream(test_seed(), "file");
    for (int i = 0; i < n_lines; i++)
        buf_fmt(&b, "%d,%u\n", i, rng_below(&r, 1000000));
    return b;
}

TEST(files_read_back_whole_whatever_they_are_packed_with)
{
    struct err e;
    struct buf text = sample(60000), got;
    unsigned char *packed = mem_zero(2 * MB, 1);
    for (size_t i = 0; i < ARRAY_LEN(codings); i++) {
        size_t n = codings[i].pack(text.p, text.n, packed, 2 * MB);
        test_write_file(tmp("packed"), packed, n);
        assert_ok(file_read(tmp("packed"), text.n, &got, &e), &e);
        assert_int_equal(got.n, text.n);
        assert_memory_equal(got.p, text.p, text.n);
        buf_fini(&got);
        assert_err(file_read(tmp("packed"), text.n - 1, &got, &e), ERR_LIMIT, &e, "more than");
        buf_fini(&got);
    }
    mem_free(packed);
    buf_fini(&text);
}

TEST(several_gzip_members_or_zstd_frames_are_one_stream)
{
    struct err e;
    struct buf got;
    unsigned char packed[1000];
    for (size_t i = 1; i < ARRAY_LEN(codings); i++) {
        size_t n = codings[i].pack("first,", 6, packed, sizeof packed);
        n += codings[i].pack("", 0, packed + n, sizeof packed - n);
        n += codings[i].pack("second", 6, packed + n, sizeof packed - n);
        test_write_file(tmp("members"), packed, n);
        assert_ok(file_read(tmp("members"), 100, &got, &e), &e);
        assert_string_equal(got.p, "first,second");
        buf_fini(&got);
    }
}

TEST(cut_and_damaged_compressed_files_are_errors)
{
    struct err e;
    struct buf text = sample(5000), got;
    unsigned char *packed = mem_zero(MB, 1);
    for (size_t i = 1; i < ARRAY_LEN(codings); i++) {
        size_t n = codings[i].pack(text.p, text.n, packed, MB);
        for (size_t cut = 5; cut < n; cut += n / 7 + 1) {
            test_write_file(tmp("cut"), packed, cut);
            assert_err(file_read(tmp("cut"), MB, &got, &e), ERR_PARSE, &e, "ends early");
            buf_fini(&got);
        }
        memset(packed + n / 2, 0x55, 40);
        test_write_file(tmp("damaged"), packed, n);
        assert_err(file_read(tmp("damaged"), MB, &got, &e), ERR_PARSE, &e, "damaged");
        buf_fini(&got);
        n = codings[i].pack("x", 1, packed, MB);
        memcpy(packed + n, "junk behind", 11);
        test_write_file(tmp("junk"), packed, n + 11);
        assert_err(file_read(tmp("junk"), MB, &got, &e), ERR_PARSE, &e, "damaged");
        buf_fini(&got);
    }
    mem_free(packed);
    buf_fini(&text);
}

TEST(a_bomb_ends_at_the_cap)
{
    struct err e;
    struct buf got;
    struct file_reader *r;
    char *zeros = mem_zero(32 * MB, 1);
    unsigned char *packed = mem_zero(MB, 1);
    for (size_t i = 1; i < ARRAY_LEN(codings); i++) {
        size_t n = codings[i].pack(zeros, 32 * MB, packed, MB);
        assert_in_range(n, 1, 100000);
        test_write_file(tmp("bomb"), packed, n);
        assert_err(file_read(tmp("bomb"), MB, &got, &e), ERR_LIMIT, &e, "after decompression");
        assert_in_range(got.size, 0, 4 * MB);
        buf_fini(&got);
        assert_ok(file_reader_open(tmp("bomb"), 64 * MB, &r, &e), &e);
        const char *line;
        size_t len;
        assert_err(file_reader_line(r, &line, &len, &e), ERR_LIMIT, &e, "line 1 is longer");
        file_reader_close(r);
    }
    mem_free(packed);
    mem_free(zeros);
}

TEST(lines_come_whole_across_chunks_from_every_coding)
{
    struct err e;
    struct buf text = sample(100000);
    unsigned char *packed = mem_zero(4 * MB, 1);
    for (size_t i = 0; i < ARRAY_LEN(codings); i++) {
        struct file_reader *r;
        test_write_file(tmp("lines"), packed, codings[i].pack(text.p, text.n, packed, 4 * MB));
        assert_ok(file_reader_open(tmp("lines"), text.n, &r, &e), &e);
        const char *want = text.p, *line;
        size_t n;
        uint64_t count = 0;
        for (;;) {
            assert_ok(file_reader_line(r, &line, &n, &e), &e);
            if (!line)
                break;
            count++;
            assert_int_equal(file_reader_line_no(r), count);
            if (memcmp(line, want, n) != 0 || want[n] != '\n')
                fail_msg("line %llu differs", (unsigned long long)count);
            want += n + 1;
        }
        assert_int_equal(count, 100000);
        assert_ok(file_reader_line(r, &line, &n, &e), &e);
        assert_null(line);
        assert_int_equal(file_reader_pos(r), file_reader_size(r));
        file_reader_close(r);
    }
    mem_free(packed);
    buf_fini(&text);
}

TEST(line_endings_may_be_unix_dos_or_missing)
{
    static const char text[] = "a\r\n\nb\n\r\nlast";
    static const char *const want[] = {"a", "", "b", "", "last"};
    struct err e;
    struct file_reader *r;
    const char *line;
    size_t n;
    test_write_file(tmp("ends"), text, sizeof text - 1);
    assert_ok(file_reader_open(tmp("ends"), 100, &r, &e), &e);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_ok(file_reader_line(r, &line, &n, &e), &e);
        assert_int_equal(n, strlen(want[i]));
        assert_memory_equal(line, want[i], n);
    }
    assert_ok(file_reader_line(r, &line, &n, &e), &e);
    assert_null(line);
    file_reader_close(r);
}

TEST(longest_line_passes_and_one_byte_more_is_an_error)
{
    struct err e;
    struct file_reader *r;
    const char *line;
    size_t n;
    char *text = mem_zero(FILE_LINE_MAX + 20, 1);
    for (size_t len = FILE_LINE_MAX; len <= FILE_LINE_MAX + 1; len++) {
        memset(text, 'x', len);
        memcpy(text + len, "\nb\n", 3);
        test_write_file(tmp("long"), text, len + 3);
        assert_ok(file_reader_open(tmp("long"), 4 * MB, &r, &e), &e);
        if (len == FILE_LINE_MAX) {
            assert_ok(file_reader_line(r, &line, &n, &e), &e);
            assert_int_equal(n, len);
            assert_ok(file_reader_line(r, &line, &n, &e), &e);
            assert_int_equal(n, 1);
        } else {
            assert_err(file_reader_line(r, &line, &n, &e), ERR_LIMIT, &e, "line 1");
        }
        file_reader_close(r);
    }
    mem_free(text);
}

TEST(chunks_add_up_to_the_file)
{
    struct err e;
    struct buf text = sample(100000), got = buf_init(4 * MB);
    struct file_reader *r;
    test_write_file(tmp("chunks"), text.p, text.n);
    assert_ok(file_reader_open(tmp("chunks"), 4 * MB, &r, &e), &e);
    assert_string_equal(file_reader_path(r), tmp("chunks"));
    for (;;) {
        const char *p;
        size_t n;
        assert_ok(file_reader_chunk(r, &p, &n, &e), &e);
        if (n == 0)
            break;
        assert_in_range(n, 1, FILE_CHUNK);
        buf_add(&got, p, n);
    }
    assert_int_equal(got.n, text.n);
    assert_memory_equal(got.p, text.p, text.n);
    file_reader_close(r);
    buf_fini(&got);
    buf_fini(&text);
}

TEST(missing_files_and_folders_are_named_in_the_error)
{
    struct err e;
    struct buf got;
    struct file_map map;
    assert_err(file_read(tmp("nowhere"), 10, &got, &e), ERR_IO, &e, "nowhere: No such file");
    buf_fini(&got);
    assert_err(file_read(test_tmp_dir(), 10, &got, &e), ERR_IO, &e, "directory");
    buf_fini(&got);
    assert_err(file_map_open(tmp("nowhere"), 10, &map, &e), ERR_IO, &e, "nowhere");
    assert_err(file_map_open(test_tmp_dir(), 10, &map, &e), ERR_IO, &e, "not a regular file");
    assert_err(file_write(tmp("no/such/folder/x"), "a", 1, &e), ERR_IO, &e, "no/such/folder");
    assert_err(file_write(test_tmp_dir(), "a", 1, &e), ERR_IO, &e, "directory");
}

TEST(maps_show_the_bytes_and_respect_the_cap)
{
    struct err e;
    struct file_map map;
    test_write_file(tmp("map"), "hello", 5);
    assert_ok(file_map_open(tmp("map"), 5, &map, &e), &e);
    assert_int_equal(map.n, 5);
    assert_memory_equal(map.p, "hello", 5);
    file_map_close(&map);
    assert_err(file_map_open(tmp("map"), 4, &map, &e), ERR_LIMIT, &e, "more than 4 bytes");
    test_write_file(tmp("map"), "", 0);
    assert_ok(file_map_open(tmp("map"), 5, &map, &e), &e);
    assert_null(map.p);
    file_map_close(&map);
    assert_int_equal(mkfifo(tmp("map_pipe"), 0600), 0); /* never waited for */
    assert_err(file_map_open(tmp("map_pipe"), 4, &map, &e), ERR_IO, &e, "not a regular file");
    assert_err(file_map_open(test_tmp_dir(), 4, &map, &e), ERR_IO, &e, "not a regular file");
}

static void assert_content(const char *path, const char *want)
{
    struct err e;
    struct buf got;
    assert_ok(file_read(path, MB, &got, &e), &e);
    assert_string_equal(got.p, want);
    buf_fini(&got);
}

static int files_in(const char *dir)
{
    int n = -1;
    FILE *f = popen(test_path("ls -A '%s' | wc -l", dir), "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    (void)pclose(f);
    return n;
}

TEST(writes_replace_the_file_and_keep_its_mode_and_links)
{
    struct err e;
    struct stat st;
    const char *dir = tmp("replace");
    assert_ok(file_make_dirs(dir, &e), &e);
    const char *path = test_path("%s/a", dir), *link = test_path("%s/link", dir);
    assert_ok(file_write(path, "one", 3, &e), &e);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(symlink("a", link), 0);
    assert_ok(file_write(link, "two", 3, &e), &e);
    assert_content(path, "two");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(files_in(dir), 2);
}

TEST(abandoned_writes_leave_the_old_file_and_nothing_else)
{
    struct err e;
    struct file_writer *w;
    const char *dir = tmp("abandon");
    assert_ok(file_make_dirs(dir, &e), &e);
    const char *path = test_path("%s/a", dir);
    assert_ok(file_write(path, "old", 3, &e), &e);
    assert_ok(file_writer_open(path, &w, &e), &e);
    assert_ok(file_writer_write(w, "new", 3, &e), &e);
    assert_content(path, "old");
    file_writer_close(w);
    assert_content(path, "old");
    assert_int_equal(files_in(dir), 1);
    file_writer_close(NULL);
}

TEST(a_killed_writer_leaves_the_old_file_and_nothing_else)
{
    struct err e;
    const char *dir = tmp("killed");
    assert_ok(file_make_dirs(dir, &e), &e);
    const char *path = test_path("%s/a", dir);
    assert_ok(file_write(path, "old", 3, &e), &e);
    int fd = open(dir, O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0)
        skip(); /* this file system has no files without a name */
    (void)close(fd);
    pid_t pid = fork();
    if (pid == 0) {
        struct file_writer *w;
        if (file_writer_open(path, &w, &e) || file_writer_write(w, "new", 3, &e))
            _exit(1);
        (void)raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_content(path, "old");
    assert_int_equal(files_in(dir), 1);
}

TEST(names_as_long_as_the_file_system_allows_are_written)
{
    struct err e;
    char name[256];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_ok(file_write(test_path("%s/%s", test_tmp_dir(), name), "x", 1, &e), &e);
    assert_content(test_path("%s/%s", test_tmp_dir(), name), "x");
}

/* A disk with room for 4 kB, seen from a child process: the limit on file sizes gives EFBIG. */
static int write_under_limit(const char *path)
{
    struct err e;
    char *big = mem_zero(64 * 1024, 1);
    const struct rlimit limit = {4096, 4096};
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 10;
    enum err_code rc = file_write(path, big, 64 * 1024, &e);
    mem_free(big);
    return rc == ERR_IO && strstr(e.msg, "write ") && strstr(e.msg, ": File too large") ? 0 : 11;
}

TEST(a_full_disk_is_an_error_and_leaves_the_old_file)
{
    struct err e;
    const char *dir = tmp("full");
    assert_ok(file_make_dirs(dir, &e), &e);
    const char *path = test_path("%s/a", dir);
    assert_ok(file_write(path, "old", 3, &e), &e);
    pid_t pid = fork();
    if (pid == 0)
        _exit(write_under_limit(path));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_content(path, "old");
    assert_int_equal(files_in(dir), 1);
}

TEST(devices_are_written_in_place)
{
    struct err e;
    assert_ok(file_write("/dev/null", "x", 1, &e), &e);
    assert_err(file_write("/dev/full", "x", 1, &e), ERR_IO, &e, "/dev/full: No space left");
}

static int write_as_nobody(const char *path)
{
    struct err e;
    if (geteuid() == 0 && seteuid(65534) != 0)
        return 10;
    enum err_code rc = file_write(path, "new", 3, &e);
    return rc == ERR_IO && strstr(e.msg, "create a file in") && strstr(e.msg, "Permission denied") ? 0 : 11;
}

TEST(an_unwritable_folder_is_an_error_naming_it)
{
    struct err e;
    const char *dir = tmp("locked");
    assert_ok(file_make_dirs(dir, &e), &e);
    const char *path = test_path("%s/a", dir);
    assert_ok(file_write(path, "old", 3, &e), &e);
    assert_int_equal(chmod(test_tmp_dir(), 0755), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(write_as_nobody(path));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_content(path, "old");
}

TEST(names_are_found_beside_the_file_that_mentions_them)
{
    static const char *const cases[][3] = {
        {"eval/a.yaml", "trace.csv", "eval/trace.csv"},
        {"a.yaml", "trace.csv", "trace.csv"},
        {"/x/a.yaml", "/y/t.csv", "/y/t.csv"},
        {"/a.yaml", "t", "/t"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *got = file_beside(cases[i][0], cases[i][1]);
        assert_string_equal(got, cases[i][2]);
        mem_free(got);
    }
}

TEST(folders_are_made_with_their_parents_unless_a_file_is_in_the_way)
{
    struct err e;
    assert_ok(file_make_dirs(tmp("d/e/f"), &e), &e);
    assert_ok(file_make_dirs(tmp("d/e/f/"), &e), &e);
    assert_true(file_exists(tmp("d/e/f")));
    test_write_file(tmp("d/file"), "", 0);
    assert_err(file_make_dirs(tmp("d/file/x"), &e), ERR_IO, &e, "d/file");
    assert_err(file_make_dirs(tmp("d/file"), &e), ERR_IO, &e, "d/file");
}
