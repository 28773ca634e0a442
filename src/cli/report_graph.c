/* top, tree and peek: who spends, and between whom. */
#include <errno.h>

#include "cli/color.h"
#include "cli/report_internal.h"
#include "wire/json.h"

#define SEPARATOR "----------------------------------------------------------+-------------\n"

/* The texts of one entry. */
struct entry {
    const char *name;
    const char *inlined; /* "", " (inline)" or " (partial-inline)" */
    int64_t flat, cum, sum;
};

static const char *inline_mark(const struct graph *g, uint32_t node)
{
    bool is_inline = false, is_call = false;

    for (uint32_t k = g->in_first.data[node]; k < g->in_first.data[node + 1]; k++) {
        const struct graph_edge *e = &g->edges.data[g->in.data[k]];
        is_inline |= !e->is_gone && e->is_inline;
        is_call |= !e->is_gone && !e->is_inline;
    }
    if (!is_inline)
        return "";
    return is_call ? " (partial-inline)" : " (inline)";
}

static struct entry entry_of(struct graph *g, uint32_t node, int64_t *sum)
{
    const struct graph_node *n = &g->nodes.data[node];
    struct entry e = {.name = frames_name(g->frames, n->frame),
                      .inlined = inline_mark(g, node),
                      .flat = graph_flat(n),
                      .cum = graph_cum(n)};

    *sum = (int64_t)((uint64_t)*sum + (uint64_t)e.flat);
    e.sum = *sum;
    return e;
}

struct entry_texts {
    char flat[MEASURE_TEXT_MAX], flat_percent[MEASURE_TEXT_MAX], sum_percent[MEASURE_TEXT_MAX];
    char cum[MEASURE_TEXT_MAX], cum_percent[MEASURE_TEXT_MAX];
};

static void format_entry(const struct report *r, const struct entry *e, struct entry_texts *ret)
{
    report_value(r, e->flat, ret->flat);
    report_percent(r, e->flat, ret->flat_percent);
    report_percent(r, e->sum, ret->sum_percent);
    report_value(r, e->cum, ret->cum);
    report_percent(r, e->cum, ret->cum_percent);
}

static double share(const struct report *r, int64_t v)
{
    return r->total ? (double)v / (double)r->total * 100 : 0;
}

/* Numbers are those of the profile: scripts want what is exact, not what is short. */
static void json_entry(const struct report *r, const struct entry *e, struct json_writer *w)
{
    json_key(w, "name");
    json_cstring(w, e->name);
    json_key(w, "flat");
    json_i64(w, e->flat);
    json_key(w, "flat_percent");
    json_double(w, share(r, e->flat));
    json_key(w, "sum_percent");
    json_double(w, share(r, e->sum));
    json_key(w, "cum");
    json_i64(w, e->cum);
    json_key(w, "cum_percent");
    json_double(w, share(r, e->cum));
    if (*e->inlined) {
        json_key(w, "inline");
        json_cstring(w, strcmp(e->inlined, " (inline)") == 0 ? "all" : "some");
    }
}

static void json_head(const struct report *r, struct json_writer *w)
{
    const struct value_type *type = &r->p->types[r->type];

    json_begin_object(w);
    json_key(w, "type");
    json_string(w, dict_text(r->dict, type->type));
    json_key(w, "unit");
    json_string(w, dict_text(r->dict, type->unit));
    json_key(w, "total");
    json_i64(w, r->total);
    json_key(w, "entries");
    json_begin_array(w);
}

static void json_foot(struct report *r, struct json_writer *w)
{
    json_end_array(w);
    json_end_object(w);
    buf_add_byte(r->out, '\n');
}

static void csv_entry(const struct report *r, const struct entry *e)
{
    struct buf *out = r->out;
    struct buf name = {0};

    buf_addf(out, "%lld,%.4f,%.4f,%lld,%.4f,", (long long)e->flat, share(r, e->flat),
             share(r, e->sum), (long long)e->cum, share(r, e->cum));
    buf_addf(&name, "%s%s", e->name, e->inlined);
    report_csv_field(out, buf_cstr(&name), true);
    buf_done(&name);
}

