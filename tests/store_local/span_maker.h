#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/random.h"
#include "store/store.h"

/*
 * Spans as a system of services makes them: traces of a few levels, names that repeat, routes,
 * status codes, statements, some attributes that never repeat, times in nanoseconds.
 */
struct span_maker {
    struct budget budget;
    struct arena arena;
    struct random random;
    int64_t now_ns;
    uint64_t gap_ns; /* between traces, at most */
    VEC(struct store_span) spans;
};

static inline void span_maker_init(struct span_maker *m, uint64_t seed, int64_t start_ns)
{
    *m = (struct span_maker){.now_ns = start_ns, .gap_ns = 3000000};
    budget_init(&m->budget, SIZE_MAX / 2);
    arena_init(&m->arena, &m->budget);
    random_init(&m->random, seed);
}

static inline void span_maker_done(struct span_maker *m)
{
    vec_done(&m->budget, &m->spans);
    arena_done(&m->arena);
}

static inline struct bytes maker_text(struct span_maker *m, const char *before, uint64_t v)
{
    char text[128];

    snprintf(text, sizeof(text), "%s%llu", before, (unsigned long long)v);
    return bytes_of(arena_strdup(&m->arena, bytes_of(text)));
}

/* Durations spread over orders of magnitude. */
static inline int64_t maker_duration(struct span_maker *m)
{
    uint64_t magnitude = 14 + random_below(&m->random, 13);

    return (int64_t)(random_u64(&m->random) >> (64 - magnitude));
}

static inline struct store_span maker_span(struct span_maker *m, const struct store_span *parent)
{
    static const char *const methods[] = {"GET", "GET", "GET", "POST", "PUT"};
    uint64_t service = random_below(&m->random, 20), op = random_below(&m->random, 12), id;
    struct store_span s = {
        .service = maker_text(m, "service-", service),
        .name = maker_text(m, "operation ", service * 12 + op),
        .start_ns = m->now_ns,
        .duration_ns = maker_duration(m),
        .kind = (uint8_t)(1 + op % 3),
        .status = random_below(&m->random, 50) == 0 ? 2 : 0,
    };
    struct label *labels = arena_new(&m->arena, struct label, 5);

    id = random_u64(&m->random);
    memcpy(s.span_id, &id, 8);
    for (size_t i = 0; i < 16; i += 8) {
        id = random_u64(&m->random);
        memcpy(s.trace_id + i, &id, 8);
    }
    if (parent) {
        memcpy(s.trace_id, parent->trace_id, 16);
        memcpy(s.parent_id, parent->span_id, 8);
        s.start_ns = parent->start_ns + (int64_t)random_below(&m->random, 20000000);
    }
    labels[0] = (struct label){BYTES("http.request.method"), bytes_of(methods[op % 5])};
    labels[1] = (struct label){BYTES("http.route"),
                               maker_text(m, "/api/v1/things/{id}/", service * 12 + op)};
    labels[2] = (struct label){BYTES("http.response.status_code"),
                               s.status == 2 ? BYTES("500") : BYTES("200")};
    labels[3] = (struct label){BYTES("server.address"),
                               maker_text(m, "10.1.", random_below(&m->random, 30))};
    labels[4] =
        (struct label){BYTES("user.id"), maker_text(m, "u", random_below(&m->random, 100000))};
    s.attributes = labels;
    s.n_attributes = op % 3 == 0 ? 5 : op % 3 == 1 ? 4 : 2;
    return s;
}

/* Adds traces until there are at least n spans. */
static inline void span_maker_add(struct span_maker *m, size_t n)
{
    while (m->spans.len < n) {
        size_t first = m->spans.len, size = 1 + random_below(&m->random, 12);
        m->now_ns += (int64_t)random_below(&m->random, m->gap_ns);
        for (size_t i = 0; i < size; i++) {
            struct store_span parent =
                i ? m->spans.data[first + random_below(&m->random, i)] : (struct store_span){0};
            if (!vec_push(&m->budget, &m->spans, maker_span(m, i ? &parent : NULL)))
                abort();
        }
    }
}

static inline bool span_equal(const struct store_span *a, const struct store_span *b)
{
    if (!bytes_equal(a->service, b->service) || !bytes_equal(a->name, b->name) ||
        memcmp(a->trace_id, b->trace_id, 16) != 0 || memcmp(a->span_id, b->span_id, 8) != 0 ||
        memcmp(a->parent_id, b->parent_id, 8) != 0 || a->start_ns != b->start_ns ||
        a->duration_ns != b->duration_ns || a->kind != b->kind || a->status != b->status ||
        a->n_attributes != b->n_attributes)
        return false;
    for (size_t i = 0; i < a->n_attributes; i++) {
        if (!bytes_equal(a->attributes[i].name, b->attributes[i].name) ||
            !bytes_equal(a->attributes[i].value, b->attributes[i].value))
            return false;
    }
    return true;
}
