/* cli_text.c - help, man page and completion, all from the command rows and option tables. */
#include <ctype.h>
#include <string.h>

#include "base/cli.h"
#include "base/cli_priv.h"
#include "base/opt_priv.h"

enum { COLUMN = 30, WIDTH = 100 };

static const char *const built_ins[][2] = {
    {"help", "help on a command"},
    {"version", "show the version"},
    {"completion", "print shell completion: bash or zsh"},
    {"man", "print the manual page (troff)"},
};
enum { N_FORMATS = CLI_CSV + 1, N_BUILT_INS = sizeof built_ins / sizeof built_ins[0] };

const char *cli_metavar(const struct opt_row *row)
{
    static const char *const text[] = {
        [OPT_TYPE_BOOL] = "",         [OPT_TYPE_INT] = "N",          [OPT_TYPE_DOUBLE] = "X",
        [OPT_TYPE_DURATION] = "TIME", [OPT_TYPE_BYTES] = "SIZE",     [OPT_TYPE_STRING] = "TEXT",
        [OPT_TYPE_ENUM] = "NAME",     [OPT_TYPE_STRINGS] = "TEXT",   [OPT_TYPE_DOUBLES] = "X,X",
        [OPT_TYPE_INTS] = "N,N",      [OPT_TYPE_SUB] = "",           [OPT_TYPE_SUBS] = "",
    };
    return row->metavar ? row->metavar : text[row->type];
}

const char *cli_dashed(const char *name, char out[64])
{
    size_t i = 0;
    for (; name[i] && i < 63; i++)
        out[i] = name[i] == '_' ? '-' : name[i];
    out[i] = '\0';
    return out;
}

void cli_option_text(const struct opt_row *row, struct buf *out)
{
    const char *metavar = cli_metavar(row);
    char name[64];
    if (row->letter)
        buf_fmt(out, "-%c, ", row->letter);
    buf_fmt(out, "--%s%s%s", cli_dashed(row->name, name), *metavar ? " " : "", metavar);
}

static bool is_switch_off(const struct opt_row *row) /* a switch that is on by default: --no-x matters */
{
    return row->type == OPT_TYPE_BOOL && row->def && strcmp(row->def, "true") == 0;
}

static void option_help(const struct opt_row *row, struct buf *out)
{
    char name[64];
    buf_str(out, row->help);
    if (row->type == OPT_TYPE_BOOL) {
        if (is_switch_off(row))
            buf_fmt(out, " (on; --no-%s turns it off)", cli_dashed(row->name, name));
        return;
    }
    struct buf words = buf_init(4096);
    opt_describe(row, &words);
    if (opt_is_list(row->type) && row->type == OPT_TYPE_STRINGS)
        buf_fmt(&words, "%srepeatable", words.n ? "; " : "");
    if (words.n)
        buf_fmt(out, " (%s)", words.p);
    buf_fini(&words);
}

/* Words from `column` on, wrapped before WIDTH; a first line that is already longer than `column` starts anew. */
static void wrapped(const char *text, size_t column, struct buf *out)
{
    size_t at = column;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ");
        if (at > column && at + 1 + n > WIDTH) {
            buf_char(out, '\n');
            buf_pad(out, ' ', column);
            at = column;
        } else if (at > column) {
            buf_char(out, ' ');
            at++;
        }
        buf_add(out, p, n);
        at += n;
        p += n + (p[n] == ' ');
    }
    buf_char(out, '\n');
}

static void list_options(const struct opt_table *t, struct buf *out)
{
    for (size_t i = 0; t && i < t->n; i++) {
        struct buf help = buf_init(1 << 16);
        size_t start = out->n;
        buf_str(out, "  ");
        cli_option_text(&t->rows[i], out);
        size_t n = out->n - start;
        if (n + 2 > COLUMN)
            buf_char(out, '\n');
        buf_pad(out, ' ', n + 2 > COLUMN ? COLUMN : COLUMN - n);
        option_help(&t->rows[i], &help);
        wrapped(help.p, COLUMN, out);
        buf_fini(&help);
    }
}

static void list_word(const char *name, const char *text, struct buf *out)
{
    size_t n = strlen(name);
    buf_fmt(out, "  %s", name);
    buf_pad(out, ' ', n < 14 ? 14 - n : 2);
    buf_fmt(out, "%s\n", text);
}

