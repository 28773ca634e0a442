#pragma once

#include "base/bytes.h"
#include "profile/dict.h"

/*
 * Stacks written as packed varint location ids, leaf first, as pprof and OTLP have them, turned
 * into nodes of the trie.
 *
 * Looking frames up one by one is what reading a profile mostly costs. Stacks are alike towards the
 * root, which is their end, so they are read from there in pieces of up to eight bytes, and what a
 * piece leads to from a node is remembered: one look-up for several frames. Only what is new is
 * read frame by frame.
 */
struct packed_stacks {
    struct dict *dict;

    /* Location of the dictionary by id in the file; 0 is not there. */
    const uint32_t *dense;
    size_t n_dense;
    /* The same for ids from n_dense on; NULL when there are none. */
    uint32_t (*find)(const void *context, uint64_t id);
    const void *context;

    struct packed_piece *pieces;
    size_t mask, n_pieces;
    bool is_full; /* the budget has no room for more */
    VEC(uint32_t) stack, path;

    /* After -EBADMSG: */
    const uint8_t *failed_at;
    uint64_t unknown_id;
    bool is_malformed; /* else unknown_id is not there */
};

#define PACKED_STACKS_AT_ONCE 16

/*
 * The nodes of n stacks, at most PACKED_STACKS_AT_ONCE: several at once take less time than one by
 * one. 8 bytes from each packed[i].data on are readable, as they are within what input_all() gave.
 *
 * Returns 0, -EBADMSG (see above) or -ENOBUFS.
 */
int packed_stacks_read(struct packed_stacks *s, const struct bytes *packed, size_t n,
                       uint32_t *ret_nodes);

/* Appends the locations of a piece of a stack to s->stack, for a stack in several pieces. */
int packed_stack_append(struct packed_stacks *s, struct bytes packed);

void packed_stacks_done(struct packed_stacks *s);
