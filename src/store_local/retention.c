#include "store_local/retention.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "base/clock.h"
#include "store_local/epoch.h"
#include "store_local/version.h"

/* ---- Time */

int64_t retention_now_ns(struct local *l)
{
    int64_t wall = clock_wall_ns(l->clock), mono = clock_monotonic_ns(l->clock);

    if (l->trusted_at_mono == 0 && l->trusted_now_ns == 0) {
        l->trusted_now_ns = wall;
        l->trusted_at_mono = mono;
    }
    int64_t expected;
    if (__builtin_add_overflow(l->trusted_now_ns, mono - l->trusted_at_mono, &expected))
        expected = INT64_MAX;
    int64_t off = wall > expected ? wall - expected : expected - wall;
    if (off > RETENTION_JUMP_NS)
        return expected;
    l->trusted_now_ns = wall;
    l->trusted_at_mono = mono;
    l->jump_passes = 0;
    return wall;
}

/* Counts the passes of a clock that has jumped, and believes it in the end. With the lock held. */
static bool believe_jump(struct local *l)
{
    int64_t wall = clock_wall_ns(l->clock), mono = clock_monotonic_ns(l->clock);
    int64_t expected = retention_now_ns(l);
    int64_t off = wall > expected ? wall - expected : expected - wall;

    if (off <= RETENTION_JUMP_NS || ++l->jump_passes < RETENTION_JUMP_PASSES)
        return false;
    l->jump_passes = 0;
    l->trusted_now_ns = wall;
    l->trusted_at_mono = mono;
    return true;
}

static int64_t max_age_ns(const struct local *l, const struct tenant *t, enum segment_kind kind)
{
    int64_t own = 0, other;

    if (t)
        own = kind == SEGMENT_SPANS ? t->policy.max_span_age_ns : t->policy.max_age_ns;
    other = kind == SEGMENT_SPANS ? l->options.max_span_age_ns : l->options.max_age_ns;
    return own > 0 ? own : other;
}

static int64_t cutoff_of(struct local *l, const struct tenant *t, enum segment_kind kind)
{
    int64_t now = retention_now_ns(l), age = max_age_ns(l, t, kind);

    if (age <= 0 || now < INT64_MIN + age)
        return INT64_MIN;
    return now - age;
}

static int64_t *floor_of(struct floors *f, enum segment_kind kind)
{
    return kind == SEGMENT_SPANS ? &f->spans_ns : &f->profiles_ns;
}

static int64_t cutoff_or_floor(struct local *l, const struct tenant *t, enum segment_kind kind)
{
    struct floors floors = t ? t->floors : (struct floors){0};
    int64_t cutoff = cutoff_of(l, t, kind), floor = *floor_of(&floors, kind);

    return cutoff > floor ? cutoff : floor;
}

int64_t retention_cutoff_ns(struct local *l, const struct tenant *t)
{
    return cutoff_or_floor(l, t, SEGMENT_PROFILES);
}

int64_t retention_span_cutoff_ns(struct local *l, const struct tenant *t)
{
    return cutoff_or_floor(l, t, SEGMENT_SPANS);
}

/* ---- Choosing */

struct pass {
    struct local *l;
    struct budget budget;
    VEC(struct segment *) live; /* by age, the oldest first; NULL: it dies */
    VEC(struct segment *) dead;
    VEC(uint64_t) epochs;             /* that die */
    VEC(struct tenant_entry) tenants; /* all, with their floors as they will be */
    size_t n_quarter, n_sudden;
    bool is_raised; /* a floor, by enough to be written down */
    uint64_t bytes; /* of what lives */
};

static void pass_done(struct pass *p)
{
    vec_done(&p->budget, &p->live);
    vec_done(&p->budget, &p->dead);
    vec_done(&p->budget, &p->epochs);
    vec_done(&p->budget, &p->tenants);
}

