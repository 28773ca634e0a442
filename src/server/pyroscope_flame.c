#include "server/pyroscope_flame.h"

#include "wire/proto_json.h"
#include "wire/protobuf.h"

static const struct frame_options by_function = {.granularity = GRANULARITY_FUNCTIONS,
                                                 .name_unknown = true};

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* A node whose children are being laid out. */
struct open_node {
    int64_t x[2];    /* where the next child starts */
    int64_t rest[2]; /* what children may still weigh */
};

struct layout {
    struct flame_bars *out;
    VEC(struct open_node) open; /* by depth */
    VEC(uint32_t) name_of;      /* by frame: its name + 1 */
    uint32_t other;             /* its name + 1 */
};

static uint32_t add_name(struct layout *l, const char *name, uint32_t *known)
{
    if (*known == 0 && vec_push(l->out->budget, &l->out->names, bytes_of(name)))
        *known = (uint32_t)l->out->names.len;
    return *known > 0 ? *known - 1 : 0;
}

/* Puts a bar below the node that is open at level - 1. */
static bool place(struct layout *l, struct flame_bar bar)
{
    struct flame_bars *f = l->out;
    struct open_node *up = bar.level > 0 ? &l->open.data[bar.level - 1] : NULL;

    for (unsigned s = 0; s < f->n_sides; s++) {
        bar.x[s] = up ? up->x[s] : 0;
        if (up) {
            up->x[s] = plus(up->x[s], bar.total[s]);
            up->rest[s] = minus(up->rest[s], bar.total[s]);
        }
        if (bar.self[s] > f->max_self)
            f->max_self = bar.self[s];
    }
    return vec_push(f->budget, &f->bars, bar);
}

/* Closes what is open at `depth` and deeper; what lost children gets its "other". */
static bool close_to(struct layout *l, uint32_t depth)
{
    while (l->open.len > depth) {
        const struct open_node *n = &vec_last(&l->open);
        if (n->rest[0] != 0 || n->rest[1] != 0) {
            struct flame_bar other = {.level = (uint32_t)l->open.len,
                                      .name = add_name(l, "other", &l->other),
                                      .total = {n->rest[0], n->rest[1]},
                                      .self = {n->rest[0], n->rest[1]}};
            if (!place(l, other))
                return false;
        }
        l->open.len--;
    }
    return true;
}

static bool add_node(struct layout *l, const struct flame_cut_node *n)
{
    struct flame_bars *f = l->out;
    struct tree *t = &f->cut.tree;
    uint32_t frame = t->frame.data[n->tree_node], root = 0;
    struct flame_bar bar = {.level = n->depth};

    if (!close_to(l, n->depth))
        return false;
    bar.name = n->depth == 0 ? add_name(l, "total", &root)
                             : add_name(l, tree_name(t, n->tree_node), &l->name_of.data[frame]);
    for (unsigned s = 0; s < f->n_sides; s++) {
        const struct tree *values = f->n_sides == 1 ? t : &f->sides[s];
        bar.total[s] = values->total.data[n->tree_node];
        bar.self[s] = values->self.data[n->tree_node];
    }
    if (!place(l, bar))
        return false;
    /* A node's own share lies at its left, as Pyroscope has it. */
    const struct flame_bar *placed = &vec_last(&f->bars);
    struct open_node open = {0};
    for (unsigned s = 0; s < f->n_sides; s++) {
        open.x[s] = plus(placed->x[s], placed->self[s]);
        open.rest[s] = minus(placed->total[s], placed->self[s]);
    }
    return vec_push(f->budget, &l->open, open);
}

