/* server_request.c - the request target: "/a%20b?x=1&y" into a path and parameters.
 *
 * Decoded here and not by libmicrohttpd: a %00 would cut the path short there, and a bad escape
 * would pass as text. One copy of the target is cut up in place. */
#include "net/server_priv.h"

#include <string.h>

#include "base/mem.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* In place; '+' is a blank in a query only. */
static enum err_code decode(char *s, bool query, struct err *e)
{
    char *w = s;
    for (const char *r = s; *r; r++) {
        unsigned char c = (unsigned char)*r;
        if (c < 0x20 || c == 0x7f)
            return err_set(e, ERR_PARSE, "request target: control byte");
        if (c == '%') {
            int hi = hex(r[1]), lo = hi < 0 ? -1 : hex(r[2]);
            if (lo < 0 || hi * 16 + lo == 0)
                return err_set(e, ERR_PARSE, "request target: bad escape");
            c = (unsigned char)(hi * 16 + lo);
            r += 2;
        } else if (c == '+' && query) {
            c = ' ';
        }
        *w++ = (char)c;
    }
    *w = '\0';
    return ERR_OK;
}

static enum err_code add_param(struct server_target *t, char *pair, struct err *e)
{
    if (!*pair)
        return ERR_OK;
    if (t->n_params == SERVER_QUERY_MAX)
        return err_set(e, ERR_LIMIT, "request target: more than %d parameters", SERVER_QUERY_MAX);
    char *eq = strchr(pair, '=');
    if (eq)
        *eq = '\0';
    enum err_code rc = decode(pair, true, e);
    if (!rc && eq)
        rc = decode(eq + 1, true, e);
    if (rc)
        return rc;
    t->param[t->n_params++] = (struct server_param){pair, eq ? eq + 1 : ""};
    return ERR_OK;
}

/* "http://host/path" of a request to a proxy: the path is what counts. */
static char *skip_authority(char *s)
{
    char *p = *s == '/' ? NULL : strstr(s, "://");
    if (!p)
        return s;
    p = strchr(p + 3, '/');
    return p ? p : strchr(s, '\0');
}

enum err_code server_target_parse(const char *uri, struct server_target *out, struct err *e)
{
    *out = (struct server_target){.text = mem_strdup(uri)};
    char *p = skip_authority(out->text);
    char *hash = strchr(p, '#');
    if (hash)
        *hash = '\0';
    char *query = strchr(p, '?');
    if (query)
        *query++ = '\0';
    out->path = *p ? p : "/";
    enum err_code rc = decode(p, false, e);
    while (!rc && query) {
        char *next = strchr(query, '&');
        if (next)
            *next++ = '\0';
        rc = add_param(out, query, e);
        query = next;
    }
    return rc;
}

void server_target_fini(struct server_target *t)
{
    mem_free(t->text);
    t->text = NULL;
}
