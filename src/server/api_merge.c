#include <errno.h>
#include <string.h>

#include "profile/sample_weight.h"
#include "query/flame_cut.h"
#include "query/tables.h"
#include "server/api_merged.h"
#include "server/server_internal.h"

/* Flame trees and tables of a merged selection. */

int api_merge(struct api_query *q, struct api_merged *ret, struct error *err)
{
    *ret = (struct api_merged){0};
    int r = api_frames(q, &ret->frames, err);
    if (r == 0)
        r = query_explain(&q->query, query_merge(&q->query, &ret->merged, err), err);
    if (r < 0)
        return r;
    ret->profile = ret->merged.profile;
    return profile_find_index(ret->profile, NULL, &ret->type, err);
}

void api_merged_done(struct api_merged *m)
{
    merged_done(&m->merged);
}

void api_type_members(const struct profile *p, uint32_t type, struct json_writer *w)
{
    json_key(w, "type");
    json_string(w, dict_text(p->dict, p->types[type].type));
    json_key(w, "unit");
    json_string(w, dict_text(p->dict, p->types[type].unit));
}

void api_size_members(const struct profile *p, uint32_t type, uint64_t n_profiles,
                      struct json_writer *w)
{
    double weight = profile_sample_weight(p, type);
    if (weight > 0 || p->n_samples == 0) {
        json_key(w, "samples");
        json_u64(w, weight > 0 ? sample_count(profile_total(p, type), weight) : 0);
    }
    if (n_profiles > 0) {
        json_key(w, "profiles");
        json_u64(w, n_profiles);
    }
}

static void write_lines(struct json_writer *w, const char *key, struct bytes lines)
{
    struct bytes line;
    json_key(w, key);
    json_begin_array(w);
    while (bytes_next_line(&lines, &line))
        json_string(w, line);
    json_end_array(w);
}

void api_merged_head(struct api_query *q, struct api_merged *m, struct json_writer *w)
{
    api_head(q, w);
    api_type_members(m->profile, m->type, w);
    json_key(w, "types");
    json_begin_array(w);
    for (uint32_t i = 0; i < m->profile->n_types; i++) {
        json_begin_object(w);
        api_type_members(m->profile, i, w);
        json_end_object(w);
    }
    json_end_array(w);
    json_key(w, "total");
    json_i64(w, profile_total(m->profile, m->type));
    api_size_members(m->profile, m->type, m->merged.n_profiles, w);
    write_lines(w, "warnings", buf_bytes(&m->merged.warnings));
}

/* ---- Frames */

void api_frame_table_init(struct api_frame_table *t, struct frames *frames, struct sheet *s)
{
    *t = (struct api_frame_table){.frames = frames, .budget = s->budget};
    sheet_table(s, "frames", SHEET_COLUMNS);
    t->name = sheet_column(s, "name", COLUMN_TEXT);
    t->file = sheet_column(s, "file", COLUMN_TEXT);
    t->line = sheet_column(s, "line", COLUMN_I64);
    t->type = sheet_column(s, "type", COLUMN_TEXT);
    t->binary = sheet_column(s, "binary", COLUMN_TEXT);
    t->build = sheet_column(s, "build_id", COLUMN_TEXT);
}

void api_frame_table_done(struct api_frame_table *t)
{
    vec_done(t->budget, &t->place);
}

uint32_t api_frame_row(struct api_frame_table *t, uint32_t frame)
{
    struct frames *f = t->frames;
    if (frame >= t->place.len && !vec_resize(t->budget, &t->place, f->all.len + 1))
        return UINT32_MAX;
    if (t->place.data[frame] == 0) {
        const struct frame *one = &f->all.data[frame];
        const struct mapping *m = &f->dict->mappings.data[one->mapping];
        sheet_text(t->name, frame == 0 ? BYTES("root") : bytes_of(frames_name(f, frame)));
        sheet_text(t->file, api_frame_file(f, frame));
        sheet_i64(t->line, frame_line(one));
        sheet_text(t->type, dict_text(f->dict, one->type));
        sheet_text(t->binary, dict_text(f->dict, m->file));
        sheet_text(t->build, dict_text(f->dict, m->build_id));
        t->place.data[frame] = ++t->n;
    }
    return t->place.data[frame] - 1;
}

/* ---- Flame trees */

#define FLAME_NODES     8192
#define FLAME_NODES_MAX 1100000 /* a million, the root and a little */

int api_reply_tree(struct api_query *q, struct sheet *s, struct flame_cut *f,
                   const struct flame_wire_options *o, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = s->budget};
    struct flame_wire_options options = *o;

    if (buf_full(&s->members))
        return buf_error(&s->members, err);
    options.members = buf_bytes(&s->members);
    int r = flame_wire_write(f, &options, &out, err);
    if (r == 0)
        api_reply(q, FLAME_WIRE_MEDIA_TYPE, &out);
    return r;
}

