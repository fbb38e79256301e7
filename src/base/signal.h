/* signal.h - Ctrl-C as a flag that long jobs look at; a peer that hung up as an error of the write.
 *
 * The first SIGINT or SIGTERM sets the flag, so a job can save and leave; a second one ends the process
 * the usual way.  Signal handlers have no argument, so this flag is the one process-wide variable.
 *
 * SIGPIPE is ignored, because TLS libraries write with plain write(): one server that closes a connection
 * at the wrong moment would end the daemon.  Standard output is the exception, by signal_broken_pipe. */
#ifndef BASE_SIGNAL_H
#define BASE_SIGNAL_H

#include <stdbool.h>

#include "base/err.h"

void signal_catch(void);        /* install both, once, in main */
void signal_ignore_pipe(void);  /* the second alone */
void signal_broken_pipe(void);  /* nobody reads standard output any more: ends the process as SIGPIPE does */
bool signal_stop(void);         /* asked to stop? cheap: for inner loops */
void signal_clear(void);        /* for tests */
/* ERR_INTERRUPTED with a message when asked to stop, else OK. */
NODISCARD enum err_code signal_check(struct err *e);

#endif
