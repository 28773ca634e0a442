#pragma once

#include "store_local/ask_all.h"

/* Few things of every kind. */
static inline void make_small(struct test *t, struct fixture *f, struct sim_fs *sim)
{
    int64_t hour = NOW_NS - NOW_NS % HOUR_NS;
    CLEANUP(selector_freep) struct selector *gone = NULL;

    kept_init(f);
    CHECK_INT(t, kept_open(f, sim, false), 0);
    kept_fill(t, f, "default", "a", hour - 3 * HOUR_NS, 12);
    kept_fill(t, f, "default", "b", hour - 3 * HOUR_NS, 6);
    kept_spans(t, f, hour - 3 * HOUR_NS, 2);
    kept_upkeep(t, f, UPKEEP_SETTLE);
    kept_fill(t, f, "default", "c", hour - HOUR_NS, 2);
    CHECK_INT(t, selector_parse(bytes_of("{pod=\"b\"}"), &gone, &f->err), 0);
    CHECK_INT(t,
              store_erase(f->store,
                          &(struct store_scope){bytes_of("default"), gone, hour - 3 * HOUR_NS,
                                                hour - 3 * HOUR_NS + 20 * SEC_NS},
                          &f->err),
              0);
    kept_fill(t, f, "other", "d", hour, 2);
    kept_spans(t, f, hour, 2);
    fixture_crash(f);
}
