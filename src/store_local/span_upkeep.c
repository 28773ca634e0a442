#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "segment/file_name.h"
#include "store_local/cover.h"
#include "store_local/span_merge.h"
#include "store_local/spans.h"
#include "store_local/version.h"

/* A window is due when it is over by this much: late spans may have come. */
#define SPANS_DELAY_NS   (10 * MINUTE_NS)
/* So many files of an hour that is not over are merged. */
#define SPANS_YOUNG_MAX  8
/* Late files are merged into a large one when there are so many, or they have 1/4 of its bytes. */
#define SPANS_LATE_MAX   4
/* Of one job: a block of each may be unpacked at once. */
#define SPANS_INPUTS_MAX 32

static uint64_t new_id(struct local *l)
{
    pthread_mutex_lock(&l->lock);
    uint64_t id = local_new_id(l);
    pthread_mutex_unlock(&l->lock);
    return id;
}

/* ---- From memory to files */

struct flushing {
    struct local *l;
    const struct spans_flush *f;
    uint32_t tenant;
    int64_t hours_from_ns; /* before, files are of days */
    struct span_writer *writer;
    int64_t window_end_ns;
};

static int finish_file(struct flushing *x, struct error *err)
{
    struct segment *s;

    if (!x->writer)
        return 0;
    int r = span_writer_finish(x->writer, &s, err);
    span_writer_free(TAKE_PTR(x->writer));
    if (r < 0)
        return r;
    r = x->f->add(x->f->ctx, s);
    if (r < 0) {
        fs_unlink(x->l->fs, file_name("seg", s->id, "seg").text, NULL);
        segment_free(s);
        return error_set(err, r, "could not flush spans: no memory");
    }
    return 0;
}

static int begin_file(struct flushing *x, int64_t start_ns, struct error *err)
{
    int64_t len = start_ns < x->hours_from_ns ? DAY_NS : HOUR_NS;
    struct span_file_options options = {
        .id = new_id(x->l),
        .tenant = x->tenant,
        .window_start_ns = cover_floor(start_ns, len),
        .window_len_ns = len,
        .tombstone_seq = x->f->tombstone_seq,
    };

    x->window_end_ns = options.window_start_ns + len;
    return span_writer_new(x->l, &options, &x->writer, err);
}

