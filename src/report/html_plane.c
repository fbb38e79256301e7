/* html_plane.c - the cost-miss plane: what each policy costs against how often it misses.
 *
 * Misses are on a log scale whose bottom line stands for "none".  Points carry 95 % whiskers both
 * ways; fronts show all a tuned rule can reach; the shaded corner is where no policy can be. Labels
 * stand beside their points: a greedy placement tries places around and away from each point and
 * takes the one that covers least, the proposal's first.  It runs for three widths, and the style
 * sheet shows one of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/fmt_priv.h"
#include "report/html_priv.h"
#include "report/svg_priv.h"

#define OUTLIER                                                                                    \
    1.7 /* times the reference cost: dearer policies stand at the edge, with their cost */

enum {
    PLANE_HEIGHT = 360,
    LABELS_MAX = PAGE_POLICIES_MAX + REPORT_FRONTS_MAX,
    LABEL_TEXT = 64,
    PLACES_AROUND = 8,
    PLACES = 5 * PLACES_AROUND,
    FIXED_TEXTS = 2
};

struct plane {
    struct page *p;
    struct axis x, y;
    struct svg s;
    double x_most;               /* dearest cost drawn at its place */
    double fixed_x[FIXED_TEXTS]; /* 0..1, where the fixed texts hang */
    bool has_none;               /* some policy never missed: the bottom line reads "0" */
};

static bool finite_pair(double a, double b)
{
    return isfinite(a) && isfinite(b);
}

/* ---- scales ---------------------------------------------------------------------------------- */

static void widen(double v, double *lo, double *hi)
{
    if (!isfinite(v))
        return;
    *lo = v < *lo ? v : *lo;
    *hi = v > *hi ? v : *hi;
}

static void widen_positive(double v, double *lo, double *hi)
{
    if (v > 0)
        widen(v, lo, hi);
}

/* What the axis across is centred on: the rules of today, else the cheapest policy. */
static double reference_cost(const struct evaluation *ev)
{
    double cost = eval_mean(eval_baseline(ev), "cost_usd");
    if (cost > 0 && isfinite(cost))
        return cost;
    double lo = INFINITY, hi = -INFINITY;
    for (size_t i = 0; i < ev->n_policies; i++)
        widen_positive(eval_mean(&ev->policies[i], "cost_usd"), &lo, &hi);
    return isfinite(lo) ? lo : 1;
}

static bool plane_scales(struct plane *pl)
{
    const struct evaluation *ev = pl->p->d->eval;
    double ref = reference_cost(ev), x_lo = ref, x_hi = ref, y_lo = INFINITY, y_hi = -INFINITY;
    size_t points = 0;
    pl->x_most = OUTLIER * ref;
    for (size_t i = 0; i < ev->n_policies; i++) {
        const struct eval_metric *cost = eval_metric_find(&ev->policies[i], "cost_usd");
        const struct eval_metric *miss = eval_metric_find(&ev->policies[i], "slo_violation_frac");
        if (!cost || !miss || !finite_pair(cost->mean, miss->mean))
            continue;
        points++;
        if (cost->mean <= pl->x_most) {
            widen(cost->mean, &x_lo, &x_hi);
            widen(cost->lo, &x_lo, &x_hi);
            widen(fmin(cost->hi, pl->x_most), &x_lo, &x_hi);
        }
        widen_positive(miss->mean, &y_lo, &y_hi);
        widen_positive(miss->hi, &y_lo, &y_hi);
        pl->has_none |= miss->mean <= 0;
    }
    widen_positive(eval_bound(ev, "cost_usd"), &x_lo, &x_hi);
    widen_positive(ev->slo_violation_max, &y_lo, &y_hi);
    widen_positive(ev->slo_violation_max * 3, &y_lo, &y_hi);
    if (!points || !(y_hi > 0))
        return false;
    double pad = 0.04 * (x_hi - x_lo);
    pl->x = axis_linear(x_lo - (x_lo > pad ? pad : 0), x_hi + pad, 8);
    pl->y = axis_log(fmax(y_lo / 2.5, y_hi * 1e-5), y_hi * 1.2, 9);
    return true;
}

