#include "nn/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

struct st_file {
    struct json_doc *doc; /* names of metadata live here */
    unsigned char *data;  /* aligned copies of the tensors */
    int n, n_meta;
    struct st_tensor *tensor; /* [n] */
    struct st_meta *meta;     /* [n_meta] */
};

/* One tensor as the header states it. */
struct entry {
    struct st_tensor t;
    size_t begin, end;
};

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [ST_F32] = {"F32", 4}, [ST_F64] = {"F64", 8}, [ST_I32] = {"I32", 4},
    [ST_I64] = {"I64", 8}, [ST_U8] = {"U8", 1},   [ST_U64] = {"U64", 8},
};
static const char meta_name[] = "__metadata__";

size_t st_dtype_size(enum st_dtype d)
{
    return dtypes[d].size;
}

/* ---- reading
 * ---------------------------------------------------------------------------------- */

static enum err_code read_dtype(const struct json_doc *doc, const struct json *obj,
                                struct st_tensor *t, struct err *e)
{
    const char *name;
    enum err_code rc = json_get_str(doc, obj, "dtype", &name, e);
    if (rc)
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(dtypes); i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            t->dtype = (enum st_dtype)i;
            return ERR_OK;
        }
    return err_set(e, ERR_PARSE, "%s: dtype \"%.16s\" is not supported", t->name, name);
}

static bool whole_number(const struct json *v, double max, size_t *out)
{
    double x = json_number(v);
    if (!(x >= 0 && x <= max) || x != floor(x))
        return false;
    *out = (size_t)x;
    return true;
}

static enum err_code read_shape(const struct json_doc *doc, const struct json *obj,
                                struct st_tensor *t, struct err *e)
{
    const struct json *shape;
    enum err_code rc = json_get_array(doc, obj, "shape", &shape, e);
    size_t bytes = dtypes[t->dtype].size;
    if (rc)
        return rc;
    for (const struct json *v = json_first(shape); v; v = json_next(v)) {
        size_t dim;
        if (t->n_dims == ST_DIMS_MAX)
            return err_set(e, ERR_LIMIT, "%s: more than %d dimensions", t->name, ST_DIMS_MAX);
        if (!whole_number(v, ST_FILE_MAX, &dim))
            return err_set(e, ERR_PARSE, "%s: dimension %d is not a whole number up to %d", t->name,
                           t->n_dims, ST_FILE_MAX);
        if (!size_mul(bytes, dim, &bytes) || bytes > ST_FILE_MAX)
            return err_set(e, ERR_LIMIT, "%s: larger than %d bytes", t->name, ST_FILE_MAX);
        t->dim[t->n_dims++] = (int64_t)dim;
    }
    t->n_bytes = bytes;
    return ERR_OK;
}

static enum err_code read_offsets(const struct json_doc *doc, const struct json *obj, size_t n_data,
                                  struct entry *out, struct err *e)
{
    const struct json *pair;
    const char *name = out->t.name;
    enum err_code rc = json_get_array(doc, obj, "data_offsets", &pair, e);
    if (rc)
        return rc;
    const struct json *begin = json_first(pair), *end = begin ? json_next(begin) : NULL;
    if (json_count(pair) != 2 || !whole_number(begin, ST_FILE_MAX, &out->begin) ||
        !whole_number(end, ST_FILE_MAX, &out->end))
        return err_set(e, ERR_PARSE, "%s: data_offsets are not two whole numbers", name);
    if (out->begin > out->end || out->end > n_data)
        return err_set(e, ERR_PARSE, "%s: data_offsets [%zu, %zu] leave the %zu bytes of data",
                       name, out->begin, out->end, n_data);
    if (out->end - out->begin != out->t.n_bytes)
        return err_set(e, ERR_PARSE, "%s: %zu bytes of data for a shape of %zu", name,
                       out->end - out->begin, out->t.n_bytes);
    return ERR_OK;
}

static enum err_code read_entry(const struct json_doc *doc, const struct json *obj, size_t n_data,
                                struct entry *out, struct err *e)
{
    const char *name = json_key(obj);
    if (strlen(name) >= ST_NAME_MAX)
        return err_set(e, ERR_LIMIT, "tensor name \"%.32s...\" is longer than %d bytes", name,
                       ST_NAME_MAX - 1);
    if (!json_is_object(obj))
        return err_set(e, ERR_PARSE, "%s: expected an object", name);
    (void)snprintf(out->t.name, sizeof out->t.name, "%s", name);
    enum err_code rc = read_dtype(doc, obj, &out->t, e);
    if (rc == ERR_OK)
        rc = read_shape(doc, obj, &out->t, e);
    if (rc == ERR_OK)
        rc = read_offsets(doc, obj, n_data, out, e);
    return rc;
}

