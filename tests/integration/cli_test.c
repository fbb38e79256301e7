/* The program as people and scripts use it: commands in a folder of their own, over small made-up
 * data.
 *
 * Runs the sluice of the same build (two folders up from this binary, or $SLUICE_BIN).  Whatever is
 * asked of it, it must end with 0, 1 or 2, never by a signal, and a sanitizer must have nothing to
 * say. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/support/test.h"

enum { OUT_MAX = 32 << 20, MINUTES_PER_DAY = 1440, STEP_MINUTES = 5 };

/* ---- running ----------------------------------------------------------------------------------
 */

/* What the last command left; one at a time. */
static struct {
    int status;
    struct buf out, err;
} last;

static const char *program(void)
{
    static char path[600];
    char self[512];
    const char *given = getenv("SLUICE_BIN");
    if (path[0])
        return path;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int up = 0; up < 3; up++) /* build/<config>/tests/integration/run */
        *strrchr(self, '/') = '\0';
    (void)snprintf(path, sizeof path, "%s", given && *given ? given : test_path("%s/sluice", self));
    if (access(path, X_OK) != 0)
        fail_msg("no program %s: build it with make, or name it in SLUICE_BIN", path);
    return path;
}

/* A command line for the shell: in the test's folder, "sluice" being the program. */
static const char *shell_line(const char *line)
{
    static char text[4096];
    int n = snprintf(text, sizeof text,
                     "cd '%s' && export SLUICE=%s && sluice() { \"$SLUICE\" \"$@\"; } && { %s\n}",
                     test_tmp_dir(), program(), line);
    assert_true(n > 0 && (size_t)n < sizeof text);
    return text;
}

static void read_back(const char *name, struct buf *into)
{
    struct err e;
    buf_fini(into);
    assert_ok(file_read(test_path("%s/%s", test_tmp_dir(), name), OUT_MAX, into, &e), &e);
    buf_char(into, '\0'); /* text even where it is empty */
    into->n--;
}

static void finish(int wait_status, const char *line)
{
    read_back("stdout", &last.out);
    read_back("stderr", &last.err);
    last.status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (last.status > 2 || strstr(last.err.p, "Sanitizer") || strstr(last.err.p, "runtime error"))
        fail_msg("%s: ended with %d:\n%s", line, last.status, last.err.p);
}

