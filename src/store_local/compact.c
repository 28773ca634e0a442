#include "store_local/compact.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "segment/file_name.h"
#include "store_local/epoch.h"
#include "store_local/part.h"
#include "store_local/rollup.h"
#include "store_local/row_stream.h"
#include "store_local/series_table.h"
#include "store_local/tombstone.h"
#include "store_local/version.h"

/* One input, with the part of the epoch that is being merged. */
struct input {
    struct segment *segment;
    struct segment_file *file;
    struct part part;
    bool has_part;
};

/* A series of the output: with rows of its own, or a group of such. */
struct merged_series {
    uint32_t id;
    const struct series *series;
    uint64_t n_samples;
    uint32_t n_members; /* of a group: how many series of this part are in it */
};

struct compaction {
    struct local *l;
    const struct compact_job *job;
    struct budget budget;
    struct input *inputs;
    size_t n_inputs;
    struct hidden *hidden;
    struct part_writer *writer;
    uint64_t tombstone_seq;

    struct series *const *series; /* of the tenant, by id - 1 */
    uint32_t n_series;

    VEC(uint64_t) epochs;
    VEC(struct merged_series) merged; /* of the part, by id */
    VEC(struct row_stream) streams;

    struct epoch *epoch; /* acquired, or NULL: no rollups */
    struct dict dict;
    uint32_t *projection;
};

static int no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "could not merge segments: no memory");
}

static void close_streams(struct compaction *c)
{
    for (size_t i = 0; i < c->streams.len; i++)
        row_stream_done(&c->streams.data[i]);
    vec_clear(&c->streams);
}

static void close_part(struct compaction *c)
{
    close_streams(c);
    for (size_t i = 0; i < c->n_inputs; i++) {
        part_done(&c->inputs[i].part);
        c->inputs[i].has_part = false;
    }
    if (c->epoch) {
        pthread_mutex_lock(&c->l->lock);
        epoch_release(c->l, c->epoch);
        pthread_mutex_unlock(&c->l->lock);
        c->epoch = NULL;
    }
    free(c->projection);
    c->projection = NULL;
    vec_clear(&c->merged);
}

static void compaction_done(struct compaction *c)
{
    close_part(c);
    free(c->inputs);
    hidden_free(c->hidden);
    part_writer_free(c->writer);
    vec_done(&c->budget, &c->epochs);
    vec_done(&c->budget, &c->merged);
    vec_done(&c->budget, &c->streams);
}

/* Remembers which input is to blame, so that later jobs do without it. */
static int blame(struct compaction *c, struct segment *s, int r, struct error *err)
{
    if (r != -EBADMSG && r != -ENOENT && r != -EPROTONOSUPPORT)
        return r;
    pthread_mutex_lock(&c->l->lock);
    s->is_damaged = true;
    pthread_mutex_unlock(&c->l->lock);
    error_prefix(err, r, "segment %" PRIu64 " cannot be merged", s->id);
    local_log(c->l, "%s", err ? err->text : "a segment cannot be merged");
    return -EBADMSG;
}

static bool is_closing(struct local *l)
{
    pthread_mutex_lock(&l->lock);
    bool closing = l->is_closing || l->is_dead;
    pthread_mutex_unlock(&l->lock);
    return closing;
}

/* ---- What there is to merge */

static int open_inputs(struct compaction *c, struct error *err)
{
    c->inputs = calloc(c->job->inputs.len + 1, sizeof(*c->inputs));
    if (!c->inputs)
        return no_memory(err);
    for (; c->n_inputs < c->job->inputs.len; c->n_inputs++) {
        struct input *in = &c->inputs[c->n_inputs];
        in->segment = c->job->inputs.data[c->n_inputs];
        int r = segment_file_get(c->l, in->segment, &in->file, err);
        if (r < 0)
            return blame(c, in->segment, r, err);
        for (uint32_t i = 0; i < in->file->n_parts; i++) {
            if (!vec_push(&c->budget, &c->epochs, in->file->parts[i].epoch))
                return no_memory(err);
        }
    }
    return 0;
}

