#include "formats/v8_tree.h"

#include <string.h>

#include "base/hash.h"

enum { STATE_NEW, STATE_ON_PATH, STATE_DONE };

void v8_tree_init(struct v8_tree *t, struct dict *d, bool drops_root)
{
    *t = (struct v8_tree){.dict = d, .drops_root = drops_root};
    t->frame_type = dict_cstring(d, "v8js");
}

void v8_tree_done(struct v8_tree *t)
{
    struct budget *b = t->dict->budget;

    vec_done(b, &t->nodes);
    vec_done(b, &t->ticks);
    vec_done(b, &t->edges);
    vec_done(b, &t->path);
    idset_done(b, &t->index);
    buf_done(&t->scratch);
}

uint32_t v8_tree_find(const struct v8_tree *t, int64_t id)
{
    return IDSET_FIND(&t->index, hash_mix((uint64_t)id, 8), at, t->nodes.data[at].id == id);
}

/* V8 counts lines and columns from 0. */
static int64_t from_one(int64_t from_zero)
{
    return from_zero < 0 || from_zero == INT64_MAX ? 0 : from_zero + 1;
}

/* True when the key belongs to a call frame; its value is then read. */
static bool read_frame_field(struct v8_tree *t, struct json_reader *r, struct bytes key,
                             struct v8_frame *f)
{
    if (bytes_are(key, "functionName"))
        f->name = dict_string(t->dict, json_get_string_or_empty(r));
    else if (bytes_are(key, "url"))
        f->url = dict_string(t->dict, json_get_string_or_empty(r));
    else if (bytes_are(key, "lineNumber"))
        f->line = from_one(json_get_i64(r));
    else if (bytes_are(key, "columnNumber"))
        f->column = from_one(json_get_i64(r));
    else
        return false;
    return true;
}

static void read_call_frame(struct v8_tree *t, struct json_reader *r, struct v8_frame *f)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (!read_frame_field(t, r, key, f))
            json_skip(r);
    }
}

/* Functions without a name are told apart by their place, or all of a program's would be one. */
static uint32_t name_anonymous(struct v8_tree *t, const struct v8_frame *f)
{
    struct bytes url = dict_text(t->dict, f->url);

    if (url.len == 0)
        return dict_cstring(t->dict, "(anonymous)");
    const uint8_t *slash = memrchr(url.data, '/', url.len);
    if (slash)
        url = bytes_from(url, (size_t)(slash + 1 - url.data));
    buf_clear(&t->scratch);
    buf_add_str(&t->scratch, "(anonymous ");
    buf_add_bytes(&t->scratch, url);
    buf_add_byte(&t->scratch, ':');
    buf_add_i64(&t->scratch, f->line);
    buf_add_byte(&t->scratch, ')');
    return dict_string(t->dict, buf_bytes(&t->scratch));
}

static uint32_t add_location(struct v8_tree *t, uint32_t function, int64_t line, int64_t column)
{
    return dict_location(t->dict, (struct location){.type = t->frame_type},
                         &(struct line){function, line, column}, 1);
}

static void finish_frame(struct v8_tree *t, struct v8_node *n, struct v8_frame *f)
{
    n->is_root = t->drops_root && bytes_are(dict_text(t->dict, f->name), "(root)");
    if (f->name == 0)
        f->name = name_anonymous(t, f);
    n->function = dict_function(
        t->dict, (struct function){.name = f->name, .file = f->url, .start_line = f->line});
    n->location = add_location(t, n->function, f->line, f->column);
}

static void read_tick(struct v8_tree *t, struct json_reader *r, struct v8_node *n)
{
    int64_t line = 0, count = 0;

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "line"))
            line = json_get_i64(r);
        else if (bytes_are(key, "ticks") || bytes_are(key, "hitCount"))
            count = json_get_i64(r);
        else
            json_skip(r);
    }
    int64_t before = n->n_ticks ? vec_last(&t->ticks).until : 0;
    if (line <= 0 || count <= 0)
        return; /* V8 writes line 0 for ticks it cannot place */
    if (count > INT32_MAX || before > INT32_MAX - count) {
        json_fail(r, "a node has more than %d ticks", INT32_MAX);
        return;
    }
    if (n->n_ticks == 0)
        n->first_tick = (uint32_t)t->ticks.len;
    if (vec_push(t->dict->budget, &t->ticks,
                 (struct v8_tick){.line = line, .until = before + count}))
        n->n_ticks++;
}

