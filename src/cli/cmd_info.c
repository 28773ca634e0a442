#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/heap_table.h"
#include "cli/load.h"
#include "formats/formats.h"
#include "formats/otlp_check.h"
#include "profile/measure.h"
#include "profile/summary.h"
#include "wire/json.h"

static void put_text(struct json_writer *w, const char *key, const struct dict *d, uint32_t id)
{
    json_key(w, key);
    json_string(w, dict_text(d, id));
}

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

static void put_attribute(struct json_writer *w, const struct dict *d, const struct attribute *a)
{
    double number;

    switch (a->kind) {
    case ATTRIBUTE_INT:
        json_i64(w, a->number);
        break;
    case ATTRIBUTE_BOOL:
        json_bool(w, a->number != 0);
        break;
    case ATTRIBUTE_DOUBLE:
        memcpy(&number, &a->number, sizeof(number));
        json_double(w, number);
        break;
    case ATTRIBUTE_STRING:
        json_string(w, dict_text(d, a->text));
        break;
    default:
        json_null(w);
        break;
    }
}

static void put_attrs(struct json_writer *w, const struct dict *d, uint32_t set_id)
{
    struct attrs set = d->attr_sets.data[set_id];

    json_begin_object(w);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + i]];
        json_key_bytes(w, dict_text(d, a->key));
        put_attribute(w, d, a);
    }
    json_end_object(w);
}

static void put_types(struct json_writer *w, const struct dict *d, const struct profile_summary *s)
{
    json_key(w, "sample_types");
    json_begin_array(w);
    for (uint32_t t = 0; t < s->n_types; t++) {
        json_begin_object(w);
        put_text(w, "type", d, s->types[t].type);
        put_text(w, "unit", d, s->types[t].unit);
        put_i64(w, "total", (int64_t)s->totals[t]);
        json_end_object(w);
    }
    json_end_array(w);
}

/* One line per profile of the file: what it counts and whose it is. */
static void put_profile(struct json_writer *w, const struct profile *p)
{
    const struct dict *d = p->dict;

    json_begin_object(w);
    put_count(w, "samples", p->n_samples);
    put_i64(w, "duration_ns", p->duration_ns);
    json_key(w, "sample_types");
    json_begin_array(w);
    for (uint32_t t = 0; t < p->n_types; t++) {
        json_begin_object(w);
        put_text(w, "type", d, p->types[t].type);
        put_text(w, "unit", d, p->types[t].unit);
        put_i64(w, "total", profile_total(p, t));
        json_end_object(w);
    }
    json_end_array(w);
    json_key(w, "attributes");
    put_attrs(w, d, p->profile_attrs);
    json_end_object(w);
}

static void put_comments(struct json_writer *w, const struct profile_set *set)
{
    json_key(w, "comments");
    json_begin_array(w);
    for (size_t i = 0; i < set->profiles.len; i++) {
        const struct profile *p = set->profiles.data[i];
        for (size_t c = 0; c < p->comments.len; c++)
            json_string(w, dict_text(set->dict, p->comments.data[c]));
    }
    json_end_array(w);
}

static void put_resources(struct json_writer *w, const struct profile_set *set)
{
    json_key(w, "resources");
    json_begin_array(w);
    for (size_t i = 0; i < set->profiles.len; i++) {
        if (profile_has_new_resource(set, i))
            put_attrs(w, set->dict, set->profiles.data[i]->resource_attrs);
    }
    json_end_array(w);
}

