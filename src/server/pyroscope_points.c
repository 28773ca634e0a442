#include "server/pyroscope_points.h"

#include <errno.h>
#include <stdlib.h>

#include "server/server_internal.h"
#include "wire/protobuf.h"

struct span_sum {
    uint32_t link;
    int64_t value;
};

struct collector {
    const struct pyroscope_request *request;
    const struct pyroscope_scope *scope;
    const struct bytes *group_by; /* as they are kept */
    struct pyroscope_points *out;
    bool with_labels;
    struct buf scratch;
    VEC(struct span_sum) sums;
};

static struct bytes keep(struct pyroscope_points *p, const struct buf *b)
{
    const char *copy = arena_strdup(&p->text, buf_bytes(b));
    return (struct bytes){(const uint8_t *)copy, copy ? b->len : 0};
}

/* Few groups are usual, and the last one is usually meant again. */
static uint32_t find_group(struct collector *k, const struct store_series *s)
{
    const text_list *names = &k->request->group_by;
    struct pyroscope_points *p = k->out;

    buf_clear(&k->scratch);
    for (size_t i = 0; i < names->len; i++) {
        struct bytes value = label_value(s->labels, s->n_labels, k->group_by[i]);
        if (value.len > 0)
            pyroscope_put_label(&k->scratch, 1, names->data[i], value);
    }
    for (size_t i = p->groups.len; i-- > 0;)
        if (bytes_equal(p->groups.data[i], buf_bytes(&k->scratch)))
            return (uint32_t)i;
    (void)vec_push(&p->budget, &p->groups, keep(p, &k->scratch));
    return (uint32_t)p->groups.len - 1;
}

static struct bytes other_labels(struct collector *k, const struct store_series *s)
{
    buf_clear(&k->scratch);
    for (size_t i = 0; i < s->n_labels; i++) {
        bool is_grouped = !pyroscope_label_is_shown(s->labels[i].name);
        for (size_t g = 0; g < k->request->group_by.len; g++)
            is_grouped = is_grouped || bytes_equal(k->group_by[g], s->labels[i].name);
        if (is_grouped)
            continue;
        CLEANUP(buf_done) struct buf name = {0};
        pyroscope_name_clean(s->labels[i].name, &name);
        pyroscope_put_label(&k->scratch, 5, buf_bytes(&name), s->labels[i].value);
    }
    return keep(k->out, &k->scratch);
}

static int by_link(const void *a, const void *b)
{
    const struct span_sum *x = a, *y = b;
    return (x->link > y->link) - (x->link < y->link);
}

/* Sums by span into k->sums, one entry each. */
static void sum_spans(struct collector *k, const struct profile *p, uint32_t column)
{
    size_t n = 0;

    vec_clear(&k->sums);
    for (size_t i = 0; i < p->n_samples; i++)
        if (profile_link(p, i) != 0)
            (void)vec_push(&k->out->budget, &k->sums,
                           (struct span_sum){profile_link(p, i), p->values[column][i]});
    if (k->sums.len > 1)
        qsort(k->sums.data, k->sums.len, sizeof(*k->sums.data), by_link);
    for (size_t i = 0; i < k->sums.len; i++) {
        if (n > 0 && k->sums.data[n - 1].link == k->sums.data[i].link)
            k->sums.data[n - 1].value =
                (int64_t)((uint64_t)k->sums.data[n - 1].value + (uint64_t)k->sums.data[i].value);
        else
            k->sums.data[n++] = k->sums.data[i];
    }
    k->sums.len = n;
}

static void add_spans(struct collector *k, const struct store_found *found,
                      struct pyroscope_point point)
{
    const struct profile *p = found->profile;
    const struct pyroscope_type *t = &k->scope->type;
    uint32_t column = 0;

    while (column < p->n_types &&
           (!bytes_equal(dict_text(p->dict, p->types[column].type), t->type) ||
            !bytes_equal(dict_text(p->dict, p->types[column].unit), t->unit)))
        column++;
    if (column == p->n_types)
        return;
    sum_spans(k, p, column);
    for (size_t i = 0; i < k->sums.len; i++) {
        const struct link *link = &p->dict->links.data[k->sums.data[i].link];
        memcpy(point.trace_id, link->trace_id, sizeof(point.trace_id));
        memcpy(point.span_id, link->span_id, sizeof(point.span_id));
        point.value = k->sums.data[i].value;
        (void)vec_push(&k->out->budget, &k->out->all, point);
    }
}

