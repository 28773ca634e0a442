/*
 * Stacks, names and labels in the segment, each once. They are put into one half of their area
 * until it is full, then into the other, which is begun anew: by then records that mean its texts
 * have been read, and live memory has been given new ones, a few objects for each text that was put
 * since. Nobody waits: which half it is follows from the one counter that all take their room from.
 */
#include <string.h>

#include "preload/handover.h"
#include "preload/inside.h"
#include "preload/ring_file.h"

#define TEXT_SIZE_MAX (1u << 16)

static uint64_t *place_of(const struct segment *s, uint64_t number)
{
    return s->texts + (number & (2 * s->texts_half - 1));
}

static size_t words_of(const struct preload_text *t)
{
    return (sizeof(*t) + t->size + 7) / 8;
}

/* 0: a text of the half that is being written. texts_half: of the other one. */
static uint32_t age_of(const struct segment *s, uint32_t number)
{
    uint64_t used = __atomic_load_n(&s->header->texts_used, __ATOMIC_RELAXED);
    return preload_text_age(number, used, s->texts_half);
}

/* A text that is to be put, or looked for. */
struct wanted {
    struct preload_text text; /* its check is yet to come */
    const void *bytes;
    uint64_t hash;
    bool is_carried;
};

static struct preload_text numbered(const struct wanted *w, uint32_t number)
{
    struct preload_text t = w->text;
    t.check = preload_text_check(w->hash, number);
    return t;
}

static bool is_here(const struct segment *s, uint32_t number, const struct wanted *w)
{
    if (number == 0 || age_of(s, number) != 0)
        return false;
    const uint64_t *at = place_of(s, number);
    struct preload_text t = numbered(w, number);
    return memcmp(at, &t, sizeof(t)) == 0 && memcmp(at + sizeof(t) / 8, w->bytes, t.size) == 0;
}

/* ---- Putting one ---- */

/* Live memory has nothing in the other half any more. */
static bool is_carried_over(const struct segment *s, uint64_t used)
{
    uint64_t done = __atomic_load_n(&s->texts_carried, __ATOMIC_RELAXED);
    return done >> 32 == (uint32_t)(used / s->texts_half) && (uint32_t)done > s->live_mask;
}

/* The other half may be begun anew when it was never used, or when every record was read that was
 * put before this half was begun, and all that is needed of it is in this one. */
static bool may_turn(const struct segment *s, uint64_t used)
{
    if (used < s->texts_half)
        return true;
    uint64_t turned = __atomic_load_n(&s->texts_turned, __ATOMIC_RELAXED);
    uint64_t read = __atomic_load_n(&s->header->ring_tail, __ATOMIC_ACQUIRE);
    return (int64_t)(read - turned) >= 0 && is_carried_over(s, used);
}

/* Where a text of so many words goes; 0 when there is no room. What is carried over leaves the last
 * eighth of a half to others. The first word of a half is not used, so that no number is 0, nor
 * the last, so that the counter says which half it is. */
static uint64_t find_room(const struct segment *s, uint64_t used, size_t words, bool is_carried)
{
    size_t half = s->texts_half, at = used & (half - 1);
    if (used == 0 || words + 2 > half || (is_carried && at + words > half / 8 * 7))
        return 0;
    if (at + words < half)
        return used;
    return may_turn(s, used) ? (used | (half - 1)) + 2 : 0;
}

