#include <errno.h>
#include <netdb.h>

#include "lib/test.h"
#include "net/http_client.h"
#include "net/ssrf.h"

/* What the rules say of a numeric address, "" when nothing speaks against it. */
static const char *objection(const char *text)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *a;

    if (getaddrinfo(text, NULL, &hints, &a) != 0)
        return "(no address)";
    const char *why = ssrf_objection(a->ai_addr);
    freeaddrinfo(a);
    return why ? why : "";
}

static void special_ipv4_addresses_are_refused(struct test *t)
{
    CHECK_STR(t, objection("127.0.0.1"), "a loopback address");
    CHECK_STR(t, objection("127.255.255.254"), "a loopback address");
    CHECK_STR(t, objection("0.0.0.0"), "an address of this host");
    CHECK_STR(t, objection("10.1.2.3"), "a private address");
    CHECK_STR(t, objection("172.16.0.1"), "a private address");
    CHECK_STR(t, objection("172.31.255.255"), "a private address");
    CHECK_STR(t, objection("192.168.1.1"), "a private address");
    CHECK_STR(t, objection("169.254.169.254"), "a link-local address");
    CHECK_STR(t, objection("100.100.100.200"), "an address of a provider's own network");
    CHECK_STR(t, objection("224.0.0.1"), "a multicast address");
    CHECK_STR(t, objection("239.255.255.255"), "a multicast address");
    CHECK_STR(t, objection("255.255.255.255"), "a reserved address");
    CHECK_STR(t, objection("198.18.0.1"), "an address for benchmarks");
}

static void public_addresses_are_not(struct test *t)
{
    static const char *const all[] = {"8.8.8.8",         "1.1.1.1",          "172.15.255.255",
                                      "172.32.0.0",      "11.0.0.0",         "9.255.255.255",
                                      "100.63.255.255",  "100.128.0.0",      "192.167.255.255",
                                      "223.255.255.255", "126.255.255.255",  "128.0.0.0",
                                      "2606:4700::1111", "2a00:1450:4001::1"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        CHECK_STR(t, objection(all[i]), "");
}

static void special_ipv6_addresses_are_refused(struct test *t)
{
    CHECK_STR(t, objection("::1"), "a loopback address");
    CHECK_STR(t, objection("::"), "an address of this host");
    CHECK_STR(t, objection("::ffff:127.0.0.1"), "an IPv4 address in disguise");
    CHECK_STR(t, objection("::ffff:8.8.8.8"), "an IPv4 address in disguise");
    CHECK_STR(t, objection("64:ff9b::7f00:1"), "an IPv4 address in disguise");
    CHECK_STR(t, objection("2002:7f00:1::"), "an IPv4 address in disguise");
    CHECK_STR(t, objection("fe80::1"), "a link-local address");
    CHECK_STR(t, objection("fd00:ec2::254"), "a private address");
    CHECK_STR(t, objection("ff02::1"), "a multicast address");
    CHECK_STR(t, objection("2001:db8::1"), "an address for documentation");
    CHECK_STR(t, objection("2001::1"), "a reserved address");
    CHECK_STR(t, objection("::127.0.0.1"), "a reserved address");
    CHECK_STR(t, objection("4000::1"), "a reserved address");
}

static void sockets_that_are_not_of_the_internet_are_refused(struct test *t)
{
    CHECK_STR(t, ssrf_objection(&(struct sockaddr){.sa_family = AF_UNIX}), "no internet address");
}

/* Hosts as attackers write them: each is looked up, and what it means is refused. */
static void no_spelling_of_a_host_gets_around(struct test *t)
{
    static const char *const hosts[] = {"127.0.0.1",
                                        "2130706433",
                                        "0x7f000001",
                                        "0x7f.1",
                                        "0177.0.0.1",
                                        "127.1",
                                        "0",
                                        "0.0.0.0",
                                        "[::1]",
                                        "[::]",
                                        "[::ffff:127.0.0.1]",
                                        "localhost",
                                        "017700000001",
                                        "169.254.169.254",
                                        "[fe80::1]",
                                        "2852039166",
                                        "10.0.0.1"};
    struct http_client_options o = {.deny_private = true, .connect_s = 1, .silence_s = 1};
    CLEANUP(http_client_freep) struct http_client *c = http_client_new(&o);
    struct budget b;
    budget_init(&b, 1 << 20);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        char url[128];
        struct http_answer a;
        struct error err = {""};
        snprintf(url, sizeof(url), "http://%s:9/latest/meta-data", hosts[i]);
        int r = http_fetch(c, &(struct http_fetch){.url = url}, &b, &a, &err);
        if (r != -EACCES)
            printf("# %s: %s\n", url, err.text);
        CHECK_INT(t, r, -EACCES);
        CHECK(t, strncmp(err.text, "refused to connect to ", 22) == 0);
    }
}

static const struct test_case cases[] = {
    TEST(special_ipv4_addresses_are_refused),
    TEST(public_addresses_are_not),
    TEST(special_ipv6_addresses_are_refused),
    TEST(sockets_that_are_not_of_the_internet_are_refused),
    TEST(no_spelling_of_a_host_gets_around),
};
TEST_MAIN(cases)