/* ---- labels ---------------------------------------------------------------------------------- */

struct box {
    double x0, y0, x1, y1;
};

struct label {
    double x_frac, y_px; /* of the point */
    char text[LABEL_TEXT];
    int colour;
    bool thin; /* of a front */
};

struct labels {
    struct label item[LABELS_MAX];
    size_t n;
};

static double overlap(struct box a, struct box b)
{
    double w = fmin(a.x1, b.x1) - fmax(a.x0, b.x0), h = fmin(a.y1, b.y1) - fmax(a.y0, b.y0);
    return w > 0 && h > 0 ? w * h : 0;
}

static double outside(struct box a, double width)
{
    double x = fmax(0, -a.x0) + fmax(0, a.x1 - width),
           y = fmax(0, -a.y0) + fmax(0, a.y1 - PLANE_HEIGHT);
    return 40 * (x + y);
}

struct place {
    double dx, dy; /* of the anchor of the text from the point */
    int anchor;    /* -1 start, 0 middle, 1 end */
};

/* Place k: eight directions near the point, then the same farther out. */
static struct place place_at(size_t k)
{
    static const struct place near_by[PLACES_AROUND] = {{8, -8, -1}, {8, 18, -1}, {-8, -8, 1},
                                                        {-8, 18, 1}, {12, 4, -1}, {-12, 4, 1},
                                                        {0, -14, 0}, {0, 24, 0}};
    static const double reach[PLACES / PLACES_AROUND] = {0, 16, 32, 52, 76};
    struct place at = near_by[k % PLACES_AROUND];
    double r = reach[k / PLACES_AROUND];
    at.dx += at.anchor < 0 ? r : at.anchor > 0 ? -r : 0;
    at.dy += k % PLACES_AROUND == 4 || k % PLACES_AROUND == 5 ? 0 : at.dy < 0 ? -r : r;
    return at;
}

static struct box text_box(const struct label *l, struct place at, double width)
{
    double w = 7.2 * (double)text_width(l->text), x = l->x_frac * width + at.dx;
    double x0 = at.anchor < 0 ? x : at.anchor > 0 ? x - w : x - w / 2;
    return (struct box){x0, l->y_px + at.dy - 11, x0 + w, l->y_px + at.dy + 3};
}

/* Boxes that are taken: texts already there and labels placed before. */
struct taken {
    struct box item[LABELS_MAX + FIXED_TEXTS];
    size_t n;
};

static struct place best_place(const struct labels *ls, size_t i, const struct taken *taken,
                               double width)
{
    struct place best = place_at(0);
    double best_cost = INFINITY;
    for (size_t k = 0; k < PLACES; k++) {
        struct place at = place_at(k);
        struct box b = text_box(&ls->item[i], at, width);
        double cost = outside(b, width) + 3 * (double)k;
        for (size_t j = 0; j < taken->n; j++)
            cost += 6 * overlap(b, taken->item[j]);
        for (size_t j = 0; j < ls->n; j++) {
            double px = ls->item[j].x_frac * width, py = ls->item[j].y_px;
            if (j != i && !ls->item[j].thin)
                cost += 4 * overlap(b, (struct box){px - 8, py - 8, px + 8, py + 8});
        }
        if (cost < best_cost) {
            best_cost = cost;
            best = at;
        }
    }
    return best;
}

/* From the point to a label that stands away from it; pixels relative to the point. */
static void put_leader(struct plane *pl, const struct label *l, struct place at)
{
    if (fabs(at.dx) < 20 && fabs(at.dy) < 30)
        return;
    buf_fmt(pl->p->out,
            "<svg x=\"%.2f%%\" y=\"%.1f\" overflow=\"visible\"><line class=\"ld c%d\" x2=\"%.0f\" "
            "y2=\"%.0f\"/></svg>",
            100 * l->x_frac, l->y_px, l->colour, at.dx, at.dy - (at.dy > 0 ? 11 : -3));
}

