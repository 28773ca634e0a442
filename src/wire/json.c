#include "wire/json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/json_escape.h"

/*
 * The buffer always has a zero byte behind its content (and is readable eight bytes further). No
 * JSON token has a zero in it, so the scanning loops test for the end only once they stop there.
 */
#define CHUNK   ((size_t)64 << 10)
#define PADDING 16

struct json_reader {
    const uint8_t *pos, *end; /* what is unread of the buffer */
    const uint8_t *keep;      /* when not NULL, before pos: what json_get_raw() will hand out */
    uint8_t *buf;
    size_t cap;    /* without the padding */
    uint64_t base; /* offset of buf[0] in the document */
    struct input *in;
    struct budget *budget;
    bool ended; /* the input has no more */

    bool first;     /* the current container has had no element yet */
    bool colon_due; /* a key was read; its colon was not */
    uint32_t depth; /* containers entered and not left */
    bool is_object[JSON_DEPTH_MAX];

    int result;
    uint64_t failed_at;
    struct error failure;
};

/* What a failed or unstarted reader reads. */
static const uint8_t nothing[PADDING];

struct json_reader *json_reader_new(struct input *in, struct budget *budget)
{
    struct json_reader *r = calloc(1, sizeof(*r));
    if (!r)
        abort();
    r->in = in;
    r->ended = !in;
    r->budget = budget;
    r->pos = r->end = nothing;
    return r;
}

void json_reader_free(struct json_reader *r)
{
    if (!r)
        return;
    budget_free(r->budget, r->buf, r->cap + PADDING);
    free(r);
}

uint64_t json_offset(const struct json_reader *r)
{
    if (r->result < 0)
        return r->failed_at;
    return r->buf ? r->base + (uint64_t)(r->pos - r->buf) : 0;
}

bool json_failed(const struct json_reader *r)
{
    return r->result < 0;
}

/* From here on every loop ends and every getter yields zero. */
static void stop(struct json_reader *r, int result)
{
    r->failed_at = json_offset(r);
    r->result = result;
    r->pos = r->end = nothing;
    r->keep = NULL;
    r->ended = true;
    r->colon_due = false;
    r->depth = 0;
}

static void fail_budget(struct json_reader *r)
{
    budget_error(r->budget, &r->failure);
    stop(r, -ENOBUFS);
}

/* Once the budget is spent, tables have holes: what looks wrong then is no fault of the document.
 */
static __attribute__((format(printf, 3, 0))) void fail_with(struct json_reader *r, uint64_t offset,
                                                            const char *fmt, va_list ap)
{
    if (r->result < 0)
        return;
    if (budget_failed(r->budget)) {
        fail_budget(r);
        return;
    }
    vsnprintf(r->failure.text, sizeof(r->failure.text), fmt, ap);
    stop(r, -EBADMSG);
    r->failed_at = offset;
}

void json_fail(struct json_reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_with(r, json_offset(r), fmt, ap);
    va_end(ap);
}

void json_fail_at(struct json_reader *r, uint64_t offset, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_with(r, offset, fmt, ap);
    va_end(ap);
}

static void fail_at(struct json_reader *r, const uint8_t *at, const char *why)
{
    if (r->result == 0)
        r->pos = at;
    json_fail(r, "%s", why);
}

static bool grow(struct json_reader *r, size_t cap)
{
    size_t pos = r->buf ? (size_t)(r->pos - r->buf) : 0, keep = 0;
    void *p = r->buf;

    if (r->keep)
        keep = (size_t)(r->keep - r->buf);
    if (!budget_resize(r->budget, &p, r->buf ? r->cap + PADDING : 0, cap + PADDING)) {
        fail_budget(r);
        return false;
    }
    r->buf = p;
    r->cap = cap;
    r->pos = r->buf + pos;
    r->keep = r->keep ? r->buf + keep : NULL;
    return true;
}

