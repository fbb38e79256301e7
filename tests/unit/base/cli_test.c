#include "base/cli.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/support/test.h"

struct eval_opts {
    struct opt_strings policies;
    int64_t seeds;
    bool backtest;
    bool bounds;
    int64_t since_us;
    double max_bad;
};

static const struct opt_row eval_rows[] = {
    OPT_STRINGS(struct eval_opts, policies, "policy", "hpa", "a policy to compare", .metavar = "NAME"),
    OPT_INT(struct eval_opts, seeds, "seeds", "5", "1", "1000", "replications", .letter = 'n'),
    OPT_BOOL(struct eval_opts, backtest, "backtest", "false", "measure on the past"),
    OPT_BOOL(struct eval_opts, bounds, "bounds", "true", "compute bounds"),
    OPT_DURATION(struct eval_opts, since_us, "since", "7d", "1h", NULL, "how far back"),
    OPT_DOUBLE(struct eval_opts, max_bad, "max_bad", "0.1", "0", "1",
               "a help text that is so long that it does not fit beside its option on a line of a hundred columns"),
};
static const struct opt_table eval_table = OPT_TABLE("evaluate", struct eval_opts, eval_rows, "Options.");

static enum err_code run_eval(struct cli_ctx *c, struct err *e)
{
    if (c->n_args && strcmp(c->args[0], "broken") == 0)
        return err_set(e, ERR_IO, "open broken: no such scenario");
    if (c->n_args && strcmp(c->args[0], "hostile") == 0)
        return err_set(e, ERR_PARSE, "a\x1b[31mb");
    if (c->n_args && strcmp(c->args[0], "stop") == 0)
        return err_set(e, ERR_INTERRUPTED, "interrupted");
    return ERR_OK;
}

static const struct cli_cmd cmds[] = {
    {.name = "evaluate", .summary = "compare policies", .args = "SCENARIO", .min_args = 1, .max_args = 1,
     .opts = &eval_table, .config = &eval_table, .run = run_eval, .help = "It compares.\n.Dot - first."},
    {.name = "demo", .summary = "the whole story", .formats = 1u << CLI_TABLE | 1u << CLI_JSON, .run = run_eval},
    {.name = "internal", .summary = "not shown", .run = run_eval, .hidden = true},
};
static const struct cli_app app = {
    .name = "tool", .version = "1.2", .summary = "does things", .cmds = cmds, .n_cmds = ARRAY_LEN(cmds)};

struct run {
    struct cli_ctx c;
    struct err e;
    bool help;
    enum err_code rc;
    char text[512];
    char *argv[40];
    int argc;
};

/* Words are separated by blanks. */
static void parse(struct run *r, const struct cli_cmd *cmd, const char *line)
{
    (void)snprintf(r->text, sizeof r->text, "%s", line);
    r->argc = 0;
    for (char *word = strtok(r->text, " "); word; word = strtok(NULL, " "))
        r->argv[r->argc++] = word;
    r->rc = cli_parse(&app, cmd, r->argc, r->argv, &r->c, &r->help, &r->e);
}

TEST(command_line_fills_options_arguments_and_common_settings)
{
    struct run r;
    parse(&r, &cmds[0], "-c a.yaml s.yaml --policy hpa:x=1,y=2 --set a=1 --policy=mpc -n 7 --set b=2,3 --seed 42 "
                        "--threads 3 --format json -oout.html -vv -q --backtest --no-bounds --since 36h");
    assert_ok(r.rc, &r.e);
    const struct eval_opts *o = r.c.opts;
    assert_int_equal(o->policies.n, 2);
    assert_string_equal(o->policies.items[0], "hpa:x=1,y=2");
    assert_string_equal(o->policies.items[1], "mpc");
    assert_int_equal(o->seeds, 7);
    assert_true(o->backtest);
    assert_false(o->bounds);
    assert_int_equal(o->since_us, 36 * INT64_C(3600000000));
    assert_string_equal(r.c.config, "a.yaml");
    assert_int_equal(r.c.n_sets, 2);
    assert_string_equal(r.c.sets[1], "b=2,3");
    assert_int_equal(r.c.seed, 42);
    assert_true(r.c.seed_given && r.c.format_given);
    assert_int_equal(r.c.threads, 3);
    assert_int_equal(r.c.format, CLI_JSON);
    assert_string_equal(r.c.output, "out.html");
    assert_int_equal(r.c.verbosity, 1);
    assert_int_equal(r.c.n_args, 1);
    assert_string_equal(r.c.args[0], "s.yaml");
    cli_fini(&r.c);
}

