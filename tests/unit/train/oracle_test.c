/* oracle_test.c - plans of hindsight: what they promise they keep, and they are near the bound. */
#include "sim/generate.h"
#include "tests/unit/train/bound_fixture.h"
#include "train/oracle.h"

struct planned {
    struct oracle_result result;
    int16_t units[BOUND_FIXTURE_STEPS];
};

static void plan(struct bound_fixture *f, uint64_t seed, int32_t from, int32_t to, int units0,
                 double limit, struct planned *p)
{
    struct err e;
    assert_ok(
        oracle_plan(&f->world, &f->trace, seed, from, to, units0, limit, p->units, &p->result, &e),
        &e);
}

/* Run the plan and hold the result to it. */
static void assert_kept(struct bound_fixture *f, uint64_t seed, int32_t from, int32_t to,
                        int units0, const struct planned *p)
{
    struct capsim_out out;
    double usd = 0;
    int misses = 0, counted = 0;
    capsim_reset(&f->lane, &f->world, &f->trace, seed, from, units0, &f->view);
    for (int32_t i = from; i < to; i++) {
        assert_in_range(p->units[i - from], 0, f->spec.units_max);
        capsim_step(&f->lane, &f->world, &f->trace, p->units[i - from], &f->view, &out);
        if (out.barred)
            continue;
        counted++;
        misses += out.miss;
        usd += (double)out.cost_usd;
    }
    assert_int_equal(p->result.misses, misses);
    assert_int_equal(p->result.counted, counted);
    assert_near(p->result.cost_usd, usd, 0, 1e-12);
    assert_near((double)p->result.unit_steps, usd, 0, 1e-6); /* 1 $ each */
}

static double bound_of(struct bound_fixture *f, uint64_t seed, int32_t from, int32_t to, int units0,
                       double limit)
{
    struct err e;
    double usd;
    assert_ok(bound_cost(&f->world, &f->trace, seed, from, to, units0, &limit, 1, &usd, &e), &e);
    return usd;
}

/* ---- hand-made ----------------------------------------------------------------------------- */

TEST(without_chance_the_plan_is_the_cheapest_one)
{
    static const struct {
        const char *what;
        int need[12];
        int units0;
        int usd;
    } row[] = {
        {"steady", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 2, 24},
        {"asked for in time", {1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3}, 1, 26},
        {"a short gap is held", {2, 2, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}, 2, 24},
        {"a long gap is not", {2, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}, 2, 22},
        {"idle", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 4, 0},
    };
    static struct planned p;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct bound_fixture *f = bound_fixture_new(4, 3);
        bound_fixture_need(f, row[i].need, 12);
        plan(f, 1, 0, 12, row[i].units0, 0, &p);
        assert_kept(f, 1, 0, 12, row[i].units0, &p);
        if (!p.result.met || p.result.unit_steps != row[i].usd)
            fail_msg("%s: %d unit-steps, %d misses, want %d", row[i].what, (int)p.result.unit_steps,
                     p.result.misses, row[i].usd);
        bound_fixture_free(f);
    }
}

TEST(the_plan_gives_up_the_dearest_step)
{
    struct bound_fixture *f = bound_fixture_new(8, 3);
    static const int need[] = {2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 2,
                               2, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2, 2};
    int32_t n = ARRAY_LEN(need);
    static struct planned p;
    bound_fixture_need(f, need, n);
    f->demand[8] = f->demand[18] = 1.002f * f->load[2]; /* late with two units, but no backlog */
    plan(f, 1, 0, n, 2, 0, &p);
    assert_int_equal(p.result.unit_steps, 2 * n + 2 * 4);
    plan(f, 1, 0, n, 2, 1.0 / n, &p);
    assert_kept(f, 1, 0, n, 2, &p);
    assert_int_equal(p.result.misses, 1);
    assert_true(p.result.unit_steps <= 2 * n + 4);
    bound_fixture_free(f);
}

TEST(where_everything_may_be_missed_nothing_runs)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    static const int need[] = {3, 3, 3, 3, 3, 3};
    static struct planned p;
    bound_fixture_need(f, need, 6);
    plan(f, 1, 0, 6, 3, 1, &p);
    assert_kept(f, 1, 0, 6, 3, &p);
    assert_true(p.result.met);
    assert_int_equal(p.result.unit_steps, 0);
    bound_fixture_free(f);
}

