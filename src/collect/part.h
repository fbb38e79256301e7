/* part.h - the pieces of a long fetch that are there already, in a file that only grows.
 *
 *   "SLUICEP1"
 *   records of    magic 'P','I','E','C'; n_series u32; key u64; first, last, step i64 (us); n_samples u64;
 *                 n_text u64
 *                 per series: length of its label text u32, its samples u32
 *                 label texts, one after the other
 *                 samples: time i64 (us), value f64
 *                 XXH64 of the record from its magic on
 *
 * in the byte order of this machine: the file is a scratch of one import, deleted at its end.  A record
 * that is cut short or damaged (killed while writing, full disk) ends the file: it and what follows is cut
 * off and fetched again. No fsync: losing the tail to a power cut costs a refetch, nothing else.  The file
 * is locked, so two imports cannot share it. */
#ifndef COLLECT_PART_H
#define COLLECT_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "prom/result.h"

struct part;
struct part_piece {
    uint64_t key;        /* of the query and its server */
    int64_t first_us, last_us, step_us; /* both included */
    uint64_t offset;     /* of the record */
};

/* Opens or makes path, reads what it holds.  Errors: ERR_IO (also when another import holds it),
 * ERR_MISMATCH when it is something else. */
NODISCARD enum err_code part_open(const char *path, struct part **out, struct err *e);
void part_close(struct part *p); /* NULL is fine; the file stays unless it holds nothing */
/* The piece of this key and step that covers at_us and reaches furthest; false when there is none. */
bool part_find(const struct part *p, uint64_t key, int64_t step_us, int64_t at_us, struct part_piece *out);
/* Start of the next piece after at_us, INT64_MAX for none. */
int64_t part_next(const struct part *p, uint64_t key, int64_t step_us, int64_t at_us);
/* Appends; label texts are r's, see part_labels(). Errors: ERR_IO. */
NODISCARD enum err_code part_add(struct part *p, const struct part_piece *piece, const struct prom_result *r,
                                 struct err *e);
/* Calls each() for every series of a piece; samples are aligned and borrowed for the call. Errors: ERR_IO,
 * those of each. */
NODISCARD enum err_code part_read(const struct part *p, const struct part_piece *piece,
                                  enum err_code (*each)(void *ctx, const char *labels, size_t n_labels,
                                                        const struct prom_sample *s, size_t n, struct err *e),
                                  void *ctx, struct err *e);
/* {a="x",b="y"}, whole. */
void part_labels(const struct prom_result *r, const struct prom_series *s, struct buf *out);

#endif
