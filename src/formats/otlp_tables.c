/*
 * The dictionary of a message into ours. Tables come in any order and refer to each other, so a
 * first walk notes where each one's elements lie, and then they are read in the order of need:
 * strings, attributes, links, functions, mappings, locations, stacks.
 */
#include <errno.h>

#include "formats/otlp_internal.h"

static void index_dictionary(struct otlp *o, struct bytes dictionary)
{
    struct pb_reader r = pb_reader(dictionary);
    const uint8_t *start = r.pos;

    for (uint32_t last = 0; otlp_next(o, &r); last = r.field, start = r.pos) {
        if (r.field >= OTLP_TABLES)
            continue;
        struct otlp_table *t = &o->tables[r.field];
        t->n++;
        if (r.field == last)
            vec_last(&t->runs).end = r.pos;
        else if (!vec_push(o->budget, &t->runs, (struct otlp_run){start, r.pos}))
            o->status = budget_error(o->budget, o->err);
    }
}

void otlp_index_tables(struct otlp *o)
{
    struct pb_reader r = pb_reader(o->message);

    while (otlp_next(o, &r)) {
        if (r.field == 6 && r.wire == PB_BYTES)
            otlp_fail(o, o->origin,
                      "layout 1.6 of OTLP profiles is not supported: 1.7 and later are");
        else if (r.field == 2)
            index_dictionary(o, pb_bytes(&r));
    }
}

/* The elements of a table, one after the other. */
struct elements {
    struct otlp *o;
    const struct otlp_table *table;
    size_t run;
    struct pb_reader r;
};

static struct elements elements(struct otlp *o, enum otlp_dictionary_field table)
{
    static const struct otlp_table none;
    const struct otlp_table *t = &none;

    for (uint32_t f = 0; f < OTLP_TABLES; f++) {
        if (o->layout->dictionary[f] == table && o->tables[f].n > 0)
            t = &o->tables[f];
    }
    return (struct elements){.o = o, .table = t};
}

static bool next_element(struct elements *e, struct bytes *ret)
{
    while (e->r.pos == e->r.end) {
        if (e->o->status < 0 || e->run == e->table->runs.len)
            return false;
        struct otlp_run run = e->table->runs.data[e->run++];
        e->r = pb_reader((struct bytes){run.start, (size_t)(run.end - run.start)});
    }
    if (!otlp_next(e->o, &e->r))
        return false;
    *ret = pb_bytes(&e->r);
    return !e->r.failure || otlp_good(e->o, &e->r);
}

static bool reserve(struct otlp *o, otlp_ids *ids, const struct elements *e)
{
    if (vec_reserve(o->budget, ids, e->table->n))
        return true;
    o->status = budget_error(o->budget, o->err);
    return false;
}

static uint32_t string_at(struct otlp *o, struct pb_reader *r)
{
    return otlp_get(o, &o->strings, pb_u64(r), "string", r->pos);
}

static void read_strings(struct otlp *o)
{
    struct elements e = elements(o, DICTIONARY_STRINGS);
    struct bytes s;

    if (!reserve(o, &o->strings, &e))
        return;
    while (next_element(&e, &s))
        o->strings.data[o->strings.len++] = dict_string(o->dict, s);
}

/* 1.7: units belong to keys. Fills in a unit for every string that is such a key. */
static void read_units(struct otlp *o, otlp_ids *unit_of)
{
    struct elements e = elements(o, DICTIONARY_UNITS);
    struct bytes m;

    if (e.table->n == 0 || !vec_resize(o->budget, unit_of, o->dict->strings.len))
        return;
    while (next_element(&e, &m)) {
        struct pb_reader r = pb_reader(m);
        uint32_t key = 0, unit = 0;
        while (otlp_next(o, &r)) {
            if (r.field == 1)
                key = string_at(o, &r);
            else if (r.field == 2)
                unit = string_at(o, &r);
        }
        unit_of->data[key] = unit;
    }
}

