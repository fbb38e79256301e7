#include "daemon/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { RANDOM_BYTES = 32 };

struct auth {
    char *path;
    char **names;
    size_t n_names;
    pthread_mutex_t lock;
    /* under the lock */
    struct timespec mtime, ctime;
    ino_t inode;
    off_t size;
    bool usable;
    char token[AUTH_TOKEN_MOST + 1];
    size_t n_token;
};

bool auth_equal(const char *given, size_t n_given, const char *secret, size_t n_secret)
{
    volatile unsigned char differ = n_given != n_secret || n_secret == 0;
    for (size_t i = 0; i < n_given && n_secret; i++)
        differ = (unsigned char)(differ | (given[i] ^ secret[i % n_secret]));
    return !differ;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static enum err_code read_whole(int fd, char *out, size_t size, size_t *n, struct err *e)
{
    for (*n = 0; *n < size;) {
        ssize_t got = read(fd, out + *n, size - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, errno, "read the token");
        if (got == 0)
            return ERR_OK;
        *n += (size_t)got;
    }
    return err_set(e, ERR_INVAL, "the token is longer than %d bytes", AUTH_TOKEN_MOST);
}

static enum err_code trim(char *text, size_t n, struct err *e)
{
    size_t from = 0;
    while (n > from && is_blank(text[n - 1]))
        n--;
    while (from < n && is_blank(text[from]))
        from++;
    memmove(text, text + from, n - from);
    text[n - from] = '\0';
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~')
            return err_set(e, ERR_INVAL, "the token holds a character that no header can carry");
    if (strlen(text) < AUTH_TOKEN_LEAST || strlen(text) != n - from)
        return err_set(e, ERR_INVAL, "the token is shorter than %d characters", AUTH_TOKEN_LEAST);
    return ERR_OK;
}

enum err_code auth_token_read(const char *path, char out[AUTH_TOKEN_MOST + 1], struct err *e)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(e, errno, "token file %.300s", path);
    enum err_code rc = read_whole(fd, out, AUTH_TOKEN_MOST + 1, &n, e);
    (void)close(fd);
    if (!rc)
        rc = trim(out, n, e);
    return rc ? err_wrap(e, "token file %.300s", path) : ERR_OK;
}

/* Short of something that comes back by itself: says nothing about the token. */
static bool is_passing(int sys)
{
    return sys == EMFILE || sys == ENFILE || sys == ENOMEM || sys == EIO || sys == EAGAIN;
}

/* Reads the file again if it is another one than before.  Under the lock. */
static enum err_code refresh(struct auth *a, struct err *e)
{
    struct stat st;
    char token[AUTH_TOKEN_MOST + 1];
    if (stat(a->path, &st) != 0) {
        if (!is_passing(errno))
            a->usable = false;
        return err_sys(e, errno, "token file %.300s", a->path);
    }
    if (a->usable && st.st_ino == a->inode && st.st_size == a->size &&
        memcmp(&st.st_mtim, &a->mtime, sizeof a->mtime) == 0 &&
        memcmp(&st.st_ctim, &a->ctime, sizeof a->ctime) == 0)
        return ERR_OK;
    enum err_code rc = auth_token_read(a->path, token, e);
    if (rc) {
        if (!e || rc != ERR_IO || !is_passing(e->sys))
            a->usable = false;
        return rc;
    }
    memcpy(a->token, token, sizeof token);
    a->n_token = strlen(token);
    a->usable = true;
    a->inode = st.st_ino;
    a->size = st.st_size;
    a->mtime = st.st_mtim;
    a->ctime = st.st_ctim;
    return ERR_OK;
}