static void write_json(const struct loaded *l, const struct profile_summary *s, struct buf *out)
{
    const struct dict *d = l->set->dict;
    const struct profile *first = l->set->profiles.len ? l->set->profiles.data[0] : NULL;
    struct json_writer w = {.out = out};

    json_begin_object(&w);
    json_key(&w, "format");
    json_cstring(&w, l->format->name);
    put_count(&w, "profiles", l->set->profiles.len);
    put_count(&w, "samples", s->samples);
    put_types(&w, d, s);
    put_count(&w, "locations", d->locations.len - 1);
    put_count(&w, "functions", d->functions.len - 1);
    put_count(&w, "mappings", d->mappings.len - 1);
    put_count(&w, "strings", d->strings.len);
    put_count(&w, "nodes", dict_n_nodes(d) - 1);
    put_count(&w, "stacks", s->stacks);
    put_count(&w, "max_depth", s->max_depth);
    put_count(&w, "max_frames", s->max_frames);
    put_i64(&w, "time_unix_ns", s->time_unix_ns);
    put_i64(&w, "duration_ns", s->duration_ns);
    put_i64(&w, "period", first ? first->period : 0);
    json_key(&w, "period_type");
    json_begin_object(&w);
    put_text(&w, "type", d, first ? first->period_type.type : 0);
    put_text(&w, "unit", d, first ? first->period_type.unit : 0);
    json_end_object(&w);
    put_text(&w, "default_sample_type", d, first ? first->default_type : 0);
    put_comments(&w, l->set);
    json_key(&w, "label_keys");
    json_begin_array(&w);
    for (size_t i = 0; i < s->label_keys.len; i++)
        json_string(&w, dict_text(d, s->label_keys.data[i]));
    json_end_array(&w);
    put_resources(&w, l->set);
    json_key(&w, "by_profile");
    json_begin_array(&w);
    for (size_t i = 0; i < l->set->profiles.len; i++)
        put_profile(&w, l->set->profiles.data[i]);
    json_end_array(&w);
    json_key(&w, "notes");
    json_begin_array(&w);
    for (size_t i = 0; i < l->set->notes.len; i++)
        json_cstring(&w, l->set->notes.data[i]);
    json_end_array(&w);
    if (l->set->profiles.len == 1)
        heap_table_json(first, &w);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

static void add_time(struct buf *out, int64_t unix_ns)
{
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm tm;
    char text[64];

    if (unix_ns && gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%F %T UTC", &tm))
        buf_addf(out, "Taken:        %s\n", text);
}

static void add_resources(const struct profile_set *set, struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < set->profiles.len; i++) {
        if (!profile_has_new_resource(set, i))
            continue;
        struct json_writer w = {.out = out};
        buf_add_str(out, n++ == 0 ? "Resources:    " : "              ");
        put_attrs(&w, set->dict, set->profiles.data[i]->resource_attrs);
        buf_add_byte(out, '\n');
    }
}

/* "3 stacks", "1 stack". */
static void add_number(struct buf *out, size_t n, const char *what)
{
    buf_addf(out, "%zu %s%s", n, what, n == 1 ? "" : "s");
}

/* The total as the file has it, and as people read it where that is another text. */
static void add_types_text(const struct loaded *l, const struct profile_summary *s, struct buf *out)
{
    const struct dict *d = l->set->dict;
    const struct profile *first = l->set->profiles.len ? l->set->profiles.data[0] : NULL;

    for (uint32_t t = 0; t < s->n_types; t++) {
        const char *unit = dict_cstr(d, s->types[t].unit);
        char exact[32], text[MEASURE_TEXT_MAX];
        snprintf(exact, sizeof(exact), "%lld", (long long)s->totals[t]);
        measure_label((int64_t)s->totals[t], unit, "auto", text);
        buf_addf(out, "%s%s/%s, total %s", t == 0 ? "Sample types: " : "              ",
                 dict_cstr(d, s->types[t].type), unit, exact);
        if (strcmp(text, exact) != 0)
            buf_addf(out, " (%s)", text);
        if (s->n_types > 1 && first && first->n_types > 0 &&
            first->types[profile_default_index(first)].type == s->types[t].type)
            buf_add_str(out, ", shown by default");
        buf_add_byte(out, '\n');
    }
}

static void add_period(const struct profile *p, struct buf *out)
{
    char text[MEASURE_TEXT_MAX];

    if (!p->period || !p->period_type.type)
        return;
    measure_label(p->period, dict_cstr(p->dict, p->period_type.unit), "auto", text);
    buf_addf(out, "Period:       %s of %s\n", text, dict_cstr(p->dict, p->period_type.type));
}

static void add_comments(const struct profile_set *set, struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < set->profiles.len; i++) {
        const struct profile *p = set->profiles.data[i];
        for (size_t c = 0; c < p->comments.len; c++)
            buf_addf(out, "%s%s\n", n++ == 0 ? "Comments:     " : "              ",
                     dict_cstr(set->dict, p->comments.data[c]));
    }
}

