#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "formats/pprof_encode.h"
#include "server/api_mask.h"
#include "server/pyroscope_points.h"
#include "server/server_internal.h"
#include "wire/protobuf.h"

/* ---- Merged stacks */

/* Appends a Profile; Go's protobuf takes no string that is not UTF-8. */
static int put_pprof(const struct profile *p, struct profile_set *set, struct buf *out,
                     struct error *err)
{
    CLEANUP(buf_done) struct buf plain = {.budget = set->budget}, losses = {0};
    struct profile *one[] = {(struct profile *)(uintptr_t)p};
    struct profile_set only = {.budget = set->budget, .dict = set->dict};
    only.profiles.data = one;
    only.profiles.len = 1;
    int r = pprof_encode_plain(&only, &plain, &losses, err);
    if (r < 0)
        return r;

    const enum { STRING_TABLE = 6 } strings = STRING_TABLE;
    struct pb_reader reader = pb_reader(buf_bytes(&plain));
    for (const uint8_t *from = reader.pos; pb_next(&reader); from = reader.pos) {
        if (reader.field == strings)
            proto_put_text(out, strings, reader.data);
        else
            buf_add(out, from, (size_t)(reader.pos - from));
    }
    return 0;
}

static int put_flame(const struct profile *p, const struct pyroscope_request *q, struct buf *out,
                     struct error *err)
{
    struct flame_bars f = {0};
    size_t max_nodes = 0;
    int r = pyroscope_max_nodes(q->max_nodes, &max_nodes, err);
    if (r == 0)
        r = flame_bars_build(p, max_nodes, &f, err);
    if (r == 0 && q->format == PYROSCOPE_TREE) {
        size_t at = pb_begin(out, 2);
        flame_bars_tree(&f, out);
        pb_end(out, at);
    } else if (r == 0) {
        size_t at = pb_begin(out, 1);
        flame_bars_put(&f, out);
        pb_end(out, at);
    }
    flame_bars_done(&f);
    return r;
}

static int put_dot(const struct profile *p, const struct pyroscope_request *q, struct buf *out,
                   struct error *err)
{
    CLEANUP(buf_done) struct buf text = {.budget = out->budget};
    int r = pyroscope_dot(p, q->max_nodes, &text, err);
    if (r == 0)
        proto_put_text(out, 3, buf_bytes(&text));
    return r;
}

static int put_stacks(const struct profile *p, const struct pyroscope_request *q,
                      struct profile_set *set, struct buf *out, struct error *err)
{
    if (q->format == PYROSCOPE_DOT)
        return put_dot(p, q, out, err);
    if (q->format != PYROSCOPE_PPROF)
        return put_flame(p, q, out, err);
    size_t pprof = pb_begin(out, 5), profile = pb_begin(out, 1);
    int r = put_pprof(p, set, out, err);
    pb_end(out, profile);
    pb_end(out, pprof);
    return r;
}

static int check_format(const struct pyroscope_request *q, struct error *err)
{
    size_t nodes;
    if (q->format < 0 || q->format > PYROSCOPE_PPROF)
        return error_set(err, -EINVAL, "there is no profile format %lld", (long long)q->format);
    return pyroscope_max_nodes(q->max_nodes, &nodes, err);
}

static int answer_stacks(struct call *c, const struct proto_field *message, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    CLEANUP(pyroscope_memory_done) struct pyroscope_memory m;
    struct profile *p = NULL;

    pyroscope_memory_init(&m, c);
    int r = pyroscope_request_read(c, message, &q, err);
    if (r == 0)
        r = check_format(&q, err);
    if (r == 0)
        r = pyroscope_stacks(c, &q, m.set, &p, err);
    if (r == 0 && p && q.format == PYROSCOPE_PPROF)
        r = api_mask(c->server->mask, p, err);
    if (r == 0 && p)
        r = put_stacks(p, &q, m.set, &out, err);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_stacktraces_reply, &out, err);
}

int pyroscope_select_stacktraces(struct call *c, struct error *err)
{
    return answer_stacks(c, pyroscope_stacktraces_request, err);
}

int pyroscope_select_span_profile(struct call *c, struct error *err)
{
    return answer_stacks(c, pyroscope_span_profile_request, err);
}

/* max_nodes is not looked at: the profile is always whole. */
int pyroscope_select_profile(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    CLEANUP(pyroscope_memory_done) struct pyroscope_memory m;
    struct profile *p = NULL;

    pyroscope_memory_init(&m, c);
    int r = pyroscope_request_read(c, pyroscope_profile_request, &q, err);
    if (r == 0)
        r = pyroscope_stacks(c, &q, m.set, &p, err);
    if (r == 0 && p)
        r = api_mask(c->server->mask, p, err);
    if (r == 0 && p)
        r = put_pprof(p, m.set, &out, err);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_profile, &out, err);
}

/* ---- Two of them */

