#include "history/import.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "history/clean.h"
#include "history/file.h"
#include "history/import_priv.h"
#include "history/import_rows.h"
#include "history/table.h"

static const struct importer *const importers[] = {&import_csv, &import_prometheus, &import_genai,
                                                   &import_azure_llm};

const char *const import_stamps[] = {"start", "end", NULL};
const char *const import_combines[] = {"auto", "last", "sum", "mean", "max", "min", NULL};
const char *const import_times[] = {"auto", "s", "ms", "us", "ns", "rfc3339", "local", "row", NULL};
const char *const import_delimiters[] = {"auto", "comma", "semicolon", "tab", "pipe", NULL};
const char *const import_headers[] = {"auto", "yes", "no", NULL};
const char *const import_measures[] = {"requests", "prompt_tokens", "output_tokens", "tokens", NULL};

/* The rows want a member to start from. */
struct import_plain {
    struct import_cfg cfg;
};
static const struct opt_row rows[] = {IMPORT_ROWS(struct import_plain, cfg)};

static enum err_code split_field(const char *text, bool want_number, enum field *f, double *k,
                                 struct err *e)
{
    const char *eq = strchr(text, '=');
    char name[64];
    size_t n = eq ? (size_t)(eq - text) : strlen(text);
    if (n >= sizeof name)
        return err_set(e, ERR_USAGE, "\"%.60s\": no such field", text);
    memcpy(name, text, n);
    name[n] = 0;
    int found = field_find(name);
    if (found < 0)
        return err_set(e, ERR_USAGE, "\"%s\": no such field", name);
    if (want_number && (!eq || !num_f64(eq + 1, strlen(eq + 1), k)))
        return err_set(e, ERR_USAGE, "\"%.60s\": expected field=number", text);
    if (!want_number && eq)
        return err_set(e, ERR_USAGE, "\"%.60s\": expected a field", text);
    *f = (enum field)found;
    return ERR_OK;
}

static enum err_code check_fields(const struct opt_strings *list, bool want_number,
                                  const char *option, struct err *e)
{
    for (size_t i = 0; i < list->n; i++) {
        enum field f;
        double k;
        if (split_field(list->items[i], want_number, &f, &k, e))
            return err_wrap(e, "%s", option);
    }
    return ERR_OK;
}

enum err_code import_check(const struct import_cfg *cfg, struct err *e)
{
    enum err_code rc = check_fields(&cfg->scale, true, "scale", e);
    if (!rc)
        rc = check_fields(&cfg->offset, true, "offset", e);
    if (!rc)
        rc = check_fields(&cfg->per_step, false, "per_step", e);
    if (!rc)
        rc = check_fields(&cfg->counter, false, "counter", e);
    return rc;
}

static enum err_code check_table(const void *p, struct err *e)
{
    return import_check(p, e);
}

const struct opt_table import_table = {
    .name = "import",
    .help = "How files become a history.",
    .rows = rows,
    .n = ARRAY_LEN(rows),
    .size = sizeof(struct import_cfg),
    .check = check_table,
};

const char *import_format(size_t i)
{
    return i < ARRAY_LEN(importers) ? importers[i]->name : NULL;
}

const char *import_format_summary(size_t i)
{
    return i < ARRAY_LEN(importers) ? importers[i]->summary : NULL;
}

/* ---- shared by importers ------------------------------------------------------------------------
 */

static bool names_field(const struct opt_strings *list, enum field f)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], field_get(f)->name) == 0)
            return true;
    return false;
}

/* The last entry for f, or dflt. */
static double factor(const struct opt_strings *list, enum field f, double dflt)
{
    for (size_t i = 0; i < list->n; i++) {
        enum field g;
        double k;
        if (!split_field(list->items[i], true, &g, &k, NULL) && g == f)
            dflt = k;
    }
    return dflt;
}

enum err_code import_series(const struct import_cfg *cfg, struct raw *raw, enum field f,
                            const char *label, size_t *index, struct err *e)
{
    enum err_code rc = raw_series_add(raw, f, label, index, e);
    if (rc)
        return rc;
    struct raw_series *s = &raw->series[*index];
    s->scale = factor(&cfg->scale, f, 1);
    s->offset = factor(&cfg->offset, f, 0);
    s->per_step = names_field(&cfg->per_step, f);
    s->counter = names_field(&cfg->counter, f);
    if (s->per_step && s->counter)
        return err_set(e, ERR_USAGE, "%s is either a counter or a count per step",
                       field_get(f)->name);
    return ERR_OK;
}

