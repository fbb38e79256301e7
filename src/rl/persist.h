/* persist.h - what the trainers beside PPO keep alike: a table of configuration fields and a
 * checkpoint frame.
 *
 * A file holds the policy (nn/checkpoint.h), "adam.m" and "adam.v" in the layout of the parameter
 * table, "env.state", the environment's own bytes, and whatever the algorithm adds.  Metadata
 * "<algorithm>.<field>" for every field of the configuration, "<algorithm>.resumable", and the
 * caller's provenance. */
#ifndef RL_PERSIST_H
#define RL_PERSIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "nn/checkpoint.h"
#include "rl/venv.h"

enum rl_kind { RL_INT, RL_I64, RL_U64, RL_FLOAT, RL_BOOL };
struct rl_field {
    const char *name;
    enum rl_kind kind;
    size_t offset;
    double min, max;
};

/* Errors: ERR_RANGE naming the field. */
NODISCARD enum err_code rl_fields_check(const struct rl_field *f, int n, const void *cfg,
                                        struct err *e);

/* Everything borrowed. */
struct rl_frame {
    const char *algorithm; /* "dqn": prefix of our metadata */
    const struct rl_field *field;
    int n_fields;
    const void *cfg;
    const struct rl_venv *venv;
    struct nn_net *net;
    struct nn_norm *norm;
};

/* Adds what all files hold to c.  *env receives bytes c refers to: mem_free it after the write.
 * Errors: ERR_INVAL for a caller's key that is ours, ERR_LIMIT for too many, ERR_NOMEM. */
NODISCARD enum err_code rl_frame_add(const struct rl_frame *k, const struct st_meta *meta,
                                     int n_meta, bool resumable, struct ckpt_out *c,
                                     unsigned char **env, struct err *e);
/* Checks that the file continues this configuration on this build, then restores network,
 * normaliser and moments.  Errors: ERR_MISMATCH naming what differs. */
NODISCARD enum err_code rl_frame_load(const struct rl_frame *k, const struct st_file *f,
                                      const struct st_meta *expect, int n_expect, struct err *e);
/* Gives "env.state" back to the environment.  Errors: ERR_MISMATCH, ERR_INVAL, the environment's
 * own. */
NODISCARD enum err_code rl_frame_load_env(const struct rl_frame *k, const struct st_file *f,
                                          struct err *e);

#endif
