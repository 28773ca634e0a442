#include "agent/waits.h"

#include <string.h>

#include "base/budget.h"
#include "base/hash.h"
#include "base/must.h"
#include "base/vec.h"

#define HEADS         8192
#define FORGET_NS     ((uint64_t)120 * 1000000000)
#define PROCESSES_MAX 65536
#define CHANCE_ONE    65536

/* Index of an element + 1; 0 is none. Elements that are free are chained by `next`, too. */
typedef uint32_t ref;

/* Where a thread waits: the sample as it came. Two are the same when all but who, when and for how
 * long are. */
struct place {
    struct event_sample *sample;
    uint64_t hash;
    uint32_t users; /* 0: free */
    ref next;
};

struct waiter {
    uint32_t tid, tgid;
    uint64_t seen_ns;
    ref wall;            /* its place when the wall clock's pass last walked it */
    uint64_t again_ns;   /* what has been said there since, and is not counted yet */
    ref off;             /* where it left the CPU, while the end of that wait is not known */
    uint32_t wait;       /* that wait's number */
    ref next;            /* of the same head, or free */
    uint64_t since_ns;   /* when that wait was first heard of */
    uint64_t counted_ns; /* of that wait, in windows that have ended */
    bool is_used;
};

struct process_states {
    uint32_t tgid;
    ref next;
    uint64_t ns[THREAD_STATES];
};

struct ended_process {
    uint32_t tgid;
    uint64_t start_ns;
};

struct waits {
    struct waits_calls calls;
    struct budget budget;
    uint32_t threads_max;
    uint32_t n_waiters, n_places;
    uint64_t now_ns; /* the latest time that an event has named */
    ref free_waiter, free_place;
    VEC(struct waiter) waiters;
    VEC(struct place) places;
    VEC(struct process_states) states; /* of this window */
    VEC(struct ended_process) ended;   /* in this window, sorted at its end */
    uint64_t no_room, unknown, unknown_ns;
    ref waiter_heads[HEADS], place_heads[HEADS], state_heads[HEADS];
};

struct waits *waits_new(const struct waits_calls *calls, const struct waits_limits *limits)
{
    struct waits *w = must_calloc(1, sizeof(*w));

    w->calls = *calls;
    w->threads_max = limits && limits->threads_max ? limits->threads_max : 65536;
    budget_init(&w->budget, limits && limits->memory_max ? limits->memory_max : (size_t)8 << 20);
    return w;
}

void waits_free(struct waits *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->places.len; i++) {
        if (w->places.data[i].users > 0)
            budget_free(&w->budget, w->places.data[i].sample, w->places.data[i].sample->head.size);
    }
    vec_done(&w->budget, &w->waiters);
    vec_done(&w->budget, &w->places);
    vec_done(&w->budget, &w->states);
    vec_done(&w->budget, &w->ended);
    free(w);
}

/* Places. */

/* What makes two samples the same lies behind who and when. */
static struct bytes alike_part(const struct event_sample *s)
{
    size_t from = offsetof(struct event_sample, kind);

    return (struct bytes){.data = (const uint8_t *)s + from, .len = s->head.size - from};
}

static bool same_place(const struct event_sample *a, const struct event_sample *b)
{
    struct bytes x = alike_part(a), y = alike_part(b);

    return a->tgid == b->tgid && a->start_ns == b->start_ns && x.len == y.len &&
           memcmp(x.data, y.data, x.len) == 0;
}

static struct place *place_at(struct waits *w, ref r)
{
    return &w->places.data[r - 1];
}

static ref place_find(struct waits *w, const struct event_sample *s, uint64_t hash)
{
    for (ref r = w->place_heads[hash % HEADS]; r != 0; r = place_at(w, r)->next) {
        if (place_at(w, r)->hash == hash && same_place(place_at(w, r)->sample, s))
            return r;
    }
    return 0;
}