enum raw_combine import_combine_rule(int combine)
{
    static const enum raw_combine rule[] = {[COMBINE_LAST] = RAW_LAST,
                                            [COMBINE_SUM] = RAW_SUM,
                                            [COMBINE_MEAN] = RAW_MEAN,
                                            [COMBINE_MAX] = RAW_MAX,
                                            [COMBINE_MIN] = RAW_MIN};
    ASSERT(combine > COMBINE_AUTO && (size_t)combine < ARRAY_LEN(rule));
    return rule[combine];
}

/* Where the label sets of a field begin to differ: bytes that all share, back to the last whole pair. */
static size_t shared_part(const struct raw *raw, int f)
{
    const char *first = NULL;
    size_t shared = 0;
    for (size_t i = 0; i < raw->n_series; i++) {
        const char *label = raw->series[i].label;
        if (raw->series[i].field != (enum field)f)
            continue;
        shared = first ? shared : strlen(label);
        first = first ? first : label;
        for (size_t k = 0; k < shared; k++)
            shared = first[k] == label[k] && label[k] ? shared : k;
    }
    while (shared > 0 && first[shared - 1] != ',')
        shared--;
    return shared;
}

enum err_code import_check_series(const struct import_cfg *cfg, const struct raw *raw, struct err *e)
{
    enum { SHOWN = 3 };
    for (int f = 0; f < FIELD_COUNT; f++) {
        struct buf names = buf_init(4096);
        size_t n = 0, shared = shared_part(raw, f);
        for (size_t i = 0; i < raw->n_series; i++) {
            if (raw->series[i].field != (enum field)f)
                continue;
            if (n++ < SHOWN)
                buf_fmt(&names, "%s%s%.110s", n > 1 ? "; " : "", shared ? "..." : "", raw->series[i].label + shared);
        }
        enum err_code rc = ERR_OK;
        if (n > 1 && cfg->combine <= COMBINE_LAST)
            rc = err_set(e, ERR_INVAL,
                         "%s: %zu series (%s%s): select one or give combine, as in --combine sum",
                         field_get((enum field)f)->name, n, names.p, n > SHOWN ? "; ..." : "");
        buf_fini(&names);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static bool is_missing(const struct import_cfg *cfg, struct csv_cell c)
{
    static const char *const markers[] = {"NA", "N/A", "n/a", "null", "NULL", "None", "none", "-"};
    if (c.n == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(markers); i++)
        if (csv_cell_is(c, markers[i]))
            return true;
    for (size_t i = 0; i < cfg->missing.n; i++)
        if (csv_cell_is(c, cfg->missing.items[i]))
            return true;
    return false;
}

/* NaN, infinities and numbers past the range of a double: what strtod knows and num_f64 refuses. */
static bool odd_number(struct raw *raw, struct csv_cell c, uint32_t file, uint64_t line, double *v)
{
    char text[400], *end;
    if (c.n == 0 || c.n >= sizeof text || memchr(c.p, 0, c.n) || c.p[0] == ' ')
        return false;
    memcpy(text, c.p, c.n);
    text[c.n] = 0;
    if (strpbrk(text, "xXpP("))
        return false;
    *v = strtod(text, &end);
    if (*end != 0)
        return false;
    if (!isinf(*v) || strpbrk(text, "nN")) /* "inf", "NaN" */
        return true;
    raw_tally(raw, TALLY_HUGE, file, line); /* 1e999 */
    return false;
}

bool import_number(const struct import_cfg *cfg, struct raw *raw, struct csv_cell c, uint32_t file,
                   uint64_t line, double *v)
{
    if (cfg->missing.n > 0 && is_missing(cfg, c)) { /* a marker may look like a number: -1 */
        raw_tally(raw, TALLY_EMPTY, file, line);
        return false;
    }
    if (num_f64(c.p, c.n, v))
        return true;
    if (is_missing(cfg, c)) {
        raw_tally(raw, TALLY_EMPTY, file, line);
        return false;
    }
    uint64_t huge = raw->report.tally[TALLY_HUGE].count;
    if (odd_number(raw, c, file, line, v))
        return true;
    if (raw->report.tally[TALLY_HUGE].count == huge)
        raw_tally(raw, TALLY_BAD_NUMBER, file, line);
    return false;
}

bool import_time(struct raw *raw, struct time_reader *tr, struct csv_cell c, uint32_t file,
                 uint64_t line, int64_t *us)
{
    switch (time_read(tr, c.p, c.n, us)) {
    case TIME_OK:
        return true;
    case TIME_OK_GAP:
        raw_tally(raw, TALLY_CLOCK_GAP, file, line);
        return true;
    case TIME_OK_REPEAT:
        raw_tally(raw, TALLY_CLOCK_REPEAT, file, line);
        return true;
    case TIME_BAD:
        raw_tally(raw, TALLY_BAD_TIME, file, line);
        return false;
    case TIME_OUT_OF_RANGE:
        raw_tally(raw, TALLY_TIME_RANGE, file, line);
        return false;
    }
    return false;
}

/* Names of columns for a message, as far as they fit; odd bytes become '?'. */
static void list_columns(const struct csv_cell *head, size_t n, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < n && used + 8 < size; i++) {
        int len = (int)(head[i].n < 40 ? head[i].n : 40);
        int got = snprintf(out + used, size - used, "%s%.*s", i ? ", " : "", len, head[i].p);
        used += got > 0 ? (size_t)got : 0;
    }
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            *p = '?';
}

enum err_code import_column(const struct csv_cell *head, size_t n, bool named, const char *name,
                            size_t *index, struct err *e)
{
    uint64_t number;
    char columns[300];
    size_t found = 0;
    for (size_t i = n; i-- > 0 && named;)
        if (csv_cell_is(head[i], name)) {
            *index = i;
            found++;
        }
    if (found > 1)
        return err_set(e, ERR_INVAL, "%zu columns are called \"%.60s\": name one by its number, from 1", found, name);
    if (found == 1)
        return ERR_OK;
    if (num_u64(name, strlen(name), &number) && number >= 1 && number <= n) {
        *index = (size_t)number - 1;
        return ERR_OK;
    }
    list_columns(head, n, columns, sizeof columns);
    return err_set(e, ERR_MISSING, "no column \"%.60s\"; there are: %s%s", name, columns,
                   named ? "" : " (read as data, not as names: see header)");
}

const char *import_path_field(const char *path, int *field)
{
    char name[32];
    size_t n = strcspn(path, "=/");
    *field = -1;
    if (path[n] != '=' || n >= sizeof name)
        return path;
    memcpy(name, path, n);
    name[n] = 0;
    *field = field_find(name);
    return *field >= 0 ? path + n + 1 : path;
}

/* ---- running ------------------------------------------------------------------------------------
 */

static const char *const common[] = {"workload", "task_type", "zone",   "step",    "stamp",
                                     "zero_gap", "scale",     "offset", "missing", "combine",
                                     "max_bad",  "max_bytes", NULL};

static bool in_list(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* An option of another format that differs from its default is a mistake. */
static enum err_code check_uses(const struct importer *im, const struct import_cfg *cfg,
                                struct err *e)
{
    struct import_cfg plain;
    struct buf a = buf_init(1 << 20), b = buf_init(1 << 20);
    enum err_code rc = ERR_OK;
    opt_init(&import_table, &plain);
    for (size_t i = 0; i < ARRAY_LEN(rows) && !rc; i++) {
        if (in_list(common, rows[i].name) || in_list(im->uses, rows[i].name))
            continue;
        buf_clear(&a);
        buf_clear(&b);
        opt_value(&rows[i], cfg, &a);
        opt_value(&rows[i], &plain, &b);
        rc = buf_check(&a, e);
        if (!rc)
            rc = buf_check(&b, e);
        if (rc)
            break;
        if (a.n != b.n || memcmp(a.p, b.p, a.n) != 0)
            rc = err_set(e, ERR_USAGE, "option %s does not apply to format %s", rows[i].name,
                         im->name);
    }
    opt_fini(&import_table, &plain);
    buf_fini(&a);
    buf_fini(&b);
    return rc;
}

static const struct importer *importer_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(importers); i++)
        if (strcmp(importers[i]->name, name) == 0)
            return importers[i];
    return NULL;
}

