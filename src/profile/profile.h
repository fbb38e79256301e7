/* profile.h - what is known of one workload: who it is, what its owner promises and what a unit
 * costs.
 *
 * A profile is merged from layers, lowest first: defaults of the configuration, what history
 * measured, labels and annotations `sluice.dev/...` of the pod template, then of the workload, a
 * target named in the configuration, the CapacityTarget's spec. A layer states some fields; the
 * highest layer that states one wins, except `paused`, where any layer that says so pauses.
 * `profile.source` tells where each value came from.
 *
 * Nothing is guessed: a value that cannot be used is a fault in words ("Deployment shop/api:
 * annotation sluice.dev/min-safe: \"three\" is not a whole number from 0 to 4096") and makes the
 * target inactive, also where a higher layer would have covered it. A key under sluice.dev/ that
 * nobody knows is one too: it is misspelt, or meant for a newer version.
 *
 * Text is owned by the profile (profile_fini); reading is thread-safe. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "kube/selector.h"
#include "model/capacity.h"
#include "model/field.h"
#include "model/latency.h"

enum profile_source {
    PROFILE_UNSET,
    PROFILE_DEFAULTS,
    PROFILE_HISTORY,
    PROFILE_TEMPLATE, /* labels and annotations of the pod template */
    PROFILE_WORKLOAD, /* of the workload */
    PROFILE_CONFIG,   /* a target in the configuration file */
    PROFILE_SPEC,     /* the CapacityTarget */
    PROFILE_SOURCES
};
const char *profile_source_name(enum profile_source s);

/* Kinds of value. INT: int32_t; NUM: double; TEXT: char *; FLAG: bool; CLASS: enum task_class as
 * int32_t; DURATION: int64_t us, written in seconds (spec) or with a unit (annotation: "90s");
 * TIME: int64_t us, RFC 3339. */
enum profile_kind {
    PROFILE_INT,
    PROFILE_NUM,
    PROFILE_TEXT,
    PROFILE_FLAG,
    PROFILE_CLASS,
    PROFILE_DURATION,
    PROFILE_TIME
};

/* X(id, member, kind, key in the spec, key under sluice.dev/, min, max, what). NULL: not stated
 * there. For text `max` is its length in bytes; for durations both are seconds. */
