/* http_setup.c - what an http_server is checked for, its token, and the options of one request's
 * handle.
 *
 * Certificates are handed to curl by file name where they are files, so a rotated one is used by
 * the next connection; whether they can be read is checked once here, where the message can name
 * the file. */
#include "net/http_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/build.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

/* ---- the server -------------------------------------------------------------------------- */

static enum err_code check_readable(const char *path, const char *what, struct err *e)
{
    if (!path)
        return ERR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "%s %s", what, path);
    close(fd);
    return ERR_OK;
}

static bool has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c <= ' ' || c == 0x7f)
            return true;
    }
    return false;
}

/* Host and port as separate texts, by curl's own URL parser. */
static enum err_code check_url(struct http_server *s, struct err *e)
{
    char *scheme = NULL, *host = NULL, *port = NULL, *part = NULL;
    enum err_code rc = ERR_OK;
    CURLU *u = curl_url();
    const char *url = s->o.url ? s->o.url : "";
    if (!u)
        return err_set(e, ERR_NOMEM, "URL");
    if (has_control(url, strlen(url)) || curl_url_set(u, CURLUPART_URL, url, 0) ||
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) ||
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT)) {
        rc = err_set(e, ERR_INVAL, "\"%.200s\" is not a URL like https://host:port", url);
    } else if (!curl_url_get(u, CURLUPART_USER, &part, 0) ||
               !curl_url_get(u, CURLUPART_PASSWORD, &part, 0)) {
        rc = err_set(e, ERR_INVAL, "user and password do not belong into the URL of %.200s", host);
    } else if (!curl_url_get(u, CURLUPART_QUERY, &part, 0) ||
               !curl_url_get(u, CURLUPART_FRAGMENT, &part, 0)) {
        rc = err_set(e, ERR_INVAL, "\"%.200s\": a server's URL has no query", url);
    } else if (s->o.tls_server_name && *s->o.tls_server_name) {
        struct buf b = buf_init(4096), h = buf_init(4096);
        char *wire = NULL;
        buf_fmt(&b, "::%s:%s", host, port);
        buf_fmt(&h, "Host: %s:%s", host, port);
        if (buf_check(&b, NULL) || buf_check(&h, NULL) ||
            curl_url_set(u, CURLUPART_HOST, s->o.tls_server_name, 0) ||
            curl_url_get(u, CURLUPART_URL, &wire, 0))
            rc = err_set(e, ERR_INVAL, "tls server name \"%.200s\" is not a host name",
                         s->o.tls_server_name);
        s->connect_to = curl_slist_append(NULL, b.p);
        s->host_header = buf_take(&h);
        buf_fini(&b);
        s->wire_url = wire ? mem_strdup(wire) : NULL;
        curl_free(wire);
    }
    curl_free(part);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    return rc;
}

static void trim_slashes(char *url)
{
    size_t n = strlen(url);
    while (n && url[n - 1] == '/')
        url[--n] = '\0';
}

static enum err_code check_server(struct http_server *s, struct err *e)
{
    enum err_code rc = check_url(s, e);
    if (rc)
        return rc;
    s->url = mem_strdup(s->o.url);
    if (!s->wire_url)
        s->wire_url = mem_strdup(s->url);
    trim_slashes(s->url);
    trim_slashes(s->wire_url);
    if (!s->o.ca_pem)
        rc = check_readable(s->o.ca_file, "CA", e);
    if (!rc && !s->o.cert_pem)
        rc = check_readable(s->o.cert_file, "client certificate", e);
    if (!rc && !s->o.key_pem)
        rc = check_readable(s->o.key_file, "client key", e);
    bool cert = s->o.cert_file || s->o.cert_pem, key = s->o.key_file || s->o.key_pem;
    if (!rc && cert != key)
        rc = err_set(e, ERR_INVAL, "%s: a client certificate and its key go together", s->url);
    if (!rc)
        rc = http_server_token(s, e);
    return rc;
}

enum err_code http_server_new(const struct http_server_opts *o, struct http_server **out,
                              struct err *e)
{
    struct http_server *s = mem_zero(1, sizeof *s);
    s->o = *o;
    enum err_code rc = check_server(s, e);
    if (rc) {
        http_server_free(s);
        s = NULL;
    }
    *out = s;
    return rc;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    mem_free(s->url);
    mem_free(s->wire_url);
    curl_slist_free_all(s->connect_to);
    mem_free(s->host_header);
    if (s->token)
        explicit_bzero(s->token, strlen(s->token));
    mem_free(s->token);
    mem_free(s);
}

const char *http_server_url(const struct http_server *s)
{
    return s->url;
}

/* ---- the token --------------------------------------------------------------------------- */

