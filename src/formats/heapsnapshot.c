/*
 * V8 heap snapshots (.heapsnapshot): one JSON object with flat arrays of numbers, read as a stream.
 * The layout is named by the file itself (node_fields, edge_fields...); nodes come before edges and
 * strings last, as V8 writes them.
 */
#include "formats/heapsnapshot.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "formats/formats.h"
#include "formats/heapsnapshot_profile.h"
#include "wire/json.h"

#define FIELDS_MAX 32
#define TYPES_MAX  64
#define RUN        512 /* records read at once */

/* V8's node types, and what DevTools calls the objects of a type whose name is their content. */
static const struct {
    const char *type, *label; /* no label: the name is the constructor's */
} node_types[] = {
    {"hidden", "(system)"},
    {"array", "(array)"},
    {"string", "(string)"},
    {"object", NULL},
    {"code", "(compiled code)"},
    {"closure", "Function"},
    {"regexp", "RegExp"},
    {"number", "(number)"},
    {"native", NULL},
    {"synthetic", NULL},
    {"concatenated string", "(concatenated string)"},
    {"sliced string", "(sliced string)"},
    {"symbol", "(symbol)"},
    {"bigint", "(bigint)"},
    {"object shape", "(object shape)"},
    {"wasm object", "(wasm object)"},
    {"other", "(other)"}, /* what we do not know */
};
#define TYPE_OTHER (ARRAY_SIZE(node_types) - 1)

enum edge_kind { EDGE_STRONG, EDGE_SHORTCUT, EDGE_WEAK };

/* Columns of a record; FIELD_NONE where the file has no such field. */
#define FIELD_NONE UINT32_MAX
struct layout {
    uint32_t n_node, type, name, self_size, edge_count, detachedness;
    uint32_t n_edge, edge_type, to_node;
    uint8_t node_type[TYPES_MAX]; /* index into node_types */
    uint32_t n_node_types;
    uint8_t edge_kind[TYPES_MAX];
    uint32_t n_edge_types;
    uint64_t nodes_said, edges_said; /* by the header */
};

/* A class as nodes name it, before the strings are known. */
struct named_class {
    uint32_t type; /* index into node_types */
    uint32_t name; /* index into the file's strings; 0 where it does not matter */
    uint32_t text; /* string, once read */
};

struct loader {
    struct heap *h;
    struct dict *dict;
    struct budget *budget;
    struct json_reader *r;
    struct layout layout;
    bool has_nodes, has_edges, has_strings;
    VEC(struct named_class) named;
    VEC(uint32_t) by_name; /* named classes that wait for a string, in its order */
    struct idset named_index;
    int64_t run[RUN * FIELDS_MAX];
};

static void out_of_memory(struct loader *l)
{
    json_fail(l->r, "out of memory"); /* the budget's own words replace this in load() */
}

/* ["type", "name", ...]: the place of each name we know, how many there are. */
static uint32_t read_fields(struct loader *l, const char *const *names, uint32_t **places, size_t n)
{
    uint32_t at = 0;

    for (size_t i = 0; i < n; i++)
        *places[i] = FIELD_NONE;
    json_enter_array(l->r);
    for (; json_next_element(l->r); at++) {
        struct bytes name = json_get_string(l->r);
        for (size_t i = 0; i < n; i++) {
            if (bytes_are(name, names[i]))
                *places[i] = at;
        }
    }
    if (at > FIELDS_MAX)
        json_fail(l->r, "%u fields in a record, more than %d", at, FIELDS_MAX);
    return at;
}

static void read_node_fields(struct loader *l)
{
    static const char *const names[] = {"type", "name", "self_size", "edge_count", "detachedness"};
    struct layout *y = &l->layout;
    uint32_t *places[] = {&y->type, &y->name, &y->self_size, &y->edge_count, &y->detachedness};

    y->n_node = read_fields(l, names, places, ARRAY_SIZE(names));
    for (size_t i = 0; i < 4; i++) {
        if (*places[i] == FIELD_NONE)
            json_fail(l->r, "nodes have no field \"%s\"", names[i]);
    }
}

static void read_edge_fields(struct loader *l)
{
    static const char *const names[] = {"type", "to_node"};
    uint32_t *places[] = {&l->layout.edge_type, &l->layout.to_node};

    l->layout.n_edge = read_fields(l, names, places, ARRAY_SIZE(names));
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (*places[i] == FIELD_NONE)
            json_fail(l->r, "edges have no field \"%s\"", names[i]);
    }
}

