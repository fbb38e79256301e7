/* file_source.c - plain, gzip or zstd, told by the first bytes.
 *
 * One input buffer of FILE_CHUNK bytes; the decoder writes straight into the caller's memory.
 * The magic numbers: gzip 1f 8b (RFC 1952), zstd 28 b5 2f fd (RFC 8878); skippable zstd frames are
 * recognised only after a first normal one. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/file.h"
#include "base/file_priv.h"
#include "base/mem.h"
#include "base/signal.h"

enum coding { PLAIN, GZIP, ZSTD };

struct source {
    int fd;
    char *path;
    enum coding coding;
    uint64_t cap, given; /* decompressed bytes */
    uint64_t pos, size;  /* stored bytes */
    unsigned char *in;   /* [FILE_CHUNK] */
    size_t in_at, in_n;
    bool in_end;         /* no more to read from the file */
    bool inside;         /* in the middle of a gzip member or zstd frame */
    z_stream gz;
    bool gz_ready;
    ZSTD_DStream *zs;
};

static enum err_code refill(struct source *s, struct err *e)
{
    if (s->in_at < s->in_n || s->in_end)
        return ERR_OK;
    ssize_t n;
    do {
        if (signal_check(e))
            return ERR_INTERRUPTED;
        n = read(s->fd, s->in, FILE_CHUNK);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, errno, "read %s", s->path);
    s->in_at = 0;
    s->in_n = (size_t)n;
    s->in_end = n == 0;
    return ERR_OK;
}

/* The first read must see the whole magic, also from a pipe that gives a byte at a time. */
static enum err_code fill_magic(struct source *s, struct err *e)
{
    while (s->in_n < 4 && !s->in_end) {
        if (signal_check(e))
            return ERR_INTERRUPTED;
        ssize_t n = read(s->fd, s->in + s->in_n, FILE_CHUNK - s->in_n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read %s", s->path);
        s->in_n += (size_t)n;
        s->in_end = n == 0;
    }
    return ERR_OK;
}

static enum err_code start_coding(struct source *s, struct err *e)
{
    static const unsigned char gzip_magic[] = {0x1f, 0x8b}, zstd_magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    if (s->in_n >= sizeof gzip_magic && memcmp(s->in, gzip_magic, sizeof gzip_magic) == 0) {
        s->coding = GZIP;
        if (inflateInit2(&s->gz, 15 + 16) != Z_OK)
            return err_set(e, ERR_NOMEM, "gzip decoder");
        s->gz_ready = true;
    } else if (s->in_n >= sizeof zstd_magic && memcmp(s->in, zstd_magic, sizeof zstd_magic) == 0) {
        s->coding = ZSTD;
        s->zs = ZSTD_createDStream();
        if (!s->zs)
            return err_set(e, ERR_NOMEM, "zstd decoder");
    }
    return ERR_OK;
}

enum err_code source_open(const char *path, uint64_t cap, struct source **out, struct err *e)
{
    struct source *s = mem_zero(1, sizeof *s);
    struct stat st;
    enum err_code rc;
    *out = NULL;
    s->fd = -1;
    s->path = mem_strdup(path);
    s->cap = cap;
    s->in = mem_zero(FILE_CHUNK, 1);
    if ((rc = signal_check(e)))
        goto fail;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 && errno == EINTR && (rc = signal_check(e)))
        goto fail;
    if (s->fd < 0 || fstat(s->fd, &st) != 0) {
        rc = err_sys(e, errno, "open %s", path);
        goto fail;
    }
    if (S_ISDIR(st.st_mode)) {
        rc = err_sys(e, EISDIR, "open %s", path);
        goto fail;
    }
    s->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    rc = fill_magic(s, e);
    if (!rc)
        rc = start_coding(s, e);
    if (!rc) {
        *out = s;
        return ERR_OK;
    }
fail:
    source_close(s);
    return rc;
}

void source_close(struct source *s)
{
    if (!s)
        return;
    if (s->gz_ready)
        (void)inflateEnd(&s->gz);
    (void)ZSTD_freeDStream(s->zs);
    if (s->fd >= 0)
        (void)close(s->fd);
    mem_free(s->in);
    mem_free(s->path);
    mem_free(s);
}

static void take(struct source *s, size_t used)
{
    s->in_at += used;
    s->pos += used;
}

static enum err_code step_plain(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
    (void)e;
    size_t have = s->in_n - s->in_at;
    *got = have < n ? have : n;
    memcpy(p, s->in + s->in_at, *got);
    take(s, *got);
    return ERR_OK;
}

static enum err_code step_gzip(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
    if (!s->inside && inflateReset(&s->gz) != Z_OK)
        return err_set(e, ERR_PARSE, "%s: gzip decoder reset", s->path);
    s->inside = true;
    s->gz.next_in = s->in + s->in_at;
    s->gz.avail_in = (uInt)(s->in_n - s->in_at);
    s->gz.next_out = p;
    s->gz.avail_out = (uInt)n;
    int rc = inflate(&s->gz, Z_NO_FLUSH);
    take(s, s->in_n - s->in_at - s->gz.avail_in);
    *got = n - s->gz.avail_out;
    if (rc == Z_MEM_ERROR)
        return err_set(e, ERR_NOMEM, "%s: gzip decoder", s->path);
    if (rc == Z_STREAM_END)
        s->inside = false;
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return err_set(e, ERR_PARSE, "%s: damaged gzip data near byte %llu: %s", s->path,
                       (unsigned long long)s->pos, s->gz.msg ? s->gz.msg : "unknown");
    return ERR_OK;
}

static enum err_code step_zstd(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
    ZSTD_inBuffer in = {.src = s->in, .size = s->in_n, .pos = s->in_at};
    ZSTD_outBuffer out = {.dst = p, .size = n, .pos = 0};
    size_t rc = ZSTD_decompressStream(s->zs, &out, &in);
    take(s, in.pos - s->in_at);
    *got = out.pos;
    if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
        return err_set(e, ERR_NOMEM, "%s: zstd decoder", s->path);
    if (ZSTD_isError(rc))
        return err_set(e, ERR_PARSE, "%s: damaged zstd data near byte %llu: %s", s->path,
                       (unsigned long long)s->pos, ZSTD_getErrorName(rc));
    s->inside = rc != 0;
    return ERR_OK;
}

static enum err_code step(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
    switch (s->coding) {
    case GZIP:
        return step_gzip(s, p, n, got, e);
    case ZSTD:
        return step_zstd(s, p, n, got, e);
    case PLAIN:
        break;
    }
    return step_plain(s, p, n, got, e);
}

enum err_code source_read(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
    *got = 0;
    if (n > FILE_CHUNK)
        n = FILE_CHUNK;
    while (*got == 0) {
        enum err_code rc = refill(s, e);
        if (rc)
            return rc;
        bool dry = s->in_at == s->in_n;
        if (dry && !s->inside)
            return ERR_OK;
        rc = step(s, p, n, got, e);
        if (rc)
            return rc;
        if (dry && s->inside && *got == 0)
            return err_set(e, ERR_PARSE, "%s: compressed data ends early", s->path);
    }
    s->given += *got;
    if (s->given > s->cap)
        return err_set(e, ERR_LIMIT, "%s: holds more than %llu bytes%s", s->path,
                       (unsigned long long)s->cap, s->coding == PLAIN ? "" : " after decompression");
    return ERR_OK;
}

uint64_t source_pos(const struct source *s)
{
    return s->pos;
}

uint64_t source_size(const struct source *s)
{
    return s->size;
}

const char *source_path(const struct source *s)
{
    return s->path;
}
