#include <errno.h>
#include <math.h>

#include "query/flame_cut.h"
#include "query/significance.h"
#include "server/api_mask.h"
#include "server/api_merged.h"
#include "server/server_internal.h"
#include "server/viewer_page.h"

/* Two selections compared: as a tree, and function by function. */
struct sides {
    struct query query[2]; /* before, after */
    struct selector *selector[2];
    struct merged_pair pair;
    struct frame_options frames;
    struct significance significance;
};

static void sides_done(struct sides *s)
{
    merged_pair_done(&s->pair);
    selector_free(s->selector[0]);
    selector_free(s->selector[1]);
}

static int merge_sides(struct api_query *q, struct sides *s, struct error *err)
{
    int r = api_frames(q, &s->frames, err);
    if (r == 0)
        r = api_side(q, "before_", &s->query[0], &s->selector[0], err);
    if (r == 0)
        r = api_side(q, "after_", &s->query[1], &s->selector[1], err);
    if (r == 0)
        r = query_pair(&s->query[0], &s->query[1], &s->pair, err);
    return query_explain(&s->query[1], r, err);
}

static void write_side(const struct sides *s, int side, const uint32_t type[2],
                       struct json_writer *w)
{
    const struct profile *p = side == 0 ? s->pair.before : s->pair.after;
    const struct query *q = &s->query[side];

    json_key(w, side == 0 ? "before" : "after");
    json_begin_object(w);
    json_key(w, "query");
    json_string(w, q->selector->text);
    json_key(w, "from_ns");
    json_i64_string(w, q->from_ns);
    json_key(w, "until_ns");
    json_i64_string(w, q->to_ns);
    api_type_members(p, type[side], w);
    json_key(w, "total");
    json_i64(w, profile_total(p, type[side]));
    api_size_members(p, type[side], s->pair.n_profiles[side], w);
    json_end_object(w);
}

static void write_head(struct api_query *q, struct sides *s, const uint32_t type[2],
                       struct json_writer *w)
{
    s->significance = significance_of(&s->pair, type);
    json_key(w, "has_statistics");
    json_bool(w, s->significance.is_known);

    api_type_members(s->pair.after, type[1], w);
    json_key(w, "total");
    json_i64(w, profile_total(s->pair.after, type[1]));
    write_side(s, 0, type, w);
    write_side(s, 1, type, w);
    if (q->trouble.text[0]) {
        json_key(w, "incomplete");
        json_cstring(w, q->trouble.text);
    }
}

/* ---- As a tree */

static void write_nodes(const struct significance *significance, struct flame_cut *f,
                        struct sheet *s)
{
    struct api_frame_table frames;
    api_frame_table_init(&frames, &f->tree.frames, s);
    sheet_table(s, "nodes", SHEET_COLUMNS);
    struct sheet_column *parent = sheet_column(s, "parent", COLUMN_U32);
    struct sheet_column *frame = sheet_column(s, "frame", COLUMN_U32);
    struct sheet_column *before_self = sheet_column(s, "before_self", COLUMN_I64);
    struct sheet_column *before = sheet_column(s, "before_total", COLUMN_I64);
    struct sheet_column *after_self = sheet_column(s, "after_self", COLUMN_I64);
    struct sheet_column *after = sheet_column(s, "after_total", COLUMN_I64);
    struct sheet_column *n_hidden = sheet_column(s, "hidden_children", COLUMN_U32);
    struct sheet_column *sure =
        significance->is_known ? sheet_column(s, "significant", COLUMN_U32) : NULL;
    for (size_t i = 0; i < f->nodes.len; i++) {
        const struct flame_cut_node *n = &f->nodes.data[i];
        sheet_u32(parent, n->parent);
        sheet_u32(frame, api_frame_row(&frames, f->tree.frame.data[n->tree_node]));
        sheet_i64(before_self, n->base_self);
        sheet_i64(before, n->base_total);
        sheet_i64(after_self, n->self);
        sheet_i64(after, n->total);
        sheet_u32(n_hidden, n->n_hidden);
        if (sure)
            sheet_u32(sure, is_significant(significance, (int64_t[]){n->base_total, n->total}));
    }
    api_frame_table_done(&frames);
}

/* The compact form, with a bit for each node whose change is significant. */
static int reply_compact(struct api_query *q, const struct significance *significance,
                         struct flame_cut *f, struct sheet *s, struct error *err)
{
    const uint32_t *order = f->levels.order.data;
    VEC(bool) sure = {0};
    int r = 0;

    if (significance->is_known && !vec_resize(s->budget, &sure, f->levels.order.len))
        r = budget_error(s->budget, err);
    for (size_t i = 0; r == 0 && i < sure.len; i++) {
        int64_t value[] = {f->base.total.data[order[i]], f->tree.total.data[order[i]]};
        sure.data[i] = is_significant(significance, value);
    }
    if (r == 0)
        r = api_reply_tree(q, s, f, &(struct flame_wire_options){.is_sure = sure.data}, err);
    vec_done(s->budget, &sure);
    return r;
}

