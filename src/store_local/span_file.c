#include "store_local/span_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "base/hash.h"
#include "segment/columns.h"
#include "segment/varint.h"
#include "store_local/part_internal.h"
#include "store_local/span_codec.h"

/*
 * THE LAYOUT OF A SEGMENT OF SPANS, seg/ID.seg, kind 2
 *
 * A block file (segment/block_file.c) of batches (span_codec.c), pages of the index of traces, and
 * the footer, which refers to them all. Numbers are varints, `z` zigzag; a ref is the 24 bytes of
 * block_ref_encode().
 *
 * FOOTER
 *     format (1), tenant, tier, z window_start, window_len
 *     n services: length and bytes of each
 *     n blocks: z (min start - max start of the block before; the first: itself), max - min,
 *         n spans, n services and their places in the list above, ref
 *     u8 1 when all traces are listed, else 0
 *     n pages: first fingerprint, n entries, ref
 *
 * PAGE of the index of traces: column of fingerprints, column of block numbers (segment/columns.h).
 * An entry says that a block has spans of a trace with this fingerprint (the low 32 bits of XXH3 of
 * the trace id). Entries ascend by fingerprint, then block, through all pages.
 */
#define SPAN_FILE_FORMAT 1

#define SPAN_BLOCK_SPANS      4096
#define SPAN_BLOCK_BYTES      ((size_t)4 << 20) /* of what its spans take in memory */
#define SPAN_PAGE_ENTRIES     2048
#define SPAN_ENTRIES_MAX      ((size_t)8 << 20)
#define SPAN_WRITER_BYTES_MAX ((size_t)256 << 20)

/* ---- Writing */

struct span_writer {
    struct local *l;
    struct span_file_options options;
    struct block_writer *file;
    struct budget budget;

    struct arena arena; /* of the block being filled */
    size_t arena_start; /* what else was charged when it was empty */
    VEC(struct store_span) spans;
    struct buf scratch;

    struct arena names;
    VEC(struct bytes) services;
    struct idset service_index;
    VEC(uint32_t) block_services;
    VEC(struct span_block) blocks;
    VEC(uint64_t) entries; /* fingerprint << 32 | block */
    bool has_too_many_entries;
    VEC(struct span_trace_page) pages;
    uint64_t n_spans;
};

int span_writer_new(struct local *l, const struct span_file_options *options,
                    struct span_writer **ret, struct error *err)
{
    CLEANUP(span_writer_freep) struct span_writer *w = calloc(1, sizeof(*w));

    if (!w)
        return error_set(err, -ENOMEM, "could not write a segment of spans: no memory");
    w->l = l;
    w->options = *options;
    if (w->options.max_entries == 0)
        w->options.max_entries = SPAN_ENTRIES_MAX;
    budget_init(&w->budget, SPAN_WRITER_BYTES_MAX);
    arena_init(&w->arena, &w->budget);
    arena_init(&w->names, &w->budget);
    int r = block_writer_new(l->fs, "seg", options->id, SEGMENT_SPANS, &w->file, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(w);
    return 0;
}

void span_writer_free(struct span_writer *w)
{
    if (!w)
        return;
    block_writer_free(w->file);
    arena_done(&w->arena);
    arena_done(&w->names);
    buf_done(&w->scratch);
    vec_done(&w->budget, &w->spans);
    vec_done(&w->budget, &w->services);
    idset_done(&w->budget, &w->service_index);
    vec_done(&w->budget, &w->block_services);
    vec_done(&w->budget, &w->blocks);
    vec_done(&w->budget, &w->entries);
    vec_done(&w->budget, &w->pages);
    free(w);
}

static int writer_error(struct span_writer *w, struct error *err)
{
    int r = budget_error(&w->budget, err);

    return error_prefix(err, r, "could not write a segment of spans");
}

static struct bytes copy_bytes(struct arena *a, struct bytes s)
{
    uint8_t *data = s.len ? arena_new(a, uint8_t, s.len) : NULL;