/* Room behind the `held` bytes from `from` on, which move to the front of the buffer. */
static bool make_room(struct json_reader *r, size_t held)
{
    if (!r->buf && !grow(r, CHUNK))
        return false;
    if (held == r->cap && !grow(r, r->cap * 2))
        return false;
    const uint8_t *from = r->keep ? r->keep : r->pos;
    size_t consumed = (size_t)(from - r->buf);
    if (held > 0 && consumed > 0)
        memmove(r->buf, from, held);
    r->base += consumed;
    r->pos -= consumed;
    r->keep = r->keep ? r->buf : NULL;
    return true;
}

/* More content behind r->end; what is before r->pos goes. False at the end or after an error. */
static __attribute__((noinline)) bool refill(struct json_reader *r)
{
    size_t held = (size_t)(r->end - (r->keep ? r->keep : r->pos));

    if (r->ended)
        return false;
    if (budget_failed(r->budget)) {
        fail_budget(r);
        return false;
    }
    if (!make_room(r, held))
        return false;
    ssize_t got = input_read(r->in, r->buf + held, r->cap - held, &r->failure);
    if (got < 0) {
        stop(r, (int)got);
        return false;
    }
    r->ended = got == 0;
    r->end = r->buf + held + got;
    memset(r->buf + held + got, 0, PADDING);
    return got > 0;
}

void json_reader_set_text(struct json_reader *r, struct bytes text, uint64_t offset)
{
    r->pos = r->end = r->buf ? r->buf : nothing;
    r->keep = NULL;
    r->base = offset;
    r->ended = true;
    r->first = r->colon_due = false;
    r->depth = 0;
    r->result = 0;
    if ((!r->buf || r->cap < text.len) && !grow(r, text.len < 256 ? 256 : text.len * 2))
        return;
    if (text.len > 0)
        memcpy(r->buf, text.data, text.len);
    memset(r->buf + text.len, 0, PADDING);
    r->pos = r->buf;
    r->end = r->buf + text.len;
}

/* The same while scanning a token: *p, which is r->end, keeps its place. */
static bool refill_at(struct json_reader *r, const uint8_t **p)
{
    size_t scanned = (size_t)(*p - r->pos);
    bool more = refill(r);
    *p = r->result < 0 ? r->pos : r->pos + scanned;
    return more;
}

/* At least n unread bytes, where there are as many. */
static bool want(struct json_reader *r, size_t n)
{
    while ((size_t)(r->end - r->pos) < n) {
        if (!refill(r))
            return false;
    }
    return true;
}

/* The next character that is not white space (not consumed), or -1 at the end. */
static inline int next_char(struct json_reader *r)
{
    for (;;) {
        uint8_t c = *r->pos;
        if (c > ' ')
            return c;
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
            r->pos++;
        else if (r->pos < r->end)
            return c;
        else if (!refill(r))
            return -1;
    }
}

static void fail_kind(struct json_reader *r, const char *wanted);

/* The same where a value is to begin. */
static inline int value_char(struct json_reader *r)
{
    if (__builtin_expect(r->colon_due, 0)) {
        r->colon_due = false;
        if (next_char(r) != ':')
            fail_kind(r, "a colon");
        else
            r->pos++;
    }
    return next_char(r);
}

static enum json_kind kind_of(int c)
{
    switch (c) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return c == '-' || (c >= '0' && c <= '9') ? JSON_NUMBER : JSON_NONE;
    }
}

enum json_kind json_peek(struct json_reader *r)
{
    return kind_of(value_char(r));
}

static void fail_kind(struct json_reader *r, const char *wanted)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_NUMBER] = "a number",  [JSON_TRUE] = "true",      [JSON_FALSE] = "false",
        [JSON_NULL] = "null",
    };
    int c = next_char(r);
    enum json_kind kind = kind_of(c);

    if (c < 0)
        json_fail(r, "the document ends where %s was expected", wanted);
    else if (kind != JSON_NONE)
        json_fail(r, "%s was expected and %s was found", wanted, names[kind]);
    else if (c > ' ' && c < 0x7f)
        json_fail(r, "%s was expected and '%c' was found", wanted, c);
    else
        json_fail(r, "%s was expected and byte 0x%02x was found", wanted, (unsigned)c);
}