static enum err_code unknown_format(const char *name, struct err *e)
{
    struct buf list = buf_init(4096);
    for (size_t i = 0; i < ARRAY_LEN(importers); i++)
        buf_fmt(&list, "%s%s", i ? ", " : "", importers[i]->name);
    enum err_code rc = err_set(e, ERR_USAGE, "unknown format \"%.40s\": %s", name, list.p);
    buf_fini(&list);
    return rc;
}

static enum err_code check_wrong(const struct import_cfg *cfg, const struct import_report *r,
                                 struct err *e)
{
    uint64_t wrong = report_wrong(r), of = r->values > r->rows ? r->values : r->rows;
    enum tally_id worst = report_worst(r);
    if (worst == TALLY_COUNT || (double)wrong <= cfg->max_bad_frac * (double)of)
        return ERR_OK;
    const struct tally *t = &r->tally[worst];
    const char *advice = worst == TALLY_ABOVE_ONE    ? "; if it is per cent, scale it by 0.01"
                         : worst == TALLY_BAD_NUMBER ? "; is it the right column?"
                         : worst == TALLY_BAD_TIME   ? "; is it the right time column and format?"
                                                     : "";
    return err_set(e, ERR_RANGE,
                   "%.3g %% of what was read is wrong (max_bad allows %.3g %%); mostly %s (%" PRIu64
                   ", first at %s:%" PRIu64 ")%s",
                   of ? 100 * (double)wrong / (double)of : 100.0, 100 * cfg->max_bad_frac,
                   tally_info(worst)->text, t->count, t->file[0] ? t->file : "line", t->line,
                   advice);
}

