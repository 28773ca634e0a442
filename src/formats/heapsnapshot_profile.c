/*
 * A heap snapshot as a profile. An object's stack is the path of its dominators, each known by its
 * constructor: what a frame has below it is what would be freed with it. So for inuse_space flat is
 * the shallow size and cum the retained size of a constructor, and a flame graph shows what holds
 * the memory. Equal constructors in a row are one frame (a linked list is no tower), and paths
 * deeper than DEPTH_MAX lose what lies between their DEPTH_MAX - 1 outermost frames and the object.
 *
 * A third value, retained_space, has per constructor the retained size in the flat column (counting
 * no object within another of the same constructor). It overlaps between constructors, so its cum
 * and its total mean nothing.
 */
#include "formats/heapsnapshot_profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define DEPTH_MAX 256
#define NONE      UINT32_MAX

enum { COLUMN_OBJECTS, COLUMN_SPACE, COLUMN_RETAINED, COLUMNS };

/* Objects of one class with one path; detached ones apart. */
struct group {
    uint32_t node, class;
    bool is_detached;
};

struct unfolding {
    const struct heap *h;
    struct budget *b;
    struct dict *dict;
    VEC(uint32_t) first_child, next_sibling; /* of the dominator tree, by heap node */
    VEC(uint32_t) path;                      /* per level of the walk: trie node */
    VEC(uint16_t) depth;                     /* per trie node made here, from first_node on */
    VEC(uint32_t) open;                      /* per class: how many of it are on the way */
    VEC(uint32_t) location;                  /* per class */
    VEC(struct group) groups;
    VEC(int64_t) values; /* COLUMNS per group */
    struct idset index;
    bool is_cut;
};

static void unfolding_done(struct unfolding *u)
{
    vec_done(u->b, &u->first_child);
    vec_done(u->b, &u->next_sibling);
    vec_done(u->b, &u->path);
    vec_done(u->b, &u->open);
    vec_done(u->b, &u->location);
    vec_done(u->b, &u->depth);
    vec_done(u->b, &u->groups);
    vec_done(u->b, &u->values);
    idset_done(u->b, &u->index);
}

static bool prepare(struct unfolding *u)
{
    const struct heap *h = u->h;
    size_t n = h->class_of.len;
    uint32_t type = dict_cstring(u->dict, "v8js");

    if (!vec_resize(u->b, &u->first_child, n) || !vec_resize(u->b, &u->next_sibling, n) ||
        !vec_resize(u->b, &u->open, h->classes.len) ||
        !vec_resize(u->b, &u->location, h->classes.len))
        return false;
    for (size_t i = n; i-- > 1;) {
        uint32_t above = h->dominators.of.data[i];
        u->next_sibling.data[i] = u->first_child.data[above];
        u->first_child.data[above] = (uint32_t)i;
    }
    for (size_t i = 0; i < h->classes.len; i++) {
        struct function f = {.name = h->classes.data[i].name};
        struct line line = {.function = dict_function(u->dict, f)};
        u->location.data[i] = dict_location(u->dict, (struct location){.type = type}, &line, 1);
    }
    return !budget_failed(u->b);
}

static bool add_to_group(struct unfolding *u, struct group g, const int64_t *values)
{
    uint64_t hash = hash_mix((uint64_t)g.node << 32 | g.class, g.is_detached);
    uint32_t at =
        IDSET_FIND(&u->index, hash, i,
                   u->groups.data[i].node == g.node && u->groups.data[i].class == g.class &&
                       u->groups.data[i].is_detached == g.is_detached);
    if (at == IDSET_NONE) {
        at = (uint32_t)u->groups.len;
        if (!vec_push(u->b, &u->groups, g) ||
            !vec_resize(u->b, &u->values, u->values.len + COLUMNS) ||
            !idset_add(u->b, &u->index, hash, at))
            return false;
    }
    for (size_t k = 0; k < COLUMNS; k++) {
        int64_t *v = &u->values.data[(size_t)at * COLUMNS + k];
        *v = (int64_t)((uint64_t)*v + (uint64_t)values[k]);
    }
    return true;
}

/* The trie node of an object whose dominator has the node `above`. */
static uint32_t stack_of(struct unfolding *u, uint32_t above, uint32_t location)
{
    struct dict *d = u->dict;

    if (above && d->node_location.data[above] == location)
        return above;
    assert(!above || u->depth.data);
    if (above && u->depth.data[above] == DEPTH_MAX) {
        u->is_cut = true;
        above = d->node_parent.data[above];
    }
    uint32_t node = dict_node(d, above, location);
    if (node == 0 || !vec_resize(u->b, &u->depth, dict_n_nodes(d)))
        return 0;
    u->depth.data[node] = (uint16_t)(above ? u->depth.data[above] + 1 : 1);
    return node;
}

static bool enter(struct unfolding *u, uint32_t object)
{
    const struct heap *h = u->h;
    uint32_t class = h->class_of.data[object];
    assert(u->open.data && u->location.data); /* every object has a class */
    uint32_t above = u->path.len ? vec_last(&u->path) : 0;
    bool nested = u->open.data[class]++ > 0;
    struct group g = {.node = stack_of(u, above, u->location.data[class]),
                      .class = class,
                      .is_detached = h->is_detached.data[object]};
    int64_t values[COLUMNS] = {
        [COLUMN_OBJECTS] = 1,
        [COLUMN_SPACE] = (int64_t)h->self_size.data[object],
        [COLUMN_RETAINED] = nested ? 0 : (int64_t)h->retained_size.data[object],
    };
    return g.node != 0 && add_to_group(u, g, values) && vec_push(u->b, &u->path, g.node);
}

