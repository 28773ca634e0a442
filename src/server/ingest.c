#include "server/ingest.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "server/deployments.h"
#include "server/mask.h"
#include "server/metadata.h"
#include "server/server_internal.h"
#include "server/tenant_limits.h"

/* What to tell a client when the store is behind: a flush takes about as long. */
#define STORE_RETRY_MS 1000

void ingest_begin(struct worker *w)
{
    store_source_reset(w->source);
    w->n_nodes = dict_n_nodes(w->source->set->dict);
}

/* What follows from a resource: its profiles come one after the other, and there may be many of
 * both, so that it is made once. */
struct named {
    bool is_made;
    uint32_t resource_attrs;
    int status; /* -EINVAL: none of its profiles can be taken */
    struct error why;
    struct label *labels;
    size_t n_labels;
    uint64_t sender;
};

/* One request on its way in. */
struct ingest {
    struct call *c;
    const struct ingest_options *o;
    struct metadata metadata;
    struct ingest_result *ret;
    int64_t now_ns;
    struct arena arena;
    struct named named;

    struct store_incoming *in; /* those that the store is asked to take */
    size_t n;
};

static void ingest_done(struct ingest *x)
{
    arena_done(&x->arena);
}

static void count(struct ingest *x, enum metric which, const char *value, uint64_t n)
{
    if (n > 0)
        metrics_add(x->c->server->metrics, which, value, n);
}

static void reject(struct ingest *x, const char *reason, const struct error *why)
{
    if (x->ret->rejected++ == 0)
        x->ret->why = *why;
    count(x, METRIC_REJECTS, reason, 1);
}

/* ---- A profile */

static bool is_text(const struct dict *d, uint32_t id, const char *text)
{
    return bytes_are(dict_text(d, id), text);
}

/* OTLP's units may be UCUM's: series have the names that everybody else uses. */
static void plain_unit(struct dict *d, struct value_type *t)
{
    if (is_text(d, t->unit, "ns"))
        t->unit = dict_cstring(d, "nanoseconds");
    else if (is_text(d, t->unit, "By"))
        t->unit = dict_cstring(d, "bytes");
}

/*
 * OTLP's profilers count samples and say how much time one stands for. What people ask for is the
 * time: it becomes a second column, as in Go's CPU profiles. The count stays.
 */
static int add_time(struct profile *p, struct error *err)
{
    const struct dict *d = p->dict;

    plain_unit(p->dict, &p->period_type);
    if (p->n_types != 1)
        return 0;
    plain_unit(p->dict, &p->types[0]);
    if (p->period <= 0 || !is_text(d, p->types[0].type, "samples") ||
        !is_text(d, p->types[0].unit, "count") ||
        !(is_text(d, p->period_type.type, "cpu") || is_text(d, p->period_type.type, "wall")) ||
        !is_text(d, p->period_type.unit, "nanoseconds"))
        return 0;
    (void)profile_add_type(p, p->period_type.type, p->period_type.unit);
    if (budget_failed(d->budget))
        return budget_error(d->budget, err);
    for (size_t i = 0; i < p->n_samples; i++) {
        if (__builtin_mul_overflow(p->values[0][i], p->period, &p->values[1][i]))
            return error_set(err, -EINVAL, "%lld samples of %lld ns are more than can be counted",
                             (long long)p->values[0][i], (long long)p->period);
    }
    return 0;
}

/* The first time that a sample has, or 0. */
static int64_t first_time(const struct profile *p)
{
    uint64_t first = 0;

    for (size_t i = 0; p->time_ns && i < p->n_samples; i++) {
        if (p->time_ns[i] != 0 && (first == 0 || p->time_ns[i] < first))
            first = p->time_ns[i];
    }
    return first <= INT64_MAX ? (int64_t)first : 0;
}

static void set_window(const struct ingest *x, struct profile *p)
{
    const struct ingest_options *o = x->o;

    if (p->time_unix_ns != 0)
        return;
    if (o->from_ns > 0) {
        p->time_unix_ns = o->from_ns;
        if (o->until_ns > o->from_ns && p->duration_ns == 0)
            p->duration_ns = o->until_ns - o->from_ns;
        return;
    }
    p->time_unix_ns = first_time(p);
    if (p->time_unix_ns == 0) {
        int64_t end = o->until_ns > 0 ? o->until_ns : x->now_ns;
        p->time_unix_ns = p->duration_ns > 0 && p->duration_ns < end ? end - p->duration_ns : end;
    }
}