static void put_labels(struct plane *pl, const struct labels *ls, const struct taken *fixed,
                       double width, const char *cls)
{
    struct taken taken = *fixed;
    for (size_t i = 0; i < taken.n; i++) { /* given relative to the width */
        taken.item[i].x0 += pl->fixed_x[i] * width;
        taken.item[i].x1 += pl->fixed_x[i] * width;
    }
    buf_fmt(pl->p->out, "<g class=\"%s\">", cls);
    for (size_t i = ls->n; i-- > 0;) {
        const struct label *l = &ls->item[i];
        struct place at = best_place(ls, i, &taken, width);
        taken.item[taken.n++] = text_box(l, at, width);
        put_leader(pl, l, at);
        char text_cls[40];
        (void)snprintf(text_cls, sizeof text_cls, "lb halo c%d%s%s", l->colour,
                       l->thin ? " fl" : "",
                       at.anchor < 0   ? ""
                       : at.anchor > 0 ? " e"
                                       : " m");
        svg_text(&pl->s, l->x_frac, l->y_px, at.dx, at.dy, text_cls, l->text);
    }
    buf_str(pl->p->out, "</g>\n");
}

static void labels_add(struct labels *ls, struct plane *pl, double cost, double miss,
                       const char *name, bool thin)
{
    if (ls->n == LABELS_MAX)
        return;
    struct label *l = &ls->item[ls->n++];
    *l = (struct label){
        .x_frac = axis_at(&pl->x, cost), .y_px = svg_y(&pl->s, &pl->y, miss), .thin = thin};
    l->colour = page_colour(pl->p, name);
    char shown[32];
    (void)snprintf(shown, sizeof shown, text_width(name) < 24 ? "%.28s" : "%.20s…", name);
    const char *more = thin ? ", tuned" : "";
    if (!thin && cost > pl->x.hi)
        (void)snprintf(l->text, sizeof l->text, "%s %.20s →", shown, fmt_money(cost).s);
    else
        (void)snprintf(l->text, sizeof l->text, "%s%s", shown, more);
}

/* ---- marks
 * -----------------------------------------------------------------------------------------------
 */

static bool has_bound_front(const struct report_data *d)
{
    for (size_t i = 0; i < d->n_fronts && i < REPORT_FRONTS_MAX; i++)
        if (d->fronts[i].is_bound && d->fronts[i].n)
            return true;
    return false;
}

static void put_regions(struct plane *pl)
{
    const struct evaluation *ev = pl->p->d->eval;
    double bound = eval_bound(ev, "cost_usd"), slo = ev->slo_violation_max;
    struct buf *out = pl->p->out;
    double y = slo > 0 ? svg_y(&pl->s, &pl->y, slo) : 0;
    if (slo > 0)
        buf_fmt(out, "<rect class=\"ok\" x=\"0\" y=\"%.1f\" width=\"100%%\" height=\"%.1f\"/>", y,
                PLANE_HEIGHT - y);
    if (bound > 0) {
        double x = axis_at(&pl->x, bound);
        if (!has_bound_front(pl->p->d))
            buf_fmt(out, "<rect class=\"no\" x=\"0\" y=\"%.1f\" width=\"%.2f%%\" height=\"%.1f\"/>",
                    y, 100 * x, PLANE_HEIGHT - y);
        buf_fmt(out, "<line class=\"rule\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%d\"/>",
                100 * x, 100 * x, y, PLANE_HEIGHT);
        char text[96];
        (void)snprintf(text, sizeof text, "bound %s", fmt_money(bound).s);
        svg_text(&pl->s, x, PLANE_HEIGHT, 5, -7, "tk halo", text);
    }
    buf_char(out, '\n');
}

