#include "inproc/inproc_window.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/idset.h"
#include "base/must.h"
#include "base/vec.h"
#include "inproc/weight.h"

#define ROWS_MEMORY       ((size_t)64 << 20)
#define WINDOW_DEFAULT_NS ((uint64_t)10 * 1000 * 1000 * 1000)
/* The first steps in which a life is judged, as parts of a window, and the last, in windows. */
#define LIFE_FIRST        40
#define LIFE_LAST         360

/* Leaks are looked for twice: in the last windows, and over the whole life. */
enum { LEAKS_OF_WINDOWS, LEAKS_OF_LIFE, LEAKS };

/* What makes a row: all of it is compared as bytes, so there is no room between fields. */
struct row_key {
    uint32_t kind, what;
    uint32_t stack, other, labels, thread_name; /* texts of the reader */
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

struct row {
    struct row_key key;
    uint64_t samples;
    double count, amount;
};

struct inproc_window {
    struct segment_reader *reader;
    struct inproc_window_options o;
    struct budget budget;
    struct leaks *leaks[LEAKS];

    struct idset index;
    VEC(struct row) rows;

    struct segment_counters counters; /* at the end of this window, or of the last one */
    struct segment_doubts doubts;     /* the same */
    struct inproc_losses losses;
    bool is_gone;
};

/* Stacks by their innermost frames, 8, 4, 2 and 1. */
static uint64_t place_of(void *arg, uint32_t stack, unsigned level)
{
    const struct inproc_window *w = arg;
    const struct segment_text *t = segment_reader_get(w->reader, stack);
    size_t most = (size_t)64 >> (level - 1);

    return hash_bytes(t->data, t->size < most ? t->size : most);
}

struct inproc_window *inproc_window_new(struct segment_reader *r,
                                        const struct inproc_window_options *o)
{
    struct inproc_window *w = must_calloc(1, sizeof(*w));

    w->reader = r;
    w->o = *o;
    budget_init(&w->budget, o->max_memory ? o->max_memory / 2 : ROWS_MEMORY);
    uint64_t window = o->window_ns ? o->window_ns : WINDOW_DEFAULT_NS;
    struct leaks_options l = {.windows = o->leak_windows,
                              .window_ns = window,
                              .max_memory = o->max_memory / 4,
                              .place = place_of,
                              .place_arg = w};
    w->leaks[LEAKS_OF_WINDOWS] = leaks_new(&l);
    l.step_ns = window / LIFE_FIRST;
    l.step_max_ns = window * LIFE_LAST;
    w->leaks[LEAKS_OF_LIFE] = leaks_new(&l);
    return w;
}

void inproc_window_free(struct inproc_window *w)
{
    if (!w)
        return;
    idset_done(&w->budget, &w->index);
    vec_done(&w->budget, &w->rows);
    for (size_t i = 0; i < LEAKS; i++)
        leaks_free(w->leaks[i]);
    free(w);
}

void inproc_window_begin_within(struct inproc_window *w, size_t reader_memory, size_t max_memory)
{
    idset_done(&w->budget, &w->index);
    vec_done(&w->budget, &w->rows);
    w->losses = (struct inproc_losses){0};
    if (max_memory > 0)
        w->budget.limit = max_memory / 2;
    bool is_anew = segment_reader_renew(w->reader, reader_memory);
    w->losses.restarted = is_anew && (w->counters.wanted & PRELOAD_WANTS(PRELOAD_LIVE));
    for (size_t i = 0; i < LEAKS; i++) {
        if (is_anew)
            leaks_restart(w->leaks[i]);
        if (max_memory > 0)
            leaks_set_memory(w->leaks[i], max_memory / 4);
    }
}

void inproc_window_begin(struct inproc_window *w)
{
    inproc_window_begin_within(w, 0, 0);
}

/* ---- Adding up ---- */

static struct row *row_of(struct inproc_window *w, const struct row_key *key)
{
    uint64_t hash = hash_bytes(key, sizeof(*key));
    uint32_t id =
        IDSET_FIND(&w->index, hash, i, memcmp(&w->rows.data[i].key, key, sizeof(*key)) == 0);

