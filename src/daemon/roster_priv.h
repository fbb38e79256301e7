/* roster_priv.h - shared by the files of roster.h. */
#ifndef DAEMON_ROSTER_PRIV_H
#define DAEMON_ROSTER_PRIV_H

#include "daemon/roster.h"

struct roster {
    struct roster_opts o;
    struct live *by_slot[ROSTER_MAX];
    struct live *live[ROSTER_MAX];
    size_t n, refused;
    uint64_t generation, synced_of;
};

/* Profile, spec and policies of one target, when something they come from changed. */
void roster_merge(struct roster *r, struct live *l, int64_t now_us);
/* Who else owns each target. */
void roster_owners(struct roster *r);

#endif
