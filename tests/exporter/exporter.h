/* exporter.h - an exporter for tests and rehearsals: metrics on /metrics, set from the test or made by a
 * model of a service that replays a trace (service.h).
 *
 *     struct exporter *x;
 *     assert_ok(exporter_start(0, &x, &e), &e);
 *     exporter_set(x, "queue_len", "namespace=\"shop\",pod=\"web-0\"", 12);
 *
 * Values may be set from any thread.  Names that end in _total or _bucket, _sum, _count are given the type
 * they have. */
#ifndef TESTS_EXPORTER_EXPORTER_H
#define TESTS_EXPORTER_EXPORTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct exporter;
/* port 0: any free one.  Errors: those of server_start. */
NODISCARD enum err_code exporter_start(uint16_t port, struct exporter **out, struct err *e);
void exporter_stop(struct exporter *x); /* NULL is fine */
uint16_t exporter_port(const struct exporter *x);
uint64_t exporter_scrapes(const struct exporter *x); /* answered so far */

/* A value; labels as in the page, without braces ("" for none). */
void exporter_set(struct exporter *x, const char *name, const char *labels, double v);
void exporter_add(struct exporter *x, const char *name, const char *labels, double v); /* counters */
/* The same with an own time stamp, milliseconds since the epoch; offset_ms from the moment of the scrape. */
void exporter_set_stamped(struct exporter *x, const char *name, const char *labels, double v, int64_t offset_ms);
void exporter_remove(struct exporter *x, const char *name, const char *labels); /* NULL labels: all of the name */
void exporter_clear(struct exporter *x);
/* Answer this status instead; 0: work again. */
void exporter_fail(struct exporter *x, int status);
/* Called at each scrape, on the server's thread, with the page so far; and for every other path, when
 * `other` is set: false for 404. */
void exporter_hook(struct exporter *x, void (*page)(void *ctx, struct buf *out),
                   bool (*other)(void *ctx, const char *path, const char *query, struct buf *out), void *ctx);

#endif
