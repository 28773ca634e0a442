#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "formats/text_cache.h"
#include "profile/dict.h"

/*
 * Stacks as text, "main;parse;read": root first, frames joined by ';'. What the formats that spell
 * stacks so have in common. A frame's suffix says its kind (formats/collapsed_names.h).
 *
 * Stacks that follow each other often begin alike: only what differs is looked up again.
 */

/* A frame of the stack before this one: where its text ends there, and the stack down to it. */
struct folded_level {
    uint32_t end;
    uint32_t node;
};

struct folded_stacks {
    struct dict *dict;
    struct text_cache frames; /* locations by frame text, suffix and all */
    VEC(uint8_t) previous;    /* the stack before */
    VEC(struct folded_level) levels;
    uint32_t kind_key;
};

void folded_stacks_init(struct folded_stacks *f, struct dict *dict);
void folded_stacks_done(struct folded_stacks *f);

/* The node of a stack, shorter than 4 GiB. Its first `shared` bytes are known to be those of the
 * stack before and are not compared; SIZE_MAX: not known. */
uint32_t folded_stack_node(struct folded_stacks *f, struct bytes stack, size_t shared);
