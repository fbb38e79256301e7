#include "train/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

static const char *const class_names[] = {"P0", "P1", "P2", "P3", NULL};
static const char *const start_names[] = {"uniform", "lognormal", NULL};
static const char *const fault_names[] = {"registry-down", "metrics-gone", "dependency-slow", "gauges-fixed", NULL};

static const struct opt_row service_rows[] = {
    OPT_DOUBLE(struct scenario_service, service_ms, "service_ms", "25", "0.01", "3600000",
               "mean service time of one request", .unit = "ms"),
    OPT_INT(struct scenario_service, slots, "slots", "2", "1", "1024", "requests one unit serves at once"),
    OPT_STRING(struct scenario_service, curve, "curve", NULL,
               "load-test CSV (load per unit, p50 ms, p99 ms) in place of service_ms and slots, found beside the scenario"),
    OPT_DURATION(struct scenario_service, slo_p99_us, "slo_p99", "200ms", "1ms", "1h", "target p99 latency"),
    OPT_DOUBLE(struct scenario_service, slo_violation_max, "slo_violation_max", "0.01", "0.0001", "0.5",
               "largest fraction of steps with p99 over the target"),
    OPT_DOUBLE(struct scenario_service, tune_violation_max, "tune_violation_max", "0.007", "0.0001", "0.5",
               "what tuning and training aim at, to leave room for drift"),
    OPT_INT(struct scenario_service, units_min, "units_min", "1", "0", "4096", "fewest units"),
    OPT_INT(struct scenario_service, units_max, "units_max", "64", "1", "4096", "most units"),
    OPT_INT(struct scenario_service, units_min_safe, "units_min_safe", "0", "0", "4096",
            "least safe size; 0 derives it from the same-slot 95th percentile"),
    OPT_INT(struct scenario_service, gpus_per_unit, "gpus_per_unit", "1", "0", "64", "GPUs of one unit"),
    OPT_DOUBLE(struct scenario_service, price_usd_h, "price_usd_h", "2.5", "0.0001", "100000",
               "price of one unit", .unit = "usd/h"),
    OPT_ENUM(struct scenario_service, cls, "class", "P0", class_names, "class of the service"),
};
static const struct opt_table service_table =
    OPT_TABLE("service", struct scenario_service, service_rows, "The service and what is asked of it.");

static const struct opt_row fault_rows[] = {
    OPT_ENUM(struct scenario_fault, kind, "kind", NULL, fault_names, "what happens", .required = true),
    OPT_DURATION(struct scenario_fault, from_us, "from", NULL, "0s", "10000d", "since the start of the trace",
                 .required = true),
    OPT_DURATION(struct scenario_fault, to_us, "to", NULL, "0s", "10000d", "end", .required = true),
    OPT_DOUBLE(struct scenario_fault, value, "value", "0", "0", "1000",
               "latency factor, or the cpu_util shown (gauges-fixed)"),
    OPT_DOUBLE(struct scenario_fault, value2, "value2", "0", "0", "1", "the gpu_util shown (gauges-fixed)"),
};
static const struct opt_table fault_table =
    OPT_TABLE("faults", struct scenario_fault, fault_rows, "Incidents.");

static const struct opt_row chance_rows[] = {
    OPT_ENUM(struct scenario_chance, start, "start", "uniform", start_names,
             "distribution of start-up times between start_min and start_max (lognormal: 5 and 95 %)"),
    OPT_DURATION(struct scenario_chance, start_min_us, "start_min", "2min", "0s", "2h", "shortest start-up"),
    OPT_DURATION(struct scenario_chance, start_max_us, "start_max", "3min", "1s", "2h", "longest start-up"),
    OPT_DOUBLE(struct scenario_chance, unavailable_frac, "unavailable_frac", "0.01", "0", "0.49",
               "fraction of time a unit is failed"),
    OPT_DURATION(struct scenario_chance, repair_us, "repair", "10min", "15s", "4h", "length of a failure"),
    OPT_DOUBLE(struct scenario_chance, noise_frac, "noise_frac", "0.2", "0", "0.9",
               "demand is multiplied by 1 + noise, at most this large"),
    OPT_DOUBLE(struct scenario_chance, noise_correlated_share, "noise_correlated_share", "0.5", "0", "1",
               "share of the noise that is correlated in time; the rest is independent per step"),
    OPT_DURATION(struct scenario_chance, noise_correlation_us, "noise_correlation", "10min", "15s", "6h",
                 "its correlation falls to 1/e after this long"),
    OPT_DURATION(struct scenario_chance, timeout_us, "timeout", "30s", "1s", "2min",
                 "clients give up after waiting this long"),
    OPT_INT(struct scenario_chance, seed, "seed", "1000", "0", "1000000000",
            "first seed of evaluation; training uses seeds of its own"),
    OPT_SUBS(struct scenario_chance, faults, "faults", &fault_table, "incidents to play"),
};
static const struct opt_table chance_table =
    OPT_TABLE("chance", struct scenario_chance, chance_rows, "Start-up times, failures, noise and incidents.");

