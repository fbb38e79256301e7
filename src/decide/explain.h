/* explain.h - why a decision came out as it did, in words.
 *
 * Three parts, all from the record: the strongest factors, the guard chain, and what the rule
 * policy would have done.  A factor's weight says how much its feature moved the decision: measured
 * on the policy itself (explain_attribute) or, where there is no function to ask (a rule), read off
 * how far the feature stands from ordinary in the direction of the action (explain_salience). Words
 * are made here only, from tables of formats; nothing is made up that the record does not hold. */
#ifndef DECIDE_EXPLAIN_H
#define DECIDE_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "decide/capacity.h"

enum { EXPLAIN_FACTORS = 3, EXPLAIN_STEPS = 16 };

struct explain_factor {
    enum observation obs;
    float value;  /* of the feature */
    float weight; /* > 0: speaks for more units */
};

/* A policy as a function of the observation: how many units (or how much preference) it wants. */
typedef double explain_score_fn(void *ctx, const float *obs);

/* Integrated gradients (Sundararajan, Taly & Yan 2017) by central differences along the straight
 * path from `baseline` to obs: weight[i] sums to score(obs) - score(baseline) for a smooth score.
 * 2 * CAPACITY_OBS * EXPLAIN_STEPS calls of score.  weight: [CAPACITY_OBS]. */
void explain_attribute(explain_score_fn *score, void *ctx, const float *obs, const float *baseline,
                       float *weight);
/* What score loses when a feature is put back to the baseline, one at a time; CAPACITY_OBS + 1
 * calls.  For scores with steps, which have no gradient. */
void explain_occlusion(explain_score_fn *score, void *ctx, const float *obs, const float *baseline,
                       float *weight);
/* Neutral value of every feature: a baseline when no mean observation is at hand. */
void explain_neutral(float *baseline);
/* Weights without a function to ask: how far each feature stands from ordinary, signed by what it
 * speaks for. */
void explain_salience(const float *obs, float *weight);

/* The strongest three by |weight|, features that say the same thing counted once.  Those that speak
 * against the change made are passed over when at least one speaks for it.  Returns how many. */
int explain_factors(const struct capacity_record *r, const float *weight,
                    struct explain_factor factor[EXPLAIN_FACTORS]);
/* "QPS 1.8x the same-slot median, above its P95" */
void explain_factor_text(const struct capacity_record *r, const struct explain_factor *f, char *buf,
                         size_t n);
/* The three in one line, "; " between.  weight NULL: salience. */
void explain_factors_text(const struct capacity_record *r, const float *weight, char *buf,
                          size_t n);

/* "10 -> 12 units" or "10 units, kept" */
void explain_change_text(const struct capacity_record *r, char *buf, size_t n);
/* "hpa would have gone to 13" or "" */
void explain_rule_text(const struct capacity_record *r, char *buf, size_t n);
/* The check that decided: the last that changed the proposal; NULL when none did. */
const struct guard_result *explain_decisive(const struct capacity_record *r);
/* A line per check; all false: only those that changed the proposal, or "the guard passed it". */
void explain_guard(const struct capacity_record *r, bool all, struct buf *out);
/* Everything, several lines.  weight NULL: salience. */
void explain_decision(const struct capacity_record *r, const float *weight, bool all,
                      struct buf *out);

#endif
