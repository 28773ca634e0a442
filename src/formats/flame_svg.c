#include "formats/flame_svg.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "formats/formats.h"
#include "profile/measure.h"
#include "profile/tree.h"
#include "wire/json.h"

extern const char flame_svg_js[], flame_svg_css[];
extern const size_t flame_svg_js_len, flame_svg_css_len;

#define ROW_PX          19
#define TOP_PX          76
#define HUES            24
#define LABEL_BYTES_MAX 512    /* what the widest screen shows of a name */
#define STATIC_SHARE    0.0008 /* narrower frames wait for the script */
#define LABEL_SHARE     0.02

/* One frame to draw, in depth-first order: its subtree follows it. */
struct box {
    uint32_t node;
    uint32_t depth;
    uint32_t name, file; /* indexes of the picture's own tables */
    double start;        /* left edge, in values */
};

struct picture {
    const struct flame_options *o;
    const struct profile *p;
    struct budget *budget;
    struct tree tree;
    VEC(int64_t) width;    /* per tree node: total, or the sum of both sides */
    VEC(int64_t) self;     /* per tree node: the same of its own value */
    VEC(int64_t) old_self; /* per tree node, when comparing */
    VEC(int64_t) old_total;
    VEC(struct box) boxes;
    VEC(uint32_t) name_of; /* per frame: index into names + 1, or 0 */
    VEC(uint32_t) names;   /* frame ids */
    VEC(uint32_t) file_of; /* per string: index into files + 1 */
    VEC(uint32_t) files;   /* string ids; the first is "" */
    size_t cut_frames;
    int64_t cut_weight;
};

static void picture_done(struct picture *f)
{
    vec_done(f->budget, &f->width);
    vec_done(f->budget, &f->self);
    vec_done(f->budget, &f->old_self);
    vec_done(f->budget, &f->old_total);
    vec_done(f->budget, &f->boxes);
    vec_done(f->budget, &f->name_of);
    vec_done(f->budget, &f->names);
    vec_done(f->budget, &f->file_of);
    vec_done(f->budget, &f->files);
    tree_done(&f->tree);
}

static int64_t magnitude(int64_t v)
{
    return v == INT64_MIN ? INT64_MAX : v < 0 ? -v : v;
}

/* Adds what is not negative; past the largest number it stays there. */
static void add_width(int64_t *to, int64_t v)
{
    if (__builtin_add_overflow(*to, v, to))
        *to = INT64_MAX;
}

/* Widths must add up: a frame is as wide as the magnitudes of all samples below it. */
static bool add_widths(struct picture *f, const struct tree *base)
{
    size_t n = tree_len(&f->tree);

    if (!vec_resize(f->budget, &f->width, n) || !vec_resize(f->budget, &f->self, n) ||
        (base &&
         (!vec_resize(f->budget, &f->old_self, n) || !vec_resize(f->budget, &f->old_total, n))))
        return false;
    for (size_t i = 0; i < n; i++) {
        f->self.data[i] = magnitude(f->tree.self.data[i]);
        if (base) {
            f->old_self.data[i] = magnitude(base->self.data[i]);
            f->old_total.data[i] = f->old_self.data[i];
            add_width(&f->self.data[i], f->old_self.data[i]);
        }
        f->width.data[i] = f->self.data[i];
    }
    for (size_t i = n; i-- > 1;) {
        add_width(&f->width.data[f->tree.parent.data[i]], f->width.data[i]);
        if (base)
            add_width(&f->old_total.data[f->tree.parent.data[i]], f->old_total.data[i]);
    }
    return true;
}

