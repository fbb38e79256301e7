/* import_csv.c - delimited text with any columns, wide or long.
 *
 *   wide   time, a column per field         --time ts --qps requests
 *   long   time, metric, value              --metric name --value v --qps http_requests
 *   pods   a column tells series apart      --series pod --combine sum
 *   events one row an arrival               --events
 *
 * The map from columns to fields is worked out once per file from its header; a row then costs one
 * cut into cells, one time and one number per mapped column.  A row with another number of columns
 * than the first is left out and counted: its cells may be shifted. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/intern.h"
#include "base/mem.h"
#include "base/num.h"
#include "history/import_priv.h"

enum { TERMS_MAX = 8, WHERE_MAX = 16, NO_COLUMN = IMPORT_COLUMNS_MAX };
static const char DELIMS[] = {0, ',', ';', '\t', '|'};
enum { HEADER_AUTO, HEADER_YES, HEADER_NO };

/* One field and where its values come from. */
struct mapping {
    enum field field;
    const char *spec;       /* as the user wrote it, or the column's name */
    size_t term[TERMS_MAX]; /* columns to add up */
    size_t n_terms;         /* 0 in long form and for unweighted events */
    size_t *series;         /* raw series by id of the series column; SIZE_MAX: not made yet */
    size_t n_series;
};

struct filter {
    size_t column;
    const char *text;
};

struct job {
    const struct import_cfg *cfg;
    const struct tz *zone;
    struct raw *raw;
    struct mapping map[FIELD_COUNT];
    size_t n_map;
    struct filter where[WHERE_MAX];
    size_t n_where;
    size_t col_time, col_metric, col_value, col_series; /* NO_COLUMN where not used */
    size_t n_cols;                                      /* of the first row */
    bool named;                                         /* the first row holds names */
    size_t n_needed;                                    /* cells a row must be cut into */
    struct intern *ids;                                 /* texts of the series column */
    struct csv_cell *cells;                             /* [IMPORT_COLUMNS_MAX] */
    struct time_reader tr;
    int64_t row_us; /* next time where time_format is row */
    uint32_t file;
};

/* ---- from names to columns ----------------------------------------------------------------------
 */

static bool in_header(const struct csv_cell *head, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (head[i].n == len && memcmp(head[i].p, name, len) == 0)
            return true;
    return false;
}

static enum err_code add_term(struct job *j, struct mapping *m, const struct csv_cell *head,
                              const char *name, size_t len, struct err *e)
{
    char text[256];
    if (m->n_terms == TERMS_MAX)
        return err_set(e, ERR_LIMIT, "%s: more than %d columns to add up",
                       field_get(m->field)->name, TERMS_MAX);
    if (len >= sizeof text)
        return err_set(e, ERR_LIMIT, "%s: column name too long", field_get(m->field)->name);
    memcpy(text, name, len);
    text[len] = 0;
    if (import_column(head, j->n_cols, j->named, text, &m->term[m->n_terms++], e))
        return err_wrap(e, "%s", field_get(m->field)->name);
    return ERR_OK;
}

/* "requests", "running+pending"; a header that holds the whole text wins over the sum. */
static enum err_code resolve_terms(struct job *j, struct mapping *m, const struct csv_cell *head,
                                   struct err *e)
{
    const char *at = m->spec;
    m->n_terms = 0;
    if (j->named && in_header(head, j->n_cols, at, strlen(at)))
        return add_term(j, m, head, at, strlen(at), e);
    for (;;) {
        size_t len = strcspn(at, "+");
        enum err_code rc = add_term(j, m, head, at, len, e);
        if (rc || at[len] == 0)
            return rc;
        at += len + 1;
    }
}

