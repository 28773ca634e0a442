/* dot: the call graph as a picture for Graphviz, with pprof's sizes and colours. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli/report_internal.h"
#include "profile/path.h"

/* Labels shown under one node, and numbers under one label. */
#define TAGS_MAX 4

struct dot {
    struct report *r;
    struct graph *g;
    struct buf *out;
    struct regex *go_name, *java_name, *cpp_name;
    VEC(uint32_t) number; /* per node: what it is called in the picture, 0 when it is not there */
    VEC(bool) has_tags;   /* per node */
    VEC(uint32_t) tags;   /* of the graph, grouped by node */
    VEC(uint32_t) first_tag;
};

static void add_escaped(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c == '\n')
            buf_add_str(out, "\\l");
        else if (c == '\\' || c == '"')
            buf_addf(out, "\\%c", c);
        else
            buf_add_byte(out, c);
    }
}

/* Where "/vN" of a Go module's version stands in a name, and its length; 0 when nowhere. */
static size_t find_version(struct bytes name, size_t *ret_at)
{
    for (size_t i = 0; i + 3 < name.len; i++) {
        if (name.data[i] != '/' || name.data[i + 1] != 'v')
            continue;
        size_t end = i + 2;
        while (end < name.len && name.data[end] >= '0' && name.data[end] <= '9')
            end++;
        size_t digits = end - i - 2;
        bool is_version =
            digits > 0 && name.data[i + 2] != '0' && (digits > 1 || name.data[i + 2] >= '2');
        if (is_version && end < name.len && (name.data[end] == '.' || name.data[end] == '/')) {
            *ret_at = i;
            return end - i;
        }
    }
    return 0;
}

/* A function's name without the path that leads to it. */
static void add_short_name(const struct dot *d, struct bytes name, struct buf *out)
{
    static const struct bytes anonymous = BYTES("(anonymous namespace)::");
    const struct regex *const all[] = {d->go_name, d->java_name, d->cpp_name};
    struct buf plain = {0};
    struct bytes match, group;
    size_t at = 0;

    if (bytes_start_with(name, anonymous))
        name = bytes_from(name, anonymous.len);
    size_t version = find_version(name, &at);
    buf_add_bytes(&plain, bytes_head(name, version ? at : name.len));
    buf_add_bytes(&plain, bytes_from(name, version ? at + version : name.len));
    struct bytes shortened = buf_bytes(&plain);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        if (regex_capture(all[i], buf_bytes(&plain), &match, &group)) {
            shortened = group;
            break;
        }
    }
    buf_add_bytes(out, shortened);
    buf_done(&plain);
}

/* The name over several lines, broken where it has parts. */
static void add_broken_name(const struct dot *d, struct bytes name, struct buf *out)
{
    struct buf shortened = {0}, escaped = {0};

    add_short_name(d, name, &shortened);
    add_escaped(&escaped, buf_bytes(&shortened));
    struct bytes s = buf_bytes(&escaped);
    for (size_t i = 0; i < s.len;) {
        struct bytes rest = bytes_from(s, i);
        if (bytes_start_with(rest, BYTES("::"))) {
            buf_add_str(out, "\\n");
            i += 2;
        } else if (bytes_start_with(rest, BYTES("[...]"))) {
            buf_add_str(out, "[…]");
            i += 5;
        } else if (s.data[i] == '.') {
            buf_add_str(out, "\\n");
            i++;
        } else {
            buf_add_byte(out, s.data[i++]);
        }
    }
    buf_done(&shortened);
    buf_done(&escaped);
}

