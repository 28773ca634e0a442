#include "net/url.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool url_is_http(const char *text)
{
    return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

static bool copy_part(char *to, size_t size, const char *from, size_t len)
{
    if (len >= size)
        return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

static int parse_host(const char *authority, size_t len, struct url *u, const char *text,
                      struct error *err)
{
    const char *end = authority + len, *at = memchr(authority, '@', len);
    if (at && at < end) {
        if (!copy_part(u->userinfo, sizeof(u->userinfo), authority, (size_t)(at - authority)))
            return error_set(err, -EINVAL, "user name in \"%s\" is too long", text);
        authority = at + 1;
    }
    const char *host_end;
    if (authority < end && *authority == '[') {
        authority++;
        host_end = memchr(authority, ']', (size_t)(end - authority));
        if (!host_end)
            return error_set(err, -EINVAL, "\"%s\" has a \"[\" without its \"]\"", text);
    } else {
        host_end = authority;
        while (host_end < end && *host_end != ':')
            host_end++;
    }
    if (host_end == authority ||
        !copy_part(u->host, sizeof(u->host), authority, (size_t)(host_end - authority)))
        return error_set(err, -EINVAL, "\"%s\" has no host, or one that is too long", text);
    if (host_end < end && *host_end == ']')
        host_end++;
    if (host_end == end) {
        snprintf(u->port, sizeof(u->port), "%s", u->is_tls ? "443" : "80");
        return 0;
    }
    uint64_t port;
    struct bytes digits = {(const uint8_t *)host_end + 1, (size_t)(end - host_end) - 1};
    if (*host_end != ':' || !bytes_to_u64(digits, &port) || port == 0 || port > 65535)
        return error_set(err, -EINVAL, "\"%s\" has a bad port", text);
    snprintf(u->port, sizeof(u->port), "%u", (unsigned)port);
    return 0;
}

int url_parse(const char *text, struct url *ret, struct error *err)
{
    struct url u = {.is_tls = strncasecmp(text, "https://", 8) == 0};

    if (!url_is_http(text))
        return error_set(err, -EINVAL, "\"%s\" is not an http:// or https:// address", text);
    for (const char *c = text; *c; c++) {
        if (iscntrl((unsigned char)*c) || *c == ' ')
            return error_set(err, -EINVAL, "\"%s\" has a space or control character in it", text);
    }
    const char *authority = text + (u.is_tls ? 8 : 7);
    size_t len = strcspn(authority, "/?#");
    int r = parse_host(authority, len, &u, text, err);
    if (r < 0)
        return r;
    const char *path = authority + len;
    size_t path_len = strcspn(path, "#");
    int n =
        snprintf(u.path, sizeof(u.path), "%s%.*s", *path == '/' ? "" : "/", (int)path_len, path);
    if (n < 0 || (size_t)n >= sizeof(u.path))
        return error_set(err, -EINVAL, "\"%s\" is too long", text);
    *ret = u;
    return 0;
}

void url_add_authority(const struct url *u, struct buf *out)
{
    bool v6 = strchr(u->host, ':') != NULL;

    buf_addf(out, "%s%s%s", v6 ? "[" : "", u->host, v6 ? "]" : "");
    if (strcmp(u->port, u->is_tls ? "443" : "80") != 0)
        buf_addf(out, ":%s", u->port);
}

bool url_same_origin(const struct url *a, const struct url *b)
{
    return a->is_tls == b->is_tls && strcasecmp(a->host, b->host) == 0 &&
           strcmp(a->port, b->port) == 0;
}

void url_add_escaped(struct buf *out, struct bytes text, const char *keep)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if ((c < 0x80 && isalnum(c)) || (c && (strchr("-._~", c) || strchr(keep, c))))
            buf_add_byte(out, c);
        else
            buf_addf(out, "%%%02X", c);
    }
}
