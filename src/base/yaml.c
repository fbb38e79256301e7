/* yaml.c - libfyaml events to a tree.
 *
 * Events rather than fy_document: the caps act while the text is read, and there is nothing to resolve.
 * The tree is built with an explicit stack; all nodes hang on one list, which frees them. */
#include "base/yaml.h"

#include <string.h>

#include <libfyaml.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { KEYS_MAX = 1000 }; /* per mapping; duplicates are found by comparing with each */

struct item {
    struct yaml_node node;
    struct item *before; /* allocated before this one */
    char *text;
    char *key;
};

struct yaml_doc {
    char *name;
    struct item *newest;
    struct yaml_node *root;
};

struct frame {
    struct yaml_node *node;
    struct yaml_node *last;
    char *key; /* read, waiting for its value */
    int key_line;
};

struct builder {
    struct yaml_doc *doc;
    struct frame stack[YAML_DEPTH_MAX];
    int depth;
    int n_nodes, n_docs;
    int line; /* of the newest event that has one */
};

static enum err_code fail(const struct builder *b, enum err_code code, const char *what, struct err *e)
{
    return err_set(e, code, "%s:%d: %s", b->doc->name, b->line, what);
}

static char *copy_text(const char *s, size_t n)
{
    char *copy = try_zero(n + 1, 1);
    if (copy && n)
        memcpy(copy, s, n);
    return copy;
}

static bool has_key(const struct yaml_node *map, const char *key)
{
    return yaml_find(map, key) != NULL;
}

/* A new node below the top of the stack, taking the pending key. */
static enum err_code add_node(struct builder *b, enum yaml_kind kind, struct yaml_node **out,
                              struct err *e)
{
    struct frame *top = b->depth ? &b->stack[b->depth - 1] : NULL;
    if (++b->n_nodes > YAML_NODES_MAX)
        return fail(b, ERR_LIMIT, "too many values", e);
    if (top && top->node->kind == YAML_MAP && top->node->n_children >= KEYS_MAX)
        return fail(b, ERR_LIMIT, "too many keys in one mapping", e);
    struct item *item = try_zero(1, sizeof *item);
    if (!item)
        return fail(b, ERR_NOMEM, "out of memory", e);
    item->before = b->doc->newest;
    b->doc->newest = item;
    struct yaml_node *node = &item->node;
    *node = (struct yaml_node){.kind = kind, .line = b->line, .text = ""};
    *out = node;
    if (!top) {
        b->doc->root = node;
        return ERR_OK;
    }
    if (top->key) {
        node->key = item->key = top->key;
        node->key_line = top->key_line;
        top->key = NULL;
    }
    if (top->last)
        top->last->next = node;
    else
        top->node->first = node;
    top->last = node;
    top->node->n_children++;
    return ERR_OK;
}

static bool wants_key(const struct builder *b)
{
    const struct frame *top = b->depth ? &b->stack[b->depth - 1] : NULL;
    return top && top->node->kind == YAML_MAP && !top->key;
}

static enum err_code take_key(struct builder *b, const char *s, size_t n, struct err *e)
{
    struct frame *top = &b->stack[b->depth - 1];
    if (n == 0)
        return fail(b, ERR_PARSE, "a key is empty", e);
    char *key = copy_text(s, n);
    if (!key)
        return fail(b, ERR_NOMEM, "out of memory", e);
    if (has_key(top->node, key)) {
        enum err_code rc = err_set(e, ERR_PARSE, "%s:%d: %s: given twice, first in line %d", b->doc->name,
                                   b->line, key, yaml_find(top->node, key)->key_line);
        mem_free(key);
        return rc;
    }
    top->key = key;
    top->key_line = b->line;
    return ERR_OK;
}

static enum err_code on_scalar(struct builder *b, const struct fy_event_scalar_data *data, struct err *e)
{
    size_t n = 0;
    const char *s = data->value ? fy_token_get_text(data->value, &n) : "";
    if (!s)
        return fail(b, ERR_NOMEM, "out of memory", e);
    if (data->anchor || data->tag)
        return fail(b, ERR_PARSE, "anchors and tags are not accepted", e);
    if (memchr(s, '\0', n))
        return fail(b, ERR_PARSE, "a value holds a zero byte", e);
    if (wants_key(b))
        return take_key(b, s, n, e);
    struct yaml_node *node;
    enum err_code rc = add_node(b, YAML_SCALAR, &node, e);
    if (rc)
        return rc;
    b->doc->newest->text = copy_text(s, n);
    if (!b->doc->newest->text)
        return fail(b, ERR_NOMEM, "out of memory", e);
    node->text = b->doc->newest->text;
    node->n_text = n;
    node->quoted = data->value && fy_token_scalar_style(data->value) != FYSS_PLAIN;
    return ERR_OK;
}

static enum err_code on_open(struct builder *b, enum yaml_kind kind, bool decorated, struct err *e)
{
    if (decorated)
        return fail(b, ERR_PARSE, "anchors and tags are not accepted", e);
    if (wants_key(b))
        return fail(b, ERR_PARSE, "a key must be plain text", e);
    if (b->depth == YAML_DEPTH_MAX)
        return fail(b, ERR_LIMIT, "nested too deeply", e);
    struct yaml_node *node;
    enum err_code rc = add_node(b, kind, &node, e);
    if (!rc)
        b->stack[b->depth++] = (struct frame){.node = node};
    return rc;
}

static void note_line(struct builder *b, struct fy_token *token)
{
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    if (mark)
        b->line = mark->line + 1;
}

