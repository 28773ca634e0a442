#include <errno.h>
#include <string.h>

#include "formats/format.h"
#include "formats/heapsnapshot.h"
#include "profile/summary.h"
#include "server/api_answer.h"
#include "server/api_file.h"
#include "server/server_internal.h"

/* What a file is, before anything is asked of it: /api/v1/file/info. */

/* Of what a file may hold very many of, the first. */
#define RESOURCES_SHOWN    10
#define LABELS_SHOWN       100
#define CONSTRUCTORS_SHOWN 1000

static void put_count(struct json_writer *w, const char *key, uint64_t v)
{
    json_key(w, key);
    json_u64(w, v);
}

static void put_i64(struct json_writer *w, const char *key, int64_t v)
{
    json_key(w, key);
    json_i64(w, v);
}

static void put_text(struct json_writer *w, const char *key, const struct dict *d, uint32_t id)
{
    json_key(w, key);
    json_string(w, dict_text(d, id));
}

static void put_value_type(struct json_writer *w, const struct dict *d, struct value_type t)
{
    put_text(w, "type", d, t.type);
    put_text(w, "unit", d, t.unit);
}

static void put_types(struct json_writer *w, const struct dict *d, const struct profile_summary *s)
{
    json_key(w, "types");
    json_begin_array(w);
    for (uint32_t i = 0; i < s->n_types; i++) {
        json_begin_object(w);
        put_value_type(w, d, s->types[i]);
        put_i64(w, "total", (int64_t)s->totals[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

/* What the first profile says of all. */
static void put_first(struct json_writer *w, const struct profile *p)
{
    if (p->n_types > 0)
        put_text(w, "default_type", p->dict, p->types[profile_default_index(p)].type);
    json_key(w, "is_instant");
    json_bool(w, profile_is_instant(p));
    put_i64(w, "period", p->period);
    json_key(w, "period_type");
    json_begin_object(w);
    put_value_type(w, p->dict, p->period_type);
    json_end_object(w);
}

static void put_range(struct json_writer *w, const struct profile_summary *s)
{
    json_key(w, "start_ns");
    json_i64_string(w, s->time_unix_ns);
    json_key(w, "duration_ns");
    json_i64_string(w, s->duration_ns);
    json_key(w, "has_times");
    json_bool(w, s->has_times);
    json_key(w, "has_spans");
    json_bool(w, s->has_links);
}

/* Attributes that are texts: who made the profile. */
static void put_resource(struct json_writer *w, const struct dict *d, uint32_t id)
{
    struct attrs set = d->attr_sets.data[id];

    json_begin_object(w);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + i]];
        if (a->kind != ATTRIBUTE_STRING)
            continue;
        json_key_bytes(w, dict_text(d, a->key));
        json_string(w, dict_text(d, a->text));
    }
    json_end_object(w);
}

static void put_resources(struct json_writer *w, const struct profile_set *set)
{
    size_t n = 0;

    json_key(w, "resources");
    json_begin_array(w);
    for (size_t i = 0; i < set->profiles.len && n < RESOURCES_SHOWN; i++) {
        if (!profile_has_new_resource(set, i))
            continue;
        put_resource(w, set->dict, set->profiles.data[i]->resource_attrs);
        n++;
    }
    json_end_array(w);
}

static void put_texts(struct json_writer *w, const struct profile_set *set,
                      const struct profile_summary *s)
{
    json_key(w, "labels");
    json_begin_array(w);
    for (size_t i = 0; i < s->label_keys.len && i < LABELS_SHOWN; i++)
        json_string(w, dict_text(set->dict, s->label_keys.data[i]));
    json_end_array(w);
    put_resources(w, set);
    json_key(w, "comments");
    json_begin_array(w);
    for (size_t i = 0; i < set->profiles.data[0]->comments.len && i < LABELS_SHOWN; i++)
        json_string(w, dict_text(set->dict, set->profiles.data[0]->comments.data[i]));
    json_end_array(w);
    json_key(w, "notes");
    json_begin_array(w);
    for (size_t i = 0; i < set->notes.len; i++)
        json_cstring(w, set->notes.data[i]);
    json_end_array(w);
}

/* Addresses that nobody named: a debug file would help. */
static size_t count_nameless(const struct dict *d)
{
    size_t n = 0;

    for (size_t i = 1; i < d->locations.len; i++)
        n += d->locations.data[i].n_lines == 0;
    return n;
}

/* Of a heap snapshot: what retains most, by constructor. */
static void put_constructors(struct json_writer *w, const struct profile *p)
{
    struct heap_summary s;

    if (!heap_summarize(p, &s))
        return;
    put_count(w, "all_constructors", s.rows.len);
    json_key(w, "constructors");
    json_begin_array(w);
    for (size_t i = 0; i < s.rows.len && i < CONSTRUCTORS_SHOWN; i++) {
        const struct heap_row *row = &s.rows.data[i];
        json_begin_object(w);
        put_text(w, "name", p->dict, row->constructor);
        put_text(w, "type", p->dict, row->type);
        put_i64(w, "count", row->count);
        put_i64(w, "shallow", row->shallow);
        put_i64(w, "retained", row->retained);
        put_i64(w, "detached", row->detached);
        json_end_object(w);
    }
    json_end_array(w);
    heap_summary_done(&s);
}

static void write_info(const struct profile_set *set, const struct format *format,
                       const struct profile_summary *s, struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, "format");
    json_cstring(w, format->name);
    json_key(w, "title");
    json_cstring(w, format->title);
    put_count(w, "profiles", set->profiles.len);
    put_count(w, "samples", s->samples);
    put_count(w, "stacks", s->stacks);
    put_count(w, "max_depth", s->max_frames);
    put_count(w, "functions", set->dict->functions.len - 1);
    put_count(w, "nameless", count_nameless(set->dict));
    put_types(w, set->dict, s);
    put_first(w, set->profiles.data[0]);
    put_range(w, s);
    put_texts(w, set, s);
    if (set->profiles.len == 1)
        put_constructors(w, set->profiles.data[0]);
    json_end_object(w);
    buf_add_byte(w->out, '\n');
}

int api_file_info(struct api_query *q, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    struct json_writer w = {.out = &out};
    const struct format *format = NULL;
    struct profile_summary s;
    struct budget budget;

    budget_init(&budget, q->query.memory_limit > 0 ? q->query.memory_limit : QUERY_MEMORY);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&budget);
    int r = api_file_read(q->call, set, &format, err);
    if (r < 0)
        return r;
    profile_summarize(set, &s);
    write_info(set, format, &s, &w);
    profile_summary_done(set, &s);
    if (budget_failed(&budget))
        return budget_error(&budget, err);
    if (buf_full(&out))
        return buf_error(&out, err);
    api_reply(q, "application/json", &out);
    return 0;
}
