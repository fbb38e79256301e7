#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/mem.h"

enum { SPINS = 4000 }; /* about 20 us: longer than the gap between two loops of a minibatch */

struct worker {
    struct thread_pool *pool;
    int index;
    pthread_t thread;
};

/* One loop at a time.  `round` changes when a loop starts; `next` hands out shards; `busy` counts workers
 * that have not yet left the loop. */
struct thread_pool {
    int n;
    int n_started;
    struct worker *workers; /* [n], 0 is the caller */
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* round changed */
    pthread_cond_t idle; /* busy reached 0 */
    atomic_uint round;
    atomic_size_t next;
    atomic_int busy;
    bool quit; /* these are written before `round` and read after it */
    size_t n_shards;
    void (*fn)(size_t shard, int worker, void *arg);
    void *arg;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void run_shards(struct thread_pool *pool, int worker)
{
    size_t shard;
    while ((shard = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->n_shards)
        pool->fn(shard, worker, pool->arg);
}

static void wait_for_round(struct thread_pool *pool, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->round, memory_order_acquire) != seen)
            return;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load_explicit(&pool->round, memory_order_acquire) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct thread_pool *pool = w->pool;
    for (unsigned seen = 0;; seen++) {
        wait_for_round(pool, seen);
        if (pool->quit)
            return NULL;
        run_shards(pool, w->index);
        if (atomic_fetch_sub_explicit(&pool->busy, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->idle);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

static void start_round(struct thread_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add_explicit(&pool->round, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

static void wait_until_idle(struct thread_pool *pool)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->busy, memory_order_acquire) == 0)
            return;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load_explicit(&pool->busy, memory_order_acquire) != 0)
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
    struct thread_pool *pool = mem_zero(1, sizeof *pool);
    pool->n = n;
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
    pool->quit = true;
    start_round(pool);
    for (int i = 1; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->idle);
    pthread_mutex_destroy(&pool->mutex);
    mem_free(pool->workers);
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
    pool->fn = fn;
    pool->arg = arg;
    pool->n_shards = n_shards;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->busy, pool->n - 1, memory_order_relaxed);
    start_round(pool);
    run_shards(pool, 0);
    wait_until_idle(pool);
}

void thread_part(size_t n, size_t parts, size_t i, size_t *lo, size_t *hi)
{
    ASSERT(parts > 0 && i < parts);
    size_t each = n / parts, rest = n % parts;
    *lo = i * each + (i < rest ? i : rest);
    *hi = *lo + each + (i < rest);
}
