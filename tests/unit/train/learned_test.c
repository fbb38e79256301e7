/* learned_test.c - a policy file gives back what was put in, and refuses what it does not fit. */
#include "base/hash.h"
#include "nn/net.h"
#include "tests/unit/train/learn_fixture.h"
#include "train/evaluate.h"
#include "train/learned.h"

struct file_fixture {
    struct scenario sc;
    struct world *w;
    struct policy_use main, base;
    struct outlook outlook;
    const char *path;
};

/* Writes an outlook policy with options of its own. */
static struct file_fixture *fixture_new(void)
{
    struct file_fixture *f = mem_zero(1, sizeof *f);
    struct learned_meta m;
    struct err e;
    f->w = learn_world(&f->sc);
    policy_use_default(&f->main, policy_find("outlook"));
    policy_use_default(&f->base, NULL);
    f->main.opt.outlook.lambda = 123.25;
    f->main.opt.outlook.hold_us = 777 * US_PER_S;
    assert_ok(outlook_new(5, &f->outlook, &e), &e);
    learned_meta_init(&m, f->w, &f->main, &f->base, &f->outlook, 42);
    f->path = test_path("%s/policy.safetensors", test_tmp_dir());
    assert_ok(st_write(f->path, &m.extra, 1, m.meta, m.n, &e), &e);
    learned_meta_fini(&m);
    return f;
}

static void fixture_free(struct file_fixture *f)
{
    outlook_fini(&f->outlook);
    world_free(f->w);
    scenario_fini(&f->sc);
    mem_free(f);
}

TEST(a_policy_file_gives_back_options_network_and_provenance)
{
    struct file_fixture *f = fixture_new();
    struct learned l;
    struct err e;
    assert_ok(learned_load(f->path, &l, &e), &e);
    assert_string_equal(l.main.policy->name, "outlook");
    assert_null(l.base.policy);
    assert_null(l.net);
    assert_memory_equal(&l.main.opt.outlook, &f->main.opt.outlook, sizeof(struct outlook_options));
    assert_true(l.data_hash == f->w->data_hash);
    assert_int_equal(l.train_from_us, f->w->start_us);
    assert_int_equal(l.train_to_us, f->w->start_us + f->w->train_end * f->sc.step_us);
    assert_string_equal(l.scenario, "small");
    const struct nn_params *p = nn_net_params_const(l.outlook.net),
                           *q = nn_net_params_const(f->outlook.net);
    assert_int_equal(p->total, q->total);
    assert_memory_equal(p->value, q->value, p->total * sizeof(float));
    float x[OUTLOOK_FEATURES], a[OUTLOOK_OUTPUTS], b[OUTLOOK_OUTPUTS];
    for (int i = 0; i < OUTLOOK_FEATURES; i++)
        x[i] = 0.1f * (float)i;
    outlook_logits(&l.outlook, x, 1, a);
    outlook_logits(&f->outlook, x, 1, b);
    assert_memory_equal(a, b, sizeof a);
    learned_fini(&l);
    fixture_free(f);
}

TEST(a_loaded_policy_decides_as_the_one_in_memory)
{
    struct file_fixture *f = fixture_new();
    struct learned l;
    struct err e;
    struct capacity_config a, b;
    struct chance *c = chance_of(f->w, 3);
    struct run_result *x = mem_zero(2, sizeof *x), *y = x + 1;
    assert_ok(learned_load(f->path, &l, &e), &e);
    assert_ok(world_config(f->w, &f->main, true, &a, &e), &e);
    a.outlook = &f->outlook;
    capacity_config_default(&b, l.main.policy);
    b.spec = f->w->sim.spec;
    b.guard = f->sc.guard;
    learned_apply(&l, &b);
    assert_ok(capacity_config_finish(&b, &e), &e);
    struct run_opts o = run_opts_default(f->w);
    assert_ok(run_policy(f->w, c, &a, &o, x, &e), &e);
    assert_ok(run_policy(f->w, c, &b, &o, y, &e), &e);
    assert_true(x->hash == y->hash);
    assert_true(x->total.actions > 0);
    mem_free(x);
    chance_free(c);
    learned_fini(&l);
    fixture_free(f);
}

/* ---- refusals ---------------------------------------------------------------------------------
 */

static unsigned char *find(unsigned char *b, size_t n, const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i + len <= n; i++)
        if (memcmp(b + i, text, len) == 0)
            return b + i;
    fail_msg("the file lacks \"%s\"", text);
    return NULL;
}

