/* control.c - freeze, unfreeze, release, override: what a person tells a running daemon.
 *
 * freeze and unfreeze go to every replica named, side by side, and report each: a replica that
 * could not be reached may still act, so anything short of all is a failure.  release and override
 * are for the leader: replicas are asked in turn until one does not answer "not the leader". */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/tz.h"
#include "cli/control_priv.h"
#include "daemon/config.h"
#include "model/capacity.h"
#include "report/table.h"

enum { BODY_BYTES = 8192, NOT_LEADER = 421 };

#define S struct control_opts
#define REPLICA_ROWS                                                                               \
    OPT_STRINGS(                                                                                   \
        S, urls, "url", NULL,                                                                      \
        "a replica; else the one of -c FILE, $SLUICE_URL, http://127.0.0.1:8090",      \
        .metavar = "URL"),                                                                         \
        OPT_STRING(S, all_replicas, "all_replicas", NULL,                                          \
                   "every address of a headless Service, such as "                                 \
                   "https://sluice-replicas.sluice.svc:8443",                                      \
                   .metavar = "URL"),                                                              \
        OPT_STRING(S, token_file, "token_file", NULL,                                              \
                   "bearer token; else of -c FILE, $SLUICE_TOKEN_FILE", .metavar = "FILE"),        \
        OPT_STRING(S, ca_file, "ca_file", NULL,                                                    \
                   "PEM: whom the replicas' certificates come from; else of -c FILE, "             \
                   "$SLUICE_CA_FILE, the system's",                                                \
                   .metavar = "FILE"),                                                             \
        OPT_STRING(S, cert_file, "cert_file", NULL, "PEM: client certificate", .metavar = "FILE"), \
        OPT_STRING(S, key_file, "key_file", NULL, "PEM: its key", .metavar = "FILE"),              \
        OPT_STRING(S, server_name, "server_name", NULL,                                            \
                   "the name in the replicas' certificates, when reached by another",              \
                   .metavar = "NAME"),                                                             \
        OPT_DURATION(S, timeout_us, "timeout", "10s", "100ms", "10min",                            \
                     "longest wait for one replica"),                                              \
        OPT_STRING(S, author, "author", NULL, "who asks; else user@host", .metavar = "NAME")

static const struct opt_row freeze_rows[] = {
    REPLICA_ROWS,
    OPT_STRING(S, reason, "reason", NULL, "why, for those who find it frozen", .metavar = "TEXT"),
};
static const struct opt_row override_rows[] = {
    REPLICA_ROWS,
    OPT_STRING(S, reason, "reason", NULL, "why, for those who find it", .metavar = "TEXT"),
    OPT_INT(S, units, "units", "-1", "-1", "4096", "the size to hold, whatever the policy says",
            .metavar = "N"),
    OPT_STRING(S, until, "until", NULL,
               "how long (2h, 30min) or until when (2024-05-01T12:00:00Z); at most 30 days",
               .metavar = "TIME"),
    OPT_BOOL(S, clear, "clear", "false", "lift the override"),
    OPT_BOOL(S, reset_breaker, "reset_breaker", "false",
             "let the target scale out again although its units did not become ready"),
};
#undef S
static const struct opt_table freeze_table =
    OPT_TABLE("control", struct control_opts, freeze_rows, "Whom to ask, and how.");
static const struct opt_table override_table = OPT_TABLE(
    "override", struct control_opts, override_rows, "What to hold, whom to ask, and how.");

/* Body of a request, open for more members. */
static struct json_writer begin_body(const struct control_opts *o, struct buf *out)
{
    char author[SHARED_PERSON];
    *out = buf_init(BODY_BYTES);
    struct json_writer w = json_writer_init(out, 0);
    control_author(o, author);
    json_open(&w, NULL);
    json_put_str(&w, "author", author);
    if (o->reason)
        json_put_str(&w, "reason", o->reason);
    return w;
}

/* ---- freeze, unfreeze --------------------------------------------------------------------------
 */

