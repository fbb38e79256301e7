/* adam.h - Adam (Kingma & Ba 2015, algorithm 1, bias-corrected) over the flat block.
 * The gradient is clipped to a global norm first.  A non-finite gradient stops with the tensor's
 * name. STABLE. */
#ifndef NN_ADAM_H
#define NN_ADAM_H

#include <stdint.h>

#include "base/err.h"
#include "nn/param.h"

struct nn_adam {
    float beta1, beta2, eps;
    float max_norm;     /* 0: no clipping */
    float weight_decay; /* decoupled (AdamW), times lr; 0: none */
    int64_t t;          /* steps done */
};
struct nn_adam nn_adam_default(void); /* .9, .999, 1e-5, 0.5, 0 */

/* One step of size lr from p->grad; grad itself is left as it was.
 * *norm (may be NULL): the norm before clipping.  Errors: ERR_NUMERIC, nothing changed then. */
NODISCARD enum err_code nn_adam_step(struct nn_adam *a, struct nn_params *p, float lr, float *norm,
                                     struct err *e);

#endif
