#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

/* An http or https URL, taken apart. Parts are NUL-terminated copies. */
struct url {
    bool is_tls;
    char host[256]; /* without brackets when it is an IPv6 address */
    char port[6];
    char path[8192];    /* path and query, at least "/" */
    char userinfo[256]; /* "user:password", or empty */
};

/* True for what http_get() can fetch: http:// and https://. */
bool url_is_http(const char *text);

/* -EINVAL with what is wrong: scheme, host, port, length, or a control character. */
int url_parse(const char *text, struct url *ret, struct error *err);

/* "host:port" as a Host header has it: brackets around IPv6, no port that the scheme implies. */
void url_add_authority(const struct url *u, struct buf *out);

/* Whether both lead to the same server: scheme, host and port. */
bool url_same_origin(const struct url *a, const struct url *b);

/* Appends text for a query's value or one part of a path: all but letters, digits and "-._~" as
 * %XX. `keep` are more characters to leave as they are. */
void url_add_escaped(struct buf *out, struct bytes text, const char *keep);
