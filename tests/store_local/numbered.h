#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

/*
 * Profiles that are known by a number, from which all that is in them follows: whoever finds one
 * can tell whether it is whole.
 */
#define NUMBERED_FIRST_NS ((int64_t)1700000000 * 1000000000)
#define NUMBERED_STEP_NS  ((int64_t)20000000) /* fifty a second */

static inline int64_t numbered_start_ns(uint32_t number)
{
    return NUMBERED_FIRST_NS + (int64_t)number * NUMBERED_STEP_NS;
}

static inline int64_t numbered_value(int64_t number)
{
    return number % 1000 + 1;
}

static inline uint32_t numbered_stack(struct dict *d, const char *leaf)
{
    uint32_t root = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "main")}, 1, 0, 0);

    return dict_frame(d, root, (struct function){.name = dict_cstring(d, leaf)}, 2, 0, 0);
}

static inline int numbered_append(struct store_source *source, uint32_t number,
                                  struct store_outcome *ret, struct error *err)
{
    struct profile *p = profile_set_add(source->set);
    char name[32], pod[16];

    if (!p)
        return error_set(err, -ENOMEM, "no memory for a profile");
    profile_add_ctype(p, "cpu", "nanoseconds");
    p->time_unix_ns = numbered_start_ns(number);
    p->duration_ns = 1000;
    snprintf(name, sizeof(name), "work%u", number % 40);
    snprintf(pod, sizeof(pod), "p%u", number % 5);
    profile_add_value(p, numbered_stack(p->dict, name), numbered_value(number));
    if (number % 50 == 0) { /* now and then something that was never seen */
        snprintf(name, sizeof(name), "jit%u", number);
        profile_add_value(p, numbered_stack(p->dict, name), 0);
    }
    if (budget_failed(&source->budget)) {
        store_source_reset(source);
        return error_set(err, -ENOMEM, "no memory for a profile");
    }
    struct label labels[] = {{bytes_of("pod"), bytes_of(pod)},
                             {bytes_of(LABEL_SERVICE), bytes_of("checkout")}};
    struct store_incoming in = {
        .profile = p, .labels = labels, .n_labels = 2, .has_id = number % 2, .id = {1}};
    memcpy(in.id + 4, &number, sizeof(number));
    int r = store_append(source, bytes_of("default"), &in, 1, ret, err);
    store_source_reset(source);
    return r;
}

/* The number of a profile that was found, or -1 when it is none of these or has changed. */
static inline int64_t numbered_of(const struct store_found *f)
{
    int64_t number = (f->start_ns - NUMBERED_FIRST_NS) / NUMBERED_STEP_NS;

    if (f->start_ns < NUMBERED_FIRST_NS || f->totals[0] != numbered_value(number) ||
        profile_total(f->profile, 0) != numbered_value(number))
        return -1;
    return number;
}