    if (id != IDSET_NONE)
        return &w->rows.data[id];
    /* Tables grow by doubling: what is left must be enough for each of them. */
    if (w->budget.used > w->budget.limit / 2 ||
        !idset_add(&w->budget, &w->index, hash, (uint32_t)w->rows.len) ||
        !vec_push(&w->budget, &w->rows, (struct row){.key = *key})) {
        w->losses.left_out++;
        return NULL;
    }
    return &vec_last(&w->rows);
}

static void add_to(struct row *row, uint64_t value, uint32_t rate)
{
    double p = weight_chance(value, rate);

    if (!row)
        return;
    row->samples++;
    row->count += 1 / p;
    row->amount += (double)value / p;
}

static void take_record(void *arg, const struct preload_record *r)
{
    struct inproc_window *w = arg;
    struct row_key key = {.kind = r->kind,
                          .what = r->what,
                          .stack = segment_reader_text(w->reader, r->stack, PRELOAD_TEXT_STACK),
                          .labels = segment_reader_text(w->reader, r->labels, PRELOAD_TEXT_LABELS)};

    if (w->o.by_thread)
        key.thread_name = segment_reader_text(w->reader, r->thread_name, PRELOAD_TEXT_STRING);
    if (r->kind == PRELOAD_LOCK)
        key.other = segment_reader_text(w->reader, r->other, PRELOAD_TEXT_STACK);
    if (r->kind == PRELOAD_CUSTOM)
        key.other = segment_reader_text(w->reader, r->other, PRELOAD_TEXT_STRING);
    memcpy(key.trace_id, r->trace_id, sizeof(key.trace_id));
    memcpy(key.span_id, r->span_id, sizeof(key.span_id));
    add_to(row_of(w, &key), r->value, r->rate);
}

static void take_live(void *arg, uint64_t address, const struct preload_live *live)
{
    struct inproc_window *w = arg;
    struct row_key key = {.kind = PRELOAD_LIVE,
                          .what = live->what,
                          .stack = segment_reader_text(w->reader, live->stack, PRELOAD_TEXT_STACK),
                          .labels =
                              segment_reader_text(w->reader, live->labels, PRELOAD_TEXT_LABELS)};

    (void)address;
    add_to(row_of(w, &key), live->size, live->rate);
}

struct snapshot {
    struct inproc_window *window;
    bool is_due[LEAKS];
};

static void take_snapshot(void *arg, uint64_t address, const struct preload_live *live)
{
    const struct snapshot *s = arg;
    uint32_t stack = segment_reader_text(s->window->reader, live->stack, PRELOAD_TEXT_STACK);

    (void)address;
    for (size_t i = 0; i < LEAKS; i++)
        if (s->is_due[i] && stack != 0)
            leaks_add(s->window->leaks[i], stack, live->size, live->rate, live->time_ns);
}

/* Looks at live memory for leaks, when it is time to. */
static int look_for_leaks(struct inproc_window *w, uint64_t now_ns, struct error *err)
{
    struct snapshot s = {.window = w};
    struct segment_counters c;
    bool any = false;

    for (size_t i = 0; i < LEAKS; i++)
        any |= s.is_due[i] = leaks_is_due(w->leaks[i], now_ns);
    int r = any ? segment_reader_counters(w->reader, &c, err) : 0;
    if (r < 0 || !any || c.is_over || !(c.wanted & PRELOAD_WANTS(PRELOAD_LIVE)))
        return r;
    for (size_t i = 0; i < LEAKS; i++)
        if (s.is_due[i])
            leaks_begin(w->leaks[i], now_ns);
    r = segment_reader_live(w->reader, take_snapshot, &s, err);
    for (size_t i = 0; i < LEAKS; i++)
        if (s.is_due[i])
            leaks_end(w->leaks[i]);
    return r;
}

/* ---- The course of a window ---- */

ssize_t inproc_window_poll(struct inproc_window *w, uint64_t now_ns, bool is_gone,
                           struct error *err)
{
    ssize_t n = segment_reader_drain(w->reader, now_ns, is_gone, take_record, w, err);

    w->is_gone = is_gone;
    /* What a program frees at its end says nothing about leaks: the last look while it ran counts.
     */
    int r = n < 0 || is_gone ? 0 : look_for_leaks(w, now_ns, err);
    return r < 0 ? r : n;
}

static void take_losses(struct inproc_window *w, const struct segment_counters *before)
{
    const struct segment_doubts *d = segment_reader_doubts(w->reader);
    struct inproc_losses *l = &w->losses;

    for (size_t i = 0; i < PRELOAD_LOSSES; i++)
        if (w->counters.lost[i] > before->lost[i])
            l->lost[i] = w->counters.lost[i] - before->lost[i];
    l->unfinished = d->unfinished - w->doubts.unfinished;
    l->unsound = d->bad_records - w->doubts.bad_records + d->bad_texts - w->doubts.bad_texts +
                 d->bad_modules - w->doubts.bad_modules + d->bad_live - w->doubts.bad_live;
    l->left_out += d->no_room - w->doubts.no_room;
    for (size_t i = 0; i < LEAKS; i++)
        if (leaks_unfollowed(w->leaks[i]) > l->unfollowed)
            l->unfollowed = leaks_unfollowed(w->leaks[i]);
    w->doubts = *d;
}

int inproc_window_end(struct inproc_window *w, uint64_t now_ns, bool is_gone, struct error *err)
{
    struct segment_counters before = w->counters;
    ssize_t n = inproc_window_poll(w, now_ns, is_gone, err);
    int r = n < 0 ? (int)n : 0, next;

    next = segment_reader_read_modules(w->reader, r < 0 ? NULL : err);
    r = r < 0 ? r : next;
    next = segment_reader_live(w->reader, take_live, w, r < 0 ? NULL : err);
    r = r < 0 ? r : next;
    next = segment_reader_counters(w->reader, &w->counters, r < 0 ? NULL : err);
    r = r < 0 ? r : next;
    take_losses(w, &before);
    return r;
}

/* ---- Rows ---- */

static bool is_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

size_t inproc_window_addresses(const struct inproc_window *w, uint32_t stack,
                               uint64_t to[PRELOAD_FRAMES_MAX])
{
    const struct segment_text *t = segment_reader_get(w->reader, stack);
    size_t n = t->kind == PRELOAD_TEXT_STACK ? t->size / 8 : 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t address;
        memcpy(&address, t->data + 8 * i, 8);
        /* A return address may be of the next line, or of the next function. */
        to[i] = address & PRELOAD_EXACT ? address & ~PRELOAD_EXACT : address - (address > 0);
    }
    return n;
}

