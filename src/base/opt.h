/* opt.h - option tables: one list of rows parses, validates, explains and prints a configuration.
 *
 * A table describes a struct.  Each row names a key, its type, default, limits and help, and where its
 * value lives.  From it come: YAML loading with file, line and key in every error; `--set a.b=value`;
 * command line options (cli.h); `--help`; the annotated default config; the Markdown reference; and the
 * effective values with their source.  Defaults and limits are text in the syntax of the config itself.
 *
 *     struct guard_cfg { int64_t cooldown_us; double high_frac; bool freeze; };
 *     static const struct opt_row guard_rows[] = {
 *         OPT_DURATION(struct guard_cfg, cooldown_us, "cooldown", "60s", "0s", "1h", "wait between steps"),
 *         OPT_DOUBLE(struct guard_cfg, high_frac, "high", "0.85", "0", "1", "high watermark"),
 *         OPT_BOOL(struct guard_cfg, freeze, "freeze", "false", "act on nothing", .reloadable = true),
 *     };
 *     const struct opt_table guard_table = OPT_TABLE("guard", struct guard_cfg, guard_rows, "The guard.");
 *
 *     struct guard_cfg cfg;
 *     enum err_code rc = opt_load(&guard_table, &cfg, path, sets, n_sets, NULL, e);
 *     ...
 *     opt_fini(&guard_table, &cfg);            also after an error
 *
 * type       C field                 text
 * BOOL       bool                    true | false
 * INT        int64_t                 decimal
 * DOUBLE     double                  decimal, finite
 * DURATION   int64_t, microseconds   15s, 5min, 200ms, 1h, 2d, 50us; the unit is required (0 too)
 * BYTES      int64_t                 16GiB, 512MiB, 1KiB, 100B, 5GB; the unit is required
 * STRING     char *                  any text; NULL when there is no default
 * ENUM       enum (int)              one of names[]; the value is its index
 * STRINGS    struct opt_strings      list; in --set: a,b,c; repeatable on a command line
 * DOUBLES    struct opt_doubles      list of numbers (limits apply to each)
 * INTS       struct opt_ints         list of integers
 * SUB        struct                  nested mapping, another table
 * SUBS       struct opt_subs         list of mappings
 * A required row without default holds INT64_MIN, NaN, -1, NULL or an empty list until it is read.
 * A key given without a value (`key:`), and null, are errors.  Lists and sub-lists replace the default.
 * Tables are constant; a loaded struct belongs to its caller. */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/yaml.h"

enum opt_type {
    OPT_TYPE_BOOL,
    OPT_TYPE_INT,
    OPT_TYPE_DOUBLE,
    OPT_TYPE_DURATION,
    OPT_TYPE_BYTES,
    OPT_TYPE_STRING,
    OPT_TYPE_ENUM,
    OPT_TYPE_STRINGS,
    OPT_TYPE_DOUBLES,
    OPT_TYPE_INTS,
    OPT_TYPE_SUB,
    OPT_TYPE_SUBS,
};

enum { OPT_LIST_MAX = 10000 };

struct opt_strings {
    char **items;
    size_t n;
};
struct opt_doubles {
    double *items;
    size_t n;
};
struct opt_ints {
    int64_t *items;
    size_t n;
};
struct opt_subs {
    void *items; /* array of n structs described by the row's sub-table */
    size_t n;
};

struct opt_table;

struct opt_row {
    const char *name;
    enum opt_type type;
    size_t offset;
    const char *def;      /* NULL: STRING NULL, DOUBLE NaN, lists empty; others need .required */
    const char *min, *max; /* NULL: no limit */
    const char *help;
    const char *unit;      /* shown beside INT and DOUBLE values, e.g. "usd/h" */
    const char *const *names; /* ENUM: NULL-terminated */
    const struct opt_table *sub;
    const char *metavar;   /* command line help: "NAME"; from the type when NULL */
    bool required;
    bool reloadable;
    char letter;           /* command line: 'n' makes -n the same as --name; 0 for none */
};