static ref place_add(struct waits *w, const struct event_sample *s, uint64_t hash)
{
    void *copy = NULL;
    ref r = w->free_place;

    if (r == 0 && !vec_push(&w->budget, &w->places, (struct place){0}))
        return 0;
    if (r == 0) {
        r = (ref)w->places.len;
        w->free_place = r;
    }
    if (!budget_resize(&w->budget, &copy, 0, s->head.size))
        return 0;
    memcpy(copy, s, s->head.size);
    w->free_place = place_at(w, r)->next;
    *place_at(w, r) =
        (struct place){.sample = copy, .hash = hash, .next = w->place_heads[hash % HEADS]};
    w->place_heads[hash % HEADS] = r;
    w->n_places++;
    return r;
}

/* One more user of the place; 0 when there is no room to remember it. */
static ref place_take(struct waits *w, const struct event_sample *s)
{
    struct bytes alike = alike_part(s);
    uint64_t hash = hash_mix(hash_bytes(alike.data, alike.len), hash_mix(s->tgid, s->start_ns));
    ref r = place_find(w, s, hash);

    if (r == 0)
        r = place_add(w, s, hash);
    if (r != 0)
        place_at(w, r)->users++;
    else
        w->no_room++;
    return r;
}

static void place_give(struct waits *w, ref r)
{
    struct place *p;
    ref *at;

    if (r == 0)
        return;
    p = place_at(w, r);
    if (--p->users > 0)
        return;
    for (at = &w->place_heads[p->hash % HEADS]; *at != r;)
        at = &place_at(w, *at)->next;
    *at = p->next;
    budget_free(&w->budget, p->sample, p->sample->head.size);
    *p = (struct place){.next = w->free_place};
    w->free_place = r;
    w->n_places--;
}

/* Threads. */

static struct waiter *waiter_at(struct waits *w, ref r)
{
    return &w->waiters.data[r - 1];
}

static ref *waiter_head(struct waits *w, uint32_t tid)
{
    return &w->waiter_heads[hash_mix(tid, 1) % HEADS];
}

static struct waiter *waiter_find(struct waits *w, uint32_t tgid, uint32_t tid)
{
    for (ref r = *waiter_head(w, tid); r != 0; r = waiter_at(w, r)->next) {
        if (waiter_at(w, r)->tid == tid && waiter_at(w, r)->tgid == tgid)
            return waiter_at(w, r);
    }
    return NULL;
}

static struct waiter *waiter_add(struct waits *w, uint32_t tgid, uint32_t tid)
{
    ref r = w->free_waiter, *head = waiter_head(w, tid);

    if (w->n_waiters >= w->threads_max)
        return NULL;
    if (r != 0) {
        w->free_waiter = waiter_at(w, r)->next;
    } else {
        if (!vec_push(&w->budget, &w->waiters, (struct waiter){0}))
            return NULL;
        r = (ref)w->waiters.len;
    }
    *waiter_at(w, r) = (struct waiter){.tid = tid, .tgid = tgid, .next = *head, .is_used = true};
    *head = r;
    w->n_waiters++;
    return waiter_at(w, r);
}

static void count_place(struct waits *w, enum waits_type type, ref r, uint32_t tid, uint64_t ns)
{
    struct event_sample *s = place_at(w, r)->sample;

    s->tid = tid;
    if (ns > 0)
        w->calls.count(w->calls.arg, type, s, ns);
}

/* Counts what was said again and again at once: most threads never move. */
static void waiter_settle(struct waits *w, struct waiter *t)
{
    if (t->again_ns > 0)
        count_place(w, WAITS_WALL, t->wall, t->tid, t->again_ns);
    t->again_ns = 0;
}