static struct bytes text_of(const struct inproc_window *w, uint32_t text)
{
    const struct segment_text *t = segment_reader_get(w->reader, text);

    return (struct bytes){t->data, t->size};
}

/* Whether the verdict is not an early one. */
static bool tells(const struct inproc_window *w, size_t which)
{
    return w->is_gone || w->counters.is_over || leaks_is_settled(w->leaks[which]);
}

static const struct leak_suspect *suspect_of(const struct inproc_window *w, uint32_t stack)
{
    const struct leak_suspect *found = NULL;

    for (size_t i = 0; i < LEAKS && !found; i++)
        found = tells(w, i) ? leaks_find(w->leaks[i], stack) : NULL;
    return found;
}

const struct leak_suspect *inproc_window_suspect(const struct inproc_window *w, size_t n)
{
    size_t counts[LEAKS];
    const struct leak_suspect *of_windows = leaks_suspects(w->leaks[LEAKS_OF_WINDOWS], &counts[0]);
    const struct leak_suspect *of_life = leaks_suspects(w->leaks[LEAKS_OF_LIFE], &counts[1]);

    counts[0] = tells(w, LEAKS_OF_WINDOWS) ? counts[0] : 0;
    counts[1] = tells(w, LEAKS_OF_LIFE) ? counts[1] : 0;
    if (n < counts[0])
        return &of_windows[n];
    n -= counts[0];
    for (size_t i = 0; i < counts[1]; i++) {
        bool is_told = counts[0] > 0 && leaks_find(w->leaks[LEAKS_OF_WINDOWS], of_life[i].stack);
        if (!is_told && n-- == 0)
            return &of_life[i];
    }
    return NULL;
}

void inproc_window_rows(const struct inproc_window *w, inproc_row_fn fn, void *arg)
{
    uint64_t stack[PRELOAD_FRAMES_MAX], holder[PRELOAD_FRAMES_MAX];

    for (size_t i = 0; i < w->rows.len; i++) {
        const struct row *r = &w->rows.data[i];
        const struct row_key *k = &r->key;
        bool has_span = !is_zero(k->trace_id, 16) && !is_zero(k->span_id, 8);
        struct inproc_row row = {.kind = k->kind,
                                 .what = k->what,
                                 .samples = r->samples,
                                 .count = r->count,
                                 .amount = r->amount,
                                 .addresses = stack,
                                 .n_addresses = inproc_window_addresses(w, k->stack, stack),
                                 .flags = segment_reader_get(w->reader, k->stack)->flags,
                                 .has_no_stack = k->stack == 0,
                                 .thread_name = text_of(w, k->thread_name),
                                 .labels = text_of(w, k->labels),
                                 .trace_id = has_span ? k->trace_id : NULL,
                                 .span_id = has_span ? k->span_id : NULL};
        if (k->kind == PRELOAD_LOCK) {
            row.holder = holder;
            row.n_holder = inproc_window_addresses(w, k->other, holder);
        }
        if (k->kind == PRELOAD_CUSTOM)
            row.name = text_of(w, k->other);
        if (k->kind == PRELOAD_LIVE)
            row.suspect = suspect_of(w, k->stack);
        fn(arg, &row);
    }
}

const struct inproc_losses *inproc_window_losses(const struct inproc_window *w)
{
    return &w->losses;
}

bool inproc_losses_any(const struct inproc_losses *l)
{
    uint64_t sum = l->unfinished | l->unsound | l->left_out | l->unfollowed | l->restarted;

    for (size_t i = 0; i < PRELOAD_LOSSES; i++)
        sum |= l->lost[i];
    return sum != 0;
}

const struct segment_counters *inproc_window_counters(const struct inproc_window *w)
{
    return &w->counters;
}

struct segment_reader *inproc_window_reader(const struct inproc_window *w)
{
    return w->reader;
}
