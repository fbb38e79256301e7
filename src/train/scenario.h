/* scenario.h - a capacity scenario: whose demand, which service, how it starts and fails, what is asked of it.
 *
 * One YAML file, read through the option table below (docs/scenario.md is printed from it).  Unknown keys, wrong
 * units and values out of range are errors with file, line and key. */
#ifndef TRAIN_SCENARIO_H
#define TRAIN_SCENARIO_H

#include <stdint.h>

#include "base/opt.h"
#include "decide/guard.h"
#include "history/import.h"
#include "model/capacity.h"
#include "model/latency.h"
#include "sim/capacity.h"
#include "train/reward.h"

enum { SCENARIO_NAME_MAX = 60 }; /* bytes; struct learned holds it whole */

struct scenario_service {
    double service_ms;   /* mean service time of one request */
    int64_t slots;       /* requests one unit serves at once */
    char *curve;         /* CSV of load per unit, p50, p99 instead of the two above; or NULL */
    int64_t slo_p99_us;
    double slo_violation_max, tune_violation_max;
    int64_t units_min, units_max, units_min_safe, gpus_per_unit;
    double price_usd_h;
    int cls;
};

struct scenario_fault {
    int kind; /* enum capsim_fault_kind */
    int64_t from_us, to_us; /* since the start of the trace */
    double value, value2;
};

struct scenario_chance {
    int start;
    int64_t start_min_us, start_max_us, repair_us, noise_correlation_us, timeout_us;
    double unavailable_frac, noise_frac, noise_correlated_share;
    int64_t seed;
    struct opt_subs faults; /* struct scenario_fault */
};

struct scenario_generator {
    char *kind; /* name of a demand generator; NULL: none */
    int64_t days;
    int64_t seed;
};

struct scenario {
    char *name;
    struct history_source history;
    struct scenario_generator generator;
    double peak_units;   /* demand is scaled so that its peak takes this many units at full use; 0: as measured */
    struct opt_strings holidays; /* YYYY-MM-DD, local */
    struct scenario_service service;
    struct scenario_chance chance;
    struct guard_options guard;
    int64_t step_us;
    double train_frac;
    int preset;          /* enum reward_preset, of the reward metric and of fixed-weight training */
    bool report_only;    /* too short to judge: results are shown, never counted */

    /* Not from the file. */
    char *path;          /* where it was read, for relative names; NULL */
    const struct latency_point *points; /* measured curve, borrowed, in place of service.curve; NULL */
    int n_points;
    double points_unit_qps; /* load one unit serves at full use */
    uint64_t config_hash;
};

extern const struct opt_table scenario_table;

/* Defaults, file, `--set` assignments; names starting with $SLUICE_DATA are expanded.
 * Errors: ERR_PARSE, ERR_RANGE, ERR_MISSING with file, line and key.  Release with scenario_fini() in any case. */
NODISCARD enum err_code scenario_load(struct scenario *sc, const char *path, char *const *sets, size_t n_sets,
                                      struct err *e);
/* The same with a second file over the first: `-c FILE`, NULL for none.  Relative names in it are relative to the
 * scenario's folder.  A wrong --set is ERR_USAGE.  src may be NULL; see opt.h. */
NODISCARD enum err_code scenario_load_over(struct scenario *sc, const char *path, const char *over, char *const *sets,
                                           size_t n_sets, struct opt_sources *src, struct err *e);
void scenario_init(struct scenario *sc); /* defaults only */
void scenario_fini(struct scenario *sc);

struct capsim_cfg scenario_sim(const struct scenario *sc, int64_t step_us);
struct capacity_spec scenario_spec(const struct scenario *sc, const struct latency_model *latency);

#endif