    if (!data)
        return (struct bytes){0};
    memcpy(data, s.data, s.len);
    return (struct bytes){data, s.len};
}

/* Names of the service in the file; new ones are added. */
static uint32_t need_service(struct span_writer *w, struct bytes name)
{
    uint64_t h = hash_bytes(name.data, name.len);
    uint32_t id = IDSET_FIND(&w->service_index, h, i, bytes_equal(w->services.data[i], name));

    if (id == IDSET_NONE && vec_push(&w->budget, &w->services, copy_bytes(&w->names, name))) {
        id = (uint32_t)(w->services.len - 1);
        idset_add(&w->budget, &w->service_index, h, id);
    }
    return id;
}

static void list_services(struct span_writer *w, struct span_block *b)
{
    b->first_service = (uint32_t)w->block_services.len;
    for (size_t i = 0; i < w->spans.len && !budget_failed(&w->budget); i++) {
        uint32_t id = need_service(w, w->spans.data[i].service), k = b->first_service;
        while (k < w->block_services.len && w->block_services.data[k] != id)
            k++;
        if (k == w->block_services.len)
            vec_push(&w->budget, &w->block_services, id);
    }
    b->n_services = (uint32_t)w->block_services.len - b->first_service;
}

static void list_traces(struct span_writer *w, const struct span_head *h)
{
    if (w->entries.len + h->n_traces > w->options.max_entries)
        w->has_too_many_entries = true;
    for (uint32_t i = 0; i < h->n_traces && !w->has_too_many_entries; i++) {
        uint64_t fingerprint = trace_fingerprint(h->traces + (size_t)i * 16);
        vec_push(&w->budget, &w->entries, fingerprint << 32 | w->blocks.len);
    }
}

static int end_block(struct span_writer *w, struct error *err)
{
    struct span_block b = {.n = (uint32_t)w->spans.len};
    struct span_head head = {0};

    if (b.n == 0)
        return 0;
    buf_clear(&w->scratch);
    int r = span_encode(w->spans.data, w->spans.len, &w->budget, &w->scratch, err);
    if (r == 0)
        r = span_head(buf_bytes(&w->scratch), &head);
    if (r == 0)
        r = block_writer_add(w->file, buf_bytes(&w->scratch), false, &b.ref, err);
    if (r < 0)
        return r;
    b.min_ns = head.min_ns;
    b.max_ns = head.max_ns;
    list_services(w, &b);
    list_traces(w, &head);
    vec_push(&w->budget, &w->blocks, b);
    w->n_spans += b.n;
    vec_clear(&w->spans);
    arena_done(&w->arena);
    return budget_failed(&w->budget) ? writer_error(w, err) : 0;
}

int span_writer_add(struct span_writer *w, const struct store_span *span, struct error *err)
{
    struct store_span copy = *span;
    struct label *labels = NULL;

    if (w->spans.len > 0 && span_compare(&vec_last(&w->spans), span) > 0)
        return error_set(err, -EINVAL, "could not write a segment of spans: they do not ascend");
    size_t before = w->budget.used;
    if (w->spans.len == 0)
        w->arena_start = before;
    copy.service = copy_bytes(&w->arena, span->service);
    copy.name = copy_bytes(&w->arena, span->name);
    if (span->n_attributes > 0)
        labels = arena_new(&w->arena, struct label, span->n_attributes);
    for (size_t i = 0; labels && i < span->n_attributes; i++) {
        labels[i].name = copy_bytes(&w->arena, span->attributes[i].name);
        labels[i].value = copy_bytes(&w->arena, span->attributes[i].value);
    }
    copy.attributes = labels;
    if (budget_failed(&w->budget) || !vec_push(&w->budget, &w->spans, copy))
        return writer_error(w, err);
    if (w->spans.len < SPAN_BLOCK_SPANS && w->budget.used - w->arena_start < SPAN_BLOCK_BYTES)
        return 0;
    return end_block(w, err);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int write_page(struct span_writer *w, const uint64_t *entries, uint32_t n, struct error *err)
{
    struct span_trace_page page = {.first = (uint32_t)(entries[0] >> 32), .n = n};
    uint64_t column[SPAN_PAGE_ENTRIES];

    buf_clear(&w->scratch);
    for (uint32_t i = 0; i < n; i++)
        column[i] = entries[i] >> 32;
    column_encode_u64(column, n, &w->scratch);
    for (uint32_t i = 0; i < n; i++)
        column[i] = (uint32_t)entries[i];
    column_encode_u64(column, n, &w->scratch);
    int r = block_writer_add(w->file, buf_bytes(&w->scratch), true, &page.ref, err);
    if (r < 0)
        return r;
    return vec_push(&w->budget, &w->pages, page) ? 0 : writer_error(w, err);
}

static int write_pages(struct span_writer *w, struct error *err)
{
    int r = 0;

    if (w->has_too_many_entries)
        return 0;
    qsort(w->entries.data, w->entries.len, sizeof(uint64_t), by_value);
    for (size_t at = 0, n; at < w->entries.len && r == 0; at += n) {
        n = w->entries.len - at < SPAN_PAGE_ENTRIES ? w->entries.len - at : SPAN_PAGE_ENTRIES;
        r = write_page(w, w->entries.data + at, (uint32_t)n, err);
    }
    return r;
}

static void put_ref(struct buf *out, struct block_ref ref)
{
    uint8_t bytes[BLOCK_REF_BYTES];

    block_ref_encode(ref, bytes);
    buf_add(out, bytes, sizeof(bytes));
}

static void encode_footer(const struct span_writer *w, struct buf *out)
{
    int64_t before = 0;

    add_varint(out, SPAN_FILE_FORMAT);
    add_varint(out, w->options.tenant);
    add_varint(out, w->options.tier);
    add_varint(out, zigzag(w->options.window_start_ns));
    add_varint(out, (uint64_t)w->options.window_len_ns);
    add_varint(out, w->services.len);
    for (size_t i = 0; i < w->services.len; i++) {
        add_varint(out, w->services.data[i].len);
        buf_add_bytes(out, w->services.data[i]);
    }
    add_varint(out, w->blocks.len);
    for (size_t i = 0; i < w->blocks.len; i++) {
        const struct span_block *b = &w->blocks.data[i];
        add_varint(out, zigzag(ns_between(before, b->min_ns)));
        add_varint(out, (uint64_t)ns_between(b->min_ns, b->max_ns));
        before = b->max_ns;
        add_varint(out, b->n);
        add_varint(out, b->n_services);
        for (uint32_t k = 0; k < b->n_services; k++)
            add_varint(out, w->block_services.data[b->first_service + k]);
        put_ref(out, b->ref);
    }
    buf_add_byte(out, !w->has_too_many_entries);
    add_varint(out, w->pages.len);
    for (size_t i = 0; i < w->pages.len; i++) {
        add_varint(out, w->pages.data[i].first);
        add_varint(out, w->pages.data[i].n);
        put_ref(out, w->pages.data[i].ref);
    }
}

int span_writer_finish(struct span_writer *w, struct segment **ret, struct error *err)
{
    uint64_t bytes;
    int r = end_block(w, err);

    if (r == 0 && w->blocks.len == 0)
        return error_set(err, -EINVAL, "could not write a segment of spans: there are none");
    if (r == 0)
        r = write_pages(w, err);
    CLEANUP(segment_freep) struct segment *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, -ENOMEM, "could not write a segment of spans: no memory");
    if (r < 0)
        return r;
    buf_clear(&w->scratch);
    encode_footer(w, &w->scratch);
    r = block_writer_finish(w->file, buf_bytes(&w->scratch), &bytes, err);
    if (r < 0)
        return r;
    s->id = w->options.id;
    s->kind = SEGMENT_SPANS;
    s->tenant = w->options.tenant;
    s->tier = w->options.tier;
    s->window_start_ns = w->options.window_start_ns;
    s->window_len_ns = w->options.window_len_ns;
    s->min_ns = w->blocks.data[0].min_ns;
    s->max_ns = vec_last(&w->blocks).max_ns;
    s->n_rows = w->n_spans;
    s->bytes = bytes;
    s->tombstone_seq = w->options.tombstone_seq;
    *ret = TAKE_PTR(s);
    return 0;
}

/* ---- Reading */

void span_file_close(struct span_file *f)
{
    if (!f)
        return;
    block_file_close(f->file);
    block_unref(f->footer);
    free(f->blocks);
    free(f->services);
    free(f->block_services);
    free(f->pages);
    free(f);
}
DEFINE_CLEANUP(struct span_file *, span_file_close)

/* Numbers of the footer; the first that is not there or too large fails all that follow. */
struct taker {
    struct bytes in;
    bool failed;
};

static uint64_t take(struct taker *t, uint64_t max)
{
    uint64_t v;

    if (t->failed || !take_varint(&t->in, &v) || v > max) {
        t->failed = true;
        return 0;
    }
    return v;
}

static struct bytes take_run(struct taker *t, uint64_t n)
{
    struct bytes s = {0};

