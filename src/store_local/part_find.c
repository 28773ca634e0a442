#include <errno.h>
#include <string.h>

#include "store_local/part.h"
#include "store_local/series_table.h"
#include "store_local/tombstone.h"
#include "store_local/version.h"

/* Finding one profile again in segments, for a client that sends it twice. */
struct wanted {
    uint32_t series;
    int64_t start_ns;
    const uint8_t *id; /* NULL: none */
    uint64_t content_hash;
};

static bool is_wanted(const struct row_block *rows, uint32_t i, const struct wanted *w)
{
    if (rows->start_ns[i] != w->start_ns || rows->has_id[i] != (w->id != NULL))
        return false;
    return w->id ? memcmp(rows->id[i], w->id, sizeof(rows->id[i])) == 0
                 : rows->content_hash[i] == w->content_hash;
}

static int find_in_part(struct local *l, struct segment_file *f, uint32_t i, const struct wanted *w)
{
    CLEANUP(part_done) struct part p = {0};

    int r = part_open(l, f, i, &p, NULL);
    if (r < 0)
        return r;
    const struct strip *s = part_strip(&p, w->series, LEVEL_RAW);
    for (uint32_t b = 0; s && b < s->n_blocks; b++) {
        const struct strip_block *block = &p.blocks[s->first_block + b];
        CLEANUP(row_block_done) struct row_block rows = {0};
        if (w->start_ns < block->min_ns || w->start_ns > block->max_ns)
            continue;
        r = row_block_read(&p, s, block, ROWS_IDS, &rows, NULL);
        if (r < 0)
            return r;
        for (uint32_t j = 0; j < rows.n; j++) {
            if (is_wanted(&rows, j, w))
                return 1;
        }
    }
    return 0;
}

/* A part of another service cannot have it: most are not even looked at. */
static bool may_have(const struct version *v, const struct part_entry *e, const struct wanted *w,
                     struct bytes service)
{
    if (w->start_ns < e->min_ns || w->start_ns > e->max_ns || w->series < e->min_series ||
        w->series > e->max_series)
        return false;
    const struct epoch_entry *epoch = version_epoch(v, e->epoch);
    return !epoch || bytes_are(service, epoch->service);
}

static int find_in_segment(struct local *l, struct segment *s, const struct wanted *w,
                           struct bytes service)
{
    struct segment_file *f;
    int r = segment_file_get(l, s, &f, NULL);

    for (uint32_t i = 0; r == 0 && i < f->n_parts; i++) {
        if (may_have(l->version, &f->parts[i], w, service))
            r = find_in_part(l, f, i, w);
    }
    /* What is damaged cannot be answered with either: the profile is not there. */
    return r == -EBADMSG || r == -ENOENT || r == -EPROTONOSUPPORT ? 0 : r;
}

int local_find_in_segments(struct local *l, uint32_t tenant, uint32_t series, int64_t start_ns,
                           const uint8_t *id, uint64_t content_hash)
{
    struct wanted w = {series, start_ns, id, content_hash};
    CLEANUP(hidden_freep) struct hidden *hidden = NULL;
    const struct version *v = l->version;
    struct tenant *t = local_tenant(l, tenant);
    const struct series *s = t ? series_table_get(t->series, series) : NULL;

    if (!s)
        return 0;
    int r = hidden_new(v, tenant, &hidden, NULL);
    if (r < 0)
        return r;
    struct bytes service = label_value(s->labels, s->n_labels, BYTES(LABEL_SERVICE));
    for (size_t i = 0; i < v->segments.len; i++) {
        struct segment *segment = v->segments.data[i];
        if (segment->kind != SEGMENT_PROFILES || segment->tenant != tenant ||
            start_ns < segment->min_ns || start_ns > segment->max_ns || segment->is_bad ||
            hidden_has(hidden, s, segment->tombstone_seq, start_ns))
            continue;
        r = find_in_segment(l, segment, &w, service);
        if (r != 0)
            return r;
    }
    return 0;
}
