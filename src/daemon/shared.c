#include "daemon/shared.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { DOC_KEYS_BYTES = 4 << 20, DOC_ITEMS_MAX = 20000, STUCK_PERIODS = 3 };
#define STUCK_LEAST_US (5 * US_PER_S)

/* ---- documents ---------------------------------------------------------------------------------
 */

void doc_init(struct doc *d)
{
    *d = (struct doc){.text = buf_init(SHARED_DOC_BYTES), .keys = buf_init(DOC_KEYS_BYTES)};
}

void doc_fini(struct doc *d)
{
    buf_fini(&d->text);
    buf_fini(&d->keys);
    mem_free(d->item);
    *d = (struct doc){0};
}

void doc_clear(struct doc *d)
{
    buf_clear(&d->text);
    buf_clear(&d->keys);
    d->n_items = 0;
}

static bool room_for_item(struct doc *d)
{
    if (d->n_items < d->max_items)
        return true;
    size_t more = d->max_items ? 2 * d->max_items : 64;
    void *p = more <= DOC_ITEMS_MAX ? try_grow(d->item, more, sizeof *d->item) : NULL;
    if (!p)
        return false;
    d->item = p;
    d->max_items = more;
    return true;
}

void doc_item(struct doc *d, const char *ns, const char *name)
{
    if (!room_for_item(d)) {
        d->text.failed = true; /* shared_publish refuses it */
        return;
    }
    d->item[d->n_items++] = (struct doc_item){.key = d->keys.n, .at = d->text.n};
    buf_fmt(&d->keys, "%s/%s", ns, name);
    buf_char(&d->keys, '\0');
}

static bool key_is(const char *key, const char *ns, const char *name)
{
    size_t n = strlen(ns);
    return strncmp(key, ns, n) == 0 && key[n] == '/' && strcmp(key + n + 1, name) == 0;
}

bool doc_find(const struct doc *d, const char *ns, const char *name, const char **p, size_t *n)
{
    for (size_t i = 0; i < d->n_items; i++) {
        if (!key_is(d->keys.p + d->item[i].key, ns, name))
            continue;
        size_t end = i + 1 < d->n_items ? d->item[i + 1].at : d->text.n;
        *p = d->text.p + d->item[i].at;
        *n = end - d->item[i].at;
        return true;
    }
    return false;
}

/* ---- the object --------------------------------------------------------------------------------
 */

/* A document and who looks at it: one for being the newest, one per reader. */
struct held {
    struct doc doc; /* first: shared_return() gets here from it */
    int refs;
    struct held *next; /* among the unused */
};

enum slot_state { SLOT_FREE, SLOT_QUEUED, SLOT_TAKEN, SLOT_ANSWERED };
struct slot {
    enum slot_state state;
    bool left; /* nobody will ask for the answer */
    struct command command;
    struct command_answer answer;
};

struct shared {
    pthread_mutex_t lock;
    struct shared_opts opts;
    atomic_int_least64_t beat_us, period_us;
    atomic_bool leader;
    /* under the lock */
    struct held *newest[SHARED_DOCS];
    struct held *unused;
    struct slot slot[SHARED_COMMANDS];
    uint64_t last_id;
    int64_t n_late;
    void (*on_answer)(void *ctx);
    void *on_answer_ctx;
    bool stopping;
    char holder[SHARED_NAME];
    char unready[SHARED_REASON];
};

static void lock(struct shared *s)
{
    ASSERT(pthread_mutex_lock(&s->lock) == 0);
}

static void unlock(struct shared *s)
{
    ASSERT(pthread_mutex_unlock(&s->lock) == 0);
}

/* Cut between characters would be nicer; these texts are checked or ASCII where they come from. */
static void copy_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text ? text : "");
}

struct shared *shared_new(const struct shared_opts *o)
{
    struct shared *s = mem_zero(1, sizeof *s);
    ASSERT(pthread_mutex_init(&s->lock, NULL) == 0);
    s->opts = *o;
    atomic_store(&s->beat_us, clock_mono_us());
    atomic_store(&s->period_us, o->period_us);
    copy_text(s->unready, sizeof s->unready, "starting");
    return s;
}

static void held_free(struct held *h)
{
    if (h)
        doc_fini(&h->doc);
    mem_free(h);
}

