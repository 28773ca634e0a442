#include "store_local/flush.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "segment/chunk_log.h"
#include "segment/file_name.h"
#include "store_local/commit.h"
#include "store_local/cover.h"
#include "store_local/epoch.h"
#include "store_local/epoch_names.h"
#include "store_local/memtable.h"
#include "store_local/part.h"
#include "store_local/series_table.h"
#include "store_local/spans.h"
#include "store_local/version.h"

/* A chunk of series definitions ends when it has this much. */
#define FLUSH_CHUNK_BYTES ((size_t)8 << 20)

/* A row and where it goes; sorted by all of it. */
struct placed {
    uint32_t tenant, series;
    int64_t window_ns, window_len_ns;
    const struct row *row;
};

/* One epoch whose dictionary grew. */
struct grown {
    struct epoch *epoch;
    struct dict view;
    struct epoch_mark from;
    struct epoch_entry entry;
};

struct flush {
    struct local *l;
    struct memtable *memtable;
    struct budget budget;
    VEC(struct grown) epochs;
    VEC(struct epoch_entry) epoch_entries;
    VEC(struct tenant_entry) tenants;
    VEC(struct series *) series; /* that were written */
    VEC(struct placed) rows;
    VEC(struct segment *) segments;
    uint64_t flushed_wal, tombstone_seq;
};

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "could not flush: no memory");
}

/* ---- What the dictionaries gained */

/* Of a damaged file less may have been read than the manifest names: nothing is added to it, and it
 * must not keep the rest from being flushed. */
static bool has_grown(const struct epoch *e)
{
    return e->dict && !e->is_damaged && e->is_defined_durable &&
           !epoch_mark_equal(&e->flushed, &e->durable);
}

/* Views of all that is durable and not in a file, also of epochs that the memtable has no rows of:
 * the WAL that defines their entries will go. With the lock held. */
static int collect_epochs(struct flush *f, struct error *err)
{
    struct local *l = f->l;

    for (size_t i = 0; i < l->epochs.len; i++) {
        struct epoch *e = l->epochs.data[i];
        if (!has_grown(e) && !(e->is_defined_durable && !version_epoch(l->version, e->id)))
            continue;
        if (!vec_reserve(&f->budget, &f->epochs, 1))
            return no_memory(err);
        int r = epoch_acquire(l, e, err);
        if (r < 0)
            return r;
        f->epochs.data[f->epochs.len++] = (struct grown){
            .epoch = e,
            .view = epoch_view(e),
            .from = e->flushed,
            .entry = {.id = e->id,
                      .file_len = e->file_len,
                      .tenant = e->tenant,
                      .service = e->service,
                      .created_ns = e->created_ns,
                      .mark = e->durable},
        };
    }
    return 0;
}

static int write_dict(struct flush *f, struct grown *g, struct error *err)
{
    CLEANUP(buf_done) struct buf delta = {0}, names = {0};

    if (epoch_mark_equal(&g->from, &g->entry.mark))
        return 0;
    epoch_encode(&g->view, &g->from, &g->entry.mark, &delta);
    if (g->from.functions < g->entry.mark.functions)
        epoch_encode_names(&g->view, g->from.functions, g->entry.mark.functions, &names);
    struct file_name name = file_name("dict", g->entry.id, "dict");
    return chunk_log_append_listed(&(struct chunk_log){f->l->fs, name.text, g->entry.id},
                                   g->entry.file_len, buf_bytes(&delta), buf_bytes(&names),
                                   &g->entry.file_len, err);
}

static int write_dicts(struct flush *f, struct error *err)
{
    for (size_t i = 0; i < f->epochs.len; i++) {
        struct grown *g = &f->epochs.data[i];
        int r = write_dict(f, g, err);
        if (r < 0)
            return error_prefix(err, r, "could not flush");
        if (!vec_push(&f->budget, &f->epoch_entries, g->entry))
            return no_memory(err);
    }
    return 0;
}

/* ---- Series */

/* The newest series that rows of the memtable may belong to; with the lock held. */
static uint32_t last_durable(const struct tenant *t)
{
    uint32_t id = series_table_len(t->series);
    while (id > 0 && !series_table_get(t->series, id)->is_durable)
        id--;
    return id;
}