static void add_node_name(const struct dot *d, uint32_t frame, struct buf *out)
{
    const struct dict *dict = d->r->dict;
    const struct frame *f = &d->g->frames->all.data[frame];
    struct bytes name = dict_text(dict, f->name);
    struct bytes file = f->file ? path_base(dict_text(dict, f->file)) : (struct bytes){0};

    if (f->address != 0)
        buf_addf(out, "%016llx\\n", (unsigned long long)f->address);
    if (name.len > 0) {
        add_broken_name(d, name, out);
        buf_add_str(out, "\\n");
    }
    if (f->line != 0) {
        buf_add_bytes(out, file);
        buf_addf(out, ":%lld", (long long)f->line);
        if (f->column != 0)
            buf_addf(out, ":%lld", (long long)f->column);
        buf_add_str(out, "\\n");
    } else if (file.len > 0) {
        buf_add_bytes(out, file);
        buf_add_str(out, "\\n");
    } else if (name.len == 0 && f->object) {
        buf_add_byte(out, '[');
        buf_add_bytes(out, path_base(dict_text(dict, f->object)));
        buf_add_str(out, "]\\n");
    } else if (name.len == 0) {
        buf_add_str(out, "<unknown>\\n");
    }
}

/* Red for what spends, green for what saves, grey for little. score is in [-1, 1]. */
static void color(double score, bool is_background, char ret[8])
{
    const double shift = 0.7;
    double saturation = is_background ? 0.1 : 1.0, value = is_background ? 0.93 : 0.7;
    double red, green;

    score = isnan(score) ? score : fmax(-1, fmin(1, score));
    if (fabs(score) < 0.2)
        saturation *= fabs(score) / 0.2;
    if (score > 0)
        score = pow(score, 1 - shift);
    else if (score < 0)
        score = -pow(-score, 1 - shift);
    if (score < 0) {
        green = value;
        red = value * (1 + saturation * score);
    } else {
        red = value;
        green = isnan(score) ? 0 : value * (1 - saturation * score);
    }
    double blue = isnan(score) ? 0 : value * (1 - saturation);
    snprintf(ret, 8, "#%02x%02x%02x", (unsigned)(red * 255) & 0xff, (unsigned)(green * 255) & 0xff,
             (unsigned)(blue * 255) & 0xff);
}

static double share(const struct report *r, int64_t v)
{
    return (double)v / (double)graph_abs(r->total);
}

static const char *trimmed(const char *text)
{
    return text + strspn(text, " ");
}

static int font_size(int64_t flat, double max_flat)
{
    double size = (double)graph_abs(flat);

    if (max_flat == 0 || flat == 0 || size > max_flat)
        return 8;
    return 8 + (int)ceil(16 * sqrt(size / max_flat));
}

static void add_node(const struct dot *d, uint32_t node, double max_flat)
{
    const struct report *r = d->r;
    const struct graph_node *n = &d->g->nodes.data[node];
    int64_t flat = graph_flat(n), cum = graph_cum(n);
    char flat_text[MEASURE_TEXT_MAX], cum_text[MEASURE_TEXT_MAX], percent[MEASURE_TEXT_MAX];
    char line_color[8], fill_color[8];
    struct buf *out = d->out;

    report_value(r, flat, flat_text);
    report_value(r, cum, cum_text);
    buf_addf(out, "N%u [label=\"", d->number.data[node]);
    add_node_name(d, n->frame, out);
    report_percent(r, flat, percent);
    if (flat != 0)
        buf_addf(out, "%s (%s)", flat_text, trimmed(percent));
    else
        buf_add_byte(out, '0');
    report_percent(r, cum, percent);
    if (cum != flat)
        buf_addf(out, "%sof %s (%s)", flat != 0 ? "\\n" : " ", cum_text, trimmed(percent));
    buf_addf(out, "\" id=\"node%u\" fontsize=%d shape=box tooltip=\"", d->number.data[node],
             font_size(flat, max_flat));
    add_escaped(out, bytes_of(frames_name(d->g->frames, n->frame)));
    color(share(r, cum), false, line_color);
    color(share(r, cum), true, fill_color);
    buf_addf(out, " (%s)\" color=\"%s\" fillcolor=\"%s\"]\n", cum != flat ? cum_text : flat_text,
             line_color, fill_color);
}

/* A label, or several numbers joined to a range, as it is drawn. */
struct drawn_tag {
    struct graph_tag tag;
    char range[MEASURE_TEXT_MAX * 2 + 2]; /* "" : the tag's own name */
};

