/* policy.h - one interface for all capacity policies, and the options and memory of each.
 *
 * A policy proposes an absolute number of units; the guard, if it runs, decides what is executed.
 * A new policy is one file, one member in each union and one row in the table of policy.c. Options
 * are rows of a base/opt.h table over the policy's own struct; rows that `tune` may search are
 * listed with a range.  Memory is plain, of fixed size, and lives in struct capacity_state. */
#ifndef DECIDE_POLICY_H
#define DECIDE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "base/rng.h"
#include "decide/outlook.h"
#include "model/capacity.h"

struct capacity_config;
struct capacity_state;

enum { CAPACITY_ACTIONS = 7, CAPACITY_ACTION_HOLD = 3 }; /* -3 .. +3 steps */

/* ---- options ------------------------------------------------------------------------------------
 */
struct static_options {
    int64_t units; /* 0: units_max */
};

struct threshold_options {
    double cpu_frac, gpu_frac, queue, low_frac;
    int64_t step_units, wait_us; /* after an action */
};

enum hpa_select { HPA_SELECT_MAX, HPA_SELECT_MIN, HPA_SELECT_DISABLED };

struct hpa_options {
    double gpu_target_frac, cpu_target_frac; /* 0: not used */
    double unit_qps;      /* AverageValue target, requests/s per unit; 0: not used */
    double unit_qps_frac; /* the same as a fraction of what one unit serves within target; 0: not
                             used */
    double tolerance;
    int64_t up_window_us, down_window_us;
    int64_t up_percent, up_percent_us, up_pods, up_pods_us; /* 0 percent or pods: no such policy */
    int64_t down_percent, down_percent_us, down_pods, down_pods_us;
    enum hpa_select up_select, down_select;
};

struct queue_options {
    double queue_per_unit; /* queueLength target */
    double activation;     /* queue at or under which the scaler is inactive */
    int64_t cooldown_us;   /* inactive for this long before going to the minimum */
    int64_t down_window_us;
};

struct predictive_options {
    double target_frac; /* planned use of the capacity within target */
    double quantile;    /* 0.5 mean .. 0.9 upper end of the 80 % interval */
    int64_t down_window_us;
};

struct mpc_options {
    double lambda; /* price of one missed step, in unit-steps: the trade of cost against misses */
    double keep; /* times lambda: the price when planning scale-in */
    double margin; /* added to the expected demand before its spread */
    double spread; /* multiplies the measured spread of the prediction */
    double trust;  /* 0: newest level only .. 1: level times the forecast's shape */
    double hour_trust;    /* 0 .. 1: minute-of-the-hour pattern of the prediction's errors */
    int64_t lead_us;      /* 0: start-up plus two steps */
    int64_t horizon_us;   /* units stay if demand expected within it needs them */
    int64_t smooth_us;    /* time constant of the level */
    int64_t hold_us;      /* the plan must be lower for this long before units go */
    double deadband_frac; /* smallest scale-in, of the current size */
};

struct foresight_options {
    double margin;
    int64_t down_window_us;
};

struct outlook_options {
    double lambda;      /* price of one violated step, in unit-steps */
    int64_t hold_us;    /* the plan must be lower for this long before units go */
    double ahead;       /* share of lambda in the windows after the first */
    double hysteresis;  /* units go only to what hysteresis x lambda still wants */
    double budget_gain; /* how strongly lambda follows the error budget */
    double calm;        /* reversals a day to stay within; 0: whatever comes */
};

enum ppo_base { PPO_BASE_NONE, PPO_BASE_MPC, PPO_BASE_PREDICTIVE, PPO_BASE_OUTLOOK };
enum ppo_residual { PPO_RESIDUAL_UNITS, PPO_RESIDUAL_MARGIN };
enum ppo_on_error { PPO_ON_ERROR_HOLD, PPO_ON_ERROR_BASELINE };
struct ppo_options {
    enum ppo_base base;         /* options of the base are capacity_config.base */
    enum ppo_residual residual; /* what an action shifts when there is a base */
    double residual_step;       /* margin: relative change of the planned demand per action step */
    enum ppo_on_error on_error; /* baseline: the base policy, or capacity_config.rule */
};

union policy_options {
    struct static_options fixed;
    struct threshold_options threshold;
    struct hpa_options hpa;
    struct queue_options queue;
    struct predictive_options predictive;
    struct mpc_options mpc;
    struct foresight_options foresight;
    struct outlook_options outlook;
    struct ppo_options ppo;
};

/* ---- memory -------------------------------------------------------------------------------------
 */
enum { EXTREME_CAP = 242 }; /* an hour of 15-s steps */

/* Largest (or smallest) of the last window, amortised O(1): a queue that only falls (or rises). */
struct extreme_window {
    int32_t head, n;
    int64_t at_us[EXTREME_CAP];
    float value[EXTREME_CAP];
};

enum { HPA_EVENTS = 122 };
struct hpa_events {
    int32_t head, n;
    int64_t at_us[HPA_EVENTS];
    int16_t change[HPA_EVENTS];
};

