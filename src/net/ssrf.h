#pragma once

#include <sys/socket.h>

/*
 * Where a URL that somebody else chose (a debuginfod server, a webhook, a redirect) must not lead:
 * this machine, its networks, and what clouds put there. The rules are about addresses, after names
 * were resolved, so that no spelling of a host gets around them: 2130706433, 0x7f.1 and a DNS name
 * for 127.0.0.1 are all the same address.
 */

/* What speaks against connecting there, "a loopback address"; NULL for public unicast addresses. */
const char *ssrf_objection(const struct sockaddr *address);
