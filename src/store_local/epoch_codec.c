/*
 * What was added to a dictionary between two marks. Tables stand in the order in which they refer
 * to each other, each in columns: equal things next to each other pack well.
 *
 *     9 varints      the counts of the first mark, in the order of struct epoch_mark
 *     9 varints      how many elements of each table follow
 *     strings        lengths, then all texts
 *     functions      names, system names, files, start lines (signed)
 *     attributes     kinds, keys, units, texts, numbers (signed)
 *     sets           sizes, then the ids of all
 *     mappings       per mapping: start, limit - start, offset, file, build id, attrs, flags
 *     locations      addresses (distance to the one before, signed), mappings, types, attrs,
 *                    lines << 1 | is folded
 *     lines          functions (distance, signed), lines (signed), columns (signed)
 *     nodes          id - parent, locations (distance, signed)
 *
 * All numbers are varints, signed ones zigzag.
 */
#include <errno.h>

#include "segment/varint.h"
#include "store_local/epoch.h"

#define N_MARKS (sizeof(struct epoch_mark) / sizeof(uint32_t))

_Static_assert(N_MARKS == 9, "the layout above has as many counts as there are tables");

static void add_distance(struct buf *out, uint64_t v, uint64_t *before)
{
    add_signed(out, (int64_t)(v - *before));
    *before = v;
}

static void encode_marks(const struct epoch_mark *from, const struct epoch_mark *to,
                         struct buf *out)
{
    uint32_t a[N_MARKS], b[N_MARKS];

    memcpy(a, from, sizeof(a));
    memcpy(b, to, sizeof(b));
    for (size_t i = 0; i < N_MARKS; i++)
        add_varint(out, a[i]);
    for (size_t i = 0; i < N_MARKS; i++)
        add_varint(out, b[i] - a[i]);
}

#define EACH(i, table) for (uint32_t i = from->table; i < to->table; i++)

static void encode_names(const struct dict *d, const struct epoch_mark *from,
                         const struct epoch_mark *to, struct buf *out)
{
    EACH(i, strings)
    add_varint(out, d->strings.data[i].len);
    EACH(i, strings)
    buf_add(out, d->strings.data[i].text, d->strings.data[i].len);
    EACH(i, functions)
    add_varint(out, d->functions.data[i].name);
    EACH(i, functions)
    add_varint(out, d->functions.data[i].system_name);
    EACH(i, functions)
    add_varint(out, d->functions.data[i].file);
    EACH(i, functions)
    add_signed(out, d->functions.data[i].start_line);
}

static void encode_attributes(const struct dict *d, const struct epoch_mark *from,
                              const struct epoch_mark *to, struct buf *out)
{
    EACH(i, attributes)
    buf_add_byte(out, (uint8_t)d->attributes.data[i].kind);
    EACH(i, attributes)
    add_varint(out, d->attributes.data[i].key);
    EACH(i, attributes)
    add_varint(out, d->attributes.data[i].unit);
    EACH(i, attributes)
    add_varint(out, d->attributes.data[i].text);
    EACH(i, attributes)
    add_signed(out, d->attributes.data[i].number);
    EACH(i, attr_sets)
    add_varint(out, d->attr_sets.data[i].n);
    EACH(i, attr_ids)
    add_varint(out, d->attr_ids.data[i]);
}

static void encode_mappings(const struct dict *d, const struct epoch_mark *from,
                            const struct epoch_mark *to, struct buf *out)
{
    EACH(i, mappings)
    {
        const struct mapping *m = &d->mappings.data[i];
        add_varint(out, m->start);
        add_varint(out, m->limit - m->start);
        add_varint(out, m->offset);
        add_varint(out, m->file);
        add_varint(out, m->build_id);
        add_varint(out, m->attrs);
        buf_add_byte(out, (uint8_t)(m->has_functions | m->has_filenames << 1 |
                                    m->has_line_numbers << 2 | m->has_inline_frames << 3));
    }
}

