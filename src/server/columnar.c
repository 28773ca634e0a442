/*
 * The binary form of a sheet. All numbers are little-endian.
 *
 *     0   8 bytes  "VESTACOL"
 *     8   u32      version: 1
 *     12  u32      length of the header, a multiple of 8
 *     16  header   JSON, filled up with spaces
 *     ..  data     each array at a multiple of 8
 *
 * The header is the answer without its tables, and one member more:
 *
 *     "columns":[{"name":"nodes.self","type":"i64","length":3,"offset":0},
 *                {"name":"frames.name","type":"text","length":2,"offset":24,"text":40},...]
 *
 * Types are u32, i64 and f64, `length` elements each; and text: `length` u32, the end of each
 * string (UTF-8) within the bytes that lie at `text`; the first begins at 0. Offsets count from the
 * end of the header. Times are i64 nanoseconds since 1970.
 */
#include "server/columnar.h"

#include <assert.h>
#include <errno.h>

#include "base/le.h"

#define MAGIC   "VESTACOL"
#define VERSION 1

void sheet_init(struct sheet *s, struct budget *budget)
{
    *s = (struct sheet){.members = {.budget = budget}, .budget = budget};
    s->head.out = &s->members;
}

void sheet_done(struct sheet *s)
{
    for (size_t i = 0; i < s->n_columns; i++) {
        buf_done(&s->columns[i].data);
        buf_done(&s->columns[i].text);
    }
    buf_done(&s->members);
}

void sheet_table(struct sheet *s, const char *name, enum sheet_shape shape)
{
    s->table = name;
    s->shape = shape;
}

struct sheet_column *sheet_column(struct sheet *s, const char *name, enum column_kind kind)
{
    assert(s->n_columns < SHEET_COLUMNS_MAX);
    struct sheet_column *c = &s->columns[s->n_columns++];
    *c = (struct sheet_column){.table = s->table,
                               .name = name,
                               .shape = s->shape,
                               .kind = kind,
                               .data = {.budget = s->budget},
                               .text = {.budget = s->budget}};
    return c;
}

static void add_u32(struct buf *b, uint32_t v)
{
    uint8_t *at = buf_reserve(b, 4);
    if (at) {
        le32_put(at, v);
        b->len += 4;
    }
}

static void add_u64(struct buf *b, uint64_t v)
{
    uint8_t *at = buf_reserve(b, 8);
    if (at) {
        le64_put(at, v);
        b->len += 8;
    }
}

void sheet_u32(struct sheet_column *c, uint32_t v)
{
    add_u32(&c->data, v);
    c->n++;
}

void sheet_i64(struct sheet_column *c, int64_t v)
{
    add_u64(&c->data, (uint64_t)v);
    c->n++;
}

void sheet_f64(struct sheet_column *c, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    add_u64(&c->data, bits);
    c->n++;
}

void sheet_text(struct sheet_column *c, struct bytes v)
{
    buf_add_bytes(&c->text, v);
    if (c->text.len > UINT32_MAX)
        c->text.full = true; /* its place could not be told */
    add_u32(&c->data, (uint32_t)c->text.len);
    c->n++;
}

/* ---- JSON */

static void json_text(struct json_writer *w, const struct sheet_column *c, size_t i)
{
    uint32_t from = i > 0 ? le32_get(c->data.data + 4 * (i - 1)) : 0;
    uint32_t to = le32_get(c->data.data + 4 * i);
    json_string(w, (struct bytes){c->text.data + from, to - from});
}

static void json_value(struct json_writer *w, const struct sheet_column *c, size_t i)
{
    double real;
    uint64_t bits;

    switch (c->kind) {
    case COLUMN_U32:
        json_u64(w, le32_get(c->data.data + 4 * i));
        break;
    case COLUMN_I64:
        json_i64(w, (int64_t)le64_get(c->data.data + 8 * i));
        break;
    case COLUMN_NS:
        json_i64_string(w, (int64_t)le64_get(c->data.data + 8 * i));
        break;
    case COLUMN_F64:
        bits = le64_get(c->data.data + 8 * i);
        memcpy(&real, &bits, sizeof(real));
        json_double(w, real);
        break;
    case COLUMN_TEXT:
        json_text(w, c, i);
        break;
    }
}

