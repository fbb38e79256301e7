/* tz_file.c - TZif files (RFC 8536).
 *
 * layout  "TZif" version(1) zero(15) six big-endian counts (isutcnt isstdcnt leapcnt timecnt typecnt
 *         charcnt), then times, types, type records {int32 offset, u8 dst, u8 name}, names, leap records,
 *         indicators.  Version 2+ repeats header and body with 64-bit times, then "\n<TZ string>\n".
 * Every count is checked against the bytes that are left before anything is allocated. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/tz.h"
#include "base/tz_priv.h"

enum { HEADER = 44, FILE_MAX = 1 << 20, NAME_MAX_BYTES = 200 };

struct reader {
    const unsigned char *p;
    size_t n, at;
};

struct counts {
    char version;
    uint32_t isut, isstd, leap, time, type, chars;
};

static uint64_t big_endian(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static bool read_header(struct reader *r, struct counts *c)
{
    if (r->n - r->at < HEADER || memcmp(r->p + r->at, "TZif", 4) != 0)
        return false;
    const unsigned char *p = r->p + r->at;
    c->version = (char)p[4];
    uint32_t *const field[] = {&c->isut, &c->isstd, &c->leap, &c->time, &c->type, &c->chars};
    for (size_t i = 0; i < ARRAY_LEN(field); i++)
        *field[i] = (uint32_t)big_endian(p + 20 + 4 * i, 4);
    r->at += HEADER;
    return c->time <= TZ_TIMES_MAX && c->type >= 1 && c->type <= TZ_TYPES_MAX && c->chars <= 4096 &&
           c->leap <= 4096 && c->isut <= TZ_TYPES_MAX && c->isstd <= TZ_TYPES_MAX;
}

static size_t body_bytes(const struct counts *c, size_t time_size)
{
    return c->time * (time_size + 1) + c->type * 6 + c->chars + c->leap * (time_size + 4) + c->isut +
           c->isstd;
}

static bool read_body(struct reader *r, const struct counts *c, size_t time_size, struct tz *tz)
{
    const unsigned char *times = r->p + r->at, *types = times + c->time * time_size;
    const unsigned char *records = types + c->time;
    if (r->n - r->at < body_bytes(c, time_size))
        return false;
    tz->n = c->time;
    tz->at_s = mem_zero(c->time, sizeof *tz->at_s);
    tz->type = mem_zero(c->time, 1);
    for (size_t i = 0; i < c->time; i++) {
        uint64_t raw = big_endian(times + i * time_size, time_size);
        tz->at_s[i] = time_size == 8 ? (int64_t)raw : (int32_t)(uint32_t)raw;
        tz->type[i] = types[i];
        if (types[i] >= c->type || (i > 0 && tz->at_s[i] <= tz->at_s[i - 1]))
            return false;
    }
    for (size_t i = 0; i < c->type; i++) {
        tz->offset_s[i] = (int32_t)(uint32_t)big_endian(records + 6 * i, 4);
        if (tz->offset_s[i] < -TZ_OFFSET_MAX_S || tz->offset_s[i] > TZ_OFFSET_MAX_S)
            return false;
    }
    r->at += body_bytes(c, time_size);
    return true;
}

static bool read_footer(struct reader *r, struct tz *tz)
{
    const char *p = (const char *)r->p + r->at;
    size_t n = r->n - r->at;
    if (n < 2 || p[0] != '\n')
        return false;
    const char *end = memchr(p + 1, '\n', n - 1);
    if (!end)
        return false;
    size_t len = (size_t)(end - p - 1);
    tz->has_posix = len > 0;
    return len == 0 || tz_posix_parse(p + 1, len, &tz->posix);
}

static bool parse(struct reader *r, struct tz *tz)
{
    struct counts c;
    if (!read_header(r, &c))
        return false;
    if (c.version == 0)
        return read_body(r, &c, 4, tz);
    if (c.version < '2' || c.version > '9' || r->n - r->at < body_bytes(&c, 4))
        return false;
    r->at += body_bytes(&c, 4); /* the 32-bit copy */
    return read_header(r, &c) && read_body(r, &c, 8, tz) && read_footer(r, tz);
}

enum err_code tz_parse(const void *p, size_t n, const char *name, struct tz **out, struct err *e)
{
    struct reader r = {.p = p, .n = n};
    struct tz *tz = mem_zero(1, sizeof *tz);
    tz->name = mem_strdup(name);
    *out = NULL;
    if (!parse(&r, tz)) {
        tz_free(tz);
        return err_set(e, ERR_PARSE, "time zone %s: not a valid TZif file", name);
    }
    *out = tz;
    return ERR_OK;
}

static bool name_ok(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX_BYTES || name[0] == '/' || name[0] == '.' || strstr(name, ".."))
        return false;
    for (const char *p = name; *p; p++) {
        bool alnum = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!alnum && !strchr("/_+-.", *p))
            return false;
    }
    return true;
}

static enum err_code missing(const char *dir, const char *name, struct err *e)
{
    if (!file_exists(dir))
        return err_set(e, ERR_MISSING, "time zone %s: no zone data in %s; install the package tzdata "
                       "or set TZDIR", name, dir);
    return err_set(e, ERR_MISSING, "time zone %s: not found in %s; names look like Europe/Berlin; "
                   "zones are in the package tzdata", name, dir);
}

enum err_code tz_load(const char *name, struct tz **out, struct err *e)
{
    char path[1024];
    const char *dir = getenv("TZDIR");
    struct buf text;
    *out = NULL;
    if (!dir || !*dir)
        dir = "/usr/share/zoneinfo";
    if (!name_ok(name))
        return err_set(e, ERR_INVAL, "time zone \"%.60s\": not a zone name", name);
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return err_set(e, ERR_INVAL, "time zone %s: TZDIR is too long", name);
    if (!file_exists(path)) {
        if (strcmp(name, "UTC") != 0)
            return missing(dir, name, e);
        *out = mem_zero(1, sizeof **out); /* needs no data */
        (*out)->name = mem_strdup(name);
        return ERR_OK;
    }
    enum err_code rc = file_read(path, FILE_MAX, &text, e);
    if (!rc)
        rc = tz_parse(text.p, text.n, name, out, e);
    buf_fini(&text);
    return rc;
}
