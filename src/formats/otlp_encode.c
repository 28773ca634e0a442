/*
 * Profiles as OTLP, in the layout of release 1.10.
 *
 * An OTLP profile has one sample type and one shape of samples. So a profile of the model becomes
 * one for each type, in a scope of their own that says how they belong together (otlp_join.c reads
 * that); and when only some of its rows have times, those with and those without go apart.
 */
#include "formats/otlp_encode.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "formats/otlp_internal.h"

/* Rows of one stack, labels and link: one sample of the message. */
struct group {
    uint32_t node, attrs, link;
    uint32_t first, last; /* rows, chained by `next` */
};

/* Some rows of a profile, grouped. */
struct part {
    const struct profile *p;
    bool timed;
    VEC(struct group) groups;
    uint32_t *next; /* the row behind each in its group; UINT32_MAX ends */
    uint64_t earliest, latest;
};

static struct group row_group(const struct profile *p, size_t row)
{
    return (struct group){.node = p->node[row],
                          .attrs = profile_attrs(p, row),
                          .link = profile_link(p, row),
                          .first = (uint32_t)row,
                          .last = (uint32_t)row};
}

static bool same_group(const struct group *a, const struct group *b)
{
    return a->node == b->node && a->attrs == b->attrs && a->link == b->link;
}

/* Groups in the order of their first rows, rows in their own. */
static void part_init(struct otlp_writer *w, struct part *part)
{
    const struct profile *p = part->p;
    struct idset index = {0};

    part->earliest = UINT64_MAX;
    part->next = malloc((p->n_samples + 1) * sizeof(*part->next));
    if (!part->next)
        abort();
    for (size_t row = 0; row < p->n_samples; row++) {
        uint64_t time = profile_time_ns(p, row);
        if ((time != 0) != part->timed)
            continue;
        part->earliest = time < part->earliest ? time : part->earliest;
        part->latest = time > part->latest ? time : part->latest;
        struct group g = row_group(p, row);
        uint64_t hash = hash_mix((uint64_t)g.node << 32 | g.attrs, g.link);
        uint32_t id = IDSET_FIND(&index, hash, i, same_group(&part->groups.data[i], &g));
        part->next[row] = UINT32_MAX;
        if (id == IDSET_NONE) {
            idset_add(&w->budget, &index, hash, (uint32_t)part->groups.len);
            vec_push(&w->budget, &part->groups, g);
        } else {
            part->next[part->groups.data[id].last] = (uint32_t)row;
            part->groups.data[id].last = (uint32_t)row;
        }
    }
    idset_done(&w->budget, &index);
}

static void part_done(struct otlp_writer *w, struct part *part)
{
    vec_done(&w->budget, &part->groups);
    free(part->next);
}

/* Times alone say "one each". */
static bool all_ones(const struct part *part, const int64_t *column)
{
    for (size_t i = 0; i < part->p->n_samples; i++) {
        if (column[i] != 1 && profile_time_ns(part->p, i) != 0)
            return false;
    }
    return true;
}

static void write_sample(struct otlp_writer *w, const struct part *part, const struct group *g,
                         const int64_t *column, bool with_values)
{
    struct buf *out = w->out;
    size_t at = pb_begin(out, PROFILE_SAMPLES);

    pb_put_u64_opt(out, SAMPLE_STACK, otlp_put_stack(w, g->node));
    otlp_write_indices(w, SAMPLE_ATTRIBUTES, otlp_put_attrs(w, g->attrs));
    pb_put_u64_opt(out, SAMPLE_LINK, dict_link(w->to, w->from->links.data[g->link]));
    if (with_values) {
        size_t list = pb_begin(out, SAMPLE_VALUES);
        uint64_t sum = 0;
        for (uint32_t row = g->first; row != UINT32_MAX; row = part->next[row]) {
            uint64_t v = column ? (uint64_t)column[row] : 0;
            sum += v;
            if (part->timed)
                pb_put_varint(out, v);
        }
        if (!part->timed)
            pb_put_varint(out, sum);
        pb_end(out, list);
    }
    if (part->timed) {
        size_t list = pb_begin(out, SAMPLE_TIMES);
        for (uint32_t row = g->first; row != UINT32_MAX; row = part->next[row])
            buf_add(out, &part->p->time_ns[row], sizeof(uint64_t));
        pb_end(out, list);
    }
    pb_end(out, at);
}