static void json_rows(struct json_writer *w, const struct sheet_column *c, size_t n)
{
    json_begin_array(w);
    for (size_t i = 0; i < c->n && !buf_full(w->out); i++) {
        json_begin_object(w);
        for (size_t k = 0; k < n; k++) {
            json_key(w, c[k].name);
            json_value(w, &c[k], i);
        }
        json_end_object(w);
    }
    json_end_array(w);
}

static void json_columns(struct json_writer *w, const struct sheet_column *c, size_t n)
{
    json_begin_object(w);
    for (size_t k = 0; k < n; k++) {
        json_key(w, c[k].name);
        json_begin_array(w);
        for (size_t i = 0; i < c[k].n && !buf_full(w->out); i++)
            json_value(w, &c[k], i);
        json_end_array(w);
    }
    json_end_object(w);
}

static void write_json(struct sheet *s, struct buf *out)
{
    struct json_writer w = {.out = out};
    json_begin_object(&w);
    buf_add_bytes(out, buf_bytes(&s->members));
    w.needs_comma = s->members.len > 0;
    for (size_t i = 0, n; i < s->n_columns; i += n) {
        const struct sheet_column *c = &s->columns[i];
        for (n = 1; i + n < s->n_columns && c[n].table == c->table;)
            n++;
        json_key(&w, c->table);
        if (c->shape == SHEET_ROWS)
            json_rows(&w, c, n);
        else
            json_columns(&w, c, n);
    }
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

/* ---- Binary */

static size_t padded(size_t n)
{
    return (n + 7) / 8 * 8;
}

static void pad(struct buf *b, char with)
{
    while (b->len % 8 != 0 && !buf_full(b))
        buf_add_byte(b, (uint8_t)with);
}

static void describe(const struct sheet_column *c, struct json_writer *w, size_t *at)
{
    static const char *const types[] = {[COLUMN_U32] = "u32",
                                        [COLUMN_I64] = "i64",
                                        [COLUMN_NS] = "i64",
                                        [COLUMN_F64] = "f64",
                                        [COLUMN_TEXT] = "text"};
    CLEANUP(buf_done) struct buf name = {0};

    buf_addf(&name, "%s.%s", c->table, c->name);
    json_begin_object(w);
    json_key(w, "name");
    json_string(w, buf_bytes(&name));
    json_key(w, "type");
    json_cstring(w, types[c->kind]);
    json_key(w, "length");
    json_u64(w, c->n);
    json_key(w, "offset");
    json_u64(w, *at);
    *at += padded(c->data.len);
    if (c->kind == COLUMN_TEXT) {
        json_key(w, "text");
        json_u64(w, *at);
        *at += padded(c->text.len);
    }
    json_end_object(w);
}

static bool write_binary(struct sheet *s, struct buf *out)
{
    CLEANUP(buf_done) struct buf header = {.budget = s->budget};
    struct json_writer w = {.out = &header};
    size_t at = 0;

    json_begin_object(&w);
    buf_add_bytes(&header, buf_bytes(&s->members));
    w.needs_comma = s->members.len > 0;
    json_key(&w, "columns");
    json_begin_array(&w);
    for (size_t i = 0; i < s->n_columns; i++)
        describe(&s->columns[i], &w, &at);
    json_end_array(&w);
    json_end_object(&w);
    pad(&header, ' ');

    buf_add(out, MAGIC, 8);
    add_u32(out, VERSION);
    add_u32(out, (uint32_t)header.len);
    buf_add_bytes(out, buf_bytes(&header));
    for (size_t i = 0; i < s->n_columns; i++) {
        buf_add_bytes(out, buf_bytes(&s->columns[i].data));
        pad(out, 0);
        buf_add_bytes(out, buf_bytes(&s->columns[i].text));
        pad(out, 0);
    }
    return !buf_full(&header);
}

int sheet_write(struct sheet *s, bool is_binary, struct buf *out, struct error *err)
{
    bool is_full = buf_full(&s->members);
    for (size_t i = 0; i < s->n_columns; i++)
        is_full |= buf_full(&s->columns[i].data) || buf_full(&s->columns[i].text);
    if (is_full)
        return buf_error(&s->members, err);
    if (!is_binary)
        write_json(s, out);
    else if (!write_binary(s, out))
        return buf_error(&s->members, err);
    return buf_full(out) ? buf_error(out, err) : 0;
}
