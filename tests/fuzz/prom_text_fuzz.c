/* prom_text_fuzz.c - arbitrary bytes as an exposition page; what was read is written again and must read back the same. The
 * first byte says whether it is OpenMetrics. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "prom/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct page {
    struct prom_text_reader reader;
    struct prom_text_item item;
};

/* A sample through the writer and back; at most two labels, as the writer takes a fixed list. */
static void check_sample(const struct prom_text_item *x, struct page *again)
{
    struct buf b = buf_init(1 << 20);
    struct prom_writer w = prom_writer_init(&b);
    prom_family(&w, x->name, PROM_GAUGE, "Help.");
    prom_put(&w, x->value, x->n_labels > 0 ? x->label[0].name : NULL, x->n_labels > 0 ? x->label[0].value : NULL,
             x->n_labels > 1 ? x->label[1].name : NULL, x->n_labels > 1 ? x->label[1].value : NULL, NULL);
    prom_text_open(&again->reader, b.p, b.n, false);
    for (int i = 0; i < 3; i++)
        if (prom_text_next(&again->reader, &again->item, NULL))
            abort();
    const struct prom_text_item *y = &again->item;
    size_t n = x->n_labels < 2 ? x->n_labels : 2;
    bool same = strcmp(y->name, x->name) == 0 && y->n_labels == n &&
                (memcmp(&y->value, &x->value, sizeof y->value) == 0 || (x->value != x->value && y->value != y->value));
    for (size_t i = 0; i < n && same; i++)
        same = strcmp(y->label[i].name, x->label[i].name) == 0 && strcmp(y->label[i].value, x->label[i].value) == 0;
    if (!same)
        abort();
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct page *p = mem_zero(1, sizeof *p), *again = mem_zero(1, sizeof *again);
    prom_text_open(&p->reader, (const char *)data + 1, size - 1, data[0] % 2);
    for (int i = 0; i < 10000; i++) {
        if (prom_text_next(&p->reader, &p->item, NULL) || p->item.kind == PROM_TEXT_END)
            break;
        if (p->item.kind == PROM_TEXT_SAMPLE)
            check_sample(&p->item, again);
    }
    mem_free(p);
    mem_free(again);
    return 0;
}
