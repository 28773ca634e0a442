#pragma once

#include "base/buf.h"
#include "base/vec.h"
#include "wire/json.h"

/*
 * An answer made of tables with columns, written as JSON for people and scripts or as binary
 * columns for whoever draws it: a browser makes typed arrays of those without parsing. The layout
 * is described in columnar.c and docs/api.md.
 *
 *     struct sheet s;
 *     sheet_init(&s, budget);
 *     json_key(&s.head, "unit"); ...                          members of the answer itself
 *     sheet_table(&s, "rows", SHEET_ROWS);
 *     struct sheet_column *flat = sheet_column(&s, "flat", COLUMN_I64);
 *     sheet_i64(flat, 7); ...                                 as many for each column of a table
 *     r = sheet_write(&s, is_binary, out, err);
 *     sheet_done(&s);
 */
enum column_kind {
    COLUMN_U32,
    COLUMN_I64,
    COLUMN_NS, /* like I64; in JSON a string, since JSON's readers round what is past 2^53 */
    COLUMN_F64,
    COLUMN_TEXT,
};

/* How a table looks in JSON; binary columns are called "table.column" either way. */
enum sheet_shape {
    SHEET_ROWS,    /* "table":[{"a":1,"b":2},...] */
    SHEET_COLUMNS, /* "table":{"a":[1,...],"b":[2,...]} */
};

struct sheet_column {
    const char *table, *name; /* static */
    enum sheet_shape shape;
    enum column_kind kind;
    size_t n;
    struct buf data; /* little-endian numbers; of text the end of each */
    struct buf text;
};

#define SHEET_COLUMNS_MAX 24

struct sheet {
    struct json_writer head; /* members: "key":value,... */
    struct buf members;
    struct sheet_column columns[SHEET_COLUMNS_MAX];
    size_t n_columns;
    const char *table;
    enum sheet_shape shape;
    struct budget *budget;
};

void sheet_init(struct sheet *s, struct budget *budget);
void sheet_done(struct sheet *s);

/* Columns that follow are of this table. */
void sheet_table(struct sheet *s, const char *name, enum sheet_shape shape);
/* Never NULL; at most SHEET_COLUMNS_MAX, which is the program's business. */
struct sheet_column *sheet_column(struct sheet *s, const char *name, enum column_kind kind);

void sheet_u32(struct sheet_column *c, uint32_t v);
void sheet_i64(struct sheet_column *c, int64_t v); /* I64 and NS */
void sheet_f64(struct sheet_column *c, double v);  /* not finite is null in JSON */
void sheet_text(struct sheet_column *c, struct bytes v);

/* 0, or -ENOBUFS naming the budget that is spent. */
int sheet_write(struct sheet *s, bool is_binary, struct buf *out, struct error *err);

#define SHEET_MEDIA_TYPE "application/vnd.vesta.columns"
