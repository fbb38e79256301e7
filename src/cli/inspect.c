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
#include "report/text.h"
#include "store/store.h"
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

/* ---- a store of decisions ----------------------------------------------------------------------- */

struct target_list {
    struct buf *text;         /* or */
    struct json_writer *json;
};

static bool on_target(void *ctx, const struct store_target *t)
{
    struct target_list *l = ctx;
    const char *const key[] = {"cluster", "group", "kind", "namespace", "name", "uid"};
    const char *const part[] = {t->cluster, t->group, t->kind, t->namespace_, t->name, t->uid};
    if (l->json)
        json_open(l->json, NULL);
    else
        buf_str(l->text, "target      ");
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        if (l->json) {
            json_put_str(l->json, key[i], part[i]);
        } else if (*part[i]) {
            buf_char(l->text, ' ');
            text_plain(l->text, part[i]);
        }
    }
    if (l->json)
        json_close(l->json);
    else
        buf_char(l->text, '\n');
    return true;
}

static void span_text(const struct store_info *i, struct buf *text)
{
    char from[TZ_TEXT], to[TZ_TEXT];
    if (i->decisions == 0)
        return;
    tz_format_rfc3339(NULL, i->first_us, from);
    tz_format_rfc3339(NULL, i->last_us, to);
    buf_fmt(text, "from         %s\nto           %s\nids          %lld to %lld\n", from, to, (long long)i->first_id,
            (long long)i->last_id);
}

static void store_text(const struct store_info *i, struct buf *text)
{
    const struct {
        const char *what;
        int64_t n;
    } rows[] = {{"schema", i->schema},         {"decisions", i->decisions}, {"acted upon", i->acted},
                {"outcome open", i->pending},  {"keyframes", i->keyframes}, {"configs", i->configs},
                {"samples", i->samples},       {"forecasts", i->forecasts}, {"with outcome", i->forecasts_known},
                {"notes", i->notes},           {"targets", i->targets}};
    const double mb = 1e-6;
    for (size_t k = 0; k < ARRAY_LEN(rows); k++)
        buf_fmt(text, "%-12s %lld\n", rows[k].what, (long long)rows[k].n);
    buf_fmt(text, "%-12s %.1f MB, %.1f of it free to be used again, and a log of %.1f\n", "size", mb * (double)i->bytes,
            mb * (double)i->free_bytes, mb * (double)i->log_bytes);
    span_text(i, text);
}

static void store_json(const struct store_info *i, struct json_writer *w)
{
    json_put_i64(w, "schema", i->schema);
    json_put_i64(w, "bytes", i->bytes);
    json_put_i64(w, "free_bytes", i->free_bytes);
    json_put_i64(w, "log_bytes", i->log_bytes);
    json_put_i64(w, "decisions", i->decisions);
    json_put_i64(w, "acted", i->acted);
    json_put_i64(w, "pending", i->pending);
    json_put_i64(w, "keyframes", i->keyframes);
    json_put_i64(w, "configs", i->configs);
    json_put_i64(w, "samples", i->samples);
    json_put_i64(w, "forecasts", i->forecasts);
    json_put_i64(w, "forecasts_known", i->forecasts_known);
    json_put_i64(w, "notes", i->notes);
    json_put_i64(w, "first_us", i->first_us);
    json_put_i64(w, "last_us", i->last_us);
    json_put_i64(w, "first_id", i->first_id);
    json_put_i64(w, "last_id", i->last_id);
}

static enum err_code describe_store(const struct cli_ctx *c, struct store *s, struct buf *text, struct err *e)
{
    struct store_info i;
    struct json_writer w = json_writer_init(text, 2);
    struct target_list l = {.text = text, .json = c->format == CLI_JSON ? &w : NULL};
    enum err_code rc = store_check(s, e);
    if (!rc)
        rc = store_info(s, &i, e);
    if (rc)
        return rc;
    if (l.json) {
        json_open(&w, NULL);
        store_json(&i, &w);
        json_open_array(&w, "targets");
    } else {
        store_text(&i, text);
    }
    rc = store_targets(s, on_target, &l, e);
    if (!rc && l.json) {
        json_close_array(&w);
        json_close(&w);
    }
    return rc;
}

static enum err_code inspect_store(struct cli_ctx *c, const char *path, struct err *e)
{
    struct store *s = NULL;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = cli_store_open(path, &s, e);
    if (!rc)
        rc = describe_store(c, s, &text, e);
    store_close(s);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
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
    if (store_is_file(head, n))
        return inspect_store(c, path, e);
    return err_set(e, ERR_PARSE,
                   "%s is neither a history (made by `sluice import`) nor a policy (made by "
                   "`sluice train`) nor a store of decisions (made by `sluice run`)",
                   path);
}

const struct cli_cmd cmd_inspect = {
    .name = "inspect",
    .summary = "what a history, a policy file or a store of decisions contains",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .formats = 1u << CLI_TABLE | 1u << CLI_JSON,
    .run = run,
};
