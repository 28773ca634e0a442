/*
 * The two binary forms that Pyroscope's agents send to /ingest. Both are a tree, depth first:
 *
 *     node     := length name value count node*     `count` nodes follow as its children
 *     length, value, count: varints (LEB128)
 *
 * In a "tree" a node is a frame, its value what was measured in the frame itself; the root has no
 * name. In a "trie" a node's name is a piece of text: what stands on the way from the root spells a
 * stack, "main;parse", and the value is that stack's. Nothing tells them from other bytes, so they
 * are read only when asked for.
 */
#include <errno.h>

#include "formats/folded_stack.h"
#include "formats/formats.h"
#include "wire/protobuf.h"

/* A node some of whose children are still to come. */
struct open_node {
    uint64_t n_left;
    uint32_t node;      /* tree: the stack down to it */
    uint32_t key_len;   /* trie: how much of the key it and its parents are */
    uint64_t firsts[4]; /* trie: the first bytes of its children so far */
};

struct reader {
    bool is_trie;
    const uint8_t *start, *pos, *end;
    struct profile *profile;
    struct budget *budget;
    struct error *err;
    VEC(struct open_node) open;

    struct folded_stacks stacks;
    VEC(uint8_t) key;
    size_t shared; /* bytes of the key that the stack added last began with */
};

struct node {
    struct bytes name;
    uint64_t value, n_children;
};

static int fail(struct reader *r, const uint8_t *at, const char *why)
{
    return error_set(r->err, -EBADMSG, "pyroscope %s at byte %zu: %s", r->is_trie ? "trie" : "tree",
                     (size_t)(at - r->start), why);
}

static int read_node(struct reader *r, struct node *ret)
{
    const uint8_t *at = r->pos;
    uint64_t len;

    if (!pb_varint(&r->pos, r->end, &len))
        return fail(r, at,
                    at == r->end ? "nodes are missing: it is cut short"
                                 : "the length of a name is cut short or too long");
    if (len > (size_t)(r->end - r->pos))
        return fail(r, at, "a name runs past the end");
    ret->name = (struct bytes){r->pos, (size_t)len};
    r->pos += len;
    at = r->pos;
    if (!pb_varint(&r->pos, r->end, &ret->value))
        return fail(r, at, "a value is cut short or too long");
    if (ret->value > INT64_MAX)
        return fail(r, at, "a value is too large");
    at = r->pos;
    if (!pb_varint(&r->pos, r->end, &ret->n_children))
        return fail(r, at, "a number of children is cut short or too long");
    return 0;
}

/* The children of a node part at their first byte, or there would be a node for what they share.
 * Without that, few bytes could spell the same long frame without end. */
static int check_first_byte(struct reader *r, struct open_node *parent, struct bytes name)
{
    uint8_t c = name.len ? name.data[0] : 0;

    if (name.len == 0)
        return fail(r, r->pos, "a node below the root has no name");
    if (parent->firsts[c / 64] >> (c % 64) & 1)
        return fail(r, name.data, "two children of a node begin alike");
    parent->firsts[c / 64] |= (uint64_t)1 << (c % 64);
    return 0;
}

static int add_piece(struct reader *r, const struct node *n, struct open_node *ret)
{
    struct open_node *parent = r->open.len ? &vec_last(&r->open) : NULL;
    size_t before = parent ? parent->key_len : 0;
    int e = parent ? check_first_byte(r, parent, n->name) : 0;
    if (e < 0)
        return e;

    r->key.len = before;
    r->shared = before < r->shared ? before : r->shared;
    if (n->name.len > UINT32_MAX - before)
        return fail(r, n->name.data, "a stack is longer than 4 GiB");
    vec_append(r->budget, &r->key, n->name.data, n->name.len);
    ret->key_len = (uint32_t)(before + n->name.len);
    if (n->value > 0 && !budget_failed(r->budget)) {
        struct bytes key = {r->key.data, r->key.len};
        uint32_t node = key.len ? folded_stack_node(&r->stacks, key, r->shared) : 0;
        r->shared = key.len;
        profile_add_value(r->profile, node, (int64_t)n->value);
    }
    return 0;
}

static void add_frame(struct reader *r, const struct node *n, struct open_node *ret)
{
    struct dict *d = r->profile->dict;
    uint32_t parent = r->open.len ? vec_last(&r->open).node : 0;
    bool is_root = r->open.len == 0 && n->name.len == 0;

    ret->node = is_root ? 0
                        : dict_frame(d, parent, (struct function){.name = dict_string(d, n->name)},
                                     0, 0, 0);
    if (n->value > 0)
        profile_add_value(r->profile, ret->node, (int64_t)n->value);
}

static int read_nodes(struct reader *r)
{
    do {
        struct node n = {0};
        struct open_node o = {0};
        int e = read_node(r, &n);
        if (e == 0 && r->is_trie)
            e = add_piece(r, &n, &o);
        else if (e == 0)
            add_frame(r, &n, &o);
        if (e < 0)
            return e;
        if (r->open.len > 0)
            vec_last(&r->open).n_left--;
        o.n_left = n.n_children;
        vec_push(r->budget, &r->open, o);
        while (r->open.len > 0 && vec_last(&r->open).n_left == 0)
            r->open.len--;
        if (budget_failed(r->budget))
            return budget_error(r->budget, r->err);
    } while (r->open.len > 0);
    if (r->pos < r->end)
        return fail(r, r->pos, "bytes follow behind the last node");
    return 0;
}

static void reader_done(struct reader *r)
{
    vec_done(r->budget, &r->open);
    vec_done(r->budget, &r->key);
    folded_stacks_done(&r->stacks);
}

static int decode(struct input *in, bool is_trie, struct profile_set *out, struct error *err)
{
    struct bytes all;
    int r = input_all(in, &all, err);
    if (r < 0)
        return r;
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);
    profile_add_ctype(p, "samples", "count");

    CLEANUP(reader_done)
    struct reader reader = {.is_trie = is_trie,
                            .start = all.data,
                            .pos = all.data,
                            .end = all.data + all.len,
                            .profile = p,
                            .budget = out->budget,
                            .err = err};
    folded_stacks_init(&reader.stacks, out->dict);
    return read_nodes(&reader);
}

static int tree_decode(struct input *in, struct profile_set *out, struct error *err)
{
    return decode(in, false, out, err);
}

static int trie_decode(struct input *in, struct profile_set *out, struct error *err)
{
    return decode(in, true, out, err);
}

const struct format format_pyroscope_tree = {
    .name = "pyroscope-tree",
    .title = "Pyroscope's binary tree (only when named)",
    .decode = tree_decode,
};

const struct format format_pyroscope_trie = {
    .name = "pyroscope-trie",
    .title = "Pyroscope's binary trie (only when named)",
    .decode = trie_decode,
};
