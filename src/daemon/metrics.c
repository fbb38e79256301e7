/* metrics.c - series by label values.
 *
 * A family keeps its series in one array, in the order they came; an open-addressing index of at
 * least twice their number finds one by the hash of its label values, which are kept as one block
 * "prod\0chat\0ready\0". Dropping moves the last series into the hole and builds the index anew:
 * targets come and go rarely. */
#include "daemon/metrics.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

enum { VALUE_BYTES = 256, KEY_BYTES = METRIC_LABELS_MAX * VALUE_BYTES, NAME_BYTES = 32 };

struct metric_row {
    const char *name;
    enum metric_type type;
    const char *labels;
    uint32_t most;
    const char *help;
};
static const struct metric_row rows[METRICS] = {
#define X(id, name, type, labels, most, help)                                                      \
    [METRIC_##id] = {name, METRIC_##type, labels, most, help},
    METRIC_LIST(X)
#undef X
};

/* Upper ends in seconds; +Inf follows. */
static const double bucket_s[] = {.001, .0025, .005, .01, .025, .05, .1,
                                  .25,  .5,    1,    2.5, 5,    10,  30};
enum { BUCKETS = ARRAY_LEN(bucket_s) };
static_assert((int)BUCKETS < (int)METRIC_BUCKETS_MAX, "room for +Inf");

const char metrics_content_type[] = "text/plain; version=0.0.4; charset=utf-8";

struct series {
    uint64_t hash;
    char *key;       /* label values, each with its NUL */
    double value;    /* gauge, counter; histogram: sum */
    uint64_t *count; /* histogram: [BUCKETS + 1], not cumulative */
};

struct family {
    const struct metric_row *row;
    int n_labels;
    char label[METRIC_LABELS_MAX][NAME_BYTES];
    struct series *series;
    uint32_t n, max;
    uint32_t *index; /* series + 1, 0: empty; [n_index], a power of two */
    uint32_t n_index;
};

struct metrics {
    pthread_mutex_t lock;
    struct family family[METRICS];
};

struct key {
    uint64_t hash;
    size_t n;
    char text[KEY_BYTES];
};

static void lock(struct metrics *m)
{
    ASSERT(pthread_mutex_lock(&m->lock) == 0);
}

static void unlock(struct metrics *m)
{
    ASSERT(pthread_mutex_unlock(&m->lock) == 0);
}

const char *metric_name(enum metric_id id)
{
    return rows[id].name;
}

/* ---- families ----------------------------------------------------------------------------------
 */

static void split_labels(struct family *f)
{
    for (const char *at = f->row->labels; *at;) {
        size_t n = strcspn(at, " ");
        ASSERT(f->n_labels < METRIC_LABELS_MAX && n < NAME_BYTES);
        memcpy(f->label[f->n_labels], at, n);
        f->label[f->n_labels++][n] = '\0';
        at += n + (at[n] == ' ');
    }
}

static void family_fini(struct family *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        mem_free(f->series[i].key);
        mem_free(f->series[i].count);
    }
    mem_free(f->series);
    mem_free(f->index);
}

static void make_key(const struct family *f, const char *const *labels, struct key *k)
{
    k->n = 0;
    k->text[0] = '\0';
    for (int i = 0; i < f->n_labels; i++) {
        ASSERT(labels && labels[i]);
        size_t n = strnlen(labels[i], VALUE_BYTES - 1);
        memcpy(k->text + k->n, labels[i], n);
        k->text[k->n + n] = '\0';
        utf8_make_plain(k->text + k->n);
        k->n += n + 1;
    }
    k->hash = hash_of(k->text, k->n);
}

static size_t key_bytes(const struct family *f, const char *key)
{
    const char *at = key;
    for (int i = 0; i < f->n_labels; i++)
        at += strlen(at) + 1;
    return (size_t)(at - key);
}

/* Where a series is, or the empty place where it would be; n_index > n. */
static uint32_t probe(const struct family *f, const struct key *k)
{
    uint32_t mask = f->n_index - 1, at = (uint32_t)k->hash & mask;
    for (; f->index[at]; at = (at + 1) & mask) {
        const struct series *s = &f->series[f->index[at] - 1];
        if (s->hash == k->hash && key_bytes(f, s->key) == k->n &&
            memcmp(s->key, k->text, k->n) == 0)
            break;
    }
    return at;
}

static void build_index(struct family *f)
{
    memset(f->index, 0, f->n_index * sizeof *f->index);
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t at = (uint32_t)f->series[i].hash & (f->n_index - 1);
        while (f->index[at])
            at = (at + 1) & (f->n_index - 1);
        f->index[at] = i + 1;
    }
}