/* The pid of a shell that runs the line with its output in the files stdout and stderr. */
static pid_t start(const char *line)
{
    const char *text = shell_line(line);
    const char *out = test_path("%s/stdout", test_tmp_dir()),
               *err = test_path("%s/stderr", test_tmp_dir());
    test_write_file(out, "", 0);
    test_write_file(err, "", 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    int fd1 = open(out, O_WRONLY), fd2 = open(err, O_WRONLY);
    if (dup2(fd1, 1) == 1 && dup2(fd2, 2) == 2)
        (void)execl("/bin/sh", "sh", "-c", text, (char *)NULL);
    _exit(127);
}

static int run(const char *fmt, ...) PRINTF_LIKE(1, 2);
static int run(const char *fmt, ...)
{
    char line[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    int status;
    pid_t pid = start(line);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    finish(status, line);
    return last.status;
}

/* Runs and wants an exit code; what was printed is shown when it is another. */
static void want(int status, const char *line)
{
    if (run("%s", line) != status)
        fail_msg("%s: ended with %d, expected %d:\n%s%s", line, last.status, status, last.out.p,
                 last.err.p);
}

static bool said(const char *text)
{
    return strstr(last.err.p, text) != NULL;
}

static bool printed(const char *text)
{
    return strstr(last.out.p, text) != NULL;
}

static void put_file(const char *name, const char *text)
{
    test_write_file(test_path("%s/%s", test_tmp_dir(), name), text, strlen(text));
}

static bool there(const char *name)
{
    return file_exists(test_path("%s/%s", test_tmp_dir(), name));
}

static void assert_same_files(const char *a, const char *b)
{
    struct err e;
    struct buf x, y;
    assert_ok(file_read(test_path("%s/%s", test_tmp_dir(), a), OUT_MAX, &x, &e), &e);
    assert_ok(file_read(test_path("%s/%s", test_tmp_dir(), b), OUT_MAX, &y, &e), &e);
    if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0)
        fail_msg("%s and %s differ", a, b);
    buf_fini(&x);
    buf_fini(&y);
}

/* ---- data -------------------------------------------------------------------------------------
 */

/* Requests per second of a service with a daily rhythm and a burst on some hours: `days` days from
 * a Monday. */
static void put_csv(const char *name, int days)
{
    struct buf text = buf_init(OUT_MAX);
    uint32_t noise = 12345;
    buf_str(&text, "time,requests_per_s\n");
    for (int m = 0; m < days * MINUTES_PER_DAY; m += STEP_MINUTES) {
        noise = noise * 1664525u + 1013904223u;
        double hour = (double)(m % MINUTES_PER_DAY) / 60;
        double level = 300 + 200 * sin((hour - 9) / 12 * 3.14159265358979) +
                       40 * ((double)(noise >> 8) / 16777216 - 0.5);
        bool burst = m / 60 % 7 == 3 && m % 60 < 20;
        buf_fmt(&text, "%lld,%.2f\n", 1700438400LL + 60LL * m, burst ? 1.5 * level : level);
    }
    test_write_file(test_path("%s/%s", test_tmp_dir(), name), text.p, text.n);
    buf_fini(&text);
}

/* NAME.csv, NAME.hist and NAME.yaml. */
static void put_scenario(const char *name, int days)
{
    put_csv(test_path("%s.csv", name), days);
    want(0, test_path("sluice import csv %s.csv --time time --qps requests_per_s -o %s.hist", name,
                      name));
    put_file(test_path("%s.yaml", name),
             test_path("name: %s\nhistory:\n  file: %s.hist\npeak_units: 12\nstep: 1min\n"
                       "service:\n  units_max: 24\n",
                       name, name));
}

/* my.yaml, 12 days, made once: long enough for a backtest. */
static void need_scenario(void)
{
    if (!there("my.yaml"))
        put_scenario("my", 12);
}

/* short.yaml, for training several times. */
static void need_short(void)
{
    if (!there("short.yaml"))
        put_scenario("short", 6);
}

static const char train_auto[] = "sluice train short.yaml -q --outlook-samples 1000 --seeds 1";
static const char train_ppo[] =
    "sluice train short.yaml --policy ppo --base mpc --seeds 1 --lanes 8 --steps 8000";

/* p.safetensors, trained on my.yaml. */
static void need_policy(void)
{
    need_scenario();
    if (!there("p.safetensors"))
        want(0, "sluice train my.yaml -q --policy outlook --outlook-samples 1000 --seeds 1 -o "
                "p.safetensors");
}

/* ---- the whole path ---------------------------------------------------------------------------
 */

static struct json_doc *parse_out(void)
{
    struct err e;
    struct json_doc *doc;
    assert_ok(json_parse(last.out.p, last.out.n, OUT_MAX, "stdout", &doc, &e), &e);
    assert_true(last.out.n > 1 && last.out.p[last.out.n - 1] == '\n' &&
                last.out.p[last.out.n - 2] != '\n');
    return doc;
}

TEST(import_says_what_it_read_and_inspect_reads_it_back)
{
    put_csv("a.csv", 3);
    want(0, "sluice import csv a.csv --time time --qps requests_per_s -o a.hist");
    assert_true(printed("864  rows read"));
    want(0, "sluice import csv a.csv --time time --qps requests_per_s -o a2.hist -q");
    assert_string_equal(last.out.p, "");
    assert_same_files("a.hist", "a2.hist");
    want(0, "sluice inspect a.hist");
    assert_true(printed("3.00 days") && printed("864 of 5min"));
    want(0, "sluice inspect a.hist --format json");
    json_free(parse_out());
    want(0, "gzip -c a.csv > a.csv.gz && sluice import csv a.csv.gz --time time --qps "
            "requests_per_s -o a3.hist");
    want(0, "sluice import csv a.csv --time time --qps requests_per_s -o a4.hist --max-bad 0.1 "
            "--zero_gap 1h");
}

TEST(forecast_tells_the_next_half_hour_and_how_good_it_has_been)
{
    need_scenario();
    want(0, "sluice forecast my.hist");
    assert_true(printed("15 min") && printed("hi95"));
    want(0, "sluice forecast my.hist --backtest --format json");
    struct json_doc *doc = parse_out();
    static const char *const keys[] = {"15min", "30min"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *at = json_find(json_root(doc), keys[i]),
                          *own = json_find(at, "forecast");
        assert_true(json_number(json_find(own, "wape")) < 0.5);
        assert_true(json_number(json_find(own, "pinball")) > 0);
        assert_true(json_number(json_find(own, "interval_score_80")) > 0);
        assert_true(json_number(json_find(json_find(at, "coverage_80"), "lo")) > 0.4);
        assert_non_null(json_find(at, "persistence"));
        assert_non_null(json_find(at, "holt-winters"));
    }
    json_free(doc);
    want(0, "sluice forecast my.hist --backtest");
    assert_true(printed("coverage 80 %"));
    want(0, "sluice forecast my.hist --format csv");
    assert_true(strncmp(last.out.p, "ahead,mean_qps,", 15) == 0);
}

TEST(evaluate_prints_the_contract_as_json)
{
    static const char *const metrics[] = {"cost_usd",
                                          "unit_hours",
                                          "slo_violation_frac",
                                          "slo_violation_request_frac",
                                          "cost_at_equal_misses_frac",
                                          "p99_latency_ms",
                                          "scale_actions",
                                          "reversals_per_day",
                                          "reward",
                                          "regret_frac"};
    static const char *const names[] = {"hpa", "mpc", "p.safetensors", "oracle"};
    need_policy();
    want(0, "sluice evaluate my.yaml --policy hpa --policy mpc --policy p.safetensors --policy "
            "oracle --seeds 2 "
            "--tune-evals 4 --format json");
    struct json_doc *doc = parse_out();
    const struct json *root = json_root(doc), *p = json_first(json_find(root, "policies"));
    assert_string_equal(json_text(json_find(root, "scenario")), "my");
    assert_near(json_number(json_find(root, "seeds")), 2, 0, 0);
    assert_int_equal(json_count(json_find(root, "policies")), ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++, p = json_next(p)) {
        assert_string_equal(json_text(json_find(p, "name")), names[i]);
        for (size_t k = 0; k < ARRAY_LEN(metrics); k++) {
            const struct json *m = json_find(json_find(p, "metrics"), metrics[k]);
            double mean = json_number(json_find(m, "mean")), lo = json_number(json_find(m, "lo")),
                   hi = json_number(json_find(m, "hi"));
            if (!(isfinite(mean) && lo <= hi))
                fail_msg("%s of %s: %g (%g..%g)", metrics[k], names[i], mean, lo, hi);
        }
    }
    double bound = json_number(json_find(json_find(root, "bounds"), "cost_usd"));
    const struct json *oracle =
        json_find(json_find(json_first(json_find(root, "policies")), "metrics"), "cost_usd");
    assert_true(bound > 0 && bound <= json_number(json_find(oracle, "mean")));
    json_free(doc);
    assert_true(said("tuning hpa") && said("bounds"));
}

TEST(evaluate_writes_a_report_beside_its_table)
{
    need_policy();
    want(0, "sluice evaluate my.yaml --policy hpa --policy p.safetensors --seeds 1 --tune-evals 4 "
            "--no-bounds -o r.html");
    assert_true(printed("cost at equal misses") && printed("test days"));
    struct buf page = {0};
    read_back("r.html", &page);
    assert_non_null(strstr(page.p, "<svg"));
    assert_null(strstr(page.p, "src=\"http"));
    buf_fini(&page);
    want(0, "sluice evaluate my.yaml --policy hpa --policy 'hpa:gpu=0.5,down_window=10min' --seeds "
            "1 --tune-evals 4 "
            "--no-bounds -q --format csv -o r.csv");
    assert_string_equal(last.out.p, "");
    assert_string_equal(last.err.p, "");
    want(0, "head -1 r.csv");
    assert_string_equal(last.out.p, "scenario,seeds,policy,metric,mean,lo,hi\r\n");
}

TEST(explain_gives_reasons_the_guard_and_what_the_rule_would_have_done)
{
    need_policy();
    want(0, "sluice explain my.yaml --policy p.safetensors --most 3");
    assert_true(printed("why") && printed("guard") && printed("hpa would have asked for"));
    want(0, "sluice explain my.yaml --most 2 --at 2023-11-29T12:00 --rule none --format json");
    struct json_doc *doc = parse_out();
    const struct json *list = json_find(json_root(doc), "decisions"), *first = json_first(list);
    assert_int_equal(json_count(list), 2);
    assert_int_equal(strncmp(json_text(json_find(first, "time")), "2023-11-29T", 11), 0);
    assert_true(json_count(json_find(first, "factors")) > 0 &&
                json_count(json_find(first, "checks")) > 5);
    assert_true(json_is_null(json_find(first, "rule")));
    json_free(doc);
    want(0, "sluice explain my.yaml --format csv --most 2");
    want(1, "sluice explain my.yaml --at 2023-11-20");
    assert_true(said("outside the test days, 2023-11-28T"));
}

TEST(simulate_tune_and_calibrate_print_tables)
{
    need_policy();
    want(0, "sluice simulate my.yaml --policy mpc --test");
    assert_true(printed("total"));
    want(0, "sluice simulate my.yaml --policy p.safetensors --format json");
    json_free(parse_out());
    want(0, "sluice simulate my.yaml --steps --test --format csv");
    assert_int_equal(strncmp(last.out.p, "time,demand_qps,", 16), 0);
    want(0, "sluice tune my.yaml --policy hpa --evals 4");
    const char *paste = strstr(last.out.p, "--policy hpa:gpu=");
    assert_non_null(paste);
    char line[256];
    (void)snprintf(line, sizeof line, "sluice simulate my.yaml %.*s", (int)strcspn(paste, "\n"),
                   paste);
    want(0, line);
    put_file("curve.csv", "load,p50,p99\n1,20,40\n20,21,60\n40,25,120\n60,40,400\n");
    want(0, "sluice calibrate curve.csv --format csv -o calibrated.csv");
    want(0, "sluice simulate my.yaml --set service.curve=calibrated.csv");
}

TEST(config_prints_a_scenario_that_loads_and_where_values_come_from)
{
    need_scenario();
    want(0, "sluice config > all.yaml && sed -e 's/^# name:/name: all/' -e 's/^  # file:/  file: "
            "my.hist/' all.yaml > b.yaml "
            "&& sluice simulate b.yaml --policy static");
    put_file("over.yaml", "service:\n  price_usd_h: 3\n");
    want(0, "sluice config my.yaml -c over.yaml --set step=30s");
    assert_true(printed("price_usd_h: 3  # over.yaml:2") && printed("step: 30s  # --set") &&
                printed("name: my  # my.yaml:1"));
    want(0, "sluice config --markdown");
    assert_true(printed("| `service.slo_p99` | duration | 200ms |"));
}

/* ---- the same bytes ---------------------------------------------------------------------------
 */

TEST(evaluation_prints_the_same_for_one_and_two_threads)
{
    need_short();
    static const char line[] = "sluice evaluate short.yaml -q --policy hpa --policy oracle --seeds 2 "
                               "--tune-evals 4 --format json";
    want(0, test_path("%s --threads 1 -o e1.json", line));
    want(0, test_path("%s --threads 2 -o e2.json", line));
    assert_same_files("e1.json", "e2.json");
}

/* Named without the word that runs it under the thread sanitizer: that takes minutes.  The address sanitizer sees the
 * same code at work in one of the two; unit tests compare the bytes there. */
TEST(training_gives_the_same_file_however_many_cores_work)
{
    need_short();
#ifndef __SANITIZE_ADDRESS__
    want(0, test_path("%s --threads 1 -o p1.safetensors", train_auto));
    want(0, test_path("%s --threads 2 -o p2.safetensors", train_auto));
    assert_same_files("p1.safetensors", "p2.safetensors");
#endif
    want(0, test_path("%s --threads 1 -o q1.safetensors", train_ppo));
    want(0, test_path("%s --threads 2 -o q2.safetensors", train_ppo));
    assert_same_files("q1.safetensors", "q2.safetensors");
}

/* Starts the command and sends SIGINT as soon as it says `cue` on stderr. */
static void interrupt(const char *line, const char *cue)
{
    int status = 0;
    char exec_line[2048];
    struct buf seen = {0};
    (void)snprintf(exec_line, sizeof exec_line, "exec \"$SLUICE\" %s", line + strlen("sluice "));
    pid_t pid = start(exec_line), ended = 0;
    while (!ended) {
        read_back("stderr", &seen);
        if (strstr(seen.p, cue))
            break;
        ended = waitpid(pid, &status, WNOHANG);
        (void)usleep(1000); /* a poll, not a wait for time to pass */
    }
    if (!ended) {
        assert_int_equal(kill(pid, SIGINT), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    buf_fini(&seen);
    finish(status, line);
}

TEST(an_interrupted_training_is_continued_to_the_same_file)
{
    need_short();
    if (!there("q1.safetensors"))
        want(0, test_path("%s -o q1.safetensors", train_ppo));
    interrupt(test_path("%s -v -o qi.safetensors", train_ppo), "step ");
    if (last.status == 0)
        fail_msg("it had ended before it could be interrupted:\n%s", last.err.p);
    assert_true(said("interrupted: saved to qi.safetensors; the same command continues it"));
    want(0, "sluice inspect qi.safetensors");
    assert_true(printed("state                        interrupted"));
    want(1, test_path("%s -o qi.safetensors --seed 9",
                      train_ppo)); /* another run must not be lost or mixed in */
    assert_true(said("holds an unfinished run of another command"));
    want(0, test_path("%s -o qi.safetensors", train_ppo));
    assert_true(printed("continued from an interrupted run"));
    assert_same_files("q1.safetensors", "qi.safetensors");
}

TEST(an_interruption_before_anything_could_be_saved_leaves_nothing_and_starts_anew)
{
    need_short();
    if (!there("p1.safetensors"))
        want(0, test_path("%s -o p1.safetensors", train_auto));
    interrupt("sluice train short.yaml --outlook-samples 1000 --seeds 1 -o pi.safetensors",
              "outlook ...");
    assert_int_equal(last.status, 1);
    assert_true(said("the same command starts anew"));
    assert_false(there("pi.safetensors"));
    assert_int_equal(run("ls | grep -c 'tmp-'"), 1); /* no temporaries left behind */
    want(0, test_path("%s -o pi.safetensors", train_auto));
    assert_same_files("p1.safetensors", "pi.safetensors");
}

TEST(an_interrupted_evaluation_ends_with_1_and_writes_nothing)
{
    need_scenario();
    interrupt("sluice evaluate my.yaml --seeds 2 -o e.json --format json", "tuning hpa");
    assert_int_equal(last.status, 1);
    assert_true(said("interrupted"));
    assert_false(there("e.json"));
}

/* ---- mistakes ---------------------------------------------------------------------------------
 */

/* Each line, its exit code and a part of what it says on stderr; nothing may appear on stdout. */
struct mistake {
    int status;
    const char *line, *text;
};

static void try_all(const struct mistake *m, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        run("%s", m[i].line);
        if (last.status != m[i].status || !said(m[i].text) || last.out.n)
            fail_msg("%s\nended with %d, expected %d and \"%s\"; it said:\n%s%s", m[i].line,
                     last.status, m[i].status, m[i].text, last.err.p, last.out.p);
    }
}

TEST(wrong_usage_ends_with_2_and_says_what_is_meant)
{
    static const struct mistake list[] = {
        {2, "sluice", "Usage: sluice COMMAND"},
        {2, "sluice evalute", "unknown command evalute; did you mean evaluate?"},
        {2, "sluice help nothing", "unknown command nothing"},
        {2, "sluice evaluate", "missing argument: expected SCENARIO"},
        {2, "sluice evaluate my.yaml other.yaml", "unexpected argument other.yaml"},
        {2, "sluice evaluate my.yaml --polcy hpa",
         "unknown option --polcy; did you mean --policy?"},
        {2, "sluice evaluate my.yaml --policy hpaa",
         "policy: \"hpaa\" is unknown; did you mean \"hpa\"?"},
        {2, "sluice evaluate my.yaml --policy hpa:gpx=1",
         "policy hpa has no option \"gpx\"; it has gpu"},
        {2, "sluice evaluate my.yaml --policy hpa:gpu=7", "policy hpa: gpu: 7: above 2"},
        {2, "sluice evaluate my.yaml --policy my.hist",
         "the name of a policy file ends in .safetensors"},
        {2, "sluice evaluate my.yaml --policy oracle --no-bounds", "oracle needs the bounds"},
        {2, "sluice evaluate my.yaml --seeds 0", "--seeds: 0: below 1"},
        {2, "sluice evaluate my.yaml --format xml", "expected one of table, json, csv"},
        {2, "sluice evaluate my.yaml --set service.untis_max=3",
         "untis_max: unknown key; did you mean units_max?"},
        {2, "sluice evaluate my.yaml --set service.units_max=0",
         "--set service.units_max: 0: below 1"},
        {2, "sluice evaluate my.yaml --set service.slo_p99=5", "5: a unit is required: us, ms, s"},
        {2, "sluice train my.yaml", "needs -o POLICY.safetensors"},
        {2, "sluice train my.yaml -o policy", "needs -o POLICY.safetensors"},
        {2, "sluice train my.yaml --lr 0.1 -o x.safetensors", "--lr goes with --policy ppo"},
        {2, "sluice import csv my.csv", "import needs -o HISTORY"},
        {2, "sluice import xls my.csv -o x.hist",
         "unknown format \"xls\": csv, prometheus, genai, azure-llm"},
        {2, "sluice import csv my.csv -o x.hist --format csv", "import prints table, json only"},
        {2, "sluice import csv my.csv -o x.hist --measure tokens", "measure"},
        {2, "sluice inspect my.hist --set a=1", "--set goes with commands that read settings"},
        {2, "sluice inspect my.hist -c my.yaml", "-c goes with commands that read settings"},
        {2, "sluice explain my.yaml --at noon", "--at noon: expected a time such as"},
        {2, "sluice explain my.yaml --policy oracle", "--policy oracle"},
        {2, "sluice tune my.yaml --policy p.safetensors", "name a rule"},
        {2, "sluice completion fish", "expected bash or zsh"},
    };
    need_scenario();
    try_all(list, ARRAY_LEN(list));
}

TEST(config_given_the_settings_of_the_daemon_names_the_command_for_them)
{
    put_file("run.yaml", "cluster: a\npolicy: mpc\nserve: {port: 8091}\n");
    try_all(&(struct mistake){2, "sluice config run.yaml", "settings of the daemon, not a scenario: sluice config run -c run.yaml"}, 1);
    assert_int_equal(run("sluice config run -c run.yaml"), 0);
    assert_non_null(strstr(last.out.p, "8091"));
    put_file("faulty.yaml", "policy: nonsense\n");
    try_all(&(struct mistake){2, "sluice config faulty.yaml", "sluice config run -c faulty.yaml"}, 1);
    put_file("neither.yaml", "nonsense: 1\n");
    try_all(&(struct mistake){1, "sluice config neither.yaml", "neither.yaml:1: nonsense: unknown key"}, 1);
}

TEST(mistakes_in_a_scenario_are_told_with_file_line_and_key)
{
    static const struct {
        const char *yaml, *text;
    } list[] = {
        {"name: x\nhistory:\n  file: my.hist\nservice:\n  slo_p9: 200ms\n",
         "s.yaml:5: service: slo_p9: unknown key"},
        {"name: x\nhistory:\n  file: my.hist\nservice:\n  slo_p99: 200\n",
         "s.yaml:5: service.slo_p99: 200: a unit is required"},
        {"name: x\nhistory:\n  file: my.hist\nservice:\n  slo_p99: 3GiB\n",
         "s.yaml:5: service.slo_p99: 3GiB"},
        {"name: x\nhistory:\n  file: my.hist\nservice:\n  units_max: 0\n",
         "s.yaml:5: service.units_max: 0: below 1"},
        {"name: x\nhistory:\n  file: my.hist\npeak_units: .nan\n", "s.yaml:4: peak_units: .nan"},
        {"name: x\nhistory:\n  file: my.hist\npeak_units: 1e308\n",
         "s.yaml:4: peak_units: 1e308: above 4096"},
        {"name: x\nhistory:\n  file: my.hist\nservice:\n  units_min: 9\n  units_max: 3\n",
         "units_min: 9 is above units_max 3"},
        {"history:\n  file: my.hist\n", "name: required"},
        {"name: x\n", "give either history"},
        {"", "name: required"},
        {"- a\n- b\n", "s.yaml:1: expected a mapping"},
        {"name: [a\n", "s.yaml:"},
        {"name: \xff\xfe\n", "s.yaml:1: not UTF-8 text"},
        {"name: x\nname: y\n", "s.yaml:2"},
        {"name: x\nhistory:\n  file: nothing.hist\n", "open nothing.hist: No such file"},
        {"name: x\nhistory:\n  file: my.csv\n", "my.csv: not a history file"},
        {"name: x\nhistory:\n  file: my.hist\n  options:\n    zone: Europe/Berlin\n",
         "options.zone goes with format and paths"},
        {"name: x\nhistory:\n  format: csv\n  paths: [my.csv]\n  options: {time: time, qps: "
         "requests_per_s, zone: Mars/Base}\n",
         "time zone Mars/Base: not found"},
        {"name: x\ngenerator:\n  kind: chaos\n", "generator.kind"},
    };
    need_scenario();
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        put_file("s.yaml", list[i].yaml);
        try_all(&(struct mistake){1, "sluice simulate s.yaml", list[i].text}, 1);
    }
}

TEST(files_of_the_wrong_kind_are_refused_by_name)
{
    static const struct mistake list[] = {
        {1, "sluice simulate nothing.yaml", "open nothing.yaml: No such file or directory"},
        {1, "sluice simulate .", "Is a directory"},
        {1, "sluice simulate binary", "binary:"},
        {1, "sluice simulate my.hist", "my.hist:"},
        {1, "sluice simulate /dev/zero", "/dev/zero"},
        {1, "sluice inspect nothing", "open nothing: No such file or directory"},
        {1, "sluice inspect binary", "neither a history"},
        {1, "sluice inspect my.yaml", "neither a history"},
        {1, "sluice inspect empty", "neither a history"},
        {1, "sluice forecast binary", "binary: not a history file"},
        {1, "sluice forecast p.safetensors", "not a history file"},
        {1, "sluice forecast cut.hist", "cut.hist"},
        {1, "sluice calibrate binary", "binary"},
        {1, "sluice calibrate my.hist", "units_ready and p99_latency_ms are needed"},
        {1, "sluice import csv empty -o x.hist", "the file is empty"},
        {1, "sluice import csv binary --time time -o x.hist", "binary"},
        {1, "sluice import csv /dev/zero -o x.hist", "/dev/zero"},
        {1, "sluice import csv my.csv --time nowhere --qps requests_per_s -o x.hist",
         "no column \"nowhere\"; there are: time, requests_per_s"},
        {1, "sluice import prometheus qps=my.yaml -o x.hist", "my.yaml"},
        {1, "sluice import csv my.csv --time time --qps requests_per_s --zone Mars/Base -o x.hist",
         "time zone Mars/Base"},
        {1, "sluice simulate my.yaml --policy nothing.safetensors", "open nothing.safetensors"},
        {1, "sluice simulate my.yaml --policy binary.safetensors", "binary.safetensors"},
        {1, "sluice simulate my.yaml --policy cut.safetensors", "cut.safetensors"},
        {1, "sluice simulate my.yaml --policy hist.safetensors", "hist.safetensors"},
        {1, "sluice evaluate my.yaml -q --policy layout.safetensors", "layout"},
    };
    need_policy();
    want(0, "head -c 5000 \"$SLUICE\" > binary && cp binary binary.safetensors && : > empty && "
            "head -c 900 my.hist > cut.hist "
            "&& head -c 900 p.safetensors > cut.safetensors && cp my.hist hist.safetensors");
    /* The hash of the layout with its first digit changed: another version's checkpoint. */
    want(0, "sed 's/\\(\"outlook.layout\":\"\\)[0-9a-f]/\\1g/' p.safetensors > layout.safetensors");
    assert_int_equal(run("cmp -s p.safetensors layout.safetensors"), 1);
    try_all(list, ARRAY_LEN(list));
    assert_false(there("x.hist"));
}

TEST(a_policy_is_never_judged_on_the_days_it_was_trained_on)
{
    need_policy();
    static const struct mistake list[] = {
        {1, "sluice evaluate my.yaml -q --policy p.safetensors --set train_frac=0.3",
         "was trained on days that are tested here"},
    };
    try_all(list, ARRAY_LEN(list));
}

TEST(an_output_that_cannot_be_written_is_told_before_the_work_or_at_its_end)
{
    static const struct mistake list[] = {
        {1, "sluice train my.yaml -o /nonexistent/p.safetensors",
         "write /nonexistent/p.safetensors: create a file in /nonexistent"},
        {1, "sluice evaluate my.yaml -o my.csv/x.json", "my.csv/x.json"},
        {1, "sluice evaluate my.yaml -o .", "Is a directory"},
        {1, "sluice demo -o /nonexistent/report.html", "write /nonexistent/report.html"},
        {1, "sluice config -o /dev/full", "write /dev/full: No space left on device"},
        {1, "sluice simulate my.yaml --policy static -o /dev/full", "write /dev/full"},
        {1, "sluice import csv my.csv --time time --qps requests_per_s -o /dev/full", "/dev/full"},
        {1, "sluice config > /dev/full", "standard output: could not be written"},
        {1, "sluice inspect my.hist > /dev/full", "standard output: could not be written"},
    };
    need_scenario();
    try_all(list, ARRAY_LEN(list));
}

/* ---- odd but possible -------------------------------------------------------------------------
 */

static void put_scenario_of(const char *name, const char *csv)
{
    put_file(test_path("%s.csv", name), csv);
    want(0, test_path("sluice import csv %s.csv --time time --step 1min -o %s.hist", name, name));
    put_file(test_path("%s.yaml", name),
             test_path("name: %s\nhistory:\n  file: %s.hist\n", name, name));
}

TEST(traffic_of_nothing_and_a_single_sample_are_clear_errors)
{
    static const struct mistake list[] = {
        {1, "sluice simulate zero.yaml", "scenario zero: no traffic at all"},
        {1, "sluice evaluate zero.yaml", "scenario zero: no traffic at all"},
        {1, "sluice train zero.yaml -o x.safetensors", "scenario zero: no traffic at all"},
        {1, "sluice simulate one.yaml", "scenario one: the history has 4 steps of 15 s"},
        {1, "sluice train one.yaml -o x.safetensors",
         "scenario one: the history has 4 steps of 15 s"},
        {1, "sluice forecast one.hist --backtest", "too short"},
    };
    struct buf zero = buf_init(1 << 20);
    buf_str(&zero, "time,qps\n");
    for (int i = 0; i < 2 * MINUTES_PER_DAY; i++)
        buf_fmt(&zero, "%d,0\n", 1700438400 + 60 * i);
    put_scenario_of("zero", zero.p);
    put_scenario_of("one", "time,qps\n1700438400,5\n");
    buf_fini(&zero);
    try_all(list, ARRAY_LEN(list));
    want(0, "sluice inspect zero.hist && sluice inspect one.hist");
}

TEST(one_day_is_enough_to_simulate_and_too_little_to_learn_or_backtest)
{
    static const struct mistake list[] = {
        {1, "sluice train day.yaml -q -o x.safetensors", "an outlook needs at least"},
        {1, "sluice forecast day.hist --backtest", "a backtest needs"},
    };
    put_csv("day.csv", 1);
    want(0, "sluice import csv day.csv --time time --qps requests_per_s -o day.hist");
    put_file("day.yaml", "name: day\nhistory:\n  file: day.hist\npeak_units: 8\n");
    want(0, "sluice simulate day.yaml");
    want(0, "sluice evaluate day.yaml --policy hpa --policy mpc --policy oracle --seeds 1 "
            "--tune-evals 4");
    assert_true(printed("1 test day"));
    want(0, "sluice explain day.yaml --most 1");
    want(0, "sluice forecast day.hist");
    assert_true(printed("not usable"));
    want(0, "sluice simulate day.yaml --set service.units_min=0 --set service.units_max=1");
    try_all(list, ARRAY_LEN(list));
}

/* ---- texts ------------------------------------------------------------------------------------
 */

TEST(results_go_to_stdout_and_everything_else_to_stderr)
{
    need_scenario();
    want(0,
         "sluice evaluate my.yaml --policy hpa --seeds 1 --tune-evals 4 --no-bounds --format json");
    json_free(parse_out());
    assert_true(said("tuning hpa"));
    want(0, "sluice evaluate my.yaml --policy hpa --seeds 1 --tune-evals 4 --no-bounds --format "
            "json -q");
    json_free(parse_out());
    assert_string_equal(last.err.p, "");
    want(0, "TERM=xterm sluice evaluate my.yaml --policy hpa --seeds 1 --tune-evals 4 --no-bounds");
    assert_null(strchr(last.out.p, '\033')); /* not a terminal: no colour */
    assert_null(strchr(last.err.p, '\033'));
}

TEST(help_of_every_command_fits_a_screen_and_man_and_completion_are_well_formed)
{
    static const char *const commands[] = {"demo",      "import",   "inspect", "forecast",
                                           "calibrate", "simulate", "tune",    "train",
                                           "evaluate",  "explain",  "config",  "decisions",
                                           "report",    "promote",  "run",     "freeze",
                                           "unfreeze",  "release",  "override", "doctor",
                                           "metrics",   "gpus"};
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        want(0, test_path("sluice %s --help", commands[i]));
        for (const char *p = last.out.p; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n'))
            if (strcspn(p, "\n") > 120)
                fail_msg("%s --help: a line of %zu columns:\n%.*s", commands[i], strcspn(p, "\n"),
                         (int)strcspn(p, "\n"), p);
    }
    want(0, "sluice --help && sluice version");
    want(0, "sluice completion bash > done.bash && bash -c 'set -e; . ./done.bash'");
    want(0, "sluice man > sluice.1");
    if (run("command -v man > man-is || exit 1") == 0) { /* a machine without it cannot judge the page */
        want(0, "man -l -Tutf8 --warnings sluice.1 > man.txt");
        assert_string_equal(last.err.p, "");
    }
}

/* ---- real data --------------------------------------------------------------------------------
 */

TEST(real_series_are_imported_with_the_documented_flags)
{
    const char *dir = test_data_dir();
    char *full = realpath(dir, NULL);
    assert_non_null(full);
    want(0, test_path("sluice import csv --time ts --qps requests --per-step qps --zone "
                      "America/New_York --zero-gap 1h "
                      "'%s/autoscale-qps/nasa_jul95_1m.csv' -o n.hist && sluice inspect n.hist && "
                      "sluice forecast n.hist --backtest --format json > n.json",
                      full));
    assert_true(printed("27.56 days"));
    want(0,
         test_path(
             "sluice import genai --undo-time-scale '%s/genai' -o g.hist && sluice inspect g.hist",
             full));
    want(0, "sluice calibrate g.hist --slo-p99 60s");
    want(0, test_path(
                "sluice import azure-llm '%s/azure-llm/AzureLLMInferenceTrace_code.csv' -o z.hist",
                full));
    want(0, test_path("sluice import prometheus "
                      "'qps=%s/prometheus/api/live_2.42/range_rate_by_code.json' -o m.hist",
                      full));
    want(1, test_path("sluice import prometheus "
                      "'qps=%s/prometheus/api/live_2.42/error_timeout.json' -o m2.hist",
                      full));
    assert_true(said("the server answered timeout"));
    free(full);
}
