#include "cli/report.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cli/report_internal.h"
#include "profile/diff.h"
#include "profile/filter.h"
#include "profile/path.h"
#include "profile/tag_filter.h"
#include "query/name_tag_filters.h"

void report_options_init(struct report_options *o)
{
    *o = (struct report_options){
        .unit = "minimum",
        .nodecount = -1,
        .nodefraction = 0.005,
        .edgefraction = 0.001,
        .divide_by = 1,
        .trim = true,
    };
}

void report_value(const struct report *r, int64_t v, char ret[MEASURE_TEXT_MAX])
{
    if (r->ratio > 0 && r->ratio != 1)
        v = graph_truncate((double)v * r->ratio);
    measure_label(v, r->sample_unit, r->unit, ret);
}

void report_percent(const struct report *r, int64_t v, char ret[MEASURE_TEXT_MAX])
{
    measure_percentage(v, r->total, ret);
}

void report_csv_field(struct buf *out, const char *text, bool is_last)
{
    if (strpbrk(text, ",\"\n\r")) {
        buf_add_byte(out, '"');
        for (; *text; text++) {
            if (*text == '"')
                buf_add_byte(out, '"');
            buf_add_byte(out, (uint8_t)*text);
        }
        buf_add_byte(out, '"');
    } else {
        buf_add_str(out, text);
    }
    buf_add_byte(out, is_last ? '\n' : ',');
}

struct frame_options report_frame_options(const struct report *r)
{
    return (struct frame_options){
        .granularity = r->o.granularity,
        .no_inlines = r->o.noinlines,
        .show_columns = r->o.showcolumns,
        .keep_objects = r->kind == REPORT_LIST || r->kind == REPORT_DISASM,
        .trim_path = r->o.trim_path,
        .source_path = r->o.source_path,
    };
}

/* What each kind of report implies. */
static void apply_overrides(struct report *r)
{
    struct report_options *o = &r->o;

    switch (r->kind) {
    case REPORT_DISASM:
        o->trim = false;
        o->granularity = GRANULARITY_ADDRESSES;
        o->noinlines = true;
        break;
    case REPORT_LIST:
        o->trim = false;
        o->granularity = GRANULARITY_LINES;
        break;
    case REPORT_PEEK:
        o->trim = false;
        break;
    case REPORT_RAW:
        o->trim = false;
        o->granularity = GRANULARITY_ADDRESSES;
        break;
    case REPORT_TOP:
        o->nodecount = o->nodecount == -1 ? 0 : o->nodecount;
        break;
    case REPORT_TREE:
    case REPORT_TRACES:
    case REPORT_TAGS:
    case REPORT_COMMENTS:
    case REPORT_DOT:
        o->nodecount = o->nodecount == -1 ? 80 : o->nodecount;
        break;
    }
    if (!o->trim) {
        o->nodecount = 0;
        o->nodefraction = o->edgefraction = 0;
    }
}

/*
 * What percentages are of: the sum of all values without their signs, or of those of a diff base
 * when there are any.
 */
static int64_t compute_total(const struct report *r, const struct profile *p)
{
    struct dict *d = p->dict;
    uint32_t key = dict_find_string(d, BYTES(DIFF_BASE_KEY));
    uint32_t yes = dict_find_string(d, BYTES("true"));
    uint64_t total = 0, div = 0, base_total = 0, base_div = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        uint64_t v = (uint64_t)graph_abs(p->values[r->type][i]);
        uint64_t by = r->o.mean ? (uint64_t)p->values[0][i] : 0;
        total += v;
        div += by;
        uint32_t mark = key && p->attrs ? dict_attrs_get(d, p->attrs[i], key) : 0;
        if (mark && d->attributes.data[mark].text == yes) {
            base_total += v;
            base_div += by;
        }
    }
    if ((int64_t)base_total > 0) {
        total = base_total;
        div = base_div;
    }
    if (div == 0)
        return (int64_t)total;
    return (int64_t)div == -1 ? (int64_t)-total : (int64_t)total / (int64_t)div;
}

