#include "base/build.h"

#include "build_info.h"

#if defined(__AVX512F__)
#define ISA "avx512"
#elif defined(__AVX2__)
#define ISA "avx2"
#else
#define ISA "generic"
#endif

const char *build_version(void)
{
    return BUILD_VERSION;
}

const char *build_commit(void)
{
    return BUILD_COMMIT;
}

const char *build_config(void)
{
    return BUILD_CONFIG;
}

const char *build_compiler(void)
{
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

const char *build_isa(void)
{
    return BUILD_ARCH "/" ISA;
}
