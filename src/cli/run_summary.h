#pragma once

#include <stdio.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/idset.h"
#include "base/vec.h"
#include "profile/profile.h"

/*
 * What a run comes down to, told at its end: the code that allocated most, what was left, leak
 * suspects, waits for locks. Made of named profiles, window by window.
 */
struct summary_site {
    uint32_t name; /* string: "function file:line" */
    double values[3];
    int64_t seen_unix_ns; /* of suspects: the end of the last window that had it */
};

/* One list: sums by site. */
struct summary_list {
    struct idset index;
    VEC(struct summary_site) sites;
    double totals[3];
};

enum summary_kind {
    SUMMARY_ALLOC,
    SUMMARY_HEAP,
    SUMMARY_SUSPECTS,
    SUMMARY_LOCK,
    SUMMARY_THREADS,
    SUMMARY_CONDITIONS,
    SUMMARY_KINDS
};

enum { SUMMARY_LOSSES = 7 };

struct run_summary {
    struct budget budget;
    struct dict *names;
    struct summary_list lists[SUMMARY_KINDS];
    uint64_t lost[SUMMARY_LOSSES];
    int64_t end_unix_ns; /* of the last window */
};

void run_summary_init(struct run_summary *s);
void run_summary_done(struct run_summary *s);

/* Adds a window's profiles. Live memory is that of the last window; suspects are kept, as they were
 * when they were last named: a leak may rest at the end, or its process be gone. */
void run_summary_add(struct run_summary *s, const struct profile_set *set, int64_t end_unix_ns);

/* The site that a stack is told by: the innermost frame that is the program's own, not that of an
 * allocator or a standard library. "function file:line" in `to`. */
void run_summary_site(const struct dict *d, uint32_t node, struct buf *to);

void run_summary_print(struct run_summary *s, struct buf *out);
