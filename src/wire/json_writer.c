#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/json.h"

static void before_value(struct json_writer *w)
{
    if (w->needs_comma)
        buf_add_byte(w->out, ',');
    w->needs_comma = true;
}

void json_begin_object(struct json_writer *w)
{
    before_value(w);
    buf_add_byte(w->out, '{');
    w->needs_comma = false;
}

void json_end_object(struct json_writer *w)
{
    buf_add_byte(w->out, '}');
    w->needs_comma = true;
}

void json_begin_array(struct json_writer *w)
{
    before_value(w);
    buf_add_byte(w->out, '[');
    w->needs_comma = false;
}

void json_end_array(struct json_writer *w)
{
    buf_add_byte(w->out, ']');
    w->needs_comma = true;
}

void json_key_bytes(struct json_writer *w, struct bytes key)
{
    json_string(w, key);
    buf_add_byte(w->out, ':');
    w->needs_comma = false;
}

void json_key(struct json_writer *w, const char *key)
{
    json_key_bytes(w, bytes_of(key));
}

/* How many bytes the UTF-8 character at s begins with takes, or 0 when it is none. */
static size_t utf8_length(struct bytes s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = s.data[0];
    size_t n = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t c = lead & (n == 2 ? 0x1f : n == 3 ? 0x0f : 0x07);

    if (n <= 1)
        return n;
    if (n > s.len || lead >= 0xf8)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s.data[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s.data[i] & 0x3f);
    }
    bool is_surrogate = c >= 0xd800 && c < 0xe000;
    return c >= least[n] && c <= 0x10ffff && !is_surrogate ? n : 0;
}

static void add_escaped(struct buf *out, uint8_t c)
{
    switch (c) {
    case '"':
        buf_add_str(out, "\\\"");
        break;
    case '\\':
        buf_add_str(out, "\\\\");
        break;
    case '\n':
        buf_add_str(out, "\\n");
        break;
    case '\r':
        buf_add_str(out, "\\r");
        break;
    case '\t':
        buf_add_str(out, "\\t");
        break;
    default:
        buf_addf(out, "\\u%04x", c);
    }
}

static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

void json_string(struct json_writer *w, struct bytes s)
{
    before_value(w);
    buf_add_byte(w->out, '"');
    while (s.len > 0) {
        size_t n = 0;
        while (n < s.len && is_plain(s.data[n]))
            n++;
        buf_add_bytes(w->out, bytes_head(s, n));
        s = bytes_from(s, n);
        if (s.len == 0)
            break;
        n = utf8_length(s);
        if (n == 0)
            buf_add_str(w->out, "\xef\xbf\xbd");
        else if (n == 1)
            add_escaped(w->out, s.data[0]);
        else
            buf_add_bytes(w->out, bytes_head(s, n));
        s = bytes_from(s, n ? n : 1);
    }
    buf_add_byte(w->out, '"');
}

void json_cstring(struct json_writer *w, const char *s)
{
    json_string(w, bytes_of(s));
}

void json_i64(struct json_writer *w, int64_t v)
{
    before_value(w);
    buf_add_i64(w->out, v);
}

void json_u64(struct json_writer *w, uint64_t v)
{
    before_value(w);
    buf_add_u64(w->out, v);
}

void json_i64_string(struct json_writer *w, int64_t v)
{
    before_value(w);
    buf_add_byte(w->out, '"');
    buf_add_i64(w->out, v);
    buf_add_byte(w->out, '"');
}

void json_u64_string(struct json_writer *w, uint64_t v)
{
    before_value(w);
    buf_add_byte(w->out, '"');
    buf_add_u64(w->out, v);
    buf_add_byte(w->out, '"');
}

void json_double(struct json_writer *w, double v)
{
    char text[32];

    if (!isfinite(v)) {
        json_null(w);
        return;
    }
    /* The shortest form that reads back as the same number. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    before_value(w);
    buf_add_str(w->out, text);
}

void json_bool(struct json_writer *w, bool v)
{
    before_value(w);
    buf_add_str(w->out, v ? "true" : "false");
}

void json_null(struct json_writer *w)
{
    before_value(w);
    buf_add_str(w->out, "null");
}
