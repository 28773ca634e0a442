#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/labelled.h"
#include "cli/query_verbs.h"
#include "profile/measure.h"
#include "query/flame_cut.h"
#include "query/tables.h"
#include "wire/json.h"

/* Callers, lines and cut trees of a merged selection. */
struct asked {
    struct merged merged;
    uint32_t type;
    const char *unit;
};

static void asked_done(struct asked *a)
{
    merged_done(&a->merged);
}

static int ask(const struct query *q, const struct options *o, struct asked *a, struct error *err)
{
    struct query filtered = *q;
    filtered.filters = (struct query_filters){
        .focus = o->report.focus,
        .ignore = o->report.ignore,
        .hide = o->report.hide,
        .show = o->report.show,
        .show_from = o->report.show_from,
        .prune_from = o->report.prune_from,
    };
    if (labelled_needed(o, -1))
        return error_set(err, -EINVAL,
                         "labels of samples are known to reports only: top, tree, "
                         "peek, list, flame, diff...");
    int r = query_explain(q, query_merge(&filtered, &a->merged, err), err);
    if (r == 0)
        r = profile_find_index(a->merged.profile, o->report.sample_index, &a->type, err);
    if (r < 0)
        return r;
    const struct profile *p = a->merged.profile;
    a->unit = dict_cstr(p->dict, p->types[a->type].unit);
    return 0;
}

static struct table_options table_options_of(const struct options *o, const struct asked *a)
{
    return (struct table_options){
        .type = a->type,
        .frames = {.granularity = o->report.granularity,
                   .no_inlines = o->report.noinlines,
                   .trim_path = o->report.trim_path,
                   .name_unknown = true},
        .order = TABLE_BY_CUM,
        .limit = o->limit > 0 ? (size_t)o->limit : 0,
    };
}

static void add_row(int64_t flat, int64_t cum, const char *unit, const char *name, struct buf *out)
{
    char f[MEASURE_TEXT_MAX], c[MEASURE_TEXT_MAX];
    measure_label(flat, unit, "auto", f);
    measure_label(cum, unit, "auto", c);
    buf_addf(out, "%12s %12s  %s\n", f, c, name);
}

static void json_row(struct json_writer *w, const char *name, const struct table_row *row)
{
    json_begin_object(w);
    json_key(w, "name");
    json_cstring(w, name);
    if (row->line > 0) {
        json_key(w, "line");
        json_i64(w, row->line);
    }
    json_key(w, "flat");
    json_i64(w, row->flat);
    json_key(w, "cum");
    json_i64(w, row->cum);
    json_end_object(w);
}

/* Of a call only what passes through it counts. */
static void json_call(struct json_writer *w, const char *name, int64_t value)
{
    json_begin_object(w);
    json_key(w, "name");
    json_cstring(w, name);
    json_key(w, "cum");
    json_i64(w, value);
    json_end_object(w);
}

static void text_calls(struct sandwich *s, const struct table *t, const char *unit, struct buf *out)
{
    char value[MEASURE_TEXT_MAX];
    for (size_t i = 0; i < t->rows.len; i++) {
        measure_label(t->rows.data[i].cum, unit, "auto", value);
        buf_addf(out, "%12s %12s  %s\n", "", value, sandwich_name(s, &t->rows.data[i]));
    }
}

static void json_calls(struct json_writer *w, const char *key, struct sandwich *s,
                       const struct table *t)
{
    json_key(w, key);
    json_begin_array(w);
    for (size_t i = 0; i < t->rows.len; i++)
        json_call(w, sandwich_name(s, &t->rows.data[i]), t->rows.data[i].cum);
    json_end_array(w);
}

