/* opt_priv.h - shared by the opt_*.c files. */
#ifndef BASE_OPT_PRIV_H
#define BASE_OPT_PRIV_H

#include "base/opt.h"

static inline void *opt_field(const struct opt_row *row, void *dst)
{
    return (char *)dst + row->offset;
}

static inline const void *opt_field_const(const struct opt_row *row, const void *dst)
{
    return (const char *)dst + row->offset;
}

static inline bool opt_is_list(enum opt_type type)
{
    return type == OPT_TYPE_STRINGS || type == OPT_TYPE_DOUBLES || type == OPT_TYPE_INTS;
}

/* One scalar of the row's type (its element type for a list) into a local, limits checked. */
union opt_scalar {
    bool b;
    int64_t i;
    double d;
    int e;
};
NODISCARD enum err_code opt_parse_scalar(const struct opt_row *row, const char *text,
                                         union opt_scalar *out, struct err *e);
/* A scalar row from text. */
NODISCARD enum err_code opt_store(const struct opt_row *row, void *dst, const char *text, struct err *e);
/* One more element of a list row. */
NODISCARD enum err_code opt_append(const struct opt_row *row, void *dst, const char *text, struct err *e);
void opt_clear_list(const struct opt_row *row, void *dst);
void opt_clear_subs(const struct opt_row *row, void *dst);
/* a,b,c into a list row; replaces. */
NODISCARD enum err_code opt_store_list(const struct opt_row *row, void *dst, const char *text,
                                       struct err *e);
/* Room for n structs of the sub-table, each with its defaults. */
NODISCARD enum err_code opt_make_subs(const struct opt_row *row, void *dst, size_t n, struct err *e);
bool opt_is_unset(const struct opt_row *row, const void *dst); /* a required row never given */
/* src may be NULL. */
NODISCARD enum err_code opt_note(struct opt_sources *src, const char *path, const char *where, struct err *e);
const char *opt_type_text(enum opt_type type);
/* "60s; 0s .. 1h" or "hpa; one of hpa, mpc": default and limits in words. */
void opt_describe(const struct opt_row *row, struct buf *out);
/* "unknown key coldown; did you mean cooldown?" */
enum err_code opt_unknown(const struct opt_table *t, const char *name, struct err *e);

#endif
