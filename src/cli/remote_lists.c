#include "cli/remote_lists.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/hex.h"
#include "wire/json.h"

#define ITEM_MEMORY ((size_t)64 << 20)

static struct json_reader *reader_of(struct bytes json, struct budget *b)
{
    struct json_reader *r = json_reader_new(NULL, b);
    json_reader_set_text(r, json, 0);
    return r;
}

/* ---- Cells over time */

enum { POINT_GROUP, POINT_START, POINT_VALUE, POINT_FLAT, POINT_PROFILES, POINT_COLUMNS };

static const struct {
    const char *name;
    int column;
} point_names[] = {
    {"group", POINT_GROUP},       {"start_ns", POINT_START},
    {"column", POINT_START}, /* of heat maps: a number */
    {"value", POINT_VALUE},       {"flat", POINT_FLAT},
    {"profiles", POINT_PROFILES},
};

struct points {
    struct store_answer *answer;
    VEC(int64_t) columns[POINT_COLUMNS];
    int64_t start_ns, column_ns; /* of heat maps */
};

static void points_done(struct points *p)
{
    for (size_t i = 0; i < POINT_COLUMNS; i++)
        vec_done(&p->answer->budget, &p->columns[i]);
}

static void read_columns(struct json_reader *r, struct points *p)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        size_t i = 0;
        while (i < ARRAY_SIZE(point_names) && !bytes_are(key, point_names[i].name))
            i++;
        if (i == ARRAY_SIZE(point_names)) {
            json_skip(r);
            continue;
        }
        json_enter_array(r);
        while (json_next_element(r))
            (void)vec_push(&p->answer->budget, &p->columns[point_names[i].column], json_get_i64(r));
    }
}

/* {"labels":{...},"total":1}: the values in the order that was asked for. */
static void read_group(struct json_reader *r, const struct store_plan *plan,
                       struct store_answer *answer)
{
    struct dict *d = answer->set->dict;
    struct label *labels = arena_new(&d->text, struct label, plan->n_group_by);

    for (size_t i = 0; labels && i < plan->n_group_by; i++)
        labels[i].name = dict_text(d, dict_string(d, plan->group_by[i]));
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (!bytes_are(key, "labels")) {
            json_skip(r);
            continue;
        }
        json_enter_object(r);
        for (struct bytes name; json_next_key(r, &name);) {
            size_t i = 0;
            while (i < plan->n_group_by && !bytes_equal(plan->group_by[i], name))
                i++;
            struct bytes value = json_get_string(r);
            if (labels && i < plan->n_group_by)
                labels[i].value = dict_text(d, dict_string(d, value));
        }
    }
    if (labels)
        (void)vec_push(&answer->budget, &answer->groups, labels);
}

static int64_t point(const struct points *p, int column, size_t i)
{
    return i < p->columns[column].len ? p->columns[column].data[i] : 0;
}

static int make_cells(const struct points *p, size_t n_groups, struct error *err)
{
    struct store_answer *a = p->answer;
    size_t first = a->groups.len - n_groups;

    for (size_t i = 0; i < p->columns[POINT_VALUE].len; i++) {
        struct store_cell cell = {.group = (uint32_t)(first + (size_t)point(p, POINT_GROUP, i)),
                                  .start_ns = point(p, POINT_START, i),
                                  .value = point(p, POINT_VALUE, i),
                                  .flat = point(p, POINT_FLAT, i),
                                  .n_profiles = (uint64_t)point(p, POINT_PROFILES, i)};
        if (p->column_ns > 0)
            cell.start_ns = p->start_ns + cell.start_ns * p->column_ns;
        if (cell.group >= a->groups.len)
            return error_set(err, -EBADMSG, "the server's answer names a group that is not there");
        if (!vec_push(&a->budget, &a->cells, cell))
            return budget_error(&a->budget, err);
    }
    return 0;
}

