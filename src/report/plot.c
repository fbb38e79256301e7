/* plot.c - what the charts over time share. */
#include "report/plot_priv.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "report/fmt_priv.h"
#include "report/text.h"

void plot_range_add(struct plot_range *r, const float *v, size_t n)
{
    for (size_t i = 0; v && i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        r->lo = (double)v[i] < r->lo ? (double)v[i] : r->lo;
        r->hi = (double)v[i] > r->hi ? (double)v[i] : r->hi;
    }
}

size_t plot_columns(size_t n, size_t most)
{
    return n < most ? n : most;
}

void plot_values(struct buf *out, const char *name, const char *unit, const struct column *c,
                 size_t n, enum plot_pick pick)
{
    if (out->p[out->n - 1] == '}')
        buf_char(out, ',');
    buf_fmt(out, "{\"n\":\"%s\",\"u\":\"%s\",\"v\":[", name, unit);
    for (size_t i = 0; i < n; i++) {
        double v = (double)(pick == PLOT_LO ? c[i].lo : pick == PLOT_HI ? c[i].hi : c[i].last);
        if (i)
            buf_char(out, ',');
        if (c[i].n == 0 || isnan(v))
            buf_str(out, "null");
        else
            buf_fmt(out, "%.4g", isinf(v) ? 1e99 : v);
    }
    buf_str(out, "]}");
}

void plot_values_open(struct buf *out, const struct page *p, int64_t from_us, int64_t to_us)
{
    const char *zone = fmt_zone(p->d->zone);
    buf_fmt(out, "{\"t0\":%lld,\"t1\":%lld,\"z\":", (long long)(from_us / 1000),
            (long long)(to_us / 1000));
    json_quote(out, zone, strlen(zone));
    buf_str(out, ",\"s\":[");
}

/* <div class="plot"> with the values as an attribute. */
void plot_open(struct page *p, const char *cls, struct buf *values)
{
    buf_str(values, "]}");
    buf_fmt(p->out, "<div class=\"plot%s\" data-k=\"", cls);
    text_html(p->out, values->p);
    buf_str(p->out, "\">");
    buf_fini(values);
}
