#include "profile/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "profile/profile_priv.h"

static const struct profile_row rows[PROFILE_FIELDS] = {
#define X(id, member, k, in_spec, in_meta, lo, hi, words)                                          \
    [PROFILE_F_##id] = {.spec = (in_spec),                                                         \
                        .meta = (in_meta),                                                         \
                        .what = (words),                                                           \
                        .kind = PROFILE_##k,                                                       \
                        .offset = offsetof(struct profile, member),                                \
                        .min = (lo),                                                               \
                        .max = (hi)},
    PROFILE_FIELD_LIST(X)
#undef X
};

const struct profile_row *profile_row(enum profile_field f)
{
    return &rows[f];
}

const char *profile_source_name(enum profile_source s)
{
    static const char *const names[PROFILE_SOURCES] = {
        [PROFILE_UNSET] = "not stated",    [PROFILE_DEFAULTS] = "defaults",
        [PROFILE_HISTORY] = "history",     [PROFILE_TEMPLATE] = "pod template",
        [PROFILE_WORKLOAD] = "workload",   [PROFILE_CONFIG] = "configuration",
        [PROFILE_SPEC] = "CapacityTarget",
    };
    return names[s];
}

/* ---- faults ---------------------------------------------------------------------------------- */

void profile_faults_init(struct profile_faults *f)
{
    *f = (struct profile_faults){0};
}