/* Depth first is from left to right on every level, so sorting by level is enough. */
static bool sort_levels(struct flame_bars *f)
{
    uint32_t n_levels = 0;
    for (size_t i = 0; i < f->bars.len; i++)
        if (f->bars.data[i].level >= n_levels)
            n_levels = f->bars.data[i].level + 1;
    if (!vec_resize(f->budget, &f->first_of_level, (size_t)n_levels + 2) ||
        !vec_resize(f->budget, &f->by_level, f->bars.len))
        return false;
    /* Counted two places up, so that filling a level moves the start that is next to it. */
    uint32_t *at = f->first_of_level.data;
    for (size_t i = 0; i < f->bars.len; i++)
        at[f->bars.data[i].level + 2]++;
    for (uint32_t i = 2; i < n_levels + 2; i++)
        at[i] += at[i - 1];
    for (size_t i = 0; i < f->bars.len; i++)
        f->by_level.data[at[f->bars.data[i].level + 1]++] = (uint32_t)i;
    f->first_of_level.len = (size_t)n_levels + 1;
    return true;
}

static int lay_out(struct flame_bars *f, struct error *err)
{
    struct layout l = {.out = f};
    bool ok = vec_resize(f->budget, &l.name_of, f->cut.tree.frames.all.len);
    for (size_t i = 0; ok && i < f->cut.nodes.len; i++)
        ok = add_node(&l, &f->cut.nodes.data[i]);
    ok = ok && close_to(&l, 0) && sort_levels(f);
    vec_done(f->budget, &l.open);
    vec_done(f->budget, &l.name_of);
    if (!ok)
        return budget_error(f->budget, err);
    for (unsigned s = 0; s < f->n_sides; s++)
        f->total[s] = f->bars.data[0].total[s];
    return 0;
}

int flame_bars_build(const struct profile *p, size_t max_nodes, struct flame_bars *ret,
                     struct error *err)
{
    *ret = (struct flame_bars){.budget = p->dict->budget, .n_sides = 1};
    struct flame_cut_options o = {.frames = by_function, .max_nodes = max_nodes};
    int r = flame_cut_build(p, &o, &ret->cut, err);
    return r < 0 ? r : lay_out(ret, err);
}

/* A profile of both: column 0 is the left one's, 1 the right one's, 2 decides what is shown. */
static struct profile *side_by_side(const struct profile *left, const struct profile *right)
{
    const struct profile *const from[] = {left, right};
    struct profile *both = profile_new(left->dict);
    profile_add_ctype(both, "left", "");
    profile_add_ctype(both, "right", "");
    profile_add_ctype(both, "both", "");
    for (unsigned s = 0; s < 2; s++) {
        for (size_t i = 0; i < from[s]->n_samples; i++) {
            int64_t v = from[s]->values[0][i];
            int64_t values[] = {s == 0 ? v : 0, s == 1 ? v : 0, v};
            if (!profile_add(both, &(struct sample){.node = from[s]->node[i], .values = values}))
                return both;
        }
    }
    return both;
}

int flame_bars_compare(const struct profile *left, const struct profile *right, size_t max_nodes,
                       struct flame_bars *ret, struct error *err)
{
    *ret = (struct flame_bars){.budget = left->dict->budget, .n_sides = 2};
    CLEANUP(profile_freep) struct profile *both = side_by_side(left, right);
    if (budget_failed(ret->budget))
        return budget_error(ret->budget, err);

    /* The rows are the same, so all three trees have the same nodes. */
    struct flame_cut_options o = {.type = 2, .frames = by_function, .max_nodes = max_nodes};
    int r = flame_cut_build(both, &o, &ret->cut, err);
    for (uint32_t s = 0; r == 0 && s < 2; s++)
        r = tree_build(both, s, by_function, &ret->sides[s], err);
    return r < 0 ? r : lay_out(ret, err);
}

void flame_bars_done(struct flame_bars *f)
{
    if (!f->budget)
        return;
    vec_done(f->budget, &f->names);
    vec_done(f->budget, &f->bars);
    vec_done(f->budget, &f->by_level);
    vec_done(f->budget, &f->first_of_level);
    for (unsigned s = 0; s < 2; s++)
        if (f->sides[s].frames.dict)
            tree_done(&f->sides[s]);
    flame_cut_done(&f->cut);
}

