#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/budget.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/idset.h"
#include "base/vec.h"

/*
 * The dictionary: every name, place and stack that profiles refer to, each stored once and known by
 * a u32 id. Many profiles share one dictionary, so adding them up never compares a string.
 *
 * - Id 0 of every table is the null element ("" , no mapping, the empty stack...).
 * - Adding is interning: an equal element yields the id it already has. Ids only grow and an
 *   element never changes, so ids and strings stay valid for the dictionary's life.
 * - A stack is a node of a trie: its parent (the caller's stack) and its innermost location. Every
 *   parent has a smaller id than its children, so totals are one backward pass over `parent`.
 * - When the budget is spent, adding yields 0 and the budget stays failed; check it at the end.
 *
 * Tables are read directly through the vecs below (dict->functions.data[id]...). Only dict.c and
 * trie.c write them. Not thread-safe while something is being added.
 */

/* A function as its source knows it. Equal when all four agree. */
struct function {
    uint32_t name;        /* string: for people */
    uint32_t system_name; /* string: as the linker knows it; may equal name or be 0 */
    uint32_t file;        /* string */
    int64_t start_line;
};

/* A binary, or another region of memory that code ran from. */
struct mapping {
    uint64_t start, limit, offset; /* addresses of the region, and its place in the file */
    uint32_t file;                 /* string */
    uint32_t build_id;             /* string: GNU build id in hex, or whatever pprof carried */
    uint32_t attrs;                /* attribute set: other ids and attributes */
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct line {
    uint32_t function;
    int64_t line;
    int64_t column;
};

/*
 * A place in code: an address in a mapping and, once symbolized, its lines. With inlining there are
 * several: the first is the innermost, the last the function that was really called.
 */
struct location {
    uint64_t address;
    uint32_t mapping;
    uint32_t type;  /* string: profile.frame.type: "native", "kernel", "go", "jvm", "v8js"... */
    uint32_t attrs; /* attribute set */
    uint32_t first_line; /* into dict->lines; dict_location() fills both in */
    uint32_t n_lines;
    bool is_folded; /* other locations were folded into this one by its source */
};

enum attribute_kind {
    ATTRIBUTE_NONE,
    ATTRIBUTE_STRING, /* text */
    ATTRIBUTE_INT,    /* number */
    ATTRIBUTE_BOOL,   /* number */
    ATTRIBUTE_DOUBLE, /* number holds its bits */
    ATTRIBUTE_BYTES,  /* text holds the bytes */
    ATTRIBUTE_OTHER,  /* text holds an OTLP AnyValue message (array or list), names inline */
};

/* A label: key, value, and the value's unit where it has one. */
struct attribute {
    uint32_t key;  /* string */
    uint32_t unit; /* string */
    uint32_t text; /* string */
    enum attribute_kind kind;
    int64_t number;
};

/* A span that a sample was taken in. */
struct link {
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

/* A set of attributes: attr_ids.data[first .. first + n), ascending. */
struct attrs {
    uint32_t first;
    uint32_t n;
};

struct dict_string {
    const char *text; /* NUL-terminated */
    uint32_t len;
    uint32_t hash;
};

struct trie_slot {
    uint32_t parent, location; /* location 0 is free: no child has it */
    uint32_t node;
};

struct dict {
    struct budget *budget;
    struct arena text;

    VEC(struct dict_string) strings;
    VEC(struct function) functions;
    VEC(struct mapping) mappings;
    VEC(struct location) locations;
    VEC(struct line) lines; /* of locations */
    VEC(struct attribute) attributes;
    VEC(struct attrs) attr_sets;
    VEC(uint32_t) attr_ids; /* of attr_sets */
    VEC(struct link) links;

    /* The stack trie, two columns. Node 0 is the empty stack. */
    VEC(uint32_t) node_parent;
    VEC(uint32_t) node_location;

    struct idset string_index, function_index, mapping_index, location_index, attribute_index,
        attr_set_index, link_index;
    struct trie_slot *trie_slots;
    size_t trie_mask;
    size_t trie_used; /* slots taken */

