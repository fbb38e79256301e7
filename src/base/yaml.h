/* yaml.h - YAML in, over libfyaml's event parser (true line numbers).
 *
 * The document becomes a plain tree of mappings, sequences and scalars with their lines.  Refused:
 * anchors, aliases and tags (alias bombs, hidden sharing), duplicate keys, keys that are not plain text,
 * more than one document, and anything past the caps.  Scalars stay text: what "no" or "1e3" means is
 * decided by the option table that reads it (opt.h). */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { YAML_BYTES_MAX = 1 << 20, YAML_DEPTH_MAX = 32, YAML_NODES_MAX = 100000 };

enum yaml_kind { YAML_SCALAR, YAML_MAP, YAML_LIST };

struct yaml_node {
    enum yaml_kind kind;
    int line;               /* from 1 */
    const char *key;        /* NULL in a list and at the root */
    int key_line;
    const char *text;       /* scalars; "" when empty */
    size_t n_text;
    bool quoted;            /* scalar in '', "", | or >: text, never a number or null */
    size_t n_children;
    struct yaml_node *first, *next; /* children; sibling */
};

struct yaml_doc;

/* n bytes of text, `name` for messages.  Errors: ERR_PARSE "name:12: ...", ERR_LIMIT. */
NODISCARD enum err_code yaml_parse(const char *text, size_t n, const char *name, struct yaml_doc **out,
                                   struct err *e);
NODISCARD enum err_code yaml_load(const char *path, struct yaml_doc **out, struct err *e);
void yaml_free(struct yaml_doc *doc);
const struct yaml_node *yaml_root(const struct yaml_doc *doc); /* NULL for an empty document */
const char *yaml_name(const struct yaml_doc *doc);
const struct yaml_node *yaml_find(const struct yaml_node *map, const char *key); /* NULL when absent */
bool yaml_is_null(const struct yaml_node *v); /* an unquoted empty, ~ or null scalar */

#endif
