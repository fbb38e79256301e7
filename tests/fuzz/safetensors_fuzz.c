/* Bytes -> safetensors reader -> network and normaliser loader, as a hostile policy file would
 * go. */
#include <stddef.h>
#include <stdint.h>

#include "nn/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct st_file *f;
    struct err e;
    if (st_parse(data, size, &f, &e))
        return 0;
    for (int i = 0; i < st_count(f); i++) {
        const struct st_tensor *t = st_at(f, i);
        const volatile unsigned char *p = t->data;
        for (size_t k = 0; k < t->n_bytes; k++)
            (void)p[k];
    }
    struct nn_net_cfg cfg;
    struct nn_net *net;
    struct rng rng = rng_stream(1, "fuzz");
    if (ckpt_net_cfg(f, &cfg, &e) == ERR_OK && cfg.n_obs <= 64 && cfg.n_hidden <= 64 &&
        nn_net_new(&cfg, &rng, &net, &e) == ERR_OK) {
        struct nn_norm norm;
        nn_norm_init(&norm, cfg.n_obs);
        if (ckpt_load_net(f, net, &e) == ERR_OK)
            (void)!ckpt_load_norm(f, &norm, &e);
        nn_norm_fini(&norm);
        nn_net_free(net);
    }
    st_free(f);
    return 0;
}
