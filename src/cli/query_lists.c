#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hex.h"
#include "cli/query_verbs.h"
#include "query/json_answers.h"
#include "query/time_range.h"
#include "wire/json.h"

/* What there is: types, labels, series, single profiles, spans. */

static int write_names(const struct query *q, const struct name_list *l, const struct options *o,
                       struct buf *out, struct error *err)
{
    struct json_writer w = {.out = out};
    if (o->json)
        json_begin_array(&w);
    for (size_t i = 0; i < l->names.len; i++) {
        if (o->json) {
            json_string(&w, l->names.data[i]);
            continue;
        }
        buf_add_bytes(out, l->names.data[i]);
        buf_add_byte(out, '\n');
    }
    if (o->json) {
        json_end_array(&w);
        buf_add_byte(out, '\n');
    }
    return l->names.len > 0 ? 0 : query_explain(q, query_nothing(q, err), err);
}

int query_verb_types(const struct query *q, const struct options *o, const char *argument,
                     struct buf *out, struct error *err)
{
    CLEANUP(name_list_done) struct name_list l = {0};
    (void)argument;
    int r = query_types(q, &l, err);
    return r < 0 ? r : write_names(q, &l, o, out, err);
}

int query_verb_labels(const struct query *q, const struct options *o, const char *argument,
                      struct buf *out, struct error *err)
{
    CLEANUP(name_list_done) struct name_list l = {0};
    (void)argument;
    int r = query_label_names(q, &l, err);
    return r < 0 ? r : write_names(q, &l, o, out, err);
}

int query_verb_values(const struct query *q, const struct options *o, const char *argument,
                      struct buf *out, struct error *err)
{
    CLEANUP(name_list_done) struct name_list l = {0};
    int r = query_label_values(q, bytes_of(argument), &l, err);
    if (r == 0)
        r = write_names(q, &l, o, out, err);
    return r == -ENODATA ? query_no_label(q, bytes_of(argument), err) : r;
}

struct writer {
    const struct options *o;
    struct json_writer w;
    struct buf *out;
    size_t n, limit;
};

static void begin(struct writer *w)
{
    w->w.out = w->out;
    if (w->o->json)
        json_begin_array(&w->w);
}

static int end(struct writer *w, int r)
{
    if (w->o->json) {
        json_end_array(&w->w);
        buf_add_byte(w->out, '\n');
    }
    return r > 0 ? 0 : r;
}

static int end_or_explain(struct writer *w, const struct query *q, int r, struct error *err)
{
    r = end(w, r);
    return r == 0 && w->n == 0 ? query_explain(q, query_nothing(q, err), err) : r;
}

static void text_labels(struct buf *out, const struct label *labels, size_t n)
{
    buf_add_byte(out, '{');
    for (size_t i = 0; i < n; i++) {
        buf_add_str(out, i > 0 ? ", " : "");
        buf_add_bytes(out, labels[i].name);
        buf_add_str(out, "=\"");
        buf_add_bytes(out, labels[i].value);
        buf_add_byte(out, '"');
    }
    buf_add_byte(out, '}');
}

static int on_series(void *ctx, const struct store_series *s)
{
    struct writer *w = ctx;
    if (w->o->json) {
        json_series(&w->w, s);
    } else {
        for (size_t i = 0; i < s->n_types; i++) {
            buf_add_str(w->out, i > 0 ? "," : "");
            buf_add_bytes(w->out, s->types[i].name);
        }
        text_labels(w->out, s->labels, s->n_labels);
        buf_add_byte(w->out, '\n');
    }
    return ++w->n == w->limit;
}

int query_verb_series(const struct query *q, const struct options *o, const char *argument,
                      struct buf *out, struct error *err)
{
    struct writer w = {.o = o, .out = out, .limit = o->limit > 0 ? (size_t)o->limit : 0};
    (void)argument;
    struct store_scope scope = {q->tenant, q->selector, q->from_ns, q->to_ns};
    begin(&w);
    int r = store_series(q->store, &scope, on_series, &w, err);
    return end_or_explain(&w, q, r, err);
}

static void json_found(struct writer *w, const struct store_found *f)
{
    json_begin_object(&w->w);
    json_key(&w->w, "start_ns");
    json_i64_string(&w->w, f->start_ns);
    json_key(&w->w, "duration_ns");
    json_i64_string(&w->w, f->duration_ns);
    if (f->has_id)
        json_id(&w->w, "id", f->id, sizeof(f->id));
    json_labels(&w->w, "labels", f->series->labels, f->series->n_labels);
    json_key(&w->w, "totals");
    json_begin_object(&w->w);
    for (size_t i = 0; i < f->series->n_types; i++) {
        json_key_bytes(&w->w, f->series->types[i].name);
        json_i64(&w->w, f->totals[i]);
    }
    json_end_object(&w->w);
    json_end_object(&w->w);
}

