#include "scrape/turn.h"

#include <errno.h>
#include <string.h>

#include "formats/formats.h"
#include "profile/subtract.h"
#include "wire/input.h"

#define SECOND_NS ((int64_t)1000000000)

struct turn {
    const struct turn_input *in;
    struct budget budget;
    struct profile_set *set;
    struct profile *now, *before;
    bool is_counted[PROFILE_TYPES_MAX]; /* columns that count since the process began */
    struct profile_set out;             /* over the dictionary of `set` */
};

/* ---- Reading */

static int not_pprof(const struct turn_input *in, struct bytes head, struct error *err)
{
    char text[64] = "";
    size_t n = 0;

    for (; n < head.len && n + 1 < sizeof(text) && head.data[n] >= ' ' && head.data[n] < 0x7f; n++)
        text[n] = (char)head.data[n];
    return error_set(err, -EBADMSG, "%s answered no pprof profile but %s%s%s", in->url,
                     n          ? "\""
                     : head.len ? "other bytes"
                                : "nothing",
                     text, n ? "\"" : "");
}

static int read_profile(struct turn *t, struct bytes body, struct profile **ret, struct error *err)
{
    CLEANUP(input_closep)
    struct input *input = input_from_bytes(body, t->in->url, &t->budget);
    struct bytes head;
    int r = input_peek(input, &head, err);

    if (r < 0)
        return r;
    const struct format *format = format_detect(head);
    if (format != &format_pprof && format != &format_pprof_legacy)
        return not_pprof(t->in, head, err);
    r = format_read(input, format, t->set, NULL, err);
    if (r == 0 && t->set->profiles.len == 0)
        return not_pprof(t->in, head, err);
    if (r == 0)
        *ret = vec_last(&t->set->profiles);
    return r;
}

/* ---- What was added */

/* Rows of one process never shrink. When more than a tenth of what was there is missing, it is
 * another one; a little may be due to sources that estimate. */
static int subtract(struct turn *t, bool *ret_is_reset, struct error *err)
{
    int64_t total[PROFILE_TYPES_MAX];
    struct profile *p = t->now;

    for (uint32_t c = 0; c < p->n_types; c++)
        total[c] = profile_total(p, c);
    int r = profile_subtract(p, t->before, t->is_counted, err);
    if (r < 0)
        return r;
    *ret_is_reset = p->n_types != t->before->n_types;
    for (uint32_t c = 0; c < p->n_types && !*ret_is_reset; c++) {
        int64_t had = profile_total(t->before, c), found = total[c] - profile_total(p, c);
        *ret_is_reset = t->is_counted[c] && had > 0 && found < had - had / 10;
    }
    return 0;
}

/* ---- Whose it is */

static void add_attribute(struct turn *t, const char *key, const char *value, uint32_t *io_set)
{
    struct dict *d = t->set->dict;

    *io_set = dict_attrs_with(
        d, *io_set, dict_string_attribute(d, dict_cstring(d, key), dict_cstring(d, value)));
}

static bool is_go(const struct dict *d)
{
    for (size_t i = 1; i < d->functions.len; i++) {
        struct bytes file = dict_text(d, d->functions.data[i].file);
        if (file.len > 3 && memcmp(file.data + file.len - 3, ".go", 3) == 0)
            return true;
    }
    return false;
}

static const char *first_of(const struct tags *t, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tags_get(t, names[i])[0])
            return names[i];
    }
    return "";
}

static uint32_t resource_of(struct turn *t)
{
    static const char *const service_names[] = {"service.name", "service_name", "job"};
    static const char *const instance_names[] = {"service.instance.id", "service_instance_id",
                                                 "instance"};
    const struct tags *tags = t->in->tags;
    const char *service = first_of(tags, service_names, ARRAY_SIZE(service_names));
    const char *instance = first_of(tags, instance_names, ARRAY_SIZE(instance_names));
    const struct scrape_kind *kind = t->in->kind;
    uint32_t set = 0;

    add_attribute(t, "service.name", tags_get(tags, service), &set);
    add_attribute(t, "service.instance.id", tags_get(tags, instance), &set);
    for (size_t i = 0; i < tags->n; i++) {
        const struct tag *tag = &tags->items[i];
        if (strcmp(tag->name, service) != 0 && strcmp(tag->name, instance) != 0)
            add_attribute(t, tag->name, tag->value, &set);
    }
    if (is_go(t->set->dict) && !tags_get(tags, "process.runtime.name")[0])
        add_attribute(t, "process.runtime.name", "go", &set);
    /* What their types do not tell. */
    if (!kind->is_builtin || strcmp(kind->name, "mutex") == 0 || strcmp(kind->name, "block") == 0)
        add_attribute(t, "profile.kind", kind->name, &set);
    return set;
}