static void grow(struct family *f)
{
    f->max = f->max ? 2 * f->max : 4;
    f->series = mem_grow(f->series, f->max, sizeof *f->series);
    f->n_index = 2 * f->max;
    f->index = mem_grow(f->index, f->n_index, sizeof *f->index);
    build_index(f);
}

static struct series *find(const struct family *f, const struct key *k)
{
    uint32_t at = f->n_index ? f->index[probe(f, k)] : 0;
    return at ? &f->series[at - 1] : NULL;
}

static struct series *add(struct family *f, const struct key *k)
{
    if (f->n == f->row->most)
        return NULL;
    if (f->n == f->max)
        grow(f);
    struct series *s = &f->series[f->n];
    *s = (struct series){.hash = k->hash, .key = mem_zero(k->n + 1, 1)};
    memcpy(s->key, k->text, k->n);
    if (f->row->type == METRIC_HISTOGRAM)
        s->count = mem_zero(BUCKETS + 1, sizeof *s->count);
    f->index[probe(f, k)] = ++f->n;
    return s;
}

static void drop(struct family *f, uint32_t i)
{
    mem_free(f->series[i].key);
    mem_free(f->series[i].count);
    f->series[i] = f->series[--f->n];
}

/* ---- setting -----------------------------------------------------------------------------------
 */

static void count_refused(struct metrics *m, const char *name)
{
    struct family *f = &m->family[METRIC_REFUSED];
    struct key k;
    make_key(f, METRIC_LABELS(name), &k);
    struct series *s = find(f, &k);
    if (!s)
        s = add(f, &k);
    if (s)
        s->value++;
}

/* The series, made if need be; NULL when the metric is full, which is counted. */
static struct series *reach(struct metrics *m, enum metric_id id, const char *const *labels)
{
    struct family *f = &m->family[id];
    struct key k;
    make_key(f, labels, &k);
    struct series *s = find(f, &k);
    if (!s)
        s = add(f, &k);
    if (!s)
        count_refused(m, f->row->name);
    return s;
}

void metric_set(struct metrics *m, enum metric_id id, double value, const char *const *labels)
{
    struct family *f = &m->family[id];
    ASSERT(f->row->type == METRIC_GAUGE);
    lock(m);
    if (isnan(value)) {
        struct key k;
        make_key(f, labels, &k);
        struct series *s = find(f, &k);
        if (s) {
            drop(f, (uint32_t)(s - f->series));
            build_index(f);
        }
    } else {
        struct series *s = reach(m, id, labels);
        if (s)
            s->value = value;
    }
    unlock(m);
}

void metric_add(struct metrics *m, enum metric_id id, double by, const char *const *labels)
{
    ASSERT(m->family[id].row->type == METRIC_COUNTER && by >= 0);
    lock(m);
    struct series *s = reach(m, id, labels);
    if (s)
        s->value += by;
    unlock(m);
}

void metric_observe(struct metrics *m, enum metric_id id, double v, const char *const *labels)
{
    int bucket = 0;
    ASSERT(m->family[id].row->type == METRIC_HISTOGRAM && isfinite(v));
    while (bucket < (int)BUCKETS && v > bucket_s[bucket])
        bucket++;
    lock(m);
    struct series *s = reach(m, id, labels);
    if (s) {
        s->count[bucket]++;
        s->value += v;
    }
    unlock(m);
}

static bool of_target(const struct series *s, const char *ns, const char *target)
{
    return strcmp(s->key, ns) == 0 && strcmp(s->key + strlen(s->key) + 1, target) == 0;
}

void metrics_drop_target(struct metrics *m, const char *ns, const char *target)
{
    lock(m);
    for (int id = 0; id < METRICS; id++) {
        struct family *f = &m->family[id];
        uint32_t before = f->n;
        if (strncmp(f->row->labels, "namespace target", 16) != 0)
            continue;
        for (uint32_t i = f->n; i-- > 0;)
            if (of_target(&f->series[i], ns, target))
                drop(f, i);
        if (f->n != before)
            build_index(f);
    }
    unlock(m);
}

void metrics_drop(struct metrics *m, enum metric_id id)
{
    struct family *f = &m->family[id];
    lock(m);
    while (f->n)
        drop(f, f->n - 1);
    if (f->n_index)
        build_index(f);
    unlock(m);
}

static uint64_t total(const struct series *s)
{
    uint64_t n = 0;
    for (int i = 0; i <= (int)BUCKETS; i++)
        n += s->count[i];
    return n;
}

double metric_get(struct metrics *m, enum metric_id id, const char *const *labels)
{
    const struct family *f = &m->family[id];
    struct key k;
    make_key(f, labels, &k);
    lock(m);
    const struct series *s = find(f, &k);
    double v = !s ? NAN : s->count ? (double)total(s) : s->value;
    unlock(m);
    return v;
}

