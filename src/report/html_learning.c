/* html_learning.c - how training went: cost and misses by round. */
#include <math.h>

#include "base/mem.h"
#include "report/fmt_priv.h"
#include "report/html_priv.h"
#include "report/plot_priv.h"
#include "report/svg_priv.h"

static struct fmt steps_label(double v, double step)
{
    return fmt_axis(v, step);
}

/* One panel over the environment steps; the rule marks the allowed misses. */
static void put_panel(struct page *p, const char *id, const char *caption, const double *v,
                      double scale, double rule, const char *rule_text)
{
    const struct report_learning *l = p->d->learning;
    float *copy = try_zero(l->n, sizeof *copy);
    if (!v || !copy) {
        mem_free(copy);
        return;
    }
    for (size_t i = 0; i < l->n; i++)
        copy[i] = (float)(scale * v[i]);
    struct plot_range r = {0, isfinite(rule) ? rule * 1.5 : 0};
    plot_range_add(&r, copy, l->n);
    struct axis y = axis_linear(0, r.hi, 4), x = axis_linear(0, l->env_steps[l->n - 1], 8);
    x.lo = 0;
    x.hi = l->env_steps[l->n - 1] > 0 ? l->env_steps[l->n - 1] : 1;
    while (x.n && x.tick[x.n - 1] > x.hi)
        x.n--;
    struct column c[PLOT_COLUMNS];
    size_t n = plot_columns(l->n, PLOT_COLUMNS);
    reduce(copy, l->n, c, n);
    mem_free(copy);
    buf_fmt(p->out, "<div class=\"cell\"><p class=\"cap\">%s</p><div class=\"plot\">", caption);
    struct svg s = svg_open(p->out, id, 120, caption, "Mean per round of training.");
    svg_grid_y(&s, &y);
    svg_grid_x(&s, &x, steps_label);
    svg_layer_open(&s, n);
    buf_str(p->out, "<g class=\"c0\">");
    svg_step(&s, c, n, &y, "ln");
    buf_str(p->out, "</g>");
    svg_layer_close(&s);
    if (isfinite(rule))
        svg_rule_y(&s, &y, rule, "slo", rule_text);
    svg_close(&s);
    buf_str(p->out, "</div><p class=\"axis\">environment steps</p></div>\n");
}

void html_learning(struct page *p)
{
    const struct report_learning *l = p->d->learning;
    page_section(p, "learning", "How training went");
    buf_fmt(p->out,
            "<p class=\"hint\">%s environment steps in %s rounds, on training days only.</p>\n<div "
            "class=\"cells\">\n",
            fmt_count(l->env_steps[l->n - 1]).s, fmt_count((double)l->n).s);
    put_panel(p, "learn-miss", "Steps missed, %", l->violation_frac, 100,
              100 * p->d->eval->slo_violation_max, "target");
    put_panel(p, "learn-cost", "Cost, $/h", l->cost_usd_h, 1, NAN, "");
    buf_str(p->out, "</div>\n");
    page_section_end(p);
}
