/* text.h - the text exposition format: a writer for /metrics, a reader for pages of others.
 *
 * Writer (format 0.0.4): one prom_family() per metric name, then its values.
 *
 *     struct prom_writer w = prom_writer_init(&buf);
 *     prom_family(&w, "sluice_decisions_total", PROM_COUNTER, "Decisions by verdict.");
 *     prom_put(&w, 12, "verdict", "scaled", "target", name, NULL);
 *
 * Names are ours and asserted; help and label values are escaped, bytes that are not UTF-8 become U+FFFD.
 *
 * Reader (0.0.4 and the common part of OpenMetrics 1.0: # UNIT, # EOF, exemplars, times in seconds): one
 * item at a time, no allocation.  Blank lines and comments are skipped; a line that cannot be read is
 * ERR_PARSE with its number. Sources: prometheus.io/docs/instrumenting/exposition_formats, OpenMetrics 1.0. */
#ifndef PROM_TEXT_H
#define PROM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum prom_type { PROM_UNTYPED, PROM_COUNTER, PROM_GAUGE, PROM_HISTOGRAM, PROM_SUMMARY };
#define PROM_TEXT_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* ---- writer ---- */
struct prom_writer {
    struct buf *out;
    const char *name; /* of the family; borrowed until the next one */
    enum prom_type type;
};
struct prom_writer prom_writer_init(struct buf *out);
void prom_family(struct prom_writer *w, const char *name, enum prom_type type, const char *help);
/* label, value, label, value ..., NULL.  A NULL value leaves the label out. */
void prom_put(struct prom_writer *w, double v, ...) __attribute__((sentinel));

/* Observations in buckets; a plain value of fixed size that is never locked here. */
enum { PROM_BUCKETS_MAX = 24 };
struct prom_hist {
    int n;
    double bound[PROM_BUCKETS_MAX]; /* upper, ascending; +Inf is implied */
    uint64_t count[PROM_BUCKETS_MAX + 1]; /* not cumulative */
    double sum;
};
struct prom_hist prom_hist_init(const double *bound, int n);
/* first, first*factor ... */
struct prom_hist prom_hist_exponential(double first, double factor, int n);
void prom_hist_add(struct prom_hist *h, double v);
void prom_put_hist(struct prom_writer *w, const struct prom_hist *h, ...) __attribute__((sentinel));

/* ---- reader ---- */
enum prom_text_kind { PROM_TEXT_END, PROM_TEXT_SAMPLE, PROM_TEXT_HELP, PROM_TEXT_TYPE, PROM_TEXT_UNIT };
enum { PROM_TEXT_LABELS_MAX = 128, PROM_TEXT_SCRATCH = 64 * 1024, PROM_TEXT_LINE_MAX = 1 << 20 };
#define PROM_TEXT_NO_TIME INT64_MIN

struct prom_text_label {
    const char *name, *value; /* NUL-terminated, unescaped */
};
struct prom_text_item {
    enum prom_text_kind kind;
    const char *name;         /* of the metric, NUL-terminated */
    const char *text;         /* help, unit, or the type's name */
    enum prom_type type;      /* of PROM_TEXT_TYPE; OpenMetrics' others are PROM_UNTYPED */
    struct prom_text_label label[PROM_TEXT_LABELS_MAX];
    size_t n_labels;
    double value;             /* may be NaN, infinite */
    int64_t t_us;             /* own time stamp, or PROM_TEXT_NO_TIME */
};
struct prom_text_reader {
    const char *p, *end;
    uint64_t line;
    bool openmetrics;         /* times are seconds, the page ends in # EOF */
    bool ended;
    size_t n_scratch;
    char scratch[PROM_TEXT_SCRATCH]; /* of the current item */
};
void prom_text_open(struct prom_text_reader *r, const char *p, size_t n, bool openmetrics);
/* item->kind is PROM_TEXT_END after the last one; texts are valid until the next call. */
NODISCARD enum err_code prom_text_next(struct prom_text_reader *r, struct prom_text_item *item, struct err *e);
/* "" when absent. */
const char *prom_text_label(const struct prom_text_item *item, const char *name);

#endif
