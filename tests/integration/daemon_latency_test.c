/* How long a step of demand takes to reach /scale: at most one decision period and a second, on the test's clock. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

enum { PERIOD_S = 15, WARM_ROUNDS = 12 };

static size_t sizes(struct live_world *w)
{
    return apiserver_counted(w->api, "update", "deployments/scale", true);
}

/* Seconds from the step, made `after_s` after a decision, to the accepted size. */
static int seconds_to_scale(const char *policy, double qps, int after_s)
{
    struct live_world w;
    int s = 0;
    live_world_start(&w, "single", test_path("policy: %s\n", policy), NULL);
    live_world_target(&w, "chat", 4, 40, "");
    live_world_up(&w, 0);
    for (int i = 0; i < WARM_ROUNDS; i++) {
        live_world_demand(&w, "chat", qps);
        live_world_round(&w);
    }
    for (int i = 0; i < after_s; i++) {
        w.now_us += US_PER_S;
        live_world_turn(&w);
    }
    apiserver_forget(w.api);
    live_world_demand(&w, "chat", 1600);
    live_world_turn(&w);
    while (!sizes(&w) && s < 10 * PERIOD_S) {
        s++;
        w.now_us += US_PER_S;
        live_world_turn(&w);
    }
    live_world_stop(&w);
    return s;
}

static void must_take(const char *policy, double qps, int after_s, int most_s)
{
    int took_s = seconds_to_scale(policy, qps, after_s);
    if (took_s > most_s)
        fail_msg("%s, %d s after a decision: took %d s", policy, after_s, took_s);
}

TEST(a_step_of_demand_reaches_scale_within_one_decision_period_and_a_second)
{
    static const int after_s[] = {0, 1, 4, 7, 11, 14};
    for (size_t i = 0; i < ARRAY_LEN(after_s); i++)
        must_take("mpc", 200, after_s[i], PERIOD_S + 1);
}

/* They see what an autoscaler sees, use averaged over a minute: of 4 units at 0.69, a period of full use is enough, less of it
 * is not. */
TEST(rules_follow_a_step_once_their_average_shows_it)
{
    must_take("rules", 220, 0, PERIOD_S + 1);
    for (int after_s = 1; after_s < PERIOD_S; after_s += 6)
        must_take("rules", 220, after_s, 2 * PERIOD_S + 1);
}