static void encode_locations(const struct dict *d, const struct epoch_mark *from,
                             const struct epoch_mark *to, struct buf *out)
{
    uint64_t before = 0;

    EACH(i, locations)
    add_distance(out, d->locations.data[i].address, &before);
    EACH(i, locations)
    add_varint(out, d->locations.data[i].mapping);
    EACH(i, locations)
    add_varint(out, d->locations.data[i].type);
    EACH(i, locations)
    add_varint(out, d->locations.data[i].attrs);
    EACH(i, locations)
    add_varint(out, (uint64_t)d->locations.data[i].n_lines << 1 | d->locations.data[i].is_folded);
    before = 0;
    EACH(i, lines)
    add_distance(out, d->lines.data[i].function, &before);
    EACH(i, lines)
    add_signed(out, d->lines.data[i].line);
    EACH(i, lines)
    add_signed(out, d->lines.data[i].column);
}

void epoch_encode(const struct dict *d, const struct epoch_mark *from, const struct epoch_mark *to,
                  struct buf *out)
{
    uint64_t before = 0;

    encode_marks(from, to, out);
    encode_names(d, from, to, out);
    encode_attributes(d, from, to, out);
    encode_mappings(d, from, to, out);
    encode_locations(d, from, to, out);
    EACH(i, nodes)
    add_varint(out, i - d->node_parent.data[i]);
    EACH(i, nodes)
    add_distance(out, d->node_location.data[i], &before);
}

/*
 * Reading. A column is remembered by where it begins and walked beside the others of its table;
 * `bad` is sticky and makes every number 0.
 */
struct reader {
    struct bytes in;
    bool bad;
};

static uint64_t get(struct reader *r)
{
    uint64_t v = 0;

    if (!take_varint(&r->in, &v))
        r->bad = true;
    return r->bad ? 0 : v;
}

static uint32_t get32(struct reader *r)
{
    uint64_t v = get(r);

    if (v > UINT32_MAX)
        r->bad = true;
    return r->bad ? 0 : (uint32_t)v;
}

static int64_t get_signed(struct reader *r)
{
    return unzigzag(get(r));
}

static uint64_t get_distance(struct reader *r, uint64_t *before)
{
    *before += (uint64_t)get_signed(r);
    return *before;
}

/* An id that must be below n. */
static uint32_t get_id(struct reader *r, size_t n)
{
    uint32_t v = get32(r);

    if (v >= n)
        r->bad = true;
    return r->bad ? 0 : v;
}

/* The column of n numbers that begins here; goes on behind it. */
static struct reader column(struct reader *r, uint32_t n)
{
    struct reader at = *r;

    for (uint32_t i = 0; i < n && !r->bad; i++)
        get(r);
    return at;
}

struct delta {
    struct epoch_mark from, n;
};

static bool read_marks(struct reader *r, struct delta *ret)
{
    uint32_t from[N_MARKS], n[N_MARKS];

    for (size_t i = 0; i < N_MARKS; i++)
        from[i] = get32(r);
    for (size_t i = 0; i < N_MARKS; i++) {
        n[i] = get32(r);
        if (n[i] > UINT32_MAX - 1 - from[i] || n[i] > r->in.len)
            r->bad = true;
    }
    memcpy(&ret->from, from, sizeof(from));
    memcpy(&ret->n, n, sizeof(n));
    return !r->bad;
}

int epoch_encoded_marks(struct bytes in, struct epoch_mark *ret_from, struct epoch_mark *ret_to)
{
    struct reader r = {.in = in};
    struct delta d;
    uint32_t from[N_MARKS], n[N_MARKS];

    if (!read_marks(&r, &d))
        return -EBADMSG;
    memcpy(from, &d.from, sizeof(from));
    memcpy(n, &d.n, sizeof(n));
    for (size_t i = 0; i < N_MARKS; i++)
        n[i] += from[i];
    *ret_from = d.from;
    memcpy(ret_to, n, sizeof(n));
    return 0;
}

/* Whether an element that was added got the id it should have; those that were there are skipped.
 */
#define EXPECT(r, added, id) ((added) == (id) ? true : ((r)->bad = true, false))

