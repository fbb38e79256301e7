/* opt_read.c - YAML and key=value into the struct of a table. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/opt_priv.h"

enum { PATH_BYTES = 256 };

/* Where we are: the path of the value being read, and who says so. */
struct place {
    const char *file;
    struct opt_sources *src;
    char path[PATH_BYTES];
};

static size_t push(struct place *at, const char *name)
{
    size_t mark = strlen(at->path);
    (void)snprintf(at->path + mark, sizeof at->path - mark, "%s%s", mark ? "." : "", name);
    return mark;
}

static size_t push_index(struct place *at, size_t i)
{
    size_t mark = strlen(at->path);
    (void)snprintf(at->path + mark, sizeof at->path - mark, "[%zu]", i);
    return mark;
}

static enum err_code note(const struct place *at, int line, struct err *e)
{
    char where[512];
    (void)snprintf(where, sizeof where, "%s:%d", at->file, line);
    return opt_note(at->src, at->path, where, e);
}

static enum err_code located(const struct place *at, int line, enum err_code code, struct err *e)
{
    if (code && e)
        (void)err_wrap(e, "%s:%d: %s", at->file, line, at->path);
    return code;
}

static enum err_code fail(const struct place *at, int line, const char *what, struct err *e)
{
    return located(at, line, err_set(e, ERR_PARSE, "%s", what), e);
}

static enum err_code read_map(struct place *at, const struct opt_table *t, void *dst,
                              const struct yaml_node *map, struct err *e);

static bool numeric(enum opt_type type)
{
    return type == OPT_TYPE_BOOL || type == OPT_TYPE_INT || type == OPT_TYPE_DOUBLE ||
           type == OPT_TYPE_DOUBLES || type == OPT_TYPE_INTS;
}

/* What a scalar must be before its text is looked at. */
static const char *scalar_fault(const struct opt_row *row, const struct yaml_node *v)
{
    if (v->kind != YAML_SCALAR)
        return "expected a single value";
    if (yaml_is_null(v))
        return "has no value; leave the key out to use the default";
    if (v->quoted && numeric(row->type))
        return "expected a plain value without quotes";
    return NULL;
}

static enum err_code read_scalar(struct place *at, const struct opt_row *row, void *dst,
                                 const struct yaml_node *v, struct err *e)
{
    const char *fault = scalar_fault(row, v);
    if (fault)
        return fail(at, v->line, fault, e);
    return located(at, v->line, opt_store(row, dst, v->text, e), e);
}

static enum err_code read_list(struct place *at, const struct opt_row *row, void *dst,
                               const struct yaml_node *list, struct err *e)
{
    size_t i = 0;
    if (list->kind != YAML_LIST)
        return fail(at, list->line, "expected a list, as in [a, b]", e);
    opt_clear_list(row, dst);
    for (const struct yaml_node *v = list->first; v; v = v->next, i++) {
        size_t mark = push_index(at, i);
        const char *fault = scalar_fault(row, v);
        if (fault)
            return fail(at, v->line, fault, e);
        enum err_code rc = located(at, v->line, opt_append(row, dst, v->text, e), e);
        if (rc)
            return rc;
        at->path[mark] = '\0';
    }
    return ERR_OK;
}

static enum err_code read_subs(struct place *at, const struct opt_row *row, void *dst,
                               const struct yaml_node *list, struct err *e)
{
    if (list->kind != YAML_LIST)
        return fail(at, list->line, "expected a list of mappings, each starting with -", e);
    enum err_code rc = located(at, list->line, opt_make_subs(row, dst, list->n_children, e), e);
    const struct opt_subs *subs = opt_field(row, dst);
    size_t i = 0;
    for (const struct yaml_node *v = list->first; v && !rc; v = v->next, i++) {
        size_t mark = push_index(at, i);
        rc = note(at, v->line, e);
        if (!rc)
            rc = read_map(at, row->sub, (char *)subs->items + i * row->sub->size, v, e);
        if (!rc)
            at->path[mark] = '\0';
    }
    return rc;
}