static void enter(struct json_reader *r, bool is_object)
{
    if (r->depth == JSON_DEPTH_MAX) {
        json_fail(r, "nested deeper than the limit of %d levels", JSON_DEPTH_MAX);
        return;
    }
    r->pos++;
    r->is_object[r->depth++] = is_object;
    r->first = true;
}

void json_enter_object(struct json_reader *r)
{
    if (value_char(r) == '{')
        enter(r, true);
    else
        fail_kind(r, "an object");
}

void json_enter_array(struct json_reader *r)
{
    if (value_char(r) == '[')
        enter(r, false);
    else
        fail_kind(r, "an array");
}

static void leave(struct json_reader *r)
{
    r->pos++;
    r->depth--;
    r->first = false;
}

/* True when another element (or key) of the current container comes, its comma read. */
static inline bool next_in(struct json_reader *r, uint8_t close)
{
    int c = next_char(r);

    if (c == ',' && !r->first) {
        r->pos++;
        return true;
    }
    if (r->result < 0)
        return false;
    if (c == close) {
        leave(r);
        return false;
    }
    if (r->first && c >= 0) {
        r->first = false;
        return true;
    }
    if (close == ']')
        fail_kind(r, "a comma or the end of the array");
    else
        fail_kind(r, "a comma or the end of the object");
    return false;
}

bool json_next_element(struct json_reader *r)
{
    return next_in(r, ']');
}

bool json_next_element_or_end(struct json_reader *r, bool *ret_is_cut)
{
    bool is_cut = next_char(r) < 0 && r->result == 0;
    if (!is_cut && !next_in(r, ']'))
        return false;
    if (!is_cut && (next_char(r) >= 0 || r->result < 0))
        return r->result == 0;
    r->depth--;
    r->first = false;
    if (ret_is_cut)
        *ret_is_cut = true;
    return false;
}

/* The first byte from p on that is a quote, a backslash or a control character (or the zero at the
 * end). Eight at a time: the borrow of a subtraction can only mislead above the first match. */
static inline const uint8_t *find_special(const uint8_t *p)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;

    for (;; p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        uint64_t quote = v ^ (ones * '"'), slash = v ^ (ones * '\\');
        uint64_t hit =
            (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((v - ones * 0x20) & ~v)) &
            high;
        if (hit)
            return p + (__builtin_ctzll(hit) >> 3);
    }
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "find_special() reads little-endian");

static void fail_in_string(struct json_reader *r, const uint8_t *p)
{
    if (p == r->end)
        fail_at(r, p, "a string is cut short");
    else
        fail_at(r, p, "a control character stands unescaped in a string");
}

/* Unescapes [from, end) in place; what comes out is never longer. */
static struct bytes unescape(struct json_reader *r, const uint8_t *from, const uint8_t *end)
{
    uint8_t *start = r->buf + (from - r->buf), *to = start;
    const uint8_t *p = from;

    while (p < end) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        const uint8_t *escape = p;
        uint8_t *next = json_unescape_one(&p, to);
        if (!next) {
            fail_at(r, escape, "an escape in a string is none of JSON's");
            return (struct bytes){0};
        }
        to = next;
    }
    return (struct bytes){start, (size_t)(to - start)};
}

/* The string whose opening quote is at r->pos; kept whole in the buffer. */
static struct bytes read_string(struct json_reader *r)
{
    const uint8_t *p = r->pos + 1;
    bool has_escapes = false;