static void apply_names(struct dict *d, struct reader *r, const struct delta *n)
{
    struct reader len = column(r, n->n.strings);
    for (uint32_t i = 0; i < n->n.strings && !r->bad; i++) {
        struct bytes text;
        uint32_t id = n->from.strings + i;
        if (!take_bytes(&r->in, get(&len), &text))
            r->bad = true;
        else if (id >= d->strings.len)
            EXPECT(r, dict_string(d, text), id);
    }
    struct reader name = column(r, n->n.functions), system = column(r, n->n.functions);
    struct reader file = column(r, n->n.functions), line = column(r, n->n.functions);
    for (uint32_t i = 0; i < n->n.functions && !r->bad; i++) {
        size_t strings = d->strings.len;
        struct function f = {.name = get_id(&name, strings),
                             .system_name = get_id(&system, strings),
                             .file = get_id(&file, strings),
                             .start_line = get_signed(&line)};
        uint32_t id = n->from.functions + i;
        r->bad |= name.bad || system.bad || file.bad || line.bad;
        if (!r->bad && id >= d->functions.len)
            EXPECT(r, dict_function(d, f), id);
    }
}

static void apply_sets(struct dict *d, struct reader *r, const struct delta *n)
{
    struct reader size = column(r, n->n.attr_sets);
    VEC(uint32_t) ids = {0};
    uint64_t left = n->n.attr_ids;

    for (uint32_t i = 0; i < n->n.attr_sets && !r->bad; i++) {
        uint32_t id = n->from.attr_sets + i, len = get32(&size);
        if (size.bad || len > left || !vec_resize(d->budget, &ids, len)) {
            r->bad = true;
            break;
        }
        left -= len;
        for (uint32_t k = 0; k < len; k++)
            ids.data[k] = get_id(r, d->attributes.len);
        if (!r->bad && id >= d->attr_sets.len)
            EXPECT(r, dict_attrs(d, ids.data, len), id);
    }
    r->bad |= left > 0;
    vec_done(d->budget, &ids);
}

static void apply_attributes(struct dict *d, struct reader *r, const struct delta *n)
{
    uint32_t count = n->n.attributes;
    struct bytes kinds;

    if (!take_bytes(&r->in, count, &kinds)) {
        r->bad = true;
        return;
    }
    struct reader key = column(r, count), unit = column(r, count), text = column(r, count),
                  number = column(r, count);
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        size_t strings = d->strings.len;
        struct attribute a = {.key = get_id(&key, strings),
                              .unit = get_id(&unit, strings),
                              .text = get_id(&text, strings),
                              .kind = kinds.data[i],
                              .number = get_signed(&number)};
        uint32_t id = n->from.attributes + i;
        r->bad |= key.bad || unit.bad || text.bad || number.bad || a.kind > ATTRIBUTE_OTHER;
        if (!r->bad && id >= d->attributes.len)
            EXPECT(r, dict_attribute(d, a), id);
    }
    apply_sets(d, r, n);
}

static void apply_mappings(struct dict *d, struct reader *r, const struct delta *n)
{
    for (uint32_t i = 0; i < n->n.mappings && !r->bad; i++) {
        uint32_t id = n->from.mappings + i;
        uint8_t flags = 0;
        struct mapping m = {.start = get(r)};
        m.limit = m.start + get(r);
        m.offset = get(r);
        m.file = get_id(r, d->strings.len);
        m.build_id = get_id(r, d->strings.len);
        m.attrs = get_id(r, d->attr_sets.len);
        if (!take_byte(&r->in, &flags) || flags > 15)
            r->bad = true;
        m.has_functions = flags & 1;
        m.has_filenames = flags & 2;
        m.has_line_numbers = flags & 4;
        m.has_inline_frames = flags & 8;
        if (!r->bad && id >= d->mappings.len)
            EXPECT(r, dict_mapping(d, m), id);
    }
}

/* The columns of locations and their lines, walked side by side. */
struct location_columns {
    struct reader address, mapping, type, attrs, shape, function, line, column;
    uint64_t last_address, last_function;
};

static bool location_columns_bad(const struct location_columns *c)
{
    return c->address.bad || c->mapping.bad || c->type.bad || c->attrs.bad || c->shape.bad ||
           c->function.bad || c->line.bad || c->column.bad;
}

