#include "history/file.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "history files are little-endian");
static_assert(sizeof(float) == 4 && FLT_MANT_DIG == 24, "columns are IEEE 754 binary32");

/* The first byte is not text and the line ends show a copy in text mode (as PNG does). */
static const unsigned char MAGIC[8] = {0x89, 'S', 'L', 'H', '\r', '\n', 0x1a, '\n'};
static const uint32_t ORDER = 0x01020304;
static const int64_t TIME_MAX_US = INT64_C(10000) * 366 * US_PER_DAY;
enum { ALIGN = 64, COUNTERS_MAX = 256, HASHED_FROM = 32 };

struct file_header {
    unsigned char magic[8];
    uint32_t version;
    uint32_t order;
    uint64_t file_bytes;
    uint64_t header_hash; /* XXH64 of the bytes from HASHED_FROM to data_offset */
    int64_t start_us;
    int64_t step_us;
    int64_t n;
    uint64_t data_hash;
    uint32_t n_columns;
    uint32_t n_counters;
    uint32_t notes_bytes;
    uint32_t zero;
    char workload_id[WORKLOAD_ID_MAX];
    char task_type[TASK_TYPE_MAX];
    char zone[ZONE_NAME_MAX];
    uint64_t data_offset;
    uint64_t barred_offset;
    unsigned char reserved[32];
};
static_assert(sizeof(struct file_header) == 384, "wire size");
static_assert(offsetof(struct file_header, start_us) == HASHED_FROM, "wire offset");

struct file_column {
    char name[24];
    char unit[16];
    uint64_t offset;
};
static_assert(sizeof(struct file_column) == 48, "wire size");

struct file_counter {
    char name[32];
    uint64_t count;
    uint64_t line;
    char file[TALLY_FILE_MAX];
};
static_assert(sizeof(struct file_counter) == 112, "wire size");

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t tables_bytes(const struct file_header *h)
{
    return sizeof *h + (uint64_t)h->n_columns * sizeof(struct file_column) +
           (uint64_t)h->n_counters * sizeof(struct file_counter) + h->notes_bytes;
}

static uint64_t column_offset(const struct file_header *h, uint64_t i)
{
    return h->data_offset + i * aligned((uint64_t)h->n * sizeof(float));
}

/* ---- values -------------------------------------------------------------------------------------
 */

/* Index of the first value that is neither missing nor in [0, max], or -1. */
static int64_t first_bad(const float *x, int64_t n, float max)
{
    enum { BLOCK = 4096 };
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t end = i + BLOCK < n ? i + BLOCK : n;
        int bad = 0;
        for (int64_t j = i; j < end; j++) /* no branch: the compiler makes vectors of it */
            bad |= (x[j] < 0) | (x[j] > max);
        for (int64_t j = i; bad && j < end; j++)
            if (x[j] < 0 || x[j] > max)
                return j;
    }
    return -1;
}

static float max_of(enum field f)
{
    return strcmp(field_get(f)->unit, "fraction") == 0 ? 1 : FLT_MAX;
}

static enum err_code check_values(const struct history *h, enum err_code code, struct err *e)
{
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!h->col[f])
            continue;
        int64_t i = first_bad(h->col[f], h->n, max_of((enum field)f));
        if (i >= 0)
            return err_set(e, code, "%s: sample %" PRId64 ": %g is not a value it can have",
                           field_get((enum field)f)->name, i, (double)h->col[f][i]);
    }
    for (int64_t i = 0; i < h->n; i++)
        if (h->barred[i] > 1)
            return err_set(e, code, "barred: sample %" PRId64 ": %u is neither 0 nor 1", i,
                           h->barred[i]);
    return ERR_OK;
}

/* ---- report -------------------------------------------------------------------------------------
 */

static void counter_name(struct file_counter *c, const char *prefix, const char *name)
{
    (void)snprintf(c->name, sizeof c->name, "%s%s", prefix, name);
}

