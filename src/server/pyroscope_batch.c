#include "server/pyroscope_batch.h"

#include <errno.h>

#include "profile/span_links.h"
#include "server/pyroscope_types.h"
#include "wire/json.h"

#define YEAR_NS ((int64_t)365 * 86400 * 1000000000)

/* ---- sample_type_config */

static struct bytes keep(struct call *c, struct bytes text)
{
    const char *copy = arena_strdup(call_arena(c), text);
    return copy ? (struct bytes){(const uint8_t *)copy, text.len} : (struct bytes){0};
}

static void read_config(struct call *c, struct json_reader *r, struct sample_config *ret)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "display-name"))
            ret->display_name = keep(c, json_get_string_or_empty(r));
        else if (bytes_are(key, "aggregation"))
            ret->is_average = bytes_start_with(json_get_string_or_empty(r), BYTES("av"));
        else if (bytes_are(key, "cumulative"))
            ret->is_cumulative = json_get_bool(r);
        else
            json_skip(r);
    }
}

int sample_configs_parse(struct call *c, struct bytes json, struct sample_configs *ret,
                         struct error *err)
{
    CLEANUP(input_closep)
    struct input *in = input_from_bytes(json, "sample_type_config", &c->budget);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, &c->budget);

    ret->n = 0;
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        struct sample_config one = {.type = keep(c, key)};
        if (json_peek(r) == JSON_NULL)
            json_skip(r);
        else
            read_config(c, r, &one);
        if (ret->n == SAMPLE_CONFIGS_MAX)
            json_fail(r, "more than %d sample types", SAMPLE_CONFIGS_MAX);
        else
            ret->all[ret->n++] = one;
    }
    return json_finish(r, "sample_type_config", err);
}

const struct sample_config *sample_config_of(const struct sample_configs *configs,
                                             struct bytes type)
{
    for (size_t i = 0; configs && i < configs->n; i++) {
        if (bytes_equal(configs->all[i].type, type))
            return &configs->all[i];
    }
    return NULL;
}

/* ---- Profiles */

void batch_init(struct batch *b, struct call *c)
{
    *b = (struct batch){.c = c, .set = c->worker->source->set};
}

void batch_done(struct batch *b)
{
    vec_done(&b->c->budget, &b->each);
}

static bool column_is_instant(const struct profile *p, uint32_t column,
                              const struct batch_about *about)
{
    struct bytes type = dict_text(p->dict, p->types[column].type);
    const struct sample_config *config = sample_config_of(about->configs, type);

    if (config)
        return config->is_average || (config->is_cumulative && !about->has_before);
    return profile_type_is_instant(p, column);
}

/* Some agents meant microseconds or seconds: what is of 1970 is not said at all. */
static void fix_time(struct profile *p)
{
    if (p->time_unix_ns > 0 && p->time_unix_ns < YEAR_NS)
        p->time_unix_ns = 0;
}

/* Whether the name does not follow from the types. */
static bool kind_differs(const struct profile *p, struct bytes kind)
{
    const struct dict *d = p->dict;
    CLEANUP(buf_done) struct buf name = {0};

    for (uint32_t i = 0; i < p->n_types; i++) {
        struct pyroscope_type t = {.type = dict_text(d, p->types[i].type),
                                   .unit = dict_text(d, p->types[i].unit),
                                   .period_type = dict_text(d, p->period_type.type),
                                   .period_unit = dict_text(d, p->period_type.unit)};
        buf_clear(&name);
        pyroscope_type_name(&t, &name);
        if (!bytes_equal(buf_bytes(&name), kind))
            return true;
    }
    return false;
}