static int by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void sort_epochs(struct compaction *c)
{
    size_t n = 0;

    if (c->epochs.len > 0)
        qsort(c->epochs.data, c->epochs.len, sizeof(uint64_t), by_u64);
    for (size_t i = 0; i < c->epochs.len; i++) {
        if (n == 0 || c->epochs.data[n - 1] != c->epochs.data[i])
            c->epochs.data[n++] = c->epochs.data[i];
    }
    c->epochs.len = n;
}

static int open_parts(struct compaction *c, uint64_t epoch, struct error *err)
{
    for (size_t i = 0; i < c->n_inputs; i++) {
        struct input *in = &c->inputs[i];
        const struct part_entry *parts = in->file->parts;
        uint32_t at = (uint32_t)BISECT(in->file->n_parts, j, parts[j].epoch < epoch);
        if (at == in->file->n_parts || parts[at].epoch != epoch)
            continue;
        int r = part_open(c->l, in->file, at, &in->part, err);
        if (r < 0)
            return blame(c, in->segment, r, err);
        in->has_part = true;
    }
    return 0;
}

static const struct series *series_of(const struct compaction *c, uint32_t id)
{
    return id >= 1 && id <= c->n_series ? c->series[id - 1] : NULL;
}

static struct merged_series *find_merged(struct compaction *c, uint32_t id)
{
    struct merged_series *m = c->merged.data;
    size_t at = BISECT(c->merged.len, i, m[i].id < id);

    return at < c->merged.len && m[at].id == id ? &m[at] : NULL;
}

static int add_merged(struct compaction *c, uint32_t id, struct error *err)
{
    struct merged_series m = {.id = id, .series = series_of(c, id)};
    size_t at = BISECT(c->merged.len, i, c->merged.data[i].id < id);

    if (at < c->merged.len && c->merged.data[at].id == id)
        return 0;
    if (!vec_reserve(&c->budget, &c->merged, 1))
        return no_memory(err);
    memmove(&c->merged.data[at + 1], &c->merged.data[at], (c->merged.len - at) * sizeof(m));
    c->merged.data[at] = m;
    c->merged.len++;
    return 0;
}

static int list_series(struct compaction *c, struct error *err)
{
    for (size_t i = 0; i < c->n_inputs; i++) {
        const struct part *p = &c->inputs[i].part;
        for (uint32_t j = 0; c->inputs[i].has_part && j < p->n_strips; j++) {
            if (p->strips[j].level != LEVEL_RAW)
                continue;
            int r = add_merged(c, p->strips[j].series, err);
            if (r < 0)
                return r;
            find_merged(c, p->strips[j].series)->n_samples += p->strips[j].n_samples;
        }
    }
    return 0;
}

/* Groups of which two or more series are here: the sum of one alone is that one. */
static int list_groups(struct compaction *c, struct error *err)
{
    size_t n = c->merged.len;
    VEC(uint32_t) groups = {0};
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        const struct series *s = c->merged.data[i].series;
        if (s && s->group && !vec_push(&c->budget, &groups, s->group))
            r = no_memory(err);
    }
    for (size_t i = 0; i < groups.len && r == 0; i++) {
        size_t members = 0;
        struct merged_series *m = find_merged(c, groups.data[i]);
        for (size_t j = 0; !m && members < 2 && j < groups.len; j++)
            members += groups.data[j] == groups.data[i];
        if (!m && members >= 2)
            r = add_merged(c, groups.data[i], err);
        m = find_merged(c, groups.data[i]);
        if (m)
            m->n_members++;
    }
    vec_done(&c->budget, &groups);
    for (size_t i = 0; i < c->merged.len && r == 0; i++) {
        const struct series *s = c->merged.data[i].series;
        struct merged_series *group = s && s->group ? find_merged(c, s->group) : NULL;
        if (group)
            group->n_samples += c->merged.data[i].n_samples;
    }
    return r;
}

/* ---- Rows */

