/* selector.c - requirements joined by AND, each on one key. */
#include "kube/selector.h"

#include <string.h>

#include "base/mem.h"

enum op { OP_IN, OP_NOT_IN, OP_EXISTS, OP_ABSENT };

struct term {
    enum op op;
    const char *key; /* pooled */
    size_t n;
    const char **values; /* pooled */
};

struct selector {
    struct text_pool *pool;
    bool nothing; /* selects nothing: a selector that is not there */
    size_t n;
    struct term terms[SELECTOR_TERMS_MAX];
};

static struct selector *selector_new(struct text_pool *pool)
{
    struct selector *s = mem_zero(1, sizeof *s);
    s->pool = pool;
    return s;
}

void selector_free(struct selector *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        for (size_t j = 0; j < s->terms[i].n; j++)
            text_drop(s->pool, s->terms[i].values[j]);
        text_drop(s->pool, s->terms[i].key);
        mem_free(s->terms[i].values);
    }
    mem_free(s);
}

static struct term *add_term(struct selector *s, enum op op, const char *key, size_t n,
                             struct err *e)
{
    if (s->n == SELECTOR_TERMS_MAX) {
        err_set(e, ERR_LIMIT, "more than %d requirements", SELECTOR_TERMS_MAX);
        return NULL;
    }
    struct term *t = &s->terms[s->n++];
    *t = (struct term){.op = op, .key = text_hold(s->pool, key, n)};
    return t;
}

static enum err_code add_value(struct selector *s, struct term *t, const char *v, size_t n,
                               struct err *e)
{
    if (t->n == SELECTOR_VALUES_MAX)
        return err_set(e, ERR_LIMIT, "%s: more than %d values", t->key, SELECTOR_VALUES_MAX);
    if ((t->n & (t->n - 1)) == 0)
        t->values = mem_grow(t->values, t->n ? t->n * 2 : 1, sizeof *t->values);
    t->values[t->n++] = text_hold(s->pool, v, n);
    return ERR_OK;
}

/* ---- the text form ----------------------------------------------------------------------- */

struct reading {
    const char *text, *at;
    struct selector *out;
    struct err *e;
};

static enum err_code syntax(const struct reading *r, const char *what)
{
    return err_set(r->e, ERR_PARSE, "selector \"%.150s\": column %d: %s", r->text,
                   (int)(r->at - r->text) + 1, what);
}

static void skip_blanks(struct reading *r)
{
    r->at += strspn(r->at, " \t");
}

/* A run of characters that no operator holds; may be empty. */
static size_t word(struct reading *r, const char **start)
{
    skip_blanks(r);
    *start = r->at;
    size_t n = strcspn(r->at, " \t=!(),<>");
    r->at += n;
    skip_blanks(r);
    return n;
}

static bool is_word(const char *p, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(p, word, n) == 0;
}

static enum err_code value_set(struct reading *r, struct term *t)
{
    const char *v;
    if (*r->at != '(')
        return syntax(r, "expected ( and values");
    do {
        r->at++;
        size_t n = word(r, &v);
        enum err_code rc = add_value(r->out, t, v, n, r->e);
        if (rc)
            return rc;
    } while (*r->at == ',');
    if (*r->at != ')')
        return syntax(r, "expected , or )");
    r->at++;
    skip_blanks(r);
    return ERR_OK;
}

static enum err_code operator_after(struct reading *r, const char *key, size_t n_key)
{
    const char *v;
    enum op op = OP_IN;
    size_t n;
    if (*r->at == '=' || (*r->at == '!' && r->at[1] == '=')) {
        op = *r->at == '!' ? OP_NOT_IN : OP_IN;
        r->at += r->at[1] == '=' ? 2 : 1;
        struct term *t = add_term(r->out, op, key, n_key, r->e);
        n = word(r, &v);
        return t ? add_value(r->out, t, v, n, r->e) : ERR_LIMIT;
    }
    if (*r->at == ',' || *r->at == '\0')
        return add_term(r->out, OP_EXISTS, key, n_key, r->e) ? ERR_OK : ERR_LIMIT;
    n = word(r, &v);
    if (!is_word(v, n, "in") && !is_word(v, n, "notin"))
        return syntax(r, "expected =, ==, !=, in, notin or a comma");
    struct term *t = add_term(r->out, n == 2 ? OP_IN : OP_NOT_IN, key, n_key, r->e);
    return t ? value_set(r, t) : ERR_LIMIT;
}

static enum err_code requirement(struct reading *r)
{
    const char *key;
    skip_blanks(r);
    bool absent = *r->at == '!';
    r->at += absent;
    size_t n = word(r, &key);
    if (n == 0)
        return syntax(r, "expected a label key");
    if (absent)
        return add_term(r->out, OP_ABSENT, key, n, r->e) ? ERR_OK : ERR_LIMIT;
    return operator_after(r, key, n);
}

