/*
 * pprof protobuf, the reading side: perftools.profiles.Profile of any field order, validated as
 * strictly as pprof itself does. pprof_encode.c writes it.
 *
 * The top level is walked once to count and to find where each kind of field lies; then strings,
 * mappings, functions, locations and samples are read in that order, whatever order they stand in.
 * Samples cost no allocation: their stacks go straight from the packed bytes into the trie.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"
#include "formats/formats.h"
#include "formats/packed_stack.h"
#include "formats/pprof_internal.h"
#include "wire/protobuf.h"

/* Where the fields of one number lie: from the first one's tag to the last one's end. */
struct section {
    const uint8_t *first, *end;
    size_t n;
};

/*
 * From the ids of a file to those of the dictionary. Files number from 1 on without gaps, so that
 * an array does; ids past it, which are allowed, go through a hash table.
 */
struct id_map {
    VEC(uint32_t) dense; /* 0 is not there */
    VEC(uint64_t) keys;
    VEC(uint32_t) values;
    struct idset sparse;
};

/* Remembers what a run of bytes was decoded to. Lossy: a newer run takes an older one's place. */
struct memo {
    struct memo_slot {
        const uint8_t *data;
        uint32_t len;
        uint32_t result;
    } * slots;
    size_t n; /* a power of two */
    bool is_on;
};

/* The single values of the top level, strings still as indexes into the table. */
struct header {
    uint64_t drop_frames, keep_frames, default_type, doc_url;
    int64_t time_ns, duration_ns, period;
    struct bytes period_type;
};

struct decoder {
    const uint8_t *origin;
    struct budget *budget;
    struct profile_set *out;
    struct dict *dict;
    struct profile *profile;
    struct error *err;

    struct section sections[PPROF_FIELDS];
    struct header header;

    VEC(uint32_t) strings;             /* dictionary ids */
    struct id_map mappings, functions; /* to dictionary id + 1: 0 is a valid one */
    struct id_map locations;           /* to dictionary id */
    VEC(struct line) lines;            /* of the location being read */
    VEC(uint32_t) label_ids;           /* of the run of labels being read */
    struct packed_stacks stacks;
    struct bytes waiting[PACKED_STACKS_AT_ONCE]; /* stacks of the last samples, not read yet */
    size_t n_waiting;
    struct memo labels;
    size_t empty_labels;
    size_t lost_mappings;
};

