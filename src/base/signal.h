/* signal.h - Ctrl-C as a flag that long jobs look at.
 *
 * The first SIGINT or SIGTERM sets the flag, so a job can save and leave; a second one ends the process
 * the usual way.  Signal handlers have no argument, so this flag is the one process-wide variable. */
#ifndef BASE_SIGNAL_H
#define BASE_SIGNAL_H

#include <stdbool.h>

#include "base/err.h"

void signal_catch(void);        /* install, once, in main */
bool signal_stop(void);         /* asked to stop? cheap: for inner loops */
void signal_clear(void);        /* for tests */
/* ERR_INTERRUPTED with a message when asked to stop, else OK. */
NODISCARD enum err_code signal_check(struct err *e);

#endif
