/* import_prometheus.c - saved answers of the Prometheus HTTP API (query_range, or query).
 *
 * Many files (pages, metrics, folders of them) merge: series with the same labels and field are
 * one. Which field a series feeds: qps=page.json ...                  every series in that file
 *   --qps 'http_requests{job="x"}'     series with that name and those labels, in any file
 *   --qps '*'                          every series
 * Several series left for one field are an error that names them, unless `combine` says how to join
 * them (after rates were formed, so that restarts of one pod do not look like a fall of the sum).
 * Stale series simply end in the API's answers.  "Line" numbers in the report count samples of a
 * series. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/json.h"
#include "base/mem.h"
#include "history/import_priv.h"

enum { MATCHERS_MAX = 16, NAME_MAX_BYTES = 256, KEY_MAX = 64 * 1024 };
static const size_t JSON_CAP = (size_t)1 << 30;
static const double TIME_LIMIT_S = 1e11;

struct matcher {
    char label[NAME_MAX_BYTES];
    char value[NAME_MAX_BYTES];
};

struct selector {
    bool given;
    struct matcher m[MATCHERS_MAX];
    size_t n;
};

struct job {
    const struct import_cfg *cfg;
    struct raw *raw;
    struct selector select[FIELD_COUNT];
    struct intern *keys; /* "field{labels}" -> raw series of the same index */
    struct buf key;
    uint32_t file;
    int only; /* field of all series in this file, or -1 */
};

/* ---- selectors ----------------------------------------------------------------------------------
 */

static enum err_code bad_selector(const char *text, struct err *e)
{
    return err_set(e, ERR_USAGE,
                   "\"%.80s\": expected a series selector: *, name, name{label=\"value\"}", text);
}

static enum err_code add_matcher(struct selector *s, const char *label, size_t nl,
                                 const char *value, size_t nv, const char *text, struct err *e)
{
    if (s->n == MATCHERS_MAX || nl == 0 || nl >= NAME_MAX_BYTES || nv >= NAME_MAX_BYTES)
        return bad_selector(text, e);
    struct matcher *m = &s->m[s->n++];
    memcpy(m->label, label, nl);
    m->label[nl] = 0;
    memcpy(m->value, value, nv);
    m->value[nv] = 0;
    return ERR_OK;
}

static enum err_code parse_selector(const char *text, struct selector *s, struct err *e)
{
    const char *at = text;
    s->given = true;
    if (strcmp(text, "*") == 0)
        return ERR_OK;
    size_t n = strcspn(at, "{");
    enum err_code rc = n ? add_matcher(s, "__name__", 8, at, n, text, e) : ERR_OK;
    if (rc || at[n] == 0)
        return rc ? rc : n ? ERR_OK : bad_selector(text, e);
    for (at += n + 1; *at && *at != '}';) {
        at += strspn(at, " ,");
        size_t label = strcspn(at, "=\" ,}");
        const char *value = at + label;
        if (value[0] != '=' || value[1] != '"')
            return bad_selector(text, e);
        value += 2;
        const char *end = strchr(value, '"');
        if (!end)
            return bad_selector(text, e);
        rc = add_matcher(s, at, label, value, (size_t)(end - value), text, e);
        if (rc)
            return rc;
        at = end + 1;
        at += strspn(at, " ");
    }
    return strcmp(at, "}") == 0 ? ERR_OK : bad_selector(text, e);
}

static bool matches(const struct selector *s, const struct json *labels)
{
    for (size_t i = 0; i < s->n; i++) {
        const char *have = json_text(json_find(labels, s->m[i].label));
        if (strcmp(have ? have : "", s->m[i].value) != 0) /* an absent label is an empty one */
            return false;
    }
    return true;
}

static bool wanted(const struct job *j, int f, const struct json *labels)
{
    if (j->only >= 0 && f != j->only)
        return false;
    if (j->select[f].given)
        return matches(&j->select[f], labels);
    return j->only == f;
}

/* ---- samples ------------------------------------------------------------------------------------
 */

static void write_labels(const struct json *labels, struct buf *out)
{
    buf_char(out, '{');
    for (const struct json *l = json_first(labels); l; l = json_next(l)) {
        const char *v = json_text(l);
        buf_fmt(out, "%s%s=\"%s\"", l == json_first(labels) ? "" : ",", json_key(l), v ? v : "");
    }
    buf_char(out, '}');
}

