#include <netdb.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/control_priv.h"
#include "daemon/config.h"
#include "net/http.h"

enum { ANSWER_BYTES = 1 << 20, HOST_BYTES = 256 };

/* Where to find replicas and how to prove who asks: flags win over -c, that over the environment.
 */
struct access {
    char url[CONTROL_URL]; /* one replica, when none is named */
    const char *token_file, *ca_file;
    char token_path[TOKEN_PATH]; /* of the configuration */
    char *ca_beside;       /* owner of ca_file when it was found */
    char host[HOST_BYTES]; /* of --all-replicas: the name in their certificates */
};

struct control {
    const struct control_opts *o;
    struct run_config config;
    bool has_config;
    struct access access;
    struct http_client *client;
    size_t n;
    struct http_server *server[CONTROL_REPLICAS_MAX];
    struct control_answer answer[CONTROL_REPLICAS_MAX];
};

/* ---- which replicas ----------------------------------------------------------------------------
 */

/* The replica beside this process, from its own configuration. */
static void from_config(struct control *k)
{
    const struct run_serve *s = &k->config.serve;
    const char *host = s->address;
    struct access *a = &k->access;
    if (strcmp(host, "0.0.0.0") == 0)
        host = "127.0.0.1";
    else if (strcmp(host, "::") == 0)
        host = "::1";
    (void)snprintf(a->url, sizeof a->url, strchr(host, ':') ? "%s://[%s]:%lld" : "%s://%s:%lld",
                   s->cert_file ? "https" : "http", host, (long long)s->port);
    if (run_config_token_file(&k->config, a->token_path) && (s->token_file || file_exists(a->token_path)))
        a->token_file = a->token_path;
    if (!s->cert_file)
        return;
    a->ca_beside = file_beside(s->cert_file, "ca.crt"); /* where a Secret of type tls has it */
    a->ca_file = file_exists(a->ca_beside) ? a->ca_beside : s->cert_file;
}

