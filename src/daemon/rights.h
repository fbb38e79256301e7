/* rights.h - what sluice may do in a cluster, stage by stage: one table for RBAC, doctor and docs.
 *
 * The overlays in deploy/ grant exactly the rows of their stage (tests/integration/deploy_test.c),
 * `sluice doctor` asks the API server about each of them and about a handful of rights that no
 * stage needs.  Nothing here grants anything: a row without its rule in the overlay is a failed
 * test. */
#ifndef DAEMON_RIGHTS_H
#define DAEMON_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "daemon/config.h"

enum right_need {
    RIGHT_REQUIRED, /* the stage cannot work without */
    RIGHT_OPTIONAL, /* of kinds that not every cluster serves: metrics.k8s.io, Cluster API ... */
    RIGHT_OWNERS,   /* the same, but where KEDA or VPA are served nothing is acted on without */
};

struct right {
    const char *group, *resource, *subresource; /* "" for the core group; subresource NULL: none */
    const char *verbs;                          /* separated by blanks */
    enum run_stage from;                        /* this stage and all later ones */
    enum right_need need;
    bool own_namespace; /* only in the namespace it runs in */
    const char *name;   /* only the object of this name; NULL: all */
    const char *why;
};
extern const struct right rights[];
extern const size_t n_rights;

/* What no stage may do: asked to find an account with more rights than it needs. */
extern const struct right rights_never[];
extern const size_t n_rights_never;

/* Verb `i` of r into out (16 bytes); false past the last. */
bool right_verb(const struct right *r, size_t i, char out[16]);
/* One more verb on a list of them: "list, watch". */
enum { RIGHT_VERBS = 64 };
void right_add_verb(char verbs[RIGHT_VERBS], const char *verb);
/* "update deployments.apps/scale"; verbs: one, or such a list. */
void right_words(const struct right *r, const char *verbs, char *out, size_t n);
/* The rule that grants it: {apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["update"]}. */
void right_rule(const struct right *r, const char *verbs, struct buf *out);
/* Where that rule stands, from the root of a checkout. */
const char *right_file(const struct right *r);

#endif