static void write_text(const struct loaded *l, const struct profile_summary *s, struct buf *out)
{
    const struct dict *d = l->set->dict;

    buf_addf(out, "Format:       %s (%s)\n", l->format->title, l->format->name);
    buf_addf(out, "Profiles:     %zu\n", l->set->profiles.len);
    buf_addf(out, "Samples:      %zu in ", s->samples);
    add_number(out, s->stacks, "stack");
    buf_add_str(out, ", at most ");
    add_number(out, s->max_frames, "frame");
    buf_add_str(out, " deep\n");
    add_types_text(l, s, out);
    if (l->set->profiles.len == 1)
        add_period(l->set->profiles.data[0], out);
    add_time(out, s->time_unix_ns);
    if (s->duration_ns)
        buf_addf(out, "Duration:     %.3f s%s\n", (double)s->duration_ns / 1e9,
                 l->set->profiles.len > 1 ? " (of the longest profile)" : "");
    buf_add_str(out, "Names:        ");
    add_number(out, d->functions.len - 1, "function");
    buf_add_str(out, ", ");
    add_number(out, d->locations.len - 1, "location");
    buf_add_str(out, ", ");
    add_number(out, d->mappings.len - 1, "mapping");
    buf_add_byte(out, '\n');
    for (size_t i = 0; i < s->label_keys.len; i++)
        buf_addf(out, "%s%s%s", i == 0 ? "Labels:       " : ", ",
                 dict_cstr(d, s->label_keys.data[i]), i + 1 == s->label_keys.len ? "\n" : "");
    add_resources(l->set, out);
    add_comments(l->set, out);
    for (size_t i = 0; i < l->set->notes.len; i++)
        buf_addf(out, "%s%s\n", i == 0 ? "Notes:        " : "              ",
                 l->set->notes.data[i]);
    if (l->set->profiles.len == 1)
        heap_table_text(l->set->profiles.data[0], out);
}

/* What is wrong with each source by the rules of OTLP, whatever else it says. */
static int check_sources(const struct options *o, struct buf *out, struct error *err)
{
    int problems = 0;

    for (size_t i = 0; i < o->n_args; i++) {
        struct budget budget;
        struct input *opened = NULL;
        struct bytes content, head;
        budget_init(&budget, o->max_memory);
        int r = input_open(o->args[i], &budget, &opened, err);
        CLEANUP(input_closep) struct input *in = opened;
        if (r < 0 || (r = input_peek(in, &head, err)) < 0)
            return r;
        if (format_detect(head) != &format_otlp)
            return error_set(err, -EBADMSG, "%s: --check knows the rules of OTLP protobuf only",
                             input_name(in));
        if ((r = input_all(in, &content, err)) < 0)
            return r;
        struct buf found = {0};
        int n = otlp_check(content, &found);
        for (struct bytes rest = buf_bytes(&found), line; bytes_next_line(&rest, &line);)
            buf_addf(out, "%s: %.*s\n", o->args[i], (int)line.len, line.data);
        buf_done(&found);
        problems = n > 0 ? 1 : problems;
    }
    return problems;
}

int cmd_info(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct profile_summary s = {0};
    struct error err = {""};

    if (o->n_args == 0)
        return command_usage(self, "info needs a profile to look at");
    if (o->check) {
        int found = check_sources(o, &out, &err);
        if (found < 0)
            return command_fail(found, &err);
        int code = command_write(o, buf_bytes(&out), false);
        return code ? code : found ? VESTA_EXIT_ERROR : VESTA_EXIT_OK;
    }
    int r = load_set(&l, o, o->args, o->n_args, &err);
    if (r < 0)
        return command_fail(r, &err);
    profile_summarize(l.set, &s);
    if (o->json)
        write_json(&l, &s, &out);
    else
        write_text(&l, &s, &out);
    profile_summary_done(l.set, &s);
    return command_write(o, buf_bytes(&out), false);
}
