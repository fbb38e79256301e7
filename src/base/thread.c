#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

enum { SPINS = 4000 }; /* about 50 us: longer than the gap between two loops of a minibatch */

struct worker {
    struct thread_pool *pool;
    int index;
    pthread_t thread;
};

/* Shards of one worker's block not yet begun, below the number of their loop: taking one and knowing which loop it
 * belongs to is one compare-and-swap. */
struct block {
    _Alignas(MEM_ALIGN) _Atomic uint64_t ticket;
};

/* One loop at a time.  Its shards are dealt in blocks, the same to the same worker every time, so that what a shard
 * left in a core's cache is found there by the next loop; who has finished his own takes from the others.
 * A loop is over when `done` counts every shard: a worker that overslept it is not waited for, which is what a
 * busy machine does to workers.  fn, arg and n_shards are written before the tickets of their loop and cannot
 * change before its last shard is done. */
struct thread_pool {
    int n;
    int n_started;
    struct worker *workers; /* [n], 0 is the caller */
    struct block *blocks;   /* [n] */
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* a loop began, or quit */
    pthread_cond_t idle; /* done reached n_shards */
    _Alignas(MEM_ALIGN) atomic_uint round; /* of the loop begun last */
    atomic_bool quit;
    size_t n_shards;
    void (*fn)(size_t shard, int worker, void *arg);
    void *arg;
    _Alignas(MEM_ALIGN) atomic_size_t done;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static uint32_t shards_left(uint64_t ticket)
{
    return (uint32_t)ticket;
}

/* A shard of the loop at work, of this worker's block or another's; false where none is left. */
static bool take_shard(struct thread_pool *pool, int worker, size_t *shard)
{
    for (int k = 0; k < pool->n; k++) {
        int owner = worker + k < pool->n ? worker + k : worker + k - pool->n;
        _Atomic uint64_t *ticket = &pool->blocks[owner].ticket;
        uint64_t t = atomic_load_explicit(ticket, memory_order_acquire);
        while (shards_left(t) > 0)
            if (atomic_compare_exchange_weak_explicit(ticket, &t, t - 1, memory_order_acquire, memory_order_acquire)) {
                size_t lo, hi;
                thread_part(pool->n_shards, (size_t)pool->n, (size_t)owner, &lo, &hi);
                *shard = hi - shards_left(t);
                return true;
            }
    }
    return false;
}

static void run_shards(struct thread_pool *pool, int worker)
{
    size_t shard;
    while (take_shard(pool, worker, &shard)) {
        size_t n = pool->n_shards;
        pool->fn(shard, worker, pool->arg);
        if (atomic_fetch_add_explicit(&pool->done, 1, memory_order_acq_rel) + 1 == n && worker != 0) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->idle);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

static bool is_called(struct thread_pool *pool, unsigned seen)
{
    return atomic_load_explicit(&pool->round, memory_order_acquire) != seen ||
           atomic_load_explicit(&pool->quit, memory_order_acquire);
}

static void wait_for_loop(struct thread_pool *pool, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (is_called(pool, seen))
            return;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    while (!is_called(pool, seen))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct thread_pool *pool = w->pool;
    for (unsigned seen = 0;;) {
        wait_for_loop(pool, seen);
        if (atomic_load_explicit(&pool->quit, memory_order_acquire))
            return NULL;
        seen = atomic_load_explicit(&pool->round, memory_order_acquire);
        run_shards(pool, w->index);
    }
}

static void wake_workers(struct thread_pool *pool)
{
    pthread_mutex_lock(&pool->mutex); /* a worker between its look and its sleep must not miss this */
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

static bool all_done(struct thread_pool *pool)
{
    return atomic_load_explicit(&pool->done, memory_order_acquire) == pool->n_shards;
}

static void wait_until_done(struct thread_pool *pool)
{
    for (int i = 0; i < SPINS; i++) {
        if (all_done(pool))
            return;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    while (!all_done(pool))
        pthread_cond_wait(&pool->idle, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

int thread_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1; /* more CPUs than cpu_set_t holds: nothing we run on */
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
}

enum err_code thread_pool_new(int n, struct thread_pool **out, struct err *e)
{
    *out = NULL;
    if (n < 1 || n > THREADS_MAX)
        return err_set(e, ERR_RANGE, "%d threads: allowed are 1 to %d", n, THREADS_MAX);
    struct thread_pool *pool = try_zero_aligned(1, sizeof *pool);
    struct block *blocks = try_zero_aligned((size_t)n, sizeof *blocks);
    if (!pool || !blocks) {
        mem_free(pool);
        mem_free(blocks);
        return err_set(e, ERR_NOMEM, "%d threads", n);
    }
    pool->n = n;
    pool->blocks = blocks;
    pool->workers = mem_zero((size_t)n, sizeof *pool->workers);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->idle, NULL);
    for (pool->n_started = 1; pool->n_started < n; pool->n_started++) {
        struct worker *w = &pool->workers[pool->n_started];
        *w = (struct worker){.pool = pool, .index = pool->n_started};
        int sys = pthread_create(&w->thread, NULL, worker_main, w);
        if (sys) {
            (void)err_sys(e, sys, "start thread %d of %d", pool->n_started + 1, n);
            thread_pool_free(pool);
            return ERR_IO;
        }
    }
    *out = pool;
    return ERR_OK;
}

void thread_pool_free(struct thread_pool *pool)
{
    if (!pool)
        return;
    atomic_store_explicit(&pool->quit, true, memory_order_release);
    wake_workers(pool);
    for (int i = 1; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->mutex);
    mem_free(pool->workers);
    mem_free(pool->blocks);
    mem_free(pool);
}

int thread_pool_size(const struct thread_pool *pool)
{
    return pool ? pool->n : 1;
}

void parallel_for(struct thread_pool *pool, size_t n_shards,
                  void (*fn)(size_t shard, int worker, void *arg), void *arg)
{
    if (!pool || pool->n == 1 || n_shards < 2) {
        for (size_t i = 0; i < n_shards; i++)
            fn(i, 0, arg);
        return;
    }
    ASSERT(n_shards <= UINT32_MAX);
    pool->fn = fn;
    pool->arg = arg;
    pool->n_shards = n_shards;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    unsigned round = atomic_load_explicit(&pool->round, memory_order_relaxed) + 1;
    for (int i = 0; i < pool->n; i++) {
        size_t lo, hi;
        thread_part(n_shards, (size_t)pool->n, (size_t)i, &lo, &hi);
        atomic_store_explicit(&pool->blocks[i].ticket, (uint64_t)round << 32 | (hi - lo), memory_order_release);
    }
    atomic_store_explicit(&pool->round, round, memory_order_release);
    wake_workers(pool);
    run_shards(pool, 0);
    wait_until_done(pool);
}

void thread_part(size_t n, size_t parts, size_t i, size_t *lo, size_t *hi)
{
    ASSERT(parts > 0 && i < parts);
    size_t each = n / parts, rest = n % parts;
    *lo = i * each + (i < rest ? i : rest);
    *hi = *lo + each + (i < rest);
}