static int compare_i64_down(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The width below which frames are left out, so that at most FLAME_FRAMES_MAX stay. */
static bool find_cut(struct picture *f, int64_t *ret)
{
    size_t n = f->width.len;
    VEC(int64_t) sorted = {0};

    *ret = 1;
    if (n <= FLAME_FRAMES_MAX)
        return true;
    if (!vec_append(f->budget, &sorted, f->width.data, n))
        return false;
    qsort(sorted.data, n, sizeof(int64_t), compare_i64_down);
    *ret = sorted.data[FLAME_FRAMES_MAX];
    add_width(ret, 1);
    vec_done(f->budget, &sorted);
    return true;
}

static uint32_t name_index(struct picture *f, uint32_t node)
{
    uint32_t frame = f->tree.frame.data[node];

    if (f->name_of.data[frame] == 0 && vec_push(f->budget, &f->names, frame))
        f->name_of.data[frame] = (uint32_t)f->names.len;
    return f->name_of.data[frame] ? f->name_of.data[frame] - 1 : 0;
}

static uint32_t file_index(struct picture *f, uint32_t node)
{
    uint32_t file = node == 0 ? 0 : f->tree.frames.all.data[f->tree.frame.data[node]].file;

    if (f->file_of.data[file] == 0 && vec_push(f->budget, &f->files, file))
        f->file_of.data[file] = (uint32_t)f->files.len;
    return f->file_of.data[file] ? f->file_of.data[file] - 1 : 0;
}

/* Boxes in depth-first order, walking the sibling lists; no recursion. */
static bool place_boxes(struct picture *f)
{
    const struct tree *t = &f->tree;
    int64_t cut;
    VEC(double) used = {0}; /* per depth: right edge of what was placed */

    if (!find_cut(f, &cut) || !vec_resize(f->budget, &used, t->max_depth + 2u) ||
        !vec_resize(f->budget, &f->name_of, t->frames.all.len + 1) ||
        !vec_resize(f->budget, &f->file_of, t->frames.dict->strings.len))
        return false;
    vec_push(f->budget, &f->files, 0);
    f->file_of.data[0] = 1;
    uint32_t node = 0, depth = 0;
    for (;;) {
        int64_t width = f->width.data[node];
        bool keep = node == 0 || width >= cut;
        if (keep) {
            double start = node == 0 ? 0 : used.data[depth];
            if (!vec_push(
                    f->budget, &f->boxes,
                    (struct box){node, depth, name_index(f, node), file_index(f, node), start}))
                break;
            used.data[depth + 1] = start;
            used.data[depth] = start + (double)width;
        } else if (width > 0) {
            f->cut_frames++;
            add_width(&f->cut_weight, f->width.data[node]);
        }
        if (keep && t->first_child.data[node]) {
            node = t->first_child.data[node];
            depth++;
            continue;
        }
        while (node != 0 && !t->next_sibling.data[node]) {
            node = t->parent.data[node];
            depth--;
        }
        if (node == 0)
            break;
        node = t->next_sibling.data[node];
    }
    vec_done(f->budget, &used);
    return !budget_failed(f->budget);
}

/* What colours a frame: its kind where that matters, else its package. */
static unsigned hue_of(struct picture *f, uint32_t frame, const char **ret_class)
{
    static const struct frame none;
    const struct frame *fr = frame ? &f->tree.frames.all.data[frame] : &none;
    const struct dict *d = f->tree.frames.dict;
    struct bytes name = dict_text(d, fr->name);
    const char *type = dict_cstr(d, fr->type);

    *ret_class = NULL;
    if (strcmp(type, "kernel") == 0)
        *ret_class = "kernel";
    else if (bytes_start_with(name, BYTES("runtime.")) ||
             bytes_start_with(name, BYTES("(garbage collector)")))
        *ret_class = "runtime";
    else if (!name.len || bytes_are(name, "[unknown]"))
        *ret_class = "unknown";
    struct bytes package = frames_package(name);
    if (package.len == 0)
        package = dict_text(d, fr->file);
    /* Not hash_bytes(): pictures of one profile must be equal from run to run. */
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < package.len; i++)
        h = (h ^ package.data[i]) * 16777619u;
    return (h ^ h >> 15) % HUES;
}

