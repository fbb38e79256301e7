/* sanitize.c - defaults of AddressSanitizer for test binaries: an allocation that cannot be had returns
 * NULL, as it does without the sanitizer, so the error paths can be tested.  $ASAN_OPTIONS adds to it. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:detect_leaks=1";
}
