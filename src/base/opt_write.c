/* opt_write.c - a table as help, annotated config, Markdown and effective values; hash; self-check. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/opt_priv.h"

enum { HELP_COLUMN = 32, PATH_BYTES = 256 };

const char *opt_type_text(enum opt_type type)
{
    static const char *const text[] = {
        [OPT_TYPE_BOOL] = "true|false",
        [OPT_TYPE_INT] = "integer",
        [OPT_TYPE_DOUBLE] = "number",
        [OPT_TYPE_DURATION] = "duration",
        [OPT_TYPE_BYTES] = "bytes",
        [OPT_TYPE_STRING] = "text",
        [OPT_TYPE_ENUM] = "choice",
        [OPT_TYPE_STRINGS] = "list of text",
        [OPT_TYPE_DOUBLES] = "list of numbers",
        [OPT_TYPE_INTS] = "list of integers",
        [OPT_TYPE_SUB] = "mapping",
        [OPT_TYPE_SUBS] = "list of mappings",
    };
    return text[type];
}

static void write_limits(const struct opt_row *row, struct buf *out)
{
    const char *unit = row->unit ? row->unit : "";
    const char *gap = row->unit ? " " : "";
    if (row->type == OPT_TYPE_ENUM) {
        buf_str(out, "one of ");
        for (size_t i = 0; row->names[i]; i++)
            buf_fmt(out, "%s%s", i ? ", " : "", row->names[i]);
    } else if (row->min && row->max) {
        buf_fmt(out, "%s to %s%s%s", row->min, row->max, gap, unit);
    } else if (row->min) {
        buf_fmt(out, "at least %s%s%s", row->min, gap, unit);
    } else if (row->max) {
        buf_fmt(out, "at most %s%s%s", row->max, gap, unit);
    } else {
        buf_str(out, unit);
    }
}

static bool has_limits(const struct opt_row *row)
{
    return row->type == OPT_TYPE_ENUM || row->min || row->max || row->unit;
}

void opt_describe(const struct opt_row *row, struct buf *out)
{
    if (row->required && !row->def)
        buf_str(out, "required");
    else if (row->def && *row->def)
        buf_fmt(out, "default %s", row->def);
    else
        buf_str(out, opt_is_list(row->type) ? "default none" : "");
    if (has_limits(row)) {
        buf_str(out, out->n ? "; " : "");
        write_limits(row, out);
    }
    if (row->reloadable)
        buf_fmt(out, "%sreloadable", out->n ? "; " : "");
}

static void describe_in(const struct opt_row *row, const char *before, const char *after, struct buf *out)
{
    struct buf words = buf_init(4096);
    opt_describe(row, &words);
    if (words.n)
        buf_fmt(out, "%s%s%s", before, words.p, after);
    buf_fini(&words);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void help_rows(const struct opt_table *t, const char *prefix, struct buf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s%s", prefix, row->name);
        size_t n = strlen(path);
        buf_fmt(out, "  %s", path);
        buf_pad(out, ' ', n + 4 < HELP_COLUMN ? HELP_COLUMN - n - 2 : 2);
        buf_str(out, row->help);
        if (row->sub) {
            buf_char(out, '\n');
            (void)snprintf(path, sizeof path, "%s%s%s.", prefix, row->name,
                           row->type == OPT_TYPE_SUBS ? "[i]" : "");
            help_rows(row->sub, path, out);
            continue;
        }
        buf_fmt(out, " (%s", opt_type_text(row->type));
        describe_in(row, "; ", "", out);
        buf_str(out, ")\n");
    }
}

void opt_write_help(const struct opt_table *t, struct buf *out)
{
    help_rows(t, "", out);
}

/* ---- YAML ------------------------------------------------------------------------------------ */

/* Comments before a key: help, then type, default and limits. */
static void annotate(const struct opt_row *row, int indent, const char *mark, struct buf *out)
{
    buf_pad(out, ' ', (size_t)indent);
    buf_fmt(out, "%s%s# %s", mark, *mark ? "     " : "", row->help);
    if (!row->sub) {
        buf_fmt(out, " (%s", opt_type_text(row->type));
        describe_in(row, "; ", "", out);
        buf_char(out, ')');
    }
    buf_char(out, '\n');
}