enum err_code auth_new(const struct auth_opts *o, struct auth **out, struct err *e)
{
    struct auth *a = mem_zero(1, sizeof *a);
    a->path = o->token_file ? mem_strdup(o->token_file) : NULL;
    a->n_names = o->n_names;
    a->names = mem_zero(o->n_names + 1, sizeof *a->names);
    for (size_t i = 0; i < o->n_names; i++)
        a->names[i] = mem_strdup(o->names[i]);
    ASSERT(pthread_mutex_init(&a->lock, NULL) == 0);
    enum err_code rc = a->path ? refresh(a, e) : ERR_OK;
    *out = rc ? NULL : a;
    if (rc)
        auth_free(a);
    return rc;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    (void)pthread_mutex_destroy(&a->lock);
    explicit_bzero(a->token, sizeof a->token);
    for (size_t i = 0; i < a->n_names; i++)
        mem_free(a->names[i]);
    mem_free(a->names);
    mem_free(a->path);
    mem_free(a);
}

static enum auth_verdict check_token(struct auth *a, const char *given)
{
    struct err e = {0};
    ASSERT(pthread_mutex_lock(&a->lock) == 0);
    (void)refresh(a, &e); /* a->usable says whether what we have still counts */
    bool usable = a->usable;
    bool right = usable && auth_equal(given, strlen(given), a->token, a->n_token);
    ASSERT(pthread_mutex_unlock(&a->lock) == 0);
    return right ? AUTH_TOKEN : usable ? AUTH_WRONG_TOKEN : AUTH_UNREADABLE;
}

static const char *bearer(const struct server_request *in)
{
    const char *h = server_header(in, "Authorization");
    if (!h || strncasecmp(h, "Bearer ", 7) != 0)
        return NULL;
    for (h += 7; *h == ' '; h++)
        ;
    return h;
}

static bool on_list(const struct auth *a, const char *cn)
{
    for (size_t i = 0; i < a->n_names; i++)
        if (strcmp(a->names[i], cn) == 0)
            return true;
    return false;
}

enum auth_verdict auth_check(struct auth *a, const struct server_request *in, char who[AUTH_WHO])
{
    const char *token = a->path ? bearer(in) : NULL;
    who[0] = '\0';
    if (!a->path && !a->n_names)
        return AUTH_OFF;
    if (in->client_cn && on_list(a, in->client_cn)) {
        (void)snprintf(who, AUTH_WHO, "%s", in->client_cn);
        utf8_make_plain(who);
        return AUTH_CERTIFICATE;
    }
    if (!token)
        return in->client_cn && a->n_names ? AUTH_WRONG_NAME : AUTH_NOTHING;
    enum auth_verdict v = check_token(a, token);
    if (v == AUTH_TOKEN)
        (void)snprintf(who, AUTH_WHO, "token");
    return v;
}

bool auth_let_in(enum auth_verdict v)
{
    return v == AUTH_TOKEN || v == AUTH_CERTIFICATE;
}

const char *auth_words(enum auth_verdict v)
{
    static const char *const words[] = {
        [AUTH_TOKEN] = "let in by token",
        [AUTH_CERTIFICATE] = "let in by certificate",
        [AUTH_NOTHING] = "neither a bearer token nor a known client certificate was sent",
        [AUTH_WRONG_TOKEN] = "the bearer token is not the one of this replica",
        [AUTH_WRONG_NAME] = "the client certificate's name is not on the list",
        [AUTH_UNREADABLE] = "this replica cannot read its own token file",
        [AUTH_OFF] =
            "this replica has neither a token file nor a list of names, so it lets nobody in",
    };
    return words[v];
}

enum err_code auth_token_create(const char *path, struct err *e)
{
    unsigned char bytes[RANDOM_BYTES];
    char text[2 * RANDOM_BYTES + 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_sys(e, errno, "make a token");
    for (int i = 0; i < RANDOM_BYTES; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    text[2 * RANDOM_BYTES] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return ERR_OK;
    if (fd < 0)
        return err_sys(e, errno, "token file %.300s", path);
    ssize_t n = write(fd, text, 2 * RANDOM_BYTES + 1);
    int sys = n == 2 * RANDOM_BYTES + 1 ? (fsync(fd) == 0 ? 0 : errno) : n < 0 ? errno : ENOSPC;
    (void)close(fd);
    explicit_bzero(text, sizeof text);
    if (sys)
        (void)unlink(path); /* half a token is none */
    return sys ? err_sys(e, sys, "token file %.300s", path) : ERR_OK;
}
