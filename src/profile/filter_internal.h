#pragma once

#include "profile/filter.h"

/* A pattern and what it said about each string so far: names repeat far more often than they
 * differ. */
struct matcher {
    const struct regex *re;
    struct budget *budget;
    bool simplify;     /* look at the function without its arguments */
    VEC(uint8_t) memo; /* per string: 0 not asked, 1 no, 2 yes */
};

void matcher_init(struct matcher *m, const struct regex *re, struct budget *b);
void matcher_done(struct matcher *m);

/* Function name or source file of a line; and the binary of a location. */
bool matcher_line(struct matcher *m, const struct dict *d, const struct line *line);
bool matcher_mapping(struct matcher *m, const struct dict *d, uint32_t location);

/* Function name alone. */
bool matcher_function(struct matcher *m, const struct dict *d, const struct line *line);

/*
 * Frame by frame from the outermost: what a stack becomes follows from what its caller became. One
 * pass over the stacks that samples use.
 */
struct stack_state {
    uint32_t node;  /* what it is now */
    uint32_t flags; /* the filter's own */
    bool is_used;
};

struct stack_pass {
    struct profile *p;
    struct dict *dict;
    VEC(struct stack_state) state; /* per stack; [0] is the empty one */

    /* Per location, made on first use by `look`: what it becomes (0: nothing) and the filter's
     * flags; is_known says so. */
    struct seen_location {
        uint32_t to;
        uint32_t flags;
        bool is_known;
    } * locations;
    size_t n_locations;

    void *context;
    struct seen_location (*look)(void *context, uint32_t location);
    struct stack_state (*step)(void *context, struct stack_state above, struct seen_location l);
};

/* Fills in `state` for all stacks in use. False when the budget is spent. stack_pass_done() is due
 * either way. */
bool stack_pass_run(struct stack_pass *s);
void stack_pass_done(struct stack_pass *s);

/* Gives each row its new stack and keeps those for which keep(state) holds. */
void stack_pass_apply(struct stack_pass *s, bool (*keep)(const struct stack_state *s));

/* The location with only the run [from, to) of its lines. */
uint32_t filter_lines(struct dict *d, uint32_t location, uint32_t from, uint32_t to);