    if (t->failed || !take_bytes(&t->in, n, &s))
        t->failed = true;
    return s;
}

static struct block_ref take_ref(struct taker *t)
{
    struct bytes s = take_run(t, BLOCK_REF_BYTES);

    return t->failed ? (struct block_ref){0} : block_ref_decode(s.data);
}

static void take_services(struct taker *t, struct span_file *f)
{
    f->n_services = (uint32_t)take(t, t->in.len);
    f->services = calloc((size_t)f->n_services + 1, sizeof(*f->services));
    for (uint32_t i = 0; f->services && i < f->n_services && !t->failed; i++)
        f->services[i] = take_run(t, take(t, UINT32_MAX));
}

static void take_block(struct taker *t, struct span_file *f, struct span_block *b, int64_t before,
                       uint32_t *n_listed)
{
    b->min_ns = ns_after(before, unzigzag(take(t, UINT64_MAX)));
    b->max_ns = ns_after(b->min_ns, (int64_t)take(t, INT64_MAX));
    b->n = (uint32_t)take(t, SPAN_BATCH_MAX);
    b->first_service = *n_listed;
    b->n_services = (uint32_t)take(t, f->n_services);
    for (uint32_t k = 0; k < b->n_services && !t->failed; k++)
        f->block_services[(*n_listed)++] = (uint32_t)take(t, f->n_services - 1);
    b->ref = take_ref(t);
    t->failed |= b->n == 0 || b->max_ns < b->min_ns;
}

/* Every block takes more than 24 bytes of the footer, every place in a list at least one. */
static void take_blocks(struct taker *t, struct span_file *f)
{
    uint32_t n_listed = 0;

    f->n_blocks = (uint32_t)take(t, t->in.len / BLOCK_REF_BYTES);
    f->blocks = calloc((size_t)f->n_blocks + 1, sizeof(*f->blocks));
    f->block_services = calloc(t->in.len + 1, sizeof(*f->block_services));
    for (uint32_t i = 0; f->blocks && f->block_services && i < f->n_blocks && !t->failed; i++) {
        int64_t before = i ? f->blocks[i - 1].max_ns : 0;
        take_block(t, f, &f->blocks[i], before, &n_listed);
        t->failed |= i > 0 && f->blocks[i].min_ns < before;
    }
}

static void take_pages(struct taker *t, struct span_file *f)
{
    struct bytes mode = take_run(t, 1);

    f->has_all_traces = !t->failed && mode.data[0] == 1;
    f->n_pages = (uint32_t)take(t, t->in.len / BLOCK_REF_BYTES);
    f->pages = calloc((size_t)f->n_pages + 1, sizeof(*f->pages));
    for (uint32_t i = 0; f->pages && i < f->n_pages && !t->failed; i++) {
        struct span_trace_page *p = &f->pages[i];
        p->first = (uint32_t)take(t, UINT32_MAX);
        p->n = (uint32_t)take(t, SPAN_PAGE_ENTRIES);
        p->ref = take_ref(t);
        t->failed |= i > 0 && p->first < p[-1].first;
    }
}

static int read_footer(struct span_file *f, struct error *err)
{
    struct taker t = {.in = block_bytes(f->footer)};
    uint64_t format = take(&t, UINT64_MAX);

    if (!t.failed && format > SPAN_FILE_FORMAT)
        return error_set(err, -EPROTONOSUPPORT, "it has format %" PRIu64 ", known is up to %d",
                         format, SPAN_FILE_FORMAT);
    f->tenant = (uint32_t)take(&t, UINT32_MAX);
    f->tier = (uint8_t)take(&t, UINT8_MAX);
    f->window_start_ns = unzigzag(take(&t, UINT64_MAX));
    f->window_len_ns = (int64_t)take(&t, INT64_MAX);
    take_services(&t, f);
    take_blocks(&t, f);
    take_pages(&t, f);
    if (!f->services || !f->blocks || !f->block_services || !f->pages)
        return error_set(err, -ENOMEM, "no memory");
    if (t.failed || t.in.len > 0)
        return error_set(err, -EBADMSG, "its footer is malformed");
    return 0;
}

static int open_file(struct local *l, uint64_t id, struct span_file **ret, struct error *err)
{
    CLEANUP(span_file_closep) struct span_file *f = calloc(1, sizeof(*f));

    if (!f)
        return error_set(err, -ENOMEM, "no memory");
    int r = block_file_open(l->fs, "seg", id, SEGMENT_SPANS, &f->file, err);
    if (r < 0)
        return r;
    r = block_file_read(f->file, block_file_footer(f->file), NULL, &f->footer, err);
    if (r == 0)
        r = read_footer(f, err);
    if (r < 0)
        return error_prefix(err, r, "segment %" PRIu64, id);
    *ret = TAKE_PTR(f);
    return 0;
}

int span_file_describe(struct local *l, uint64_t id, struct segment **ret, struct error *err)
{
    CLEANUP(span_file_closep) struct span_file *f = NULL;

    int r = open_file(l, id, &f, err);
    if (r < 0)
        return r;
    struct segment *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, -ENOMEM, "segment %" PRIu64 ": no memory", id);
    s->id = id;
    s->kind = SEGMENT_SPANS;
    s->tenant = f->tenant;
    s->tier = f->tier;
    s->window_start_ns = f->window_start_ns;
    s->window_len_ns = f->window_len_ns;
    s->bytes = block_file_bytes(f->file);
    for (uint32_t i = 0; i < f->n_blocks; i++) /* in the order of time */
        s->n_rows += f->blocks[i].n;
    if (f->n_blocks > 0) {
        s->min_ns = f->blocks[0].min_ns;
        s->max_ns = f->blocks[f->n_blocks - 1].max_ns;
    }
    *ret = s;
    return 0;
}

