#include "tests/support/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/test.h"

uint16_t test_free_port(void)
{
    enum { FIRST = 20000, PORTS = 12000 };
    int64_t start = clock_mono_us();
    for (int i = 0; i < PORTS; i++) {
        uint16_t port = (uint16_t)(FIRST + (start + i) % PORTS);
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool free = s >= 0 && bind(s, (struct sockaddr *)&a, sizeof a) == 0;
        (void)close(s);
        if (free)
            return port;
    }
    fail_msg("no free port");
    return 0;
}
