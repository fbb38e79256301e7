/* opt.c - the struct behind a table: defaults, lists, release, sources, required keys, checks. */
#include "base/opt.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/intern.h"
#include "base/mem.h"
#include "base/opt_priv.h"

static_assert(sizeof(struct opt_strings) == sizeof(struct opt_subs) &&
                  sizeof(struct opt_doubles) == sizeof(struct opt_subs) &&
                  sizeof(struct opt_ints) == sizeof(struct opt_subs),
              "lists are a pointer and a count");

const struct opt_row *opt_find(const struct opt_table *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->rows[i].name, name) == 0)
            return &t->rows[i];
    }
    return NULL;
}

/* ---- nearest word ---------------------------------------------------------------------------- */

enum { WORD_MAX = 40 };

/* Levenshtein distance, one row at a time. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t change = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            size_t other = (row[j] < diagonal ? row[j] : diagonal) + 1;
            row[j + 1] = change < other ? change : other;
        }
    }
    return row[n];
}

const char *opt_nearest(const char *word, const char *(*next)(size_t i, const void *arg), const void *arg)
{
    const char *best = NULL, *candidate;
    size_t len = strlen(word), least = len / 3 + 2; /* farther is no help */
    if (len > WORD_MAX)
        return NULL;
    for (size_t i = 0; (candidate = next(i, arg)) != NULL; i++) {
        if (strlen(candidate) > WORD_MAX)
            continue;
        size_t d = distance(word, candidate);
        if (d < least && d < strlen(candidate)) {
            least = d;
            best = candidate;
        }
    }
    return best;
}

static const char *row_name(size_t i, const void *arg)
{
    const struct opt_table *t = arg;
    return i < t->n ? t->rows[i].name : NULL;
}

enum err_code opt_unknown(const struct opt_table *t, const char *name, struct err *e)
{
    const char *near = opt_nearest(name, row_name, t);
    if (near)
        return err_set(e, ERR_PARSE, "%.60s: unknown key; did you mean %s?", name, near);
    return err_set(e, ERR_PARSE, "%.60s: unknown key", name);
}

/* ---- lists ----------------------------------------------------------------------------------- */

void opt_clear_list(const struct opt_row *row, void *dst)
{
    struct opt_strings *list = opt_field(row, dst);
    if (row->type == OPT_TYPE_STRINGS) {
        for (size_t i = 0; i < list->n; i++)
            mem_free(list->items[i]);
    }
    mem_free(list->items);
    *list = (struct opt_strings){0};
}

/* Capacity is the next power of two, so growing on powers of two suffices. */
static enum err_code grow(const struct opt_row *row, void **items, size_t n, size_t size, struct err *e)
{
    if (n >= OPT_LIST_MAX)
        return err_set(e, ERR_LIMIT, "%s: more than %d entries", row->name, OPT_LIST_MAX);
    if ((n & (n - 1)) == 0)
        *items = mem_grow(*items, n ? 2 * n : 1, size);
    return ERR_OK;
}

static enum err_code append_string(const struct opt_row *row, void *dst, const char *text, struct err *e)
{
    struct opt_strings *list = opt_field(row, dst);
    void *items = list->items;
    enum err_code rc = grow(row, &items, list->n, sizeof *list->items, e);
    list->items = items;
    if (!rc)
        list->items[list->n++] = mem_strdup(text);
    return rc;
}

enum err_code opt_append(const struct opt_row *row, void *dst, const char *text, struct err *e)
{
    union opt_scalar v;
    if (row->type == OPT_TYPE_STRINGS)
        return append_string(row, dst, text, e);
    enum err_code rc = opt_parse_scalar(row, text, &v, e);
    if (rc)
        return rc;
    if (row->type == OPT_TYPE_DOUBLES) {
        struct opt_doubles *list = opt_field(row, dst);
        void *items = list->items;
        rc = grow(row, &items, list->n, sizeof *list->items, e);
        list->items = items;
        if (!rc)
            list->items[list->n++] = v.d;
    } else {
        struct opt_ints *list = opt_field(row, dst);
        void *items = list->items;
        rc = grow(row, &items, list->n, sizeof *list->items, e);
        list->items = items;
        if (!rc)
            list->items[list->n++] = v.i;
    }
    return rc;
}

enum err_code opt_store_list(const struct opt_row *row, void *dst, const char *text, struct err *e)
{
    enum err_code rc = ERR_OK;
    opt_clear_list(row, dst);
    while (*text && !rc) {
        size_t n = strcspn(text, ",");
        char *part = mem_zero(n + 1, 1);
        memcpy(part, text, n);
        rc = opt_append(row, dst, part, e);
        mem_free(part);
        text += n + (text[n] == ',');
    }
    return rc;
}

