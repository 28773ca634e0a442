#include <stdlib.h>

#include "query/query.h"

#define LIST_MEMORY ((size_t)64 << 20)

struct lister {
    struct name_list *list;
    struct bytes label;
    const struct selector *selector;
    int (*each)(struct lister *l, const struct store_series *s);
};

static void sort_unique(struct name_list *l)
{
    size_t kept = 0;
    if (l->names.len > 1)
        qsort(l->names.data, l->names.len, sizeof(*l->names.data), bytes_compare_items);
    for (size_t i = 0; i < l->names.len; i++)
        if (i == 0 || !bytes_equal(l->names.data[i], l->names.data[kept - 1]))
            l->names.data[kept++] = l->names.data[i];
    l->names.len = kept;
}

/* Repetitions are taken out whenever the list has doubled, so that it stays as small as what is in
 * it. */
static int add(struct name_list *l, struct bytes name)
{
    if (l->names.len > 0 && l->names.len == l->names.cap)
        sort_unique(l);
    for (size_t i = l->names.len; i-- > 0 && i + 8 >= l->names.len;)
        if (bytes_equal(l->names.data[i], name))
            return 0;
    char *copy = arena_strdup(&l->text, name);
    if (!copy || !vec_push(&l->budget, &l->names, (struct bytes){(uint8_t *)copy, name.len}))
        return budget_error(&l->budget, NULL);
    return 0;
}

static int each_label_name(struct lister *l, const struct store_series *s)
{
    int r = 0;
    for (size_t i = 0; i < s->n_labels && r == 0; i++)
        r = add(l->list, s->labels[i].name);
    return r;
}

static int each_label_value(struct lister *l, const struct store_series *s)
{
    struct bytes value = label_value(s->labels, s->n_labels, l->label);
    return value.len > 0 ? add(l->list, value) : 0;
}

static int each_type(struct lister *l, const struct store_series *s)
{
    struct buf text = {0};
    int r = 0;
    for (size_t i = 0; i < s->n_types && r == 0; i++) {
        if (!selector_takes(l->selector, s->types[i].name, s->types[i].unit))
            continue;
        buf_clear(&text);
        buf_add_bytes(&text, s->types[i].name);
        buf_add_byte(&text, ':');
        buf_add_bytes(&text, s->types[i].unit);
        r = add(l->list, buf_bytes(&text));
    }
    buf_done(&text);
    return r;
}

static int on_series(void *ctx, const struct store_series *s)
{
    struct lister *l = ctx;
    return l->each(l, s);
}

static int list(const struct query *q, struct lister *l, struct name_list *ret, struct error *err)
{
    *ret = (struct name_list){0};
    budget_init(&ret->budget, LIST_MEMORY);
    arena_init(&ret->text, &ret->budget);
    l->list = ret;
    l->selector = q->selector;
    struct store_scope scope = {.tenant =
                                    q->tenant.len > 0 ? q->tenant : BYTES(STORE_DEFAULT_TENANT),
                                .selector = q->selector,
                                .from_ns = q->from_ns,
                                .to_ns = q->to_ns};
    int r = store_series(q->store, &scope, on_series, l, err);
    if (budget_failed(&ret->budget))
        return budget_error(&ret->budget, err);
    sort_unique(ret);
    return r;
}

int query_label_names(const struct query *q, struct name_list *ret, struct error *err)
{
    return list(q, &(struct lister){.each = each_label_name}, ret, err);
}

int query_label_values(const struct query *q, struct bytes label, struct name_list *ret,
                       struct error *err)
{
    return list(q, &(struct lister){.each = each_label_value, .label = label}, ret, err);
}

int query_types(const struct query *q, struct name_list *ret, struct error *err)
{
    return list(q, &(struct lister){.each = each_type}, ret, err);
}

void name_list_done(struct name_list *l)
{
    vec_done(&l->budget, &l->names);
    arena_done(&l->text);
}

struct store_find query_find(const struct query *q)
{
    struct store_find find = {.tenant = q->tenant.len > 0 ? q->tenant : BYTES(STORE_DEFAULT_TENANT),
                              .selector = q->selector,
                              .from_ns = q->from_ns,
                              .to_ns = q->to_ns,
                              .has_id = q->has_id,
                              .has_trace = q->has_trace,
                              .has_span = q->has_span,
                              .cancelled = q->cancelled};
    memcpy(find.id, q->id, sizeof(find.id));
    memcpy(find.trace_id, q->trace_id, sizeof(find.trace_id));
    memcpy(find.span_id, q->span_id, sizeof(find.span_id));
    return find;
}
