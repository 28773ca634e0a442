#include "query/moments.h"

#include "base/hash.h"
#include "profile/merge.h"

/* Moments of a series are added up whenever there are so many. */
#define MOMENTS_HELD 8

void moments_init(struct moments *m, struct profile_set *set, const struct query *q)
{
    *m = (struct moments){.set = set, .q = q};
}

void moments_done(struct moments *m)
{
    for (size_t i = 0; i < m->series.len; i++) {
        struct moment_series *s = &m->series.data[i];
        for (size_t k = 0; k < s->held.len; k++)
            profile_free(s->held.data[k]);
        vec_done(m->set->budget, &s->held);
    }
    vec_done(m->set->budget, &m->series);
    idset_done(m->set->budget, &m->index);
}

bool moments_take(const struct moments *m, const struct store_found *f)
{
    return f->series->is_instant && m->q->instant != INSTANT_SUM && !m->q->has_id;
}

static struct moment_series *find_series(struct moments *m, uint64_t id)
{
    uint64_t hash = hash_mix(id, 3);
    uint32_t at = IDSET_FIND(&m->index, hash, i, m->series.data[i].id == id);

    return at != IDSET_NONE ? &m->series.data[at] : NULL;
}

static struct moment_series *series_of(struct moments *m, uint64_t id)
{
    struct budget *b = m->set->budget;
    struct moment_series *known = find_series(m, id);

    if (known)
        return known;
    if (!vec_push(b, &m->series, (struct moment_series){.id = id}) ||
        !idset_add(b, &m->index, hash_mix(id, 3), (uint32_t)m->series.len - 1))
        return NULL;
    return &vec_last(&m->series);
}

/* What peaks are peaks of: the first type that is selected. */
static int64_t peak_of(const struct moments *m, const struct store_found *f)
{
    for (size_t i = 0; f->totals && i < f->series->n_types; i++) {
        const struct store_type *type = &f->series->types[i];
        if (selector_takes(m->q->selector, type->name, type->unit))
            return f->totals[i];
    }
    return 0;
}

/* The last, or the highest; among equals it must not matter which was found first. */
static bool is_better(const struct moments *m, const struct moment_series *s,
                      const struct store_found *f, int64_t peak)
{
    int later = (f->start_ns > s->start_ns) - (f->start_ns < s->start_ns);
    int higher = (peak > s->peak) - (peak < s->peak);
    bool by_time = m->q->instant == INSTANT_LAST;
    int first = by_time ? later : higher, second = by_time ? higher : later;

    if (first != 0 || second != 0)
        return first != 0 ? first > 0 : second > 0;
    return memcmp(f->id, s->profile_id, sizeof(f->id)) > 0;
}

struct profile *moments_add(struct moments *m, const struct store_found *f)
{
    struct moment_series *s = series_of(m, f->series->id);
    int64_t peak = peak_of(m, f);

    if (!s)
        return NULL;
    s->n++;
    if (m->q->instant != INSTANT_AVERAGE) {
        if (s->held.len > 0 && !is_better(m, s, f, peak))
            return NULL;
        s->start_ns = f->start_ns;
        s->peak = peak;
        memcpy(s->profile_id, f->id, sizeof(s->profile_id));
        if (s->held.len > 0)
            profile_free(s->held.data[--s->held.len]);
    }
    struct profile *p = profile_new(m->set->dict);
    if (!vec_push(m->set->budget, &s->held, p)) {
        profile_free(p);
        return NULL;
    }
    return p;
}

static bool join(struct moments *m, struct moment_series *s)
{
    if (s->held.len < 2)
        return true;
    struct profile *sum =
        profile_merge(m->set->dict, s->held.data, s->held.len, (struct merge_options){0});
    if (!sum)
        return false;
    for (size_t i = 0; i < s->held.len; i++)
        profile_free(s->held.data[i]);
    s->held.data[0] = sum;
    s->held.len = 1;
    return true;
}

bool moments_filled(struct moments *m, const struct store_found *f)
{
    struct moment_series *s = find_series(m, f->series->id);

    return !s || s->held.len < MOMENTS_HELD || join(m, s);
}

/* sum / n, rounded to the nearest, halves away from 0. */
static int64_t average(int64_t sum, uint64_t n)
{
    uint64_t size = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    uint64_t of = size / n + (size % n >= n - n / 2);

    return (int64_t)(sum < 0 ? -of : of);
}

static void divide(struct profile *p, uint64_t n)
{
    for (uint32_t t = 0; t < p->n_types; t++)
        for (size_t i = 0; i < p->n_samples; i++)
            p->values[t][i] = average(p->values[t][i], n);
}

bool moments_finish(struct moments *m)
{
    for (size_t i = 0; i < m->series.len; i++) {
        struct moment_series *s = &m->series.data[i];
        if (!join(m, s))
            return false;
        if (s->held.len == 0)
            continue;
        if (m->q->instant == INSTANT_AVERAGE)
            divide(s->held.data[0], s->n);
        if (!vec_push(m->set->budget, &m->set->profiles, s->held.data[0]))
            return false;
        s->held.len = 0;
    }
    return true;
}