/* clang-format off */
#define PROFILE_FIELD_LIST(X)                                                                                          \
    X(MANAGED, managed, FLAG, NULL, "managed", 0, 1, "sluice may size it")                                             \
    X(PAUSED, paused, FLAG, "paused", "paused", 0, 1, "decide, but leave the size alone")                              \
    X(CLASS, cls, CLASS, "class", "class", 0, 3, "P0 online ... P3 batch")                                             \
    X(TYPE, type, TEXT, "type", "type", 1, 63, "kind of work")                                                         \
    X(TENANT, tenant, TEXT, NULL, "tenant", 1, 63, "who it is run for")                                                \
    X(GROUP, group, TEXT, NULL, "group", 1, 63, "units that start and stop together")                                  \
    X(VALUE, value, NUM, NULL, "value", 0, 1e9, "worth of a task")                                                     \
    X(UNITS_MIN, units_min, INT, "minUnits", NULL, 0, CAPACITY_UNITS_LIMIT, "fewest units")                            \
    X(UNITS_MAX, units_max, INT, "maxUnits", "max", 1, CAPACITY_UNITS_LIMIT, "most units")                             \
    X(UNITS_MIN_SAFE, units_min_safe, INT, "minSafeUnits", "min-safe", 0, CAPACITY_UNITS_LIMIT,                        \
      "fewest units a scale-in may leave; 0: derived from history")                                                    \
    X(GPUS, gpus_per_unit, INT, "gpusPerUnit", NULL, 0, 64, "GPUs of one unit")                                        \
    X(PRICE, price_usd_h, NUM, "priceUsdPerHour", NULL, 0, 1e6, "price of one unit, USD per hour")                     \
    X(SLO_P99, slo_p99_ms, NUM, "slo.p99Milliseconds", "slo-p99-ms", 0.001, 1e7, "latency target, p99 in ms")          \
    X(SLO_VIOLATION, slo_violation_max, NUM, "slo.violationMaxFraction", NULL, 0, 1,                                   \
      "most steps over the target, as a fraction")                                                                     \
    X(START, start_us, DURATION, "startSeconds", NULL, 0.001, 86400, "from request to ready; measured where unset")    \
    X(SERVICE, service_ms, NUM, "latency.serviceMilliseconds", NULL, 0.001, 1e7, "mean service time of a request, ms") \
    X(SLOTS, slots, INT, "latency.slots", NULL, 1, 65536, "requests a unit works on at a time")                        \
    X(UNIT_QPS, unit_qps, NUM, "latency.unitQps", NULL, 1e-6, 1e9,                                                     \
      "with a curve: requests/s of a unit at full use; the curve's largest load where unset")                          \
    X(POLICY, policy, TEXT, "policy", NULL, 1, 63, "policy by name")                                                   \
    X(POLICY_FILE, policy_file, TEXT, "policyFile", NULL, 1, 4095, "checkpoint of a learned policy")                   \
    X(WEIGHT_LATENCY, weight_latency, NUM, "weights.latency", NULL, 0, 100, "weight of latency in the objective")      \
    X(WEIGHT_COST, weight_cost, NUM, "weights.cost", NULL, 0, 100, "weight of cost in the objective")                  \
    X(OVERRIDE_UNITS, override_units, INT, "override.units", NULL, 0, CAPACITY_UNITS_LIMIT, "size fixed by a person")  \
    X(OVERRIDE_UNTIL, override_until_us, TIME, "override.until", NULL, 0, 1, "when that ends")                         \
    X(OVERRIDE_AUTHOR, override_author, TEXT, "override.author", NULL, 1, 255, "who fixed it")                         \
    X(OVERRIDE_REASON, override_reason, TEXT, "override.reason", NULL, 1, 511, "why")                                  \
    X(CHECKPOINT, checkpoint, FLAG, NULL, "checkpoint", 0, 1, "work is saved periodically")                            \
    X(CHECKPOINT_TIME, checkpoint_us, TIME, NULL, "checkpoint-time", 0, 1, "newest save")
/* clang-format on */

enum profile_field {
#define X(id, ...) PROFILE_F_##id,
    PROFILE_FIELD_LIST(X)
#undef X
        PROFILE_FIELDS
};

enum { PROFILE_CURVE_MAX = 64, PROFILE_QUERY_BYTES = 4096, PROFILE_NAME = 254 };

/* Which object.  Plain text, copied; sizes are those of Kubernetes names. */
struct profile_id {
    char cluster[PROFILE_NAME];
    char api_version[PROFILE_NAME]; /* "apps/v1" */
    char kind[64];
    char namespace_[64];
    char name[PROFILE_NAME];
    char uid[64]; /* of the workload; "" until it is seen */
};

struct profile {
    bool managed, paused, checkpoint;
    int32_t cls; /* enum task_class */
    int32_t units_min, units_max, units_min_safe, gpus_per_unit, slots, override_units;
    double value, price_usd_h, slo_p99_ms, slo_violation_max, service_ms, unit_qps;
    double weight_latency, weight_cost;
    int64_t start_us, override_until_us, checkpoint_us;
    char *type, *tenant, *group, *policy, *policy_file, *override_author, *override_reason;
    uint8_t source[PROFILE_FIELDS]; /* enum profile_source */

    struct latency_point *curve; /* measured latency, by load per unit */
    int32_t n_curve;
    uint8_t curve_source;
    char *query[FIELD_COUNT]; /* PromQL in place of the configuration's; NULL: not stated */
};

