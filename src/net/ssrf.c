#include "net/ssrf.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

struct v4_range {
    uint32_t net;
    int bits;
    const char *what;
};

/* Everything that IANA lists as not globally reachable, and what is no unicast. */
static const struct v4_range v4_ranges[] = {
    {0x00000000, 8, "an address of this host"},
    {0x0a000000, 8, "a private address"},
    {0x64400000, 10, "an address of a provider's own network"},
    {0x7f000000, 8, "a loopback address"},
    {0xa9fe0000, 16, "a link-local address"},
    {0xac100000, 12, "a private address"},
    {0xc0000000, 24, "a reserved address"},
    {0xc0000200, 24, "an address for documentation"},
    {0xc0586300, 24, "a relay address"},
    {0xc0a80000, 16, "a private address"},
    {0xc6120000, 15, "an address for benchmarks"},
    {0xc6336400, 24, "an address for documentation"},
    {0xcb007100, 24, "an address for documentation"},
    {0xe0000000, 4, "a multicast address"},
    {0xf0000000, 4, "a reserved address"},
};

static const char *v4_objection(uint32_t address)
{
    for (size_t i = 0; i < ARRAY_SIZE(v4_ranges); i++) {
        if ((address ^ v4_ranges[i].net) >> (32 - v4_ranges[i].bits) == 0)
            return v4_ranges[i].what;
    }
    return NULL;
}

struct v6_range {
    uint8_t net[16];
    int bits;
    const char *what;
};

/* Of 2000::/3 what is not globally reachable or holds an IPv4 address; of the rest the names that
 * people know. */
static const struct v6_range v6_ranges[] = {
    {{0}, 128, "an address of this host"},
    {{[15] = 1}, 128, "a loopback address"},
    {{[10] = 0xff, 0xff}, 96, "an IPv4 address in disguise"},
    {{0x00, 0x64, 0xff, 0x9b}, 96, "an IPv4 address in disguise"},
    {{0x20, 0x02}, 16, "an IPv4 address in disguise"},
    {{0x20, 0x01}, 23, "a reserved address"},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "an address for documentation"},
    {{0x3f, 0xff}, 20, "an address for documentation"},
    {{0xfc}, 7, "a private address"},
    {{0xfe, 0x80}, 10, "a link-local address"},
    {{0xff}, 8, "a multicast address"},
};

static bool v6_within(const uint8_t address[16], const struct v6_range *range)
{
    size_t whole = (size_t)range->bits / 8;
    int rest = range->bits % 8;

    return memcmp(address, range->net, whole) == 0 &&
           (rest == 0 || (address[whole] ^ range->net[whole]) >> (8 - rest) == 0);
}

static const char *v6_objection(const uint8_t address[16])
{
    for (size_t i = 0; i < ARRAY_SIZE(v6_ranges); i++) {
        if (v6_within(address, &v6_ranges[i]))
            return v6_ranges[i].what;
    }
    return address[0] >> 5 == 1 ? NULL : "a reserved address"; /* 2000::/3 is what is handed out */
}

const char *ssrf_objection(const struct sockaddr *address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    switch (address->sa_family) {
    case AF_INET:
        memcpy(&v4, address, sizeof(v4));
        return v4_objection(ntohl(v4.sin_addr.s_addr));
    case AF_INET6:
        memcpy(&v6, address, sizeof(v6));
        return v6_objection(v6.sin6_addr.s6_addr);
    default:
        return "no internet address";
    }
}
