/* split.c - one pass over the bytes, any chunk boundary; runs are copied whole.
 *
 * Only positions matter: a value that begins at a certain depth under certain keys starts or ends
 * collecting.  Depth 0 is outside everything; key[d] is the current key of the object that is open
 * at depth d. */
#include <string.h>

#include "kube/split_priv.h"

enum { KEY_DEPTHS = 6 };

struct splitter split_init(enum split_kind kind, size_t object_cap, split_emit *emit, void *ctx)
{
    return (struct splitter){.kind = kind, .emit = emit, .ctx = ctx, .text = buf_init(object_cap)};
}

void split_fini(struct splitter *s)
{
    buf_fini(&s->text);
}

void split_reset(struct splitter *s)
{
    struct buf text = s->text;
    buf_clear(&text);
    *s = (struct splitter){.kind = s->kind, .emit = s->emit, .ctx = s->ctx, .text = text};
}

/* ---- where are we ------------------------------------------------------------------------ */

static bool key_is(const struct splitter *s, int depth, const char *key)
{
    return strcmp(s->key[depth], key) == 0;
}

static bool in_object(const struct splitter *s)
{
    return s->depth > 0 && s->open[s->depth - 1] == '{';
}

static bool at_item(const struct splitter *s)
{
    return s->depth == 2 && s->open[1] == '[' && key_is(s, 1, "items");
}

static bool at_managed_fields(const struct splitter *s)
{
    if (s->kind == SPLIT_WATCH)
        return s->depth == 3 && key_is(s, 3, "managedFields") && key_is(s, 2, "metadata") &&
               key_is(s, 1, "object");
    return s->depth == 4 && s->base == 2 && key_is(s, 4, "managedFields") &&
           key_is(s, 3, "metadata");
}

/* ---- the run being copied ---------------------------------------------------------------- */

struct feed {
    struct splitter *s;
    const char *run; /* first byte not yet copied; NULL: nothing to copy */
    struct err *e;
    enum err_code rc;
};

static enum err_code fail(struct feed *f, enum err_code code, const char *what)
{
    f->rc = err_set(f->e, code, "byte %zu: %s", f->s->n_bytes, what);
    return f->rc;
}

static void flush(struct feed *f, const char *end)
{
    if (f->run)
        buf_add(&f->s->text, f->run, (size_t)(end - f->run));
    f->run = NULL;
    if (f->s->text.failed && !f->rc)
        f->rc = err_set(f->e, ERR_LIMIT, "an object of more than %zu bytes", f->s->text.cap);
}

static void begin_collecting(struct feed *f, const char *at)
{
    struct splitter *s = f->s;
    buf_clear(&s->text);
    s->collecting = true;
    s->base = s->depth;
    s->has_object = false;
    f->run = at;
}

static void emit(struct feed *f)
{
    struct splitter *s = f->s;
    bool is_metadata = s->kind == SPLIT_LIST && s->base == 1;
    const char *object = s->kind == SPLIT_LIST ? s->text.p
                         : s->has_object       ? s->text.p + s->object_at
                                               : NULL;
    size_t n_object = s->kind == SPLIT_LIST ? s->text.n : s->has_object ? s->object_n : 0;
    s->collecting = false;
    s->after_item = s->base == 2;
    if (!f->rc && !s->emit(s->ctx, is_metadata, s->text.p, s->text.n, object, n_object)) {
        s->stopped = true;
        f->rc = err_set(f->e, ERR_INTERRUPTED, "stopped by the reader");
    }
}

/* ---- values ------------------------------------------------------------------------------ */

/* A member of a list's root. */
static void begin_root_member(struct feed *f, const char *at)
{
    struct splitter *s = f->s;
    if (key_is(s, 1, "metadata")) {
        if (s->seen_metadata || *at != '{')
            fail(f, ERR_PARSE, "metadata: expected one object");
        s->seen_metadata = true;
        begin_collecting(f, at);
    } else if (key_is(s, 1, "items")) {
        if (s->seen_items || (*at != '[' && *at != 'n'))
            fail(f, ERR_PARSE, "items: expected one list");
        s->seen_items = true;
    }
}

static void begin_value(struct feed *f, const char *at)
{
    struct splitter *s = f->s;
    if (s->depth == 0) {
        if (*at != '{' || s->complete)
            fail(f, ERR_PARSE, s->complete ? "text after the list" : "expected an object");
        else if (s->kind == SPLIT_WATCH)
            begin_collecting(f, at);
        return;
    }
    if (in_object(s) && s->key_next) {
        fail(f, ERR_PARSE, "expected a key");
        return;
    }
    if (s->kind == SPLIT_LIST && !s->collecting) {
        if (s->depth == 1)
            begin_root_member(f, at);
        else if (at_item(s) && (*at != '{' || s->after_item))
            fail(f, ERR_PARSE, "items: expected objects with commas between");
        else if (at_item(s))
            begin_collecting(f, at);
        return;
    }
    if (!s->collecting || s->cutting)
        return;
    if (s->kind == SPLIT_WATCH && s->depth == 1 && key_is(s, 1, "object")) {
        s->object_at = s->text.n + (size_t)(at - f->run);
        s->object_n = 0;
    }
    if (at_managed_fields(s)) {
        flush(f, at);
        buf_str(&s->text, "null");
        s->cutting = true;
        s->cut_depth = s->depth;
    }
}

