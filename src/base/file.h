/* file.h - files in and out: whole, streamed, mapped; gzip and zstd read transparently.
 *
 * Compression is told from the first bytes, never from the name; several gzip members or zstd frames
 * in a row are one stream.  Every read states how many bytes it will take *after* decompression, so a bomb
 * ends in ERR_LIMIT.  Truncated or damaged streams are errors, not short files.
 * Writes are atomic: a temporary in the same folder, fsync, rename, fsync of the folder.  Until
 * the commit the old file is untouched; an abandoned temporary is unlinked. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Whole file into a fresh `out` (buf_init'd here; buf_fini by the caller also after an error).
 * Errors: ERR_IO, ERR_LIMIT above cap, ERR_PARSE for damaged compression. */
NODISCARD enum err_code file_read(const char *path, size_t cap, struct buf *out, struct err *e);

/* Streaming reader.  Lines come as views into the chunk: no allocation per line. */
struct file_reader;
enum { FILE_CHUNK = 256 * 1024, FILE_LINE_MAX = 1 << 20 };
NODISCARD enum err_code file_reader_open(const char *path, uint64_t cap, struct file_reader **out,
                                         struct err *e);
void file_reader_close(struct file_reader *r);
/* Next line without its "\n" or "\r\n"; *line is NULL at the end.  Valid until the next call.  Not
 * NUL-terminated.  Errors: as file_read; a line above FILE_LINE_MAX is ERR_LIMIT. */
NODISCARD enum err_code file_reader_line(struct file_reader *r, const char **line, size_t *n,
                                         struct err *e);
/* Next run of bytes (at most FILE_CHUNK); *n is 0 at the end.  Valid until the next call. */
NODISCARD enum err_code file_reader_chunk(struct file_reader *r, const char **p, size_t *n, struct err *e);
uint64_t file_reader_line_no(const struct file_reader *r); /* of the last line returned, from 1 */
uint64_t file_reader_pos(const struct file_reader *r);     /* bytes consumed of the file as stored */
uint64_t file_reader_size(const struct file_reader *r);    /* of the file as stored; 0 for a pipe */
const char *file_reader_path(const struct file_reader *r);

/* Atomic writer.  open -> write* -> commit; close abandons what was not committed, and frees. */
struct file_writer;
NODISCARD enum err_code file_writer_open(const char *path, struct file_writer **out, struct err *e);
NODISCARD enum err_code file_writer_write(struct file_writer *w, const void *p, size_t n, struct err *e);
NODISCARD enum err_code file_writer_commit(struct file_writer *w, struct err *e);
void file_writer_close(struct file_writer *w); /* NULL is fine */
NODISCARD enum err_code file_write(const char *path, const void *p, size_t n, struct err *e);

/* Whether a write to `path` has a chance: its folder is there and may be written, it is no folder itself.
 * For commands that work long before they write.  Errors: ERR_IO with the reason. */
NODISCARD enum err_code file_check_writable(const char *path, struct err *e);

/* Read-only mapping of a regular file.  An empty file maps to p = NULL, n = 0. */
struct file_map {
    const unsigned char *p;
    size_t n;
};
NODISCARD enum err_code file_map_open(const char *path, size_t cap, struct file_map *out, struct err *e);
void file_map_close(struct file_map *m);

/* `name` as seen from `beside`: absolute names as they are, others in beside's folder.  mem_free. */
char *file_beside(const char *beside, const char *name);
bool file_exists(const char *path);
/* Both name the same regular file. */
bool file_same(const char *a, const char *b);
/* mkdir -p. */
NODISCARD enum err_code file_make_dirs(const char *path, struct err *e);

#endif