static uint8_t node_type_of(struct bytes name)
{
    for (size_t i = 0; i < TYPE_OTHER; i++) {
        if (bytes_are(name, node_types[i].type))
            return (uint8_t)i;
    }
    return (uint8_t)TYPE_OTHER;
}

static uint8_t edge_kind_of(struct bytes name)
{
    return bytes_are(name, "weak")       ? EDGE_WEAK
           : bytes_are(name, "shortcut") ? EDGE_SHORTCUT
                                         : EDGE_STRONG;
}

/* [["hidden", "array", ...], "string", ...]: the enumeration at the place of the field "type". */
static uint32_t read_types(struct loader *l, uint8_t (*meaning)(struct bytes), uint8_t *to)
{
    uint32_t n = 0;
    bool found = false;

    json_enter_array(l->r);
    while (json_next_element(l->r)) {
        if (found || json_peek(l->r) != JSON_ARRAY) {
            json_skip(l->r);
            continue;
        }
        found = true;
        json_enter_array(l->r);
        while (json_next_element(l->r)) {
            if (n == TYPES_MAX) {
                json_fail(l->r, "more than %d types", TYPES_MAX);
                return 0;
            }
            to[n++] = meaning(json_get_string(l->r));
        }
    }
    return n;
}

static void read_meta(struct loader *l)
{
    struct bytes key;

    json_enter_object(l->r);
    while (json_next_key(l->r, &key)) {
        if (bytes_are(key, "node_fields"))
            read_node_fields(l);
        else if (bytes_are(key, "edge_fields"))
            read_edge_fields(l);
        else if (bytes_are(key, "node_types"))
            l->layout.n_node_types = read_types(l, node_type_of, l->layout.node_type);
        else if (bytes_are(key, "edge_types"))
            l->layout.n_edge_types = read_types(l, edge_kind_of, l->layout.edge_kind);
        else
            json_skip(l->r);
    }
}

static void read_header(struct loader *l)
{
    struct bytes key;

    json_enter_object(l->r);
    while (json_next_key(l->r, &key)) {
        if (bytes_are(key, "meta"))
            read_meta(l);
        else if (bytes_are(key, "node_count"))
            l->layout.nodes_said = json_get_u64(l->r);
        else if (bytes_are(key, "edge_count"))
            l->layout.edges_said = json_get_u64(l->r);
        else
            json_skip(l->r);
    }
    if (l->layout.n_node == 0 || l->layout.n_edge == 0)
        json_fail(l->r, "the header does not say what nodes and edges are made of");
}

/* The columns grow once when the file is honest; a dishonest count costs nothing. */
static bool fits(const struct loader *l, uint64_t count, size_t size)
{
    return count < HEAP_NODES_MAX && count * size <= (l->budget->limit - l->budget->used) / 2;
}

static uint32_t class_of(struct loader *l, uint32_t type, uint32_t name)
{
    uint64_t hash = hash_mix(type, name);
    uint32_t found = IDSET_FIND(&l->named_index, hash, i,
                                l->named.data[i].type == type && l->named.data[i].name == name);
    if (found != IDSET_NONE)
        return found;
    uint32_t id = (uint32_t)l->named.len;
    if (!vec_push(l->budget, &l->named, (struct named_class){type, name, 0}) ||
        !idset_add(l->budget, &l->named_index, hash, id)) {
        out_of_memory(l);
        return 0;
    }
    return id;
}

/* One node; its edges so far are counted in first_edge, which holds running sums. */
static bool add_node(struct loader *l, const int64_t *record)
{
    struct heap *h = l->h;
    const struct layout *y = &l->layout;
    int64_t type = record[y->type], name = record[y->name];
    int64_t size = record[y->self_size], edges = record[y->edge_count];
    uint64_t sum = vec_last(&h->graph.first_edge);

    if (type < 0 || type >= y->n_node_types || name < 0 || name > UINT32_MAX || size < 0 ||
        edges < 0 || (uint64_t)edges > UINT32_MAX - 1 - sum) {
        json_fail(l->r, "node %zu has a number out of range", h->class_of.len);
        return false;
    }
    if (h->class_of.len >= HEAP_NODES_MAX - 1) {
        json_fail(l->r, "more than %u nodes", HEAP_NODES_MAX - 1);
        return false;
    }
    uint32_t kind = y->node_type[type];
    uint32_t class = class_of(l, kind, node_types[kind].label ? 0 : (uint32_t)name);
    bool detached = y->detachedness != FIELD_NONE && (record[y->detachedness] & 3) == 2;
    if (!vec_push(l->budget, &h->class_of, class) ||
        !vec_push(l->budget, &h->self_size, (uint64_t)size) ||
        !vec_push(l->budget, &h->is_detached, detached) ||
        !vec_push(l->budget, &h->graph.first_edge, (uint32_t)(sum + (uint64_t)edges)))
        out_of_memory(l);
    return !json_failed(l->r);
}

