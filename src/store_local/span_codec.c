#include "store_local/span_codec.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/idset.h"
#include "segment/columns.h"
#include "segment/varint.h"
#include "wire/pack.h"

/*
 * THE LAYOUT OF A BATCH OF SPANS. Numbers are varints, `z` zigzag, columns those of
 * segment/columns.h.
 *
 *     u8 format (1), n spans, z min start, max start - min start, n traces, n far parents
 *     16 bytes per trace: each trace id once, in the order of first use
 *     8 bytes per span: span ids
 *     8 bytes per far parent: parent ids that could not be told by a place
 *     length when unpacked (0: it is not packed), then to the end the rest, as it is or as zstd:
 *
 *     n strings, column of strings
 *     n shapes, column of their lengths, column of their keys (strings), back to back
 *     columns of n spans: start - min start, duration, kind, status, service, name (strings), shape
 *     column of n parents: 0 none, 1 the next far one, d + 1: the span d places before, of the same
 *         trace
 *     column of traces, for the spans whose parent is not in the batch: place in the list of traces
 *     per key, in the order of first use in shapes: column of values (strings) of the spans that
 *         have it, in their order; a shape that has a key twice takes two
 *
 * Ids are random, so packing them would only cost time.
 */
#define SPAN_FORMAT     1
#define SPAN_ZSTD_LEVEL 3

#define PARENT_NONE 0
#define PARENT_FAR  1

static int malformed(struct error *err)
{
    return error_set(err, -EBADMSG, "a batch of spans is malformed");
}

int span_compare(const struct store_span *a, const struct store_span *b)
{
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    int c = memcmp(a->trace_id, b->trace_id, sizeof(a->trace_id));
    return c ? c : memcmp(a->span_id, b->span_id, sizeof(a->span_id));
}

static bool is_zero(const uint8_t *id, size_t n)
{
    static const uint8_t zero[16];

    return memcmp(id, zero, n) == 0;
}

/* ---- Writing */

typedef VEC(uint64_t) numbers;

struct encoder {
    struct budget *budget;
    const struct store_span **order;
    size_t n;

    VEC(struct bytes) strings;
    struct idset string_index;
    VEC(const uint8_t *) traces;
    struct idset trace_index, span_index;
    VEC(uint32_t) row_trace; /* of all spans */
    VEC(const uint8_t *) far;

    numbers shape_len, shape_at, shape_keys;
    struct idset shape_index;

    numbers start, duration, kind, status, service, name, shape, parent, trace;
    numbers keys, values; /* of all attributes, in the order of spans */
};

static void encoder_done(struct encoder *e)
{
    numbers *all[] = {&e->shape_len, &e->shape_at, &e->shape_keys, &e->start, &e->duration,
                      &e->kind,      &e->status,   &e->service,    &e->name,  &e->shape,
                      &e->parent,    &e->trace,    &e->keys,       &e->values};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        vec_done(e->budget, all[i]);
    vec_done(e->budget, &e->strings);
    vec_done(e->budget, &e->traces);
    vec_done(e->budget, &e->row_trace);
    vec_done(e->budget, &e->far);
    idset_done(e->budget, &e->string_index);
    idset_done(e->budget, &e->trace_index);
    idset_done(e->budget, &e->span_index);
    idset_done(e->budget, &e->shape_index);
    budget_free(e->budget, e->order, e->n * sizeof(*e->order));
}

static uint32_t intern(struct encoder *e, struct bytes s)
{
    uint64_t h = hash_bytes(s.data, s.len);
    uint32_t id = IDSET_FIND(&e->string_index, h, i, bytes_equal(e->strings.data[i], s));

    if (id == IDSET_NONE && vec_push(e->budget, &e->strings, s)) {
        id = (uint32_t)(e->strings.len - 1);
        idset_add(e->budget, &e->string_index, h, id);
    }
    return id;
}

static uint32_t intern_trace(struct encoder *e, const uint8_t *trace)
{
    uint64_t h = hash_bytes(trace, 16);
    uint32_t id = IDSET_FIND(&e->trace_index, h, i, memcmp(e->traces.data[i], trace, 16) == 0);

    if (id == IDSET_NONE && vec_push(e->budget, &e->traces, trace)) {
        id = (uint32_t)(e->traces.len - 1);
        idset_add(e->budget, &e->trace_index, h, id);
    }
    return id;
}