static void add_escaped(struct buf *out, struct bytes text)
{
    struct buf json = {0};
    struct json_writer w = {.out = &json};

    /* The JSON writer makes valid UTF-8 of anything; take its text between the quotes. */
    json_string(&w, text);
    for (size_t i = 1; i + 1 < json.len; i++) {
        uint8_t c = json.data[i];
        if (c == '&')
            buf_add_str(out, "&amp;");
        else if (c == '<')
            buf_add_str(out, "&lt;");
        else if (c == '>')
            buf_add_str(out, "&gt;");
        else if (c == '\\' && json.data[i + 1] == 'u') /* a control character: XML has none */
            buf_add_str(out, "\xef\xbf\xbd"), i += 5;
        else if (c == '\\')
            i++, buf_add_str(out, json.data[i] == '"'    ? "&quot;"
                                  : json.data[i] == '\\' ? "\\"
                                                         : " ");
        else
            buf_add_byte(out, c);
    }
    buf_done(&json);
}

/* A JSON string that may stand inside CDATA. */
static void add_script_string(struct buf *out, struct bytes text)
{
    struct buf json = {0};
    struct json_writer w = {.out = &json};

    json_string(&w, text);
    for (size_t i = 0; i < json.len; i++) {
        uint8_t c = json.data[i];
        if (c == '<' || c == '>' || c == '&')
            buf_addf(out, "\\u%04x", c);
        else
            buf_add_byte(out, c);
    }
    buf_done(&json);
}

static uint8_t to_srgb(double v)
{
    v = v <= 0 ? 0 : v >= 1 ? 1 : v;
    v = v <= 0.0031308 ? 12.92 * v : 1.055 * pow(v, 1 / 2.4) - 0.055;
    return (uint8_t)(v * 255 + 0.5);
}

