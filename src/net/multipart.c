#include "net/multipart.h"

#include <errno.h>
#include <strings.h>

static int fail(const struct multipart *m, const uint8_t *at, const char *why, struct error *err)
{
    return error_set(err, -EBADMSG, "multipart at byte %zu: %s", (size_t)(at - m->body.data), why);
}

static bool equal_any_case(struct bytes a, struct bytes b)
{
    return a.len == b.len &&
           (a.len == 0 || strncasecmp((const char *)a.data, (const char *)b.data, a.len) == 0);
}

static struct bytes trim_blanks(struct bytes s)
{
    while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t'))
        s = bytes_from(s, 1);
    while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Where the parameter that begins `s` ends: at a ';' outside of quotes. False when quotes stay
 * open. */
static bool parameter_len(struct bytes s, size_t *ret)
{
    bool is_quoted = false;
    size_t i = 0;

    for (; i < s.len && (is_quoted || s.data[i] != ';'); i++) {
        if (s.data[i] == '"')
            is_quoted = !is_quoted;
        else if (s.data[i] == '\\' && is_quoted)
            i++;
    }
    *ret = i;
    return !is_quoted && i <= s.len;
}

/* A parameter of a header value: `name` of `form-data; name="x"`, without its quotes. False when it
 * is not there or its quotes are not closed. */
static bool parameter_value(struct bytes value, const char *name, struct bytes *ret)
{
    size_t len;

    if (!parameter_len(value, &len))
        return false;
    for (struct bytes rest = bytes_from(value, len + 1); rest.len > 0;
         rest = bytes_from(rest, len + 1)) {
        if (!parameter_len(rest, &len))
            return false;
        struct bytes one = bytes_head(rest, len);
        const uint8_t *equals = bytes_find_byte(one, '=');
        size_t at = equals ? (size_t)(equals - one.data) : one.len;
        if (!equals || !equal_any_case(trim_blanks(bytes_head(one, at)), bytes_of(name)))
            continue;
        struct bytes v = trim_blanks(bytes_from(one, at + 1));
        if (v.len >= 2 && v.data[0] == '"' && v.data[v.len - 1] == '"')
            v = (struct bytes){v.data + 1, v.len - 2};
        *ret = v;
        return true;
    }
    return false;
}

static bool is_boundary_byte(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != 0 && strchr("'()+_,-./:=? ", c));
}

static bool is_sound_boundary(struct bytes b)
{
    if (b.len == 0 || b.len > MULTIPART_BOUNDARY_MAX || b.data[b.len - 1] == ' ')
        return false;
    for (size_t i = 0; i < b.len; i++) {
        if (!is_boundary_byte(b.data[i]))
            return false;
    }
    return true;
}

/* What follows the boundary on a delimiter's line. */
enum delimiter { DELIMITER_NONE, DELIMITER_PART, DELIMITER_END };

/* Takes the end of a delimiter's line off *rest: "--" closes, else blanks and CRLF. */
static enum delimiter delimiter_end(struct bytes *rest)
{
    struct bytes s = *rest;

    if (bytes_start_with(s, BYTES("--")))
        return DELIMITER_END;
    while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t'))
        s = bytes_from(s, 1);
    if (!bytes_start_with(s, BYTES("\r\n")))
        return DELIMITER_NONE;
    *rest = bytes_from(s, 2);
    return DELIMITER_PART;
}

/* Takes everything up to and with the next delimiter off m->rest; what stood before it is *ret. */
static enum delimiter to_delimiter(struct multipart *m, struct bytes *ret)
{
    struct bytes start = m->rest, needle = {(const uint8_t *)m->delimiter, m->delimiter_len};

    for (struct bytes s = start;;) {
        const uint8_t *at = bytes_find(s, needle);
        if (!at)
            return DELIMITER_NONE;
        struct bytes behind = bytes_from(s, (size_t)(at - s.data) + needle.len);
        enum delimiter kind = delimiter_end(&behind);
        if (kind != DELIMITER_NONE) {
            *ret = bytes_head(start, (size_t)(at - start.data));
            m->rest = behind;
            return kind;
        }
        s = bytes_from(s, (size_t)(at - s.data) + needle.len);
    }
}

/* The first delimiter may be the very beginning, without the CRLF in front. */
static enum delimiter first_delimiter(struct multipart *m)
{
    struct bytes ignored, needle = {(const uint8_t *)m->delimiter + 2, m->delimiter_len - 2};

