/* exec.c - credential plugins: run a command, read an ExecCredential from what it prints.
 *
 * The plugin gets our environment, the env of its entry and KUBERNETES_EXEC_INFO; stdin is empty,
 * since nobody can answer.  It runs in a process group of its own, which is killed at the deadline,
 * so a plugin that waits for a browser does not hold us up.  What it prints is a secret and never
 * part of a message; the last line of stderr is. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/tz.h"
#include "base/utf8.h"
#include "kube/config_priv.h"

enum { CREDENTIAL_MAX = 1 << 20, STDERR_MAX = 64 * 1024, ENV_MAX = 4096 };

extern char **environ;

void kube_credential_fini(struct kube_credential *c)
{
    char **secrets[] = {&c->token, &c->cert_pem, &c->key_pem};
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        if (*secrets[i])
            explicit_bzero(*secrets[i], strlen(*secrets[i]));
        mem_free(*secrets[i]);
        *secrets[i] = NULL;
    }
}

/* ---- what it printed --------------------------------------------------------------------- */

static enum err_code take_text(const struct json *status, const char *key, char **out,
                               struct err *e)
{
    const struct json *v = json_find(status, key);
    if (json_is_null(v))
        return ERR_OK;
    if (!json_is_string(v))
        return err_set(e, ERR_PARSE, "status.%s: expected a string", key);
    if (*json_text(v))
        *out = mem_strdup(json_text(v));
    return ERR_OK;
}

static enum err_code read_status(const struct json *status, struct kube_credential *out,
                                 struct err *e)
{
    char *expires = NULL;
    enum err_code rc = take_text(status, "token", &out->token, e);
    if (!rc)
        rc = take_text(status, "clientCertificateData", &out->cert_pem, e);
    if (!rc)
        rc = take_text(status, "clientKeyData", &out->key_pem, e);
    if (!rc)
        rc = take_text(status, "expirationTimestamp", &expires, e);
    if (!rc && expires) {
        rc = tz_parse_rfc3339(expires, strlen(expires), &out->expires_us, e);
        if (rc)
            err_wrap(e, "status.expirationTimestamp");
    }
    mem_free(expires);
    if (!rc && !out->token && !out->cert_pem)
        rc = err_set(e, ERR_PARSE, "status holds neither a token nor a client certificate");
    if (!rc && (out->cert_pem == NULL) != (out->key_pem == NULL))
        rc = err_set(e, ERR_PARSE, "status: clientCertificateData and clientKeyData go together");
    return rc;
}

enum err_code kube_credential_parse(const char *text, size_t n, const char *api_version,
                                    struct kube_credential *out, struct err *e)
{
    struct json_doc *doc;
    *out = (struct kube_credential){.expires_us = INT64_MAX};
    enum err_code rc = json_parse(text, n, CREDENTIAL_MAX, "ExecCredential", &doc, e);
    if (rc)
        return rc;
    const struct json *root = json_root(doc);
    const char *kind = json_text(json_find(root, "kind")),
               *version = json_text(json_find(root, "apiVersion"));
    if (!kind || strcmp(kind, "ExecCredential") != 0)
        rc = err_set(e, ERR_PARSE, "kind: expected ExecCredential");
    else if (!version || strcmp(version, api_version) != 0)
        rc = err_set(e, ERR_PARSE, "apiVersion: expected %s as in the kubeconfig", api_version);
    else
        rc = read_status(json_find(root, "status"), out, e);
    json_free(doc);
    if (rc)
        kube_credential_fini(out);
    return rc;
}

/* ---- the process ------------------------------------------------------------------------- */

