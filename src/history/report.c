#include "history/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/opt.h"

static const struct tally_info infos[TALLY_COUNT] = {
#define X(id, name, kind, text) [TALLY_##id] = {name, kind, text},
    TALLY_LIST(X)
#undef X
};

static const struct {
    size_t offset;
    const char *name, *text;
} counters[] = {
#define X(member, text) {offsetof(struct import_report, member), #member, text},
    REPORT_COUNTER_LIST(X)
#undef X
};

static uint64_t counter_at(const struct import_report *r, size_t i)
{
    uint64_t v;
    memcpy(&v, (const char *)r + counters[i].offset, sizeof v);
    return v;
}

const struct tally_info *tally_info(enum tally_id id)
{
    return &infos[id];
}

void report_init(struct import_report *r)
{
    memset(r, 0, sizeof *r);
    r->step_share = NAN;
}

static void printable(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
            *s = '?';
}

void report_add(struct import_report *r, enum tally_id id, const char *file, uint64_t line)
{
    struct tally *t = &r->tally[id];
    if (t->count++ > 0)
        return;
    t->line = line;
    if (!file)
        return;
    const char *slash = strrchr(file, '/');
    (void)snprintf(t->file, sizeof t->file, "%s", slash && slash[1] ? slash + 1 : file);
    printable(t->file);
}

void report_note(struct import_report *r, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    printable(line);
    size_t have = strlen(r->notes), n = strlen(line);
    if (have + n + 2 > sizeof r->notes)
        return; /* 2 KiB of notes say enough */
    memcpy(r->notes + have, line, n);
    memcpy(r->notes + have + n, "\n", 2);
}

static bool is_wrong(size_t id)
{
    return infos[id].kind == 'r' || infos[id].kind == 'v';
}

uint64_t report_wrong(const struct import_report *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < TALLY_COUNT; i++)
        if (is_wrong(i))
            sum += r->tally[i].count;
    return sum;
}

enum tally_id report_worst(const struct import_report *r)
{
    enum tally_id worst = TALLY_COUNT;
    for (size_t i = 0; i < TALLY_COUNT; i++)
        if (is_wrong(i) && r->tally[i].count > 0 &&
            (worst == TALLY_COUNT || r->tally[i].count > r->tally[worst].count))
            worst = (enum tally_id)i;
    return worst;
}

void report_text(const struct import_report *r, struct buf *out)
{
    char step[32];
    opt_format_duration(r->native_step_us, step);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        buf_fmt(out, "%12llu  %s\n", (unsigned long long)counter_at(r, i), counters[i].text);
    buf_fmt(out, "%12s  step", step);
    if (isnan(r->step_share))
        buf_str(out, " (given)\n");
    else
        buf_fmt(out, " (detected: %.1f %% of the differences)\n", 100 * r->step_share);
    for (size_t i = 0; i < TALLY_COUNT; i++) {
        const struct tally *t = &r->tally[i];
        if (t->count == 0)
            continue;
        buf_fmt(out, "%12llu  %s", (unsigned long long)t->count, infos[i].text);
        if (t->line)
            buf_fmt(out, "; first at %s:%llu", t->file[0] ? t->file : "line",
                    (unsigned long long)t->line);
        buf_char(out, '\n');
    }
    for (const char *s = r->notes; *s;) {
        const char *end = strchr(s, '\n');
        int n = end ? (int)(end - s) : (int)strlen(s);
        buf_fmt(out, "        note  %.*s\n", n, s);
        s = end ? end + 1 : s + n;
    }
}

void report_json(const struct import_report *r, struct json_writer *w, const char *key)
{
    json_open(w, key);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        json_put_u64(w, counters[i].name, counter_at(r, i));
    json_put_f64(w, "native_step_s", (double)r->native_step_us * 1e-6);
    json_put_f64(w, "step_share_frac", r->step_share);
    json_open(w, "tallies");
    for (size_t i = 0; i < TALLY_COUNT; i++) {
        const struct tally *t = &r->tally[i];
        if (t->count == 0)
            continue;
        json_open(w, infos[i].name);
        json_put_u64(w, "count", t->count);
        if (t->line) {
            json_put_str(w, "first_file", t->file);
            json_put_u64(w, "first_line", t->line);
        }
        json_close(w);
    }
    json_close(w);
    json_put_str(w, "notes", r->notes);
    json_close(w);
}
