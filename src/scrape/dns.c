#include "scrape/dns.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define ANSWER_MAX ((size_t)64 << 10)
#define TIMEOUT_S  2
#define TRIES      2

static bool parse_server(const char *server, struct sockaddr_in *ret)
{
    char host[INET_ADDRSTRLEN] = "";
    uint64_t port = NAMESERVER_PORT;
    size_t n = strcspn(server, ":");

    if (n >= sizeof(host))
        return false;
    memcpy(host, server, n);
    *ret = (struct sockaddr_in){.sin_family = AF_INET};
    if (server[n] && (!bytes_to_u64(bytes_of(server + n + 1), &port) || port == 0 || port > 65535))
        return false;
    ret->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &ret->sin_addr) == 1;
}

bool dns_server_is_sound(const char *server)
{
    struct sockaddr_in to;

    return parse_server(server, &to);
}

static void add_target(const struct dns_question *q, const char *host, uint16_t port,
                       struct tags_list *to)
{
    char address[NS_MAXDNAME + 16], text[8];
    struct tags t = {0};
    size_t n = strlen(host);

    /* Names come with the dot of the root. */
    if (n > 1 && host[n - 1] == '.')
        n--;
    snprintf(text, sizeof(text), "%u", port);
    snprintf(address, sizeof(address), strchr(host, ':') ? "[%.*s]:%s" : "%.*s:%s", (int)n, host,
             text);
    tags_set(&t, BYTES("__address__"), bytes_of(address));
    tags_set(&t, BYTES("__meta_dns_name"), bytes_of(q->name));
    if (strcmp(q->type, "SRV") == 0) {
        tags_set(&t, BYTES("__meta_dns_srv_record_target"), bytes_of(host));
        tags_set(&t, BYTES("__meta_dns_srv_record_port"), bytes_of(text));
    }
    tags_list_push(to, t);
}

static ns_type type_number(const char *type)
{
    return strcmp(type, "SRV") == 0 ? ns_t_srv : strcmp(type, "AAAA") == 0 ? ns_t_aaaa : ns_t_a;
}

/* One record of an answer. */
static bool add_record(const struct dns_question *q, const ns_msg *answer, const ns_rr *rr,
                       struct tags_list *to)
{
    const uint8_t *data = ns_rr_rdata(*rr);
    size_t len = ns_rr_rdlen(*rr);
    char host[NS_MAXDNAME];

    if (ns_rr_type(*rr) != type_number(q->type))
        return true; /* an alias on the way */
    switch (ns_rr_type(*rr)) {
    case ns_t_srv:
        /* priority, weight, port, name */
        if (len < 7 || ns_name_uncompress(ns_msg_base(*answer), ns_msg_end(*answer), data + 6, host,
                                          sizeof(host)) < 0)
            return false;
        /* A lone dot: there is no such service. */
        if (strcmp(host, ".") != 0 && host[0])
            add_target(q, host, (uint16_t)(data[4] << 8 | data[5]), to);
        return true;
    case ns_t_a:
    case ns_t_aaaa:
        if (len != (ns_rr_type(*rr) == ns_t_a ? 4 : 16) ||
            !inet_ntop(len == 4 ? AF_INET : AF_INET6, data, host, sizeof(host)))
            return false;
        add_target(q, host, q->port, to);
        return true;
    default:
        return true;
    }
}

static int read_answer(const struct dns_question *q, const uint8_t *data, int len,
                       struct tags_list *to, struct error *err)
{
    ns_msg answer;
    ns_rr rr;

    if (ns_initparse(data, len, &answer) < 0)
        return error_set(err, -EBADMSG, "the answer of DNS for \"%.200s\" is malformed", q->name);
    for (int i = 0; i < ns_msg_count(answer, ns_s_an) && to->n < DNS_ANSWERS_MAX; i++) {
        if (ns_parserr(&answer, ns_s_an, i, &rr) < 0 || !add_record(q, &answer, &rr, to))
            return error_set(err, -EBADMSG, "the answer of DNS for \"%.200s\" is malformed",
                             q->name);
    }
    return 0;
}

static int ask(const struct dns_question *q, struct tags_list *to, struct error *err)
{
    struct __res_state state = {0};
    uint8_t *answer = malloc(ANSWER_MAX);

    if (!answer || res_ninit(&state) < 0) {
        free(answer);
        return error_set(err, -EIO, "could not start a question to DNS");
    }
    state.retrans = TIMEOUT_S;
    state.retry = TRIES;
    if (q->server[0] && parse_server(q->server, &state.nsaddr_list[0]))
        state.nscount = 1;
    int n =
        res_nquery(&state, q->name, ns_c_in, (int)type_number(q->type), answer, (int)ANSWER_MAX);
    int why = state.res_h_errno;
    res_nclose(&state);
    int r = 0;
    if (n >= 0)
        r = read_answer(q, answer, n < (int)ANSWER_MAX ? n : (int)ANSWER_MAX, to, err);
    else
        r = error_set(err, why == HOST_NOT_FOUND || why == NO_DATA ? -ENOENT : -EAGAIN,
                      "DNS has no %s of \"%.200s\": %s", q->type, q->name, hstrerror(why));
    free(answer);
    return r;
}

/* As programs do, so that /etc/hosts counts. */
static int look_up(const struct dns_question *q, struct tags_list *to, struct error *err)
{
    struct addrinfo hints = {.ai_family = strcmp(q->type, "A") == 0 ? AF_INET : AF_INET6,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int r = getaddrinfo(q->name, NULL, &hints, &found);
    char host[NI_MAXHOST];

    if (r != 0)
        return error_set(err, r == EAI_NONAME || r == EAI_NODATA ? -ENOENT : -EAGAIN,
                         "there is no %s of \"%.200s\": %s", q->type, q->name, gai_strerror(r));
    for (const struct addrinfo *a = found; a && to->n < DNS_ANSWERS_MAX; a = a->ai_next) {
        if (getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST) ==
            0)
            add_target(q, host, q->port, to);
    }
    freeaddrinfo(found);
    return 0;
}

int dns_find(const struct dns_question *q, struct tags_list *ret, struct error *err)
{
    struct tags_list found = {0};
    bool is_plain = strcmp(q->type, "SRV") != 0 && !q->server[0];
    int r = is_plain ? look_up(q, &found, err) : ask(q, &found, err);

    for (size_t i = 0; r == 0 && i < found.n; i++)
        tags_list_push(ret, found.items[i]);
    if (r == 0)
        found.n = 0; /* they are the caller's now */
    tags_list_done(&found);
    return r;
}