static const struct opt_row generator_rows[] = {
    OPT_STRING(struct scenario_generator, kind, "kind", NULL, "in place of history: diurnal (daily rhythm, unforeseen bursts) or scheduled (and bursts on the hour)"),
    OPT_INT(struct scenario_generator, days, "days", "21", "1", "400", "length", .unit = "days"),
    OPT_INT(struct scenario_generator, seed, "seed", "1", "0", "1000000000", "seed of the generator"),
};
static const struct opt_table generator_table =
    OPT_TABLE("generator", struct scenario_generator, generator_rows, "Made-up demand.");

static const struct opt_row scenario_rows[] = {
    OPT_STRING(struct scenario, name, "name", NULL, "what reports call it", .required = true),
    OPT_SUB(struct scenario, history, "history", &history_source_table, "measured demand"),
    OPT_SUB(struct scenario, generator, "generator", &generator_table, "or made-up demand"),
    OPT_DOUBLE(struct scenario, peak_units, "peak_units", "0", "0", "4096",
               "scale demand so that its peak takes this many units at full use; 0 keeps it as measured",
               .unit = "units"),
    OPT_STRINGS(struct scenario, holidays, "holidays", NULL, "local dates YYYY-MM-DD that are like weekends"),
    OPT_SUB(struct scenario, service, "service", &service_table, "the service"),
    OPT_SUB(struct scenario, chance, "chance", &chance_table, "start-up, failures, noise, incidents"),
    OPT_SUB(struct scenario, guard, "guard", &guard_options_table, "the guard's options"),
    OPT_DURATION(struct scenario, step_us, "step", "15s", "15s", "5min", "decision period"),
    OPT_DOUBLE(struct scenario, train_frac, "train_frac", "0.6667", "0.05", "0.95",
               "first part of the history: trained, tuned and calibrated on; the rest is for evaluation only"),
    OPT_ENUM(struct scenario, preset, "reward", "balanced", reward_preset_names,
             "fixed weights of the reward that evaluate reports"),
    OPT_BOOL(struct scenario, report_only, "report_only", "false",
             "too short to judge a policy on: shown, never counted"),
};

/* The name stands in tables, reports and policy files, and tells which scenario a policy was trained on. */
static enum err_code check_name(const char *name, struct err *e)
{
    size_t n = strlen(name);
    if (n < 1 || n > SCENARIO_NAME_MAX)
        return err_set(e, ERR_RANGE, "name: %zu bytes, expected 1 to %d", n, (int)SCENARIO_NAME_MAX);
    if (!utf8_is_plain(name, n))
        return err_set(e, ERR_RANGE, "name: holds control characters or is not UTF-8");
    return ERR_OK;
}

static enum err_code check_faults(const struct scenario_chance *c, struct err *e)
{
    const struct scenario_fault *f = c->faults.items;
    if (c->faults.n > CAPSIM_FAULTS_MAX)
        return err_set(e, ERR_LIMIT, "chance.faults: %zu incidents, at most %d", c->faults.n, (int)CAPSIM_FAULTS_MAX);
    for (size_t i = 0; i < c->faults.n; i++)
        if (f[i].from_us >= f[i].to_us)
            return err_set(e, ERR_RANGE, "chance.faults[%zu]: ends before it begins (from, to)", i);
    return ERR_OK;
}

static enum err_code scenario_check(const void *dst, struct err *e)
{
    const struct scenario *sc = dst;
    enum err_code rc = check_name(sc->name, e);
    if (rc)
        return rc;
    if (sc->service.units_min > sc->service.units_max)
        return err_set(e, ERR_RANGE, "service.units_min: %lld is above units_max %lld",
                       (long long)sc->service.units_min, (long long)sc->service.units_max);
    if (sc->chance.start_min_us > sc->chance.start_max_us)
        return err_set(e, ERR_RANGE, "chance.start_min is above start_max");
    if (sc->service.tune_violation_max > sc->service.slo_violation_max)
        return err_set(e, ERR_RANGE, "service.tune_violation_max %g is above slo_violation_max %g",
                       sc->service.tune_violation_max, sc->service.slo_violation_max);
    bool from_history = sc->history.file || sc->history.format;
    if (from_history == (sc->generator.kind != NULL))
        return err_set(e, ERR_INVAL, "give either history (file, or format and paths) or generator.kind");
    /* p99 never shows more than the timeout: a service that answers nobody would count as in target. */
    if (sc->chance.timeout_us <= sc->service.slo_p99_us) {
        char timeout[32], target[32];
        opt_format_duration(sc->chance.timeout_us, timeout);
        opt_format_duration(sc->service.slo_p99_us, target);
        return err_set(e, ERR_RANGE, "chance.timeout: %s is not above service.slo_p99 (%s), so no step could miss it",
                       timeout, target);
    }
    return check_faults(&sc->chance, e);
}

const struct opt_table scenario_table = {
    .name = "scenario",
    .help = "A capacity scenario.",
    .rows = scenario_rows,
    .n = sizeof scenario_rows / sizeof scenario_rows[0],
    .size = sizeof(struct scenario),
    .check = scenario_check,
};

