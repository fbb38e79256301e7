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

/* Both outputs to their ends; false when the deadline came first. */
static bool read_outputs(const struct process *p, int64_t until_us, struct buf *out,
                         struct buf *err)
{
    struct pollfd pfd[2] = {{.fd = p->out, .events = POLLIN}, {.fd = p->err, .events = POLLIN}};
    while (pfd[0].fd >= 0 || pfd[1].fd >= 0) {
        int64_t left_us = until_us - clock_mono_us();
        if (left_us <= 0)
            return false;
        if (poll(pfd, 2, (int)(left_us / US_PER_MS) + 1) <= 0)
            continue;
        if (pfd[0].revents && !drain(p->out, out, true))
            pfd[0].fd = -1;
        if (pfd[1].revents && !drain(p->err, err, false))
            pfd[1].fd = -1;
        if (out->failed)
            return true;
    }
    return true;
}

/* Exit status, or -1 when it had to be killed. */
static int reap(const struct process *p, bool in_time, int64_t until_us)
{
    int status = 0;
    while (in_time && waitpid(p->pid, &status, WNOHANG) == 0) {
        if (clock_mono_us() >= until_us)
            in_time = false;
        else
            poll(NULL, 0, 1);
    }
    if (in_time)
        return status;
    kill(-p->pid, SIGKILL);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return -1;
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

static enum err_code finish(const struct kube_exec *x, int status, int64_t deadline_us,
                            struct buf *out, struct buf *err, struct kube_credential *cred,
                            struct err *e)
{
    if (out->failed)
        return err_set(e, ERR_LIMIT, "printed more than %d bytes", CREDENTIAL_MAX);
    if (status == -1)
        return err_set(e, ERR_IO, "still running after %.3g s; it was killed",
                       (double)deadline_us / (double)US_PER_S);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_IO, "killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status))
        return err_set(e, ERR_IO, "exit status %d: %.200s", WEXITSTATUS(status), last_line(err));
    return kube_credential_parse(out->p, out->n, x->api_version, cred, e);
}

enum err_code kube_exec_run(const struct kube_config *c, int64_t deadline_us,
                            struct kube_credential *cred, struct err *e)
{
    struct process p;
    struct buf out = buf_init(CREDENTIAL_MAX), err = buf_init(STDERR_MAX);
    int64_t until_us = clock_mono_us() + deadline_us;
    *cred = (struct kube_credential){.expires_us = INT64_MAX};
    enum err_code rc = start(c, &p, e);
    if (!rc) {
        bool in_time = read_outputs(&p, until_us, &out, &err);
        int status = reap(&p, in_time && !out.failed, until_us);
        close(p.out);
        close(p.err);
        rc = finish(c->exec, status, deadline_us, &out, &err, cred, e);
    }
    if (rc)
        err_wrap(e, "kubeconfig %s: credential plugin %s", c->source, c->exec->command);
    if (out.n)
        explicit_bzero(out.p, out.n);
    buf_fini(&out);
    buf_fini(&err);
    return rc;
}