    /* Profiles of one process list their tables in much the same order: the element behind the one
     * found last is looked at before the index is. */
    uint32_t next_string, next_function, next_location;
};

/* The budget must outlive the dictionary. Never NULL: even a budget of 0 makes a dictionary, one in
 * which everything is null. */
struct dict *dict_new(struct budget *budget);
void dict_free(struct dict *d); /* NULL is fine */
DEFINE_CLEANUP(struct dict *, dict_free)

/*
 * Room for this many more elements, for a decoder that has counted: tables then grow once. Only a
 * wish: what would take a large part of the budget is not granted, and nothing fails.
 */
struct dict_room {
    size_t strings, functions, locations, lines;
};
void dict_reserve(struct dict *d, struct dict_room room);

uint32_t dict_string(struct dict *d, struct bytes s);
uint32_t dict_cstring(struct dict *d, const char *s);

/* The id of a string that is already there, or 0. Adds nothing. */
uint32_t dict_find_string(const struct dict *d, struct bytes s);

uint32_t dict_function(struct dict *d, struct function f);
uint32_t dict_mapping(struct dict *d, struct mapping m);

/* first_line and n_lines of `l` are ignored: the lines are `lines[0..n)`, innermost first. A
 * location of which nothing is known is still a frame, so it gets an id of its own, not 0. */
uint32_t dict_location(struct dict *d, struct location l, const struct line *lines, size_t n);

uint32_t dict_attribute(struct dict *d, struct attribute a);
uint32_t dict_string_attribute(struct dict *d, uint32_t key, uint32_t text);
uint32_t dict_int_attribute(struct dict *d, uint32_t key, int64_t number, uint32_t unit);

/* A set of attribute ids. Sorts `ids` in place and drops repetitions and zeros. */
uint32_t dict_attrs(struct dict *d, uint32_t *ids, size_t n);
/* The same of what is already there, or 0. These add nothing. */
uint32_t dict_find_attribute(const struct dict *d, struct attribute a);
uint32_t dict_find_attrs(const struct dict *d, uint32_t *ids, size_t n);
/* The union of a set and one more attribute. */
uint32_t dict_attrs_with(struct dict *d, uint32_t set, uint32_t attribute);
/* The attribute with this key in a set, or 0; the first when there are several. */
uint32_t dict_attrs_get(const struct dict *d, uint32_t set, uint32_t key);

uint32_t dict_link(struct dict *d, struct link l);

/* trie.c: the stack that is `parent` with `location` called from it. Location 0 yields parent. */
uint32_t dict_node(struct dict *d, uint32_t parent, uint32_t location);

/*
 * The stack `from` with these locations, innermost (leaf) first, called from it. When path is not
 * NULL it has n elements and path[i] becomes the stack of the i + 1 outermost of them: whoever
 * reads many stacks keeps it, and goes on from where the next one parts from this one. No location
 * is 0.
 */
uint32_t dict_path(struct dict *d, uint32_t from, const uint32_t *leaf_first, size_t n,
                   uint32_t *path);

/* The stack of these locations, innermost (leaf) first, as most formats give them. */
uint32_t dict_stack(struct dict *d, const uint32_t *leaf_first, size_t n);

/*
 * A stack of one named frame on top of parent, for formats that know names only: interns the
 * function and a location without address. `type` is a frame type string or 0.
 */
uint32_t dict_frame(struct dict *d, uint32_t parent, struct function f, int64_t line,
                    int64_t column, uint32_t type);

static inline struct bytes dict_text(const struct dict *d, uint32_t id)
{
    return (struct bytes){(const uint8_t *)d->strings.data[id].text, d->strings.data[id].len};
}

static inline const char *dict_cstr(const struct dict *d, uint32_t id)
{
    return d->strings.data[id].text;
}

static inline size_t dict_n_nodes(const struct dict *d)
{
    return d->node_parent.len;
}