static char *exec_info(const struct kube_config *c)
{
    struct buf b = buf_init(4 << 20);
    buf_str(&b, "KUBERNETES_EXEC_INFO=");
    struct json_writer w = json_writer_init(&b, 0);
    json_open(&w, NULL);
    json_put_str(&w, "apiVersion", c->exec->api_version);
    json_put_str(&w, "kind", "ExecCredential");
    json_open(&w, "spec");
    json_put_bool(&w, "interactive", false);
    if (c->exec->provide_cluster) {
        json_open(&w, "cluster");
        json_put_str(&w, "server", c->server.url);
        if (c->server.tls_server_name)
            json_put_str(&w, "tls-server-name", c->server.tls_server_name);
        if (c->server.insecure)
            json_put_bool(&w, "insecure-skip-tls-verify", true);
        if (c->server.proxy)
            json_put_str(&w, "proxy-url", c->server.proxy);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    return buf_take(&b);
}

static bool same_key(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* Ours, without what the entry sets, then the entry's; the array alone is the caller's. */
static char **environment(const struct kube_exec *x, char *info)
{
    size_t n = 0;
    char **env = mem_zero(ENV_MAX + KUBE_EXEC_ARGS_MAX + 2, sizeof *env);
    for (char **v = environ; *v && n < ENV_MAX; v++) {
        bool replaced = same_key(info, *v);
        for (char **own = x->env; *own && !replaced; own++)
            replaced = same_key(*own, *v);
        if (!replaced)
            env[n++] = *v;
    }
    for (char **own = x->env; *own; own++)
        env[n++] = *own;
    env[n] = info;
    return env;
}

struct process {
    pid_t pid;
    int out, err; /* our ends */
};

static int spawn_with(const struct kube_exec *x, char **env, const int out[2], const int err[2],
                      pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    char *argv[KUBE_EXEC_ARGS_MAX + 2] = {x->command};
    for (size_t i = 0; x->args[i]; i++)
        argv[i + 1] = x->args[i];
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, err[1], 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    int rc = posix_spawnp(pid, x->command, &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

static enum err_code start(const struct kube_config *c, struct process *p, struct err *e)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC))
        return err_sys(e, errno, "pipe");
    if (pipe2(err, O_CLOEXEC)) {
        int sys = errno;
        close(out[0]);
        close(out[1]);
        return err_sys(e, sys, "pipe");
    }
    char *info = exec_info(c), **env = environment(c->exec, info);
    int rc = spawn_with(c->exec, env, out, err, &p->pid);
    mem_free(env);
    mem_free(info);
    close(out[1]);
    close(err[1]);
    if (rc) {
        close(out[0]);
        close(err[0]);
        return err_sys(e, rc, "%s%s%s", c->exec->command, c->exec->install_hint ? ": " : "",
                       c->exec->install_hint ? c->exec->install_hint : "");
    }
    p->out = out[0];
    p->err = err[0];
    return ERR_OK;
}

/* One read; false at the end of the file.  What goes over the cap of stderr is thrown away. */
static bool drain(int fd, struct buf *b, bool keep_all)
{
    char chunk[4096];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0)
        return errno == EINTR;
    if (n > 0 && (keep_all || b->n + (size_t)n <= b->cap))
        buf_add(b, chunk, (size_t)n);
    explicit_bzero(chunk, sizeof chunk);
    return n > 0;
}

struct kube_plugin {
    const struct kube_config *config;
    struct process process;
    bool reaped;
    struct buf out, err;
    int64_t until_us, deadline_us; /* monotonic; a span */
};

/* What is there to be read now, waiting at most wait_us for the first of it; false when both have ended.  One that writes
 * without end is left after some of it. */
static bool read_outputs(struct kube_plugin *p, int64_t wait_us)
{
    enum { READS = 64 };
    int *fd[2] = {&p->process.out, &p->process.err};
    struct buf *to[2] = {&p->out, &p->err};
    int ready = 1;
    for (int n = 0; n < READS && ready > 0 && !p->out.failed && (*fd[0] >= 0 || *fd[1] >= 0); n++, wait_us = 0) {
        struct pollfd pfd[2] = {{.fd = *fd[0], .events = POLLIN}, {.fd = *fd[1], .events = POLLIN}};
        ready = poll(pfd, 2, wait_us > 0 ? (int)(wait_us / US_PER_MS) + 1 : 0);
        for (int i = 0; i < 2 && ready > 0; i++) {
            if (!pfd[i].revents || drain(*fd[i], to[i], i == 0))
                continue;
            close(*fd[i]);
            *fd[i] = -1;
        }
    }
    return *fd[0] >= 0 || *fd[1] >= 0;
}

