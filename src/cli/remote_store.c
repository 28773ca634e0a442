#include "cli/remote_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/must.h"
#include "cli/remote.h"
#include "cli/remote_lists.h"
#include "formats/format.h"
#include "query/time_range.h"
#include "wire/json.h"

#define ASK_BY_GET_MAX 4000 /* longer questions go in a body */
#define LIST_MEMORY    ((size_t)256 << 20)

struct remote_store {
    struct store base;
    struct remote remote;
};

static struct remote_store *self_of(struct store *s)
{
    return (struct remote_store *)s;
}

/* ---- Questions */

static void add_text(struct buf *params, const char *name, struct bytes value)
{
    remote_param(params, bytes_of(name), value);
}

/* As text: of numbers the server would have to guess the unit. */
static void add_time(struct buf *params, const char *name, int64_t ns)
{
    char text[TIME_TEXT_MAX];
    add_text(params, name, bytes_of(time_text(ns, text)));
}

static void add_range(struct buf *params, int64_t from_ns, int64_t to_ns)
{
    add_time(params, "from", from_ns);
    add_time(params, "until", to_ns);
}

static void add_scope(struct buf *params, const struct selector *s, int64_t from_ns, int64_t to_ns)
{
    if (s && s->text.len > 0)
        add_text(params, "query", s->text);
    add_range(params, from_ns, to_ns);
}

static void add_hex(struct buf *params, const char *name, const uint8_t *id, size_t n)
{
    char text[33];

    buf_addf(params, "&%s=%s", name, hex_encode(id, n, text));
}

static void add_ids(struct buf *params, bool has_trace, const uint8_t trace[16], bool has_span,
                    const uint8_t span[8])
{
    if (has_trace)
        add_hex(params, "trace", trace, 16);
    if (has_span)
        add_hex(params, "span", span, 8);
}

static void add_instant(struct buf *params, enum plan_instant instant)
{
    static const char *const names[] = {
        [INSTANT_AVERAGE] = "average",
        [INSTANT_LAST] = "last",
        [INSTANT_PEAK] = "peak",
        [INSTANT_SUM] = "sum",
    };
    add_text(params, "instant", bytes_of(names[instant]));
}

/* 0 and the answer; 1 when there is nothing; or an error. */
static int ask(struct remote_store *s, const char *path, const struct buf *params, struct budget *b,
               struct http_answer *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf full = {0};
    struct remote_call call = {0};

    if (params->len > ASK_BY_GET_MAX) {
        call.path = path;
        call.body = bytes_from(buf_bytes(params), 1);
        call.content_type = "application/x-www-form-urlencoded";
    } else {
        remote_path(&full, path, buf_bytes(params));
        call.path = buf_cstr(&full);
    }
    int r = remote_call(&s->remote, &call, b, ret, err);
    if (r < 0)
        return http_should_retry(r, NULL) ? -EAGAIN : r;
    if (ret->status == 200)
        return 0;
    r = remote_refusal(&s->remote, ret, err);
    http_answer_done(b, ret);
    return r == -ENODATA ? 1 : r;
}

/* ---- Sums */

/* Reads a profile into the set. */
static int read_profile(const struct http_answer *a, struct profile_set *set, struct profile **ret,
                        struct error *err)
{
    size_t before = set->profiles.len;
    CLEANUP(input_closep)
    struct input *in = input_from_bytes(http_answer_body(a), "the server's answer", set->budget);

    int r = format_read(in, NULL, set, NULL, err);
    if (r == 0 && set->profiles.len == before)
        r = error_set(err, -EBADMSG, "the server's answer holds no profile");
    if (r < 0)
        return r;
    *ret = set->profiles.data[before];
    (*ret)->default_mapping = 0; /* a sum is of no single program */
    vec_clear(&(*ret)->mappings);
    return 0;
}

static int fetch_profile(struct remote_store *s, const struct buf *params, struct profile_set *set,
                         struct profile **ret, struct error *err)
{
    struct http_answer a;

    int r = ask(s, "/api/v1/profile.otlp", params, set->budget, &a, err);
    if (r != 0)
        return r;
    r = read_profile(&a, set, ret, err);
    http_answer_done(set->budget, &a);
    return r;
}