/* Opens the strips of raw rows of one series in all inputs, after those that are open. */
static int open_streams(struct compaction *c, const struct merged_series *m, unsigned columns,
                        struct error *err)
{
    for (size_t i = 0; i < c->n_inputs; i++) {
        struct input *in = &c->inputs[i];
        const struct strip *s = in->has_part ? part_strip(&in->part, m->id, LEVEL_RAW) : NULL;
        if (!s)
            continue;
        if (m->series && s->n_types != m->series->n_types)
            return blame(c, in->segment,
                         error_set(err, -EBADMSG, "series %" PRIu32 " has %u types, not %" PRIu32,
                                   m->id, s->n_types, m->series->n_types),
                         err);
        struct row_stream_from from = {
            .l = c->l, .segment = in->segment, .part = &in->part, .strip = s, .columns = columns};
        if (m->series)
            from.n_hidden =
                hidden_ranges(c->hidden, m->series, in->segment->tombstone_seq, &from.hidden);
        if (!vec_reserve(&c->budget, &c->streams, 1))
            return no_memory(err);
        int r = row_stream_init(&c->streams.data[c->streams.len++], &from, err);
        if (r < 0)
            return blame(c, in->segment, r, err);
    }
    return 0;
}

/* Copies the rows of a series, the streams merged by start. */
static int copy_rows(struct compaction *c, const struct merged_series *m, struct error *err)
{
    struct row_stream *s;
    struct part_row row;

    int r = open_streams(c, m, ROWS_ALL, err);
    if (r == 0)
        r = part_writer_strip(c->writer, m->id, LEVEL_RAW,
                              c->streams.len ? c->streams.data[0].strip->n_types : 0, err);
    while (r == 0 && (s = row_streams_first(c->streams.data, c->streams.len)) != NULL) {
        r = row_stream_next(s, &row, err);
        if (r < 0)
            return blame(c, s->segment, r, err);
        r = part_writer_row(c->writer, &row, err);
    }
    return r;
}

static int roll_up(struct compaction *c, const struct merged_series *m, bool has_functions,
                   struct error *err)
{
    size_t bad = SIZE_MAX;
    struct rollup_ask ask = {
        .dict = &c->dict,
        .projection = c->projection,
        .streams = c->streams.data,
        .n_streams = c->streams.len,
        .series = m->id,
        .n_types = c->streams.len ? c->streams.data[0].strip->n_types : 0,
        .raw_samples = m->n_samples,
        .has_days = c->job->tier >= 2,
        .has_functions = has_functions,
    };

    int r = rollup_write(&ask, c->writer, &bad, err);
    return r < 0 && bad < c->streams.len ? blame(c, c->streams.data[bad].segment, r, err) : r;
}

/* A series with rows: they are copied, then added up. */
static int merge_series(struct compaction *c, const struct merged_series *m, struct error *err)
{
    const struct series *s = m->series;
    bool has_group = s && s->group && find_merged(c, s->group);

    int r = copy_rows(c, m, err);
    for (size_t i = 0; c->epoch && i < c->streams.len && r == 0; i++) {
        r = row_stream_rewind(&c->streams.data[i], ROWS_TOTALS | ROWS_WINDOW, err);
        if (r < 0)
            r = blame(c, c->streams.data[i].segment, r, err);
    }
    if (r == 0 && c->epoch && s)
        r = roll_up(c, m, !has_group, err);
    close_streams(c);
    return r;
}

static int merge_group(struct compaction *c, const struct merged_series *group, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < c->merged.len && r == 0; i++) {
        const struct merged_series *m = &c->merged.data[i];
        if (m->series && m->series->group == group->id)
            r = open_streams(c, m, ROWS_TOTALS | ROWS_WINDOW, err);
    }
    if (r == 0)
        r = roll_up(c, group, true, err);
    close_streams(c);
    return r;
}

/* ---- Parts */

/* The dictionary, for rollups; where it cannot be had there are none. */
static void acquire_epoch(struct compaction *c, uint64_t id)
{
    struct local *l = c->l;
    struct error err = {{0}};

    pthread_mutex_lock(&l->lock);
    struct epoch *e = local_epoch(l, id);
    int r = e ? epoch_acquire(l, e, &err) : -ENOENT;
    if (r == 0) {
        c->epoch = e;
        c->dict = epoch_view(e);
    }
    pthread_mutex_unlock(&l->lock);
    if (r < 0) {
        local_log(l, "no rollups for epoch %" PRIu64 ": %s", id,
                  r == -ENOENT ? "it is not known" : err.text);
        return;
    }
    c->projection = rollup_projection(&c->dict);
    if (!c->projection) {
        pthread_mutex_lock(&l->lock);
        epoch_release(l, c->epoch);
        pthread_mutex_unlock(&l->lock);
        c->epoch = NULL;
    }
}

