#include "store_local/snapshot.h"

#include <errno.h>

#include "base/bisect.h"
#include "base/hash.h"
#include "store_local/epoch.h"
#include "store_local/link.h"
#include "store_local/memtable.h"
#include "store_local/retention.h"
#include "store_local/series_table.h"
#include "store_local/version.h"

static bool takes_any_type(const struct selector *selector, const struct series *series)
{
    for (uint32_t t = 0; t < series->n_types; t++) {
        if (selector_takes(selector, series->types[t].name, series->types[t].unit))
            return true;
    }
    return false;
}

static bool wants(const struct selector *selector, const struct series *series)
{
    if (series->is_group)
        return false;
    return !selector ||
           (selector_takes_period(selector, series->period_type.name, series->period_type.unit) &&
            selector_matches(selector, series->labels, series->n_labels) &&
            takes_any_type(selector, series));
}

/* Looks at the series that were not there before. */
static void match_series(struct snapshot *s, const struct selector *selector, uint32_t from)
{
    if (!vec_resize(s->budget, &s->index, (size_t)s->n_all + 1))
        return;
    for (uint32_t i = from; i < s->n_all; i++) {
        if (wants(selector, s->all[i]) &&
            vec_push(s->budget, &s->series, (struct snapshot_series){.series = s->all[i]}))
            s->index.data[s->all[i]->id] = (uint32_t)s->series.len;
    }
}

static void see_time(struct snapshot *s, int64_t min_ns, int64_t max_ns)
{
    if (min_ns > max_ns)
        return;
    s->min_ns = min_ns < s->min_ns ? min_ns : s->min_ns;
    s->max_ns = max_ns > s->max_ns ? max_ns : s->max_ns;
}

static void take_memtable(struct snapshot *s, unsigned which, struct memtable *m)
{
    if (!m)
        return;
    s->memtables[which] = memtable_ref(m);
    for (size_t i = 0; i < m->series.len; i++) {
        const struct memtable_series *ms = &m->series.data[i];
        if (ms->tenant != s->tenant || ms->series >= s->index.len)
            continue;
        uint32_t at = s->index.data[ms->series];
        if (at == 0)
            continue;
        s->series.data[at - 1].newest[which] = ms->newest;
        see_time(s, ms->min_start_ns, ms->max_start_ns);
    }
}

static void take_version(struct snapshot *s)
{
    struct version *v = version_ref(s->local->version);

    const struct tenant_entry *t = version_tenant(v, s->tenant);

    s->version = v;
    if (t && t->floors.profiles_ns > s->cutoff_ns)
        s->cutoff_ns = t->floors.profiles_ns;
    for (size_t i = 0; i < v->segments.len; i++) {
        const struct segment *segment = v->segments.data[i];
        if (segment->tenant == s->tenant && segment->kind == SEGMENT_PROFILES)
            see_time(s, segment->min_ns, segment->max_ns);
    }
}

static struct bytes service_of(const struct series *series)
{
    return label_value(series->labels, series->n_labels, BYTES(LABEL_SERVICE));
}

/* Finds the epochs of the services that series match in. */
static void find_wanted(struct snapshot *s)
{
    struct idset services = {0};

    for (uint32_t i = 0; i < s->series.len; i++) {
        struct bytes name = service_of(s->series.data[i].series);
        uint64_t h = hash_bytes(name.data, name.len);
        uint32_t found =
            IDSET_FIND(&services, h, id, bytes_equal(service_of(s->series.data[id].series), name));
        if (found == IDSET_NONE)
            (void)idset_add(s->budget, &services, h, i);
    }
    for (size_t i = 0; i < s->version->epochs.len; i++) {
        const struct epoch_entry *e = &s->version->epochs.data[i];
        struct bytes name = bytes_of(e->service);
        if (e->tenant == s->tenant &&
            IDSET_FIND(&services, hash_bytes(name.data, name.len), id,
                       bytes_equal(service_of(s->series.data[id].series), name)) != IDSET_NONE)
            (void)vec_push(s->budget, &s->wanted, e->id);
    }
    idset_done(s->budget, &services);
}

bool snapshot_wants_epoch(const struct snapshot *s, uint64_t id)
{
    size_t at = BISECT(s->wanted.len, i, s->wanted.data[i] < id);
    return at < s->wanted.len && s->wanted.data[at] == id;
}

