/* shared.h - what the daemon's main thread and its endpoints have in common, in one locked object.
 *
 * The main thread decides; libmicrohttpd's threads answer people, probes and the API server.  They meet here
 * and nowhere else:
 *
 *   documents   made by the main thread once a round, immutable once published, counted: a reader borrows
 *               the newest one and may take its time while the next is published
 *   flags       leader, ready, heartbeat: written by one side, read by the other, never waited for
 *   commands    what a person asks of the main loop (override, breaker reset, release): a bounded queue.  The
 *               answer to the person waits for the outcome for a moment, no thread does; a busy loop makes it
 *               "accepted, not yet applied"
 *
 * Freezing is deliberately not a command: it must hold while the main loop stands still (freeze.h).
 * In steady state publishing allocates nothing: buffers go round between publisher and readers.
 * Every function may be called from any thread unless it says "main thread". */
#ifndef DAEMON_SHARED_H
#define DAEMON_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    SHARED_NAMESPACE = 64,   /* bytes of a namespace with its NUL */
    SHARED_NAME = 254,       /* of an object's name */
    SHARED_PERSON = 128,     /* of an author */
    SHARED_REASON = 256,     /* of a person's reason, and of an answer's words */
    SHARED_COMMANDS = 64,    /* waiting for the main loop at once */
    SHARED_DOC_BYTES = 64 << 20,
};

struct shared;

struct shared_opts {
    int64_t period_us;         /* decision period in real time: a loop silent for 3 of them is stuck */
    void (*wake)(void *ctx);   /* makes the main loop look at its commands soon (http_wake), or NULL */
    void *wake_ctx;
};
struct shared *shared_new(const struct shared_opts *o);
void shared_free(struct shared *s); /* no thread may use it any more; NULL is fine */

/* ---- documents --------------------------------------------------------------------------------- */

enum shared_doc_id {
    SHARED_HEALTH,   /* one JSON object of the main loop's own choice, shown under "detail" by /healthz */
    SHARED_TARGETS,  /* JSON objects, one per target: doc_item() before each */
    SHARED_EXTERNAL, /* rows of external.h: use external_publish() */
    SHARED_DOCS
};

/* Text and an index of its items by name.  The main thread keeps one of each kind and fills it round after round:
 *
 *     doc_clear(&d);
 *     for each target:  doc_item(&d, ns, name);  w = json_writer_init(&d.text, 0);  json_open(&w, NULL); ...
 *     shared_publish(shared, SHARED_TARGETS, &d);
 */
struct doc {
    struct buf text;
    struct buf keys;           /* "ns/name\0" of each item */
    struct doc_item *item;     /* [n_items] */
    size_t n_items, max_items;
    int64_t published_us;      /* clock_mono_us() of shared_publish */
};
struct doc_item {
    size_t key, at;            /* offsets in keys and in text */
};
void doc_init(struct doc *d);
void doc_fini(struct doc *d);
void doc_clear(struct doc *d); /* keeps the memory */
void doc_item(struct doc *d, const char *ns, const char *name); /* ends the item before, starts this one */
/* Item by name, or false.  *p is not NUL-terminated. */
bool doc_find(const struct doc *d, const char *ns, const char *name, const char **p, size_t *n);

/* Main thread.  Takes the content of *d and leaves *d empty, with the memory of a document nobody reads
 * any more when there is one.  Errors: ERR_LIMIT when something did not fit: nothing is published then, and the old
 * document stays (and ages). */
NODISCARD enum err_code shared_publish(struct shared *s, enum shared_doc_id id, struct doc *d, struct err *e);
/* The newest document, or NULL before the first.  Give it back with shared_return. */
const struct doc *shared_borrow(struct shared *s, enum shared_doc_id id);
void shared_return(struct shared *s, const struct doc *d); /* NULL is fine */

/* ---- flags ------------------------------------------------------------------------------------- */

/* The main loop moved: once per turn of the loop, not per decision. */
void shared_beat(struct shared *s, int64_t mono_us);
int64_t shared_silent_us(const struct shared *s, int64_t mono_us); /* since the last beat, or since shared_new */
int64_t shared_period_us(const struct shared *s);
void shared_set_period(struct shared *s, int64_t period_us);
/* No beat for max(3 periods, 5 s). */
bool shared_stuck(const struct shared *s, int64_t mono_us);

void shared_set_leader(struct shared *s, bool mine, const char *holder); /* identity of the holder, or NULL */
bool shared_leader(const struct shared *s);
void shared_holder(struct shared *s, char out[SHARED_NAME]); /* "" when unknown */

/* Why this replica is not ready, or NULL when it is.  Text is copied; starts as "starting". */
void shared_set_unready(struct shared *s, const char *why);
bool shared_ready(struct shared *s, char why[SHARED_REASON]);

/* ---- commands ---------------------------------------------------------------------------------- */

enum command_kind { COMMAND_OVERRIDE, COMMAND_OVERRIDE_CLEAR, COMMAND_BREAKER_RESET, COMMAND_RELEASE };
const char *command_name(enum command_kind k); /* "override" */

struct command {
    uint64_t id;                /* given by shared_command; never 0 */
    enum command_kind kind;
    char ns[SHARED_NAMESPACE], name[SHARED_NAME]; /* both "" for "all" (release) */
    int units;                  /* override */
    int64_t for_us;             /* override: how long from now on, 0: until_us is given instead */
    int64_t until_us;           /* override: wall time, 0: for_us is given instead */
    char author[SHARED_PERSON], reason[SHARED_REASON];
    int64_t at_us;              /* wall time it came in */
};

enum command_result {
    COMMAND_PENDING,    /* accepted, not yet applied */
    COMMAND_DONE,
    COMMAND_REFUSED,    /* the text says why; nothing was changed */
    COMMAND_UNANSWERED, /* the write was sent and its outcome is not known: it may still take effect */
    COMMAND_NO_TARGET,
    COMMAND_NOT_LEADER, /* only the leader can; shared_holder() says who */
    COMMAND_FULL,       /* the queue is full: nothing was accepted */
    COMMAND_STOPPING,   /* the daemon stops: nothing was accepted */
};
struct command_answer {
    enum command_result result;
    char text[SHARED_REASON];
};

/* Endpoint side.  Queues *c (id and at_us are filled here); false when nothing was accepted, *out says why. */
NODISCARD bool shared_command_send(struct shared *s, struct command *c, struct command_answer *out);
/* Has it an outcome?  Once true the id is no longer known. */
bool shared_command_settled(struct shared *s, uint64_t id, struct command_answer *out);
/* Nobody will ask for the outcome any more; the command itself goes its way. */
void shared_command_leave(struct shared *s, uint64_t id);
/* Called after every answer and by shared_stop, on the thread of those; NULL for none. */
void shared_on_answer(struct shared *s, void (*fn)(void *ctx), void *ctx);
/* Main thread.  The oldest command not yet taken; false when there is none. */
bool shared_command_take(struct shared *s, struct command *out);
/* Main thread, once for every command taken, now or some rounds later (printf-like; at most SHARED_REASON bytes).
 * Where nobody waits for it any more it is dropped, and shared_commands_late counts it. */
void shared_command_answer(struct shared *s, uint64_t id, enum command_result r, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
size_t shared_commands_waiting(struct shared *s); /* queue depth, for sluice_queue_depth{queue="commands"} */
int64_t shared_commands_late(struct shared *s);
/* Before the servers stop: settles what was not taken yet and accepts nothing more. */
void shared_stop(struct shared *s);

#endif