/* The keys of a span's attributes, of which there are few kinds. Begins at first_key of e->keys. */
static uint32_t intern_shape(struct encoder *e, size_t first_key)
{
    const uint64_t *keys = e->keys.data + first_key;
    size_t n = e->keys.len - first_key, bytes = n * sizeof(*keys);
    uint64_t h = hash_bytes(keys, bytes);
    uint32_t id = IDSET_FIND(
        &e->shape_index, h, i,
        e->shape_len.data[i] == n &&
            (n == 0 || memcmp(e->shape_keys.data + e->shape_at.data[i], keys, bytes) == 0));

    if (id != IDSET_NONE)
        return id;
    if (!vec_push(e->budget, &e->shape_at, e->shape_keys.len) ||
        !vec_append(e->budget, &e->shape_keys, keys, n) || !vec_push(e->budget, &e->shape_len, n))
        return IDSET_NONE;
    id = (uint32_t)(e->shape_len.len - 1);
    idset_add(e->budget, &e->shape_index, h, id);
    return id;
}

static uint64_t span_hash(uint32_t trace, const uint8_t *span_id)
{
    return hash_mix(hash_bytes(span_id, 8), trace);
}

/* The nearest way to name the parent: the span that was met before, or its id. */
static void encode_parent(struct encoder *e, const struct store_span *s, size_t row, uint32_t trace)
{
    uint64_t parent = PARENT_NONE;

    if (!is_zero(s->parent_id, sizeof(s->parent_id))) {
        uint32_t at = IDSET_FIND(&e->span_index, span_hash(trace, s->parent_id), i,
                                 e->row_trace.data[i] == trace &&
                                     memcmp(e->order[i]->span_id, s->parent_id, 8) == 0);
        parent = at == IDSET_NONE ? PARENT_FAR : row - at + 1;
        if (at == IDSET_NONE)
            vec_push(e->budget, &e->far, s->parent_id);
    }
    vec_push(e->budget, &e->parent, parent);
    if (parent <= PARENT_FAR)
        vec_push(e->budget, &e->trace, trace);
    vec_push(e->budget, &e->row_trace, trace);
    idset_add(e->budget, &e->span_index, span_hash(trace, s->span_id), (uint32_t)row);
}

static void encode_span(struct encoder *e, size_t row)
{
    const struct store_span *s = e->order[row];
    size_t first_key = e->keys.len;

    vec_push(e->budget, &e->start, (uint64_t)s->start_ns - (uint64_t)e->order[0]->start_ns);
    vec_push(e->budget, &e->duration, (uint64_t)s->duration_ns);
    vec_push(e->budget, &e->kind, s->kind);
    vec_push(e->budget, &e->status, s->status);
    vec_push(e->budget, &e->service, intern(e, s->service));
    vec_push(e->budget, &e->name, intern(e, s->name));
    for (size_t i = 0; i < s->n_attributes; i++) {
        vec_push(e->budget, &e->keys, intern(e, s->attributes[i].name));
        vec_push(e->budget, &e->values, intern(e, s->attributes[i].value));
    }
    if (budget_failed(e->budget))
        return;
    vec_push(e->budget, &e->shape, intern_shape(e, first_key));
    encode_parent(e, s, row, intern_trace(e, s->trace_id));
}

static void add_column(const numbers *v, struct buf *out)
{
    column_encode_u64(v->data, v->len, out);
}

/* Attributes by key: counts how many each has, deals the values out, writes each key's once. */
static void add_values(struct encoder *e, struct buf *out)
{
    numbers first = {0}, next = {0}, dealt = {0};

    if (vec_resize(e->budget, &first, e->strings.len + 1) &&
        vec_resize(e->budget, &dealt, e->values.len)) {
        for (size_t i = 0; i < e->keys.len; i++)
            first.data[e->keys.data[i] + 1]++;
        for (size_t i = 1; i < first.len; i++)
            first.data[i] += first.data[i - 1];
        vec_append(e->budget, &next, first.data, first.len);
    }
    for (size_t i = 0; next.len > 0 && i < e->keys.len; i++)
        dealt.data[next.data[e->keys.data[i]]++] = e->values.data[i];
    for (size_t i = 0; next.len > 0 && i < e->shape_keys.len; i++) {
        uint64_t key = e->shape_keys.data[i];
        if (next.data[key] != UINT64_MAX)
            column_encode_u64(dealt.data + first.data[key], first.data[key + 1] - first.data[key],
                              out);
        next.data[key] = UINT64_MAX;
    }
    vec_done(e->budget, &first);
    vec_done(e->budget, &next);
    vec_done(e->budget, &dealt);
}