struct opt_table {
    const char *name;
    const char *help;
    const struct opt_row *rows;
    size_t n;
    size_t size; /* of the struct */
    /* Rules over several keys, after every key is read; NULL for none. */
    enum err_code (*check)(const void *dst, struct err *e);
};

/* Offset of S.f; a compile-time warning unless f has type T. */
#define OPT_AT(S, f, T) (offsetof(S, f) + 0 * sizeof((T *)NULL == &((S *)NULL)->f))
#define OPT_AT_ENUM(S, f) (offsetof(S, f) + 0 * sizeof(char[sizeof(((S *)NULL)->f) == sizeof(int) ? 1 : -1]))

/* The last arguments are the help text, then optional `.field = value`. */
#define OPT_BOOL(S, f, key, dflt, ...)                                                             \
    {.name = key, .type = OPT_TYPE_BOOL, .offset = OPT_AT(S, f, bool), .def = dflt, .help = __VA_ARGS__}
#define OPT_NUM_ROW(S, f, T, TYPE, key, dflt, lo, hi, ...)                                         \
    {.name = key, .type = TYPE, .offset = OPT_AT(S, f, T), .def = dflt, .min = lo, .max = hi,      \
     .help = __VA_ARGS__}
#define OPT_INT(S, f, key, dflt, lo, hi, ...)                                                      \
    OPT_NUM_ROW(S, f, int64_t, OPT_TYPE_INT, key, dflt, lo, hi, __VA_ARGS__)
#define OPT_DOUBLE(S, f, key, dflt, lo, hi, ...)                                                   \
    OPT_NUM_ROW(S, f, double, OPT_TYPE_DOUBLE, key, dflt, lo, hi, __VA_ARGS__)
#define OPT_DURATION(S, f, key, dflt, lo, hi, ...)                                                 \
    OPT_NUM_ROW(S, f, int64_t, OPT_TYPE_DURATION, key, dflt, lo, hi, __VA_ARGS__)
#define OPT_BYTES(S, f, key, dflt, lo, hi, ...)                                                    \
    OPT_NUM_ROW(S, f, int64_t, OPT_TYPE_BYTES, key, dflt, lo, hi, __VA_ARGS__)
#define OPT_DOUBLES(S, f, key, dflt, lo, hi, ...)                                                  \
    OPT_NUM_ROW(S, f, struct opt_doubles, OPT_TYPE_DOUBLES, key, dflt, lo, hi, __VA_ARGS__)
#define OPT_INTS(S, f, key, dflt, lo, hi, ...)                                                     \
    OPT_NUM_ROW(S, f, struct opt_ints, OPT_TYPE_INTS, key, dflt, lo, hi, __VA_ARGS__)
#define OPT_STRING(S, f, key, dflt, ...)                                                           \
    {.name = key, .type = OPT_TYPE_STRING, .offset = OPT_AT(S, f, char *), .def = dflt, .help = __VA_ARGS__}
#define OPT_STRINGS(S, f, key, dflt, ...)                                                          \
    {.name = key, .type = OPT_TYPE_STRINGS, .offset = OPT_AT(S, f, struct opt_strings), .def = dflt, \
     .help = __VA_ARGS__}
#define OPT_ENUM(S, f, key, dflt, list, ...)                                                       \
    {.name = key, .type = OPT_TYPE_ENUM, .offset = OPT_AT_ENUM(S, f), .def = dflt, .names = list,  \
     .help = __VA_ARGS__}
#define OPT_SUB(S, f, key, table, ...)                                                             \
    {.name = key, .type = OPT_TYPE_SUB, .offset = offsetof(S, f), .sub = table, .help = __VA_ARGS__}
#define OPT_SUBS(S, f, key, table, ...)                                                            \
    {.name = key, .type = OPT_TYPE_SUBS, .offset = OPT_AT(S, f, struct opt_subs), .sub = table,    \
     .help = __VA_ARGS__}
#define OPT_TABLE(id, S, list, ...)                                                                \
    {.name = id, .rows = list, .n = sizeof(list) / sizeof((list)[0]), .size = sizeof(S),           \
     .help = __VA_ARGS__}

