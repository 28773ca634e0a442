#pragma once

#include "base/arena.h"
#include "base/idset.h"
#include "profile/profile.h"

/* What one entry of a report stands for. */
enum granularity {
    GRANULARITY_DEFAULT, /* what the report is usually shown by: functions for most */
    GRANULARITY_FUNCTIONS,
    GRANULARITY_FILEFUNCTIONS,
    GRANULARITY_FILES,
    GRANULARITY_LINES,
    GRANULARITY_ADDRESSES,
    GRANULARITY_PACKAGES,
    GRANULARITY_BINARIES,
};

/*
 * Locations seen at a granularity: each location is one frame or, with inlining, several, and equal
 * frames have one id, whatever locations they come from. Reports count per frame.
 *
 * A frame holds what pprof's entries hold, so that entries here are equal exactly where they are
 * equal there. Id 0 is no frame.
 */
struct frame {
    uint32_t name;       /* string: function, package, or binary */
    uint32_t file;       /* string: source file, trimmed and cleaned */
    uint32_t object;     /* string: binary; only where there is no name or objects are kept */
    uint32_t type;       /* string: frame type of the location it was first seen in; not compared */
    uint32_t source;     /* string: source file it was first seen in, as it came; not compared */
    uint32_t mapping;    /* the first that was known of a location with it; not compared */
    int64_t source_line; /* where its function starts, as it was first seen; not compared */
    uint64_t address;
    int64_t start_line;
    int64_t line;
    int64_t column;
};

/* Where a frame is in its file: the line itself, or where its function starts; 0: not known. */
static inline int64_t frame_line(const struct frame *f)
{
    return f->line ? f->line : f->source_line;
}

struct frame_options {
    enum granularity granularity;
    bool no_inlines;   /* only the function that was really called */
    bool show_columns; /* lines have columns */
    bool keep_objects; /* functions of different binaries are different */
    bool by_name;      /* what is called the same is one frame: a file, whatever is in it */
    bool name_unknown; /* what has no name is called BINARY+0xADDRESS and kept apart */
    /* Of trees: a frame that is called by itself is one frame, however often. What recurs by way of
     * others is not. Graphs never have calls of a frame by itself. */
    bool collapse_recursion;
    bool keep_paths;                     /* file names are cleaned but not trimmed */
    const char *trim_path, *source_path; /* as path_trim() takes them; NULL is fine */
};

struct frames {
    struct dict *dict;
    struct frame_options options;
    VEC(struct frame) all;
    VEC(bool) is_inlined;    /* per frame: whether some location has it inlined into another */
    VEC(uint32_t) ids;       /* frames of the locations seen so far, innermost first */
    VEC(uint32_t) first;     /* per location: where its frames start in ids, + 1; 0 is not seen */
    VEC(uint32_t) count;     /* per location */
    VEC(uint32_t) files;     /* per string: it trimmed and cleaned, + 1; 0 is not known */
    VEC(const char *) names; /* per frame: its printable name, once asked for */
    struct idset index;
    struct arena text;
};

void frames_init(struct frames *f, struct dict *d, struct frame_options options);
void frames_done(struct frames *f);

/* frames_of() for a location that was not seen yet. */
size_t frames_resolve(struct frames *f, uint32_t location, uint32_t *ret_n);

/*
 * The frames of a location: *ret_n ids starting at f->ids.data[return value], innermost first.
 * There is at least one, unless the budget is spent (then there are none).
 */
static inline size_t frames_of(struct frames *f, uint32_t location, uint32_t *ret_n)
{
    if (location < f->first.len && f->first.data[location] != 0) {
        *ret_n = f->count.data[location];
        return f->first.data[location] - 1;
    }
    return frames_resolve(f, location, ret_n);
}

/* "0000000000401000 main.main /src/main.go:7": what reports print; valid until frames_done(). */
const char *frames_name(struct frames *f, uint32_t frame);

/* The package part of a function name: "net/http" of "net/http.(*conn).serve", "std" of
 * "std::sort", "java.util" of "java.util.HashMap.get"; "" when it has none. */
struct bytes frames_package(struct bytes function);
