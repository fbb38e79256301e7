/* live_bench.c - a decision round of the daemon over 500 targets, in a small cluster of the tests: pods counted, samples
 * read, views, decisions of the default policy, records committed to SQLite.  Requests are not in it: they run beside. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/bench.h"
#include "tests/live/live_world.h"

enum { TARGETS = 500, UNITS = 8, WARM_ROUNDS = 12, ROUNDS = 21 };

static double round_ms(void *arg)
{
    struct live_world *w = arg;
    live_world_round(w);
    return daemon_round_s(w->daemon[0]) * 1e3;
}

static double rss_mb(void *arg)
{
    long pages = 0;
    (void)arg;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        abort();
    (void)fclose(f);
    return (double)(pages * sysconf(_SC_PAGESIZE)) / 1e6;
}

int main(void)
{
    static struct live_world w;
    if (!bench_wanted("capacity_round_ms_500_targets") && !bench_wanted("daemon_and_stand_ins_rss_mb"))
        return 0;
    live_world_start(&w, "single", "", NULL);
    for (int i = 0; i < TARGETS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "svc-%d", i);
        live_world_target(&w, name, UNITS, 64, "");
        live_world_demand(&w, name, 400);
    }
    live_world_up(&w, 0);
    for (int i = 0; i < WARM_ROUNDS; i++)
        live_world_round(&w);
    bench_report("capacity_round_ms_500_targets", "ms", ROUNDS, round_ms, &w);
    bench_report("daemon_and_stand_ins_rss_mb", "MB", 1, rss_mb, &w);
    live_world_stop(&w);
    return 0;
}