void opt_clear_subs(const struct opt_row *row, void *dst)
{
    struct opt_subs *list = opt_field(row, dst);
    for (size_t i = 0; i < list->n; i++)
        opt_fini(row->sub, (char *)list->items + i * row->sub->size);
    mem_free(list->items);
    *list = (struct opt_subs){0};
}

enum err_code opt_make_subs(const struct opt_row *row, void *dst, size_t n, struct err *e)
{
    struct opt_subs *list = opt_field(row, dst);
    opt_clear_subs(row, dst);
    if (n > OPT_LIST_MAX)
        return err_set(e, ERR_LIMIT, "more than %d entries", OPT_LIST_MAX);
    list->items = try_zero(n, row->sub->size);
    if (!list->items)
        return err_set(e, ERR_NOMEM, "%zu entries", n);
    list->n = n;
    for (size_t i = 0; i < n; i++)
        opt_init(row->sub, (char *)list->items + i * row->sub->size);
    return ERR_OK;
}

/* ---- defaults and release -------------------------------------------------------------------- */

static void init_unset(const struct opt_row *row, void *dst)
{
    void *field = opt_field(row, dst);
    int none = -1;
    if (row->type == OPT_TYPE_DOUBLE)
        *(double *)field = NAN;
    else if (row->type == OPT_TYPE_INT || row->type == OPT_TYPE_DURATION || row->type == OPT_TYPE_BYTES)
        *(int64_t *)field = INT64_MIN;
    else if (row->type == OPT_TYPE_ENUM)
        memcpy(field, &none, sizeof none);
}

static void init_row(const struct opt_row *row, void *dst)
{
    struct err e = {0};
    enum err_code rc = ERR_OK;
    if (row->type == OPT_TYPE_SUB)
        opt_init(row->sub, opt_field(row, dst));
    else if (!row->def)
        init_unset(row, dst);
    else
        rc = opt_is_list(row->type) ? opt_store_list(row, dst, row->def, &e)
                                    : opt_store(row, dst, row->def, &e);
    ASSERT(rc == ERR_OK); /* a bad default is our own mistake: opt_table_check */
}

void opt_init(const struct opt_table *t, void *dst)
{
    memset(dst, 0, t->size);
    for (size_t i = 0; i < t->n; i++)
        init_row(&t->rows[i], dst);
}

void opt_fini(const struct opt_table *t, void *dst)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        char **s = opt_field(row, dst);
        if (row->type == OPT_TYPE_SUB) {
            opt_fini(row->sub, s);
        } else if (row->type == OPT_TYPE_SUBS) {
            opt_clear_subs(row, dst);
        } else if (opt_is_list(row->type)) {
            opt_clear_list(row, dst);
        } else if (row->type == OPT_TYPE_STRING) {
            mem_free(*s);
            *s = NULL;
        }
    }
}

/* ---- sources --------------------------------------------------------------------------------- */

struct opt_sources {
    struct intern *paths;
    char **where; /* [id] */
    size_t n;
};

struct opt_sources *opt_sources_new(void)
{
    struct opt_sources *s = mem_zero(1, sizeof *s);
    s->paths = intern_new(YAML_NODES_MAX * 2);
    return s;
}

void opt_sources_free(struct opt_sources *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        mem_free(s->where[i]);
    mem_free(s->where);
    intern_free(s->paths);
    mem_free(s);
}

enum err_code opt_note(struct opt_sources *src, const char *path, const char *where, struct err *e)
{
    uint32_t id;
    enum err_code rc = src ? intern_id(src->paths, path, strlen(path), &id, e) : ERR_OK;
    if (!src || rc == ERR_LIMIT)
        return ERR_OK; /* full only after 200000 different keys; the value itself is loaded */
    if (rc)
        return rc;
    if (id == src->n) {
        if ((src->n & (src->n - 1)) == 0)
            src->where = mem_grow(src->where, src->n ? 2 * src->n : 1, sizeof *src->where);
        src->where[src->n++] = NULL;
    }
    mem_free(src->where[id]);
    src->where[id] = mem_strdup(where);
    return ERR_OK;
}

const char *opt_source(const struct opt_sources *s, const char *path)
{
    uint32_t id = s ? intern_find(s->paths, path, strlen(path)) : INTERN_NONE;
    return id == INTERN_NONE ? "default" : s->where[id];
}

/* ---- who gave the value that is wrong --------------------------------------------------------- */

