/* kube_text_fuzz.c - arbitrary bytes as a label selector (text and object), a quantity, and a
 * Status. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "kube/client.h"
#include "kube/quantity.h"
#include "kube/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A selector that was accepted prints as one that means the same. */
static void round_trip(struct text_pool *pool, struct selector *s)
{
    struct buf first = buf_init(1 << 20), second = buf_init(1 << 20);
    struct selector *again;
    selector_format(s, &first);
    if (selector_parse(pool, first.p, &again, NULL) != ERR_OK)
        abort();
    selector_format(again, &second);
    if (strcmp(first.p, second.p) != 0)
        abort();
    selector_free(again);
    buf_fini(&first);
    buf_fini(&second);
}

static void as_selector(const char *text, size_t n)
{
    struct text_pool *pool = text_pool_new();
    struct kube_label label = {.key = text_hold(pool, "app", 3),
                               .value = text_hold(pool, "web", 3)};
    struct selector *s;
    struct json_doc *doc;
    struct err e;
    if (selector_parse(pool, text, &s, &e) == ERR_OK) {
        (void)selector_matches(s, &label, 1);
        round_trip(pool, s);
        selector_free(s);
    }
    if (json_parse(text, n, 1 << 16, "s", &doc, NULL) == ERR_OK) {
        if (selector_from_json(pool, json_root(doc), &s, &e) == ERR_OK) {
            (void)selector_matches(s, &label, 1);
            selector_free(s);
        }
        json_free(doc);
    }
    text_drop(pool, label.key);
    text_drop(pool, label.value);
    if (text_count(pool))
        abort();
    text_pool_free(pool);
}

static void as_status(const char *text, size_t n)
{
    static const char *const types[] = {"application/json", "text/plain"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct kube_status s;
        kube_status_decode(409, types[i], text, n, &s);
        if (s.http != 409 || !s.reason[0] || strpbrk(s.message, "\n\r\033"))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_zero(size + 1, 1);
    int64_t milli, whole;
    memcpy(text, data, size);
    as_selector(text, size);
    as_status(text, size);
    if (quantity_parse(text, 1000, &milli, NULL) == ERR_OK &&
        (quantity_parse(text, 1, &whole, NULL) != ERR_OK || (milli > 0) != (whole > 0)))
        abort();
    mem_free(text);
    return 0;
}
