#include "server/source_path.h"

/* The next folder or name from the front; false at the end. */
static bool next_part(struct bytes *rest, struct bytes *ret)
{
    while (rest->len > 0 && rest->data[0] == '/')
        *rest = bytes_from(*rest, 1);
    const uint8_t *slash = bytes_find_byte(*rest, '/');
    *ret = bytes_head(*rest, slash ? (size_t)(slash - rest->data) : rest->len);
    *rest = bytes_from(*rest, ret->len);
    return ret->len > 0;
}

/* The same from the end; windows' way to write it is one, too. */
static bool last_part(struct bytes *rest, struct bytes *ret)
{
    while (rest->len > 0 && (rest->data[rest->len - 1] == '/' || rest->data[rest->len - 1] == '\\'))
        rest->len--;
    size_t from = rest->len;
    while (from > 0 && rest->data[from - 1] != '/' && rest->data[from - 1] != '\\')
        from--;
    *ret = bytes_from(*rest, from);
    rest->len = from;
    return ret->len > 0;
}

bool source_name_clean(struct bytes name, struct buf *ret)
{
    struct bytes part;

    buf_clear(ret);
    for (size_t i = 0; i < name.len; i++)
        if (name.data[i] < 0x20 || name.data[i] == 0x7f)
            return false;
    while (next_part(&name, &part)) {
        if (bytes_are(part, ".."))
            return false;
        if (bytes_are(part, "."))
            continue;
        if (ret->len > 0)
            buf_add_byte(ret, '/');
        buf_add_bytes(ret, part);
        if (ret->len > SOURCE_NAME_MAX)
            return false;
    }
    return ret->len > 0;
}

struct bytes source_path_plain(struct bytes path)
{
    const uint8_t *scheme = bytes_find(path, BYTES("://"));

    if (scheme && !bytes_find_byte(bytes_head(path, (size_t)(scheme - path.data)), '/'))
        path = bytes_from(path, (size_t)(scheme - path.data) + 3);
    while (bytes_start_with(path, BYTES("./")))
        path = bytes_from(path, 2);
    return bytes_start_with(path, BYTES("/./")) ? bytes_from(path, 3) : path;
}

unsigned source_name_fits(struct bytes name, struct bytes path)
{
    struct bytes a, b;
    unsigned same = 0;
    bool more_a, more_b;

    path = source_path_plain(path);
    for (;;) {
        more_a = last_part(&name, &a);
        more_b = last_part(&path, &b);
        if (!more_a || !more_b || !bytes_equal(a, b))
            break;
        same++;
    }
    bool is_whole = !more_a || !more_b;
    if (same == 0 || (same == 1 && !is_whole))
        return 0;
    return 2 * same + is_whole;
}

bool source_path_below(struct bytes path, struct bytes folder, struct bytes *ret)
{
    while (folder.len > 0 && folder.data[folder.len - 1] == '/')
        folder.len--;
    if (!bytes_start_with(path, folder))
        return false;
    path = bytes_from(path, folder.len);
    if (folder.len > 0 && (path.len == 0 || path.data[0] != '/'))
        return false;
    while (path.len > 0 && path.data[0] == '/')
        path = bytes_from(path, 1);
    *ret = path;
    return path.len > 0;
}