static enum err_code resolve_where(struct job *j, const struct csv_cell *head, struct err *e)
{
    j->n_where = 0;
    for (size_t i = 0; i < j->cfg->where.n; i++) {
        const char *item = j->cfg->where.items[i], *eq = strchr(item, '=');
        char name[256];
        if (i == WHERE_MAX)
            return err_set(e, ERR_LIMIT, "where: more than %d conditions", WHERE_MAX);
        if (!eq || (size_t)(eq - item) >= sizeof name)
            return err_set(e, ERR_USAGE, "where: \"%.60s\": expected column=text", item);
        memcpy(name, item, (size_t)(eq - item));
        name[eq - item] = 0;
        j->where[j->n_where].text = eq + 1;
        if (import_column(head, j->n_cols, j->named, name, &j->where[j->n_where++].column, e))
            return err_wrap(e, "where");
    }
    return ERR_OK;
}

static enum err_code resolve_one(struct job *j, const struct csv_cell *head, const char *name,
                                 const char *option, size_t *col, struct err *e)
{
    *col = NO_COLUMN;
    if (name && import_column(head, j->n_cols, j->named, name, col, e))
        return err_wrap(e, "%s", option);
    return ERR_OK;
}

static enum err_code resolve_time(struct job *j, const struct csv_cell *head, struct err *e)
{
    static const char *const usual[] = {"time", "timestamp", "ts",        "date", "datetime",
                                        "ds",   "Time",      "Timestamp", "Date"};
    j->col_time = NO_COLUMN;
    if (j->cfg->time_format == TIME_ROW)
        return ERR_OK;
    if (j->cfg->time)
        return resolve_one(j, head, j->cfg->time, "time", &j->col_time, e);
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (in_header(head, j->n_cols, usual[i], strlen(usual[i])))
            return resolve_one(j, head, usual[i], "time", &j->col_time, e);
    if (import_column(head, j->n_cols, j->named, "time", &j->col_time, e))
        return err_wrap(e, "which column is the time? (option time; or time_format=row)");
    return ERR_OK;
}

static void need(struct job *j, size_t col)
{
    if (col != NO_COLUMN && col >= j->n_needed)
        j->n_needed = col + 1;
}

static void count_needed(struct job *j)
{
    j->n_needed = 1;
    need(j, j->col_time);
    need(j, j->col_metric);
    need(j, j->col_value);
    need(j, j->col_series);
    for (size_t i = 0; i < j->n_where; i++)
        need(j, j->where[i].column);
    for (size_t i = 0; i < j->n_map; i++)
        for (size_t k = 0; k < j->map[i].n_terms; k++)
            need(j, j->map[i].term[k]);
}

static enum err_code resolve(struct job *j, const struct csv_cell *head, struct err *e)
{
    enum err_code rc = resolve_time(j, head, e);
    if (!rc)
        rc = resolve_one(j, head, j->cfg->metric, "metric", &j->col_metric, e);
    if (!rc)
        rc = resolve_one(j, head, j->cfg->value, "value", &j->col_value, e);
    if (!rc)
        rc = resolve_one(j, head, j->cfg->series, "series", &j->col_series, e);
    if (!rc)
        rc = resolve_where(j, head, e);
    for (size_t i = 0; i < j->n_map && !rc && j->col_metric == NO_COLUMN; i++)
        if (j->map[i].spec)
            rc = resolve_terms(j, &j->map[i], head, e);
    if (!rc)
        count_needed(j);
    return rc;
}

/* ---- what the options ask for -------------------------------------------------------------------
 */

static void add_mapping(struct job *j, enum field f, const char *spec)
{
    j->map[j->n_map++] = (struct mapping){.field = f, .spec = spec};
}

/* Fields the user named; without any, columns that carry a field's own name. */
static enum err_code choose_fields(struct job *j, const struct csv_cell *head, struct err *e)
{
    size_t ignored;
    for (int f = 0; f < FIELD_COUNT; f++)
        if (j->cfg->field[f])
            add_mapping(j, (enum field)f, j->cfg->field[f]);
    if (j->n_map > 0)
        return ERR_OK;
    if (j->cfg->events) {
        add_mapping(j, FIELD_QPS, NULL);
        return ERR_OK;
    }
    for (int f = 0; f < FIELD_COUNT && !j->cfg->metric; f++) {
        const char *name = field_get((enum field)f)->name;
        if (in_header(head, j->n_cols, name, strlen(name)))
            add_mapping(j, (enum field)f, name);
    }
    if (j->n_map > 0)
        return ERR_OK;
    if (import_column(head, j->n_cols, j->named, "qps", &ignored, e))
        return err_wrap(e, "which column is what? (options qps, gpu_util, ...)");
    return err_set(e, ERR_USAGE, "no field given (options qps, gpu_util, ...)");
}

