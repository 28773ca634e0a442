#include "scrape/v8_turn.h"

#include <errno.h>
#include <string.h>

#include "formats/formats.h"
#include "profile/merge.h"
#include "wire/input.h"
#include "wire/json.h"

struct v8_turn {
    const struct v8_turn_input *in;
    struct budget budget;
    struct profile_set *set; /* as they were read */
    struct profile_set out;  /* over the dictionary of `set` */
};

/* ---- Reading */

/* {"profile": {...}}: what is in it. */
static int take_profile(struct v8_turn *t, struct bytes result, struct buf *ret, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &t->budget);

    json_reader_set_text(r, result, 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "profile")) {
            buf_clear(ret);
            buf_add_bytes(ret, json_get_raw(r));
        } else {
            json_skip(r);
        }
    }
    return json_finish(r, "answer of an inspector", err);
}

static int read_profile(struct v8_turn *t, struct bytes result, const struct format *format,
                        struct profile **ret, struct error *err)
{
    CLEANUP(buf_done) struct buf json = {0};
    size_t had = t->set->profiles.len;
    int r = take_profile(t, result, &json, err);

    if (r < 0)
        return r;
    CLEANUP(input_closep)
    struct input *input = input_from_bytes(buf_bytes(&json), "inspector", &t->budget);
    r = format_read(input, format, t->set, NULL, err);
    if (r == 0 && t->set->profiles.len == had)
        return error_set(err, -EBADMSG, "an inspector answered no profile");
    if (r == 0)
        *ret = vec_last(&t->set->profiles);
    return r;
}

/* ---- What may be told */

static bool is_idle(const struct dict *d, uint32_t node)
{
    const struct location *l = &d->locations.data[d->node_location.data[node]];

    return l->n_lines > 0 &&
           bytes_are(dict_text(d, d->functions.data[d->lines.data[l->first_line].function].name),
                     "(idle)");
}

static void drop_idle(struct profile *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->n_samples; i++)
        if (!is_idle(p->dict, p->node[i]))
            profile_move_row(p, i, kept++);
    p->n_samples = kept;
}

static uint32_t masked(struct v8_turn *t, enum mask_role role, uint32_t string)
{
    struct bytes other;

    if (!string || !mask_matcher_apply(t->in->mask, role, dict_text(t->set->dict, string), &other))
        return string;
    return dict_string(t->set->dict, other);
}

/* In place: the dictionary is ours, and nothing is looked up in it any more. */
static void mask_names(struct v8_turn *t)
{
    struct dict *d = t->set->dict;

    for (size_t i = 1; t->in->mask && i < d->functions.len; i++) {
        struct function *f = &d->functions.data[i];
        f->name = masked(t, MASK_FUNCTIONS, f->name);
        f->system_name = masked(t, MASK_FUNCTIONS, f->system_name);
        f->file = masked(t, MASK_PATHS, f->file);
    }
}

/* ---- Whose it is */

static void add_attribute(struct v8_turn *t, const char *key, const char *value, uint32_t *io_set)
{
    struct dict *d = t->set->dict;
    struct bytes text = bytes_of(value), other;

    if (t->in->mask && mask_matcher_apply(t->in->mask, MASK_LABELS, text, &other))
        text = other;
    *io_set = dict_attrs_with(d, *io_set,
                              dict_string_attribute(d, dict_cstring(d, key), dict_string(d, text)));
}

static uint32_t resource_of(struct v8_turn *t, const char *kind)
{
    uint32_t set = 0;

    for (size_t i = 0; i < t->in->attributes->n; i++)
        add_attribute(t, t->in->attributes->items[i].name, t->in->attributes->items[i].value, &set);
    if (kind)
        add_attribute(t, "profile.kind", kind, &set);
    return set;
}

static void set_period(struct profile *p, const char *type, const char *unit, int64_t period)
{
    p->period_type = (struct value_type){dict_cstring(p->dict, type), dict_cstring(p->dict, unit)};
    p->period = period;
}

static int add_profile(struct v8_turn *t, struct profile *p, const char *kind, struct error *err)
{
    struct dict *d = t->set->dict;
    struct profile *sum = profile_merge(d, &p, 1, (struct merge_options){.drop_zero = true});

    if (!sum)
        return budget_error(&t->budget, err);
    sum->resource_attrs = resource_of(t, kind);
    sum->scope_name = dict_cstring(d, "vesta.attach");
    sum->scope_version = dict_cstring(d, VESTA_VERSION);
    if (sum->n_samples > 0 && vec_push(&t->budget, &t->out.profiles, sum))
        return 0;
    bool is_empty = sum->n_samples == 0;
    profile_free(sum);
    return is_empty ? 0 : budget_error(&t->budget, err);
}

static int add_cpu(struct v8_turn *t, struct error *err)
{
    struct profile *p = NULL;
    int r = read_profile(t, t->in->cpu, &format_cpuprofile, &p, err);

    if (r < 0)
        return r;
    drop_idle(p);
    p->time_unix_ns = t->in->start_ns;
    p->duration_ns = t->in->end_ns - t->in->start_ns;
    set_period(p, "cpu", "nanoseconds", t->in->sampling_ns);
    return add_profile(t, p, "v8", err);
}

static int add_heap(struct v8_turn *t, struct error *err)
{
    struct profile *p = NULL;
    int r = read_profile(t, t->in->heap, &format_heapprofile, &p, err);

    if (r < 0)
        return r;
    p->time_unix_ns = t->in->end_ns; /* what was in use then */
    set_period(p, "space", "bytes", (int64_t)t->in->heap_bytes);
    return add_profile(t, p, NULL, err);
}

/* ---- The request */

static int turn(struct v8_turn *t, struct buf *otlp, size_t *ret_samples, struct error *err)
{
    CLEANUP(buf_done) struct buf losses = {0};
    int r = t->in->cpu.len > 0 ? add_cpu(t, err) : 0;

    if (r == 0 && t->in->heap.len > 0)
        r = add_heap(t, err);
    if (r < 0)
        return r;
    mask_names(t);
    if (budget_failed(&t->budget))
        return budget_error(&t->budget, err);
    for (size_t i = 0; i < t->out.profiles.len; i++)
        *ret_samples += t->out.profiles.data[i]->n_samples;
    return t->out.profiles.len == 0 ? 0 : format_otlp.encode(&t->out, otlp, &losses, err);
}

int v8_turn(const struct v8_turn_input *in, struct buf *otlp, size_t *ret_samples,
            struct error *err)
{
    struct v8_turn t = {.in = in};

    *ret_samples = 0;
    budget_init(&t.budget, in->memory_max);
    t.set = profile_set_new(&t.budget);
    t.out = (struct profile_set){.budget = &t.budget, .dict = t.set->dict};
    int r = turn(&t, otlp, ret_samples, err);
    for (size_t i = 0; i < t.out.profiles.len; i++)
        profile_free(t.out.profiles.data[i]);
    vec_done(&t.budget, &t.out.profiles);
    profile_set_free(t.set);
    return r;
}
