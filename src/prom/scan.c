#include "prom/scan.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

/* What may come next at the current level. */
enum expect {
    WANT_VALUE,        /* after ':' or ',' in an array, or the document itself */
    WANT_VALUE_OR_END, /* after '[' */
    WANT_KEY,          /* after ',' in an object */
    WANT_KEY_OR_END,   /* after '{' */
    WANT_COLON,
    WANT_COMMA_OR_END,
    WANT_NOTHING, /* the document has ended */
};

struct scan {
    size_t at, n;  /* taken, filled */
    uint64_t base; /* offset of buf[0] in the document */
    enum expect expect;
    int depth;
    bool array[SCAN_DEPTH_MAX];
    enum err_code code;
    const char *what; /* of the error */
    char buf[SCAN_TOKEN_MAX + SCAN_FEED_MAX];
    char text[SCAN_TOKEN_MAX + 1]; /* the current token, decoded */
};

struct scan *scan_new(void)
{
    struct scan *s = mem_zero(1, sizeof *s);
    scan_reset(s);
    return s;
}

void scan_free(struct scan *s)
{
    mem_free(s);
}

void scan_reset(struct scan *s)
{
    s->at = s->n = 0;
    s->base = 0;
    s->expect = WANT_VALUE;
    s->depth = 0;
    s->code = ERR_OK;
    s->what = NULL;
}

bool scan_complete(const struct scan *s)
{
    return s->code == ERR_OK && s->expect == WANT_NOTHING && s->at == s->n;
}

int scan_depth(const struct scan *s)
{
    return s->depth;
}

uint64_t scan_offset(const struct scan *s)
{
    return s->base + s->at;
}

static enum scan_kind bad(struct scan *s, enum err_code code, const char *what)
{
    s->code = code;
    s->what = what;
    return SCAN_BAD;
}

enum err_code scan_error(const struct scan *s, struct err *e)
{
    if (s->code == ERR_OK)
        return err_set(e, ERR_PARSE, "the answer ends in the middle (at byte %llu)",
                       (unsigned long long)scan_offset(s));
    return err_set(e, s->code, "not JSON at byte %llu: %s", (unsigned long long)scan_offset(s),
                   s->what);
}

/* The rest of a token stays in front; it is never longer than SCAN_TOKEN_MAX (see need_more). */
void scan_feed(struct scan *s, const char *bytes, size_t n)
{
    ASSERT(n <= SCAN_FEED_MAX && s->n - s->at <= SCAN_TOKEN_MAX);
    memmove(s->buf, s->buf + s->at, s->n - s->at);
    s->base += s->at;
    s->n -= s->at;
    s->at = 0;
    memcpy(s->buf + s->n, bytes, n);
    s->n += n;
}

static enum scan_kind need_more(struct scan *s)
{
    if (s->n - s->at > SCAN_TOKEN_MAX)
        return bad(s, ERR_LIMIT, "a text or number of more than 64 KiB");
    return SCAN_MORE;
}

/* ---- texts --------------------------------------------------------------------------------------
 */

static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int c = p[i], d = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

static size_t put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* \uXXXX at p (behind the backslash), with its second half; bytes taken, 0 when malformed. */
static size_t unescape_u(const char *p, const char *end, char *out, size_t *n_out)
{
    int hi = end - p >= 5 ? hex4(p + 1) : -1;
    if (hi <= 0 || (hi >= 0xdc00 && hi < 0xe000))
        return 0;
    if (hi < 0xd800 || hi >= 0xe000) {
        *n_out += put_utf8(out, (unsigned)hi);
        return 5;
    }
    int lo = end - p >= 11 && p[5] == '\\' && p[6] == 'u' ? hex4(p + 7) : -1;
    if (lo < 0xdc00 || lo >= 0xe000)
        return 0;
    *n_out += put_utf8(out, 0x10000u + ((unsigned)(hi - 0xd800) << 10) + (unsigned)(lo - 0xdc00));
    return 11;
}