TEST(a_limit_out_of_reach_is_told_and_missed_as_little_as_possible)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    int need[40];
    static struct planned p;
    for (int i = 0; i < 40; i++)
        need[i] = i < 10 ? 2 : 1;
    bound_fixture_need(f, need, 40);
    for (int i = 20; i < 30; i++)
        f->demand[i] = 3 * f->load[4]; /* more than all units serve */
    bound_fixture_start(f, 40);
    plan(f, 1, 0, 40, 2, 0.01, &p);
    assert_kept(f, 1, 0, 40, 2, &p);
    assert_false(p.result.met);
    assert_in_range(p.result.misses, 10, 13); /* and the backlog after them */
    bound_fixture_free(f);
}

TEST(gaps_of_the_history_cost_the_plan_nothing)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    int need[40];
    static struct planned p;
    for (int i = 0; i < 40; i++) {
        need[i] = i >= 10 && i < 30 ? 4 : 1;
        f->barred[i] = i >= 10 && i < 30;
    }
    bound_fixture_need(f, need, 40);
    for (int i = 24; i < 30; i++)
        f->demand[i] = 0; /* no backlog is left behind the gap */
    bound_fixture_start(f, 40);
    plan(f, 1, 0, 40, 1, 0, &p);
    assert_kept(f, 1, 0, 40, 1, &p);
    assert_true(p.result.met);
    assert_int_equal(p.result.counted, 20);
    assert_int_equal(p.result.unit_steps, 20);
    bound_fixture_free(f);
}

/* ---- with chance --------------------------------------------------------------------------- */

static struct bound_fixture *day(int units_max, bool bursty, int32_t n)
{
    struct bound_fixture *f = bound_fixture_new(units_max, 8);
    struct err e;
    struct capsim_cfg cfg = capsim_cfg_default();
    struct generate_cfg gen = generate_cfg_default();
    gen.peak_qps = (bursty ? 0.2 : 0.6) * units_max * f->latency.unit_qps;
    gen.bursts_per_day = bursty ? 40 : 0;
    assert_ok(generate_demand(&gen, 3, n, f->demand, &e), &e);
    f->cfg = cfg;
    bound_fixture_start(f, n);
    return f;
}

TEST(plans_keep_the_limit_and_stay_near_the_bound)
{
    static const struct {
        const char *what;
        int units_max;
        bool bursty;
        double limit, over_bound;
    } row[] = {
        {"smooth, 1 % misses", 64, false, 0.01, 1.03},
        {"smooth, 0.1 % misses", 64, false, 0.001, 1.04},
        {"bursty, 1 % misses", 64, true, 0.01, 1.05},
        {"few units, 2 % misses", 12, false, 0.02, 1.06},
        {"two words of slots", 100, false, 0.01, 1.03},
    };
    enum { N = 4000, FROM = 500 };
    static struct planned p;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct bound_fixture *f = day(row[i].units_max, row[i].bursty, N);
        int units0 = row[i].units_max / 2;
        plan(f, 7, FROM, N, units0, row[i].limit, &p);
        assert_kept(f, 7, FROM, N, units0, &p);
        double ratio = p.result.cost_usd / bound_of(f, 7, FROM, N, units0, row[i].limit);
        if (!p.result.met || ratio < 1 || ratio > row[i].over_bound)
            fail_msg("%s: %d misses of %d, %.4f x bound, want below %g", row[i].what,
                     p.result.misses, p.result.counted, ratio, row[i].over_bound);
        bound_fixture_free(f);
    }
}

/* 1024 minutes of a `time,value` file after `skip` rows; the peak so far takes 40 units at full
 * use. */
