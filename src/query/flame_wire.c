/*
 * The layout. Numbers of the first 16 bytes are little-endian; all others are varints (LEB128).
 *
 *     0   8 bytes  "VESTATRE"
 *     8   u32      version: 1
 *     12  u32      length of the header, a multiple of 8
 *     16  header   JSON, filled up with spaces
 *     ..  data     the sections, one behind the other
 *
 * The header has the caller's members and nodes, frames, scale, is_signed and "sections":
 * [{"name","offset","bytes"},...]; offsets count from the end of the header.
 *
 * One number per node, breadth first, children of a node side by side and the heaviest first:
 *
 *     children  how many children it has here
 *     frame     row of the frame table
 *     self      its own value, in units of `scale`; zigzag when is_signed
 *     before    of comparisons: the same of the base
 *     sure      of comparisons with statistics: one bit a node, the first in the lowest bit
 *
 *     hidden    only nodes with children that were cut: node, as the distance from the one before
 *               (from 0 the first time), how many, what they weigh; of comparisons also in the base
 *
 * What a node and all below it weigh is self + its children's totals + hidden. Per frame, the most
 * frequent first:
 *
 *     frame_name, frame_file, frame_type, frame_binary, frame_build   which string
 *     frame_line                                                      0: not known
 *
 *     strings   length and UTF-8 of each; the first is empty
 */
#include "query/flame_wire.h"

#include <errno.h>
#include <stdlib.h>

#include "base/le.h"
#include "wire/json.h"

#define MAGIC      "VESTATRE"
#define VERSION    1
#define VARINT_MAX 10

/* Nodes in breadth-first order lie anywhere: they are fetched so many before they are read. */
#define FETCH_AHEAD 24

enum section {
    CHILDREN,
    FRAME,
    SELF,
    BEFORE,
    SURE,
    HIDDEN,
    FRAME_NAME,
    FRAME_FILE,
    FRAME_TYPE,
    FRAME_BINARY,
    FRAME_BUILD,
    FRAME_LINE,
    STRINGS,
    N_SECTIONS,
};

static const char *const section_names[] = {
    [CHILDREN] = "children",
    [FRAME] = "frame",
    [SELF] = "self",
    [BEFORE] = "before",
    [SURE] = "sure",
    [HIDDEN] = "hidden",
    [FRAME_NAME] = "frame_name",
    [FRAME_FILE] = "frame_file",
    [FRAME_TYPE] = "frame_type",
    [FRAME_BINARY] = "frame_binary",
    [FRAME_BUILD] = "frame_build",
    [FRAME_LINE] = "frame_line",
    [STRINGS] = "strings",
};

struct writer {
    struct flame_cut *f;
    const struct flame_wire_options *o;
    struct budget *budget;
    struct buf sections[N_SECTIONS];
    uint64_t scale;
    bool is_signed, compares;
    bool is_whole; /* the order has every node: where it does not matter, 0, 1, 2... is faster */

    VEC(uint32_t) uses;  /* per frame of the tree: how many nodes have it */
    VEC(uint32_t) row;   /* per frame of the tree */
    VEC(uint32_t) rows;  /* frames of the tree, the most frequent first */
    VEC(uint32_t) place; /* per string of the dictionary: which one it is here, or 0 */
    uint32_t n_strings;
};

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* ---- Numbers */

static void add_varint(struct buf *b, uint64_t v)
{
    /* Nearly always there is room. */
    uint8_t *at = b->cap - b->len >= VARINT_MAX ? b->data + b->len : buf_reserve(b, VARINT_MAX);
    if (!at)
        return;
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        at[n++] = (uint8_t)(v | 0x80);
    at[n++] = (uint8_t)v;
    b->len += n;
}