static uint32_t read_attribute(struct otlp *o, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct bytes value = BYTES("");
    uint32_t key = 0, unit = 0;

    while (otlp_next(o, &r)) {
        if (r.field == 1)
            key = string_at(o, &r);
        else if (r.field == 2)
            value = pb_bytes(&r);
        else if (r.field == 3)
            unit = string_at(o, &r);
        else if (r.field == ATTRIBUTE_INLINE_KEY && o->layout->is_own)
            key = dict_string(o->dict, pb_bytes(&r));
    }
    return otlp_attribute(o, key, unit, value);
}

static void read_attributes(struct otlp *o)
{
    struct elements pairs = elements(o, DICTIONARY_KEY_VALUES);
    bool is_pairs = pairs.table->n > 0;
    struct elements e = is_pairs ? pairs : elements(o, DICTIONARY_ATTRIBUTES);
    struct bytes m;
    otlp_ids unit_of = {0};

    if (!reserve(o, &o->attributes, &e) || !vec_reserve(o->budget, &o->roles, e.table->n))
        return;
    read_units(o, &unit_of);
    while (next_element(&e, &m)) {
        uint32_t id = is_pairs ? otlp_key_value(o, m) : read_attribute(o, m);
        struct attribute a = o->dict->attributes.data[id];
        if (a.key < unit_of.len && unit_of.data[a.key] != 0) {
            a.unit = unit_of.data[a.key];
            id = dict_attribute(o->dict, a);
        }
        o->attributes.data[o->attributes.len++] = id;
        o->roles.data[o->roles.len++] = (uint8_t)otlp_role_of(o, id);
    }
    vec_done(o->budget, &unit_of);
}

static void copy_id(struct otlp *o, struct bytes from, uint8_t *to, size_t size)
{
    if (from.len == size)
        memcpy(to, from.data, size);
    else if (from.len != 0)
        profile_set_note(o->set, "a trace or span id of %zu bytes was read as none", from.len);
}

static void read_links(struct otlp *o)
{
    struct elements e = elements(o, DICTIONARY_LINKS);
    struct bytes m;

    if (!reserve(o, &o->links, &e))
        return;
    while (next_element(&e, &m)) {
        struct pb_reader r = pb_reader(m);
        struct link l = {0};
        while (otlp_next(o, &r)) {
            if (r.field == 1)
                copy_id(o, pb_bytes(&r), l.trace_id, sizeof(l.trace_id));
            else if (r.field == 2)
                copy_id(o, pb_bytes(&r), l.span_id, sizeof(l.span_id));
        }
        o->links.data[o->links.len++] = dict_link(o->dict, l);
    }
}

static __attribute__((flatten)) void read_functions(struct otlp *o)
{
    struct elements e = elements(o, DICTIONARY_FUNCTIONS);
    struct bytes m;

    if (!reserve(o, &o->functions, &e))
        return;
    while (next_element(&e, &m)) {
        struct pb_reader r = pb_reader(m);
        struct function f = {0};
        while (otlp_next(o, &r)) {
            if (r.field == 1)
                f.name = string_at(o, &r);
            else if (r.field == 2)
                f.system_name = string_at(o, &r);
            else if (r.field == 3)
                f.file = string_at(o, &r);
            else if (r.field == 4)
                f.start_line = pb_i64(&r);
        }
        o->functions.data[o->functions.len++] = dict_function(o->dict, f);
    }
}

void otlp_add_labels(struct otlp *o, struct pb_reader *r)
{
    struct bytes list = pb_packed(r);

    for (uint64_t v; pb_packed_next(r, &list, &v);) {
        uint32_t id = otlp_get(o, &o->attributes, v, "attribute", r->pos);
        if (id == 0)
            continue;
        if (o->roles.data[v] == ROLE_LIST)
            otlp_expand_list(o, id);
        else
            vec_push(o->budget, &o->ids, id);
    }
}