/* One escape at p, behind the backslash; bytes taken, 0 when malformed.  Never longer than its source. */
static size_t unescape(const char *p, const char *end, char *out, size_t *n_out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (*p == 'u')
        return unescape_u(p, end, out, n_out);
    const char *k = *p ? strchr(from, *p) : NULL;
    if (!k)
        return 0;
    *out = to[k - from];
    *n_out += 1;
    return 1;
}

/* Text between quotes [p, end) into s->text. */
static enum scan_kind decode(struct scan *s, const char *p, const char *end, bool escaped,
                             struct scan_token *t)
{
    size_t n = 0;
    if (!escaped) {
        n = (size_t)(end - p);
        memcpy(s->text, p, n);
    }
    while (escaped && p < end) {
        if (*p != '\\') {
            s->text[n++] = *p++;
            continue;
        }
        size_t took = unescape(p + 1, end, s->text + n, &n);
        if (took == 0)
            return bad(s, ERR_PARSE, "a bad escape in a text");
        p += 1 + took;
    }
    s->text[n] = 0;
    *t = (struct scan_token){s->text, n};
    return SCAN_STRING;
}

/* At an opening quote. */
static enum scan_kind read_string(struct scan *s, struct scan_token *t)
{
    const char *p = s->buf + s->at + 1, *end = s->buf + s->n, *start = p;
    bool escaped = false, high = false;
    for (; p < end && *p != '"'; p++) {
        if ((unsigned char)*p < 0x20)
            return bad(s, ERR_PARSE, "a control character in a text");
        high |= (unsigned char)*p >= 0x80;
        if (*p == '\\') {
            escaped = true;
            if (++p == end)
                break;
        }
    }
    if (p >= end)
        return need_more(s);
    size_t n = (size_t)(p - start);
    if (n > SCAN_TOKEN_MAX)
        return bad(s, ERR_LIMIT, "a text of more than 64 KiB");
    if (high && utf8_valid_prefix(start, n) != n)
        return bad(s, ERR_PARSE, "a text that is not UTF-8");
    if (!decode(s, start, p, escaped, t))
        return SCAN_BAD;
    s->at += n + 2;
    return SCAN_STRING;
}

/* ---- numbers and words --------------------------------------------------------------------------
 */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* JSON's own grammar: no leading '+', '.', or zeros. */
static bool number_shape(const char *p, const char *end)
{
    if (p < end && *p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return false;
    if (*p == '0' && p + 1 < end && is_digit(p[1]))
        return false;
    while (p < end && is_digit(*p))
        p++;
    if (p < end && *p == '.') {
        if (++p == end || !is_digit(*p))
            return false;
        while (p < end && is_digit(*p))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || !is_digit(*p))
            return false;
        while (p < end && is_digit(*p))
            p++;
    }
    return p == end;
}

/* A number, true, false or null: it ends at a delimiter, which must be there (a document is never a bare
 * number here, so more always follows). */
static enum scan_kind read_word(struct scan *s, struct scan_token *t)
{
    const char *start = s->buf + s->at, *p = start, *end = s->buf + s->n;
    while (p < end && !strchr(",]} \t\r\n:\"[{", *p))
        p++;
    if (p == end)
        return need_more(s);
    size_t n = (size_t)(p - start);
    if (n == 0 || n > SCAN_TOKEN_MAX)
        return bad(s, n ? ERR_LIMIT : ERR_PARSE, "something that is no value");
    enum scan_kind kind = n == 4 && memcmp(start, "true", 4) == 0    ? SCAN_TRUE
                          : n == 5 && memcmp(start, "false", 5) == 0 ? SCAN_FALSE
                          : n == 4 && memcmp(start, "null", 4) == 0  ? SCAN_NULL
                          : number_shape(start, p)                   ? SCAN_NUMBER
                                                                     : SCAN_BAD;
    if (kind == SCAN_BAD)
        return bad(s, ERR_PARSE, "something that is no value");
    memcpy(s->text, start, n);
    s->text[n] = 0;
    *t = (struct scan_token){s->text, n};
    s->at += n;
    return kind;
}

