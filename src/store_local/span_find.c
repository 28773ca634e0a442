#include <errno.h>
#include <inttypes.h>

#include "store_local/link.h"
#include "store_local/retention.h"
#include "store_local/span_merge.h"
#include "store_local/spans.h"
#include "store_local/version.h"

/* Whether somebody still wants the answer is looked at once in so many spans. */
#define SPANS_PER_LOOK 256

/* What is there to be searched, held while it is. */
struct searched {
    struct local *l;
    uint32_t tenant;
    struct version *version;
    struct memtable *tables[2];
    const struct span_batch *newest[2];
    int64_t from_ns;
};

static void searched_done(struct searched *s)
{
    pthread_mutex_lock(&s->l->lock);
    memtable_unref(s->tables[0]);
    memtable_unref(s->tables[1]);
    pthread_mutex_unlock(&s->l->lock);
    version_release(s->l, s->version);
}

/* False when there is no such tenant. */
static bool searched_init(struct searched *s, struct local *l, const struct store_span_find *find)
{
    *s = (struct searched){.l = l, .from_ns = find->from_ns};
    pthread_mutex_lock(&l->lock);
    const struct tenant *t = local_find_tenant(l, find->tenant);
    if (t) {
        struct memtable *tables[] = {l->head, l->frozen};
        int64_t oldest = retention_span_cutoff_ns(l, t);
        s->tenant = t->id;
        s->version = version_ref(l->version);
        for (size_t i = 0; i < 2; i++) {
            s->tables[i] = tables[i] ? memtable_ref(tables[i]) : NULL;
            s->newest[i] = tables[i] ? tables[i]->spans : NULL;
        }
        if (oldest > s->from_ns)
            s->from_ns = oldest;
    }
    pthread_mutex_unlock(&l->lock);
    return t != NULL;
}

static bool add_memory(const struct searched *s, struct span_merge *m)
{
    for (size_t i = 0; i < 2; i++) {
        for (const struct span_batch *b = s->newest[i]; b; b = b->older) {
            if (b->tenant == s->tenant && !span_merge_add_bytes(m, b->payload))
                return false;
        }
    }
    return true;
}

struct adding {
    struct span_merge *merge;
    const struct store_span_find *find;
    struct segment *segment;
    struct span_file *file;
    bool by_trace; /* only blocks that the index of traces names */
};

static int add_block(void *arg, uint32_t block)
{
    struct adding *a = arg;
    const struct span_block *b = &a->file->blocks[block];

    if (a->find->service.len > 0 && !span_block_has_service(a->file, b, a->find->service))
        return 0;
    return span_merge_add_block(a->merge, a->segment, a->file, b) ? 0 : -ENOMEM;
}

static int add_blocks(struct adding *a, struct error *err)
{
    int r = 0;

    if (a->by_trace)
        return span_file_trace(a->merge->l, a->file, a->find->trace_id, add_block, a, err);
    for (uint32_t i = 0; i < a->file->n_blocks && r == 0; i++)
        r = add_block(a, i);
    return r;
}

/* A file that cannot be read costs its spans; where only its index of traces is bad, all blocks
 * are looked at. */
static int add_segment(struct local *l, struct adding *a, struct error *err)
{
    bool was_bad = atomic_load(&a->segment->is_bad);
    struct error why = {0};

    int r = span_file_get(l, a->segment, &a->file, &why);
    if (r < 0) {
        if (!was_bad && r != -ENOMEM)
            local_log(l, "%s; its spans are left out", why.text);
        a->merge->is_incomplete = true;
        a->merge->trouble = why;
        return r == -ENOMEM ? error_set(err, r, "%s", why.text) : 0;
    }
    r = add_blocks(a, &why);
    if (r == -EBADMSG || r == -EIO) {
        local_log(l, "%s; all blocks are searched", why.text);
        a->by_trace = false;
        r = add_blocks(a, &why);
    }
    return r < 0 ? error_set(err, r, "could not search spans: no memory") : 0;
}

static int add_segments(struct searched *s, const struct store_span_find *find,
                        struct span_merge *m, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < s->version->segments.len && r == 0; i++) {
        struct segment *segment = s->version->segments.data[i];
        struct adding a = {
            .merge = m, .find = find, .segment = segment, .by_trace = find->has_trace};
        if (segment->kind == SEGMENT_SPANS && segment->tenant == s->tenant &&
            segment->max_ns >= m->from_ns && segment->min_ns < m->to_ns)
            r = add_segment(s->l, &a, err);
    }
    return r;
}

static bool is_wanted(const struct store_span_find *f, const struct store_span *s)
{
    return (f->service.len == 0 || bytes_equal(f->service, s->service)) &&
           (f->name.len == 0 || bytes_equal(f->name, s->name)) &&
           s->duration_ns >= f->min_duration_ns &&
           (!f->has_trace || memcmp(f->trace_id, s->trace_id, sizeof(s->trace_id)) == 0) &&
           (!f->has_span || memcmp(f->span_id, s->span_id, sizeof(s->span_id)) == 0);
}

static int give(const struct store_span_find *find, struct span_merge *m, store_span_fn sink,
                void *ctx, struct error *err)
{
    const struct store_span *span;
    size_t n_given = 0;
    int r;

    for (uint64_t n = 0; (r = span_merge_next(m, &span, err)) > 0; n++) {
        if (n % SPANS_PER_LOOK == 0 && find->cancelled && atomic_load(find->cancelled))
            return error_set(err, -ECANCELED, "the search for spans was cancelled");
        if (!is_wanted(find, span))
            continue;
        r = sink(ctx, span);
        if (r != 0)
            return r;
        if (++n_given == find->limit)
            return 0;
    }
    return r;
}

int local_spans(struct store *store, const struct store_span_find *find, store_span_fn sink,
                void *ctx, struct error *err)
{
    struct local *l = local_of(store);
    struct searched s;
    struct span_merge m;
    struct budget budget;
    int r = 0;

    if (!searched_init(&s, l, find))
        return 0;
    budget_init(&budget, l->options.query_memory_limit);
    span_merge_init(&m, l, &budget, s.from_ns, find->to_ns);
    m.trace_id = find->has_trace ? find->trace_id : NULL;
    if (!add_memory(&s, &m))
        r = error_set(err, -ENOMEM, "could not search spans: no memory");
    if (r == 0)
        r = add_segments(&s, find, &m, err);
    if (r == 0)
        r = give(find, &m, sink, ctx, err);
    if (r == 0 && m.is_incomplete)
        r = error_set(err, -EBADMSG, "%s", m.trouble.text);
    span_merge_done(&m);
    searched_done(&s);
    return r;
}
