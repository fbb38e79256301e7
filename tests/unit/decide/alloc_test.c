/* alloc_test.c - deciding allocates nothing, shown by counting calls of the allocator. */
#include "tests/support/alloc_count.h"
#include "tests/unit/decide/net_fixture.h"

#if ALLOC_COUNTED
TEST(the_counter_counts)
{
    long before = alloc_calls();
    void *volatile p = malloc(10);
    free(p);
    assert_int_equal(alloc_calls(), before + 1);
}

TEST(a_decision_allocates_nothing)
{
    static struct fix f;
    for (size_t p = 0; p < policy_count(); p++) {
        fix_config(&f, policy_at(p)->name, true);
        policy_use_default(&f.cfg.rule, policy_find("hpa"));
        fix_start(&f);
        long before = alloc_calls();
        for (int i = 0; i < 200; i++) {
            fix_load(&f, 200 + 5 * (float)(i % 60));
            (void)fix_decide(&f);
            fix_tick(&f);
        }
        assert_int_equal(alloc_calls(), before);
    }
}

TEST(a_network_decides_without_allocating)
{
    static struct fix f;
    for (int shape = NN_SEPARATE; shape <= NN_LSTM; shape++) {
        fix_config(&f, "ppo", true);
        f.cfg.net = load_net((enum nn_shape)shape, 4);
        fix_start(&f);
        (void)fix_decide(&f);
        long before = alloc_calls();
        for (int i = 0; i < 50; i++) {
            fix_tick(&f);
            (void)fix_decide(&f);
        }
        assert_int_equal(alloc_calls(), before);
        assert_int_equal(f.record.error, ERR_OK);
        nn_policy_free(f.cfg.net);
    }
}
#endif