int pyroscope_diff(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_diff_done) struct pyroscope_diff_request q;
    CLEANUP(pyroscope_memory_done) struct pyroscope_memory m;
    CLEANUP(flame_bars_done) struct flame_bars f = {0};

    pyroscope_memory_init(&m, c);
    int r = pyroscope_diff_read(c, &q, err);
    if (r == 0)
        r = pyroscope_compare(c, &q, m.set, &f, err);
    if (r < 0)
        return r;
    size_t at = pb_begin(&out, 1);
    flame_bars_put(&f, &out);
    pb_end(&out, at);
    return pyroscope_reply(c, pyroscope_diff_reply, &out, err);
}

int pyroscope_compare(struct call *c, const struct pyroscope_diff_request *q,
                      struct profile_set *set, struct flame_bars *ret, struct error *err)
{
    struct profile *left = NULL, *right = NULL;
    size_t max_nodes = 0;
    bool left_asks = q->left.max_nodes > q->right.max_nodes;
    int r =
        pyroscope_max_nodes(left_asks ? q->left.max_nodes : q->right.max_nodes, &max_nodes, err);
    if (r == 0)
        r = pyroscope_stacks(c, &q->left, set, &left, err);
    if (r < 0)
        return error_prefix(err, r, "left");
    r = pyroscope_stacks(c, &q->right, set, &right, err);
    if (r < 0)
        return error_prefix(err, r, "right");

    struct profile *none = profile_set_add(set);
    if (!none)
        return budget_error(set->budget, err);
    return flame_bars_compare(left ? left : none, right ? right : none, max_nodes, ret, err);
}

/* ---- Values over time */

int pyroscope_step(const struct pyroscope_request *q, int64_t *ret, struct error *err)
{
    /* Not greater than: NaN is refused too. */
    if (!(q->step_s >= 0.001) || !(q->step_s <= 1e9))
        return error_set(err, -EINVAL, "step is %g: at least 0.001 s are needed, at most 1e9 s",
                         q->step_s);
    int64_t ms = (int64_t)(q->step_s * 1000);
    *ret = (ms > 0 ? ms : 1) * 1000000;
    return 0;
}

/* What is selected, step by step. Stacks are read only where a call site is asked for. */
static int ask_series(struct call *c, const struct pyroscope_request *q,
                      const struct pyroscope_scope *scope, struct pyroscope_series *s,
                      const struct bytes *group_by, struct error *err)
{
    struct store_plan plan = {
        .tenant = c->tenant,
        .selector = scope->query.selector,
        .from_ns = scope->query.from_ns,
        .to_ns = scope->query.to_ns,
        .step_ns = s->step_ns,
        .what = q->call_site.len > 0 ? PLAN_STACKS : PLAN_TOTALS,
        /* A mean over profiles is taken below; else moments mean what they mean on average. */
        .instant = q->aggregation == PYROSCOPE_AVERAGE ? INSTANT_SUM : INSTANT_AVERAGE,
        .group_by = group_by,
        .n_group_by = q->group_by.len,
        .memory_limit = scope->query.memory_limit,
        .cancelled = c->cancelled,
    };
    int r = store_aggregate(c->server->store, &plan, s->answer, err);
    if (r == 0 && s->answer->is_incomplete)
        pyroscope_tell_trouble(c, &s->answer->trouble);
    return r;
}

static int cell_value(const struct pyroscope_request *q, const struct store_cell *cell, double *ret,
                      struct error *err)
{
    int64_t value = cell->value;
    if (cell->profile) {
        int r = pyroscope_filter_call_site(q, cell->profile, err);
        if (r < 0)
            return r;
        value = cell->profile->n_types > 0 ? profile_total(cell->profile, 0) : 0;
    }
    *ret = (double)value;
    if (q->aggregation == PYROSCOPE_AVERAGE && cell->n_profiles > 0)
        *ret /= (double)cell->n_profiles;
    return 0;
}