static void write_value_type(struct otlp_writer *w, uint32_t field, struct value_type t)
{
    if (t.type == 0 && t.unit == 0)
        return;
    size_t at = pb_begin(w->out, field);
    pb_put_u64_opt(w->out, 1, otlp_put_string(w, t.type));
    pb_put_u64_opt(w->out, 2, otlp_put_string(w, t.unit));
    pb_end(w->out, at);
}

/* Every time must lie in [start, start + duration): the window is made to hold them. */
static void write_window(struct otlp_writer *w, const struct part *part)
{
    const struct profile *p = part->p;
    uint64_t start = (uint64_t)p->time_unix_ns, duration = (uint64_t)p->duration_ns;

    if (part->timed) {
        bool has_start = start != 0, has_duration = p->duration_ns > 0;
        if (!has_start || part->earliest < start)
            start = part->earliest;
        uint64_t end =
            (has_start ? (uint64_t)p->time_unix_ns : start) + (has_duration ? duration : 0);
        if (part->latest >= end)
            end = part->latest + 1;
        w->losses[OTLP_LOSS_WINDOW] |= (has_start && start != (uint64_t)p->time_unix_ns) ||
                                       ((has_start || has_duration) && end - start != duration);
        duration = end - start;
    }
    if (start != 0)
        pb_put_fixed64(w->out, PROFILE_TIME, start);
    pb_put_u64_opt(w->out, PROFILE_DURATION, duration);
}

static void push_comments(struct otlp_writer *w, const struct profile *p)
{
    struct buf message = {0};

    if (p->comments.len == 0)
        return;
    size_t at = pb_begin(&message, 5);
    for (size_t i = 0; i < p->comments.len; i++) {
        size_t element = pb_begin(&message, 1);
        pb_put_bytes(&message, 1, otlp_text(w, p->comments.data[i]));
        pb_end(&message, element);
    }
    pb_end(&message, at);
    otlp_push_message(w, "pprof.profile.comment", buf_bytes(&message));
    buf_done(&message);
}

static void write_identity(struct otlp_writer *w, const struct profile *p)
{
    static const uint8_t no_id[sizeof(p->profile_id)];

    if (memcmp(p->profile_id, no_id, sizeof(no_id)) != 0)
        pb_put_bytes(w->out, PROFILE_ID, (struct bytes){p->profile_id, sizeof(p->profile_id)});
    pb_put_u64_opt(w->out, PROFILE_DROPPED, p->dropped_attributes);
    if (p->original_format || p->original_payload) {
        pb_put_bytes(w->out, PROFILE_FORMAT, otlp_text(w, p->original_format));
        pb_put_bytes(w->out, PROFILE_PAYLOAD, dict_text(w->from, p->original_payload));
    }
}

/* One sample type of a part. What identifies the profile is written with the first only. */
static void write_profile(struct otlp_writer *w, const struct part *part, uint32_t type,
                          bool is_first)
{
    const struct profile *p = part->p;
    const int64_t *column = type < p->n_types ? p->values[type] : NULL;
    bool with_values = !part->timed || !column || !all_ones(part, column);
    size_t at = pb_begin(w->out, 2);

    if (type < p->n_types)
        write_value_type(w, PROFILE_SAMPLE_TYPE, p->types[type]);
    for (size_t i = 0; i < part->groups.len; i++)
        write_sample(w, part, &part->groups.data[i], column, with_values);
    write_window(w, part);
    write_value_type(w, PROFILE_PERIOD_TYPE, p->period_type);
    pb_put_u64_opt(w->out, PROFILE_PERIOD, (uint64_t)p->period);
    if (is_first)
        write_identity(w, p);
    otlp_push_attrs(w, p->profile_attrs);
    push_comments(w, p);
    otlp_push_text(w, "pprof.profile.drop_frames", p->drop_frames);
    otlp_push_text(w, "pprof.profile.keep_frames", p->keep_frames);
    otlp_push_text(w, "pprof.profile.doc_url", p->doc_url);
    otlp_write_indices(w, PROFILE_ATTRIBUTES, otlp_put_ids(w));
    pb_end(w->out, at);
    w->losses[OTLP_LOSS_CUMULATIVE] |= p->is_cumulative;
}

