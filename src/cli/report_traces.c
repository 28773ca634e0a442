/* traces, raw and comments: the samples themselves. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cli/report_internal.h"
#include "wire/json.h"

#define SEPARATOR "-----------+-------------------------------------------------------\n"

int report_comments(struct report *r)
{
    const struct profile *p = r->p;
    struct json_writer w = {.out = r->out};

    if (r->o.output == REPORT_JSON)
        json_begin_array(&w);
    for (size_t i = 0; i < p->comments.len; i++) {
        if (r->o.output == REPORT_JSON)
            json_string(&w, dict_text(r->dict, p->comments.data[i]));
        else if (r->o.output == REPORT_CSV)
            report_csv_field(r->out, dict_cstr(r->dict, p->comments.data[i]), true);
        else
            buf_addf(r->out, "%s\n", dict_cstr(r->dict, p->comments.data[i]));
    }
    if (r->o.output == REPORT_JSON) {
        json_end_array(&w);
        buf_add_byte(r->out, '\n');
    }
    if (p->comments.len == 0)
        return error_set(r->err, -ENODATA, "no data: the profile has no comments");
    return 0;
}

/* The labels of one sample by key: text or numbers. */
struct label_line {
    uint32_t key;
    bool is_number;
    struct buf text;
};

typedef VEC(struct label_line) label_lines;

static int compare_lines(const void *a, const void *b)
{
    const struct label_line *x = a, *y = b;
    if (x->is_number != y->is_number)
        return x->is_number ? 1 : -1;
    return bytes_compare(buf_bytes(&x->text), buf_bytes(&y->text));
}

/* Text before numbers, then by key, values in the order of the dictionary. */
static int compare_labels(const void *a, const void *b, void *context)
{
    const struct dict *d = context;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct attribute *x = &d->attributes.data[i], *y = &d->attributes.data[k];

    if (label_is_number(x) != label_is_number(y))
        return label_is_number(x) ? 1 : -1;
    if (x->key != y->key)
        return x->key > y->key ? 1 : -1;
    return (i > k) - (i < k);
}

static void add_label_value(const struct report *r, const struct attribute *a, struct buf *out)
{
    char text[MEASURE_TEXT_MAX];

    buf_add_byte(out, ' ');
    if (!label_is_number(a)) {
        label_add_text(r->dict, a, out);
        return;
    }
    measure_label(a->number, dict_cstr(r->dict, label_unit(&r->units, a->key)), "auto", text);
    buf_add_str(out, text);
}

/* "       key:  value value" per key: text before numbers, each sorted. */
static bool make_lines(struct report *r, uint32_t set, label_lines *ret)
{
    struct dict *d = r->dict;
    struct attrs s = d->attr_sets.data[set];
    VEC(uint32_t) ids = {0};

    bool ok = vec_append(d->budget, &ids, d->attr_ids.data + s.first, s.n);
    if (ids.len > 1)
        qsort_r(ids.data, ids.len, sizeof(*ids.data), compare_labels, d);
    for (size_t i = 0; ok && i < ids.len; i++) {
        const struct attribute *a = &d->attributes.data[ids.data[i]];
        struct label_line line = {.key = a->key, .is_number = label_is_number(a)};
        if (i == 0 || vec_last(ret).key != line.key || vec_last(ret).is_number != line.is_number) {
            ok = vec_push(d->budget, ret, line);
            if (!ok)
                break;
            buf_addf(&vec_last(ret).text, "%10s: ", dict_cstr(d, a->key));
        }
        add_label_value(r, a, &vec_last(ret).text);
    }
    if (ret->len > 1)
        qsort(ret->data, ret->len, sizeof(*ret->data), compare_lines);
    vec_done(d->budget, &ids);
    return ok;
}

static bool text_labels(struct report *r, uint32_t set)
{
    label_lines lines = {0};
    bool ok = make_lines(r, set, &lines);

    for (size_t i = 0; i < lines.len; i++) {
        if (ok) {
            buf_add_bytes(r->out, buf_bytes(&lines.data[i].text));
            buf_add_byte(r->out, '\n');
        }
        buf_done(&lines.data[i].text);
    }
    vec_done(r->dict->budget, &lines);
    return ok;
}

static int64_t shown_value(const struct report *r, size_t i)
{
    int64_t v = r->p->values[r->type][i];
    int64_t by = r->o.mean ? r->p->values[0][i] : 0;
    if (by == 0)
        return v;
    return by == -1 ? (int64_t) - (uint64_t)v : v / by;
}