static void read_nodes(struct loader *l)
{
    struct heap *h = l->h;
    size_t n = l->layout.n_node, got;

    if (n == 0 || l->has_nodes) {
        json_fail(l->r, n ? "nodes are listed twice" : "nodes come before the header");
        return;
    }
    l->has_nodes = true;
    if (fits(l, l->layout.nodes_said, 32)) {
        (void)vec_reserve(l->budget, &h->class_of, l->layout.nodes_said);
        (void)vec_reserve(l->budget, &h->self_size, l->layout.nodes_said);
        (void)vec_reserve(l->budget, &h->is_detached, l->layout.nodes_said);
        (void)vec_reserve(l->budget, &h->graph.first_edge, l->layout.nodes_said + 1);
    }
    if (!vec_push(l->budget, &h->graph.first_edge, 0))
        out_of_memory(l);
    json_enter_array(l->r);
    do {
        got = json_get_i64_run(l->r, l->run, n * RUN);
        if (json_failed(l->r))
            return;
        if (got % n)
            json_fail(l->r, "the list of nodes ends within a node");
        for (size_t i = 0; i + n <= got; i += n) {
            if (!add_node(l, l->run + i))
                return;
        }
    } while (got == n * RUN);
    if (h->class_of.len == 0 || h->class_of.len != l->layout.nodes_said)
        json_fail(l->r, "%zu nodes, but the header says %llu", h->class_of.len,
                  (unsigned long long)l->layout.nodes_said);
}

static bool add_edge(struct loader *l, const int64_t *record, uint64_t index)
{
    const struct layout *y = &l->layout;
    int64_t type = record[y->edge_type], to = record[y->to_node];
    size_t nodes = l->h->class_of.len;

    if (type < 0 || type >= y->n_edge_types) {
        json_fail(l->r, "edge %llu has an unknown type", (unsigned long long)index);
        return false;
    }
    if (to < 0 || to % y->n_node != 0 || (uint64_t)to / y->n_node >= nodes) {
        json_fail(l->r, "edge %llu leads to %lld, which is no node", (unsigned long long)index,
                  (long long)to);
        return false;
    }
    uint8_t kind = y->edge_kind[type];
    if (kind == EDGE_WEAK)
        return true;
    uint32_t edge =
        (uint32_t)((uint64_t)to / y->n_node) | (kind == EDGE_SHORTCUT ? HEAP_SHORTCUT : 0);
    if (!vec_push(l->budget, &l->h->graph.edges, edge))
        out_of_memory(l);
    return !json_failed(l->r);
}

/* Closes the nodes whose edges are all read: `ends` is where theirs end in the file, and becomes
 * where they end without the weak ones. */
static void close_nodes(struct loader *l, uint32_t *node, uint64_t seen)
{
    struct heap_graph *g = &l->h->graph;

    while (*node + 1 < g->first_edge.len && g->first_edge.data[*node + 1] == seen) {
        (*node)++;
        g->first_edge.data[*node] = (uint32_t)g->edges.len;
    }
}

static void read_edges(struct loader *l)
{
    struct heap_graph *g = &l->h->graph;
    size_t n = l->layout.n_edge, got;
    uint64_t seen = 0;
    uint32_t node = 0;

    if (!l->has_nodes || l->has_edges) {
        json_fail(l->r, l->has_edges ? "edges are listed twice" : "edges come before the nodes");
        return;
    }
    l->has_edges = true;
    uint64_t total = vec_last(&g->first_edge);
    if (fits(l, total, sizeof(*g->edges.data)))
        (void)vec_reserve(l->budget, &g->edges, total);
    json_enter_array(l->r);
    do {
        got = json_get_i64_run(l->r, l->run, n * RUN);
        if (json_failed(l->r))
            return;
        if (got % n)
            json_fail(l->r, "the list of edges ends within an edge");
        for (size_t i = 0; i + n <= got; i += n) {
            close_nodes(l, &node, seen);
            if (seen++ == total)
                json_fail(l->r, "more edges than the %llu of all nodes", (unsigned long long)total);
            else
                add_edge(l, l->run + i, seen - 1);
            if (json_failed(l->r))
                return;
        }
    } while (got == n * RUN);
    close_nodes(l, &node, seen);
    if (seen != total || seen != l->layout.edges_said)
        json_fail(l->r, "%llu edges, but the nodes have %llu and the header says %llu",
                  (unsigned long long)seen, (unsigned long long)total,
                  (unsigned long long)l->layout.edges_said);
}

