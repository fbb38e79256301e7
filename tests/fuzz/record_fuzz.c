/* record_fuzz.c - what a store gives back to those who read it: a store is a file that anybody may have edited.
 *
 * Byte 0 chooses: 0 view, 1 observation, 2 choice, 3 guard chain, 4 configuration text.  A view that is accepted is
 * decided on by every policy; a record that is accepted is put into words; a configuration that is accepted decides. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "daemon/record.h"
#include "decide/explain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { UNITS = 64, STEPS = 3 };

static void check(bool ok)
{
    if (!ok)
        abort();
}

struct base {
    struct latency_model latency;
    struct capacity_config cfg[16];
    size_t n;
};

static struct base *shared(void)
{
    static struct base b; /* built once: the sanitizers make it slow */
    if (b.n)
        return &b;
    check(!latency_from_erlang(25, 2, UNITS, 200, &b.latency, NULL));
    for (size_t i = 0; i < policy_count(); i++) {
        struct capacity_config *c = &b.cfg[b.n];
        if (strcmp(policy_at(i)->name, "outlook") == 0)
            continue;
        capacity_config_default(c, policy_at(i));
        c->guarded = true;
        c->spec = (struct capacity_spec){.units_min = 1, .units_max = UNITS, .gpus_per_unit = 1, .price_usd_h = 2,
                                         .slo_p99_ms = 200, .slo_violation_max = 0.01, .step_us = 15000000,
                                         .start_us = 150000000, .latency = &b.latency};
        check(!capacity_config_finish(c, NULL));
        b.n++;
    }
    return &b;
}

static void decide_on(const struct capacity_config *cfg, const struct capacity_view *first)
{
    static struct capacity_state state;
    static struct capacity_record record;
    struct capacity_view v = *first;
    struct capacity_plan plan;
    struct rng rng = rng_stream(1, "fuzz");
    capacity_state_init(cfg, &state);
    for (int i = 0; i < STEPS; i++) {
        decide_capacity(cfg, &v, &state, &rng, &state, &plan, &record);
        v.now_us += cfg->spec.step_us;
        v.sample_us += cfg->spec.step_us;
    }
}

static void try_view(const uint8_t *p, size_t n)
{
    struct capacity_view v;
    const struct store_decision d = {.view = {p, n}};
    if (record_view(&d, &v, NULL))
        return;
    for (size_t i = 0; i < shared()->n; i++)
        decide_on(&shared()->cfg[i], &v);
}

/* The other two blobs are of a real decision. */
static void try_record(int which, const uint8_t *p, size_t n)
{
    static unsigned char obs[16 + 4 * CAPACITY_OBS] = {RECORD_VERSION}, choice[256] = {RECORD_VERSION},
                         chain[2] = {RECORD_VERSION, 0};
    uint64_t layout = observation_layout_hash();
    struct capacity_record r;
    struct rng rng;
    bool drew;
    struct buf words = buf_init(1 << 16);
    memcpy(obs + 1, &layout, sizeof layout);
    choice[1 + 8 + 1 + 3 * 2 + 3 * 4 + 2] = CAPACITY_ACTIONS;
    struct store_decision d = {.id = 1,
                               .policy = "mpc",
                               .obs = {obs, 9 + 4 * CAPACITY_OBS},
                               .choice = {choice, 31 + 7 * CAPACITY_ACTIONS + 8},
                               .chain = {chain, 2}};
    struct store_blob *const blob[] = {&d.obs, &d.choice, &d.chain};
    *blob[which - 1] = (struct store_blob){p, n};
    if (!record_read(&d, &r, NULL))
        explain_decision(&r, NULL, true, &words);
    if (record_rng(&d, &rng, &drew, NULL))
        check(!drew);
    buf_fini(&words);
}

static void try_config(const uint8_t *p, size_t n)
{
    struct record_rebuilt *r;
    struct capacity_view v;
    char *text = try_zero(n + 1, 1);
    check(text != NULL);
    memcpy(text, p, n);
    if (!record_rebuild(text, "/nonexistent/policy", &r, NULL)) {
        struct capacity_config *cfg = record_rebuilt_config(r);
        capacity_view_init(cfg, &v);
        v.now_us = 1709510400000000;
        decide_on(cfg, &v);
        record_rebuilt_free(r);
    }
    mem_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    int which = data[0] % 5;
    if (which == 0)
        try_view(data + 1, size - 1);
    else if (which == 4)
        try_config(data + 1, size - 1);
    else
        try_record(which, data + 1, size - 1);
    return 0;
}

/* libfyaml 0.7.12 loses a 4 KB buffer when a quoted scalar is broken off after many quotes; seen as a leak inside the
 * library only, once per document that is refused anyway. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml";
}
