#include "history/raw.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const double FRACTION_SLACK = 1.05;
/* DCGM writes blank int64 values as 0x7ffffffffffffff0 and up; a double holds them as 2^63. */
static const double DCGM_BLANK = 0x7ffffffffffffff0p0;

void raw_init(struct raw *r)
{
    memset(r, 0, sizeof *r);
    report_init(&r->report);
}

void raw_fini(struct raw *r)
{
    for (size_t i = 0; i < r->n_series; i++)
        mem_free(r->series[i].s);
    for (size_t i = 0; i < r->n_files; i++)
        mem_free(r->files[i]);
    mem_free(r->series);
    mem_free(r->files);
    memset(r, 0, sizeof *r);
}

enum err_code raw_file(struct raw *r, const char *path, uint32_t *index, struct err *e)
{
    if (r->n_files == RAW_FILES_MAX)
        return err_set(e, ERR_LIMIT, "more than %d files", RAW_FILES_MAX);
    r->files = mem_grow(r->files, r->n_files + 1, sizeof *r->files);
    r->files[r->n_files] = mem_strdup(path);
    *index = (uint32_t)r->n_files++;
    return ERR_OK;
}

enum err_code raw_series_add(struct raw *r, enum field field, const char *label, size_t *index,
                             struct err *e)
{
    if (r->n_series == RAW_SERIES_MAX)
        return err_set(e, ERR_LIMIT, "more than %d series", RAW_SERIES_MAX);
    if (r->n_series == r->size_series) {
        size_t size = r->size_series ? 2 * r->size_series : 8;
        struct raw_series *grown = try_grow(r->series, size, sizeof *grown);
        if (!grown)
            return err_set(e, ERR_NOMEM, "%zu series", size);
        r->series = grown;
        r->size_series = size;
    }
    struct raw_series *s = &r->series[r->n_series];
    memset(s, 0, sizeof *s);
    s->field = field;
    s->scale = 1;
    s->newest_us = INT64_MIN;
    (void)snprintf(s->label, sizeof s->label, "%s", label ? label : field_get(field)->name);
    *index = r->n_series++;
    return ERR_OK;
}

void raw_tally(struct raw *r, enum tally_id id, uint32_t file, uint64_t line)
{
    report_add(&r->report, id, file < r->n_files ? r->files[file] : NULL, line);
}

static bool is_fraction(enum field f)
{
    return f == FIELD_GPU_UTIL || f == FIELD_GPU_MEM_UTIL || f == FIELD_CPU_UTIL ||
           f == FIELD_MEM_UTIL;
}

bool raw_judge(struct raw *r, enum field f, double *v, uint32_t file, uint64_t line)
{
    if (*v >= 0 && *v <= 1)
        return true;
    enum tally_id why = TALLY_COUNT;
    if (!(*v <= FLT_MAX))
        why = TALLY_HUGE;
    else if (*v < 0)
        why = TALLY_NEGATIVE;
    else if (is_fraction(f))
        why = *v > FRACTION_SLACK ? TALLY_ABOVE_ONE : TALLY_CLAMPED;
    if (why == TALLY_COUNT)
        return true;
    raw_tally(r, why, file, line);
    if (why == TALLY_CLAMPED)
        *v = 1;
    return why == TALLY_CLAMPED;
}

/* False when the value counts as missing. */
static bool judge(struct raw *r, const struct raw_series *s, double *v, uint32_t file,
                  uint64_t line)
{
    enum tally_id why = TALLY_COUNT;
    if (isnan(*v))
        why = TALLY_NAN;
    else if (isinf(*v))
        why = TALLY_INF;
    else if (*v >= DCGM_BLANK && *v <= 0x1p63)
        why = TALLY_SENTINEL;
    else {
        *v = *v * s->scale + s->offset;
        if (!s->counter)
            return raw_judge(r, s->field, v, file, line);
        if (*v >= 0 && isfinite(*v))
            return true;
        why = *v < 0 ? TALLY_NEGATIVE : TALLY_HUGE;
    }
    raw_tally(r, why, file, line);
    return false;
}

static enum err_code grow(struct raw *r, struct raw_series *s, struct err *e)
{
    size_t size = s->size ? s->size + s->size / 2 : 64;
    if (r->n_samples >= RAW_SAMPLES_MAX)
        return err_set(e, ERR_LIMIT, "more than %zu values: import fewer rows or columns at a time",
                       RAW_SAMPLES_MAX);
    struct raw_sample *grown = try_grow(s->s, size, sizeof *grown);
    if (!grown)
        return err_set(e, ERR_NOMEM, "%zu samples", size);
    s->s = grown;
    s->size = size;
    return ERR_OK;
}

static enum err_code store(struct raw *r, struct raw_series *s, struct raw_sample x, struct err *e)
{
    if (s->n == s->size) {
        enum err_code rc = grow(r, s, e);
        if (rc)
            return rc;
    }
    if (x.t_us < s->newest_us) {
        s->unsorted = true;
        raw_tally(r, TALLY_UNSORTED, x.file, x.line);
    } else {
        s->newest_us = x.t_us;
    }
    s->s[s->n++] = x;
    r->n_samples++;
    return ERR_OK;
}

enum err_code raw_value(struct raw *r, size_t series, int64_t t_us, double v, uint32_t file,
                        uint64_t line, struct err *e)
{
    struct raw_series *s = &r->series[series];
    r->report.values++;
    if (judge(r, s, &v, file, line))
        r->n_usable++;
    else
        v = NAN;
    return store(r, s, (struct raw_sample){t_us, v, (uint32_t)line, file}, e);
}

enum err_code raw_missing(struct raw *r, size_t series, int64_t t_us, uint32_t file, uint64_t line,
                          struct err *e)
{
    r->report.values++;
    return store(r, &r->series[series], (struct raw_sample){t_us, NAN, (uint32_t)line, file}, e);
}

static int by_time(const void *pa, const void *pb)
{
    const struct raw_sample *a = pa, *b = pb;
    if (a->t_us != b->t_us)
        return a->t_us < b->t_us ? -1 : 1;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

void raw_sort(struct raw_series *s)
{
    if (!s->unsorted)
        return;
    qsort(s->s, s->n, sizeof *s->s, by_time);
    s->unsorted = false;
}
