/* checkpoint.h - networks and normalisers in and out of safetensors files, and checks on what is
 * loaded.
 *
 * A file holds the parameters under their table names, "norm.count|mean|m2|hist", and whatever an
 * algorithm adds ("ppo.*", "dqn.*").  Metadata "nn.*" describes the network; "nn.isa" and
 * "nn.version" the build. STABLE; other algorithms may use it. */
#ifndef NN_CHECKPOINT_H
#define NN_CHECKPOINT_H

#include <stddef.h>

#include "base/err.h"
#include "nn/net.h"
#include "nn/norm.h"
#include "nn/safetensors.h"

/* Collects borrowed tensors and formatted metadata, then writes them. */
struct ckpt_out {
    int n, n_meta;
    struct st_tensor tensor[ST_TENSORS_MAX];
    struct st_meta meta[ST_META_MAX]; /* values owned */
};
struct ckpt_out *ckpt_out_new(void);
void ckpt_out_free(struct ckpt_out *c);
/* A vector of n values; data must live until the write. */
void ckpt_add(struct ckpt_out *c, const char *name, enum st_dtype dtype, const void *data,
              size_t n);
void ckpt_meta(struct ckpt_out *c, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Parameters and the nn.* metadata. */
void ckpt_add_net(struct ckpt_out *c, const struct nn_net *net);
/* count must live until the write: it is the normaliser's. */
void ckpt_add_norm(struct ckpt_out *c, const struct nn_norm *norm);
NODISCARD enum err_code ckpt_write(const struct ckpt_out *c, const char *path, struct err *e);

/* Every pair must be in the file with that value.  Errors: ERR_MISMATCH with key, wanted and found
 * value. */
NODISCARD enum err_code ckpt_expect(const struct st_file *f, const struct st_meta *pairs, int n,
                                    struct err *e);
/* Copies a tensor of exactly this type and number of values.  Errors: ERR_MISMATCH. */
NODISCARD enum err_code ckpt_copy(const struct st_file *f, const char *name, enum st_dtype dtype,
                                  void *out, size_t n, struct err *e);
/* The network's configuration as the metadata gives it.  Errors: ERR_MISSING, ERR_PARSE,
 * ERR_RANGE. */
NODISCARD enum err_code ckpt_net_cfg(const struct st_file *f, struct nn_net_cfg *out,
                                     struct err *e);
/* Values of all parameters; shapes must match, and "nn.hash" where the file has one. */
NODISCARD enum err_code ckpt_load_net(const struct st_file *f, struct nn_net *net, struct err *e);
NODISCARD enum err_code ckpt_load_norm(const struct st_file *f, struct nn_norm *norm,
                                       struct err *e);

#endif
