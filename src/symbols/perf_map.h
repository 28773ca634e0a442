#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/vec.h"

/*
 * Names of code made at run time, as JIT compilers write them to /tmp/perf-PID.map: one function
 * per line, "START SIZE NAME" with both numbers in hex. Where code was replaced, the later line
 * counts.
 */
struct perf_map_entry {
    uint64_t start, end;
    const char *name;
    uint32_t line; /* of the file */
};

struct perf_map {
    struct budget *budget;
    struct arena text;
    VEC(struct perf_map_entry) entries; /* ascending by start, then by line */
    size_t skipped;                     /* lines that are not such an entry */
};

/* The budget must outlive the map. -EBADMSG when no line is an entry; -ENOBUFS. */
int perf_map_parse(struct perf_map *m, struct bytes text, struct budget *budget, struct error *err);

/* Reads the file, which must be plain and belong to this user or root: anyone may write to /tmp. */
int perf_map_read(struct perf_map *m, const char *path, struct budget *budget, struct error *err);

void perf_map_done(struct perf_map *m); /* a zeroed map is fine */

/* The name of the code at an address, or NULL. */
const char *perf_map_find(const struct perf_map *m, uint64_t address);