/*
 * What of a name is a type: not the attributes of an element ("<div id=...>"), nor the address that
 * a global object carries ("Window / https://...").
 */
static struct bytes constructor_in(struct bytes name, struct buf *scratch)
{
    struct bytes plain = name;
    size_t from = bytes_start_with(name, BYTES("Detached ")) ? 9 : 0;
    struct bytes rest = bytes_from(name, from);

    if (rest.len > 0 && rest.data[0] == '<') {
        const uint8_t *space = bytes_find_byte(rest, ' ');
        if (!space)
            return name;
        buf_clear(scratch);
        buf_add(scratch, name.data, (size_t)(space - name.data));
        buf_add_byte(scratch, '>');
        return buf_bytes(scratch);
    }
    const uint8_t *slash = bytes_find(name, BYTES(" / "));
    if (slash && (bytes_find(name, BYTES("://")) || bytes_find(name, BYTES("data:")) ||
                  bytes_find(name, BYTES("about:"))))
        plain.len = (size_t)(slash - name.data);
    return plain;
}

static int compare_by_name(const void *a, const void *b, void *named)
{
    const struct named_class *all = named;
    uint32_t x = all[*(const uint32_t *)a].name, y = all[*(const uint32_t *)b].name;
    return (x > y) - (x < y);
}

/* Strings pass by unseen but for those that name a class. */
static void read_strings(struct loader *l)
{
    struct buf scratch = {0};
    uint32_t index = 0;
    size_t next = 0;

    if (!l->has_nodes || l->has_strings) {
        json_fail(l->r,
                  l->has_strings ? "strings are listed twice" : "strings come before the nodes");
        return;
    }
    l->has_strings = true;
    for (uint32_t i = 0; i < l->named.len; i++) {
        if (!node_types[l->named.data[i].type].label && !vec_push(l->budget, &l->by_name, i))
            out_of_memory(l);
    }
    if (l->by_name.len > 0)
        qsort_r(l->by_name.data, l->by_name.len, sizeof(*l->by_name.data), compare_by_name,
                l->named.data);
    json_enter_array(l->r);
    for (; json_next_element(l->r); index++) {
        if (next == l->by_name.len || l->named.data[l->by_name.data[next]].name != index) {
            json_skip(l->r);
            continue;
        }
        uint32_t text = dict_string(l->dict, constructor_in(json_get_string(l->r), &scratch));
        while (next < l->by_name.len && l->named.data[l->by_name.data[next]].name == index)
            l->named.data[l->by_name.data[next++]].text = text;
    }
    buf_done(&scratch);
    if (next < l->by_name.len)
        json_fail(l->r, "a node's name is string %u of %u",
                  l->named.data[l->by_name.data[next]].name, index);
}

static void read_snapshot(struct loader *l)
{
    struct bytes key;

    json_enter_object(l->r);
    while (json_next_key(l->r, &key)) {
        if (bytes_are(key, "snapshot"))
            read_header(l);
        else if (bytes_are(key, "nodes"))
            read_nodes(l);
        else if (bytes_are(key, "edges"))
            read_edges(l);
        else if (bytes_are(key, "strings"))
            read_strings(l);
        else
            json_skip(l->r);
    }
    if (!l->has_nodes || !l->has_edges || !l->has_strings)
        json_fail(l->r, "the snapshot has no %s",
                  !l->has_nodes   ? "nodes"
                  : !l->has_edges ? "edges"
                                  : "strings");
}

static struct heap_class final_class(struct loader *l, const struct named_class *n)
{
    const char *label = node_types[n->type].label;
    struct heap_class c = {
        .name = label ? dict_cstring(l->dict, label) : n->text,
        .type = dict_cstring(l->dict, node_types[n->type].type),
    };
    if (c.name == 0)
        c.name = dict_cstring(l->dict, "(root)");
    c.is_detached = bytes_start_with(dict_text(l->dict, c.name), BYTES("Detached "));
    return c;
}

/* The id of a class, which is added when it is new; IDSET_NONE when the budget is spent. */
static uint32_t add_class(struct heap *h, struct idset *index, struct heap_class c)
{
    struct budget *b = h->dict->budget;
    uint64_t hash = hash_mix(c.name, c.type);
    uint32_t id = IDSET_FIND(
        index, hash, k, h->classes.data[k].name == c.name && h->classes.data[k].type == c.type);
    if (id != IDSET_NONE)
        return id;
    id = (uint32_t)h->classes.len;
    return vec_push(b, &h->classes, c) && idset_add(b, index, hash, id) ? id : IDSET_NONE;
}