static int on_found(void *ctx, const struct store_found *found)
{
    struct collector *k = ctx;
    const struct store_series *s = found->series;
    const struct pyroscope_type *t = &k->scope->type;
    size_t type = 0;

    while (type < s->n_types && (!bytes_equal(s->types[type].name, t->type) ||
                                 !bytes_equal(s->types[type].unit, t->unit)))
        type++;
    if (type == s->n_types)
        return 0;
    struct pyroscope_point point = {.group = find_group(k, s),
                                    .time_ms = found->start_ns / 1000000,
                                    .value = found->totals[type],
                                    .has_id = found->has_id};
    memcpy(point.id, found->id, sizeof(point.id));
    if (k->with_labels)
        point.labels = other_labels(k, s);
    if (found->profile)
        add_spans(k, found, point);
    else
        (void)vec_push(&k->out->budget, &k->out->all, point);
    return budget_failed(&k->out->budget) ? -ENOBUFS : 0;
}

static int by_group_and_time(const void *a, const void *b)
{
    const struct pyroscope_point *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->time_ms > y->time_ms) - (x->time_ms < y->time_ms);
}

static int collect(struct call *c, struct collector *k, struct error *err)
{
    struct pyroscope_points *p = k->out;
    struct store_find find = {
        .tenant = c->tenant,
        .selector = k->scope->query.selector,
        .from_ns = k->scope->query.from_ns,
        .to_ns = k->scope->query.to_ns,
        .with_samples = k->request->heat == PYROSCOPE_HEAT_SPAN,
        .cancelled = c->cancelled,
    };
    int r = store_profiles(c->server->store, &find, on_found, k, err);
    if (budget_failed(&p->budget))
        return budget_error(&p->budget, err);
    if (r == 0 && p->all.len > 1)
        qsort(p->all.data, p->all.len, sizeof(*p->all.data), by_group_and_time);
    return r;
}

int pyroscope_points_read(struct call *c, const struct pyroscope_request *q, bool with_labels,
                          struct pyroscope_points *ret, struct error *err)
{
    CLEANUP(pyroscope_scope_done) struct pyroscope_scope scope;
    struct bytes group_by[PYROSCOPE_GROUP_MAX];
    uint64_t limit = c->server->config->query_memory_limit;

    *ret = (struct pyroscope_points){0};
    budget_init(&ret->budget, limit > 0 ? limit : QUERY_MEMORY);
    arena_init(&ret->text, &ret->budget);
    int r = pyroscope_scope_select(c, q, &scope, err);
    if (r == 0)
        r = pyroscope_group_names(&scope, &q->group_by, group_by, err);
    if (r < 0 || scope.is_empty)
        return r;
    struct collector k = {.request = q,
                          .scope = &scope,
                          .group_by = group_by,
                          .out = ret,
                          .with_labels = with_labels};
    r = collect(c, &k, err);
    vec_done(&ret->budget, &k.sums);
    buf_done(&k.scratch);
    return r;
}

void pyroscope_points_done(struct pyroscope_points *p)
{
    vec_done(&p->budget, &p->all);
    vec_done(&p->budget, &p->groups);
    arena_done(&p->text);
}

static void put_hex(struct buf *out, uint32_t field, const uint8_t *id, size_t n, bool is_uuid)
{
    size_t at = pb_begin(out, field);
    for (size_t i = 0; i < n; i++)
        buf_addf(out, "%s%02x", is_uuid && (i == 4 || i == 6 || i == 8 || i == 10) ? "-" : "",
                 id[i]);
    pb_end(out, at);
}

void pyroscope_put_exemplar(const struct pyroscope_point *p, struct buf *out)
{
    static const uint8_t none[16];
    size_t at = pb_begin(out, 4);

    pb_put_u64_opt(out, 1, (uint64_t)p->time_ms);
    if (p->has_id)
        put_hex(out, 2, p->id, sizeof(p->id), true);
    if (memcmp(p->span_id, none, sizeof(p->span_id)) != 0)
        put_hex(out, 3, p->span_id, sizeof(p->span_id), false);
    pb_put_u64_opt(out, 4, (uint64_t)p->value);
    buf_add_bytes(out, p->labels);
    if (memcmp(p->trace_id, none, sizeof(p->trace_id)) != 0)
        put_hex(out, 6, p->trace_id, sizeof(p->trace_id), false);
    pb_end(out, at);
}