void shared_free(struct shared *s)
{
    if (!s)
        return;
    for (int i = 0; i < SHARED_DOCS; i++)
        held_free(s->newest[i]);
    while (s->unused) {
        struct held *h = s->unused;
        s->unused = h->next;
        held_free(h);
    }
    (void)pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static void let_go(struct shared *s, struct held *h)
{
    if (!h || --h->refs > 0)
        return;
    h->next = s->unused;
    s->unused = h;
}

static struct held *take_unused(struct shared *s)
{
    struct held *h = s->unused;
    if (h) {
        s->unused = h->next;
        return h;
    }
    h = mem_zero(1, sizeof *h);
    doc_init(&h->doc);
    return h;
}

enum err_code shared_publish(struct shared *s, enum shared_doc_id id, struct doc *d, struct err *e)
{
    enum err_code rc = buf_check(&d->text, e);
    if (!rc)
        rc = buf_check(&d->keys, e);
    if (rc)
        return err_wrap(e, "publish document %d", (int)id);
    lock(s);
    struct held *h = take_unused(s);
    struct doc old = h->doc;
    h->doc = *d;
    h->doc.published_us = clock_mono_us();
    h->refs = 1;
    *d = old;
    let_go(s, s->newest[id]);
    s->newest[id] = h;
    unlock(s);
    doc_clear(d);
    return ERR_OK;
}

const struct doc *shared_borrow(struct shared *s, enum shared_doc_id id)
{
    lock(s);
    struct held *h = s->newest[id];
    if (h)
        h->refs++;
    unlock(s);
    return h ? &h->doc : NULL;
}

void shared_return(struct shared *s, const struct doc *d)
{
    if (!d)
        return;
    lock(s);
    for (int i = 0; i < SHARED_DOCS; i++)
        if (s->newest[i] && &s->newest[i]->doc == d) { /* still the newest: the common case */
            s->newest[i]->refs--;
            unlock(s);
            return;
        }
    let_go(s, (struct held *)(uintptr_t)d);
    unlock(s);
}

/* ---- flags -------------------------------------------------------------------------------------
 */

void shared_beat(struct shared *s, int64_t mono_us)
{
    atomic_store_explicit(&s->beat_us, mono_us, memory_order_relaxed);
}

int64_t shared_silent_us(const struct shared *s, int64_t mono_us)
{
    return mono_us - atomic_load_explicit(&s->beat_us, memory_order_relaxed);
}

int64_t shared_period_us(const struct shared *s)
{
    return atomic_load_explicit(&s->period_us, memory_order_relaxed);
}

void shared_set_period(struct shared *s, int64_t period_us)
{
    atomic_store_explicit(&s->period_us, period_us, memory_order_relaxed);
}

bool shared_stuck(const struct shared *s, int64_t mono_us)
{
    int64_t most_us = STUCK_PERIODS * shared_period_us(s);
    return shared_silent_us(s, mono_us) > (most_us > STUCK_LEAST_US ? most_us : STUCK_LEAST_US);
}

void shared_set_leader(struct shared *s, bool mine, const char *holder)
{
    atomic_store(&s->leader, mine);
    lock(s);
    copy_text(s->holder, sizeof s->holder, holder);
    unlock(s);
}

bool shared_leader(const struct shared *s)
{
    return atomic_load(&s->leader);
}

void shared_holder(struct shared *s, char out[SHARED_NAME])
{
    lock(s);
    memcpy(out, s->holder, SHARED_NAME);
    unlock(s);
}

void shared_set_unready(struct shared *s, const char *why)
{
    lock(s);
    copy_text(s->unready, sizeof s->unready, why);
    unlock(s);
}

bool shared_ready(struct shared *s, char why[SHARED_REASON])
{
    lock(s);
    copy_text(why, SHARED_REASON, s->stopping ? "stopping" : s->unready);
    unlock(s);
    return why[0] == '\0';
}

/* ---- commands ----------------------------------------------------------------------------------
 */

const char *command_name(enum command_kind k)
{
    static const char *const names[] = {
        [COMMAND_OVERRIDE] = "override",
        [COMMAND_OVERRIDE_CLEAR] = "override-clear",
        [COMMAND_BREAKER_RESET] = "breaker-reset",
        [COMMAND_RELEASE] = "release",
    };
    return names[k];
}

static struct slot *find_slot(struct shared *s, enum slot_state state)
{
    struct slot *oldest = NULL;
    for (int i = 0; i < SHARED_COMMANDS; i++) {
        struct slot *at = &s->slot[i];
        if (at->state == state && (!oldest || at->command.id < oldest->command.id))
            oldest = at;
    }
    return oldest;
}

static struct slot *find_id(struct shared *s, uint64_t id)
{
    for (int i = 0; i < SHARED_COMMANDS; i++)
        if (s->slot[i].state != SLOT_FREE && s->slot[i].command.id == id)
            return &s->slot[i];
    return NULL;
}

static void settle(struct command_answer *out, enum command_result r, const char *text)
{
    out->result = r;
    copy_text(out->text, sizeof out->text, text);
}

bool shared_command_send(struct shared *s, struct command *c, struct command_answer *out)
{
    lock(s);
    struct slot *slot = s->stopping ? NULL : find_slot(s, SLOT_FREE);
    if (s->stopping)
        settle(out, COMMAND_STOPPING, "the daemon is stopping");
    else if (!slot)
        settle(out, COMMAND_FULL, "too many commands are waiting for the main loop");
    if (slot) {
        c->id = ++s->last_id;
        c->at_us = clock_wall_us();
        *slot = (struct slot){.state = SLOT_QUEUED, .command = *c};
    }
    unlock(s);
    if (slot && s->opts.wake)
        s->opts.wake(s->opts.wake_ctx);
    return slot != NULL;
}

bool shared_command_settled(struct shared *s, uint64_t id, struct command_answer *out)
{
    lock(s);
    struct slot *slot = find_id(s, id);
    ASSERT(slot && !slot->left);
    bool dropped = s->stopping && slot->state == SLOT_QUEUED;
    bool settled = dropped || slot->state == SLOT_ANSWERED;
    if (dropped)
        settle(out, COMMAND_STOPPING, "the daemon is stopping");
    else if (settled)
        *out = slot->answer;
    if (settled)
        slot->state = SLOT_FREE;
    unlock(s);
    return settled;
}

void shared_command_leave(struct shared *s, uint64_t id)
{
    lock(s);
    struct slot *slot = find_id(s, id);
    ASSERT(slot && !slot->left);
    slot->left = true;
    if (slot->state == SLOT_ANSWERED) { /* just now */
        slot->state = SLOT_FREE;
        s->n_late++;
    }
    unlock(s);
}

void shared_on_answer(struct shared *s, void (*fn)(void *ctx), void *ctx)
{
    lock(s);
    s->on_answer = fn;
    s->on_answer_ctx = ctx;
    unlock(s);
}

/* Not under the lock: the callee takes others. */
static void tell(struct shared *s)
{
    lock(s);
    void (*fn)(void *ctx) = s->on_answer;
    void *ctx = s->on_answer_ctx;
    unlock(s);
    if (fn)
        fn(ctx);
}

bool shared_command_take(struct shared *s, struct command *out)
{
    lock(s);
    struct slot *slot = find_slot(s, SLOT_QUEUED);
    if (slot) {
        slot->state = SLOT_TAKEN;
        *out = slot->command;
    }
    unlock(s);
    return slot != NULL;
}

void shared_command_answer(struct shared *s, uint64_t id, enum command_result r, const char *fmt,
                           ...)
{
    char text[SHARED_REASON];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lock(s);
    struct slot *slot = find_id(s, id);
    ASSERT(slot && slot->state == SLOT_TAKEN); /* every command is answered once */
    settle(&slot->answer, r, text);
    slot->state = slot->left ? SLOT_FREE : SLOT_ANSWERED;
    s->n_late += slot->left;
    unlock(s);
    tell(s);
}

size_t shared_commands_waiting(struct shared *s)
{
    size_t n = 0;
    lock(s);
    for (int i = 0; i < SHARED_COMMANDS; i++)
        n += s->slot[i].state == SLOT_QUEUED || s->slot[i].state == SLOT_TAKEN;
    unlock(s);
    return n;
}

int64_t shared_commands_late(struct shared *s)
{
    lock(s);
    int64_t n = s->n_late;
    unlock(s);
    return n;
}

void shared_stop(struct shared *s)
{
    lock(s);
    s->stopping = true;
    unlock(s);
    tell(s);
}