static const char *from_env(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static enum err_code find_access(struct control *k, const struct cli_ctx *c, struct err *e)
{
    struct access *a = &k->access;
    const char *url = from_env("SLUICE_URL");
    enum err_code rc = ERR_OK;
    (void)snprintf(a->url, sizeof a->url, "%s", url ? url : "http://127.0.0.1:8090");
    a->token_file = from_env("SLUICE_TOKEN_FILE");
    a->ca_file = from_env("SLUICE_CA_FILE");
    k->has_config = c->config || c->n_sets;
    if (k->has_config)
        rc = run_config_load(&k->config, c->config, c->sets, c->n_sets, NULL, e);
    if (!rc && k->has_config)
        from_config(k);
    if (k->o->token_file)
        a->token_file = k->o->token_file;
    if (k->o->ca_file)
        a->ca_file = k->o->ca_file;
    return rc;
}

static enum err_code add_replica(struct control *k, const char *url, const char *server_name,
                                 struct err *e)
{
    if (k->n == CONTROL_REPLICAS_MAX)
        return err_set(e, ERR_LIMIT, "more than %d replicas", CONTROL_REPLICAS_MAX);
    if (strlen(url) >= CONTROL_URL)
        return err_set(e, ERR_USAGE, "--url: longer than %d bytes", CONTROL_URL - 1);
    char *kept = k->answer[k->n].url; /* the server borrows it */
    (void)snprintf(kept, CONTROL_URL, "%s", url);
    struct http_server_opts o = {
        .url = kept,
        .ca_file = k->access.ca_file,
        .cert_file = k->o->cert_file,
        .key_file = k->o->key_file,
        .token_file = k->access.token_file,
        .tls_server_name = server_name,
        .connect_us = k->o->timeout_us,
    };
    enum err_code rc = http_server_new(&o, &k->server[k->n], e);
    if (rc)
        return err_wrap(e, "%.200s", url);
    k->n++;
    return ERR_OK;
}

/* "https://host:port" into its parts; nothing else is taken. */
static bool split_url(const char *url, char scheme[8], char host[HOST_BYTES], const char **port)
{
    size_t n_scheme = strcspn(url, ":");
    if ((n_scheme != 4 && n_scheme != 5) || strncmp(url, "https", n_scheme) != 0 ||
        strncmp(url + n_scheme, "://", 3) != 0)
        return false;
    (void)snprintf(scheme, 8, "%.*s", (int)n_scheme, url);
    const char *at = url + n_scheme + 3;
    size_t n = strcspn(at, ":/?#");
    if (n == 0 || n >= HOST_BYTES || (at[n] && at[n] != ':'))
        return false;
    (void)snprintf(host, HOST_BYTES, "%.*s", (int)n, at);
    *port = at[n] ? at + n + 1 : n_scheme == 5 ? "443" : "80";
    return **port && strspn(*port, "0123456789") == strlen(*port);
}

/* Every address of a name: a headless Service lists its pods, ready or not. */
static enum err_code add_all(struct control *k, const char *url, struct err *e)
{
    char scheme[8], address[128], one[CONTROL_URL];
    char *host = k->access.host;
    const char *port;
    const struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    if (!split_url(url, scheme, host, &port))
        return err_set(
            e, ERR_USAGE,
            "--all-replicas %.200s: expected a URL such as https://sluice-replicas.sluice.svc:8443",
            url);
    int sys = getaddrinfo(host, port, &want, &list);
    if (sys)
        return err_set(e, ERR_IO,
                       "--all-replicas: %s does not resolve: %s; name the replicas with --url",
                       host, gai_strerror(sys));
    enum err_code rc = ERR_OK;
    for (const struct addrinfo *a = list; a && !rc; a = a->ai_next) {
        if (getnameinfo(a->ai_addr, a->ai_addrlen, address, sizeof address, NULL, 0,
                        NI_NUMERICHOST))
            continue;
        (void)snprintf(one, sizeof one, strchr(address, ':') ? "%s://[%s]:%s" : "%s://%s:%s",
                       scheme, address, port);
        rc = add_replica(k, one, k->o->server_name ? k->o->server_name : host, e);
    }
    freeaddrinfo(list);
    return rc;
}

static enum err_code add_replicas(struct control *k, struct err *e)
{
    enum err_code rc = ERR_OK;
    if (k->o->all_replicas && k->o->urls.n)
        return err_set(e, ERR_USAGE, "--url and --all-replicas: give one of them");
    if (k->o->all_replicas)
        return add_all(k, k->o->all_replicas, e);
    for (size_t i = 0; i < k->o->urls.n && !rc; i++)
        rc = add_replica(k, k->o->urls.items[i], k->o->server_name, e);
    if (!k->o->urls.n)
        rc = add_replica(k, k->access.url, k->o->server_name, e);
    return rc;
}

enum err_code control_new(const struct cli_ctx *c, struct control **out, struct err *e)
{
    struct control *k = mem_zero(1, sizeof *k);
    k->o = c->opts;
    *out = NULL;
    enum err_code rc = find_access(k, c, e);
    if (!rc)
        rc = http_client_new(&k->client, e);
    if (!rc)
        rc = add_replicas(k, e);
    if (rc)
        control_free(k);
    else
        *out = k;
    return rc;
}

void control_free(struct control *k)
{
    if (!k)
        return;
    if (k->client)
        http_client_free(k->client);
    for (size_t i = 0; i < k->n; i++)
        http_server_free(k->server[i]);
    if (k->has_config)
        run_config_fini(&k->config);
    mem_free(k->access.ca_beside);
    mem_free(k);
}

size_t control_count(const struct control *k)
{
    return k->n;
}

const struct control_answer *control_answer(const struct control *k, size_t i)
{
    return &k->answer[i];
}

/* ---- asking ------------------------------------------------------------------------------------
 */

static void copy_member(const struct json *root, const char *key, char *out, size_t size)
{
    const char *text = json_text(json_find(root, key));
    (void)snprintf(out, size, "%s", text ? text : "");
    utf8_make_plain(out); /* it goes to a terminal */
}

static void read_answer(const struct json *root, struct control_answer *a)
{
    copy_member(root, "replica", a->replica, sizeof a->replica);
    copy_member(root, "result", a->result, sizeof a->result);
    copy_member(root, json_find(root, "freeze") ? "freeze" : "message", a->text, sizeof a->text);
    copy_member(root, "warning", a->warning, sizeof a->warning);
    copy_member(root, "error", a->error, sizeof a->error);
    copy_member(root, "what_to_do", a->what_to_do, sizeof a->what_to_do);
    a->frozen = json_is_true(json_find(root, "frozen"));
    a->persisted = json_is_true(json_find(root, "persisted"));
}

static void on_done(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *failed)
{
    struct control_answer *a = ctx;
    struct json_doc *doc = NULL;
    struct err e;
    a->status = rc ? 0 : reply->status;
    if (rc) {
        (void)snprintf(a->error, sizeof a->error, "%s", failed->msg);
        (void)snprintf(
            a->what_to_do, sizeof a->what_to_do,
            "Is a replica there?  --url names it; --ca-file says whom its certificate comes from.");
        return;
    }
    if (json_parse(reply->body.p, reply->body.n, ANSWER_BYTES, "answer", &doc, &e) == ERR_OK &&
        json_is_object(json_root(doc))) {
        read_answer(json_root(doc), a);
    } else {
        (void)snprintf(a->error, sizeof a->error,
                       "answered %d with something that is not of a sluice", a->status);
        (void)snprintf(a->what_to_do, sizeof a->what_to_do, "Look at what listens at %.300s.",
                       a->url);
    }
    json_free(doc);
    if (a->status >= 400 && !a->error[0])
        (void)snprintf(a->error, sizeof a->error, "answered %d", a->status);
}

static void begin(struct control *k, size_t i, const char *path, const char *body)
{
    struct control_answer *a = &k->answer[i];
    struct http_request r = {
        .method = HTTP_POST,
        .path = path,
        .body = body,
        .n_body = strlen(body),
        .deadline_us = k->o->timeout_us,
        .body_cap = ANSWER_BYTES,
        .done = on_done,
        .ctx = a,
    };
    struct err e;
    http_id id;
    a->status = 0;
    a->replica[0] = a->result[0] = a->text[0] = a->warning[0] = a->error[0] = a->what_to_do[0] =
        '\0';
    a->frozen = a->persisted = false;
    if (http_start(k->client, k->server[i], &r, &id, &e))
        (void)snprintf(a->error, sizeof a->error, "%s", e.msg);
}

static void finish(struct control *k)
{
    while (http_running(k->client))
        (void)http_poll(k->client, US_PER_S);
}

void control_ask(struct control *k, size_t i, const char *path, const char *body)
{
    begin(k, i, path, body);
    finish(k);
}

void control_ask_all(struct control *k, const char *path, const char *body)
{
    for (size_t i = 0; i < k->n; i++)
        begin(k, i, path, body);
    finish(k);
}

void control_author(const struct control_opts *o, char out[SHARED_PERSON])
{
    char host[64] = "", user[64];
    struct passwd entry, *found = NULL;
    char space[1024];
    if (o->author) {
        (void)snprintf(out, SHARED_PERSON, "%s", o->author);
        return;
    }
    if (getpwuid_r(getuid(), &entry, space, sizeof space, &found) == 0 && found)
        (void)snprintf(user, sizeof user, "%s", found->pw_name);
    else
        (void)snprintf(user, sizeof user, "uid-%u", (unsigned)getuid());
    if (gethostname(host, sizeof host - 1) != 0)
        (void)snprintf(host, sizeof host, "unknown");
    (void)snprintf(out, SHARED_PERSON, "%s@%s", user, host);
}
