#include "store_local/walk.h"

#include <errno.h>
#include <stdlib.h>

#include "base/must.h"

/* Whether something ends the walk; the rest is remembered. */
static int settle(struct walk *w, int r, const struct error *err)
{
    if (r == -ENOBUFS || r == -ENOMEM || r == -ECANCELED || r >= 0)
        return r;
    if (!w->is_incomplete)
        w->trouble = *err;
    w->is_incomplete = true;
    return 0;
}

uint32_t walk_wanted(const struct walk *w, const struct strip *strip)
{
    if (strip->level != LEVEL_RAW || strip->series >= w->snap->index.len)
        return UINT32_MAX;
    return w->snap->index.data[strip->series] - 1;
}

static bool is_wanted(const struct walk *w, const struct part *p)
{
    for (uint32_t i = 0; i < p->n_strips; i++) {
        const struct strip *s = &p->strips[i];
        if (walk_wanted(w, s) != UINT32_MAX && s->max_ns >= w->from_ns && s->min_ns < w->to_ns)
            return true;
    }
    return false;
}

static int walk_part(struct walk *w, struct segment_file *f, uint32_t i, struct error *err)
{
    CLEANUP(part_done) struct part part = {0};
    int r = part_open(w->snap->local, f, i, &part, err);

    if (r == 0 && is_wanted(w, &part))
        r = w->each(w, w->segment, &part, err);
    return r;
}

static int walk_segment(struct walk *w, struct error *err)
{
    struct segment_file *f = NULL;
    int r = segment_file_get(w->snap->local, w->segment, &f, err);

    if (r == 0 && w->trace_id) {
        r = segment_has_trace(w->snap->local, f, w->trace_id, err);
        if (r <= 0)
            return r;
        r = 0;
    }
    for (uint32_t i = 0; r == 0 && i < f->n_parts; i++) {
        if (w->cancelled && atomic_load_explicit(w->cancelled, memory_order_relaxed))
            return error_set(err, -ECANCELED, "the query was cancelled");
        if (f->parts[i].max_ns >= w->from_ns && f->parts[i].min_ns < w->to_ns &&
            snapshot_wants_epoch(w->snap, f->parts[i].epoch))
            r = settle(w, walk_part(w, f, i, err), err);
    }
    return r;
}

int walk_parts(struct walk *w, struct error *err)
{
    const struct snapshot *snap = w->snap;
    struct error why = {0}; /* whoever asks may not want to know */
    int r = 0;

    if (!snap->version || snap->series.len == 0)
        return 0;
    CLEANUP(freep)
    void *ranges = must_calloc(snapshot_ranges_max(snap), sizeof(struct cover_range));
    w->ranges = ranges;
    for (size_t i = snap->version->segments.len; i > 0 && r == 0; i--) {
        w->segment = snap->version->segments.data[i - 1];
        if (w->segment->max_ns >= w->from_ns && w->segment->min_ns < w->to_ns &&
            snapshot_wants_segment(snap, w->segment))
            r = settle(w, walk_segment(w, &why), &why);
    }
    w->ranges = NULL;
    if (r != 0 && err)
        *err = why;
    return r;
}