static void mask_labels(struct ingest *x, struct label *labels, size_t n)
{
    struct mask_memory *masked = x->c->worker->masked;

    for (size_t i = 0; masked && i < n; i++) {
        struct bytes value = mask_value(masked, labels[i].value, &x->arena);
        if (value.data != labels[i].value.data)
            count(x, METRIC_MASKED, "labels", 1);
        labels[i].value = value;
    }
}

static void set_id(const struct ingest *x, const struct profile *p,
                   const struct ingest_profile *own, struct store_incoming *in)
{
    static const uint8_t none[16];
    bool is_given = x->o->has_id && x->c->worker->source->set->profiles.len == 1;
    const uint8_t *id = own->has_id ? own->id : is_given ? x->o->id : p->profile_id;

    memcpy(in->id, id, sizeof(in->id));
    in->has_id = memcmp(in->id, none, sizeof(none)) != 0;
}

static const struct named *name(struct ingest *x, const struct profile *p,
                                const struct ingest_profile *own)
{
    struct named *n = &x->named;

    if (n->is_made && n->resource_attrs == p->resource_attrs && own->n_labels == 0)
        return n;
    x->metadata.own = own->labels;
    x->metadata.n_own = own->n_labels;
    *n = (struct named){.is_made = own->n_labels == 0, .resource_attrs = p->resource_attrs};
    n->status = metadata_labels(&x->metadata, p, &x->arena, &n->labels, &n->n_labels, &n->why);
    if (n->status == 0) {
        mask_labels(x, n->labels, n->n_labels);
        n->sender = metadata_sender(p->dict, p->resource_attrs);
    }
    return n;
}

static int add_profile(struct ingest *x, struct profile *p, const struct ingest_profile *own,
                       struct error *err)
{
    const struct named *n = name(x, p, own);
    struct store_incoming in = {
        .profile = p, .labels = n->labels, .n_labels = n->n_labels, .sender = n->sender};
    struct error why;
    int r = n->status;

    if (r == -ENOBUFS)
        return error_set(err, r, "%s", n->why.text);
    if (r < 0) {
        reject(x, "labels", &n->why);
        return 0;
    }
    if (strncmp(x->o->format, "otlp", 4) == 0 && (r = add_time(p, &why)) < 0) {
        if (r == -ENOBUFS)
            return error_set(err, r, "%s", why.text);
        reject(x, "values", &why);
        return 0;
    }
    set_window(x, p);
    in.is_instant = x->o->is_instant || own->is_instant || profile_is_instant(p);
    set_id(x, p, own, &in);
    x->in[x->n++] = in;
    return 0;
}

/* ---- All of them */

static int check_nodes(const struct ingest *x, struct error *err)
{
    const struct worker *w = x->c->worker;
    uint32_t limit = x->c->server->config->profile_nodes_max;
    size_t n = dict_n_nodes(w->source->set->dict);

    n -= w->n_nodes < n ? w->n_nodes : 0;
    if (limit > 0 && n > limit)
        return error_set(err, -E2BIG,
                         "the request has %zu stack nodes that were not known: "
                         "limits.profile_nodes is %u",
                         n, limit);
    return 0;
}

static uint64_t body_bytes(const struct call *c)
{
    return c->body.len > 0 ? c->body.len : c->request ? c->request->body_len : 0;
}

/* All that may refuse the request as a whole. */
static int admit(struct ingest *x, struct error *err)
{
    struct call *c = x->c;
    const struct profile_set *set = c->worker->source->set;
    size_t n_masked = 0;

    if (budget_failed(set->budget))
        return budget_error(set->budget, err);
    int r = check_nodes(x, err);
    if (r == 0 && c->server->limits)
        r = limits_take_ingest(c->server->limits, c->tenant, body_bytes(c), set->profiles.len,
                               &c->retry_after_ms, err);
    if (r == 0 && c->worker->masked)
        r = mask_source(c->worker->masked, c->worker->source, &n_masked, err);
    count(x, METRIC_MASKED, "names", n_masked);
    return r;
}

static const char *reject_reason(int code)
{
    switch (code) {
    case -ERANGE:
        return "time";
    case -EDQUOT:
        return "series";
    case -EINVAL:
        return "labels";
    case -ENOBUFS:
    case -EFBIG:
        return "too_large";
    default:
        return "other";
    }
}

