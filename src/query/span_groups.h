#pragma once

#include "base/idset.h"
#include "store/store.h"

/*
 * Spans by service and name: how many, how long they took, what was sampled in them. Spans are
 * added one after the other and not kept, so memory follows the number of groups and not of spans:
 * durations go into classes of which no two limits are more than 1/16 apart, each with its own
 * mean. Percentiles are such means: exact where a class has one span, else off by less than 6 %.
 */
#define SPAN_GROUP_LEVELS  61
#define SPAN_GROUP_CLASSES 16

struct span_class {
    uint64_t count, sum_ns;
};

/* A span to look at. */
struct span_example {
    uint8_t trace_id[16], span_id[8];
    int64_t start_ns, duration_ns;
};

struct span_group {
    struct bytes service, name;
    uint64_t count, errors;
    int64_t total_ns; /* at most INT64_MAX */
    int64_t p50_ns, p95_ns, p99_ns;
    struct span_example newest, slowest;
    int64_t value; /* of samples taken in them; what the caller gave */
    struct span_class *levels[SPAN_GROUP_LEVELS];
};

enum span_order { SPANS_BY_COUNT, SPANS_BY_P99, SPANS_BY_TOTAL, SPANS_BY_ERRORS, SPANS_BY_VALUE };

struct span_groups {
    struct budget *budget;
    struct arena text;
    size_t max; /* groups */
    VEC(struct span_group) groups;
    struct idset index;
    uint64_t n_spans;
    uint64_t n_left_out; /* spans of groups that were too many */
};

void span_groups_init(struct span_groups *g, struct budget *budget, size_t max);
void span_groups_done(struct span_groups *g);

/* `value` is what was sampled in this span. False when the budget is spent. */
bool span_groups_add(struct span_groups *g, const struct store_span *s, int64_t value);

/* Works the percentiles out and puts the largest first. Nothing is added after that. */
void span_groups_rank(struct span_groups *g, enum span_order order);
