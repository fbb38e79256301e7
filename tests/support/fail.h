/* fail.h - makes the n-th call of one kind fail, so that a test can let each of them fail in turn.
 *
 * Test binaries are linked with --wrap for the functions below (Makefile, WRAPPED): calls from src/ arrive here first
 * and go on to the real function unless it is their turn.  src/ has no hook for it.  What base/mem.h promises never
 * fails (mem_*) is left alone.  Counted in the calling thread only. */
#ifndef TESTS_SUPPORT_FAIL_H
#define TESTS_SUPPORT_FAIL_H

#include <stdbool.h>

#include "base/err.h"

enum fail_kind {
    FAIL_ALLOC,    /* try_zero, try_grow, try_zero_aligned: NULL */
    FAIL_LIBRARY,  /* malloc and its kin called by a library rather than by base/mem: NULL.  Never under sanitizers,
                      see alloc_count.h */
    FAIL_SQL_STEP, /* sqlite3_step: `code` is SQLite's */
    FAIL_OPEN,     /* these leave `code` in errno */
    FAIL_READ,
    FAIL_WRITE,
    FAIL_SYNC,
    FAIL_LINK,
    FAIL_RENAME,
    FAIL_CLOSE, /* the descriptor is closed all the same, as Linux does */
    FAIL_KINDS
};

/* From now on the nth call (from 1) of the kind fails, once.  One at a time. */
void fail_at(enum fail_kind kind, long nth, int code);
/* Back to normal.  True: a call did fail. */
bool fail_off(void);
/* Until fail_off(): write() takes one byte a call, read() gives one, every second call is interrupted. */
void fail_in_small_parts(void);

/* For alloc_count.c: whether it is the turn of this call. */
bool fail_library_alloc(void);

/* Calls run with the 1st, 2nd ... call of the kind failing, until it meets no failure; each run that does returns
 * `want`, and the last one is ok.  The number of failures. */
long fail_sweep(enum fail_kind kind, int code, enum err_code want,
                enum err_code (*run)(void *ctx, struct err *e), void *ctx);

#endif