static enum err_code series_of(struct job *j, enum field f, const struct json *labels,
                               size_t *series, struct err *e)
{
    uint32_t id;
    buf_clear(&j->key);
    buf_str(&j->key, field_get(f)->name);
    write_labels(labels, &j->key);
    if (buf_check(&j->key, NULL))
        return err_set(e, ERR_LIMIT, "the labels of a series take more than %zu bytes", j->key.cap);
    enum err_code rc = intern_id(j->keys, j->key.p, j->key.n, &id, e);
    if (rc)
        return rc;
    *series = id;
    if (id < j->raw->n_series)
        return ERR_OK;
    return import_series(j->cfg, j->raw, f, strchr(j->key.p, '{'), series, e);
}

/* [1795955780.5, "12"] */
static enum err_code add_sample(struct job *j, size_t series, const struct json *pair, uint64_t no,
                                struct err *e)
{
    const struct json *at = json_first(pair), *value = at ? json_next(at) : NULL;
    const char *text = value ? json_text(value) : NULL;
    double t = at ? json_number(at) : NAN, v;
    if (!json_is_array(pair) || !text || isnan(t))
        return err_set(e, ERR_PARSE, "a sample is not [time, \"value\"]");
    j->raw->report.rows++;
    if (!(fabs(t) < TIME_LIMIT_S)) {
        raw_tally(j->raw, TALLY_TIME_RANGE, j->file, no);
        return ERR_OK;
    }
    struct csv_cell c = {text, strlen(text)};
    int64_t us = llround(t * 1e6);
    if (us < RAW_TIME_MIN_US || us >= RAW_TIME_MAX_US) {
        raw_tally(j->raw, TALLY_TIME_RANGE, j->file, no);
        return ERR_OK;
    }
    if (!import_number(j->cfg, j->raw, c, j->file, no, &v))
        return raw_missing(j->raw, series, us, j->file, no, e);
    return raw_value(j->raw, series, us, v, j->file, no, e);
}

static enum err_code add_samples(struct job *j, enum field f, const struct json *labels,
                                 const struct json *values, bool one, struct err *e)
{
    size_t series;
    uint64_t no = 0;
    enum err_code rc = series_of(j, f, labels, &series, e);
    if (one)
        return rc ? rc : add_sample(j, series, values, 1, e);
    for (const struct json *p = json_first(values); p && !rc; p = json_next(p))
        rc = add_sample(j, series, p, ++no, e);
    return rc;
}

static enum err_code add_result(struct job *j, const struct json *result, bool one, struct err *e)
{
    const struct json *labels = json_find(result, "metric");
    const struct json *values = json_find(result, one ? "value" : "values");
    bool used = false;
    if (!json_is_object(labels))
        return err_set(e, ERR_PARSE, "a result has no \"metric\" object");
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!wanted(j, f, labels))
            continue;
        used = true;
        if (!values && json_find(result, one ? "histogram" : "histograms"))
            return err_set(e, ERR_PARSE,
                           "native histograms: query a quantile or rate of them instead");
        if (!json_is_array(values))
            return err_set(e, ERR_PARSE, "a result has no \"%s\" array", one ? "value" : "values");
        enum err_code rc = add_samples(j, (enum field)f, labels, values, one, e);
        if (rc)
            return rc;
    }
    if (!used)
        raw_tally(j->raw, TALLY_FILTERED, j->file, 0);
    return ERR_OK;
}

/* ---- documents ----------------------------------------------------------------------------------
 */

static void note_warnings(struct job *j, const struct json *root, const char *key)
{
    const struct json *list = json_find(root, key);
    for (const struct json *w = json_first(list); w; w = json_next(w))
        if (json_text(w))
            report_note(&j->raw->report, "%s in %s: %s", key, j->raw->files[j->file], json_text(w));
}