static void apply_locations(struct dict *d, struct reader *r, const struct delta *n)
{
    uint32_t count = n->n.locations, n_lines = n->n.lines;
    struct location_columns c = {.address = column(r, count),
                                 .mapping = column(r, count),
                                 .type = column(r, count),
                                 .attrs = column(r, count),
                                 .shape = column(r, count),
                                 .function = column(r, n_lines),
                                 .line = column(r, n_lines),
                                 .column = column(r, n_lines)};
    VEC(struct line) lines = {0};
    uint64_t left = n_lines;

    for (uint32_t i = 0; i < count && !r->bad; i++) {
        uint32_t id = n->from.locations + i;
        struct location l = {.address = get_distance(&c.address, &c.last_address),
                             .mapping = get_id(&c.mapping, d->mappings.len),
                             .type = get_id(&c.type, d->strings.len),
                             .attrs = get_id(&c.attrs, d->attr_sets.len)};
        uint64_t shape = get(&c.shape);
        l.is_folded = shape & 1;
        if (shape >> 1 > left || !vec_resize(d->budget, &lines, shape >> 1)) {
            r->bad = true;
            break;
        }
        left -= shape >> 1;
        for (size_t k = 0; k < lines.len; k++) {
            uint64_t f = get_distance(&c.function, &c.last_function);
            c.function.bad |= f >= d->functions.len;
            lines.data[k] = (struct line){.function = (uint32_t)f,
                                          .line = get_signed(&c.line),
                                          .column = get_signed(&c.column)};
        }
        r->bad |= location_columns_bad(&c);
        if (!r->bad && id >= d->locations.len)
            EXPECT(r, dict_location(d, l, lines.data, lines.len), id);
    }
    r->bad |= left > 0;
    vec_done(d->budget, &lines);
}

static void apply_nodes(struct dict *d, struct reader *r, const struct delta *n)
{
    struct reader up = column(r, n->n.nodes), location = column(r, n->n.nodes);
    uint64_t last = 0;

    for (uint32_t i = 0; i < n->n.nodes && !r->bad; i++) {
        uint32_t id = n->from.nodes + i;
        uint64_t step = get(&up), at = get_distance(&location, &last);
        r->bad |=
            up.bad || location.bad || step == 0 || step > id || at == 0 || at >= d->locations.len;
        if (!r->bad && id >= d->node_parent.len)
            EXPECT(r, dict_node(d, id - (uint32_t)step, (uint32_t)at), id);
    }
}

/* Whether every table has what it had or what the bytes bring, and nothing else. */
static bool has_grown_to(const struct epoch_mark *had, const struct delta *n, const struct dict *d)
{
    struct epoch_mark is = epoch_mark_of(d);
    uint32_t now[N_MARKS], before[N_MARKS], from[N_MARKS], more[N_MARKS];

    memcpy(now, &is, sizeof(now));
    memcpy(before, had, sizeof(before));
    memcpy(from, &n->from, sizeof(from));
    memcpy(more, &n->n, sizeof(more));
    for (size_t i = 0; i < N_MARKS; i++) {
        uint32_t to = from[i] + more[i];
        if (now[i] != (to > before[i] ? to : before[i]))
            return false;
    }
    return true;
}

int epoch_apply(struct epoch *e, struct bytes in, struct error *err)
{
    struct dict *d = e->dict;
    struct reader r = {.in = in};
    struct delta n;

    if (!read_marks(&r, &n))
        return error_set(err, -EBADMSG, "the counts of a dictionary are malformed");
    struct epoch_mark have = epoch_mark_of(d);
    if (!epoch_mark_covers(&have, &n.from))
        return error_set(err, -ESTALE, "an earlier part of the dictionary is missing");
    apply_names(d, &r, &n);
    apply_attributes(d, &r, &n);
    apply_mappings(d, &r, &n);
    apply_locations(d, &r, &n);
    apply_nodes(d, &r, &n);
    bool hashed = epoch_update_hashes(e);
    if (budget_failed(&e->budget) || !hashed) {
        int ret = budget_error(&e->budget, err);
        e->budget.failed = false;
        return ret;
    }
    if (r.bad || r.in.len > 0 || !has_grown_to(&have, &n, d))
        return error_set(err, -EBADMSG, "a part of the dictionary is malformed");
    return 0;
}
