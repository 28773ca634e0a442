#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/idset.h"
#include "base/vec.h"
#include "profile/profile.h"
#include "wire/json.h"

/*
 * The call tree that V8's profiles share: CPU profiles, old and new, heap profiles, and the chunks
 * of CPU profiles in traces. Nodes are read in any order and form, nested or flat with "children"
 * or "parent" ids; v8_tree_resolve() then makes stacks of them.
 */
struct v8_node {
    int64_t id;
    uint64_t offset; /* where it stands in the document */
    int64_t parent_id;
    int64_t weight;  /* hitCount or selfSize */
    uint32_t parent; /* index, or V8_NO_NODE */
    uint32_t function, location;
    uint32_t first_tick, n_ticks;
    uint64_t tick, tick_step; /* v8_cpu.c: which tick the last sample took */
    uint32_t stack;           /* trie node, once resolved */
    uint32_t parent_stack;    /* of the caller */
    bool has_id, has_parent_id;
    bool is_root; /* "(root)" without a parent: no frame for its callees */
    uint8_t state;
};

#define V8_NO_NODE UINT32_MAX

/* How often a line of a node was seen ("positionTicks"). */
struct v8_tick {
    int64_t line;
    int64_t until; /* ticks of the node's lines up to and with this one */
    uint32_t stack;
};

struct v8_edge {
    uint32_t parent;
    int64_t child_id;
};

struct v8_tree {
    struct dict *dict;
    uint32_t frame_type;
    bool drops_root;
    VEC(struct v8_node) nodes;
    VEC(struct v8_tick) ticks;
    VEC(struct v8_edge) edges;
    VEC(uint32_t) path; /* scratch of v8_tree_resolve() */
    struct idset index; /* by id */
    struct buf scratch;
};

/* With drops_root, V8's "(root)" is no frame of the stacks above it. */
void v8_tree_init(struct v8_tree *t, struct dict *d, bool drops_root);
void v8_tree_done(struct v8_tree *t);

/* Reads one node with all below it. Iterative: nesting costs no stack. */
void v8_tree_read_node(struct v8_tree *t, struct json_reader *r);
/* Reads an array of nodes. */
void v8_tree_read_nodes(struct v8_tree *t, struct json_reader *r);

/* Adds a node without reading it: what "stackFrames" of traces hold. */
struct v8_frame {
    uint32_t name, url; /* strings */
    int64_t line, column;
};
void v8_tree_add(struct v8_tree *t, struct json_reader *r, struct v8_node node,
                 struct v8_frame frame);

/* The index of a node, or V8_NO_NODE. */
uint32_t v8_tree_find(const struct v8_tree *t, int64_t id);

/* Joins parents and children and fills in the stacks. Unknown or doubled parents and cycles fail
 * the reader. */
void v8_tree_resolve(struct v8_tree *t, struct json_reader *r);

/* The stack of a node with its innermost frame at this line. */
uint32_t v8_tree_stack_at_line(struct v8_tree *t, uint32_t node, int64_t line);
