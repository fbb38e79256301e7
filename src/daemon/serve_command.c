/* serve_command.c - what people ask for.  Freezing is done here and now; the rest is queued for the
 * main loop. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/tz.h"
#include "daemon/serve_priv.h"
#include "model/capacity.h"

/* An override that nobody remembers is worse than none. */
#define OVERRIDE_MOST_US (30 * US_PER_DAY)

/* ---- freeze ------------------------------------------------------------------------------------
 */

static void answer_freeze(struct call *c, const char *result, const char *warning)
{
    struct freeze_info info;
    char words[640];
    freeze_info(c->s->o.freeze, &info);
    freeze_words(&info, words, sizeof words);
    struct json_writer w = call_answer(c, 200);
    json_put_str(&w, "result", result);
    json_put_bool(&w, "frozen", info.frozen);
    json_put_bool(&w, "persisted", info.persisted);
    json_put_str(&w, "freeze", words);
    json_put_str(&w, "warning", warning);
    json_close(&w);
}

static bool read_person(struct call *c, char author[SHARED_PERSON], char reason[SHARED_REASON])
{
    static const char *const keys[] = {"author", "reason", NULL};
    struct body b;
    bool ok = body_open(c, keys, &b) && body_author(c, &b, author) &&
              body_text(c, &b, "reason", reason, SHARED_REASON);
    body_close(&b);
    return ok;
}

/* A brake that wants its form filled in properly is none: a body that cannot be read freezes all
 * the same, and says so. */
void serve_freeze(struct call *c)
{
    char author[SHARED_PERSON] = "", reason[SHARED_REASON] = "";
    struct err e = {0};
    bool read = read_person(c, author, reason);
    enum err_code rc = freeze_set(c->s->o.freeze, FREEZE_ENDPOINT, read ? author : c->who,
                                  read ? reason : "", clock_wall_us(), &e);
    buf_clear(&c->out->body);
    answer_freeze(c, "frozen",
                  rc      ? e.msg
                  : !read ? "frozen, but author and reason could not be read from the body"
                          : NULL);
}

void serve_unfreeze(struct call *c)
{
    char author[SHARED_PERSON], reason[SHARED_REASON];
    struct err e = {0};
    if (!read_person(c, author, reason))
        return;
    if (freeze_clear(c->s->o.freeze, FREEZE_ENDPOINT, author, reason, clock_wall_us(), &e)) {
        call_refuse(c, 500, "Make the state folder writable, then unfreeze again.", "%s", e.msg);
        return;
    }
    struct freeze_info info;
    char holder[SHARED_NAME], leads[SHARED_NAME + 128];
    freeze_info(c->s->o.freeze, &info);
    shared_holder(c->s->o.shared, holder);
    (void)snprintf(leads, sizeof leads, "%s leads: if it is frozen too, it stays so until it is asked as well", holder);
    answer_freeze(c, info.frozen ? "still frozen" : "unfrozen",
                  info.config
                      ? "freeze: true in the configuration stays in force; set it to false there"
                  : info.frozen ? "somebody froze again at the same time"
                  : holder[0] && !shared_leader(c->s->o.shared) ? leads : NULL);
}

/* ---- commands to the main loop -----------------------------------------------------------------
 */

static int status_of(enum command_result r)
{
    static const int status[] = {
        [COMMAND_PENDING] = 202,   [COMMAND_DONE] = 200,       [COMMAND_REFUSED] = 409, [COMMAND_UNANSWERED] = 504,
        [COMMAND_NO_TARGET] = 404, [COMMAND_NOT_LEADER] = 421, [COMMAND_FULL] = 503,
        [COMMAND_STOPPING] = 503,
    };
    return status[r];
}

static const char *advice(enum command_result r)
{
    static const char *const text[] = {
        [COMMAND_PENDING] = "",
        [COMMAND_DONE] = "",
        [COMMAND_REFUSED] = "Nothing was changed.",
        [COMMAND_UNANSWERED] = "It may still take effect: look at the status of the CapacityTarget before you ask again.",
        [COMMAND_NO_TARGET] = "kubectl get capacitytargets -A, or GET /api/v1/targets, lists what there is.",
        [COMMAND_NOT_LEADER] = "Ask the leader: its --url, or --all-replicas URL, which finds it.",
        [COMMAND_FULL] = "Try again; if it stays so, look at /healthz: the main loop may be stuck.",
        [COMMAND_STOPPING] = "Ask the other replica, or this one after its restart.",
    };
    return text[r];
}