static enum err_code check_combination(const struct job *j, struct err *e)
{
    const struct import_cfg *cfg = j->cfg;
    if ((cfg->metric == NULL) != (cfg->value == NULL))
        return err_set(e, ERR_USAGE, "the long form needs both metric and value");
    if (cfg->time_format == TIME_ROW && cfg->step_us == 0)
        return err_set(e, ERR_USAGE, "time_format=row needs step");
    if (cfg->time_format == TIME_ROW && cfg->time)
        return err_set(e, ERR_USAGE, "time_format=row has no time column");
    if (cfg->start && cfg->time_format != TIME_ROW)
        return err_set(e, ERR_USAGE, "start is for time_format=row");
    if (cfg->events && (cfg->metric || cfg->series || cfg->time_format == TIME_ROW ||
                        cfg->counter.n > 0 || cfg->per_step.n > 0 || cfg->combine != COMBINE_AUTO))
        return err_set(e, ERR_USAGE,
                       "events stands alone: no metric, series, combine, counter, per_step or "
                       "time_format=row");
    if (cfg->counter.n > 0 && !cfg->series && cfg->combine > COMBINE_LAST)
        return err_set(e, ERR_USAGE, "counters of several pods need the series column");
    for (int f = 0; f < FIELD_COUNT && cfg->events; f++)
        if (cfg->field[f] && f != FIELD_QPS)
            return err_set(e, ERR_USAGE, "events count towards qps only");
    return ERR_OK;
}

static enum err_code start_rows(struct job *j, struct err *e)
{
    j->row_us = 0;
    if (!j->cfg->start)
        return ERR_OK;
    if (tz_parse_time(j->zone, j->cfg->start, strlen(j->cfg->start), &j->row_us, NULL, e))
        return err_wrap(e, "start");
    return ERR_OK;
}

/* ---- series -------------------------------------------------------------------------------------
 */

static enum err_code make_series(struct job *j, struct mapping *m, uint32_t id, struct err *e)
{
    const char *label = j->col_series != NO_COLUMN ? intern_name(j->ids, id) : m->spec;
    if (id >= m->n_series) {
        size_t n = m->n_series ? 2 * m->n_series : 1;
        while (n <= id)
            n *= 2;
        m->series = mem_grow(m->series, n, sizeof *m->series); /* bounded by RAW_SERIES_MAX */
        for (size_t i = m->n_series; i < n; i++)
            m->series[i] = SIZE_MAX;
        m->n_series = n;
    }
    enum err_code rc = import_series(j->cfg, j->raw, m->field, label, &m->series[id], e);
    if (rc)
        return rc;
    struct raw_series *s = &j->raw->series[m->series[id]];
    enum raw_combine rule =
        j->cfg->combine == COMBINE_AUTO ? RAW_LAST : import_combine_rule(j->cfg->combine);
    if (j->cfg->events) {
        s->event = s->absent_is_zero = true;
        s->in_step = RAW_SUM;
    } else if (j->cfg->series) {
        j->raw->across[m->field] = rule;
    } else {
        s->in_step = rule;
    }
    return ERR_OK;
}

static enum err_code push(struct job *j, struct mapping *m, uint32_t id, int64_t us, double v,
                          uint64_t line, struct err *e)
{
    if (id >= m->n_series || m->series[id] == SIZE_MAX) {
        enum err_code rc = make_series(j, m, id, e);
        if (rc)
            return rc;
    }
    if (isnan(v)) /* counted when it was read */
        return raw_missing(j->raw, m->series[id], us, j->file, line, e);
    return raw_value(j->raw, m->series[id], us, v, j->file, line, e);
}

/* ---- rows ---------------------------------------------------------------------------------------
 */

