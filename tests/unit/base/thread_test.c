#include "base/thread.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/support/test.h"

enum { SHARDS = 37 };

struct job {
    uint64_t out[SHARDS];
    atomic_int calls;
    atomic_int workers_seen[8];
};

static void work(size_t shard, int worker, void *arg)
{
    struct job *job = arg;
    struct rng r = rng_from_key(rng_at(9, shard, 0));
    uint64_t v = 0;
    for (int i = 0; i < 2000; i++)
        v ^= rng_next(&r);
    job->out[shard] = v;
    atomic_fetch_add(&job->calls, 1);
    atomic_store(&job->workers_seen[worker], 1);
}

static uint64_t result(int n_threads, int rounds)
{
    struct err e;
    struct thread_pool *pool;
    struct job *job = mem_zero(1, sizeof *job);
    assert_ok(thread_pool_new(n_threads, &pool, &e), &e);
    assert_int_equal(thread_pool_size(pool), n_threads);
    for (int i = 0; i < rounds; i++)
        parallel_for(pool, SHARDS, work, job);
    assert_int_equal(job->calls, SHARDS * rounds);
    for (int i = n_threads; i < 8; i++)
        assert_int_equal(job->workers_seen[i], 0);
    uint64_t h = hash_of(job->out, sizeof job->out);
    thread_pool_free(pool);
    mem_free(job);
    return h;
}

TEST(threads_of_any_number_give_the_same_result)
{
    uint64_t want = result(1, 1);
    for (int n = 2; n <= 8; n++)
        assert_int_equal(result(n, 3), want);
}

TEST(threads_run_many_short_loops_without_losing_a_shard)
{
    (void)result(3, 2000);
}

static void add(size_t shard, int worker, void *arg)
{
    (void)worker;
    ((int *)arg)[shard]++;
}

TEST(threads_handle_no_shard_one_shard_and_no_pool)
{
    struct err e;
    struct thread_pool *pool;
    int count[3] = {0};
    assert_ok(thread_pool_new(4, &pool, &e), &e);
    parallel_for(pool, 0, add, count);
    assert_int_equal(count[0], 0);
    parallel_for(pool, 1, add, count);
    parallel_for(NULL, 2, add, count);
    parallel_for(pool, 3, add, count);
    assert_int_equal(count[0], 3);
    assert_int_equal(count[1], 2);
    assert_int_equal(count[2], 1);
    thread_pool_free(pool);
    thread_pool_free(NULL);
    assert_int_equal(thread_pool_size(NULL), 1);
}

TEST(threads_outside_their_range_are_refused)
{
    struct err e;
    struct thread_pool *pool;
    assert_err(thread_pool_new(0, &pool, &e), ERR_RANGE, &e, "0 threads");
    assert_err(thread_pool_new(THREADS_MAX + 1, &pool, &e), ERR_RANGE, &e, "1 to 256");
    assert_null(pool);
    assert_in_range(thread_cpus(), 1, THREADS_MAX);
}

TEST(parts_cover_everything_once_and_differ_by_at_most_one)
{
    for (size_t n = 0; n < 40; n++) {
        for (size_t parts = 1; parts < 9; parts++) {
            size_t end = 0;
            for (size_t i = 0; i < parts; i++) {
                size_t lo, hi;
                thread_part(n, parts, i, &lo, &hi);
                assert_int_equal(lo, end);
                assert_in_range(hi - lo, n / parts, n / parts + 1);
                end = hi;
            }
            assert_int_equal(end, n);
        }
    }
}