/* The unit in which the smallest value is still readable. */
static void choose_unit(struct report *r, const struct graph *g)
{
    int64_t min = 0, max = r->total;
    const char *min_unit, *max_unit, *unit;

    if (strcmp(r->unit, "minimum") != 0 || g->order.len == 0)
        return;
    for (size_t i = 0; i < g->order.len; i++) {
        const struct graph_node *n = &g->nodes.data[g->order.data[i]];
        int64_t v = graph_abs(graph_flat(n));
        if (v == 0)
            v = graph_abs(graph_cum(n));
        if (v > 0 && (min == 0 || v < min))
            min = v;
    }
    if (min == 0)
        min = max;
    if (r->ratio > 0 && r->ratio != 1) {
        min = graph_truncate((double)min * r->ratio);
        max = graph_truncate((double)max * r->ratio);
    }
    (void)measure_scale(min, r->sample_unit, "minimum", &min_unit);
    (void)measure_scale(max, r->sample_unit, "minimum", &max_unit);
    unit = min_unit;
    int64_t min100 = (int64_t)((uint64_t)min * 100);
    if (strcmp(min_unit, max_unit) != 0 && min100 < max)
        (void)measure_scale(min100, r->sample_unit, "minimum", &unit);
    r->unit = *unit ? unit : r->sample_unit;
}

int report_graph(struct report *r, struct frames *f, struct graph *g)
{
    bool is_picture = r->kind == REPORT_DOT;
    struct graph_options o = {
        .type = r->type,
        .mean = r->o.mean,
        .call_tree = r->o.call_tree && is_picture,
        .drop_negative = r->o.drop_negative,
        .edges = r->kind == REPORT_TOP ? GRAPH_EDGES_INLINED : GRAPH_EDGES_ALL,
        .with_tags = is_picture,
        .unit = r->unit,
        .label_units = r->units.unit.len ? r->units.unit.data : NULL,
    };
    struct graph_trim trim = {
        .node_fraction = r->o.nodefraction,
        .edge_fraction = r->o.edgefraction,
        .node_count = r->o.nodecount,
        .by_cum = r->o.cum,
        .is_picture = is_picture,
    };

    frames_init(f, r->dict, report_frame_options(r));
    int rc = graph_build_trimmed(r->p, f, &o, &trim, g, r->err);
    if (rc == 0)
        choose_unit(r, g);
    return rc;
}

