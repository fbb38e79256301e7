/* file_priv.h - the decompressing byte source beneath file_read and file_reader.
 *
 * source_read() hands out the decompressed stream in pieces, whatever the file is stored as. */
#ifndef BASE_FILE_PRIV_H
#define BASE_FILE_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct source;

/* cap: most decompressed bytes ever handed out. */
NODISCARD enum err_code source_open(const char *path, uint64_t cap, struct source **out, struct err *e);
void source_close(struct source *s);
/* Fills up to n bytes; *got is 0 only at the end. */
NODISCARD enum err_code source_read(struct source *s, void *p, size_t n, size_t *got, struct err *e);
uint64_t source_pos(const struct source *s);  /* bytes of the stored file handed to the decoder */
uint64_t source_size(const struct source *s); /* of the stored file, 0 when not a regular file */
const char *source_path(const struct source *s);

#endif
