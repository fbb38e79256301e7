/* decisions_notes.c - what people and the process did: freezes, overrides, reloads, who led. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/decisions_priv.h"
#include "report/table.h"

struct name {
    int64_t id;
    char *text; /* "namespace/name" */
};

struct notes {
    struct decisions *d;
    struct table *table;
    struct name *name;
    size_t n, cap;
};

static bool on_target(void *ctx, const struct store_target *t)
{
    struct notes *x = ctx;
    struct buf text = buf_init(4096);
    if (x->n == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 64;
        x->name = mem_grow(x->name, x->cap, sizeof *x->name);
    }
    buf_fmt(&text, "%s/%s", t->namespace_, t->name);
    x->name[x->n++] = (struct name){t->id, buf_take(&text)};
    return true;
}

static const char *name_of(const struct notes *x, int64_t id)
{
    for (size_t i = 0; i < x->n; i++)
        if (x->name[i].id == id)
            return x->name[i].text;
    return "";
}

static void put_time(struct notes *x, int64_t t_us)
{
    char at[TZ_TEXT] = "";
    if (t_us)
        tz_format_rfc3339(x->d->zone, t_us, at);
    table_text(x->table, at);
}

static bool on_note(void *ctx, const struct store_note *n)
{
    struct notes *x = ctx;
    put_time(x, n->time_us);
    table_text(x->table, store_note_name(n->kind));
    table_text(x->table, name_of(x, n->target_id));
    table_text(x->table, n->author ? n->author : "");
    put_time(x, n->until_us);
    table_text(x->table, n->text ? n->text : "");
    return true;
}

enum err_code decisions_notes(struct decisions *d, struct buf *text, struct err *e)
{
    static const struct table_column columns[] = {{"time", NULL, 0},   {"kind", NULL, 0},
                                                  {"target", NULL, 0}, {"author", NULL, 0},
                                                  {"until", NULL, 0},  {"text", NULL, 0}};
    struct notes x = {.d = d, .table = table_new(columns, ARRAY_LEN(columns))};
    enum err_code rc = store_targets(d->store, on_target, &x, e);
    if (!rc)
        rc = store_notes(d->store, d->q.since_us, d->q.until_us ? d->q.until_us : INT64_MAX,
                         on_note, &x, e);
    if (!rc && d->c->format == CLI_TABLE && table_n_rows(x.table) == 0)
        buf_fmt(text, "no notes of this time in %s\n", store_path(d->store));
    else if (!rc)
        table_format(x.table, d->c->format, cli_colour(d->c), text);
    for (size_t i = 0; i < x.n; i++)
        mem_free(x.name[i].text);
    mem_free(x.name);
    table_free(x.table);
    return rc;
}