static int32_t load_minutes(struct bound_fixture *f, const char *path, int skip)
{
    enum { MINUTES = BOUND_FIXTURE_STEPS / 4 };
    float v[MINUTES + 1], peak = 0;
    int n = 0;
    char line[256];
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    for (int row = 0; n <= MINUTES && fgets(line, sizeof line, in); row++) {
        const char *comma = strchr(line, ',');
        float x = comma && row ? strtof(comma + 1, NULL) : 0;
        peak = x > peak ? x : peak;
        if (row > skip)
            v[n++] = x;
    }
    fclose(in);
    assert_int_equal(n, MINUTES + 1);
    for (int i = 0; i < BOUND_FIXTURE_STEPS; i++) {
        float share = (float)(i % 4) / 4;
        f->demand[i] = (v[i / 4] * (1 - share) + v[i / 4 + 1] * share) * 40 *
                       (float)f->latency.unit_qps / peak;
    }
    return BOUND_FIXTURE_STEPS;
}

TEST(plans_on_measured_loads_are_within_a_few_percent_of_the_bound)
{
    static const struct {
        const char *file;
        double over_bound;
    } row[] = {{"crane_input9.csv", 1.03},
               {"crane_input13.csv", 1.03},
               {"nasa_jul95_1m.csv", 1.06},
               {"twitter_stream_2021_1m.csv", 1.05}};
    const char *dir = test_data_dir();
    static struct planned p;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct bound_fixture *f = bound_fixture_new(64, 8);
        f->cfg = capsim_cfg_default();
        int32_t n = load_minutes(f, test_path("%s/autoscale-qps/%s", dir, row[i].file), 15000);
        bound_fixture_start(f, n);
        plan(f, 1, 0, n, 30, 0.01, &p);
        double ratio = p.result.cost_usd / bound_of(f, 1, 0, n, 30, 0.01);
        if (!p.result.met || ratio < 1 || ratio > row[i].over_bound)
            fail_msg("%s: %d misses of %d, %.4f x bound, want below %g", row[i].file,
                     p.result.misses, p.result.counted, ratio, row[i].over_bound);
        bound_fixture_free(f);
    }
}

TEST(the_same_inputs_give_the_same_plan)
{
    enum { N = 1500 };
    struct bound_fixture *f = day(64, true, N);
    static struct planned a, b;
    plan(f, 2, 0, N, 20, 0.01, &a);
    plan(f, 2, 0, N, 20, 0.01, &b);
    assert_memory_equal(a.units, b.units, N * sizeof a.units[0]);
    plan(f, 3, 0, N, 20, 0.01, &b);
    assert_memory_not_equal(a.units, b.units,
                            N * sizeof a.units[0]); /* another seed, another fate */
    bound_fixture_free(f);
}

TEST(units_wait_for_a_registry_that_is_down)
{
    enum { N = 1000 };
    struct bound_fixture *f = day(16, false, N);
    f->cfg.n_faults = 1;
    f->cfg.fault[0] =
        (struct capsim_fault){.kind = CAPSIM_REGISTRY_DOWN, .from_step = 400, .to_step = 640};
    for (int i = 0; i < N; i++)
        f->demand[i] = f->load[i < 500 ? 2 : 6] * 0.7f;
    bound_fixture_start(f, N);
    static struct planned p;
    plan(f, 1, 0, N, 3, 0.01, &p);
    assert_kept(f, 1, 0, N, 3, &p);
    assert_true(p.result.met); /* the units of step 500 are asked for before step 400 */
    bound_fixture_free(f);
}

TEST(bad_stretches_are_errors)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    bound_fixture_start(f, 100);
    static const struct {
        int32_t from, to;
        int units0;
        double limit;
        enum err_code rc;
        const char *text;
    } row[] = {
        {-1, 50, 1, 0.01, ERR_RANGE, "steps -1..50"}, {10, 10, 1, 0.01, ERR_RANGE, "steps 10..10"},
        {0, 101, 1, 0.01, ERR_RANGE, "steps 0..101"}, {0, 50, 5, 0.01, ERR_RANGE, "5 units"},
        {0, 50, -1, 0.01, ERR_RANGE, "-1 units"},     {0, 50, 1, -0.1, ERR_INVAL, "limit -0.1"},
        {0, 50, 1, NAN, ERR_INVAL, "limit nan"},
    };
    static struct planned p;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct err e;
        assert_err(oracle_plan(&f->world, &f->trace, 1, row[i].from, row[i].to, row[i].units0,
                               row[i].limit, p.units, &p.result, &e),
                   row[i].rc, &e, row[i].text);
    }
    bound_fixture_free(f);
}
