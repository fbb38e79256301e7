/* json_write.c - the streaming writer. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"

struct json_writer json_writer_init(struct buf *out, int indent)
{
    return (struct json_writer){.out = out, .indent = indent};
}

static void newline(struct json_writer *w)
{
    if (w->indent == 0)
        return;
    buf_char(w->out, '\n');
    buf_pad(w->out, ' ', (size_t)w->indent * (size_t)w->depth);
}

/* Comma, line break and key before a value. */
static void lead(struct json_writer *w, const char *key)
{
    if (w->depth > 0) {
        uint64_t bit = 1ull << (w->depth - 1);
        ASSERT((key == NULL) == ((w->is_array & bit) != 0));
        if (w->has_item & bit)
            buf_char(w->out, ',');
        w->has_item |= bit;
        newline(w);
    }
    if (key) {
        json_quote(w->out, key, strlen(key));
        buf_str(w->out, w->indent ? ": " : ":");
    }
}

static void open_level(struct json_writer *w, const char *key, bool array)
{
    lead(w, key);
    ASSERT(w->depth < JSON_DEPTH_MAX);
    uint64_t bit = 1ull << w->depth++;
    w->has_item &= ~bit;
    w->is_array = array ? w->is_array | bit : w->is_array & ~bit;
    buf_char(w->out, array ? '[' : '{');
}

static void close_level(struct json_writer *w, bool array)
{
    ASSERT(w->depth > 0);
    uint64_t bit = 1ull << --w->depth;
    ASSERT(((w->is_array & bit) != 0) == array);
    if (w->has_item & bit)
        newline(w);
    buf_char(w->out, array ? ']' : '}');
    if (w->depth == 0)
        buf_char(w->out, '\n');
}

void json_open(struct json_writer *w, const char *key)
{
    open_level(w, key, false);
}

void json_close(struct json_writer *w)
{
    close_level(w, false);
}

void json_open_array(struct json_writer *w, const char *key)
{
    open_level(w, key, true);
}

void json_close_array(struct json_writer *w)
{
    close_level(w, true);
}

void json_put_str(struct json_writer *w, const char *key, const char *s)
{
    lead(w, key);
    if (s)
        json_quote(w->out, s, strlen(s));
    else
        buf_str(w->out, "null");
}

void json_put_f64(struct json_writer *w, const char *key, double v)
{
    char text[NUM_TEXT];
    lead(w, key);
    buf_str(w->out, isfinite(v) ? num_format(v, text) : "null");
}

void json_put_i64(struct json_writer *w, const char *key, int64_t v)
{
    lead(w, key);
    buf_fmt(w->out, "%lld", (long long)v);
}

void json_put_u64(struct json_writer *w, const char *key, uint64_t v)
{
    lead(w, key);
    buf_fmt(w->out, "%llu", (unsigned long long)v);
}

void json_put_bool(struct json_writer *w, const char *key, bool v)
{
    lead(w, key);
    buf_str(w->out, v ? "true" : "false");
}

void json_put_null(struct json_writer *w, const char *key)
{
    lead(w, key);
    buf_str(w->out, "null");
}

static void quote_char(struct buf *out, unsigned char c)
{
    static const char *const named[] = {['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n",
                                        ['\f'] = "\\f", ['\r'] = "\\r", ['"'] = "\\\"",
                                        ['\\'] = "\\\\"};
    if (c < sizeof named / sizeof named[0] && named[c])
        buf_str(out, named[c]);
    else
        buf_fmt(out, "\\u%04x", c);
}

static bool plain(unsigned char c)
{
    /* '<' is escaped so that the text may stand inside an HTML script element. */
    return c >= 0x20 && c != '"' && c != '\\' && c != '<' && c != 0x7f;
}

void json_quote(struct buf *out, const char *s, size_t n)
{
    buf_char(out, '"');
    for (size_t i = 0; i < n;) {
        size_t run = i;
        while (run < n && plain((unsigned char)s[run]) && (unsigned char)s[run] < 0x80)
            run++;
        buf_add(out, s + i, run - i);
        i = run;
        if (i == n)
            break;
        size_t len = utf8_char(s + i, n - i);
        if (len == 0)
            buf_str(out, "\xef\xbf\xbd");
        else if (len == 1)
            quote_char(out, (unsigned char)s[i]);
        else
            buf_add(out, s + i, len);
        i += len ? len : 1;
    }
    buf_char(out, '"');
}