/* The class of each named class: several may have one name once attributes are off. */
static bool name_classes(struct loader *l)
{
    struct heap *h = l->h;
    struct idset index = {0};
    VEC(uint32_t) to = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < l->named.len; i++) {
        uint32_t id = add_class(h, &index, final_class(l, &l->named.data[i]));
        ok = id != IDSET_NONE && vec_push(l->budget, &to, id);
    }
    assert(!ok || (to.data && h->class_of.data && h->is_detached.data)); /* there is a root */
    for (size_t i = 0; ok && i < h->class_of.len; i++) {
        h->class_of.data[i] = to.data[h->class_of.data[i]];
        h->is_detached.data[i] |= h->classes.data[h->class_of.data[i]].is_detached;
    }
    idset_done(l->budget, &index);
    vec_done(l->budget, &to);
    return ok && !budget_failed(l->budget);
}

/* The root's child that stands for detached documents, or 0. */
static uint32_t find_dom_trees(const struct heap *h)
{
    uint32_t name = dict_find_string(h->dict, BYTES("(Document DOM trees)"));
    const struct heap_graph *g = &h->graph;

    assert(g->first_edge.data);
    for (uint32_t e = g->first_edge.data[0]; name && e < g->first_edge.data[1]; e++) {
        uint32_t to = g->edges.data[e] & ~HEAP_SHORTCUT;
        const struct heap_class *c = &h->classes.data[h->class_of.data[to]];
        if (c->name == name && strcmp(dict_cstr(h->dict, c->type), "synthetic") == 0)
            return to;
    }
    return 0;
}

static bool find_retained(struct heap *h)
{
    struct budget *b = h->dict->budget;
    size_t n = h->class_of.len;

    if (!heap_dominators_find(&h->graph, find_dom_trees(h), b, &h->dominators) ||
        !vec_append(b, &h->retained_size, h->self_size.data, n))
        return false;
    for (size_t i = n; i-- > 1;) {
        uint32_t node = h->dominators.order.data[i];
        h->retained_size.data[h->dominators.of.data[node]] += h->retained_size.data[node];
    }
    return true;
}

static int load(struct loader *l, struct error *err)
{
    read_snapshot(l);
    int r = json_finish(l->r, "heapsnapshot", err);
    if (budget_failed(l->budget))
        return budget_error(l->budget, err);
    if (r < 0)
        return r;
    json_reader_free(TAKE_PTR(l->r));
    if (!name_classes(l) || !find_retained(l->h))
        return budget_error(l->budget, err);
    return 0;
}

int heap_load(struct input *in, struct dict *dict, struct heap *ret, struct error *err)
{
    struct loader *l = calloc(1, sizeof(*l));
    if (!l)
        abort();
    *ret = (struct heap){.dict = dict};
    *l = (struct loader){.h = ret, .dict = dict, .budget = dict->budget};
    l->r = json_reader_new(in, dict->budget);
    int r = load(l, err);
    json_reader_free(l->r);
    vec_done(l->budget, &l->named);
    vec_done(l->budget, &l->by_name);
    idset_done(l->budget, &l->named_index);
    free(l);
    if (r < 0)
        heap_done(ret);
    return r;
}

void heap_done(struct heap *h)
{
    struct budget *b = h->dict->budget;

    vec_done(b, &h->graph.first_edge);
    vec_done(b, &h->graph.edges);
    vec_done(b, &h->classes);
    vec_done(b, &h->class_of);
    vec_done(b, &h->self_size);
    vec_done(b, &h->is_detached);
    vec_done(b, &h->retained_size);
    heap_dominators_done(b, &h->dominators);
}

static int decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct heap h;
    int r = heap_load(in, out->dict, &h, err);
    if (r < 0)
        return r;
    bool ok = heap_to_profile(&h, out);
    heap_done(&h);
    return ok ? 0 : budget_error(out->budget, err);
}

static int sniff(struct bytes head)
{
    struct bytes rest = bytes_trim(head);

    if (rest.len == 0 || rest.data[0] != '{')
        return 0;
    rest = bytes_trim(bytes_from(rest, 1));
    return bytes_start_with(rest, BYTES("\"snapshot\"")) &&
                   bytes_find(rest, BYTES("\"node_fields\""))
               ? 95
               : 0;
}

const struct format format_heapsnapshot = {
    .name = "heapsnapshot",
    .title = "V8 heap snapshot",
    .sniff = sniff,
    .decode = decode,
};