static void add_time(int64_t ns, const char *end, struct buf *out)
{
    time_t seconds = (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
    struct tm tm;
    char text[64];

    if (localtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", &tm) > 0)
        buf_addf(out, "Time: %s%s", text, end);
}

static void add_duration(const struct report *r, const char *end, struct buf *out)
{
    char duration[MEASURE_TEXT_MAX], total[MEASURE_TEXT_MAX], percent[MEASURE_TEXT_MAX];
    const char *unit;
    double ns = measure_scale(r->total, r->sample_unit, "nanoseconds", &unit);

    measure_label(r->p->duration_ns, "nanoseconds", "auto", duration);
    report_value(r, r->total, total);
    buf_addf(out, "Duration: %s, Total samples = %s ", duration, total);
    if (strcmp(unit, "ns") == 0 && ns != 0) {
        measure_percentage(graph_truncate(ns), r->p->duration_ns, percent);
        buf_addf(out, "(%s)", percent);
    }
    buf_add_str(out, end);
}

void report_add_profile_lines(const struct report *r, const char *end, struct buf *out)
{
    const struct profile *p = r->p;
    const struct dict *d = r->dict;

    if (p->mappings.len > 0) {
        const struct mapping *m = &d->mappings.data[p->mappings.data[0]];
        if (m->file) {
            buf_add_str(out, "File: ");
            buf_add_bytes(out, path_base(dict_text(d, m->file)));
            buf_add_str(out, end);
        }
        if (m->build_id)
            buf_addf(out, "Build ID: %s%s", dict_cstr(d, m->build_id), end);
    }
    for (size_t i = 0; i < p->comments.len; i++) {
        const char *comment = dict_cstr(d, p->comments.data[i]);
        if (*comment != '#')
            buf_addf(out, "%s%s", comment, end);
    }
    if (p->types[r->type].type)
        buf_addf(out, "Type: %s%s%s", r->o.mean ? "mean_" : "",
                 dict_cstr(d, p->types[r->type].type), end);
    if (p->doc_url)
        buf_addf(out, "Doc: %s%s", dict_cstr(d, p->doc_url), end);
    if (p->time_unix_ns != 0)
        add_time(p->time_unix_ns, end, out);
    if (p->duration_ns != 0)
        add_duration(r, end, out);
}

/* How many bytes of text are its first n characters, or all of it. */
static size_t first_characters(const char *text, size_t n)
{
    size_t len = strlen(text);
    return len < n ? len : n;
}

static void add_filters(const struct report *r, const char *end, struct buf *out)
{
    const struct {
        const char *name, *value;
    } all[] = {
        {"focus", r->o.focus},         {"ignore", r->o.ignore},       {"hide", r->o.hide},
        {"show", r->o.show},           {"show_from", r->o.show_from}, {"tagfocus", r->o.tagfocus},
        {"tagignore", r->o.tagignore}, {"tagshow", r->o.tagshow},     {"taghide", r->o.taghide},
    };
    bool any = false;

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        if (!all[i].value || !*all[i].value)
            continue;
        struct buf text = {0};
        buf_addf(&text, "%s=%s", all[i].name, all[i].value);
        size_t shown = first_characters(buf_cstr(&text), 80);
        if (!any)
            buf_addf(out, "Active filters:%s", end);
        any = true;
        buf_addf(out, "   %.*s%s%s", (int)shown, buf_cstr(&text), shown < text.len ? "…" : "", end);
        buf_done(&text);
    }
}

static void add_dropped(const struct report *r, size_t n, const char *what, double fraction,
                        const char *end, struct buf *out)
{
    char cutoff[MEASURE_TEXT_MAX];
    bool is_node = *what == 'n';

    if (n == 0)
        return;
    report_value(r, graph_abs(graph_truncate((double)r->total * fraction)), cutoff);
    buf_addf(out, "Dropped %zu %s%s (%s <= %s)%s", n, what, n > 1 ? "s" : "",
             is_node ? "cum" : "freq", cutoff, end);
}

void report_add_header(const struct report *r, const struct graph *g, bool is_picture,
                       const char *end, struct buf *out)
{
    char shown_text[MEASURE_TEXT_MAX], percent[MEASURE_TEXT_MAX], total[MEASURE_TEXT_MAX];
    uint64_t shown = 0;

    if (is_picture || !r->o.compact_labels)
        report_add_profile_lines(r, end, out);
    add_filters(r, end, out);
    for (size_t i = 0; i < g->order.len; i++)
        shown += (uint64_t)graph_flat(&g->nodes.data[g->order.data[i]]);
    report_value(r, (int64_t)shown, shown_text);
    report_percent(r, (int64_t)shown, percent);
    report_value(r, r->total, total);
    const char *trimmed_percent = percent + strspn(percent, " ");
    buf_addf(out, "Showing nodes accounting for %s, %s of %s total%s", shown_text, trimmed_percent,
             total, end);
    if (r->total == 0)
        return;
    add_dropped(r, g->trimmed.dropped_nodes, "node", r->o.nodefraction, end, out);
    if (is_picture)
        add_dropped(r, g->trimmed.dropped_edges, "edge", r->o.edgefraction, end, out);
    if (g->order.len > 0 && g->order.len < g->trimmed.n_nodes_before)
        buf_addf(out, "Showing top %zu nodes out of %zu%s", g->order.len, g->trimmed.n_nodes_before,
                 end);
}

static int dispatch(struct report *r)
{
    switch (r->kind) {
    case REPORT_TOP:
        return report_top(r);
    case REPORT_TREE:
    case REPORT_PEEK:
        return report_tree(r);
    case REPORT_TRACES:
        return report_traces(r);
    case REPORT_TAGS:
        return report_tags(r);
    case REPORT_RAW:
        return report_raw(r);
    case REPORT_COMMENTS:
        return report_comments(r);
    case REPORT_LIST:
        return report_list(r);
    case REPORT_DISASM:
        return report_disasm(r);
    case REPORT_DOT:
        return report_dot(r);
    }
    return error_set(r->err, -EINVAL, "there is no such report");
}

/* Whether anything is to be done to the rows before they are counted. */
static bool changes_rows(const struct profile *p, const struct report_options *o)
{
    const char *const all[] = {o->focus,     o->ignore,     o->hide,     o->show,
                               o->show_from, o->prune_from, o->tagfocus, o->tagignore,
                               o->taghide,   o->tagshow,    o->tagroot,  o->tagleaf};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        if (all[i] && *all[i])
            return true;
    }
    return p->drop_frames != 0;
}

