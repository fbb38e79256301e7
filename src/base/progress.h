/* progress.h - how far a long job is: rate and ETA.
 *
 * On a terminal one line is redrawn at most 10 times a second; otherwise plain lines, at most one in
 * 5 s.  NO_COLOR and TERM=dumb turn off colour.  Quiet mode writes nothing.  One thread. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum progress_mode { PROGRESS_QUIET, PROGRESS_PLAIN, PROGRESS_TTY };

struct progress {
    FILE *out;
    const char *what; /* "training" */
    const char *unit; /* "steps" */
    uint64_t total;   /* 0 when unknown */
    enum progress_mode mode;
    bool color;
    bool drawn;
    int64_t start_us, last_us;
    uint64_t start_done; /* where a resumed job began: rate counts from here */
};

/* Mode for a stream: TTY when it is one, QUIET when verbosity < 0, else PLAIN. */
enum progress_mode progress_mode_of(FILE *out, int verbosity);
struct progress progress_start(FILE *out, enum progress_mode mode, const char *what, const char *unit,
                               uint64_t total, uint64_t done);
/* `extra` (may be NULL) is shown behind the figures, e.g. "reward -0.21". */
void progress_update(struct progress *p, uint64_t done, const char *extra);
void progress_finish(struct progress *p, uint64_t done, const char *extra); /* always writes a line */
/* The same at a given monotonic time; for tests. */
void progress_update_at(struct progress *p, int64_t now_us, uint64_t done, const char *extra);
void progress_finish_at(struct progress *p, int64_t now_us, uint64_t done, const char *extra);
/* "1.2 M", "950", "3.4 k" and "1h05m", "2m03s", "14s". */
enum { PROGRESS_TEXT = 32 };
void progress_count_text(double v, char out[PROGRESS_TEXT]);
void progress_time_text(double seconds, char out[PROGRESS_TEXT]);

#endif