static const char *color(const struct report *r, const char *escape)
{
    return r->o.color ? escape : "";
}

/* What an entry's own cost looks like: hot, warm, or (in a difference) less than before. */
static const char *color_of(const struct report *r, int64_t flat)
{
    double percent = share(r, flat);

    if (percent < 0)
        return color(r, COLOR_GREEN);
    return percent >= 20 ? color(r, COLOR_RED) : percent >= 5 ? color(r, COLOR_YELLOW) : "";
}

static void print_top(struct report *r, struct graph *g)
{
    struct json_writer w = {.out = r->out};
    int64_t sum = 0;

    if (r->o.output == REPORT_TEXT) {
        report_add_header(r, g, false, "\n", r->out);
        buf_addf(r->out, "%s%10s %5s%% %5s%% %10s %5s%%%s\n", color(r, COLOR_BOLD), "flat", "flat",
                 "sum", "cum", "cum", color(r, COLOR_END));
    } else if (r->o.output == REPORT_CSV) {
        buf_add_str(r->out, "flat,flat_percent,sum_percent,cum,cum_percent,name\n");
    } else {
        json_head(r, &w);
    }
    for (size_t i = 0; i < g->order.len; i++) {
        struct entry e = entry_of(g, g->order.data[i], &sum);
        struct entry_texts t;
        if (r->o.output == REPORT_CSV) {
            csv_entry(r, &e);
        } else if (r->o.output == REPORT_JSON) {
            json_begin_object(&w);
            json_entry(r, &e, &w);
            json_end_object(&w);
        } else {
            const char *start = color_of(r, e.flat), *dim = *e.inlined ? color(r, COLOR_DIM) : "";
            format_entry(r, &e, &t);
            buf_addf(r->out, "%s%10s %s%s %s %10s %s  %s%s%s%s\n", start, t.flat, t.flat_percent,
                     *start ? COLOR_END : "", t.sum_percent, t.cum, t.cum_percent, e.name, dim,
                     e.inlined, *dim ? COLOR_END : "");
        }
    }
    if (r->o.output == REPORT_JSON)
        json_foot(r, &w);
}

int report_top(struct report *r)
{
    struct frames frames;
    struct graph g;
    int rc = report_graph(r, &frames, &g);

    if (rc == 0)
        print_top(r, &g);
    graph_done(&g);
    frames_done(&frames);
    return rc;
}

/* The callers (or callees) of an entry, heaviest first. */
static void text_edges(struct report *r, struct graph *g, const graph_ids *edges, int64_t cum,
                       bool is_in)
{
    for (size_t i = 0; i < edges->len; i++) {
        const struct graph_edge *e = &g->edges.data[edges->data[i]];
        char value[MEASURE_TEXT_MAX], percent[MEASURE_TEXT_MAX];
        report_value(r, e->weight, value);
        measure_percentage(e->weight, cum, percent);
        buf_addf(r->out, "%50s %s |   %s%s\n", value, percent,
                 frames_name(g->frames, g->nodes.data[is_in ? e->src : e->dst].frame),
                 e->is_inline ? " (inline)" : "");
    }
}

static void json_edges(struct graph *g, const graph_ids *edges, bool is_in, struct json_writer *w)
{
    json_key(w, is_in ? "callers" : "callees");
    json_begin_array(w);
    for (size_t i = 0; i < edges->len; i++) {
        const struct graph_edge *e = &g->edges.data[edges->data[i]];
        json_begin_object(w);
        json_key(w, "name");
        json_cstring(w, frames_name(g->frames, g->nodes.data[is_in ? e->src : e->dst].frame));
        json_key(w, "value");
        json_i64(w, e->weight);
        json_key(w, "inline");
        json_bool(w, e->is_inline);
        json_end_object(w);
    }
    json_end_array(w);
}

