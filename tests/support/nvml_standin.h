/* nvml_standin.h - a library that answers like NVML, compiled by the test that needs it. */
#ifndef TESTS_SUPPORT_NVML_STANDIN_H
#define TESTS_SUPPORT_NVML_STANDIN_H

/* Path of a new library with two cards: 40 % busy, 20 of 80 bytes used, 350.5 W, 61 C; the second has no power reading.
 * flags choose what goes wrong: -DINIT=code, -DCOUNT=n, -DUTIL=code (second card), -DNO_MEMORY (symbol missing), -DBARE
 * (optional symbols missing). */
const char *nvml_standin(const char *flags);

#endif