/* " value", or nothing when there is none. */
static void put_value(const struct opt_row *row, const void *dst, struct buf *out)
{
    struct buf text = buf_init(out->cap);
    opt_value(row, dst, &text);
    if (text.n)
        buf_fmt(out, " %s", text.p);
    buf_fini(&text);
}

/* mark is "" or "#": the example element of a list of mappings is commented out. */
static void config_rows(const struct opt_table *t, const void *dst, int indent, const char *mark,
                        const char *dash, struct buf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        const char *lead = i == 0 && *dash ? dash : *dash ? "    " : ""; /* as wide as "  - " */
        annotate(row, indent, mark, out);
        buf_pad(out, ' ', (size_t)indent);
        bool unset = !row->sub && !opt_is_list(row->type) && opt_is_unset(row, dst);
        buf_fmt(out, "%s%s%s%s:", mark, *mark ? " " : unset ? "# " : "", lead, row->name);
        if (row->type == OPT_TYPE_SUB) {
            buf_char(out, '\n');
            config_rows(row->sub, opt_field_const(row, dst), indent + 2 + (*dash ? 2 : 0), mark, "", out);
        } else if (row->type == OPT_TYPE_SUBS) {
            void *example = mem_zero(1, row->sub->size);
            opt_init(row->sub, example);
            buf_str(out, " []\n");
            config_rows(row->sub, example, indent, "#", "  - ", out);
            opt_fini(row->sub, example);
            mem_free(example);
        } else {
            put_value(row, dst, out);
            buf_char(out, '\n');
        }
    }
}

void opt_write_config(const struct opt_table *t, struct buf *out)
{
    void *dst = mem_zero(1, t->size);
    opt_init(t, dst);
    buf_fmt(out, "# %s\n", t->help);
    config_rows(t, dst, 0, "", "", out);
    opt_fini(t, dst);
    mem_free(dst);
}

static void effective_rows(const struct opt_table *t, const void *dst, const struct opt_sources *src,
                           const char *prefix, int indent, bool dash, struct buf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s%s", prefix, row->name);
        bool unset = opt_is_unset(row, dst) && !row->sub && !opt_is_list(row->type);
        const char *lead = dash ? (i == 0 ? "- " : "  ") : "";
        buf_pad(out, ' ', (size_t)indent);
        buf_fmt(out, "%s%s%s:", lead, unset ? "# " : "", row->name);
        if (row->type == OPT_TYPE_SUB) {
            buf_char(out, '\n');
            (void)snprintf(path, sizeof path, "%s%s.", prefix, row->name);
            effective_rows(row->sub, opt_field_const(row, dst), src, path, indent + (dash ? 4 : 2), false, out);
        } else if (row->type == OPT_TYPE_SUBS) {
            const struct opt_subs *list = opt_field_const(row, dst);
            buf_fmt(out, "%s  # %s\n", list->n ? "" : " []", opt_source(src, path));
            for (size_t k = 0; k < list->n; k++) {
                (void)snprintf(path, sizeof path, "%s%s[%zu].", prefix, row->name, k);
                effective_rows(row->sub, (const char *)list->items + k * row->sub->size, src, path,
                               indent + (dash ? 4 : 2), true, out);
            }
        } else {
            put_value(row, dst, out);
            buf_fmt(out, "  # %s\n", opt_source(src, path));
        }
    }
}

void opt_write_effective(const struct opt_table *t, const void *dst, const struct opt_sources *src,
                         struct buf *out)
{
    effective_rows(t, dst, src, "", 0, false, out);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

static void markdown_cell(const char *s, struct buf *out)
{
    for (; *s; s++) {
        if (*s == '|')
            buf_char(out, '\\');
        buf_char(out, *s == '\n' ? ' ' : *s);
    }
}

static void markdown_rows(const struct opt_table *t, const char *prefix, struct buf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        struct buf limits = buf_init(4096);
        if (has_limits(row))
            write_limits(row, &limits);
        buf_fmt(out, "| `%s%s` | ", prefix, row->name);
        markdown_cell(opt_type_text(row->type), out);
        buf_fmt(out, " | %s | ", row->def && *row->def ? row->def : row->required ? "*required*" : "");
        markdown_cell(limits.p, out);
        buf_fmt(out, " | %s | ", row->reloadable ? "yes" : "");
        markdown_cell(row->help, out);
        buf_str(out, " |\n");
        buf_fini(&limits);
        if (row->sub) {
            char path[PATH_BYTES];
            (void)snprintf(path, sizeof path, "%s%s%s.", prefix, row->name,
                           row->type == OPT_TYPE_SUBS ? "[i]" : "");
            markdown_rows(row->sub, path, out);
        }
    }
}