static void write_sandwich(struct sandwich *s, const struct options *o, const char *unit,
                           const char *name, struct buf *out)
{
    struct json_writer w = {.out = out};
    if (o->json) {
        json_begin_object(&w);
        json_key(&w, "function");
        json_row(&w, name, &s->self);
        json_calls(&w, "callers", s, &s->callers);
        json_calls(&w, "callees", s, &s->callees);
        json_end_object(&w);
        buf_add_byte(out, '\n');
        return;
    }
    buf_addf(out, "%12s %12s\n", "flat", "cum");
    text_calls(s, &s->callers, unit, out);
    buf_add_str(out, "-------------------------- called by the above\n");
    add_row(s->self.flat, s->self.cum, unit, name, out);
    buf_add_str(out, "-------------------------- calls the below\n");
    text_calls(s, &s->callees, unit, out);
}

int query_verb_callers(const struct query *q, const struct options *o, const char *argument,
                       struct buf *out, struct error *err)
{
    CLEANUP(asked_done) struct asked a = {0};
    int r = ask(q, o, &a, err);
    if (r < 0)
        return r;
    struct table_options t = table_options_of(o, &a);
    struct sandwich s;
    r = table_sandwich(a.merged.profile, &t, argument, &s, err);
    if (r == 0)
        write_sandwich(&s, o, a.unit, argument, out);
    sandwich_done(&s);
    return r == -ENOENT ? -ENODATA : r;
}

int query_verb_lines(const struct query *q, const struct options *o, const char *argument,
                     struct buf *out, struct error *err)
{
    CLEANUP(asked_done) struct asked a = {0};
    struct json_writer w = {.out = out};
    int r = ask(q, o, &a, err);
    if (r < 0)
        return r;
    struct table_options options = table_options_of(o, &a);
    struct table t;
    r = table_lines(a.merged.profile, &options, argument, &t, err);
    if (r == 0 && o->json)
        json_begin_array(&w);
    else if (r == 0)
        buf_addf(out, "%12s %12s\n", "flat", "cum");
    for (size_t i = 0; r == 0 && i < t.rows.len; i++) {
        const char *name = table_name(&t, &t.rows.data[i]);
        if (o->json)
            json_row(&w, name, &t.rows.data[i]);
        else
            add_row(t.rows.data[i].flat, t.rows.data[i].cum, a.unit, name, out);
    }
    if (r == 0 && o->json) {
        json_end_array(&w);
        buf_add_byte(out, '\n');
    }
    table_done(&t);
    return r == -ENOENT ? -ENODATA : r;
}

#define TREE_NODES 8192

static void write_tree(struct flame_cut *f, struct buf *out)
{
    struct json_writer w = {.out = out};
    json_begin_object(&w);
    json_key(&w, "cut_nodes");
    json_u64(&w, f->n_cut);
    json_key(&w, "cut");
    json_i64(&w, f->cut);
    json_key(&w, "nodes");
    json_begin_array(&w);
    for (size_t i = 0; i < f->nodes.len; i++) {
        const struct flame_cut_node *n = &f->nodes.data[i];
        json_begin_object(&w);
        json_key(&w, "name");
        json_cstring(&w, flame_cut_name(f, i));
        json_key(&w, "parent");
        json_i64(&w, i > 0 ? (int64_t)n->parent : -1);
        json_key(&w, "self");
        json_i64(&w, n->self);
        json_key(&w, "total");
        json_i64(&w, n->total);
        if (n->n_hidden > 0) {
            json_key(&w, "hidden_children");
            json_u64(&w, n->n_hidden);
            json_key(&w, "hidden");
            json_i64(&w, n->hidden);
        }
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

int query_verb_tree(const struct query *q, const struct options *o, const char *argument,
                    struct buf *out, struct error *err)
{
    CLEANUP(asked_done) struct asked a = {0};
    (void)argument;
    int r = ask(q, o, &a, err);
    if (r < 0)
        return r;
    struct flame_cut_options options = {
        .type = a.type,
        .frames = table_options_of(o, &a).frames,
        .invert = o->invert,
        .max_nodes = o->limit > 0 ? (size_t)o->limit : TREE_NODES,
        .under = o->under.items,
        .n_under = o->under.n,
    };
    struct flame_cut f;
    r = flame_cut_build(a.merged.profile, &options, &f, err);
    if (r == 0)
        write_tree(&f, out);
    flame_cut_done(&f);
    return r == -ENOENT ? -ENODATA : r;
}