static void add_rest(struct encoder *e, struct buf *out)
{
    const numbers *columns[] = {&e->start, &e->duration, &e->kind,   &e->status, &e->service,
                                &e->name,  &e->shape,    &e->parent, &e->trace};

    add_varint(out, e->strings.len);
    column_encode_strings(e->strings.data, e->strings.len, out);
    add_varint(out, e->shape_len.len);
    add_column(&e->shape_len, out);
    add_column(&e->shape_keys, out);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        add_column(columns[i], out);
    add_values(e, out);
}

static void add_head(const struct encoder *e, struct buf *out)
{
    const struct store_span *first = e->order[0], *last = e->order[e->n - 1];

    buf_add_byte(out, SPAN_FORMAT);
    add_varint(out, e->n);
    add_varint(out, zigzag(first->start_ns));
    add_varint(out, (uint64_t)last->start_ns - (uint64_t)first->start_ns);
    add_varint(out, e->traces.len);
    add_varint(out, e->far.len);
    for (size_t i = 0; i < e->traces.len; i++)
        buf_add(out, e->traces.data[i], 16);
    for (size_t i = 0; i < e->n; i++)
        buf_add(out, e->order[i]->span_id, 8);
    for (size_t i = 0; i < e->far.len; i++)
        buf_add(out, e->far.data[i], 8);
}

static int by_order(const void *a, const void *b)
{
    return span_compare(*(const struct store_span *const *)a, *(const struct store_span *const *)b);
}

static int add_batch(struct encoder *e, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf rest = {.budget = e->budget};
    CLEANUP(buf_done) struct buf packed = {.budget = e->budget};

    add_rest(e, &rest);
    if (budget_failed(e->budget))
        return budget_error(e->budget, err);
    if (buf_full(&rest))
        return buf_error(&rest, err);
    if (rest.len > SPAN_RAW_MAX)
        return error_set(err, -ENOBUFS, "a batch of spans has %zu bytes, over the limit of %zu",
                         rest.len, SPAN_RAW_MAX);
    int r = zstd_pack(buf_bytes(&rest), SPAN_ZSTD_LEVEL, &packed);
    if (r < 0)
        return error_set(err, r, "could not pack a batch of spans: no memory");
    bool pays = packed.len < rest.len;
    add_head(e, out);
    add_varint(out, pays ? rest.len : 0);
    buf_add_bytes(out, pays ? buf_bytes(&packed) : buf_bytes(&rest));
    return buf_full(out) ? buf_error(out, err) : 0;
}

int span_encode(const struct store_span *spans, size_t n, struct budget *b, struct buf *out,
                struct error *err)
{
    CLEANUP(encoder_done) struct encoder e = {.budget = b};
    void *order = NULL;

    if (n == 0 || n > SPAN_BATCH_MAX)
        return error_set(err, -EINVAL, "a batch of spans has %zu of them, not 1 to %d", n,
                         SPAN_BATCH_MAX);
    if (!budget_resize(b, &order, 0, n * sizeof(*e.order)))
        return budget_error(b, err);
    e.order = order;
    e.n = n;
    for (size_t i = 0; i < n; i++)
        e.order[i] = &spans[i];
    qsort(e.order, n, sizeof(*e.order), by_order);
    for (size_t i = 0; i < n && !budget_failed(b); i++)
        encode_span(&e, i);
    return budget_failed(b) ? budget_error(b, err) : add_batch(&e, out, err);
}

/* ---- Reading */

struct decoder {
    struct span_head head;
    struct bytes far;  /* parent ids not yet used */
    struct bytes rest; /* columns not yet read */
    struct arena *arena;
    struct store_span *spans;

    struct bytes *strings;
    size_t n_strings;
    uint64_t *shape_at; /* n + 1, into shape_keys */
    uint64_t *shape_keys;
    size_t n_shapes;
    uint64_t **key_values; /* per string: what comes next of its column, NULL for those no key */
};

