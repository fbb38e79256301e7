#include "base/intern.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

struct intern {
    uint32_t max, n;
    uint32_t n_names;  /* allocated */
    char **names;      /* [id] */
    uint32_t n_slots;  /* power of two, at most half full */
    uint32_t *slots;   /* id + 1, 0 is empty */
};

struct intern *intern_new(uint32_t max)
{
    struct intern *in = mem_zero(1, sizeof *in);
    in->max = max < INTERN_NONE ? max : INTERN_NONE - 1;
    in->n_slots = 64;
    in->slots = mem_zero(in->n_slots, sizeof *in->slots);
    return in;
}

void intern_free(struct intern *in)
{
    if (!in)
        return;
    for (uint32_t i = 0; i < in->n; i++)
        mem_free(in->names[i]);
    mem_free(in->names);
    mem_free(in->slots);
    mem_free(in);
}

/* The slot that holds the text, or the empty one where it belongs. */
static uint32_t slot_of(const struct intern *in, const char *s, size_t n)
{
    uint32_t i = (uint32_t)hash_of(s, n) & (in->n_slots - 1);
    for (; in->slots[i]; i = (i + 1) & (in->n_slots - 1)) {
        const char *name = in->names[in->slots[i] - 1];
        if (strncmp(name, s, n) == 0 && name[n] == '\0')
            break;
    }
    return i;
}

static enum err_code grow(struct intern *in, struct err *e)
{
    uint32_t n_slots = in->n_slots * 2, n_names = in->n_slots;
    uint32_t *slots = try_zero(n_slots, sizeof *slots);
    char **names = try_grow(in->names, n_names, sizeof *names);
    if (names)
        in->names = names;
    if (!slots || !names) {
        mem_free(slots);
        return err_set(e, ERR_NOMEM, "table of %u names", n_names);
    }
    mem_free(in->slots);
    in->slots = slots;
    in->n_slots = n_slots;
    in->n_names = n_names;
    for (uint32_t id = 0; id < in->n; id++)
        slots[slot_of(in, names[id], strlen(names[id]))] = id + 1;
    return ERR_OK;
}

enum err_code intern_id(struct intern *in, const char *s, size_t n, uint32_t *id, struct err *e)
{
    if (memchr(s, '\0', n))
        return err_set(e, ERR_PARSE, "a name holds a zero byte");
    uint32_t i = slot_of(in, s, n);
    if (in->slots[i]) {
        *id = in->slots[i] - 1;
        return ERR_OK;
    }
    if (in->n == in->max)
        return err_set(e, ERR_LIMIT, "more than %u different names", in->max);
    if (in->n == in->n_names) {
        enum err_code rc = grow(in, e);
        if (rc)
            return rc;
        i = slot_of(in, s, n);
    }
    char *name = try_zero(n + 1, 1);
    if (!name)
        return err_set(e, ERR_NOMEM, "name of %zu bytes", n);
    memcpy(name, s, n);
    in->names[in->n] = name;
    *id = in->n++;
    in->slots[i] = in->n;
    return ERR_OK;
}

uint32_t intern_find(const struct intern *in, const char *s, size_t n)
{
    uint32_t slot = in->slots[slot_of(in, s, n)];
    return slot ? slot - 1 : INTERN_NONE;
}

const char *intern_name(const struct intern *in, uint32_t id)
{
    ASSERT(id < in->n);
    return in->names[id];
}

uint32_t intern_count(const struct intern *in)
{
    return in->n;
}