static void mapping_attributes(struct otlp *o, struct pb_reader *r, struct mapping *m)
{
    struct bytes list = pb_packed(r);

    for (uint64_t v; pb_packed_next(r, &list, &v);) {
        uint32_t id = otlp_get(o, &o->attributes, v, "attribute", r->pos);
        if (id == 0)
            continue;
        switch (o->roles.data[v]) {
        case ROLE_BUILD_ID:
            m->build_id = o->dict->attributes.data[id].text;
            break;
        case ROLE_HAS_FUNCTIONS:
            m->has_functions = true;
            break;
        case ROLE_HAS_FILENAMES:
            m->has_filenames = true;
            break;
        case ROLE_HAS_LINE_NUMBERS:
            m->has_line_numbers = true;
            break;
        case ROLE_HAS_INLINE_FRAMES:
            m->has_inline_frames = true;
            break;
        default:
            vec_push(o->budget, &o->ids, id);
            break;
        }
    }
}

static void mapping_field(struct otlp *o, struct pb_reader *r, struct mapping *m)
{
    switch (otlp_field(o->layout->mapping, r->field)) {
    case MAPPING_START:
        m->start = pb_u64(r);
        break;
    case MAPPING_LIMIT:
        m->limit = pb_u64(r);
        break;
    case MAPPING_OFFSET:
        m->offset = pb_u64(r);
        break;
    case MAPPING_FILE:
        m->file = string_at(o, r);
        break;
    case MAPPING_ATTRIBUTES:
        mapping_attributes(o, r, m);
        break;
    case MAPPING_HAS_FUNCTIONS:
        m->has_functions = pb_u64(r) != 0;
        break;
    case MAPPING_HAS_FILENAMES:
        m->has_filenames = pb_u64(r) != 0;
        break;
    case MAPPING_HAS_LINE_NUMBERS:
        m->has_line_numbers = pb_u64(r) != 0;
        break;
    case MAPPING_HAS_INLINE_FRAMES:
        m->has_inline_frames = pb_u64(r) != 0;
        break;
    default:
        break;
    }
}

static void read_mappings(struct otlp *o)
{
    struct elements e = elements(o, DICTIONARY_MAPPINGS);
    struct bytes message;

    if (!reserve(o, &o->mappings, &e))
        return;
    while (next_element(&e, &message)) {
        struct pb_reader r = pb_reader(message);
        struct mapping m = {0};
        vec_clear(&o->ids);
        while (otlp_next(o, &r))
            mapping_field(o, &r, &m);
        m.attrs = dict_attrs(o->dict, o->ids.data, o->ids.len);
        o->mappings.data[o->mappings.len++] = dict_mapping(o->dict, m);
    }
}

static void read_line(struct otlp *o, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct line l = {0};
    uint64_t function = 0;

    while (pb_next(&r)) {
        if (r.field == 1)
            function = pb_u64(&r);
        else if (r.field == 2)
            l.line = pb_i64(&r);
        else if (r.field == 3)
            l.column = pb_i64(&r);
    }
    /* Proto3 leaves a zero out, and in the old layouts zero is a real function. */
    if (function != 0 || o->layout->zero_is_real)
        l.function = otlp_get(o, &o->functions, function, "function", message.data);
    otlp_good(o, &r);
    vec_push(o->budget, &o->lines, l);
}

static void location_attributes(struct otlp *o, struct pb_reader *r, struct location *l)
{
    struct bytes list = pb_packed(r);

    for (uint64_t v; pb_packed_next(r, &list, &v);) {
        uint32_t id = otlp_get(o, &o->attributes, v, "attribute", r->pos);
        if (id == 0)
            continue;
        if (o->roles.data[v] == ROLE_FRAME_TYPE)
            l->type = o->dict->attributes.data[id].text;
        else if (o->roles.data[v] == ROLE_FOLDED)
            l->is_folded = true;
        else
            vec_push(o->budget, &o->ids, id);
    }
}