static bool selected(const struct job *j)
{
    for (size_t i = 0; i < j->n_where; i++)
        if (!csv_cell_is(j->cells[j->where[i].column], j->where[i].text))
            return false;
    return true;
}

/* A cell as a number, NaN when it has none; the reason is counted. */
static double number(struct job *j, size_t column, uint64_t line)
{
    double v;
    if (!import_number(j->cfg, j->raw, j->cells[column], j->file, line, &v))
        return NAN;
    if (isnan(v))
        raw_tally(j->raw, TALLY_NAN, j->file, line);
    return v;
}

/* The sum of a mapping's columns; missing when one of them is. */
static double add_up(struct job *j, const struct mapping *m, uint64_t line)
{
    double sum = m->n_terms == 0; /* an unweighted event counts 1 */
    for (size_t i = 0; i < m->n_terms; i++)
        sum += number(j, m->term[i], line);
    return sum;
}

static enum err_code long_row(struct job *j, uint32_t id, int64_t us, uint64_t line, struct err *e)
{
    for (size_t i = 0; i < j->n_map; i++) {
        if (csv_cell_is(j->cells[j->col_metric], j->map[i].spec))
            return push(j, &j->map[i], id, us, number(j, j->col_value, line), line, e);
    }
    raw_tally(j->raw, TALLY_FILTERED, j->file, line);
    return ERR_OK;
}

