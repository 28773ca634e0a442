#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Who listens on a TCP address, or on one that covers it: "nginx (pid 812)". False when that cannot
 * be found out, as for another user's process. */
bool port_holder(const struct sockaddr *address, char *to, size_t size);
