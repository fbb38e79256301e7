/* prom_answer_fuzz.c - arbitrary bytes as the answer to a query, whole and in pieces: both must agree, and what is accepted
 * must hold together.  The first byte picks the size of the pieces. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "prom/result.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err_code feed(const char *p, size_t n, size_t piece, struct prom_result *r)
{
    struct prom_caps caps = {.bytes = 1 << 20, .series = 1000, .samples = 10000, .labels = 8};
    struct prom_parser *parser = prom_parser_new();
    enum err_code rc = ERR_OK;
    prom_parser_begin(parser, &caps, r);
    for (size_t at = 0; at < n && !rc; at += piece)
        rc = prom_parser_feed(parser, p + at, n - at < piece ? n - at : piece, NULL);
    if (!rc)
        rc = prom_parser_end(parser, NULL);
    prom_parser_free(parser);
    return rc;
}

static void check(const struct prom_result *r)
{
    size_t samples = 0;
    for (size_t i = 0; i < r->n_series; i++) {
        const struct prom_series *s = &r->series[i];
        if (s->first != samples || s->first_label + s->n_labels > r->n_labels)
            abort();
        samples += s->n;
        for (size_t k = s->first_label; k < s->first_label + s->n_labels; k++)
            if (r->labels[k].name >= r->n_text || r->labels[k].value >= r->n_text ||
                utf8_valid_prefix(r->text + r->labels[k].value, strlen(r->text + r->labels[k].value)) !=
                    strlen(r->text + r->labels[k].value))
                abort();
        char text[64];
        prom_labels_text(r, s, text, sizeof text);
    }
    if (samples != r->n_samples)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prom_result whole = {0}, cut = {0};
    if (size < 1)
        return 0;
    const char *p = (const char *)data + 1;
    enum err_code a = feed(p, size - 1, size, &whole), b = feed(p, size - 1, 1 + data[0] % 64, &cut);
    if ((a == ERR_OK) != (b == ERR_OK))
        abort();
    if (a == ERR_OK) {
        check(&whole);
        if (whole.n_samples != cut.n_samples || whole.n_text != cut.n_text ||
            (whole.n_text && memcmp(whole.text, cut.text, whole.n_text) != 0))
            abort();
        for (size_t i = 0; i < whole.n_samples; i++)
            if (memcmp(&whole.samples[i], &cut.samples[i], sizeof whole.samples[i]) != 0)
                abort();
    }
    prom_result_fini(&whole);
    prom_result_fini(&cut);
    return 0;
}
