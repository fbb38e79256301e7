/* result.h - what a query answered: series of samples in flat arrays, read while the body arrives.
 *
 * A parser is fed the chunks of a body as they come (struct prom_parser) and fills one struct prom_result;
 * nothing else is kept of the text.  A result is reused from query to query without allocating once it has
 * grown.
 *
 *   series[i]   labels [first_label, +n_labels), samples [first, +n)
 *   labels[j]   offsets of two NUL-terminated strings in `text`
 *   samples[k]  time in microseconds since the epoch, value (may be NaN or infinite: the reader of a
 *               field judges it)
 *
 * Refused with ERR_PARSE: anything that is not JSON of the API's shape, duplicate keys (in the answer or in
 * a label set), invalid UTF-8, labels without text, samples that are not [time, "value"].  ERR_LIMIT: past
 * a cap. Unknown keys are skipped, whatever they hold.  Native histograms have no single value: they are
 * counted, and an answer of nothing else is an error of the caller's to report. */
#ifndef PROM_RESULT_H
#define PROM_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum prom_kind { PROM_NONE, PROM_VECTOR, PROM_MATRIX, PROM_SCALAR, PROM_STRING };

struct prom_sample {
    int64_t t_us;
    double v;
};
struct prom_label {
    uint32_t name, value; /* offsets into text */
};
struct prom_series {
    size_t first_label, n_labels;
    size_t first, n;
};

enum { PROM_WARNINGS_MAX = 8, PROM_WARNING_LEN = 256 };

struct prom_result {
    enum prom_kind kind; /* PROM_SCALAR: one series without labels; PROM_STRING: its text is dropped */
    struct prom_series *series;
    struct prom_label *labels;
    struct prom_sample *samples;
    char *text;
    size_t n_series, n_labels, n_samples, n_text;
    size_t size_series, size_labels, size_samples, size_text; /* allocated */
    size_t n_histograms;  /* native histogram samples, not kept */
    uint64_t n_nan, n_inf; /* among samples */
    /* "warnings" (the data may be partial) and "infos" (harmless); the first few of each kind are kept as
     * text. */
    size_t n_warnings, n_infos;
    char warning[PROM_WARNINGS_MAX][PROM_WARNING_LEN];
    size_t n_warning_texts;
    bool failed;                /* "status":"error" ... */
    char error_type[32];        /* "bad_data", "execution", "timeout" ... */
    char error_text[256];
};
struct prom_caps {
    size_t bytes, series, samples, labels; /* labels: of one series */
};
struct prom_caps prom_caps_default(void); /* 512 MiB, 200 000, 20 000 000, 128 */

void prom_result_init(struct prom_result *r);
void prom_result_fini(struct prom_result *r);  /* safe on a zeroed one */
void prom_result_clear(struct prom_result *r); /* keeps the memory */
/* Value of a label; "" when absent, as PromQL has it. */
const char *prom_label(const struct prom_result *r, const struct prom_series *s, const char *name);
/* {a="x",b="y"} for messages, cut to fit. */
void prom_labels_text(const struct prom_result *r, const struct prom_series *s, char *out, size_t size);

/* Fed in pieces of any size, then ended.  After an error every further call returns it again. */
struct prom_parser;
struct prom_parser *prom_parser_new(void);
void prom_parser_free(struct prom_parser *p); /* NULL is fine */
void prom_parser_begin(struct prom_parser *p, const struct prom_caps *caps, struct prom_result *out); /* clears out */
NODISCARD enum err_code prom_parser_feed(struct prom_parser *p, const char *bytes, size_t n, struct err *e);
/* ERR_PARSE when the text ends too early. */
NODISCARD enum err_code prom_parser_end(struct prom_parser *p, struct err *e);
/* All at once. */
NODISCARD enum err_code prom_result_parse(const char *bytes, size_t n, const struct prom_caps *caps,
                                          struct prom_result *out, struct err *e);

#endif
