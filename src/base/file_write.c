/* file_write.c - atomic writes and path helpers.
 *
 * The new file has no name while it is written (O_TMPFILE), so a process that is killed leaves nothing behind.  It gets
 * one, ".sluice-<pid>-<n>" in the folder of the target, just before the rename, which so never crosses a file system.
 * Where the file system or a missing /proc forbids that, it has this name from the start (O_EXCL).  The target keeps
 * its mode; a new file gets 0644 under umask.  A symbolic link stays, its target is replaced.  A device or pipe is
 * written in place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { TRIES = 100 };

struct file_writer {
    int fd;
    char *path, *tmp, *dir;
    bool committed;
    bool in_place;
};

static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return mem_strdup(".");
    size_t n = slash == path ? 1 : (size_t)(slash - path);
    char *dir = mem_zero(n + 1, 1);
    memcpy(dir, path, n);
    return dir;
}

/* A device or pipe has no old content to keep: no temporary, no rename. */
static enum err_code open_in_place(struct file_writer *w, struct err *e)
{
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
    w->in_place = true;
    return w->fd < 0 ? err_sys(e, errno, "write %s", w->path) : ERR_OK;
}

static void fd_name(int fd, char out[32])
{
    (void)snprintf(out, 32, "/proc/self/fd/%d", fd);
}

/* False: not here, take a named one. */
static bool open_unnamed(struct file_writer *w)
{
    char name[32];
    w->fd = open(w->dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
    fd_name(w->fd, name);
    if (w->fd < 0 || access(name, F_OK) == 0)
        return w->fd >= 0;
    (void)close(w->fd);
    w->fd = -1;
    return false;
}

/* Makes the temporary name, or gives it to the open file.  0, or errno with w->tmp empty. */
static int take_name(struct file_writer *w)
{
    char unnamed[32];
    size_t size = strlen(w->dir) + 48;
    bool open_it = w->fd < 0;
    fd_name(w->fd, unnamed);
    w->tmp = mem_zero(size, 1);
    for (int i = 0; i < TRIES; i++) {
        (void)snprintf(w->tmp, size, "%s/.sluice-%ld-%d", w->dir, (long)getpid(), i);
        if (open_it)
            w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (open_it ? w->fd >= 0 : linkat(AT_FDCWD, unnamed, AT_FDCWD, w->tmp, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    int sys = errno;
    w->tmp[0] = '\0'; /* not ours to unlink */
    return sys;
}

static enum err_code open_tmp(struct file_writer *w, struct err *e)
{
    struct stat st;
    bool exists = stat(w->path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return err_sys(e, EISDIR, "write %s", w->path);
    if (exists && !S_ISREG(st.st_mode))
        return open_in_place(w, e);
    int sys = open_unnamed(w) ? 0 : take_name(w);
    if (sys)
        return err_sys(e, sys, "write %s: create a file in %s", w->path, w->dir);
    if (exists && fchmod(w->fd, st.st_mode & 07777) != 0)
        return err_sys(e, errno, "write %s: keep its mode", w->path);
    return ERR_OK;
}

enum err_code file_writer_open(const char *path, struct file_writer **out, struct err *e)
{
    struct file_writer *w = mem_zero(1, sizeof *w);
    w->fd = -1;
    char *real = realpath(path, NULL); /* follows links; NULL for a new file */
    int sys = real ? 0 : errno;
    w->path = real ? real : mem_strdup(path);
    w->dir = dir_of(w->path);
    *out = NULL;
    enum err_code rc = sys == ENOMEM ? err_set(e, ERR_NOMEM, "write %s: out of memory", path) : open_tmp(w, e);
    if (rc)
        file_writer_close(w);
    else
        *out = w;
    return rc;
}

enum err_code file_writer_write(struct file_writer *w, const void *p, size_t n, struct err *e)
{
    const char *at = p;
    while (n > 0) {
        ssize_t done = write(w->fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_sys(e, done < 0 ? errno : ENOSPC, "write %s", w->path);
        at += done;
        n -= (size_t)done;
    }
    return ERR_OK;
}

static enum err_code sync_dir(const struct file_writer *w, struct err *e)
{
    int fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "write %s: open folder %s", w->path, w->dir);
    /* EINVAL: the file system has no such operation on folders. */
    int sys = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    (void)close(fd);
    return sys ? err_sys(e, sys, "write %s: flush folder %s", w->path, w->dir) : ERR_OK;
}

enum err_code file_writer_commit(struct file_writer *w, struct err *e)
{
    ASSERT(!w->committed && w->fd >= 0);
    if (!w->in_place && fsync(w->fd) != 0)
        return err_sys(e, errno, "write %s: flush", w->path);
    int sys = w->in_place || w->tmp ? 0 : take_name(w), fd = w->fd;
    if (sys)
        return err_sys(e, sys, "write %s: name it in %s", w->path, w->dir);
    w->fd = -1;
    if (close(fd) != 0)
        return err_sys(e, errno, "write %s: close", w->path);
    w->committed = w->in_place;
    if (w->in_place)
        return ERR_OK;
    if (rename(w->tmp, w->path) != 0)
        return err_sys(e, errno, "write %s: rename %s", w->path, w->tmp);
    w->committed = true;
    return sync_dir(w, e);
}

void file_writer_close(struct file_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        (void)close(w->fd);
    if (!w->committed && w->tmp && w->tmp[0])
        (void)unlink(w->tmp);
    mem_free(w->tmp);
    mem_free(w->dir);
    mem_free(w->path);
    mem_free(w);
}

enum err_code file_write(const char *path, const void *p, size_t n, struct err *e)
{
    struct file_writer *w;
    enum err_code rc = file_writer_open(path, &w, e);
    if (!rc)
        rc = file_writer_write(w, p, n, e);
    if (!rc)
        rc = file_writer_commit(w, e);
    file_writer_close(w);
    return rc;
}

enum err_code file_check_writable(const char *path, struct err *e)
{
    struct stat st;
    struct file_writer *w;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return ERR_OK; /* opening a pipe would already be noticed at its other end */
    enum err_code rc = file_writer_open(path, &w, e);
    if (!rc)
        file_writer_close(w); /* abandons the temporary: nothing changes */
    return rc;
}

char *file_beside(const char *beside, const char *name)
{
    const char *slash = strrchr(beside, '/');
    if (name[0] == '/' || !slash)
        return mem_strdup(name);
    size_t n_dir = (size_t)(slash - beside) + 1, n_name = strlen(name);
    char *path = mem_zero(n_dir + n_name + 1, 1);
    memcpy(path, beside, n_dir);
    memcpy(path + n_dir, name, n_name);
    return path;
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool file_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

enum err_code file_make_dirs(const char *path, struct err *e)
{
    char *copy = mem_strdup(path);
    enum err_code rc = ERR_OK;
    for (char *p = copy + 1; copy[0] && !rc; p++) {
        bool end = *p == '\0';
        if (*p != '/' && !end)
            continue;
        *p = '\0';
        struct stat st;
        if (mkdir(copy, 0777) != 0 && (errno != EEXIST || stat(copy, &st) != 0 || !S_ISDIR(st.st_mode)))
            rc = err_sys(e, errno, "create folder %s", copy);
        if (end)
            break;
        *p = '/';
    }
    mem_free(copy);
    return rc;
}
