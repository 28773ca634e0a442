#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/json.h"
#include "wire/utf8.h"

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
            buf_add_str(w->out, UTF8_REPLACEMENT);
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