struct tag_order {
    const struct dict *dict;
    bool by_flat;
};

static const char *tag_name(const struct dict *d, const struct drawn_tag *t)
{
    if (t->range[0])
        return t->range;
    return dict_cstr(d, t->tag.number ? t->tag.number : t->tag.labels);
}

static int compare_tags(const void *a, const void *b, void *context)
{
    const struct tag_order *o = context;
    const struct drawn_tag *x = a, *y = b;
    int64_t cum1 = graph_abs(x->tag.cum), cum2 = graph_abs(y->tag.cum);
    int64_t flat1 = graph_abs(x->tag.flat), flat2 = graph_abs(y->tag.flat);

    if (!o->by_flat && cum1 != cum2)
        return cum1 > cum2 ? -1 : 1;
    if (flat1 != flat2)
        return flat1 > flat2 ? -1 : 1;
    return strcmp(tag_name(o->dict, x), tag_name(o->dict, y));
}

static int64_t divided(int64_t v, int64_t by)
{
    if (by == 0)
        return v;
    return by == -1 ? (int64_t) - (uint64_t)v : v / by;
}

static void sum(int64_t *to, int64_t v)
{
    *to = (int64_t)((uint64_t)*to + (uint64_t)v);
}

/* How far two numbers are apart, in the unit of the first. */
static double distance(const struct dict *d, const struct graph_tag *a, const struct graph_tag *b)
{
    const char *unit;
    double v = measure_scale(b->value, dict_cstr(d, b->unit), dict_cstr(d, a->unit), &unit);
    return fabs((double)a->value - v);
}

/* Joins the numbers that are too many to draw to the closest of those that are drawn. */
static size_t collapse(const struct dict *d, struct drawn_tag *all, size_t n)
{
    struct {
        int64_t min, max;
        uint32_t unit_min, unit_max;
        size_t members;
    } groups[TAGS_MAX];

    if (n <= TAGS_MAX)
        return n;
    struct graph_tag first[TAGS_MAX];
    for (size_t i = 0; i < TAGS_MAX; i++) {
        first[i] = all[i].tag;
        groups[i].min = groups[i].max = first[i].value;
        groups[i].unit_min = groups[i].unit_max = first[i].unit;
        groups[i].members = 1;
    }
    for (size_t i = TAGS_MAX; i < n; i++) {
        const struct graph_tag *t = &all[i].tag;
        size_t best = 0;
        for (size_t k = 1; k < TAGS_MAX; k++) {
            if (distance(d, t, &first[k]) < distance(d, t, &first[best]))
                best = k;
        }
        if (t->value < groups[best].min)
            groups[best].min = t->value, groups[best].unit_min = t->unit;
        if (t->value > groups[best].max)
            groups[best].max = t->value, groups[best].unit_max = t->unit;
        groups[best].members++;
        sum(&all[best].tag.flat, t->flat);
        sum(&all[best].tag.flat_div, t->flat_div);
        sum(&all[best].tag.cum, t->cum);
        sum(&all[best].tag.cum_div, t->cum_div);
    }
    for (size_t i = 0; i < TAGS_MAX; i++) {
        char low[MEASURE_TEXT_MAX], high[MEASURE_TEXT_MAX];
        struct graph_tag *t = &all[i].tag;
        measure_label(groups[i].min, dict_cstr(d, groups[i].unit_min), "auto", low);
        measure_label(groups[i].max, dict_cstr(d, groups[i].unit_max), "auto", high);
        snprintf(all[i].range, sizeof(all[i].range), "%s%s%s", low,
                 groups[i].members > 1 ? ".." : "", groups[i].members > 1 ? high : "");
        t->flat = divided(t->flat, t->flat_div);
        t->cum = divided(t->cum, t->cum_div);
        t->flat_div = t->cum_div = 0;
    }
    return TAGS_MAX;
}

typedef VEC(struct drawn_tag) drawn_tags;

