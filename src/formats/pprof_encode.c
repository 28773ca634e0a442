/*
 * pprof protobuf, the writing side. Equal profiles give equal bytes: ids are handed out in the
 * order of the dictionary, strings in the order of their first use, and gzip has no time stamp.
 *
 * What pprof has no place for is left out and said, with one exception: the span a sample was taken
 * in becomes the labels trace_id and span_id, which people and tools can search for.
 */
#include "formats/pprof_encode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/pprof_internal.h"
#include "wire/inflate.h"
#include "wire/protobuf.h"

#define GZIP_LEVEL 6

/* Things left out or changed, one bit each; the texts are in loss_texts. */
enum loss {
    LOSS_LINKS,
    LOSS_TIMES,
    LOSS_FRAME_TYPES,
    LOSS_LOCATION_ATTRS,
    LOSS_MAPPING_ATTRS,
    LOSS_RESOURCE,
    LOSS_SCOPE,
    LOSS_PROFILE_ATTRS,
    LOSS_PROFILE_ID,
    LOSS_PAYLOAD,
    LOSS_LABEL_TEXT,
    LOSS_LABEL_KIND,
    LOSS_LABEL_EMPTY,
    LOSS_LABEL_UNIT,
    LOSS_COUNT
};

static const char *const loss_texts[LOSS_COUNT] = {
    [LOSS_LINKS] = "trace links became the labels trace_id and span_id",
    [LOSS_TIMES] = "the time of each sample is left out",
    [LOSS_FRAME_TYPES] = "frame types are left out",
    [LOSS_LOCATION_ATTRS] = "attributes of locations are left out",
    [LOSS_MAPPING_ATTRS] = "attributes of mappings are left out",
    [LOSS_RESOURCE] = "resource attributes are left out",
    [LOSS_SCOPE] = "the instrumentation scope is left out",
    [LOSS_PROFILE_ATTRS] = "attributes of the profile are left out",
    [LOSS_PROFILE_ID] = "the profile id is left out",
    [LOSS_PAYLOAD] = "the original payload is left out",
    [LOSS_LABEL_TEXT] = "labels that are neither text nor whole numbers became text",
    [LOSS_LABEL_KIND] = "labels holding lists are left out",
    [LOSS_LABEL_EMPTY] = "labels with an empty text, or 0 without a unit, are left out",
    [LOSS_LABEL_UNIT] = "units of text labels are left out",
};

struct encoder {
    const struct profile *p;
    const struct dict *d;
    struct buf *out;
    uint32_t lost; /* bits of enum loss */

    /* By dictionary id, the id in the file. 0: not in it (strings: not yet). */
    uint32_t *strings, *mappings, *functions, *locations;
    uint32_t *mapping_list; /* dictionary ids in file order */
    size_t n_mappings;

    struct buf string_table; /* its fields, in the order of first use */
    uint32_t n_strings;
    uint32_t *attr_texts;               /* by attribute id: string made of its value */
    uint32_t *trace_texts, *span_texts; /* by link id */
    uint32_t trace_key, span_key;
};

static void lose(struct encoder *e, enum loss what)
{
    e->lost |= 1u << what;
}

/* The output is the program's own and sized by data already held: see base/buf.h. */
static uint32_t *ids_new(size_t n)
{
    uint32_t *ids = calloc(n + 1, sizeof(*ids));
    if (!ids)
        abort();
    return ids;
}

/* A string the dictionary does not have. */
static uint32_t add_string(struct encoder *e, struct bytes s)
{
    pb_put_bytes(&e->string_table, PPROF_STRING, s);
    return e->n_strings++;
}

static uint32_t string_of(struct encoder *e, uint32_t id)
{
    if (id != 0 && e->strings[id] == 0)
        e->strings[id] = add_string(e, dict_text(e->d, id));
    return e->strings[id];
}

static void put_value_type(struct encoder *e, uint32_t field, struct value_type t)
{
    size_t at = pb_begin(e->out, field);
    pb_put_u64_opt(e->out, 1, string_of(e, t.type));
    pb_put_u64_opt(e->out, 2, string_of(e, t.unit));
    pb_end(e->out, at);
}

/* Gives ids to the locations that samples reach, and to the functions and mappings these need. */
static void number_locations(struct encoder *e)
{
    const struct dict *d = e->d;
    uint32_t *reached = ids_new(dict_n_nodes(d));
    uint32_t n = 0;

    for (size_t i = 0; i < e->p->n_samples; i++)
        reached[e->p->node[i]] = 1;
    for (size_t node = dict_n_nodes(d) - 1; node > 0; node--) {
        if (!reached[node])
            continue;
        reached[d->node_parent.data[node]] = 1;
        e->locations[d->node_location.data[node]] = 1;
    }
    free(reached);
    for (size_t l = 1; l < d->locations.len; l++) {
        if (e->locations[l])
            e->locations[l] = ++n;
    }
}