/* Where values came from.  opaque; NULL is accepted everywhere when not wanted. */
struct opt_sources;
struct opt_sources *opt_sources_new(void);
void opt_sources_free(struct opt_sources *s);
/* "default", "config.yaml:12" or "--set"; path is "guard.cooldown" or "pools[1].name". */
const char *opt_source(const struct opt_sources *s, const char *path);
/* What opt_finish() found is said of several keys: "lease.renew: 10 s is not under duration (5 s)".  Puts the place of
 * the one that somebody gave before it: "run.yaml:12: lease.renew: ..." or "--set lease.duration: lease.renew: ...".  A
 * key without a section is of the section named before it.  None was given: `name`.  Returns e->code. */
enum err_code opt_blame(const struct opt_sources *s, const char *name, struct err *e);

/* Everything at once: defaults, then the YAML file (path may be NULL), then n `key=value` sets, then
 * required keys and checks.  dst is finished with opt_fini() whatever the result. */
NODISCARD enum err_code opt_load(const struct opt_table *t, void *dst, const char *path,
                                 char *const *sets, size_t n_sets, struct opt_sources *src, struct err *e);
/* opt_load without sets. */
NODISCARD enum err_code opt_load_yaml(const struct opt_table *t, void *dst, const char *path,
                                      struct opt_sources *src, struct err *e);
/* The steps on their own. */
void opt_init(const struct opt_table *t, void *dst);
void opt_fini(const struct opt_table *t, void *dst);
NODISCARD enum err_code opt_read_text(const struct opt_table *t, void *dst, const char *text, size_t n,
                                      const char *name, struct opt_sources *src, struct err *e);
NODISCARD enum err_code opt_read_file(const struct opt_table *t, void *dst, const char *path,
                                      struct opt_sources *src, struct err *e);
NODISCARD enum err_code opt_read_node(const struct opt_table *t, void *dst, const char *file,
                                      const struct yaml_node *map, struct opt_sources *src, struct err *e);
/* "guard.cooldown=90s", "pools[0].max=4", "policies=hpa,mpc". */
NODISCARD enum err_code opt_set(const struct opt_table *t, void *dst, const char *assignment,
                                struct opt_sources *src, struct err *e);
NODISCARD enum err_code opt_finish(const struct opt_table *t, const void *dst, struct err *e);
/* One row from text (a list row appends when `append`).  For command lines. */
NODISCARD enum err_code opt_set_row(const struct opt_row *row, void *dst, const char *text, bool append,
                                    struct err *e);
const struct opt_row *opt_find(const struct opt_table *t, const char *name); /* NULL when absent */

/* Text out. */
void opt_value(const struct opt_row *row, const void *dst, struct buf *out); /* as in a config */
void opt_write_help(const struct opt_table *t, struct buf *out);
void opt_write_config(const struct opt_table *t, struct buf *out);     /* annotated defaults, YAML */
void opt_write_markdown(const struct opt_table *t, struct buf *out);   /* reference page */
void opt_write_effective(const struct opt_table *t, const void *dst, const struct opt_sources *src,
                         struct buf *out); /* key: value   # source */
void opt_hash(const struct opt_table *t, const void *dst, struct hash *h); /* of keys and values */
/* A table's own mistakes (bad default, limits the wrong way, no help): for a test over all tables. */
NODISCARD enum err_code opt_table_check(const struct opt_table *t, struct err *e);

/* "15s", "5min" -> microseconds and back ("15s", "1.5s", "90min" -> "90min"). */
NODISCARD enum err_code opt_parse_duration(const char *s, int64_t *us, struct err *e);
void opt_format_duration(int64_t us, char out[32]);
NODISCARD enum err_code opt_parse_bytes(const char *s, int64_t *bytes, struct err *e);
void opt_format_bytes(int64_t bytes, char out[32]);
/* The candidate nearest to `word` by edit distance, or NULL if none is near.  next(i) is NULL at the end. */
const char *opt_nearest(const char *word, const char *(*next)(size_t i, const void *arg), const void *arg);

#endif
