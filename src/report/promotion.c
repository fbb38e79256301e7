#include "report/promotion.h"

#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "report/table.h"

static const char *const names[PROMOTIONS] = {
#define X(id, name, words) [PROMOTION_##id] = (name),
    PROMOTION_LIST(X)
#undef X
};

const char *promotion_verdict_name(enum promotion_verdict v)
{
    return names[v];
}

/* ---- text -------------------------------------------------------------------------------------
 */

static void interval(struct buf *out, const struct promotion_interval *i)
{
    buf_fmt(out, "%+.2f %%", 100 * i->mean);
    if (isfinite(i->lo))
        buf_fmt(out, " (95 %%: %+.2f to %+.2f)", 100 * i->lo, 100 * i->hi);
}

static void targets_text(const struct promotion *p, bool colour, struct buf *out)
{
    static const struct table_column columns[] = {{"target", NULL, 0},
                                                  {"days", NULL, 0},
                                                  {"cost_champion_usd", "champion $", 2},
                                                  {"cost_challenger_usd", "challenger $", 2},
                                                  {"miss_champion", "misses", 4},
                                                  {"miss_challenger", "misses", 4}};
    struct table *x = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < p->n_targets; i++) {
        const struct promotion_target *t = &p->target[i];
        char shown[2][24];
        table_text(x, t->name);
        if (!t->compared) {
            for (size_t k = 1; k < sizeof columns / sizeof columns[0]; k++)
                table_skip(x);
            continue;
        }
        (void)snprintf(shown[0], sizeof shown[0], "%.2f %%", 100 * t->miss_champion);
        (void)snprintf(shown[1], sizeof shown[1], "%.2f %%", 100 * t->miss_challenger);
        table_num(x, t->days);
        table_num(x, t->cost_champion_usd);
        table_num(x, t->cost_challenger_usd);
        table_num_text(x, t->miss_champion, shown[0]);
        table_num_text(x, t->miss_challenger, shown[1]);
    }
    table_format(x, CLI_TABLE, colour, out);
    table_free(x);
    for (size_t i = 0; i < p->n_targets; i++)
        if (p->target[i].note) {
            buf_str(out, "note: ");
            text_plain(out, p->target[i].name);
            buf_str(out, ": ");
            text_plain(out, p->target[i].note);
            buf_char(out, '\n');
        }
}

static void shadow_text(const struct promotion_live *s, struct buf *out)
{
    if (!s->n)
        return;
    buf_fmt(out, "in shadow: %lld decisions over %d days, %.1f %% of them differed; units ",
            (long long)s->n, s->n_champion, s->n_challenger / 10.0);
    interval(out, &s->units_frac);
    buf_str(out, s->enough ? "\n" : "; too few days for an interval\n");
}

static void live_text(const struct promotion_live *l, const char *what, const char *unit,
                      const char *least, struct buf *out)
{
    if (!l->n)
        return;
    buf_fmt(out, "%s: %d %s of the champion, %d of the challenger; units over what demand needed ",
            what, l->n_champion, unit, l->n_challenger);
    interval(out, &l->units_frac);
    buf_str(out, ", misses ");
    interval(out, &l->misses);
    if (!l->enough)
        buf_fmt(out, "; too few to say (%s)", least);
    buf_char(out, '\n');
}