static void end_process(struct kube_plugin *p)
{
    int status;
    if (p->reaped)
        return;
    kill(-p->process.pid, SIGKILL);
    while (waitpid(p->process.pid, &status, 0) < 0 && errno == EINTR)
        ;
    p->reaped = true;
}

static const char *last_line(struct buf *b)
{
    while (b->n && strchr(" \t\r\n", b->p[b->n - 1]))
        b->p[--b->n] = '\0';
    if (b->n == 0)
        return "it printed nothing on stderr";
    utf8_make_plain(b->p);
    char *nl = strrchr(b->p, '\n');
    return nl ? nl + 1 : b->p;
}

static enum err_code finish(struct kube_plugin *p, int status, struct kube_credential *cred, struct err *e)
{
    if (p->out.failed)
        return err_set(e, ERR_LIMIT, "printed more than %d bytes", CREDENTIAL_MAX);
    if (status == -1)
        return err_set(e, ERR_IO, "still running after %.3g s; it was killed",
                       (double)p->deadline_us / (double)US_PER_S);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_IO, "killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status))
        return err_set(e, ERR_IO, "exit status %d: %.200s", WEXITSTATUS(status), last_line(&p->err));
    return kube_credential_parse(p->out.p, p->out.n, p->config->exec->api_version, cred, e);
}

static enum err_code wrapped(const struct kube_config *c, enum err_code rc, struct err *e)
{
    return rc ? err_wrap(e, "kubeconfig %s: credential plugin %s", c->source, c->exec->command) : ERR_OK;
}

enum err_code kube_plugin_start(const struct kube_config *c, int64_t deadline_us,
                                struct kube_plugin **out, struct err *e)
{
    struct kube_plugin *p = mem_zero(1, sizeof *p);
    *p = (struct kube_plugin){.config = c,
                              .process = {.out = -1, .err = -1},
                              .out = buf_init(CREDENTIAL_MAX),
                              .err = buf_init(STDERR_MAX),
                              .until_us = clock_mono_us() + deadline_us,
                              .deadline_us = deadline_us};
    enum err_code rc = start(c, &p->process, e);
    p->reaped = rc != ERR_OK;
    *out = rc ? NULL : p;
    if (rc)
        kube_plugin_free(p);
    return wrapped(c, rc, e);
}

bool kube_plugin_step(struct kube_plugin *p, int64_t wait_us, struct kube_credential *cred,
                      enum err_code *rc, struct err *e)
{
    int status = 0;
    int64_t left_us = p->until_us - clock_mono_us();
    bool reading = read_outputs(p, wait_us < left_us ? wait_us : left_us);
    p->reaped = !reading && !p->out.failed && waitpid(p->process.pid, &status, WNOHANG) > 0;
    if (!p->reaped && !p->out.failed && left_us > 0) {
        if (!reading && wait_us > 0)
            poll(NULL, 0, 1); /* it has closed its outputs and is about to end */
        return false;
    }
    int ended = p->reaped ? status : -1;
    end_process(p);
    *cred = (struct kube_credential){.expires_us = INT64_MAX};
    *rc = wrapped(p->config, finish(p, ended, cred, e), e);
    return true;
}

void kube_plugin_free(struct kube_plugin *p)
{
    if (!p)
        return;
    end_process(p);
    if (p->process.out >= 0)
        close(p->process.out);
    if (p->process.err >= 0)
        close(p->process.err);
    if (p->out.n)
        explicit_bzero(p->out.p, p->out.n);
    buf_fini(&p->out);
    buf_fini(&p->err);
    mem_free(p);
}

enum err_code kube_exec_run(const struct kube_config *c, int64_t deadline_us,
                            struct kube_credential *cred, struct err *e)
{
    struct kube_plugin *p;
    *cred = (struct kube_credential){.expires_us = INT64_MAX};
    enum err_code rc = kube_plugin_start(c, deadline_us, &p, e);
    while (!rc && !kube_plugin_step(p, US_PER_S, cred, &rc, e))
        ;
    kube_plugin_free(p); /* NULL when it did not start */
    return rc;
}
