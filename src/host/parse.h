#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "host/worker.h"
#include "symbols/lookup.h"

/*
 * Parsing the files of profiled processes, in a worker without capabilities that opens nothing: it
 * is handed the file, its debug file where there is one, and a descriptor for large results.
 *
 * Questions are made by the functions below. Their descriptors are, in this order: the file, the
 * debug file (or the same file again: none), and where large results go, which is readable,
 * writable and empty. A debug file of another program is not used.
 *
 * Answers are not believed: what reads them says -EBADMSG.
 */

/* What a file is. Texts are "" when it does not say. */
struct parse_facts {
    char build_id[129];    /* GNU, hex */
    char go_build_id[256]; /* */
    char htlhash[33];      /* SHA-256 of the first and last 4 KiB and the length, 16 bytes as hex */
    uint16_t machine;
    bool is_go, is_static, has_symbols, has_dwarf;
    char debug_link[256]; /* .gnu_debuglink's name, a plain file name */
    uint32_t debug_link_crc;
    char go_version[32], go_module[256], go_module_version[128], vcs_revision[64], vcs_time[32];
    bool vcs_modified;
    char package_name[128], package_version[128]; /* .note.package */
    char runtime[16], runtime_version[32];        /* "go", "nodejs", "cpython", "jvm" and theirs */

    /* Go: where a thread keeps its g, from the thread pointer; 0: not known, or (aarch64) it is in
     * register 28. */
    int64_t go_tls_offset;

    /* OTEP 4947: the TLS variable otel_thread_ctx_v1, if the file defines it. */
    bool has_thread_context;
    uint8_t tls_model;  /* enum parse_tls */
    int64_t tls_offset; /* local exec: from the thread pointer; else the symbol's value */
    uint64_t tls_got;   /* virtual address of the descriptor or GOT words to read in the process */
    uint64_t first_text, text_offset; /* of the first executable PT_LOAD: vaddr and file offset */
};
enum parse_tls { PARSE_TLS_LOCAL, PARSE_TLS_INITIAL, PARSE_TLS_GENERAL, PARSE_TLS_DESCRIPTOR };

/* Where a mapping's bytes lie in the file's own addresses: needed for its bias. */
#define PARSE_LOADS_MAX 16
struct parse_load {
    uint64_t vaddr, offset, file_size;
};
struct parse_file {
    struct parse_facts facts;
    struct parse_load loads[PARSE_LOADS_MAX]; /* executable PT_LOADs */
    uint32_t n_loads;
};

void parse_question_facts(struct buf *out);
int parse_read_facts(struct bytes answer, struct parse_file *ret, struct error *err);

/* The unwind table: an image of unwind/unwind_table.h. -ENODATA when the file has none. */
void parse_question_unwind(struct buf *out);
/* Names for all functions: an image of host/name_table.h. -ENODATA when the file has none. */
void parse_question_names(struct buf *out);
/* The same of a perf map (the file) and of /proc/kallsyms, whose addresses are as they are. */
void parse_question_perf_map(struct buf *out);
void parse_question_kallsyms(struct buf *out);

/*
 * Lines and inlined calls of at most PARSE_LINES_MAX addresses, ascending. The answer's frames live
 * in the arena. Returns how many addresses, from the first on, were answered: what does not fit an
 * answer is asked for again. Names are the linker's. What has no line information has no frames;
 * its name is in the name table, which also knows better what the outermost function is called.
 */
#define PARSE_LINES_MAX 1024
void parse_question_lines(const uint64_t *vas, size_t n, struct buf *out);
int parse_read_lines(struct bytes answer, struct arena *arena, struct lookup *lookups, size_t n,
                     struct error *err);

/*
 * Where the separate debug file of a file may be, best first: by build id under each debug folder,
 * then by its link, beside the file, in .debug beside it, and under each debug folder. `path` is
 * the file's own. Calls `fn` until it returns something else than 0, and returns that.
 */
typedef int parse_debug_path(void *arg, const char *path);
int parse_debug_paths(const struct parse_facts *f, const char *path, const char *const *dirs,
                      size_t n_dirs, parse_debug_path *fn, void *arg);
#define PARSE_DEBUG_DIR "/usr/lib/debug" /* the last folder, always */

/* What the worker does; for the worker and for tests. `state` is NULL. */
int parse_serve(void *state, const struct worker_question *q, struct worker_answer *a,
                struct error *err);

extern const struct worker_kind parse_worker;
