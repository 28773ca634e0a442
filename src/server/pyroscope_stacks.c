#include <errno.h>

#include "base/hex.h"
#include "profile/frames.h"
#include "profile/merge.h"
#include "server/pyroscope_query.h"

/* Every id is a question to the store of its own. */
#define IDS_MAX 256

/* ---- Below a call site */

/* How far along the call site a stack has come. */
#define ELSEWHERE UINT32_MAX

struct call_site {
    const struct bytes *names;
    uint32_t n;
    struct frames frames;
};

static uint32_t follow(struct call_site *site, uint32_t at, uint32_t location)
{
    uint32_t count;
    size_t first = frames_of(&site->frames, location, &count);
    while (count-- > 0 && at < site->n) {
        uint32_t frame = site->frames.ids.data[first + count];
        at = bytes_equal(bytes_of(frames_name(&site->frames, frame)), site->names[at]) ? at + 1
                                                                                       : ELSEWHERE;
    }
    return at;
}

/* Keeps the rows whose stacks begin with the call site. */
static bool keep_below(struct call_site *site, struct profile *p)
{
    const struct dict *d = p->dict;
    VEC(uint32_t) at = {0};
    size_t kept = 0;

    if (!vec_resize(d->budget, &at, dict_n_nodes(d)))
        return false;
    for (size_t n = 1; n < at.len; n++) {
        uint32_t up = at.data[d->node_parent.data[n]];
        at.data[n] =
            up == ELSEWHERE || up == site->n ? up : follow(site, up, d->node_location.data[n]);
    }
    for (size_t i = 0; i < p->n_samples; i++)
        if (at.data[p->node[i]] == site->n)
            profile_move_row(p, i, kept++);
    p->n_samples = kept;
    vec_done(d->budget, &at);
    return !budget_failed(d->budget);
}

int pyroscope_filter_call_site(const struct pyroscope_request *q, struct profile *p,
                               struct error *err)
{
    struct call_site site = {.names = q->call_site.data, .n = (uint32_t)q->call_site.len};
    /* The root of the picture is not part of a stack. */
    if (site.n > 0 && bytes_are(site.names[0], "total")) {
        site.names++;
        site.n--;
    }
    if (site.n == 0)
        return 0;
    frames_init(&site.frames, p->dict,
                (struct frame_options){.granularity = GRANULARITY_FUNCTIONS, .name_unknown = true});
    bool ok = keep_below(&site, p);
    frames_done(&site.frames);
    return ok ? 0 : budget_error(p->dict->budget, err);
}

/* ---- For Go's compiler */

/* A location whose line numbers do not count. */
static uint32_t without_lines(struct dict *d, uint32_t id)
{
    struct location l = d->locations.data[id];
    struct line lines[64];
    size_t n = l.n_lines < ARRAY_SIZE(lines) ? l.n_lines : ARRAY_SIZE(lines);
    for (size_t i = 0; i < n; i++)
        lines[i] = (struct line){.function = d->lines.data[l.first_line + i].function};
    l.address = 0;
    return dict_location(d, l, lines, n);
}

/* Cuts stacks to their innermost frames, as profile-guided optimization wants them. */
static int cut_for_pgo(const struct pyroscope_request *q, struct profile *p, struct error *err)
{
    struct dict *d = p->dict;
    VEC(uint32_t) stack = {0};
    uint64_t keep = q->pgo_keep > 0 ? (uint64_t)q->pgo_keep : UINT64_MAX;

    for (size_t i = 0; i < p->n_samples && !budget_failed(d->budget); i++) {
        vec_clear(&stack);
        for (uint32_t n = p->node[i]; n != 0 && stack.len < keep; n = d->node_parent.data[n])
            if (!vec_push(d->budget, &stack, d->node_location.data[n]))
                break;
        if (q->pgo_callees && stack.len > 0)
            stack.data[0] = without_lines(d, stack.data[0]);
        p->node[i] = dict_stack(d, stack.data, stack.len);
    }
    vec_done(d->budget, &stack);
    return budget_failed(d->budget) ? budget_error(d->budget, err) : 0;
}

/* ---- Spans, traces, profiles */

