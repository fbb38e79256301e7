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
#include "base/utf8.h"
#include "prom/text.h"

enum {
    VALUE_BYTES = 256,
    KEY_BYTES = METRIC_LABELS_MAX * VALUE_BYTES,
    NAME_BYTES = 32,
    COPY_BYTES = 32 << 20
};

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
static_assert(ARRAY_LEN(bucket_s) <= PROM_BUCKETS_MAX, "buckets");

const char metrics_content_type[] = PROM_TEXT_CONTENT_TYPE;

struct series {
    uint64_t hash;
    char *key;              /* label values, each with its NUL */
    double value;           /* gauge, counter */
    struct prom_hist *hist; /* histogram */
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
        mem_free(f->series[i].hist);
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
    if (f->row->type == METRIC_HISTOGRAM) {
        s->hist = mem_zero(1, sizeof *s->hist);
        *s->hist = prom_hist_init(bucket_s, ARRAY_LEN(bucket_s));
    }
    f->index[probe(f, k)] = ++f->n;
    return s;
}

static void drop(struct family *f, uint32_t i)
{
    mem_free(f->series[i].key);
    mem_free(f->series[i].hist);
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
    ASSERT(m->family[id].row->type == METRIC_HISTOGRAM && isfinite(v));
    lock(m);
    struct series *s = reach(m, id, labels);
    if (s)
        prom_hist_add(s->hist, v);
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

static uint64_t total(const struct prom_hist *h)
{
    uint64_t n = 0;
    for (int i = 0; i <= h->n; i++)
        n += h->count[i];
    return n;
}

double metric_get(struct metrics *m, enum metric_id id, const char *const *labels)
{
    const struct family *f = &m->family[id];
    struct key k;
    make_key(f, labels, &k);
    lock(m);
    const struct series *s = find(f, &k);
    double v = !s ? NAN : s->hist ? (double)total(s->hist) : s->value;
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

/* A family as it stands: per series its value or histogram, then its key.  Copied under the lock,
 * written without it, since writing thousands of lines takes many times as long. */
static void copy_family(struct metrics *m, const struct family *f, struct buf *out)
{
    buf_clear(out);
    lock(m);
    for (uint32_t i = 0; i < f->n; i++) {
        const struct series *s = &f->series[i];
        if (s->hist)
            buf_add(out, s->hist, sizeof *s->hist);
        else
            buf_add(out, &s->value, sizeof s->value);
        buf_add(out, s->key, key_bytes(f, s->key));
    }
    unlock(m);
}

/* One series of a copy; returns where the next begins. */
static const char *put_series(struct prom_writer *w, const struct family *f, const char *at)
{
    struct prom_hist hist;
    double value;
    bool many = f->row->type == METRIC_HISTOGRAM;
    memcpy(many ? (void *)&hist : (void *)&value, at, many ? sizeof hist : sizeof value);
    at += many ? sizeof hist : sizeof value;
    const char *name[METRIC_LABELS_MAX] = {0}, *label[METRIC_LABELS_MAX] = {0};
    for (int i = 0; i < f->n_labels; i++, at += strlen(at) + 1) {
        name[i] = f->label[i];
        label[i] = at;
    }
    if (many)
        prom_put_hist(w, &hist, name[0], label[0], name[1], label[1], name[2], label[2], NULL);
    else
        prom_put(w, value, name[0], label[0], name[1], label[1], name[2], label[2], NULL);
    return at;
}

static const enum prom_type prom_types[] = {
    [METRIC_GAUGE] = PROM_GAUGE,
    [METRIC_COUNTER] = PROM_COUNTER,
    [METRIC_HISTOGRAM] = PROM_HISTOGRAM,
};

void metrics_write(struct metrics *m, struct buf *out)
{
    struct prom_writer w = prom_writer_init(out);
    struct buf copy = buf_init(COPY_BYTES);
    for (int id = 0; id < METRICS; id++) {
        const struct family *f = &m->family[id];
        copy_family(m, f, &copy);
        if (copy.failed)
            out->failed = true; /* half a page would look like series that are gone */
        if (copy.n == 0)
            continue;
        prom_family(&w, f->row->name, prom_types[f->row->type], f->row->help);
        for (const char *at = copy.p; at < copy.p + copy.n;)
            at = put_series(&w, f, at);
    }
    buf_fini(&copy);
}

static const char *type_name(enum metric_type t)
{
    return t == METRIC_GAUGE ? "gauge" : t == METRIC_COUNTER ? "counter" : "histogram";
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