static bool text_trace(struct report *r, struct frames *f, size_t i)
{
    const struct dict *d = r->dict;
    char value[MEASURE_TEXT_MAX];
    bool is_first = true;

    if (r->p->node[i] == 0)
        return true;
    buf_add_str(r->out, SEPARATOR);
    if (!text_labels(r, profile_attrs(r->p, i)))
        return false;
    report_value(r, shown_value(r, i), value);
    for (uint32_t n = r->p->node[i]; n != 0 && !buf_full(r->out); n = d->node_parent.data[n]) {
        uint32_t count;
        size_t first = frames_of(f, d->node_location.data[n], &count);
        for (uint32_t k = 0; k < count; k++) {
            buf_addf(r->out, "%10s   %s%s\n", is_first ? value : "",
                     frames_name(f, f->ids.data[first + k]), k + 1 < count ? " (inline)" : "");
            is_first = false;
        }
    }
    return !budget_failed(d->budget);
}

static void json_labels(const struct report *r, uint32_t set, struct json_writer *w)
{
    const struct dict *d = r->dict;
    struct attrs s = d->attr_sets.data[set];

    json_begin_array(w);
    for (uint32_t i = 0; i < s.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[s.first + i]];
        struct buf text = {0};
        json_begin_object(w);
        json_key(w, "key");
        json_string(w, dict_text(d, a->key));
        json_key(w, "value");
        if (label_is_number(a)) {
            json_i64(w, a->number);
            json_key(w, "unit");
            json_string(w, dict_text(d, label_unit(&r->units, a->key)));
        } else {
            label_add_text(d, a, &text);
            json_string(w, buf_bytes(&text));
        }
        json_end_object(w);
        buf_done(&text);
    }
    json_end_array(w);
}

static bool json_trace(struct report *r, struct frames *f, size_t i, struct json_writer *w)
{
    const struct dict *d = r->dict;

    json_begin_object(w);
    json_key(w, "value");
    json_i64(w, shown_value(r, i));
    json_key(w, "labels");
    json_labels(r, profile_attrs(r->p, i), w);
    json_key(w, "stack");
    json_begin_array(w);
    for (uint32_t n = r->p->node[i]; n != 0 && !buf_full(r->out); n = d->node_parent.data[n]) {
        uint32_t count;
        size_t first = frames_of(f, d->node_location.data[n], &count);
        for (uint32_t k = 0; k < count; k++)
            json_cstring(w, frames_name(f, f->ids.data[first + k]));
    }
    json_end_array(w);
    json_end_object(w);
    return !budget_failed(d->budget);
}

/* value,stack: the stack outermost first, joined by semicolons. */
static bool csv_trace(struct report *r, struct frames *f, size_t i)
{
    struct dict *d = r->dict;
    VEC(uint32_t) path = {0};
    struct buf text = {.budget = d->budget};

    for (uint32_t n = r->p->node[i]; n != 0; n = d->node_parent.data[n])
        (void)vec_push(d->budget, &path, d->node_location.data[n]);
    for (size_t k = path.len; k-- > 0 && !buf_full(&text);) {
        uint32_t count;
        size_t first = frames_of(f, path.data[k], &count);
        while (count-- > 0) {
            buf_add_str(&text, text.len ? ";" : "");
            buf_add_str(&text, frames_name(f, f->ids.data[first + count]));
        }
    }
    buf_addf(r->out, "%lld,", (long long)shown_value(r, i));
    report_csv_field(r->out, buf_cstr(&text), true);
    r->out->full = r->out->full || buf_full(&text);
    buf_done(&text);
    vec_done(d->budget, &path);
    return !budget_failed(d->budget);
}

int report_traces(struct report *r)
{
    struct frames frames;
    struct frame_options options = report_frame_options(r);
    struct json_writer w = {.out = r->out};
    bool ok = true;

    options.keep_paths = true;
    frames_init(&frames, r->dict, options);
    if (r->o.output == REPORT_TEXT)
        report_add_profile_lines(r, "\n", r->out);
    else if (r->o.output == REPORT_CSV)
        buf_add_str(r->out, "value,stack\n");
    else
        json_begin_array(&w);
    for (size_t i = 0; ok && !buf_full(r->out) && i < r->p->n_samples; i++) {
        if (r->o.output == REPORT_TEXT)
            ok = text_trace(r, &frames, i);
        else if (r->o.output == REPORT_CSV)
            ok = csv_trace(r, &frames, i);
        else
            ok = json_trace(r, &frames, i, &w);
    }
    if (r->o.output == REPORT_TEXT)
        buf_add_str(r->out, SEPARATOR);
    if (r->o.output == REPORT_JSON) {
        json_end_array(&w);
        buf_add_byte(r->out, '\n');
    }
    frames_done(&frames);
    return ok ? 0 : budget_error(r->dict->budget, r->err);
}

/* raw: everything the profile holds, in the words of pprof's dump. Locations and mappings are
 * numbered in the order of the dictionary. */