    if (bytes_start_with(m->body, needle)) {
        struct bytes behind = bytes_from(m->body, needle.len);
        enum delimiter kind = delimiter_end(&behind);
        if (kind != DELIMITER_NONE) {
            m->rest = behind;
            return kind;
        }
    }
    return to_delimiter(m, &ignored);
}

int multipart_begin(struct bytes content_type, struct bytes body, struct multipart *ret,
                    struct error *err)
{
    struct multipart m = {.body = body, .rest = body};
    struct bytes boundary, type;
    size_t len;

    parameter_len(content_type, &len);
    type = trim_blanks(bytes_head(content_type, len));
    if (!equal_any_case(type, BYTES("multipart/form-data")))
        return error_set(err, -EBADMSG, "the content type is not multipart/form-data");
    if (!parameter_value(content_type, "boundary", &boundary) || !is_sound_boundary(boundary))
        return error_set(err, -EBADMSG,
                         "the content type multipart/form-data has no boundary of 1 to %d "
                         "characters",
                         MULTIPART_BOUNDARY_MAX);
    memcpy(m.delimiter, "\r\n--", 4);
    memcpy(m.delimiter + 4, boundary.data, boundary.len);
    m.delimiter_len = 4 + boundary.len;
    if (first_delimiter(&m) != DELIMITER_PART)
        return error_set(err, -EBADMSG, "multipart: the body of %zu bytes has no part", body.len);
    *ret = m;
    return 0;
}

static int read_header(const struct multipart *m, struct bytes line, struct multipart_part *part,
                       struct error *err)
{
    const uint8_t *colon = bytes_find_byte(line, ':');
    if (!colon || colon == line.data)
        return fail(m, line.data, "a header line without a name", err);
    struct bytes name = bytes_head(line, (size_t)(colon - line.data));
    struct bytes value = trim_blanks(bytes_from(line, name.len + 1));

    if (equal_any_case(name, BYTES("content-type"))) {
        part->content_type = value;
    } else if (equal_any_case(name, BYTES("content-disposition"))) {
        if (!parameter_value(value, "name", &part->name))
            return fail(m, value.data, "the part has no name", err);
        parameter_value(value, "filename", &part->file_name);
    } else if (equal_any_case(name, BYTES("content-transfer-encoding"))) {
        if (!equal_any_case(value, BYTES("binary")) && !equal_any_case(value, BYTES("8bit")) &&
            !equal_any_case(value, BYTES("7bit")))
            return fail(m, value.data, "the part is encoded; only binary parts are read", err);
    }
    return 0;
}

/* Reads the headers of a part, up to and with the empty line. */
static int read_headers(struct multipart *m, struct multipart_part *part, struct error *err)
{
    const uint8_t *start = m->rest.data;

    for (;;) {
        struct bytes room = bytes_head(m->rest, MULTIPART_HEADER_MAX);
        const uint8_t *end = bytes_find(room, BYTES("\r\n"));
        size_t len = end ? (size_t)(end - room.data) : 0;
        if (!end || (size_t)(end - start) > MULTIPART_HEADER_MAX)
            return fail(m, start, "the headers of the part do not end, or are too long", err);
        struct bytes line = bytes_head(m->rest, len);
        /* The CRLF of the empty line may also be that of a delimiter, when there is no content. */
        m->rest = bytes_from(m->rest, len == 0 ? 0 : len + 2);
        if (len == 0)
            return 0;
        int r = read_header(m, line, part, err);
        if (r < 0)
            return r;
    }
}

int multipart_next(struct multipart *m, struct multipart_part *ret, struct error *err)
{
    struct multipart_part part = {0};
    const uint8_t *start = m->rest.data;

    if (m->is_ended)
        return 0;
    if (m->n_parts++ == MULTIPART_PARTS_MAX)
        return error_set(err, -EBADMSG, "multipart at byte %zu: more than %d parts",
                         (size_t)(start - m->body.data), MULTIPART_PARTS_MAX);
    int r = read_headers(m, &part, err);
    if (r < 0)
        return r;
    if (!part.name.data)
        return fail(m, start, "the part has no name", err);
    struct bytes before;
    enum delimiter kind = to_delimiter(m, &before);
    if (kind == DELIMITER_NONE)
        return fail(m, start, "the part is not closed: the body was cut short", err);
    m->is_ended = kind == DELIMITER_END;
    part.content = bytes_from(before, 2); /* the empty line's CRLF */
    *ret = part;
    return 1;
}
