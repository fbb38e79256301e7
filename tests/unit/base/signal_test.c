#include "base/signal.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"

TEST(nothing_is_read_after_an_interrupt_not_even_a_pipe_that_nobody_writes)
{
    struct buf text;
    struct err e;
    const char *path = test_path("%s/pipe", test_tmp_dir());
    assert_int_equal(mkfifo(path, 0600), 0);
    signal_catch();
    (void)raise(SIGINT);
    assert_err(file_read(path, 1 << 20, &text, &e), ERR_INTERRUPTED, &e, "interrupted");
    assert_err(file_read("/proc/self/status", 1 << 20, &text, &e), ERR_INTERRUPTED, &e, "interrupted");
    signal_clear();
    assert_ok(file_read("/proc/self/status", 1 << 20, &text, &e), &e);
    buf_fini(&text);
}

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

TEST(a_peer_that_hung_up_is_an_error_of_the_write_and_only_standard_output_ends_the_process)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd[2];
        signal_catch();
        if (pipe(fd) != 0 || close(fd[0]) != 0)
            _exit(1);
        if (write(fd[1], "x", 1) != -1 || errno != EPIPE)
            _exit(2);
        signal_broken_pipe();
        _exit(3); /* not reached */
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGPIPE);
}
