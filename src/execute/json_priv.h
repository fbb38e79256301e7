/* json_priv.h - optional members of a status, out and in.
 *
 * Out: what is not set is written as null, which a merge patch deletes. In: absent and null leave
 * *out alone; anything else must be right. */
#ifndef EXECUTE_JSON_PRIV_H
#define EXECUTE_JSON_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum { TIME_TEXT = 96 };
void status_time_text(int64_t us,
                      char out[TIME_TEXT]); /* "2026-11-29T12:00:00.000000Z": always six digits */

void put_time(struct json_writer *w, const char *key, int64_t us, bool set);
void put_text(struct json_writer *w, const char *key, const char *s);  /* "" is null */
void put_units(struct json_writer *w, const char *key, int64_t units); /* negative is null */

/* Errors: ERR_PARSE, ERR_RANGE, ERR_LIMIT (text too long) with the path. */
NODISCARD enum err_code get_time(const struct json_doc *doc, const struct json *obj,
                                 const char *key, int64_t *out, struct err *e);
NODISCARD enum err_code get_text(const struct json_doc *doc, const struct json *obj,
                                 const char *key, char *out, size_t size, struct err *e);
NODISCARD enum err_code get_i32(const struct json_doc *doc, const struct json *obj, const char *key,
                                int32_t min, int32_t max, int32_t *out, struct err *e);
NODISCARD enum err_code get_i64(const struct json_doc *doc, const struct json *obj, const char *key,
                                int64_t min, int64_t max, int64_t *out, struct err *e);
NODISCARD enum err_code get_f64(const struct json_doc *doc, const struct json *obj, const char *key,
                                double *out, struct err *e);
NODISCARD enum err_code get_flag(const struct json_doc *doc, const struct json *obj,
                                 const char *key, bool *out, struct err *e);
/* The index of a text in names[n]. */
NODISCARD enum err_code get_name(const struct json_doc *doc, const struct json *obj,
                                 const char *key, const char *const *names, int n, int *out,
                                 struct err *e);
/* NULL when absent or null. */
NODISCARD enum err_code get_object(const struct json_doc *doc, const struct json *obj,
                                   const char *key, const struct json **out, struct err *e);
NODISCARD enum err_code get_array(const struct json_doc *doc, const struct json *obj,
                                  const char *key, const struct json **out, struct err *e);
/* "PATH.key: what" */
enum err_code get_error(const struct json_doc *doc, const struct json *obj, const char *key,
                        enum err_code code, const char *what, struct err *e);

/* Copies text without cutting a character; bytes that are not printable UTF-8 become '?'. */
void text_copy(char *out, size_t size, const char *s);

#endif
