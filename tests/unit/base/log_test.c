#include "base/log.h"

#include "base/clock.h"
#include "base/progress.h"
#include "tests/support/test.h"

/* What was written to a stream in memory. */
struct capture {
    FILE *f;
    char *text;
    size_t n;
};

static struct capture *capture(struct capture *c)
{
    *c = (struct capture){0};
    c->f = open_memstream(&c->text, &c->n);
    assert_non_null(c->f);
    return c;
}

static void release(struct capture *c)
{
    (void)fclose(c->f);
    free(c->text);
}

TEST(log_line_has_level_time_module_message_and_fields)
{
    struct capture c;
    struct log *log = log_new(capture(&c)->f, LOG_INFO);
    log_write_at(log, 1714564800123456, LOG_INFO, "train", "update done", "update=%d loss=%g", 3, 0.5);
    log_write_at(log, 1714564800000000, LOG_WARN, "train", "no fields", NULL);
    log_write_at(log, 0, LOG_DEBUG, "train", "too fine", NULL);
    assert_string_equal(c.text, "info 2024-05-01T12:00:00.123Z train \"update done\" update=3 loss=0.5\n"
                                "warn 2024-05-01T12:00:00Z train \"no fields\"\n");
    log_free(log);
    release(&c);
}

TEST(log_turns_control_characters_into_blanks_and_cuts_long_lines)
{
    struct capture c;
    struct log *log = log_new(capture(&c)->f, LOG_INFO);
    log_write_at(log, 0, LOG_INFO, "m", "x", "text=\"%s\"", "a\nerror fake\x1b[31m");
    assert_string_equal(c.text, "info 1970-01-01T00:00:00Z m \"x\" text=\"a error fake [31m\"\n");
    char text[5000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_write_at(log, 0, LOG_INFO, "m", "z", "%s", text);
    assert_in_range(c.n, 2000, 2200);
    assert_string_equal(c.text + c.n - 5, " ...\n");
    log_free(log);
    release(&c);
}

TEST(log_repeats_within_a_second_are_counted_not_written)
{
    struct capture c;
    struct log *log = log_new(capture(&c)->f, LOG_INFO);
    for (int i = 0; i < 25; i++)
        log_write_at(log, i * US_PER_MS, LOG_INFO, "m", "again", "i=%d", i);
    log_write_at(log, 2 * US_PER_S, LOG_INFO, "m", "again", "i=%d", 99);
    int lines = 0;
    for (const char *p = c.text; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 12);
    assert_non_null(strstr(c.text, "\"again\" i=9\n"));
    assert_null(strstr(c.text, "i=10\n"));
    assert_non_null(strstr(c.text, "\"again\" repeats=15\n"));
    assert_non_null(strstr(c.text, "i=99\n"));
    for (int i = 0; i < 12; i++)
        log_write_at(log, 5 * US_PER_S, LOG_INFO, "m", "last", NULL);
    log_free(log);
    (void)fflush(c.f);
    assert_non_null(strstr(c.text, "\"last\" repeats=2\n"));
    release(&c);
}

TEST(log_levels_follow_verbosity_and_null_is_silent)
{
    assert_int_equal(log_level_of(-2), LOG_ERROR);
    assert_int_equal(log_level_of(0), LOG_WARN);
    assert_int_equal(log_level_of(1), LOG_INFO);
    assert_int_equal(log_level_of(5), LOG_DEBUG);
    assert_false(log_on(NULL, LOG_ERROR));
    log_write(NULL, LOG_ERROR, "m", "x", NULL);
    log_free(NULL);
}

TEST(clocks_run_forward_and_agree_on_the_decade)
{
    int64_t a = clock_mono_us(), b = clock_mono_us();
    assert_true(b >= a);
    assert_true(clock_wall_us() > 1577836800 * US_PER_S); /* 2020 */
    assert_near(clock_mono_s(), (double)b * 1e-6, 10, 0);
}

TEST(progress_on_a_terminal_redraws_one_line_with_rate_and_time_left)
{
    struct capture c;
    struct progress p = progress_start(capture(&c)->f, PROGRESS_TTY, "training", "steps", 1000, 0);
    p.color = false;
    progress_update_at(&p, p.start_us + US_PER_S / 20, 1, NULL); /* too soon */
    progress_update_at(&p, p.start_us + 10 * US_PER_S, 250, "reward -0.2");
    progress_finish_at(&p, p.start_us + 40 * US_PER_S, 1000, NULL);
    assert_string_equal(c.text, "\r\033[Ktraining  250/1.0 k steps  25/s  left 30s  reward -0.2"
                                "\r\033[Ktraining  1.0 k/1.0 k steps  25/s  40s\n");
    release(&c);
}

TEST(progress_elsewhere_writes_plain_lines_at_most_every_five_seconds)
{
    struct capture c;
    struct progress p = progress_start(capture(&c)->f, PROGRESS_PLAIN, "reading", "rows", 0, 0);
    for (int i = 1; i <= 100; i++)
        progress_update_at(&p, p.start_us + i * US_PER_S / 10, (uint64_t)i * 100, NULL);
    progress_finish_at(&p, p.start_us + 10 * US_PER_S, 10000, NULL);
    assert_string_equal(c.text, "reading: 5.0 k rows  1.0 k/s  5s\n"
                                "reading: 10 k rows  1.0 k/s  10s\n"
                                "reading: 10 k rows  1.0 k/s  10s\n");
    release(&c);
}

TEST(progress_of_a_resumed_job_counts_its_rate_from_the_resume)
{
    struct capture c;
    struct progress p = progress_start(capture(&c)->f, PROGRESS_PLAIN, "t", "u", 200, 100);
    progress_update_at(&p, p.start_us + 10 * US_PER_S, 150, NULL);
    (void)fflush(c.f);
    assert_string_equal(c.text, "t: 150/200 u  5/s  left 10s\n");
    release(&c);
}

TEST(progress_is_silent_when_quiet_and_plain_without_a_terminal)
{
    struct capture c;
    assert_int_equal(progress_mode_of(stdout, -1), PROGRESS_QUIET);
    FILE *f = tmpfile();
    assert_int_equal(progress_mode_of(f, 0), PROGRESS_PLAIN);
    (void)fclose(f);
    struct progress p = progress_start(capture(&c)->f, PROGRESS_QUIET, "t", "u", 0, 0);
    progress_update_at(&p, p.start_us + 100 * US_PER_S, 5, NULL);
    progress_finish(&p, 5, NULL);
    (void)fflush(c.f);
    assert_int_equal(c.n, 0);
    release(&c);
}

TEST(progress_uses_no_colour_when_asked_not_to)
{
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    struct progress p = progress_start(stdout, PROGRESS_TTY, "t", "u", 0, 0);
    assert_false(p.color);
    assert_int_equal(unsetenv("NO_COLOR"), 0);
    p = progress_start(stdout, PROGRESS_TTY, "t", "u", 0, 0);
    assert_true(p.color);
}

TEST(counts_and_times_are_short_and_readable)
{
    static const struct {
        double v;
        const char *want;
    } counts[] = {{0, "0"}, {0.25, "0.2"}, {7, "7"}, {950, "950"}, {999.6, "1.0 k"}, {3400, "3.4 k"}, {12345, "12 k"},
                  {1.25e6, "1.2 M"}, {5e9, "5.0 G"}},
      times[] = {{0, "0s"}, {14.4, "14s"}, {123, "2m03s"}, {3900, "1h05m"}, {1e9, "over 99h"}, {-1, "over 99h"}};
    char text[PROGRESS_TEXT];
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        progress_count_text(counts[i].v, text);
        assert_string_equal(text, counts[i].want);
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        progress_time_text(times[i].v, text);
        assert_string_equal(text, times[i].want);
    }
}
