/* http_priv.h - inside the HTTP client: the server description, one running request, and who does
 * what.
 *
 *   http.c        the client: start, poll, deadlines, delivery, the end of a request
 *   http_setup.c  struct http_server, tokens, and the options of an easy handle
 *   http_text.c   escaping, backoff, response headers */
#ifndef NET_HTTP_PRIV_H
#define NET_HTTP_PRIV_H

#include <sys/types.h>
#include <time.h>

#include <curl/curl.h>

#include "net/http.h"

enum {
    HTTP_TOKEN_MAX = 64 * 1024,
    HTTP_HEADERS_MAX = 256 * 1024, /* bytes of all response headers of one request */
    HTTP_BODY_CAP = 16 << 20,
    HTTP_PENDING_MAX =
        4 << 20 /* received but not yet delivered of a stream; then the connection waits */
};

struct http_server {
    struct http_server_opts o; /* borrowed texts */
    char *url;                 /* without a trailing slash */
    char *wire_url; /* the same with the host that TLS checks; url unless tls_server_name */
    struct curl_slist *connect_to; /* the address for curl when the two differ, else NULL */
    char *host_header;             /* "Host: ..." then, else NULL */
    char *token;                   /* from token_file or token; NULL: none */
    int64_t token_read_us;         /* monotonic */
    struct timespec token_mtime;
    ino_t token_inode;
    off_t token_bytes;
};

/* What the response headers said. */
struct http_headers {
    char content_type[64];
    int64_t retry_after_us; /* from seconds; -1 */
    int64_t retry_date_us;  /* from a date; -1 */
    int64_t date_us;        /* -1 */
    size_t n_bytes;
    bool complete; /* the empty line after them was seen */
};
void http_headers_clear(struct http_headers *h); /* keeps n_bytes */
void http_headers_line(struct http_headers *h, const char *line, size_t n);
int64_t http_headers_retry_us(const struct http_headers *h, int64_t wall_us);

/* Token up to date?  Errors: ERR_IO, ERR_PARSE for a token that is not one line of printable text.
 */
NODISCARD enum err_code http_server_token(struct http_server *s, struct err *e);

/* What is being sent: a copy, and how far it got. */
struct http_body {
    char *p;
    size_t n, at;
};

/* All options but callbacks.  body outlives the transfer; empty it with mem_free(body->p). *headers
 * is the list the handle refers to; free it after the handle. */
NODISCARD enum err_code http_setup(CURL *easy, struct http_server *s, const struct http_request *r,
                                   struct http_body *body, struct curl_slist **headers,
                                   struct err *e);
const char *http_method_name(enum http_method m);

#endif