struct raw {
    struct report *r;
    VEC(uint32_t) location_id, mapping_id; /* 0: not used */
    VEC(uint32_t) mappings;                /* in the order of their numbers */
    uint32_t n_locations;
};

/* A duration as Go writes it, cut to four characters as its dump does. */
static void raw_duration(int64_t ns, struct buf *out)
{
    double s = (double)ns / 1e9;
    char text[64];

    if (s >= 3600)
        snprintf(text, sizeof(text), "%dh%dm", (int)(s / 3600), (int)(s / 60) % 60);
    else if (s >= 60)
        snprintf(text, sizeof(text), "%dm%gs", (int)(s / 60), s - 60 * (int)(s / 60));
    else if (s >= 1)
        snprintf(text, sizeof(text), "%.9gs", s);
    else if (s >= 1e-3)
        snprintf(text, sizeof(text), "%.6gms", s * 1e3);
    else
        snprintf(text, sizeof(text), "%.6gµs", s * 1e6);
    buf_addf(out, "Duration: %.4s\n", text);
}

/* ".0121" of a second, without trailing zeros. */
static void raw_fraction(int64_t ns, struct buf *out)
{
    if (ns <= 0)
        return;
    buf_addf(out, ".%09lld", (long long)ns);
    while (!buf_full(out) && out->data[out->len - 1] == '0')
        out->len--;
}