/* The file with the text `old` overwritten by as many bytes of `new`. */
static const char *edited(const struct file_fixture *f, const char *old, const char *new)
{
    size_t n;
    unsigned char *b = file_bytes(f->path, &n);
    const char *path = test_path("%s/edited.safetensors", test_tmp_dir());
    assert_int_equal(strlen(old), strlen(new));
    memcpy(find(b, n, old), new, strlen(new));
    test_write_file(path, b, n);
    mem_free(b);
    return path;
}

TEST(a_file_of_another_layout_is_refused_and_says_what_differs)
{
    struct file_fixture *f = fixture_new();
    struct learned l;
    struct err e;
    char hex[HASH_HEX];
    hash_hex(outlook_layout_hash(), hex);
    assert_err(learned_load(edited(f, hex, "0123456789abcdef"), &l, &e), ERR_MISMATCH, &e,
               "outlook.layout");
    assert_non_null(strstr(e.msg, hex));                /* wanted */
    assert_non_null(strstr(e.msg, "0123456789abcdef")); /* found */
    assert_non_null(strstr(e.msg, "edited.safetensors"));
    fixture_free(f);
}

TEST(files_that_are_no_policies_are_refused)
{
    static const struct {
        const char *old, *new, *what;
        enum err_code code;
    } cases[] = {
        {"sluice capacity policy 1", "sluice capacity policy 2", "not a capacity policy",
         ERR_MISSING},
        {"\"policy\":\"outlook\"", "\"policy\":\"outl00k\"", "outl00k", ERR_MISMATCH},
        {"policy.lambda", "policy.lamda_", "policy.lambda", ERR_MISMATCH},
        {"123.25", "-23.25", "policy.lambda", ERR_RANGE},
        {"123.25", "123,25", "policy.lambda", ERR_PARSE},
        {"train.to_us", "train.to_ms", "train.to_us", ERR_PARSE},
        {"outlook.params", "outlook.harams", "holds no outlook.params", ERR_MISSING},
    };
    struct file_fixture *f = fixture_new();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct learned l;
        struct err e;
        enum err_code rc = learned_load(edited(f, cases[i].old, cases[i].new), &l, &e);
        if (rc != cases[i].code || (rc && !strstr(e.msg, cases[i].what)))
            fail_msg("case %zu: %s: %s", i, err_code_text(rc), rc ? e.msg : "");
    }
    fixture_free(f);
}

TEST(a_file_that_is_missing_empty_cut_or_binary_is_refused_by_name)
{
    struct file_fixture *f = fixture_new();
    struct learned l;
    struct err e;
    size_t n;
    unsigned char *b = file_bytes(f->path, &n);
    const char *path = test_path("%s/broken.safetensors", test_tmp_dir());
    assert_err(learned_load("/nonexistent/p.safetensors", &l, &e), ERR_IO, &e,
               "/nonexistent/p.safetensors");
    for (size_t size = 0; size < n; size = size < 64 ? size + 1 : size + n / 40) {
        test_write_file(path, b, size);
        assert_true(learned_load(path, &l, &e) != ERR_OK);
        assert_non_null(strstr(e.msg, "broken.safetensors"));
    }
    struct rng rng = rng_stream(test_seed(), "binary");
    for (size_t i = 0; i < n; i++)
        b[i] = (unsigned char)rng_next(&rng);
    test_write_file(path, b, n);
    assert_true(learned_load(path, &l, &e) != ERR_OK);
    mem_free(b);
    fixture_free(f);
}

/* Flips a bit that far from the end, where the values are. */
static void flip_weight(const char *path, size_t from_end)
{
    size_t n;
    unsigned char *b = file_bytes(path, &n);
    b[n - from_end] ^= 1;
    test_write_file(path, b, n);
    mem_free(b);
}

TEST(a_flipped_bit_of_a_weight_is_noticed)
{
    struct file_fixture *f = fixture_new();
    struct learned l;
    struct err e;
    size_t n_bytes = nn_net_params_const(f->outlook.net)->total * sizeof(float);
    for (size_t from_end = 1; from_end <= n_bytes; from_end += n_bytes / 7) {
        flip_weight(f->path, from_end);
        assert_err(learned_load(f->path, &l, &e), ERR_MISMATCH, &e, "outlook.params are damaged");
        flip_weight(f->path, from_end);
    }
    assert_ok(learned_load(f->path, &l, &e), &e);
    learned_fini(&l);
    assert_err(learned_load(edited(f, "outlook.hash", "outlook.hush"), &l, &e), ERR_MISMATCH, &e,
               "outlook.hash: the file has none");
    fixture_free(f);
}