static int by_age(const void *a, const void *b)
{
    const struct segment *x = *(struct segment *const *)a, *y = *(struct segment *const *)b;

    if (x->max_ns != y->max_ns)
        return x->max_ns < y->max_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool collect(struct pass *p)
{
    const struct version *v = p->l->version;

    if (!vec_append(&p->budget, &p->live, v->segments.data, v->segments.len))
        return false;
    if (!vec_append(&p->budget, &p->tenants, v->tenants.data, v->tenants.len))
        return false;
    if (p->live.len > 0)
        qsort(p->live.data, p->live.len, sizeof(struct segment *), by_age);
    for (size_t i = 0; i < v->segments.len; i++)
        p->bytes += v->segments.data[i]->bytes;
    for (size_t i = 0; i < v->epochs.len; i++)
        p->bytes += v->epochs.data[i].file_len;
    for (size_t i = 0; i < v->tenants.len; i++)
        p->bytes += v->tenants.data[i].series_file_len;
    p->n_quarter = v->segments.len / 4 > 0 ? v->segments.len / 4 : 1;
    return true;
}

/* Moves live[i] to the dead; NULL stays behind. */
static bool kill_segment(struct pass *p, size_t i)
{
    if (!vec_push(&p->budget, &p->dead, p->live.data[i]))
        return false;
    p->bytes -= p->live.data[i]->bytes;
    p->live.data[i] = NULL;
    return true;
}

static bool is_of(const struct segment *s, uint32_t tenant, enum segment_kind kind)
{
    return s && s->tenant == tenant && s->kind == kind;
}

/* Raises a floor; the files below it go. */
static bool raise_floor(struct pass *p, struct tenant_entry *t, enum segment_kind kind, int64_t to)
{
    int64_t *floor = floor_of(&t->floors, kind);
    bool hides = false;

    if (to < *floor)
        to = *floor;
    for (size_t i = 0; i < p->live.len; i++) {
        const struct segment *s = p->live.data[i];
        hides |= is_of(s, t->id, kind) && s->min_ns < to;
        if (is_of(s, t->id, kind) && s->max_ns < to && !kill_segment(p, i))
            return false;
    }
    if (hides && to > *floor) {
        p->is_raised |= to - *floor >= RETENTION_FLOOR_STEP_NS;
        *floor = to;
    }
    return true;
}

/*
 * Up to the cutoff, but no further than what is stored: a clock that was wrong must not keep new
 * profiles out when it is right again. And no further than a quarter of all segments that did not
 * expire just now: that is a jump, or a long sleep.
 */
static bool expire_by_age(struct pass *p, struct tenant_entry *t, enum segment_kind kind)
{
    int64_t cutoff = cutoff_of(p->l, local_tenant(p->l, t->id), kind), to = INT64_MIN;
    bool is_held = false;

    for (size_t i = 0; i < p->live.len && !is_held; i++) {
        const struct segment *s = p->live.data[i];
        if (!is_of(s, t->id, kind))
            continue;
        if (s->max_ns >= cutoff) {
            to = cutoff;
            break;
        }
        bool is_sudden = s->max_ns < cutoff - 2 * RETENTION_JUMP_NS;
        is_held = is_sudden && p->n_sudden >= p->n_quarter;
        p->n_sudden += is_sudden && !is_held;
        if (!is_held)
            to = s->max_ns + 1;
    }
    return raise_floor(p, t, kind, to);
}

static bool expire_all_by_age(struct pass *p)
{
    for (size_t i = 0; i < p->tenants.len; i++) {
        if (!expire_by_age(p, &p->tenants.data[i], SEGMENT_PROFILES) ||
            !expire_by_age(p, &p->tenants.data[i], SEGMENT_SPANS))
            return false;
    }
    return true;
}

/* The end of the segment's window, so that none is left in part; of the newest, of its rows. */
static int64_t end_of(const struct pass *p, const struct segment *s)
{
    int64_t end, newest = s->max_ns;

    for (size_t i = 0; i < p->live.len; i++) {
        const struct segment *other = p->live.data[i];
        if (is_of(other, s->tenant, s->kind) && other->max_ns > newest)
            newest = other->max_ns;
    }
    if (__builtin_add_overflow(s->window_start_ns, s->window_len_ns, &end) || end > newest)
        end = newest; /* of a damaged manifest, at worst */
    return end > s->max_ns ? end : s->max_ns < INT64_MAX ? s->max_ns + 1 : INT64_MAX;
}

static struct tenant_entry *entry_of(struct pass *p, uint32_t id)
{
    size_t at = BISECT(p->tenants.len, i, p->tenants.data[i].id < id);

    return at < p->tenants.len && p->tenants.data[at].id == id ? &p->tenants.data[at] : NULL;
}

/* Of one tenant (0: of all), until `bytes` are at most `limit`. */
static bool expire_by_size(struct pass *p, uint32_t tenant, uint64_t bytes, uint64_t limit)
{
    for (size_t i = 0; i < p->live.len && bytes > limit; i++) {
        const struct segment *s = p->live.data[i];
        if (!s || (tenant && s->tenant != tenant))
            continue;
        struct tenant_entry *t = entry_of(p, s->tenant);
        uint64_t before = p->bytes;
        if (t && !raise_floor(p, t, s->kind, end_of(p, s)))
            return false;
        if (p->live.data[i] && !kill_segment(p, i))
            return false;
        bytes -= before - p->bytes;
    }
    return true;
}

static bool expire_tenants_by_size(struct pass *p)
{
    struct local *l = p->l;

    for (size_t i = 0; i < l->tenants.len; i++) {
        const struct tenant *t = &l->tenants.data[i];
        uint64_t bytes = 0;
        if (t->policy.max_bytes == 0)
            continue;
        for (size_t j = 0; j < p->live.len; j++)
            bytes +=
                p->live.data[j] && p->live.data[j]->tenant == t->id ? p->live.data[j]->bytes : 0;
        if (!expire_by_size(p, t->id, bytes, t->policy.max_bytes))
            return false;
    }
    return true;
}

/* ---- Epochs */

static bool is_open_somewhere(struct local *l, struct epoch *e)
{
    struct tenant *t = local_tenant(l, e->tenant);

    for (size_t i = 0; t && i < t->services.len; i++) {
        struct service *s = &t->services.data[i];
        if (s->open != e)
            continue;
        /* Closed now, so that the next pass finds it without anybody about to add to it. */
        if (e->created_ns < retention_now_ns(l) - EPOCH_AGE_MAX_NS)
            s->open = NULL;
        return true;
    }
    return false;
}

static bool is_dead_epoch(struct local *l, struct epoch *e)
{
    return version_epoch(l->version, e->id) && e->memtables == 0 && e->readers == 0 &&
           e->pins == 0 && !version_uses_epoch(l, e->id) &&
           epoch_mark_equal(&e->flushed, &e->durable) &&
           epoch_mark_equal(&e->logged, &e->durable) && !is_open_somewhere(l, e);
}

/* With the lock held. */
static bool collect_epochs(struct pass *p)
{
    struct local *l = p->l;

    for (size_t i = 0; i < l->epochs.len; i++) {
        if (is_dead_epoch(l, l->epochs.data[i]) &&
            !vec_push(&p->budget, &p->epochs, l->epochs.data[i]->id))
            return false;
    }
    return true;
}

static void forget_epochs(struct pass *p)
{
    struct local *l = p->l;
    size_t n = 0, k = 0;

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->epochs.len; i++) { /* both ascend */
        struct epoch *e = l->epochs.data[i];
        while (k < p->epochs.len && p->epochs.data[k] < e->id)
            k++;
        if (k < p->epochs.len && p->epochs.data[k] == e->id)
            epoch_free(e);
        else
            l->epochs.data[n++] = e;
    }
    l->epochs.len = n;
    pthread_mutex_unlock(&l->lock);
}