static void answer_command(struct call *c, const struct command *cmd,
                           const struct command_answer *a)
{
    int status = status_of(a->result);
    log_write(c->s->o.log, LOG_INFO, "serve", "command",
              "kind=%s target=\"%s/%s\" author=\"%s\" reason=\"%s\" status=%d",
              command_name(cmd->kind), cmd->ns, cmd->name, cmd->author, cmd->reason, status);
    if (a->result == COMMAND_FULL || a->result == COMMAND_STOPPING)
        server_reply_header(c->out, "Retry-After", "1");
    if (status >= 400) {
        call_refuse(c, status, advice(a->result), "%s", a->text);
        return;
    }
    struct json_writer w = call_answer(c, status);
    json_put_str(&w, "result", a->result == COMMAND_DONE ? "done" : "accepted");
    json_put_str(&w, "message", a->text);
    json_close(&w);
}

/* An answer that waits for the main loop; no thread does. */
struct pending {
    struct serve *s;
    struct command command;
    const char *endpoint;
    int64_t until_us;
    bool settled;
};

static bool settle(void *ctx, struct server_reply *out)
{
    struct pending *p = ctx;
    struct call c = {.s = p->s, .out = out};
    struct command_answer a = {.result = COMMAND_PENDING,
                               .text = "accepted, not yet applied: the main loop is busy"};
    p->settled = shared_command_settled(p->s->o.shared, p->command.id, &a);
    if (!p->settled && clock_mono_us() < p->until_us)
        return false;
    if (!p->settled)
        shared_command_leave(p->s->o.shared, p->command.id);
    p->settled = true;
    answer_command(&c, &p->command, &a);
    serve_count(p->s, p->endpoint, out->status);
    return true;
}

/* The client may have gone before the outcome came. */
static void pending_free(void *ctx)
{
    struct pending *p = ctx;
    if (!p->settled)
        shared_command_leave(p->s->o.shared, p->command.id);
    (void)atomic_fetch_sub(&p->s->n_pending, 1);
    mem_free(p);
}

static void run_command(struct call *c, struct command *cmd)
{
    struct command_answer a;
    (void)atomic_fetch_add(&c->s->n_pending, 1); /* first: a stop that meets the command waits for its answer */
    if (!shared_command_send(c->s->o.shared, cmd, &a)) {
        (void)atomic_fetch_sub(&c->s->n_pending, 1);
        answer_command(c, cmd, &a);
        return;
    }
    struct pending *p = mem_zero(1, sizeof *p);
    *p = (struct pending){
        .s = c->s,
        .command = *cmd,
        .endpoint = c->endpoint,
        .until_us = clock_mono_us() + c->s->o.wait_us,
    };
    c->out->settle = settle;
    c->out->free = pending_free;
    c->out->ctx = p;
}

/* RFC 1123: what Kubernetes allows, so nothing else can name a target. */
static bool is_name(const char *s, bool dots)
{
    for (const char *p = s; *p; p++) {
        bool inner = *p == '-' || (dots && *p == '.');
        bool edge = p == s || p[1] == '\0';
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= '0' && *p <= '9') && !(inner && !edge))
            return false;
    }
    return *s != '\0';
}

static bool read_target(struct call *c, const struct body *b, bool optional, struct command *cmd)
{
    if (!body_text(c, b, "namespace", cmd->ns, sizeof cmd->ns) ||
        !body_text(c, b, "name", cmd->name, sizeof cmd->name))
        return false;
    if (optional && !cmd->ns[0] && !cmd->name[0])
        return true;
    if (is_name(cmd->ns, false) && is_name(cmd->name, true))
        return true;
    call_refuse(c, 400, "Give \"namespace\" and \"name\" of the target.",
                "\"%s/%s\" does not name a target", cmd->ns, cmd->name);
    return false;
}

static bool read_reason(struct call *c, const struct body *b, struct command *cmd)
{
    return body_author(c, b, cmd->author) &&
           body_text(c, b, "reason", cmd->reason, sizeof cmd->reason);
}

