/* record_config.c - a decision configuration as text, and back.
 *
 *     config:            what struct capacity_config and its source state, by the rows below
 *     main: base: rule:  {name, options}, options by the policy's own table
 *
 * Numbers are written so that they read back to the same bits, keys come in the order of the
 * tables: one configuration has one text.  The latency model is kept as what it was made from, with
 * a hash of its tables: made again, they must be the same. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/yaml.h"
#include "daemon/record.h"
#include "train/learned.h"

enum { TEXT_MAX = 1 << 18, POLICY_FILE_MAX = 256 << 20, INDENT = 2 };

struct build_text {
    char *version, *commit, *config, *compiler, *isa;
};
#define BUILD(f, key, help) OPT_STRING(struct build_text, f, key, NULL, help)
static const struct opt_row build_rows[] = {
    BUILD(version, "version", "of the program"),   BUILD(commit, "commit", "it was built from"),
    BUILD(config, "config", "release, debug ..."), BUILD(compiler, "compiler", "with its version"),
    BUILD(isa, "isa", "CPU feature level"),
};
static const struct opt_table build_table =
    OPT_TABLE("build", struct build_text, build_rows, "Who decided.");

static const char *const class_names[] = {"P0", "P1", "P2", "P3", NULL};

struct spec_text {
    int64_t units_min, units_max, units_min_safe, gpus_per_unit;
    int cls;
    double price_usd_h, slo_p99_ms, slo_violation_max;
    int64_t step_us, start_us;
};
#define SPEC_INT(f, key, help) OPT_INT(struct spec_text, f, key, "0", NULL, NULL, help)
#define SPEC_NUM(f, key, help) OPT_DOUBLE(struct spec_text, f, key, "0", NULL, NULL, help)
#define SPEC_TIME(f, key, help) OPT_DURATION(struct spec_text, f, key, "0s", NULL, NULL, help)
static const struct opt_row spec_rows[] = {
    SPEC_INT(units_min, "units_min", "least units"),
    SPEC_INT(units_max, "units_max", "most units"),
    SPEC_INT(units_min_safe, "units_min_safe", "least safe size, 0: derived"),
    SPEC_INT(gpus_per_unit, "gpus_per_unit", "GPUs of one unit"),
    OPT_ENUM(struct spec_text, cls, "class", "P0", class_names, "class of the work"),
    SPEC_NUM(price_usd_h, "price_usd_h", "price of one unit"),
    SPEC_NUM(slo_p99_ms, "slo_p99_ms", "latency target"),
    SPEC_NUM(slo_violation_max, "slo_violation_max", "fraction of steps that may miss it"),
    SPEC_TIME(step_us, "step", "decision period"),
    SPEC_TIME(start_us, "start", "start-up time of a unit"),
};
static const struct opt_table spec_table =
    OPT_TABLE("spec", struct spec_text, spec_rows, "What the owner states.");

static const char *const latency_names[] = {"erlang", "curve", NULL};

struct latency_text {
    int kind; /* enum record_latency_kind */
    double service_ms, unit_qps;
    int64_t slots, units_max;
    struct opt_doubles load, p50, p99;
    char *hash;
};
#define LATENCY(type, f, key, dflt, help) type(struct latency_text, f, key, dflt, NULL, NULL, help)
static const struct opt_row latency_rows[] = {
    OPT_ENUM(struct latency_text, kind, "kind", "erlang", latency_names, "what it is made from"),
    LATENCY(OPT_DOUBLE, service_ms, "service_ms", "0", "mean service time of a request"),
    LATENCY(OPT_INT, slots, "slots", "0", "requests a unit works on at a time"),
    LATENCY(OPT_DOUBLE, unit_qps, "unit_qps", "0", "load one unit serves at full use"),
    LATENCY(OPT_INT, units_max, "units_max", "0", "most units it covers"),
    LATENCY(OPT_DOUBLES, load, "load", NULL, "of the measured curve, per unit"),
    LATENCY(OPT_DOUBLES, p50, "p50_ms", NULL, "at that load"),
    LATENCY(OPT_DOUBLES, p99, "p99_ms", NULL, "at that load"),
    OPT_STRING(struct latency_text, hash, "hash", NULL, "of the tables made from it"),
};
static const struct opt_table latency_table =
    OPT_TABLE("latency", struct latency_text, latency_rows, "The service.");

