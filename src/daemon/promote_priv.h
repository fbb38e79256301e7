/* promote_priv.h - between promote.c (replay, verdict) and promote_live.c (what was measured). */
#ifndef DAEMON_PROMOTE_PRIV_H
#define DAEMON_PROMOTE_PRIV_H

#include "daemon/promote.h"
#include "daemon/recorded.h"
#include "model/latency.h"

/* Mean of n differences with Student's 95 % interval; NaN bounds below two. */
struct promotion_interval promote_interval(const double *x, size_t n);
/* The same of the difference of two groups' means (Welch). */
struct promotion_interval promote_welch(const double *a, size_t na, const double *b, size_t nb);

/* Gathers target after target, steps [from, past->n) of each, then concludes. */
struct promote_live;
/* Names as rows of the store have them. */
struct promote_live *promote_live_new(const char *champion, const char *challenger);
void promote_live_free(struct promote_live *l);
NODISCARD enum err_code promote_live_add(struct promote_live *l, struct store *const *s, size_t n,
                                         const struct store_query *q, const struct recorded *past,
                                         const struct latency_model *m, int32_t from,
                                         struct err *e);
void promote_live_end(struct promote_live *l, struct promotion *out);

#endif
