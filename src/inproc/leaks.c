#include "inproc/leaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/hash.h"
#include "base/idset.h"
#include "base/must.h"
#include "base/vec.h"
#include "inproc/weight.h"

#define MEMORY_DEFAULT ((size_t)16 << 20)
#define TREND_Z        2.2 /* of Mann and Kendall's test */
#define GROWTH_SIGMAS  3.5

/* What a snapshot says of a stack: an estimate of its live bytes, and that estimate's variance. */
struct moment {
    double bytes, variance;
};

struct site {
    uint32_t stack;
    bool is_alive;   /* in this snapshot */
    bool is_suspect; /* by it */
    uint64_t places[LEAKS_LEVELS];
    double objects;
    struct moment old; /* of what is alive now and was already N steps ago */
    struct moment new;
    uint32_t last_samples;   /* what is left of the last step's */
    uint32_t new_samples;    /* of the last N steps' */
    uint32_t cohort_samples; /* of the last 2 N steps' */
    uint32_t cohorts;        /* a bit for each of them that has some */
    struct moment *moments;  /* of each snapshot that is kept */
};

struct leaks {
    struct leaks_options o;
    unsigned max; /* snapshots that are kept */
    struct budget budget;
    uint64_t step_ns;
    uint64_t *times;
    unsigned n;
    struct idset by_stack; /* sites */
    VEC(struct site) sites;
    uint64_t unfollowed; /* in this snapshot */
    VEC(struct leak_suspect) suspects;
    VEC(uint32_t) order;     /* sites, by place */
    struct moment *together; /* of the sites of a place */
};

struct leaks *leaks_new(const struct leaks_options *o)
{
    struct leaks *l = must_calloc(1, sizeof(*l));

    l->o = *o;
    if (l->o.windows == 0)
        l->o.windows = LEAKS_WINDOWS_DEFAULT;
    if (l->o.windows > LEAKS_WINDOWS_MAX)
        l->o.windows = LEAKS_WINDOWS_MAX;
    if (l->o.min_samples == 0)
        l->o.min_samples = 2 * l->o.windows;
    if (l->o.step_ns == 0)
        l->o.step_ns = l->o.window_ns;
    if (l->o.step_max_ns < l->o.step_ns)
        l->o.step_max_ns = l->o.step_ns;
    l->step_ns = l->o.step_ns;
    l->max = 5 * l->o.windows + 1;
    budget_init(&l->budget, o->max_memory ? o->max_memory : MEMORY_DEFAULT);
    l->times = must_calloc(l->max, sizeof(l->times[0]));
    l->together = must_calloc(l->max, sizeof(l->together[0]));
    return l;
}

void leaks_restart(struct leaks *l)
{
    for (size_t i = 0; i < l->sites.len; i++)
        budget_free(&l->budget, l->sites.data[i].moments, l->max * sizeof(struct moment));
    idset_done(&l->budget, &l->by_stack);
    vec_done(&l->budget, &l->sites);
    vec_done(&l->budget, &l->suspects);
    vec_done(&l->budget, &l->order);
    l->n = 0;
    l->unfollowed = 0;
}

void leaks_set_memory(struct leaks *l, size_t max_memory)
{
    if (l->budget.used > max_memory)
        leaks_restart(l);
    l->budget.limit = max_memory;
}

void leaks_free(struct leaks *l)
{
    if (!l)
        return;
    leaks_restart(l);
    free(l->together);
    free(l->times);
    free(l);
}

bool leaks_is_due(const struct leaks *l, uint64_t now_ns)
{
    return l->n == 0 || (now_ns > l->times[l->n - 1] && now_ns - l->times[l->n - 1] >= l->step_ns);
}

uint64_t leaks_unfollowed(const struct leaks *l)
{
    return l->unfollowed;
}

bool leaks_is_settled(const struct leaks *l)
{
    return l->step_ns >= l->o.window_ns;
}

/* ---- A snapshot ---- */

