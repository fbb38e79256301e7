#include "train/curve.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"

enum { CURVE_BYTES_MAX = 1 << 20, COLUMNS = 3 };

static const char *trim(const char *s, size_t *n)
{
    while (*n && (*s == ' ' || *s == '\t')) {
        s++;
        (*n)--;
    }
    while (*n && (s[*n - 1] == ' ' || s[*n - 1] == '\t'))
        (*n)--;
    return s;
}

/* Three numbers between commas; column is where it went wrong, from 1. */
static bool parse_row(const char *s, size_t n, double v[COLUMNS], int *column)
{
    for (int i = 0; i < COLUMNS; i++) {
        const char *comma = memchr(s, ',', n);
        size_t width = comma ? (size_t)(comma - s) : n, left = width;
        const char *cell = trim(s, &left);
        *column = i + 1;
        if (!num_f64(cell, left, &v[i]))
            return false;
        if (!comma)
            return i == COLUMNS - 1;
        s += width + 1;
        n -= width + 1;
    }
    return true; /* further columns are a load tester's notes */
}

enum err_code curve_read(const char *path, struct latency_point *points, int *n, struct err *e)
{
    struct file_reader *r;
    const char *line;
    size_t len;
    enum err_code rc = file_reader_open(path, CURVE_BYTES_MAX, &r, e);
    if (rc)
        return rc;
    *n = 0;
    while (!(rc = file_reader_line(r, &line, &len, e)) && line) {
        double v[COLUMNS];
        int column;
        line = trim(line, &len);
        if (len == 0 || line[0] == '#')
            continue;
        if (!parse_row(line, len, v, &column)) {
            if (file_reader_line_no(r) == 1)
                continue;
            rc = err_set(e, ERR_PARSE, "%s:%llu: column %d is not a number; rows are load per unit, p50 ms, p99 ms",
                         path, (unsigned long long)file_reader_line_no(r), column);
            break;
        }
        if (*n == LATENCY_POINTS_MAX) {
            rc = err_set(e, ERR_LIMIT, "%s: more than %d points", path, (int)LATENCY_POINTS_MAX);
            break;
        }
        points[(*n)++] = (struct latency_point){.load_per_unit = v[0], .p50_ms = v[1], .p99_ms = v[2]};
    }
    file_reader_close(r);
    return rc;
}

enum err_code curve_load(const char *path, int units_max, double slo_ms, struct latency_model *out, struct err *e)
{
    struct latency_point p[LATENCY_POINTS_MAX];
    int n;
    enum err_code rc = curve_read(path, p, &n, e);
    if (!rc && n < 2)
        rc = err_set(e, ERR_INVAL, "%s: %d points; a curve needs at least two", path, n);
    if (!rc)
        rc = latency_from_curve(p, n, p[n - 1].load_per_unit, units_max, slo_ms, out, e);
    return rc ? err_wrap(e, "load test") : ERR_OK;
}