TEST(command_line_defaults_hold_when_nothing_is_given)
{
    struct run r;
    parse(&r, &cmds[0], "s.yaml");
    assert_ok(r.rc, &r.e);
    const struct eval_opts *o = r.c.opts;
    assert_int_equal(o->policies.n, 1);
    assert_string_equal(o->policies.items[0], "hpa");
    assert_true(o->bounds);
    assert_int_equal(r.c.seed, 1);
    assert_false(r.c.seed_given || r.c.format_given);
    assert_in_range(r.c.threads, 1, 256);
    assert_int_equal(r.c.format, CLI_TABLE);
    assert_null(r.c.output);
    cli_fini(&r.c);
}

TEST(double_dash_ends_options_and_a_single_dash_is_an_argument)
{
    struct run r;
    parse(&r, &cmds[0], "-- --policy");
    assert_ok(r.rc, &r.e);
    assert_string_equal(r.c.args[0], "--policy");
    cli_fini(&r.c);
    parse(&r, &cmds[0], "-");
    assert_ok(r.rc, &r.e);
    assert_string_equal(r.c.args[0], "-");
    cli_fini(&r.c);
}

TEST(dashes_and_underscores_in_option_names_are_the_same)
{
    static const char *const lines[] = {"s.yaml --max_bad 0.5", "s.yaml --max-bad=0.5"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct run r;
        parse(&r, &cmds[0], lines[i]);
        assert_ok(r.rc, &r.e);
        assert_near(((const struct eval_opts *)r.c.opts)->max_bad, 0.5, 0, 0);
        cli_fini(&r.c);
    }
}