/* Any single damaged byte: an error, or a policy that runs. */
TEST(a_damaged_byte_never_crashes_the_reader)
{
    struct file_fixture *f = fixture_new();
    struct err e;
    size_t n;
    unsigned char *b = file_bytes(f->path, &n);
    const char *path = test_path("%s/damaged.safetensors", test_tmp_dir());
    struct rng rng = rng_stream(test_seed(), "damage");
    int refused = 0;
    for (int k = 0; k < 400; k++) {
        struct learned l;
        size_t at = rng_below(&rng, (uint32_t)(k % 2      ? n
                                               : n < 4096 ? n
                                                          : 4096)); /* half of them in the header */
        unsigned char was = b[at];
        b[at] ^= (unsigned char)(1 + rng_below(&rng, 255));
        test_write_file(path, b, n);
        if (learned_load(path, &l, &e))
            refused++;
        else
            learned_fini(&l);
        b[at] = was;
    }
    assert_in_range(refused, 10, 399); /* free text may be any */
    mem_free(b);
    fixture_free(f);
}

/* ---- networks that act ------------------------------------------------------------------------
 */

TEST(a_trained_network_is_read_back_and_refused_for_other_observations)
{
    struct scenario sc;
    struct err e;
    struct learned l;
    struct world *w = learn_world(&sc);
    struct learn_opts o = learn_small(LEARN_PPO, PPO_BASE_PREDICTIVE);
    struct learn_report *r = mem_zero(1, sizeof *r);
    const char *path = test_path("%s/ppo.safetensors", test_tmp_dir());
    o.steps = 2048;
    assert_ok(learn_run(w, &o, path, NULL, NULL, r, &e), &e);
    assert_ok(learned_load(path, &l, &e), &e);
    assert_string_equal(l.main.policy->name, "ppo");
    assert_string_equal(l.base.policy->name, "predictive");
    assert_int_equal(l.main.opt.ppo.base, PPO_BASE_PREDICTIVE);
    assert_int_equal(l.main.opt.ppo.residual, PPO_RESIDUAL_UNITS);
    assert_non_null(l.net);
    assert_null(l.outlook.net);
    learned_fini(&l);

    size_t n;
    char hex[HASH_HEX];
    unsigned char *b = file_bytes(path, &n);
    hash_hex(observation_layout_hash(), hex);
    memcpy(find(b, n, hex), "0123456789abcdef", 16);
    const char *other = test_path("%s/other.safetensors", test_tmp_dir());
    test_write_file(other, b, n);
    assert_err(learned_load(other, &l, &e), ERR_MISMATCH, &e, "layout");
    assert_non_null(strstr(e.msg, hex));
    mem_free(b);
    mem_free(r);
    world_free(w);
    scenario_fini(&sc);
}

TEST(a_policy_trained_on_the_days_to_be_tested_is_refused)
{
    struct file_fixture *f = fixture_new();
    struct contender c;
    struct learned l;
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    struct err e;
    assert_ok(contender_parse(f->path, &c, &e), &e);
    assert_ok(contender_config(&c, f->w, &l, cfg, &e), &e); /* trained on the first part: fine */
    learned_fini(&l);
    f->sc.train_frac = 0.3; /* the same scenario, but its test days begin earlier */
    float *demand = mem_zero((size_t)f->w->n, sizeof *demand);
    memcpy(demand, f->w->demand, (size_t)f->w->n * sizeof *demand);
    struct world *early = world_of(&f->sc, demand, NULL, f->w->n);
    assert_err(contender_config(&c, early, &l, cfg, &e), ERR_MISMATCH, &e,
               "was trained on days that are tested");
    learned_fini(&l);
    mem_free(f->sc.name);
    f->sc.name = mem_strdup("renamed"); /* another name does not make other days of the same demand */
    assert_err(contender_config(&c, early, &l, cfg, &e), ERR_MISMATCH, &e,
               "was trained on days that are tested");
    learned_fini(&l);
    world_free(early);
    mem_free(demand);
    mem_free(cfg);
    fixture_free(f);
}
