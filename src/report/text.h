/* text.h - outside text made safe to show: on a terminal and in HTML.
 *
 * Names of workloads and policies come from outside.  Control characters could steer a terminal,
 * direction marks could reorder a line, markup could run in a page.  All are replaced or escaped
 * here, and only here. */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include <stddef.h>

#include "base/buf.h"

/* Columns a terminal needs for UTF-8 text: code points, combining marks 0, wide ones 2. */
size_t text_width(const char *s);
/* For a terminal: control characters, direction marks and invalid UTF-8 become U+FFFD, a tab or a
 * line break a blank. */
void text_plain(struct buf *out, const char *s);
/* For HTML, between tags and inside quoted attributes: & < > " ' escaped, control characters and
 * invalid UTF-8 become U+FFFD; tabs and line breaks stay.  A number and its "%" or "ms" stay on one
 * line. */
void text_html(struct buf *out, const char *s);

#endif