enum { KEY_BYTES = 256 };

static bool given(const struct opt_sources *s, const char *key)
{
    return strcmp(opt_source(s, key), "default") != 0;
}

static size_t key_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.[]");
}

/* "queries: qps: by: ..." -> "queries.qps.by", or as much of it as somebody gave. */
static void leading_key(const struct opt_sources *s, const char *text, char key[KEY_BYTES])
{
    char path[KEY_BYTES] = "";
    size_t n;
    key[0] = '\0';
    while ((n = key_length(text)) > 0 && n + strlen(path) + 2 < KEY_BYTES) {
        size_t at = strlen(path);
        (void)snprintf(path + at, sizeof path - at, "%s%.*s", at ? "." : "", (int)n, text);
        if (given(s, path))
            (void)snprintf(key, KEY_BYTES, "%s", path);
        if (strncmp(text + n, ": ", 2) != 0)
            return;
        text += n + 2;
    }
}

/* The first word that is a key with a source, or with this one.  A word without a section is of the one named before it. */
static bool named_key(const struct opt_sources *s, const char *text, const char *source, char key[KEY_BYTES])
{
    char section[KEY_BYTES] = "", word[KEY_BYTES / 2];
    size_t n;
    for (; *text; text += n + (text[n] != '\0')) {
        n = key_length(text);
        if (n == 0 || n >= sizeof word)
            continue;
        (void)snprintf(word, sizeof word, "%.*s", (int)n, text);
        const char *dot = strrchr(word, '.');
        if (dot)
            (void)snprintf(section, sizeof section, "%.*s", (int)(dot + 1 - word), word);
        (void)snprintf(key, KEY_BYTES, "%.127s%s", dot ? "" : section, word);
        if (given(s, key) && (!source || strcmp(opt_source(s, key), source) == 0))
            return true;
    }
    return false;
}

/* What came with --set came last; but what is said of one entry of a list is about that entry. */
static bool guilty(const struct opt_sources *s, const char *text, char key[KEY_BYTES])
{
    char lead[KEY_BYTES];
    bool entry = text[strcspn(text, "[: ")] == '[';
    leading_key(s, text, lead);
    if (!entry && named_key(s, text, "--set", key))
        return true;
    if (!*lead)
        return named_key(s, text, NULL, key);
    (void)snprintf(key, KEY_BYTES, "%s", lead);
    return true;
}

enum err_code opt_blame(const struct opt_sources *s, const char *name, struct err *e)
{
    char key[KEY_BYTES];
    if (!e)
        return ERR_INVAL;
    if (!guilty(s, e->msg, key))
        return err_wrap(e, "%s", name);
    const char *where = opt_source(s, key);
    size_t n = strlen(key);
    if (strcmp(where, "--set") != 0)
        return err_wrap(e, "%s", where);
    if (strncmp(e->msg, key, n) == 0 && strncmp(e->msg + n, ": ", 2) == 0) /* said once is enough */
        memmove(e->msg, e->msg + n + 2, strlen(e->msg + n + 2) + 1);
    return err_wrap(e, "--set %s", key);
}

/* ---- required keys and checks ---------------------------------------------------------------- */

static enum err_code finish(const struct opt_table *t, const void *dst, struct err *e);

static enum err_code finish_subs(const struct opt_row *row, const void *dst, struct err *e)
{
    const struct opt_subs *list = opt_field_const(row, dst);
    enum err_code rc = ERR_OK;
    for (size_t i = 0; i < list->n && !rc; i++) {
        rc = finish(row->sub, (const char *)list->items + i * row->sub->size, e);
        if (rc)
            (void)err_wrap(e, "%s[%zu]", row->name, i);
    }
    return rc;
}

static enum err_code finish(const struct opt_table *t, const void *dst, struct err *e)
{
    enum err_code rc = ERR_OK;
    for (size_t i = 0; i < t->n && !rc; i++) {
        const struct opt_row *row = &t->rows[i];
        if (row->required && opt_is_unset(row, dst))
            return err_set(e, ERR_MISSING, "%s: required, but not given", row->name);
        if (row->type == OPT_TYPE_SUBS)
            rc = finish_subs(row, dst, e);
        if (row->type == OPT_TYPE_SUB && (rc = finish(row->sub, opt_field_const(row, dst), e)) != ERR_OK)
            (void)err_wrap(e, "%s", row->name);
    }
    if (!rc && t->check)
        rc = t->check(dst, e);
    return rc;
}

enum err_code opt_finish(const struct opt_table *t, const void *dst, struct err *e)
{
    return finish(t, dst, e);
}
