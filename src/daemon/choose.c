#include "daemon/choose.h"

#include <string.h>

#include "base/mem.h"

static bool is_file(const char *name)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(name), k = sizeof end - 1;
    return n > k && strcmp(name + n - k, end) == 0;
}

/* A network that is absent: each decision is then the fallback, with the error in its record. */
static void use_nothing(struct capacity_config *out, bool baseline)
{
    policy_use_default(&out->main, policy_find("ppo"));
    out->main.opt.ppo.on_error = baseline ? PPO_ON_ERROR_BASELINE : PPO_ON_ERROR_HOLD;
}

static void use_file(const char *path, const struct choose *c, struct capacity_config *out, struct learned *l,
                     struct err *why)
{
    if (learned_load(path, l, why)) {
        use_nothing(out, c->baseline);
        return;
    }
    learned_apply(l, out);
    if (out->main.policy->learned)
        out->main.opt.ppo.on_error = c->baseline ? PPO_ON_ERROR_BASELINE : PPO_ON_ERROR_HOLD;
}

static enum err_code use_name(const char *name, struct policy_use *use, struct err *e)
{
    const struct policy *p;
    bool guarded;
    enum err_code rc = policy_parse(name, &p, &guarded, e);
    if (!rc)
        policy_use_default(use, p);
    return rc;
}

const char *choose_file(const struct choose *c)
{
    if (strcmp(c->policy, "learned") == 0)
        return c->policy_file;
    return is_file(c->policy) ? c->policy : NULL;
}

enum err_code choose_policy(const struct choose *c, struct capacity_config *out, struct learned *l, struct err *why,
                            struct err *e)
{
    const char *name = strcmp(c->policy, "rules") == 0 ? c->rules : c->policy;
    memset(l, 0, sizeof *l);
    *why = (struct err){0};
    capacity_config_default(out, NULL);
    out->spec = *c->spec;
    out->guard = *c->guard;
    out->guarded = true;
    enum err_code rc = use_name(c->rules, &out->rule, e);
    if (rc)
        return err_wrap(e, "rules");
    const char *file = choose_file(c);
    if (file)
        use_file(file, c, out, l, why);
    else if ((rc = use_name(name, &out->main, e)))
        return rc;
    if (why->code == ERR_OK && !capacity_config_finish(out, why))
        return ERR_OK;
    if (!l->main.policy && why->code == ERR_OK) /* no learned policy involved: the spec is at fault */
        return ERR_INVAL;
    /* A file that loads but does not fit this build or target is as good as none. */
    use_nothing(out, c->baseline);
    memset(&out->base, 0, sizeof out->base);
    out->outlook = NULL;
    out->net = NULL;
    return capacity_config_finish(out, e);
}