/* `end` is behind the value. */
static void end_value(struct feed *f, const char *end)
{
    struct splitter *s = f->s;
    if (s->cutting && s->depth == s->cut_depth) {
        s->cutting = false;
        f->run = end;
    }
    if (!s->collecting) {
        s->complete = s->complete || (s->depth == 0 && s->kind == SPLIT_LIST);
        return;
    }
    if (s->kind == SPLIT_WATCH && s->depth == 1 && key_is(s, 1, "object")) {
        s->object_n = s->text.n + (size_t)(end - f->run) - s->object_at;
        s->has_object = true;
    }
    if (s->depth == s->base) {
        flush(f, end);
        emit(f);
    }
}

static void end_scalar(struct feed *f, const char *end)
{
    if (!f->s->in_scalar)
        return;
    f->s->in_scalar = false;
    if (f->s->kind == SPLIT_LIST && f->s->depth == 1 && key_is(f->s, 1, "items") &&
        (f->s->n_scalar != 4 || memcmp(f->s->scalar, "null", 4) != 0))
        fail(f, ERR_PARSE, "items: expected a list");
    end_value(f, end);
}

/* ---- characters -------------------------------------------------------------------------- */

static void begin_string(struct feed *f, const char *at)
{
    struct splitter *s = f->s;
    s->in_string = true;
    s->string_is_key = in_object(s) && s->key_next;
    s->n_key = 0;
    if (!s->string_is_key)
        begin_value(f, at);
}

static void end_string(struct feed *f, const char *at)
{
    struct splitter *s = f->s;
    s->in_string = false;
    if (!s->string_is_key) {
        end_value(f, at + 1);
    } else {
        s->key_next = false;
        if (s->depth < KEY_DEPTHS)
            s->key[s->depth][s->n_key < SPLIT_KEY_MAX ? s->n_key : 0] =
                '\0'; /* longer ones are none of ours */
    }
}

static void open_bracket(struct feed *f, const char *at)
{
    struct splitter *s = f->s;
    begin_value(f, at);
    if (s->depth == SPLIT_DEPTH_MAX) {
        fail(f, ERR_LIMIT, "nested too deeply");
        return;
    }
    s->open[s->depth++] = *at;
    s->key_next = *at == '{';
    if (s->depth < KEY_DEPTHS)
        s->key[s->depth][0] = '\0';
}

static void close_bracket(struct feed *f, const char *at)
{
    struct splitter *s = f->s;
    end_scalar(f, at);
    if (s->depth == 0 || s->open[s->depth - 1] != (*at == '}' ? '{' : '[')) {
        fail(f, ERR_PARSE, "a bracket that does not match");
        return;
    }
    s->depth--;
    s->key_next = false;
    end_value(f, at + 1);
}

static void plain_char(struct feed *f, const char *at)
{
    struct splitter *s = f->s;
    switch (*at) {
    case '"':
        begin_string(f, at);
        break;
    case '{':
    case '[':
        open_bracket(f, at);
        break;
    case '}':
    case ']':
        close_bracket(f, at);
        break;
    case ',':
        end_scalar(f, at);
        s->key_next = in_object(s);
        s->after_item = false;
        break;
    case '\n':
        if (s->kind == SPLIT_WATCH &&
            s->depth > 0) /* else a broken line would swallow all that follow */
            fail(f, ERR_PARSE, "a line that is not a whole event");
        end_scalar(f, at);
        break;
    case ' ':
    case '\t':
    case '\r':
        end_scalar(f, at);
        break;
    case ':':
        break;
    default:
        if (!s->in_scalar) {
            begin_value(f, at);
            s->in_scalar = true;
            s->n_scalar = 0;
        }
        if (s->n_scalar < sizeof s->scalar)
            s->scalar[s->n_scalar++] = *at;
    }
}

/* Within a string up to its end or the chunk's; returns the last byte looked at. */
static const char *string_chars(struct feed *f, const char *at, const char *end)
{
    struct splitter *s = f->s;
    for (; at < end; at++) {
        if (s->escaped) {
            s->escaped = false;
        } else if (*at == '\\') {
            s->escaped = true;
            s->n_key = SPLIT_KEY_MAX; /* an escaped key is none of ours */
        } else if (*at == '"') {
            end_string(f, at);
            return at;
        } else if (*at == '\n') {
            fail(f, ERR_PARSE, "a line break inside a string");
            return at;
        } else if (s->string_is_key && s->depth < KEY_DEPTHS && s->n_key < SPLIT_KEY_MAX) {
            s->key[s->depth][s->n_key++] = *at;
        }
    }
    return end - 1;
}

enum err_code split_feed(struct splitter *s, const char *p, size_t n, struct err *e)
{
    struct feed f = {.s = s, .run = s->collecting && !s->cutting ? p : NULL, .e = e};
    if (s->stopped)
        return err_set(e, ERR_INTERRUPTED, "stopped by the reader");
    size_t before = s->n_bytes;
    for (const char *at = p; at < p + n && !f.rc; at++) {
        s->n_bytes = before + (size_t)(at - p);
        if (s->in_string)
            at = string_chars(&f, at, p + n);
        else
            plain_char(&f, at);
    }
    s->n_bytes = before + n;
    if (!f.rc)
        flush(&f, p + n);
    return f.rc;
}

enum err_code split_end(const struct splitter *s, struct err *e)
{
    if (s->depth > 0 || s->in_string || s->in_scalar)
        return err_set(e, ERR_PARSE, "ended after %zu bytes in the middle of an object",
                       s->n_bytes);
    if (s->kind == SPLIT_LIST && !s->complete)
        return err_set(e, ERR_PARSE, "an empty answer instead of a list");
    if (s->kind == SPLIT_LIST && !s->seen_items)
        return err_set(e, ERR_PARSE, "an object without \"items\" instead of a list");
    return ERR_OK;
}
