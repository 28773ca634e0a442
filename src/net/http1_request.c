#include "net/http1_request.h"

#include <strings.h>

#define METHOD_MAX    32
#define AROUND_TARGET (METHOD_MAX + 12) /* two spaces, HTTP/1.1, CR LF */

static int refuse(int status, const char *text, const char **why)
{
    *why = text;
    return status;
}

/* ---- lines ---- */

const char *http1_check_field(uint8_t *line, size_t len)
{
    size_t at = 0;

    if (len > 0 && (line[0] == ' ' || line[0] == '\t'))
        return "a header line is folded";
    for (; at < len && line[at] != ':'; at++) {
        if (!http_is_token_byte(line[at]))
            return "a header's name has a character that must not be there";
        if (line[at] >= 'A' && line[at] <= 'Z')
            line[at] |= 32;
    }
    if (at == 0 || at == len)
        return "a header line has no name";
    for (at++; at < len; at++)
        if (!http_is_value_byte(line[at]))
            return "a header's value has a control character";
    return NULL;
}

static int check_request_line(struct bytes line, const struct http_session_limits *limits,
                              const char **why)
{
    const uint8_t *first = bytes_find_byte(line, ' ');
    const uint8_t *last = line.len ? memrchr(line.data, ' ', line.len) : NULL;

    if (!first || first == last)
        return refuse(400, "the request line is not \"METHOD target HTTP/1.1\"", why);
    struct bytes method = bytes_head(line, (size_t)(first - line.data));
    struct bytes target = {first + 1, (size_t)(last - first) - 1};
    struct bytes version = bytes_from(line, (size_t)(last - line.data) + 1);
    if (method.len == 0 || method.len > METHOD_MAX)
        return refuse(400, "the method is empty or too long", why);
    for (size_t i = 0; i < method.len; i++)
        if (!http_is_token_byte(method.data[i]))
            return refuse(400, "the method has a character that must not be there", why);
    for (size_t i = 0; i < target.len; i++)
        if (target.data[i] <= ' ' || target.data[i] >= 0x7f || target.data[i] == '#')
            return refuse(400, "the target has a character that must not be there", why);
    if (version.len != 8 || memcmp(version.data, "HTTP/", 5) != 0 || version.data[6] != '.' ||
        version.data[5] < '0' || version.data[5] > '9' || version.data[7] < '0' ||
        version.data[7] > '9')
        return refuse(400, "the request line does not end in a version of HTTP", why);
    if (!bytes_are(version, "HTTP/1.1") && !bytes_are(version, "HTTP/1.0"))
        return refuse(505, "this version of HTTP is not spoken here", why);
    if (target.len == 0 || target.len > limits->target_max)
        return refuse(target.len ? 414 : 400, "the target is empty or too long", why);
    return 0;
}

/* A line is complete. 0: go on, 1: it ended the head. */
static int take_line(struct http1_head *h, const struct http_session_limits *limits,
                     const char **why)
{
    size_t len = h->text.len - h->line;
    uint8_t *line = h->text.data + h->line;

    if (len < 2 || line[len - 2] != '\r')
        return refuse(400, "a line does not end in CR LF", why);
    len -= 2;
    if (memchr(line, '\r', len) || memchr(line, '\0', len))
        return refuse(400, "a line holds a CR or NUL", why);
    if (h->fields == 0 && len == 0) {
        if (h->has_empty_line)
            return refuse(400, "empty lines instead of a request line", why);
        h->has_empty_line = true;
        buf_clear(&h->text);
        return 0;
    }
    h->line = h->text.len;
    if (h->fields == 0) {
        h->fields = h->text.len;
        return check_request_line((struct bytes){line, len}, limits, why);
    }
    if (len == 0)
        return 1;
    if (++h->n_headers > limits->headers_max)
        return refuse(431, "there are too many headers", why);
    const char *bad = http1_check_field(line, len);
    return bad ? refuse(400, bad, why) : 0;
}

int http1_head_feed(struct http1_head *h, const struct http_session_limits *limits,
                    struct bytes *in, const char **why)
{
    while (in->len > 0) {
        const uint8_t *end = bytes_find_byte(*in, '\n');
        size_t n = end ? (size_t)(end - in->data) + 1 : in->len;
        if (h->fields == 0 && h->text.len + n > limits->target_max + AROUND_TARGET)
            return refuse(414, "the request line is too long", why);
        if (h->fields > 0 && h->text.len - h->fields + n > limits->header_bytes_max)
            return refuse(431, "the headers are too long", why);
        buf_add(&h->text, in->data, n);
        *in = bytes_from(*in, n);
        if (!end)
            break;
        int r = take_line(h, limits, why);
        if (r != 0)
            return r;
    }
    return 0;
}