struct hpa_memory {
    int32_t seen_units; /* requested at the last step, -1 before the first */
    int64_t seen_us;
    struct hpa_events up, down;
    struct extreme_window lowest, highest; /* recommendations, for the up and the down window */
};
struct threshold_memory {
    int64_t acted_us;
};
struct queue_memory {
    int64_t active_us;
    struct extreme_window highest;
};
struct predictive_memory {
    struct extreme_window highest;
};
enum { MPC_LEADS = 48, MPC_MINUTES = 60 };
struct mpc_memory {
    float level;                     /* smoothed demand, NaN before the first sample */
    float spread2;                   /* mean squared relative error one lead ahead */
    float minute_error[MPC_MINUTES]; /* mean relative error, by minute of the hour it happened in */
    float minute_spread2[MPC_MINUTES];
    float
        expected[MPC_LEADS]; /* ring: expectation made that step for one lead ahead, NaN missing */
    int32_t n_steps;         /* since the start, saturating */
    int32_t next;            /* in the ring */
    int32_t units;           /* planned */
    struct extreme_window highest; /* plans */
};
struct foresight_memory {
    struct extreme_window highest;
};
struct outlook_memory {
    struct outlook_state seen;
    bool ready;    /* tail and sizes belong to this step */
    double lambda; /* after the error budget */
    float tail[OUTLOOK_WINDOWS][OUTLOOK_BINS];
    struct outlook_sizes sizes;
    struct extreme_window highest; /* plans */
    int64_t moved_us;   /* when the size was last seen to change */
    int32_t size;       /* requested at the step before, -1 before the first */
    int32_t direction;  /* of the last change: 1, -1, 0 before the first */
    float flips;        /* reversals since they were last within what is allowed: the level of a leaking bucket */
};
enum { PPO_STATE_MAX = 128 };
struct ppo_memory {
    float hc[PPO_STATE_MAX]; /* LSTM h then c */
};

union policy_memory {
    struct hpa_memory hpa;
    struct threshold_memory threshold;
    struct queue_memory queue;
    struct predictive_memory predictive;
    struct mpc_memory mpc;
    struct foresight_memory foresight;
    struct outlook_memory outlook;
    struct ppo_memory ppo;
};

/* ---- interface ----------------------------------------------------------------------------------
 */
struct policy_input {
    const struct capacity_config *cfg;
    const union policy_options *opt;
    const struct capacity_view *view;
    const struct capacity_state *state; /* advanced; not the memory the policy writes */
    const float *obs;                   /* [CAPACITY_OBS], or NULL unless the policy is learned */
    const uint8_t *mask;                /* [CAPACITY_ACTIONS], likewise */
    const int *units;                   /* [CAPACITY_ACTIONS], likewise */
};

struct policy_proposal {
    int units;
    int action;                   /* learned: 0..6, else -1 */
    float prob[CAPACITY_ACTIONS]; /* learned: of the choice, else 0 */
    float value;                  /* learned: the critic's, else NaN */
    enum err_code error; /* ERR_OK, or why the policy could not decide; units is the fallback */
};

struct policy_range {
    const char *option; /* DOUBLE, INT or DURATION row of the policy's table */
    double lo, hi;      /* in the row's C value (durations in us) */
    bool log;           /* search on a log scale */
};

struct policy {
    const char *name, *summary;
    bool guarded; /* by default; published rules run as published */
    bool learned;
    size_t memory_bytes;
    const struct opt_table *options; /* struct of the policy's member of union policy_options */
    const struct policy_range *ranges;
    size_t n_ranges;
    NODISCARD enum err_code (*validate)(const struct capacity_config *cfg,
                                        const union policy_options *opt,
                                        struct err *e); /* NULL: the table says it all */
    void (*init)(const struct capacity_config *cfg, const union policy_options *opt,
                 union policy_memory *m);
    /* False when a restored memory would be addressed out of bounds; NULL: it holds no index. */
    bool (*sane)(const union policy_memory *m);
    /* Once per decision step.  Advances *m. */
    void (*propose)(const struct policy_input *in, union policy_memory *m, struct rng *rng,
                    struct policy_proposal *out);
    /* Sizes for planned demand x (1 + k * step), k = -3..3, after propose; NULL if it has no such
     * level. */
    void (*levels)(const struct policy_input *in, const union policy_memory *m, double step,
                   int units[CAPACITY_ACTIONS]);
};

size_t policy_count(void);
const struct policy *policy_at(size_t i);
const struct policy *policy_find(const char *name); /* NULL when absent */
/* "hpa", "hpa+guard", "ppo-guard" (without).  Errors: ERR_MISSING, naming the nearest. */
NODISCARD enum err_code policy_parse(const char *text, const struct policy **p, bool *guarded,
                                     struct err *e);
/* Sets one option of a policy from a number.  Errors: ERR_MISSING, ERR_RANGE. */
NODISCARD enum err_code policy_option_set(const struct policy *p, union policy_options *o,
                                          const char *option, double value, struct err *e);
NODISCARD enum err_code policy_option_get(const struct policy *p, const union policy_options *o,
                                          const char *option, double *value, struct err *e);

#endif