static uint32_t report_to_counters(const struct import_report *r, struct file_counter *out)
{
    uint32_t n = 0;
#define X(member, text)                                                                            \
    counter_name(&out[n], "", #member);                                                            \
    out[n++].count = r->member;
    REPORT_COUNTER_LIST(X)
#undef X
    counter_name(&out[n], "", "native_step_us");
    out[n++].count = (uint64_t)r->native_step_us;
    if (!isnan(r->step_share)) {
        counter_name(&out[n], "", "step_share_ppm");
        out[n++].count = (uint64_t)llround(r->step_share * 1e6);
    }
    for (size_t i = 0; i < TALLY_COUNT; i++) {
        const struct tally *t = &r->tally[i];
        if (t->count == 0)
            continue;
        counter_name(&out[n], "tally.", tally_info((enum tally_id)i)->name);
        out[n].count = t->count;
        out[n].line = t->line;
        memcpy(out[n++].file, t->file, sizeof t->file);
    }
    return n;
}

static void counter_to_report(const struct file_counter *c, struct import_report *r)
{
#define X(member, text)                                                                            \
    if (strcmp(c->name, #member) == 0)                                                             \
        r->member = c->count;
    REPORT_COUNTER_LIST(X)
#undef X
    if (strcmp(c->name, "native_step_us") == 0 && c->count <= (uint64_t)HISTORY_STEP_MAX_US)
        r->native_step_us = (int64_t)c->count;
    if (strcmp(c->name, "step_share_ppm") == 0 && c->count <= 1000000)
        r->step_share = (double)c->count * 1e-6;
    if (strncmp(c->name, "tally.", 6) != 0)
        return;
    for (size_t i = 0; i < TALLY_COUNT; i++) {
        struct tally *t = &r->tally[i];
        if (strcmp(c->name + 6, tally_info((enum tally_id)i)->name) != 0)
            continue;
        t->count = c->count;
        t->line = c->line;
        memcpy(t->file, c->file, sizeof t->file);
    }
}

/* ---- reading ------------------------------------------------------------------------------------
 */

static bool terminated(const char *s, size_t size)
{
    return memchr(s, 0, size) != NULL;
}

bool history_is_file(const void *p, size_t n)
{
    return n >= sizeof MAGIC && memcmp(p, MAGIC, sizeof MAGIC) == 0;
}

static enum err_code read_header(const unsigned char *p, size_t n, struct file_header *h,
                                 struct err *e)
{
    if (n == 0)
        return err_set(e, ERR_PARSE, "the file is empty");
    if (!history_is_file(p, n)) {
        if (n >= 4 && memcmp(p, MAGIC, 4) == 0)
            return err_set(e, ERR_PARSE,
                           "truncated, or its line ends were changed by a copy in text mode");
        return err_set(e, ERR_PARSE, "not a history file (make one with `sluice import`)");
    }
    if (n < sizeof *h)
        return err_set(e, ERR_PARSE, "truncated: %zu bytes", n);
    memcpy(h, p, sizeof *h);
    if (h->order != ORDER)
        return err_set(e, ERR_MISMATCH, "written with another byte order; import it again here");
    if (h->version != HISTORY_FILE_VERSION)
        return err_set(e, ERR_MISMATCH, "version %" PRIu32 ", this program reads version %d",
                       h->version, HISTORY_FILE_VERSION);
    if (h->file_bytes != n)
        return err_set(e, ERR_PARSE,
                       "%zu bytes, its header says %" PRIu64 ": truncated or added to", n,
                       h->file_bytes);
    return ERR_OK;
}

static enum err_code check_header(const unsigned char *p, const struct file_header *h,
                                  struct err *e)
{
    if (h->n_columns < 1 || h->n_columns > FIELD_COUNT || h->n_counters > COUNTERS_MAX ||
        h->notes_bytes >= REPORT_NOTES_MAX || h->n < 1 || h->n > HISTORY_SAMPLES_MAX)
        return err_set(e, ERR_PARSE, "damaged header: a count is out of range");
    if (h->data_offset != aligned(tables_bytes(h)) ||
        h->barred_offset != column_offset(h, h->n_columns) ||
        h->file_bytes != h->barred_offset + (uint64_t)h->n)
        return err_set(e, ERR_PARSE, "damaged header: an offset does not fit");
    if (h->header_hash != hash_of(p + HASHED_FROM, h->data_offset - HASHED_FROM))
        return err_set(e, ERR_PARSE, "damaged header: its checksum does not fit");
    if (h->step_us < 1 || h->step_us > HISTORY_STEP_MAX_US || h->start_us < -TIME_MAX_US ||
        h->start_us > TIME_MAX_US || h->n > TIME_MAX_US / h->step_us)
        return err_set(e, ERR_PARSE, "times out of range");
    if (!terminated(h->workload_id, sizeof h->workload_id) ||
        !terminated(h->task_type, sizeof h->task_type) || !terminated(h->zone, sizeof h->zone))
        return err_set(e, ERR_PARSE, "a name is not terminated");
    return ERR_OK;
}

static enum err_code read_columns(const unsigned char *p, const struct file_header *h,
                                  struct history *out, struct err *e)
{
    for (uint32_t i = 0; i < h->n_columns; i++) {
        struct file_column c;
        memcpy(&c, p + sizeof *h + i * sizeof c, sizeof c);
        if (!terminated(c.name, sizeof c.name) || !terminated(c.unit, sizeof c.unit))
            return err_set(e, ERR_PARSE, "column %" PRIu32 ": its name is not terminated", i);
        int f = field_find(c.name);
        if (f < 0 || strcmp(c.unit, field_get((enum field)f)->unit) != 0)
            return err_set(e, ERR_MISMATCH, "column %" PRIu32 ": unknown field or unit", i);
        if (out->col[f] || c.offset != column_offset(h, i))
            return err_set(e, ERR_PARSE, "column %s: named twice or out of place", c.name);
        out->col[f] = (const float *)(const void *)(p + c.offset);
    }
    return ERR_OK;
}

static enum err_code read_report(const unsigned char *p, const struct file_header *h,
                                 struct import_report *r, struct err *e)
{
    const unsigned char *at = p + sizeof *h + h->n_columns * sizeof(struct file_column);
    report_init(r);
    for (uint32_t i = 0; i < h->n_counters; i++, at += sizeof(struct file_counter)) {
        struct file_counter c;
        memcpy(&c, at, sizeof c);
        if (!terminated(c.name, sizeof c.name) || !terminated(c.file, sizeof c.file))
            return err_set(e, ERR_PARSE, "counter %" PRIu32 ": its name is not terminated", i);
        counter_to_report(&c, r);
    }
    memcpy(r->notes, at, h->notes_bytes);
    r->notes[h->notes_bytes] = 0;
    return ERR_OK;
}

enum err_code history_decode(const void *bytes, size_t n, struct history *out,
                             struct import_report *report, struct err *e)
{
    const unsigned char *p = bytes;
    struct file_header h;
    struct import_report ignored;
    ASSERT((uintptr_t)p % ALIGN == 0);
    memset(out, 0, sizeof *out);
    enum err_code rc = read_header(p, n, &h, e);
    if (!rc)
        rc = check_header(p, &h, e);
    if (!rc)
        rc = read_columns(p, &h, out, e);
    if (!rc)
        rc = read_report(p, &h, report ? report : &ignored, e);
    if (rc)
        return rc;
    memcpy(out->workload_id, h.workload_id, sizeof out->workload_id);
    memcpy(out->task_type, h.task_type, sizeof out->task_type);
    memcpy(out->zone, h.zone, sizeof out->zone);
    out->start_us = h.start_us;
    out->step_us = h.step_us;
    out->n = h.n;
    out->barred = p + h.barred_offset;
    out->data_hash = h.data_hash;
    if (history_hash(out) != h.data_hash)
        return err_set(e, ERR_PARSE, "damaged: the checksum of the data does not fit");
    return check_values(out, ERR_PARSE, e);
}

enum err_code history_open(const char *path, struct history *out, struct import_report *report,
                           struct err *e)
{
    struct file_map *map = mem_zero(1, sizeof *map);
    size_t cap = sizeof(struct file_header) + (size_t)HISTORY_SAMPLES_MAX * (FIELD_COUNT * 4 + 1) +
                 (1 << 20);
    memset(out, 0, sizeof *out);
    enum err_code rc = file_map_open(path, cap, map, e);
    if (rc) {
        mem_free(map);
        return rc;
    }
    rc = history_decode(map->p, map->n, out, report, e);
    if (rc) {
        file_map_close(map);
        mem_free(map);
        memset(out, 0, sizeof *out);
        return err_wrap(e, "%s", path);
    }
    struct history_owner *owner = mem_zero(1, sizeof *owner);
    owner->map = map;
    out->owner = owner;
    return ERR_OK;
}

/* ---- writing ------------------------------------------------------------------------------------
 */

static void fill_header(const struct history *h, uint32_t n_columns, uint32_t n_counters,
                        size_t n_notes, struct file_header *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->magic, MAGIC, sizeof MAGIC);
    out->version = HISTORY_FILE_VERSION;
    out->order = ORDER;
    out->start_us = h->start_us;
    out->step_us = h->step_us;
    out->n = h->n;
    out->data_hash = history_hash(h);
    out->n_columns = n_columns;
    out->n_counters = n_counters;
    out->notes_bytes = (uint32_t)n_notes;
    (void)snprintf(out->workload_id, sizeof out->workload_id, "%s", h->workload_id);
    (void)snprintf(out->task_type, sizeof out->task_type, "%s", h->task_type);
    (void)snprintf(out->zone, sizeof out->zone, "%s", h->zone);
    out->data_offset = aligned(tables_bytes(out));
    out->barred_offset = column_offset(out, n_columns);
    out->file_bytes = out->barred_offset + (uint64_t)h->n;
}

/* Header and tables, padded to the first column. */
static void encode_head(const struct history *h, const struct import_report *report,
                        struct buf *out)
{
    struct file_counter counters[TALLY_COUNT + 16];
    struct file_header head;
    uint32_t n_columns = 0, n_counters = 0;
    memset(counters, 0, sizeof counters);
    for (int f = 0; f < FIELD_COUNT; f++)
        n_columns += h->col[f] != NULL;
    if (report)
        n_counters = report_to_counters(report, counters);
    size_t n_notes = report ? strlen(report->notes) : 0;
    fill_header(h, n_columns, n_counters, n_notes, &head);
    buf_add(out, &head, sizeof head);
    for (int f = 0, i = 0; f < FIELD_COUNT; f++) {
        if (!h->col[f])
            continue;
        struct file_column c;
        memset(&c, 0, sizeof c);
        (void)snprintf(c.name, sizeof c.name, "%s", field_get((enum field)f)->name);
        (void)snprintf(c.unit, sizeof c.unit, "%s", field_get((enum field)f)->unit);
        c.offset = column_offset(&head, (uint64_t)i++);
        buf_add(out, &c, sizeof c);
    }
    buf_add(out, counters, n_counters * sizeof counters[0]);
    if (report)
        buf_add(out, report->notes, n_notes);
    buf_pad(out, 0, head.data_offset - out->n);
    if (out->failed)
        return;
    head.header_hash = hash_of(out->p + HASHED_FROM, out->n - HASHED_FROM);
    memcpy(out->p, &head, sizeof head);
}

static enum err_code write_body(struct file_writer *w, const struct history *h,
                                const struct buf *head, struct err *e)
{
    static const unsigned char zeros[ALIGN] = {0};
    size_t bytes = (size_t)h->n * sizeof(float);
    enum err_code rc = file_writer_write(w, head->p, head->n, e);
    for (int f = 0; f < FIELD_COUNT && !rc; f++) {
        if (!h->col[f])
            continue;
        rc = file_writer_write(w, h->col[f], bytes, e);
        if (!rc)
            rc = file_writer_write(w, zeros, aligned(bytes) - bytes, e);
    }
    if (!rc)
        rc = file_writer_write(w, h->barred, (size_t)h->n, e);
    return rc ? rc : file_writer_commit(w, e);
}

enum err_code history_write(const char *path, const struct history *h,
                            const struct import_report *report, struct err *e)
{
    bool any = false;
    for (int f = 0; f < FIELD_COUNT; f++)
        any |= h->col[f] != NULL;
    if (!any || h->n < 1 || h->n > HISTORY_SAMPLES_MAX || !h->barred)
        return err_set(e, ERR_INVAL, "%s: a history without samples", path);
    enum err_code rc = check_values(h, ERR_RANGE, e);
    if (rc)
        return err_wrap(e, "%s", path);
    struct buf head = buf_init(1 << 20);
    struct file_writer *w = NULL;
    encode_head(h, report, &head);
    rc = buf_check(&head, e);
    if (!rc)
        rc = file_writer_open(path, &w, e);
    if (!rc)
        rc = write_body(w, h, &head, e);
    file_writer_close(w);
    buf_fini(&head);
    return rc;
}