/* "positionTicks", or "lineTicks" in old profiles: lines counted from 1. */
static void read_ticks(struct v8_tree *t, struct json_reader *r, struct v8_node *n)
{
    if (json_peek(r) == JSON_NULL || n->n_ticks > 0) {
        json_skip(r);
        return;
    }
    json_enter_array(r);
    while (json_next_element(r))
        read_tick(t, r, n);
}

static void set_id(struct v8_tree *t, struct json_reader *r, uint32_t at, int64_t id)
{
    struct v8_node *n = &t->nodes.data[at];

    if (json_failed(r))
        return;
    if (n->has_id || v8_tree_find(t, id) != V8_NO_NODE) {
        json_fail(r, "node id %lld is given twice", (long long)id);
        return;
    }
    n->id = id;
    n->has_id = true;
    idset_add(t->dict->budget, &t->index, hash_mix((uint64_t)id, 8), at);
}

static int64_t read_weight(struct json_reader *r)
{
    int64_t v = json_get_i64(r);
    if (v < 0)
        json_fail(r, "a node has a negative count or size");
    return v;
}

/* Nodes being read, outermost first: their frames are complete only at their ends. */
struct open_node {
    uint32_t at;
    bool in_children;
    struct v8_frame frame;
};

static void read_node_field(struct v8_tree *t, struct json_reader *r, struct bytes key,
                            struct open_node *open)
{
    struct v8_node *n = &t->nodes.data[open->at];

    if (bytes_are(key, "id")) {
        set_id(t, r, open->at, json_get_i64(r));
    } else if (bytes_are(key, "callFrame")) {
        read_call_frame(t, r, &open->frame);
    } else if (bytes_are(key, "parent")) {
        n->parent_id = json_get_i64(r);
        n->has_parent_id = true;
    } else if (bytes_are(key, "hitCount") || bytes_are(key, "selfSize")) {
        n->weight = read_weight(r);
    } else if (bytes_are(key, "positionTicks") || bytes_are(key, "lineTicks")) {
        read_ticks(t, r, n);
    } else if (bytes_are(key, "children")) {
        open->in_children = json_peek(r) != JSON_NULL;
        if (open->in_children)
            json_enter_array(r);
        else
            json_skip(r);
    } else if (!read_frame_field(t, r, key, &open->frame)) {
        json_skip(r);
    }
}

static bool begin_node(struct v8_tree *t, struct json_reader *r, uint32_t parent,
                       struct open_node *open)
{
    struct v8_node n = {.offset = json_offset(r), .parent = parent};

    json_enter_object(r);
    if (t->nodes.len >= V8_NO_NODE - 1)
        json_fail(r, "more than %u nodes", V8_NO_NODE - 1);
    if (json_failed(r) || !vec_push(t->dict->budget, &t->nodes, n))
        return false;
    *open = (struct open_node){.at = (uint32_t)t->nodes.len - 1};
    return true;
}

/* One element of "children": an id, or a node, which then becomes the innermost open one. */
static bool read_child(struct v8_tree *t, struct json_reader *r, struct open_node *open,
                       struct open_node *next)
{
    if (json_peek(r) == JSON_OBJECT)
        return begin_node(t, r, open->at, next);
    struct v8_edge edge = {open->at, json_get_i64(r)};
    if (!json_failed(r))
        vec_push(t->dict->budget, &t->edges, edge);
    return false;
}

void v8_tree_read_node(struct v8_tree *t, struct json_reader *r)
{
    struct open_node open[JSON_DEPTH_MAX / 2];
    size_t depth = 0;

    /* Each nested node is two levels of JSON, so entering fails before `open` overflows. */
    if (begin_node(t, r, V8_NO_NODE, &open[0]))
        depth = 1;
    while (depth > 0 && !json_failed(r)) {
        struct open_node *top = &open[depth - 1];
        struct bytes key;
        if (top->in_children) {
            if (!json_next_element(r))
                top->in_children = false;
            else if (read_child(t, r, top, &open[depth]))
                depth++;
        } else if (json_next_key(r, &key)) {
            read_node_field(t, r, key, top);
        } else if (!json_failed(r)) {
            finish_frame(t, &t->nodes.data[top->at], &top->frame);
            depth--;
        }
    }
}

