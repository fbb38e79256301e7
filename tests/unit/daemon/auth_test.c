#include "daemon/auth.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

TEST(auth_tokens_are_equal_only_when_every_byte_is)
{
    static const struct {
        const char *given, *secret;
        bool equal;
    } row[] = {
        {"abc", "abc", true}, {"abd", "abc", false},  {"xbc", "abc", false},
        {"ab", "abc", false}, {"abca", "abc", false}, {"abcabc", "abc", false},
        {"", "abc", false},   {"", "", false},        {"abc", "", false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(
            auth_equal(row[i].given, strlen(row[i].given), row[i].secret, strlen(row[i].secret)),
            row[i].equal);
}

TEST(auth_token_file_is_trimmed_and_what_no_header_can_carry_is_refused)
{
    static const struct {
        const char *text;
        size_t n;
        enum err_code rc;
        const char *says;
    } row[] = {
        {"0123456789abcdef\n", 17, ERR_OK, NULL},
        {" \t0123456789abcdef \r\n", 21, ERR_OK, NULL},
        {"0123456789abcde\n", 16, ERR_INVAL, "shorter"},
        {"", 0, ERR_INVAL, "shorter"},
        {"0123456789 abcdef", 17, ERR_INVAL, "no header"},
        {"0123456789\xc3\xa4"
         "bcdef",
         17, ERR_INVAL, "no header"},
        {"0123456789abcdef\0more", 21, ERR_INVAL, "shorter"},
    };
    char token[AUTH_TOKEN_MOST + 1], big[AUTH_TOKEN_MOST + 2];
    struct err e;
    const char *path = test_path("%s/token", test_tmp_dir());
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        test_write_file(path, row[i].text, row[i].n);
        assert_err(auth_token_read(path, token, &e), row[i].rc, &e, row[i].says);
        if (!row[i].rc)
            assert_string_equal(token, "0123456789abcdef");
    }
    memset(big, 'x', sizeof big);
    test_write_file(path, big, sizeof big);
    assert_err(auth_token_read(path, token, &e), ERR_INVAL, &e, "longer than");
    assert_err(auth_token_read(test_tmp_dir(), token, &e), ERR_IO, &e, test_tmp_dir());
}

TEST(auth_made_tokens_are_private_differ_and_are_not_made_twice)
{
    char a[AUTH_TOKEN_MOST + 1], b[AUTH_TOKEN_MOST + 1];
    struct stat st;
    struct err e;
    const char *one = test_path("%s/token-1", test_tmp_dir());
    const char *two = test_path("%s/token-2", test_tmp_dir());
    assert_ok(auth_token_create(one, &e), &e);
    assert_ok(auth_token_create(two, &e), &e);
    assert_ok(auth_token_read(one, a, &e), &e);
    assert_ok(auth_token_read(two, b, &e), &e);
    assert_int_equal(strlen(a), 64);
    assert_string_not_equal(a, b);
    assert_int_equal(stat(one, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_ok(auth_token_create(one, &e), &e);
    assert_ok(auth_token_read(one, b, &e), &e);
    assert_string_equal(a, b);
    assert_err(auth_token_create("/nonexistent/token", &e), ERR_IO, &e, "/nonexistent/token");
}
