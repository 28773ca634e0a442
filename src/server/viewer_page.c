#include "server/viewer_page.h"

#include <errno.h>

#include "base/cleanup.h"
#include "profile/measure.h"
#include "profile/sample_weight.h"
#include "query/flame_wire.h"
#include "query/time_range.h"
#include "server/web_assets.h"
#include "server/web_pages.h"
#include "wire/base64.h"
#include "wire/inflate.h"
#include "wire/json.h"

#define GZIP_LEVEL 9

/* One column of values with its names. */
struct column {
    const char *type, *unit;
    int64_t total;
};

static struct column column_of(const struct profile *p, uint32_t type,
                               const struct viewer_about *about)
{
    return (struct column){
        .type = about->type ? about->type : dict_cstr(p->dict, p->types[type].type),
        .unit = about->unit ? about->unit : dict_cstr(p->dict, p->types[type].unit),
        .total = profile_total(p, type),
    };
}

static void add_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_cstring(w, text);
}

static void add_number(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, key);
    json_i64(w, value);
}

static void add_side(struct json_writer *w, const char *key, int64_t total)
{
    json_key(w, key);
    json_begin_object(w);
    add_number(w, "total", total);
    json_end_object(w);
}

/* ---- The tree */

/* Members of the tree's header, as the server's answers have them. */
static void add_members(const struct profile *p, const struct flame_cut_options *o,
                        const struct viewer_about *about, struct json_writer *w)
{
    struct column c = column_of(p, o->type, about);
    double weight = profile_sample_weight(p, o->type);

    add_text(w, "type", c.type);
    add_text(w, "unit", c.unit);
    json_key(w, "types");
    json_begin_array(w);
    json_begin_object(w);
    add_text(w, "type", c.type);
    add_text(w, "unit", c.unit);
    json_end_object(w);
    json_end_array(w);
    add_number(w, "total", c.total);
    if (weight > 0) {
        json_key(w, "samples");
        json_u64(w, sample_count(c.total, weight));
    }
    if (o->compares) {
        json_key(w, "has_statistics");
        json_bool(w, about->significance && about->significance->is_known);
        add_side(w, "before", profile_total(p, o->base_type));
        add_side(w, "after", c.total);
    }
}

static void add_header(const struct profile *p, const struct flame_cut_options *o,
                       const struct viewer_about *about, const struct flame_cut *f, struct buf *out)
{
    struct json_writer w = {.out = out};

    if (about->members) {
        buf_add_str(out, about->members);
        w.needs_comma = true;
    } else {
        add_members(p, o, about, &w);
    }
    json_key(&w, "cut_nodes");
    json_u64(&w, f->n_cut);
    add_number(&w, "cut", f->cut);
    json_key(&w, "max_depth");
    json_u64(&w, f->max_depth);
}

/* A mark for each node, in the order of the tree: its change is more than chance. */
struct marks {
    struct budget *budget;
    VEC(bool) is_sure;
};

static void marks_done(struct marks *m)
{
    vec_done(m->budget, &m->is_sure);
}

static int mark_changes(const struct flame_cut *f, const struct significance *significance,
                        struct marks *m, struct error *err)
{
    const uint32_t *order = f->levels.order.data;

    if (!significance || !significance->is_known || f->base.total.len == 0)
        return 0;
    if (!vec_resize(m->budget, &m->is_sure, f->levels.order.len))
        return budget_error(m->budget, err);
    for (size_t i = 0; i < m->is_sure.len; i++) {
        int64_t value[] = {f->base.total.data[order[i]], f->tree.total.data[order[i]]};
        m->is_sure.data[i] = is_significant(significance, value);
    }
    return 0;
}

static int make_tree(const struct profile *p, const struct flame_cut_options *o,
                     const struct viewer_about *about, struct buf *out, struct error *err)
{
    CLEANUP(flame_cut_done) struct flame_cut f = {0};
    CLEANUP(marks_done) struct marks marks = {.budget = p->dict->budget};
    CLEANUP(buf_done) struct buf header = {0};
    struct flame_cut_options whole = *o;

    whole.max_nodes = VIEWER_NODES_MAX;
    whole.is_level_order = true;
    int r = flame_cut_build(p, &whole, &f, err);
    if (r == 0)
        r = mark_changes(&f, about->significance, &marks, err);
    if (r < 0)
        return r;
    add_header(p, o, about, &f, &header);
    struct flame_wire_options wire = {.members = buf_bytes(&header), .is_sure = marks.is_sure.data};
    return flame_wire_write(&f, &wire, out, err);
}

