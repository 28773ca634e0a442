#pragma once

#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "profile/profile.h"

/*
 * A profile of samples/count whose stacks are written "main;parse;read" outermost first; "a+b" is b
 * inlined into a; a name may stand in a binary: "lib.so!f".
 */
struct fixture {
    struct budget budget;
    struct profile_set *set;
    struct profile *p;
};

static inline void fixture_init(struct fixture *f)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->set = profile_set_new(&f->budget);
    f->p = profile_set_add(f->set);
    profile_add_ctype(f->p, "samples", "count");
}

static inline void fixture_done(struct fixture *f)
{
    profile_set_free(f->set);
}

static inline uint32_t location(struct dict *d, char *text)
{
    struct line lines[8];
    size_t n = 0;
    struct location l = {0};
    char *bang = strchr(text, '!');

    if (bang) {
        *bang = '\0';
        l.mapping = dict_mapping(d, (struct mapping){.limit = 1, .file = dict_cstring(d, text)});
        text = bang + 1;
    }
    for (char *save, *name = strtok_r(text, "+", &save); name; name = strtok_r(NULL, "+", &save))
        lines[n++] = (struct line){
            .function = dict_function(d, (struct function){.name = dict_cstring(d, name)})};
    for (size_t i = 0; i < n / 2; i++) {
        struct line swap = lines[i];
        lines[i] = lines[n - 1 - i];
        lines[n - 1 - i] = swap;
    }
    return dict_location(d, l, lines, n);
}

static inline uint32_t stack(struct dict *d, const char *text)
{
    char *copy = strdup(text);
    uint32_t node = 0;

    for (char *save, *one = strtok_r(copy, ";", &save); one; one = strtok_r(NULL, ";", &save))
        node = dict_node(d, node, location(d, one));
    free(copy);
    return node;
}

static inline void add(struct fixture *f, const char *text, int64_t value)
{
    profile_add_value(f->p, stack(f->set->dict, text), value);
}