/*
 * The next definitions of a tenant, up to `last`, that are not in its file; with the lock held. Ids
 * in the file are dense, so a series whose first append was refused, or still waits, is written as
 * well: a definition without rows does no harm.
 */
static int collect_series(struct flush *f, const struct tenant *t, uint32_t last, uint32_t *id,
                          struct buf *out, struct error *err)
{
    for (; *id <= last && out->len < FLUSH_CHUNK_BYTES; ++*id) {
        struct series *s = series_table_get(t->series, *id);
        if (s->is_flushed)
            continue;
        if (!vec_push(&f->budget, &f->series, s))
            return no_memory(err);
        series_encode(s, out);
    }
    return 0;
}

static int write_tenant(struct flush *f, struct tenant_entry *e, struct error *err)
{
    struct local *l = f->l;
    struct file_name name = file_name("series", e->id, "series");

    pthread_mutex_lock(&l->lock);
    uint32_t last = last_durable(local_tenant(l, e->id));
    pthread_mutex_unlock(&l->lock);
    for (uint32_t id = 1;;) {
        CLEANUP(buf_done) struct buf definitions = {0};
        pthread_mutex_lock(&l->lock);
        int r = collect_series(f, local_tenant(l, e->id), last, &id, &definitions, err);
        pthread_mutex_unlock(&l->lock);
        if (r < 0 || definitions.len == 0)
            return r;
        CLEANUP(buf_done) struct buf named = {0};
        if (e->series_file_len == 0) {
            series_encode_tenant(bytes_of(e->name), &named);
            buf_add_bytes(&named, buf_bytes(&definitions));
        }
        r = chunk_log_append(&(struct chunk_log){l->fs, name.text, e->id}, e->series_file_len,
                             buf_bytes(named.len > 0 ? &named : &definitions), &e->series_file_len,
                             err);
        if (r < 0)
            return error_prefix(err, r, "could not flush");
    }
}

/* All tenants: what else is known of one (its policy) may have changed too. */
static int collect_tenants(struct flush *f, struct error *err)
{
    struct local *l = f->l;

    for (size_t i = 0; i < l->tenants.len; i++) {
        const struct tenant *t = &l->tenants.data[i];
        struct tenant_entry e = {.id = t->id,
                                 .name = t->name,
                                 .series_file_len = t->series_file_len,
                                 .policy = t->policy,
                                 .floors = t->floors};
        if (t->is_durable && !vec_push(&f->budget, &f->tenants, e))
            return no_memory(err);
    }
    return 0;
}

static int write_series(struct flush *f, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < f->tenants.len && r == 0; i++)
        r = write_tenant(f, &f->tenants.data[i], err);
    return r;
}

/* ---- Rows */

#define COMPARE(a, b)                                                                              \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

static int by_place(const void *p, const void *q)
{
    const struct placed *a = p, *b = q;

    COMPARE(a->tenant, b->tenant);
    COMPARE(a->window_ns, b->window_ns);
    COMPARE(a->window_len_ns, b->window_len_ns);
    COMPARE(a->row->epoch->id, b->row->epoch->id);
    COMPARE(a->series, b->series);
    COMPARE(a->row->start_ns, b->row->start_ns);
    COMPARE(a->row->seq, b->row->seq);
    return 0;
}

/* With the lock held: who may see the types of a series. */
static int collect_rows(struct flush *f, struct error *err)
{
    const struct memtable *m = f->memtable;

    for (size_t i = 0; i < m->rows.len; i++) {
        const struct memtable_series *s = &m->series.data[m->row_series.data[i]];
        const struct row *row = m->rows.data[i];
        struct placed p = {.tenant = s->tenant,
                           .series = s->series,
                           .window_ns = cover_floor(row->start_ns, HOUR_NS),
                           .window_len_ns = HOUR_NS,
                           .row = row};
        if (!vec_push(&f->budget, &f->rows, p))
            return no_memory(err);
    }
    if (f->rows.len > 0)
        qsort(f->rows.data, f->rows.len, sizeof(struct placed), by_place);
    return 0;
}

