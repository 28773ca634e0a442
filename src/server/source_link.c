#include "server/source_link.h"

#include <string.h>

#include "base/cleanup.h"
#include "server/source_path.h"

/* How hosts write "this file of that commit". The first whose word is in the host's name. */
static const struct {
    const char *host, *before, *between, *anchor;
} shapes[] = {
    {"gitlab", "/-/blob/", "/", "#L"},
    {"bitbucket", "/src/", "/", "#lines-"},
    {"gitea", "/src/commit/", "/", "#L"},
    {"codeberg", "/src/commit/", "/", "#L"},
    {"forgejo", "/src/commit/", "/", "#L"},
    {"sr.ht", "/tree/", "/item/", "#L"},
    {"", "/blob/", "/", "#L"}, /* GitHub, and what imitates it */
};

static bool is_plain(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '~';
}

static void add_escaped(struct buf *out, struct bytes text, const char *keep)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (is_plain(c) || (c != 0 && strchr(keep, c)))
            buf_add_byte(out, c);
        else
            buf_addf(out, "%%%02X", c);
    }
}

/* ---- Repositories */

static struct bytes without_suffix(struct bytes a, struct bytes suffix)
{
    while (a.len > 0 && a.data[a.len - 1] == '/')
        a.len--;
    if (a.len > suffix.len && bytes_equal(bytes_from(a, a.len - suffix.len), suffix))
        a.len -= suffix.len;
    return a;
}

/* Splits git@host:path and SCHEME://user@host:port/path. Ports of ssh are not those of the web. */
static bool split(struct bytes url, bool *is_plain_http, struct bytes *host, struct bytes *path)
{
    const uint8_t *scheme = bytes_find(url, BYTES("://"));
    struct bytes kind = scheme ? bytes_head(url, (size_t)(scheme - url.data)) : BYTES("ssh");
    bool is_web = bytes_are(kind, "https") || bytes_are(kind, "http") ||
                  bytes_are(kind, "git+https") || bytes_are(kind, "git+http");
    bool is_ssh = bytes_are(kind, "ssh") || bytes_are(kind, "git+ssh") || bytes_are(kind, "git");

    if (!is_web && !is_ssh)
        return false;
    *is_plain_http = bytes_are(kind, "http") || bytes_are(kind, "git+http");
    url = scheme ? bytes_from(url, kind.len + 3) : url;
    const uint8_t *end = bytes_find_byte(url, '/');
    const uint8_t *colon = scheme ? NULL : bytes_find_byte(url, ':');
    if (colon && (!end || colon < end))
        end = colon;
    if (!end)
        return false;
    *host = bytes_head(url, (size_t)(end - url.data));
    *path = bytes_from(url, host->len + 1);
    const uint8_t *at = bytes_find_last_byte(*host, '@');
    if (!at && !scheme)
        return false; /* a path, or a name of its own */
    if (at)
        *host = bytes_from(*host, (size_t)(at - host->data) + 1);
    const uint8_t *port = bytes_find_byte(*host, ':');
    if (port && is_ssh)
        host->len = (size_t)(port - host->data);
    return host->len > 0 && path->len > 0;
}

bool source_repository(struct bytes url, struct buf *out)
{
    struct bytes host, path;
    bool is_http;

    if (!split(bytes_trim(url), &is_http, &host, &path))
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (!is_plain(host.data[i]) && host.data[i] != ':')
            return false;
    path = without_suffix(path, BYTES(".git"));
    while (path.len > 0 && path.data[0] == '/')
        path = bytes_from(path, 1);
    if (path.len == 0)
        return false;
    buf_add_str(out, is_http ? "http://" : "https://");
    buf_add_bytes(out, host);
    buf_add_byte(out, '/');
    add_escaped(out, path, "/");
    return true;
}

/* ---- Where a file lies in its repository */

/* What lies behind the last folder that is called as the repository is: "/home/runner/work/shop/
 * shop/src/cart.c", "github.com/x/shop/cart.go". */
