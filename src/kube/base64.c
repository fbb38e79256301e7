/* base64.c - RFC 4648 section 4, as kubeconfig files and Secrets hold it. */
#include <string.h>

#include "base/mem.h"
#include "kube/config_priv.h"

static int digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

bool base64_decode(const char *s, char **out, size_t *n_out)
{
    size_t n = 0, n_digits = 0, n_pads = 0;
    unsigned bits = 0;
    char *p = mem_zero(strlen(s) / 4 * 3 + 4, 1);
    bool good = true;
    for (; *s && good; s++) {
        if (strchr(" \t\r\n", *s))
            continue;
        int d = digit(*s);
        if (*s == '=') {
            n_pads++;
        } else if (d < 0 || n_pads) {
            good = false;
        } else {
            bits = bits << 6 | (unsigned)d;
            if (++n_digits % 4 != 1)
                p[n++] = (char)(unsigned char)(bits >> (6 - 2 * ((n_digits + 3) % 4)));
        }
    }
    static const size_t pads[] = {0, 9, 2, 1}; /* 9: one digit alone is nothing */
    good = good && n_pads == pads[n_digits % 4];
    if (!good) {
        explicit_bzero(p, n);
        mem_free(p);
        return false;
    }
    *out = p;
    *n_out = n;
    return true;
}
