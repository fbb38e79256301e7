/* utf8_test.c - what a terminal or a reader's eye may be shown. */
#include "base/mem.h"
#include "base/utf8.h"
#include "tests/support/test.h"

TEST(text_that_steers_a_terminal_or_turns_around_is_not_plain)
{
    static const struct {
        const char *text;
        bool plain;
    } cases[] = {
        {"", true},
        {"crane input 9, 40 %", true},
        {"Grüße \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80", true},
        {"a\nb", false},
        {"a\tb", false},
        {"a\x1b[31mb", false},
        {"a\x7f", false},
        {"a\xc2\x9b"
         "31mb",
         false},                /* CSI in one character */
        {"a\xc2\xa0z", true},   /* no-break space */
        {"a\xe2\x80\xaez", false}, /* right-to-left override */
        {"a\xe2\x81\xa6z", false}, /* isolate */
        {"a\xe2\x80\xa8z", false}, /* line separator */
        {"a\xe2\x80\x94z", true},  /* em dash */
        {"a\xff", false},
        {"a\xe2\x80", false}, /* cut */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (utf8_is_plain(cases[i].text, strlen(cases[i].text)) != cases[i].plain)
            fail_msg("case %zu", i);
}

TEST(hostile_bytes_become_question_marks_and_lines_stay)
{
    char text[] = "a\x1b[31m\tb\n\xc2\x9b\xff\xe2\x80\xae\xc3\xbc\xe2";
    utf8_make_plain(text);
    assert_string_equal(text, "a?[31m\tb\n??????\xc3\xbc?");
    char empty[] = "";
    utf8_make_plain(empty);
    assert_string_equal(empty, "");
}
