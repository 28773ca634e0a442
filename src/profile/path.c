#include "profile/path.h"

/* Takes off the last element of what was written since `from`, with its slash. */
static void drop_element(struct buf *out, size_t from)
{
    while (out->len > from && out->data[out->len - 1] != '/')
        out->len--;
    if (out->len > from)
        out->len--;
}

void path_clean(struct bytes path, struct buf *out)
{
    bool is_rooted = path.len > 0 && path.data[0] == '/';
    if (is_rooted)
        buf_add_byte(out, '/');
    size_t from = out->len;
    size_t fixed = from; /* elements before here are ".." and stay */

    for (size_t i = 0; i < path.len;) {
        const uint8_t *slash = memchr(path.data + i, '/', path.len - i);
        size_t end = slash ? (size_t)(slash - path.data) : path.len;
        struct bytes element = {path.data + i, end - i};
        i = end + 1;
        if (element.len == 0 || bytes_are(element, "."))
            continue;
        bool is_up = bytes_are(element, "..");
        if (is_up && out->len > fixed) {
            drop_element(out, fixed);
            continue;
        }
        if (is_up && is_rooted)
            continue;
        if (out->len > from)
            buf_add_byte(out, '/');
        buf_add_bytes(out, element);
        if (is_up)
            fixed = out->len;
    }
    if (out->len == from && !is_rooted)
        buf_add_byte(out, '.');
}

struct bytes path_base(struct bytes path)
{
    if (path.len == 0)
        return BYTES(".");
    while (path.len > 0 && path.data[path.len - 1] == '/')
        path.len--;
    if (path.len == 0)
        return BYTES("/");
    const uint8_t *slash = memrchr(path.data, '/', path.len);
    return slash ? bytes_from(path, (size_t)(slash - path.data) + 1) : path;
}

/* The next element of a colon-separated list; false at its end. */
static bool next_in_list(const char **list, struct bytes *ret)
{
    if (!*list || !**list)
        return false;
    const char *colon = strchrnul(*list, ':');
    *ret = (struct bytes){(const uint8_t *)*list, (size_t)(colon - *list)};
    *list = *colon ? colon + 1 : colon;
    return true;
}

/* What follows "/NAME/" in path; false when it is not there. */
static bool after_directory(struct bytes path, struct bytes name, struct bytes *ret)
{
    struct bytes rest = path;
    const uint8_t *at;

    while (name.len > 0 && (at = bytes_find(rest, name))) {
        size_t i = (size_t)(at - path.data), end = i + name.len;
        if (i > 0 && path.data[i - 1] == '/' && end < path.len && path.data[end] == '/') {
            *ret = bytes_from(path, end + 1);
            return true;
        }
        rest = bytes_from(path, i + 1);
    }
    return false;
}

/* What follows the prefix and a slash; false when path does not start so. */
static bool after_prefix(struct bytes path, struct bytes prefix, struct bytes *ret)
{
    if (!bytes_start_with(path, prefix))
        return false;
    struct bytes rest = bytes_from(path, prefix.len);
    if (prefix.len == 0 || prefix.data[prefix.len - 1] != '/') {
        if (rest.len == 0 || rest.data[0] != '/')
            return false;
        rest = bytes_from(rest, 1);
    }
    *ret = rest;
    return true;
}

struct bytes path_trim(struct bytes path, const char *trim, const char *search)
{
    static const char always[] = "/proc/self/cwd/./:/proc/self/cwd/";
    const char *lists[] = {trim, always};
    struct bytes element, rest;

    while ((!trim || !*trim) && next_in_list(&search, &element)) {
        if (after_directory(path, path_base(element), &rest))
            return rest;
    }
    for (size_t i = 0; i < 2; i++) {
        while (next_in_list(&lists[i], &element)) {
            if (after_prefix(path, element, &rest))
                return rest;
        }
    }
    return path;
}