static void put_rows(const struct cli_ctx *c, const struct control *k, struct buf *text)
{
    static const struct table_column columns[] = {{"replica", NULL, 0},
                                                  {"url", NULL, 0},
                                                  {"result", NULL, 0},
                                                  {"detail", NULL, 0},
                                                  {"warning", NULL, 0}};
    struct table *t = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < control_count(k); i++) {
        const struct control_answer *a = control_answer(k, i);
        table_text(t, a->replica[0] ? a->replica : "-");
        table_text(t, a->url);
        table_text(t, a->error[0] ? "failed" : a->result);
        table_text(t, a->error[0] ? a->error : a->text);
        table_text(t, a->warning);
    }
    table_format(t, c->format, cli_colour(c), text);
    table_free(t);
}

/* As much of a text as there is room for; a cut is shown. */
static void fit(char *out, size_t size, size_t most, const char *text)
{
    bool cut = strlen(text) > most && most > 3;
    (void)snprintf(out, size, "%.*s%s", (int)(cut ? most - 3 : most), text, cut ? "..." : "");
}

/* "LEAD: WHO: WHAT. WHAT TO DO".  Where it does not all fit, what to do is the last to be cut: it is what the reader
 * needs; `what` is in the table too. */
static enum err_code tell(struct err *e, const char *lead, const char *who, const char *what, const char *todo)
{
    char shown_who[160], shown_what[sizeof e->msg], shown_todo[sizeof e->msg];
    if (!e)
        return ERR_IO;
    size_t room = sizeof e->msg - 8;
    fit(shown_who, sizeof shown_who, sizeof shown_who - 1, who);
    room -= strlen(lead) + strlen(shown_who);
    fit(shown_todo, sizeof shown_todo, room - 60, todo);
    room -= strlen(shown_todo);
    fit(shown_what, sizeof shown_what, room, what);
    return err_set(e, ERR_IO, "%s%s%s: %s%s%s", lead, *lead ? ": " : "", shown_who, shown_what, *shown_todo ? ". " : "",
                   shown_todo);
}

static const char *complaint(const struct control_answer *a)
{
    return a->error[0] ? a->error : a->warning[0] ? a->warning : a->text;
}

/* Not as asked: which, why, and what to do. */
static enum err_code judge(const struct control *k, bool frozen, struct err *e)
{
    const struct control_answer *worst = NULL;
    char lead[80];
    size_t n_bad = 0;
    for (size_t i = 0; i < control_count(k); i++) {
        const struct control_answer *a = control_answer(k, i);
        if (!a->error[0] && a->status == 200 && a->frozen == frozen)
            continue;
        n_bad++;
        worst = worst ? worst : a;
    }
    if (!n_bad)
        return ERR_OK;
    (void)snprintf(lead, sizeof lead, "%zu of %zu replicas %s", n_bad, control_count(k),
                   frozen ? "did not freeze and may still act" : "are still frozen");
    return tell(e, lead, worst->url, complaint(worst), worst->what_to_do);
}

/* Nobody here knows which replicas there are, unless a name lists them all. */
static void say_others(const struct cli_ctx *c, const struct control *k, bool frozen, struct buf *text)
{
    const struct control_opts *o = c->opts;
    if (o->all_replicas || c->format != CLI_TABLE)
        return;
    buf_fmt(text, frozen ? "\nOnly %s asked.  A replica that is not on the list may still act: --all-replicas URL "
                           "freezes every one.\n"
                         : "\nOnly %s asked.  A replica that is not on the list stays frozen if it was: "
                           "--all-replicas URL unfreezes every one.\n",
            control_count(k) == 1 ? "this one was" : "these were");
}

static enum err_code run_freeze(struct cli_ctx *c, bool frozen, struct err *e)
{
    struct control *k = NULL;
    struct buf body, text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = control_new(c, &k, e);
    if (rc)
        return rc;
    struct json_writer w = begin_body(c->opts, &body);
    json_close(&w);
    rc = buf_check(&body, e);
    if (!rc) {
        control_ask_all(k, frozen ? "/api/v1/freeze" : "/api/v1/unfreeze", body.p);
        put_rows(c, k, &text);
        say_others(c, k, frozen, &text);
        rc = cli_finish(c, &text, e);
    }
    if (!rc)
        rc = judge(k, frozen, e);
    buf_fini(&body);
    buf_fini(&text);
    control_free(k);
    return rc;
}

