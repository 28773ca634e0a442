#include "store_local/memtable.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/must.h"
#include "store_local/span_codec.h"

/* Decoders of runs may load whole words at the end of a payload. */
#define PAYLOAD_PADDING 16

struct memtable *memtable_new(void)
{
    struct memtable *m = must_calloc(1, sizeof(*m));
    m->refs = 1;
    budget_init(&m->budget, SIZE_MAX / 2);
    arena_init(&m->arena, &m->budget);
    m->min_start_ns = INT64_MAX;
    m->max_start_ns = INT64_MIN;
    return m;
}

struct memtable *memtable_ref(struct memtable *m)
{
    m->refs++;
    return m;
}

void memtable_unref(struct memtable *m)
{
    if (!m || --m->refs > 0)
        return;
    for (size_t i = 0; i < m->epochs.len; i++)
        m->epochs.data[i]->memtables--;
    vec_done(&m->budget, &m->series);
    vec_done(&m->budget, &m->rows);
    vec_done(&m->budget, &m->row_series);
    vec_done(&m->budget, &m->epochs);
    idset_done(&m->budget, &m->series_index);
    idset_done(&m->budget, &m->row_index);
    vec_done(&m->budget, &m->span_keys);
    idset_done(&m->budget, &m->span_index);
    arena_done(&m->arena);
    free(m);
}

static uint64_t series_hash(uint32_t tenant, uint32_t series)
{
    return hash_mix((uint64_t)tenant << 32 | series, 1);
}

static uint32_t find_series(const struct memtable *m, uint32_t tenant, uint32_t series)
{
    return IDSET_FIND(&m->series_index, series_hash(tenant, series), i,
                      m->series.data[i].tenant == tenant && m->series.data[i].series == series);
}

static uint64_t key_hash(const struct row_key *k)
{
    uint64_t h = hash_mix((uint64_t)k->tenant << 32 | k->series, (uint64_t)k->start_ns);
    return k->has_id ? hash_mix(h, hash_bytes(k->id, 16)) : hash_mix(h, k->content_hash);
}

static bool is_row(const struct memtable *m, uint32_t at, const struct row_key *k)
{
    const struct row *row = m->rows.data[at];
    const struct memtable_series *s = &m->series.data[m->row_series.data[at]];

    if (s->tenant != k->tenant || s->series != k->series || row->start_ns != k->start_ns ||
        row->has_id != k->has_id)
        return false;
    return k->has_id ? memcmp(row->id, k->id, sizeof(row->id)) == 0
                     : row->content_hash == k->content_hash;
}

bool memtable_has(const struct memtable *m, const struct row_key *key)
{
    return IDSET_FIND(&m->row_index, key_hash(key), at, is_row(m, at, key)) != IDSET_NONE;
}

static bool refer_to_epoch(struct memtable *m, struct epoch *e)
{
    for (size_t i = m->epochs.len; i > 0; i--) {
        if (m->epochs.data[i - 1] == e)
            return true;
    }
    if (!vec_push(&m->budget, &m->epochs, e))
        return false;
    e->memtables++;
    return true;
}

static struct row *copy_row(struct memtable *m, uint64_t seq, struct epoch *epoch,
                            const struct record_profile *p)
{
    struct row *row = arena_new(&m->arena, struct row, 1);
    int64_t *totals = arena_new(&m->arena, int64_t, p->n_types);
    uint8_t *bytes = arena_new(&m->arena, uint8_t, p->payload.len + PAYLOAD_PADDING + p->side.len);
    if (!row || !totals || !bytes)
        return NULL;
    vec_copy_(totals, p->totals, p->n_types * sizeof(*totals));
    vec_copy_(bytes, p->payload.data, p->payload.len);
    uint8_t *side = bytes + p->payload.len + PAYLOAD_PADDING;
    vec_copy_(side, p->side.data, p->side.len);
    *row = (struct row){
        .seq = seq,
        .epoch = epoch,
        .start_ns = p->start_ns,
        .duration_ns = p->duration_ns,
        .period = p->period,
        .content_hash = p->content_hash,
        .has_id = p->has_id,
        .n_samples = p->n_samples,
        .totals = totals,
        .payload = {bytes, p->payload.len},
        .side = {side, p->side.len},
    };
    memcpy(row->id, p->id, sizeof(row->id));
    return row;
}

