/*
 * Writing Speedscope's format: each sample type of each profile is a "sampled" profile of the file.
 * A frame is a function: its name, file and first line. Samples that have times are written in
 * their order; others are added up per stack.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "formats/speedscope.h"
#include "wire/json.h"

typedef VEC(bool) flags;

struct scope_writer {
    const struct profile_set *set;
    const struct dict *dict;
    struct budget *budget;
    struct json_writer json;
    struct buf text; /* scratch */

    struct dict *frames;       /* its functions are the frames, in order, from id 1 */
    VEC(uint32_t) first_frame; /* by location: into frame_ids, root first; one more at the end */
    VEC(uint32_t) frame_ids;
    VEC(uint32_t) path;

    bool lost_addresses, lost_lines, lost_labels, lost_links, lost_times, lost_units,
        lost_negatives, lost_metadata, lost_unity;
};

static void writer_done(struct scope_writer *w)
{
    vec_done(w->budget, &w->first_frame);
    vec_done(w->budget, &w->frame_ids);
    vec_done(w->budget, &w->path);
    dict_free(w->frames);
    buf_done(&w->text);
}

/* What to call a location without a name: binary+0x12. */
static uint32_t name_address(struct scope_writer *w, const struct location *l)
{
    struct bytes file = dict_text(w->dict, w->dict->mappings.data[l->mapping].file);
    const uint8_t *slash = file.len ? memrchr(file.data, '/', file.len) : NULL;

    buf_clear(&w->text);
    buf_add_bytes(&w->text, slash ? bytes_from(file, (size_t)(slash + 1 - file.data)) : file);
    if (l->address)
        buf_addf(&w->text, "%s0x%" PRIx64, w->text.len ? "+" : "", l->address);
    if (w->text.len == 0)
        buf_add_str(&w->text, "[unknown]");
    return dict_string(w->frames, buf_bytes(&w->text));
}

static void add_frame(struct scope_writer *w, const struct location *l, const struct line *line)
{
    const struct dict *d = w->dict;
    struct function f = {0};

    if (line && d->functions.data[line->function].name) {
        const struct function *from = &d->functions.data[line->function];
        f.name = dict_string(w->frames, dict_text(d, from->name));
        f.file = dict_string(w->frames, dict_text(d, from->file));
        f.start_line = from->start_line;
        w->lost_lines = w->lost_lines || (line->line && line->line != from->start_line);
        w->lost_addresses = w->lost_addresses || l->address;
    } else {
        f.name = name_address(w, l);
    }
    uint32_t id = dict_function(w->frames, f);
    vec_push(w->budget, &w->frame_ids, id);
}

/* Which locations are in stacks of samples: a dictionary also has those that better names replaced.
 */
static bool mark_used(const struct scope_writer *w, flags *locations)
{
    const struct dict *d = w->dict;
    flags nodes = {0};
    bool ok = vec_resize(w->budget, &nodes, dict_n_nodes(d)) &&
              vec_resize(w->budget, locations, d->locations.len);

    for (size_t i = 0; ok && i < w->set->profiles.len; i++) {
        const struct profile *p = w->set->profiles.data[i];
        for (size_t k = 0; k < p->n_samples; k++)
            nodes.data[p->node[k]] = true;
    }
    for (size_t i = ok ? nodes.len : 0; i-- > 1;) { /* children before their parents */
        if (nodes.data[i]) {
            nodes.data[d->node_parent.data[i]] = true;
            locations->data[d->node_location.data[i]] = true;
        }
    }
    vec_done(w->budget, &nodes);
    return ok;
}

static void add_frames(struct scope_writer *w)
{
    const struct dict *d = w->dict;
    flags used = {0};
    bool ok = mark_used(w, &used);

    for (size_t i = 0; ok && i < d->locations.len && !budget_failed(w->budget); i++) {
        const struct location *l = &d->locations.data[i];
        vec_push(w->budget, &w->first_frame, (uint32_t)w->frame_ids.len);
        if (!used.data[i])
            continue;
        for (uint32_t n = l->n_lines; n > 0; n--)
            add_frame(w, l, &d->lines.data[l->first_line + n - 1]);
        if (l->n_lines == 0)
            add_frame(w, l, NULL);
    }
    vec_push(w->budget, &w->first_frame, (uint32_t)w->frame_ids.len);
    vec_done(w->budget, &used);
}