/* The labels of a node (numbers false), or the numbers that samples with these labels have. */
static bool gather_tags(const struct dot *d, uint32_t node, bool numbers, uint32_t labels,
                        drawn_tags *ret)
{
    vec_clear(ret);
    for (uint32_t k = d->first_tag.data[node]; k < d->first_tag.data[node + 1]; k++) {
        const struct graph_tag *t = &d->g->tags.data[d->tags.data[k]];
        if (t->is_gone || (t->number != 0) != numbers || (numbers && t->labels != labels))
            continue;
        if (!vec_push(d->g->budget, ret, (struct drawn_tag){.tag = *t}))
            return false;
    }
    return true;
}

/* The box of a label and the line to it from a node or another box. */
static void add_box(const struct dot *d, const char *source, const char *box, const char *label,
                    int64_t value, bool is_dotted)
{
    char weight[MEASURE_TEXT_MAX];

    report_value(d->r, value, weight);
    buf_addf(d->out, "%s [label = \"%s\" id=\"%s\" fontsize=8 shape=box3d tooltip=\"%s\"]\n", box,
             label, box, weight);
    buf_addf(d->out, "%s -> %s [label=\" %s\" weight=100 tooltip=\"%s\" labeltooltip=\"%s\"%s]\n",
             source, box, weight, weight, weight, is_dotted ? " style=\"dotted\"" : "");
}

static bool add_numbers(const struct dot *d, uint32_t node, uint32_t labels, bool by_flat,
                        const char *source)
{
    const struct dict *dict = d->r->dict;
    struct tag_order order = {dict, by_flat};
    drawn_tags all = {0};
    bool ok = gather_tags(d, node, true, labels, &all), any = false;

    if (ok && all.len > 0) {
        qsort_r(all.data, all.len, sizeof(*all.data), compare_tags, &order);
        bool collapsed = all.len > TAGS_MAX;
        all.len = collapse(dict, all.data, all.len);
        if (collapsed)
            qsort_r(all.data, all.len, sizeof(*all.data), compare_tags, &order);
    }
    for (size_t j = 0; ok && j < all.len; j++) {
        const struct graph_tag *t = &all.data[j].tag;
        int64_t flat = divided(t->flat, t->flat_div), cum = divided(t->cum, t->cum_div);
        bool is_flat = by_flat || flat == cum;
        int64_t w = is_flat ? flat : cum;
        char box[48];
        if (w == 0)
            continue;
        any = true;
        snprintf(box, sizeof(box), "N%s_%zu", source, j);
        add_box(d, source, box, tag_name(dict, &all.data[j]), w, !is_flat);
    }
    vec_done(d->g->budget, &all);
    return any;
}

static bool has_callees(const struct graph *g, uint32_t node)
{
    for (uint32_t k = g->out_first.data[node]; k < g->out_first.data[node + 1]; k++) {
        if (!g->edges.data[g->out.data[k]].is_gone)
            return true;
    }
    return false;
}

/* Boxes for the labels of a node. True when there are any. */
static bool add_tags(const struct dot *d, uint32_t node)
{
    const struct dict *dict = d->r->dict;
    bool by_flat = has_callees(d->g, node), any = false;
    struct tag_order order = {dict, by_flat};
    drawn_tags all = {0};
    char source[16];

    snprintf(source, sizeof(source), "N%u", d->number.data[node]);
    bool ok = gather_tags(d, node, false, 0, &all);
    if (ok && all.len > 1)
        qsort_r(all.data, all.len, sizeof(*all.data), compare_tags, &order);
    for (size_t i = 0; ok && i < all.len && i < TAGS_MAX; i++) {
        const struct graph_tag *t = &all.data[i].tag;
        int64_t w = by_flat ? divided(t->flat, t->flat_div) : divided(t->cum, t->cum_div);
        char box[32];
        if (w == 0)
            continue;
        any = true;
        snprintf(box, sizeof(box), "%s_%zu", source, i);
        add_box(d, source, box, dict_cstr(dict, t->labels), w, false);
        any |= add_numbers(d, node, t->labels, by_flat, box);
    }
    vec_done(d->g->budget, &all);
    any |= add_numbers(d, node, 0, by_flat, source);
    return any;
}

