#include "query/span_groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define STATUS_ERROR 2 /* OTLP's */
#define CLASS_BITS   4

void span_groups_init(struct span_groups *g, struct budget *budget, size_t max)
{
    *g = (struct span_groups){.budget = budget, .max = max};
    arena_init(&g->text, budget);
}

void span_groups_done(struct span_groups *g)
{
    if (!g->budget)
        return;
    idset_done(g->budget, &g->index);
    vec_done(g->budget, &g->groups);
    arena_done(&g->text);
}

static uint64_t hash_of(const struct store_span *s)
{
    return hash_mix(hash_bytes(s->service.data, s->service.len),
                    hash_bytes(s->name.data, s->name.len));
}

static bool is_of(const struct span_group *g, const struct store_span *s)
{
    return bytes_equal(g->name, s->name) && bytes_equal(g->service, s->service);
}

static struct bytes keep(struct span_groups *g, struct bytes text)
{
    return (struct bytes){(const uint8_t *)arena_strdup(&g->text, text), text.len};
}

/* The span's group, made when it is new; NULL when it is one too many or there is no memory. */
static struct span_group *group_of(struct span_groups *g, const struct store_span *s)
{
    uint64_t hash = hash_of(s);
    uint32_t id = IDSET_FIND(&g->index, hash, i, is_of(&g->groups.data[i], s));
    struct span_group new = {0};

    if (id != IDSET_NONE)
        return &g->groups.data[id];
    if (g->groups.len == g->max) {
        g->n_left_out++;
        return NULL;
    }
    new.service = keep(g, s->service);
    new.name = keep(g, s->name);
    if (!new.service.data || !new.name.data || !vec_push(g->budget, &g->groups, new) ||
        !idset_add(g->budget, &g->index, hash, (uint32_t)g->groups.len - 1))
        return NULL;
    return &vec_last(&g->groups);
}

/* Level 0 has a class for each of 0..15 ns; the others halve the distance between powers of two
 * four times. */
static struct span_class *class_of(struct span_groups *g, struct span_group *group, uint64_t ns)
{
    size_t level = 0, at = (size_t)ns;

    if (ns >= SPAN_GROUP_CLASSES) {
        unsigned power = 63 - (unsigned)__builtin_clzll(ns);
        level = power - CLASS_BITS + 1;
        at = (ns >> (power - CLASS_BITS)) & (SPAN_GROUP_CLASSES - 1);
    }
    if (!group->levels[level])
        group->levels[level] = arena_new(&g->text, struct span_class, SPAN_GROUP_CLASSES);
    return group->levels[level] ? &group->levels[level][at] : NULL;
}

static struct span_example example_of(const struct store_span *s)
{
    struct span_example e = {.start_ns = s->start_ns, .duration_ns = s->duration_ns};

    memcpy(e.trace_id, s->trace_id, sizeof(e.trace_id));
    memcpy(e.span_id, s->span_id, sizeof(e.span_id));
    return e;
}

bool span_groups_add(struct span_groups *g, const struct store_span *s, int64_t value)
{
    uint64_t ns = s->duration_ns > 0 ? (uint64_t)s->duration_ns : 0;
    struct span_group *group = group_of(g, s);
    struct span_class *class = group ? class_of(g, group, ns) : NULL;

    g->n_spans++;
    if (!class)
        return !budget_failed(g->budget);
    class->count++;
    class->sum_ns += ns;
    if (__builtin_add_overflow(group->total_ns, (int64_t)ns, &group->total_ns))
        group->total_ns = INT64_MAX;
    if (group->count == 0 || s->start_ns > group->newest.start_ns)
        group->newest = example_of(s);
    if (group->count == 0 || s->duration_ns > group->slowest.duration_ns)
        group->slowest = example_of(s);
    group->count++;
    group->errors += s->status == STATUS_ERROR;
    group->value = (int64_t)((uint64_t)group->value + (uint64_t)value);
    return true;
}

/* The duration that `share` per mille of the spans do not pass. */
static int64_t percentile(const struct span_group *g, uint64_t per_mille)
{
    uint64_t rank = (g->count / 1000) * per_mille + ((g->count % 1000) * per_mille + 999) / 1000;
    uint64_t seen = 0;

    for (size_t i = 0; i < SPAN_GROUP_LEVELS; i++) {
        for (size_t k = 0; g->levels[i] && k < SPAN_GROUP_CLASSES; k++) {
            const struct span_class *c = &g->levels[i][k];
            seen += c->count;
            if (c->count > 0 && seen >= rank)
                return (int64_t)(c->sum_ns / c->count);
        }
    }
    return 0;
}

static int64_t weight(const struct span_group *g, enum span_order order)
{
    switch (order) {
    case SPANS_BY_P99:
        return g->p99_ns;
    case SPANS_BY_TOTAL:
        return g->total_ns;
    case SPANS_BY_ERRORS:
        return (int64_t)g->errors;
    case SPANS_BY_VALUE:
        return g->value;
    case SPANS_BY_COUNT:
        break;
    }
    return (int64_t)g->count;
}

static int by_weight(const void *a, const void *b, void *ctx)
{
    const struct span_group *x = a, *y = b;
    enum span_order order = *(enum span_order *)ctx;
    int64_t u = weight(x, order), v = weight(y, order);

    if (u != v)
        return u < v ? 1 : -1;
    int services = bytes_compare(x->service, y->service);
    return services != 0 ? services : bytes_compare(x->name, y->name);
}

void span_groups_rank(struct span_groups *g, enum span_order order)
{
    for (size_t i = 0; i < g->groups.len; i++) {
        struct span_group *group = &g->groups.data[i];
        group->p50_ns = percentile(group, 500);
        group->p95_ns = percentile(group, 950);
        group->p99_ns = percentile(group, 990);
    }
    if (g->groups.len > 1)
        qsort_r(g->groups.data, g->groups.len, sizeof(*g->groups.data), by_weight, &order);
}