static int on_found(void *ctx, const struct store_found *f)
{
    struct writer *w = ctx;
    char id[33], time[TIME_TEXT_MAX];
    hex_encode(f->id, 16, id);
    if (w->o->json) {
        json_found(w, f);
    } else {
        buf_addf(w->out, "%-30s %10.3fs %-32s ", time_text(f->start_ns, time),
                 (double)f->duration_ns / 1e9, f->has_id ? id : "-");
        for (size_t i = 0; i < f->series->n_types; i++) {
            buf_add_bytes(w->out, f->series->types[i].name);
            buf_addf(w->out, "=%lld ", (long long)f->totals[i]);
        }
        text_labels(w->out, f->series->labels, f->series->n_labels);
        buf_add_byte(w->out, '\n');
    }
    return ++w->n == w->limit;
}

static int parse_ids(const struct options *o, struct store_find *find, struct error *err)
{
    find->has_id = o->profile_id != NULL;
    find->has_trace = o->trace_id != NULL;
    find->has_span = o->span_id != NULL;
    if (find->has_id && !hex_decode(bytes_of(o->profile_id), find->id, 16))
        return error_set(err, -EINVAL, "--id takes 32 hex digits");
    if (find->has_trace && !hex_decode(bytes_of(o->trace_id), find->trace_id, 16))
        return error_set(err, -EINVAL, "--trace takes 32 hex digits");
    if (find->has_span && !hex_decode(bytes_of(o->span_id), find->span_id, 8))
        return error_set(err, -EINVAL, "--span takes 16 hex digits");
    return 0;
}

#define PROFILES_LISTED 100

static void tell_limit(const struct writer *w, size_t limit)
{
    if (w->n == limit && w->o->limit == 0 && !w->o->quiet)
        fprintf(stderr, "these are the first %zu found; --limit N shows more\n", limit);
}

int query_verb_profiles(const struct query *q, const struct options *o, const char *argument,
                        struct buf *out, struct error *err)
{
    struct writer w = {.o = o, .out = out};
    struct store_find find = query_find(q);

    find.limit = o->limit > 0 ? (size_t)o->limit : PROFILES_LISTED;
    (void)argument;
    int r = parse_ids(o, &find, err);
    if (r < 0)
        return r;
    begin(&w);
    r = store_profiles(q->store, &find, on_found, &w, err);
    tell_limit(&w, find.limit);
    return end_or_explain(&w, q, r, err);
}

static int on_span(void *ctx, const struct store_span *s)
{
    struct writer *w = ctx;
    char trace[33], span[17], time[TIME_TEXT_MAX];
    hex_encode(s->trace_id, 16, trace);
    hex_encode(s->span_id, 8, span);
    if (w->o->json) {
        json_begin_object(&w->w);
        json_id(&w->w, "trace_id", s->trace_id, sizeof(s->trace_id));
        json_id(&w->w, "span_id", s->span_id, sizeof(s->span_id));
        json_key(&w->w, "service");
        json_string(&w->w, s->service);
        json_key(&w->w, "name");
        json_string(&w->w, s->name);
        json_key(&w->w, "start_ns");
        json_i64_string(&w->w, s->start_ns);
        json_key(&w->w, "duration_ns");
        json_i64_string(&w->w, s->duration_ns);
        json_labels(&w->w, "attributes", s->attributes, s->n_attributes);
        json_end_object(&w->w);
    } else {
        buf_addf(w->out, "%-30s %10.3fms %s %s ", time_text(s->start_ns, time),
                 (double)s->duration_ns / 1e6, trace, span);
        buf_add_bytes(w->out, s->service);
        buf_add_byte(w->out, ' ');
        buf_add_bytes(w->out, s->name);
        buf_add_byte(w->out, '\n');
    }
    return ++w->n == w->limit;
}

/* The value that a selector asks a label to have, or nothing. */
static struct bytes wanted_value(const struct selector *s, struct bytes name)
{
    for (size_t i = 0; i < s->n_matchers; i++)
        if (s->matchers[i].op == MATCH_EQUAL && bytes_equal(s->matchers[i].name, name))
            return s->matchers[i].value;
    return (struct bytes){0};
}

int query_verb_spans(const struct query *q, const struct options *o, const char *argument,
                     struct buf *out, struct error *err)
{
    struct writer w = {.o = o, .out = out};
    struct store_find ids = {0};
    (void)argument;
    int r = parse_ids(o, &ids, err);
    if (r < 0)
        return r;
    struct store_span_find find = {
        .tenant = q->tenant,
        .service = wanted_value(q->selector, BYTES(LABEL_SERVICE)),
        .from_ns = q->from_ns,
        .to_ns = q->to_ns,
        .has_trace = ids.has_trace,
        .has_span = ids.has_span,
        .limit = o->limit > 0 ? (size_t)o->limit : PROFILES_LISTED,
    };
    memcpy(find.trace_id, ids.trace_id, 16);
    memcpy(find.span_id, ids.span_id, 8);
    begin(&w);
    r = store_spans(q->store, &find, on_span, &w, err);
    tell_limit(&w, find.limit);
    r = end(&w, r);
    return r == 0 && w.n == 0 ? query_nothing(q, err) : r; /* profiles would not explain it */
}
