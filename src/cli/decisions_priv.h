/* decisions_priv.h - `sluice decisions`: its options, and its actions. */
#ifndef CLI_DECISIONS_PRIV_H
#define CLI_DECISIONS_PRIV_H

#include "base/tz.h"
#include "cli/commands.h"
#include "store/store.h"

struct decisions_opts {
    char *store, *target, *since, *until, *policy_file, *timezone;
    int verdict; /* 0: any */
    bool acted, shadow, all, full;
    int64_t limit;
};

/* A store open for reading, and what was asked. */
struct decisions {
    struct cli_ctx *c;
    const struct decisions_opts *o;
    struct store *store;
    struct tz *zone; /* NULL: UTC */
    struct store_query q;
    char *target; /* that q's names point into */
    int64_t id;   /* 0: none given */
};

NODISCARD enum err_code decisions_list(struct decisions *d, struct buf *text, struct err *e);
NODISCARD enum err_code decisions_show(struct decisions *d, struct buf *text, struct err *e);
NODISCARD enum err_code decisions_notes(struct decisions *d, struct buf *text, struct err *e);
/* *verdict: ERR_OK, or what to fail with once the text is out. */
NODISCARD enum err_code decisions_replay(struct decisions *d, struct buf *text, struct err *verdict,
                                         struct err *e);

#endif