/* Every second one goes while steps may still become longer; later the oldest. */
static void make_room(struct leaks *l)
{
    bool halves = l->step_ns < l->o.step_max_ns;
    unsigned kept = 0;

    for (unsigned i = 0; i < l->n; i++) {
        if (halves ? (l->n - 1 - i) % 2 != 0 : i == 0)
            continue;
        l->times[kept] = l->times[i];
        for (size_t k = 0; k < l->sites.len; k++)
            l->sites.data[k].moments[kept] = l->sites.data[k].moments[i];
        kept++;
    }
    l->n = kept;
    if (halves)
        l->step_ns = l->step_ns * 2 < l->o.step_max_ns ? l->step_ns * 2 : l->o.step_max_ns;
}

static uint64_t hash_of(uint32_t stack)
{
    return hash_mix(stack, 7);
}

/* Whether something was alive in a snapshot of those from `first` on. */
static bool was_alive(const struct leaks *l, const struct site *s, unsigned first)
{
    for (unsigned i = first; i < l->n; i++)
        if (s->moments[i].bytes > 0)
            return true;
    return false;
}

/* Stacks come and go: those of which nothing is left make room for the next. Where room is short,
 * the last snapshot alone decides. */
static void forget_sites(struct leaks *l)
{
    unsigned first = l->n > 0 && l->budget.used > l->budget.limit / 8 ? l->n - 1 : 0;
    uint32_t kept = 0;

    for (size_t i = 0; i < l->sites.len; i++) {
        struct site s = l->sites.data[i];
        if (was_alive(l, &s, first))
            l->sites.data[kept++] = s;
        else
            budget_free(&l->budget, s.moments, l->max * sizeof(struct moment));
    }
    if (kept == l->sites.len)
        return;
    l->sites.len = kept;
    idset_done(&l->budget, &l->by_stack);
    for (uint32_t i = 0; i < kept; i++) /* there was room for more of them */
        (void)idset_add(&l->budget, &l->by_stack, hash_of(l->sites.data[i].stack), i);
}

void leaks_begin(struct leaks *l, uint64_t now_ns)
{
    if (l->n == l->max)
        make_room(l);
    forget_sites(l);
    l->unfollowed = 0;
    l->times[l->n] = now_ns;
    for (size_t i = 0; i < l->sites.len; i++) {
        struct site *s = &l->sites.data[i];
        struct site empty = {.stack = s->stack, .moments = s->moments};
        memcpy(empty.places, s->places, sizeof(empty.places));
        *s = empty;
        s->moments[l->n] = (struct moment){0};
    }
}

static struct site *add_new_site(struct leaks *l, uint32_t stack)
{
    struct budget *b = &l->budget;
    size_t size = l->max * sizeof(struct moment);
    void *moments = NULL;

    /* Tables grow by doubling: what is left must be enough for each of them. */
    if (b->used > b->limit / 4 || !budget_resize(b, &moments, 0, size))
        return NULL;
    memset(moments, 0, size);
    if (!vec_push(b, &l->sites, (struct site){.stack = stack, .moments = moments})) {
        budget_free(b, moments, size);
        return NULL;
    }
    if (!idset_add(b, &l->by_stack, hash_of(stack), (uint32_t)l->sites.len - 1)) {
        l->sites.len--;
        budget_free(b, moments, size);
        return NULL;
    }
    return &vec_last(&l->sites);
}

static struct site *site_of(struct leaks *l, uint32_t stack)
{
    uint32_t at = IDSET_FIND(&l->by_stack, hash_of(stack), i, l->sites.data[i].stack == stack);

    if (at != IDSET_NONE)
        return &l->sites.data[at];
    struct site *s = add_new_site(l, stack);
    l->unfollowed += !s;
    if (!s)
        return NULL;
    for (unsigned i = 0; l->o.place && i < LEAKS_LEVELS; i++)
        s->places[i] = l->o.place(l->o.place_arg, stack, i + 1);
    return s;
}

/* The last 2 N steps are numbered from 0, the newest; what is older has a higher number. */
static unsigned step_of(const struct leaks *l, uint64_t time_ns)
{
    unsigned step = 0, most = 2 * l->o.windows;

    while (step < most && step < l->n && time_ns <= l->times[l->n - 1 - step])
        step++;
    return step;
}

