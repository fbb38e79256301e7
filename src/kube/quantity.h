/* quantity.h - resource quantities: "500m", "1.5", "2Gi", "1e3", "100k" (apimachinery
 * resource.Quantity). */
#ifndef KUBE_QUANTITY_H
#define KUBE_QUANTITY_H

#include <stdint.h>

#include "base/err.h"

/* Scaled to `per_one` parts (1 for bytes and counts, 1000 for milli), rounded up as Kubernetes
 * does. Errors: ERR_PARSE, ERR_RANGE beyond int64. */
NODISCARD enum err_code quantity_parse(const char *s, int64_t per_one, int64_t *out, struct err *e);

#endif
