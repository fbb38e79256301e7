#include "daemon/freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tz.h"
#include "base/utf8.h"

enum { PERSON = 1, CONFIG = 2, CLUSTER = 4 };
enum { FILE_BYTES_MAX = 64 << 10, PATH_BYTES = 4096, RETRY_MS = 5000 };

/* Locks, in this order: `disk` over writing and removing the file, which may take as long as the
 * disk does; `lock` over the words, never held across a system call.  Nothing that asks waits for
 * the disk. */
struct freeze {
    atomic_uint on; /* PERSON | CONFIG | CLUSTER */
    atomic_uint_least64_t changes;
    pthread_mutex_t disk, lock;
    struct log *log;
    char dir[PATH_BYTES], path[PATH_BYTES + 8]; /* dir "": nothing is kept */
    /* under `lock` */
    struct freeze_word word;
    uint64_t n_set; /* a freeze that comes while another hand unfreezes wins */
    bool persisted;
    /* the signal thread */
    bool catching;
    pthread_t thread;
    int signal_fd, stop_fd;
    sigset_t mask_before;
};

static void lock(pthread_mutex_t *m)
{
    ASSERT(pthread_mutex_lock(m) == 0);
}

static void unlock(pthread_mutex_t *m)
{
    ASSERT(pthread_mutex_unlock(m) == 0);
}

const char *freeze_source_name(enum freeze_source s)
{
    static const char *const names[] = {
        [FREEZE_ENDPOINT] = "endpoint",
        [FREEZE_SIGNAL] = "signal",
        [FREEZE_FILE] = "file",
        [FREEZE_CLUSTER] = "cluster",
    };
    return names[s];
}

static void copy_plain(char *out, size_t size, const char *text)
{
    size_t n = text ? strnlen(text, size - 1) : 0;
    if (n)
        memcpy(out, text, n);
    out[n] = '\0';
    utf8_make_plain(out); /* a character cut in two included */
}

/* ---- the file ----------------------------------------------------------------------------------
 */

static void put_file(const struct freeze_word *w, struct buf *out)
{
    char at[TZ_TEXT];
    tz_format_rfc3339(NULL, w->at_us, at);
    struct json_writer j = json_writer_init(out, 2);
    json_open(&j, NULL);
    json_put_str(&j, "author", w->author);
    json_put_str(&j, "reason", w->reason);
    json_put_str(&j, "source", freeze_source_name(w->source));
    json_put_str(&j, "time", at);
    json_close(&j);
}

static enum err_code write_file(const struct freeze *f, const struct freeze_word *w, struct err *e)
{
    if (!f->dir[0])
        return err_set(e, ERR_IO, "there is no state folder to keep the freeze in");
    struct buf text = buf_init(FILE_BYTES_MAX);
    struct file_writer *out = NULL;
    put_file(w, &text);
    enum err_code rc = buf_check(&text, e);
    if (!rc)
        rc = file_writer_open(f->path, &out, e);
    if (!rc)
        rc = file_writer_write(out, text.p, text.n, e);
    if (!rc)
        rc = file_writer_commit(out, e);
    file_writer_close(out);
    buf_fini(&text);
    return rc;
}

static enum err_code remove_file(const struct freeze *f, struct err *e)
{
    if (!f->dir[0])
        return ERR_OK;
    if (unlink(f->path) != 0 && errno != ENOENT)
        return err_sys(e, errno, "remove %.300s", f->path);
    int fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) { /* not flushed: at worst a crash brings the freeze back, the safe side */
        (void)fsync(fd);
        (void)close(fd);
    }
    return ERR_OK;
}

static enum err_code read_source(const char *name, enum freeze_source *out, struct err *e)
{
    for (int i = 0; i < FREEZE_SOURCES; i++)
        if (strcmp(name, freeze_source_name((enum freeze_source)i)) == 0) {
            *out = (enum freeze_source)i;
            return ERR_OK;
        }
    return err_set(e, ERR_PARSE, "source: \"%.40s\" is none of ours", name);
}