static uint32_t append(struct segment *s, const struct wanted *w)
{
    struct preload_header *h = s->header;
    size_t words = words_of(&w->text);
    uint64_t used = __atomic_load_n(&h->texts_used, __ATOMIC_RELAXED), at;
    do {
        at = find_room(s, used, words, w->is_carried);
        if (at == 0) {
            segment_lost(PRELOAD_LOSS_TEXTS);
            return 0;
        }
        if (!segment_may_write(place_of(s, at), words * 8))
            return 0;
    } while (!__atomic_compare_exchange_n(&h->texts_used, &used, at + words, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    if (at != used)
        __atomic_store_n(&s->texts_turned, __atomic_load_n(&h->ring_head, __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
    uint64_t *to = place_of(s, at);
    struct preload_text t = numbered(w, (uint32_t)at);
    to[words - 1] = 0;
    memcpy(to, &t, sizeof(t));
    memcpy(to + sizeof(t) / 8, w->bytes, t.size);
    return (uint32_t)at;
}

/* The number of a text of this generation; *ret_is_new: it was put just now. */
static uint32_t number_of(struct segment *s, const struct wanted *w, bool *ret_is_new)
{
    enum { PROBES = 8 };
    uint32_t made = 0;
    *ret_is_new = true;
    for (size_t i = 0; i < PROBES; i++) {
        uint32_t *place = &s->index[(w->hash + i) & s->index_mask];
        uint32_t number = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (number == 0 || age_of(s, number) != 0) {
            if (made == 0 && (made = append(s, w)) == 0)
                return 0;
            if (__atomic_compare_exchange_n(place, &number, made, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE))
                return made;
        }
        if (is_here(s, number, w)) {
            *ret_is_new = made != 0;
            return number;
        }
    }
    if (made == 0 && (made = append(s, w)) == 0)
        return 0;
    /* All places are taken. One is given up, at worst for another copy of its text. */
    __atomic_store_n(&s->index[(w->hash + (w->hash >> 40) % PROBES) & s->index_mask], made,
                     __ATOMIC_RELEASE);
    return made;
}

/* ---- Carrying over ---- */

/* The number that a text of the other half has in this one; 0 when it has none. */
static uint32_t number_here(struct segment *s, uint32_t old)
{
    const uint64_t *at = place_of(s, old);
    size_t left = s->texts_half - (old & (s->texts_half - 1));
    struct wanted w = {.bytes = at + sizeof(w.text) / 8, .is_carried = true};
    bool is_new;
    if (age_of(s, old) == s->texts_half && left > sizeof(w.text) / 8) {
        memcpy(&w.text, at, sizeof(w.text));
        if (w.text.size <= TEXT_SIZE_MAX && words_of(&w.text) <= left) {
            w.hash = preload_text_hash(&w.text, w.bytes);
            if (w.text.check == preload_text_check(w.hash, old))
                return number_of(s, &w, &is_new);
        }
    }
    segment_lost(PRELOAD_LOSS_TEXTS);
    return 0;
}

/* Objects come and go meanwhile: whoever has this number now is given the other one for it. */
static void carry_text(struct segment *s, __u32 *number)
{
    uint32_t old = __atomic_load_n(number, __ATOMIC_ACQUIRE);
    if (old != 0 && age_of(s, old) != 0)
        __atomic_compare_exchange_n(number, &old, number_here(s, old), false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
}

void texts_carry(struct preload_live *live)
{
    carry_text(&segment, &live->stack);
    carry_text(&segment, &live->labels);
}

/* The next part of the live table, as large as the part of a sixteenth of a half that was just put;
 * but not so much that whoever allocates would notice. */
static void carry_some(struct segment *s, size_t words)
{
    enum { AT_ONCE = 256 };
    uint64_t used = __atomic_load_n(&s->header->texts_used, __ATOMIC_RELAXED);
    uint32_t generation = (uint32_t)(used / s->texts_half);
    uint64_t n_live = s->live_mask + 1, n = words * n_live / (s->texts_half / 16) + 1;
    uint64_t done = __atomic_load_n(&s->texts_carried, __ATOMIC_RELAXED), from, to;
    if (generation == 0)
        return;
    n = n < AT_ONCE ? n : AT_ONCE;
    do {
        from = done >> 32 == generation ? (uint32_t)done : 0;
        to = from + n < n_live ? from + n : n_live;
        if (from == n_live)
            return;
    } while (!__atomic_compare_exchange_n(&s->texts_carried, &done, (uint64_t)generation << 32 | to,
                                          true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    for (uint64_t i = from; i < to; i++)
        if (ring_file_has(&s->keys[i], sizeof(s->keys[i]), false) &&
            __atomic_load_n(&s->keys[i], __ATOMIC_ACQUIRE) > 1)
            texts_carry(&s->live[i]);
}

uint32_t segment_text(enum preload_text_kind kind, const void *data, size_t n, uint16_t flags)
{
    if (n > TEXT_SIZE_MAX)
        return 0;
    struct wanted w = {.text = {.size = (uint32_t)n, .kind = (uint16_t)kind, .flags = flags},
                       .bytes = data};
    w.hash = preload_text_hash(&w.text, data);
    bool is_new;
    uint32_t number = number_of(&segment, &w, &is_new);
    if (number == 0 || is_new) /* also without room: it may be what room waits for */
        carry_some(&segment, words_of(&w.text));
    return number;
}

uint32_t segment_kept_text(uint32_t number)
{
    return age_of(&segment, number) == 0 ? number : 0;
}
