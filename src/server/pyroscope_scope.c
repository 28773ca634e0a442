#include <errno.h>

#include "server/names.h"
#include "server/pyroscope_query.h"
#include "server/server_internal.h"

#define MS_NS ((int64_t)1000000)

static int64_t ms_to_ns(int64_t ms)
{
    int64_t ns;
    if (__builtin_mul_overflow(ms, MS_NS, &ns))
        return ms < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

static int take_range(const struct pyroscope_request *q, bool is_needed, struct query *ret,
                      struct error *err)
{
    ret->from_ns = ms_to_ns(q->start_ms);
    ret->to_ns = ms_to_ns(q->end_ms);
    if (q->start_ms != 0 || q->end_ms != 0) {
        if (q->end_ms < q->start_ms)
            return error_set(err, -EINVAL, "the range ends before it starts: %lld to %lld",
                             (long long)q->start_ms, (long long)q->end_ms);
        return 0;
    }
    if (is_needed)
        return error_set(err, -EINVAL, "start and end are missing: milliseconds since 1970");
    ret->from_ns = 0;
    ret->to_ns = INT64_MAX;
    return 0;
}

static int open_scope(struct call *c, const struct pyroscope_request *q,
                      const struct pyroscope_selectors *from, struct pyroscope_scope *ret,
                      struct error *err)
{
    ret->all.store = c->server->store;
    ret->all.tenant = c->tenant;
    ret->all.memory_limit = c->server->config->query_memory_limit;
    ret->all.cancelled = c->cancelled;
    int r = take_range(q, from->type != NULL, &ret->all, err);
    if (r < 0)
        return r;
    ret->names.all = &ret->all;
    r = pyroscope_selection_read(from, &ret->names, &ret->selection, err);
    ret->query = ret->all;
    ret->query.selector = &ret->selection.ours;
    ret->query.trouble = &ret->trouble;
    names_for_query(c, &ret->query);
    ret->is_empty = ret->selection.is_empty || ret->all.from_ns >= ret->all.to_ns;
    return r;
}

int pyroscope_scope_list(struct call *c, const struct pyroscope_request *q,
                         const struct bytes *texts, size_t n, struct pyroscope_scope *ret,
                         struct error *err)
{
    *ret = (struct pyroscope_scope){0};
    return open_scope(c, q, &(struct pyroscope_selectors){.texts = texts, .n = n}, ret, err);
}

int pyroscope_scope_select(struct call *c, const struct pyroscope_request *q,
                           struct pyroscope_scope *ret, struct error *err)
{
    *ret = (struct pyroscope_scope){0};
    int r = pyroscope_id_parse(q->type_id, &ret->type, err);
    if (r < 0)
        return r;
    struct pyroscope_selectors from = {.texts = &q->selector, .n = 1, .type = &ret->type};
    return open_scope(c, q, &from, ret, err);
}

void pyroscope_tell_trouble(struct call *c, const struct error *trouble)
{
    if (trouble->text[0])
        http_reply_headerf(&c->reply, "x-vesta-incomplete", "%s", trouble->text);
}

void pyroscope_scope_done(struct pyroscope_scope *s)
{
    pyroscope_selection_done(&s->selection);
    pyroscope_names_done(&s->names);
}

void pyroscope_memory_init(struct pyroscope_memory *m, const struct call *c)
{
    uint64_t limit = c->server->config->query_memory_limit;
    budget_init(&m->budget, limit > 0 ? limit : QUERY_MEMORY);
    m->set = profile_set_new(&m->budget);
}

void pyroscope_memory_done(struct pyroscope_memory *m)
{
    profile_set_free(m->set);
}

int pyroscope_max_nodes(int64_t asked, size_t *ret, struct error *err)
{
    if (asked > PYROSCOPE_NODES_MAX)
        return error_set(err, -EINVAL, "max_nodes is %lld: at most %d are allowed",
                         (long long)asked, PYROSCOPE_NODES_MAX);
    *ret = asked == 0 ? PYROSCOPE_NODES : asked < 0 ? 0 : (size_t)asked;
    return 0;
}