/* Of a tenant's rows, [first, end): when they are of too many hours, the older ones go by days. */
static void widen_windows(struct placed *rows, size_t first, size_t end)
{
    size_t n_windows = 0, i = end;

    while (i > first && n_windows < FLUSH_WINDOWS_MAX) {
        int64_t window = rows[i - 1].window_ns;
        while (i > first && rows[i - 1].window_ns == window)
            i--;
        n_windows++;
    }
    if (i == first)
        return;
    /* Whole days, so that no two kinds of window overlap. */
    int64_t day = cover_ceil(rows[i - 1].window_ns + 1, DAY_NS);
    for (size_t j = first; j < end && rows[j].window_ns < day; j++) {
        rows[j].window_ns = cover_floor(rows[j].row->start_ns, DAY_NS);
        rows[j].window_len_ns = DAY_NS;
    }
}

static void place_rows(struct flush *f)
{
    struct placed *rows = f->rows.data;
    bool is_changed = false;

    for (size_t first = 0, end; first < f->rows.len; first = end) {
        for (end = first; end < f->rows.len && rows[end].tenant == rows[first].tenant;)
            end++;
        widen_windows(rows, first, end);
        is_changed |= rows[first].window_len_ns != HOUR_NS;
    }
    if (is_changed)
        qsort(rows, f->rows.len, sizeof(struct placed), by_place);
}

static uint32_t types_of(struct flush *f, const struct placed *p)
{
    struct local *l = f->l;

    pthread_mutex_lock(&l->lock);
    struct tenant *t = local_tenant(l, p->tenant);
    uint32_t n = t ? series_table_get(t->series, p->series)->n_types : 0;
    pthread_mutex_unlock(&l->lock);
    return n;
}

static int write_row(struct part_writer *w, const struct row *row, struct error *err)
{
    struct part_row out = {
        .start_ns = row->start_ns,
        .duration_ns = row->duration_ns,
        .period = row->period,
        .n_profiles = 1,
        .content_hash = row->content_hash,
        .has_id = row->has_id,
        .n_samples = row->n_samples,
        .totals = row->totals,
        .payload = row->payload,
        .side = row->side,
    };
    memcpy(out.id, row->id, sizeof(out.id));
    return part_writer_row(w, &out, err);
}

/* Rows [first, end) are one file. */
static int write_segment(struct flush *f, size_t first, size_t end, struct error *err)
{
    const struct placed *rows = f->rows.data;
    CLEANUP(part_writer_freep) struct part_writer *w = NULL;
    struct part_options options = {
        .tenant = rows[first].tenant,
        .window_start_ns = rows[first].window_ns,
        .window_len_ns = rows[first].window_len_ns,
        .tombstone_seq = f->tombstone_seq,
    };

    pthread_mutex_lock(&f->l->lock);
    options.id = local_new_id(f->l);
    pthread_mutex_unlock(&f->l->lock);
    if (!vec_reserve(&f->budget, &f->segments, 1))
        return no_memory(err);
    int r = part_writer_new(f->l, &options, &w, err);
    for (size_t i = first; i < end && r == 0; i++) {
        const struct placed *p = &rows[i];
        bool is_part = i == first || p->row->epoch != p[-1].row->epoch;
        if (is_part)
            r = part_writer_begin(w, p->row->epoch->id, err);
        if (r == 0 && (is_part || p->series != p[-1].series))
            r = part_writer_strip(w, p->series, LEVEL_RAW, types_of(f, p), err);
        if (r == 0)
            r = write_row(w, p->row, err);
    }
    if (r == 0)
        r = part_writer_finish(w, &f->segments.data[f->segments.len], err);
    if (r < 0)
        return error_prefix(err, r, "could not flush");
    f->segments.len++;
    return 0;
}

