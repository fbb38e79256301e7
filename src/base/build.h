/* build.h - which build this is; recorded in checkpoints, evaluations and benchmarks. */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

const char *build_version(void); /* "0.1.0" */
const char *build_commit(void);  /* 12 hex digits or "unknown" */
const char *build_config(void);  /* "release", "debug", ... */
const char *build_compiler(void);
/* CPU feature level of this build and machine, e.g. "native/avx512"; same seed, same bits on one level. */
const char *build_isa(void);

#endif
