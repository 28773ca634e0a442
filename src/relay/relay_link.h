#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "relay/relay.h"

/*
 * Messages between the agent and its relay, one datagram each over a pair of sequenced-packet
 * sockets. What is larger than LINK_INLINE_MAX travels in a memfd, by its descriptor. Neither side
 * ever waits.
 */
#define LINK_INLINE_MAX ((size_t)64 << 10)

struct link_message {
    enum relay_kind kind;
    struct buf data; /* kept from message to message */
    int fd;          /* that came along, for the callee to close; -1: none */
};

/* `fd` goes along unless it is -1. 0, -EAGAIN (no room now), -EPIPE (nobody there), -EMSGSIZE, or
 * what prevented it. */
int link_send(int socket, enum relay_kind kind, struct bytes data, int fd);

/*
 * 1 and a message, 0 when there is none now, -EPIPE at the end, -EBADMSG when it is none of ours.
 * The agent trusts the relay less than the relay trusts the agent: without `takes_fds` descriptors
 * are refused, and so whatever lies in one.
 */
int link_receive(int socket, bool takes_fds, struct link_message *ret);
