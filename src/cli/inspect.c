#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/tz.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "decide/observation.h"
#include "history/file.h"
#include "history/inspect.h"
#include "nn/checkpoint.h"
#include "train/learned.h"

static enum err_code inspect_history(struct cli_ctx *c, const char *path, struct err *e)
{
    struct history h = {0};
    struct import_report *report = mem_zero(1, sizeof *report);
    struct inspect *in = mem_zero(1, sizeof *in);
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = history_open(path, &h, report, e);
    if (!rc)
        rc = history_inspect(&h, in, e);
    if (!rc && c->format == CLI_JSON) {
        struct json_writer w = json_writer_init(&text, 2);
        inspect_json(in, &h, report, &w, NULL);
    } else if (!rc) {
        inspect_text(in, &h, report, &text);
        utf8_make_plain(text.p);
    }
    history_close(&h);
    mem_free(in);
    mem_free(report);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
}

/* The times among the metadata are for people here; JSON keeps the microseconds. */
static void meta_text(struct buf *text, struct st_meta m)
{
    static const char us[] = "_us";
    char at[TZ_TEXT];
    int64_t v;
    size_t n = strlen(m.key), k = sizeof us - 1;
    if (n > k && strncmp(m.key, "train.", 6) == 0 && strcmp(m.key + n - k, us) == 0 &&
        num_i64(m.value, strlen(m.value), &v)) {
        tz_format_rfc3339(NULL, v, at);
        buf_fmt(text, "%-28.*s %s\n", (int)(n - k), m.key, at);
    } else {
        buf_fmt(text, "%-28s %s\n", m.key, m.value);
    }
}

/* One feature's histogram as a row of blocks, tallest bin full. */
static void histogram_row(struct buf *text, const uint64_t *bins)
{
    static const char *const block[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    uint64_t top = 1;
    for (int i = 0; i < NN_NORM_BINS; i++)
        top = bins[i] > top ? bins[i] : top;
    for (int i = 0; i < NN_NORM_BINS; i++)
        buf_str(text, block[bins[i] ? 1 + bins[i] * 7 / top : 0]);
}

static void norm_text(struct buf *text, const struct nn_norm *norm)
{
    buf_fmt(text, "\nobservations: %.0f rows; each histogram spans -4 to +4 deviations\n",
            norm->count);
    for (int i = 0; i < norm->dim; i++) {
        const char *name = i < CAPACITY_OBS ? observation_get((enum observation)i)->name : "?";
        buf_fmt(text, "  %-18s mean %9.4f  dev %8.4f  |", name, norm->mean[i],
                (double)(1 / norm->scale[i]));
        histogram_row(text, norm->hist + (size_t)i * NN_NORM_BINS);
        buf_str(text, "|\n");
    }
}

static enum err_code inspect_policy(struct cli_ctx *c, const char *path, struct err *e)
{
    struct st_file *f;
    struct nn_policy *net = NULL;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = st_open(path, &f, e);
    if (rc)
        return rc;
    bool acts = st_find(f, "norm.mean") != NULL;
    if (acts && (rc = nn_policy_load(path, NULL, 0, &net, e))) {
        st_free(f);
        return rc;
    }
    if (c->format == CLI_JSON) {
        struct json_writer w = json_writer_init(&text, 2);
        json_open(&w, NULL);
        for (int i = 0; i < st_meta_count(f); i++)
            json_put_str(&w, st_meta_at(f, i).key, st_meta_at(f, i).value);
        json_open_array(&w, "tensors");
        for (int i = 0; i < st_count(f); i++)
            json_put_str(&w, NULL, st_at(f, i)->name);
        json_close_array(&w);
        json_close(&w);
    } else {
        for (int i = 0; i < st_meta_count(f); i++)
            meta_text(&text, st_meta_at(f, i));
        utf8_make_plain(text.p);
        buf_fmt(&text, "%-28s %d\n", "tensors", st_count(f));
        if (net)
            norm_text(&text, nn_policy_norm(net));
    }
    nn_policy_free(net);
    st_free(f);
    return cli_finish(c, &text, e);
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const char *path = c->args[0];
    unsigned char head[CLI_HEAD];
    size_t n;
    enum err_code rc = cli_head(path, head, &n, e);
    if (rc)
        return rc;
    if (history_is_file(head, n))
        return inspect_history(c, path, e);
    if (n >= 9 && head[8] == '{')
        return inspect_policy(c, path, e);
    return err_set(e, ERR_PARSE,
                   "%s is neither a history (made by `sluice import`) nor a policy (made by "
                   "`sluice train`)",
                   path);
}

const struct cli_cmd cmd_inspect = {
    .name = "inspect",
    .summary = "what a history or a policy file contains",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .formats = 1u << CLI_TABLE | 1u << CLI_JSON,
    .run = run,
};
