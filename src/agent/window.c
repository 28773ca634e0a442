#include "agent/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/must.h"

struct window *window_new(size_t memory_max, int64_t start_unix_ns)
{
    struct window *w = must_calloc(1, sizeof(*w));

    budget_init(&w->budget, memory_max);
    arena_init(&w->arena, &w->budget);
    w->start_unix_ns = start_unix_ns;
    return w;
}

void window_free(struct window *w)
{
    if (!w)
        return;
    idset_done(&w->budget, &w->index);
    vec_done(&w->budget, &w->rows);
    arena_done(&w->arena);
    free(w);
}

static uint64_t hash_of(const struct window_sample *s)
{
    uint64_t h = hash_mix((uint64_t)(uintptr_t)s->process,
                          (uint64_t)s->kind << 32 | (uint64_t)s->end << 16 | s->state);

    h = hash_mix(h, hash_bytes(s->places, s->n_places * sizeof(place)));
    if (s->span.is_set)
        h = hash_mix(h, hash_bytes(&s->span, sizeof(s->span)));
    if (s->attrs_len > 0)
        h = hash_mix(h, hash_bytes(s->attrs, s->attrs_len));
    h = hash_mix(h, (uint64_t)s->tid << 32 | s->cpu);
    h = hash_mix(h, s->time_ns);
    return s->comm[0] ? hash_mix(h, hash_bytes(s->comm, sizeof(s->comm))) : h;
}

static bool is_equal(const struct window_sample *a, const struct window_sample *b)
{
    return a->process == b->process && a->kind == b->kind && a->n_places == b->n_places &&
           a->n_kernel == b->n_kernel && a->end == b->end && a->state == b->state &&
           a->is_young == b->is_young && a->attrs_len == b->attrs_len && a->tid == b->tid &&
           a->cpu == b->cpu && a->time_ns == b->time_ns &&
           memcmp(a->comm, b->comm, sizeof(a->comm)) == 0 &&
           memcmp(&a->span, &b->span, sizeof(a->span)) == 0 &&
           memcmp(a->places, b->places, a->n_places * sizeof(place)) == 0 &&
           (a->attrs_len == 0 || memcmp(a->attrs, b->attrs, a->attrs_len) == 0);
}

static struct window_row *add_new(struct window *w, const struct window_sample *s, uint64_t hash)
{
    struct window_row row = {.sample = *s, .hash = hash, .count = 1};
    place *places = arena_new(&w->arena, place, s->n_places);
    uint8_t *attrs = arena_new(&w->arena, uint8_t, s->attrs_len);

    if (!places || !attrs || !vec_reserve(&w->budget, &w->rows, 1) ||
        !idset_add(&w->budget, &w->index, hash, (uint32_t)w->rows.len))
        return NULL;
    memcpy(places, s->places, s->n_places * sizeof(place));
    if (s->attrs_len > 0)
        memcpy(attrs, s->attrs, s->attrs_len);
    row.sample.places = places;
    row.sample.attrs = attrs;
    w->rows.data[w->rows.len] = row;
    return &w->rows.data[w->rows.len++];
}

struct window_row *window_add(struct window *w, const struct window_sample *s, bool *ret_is_new)
{
    uint64_t hash = hash_of(s);
    uint32_t id = IDSET_FIND(&w->index, hash, i, is_equal(&w->rows.data[i].sample, s));

    *ret_is_new = false;
    if (id != IDSET_NONE) {
        struct window_row *row = &w->rows.data[id];
        row->sample.value += s->value;
        row->count++;
        w->samples++;
        return row;
    }
    struct window_row *row = budget_failed(&w->budget) ? NULL : add_new(w, s, hash);
    if (!row) {
        w->left_out++;
        return NULL;
    }
    w->samples++;
    *ret_is_new = true;
    return row;
}