/* Function 0 is a function like any other here, without a name: pprof wants one for each line. */
static void number_functions(struct encoder *e)
{
    uint32_t n = 0;

    for (size_t l = 1; l < e->d->locations.len; l++) {
        const struct location *loc = &e->d->locations.data[l];
        for (uint32_t i = 0; e->locations[l] && i < loc->n_lines; i++)
            e->functions[e->d->lines.data[loc->first_line + i].function] = 1;
    }
    for (size_t f = 0; f < e->d->functions.len; f++) {
        if (e->functions[f])
            e->functions[f] = ++n;
    }
}

static void add_mapping(struct encoder *e, uint32_t id)
{
    if (id == 0 || e->mappings[id] != 0)
        return;
    e->mapping_list[e->n_mappings++] = id;
    e->mappings[id] = (uint32_t)e->n_mappings;
}

/* pprof takes the first mapping for the main binary; then the order of the source. */
static void number_mappings(struct encoder *e)
{
    add_mapping(e, e->p->default_mapping);
    for (size_t i = 0; i < e->p->mappings.len; i++)
        add_mapping(e, e->p->mappings.data[i]);
    for (size_t l = 1; l < e->d->locations.len; l++) {
        if (e->locations[l])
            add_mapping(e, e->d->locations.data[l].mapping);
    }
}

static void put_text_label(struct encoder *e, uint32_t key, uint32_t text)
{
    size_t at = pb_begin(e->out, PPROF_SAMPLE_LABEL);
    pb_put_u64_opt(e->out, 1, key);
    pb_put_u64(e->out, 2, text);
    pb_end(e->out, at);
}

static void add_hex(struct buf *b, const uint8_t *data, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        buf_add_byte(b, (uint8_t)digits[data[i] >> 4]);
        buf_add_byte(b, (uint8_t)digits[data[i] & 15]);
    }
}

static uint32_t hex_string(struct encoder *e, const uint8_t *data, size_t n)
{
    struct buf hex = {0};
    add_hex(&hex, data, n);
    uint32_t id = add_string(e, buf_bytes(&hex));
    buf_done(&hex);
    return id;
}

/* A string for a value that is neither text nor a whole number. */
static uint32_t value_string(struct encoder *e, uint32_t id)
{
    const struct attribute *a = &e->d->attributes.data[id];
    char text[64];
    double real;

    if (e->attr_texts[id])
        return e->attr_texts[id];
    if (a->kind == ATTRIBUTE_BYTES) {
        struct bytes b = dict_text(e->d, a->text);
        return e->attr_texts[id] = hex_string(e, b.data, b.len);
    }
    memcpy(&real, &a->number, sizeof(real));
    if (a->kind == ATTRIBUTE_BOOL)
        snprintf(text, sizeof(text), "%s", a->number ? "true" : "false");
    else
        snprintf(text, sizeof(text), "%.17g", real);
    return e->attr_texts[id] = add_string(e, bytes_of(text));
}

static void put_label(struct encoder *e, uint32_t id)
{
    const struct attribute *a = &e->d->attributes.data[id];
    uint32_t key = string_of(e, a->key);

    switch (a->kind) {
    case ATTRIBUTE_STRING:
        if (a->unit)
            lose(e, LOSS_LABEL_UNIT);
        if (a->text)
            put_text_label(e, key, string_of(e, a->text));
        else
            lose(e, LOSS_LABEL_EMPTY);
        break;
    case ATTRIBUTE_INT: {
        if (a->number == 0 && a->unit == 0) {
            lose(e, LOSS_LABEL_EMPTY);
            break;
        }
        size_t at = pb_begin(e->out, PPROF_SAMPLE_LABEL);
        pb_put_u64_opt(e->out, 1, key);
        pb_put_u64_opt(e->out, 3, (uint64_t)a->number);
        pb_put_u64_opt(e->out, 4, string_of(e, a->unit));
        pb_end(e->out, at);
        break;
    }
    case ATTRIBUTE_BOOL:
    case ATTRIBUTE_DOUBLE:
    case ATTRIBUTE_BYTES:
        lose(e, LOSS_LABEL_TEXT);
        put_text_label(e, key, value_string(e, id));
        break;
    case ATTRIBUTE_NONE:
    case ATTRIBUTE_OTHER:
        lose(e, LOSS_LABEL_KIND);
        break;
    }
}

static bool is_zero(const uint8_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (id[i] != 0)
            return false;
    }
    return true;
}