static bool read_until(struct call *c, const char *text, struct command *cmd)
{
    struct err e = {0};
    int64_t now_us = clock_wall_us();
    if (tz_parse_rfc3339(text, strlen(text), &cmd->until_us, &e)) {
        call_refuse(c, 400, "Give a time such as 2024-05-01T12:00:00Z.", "until: %s", e.msg);
        return false;
    }
    if (cmd->until_us <= now_us || cmd->until_us > now_us + OVERRIDE_MOST_US) {
        call_refuse(c, 400, "Give a time within the next 30 days.", "until: %s is %s", text,
                    cmd->until_us <= now_us ? "in the past" : "more than 30 days ahead");
        return false;
    }
    return true;
}

static bool read_for(struct call *c, const char *text, struct command *cmd)
{
    struct err e = {0};
    if (opt_parse_duration(text, &cmd->for_us, &e)) {
        call_refuse(c, 400, "Give a duration such as 2h or 30min.", "for: %s", e.msg);
        return false;
    }
    if (cmd->for_us <= 0 || cmd->for_us > OVERRIDE_MOST_US) {
        call_refuse(c, 400, "Give a duration up to 30d.", "for: %s is %s", text,
                    cmd->for_us <= 0 ? "no time at all" : "more than 30 days");
        return false;
    }
    return true;
}

static bool read_expiry(struct call *c, const struct body *b, struct command *cmd)
{
    char until[64], time[64];
    if (!body_text(c, b, "until", until, sizeof until) ||
        !body_text(c, b, "for", time, sizeof time))
        return false;
    if ((until[0] != '\0') == (time[0] != '\0')) {
        call_refuse(c, 400, "Give \"for\" (2h) or \"until\" (2024-05-01T12:00:00Z), not both.",
                    "an override needs one expiry");
        return false;
    }
    return until[0] ? read_until(c, until, cmd) : read_for(c, time, cmd);
}

static bool read_units(struct call *c, const struct body *b, struct command *cmd)
{
    int64_t units = 0;
    bool has;
    if (!body_int(c, b, "units", 0, CAPACITY_UNITS_LIMIT, &units, &has))
        return false;
    cmd->units = (int)units;
    if (has && cmd->reason[0])
        return true;
    call_refuse(c, 400,
                "Give \"units\" and a \"reason\": those who come after you will want to know.",
                "an override needs %s", has ? "a reason" : "a number of units");
    return false;
}

static bool read_clear(struct call *c, const struct body *b, struct command *cmd)
{
    bool more =
        json_find(b->root, "units") || json_find(b->root, "for") || json_find(b->root, "until");
    cmd->kind = COMMAND_OVERRIDE_CLEAR;
    if (!more)
        return true;
    call_refuse(c, 400, "Leave out \"units\", \"for\" and \"until\", or \"clear\".",
                "an override is set or cleared, not both");
    return false;
}

void serve_override(struct call *c)
{
    static const char *const keys[] = {"namespace", "name",   "units", "until", "for",
                                       "reason",    "author", "clear", NULL};
    struct command cmd = {.kind = COMMAND_OVERRIDE};
    struct body b;
    bool clear = false;
    bool ok = body_open(c, keys, &b) && read_target(c, &b, false, &cmd) &&
              read_reason(c, &b, &cmd) && body_flag(c, &b, "clear", &clear);
    if (ok && clear)
        ok = read_clear(c, &b, &cmd);
    else if (ok)
        ok = read_units(c, &b, &cmd) && read_expiry(c, &b, &cmd);
    body_close(&b);
    if (ok)
        run_command(c, &cmd);
}

static void run_simple(struct call *c, enum command_kind kind, bool optional_target)
{
    static const char *const keys[] = {"namespace", "name", "reason", "author", NULL};
    struct command cmd = {.kind = kind};
    struct body b;
    bool ok = body_open(c, keys, &b) && read_target(c, &b, optional_target, &cmd) &&
              read_reason(c, &b, &cmd);
    body_close(&b);
    if (ok)
        run_command(c, &cmd);
}

void serve_breaker_reset(struct call *c)
{
    run_simple(c, COMMAND_BREAKER_RESET, false);
}

void serve_release(struct call *c)
{
    run_simple(c, COMMAND_RELEASE, true);
}