void leaks_add(struct leaks *l, uint32_t stack, uint64_t size, uint32_t rate, uint64_t time_ns)
{
    struct site *s = site_of(l, stack);
    double p = weight_chance(size, rate), bytes = (double)size / p;
    double variance = bytes * bytes * (1 - p);
    unsigned step = step_of(l, time_ns);

    if (!s)
        return;
    s->is_alive = true;
    s->objects += 1 / p;
    s->moments[l->n].bytes += bytes;
    s->moments[l->n].variance += variance;
    struct moment *m = step < l->o.windows ? &s->new : &s->old;
    m->bytes += bytes;
    m->variance += variance;
    s->last_samples += step == 0;
    s->new_samples += step < l->o.windows;
    if (step < 2 * l->o.windows) {
        s->cohorts |= 1u << step;
        s->cohort_samples++;
    }
}

/* ---- The verdict ---- */

/* Whether the last 2 N + 1 snapshots rise: how many more pairs of them do than fall, against what
 * chance makes of it. */
static bool rises(const struct leaks *l, const struct site *s)
{
    unsigned n = 2 * l->o.windows + 1;
    const struct moment *m = &s->moments[l->n - n];
    int score = 0;

    for (unsigned i = 0; i < n; i++)
        for (unsigned k = i + 1; k < n; k++)
            score += (m[k].bytes > m[i].bytes) - (m[k].bytes < m[i].bytes);
    double deviation = sqrt((double)n * (n - 1) * (2 * n + 5) / 18);
    return score - 1 >= TREND_Z * deviation;
}

/* Whether what came and went in the last N steps makes it more, beyond the error of sampling. What
 * was there before and after was sampled once, and adds no error. */
static bool grows(const struct leaks *l, const struct site *s)
{
    const struct moment *now = &s->moments[l->n - 1];
    const struct moment *before = &s->moments[l->n - 1 - l->o.windows];
    double gone = before->variance - s->old.variance;
    double variance = s->new.variance + (gone > 0 ? gone : 0);

    return now->bytes - before->bytes > GROWTH_SIGMAS * sqrt(variance);
}

/* Samples that a part of the time should have, when another part had so many. */
static double expected(uint32_t samples, uint64_t in_ns, uint64_t of_ns)
{
    return of_ns > 0 ? samples * (double)in_ns / (double)of_ns : 0;
}

/* Whether something is left of each step, and it does not come to an end: not in the last step, and
 * not slowly, as a cache fills that has most of its keys. */
static bool goes_on(const struct leaks *l, const struct site *s)
{
    unsigned n = l->o.windows;
    const uint64_t *first = &l->times[l->n - 1 - 2 * n], *middle = first + n, *last = middle + n;
    double usual =
        expected(s->cohort_samples - s->last_samples, last[0] - last[-1], last[-1] - first[0]);
    double before =
        expected(s->cohort_samples - s->new_samples, last[0] - middle[0], middle[0] - first[0]);

    return s->last_samples > 0 && s->cohort_samples >= l->o.min_samples &&
           (unsigned)__builtin_popcount(s->cohorts) + 1 >= 2 * n &&
           s->last_samples >= usual - 3 * sqrt(usual) && s->last_samples >= usual / 4 &&
           s->new_samples >= before / 2;
}

static bool is_leak(const struct leaks *l, const struct site *s)
{
    return s->is_alive && goes_on(l, s) && grows(l, s) && rises(l, s);
}

/* ---- Places ---- */

struct by_place {
    const struct site *sites;
    unsigned level;
};

static int compare_places(const void *a, const void *b, void *arg)
{
    const struct by_place *by = arg;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint64_t x = by->sites[i].places[by->level], y = by->sites[k].places[by->level];

    return x != y ? (x < y ? -1 : 1) : i < k ? -1 : i > k;
}

static void add_site(struct leaks *l, struct site *sum, const struct site *s)
{
    sum->is_alive |= s->is_alive;
    sum->old.variance += s->old.variance;
    sum->new.variance += s->new.variance;
    sum->last_samples += s->last_samples;
    sum->new_samples += s->new_samples;
    sum->cohort_samples += s->cohort_samples;
    sum->cohorts |= s->cohorts;
    for (unsigned i = 0; i < l->n; i++) {
        sum->moments[i].bytes += s->moments[i].bytes;
        sum->moments[i].variance += s->moments[i].variance;
    }
}