void cli_write_help(const struct cli_app *app, struct buf *out)
{
    buf_fmt(out, "%s %s - %s\n\nUsage: %s COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n", app->name,
            app->version, app->summary, app->name);
    for (size_t i = 0; i < app->n_cmds; i++) {
        if (!app->cmds[i].hidden)
            list_word(app->cmds[i].name, app->cmds[i].summary, out);
    }
    for (size_t i = 0; i < N_BUILT_INS; i++)
        list_word(built_ins[i][0], built_ins[i][1], out);
    buf_str(out, "\nOptions of every command:\n");
    list_options(&cli_common_table, out);
    buf_fmt(out, "\n\"%s COMMAND --help\" tells more.  Exit codes: 0 done, 1 failed, 2 usage.\n", app->name);
}

/* The common options as this command takes them: without -c and --set where there are no settings, with the formats it
 * prints. */
static void list_common(const struct cli_cmd *cmd, struct buf *out)
{
    for (size_t i = 0; i < cli_common_table.n; i++) {
        struct opt_row row = cli_common_table.rows[i];
        const char *names[N_FORMATS + 1] = {0};
        bool settings = strcmp(row.name, "config") == 0 || strcmp(row.name, "set") == 0;
        if (settings && !cmd->config)
            continue;
        if (strcmp(row.name, "format") == 0 && cmd->formats) {
            size_t n = 0;
            for (int f = 0; f < N_FORMATS; f++)
                if (cmd->formats >> f & 1)
                    names[n++] = row.names[f];
            if (n == 1)
                continue;
            row.names = names;
        }
        const struct opt_table one = {.name = cli_common_table.name, .rows = &row, .n = 1};
        list_options(&one, out);
    }
}

static bool is_command(const struct cli_app *app, const char *name)
{
    for (size_t i = 0; i < app->n_cmds; i++)
        if (strcmp(app->cmds[i].name, name) == 0)
            return true;
    return false;
}

void cli_write_cmd_help(const struct cli_app *app, const struct cli_cmd *cmd, struct buf *out)
{
    buf_fmt(out, "%s %s - %s\n\nUsage: %s %s [OPTIONS]%s%s\n", app->name, cmd->name, cmd->summary,
            app->name, cmd->name, cmd->args ? " " : "", cmd->args ? cmd->args : "");
    if (cmd->help && *cmd->help)
        buf_fmt(out, "\n%s%s", cmd->help, cmd->help[strlen(cmd->help) - 1] == '\n' ? "" : "\n");
    if (cmd->opts && cmd->opts->n) {
        buf_str(out, "\nOptions:\n");
        list_options(cmd->opts, out);
    }
    buf_str(out, "\nCommon options:\n");
    list_common(cmd, out);
    if (!cmd->config)
        return;
    const char *name = cmd->config->name, *lists = app->settings ? app->settings : "man";
    if (app->settings && is_command(app, name)) /* its settings are also those of commands that speak to it */
        buf_fmt(out, "\n-c FILE and --set KEY=VALUE are the settings of `%s %s`; \"%s %s %s\" lists them.\n", app->name, name,
                app->name, lists, name);
    else
        buf_fmt(out, "\n-c FILE and --set KEY=VALUE change keys of the %s; \"%s %s\" lists them.\n", name, app->name,
                lists);
}

/* ---- man page -------------------------------------------------------------------------------- */

/* Text as troff: backslashes and dashes escaped, no line may begin with a control character. */
static void troff(const char *s, struct buf *out)
{
    bool start = true;
    for (; *s; s++) {
        if (start && (*s == '.' || *s == '\''))
            buf_str(out, "\\&");
        if (*s == '\\')
            buf_str(out, "\\e");
        else if (*s == '-')
            buf_str(out, "\\-");
        else
            buf_char(out, *s);
        start = *s == '\n';
    }
}

static void man_options(const struct opt_table *t, struct buf *out)
{
    for (size_t i = 0; t && i < t->n; i++) {
        struct buf text = buf_init(8192);
        buf_str(out, ".TP\n.B ");
        cli_option_text(&t->rows[i], &text);
        troff(text.p, out);
        buf_char(out, '\n');
        buf_clear(&text);
        option_help(&t->rows[i], &text);
        troff(text.p, out);
        buf_char(out, '\n');
        buf_fini(&text);
    }
}