static void raw_header(const struct report *r)
{
    const struct profile *p = r->p;
    const struct dict *d = r->dict;
    struct buf *out = r->out;

    for (size_t i = 0; i < p->comments.len; i++)
        buf_addf(out, "Comment: %s\n", dict_cstr(d, p->comments.data[i]));
    if (p->doc_url)
        buf_addf(out, "Doc: %s\n", dict_cstr(d, p->doc_url));
    buf_addf(out, "PeriodType: %s %s\nPeriod: %lld\n", dict_cstr(d, p->period_type.type),
             dict_cstr(d, p->period_type.unit), (long long)p->period);
    if (p->time_unix_ns) {
        time_t seconds = (time_t)(p->time_unix_ns / 1000000000);
        struct tm tm;
        char text[64];
        if (localtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
            buf_addf(out, "Time: %s", text);
        raw_fraction(p->time_unix_ns % 1000000000, out);
        if (strftime(text, sizeof(text), " %z %Z", &tm))
            buf_addf(out, "%s\n", text);
    }
    if (p->duration_ns)
        raw_duration(p->duration_ns, out);
    buf_add_str(out, "Samples:\n");
    for (uint32_t t = 0; t < p->n_types; t++)
        buf_addf(out, "%s%s/%s%s", t ? " " : "", dict_cstr(d, p->types[t].type),
                 dict_cstr(d, p->types[t].unit),
                 p->default_type && p->types[t].type == p->default_type ? "[dflt]" : "");
    buf_add_byte(out, '\n');
}

static void raw_number_mapping(struct raw *w, uint32_t mapping)
{
    if (mapping != 0 && w->mapping_id.data[mapping] == 0 &&
        vec_push(w->r->dict->budget, &w->mappings, mapping))
        w->mapping_id.data[mapping] = (uint32_t)w->mappings.len;
}

/* Numbers the locations and mappings in use. */
static bool raw_number(struct raw *w)
{
    const struct profile *p = w->r->p;
    struct dict *d = w->r->dict;

    VEC(bool) seen = {0};

    if (!vec_resize(d->budget, &w->location_id, d->locations.len) ||
        !vec_resize(d->budget, &w->mapping_id, d->mappings.len) ||
        !vec_resize(d->budget, &seen, dict_n_nodes(d)))
        return false;
    /* The callers of a node that was seen were seen with it. */
    for (size_t i = 0; i < p->n_samples; i++) {
        for (uint32_t n = p->node[i]; n != 0 && !seen.data[n]; n = d->node_parent.data[n]) {
            seen.data[n] = true;
            w->location_id.data[d->node_location.data[n]] = 1;
        }
    }
    vec_done(d->budget, &seen);
    for (size_t i = 0; i < p->mappings.len; i++) {
        raw_number_mapping(w, p->mappings.data[i]);
    }
    for (uint32_t l = 1; l < d->locations.len; l++) {
        uint32_t m = d->locations.data[l].mapping;
        if (w->location_id.data[l] == 0)
            continue;
        w->location_id.data[l] = ++w->n_locations;
        raw_number_mapping(w, m);
    }
    return true;
}

static int compare_keys(const void *a, const void *b, void *context)
{
    const struct dict *d = context;
    const struct attribute *x = &d->attributes.data[*(const uint32_t *)a];
    const struct attribute *y = &d->attributes.data[*(const uint32_t *)b];
    return strcmp(dict_cstr(d, x->key), dict_cstr(d, y->key));
}

/* "key:[value value] key:[...]" of the text labels, or of the numbers. */
static void raw_labels(const struct report *r, uint32_t set, bool numbers)
{
    struct dict *d = r->dict;
    struct attrs s = d->attr_sets.data[set];
    VEC(uint32_t) ids = {0};

    for (uint32_t i = 0; i < s.n; i++) {
        uint32_t id = d->attr_ids.data[s.first + i];
        if (label_is_number(&d->attributes.data[id]) == numbers)
            (void)vec_push(d->budget, &ids, id);
    }
    if (ids.len > 1)
        qsort_r(ids.data, ids.len, sizeof(*ids.data), compare_keys, d);
    for (size_t i = 0; i < ids.len; i++) {
        const struct attribute *a = &d->attributes.data[ids.data[i]];
        bool is_new = i == 0 || d->attributes.data[ids.data[i - 1]].key != a->key;
        if (is_new)
            buf_addf(r->out, "%s%s:[", i ? "] " : "                ", dict_cstr(d, a->key));
        else
            buf_add_byte(r->out, ' ');
        label_add_text(d, a, r->out);
        if (numbers && a->unit)
            buf_addf(r->out, " %s", dict_cstr(d, a->unit));
    }
    if (ids.len > 0)
        buf_add_str(r->out, "]\n");
    vec_done(d->budget, &ids);
}

static void raw_samples(const struct raw *w)
{
    const struct report *r = w->r;
    const struct profile *p = r->p;
    const struct dict *d = r->dict;

    for (size_t i = 0; i < p->n_samples && !buf_full(r->out); i++) {
        for (uint32_t t = 0; t < p->n_types; t++)
            buf_addf(r->out, " %10lld", (long long)p->values[t][i]);
        buf_add_str(r->out, ": ");
        for (uint32_t n = p->node[i]; n != 0 && !buf_full(r->out); n = d->node_parent.data[n])
            buf_addf(r->out, "%u ", w->location_id.data[d->node_location.data[n]]);
        buf_add_byte(r->out, '\n');
        raw_labels(r, profile_attrs(p, i), false);
        raw_labels(r, profile_attrs(p, i), true);
    }
}

static void raw_location(const struct raw *w, uint32_t id)
{
    const struct dict *d = w->r->dict;
    const struct location *l = &d->locations.data[id];
    struct buf *out = w->r->out;

    buf_addf(out, "%6u: 0x%llx ", w->location_id.data[id], (unsigned long long)l->address);
    if (l->mapping)
        buf_addf(out, "M=%u ", w->mapping_id.data[l->mapping]);
    if (l->is_folded)
        buf_add_str(out, "[F] ");
    uint32_t first = w->r->o.noinlines && l->n_lines > 1 ? l->n_lines - 1 : 0;
    for (uint32_t i = first; i < l->n_lines; i++) {
        const struct line *line = &d->lines.data[l->first_line + i];
        const struct function *f = &d->functions.data[line->function];
        buf_addf(out, "%s%s %s:%lld:%lld s=%lld", i > first ? "\n             " : "",
                 dict_cstr(d, f->name), dict_cstr(d, f->file), (long long)line->line,
                 (long long)line->column, (long long)f->start_line);
        if (f->name != f->system_name)
            buf_addf(out, "(%s)", dict_cstr(d, f->system_name));
    }
    buf_add_byte(out, '\n');
}

static void raw_mapping(const struct raw *w, uint32_t id)
{
    const struct dict *d = w->r->dict;
    const struct mapping *m = &d->mappings.data[id];

    buf_addf(w->r->out, "%u: 0x%llx/0x%llx/0x%llx %s %s %s%s%s%s\n", w->mapping_id.data[id],
             (unsigned long long)m->start, (unsigned long long)m->limit,
             (unsigned long long)m->offset, dict_cstr(d, m->file), dict_cstr(d, m->build_id),
             m->has_functions ? "[FN]" : "", m->has_filenames ? "[FL]" : "",
             m->has_line_numbers ? "[LN]" : "", m->has_inline_frames ? "[IN]" : "");
}

int report_raw(struct report *r)
{
    struct raw w = {.r = r};
    struct dict *d = r->dict;

    bool ok = raw_number(&w);
    if (ok) {
        raw_header(r);
        raw_samples(&w);
        buf_add_str(r->out, "Locations\n");
        for (uint32_t l = 1; l < w.location_id.len; l++) {
            if (w.location_id.data[l])
                raw_location(&w, l);
        }
        buf_add_str(r->out, "Mappings\n");
        for (size_t i = 0; i < w.mappings.len; i++)
            raw_mapping(&w, w.mappings.data[i]);
    }
    vec_done(d->budget, &w.mappings);
    vec_done(d->budget, &w.location_id);
    vec_done(d->budget, &w.mapping_id);
    return ok ? 0 : budget_error(d->budget, r->err);
}
