#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "query/json_answers.h"
#include "query/newest.h"
#include "query/span_groups.h"
#include "server/api_answer.h"
#include "server/server_internal.h"

/* Spans by service and name: where requests spend, before anybody looks at one. */

#define GROUPS          100
#define GROUPS_MAX      10000
#define EXEMPLARS_TAKEN 10000 /* the heaviest spans; what lies below them is not in `value` */

/* What was sampled in a span, of all profiles together. */
struct sampled {
    const struct link *link;
    int64_t value;
};

struct grouping {
    struct span_groups groups;
    struct newest exemplars; /* what `sampled` borrows from */
    VEC(struct sampled) sampled;
    struct idset index;
    struct budget *budget;
    struct error *err;
};

static void grouping_done(struct grouping *g)
{
    span_groups_done(&g->groups);
    if (g->budget) {
        vec_done(g->budget, &g->sampled);
        idset_done(g->budget, &g->index);
        newest_done(&g->exemplars);
    }
}

/* Profilers that know the span only leave the trace empty. */
static bool is_same(const struct link *l, const uint8_t trace[16], const uint8_t span[8])
{
    static const uint8_t none[16];
    return memcmp(l->span_id, span, sizeof(l->span_id)) == 0 &&
           (memcmp(l->trace_id, none, sizeof(none)) == 0 ||
            memcmp(l->trace_id, trace, sizeof(l->trace_id)) == 0);
}

static int take_samples(struct grouping *g, const struct query *q, struct error *err)
{
    int r = query_exemplars(q, EXEMPLARS_TAKEN, &g->exemplars, err);

    for (size_t i = 0; r == 0 && i < g->exemplars.exemplars.len; i++) {
        const struct exemplar *e = &g->exemplars.exemplars.data[i];
        uint64_t hash = hash_bytes(e->link.span_id, sizeof(e->link.span_id));
        uint32_t at =
            IDSET_FIND(&g->index, hash, id,
                       is_same(g->sampled.data[id].link, e->link.trace_id, e->link.span_id));
        if (at != IDSET_NONE) {
            struct sampled *s = &g->sampled.data[at];
            s->value = (int64_t)((uint64_t)s->value + (uint64_t)e->value);
            continue;
        }
        if (!vec_push(g->budget, &g->sampled, (struct sampled){&e->link, e->value}) ||
            !idset_add(g->budget, &g->index, hash, (uint32_t)g->sampled.len - 1))
            r = budget_error(g->budget, err);
    }
    return r;
}

static int on_span(void *ctx, const struct store_span *s)
{
    struct grouping *g = ctx;
    uint64_t hash = hash_bytes(s->span_id, sizeof(s->span_id));
    uint32_t at =
        IDSET_FIND(&g->index, hash, id, is_same(g->sampled.data[id].link, s->trace_id, s->span_id));
    int64_t value = at != IDSET_NONE ? g->sampled.data[at].value : 0;

    return span_groups_add(&g->groups, s, value) ? 0 : budget_error(g->budget, g->err);
}

static void write_example(struct json_writer *w, const char *key, const struct span_example *e)
{
    json_key(w, key);
    json_begin_object(w);
    json_id(w, "trace", e->trace_id, sizeof(e->trace_id));
    json_id(w, "span", e->span_id, sizeof(e->span_id));
    json_key(w, "start_ns");
    json_i64_string(w, e->start_ns);
    json_key(w, "duration_ns");
    json_i64_string(w, e->duration_ns);
    json_end_object(w);
}

static void put_ns(struct json_writer *w, const char *key, int64_t ns)
{
    json_key(w, key);
    json_i64_string(w, ns);
}