/* "data/nasa_jul95_1m.csv.gz" -> "nasa_jul95_1m". */
static void default_workload(const char *path, char *out, size_t size)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t at = n;
    while (at > 0 && path[at - 1] != '/')
        at--;
    size_t len = strcspn(path + at, "./");
    if (len == 0 || at + len > n)
        len = n - at;
    (void)snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), path + at);
}

static enum err_code set_ids(const struct import_cfg *cfg, const char *path, struct history *h,
                             struct err *e)
{
    int ignored;
    if (cfg->workload && strlen(cfg->workload) >= sizeof h->workload_id)
        return err_set(e, ERR_LIMIT, "workload: at most %zu bytes", sizeof h->workload_id - 1);
    if (strlen(cfg->task_type) >= sizeof h->task_type)
        return err_set(e, ERR_LIMIT, "task_type: at most %zu bytes", sizeof h->task_type - 1);
    if (strlen(cfg->zone) >= sizeof h->zone)
        return err_set(e, ERR_LIMIT, "zone: at most %zu bytes", sizeof h->zone - 1);
    if (cfg->workload)
        (void)snprintf(h->workload_id, sizeof h->workload_id, "%s", cfg->workload);
    else
        default_workload(import_path_field(path, &ignored), h->workload_id, sizeof h->workload_id);
    (void)snprintf(h->task_type, sizeof h->task_type, "%s", cfg->task_type);
    (void)snprintf(h->zone, sizeof h->zone, "%s", cfg->zone);
    return ERR_OK;
}

/* Samples are in raw: judged, cleaned, named. */
static enum err_code finish(const struct import_cfg *cfg, int64_t default_step_us, const char *name, struct raw *raw,
                            struct history *out, struct err *e)
{
    struct clean_cfg cc = {.step_us = cfg->step_us ? cfg->step_us : default_step_us,
                           .zero_gap_us = cfg->zero_gap_us,
                           .stamps_end = cfg->stamp == 1};
    enum err_code rc = check_wrong(cfg, &raw->report, e);
    if (!rc)
        rc = clean(&cc, raw, out, e);
    if (rc)
        return rc;
    rc = check_wrong(cfg, &raw->report, e); /* rates and sums can leave the range too */
    if (!rc)
        rc = set_ids(cfg, name, out, e);
    if (rc)
        history_close(out);
    return rc;
}

/* What both kinds of import check first. */
static enum err_code begin(const char *format, const struct import_cfg *cfg, const struct importer **im,
                           struct tz **zone, struct history *out, struct import_report *report, struct err *e)
{
    memset(out, 0, sizeof *out);
    report_init(report);
    *zone = NULL;
    *im = importer_find(format);
    if (!*im)
        return unknown_format(format, e);
    enum err_code rc = check_uses(*im, cfg, e);
    if (!rc)
        rc = import_check(cfg, e);
    if (!rc && strcmp(cfg->zone, "UTC") != 0)
        rc = tz_load(cfg->zone, zone, e);
    return rc;
}

enum err_code import_run(const char *format, const struct import_cfg *cfg, char *const *paths,
                         size_t n_paths, struct history *out, struct import_report *report,
                         struct err *e)
{
    const struct importer *im;
    struct tz *zone;
    struct raw raw;
    enum err_code rc = begin(format, cfg, &im, &zone, out, report, e);
    if (!rc && n_paths == 0)
        rc = err_set(e, ERR_USAGE, "import %s: no file given", format);
    if (rc) {
        tz_free(zone);
        return rc;
    }
    raw_init(&raw);
    rc = im->run(cfg, zone, paths, n_paths, &raw, e);
    if (!rc)
        rc = finish(cfg, im->default_step_us, paths[0], &raw, out, e);
    *report = raw.report;
    raw_fini(&raw);
    tz_free(zone);
    return rc ? err_wrap(e, "import %s", format) : ERR_OK;
}

