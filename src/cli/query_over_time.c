#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/query_verbs.h"
#include "profile/measure.h"
#include "query/time_range.h"
#include "wire/json.h"

/* Timelines, functions over time, heat maps: text for people, JSON and CSV for programs. */
#define GROUPS_MAX 16

struct grouping {
    struct bytes labels[GROUPS_MAX];
    size_t n;
    int64_t step_ns;
};

static int parse_grouping(const struct options *o, struct grouping *g, struct error *err)
{
    *g = (struct grouping){0};
    struct bytes rest = bytes_of(o->by ? o->by : "");
    while (rest.len > 0) {
        const uint8_t *comma = bytes_find_byte(rest, ',');
        size_t len = comma ? (size_t)(comma - rest.data) : rest.len;
        if (g->n == GROUPS_MAX)
            return error_set(err, -EINVAL, "--by takes at most %d labels", GROUPS_MAX);
        struct bytes name = bytes_trim(bytes_head(rest, len));
        if (name.len > 0)
            g->labels[g->n++] = name;
        rest = bytes_from(rest, len + (comma != NULL));
    }
    int r = o->step ? duration_parse(bytes_of(o->step), &g->step_ns, err) : 0;
    return r < 0 ? error_prefix(err, r, "--step") : 0;
}

static void group_text(const struct timeline *t, const struct timeline_series *s, struct buf *out)
{
    buf_add_byte(out, '{');
    for (size_t i = 0; i < t->n_group_by; i++) {
        buf_add_str(out, i > 0 ? ", " : "");
        buf_add_bytes(out, s->labels[i].name);
        buf_add_str(out, "=\"");
        buf_add_bytes(out, s->labels[i].value);
        buf_add_byte(out, '"');
    }
    buf_add_byte(out, '}');
}

static int64_t largest(const struct timeline *t)
{
    int64_t most = 1;
    for (size_t i = 0; i < t->points.len; i++)
        if (t->points.data[i].value > most)
            most = t->points.data[i].value;
    return most;
}

#define BAR_WIDTH 40

static void write_text(const struct timeline *t, const char *unit, bool is_function,
                       struct buf *out)
{
    char time[TIME_TEXT_MAX], value[MEASURE_TEXT_MAX], flat[MEASURE_TEXT_MAX];
    int64_t most = largest(t);

    if (is_function)
        buf_addf(out, "%-20s %12s %12s\n", "time", "cum", "flat");
    for (size_t i = 0; i < t->series.len; i++) {
        const struct timeline_series *s = &t->series.data[i];
        if (t->n_group_by > 0) {
            group_text(t, s, out);
            buf_add_byte(out, '\n');
        }
        for (size_t k = s->first; k < s->first + s->n; k++) {
            const struct timeline_point *p = &t->points.data[k];
            int width = p->value > 0 ? (int)((double)p->value / (double)most * BAR_WIDTH) : 0;
            measure_label(p->value, unit, "auto", value);
            buf_addf(out, "%s %12s", time_text(p->start_ns, time), value);
            if (is_function) {
                measure_label(p->flat, unit, "auto", flat);
                buf_addf(out, " %12s", flat);
            }
            buf_addf(out, "  %.*s\n", width, "########################################");
        }
    }
}

static void write_csv(const struct timeline *t, bool is_function, struct buf *out)
{
    char time[TIME_TEXT_MAX];
    buf_addf(out, "time,value,%sprofiles,group\n", is_function ? "flat," : "");
    for (size_t i = 0; i < t->series.len; i++) {
        const struct timeline_series *s = &t->series.data[i];
        CLEANUP(buf_done) struct buf group = {0};
        group_text(t, s, &group);
        for (size_t k = s->first; k < s->first + s->n; k++) {
            const struct timeline_point *p = &t->points.data[k];
            buf_addf(out, "%s,%lld,", time_text(p->start_ns, time), (long long)p->value);
            if (is_function)
                buf_addf(out, "%lld,", (long long)p->flat);
            buf_addf(out, "%llu,", (unsigned long long)p->n_profiles);
            report_csv_field(out, t->n_group_by > 0 ? buf_cstr(&group) : "", true);
        }
    }
}