/* Flat, as is reading functions: these tables are most of a message. */
static __attribute__((flatten)) uint32_t read_location(struct otlp *o, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct location l = {0};
    uint64_t mapping;

    vec_clear(&o->ids);
    vec_clear(&o->lines);
    while (pb_next(&r) && o->status == 0) {
        switch (otlp_field(o->layout->location, r.field)) {
        case LOCATION_MAPPING:
            mapping = pb_u64(&r);
            if (mapping != 0 || o->layout->zero_is_real)
                l.mapping = otlp_get(o, &o->mappings, mapping, "mapping", r.pos);
            break;
        case LOCATION_ADDRESS:
            l.address = pb_u64(&r);
            break;
        case LOCATION_LINES:
            read_line(o, pb_bytes(&r));
            break;
        case LOCATION_ATTRIBUTES:
            location_attributes(o, &r, &l);
            break;
        case LOCATION_FOLDED:
            l.is_folded = pb_u64(&r) != 0;
            break;
        default:
            break;
        }
    }
    otlp_good(o, &r);
    if (o->ids.len > 0)
        l.attrs = dict_attrs(o->dict, o->ids.data, o->ids.len);
    return dict_location(o->dict, l, o->lines.data, o->lines.len);
}

/* Index 0 is null wherever it is referred to: say so when a sender put something there. */
static void note_zero(struct otlp *o, const char *name)
{
    profile_set_note(o->set, "element 0 of the %s table is not empty; it was read as none", name);
}

static void read_locations(struct otlp *o)
{
    struct elements e = elements(o, DICTIONARY_LOCATIONS);
    struct bytes m;

    if (!reserve(o, &o->locations, &e))
        return;
    while (next_element(&e, &m)) {
        uint32_t id = 0;
        if (o->locations.len > 0 || o->layout->zero_is_real)
            id = read_location(o, m);
        else if (m.len > 0)
            note_zero(o, "location");
        o->locations.data[o->locations.len++] = id;
    }
}

uint32_t otlp_stack(struct otlp *o, const uint32_t *leaf_first, size_t n)
{
    size_t shared = 0, had = o->path_locations.len;

    /* Stacks in a row mostly share their outer frames: go on from where they part. */
    while (shared < n && shared < had &&
           o->path_locations.data[shared] == leaf_first[n - 1 - shared])
        shared++;
    o->path_locations.len = o->path_nodes.len = shared;
    uint32_t node = shared > 0 ? o->path_nodes.data[shared - 1] : 0;
    if (!vec_reserve(o->budget, &o->path_locations, n - shared) ||
        !vec_reserve(o->budget, &o->path_nodes, n - shared))
        return 0;
    for (size_t i = shared; i < n; i++) {
        node = dict_node(o->dict, node, leaf_first[n - 1 - i]);
        o->path_locations.data[i] = leaf_first[n - 1 - i];
        o->path_nodes.data[i] = node;
    }
    o->path_locations.len = o->path_nodes.len = n;
    return node;
}

/* A stack may say "unknown" in its middle: that is a frame, and must not vanish. */
static bool add_blank_location(struct otlp *o)
{
    uint32_t blank = dict_location(o->dict, (struct location){0}, NULL, 0);

    if (blank == 0 || (o->locations.len == 0 && !vec_push(o->budget, &o->locations, 0)))
        return false;
    o->locations.data[0] = blank;
    o->packed.dense = o->locations.data;
    o->packed.n_dense = o->locations.len;
    return true;
}

/* True when what failed may be tried again. */
static bool stack_failed(struct otlp *o, int result)
{
    const struct packed_stacks *s = &o->packed;

    if (result == -EBADMSG && s->is_malformed)
        otlp_fail(o, s->failed_at, "a packed number is cut short or too long");
    else if (result == -EBADMSG && s->unknown_id == 0 && add_blank_location(o))
        return true;
    else if (result == -EBADMSG && s->unknown_id != 0)
        otlp_no_element(o, o->locations.len, s->unknown_id, "location", s->failed_at);
    else if (o->status == 0)
        o->status = budget_error(o->budget, o->err);
    return false;
}