static void text(const struct promotion *p, bool colour, struct buf *out)
{
    char since[TZ_TEXT], until[TZ_TEXT];
    tz_format_naive(tz_to_local_us(p->zone, p->since_us) / 1000000 * 1000000, since);
    tz_format_naive(tz_to_local_us(p->zone, p->until_us) / 1000000 * 1000000, until);
    buf_str(out, "champion ");
    text_plain(out, p->champion);
    buf_str(out, ", challenger ");
    text_plain(out, p->challenger);
    buf_fmt(out, "; %s to %s, %d days, %d seeds each\n", since, until, p->days, p->n_seeds);
    targets_text(p, colour, out);
    if (p->days > 1) {
        buf_str(out, "replayed, paired by day: cost ");
        interval(out, &p->cost_frac);
        buf_str(out, ", misses ");
        interval(out, &p->misses);
        buf_fmt(out, " (at most %+.2f %% is tolerated)\n", 100 * p->miss_margin);
    }
    shadow_text(&p->shadow, out);
    live_text(&p->ab, "measured live, by target", "targets", "5 each at least", out);
    live_text(&p->switchback, "measured live, by period", "periods", "8 each at least", out);
    buf_fmt(out, "%s: ", p->verdict == PROMOTION_PROMOTE ? "Promote" : "Do not promote");
    text_plain(out, p->words);
    buf_char(out, '\n');
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static void put_interval(struct json_writer *w, const char *key, const struct promotion_interval *i)
{
    json_open(w, key);
    json_put_f64(w, "mean", i->mean);
    json_put_f64(w, "lo", i->lo);
    json_put_f64(w, "hi", i->hi);
    json_close(w);
}

static void put_live(struct json_writer *w, const char *key, const struct promotion_live *l,
                     const char *champion, const char *challenger)
{
    if (!l->n) {
        json_put_null(w, key);
        return;
    }
    json_open(w, key);
    json_put_i64(w, "n", l->n);
    json_put_i64(w, champion, l->n_champion);
    json_put_i64(w, challenger, l->n_challenger);
    json_put_bool(w, "enough", l->enough);
    put_interval(w, "units_frac", &l->units_frac);
    put_interval(w, "slo_violation_frac", &l->misses);
    json_close(w);
}

static void put_targets(struct json_writer *w, const struct promotion *p)
{
    json_open_array(w, "targets");
    for (size_t i = 0; i < p->n_targets; i++) {
        const struct promotion_target *t = &p->target[i];
        json_open(w, NULL);
        json_put_str(w, "name", t->name);
        json_put_bool(w, "compared", t->compared);
        json_put_str(w, "note", t->note);
        if (t->compared) {
            json_put_i64(w, "days", t->days);
            json_put_f64(w, "cost_champion_usd", t->cost_champion_usd);
            json_put_f64(w, "cost_challenger_usd", t->cost_challenger_usd);
            json_put_f64(w, "slo_violation_champion_frac", t->miss_champion);
            json_put_f64(w, "slo_violation_challenger_frac", t->miss_challenger);
        }
        json_close(w);
    }
    json_close_array(w);
}

static void json(const struct promotion *p, struct buf *out)
{
    char since[TZ_TEXT], until[TZ_TEXT];
    struct json_writer w = json_writer_init(out, 2);
    tz_format_rfc3339(NULL, p->since_us, since);
    tz_format_rfc3339(NULL, p->until_us, until);
    json_open(&w, NULL);
    json_put_str(&w, "champion", p->champion);
    json_put_str(&w, "challenger", p->challenger);
    json_put_str(&w, "since", since);
    json_put_str(&w, "until", until);
    json_put_i64(&w, "days", p->days);
    json_put_i64(&w, "seeds", p->n_seeds);
    json_put_f64(&w, "cost_champion_usd", p->cost_champion_usd);
    json_put_f64(&w, "cost_challenger_usd", p->cost_challenger_usd);
    put_interval(&w, "cost_frac", &p->cost_frac);
    put_interval(&w, "slo_violation_frac", &p->misses);
    json_put_f64(&w, "slo_violation_margin", p->miss_margin);
    put_targets(&w, p);
    put_live(&w, "shadow", &p->shadow, "days", "differed_permille");
    put_live(&w, "by_target", &p->ab, "targets_champion", "targets_challenger");
    put_live(&w, "by_period", &p->switchback, "periods_champion", "periods_challenger");
    json_put_bool(&w, "promote", p->verdict == PROMOTION_PROMOTE);
    json_put_str(&w, "verdict", promotion_verdict_name(p->verdict));
    json_put_str(&w, "words", p->words);
    json_put_str(&w, "setting", p->setting);
    json_close(&w);
    buf_char(out, '\n');
}

void promotion_format(const struct promotion *p, enum cli_format format, bool colour,
                      struct buf *out)
{
    if (format == CLI_JSON)
        json(p, out);
    else
        text(p, colour, out);
}
