/* cli.c - parsing and running.  Texts made from the tables are in cli_text.c. */
#include "base/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli_priv.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/signal.h"
#include "base/thread.h"
#include "base/utf8.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, ARGS_MAX = 10000 };

static const char *const format_names[] = {
    [CLI_TABLE] = "table", [CLI_JSON] = "json", [CLI_CSV] = "csv", NULL};

static const struct opt_row common_rows[] = {
    OPT_STRING(struct cli_common, config, "config", NULL, "settings from this YAML file", .letter = 'c',
               .metavar = "FILE"),
    OPT_STRINGS(struct cli_common, sets, "set", "", "one setting; wins over the file",
                .metavar = "KEY=VALUE"),
    OPT_INT(struct cli_common, seed, "seed", "1", "0", NULL, "seed of all random numbers"),
    OPT_INT(struct cli_common, threads, "threads", "0", "0", "256", "threads; 0 is one per CPU"),
    OPT_ENUM(struct cli_common, format, "format", "table", format_names, "form of the result"),
    OPT_STRING(struct cli_common, output, "output", NULL, "write the result to this file", .letter = 'o',
               .metavar = "FILE"),
    OPT_BOOL(struct cli_common, quiet, "quiet", "false", "errors only", .letter = 'q'),
    OPT_BOOL(struct cli_common, verbose, "verbose", "false", "say more; twice for debugging",
             .letter = 'v'),
    OPT_BOOL(struct cli_common, help, "help", "false", "show this help", .letter = 'h'),
};

const struct opt_table cli_common_table =
    OPT_TABLE("common", struct cli_common, common_rows, "Options of every command.");

struct parser {
    const struct cli_cmd *cmd;
    struct cli_ctx *c;
    struct cli_common *common;
    bool *want_help;
    bool *listed; /* [rows] of the command: a list option was seen, so the default is gone */
    int argc, at;
    char **argv;
};

/* ---- options --------------------------------------------------------------------------------- */

/* Option tables that double as config use '_', command lines '-': both spellings are understood. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && (*a == *b || (strchr("-_", *a) && strchr("-_", *b) && *b)); a++)
        b++;
    return *a == *b;
}

static const char *option_name(size_t i, const void *arg)
{
    const struct cli_cmd *cmd = arg;
    size_t own = cmd->opts ? cmd->opts->n : 0;
    if (i < own)
        return cmd->opts->rows[i].name;
    return i - own < cli_common_table.n ? cli_common_table.rows[i - own].name : NULL;
}

static enum err_code unknown_option(const struct parser *p, const char *text, struct err *e)
{
    const char *name = text + strspn(text, "-");
    char word[64];
    size_t n = strcspn(name, "=");
    (void)snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), name);
    const char *near = n > 1 ? opt_nearest(word, option_name, p->cmd) : NULL;
    char shown[64];
    if (near)
        return err_set(e, ERR_USAGE, "unknown option %.60s; did you mean --%s?", text,
                       cli_dashed(near, shown));
    return err_set(e, ERR_USAGE, "unknown option %.60s; see --help", text);
}

/* The row and the struct it belongs to: the command's options first. */
static const struct opt_row *find_row(const struct parser *p, const char *name, char letter, void **dst)
{
    const struct opt_table *tables[] = {p->cmd->opts, &cli_common_table};
    void *const into[] = {p->c->opts, p->common};
    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        for (size_t i = 0; tables[t] && i < tables[t]->n; i++) {
            const struct opt_row *row = &tables[t]->rows[i];
            if (name ? same_name(row->name, name) : row->letter == letter) {
                *dst = into[t];
                return row;
            }
        }
    }
    return NULL;
}

static bool note_switch(struct parser *p, const struct opt_row *row, void *dst)
{
    if (dst != p->common || row->type != OPT_TYPE_BOOL)
        return false;
    if (row->letter == 'h')
        *p->want_help = true;
    else
        p->c->verbosity += row->letter == 'v' ? 1 : -1;
    return true;
}

