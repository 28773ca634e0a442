#include "formats/json_sniff.h"

/* The value that `at` is in front of. */
static struct bytes skip_blanks(struct bytes at)
{
    while (at.len > 0 && (at.data[0] == ' ' || at.data[0] == '\n' || at.data[0] == '\r' ||
                          at.data[0] == '\t' || at.data[0] == ','))
        at = bytes_from(at, 1);
    return at;
}

/* How long the string at `at` is with its quotes, or at.len when it is cut. */
static size_t string_length(struct bytes at)
{
    for (size_t i = 1; i < at.len; i++) {
        if (at.data[i] == '"')
            return i + 1;
        i += at.data[i] == '\\';
    }
    return at.len;
}

/* The bytes behind the value at `at`. */
static struct bytes skip_value(struct bytes at)
{
    size_t depth = 0, i = 0;

    while (i < at.len) {
        uint8_t c = at.data[i];
        if (c == '"') {
            i += string_length(bytes_from(at, i));
        } else if (c == '{' || c == '[') {
            depth++;
            i++;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                break;
            depth--;
            i++;
        } else if (depth == 0 && c == ',') {
            break;
        } else {
            i++;
        }
    }
    return bytes_from(at, i);
}

bool json_head_find(struct bytes at, const char *key, struct bytes *ret_value)
{
    at = skip_blanks(at);
    if (at.len == 0 || at.data[0] != '{')
        return false;
    at = skip_blanks(bytes_from(at, 1));
    while (at.len > 0 && at.data[0] == '"') {
        size_t n = string_length(at);
        struct bytes name = {at.data + 1, n < 2 ? 0 : n - 2};
        at = skip_blanks(bytes_from(at, n));
        if (at.len == 0 || at.data[0] != ':')
            return false;
        at = skip_blanks(bytes_from(at, 1));
        if (bytes_are(name, key)) {
            *ret_value = at;
            return true;
        }
        at = skip_blanks(skip_value(at));
    }
    return false;
}

bool json_head_first(struct bytes at, struct bytes *ret_value)
{
    at = skip_blanks(at);
    if (at.len == 0 || at.data[0] != '[')
        return false;
    at = skip_blanks(bytes_from(at, 1));
    if (at.len == 0 || at.data[0] == ']')
        return false;
    *ret_value = at;
    return true;
}
