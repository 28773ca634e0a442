#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * A memory budget: the byte limit of one piece of work (one file being read, one request, one
 * query). Everything sized by input is taken from a budget, so hostile sizes end in an error and
 * never in a dead process.
 *
 * Failure is sticky: once a request did not fit, `failed` stays set. Code that builds tables may
 * therefore push freely (a push that does not fit does nothing) and check budget_failed() in its
 * outer loop and at the end.
 *
 * Not thread-safe: a budget belongs to whoever is doing the work.
 */
struct budget {
    size_t used;
    size_t limit;
    size_t asked; /* the first request that did not fit... */
    size_t stood; /* ...and what was in use then */
    bool failed;
    struct budget_keep *keep; /* NULL: blocks that are freed or outgrown go at once */
};

/*
 * With one of these at `keep`, memory that is given up stays where it is, charged, until
 * budget_reclaim(). Tables whose elements never change once added can then be read without a lock
 * while their owner adds to them: a reader that was handed (data, len) reads on in a block that has
 * been outgrown since. A zeroed one is empty; it lives longer than what is charged to the budget.
 */
struct budget_keep {
    struct budget_kept *first;
    size_t bytes; /* given up and still charged */
};

#define BUDGET_DEFAULT_BYTES ((size_t)1 << 30)

static inline void budget_init(struct budget *b, size_t limit_bytes)
{
    *b = (struct budget){.limit = limit_bytes};
}

/* Marks the budget as spent by a request of n bytes. The first one is what people are told of. */
static inline void budget_fail(struct budget *b, size_t n)
{
    if (!b->failed) {
        b->asked = n;
        b->stood = b->used;
    }
    b->failed = true;
}

static inline bool budget_take(struct budget *b, size_t n)
{
    if (n > b->limit - b->used) {
        budget_fail(b, n);
        return false;
    }
    b->used += n;
    return true;
}

static inline void budget_give(struct budget *b, size_t n)
{
    b->used -= n;
}

static inline bool budget_failed(const struct budget *b)
{
    return b->failed;
}

#define BUDGET_TEXT_MAX 32

/* A number of bytes for people, "1.0 GiB", in `text`, which it returns. */
const char *budget_text(size_t n, char text[BUDGET_TEXT_MAX]);

/* -ENOBUFS with a text that names the limit, its value and what was asked for. */
int budget_error(const struct budget *b, struct error *err);

/*
 * realloc() within a budget: true and *p of new_size bytes, or false with *p as it was. Large
 * blocks move by remapping, so growing by doubling touches no memory twice. When outgrown blocks
 * are kept, growing takes all of new_size.
 */
bool budget_resize(struct budget *b, void **p, size_t old_size, size_t new_size);
void budget_free(struct budget *b, void *p, size_t size);

/* budget_free() of what no reader can have, such as an index only its owner searches: not kept. */
void budget_drop(struct budget *b, void *p, size_t size);

/* Frees all that was kept. For the owner, once no reader is left. */
void budget_reclaim(struct budget *b);
