/* outlook_calibrate.h - the options of the outlook's plan, from runs on days its network has not seen.
 *
 * Misses fall as lambda rises, so lambda is found by bisection for each of a grid of (ahead, hold, hysteresis); the
 * cheapest combination within the misses and the reversals is kept.  A general optimiser finds worse settings with as
 * many runs: three of the options trade against each other along the edge of the constraint.
 * Combinations are independent and run in parallel; the result does not depend on the threads. */
#ifndef TRAIN_OUTLOOK_CALIBRATE_H
#define TRAIN_OUTLOOK_CALIBRATE_H

#include "train/tune.h"

/* o: stretch, seeds, target, reversals_max, guarded, outlook (the fit to calibrate, required) and start, whose other options
 * stay; the error budget is off during the runs.  out: the setting found with its figures.
 * Errors: those of running; ERR_INTERRUPTED. */
int64_t outlook_calibrate_runs(void); /* how often o's tick will be called */
NODISCARD enum err_code outlook_calibrate(const struct world *w, struct chance *const *chance, int n_chances,
                                          const struct tune_opts *o, struct thread_pool *pool,
                                          struct tune_point *out, struct err *e);

#endif