/* The labels with the kind as one more, where it is needed. */
static int add_kind(struct batch *b, const struct profile *p, const struct batch_about *about,
                    struct ingest_profile *one, struct error *err)
{
    if (about->kind.len == 0 || !kind_differs(p, about->kind))
        return 0;
    struct label *labels = arena_new(call_arena(b->c), struct label, about->n_labels + 1);
    if (!labels)
        return budget_error(&b->c->budget, err);
    for (size_t i = 0; i < about->n_labels; i++)
        labels[i] = about->labels[i];
    labels[about->n_labels] = (struct label){BYTES(LABEL_PROFILE_KIND), about->kind};
    one->labels = labels;
    one->n_labels = about->n_labels + 1;
    return 0;
}

static int add_one(struct batch *b, const struct profile *p, const struct batch_about *about,
                   bool is_instant, struct error *err)
{
    struct ingest_profile one = {
        .labels = about->labels,
        .n_labels = about->n_labels,
        .is_instant = is_instant || about->is_instant,
        .has_id = about->has_id,
    };

    memcpy(one.id, about->id, sizeof(one.id));
    int r = add_kind(b, p, about, &one, err);
    if (r == 0 && !vec_push(&b->c->budget, &b->each, one))
        r = budget_error(&b->c->budget, err);
    return r;
}

/* Puts these columns in the place of profile i. */
static int keep_columns(struct batch *b, size_t i, const uint32_t *columns, uint32_t n)
{
    struct profile *part = profile_copy(b->set->profiles.data[i], columns, n);

    if (!part)
        return -ENOBUFS;
    profile_free(b->set->profiles.data[i]);
    b->set->profiles.data[i] = part;
    return 0;
}

/* Profile i keeps what was counted; what was found at a moment becomes the last of the set. */
static int split(struct batch *b, size_t i, const bool *is_instant, struct error *err)
{
    struct profile *p = b->set->profiles.data[i];
    uint32_t moments[PROFILE_TYPES_MAX], counts[PROFILE_TYPES_MAX], n_moments = 0, n_counts = 0;

    for (uint32_t c = 0; c < p->n_types; c++) {
        if (is_instant[c])
            moments[n_moments++] = c;
        else
            counts[n_counts++] = c;
    }
    struct profile *part = profile_copy(p, moments, n_moments);
    if (!part || !vec_push(b->set->budget, &b->set->profiles, part)) {
        profile_free(part);
        return budget_error(b->set->budget, err);
    }
    return keep_columns(b, i, counts, n_counts) < 0 ? budget_error(b->set->budget, err) : 0;
}

int batch_add(struct batch *b, size_t first, const struct batch_about *about, struct error *err)
{
    size_t n = b->set->profiles.len;
    size_t n_moments = 0;
    int r = span_links_make(b->set, first, err);

    for (size_t i = first; r == 0 && i < n; i++) {
        struct profile *p = b->set->profiles.data[i];
        bool is_instant[PROFILE_TYPES_MAX] = {false};
        uint32_t n_instant = 0;
        fix_time(p);
        for (uint32_t c = 0; c < p->n_types; c++)
            n_instant += is_instant[c] = column_is_instant(p, c, about);
        bool is_mixed = about->splits && n_instant > 0 && n_instant < p->n_types;
        if (is_mixed && (r = split(b, i, is_instant, err)) < 0)
            break;
        n_moments += is_mixed;
        r = add_one(b, b->set->profiles.data[i], about, n_instant > 0 && !is_mixed, err);
    }
    struct batch_about moment = *about;
    moment.id[0] ^= 0x80; /* two profiles of one id would be one */
    for (size_t i = n; r == 0 && i < n + n_moments; i++)
        r = add_one(b, b->set->profiles.data[i], &moment, true, err);
    return r;
}

int batch_store(struct batch *b, const struct ingest_options *o, struct error *err)
{
    struct ingest_options options = *o;
    struct ingest_result result = {0};

    if (b->set->profiles.len == 0)
        return 0;
    options.each = b->each.data;
    int r = ingest_set(b->c, &options, &result, err);
    if (r == 0 && result.rejected > 0 && result.stored + result.duplicates == 0)
        return error_set(err, -EINVAL, "%s", result.why.text);
    return r;
}
