/* explained.h - decisions of one policy over the test days, each with its reasons in words. */
#ifndef TRAIN_EXPLAINED_H
#define TRAIN_EXPLAINED_H

#include "base/err.h"
#include "decide/explain.h"
#include "report/html.h"
#include "train/evaluate.h"

/* Decisions and the texts they borrow. */
struct explained {
    struct report_decision *decision; /* [n], chronological */
    size_t n, n_total;                /* listed; taken (changes of size and vetoed proposals) */
    const char *note;                 /* how they were picked */
    char *tree;                       /* distilled tree as text; NULL without */
    double tree_fidelity;             /* on held-out states; NaN without */
    int tree_rows;                    /* states it was distilled from */
    struct explained_texts *texts;
};

enum { EXPLAINED_MOST = 0 };

/* Runs the policy once with records, lists up to `max` of its decisions: all changes and vetoes when they fit, else
 * the ones that moved most, or with `at_us` those nearest to that time.  at_us: EXPLAINED_MOST, or a time of the test
 * days.  rule: its proposal is shown beside each; NULL: none.  Errors: those of running; ERR_RANGE for another time. */
NODISCARD enum err_code explained_make(const struct world *w, const struct chance *c, const struct contender *who,
                                       const struct policy_use *rule, size_t max, int64_t at_us,
                                       struct explained *out, struct err *e);
void explained_fini(struct explained *x); /* safe on a zeroed one */

/* One decision with its reasons; *d borrows the texts.  net: the network that decided, its weights then tell the factors;
 * NULL: what is out of the ordinary does.  rule: name of the policy beside it, NULL: none. */
enum { EXPLAINED_TEXT = 160 };
struct explained_text {
    char factor[EXPLAIN_FACTORS][EXPLAINED_TEXT];
    char reason[GUARD_CHECKS][EXPLAINED_TEXT];
    struct report_check check[GUARD_CHECKS];
};
void explained_decision(const struct capacity_record *r, struct nn_policy *net, const char *rule,
                        struct explained_text *text, struct report_decision *d);

#endif
