#include "net/http.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "base/hex.h"

struct bytes http_header_value(const struct http_request *r, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < r->n_headers; i++) {
        struct bytes n = r->headers[i].name;
        if (n.len == len && memcmp(n.data, name, len) == 0)
            return r->headers[i].value;
    }
    return (struct bytes){0};
}

/* Takes what stands before `by` off *rest; false once nothing is left. */
static bool next_part(struct bytes *rest, uint8_t by, struct bytes *ret)
{
    if (rest->len == 0)
        return false;
    const uint8_t *end = bytes_find_byte(*rest, by);
    size_t n = end ? (size_t)(end - rest->data) : rest->len;
    *ret = bytes_head(*rest, n);
    *rest = bytes_from(*rest, n + 1);
    return true;
}

static bool is_same_token(struct bytes a, const char *token)
{
    return a.len == strlen(token) && strncasecmp((const char *)a.data, token, a.len) == 0;
}

/* "q=0", "Q=0.000" and the like: not wanted at all. */
static bool is_zero_weight(struct bytes parameter)
{
    if (parameter.len < 3 || (parameter.data[0] | 32) != 'q' || parameter.data[1] != '=')
        return false;
    for (size_t i = 2; i < parameter.len; i++)
        if (parameter.data[i] != '0' && parameter.data[i] != '.')
            return false;
    return true;
}

bool http_value_has_token(struct bytes value, const char *token)
{
    struct bytes item, parameter;

    while (next_part(&value, ',', &item)) {
        bool is_first = true, is_it = false;
        while (next_part(&item, ';', &parameter)) {
            parameter = bytes_trim(parameter);
            if (is_first)
                is_it = is_same_token(parameter, token);
            else if (is_zero_weight(parameter))
                is_it = false;
            is_first = false;
        }
        if (is_it)
            return true;
    }
    return false;
}

struct bytes http_media_type(struct bytes content_type)
{
    struct bytes type = {0};

    (void)next_part(&content_type, ';', &type);
    return bytes_trim(type);
}

bool http_unescape(struct bytes in, bool is_query, struct buf *out)
{
    size_t before = out->len;

    for (size_t i = 0; i < in.len; i++) {
        uint8_t c = in.data[i];
        if (c == '+' && is_query) {
            c = ' ';
        } else if (c == '%') {
            int high = i + 2 < in.len ? hex_digit(in.data[i + 1]) : -1;
            int low = i + 2 < in.len ? hex_digit(in.data[i + 2]) : -1;
            if (high < 0 || low < 0) {
                out->len = before;
                return false;
            }
            c = (uint8_t)(high << 4 | low);
            i += 2;
        }
        buf_add_byte(out, c);
    }
    return true;
}

/* `raw` unescaped: itself where nothing is escaped, or broken; else in scratch, which has room. */
static struct bytes plain(struct bytes raw, struct buf *scratch)
{
    if (!bytes_find_byte(raw, '%') && !bytes_find_byte(raw, '+'))
        return raw;
    size_t at = scratch->len;
    if (!http_unescape(raw, true, scratch))
        return raw;
    return (struct bytes){scratch->data + at, scratch->len - at};
}

bool http_query_next(struct bytes *rest, struct buf *scratch, struct bytes *ret_name,
                     struct bytes *ret_value)
{
    struct bytes pair = {0}, name = {0};

    do {
        if (!next_part(rest, '&', &pair))
            return false;
    } while (pair.len == 0);
    if (!buf_reserve(scratch, pair.len)) /* so that the name stays where it is */
        return false;
    (void)next_part(&pair, '=', &name);
    *ret_name = plain(name, scratch);
    *ret_value = plain(pair, scratch);
    return true;
}

bool http_query_value(struct bytes query, const char *name, struct buf *scratch, struct bytes *ret)
{
    struct bytes found, value;
    size_t before = scratch->len;

    while (http_query_next(&query, scratch, &found, &value)) {
        if (bytes_are(found, name)) {
            *ret = value;
            return true;
        }
        scratch->len = before;
    }
    return false;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return status < 200   ? "Informational"
           : status < 300 ? "Success"
           : status < 400 ? "Redirection"
           : status < 500 ? "Client Error"
                          : "Server Error";
}

const char *http_date(void)
{
    static _Thread_local time_t made_at;
    static _Thread_local char text[64];
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm tm;

    if (now == made_at && text[0])
        return text;
    made_at = now;
    gmtime_r(&now, &tm);
    snprintf(text, sizeof(text), "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
             days + (size_t)tm.tm_wday * 3, tm.tm_mday % 100, months + (size_t)tm.tm_mon * 3,
             (tm.tm_year + 1900) % 10000, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
    return text;
}

static const bool token_bytes[256] = {
    ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['!'] = true,  ['#'] = true,
    ['$'] = true,         ['%'] = true,         ['&'] = true,         ['\''] = true, ['*'] = true,
    ['+'] = true,         ['-'] = true,         ['.'] = true,         ['^'] = true,  ['_'] = true,
    ['`'] = true,         ['|'] = true,         ['~'] = true,
};

bool http_is_token_byte(uint8_t c)
{
    return token_bytes[c];
}

bool http_is_value_byte(uint8_t c)
{
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

/* Encoded: lengths of name and value, then both. */
struct lengths {
    uint32_t name, value;
};

static bool is_sound(const char *name, struct bytes value)
{
    if (name[0] == '\0')
        return false;
    for (const char *c = name; *c; c++)
        if (!http_is_token_byte((uint8_t)*c) || (*c >= 'A' && *c <= 'Z'))
            return false;
    for (size_t i = 0; i < value.len; i++)
        if (!http_is_value_byte(value.data[i]))
            return false;
    return value.len < UINT32_MAX;
}

static void add_field(struct buf *to, const char *name, struct bytes value)
{
    if (!is_sound(name, value))
        return;
    struct lengths n = {(uint32_t)strlen(name), (uint32_t)value.len};
    buf_add(to, &n, sizeof(n));
    buf_add(to, name, n.name);
    buf_add_bytes(to, value);
}

void http_reply_header(struct http_reply *reply, const char *name, struct bytes value)
{
    add_field(&reply->head, name, value);
}

void http_reply_headerf(struct http_reply *reply, const char *name, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(text))
        add_field(&reply->head, name, (struct bytes){(const uint8_t *)text, (size_t)n});
}

void http_reply_trailer(struct http_reply *reply, const char *name, struct bytes value)
{
    add_field(&reply->trailers, name, value);
}

void http_reply_done(struct http_reply *reply)
{
    buf_done(&reply->head);
    buf_done(&reply->body);
    buf_done(&reply->trailers);
    *reply = (struct http_reply){0};
}

bool http_reply_next(struct bytes *rest, struct http_header *ret)
{
    struct lengths n;

    if (rest->len < sizeof(n))
        return false;
    memcpy(&n, rest->data, sizeof(n));
    *rest = bytes_from(*rest, sizeof(n));
    ret->name = bytes_head(*rest, n.name);
    *rest = bytes_from(*rest, n.name);
    ret->value = bytes_head(*rest, n.value);
    *rest = bytes_from(*rest, n.value);
    return true;
}
