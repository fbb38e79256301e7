/* selector.h - label selectors: the text form, and matchLabels with matchExpressions.
 *
 *     app=web,tier in (a, b),stage!=dev,!canary,gpu        (docs: labels and selectors, "List and
 * watch filtering")
 *
 * Keys and values are held in a text pool, so matching compares pointers.  An empty selector
 * matches everything. */
#ifndef KUBE_SELECTOR_H
#define KUBE_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "kube/text.h"

struct kube_label {
    const char *key, *value; /* pooled */
};

enum { SELECTOR_TERMS_MAX = 64, SELECTOR_VALUES_MAX = 256 };

struct selector;
/* Errors: ERR_PARSE with the place; ERR_LIMIT. */
NODISCARD enum err_code selector_parse(struct text_pool *pool, const char *text,
                                       struct selector **out, struct err *e);
/* {"matchLabels":{...},"matchExpressions":[{"key","operator","values"}]}; NULL or null selects
 * nothing (as in a spec). */
NODISCARD enum err_code selector_from_json(struct text_pool *pool, const struct json *v,
                                           struct selector **out, struct err *e);
void selector_free(struct selector *s); /* NULL is fine */
bool selector_matches(const struct selector *s, const struct kube_label *labels, size_t n);
void selector_format(const struct selector *s, struct buf *out); /* the text form */

#endif