/* ---- The request */

/* The columns that count, or those that do not, as a profile of their own. */
static bool add_part(struct turn *t, bool of_counted)
{
    const struct profile *p = t->now;
    uint32_t columns[PROFILE_TYPES_MAX], n = 0;

    for (uint32_t c = 0; c < p->n_types; c++) {
        if (t->is_counted[c] == of_counted)
            columns[n++] = c;
    }
    if (n == 0)
        return true;
    struct profile *part = profile_copy(p, columns, n);
    if (!part)
        return false;
    profile_drop_zero_rows(part);
    bool has_default = false;
    for (uint32_t c = 0; c < n; c++)
        has_default |= part->types[c].type == part->default_type;
    if (!has_default)
        part->default_type = 0;
    if (of_counted) {
        part->time_unix_ns = t->in->before_ns;
        part->duration_ns = t->in->end_ns - t->in->before_ns;
    }
    if (part->n_samples > 0 && vec_push(&t->budget, &t->out.profiles, part))
        return true;
    bool is_empty = part->n_samples == 0;
    profile_free(part);
    return is_empty;
}

/* Clocks of targets differ; ours says when, and theirs for how long. */
static void set_time(const struct turn *t)
{
    struct profile *p = t->now;
    int64_t took = t->in->end_ns - t->in->start_ns;
    bool is_window = t->in->kind->seconds > 0;

    p->time_unix_ns = is_window ? t->in->start_ns : t->in->end_ns;
    if (!is_window)
        p->duration_ns = 0;
    else if (p->duration_ns <= 0 || p->duration_ns > took + SECOND_NS)
        p->duration_ns = took;
}

static int encode(struct turn *t, bool with_counted, struct buf *otlp, struct turn_result *ret,
                  struct error *err)
{
    CLEANUP(buf_done) struct buf losses = {0};

    set_time(t);
    t->now->resource_attrs = resource_of(t);
    t->now->scope_name = dict_cstring(t->set->dict, "vesta.scrape");
    t->now->scope_version = dict_cstring(t->set->dict, VESTA_VERSION);
    if (!add_part(t, false) || (with_counted && !add_part(t, true)) || budget_failed(&t->budget))
        return budget_error(&t->budget, err);
    for (size_t i = 0; i < t->out.profiles.len; i++)
        ret->n_samples += t->out.profiles.data[i]->n_samples;
    if (t->out.profiles.len == 0)
        return 0;
    return format_otlp.encode(&t->out, otlp, &losses, err);
}

static int turn(struct turn *t, struct buf *otlp, struct turn_result *ret, struct error *err)
{
    const struct turn_input *in = t->in;
    bool has_before = in->kind->is_cumulative && in->before.len > 0;
    int r = read_profile(t, in->body, &t->now, err);

    for (uint32_t c = 0; r == 0 && in->kind->is_cumulative && c < t->now->n_types; c++)
        t->is_counted[c] = !profile_type_is_instant(t->now, c);
    if (r == 0 && has_before)
        r = read_profile(t, in->before, &t->before, err);
    if (r == 0 && has_before)
        r = subtract(t, &ret->is_reset, err);
    if (r == 0)
        r = encode(t, has_before && !ret->is_reset, otlp, ret, err);
    return r;
}

int turn_profile(const struct turn_input *in, struct buf *otlp, struct turn_result *ret,
                 struct error *err)
{
    struct turn t = {.in = in};

    *ret = (struct turn_result){0};
    budget_init(&t.budget, in->memory_max);
    t.set = profile_set_new(&t.budget);
    t.out = (struct profile_set){.budget = &t.budget, .dict = t.set->dict};
    int r = turn(&t, otlp, ret, err);
    for (size_t i = 0; i < t.out.profiles.len; i++)
        profile_free(t.out.profiles.data[i]);
    vec_done(&t.budget, &t.out.profiles);
    profile_set_free(t.set);
    return r;
}