/* ---- Writing */

static size_t n_levels(const struct flame_bars *f)
{
    return f->first_of_level.len - 1;
}

/* The numbers of a bar: 4 of one profile, 7 of two. `end` is where the bar before it ended. */
static size_t bar_numbers(const struct flame_bars *f, const struct flame_bar *b, int64_t end[2],
                          int64_t to[7])
{
    size_t n = 0;
    for (unsigned s = 0; s < f->n_sides; s++) {
        to[n++] = minus(b->x[s], end[s]);
        to[n++] = b->total[s];
        to[n++] = b->self[s];
        end[s] = plus(b->x[s], b->total[s]);
    }
    to[n++] = b->name;
    return n;
}

typedef void (*number_fn)(void *ctx, int64_t v);

static void each_number(const struct flame_bars *f, size_t level, number_fn fn, void *ctx)
{
    int64_t end[2] = {0}, numbers[7];
    for (uint32_t i = f->first_of_level.data[level]; i < f->first_of_level.data[level + 1]; i++) {
        size_t n = bar_numbers(f, &f->bars.data[f->by_level.data[i]], end, numbers);
        for (size_t k = 0; k < n; k++)
            fn(ctx, numbers[k]);
    }
}

static void put_number(void *ctx, int64_t v)
{
    pb_put_varint(ctx, (uint64_t)v);
}

void flame_bars_put(const struct flame_bars *f, struct buf *out)
{
    for (size_t i = 0; i < f->names.len; i++)
        proto_put_text(out, 1, f->names.data[i]);
    for (size_t i = 0; i < n_levels(f) && !buf_full(out); i++) {
        size_t level = pb_begin(out, 2), values = pb_begin(out, 1);
        each_number(f, i, put_number, out);
        pb_end(out, values);
        pb_end(out, level);
    }
    pb_put_u64_opt(out, 3, (uint64_t)plus(f->total[0], f->total[1]));
    pb_put_u64_opt(out, 4, (uint64_t)f->max_self);
    if (f->n_sides == 2) {
        pb_put_u64_opt(out, 5, (uint64_t)f->total[0]);
        pb_put_u64_opt(out, 6, (uint64_t)f->total[1]);
    }
}

static void write_number(void *ctx, int64_t v)
{
    json_i64(ctx, v);
}

void flame_bars_json(const struct flame_bars *f, struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, "names");
    json_begin_array(w);
    for (size_t i = 0; f && i < f->names.len; i++)
        json_string(w, f->names.data[i]);
    json_end_array(w);
    json_key(w, "levels");
    json_begin_array(w);
    for (size_t i = 0; f && i < n_levels(f) && !buf_full(w->out); i++) {
        json_begin_array(w);
        each_number(f, i, write_number, w);
        json_end_array(w);
    }
    json_end_array(w);
    json_key(w, "numTicks");
    json_i64(w, f ? plus(f->total[0], f->total[1]) : 0);
    json_key(w, "maxSelf");
    json_i64(w, f ? f->max_self : 0);
    json_end_object(w);
}

/* Each node, its callers before it: name, self, number of children. */
void flame_bars_tree(const struct flame_bars *f, struct buf *out)
{
    for (size_t i = 0; i < f->bars.len && !buf_full(out); i++) {
        const struct flame_bar *b = &f->bars.data[i];
        struct bytes name = i > 0 ? f->names.data[b->name] : (struct bytes){0};
        uint64_t children = 0;
        for (size_t k = i + 1; k < f->bars.len && f->bars.data[k].level > b->level; k++)
            children += f->bars.data[k].level == b->level + 1;
        pb_put_varint(out, name.len);
        buf_add_bytes(out, name);
        pb_put_varint(out, i > 0 ? (uint64_t)b->self[0] : 0);
        pb_put_varint(out, children);
    }
}