static enum err_code wide_row(struct job *j, uint32_t id, int64_t us, uint64_t line, struct err *e)
{
    for (size_t i = 0; i < j->n_map; i++) {
        enum err_code rc = push(j, &j->map[i], id, us, add_up(j, &j->map[i], line), line, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err_code one_row(struct job *j, size_t n, uint64_t line, struct err *e)
{
    int64_t us = j->row_us;
    uint32_t id = 0;
    j->raw->report.rows++;
    if (j->row_us < RAW_TIME_MAX_US) /* later rows are out of range anyway */
        j->row_us += j->cfg->step_us;
    if (n != j->n_cols) {
        raw_tally(j->raw, TALLY_RAGGED, j->file, line);
        return ERR_OK;
    }
    if (!selected(j)) {
        raw_tally(j->raw, TALLY_FILTERED, j->file, line);
        return ERR_OK;
    }
    if (j->col_time == NO_COLUMN && (us < RAW_TIME_MIN_US || us >= RAW_TIME_MAX_US)) {
        raw_tally(j->raw, TALLY_TIME_RANGE, j->file, line);
        return ERR_OK;
    }
    if (j->col_time != NO_COLUMN &&
        !import_time(j->raw, &j->tr, j->cells[j->col_time], j->file, line, &us))
        return ERR_OK;
    if (j->col_series != NO_COLUMN) {
        struct csv_cell c = j->cells[j->col_series];
        enum err_code rc = intern_id(j->ids, c.p, c.n, &id, e);
        if (rc)
            return rc;
    }
    return j->col_metric != NO_COLUMN ? long_row(j, id, us, line, e) : wide_row(j, id, us, line, e);
}

/* Whether the first row names columns: certainly when the time is given by name, or when its time
 * cell is no time. */
static bool is_header(struct job *j, const struct csv_cell *row, size_t n)
{
    const struct import_cfg *cfg = j->cfg;
    int64_t us;
    double v;
    struct time_reader probe;
    size_t col = 0;
    if (cfg->header != HEADER_AUTO)
        return cfg->header == HEADER_YES;
    if (cfg->time_format == TIME_ROW) {
        for (size_t i = 0; i < n; i++)
            if (num_f64(row[i].p, row[i].n, &v))
                return false;
        return true;
    }
    if (!cfg->time || import_column(row, n, false, cfg->time, &col, NULL))
        return true; /* found by name, then */
    time_reader_init(&probe, (enum time_format)cfg->time_format, j->zone, true);
    return time_read(&probe, row[col].p, row[col].n, &us) == TIME_BAD;
}

static enum err_code read_head(struct job *j, struct csv_reader *r, bool *first_is_data,
                               struct err *e)
{
    enum err_code rc = csv_next(r, j->cells, IMPORT_COLUMNS_MAX, &j->n_cols, e);
    if (rc)
        return rc;
    if (j->n_cols == 0)
        return err_set(e, ERR_PARSE, "%s: the file is empty", csv_path(r));
    if (j->n_cols > IMPORT_COLUMNS_MAX)
        return err_set(e, ERR_LIMIT, "%s: %zu columns (at most %d)", csv_path(r), j->n_cols,
                       IMPORT_COLUMNS_MAX);
    j->named = is_header(j, j->cells, j->n_cols);
    *first_is_data = !j->named;
    if (j->n_map == 0)
        rc = choose_fields(j, j->cells, e);
    if (!rc)
        rc = resolve(j, j->cells, e);
    return rc ? err_wrap(e, "%s", csv_path(r)) : ERR_OK;
}

static void note_times(const struct job *j)
{
    const char *kind = time_format_text(j->tr.format);
    bool naive = j->tr.format == TIME_LOCAL;
    bool told = j->cfg->time_format != TIME_AUTO && !naive;
    if (!told)
        report_note(&j->raw->report, "times are %s%s%s", kind, naive ? " in zone " : "",
                    naive ? j->cfg->zone : "");
}

static enum err_code read_file(struct job *j, const char *path, struct err *e)
{
    struct csv_reader *r;
    bool first_is_data;
    size_t n;
    enum err_code rc = raw_file(j->raw, path, &j->file, e);
    if (!rc)
        rc = csv_open(path, (uint64_t)j->cfg->max_bytes, DELIMS[j->cfg->delimiter], &r, e);
    if (rc)
        return rc;
    time_reader_init(&j->tr, (enum time_format)j->cfg->time_format, j->zone,
                     j->cfg->series || j->cfg->metric || j->cfg->events);
    rc = read_head(j, r, &first_is_data, e);
    if (!rc && first_is_data)
        rc = one_row(j, j->n_cols, csv_line(r), e);
    while (!rc) {
        rc = csv_next(r, j->cells, j->n_needed, &n, e);
        if (rc || n == 0)
            break;
        rc = one_row(j, n, csv_line(r), e);
    }
    csv_close(r);
    return rc;
}

static enum err_code run(const struct import_cfg *cfg, const struct tz *zone, char *const *paths,
                         size_t n, struct raw *raw, struct err *e)
{
    struct job j = {.cfg = cfg, .zone = zone, .raw = raw};
    enum err_code rc = check_combination(&j, e);
    if (!rc)
        rc = start_rows(&j, e);
    if (rc)
        return rc;
    j.ids = intern_new(RAW_SERIES_MAX);
    j.cells = mem_zero(IMPORT_COLUMNS_MAX, sizeof *j.cells);
    for (size_t i = 0; i < n && !rc; i++)
        rc = read_file(&j, paths[i], e);
    if (!rc) {
        note_times(&j);
        const struct tally *out = &raw->report.tally[TALLY_FILTERED];
        if (raw->report.values == 0 && out->count > 0 && out->count == raw->report.rows)
            rc = err_set(e, ERR_MISSING, "no row passes where and metric");
    }
    for (size_t i = 0; i < j.n_map; i++)
        mem_free(j.map[i].series);
    intern_free(j.ids);
    mem_free(j.cells);
    return rc;
}

static const char *const uses[] = {"qps",
                                   "gpu_util",
                                   "gpu_mem_util",
                                   "cpu_util",
                                   "mem_util",
                                   "p50_latency_ms",
                                   "p99_latency_ms",
                                   "queue_len",
                                   "units_ready",
                                   "units_total",
                                   "per_step",
                                   "counter",
                                   "time",
                                   "time_format",
                                   "start",
                                   "delimiter",
                                   "header",
                                   "metric",
                                   "value",
                                   "series",
                                   "where",
                                   "events",
                                   NULL};
const struct importer import_csv = {
    .name = "csv",
    .summary = "delimited text with any columns",
    .uses = uses,
    .run = run,
};
