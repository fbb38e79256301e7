/* server_conn.c - every open connection, and the thread that watches over them.
 *
 * libmicrohttpd's own time-out counts whole seconds and starts anew with each byte, so a client
 * that sends one byte now and then would hold its connection for ever.  The watchdog gives the head
 * of a request idle_us from its first byte, and the body idle_us of silence and BODY_IDLES times
 * that in all.  What is late gets a 408 and a shutdown of the socket, which its thread then finds
 * closed.  (Over TLS just the latter: the session belongs to that thread.)  The slot of a
 * connection is taken out of the table before its descriptor is closed, so the watchdog never
 * touches a reused one.
 *
 * It also wakes what sleeps: delayed answers, and streamed answers every SERVER_ASK_AGAIN_US. */
#include "net/server_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

enum { BODY_IDLES = 6 };

struct server_conn *server_conn_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return i ? i->socket_context : NULL;
}

static void name_peer(struct server_conn *c)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char host[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    if (i && i->client_addr && i->client_addr->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, i->client_addr, sizeof in);
        inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
        port = ntohs(in.sin_port);
    } else if (i && i->client_addr && i->client_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, i->client_addr, sizeof in6);
        inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof host);
        port = ntohs(in6.sin6_port);
    }
    snprintf(c->peer, sizeof c->peer, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

static void conn_open(struct server *s, struct MHD_Connection *mhd, void **slot)
{
    struct server_conn *c = mem_zero(1, sizeof *c);
    c->s = s;
    c->mhd = mhd;
    c->since_us = clock_mono_us();
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    c->fd = i ? i->connect_fd : -1;
    name_peer(c);
    if (s->tls) {
        i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        if (i && i->tls_session)
            server_tls_attach(s->tls, i->tls_session);
    }
    *slot = c;
    pthread_mutex_lock(&s->lock);
    c->next = s->conns;
    if (c->next)
        c->next->prev = c;
    s->conns = c;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void conn_close(struct server *s, struct server_conn *c)
{
    pthread_mutex_lock(&s->lock);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    pthread_mutex_unlock(&s->lock);
    server_exchange_free(c->x);
    mem_free(c);
}

void server_conn_notify(void *cls, struct MHD_Connection *mhd, void **slot,
                        enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        conn_open(cls, mhd, slot);
    } else if (*slot) {
        conn_close(cls, *slot);
        *slot = NULL;
    }
}

void server_conn_phase(struct server_conn *c, enum server_phase phase)
{
    int64_t now = clock_mono_us();
    pthread_mutex_lock(&c->s->lock);
    if (phase == SERVER_HEADERS)
        c->begin_us = now;
    if (phase == SERVER_WAIT)
        c->n_served++;
    c->phase = phase;
    c->since_us = now;
    pthread_mutex_unlock(&c->s->lock);
}

bool server_conn_sleep(struct server_conn *c, int64_t wake_us, bool stream, uint64_t wakes)
{
    struct server *s = c->s;
    pthread_mutex_lock(&s->lock);
    bool sleep = !atomic_load(&s->stopping) && (!stream || wakes == atomic_load(&s->wakes));
    if (sleep) {
        c->asleep = true;
        c->stream = stream;
        c->wake_us = wake_us;
        MHD_suspend_connection(c->mhd);
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return sleep;
}

bool server_conn_gone(const struct server_conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void awaken(struct server_conn *c) /* locked */
{
    c->asleep = false;
    MHD_resume_connection(c->mhd);
}

void server_wake(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_fetch_add(&s->wakes, 1);
    for (struct server_conn *c = s->conns; c; c = c->next) {
        if (c->asleep && c->stream)
            awaken(c);
    }
    pthread_mutex_unlock(&s->lock);
}

/* When the connection is late; INT64_MAX where no time runs. */
static int64_t deadline_us(const struct server_conn *c)
{
    int64_t idle = c->s->o.idle_us;
    if (c->cut || c->asleep)
        return INT64_MAX;
    switch (c->phase) {
    case SERVER_WAIT:
    case SERVER_HEADERS:
        return c->since_us + idle;
    case SERVER_BODY: {
        int64_t whole = c->begin_us + BODY_IDLES * idle;
        return c->since_us + idle < whole ? c->since_us + idle : whole;
    }
    case SERVER_BUSY:
    case SERVER_REPLY:
        break;
    }
    return INT64_MAX;
}

static void cut(struct server_conn *c) /* locked */
{
    static const char late[] = "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain\r\n"
                               "Content-Length: 16\r\nConnection: close\r\n\r\nrequest timeout\n";
    bool asked = c->phase != SERVER_WAIT || c->n_served == 0;
    if (asked && !c->s->tls &&
        send(c->fd, late, sizeof late - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        /* The client does not even take this: closing is all that is left. */
    }
    shutdown(c->fd, SHUT_RDWR);
    c->cut = true;
}

/* Does what is due; returns when to look again. */
static int64_t sweep(struct server *s, int64_t now)
{
    int64_t next = INT64_MAX;
    for (struct server_conn *c = s->conns; c; c = c->next) {
        if (c->asleep && c->wake_us <= now)
            awaken(c);
        if (deadline_us(c) <= now)
            cut(c);
        int64_t due = c->asleep ? c->wake_us : deadline_us(c);
        next = due < next ? due : next;
    }
    /* A connection that turns idle meanwhile is seen late by a quarter of its time at most. */
    if (s->conns && next > now + s->o.idle_us / 4)
        next = now + s->o.idle_us / 4;
    return next;
}

static void *watch(void *arg)
{
    struct server *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!atomic_load(&s->stopping)) {
        int64_t next = sweep(s, clock_mono_us());
        if (next == INT64_MAX) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        struct timespec t = {.tv_sec = next / US_PER_S, .tv_nsec = next % US_PER_S * 1000};
        pthread_cond_timedwait(&s->changed, &s->lock, &t);
    }
    for (struct server_conn *c = s->conns; c; c = c->next) {
        if (c->asleep)
            awaken(c);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum err_code server_watchdog_start(struct server *s, struct err *e)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&s->watchdog, NULL, watch, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        return err_sys(e, rc, "server: start a thread");
    s->watching = true;
    return ERR_OK;
}

void server_watchdog_stop(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stopping, true);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->watching)
        pthread_join(s->watchdog, NULL);
    s->watching = false;
}