    for (;;) {
        p = find_special(p);
        if (*p == '"')
            break;
        if (*p == '\\') {
            has_escapes = true;
            p++;
            if (p < r->end || refill_at(r, &p))
                p++;
        } else if (p < r->end || !refill_at(r, &p)) {
            fail_in_string(r, p);
            return (struct bytes){0};
        }
    }
    const uint8_t *from = r->pos + 1;
    struct bytes s = has_escapes ? unescape(r, from, p) : (struct bytes){from, (size_t)(p - from)};
    if (r->result == 0)
        r->pos = p + 1;
    return s;
}

/* Reads past a string, keeping nothing of it. */
static void skip_string(struct json_reader *r)
{
    r->pos++;
    for (;;) {
        const uint8_t *p = r->pos = find_special(r->pos);
        if (*p == '"') {
            r->pos++;
            return;
        }
        if (*p == '\\') {
            want(r, 12);
            uint8_t out[4];
            p = r->pos;
            if (!json_unescape_one(&p, out)) {
                fail_at(r, r->pos, "an escape in a string is none of JSON's");
                return;
            }
            r->pos = p;
        } else if (p < r->end || !refill(r)) {
            fail_in_string(r, r->pos);
            return;
        }
    }
}

/* The opening quote of the next key; false (and an error) when there is none. */
static bool at_key(struct json_reader *r)
{
    if (next_char(r) == '"')
        return true;
    fail_kind(r, "a key");
    return false;
}

/* The key is borrowed from the buffer, which looking for a distant colon might move: that colon is
 * left to whoever reads the value. */
static void after_key(struct json_reader *r)
{
    if (*r->pos == ':')
        r->pos++;
    else
        r->colon_due = r->result == 0;
}

bool json_next_key(struct json_reader *r, struct bytes *ret_key)
{
    if (!next_in(r, '}') || !at_key(r))
        return false;
    struct bytes key = read_string(r);
    if (r->result < 0)
        return false;
    after_key(r);
    *ret_key = key;
    return true;
}

struct bytes json_get_string(struct json_reader *r)
{
    if (value_char(r) == '"')
        return read_string(r);
    fail_kind(r, "a string");
    return (struct bytes){0};
}

static bool is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') <= 9;
}

/* Whether a number (or a literal) may end before c. */
static bool is_delimiter(uint8_t c)
{
    return c == ',' || c == ']' || c == '}' || c <= ' ';
}

static bool is_number_char(uint8_t c)
{
    return is_digit(c) || c == '-' || c == '+' || c == '.' || (c | 32) == 'e';
}

static const uint8_t *skip_digits(const uint8_t *p)
{
    while (is_digit(*p))
        p++;
    return p;
}

/* The end of the number at p by JSON's grammar, or NULL. */
static const uint8_t *match_number(const uint8_t *p, bool *ret_is_integer)
{
    bool is_integer = true;

    p += *p == '-';
    if (!is_digit(*p) || (p[0] == '0' && is_digit(p[1])))
        return NULL;
    p = skip_digits(p);
    if (*p == '.') {
        is_integer = false;
        if (!is_digit(*++p))
            return NULL;
        p = skip_digits(p);
    }
    if ((*p | 32) == 'e') {
        is_integer = false;
        p++;
        p += *p == '-' || *p == '+';
        if (!is_digit(*p))
            return NULL;
        p = skip_digits(p);
    }
    *ret_is_integer = is_integer;
    return is_delimiter(*p) ? p : NULL;
}

struct number {
    struct bytes text; /* in the buffer: something that is no part of a number follows it */
    bool is_integer;
};

/* The number at r->pos. False, and an error, when it is malformed. */
static bool read_number(struct json_reader *r, struct number *ret)
{
    const uint8_t *p = r->pos;

    for (;;) {
        while (is_number_char(*p))
            p++;
        if (p < r->end || !refill_at(r, &p))
            break;
    }
    const uint8_t *end = r->result == 0 ? match_number(r->pos, &ret->is_integer) : NULL;
    if (!end) {
        json_fail(r, "a number is malformed");
        return false;
    }
    ret->text = (struct bytes){r->pos, (size_t)(end - r->pos)};
    r->pos = end;
    return true;
}

