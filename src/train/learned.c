#include "train/learned.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "nn/checkpoint.h"

static const char kind_text[] = "sluice capacity policy 1";

/* ---- out -------------------------------------------------------------------------------------- */

static void add(struct learned_meta *m, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void add(struct learned_meta *m, const char *key, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    ASSERT(m->n < LEARNED_META_MAX);
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    m->meta[m->n++] = (struct st_meta){.key = mem_strdup(key), .value = mem_strdup(text)};
}

static void add_use(struct learned_meta *m, const char *role, const struct policy_use *use)
{
    char key[96];
    add(m, role, "%s", use->policy ? use->policy->name : "none");
    for (size_t i = 0; use->policy && i < use->policy->options->n; i++) {
        const struct opt_row *row = &use->policy->options->rows[i];
        struct buf text = buf_init(4096);
        opt_value(row, &use->opt, &text);
        (void)snprintf(key, sizeof key, "%s.%s", role, row->name);
        add(m, key, "%s", (const char *)text.p);
        buf_fini(&text);
    }
}

void learned_meta_init(struct learned_meta *m, const struct world *w, const struct policy_use *main,
                       const struct policy_use *base, const struct outlook *outlook, uint64_t seed)
{
    char hex[HASH_HEX];
    memset(m, 0, sizeof *m);
    add(m, "kind", "%s", kind_text);
    hash_hex(observation_layout_hash(), hex);
    add(m, "layout", "%s", hex);
    hash_hex(outlook_layout_hash(), hex);
    add(m, "outlook.layout", "%s", hex);
    add(m, "scenario", "%s", w->scenario->name);
    hash_hex(w->scenario->config_hash, hex);
    add(m, "config", "%s", hex);
    hash_hex(w->data_hash, hex);
    add(m, "data", "%s", hex);
    add(m, "train.from_us", "%" PRId64, w->start_us);
    add(m, "train.to_us", "%" PRId64, w->start_us + w->train_end * w->sim.spec.step_us);
    add(m, "seed", "%" PRIu64, seed);
    add(m, "version", "%s", build_version());
    add(m, "isa", "%s", build_isa());
    add_use(m, "policy", main);
    add_use(m, "base", base);
    if (!outlook || !outlook->net)
        return;
    const struct nn_params *p = nn_net_params_const(outlook->net);
    hash_hex(hash_of(p->value, p->total * sizeof(float)), hex);
    add(m, "outlook.hash", "%s", hex);
    m->extra = (struct st_tensor){.name = "outlook.params", .dtype = ST_F32, .n_dims = 1,
                                  .dim = {(int64_t)p->total}, .data = p->value,
                                  .n_bytes = p->total * sizeof(float)};
}

void learned_meta_fini(struct learned_meta *m)
{
    for (int i = 0; i < m->n; i++) {
        mem_free((char *)(uintptr_t)m->meta[i].key);
        mem_free((char *)(uintptr_t)m->meta[i].value);
    }
    m->n = 0;
}

/* ---- in --------------------------------------------------------------------------------------- */

static enum err_code read_use(const struct st_file *f, const char *role, struct policy_use *use, struct err *e)
{
    char key[96];
    const char *name = st_meta_get(f, role);
    if (!name)
        return err_set(e, ERR_MISSING, "no metadata %s", role);
    memset(use, 0, sizeof *use);
    if (strcmp(name, "none") == 0)
        return ERR_OK;
    const struct policy *p = policy_find(name);
    if (!p)
        return err_set(e, ERR_MISMATCH, "%s: policy \"%s\" is unknown to this version", role, name);
    policy_use_default(use, p);
    for (size_t i = 0; i < p->options->n; i++) {
        const struct opt_row *row = &p->options->rows[i];
        (void)snprintf(key, sizeof key, "%s.%s", role, row->name);
        const char *text = st_meta_get(f, key);
        if (!text)
            return err_set(e, ERR_MISMATCH, "no option %s; made by another version", key);
        if (opt_set_row(row, &use->opt, text, false, e))
            return err_wrap(e, "%s", key);
    }
    return ERR_OK;
}

static enum err_code read_time(const struct st_file *f, const char *key, int64_t *out, struct err *e)
{
    const char *text = st_meta_get(f, key);
    if (!text || !num_i64(text, strlen(text), out))
        return err_set(e, ERR_PARSE, "metadata %s is missing or not a number", key);
    return ERR_OK;
}

static enum err_code read_hash(const struct st_file *f, const char *key, uint64_t *out, struct err *e)
{
    const char *text = st_meta_get(f, key);
    int used = 0;
    if (!text || strlen(text) != HASH_HEX - 1 || sscanf(text, "%16" SCNx64 "%n", out, &used) != 1 ||
        used != HASH_HEX - 1)
        return err_set(e, ERR_PARSE, "metadata %s is missing or not a hash", key);
    return ERR_OK;
}

static enum err_code read_outlook(const struct st_file *f, struct learned *l, struct err *e)
{
    char hex[HASH_HEX];
    enum err_code rc;
    if (!st_find(f, "outlook.params"))
        return ERR_OK;
    hash_hex(outlook_layout_hash(), hex);
    const struct st_meta expect = {"outlook.layout", hex};
    if ((rc = ckpt_expect(f, &expect, 1, e)) || (rc = outlook_new(0, &l->outlook, e)))
        return rc;
    struct nn_params *p = nn_net_params(l->outlook.net);
    if ((rc = ckpt_copy(f, "outlook.params", ST_F32, p->value, p->total, e)))
        return rc;
    hash_hex(hash_of(p->value, p->total * sizeof(float)), hex);
    const struct st_meta whole = {"outlook.hash", hex};
    if ((rc = ckpt_expect(f, &whole, 1, e)))
        return err_wrap(e, "outlook.params are damaged");
    nn_net_pack(l->outlook.net);
    return ERR_OK;
}

static bool is_outlook(const struct policy_use *use)
{
    return use->policy && strcmp(use->policy->name, "outlook") == 0;
}

static enum err_code read_all(const struct st_file *f, struct learned *l, struct err *e)
{
    enum err_code rc;
    const char *kind = st_meta_get(f, "kind"), *scenario = st_meta_get(f, "scenario");
    if (!kind || strcmp(kind, kind_text) != 0)
        return err_set(e, ERR_MISSING, "not a capacity policy written by this version");
    (void)snprintf(l->scenario, sizeof l->scenario, "%s", scenario ? scenario : "");
    const char *state = st_meta_get(f, "state");
    l->interrupted = state && strcmp(state, "interrupted") == 0;
    if ((rc = read_use(f, "policy", &l->main, e)) || (rc = read_use(f, "base", &l->base, e)) ||
        (rc = read_hash(f, "data", &l->data_hash, e)) ||
        (rc = read_time(f, "train.from_us", &l->train_from_us, e)) ||
        (rc = read_time(f, "train.to_us", &l->train_to_us, e)))
        return rc;
    if (!l->main.policy)
        return err_set(e, ERR_PARSE, "names no policy");
    if ((rc = read_outlook(f, l, e)))
        return rc;
    if (l->main.policy->learned && !st_meta_get(f, "nn.hash"))
        return err_set(e, ERR_MISMATCH, "no metadata nn.hash; made by another version");
    bool needed = is_outlook(&l->main) || is_outlook(&l->base);
    return needed && !l->outlook.net ? err_set(e, ERR_MISSING, "names policy outlook but holds no outlook.params")
                                     : ERR_OK;
}

enum err_code learned_load(const char *path, struct learned *l, struct err *e)
{
    struct st_file *f;
    char hex[HASH_HEX];
    memset(l, 0, sizeof *l);
    enum err_code rc = st_open(path, &f, e);
    if (rc)
        return rc;
    rc = read_all(f, l, e);
    st_free(f);
    if (rc)
        err_wrap(e, "%s", path);
    if (!rc && l->main.policy->learned) {
        hash_hex(observation_layout_hash(), hex);
        const struct st_meta expect = {"layout", hex};
        rc = nn_policy_load(path, &expect, 1, &l->net, e);
    }
    if (rc)
        learned_fini(l);
    return rc;
}

static const char curve_name[] = "learning.curve";

struct st_tensor learned_curve_tensor(const double *rows, size_t n)
{
    struct st_tensor t = {.dtype = ST_F64, .n_dims = 1, .dim = {(int64_t)n * LEARNED_CURVE_COLUMNS}, .data = rows,
                          .n_bytes = n * LEARNED_CURVE_COLUMNS * sizeof(double)};
    (void)snprintf(t.name, sizeof t.name, "%s", curve_name);
    return t;
}

enum err_code learned_curve_load(const char *path, double **rows, size_t *n, struct err *e)
{
    struct st_file *f;
    *rows = NULL;
    *n = 0;
    enum err_code rc = st_open(path, &f, e);
    if (rc)
        return rc;
    const struct st_tensor *t = st_find(f, curve_name);
    if (t && (t->dtype != ST_F64 || t->n_dims != 1 || t->dim[0] % LEARNED_CURVE_COLUMNS))
        rc = err_set(e, ERR_MISMATCH, "%s: tensor %s has another shape", path, curve_name);
    if (t && !rc && t->dim[0] > 0) {
        *n = (size_t)t->dim[0] / LEARNED_CURVE_COLUMNS;
        *rows = mem_zero(*n, LEARNED_CURVE_COLUMNS * sizeof(double));
        memcpy(*rows, t->data, t->n_bytes);
    }
    st_free(f);
    return rc;
}

void learned_fini(struct learned *l)
{
    outlook_fini(&l->outlook);
    nn_policy_free(l->net);
    memset(l, 0, sizeof *l);
}

void learned_apply(struct learned *l, struct capacity_config *cfg)
{
    cfg->main = l->main;
    cfg->base = l->base;
    cfg->outlook = l->outlook.net ? &l->outlook : NULL;
    cfg->net = l->net;
}
