/* Everything of merged profiles but their rows. */
#include <math.h>

#include "profile/measure.h"
#include "profile/merge_internal.h"

/* A column for every type of p, the finer unit where two differ only in size. */
static void add_types(struct profile *out, const struct profile *p)
{
    const struct dict *d = out->dict;

    for (uint32_t t = 0; t < p->n_types; t++) {
        struct value_type type = p->types[t];
        bool found = false;
        for (uint32_t o = 0; o < out->n_types && !found; o++) {
            struct value_type *have = &out->types[o];
            double ratio = 0;
            if (have->type != type.type ||
                !measure_ratio(dict_cstr(d, type.unit), dict_cstr(d, have->unit), &ratio))
                continue;
            found = true;
            if (ratio < 1)
                have->unit = type.unit;
        }
        if (!found)
            profile_add_type(out, type.type, type.unit);
    }
}

uint32_t merge_find_type(const struct profile *out, struct value_type type, double *ret_scale)
{
    const struct dict *d = out->dict;

    for (uint32_t o = 0; o < out->n_types; o++) {
        if (out->types[o].type == type.type &&
            measure_ratio(dict_cstr(d, type.unit), dict_cstr(d, out->types[o].unit), ret_scale))
            return o;
    }
    *ret_scale = 0; /* only once the budget is spent */
    return 0;
}

int64_t merge_scale(int64_t v, double ratio)
{
    double scaled = round((double)v * ratio);
    if (scaled >= 0x1p63)
        return INT64_MAX;
    return scaled <= -0x1p63 ? INT64_MIN : (int64_t)scaled;
}

static void take_first(uint32_t *have, uint32_t id)
{
    if (*have == 0)
        *have = id;
}

/* Keeps a value only while all inputs agree on it. */
static void keep_if_same(uint32_t *have, uint32_t id)
{
    if (*have != id)
        *have = 0;
}

static bool add_comments(struct profile *out, struct profile *const *in, size_t n)
{
    struct budget *b = out->dict->budget;
    VEC(bool) seen = {0};
    bool ok = vec_resize(b, &seen, out->dict->strings.len);

    for (size_t i = 0; ok && i < n; i++) {
        for (size_t c = 0; ok && c < in[i]->comments.len; c++) {
            uint32_t id = in[i]->comments.data[c];
            ok = seen.data[id] || vec_push(b, &out->comments, id);
            seen.data[id] = true;
        }
    }
    vec_done(b, &seen);
    return ok;
}

static bool add_mappings(struct profile *out, struct profile *const *in, size_t n)
{
    struct budget *b = out->dict->budget;
    VEC(bool) seen = {0};
    bool ok = vec_resize(b, &seen, out->dict->mappings.len);

    for (size_t i = 0; ok && i < n; i++) {
        for (size_t k = 0; ok && k < in[i]->mappings.len; k++) {
            uint32_t id = in[i]->mappings.data[k];
            ok = seen.data[id] || vec_push(b, &out->mappings, id);
            seen.data[id] = true;
        }
    }
    vec_done(b, &seen);
    return ok;
}

static bool same_type(struct value_type a, struct value_type b)
{
    return a.type == b.type && a.unit == b.unit;
}

/* What the rows are measured in, and since when. */
static void add_window(struct profile *out, const struct profile *p)
{
    if (out->time_unix_ns == 0 || (p->time_unix_ns != 0 && p->time_unix_ns < out->time_unix_ns))
        out->time_unix_ns = p->time_unix_ns;
    if (out->period_type.type == 0 && out->period_type.unit == 0)
        out->period_type = p->period_type;
    if (same_type(out->period_type, p->period_type) &&
        (out->period == 0 || out->period < p->period))
        out->period = p->period;
}

/* Profiles that measure the same: one of them, and how long they took together. */
struct kind {
    const struct profile *of;
    uint64_t duration_ns;
};

#define KINDS_MAX 32

static bool same_kind(const struct profile *a, const struct profile *b)
{
    bool same = a->n_types == b->n_types && same_type(a->period_type, b->period_type);

    for (uint32_t t = 0; same && t < a->n_types; t++)
        same = same_type(a->types[t], b->types[t]);
    return same;
}

/*
 * Durations of profiles that measure the same add up, as pprof has it. Profiles that measure
 * different things (CPU, allocations, locks... of one recording) cover the same time side by side:
 * the longest counts.
 */
