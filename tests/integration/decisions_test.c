/* decisions_test.c - the records of a daemon as people ask for them: decisions list, show and
 * replay, evaluate
 * --from-store, inspect.  Runs the program of the same build over a store made here. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "tests/unit/daemon/record_fixture.h"

enum { OUT_MAX = 8 << 20, STEPS = 1500 };

static struct {
    int status;
    struct buf out;
} last;

/* Both outputs together. */
static int run(const char *fmt, ...) PRINTF_LIKE(1, 2);
static int run(const char *fmt, ...)
{
    char line[2048], args[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    (void)snprintf(line, sizeof line, "cd '%s' && SLUICE_STATE_DIR=. NO_COLOR=1 '%s' %s 2>&1",
                   test_tmp_dir(), test_program(), args);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    buf_fini(&last.out);
    last.out = buf_init(OUT_MAX);
    for (size_t n; (n = fread(buf_room(&last.out, 4096), 1, 4096, f)) > 0;)
        buf_grew(&last.out, n);
    buf_char(&last.out, '\0');
    int how = pclose(f);
    last.status = WIFEXITED(how) ? WEXITSTATUS(how) : 128;
    if (last.status > 2 || strstr(last.out.p, "Sanitizer") || strstr(last.out.p, "runtime error"))
        fail_msg("%s: ended with %d:\n%s", args, last.status, last.out.p);
    return last.status;
}

static void expect(int status, const char *text, const char *args)
{
    if (run("%s", args) != status)
        fail_msg("%s: ended with %d, expected %d:\n%s", args, last.status, status, last.out.p);
    if (!strstr(last.out.p, text))
        fail_msg("%s: lacks \"%s\":\n%s", args, text, last.out.p);
}

/* The store the commands find: ./sluice.db, made once. */
static void some_records(void)
{
    static bool made;
    struct err e;
    if (made)
        return;
    made = true;
    struct fix *f = fix_new("sluice.db", "mpc");
    assert_ok(store_begin(f->store, &e), &e);
    for (int i = 0; i < STEPS; i++) {
        struct store_sample x = {.target_id = f->target_id};
        fix_step(f);
        x.time_us = f->now_us;
        memcpy(x.value, f->view.value, sizeof x.value);
        assert_ok(store_put_sample(f->store, &x, &e), &e);
        if (i == 30) {
            struct store_note n = {.time_us = f->now_us,
                                   .kind = STORE_NOTE_OVERRIDE,
                                   .target_id = f->target_id,
                                   .author = "ann",
                                   .text = "sale",
                                   .until_us = f->now_us + 3600000000};
            assert_ok(store_put_note(f->store, &n, &e), &e);
        }
        if (f->plan.changed)
            assert_ok(
                store_set_action(f->store, f->id, STORE_DONE, f->now_us + 700000, "scaled", &e),
                &e);
    }
    assert_ok(store_commit(f->store, &e), &e);
    fix_free(f);
}

static struct json_doc *json_of(const char *args)
{
    struct json_doc *doc;
    struct err e;
    if (run("%s", args) != 0)
        fail_msg("%s: %s", args, last.out.p);
    assert_ok(json_parse(last.out.p, strlen(last.out.p), OUT_MAX, "output", &doc, &e), &e);
    return doc;
}

TEST(decisions_are_listed_newest_first_and_by_what_is_asked)
{
    some_records();
    struct json_doc *doc = json_of("decisions list --format json --limit 7");
    const struct json *first = json_first(json_root(doc));
    assert_int_equal(json_count(json_root(doc)), 7);
    assert_near(json_number(json_find(first, "id")), STEPS, 0, 0);
    assert_string_equal(json_text(json_find(first, "target")), "shop/search");
    json_free(doc);
    doc = json_of("decisions list --format json --acted --limit 0");
    for (const struct json *d = json_first(json_root(doc)); d; d = json_next(d))
        assert_string_equal(json_text(json_find(d, "action")), "done");
    assert_true(json_count(json_root(doc)) > 10);
    json_free(doc);
    doc = json_of("decisions list --format json --since 10min --limit 0");
    assert_int_equal(json_count(json_root(doc)), 41);
    json_free(doc);
    doc = json_of("decisions list --format json --until 2024-03-04T00:01:00Z --limit 0");
    assert_int_equal(json_count(json_root(doc)), 3);
    json_free(doc);
    expect(0, "times are UTC", "decisions list");
    expect(0, "no decisions of this kind", "decisions list --verdict veto --acted");
    expect(0, "shop/search",
           "decisions list --target shop/search --verdict clamp --timezone Europe/Berlin");
}

TEST(a_decision_is_shown_with_reasons_guard_rules_and_outcome)
{
    some_records();
    struct json_doc *doc = json_of("decisions list --format json --acted --limit 1");
    int id = (int)json_number(json_find(json_first(json_root(doc)), "id"));
    json_free(doc);
    assert_int_equal(run("decisions show %d", id), 0);
    static const char *const parts[] = {"  why ",
                                        "  guard ",
                                        "  rules  hpa would have",
                                        "action  done, ",
                                        ": scaled",
                                        "target  shop/search (Deployment, cluster test)",
                                        "stage single, by replica-0"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (!strstr(last.out.p, parts[i]))
            fail_msg("lacks \"%s\":\n%s", parts[i], last.out.p);
    expect(0, "name: mpc", test_path("decisions show %d --full", id));
    doc = json_of(test_path("decisions show %d --format json", id));
    assert_near(json_number(json_find(json_root(doc), "id")), id, 0, 0);
    assert_int_equal(json_count(json_find(json_root(doc), "observation")), CAPACITY_OBS);
    assert_string_equal(json_text(json_find(json_find(json_root(doc), "action"), "outcome")),
                        "scaled");
    assert_int_equal(
        json_count(json_find(json_first(json_find(json_root(doc), "reasons")), "checks")),
        GUARD_CHECKS);
    json_free(doc);
    expect(0, "time,policy", "decisions show 1 --format csv");
}

TEST(a_decision_without_any_sample_says_so_instead_of_an_age)
{
    struct fix *f = fix_new("blind.db", "mpc");
    struct rng rng = f->rng;
    struct err e;
    f->now_us += FIX_STEP_US;
    fix_view(f);
    f->view.sample_us = 0;
    decide_capacity(&f->cfg, &f->view, &f->before, &f->rng, &f->after, &f->plan, &f->record);
    struct record_input in = fix_input(f, &rng);
    assert_ok(record_put(f->rec, &f->stream, &in, &f->id, &e), &e);
    fix_free(f);
    expect(0, "sample age s       no sample", "decisions show 1 --full --store blind.db");
    if (!strstr(last.out.p, "there is no complete sample yet"))
        fail_msg("no reason:\n%s", last.out.p);
}

TEST(replay_says_the_same_bits_and_fails_when_one_differs)
{
    some_records();
    if (run("decisions replay 1") && strstr(last.out.p, "another build")) {
        print_message("skipped: the program is of another build than this test; make both\n");
        skip();
    }
    expect(0, "1500  the same bits", "decisions replay --all");
    expect(0, "1  the same bits", "decisions replay 777");
    expect(0, "the same bits", "decisions replay --since 1h");
    struct json_doc *doc = json_of("decisions replay --all --format json");
    assert_near(json_number(json_find(json_root(doc), "same")), STEPS, 0, 0);
    assert_true(json_is_bool(json_find(json_root(doc), "passed")));
    json_free(doc);
    char copy[600];
    (void)snprintf(copy, sizeof copy, "cp '%s/sluice.db' '%s/edited.db'", test_tmp_dir(),
                   test_tmp_dir());
    assert_int_equal(system(copy), 0);
    struct store *s;
    struct err e;
    struct store_opts o = store_opts_default(test_path("%s/edited.db", test_tmp_dir()));
    assert_ok(store_open(&o, &s, &e), &e);
    assert_ok(
        store_exec(s, "UPDATE decisions SET executed = executed + 1 WHERE id = 100", "edit", &e),
        &e);
    store_close(s);
    expect(1, "1 of 1500 decisions come out different now",
           "decisions replay --all --store edited.db");
    expect(1, "decision 100  2024-03-04T00:25:00Z  shop/search  different: executed",
           "decisions replay --all --store edited.db");
}

TEST(the_recorded_past_is_compared_with_policies_and_said_to_be_short)
{
    some_records();
    expect(0, "recorded", "evaluate --from-store --seeds 1 --no-bounds --policy mpc -q");
    expect(0, "report-only", "evaluate --from-store --seeds 1 --no-bounds --policy mpc -q");
    expect(0, "note: measured live: ",
           "evaluate --from-store --target shop/search --seeds 1 --no-bounds --policy mpc -q");
    expect(1, "an hour is the least", "evaluate --from-store --since 30min -q");
    expect(0, "recorded",
           "evaluate --from-store --seeds 1 --no-bounds --policy mpc -q --set "
           "service.price_usd_h=9 --set "
           "service.units_max=5");
    expect(2, "step is that of the records", "evaluate --from-store --set step=30s -q");
}

TEST(notes_tell_who_did_what)
{
    some_records();
    struct json_doc *doc = json_of("decisions notes --format json");
    const struct json *n = json_first(json_root(doc));
    assert_int_equal(json_count(json_root(doc)), 1);
    assert_string_equal(json_text(json_find(n, "kind")), "override");
    assert_string_equal(json_text(json_find(n, "author")), "ann");
    assert_string_equal(json_text(json_find(n, "target")), "shop/search");
    assert_string_equal(json_text(json_find(n, "until")), "2024-03-04T01:07:45Z");
    json_free(doc);
    expect(0, "no notes of this time", "decisions notes --since 1h");
}

TEST(a_store_is_inspected)
{
    some_records();
    expect(0, "decisions    1500", "inspect sluice.db");
    struct json_doc *doc = json_of("inspect sluice.db --format json");
    assert_near(json_number(json_find(json_root(doc), "samples")), STEPS, 0, 0);
    json_free(doc);
}

TEST(what_is_asked_wrongly_is_answered_with_what_to_do)
{
    some_records();
    static const struct {
        int status;
        const char *args, *text;
    } cases[] = {
        {2, "decisions", "decisions"},
        {2, "decisions list extra", "takes no more words"},
        {2, "decisions shew 1", "there are list, show ID, replay and notes"},
        {2, "decisions notes extra", "takes no more words"},
        {2, "decisions show", "which one?"},
        {2, "decisions show one", "expected the number of a decision"},
        {2, "decisions show -- -1", "expected the number of a decision"},
        {1, "decisions show 4711", "has the decisions 1 to 1500"},
        {2, "decisions replay", "which ones?"},
        {1, "decisions replay 4711", "has the decisions 1 to 1500"},
        {1, "decisions replay --target cats", "no target cats; there are shop/search"},
        {1, "decisions list --target cats", "no target cats; there are shop/search"},
        {1, "decisions list --target shop/cats --format json", "no target shop/cats; there are shop/search"},
        {1, "decisions notes --target cats", "no target cats; there are shop/search"},
        {1, "report --target cats", "no target cats; there are shop/search"},
        {2, "decisions replay --all --format csv", "table or json"},
        {2, "decisions list --since yesterday", "expected a span before the newest decision"},
        {2, "decisions list --since 0s", "not a span to look back"},
        {2, "decisions list --verdict maybe", "verdict"},
        {1, "decisions list --timezone Mars/Base", "Mars/Base"},
        {1, "decisions list --store absent.db", "no store at absent.db"},
        {1, "decisions list --store .", "not a regular file"},
        {2, "evaluate", "missing argument: expected SCENARIO, or --from-store"},
        {2, "evaluate x.yaml --from-store", "not both"},
        {1, "evaluate --from-store --target cats", "no target cats"},
        {1, "evaluate --from-store --store absent.db", "no store at absent.db"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(cases[i].status, cases[i].text, cases[i].args);
}