/* A copy that outlives the request's own arena; without one the labels are not told. */
static void tell_labels(struct ingest *x, const struct store_incoming *in)
{
    struct arena *arena = call_arena(x->c);
    struct label *copy = arena_new(arena, struct label, in->n_labels);

    for (size_t i = 0; copy && i < in->n_labels; i++) {
        const struct label *l = &in->labels[i];
        const char *name = arena_strdup(arena, l->name), *value = arena_strdup(arena, l->value);
        if (!name || !value)
            return;
        copy[i] = (struct label){{(const uint8_t *)name, l->name.len},
                                 {(const uint8_t *)value, l->value.len}};
    }
    x->ret->labels = copy;
    x->ret->n_labels = copy ? in->n_labels : 0;
}

static void tell_place(struct ingest *x, const struct store_incoming *in)
{
    struct ingest_result *ret = x->ret;
    int64_t start = in->profile->time_unix_ns, end;

    /* A profile lies where it starts, however short it is. */
    if (__builtin_add_overflow(start, in->profile->duration_ns, &end) || end <= start)
        end = start + 1;
    if (!ret->labels)
        tell_labels(x, in);
    if (ret->until_ns == 0 || start < ret->from_ns)
        ret->from_ns = start;
    if (end > ret->until_ns)
        ret->until_ns = end;
}

static void settle(struct ingest *x, const struct store_outcome *outcomes)
{
    struct call *c = x->c;
    uint64_t samples = 0;

    for (size_t i = 0; i < x->n; i++) {
        const struct store_incoming *in = &x->in[i];
        if (outcomes[i].verdict == STORE_REJECTED) {
            reject(x, reject_reason(outcomes[i].code), &outcomes[i].why);
            continue;
        }
        x->ret->duplicates += outcomes[i].verdict == STORE_DUPLICATE;
        x->ret->stored += outcomes[i].verdict == STORE_STORED;
        samples += in->profile->n_samples;
        tell_place(x, in);
        if (c->server->config->detect_deployments && c->server->deployments)
            deployments_saw(c->server->deployments, c->tenant, in->labels, in->n_labels,
                            in->profile->time_unix_ns);
    }
    count(x, METRIC_INGEST_PROFILES, x->o->format, x->ret->stored);
    count(x, METRIC_INGEST_SAMPLES, x->o->format, samples);
    count(x, METRIC_DUPLICATES, x->o->format, x->ret->duplicates);
}

static int append(struct ingest *x, struct error *err)
{
    struct call *c = x->c;
    struct store_outcome *outcomes = arena_new(&x->arena, struct store_outcome, x->n);

    if (!outcomes)
        return budget_error(x->arena.budget, err);
    int64_t begun = clock_monotonic_ns(clock_real());
    int r = store_append(c->worker->source, c->tenant, x->in, x->n, outcomes, err);
    metrics_observe(c->server->metrics, METRIC_APPEND_SECONDS, "",
                    clock_monotonic_ns(clock_real()) - begun);
    if (r == -EAGAIN)
        c->retry_after_ms = STORE_RETRY_MS;
    if (r == 0)
        settle(x, outcomes);
    return r;
}

int ingest_set(struct call *c, const struct ingest_options *o, struct ingest_result *ret,
               struct error *err)
{
    const struct profile_set *set = c->worker->source->set;
    static const struct ingest_profile nothing;
    struct ingest_result result = {.profiles = set->profiles.len};
    CLEANUP(ingest_done)
    struct ingest x = {.c = c,
                       .o = o,
                       .metadata = {c->server->config, o->labels, o->n_labels, NULL, 0},
                       .ret = &result,
                       .now_ns = clock_wall_ns(clock_real())};

    c->format = o->format;
    arena_init(&x.arena, &c->budget);
    count(&x, METRIC_INGEST_REQUESTS, o->format, 1);
    count(&x, METRIC_INGEST_BYTES, o->format, body_bytes(c));
    int r = admit(&x, err);
    if (r < 0)
        return r;
    x.in = arena_new(&x.arena, struct store_incoming, set->profiles.len);
    if (!x.in)
        return budget_error(x.arena.budget, err);
    for (size_t i = 0; r == 0 && i < set->profiles.len; i++)
        r = add_profile(&x, set->profiles.data[i], o->each ? &o->each[i] : &nothing, err);
    if (r == 0 && x.n > 0)
        r = append(&x, err);
    if (r == 0)
        *ret = result;
    return r;
}