/* n bytes in hexadecimal digits; hyphens do not count. */
static int read_id(struct bytes text, const char *what, uint8_t *to, size_t n, struct error *err)
{
    if (!hex_decode_hyphened(text, to, n))
        return error_set(err, -EINVAL, "\"%.*s\" is no %s id: expected %zu hexadecimal digits",
                         (int)(text.len < 100 ? text.len : 100), (const char *)text.data, what,
                         2 * n);
    return 0;
}

struct gathering {
    struct query query;
    struct profile_set *set;
    VEC(struct profile *) found;
};

static int gather(struct gathering *g, struct error *err)
{
    struct profile *p = NULL;
    int r = query_merge_into(&g->query, g->set, &p, err);
    if (r == -ENODATA)
        return 0;
    if (r == 0 && !vec_push(g->set->budget, &g->found, p))
        r = budget_error(g->set->budget, err);
    return r;
}

static int gather_spans(struct gathering *g, const text_list *ids, struct error *err)
{
    int r = 0;
    g->query.has_span = true;
    for (size_t i = 0; i < ids->len && r == 0; i++) {
        r = read_id(ids->data[i], "span", g->query.span_id, 8, err);
        if (r == 0)
            r = gather(g, err);
    }
    return r;
}

static int gather_traces(struct gathering *g, const text_list *ids, struct error *err)
{
    int r = 0;
    g->query.has_trace = true;
    for (size_t i = 0; i < ids->len && r == 0; i++) {
        r = read_id(ids->data[i], "trace", g->query.trace_id, 16, err);
        if (r == 0)
            r = gather(g, err);
    }
    return r;
}

static int gather_profiles(struct gathering *g, const text_list *ids, struct error *err)
{
    int r = 0;
    g->query.has_id = true;
    g->query.instant = INSTANT_SUM;
    for (size_t i = 0; i < ids->len && r == 0; i++) {
        r = read_id(ids->data[i], "profile", g->query.id, 16, err);
        if (r == 0)
            r = gather(g, err);
    }
    return r;
}

static int gather_all(struct gathering *g, const struct pyroscope_request *q, struct error *err)
{
    if ((q->spans.len > 0) + (q->traces.len > 0) + (q->ids.len > 0) > 1)
        return error_set(err, -EINVAL, "spans, traces and profile ids cannot be combined");
    size_t n = q->spans.len + q->traces.len + q->ids.len;
    if (n > IDS_MAX)
        return error_set(err, -EINVAL, "%zu ids: at most %d may be asked for at once", n, IDS_MAX);
    if (q->spans.len > 0)
        return gather_spans(g, &q->spans, err);
    if (q->traces.len > 0)
        return gather_traces(g, &q->traces, err);
    if (q->ids.len > 0)
        return gather_profiles(g, &q->ids, err);
    return gather(g, err);
}

/* One profile of all that was found, the set's like they are. */
static int unite(struct gathering *g, struct profile **ret, struct error *err)
{
    struct budget *b = g->set->budget;
    *ret = g->found.len > 0 ? g->found.data[0] : NULL;
    if (g->found.len <= 1)
        return 0;
    struct profile *all =
        profile_merge(g->set->dict, g->found.data, g->found.len, (struct merge_options){0});
    if (!all || !vec_push(b, &g->set->profiles, all)) {
        profile_free(all);
        return budget_error(b, err);
    }
    *ret = all;
    return 0;
}

int pyroscope_stacks(struct call *c, const struct pyroscope_request *q, struct profile_set *set,
                     struct profile **ret, struct error *err)
{
    struct pyroscope_scope scope;
    struct profile *p = NULL;
    int r = pyroscope_scope_select(c, q, &scope, err);
    if (r == 0 && !scope.is_empty) {
        struct gathering g = {.query = scope.query, .set = set};
        r = gather_all(&g, q, err);
        if (r == 0)
            r = unite(&g, &p, err);
        vec_done(set->budget, &g.found);
        pyroscope_tell_trouble(c, &scope.trouble);
    }
    pyroscope_scope_done(&scope);
    if (r == 0 && p && q->has_pgo)
        r = cut_for_pgo(q, p, err);
    else if (r == 0 && p)
        r = pyroscope_filter_call_site(q, p, err);
    if (r == 0)
        *ret = p && p->n_samples > 0 ? p : NULL;
    return r;
}
