#include "base/signal.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig)
{
    (void)sig;
    stop_asked = 1; /* SA_RESETHAND: the next one has its default effect */
}

void signal_catch(void)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_signal;
    sa.sa_flags = (int)SA_RESETHAND; /* no SA_RESTART: waiting for a pipe to be opened must end too */
    (void)sigemptyset(&sa.sa_mask);
    (void)sigaction(SIGINT, &sa, NULL);
    (void)sigaction(SIGTERM, &sa, NULL);
    signal_ignore_pipe();
}

static void dispose_of_pipe(void (*handler)(int))
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = handler;
    (void)sigemptyset(&sa.sa_mask);
    (void)sigaction(SIGPIPE, &sa, NULL);
}

void signal_ignore_pipe(void)
{
    dispose_of_pipe(SIG_IGN);
}

void signal_broken_pipe(void)
{
    dispose_of_pipe(SIG_DFL);
    (void)raise(SIGPIPE);
}

bool signal_stop(void)
{
    return stop_asked != 0;
}

void signal_clear(void)
{
    stop_asked = 0;
}

enum err_code signal_check(struct err *e)
{
    return signal_stop() ? err_set(e, ERR_INTERRUPTED, "interrupted") : ERR_OK;
}