static enum err_code on_event(struct builder *b, struct fy_event *ev, struct err *e)
{
    switch (ev->type) {
    case FYET_DOCUMENT_START:
        note_line(b, ev->document_start.document_start);
        if (++b->n_docs > 1)
            return fail(b, ERR_PARSE, "more than one document", e);
        return ERR_OK;
    case FYET_SCALAR:
        note_line(b, ev->scalar.value);
        return on_scalar(b, &ev->scalar, e);
    case FYET_ALIAS:
        note_line(b, ev->alias.anchor);
        return fail(b, ERR_PARSE, "aliases are not accepted", e);
    case FYET_MAPPING_START:
        note_line(b, ev->mapping_start.mapping_start);
        return on_open(b, YAML_MAP, ev->mapping_start.anchor || ev->mapping_start.tag, e);
    case FYET_SEQUENCE_START:
        note_line(b, ev->sequence_start.sequence_start);
        return on_open(b, YAML_LIST, ev->sequence_start.anchor || ev->sequence_start.tag, e);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        ASSERT(b->depth > 0);
        mem_free(b->stack[--b->depth].key);
        return ERR_OK;
    default:
        return ERR_OK;
    }
}

static void discard(struct fy_diag *diag, void *user, const char *text, size_t n)
{
    (void)diag;
    (void)user;
    (void)text;
    (void)n;
}

/* Error text of libfyaml: the first collected error is the cause, later ones follow from it. */
static enum err_code syntax_error(const struct builder *b, struct fy_diag *diag, struct err *e)
{
    void *iter = NULL;
    const struct fy_diag_error *first = fy_diag_errors_iterate(diag, &iter);
    if (!first)
        return fail(b, ERR_PARSE, "not valid YAML", e);
    return err_set(e, ERR_PARSE, "%s:%d: %s", b->doc->name, first->line > 0 ? first->line : b->line,
                   first->msg);
}

static enum err_code run(struct builder *b, const char *text, size_t n, struct fy_diag *diag,
                         struct err *e)
{
    const struct fy_parse_cfg cfg = {.flags = FYPCF_JSON_NONE | FYPCF_DEFAULT_VERSION_1_2, .diag = diag};
    struct fy_parser *parser = fy_parser_create(&cfg);
    if (!parser)
        return err_set(e, ERR_NOMEM, "%s: YAML parser", b->doc->name);
    enum err_code rc = ERR_OK;
    if (fy_parser_set_string(parser, text, n) != 0)
        rc = syntax_error(b, diag, e);
    while (!rc) {
        struct fy_event *ev = fy_parser_parse(parser);
        if (!ev) {
            if (fy_parser_get_stream_error(parser))
                rc = syntax_error(b, diag, e);
            break;
        }
        rc = on_event(b, ev, e);
        fy_parser_event_free(parser, ev);
    }
    fy_parser_destroy(parser);
    while (b->depth > 0)
        mem_free(b->stack[--b->depth].key);
    return rc;
}

static int line_at(const char *text, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line;
}

enum err_code yaml_parse(const char *text, size_t n, const char *name, struct yaml_doc **out,
                         struct err *e)
{
    *out = NULL;
    if (n > YAML_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "%s: %zu bytes of YAML, allowed are %d", name, n, YAML_BYTES_MAX);
    size_t good = utf8_valid_prefix(text, n);
    const char *zero = memchr(text, '\0', n);
    if (good < n || zero)
        return err_set(e, ERR_PARSE, "%s:%d: not UTF-8 text", name,
                       line_at(text, zero ? (size_t)(zero - text) : good));
    struct yaml_doc *doc = mem_zero(1, sizeof *doc);
    doc->name = mem_strdup(name);
    struct fy_diag_cfg cfg;
    fy_diag_cfg_default(&cfg);
    cfg.fp = NULL;
    cfg.output_fn = discard;
    struct fy_diag *diag = fy_diag_create(&cfg);
    if (!diag) {
        yaml_free(doc);
        return err_set(e, ERR_NOMEM, "%s: YAML parser", name);
    }
    fy_diag_set_collect_errors(diag, true);
    struct builder b = {.doc = doc, .line = 1};
    enum err_code rc = n ? run(&b, text, n, diag, e) : ERR_OK;
    fy_diag_destroy(diag);
    if (rc)
        yaml_free(doc);
    else
        *out = doc;
    return rc;
}

enum err_code yaml_load(const char *path, struct yaml_doc **out, struct err *e)
{
    struct buf text;
    *out = NULL;
    enum err_code rc = file_read(path, YAML_BYTES_MAX, &text, e);
    if (!rc)
        rc = yaml_parse(text.p, text.n, path, out, e);
    buf_fini(&text);
    return rc;
}

void yaml_free(struct yaml_doc *doc)
{
    if (!doc)
        return;
    for (struct item *item = doc->newest; item;) {
        struct item *before = item->before;
        mem_free(item->text);
        mem_free(item->key);
        mem_free(item);
        item = before;
    }
    mem_free(doc->name);
    mem_free(doc);
}

const struct yaml_node *yaml_root(const struct yaml_doc *doc)
{
    return doc->root;
}

const char *yaml_name(const struct yaml_doc *doc)
{
    return doc->name;
}

const struct yaml_node *yaml_find(const struct yaml_node *map, const char *key)
{
    for (const struct yaml_node *c = map ? map->first : NULL; c; c = c->next) {
        if (c->key && strcmp(c->key, key) == 0)
            return c;
    }
    return NULL;
}

bool yaml_is_null(const struct yaml_node *v)
{
    return v->kind == YAML_SCALAR && !v->quoted &&
           (v->n_text == 0 || strcmp(v->text, "~") == 0 || strcmp(v->text, "null") == 0);
}
