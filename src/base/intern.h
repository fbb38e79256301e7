/* intern.h - strings to small ids: 0, 1, 2 ... in order of first appearance.
 *
 * Open addressing over hash_of(); ids and names stay valid until intern_free().  Holds at most the
 * given number of strings: outside data names workloads, tasks and nodes.  One thread writes. */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct intern;
#define INTERN_NONE UINT32_MAX

struct intern *intern_new(uint32_t max);
void intern_free(struct intern *in);
/* Id of the n bytes at s, added when new.  Errors: ERR_LIMIT past max, ERR_NOMEM. */
NODISCARD enum err_code intern_id(struct intern *in, const char *s, size_t n, uint32_t *id, struct err *e);
uint32_t intern_find(const struct intern *in, const char *s, size_t n); /* INTERN_NONE when absent */
const char *intern_name(const struct intern *in, uint32_t id);          /* NUL-terminated */
uint32_t intern_count(const struct intern *in);

#endif
