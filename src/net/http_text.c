/* http_text.c - small text work of HTTP: percent-encoding, response headers, the wait between
 * attempts. */
#include "net/http_priv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/num.h"

void http_escape(struct buf *out, const char *s)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~", c);
        if (plain) {
            buf_char(out, (char)c);
        } else {
            buf_char(out, '%');
            buf_char(out, hex[c >> 4]);
            buf_char(out, hex[c & 15]);
        }
    }
}

int64_t http_backoff_us(int attempt, int64_t base_us, int64_t max_us, double random)
{
    int64_t window_us = base_us < max_us ? base_us : max_us;
    for (int i = 1; i < attempt && window_us < max_us; i++)
        window_us = window_us > max_us / 2 ? max_us : window_us * 2;
    return (int64_t)((double)window_us * random);
}

const char *http_method_name(enum http_method m)
{
    static const char *const names[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    return names[m];
}

void http_headers_clear(struct http_headers *h)
{
    size_t n_bytes = h->n_bytes;
    *h = (struct http_headers){
        .retry_after_us = -1, .retry_date_us = -1, .date_us = -1, .n_bytes = n_bytes};
}

/* curl_getdate wants a C string; dates are short. */
static int64_t date_us(const char *value, size_t n)
{
    char text[64];
    if (n >= sizeof text)
        return -1;
    memcpy(text, value, n);
    text[n] = '\0';
    time_t t = curl_getdate(text, NULL);
    return t < 0 ? -1 : (int64_t)t * US_PER_S;
}

static void read_retry_after(struct http_headers *h, const char *value, size_t n)
{
    uint64_t seconds;
    if (num_u64(value, n, &seconds))
        h->retry_after_us = seconds > 86400 ? US_PER_DAY : (int64_t)seconds * US_PER_S;
    else
        h->retry_date_us = date_us(value, n);
}

static void read_content_type(struct http_headers *h, const char *value, size_t n)
{
    const char *end = memchr(value, ';', n);
    n = end ? (size_t)(end - value) : n;
    while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
        n--;
    if (n >= sizeof h->content_type)
        n = sizeof h->content_type - 1;
    for (size_t i = 0; i < n; i++) {
        char c = value[i];
        h->content_type[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    h->content_type[n] = '\0';
}

void http_headers_line(struct http_headers *h, const char *line, size_t n)
{
    const char *colon = memchr(line, ':', n);
    if (!colon)
        return;
    size_t n_name = (size_t)(colon - line);
    const char *value = colon + 1, *end = line + n;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && strchr(" \t\r\n", end[-1]))
        end--;
    size_t n_value = (size_t)(end - value);
    if (n_name == 11 && strncasecmp(line, "Retry-After", 11) == 0)
        read_retry_after(h, value, n_value);
    else if (n_name == 12 && strncasecmp(line, "Content-Type", 12) == 0)
        read_content_type(h, value, n_value);
    else if (n_name == 4 && strncasecmp(line, "Date", 4) == 0)
        h->date_us = date_us(value, n_value);
}

int64_t http_headers_retry_us(const struct http_headers *h, int64_t wall_us)
{
    if (h->retry_after_us >= 0 || h->retry_date_us < 0)
        return h->retry_after_us;
    int64_t now_us = h->date_us >= 0 ? h->date_us : wall_us; /* by the clock that wrote it */
    int64_t wait_us = h->retry_date_us - now_us;
    return wait_us < 0 ? 0 : wait_us > US_PER_DAY ? US_PER_DAY : wait_us;
}
