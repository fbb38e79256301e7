/* safetensors.h - reads and writes the safetensors format (named tensors plus a string map).
 *
 * Layout: u64 little-endian header length, JSON header, tensor bytes.  The header maps a name to
 * {"dtype","shape","data_offsets":[begin,end]} and may hold "__metadata__": {string: string}.
 * The reader trusts nothing: caps on size, counts, names and depth; offsets must tile the data
 * without gap or overlap; sizes must match the shapes; F32 and F64 must be finite.
 * The writer puts tensors in the order given, pads the header with spaces to 8 bytes, writes to a
 * temporary in the same folder, fsyncs, renames, fsyncs the folder.  Same content, same bytes.
 * STABLE. */
#ifndef NN_SAFETENSORS_H
#define NN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum st_dtype { ST_F32, ST_F64, ST_I32, ST_I64, ST_U8, ST_U64 };

enum {
    ST_NAME_MAX = 64,
    ST_TENSORS_MAX = 512,
    ST_META_MAX = 128,
    ST_DIMS_MAX = 4,
    ST_HEADER_MAX = 1 << 20, /* bytes */
    ST_FILE_MAX = 1 << 30,   /* bytes */
};

struct st_tensor {
    char name[ST_NAME_MAX];
    enum st_dtype dtype;
    int n_dims;
    int64_t dim[ST_DIMS_MAX];
    const void *data; /* writing: the caller's; reading: inside the file's buffer */
    size_t n_bytes;
};

struct st_meta {
    const char *key, *value;
};

struct st_file; /* an opened file, all in memory */

/* Errors: ERR_IO, ERR_PARSE (says where), ERR_LIMIT, ERR_NUMERIC, ERR_NOMEM.  Free with st_free. */
NODISCARD enum err_code st_open(const char *path, struct st_file **out, struct err *e);
/* Same from memory; bytes are copied. */
NODISCARD enum err_code st_parse(const void *bytes, size_t n, struct st_file **out, struct err *e);
void st_free(struct st_file *f);
int st_count(const struct st_file *f);
const struct st_tensor *st_at(const struct st_file *f, int i);
const struct st_tensor *st_find(const struct st_file *f, const char *name); /* or NULL */
const char *st_meta_get(const struct st_file *f, const char *key);          /* or NULL */
int st_meta_count(const struct st_file *f);
struct st_meta st_meta_at(const struct st_file *f, int i);

NODISCARD enum err_code st_write(const char *path, const struct st_tensor *t, int n_t,
                                 const struct st_meta *meta, int n_meta, struct err *e);
size_t st_dtype_size(enum st_dtype d);

#endif