/* Trailing line ends go; anything else that could end the header line is refused. */
static enum err_code take_token(struct http_server *s, const char *p, size_t n, const char *from,
                                struct err *e)
{
    while (n && strchr(" \t\r\n", p[n - 1]))
        n--;
    if (n == 0)
        return err_set(e, ERR_PARSE, "%s: no token in it", from);
    if (has_control(p, n))
        return err_set(e, ERR_PARSE, "%s: a token is one line of printable text", from);
    if (s->token)
        explicit_bzero(s->token, strlen(s->token));
    mem_free(s->token);
    s->token = mem_zero(n + 1, 1);
    memcpy(s->token, p, n);
    return ERR_OK;
}

enum err_code http_server_token(struct http_server *s, struct err *e)
{
    const char *path = s->o.token_file;
    if (!path)
        return s->token || !s->o.token
                   ? ERR_OK
                   : take_token(s, s->o.token, strlen(s->o.token), "bearer token", e);
    struct stat st;
    if (stat(path, &st) != 0)
        return err_sys(e, errno, "token file %s", path);
    int64_t now_us = clock_mono_us();
    bool same = st.st_mtim.tv_sec == s->token_mtime.tv_sec &&
                st.st_mtim.tv_nsec == s->token_mtime.tv_nsec && st.st_ino == s->token_inode &&
                st.st_size == s->token_bytes;
    if (s->token && same && now_us - s->token_read_us < US_PER_MIN)
        return ERR_OK;
    struct buf text;
    enum err_code rc = file_read(path, HTTP_TOKEN_MAX, &text, e);
    if (!rc)
        rc = take_token(s, text.p, text.n, path, e);
    if (!rc) {
        s->token_mtime = st.st_mtim;
        s->token_inode = st.st_ino;
        s->token_bytes = st.st_size;
        s->token_read_us = now_us;
    } else {
        err_wrap(e, "token file");
    }
    if (text.n)
        explicit_bzero(text.p, text.n);
    buf_fini(&text);
    return rc;
}

/* ---- one request's handle ---------------------------------------------------------------- */

/* Options are set without looking at each answer: with constants curl can only be out of memory,
 * and that one is remembered. */
struct setter {
    CURL *easy;
    CURLcode rc;
};
#define SET(s, opt, value)                                                                         \
    do {                                                                                           \
        CURLcode rc_ = curl_easy_setopt((s)->easy, opt, value);                                    \
        if (rc_ && !(s)->rc)                                                                       \
            (s)->rc = rc_;                                                                         \
    } while (0)

static void set_blob(struct setter *s, CURLoption opt, const char *pem)
{
    struct curl_blob blob = {.len = strlen(pem), .flags = CURL_BLOB_COPY};
    memcpy(&blob.data, &pem, sizeof pem); /* curl's field is not const; with COPY it only reads */
    SET(s, opt, &blob);
}