static int reply_tree(struct api_query *q, struct sides *sides, struct flame_cut *f,
                      struct error *err)
{
    struct sheet s;
    uint32_t type[2];
    int r = query_pair_types(&sides->pair, NULL, type, err);
    sheet_init(&s, &q->call->budget);
    if (r == 0)
        write_head(q, sides, type, &s.head);
    json_key(&s.head, "cut_nodes");
    json_u64(&s.head, f->n_cut);
    json_key(&s.head, "cut");
    json_i64(&s.head, f->cut);
    json_key(&s.head, "max_depth");
    json_u64(&s.head, f->max_depth);
    if (q->format != API_TREE)
        write_nodes(&sides->significance, f, &s);
    if (r == 0 && q->format == API_TREE)
        r = reply_compact(q, &sides->significance, f, &s, err);
    else if (r == 0)
        r = budget_failed(s.budget) ? budget_error(s.budget, err) : api_reply_sheet(q, &s, err);
    sheet_done(&s);
    return r;
}

static int run_tree(struct api_query *q, struct error *err)
{
    CLEANUP(sides_done) struct sides s = {0};
    struct profile *both = NULL;
    const char *under[API_PARAMS_MAX];
    struct flame_cut_options o = {.type = 1, .compares = true, .base_type = 0};
    struct flame_cut f = {0};

    int r = api_cut(q, under, &o, err);
    if (r == 0)
        r = merge_sides(q, &s, err);
    if (r == 0)
        r = query_pair_join(&s.pair, NULL, &both, err);
    if (r < 0)
        return r;
    o.frames = s.frames;
    r = flame_cut_build(both, &o, &f, err);
    if (r == -ENOENT)
        r = error_prefix(err, r, "under");
    if (r == 0)
        r = reply_tree(q, &s, &f, err);
    flame_cut_done(&f);
    return r;
}

/* ---- As a page */

/* The sides' own words: "cpu{version="2"} after cpu{version="1"}". */
static void name_sides(const struct api_query *q, const struct sides *s, struct buf *out)
{
    if (q->call->file) { /* whose name stays where it is */
        buf_add_str(out, "two profiles");
        return;
    }
    buf_add_bytes(out, s->query[1].selector->text);
    buf_add_str(out, " compared with ");
    buf_add_bytes(out, s->query[0].selector->text);
}

static int make_page(struct api_query *q, struct sides *s, const struct flame_cut_options *o,
                     struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf selection = {.budget = &q->call->budget};
    CLEANUP(buf_done) struct buf members = {.budget = &q->call->budget};
    struct json_writer w = {.out = &members};
    struct profile *both = NULL;
    uint32_t type[2];
    const char *title = api_text(q, "title");

    int r = query_pair_types(&s->pair, NULL, type, err);
    if (r == 0)
        r = query_pair_join(&s->pair, NULL, &both, err);
    if (r < 0)
        return r;
    write_head(q, s, type, &w);
    name_sides(q, s, &selection);
    const struct profile *after = s->pair.after;
    struct viewer_about about = {
        .title = title ? title : "What changed",
        .selection = buf_cstr(&selection),
        .time_ns = s->query[1].from_ns,
        .type = dict_cstr(after->dict, after->types[type[1]].type),
        .unit = dict_cstr(after->dict, after->types[type[1]].unit),
        .members = buf_cstr(&members),
        .significance = &s->significance,
    };
    return viewer_page_write(both, o, &about, out, err);
}

static int run_page(struct api_query *q, struct error *err)
{
    CLEANUP(sides_done) struct sides s = {0};
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    struct flame_cut_options o = {.type = 1, .compares = true, .base_type = 0};

    int r = api_flag(q, "invert", &o.invert, err);
    if (r == 0)
        r = merge_sides(q, &s, err);
    if (r == 0)
        r = api_mask(q->call->server->mask, s.pair.before, err);
    if (r == 0)
        r = api_mask(q->call->server->mask, s.pair.after, err);
    if (r < 0)
        return r;
    o.frames = s.frames;
    r = make_page(q, &s, &o, &out, err);
    if (r == 0)
        api_reply_file(q, "diff.html", "text/html; charset=utf-8", &out);
    return r;
}

/* ---- Function by function */

#define ROWS     100
#define ROWS_MAX 1000000

struct change_columns {
    struct sheet_column *before, *after, *change, *share, *ratio;
    struct sheet_column *sure; /* NULL: there are no statistics */
};

static struct change_columns add_columns(struct sheet *s, bool is_flat, bool has_statistics)
{
    const char *sure = is_flat ? "flat_significant" : "cum_significant";

    return (struct change_columns){
        .before = sheet_column(s, is_flat ? "before_flat" : "before_cum", COLUMN_I64),
        .after = sheet_column(s, is_flat ? "after_flat" : "after_cum", COLUMN_I64),
        .change = sheet_column(s, is_flat ? "flat_change" : "cum_change", COLUMN_I64),
        .share = sheet_column(s, is_flat ? "flat_share_change" : "cum_share_change", COLUMN_F64),
        .ratio = sheet_column(s, is_flat ? "flat_ratio" : "cum_ratio", COLUMN_F64),
        .sure = has_statistics ? sheet_column(s, sure, COLUMN_U32) : NULL,
    };
}

