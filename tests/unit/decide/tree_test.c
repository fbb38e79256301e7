/* tree_test.c - the distilled tree finds rules that are there, measures itself, and can be read. */
#include "decide/tree.h"

#include "base/mem.h"
#include "tests/unit/decide/decide_fixture.h"

enum { ROWS = 6000, F = CAPACITY_OBS };

struct rows {
    float obs[ROWS * F];
    uint8_t label[ROWS];
};

/* The rule to find: out when need > 1, in when need < 0.6 and nothing warms, else hold. */
static uint8_t rule(const float *o)
{
    return o[OBS_NEED_NOW] > 1 ? 2 : o[OBS_NEED_NOW] < 0.6f && o[OBS_WARMING] < 0.1f ? 0 : 1;
}

static struct rows *make_rows(double noise)
{
    struct rows *r = mem_zero(1, sizeof *r);
    struct rng rng = rng_stream(test_seed(), "tree");
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < F; k++)
            r->obs[i * F + k] = 1.5f * (float)rng_unit(&rng);
        r->label[i] = rng_unit(&rng) < noise ? (uint8_t)rng_below(&rng, 3) : rule(r->obs + i * F);
    }
    return r;
}

TEST(tree_finds_a_rule_that_is_there)
{
    struct rows *r = make_rows(0);
    struct tree t;
    struct err e;
    struct tree_opts o = tree_opts_default();
    size_t n = ROWS * 2 / 3;
    assert_ok(tree_fit(r->obs, r->label, n, &o, &t, &e), &e);
    struct tree_fidelity f = tree_fidelity(&t, r->obs + n * F, r->label + n, ROWS - n);
    assert_true(f.agreement > 0.98 && f.balanced > 0.95);
    assert_true(f.majority < 0.7);
    assert_int_equal(f.n, ROWS - n);
    assert_int_equal(t.node[0].feature, OBS_NEED_NOW);
    mem_free(r);
}

TEST(tree_fidelity_falls_with_noise_and_is_measured_on_other_rows)
{
    struct rows *r = make_rows(0.3);
    struct tree t;
    struct err e;
    struct tree_opts o = tree_opts_default();
    size_t n = ROWS / 2;
    assert_ok(tree_fit(r->obs, r->label, n, &o, &t, &e), &e);
    struct tree_fidelity f = tree_fidelity(&t, r->obs + n * F, r->label + n, ROWS - n);
    assert_near(f.agreement, 0.8, 0.04, 0);
    mem_free(r);
}

TEST(tree_is_the_same_for_the_same_rows_and_small)
{
    struct rows *r = make_rows(0.1);
    struct tree a, b;
    struct err e;
    struct tree_opts o = tree_opts_default();
    for (int depth = 1; depth <= TREE_DEPTH_MAX; depth++) {
        o.depth = depth;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        assert_ok(tree_fit(r->obs, r->label, ROWS, &o, &a, &e), &e);
        assert_ok(tree_fit(r->obs, r->label, ROWS, &o, &b, &e), &e);
        assert_memory_equal(&a, &b, sizeof a);
        assert_true(a.n_nodes < 2 << depth);
    }
    mem_free(r);
}

TEST(tree_of_one_class_is_a_leaf)
{
    struct rows *r = make_rows(0);
    struct tree t;
    struct err e;
    struct tree_opts o = tree_opts_default();
    memset(r->label, 1, sizeof r->label);
    assert_ok(tree_fit(r->obs, r->label, ROWS, &o, &t, &e), &e);
    assert_int_equal(t.n_nodes, 1);
    assert_int_equal(tree_predict(&t, r->obs), 1);
    assert_ok(tree_fit(r->obs, r->label, 1, &o, &t, &e), &e);
    assert_int_equal(t.n_nodes, 1);
    struct tree_fidelity none = tree_fidelity(&t, r->obs, r->label, 0);
    assert_true(isnan(none.agreement));
    mem_free(r);
}

TEST(tree_can_be_read)
{
    static const char *const names[] = {"in", "hold", "out"};
    struct rows *r = make_rows(0);
    struct buf out = buf_init(1 << 16);
    struct tree t;
    struct err e;
    struct tree_opts o = tree_opts_default();
    o.depth = 2;
    assert_ok(tree_fit(r->obs, r->label, ROWS, &o, &t, &e), &e);
    tree_text(&t, names, &out);
    assert_non_null(strstr(out.p, "need_now >= 1"));
    assert_non_null(strstr(out.p, ": out (1.00 of"));
    assert_ok(buf_check(&out, &e), &e);
    buf_fini(&out);
    mem_free(r);
}

TEST(tree_refuses_what_it_cannot_learn_from)
{
    struct rows *r = make_rows(0);
    struct tree t;
    struct err e;
    struct tree_opts good = tree_opts_default(), o = good;
    assert_err(tree_fit(r->obs, r->label, 0, &o, &t, &e), ERR_INVAL, &e, "no decisions");
    assert_err(tree_fit(r->obs, r->label, TREE_ROWS_MAX + 1, &o, &t, &e), ERR_LIMIT, &e, "at most");
    o.depth = 5;
    assert_err(tree_fit(r->obs, r->label, ROWS, &o, &t, &e), ERR_INVAL, &e, "depth 5");
    o = good;
    o.n_classes = 9;
    assert_err(tree_fit(r->obs, r->label, ROWS, &o, &t, &e), ERR_INVAL, &e, "9 classes");
    o = good;
    r->label[7] = 3;
    assert_err(tree_fit(r->obs, r->label, ROWS, &o, &t, &e), ERR_INVAL, &e,
               "decision 7 has class 3");
    r->label[7] = 0;
    r->obs[2 * F + OBS_QUEUE_PER_UNIT] = NAN;
    assert_err(tree_fit(r->obs, r->label, ROWS, &o, &t, &e), ERR_NUMERIC, &e, "queue_per_unit");
    mem_free(r);
}