static void set_tls(struct setter *s, const struct http_server_opts *o)
{
    SET(s, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(s, CURLOPT_SSL_VERIFYPEER, o->insecure ? 0L : 1L);
    SET(s, CURLOPT_SSL_VERIFYHOST, o->insecure ? 0L : 2L);
    if (o->ca_pem || o->ca_file)
        SET(s, CURLOPT_CAPATH, NULL); /* the given roots and no others */
    if (o->ca_pem)
        set_blob(s, CURLOPT_CAINFO_BLOB, o->ca_pem);
    else if (o->ca_file)
        SET(s, CURLOPT_CAINFO, o->ca_file);
    if (o->cert_pem)
        set_blob(s, CURLOPT_SSLCERT_BLOB, o->cert_pem);
    else if (o->cert_file)
        SET(s, CURLOPT_SSLCERT, o->cert_file);
    if (o->key_pem)
        set_blob(s, CURLOPT_SSLKEY_BLOB, o->key_pem);
    else if (o->key_file)
        SET(s, CURLOPT_SSLKEY, o->key_file);
}

static void set_connection(struct setter *s, const struct http_server_opts *o)
{
    int64_t connect_us = o->connect_us > 0 ? o->connect_us : 5 * US_PER_S;
    SET(s, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_us / US_PER_MS));
    SET(s, CURLOPT_PROXY, o->proxy ? o->proxy : ""); /* "": not even from the environment */
    SET(s, CURLOPT_NOPROXY, o->proxy ? "" : "*");
    SET(s, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(s, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(s, CURLOPT_FOLLOWLOCATION, 0L);
    SET(s, CURLOPT_NOSIGNAL, 1L);
    SET(s, CURLOPT_QUICK_EXIT, 1L); /* cancelling does not wait for a resolver that hangs */
    SET(s, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(s, CURLOPT_TCP_KEEPIDLE, 30L);
    SET(s, CURLOPT_TCP_KEEPINTVL, 15L);
    SET(s, CURLOPT_PATH_AS_IS, 1L);
    SET(s, CURLOPT_ACCEPT_ENCODING, "gzip");
    SET(s, CURLOPT_HTTP_TRANSFER_DECODING, 1L);
}

static size_t read_body(char *to, size_t size, size_t count, void *ctx)
{
    struct http_body *b = ctx;
    size_t n = size * count, left = b->n - b->at;
    n = n < left ? n : left;
    memcpy(to, b->p + b->at, n);
    b->at += n;
    return n;
}

/* The body is read through a callback that cannot be rewound.  libcurl sends a request again by
 * itself when a kept connection turns out to be closed, and cannot know whether the server had done
 * the work: what writes is sent once, and the caller decides. */
static void set_body(struct setter *s, const struct http_request *r, struct http_body *b)
{
    *b = (struct http_body){.p = mem_zero(r->n_body + 1, 1), .n = r->n_body};
    if (r->n_body)
        memcpy(b->p, r->body, r->n_body);
    SET(s, CURLOPT_POST, 1L);
    SET(s, CURLOPT_POSTFIELDS, NULL);
    SET(s, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->n_body);
    SET(s, CURLOPT_READFUNCTION, read_body);
    SET(s, CURLOPT_READDATA, b);
}

static void set_method(struct setter *s, const struct http_request *r, struct http_body *b)
{
    bool body =
        r->n_body > 0 || r->method == HTTP_POST || r->method == HTTP_PUT || r->method == HTTP_PATCH;
    if (body)
        set_body(s, r, b);
    else
        SET(s, CURLOPT_HTTPGET, 1L);
    if (r->method != HTTP_GET && r->method != HTTP_POST)
        SET(s, CURLOPT_CUSTOMREQUEST, http_method_name(r->method));
}

static void add_header(struct curl_slist **list, struct setter *s, const char *name,
                       const char *value)
{
    struct buf b = buf_init(HTTP_TOKEN_MAX + 256);
    buf_str(&b, name);
    buf_str(&b, value);
    struct curl_slist *longer = b.failed ? NULL : curl_slist_append(*list, b.p);
    if (longer)
        *list = longer;
    else
        s->rc = CURLE_OUT_OF_MEMORY;
    if (b.n)
        explicit_bzero(b.p, b.n);
    buf_fini(&b);
}

static void set_headers(struct setter *s, const struct http_server *srv,
                        const struct http_request *r, struct curl_slist **list)
{
    struct buf agent = buf_init(64);
    buf_fmt(&agent, "sluice/%s", build_version());
    SET(s, CURLOPT_USERAGENT, agent.p);
    buf_fini(&agent);
    add_header(list, s, "Accept: ", r->accept ? r->accept : "application/json");
    add_header(list, s, "Expect:", ""); /* no waiting for a 100 */
    if (r->n_body || r->method == HTTP_POST || r->method == HTTP_PUT || r->method == HTTP_PATCH)
        add_header(list, s,
                   "Content-Type: ", r->content_type ? r->content_type : "application/json");
    if (srv->host_header)
        add_header(list, s, srv->host_header, "");
    if (srv->token) {
        add_header(list, s, "Authorization: Bearer ", srv->token);
    } else if (srv->o.user) {
        SET(s, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        SET(s, CURLOPT_USERNAME, srv->o.user);
        SET(s, CURLOPT_PASSWORD, srv->o.password ? srv->o.password : "");
    }
    SET(s, CURLOPT_HTTPHEADER, *list);
}

enum err_code http_setup(CURL *easy, struct http_server *srv, const struct http_request *r,
                         struct http_body *body, struct curl_slist **headers, struct err *e)
{
    struct setter s = {.easy = easy};
    enum err_code rc = http_server_token(srv, e);
    *headers = NULL;
    if (rc)
        return rc;
    if (!r->path || r->path[0] != '/' || has_control(r->path, strlen(r->path)))
        return err_set(e, ERR_INVAL, "\"%.200s\" is not the path of a request",
                       r->path ? r->path : "");
    size_t n_url;
    if (!size_add(strlen(srv->wire_url), strlen(r->path), &n_url))
        return err_set(e, ERR_LIMIT, "path of a request");
    struct buf url = buf_init(n_url);
    buf_str(&url, srv->wire_url);
    buf_str(&url, r->path);
    rc = buf_check(&url, e);
    if (!rc)
        SET(&s, CURLOPT_URL, url.p);
    buf_fini(&url);
    if (rc)
        return rc;
    set_connection(&s, &srv->o);
    if (srv->connect_to)
        SET(&s, CURLOPT_CONNECT_TO, srv->connect_to);
    set_tls(&s, &srv->o);
    set_method(&s, r, body);
    set_headers(&s, srv, r, headers);
    if (s.rc)
        return err_set(e, s.rc == CURLE_OUT_OF_MEMORY ? ERR_NOMEM : ERR_INVAL, "%s %s: %s",
                       http_method_name(r->method), srv->url, curl_easy_strerror(s.rc));
    return ERR_OK;
}
