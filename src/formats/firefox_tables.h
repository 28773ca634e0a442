#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "wire/json.h"

/*
 * The tables of Firefox profiles, which come in two forms of the same thing:
 *
 *     {"schema": {"stack": 0, "time": 1}, "data": [[5, 1.25], ...]}       as Firefox writes them
 *     {"length": 2, "stack": [5, ...], "time": [1.25, ...]}               as its profiler keeps
 * them
 *
 * Only named columns of numbers are kept. A missing value or null is NaN, true is 1.
 */
#define FIREFOX_COLUMNS_MAX 6

typedef VEC(double) firefox_column;

struct firefox_table {
    firefox_column columns[FIREFOX_COLUMNS_MAX];
    uint32_t string; /* of samples: the weightType as a dictionary string, or 0 */
};

/* What to read of one kind of table. The first column decides how many rows there are. */
struct firefox_table_spec {
    const char *name; /* for messages: "stackTable" */
    const char *columns[FIREFOX_COLUMNS_MAX];
    bool is_lax; /* the length it states need not be true */
};

struct dict;

/* Reads the table that comes next in r. Failures are r's. */
void firefox_table_read(struct json_reader *r, struct dict *dict,
                        const struct firefox_table_spec *spec, struct firefox_table *ret);
void firefox_table_done(struct budget *b, struct firefox_table *t);

/* The value at a row, NaN where there is none. */
double firefox_table_get(const struct firefox_table *t, size_t column, size_t row);

/* The same as an index below `n`; false where there is none or it is not one. */
bool firefox_table_index(const struct firefox_table *t, size_t column, size_t row, size_t n,
                         uint32_t *ret);

static inline size_t firefox_table_rows(const struct firefox_table *t)
{
    return t->columns[0].len;
}
