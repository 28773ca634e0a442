#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "scrape/tags.h"

#define DNS_ANSWERS_MAX 512

struct dns_question {
    const char *name;
    const char *type;   /* "A", "AAAA", "SRV" */
    uint16_t port;      /* of targets; SRV answers have their own */
    const char *server; /* "10.0.0.1", "10.0.0.1:53"; "" those of the system */
};

/*
 * Targets by DNS, each with __address__ and __meta_dns_name, appended to `ret`. Blocks for some
 * seconds at most. -ENOENT: no such name; -EAGAIN: no answer; -EBADMSG: an answer that is none.
 */
int dns_find(const struct dns_question *q, struct tags_list *ret, struct error *err);

/* An IPv4 address, with a port or without. */
bool dns_server_is_sound(const char *server);