static int by_total(const void *a, const void *b)
{
    const struct series_group *x = a, *y = b;
    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

static int collect_groups(const struct pyroscope_request *q, struct pyroscope_series *s,
                          struct error *err)
{
    const struct store_answer *a = s->answer;
    for (size_t i = 0; i < a->cells.len; i++) {
        double value;
        int r = cell_value(q, &a->cells.data[i], &value, err);
        if (r < 0)
            return r;
        bool is_new = i == 0 || a->cells.data[i].group != a->cells.data[i - 1].group;
        if ((is_new && !vec_push(&s->budget, &s->groups, (struct series_group){.first = i})) ||
            !vec_push(&s->budget, &s->values, value))
            return budget_error(&s->budget, err);
        vec_last(&s->groups).n++;
        vec_last(&s->groups).total += value;
    }
    if (s->groups.len > 1)
        qsort(s->groups.data, s->groups.len, sizeof(*s->groups.data), by_total);
    if (q->limit > 0 && s->groups.len > (uint64_t)q->limit)
        s->groups.len = (size_t)q->limit;
    return 0;
}

int pyroscope_group_names(struct pyroscope_scope *scope, const text_list *names,
                          struct bytes to[PYROSCOPE_GROUP_MAX], struct error *err)
{
    int r = 0;
    if (names->len > PYROSCOPE_GROUP_MAX)
        return error_set(err, -EINVAL, "group_by names %zu labels: at most %d are allowed",
                         names->len, PYROSCOPE_GROUP_MAX);
    for (size_t i = 0; i < names->len && r == 0; i++)
        r = pyroscope_names_find(&scope->names, names->data[i], &to[i], err);
    return r;
}

int pyroscope_series_read(struct call *c, const struct pyroscope_request *q,
                          struct pyroscope_series *ret, struct error *err)
{
    struct pyroscope_scope scope;
    struct bytes group_by[PYROSCOPE_GROUP_MAX];

    *ret = (struct pyroscope_series){0};
    uint64_t limit = c->server->config->query_memory_limit;
    budget_init(&ret->budget, limit > 0 ? limit : QUERY_MEMORY);
    ret->answer = store_answer_new(ret->budget.limit);
    int r = pyroscope_step(q, &ret->step_ns, err);
    if (r < 0)
        return r;
    r = pyroscope_scope_select(c, q, &scope, err);
    if (r == 0)
        r = pyroscope_group_names(&scope, &q->group_by, group_by, err);
    if (r == 0 && !scope.is_empty)
        r = ask_series(c, q, &scope, ret, group_by, err);
    if (r == 0)
        r = collect_groups(q, ret, err);
    pyroscope_scope_done(&scope);
    return r;
}

void pyroscope_series_done(struct pyroscope_series *s)
{
    vec_done(&s->budget, &s->groups);
    vec_done(&s->budget, &s->values);
    store_answer_free(s->answer);
}

/* The heaviest profile of a step that has an id, from *at on, which moves behind the step. */
static const struct pyroscope_point *heaviest(const struct pyroscope_points *p, uint32_t group,
                                              int64_t end_ns, size_t *at)
{
    const struct pyroscope_point *best = NULL;
    for (; *at < p->all.len; (*at)++) {
        const struct pyroscope_point *x = &p->all.data[*at];
        if (x->group > group || (x->group == group && x->time_ms >= (end_ns + 999999) / 1000000))
            break;
        if (x->group == group && x->has_id && (!best || x->value > best->value))
            best = x;
    }
    return best;
}

/* A point stands at the end of its step, but not behind the range. */
static void put_points(const struct pyroscope_request *q, const struct pyroscope_series *s,
                       const struct series_group *g, const struct pyroscope_points *exemplars,
                       struct buf *out, struct bytes labels)
{
    uint32_t group = 0;
    size_t next = 0;
    while (group < exemplars->groups.len && !bytes_equal(exemplars->groups.data[group], labels))
        group++;
    for (size_t i = g->first; i < g->first + g->n; i++) {
        int64_t end_ns = s->answer->cells.data[i].start_ns + s->step_ns;
        int64_t end_ms = end_ns / 1000000;
        size_t at = pb_begin(out, 2);
        pyroscope_put_double(out, 1, s->values.data[i]);
        pb_put_u64_opt(out, 2, (uint64_t)(end_ms < q->end_ms ? end_ms : q->end_ms));
        const struct pyroscope_point *best = heaviest(exemplars, group, end_ns, &next);
        if (best)
            pyroscope_put_exemplar(best, out);
        pb_end(out, at);
    }
}

static void put_series(const struct pyroscope_request *q, const struct pyroscope_series *s,
                       const struct series_group *g, const struct pyroscope_points *exemplars,
                       struct buf *out)
{
    CLEANUP(buf_done) struct buf labels = {0};
    const struct label *values = s->answer->groups.data[s->answer->cells.data[g->first].group];
    for (size_t k = 0; k < q->group_by.len; k++)
        if (values[k].value.len > 0)
            pyroscope_put_label(&labels, 1, q->group_by.data[k], values[k].value);
    size_t at = pb_begin(out, 1);
    buf_add_bytes(out, buf_bytes(&labels));
    put_points(q, s, g, exemplars, out, buf_bytes(&labels));
    pb_end(out, at);
}

int pyroscope_select_series(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    int r = pyroscope_request_read(c, pyroscope_select_series_request, &q, err);
    if (r < 0)
        return r;
    CLEANUP(pyroscope_series_done) struct pyroscope_series s;
    CLEANUP(pyroscope_points_done) struct pyroscope_points exemplars = {0};
    r = pyroscope_series_read(c, &q, &s, err);
    if (r == 0 && q.exemplars == PYROSCOPE_EXEMPLARS_INDIVIDUAL)
        r = pyroscope_points_read(c, &q, true, &exemplars, err);
    for (size_t i = 0; r == 0 && i < s.groups.len; i++)
        put_series(&q, &s, &s.groups.data[i], &exemplars, &out);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_select_series_reply, &out, err);
}