struct metrics *metrics_new(void)
{
    struct metrics *m = mem_zero(1, sizeof *m);
    ASSERT(pthread_mutex_init(&m->lock, NULL) == 0);
    for (int id = 0; id < METRICS; id++) {
        struct family *f = &m->family[id];
        f->row = &rows[id];
        split_labels(f);
        if (f->n_labels == 0 &&
            f->row->type != METRIC_GAUGE) /* starts at 0, so that rates see the first event */
            (void)reach(m, (enum metric_id)id, NULL);
    }
    metric_set(m, METRIC_BUILD_INFO, 1,
               METRIC_LABELS(build_version(), build_commit(), build_isa()));
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    for (int id = 0; id < METRICS; id++)
        family_fini(&m->family[id]);
    (void)pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

/* ---- the page ----------------------------------------------------------------------------------
 */

static void put_escaped(struct buf *out, const char *s, bool quotes)
{
    for (; *s; s++) {
        if (*s == '\n')
            buf_str(out, "\\n");
        else if (*s == '\\' || (quotes && *s == '"'))
            buf_fmt(out, "\\%c", *s);
        else
            buf_char(out, *s);
    }
}

static void put_value(struct buf *out, double v)
{
    char text[NUM_TEXT];
    if (isinf(v))
        buf_str(out, v > 0 ? " +Inf\n" : " -Inf\n");
    else
        buf_fmt(out, " %s\n", num_format(v, text));
}

/* "name_suffix{a="x",le="0.1"}" */
static void put_series(struct buf *out, const struct family *f, const struct series *s,
                       const char *suffix, const char *le)
{
    const char *value = s->key;
    buf_str(out, f->row->name);
    buf_str(out, suffix);
    if (!f->n_labels && !le)
        return;
    buf_char(out, '{');
    for (int i = 0; i < f->n_labels; i++, value += strlen(value) + 1) {
        buf_fmt(out, "%s%s=\"", i ? "," : "", f->label[i]);
        put_escaped(out, value, true);
        buf_char(out, '"');
    }
    if (le)
        buf_fmt(out, "%sle=\"%s\"", f->n_labels ? "," : "", le);
    buf_char(out, '}');
}

static void put_histogram(struct buf *out, const struct family *f, const struct series *s)
{
    char le[NUM_TEXT];
    uint64_t n = 0;
    for (int i = 0; i <= (int)BUCKETS; i++) {
        n += s->count[i];
        put_series(out, f, s, "_bucket", i < (int)BUCKETS ? num_format(bucket_s[i], le) : "+Inf");
        put_value(out, (double)n);
    }
    put_series(out, f, s, "_sum", NULL);
    put_value(out, s->value);
    put_series(out, f, s, "_count", NULL);
    put_value(out, (double)n);
}

static const char *type_name(enum metric_type t)
{
    return t == METRIC_GAUGE ? "gauge" : t == METRIC_COUNTER ? "counter" : "histogram";
}

static void put_family(struct buf *out, const struct family *f)
{
    if (f->n == 0)
        return;
    buf_fmt(out, "# HELP %s ", f->row->name);
    put_escaped(out, f->row->help, false);
    buf_fmt(out, "\n# TYPE %s %s\n", f->row->name, type_name(f->row->type));
    for (uint32_t i = 0; i < f->n; i++) {
        const struct series *s = &f->series[i];
        if (s->count) {
            put_histogram(out, f, s);
            continue;
        }
        put_series(out, f, s, "", NULL);
        put_value(out, s->value);
    }
}

void metrics_write(struct metrics *m, struct buf *out)
{
    for (int id = 0; id < METRICS; id++) {
        lock(m);
        put_family(out, &m->family[id]);
        unlock(m);
    }
}

void metrics_write_markdown(struct buf *out)
{
    buf_str(out,
            "# Metrics of the daemon\n\nServed at `/metrics`. Made from the table in "
            "`src/daemon/metrics.h` by `sluice metrics`. A series that is\n"
            "missing means *not known*, never 0. `most` is the largest number of series; more are "
            "refused and counted in\n`sluice_metrics_refused_total`.\n\n"
            "| name | type | labels | most | meaning |\n|---|---|---|---|---|\n");
    for (int id = 0; id < METRICS; id++) {
        const struct metric_row *r = &rows[id];
        buf_fmt(out, "| `%s` | %s | %s%s%s | %u | %s |\n", r->name, type_name(r->type),
                *r->labels ? "`" : "", r->labels, *r->labels ? "`" : "", r->most, r->help);
    }
}
