#include <errno.h>

#include "query/json_answers.h"
#include "query/time_range.h"
#include "server/api_answer.h"
#include "server/api_file.h"
#include "server/server_internal.h"

/* Values over time: timelines, functions, heat maps. */

static void put_type(struct json_writer *w, struct bytes type, struct bytes unit)
{
    json_key(w, "type");
    json_string(w, type);
    json_key(w, "unit");
    json_string(w, unit);
}

/* The type that is counted, as far as it is one. */
static int write_type(const struct api_query *q, struct json_writer *w, struct error *err)
{
    CLEANUP(name_list_done) struct name_list types = {0};
    int r = query_types(&q->query, &types, err);
    if (r < 0 || types.names.len == 0)
        return r;
    struct bytes type = types.names.data[0], unit = {0};
    const uint8_t *colon = bytes_find_last_byte(type, ':');
    if (colon) {
        unit = bytes_from(type, (size_t)(colon - type.data) + 1);
        type = bytes_head(type, (size_t)(colon - type.data));
    }
    put_type(w, type, types.names.len == 1 ? unit : BYTES(""));
    return 0;
}

static void write_groups(const struct timeline *t, size_t limit, struct json_writer *w)
{
    json_key(w, "all_groups");
    json_u64(w, t->series.len);
    json_key(w, "groups");
    json_begin_array(w);
    for (size_t i = 0; i < t->series.len && i < limit; i++) {
        const struct timeline_series *s = &t->series.data[i];
        json_begin_object(w);
        json_labels(w, "labels", s->labels, t->n_group_by);
        json_key(w, "total");
        json_i64(w, s->total);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_points(const struct timeline *t, size_t limit, bool is_function, struct sheet *s)
{
    sheet_table(s, "points", SHEET_COLUMNS);
    struct sheet_column *group = sheet_column(s, "group", COLUMN_U32);
    struct sheet_column *start = sheet_column(s, "start_ns", COLUMN_NS);
    struct sheet_column *value = sheet_column(s, "value", COLUMN_I64);
    struct sheet_column *flat = is_function ? sheet_column(s, "flat", COLUMN_I64) : NULL;
    struct sheet_column *profiles = sheet_column(s, "profiles", COLUMN_U32);
    for (size_t i = 0; i < t->series.len && i < limit; i++) {
        const struct timeline_series *series = &t->series.data[i];
        for (size_t k = series->first; k < series->first + series->n; k++) {
            const struct timeline_point *p = &t->points.data[k];
            sheet_u32(group, (uint32_t)i);
            sheet_i64(start, p->start_ns);
            sheet_i64(value, p->value);
            if (flat)
                sheet_i64(flat, p->flat);
            sheet_u32(profiles, (uint32_t)p->n_profiles);
        }
    }
}

#define GROUPS_MAX 1000000

static int reply_timeline(struct api_query *q, const struct timeline *t, bool is_function,
                          struct error *err)
{
    struct sheet s;
    uint64_t limit;
    int r = api_number(q, "limit", GROUPS_MAX, GROUPS_MAX, &limit, err);
    if (r < 0)
        return r;
    sheet_init(&s, &q->call->budget);
    api_head(q, &s.head);
    r = write_type(q, &s.head, err);
    json_key(&s.head, "step_ns");
    json_i64_string(&s.head, t->step_ns);
    write_groups(t, (size_t)limit, &s.head);
    write_points(t, (size_t)limit, is_function, &s);
    if (r == 0)
        r = api_reply_sheet(q, &s, err);
    sheet_done(&s);
    return r;
}

/* More steps than this are nobody's wish, and would only fill memory. */
#define STEPS_MAX 100000

static int over_time(struct api_query *q, const char *function, struct error *err)
{
    CLEANUP(timeline_done) struct timeline t = {0};
    struct bytes by[API_BY_MAX];
    struct timeline_options o = {.group_by = by, .function = function};

    int r = api_duration(q, "step", &o.step_ns, err);
    if (r == 0)
        r = api_by(q, by, &o.n_group_by, err);
    if (r == 0 && o.step_ns > 0 &&
        ((uint64_t)q->query.to_ns - (uint64_t)q->query.from_ns) / (uint64_t)o.step_ns > STEPS_MAX)
        return error_set(err, -EINVAL, "step: the range has more than %d of them", STEPS_MAX);
    if (r == 0)
        r = api_need_type(q, err);
    if (r == 0)
        r = query_timeline(&q->query, &o, &t, err);
    return r < 0 ? r : reply_timeline(q, &t, function != NULL, err);
}

static int run_timeline(struct api_query *q, struct error *err)
{
    return over_time(q, NULL, err);
}

static int run_function(struct api_query *q, struct error *err)
{
    return over_time(q, api_text(q, "function"), err);
}

/* ---- Heat maps */

#define HEAT_ROWS     50
#define HEAT_ROWS_MAX 1000
#define HEAT_COLUMNS  400

static void write_cells(const struct heat_map *h, struct sheet *s)
{
    sheet_table(s, "cells", SHEET_COLUMNS);
    struct sheet_column *column = sheet_column(s, "column", COLUMN_U32);
    struct sheet_column *row = sheet_column(s, "row", COLUMN_U32);
    struct sheet_column *value = sheet_column(s, "value", COLUMN_I64);
    for (size_t c = 0; c < h->n_columns; c++) {
        for (size_t r = 0; r < h->n_rows; r++) {
            int64_t v = h->cells[c * h->n_rows + r];
            if (v == 0)
                continue;
            sheet_u32(column, (uint32_t)c);
            sheet_u32(row, (uint32_t)r);
            sheet_i64(value, v);
        }
    }
}

static int reply_heat(struct api_query *q, const struct heat_map *h, const struct store_type *type,
                      struct error *err)
{
    struct sheet s;
    struct json_writer *w = &s.head;
    sheet_init(&s, &q->call->budget);
    int r = 0;
    api_head(q, w);
    if (!type)
        r = write_type(q, w, err);
    else
        put_type(w, type->name, type->unit);
    json_key(w, "start_ns");
    json_i64_string(w, h->start_ns);
    json_key(w, "column_ns");
    json_i64_string(w, h->column_ns);
    json_key(w, "n_columns");
    json_u64(w, h->n_columns);
    json_key(w, "n_rows");
    json_u64(w, h->n_rows);
    json_key(w, "max");
    json_i64(w, h->max);
    write_cells(h, &s);
    if (r == 0)
        r = api_reply_sheet(q, &s, err);
    sheet_done(&s);
    return r;
}

/* A file's own times say how long it is. */
static int heat_of_file(struct api_query *q, int64_t column, size_t rows, struct error *err)
{
    CLEANUP(api_times_done) struct api_times times = {0};
    CLEANUP(heat_done) struct heat_map h = {0};

    int r = api_file_times(q, &times, err);
    if (r < 0)
        return r;
    if (column == 0)
        column = time_step_for(q->query.from_ns, q->query.to_ns, HEAT_COLUMNS);
    r = heat_begin(&q->query, column, rows, &h, err);
    for (size_t i = 0; r == 0 && i < times.all.len; i++)
        heat_add(&h, times.all.data[i].at_ns, times.all.data[i].value);
    return r < 0 ? r : reply_heat(q, &h, &times.type, err);
}

static int run_heatmap(struct api_query *q, struct error *err)
{
    CLEANUP(heat_done) struct heat_map h = {0};
    int64_t column = 0;
    uint64_t rows = 0;

    int r = api_duration(q, "step", &column, err);
    if (r == 0)
        r = api_number(q, "rows", HEAT_ROWS_MAX, HEAT_ROWS, &rows, err);
    if (r < 0)
        return r;
    if (q->call->file)
        return heat_of_file(q, column, (size_t)rows, err);
    r = api_need_type(q, err);
    if (r < 0)
        return r;
    if (column == 0)
        column = time_step_for(q->query.from_ns, q->query.to_ns, HEAT_COLUMNS);
    r = query_heat(&q->query, column, (size_t)rows, &h, err);
    return r < 0 ? r : reply_heat(q, &h, NULL, err);
}

/* ---- Routes */

static const api_run runs[] = {run_timeline, run_function, run_heatmap};

static int handle(struct call *c, struct error *err)
{
    return api_answer(c, runs[c->route->argument], err);
}

#define P_TIME                                                                                     \
    API_P_SELECT API_P_TYPE "step: length of a step, as 15s, default about a 120th of the range; " \
                            "by: labels to group by, repeated or with commas between; "            \
                            "limit: groups, those with the largest totals, default all; "

const struct route api_time_routes[] = {
    API_ROUTE("timeline", 0, "Value per step, grouped by labels", P_TIME API_P_FORMAT),
    API_ROUTE("function", 1, "What one function spends per step, itself and in all",
              P_TIME "function!: the exact name of a function; " API_P_FORMAT),
    API_ROUTE("heatmap", 2, "A range as cells: columns of one step, cut into rows of equal time",
              API_P_SELECT API_P_TYPE
              "step: length of a column, default about a 400th of the range; "
              "rows: cells of a column, default 50; " API_P_FORMAT),
    {0},
};
