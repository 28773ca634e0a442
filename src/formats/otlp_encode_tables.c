#include <stdlib.h>

#include "formats/otlp_encode.h"
#include "wire/protobuf.h"

static uint32_t *map_new(size_t n)
{
    uint32_t *map = calloc(n, sizeof(*map));

    if (!map)
        abort();
    return map;
}

/*
 * The first mapping of a pprof profile is its main binary: those that are referred to get their
 * indices in the order of the source.
 */
static void put_mapping_order(struct otlp_writer *w);

void otlp_writer_init(struct otlp_writer *w, const struct profile_set *set, struct buf *out)
{
    const struct dict *d = set->dict;

    *w = (struct otlp_writer){.set = set, .from = d, .out = out};
    budget_init(&w->budget, SIZE_MAX);
    w->to = dict_new(&w->budget);
    w->values = dict_new(&w->budget);
    vec_push(&w->budget, &w->stacks, 0);
    w->strings = map_new(d->strings.len);
    w->attr_sets = map_new(d->attr_sets.len);
    w->mappings = map_new(d->mappings.len);
    w->locations = map_new(d->locations.len);
    w->nodes = map_new(d->node_parent.len);
    put_mapping_order(w);
}

void otlp_writer_done(struct otlp_writer *w)
{
    vec_done(&w->budget, &w->stacks);
    vec_done(&w->budget, &w->ids);
    vec_done(&w->budget, &w->pending);
    vec_done(&w->budget, &w->lines);
    dict_free(w->to);
    dict_free(w->values);
    free(w->strings);
    free(w->attr_sets);
    free(w->mappings);
    free(w->locations);
    free(w->nodes);
    buf_done(&w->text);
}

