#include "base/signal.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

TEST(interrupt_sets_the_flag_once_and_ends_the_process_the_second_time)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct err e;
        signal_catch();
        if (signal_stop() || signal_check(&e) != ERR_OK)
            _exit(1);
        (void)raise(SIGINT);
        if (!signal_stop() || signal_check(&e) != ERR_INTERRUPTED)
            _exit(2);
        (void)raise(SIGINT);
        _exit(3); /* not reached */
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
    assert_false(signal_stop());
    signal_clear();
}