static void man_command(const struct cli_app *app, const struct cli_cmd *cmd, struct buf *out)
{
    buf_fmt(out, ".SS %s %s", app->name, cmd->name);
    if (cmd->args) {
        buf_str(out, " \\fI");
        troff(cmd->args, out);
        buf_str(out, "\\fR");
    }
    buf_char(out, '\n');
    buf_char(out, (char)toupper((unsigned char)cmd->summary[0]));
    troff(cmd->summary + 1, out);
    buf_str(out, ".\n");
    if (cmd->help) {
        buf_str(out, ".PP\n");
        troff(cmd->help, out);
        buf_char(out, '\n');
    }
    man_options(cmd->opts, out);
    if (cmd->config) {
        buf_str(out, ".PP\n");
        troff("-c and --set change keys of the ", out);
        buf_fmt(out, "%s, listed under SETTINGS.\n", cmd->config->name);
    }
}

/* Each table of settings once, however many commands read it. */
static void man_settings(const struct cli_app *app, struct buf *out)
{
    for (size_t i = 0; i < app->n_cmds; i++) {
        const struct opt_table *t = app->cmds[i].config;
        bool seen = !t;
        for (size_t k = 0; k < i; k++)
            seen |= app->cmds[k].config == t;
        if (seen)
            continue;
        struct buf text = buf_init(1 << 18);
        opt_write_help(t, &text);
        buf_fmt(out, ".SH SETTINGS\nKeys of the %s: in its file, in the file of ", t->name);
        troff("-c, and in --set; the later one wins.\n", out);
        buf_str(out, ".PP\n.nf\n");
        troff(text.p, out);
        buf_str(out, ".fi\n");
        buf_fini(&text);
    }
}

void cli_write_man(const struct cli_app *app, struct buf *out)
{
    buf_str(out, ".TH ");
    for (const char *p = app->name; *p; p++)
        buf_char(out, (char)toupper((unsigned char)*p));
    buf_fmt(out, " 1 \"\" \"%s %s\" \"User Commands\"\n.SH NAME\n%s \\- ", app->name, app->version, app->name);
    troff(app->summary, out);
    buf_fmt(out, "\n.SH SYNOPSIS\n.B %s\n.I COMMAND\n[OPTIONS] [ARGUMENTS]\n.SH OPTIONS\n"
                 "Every command takes these.\n", app->name);
    man_options(&cli_common_table, out);
    buf_str(out, ".SH COMMANDS\n");
    for (size_t i = 0; i < app->n_cmds; i++) {
        if (!app->cmds[i].hidden)
            man_command(app, &app->cmds[i], out);
    }
    man_settings(app, out);
    buf_str(out, ".SH EXIT STATUS\n0 done, 1 failed (standard error says what, where and what to do), "
                 "2 wrong usage.\n");
}

/* ---- completion ------------------------------------------------------------------------------ */

static void option_words(const struct opt_table *t, struct buf *out)
{
    for (size_t i = 0; t && i < t->n; i++) {
        char name[64];
        buf_fmt(out, " --%s", cli_dashed(t->rows[i].name, name));
        if (is_switch_off(&t->rows[i]))
            buf_fmt(out, " --no-%s", name);
    }
}

static void value_case(const struct opt_row *row, struct buf *out)
{
    if (row->type != OPT_TYPE_ENUM)
        return;
    char name[64];
    buf_fmt(out, "        --%s) words=\"", cli_dashed(row->name, name));
    for (size_t i = 0; row->names[i]; i++)
        buf_fmt(out, "%s%s", i ? " " : "", row->names[i]);
    buf_str(out, "\" ;;\n");
}

static void key_words(const struct opt_table *t, const char *prefix, struct buf *out)
{
    for (size_t i = 0; t && i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        if (row->type == OPT_TYPE_SUB) {
            struct buf path = buf_init(256);
            buf_fmt(&path, "%s%s.", prefix, row->name);
            key_words(row->sub, path.p, out);
            buf_fini(&path);
        } else if (row->type != OPT_TYPE_SUBS) {
            buf_fmt(out, " %s%s=", prefix, row->name);
        }
    }
}

static void command_words(const struct cli_app *app, struct buf *out)
{
    for (size_t i = 0; i < app->n_cmds; i++) {
        if (!app->cmds[i].hidden)
            buf_fmt(out, "%s ", app->cmds[i].name);
    }
    for (size_t i = 0; i < N_BUILT_INS; i++)
        buf_fmt(out, "%s%s", built_ins[i][0], i + 1 < N_BUILT_INS ? " " : "");
}