/* OKLCH, which keeps one lightness over all hues, as the #rrggbb that every viewer knows. */
static void add_oklch(struct buf *out, double lightness, double chroma, double degrees)
{
    double a = chroma * cos(degrees * M_PI / 180), b = chroma * sin(degrees * M_PI / 180);
    double l = lightness + 0.3963377774 * a + 0.2158037573 * b;
    double m = lightness - 0.1055613458 * a - 0.0638541728 * b;
    double s = lightness - 0.0894841775 * a - 1.2914855480 * b;

    l = l * l * l, m = m * m * m, s = s * s * s;
    buf_addf(out, "#%02x%02x%02x", to_srgb(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
             to_srgb(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
             to_srgb(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s));
}

static void add_color(struct buf *out, const char *name, double lightness, double chroma,
                      double hue)
{
    buf_addf(out, ".%s{fill:", name);
    add_oklch(out, lightness, chroma, hue);
    buf_add_str(out, "}");
}

/* The palette for one theme: hues for packages, fixed colours for kinds, steps for changes. */
static void add_palette(struct buf *out, double lightness, double chroma)
{
    char name[16];

    for (unsigned h = 0; h < HUES; h++) {
        snprintf(name, sizeof(name), "h%u", h);
        add_color(out, name, lightness, chroma, 20.0 + h * 360.0 / HUES);
    }
    add_color(out, "kernel", lightness - 0.06, chroma * 0.8, 255);
    add_color(out, "runtime", lightness - 0.04, chroma * 0.8, 305);
    add_color(out, "unknown", lightness, 0.004, 0);
    add_color(out, "d0", lightness + 0.04, 0.004, 0);
    for (int step = 1; step <= 4; step++) {
        snprintf(name, sizeof(name), "more%d", step);
        add_color(out, name, lightness + 0.05 - 0.035 * step, 0.035 * step, 55);
        snprintf(name, sizeof(name), "less%d", step);
        add_color(out, name, lightness + 0.05 - 0.035 * step, 0.035 * step, 257);
    }
}

static void add_style(struct buf *out)
{
    buf_add_str(out, "<style>");
    buf_add(out, flame_svg_css, flame_svg_css_len);
    add_palette(out, 0.83, 0.075);
    buf_add_str(out, "@media (prefers-color-scheme:dark){");
    add_palette(out, 0.46, 0.07);
    buf_add_str(out, "}</style>\n");
}

static const char *class_of(struct picture *f, uint32_t frame, char text[16])
{
    const char *fixed;
    unsigned hue = hue_of(f, frame, &fixed);

    snprintf(text, 16, "h%u", hue);
    return fixed ? fixed : text;
}

/* The change of a box, in the class names of the palette; the script does the same sum. */
static const char *change_class(int64_t width, int64_t old, char text[16])
{
    double change = width ? ((double)width - 2.0 * (double)old) / (double)width : 0;
    int step = (int)ceil(fabs(change) * 8);

    if (fabs(change) < 0.02)
        return "d0";
    snprintf(text, 16, "%s%d", change > 0 ? "more" : "less", step > 4 ? 4 : step);
    return text;
}

/* The picture that needs no script: nested svg elements clip their labels and scale by percent. */
static void add_static_boxes(struct buf *out, struct picture *f)
{
    double whole = (double)f->width.data[0];
    char text[16];

    for (size_t i = 0; i < f->boxes.len && !buf_full(out); i++) {
        const struct box *b = &f->boxes.data[i];
        double width = (double)f->width.data[b->node];
        uint32_t frame = f->tree.frame.data[b->node];
        if (whole <= 0 || width / whole < STATIC_SHARE)
            continue;
        buf_addf(out,
                 "<svg x=\"%.4f%%\" y=\"%u\" width=\"%.4f%%\" height=\"%d\"><rect width=\"100%%\" "
                 "height=\"%d\" class=\"%s\"/>",
                 100 * b->start / whole, TOP_PX + b->depth * ROW_PX, 100 * width / whole, ROW_PX,
                 ROW_PX - 1,
                 f->old_total.len
                     ? change_class(f->width.data[b->node], f->old_total.data[b->node], text)
                     : class_of(f, frame, text));
        if (width / whole >= LABEL_SHARE) {
            buf_add_str(out, "<text x=\"3\" y=\"13\">");
            add_escaped(out, bytes_head(bytes_of(tree_name(&f->tree, b->node)), LABEL_BYTES_MAX));
            buf_add_str(out, "</text>");
        }
        buf_add_str(out, "</svg>\n");
    }
}

/* The columns of the script's table. */
static int64_t cell(const struct picture *f, const struct box *b, size_t column)
{
    switch (column) {
    case 0:
        return b->depth;
    case 1:
        return b->name;
    case 2:
        return b->file;
    case 3:
        return f->self.data[b->node];
    default:
        return f->old_self.data[b->node];
    }
}

static void add_script_data(struct buf *out, struct picture *f)
{
    const struct dict *d = f->p->dict;
    char text[16];

    buf_add_str(out, "var data={unit:");
    add_script_string(out, dict_text(d, f->p->types[f->o->type].unit));
    buf_add_str(out, ",names:[");
    for (size_t i = 0; i < f->names.len; i++) {
        buf_add_str(out, i ? "," : "");
        add_script_string(
            out,
            bytes_of(f->names.data[i] ? frames_name(&f->tree.frames, f->names.data[i]) : "root"));
    }
    buf_add_str(out, "],classes:[");
    for (size_t i = 0; i < f->names.len; i++)
        buf_addf(out, "%s\"%s\"", i ? "," : "", class_of(f, f->names.data[i], text));
    buf_add_str(out, "],files:[");
    for (size_t i = 0; i < f->files.len; i++) {
        buf_add_str(out, i ? "," : "");
        add_script_string(out, dict_text(d, f->files.data[i]));
    }
    static const char *const columns[] = {"depth", "name", "file", "self", "old"};
    for (size_t c = 0; c < (f->old_self.len ? 5 : 4); c++) {
        buf_addf(out, "],%s:[", columns[c]);
        for (size_t i = 0; i < f->boxes.len; i++) {
            buf_add_str(out, i ? "," : "");
            buf_add_i64(out, cell(f, &f->boxes.data[i], c));
        }
    }
    buf_add_str(out, "]};\n");
}

static void add_heading(struct buf *out, struct picture *f)
{
    const struct profile *p = f->p;
    const struct dict *d = p->dict;
    const char *type = dict_cstr(d, p->types[f->o->type].type);
    const char *unit = dict_cstr(d, p->types[f->o->type].unit);
    char total[MEASURE_TEXT_MAX], date[64] = "";
    time_t seconds = (time_t)(p->time_unix_ns / 1000000000);
    struct tm tm;

    measure_label(f->tree.total.data[0], unit, "auto", total);
    if (p->time_unix_ns && gmtime_r(&seconds, &tm))
        strftime(date, sizeof(date), ", taken %F %T UTC", &tm);
    buf_add_str(out, "<text class=\"title\" x=\"10\" y=\"24\">");
    add_escaped(out, bytes_of(f->o->title ? f->o->title : "Flame graph"));
    buf_add_str(out, "</text><text class=\"quiet\" x=\"10\" y=\"42\">");
    add_escaped(out, bytes_of(type));
    buf_addf(out, " in %s, total %s%s", unit, total, date);
    buf_add_str(out, f->o->invert ? ", inverted: callees above their callers" : "");
    if (f->cut_frames)
        buf_addf(out, "; %zu frames under %.3f %% each are left out", f->cut_frames,
                 f->width.data[0] ? 100.0 * (double)f->cut_weight / (double)f->cut_frames /
                                        (double)f->width.data[0]
                                  : 0);
    buf_add_str(out, "</text><text class=\"quiet\" id=\"details\" x=\"10\" y=\"62\"> </text>"
                     "<text id=\"matched\" x=\"100%\" y=\"62\"> </text>");
}

static void add_document(struct buf *out, struct picture *f)
{
    unsigned height = TOP_PX + (f->tree.max_depth + 1) * ROW_PX + 32;

    buf_addf(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
        "width=\"100%%\" height=\"%u\" role=\"img\" aria-label=\"flame graph\">\n",
        height);
    add_style(out);
    add_heading(out, f);
    buf_addf(out, "<text id=\"reset\" x=\"10\" y=\"%u\">zoom out (Esc)</text>", height - 10);
    buf_addf(out, "<text class=\"quiet\" id=\"hidden\" x=\"120\" y=\"%u\"> </text>\n", height - 10);
    buf_add_str(out, "<g id=\"frames\">\n");
    add_static_boxes(out, f);
    buf_add_str(out, "</g>\n<script><![CDATA[\n");
    add_script_data(out, f);
    buf_add(out, flame_svg_js, flame_svg_js_len);
    buf_add_str(out, "]]></script>\n</svg>\n");
}

int flame_svg(const struct profile *p, const struct flame_options *o, struct buf *out,
              struct error *err)
{
    CLEANUP(picture_done) struct picture f = {.o = o, .p = p, .budget = p->dict->budget};
    CLEANUP(tree_done) struct tree base = {0};
    bool compare = o->base_type >= 0;

    int r = tree_build(p, o->type, o->frames, &f.tree, err);
    if (r == 0 && compare)
        r = tree_build(p, (uint32_t)o->base_type, o->frames, &base, err);
    if (r == 0 && o->invert)
        r = compare ? tree_invert_both(&f.tree, &base, err) : tree_invert(&f.tree, err);
    if (r < 0)
        return r;
    if (!add_widths(&f, compare ? &base : NULL) || !place_boxes(&f))
        return budget_error(f.budget, err);
    add_document(out, &f);
    return 0;
}

static int svg_encode(const struct profile_set *set, struct buf *out, struct buf *losses,
                      struct error *err)
{
    const struct profile *p = set->profiles.len ? set->profiles.data[0] : NULL;

    if (!p || p->n_types == 0)
        return error_set(err, -ENODATA, "there is nothing to draw");
    buf_add_str(losses, "everything but one sample type: a picture is not a profile\n");
    return flame_svg(p,
                     &(struct flame_options){
                         .type = profile_default_index(p),
                         .base_type = -1,
                         .frames = {.granularity = GRANULARITY_FUNCTIONS, .name_unknown = true},
                     },
                     out, err);
}

const struct format format_svg = {
    .name = "svg",
    .title = "interactive flame graph",
    .extension = ".svg",
    .encode = svg_encode,
};