/* The place of a series, made when it has no rows yet. */
static uint32_t need_series(struct memtable *m, uint32_t tenant, uint32_t series)
{
    uint32_t at = find_series(m, tenant, series);

    if (at != IDSET_NONE)
        return at;
    if (!vec_push(&m->budget, &m->series,
                  (struct memtable_series){.tenant = tenant,
                                           .series = series,
                                           .min_start_ns = INT64_MAX,
                                           .max_start_ns = INT64_MIN}))
        return IDSET_NONE;
    at = (uint32_t)m->series.len - 1;
    if (!idset_add(&m->budget, &m->series_index, series_hash(tenant, series), at)) {
        m->series.len--;
        return IDSET_NONE;
    }
    return at;
}

static void widen(int64_t *min, int64_t *max, int64_t v)
{
    if (v < *min)
        *min = v;
    if (v > *max)
        *max = v;
}

const struct row *memtable_add(struct memtable *m, uint64_t seq, struct epoch *epoch,
                               const struct record_profile *p)
{
    struct row_key key = {.tenant = p->tenant,
                          .series = p->series,
                          .start_ns = p->start_ns,
                          .has_id = p->has_id,
                          .id = p->id,
                          .content_hash = p->content_hash};
    struct row *row = copy_row(m, seq, epoch, p);
    if (!row || !vec_reserve(&m->budget, &m->rows, 1) ||
        !vec_reserve(&m->budget, &m->row_series, 1) ||
        !idset_reserve(&m->budget, &m->row_index, m->rows.len + 1) || !refer_to_epoch(m, epoch))
        return NULL;
    uint32_t at = need_series(m, p->tenant, p->series);
    if (at == IDSET_NONE)
        return NULL;

    struct memtable_series *s = &m->series.data[at];
    row->older = s->newest;
    s->newest = row;
    s->n_rows++;
    widen(&s->min_start_ns, &s->max_start_ns, row->start_ns);
    widen(&m->min_start_ns, &m->max_start_ns, row->start_ns);
    m->rows.data[m->rows.len++] = row;
    m->row_series.data[m->row_series.len++] = at;
    (void)idset_add(&m->budget, &m->row_index, key_hash(&key), (uint32_t)m->rows.len - 1);
    m->n_samples += row->n_samples;
    if (seq > m->max_seq)
        m->max_seq = seq;
    return row;
}

static struct span_key span_key(uint32_t tenant, const struct store_span *span)
{
    uint64_t trace = hash_mix(hash_bytes(span->trace_id, 16), tenant);
    struct span_key key = {.trace_and_start = hash_mix(trace, (uint64_t)span->start_ns)};

    memcpy(&key.span_id, span->span_id, sizeof(key.span_id));
    return key;
}

static uint64_t span_hash(struct span_key key)
{
    return hash_mix(key.trace_and_start, key.span_id);
}

bool memtable_has_span(const struct memtable *m, uint32_t tenant, const struct store_span *span)
{
    struct span_key key = span_key(tenant, span);

    return IDSET_FIND(&m->span_index, span_hash(key), i,
                      m->span_keys.data[i].span_id == key.span_id &&
                          m->span_keys.data[i].trace_and_start == key.trace_and_start) !=
           IDSET_NONE;
}

bool memtable_add_spans(struct memtable *m, uint64_t seq, const struct record_spans *s,
                        const struct span_rows *rows)
{
    struct span_batch *batch = arena_new(&m->arena, struct span_batch, 1);
    uint8_t *bytes = arena_new(&m->arena, uint8_t, s->payload.len + PAYLOAD_PADDING);

    if (!batch || !bytes || !vec_reserve(&m->budget, &m->span_keys, rows->n) ||
        !idset_reserve(&m->budget, &m->span_index, m->span_keys.len + rows->n))
        return false;
    for (size_t i = 0; i < rows->n; i++) {
        struct span_key key = span_key(s->tenant, &rows->spans[i]);
        m->span_keys.data[m->span_keys.len++] = key;
        (void)idset_add(&m->budget, &m->span_index, span_hash(key), (uint32_t)m->span_keys.len - 1);
    }
    vec_copy_(bytes, s->payload.data, s->payload.len);
    *batch = (struct span_batch){
        .older = m->spans, .seq = seq, .tenant = s->tenant, .payload = {bytes, s->payload.len}};
    m->spans = batch;
    m->n_span_batches++;
    if (seq > m->max_seq)
        m->max_seq = seq;
    return true;
}
