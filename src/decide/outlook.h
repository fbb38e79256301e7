/* outlook.h - a learned distribution of demand over the next half hour, and the size that follows from it.
 *
 * The network answers, for each of six windows ahead, how demand at one step of the window will stand to
 * the level now: probabilities of 32 bins of log(demand / level).  It is fitted by cross-entropy on the
 * training days (train/outlook.h), so it knows what no fixed interval can: that this service bursts on the
 * hour, that it is nervous today, that this slot usually rises.
 *
 * The plan is the newsvendor's (Arrow, Harris & Marschak 1951) with a rate limit.  A unit-step costs 1, a
 * violated step costs lambda, so window w wants
 *
 *     n_w = argmin over n of   n + lambda * P(demand of the window needs more than n units)
 *
 * which accepts a larger risk where covering it is dear.  The guard lets only `up` units be added per 5
 * minutes, so what window w wants in w periods must stand at n_w - w * up now:
 *
 *     plan = max over w of (n_w - w * up),    held for hold_us before units go.
 *
 * A burst that cannot be seen coming is missed while units start, whatever stands ready for its later minutes; so the
 * later windows count with a share `ahead` of lambda, calibrated like lambda itself.
 *
 * lambda follows the error budget: it is multiplied by exp(gain * (recent misses / allowed misses - 1)), in
 * bounds, so that a service that drifts away from its training days still keeps its target in the long run.
 *
 * Everything is relative to the level, so one network fits any scale of demand.  Windows, bins and features are
 * part of the layout hash kept in checkpoints. */
#ifndef DECIDE_OUTLOOK_H
#define DECIDE_OUTLOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/capacity.h"
#include "model/latency.h"

struct nn_net;
struct nn_ws;

enum {
    OUTLOOK_VERSION = 3,
    OUTLOOK_WINDOWS = 6,
    OUTLOOK_BINS = 32,
    OUTLOOK_OUTPUTS = OUTLOOK_WINDOWS * OUTLOOK_BINS,
    OUTLOOK_FEATURES = 32,
};

/* Windows in seconds ahead of the newest step: (edge[w], edge[w + 1]].  The first spans the start-up, the rest
 * five minutes each, so window w + 1 lies one rate-limit period behind window w. */
extern const int outlook_edge_s[OUTLOOK_WINDOWS + 1];

/* Bin of log(demand / level); fine in the middle, coarse outside, the outer two open. */
int outlook_bin(float demand, float level);

uint64_t outlook_layout_hash(void);

/* What observing remembers; plain memory.  Loads in units' worth of full use, so the scale is the service's. */
struct outlook_state {
    int64_t observed_us;   /* of the newest step used; INT64_MIN before the first */
    float mean[4];         /* exponential means over 45 s, 2 min, 10 min, 1 h */
    float peak[2];         /* decaying maxima over 1 h, 6 h */
    float spread;          /* mean squared log deviation from mean[1], 1 h */
    float profile_ratio;   /* mean over 15 min of demand / same-slot median */
    float misses;          /* decaying fraction of steps over target, the error budget's clock */
    int32_t steps;         /* observed, saturating: starts averages and the budget gently */
};

void outlook_state_init(struct outlook_state *s);
/* Moves the state to view.now_us.  A missing load leaves the averages as they are. */
void outlook_observe(struct outlook_state *s, const struct capacity_spec *spec,
                     const struct capacity_view *view);
/* The level that bins are relative to, requests/s; > 0. */
float outlook_level(const struct outlook_state *s, const struct capacity_spec *spec);
/* features: [OUTLOOK_FEATURES]. */
void outlook_features(const struct outlook_state *s, const struct capacity_spec *spec,
                      const struct capacity_view *view, float *features);

struct outlook_cfg {
    double lambda;       /* unit-steps that one violated step costs */
    double budget_gain;  /* how strongly lambda follows the error budget; 0: not at all */
    double budget_limit; /* allowed fraction of violated steps */
    int up_units;        /* units the guard lets be added in 5 min; 0: no such limit */
};

/* tail[w][b] = P(demand of window w lies above bin b), from the network's logits [OUTLOOK_OUTPUTS]. */
void outlook_tails(const float *logits, float tail[OUTLOOK_WINDOWS][OUTLOOK_BINS]);
/* lambda after the error budget. */
double outlook_lambda(const struct outlook_state *s, const struct outlook_cfg *cfg);
/* Sizes to choose among, with the place of the demand each serves on the scale of the bins. */
enum { OUTLOOK_SIZES_MAX = 96 };
struct outlook_sizes {
    int n;
    int units[OUTLOOK_SIZES_MAX];  /* ascending */
    int8_t bin[OUTLOOK_SIZES_MAX]; /* of the most demand that size serves within target */
    float above[OUTLOOK_SIZES_MAX]; /* share of that bin that lies above it */
};
void outlook_sizes_fill(struct outlook_sizes *s, const struct capacity_spec *spec, float level);
/* Units wanted by each window; the windows after the first count with `ahead` times lambda. */
void outlook_wants(const float tail[OUTLOOK_WINDOWS][OUTLOOK_BINS], const struct outlook_sizes *s, double lambda,
                   double ahead, int wants[OUTLOOK_WINDOWS]);
/* The size to have now, given what the guard would let be added later. */
int outlook_plan(const int wants[OUTLOOK_WINDOWS], const struct outlook_cfg *cfg);

/* A fitted network with its own scratch: one per thread. */
struct outlook {
    struct nn_net *net;
    struct nn_ws *ws;
};
NODISCARD enum err_code outlook_new(uint64_t seed, struct outlook *out, struct err *e);
void outlook_fini(struct outlook *o);
/* A copy for another thread. */
NODISCARD enum err_code outlook_copy(const struct outlook *from, struct outlook *out, struct err *e);
/* logits of n feature rows; n = 1 live.  Allocates nothing. */
void outlook_logits(const struct outlook *o, const float *features, int n, float *logits);

#endif