static int write_flame(struct api_query *q, struct api_merged *m, struct flame_cut *f,
                       struct sheet *s, struct error *err)
{
    struct api_frame_table frames;

    api_merged_head(q, m, &s->head);
    json_key(&s->head, "cut_nodes");
    json_u64(&s->head, f->n_cut);
    json_key(&s->head, "cut");
    json_i64(&s->head, f->cut);
    json_key(&s->head, "max_depth");
    json_u64(&s->head, f->max_depth);
    if (q->format == API_TREE)
        return api_reply_tree(q, s, f, &(struct flame_wire_options){0}, err);
    api_frame_table_init(&frames, &f->tree.frames, s);
    sheet_table(s, "nodes", SHEET_COLUMNS);
    struct sheet_column *parent = sheet_column(s, "parent", COLUMN_U32);
    struct sheet_column *frame = sheet_column(s, "frame", COLUMN_U32);
    struct sheet_column *self = sheet_column(s, "self", COLUMN_I64);
    struct sheet_column *total = sheet_column(s, "total", COLUMN_I64);
    struct sheet_column *n_hidden = sheet_column(s, "hidden_children", COLUMN_U32);
    struct sheet_column *hidden = sheet_column(s, "hidden", COLUMN_I64);
    for (size_t i = 0; i < f->nodes.len; i++) {
        const struct flame_cut_node *n = &f->nodes.data[i];
        sheet_u32(parent, n->parent);
        sheet_u32(frame, api_frame_row(&frames, f->tree.frame.data[n->tree_node]));
        sheet_i64(self, n->self);
        sheet_i64(total, n->total);
        sheet_u32(n_hidden, n->n_hidden);
        sheet_i64(hidden, n->hidden);
    }
    api_frame_table_done(&frames);
    return budget_failed(s->budget) ? budget_error(s->budget, err) : api_reply_sheet(q, s, err);
}

int api_cut(struct api_query *q, const char *under[API_PARAMS_MAX], struct flame_cut_options *ret,
            struct error *err)
{
    uint64_t max_nodes;
    int r = api_number(q, "max_nodes", FLAME_NODES_MAX, FLAME_NODES, &max_nodes, err);
    if (r == 0)
        r = api_flag(q, "invert", &ret->invert, err);
    ret->is_level_order = q->format == API_TREE;
    ret->max_nodes = (size_t)max_nodes;
    while (ret->n_under < API_PARAMS_MAX &&
           (under[ret->n_under] = api_text_at(q, "under", ret->n_under)))
        ret->n_under++;
    ret->under = under;
    return r;
}

static int run_flame(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    const char *under[API_PARAMS_MAX];
    struct flame_cut_options o = {0};

    int r = api_cut(q, under, &o, err);
    if (r == 0)
        r = api_merge(q, &m, err);
    if (r < 0)
        return r;
    struct flame_cut f;
    struct sheet s;
    o.type = m.type;
    o.frames = m.frames;
    sheet_init(&s, &q->call->budget);
    r = flame_cut_build(m.profile, &o, &f, err);
    if (r == -ENOENT)
        r = error_prefix(err, r, "under");
    if (r == 0)
        r = write_flame(q, &m, &f, &s, err);
    sheet_done(&s);
    flame_cut_done(&f);
    return r;
}

/* ---- Tables */

#define ROWS     100
#define ROWS_MAX 1000000

static int read_table(struct api_query *q, const struct api_merged *m, size_t limit,
                      struct table_options *ret, struct error *err)
{
    static const char *const orders[] = {
        [TABLE_BY_FLAT] = "flat", [TABLE_BY_CUM] = "cum", [TABLE_BY_NAME] = "name"};
    size_t order;
    uint64_t rows;

    int r = api_choice(q, "order", API_NAMES(orders), TABLE_BY_FLAT, &order, err);
    if (r == 0)
        r = api_number(q, "limit", ROWS_MAX, limit, &rows, err);
    if (r < 0)
        return r;
    *ret = (struct table_options){.type = m->type,
                                  .frames = m->frames,
                                  .order = (enum table_order)order,
                                  .limit = (size_t)rows};
    return 0;
}

/* Of calls only what passes through counts. */
enum { ROW_LINE = 1, ROW_FLAT = 2 };