int span_file_get(struct local *l, struct segment *s, struct span_file **ret, struct error *err)
{
    struct span_file *f = atomic_load_explicit(&s->spans, memory_order_acquire), *none = NULL;

    if (!f) {
        int r = open_file(l, s->id, &f, err);
        if (r == 0 && f->tenant != s->tenant) {
            r = error_set(err, -EBADMSG,
                          "segment %" PRIu64 ": it belongs to tenant %" PRIu32 ", not %" PRIu32,
                          s->id, f->tenant, s->tenant);
            span_file_close(f);
        }
        if (r < 0) {
            if (r == -EBADMSG || r == -ENOENT || r == -EPROTONOSUPPORT)
                atomic_store(&s->is_bad, true);
            return r;
        }
        if (!atomic_compare_exchange_strong(&s->spans, &none, f)) {
            span_file_close(f);
            f = none;
        }
    }
    *ret = f;
    return 0;
}

bool span_block_has_service(const struct span_file *f, const struct span_block *b,
                            struct bytes service)
{
    for (uint32_t i = 0; i < b->n_services; i++) {
        if (bytes_equal(f->services[f->block_services[b->first_service + i]], service))
            return true;
    }
    return false;
}

/* The entries of a page: fingerprints, then blocks. */
static int read_page(struct local *l, const struct span_file *f, const struct span_trace_page *p,
                     uint64_t *fingerprints, uint64_t *blocks, struct error *err)
{
    CLEANUP(block_unrefp) struct block *block = NULL;
    int r = block_file_read(f->file, p->ref, l->cache, &block, err);

    if (r < 0)
        return r;
    struct bytes in = block_bytes(block);
    if (column_decode_u64(&in, p->n, fingerprints) < 0 ||
        column_decode_u64(&in, p->n, blocks) < 0 || in.len > 0)
        return error_set(err, -EBADMSG, "segment %" PRIu64 ": a page of traces is malformed",
                         block_file_id(f->file));
    for (uint32_t i = 0; i < p->n; i++) {
        if (blocks[i] >= f->n_blocks)
            return error_set(err, -EBADMSG, "segment %" PRIu64 ": a page of traces is malformed",
                             block_file_id(f->file));
    }
    return 0;
}

