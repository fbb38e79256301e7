/* live_world.h - a small cluster with up to two replicas of the daemon, on a clock that the test moves.
 *
 * The test API server runs in this process with its controllers, Prometheus is the fake one, leadership is what the test
 * says.  A round moves the clock by one decision period and turns the daemons until nothing is left to do, so a day of
 * decisions takes seconds and every run of a seed is the same but for the order in which the two replicas' requests
 * arrive.  Rounds use real sockets, real SQLite and the daemon's own loop. */
#ifndef TESTS_LIVE_LIVE_WORLD_H
#define TESTS_LIVE_LIVE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/daemon.h"
#include "tests/apiserver/apiserver.h"
#include "tests/live/fake_prometheus.h"

enum { LIVE_REPLICAS = 2, LIVE_NOBODY = -1, LIVE_BOTH = LIVE_REPLICAS };
#define LIVE_STEP_US INT64_C(15000000)

struct live_world {
    struct apiserver *api;
    struct fake_prometheus *prom;
    int64_t now_us;                       /* wall clock and monotonic clock of both replicas */
    int64_t skew_us[LIVE_REPLICAS];       /* added to one replica's wall clock */
    int leader;                           /* replica that leads; or LIVE_NOBODY, or LIVE_BOTH: each believes it does */
    struct daemon *daemon[LIVE_REPLICAS]; /* NULL: down */
    struct log *log;                      /* of replicas started from now on; borrowed; NULL: none */
    struct live_seat {
        struct live_world *world;
        int i;
        struct daemon_outside outside;
        char user[16]; /* as the API server knows it: "r0" */
        char dir[256], config[300], kubeconfig[300];
    } seat[LIVE_REPLICAS];
};

/* extra: more of the configuration, YAML lines; may be "".  Starts no replica yet. */
void live_world_start(struct live_world *w, const char *stage, const char *extra, const struct apiserver_opts *api);
void live_world_stop(struct live_world *w);
void live_world_up(struct live_world *w, int replica);   /* starts it, with what its folder holds */
void live_world_down(struct live_world *w, int replica); /* as if it was killed: nothing is finished, nothing given back */

/* A labelled Deployment of `units` and its CapacityTarget, in namespace shop; more: further lines of its spec. */
void live_world_target(struct live_world *w, const char *name, int units, int units_max, const char *more);
/* What its metrics say: load, use and latency as of that many ready units, each serving 80/s within target. */
void live_world_demand(struct live_world *w, const char *name, double qps);
int live_world_units(struct live_world *w, const char *name); /* spec.replicas now; -1 unknown */

/* One decision period: moves the clock, then turns all replicas until they are quiet (or for at most two real seconds). */
void live_world_round(struct live_world *w);
void live_world_turn(struct live_world *w); /* without moving the clock */
bool live_world_quiet(const struct live_world *w); /* nothing is due or under way */
/* The same period up to the instant of its decision, and n turns from there: requests are left under way. */
void live_world_begin_round(struct live_world *w, int n);
/* POST to an endpoint of one replica, with its token; the HTTP status, 0 without an answer. */
int live_world_post(struct live_world *w, int replica, const char *path, const char *body);
int live_world_get(struct live_world *w, int replica, const char *path, struct buf *out); /* the body is added to out */

#endif