static enum err_code freeze(struct cli_ctx *c, struct err *e)
{
    return run_freeze(c, true, e);
}

static enum err_code unfreeze(struct cli_ctx *c, struct err *e)
{
    return run_freeze(c, false, e);
}

/* ---- release, override -------------------------------------------------------------------------
 */

/* The leader's answer; else that of the last replica that answered at all, else of the last. */
static const struct control_answer *ask_leader(struct control *k, const char *path,
                                               const char *body)
{
    const struct control_answer *best = NULL;
    for (size_t i = 0; i < control_count(k); i++) {
        control_ask(k, i, path, body);
        const struct control_answer *a = control_answer(k, i);
        if (a->status && a->status != NOT_LEADER)
            return a;
        if (!best || a->status)
            best = a;
    }
    return best;
}

static enum err_code put_answer(struct cli_ctx *c, const struct control_answer *a, struct err *e)
{
    struct buf text = buf_init(CLI_TEXT_MAX);
    if (a->error[0] || a->status >= 300)
        return tell(e, "", a->replica[0] ? a->replica : a->url, complaint(a), a->what_to_do);
    if (c->format == CLI_TABLE) {
        buf_fmt(&text, "%s: %s: %s\n", a->replica, a->result, a->text);
        return cli_finish(c, &text, e);
    }
    static const struct table_column columns[] = {
        {"replica", NULL, 0}, {"result", NULL, 0}, {"message", NULL, 0}};
    struct table *t = table_new(columns, sizeof columns / sizeof *columns);
    table_text(t, a->replica);
    table_text(t, a->result);
    table_text(t, a->text);
    table_format(t, c->format, false, &text);
    table_free(t);
    return cli_finish(c, &text, e);
}

static enum err_code tell_leader(struct cli_ctx *c, const char *path, const struct buf *body,
                                 struct err *e)
{
    struct control *k = NULL;
    enum err_code rc = buf_check(body, e);
    if (!rc)
        rc = control_new(c, &k, e);
    if (!rc)
        rc = put_answer(c, ask_leader(k, path, body->p), e);
    control_free(k);
    return rc;
}

/* "prod/chat" as members "namespace" and "name". */
static enum err_code put_target(struct json_writer *w, const char *target, struct err *e)
{
    char ns[SHARED_NAMESPACE];
    size_t n = strcspn(target, "/");
    if (n == 0 || n >= sizeof ns || target[n] != '/' || !target[n + 1] ||
        strchr(target + n + 1, '/'))
        return err_set(e, ERR_USAGE, "%.100s: expected NAMESPACE/NAME", target);
    memcpy(ns, target, n);
    ns[n] = '\0';
    json_put_str(w, "namespace", ns);
    json_put_str(w, "name", target + n + 1);
    return ERR_OK;
}

static enum err_code release(struct cli_ctx *c, struct err *e)
{
    struct buf body;
    struct json_writer w = begin_body(c->opts, &body);
    enum err_code rc = c->n_args ? put_target(&w, c->args[0], e) : ERR_OK;
    json_close(&w);
    if (!rc)
        rc = tell_leader(c, "/api/v1/release", &body, e);
    buf_fini(&body);
    return rc;
}

static enum err_code check_override(const struct control_opts *o, struct err *e)
{
    bool hold = o->units >= 0 || o->until;
    if (o->clear + o->reset_breaker + hold != 1)
        return err_set(
            e, ERR_USAGE,
            "give --units N with --until TIME and --reason TEXT, or --clear, or --reset-breaker");
    if (hold && (o->units < 0 || !o->until || !o->reason || !*o->reason))
        return err_set(e, ERR_USAGE,
                       "an override needs --units, --until and --reason: those who come after you "
                       "will want to know");
    return ERR_OK;
}