int span_file_trace(struct local *l, const struct span_file *f, const uint8_t trace_id[16],
                    int (*each)(void *arg, uint32_t block), void *arg, struct error *err)
{
    uint64_t fingerprints[SPAN_PAGE_ENTRIES], blocks[SPAN_PAGE_ENTRIES];
    uint32_t wanted = trace_fingerprint(trace_id);
    int r = 0;

    for (uint32_t i = 0; !f->has_all_traces && i < f->n_blocks && r == 0; i++)
        r = each(arg, i);
    /* Its entries may begin in the page before the first that begins with it. */
    size_t at = BISECT(f->n_pages, i, f->pages[i].first < wanted);
    for (size_t i = at ? at - 1 : 0; i < f->n_pages && f->pages[i].first <= wanted; i++) {
        r = read_page(l, f, &f->pages[i], fingerprints, blocks, err);
        for (uint32_t k = 0; k < f->pages[i].n && r == 0; k++) {
            if (fingerprints[k] == wanted)
                r = each(arg, (uint32_t)blocks[k]);
        }
        if (r != 0)
            return r;
    }
    return r;
}

/* ---- Checking */

struct checked {
    store_report_fn report;
    void *ctx;
    uint64_t id;
    bool is_sound;
};

static void complain(struct checked *c, const char *what)
{
    struct error text;

    error_set(&text, 0, "segment %" PRIu64 ": %s", c->id, what);
    c->report(c->ctx, true, text.text);
    c->is_sound = false;
}