/* Spans come in order, so a window is over when one of the next comes. */
static int flush_tenant(struct flushing *x, struct span_merge *m, struct error *err)
{
    const struct store_span *span;
    int r;

    while ((r = span_merge_next(m, &span, err)) > 0) {
        if (x->writer && span->start_ns >= x->window_end_ns)
            r = finish_file(x, err);
        if (r >= 0 && !x->writer)
            r = begin_file(x, span->start_ns, err);
        if (r >= 0)
            r = span_writer_add(x->writer, span, err);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : finish_file(x, err);
}

/* The next tenant after this one that has spans, or 0. */
static uint32_t next_tenant(const struct memtable *m, uint32_t after)
{
    uint32_t found = 0;

    for (const struct span_batch *b = m->spans; b; b = b->older) {
        if (b->tenant > after && (found == 0 || b->tenant < found))
            found = b->tenant;
    }
    return found;
}

int spans_flush(struct local *l, const struct spans_flush *f, struct error *err)
{
    int r = 0;

    for (uint32_t tenant = 0; r == 0 && (tenant = next_tenant(f->memtable, tenant)) != 0;) {
        struct flushing x = {.l = l, .f = f, .tenant = tenant, .hours_from_ns = INT64_MIN};
        struct budget budget;
        struct span_merge m;
        int64_t newest = INT64_MIN;
        budget_init(&budget, SIZE_MAX / 2);
        span_merge_init(&m, l, &budget, INT64_MIN, INT64_MAX);
        m.stops_at_damage = true;
        for (const struct span_batch *b = f->memtable->spans; b && r == 0; b = b->older) {
            if (b->tenant == tenant && !span_merge_add_bytes(&m, b->payload))
                r = error_set(err, -ENOMEM, "could not flush spans: no memory");
        }
        for (size_t i = 0; i < m.sources.len; i++)
            newest = m.sources.data[i].max_ns > newest ? m.sources.data[i].max_ns : newest;
        if (newest > SPANS_HOURS_MAX * HOUR_NS)
            x.hours_from_ns = cover_floor(newest - SPANS_HOURS_MAX * HOUR_NS, DAY_NS);
        if (r == 0)
            r = flush_tenant(&x, &m, err);
        span_writer_free(x.writer);
        span_merge_done(&m);
    }
    return r;
}

/* ---- Merging files */

struct span_job {
    uint32_t tenant;
    uint8_t tier;
    int64_t window_ns, len_ns;
    VEC(struct segment *) inputs;
    struct budget budget;
};

static bool is_mergeable(const struct segment *s)
{
    return s->kind == SEGMENT_SPANS && !s->is_bad && !s->is_damaged;
}

/* The segments that lie in a window, the oldest ones when there are many. */
static bool collect(const struct version *v, struct span_job *job)
{
    vec_clear(&job->inputs);
    for (size_t i = 0; i < v->segments.len && job->inputs.len < SPANS_INPUTS_MAX; i++) {
        struct segment *s = v->segments.data[i];
        if (is_mergeable(s) && s->tenant == job->tenant && s->window_start_ns >= job->window_ns &&
            s->window_start_ns - job->window_ns <= job->len_ns - s->window_len_ns &&
            !vec_push(&job->budget, &job->inputs, s))
            return false;
    }
    return job->inputs.len > 1;
}

/* Whether it is worth it: a large file is not written again for a few small ones. */
static bool pays(const struct span_job *job, bool all)
{
    uint64_t large = 0, late = 0;
    size_t n_late = 0, n_large = 0;

    for (size_t i = 0; i < job->inputs.len; i++) {
        const struct segment *s = job->inputs.data[i];
        bool is_large = s->tier >= job->tier && job->tier > 0;
        n_large += is_large;
        n_late += !is_large;
        *(is_large ? &large : &late) += s->bytes;
    }
    return all || n_large == 0 || n_large > 1 || n_late >= SPANS_LATE_MAX || late >= large / 4;
}

static void set_window(struct span_job *job, const struct segment *s, int64_t len_ns, uint8_t tier)
{
    job->tenant = s->tenant;
    job->tier = tier;
    job->len_ns = len_ns;
    job->window_ns = cover_floor(s->window_start_ns, len_ns);
}

static bool is_over(const struct span_job *job, int64_t now_ns)
{
    return now_ns - SPANS_DELAY_NS >= job->window_ns + job->len_ns;
}

/* The job that a segment's window gives rise to, when one is due: a day that is over, else an hour
 * that is over, else many files of an hour that is not. */
static bool job_of(const struct version *v, const struct segment *s, int64_t now_ns, bool all,
                   struct span_job *job)
{
    set_window(job, s, DAY_NS, 2);
    if (s->window_len_ns > HOUR_NS || is_over(job, now_ns))
        return collect(v, job) && pays(job, all);
    set_window(job, s, HOUR_NS, 1);
    if (is_over(job, now_ns))
        return collect(v, job) && pays(job, all);
    job->tier = 0;
    return collect(v, job) && (all || job->inputs.len > SPANS_YOUNG_MAX);
}

static int check_space(struct local *l, const struct span_job *job, struct error *err)
{
    uint64_t free_bytes, total, need = 0;
    int r = fs_space(l->fs, &free_bytes, &total, err);

    for (size_t i = 0; i < job->inputs.len; i++)
        need += job->inputs.data[i]->bytes;
    if (r < 0 || need <= free_bytes / 2)
        return r;
    return error_set(err, -ENOSPC,
                     "could not merge segments of spans: %" PRIu64 " bytes may be needed, half of "
                     "the %" PRIu64 " that are free may be used",
                     need, free_bytes);
}

static int add_inputs(struct local *l, const struct span_job *job, struct span_merge *m,
                      uint64_t *tombstone_seq, struct error *err)
{
    for (size_t i = 0; i < job->inputs.len; i++) {
        struct segment *s = job->inputs.data[i];
        struct span_file *f;
        int r = span_file_get(l, s, &f, err);
        if (r < 0) {
            m->damaged = s;
            return r;
        }
        if (s->tombstone_seq < *tombstone_seq)
            *tombstone_seq = s->tombstone_seq;
        for (uint32_t b = 0; b < f->n_blocks; b++) {
            if (!span_merge_add_block(m, s, f, &f->blocks[b]))
                return error_set(err, -ENOMEM, "could not merge segments of spans: no memory");
        }
    }
    return 0;
}

static int write_merged(struct local *l, const struct span_job *job, struct span_merge *m,
                        struct segment **ret, struct error *err)
{
    CLEANUP(span_writer_freep) struct span_writer *w = NULL;
    struct span_file_options options = {
        .id = new_id(l),
        .tenant = job->tenant,
        .tier = job->tier,
        .window_start_ns = job->window_ns,
        .window_len_ns = job->len_ns,
        .tombstone_seq = UINT64_MAX,
    };
    const struct store_span *span;

    int r = add_inputs(l, job, m, &options.tombstone_seq, err);
    if (r == 0)
        r = span_writer_new(l, &options, &w, err);
    while (r >= 0 && (r = span_merge_next(m, &span, err)) > 0)
        r = span_writer_add(w, span, err);
    return r < 0 ? r : span_writer_finish(w, ret, err);
}

/* An input that is damaged stays as it is, and out of later merges: what can be read of it still
 * answers. */
static void leave_out(struct local *l, struct segment *s, const struct error *why)
{
    pthread_mutex_lock(&l->lock);
    s->is_damaged = true;
    pthread_mutex_unlock(&l->lock);
    local_log(l, "%s; segment %" PRIu64 " is not merged", why->text, s->id);
}

static int run_job(struct local *l, const struct span_job *job, struct error *err)
{
    struct budget budget;
    struct span_merge m;
    struct segment *merged = NULL;
    struct error why = {0};

    int r = check_space(l, job, err);
    if (r < 0)
        return r;
    budget_init(&budget, SIZE_MAX / 2);
    span_merge_init(&m, l, &budget, INT64_MIN, INT64_MAX);
    m.stops_at_damage = true;
    r = write_merged(l, job, &m, &merged, &why);
    struct segment *damaged = m.damaged;
    span_merge_done(&m);
    if (r < 0 && damaged) {
        leave_out(l, damaged, &why);
        return 1; /* there may be more without it */
    }
    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    struct version_edit edit = {.add = &merged,
                                .n_add = 1,
                                .remove = (const struct segment *const *)job->inputs.data,
                                .n_remove = job->inputs.len};
    r = version_publish(l, &edit, err);
    if (r == 0)
        return 1;
    pthread_mutex_lock(&l->lock);
    bool is_in_doubt = l->is_dead; /* the manifest on disk may name it */
    pthread_mutex_unlock(&l->lock);
    if (!is_in_doubt)
        fs_unlink(l->fs, file_name("seg", merged->id, "seg").text, NULL);
    segment_free(merged);
    return r;
}

int spans_compact(struct local *l, int64_t now_ns, bool all, struct error *err)
{
    struct version *v = version_acquire(l);
    struct span_job job = {0};
    bool is_due = false;
    int r = 0;

    budget_init(&job.budget, SIZE_MAX / 2);
    for (size_t i = 0; i < v->segments.len && !is_due; i++)
        is_due =
            is_mergeable(v->segments.data[i]) && job_of(v, v->segments.data[i], now_ns, all, &job);
    if (is_due)
        r = run_job(l, &job, err);
    vec_done(&job.budget, &job.inputs);
    version_release(l, v);
    return r;
}