/* "$SLUICE_DATA/x" -> "<data folder>/x".  The public data sets live outside the project. */
static void expand_data(char **name)
{
    static const char variable[] = "$SLUICE_DATA/";
    if (!*name || strncmp(*name, variable, sizeof variable - 1) != 0)
        return;
    const char *dir = getenv("SLUICE_DATA");
    if (!dir || !*dir)
        dir = "../shared/data";
    const char *rest = *name + sizeof variable - 1;
    char *cwd = dir[0] == '/' ? NULL : getcwd(NULL, 0); /* scenario-relative otherwise */
    size_t n = (cwd ? strlen(cwd) : 0) + strlen(dir) + strlen(rest) + 3;
    char *full = mem_zero(n, 1);
    (void)snprintf(full, n, "%s%s%s/%s", cwd ? cwd : "", cwd ? "/" : "", dir, rest);
    free(cwd);
    mem_free(*name);
    *name = full;
}

void scenario_init(struct scenario *sc)
{
    opt_init(&scenario_table, sc);
    sc->path = NULL;
    sc->points = NULL;
    sc->n_points = 0;
    sc->points_unit_qps = 0;
    sc->config_hash = 0;
}

static enum err_code read_sets(struct scenario *sc, char *const *sets, size_t n_sets, struct opt_sources *src,
                               struct err *e)
{
    for (size_t i = 0; i < n_sets; i++)
        if (opt_set(&scenario_table, sc, sets[i], src, e)) {
            if (e)
                e->code = ERR_USAGE;
            return ERR_USAGE;
        }
    return ERR_OK;
}

enum err_code scenario_load_over(struct scenario *sc, const char *path, const char *over, char *const *sets,
                                 size_t n_sets, struct opt_sources *src, struct err *e)
{
    struct opt_sources *own = src ? NULL : opt_sources_new();
    src = src ? src : own;
    scenario_init(sc);
    enum err_code rc = path ? opt_read_file(&scenario_table, sc, path, src, e) : ERR_OK;
    if (!rc && over)
        rc = opt_read_file(&scenario_table, sc, over, src, e);
    if (!rc)
        rc = read_sets(sc, sets, n_sets, src, e);
    if (!rc && (rc = opt_finish(&scenario_table, sc, e)) != ERR_OK)
        (void)opt_blame(src, path ? path : "scenario", e);
    opt_sources_free(own);
    if (rc)
        return rc;
    sc->path = path ? mem_strdup(path) : NULL;
    struct hash h = hash_init(0);
    opt_hash(&scenario_table, sc, &h);
    sc->config_hash = hash_value(&h);
    expand_data(&sc->history.file);
    for (size_t i = 0; i < sc->history.paths.n; i++)
        expand_data(&sc->history.paths.items[i]);
    expand_data(&sc->service.curve);
    return ERR_OK;
}

enum err_code scenario_load(struct scenario *sc, const char *path, char *const *sets, size_t n_sets,
                            struct err *e)
{
    return scenario_load_over(sc, path, NULL, sets, n_sets, NULL, e);
}

void scenario_fini(struct scenario *sc)
{
    opt_fini(&scenario_table, sc);
    mem_free(sc->path);
    sc->path = NULL;
}

struct capsim_cfg scenario_sim(const struct scenario *sc, int64_t step_us)
{
    struct capsim_cfg c = capsim_cfg_default();
    const struct scenario_chance *ch = &sc->chance;
    c.start = (enum capsim_start)ch->start;
    c.start_min_s = (double)ch->start_min_us * 1e-6;
    c.start_max_s = (double)ch->start_max_us * 1e-6;
    c.repair_s = (double)ch->repair_us * 1e-6;
    c.unavailable_frac = ch->unavailable_frac;
    c.noise_frac = ch->noise_frac;
    c.noise_correlated_share = ch->noise_correlated_share;
    c.noise_correlation_s = (double)ch->noise_correlation_us * 1e-6;
    c.timeout_s = (double)ch->timeout_us * 1e-6;
    const struct scenario_fault *f = ch->faults.items;
    c.n_faults = (int)ch->faults.n;
    for (int i = 0; i < c.n_faults; i++)
        c.fault[i] = (struct capsim_fault){
            .kind = (enum capsim_fault_kind)f[i].kind,
            .from_step = (int32_t)(f[i].from_us / step_us),
            .to_step = (int32_t)(f[i].to_us / step_us),
            .value = (float)f[i].value,
            .value2 = (float)f[i].value2,
        };
    return c;
}

struct capacity_spec scenario_spec(const struct scenario *sc, const struct latency_model *latency)
{
    const struct scenario_service *s = &sc->service;
    return (struct capacity_spec){
        .units_min = (int)s->units_min,
        .units_max = (int)s->units_max,
        .units_min_safe = (int)s->units_min_safe,
        .gpus_per_unit = (int)s->gpus_per_unit,
        .cls = (enum task_class)s->cls,
        .price_usd_h = s->price_usd_h,
        .slo_p99_ms = (double)s->slo_p99_us / 1000,
        .slo_violation_max = s->slo_violation_max,
        .step_us = sc->step_us,
        .start_us = (sc->chance.start_min_us + sc->chance.start_max_us) / 2,
        .latency = latency,
    };
}