static void check_block(struct local *l, const struct span_file *f, const struct span_block *b,
                        struct checked *c)
{
    CLEANUP(block_unrefp) struct block *block = NULL;
    struct budget budget;
    CLEANUP(arena_done) struct arena arena;
    struct span_rows rows = {0};
    struct error err = {0};

    (void)l;
    budget_init(&budget, SIZE_MAX / 2);
    arena_init(&arena, &budget);
    int r = block_file_read(f->file, b->ref, NULL, &block, &err);
    if (r == 0)
        r = span_decode(block_bytes(block), &arena, &rows, &err);
    if (r < 0)
        complain(c, err.text);
    else if (rows.n != b->n || rows.spans[0].start_ns != b->min_ns ||
             rows.spans[rows.n - 1].start_ns != b->max_ns)
        complain(c, "a block of spans is not what the footer says");
}

bool span_file_verify(struct local *l, struct segment *s, store_report_fn report, void *ctx)
{
    struct checked c = {report, ctx, s->id, true};
    uint64_t fingerprints[SPAN_PAGE_ENTRIES], blocks[SPAN_PAGE_ENTRIES], n = 0;
    struct span_file *f;
    struct error err = {0};

    if (span_file_get(l, s, &f, &err) < 0 || block_file_check_all(f->file, &err) < 0) {
        complain(&c, err.text);
        return false;
    }
    for (uint32_t i = 0; i < f->n_blocks; i++) {
        check_block(l, f, &f->blocks[i], &c);
        n += f->blocks[i].n;
    }
    for (uint32_t i = 0; i < f->n_pages; i++) {
        if (read_page(l, f, &f->pages[i], fingerprints, blocks, &err) < 0)
            complain(&c, err.text);
    }
    if (n != s->n_rows)
        complain(&c, "it does not have as many spans as the manifest says");
    return c.is_sound;
}
