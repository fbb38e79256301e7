/* profile_priv.h - one value on its way into a layer. */
#ifndef PROFILE_PROFILE_PRIV_H
#define PROFILE_PROFILE_PRIV_H

#include "profile/profile.h"

/* The member of the row's kind is used: i INT, CLASS, DURATION, TIME; num NUM; flag FLAG; text TEXT
 * (n bytes). */
struct profile_value {
    int64_t i;
    double num;
    bool flag;
    const char *text;
    size_t n;
};

/* Whether a value is within its row's limits. */
bool profile_value_ok(const struct profile_row *r, const struct profile_value *v);
/* "a whole number from 0 to 4096" */
void profile_expects(const struct profile_row *r, char out[96]);
/* Copies v, which is ok, over what the field held. */
void profile_store(struct profile *p, enum profile_source source, enum profile_field f,
                   const struct profile_value *v);
/* Outside text for a message: printable, in quotes, at most 64 bytes of it. */
enum { PROFILE_SHOWN = 80 };
void profile_show(const char *text, char out[PROFILE_SHOWN]);

#endif