/* ---- structure ----------------------------------------------------------------------------------
 */

static void after_value(struct scan *s)
{
    s->expect = s->depth ? WANT_COMMA_OR_END : WANT_NOTHING;
}

static enum scan_kind open_level(struct scan *s, bool array)
{
    if (s->depth == SCAN_DEPTH_MAX)
        return bad(s, ERR_LIMIT, "nested deeper than 64 levels");
    s->array[s->depth++] = array;
    s->expect = array ? WANT_VALUE_OR_END : WANT_KEY_OR_END;
    s->at++;
    return array ? SCAN_ARRAY : SCAN_OBJECT;
}

static enum scan_kind close_level(struct scan *s, bool array)
{
    bool fits = s->depth > 0 && s->array[s->depth - 1] == array &&
                (s->expect == WANT_COMMA_OR_END ||
                 s->expect == (array ? WANT_VALUE_OR_END : WANT_KEY_OR_END));
    if (!fits)
        return bad(s, ERR_PARSE, "a bracket that closes nothing");
    s->depth--;
    s->at++;
    after_value(s);
    return array ? SCAN_ARRAY_END : SCAN_OBJECT_END;
}

static enum scan_kind read_key(struct scan *s, struct scan_token *t)
{
    enum scan_kind kind = read_string(s, t);
    if (kind != SCAN_STRING)
        return kind;
    s->expect = WANT_COLON;
    return SCAN_KEY;
}

static enum scan_kind read_value(struct scan *s, char c, struct scan_token *t)
{
    if (c == '{' || c == '[')
        return open_level(s, c == '[');
    enum scan_kind kind = c == '"' ? read_string(s, t) : read_word(s, t);
    if (kind > SCAN_MORE)
        after_value(s);
    return kind;
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->n) {
        char c = s->buf[s->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
        s->at++;
    }
}

enum scan_kind scan_next(struct scan *s, struct scan_token *t)
{
    *t = (struct scan_token){"", 0};
    while (s->code == ERR_OK) {
        skip_blanks(s);
        if (s->at == s->n)
            return SCAN_MORE;
        char c = s->buf[s->at];
        if (s->expect == WANT_NOTHING)
            return bad(s, ERR_PARSE, "text after the document");
        if (c == ']' || c == '}')
            return close_level(s, c == ']');
        if (s->expect == WANT_COMMA_OR_END || s->expect == WANT_COLON) {
            if (c != (s->expect == WANT_COLON ? ':' : ','))
                return bad(s, ERR_PARSE,
                           s->expect == WANT_COLON ? "no colon after a key"
                                                   : "no comma between values");
            s->expect = s->expect == WANT_COLON || s->array[s->depth - 1] ? WANT_VALUE : WANT_KEY;
            s->at++;
            continue;
        }
        if (s->expect == WANT_VALUE || s->expect == WANT_VALUE_OR_END)
            return read_value(s, c, t);
        return c == '"' ? read_key(s, t) : bad(s, ERR_PARSE, "a key that is no text");
    }
    return SCAN_BAD;
}

/* ---- the numbers of the API ---------------------------------------------------------------------
 */

