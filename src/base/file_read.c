/* file_read.c - whole files, lines, chunks and mappings. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_priv.h"
#include "base/mem.h"

enum err_code file_read(const char *path, size_t cap, struct buf *out, struct err *e)
{
    struct source *s;
    *out = buf_init(cap < SIZE_MAX - FILE_CHUNK ? cap + FILE_CHUNK : SIZE_MAX - 1);
    enum err_code rc = source_open(path, cap, &s, e);
    if (rc)
        return rc;
    for (size_t got = 1; got;) {
        void *p = buf_room(out, FILE_CHUNK);
        if (!p) {
            rc = err_set(e, ERR_NOMEM, "read %s: out of memory after %zu bytes", path, out->n);
            break;
        }
        rc = source_read(s, p, FILE_CHUNK, &got, e);
        if (rc)
            break;
        buf_grew(out, got);
    }
    source_close(s);
    return rc;
}

/* The window [at, end) of `buf` holds bytes not yet handed out.  A line that crosses the end moves to
 * the front before more is read, so a line is always in one piece. */
struct file_reader {
    struct source *source;
    char *buf;
    size_t size; /* allocated */
    size_t at, end;
    bool eof;
    uint64_t line_no;
};

enum err_code file_reader_open(const char *path, uint64_t cap, struct file_reader **out, struct err *e)
{
    struct source *source;
    *out = NULL;
    enum err_code rc = source_open(path, cap, &source, e);
    if (rc)
        return rc;
    struct file_reader *r = mem_zero(1, sizeof *r);
    r->source = source;
    r->size = 2 * FILE_CHUNK;
    r->buf = mem_zero(r->size, 1);
    *out = r;
    return ERR_OK;
}

void file_reader_close(struct file_reader *r)
{
    if (!r)
        return;
    source_close(r->source);
    mem_free(r->buf);
    mem_free(r);
}

static enum err_code fill(struct file_reader *r, struct err *e)
{
    if (r->at > 0) {
        memmove(r->buf, r->buf + r->at, r->end - r->at);
        r->end -= r->at;
        r->at = 0;
    }
    if (r->size - r->end < FILE_CHUNK) {
        if (r->end > FILE_LINE_MAX)
            return err_set(e, ERR_LIMIT, "%s: line %llu is longer than %d bytes", source_path(r->source),
                           (unsigned long long)r->line_no + 1, FILE_LINE_MAX);
        char *p = try_grow(r->buf, r->size * 2, 1);
        if (!p)
            return err_set(e, ERR_NOMEM, "%s: out of memory", source_path(r->source));
        r->buf = p;
        r->size *= 2;
    }
    size_t got;
    enum err_code rc = source_read(r->source, r->buf + r->end, FILE_CHUNK, &got, e);
    if (rc)
        return rc;
    r->end += got;
    r->eof = got == 0;
    return ERR_OK;
}

enum err_code file_reader_line(struct file_reader *r, const char **line, size_t *n, struct err *e)
{
    size_t seen = 0; /* bytes of the window known to hold no newline */
    *line = NULL;
    *n = 0;
    for (;;) {
        char *start = r->buf + r->at;
        size_t have = r->end - r->at;
        const char *nl = memchr(start + seen, '\n', have - seen);
        if (nl || (r->eof && have > 0)) {
            size_t len = nl ? (size_t)(nl - start) : have;
            r->at += len + (nl != NULL);
            r->line_no++;
            if (len > FILE_LINE_MAX)
                return err_set(e, ERR_LIMIT, "%s: line %llu is longer than %d bytes",
                               source_path(r->source), (unsigned long long)r->line_no, FILE_LINE_MAX);
            *line = start;
            *n = len - (len > 0 && start[len - 1] == '\r');
            return ERR_OK;
        }
        if (r->eof)
            return ERR_OK;
        seen = have;
        enum err_code rc = fill(r, e);
        if (rc)
            return rc;
    }
}

enum err_code file_reader_chunk(struct file_reader *r, const char **p, size_t *n, struct err *e)
{
    *p = NULL;
    *n = 0;
    if (r->at == r->end && !r->eof) {
        enum err_code rc = fill(r, e);
        if (rc)
            return rc;
    }
    *p = r->buf + r->at;
    *n = r->end - r->at;
    r->at = r->end;
    return ERR_OK;
}

uint64_t file_reader_line_no(const struct file_reader *r)
{
    return r->line_no;
}

uint64_t file_reader_pos(const struct file_reader *r)
{
    return source_pos(r->source);
}

uint64_t file_reader_size(const struct file_reader *r)
{
    return source_size(r->source);
}

const char *file_reader_path(const struct file_reader *r)
{
    return source_path(r->source);
}

static enum err_code map_fd(int fd, const char *path, size_t cap, struct file_map *out, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(e, errno, "map %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_IO, "map %s: not a regular file", path);
    if ((uint64_t)st.st_size > cap)
        return err_set(e, ERR_LIMIT, "%s: holds more than %zu bytes", path, cap);
    if (st.st_size == 0)
        return ERR_OK;
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return err_sys(e, errno, "map %s", path);
    *out = (struct file_map){.p = p, .n = (size_t)st.st_size};
    return ERR_OK;
}

enum err_code file_map_open(const char *path, size_t cap, struct file_map *out, struct err *e)
{
    *out = (struct file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    enum err_code rc = map_fd(fd, path, cap, out, e);
    (void)close(fd);
    return rc;
}

void file_map_close(struct file_map *m)
{
    if (m->p)
        (void)munmap((void *)(uintptr_t)m->p, m->n);
    *m = (struct file_map){0};
}