struct config_text {
    int64_t version; /* of this text */
    struct build_text build;
    struct spec_text spec;
    struct latency_text latency;
    char *zone, *policy_file, *policy_file_hash;
    bool guarded;
    struct guard_options guard;
};
static const struct opt_row config_rows[] = {
    OPT_INT(struct config_text, version, "version", "0", "0", NULL, "of this text"),
    OPT_SUB(struct config_text, build, "build", &build_table, "who decided"),
    OPT_SUB(struct config_text, spec, "spec", &spec_table, "what the owner states"),
    OPT_SUB(struct config_text, latency, "latency", &latency_table, "the service"),
    OPT_STRING(struct config_text, zone, "zone", NULL, "time zone of calendars"),
    OPT_STRING(struct config_text, policy_file, "policy_file", NULL, "learned policy in use"),
    OPT_STRING(struct config_text, policy_file_hash, "policy_file_hash", NULL, "of its bytes"),
    OPT_BOOL(struct config_text, guarded, "guarded", "true", "behind the guard"),
    OPT_SUB(struct config_text, guard, "guard", &guard_options_table, "options of the guard"),
};
static const struct opt_table config_table =
    OPT_TABLE("config", struct config_text, config_rows, "A decision configuration.");

/* ---- out ------------------------------------------------------------------------------------- */

/* What a row points at. */
static const void *field_of(const struct opt_row *row, const void *src)
{
    return (const char *)src + row->offset;
}

static void write_rows(const struct opt_table *t, const void *src, size_t indent, struct buf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        struct buf value = buf_init(TEXT_MAX);
        if (row->type == OPT_TYPE_SUB) {
            buf_pad(out, ' ', indent);
            buf_fmt(out, "%s:\n", row->name);
            write_rows(row->sub, field_of(row, src), indent + INDENT, out);
            continue;
        }
        opt_value(row, src, &value);
        if (value.n && strcmp(value.p, "[]") != 0) {
            buf_pad(out, ' ', indent);
            buf_fmt(out, "%s: %s\n", row->name, value.p);
        }
        buf_fini(&value);
    }
}

static void write_use(const char *role, const struct policy_use *use, struct buf *out)
{
    if (!use->policy)
        return;
    buf_fmt(out, "%s:\n  name: %s\n", role, use->policy->name);
    if (use->policy->options->n == 0)
        return;
    buf_str(out, "  options:\n");
    write_rows(use->policy->options, &use->opt, 2 * INDENT, out);
}

static void hash_latency(const struct latency_model *m, char hex[HASH_HEX])
{
    struct hash h = hash_init(0);
    size_t cells = ((size_t)m->units_max + 1) * (LATENCY_BINS + 1), row = LATENCY_BINS + 1;
    hash_f64(&h, m->unit_qps);
    hash_f64(&h, m->rho_max);
    hash_bytes(&h, m->p50_ms + row, (cells - row) * sizeof *m->p50_ms); /* row 0 is unused */
    hash_bytes(&h, m->p99_ms + row, (cells - row) * sizeof *m->p99_ms);
    hash_bytes(&h, m->load_max + 1, (size_t)m->units_max * sizeof *m->load_max);
    hash_hex(hash_value(&h), hex);
}

/* "" when it cannot be read. */
static void hash_file(const char *path, char hex[HASH_HEX])
{
    struct buf bytes;
    hex[0] = '\0';
    if (!file_read(path, POLICY_FILE_MAX, &bytes, NULL))
        hash_hex(hash_of(bytes.p, bytes.n), hex);
    buf_fini(&bytes);
}

static struct spec_text spec_out(const struct capacity_spec *s)
{
    return (struct spec_text){.units_min = s->units_min,
                              .units_max = s->units_max,
                              .units_min_safe = s->units_min_safe,
                              .gpus_per_unit = s->gpus_per_unit,
                              .cls = (int)s->cls,
                              .price_usd_h = s->price_usd_h,
                              .slo_p99_ms = s->slo_p99_ms,
                              .slo_violation_max = s->slo_violation_max,
                              .step_us = s->step_us,
                              .start_us = s->start_us};
}