static void write_key_values(struct otlp_writer *w, uint32_t field, uint32_t set)
{
    struct attrs s = w->from->attr_sets.data[set];

    for (uint32_t i = 0; i < s.n; i++) {
        const struct attribute *a = &w->from->attributes.data[w->from->attr_ids.data[s.first + i]];
        size_t at = pb_begin(w->out, field);
        pb_put_bytes_opt(w->out, 1, otlp_text(w, a->key));
        if (a->kind != ATTRIBUTE_NONE)
            otlp_write_value(w, w->from, a);
        pb_end(w->out, at);
        w->losses[OTLP_LOSS_UNIT] |= a->unit != 0;
    }
}

static uint32_t n_types(const struct profile *p)
{
    return p->n_types ? p->n_types : 1;
}

/* The column that is written as the i-th profile: the default one is to come first. */
static uint32_t nth_type(const struct profile *p, uint32_t i)
{
    uint32_t first = p->n_types ? profile_default_index(p) : 0;

    return i == 0 ? first : i <= first ? i - 1 : i;
}

static void write_type_order(struct otlp_writer *w, const struct profile *p)
{
    size_t at = pb_begin(w->out, 3);
    pb_put_bytes(w->out, 1, BYTES(OTLP_ORDER_KEY));
    size_t value = pb_begin(w->out, 2), array = pb_begin(w->out, 5);
    for (uint32_t i = 0; i < p->n_types; i++) {
        size_t element = pb_begin(w->out, 1);
        pb_put_u64(w->out, 3, nth_type(p, i));
        pb_end(w->out, element);
    }
    pb_end(w->out, array);
    pb_end(w->out, value);
    pb_end(w->out, at);
}

static void write_scope(struct otlp_writer *w, const struct profile *p)
{
    if (!p->scope_name && !p->scope_version && !p->scope_attrs && !p->scope_dropped_attributes &&
        p->n_types < 2 && !p->default_type)
        return;
    size_t at = pb_begin(w->out, 1);
    pb_put_bytes_opt(w->out, 1, otlp_text(w, p->scope_name));
    pb_put_bytes_opt(w->out, 2, otlp_text(w, p->scope_version));
    write_key_values(w, 3, p->scope_attrs);
    if (p->default_type) {
        size_t pair = pb_begin(w->out, 3);
        pb_put_bytes(w->out, 1, BYTES(OTLP_DEFAULT_KEY));
        otlp_write_value(w, w->from,
                         &(struct attribute){.kind = ATTRIBUTE_STRING, .text = p->default_type});
        pb_end(w->out, pair);
    }
    if (p->n_types > 1)
        write_type_order(w, p);
    pb_put_u64_opt(w->out, 4, p->scope_dropped_attributes);
    pb_end(w->out, at);
}

static void write_resource(struct otlp_writer *w, const struct profile *p)
{
    if (!p->resource_attrs && !p->resource_dropped_attributes && !p->resource_entities)
        return;
    size_t at = pb_begin(w->out, 1);
    write_key_values(w, 1, p->resource_attrs);
    pb_put_u64_opt(w->out, 2, p->resource_dropped_attributes);
    buf_add_bytes(w->out, dict_text(w->from, p->resource_entities));
    pb_end(w->out, at);
}

static bool same_resource(const struct profile *a, const struct profile *b)
{
    return a->resource_index == b->resource_index && a->resource_attrs == b->resource_attrs &&
           a->resource_schema_url == b->resource_schema_url &&
           a->resource_dropped_attributes == b->resource_dropped_attributes &&
           a->resource_entities == b->resource_entities;
}

/* Profiles whose scope says something about their types need it for themselves. */
static bool owns_scope(const struct profile *p)
{
    return p->n_types > 1 || p->default_type != 0;
}

