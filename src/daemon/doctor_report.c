/* doctor_report.c - the findings for people and for programs. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "daemon/doctor.h"
#include "report/text.h"

static const char *const check_names[] = {
#define X(id, name, why) name,
    DOCTOR_CHECK_LIST(X)
#undef X
};
static const char *const check_whys[] = {
#define X(id, name, why) why,
    DOCTOR_CHECK_LIST(X)
#undef X
};
static const char *const verdict_names[] = {"ok", "skip", "warn", "fail"};
static_assert(ARRAY_LEN(verdict_names) == DOCTOR_VERDICTS, "a name per verdict");

const char *doctor_check_name(enum doctor_check c)
{
    return check_names[c];
}

const char *doctor_check_why(enum doctor_check c)
{
    return check_whys[c];
}

const char *doctor_verdict_name(enum doctor_verdict v)
{
    return verdict_names[v];
}

size_t doctor_count(const struct doctor_report *r, enum doctor_verdict v)
{
    size_t n = 0;
    for (int c = 0; c < DOCTOR_CHECKS; c++)
        n += r->check[c].verdict == v;
    return n;
}

enum { WIDTH = 100, INDENT = 8 };

/* Words wrapped before column WIDTH, every line after the first indented. */
static void wrap(struct buf *out, const char *text, size_t column, size_t indent)
{
    struct buf plain = buf_init(64 << 10);
    text_plain(&plain, text);
    for (const char *at = plain.p; *at;) {
        size_t n = strcspn(at, " ");
        char word[1100];
        (void)snprintf(word, sizeof word, "%.*s", (int)n, at);
        size_t width = text_width(word);
        if (column + 1 + width > WIDTH && column > indent) {
            buf_char(out, '\n');
            buf_pad(out, ' ', indent);
            column = indent;
        } else if (at != plain.p && column > indent) {
            buf_char(out, ' ');
            column++;
        }
        buf_str(out, word);
        column += width;
        at += n + strspn(at + n, " ");
    }
    buf_char(out, '\n');
    buf_fini(&plain);
}

static void write_note(const struct doctor_note *n, struct buf *out)
{
    struct buf line = buf_init(64 << 10);
    buf_fmt(&line, "%s%s%s", n->about, *n->about ? ": " : "", n->seen);
    buf_fmt(out, "     %-4s ", doctor_verdict_name(n->verdict));
    wrap(out, line.p, 10, 10);
    buf_fini(&line);
    if (*n->todo) {
        buf_str(out, "          -> ");
        wrap(out, n->todo, 13, 13);
    }
}

static void write_check(const struct doctor_report *r, enum doctor_check c, bool all,
                        struct buf *out)
{
    const struct doctor_result *x = &r->check[c];
    const struct doctor_note *only = x->n == 1 && x->verdict == DOCTOR_OK ? &x->notes[0] : NULL;
    buf_fmt(out, "%2d %-4s %-17s", c + 1, doctor_verdict_name(x->verdict), doctor_check_name(c));
    if (only && !*only->todo) {
        struct buf line = buf_init(64 << 10);
        buf_fmt(&line, "%s%s%s", only->about, *only->about ? ": " : "", only->seen);
        wrap(out, line.p, 25, 25);
        buf_fini(&line);
        return;
    }
    buf_fmt(out, "%s\n", doctor_check_why(c));
    size_t well = 0;
    for (size_t i = 0; i < x->n; i++) {
        bool quiet = x->notes[i].verdict == DOCTOR_OK && !*x->notes[i].todo;
        if (!all && quiet && x->verdict != DOCTOR_OK)
            well++;
        else
            write_note(&x->notes[i], out);
    }
    if (well)
        buf_fmt(out, "          %zu more as they should be (-v shows them)\n", well);
    if (x->hidden)
        buf_fmt(out, "          and %zu more not shown\n", x->hidden);
}

void doctor_write_text(const struct doctor_report *r, bool all, struct buf *out)
{
    struct buf head = buf_init(1024);
    buf_fmt(&head, "cluster %s, stage %s", r->cluster, r->stage);
    if (*r->account)
        buf_fmt(&head, ", as %s", r->account);
    wrap(out, head.p, 0, 0);
    buf_fini(&head);
    buf_char(out, '\n');
    for (int c = 0; c < DOCTOR_CHECKS; c++)
        write_check(r, (enum doctor_check)c, all, out);
    buf_fmt(out, "\n%zu ok, %zu warn, %zu fail, %zu skip\n", doctor_count(r, DOCTOR_OK),
            doctor_count(r, DOCTOR_WARN), doctor_count(r, DOCTOR_FAIL),
            doctor_count(r, DOCTOR_SKIP));
}

void doctor_write_json(const struct doctor_report *r, struct buf *out)
{
    struct json_writer w = json_writer_init(out, 2);
    json_open(&w, NULL);
    json_put_str(&w, "cluster", r->cluster);
    json_put_str(&w, "stage", r->stage);
    json_put_str(&w, "account", *r->account ? r->account : NULL);
    for (int v = 0; v < DOCTOR_VERDICTS; v++)
        json_put_u64(&w, verdict_names[v], doctor_count(r, (enum doctor_verdict)v));
    json_open_array(&w, "checks");
    for (int c = 0; c < DOCTOR_CHECKS; c++) {
        const struct doctor_result *x = &r->check[c];
        json_open(&w, NULL);
        json_put_i64(&w, "step", c + 1);
        json_put_str(&w, "name", check_names[c]);
        json_put_str(&w, "verdict", verdict_names[x->verdict]);
        json_put_str(&w, "why", check_whys[c]);
        json_open_array(&w, "notes");
        for (size_t i = 0; i < x->n; i++) {
            json_open(&w, NULL);
            json_put_str(&w, "verdict", verdict_names[x->notes[i].verdict]);
            json_put_str(&w, "about", *x->notes[i].about ? x->notes[i].about : NULL);
            json_put_str(&w, "seen", x->notes[i].seen);
            json_put_str(&w, "todo", *x->notes[i].todo ? x->notes[i].todo : NULL);
            json_close(&w);
        }
        json_close_array(&w);
        json_put_u64(&w, "notes_hidden", x->hidden);
        json_close(&w);
    }
    json_close_array(&w);
    json_close(&w);
    buf_char(out, '\n');
}