static void write_rows(struct sheet *s, const char *key, struct frames *frames,
                       const struct table *t, unsigned with)
{
    sheet_table(s, key, SHEET_ROWS);
    struct sheet_column *name = sheet_column(s, "name", COLUMN_TEXT);
    struct sheet_column *file = sheet_column(s, "file", COLUMN_TEXT);
    struct sheet_column *line = with & ROW_LINE ? sheet_column(s, "line", COLUMN_I64) : NULL;
    struct sheet_column *flat = with & ROW_FLAT ? sheet_column(s, "flat", COLUMN_I64) : NULL;
    struct sheet_column *cum = sheet_column(s, "cum", COLUMN_I64);
    for (size_t i = 0; i < t->rows.len; i++) {
        const struct table_row *row = &t->rows.data[i];
        sheet_text(name, bytes_of(frames_name(frames, row->frame)));
        sheet_text(file, api_frame_file(frames, row->frame));
        if (line)
            sheet_i64(line, row->line);
        if (flat)
            sheet_i64(flat, row->flat);
        sheet_i64(cum, row->cum);
    }
}

static int reply_table(struct api_query *q, struct api_merged *m, struct table *t, unsigned with,
                       struct error *err)
{
    struct sheet s;
    sheet_init(&s, &q->call->budget);
    api_merged_head(q, m, &s.head);
    json_key(&s.head, "all_rows");
    json_u64(&s.head, t->n_all);
    write_rows(&s, "rows", &t->frames, t, with);
    int r = api_reply_sheet(q, &s, err);
    sheet_done(&s);
    return r;
}

static int run_top(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    struct table_options o;
    struct table t = {0};

    int r = api_merge(q, &m, err);
    if (r == 0)
        r = read_table(q, &m, ROWS, &o, err);
    if (r == 0)
        r = table_top(m.profile, &o, &t, err);
    if (r == 0)
        r = reply_table(q, &m, &t, ROW_FLAT, err);
    table_done(&t);
    return r;
}

static int run_lines(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    struct table_options o;
    struct table t = {0};

    int r = api_merge(q, &m, err);
    if (r == 0)
        r = read_table(q, &m, 0, &o, err);
    if (r == 0)
        r = table_lines(m.profile, &o, api_text(q, "file"), &t, err);
    if (r == 0)
        r = reply_table(q, &m, &t, ROW_LINE | ROW_FLAT, err);
    table_done(&t);
    return r;
}

static int reply_sandwich(struct api_query *q, struct api_merged *m, struct sandwich *w,
                          struct error *err)
{
    struct sheet s;
    sheet_init(&s, &q->call->budget);
    api_merged_head(q, m, &s.head);
    json_key(&s.head, "function");
    json_begin_object(&s.head);
    json_key(&s.head, "name");
    json_cstring(&s.head, sandwich_name(w, &w->self));
    json_key(&s.head, "flat");
    json_i64(&s.head, w->self.flat);
    json_key(&s.head, "cum");
    json_i64(&s.head, w->self.cum);
    json_end_object(&s.head);
    write_rows(&s, "callers", &w->callers.frames, &w->callers, 0);
    write_rows(&s, "callees", &w->callers.frames, &w->callees, 0);
    int r = api_reply_sheet(q, &s, err);
    sheet_done(&s);
    return r;
}

static int run_callers(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    struct table_options o;
    struct sandwich w = {0};

    int r = api_merge(q, &m, err);
    if (r == 0)
        r = read_table(q, &m, ROWS, &o, err);
    if (r < 0)
        return r;
    o.order = TABLE_BY_CUM;
    r = table_sandwich(m.profile, &o, api_text(q, "function"), &w, err);
    if (r == 0)
        r = reply_sandwich(q, &m, &w, err);
    sandwich_done(&w);
    return r;
}

/* ---- Routes */

static const api_run runs[] = {run_flame, run_top, run_lines, run_callers};

static int handle(struct call *c, struct error *err)
{
    return api_answer(c, runs[c->route->argument], err);
}

const struct route api_merge_routes[] = {
    API_ROUTE("flame", 0, "The flame tree of a selection, cut for drawing",
              API_P_MERGE API_P_FRAMES API_P_CUT API_P_TREE_FORMAT),
    API_ROUTE("top", 1, "Who spends: functions with what they spend themselves and in all",
              API_P_MERGE API_P_FRAMES "limit: rows, default 100; "
                                       "order: flat, cum or name, default flat; " API_P_FORMAT),
    API_ROUTE("lines", 2, "The cost of each line of a source file",
              API_P_MERGE API_P_FRAMES "file!: the file's name, or its end from a slash on; " //
                                       "limit: rows, default all; " API_P_FORMAT),
    API_ROUTE("callers", 3, "Who calls a function, and whom it calls",
              API_P_MERGE API_P_FRAMES "function!: the exact name of a function; "
                                       "limit: rows of each, default 100; " API_P_FORMAT),
    {0},
};