static void bash_command(const struct cli_cmd *cmd, struct buf *out)
{
    buf_fmt(out, "    %s)\n        options=\"", cmd->name);
    option_words(cmd->opts, out);
    option_words(&cli_common_table, out);
    buf_str(out, "\"\n");
    if (cmd->config) {
        buf_str(out, "        keys=\"");
        key_words(cmd->config, "", out);
        buf_str(out, "\"\n");
    }
    buf_str(out, "        case \"$prev\" in\n");
    for (size_t i = 0; cmd->opts && i < cmd->opts->n; i++)
        value_case(&cmd->opts->rows[i], out);
    for (size_t i = 0; i < cli_common_table.n; i++)
        value_case(&cli_common_table.rows[i], out);
    buf_str(out, "        --set) words=$keys ;;\n        esac ;;\n");
}

void cli_write_completion_bash(const struct cli_app *app, struct buf *out)
{
    buf_fmt(out, "# bash completion for %s; source it, or put it into /etc/bash_completion.d\n"
                 "_%s()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                 "    local options= keys= words=\n    COMPREPLY=()\n"
                 "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W \"", app->name,
            app->name);
    command_words(app, out);
    buf_str(out, "\" -- \"$cur\"))\n        return\n    fi\n    case \"${COMP_WORDS[1]}\" in\n");
    for (size_t i = 0; i < app->n_cmds; i++) {
        if (!app->cmds[i].hidden)
            bash_command(&app->cmds[i], out);
    }
    buf_str(out, "    completion) words=\"bash zsh\" ;;\n    esac\n"
                 "    if [ -n \"$words\" ]; then\n"
                 "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                 "        [ \"$prev\" = --set ] && compopt -o nospace\n"
                 "    elif [[ $cur == -* ]]; then\n"
                 "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
                 "    else\n        COMPREPLY=($(compgen -f -- \"$cur\"))\n        compopt -o filenames\n"
                 "    fi\n}\n");
    buf_fmt(out, "complete -F _%s %s\n", app->name, app->name);
}

/* Inside '...[help]': quotes, brackets and colons must not end it. */
static void zsh_text(const char *s, struct buf *out)
{
    for (; *s; s++) {
        if (*s == '\'')
            buf_str(out, "'\\''");
        else if (strchr("[]:\\", *s))
            buf_fmt(out, "\\%c", *s);
        else
            buf_char(out, *s);
    }
}

static void zsh_options(const struct opt_table *t, struct buf *out)
{
    for (size_t i = 0; t && i < t->n; i++) {
        const struct opt_row *row = &t->rows[i];
        bool value = row->type != OPT_TYPE_BOOL;
        char name[64];
        buf_fmt(out, " \\\n            '%s--%s%s[", opt_is_list(row->type) ? "*" : "",
                cli_dashed(row->name, name), value ? "=" : "");
        zsh_text(row->help, out);
        buf_char(out, ']');
        if (row->type == OPT_TYPE_ENUM) {
            buf_fmt(out, ":%s:(", cli_metavar(row));
            for (size_t k = 0; row->names[k]; k++)
                buf_fmt(out, "%s%s", k ? " " : "", row->names[k]);
            buf_char(out, ')');
        } else if (value) {
            buf_fmt(out, ":%s:_files", cli_metavar(row));
        }
        buf_char(out, '\'');
    }
}

void cli_write_completion_zsh(const struct cli_app *app, struct buf *out)
{
    buf_fmt(out, "#compdef %s\n# zsh completion for %s; put it as _%s into a folder of $fpath\n_%s()\n{\n"
                 "    local -a commands=(\n", app->name, app->name, app->name, app->name);
    for (size_t i = 0; i < app->n_cmds; i++) {
        if (app->cmds[i].hidden)
            continue;
        buf_fmt(out, "        '%s:", app->cmds[i].name);
        zsh_text(app->cmds[i].summary, out);
        buf_str(out, "'\n");
    }
    for (size_t i = 0; i < N_BUILT_INS; i++)
        buf_fmt(out, "        '%s:%s'\n", built_ins[i][0], built_ins[i][1]);
    buf_str(out, "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
                 "        return\n    fi\n    local name=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
                 "    case $name in\n");
    for (size_t i = 0; i < app->n_cmds; i++) {
        if (app->cmds[i].hidden)
            continue;
        buf_fmt(out, "    %s)\n        _arguments", app->cmds[i].name);
        zsh_options(app->cmds[i].opts, out);
        zsh_options(&cli_common_table, out);
        buf_str(out, " \\\n            '*:file:_files' ;;\n");
    }
    buf_fmt(out, "    completion) _values shell bash zsh ;;\n    esac\n}\n_%s \"$@\"\n", app->name);
}