/* Whether a stack has a part in what its place keeps: neither what is old alone, nor what has come
 * just now. */
static bool takes_part(const struct site *s)
{
    if (!s->is_alive || s->cohort_samples == s->last_samples)
        return false;
    return s->cohort_samples < 3 || (s->new_samples > 0 && s->new_samples < s->cohort_samples);
}

/* Judges the n sites of a place together. */
static void judge_place(struct leaks *l, const uint32_t *sites, size_t n)
{
    struct site sum = {.moments = l->together};

    memset(l->together, 0, l->max * sizeof(l->together[0]));
    for (size_t i = 0; i < n; i++)
        add_site(l, &sum, &l->sites.data[sites[i]]);
    if (!is_leak(l, &sum))
        return;
    for (size_t i = 0; i < n; i++)
        l->sites.data[sites[i]].is_suspect = takes_part(&l->sites.data[sites[i]]);
}

static void judge_places(struct leaks *l, unsigned level)
{
    struct by_place by = {l->sites.data, level};
    const uint32_t *order;
    size_t n, to;

    vec_clear(&l->order);
    for (uint32_t i = 0; i < l->sites.len; i++)
        if (!l->sites.data[i].is_suspect)
            (void)vec_push(&l->budget, &l->order, i);
    order = l->order.data;
    n = l->order.len;
    if (n > 1)
        qsort_r(l->order.data, n, sizeof(order[0]), compare_places, &by);
    for (size_t from = 0; from < n; from = to) {
        uint64_t place = by.sites[order[from]].places[level];
        for (to = from + 1; to < n && by.sites[order[to]].places[level] == place;)
            to++;
        if (to - from > 1)
            judge_place(l, order + from, to - from);
    }
}

/* ---- Suspects ---- */

static int compare_suspects(const void *a, const void *b)
{
    const struct leak_suspect *x = a, *y = b;

    if (x->growth_per_s != y->growth_per_s)
        return x->growth_per_s > y->growth_per_s ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void list_suspects(struct leaks *l)
{
    unsigned first = l->n - 1 - 2 * l->o.windows;
    uint64_t watched_ns = l->times[l->n - 1] - l->times[first];

    for (size_t i = 0; i < l->sites.len; i++) {
        const struct site *s = &l->sites.data[i];
        if (!s->is_suspect)
            continue;
        double grown = s->moments[l->n - 1].bytes - s->moments[first].bytes;
        (void)vec_push(
            &l->budget, &l->suspects,
            (struct leak_suspect){.stack = s->stack,
                                  .bytes = s->moments[l->n - 1].bytes,
                                  .objects = s->objects,
                                  .growth_per_s = grown > 0 ? grown * 1e9 / (double)watched_ns : 0,
                                  .watched_ns = watched_ns});
    }
    if (l->suspects.len > 1)
        qsort(l->suspects.data, l->suspects.len, sizeof(l->suspects.data[0]), compare_suspects);
}

void leaks_end(struct leaks *l)
{
    l->n++;
    vec_clear(&l->suspects);
    if (l->n <= 2 * l->o.windows)
        return;
    for (size_t i = 0; i < l->sites.len; i++)
        l->sites.data[i].is_suspect = is_leak(l, &l->sites.data[i]);
    for (unsigned level = 0; l->o.place && level < LEAKS_LEVELS; level++)
        judge_places(l, level);
    list_suspects(l);
}

const struct leak_suspect *leaks_suspects(const struct leaks *l, size_t *ret_n)
{
    *ret_n = l->suspects.len;
    return l->suspects.data;
}

const struct leak_suspect *leaks_find(const struct leaks *l, uint32_t stack)
{
    for (size_t i = 0; i < l->suspects.len; i++)
        if (l->suspects.data[i].stack == stack)
            return &l->suspects.data[i];
    return NULL;
}