static void read_trouble(struct json_reader *r, struct store_answer *answer)
{
    struct bytes text = json_get_string_or_empty(r);

    answer->is_incomplete = true;
    (void)error_set(&answer->trouble, -EIO, "%.*s", (int)(text.len < 400 ? text.len : 400),
                    (const char *)text.data);
}

static int finish(struct json_reader *r, const struct points *p, size_t n_groups, struct error *err)
{
    struct store_answer *a = p->answer;
    int result = json_finish(r, "the server's answer", err);

    if (result == 0 && (budget_failed(&a->budget) || budget_failed(a->set->budget)))
        result = budget_error(budget_failed(&a->budget) ? &a->budget : a->set->budget, err);
    return result < 0 ? result : make_cells(p, n_groups, err);
}

int remote_read_timeline(struct bytes json, const struct store_plan *plan,
                         struct store_answer *answer, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = reader_of(json, &answer->budget);
    CLEANUP(points_done) struct points p = {.answer = answer};
    size_t before = answer->groups.len;

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "groups")) {
            json_enter_array(r);
            while (json_next_element(r))
                read_group(r, plan, answer);
        } else if (bytes_are(key, "points")) {
            read_columns(r, &p);
        } else if (bytes_are(key, "incomplete")) {
            read_trouble(r, answer);
        } else {
            json_skip(r);
        }
    }
    return finish(r, &p, answer->groups.len - before, err);
}

int remote_read_heat(struct bytes json, struct store_answer *answer, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = reader_of(json, &answer->budget);
    CLEANUP(points_done) struct points p = {.answer = answer, .column_ns = 1};
    struct label *none = arena_new(&answer->set->dict->text, struct label, 0);

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "start_ns"))
            p.start_ns = json_get_i64(r);
        else if (bytes_are(key, "column_ns"))
            p.column_ns = json_get_i64(r);
        else if (bytes_are(key, "cells"))
            read_columns(r, &p);
        else if (bytes_are(key, "incomplete"))
            read_trouble(r, answer);
        else
            json_skip(r);
    }
    if (none)
        (void)vec_push(&answer->budget, &answer->groups, none);
    return finish(r, &p, 1, err);
}

/* ---- Items of lists */

#define LABELS_MAX 256

/* What the items of a list may say; texts live in the arena until the next one. */
struct item {
    struct json_reader *r;
    struct arena text;
    struct label labels[LABELS_MAX];
    size_t n_labels;
    struct store_type types[PROFILE_TYPES_MAX];
    int64_t totals[PROFILE_TYPES_MAX];
    size_t n_types;
    bool is_instant;
    struct store_found found;
    struct store_span span;
    char error[300];
};

static struct bytes keep(struct item *it, struct bytes text)
{
    char *copy = arena_strdup(&it->text, text);
    return copy ? (struct bytes){(const uint8_t *)copy, text.len} : (struct bytes){0};
}

static void read_labels(struct item *it)
{
    json_enter_object(it->r);
    for (struct bytes key; json_next_key(it->r, &key);) {
        struct bytes name = keep(it, key), value = keep(it, json_get_string(it->r));
        if (it->n_labels < LABELS_MAX)
            it->labels[it->n_labels++] = (struct label){name, value};
    }
}

/* [{"type":"cpu","unit":"nanoseconds","total":7},...] */
static void read_types(struct item *it)
{
    json_enter_array(it->r);
    while (json_next_element(it->r)) {
        struct store_type type = {0};
        int64_t total = 0;
        json_enter_object(it->r);
        for (struct bytes key; json_next_key(it->r, &key);) {
            if (bytes_are(key, "type"))
                type.name = keep(it, json_get_string(it->r));
            else if (bytes_are(key, "unit"))
                type.unit = keep(it, json_get_string(it->r));
            else if (bytes_are(key, "total"))
                total = json_get_i64(it->r);
            else
                json_skip(it->r);
        }
        if (it->n_types < PROFILE_TYPES_MAX) {
            it->totals[it->n_types] = total;
            it->types[it->n_types++] = type;
        }
    }
}