static int aggregate_stacks(struct remote_store *s, const struct store_plan *plan,
                            struct store_answer *answer, struct error *err)
{
    CLEANUP(buf_done) struct buf params = {0};
    struct store_cell cell = {.start_ns = plan->from_ns, .n_profiles = 1};

    add_scope(&params, plan->selector, plan->from_ns, plan->to_ns);
    add_instant(&params, plan->instant);
    add_ids(&params, plan->has_trace, plan->trace_id, plan->has_span, plan->span_id);
    int r = fetch_profile(s, &params, answer->set, &cell.profile, err);
    if (r != 0)
        return r > 0 ? 0 : r;
    cell.group = (uint32_t)answer->groups.len;
    struct label *none = arena_new(&answer->set->dict->text, struct label, 0);
    if (!none || !vec_push(&answer->budget, &answer->groups, none) ||
        !vec_push(&answer->budget, &answer->cells, cell))
        return budget_error(&answer->budget, err);
    return 0;
}

static int aggregate_numbers(struct remote_store *s, const struct store_plan *plan,
                             struct store_answer *answer, struct error *err)
{
    CLEANUP(buf_done) struct buf params = {0};
    struct http_answer a;
    bool is_heat = plan->by_sample_time;
    const char *path = is_heat                       ? "/api/v1/heatmap"
                       : plan->what == PLAN_FUNCTION ? "/api/v1/function"
                                                     : "/api/v1/timeline";

    add_scope(&params, plan->selector, plan->from_ns, plan->to_ns);
    add_instant(&params, plan->instant);
    buf_addf(&params, "&step=%lldns%s", (long long)plan->step_ns, is_heat ? "&rows=1" : "");
    if (plan->what == PLAN_FUNCTION)
        add_text(&params, "function", plan->function);
    for (size_t i = 0; i < plan->n_group_by; i++)
        add_text(&params, "by", plan->group_by[i]);
    int r = ask(s, path, &params, &answer->budget, &a, err);
    if (r != 0)
        return r > 0 ? 0 : r;
    r = is_heat ? remote_read_heat(http_answer_body(&a), answer, err)
                : remote_read_timeline(http_answer_body(&a), plan, answer, err);
    http_answer_done(&answer->budget, &a);
    return r;
}

static int aggregate(struct store *store, const struct store_plan *plan,
                     struct store_answer *answer, struct error *err)
{
    bool is_stacks = plan->what == PLAN_STACKS && plan->step_ns == 0 && plan->n_group_by == 0;
    bool is_numbers =
        (plan->what == PLAN_TOTALS || plan->what == PLAN_FUNCTION) && plan->step_ns > 0;

    if (is_stacks)
        return aggregate_stacks(self_of(store), plan, answer, err);
    if (is_numbers)
        return aggregate_numbers(self_of(store), plan, answer, err);
    return error_set(err, -EOPNOTSUPP, "a server cannot be asked this way");
}

/* ---- Lists */

/* Asks for all items of a list, a line each, and reads them one by one. */
static int ask_list(struct remote_store *s, const char *path, struct buf *params,
                    struct remote_list *l, struct error *err)
{
    struct budget b;
    struct http_answer a;

    budget_init(&b, LIST_MEMORY);
    buf_add_str(params, "&format=ndjson");
    int r = ask(s, path, params, &b, &a, err);
    if (r != 0)
        return r > 0 ? 0 : r;
    r = remote_read_list(http_answer_body(&a), l, err);
    http_answer_done(&b, &a);
    return r;
}

static int list_series(struct store *store, const struct store_scope *scope, store_series_fn sink,
                       void *ctx, struct error *err)
{
    CLEANUP(buf_done) struct buf params = {0};
    struct remote_list l = {.on_series = sink, .ctx = ctx};

    add_scope(&params, scope->selector, scope->from_ns, scope->to_ns);
    return ask_list(self_of(store), "/api/v1/series", &params, &l, err);
}

static int note_instant(void *ctx, const struct store_series *series)
{
    struct store_series *all = ctx;
    all->is_instant = all->is_instant || series->is_instant;
    return 0;
}