/* ---- The page */

static void add_about(const struct viewer_about *about, struct column c, const char *date,
                      struct buf *out)
{
    CLEANUP(buf_done) struct buf json = {0};
    struct json_writer w = {.out = &json};

    json_begin_object(&w);
    add_text(&w, "title", about->title);
    add_text(&w, "selection", about->selection ? about->selection : "");
    add_number(&w, "total", c.total);
    add_text(&w, "unit", c.unit);
    add_text(&w, "type", c.type);
    add_text(&w, "date", date);
    add_text(&w, "version", VESTA_VERSION);
    json_end_object(&w);
    buf_add_str(out, "<script type=\"application/json\" id=\"about\">");
    web_add_json(buf_bytes(&json), out);
    buf_add_str(out, "</script>\n");
}

/* What search engines and the like show of it: "cpu{...}: 12.5s of cpu, 2026-03-01T12:00:00Z". */
static void add_description(const struct viewer_about *about, struct column c, const char *date,
                            struct buf *out)
{
    char total[MEASURE_TEXT_MAX];

    measure_label(c.total, c.unit, "auto", total);
    buf_add_str(out, "<meta name=\"description\" content=\"");
    web_escape(bytes_of(about->selection ? about->selection : about->title), out);
    buf_add_str(out, ": ");
    web_escape(bytes_of(total), out);
    buf_add_str(out, " of ");
    web_escape(bytes_of(c.type), out);
    buf_addf(out, "%s%s\">\n", date[0] ? ", " : "", date);
}

static void add_head(const struct viewer_about *about, struct column c, const char *date,
                     struct buf *out)
{
    buf_add_str(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    /* It loads nothing and sends nothing; its own script and style are known by what is in them. */
    buf_addf(out,
             "<meta http-equiv=\"content-security-policy\" content=\"default-src 'none'; "
             "script-src '%s'; style-src '%s'; img-src data: blob:; base-uri 'none'; "
             "form-action 'none'\">\n",
             web_viewer.script_hash, web_viewer.style_hash);
    buf_add_str(out, "<title>");
    web_escape(bytes_of(about->title), out);
    buf_add_str(out, "</title>\n");
    add_description(about, c, date, out);
    buf_add_str(out, "<meta name=\"generator\" content=\"Vesta " VESTA_VERSION "\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta name=\"color-scheme\" content=\"light dark\">\n<style>");
    buf_add_bytes(out, web_viewer.style);
    buf_add_str(out, "</style>\n</head>\n");
}

static void add_body(struct bytes packed_tree, struct buf *out)
{
    buf_add_str(out, "<script type=\"application/octet-stream;base64\" id=\"profile\">");
    base64_encode(packed_tree, true, out);
    buf_add_str(out, "</script>\n<script>");
    buf_add_bytes(out, web_viewer.script);
    buf_add_str(out, "</script>\n</body>\n</html>\n");
}

int viewer_page_write(const struct profile *p, const struct flame_cut_options *o,
                      const struct viewer_about *about, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf tree = {.budget = out->budget};
    CLEANUP(buf_done) struct buf packed = {.budget = out->budget};
    char date[TIME_TEXT_MAX] = "";

    if (web_viewer.script.len == 0)
        return error_set(err, -ENOSYS,
                         "this build has no viewer for HTML files (-Dweb=disabled); .svg works");
    int r = make_tree(p, o, about, &tree, err);
    if (r < 0)
        return r;
    gzip_pack(buf_bytes(&tree), GZIP_LEVEL, &packed);
    if (buf_full(&tree) || buf_full(&packed))
        return buf_error(&packed, err);
    struct column c = column_of(p, o->type, about);
    if (about->time_ns > 0)
        time_text(about->time_ns, date);
    add_head(about, c, date, out);
    buf_add_str(out, "<body>\n<div id=\"app\"></div>\n<noscript>This profile is drawn by a script "
                     "in this file; nothing is sent or loaded.</noscript>\n");
    add_about(about, c, date, out);
    add_body(buf_bytes(&packed), out);
    return buf_full(out) ? buf_error(out, err) : 0;
}
