/* tz_fuzz.c - arbitrary bytes as a TZif file and as a time. */
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/tz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void probe(const struct tz *tz)
{
    for (int64_t year = 1900; year < 2100; year += 7) {
        int64_t us = tz_days((int)year, 3, 29) * US_PER_DAY, a, b;
        int32_t offset_s = tz_offset_s(tz, us);
        if (offset_s < -26 * 3600 || offset_s > 26 * 3600 || tz_from_local(tz, us, &a, &b) > TZ_REPEAT)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e;
    struct tz *tz;
    int64_t us;
    if (tz_parse(data, size, "f", &tz, &e) == ERR_OK) {
        probe(tz);
        tz_free(tz);
    }
    if (tz_parse_time(NULL, (const char *)data, size, &us, NULL, &e) == ERR_OK) {
        char text[TZ_TEXT];
        tz_format_rfc3339(NULL, us, text);
    }
    return 0;
}
