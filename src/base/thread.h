/* thread.h - a fixed pool of threads for loops over shards.
 *
 * Work is cut into shards whose number does not depend on the threads; the function sees only its shard
 * index, so results are the same for any number of threads as long as shard i writes shard i's
 * output and reductions run over shards in order afterwards.  Shard i of n goes to the same worker in every loop of n
 * shards, whose cache may still hold its data, unless another is idle first: so which thread runs a shard is
 * not fixed, and `worker` (0 .. n-1) may choose scratch memory and nothing else.
 * Waiting threads spin briefly, then sleep.  The caller works too: a pool of 1 starts no thread. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <stddef.h>

#include "base/err.h"

enum { THREADS_MAX = 256 };

struct thread_pool;

int thread_cpus(void); /* CPUs this process may run on */
/* n in 1 .. THREADS_MAX.  Errors: ERR_RANGE, ERR_IO when a thread cannot start. */
NODISCARD enum err_code thread_pool_new(int n, struct thread_pool **out, struct err *e);
void thread_pool_free(struct thread_pool *pool); /* NULL is fine */
int thread_pool_size(const struct thread_pool *pool); /* 1 for NULL */
/* fn(shard, worker, arg) for every shard in 0 .. n_shards-1; returns when all are done.  Not reentrant: one
 * caller at a time, and fn must not call it on the same pool.  A NULL pool runs in the caller. */
void parallel_for(struct thread_pool *pool, size_t n_shards,
                  void (*fn)(size_t shard, int worker, void *arg), void *arg);
/* Part i of n things cut into `parts`: [*lo, *hi). */
void thread_part(size_t n, size_t parts, size_t i, size_t *lo, size_t *hi);

#endif