static enum err_code read_document(struct job *j, const struct json *root, struct err *e)
{
    const char *status = json_text(json_find(root, "status"));
    if (!json_is_object(root) || !status)
        return err_set(e, ERR_PARSE, "not an answer of the Prometheus API (no \"status\")");
    if (strcmp(status, "success") != 0) {
        const char *kind = json_text(json_find(root, "errorType")),
                   *text = json_text(json_find(root, "error"));
        return err_set(e, ERR_PARSE, "the server answered %.60s: %.300s", kind ? kind : status,
                       text ? text : "no text");
    }
    note_warnings(j, root, "warnings");
    note_warnings(j, root, "infos");
    const struct json *data = json_find(root, "data"), *result = json_find(data, "result");
    const char *type = json_text(json_find(data, "resultType"));
    bool one = type && strcmp(type, "vector") == 0;
    if (!type || (!one && strcmp(type, "matrix") != 0))
        return err_set(e, ERR_PARSE, "holds a %.40s, not a matrix (use query_range)",
                       type ? type : "body without resultType");
    if (!json_is_array(result))
        return err_set(e, ERR_PARSE, "\"result\" is not an array");
    for (const struct json *r = json_first(result); r; r = json_next(r)) {
        enum err_code rc = add_result(j, r, one, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err_code read_file(struct job *j, const char *path, struct err *e)
{
    struct json_doc *doc;
    size_t cap = (uint64_t)j->cfg->max_bytes < JSON_CAP ? (size_t)j->cfg->max_bytes : JSON_CAP;
    enum err_code rc = raw_file(j->raw, path, &j->file, e);
    if (!rc)
        rc = json_load(path, cap, &doc, e);
    if (rc)
        return rc;
    rc = read_document(j, json_root(doc), e);
    json_free(doc);
    return rc ? err_wrap(e, "%s", path) : ERR_OK;
}

static bool has_json_name(const struct dirent *d)
{
    const char *dot = strstr(d->d_name, ".json");
    return d->d_name[0] != '.' && dot &&
           (dot[5] == 0 || strcmp(dot + 5, ".gz") == 0 || strcmp(dot + 5, ".zst") == 0);
}

static int json_entry(const struct dirent *d)
{
    return has_json_name(d);
}

static enum err_code read_path(struct job *j, const char *path, struct err *e)
{
    struct dirent **list;
    int n = scandir(path, &list, json_entry, alphasort);
    if (n < 0)
        return read_file(j, path, e);
    enum err_code rc =
        n ? ERR_OK : err_set(e, ERR_MISSING, "%s: no .json file in this folder", path);
    for (int i = 0; i < n; i++) {
        struct buf full = buf_init(16 * 1024);
        buf_fmt(&full, "%s/%s", path, list[i]->d_name);
        if (!rc)
            rc = buf_check(&full, e);
        if (!rc)
            rc = read_file(j, full.p, e);
        buf_fini(&full);
        free(list[i]); /* scandir's own malloc */
    }
    free(list);
    return rc;
}

static enum err_code prepare(struct job *j, char *const *paths, size_t n, struct err *e)
{
    bool any = false;
    for (int f = 0; f < FIELD_COUNT; f++) {
        const char *text = j->cfg->field[f];
        if (text && parse_selector(text, &j->select[f], e))
            return err_wrap(e, "%s", field_get((enum field)f)->name);
        any |= text != NULL;
        if (j->cfg->combine > COMBINE_LAST)
            j->raw->across[f] = import_combine_rule(j->cfg->combine);
    }
    for (size_t i = 0; i < n && !any; i++) {
        int f;
        (void)import_path_field(paths[i], &f);
        if (f < 0)
            return err_set(e, ERR_USAGE,
                           "%s: which field is it? (FIELD=%s, or an option such as qps='*')",
                           paths[i], paths[i]);
    }
    return ERR_OK;
}

static enum err_code run(const struct import_cfg *cfg, const struct tz *zone, char *const *paths,
                         size_t n, struct raw *raw, struct err *e)
{
    struct job *j = mem_zero(1, sizeof *j);
    (void)zone;
    j->cfg = cfg;
    j->raw = raw;
    j->keys = intern_new(RAW_SERIES_MAX);
    j->key = buf_init(KEY_MAX);
    enum err_code rc = prepare(j, paths, n, e);
    for (size_t i = 0; i < n && !rc; i++)
        rc = read_path(j, import_path_field(paths[i], &j->only), e);
    if (!rc)
        rc = import_check_series(cfg, raw, e);
    if (!rc && raw->n_usable == 0 && raw->report.tally[TALLY_FILTERED].count > 0 &&
        raw->n_series == 0)
        rc = err_set(e, ERR_MISSING, "no series matches the selectors");
    intern_free(j->keys);
    buf_fini(&j->key);
    mem_free(j);
    return rc;
}

static const char *const uses[] = {"qps",         "gpu_util",       "gpu_mem_util",   "cpu_util",
                                   "mem_util",    "p50_latency_ms", "p99_latency_ms", "queue_len",
                                   "units_ready", "units_total",    "per_step",       "counter",
                                   NULL};
const struct importer import_prometheus = {
    .name = "prometheus",
    .summary = "saved JSON answers of query_range",
    .uses = uses,
    .run = run,
};
