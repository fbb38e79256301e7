/* learned.h - a learned capacity policy as a file: networks, options, and where they come from.
 *
 * One safetensors file holds the demand network ("outlook.params"), the policy network with its normaliser and
 * training state (written by rl/), and as metadata: which policy, its options and its base's, the layouts
 * of what the networks see, the scenario, the data and the span trained on, seed, version and ISA.
 * Loading refuses another layout, or weights that are not those written ("outlook.hash", "nn.hash"), and says what
 * differs. */
#ifndef TRAIN_LEARNED_H
#define TRAIN_LEARNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "decide/capacity.h"
#include "nn/policy.h"
#include "nn/safetensors.h"
#include "train/world.h"

struct learned {
    struct policy_use main, base; /* base.policy NULL without one */
    struct outlook outlook;       /* net NULL without one */
    struct nn_policy *net;        /* NULL unless ppo */
    uint64_t data_hash;           /* of the demand trained on */
    int64_t train_from_us, train_to_us;
    char scenario[64];
    bool interrupted;             /* the run that wrote it is not finished: the policy is not what it was to become */
};

/* Errors: ERR_IO, ERR_PARSE, ERR_MISMATCH (key, wanted, found), ERR_MISSING for a file that is no capacity policy. */
NODISCARD enum err_code learned_load(const char *path, struct learned *out, struct err *e);
void learned_fini(struct learned *l);
/* What was told while a policy learned by trial: *n rows of {environment steps, cost per hour, fraction of steps over
 * target}, freed by the caller; none in other files.  Errors: those of reading; ERR_MISMATCH for another shape. */
enum { LEARNED_CURVE_COLUMNS = 3 };
NODISCARD enum err_code learned_curve_load(const char *path, double **rows, size_t *n, struct err *e);
/* As it is written; rows are borrowed. */
struct st_tensor learned_curve_tensor(const double *rows, size_t n);
/* Points cfg at the policies and networks.  They belong to one thread: load the file once per thread. */
void learned_apply(struct learned *l, struct capacity_config *cfg);

/* Metadata and extra tensors for a checkpoint of this policy trained in this world; freed by learned_meta_fini. */
enum { LEARNED_META_MAX = 48 };
struct learned_meta {
    int n;
    struct st_meta meta[LEARNED_META_MAX];
    struct st_tensor extra; /* outlook parameters; n_bytes 0 without */
};
void learned_meta_init(struct learned_meta *m, const struct world *w, const struct policy_use *main,
                       const struct policy_use *base, const struct outlook *outlook, uint64_t seed);
void learned_meta_fini(struct learned_meta *m);

#endif