/* A stack in several pieces. */
static uint32_t read_odd_stack(struct otlp *o, struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    vec_clear(&o->packed.stack);
    while (otlp_next(o, &r)) {
        if (r.field != 1)
            continue;
        struct bytes list = pb_packed(&r);
        size_t before = o->packed.stack.len;
        int result;
        while ((result = packed_stack_append(&o->packed, list)) < 0 && stack_failed(o, result))
            o->packed.stack.len = before;
    }
    return o->status == 0 ? otlp_stack(o, o->packed.stack.data, o->packed.stack.len) : 0;
}

/* The list of a stack that is nothing but one packed list, as they are but for odd senders. */
static bool is_plain_stack(struct bytes message, struct bytes *ret_list)
{
    const uint8_t *pos = message.data + 1, *end = message.data + message.len;
    uint64_t len;

    if (message.len == 0) {
        *ret_list = message;
        return true;
    }
    if (message.data[0] != (1 << 3 | PB_BYTES) || !pb_varint(&pos, end, &len) ||
        len != (size_t)(end - pos))
        return false;
    *ret_list = (struct bytes){pos, (size_t)len};
    return true;
}

static void flush_stacks(struct otlp *o, const struct bytes *lists, size_t n)
{
    int result;

    while ((result = packed_stacks_read(&o->packed, lists, n, o->stacks.data + o->stacks.len)) <
               0 &&
           stack_failed(o, result))
        ;
    if (result == 0)
        o->stacks.len += n;
}

static void read_stacks(struct otlp *o)
{
    struct elements e = elements(o, DICTIONARY_STACKS);
    struct bytes m, lists[PACKED_STACKS_AT_ONCE];
    size_t n = 0;

    o->packed.dict = o->dict;
    o->packed.dense = o->locations.data;
    o->packed.n_dense = o->locations.len;
    if (!reserve(o, &o->stacks, &e))
        return;
    while (next_element(&e, &m)) {
        bool plain = is_plain_stack(m, &lists[n]);
        n += plain;
        if (n == PACKED_STACKS_AT_ONCE || (!plain && n > 0)) {
            flush_stacks(o, lists, n);
            n = 0;
        }
        if (!plain && o->status == 0) {
            uint32_t node = read_odd_stack(o, m);
            o->stacks.data[o->stacks.len++] = node;
        }
    }
    if (o->status == 0)
        flush_stacks(o, lists, n);
}

static void check_zero(struct otlp *o, otlp_ids *table, const char *name)
{
    if (o->layout->zero_is_real || table->len == 0 || table->data[0] == 0)
        return;
    table->data[0] = 0;
    note_zero(o, name);
}

void otlp_read_tables(struct otlp *o)
{
    read_strings(o);
    check_zero(o, &o->strings, "string");
    read_attributes(o);
    check_zero(o, &o->attributes, "attribute");
    read_links(o);
    check_zero(o, &o->links, "link");
    read_functions(o);
    check_zero(o, &o->functions, "function");
    read_mappings(o);
    check_zero(o, &o->mappings, "mapping");
    read_locations(o);
    read_stacks(o);
    check_zero(o, &o->stacks, "stack");
}

void otlp_tables_done(struct otlp *o)
{
    struct budget *b = o->budget;

    for (uint32_t i = 0; i < OTLP_TABLES; i++)
        vec_done(b, &o->tables[i].runs);
    vec_done(b, &o->strings);
    vec_done(b, &o->attributes);
    vec_done(b, &o->links);
    vec_done(b, &o->functions);
    vec_done(b, &o->mappings);
    vec_done(b, &o->locations);
    vec_done(b, &o->stacks);
    vec_done(b, &o->roles);
    vec_done(b, &o->ids);
    if (o->packed.dict)
        packed_stacks_done(&o->packed);
    vec_done(b, &o->slice);
    vec_done(b, &o->path_locations);
    vec_done(b, &o->path_nodes);
    vec_done(b, &o->lines);
    vec_done(b, &o->values);
    vec_done(b, &o->times);
    buf_done(&o->value);
    budget_give(b, o->value_charged);
}