static enum err_code store(struct parser *p, const struct opt_row *row, void *dst, const char *text,
                           struct err *e)
{
    bool append = true;
    if (dst == p->c->opts && p->cmd->opts) {
        bool *seen = &p->listed[row - p->cmd->opts->rows];
        append = *seen;
        *seen = true;
        if (!append && row->type == OPT_TYPE_STRINGS) {
            enum err_code rc = opt_set_row(row, dst, "", false, e);
            if (rc)
                return rc;
            append = true; /* one element, commas and all */
        }
    }
    enum err_code rc = opt_set_row(row, dst, text, append, e);
    char shown[64];
    if (rc && e) {
        (void)err_wrap(e, "--%s", cli_dashed(row->name, shown));
        e->code = ERR_USAGE;
    }
    p->c->seed_given |= dst == p->common && strcmp(row->name, "seed") == 0;
    p->c->format_given |= dst == p->common && strcmp(row->name, "format") == 0;
    return rc ? ERR_USAGE : ERR_OK;
}

/* value: the text behind '=' or the rest of "-oFILE", NULL when the next word is the value. */
static enum err_code take_value(struct parser *p, const struct opt_row *row, void *dst, const char *value,
                                struct err *e)
{
    char shown[64];
    if (!value) {
        if (p->at + 1 >= p->argc)
            return err_set(e, ERR_USAGE, "--%s needs a value: %s", cli_dashed(row->name, shown), cli_metavar(row));
        value = p->argv[++p->at];
    }
    return store(p, row, dst, value, e);
}

static enum err_code long_option(struct parser *p, const char *text, struct err *e)
{
    char name[64];
    void *dst;
    const char *equals = strchr(text, '=');
    size_t n = equals ? (size_t)(equals - text) - 2 : strlen(text + 2);
    if (n >= sizeof name)
        return unknown_option(p, text, e);
    memcpy(name, text + 2, n);
    name[n] = '\0';
    const struct opt_row *row = find_row(p, name, 0, &dst);
    bool off = !row && strncmp(name, "no-", 3) == 0;
    if (off)
        row = find_row(p, name + 3, 0, &dst);
    if (!row || (off && (row->type != OPT_TYPE_BOOL || dst == p->common)))
        return unknown_option(p, text, e);
    if (row->type != OPT_TYPE_BOOL)
        return take_value(p, row, dst, equals ? equals + 1 : NULL, e);
    if (equals && (off || dst == p->common))
        return err_set(e, ERR_USAGE, "--%s takes no value", name);
    if (note_switch(p, row, dst))
        return ERR_OK;
    return store(p, row, dst, equals ? equals + 1 : off ? "false" : "true", e);
}

/* "-q", "-vv", "-oFILE", "-o FILE". */
static enum err_code short_options(struct parser *p, const char *text, struct err *e)
{
    for (const char *at = text + 1; *at; at++) {
        void *dst;
        const struct opt_row *row = find_row(p, NULL, *at, &dst);
        if (!row)
            return unknown_option(p, text, e);
        if (row->type != OPT_TYPE_BOOL)
            return take_value(p, row, dst, at[1] ? at + 1 : NULL, e);
        if (!note_switch(p, row, dst)) {
            enum err_code rc = store(p, row, dst, "true", e);
            if (rc)
                return rc;
        }
    }
    return ERR_OK;
}

/* ---- the whole line -------------------------------------------------------------------------- */

static enum err_code add_arg(struct parser *p, char *text, struct err *e)
{
    struct cli_ctx *c = p->c;
    if (c->n_args == p->cmd->max_args) {
        if (p->cmd->max_args == 0)
            return err_set(e, ERR_USAGE, "unexpected argument %.60s", text);
        return err_set(e, ERR_USAGE, "unexpected argument %.60s: expected %s", text, p->cmd->args);
    }
    c->args[c->n_args++] = text;
    return ERR_OK;
}

static enum err_code parse_words(struct parser *p, struct err *e)
{
    enum err_code rc = ERR_OK;
    bool only_args = false;
    for (p->at = 0; p->at < p->argc && !rc; p->at++) {
        char *text = p->argv[p->at];
        if (only_args || text[0] != '-' || text[1] == '\0')
            rc = add_arg(p, text, e);
        else if (strcmp(text, "--") == 0)
            only_args = true;
        else if (text[1] == '-')
            rc = long_option(p, text, e);
        else
            rc = short_options(p, text, e);
    }
    return rc;
}