/* An integer of up to 18 digits that ends within the buffer: true, and r->pos behind it. */
static inline bool read_small(struct json_reader *r, const uint8_t *p, int64_t *ret)
{
    bool negative = *p == '-';
    p += negative;
    const uint8_t *digits = p;
    uint64_t v = 0;

    while (is_digit(*p) && p - digits < 19)
        v = v * 10 + (uint64_t)(*p++ - '0');
    if (p == digits || p - digits > 18 || (*digits == '0' && p - digits > 1) || *p == 0 ||
        !is_delimiter(*p))
        return false;
    *ret = negative ? -(int64_t)v : (int64_t)v;
    r->pos = p;
    return true;
}

/* Text is zero-terminated here, or followed by something that ends a number. */
static double text_to_double(struct number n)
{
    return strtod((const char *)n.text.data, NULL);
}

/* A number in quotes. */
static bool read_quoted(struct json_reader *r, struct number *ret)
{
    struct bytes s = read_string(r);
    if (r->result < 0)
        return false;
    /* The closing quote behind the text ends the number for match_number() once it is a blank. */
    r->buf[(s.data + s.len) - r->buf] = ' ';
    const uint8_t *end = s.len > 0 ? match_number(s.data, &ret->is_integer) : NULL;
    if (end != s.data + s.len) {
        fail_at(r, s.data - 1, "a number was expected and another string was found");
        return false;
    }
    ret->text = s;
    return true;
}

/* The number that comes next, plain or quoted. */
static bool next_number(struct json_reader *r, struct number *ret)
{
    switch (json_peek(r)) {
    case JSON_NUMBER:
        return read_number(r, ret);
    case JSON_STRING:
        return read_quoted(r, ret);
    default:
        fail_kind(r, "a number");
        return false;
    }
}

int64_t json_get_i64(struct json_reader *r)
{
    struct number n = {0};
    int64_t v = 0;

    value_char(r);
    if (read_small(r, r->pos, &v))
        return v;
    if (!next_number(r, &n))
        return 0;
    if (n.is_integer) {
        if (bytes_to_i64(n.text, &v))
            return v;
    } else {
        double d = text_to_double(n);
        if (d >= -0x1p63 && d < 0x1p63)
            return (int64_t)d;
    }
    json_fail(r, "a number is out of range for 64 bits");
    return 0;
}

uint64_t json_get_u64(struct json_reader *r)
{
    struct number n = {0};
    int64_t small;
    uint64_t v = 0;

    value_char(r);
    if (*r->pos != '-' && read_small(r, r->pos, &small))
        return (uint64_t)small;
    if (!next_number(r, &n))
        return 0;
    if (n.is_integer) {
        if (bytes_to_u64(n.text, &v))
            return v;
    } else {
        double d = text_to_double(n);
        if (d > -1 && d < 0x1p64)
            return d < 0 ? 0 : (uint64_t)d;
    }
    json_fail(r, "a number is out of range for 64 bits without a sign");
    return 0;
}

/* Up to 15 digits and a point, no exponent: a division of two exact doubles rounds correctly. */
static bool read_small_double(struct json_reader *r, double *ret)
{
    static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const uint8_t *p = r->pos, *point = NULL;
    bool negative = *p == '-';
    p += negative;
    const uint8_t *start = p;
    uint64_t v = 0;

    for (; p - start < 16; p++) {
        if (*p == '.' && !point && p > start)
            point = p;
        else if (is_digit(*p))
            v = v * 10 + (uint64_t)(*p - '0');
        else
            break;
    }
    if (p == start || p - start > 15 || *p == 0 || !is_delimiter(*p) || point == p - 1 ||
        (*start == '0' && is_digit(start[1])))
        return false;
    double d = (double)v / powers[point ? p - point - 1 : 0];
    *ret = negative ? -d : d;
    r->pos = p;
    return true;
}

