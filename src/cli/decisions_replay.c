/* decisions_replay.c - stored decisions made again, and what came of it as counts. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "cli/decisions_priv.h"
#include "daemon/replay.h"
#include "report/text.h"

struct told {
    struct decisions *d;
    struct buf *text;
    struct json_writer *json; /* NULL: text */
    int64_t n;                /* findings */
};

static void tell_text(struct told *t, const struct replay_finding *f)
{
    char at[TZ_TEXT];
    tz_format_rfc3339(t->d->zone, f->decision->time_us, at);
    buf_fmt(t->text, "decision %" PRId64 "  %s  ", f->decision->id, at);
    text_plain(t->text, f->target->namespace_);
    buf_char(t->text, '/');
    text_plain(t->text, f->target->name);
    buf_fmt(t->text, "  %s: ", replay_fate_what(f->fate));
    text_plain(t->text, f->why);
    buf_char(t->text, '\n');
}

static void tell_json(struct told *t, const struct replay_finding *f)
{
    char at[TZ_TEXT];
    tz_format_rfc3339(t->d->zone, f->decision->time_us, at);
    json_open(t->json, NULL);
    json_put_i64(t->json, "id", f->decision->id);
    json_put_str(t->json, "time", at);
    json_put_str(t->json, "namespace", f->target->namespace_);
    json_put_str(t->json, "name", f->target->name);
    json_put_str(t->json, "fate", replay_fate_name(f->fate));
    json_put_str(t->json, "why", f->why);
    json_close(t->json);
}

static bool on_finding(void *ctx, const struct replay_finding *f)
{
    struct told *t = ctx;
    if (t->n++ >= t->d->o->limit && t->d->o->limit > 0)
        return true; /* counted, not told */
    if (t->json)
        tell_json(t, f);
    else
        tell_text(t, f);
    return true;
}

static void put_counts(const struct replay_counts *c, struct told *t, struct buf *text)
{
    if (t->n > t->d->o->limit && t->d->o->limit > 0)
        buf_fmt(text, "... and %" PRId64 " more; --limit 0 tells all\n", t->n - t->d->o->limit);
    if (t->n)
        buf_char(text, '\n');
    buf_fmt(text, "decisions made again: %" PRId64 ", keyframes begun from: %" PRId64 "\n",
            c->total, c->keyframes);
    for (int f = 0; f < REPLAY_FATES; f++)
        if (c->n[f] || f == REPLAY_SAME || f == REPLAY_DIFFERENT)
            buf_fmt(text, "%12" PRId64 "  %s\n", c->n[f], replay_fate_what((enum replay_fate)f));
}

static void json_counts(const struct replay_counts *c, struct json_writer *w)
{
    json_put_i64(w, "decisions", c->total);
    json_put_i64(w, "keyframes", c->keyframes);
    for (int f = 0; f < REPLAY_FATES; f++)
        json_put_i64(w, replay_fate_name((enum replay_fate)f), c->n[f]);
    json_put_bool(w, "passed", replay_passed(c));
}

/* What the exit code says: anything that was not simply the same. */
static void judge(const struct replay_counts *c, struct err *verdict)
{
    int64_t other = c->n[REPLAY_OTHER_BUILD_SAME] + c->n[REPLAY_OTHER_BUILD_DIFFERENT],
            gone = c->n[REPLAY_NO_CONFIG] + c->n[REPLAY_UNREADABLE];
    if (replay_passed(c))
        return;
    if (c->n[REPLAY_DIFFERENT])
        (void)err_set(verdict, ERR_MISMATCH,
                      "%" PRId64 " of %" PRId64 " decisions come out different now",
                      c->n[REPLAY_DIFFERENT], c->total);
    else if (gone)
        (void)err_set(verdict, ERR_MISSING,
                      "%" PRId64 " of %" PRId64 " decisions could not be made again", gone,
                      c->total);
    else if (other)
        (void)err_set(verdict, ERR_MISMATCH,
                      "%" PRId64 " of %" PRId64 " decisions were made by another build: only that "
                      "build can show that they are the same",
                      other, c->total);
    else
        (void)err_set(verdict, ERR_MISSING,
                      "none of the %" PRId64 " decisions has a keyframe to begin from any more",
                      c->total);
}

static bool on_any(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)ctx;
    (void)d;
    (void)t;
    return false;
}

static enum err_code nothing_found(struct decisions *d, struct err *e)
{
    enum err_code rc = d->id ? store_decision_get(d->store, d->id, on_any, NULL, e)
                             : ERR_OK; /* says which there are */
    return rc ? rc
              : err_set(e, ERR_MISSING, "store %s has no decisions of this kind",
                        store_path(d->store));
}

enum err_code decisions_replay(struct decisions *d, struct buf *text, struct err *verdict,
                               struct err *e)
{
    struct replay_counts counts;
    struct json_writer w = json_writer_init(text, 2);
    struct told t = {.d = d, .text = text, .json = d->c->format == CLI_JSON ? &w : NULL};
    if (d->c->format == CLI_CSV)
        return err_set(e, ERR_USAGE, "decisions replay: --format table or json");
    if (d->id)
        d->q.first_id = d->q.last_id = d->id;
    if (!d->o->shadow)
        d->q.role = 0; /* both */
    d->q.verdict = NULL;
    d->q.acted = false;
    if (t.json) {
        json_open(&w, NULL);
        json_open_array(&w, "findings");
    }
    enum err_code rc = replay_run(d->store, &d->q, d->o->policy_file, on_finding, &t, &counts, e);
    if (rc)
        return rc;
    if (counts.total == 0)
        return nothing_found(d, e);
    if (t.json) {
        json_close_array(&w);
        json_counts(&counts, &w);
        json_close(&w);
    } else {
        put_counts(&counts, &t, text);
    }
    judge(&counts, verdict);
    return ERR_OK;
}