static void waiter_drop(struct waits *w, ref r)
{
    struct waiter *t = waiter_at(w, r);
    ref *at = waiter_head(w, t->tid);

    waiter_settle(w, t);
    place_give(w, t->wall);
    place_give(w, t->off);
    while (*at != r)
        at = &waiter_at(w, *at)->next;
    *at = t->next;
    *t = (struct waiter){.next = w->free_waiter};
    w->free_waiter = r;
    w->n_waiters--;
}

/* Counting. */

static void count_state(struct waits *w, uint32_t tgid, unsigned state, uint64_t ns)
{
    ref *head = &w->state_heads[hash_mix(tgid, 2) % HEADS], r = *head;

    if (state >= THREAD_STATES || !w->calls.threads)
        return;
    while (r != 0 && w->states.data[r - 1].tgid != tgid)
        r = w->states.data[r - 1].next;
    if (r == 0) {
        if (w->states.len >= PROCESSES_MAX ||
            !vec_push(&w->budget, &w->states, (struct process_states){.tgid = tgid, .next = *head}))
            return;
        r = *head = (ref)w->states.len;
    }
    w->states.data[r - 1].ns[state] += ns;
}

/* A wait begins, or is first heard of; what was before it is over (its end was lost). */
static void begin_wait(struct waits *w, struct waiter *t, const struct event_sample *s)
{
    ref place = place_take(w, s);

    place_give(w, t->off);
    t->off = place;
    t->wait = s->wait;
    t->since_ns = s->time_ns;
    t->counted_ns = 0;
}

static void take_sample(struct waits *w, const struct event_sample *s)
{
    struct waiter *t = waiter_find(w, s->tgid, s->tid);

    if (!t)
        t = waiter_add(w, s->tgid, s->tid);
    if (s->kind == SAMPLE_WALL) {
        count_state(w, s->tgid, s->state, s->value_ns);
        w->calls.count(w->calls.arg, WAITS_WALL, s, s->value_ns);
    }
    if (!t) {
        w->no_room++;
        return;
    }
    t->seen_ns = w->now_ns;
    if (s->kind == SAMPLE_WALL) {
        ref place = place_take(w, s);

        waiter_settle(w, t);
        place_give(w, t->wall);
        t->wall = place;
    }
    if (s->wait != 0)
        begin_wait(w, t, s);
}

static void miss(struct waits *w, uint64_t ns)
{
    w->unknown++;
    w->unknown_ns += ns;
}

static void take_repeat(struct waits *w, const struct event_repeat *e)
{
    struct waiter *t = waiter_find(w, e->tgid, e->tid);

    if (t)
        t->seen_ns = w->now_ns;
    if (e->head.flags & REPEAT_STILL_WAITS)
        return;
    count_state(w, e->tgid, e->head.flags & REPEAT_STATE, e->value_ns);
    if (e->head.flags & REPEAT_ONLY_STATE)
        return;
    if (t && t->wall != 0)
        t->again_ns += e->value_ns;
    else
        miss(w, e->value_ns);
}

/* A wait of 10 ms that was walked by a chance of 1/8 stands for 80 ms. */
static uint64_t weighted(uint64_t waited_ns, uint32_t chance)
{
    unsigned __int128 v = (unsigned __int128)waited_ns * CHANCE_ONE / (chance ? chance : 1);

    return v > INT64_MAX ? INT64_MAX : (uint64_t)v;
}

static void take_end(struct waits *w, const struct event_wait_end *e)
{
    struct waiter *t = waiter_find(w, e->tgid, e->tid);
    uint64_t ns = weighted(e->waited_ns, e->chance);

    if (!t || t->off == 0 || t->wait != e->wait) {
        miss(w, ns);
        return;
    }
    t->seen_ns = w->now_ns;
    count_place(w, WAITS_OFF_CPU, t->off, t->tid, ns > t->counted_ns ? ns - t->counted_ns : 0);
    place_give(w, t->off);
    t->off = 0;
}

