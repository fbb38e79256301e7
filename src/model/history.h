/* history.h - measurements of one workload on an even time grid, as columns.
 *
 * The importers and the live collector fill it, everything else only reads it.  Column i of field f
 * covers [start_us + i*step_us, start_us + (i+1)*step_us).  NaN is missing; `barred` marks samples
 * inside a gap of more than 3 native steps, which neither train nor calibrate anything. */
#ifndef MODEL_HISTORY_H
#define MODEL_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/field.h"

#define US_PER_S INT64_C(1000000)
#define US_PER_MIN (60 * US_PER_S)
#define US_PER_H (3600 * US_PER_S)
#define US_PER_DAY (86400 * US_PER_S)

enum { WORKLOAD_ID_MAX = 128, TASK_TYPE_MAX = 64, ZONE_NAME_MAX = 64 };

struct history {
    char workload_id[WORKLOAD_ID_MAX];
    char task_type[TASK_TYPE_MAX];
    char zone[ZONE_NAME_MAX];    /* IANA name; calendar features use it */
    int64_t start_us;            /* since the epoch, UTC */
    int64_t step_us;             /* native step, > 0 */
    int64_t n;                   /* samples */
    const float *col[FIELD_COUNT]; /* [n] each; NULL where the field is absent */
    const uint8_t *barred;       /* [n], 0 or 1 */
    uint64_t data_hash;          /* of all columns; recorded in checkpoints */
    void *owner;                 /* what history_close() (history/file.h) releases; NULL if borrowed */
};

#endif