void v8_tree_add(struct v8_tree *t, struct json_reader *r, struct v8_node node,
                 struct v8_frame frame)
{
    if (json_failed(r) || !vec_push(t->dict->budget, &t->nodes, node))
        return;
    struct v8_node *n = &vec_last(&t->nodes);
    n->parent = V8_NO_NODE;
    n->has_id = false;
    set_id(t, r, (uint32_t)t->nodes.len - 1, node.id);
    finish_frame(t, n, &frame);
}

void v8_tree_read_nodes(struct v8_tree *t, struct json_reader *r)
{
    json_enter_array(r);
    while (json_next_element(r))
        v8_tree_read_node(t, r);
}

static void set_parent(struct v8_tree *t, struct json_reader *r, uint32_t child, uint32_t parent)
{
    struct v8_node *n = &t->nodes.data[child];

    if (n->parent != V8_NO_NODE && n->parent != parent)
        json_fail_at(r, n->offset, "node %lld has two parents", (long long)n->id);
    n->parent = parent;
}

/* Traces name children that they leave out: those matter only to samples, which then fail. */
static void join(struct v8_tree *t, struct json_reader *r)
{
    for (size_t i = 0; i < t->edges.len && !json_failed(r); i++) {
        const struct v8_edge *e = &t->edges.data[i];
        uint32_t child = v8_tree_find(t, e->child_id);
        if (child != V8_NO_NODE)
            set_parent(t, r, child, e->parent);
    }
    for (size_t i = 0; i < t->nodes.len && !json_failed(r); i++) {
        const struct v8_node *n = &t->nodes.data[i];
        if (!n->has_parent_id)
            continue;
        uint32_t parent = v8_tree_find(t, n->parent_id);
        if (parent == V8_NO_NODE)
            json_fail_at(r, n->offset, "a node names parent %lld, which does not exist",
                         (long long)n->parent_id);
        else
            set_parent(t, r, (uint32_t)i, parent);
    }
}

static void make_stack(struct v8_tree *t, struct v8_node *n)
{
    if (n->parent != V8_NO_NODE) {
        const struct v8_node *p = &t->nodes.data[n->parent];
        n->parent_stack = p->is_root && p->parent == V8_NO_NODE ? 0 : p->stack;
    }
    n->stack = dict_node(t->dict, n->parent_stack, n->location);
    for (uint32_t i = 0; i < n->n_ticks; i++) {
        struct v8_tick *tick = &t->ticks.data[n->first_tick + i];
        tick->stack =
            dict_node(t->dict, n->parent_stack, add_location(t, n->function, tick->line, 0));
    }
    n->state = STATE_DONE;
}

/* Walks up from a node to the first that has its stack, then makes the stacks on the way down:
 * every node is walked over once. Coming upon the path again is a cycle. */
static void resolve_one(struct v8_tree *t, struct json_reader *r, uint32_t at)
{
    vec_clear(&t->path);
    while (at != V8_NO_NODE && t->nodes.data[at].state != STATE_DONE) {
        struct v8_node *n = &t->nodes.data[at];
        if (n->state == STATE_ON_PATH) {
            json_fail_at(r, n->offset, "a node is below itself");
            return;
        }
        n->state = STATE_ON_PATH;
        if (!vec_push(t->dict->budget, &t->path, at))
            return;
        at = n->parent;
    }
    while (t->path.len > 0)
        make_stack(t, &t->nodes.data[t->path.data[--t->path.len]]);
}

void v8_tree_resolve(struct v8_tree *t, struct json_reader *r)
{
    join(t, r);
    for (size_t i = 0; i < t->nodes.len && !json_failed(r); i++) {
        if (budget_failed(t->dict->budget))
            return;
        resolve_one(t, r, (uint32_t)i);
    }
}

uint32_t v8_tree_stack_at_line(struct v8_tree *t, uint32_t node, int64_t line)
{
    const struct v8_node *n = &t->nodes.data[node];
    return dict_node(t->dict, n->parent_stack, add_location(t, n->function, line, 0));
}