static void put_front(struct plane *pl, const struct report_front *f, struct labels *ls)
{
    struct buf *out = pl->p->out;
    size_t n = f->n < REPORT_FRONT_POINTS_MAX ? f->n : REPORT_FRONT_POINTS_MAX, drawn = 0, mid = 0;
    buf_fmt(out, "<g class=\"c%d\"><path class=\"%s\" d=\"", page_colour(pl->p, f->name),
            f->is_bound ? "bd" : "fr");
    for (size_t i = 0; i < n; i++) {
        if (!finite_pair(f->cost_usd[i], f->violation_frac[i]))
            continue;
        buf_fmt(out, "%c%.1f %.1f", drawn ? 'L' : 'M', 1000 * axis_at_free(&pl->x, f->cost_usd[i]),
                1000 * (1 - axis_at_free(&pl->y, f->violation_frac[i])));
        drawn++;
        /* The label goes to the last point well inside. */
        double x = axis_at(&pl->x, f->cost_usd[i]), y = axis_at(&pl->y, f->violation_frac[i]);
        if (x > 0.02 && x < 0.98 && y > 0.05 && y < 0.95)
            mid = i;
    }
    if (f->is_bound && drawn)
        buf_str(out, "V1000H0V0z");
    buf_str(out, "\"/></g>\n");
    if (drawn && !f->is_bound)
        labels_add(ls, pl, f->cost_usd[mid], f->violation_frac[mid], f->name, true);
}

static void put_fronts(struct plane *pl, struct labels *ls)
{
    const struct report_data *d = pl->p->d;
    svg_layer_open(&pl->s, 1000);
    for (size_t i = 0; i < d->n_fronts && i < REPORT_FRONTS_MAX; i++)
        put_front(pl, &d->fronts[i], ls);
    svg_layer_close(&pl->s);
}

static void put_whiskers(struct plane *pl, const struct eval_metric *cost,
                         const struct eval_metric *miss)
{
    double x = 100 * axis_at(&pl->x, cost->mean), y = svg_y(&pl->s, &pl->y, miss->mean);
    if (finite_pair(cost->lo, cost->hi))
        buf_fmt(pl->p->out,
                "<line class=\"wh\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/>",
                100 * axis_at(&pl->x, cost->lo), 100 * axis_at(&pl->x, cost->hi), y, y);
    if (finite_pair(miss->lo, miss->hi))
        buf_fmt(pl->p->out,
                "<line class=\"wh\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/>", x, x,
                svg_y(&pl->s, &pl->y, miss->lo), svg_y(&pl->s, &pl->y, miss->hi));
}

static void put_point(struct plane *pl, const struct eval_policy *policy, struct labels *ls)
{
    const struct eval_metric *cost = eval_metric_find(policy, "cost_usd");
    const struct eval_metric *miss = eval_metric_find(policy, "slo_violation_frac");
    if (!cost || !miss || !finite_pair(cost->mean, miss->mean))
        return;
    int colour = page_colour(pl->p, policy->name);
    buf_fmt(pl->p->out, "<g class=\"c%d point\">", colour);
    put_whiskers(pl, cost, miss);
    buf_fmt(pl->p->out,
            "<svg x=\"%.2f%%\" y=\"%.1f\" overflow=\"visible\"><path class=\"pt\" d=\"%s\"><title>",
            100 * axis_at(&pl->x, cost->mean), svg_y(&pl->s, &pl->y, miss->mean),
            page_marker(pl->p, policy->name));
    page_text(pl->p, policy->name);
    buf_fmt(pl->p->out, ": %s, missed %s</title></path></svg></g>\n", fmt_money(cost->mean).s,
            fmt_percent(miss->mean).s);
    labels_add(ls, pl, cost->mean, miss->mean, policy->name, false);
}

/* The one proposed is drawn last, on top. */
static void put_points(struct plane *pl, struct labels *ls)
{
    for (size_t i = pl->p->n_order; i-- > 0;)
        put_point(pl, eval_policy_find(pl->p->d->eval, pl->p->order[i]), ls);
}

