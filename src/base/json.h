/* json.h - JSON in through cJSON, out through a small streaming writer.
 *
 * Reading: the text is scanned first (bytes, depth, UTF-8), so cJSON never recurses into hostile nesting,
 * and duplicate keys, trailing text and invalid UTF-8 are errors.  Getters name the path of what
 * is wrong: "policies[2].name: expected a string".
 * Writing: keys and commas are placed by the writer; numbers read back to the same bits; NaN and
 * infinities become null. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct json; /* a value inside a document; borrowed from its json_doc */
struct json_doc;

enum { JSON_DEPTH_MAX = 64 };
/* Parses n bytes; `name` is used in messages.  Errors: ERR_LIMIT above cap bytes or JSON_DEPTH_MAX,
 * ERR_PARSE with line and column otherwise.  Free with json_free. */
NODISCARD enum err_code json_parse(const char *text, size_t n, size_t cap, const char *name,
                                   struct json_doc **out, struct err *e);
NODISCARD enum err_code json_load(const char *path, size_t cap, struct json_doc **out, struct err *e);
void json_free(struct json_doc *doc);
const struct json *json_root(const struct json_doc *doc);

bool json_is_object(const struct json *v);
bool json_is_array(const struct json *v);
bool json_is_string(const struct json *v);
bool json_is_number(const struct json *v);
bool json_is_null(const struct json *v); /* also for v == NULL */
bool json_is_bool(const struct json *v);
size_t json_count(const struct json *v); /* members or elements */
const struct json *json_first(const struct json *v); /* for (c = json_first(v); c; c = json_next(c)) */
const struct json *json_next(const struct json *v);
const char *json_key(const struct json *v); /* name of a member, NULL for an element */
const struct json *json_find(const struct json *v, const char *key); /* NULL when absent */
const char *json_text(const struct json *v);   /* string value, NULL when not a string */
double json_number(const struct json *v);      /* NaN when not a number */
bool json_is_true(const struct json *v);       /* the boolean true; false for anything else */

/* Required members of an object.  Errors: ERR_MISSING, ERR_PARSE (wrong type), ERR_RANGE; the text holds
 * the path from the root of `doc`. */
NODISCARD enum err_code json_get(const struct json_doc *doc, const struct json *obj, const char *key,
                                 const struct json **out, struct err *e);
NODISCARD enum err_code json_get_str(const struct json_doc *doc, const struct json *obj, const char *key,
                                     const char **out, struct err *e);
NODISCARD enum err_code json_get_f64(const struct json_doc *doc, const struct json *obj, const char *key,
                                     double *out, struct err *e);
/* An integer in [min, max]; at most 2^53 in magnitude, since JSON numbers are doubles here. */
NODISCARD enum err_code json_get_i64(const struct json_doc *doc, const struct json *obj, const char *key,
                                     int64_t min, int64_t max, int64_t *out, struct err *e);
NODISCARD enum err_code json_get_bool(const struct json_doc *doc, const struct json *obj, const char *key,
                                      bool *out, struct err *e);
NODISCARD enum err_code json_get_array(const struct json_doc *doc, const struct json *obj, const char *key,
                                       const struct json **out, struct err *e);
NODISCARD enum err_code json_get_object(const struct json_doc *doc, const struct json *obj,
                                        const char *key, const struct json **out, struct err *e);
/* Path of a value, for own messages: "tasks[3].name". */
void json_path(const struct json_doc *doc, const struct json *v, struct buf *out);

/* Writer over a caller's buffer; indent 0 writes one line.  `key` is NULL inside arrays and at the root.
 * Text that is not UTF-8 has its bad bytes replaced by U+FFFD.  Check with buf_check(w.out). */
struct json_writer {
    struct buf *out;
    int indent;
    int depth;
    uint64_t has_item; /* bit per open level */
    uint64_t is_array;
};
struct json_writer json_writer_init(struct buf *out, int indent);
void json_open(struct json_writer *w, const char *key);       /* { */
void json_close(struct json_writer *w);                       /* } */
void json_open_array(struct json_writer *w, const char *key); /* [ */
void json_close_array(struct json_writer *w);                 /* ] */
void json_put_str(struct json_writer *w, const char *key, const char *s); /* NULL writes null */
void json_put_f64(struct json_writer *w, const char *key, double v);
void json_put_i64(struct json_writer *w, const char *key, int64_t v);
void json_put_u64(struct json_writer *w, const char *key, uint64_t v);
void json_put_bool(struct json_writer *w, const char *key, bool v);
void json_put_null(struct json_writer *w, const char *key);
/* A quoted and escaped string on its own. */
void json_quote(struct buf *out, const char *s, size_t n);

#endif