static int merge_part(struct compaction *c, uint64_t epoch, struct error *err)
{
    int r = open_parts(c, epoch, err);

    if (r == 0)
        r = list_series(c, err);
    if (r == 0 && c->job->tier > 0) {
        acquire_epoch(c, epoch);
        r = list_groups(c, err);
    }
    if (r == 0)
        r = part_writer_begin(c->writer, epoch, err);
    for (size_t i = 0; i < c->merged.len && r == 0; i++) {
        const struct merged_series *m = &c->merged.data[i];
        if (is_closing(c->l))
            r = error_set(err, -ECANCELED, "merging segments was stopped: the store is closing");
        else if (m->n_members > 0)
            r = c->epoch ? merge_group(c, m, err) : 0;
        else
            r = merge_series(c, m, err);
    }
    close_part(c);
    return r;
}

/* ---- All of it */

/* Enough for the output and what must stay free. */
static int check_space(struct compaction *c, struct error *err)
{
    struct local *l = c->l;
    uint64_t needed = 0, free_bytes, total;

    for (size_t i = 0; i < c->job->inputs.len; i++)
        needed += c->job->inputs.data[i]->bytes;
    needed += needed / 4 + ((uint64_t)1 << 20);
    int r = fs_space(l->fs, &free_bytes, &total, err);
    if (r < 0)
        return r;
    if (free_bytes < needed)
        return error_set(err, -ENOSPC,
                         "could not merge segments: %" PRIu64 " bytes are free, %" PRIu64
                         " may be needed",
                         free_bytes, needed);
    return 0;
}

static int begin(struct compaction *c, struct error *err)
{
    struct local *l = c->l;
    const struct compact_job *job = c->job;
    struct part_options options = {
        .tenant = job->tenant,
        .tier = job->tier,
        .window_start_ns = job->window_start_ns,
        .window_len_ns = job->window_len_ns,
    };

    budget_init(&c->budget, SIZE_MAX / 2);
    int r = check_space(c, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&l->lock);
    struct tenant *t = local_tenant(l, job->tenant);
    if (t)
        c->series = series_table_list(t->series, &c->n_series);
    options.id = local_new_id(l);
    options.tombstone_seq = l->version->tombstone_seq;
    pthread_mutex_unlock(&l->lock);
    r = hidden_new(l->version, job->tenant, &c->hidden, err);
    if (r == 0)
        r = open_inputs(c, err);
    if (r == 0)
        r = part_writer_new(l, &options, &c->writer, err);
    sort_epochs(c);
    return r;
}

static int swap(struct compaction *c, struct segment *output, struct error *err)
{
    const struct compact_job *job = c->job;
    struct segment *add[1] = {output};
    struct version_edit edit = {
        .add = add,
        .n_add = output != NULL,
        .remove = (const struct segment *const *)job->inputs.data,
        .n_remove = job->inputs.len,
        .prunes_tombstones = true,
    };

    int r = version_publish(c->l, &edit, err);
    if (r < 0 && output) {
        pthread_mutex_lock(&c->l->lock);
        bool is_in_doubt = c->l->is_dead;
        pthread_mutex_unlock(&c->l->lock);
        if (!is_in_doubt)
            fs_unlink(c->l->fs, file_name("seg", output->id, "seg").text, NULL);
        segment_free(output);
    }
    return r;
}

int compact_run(struct local *l, const struct compact_job *job, struct error *err)
{
    CLEANUP(compaction_done) struct compaction c = {.l = l, .job = job};
    struct segment *output = NULL;

    int r = begin(&c, err);
    for (size_t i = 0; i < c.epochs.len && r == 0; i++)
        r = merge_part(&c, c.epochs.data[i], err);
    if (r < 0)
        return r;
    if (part_writer_rows(c.writer) > 0)
        r = part_writer_finish(c.writer, &output, err);
    return r < 0 ? r : swap(&c, output, err);
}