static void csv_edges(struct report *r, struct graph *g, const graph_ids *edges, const char *name,
                      bool is_in)
{
    for (size_t i = 0; i < edges->len; i++) {
        const struct graph_edge *e = &g->edges.data[edges->data[i]];
        report_csv_field(r->out, name, false);
        report_csv_field(r->out, is_in ? "caller" : "callee", false);
        buf_addf(r->out, "%lld,,", (long long)e->weight);
        report_csv_field(
            r->out, frames_name(g->frames, g->nodes.data[is_in ? e->src : e->dst].frame), true);
    }
}

struct neighbours {
    graph_ids in, out;
};

static void print_node(struct report *r, struct graph *g, const struct entry *e,
                       const struct neighbours *n, struct json_writer *w)
{
    struct entry_texts t;

    switch (r->o.output) {
    case REPORT_JSON:
        json_begin_object(w);
        json_entry(r, e, w);
        json_edges(g, &n->in, true, w);
        json_edges(g, &n->out, false, w);
        json_end_object(w);
        break;
    case REPORT_CSV:
        csv_edges(r, g, &n->in, e->name, true);
        report_csv_field(r->out, e->name, false);
        buf_addf(r->out, "self,%lld,%lld,\n", (long long)e->flat, (long long)e->cum);
        csv_edges(r, g, &n->out, e->name, false);
        break;
    case REPORT_TEXT:
        buf_add_str(r->out, SEPARATOR);
        text_edges(r, g, &n->in, e->cum, true);
        format_entry(r, e, &t);
        buf_addf(r->out, "%10s %s %s %10s %s                | %s\n", t.flat, t.flat_percent,
                 t.sum_percent, t.cum, t.cum_percent, e->name);
        text_edges(r, g, &n->out, e->cum, false);
        break;
    }
}

static int print_tree(struct report *r, struct graph *g)
{
    struct json_writer w = {.out = r->out};
    struct neighbours near = {0};
    bool is_text = r->o.output == REPORT_TEXT;
    size_t matched = 0;
    int64_t sum = 0;

    if (is_text) {
        report_add_header(r, g, false, "\n", r->out);
        buf_add_str(r->out, SEPARATOR "      flat  flat%   sum%        cum   cum%   calls calls% + "
                                      "context \t \t \n");
    } else if (r->o.output == REPORT_CSV) {
        buf_add_str(r->out, "name,relation,value,cum,other\n");
    } else {
        json_head(r, &w);
    }
    bool ok = true;
    for (size_t i = 0; ok && i < g->order.len; i++) {
        uint32_t node = g->order.data[i];
        const char *name = frames_name(g->frames, g->nodes.data[node].frame);
        if (r->pattern && !regex_matches(r->pattern, bytes_of(name)))
            continue;
        matched++;
        struct entry e = entry_of(g, node, &sum);
        ok = graph_callers(g, node, &near.in) && graph_callees(g, node, &near.out);
        if (ok)
            print_node(r, g, &e, &near, &w);
    }
    vec_done(g->budget, &near.in);
    vec_done(g->budget, &near.out);
    if (!ok)
        return budget_error(g->budget, r->err);
    if (is_text && g->order.len > 0)
        buf_add_str(r->out, SEPARATOR);
    if (r->o.output == REPORT_JSON)
        json_foot(r, &w);
    if (r->pattern && matched == 0) {
        buf_clear(r->out);
        return error_set(r->err, -ENODATA, "no matches found for regexp: %s", r->argument);
    }
    return 0;
}

int report_tree(struct report *r)
{
    struct frames frames;
    struct graph g;
    int rc = report_graph(r, &frames, &g);

    if (rc == 0)
        rc = print_tree(r, &g);
    graph_done(&g);
    frames_done(&frames);
    return rc;
}
