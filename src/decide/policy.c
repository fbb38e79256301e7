#include "decide/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "decide/policy_priv.h"

static const struct policy *const table[] = {
    &policy_static, &policy_threshold, &policy_hpa,     &policy_queue, &policy_predictive,
    &policy_mpc,    &policy_foresight, &policy_outlook, &policy_ppo,
};

size_t policy_count(void)
{
    return ARRAY_LEN(table);
}

const struct policy *policy_at(size_t i)
{
    return i < ARRAY_LEN(table) ? table[i] : NULL;
}

static const struct policy *find_n(const char *name, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strlen(table[i]->name) == n && memcmp(table[i]->name, name, n) == 0)
            return table[i];
    return NULL;
}

const struct policy *policy_find(const char *name)
{
    return find_n(name, strlen(name));
}

static const char *name_at(size_t i, const void *arg)
{
    (void)arg;
    return i < ARRAY_LEN(table) ? table[i]->name : NULL;
}

enum err_code policy_parse(const char *text, const struct policy **p, bool *guarded, struct err *e)
{
    size_t n = strcspn(text, "+-");
    const char *suffix = text + n;
    *p = find_n(text, n);
    if (!*p) {
        const char *near = opt_nearest(text, name_at, NULL);
        return err_set(e, ERR_MISSING, "policy: \"%s\" is unknown%s%s%s", text,
                       near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    if (strcmp(suffix, "+guard") == 0)
        *guarded = true;
    else if (strcmp(suffix, "-guard") == 0)
        *guarded = false;
    else if (*suffix)
        return err_set(e, ERR_PARSE, "policy: \"%s\": after %s only +guard or -guard may follow",
                       text, (*p)->name);
    else
        *guarded = (*p)->guarded;
    return ERR_OK;
}

enum err_code policy_option_set(const struct policy *p, union policy_options *o, const char *option,
                                double value, struct err *e)
{
    const struct opt_row *row = opt_find(p->options, option);
    char text[64];
    if (!row)
        return err_set(e, ERR_MISSING, "policy %s: no option \"%s\"", p->name, option);
    if (!isfinite(value))
        return err_set(e, ERR_NUMERIC, "policy %s: %s: not a finite number", p->name, option);
    switch ((int)row->type) {
    case OPT_TYPE_DOUBLE:
        (void)snprintf(text, sizeof text, "%.17g", value);
        break;
    case OPT_TYPE_INT:
        (void)snprintf(text, sizeof text, "%.0f", value);
        break;
    case OPT_TYPE_DURATION:
        (void)snprintf(text, sizeof text, "%.0fus", value);
        break;
    default:
        return err_set(e, ERR_INVAL, "policy %s: %s is not a number", p->name, option);
    }
    if (opt_set_row(row, o, text, false, e))
        return err_wrap(e, "policy %s: %s", p->name, option);
    return ERR_OK;
}

enum err_code policy_option_get(const struct policy *p, const union policy_options *o,
                                const char *option, double *value, struct err *e)
{
    const struct opt_row *row = opt_find(p->options, option);
    int64_t i;
    if (!row)
        return err_set(e, ERR_MISSING, "policy %s: no option \"%s\"", p->name, option);
    const char *at = (const char *)o + row->offset;
    switch ((int)row->type) {
    case OPT_TYPE_DOUBLE:
        memcpy(value, at, sizeof *value);
        return ERR_OK;
    case OPT_TYPE_INT:
    case OPT_TYPE_DURATION:
        memcpy(&i, at, sizeof i);
        *value = (double)i;
        return ERR_OK;
    default:
        return err_set(e, ERR_INVAL, "policy %s: %s is not a number", p->name, option);
    }
}
