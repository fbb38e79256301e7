#include "model/field.h"

#include <string.h>

static const struct field_info fields[FIELD_COUNT] = {
#define X(id, name, unit, is_load) [FIELD_##id] = {name, unit, is_load},
    FIELD_LIST(X)
#undef X
};

const struct field_info *field_get(enum field f)
{
    return &fields[f];
}

int field_find(const char *name)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (strcmp(fields[i].name, name) == 0)
            return i;
    return -1;
}
