#include "base/progress.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { LINE_BYTES = 240 };

enum progress_mode progress_mode_of(FILE *out, int verbosity)
{
    const char *term = getenv("TERM");
    if (verbosity < 0)
        return PROGRESS_QUIET;
    if (!isatty(fileno(out)) || (term && strcmp(term, "dumb") == 0))
        return PROGRESS_PLAIN;
    return PROGRESS_TTY;
}

struct progress progress_start(FILE *out, enum progress_mode mode, const char *what, const char *unit,
                               uint64_t total, uint64_t done)
{
    const char *no_color = getenv("NO_COLOR"); /* no-color.org: set and not empty */
    int64_t now = clock_mono_us();
    return (struct progress){
        .out = out,
        .what = what,
        .unit = unit,
        .total = total,
        .mode = mode,
        .color = mode == PROGRESS_TTY && !(no_color && *no_color),
        .start_us = now,
        .last_us = now,
        .start_done = done,
    };
}

void progress_count_text(double v, char out[PROGRESS_TEXT])
{
    static const char units[] = " kMGT";
    int i = 0;
    while (v >= 999.5 && i < 4) {
        v /= 1000;
        i++;
    }
    if (i == 0)
        (void)snprintf(out, PROGRESS_TEXT, v < 10 && v != (double)(long)v ? "%.1f" : "%.0f", v);
    else
        (void)snprintf(out, PROGRESS_TEXT, v < 9.95 ? "%.1f %c" : "%.0f %c", v, units[i]);
}

void progress_time_text(double seconds, char out[PROGRESS_TEXT])
{
    if (!(seconds >= 0 && seconds < 360000)) {
        (void)snprintf(out, PROGRESS_TEXT, "over 99h");
        return;
    }
    long s = (long)(seconds + 0.5);
    if (s < 60)
        (void)snprintf(out, PROGRESS_TEXT, "%lds", s);
    else if (s < 3600)
        (void)snprintf(out, PROGRESS_TEXT, "%ldm%02lds", s / 60, s % 60);
    else
        (void)snprintf(out, PROGRESS_TEXT, "%ldh%02ldm", s / 3600, s / 60 % 60);
}

static void figures(const struct progress *p, int64_t now_us, uint64_t done, bool last,
                    char out[LINE_BYTES])
{
    char count[PROGRESS_TEXT], total[PROGRESS_TEXT], rate_text[PROGRESS_TEXT],
        time_text[PROGRESS_TEXT];
    double elapsed_s = (double)(now_us - p->start_us) * 1e-6;
    uint64_t fresh = done > p->start_done ? done - p->start_done : 0;
    double rate = elapsed_s > 0 ? (double)fresh / elapsed_s : 0;
    progress_count_text((double)done, count);
    progress_count_text((double)p->total, total);
    progress_count_text(rate, rate_text);
    if (last || p->total == 0 || done >= p->total)
        progress_time_text(elapsed_s, time_text);
    else
        progress_time_text(rate > 0 ? (double)(p->total - done) / rate : 1e9, time_text);
    int n = p->total ? snprintf(out, LINE_BYTES, "%s/%s %s", count, total, p->unit)
                     : snprintf(out, LINE_BYTES, "%s %s", count, p->unit);
    if (n < 0 || n >= LINE_BYTES)
        return;
    (void)snprintf(out + n, (size_t)(LINE_BYTES - n), "  %s/s  %s%s", rate_text,
                   last || p->total == 0 || done >= p->total ? "" : "left ", time_text);
}

static void draw(struct progress *p, int64_t now_us, uint64_t done, const char *extra, bool last)
{
    char text[LINE_BYTES];
    figures(p, now_us, done, last, text);
    const char *on = p->color ? "\033[1m" : "", *off = p->color ? "\033[0m" : "";
    const char *gap = extra && *extra ? "  " : "";
    if (p->mode == PROGRESS_TTY)
        (void)fprintf(p->out, "\r\033[K%s%s%s  %s%s%s%s", on, p->what, off, text, gap,
                      extra ? extra : "", last ? "\n" : "");
    else
        (void)fprintf(p->out, "%s: %s%s%s\n", p->what, text, gap, extra ? extra : "");
    (void)fflush(p->out);
    p->last_us = now_us;
    p->drawn = true;
}

void progress_update_at(struct progress *p, int64_t now_us, uint64_t done, const char *extra)
{
    int64_t pause_us = p->mode == PROGRESS_TTY ? US_PER_S / 10 : 5 * US_PER_S;
    if (p->mode != PROGRESS_QUIET && now_us - p->last_us >= pause_us)
        draw(p, now_us, done, extra, false);
}

void progress_finish_at(struct progress *p, int64_t now_us, uint64_t done, const char *extra)
{
    if (p->mode != PROGRESS_QUIET)
        draw(p, now_us, done, extra, true);
}

void progress_update(struct progress *p, uint64_t done, const char *extra)
{
    if (p->mode != PROGRESS_QUIET)
        progress_update_at(p, clock_mono_us(), done, extra);
}

void progress_finish(struct progress *p, uint64_t done, const char *extra)
{
    progress_finish_at(p, clock_mono_us(), done, extra);
}
