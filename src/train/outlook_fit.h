/* outlook_fit.h - fits the demand distribution of decide/outlook.h on the training part of a world.
 *
 * Samples are (features at step t, bin of the demand at one random step of each window ahead), over several noise
 * seeds; the loss is the cross-entropy of the six windows.  How long to train and how much to decay the weights
 * is chosen on the last fifth of the training days, a day apart from what was fitted; then the network is
 * fitted anew on all of them.  Barred steps are neither samples nor targets.
 * Deterministic: candidates are independent, sums run in row order. */
#ifndef TRAIN_OUTLOOK_FIT_H
#define TRAIN_OUTLOOK_FIT_H

#include "base/err.h"
#include "base/thread.h"
#include "decide/outlook.h"
#include "train/world.h"

struct outlook_fit_opts {
    int64_t samples;   /* of the longest candidate */
    int batch;
    double lr;
    uint64_t seed;
    /* Tells how many of about `total` samples are behind it, from any thread; or NULL. */
    void (*at)(void *arg, int64_t done, int64_t total);
    void *at_arg;
};
struct outlook_fit_opts outlook_fit_opts_default(void);

struct outlook_fit_report {
    double train_nats, valid_nats; /* mean cross-entropy per window of the chosen candidate */
    double uniform_nats;           /* of knowing nothing: log(bins) */
    int64_t samples;               /* of the final fit */
    double weight_decay;
    int32_t valid_from;            /* first step of the validation part */
};

/* chance: [n] seeds.  tail_out (may have net NULL): the candidate fitted without the validation part, for
 * calibrating what depends on unseen days; both are released with outlook_fini.
 * Errors: ERR_RANGE for fewer than two training days, ERR_NUMERIC, ERR_INTERRUPTED. */
NODISCARD enum err_code outlook_fit(const struct world *w, struct chance *const *chance, int n,
                                    const struct outlook_fit_opts *o, struct thread_pool *pool,
                                    struct outlook *out, struct outlook *held_out,
                                    struct outlook_fit_report *report, struct err *e);

#endif