/* Overlong forms, surrogates, and what is past the last code point, by the first two bytes. */
static bool utf8_is_excluded(uint8_t first, uint8_t second)
{
    return (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
           (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
}

/* The length of the UTF-8 sequence at p, or 0 when there is none. */
static size_t utf8_length(const uint8_t *p, size_t left)
{
    uint8_t c = p[0];
    size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

    if (n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    return n > 1 && utf8_is_excluded(c, p[1]) ? 0 : n;
}

static bool is_utf8(struct bytes s)
{
    for (size_t i = 0, n; i < s.len; i += n) {
        if ((n = utf8_length(s.data + i, s.len - i)) == 0)
            return false;
    }
    return true;
}

struct bytes otlp_text(struct otlp_writer *w, uint32_t string)
{
    struct bytes s = dict_text(w->from, string);

    if (is_utf8(s))
        return s;
    w->losses[OTLP_LOSS_UTF8] = true;
    buf_clear(&w->text);
    for (size_t i = 0, n; i < s.len; i += n) {
        n = utf8_length(s.data + i, s.len - i);
        if (n > 0)
            buf_add(&w->text, s.data + i, n);
        else
            buf_add_str(&w->text, "\xef\xbf\xbd");
        n += n == 0;
    }
    return buf_bytes(&w->text);
}

uint32_t otlp_put_string(struct otlp_writer *w, uint32_t string)
{
    if (string != 0 && w->strings[string] == 0)
        w->strings[string] = dict_string(w->to, otlp_text(w, string));
    return w->strings[string];
}

void otlp_push_attrs(struct otlp_writer *w, uint32_t set)
{
    struct attrs s = w->from->attr_sets.data[set];

    for (uint32_t i = 0; i < s.n; i++) {
        struct attribute a = w->from->attributes.data[w->from->attr_ids.data[s.first + i]];
        a.key = otlp_put_string(w, a.key);
        a.unit = otlp_put_string(w, a.unit);
        a.text = dict_string(w->values, a.kind == ATTRIBUTE_STRING ? otlp_text(w, a.text)
                                                                   : dict_text(w->from, a.text));
        vec_push(&w->budget, &w->pending, a);
    }
}

static void push(struct otlp_writer *w, const char *key, struct attribute a)
{
    a.key = dict_cstring(w->to, key);
    vec_push(&w->budget, &w->pending, a);
}

void otlp_push_text(struct otlp_writer *w, const char *key, uint32_t text)
{
    if (text != 0)
        push(w, key,
             (struct attribute){.kind = ATTRIBUTE_STRING,
                                .text = dict_string(w->values, otlp_text(w, text))});
}

void otlp_push_message(struct otlp_writer *w, const char *key, struct bytes any_value)
{
    push(w, key,
         (struct attribute){.kind = ATTRIBUTE_OTHER, .text = dict_string(w->values, any_value)});
}

static void push_flag(struct otlp_writer *w, const char *key, bool flag)
{
    if (flag)
        push(w, key, (struct attribute){.kind = ATTRIBUTE_BOOL, .number = 1});
}

/* Strings by their bytes, then numbers: the order in which otlp_value.c takes a list for labels. */
static int compare_values(const void *x, const void *y, void *writer)
{
    const struct otlp_writer *w = writer;
    const struct attribute *a = x, *b = y;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return bytes_compare(dict_text(w->values, a->text), dict_text(w->values, b->text));
}

static bool is_label(const struct attribute *a)
{
    return a->kind == ATTRIBUTE_STRING || a->kind == ATTRIBUTE_INT;
}

/* One attribute in the place of n that have the same key: an array of their values. */
static struct attribute join_values(struct otlp_writer *w, const struct attribute *same, size_t n)
{
    struct attribute joined = {.key = same->key, .unit = same->unit, .kind = ATTRIBUTE_OTHER};
    size_t before = w->out->len;

    /* The output's tail serves as scratch; it is taken back below. */
    size_t at = pb_begin(w->out, 5);
    for (size_t i = 0; i < n; i++) {
        if (!is_label(&same[i]) || same[i].unit != same->unit) {
            w->losses[OTLP_LOSS_SAME_KEY] = true;
            continue;
        }
        size_t element = pb_begin(w->out, 1);
        if (same[i].kind == ATTRIBUTE_STRING)
            pb_put_bytes(w->out, 1, dict_text(w->values, same[i].text));
        else
            pb_put_u64(w->out, 3, (uint64_t)same[i].number);
        pb_end(w->out, element);
    }
    pb_end(w->out, at);
    joined.text =
        dict_string(w->values, (struct bytes){w->out->data + before, w->out->len - before});
    w->out->len = before;
    return joined;
}

uint32_t otlp_put_ids(struct otlp_writer *w)
{
    struct attribute *all = w->pending.data;
    size_t n = w->pending.len;

    vec_clear(&w->ids);
    if (n > 1)
        qsort_r(all, n, sizeof(*all), compare_values, w);
    for (size_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && all[i + run].key == all[i].key;)
            run++;
        struct attribute a = all[i];
        if (run > 1 && is_label(&a))
            a = join_values(w, all + i, run);
        else if (run > 1)
            w->losses[OTLP_LOSS_SAME_KEY] = true;
        vec_push(&w->budget, &w->ids, dict_attribute(w->to, a));
    }
    vec_clear(&w->pending);
    return dict_attrs(w->to, w->ids.data, w->ids.len);
}

uint32_t otlp_put_attrs(struct otlp_writer *w, uint32_t set)
{
    if (set != 0 && w->attr_sets[set] == 0) {
        otlp_push_attrs(w, set);
        w->attr_sets[set] = otlp_put_ids(w);
    }
    return w->attr_sets[set];
}

static uint32_t put_mapping(struct otlp_writer *w, uint32_t mapping)
{
    if (mapping == 0 || w->mappings[mapping] != 0)
        return w->mappings[mapping];
    struct mapping m = w->from->mappings.data[mapping];
    otlp_push_attrs(w, m.attrs);
    otlp_push_text(w, "process.executable.build_id.gnu", m.build_id);
    push_flag(w, "pprof.mapping.has_functions", m.has_functions);
    push_flag(w, "pprof.mapping.has_filenames", m.has_filenames);
    push_flag(w, "pprof.mapping.has_line_numbers", m.has_line_numbers);
    push_flag(w, "pprof.mapping.has_inline_frames", m.has_inline_frames);
    struct mapping put = {.start = m.start, .limit = m.limit, .offset = m.offset};
    put.file = otlp_put_string(w, m.file);
    put.attrs = otlp_put_ids(w);
    if (put.start >= put.limit && (put.start | put.limit) != 0) {
        w->losses[OTLP_LOSS_RANGE] = true;
        put.start = put.limit = 0;
    }
    w->mappings[mapping] = dict_mapping(w->to, put);
    return w->mappings[mapping];
}

static int64_t not_negative(struct otlp_writer *w, int64_t line)
{
    w->losses[OTLP_LOSS_NEGATIVE_LINE] |= line < 0;
    return line < 0 ? 0 : line;
}

static struct line put_line(struct otlp_writer *w, const struct line *l)
{
    struct function f = w->from->functions.data[l->function];

    f.name = otlp_put_string(w, f.name);
    f.system_name = otlp_put_string(w, f.system_name);
    f.file = otlp_put_string(w, f.file);
    f.start_line = not_negative(w, f.start_line);
    return (struct line){.function = dict_function(w->to, f),
                         .line = not_negative(w, l->line),
                         .column = not_negative(w, l->column)};
}

static uint32_t put_location(struct otlp_writer *w, uint32_t location)
{
    const struct location *l = &w->from->locations.data[location];

    if (w->locations[location] != 0)
        return w->locations[location];
    struct location put = {.address = l->address, .mapping = put_mapping(w, l->mapping)};
    otlp_push_attrs(w, l->attrs);
    otlp_push_text(w, "profile.frame.type", l->type);
    push_flag(w, "pprof.location.is_folded", l->is_folded);
    put.attrs = otlp_put_ids(w);
    /* A frame of which nothing is known is element 0. */
    if (put.address == 0 && put.mapping == 0 && put.attrs == 0 && l->n_lines == 0)
        return 0;
    vec_clear(&w->lines);
    for (uint32_t i = 0; i < l->n_lines; i++)
        vec_push(&w->budget, &w->lines, put_line(w, &w->from->lines.data[l->first_line + i]));
    w->locations[location] = dict_location(w->to, put, w->lines.data, w->lines.len);
    return w->locations[location];
}

uint32_t otlp_put_stack(struct otlp_writer *w, uint32_t node)
{
    if (node != 0 && w->nodes[node] == 0) {
        w->nodes[node] = (uint32_t)w->stacks.len;
        vec_push(&w->budget, &w->stacks, node);
    }
    return w->nodes[node];
}

static void mark_stack(struct otlp_writer *w, uint32_t node, uint8_t *seen, uint8_t *used)
{
    for (; node != 0 && !seen[node]; node = w->from->node_parent.data[node]) {
        seen[node] = 1;
        used[w->from->locations.data[w->from->node_location.data[node]].mapping] = 1;
    }
}

static void put_mapping_order(struct otlp_writer *w)
{
    uint8_t *seen = calloc(w->from->node_parent.len, 1);
    uint8_t *used = calloc(w->from->mappings.len, 1);

    if (!seen || !used)
        abort();
    for (size_t i = 0; i < w->set->profiles.len; i++) {
        const struct profile *p = w->set->profiles.data[i];
        for (size_t row = 0; row < p->n_samples; row++)
            mark_stack(w, p->node[row], seen, used);
    }
    for (size_t i = 0; i < w->set->profiles.len; i++) {
        const struct profile *p = w->set->profiles.data[i];
        for (size_t m = 0; m < p->mappings.len; m++) {
            uint32_t id = p->mappings.data[m];
            if (used[id])
                put_mapping(w, id);
            else
                w->losses[OTLP_LOSS_UNUSED_MAPPING] = true;
        }
    }
    free(seen);
    free(used);
}

void otlp_write_value(struct otlp_writer *w, const struct dict *texts, const struct attribute *a)
{
    struct buf *out = w->out;
    struct bytes text = dict_text(texts, a->text);

    if (a->kind == ATTRIBUTE_OTHER) {
        pb_put_bytes(out, 2, text);
        return;
    }
    size_t at = pb_begin(out, 2);
    switch (a->kind) {
    case ATTRIBUTE_STRING:
        pb_put_bytes(out, 1, texts == w->from ? otlp_text(w, a->text) : text);
        break;
    case ATTRIBUTE_BOOL:
        pb_put_u64(out, 2, a->number != 0);
        break;
    case ATTRIBUTE_INT:
        pb_put_u64(out, 3, (uint64_t)a->number);
        break;
    case ATTRIBUTE_DOUBLE:
        pb_put_fixed64(out, 4, (uint64_t)a->number);
        break;
    case ATTRIBUTE_BYTES:
        pb_put_bytes(out, 7, text);
        break;
    default:
        break;
    }
    pb_end(out, at);
}

void otlp_write_indices(struct otlp_writer *w, uint32_t field, uint32_t set)
{
    struct attrs s = w->to->attr_sets.data[set];

    if (s.n == 0)
        return;
    size_t at = pb_begin(w->out, field);
    for (uint32_t i = 0; i < s.n; i++)
        pb_put_varint(w->out, w->to->attr_ids.data[s.first + i]);
    pb_end(w->out, at);
}

static void write_mappings(struct otlp_writer *w)
{
    for (size_t i = 0; i < w->to->mappings.len; i++) {
        const struct mapping *m = &w->to->mappings.data[i];
        size_t at = pb_begin(w->out, 1);
        pb_put_u64_opt(w->out, 1, m->start);
        pb_put_u64_opt(w->out, 2, m->limit);
        pb_put_u64_opt(w->out, 3, m->offset);
        pb_put_u64_opt(w->out, 4, m->file);
        otlp_write_indices(w, 5, m->attrs);
        pb_end(w->out, at);
    }
}

static void write_locations(struct otlp_writer *w)
{
    for (size_t i = 0; i < w->to->locations.len; i++) {
        const struct location *l = &w->to->locations.data[i];
        size_t at = pb_begin(w->out, 2);
        pb_put_u64_opt(w->out, 1, l->mapping);
        pb_put_u64_opt(w->out, 2, l->address);
        for (uint32_t k = 0; k < l->n_lines; k++) {
            const struct line *line = &w->to->lines.data[l->first_line + k];
            size_t inner = pb_begin(w->out, 3);
            pb_put_u64_opt(w->out, 1, line->function);
            pb_put_u64_opt(w->out, 2, (uint64_t)line->line);
            pb_put_u64_opt(w->out, 3, (uint64_t)line->column);
            pb_end(w->out, inner);
        }
        otlp_write_indices(w, 4, l->attrs);
        pb_end(w->out, at);
    }
}

static void write_functions(struct otlp_writer *w)
{
    for (size_t i = 0; i < w->to->functions.len; i++) {
        const struct function *f = &w->to->functions.data[i];
        size_t at = pb_begin(w->out, 3);
        pb_put_u64_opt(w->out, 1, f->name);
        pb_put_u64_opt(w->out, 2, f->system_name);
        pb_put_u64_opt(w->out, 3, f->file);
        pb_put_u64_opt(w->out, 4, (uint64_t)f->start_line);
        pb_end(w->out, at);
    }
}

static void write_links(struct otlp_writer *w)
{
    for (size_t i = 0; i < w->to->links.len; i++) {
        const struct link *l = &w->to->links.data[i];
        size_t at = pb_begin(w->out, 4);
        /* The official checker wants element 0 without any field. */
        if (i > 0) {
            pb_put_bytes(w->out, 1, (struct bytes){l->trace_id, sizeof(l->trace_id)});
            pb_put_bytes(w->out, 2, (struct bytes){l->span_id, sizeof(l->span_id)});
        }
        pb_end(w->out, at);
    }
}

static void write_attributes(struct otlp_writer *w)
{
    for (size_t i = 0; i < w->to->attributes.len; i++) {
        const struct attribute *a = &w->to->attributes.data[i];
        size_t at = pb_begin(w->out, 6);
        pb_put_u64_opt(w->out, 1, a->key);
        if (a->kind != ATTRIBUTE_NONE)
            otlp_write_value(w, w->values, a);
        pb_put_u64_opt(w->out, 3, a->unit);
        pb_end(w->out, at);
    }
}

static void write_stacks(struct otlp_writer *w)
{
    for (size_t i = 0; i < w->stacks.len && !buf_full(w->out); i++) {
        size_t at = pb_begin(w->out, 7);
        if (i > 0) {
            size_t list = pb_begin(w->out, 1);
            for (uint32_t n = w->stacks.data[i]; n != 0 && !buf_full(w->out);
                 n = w->from->node_parent.data[n])
                pb_put_varint(w->out, w->locations[w->from->node_location.data[n]]);
            pb_end(w->out, list);
        }
        pb_end(w->out, at);
    }
}

void otlp_write_dictionary(struct otlp_writer *w)
{
    uint32_t *seen = map_new(w->from->node_parent.len);

    /* The callers of a node that was seen were seen with it. */
    for (size_t i = 1; i < w->stacks.len; i++) {
        for (uint32_t n = w->stacks.data[i]; n != 0 && !seen[n]; n = w->from->node_parent.data[n]) {
            seen[n] = 1;
            put_location(w, w->from->node_location.data[n]);
        }
    }
    free(seen);
    size_t at = pb_begin(w->out, 2);
    write_mappings(w);
    write_locations(w);
    write_functions(w);
    write_links(w);
    for (size_t i = 0; i < w->to->strings.len; i++)
        pb_put_bytes(w->out, 5, dict_text(w->to, (uint32_t)i));
    write_attributes(w);
    write_stacks(w);
    pb_end(w->out, at);
}