/* |v * times / total|, at most `most`. */
static int64_t portion(int64_t v, int64_t times, int64_t total, int64_t most)
{
    int64_t scaled = divided((int64_t)((uint64_t)v * (uint64_t)times), total);
    scaled = graph_abs(scaled);
    return scaled < most ? scaled : most;
}

static void add_edge(const struct dot *d, const struct graph_edge *e)
{
    const struct report *r = d->r;
    struct buf *out = d->out;
    int64_t v = divided(e->weight, e->weight_div);
    char weight[MEASURE_TEXT_MAX], line_color[8];

    report_value(r, v, weight);
    buf_addf(out, "N%u -> N%u [label=\" %s%s\"", d->number.data[e->src], d->number.data[e->dst],
             weight, e->is_inline ? "\\n (inline)" : "");
    if (r->total != 0) {
        int64_t heavy = 1 + portion(v, 100, r->total, 100), wide = 1 + portion(v, 5, r->total, 5);
        if (heavy > 1)
            buf_addf(out, " weight=%lld", (long long)heavy);
        if (wide > 1)
            buf_addf(out, " penwidth=%lld", (long long)wide);
        color(share(r, v), false, line_color);
        buf_addf(out, " color=\"%s\"", line_color);
    }
    struct buf tip = {0};
    add_escaped(&tip, bytes_of(frames_name(d->g->frames, d->g->nodes.data[e->src].frame)));
    buf_add_str(&tip, e->is_residual ? " ... " : " -> ");
    add_escaped(&tip, bytes_of(frames_name(d->g->frames, d->g->nodes.data[e->dst].frame)));
    buf_addf(&tip, " (%s)", weight);
    buf_addf(out, " tooltip=\"%s\" labeltooltip=\"%s\"%s%s]\n", buf_cstr(&tip), buf_cstr(&tip),
             e->is_residual ? " style=\"dotted\"" : "",
             d->has_tags.data[e->src] ? " minlen=2" : "");
    buf_done(&tip);
}

static void add_legend(const struct dot *d)
{
    const struct report *r = d->r;
    const struct profile *p = r->p;
    struct buf text = {0}, title = {0};
    struct bytes rest, first = {0};

    if (p->mappings.len > 0 && r->dict->mappings.data[p->mappings.data[0]].file)
        buf_add_bytes(&title, path_base(dict_text(
                                  r->dict, r->dict->mappings.data[p->mappings.data[0]].file)));
    report_add_header(r, d->g, true, "\n", &text);
    buf_add_str(&text, "\nSee https://git.io/JfYMW for how to read the graph\n");
    rest = buf_bytes(&text);
    (void)bytes_next_line(&rest, &first);
    buf_addf(d->out, "digraph \"%s\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n",
             title.len ? buf_cstr(&title) : "unnamed");
    buf_add_str(d->out, "subgraph cluster_L { \"");
    add_escaped(d->out, first);
    buf_add_str(d->out, "\" [shape=box fontsize=16 label=\"");
    add_escaped(d->out, buf_bytes(&text));
    buf_add_byte(d->out, '"');
    if (title.len)
        buf_addf(d->out, " tooltip=\"%s\"", buf_cstr(&title));
    buf_add_str(d->out, "] }\n");
    buf_done(&text);
    buf_done(&title);
}

