/* state_priv.h - the whole state of a forecaster: plain memory, fixed size.
 *
 * `origin` remembers what was said at the last 8 points, so that each forecast can be scored, and
 * learnt from, when its time has come: level 0..2 after 1..3 points, level 3 after 6. */
#ifndef FORECAST_STATE_PRIV_H
#define FORECAST_STATE_PRIV_H

#include "forecast/forecaster.h"
#include "forecast/window_priv.h"

enum {
    LEVELS = FORECAST_LEVELS,
    EXPERTS = FORECAST_EXPERTS,
    FEATURES = 24,
    RATES = 3,           /* mixers, from slow to fast forgetting */
    CHOICES = RATES + 1, /* what the last mixer picks from: the mixers, and persistence */
    SCALE_FEATURES = 9,
    SCALE_STRIDE = 16,
    BOUND_EXPERTS = 4,
    BINS = 256,
    PHASES = 12, /* 5-min points of an hour */
    ORIGINS = 8
};
extern const int level_first[LEVELS], level_last[LEVELS]; /* points ahead a level averages */

/* X(id, name) in the order of expert[]. */
#define EXPERT_LIST(X)                                                                             \
    X(RIDGE, "ridge on log load")                                                                  \
    X(LAST, "last point")                                                                          \
    X(LEVEL_3, "mean of about 15 min")                                                             \
    X(LEVEL_10, "mean of about 50 min")                                                            \
    X(LEVEL_33, "mean of about 3 h")                                                               \
    X(SLOT_RATIO, "slot profile x level")                                                          \
    X(DAY_AGO, "yesterday")                                                                        \
    X(WEEK_AGO, "a week ago")                                                                      \
    X(SLOT, "slot profile")                                                                        \
    X(SLOT_ALL, "slot profile of all days")                                                        \
    X(SEASONAL_SLOW, "Holt-Winters, slow level")                                                   \
    X(SEASONAL_FAST, "Holt-Winters, fast level")                                                   \
    X(FIVE_RATIO, "5-min profile x level")                                                         \
    X(DAY_RATIO, "yesterday x level")                                                              \
    X(WEEK_RATIO, "a week ago x level")                                                            \
    X(MEDIAN_6, "median of 30 min")

enum expert {
#define X(id, name) EXPERT_##id,
    EXPERT_LIST(X)
#undef X
};

/* Per level: least absolute deviations by reweighted ridge, in log load over the newest point. */
struct regression {
    float a[FEATURES * FEATURES], b[FEATURES]; /* ridge_priv.h */
    float w[FEATURES], next[FEATURES];         /* in use; fitted, waiting out its 24 h */
    float mad;                                 /* mean |residual| of w */
    float rows;                                /* effective rows in the sums */
    int32_t seen;                              /* rows ever, capped */
    bool has_next;
};

/* ML-Poly (Gaillard, Stoltz & van Erven 2014) with fading: regret and its squares per expert. */
struct mixer {
    float regret[EXPERTS], square[EXPERTS];
};

struct mixing {
    struct mixer rate[RATES];
    float choice_regret[CHOICES], choice_square[CHOICES];
};

/* Smoothed levels and ratios the experts use. */
struct levels {
    float ewma[3], log_ewma[4];
    float slot_ratio, five_ratio, day_ratio, week_ratio;
    float season[2][DAY], season_level[2]; /* Holt-Winters without trend */
    float step;                            /* typical |newest - 50-min mean|: scale of regrets */
};

/* Per level: spread model, distribution of scaled errors, and the tracker that keeps coverage. */
struct interval {
    float fast, slow; /* exponential means of |error| */
    float slot[SLOTS_PER_DAY], phase[PHASES];
    float a[SCALE_FEATURES * SCALE_STRIDE], b[SCALE_STRIDE]; /* log |error| on scale features */
    float w[SCALE_STRIDE];
    bool fitted;
    float rows;
    int32_t seen;
    double mass[BINS], total, weight; /* errors over spread, fading */
    int32_t bin[BOUNDS];              /* where each quantile lies, and the mass below that bin */
    double below[BOUNDS];
    float regret[BOUNDS][BOUND_EXPERTS], square[BOUNDS][BOUND_EXPERTS];
    float shift[BOUNDS]; /* tracker, in spreads */
    float slot_shift[SLOTS_PER_DAY][BOUNDS],
        phase_shift[PHASES][BOUNDS]; /* of the fourth bound expert */
    float inside[BOUNDS];            /* recent share of loads on the inner side */
};

/* What was said of one level at one origin. */
struct said {
    float x[FEATURES];
    float expert[EXPERTS];
    float choice[CHOICES]; /* outputs of the mixers, then persistence */
    float mixed;           /* of the last mixer, before the clamp */
    float disagreement;    /* mean distance of the experts from it, as the slow mixer weighs them */
    float mean;
    float z[SCALE_STRIDE];
    float spread;
    float bound_expert[BOUNDS][BOUND_EXPERTS], bound_mixed[BOUNDS], bound[BOUNDS];
    int16_t slot, phase;
};

struct origin {
    float y, log_y;
    bool fresh;  /* made at a present point */
    bool counts; /* history was long enough to be used */
    struct said said[LEVELS];
};

struct forecaster {
    struct forecast_config cfg;
    struct window window;
    struct levels levels;
    struct regression regression[LEVELS];
    struct mixing mixing[LEVELS];
    struct interval interval[LEVELS];
    struct origin origin[ORIGINS];
    float bin_edge[BINS + 1];
    double loss_own, loss_last; /* fading |error| at 15 min: own, persistence */
    int32_t refit_in;           /* days */
    struct forecast_track track;
    struct forecast now;
};

/* experts.c: levels move on with the newest point; features and experts of an origin. */
void levels_update(struct levels *l, const struct window *w);
void experts_fill(const struct forecaster *f, struct origin *o);
/* Learns from the load that came true; weights move on once a day. */
void regression_learn(struct regression *r, const struct said *s, float target);
void regression_day(struct regression *r, double alpha, bool refit);

/* mixing.c */
void mixing_learn(struct mixing *m, const struct said *s, float load, float scale);
void mixing_fill(const struct mixing *m, struct said *s);
void mixing_shares(const struct mixing *m, float out[EXPERTS]);

/* interval.c */
void interval_init(struct interval *v);
void interval_edges(float edge[BINS + 1]);
void interval_learn(struct interval *v, const struct said *s, float load, float mean_load);
void interval_day(struct interval *v, double alpha);
/* Needs what experts_fill() leaves. */
void interval_fill(const struct forecaster *f, int level, const struct origin *o, struct said *s);

#endif
