/* alloc_count.h - counts calls of the C library's allocator, for tests that steady state allocates nothing.
 *
 * Test binaries have malloc and its kin stand in front of the C library's.  Sanitizers bring an allocator of their own:
 * there nothing is counted and ALLOC_COUNTED is 0. */
#ifndef TESTS_SUPPORT_ALLOC_COUNT_H
#define TESTS_SUPPORT_ALLOC_COUNT_H

#include <stdlib.h> /* also for __GLIBC__ */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define ALLOC_COUNTED 1
/* Past the count. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);
#else
#define ALLOC_COUNTED 0
#endif

/* Calls so far of malloc, calloc, realloc and aligned_alloc, by all threads; 0 where none is counted. */
long alloc_calls(void);
/* The same by the calling thread: where a server that an earlier test began may still be at work. */
long alloc_calls_here(void);

#endif