static bool same_scope(const struct profile *a, const struct profile *b)
{
    return !owns_scope(a) && !owns_scope(b) && same_resource(a, b) &&
           a->scope_index == b->scope_index && a->scope_attrs == b->scope_attrs &&
           a->scope_name == b->scope_name && a->scope_version == b->scope_version &&
           a->scope_schema_url == b->scope_schema_url &&
           a->scope_dropped_attributes == b->scope_dropped_attributes;
}

/* What is open in the output: a resource and a scope of it. */
struct envelope {
    const struct profile *last;
    size_t resource, scope;
};

static void close_scope(struct otlp_writer *w, struct envelope *e)
{
    pb_put_bytes_opt(w->out, 3, otlp_text(w, e->last->scope_schema_url));
    pb_end(w->out, e->scope);
}

static void close_resource(struct otlp_writer *w, struct envelope *e)
{
    close_scope(w, e);
    pb_put_bytes_opt(w->out, 3, otlp_text(w, e->last->resource_schema_url));
    pb_end(w->out, e->resource);
}

static void open_for(struct otlp_writer *w, struct envelope *e, const struct profile *p)
{
    if (e->last && same_scope(e->last, p))
        return;
    if (!e->last || !same_resource(e->last, p)) {
        if (e->last)
            close_resource(w, e);
        e->resource = pb_begin(w->out, 1);
        write_resource(w, p);
    } else {
        close_scope(w, e);
    }
    e->scope = pb_begin(w->out, 2);
    write_scope(w, p);
    e->last = p;
}

static void write_parts(struct otlp_writer *w, struct envelope *e, const struct profile *p)
{
    for (int timed = 1; timed >= 0; timed--) {
        if (timed && !p->time_ns)
            continue;
        struct part part = {.p = p, .timed = timed};
        part_init(w, &part);
        /* A profile without samples is written too, once. */
        if (part.groups.len > 0 || (!timed && p->n_samples == 0)) {
            open_for(w, e, p);
            for (uint32_t i = 0; i < n_types(p); i++)
                write_profile(w, &part, nth_type(p, i), i == 0);
        }
        part_done(w, &part);
    }
}

static void write_losses(const struct otlp_writer *w, struct buf *losses)
{
    static const char *const texts[OTLP_LOSSES] = {
        [OTLP_LOSS_UTF8] = "bytes that are not UTF-8 were replaced",
        [OTLP_LOSS_NEGATIVE_LINE] = "negative line numbers were left out",
        [OTLP_LOSS_RANGE] = "the addresses of mappings that end before they begin were left out",
        [OTLP_LOSS_UNUSED_MAPPING] = "mappings that no location refers to were left out",
        [OTLP_LOSS_UNIT] = "units of resource and scope attributes were left out",
        [OTLP_LOSS_SAME_KEY] =
            ("of attributes with the same key but another unit, or of a kind that is neither text "
             "nor a whole number, only the first was kept"),
        [OTLP_LOSS_CUMULATIVE] = "the mark that values count since the start of the process",
        [OTLP_LOSS_WINDOW] = "the time and duration were widened to hold the times of all samples",
    };

    for (int i = 0; i < OTLP_LOSSES; i++) {
        if (w->losses[i])
            buf_addf(losses, "%s\n", texts[i]);
    }
}

int otlp_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                struct error *err)
{
    struct otlp_writer w;
    struct envelope e = {0};

    for (size_t i = 0; i < set->profiles.len; i++) {
        if (set->profiles.data[i]->n_samples >= UINT32_MAX)
            return error_set(err, -EOPNOTSUPP, "could not write a profile of %zu samples as OTLP",
                             set->profiles.data[i]->n_samples);
    }
    otlp_writer_init(&w, set, out);
    for (size_t i = 0; i < set->profiles.len; i++)
        write_parts(&w, &e, set->profiles.data[i]);
    if (e.last)
        close_resource(&w, &e);
    otlp_write_dictionary(&w);
    write_losses(&w, losses);
    otlp_writer_done(&w);
    return 0;
}