static void add_durations(struct profile *out, struct profile *const *in, size_t n)
{
    struct kind kinds[KINDS_MAX];
    size_t n_kinds = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < n_kinds && !same_kind(kinds[k].of, in[i]))
            k++;
        if (k == n_kinds && n_kinds < KINDS_MAX)
            kinds[n_kinds++] = (struct kind){.of = in[i]};
        if (k == KINDS_MAX)
            k--;
        kinds[k].duration_ns += (uint64_t)in[i]->duration_ns;
    }
    for (size_t k = 0; k < n_kinds; k++) {
        if (k == 0 || (int64_t)kinds[k].duration_ns > out->duration_ns)
            out->duration_ns = (int64_t)kinds[k].duration_ns;
    }
}

/* What stands around a profile: the first that is known, or what all agree on. */
static void add_context(struct profile *out, const struct profile *p)
{
    take_first(&out->default_type, p->default_type);
    take_first(&out->doc_url, p->doc_url);
    take_first(&out->default_mapping, p->default_mapping);
    keep_if_same(&out->scope_attrs, p->scope_attrs);
    keep_if_same(&out->profile_attrs, p->profile_attrs);
    keep_if_same(&out->resource_schema_url, p->resource_schema_url);
    keep_if_same(&out->scope_schema_url, p->scope_schema_url);
    keep_if_same(&out->scope_name, p->scope_name);
    keep_if_same(&out->scope_version, p->scope_version);
    keep_if_same(&out->original_format, p->original_format);
    keep_if_same(&out->original_payload, p->original_payload);
    out->is_cumulative = out->is_cumulative && p->is_cumulative;
    if (memcmp(out->profile_id, p->profile_id, sizeof(out->profile_id)) != 0)
        memset(out->profile_id, 0, sizeof(out->profile_id));
}

static void start_context(struct profile *out, const struct profile *p)
{
    out->drop_frames = p->drop_frames;
    out->keep_frames = p->keep_frames;
    out->scope_attrs = p->scope_attrs;
    out->profile_attrs = p->profile_attrs;
    out->resource_schema_url = p->resource_schema_url;
    out->scope_schema_url = p->scope_schema_url;
    out->scope_name = p->scope_name;
    out->scope_version = p->scope_version;
    out->original_format = p->original_format;
    out->original_payload = p->original_payload;
    out->is_cumulative = p->is_cumulative;
    memcpy(out->profile_id, p->profile_id, sizeof(out->profile_id));
}

bool merge_headers(struct profile *out, struct profile *const *in, size_t n)
{
    if (n > 0)
        start_context(out, in[0]);
    for (size_t i = 0; i < n; i++) {
        add_types(out, in[i]);
        add_window(out, in[i]);
        add_context(out, in[i]);
    }
    add_durations(out, in, n);
    return add_comments(out, in, n) && add_mappings(out, in, n) &&
           !budget_failed(out->dict->budget);
}

uint32_t merge_attrs_union(struct dict *d, uint32_t a, uint32_t b)
{
    struct attrs x = d->attr_sets.data[a], y = d->attr_sets.data[b];
    VEC(uint32_t) ids = {0};
    uint32_t id = 0;

    if (a == 0 || b == 0)
        return a | b;
    if (vec_append(d->budget, &ids, d->attr_ids.data + x.first, x.n) &&
        vec_append(d->budget, &ids, d->attr_ids.data + y.first, y.n))
        id = dict_attrs(d, ids.data, ids.len);
    vec_done(d->budget, &ids);
    return id;
}

/* The members of `set` that are (or are not) in `other`. Both are sorted. */
static uint32_t select_attrs(struct dict *d, uint32_t set, uint32_t other, bool want_in)
{
    struct attrs x = d->attr_sets.data[set], y = d->attr_sets.data[other];
    VEC(uint32_t) ids = {0};
    uint32_t k = 0;

    for (uint32_t i = 0; i < x.n; i++) {
        uint32_t id = d->attr_ids.data[x.first + i];
        while (k < y.n && d->attr_ids.data[y.first + k] < id)
            k++;
        bool is_in = k < y.n && d->attr_ids.data[y.first + k] == id;
        if (is_in == want_in)
            (void)vec_push(d->budget, &ids, id);
    }
    uint32_t ret = dict_attrs(d, ids.data, ids.len);
    vec_done(d->budget, &ids);
    return ret;
}

uint32_t merge_attrs_without(struct dict *d, uint32_t set, uint32_t taken)
{
    return set == taken ? 0 : select_attrs(d, set, taken, false);
}

uint32_t merge_shared_attrs(struct dict *d, struct profile *const *in, size_t n)
{
    uint32_t shared = n > 0 ? in[0]->resource_attrs : 0;

    for (size_t i = 1; i < n; i++) {
        if (in[i]->resource_attrs != shared)
            shared = select_attrs(d, shared, in[i]->resource_attrs, true);
    }
    return shared;
}
