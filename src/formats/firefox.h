#pragma once

#include "formats/firefox_tables.h"
#include "profile/profile.h"

/*
 * Firefox profiles in memory, between reading (firefox.c) and resolving (firefox_resolve.c): tables
 * may come in any order, so nothing is resolved before a process has been read whole.
 */
enum { SAMPLES_STACK, SAMPLES_TIME, SAMPLES_DELTA, SAMPLES_WEIGHT, SAMPLES_CPU };
enum { STACK_FRAME, STACK_PREFIX };
enum { FRAME_FUNC, FRAME_LOCATION, FRAME_LINE, FRAME_COLUMN, FRAME_ADDRESS };
enum { FUNC_NAME, FUNC_RESOURCE, FUNC_FILE, FUNC_LINE, FUNC_SOURCE };
enum { RESOURCE_NAME, RESOURCE_LIB };
enum { SOURCE_FILE };

enum firefox_tables {
    T_SAMPLES,
    T_STACKS,
    T_FRAMES,
    T_FUNCS,
    T_RESOURCES,
    T_SOURCES,
    T_MARKERS,
    T_COUNT
};

/* A binary. Addresses of frames are relative to its start in processed profiles. */
struct firefox_lib {
    uint64_t start, end;
    uint32_t mapping;
};

typedef VEC(struct bytes) firefox_strings;
typedef VEC(struct firefox_lib) firefox_libs;

struct firefox_thread {
    struct firefox_table tables[T_COUNT];
    firefox_strings strings;
    firefox_libs libs;
    uint32_t name, process_name; /* strings */
    int64_t tid, pid;            /* -1 when not known */
};

/* A process: a whole file or an element of "processes". */
struct firefox_process {
    struct arena text;
    VEC(struct firefox_thread) threads;
    struct firefox_thread shared; /* tables that threads have in common, in newer versions */
    double start_ms, interval_ms;
    uint32_t cpu_unit; /* string: of threadCPUDelta */
};

/* What all processes of a file have in common. */
struct firefox {
    struct profile_set *out;
    struct dict *dict;
    struct budget *budget;
    struct profile *p;
    int64_t first_ns, last_ns; /* of all samples; 0 before there is one */
    int depth;                 /* processes within processes, and JSON within JSON */
};

/* Adds the samples of all threads of a process. 0 or a negative errno; the texts say which thread.
 */
int firefox_resolve(struct firefox *f, struct firefox_process *process, struct error *err);