/* ---- what they say ---- */

static bool is_authority(struct bytes a)
{
    for (size_t i = 0; i < a.len; i++) {
        uint8_t c = a.data[i];
        if (c == 0 || (!(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z') &&
                       !strchr("-._~!$&'()*+;=%:[]", c)))
            return false;
    }
    return true;
}

/* "http://host/path": takes scheme and authority off *target, true when it was so. */
static bool take_absolute(struct bytes *target, struct bytes *ret_authority)
{
    size_t scheme =
        target->len > 7 && strncasecmp((const char *)target->data, "http://", 7) == 0    ? 7
        : target->len > 8 && strncasecmp((const char *)target->data, "https://", 8) == 0 ? 8
                                                                                         : 0;
    if (scheme == 0)
        return false;
    struct bytes rest = bytes_from(*target, scheme);
    size_t n = 0;
    while (n < rest.len && rest.data[n] != '/' && rest.data[n] != '?')
        n++;
    *ret_authority = bytes_head(rest, n);
    *target = bytes_from(rest, n);
    return n > 0;
}

static int read_target(struct http1_message *m, struct bytes target, const char **why)
{
    if (bytes_are(m->method, "CONNECT"))
        return refuse(501, "CONNECT is not offered", why);
    if (target.data[0] != '/' && !(bytes_are(target, "*") && bytes_are(m->method, "OPTIONS")) &&
        (!take_absolute(&target, &m->authority) || !is_authority(m->authority)))
        return refuse(400, "the target is neither a path nor a URL", why);
    const uint8_t *mark = bytes_find_byte(target, '?');
    m->path = mark ? bytes_head(target, (size_t)(mark - target.data)) : target;
    m->query = mark ? bytes_from(target, m->path.len + 1) : (struct bytes){0};
    if (m->path.len == 0)
        m->path = BYTES("/");
    return 0;
}

static struct bytes trim_blanks(struct bytes a)
{
    while (a.len > 0 && (a.data[0] == ' ' || a.data[0] == '\t'))
        a = bytes_from(a, 1);
    while (a.len > 0 && (a.data[a.len - 1] == ' ' || a.data[a.len - 1] == '\t'))
        a.len--;
    return a;
}

static int read_length(struct http1_message *m, struct bytes value, const char **why)
{
    if (m->has_length)
        return refuse(400, "content-length is given twice", why);
    if (value.len == 0 || value.len > 18)
        return refuse(400, "the content-length is not a number", why);
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return refuse(400, "the content-length is not a number", why);
        m->length = m->length * 10 + (uint64_t)(value.data[i] - '0');
    }
    m->has_length = true;
    return 0;
}

static bool is_word(struct bytes a, const char *word)
{
    return a.len == strlen(word) && strncasecmp((const char *)a.data, word, a.len) == 0;
}

/* Only "chunked" alone is read. Others in front of it are refused as not implemented; whatever
 * leaves the end of the body unclear, as bad. */
static int read_coding(struct http1_message *m, struct bytes value, const char **why)
{
    if (m->is_chunked)
        return refuse(400, "transfer-encoding is given twice", why);
    if (is_word(value, "chunked")) {
        m->is_chunked = true;
        return 0;
    }
    const uint8_t *comma = value.len ? memrchr(value.data, ',', value.len) : NULL;
    size_t last = comma ? (size_t)(comma - value.data) : 0;
    if (comma && is_word(trim_blanks(bytes_from(value, last + 1)), "chunked") &&
        !http_value_has_token(bytes_head(value, last), "chunked"))
        return refuse(501, "no transfer-encoding but chunked is known", why);
    return refuse(400, "the transfer-encoding does not end in chunked", why);
}

static int read_host(struct http1_message *m, struct bytes value, struct bytes *host,
                     const char **why)
{
    if (host->data)
        return refuse(400, "host is given twice", why);
    if (!is_authority(value))
        return refuse(400, "the host has a character that must not be there", why);
    if (m->authority.len > 0 &&
        (m->authority.len != value.len ||
         strncasecmp((const char *)value.data, (const char *)m->authority.data, value.len) != 0))
        return refuse(400, "the host is not that of the target", why);
    *host = value;
    return 0;
}

struct upgrade {
    bool is_h2c, is_named, settings_named;
    unsigned n_settings;
};