static bool read_hex(struct item *it, uint8_t *to, size_t n)
{
    struct bytes text = json_get_string(it->r);
    bool ok = hex_decode(text, to, n);

    if (!ok)
        json_fail(it->r, "an id does not have %zu hex digits", 2 * n);
    return ok;
}

static bool read_span_key(struct item *it, struct bytes key)
{
    struct store_span *s = &it->span;

    if (bytes_are(key, "trace"))
        return read_hex(it, s->trace_id, 16), true;
    if (bytes_are(key, "span"))
        return read_hex(it, s->span_id, 8), true;
    if (bytes_are(key, "parent"))
        return read_hex(it, s->parent_id, 8), true;
    if (bytes_are(key, "service"))
        return s->service = keep(it, json_get_string(it->r)), true;
    if (bytes_are(key, "name"))
        return s->name = keep(it, json_get_string(it->r)), true;
    if (bytes_are(key, "kind"))
        return s->kind = (uint8_t)json_get_u64(it->r), true;
    if (bytes_are(key, "status"))
        return s->status = (uint8_t)json_get_u64(it->r), true;
    return false;
}

static void read_key(struct item *it, struct bytes key)
{
    if (bytes_are(key, "labels") || bytes_are(key, "attributes")) {
        read_labels(it);
    } else if (bytes_are(key, "types") || bytes_are(key, "totals")) {
        read_types(it);
    } else if (bytes_are(key, "instant")) {
        it->is_instant = json_get_bool(it->r);
    } else if (bytes_are(key, "id")) {
        it->found.has_id = read_hex(it, it->found.id, 16);
    } else if (bytes_are(key, "start_ns")) {
        it->found.start_ns = it->span.start_ns = json_get_i64(it->r);
    } else if (bytes_are(key, "duration_ns")) {
        it->found.duration_ns = it->span.duration_ns = json_get_i64(it->r);
    } else if (bytes_are(key, "period")) {
        it->found.period = json_get_i64(it->r);
    } else if (bytes_are(key, "error")) {
        struct bytes text = json_get_string_or_empty(it->r);
        snprintf(it->error, sizeof(it->error), "%.*s", (int)(text.len < 299 ? text.len : 299),
                 (const char *)text.data);
    } else if (!read_span_key(it, key)) {
        json_skip(it->r);
    }
}

static int hand_over(struct item *it, const struct remote_list *l)
{
    struct store_series series = {.labels = it->labels,
                                  .n_labels = it->n_labels,
                                  .types = it->types,
                                  .n_types = it->n_types,
                                  .is_instant = it->is_instant};

    if (l->on_series)
        return l->on_series(l->ctx, &series);
    if (l->on_span) {
        it->span.attributes = it->labels;
        it->span.n_attributes = it->n_labels;
        return l->on_span(l->ctx, &it->span);
    }
    it->found.series = &series;
    it->found.totals = it->totals;
    return l->on_found(l->ctx, &it->found);
}

static int read_item(struct bytes line, const struct remote_list *l, struct error *err)
{
    struct budget b;
    budget_init(&b, ITEM_MEMORY);
    CLEANUP(json_reader_freep) struct json_reader *r = reader_of(line, &b);
    struct item it = {.r = r};

    arena_init(&it.text, &b);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);)
        read_key(&it, key);
    int result = json_finish(r, "the server's answer", err);
    if (result == 0 && budget_failed(&b))
        result = budget_error(&b, err);
    if (result == 0 && it.error[0])
        result = error_set(err, -EIO, "%s", it.error);
    if (result == 0)
        result = hand_over(&it, l);
    arena_done(&it.text);
    return result;
}

int remote_read_list(struct bytes lines, const struct remote_list *l, struct error *err)
{
    struct bytes line;
    int r = 0;

    while (r == 0 && bytes_next_line(&lines, &line))
        r = line.len > 0 ? read_item(line, l, err) : 0;
    return r;
}