static void write_points(const struct timeline *t, const struct timeline_series *s,
                         bool is_function, struct json_writer *w)
{
    json_key(w, "points");
    json_begin_array(w);
    for (size_t k = s->first; k < s->first + s->n; k++) {
        const struct timeline_point *p = &t->points.data[k];
        json_begin_object(w);
        json_key(w, "start_ns");
        json_i64_string(w, p->start_ns);
        json_key(w, "value");
        json_i64(w, p->value);
        if (is_function) {
            json_key(w, "flat");
            json_i64(w, p->flat);
        }
        json_key(w, "profiles");
        json_u64(w, p->n_profiles);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_json(const struct timeline *t, bool is_function, struct buf *out)
{
    struct json_writer w = {.out = out};
    json_begin_object(&w);
    json_key(&w, "step_ns");
    json_i64_string(&w, t->step_ns);
    json_key(&w, "series");
    json_begin_array(&w);
    for (size_t i = 0; i < t->series.len; i++) {
        const struct timeline_series *s = &t->series.data[i];
        json_begin_object(&w);
        json_key(&w, "labels");
        json_begin_object(&w);
        for (size_t k = 0; k < t->n_group_by; k++) {
            json_key_bytes(&w, s->labels[k].name);
            json_string(&w, s->labels[k].value);
        }
        json_end_object(&w);
        json_key(&w, "total");
        json_i64(&w, s->total);
        write_points(t, s, is_function, &w);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

/* The unit of the selected type, for people; "" when several are meant. */
static const char *unit_of(const struct query *q, struct name_list *types)
{
    if (query_types(q, types, NULL) < 0 || types->names.len != 1)
        return "";
    const char *colon = strrchr((const char *)types->names.data[0].data, ':');
    return colon ? colon + 1 : "";
}

static int write_timeline(const struct query *q, const struct options *o, struct timeline *t,
                          bool is_function, struct buf *out)
{
    CLEANUP(name_list_done) struct name_list types = {0};
    if (o->json)
        write_json(t, is_function, out);
    else if (o->csv)
        write_csv(t, is_function, out);
    else
        write_text(t, unit_of(q, &types), is_function, out);
    return 0;
}

/* Numbers of several types cannot be added up: one must be named. */
static int need_type(const struct query *q, struct error *err)
{
    CLEANUP(name_list_done) struct name_list types = {0};
    if (q->selector->type.len > 0)
        return 0;
    int r = query_types(q, &types, err);
    if (r < 0)
        return r;
    if (types.names.len > 1)
        return error_set(err, -EINVAL,
                         "which sample type? Put one before the brace, as in %.*s{...}; "
                         "\"query types\" lists them",
                         (int)strcspn((const char *)types.names.data[0].data, ":"),
                         (const char *)types.names.data[0].data);
    return 0;
}

static int over_time(const struct query *q, const struct options *o, const char *function,
                     struct buf *out, struct error *err)
{
    CLEANUP(timeline_done) struct timeline t = {0};
    struct grouping g;
    int r = parse_grouping(o, &g, err);
    if (r == 0)
        r = need_type(q, err);
    if (r == 0)
        r = query_timeline(q,
                           &(struct timeline_options){.step_ns = g.step_ns,
                                                      .group_by = g.labels,
                                                      .n_group_by = g.n,
                                                      .function = function},
                           &t, err);
    if (r < 0)
        return r;
    return t.points.len == 0 ? query_explain(q, query_nothing(q, err), err)
                             : write_timeline(q, o, &t, function != NULL, out);
}

int query_verb_timeline(const struct query *q, const struct options *o, const char *argument,
                        struct buf *out, struct error *err)
{
    (void)argument;
    return over_time(q, o, NULL, out, err);
}

int query_verb_function(const struct query *q, const struct options *o, const char *argument,
                        struct buf *out, struct error *err)
{
    return over_time(q, o, argument, out, err);
}

#define HEAT_ROWS 50

static void write_heat_json(const struct heat_map *h, struct buf *out)
{
    struct json_writer w = {.out = out};
    json_begin_object(&w);
    json_key(&w, "start_ns");
    json_i64_string(&w, h->start_ns);
    json_key(&w, "column_ns");
    json_i64_string(&w, h->column_ns);
    json_key(&w, "rows");
    json_u64(&w, h->n_rows);
    json_key(&w, "max");
    json_i64(&w, h->max);
    json_key(&w, "columns");
    json_begin_array(&w);
    for (size_t c = 0; c < h->n_columns; c++) {
        json_begin_array(&w);
        for (size_t r = 0; r < h->n_rows; r++)
            json_i64(&w, h->cells[c * h->n_rows + r]);
        json_end_array(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

/* What a cell is: in CSV, where it begins within its row, in nanoseconds. */
static void heat_header(const struct heat_map *h, const char *unit, bool is_csv, struct buf *out)
{
    char column[DURATION_TEXT_MAX], cell[DURATION_TEXT_MAX], most[MEASURE_TEXT_MAX];
    int64_t cell_ns = h->column_ns / (int64_t)h->n_rows;
    if (!is_csv) {
        measure_label(h->max, unit, "auto", most);
        buf_addf(out, "%s a line, %s a character; the darkest is %s\n",
                 duration_text(h->column_ns, column), duration_text(cell_ns, cell), most);
        return;
    }
    buf_add_str(out, "time");
    for (size_t r = 0; r < h->n_rows; r++)
        buf_addf(out, ",%lld", (long long)r * cell_ns);
    buf_add_byte(out, '\n');
}

static void write_heat_text(const struct heat_map *h, const char *unit, bool is_csv,
                            struct buf *out)
{
    char time[TIME_TEXT_MAX];
    static const char shades[] = " .:-=+*#%@";
    heat_header(h, unit, is_csv, out);
    for (size_t c = 0; c < h->n_columns; c++) {
        buf_add_str(out, time_text(h->start_ns + (int64_t)c * h->column_ns, time));
        buf_add_byte(out, is_csv ? ',' : ' ');
        for (size_t r = 0; r < h->n_rows; r++) {
            int64_t v = h->cells[c * h->n_rows + r];
            if (is_csv)
                buf_addf(out, "%s%lld", r > 0 ? "," : "", (long long)v);
            else
                buf_add_byte(
                    out, (uint8_t)shades[v <= 0 ? 0 : 1 + (int)((double)v * 8 / (double)h->max)]);
        }
        buf_add_byte(out, '\n');
    }
}

int query_verb_heatmap(const struct query *q, const struct options *o, const char *argument,
                       struct buf *out, struct error *err)
{
    CLEANUP(heat_done) struct heat_map h = {0};
    CLEANUP(name_list_done) struct name_list types = {0};
    struct grouping g;
    (void)argument;
    int r = parse_grouping(o, &g, err);
    if (r == 0)
        r = need_type(q, err);
    int64_t column = g.step_ns > 0 ? g.step_ns : time_step_for(q->from_ns, q->to_ns, 400);
    if (r == 0)
        r = query_heat(q, column, HEAT_ROWS, &h, err);
    if (r < 0)
        return r;
    if (h.max <= 0)
        return query_explain(q, query_nothing(q, err), err);
    if (o->json)
        write_heat_json(&h, out);
    else
        write_heat_text(&h, unit_of(q, &types), o->csv, out);
    return 0;
}