/* Points as three lists; freed by the caller with the text. */
static struct latency_text latency_out(const struct record_latency *l,
                                       const struct latency_model *m)
{
    struct latency_text t = {.kind = (int)l->kind, .units_max = m->units_max};
    char hex[HASH_HEX];
    hash_latency(m, hex);
    t.hash = mem_strdup(hex);
    if (l->kind == RECORD_ERLANG) {
        t.service_ms = l->service_ms;
        t.slots = l->slots;
        return t;
    }
    t.unit_qps = l->unit_qps;
    struct opt_doubles *const list[] = {&t.load, &t.p50, &t.p99};
    for (size_t k = 0; k < ARRAY_LEN(list) && l->n_points > 0; k++) {
        list[k]->n = (size_t)l->n_points;
        list[k]->items = mem_zero(list[k]->n, sizeof(double));
        for (int i = 0; i < l->n_points; i++) {
            const double value[] = {l->point[i].load_per_unit, l->point[i].p50_ms,
                                    l->point[i].p99_ms};
            list[k]->items[i] = value[k];
        }
    }
    return t;
}

static char *own(const char *s)
{
    return s ? mem_strdup(s) : NULL;
}

void record_config_text(const struct capacity_config *cfg, const struct record_source *src,
                        struct buf *out)
{
    char hex[HASH_HEX] = "";
    struct config_text t;
    opt_init(&config_table, &t);
    t.version = RECORD_VERSION;
    t.build = (struct build_text){.version = own(build_version()),
                                  .commit = own(build_commit()),
                                  .config = own(build_config()),
                                  .compiler = own(build_compiler()),
                                  .isa = own(build_isa())};
    t.spec = spec_out(&cfg->spec);
    t.latency = latency_out(&src->latency, cfg->spec.latency);
    t.zone = own(src->zone);
    t.policy_file = own(src->policy_file);
    if (src->policy_file)
        hash_file(src->policy_file, hex);
    t.policy_file_hash = src->policy_file ? own(hex) : NULL;
    t.guarded = cfg->guarded;
    t.guard = cfg->guard;
    buf_str(out, "config:\n");
    write_rows(&config_table, &t, INDENT, out);
    write_use("main", &cfg->main, out);
    write_use("base", &cfg->base, out);
    write_use("rule", &cfg->rule, out);
    opt_fini(&config_table, &t);
}

enum err_code record_config(struct store *s, const struct capacity_config *cfg,
                            const struct record_source *src, int64_t now_us, int64_t *config_id,
                            struct err *e)
{
    struct buf text = buf_init(TEXT_MAX);
    record_config_text(cfg, src, &text);
    enum err_code rc = buf_check(&text, e);
    if (!rc)
        rc = store_config_id(s, text.p, now_us, config_id, e);
    buf_fini(&text);
    return rc ? err_wrap(e, "configuration") : ERR_OK;
}

/* ---- in -------------------------------------------------------------------------------------- */

struct record_rebuilt {
    struct capacity_config cfg;
    struct config_text text;
    struct record_source source;
    struct latency_point *point;
    struct latency_model latency;
    bool has_latency;
    struct learned learned;
    struct buf made_by;
};

void record_rebuilt_free(struct record_rebuilt *r)
{
    if (!r)
        return;
    if (r->has_latency)
        latency_fini(&r->latency);
    learned_fini(&r->learned);
    opt_fini(&config_table, &r->text);
    mem_free(r->point);
    buf_fini(&r->made_by);
    mem_free(r);
}

struct capacity_config *record_rebuilt_config(struct record_rebuilt *r)
{
    return &r->cfg;
}

const struct record_source *record_rebuilt_source(const struct record_rebuilt *r)
{
    return &r->source;
}