double json_get_double(struct json_reader *r)
{
    struct number n = {0};
    double v = 0;

    value_char(r);
    if (read_small_double(r, &v))
        return v;
    if (!next_number(r, &n))
        return 0;
    v = text_to_double(n);
    if (isfinite(v))
        return v;
    json_fail(r, "a number is out of range for a double");
    return 0;
}

/* Reads past the literal that begins at r->pos. */
static void read_literal(struct json_reader *r, const char *word, size_t len)
{
    want(r, len + 1);
    if ((size_t)(r->end - r->pos) < len || memcmp(r->pos, word, len) != 0 ||
        !is_delimiter(r->pos[len]))
        json_fail(r, "a word is none of true, false and null");
    else
        r->pos += len;
}

bool json_get_bool(struct json_reader *r)
{
    int c = value_char(r);

    if (c == 't')
        read_literal(r, "true", 4);
    else if (c == 'f')
        read_literal(r, "false", 5);
    else
        fail_kind(r, "true or false");
    return c == 't' && r->result == 0;
}

size_t json_get_i64_run(struct json_reader *r, int64_t *to, size_t n)
{
    size_t got = 0;

    while (got < n) {
        const uint8_t *p = r->pos;
        if (*p == ',' && !r->first) {
            p++;
            while (*p == ' ' || *p == '\n')
                p++;
            if (read_small(r, p, &to[got])) {
                got++;
                continue;
            }
        }
        /* The first and the last, those at the end of a chunk, and large ones. */
        if (!json_next_element(r))
            break;
        to[got] = json_get_i64(r);
        if (r->result < 0)
            break;
        got++;
    }
    return got;
}

struct bytes json_get_string_or_empty(struct json_reader *r)
{
    if (value_char(r) == '"')
        return read_string(r);
    json_skip(r);
    return (struct bytes){nothing, 0};
}

/* Reads past a scalar, or steps into a container. */
static void skip_one(struct json_reader *r)
{
    struct number n = {0};
    int64_t v;
    int c = value_char(r);

    switch (kind_of(c)) {
    case JSON_STRING:
        skip_string(r);
        break;
    case JSON_NUMBER:
        if (!read_small(r, r->pos, &v))
            read_number(r, &n);
        break;
    case JSON_OBJECT:
    case JSON_ARRAY:
        enter(r, c == '{');
        break;
    case JSON_TRUE:
        read_literal(r, "true", 4);
        break;
    case JSON_FALSE:
        read_literal(r, "false", 5);
        break;
    case JSON_NULL:
        read_literal(r, "null", 4);
        break;
    default:
        fail_kind(r, "a value");
    }
}

void json_skip(struct json_reader *r)
{
    uint32_t outside = r->depth;

    skip_one(r);
    while (r->depth > outside) {
        if (!r->is_object[r->depth - 1]) {
            if (next_in(r, ']'))
                skip_one(r);
        } else if (next_in(r, '}') && at_key(r)) {
            skip_string(r);
            after_key(r);
            skip_one(r);
        }
    }
}

struct bytes json_get_raw(struct json_reader *r)
{
    value_char(r);
    if (r->result < 0)
        return (struct bytes){0};
    r->keep = r->pos;
    json_skip(r);
    struct bytes raw = {r->keep, r->keep ? (size_t)(r->pos - r->keep) : 0};
    r->keep = NULL;
    return raw;
}

int json_result(struct json_reader *r, const char *format, struct error *err)
{
    if (r->result == 0 && budget_failed(r->budget))
        fail_budget(r);
    if (r->result == 0)
        return 0;
    return error_set(err, r->result, "%s at byte %llu: %s", format,
                     (unsigned long long)r->failed_at, r->failure.text);
}

int json_finish(struct json_reader *r, const char *format, struct error *err)
{
    if (r->result == 0 && next_char(r) >= 0)
        json_fail(r, "something follows the end of the document");
    return json_result(r, format, err);
}