/* The front and the ids; *in is left at the length of the rest. */
static int take_head(struct bytes *in, struct span_head *ret, struct bytes *ret_far)
{
    struct bytes rest = *in, traces, span_ids;
    uint64_t n, min, length, n_traces, n_far;
    uint8_t format;

    if (!take_byte(&rest, &format) || format != SPAN_FORMAT || !take_varint(&rest, &n) || n == 0 ||
        n > SPAN_BATCH_MAX || !take_varint(&rest, &min) || !take_varint(&rest, &length) ||
        !take_varint(&rest, &n_traces) || n_traces > n || !take_varint(&rest, &n_far) ||
        n_far > n || !take_bytes(&rest, 16 * n_traces, &traces) ||
        !take_bytes(&rest, 8 * n, &span_ids) || !take_bytes(&rest, 8 * n_far, ret_far))
        return -EBADMSG;
    int64_t max;
    if (__builtin_add_overflow(unzigzag(min), length, &max))
        return -EBADMSG;
    *ret = (struct span_head){(uint32_t)n, (uint32_t)n_traces, unzigzag(min),
                              max,         traces.data,        span_ids.data};
    *in = rest;
    return 0;
}

int span_head(struct bytes in, struct span_head *ret)
{
    struct bytes far;

    return take_head(&in, ret, &far);
}

bool span_head_has_trace(const struct span_head *h, const uint8_t trace_id[16])
{
    for (uint32_t i = 0; i < h->n_traces; i++) {
        if (memcmp(h->traces + (size_t)i * 16, trace_id, 16) == 0)
            return true;
    }
    return false;
}

bool span_head_has_span(const struct span_head *h, const uint8_t span_id[8])
{
    for (uint32_t i = 0; i < h->n; i++) {
        if (memcmp(h->span_ids + (size_t)i * 8, span_id, 8) == 0)
            return true;
    }
    return false;
}

/* Where the rest is as it was before packing; in the arena, as names point into it. */
static int take_rest(struct decoder *d, struct bytes in, struct error *err)
{
    uint64_t raw_len;

    if (!take_varint(&in, &raw_len) || raw_len > SPAN_RAW_MAX)
        return malformed(err);
    size_t len = raw_len ? (size_t)raw_len : in.len;
    /* Columns may be read a little past their end. */
    uint8_t *raw = arena_new(d->arena, uint8_t, len + 16);
    if (!raw)
        return budget_error(d->arena->budget, err);
    if (raw_len) {
        int r = zstd_unpack(in, len, raw, err);
        if (r < 0)
            return error_prefix(err, r, "a batch of spans is malformed");
    } else {
        vec_copy_(raw, in.data, len);
    }
    d->rest = (struct bytes){raw, len};
    return 0;
}

/* A column of n numbers below `end`, or NULL: no memory or malformed. */
static uint64_t *take_column(struct decoder *d, size_t n, uint64_t end)
{
    uint64_t *v = arena_new(d->arena, uint64_t, n);

    if (!v || column_decode_u64(&d->rest, n, v) < 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (v[i] >= end)
            return NULL;
    }
    return v;
}

static bool take_count(struct decoder *d, uint64_t max, size_t *ret)
{
    uint64_t n;

    if (!take_varint(&d->rest, &n) || n > max)
        return false;
    *ret = (size_t)n;
    return true;
}

static bool take_strings(struct decoder *d)
{
    /* All strings but one are different, so all but one have a byte. */
    if (!take_count(d, d->rest.len + 1, &d->n_strings))
        return false;
    d->strings = arena_new(d->arena, struct bytes, d->n_strings);
    return d->strings && column_decode_strings(&d->rest, d->n_strings, d->strings) == 0;
}

static bool take_shapes(struct decoder *d)
{
    uint64_t *len, total = 0;

    if (!take_count(d, d->head.n, &d->n_shapes) || d->n_shapes == 0 ||
        !(len = take_column(d, d->n_shapes, SPAN_ATTRIBUTES_MAX + 1)) ||
        !(d->shape_at = arena_new(d->arena, uint64_t, d->n_shapes + 1)))
        return false;
    for (size_t i = 0; i < d->n_shapes; i++) {
        total += len[i];
        d->shape_at[i + 1] = total;
    }
    d->shape_keys = take_column(d, (size_t)total, d->n_strings);
    return d->shape_keys != NULL;
}