static bool behind_repository(struct bytes path, struct bytes repository, struct bytes *ret)
{
    repository = without_suffix(repository, BYTES(".git"));
    const uint8_t *slash = bytes_find_last_byte(repository, '/');
    struct bytes name =
        slash ? bytes_from(repository, (size_t)(slash - repository.data) + 1) : repository;
    bool is_found = false;

    for (size_t i = 0; name.len > 0 && i + name.len < path.len; i++) {
        struct bytes at = bytes_from(path, i);
        if ((i == 0 || path.data[i - 1] == '/') && bytes_start_with(at, name) &&
            (at.data[name.len] == '/' || at.data[name.len] == '@')) {
            const uint8_t *next = bytes_find_byte(bytes_from(at, name.len), '/');
            if (!next)
                continue;
            *ret = bytes_from(at, (size_t)(next - at.data) + 1);
            is_found = ret->len > 0;
        }
    }
    return is_found;
}

static bool place_in_tree(const struct source_place *p, const struct source_link_options *o,
                          struct bytes *ret)
{
    struct bytes path = source_path_plain(p->path);

    if (p->in_tree.len > 0) {
        *ret = p->in_tree;
        return true;
    }
    for (size_t i = 0; o->strip && i < o->strip->n; i++)
        if (source_path_below(path, bytes_of(o->strip->items[i]), ret))
            return true;
    if (behind_repository(path, p->repository, ret))
        return true;
    *ret = path;
    return path.len > 0 && path.data[0] != '/' && !(path.len > 1 && path.data[1] == ':');
}

/* ---- Templates */

static void add_field(const struct source_place *p, struct bytes name, struct bytes path,
                      struct buf *out)
{
    CLEANUP(buf_done) struct buf repository = {0};

    if (bytes_are(name, "repository")) {
        if (source_repository(p->repository, &repository))
            buf_add_bytes(out, buf_bytes(&repository));
    } else if (bytes_are(name, "commit")) {
        add_escaped(out, p->commit.len > 0 ? p->commit : p->version, "");
    } else if (bytes_are(name, "service")) {
        add_escaped(out, p->service, "");
    } else if (bytes_are(name, "version")) {
        add_escaped(out, p->version, "");
    } else if (bytes_are(name, "path")) {
        add_escaped(out, path, "/");
    } else if (bytes_are(name, "line")) {
        buf_add_u64(out, p->line > 0 ? p->line : 1);
    }
}

static void fill_template(const struct source_place *p, struct bytes text, struct bytes path,
                          struct buf *out)
{
    while (text.len > 0) {
        const uint8_t *open = bytes_find_byte(text, '{');
        size_t plain = open ? (size_t)(open - text.data) : text.len;
        buf_add_bytes(out, bytes_head(text, plain));
        text = bytes_from(text, plain);
        const uint8_t *close = bytes_find_byte(text, '}');
        if (!close)
            return;
        size_t len = (size_t)(close - text.data);
        add_field(p, bytes_from(bytes_head(text, len), 1), path, out);
        text = bytes_from(text, len + 1);
    }
}

bool source_link(const struct source_place *p, const struct source_link_options *o, struct buf *out,
                 const char **ret_anchor)
{
    struct bytes path;
    size_t i = 0, from = out->len;

    *ret_anchor = "";
    if (!place_in_tree(p, o, &path))
        return false;
    if (o->template && o->template[0]) {
        fill_template(p, bytes_of(o->template), path, out);
        struct bytes made = bytes_from(buf_bytes(out), from);
        return bytes_start_with(made, BYTES("https://")) ||
               bytes_start_with(made, BYTES("http://"));
    }
    if (p->commit.len == 0 || !source_repository(p->repository, out))
        return false;
    struct bytes repository = bytes_from(buf_bytes(out), from);
    const uint8_t *slash = bytes_find_byte(bytes_from(repository, strlen("https://")), '/');
    struct bytes host =
        slash ? bytes_head(repository, (size_t)(slash - repository.data)) : repository;
    while (shapes[i].host[0] && !bytes_find(host, bytes_of(shapes[i].host)))
        i++;
    buf_add_str(out, shapes[i].before);
    add_escaped(out, p->commit, "");
    buf_add_str(out, shapes[i].between);
    add_escaped(out, path, "/");
    *ret_anchor = p->line > 0 ? "" : shapes[i].anchor;
    if (p->line > 0)
        buf_addf(out, "%s%llu", shapes[i].anchor, (unsigned long long)p->line);
    return true;
}
