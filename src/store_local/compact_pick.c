#include <stdlib.h>

#include "store_local/compact.h"
#include "store_local/cover.h"

/* Which segments to merge next. */

void compact_job_done(struct compact_job *job)
{
    vec_done(&job->budget, &job->inputs);
}

struct pick {
    struct local *l;
    int64_t now_ns;
    bool all;
    VEC(struct segment *) files; /* by tenant, then day, then window */
    struct budget budget;
    struct compact_job *job;
};

static int64_t day_of(const struct segment *s)
{
    return cover_floor(s->window_start_ns, DAY_NS);
}

static int by_window(const void *a, const void *b)
{
    const struct segment *x = *(struct segment *const *)a, *y = *(struct segment *const *)b;

    /* Days first, so that the oldest is merged first, whoever's it is. */
    if (day_of(x) != day_of(y))
        return day_of(x) < day_of(y) ? -1 : 1;
    if (x->tenant != y->tenant)
        return x->tenant < y->tenant ? -1 : 1;
    if (x->window_start_ns != y->window_start_ns)
        return x->window_start_ns < y->window_start_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_over(const struct pick *p, int64_t start_ns, int64_t len_ns)
{
    return start_ns <= p->now_ns - len_ns - COMPACT_DELAY_NS;
}

/* Files of one window: the big one of the wanted tier, and those that are to join it. */
struct heap {
    size_t first, end; /* of files */
    int64_t window_ns; /* start... */
    int64_t len_ns;    /* ...and length; files of longer windows are left out */
    uint8_t tier;      /* of the big one */
    size_t n_big, n_others;
    uint64_t big_bytes, other_bytes;
};

static bool belongs(const struct heap *h, const struct segment *s)
{
    return s->window_len_ns <= h->len_ns && s->window_start_ns >= h->window_ns &&
           s->window_start_ns < h->window_ns + h->len_ns && s->tier <= h->tier;
}

static void weigh(const struct pick *p, struct heap *h)
{
    for (size_t i = h->first; i < h->end; i++) {
        const struct segment *s = p->files.data[i];
        if (!belongs(h, s))
            continue;
        bool is_big = s->tier == h->tier;
        h->n_big += is_big;
        h->n_others += !is_big;
        *(is_big ? &h->big_bytes : &h->other_bytes) += s->bytes;
    }
}

static bool is_due(const struct pick *p, const struct heap *h)
{
    if (h->n_big > 1)
        return true;
    if (h->n_others == 0)
        return false;
    return p->all || h->n_big == 0 || h->n_others >= COMPACT_LATE_MAX ||
           h->other_bytes >= h->big_bytes / 4;
}

/* Fills in the job; false when there is no memory for it, which is as good as nothing being due. */
static bool take(struct pick *p, const struct heap *h, uint8_t tier)
{
    struct compact_job *job = p->job;

    job->tenant = p->files.data[h->first]->tenant;
    job->tier = tier;
    job->window_start_ns = h->window_ns;
    job->window_len_ns = h->len_ns;
    for (size_t i = h->first; i < h->end; i++) {
        struct segment *s = p->files.data[i];
        if (belongs(h, s) && !vec_push(&job->budget, &job->inputs, s))
            return false;
    }
    return true;
}

static bool pick_hours(struct pick *p, size_t first, size_t end)
{
    for (size_t i = first, next; i < end; i = next) {
        struct heap h = {.first = i,
                         .window_ns = p->files.data[i]->window_start_ns,
                         .len_ns = HOUR_NS,
                         .tier = 1};
        for (next = i; next < end && p->files.data[next]->window_start_ns == h.window_ns;)
            next++;
        h.end = next;
        weigh(p, &h);
        if (is_over(p, h.window_ns, HOUR_NS)) {
            if (is_due(p, &h))
                return take(p, &h, 1);
            continue;
        }
        h = (struct heap){
            .first = i, .end = next, .window_ns = h.window_ns, .len_ns = HOUR_NS, .tier = 0};
        weigh(p, &h);
        if (h.n_big > COMPACT_YOUNG_MAX)
            return take(p, &h, 0);
    }
    return false;
}

static bool pick_days(struct pick *p)
{
    const struct segment *const *files = (const struct segment *const *)p->files.data;

    for (size_t i = 0, next; i < p->files.len; i = next) {
        struct heap h = {.first = i, .window_ns = day_of(files[i]), .len_ns = DAY_NS, .tier = 2};
        for (next = i; next < p->files.len && files[next]->tenant == files[i]->tenant &&
                       day_of(files[next]) == h.window_ns;)
            next++;
        h.end = next;
        weigh(p, &h);
        if (p->all || is_over(p, h.window_ns, DAY_NS)) {
            if (is_due(p, &h))
                return take(p, &h, 2);
        } else if (pick_hours(p, i, next)) {
            return true;
        }
    }
    return false;
}

/* A segment with rows that a tombstone may hide: written again as it is. */
static bool pick_hidden(struct pick *p)
{
    const struct version *v = p->l->version;

    for (size_t i = 0; i < p->files.len; i++) {
        struct segment *s = p->files.data[i];
        for (size_t j = 0; j < v->tombstones.len; j++) {
            const struct tombstone *t = &v->tombstones.data[j];
            if (t->tenant != s->tenant || t->seq <= s->tombstone_seq || s->min_ns >= t->to_ns ||
                s->max_ns < t->from_ns)
                continue;
            p->job->tenant = s->tenant;
            p->job->tier = s->tier;
            p->job->window_start_ns = s->window_start_ns;
            p->job->window_len_ns = s->window_len_ns;
            return vec_push(&p->job->budget, &p->job->inputs, s);
        }
    }
    return false;
}

bool compact_pick(struct local *l, int64_t now_ns, bool all, struct compact_job *ret)
{
    struct pick p = {.l = l, .now_ns = now_ns, .all = all, .job = ret};
    const struct version *v = l->version;

    *ret = (struct compact_job){0};
    budget_init(&p.budget, SIZE_MAX / 2);
    budget_init(&ret->budget, SIZE_MAX / 2);
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < v->segments.len; i++) {
        struct segment *s = v->segments.data[i];
        if (s->kind == SEGMENT_PROFILES && !s->is_damaged && !s->is_bad)
            (void)vec_push(&p.budget, &p.files, s);
    }
    pthread_mutex_unlock(&l->lock);
    if (p.files.len > 0)
        qsort(p.files.data, p.files.len, sizeof(struct segment *), by_window);
    bool found = pick_days(&p) || pick_hidden(&p);
    vec_done(&p.budget, &p.files);
    if (!found)
        compact_job_done(ret);
    return found;
}