static void add_value(const struct writer *w, struct buf *b, int64_t v)
{
    uint64_t scaled = w->scale == 1 ? magnitude(v) : magnitude(v) / w->scale;
    if (w->is_signed)
        scaled = v < 0 ? (scaled << 1) - 1 : scaled << 1;
    add_varint(b, scaled);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void measure_one(struct writer *w, int64_t v)
{
    w->is_signed |= v < 0;
    if (w->scale != 1 && v != 0)
        w->scale = common_divisor(magnitude(v), w->scale);
}

/* Finds the largest unit in which all values are whole, and whether one is below zero. */
static void measure(struct writer *w)
{
    const struct flame_cut_levels *l = &w->f->levels;
    const int64_t *self = w->f->tree.self.data, *before = w->f->base.self.data;

    for (uint32_t i = 0; i < l->order.len; i++) {
        uint32_t node = w->is_whole ? i : l->order.data[i];
        measure_one(w, self[node]);
        if (w->compares)
            measure_one(w, before[node]);
    }
    for (size_t i = 0; i < l->hidden.len; i++) {
        measure_one(w, l->hidden.data[i].weight);
        measure_one(w, l->hidden.data[i].base_weight);
    }
    if (w->scale == 0)
        w->scale = 1;
}

/* ---- Frames: the most frequent first, so that most nodes name theirs in one byte */

static int by_use(const void *a, const void *b, void *ctx)
{
    const uint32_t *uses = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (uses[x] != uses[y])
        return uses[x] < uses[y] ? 1 : -1;
    return (x > y) - (x < y);
}

static bool order_frames(struct writer *w)
{
    const struct flame_cut *f = w->f;
    size_t n = f->tree.frames.all.len;
    if (!vec_resize(w->budget, &w->uses, n) || !vec_resize(w->budget, &w->row, n))
        return false;
    for (uint32_t i = 0; i < f->levels.order.len; i++)
        w->uses.data[f->tree.frame.data[w->is_whole ? i : f->levels.order.data[i]]]++;
    for (uint32_t i = 0; i < n; i++)
        if (w->uses.data[i] > 0 && !vec_push(w->budget, &w->rows, i))
            return false;
    if (w->rows.len > 1)
        qsort_r(w->rows.data, w->rows.len, sizeof(*w->rows.data), by_use, w->uses.data);
    for (uint32_t i = 0; i < w->rows.len; i++)
        w->row.data[w->rows.data[i]] = i;
    return true;
}

/* ---- Sections */

static void write_nodes(struct writer *w)
{
    const struct flame_cut *f = w->f;
    struct buf *s = w->sections;

    for (size_t i = 0; i < f->levels.order.len; i++) {
        uint32_t node = f->levels.order.data[i];
        if (i + FETCH_AHEAD < f->levels.order.len) {
            uint32_t soon = f->levels.order.data[i + FETCH_AHEAD];
            __builtin_prefetch(&f->tree.frame.data[soon]);
            __builtin_prefetch(&f->tree.self.data[soon]);
        }
        add_varint(&s[CHILDREN], f->levels.children.data[i]);
        add_varint(&s[FRAME], w->row.data[f->tree.frame.data[node]]);
        add_value(w, &s[SELF], f->tree.self.data[node]);
        if (w->compares)
            add_value(w, &s[BEFORE], f->base.self.data[node]);
    }
}

static void write_hidden(struct writer *w)
{
    struct buf *b = &w->sections[HIDDEN];
    uint32_t before = 0;

    for (size_t i = 0; i < w->f->levels.hidden.len; i++) {
        const struct flame_cut_hidden *h = &w->f->levels.hidden.data[i];
        add_varint(b, h->place - before);
        before = h->place;
        add_varint(b, h->n);
        add_value(w, b, h->weight);
        if (w->compares)
            add_value(w, b, h->base_weight);
    }
}

static void write_sure(struct writer *w)
{
    size_t n = w->f->levels.order.len;
    uint8_t byte = 0;
    for (size_t i = 0; i < n; i++) {
        if (w->o->is_sure[i])
            byte |= (uint8_t)(1 << i % 8);
        if (i % 8 == 7 || i + 1 == n) {
            buf_add_byte(&w->sections[SURE], byte);
            byte = 0;
        }
    }
}

static uint32_t add_string(struct writer *w, struct bytes text)
{
    add_varint(&w->sections[STRINGS], text.len);
    buf_add_bytes(&w->sections[STRINGS], text);
    return w->n_strings++;
}

static uint32_t place_of(struct writer *w, uint32_t string)
{
    if (string != 0 && w->place.data[string] == 0)
        w->place.data[string] = add_string(w, dict_text(w->f->tree.frames.dict, string));
    return w->place.data[string];
}

/* Names that reports compose are of one frame each; others are strings of the dictionary. */
static uint32_t name_of(struct writer *w, uint32_t frame)
{
    struct frames *frames = &w->f->tree.frames;
    if (frame == 0)
        return add_string(w, BYTES("root"));
    const char *name = frames_name(frames, frame);
    uint32_t id = frames->all.data[frame].name;
    return name == dict_cstr(frames->dict, id) ? place_of(w, id) : add_string(w, bytes_of(name));
}

static bool write_frames(struct writer *w)
{
    const struct dict *d = w->f->tree.frames.dict;
    struct buf *s = w->sections;

    if (!vec_resize(w->budget, &w->place, d->strings.len))
        return false;
    (void)add_string(w, BYTES(""));
    for (size_t i = 0; i < w->rows.len; i++) {
        uint32_t id = w->rows.data[i];
        const struct frame *frame = &w->f->tree.frames.all.data[id];
        const struct mapping *m = &d->mappings.data[frame->mapping];
        add_varint(&s[FRAME_NAME], name_of(w, id));
        add_varint(&s[FRAME_FILE], place_of(w, frame->file ? frame->file : frame->source));
        add_varint(&s[FRAME_TYPE], place_of(w, frame->type));
        add_varint(&s[FRAME_BINARY], place_of(w, m->file));
        add_varint(&s[FRAME_BUILD], place_of(w, m->build_id));
        add_varint(&s[FRAME_LINE], frame_line(frame) > 0 ? (uint64_t)frame_line(frame) : 0);
    }
    return true;
}

/* ---- All of it */

static bool is_sent(const struct writer *w, enum section which)
{
    if (which == BEFORE)
        return w->compares;
    return which != SURE || w->o->is_sure;
}

static void write_sections(const struct writer *w, struct json_writer *json)
{
    size_t at = 0;
    json_key(json, "sections");
    json_begin_array(json);
    for (enum section i = 0; i < N_SECTIONS; i++) {
        if (!is_sent(w, i))
            continue;
        json_begin_object(json);
        json_key(json, "name");
        json_cstring(json, section_names[i]);
        json_key(json, "offset");
        json_u64(json, at);
        json_key(json, "bytes");
        json_u64(json, w->sections[i].len);
        json_end_object(json);
        at += w->sections[i].len;
    }
    json_end_array(json);
}

static void write_header(const struct writer *w, struct buf *header)
{
    struct json_writer json = {.out = header};

    json_begin_object(&json);
    buf_add_bytes(header, w->o->members);
    json.needs_comma = w->o->members.len > 0;
    json_key(&json, "nodes");
    json_u64(&json, w->f->levels.order.len);
    json_key(&json, "frames");
    json_u64(&json, w->rows.len);
    json_key(&json, "scale");
    json_u64(&json, w->scale);
    json_key(&json, "is_signed");
    json_bool(&json, w->is_signed);
    write_sections(w, &json);
    json_end_object(&json);
    while (header->len % 8 != 0 && !buf_full(header))
        buf_add_byte(header, ' ');
}

static int put_together(const struct writer *w, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf header = {.budget = w->budget};
    uint8_t start[16] = MAGIC;

    for (enum section i = 0; i < N_SECTIONS; i++)
        if (buf_full(&w->sections[i]))
            return buf_error(&w->sections[i], err);
    write_header(w, &header);
    if (buf_full(&header))
        return buf_error(&header, err);
    le32_put(start + 8, VERSION);
    le32_put(start + 12, (uint32_t)header.len);
    buf_add(out, start, sizeof(start));
    buf_add_bytes(out, buf_bytes(&header));
    for (enum section i = 0; i < N_SECTIONS; i++)
        buf_add_bytes(out, buf_bytes(&w->sections[i]));
    return buf_full(out) ? buf_error(out, err) : 0;
}

static void writer_done(struct writer *w)
{
    for (enum section i = 0; i < N_SECTIONS; i++)
        buf_done(&w->sections[i]);
    vec_done(w->budget, &w->uses);
    vec_done(w->budget, &w->row);
    vec_done(w->budget, &w->rows);
    vec_done(w->budget, &w->place);
}

int flame_wire_write(struct flame_cut *f, const struct flame_wire_options *o, struct buf *out,
                     struct error *err)
{
    CLEANUP(writer_done)
    struct writer w = {.f = f,
                       .o = o,
                       .budget = f->tree.frames.dict->budget,
                       .compares = f->base.self.len > 0,
                       .is_whole = f->levels.order.len == tree_len(&f->tree)};

    for (enum section i = 0; i < N_SECTIONS; i++)
        w.sections[i].budget = w.budget;
    measure(&w);
    if (!order_frames(&w) || !write_frames(&w))
        return budget_error(w.budget, err);
    write_nodes(&w);
    write_hidden(&w);
    if (o->is_sure)
        write_sure(&w);
    return put_together(&w, out, err);
}
