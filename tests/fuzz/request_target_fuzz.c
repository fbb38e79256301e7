/* request_target_fuzz.c - arbitrary bytes as the target of a request: what is accepted has a path,
 * holds no control bytes that were not escaped, and keys and values are whole strings. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/server_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct server_target t;
    struct err e;
    char *uri = mem_zero(size + 1, 1);
    if (size)
        memcpy(uri, data, size);
    if (server_target_parse(uri, &t, &e) == ERR_OK) {
        size_t n = strlen(t.path);
        for (size_t i = 0; i < t.n_params; i++)
            n += strlen(t.param[i].key) + strlen(t.param[i].value);
        if (n > size + 1 || !*t.path || t.n_params > SERVER_QUERY_MAX)
            abort();
    }
    server_target_fini(&t);
    mem_free(uri);
    return 0;
}