void profile_init(struct profile *p); /* states nothing */
/* The lowest layer: class P0 (served first, never preempted), at least one unit, violations 0.01,
 * weights 1, not managed, no latency target and no price. The configuration's defaults are set on
 * top of it. */
void profile_defaults(struct profile *p);
void profile_fini(struct profile *p);

/* What is wrong, in words, up to a cap; later ones are counted. */
enum { PROFILE_FAULT_BYTES = 1024 };
struct profile_faults {
    int n, n_shown;
    size_t used;                    /* bytes of the shown ones */
    char text[PROFILE_FAULT_BYTES]; /* "a; b; and 3 more" */
};
void profile_faults_init(struct profile_faults *f);
void profile_fault(struct profile_faults *f, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Every known `sluice.dev/` key of one object into the layer p. A key that is both label and
 * annotation must say the same. `object` names it in faults: "Deployment shop/api". */
void profile_read_labels(struct profile *p, enum profile_source source, const char *object,
                         const struct kube_label *labels, size_t n_labels,
                         const struct kube_label *annotations, size_t n_annotations,
                         struct profile_faults *faults);
/* The same from an object's "metadata"; NULL states nothing. */
void profile_read_metadata(struct profile *p, enum profile_source source, const char *object,
                           const struct json *metadata, struct profile_faults *faults);
/* A pod template (spec.template): its metadata, and the GPUs its containers ask for. */
void profile_read_template(struct profile *p, const char *object, const struct json *template_,
                           struct profile_faults *faults);

/* The spec of a CapacityTarget into layer p and the identity of its target (api_version, kind,
 * name). Keys it does not know are faults. `object`: "CapacityTarget shop/api". */
void profile_read_spec(struct profile *p, const char *object, const struct json *spec,
                       struct profile_id *id, struct profile_faults *faults);

/* A layer's single values, for defaults, history and the configuration. ASSERTs that the field is
 * of that kind; a value out of range is a fault named `object`. */
void profile_set_int(struct profile *p, enum profile_source source, enum profile_field f, int64_t v,
                     const char *object, struct profile_faults *faults);
void profile_set_num(struct profile *p, enum profile_source source, enum profile_field f, double v,
                     const char *object, struct profile_faults *faults);
void profile_set_text(struct profile *p, enum profile_source source, enum profile_field f,
                      const char *v, const char *object, struct profile_faults *faults);

/* A measured latency curve: n points, loads ascending. */
void profile_set_curve(struct profile *p, enum profile_source source,
                       const struct latency_point *point, int n, const char *object,
                       struct profile_faults *faults);

/* Pure: layers lowest first into out (init'd here; release with profile_fini). Then the rules over
 * several fields and what must be stated: max units, latency target, a latency model (curve, or
 * service time and slots; the higher layer's), GPUs and a price. Faults are added to those of the
 * layers: with any, the target must not be acted on. */
void profile_merge(const struct profile *const *layers, size_t n, const char *object,
                   struct profile *out, struct profile_faults *faults);

/* Fills a spec for the decision; s->latency is made by the caller, s->step_us stays. start_us: the
 * stated start-up time, else `measured_s` when finite, else default_start_us. */
void profile_spec(const struct profile *p, double measured_s, int64_t default_start_us,
                  struct capacity_spec *s);
/* Builds the latency model.  Errors: those of latency_from_*; release with latency_fini. */
NODISCARD enum err_code profile_latency(const struct profile *p, struct latency_model *out,
                                        struct err *e);

/* May a checkpointed task be stopped: periodic, newest save younger than two hours (DESIGN 5). */
bool profile_checkpoint_recent(const struct profile *p, int64_t now_us);

/* The table, for docs and tests. */
struct profile_row {
    const char *spec, *meta, *what;
    enum profile_kind kind;
    size_t offset;
    double min, max;
};
const struct profile_row *profile_row(enum profile_field f);

#endif