enum err_code selector_parse(struct text_pool *pool, const char *text, struct selector **out,
                             struct err *e)
{
    struct reading r = {.text = text, .at = text, .out = selector_new(pool), .e = e};
    enum err_code rc = ERR_OK;
    skip_blanks(&r);
    while (*r.at && !rc) {
        rc = requirement(&r);
        if (!rc && *r.at == ',' && r.at[1 + strspn(r.at + 1, " \t")])
            r.at++;
        else if (!rc && *r.at)
            rc = syntax(&r, "expected a comma and another requirement");
    }
    if (rc) {
        selector_free(r.out);
        r.out = NULL;
    }
    *out = r.out;
    return rc;
}

/* ---- the object form --------------------------------------------------------------------- */

static enum err_code add_match_labels(struct selector *s, const struct json *labels, struct err *e)
{
    if (json_is_null(labels))
        return ERR_OK;
    if (!json_is_object(labels))
        return err_set(e, ERR_PARSE, "matchLabels: expected an object");
    for (const struct json *v = json_first(labels); v; v = json_next(v)) {
        const char *text = json_text(v), *key = json_key(v);
        if (!text)
            return err_set(e, ERR_PARSE, "matchLabels.%.100s: expected a string", key);
        struct term *t = add_term(s, OP_IN, key, strlen(key), e);
        enum err_code rc = t ? add_value(s, t, text, strlen(text), e) : ERR_LIMIT;
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err_code add_expression(struct selector *s, const struct json *v, struct err *e)
{
    static const char *const names[] = {"In", "NotIn", "Exists", "DoesNotExist"};
    const char *key = json_text(json_find(v, "key")), *op = json_text(json_find(v, "operator"));
    const struct json *values = json_find(v, "values");
    size_t i = 0;
    while (op && i < ARRAY_LEN(names) && strcmp(op, names[i]) != 0)
        i++;
    if (!key || !*key || !op || i == ARRAY_LEN(names))
        return err_set(e, ERR_PARSE,
                       "matchExpressions: expected key and one of In, NotIn, Exists, DoesNotExist");
    bool takes_values = i <= OP_NOT_IN;
    if (takes_values != (json_is_array(values) && json_count(values) > 0))
        return err_set(e, ERR_PARSE, "matchExpressions: %.100s %s %s values", key, op,
                       takes_values ? "needs" : "takes no");
    struct term *t = add_term(s, (enum op)i, key, strlen(key), e);
    enum err_code rc = t ? ERR_OK : ERR_LIMIT;
    for (const struct json *c = takes_values ? json_first(values) : NULL; c && !rc;
         c = json_next(c))
        rc = json_text(c)
                 ? add_value(s, t, json_text(c), strlen(json_text(c)), e)
                 : err_set(e, ERR_PARSE, "matchExpressions: %.100s: values are strings", key);
    return rc;
}

enum err_code selector_from_json(struct text_pool *pool, const struct json *v,
                                 struct selector **out, struct err *e)
{
    struct selector *s = selector_new(pool);
    enum err_code rc = ERR_OK;
    s->nothing = json_is_null(v);
    if (!s->nothing && !json_is_object(v))
        rc = err_set(e, ERR_PARSE, "selector: expected an object");
    const struct json *list = s->nothing || rc ? NULL : json_find(v, "matchExpressions");
    if (!rc && !s->nothing)
        rc = add_match_labels(s, json_find(v, "matchLabels"), e);
    if (!rc && !json_is_null(list) && !json_is_array(list))
        rc = err_set(e, ERR_PARSE, "matchExpressions: expected a list");
    for (const struct json *c = rc || json_is_null(list) ? NULL : json_first(list); c && !rc;
         c = json_next(c))
        rc = add_expression(s, c, e);
    if (rc) {
        selector_free(s);
        s = NULL;
    }
    *out = s;
    return rc;
}

/* ---- use --------------------------------------------------------------------------------- */

static bool term_matches(const struct term *t, const struct kube_label *labels, size_t n)
{
    size_t i = 0;
    while (i < n && labels[i].key != t->key)
        i++;
    bool has = i < n, in = false;
    for (size_t j = 0; has && j < t->n && !in; j++)
        in = labels[i].value == t->values[j];
    switch (t->op) {
    case OP_IN:
        return in;
    case OP_NOT_IN:
        return !in;
    case OP_EXISTS:
        return has;
    case OP_ABSENT:
        return !has;
    }
    return false;
}

bool selector_matches(const struct selector *s, const struct kube_label *labels, size_t n)
{
    bool all = !s->nothing;
    for (size_t i = 0; i < s->n && all; i++)
        all = term_matches(&s->terms[i], labels, n);
    return all;
}

static void format_term(const struct term *t, struct buf *out)
{
    buf_fmt(out, "%s%s", t->op == OP_ABSENT ? "!" : "", t->key);
    if (t->op == OP_EXISTS || t->op == OP_ABSENT)
        return;
    if (t->n == 1) {
        buf_fmt(out, "%s%s", t->op == OP_IN ? "=" : "!=", t->values[0]);
        return;
    }
    buf_str(out, t->op == OP_IN ? " in (" : " notin (");
    for (size_t i = 0; i < t->n; i++)
        buf_fmt(out, "%s%s", i ? "," : "", t->values[i]);
    buf_char(out, ')');
}

void selector_format(const struct selector *s, struct buf *out)
{
    for (size_t i = 0; i < s->n; i++) {
        if (i)
            buf_char(out, ',');
        format_term(&s->terms[i], out);
    }
}
