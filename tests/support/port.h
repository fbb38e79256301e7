/* port.h - a free port for a program that takes no socket from outside. */
#ifndef TESTS_SUPPORT_PORT_H
#define TESTS_SUPPORT_PORT_H

#include <stdint.h>

/* A TCP port of 127.0.0.1 nobody listens on now, below those the kernel gives to connections.  It could
 * still be lost before the program has it: try again with another. */
uint16_t test_free_port(void);

#endif