/* Groups the tags of the graph by node. */
static bool group_tags(struct dot *d)
{
    struct graph *g = d->g;
    size_t n = g->nodes.len;

    if (!vec_resize(g->budget, &d->first_tag, n + 2) ||
        !vec_resize(g->budget, &d->tags, g->tags.len))
        return false;
    for (size_t i = 0; i < g->tags.len; i++)
        d->first_tag.data[g->tags.data[i].node + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        d->first_tag.data[i] += d->first_tag.data[i - 1];
    for (uint32_t i = 0; i < g->tags.len; i++)
        d->tags.data[d->first_tag.data[g->tags.data[i].node + 1]++] = i;
    return true;
}

struct weighted {
    uint32_t edge;
    int64_t weight;
    const char *src, *dst;
};

static int compare_weighted(const void *a, const void *b)
{
    const struct weighted *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    int c = strcmp(x->src, y->src);
    if (c == 0)
        c = strcmp(x->dst, y->dst);
    return c ? c : (x->edge > y->edge) - (x->edge < y->edge);
}

/* All edges, the heaviest first: a hint to the layout. */
static bool add_edges(const struct dot *d)
{
    struct graph *g = d->g;
    VEC(struct weighted) all = {0};

    for (uint32_t i = 0; i < g->edges.len; i++) {
        const struct graph_edge *e = &g->edges.data[i];
        if (e->is_gone || d->number.data[e->src] == 0)
            continue;
        struct weighted w = {i, graph_abs(e->weight),
                             frames_name(g->frames, g->nodes.data[e->src].frame),
                             frames_name(g->frames, g->nodes.data[e->dst].frame)};
        if (!vec_push(g->budget, &all, w))
            break;
    }
    if (all.len > 1)
        qsort(all.data, all.len, sizeof(*all.data), compare_weighted);
    for (size_t i = 0; i < all.len; i++)
        add_edge(d, &g->edges.data[all.data[i].edge]);
    vec_done(g->budget, &all);
    return !budget_failed(g->budget);
}

static bool add_picture(struct dot *d)
{
    struct graph *g = d->g;
    double max_flat = 0;

    add_legend(d);
    if (!vec_resize(g->budget, &d->number, g->nodes.len) ||
        !vec_resize(g->budget, &d->has_tags, g->nodes.len) || !group_tags(d))
        return false;
    for (size_t i = 0; i < g->order.len; i++) {
        uint32_t n = g->order.data[i];
        d->number.data[n] = (uint32_t)i + 1;
        max_flat = fmax(max_flat, (double)graph_abs(graph_flat(&g->nodes.data[n])));
    }
    for (size_t i = 0; i < g->order.len; i++) {
        uint32_t n = g->order.data[i];
        add_node(d, n, max_flat);
        d->has_tags.data[n] = add_tags(d, n);
    }
    bool ok = add_edges(d);
    buf_add_str(d->out, "}\n");
    return ok;
}

static int compile_names(struct dot *d, struct error *err)
{
    int r = regex_new(BYTES("^(?:[\\w\\-\\.]+\\/)+([^.]+\\..+)"), &d->go_name, err);
    if (r == 0)
        r = regex_new(BYTES("^(?:[a-z]\\w*\\.)*([A-Z][\\w\\$]*\\.(?:<init>|[a-z][\\w\\$]*"
                            "(?:\\$\\d+)?))(?:(?:\\()|$)"),
                      &d->java_name, err);
    if (r == 0)
        r = regex_new(BYTES("^(?:[_a-zA-Z]\\w*::)+(_*[A-Z]\\w*::~?[_a-zA-Z]\\w*(?:<.*>)?)"),
                      &d->cpp_name, err);
    return r;
}

int report_dot(struct report *r)
{
    struct frames frames;
    struct graph g;
    struct dot d = {.r = r, .g = &g, .out = r->out};

    int rc = report_graph(r, &frames, &g);
    if (rc == 0)
        rc = compile_names(&d, r->err);
    if (rc == 0 && !add_picture(&d))
        rc = budget_error(g.budget, r->err);
    regex_free(d.go_name);
    regex_free(d.java_name);
    regex_free(d.cpp_name);
    vec_done(g.budget, &d.number);
    vec_done(g.budget, &d.has_tags);
    vec_done(g.budget, &d.tags);
    vec_done(g.budget, &d.first_tag);
    graph_done(&g);
    frames_done(&frames);
    return rc;
}