static int write_segments(struct flush *f, struct error *err)
{
    const struct placed *rows = f->rows.data;

    for (size_t first = 0, end; first < f->rows.len; first = end) {
        for (end = first; end < f->rows.len && rows[end].tenant == rows[first].tenant &&
                          rows[end].window_ns == rows[first].window_ns &&
                          rows[end].window_len_ns == rows[first].window_len_ns;)
            end++;
        int r = write_segment(f, first, end, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- All of it */

static void flush_done(struct flush *f)
{
    pthread_mutex_lock(&f->l->lock);
    bool is_in_doubt = f->l->is_dead; /* a manifest on disk may name what was not published */
    pthread_mutex_unlock(&f->l->lock);
    for (size_t i = 0; i < f->segments.len; i++) {
        if (!is_in_doubt)
            fs_unlink(f->l->fs, file_name("seg", f->segments.data[i]->id, "seg").text, NULL);
        segment_free(f->segments.data[i]);
    }
    pthread_mutex_lock(&f->l->lock);
    for (size_t i = 0; i < f->epochs.len; i++)
        epoch_release(f->l, f->epochs.data[i].epoch);
    pthread_mutex_unlock(&f->l->lock);
    vec_done(&f->budget, &f->epochs);
    vec_done(&f->budget, &f->epoch_entries);
    vec_done(&f->budget, &f->tenants);
    vec_done(&f->budget, &f->series);
    vec_done(&f->budget, &f->rows);
    vec_done(&f->budget, &f->segments);
}

/* Freezes the memtable, or takes the one that an earlier flush could not write. 0: there is none.
 */
static int flush_begin(struct flush *f, struct error *err)
{
    struct local *l = f->l;
    int r = 1;

    budget_init(&f->budget, SIZE_MAX / 2);
    pthread_mutex_lock(&l->lock);
    if (!l->frozen)
        r = local_rotate(l, err);
    if (r > 0) {
        f->memtable = l->frozen;
        f->flushed_wal = l->frozen_wal;
        f->tombstone_seq = l->version->tombstone_seq;
        r = collect_epochs(f, err);
        if (r == 0)
            r = collect_tenants(f, err);
        if (r == 0)
            r = collect_rows(f, err);
        r = r < 0 ? r : 1;
    }
    pthread_mutex_unlock(&l->lock);
    return r;
}

/* What is in files now; with the manifest written, before anybody else can flush. */
static void mark_flushed(struct flush *f)
{
    struct local *l = f->l;

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < f->epochs.len; i++) {
        struct grown *g = &f->epochs.data[i];
        g->epoch->flushed = g->entry.mark;
        g->epoch->file_len = g->entry.file_len;
    }
    for (size_t i = 0; i < f->series.len; i++)
        f->series.data[i]->is_flushed = true;
    for (size_t i = 0; i < f->tenants.len; i++) {
        struct tenant *t = local_tenant(l, f->tenants.data[i].id);
        t->is_flushed = true;
        t->series_file_len = f->tenants.data[i].series_file_len;
    }
    pthread_mutex_unlock(&l->lock);
}

static int flush_publish(struct flush *f, struct error *err)
{
    struct version_edit edit = {
        .add = f->segments.data,
        .n_add = f->segments.len,
        .epochs = f->epoch_entries.data,
        .n_epochs = f->epoch_entries.len,
        .tenants = f->tenants.data,
        .n_tenants = f->tenants.len,
        .flushed_wal = f->flushed_wal,
    };
    struct version *v;

    int r = version_prepare(f->l, &edit, &v, err);
    if (r < 0)
        return r;
    vec_clear(&f->segments); /* the version's now */
    mark_flushed(f);
    local_flushed(f->l, v);
    return 0;
}

static int add_segment(void *ctx, struct segment *s)
{
    struct flush *f = ctx;

    return vec_push(&f->budget, &f->segments, s) ? 0 : -ENOMEM;
}

static int write_spans(struct flush *f, struct error *err)
{
    struct spans_flush spans = {
        .memtable = f->memtable, .tombstone_seq = f->tombstone_seq, .add = add_segment, .ctx = f};

    return spans_flush(f->l, &spans, err);
}

int local_flush(struct local *l, struct error *err)
{
    CLEANUP(flush_done) struct flush f = {.l = l};

    int r = flush_begin(&f, err);
    if (r <= 0)
        return r;
    place_rows(&f);
    r = write_dicts(&f, err);
    if (r == 0)
        r = write_series(&f, err);
    if (r == 0)
        r = write_segments(&f, err);
    if (r == 0)
        r = write_spans(&f, err);
    if (r == 0)
        r = flush_publish(&f, err);
    return r < 0 ? r : 1;
}
