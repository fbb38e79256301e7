#include "collect/part.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

static const char file_magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'P', '1'};
static const char record_magic[4] = {'P', 'I', 'E', 'C'};
static const size_t RECORD_MAX = (size_t)1 << 30;

struct record_head {
    char magic[4];
    uint32_t n_series;
    uint64_t key;
    int64_t first_us, last_us, step_us;
    uint64_t n_samples, n_text;
};
static_assert(sizeof(struct record_head) == 56, "written as it is");
struct series_head {
    uint32_t n_text, n_samples;
};
static_assert(sizeof(struct prom_sample) == 16, "written as it is");

struct part {
    int fd;
    char *path;
    bool loaded;
    uint64_t end; /* where the next record goes */
    struct part_piece *piece;
    size_t n, size;
    struct buf buf; /* of the record being written or read */
};

/* ---- bytes --------------------------------------------------------------------------------------
 */

static enum err_code read_at(const struct part *p, uint64_t at, void *out, size_t n, struct err *e)
{
    char *to = out;
    while (n > 0) {
        ssize_t got = pread(p->fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got ? err_sys(e, errno, "read %s", p->path)
                       : err_set(e, ERR_IO, "read %s: it ends early", p->path);
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return ERR_OK;
}

static enum err_code write_at(const struct part *p, uint64_t at, const void *from, size_t n,
                              struct err *e)
{
    const char *bytes = from;
    while (n > 0) {
        ssize_t put = pwrite(p->fd, bytes, n, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return err_sys(e, errno, "write %s", p->path);
        bytes += put;
        at += (uint64_t)put;
        n -= (size_t)put;
    }
    return ERR_OK;
}

/* Bytes of a record with its checksum; 0 when the head cannot be right. */
static size_t record_size(const struct record_head *h)
{
    size_t heads, samples, n;
    bool fine = memcmp(h->magic, record_magic, sizeof record_magic) == 0 && h->step_us > 0 &&
                h->first_us <= h->last_us &&
                size_mul(h->n_series, sizeof(struct series_head), &heads) &&
                size_mul(h->n_samples, sizeof(struct prom_sample), &samples) &&
                size_add(heads, samples, &n) && size_add(n, h->n_text, &n) &&
                size_add(n, sizeof *h + sizeof(uint64_t), &n);
    return fine && n <= RECORD_MAX ? n : 0;
}

/* ---- opening ------------------------------------------------------------------------------------
 */

static void note(struct part *p, const struct part_piece *piece)
{
    if (p->n == p->size) {
        p->size = p->size ? p->size * 2 : 64;
        p->piece = mem_grow(p->piece, p->size, sizeof *p->piece);
    }
    p->piece[p->n++] = *piece;
}

/* The record at p->end into p->buf; false when it is not whole or damaged. */
static bool load_record(struct part *p, uint64_t file_size, struct record_head *h)
{
    uint64_t left = file_size - p->end, sum;
    if (left < sizeof *h || read_at(p, p->end, h, sizeof *h, NULL))
        return false;
    size_t n = record_size(h);
    if (n == 0 || n > left)
        return false;
    buf_clear(&p->buf);
    char *to = buf_room(&p->buf, n);
    if (!to || read_at(p, p->end, to, n, NULL))
        return false;
    memcpy(&sum, to + n - sizeof sum, sizeof sum);
    if (hash_of(to, n - sizeof sum) != sum)
        return false;
    p->end += n;
    return true;
}

static enum err_code load(struct part *p, struct err *e)
{
    struct stat st;
    char magic[sizeof file_magic];
    if (fstat(p->fd, &st) != 0)
        return err_sys(e, errno, "open %s", p->path);
    p->end = sizeof file_magic;
    if (st.st_size == 0) {
        p->loaded = true;
        return write_at(p, 0, file_magic, sizeof file_magic, e);
    }
    if ((size_t)st.st_size < sizeof magic || read_at(p, 0, magic, sizeof magic, NULL) ||
        memcmp(magic, file_magic, sizeof magic) != 0)
        return err_set(e, ERR_MISMATCH, "%s is not the rest of an import; move it away", p->path);
    for (;;) {
        struct record_head h;
        uint64_t at = p->end;
        if (!load_record(p, (uint64_t)st.st_size, &h))
            break;
        note(p, &(struct part_piece){h.key, h.first_us, h.last_us, h.step_us, at});
    }
    if (ftruncate(p->fd, (off_t)p->end) != 0)
        return err_sys(e, errno, "write %s", p->path);
    p->loaded = true;
    return ERR_OK;
}

enum err_code part_open(const char *path, struct part **out, struct err *e)
{
    struct part *p = mem_zero(1, sizeof *p);
    *out = NULL;
    p->path = mem_strdup(path);
    p->buf = buf_init(RECORD_MAX);
    p->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    enum err_code rc = p->fd < 0 ? err_sys(e, errno, "open %s", path) : ERR_OK;
    if (!rc && flock(p->fd, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK ? err_set(e, ERR_IO, "%s: another import is writing it", path)
                                  : err_sys(e, errno, "lock %s", path);
    if (!rc)
        rc = load(p, e);
    if (rc)
        part_close(p);
    else
        *out = p;
    return rc;
}

void part_close(struct part *p)
{
    if (!p)
        return;
    if (p->fd >= 0 && p->loaded && p->n == 0)
        (void)unlink(p->path);
    if (p->fd >= 0)
        (void)close(p->fd);
    buf_fini(&p->buf);
    mem_free(p->piece);
    mem_free(p->path);
    mem_free(p);
}

/* ---- finding ------------------------------------------------------------------------------------
 */

bool part_find(const struct part *p, uint64_t key, int64_t step_us, int64_t at_us,
               struct part_piece *out)
{
    bool found = false;
    for (size_t i = 0; i < p->n; i++) {
        const struct part_piece *x = &p->piece[i];
        if (x->key == key && x->step_us == step_us && x->first_us <= at_us && at_us <= x->last_us &&
            (!found || x->last_us > out->last_us)) {
            *out = *x;
            found = true;
        }
    }
    return found;
}

int64_t part_next(const struct part *p, uint64_t key, int64_t step_us, int64_t at_us)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < p->n; i++) {
        const struct part_piece *x = &p->piece[i];
        if (x->key == key && x->step_us == step_us && x->first_us > at_us && x->first_us < next)
            next = x->first_us;
    }
    return next;
}

/* ---- writing ------------------------------------------------------------------------------------
 */

void part_labels(const struct prom_result *r, const struct prom_series *s, struct buf *out)
{
    buf_char(out, '{');
    for (size_t i = 0; i < s->n_labels; i++) {
        const struct prom_label *l = &r->labels[s->first_label + i];
        buf_fmt(out, "%s%s=\"%s\"", i ? "," : "", r->text + l->name, r->text + l->value);
    }
    buf_char(out, '}');
}

static void write_series(struct buf *b, const struct prom_result *r, struct record_head *h)
{
    size_t heads_at = b->n;
    buf_pad(b, 0, r->n_series * sizeof(struct series_head));
    size_t text_at = b->n;
    for (size_t i = 0; i < r->n_series; i++) {
        size_t from = b->n;
        part_labels(r, &r->series[i], b);
        struct series_head x = {(uint32_t)(b->n - from), (uint32_t)r->series[i].n};
        if (!b->failed)
            memcpy(b->p + heads_at + i * sizeof x, &x, sizeof x);
    }
    h->n_text = b->n - text_at;
    for (size_t i = 0; i < r->n_series; i++) {
        const struct prom_series *s = &r->series[i];
        if (s->n)
            buf_add(b, r->samples + s->first, s->n * sizeof *r->samples);
        h->n_samples += s->n;
    }
}

enum err_code part_add(struct part *p, const struct part_piece *piece, const struct prom_result *r,
                       struct err *e)
{
    struct record_head h = {.n_series = (uint32_t)r->n_series,
                            .key = piece->key,
                            .first_us = piece->first_us,
                            .last_us = piece->last_us,
                            .step_us = piece->step_us};
    struct buf *b = &p->buf;
    memcpy(h.magic, record_magic, sizeof record_magic);
    buf_clear(b);
    buf_add(b, &h, sizeof h);
    write_series(b, r, &h);
    enum err_code rc = buf_check(b, e);
    if (rc)
        return err_wrap(e, "%s", p->path);
    memcpy(b->p, &h, sizeof h);
    uint64_t sum = hash_of(b->p, b->n);
    buf_add(b, &sum, sizeof sum);
    rc = buf_check(b, e);
    if (!rc)
        rc = write_at(p, p->end, b->p, b->n, e);
    if (rc)
        return rc;
    note(p, &(struct part_piece){h.key, h.first_us, h.last_us, h.step_us, p->end});
    p->end += b->n;
    return ERR_OK;
}

/* ---- reading ------------------------------------------------------------------------------------
 */

static enum err_code
each_series(const struct record_head *h, const char *body, struct prom_sample *aligned,
            enum err_code (*each)(void *ctx, const char *labels, size_t n_labels,
                                  const struct prom_sample *s, size_t n, struct err *e),
            void *ctx, struct err *e)
{
    const char *text = body + h->n_series * sizeof(struct series_head);
    uint64_t n_text = 0, n_samples = 0;
    memcpy(aligned, text + h->n_text, h->n_samples * sizeof *aligned);
    for (uint32_t i = 0; i < h->n_series; i++) {
        struct series_head x;
        memcpy(&x, body + i * sizeof x, sizeof x);
        if (x.n_text > h->n_text - n_text || x.n_samples > h->n_samples - n_samples)
            return err_set(e, ERR_PARSE, "a piece whose parts do not add up");
        enum err_code rc = each(ctx, text + n_text, x.n_text, aligned + n_samples, x.n_samples, e);
        if (rc)
            return rc;
        n_text += x.n_text;
        n_samples += x.n_samples;
    }
    return ERR_OK;
}

enum err_code part_read(const struct part *p, const struct part_piece *piece,
                        enum err_code (*each)(void *ctx, const char *labels, size_t n_labels,
                                              const struct prom_sample *s, size_t n, struct err *e),
                        void *ctx, struct err *e)
{
    struct record_head h;
    enum err_code rc = read_at(p, piece->offset, &h, sizeof h, e);
    size_t n = rc ? 0 : record_size(&h);
    if (rc || n == 0)
        return rc ? rc : err_set(e, ERR_PARSE, "%s changed under our hands", p->path);
    char *body = try_zero(n, 1);
    struct prom_sample *aligned = try_zero((size_t)h.n_samples + 1, sizeof *aligned);
    rc = body && aligned ? read_at(p, piece->offset + sizeof h, body, n - sizeof h, e)
                         : err_set(e, ERR_NOMEM, "no memory for a piece of %zu bytes", n);
    if (!rc)
        rc = each_series(&h, body, aligned, each, ctx, e);
    mem_free(body);
    mem_free(aligned);
    return rc;
}