static bool take_numbers(struct decoder *d)
{
    size_t n = d->head.n;
    uint64_t *start, *duration, *kind, *status, *service, *name;

    if (!(start = take_column(d, n, UINT64_MAX)) || !(duration = take_column(d, n, INT64_MAX)) ||
        !(kind = take_column(d, n, 256)) || !(status = take_column(d, n, 256)) ||
        !(service = take_column(d, n, d->n_strings)) || !(name = take_column(d, n, d->n_strings)))
        return false;
    uint64_t length = (uint64_t)d->head.max_ns - (uint64_t)d->head.min_ns;
    for (size_t i = 0; i < n; i++) {
        if (start[i] > length || (i > 0 && start[i] < start[i - 1]))
            return false;
        struct store_span *s = &d->spans[i];
        s->start_ns = (int64_t)((uint64_t)d->head.min_ns + start[i]);
        s->duration_ns = (int64_t)duration[i];
        s->kind = (uint8_t)kind[i];
        s->status = (uint8_t)status[i];
        s->service = d->strings[service[i]];
        s->name = d->strings[name[i]];
        memcpy(s->span_id, d->head.span_ids + i * 8, 8);
    }
    return start[0] == 0 && start[n - 1] == length;
}

static bool take_parents(struct decoder *d)
{
    size_t n = d->head.n, n_traces = 0;
    uint64_t *parent = take_column(d, n, n + 1), *trace;

    for (size_t i = 0; parent && i < n; i++) {
        if (parent[i] > i + 1)
            return false;
        n_traces += parent[i] <= PARENT_FAR;
    }
    if (!parent || !(trace = take_column(d, n_traces, d->head.n_traces)))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct store_span *s = &d->spans[i];
        struct bytes far;
        if (parent[i] > PARENT_FAR) {
            const struct store_span *p = s - (parent[i] - 1);
            memcpy(s->trace_id, p->trace_id, 16);
            memcpy(s->parent_id, p->span_id, 8);
            continue;
        }
        memcpy(s->trace_id, d->head.traces + 16 * *trace++, 16);
        if (parent[i] == PARENT_FAR) {
            if (!take_bytes(&d->far, 8, &far))
                return false;
            memcpy(s->parent_id, far.data, 8);
        }
    }
    return d->far.len == 0;
}

/* Reads the column of each key, of as many values as the spans' shapes ask for. */
static bool take_values(struct decoder *d, const uint64_t *shape)
{
    uint64_t *counts = arena_new(d->arena, uint64_t, d->n_strings);

    d->key_values = arena_new(d->arena, uint64_t *, d->n_strings);
    if (!counts || !d->key_values)
        return false;
    for (size_t i = 0; i < d->head.n; i++) {
        for (uint64_t k = d->shape_at[shape[i]]; k < d->shape_at[shape[i] + 1]; k++)
            counts[d->shape_keys[k]]++;
    }
    for (uint64_t i = 0; i < d->shape_at[d->n_shapes]; i++) {
        uint64_t key = d->shape_keys[i];
        if (!d->key_values[key] &&
            !(d->key_values[key] = take_column(d, (size_t)counts[key], d->n_strings)))
            return false;
    }
    return true;
}

static bool take_attributes(struct decoder *d)
{
    uint64_t *shape = take_column(d, d->head.n, d->n_shapes);

    if (!shape || !take_parents(d) || !take_values(d, shape))
        return false;
    for (size_t i = 0; i < d->head.n; i++) {
        const uint64_t *keys = d->shape_keys + d->shape_at[shape[i]];
        size_t n = (size_t)(d->shape_at[shape[i] + 1] - d->shape_at[shape[i]]);
        struct label *labels = n ? arena_new(d->arena, struct label, n) : NULL;
        if (n && !labels)
            return false;
        for (size_t k = 0; k < n; k++) {
            labels[k].name = d->strings[keys[k]];
            labels[k].value = d->strings[*d->key_values[keys[k]]++];
        }
        d->spans[i].attributes = labels;
        d->spans[i].n_attributes = n;
    }
    return true;
}

int span_decode(struct bytes in, struct arena *arena, struct span_rows *ret, struct error *err)
{
    struct decoder d = {.arena = arena};

    if (take_head(&in, &d.head, &d.far) < 0)
        return malformed(err);
    int r = take_rest(&d, in, err);
    if (r < 0)
        return r;
    d.spans = arena_new(arena, struct store_span, d.head.n);
    bool is_sound = d.spans && take_strings(&d) && take_shapes(&d) && take_numbers(&d) &&
                    take_attributes(&d) && d.rest.len == 0;
    if (budget_failed(arena->budget))
        return budget_error(arena->budget, err);
    if (!is_sound)
        return malformed(err);
    *ret = (struct span_rows){d.spans, d.head.n};
    return 0;
}