TEST(common_options_without_a_use_are_refused_not_ignored)
{
    static const struct {
        const char *line, *want;
    } cases[] = {
        {"-c a.yaml", "-c goes with commands that read settings; demo has none"},
        {"--set a=1", "--set goes with commands that read settings; demo has none"},
        {"--format csv", "--format: csv: demo prints table, json only"},
        {"--format json", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run r = {.rc = ERR_OK};
        parse(&r, &cmds[1], cases[i].line);
        if (cases[i].want)
            assert_err(r.rc, ERR_USAGE, &r.e, cases[i].want);
        else
            assert_ok(r.rc, &r.e);
        cli_fini(&r.c);
    }
}

TEST(help_is_asked_for_even_when_arguments_are_missing)
{
    struct run r;
    parse(&r, &cmds[0], "--help");
    assert_ok(r.rc, &r.e);
    assert_true(r.help);
    cli_fini(&r.c);
}

TEST(usage_mistakes_say_what_is_wrong)
{
    static const struct {
        const char *line, *want;
    } cases[] = {
        {"", "missing argument: expected SCENARIO"},
        {"a b", "unexpected argument b: expected SCENARIO"},
        {"a --polcy x", "unknown option --polcy; did you mean --policy?"},
        {"a --thread 3", "unknown option --thread; did you mean --threads?"},
        {"a --zzzzzzzzzz", "unknown option --zzzzzzzzzz; see --help"},
        {"a -x", "unknown option -x"},
        {"a --policy", "--policy needs a value: NAME"},
        {"a -n", "--seeds needs a value"},
        {"a -n many", "--seeds: many: expected an integer"},
        {"a --seeds=0", "--seeds: 0: below 1"},
        {"a --since 5", "--since: 5: a unit is required"},
        {"a --format xml", "--format: xml: expected one of table, json, csv"},
        {"a --threads 1000", "--threads: 1000: above 256"},
        {"a --seed -1", "--seed: -1: below 0"},
        {"a --quiet=1", "--quiet takes no value"},
        {"a --no-bounds=1", "--no-bounds takes no value"},
        {"a --no-seeds", "unknown option --no-seeds"},
        {"a --backtest=maybe", "--backtest: maybe: expected true or false"},
        {"a --max_bad 2", "--max-bad: 2: above 1"},
        {"a --max_bda 2", "unknown option --max_bda; did you mean --max-bad?"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run r = {.rc = ERR_OK};
        parse(&r, &cmds[0], cases[i].line);
        assert_err(r.rc, ERR_USAGE, &r.e, cases[i].want);
        cli_fini(&r.c);
    }
}

/* Runs the program with its output in a file; returns the exit code. */
static int run_main(const char *line, struct buf *out)
{
    char text[256];
    char *argv[20] = {"tool"};
    int argc = 1;
    (void)snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    const char *path = test_path("%s/out", test_tmp_dir());
    (void)fflush(NULL);
    int keep1 = dup(1), keep2 = dup(2);
    assert_non_null(freopen(path, "w", stdout));
    assert_int_equal(dup2(1, 2), 2);
    int status = cli_main(&app, argc, argv);
    (void)fflush(NULL);
    assert_int_equal(dup2(keep1, 1), 1);
    assert_int_equal(dup2(keep2, 2), 2);
    (void)close(keep1);
    (void)close(keep2);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    *out = buf_init(1 << 20);
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        buf_add(out, chunk, n);
    (void)fclose(f);
    return status;
}

TEST(program_exits_0_when_done_1_when_failed_2_on_usage)
{
    static const struct {
        const char *line;
        int status;
        const char *want;
    } cases[] = {
        {"demo", 0, ""},
        {"demo -o /dev/null/x", 1, "tool demo: write /dev/null/x"},
        {"demo -o /nonexistent/x", 1, "create a file in /nonexistent: No such file or directory"},
        {"demo -o /", 1, "write /: Is a directory"},
        {"evaluate /etc/passwd -o /etc/../etc/passwd", 2, "-o /etc/../etc/passwd: would replace what is read"},
        {"demo --output=", 2, "-o: empty file name"},
        {"evaluate hostile", 1, "tool evaluate: a?[31mb\n"},
        {"evaluate broken", 1, "tool evaluate: open broken: no such scenario"},
        {"evaluate stop", 1, "tool evaluate: interrupted"},
        {"evaluate", 2, "See tool evaluate --help."},
        {"", 2, "Usage: tool COMMAND"},
        {"evalute", 2, "unknown command evalute; did you mean evaluate?"},
        {"qqqqqq", 2, "see tool --help"},
        {"--help", 0, "compare policies"},
        {"help", 0, "compare policies"},
        {"help evaluate", 0, "--policy NAME"},
        {"help evalute", 2, "did you mean evaluate?"},
        {"evaluate --help", 0, "Usage: tool evaluate [OPTIONS] SCENARIO"},
        {"--version", 0, "tool 1.2"},
        {"man", 0, ".TH TOOL 1"},
        {"completion bash", 0, "complete -F _tool tool"},
        {"completion zsh", 0, "#compdef tool"},
        {"completion fish", 2, "expected bash or zsh"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf out;
        int status = run_main(cases[i].line, &out);
        if (status != cases[i].status || !strstr(out.p, cases[i].want))
            fail_msg("\"%s\": exit %d, printed:\n%s", cases[i].line, status, out.p);
        buf_fini(&out);
    }
}

TEST(a_closed_stream_is_replaced_and_its_number_never_goes_to_a_file)
{
    for (int closed = 0; closed <= 2; closed++) {
        (void)fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            char *argv[] = {"tool", "demo", NULL};
            (void)close(closed);
            int status = cli_main(&app, 2, argv), fd = open("/dev/null", O_RDONLY);
            _exit(status == 0 && fd > 2 && write(closed, "x", 1) == (closed == 0 ? 1 : -1) ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

TEST(command_help_shows_options_defaults_and_settings)
{
    struct buf out = buf_init(1 << 16);
    cli_write_cmd_help(&app, &cmds[0], &out);
    static const char *const want[] = {
        "  --policy NAME               a policy to compare (default hpa; repeatable)\n",
        "  -n, --seeds N               replications (default 5; 1 to 1000)\n",
        "  --backtest                  measure on the past\n",
        "  --bounds                    compute bounds (on; --no-bounds turns it off)\n",
        "  -c, --config FILE ",
        "  --max-bad X                 a help text that is so long that it does not fit beside its option on\n"
        "                              a line of a hundred columns (default 0.1; 0 to 1)\n",
        "  --format NAME               form of the result (default table; one of table, json, csv)\n",
        "-c FILE and --set KEY=VALUE change keys of the evaluate; \"tool man\" lists them.\n",
        "It compares.\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        if (!strstr(out.p, want[i]))
            fail_msg("\"%s\" is not in:\n%s", want[i], out.p);
    }
    buf_clear(&out);
    cli_write_cmd_help(&app, &cmds[1], &out); /* takes no settings and prints no csv */
    assert_null(strstr(out.p, "--config"));
    assert_null(strstr(out.p, "--set"));
    assert_non_null(strstr(out.p, "(default table; one of table, json)\n"));
    const struct cli_app with = {.name = "tool", .cmds = cmds, .n_cmds = ARRAY_LEN(cmds), .settings = "config"};
    buf_clear(&out);
    cli_write_cmd_help(&with, &cmds[0], &out);
    assert_non_null(strstr(out.p, "are the settings of `tool evaluate`; \"tool config evaluate\" lists them.\n"));
    buf_clear(&out);
    cli_write_help(&app, &out);
    assert_null(strstr(out.p, "internal"));
    buf_fini(&out);
}

TEST(man_page_protects_dashes_and_leading_dots)
{
    struct buf out = buf_init(1 << 16);
    cli_write_man(&app, &out);
    assert_non_null(strstr(out.p, "\n\\&.Dot \\- first."));
    assert_non_null(strstr(out.p, "\\-\\-policy NAME"));
    assert_non_null(strstr(out.p, ".SH SETTINGS\nKeys of the evaluate:"));
    assert_null(strstr(out.p, "internal"));
    buf_fini(&out);
}

static void shell_accepts(const char *shell, const char *text)
{
    const char *path = test_path("%s/completion", test_tmp_dir());
    test_write_file(path, text, strlen(text));
    assert_int_equal(system(test_path("%s -n '%s'", shell, path)), 0);
}

TEST(bash_completion_is_valid_and_offers_commands_options_and_choices)
{
    struct buf out = buf_init(1 << 16);
    cli_write_completion_bash(&app, &out);
    shell_accepts("bash", out.p);
    buf_str(&out, "try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _tool 2>/dev/null; echo \"${COMPREPLY[*]}\"; }\n"
                  "[ \"$(try tool ev)\" = evaluate ] && [ \"$(try tool evaluate --pol)\" = --policy ] &&\n"
                  "[ \"$(try tool evaluate --format j)\" = json ] && [ \"$(try tool evaluate --set see)\" = seeds= ]\n");
    const char *path = test_path("%s/try.bash", test_tmp_dir());
    test_write_file(path, out.p, out.n);
    assert_int_equal(system(test_path("bash '%s'", path)), 0);
    buf_fini(&out);
}

TEST(output_goes_to_the_file_or_fails_with_its_name)
{
    struct err e;
    struct buf text = buf_init(100);
    buf_str(&text, "result\n");
    struct cli_ctx c = {.output = test_path("%s/result", test_tmp_dir())};
    assert_ok(cli_output(&c, &text, &e), &e);
    assert_int_equal(access(c.output, R_OK), 0);
    c.output = "/dev/full";
    assert_err(cli_output(&c, &text, &e), ERR_IO, &e, "/dev/full");
    buf_pad(&text, 'x', 200);
    assert_err(cli_output(&c, &text, &e), ERR_LIMIT, &e, "more than 100 bytes");
    buf_fini(&text);
}