static void write_group(struct json_writer *w, const struct span_group *g, bool has_values)
{
    json_begin_object(w);
    json_key(w, "service");
    json_string(w, g->service);
    json_key(w, "name");
    json_string(w, g->name);
    json_key(w, "count");
    json_u64(w, g->count);
    json_key(w, "errors");
    json_u64(w, g->errors);
    put_ns(w, "p50_ns", g->p50_ns);
    put_ns(w, "p95_ns", g->p95_ns);
    put_ns(w, "p99_ns", g->p99_ns);
    put_ns(w, "max_ns", g->slowest.duration_ns);
    put_ns(w, "total_ns", g->total_ns);
    if (has_values) {
        json_key(w, "value");
        json_i64(w, g->value);
    }
    write_example(w, "newest", &g->newest);
    write_example(w, "slowest", &g->slowest);
    json_end_object(w);
}

static int reply_groups(struct api_query *q, const struct grouping *g, size_t limit,
                        bool has_values, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    struct json_writer w = {.out = &out};
    const struct span_groups *all = &g->groups;

    json_begin_object(&w);
    api_head(q, &w);
    json_key(&w, "spans");
    json_u64(&w, all->n_spans);
    json_key(&w, "left_out");
    json_u64(&w, all->n_left_out);
    json_key(&w, "has_values");
    json_bool(&w, has_values);
    if (has_values) {
        json_key(&w, "values_cut");
        json_bool(&w, g->exemplars.is_cut);
    }
    json_key(&w, "all_groups");
    json_u64(&w, all->groups.len);
    json_key(&w, "groups");
    json_begin_array(&w);
    for (size_t i = 0; i < all->groups.len && i < limit; i++)
        write_group(&w, &all->groups.data[i], has_values);
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(&out, '\n');
    if (buf_full(&out))
        return buf_error(&out, err);
    api_reply(q, "application/json", &out);
    return 0;
}

static int collect(struct api_query *q, struct grouping *g, bool has_values, struct error *err)
{
    const struct query *query = &q->query;
    const char *service = api_text(q, "service"), *name = api_text(q, "name");
    struct store_span_find find = {.tenant = query->tenant,
                                   .service = bytes_of(service ? service : ""),
                                   .name = bytes_of(name ? name : ""),
                                   .from_ns = query->from_ns,
                                   .to_ns = query->to_ns,
                                   .cancelled = query->cancelled};

    int r = has_values ? take_samples(g, query, err) : 0;
    return r < 0 ? r : store_spans(query->store, &find, on_span, g, err);
}

static int run_groups(struct api_query *q, struct error *err)
{
    static const char *const orders[] = {[SPANS_BY_COUNT] = "count",
                                         [SPANS_BY_P99] = "p99",
                                         [SPANS_BY_TOTAL] = "total",
                                         [SPANS_BY_ERRORS] = "errors",
                                         [SPANS_BY_VALUE] = "value"};
    CLEANUP(grouping_done) struct grouping g = {.budget = &q->call->budget, .err = err};
    bool has_values = q->query.selector->type.len > 0;
    uint64_t limit;
    size_t order;

    span_groups_init(&g.groups, &q->call->budget, GROUPS_MAX);
    int r = api_number(q, "limit", GROUPS_MAX, GROUPS, &limit, err);
    if (r == 0)
        r = api_choice(q, "order", API_NAMES(orders), SPANS_BY_COUNT, &order, err);
    if (r == 0 && order == SPANS_BY_VALUE && !has_values)
        r = error_set(err, -EINVAL, "order by value needs a type: cpu, or cpu:nanoseconds");
    if (r == 0)
        r = collect(q, &g, has_values, err);
    if (r < 0)
        return r;
    span_groups_rank(&g.groups, (enum span_order)order);
    return reply_groups(q, &g, (size_t)limit, has_values, err);
}

static int handle(struct call *c, struct error *err)
{
    return api_answer_untagged(c, run_groups, err);
}

const struct route api_span_routes[] = {
    API_ROUTE("span_groups", 0, "Spans by service and name: how many, how long, what was sampled",
              API_P_SELECT "type: sample type whose values are added up, default none; "
                           "service: name of a service; name: name of a span; "
                           "limit: groups, default 100; "
                           "order: count, p99, total, errors or value, default count; "),
    {0},
};
