#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/idset.h"
#include "base/vec.h"

/*
 * Remembers a number for each text met before: text formats spell the same frame thousands of
 * times, and looking it up whole is cheaper than taking it apart again.
 */
struct cached_text {
    const char *text;
    uint32_t len;
    uint32_t value;
};

struct text_cache {
    struct budget *budget;
    struct arena text;
    VEC(struct cached_text) entries;
    struct idset index;
};

void text_cache_init(struct text_cache *c, struct budget *budget);
void text_cache_done(struct text_cache *c);

/* True and the number when it is known. Texts of 4 GiB and more never are. */
bool text_cache_find(const struct text_cache *c, struct bytes text, uint32_t *ret);

/* Remembers a text that is not there yet; does nothing when the budget is spent. */
void text_cache_add(struct text_cache *c, struct bytes text, uint32_t value);