/* ---- All of it */

static int choose(struct pass *p, bool *ret_believed, struct error *err)
{
    struct local *l = p->l;

    budget_init(&p->budget, SIZE_MAX / 2);
    pthread_mutex_lock(&l->lock);
    *ret_believed = believe_jump(l);
    uint64_t limit = l->options.disk_limit ? l->options.disk_limit : l->version->disk_limit;
    bool ok = collect(p) && expire_all_by_age(p) && expire_tenants_by_size(p) &&
              (limit == 0 || expire_by_size(p, 0, p->bytes, limit)) && collect_epochs(p);
    pthread_mutex_unlock(&l->lock);
    return ok ? 0 : error_set(err, -ENOMEM, "could not look for what has expired: no memory");
}

/* As they are written down now. */
static void note_floors(struct pass *p)
{
    struct local *l = p->l;

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < p->tenants.len; i++)
        local_tenant(l, p->tenants.data[i].id)->floors = p->tenants.data[i].floors;
    pthread_mutex_unlock(&l->lock);
}

int retention_run(struct local *l, struct error *err)
{
    CLEANUP(pass_done) struct pass p = {.l = l};
    bool believed;

    int r = choose(&p, &believed, err);
    if (r < 0)
        return r;
    if (believed)
        local_log(l, "the clock has jumped and stayed so: it is believed from now on");
    if (p.dead.len == 0 && p.epochs.len == 0 && !p.is_raised)
        return 0;
    struct version_edit edit = {
        .remove = (const struct segment *const *)p.dead.data,
        .n_remove = p.dead.len,
        .tenants = p.tenants.data,
        .n_tenants = p.tenants.len,
        .dead_epochs = p.epochs.data,
        .n_dead_epochs = p.epochs.len,
        .prunes_tombstones = true,
    };
    uint64_t before = p.bytes;
    for (size_t i = 0; i < p.dead.len; i++)
        before += p.dead.data[i]->bytes;
    size_t n_dead = p.dead.len;
    r = version_publish(l, &edit, err);
    if (r < 0)
        return r;
    note_floors(&p);
    forget_epochs(&p);
    if (n_dead > 0)
        local_log(l, "retention removed %zu segments, %" PRIu64 " bytes", n_dead, before - p.bytes);
    return 1;
}