/* Takes out of p, a copy that may be changed, what the options leave out. */
static int choose(struct report *r, struct profile *p)
{
    const struct report_options *o = &r->o;
    bool root = false, leaf = false;
    int rc = profile_drop_frames(p, NULL, r->err);

    if (rc < 0)
        return error_prefix(r->err, rc, "drop_frames of the profile");
    if (!label_units_build(p, &r->units, o->warnings) ||
        !profile_add_tag_frames(p, o->tagroot, o->tagleaf, r->unit, &root, &leaf))
        return budget_error(r->dict->budget, r->err);
    if (o->warnings && o->tagroot && *o->tagroot && !root)
        buf_add_str(o->warnings, "TagRoot expression matched no samples\n");
    if (o->warnings && o->tagleaf && *o->tagleaf && !leaf)
        buf_add_str(o->warnings, "TagLeaf expression matched no samples\n");

    const struct query_filters filters = {
        .focus = o->focus,
        .ignore = o->ignore,
        .hide = o->hide,
        .show = o->show,
        .show_from = o->show_from,
        .prune_from = o->prune_from,
        .tagfocus = {o->tagfocus},
        .tagignore = {o->tagignore},
        .taghide = o->taghide,
        .tagshow = o->tagshow,
    };
    r->p = p;
    if (!o->relative_percentages)
        r->total = compute_total(r, p);
    rc = query_filter(&filters, &r->units, p, o->warnings, r->err);
    if (rc == 0 && o->relative_percentages)
        r->total = compute_total(r, p);
    return rc;
}

/* A report begun: the column is chosen, and *ret is a copy of p with the filters applied, or NULL
 * when they change nothing: then p itself is counted. */
static int begin(struct report *r, const struct profile *p, struct profile **ret)
{
    const struct report_options *o = &r->o;

    if (!(o->divide_by > 0))
        return error_set(r->err, -EINVAL, "divide_by must be more than 0");
    int rc = profile_find_index(p, o->sample_index, &r->type, r->err);
    if (rc < 0)
        return rc;
    r->dict = p->dict;
    r->unit = o->unit && *o->unit ? o->unit : "minimum";
    r->ratio = 1 / o->divide_by;
    r->sample_unit = dict_cstr(p->dict, p->types[r->type].unit);
    r->units.budget = p->dict->budget;
    if (changes_rows(p, o)) {
        *ret = profile_copy(p, NULL, 0);
        return *ret ? choose(r, *ret) : budget_error(p->dict->budget, r->err);
    }
    if (!label_units_build(p, &r->units, o->warnings))
        return budget_error(p->dict->budget, r->err);
    r->p = p;
    r->total = compute_total(r, p);
    return 0;
}

int report_prepare(const struct profile *p, const struct report_options *o, struct profile **ret,
                   uint32_t *ret_type, struct error *err)
{
    struct report r = {.kind = REPORT_TOP, .o = *o, .err = err};
    CLEANUP(profile_freep) struct profile *copy = NULL;

    int rc = begin(&r, p, &copy);
    label_units_done(&r.units);
    if (rc == 0 && !copy && !(copy = profile_copy(p, NULL, 0)))
        rc = budget_error(p->dict->budget, err);
    if (rc < 0)
        return rc;
    *ret = TAKE_PTR(copy);
    *ret_type = r.type;
    return 0;
}

int report_describe(const struct profile *p, const struct report_options *o, struct buf *out,
                    struct error *err)
{
    struct report r = {.kind = REPORT_TOP, .o = *o, .err = err};
    CLEANUP(profile_freep) struct profile *copy = NULL;

    int rc = begin(&r, p, &copy);
    if (rc == 0)
        report_add_profile_lines(&r, "\n", out);
    label_units_done(&r.units);
    return rc;
}

int report_run(enum report_kind kind, const struct profile *p, const struct report_options *o,
               const char *argument, struct buf *out, struct error *err)
{
    struct report r = {.kind = kind, .o = *o, .argument = argument, .out = out, .err = err};
    CLEANUP(regex_freep) struct regex *pattern = NULL;
    CLEANUP(profile_freep) struct profile *copy = NULL;

    int rc = argument ? regex_new(bytes_of(argument), &pattern, err) : 0;
    if (rc < 0)
        return rc;
    r.pattern = pattern;
    apply_overrides(&r);
    rc = begin(&r, p, &copy);
    if (rc == 0)
        rc = dispatch(&r);
    if (rc == 0 && p->n_samples > 0 && r.p->n_samples == 0 && kind != REPORT_COMMENTS)
        rc = error_set(err, -ENODATA, "no data: no sample passes the filters");
    label_units_done(&r.units);
    return buf_full(out) ? buf_error(out, err) : rc;
}
