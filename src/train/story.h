/* story.h - an evaluation told as a report: fills report/html.h from what evaluate and training found. */
#ifndef TRAIN_STORY_H
#define TRAIN_STORY_H

#include "base/err.h"
#include "train/evaluate.h"
#include "train/learn.h"

/* Runs the shown policies once more under the first seed to draw them over time, picks decisions of the proposal and
 * explains them, and writes one self-contained page.  learning: the run just made, or NULL: the curve a policy file holds.
 * Errors: those of running and of writing. */
NODISCARD enum err_code story_write(const struct world *w, const struct evaluate_result *r,
                                    const struct learn_report *learning, uint64_t seed, const char *path,
                                    struct err *e);

#endif