static const double ten_to[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* mantissa / 10^k, correctly rounded, where one division can tell.  With at most 53 bits above it is exact
 * in double (Clinger 1990).  With up to 64 bits the quotient is formed with a 64-bit significand; rounding
 * that to 53 bits is right unless its 11 spare bits lie at the halfway mark or within one unit of it, which
 * is left to strtod. */
static bool divide(uint64_t mantissa, unsigned k, double *v)
{
    if (mantissa < (uint64_t)1 << 53) {
        *v = (double)mantissa / ten_to[k];
        return true;
    }
#if defined __x86_64__
    long double q = (long double)mantissa / (long double)ten_to[k];
    uint64_t significand; /* the first eight bytes of an x87 number, leading one included */
    memcpy(&significand, &q, sizeof significand);
    uint64_t spare = significand & 0x7ff;
    if (spare >= 0x3ff && spare <= 0x401)
        return false;
    *v = (double)q;
    return true;
#else
    return false;
#endif
}

/* Plain decimals of at most 19 digits, which nearly all are.  [p, end) is digits with at most one point. */
static bool quick_decimal(const char *p, const char *end, double *v)
{
    bool minus = p < end && *p == '-';
    const char *q = p + minus;
    uint64_t mantissa = 0;
    const char *point = NULL, *first = q;
    for (; q < end; q++) {
        if (is_digit(*q))
            mantissa = mantissa * 10 + (uint64_t)(*q - '0');
        else if (*q == '.' && !point)
            point = q;
        else
            return false;
    }
    size_t digits = (size_t)(end - first) - (point != NULL);
    size_t decimals = point ? (size_t)(end - point) - 1 : 0;
    if (digits == 0 || digits > 19 || (point && decimals == 0) || point == first)
        return false;
    if (!divide(mantissa, (unsigned)decimals, v))
        return false;
    *v = minus ? -*v : *v;
    return true;
}

bool scan_value(const char *p, size_t n, double *v)
{
    if (quick_decimal(p, p + n, v))
        return true;
    if (n == 3 && memcmp(p, "NaN", 3) == 0) {
        *v = NAN;
        return true;
    }
    if (n == 4 && memcmp(p + 1, "Inf", 3) == 0 && (p[0] == '+' || p[0] == '-')) {
        *v = p[0] == '+' ? (double)INFINITY : -(double)INFINITY;
        return true;
    }
    return num_f64(p, n, v);
}

bool scan_time(const char *p, size_t n, int64_t *t_us)
{
    const char *end = p + n, *q = p + (n > 0 && *p == '-');
    int64_t v = 0;
    int decimals = -1;
    double d;
    for (; q < end && v < INT64_C(100000000000000000); q++) {
        if (is_digit(*q) && decimals < 6) {
            v = v * 10 + (*q - '0');
            decimals += decimals >= 0;
        } else if (*q == '.' && decimals < 0) {
            decimals = 0;
        } else {
            break;
        }
    }
    if (q == end && q > p + (*p == '-')) {
        for (int i = decimals < 0 ? 0 : decimals; i < 6; i++)
            if (__builtin_mul_overflow(v, 10, &v))
                return false;
        *t_us = *p == '-' ? -v : v;
        return true;
    }
    if (!num_f64(p, n, &d) || !(fabs(d) <= 9e12))
        return false;
    *t_us = llround(d * 1e6);
    return true;
}

bool scan_pair(struct scan *s, int64_t *t_us, double *v)
{
    enum { LONGEST = 96 };
    if (s->depth == 0 || s->depth == SCAN_DEPTH_MAX || !s->array[s->depth - 1] || s->code)
        return false;
    const char *p = s->buf + s->at, *end = s->buf + s->n;
    bool first = s->expect == WANT_VALUE_OR_END;
    if (s->expect == WANT_COMMA_OR_END && p < end && *p == ',')
        p++;
    else if (!first && s->expect != WANT_VALUE)
        return false;
    if (end - p < LONGEST || *p != '[')
        return false;
    const char *time = ++p, *stop = p + LONGEST - 4;
    while (p < stop && *p != ',')
        p++;
    size_t n_time = (size_t)(p - time);
    if (p == stop || p[1] != '"' || !number_shape(time, p))
        return false;
    const char *value = p += 2;
    while (p < stop && *p != '"')
        p++;
    if (p == stop || p[1] != ']' || !scan_value(value, (size_t)(p - value), v) ||
        !scan_time(time, n_time, t_us))
        return false;
    s->at = (size_t)(p + 2 - s->buf);
    s->expect = WANT_COMMA_OR_END;
    return true;
}