static void put_link(struct encoder *e, uint32_t id)
{
    const struct link *l = &e->d->links.data[id];

    if (e->trace_key == 0) {
        e->trace_key = add_string(e, BYTES("trace_id"));
        e->span_key = add_string(e, BYTES("span_id"));
    }
    if (e->trace_texts[id] == 0) {
        e->trace_texts[id] = hex_string(e, l->trace_id, sizeof(l->trace_id));
        e->span_texts[id] = hex_string(e, l->span_id, sizeof(l->span_id));
    }
    lose(e, LOSS_LINKS);
    /* A label may have named the span alone. */
    if (!is_zero(l->trace_id, sizeof(l->trace_id)))
        put_text_label(e, e->trace_key, e->trace_texts[id]);
    if (!is_zero(l->span_id, sizeof(l->span_id)))
        put_text_label(e, e->span_key, e->span_texts[id]);
}

static void put_sample(struct encoder *e, size_t i)
{
    const struct profile *p = e->p;
    const struct dict *d = e->d;
    size_t message = pb_begin(e->out, PPROF_SAMPLE);

    if (p->node[i] != 0) {
        size_t at = pb_begin(e->out, PPROF_SAMPLE_LOCATION);
        for (uint32_t node = p->node[i]; node != 0 && !buf_full(e->out);
             node = d->node_parent.data[node])
            pb_put_varint(e->out, e->locations[d->node_location.data[node]]);
        pb_end(e->out, at);
    }
    size_t at = pb_begin(e->out, PPROF_SAMPLE_VALUE);
    for (uint32_t t = 0; t < p->n_types; t++)
        pb_put_varint(e->out, (uint64_t)p->values[t][i]);
    pb_end(e->out, at);

    struct attrs set = d->attr_sets.data[profile_attrs(p, i)];
    for (uint32_t k = 0; k < set.n; k++)
        put_label(e, d->attr_ids.data[set.first + k]);
    if (profile_link(p, i))
        put_link(e, profile_link(p, i));
    if (profile_time_ns(p, i))
        lose(e, LOSS_TIMES);
    pb_end(e->out, message);
}

static void put_mapping(struct encoder *e, uint32_t id)
{
    const struct mapping *m = &e->d->mappings.data[id];
    size_t at = pb_begin(e->out, PPROF_MAPPING);

    pb_put_u64(e->out, 1, e->mappings[id]);
    pb_put_u64_opt(e->out, 2, m->start);
    pb_put_u64_opt(e->out, 3, m->limit);
    pb_put_u64_opt(e->out, 4, m->offset);
    pb_put_u64_opt(e->out, 5, string_of(e, m->file));
    pb_put_u64_opt(e->out, 6, string_of(e, m->build_id));
    pb_put_u64_opt(e->out, 7, m->has_functions);
    pb_put_u64_opt(e->out, 8, m->has_filenames);
    pb_put_u64_opt(e->out, 9, m->has_line_numbers);
    pb_put_u64_opt(e->out, 10, m->has_inline_frames);
    pb_end(e->out, at);
    if (m->attrs)
        lose(e, LOSS_MAPPING_ATTRS);
}

static void put_location(struct encoder *e, uint32_t id)
{
    const struct location *l = &e->d->locations.data[id];
    size_t at = pb_begin(e->out, PPROF_LOCATION);

    pb_put_u64(e->out, 1, e->locations[id]);
    pb_put_u64_opt(e->out, 2, e->mappings[l->mapping]);
    pb_put_u64_opt(e->out, 3, l->address);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct line *line = &e->d->lines.data[l->first_line + i];
        size_t line_at = pb_begin(e->out, 4);
        pb_put_u64(e->out, 1, e->functions[line->function]);
        pb_put_u64_opt(e->out, 2, (uint64_t)line->line);
        pb_put_u64_opt(e->out, 3, (uint64_t)line->column);
        pb_end(e->out, line_at);
    }
    pb_put_u64_opt(e->out, 5, l->is_folded);
    pb_end(e->out, at);
    if (l->type)
        lose(e, LOSS_FRAME_TYPES);
    if (l->attrs)
        lose(e, LOSS_LOCATION_ATTRS);
}

static void put_function(struct encoder *e, uint32_t id)
{
    const struct function *f = &e->d->functions.data[id];
    size_t at = pb_begin(e->out, PPROF_FUNCTION);

    pb_put_u64(e->out, 1, e->functions[id]);
    pb_put_u64_opt(e->out, 2, string_of(e, f->name));
    pb_put_u64_opt(e->out, 3, string_of(e, f->system_name));
    pb_put_u64_opt(e->out, 4, string_of(e, f->file));
    pb_put_u64_opt(e->out, 5, (uint64_t)f->start_line);
    pb_end(e->out, at);
}