static int by_begin(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Sorted by offset, the tensors must cover the data exactly. */
static enum err_code check_tiling(const struct entry *entry, int n, size_t n_data, struct err *e)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (entry[i].begin != at)
            return err_set(
                e, ERR_PARSE, "%s: data begins at %zu, %s %zu", entry[i].t.name, entry[i].begin,
                entry[i].begin < at ? "overlapping the tensor that ends at" : "after a gap from",
                at);
        at = entry[i].end;
    }
    if (at != n_data)
        return err_set(e, ERR_PARSE, "%zu bytes follow the last tensor", n_data - at);
    return ERR_OK;
}

static enum err_code check_finite(const struct st_tensor *t, struct err *e)
{
    size_t n = t->n_bytes / dtypes[t->dtype].size;
    for (size_t i = 0; i < n && (t->dtype == ST_F32 || t->dtype == ST_F64); i++) {
        double x =
            t->dtype == ST_F32 ? (double)((const float *)t->data)[i] : ((const double *)t->data)[i];
        if (!isfinite(x))
            return err_set(e, ERR_NUMERIC, "%s: value %zu is not finite", t->name, i);
    }
    return ERR_OK;
}

static size_t aligned_size(size_t n)
{
    return (n + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
}

static enum err_code copy_tensors(struct st_file *f, const struct entry *entry, int n,
                                  const unsigned char *data, struct err *e)
{
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += aligned_size(entry[i].t.n_bytes);
    f->data = try_zero_aligned(total, 1);
    f->tensor = try_zero((size_t)n, sizeof *f->tensor);
    if (!f->data || !f->tensor)
        return err_set(e, ERR_NOMEM, "%zu bytes of tensors", total);
    unsigned char *to = f->data;
    for (int i = 0; i < n; i++) {
        const struct st_tensor *t = &entry[i].t;
        if (t->n_bytes)
            memcpy(to, data + entry[i].begin, t->n_bytes);
        f->tensor[i] = *t;
        f->tensor[i].data = to;
        f->n = i + 1;
        to += aligned_size(t->n_bytes);
        enum err_code rc = check_finite(&f->tensor[i], e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err_code read_meta(struct st_file *f, const struct json *obj, struct err *e)
{
    if (!json_is_object(obj))
        return err_set(e, ERR_PARSE, "%s: expected an object", meta_name);
    if (json_count(obj) > ST_META_MAX)
        return err_set(e, ERR_LIMIT, "%s: more than %d keys", meta_name, ST_META_MAX);
    f->meta = try_zero(json_count(obj), sizeof *f->meta);
    if (!f->meta)
        return err_set(e, ERR_NOMEM, "metadata");
    for (const struct json *v = json_first(obj); v; v = json_next(v)) {
        if (!json_is_string(v))
            return err_set(e, ERR_PARSE, "%s.%.64s: expected a string", meta_name, json_key(v));
        f->meta[f->n_meta++] = (struct st_meta){json_key(v), json_text(v)};
    }
    return ERR_OK;
}

static enum err_code read_header(struct st_file *f, const unsigned char *data, size_t n_data,
                                 struct err *e)
{
    const struct json *root = json_root(f->doc);
    size_t n_keys = json_count(root);
    int n = 0;
    enum err_code rc = ERR_OK;
    if (!json_is_object(root))
        return err_set(e, ERR_PARSE, "header: expected an object");
    if (n_keys > ST_TENSORS_MAX)
        return err_set(e, ERR_LIMIT, "more than %d tensors", ST_TENSORS_MAX);
    struct entry *entry = try_zero(n_keys, sizeof *entry);
    if (!entry)
        return err_set(e, ERR_NOMEM, "header");
    for (const struct json *v = json_first(root); v && rc == ERR_OK; v = json_next(v)) {
        if (strcmp(json_key(v), meta_name) == 0)
            rc = read_meta(f, v, e);
        else
            rc = read_entry(f->doc, v, n_data, &entry[n++], e);
    }
    if (rc == ERR_OK) {
        qsort(entry, (size_t)n, sizeof *entry, by_begin);
        rc = check_tiling(entry, n, n_data, e);
    }
    if (rc == ERR_OK)
        rc = copy_tensors(f, entry, n, data, e);
    mem_free(entry);
    return rc;
}

static uint64_t read_le64(const unsigned char *p)
{
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

enum err_code st_parse(const void *bytes, size_t n, struct st_file **out, struct err *e)
{
    const unsigned char *p = bytes;
    *out = NULL;
    if (n < 8)
        return err_set(e, ERR_PARSE, "%zu bytes are too few for a safetensors file", n);
    uint64_t header = read_le64(p);
    if (header > ST_HEADER_MAX)
        return err_set(e, ERR_LIMIT, "header of %" PRIu64 " bytes is above %d", header,
                       ST_HEADER_MAX);
    if (header > n - 8)
        return err_set(e, ERR_PARSE, "header of %" PRIu64 " bytes in a file of %zu", header, n);
    struct st_file *f = mem_zero(1, sizeof *f);
    enum err_code rc =
        json_parse((const char *)p + 8, (size_t)header, ST_HEADER_MAX, "header", &f->doc, e);
    if (rc == ERR_OK)
        rc = read_header(f, p + 8 + header, n - 8 - (size_t)header, e);
    if (rc) {
        st_free(f);
        return rc;
    }
    *out = f;
    return ERR_OK;
}

enum err_code st_open(const char *path, struct st_file **out, struct err *e)
{
    struct file_map map;
    *out = NULL;
    enum err_code rc = file_map_open(path, ST_FILE_MAX, &map, e);
    if (rc)
        return rc;
    rc = st_parse(map.p, map.n, out, e);
    if (rc)
        (void)err_wrap(e, "%s", path);
    file_map_close(&map);
    return rc;
}

void st_free(struct st_file *f)
{
    if (!f)
        return;
    if (f->doc)
        json_free(f->doc);
    mem_free(f->data);
    mem_free(f->tensor);
    mem_free(f->meta);
    mem_free(f);
}

int st_count(const struct st_file *f)
{
    return f->n;
}

const struct st_tensor *st_at(const struct st_file *f, int i)
{
    return &f->tensor[i];
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->tensor[i].name, name) == 0)
            return &f->tensor[i];
    return NULL;
}

int st_meta_count(const struct st_file *f)
{
    return f->n_meta;
}

struct st_meta st_meta_at(const struct st_file *f, int i)
{
    return f->meta[i];
}

const char *st_meta_get(const struct st_file *f, const char *key)
{
    for (int i = 0; i < f->n_meta; i++)
        if (strcmp(f->meta[i].key, key) == 0)
            return f->meta[i].value;
    return NULL;
}

/* ---- writing
 * ---------------------------------------------------------------------------------- */

static void put_tensor(struct json_writer *w, const struct st_tensor *t, size_t begin)
{
    json_open(w, t->name);
    json_put_str(w, "dtype", dtypes[t->dtype].name);
    json_open_array(w, "shape");
    for (int d = 0; d < t->n_dims; d++)
        json_put_i64(w, NULL, t->dim[d]);
    json_close_array(w);
    json_open_array(w, "data_offsets");
    json_put_u64(w, NULL, begin);
    json_put_u64(w, NULL, begin + t->n_bytes);
    json_close_array(w);
    json_close(w);
}

static enum err_code build_header(const struct st_tensor *t, int n_t, const struct st_meta *meta,
                                  int n_meta, struct buf *out, struct err *e)
{
    struct json_writer w = json_writer_init(out, 0);
    size_t at = 0;
    json_open(&w, NULL);
    json_open(&w, meta_name);
    for (int i = 0; i < n_meta; i++)
        json_put_str(&w, meta[i].key, meta[i].value);
    json_close(&w);
    for (int i = 0; i < n_t; i++) {
        enum err_code rc = check_finite(&t[i], e);
        if (rc)
            return rc;
        put_tensor(&w, &t[i], at);
        at += t[i].n_bytes;
    }
    json_close(&w);
    buf_pad(out, ' ', (8 - out->n % 8) % 8);
    if (at > ST_FILE_MAX - ST_HEADER_MAX)
        return err_set(e, ERR_LIMIT, "%zu bytes of tensors", at);
    return buf_check(out, e);
}

static enum err_code write_all(struct file_writer *w, const struct buf *header,
                               const struct st_tensor *t, int n_t, struct err *e)
{
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)header->n >> (8 * i));
    enum err_code rc = file_writer_write(w, size, sizeof size, e);
    if (rc == ERR_OK)
        rc = file_writer_write(w, header->p, header->n, e);
    for (int i = 0; i < n_t && rc == ERR_OK; i++)
        if (t[i].n_bytes)
            rc = file_writer_write(w, t[i].data, t[i].n_bytes, e);
    return rc ? rc : file_writer_commit(w, e);
}

enum err_code st_write(const char *path, const struct st_tensor *t, int n_t,
                       const struct st_meta *meta, int n_meta, struct err *e)
{
    struct buf header = buf_init(ST_HEADER_MAX);
    struct file_writer *w = NULL;
    if (n_t > ST_TENSORS_MAX - 1 || n_meta > ST_META_MAX)
        return err_set(e, ERR_LIMIT, "%s: %d tensors and %d metadata keys are above %d and %d",
                       path, n_t, n_meta, ST_TENSORS_MAX - 1, ST_META_MAX);
    enum err_code rc = build_header(t, n_t, meta, n_meta, &header, e);
    if (rc) {
        (void)err_wrap(e, "%s", path);
        goto out;
    }
    rc = file_writer_open(path, &w, e);
    if (rc == ERR_OK)
        rc = write_all(w, &header, t, n_t, e);
out:
    file_writer_close(w);
    buf_fini(&header);
    return rc;
}