static enum err_code read_file(const char *path, struct freeze_word *w, struct err *e)
{
    const char *author = "", *reason = "", *source = "", *time = "";
    struct json_doc *doc = NULL;
    enum err_code rc = json_load(path, FILE_BYTES_MAX, &doc, e);
    const struct json *root = rc ? NULL : json_root(doc);
    if (!rc)
        rc = json_get_str(doc, root, "author", &author, e);
    if (!rc)
        rc = json_get_str(doc, root, "reason", &reason, e);
    if (!rc)
        rc = json_get_str(doc, root, "source", &source, e);
    if (!rc)
        rc = json_get_str(doc, root, "time", &time, e);
    if (!rc)
        rc = read_source(source, &w->source, e);
    if (!rc)
        rc = tz_parse_rfc3339(time, strlen(time), &w->at_us, e);
    if (!rc) {
        copy_plain(w->author, sizeof w->author, author);
        copy_plain(w->reason, sizeof w->reason, reason);
    }
    json_free(doc);
    return rc;
}

/* Whatever stands in the way of knowing is taken as frozen. */
static void look_for_file(struct freeze *f)
{
    struct stat st;
    struct err e = {0};
    if (!f->dir[0] || (stat(f->path, &st) != 0 && errno == ENOENT))
        return;
    struct freeze_word *w = &f->word;
    if (read_file(f->path, w, &e)) {
        *w = (struct freeze_word){.source = FREEZE_FILE, .at_us = clock_wall_us()};
        copy_plain(w->reason, sizeof w->reason, e.msg);
    }
    w->frozen = true;
    atomic_store(&f->on, atomic_load(&f->on) | PERSON);
    log_write(f->log, LOG_WARN, "freeze", "starts frozen",
              "file=\"%s\" author=\"%s\" reason=\"%s\"", f->path, w->author, w->reason);
}

/* ---- life --------------------------------------------------------------------------------------
 */

enum err_code freeze_new(const char *state_dir, bool config, struct log *log, struct freeze **out,
                         struct err *e)
{
    *out = NULL;
    if (state_dir && strlen(state_dir) >= PATH_BYTES)
        return err_set(e, ERR_LIMIT, "state folder: longer than %d bytes", PATH_BYTES);
    enum err_code rc = state_dir ? file_make_dirs(state_dir, e) : ERR_OK;
    if (rc)
        return err_wrap(e, "state folder");
    struct freeze *f = mem_zero(1, sizeof *f);
    ASSERT(pthread_mutex_init(&f->disk, NULL) == 0);
    ASSERT(pthread_mutex_init(&f->lock, NULL) == 0);
    f->log = log;
    f->persisted = true;
    f->signal_fd = f->stop_fd = -1;
    if (state_dir) {
        (void)snprintf(f->dir, sizeof f->dir, "%s", state_dir);
        (void)snprintf(f->path, sizeof f->path, "%s/frozen", state_dir);
    }
    atomic_init(&f->on, config ? CONFIG : 0);
    atomic_init(&f->changes, 0);
    look_for_file(f);
    *out = f;
    return ERR_OK;
}

static void stop_thread(struct freeze *f)
{
    uint64_t one = 1;
    if (!f->catching)
        return;
    ASSERT(write(f->stop_fd, &one, sizeof one) == (ssize_t)sizeof one);
    ASSERT(pthread_join(f->thread, NULL) == 0);
    (void)pthread_sigmask(SIG_SETMASK, &f->mask_before, NULL);
}