/* The header's strings are added last, so its fields are made before the table is written. */
static void put_header(struct encoder *e)
{
    const struct profile *p = e->p;
    struct buf header = {0};
    struct buf *body = e->out;

    e->out = &header;
    pb_put_u64_opt(&header, PPROF_DROP_FRAMES, string_of(e, p->drop_frames));
    pb_put_u64_opt(&header, PPROF_KEEP_FRAMES, string_of(e, p->keep_frames));
    pb_put_u64_opt(&header, PPROF_TIME, (uint64_t)p->time_unix_ns);
    pb_put_u64_opt(&header, PPROF_DURATION, (uint64_t)p->duration_ns);
    if (p->period_type.type || p->period_type.unit)
        put_value_type(e, PPROF_PERIOD_TYPE, p->period_type);
    pb_put_u64_opt(&header, PPROF_PERIOD, (uint64_t)p->period);
    for (size_t i = 0; i < p->comments.len; i++)
        pb_put_u64(&header, PPROF_COMMENT, string_of(e, p->comments.data[i]));
    pb_put_u64_opt(&header, PPROF_DEFAULT_TYPE, string_of(e, p->default_type));
    pb_put_u64_opt(&header, PPROF_DOC_URL, string_of(e, p->doc_url));
    e->out = body;
    buf_add_bytes(body, buf_bytes(&e->string_table));
    buf_add_bytes(body, buf_bytes(&header));
    buf_done(&header);
}

static void put_profile(struct encoder *e)
{
    number_locations(e);
    number_functions(e);
    number_mappings(e);
    add_string(e, (struct bytes){0});
    for (uint32_t t = 0; t < e->p->n_types; t++)
        put_value_type(e, PPROF_SAMPLE_TYPE, e->p->types[t]);
    for (size_t i = 0; i < e->p->n_samples && !buf_full(e->out); i++)
        put_sample(e, i);
    for (size_t i = 0; i < e->n_mappings; i++)
        put_mapping(e, e->mapping_list[i]);
    for (uint32_t l = 1; l < e->d->locations.len; l++) {
        if (e->locations[l])
            put_location(e, l);
    }
    for (uint32_t f = 0; f < e->d->functions.len; f++) {
        if (e->functions[f])
            put_function(e, f);
    }
    put_header(e);
}

static void lose_surroundings(struct encoder *e)
{
    static const uint8_t no_id[16];
    const struct profile *p = e->p;

    if (p->resource_attrs || p->resource_schema_url)
        lose(e, LOSS_RESOURCE);
    if (p->scope_attrs || p->scope_name || p->scope_version || p->scope_schema_url)
        lose(e, LOSS_SCOPE);
    if (p->profile_attrs)
        lose(e, LOSS_PROFILE_ATTRS);
    if (memcmp(p->profile_id, no_id, sizeof(no_id)) != 0)
        lose(e, LOSS_PROFILE_ID);
    if (p->original_payload)
        lose(e, LOSS_PAYLOAD);
}

int pprof_encode_plain(const struct profile_set *set, struct buf *out, struct buf *losses,
                       struct error *err)
{
    if (set->profiles.len != 1)
        return error_set(err, -EOPNOTSUPP, "pprof holds one profile, not %zu", set->profiles.len);
    const struct dict *d = set->dict;
    struct encoder e = {
        .p = set->profiles.data[0],
        .d = d,
        .out = out,
        .strings = ids_new(d->strings.len),
        .mappings = ids_new(d->mappings.len),
        .functions = ids_new(d->functions.len),
        .locations = ids_new(d->locations.len),
        .mapping_list = ids_new(d->mappings.len),
        .attr_texts = ids_new(d->attributes.len),
        .trace_texts = ids_new(d->links.len),
        .span_texts = ids_new(d->links.len),
    };

    put_profile(&e);
    lose_surroundings(&e);
    for (int i = 0; i < LOSS_COUNT; i++) {
        if (e.lost & 1u << i)
            buf_addf(losses, "%s\n", loss_texts[i]);
    }
    buf_done(&e.string_table);
    uint32_t *const tables[] = {e.strings,      e.mappings,   e.functions,   e.locations,
                                e.mapping_list, e.attr_texts, e.trace_texts, e.span_texts};
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
        free(tables[i]);
    return buf_full(out) ? buf_error(out, err) : 0;
}

int pprof_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                 struct error *err)
{
    struct buf plain = {.budget = set->budget};
    int r = pprof_encode_plain(set, &plain, losses, err);

    if (r == 0)
        gzip_pack(buf_bytes(&plain), GZIP_LEVEL, out);
    buf_done(&plain);
    return r;
}
