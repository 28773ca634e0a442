#include "formats/firefox_tables.h"

#include <math.h>

#include "profile/dict.h"

#define FIELDS_MAX 64 /* of a row in the schema form */
#define NO_FIELD   UINT32_MAX

struct reader {
    struct json_reader *r;
    struct budget *b;
    const struct firefox_table_spec *spec;
    struct firefox_table *t;
    uint32_t place[FIREFOX_COLUMNS_MAX]; /* in the schema form: where in a row */
    bool has_schema;
    firefox_column *by_place; /* rows that came before the schema, FIELDS_MAX columns */
    uint64_t length;
    bool has_length;
};

void firefox_table_done(struct budget *b, struct firefox_table *t)
{
    for (size_t i = 0; i < FIREFOX_COLUMNS_MAX; i++)
        vec_done(b, &t->columns[i]);
}

double firefox_table_get(const struct firefox_table *t, size_t column, size_t row)
{
    return row < t->columns[column].len ? t->columns[column].data[row] : (double)NAN;
}

bool firefox_table_index(const struct firefox_table *t, size_t column, size_t row, size_t n,
                         uint32_t *ret)
{
    double v = firefox_table_get(t, column, row);

    if (!(v >= 0) || v >= (double)n || v != floor(v))
        return false;
    *ret = (uint32_t)v;
    return true;
}

static double read_number(struct json_reader *r)
{
    switch (json_peek(r)) {
    case JSON_NUMBER:
        return json_get_double(r);
    case JSON_TRUE:
    case JSON_FALSE:
        return json_get_bool(r);
    default:
        json_skip(r);
        return (double)NAN;
    }
}

static void push(struct reader *t, firefox_column *c, double v)
{
    if (!vec_push(t->b, c, v))
        json_fail(t->r, "out of memory");
}

static int find_column(const struct firefox_table_spec *spec, struct bytes name)
{
    for (int i = 0; i < FIREFOX_COLUMNS_MAX && spec->columns[i]; i++) {
        if (bytes_are(name, spec->columns[i]))
            return i;
    }
    return -1;
}

static void read_schema(struct reader *t)
{
    struct bytes key;

    t->has_schema = true;
    json_enter_object(t->r);
    while (json_next_key(t->r, &key)) {
        int column = find_column(t->spec, key);
        double place = read_number(t->r);
        if (column >= 0 && place >= 0 && place < FIELDS_MAX)
            t->place[column] = (uint32_t)place;
    }
}

/* One row: its elements by place, as far as they are wanted or may yet be. */
static void read_row(struct reader *t, double *row)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < FIELDS_MAX; i++)
        row[i] = (double)NAN;
    if (json_peek(t->r) != JSON_ARRAY) {
        json_skip(t->r); /* the column "data" of markers */
        return;
    }
    json_enter_array(t->r);
    for (; json_next_element(t->r); n++) {
        if (n < FIELDS_MAX)
            row[n] = read_number(t->r);
        else
            json_skip(t->r);
    }
}

/* Keeps a row whose fields have no names yet. Columns are as long as their last value. */
static void keep_row(struct reader *t, const double *row, size_t n)
{
    for (size_t i = 0; i < FIELDS_MAX && !json_failed(t->r); i++) {
        firefox_column *c = &t->by_place[i];
        while (!isnan(row[i]) && c->len < n && !json_failed(t->r))
            push(t, c, (double)NAN);
        if (!isnan(row[i]))
            push(t, c, row[i]);
    }
    t->length = n + 1;
}

static void read_data(struct reader *t)
{
    double row[FIELDS_MAX];

    if (!t->has_schema && !t->by_place) {
        t->by_place = calloc(FIELDS_MAX, sizeof(*t->by_place));
        if (!t->by_place)
            abort();
    }
    json_enter_array(t->r);
    for (size_t n = 0; json_next_element(t->r); n++) {
        read_row(t, row);
        if (!t->has_schema) {
            keep_row(t, row, n);
            continue;
        }
        for (size_t i = 0; i < FIREFOX_COLUMNS_MAX; i++) {
            if (t->place[i] != NO_FIELD)
                push(t, &t->t->columns[i], row[t->place[i]]);
        }
    }
}

/* Rows that were read without knowing what they are. */
static void settle_rows(struct reader *t)
{
    for (size_t i = 0; i < FIREFOX_COLUMNS_MAX; i++) {
        if (t->place[i] == NO_FIELD)
            continue;
        firefox_column *from = &t->by_place[t->place[i]];
        for (size_t k = 0; k < t->length && !json_failed(t->r); k++)
            push(t, &t->t->columns[i], k < from->len ? from->data[k] : (double)NAN);
    }
}

static void read_column(struct reader *t, firefox_column *to)
{
    vec_clear(to);
    if (json_peek(t->r) != JSON_ARRAY) {
        json_skip(t->r);
        return;
    }
    json_enter_array(t->r);
    while (json_next_element(t->r))
        push(t, to, read_number(t->r));
}

static void read_table(struct reader *t, struct dict *dict)
{
    struct bytes key;

    json_enter_object(t->r);
    while (json_next_key(t->r, &key)) {
        int column = find_column(t->spec, key);
        if (bytes_are(key, "schema"))
            read_schema(t);
        else if (bytes_are(key, "data") && json_peek(t->r) == JSON_ARRAY)
            read_data(t);
        else if (bytes_are(key, "weightType"))
            t->t->string = dict_string(dict, json_get_string_or_empty(t->r));
        else if (bytes_are(key, "length")) {
            t->length = json_get_u64(t->r);
            t->has_length = true;
        } else if (column >= 0)
            read_column(t, &t->t->columns[column]);
        else
            json_skip(t->r);
    }
}

void firefox_table_read(struct json_reader *r, struct dict *dict,
                        const struct firefox_table_spec *spec, struct firefox_table *ret)
{
    struct reader t = {.r = r, .b = dict->budget, .spec = spec, .t = ret};

    firefox_table_done(t.b, ret);
    for (size_t i = 0; i < FIREFOX_COLUMNS_MAX; i++)
        t.place[i] = NO_FIELD;
    read_table(&t, dict);
    if (t.by_place) {
        settle_rows(&t);
        for (size_t i = 0; i < FIELDS_MAX; i++)
            vec_done(t.b, &t.by_place[i]);
        free(t.by_place);
    } else if (t.has_length && !spec->is_lax && t.length != firefox_table_rows(ret)) {
        json_fail(r, "%s says %llu rows and \"%s\" has %zu", spec->name,
                  (unsigned long long)t.length, spec->columns[0], firefox_table_rows(ret));
    }
}
