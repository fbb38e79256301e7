#include "tests/support/rl_file.h"

#include <string.h>

#include "base/mem.h"
#include "nn/safetensors.h"
#include "tests/support/test.h"

enum { BYTES_MAX = 1 << 22 };

static size_t read_all(const char *path, unsigned char *out)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, BYTES_MAX, f);
    (void)fclose(f);
    assert_true(n > 0 && n < BYTES_MAX);
    return n;
}

void assert_same_file(const char *a, const char *b)
{
    unsigned char *x = mem_zero(BYTES_MAX, 1), *y = mem_zero(BYTES_MAX, 1);
    size_t n = read_all(a, x);
    assert_int_equal(read_all(b, y), n);
    assert_memory_equal(x, y, n);
    mem_free(x);
    mem_free(y);
}

void spoil_tensor(const char *path, const char *tensor, unsigned char byte)
{
    static struct st_tensor t[ST_TENSORS_MAX];
    static struct st_meta meta[ST_META_MAX];
    struct st_file *f;
    struct err e;
    unsigned char *bytes = NULL;
    assert_ok(st_open(path, &f, &e), &e);
    for (int i = 0; i < st_count(f); i++) {
        t[i] = *st_at(f, i);
        if (strcmp(t[i].name, tensor) != 0)
            continue;
        bytes = mem_zero(t[i].n_bytes, 1);
        memcpy(bytes, t[i].data, t[i].n_bytes);
        bytes[0] = byte;
        t[i].data = bytes;
    }
    assert_non_null(bytes);
    for (int i = 0; i < st_meta_count(f); i++)
        meta[i] = st_meta_at(f, i);
    assert_ok(st_write(path, t, st_count(f), meta, st_meta_count(f), &e), &e);
    st_free(f);
    mem_free(bytes);
}