/* All of them as one: the server adds up samples whose stacks and labels are equal, and makes one
 * of moments unless they are to be summed. */
static int find_samples(struct remote_store *s, const struct store_find *find, struct buf *params,
                        store_found_fn sink, void *ctx, struct error *err)
{
    struct budget b;
    struct profile *p = NULL;
    struct store_series series = {0};
    struct store_scope scope = {find->tenant, find->selector, find->from_ns, find->to_ns};

    int r = list_series(&s->base, &scope, note_instant, &series, err);
    if (r < 0)
        return r;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    struct profile_set *set = profile_set_new(&b);
    series.is_instant = series.is_instant && find->instant == INSTANT_SUM;
    buf_add_str(params, "&labels=1");
    add_instant(params, find->instant);
    r = fetch_profile(s, params, set, &p, err);
    if (r == 0) {
        struct store_found found = {.series = &series,
                                    .start_ns = p->time_unix_ns,
                                    .duration_ns = p->duration_ns,
                                    .period = p->period,
                                    .profile = p};
        r = sink(ctx, &found);
    }
    profile_set_free(set);
    return r > 0 ? 0 : r;
}

static int find_profiles(struct store *store, const struct store_find *find, store_found_fn sink,
                         void *ctx, struct error *err)
{
    CLEANUP(buf_done) struct buf params = {0};
    struct remote_list l = {.on_found = sink, .ctx = ctx};

    add_scope(&params, find->selector, find->from_ns, find->to_ns);
    add_ids(&params, find->has_trace, find->trace_id, find->has_span, find->span_id);
    if (find->has_id)
        add_hex(&params, "id", find->id, 16);
    if (find->with_samples)
        return find_samples(self_of(store), find, &params, sink, ctx, err);
    if (find->limit > 0)
        remote_param_i64(&params, "limit", (int64_t)find->limit);
    return ask_list(self_of(store), "/api/v1/profiles", &params, &l, err);
}

static int find_spans(struct store *store, const struct store_span_find *find, store_span_fn sink,
                      void *ctx, struct error *err)
{
    CLEANUP(buf_done) struct buf params = {0};
    struct remote_list l = {.on_span = sink, .ctx = ctx};

    add_range(&params, find->from_ns, find->to_ns);
    add_ids(&params, find->has_trace, find->trace_id, find->has_span, find->span_id);
    if (find->service.len > 0)
        add_text(&params, "service", find->service);
    if (find->name.len > 0)
        add_text(&params, "name", find->name);
    if (find->min_duration_ns > 0)
        buf_addf(&params, "&min_duration=%lldns", (long long)find->min_duration_ns);
    if (find->limit > 0)
        remote_param_i64(&params, "limit", (int64_t)find->limit);
    return ask_list(self_of(store), "/api/v1/spans", &params, &l, err);
}

/* ---- The rest */

static void close_remote(struct store *store)
{
    struct remote_store *s = self_of(store);
    remote_done(&s->remote);
    free(s);
}

static int refuse(struct error *err)
{
    return error_set(err, -EOPNOTSUPP, "this is done where the data is: with --data DIR");
}

static int attach(struct store_source *source, struct error *err)
{
    (void)source;
    return refuse(err);
}

static int estimate(struct store *store, const struct store_plan *plan, struct store_estimate *ret,
                    struct error *err)
{
    (void)store, (void)plan, (void)ret;
    return refuse(err);
}

static uint64_t changes(struct store *store, const struct store_scope *scope)
{
    (void)store, (void)scope;
    return 0;
}

static const struct store_ops ops = {
    .close = close_remote,
    .source_attach = attach,
    .series = list_series,
    .estimate = estimate,
    .aggregate = aggregate,
    .profiles = find_profiles,
    .spans = find_spans,
    .changes = changes,
};

int remote_store_open(const struct options *o, struct store **ret, struct error *err)
{
    struct remote_store *s = must_calloc(1, sizeof(*s));

    s->base.ops = &ops;
    int r = remote_init(&s->remote, o, err);
    if (r < 0) {
        close_remote(&s->base);
        return r;
    }
    *ret = &s->base;
    return 0;
}
