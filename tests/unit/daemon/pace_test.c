#include "daemon/pace.h"

#include "base/clock.h"
#include "tests/support/test.h"

#define S INT64_C(1000000)
static const int64_t epoch = INT64_C(1700000000) * S;

TEST(in_production_decision_time_is_the_wall_clock)
{
    struct pace p = pace_init(1, epoch, epoch, 5 * S);
    int64_t jump;
    assert_int_equal(pace_now_us(&p, epoch + 10 * S, 15 * S, &jump), epoch + 10 * S);
    assert_int_equal(jump, 0);
    assert_int_equal(pace_from_real(&p, 42), 42);
    assert_int_equal(pace_real_span(&p, 15 * S), 15 * S);
}

TEST(in_a_rehearsal_it_runs_faster_from_the_epoch_on)
{
    struct pace p = pace_init(60, epoch, epoch, 0);
    int64_t jump;
    assert_int_equal(pace_now_us(&p, epoch + 2 * S, 2 * S, &jump), epoch + 120 * S);
    assert_int_equal(pace_from_real(&p, epoch + 3 * S), epoch + 180 * S);
    assert_int_equal(pace_real_span(&p, 15 * S), S / 4);
}

TEST(a_step_of_the_wall_clock_is_told_once_and_then_followed)
{
    struct pace p = pace_init(1, epoch, epoch, 0);
    int64_t jump;
    assert_int_equal(pace_now_us(&p, epoch + 100 * S, 1 * S, &jump), epoch + 100 * S);
    assert_int_equal(jump, 99 * S);
    (void)pace_now_us(&p, epoch + 101 * S, 2 * S, &jump);
    assert_int_equal(jump, 0);
    (void)pace_now_us(&p, epoch + 2 * S, 3 * S, &jump);
    assert_int_equal(jump, -100 * S);
}

TEST(drift_under_a_second_does_not_move_decision_time)
{
    struct pace p = pace_init(1, epoch, epoch, 0);
    int64_t jump;
    assert_int_equal(pace_now_us(&p, epoch + S + 400000, S, &jump), epoch + S);
    assert_int_equal(jump, 0);
}
