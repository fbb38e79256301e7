/* json_fuzz.c - arbitrary bytes as JSON; what is accepted is written out and must read back equal. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_value(struct json_writer *w, const char *key, const struct json *v)
{
    if (json_is_object(v) || json_is_array(v)) {
        bool array = json_is_array(v);
        (array ? json_open_array : json_open)(w, key);
        for (const struct json *c = json_first(v); c; c = json_next(c))
            write_value(w, json_key(c), c);
        (array ? json_close_array : json_close)(w);
    } else if (json_is_string(v)) {
        json_put_str(w, key, json_text(v));
    } else if (json_is_number(v)) {
        json_put_f64(w, key, json_number(v));
    } else if (json_is_bool(v)) {
        json_put_bool(w, key, true);
    } else {
        json_put_null(w, key);
    }
}

static bool same(const struct json *a, const struct json *b)
{
    if (json_is_number(a))
        return json_number(a) == json_number(b);
    if (json_is_string(a))
        return json_is_string(b) && strcmp(json_text(a), json_text(b)) == 0;
    if (json_is_object(a) != json_is_object(b) || json_is_array(a) != json_is_array(b))
        return false;
    const struct json *x = json_first(a), *y = json_first(b);
    for (; x && y; x = json_next(x), y = json_next(y)) {
        if ((json_key(x) && strcmp(json_key(x), json_key(y)) != 0) || !same(x, y))
            return false;
    }
    return !x && !y;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e;
    struct json_doc *doc, *again;
    if (json_parse((const char *)data, size, 1 << 20, "f", &doc, &e) != ERR_OK)
        return 0;
    struct buf text = buf_init(1 << 24);
    struct json_writer w = json_writer_init(&text, (int)(size % 3));
    write_value(&w, NULL, json_root(doc));
    if (json_parse(text.p, text.n, 1 << 24, "again", &again, &e) != ERR_OK ||
        !same(json_root(doc), json_root(again)))
        abort();
    struct buf path = buf_init(1000);
    json_path(doc, json_first(json_root(doc)), &path);
    buf_fini(&path);
    json_free(again);
    json_free(doc);
    buf_fini(&text);
    return 0;
}