/* One header that says how the message or the connection goes on. */
static int read_field(struct http1_message *m, struct http_header f, struct bytes *host,
                      struct upgrade *up, const char **why)
{
    if (bytes_are(f.name, "content-length"))
        return read_length(m, f.value, why);
    if (bytes_are(f.name, "transfer-encoding"))
        return read_coding(m, f.value, why);
    if (bytes_are(f.name, "host"))
        return read_host(m, f.value, host, why);
    if (bytes_are(f.name, "expect")) {
        if (!is_word(f.value, "100-continue"))
            return refuse(417, "only 100-continue can be expected", why);
        m->expects_continue = true;
    } else if (bytes_are(f.name, "connection")) {
        m->closes |= http_value_has_token(f.value, "close");
        up->is_named |= http_value_has_token(f.value, "upgrade");
        up->settings_named |= http_value_has_token(f.value, "http2-settings");
    } else if (bytes_are(f.name, "te")) {
        m->takes_trailers |= http_value_has_token(f.value, "trailers");
    } else if (bytes_are(f.name, "upgrade")) {
        up->is_h2c |= http_value_has_token(f.value, "h2c");
    } else if (bytes_are(f.name, "http2-settings")) {
        up->n_settings++;
        m->settings = f.value;
    }
    return 0;
}

/* The next line of a head whose lines have been checked, without CR LF. */
static struct bytes next_line(struct bytes *rest)
{
    const uint8_t *end = bytes_find_byte(*rest, '\r');
    struct bytes line = bytes_head(*rest, end ? (size_t)(end - rest->data) : rest->len);

    *rest = bytes_from(*rest, line.len + 2);
    return line;
}

static int check_whole(struct http1_message *m, struct bytes host, const struct upgrade *up,
                       const char **why)
{
    if (m->is_chunked && m->has_length)
        return refuse(400, "both a content-length and a transfer-encoding are given", why);
    if (m->is_chunked && m->is_http10)
        return refuse(400, "HTTP/1.0 has no transfer-encoding", why);
    if (!host.data && !m->is_http10)
        return refuse(400, "the host is missing", why);
    if (m->authority.len == 0)
        m->authority = host;
    m->closes |= m->is_http10;
    m->expects_continue &= !m->is_http10 && (m->is_chunked || m->length > 0);
    m->asks_h2c = up->is_h2c && up->is_named && up->settings_named && up->n_settings == 1 &&
                  !m->is_http10 && !m->is_chunked && m->length == 0;
    return 0;
}

int http1_head_finish(const struct http1_head *h, struct http_header *headers,
                      struct http1_message *ret, const char **why)
{
    struct http1_message m = {.headers = headers};
    struct bytes rest = buf_bytes(&h->text), host = {0};
    struct bytes line = next_line(&rest);
    struct upgrade up = {0};

    m.method = bytes_head(line, (size_t)(bytes_find_byte(line, ' ') - line.data));
    m.is_http10 = line.data[line.len - 1] == '0';
    int r = read_target(
        &m, (struct bytes){line.data + m.method.len + 1, line.len - m.method.len - 10}, why);
    for (uint32_t i = 0; r == 0 && i < h->n_headers; i++) {
        line = next_line(&rest);
        const uint8_t *colon = bytes_find_byte(line, ':');
        struct http_header *f = &headers[m.n_headers++];
        f->name = bytes_head(line, (size_t)(colon - line.data));
        f->value = trim_blanks(bytes_from(line, f->name.len + 1));
        r = read_field(&m, *f, &host, &up, why);
    }
    if (r == 0)
        r = check_whole(&m, host, &up, why);
    if (r == 0)
        *ret = m;
    return r;
}

/* ---- chunks ---- */

bool http1_is_forbidden_trailer(struct bytes name)
{
    static const char *const forbidden[] = {
        "authorization",  "cache-control",
        "connection",     "content-encoding",
        "content-length", "content-range",
        "content-type",   "cookie",
        "expect",         "host",
        "keep-alive",     "max-forwards",
        "pragma",         "proxy-connection",
        "range",          "te",
        "trailer",        "transfer-encoding",
        "upgrade",        "x-scope-orgid",
    };

    for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
        if (bytes_are(name, forbidden[i]))
            return true;
    return false;
}

bool http1_chunk_size(struct bytes line, uint64_t *ret)
{
    uint64_t size = 0;
    size_t n = 0;

    for (; n < line.len && line.data[n] != ';'; n++) {
        uint8_t c = line.data[n], low = c | 32;
        bool is_digit = c >= '0' && c <= '9';
        if (n == 15 || (!is_digit && (low < 'a' || low > 'f')))
            return false;
        size = size << 4 | (uint64_t)(is_digit ? c - '0' : low - 'a' + 10);
    }
    if (n == 0)
        return false;
    for (size_t i = n; i < line.len; i++)
        if (!http_is_value_byte(line.data[i]))
            return false;
    *ret = size;
    return true;
}
