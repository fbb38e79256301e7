/* fake_prometheus.h - answers instant queries with values that a test sets: for tests that run thousands of rounds, where
 * a real Prometheus would have to wait for its scrapes.  What it answers has the shape of a real one's (tests of prom/ and
 * collect/ run against the real thing).
 *
 * A query is a plain name, "m_qps"; the answer is a vector with one sample per workload:
 * {namespace, deployment} value.  `time()` answers the clock that the test gives. */
#ifndef TESTS_LIVE_FAKE_PROMETHEUS_H
#define TESTS_LIVE_FAKE_PROMETHEUS_H

#include <stdint.h>

#include "model/field.h"

enum fake_fault {
    FAKE_FINE,
    FAKE_500,
    FAKE_GARBAGE,  /* not JSON */
    FAKE_EMPTY,    /* a vector without samples */
    FAKE_TWICE,    /* two samples for each workload */
    FAKE_NAN,
    FAKE_FAULTS
};

struct fake_prometheus;
struct fake_prometheus *fake_prometheus_start(void);
void fake_prometheus_stop(struct fake_prometheus *f);
const char *fake_prometheus_url(const struct fake_prometheus *f);
/* Any thread.  now_us: time stamp of all samples. */
void fake_prometheus_clock(struct fake_prometheus *f, int64_t now_us);
void fake_prometheus_fault(struct fake_prometheus *f, enum fake_fault fault);
/* NaN: no sample.  At most 1,024 workloads. */
void fake_prometheus_set(struct fake_prometheus *f, const char *ns, const char *name, enum field field, double v);
void fake_prometheus_clear(struct fake_prometheus *f);
/* `queries:` of a daemon's configuration that asks it. */
void fake_prometheus_queries(char *out, unsigned long n);

#endif
