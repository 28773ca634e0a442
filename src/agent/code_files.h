#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "host/inspect.h"
#include "host/name_cache.h"
#include "host/name_table.h"
#include "host/parse.h"
#include "host/worker.h"
#include "probe/probe.h"

/*
 * The programs and libraries that profiled processes run, each once, however many map it: its
 * facts, its unwind table in the kernel, its names. Everything about them is asked of the workers
 * and comes later; a file is useful as far as it is known.
 */
enum code_file_state {
    CODE_FILE_ASKED, /* being opened and parsed */
    CODE_FILE_KNOWN, /* `parsed` is there */
    CODE_FILE_BAD,   /* cannot be opened or read: code by frame pointers, without names */
};

enum code_part { /* of a file: its names, its unwind table */
                 CODE_PART_NONE,
                 CODE_PART_ASKED,
                 CODE_PART_READY,
                 CODE_PART_MISSING, /* there is none, or it could not be made */
};

struct code_file {
    uint32_t number; /* the probe's; places have it */
    uint32_t refs;   /* mappings of processes */
    enum code_file_state state;
    uint64_t inode;
    uint32_t device_major, device_minor;
    char *path;
    uint32_t owner; /* uid */
    struct parse_file parsed;
    enum code_part unwind, names;
    struct name_table *table;
    int fd, debug_fd;   /* -1: closed */
    bool is_fresh;      /* just opened */
    int64_t opened_ns;  /* monotonic */
    int64_t idle_since; /* monotonic: nobody maps it; 0: somebody does */
    bool has_no_room;   /* its table did not fit */
    bool is_untried;    /* what is missing of it may be there after another try */
    unsigned hangs;     /* of workers, on it: few are enough, as its owner may make them */
    unsigned tries;     /* in vain */
    int64_t retry_ns;   /* monotonic: the next; 0: to be set */
    bool wants_debug;   /* has no symbols of its own, and a debug file has not been looked for */
    unsigned debug_tried;
    bool offered; /* for upload */

    /* Where to open it again. */
    uint32_t pid;
    uint64_t start_ns, begin, end;

    /* In the dictionary of this generation. */
    uint32_t mapping, generation;
};

struct code_files;

struct code_files_options {
    struct probe *probe; /* may be NULL: no unwind tables are put */
    struct worker *inspector, *parser;
    struct name_cache *cache;
    const char *const *debug_dirs;
    size_t n_debug_dirs;
    bool wants_names;
    bool is_eager;              /* unwind tables are made before a walk needs them */
    bool keeps_open;            /* files stay open: lines will be asked of them */
    void (*changed)(void *arg); /* something was learnt: processes that wait may be complete */
    void (*forgotten)(void *arg, uint32_t number); /* the number will mean another file */
    /* What went wrong with a file, for the log; may be NULL. */
    void (*complain)(void *arg, const struct code_file *f, int r, const char *text);
    /* A file whose debug info could be uploaded; may be NULL. The descriptor is borrowed. */
    void (*offer)(void *arg, const struct code_file *f, int fd);
    void *arg;
};

struct code_files *code_files_new(const struct code_files_options *o);
void code_files_free(struct code_files *files); /* NULL is fine */

/* The file of a mapping, held for it; NULL when it has none or no number is free. */
struct code_file *code_files_hold(struct code_files *files, const struct inspect_process *p,
                                  const struct inspect_mapping *m);
void code_files_let_go(struct code_files *files, struct code_file *f);
struct code_file *code_files_get(struct code_files *files, uint32_t number); /* or NULL */

/* It is not known, and may be later. */
static inline bool code_file_is_pending(const struct code_file *f)
{
    return f->state == CODE_FILE_ASKED || (f->state == CODE_FILE_BAD && f->is_untried);
}

/* False when its bias is not known: no part of the file that is code is mapped there. */
bool code_file_bias(const struct code_file *f, const struct inspect_mapping *m, uint64_t *ret);

/* Names will be needed. */
void code_file_want_names(struct code_files *files, struct code_file *f);

/* Several times a second: asks for tables that walks missed, closes what is idle. */
void code_files_tick(struct code_files *files, int64_t now_ns);

/* Gives up tables that were not used for a while (memory is short). */
void code_files_shed(struct code_files *files);

struct code_files_stats {
    uint64_t files, tables, name_tables, bad, evicted;
    size_t asked; /* questions that are open */
};
void code_files_stats(const struct code_files *files, struct code_files_stats *ret);