bool snapshot_wants_segment(const struct snapshot *s, const struct segment *segment)
{
    if (segment->tenant != s->tenant || segment->kind != SEGMENT_PROFILES)
        return false;
    for (uint32_t i = 0; i < segment->n_epochs; i++) {
        if (snapshot_wants_epoch(s, segment->epochs[i]))
            return true;
    }
    return false;
}

int snapshot_take(struct local *l, struct bytes tenant, const struct selector *selector,
                  struct budget *budget, struct snapshot *ret, struct error *err)
{
    struct snapshot s = {.local = l, .budget = budget, .min_ns = INT64_MAX, .max_ns = INT64_MIN};

    arena_init(&s.arena, budget);
    pthread_mutex_lock(&l->lock);
    const struct tenant *t = local_find_tenant(l, tenant);
    if (!t) {
        pthread_mutex_unlock(&l->lock);
        *ret = s;
        return 0;
    }
    s.tenant = t->id;
    s.cutoff_ns = retention_cutoff_ns(l, t);
    s.all = series_table_list(t->series, &s.n_all);
    pthread_mutex_unlock(&l->lock);

    /* Selectors take their time: the series that come meanwhile are few, and matched below. */
    uint32_t seen = s.n_all;
    match_series(&s, selector, 0);

    pthread_mutex_lock(&l->lock);
    t = local_find_tenant(l, tenant);
    s.all = series_table_list(t->series, &s.n_all);
    match_series(&s, selector, seen);
    take_version(&s);
    take_memtable(&s, 0, l->head);
    take_memtable(&s, 1, l->frozen);
    pthread_mutex_unlock(&l->lock);

    find_wanted(&s);
    int r = budget_failed(budget) ? budget_error(budget, err)
                                  : hidden_new(s.version, s.tenant, &s.hidden, err);
    if (r < 0) {
        snapshot_done(&s);
        return r;
    }
    *ret = s;
    return 0;
}

void snapshot_done(struct snapshot *s)
{
    if (!s->local)
        return;
    hidden_free(s->hidden);
    pthread_mutex_lock(&s->local->lock);
    for (size_t i = 0; i < s->epochs.len; i++)
        epoch_release(s->local, s->epochs.data[i]->epoch);
    for (unsigned i = 0; i < SNAPSHOT_MEMTABLES; i++)
        memtable_unref(s->memtables[i]);
    pthread_mutex_unlock(&s->local->lock);
    version_release(s->local, s->version);
    vec_done(s->budget, &s->series);
    vec_done(s->budget, &s->index);
    vec_done(s->budget, &s->wanted);
    vec_done(s->budget, &s->epochs);
    arena_done(&s->arena);
    *s = (struct snapshot){0};
}

int snapshot_epoch(struct snapshot *s, uint64_t id, uint32_t *ret, struct error *err)
{
    struct local *l = s->local;

    for (size_t i = s->epochs.len; i > 0; i--) {
        if (s->epochs.data[i - 1]->epoch->id == id) {
            *ret = (uint32_t)(i - 1);
            return 0;
        }
    }
    struct snapshot_epoch *place = arena_new(&s->arena, struct snapshot_epoch, 1);
    if (!place || !vec_reserve(s->budget, &s->epochs, 1))
        return budget_error(s->budget, err);
    pthread_mutex_lock(&l->lock);
    struct epoch *e = local_epoch(l, id);
    int r = e ? epoch_acquire(l, e, err)
              : error_set(err, -EBADMSG, "dictionary %llu is not known", (unsigned long long)id);
    if (r == 0) {
        *place = (struct snapshot_epoch){e, epoch_view(e)};
        s->epochs.data[s->epochs.len] = place;
        *ret = (uint32_t)s->epochs.len++;
    }
    pthread_mutex_unlock(&l->lock);
    return r;
}

bool snapshot_has_holes(const struct snapshot *s, const struct series *series,
                        const struct segment *segment)
{
    const struct cover_range *holes;
    return hidden_ranges(s->hidden, series, segment->tombstone_seq, &holes) > 0;
}

size_t snapshot_visible(const struct snapshot *s, const struct series *series,
                        const struct segment *segment, struct cover_range range,
                        struct cover_range *ret)
{
    const struct cover_range *holes;
    size_t n = 1, n_holes = hidden_ranges(s->hidden, series, segment->tombstone_seq, &holes);

    if (range.from_ns < s->cutoff_ns)
        range.from_ns = s->cutoff_ns;
    if (range.from_ns >= range.to_ns)
        return 0;
    ret[0] = range;
    for (size_t i = 0; i < n_holes; i++)
        n = cover_cut(ret, n, holes[i].from_ns, holes[i].to_ns);
    return n;
}