static enum err_code read_row(struct place *at, const struct opt_row *row, void *dst,
                              const struct yaml_node *v, struct err *e)
{
    enum err_code rc = note(at, v->key_line, e);
    if (rc)
        return rc;
    if (row->type == OPT_TYPE_SUB)
        return read_map(at, row->sub, opt_field(row, dst), v, e);
    if (row->type == OPT_TYPE_SUBS)
        return read_subs(at, row, dst, v, e);
    if (opt_is_list(row->type))
        return read_list(at, row, dst, v, e);
    return read_scalar(at, row, dst, v, e);
}

static enum err_code read_map(struct place *at, const struct opt_table *t, void *dst,
                              const struct yaml_node *map, struct err *e)
{
    if (map->kind != YAML_MAP)
        return fail(at, map->line, "expected a mapping (key: value)", e);
    for (const struct yaml_node *v = map->first; v; v = v->next) {
        const struct opt_row *row = opt_find(t, v->key);
        if (!row) {
            enum err_code rc = opt_unknown(t, v->key, e);
            (void)err_wrap(e, "%s:%d%s%s", at->file, v->key_line, *at->path ? ": " : "", at->path);
            return rc;
        }
        size_t mark = push(at, row->name);
        enum err_code rc = read_row(at, row, dst, v, e);
        if (rc)
            return rc;
        at->path[mark] = '\0';
    }
    return ERR_OK;
}

enum err_code opt_read_node(const struct opt_table *t, void *dst, const char *file,
                            const struct yaml_node *map, struct opt_sources *src, struct err *e)
{
    struct place at = {.file = file, .src = src};
    return read_map(&at, t, dst, map, e);
}

static enum err_code read_doc(const struct opt_table *t, void *dst, const struct yaml_doc *doc,
                              struct opt_sources *src, struct err *e)
{
    const struct yaml_node *root = yaml_root(doc);
    if (!root || yaml_is_null(root))
        return ERR_OK; /* an empty file: all defaults */
    if (root->kind != YAML_MAP)
        return err_set(e, ERR_PARSE, "%s:%d: expected a mapping (key: value)", yaml_name(doc), root->line);
    return opt_read_node(t, dst, yaml_name(doc), root, src, e);
}

enum err_code opt_read_text(const struct opt_table *t, void *dst, const char *text, size_t n,
                            const char *name, struct opt_sources *src, struct err *e)
{
    struct yaml_doc *doc;
    enum err_code rc = yaml_parse(text, n, name, &doc, e);
    if (!rc)
        rc = read_doc(t, dst, doc, src, e);
    yaml_free(doc);
    return rc;
}

/* ---- key=value ------------------------------------------------------------------------------- */

/* One step of a path: "pools[2]." or "name" up to the end; *index is SIZE_MAX without one. */
static enum err_code next_step(const char **path, char name[64], size_t *index, struct err *e)
{
    size_t n = strcspn(*path, ".[");
    if (n == 0 || n >= 64)
        return err_set(e, ERR_PARSE, "%.60s: expected key=value", *path);
    memcpy(name, *path, n);
    name[n] = '\0';
    *path += n;
    *index = SIZE_MAX;
    if (**path == '[') {
        size_t i = 0, digits = 0;
        for (const char *p = ++*path; *p >= '0' && *p <= '9' && digits < 6; p++, digits++)
            i = i * 10 + (size_t)(*p - '0');
        *path += digits;
        if (digits == 0 || **path != ']')
            return err_set(e, ERR_PARSE, "%s: expected an index, as in %s[0]", name, name);
        ++*path;
        *index = i;
    }
    if (**path == '.' && (*path)[1])
        ++*path;
    else if (**path)
        return err_set(e, ERR_PARSE, "%s: unexpected \"%.20s\" in the key", name, *path);
    return ERR_OK;
}

static enum err_code store_text(const struct opt_row *row, void *dst, const char *text, struct err *e)
{
    if (row->type == OPT_TYPE_SUB || row->type == OPT_TYPE_SUBS)
        return err_set(e, ERR_PARSE, "holds other keys; set them one by one: %s%s.%s=...", row->name,
                       row->type == OPT_TYPE_SUBS ? "[0]" : "", row->sub->rows[0].name);
    if (opt_is_list(row->type))
        return opt_store_list(row, dst, text, e);
    return opt_store(row, dst, text, e);
}

