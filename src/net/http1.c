#include "net/http1.h"

#include <string.h>
#include <strings.h>

#define HEAD_BYTES_MAX ((size_t)64 << 10)

enum {
    READ_HEAD,
    READ_BODY,
    READ_TO_END,
    READ_CHUNK_SIZE,
    READ_CHUNK,
    READ_CHUNK_END,
    READ_TRAILER
};

static bool fail(struct http1_response *r, const char *why)
{
    if (!r->failure)
        r->failure = why;
    return false;
}

static bool parse_status(struct http1_response *r, struct bytes line)
{
    uint64_t status;

    if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 || line.data[8] != ' ' ||
        !bytes_to_u64((struct bytes){line.data + 9, 3}, &status) || status < 100)
        return fail(r, "the answer is not HTTP/1.1");
    r->status = (int)status;
    r->closes = line.data[7] != '1';
    size_t n = line.len > 13 ? line.len - 13 : 0;
    if (n >= sizeof(r->reason))
        n = sizeof(r->reason) - 1;
    memcpy(r->reason, line.data + 13, n);
    r->reason[n] = '\0';
    r->has_status = true;
    return true;
}

static bool name_is(struct bytes name, const char *want)
{
    return name.len == strlen(want) && strncasecmp((const char *)name.data, want, name.len) == 0;
}

static bool has_word(struct bytes list, const char *word)
{
    while (list.len > 0) {
        const uint8_t *comma = bytes_find_byte(list, ',');
        size_t len = comma ? (size_t)(comma - list.data) : list.len;
        if (name_is(bytes_trim(bytes_head(list, len)), word))
            return true;
        list = bytes_from(list, len + 1);
    }
    return false;
}

static bool parse_header(struct http1_response *r, struct bytes line)
{
    const uint8_t *colon = bytes_find_byte(line, ':');

    if (line.data[0] == ' ' || line.data[0] == '\t')
        return fail(r, "a header line is folded");
    if (!colon || colon == line.data || colon[-1] == ' ' || colon[-1] == '\t')
        return fail(r, "a header line has no name");
    struct bytes name = {line.data, (size_t)(colon - line.data)};
    struct bytes value = bytes_trim(bytes_from(line, name.len + 1));
    if (name_is(name, "content-length")) {
        uint64_t length;
        if (!bytes_to_u64(value, &length) || (r->has_length && length != r->length))
            return fail(r, "the content-length is unreadable or contradicts itself");
        r->length = length;
        r->has_length = true;
    } else if (name_is(name, "transfer-encoding")) {
        if (value.len != 7 || strncasecmp((const char *)value.data, "chunked", 7) != 0)
            return fail(r, "the transfer-encoding is not one that was offered");
        r->is_chunked = true;
    } else if (name_is(name, "location") && value.len < sizeof(r->location)) {
        memcpy(r->location, value.data, value.len);
        r->location[value.len] = '\0';
    } else if (name_is(name, "connection") && has_word(value, "close")) {
        r->closes = true;
    }
    if (r->on_header)
        r->on_header(r->header_arg, name, value);
    return true;
}

static bool head_end(struct http1_response *r)
{
    if (!r->has_status)
        return fail(r, "the answer begins with an empty line");
    if (r->status < 200) { /* 100 Continue and the like: the real head follows */
        r->has_status = false;
        return true;
    }
    if (r->is_chunked && r->has_length)
        return fail(r, "the answer has both a content-length and chunks");
    r->head_done = true;
    if (r->status == 204 || r->status == 304 || r->is_to_head) {
        r->done = true;
    } else if (r->is_chunked) {
        r->state = READ_CHUNK_SIZE;
    } else if (r->has_length) {
        r->left = r->length;
        r->state = READ_BODY;
        r->done = r->left == 0;
    } else {
        r->state = READ_TO_END;
        r->closes = true;
    }
    return true;
}

static bool chunk_size(struct http1_response *r, struct bytes line)
{
    const uint8_t *semi = bytes_find_byte(line, ';');
    struct bytes digits = bytes_trim(semi ? bytes_head(line, (size_t)(semi - line.data)) : line);

    if (digits.len == 0 || digits.len > 15 || (digits.len > 1 && (digits.data[1] | 32) == 'x') ||
        !bytes_to_hex(digits, &r->left))
        return fail(r, "a chunk has an unreadable size");
    r->state = r->left ? READ_CHUNK : READ_TRAILER;
    return true;
}

static bool take_line(struct http1_response *r)
{
    struct bytes line = {(const uint8_t *)r->line, r->line_len};

    if (line.len == 0 || line.data[line.len - 1] != '\r')
        return fail(r, "a line does not end in CR LF");
    line.len--;
    r->line_len = 0;
    switch (r->state) {
    case READ_HEAD:
        if (line.len == 0)
            return head_end(r);
        return r->has_status ? parse_header(r, line) : parse_status(r, line);
    case READ_CHUNK_SIZE:
        return chunk_size(r, line);
    case READ_CHUNK_END:
        r->state = READ_CHUNK_SIZE;
        return line.len == 0 || fail(r, "a chunk is longer than its size");
    default: /* READ_TRAILER */
        r->done = line.len == 0;
        return true;
    }
}

static bool feed_line_byte(struct http1_response *r, uint8_t c)
{
    if (c == '\n')
        return take_line(r);
    if (++r->head_bytes > HEAD_BYTES_MAX && r->state == READ_HEAD)
        return fail(r, "the headers are longer than 64 KiB");
    if (c == '\0' || r->line_len == sizeof(r->line))
        return fail(r, "a header line is too long or holds a NUL");
    r->line[r->line_len++] = (char)c;
    return true;
}

bool http1_response_feed(struct http1_response *r, struct bytes in,
                         bool (*sink)(void *arg, struct bytes body), void *arg)
{
    while (in.len > 0 && !r->done) {
        if (r->state != READ_BODY && r->state != READ_CHUNK && r->state != READ_TO_END) {
            if (!feed_line_byte(r, in.data[0]))
                return false;
            in = bytes_from(in, 1);
            continue;
        }
        size_t n = r->state != READ_TO_END && r->left < in.len ? (size_t)r->left : in.len;
        if (!sink(arg, bytes_head(in, n)))
            return fail(r, "the body was refused");
        in = bytes_from(in, n);
        if (r->state == READ_TO_END)
            continue;
        r->left -= n;
        if (r->left == 0 && r->state == READ_BODY)
            r->done = true;
        else if (r->left == 0)
            r->state = READ_CHUNK_END;
    }
    r->closes = r->closes || in.len > 0;
    return true;
}

bool http1_response_end(struct http1_response *r)
{
    if (r->done)
        return true;
    if (r->head_done && r->state == READ_TO_END) {
        r->done = true;
        return true;
    }
    return fail(r, r->head_done ? "the connection ended before the body did"
                                : "the connection ended before an answer");
}