/* What every command takes but this one has no use for is an error, never ignored. */
static enum err_code check_common(const struct parser *p, struct err *e)
{
    const struct cli_ctx *c = p->c;
    const struct cli_cmd *cmd = p->cmd;
    if (!cmd->config && (c->config || c->n_sets))
        return err_set(e, ERR_USAGE, "%s goes with commands that read settings; %s has none",
                       c->config ? "-c" : "--set", cmd->name);
    if (!cmd->formats || cmd->formats >> c->format & 1)
        return ERR_OK;
    struct buf known = buf_init(256);
    for (int i = 0; format_names[i]; i++)
        if (cmd->formats >> i & 1)
            buf_fmt(&known, "%s%s", known.n ? ", " : "", format_names[i]);
    enum err_code rc = err_set(e, ERR_USAGE, "--format: %s: %s prints %s only", format_names[c->format],
                               cmd->name, known.p);
    buf_fini(&known);
    return rc;
}

/* An hour's work must not end at a folder that is not there. */
static enum err_code check_output(const struct cli_ctx *c, struct err *e)
{
    if (!c->output)
        return ERR_OK;
    if (!*c->output)
        return err_set(e, ERR_USAGE, "-o: empty file name");
    for (size_t i = 0; i < c->n_args; i++)
        if (file_same(c->output, c->args[i]))
            return err_set(e, ERR_USAGE, "-o %.200s: would replace what is read", c->output);
    return file_check_writable(c->output, e);
}

static enum err_code complete(struct parser *p, struct err *e)
{
    struct cli_ctx *c = p->c;
    if (c->n_args < p->cmd->min_args)
        return err_set(e, ERR_USAGE, "missing argument: expected %s", p->cmd->args);
    enum err_code common = check_common(p, e);
    if (common)
        return common;
    enum err_code rc = p->cmd->opts ? opt_finish(p->cmd->opts, c->opts, e) : ERR_OK;
    if (rc && e) {
        (void)err_wrap(e, "option");
        e->code = ERR_USAGE;
    }
    return rc ? ERR_USAGE : ERR_OK;
}

enum err_code cli_parse(const struct cli_app *app, const struct cli_cmd *cmd, int argc, char **argv,
                        struct cli_ctx *c, bool *want_help, struct err *e)
{
    *c = (struct cli_ctx){.app = app, .cmd = cmd};
    *want_help = false;
    if (argc > ARGS_MAX)
        return err_set(e, ERR_USAGE, "more than %d words", ARGS_MAX);
    c->common = mem_zero(1, sizeof *c->common);
    opt_init(&cli_common_table, c->common);
    c->args = mem_zero((size_t)argc, sizeof *c->args);
    if (cmd->opts) {
        c->opts = mem_zero(1, cmd->opts->size);
        opt_init(cmd->opts, c->opts);
    }
    struct parser p = {.cmd = cmd, .c = c, .common = c->common, .want_help = want_help, .argc = argc,
                       .argv = argv};
    p.listed = mem_zero(cmd->opts ? cmd->opts->n : 1, sizeof *p.listed);
    enum err_code rc = parse_words(&p, e);
    mem_free(p.listed);
    c->config = c->common->config;
    c->sets = c->common->sets.items;
    c->n_sets = c->common->sets.n;
    c->seed = (uint64_t)c->common->seed;
    c->threads = c->common->threads ? (int)c->common->threads : thread_cpus();
    c->format = c->common->format;
    c->output = c->common->output;
    return rc || *want_help ? rc : complete(&p, e);
}

void cli_fini(struct cli_ctx *c)
{
    if (c->common)
        opt_fini(&cli_common_table, c->common);
    if (c->opts)
        opt_fini(c->cmd->opts, c->opts);
    mem_free(c->common);
    mem_free(c->opts);
    mem_free(c->args);
    log_free(c->log);
    *c = (struct cli_ctx){0};
}

/* ---- the program ----------------------------------------------------------------------------- */

const struct cli_cmd *cli_find(const struct cli_app *app, const char *name)
{
    for (size_t i = 0; i < app->n_cmds; i++) {
        if (strcmp(app->cmds[i].name, name) == 0)
            return &app->cmds[i];
    }
    return NULL;
}

/* As ever, a reader that has seen enough ends the writer without a word. */
static enum err_code output_failed(struct err *e)
{
    if (errno == EPIPE)
        signal_broken_pipe();
    return err_set(e, ERR_IO, "standard output: could not be written");
}