/* The struct below a row: its sub-table, or one element of its list. */
static enum err_code enter(const struct opt_row *row, void **dst, size_t index, struct err *e)
{
    if (row->type == OPT_TYPE_SUB) {
        *dst = opt_field(row, *dst);
        return ERR_OK;
    }
    if (row->type != OPT_TYPE_SUBS)
        return err_set(e, ERR_PARSE, "%s: holds no other keys", row->name);
    if (index == SIZE_MAX)
        return err_set(e, ERR_PARSE, "%s: is a list; write %s[0]", row->name, row->name);
    const struct opt_subs *list = opt_field_const(row, *dst);
    if (index >= list->n)
        return err_set(e, ERR_RANGE, "%s[%zu]: the list has %zu entries", row->name, index, list->n);
    *dst = (char *)list->items + index * row->sub->size;
    return ERR_OK;
}

/* The row at the path, and the struct it lives in. */
static enum err_code walk(const struct opt_table *t, void *dst, const char *path,
                          const struct opt_row **row, void **in, struct err *e)
{
    for (;;) {
        char name[64];
        size_t index = SIZE_MAX;
        enum err_code rc = next_step(&path, name, &index, e);
        if (rc)
            return rc;
        *row = opt_find(t, name);
        *in = dst;
        if (!*row)
            return opt_unknown(t, name, e);
        if (index != SIZE_MAX && (*row)->type != OPT_TYPE_SUBS)
            return err_set(e, ERR_PARSE, "%s: takes no index", name);
        if (*path == '\0')
            return ERR_OK;
        rc = enter(*row, &dst, index, e);
        if (rc)
            return rc;
        t = (*row)->sub;
    }
}

enum err_code opt_set(const struct opt_table *t, void *dst, const char *assignment,
                      struct opt_sources *src, struct err *e)
{
    const char *equals = strchr(assignment, '=');
    size_t n = equals ? (size_t)(equals - assignment) : 0;
    if (n == 0)
        return err_set(e, ERR_PARSE, "--set %.80s: expected key=value", assignment);
    if (n >= PATH_BYTES)
        return err_set(e, ERR_LIMIT, "--set %.80s: the key is too long", assignment);
    char path[PATH_BYTES];
    memcpy(path, assignment, n);
    path[n] = '\0';
    const struct opt_row *row;
    void *in;
    enum err_code rc = walk(t, dst, path, &row, &in, e);
    if (rc) {
        (void)err_wrap(e, "--set %.80s", assignment);
        return rc;
    }
    rc = store_text(row, in, equals + 1, e);
    if (rc)
        (void)err_wrap(e, "--set %s", path);
    else
        rc = opt_note(src, path, "--set", e);
    return rc;
}

enum err_code opt_set_row(const struct opt_row *row, void *dst, const char *text, bool append,
                          struct err *e)
{
    return append && opt_is_list(row->type) ? opt_append(row, dst, text, e) : store_text(row, dst, text, e);
}

enum err_code opt_read_file(const struct opt_table *t, void *dst, const char *path, struct opt_sources *src,
                            struct err *e)
{
    struct yaml_doc *doc = NULL;
    enum err_code rc = yaml_load(path, &doc, e);
    if (!rc)
        rc = read_doc(t, dst, doc, src, e);
    yaml_free(doc);
    return rc;
}

enum err_code opt_load(const struct opt_table *t, void *dst, const char *path, char *const *sets,
                       size_t n_sets, struct opt_sources *src, struct err *e)
{
    struct opt_sources *own = src ? NULL : opt_sources_new();
    src = src ? src : own;
    opt_init(t, dst);
    enum err_code rc = path ? opt_read_file(t, dst, path, src, e) : ERR_OK;
    for (size_t i = 0; i < n_sets && !rc; i++)
        rc = opt_set(t, dst, sets[i], src, e);
    if (!rc && (rc = opt_finish(t, dst, e)) != ERR_OK)
        (void)opt_blame(src, path ? path : t->name, e);
    opt_sources_free(own);
    return rc;
}

enum err_code opt_load_yaml(const struct opt_table *t, void *dst, const char *path,
                            struct opt_sources *src, struct err *e)
{
    return opt_load(t, dst, path, NULL, 0, src, e);
}