/* Fails at a place in the content. */
__attribute__((format(printf, 3, 4))) static int fail(struct decoder *dc, const uint8_t *at,
                                                      const char *fmt, ...)
{
    char why[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    return error_set(dc->err, -EBADMSG, "pprof at byte %zu: %s", (size_t)(at - dc->origin), why);
}

static int fail_reader(struct decoder *dc, const struct pb_reader *r)
{
    return fail(dc, r->failed_at, "%s", r->failure);
}

static void id_map_done(struct budget *b, struct id_map *m)
{
    vec_done(b, &m->dense);
    vec_done(b, &m->keys);
    vec_done(b, &m->values);
    idset_done(b, &m->sparse);
}

static uint32_t find_sparse(const void *map, uint64_t id)
{
    const struct id_map *m = map;
    uint32_t at = IDSET_FIND(&m->sparse, hash_mix(id, 1), i, m->keys.data[i] == id);
    return at == IDSET_NONE ? 0 : m->values.data[at];
}

/* 0 when there is none. */
static inline uint32_t id_map_get(const struct id_map *m, uint64_t id)
{
    if (__builtin_expect(id < m->dense.len, 1))
        return m->dense.data[id];
    return find_sparse(m, id);
}

/* False when the budget is spent. The id must not be there yet. */
static bool id_map_put(struct budget *b, struct id_map *m, uint64_t id, uint32_t value)
{
    if (id < m->dense.len) {
        m->dense.data[id] = value;
        return true;
    }
    if (m->keys.len >= UINT32_MAX - 1) {
        b->failed = true;
        return false;
    }
    return vec_push(b, &m->keys, id) && vec_push(b, &m->values, value) &&
           idset_add(b, &m->sparse, hash_mix(id, 1), (uint32_t)m->keys.len - 1);
}

static int check_new_id(struct decoder *dc, const struct id_map *m, uint64_t id, const uint8_t *at,
                        const char *what)
{
    if (id == 0)
        return fail(dc, at, "a %s has the id 0, which is reserved", what);
    if (id_map_get(m, id) != 0)
        return fail(dc, at, "a second %s has the id %llu", what, (unsigned long long)id);
    return 0;
}

static void memo_done(struct budget *b, struct memo *m)
{
    if (m->slots)
        budget_free(b, m->slots, m->n * sizeof(*m->slots));
}

/* A memo for about n different runs; without one when there is little to remember. */
static void memo_init(struct budget *b, struct memo *m, size_t n, size_t max)
{
    size_t size = 16;
    void *p = NULL;

    while (size < n && size < max)
        size *= 2;
    if (size * sizeof(*m->slots) > (b->limit - b->used) / 8 ||
        !budget_resize(b, &p, 0, size * sizeof(*m->slots)))
        return;
    memset(p, 0, size * sizeof(*m->slots));
    m->slots = p;
    m->n = size;
    m->is_on = true;
}

static inline struct memo_slot *memo_slot(struct memo *m, struct bytes run)
{
    return &m->slots[hash_bytes(run.data, run.len) >> 20 & (m->n - 1)];
}

static inline bool memo_holds(const struct memo_slot *s, struct bytes run)
{
    return s->data && s->len == run.len && memcmp(s->data, run.data, run.len) == 0;
}

/* What field numbers of the top level carry: 'v' varint, 'm' bytes, 'r' a repeated number. */
static const char top_level_wire[PPROF_FIELDS] = {
    [PPROF_SAMPLE_TYPE] = 'm', [PPROF_SAMPLE] = 'm',       [PPROF_MAPPING] = 'm',
    [PPROF_LOCATION] = 'm',    [PPROF_FUNCTION] = 'm',     [PPROF_STRING] = 'm',
    [PPROF_DROP_FRAMES] = 'v', [PPROF_KEEP_FRAMES] = 'v',  [PPROF_TIME] = 'v',
    [PPROF_DURATION] = 'v',    [PPROF_PERIOD_TYPE] = 'm',  [PPROF_PERIOD] = 'v',
    [PPROF_COMMENT] = 'r',     [PPROF_DEFAULT_TYPE] = 'v', [PPROF_DOC_URL] = 'v',
};

static bool wire_fits(char expected, uint32_t wire)
{
    return expected == 'v'   ? wire == PB_VARINT
           : expected == 'm' ? wire == PB_BYTES
                             : wire == PB_VARINT || wire == PB_BYTES;
}

static int read_header_field(struct decoder *dc, const struct pb_reader *r, const uint8_t *at)
{
    struct header *h = &dc->header;

    switch (r->field) {
    case PPROF_DROP_FRAMES:
        h->drop_frames = r->value;
        break;
    case PPROF_KEEP_FRAMES:
        h->keep_frames = r->value;
        break;
    case PPROF_TIME:
        if (h->time_ns != 0)
            return fail(dc, at,
                        "a second profile begins here: files with several joined together "
                        "are not one profile");
        h->time_ns = (int64_t)r->value;
        break;
    case PPROF_DURATION:
        h->duration_ns = (int64_t)r->value;
        break;
    case PPROF_PERIOD:
        h->period = (int64_t)r->value;
        break;
    case PPROF_DEFAULT_TYPE:
        h->default_type = r->value;
        break;
    case PPROF_DOC_URL:
        h->doc_url = r->value;
        break;
    case PPROF_PERIOD_TYPE:
        h->period_type = r->data;
        break;
    default:
        break;
    }
    return 0;
}

/* The first walk: counts, finds the sections, keeps the few single values. */
static int survey(struct decoder *dc, struct bytes all)
{
    struct pb_reader r = pb_reader(all);

    for (const uint8_t *at = r.pos; pb_next(&r); at = r.pos) {
        if (r.field >= PPROF_FIELDS || !top_level_wire[r.field])
            continue;
        if (!wire_fits(top_level_wire[r.field], r.wire))
            return fail(dc, at, "field %u has the wrong wire type", r.field);
        struct section *s = &dc->sections[r.field];
        if (s->n++ == 0)
            s->first = at;
        s->end = r.pos;
        if (r.field > PPROF_STRING) {
            int rc = read_header_field(dc, &r, at);
            if (rc < 0)
                return rc;
        }
    }
    return r.failure ? fail_reader(dc, &r) : 0;
}

/* Visits the fields of one number; a negative result, or a spent budget, ends it. */
static int each(struct decoder *dc, uint32_t field,
                int (*visit)(struct decoder *dc, struct bytes message))
{
    struct section s = dc->sections[field];
    struct pb_reader r = pb_reader((struct bytes){s.first, (size_t)(s.end - s.first)});

    while (pb_next(&r)) {
        if (r.field != field)
            continue;
        int rc = visit(dc, r.data);
        if (rc < 0)
            return rc;
        if (budget_failed(dc->budget))
            return budget_error(dc->budget, dc->err);
    }
    return 0;
}

static int read_string(struct decoder *dc, struct bytes s)
{
    if (dc->strings.len == 0 && s.len != 0)
        return fail(dc, s.data, "the first string of the table is not empty");
    vec_push(dc->budget, &dc->strings, dict_string(dc->dict, s));
    return 0;
}

/* Turns a string index into a dictionary id. */
static inline int get_string(struct decoder *dc, uint64_t index, const uint8_t *at, uint32_t *ret)
{
    if (__builtin_expect(index >= dc->strings.len, 0))
        return fail(dc, at, "string %lld is not in the table of %zu", (long long)index,
                    dc->strings.len);
    *ret = dc->strings.data[index];
    return 0;
}

static int read_value_type(struct decoder *dc, struct bytes message, struct value_type *ret)
{
    struct pb_reader r = pb_reader(message);
    uint64_t type = 0, unit = 0;
    int rc;

    while (pb_next(&r)) {
        if (r.field == 1)
            type = pb_u64(&r);
        else if (r.field == 2)
            unit = pb_u64(&r);
    }
    if (r.failure)
        return fail_reader(dc, &r);
    if ((rc = get_string(dc, type, message.data, &ret->type)) < 0)
        return rc;
    return get_string(dc, unit, message.data, &ret->unit);
}

static int read_sample_type(struct decoder *dc, struct bytes message)
{
    struct value_type t;
    int rc = read_value_type(dc, message, &t);

    if (rc < 0)
        return rc;
    if (dc->profile->n_types == PROFILE_TYPES_MAX)
        return fail(dc, message.data, "more than %d sample types", PROFILE_TYPES_MAX);
    /* Not profile_add_type(): a file may list a type twice, and has then two columns of it. */
    dc->profile->types[dc->profile->n_types++] = t;
    return 0;
}

static int read_mapping(struct decoder *dc, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct mapping m = {0};
    uint64_t id = 0, file = 0, build_id = 0;
    int rc;

    while (pb_next(&r)) {
        switch (r.field) {
        case 1:
            id = pb_u64(&r);
            break;
        case 2:
            m.start = pb_u64(&r);
            break;
        case 3:
            m.limit = pb_u64(&r);
            break;
        case 4:
            m.offset = pb_u64(&r);
            break;
        case 5:
            file = pb_u64(&r);
            break;
        case 6:
            build_id = pb_u64(&r);
            break;
        case 7:
            m.has_functions = pb_u64(&r) != 0;
            break;
        case 8:
            m.has_filenames = pb_u64(&r) != 0;
            break;
        case 9:
            m.has_line_numbers = pb_u64(&r) != 0;
            break;
        case 10:
            m.has_inline_frames = pb_u64(&r) != 0;
            break;
        default:
            break;
        }
    }
    if (r.failure)
        return fail_reader(dc, &r);
    if ((rc = check_new_id(dc, &dc->mappings, id, message.data, "mapping")) < 0 ||
        (rc = get_string(dc, file, message.data, &m.file)) < 0 ||
        (rc = get_string(dc, build_id, message.data, &m.build_id)) < 0)
        return rc;
    uint32_t to = dict_mapping(dc->dict, m);
    id_map_put(dc->budget, &dc->mappings, id, to + 1);
    if (to == 0)
        return 0;
    if (dc->profile->mappings.len == 0)
        dc->profile->default_mapping = to;
    vec_push(dc->budget, &dc->profile->mappings, to);
    return 0;
}

static int read_function(struct decoder *dc, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct function f = {0};
    uint64_t id = 0, name = 0, system_name = 0, file = 0;
    int rc;

    while (pb_next(&r)) {
        switch (r.field) {
        case 1:
            id = pb_u64(&r);
            break;
        case 2:
            name = pb_u64(&r);
            break;
        case 3:
            system_name = pb_u64(&r);
            break;
        case 4:
            file = pb_u64(&r);
            break;
        case 5:
            f.start_line = pb_i64(&r);
            break;
        default:
            break;
        }
    }
    if (r.failure)
        return fail_reader(dc, &r);
    if ((rc = check_new_id(dc, &dc->functions, id, message.data, "function")) < 0 ||
        (rc = get_string(dc, name, message.data, &f.name)) < 0 ||
        (rc = get_string(dc, system_name, message.data, &f.system_name)) < 0 ||
        (rc = get_string(dc, file, message.data, &f.file)) < 0)
        return rc;
    id_map_put(dc->budget, &dc->functions, id, dict_function(dc->dict, f) + 1);
    return 0;
}

static int read_line(struct decoder *dc, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct line l = {0};
    uint64_t function = 0;

    while (pb_next(&r)) {
        switch (r.field) {
        case 1:
            function = pb_u64(&r);
            break;
        case 2:
            l.line = pb_i64(&r);
            break;
        case 3:
            l.column = pb_i64(&r);
            break;
        default:
            break;
        }
    }
    if (r.failure)
        return fail_reader(dc, &r);
    uint32_t found = id_map_get(&dc->functions, function);
    if (found == 0)
        return fail(dc, message.data, "a line names function %llu, which is not there",
                    (unsigned long long)function);
    l.function = found - 1;
    vec_push(dc->budget, &dc->lines, l);
    return 0;
}

static int read_location(struct decoder *dc, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct location l = {0};
    uint64_t id = 0, mapping = 0;
    int rc;

    vec_clear(&dc->lines);
    while (pb_next(&r)) {
        switch (r.field) {
        case 1:
            id = pb_u64(&r);
            break;
        case 2:
            mapping = pb_u64(&r);
            break;
        case 3:
            l.address = pb_u64(&r);
            break;
        case 4: {
            struct bytes line = pb_bytes(&r);
            if (!r.failure && (rc = read_line(dc, line)) < 0)
                return rc;
            break;
        }
        case 5:
            l.is_folded = pb_u64(&r) != 0;
            break;
        default:
            break;
        }
    }
    if (r.failure)
        return fail_reader(dc, &r);
    if ((rc = check_new_id(dc, &dc->locations, id, message.data, "location")) < 0)
        return rc;
    if (mapping != 0) {
        /* pprof lets a mapping be missing and so do we, but not without saying it. */
        uint32_t found = id_map_get(&dc->mappings, mapping);
        dc->lost_mappings += found == 0;
        l.mapping = found ? found - 1 : 0;
    }
    uint32_t to = dict_location(dc->dict, l, dc->lines.data, dc->lines.len);
    id_map_put(dc->budget, &dc->locations, id, to);
    return 0;
}

/* As pprof reads a label: text when there is any, else a number when it has a value or a unit. */
static int read_label(struct decoder *dc, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    uint64_t key = 0, text = 0, unit = 0;
    struct attribute a = {0};
    int rc;

    while (pb_next(&r)) {
        switch (r.field) {
        case 1:
            key = pb_u64(&r);
            break;
        case 2:
            text = pb_u64(&r);
            break;
        case 3:
            a.number = pb_i64(&r);
            break;
        case 4:
            unit = pb_u64(&r);
            break;
        default:
            break;
        }
    }
    if (r.failure)
        return fail_reader(dc, &r);
    if ((rc = get_string(dc, key, message.data, &a.key)) < 0)
        return rc;
    if (text != 0) {
        if ((rc = get_string(dc, text, message.data, &a.text)) < 0)
            return rc;
        a.kind = ATTRIBUTE_STRING;
        a.number = 0;
    } else if (a.number != 0 || unit != 0) {
        if ((rc = get_string(dc, unit, message.data, &a.unit)) < 0)
            return rc;
        a.kind = ATTRIBUTE_INT;
    } else {
        dc->empty_labels++;
        return 0;
    }
    vec_push(dc->budget, &dc->label_ids, dict_attribute(dc->dict, a));
    return 0;
}

/* The attribute set of a run of label fields, tags included. */
static int read_labels(struct decoder *dc, struct bytes run, uint32_t *ret)
{
    struct memo_slot *slot = NULL;
    struct pb_reader r = pb_reader(run);

    if (dc->labels.is_on) {
        slot = memo_slot(&dc->labels, run);
        if (memo_holds(slot, run)) {
            *ret = slot->result;
            return 0;
        }
    }
    vec_clear(&dc->label_ids);
    while (pb_next(&r)) {
        int rc = read_label(dc, r.data);
        if (rc < 0)
            return rc;
    }
    *ret = dict_attrs(dc->dict, dc->label_ids.data, dc->label_ids.len);
    if (slot && run.len <= UINT32_MAX)
        *slot = (struct memo_slot){run.data, (uint32_t)run.len, *ret};
    return 0;
}

static int fail_stack(struct decoder *dc, int rc)
{
    const struct packed_stacks *s = &dc->stacks;

    if (rc == -ENOBUFS)
        return budget_error(dc->budget, dc->err);
    if (s->is_malformed)
        return fail(dc, s->failed_at, "a packed number is cut short or too long");
    return fail(dc, s->failed_at, "a sample names location %llu, which is not there",
                (unsigned long long)s->unknown_id);
}

/* What a sample message said so far. */
struct sample_parts {
    struct bytes packed; /* its stack when in one packed piece, the usual case */
    bool in_pieces;      /* else dc->stack holds the pieces */
    size_t n_values;
    uint32_t attrs;
    int64_t values[PROFILE_TYPES_MAX];
};

static int add_stack_piece(struct decoder *dc, struct pb_reader *r, struct sample_parts *s)
{
    if (!s->in_pieces) {
        if (r->wire == PB_BYTES && s->packed.len == 0) {
            s->packed = r->data;
            return 0;
        }
        s->in_pieces = true;
        vec_clear(&dc->stacks.stack);
        int rc = packed_stack_append(&dc->stacks, s->packed);
        if (rc < 0)
            return fail_stack(dc, rc);
    }
    struct bytes piece = pb_packed(r);
    int rc = r->failure ? 0 : packed_stack_append(&dc->stacks, piece);
    return rc < 0 ? fail_stack(dc, rc) : 0;
}

static int add_values(struct decoder *dc, struct pb_reader *r, struct sample_parts *s)
{
    struct bytes packed = r->data;

    if (__builtin_expect(r->wire != PB_BYTES, 0))
        packed = pb_packed(r);
    for (uint64_t v; pb_packed_next(r, &packed, &v);) {
        if (s->n_values < dc->profile->n_types)
            s->values[s->n_values] = (int64_t)v;
        s->n_values++;
    }
    return 0;
}

/* Any sample, however it is written. */
static int read_odd_sample(struct decoder *dc, struct bytes message, struct sample_parts *s)
{
    struct pb_reader r = pb_reader(message);
    int rc = 0;

    *s = (struct sample_parts){0};
    vec_clear(&dc->label_ids);
    while (pb_next(&r)) {
        if (r.field == PPROF_SAMPLE_LOCATION) {
            rc = add_stack_piece(dc, &r, s);
        } else if (r.field == PPROF_SAMPLE_VALUE) {
            rc = add_values(dc, &r, s);
        } else if (r.field == PPROF_SAMPLE_LABEL) {
            struct bytes label = pb_bytes(&r);
            rc = r.failure ? 0 : read_label(dc, label);
        }
        if (rc < 0)
            return rc;
    }
    if (r.failure)
        return fail_reader(dc, &r);
    if (s->n_values != dc->profile->n_types)
        return fail(dc, message.data, "a sample has %zu values and there are %u sample types",
                    s->n_values, dc->profile->n_types);
    s->attrs = dict_attrs(dc->dict, dc->label_ids.data, dc->label_ids.len);
    return 0;
}

/* Takes a length-delimited field with this one-byte tag off the front. */
static inline bool take_field(const uint8_t **pos, const uint8_t *end, uint8_t tag,
                              struct bytes *ret)
{
    const uint8_t *p = *pos;
    uint64_t len;

    if (p == end || *p++ != tag || !pb_varint(&p, end, &len) || len > (size_t)(end - p))
        return false;
    *ret = (struct bytes){p, (size_t)len};
    *pos = p + len;
    return true;
}

#define SAMPLE_TAG(field, wire) ((uint8_t)((field) << 3 | (wire)))

/* The values of a sample, packed in one field or each in a field of its own. */
static inline bool take_values(const uint8_t **pos, const uint8_t *end, uint32_t n, int64_t *ret)
{
    const uint8_t *p = *pos;
    struct bytes packed;
    uint64_t v;
    uint32_t i = 0;

    if (take_field(&p, end, SAMPLE_TAG(PPROF_SAMPLE_VALUE, PB_BYTES), &packed)) {
        const uint8_t *at = packed.data, *packed_end = p;
        for (; at < packed_end && i < n && pb_varint(&at, packed_end, &v); i++)
            ret[i] = (int64_t)v;
        if (at != packed_end)
            return false;
    } else {
        for (; p < end && *p == SAMPLE_TAG(PPROF_SAMPLE_VALUE, PB_VARINT) && i < n; i++) {
            p++;
            if (!pb_varint(&p, end, &v))
                return false;
            ret[i] = (int64_t)v;
        }
    }
    *pos = p;
    return i == n;
}

/*
 * A sample as nearly every program writes it: one packed stack, the values, labels, and nothing
 * else. False when it is anything else, also when it is malformed.
 */
static inline bool read_plain_sample(struct decoder *dc, struct bytes message,
                                     struct sample_parts *s, struct bytes *ret_labels)
{
    const uint8_t *p = message.data, *end = p + message.len;
    struct bytes label;

    s->in_pieces = false;
    s->attrs = 0;
    if (!take_field(&p, end, SAMPLE_TAG(PPROF_SAMPLE_LOCATION, PB_BYTES), &s->packed) ||
        !take_values(&p, end, dc->profile->n_types, s->values))
        return false;
    *ret_labels = (struct bytes){p, (size_t)(end - p)};
    while (take_field(&p, end, SAMPLE_TAG(PPROF_SAMPLE_LABEL, PB_BYTES), &label))
        ;
    return p == end;
}

/* Finds the stacks of the samples that wait for theirs. */
static int flush_stacks(struct decoder *dc)
{
    size_t n = dc->n_waiting;

    dc->n_waiting = 0;
    int rc = packed_stacks_read(&dc->stacks, dc->waiting, n,
                                dc->profile->node + dc->profile->n_samples - n);
    return rc < 0 ? fail_stack(dc, rc) : 0;
}

static int add_sample(struct decoder *dc, const struct sample_parts *s)
{
    struct profile *p = dc->profile;
    size_t i = p->n_samples;
    int rc;

    if (s->in_pieces) {
        uint32_t node = dict_stack(dc->dict, dc->stacks.stack.data, dc->stacks.stack.len);
        if ((rc = flush_stacks(dc)) < 0)
            return rc;
        profile_add(p, &(struct sample){.node = node, .attrs = s->attrs, .values = s->values});
        return 0;
    }
    if (s->attrs && !p->attrs) {
        profile_add(p, &(struct sample){.attrs = s->attrs, .values = s->values});
    } else {
        /* There is room for all: read_samples() saw to it. */
        for (uint32_t t = 0; t < p->n_types; t++)
            p->values[t][i] = s->values[t];
        if (p->attrs)
            p->attrs[i] = s->attrs;
        p->n_samples++;
    }
    dc->waiting[dc->n_waiting++] = s->packed;
    return dc->n_waiting == PACKED_STACKS_AT_ONCE ? flush_stacks(dc) : 0;
}

static int read_sample(struct decoder *dc, struct bytes message)
{
    struct sample_parts s;
    struct bytes labels;
    int rc = 0;

    if (!read_plain_sample(dc, message, &s, &labels))
        rc = read_odd_sample(dc, message, &s);
    else if (labels.len)
        rc = read_labels(dc, labels, &s.attrs);
    return rc < 0 ? rc : add_sample(dc, &s);
}

static int read_comments(struct decoder *dc)
{
    struct section s = dc->sections[PPROF_COMMENT];
    struct pb_reader r = pb_reader((struct bytes){s.first, (size_t)(s.end - s.first)});

    while (pb_next(&r)) {
        if (r.field != PPROF_COMMENT)
            continue;
        struct bytes packed = pb_packed(&r);
        const uint8_t *at = packed.data;
        for (uint64_t v; pb_packed_next(&r, &packed, &v);) {
            uint32_t text = 0;
            int rc = get_string(dc, v, at, &text);
            if (rc < 0)
                return rc;
            vec_push(dc->budget, &dc->profile->comments, text);
        }
    }
    return r.failure ? fail_reader(dc, &r) : 0;
}

static int read_header(struct decoder *dc)
{
    const struct header *h = &dc->header;
    struct profile *p = dc->profile;
    const struct section *s = dc->sections;
    int rc;

    p->time_unix_ns = h->time_ns;
    p->duration_ns = h->duration_ns;
    p->period = h->period;
    if ((rc = get_string(dc, h->drop_frames, s[PPROF_DROP_FRAMES].first, &p->drop_frames)) < 0 ||
        (rc = get_string(dc, h->keep_frames, s[PPROF_KEEP_FRAMES].first, &p->keep_frames)) < 0 ||
        (rc = get_string(dc, h->default_type, s[PPROF_DEFAULT_TYPE].first, &p->default_type)) < 0 ||
        (rc = get_string(dc, h->doc_url, s[PPROF_DOC_URL].first, &p->doc_url)) < 0)
        return rc;
    if (s[PPROF_PERIOD_TYPE].n && (rc = read_value_type(dc, h->period_type, &p->period_type)) < 0)
        return rc;
    return read_comments(dc);
}

/* Tables sized by what was counted, as long as that is a small part of the budget: a hostile file
 * must not spend it on room that is never used. */
static void reserve(struct decoder *dc)
{
    const struct section *s = dc->sections;
    struct dict_room room = {
        .strings = s[PPROF_STRING].n,
        .functions = s[PPROF_FUNCTION].n,
        .locations = s[PPROF_LOCATION].n,
        .lines = s[PPROF_LOCATION].n,
    };

    dict_reserve(dc->dict, room);
    (void)vec_reserve(dc->budget, &dc->strings, s[PPROF_STRING].n);
    vec_resize(dc->budget, &dc->mappings.dense, s[PPROF_MAPPING].n + 1);
    vec_resize(dc->budget, &dc->functions.dense, s[PPROF_FUNCTION].n + 1);
    vec_resize(dc->budget, &dc->locations.dense, s[PPROF_LOCATION].n + 1);
}

static int read_samples(struct decoder *dc)
{
    size_t n = dc->sections[PPROF_SAMPLE].n;

    if (n > 0 && dc->profile->n_types == 0)
        return fail(dc, dc->sections[PPROF_SAMPLE].first, "there are samples but no sample types");
    if (!profile_reserve(dc->profile, n))
        return budget_error(dc->budget, dc->err);
    dc->stacks.dense = dc->locations.dense.data;
    dc->stacks.n_dense = dc->locations.dense.len;
    dc->stacks.find = find_sparse;
    dc->stacks.context = &dc->locations;
    memo_init(dc->budget, &dc->labels, n / 4, (size_t)1 << 14);
    int rc = each(dc, PPROF_SAMPLE, read_sample);
    return rc < 0 ? rc : flush_stacks(dc);
}

static int decode_all(struct decoder *dc, struct bytes all)
{
    int rc = survey(dc, all);

    if (rc < 0)
        return rc;
    if (dc->sections[PPROF_STRING].n == 0)
        return fail(dc, all.data + all.len, "there is no string table");
    reserve(dc);
    if ((rc = each(dc, PPROF_STRING, read_string)) < 0 || (rc = read_header(dc)) < 0 ||
        (rc = each(dc, PPROF_SAMPLE_TYPE, read_sample_type)) < 0 ||
        (rc = each(dc, PPROF_MAPPING, read_mapping)) < 0 ||
        (rc = each(dc, PPROF_FUNCTION, read_function)) < 0 ||
        (rc = each(dc, PPROF_LOCATION, read_location)) < 0)
        return rc;
    return read_samples(dc);
}

static void add_notes(struct decoder *dc)
{
    if (dc->empty_labels)
        profile_set_note(dc->out, "labels without a value were left out, as pprof does");
    if (dc->lost_mappings)
        profile_set_note(dc->out, "%zu locations name a mapping that is not in the file",
                         dc->lost_mappings);
}

static int pprof_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct bytes all;
    int rc = input_all(in, &all, err);
    if (rc < 0)
        return rc;
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);
    struct decoder dc = {.origin = all.data,
                         .budget = out->budget,
                         .out = out,
                         .dict = out->dict,
                         .profile = p,
                         .stacks = {.dict = out->dict},
                         .err = err};

    rc = decode_all(&dc, all);
    if (rc == 0)
        add_notes(&dc);
    vec_done(dc.budget, &dc.strings);
    vec_done(dc.budget, &dc.lines);
    vec_done(dc.budget, &dc.label_ids);
    id_map_done(dc.budget, &dc.mappings);
    id_map_done(dc.budget, &dc.functions);
    id_map_done(dc.budget, &dc.locations);
    packed_stacks_done(&dc.stacks);
    memo_done(dc.budget, &dc.labels);
    return rc;
}

const struct format format_pprof = {
    .name = "pprof",
    .title = "pprof protobuf",
    .extension = ".pb.gz",
    .sniff = pprof_sniff,
    .decode = pprof_decode,
    .encode = pprof_encode,
    .is_binary = true,
};