enum err_code import_live(const char *format, const struct import_cfg *cfg, const char *name,
                          enum err_code (*fill)(void *ctx, struct raw *raw, struct err *e), void *ctx,
                          struct history *out, struct import_report *report, struct err *e)
{
    const struct importer *im;
    struct tz *zone;
    struct raw raw;
    enum err_code rc = begin(format, cfg, &im, &zone, out, report, e);
    tz_free(zone); /* was to be there; samples have absolute times */
    if (rc)
        return rc;
    raw_init(&raw);
    for (int f = 0; f < FIELD_COUNT && cfg->combine > COMBINE_LAST; f++)
        raw.across[f] = import_combine_rule(cfg->combine);
    rc = fill(ctx, &raw, e);
    if (!rc)
        rc = import_check_series(cfg, &raw, e);
    if (!rc)
        rc = finish(cfg, im->default_step_us, name, &raw, out, e);
    *report = raw.report;
    raw_fini(&raw);
    return rc ? err_wrap(e, "import %s", format) : ERR_OK;
}

/* ---- scenarios ----------------------------------------------------------------------------------
 */

#define S struct history_source
static const struct opt_row source_rows[] = {
    OPT_STRING(S, file, "file", NULL, "history file made by `sluice import`"),
    OPT_STRING(S, format, "format", NULL, "import instead: csv, prometheus, genai, azure-llm"),
    OPT_STRINGS(S, paths, "paths", NULL, "files or folders to import"),
    OPT_SUB(S, options, "options", &import_table, "how to import them"),
};
#undef S

static enum err_code check_source(const void *p, struct err *e)
{
    const struct history_source *s = p;
    if (s->file && (s->format || s->paths.n > 0))
        return err_set(e, ERR_INVAL, "give either file, or format and paths");
    if (!s->file && !s->format != (s->paths.n == 0))
        return err_set(e, ERR_INVAL, "give file, or format and paths");
    if (s->format && !importer_find(s->format))
        return unknown_format(s->format, e);
    return ERR_OK;
}

/* A history file is clean already: options beside it would do nothing. */
static enum err_code check_options(const void *p, struct err *e)
{
    const struct history_source *s = p;
    struct import_cfg usual;
    enum err_code rc = check_source(s, e);
    opt_init(&import_table, &usual);
    for (size_t i = 0; s->file && !rc && i < import_table.n; i++) {
        struct buf given = buf_init(1 << 20), standard = buf_init(1 << 20);
        opt_value(&import_table.rows[i], &s->options, &given);
        opt_value(&import_table.rows[i], &usual, &standard);
        if (strcmp(given.p, standard.p) != 0)
            rc = err_set(e, ERR_INVAL, "options.%s goes with format and paths; %s was imported already",
                         import_table.rows[i].name, s->file);
        buf_fini(&given);
        buf_fini(&standard);
    }
    opt_fini(&import_table, &usual);
    return rc;
}

const struct opt_table history_source_table = {
    .name = "history",
    .help = "Where measurements come from.",
    .rows = source_rows,
    .n = ARRAY_LEN(source_rows),
    .size = sizeof(struct history_source),
    .check = check_options,
};

/* file_beside() that keeps a "field=" in front. */
static char *path_beside(const char *near, const char *name)
{
    int f;
    const char *path = import_path_field(name, &f);
    char *full = file_beside(near, path);
    if (f < 0)
        return full;
    struct buf b = buf_init(1 << 20);
    buf_fmt(&b, "%s=%s", field_get((enum field)f)->name, full);
    mem_free(full);
    return buf_take(&b);
}

enum err_code history_load(const struct history_source *s, const char *beside, struct history *out,
                           struct import_report *report, struct err *e)
{
    memset(out, 0, sizeof *out);
    enum err_code rc = check_source(s, e);
    if (!rc && !s->file && !s->format)
        rc = err_set(e, ERR_INVAL, "history: give file, or format and paths");
    if (rc)
        return rc;
    const char *near = beside ? beside : "";
    if (s->file) {
        char *path = file_beside(near, s->file);
        rc = history_open(path, out, report, e);
        mem_free(path);
        return rc;
    }
    char **paths = mem_zero(s->paths.n, sizeof *paths);
    for (size_t i = 0; i < s->paths.n; i++)
        paths[i] = path_beside(near, s->paths.items[i]);
    rc = import_run(s->format, &s->options, paths, s->paths.n, out, report, e);
    for (size_t i = 0; i < s->paths.n; i++)
        mem_free(paths[i]);
    mem_free(paths);
    return rc;
}