/* A duration goes out as one: the daemon's clock counts, not ours. */
static enum err_code put_until(struct json_writer *w, const char *text, struct err *e)
{
    int64_t us = 0;
    struct err ignored;
    if (opt_parse_duration(text, &us, &ignored) == ERR_OK) {
        if (us <= 0)
            return err_set(e, ERR_USAGE, "--until %.60s: no time at all", text);
        json_put_str(w, "for", text);
        return ERR_OK;
    }
    if (tz_parse_rfc3339(text, strlen(text), &us, &ignored))
        return err_set(e, ERR_USAGE, "--until %.60s: expected 2h, 30min or 2024-05-01T12:00:00Z",
                       text);
    if (us <= clock_wall_us())
        return err_set(e, ERR_USAGE, "--until %.60s: is in the past", text);
    json_put_str(w, "until", text);
    return ERR_OK;
}

static enum err_code override(struct cli_ctx *c, struct err *e)
{
    const struct control_opts *o = c->opts;
    struct buf body;
    struct json_writer w = begin_body(o, &body);
    enum err_code rc = check_override(o, e);
    if (!rc)
        rc = put_target(&w, c->args[0], e);
    if (!rc && o->clear)
        json_put_bool(&w, "clear", true);
    if (!rc && o->until) {
        json_put_i64(&w, "units", o->units);
        rc = put_until(&w, o->until, e);
    }
    json_close(&w);
    if (!rc)
        rc = tell_leader(c, o->reset_breaker ? "/api/v1/breaker-reset" : "/api/v1/override", &body,
                         e);
    buf_fini(&body);
    return rc;
}

/* ---- the commands ------------------------------------------------------------------------------
 */

const struct cli_cmd cmd_freeze = {
    .name = "freeze",
    .summary = "makes every replica named act on nothing, at once and over restarts",
    .help = "Needs neither API server nor Prometheus, and works while the replica's main loop is "
            "stuck.  Fails unless all\n"
            "replicas froze.  In the cluster:\n"
            "    kubectl -n sluice exec sluice-0 -- sluice freeze -c /etc/sluice/sluice.yaml \\\n"
            "        --all-replicas https://sluice-replicas.sluice.svc:8443 --reason TEXT\n"
            "Where no endpoint answers: kill -USR1 the process, or `freeze: true` in its "
            "configuration.",
    .opts = &freeze_table,
    .config = &run_config_table,
    .run = freeze,
};

const struct cli_cmd cmd_unfreeze = {
    .name = "unfreeze",
    .summary = "lets the replicas named act again",
    .help = "Each replica has its own freeze: the ones not asked stay frozen.  In the cluster:\n"
            "    kubectl -n sluice exec sluice-0 -- sluice unfreeze -c /etc/sluice/sluice.yaml \\\n"
            "        --all-replicas https://sluice-replicas.sluice.svc:8443 --reason TEXT\n"
            "`freeze: true` in a configuration stays in force and is reported.",
    .opts = &freeze_table,
    .config = &run_config_table,
    .run = unfreeze,
};

const struct cli_cmd cmd_release = {
    .name = "release",
    .summary = "opens what the daemon holds back: all of it, or of one target",
    .args = "[NAMESPACE/NAME]",
    .max_args = 1,
    .opts = &freeze_table,
    .config = &run_config_table,
    .run = release,
};

const struct cli_cmd cmd_override = {
    .name = "override",
    .summary = "holds a target at a size for a while, lifts that, or resets its breaker",
    .args = "NAMESPACE/NAME",
    .min_args = 1,
    .max_args = 1,
    .help = "    sluice override prod/chat --units 12 --until 2h --reason \"launch\"\n"
            "    sluice override prod/chat --clear\n"
            "N may be below minUnits, and is held there until the end; above maxUnits it is refused.  The leader is\n"
            "found among the replicas named (--url, --all-replicas).  In the stage observe nothing can be held.",
    .opts = &override_table,
    .config = &run_config_table,
    .run = override,
};