static void write_frames(struct scope_writer *w)
{
    struct json_writer *json = &w->json;

    json_key(json, "shared");
    json_begin_object(json);
    json_key(json, "frames");
    json_begin_array(json);
    for (size_t i = 1; i < w->frames->functions.len; i++) {
        const struct function *f = &w->frames->functions.data[i];
        json_begin_object(json);
        json_key(json, "name");
        json_string(json, dict_text(w->frames, f->name));
        if (f->file) {
            json_key(json, "file");
            json_string(json, dict_text(w->frames, f->file));
        }
        if (f->start_line > 0) {
            json_key(json, "line");
            json_i64(json, f->start_line);
        }
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

static void write_stack(struct scope_writer *w, uint32_t node)
{
    const struct dict *d = w->dict;

    vec_clear(&w->path);
    for (; node; node = d->node_parent.data[node]) {
        if (!vec_push(w->budget, &w->path, d->node_location.data[node]))
            return;
    }
    json_begin_array(&w->json);
    while (w->path.len > 0) {
        uint32_t location = w->path.data[--w->path.len];
        for (uint32_t i = w->first_frame.data[location]; i < w->first_frame.data[location + 1]; i++)
            json_u64(&w->json, w->frame_ids.data[i] - 1);
    }
    json_end_array(&w->json);
}

/* A sample to write. */
struct scope_row {
    uint64_t time_ns;
    size_t index;
    uint32_t node;
    int64_t value;
};

typedef VEC(struct scope_row) scope_rows;

static int compare_rows(const void *a, const void *b)
{
    const struct scope_row *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* In order of time where there are times; samples in a row of one stack become one. */
static void collect_timed(struct scope_writer *w, const struct profile *p, uint32_t type,
                          scope_rows *rows)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        struct scope_row row = {p->time_ns[i], i, p->node[i], p->values[type][i]};
        if (!vec_push(w->budget, rows, row))
            return;
    }
    qsort(rows->data, rows->len, sizeof(rows->data[0]), compare_rows);
    for (size_t i = 0; i < rows->len; i++) {
        if (n > 0 && rows->data[n - 1].node == rows->data[i].node)
            rows->data[n - 1].value += rows->data[i].value;
        else
            rows->data[n++] = rows->data[i];
    }
    rows->len = n;
    w->lost_times = true;
}

static void collect_summed(struct scope_writer *w, const struct profile *p, uint32_t type,
                           scope_rows *rows)
{
    VEC(int64_t) sums = {0};

    if (!vec_resize(w->budget, &sums, dict_n_nodes(w->dict)))
        return;
    for (size_t i = 0; i < p->n_samples; i++)
        sums.data[p->node[i]] =
            (int64_t)((uint64_t)sums.data[p->node[i]] + (uint64_t)p->values[type][i]);
    for (size_t i = 0; i < sums.len; i++) {
        if (sums.data[i] != 0)
            vec_push(w->budget, rows, (struct scope_row){0, i, (uint32_t)i, sums.data[i]});
    }
    vec_done(w->budget, &sums);
}

/* Speedscope's name of a unit. */
static const char *unit_name(struct scope_writer *w, uint32_t unit)
{
    struct bytes text = dict_text(w->dict, unit);

    for (size_t i = 0; i < SCOPE_N_UNITS; i++) {
        if (bytes_are(text, scope_units[i].name))
            return scope_units[i].name;
    }
    w->lost_units = w->lost_units || (text.len > 0 && !bytes_are(text, "count"));
    return "none";
}

/* "cpu", or with several profiles "cpu: worker" by what tells them apart. */
static void write_name(struct scope_writer *w, const struct profile *p, uint32_t type)
{
    static const char *const keys[] = {"profile.name", "thread.name", "thread.id"};
    const struct dict *d = w->dict;

    buf_clear(&w->text);
    buf_add_bytes(&w->text, dict_text(d, p->types[type].type));
    for (size_t i = 0; i < ARRAY_SIZE(keys) && w->set->profiles.len > 1; i++) {
        uint32_t key = dict_find_string(d, bytes_of(keys[i]));
        uint32_t id = key ? dict_attrs_get(d, p->profile_attrs, key) : 0;
        const struct attribute *a = &d->attributes.data[id];
        if (id == 0)
            continue;
        buf_add_str(&w->text, ": ");
        if (a->kind == ATTRIBUTE_STRING)
            buf_add_bytes(&w->text, dict_text(d, a->text));
        else
            buf_add_i64(&w->text, a->number);
        break;
    }
    json_key(&w->json, "name");
    json_string(&w->json, buf_bytes(&w->text));
}

static void write_rows(struct scope_writer *w, const scope_rows *rows)
{
    struct json_writer *json = &w->json;
    uint64_t total = 0;

    json_key(json, "samples");
    json_begin_array(json);
    for (size_t i = 0; i < rows->len && !buf_full(json->out); i++) {
        if (rows->data[i].value > 0)
            write_stack(w, rows->data[i].node);
        w->lost_negatives = w->lost_negatives || rows->data[i].value < 0;
    }
    json_end_array(json);
    json_key(json, "weights");
    json_begin_array(json);
    for (size_t i = 0; i < rows->len; i++) {
        if (rows->data[i].value <= 0)
            continue;
        json_i64(json, rows->data[i].value);
        total += (uint64_t)rows->data[i].value;
    }
    json_end_array(json);
    json_key(json, "startValue");
    json_i64(json, 0);
    json_key(json, "endValue");
    json_u64(json, total);
}

static void write_profile(struct scope_writer *w, const struct profile *p, uint32_t type)
{
    scope_rows rows = {0};

    if (p->time_ns)
        collect_timed(w, p, type, &rows);
    else
        collect_summed(w, p, type, &rows);
    w->lost_unity = w->lost_unity || p->n_types > 1;
    json_begin_object(&w->json);
    json_key(&w->json, "type");
    json_cstring(&w->json, "sampled");
    write_name(w, p, type);
    json_key(&w->json, "unit");
    json_cstring(&w->json, unit_name(w, p->types[type].unit));
    write_rows(w, &rows);
    json_end_object(&w->json);
    vec_done(w->budget, &rows);
}

static void note_losses(const struct scope_writer *w, struct buf *losses)
{
    const struct {
        bool is_lost;
        const char *what;
    } all[] = {
        {w->lost_addresses, "addresses and mappings of frames that have names"},
        {w->lost_lines, "line numbers within functions"},
        {w->lost_labels, "labels of samples"},
        {w->lost_links, "spans that samples were taken in"},
        {w->lost_times, "the times of samples (their order is kept)"},
        {w->lost_units, "units that the format does not know"},
        {w->lost_negatives, "samples with negative values"},
        {w->lost_metadata, "time, period and comments of the profile"},
        {w->lost_unity, "that sample types are of the same samples (each is a profile)"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        if (all[i].is_lost)
            buf_addf(losses, "%s\n", all[i].what);
    }
}

static void write_profiles(struct scope_writer *w)
{
    json_key(&w->json, "profiles");
    json_begin_array(&w->json);
    for (size_t i = 0; i < w->set->profiles.len; i++) {
        const struct profile *p = w->set->profiles.data[i];
        w->lost_labels = w->lost_labels || p->attrs;
        w->lost_links = w->lost_links || p->link;
        w->lost_metadata = w->lost_metadata || p->time_unix_ns || p->period || p->comments.len > 0;
        for (uint32_t t = 0; t < p->n_types && !budget_failed(w->budget); t++)
            write_profile(w, p, t);
    }
    json_end_array(&w->json);
}

int speedscope_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                      struct error *err)
{
    CLEANUP(writer_done)
    struct scope_writer w = {
        .set = set, .dict = set->dict, .budget = set->budget, .json = {.out = out}};

    if (set->profiles.len == 0)
        return error_set(err, -EOPNOTSUPP, "speedscope: there is no profile to write");
    w.frames = dict_new(set->budget);
    add_frames(&w);
    if (budget_failed(w.budget))
        return budget_error(w.budget, err);
    json_begin_object(&w.json);
    json_key(&w.json, "$schema");
    json_cstring(&w.json, "https://www.speedscope.app/file-format-schema.json");
    json_key(&w.json, "exporter");
    json_cstring(&w.json, "vesta@" VESTA_VERSION);
    json_key(&w.json, "activeProfileIndex");
    json_u64(&w.json, profile_default_index(set->profiles.data[0]));
    write_frames(&w);
    write_profiles(&w);
    json_end_object(&w.json);
    if (budget_failed(w.budget))
        return budget_error(w.budget, err);
    note_losses(&w, losses);
    return 0;
}