static int print(struct buf *text, bool to_stderr)
{
    FILE *out = to_stderr ? stderr : stdout;
    bool ok = fwrite(text->p, 1, text->n, out) == text->n && fflush(out) == 0;
    buf_fini(text);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

static int print_cmd_help(const struct cli_app *app, const struct cli_cmd *cmd)
{
    struct buf text = buf_init(1 << 20);
    cli_write_cmd_help(app, cmd, &text);
    return print(&text, false);
}

static const char *command_name(size_t i, const void *arg)
{
    const struct cli_app *app = arg;
    return i < app->n_cmds ? app->cmds[i].name : NULL;
}

static int unknown_command(const struct cli_app *app, const char *name)
{
    const char *near = opt_nearest(name, command_name, app);
    (void)fprintf(stderr, "%s: unknown command %.60s", app->name, name);
    if (near)
        (void)fprintf(stderr, "; did you mean %s?\n", near);
    else
        (void)fprintf(stderr, "; see %s --help\n", app->name);
    return EXIT_USAGE;
}

static int run_command(const struct cli_app *app, const struct cli_cmd *cmd, int argc, char **argv)
{
    struct cli_ctx c;
    struct err e = {0};
    bool want_help;
    enum err_code rc = cli_parse(app, cmd, argc, argv, &c, &want_help, &e);
    int status = EXIT_DONE;
    if (!rc && want_help) {
        status = print_cmd_help(app, cmd);
    } else if (!rc) {
        c.log = log_new(stderr, log_level_of(c.verbosity));
        signal_catch();
        rc = check_output(&c, &e);
        if (!rc)
            rc = cmd->run(&c, &e);
        if (!rc && fflush(stdout) != 0)
            rc = output_failed(&e);
    }
    if (rc) {
        utf8_make_plain(e.msg); /* it may quote a hostile file */
        (void)fprintf(stderr, "%s %s: %s\n", app->name, cmd->name, e.msg);
        if (rc == ERR_USAGE)
            (void)fprintf(stderr, "See %s %s --help.\n", app->name, cmd->name);
        status = rc == ERR_USAGE ? EXIT_USAGE : EXIT_FAILED;
    }
    cli_fini(&c);
    return status;
}

/* help, version, completion and man need no context.  -1: not one of them. */
static int run_built_in(const struct cli_app *app, int argc, char **argv)
{
    struct buf text = buf_init(4 << 20);
    const char *name = argv[1], *arg = argc > 2 ? argv[2] : "";
    if (strcmp(name, "help") == 0 && *arg) {
        const struct cli_cmd *cmd = cli_find(app, arg);
        return cmd ? print_cmd_help(app, cmd) : unknown_command(app, arg);
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        cli_write_help(app, &text);
    else if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0)
        buf_fmt(&text, "%s %s\n", app->name, app->version);
    else if (strcmp(name, "man") == 0)
        cli_write_man(app, &text);
    else if (strcmp(name, "completion") == 0 && strcmp(arg, "bash") == 0)
        cli_write_completion_bash(app, &text);
    else if (strcmp(name, "completion") == 0 && strcmp(arg, "zsh") == 0)
        cli_write_completion_zsh(app, &text);
    else if (strcmp(name, "completion") == 0) {
        (void)fprintf(stderr, "%s completion: expected bash or zsh\n", app->name);
        return EXIT_USAGE;
    } else {
        return -1;
    }
    return print(&text, false);
}

/* A closed standard stream would give its number to the next file opened, and messages would end up in that file.
 * What stands in refuses, so that output nobody can see is still an error. */
static void keep_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(EXIT_FAILED);
}

int cli_main(const struct cli_app *app, int argc, char **argv)
{
    keep_standard_streams();
    if (argc < 2) {
        struct buf text = buf_init(1 << 20);
        cli_write_help(app, &text);
        (void)print(&text, true);
        return EXIT_USAGE;
    }
    const struct cli_cmd *cmd = cli_find(app, argv[1]);
    if (cmd)
        return run_command(app, cmd, argc - 2, argv + 2);
    int status = run_built_in(app, argc, argv);
    return status >= 0 ? status : unknown_command(app, argv[1]);
}

enum err_code cli_output(const struct cli_ctx *c, const struct buf *text, struct err *e)
{
    enum err_code rc = buf_check(text, e);
    if (rc)
        return rc;
    if (c->output)
        return file_write(c->output, text->p, text->n, e);
    if (fwrite(text->p, 1, text->n, stdout) != text->n || fflush(stdout) != 0)
        return output_failed(e);
    return ERR_OK;
}