/* The texts of the target and the bound, which no label may cover. */
static void fixed_texts(struct plane *pl, struct taken *fixed)
{
    const struct evaluation *ev = pl->p->d->eval;
    if (ev->slo_violation_max > 0) {
        double y = svg_y(&pl->s, &pl->y, ev->slo_violation_max);
        pl->fixed_x[fixed->n] = 1;
        fixed->item[fixed->n++] = (struct box){-118, y - 15, 0, y};
    }
    if (eval_bound(ev, "cost_usd") > 0) {
        pl->fixed_x[fixed->n] = axis_at(&pl->x, eval_bound(ev, "cost_usd"));
        fixed->item[fixed->n++] = (struct box){0, PLANE_HEIGHT - 20, 95, PLANE_HEIGHT};
    }
}

static struct fmt percent_label(double v, double step)
{
    (void)step;
    double p = 100 * v;
    struct fmt f;
    (void)snprintf(f.s, sizeof f.s, "%.4g %%", p);
    return f;
}

static struct fmt money_label(double v, double step)
{
    struct fmt n = fmt_axis(v, step), f;
    (void)snprintf(f.s, sizeof f.s, "$%.60s", n.s);
    return f;
}

static void put_y_grid(struct plane *pl)
{
    double before = INFINITY;
    for (size_t i = 0; i < pl->y.n; i++) {
        double y = svg_y(&pl->s, &pl->y, pl->y.tick[i]);
        buf_fmt(pl->p->out, "<line class=\"gr\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", y,
                y);
        bool bottom = y > PLANE_HEIGHT - 1;
        if (before - y >= 13)
            svg_text(&pl->s, 0, y, -7, 3.5, "tk e",
                     bottom && pl->has_none ? "none" : percent_label(pl->y.tick[i], 0).s);
        before = y;
    }
    if (pl->has_none && pl->y.n && svg_y(&pl->s, &pl->y, pl->y.tick[0]) < PLANE_HEIGHT - 14)
        svg_text(&pl->s, 0, PLANE_HEIGHT, -7, 3.5, "tk e", "none");
    buf_char(pl->p->out, '\n');
}

static void put_plane_caption(struct page *p)
{
    buf_str(p->out, "<p class=\"hint\">Down and to the left is better. ");
    if (p->d->eval->slo_violation_max > 0)
        buf_str(p->out, "Points in the tinted band meet the target. ");
    if (eval_bound(p->d->eval, "cost_usd") > 0)
        buf_str(p->out, "In the grey corner no policy can be, whatever it knows. ");
    if (p->d->n_fronts)
        buf_str(p->out, "Lines show what rules can reach when tuned, from cheap to careful. ");
    buf_str(p->out, "Whiskers are 95 % intervals.</p>\n");
}

void html_plane(struct page *p)
{
    struct plane pl = {.p = p};
    if (!plane_scales(&pl))
        return;
    struct labels ls = {.n = 0};
    struct taken fixed = {.n = 0};
    page_section(p, "plane", "Cost against misses");
    put_plane_caption(p);
    buf_str(p->out, "<figure><p class=\"cap\">Steps with p99 over the target (log scale)</p><div "
                    "class=\"plot\">");
    pl.s = svg_open(p->out, "plane-svg", PLANE_HEIGHT, "Cost against misses",
                    "One point per policy: cost over the test span across, share of steps over the "
                    "latency target up. "
                    "The table below holds the same numbers.");
    put_regions(&pl);
    put_y_grid(&pl);
    svg_grid_x(&pl.s, &pl.x, money_label);
    put_fronts(&pl, &ls);
    if (p->d->eval->slo_violation_max > 0) {
        char text[80];
        (void)snprintf(text, sizeof text, "target: at most %.40s",
                       fmt_percent(p->d->eval->slo_violation_max).s);
        svg_rule_y(&pl.s, &pl.y, p->d->eval->slo_violation_max, "slo", text);
    }
    put_points(&pl, &ls);
    fixed_texts(&pl, &fixed);
    put_labels(&pl, &ls, &fixed, 980, "wide");
    put_labels(&pl, &ls, &fixed, 600, "mid");
    put_labels(&pl, &ls, &fixed, 300, "narrow");
    svg_close(&pl.s);
    buf_str(p->out, "</div><p class=\"axis\">Cost over the test span</p></figure>\n");
    page_section_end(p);
}