static void leave(struct unfolding *u, uint32_t object)
{
    u->path.len--;
    u->open.data[u->h->class_of.data[object]]--;
}

/* Down to the first child, else along to the next sibling, else up to one that has such. */
static bool walk(struct unfolding *u)
{
    uint32_t at = 0;
    bool ok = enter(u, 0);

    while (ok) {
        if (u->first_child.data[at]) {
            at = u->first_child.data[at];
            ok = enter(u, at);
            continue;
        }
        while (at != 0 && u->next_sibling.data[at] == 0) {
            leave(u, at);
            at = u->h->dominators.of.data[at];
        }
        leave(u, at);
        if (at == 0)
            return true;
        at = u->next_sibling.data[at];
        ok = enter(u, at);
    }
    return false;
}

static uint32_t attrs_of(struct unfolding *u, const struct group *g)
{
    struct dict *d = u->dict;
    uint32_t ids[2] = {
        dict_string_attribute(d, dict_cstring(d, "type"), u->h->classes.data[g->class].type)};

    if (g->is_detached)
        ids[1] = dict_string_attribute(d, dict_cstring(d, "detached"), dict_cstring(d, "true"));
    return dict_attrs(d, ids, 2);
}

static bool add_samples(struct unfolding *u, struct profile *p)
{
    profile_add_ctype(p, "inuse_objects", "count");
    profile_add_ctype(p, "inuse_space", "bytes");
    profile_add_ctype(p, "retained_space", "bytes");
    p->default_type = dict_cstring(u->dict, "inuse_space");
    if (!profile_reserve(p, u->groups.len))
        return false;
    for (size_t i = 0; i < u->groups.len; i++) {
        const struct group *g = &u->groups.data[i];
        struct sample s = {
            .node = g->node, .attrs = attrs_of(u, g), .values = &u->values.data[i * COLUMNS]};
        if (!profile_add(p, &s))
            return false;
    }
    return !budget_failed(u->b);
}

bool heap_to_profile(const struct heap *h, struct profile_set *out)
{
    struct unfolding u = {.h = h, .b = out->budget, .dict = out->dict};
    struct profile *p = profile_set_add(out);
    bool ok = p && prepare(&u) && walk(&u) && add_samples(&u, p);

    if (ok) {
        profile_set_note(out, "heapsnapshot: stacks are paths of dominators, so cum of inuse_space "
                              "is retained size; retained_space is meant for its flat column only");
        if (u.is_cut)
            profile_set_note(out, "heapsnapshot: paths of more than %d constructors are shortened",
                             DEPTH_MAX);
    }
    unfolding_done(&u);
    return ok;
}

/* ---- The summary ---- */

static int compare_rows(const void *a, const void *b)
{
    const struct heap_row *x = a, *y = b;

    if (x->retained != y->retained)
        return x->retained < y->retained ? 1 : -1;
    if (x->shallow != y->shallow)
        return x->shallow < y->shallow ? 1 : -1;
    return x->constructor != y->constructor ? (x->constructor < y->constructor ? -1 : 1)
                                            : (x->type > y->type) - (x->type < y->type);
}

static uint32_t find_type(const struct profile *p, const char *name)
{
    for (uint32_t t = 0; t < p->n_types; t++) {
        if (strcmp(dict_cstr(p->dict, p->types[t].type), name) == 0)
            return t;
    }
    return NONE;
}

static struct heap_row *row_of(struct heap_summary *s, struct idset *index, struct heap_row key)
{
    uint64_t hash = hash_mix(key.constructor, key.type);
    uint32_t at = IDSET_FIND(index, hash, i,
                             s->rows.data[i].constructor == key.constructor &&
                                 s->rows.data[i].type == key.type);
    if (at != IDSET_NONE)
        return &s->rows.data[at];
    at = (uint32_t)s->rows.len;
    if (!vec_push(s->budget, &s->rows, key) || !idset_add(s->budget, index, hash, at))
        return NULL;
    return &s->rows.data[at];
}

bool heap_summarize(const struct profile *p, struct heap_summary *ret)
{
    const struct dict *d = p->dict;
    uint32_t objects = find_type(p, "inuse_objects"), space = find_type(p, "inuse_space");
    uint32_t retained = find_type(p, "retained_space");
    uint32_t type = dict_find_string(d, BYTES("type")),
             detached = dict_find_string(d, BYTES("detached"));
    struct heap_summary s = {.budget = d->budget};
    struct idset index = {0};
    bool ok = objects != NONE && space != NONE && retained != NONE;

    for (size_t i = 0; ok && i < p->n_samples; i++) {
        const struct location *l = &d->locations.data[d->node_location.data[p->node[i]]];
        uint32_t attrs = profile_attrs(p, i);
        uint32_t name =
            l->n_lines ? d->functions.data[d->lines.data[l->first_line].function].name : 0;
        struct heap_row key = {
            .constructor = name,
            .type = d->attributes.data[type ? dict_attrs_get(d, attrs, type) : 0].text};
        struct heap_row *row = row_of(&s, &index, key);
        if (!row) {
            ok = false;
            break;
        }
        row->count += p->values[objects][i];
        row->shallow += p->values[space][i];
        row->retained += p->values[retained][i];
        if (detached && dict_attrs_get(d, attrs, detached))
            row->detached += p->values[objects][i];
    }
    idset_done(s.budget, &index);
    if (!ok) {
        heap_summary_done(&s);
        return false;
    }
    if (s.rows.len > 0)
        qsort(s.rows.data, s.rows.len, sizeof(*s.rows.data), compare_rows);
    *ret = s;
    return true;
}

void heap_summary_done(struct heap_summary *s)
{
    vec_done(s->budget, &s->rows);
}
