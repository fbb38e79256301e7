/* html_priv.h - the page's parts.  Internal to report/.
 *
 * html.c lays out the page and calls one function per section; each appends to page->out and writes
 * nothing when its data is absent.  A policy has one colour and one marker in all charts and
 * tables: 0 is the proposal, 1 the rules in use today, the others follow in the order of the
 * evaluation. */
#ifndef REPORT_HTML_PRIV_H
#define REPORT_HTML_PRIV_H

#include "report/html.h"

enum { PAGE_COLOURS = 8, PAGE_MARKERS = 12, PAGE_POLICIES_MAX = 64 };

struct page {
    const struct report_data *d;
    struct buf *out;
    const char *order[PAGE_POLICIES_MAX]; /* policy names by rank */
    size_t n_order;
};

/* Position in the order; names not in the evaluation share the last. */
size_t page_rank(const struct page *p, const char *name);
/* 0 .. PAGE_COLOURS - 1; ranks beyond share the last. */
int page_colour(const struct page *p, const char *name);

void page_text(struct page *p, const char *s); /* escaped; NULL is nothing */
/* <section id> with its heading. */
void page_section(struct page *p, const char *id, const char *heading);
void page_section_end(struct page *p);
void page_chip(struct page *p, const char *name); /* the marker and the name of a policy */
/* Marker of a policy as a path around (0, 0). */
const char *page_marker(const struct page *p, const char *name);

/* A ready-made table; nothing for NULL. */
void html_table(struct page *p, const struct table *t, const char *caption);

void html_summary(struct page *p);
void html_plane(struct page *p);
void html_evaluation(struct page *p);
void html_time(struct page *p);
void html_forecast(struct page *p);
void html_decisions(struct page *p);
void html_tree(struct page *p);
void html_learning(struct page *p);
void html_provenance(struct page *p);

/* A day worth a close look: [from, from + n) in steps.  The local day with most misses of the drawn
 * policies, the day of the peak demand when there are none. */
struct report_window {
    size_t from, n;
};
struct report_window html_hardest_day(const struct report_data *d);
bool html_timeline_drawn(const struct report_data *d);

extern const char *const page_style[];  /* NULL-terminated */
extern const char *const page_script[]; /* NULL-terminated */
/* SHA-256 of the script, base64, for the content security policy; the browser test compares. */
extern const char page_script_hash[];

#endif