static bool same(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

enum record_fit record_rebuilt_fit(const struct record_rebuilt *r, const char **made_by)
{
    const struct build_text *b = &r->text.build;
    *made_by = r->made_by.p;
    return same(b->version, build_version()) && same(b->commit, build_commit()) &&
                   same(b->config, build_config()) && same(b->compiler, build_compiler()) &&
                   same(b->isa, build_isa())
               ? RECORD_SAME_BUILD
               : RECORD_OTHER_BUILD;
}

static enum err_code read_use(const struct yaml_node *root, const char *role,
                              struct policy_use *use, struct err *e)
{
    const struct yaml_node *map = yaml_find(root, role);
    const struct yaml_node *name = map ? yaml_find(map, "name") : NULL,
                           *options = map ? yaml_find(map, "options") : NULL;
    if (!map)
        return ERR_OK;
    if (!name || name->kind != YAML_SCALAR)
        return err_set(e, ERR_PARSE, "%s: no name", role);
    const struct policy *p = policy_find(name->text);
    if (!p)
        return err_set(e, ERR_MISMATCH, "%s: this build knows no policy \"%.60s\"", role,
                       name->text);
    policy_use_default(use, p);
    if (options && opt_read_node(p->options, &use->opt, "config", options, NULL, e)) {
        err_wrap(e, "%s: this build reads the options of %s otherwise", role, p->name);
        if (e)
            e->code = ERR_MISMATCH;
        return ERR_MISMATCH;
    }
    return ERR_OK;
}

static enum err_code read_text(const char *text, bool policies, struct record_rebuilt *r,
                               struct err *e)
{
    struct yaml_doc *doc;
    enum err_code rc = yaml_parse(text, strlen(text), "config", &doc, e);
    if (rc)
        return rc;
    const struct yaml_node *root = yaml_root(doc),
                           *config = root ? yaml_find(root, "config") : NULL;
    if (!config)
        rc = err_set(e, ERR_PARSE, "no config");
    if (!rc)
        rc = opt_read_node(&config_table, &r->text, "config", config, NULL, e);
    if (!rc && r->text.version != RECORD_VERSION)
        rc = err_set(e, ERR_MISMATCH, "version %" PRId64 " of the text, this build reads %d",
                     r->text.version, RECORD_VERSION);
    if (!rc && policies)
        rc = read_use(root, "main", &r->cfg.main, e);
    if (!rc && policies)
        rc = read_use(root, "base", &r->cfg.base, e);
    if (!rc && policies)
        rc = read_use(root, "rule", &r->cfg.rule, e);
    yaml_free(doc);
    return rc;
}

static enum err_code spec_in(const struct spec_text *t, struct capacity_spec *s, struct err *e)
{
    const int64_t whole[] = {t->units_min, t->units_max, t->units_min_safe, t->gpus_per_unit};
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        if (whole[i] < 0 || whole[i] > 1 << 20)
            return err_set(e, ERR_RANGE, "spec: %" PRId64 " is no number of units or GPUs",
                           whole[i]);
    *s = (struct capacity_spec){.units_min = (int)t->units_min,
                                .units_max = (int)t->units_max,
                                .units_min_safe = (int)t->units_min_safe,
                                .gpus_per_unit = (int)t->gpus_per_unit,
                                .cls = (enum task_class)t->cls,
                                .price_usd_h = t->price_usd_h,
                                .slo_p99_ms = t->slo_p99_ms,
                                .slo_violation_max = t->slo_violation_max,
                                .step_us = t->step_us,
                                .start_us = t->start_us};
    return ERR_OK;
}

static enum err_code points_in(struct record_rebuilt *r, struct err *e)
{
    const struct latency_text *t = &r->text.latency;
    size_t n = t->load.n;
    if (n > LATENCY_POINTS_MAX || t->p50.n != n || t->p99.n != n)
        return err_set(e, ERR_PARSE, "latency: %zu, %zu and %zu numbers, expected as many each", n,
                       t->p50.n, t->p99.n);
    r->point = mem_zero(n + 1, sizeof *r->point);
    for (size_t i = 0; i < n; i++)
        r->point[i] = (struct latency_point){t->load.items[i], t->p50.items[i], t->p99.items[i]};
    r->source.latency = (struct record_latency){
        .kind = RECORD_CURVE, .unit_qps = t->unit_qps, .point = r->point, .n_points = (int)n};
    return ERR_OK;
}

static enum err_code latency_in(struct record_rebuilt *r, struct err *e)
{
    const struct latency_text *t = &r->text.latency;
    const double slo_ms = r->text.spec.slo_p99_ms;
    char hex[HASH_HEX];
    enum err_code rc = ERR_OK;
    if (t->units_max < 1 || t->units_max > CAPACITY_UNITS_LIMIT || t->slots < 0 ||
        t->slots > 1 << 20)
        return err_set(e, ERR_RANGE, "latency: units_max or slots out of range");
    if (t->kind == RECORD_CURVE && !(rc = points_in(r, e)))
        rc = latency_from_curve(r->point, r->source.latency.n_points, t->unit_qps,
                                (int)t->units_max, slo_ms, &r->latency, e);
    if (t->kind == RECORD_ERLANG) {
        r->source.latency = (struct record_latency){
            .kind = RECORD_ERLANG, .service_ms = t->service_ms, .slots = (int)t->slots};
        rc = latency_from_erlang(t->service_ms, (int)t->slots, (int)t->units_max, slo_ms,
                                 &r->latency, e);
    }
    if (rc)
        return err_wrap(e, "latency");
    r->has_latency = true;
    hash_latency(&r->latency, hex);
    if (!same(t->hash, hex))
        return err_set(e, ERR_MISMATCH,
                       "latency: the model made again is not the one decided with");
    return ERR_OK;
}

/* The file must hold what was in use, whatever it is called by now. */
static enum err_code policy_in(struct record_rebuilt *r, const char *other, struct err *e)
{
    const char *path = other ? other : r->text.policy_file, *wanted = r->text.policy_file_hash;
    char hex[HASH_HEX];
    if (!r->text.policy_file)
        return ERR_OK;
    if (!wanted || !*wanted)
        return err_set(e, ERR_MISSING,
                       "policy file %s could not be read when the decision was recorded", path);
    hash_file(path, hex);
    if (!*hex)
        return err_set(e, ERR_MISSING,
                       "policy file %s is not there; --policy-file names where it is now", path);
    if (!same(wanted, hex))
        return err_set(e, ERR_MISMATCH, "policy file %s is another one (hash %s, decided with %s)",
                       path, hex, wanted);
    struct policy_use used = r->cfg.main;
    enum err_code rc = learned_load(path, &r->learned, e);
    if (rc)
        return rc;
    if (r->learned.main.policy != used.policy)
        return err_set(e, ERR_MISMATCH, "policy file %s holds a policy %s, decided with %s", path,
                       r->learned.main.policy->name, used.policy ? used.policy->name : "none");
    struct policy_use base = r->cfg.base;
    learned_apply(&r->learned, &r->cfg);
    r->cfg.main = used; /* options may have been set beside the file */
    r->cfg.base = base;
    return ERR_OK;
}

static void tell_build(struct record_rebuilt *r)
{
    const struct build_text *b = &r->text.build;
    const char *const part[] = {b->version, b->commit, b->config, b->compiler, b->isa};
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        buf_fmt(&r->made_by, "%s%s", i ? " " : "", part[i] ? part[i] : "?");
}

static enum err_code rebuild(struct record_rebuilt *r, const char *text, const char *policy_file,
                             bool policies, struct err *e)
{
    enum err_code rc = read_text(text, policies, r, e);
    if (!rc)
        rc = spec_in(&r->text.spec, &r->cfg.spec, e);
    if (!rc)
        rc = latency_in(r, e);
    if (!rc && policies)
        rc = policy_in(r, policy_file, e);
    r->cfg.guard = r->text.guard;
    r->cfg.guarded = r->text.guarded;
    r->cfg.spec.latency = &r->latency;
    r->source.zone = r->text.zone;
    r->source.policy_file = r->text.policy_file;
    return rc || !policies ? rc : capacity_config_finish(&r->cfg, e);
}

static enum err_code rebuild_new(const char *text, const char *policy_file, bool policies,
                                 struct record_rebuilt **out, struct err *e)
{
    struct record_rebuilt *r = mem_zero(1, sizeof *r);
    r->made_by = buf_init(1 << 16);
    opt_init(&config_table, &r->text);
    capacity_config_default(&r->cfg, NULL);
    if (rebuild(r, text, policy_file, policies, e)) {
        record_rebuilt_free(r);
        return err_wrap(e, "configuration");
    }
    tell_build(r);
    *out = r;
    return ERR_OK;
}

enum err_code record_rebuild(const char *text, const char *policy_file, struct record_rebuilt **out,
                             struct err *e)
{
    return rebuild_new(text, policy_file, true, out, e);
}

enum err_code record_rebuild_service(const char *text, struct record_rebuilt **out, struct err *e)
{
    return rebuild_new(text, NULL, false, out, e);
}
