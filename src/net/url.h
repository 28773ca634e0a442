#pragma once

#include <stdbool.h>

#include "base/bytes.h"
#include "base/error.h"

/* An http or https URL, taken apart. Parts are NUL-terminated copies. */
struct url {
    bool is_tls;
    char host[256]; /* without brackets when it is an IPv6 address */
    char port[6];
    char path[2048];    /* path and query, at least "/" */
    char userinfo[256]; /* "user:password", or empty */
};

/* True for what http_get() can fetch: http:// and https://. */
bool url_is_http(const char *text);

/* -EINVAL with what is wrong: scheme, host, port, length, or a control character. */
int url_parse(const char *text, struct url *ret, struct error *err);
