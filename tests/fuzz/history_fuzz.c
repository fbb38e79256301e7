/* history_fuzz.c - arbitrary bytes as a history file.
 *
 * With an odd first byte the two checksums and the length are made to fit, so that what lies behind
 * them is reached.  What is accepted is inspected, resampled, and must encode to a file that
 * decodes to the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "history/file.h"
#include "history/inspect.h"
#include "history/resample.h"
#include "history/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Offsets of docs/history-file.md. */
enum {
    AT_FILE_BYTES = 16,
    AT_HEADER_HASH = 24,
    AT_START = 32,
    AT_DATA_HASH = 56,
    AT_DATA_OFFSET = 336,
    HEADER = 384
};

static void make_fit(uint8_t *p, size_t n)
{
    uint64_t data_offset, length = n;
    struct history h;
    struct err e;
    if (n < HEADER)
        return;
    memcpy(p + AT_FILE_BYTES, &length, 8);
    memcpy(&data_offset, p + AT_DATA_OFFSET, 8);
    if (data_offset < HEADER || data_offset > n)
        return;
    for (int round = 0; round < 2;
         round++) { /* the data hash lies inside what the header hash covers */
        uint64_t x = hash_of(p + AT_START, data_offset - AT_START);
        memcpy(p + AT_HEADER_HASH, &x, 8);
        (void)history_decode(p, n, &h, NULL, &e);
        if (!h.barred)
            return;
        x = history_hash(&h);
        memcpy(p + AT_DATA_HASH, &x, 8);
    }
}

static void use(const struct history *h)
{
    struct inspect in;
    struct history other;
    struct err e;
    if (history_inspect(h, &in, &e))
        abort();
    if (h->n * h->step_us / (15 * US_PER_S) > 100000)
        return; /* right, but slow under sanitizers */
    if (!history_resample(h, 15 * US_PER_S, &other, &e))
        history_close(&other);
    if (!history_mean(h, 5 * US_PER_MIN, &other, &e))
        history_close(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct history h;
    struct import_report rep;
    struct err e;
    if (size < 1)
        return 0;
    uint8_t *p = try_zero_aligned(size, 1);
    if (!p)
        return 0;
    memcpy(p, data + 1, size - 1);
    if (data[0] & 1)
        make_fit(p, size - 1);
    if (!history_decode(p, size - 1, &h, &rep, &e))
        use(&h);
    mem_free(p);
    return 0;
}