void profile_fault(struct profile_faults *f, const char *fmt, ...)
{
    enum { TAIL = 24 }; /* "; and 2147483647 more" */
    char one[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(one, sizeof one, fmt, args);
    va_end(args);
    one[utf8_valid_prefix(one, strlen(one))] = '\0'; /* a character cut in the middle */
    size_t n = strlen(one), gap = f->n_shown ? 2 : 0;
    bool fits = f->n == f->n_shown && f->used + gap + n + TAIL < sizeof f->text;
    f->n++;
    if (fits) {
        (void)snprintf(f->text + f->used, sizeof f->text - f->used, "%s%s", gap ? "; " : "", one);
        f->used += gap + n;
        f->n_shown++;
    } else {
        (void)snprintf(f->text + f->used, sizeof f->text - f->used, "; and %d more",
                       f->n - f->n_shown);
    }
}

void profile_show(const char *text, char out[PROFILE_SHOWN])
{
    size_t n = strlen(text), most = 64;
    bool cut = n > most;
    char shown[72];
    (void)snprintf(shown, sizeof shown, "%.*s", (int)(cut ? most : n), text);
    utf8_make_plain(shown);
    for (char *c = shown; *c; c++)
        *c = *c == '\n' || *c == '\t' || *c == '\r' ? ' ' : *c;
    (void)snprintf(out, PROFILE_SHOWN, "\"%s%s\"", shown, cut ? "..." : "");
}

/* ---- values ---------------------------------------------------------------------------------- */

bool profile_value_ok(const struct profile_row *r, const struct profile_value *v)
{
    switch (r->kind) {
    case PROFILE_INT:
    case PROFILE_CLASS:
        return v->i >= (int64_t)r->min && v->i <= (int64_t)r->max;
    case PROFILE_NUM:
        return isfinite(v->num) && v->num >= r->min && v->num <= r->max;
    case PROFILE_TEXT:
        return (double)v->n >= r->min && (double)v->n <= r->max && utf8_is_plain(v->text, v->n);
    case PROFILE_DURATION:
        return (double)v->i >= r->min * (double)US_PER_S &&
               (double)v->i <= r->max * (double)US_PER_S;
    case PROFILE_FLAG:
    case PROFILE_TIME:
        break;
    }
    return true;
}

void profile_expects(const struct profile_row *r, char out[96])
{
    switch (r->kind) {
    case PROFILE_INT:
        (void)snprintf(out, 96, "a whole number from %.0f to %.0f", r->min, r->max);
        return;
    case PROFILE_NUM:
        (void)snprintf(out, 96, "a number from %g to %g", r->min, r->max);
        return;
    case PROFILE_DURATION:
        (void)snprintf(out, 96, "seconds from %g to %g", r->min, r->max);
        return;
    case PROFILE_TEXT:
        (void)snprintf(out, 96, "printable text of %.0f to %.0f bytes", r->min, r->max);
        return;
    case PROFILE_FLAG:
        (void)snprintf(out, 96, "true or false");
        return;
    case PROFILE_CLASS:
        (void)snprintf(out, 96, "P0, P1, P2 or P3");
        return;
    case PROFILE_TIME:
        (void)snprintf(out, 96, "a time such as 2026-01-31T12:00:00Z");
        return;
    }
}

static void *member(struct profile *p, enum profile_field f)
{
    return (char *)p + rows[f].offset;
}

void profile_store(struct profile *p, enum profile_source source, enum profile_field f,
                   const struct profile_value *v)
{
    void *at = member(p, f);
    p->source[f] = (uint8_t)source;
    switch (rows[f].kind) {
    case PROFILE_INT:
    case PROFILE_CLASS:
        *(int32_t *)at = (int32_t)v->i;
        return;
    case PROFILE_NUM:
        *(double *)at = v->num;
        return;
    case PROFILE_DURATION:
    case PROFILE_TIME:
        *(int64_t *)at = v->i;
        return;
    case PROFILE_FLAG:
        *(bool *)at = v->flag;
        return;
    case PROFILE_TEXT: {
        char *copy = mem_zero(v->n + 1, 1);
        memcpy(copy, v->text, v->n);
        mem_free(*(char **)at);
        *(char **)at = copy;
        return;
    }
    }
}

/* ---- a layer --------------------------------------------------------------------------------- */

void profile_init(struct profile *p)
{
    *p = (struct profile){0};
}

void profile_fini(struct profile *p)
{
    for (int f = 0; f < PROFILE_FIELDS; f++)
        if (rows[f].kind == PROFILE_TEXT)
            mem_free(*(char **)member(p, (enum profile_field)f));
    for (int f = 0; f < FIELD_COUNT; f++)
        mem_free(p->query[f]);
    mem_free(p->curve);
    profile_init(p);
}

void profile_defaults(struct profile *p)
{
    static const struct {
        enum profile_field f;
        struct profile_value v;
    } table[] = {
        {PROFILE_F_MANAGED, {.flag = false}},   {PROFILE_F_PAUSED, {.flag = false}},
        {PROFILE_F_CLASS, {.i = CLASS_P0}},     {PROFILE_F_UNITS_MIN, {.i = 1}},
        {PROFILE_F_UNITS_MIN_SAFE, {.i = 0}},   {PROFILE_F_SLO_VIOLATION, {.num = 0.01}},
        {PROFILE_F_WEIGHT_LATENCY, {.num = 1}}, {PROFILE_F_WEIGHT_COST, {.num = 1}},
    };
    profile_init(p);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        profile_store(p, PROFILE_DEFAULTS, table[i].f, &table[i].v);
}

static void set(struct profile *p, enum profile_source source, enum profile_field f,
                const struct profile_value *v, const char *shown, const char *object,
                struct profile_faults *faults)
{
    char expected[96];
    if (profile_value_ok(&rows[f], v)) {
        profile_store(p, source, f, v);
        return;
    }
    profile_expects(&rows[f], expected);
    profile_fault(faults, "%s: %s: %s is not %s", object, rows[f].what, shown, expected);
}

void profile_set_int(struct profile *p, enum profile_source source, enum profile_field f, int64_t v,
                     const char *object, struct profile_faults *faults)
{
    char shown[32];
    enum profile_kind k = rows[f].kind;
    ASSERT(k == PROFILE_INT || k == PROFILE_CLASS || k == PROFILE_DURATION || k == PROFILE_TIME ||
           k == PROFILE_FLAG);
    if (k == PROFILE_DURATION)
        (void)snprintf(shown, sizeof shown, "%g s", (double)v / (double)US_PER_S);
    else
        (void)snprintf(shown, sizeof shown, "%lld", (long long)v);
    set(p, source, f, &(struct profile_value){.i = v, .flag = v != 0}, shown, object, faults);
}

void profile_set_num(struct profile *p, enum profile_source source, enum profile_field f, double v,
                     const char *object, struct profile_faults *faults)
{
    char shown[32];
    ASSERT(rows[f].kind == PROFILE_NUM);
    (void)snprintf(shown, sizeof shown, "%g", v);
    set(p, source, f, &(struct profile_value){.num = v}, shown, object, faults);
}

void profile_set_text(struct profile *p, enum profile_source source, enum profile_field f,
                      const char *v, const char *object, struct profile_faults *faults)
{
    char shown[PROFILE_SHOWN];
    ASSERT(rows[f].kind == PROFILE_TEXT);
    profile_show(v, shown);
    set(p, source, f, &(struct profile_value){.text = v, .n = strlen(v)}, shown, object, faults);
}

void profile_set_curve(struct profile *p, enum profile_source source,
                       const struct latency_point *point, int n, const char *object,
                       struct profile_faults *faults)
{
    if (n < 2 || n > PROFILE_CURVE_MAX) {
        profile_fault(faults, "%s: latency curve: %d points, expected 2 to %d", object, n,
                      PROFILE_CURVE_MAX);
        return;
    }
    struct latency_point *copy = mem_zero((size_t)n, sizeof *copy);
    memcpy(copy, point, (size_t)n * sizeof *copy);
    mem_free(p->curve);
    p->curve = copy;
    p->n_curve = n;
    p->curve_source = (uint8_t)source;
}
