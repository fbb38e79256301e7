/* record_priv.h - the blobs of a decision: one description of each layout, for both directions.
 *
 * Little endian, value by value.  wire_* copies between a value and the bytes: a wire made by
 * wire_write takes values, one made by wire_read gives them.  Running past the end sets `bad` and
 * everything after it is a no-op. */
#ifndef DAEMON_RECORD_PRIV_H
#define DAEMON_RECORD_PRIV_H

#include "daemon/record.h"

enum {
    VIEW_BLOB_MAX = 512,
    OBS_BLOB_MAX = 16 + 4 * CAPACITY_OBS,
    CHOICE_BLOB_MAX = 256,
    CHAIN_BLOB_MAX = 512,
};

struct wire {
    unsigned char *p;
    size_t at, n;
    bool reading, bad;
};
static inline struct wire wire_write(unsigned char *p, size_t cap)
{
    return (struct wire){.p = p, .n = cap};
}
static inline struct wire wire_read(const void *p, size_t n)
{
    return (struct wire){.p = (unsigned char *)(uintptr_t)p, .n = n, .reading = true};
}

/* What a decision says beside its view, observation and guard chain. */
struct choice {
    struct rng rng; /* before it */
    bool drew;
    uint64_t state_hash; /* of the memory after it */
};

void wire_view(struct wire *w, struct capacity_view *v);
/* Observation of a record; layout: observation_layout_hash(). */
void wire_obs(struct wire *w, struct capacity_record *r, uint64_t layout);
/* Everything of a record that has no column and is neither observation nor chain. */
void wire_choice(struct wire *w, struct capacity_record *r, struct choice *c);
void wire_chain(struct wire *w, struct capacity_record *r);

/* A view that the decision function can work with, whatever was in the bytes. */
bool record_view_sane(const struct capacity_view *v);
/* Of the used part of a state. */
uint64_t record_state_hash(const struct capacity_config *cfg, const struct capacity_state *s);
NODISCARD enum err_code record_choice(const struct store_decision *d, struct capacity_record *r,
                                      struct choice *c, struct err *e);

#endif