void freeze_free(struct freeze *f)
{
    if (!f)
        return;
    stop_thread(f);
    if (f->signal_fd >= 0)
        (void)close(f->signal_fd);
    if (f->stop_fd >= 0)
        (void)close(f->stop_fd);
    (void)pthread_mutex_destroy(&f->disk);
    (void)pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

/* ---- asking ------------------------------------------------------------------------------------
 */

bool freeze_on(const struct freeze *f)
{
    return atomic_load(&f->on) != 0;
}

uint64_t freeze_changes(const struct freeze *f)
{
    return atomic_load(&f->changes);
}

void freeze_info(struct freeze *f, struct freeze_info *out)
{
    lock(&f->lock);
    unsigned on = atomic_load(&f->on);
    *out = (struct freeze_info){
        .frozen = on != 0,
        .person = (on & PERSON) != 0,
        .config = (on & CONFIG) != 0,
        .cluster = (on & CLUSTER) != 0,
        .persisted = f->persisted,
        .word = f->word,
    };
    unlock(&f->lock);
}

void freeze_words(const struct freeze_info *i, char *out, size_t n)
{
    char at[TZ_TEXT], who[256] = "";
    const struct freeze_word *w = &i->word;
    tz_format_rfc3339(NULL, w->at_us - w->at_us % US_PER_S, at);
    if (i->person || i->cluster)
        (void)snprintf(who, sizeof who, " by %s (%s) since %s",
                       w->author[0] ? w->author : "unknown", freeze_source_name(w->source), at);
    if (!i->frozen)
        (void)snprintf(out, n, "not frozen");
    else
        (void)snprintf(out, n, "frozen%s%s%s%s%s", who, who[0] && w->reason[0] ? ": " : "",
                       who[0] ? w->reason : "", i->config ? (who[0] ? ", and" : "") : "",
                       i->config ? " by freeze: true in the configuration" : "");
}

/* ---- saying ------------------------------------------------------------------------------------
 */

/* A person's word follows every word seen before it, also one stamped by a clock that runs ahead:
 * replicas agree on the newest.  Under the lock. */
static void speak(struct freeze *f, bool frozen, enum freeze_source source, const char *author,
                  const char *reason, int64_t at_us)
{
    struct freeze_word *w = &f->word;
    int64_t before_us = w->at_us;
    *w = (struct freeze_word){.frozen = frozen, .source = source};
    w->at_us = at_us > before_us ? at_us : before_us + 1;
    copy_plain(w->author, sizeof w->author, author);
    copy_plain(w->reason, sizeof w->reason, reason);
    atomic_fetch_add(&f->changes, 1);
}

/* Writes what is in force now, which may be newer than what the caller said. */
static enum err_code persist(struct freeze *f, struct err *e)
{
    lock(&f->disk);
    lock(&f->lock);
    struct freeze_word w = f->word;
    uint64_t n_set = f->n_set;
    bool needed = (atomic_load(&f->on) & PERSON) != 0;
    unlock(&f->lock);
    enum err_code rc = needed ? write_file(f, &w, e) : ERR_OK;
    lock(&f->lock);
    if (n_set == f->n_set)
        f->persisted = rc == ERR_OK;
    unlock(&f->lock);
    unlock(&f->disk);
    return rc;
}

enum err_code freeze_set(struct freeze *f, enum freeze_source source, const char *author,
                         const char *reason, int64_t at_us, struct err *e)
{
    atomic_fetch_or(&f->on, PERSON); /* first: nothing may delay it */
    lock(&f->lock);
    atomic_fetch_or(&f->on, PERSON); /* again: an unfreeze may have come between */
    speak(f, true, source, author, reason, at_us);
    f->n_set++;
    f->persisted = false;
    struct freeze_word w = f->word;
    unlock(&f->lock);
    log_write(f->log, LOG_WARN, "freeze", "frozen", "source=%s author=\"%s\" reason=\"%s\"",
              freeze_source_name(source), w.author, w.reason);
    enum err_code rc = persist(f, e);
    if (rc)
        (void)err_wrap(e, "frozen, but not kept over a restart");
    return rc;
}

/* Nobody froze since n_set was read; then, with `w`, both hands off as well. */
static bool lift(struct freeze *f, uint64_t n_set, const struct freeze_word *w)
{
    lock(&f->lock);
    bool newest = n_set == f->n_set;
    if (newest && w) {
        atomic_fetch_and(&f->on, ~(unsigned)(PERSON | CLUSTER));
        speak(f, false, w->source, w->author, w->reason, w->at_us);
        f->persisted = true;
    }
    unlock(&f->lock);
    return newest;
}

/* A freeze that comes meanwhile wins: before the file is removed it keeps its file, after that it
 * writes it anew, since it waits for `disk`. */
static enum err_code clear(struct freeze *f, const struct freeze_word *w, struct err *e)
{
    enum err_code rc = ERR_OK;
    lock(&f->lock);
    uint64_t n_set = f->n_set; /* before the wait for the disk: what is said meanwhile is newer */
    unlock(&f->lock);
    lock(&f->disk);
    if (lift(f, n_set, NULL)) {
        rc = remove_file(f, e);
        if (!rc)
            (void)lift(f, n_set, w);
    }
    unlock(&f->disk);
    return rc;
}

enum err_code freeze_clear(struct freeze *f, enum freeze_source source, const char *author,
                           const char *reason, int64_t at_us, struct err *e)
{
    struct freeze_word w = {.source = source, .at_us = at_us};
    copy_plain(w.author, sizeof w.author, author);
    copy_plain(w.reason, sizeof w.reason, reason);
    enum err_code rc = clear(f, &w, e);
    if (rc)
        return err_wrap(e, "still frozen: a restart would freeze again");
    log_write(f->log, LOG_WARN, "freeze", "unfrozen", "source=%s author=\"%s\" reason=\"%s\"",
              freeze_source_name(source), w.author, w.reason);
    return ERR_OK;
}

void freeze_set_config(struct freeze *f, bool on)
{
    unsigned before =
        on ? atomic_fetch_or(&f->on, CONFIG) : atomic_fetch_and(&f->on, ~(unsigned)CONFIG);
    if (((before & CONFIG) != 0) != on)
        atomic_fetch_add(&f->changes, 1);
}

/* A newer word of the cluster.  False: not newer. */
static bool adopt_freeze(struct freeze *f, const struct freeze_word *w)
{
    lock(&f->lock);
    bool newer = w->at_us > f->word.at_us;
    if (newer && w->frozen) {
        atomic_fetch_or(&f->on, CLUSTER);
        f->word = *w;
        f->word.source = FREEZE_CLUSTER;
        atomic_fetch_add(&f->changes, 1);
    }
    unlock(&f->lock);
    return newer;
}

bool freeze_set_cluster(struct freeze *f, const struct freeze_word *w)
{
    struct err e = {0};
    lock(&f->lock);
    int64_t ours_us = f->word.at_us;
    unlock(&f->lock);
    if (w->at_us <= ours_us)
        return w->at_us == ours_us;
    if (w->frozen)
        return adopt_freeze(f, w);
    struct freeze_word lifted = *w;
    lifted.source = FREEZE_CLUSTER;
    if (clear(f, &lifted, &e))
        log_write(f->log, LOG_ERROR, "freeze", "unfrozen in the cluster, but the file stays",
                  "error=\"%s\"", e.msg);
    return true;
}

void freeze_retry(struct freeze *f)
{
    struct err e = {0};
    lock(&f->lock);
    bool needed = !f->persisted && f->dir[0];
    unlock(&f->lock);
    if (!needed)
        return;
    if (persist(f, &e))
        log_write(f->log, LOG_WARN, "freeze", "still not kept over a restart", "error=\"%s\"",
                  e.msg);
    else
        log_write(f->log, LOG_INFO, "freeze", "kept over a restart", "file=\"%s\"", f->path);
}

/* ---- SIGUSR1 -----------------------------------------------------------------------------------
 */

static void on_signal(struct freeze *f)
{
    struct signalfd_siginfo info;
    struct err e = {0};
    char author[64];
    if (read(f->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    (void)snprintf(author, sizeof author, "uid %u, pid %u", info.ssi_uid, info.ssi_pid);
    if (freeze_set(f, FREEZE_SIGNAL, author, "SIGUSR1", clock_wall_us(), &e))
        log_write(f->log, LOG_ERROR, "freeze", "not kept", "error=\"%s\"", e.msg);
}

static void *watch_signal(void *arg)
{
    struct freeze *f = arg;
    struct pollfd fd[] = {{.fd = f->signal_fd, .events = POLLIN},
                          {.fd = f->stop_fd, .events = POLLIN}};
    while (!fd[1].revents) {
        int n = poll(fd, ARRAY_LEN(fd), RETRY_MS);
        ASSERT(n >= 0 || errno == EINTR);
        if (n < 0)
            continue;
        if (fd[0].revents)
            on_signal(f);
        if (n == 0)
            freeze_retry(f);
    }
    return NULL;
}

enum err_code freeze_catch_signal(struct freeze *f, struct err *e)
{
    sigset_t set;
    ASSERT(!f->catching);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    int sys = pthread_sigmask(SIG_BLOCK, &set, &f->mask_before);
    if (sys)
        return err_sys(e, sys, "block SIGUSR1");
    f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    f->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (f->signal_fd < 0 || f->stop_fd < 0)
        return err_sys(e, errno, "watch for SIGUSR1");
    sys = pthread_create(&f->thread, NULL, watch_signal, f);
    if (sys)
        return err_sys(e, sys, "start the thread for SIGUSR1");
    f->catching = true;
    return ERR_OK;
}
