#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "host/name_table.h"
#include "host/worker.h"
#include "symbols/lookup.h"

/*
 * Parsing the files of profiled processes, in a worker without capabilities that opens nothing: it
 * is handed the file, its debug file where there is one, and a memfd for large results.
 *
 * Questions are made by the functions below; fds are: the file, the debug file (or the same file
 * again), the memfd (where said).
 */

/* What a file is. Texts are "" when it does not say. */
struct parse_facts {
    char build_id[129];    /* GNU, hex */
    char go_build_id[256]; /* */
    char htlhash[33];      /* SHA-256 of the first and last 4 KiB and the length, 16 bytes as hex */
    uint16_t machine;
    bool is_go, is_static, has_symbols, has_dwarf;
    char debug_link[256]; /* .gnu_debuglink's name */
    uint32_t debug_link_crc;
    char go_version[32], go_module[256], go_module_version[128], vcs_revision[64], vcs_time[32];
    bool vcs_modified;
    char package_name[128], package_version[128]; /* .note.package */
    char runtime[16], runtime_version[32];        /* "go", "nodejs", "cpython", "jvm" and theirs */

    /* OTEP 4947: the TLS variable otel_thread_ctx_v1, if the file defines it. */
    bool has_thread_context;
    uint8_t tls_model;  /* enum parse_tls */
    int64_t tls_offset; /* local exec: from the thread pointer; else the symbol's value */
    uint64_t tls_got;   /* virtual address of the descriptor or GOT words to read in the process */
    uint64_t first_text, text_offset; /* of the first executable PT_LOAD: vaddr and file offset */
};
enum parse_tls { PARSE_TLS_LOCAL, PARSE_TLS_INITIAL, PARSE_TLS_GENERAL, PARSE_TLS_DESCRIPTOR };

/* Where a mapping's bytes lie in the file's own addresses: needed for its bias. At most 16. */
struct parse_load {
    uint64_t vaddr, offset, file_size;
};
struct parse_file {
    struct parse_facts facts;
    struct parse_load loads[16]; /* executable PT_LOADs */
    uint32_t n_loads;
};

void parse_question_facts(struct buf *out);
int parse_read_facts(struct bytes answer, struct parse_file *ret, struct error *err);

/* The unwind table, into the memfd (fds[2]): an image of unwind/unwind_table.h. */
void parse_question_unwind(struct buf *out);
/* Names for all functions, into the memfd: an image of host/name_table.h. */
void parse_question_names(struct buf *out);
/* The same of a perf map (fds[0]) and of /proc/kallsyms. */
void parse_question_perf_map(struct buf *out);
void parse_question_kallsyms(struct buf *out);

/* Lines and inlined calls of addresses, ascending. The answer's frames live in the arena. */
void parse_question_lines(const uint64_t *vas, size_t n, struct buf *out);
int parse_read_lines(struct bytes answer, struct arena *arena, struct lookup *lookups, size_t n,
                     struct error *err);

extern const struct worker_kind parse_worker;