void opt_write_markdown(const struct opt_table *t, struct buf *out)
{
    buf_fmt(out, "## %s\n\n%s\n\n", t->name, t->help);
    buf_str(out, "| key | type | default | limits | reload | meaning |\n|---|---|---|---|---|---|\n");
    markdown_rows(t, "", out);
}

/* ---- hash ------------------------------------------------------------------------------------ */

void opt_hash(const struct opt_table *t, const void *dst, struct hash *h)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        hash_str(h, row->name);
        if (row->type == OPT_TYPE_SUB) {
            opt_hash(row->sub, opt_field_const(row, dst), h);
        } else if (row->type == OPT_TYPE_SUBS) {
            const struct opt_subs *list = opt_field_const(row, dst);
            hash_u64(h, list->n);
            for (size_t k = 0; k < list->n; k++)
                opt_hash(row->sub, (const char *)list->items + k * row->sub->size, h);
        } else {
            struct buf text = buf_init(1 << 24);
            opt_value(row, dst, &text);
            hash_str(h, text.p);
            buf_fini(&text);
        }
    }
}

/* ---- a table's own mistakes ------------------------------------------------------------------ */

static enum err_code check_text(const struct opt_row *row, const char *text, struct err *e)
{
    union opt_scalar v;
    struct opt_strings list = {0};
    if (row->type == OPT_TYPE_STRING || row->type == OPT_TYPE_STRINGS)
        return ERR_OK;
    if (!opt_is_list(row->type))
        return opt_parse_scalar(row, text, &v, e);
    struct opt_row alone = *row;
    alone.offset = 0;
    enum err_code rc = opt_store_list(&alone, &list, text, e);
    opt_clear_list(&alone, &list);
    return rc;
}

static enum err_code check_row(const struct opt_table *t, size_t i, struct err *e)
{
    const struct opt_row *row = &t->rows[i];
    bool optional = row->type == OPT_TYPE_STRING || row->type == OPT_TYPE_DOUBLE || row->sub ||
                    opt_is_list(row->type);
    if (!row->name || !row->help || !*row->help)
        return err_set(e, ERR_INVAL, "no name or no help");
    if (strpbrk(row->name, " .[]=\""))
        return err_set(e, ERR_INVAL, "a character the key syntax uses");
    if (opt_find(t, row->name) != row)
        return err_set(e, ERR_INVAL, "name used twice");
    if ((row->type == OPT_TYPE_SUB || row->type == OPT_TYPE_SUBS) != (row->sub != NULL))
        return err_set(e, ERR_INVAL, "sub-table");
    if ((row->type == OPT_TYPE_ENUM) != (row->names != NULL))
        return err_set(e, ERR_INVAL, "names");
    if (!row->def && !optional && !row->required)
        return err_set(e, ERR_INVAL, "neither a default nor required");
    if (row->offset >= t->size)
        return err_set(e, ERR_INVAL, "outside its struct");
    enum err_code rc = row->def ? check_text(row, row->def, e) : ERR_OK;
    /* min and max must lie within the limits themselves, so min <= max. */
    if (!rc && row->min)
        rc = check_text(row, row->min, e);
    if (!rc && row->max)
        rc = check_text(row, row->max, e);
    return rc;
}

enum err_code opt_table_check(const struct opt_table *t, struct err *e)
{
    enum err_code rc = ERR_OK;
    for (size_t i = 0; i < t->n && !rc; i++) {
        rc = check_row(t, i, e);
        if (!rc && t->rows[i].sub)
            rc = opt_table_check(t->rows[i].sub, e);
        if (rc)
            (void)err_wrap(e, "table %s, row %s", t->name, t->rows[i].name ? t->rows[i].name : "?");
    }
    return rc;
}