static void add_change(const struct change_columns *c, const struct difference *d,
                       const struct significance *significance, const int64_t value[2])
{
    struct change change = difference_change(d, value);
    sheet_i64(c->before, value[0]);
    sheet_i64(c->after, value[1]);
    sheet_i64(c->change, change.absolute);
    sheet_f64(c->share, change.share);
    sheet_f64(c->ratio, change.ratio);
    if (c->sure)
        sheet_u32(c->sure, is_significant(significance, value));
}

static void write_rows(const struct difference *d, const struct significance *significance,
                       size_t limit, struct sheet *s)
{
    sheet_table(s, "rows", SHEET_ROWS);
    struct sheet_column *name = sheet_column(s, "name", COLUMN_TEXT);
    struct sheet_column *file = sheet_column(s, "file", COLUMN_TEXT);
    struct change_columns flat = add_columns(s, true, significance->is_known);
    struct change_columns cum = add_columns(s, false, significance->is_known);
    for (size_t i = 0; i < d->rows.len && i < limit; i++) {
        const struct difference_row *row = &d->rows.data[i];
        sheet_text(name, dict_text(d->dict, row->name));
        sheet_text(file, dict_text(d->dict, row->file));
        add_change(&flat, d, significance, row->flat);
        add_change(&cum, d, significance, row->cum);
    }
}

static int read_table(struct api_query *q, struct difference_options *ret, struct error *err)
{
    static const char *const orders[] = {[DIFFERENCE_BY_CHANGE] = "change",
                                         [DIFFERENCE_BY_SHARE] = "share",
                                         [DIFFERENCE_BY_RATIO] = "ratio",
                                         [DIFFERENCE_BY_NAME] = "name"};
    static const char *const sides[] = {
        [DIFFERENCE_ONLY_BEFORE] = "before", [DIFFERENCE_ONLY_AFTER] = "after"};
    size_t order, only;

    int r = api_choice(q, "order", API_NAMES(orders), DIFFERENCE_BY_CHANGE, &order, err);
    if (r == 0)
        r = api_choice(q, "only", API_NAMES(sides), DIFFERENCE_ALL, &only, err);
    if (r == 0)
        *ret = (struct difference_options){.order = (enum difference_order)order,
                                           .only = (enum difference_only)only};
    return r;
}

static int run_table(struct api_query *q, struct error *err)
{
    CLEANUP(sides_done) struct sides sides = {0};
    CLEANUP(difference_done) struct difference d = {0};
    struct difference_options o;
    struct sheet s;
    uint64_t limit;

    int r = api_number(q, "limit", ROWS_MAX, ROWS, &limit, err);
    if (r == 0)
        r = read_table(q, &o, err);
    if (r == 0)
        r = merge_sides(q, &sides, err);
    if (r < 0)
        return r;
    o.frames = sides.frames;
    r = query_difference(&sides.pair, &o, &d, err);
    if (r < 0)
        return r;
    sheet_init(&s, &q->call->budget);
    write_head(q, &sides, d.type, &s.head);
    json_key(&s.head, "all_rows");
    json_u64(&s.head, d.rows.len);
    write_rows(&d, &sides.significance, (size_t)limit, &s);
    r = api_reply_sheet(q, &s, err);
    sheet_done(&s);
    return r;
}

/* ---- Routes */

static const api_run runs[] = {run_tree, run_table};

static int handle(struct call *c, struct error *err)
{
    /* Rules of masking, which pages obey, may change: no tag. */
    return c->route->argument == 2 ? api_answer_untagged(c, run_page, err)
                                   : api_answer(c, runs[c->route->argument], err);
}

#define P_SIDES                                                                                    \
    "before_query: selector of the side before, default query; "                                   \
    "before_from: start of its range, default from; before_until: its end, default until; "        \
    "after_query: selector of the side after, default query; "                                     \
    "after_from: start of its range, default from; after_until: its end, default "                 \
    "until; " API_P_SELECT API_P_TYPE API_P_FILTER

const struct route api_diff_routes[] = {
    API_ROUTE("diff", 0, "Two selections as one flame tree with both sides' values",
              P_SIDES API_P_FRAMES API_P_CUT API_P_TREE_FORMAT),
    API_ROUTE("diff/table", 1, "Two selections compared function by function, largest change first",
              P_SIDES API_P_FRAMES
              "limit: rows, default 100; "
              "order: change, share, ratio or name, default change; "
              "only: before or after, functions that are on that side alone; " API_P_FORMAT),
    API_ROUTE("diff.html", 2, "The viewer and two selections compared in one file, for a browser",
              P_SIDES API_P_FRAMES "invert: 1 puts the frames that spend first; "
                                   "title: heading of the page; "),
    {0},
};