static bool is_whole(const struct event_sample *s)
{
    return s->head.size >= sizeof(*s) &&
           s->head.size - sizeof(*s) >=
               8 * ((size_t)s->n_kernel + s->n_user) + (size_t)s->attrs_len;
}

static bool take_if_ours(struct waits *w, const struct event_sample *s)
{
    if (!is_whole(s) || (s->kind != SAMPLE_WALL && s->kind != SAMPLE_OFF_CPU))
        return false;
    if (s->time_ns > w->now_ns)
        w->now_ns = s->time_ns;
    take_sample(w, s);
    return true;
}

static void note_process(struct waits *w, const struct event_process *e)
{
    if (e->event == PROCESS_EVENT_EXIT && w->ended.len < PROCESSES_MAX)
        vec_push(&w->budget, &w->ended, (struct ended_process){e->tgid, e->start_ns});
}

bool waits_event(struct waits *w, const struct event_head *e)
{
    const void *event = e; /* aligned as all in the ring are: to 8 bytes */

    switch (e->kind) {
    case EVENT_SAMPLE:
        return take_if_ours(w, event);
    case EVENT_REPEAT:
        take_repeat(w, event);
        return true;
    case EVENT_WAIT_END:
        take_end(w, event);
        return true;
    case EVENT_PROCESS:
        note_process(w, event);
        return false;
    default:
        return false;
    }
}

/* Windows. */

static int by_process(const void *a, const void *b)
{
    const struct ended_process *x = a, *y = b;

    if (x->tgid != y->tgid)
        return x->tgid < y->tgid ? -1 : 1;
    return x->start_ns == y->start_ns ? 0 : x->start_ns < y->start_ns ? -1 : 1;
}

static bool has_ended(struct waits *w, const struct waiter *t)
{
    struct ended_process key = {.tgid = t->tgid};
    ref place = t->wall ? t->wall : t->off;

    if (place == 0 || w->ended.len == 0)
        return false;
    key.start_ns = place_at(w, place)->sample->start_ns;
    return bsearch(&key, w->ended.data, w->ended.len, sizeof(key), by_process) != NULL;
}

/* What has passed counts once, whatever the end of the wait will say. */
static void count_so_far(struct waits *w, struct waiter *t)
{
    uint64_t lasted = w->now_ns > t->since_ns ? w->now_ns - t->since_ns : 0;

    if (t->off == 0 || lasted <= t->counted_ns)
        return;
    count_place(w, WAITS_OFF_CPU, t->off, t->tid, lasted - t->counted_ns);
    t->counted_ns = lasted;
}

static void tell_states(struct waits *w)
{
    for (size_t i = 0; i < w->states.len; i++)
        w->calls.threads(w->calls.arg, w->states.data[i].tgid, w->states.data[i].ns);
    if (w->states.len > 0)
        memset(w->state_heads, 0, sizeof(w->state_heads));
    vec_clear(&w->states);
}

void waits_end_window(struct waits *w, uint64_t now_ns)
{
    if (now_ns > w->now_ns)
        w->now_ns = now_ns;
    if (w->ended.len > 1)
        qsort(w->ended.data, w->ended.len, sizeof(*w->ended.data), by_process);
    for (size_t i = 0; i < w->waiters.len; i++) {
        struct waiter *t = &w->waiters.data[i];

        if (!t->is_used)
            continue;
        waiter_settle(w, t);
        if (has_ended(w, t) || w->now_ns - t->seen_ns > FORGET_NS)
            waiter_drop(w, (ref)i + 1);
        else
            count_so_far(w, t);
    }
    vec_clear(&w->ended);
    tell_states(w);
}

void waits_stats(const struct waits *w, struct waits_stats *ret)
{
    *ret = (struct waits_stats){
        .threads = w->n_waiters,
        .places = w->n_places,
        .bytes = w->budget.used + sizeof(*w),
        .no_room = w->no_room,
        .unknown = w->unknown,
        .unknown_ns = w->unknown_ns,
    };
}
