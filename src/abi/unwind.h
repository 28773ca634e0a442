#pragma once

#include <linux/types.h>

/*
 * What the kernel's side (BPF) and ours share to walk stacks without frame pointers. This header is
 * compiled into both, so it has fixed-size numbers only.
 *
 * How a walk finds its way:
 *
 *     tgid ─► unwind_process ─► its mappings, sorted ─► unwind_file ─► page ─► rows ─► rule
 *
 * Rows of all files lie in one array, sorted within a page of 64 KiB of text, so a row needs only
 * the low 16 bits of its address: 4 bytes. Each file has rules of its own, so what a hostile file
 * can fill is its own share.
 */

/* The state `rule` holds from this address on, up to the next row. */
struct unwind_row {
    __u16 pc_low;
    __u16 rule; /* of the file's own */
};

/* Two rows, because the kernel's arrays have elements of 8 bytes. Row i is in pair i / 2. */
struct unwind_row_pair {
    struct unwind_row row[2];
};

/* The rows of 64 KiB of text. */
struct unwind_page {
    __u32 first_row, n_rows;
};

enum unwind_cfa {
    UNWIND_CFA_GAP,         /* no table covers this: take one step by frame pointer */
    UNWIND_CFA_SP,          /* sp + cfa_off */
    UNWIND_CFA_FP,          /* fp + cfa_off */
    UNWIND_CFA_FP_DEREF,    /* *(fp + (cfa_off >> 8)) + (cfa_off & 0xff) */
    UNWIND_CFA_SP_DEREF,    /* *(sp + (cfa_off >> 8)) + (cfa_off & 0xff) */
    UNWIND_CFA_PLT,         /* x86-64: sp + 8 + ((pc & 15) >= cfa_off ? 8 : 0) */
    UNWIND_CFA_SIGNAL,      /* registers are in the signal frame at sp */
    UNWIND_CFA_END,         /* the outermost frame */
    UNWIND_CFA_UNSUPPORTED, /* there are rules, but not of a kind that is followed */
};

enum unwind_saved {
    UNWIND_SAVED_NONE,  /* fp as it is; aarch64: the return address is in the link register */
    UNWIND_SAVED_FP,    /* fp at cfa + saved_off; aarch64: so, and the link register holds */
    UNWIND_SAVED_PAIR,  /* aarch64: fp at cfa + saved_off, return address 8 above it */
    UNWIND_SAVED_RA,    /* aarch64: return address at cfa + saved_off, fp as it is */
    UNWIND_SAVED_LOST,  /* fp cannot be had; it is taken as 0 */
    UNWIND_SAVED_AT_FP, /* x86-64: fp at fp + saved_off, as functions that align their stack do */
};

struct unwind_rule {
    __u8 cfa;   /* enum unwind_cfa */
    __u8 saved; /* enum unwind_saved */
    __s16 saved_off;
    __s32 cfa_off;
};

#define UNWIND_PAGE_BITS      16
#define UNWIND_FILE_RULES_MAX 16384
#define UNWIND_FILE_ROWS_MAX  (8u << 20)

enum unwind_file_state {
    UNWIND_FILE_WANTED, /* no table yet: frame pointers meanwhile; `last_used` tells it is needed */
    UNWIND_FILE_READY,
    UNWIND_FILE_FRAME_POINTERS, /* has none, or needs none */
};

/*
 * One program or library, shared by all processes that map it. Its page 0 starts at virtual address
 * first_text_page << 16. A page that begins inside a function begins with a row that says so. Who
 * finds another version behind than before has read a mixture. 32 bytes.
 */
struct unwind_file {
    __u32 first_page, n_pages;
    __u32 first_rule, n_rules;
    __u32 first_text_page;
    __u32 state;     /* enum unwind_file_state; written last */
    __u32 last_used; /* written by BPF: unwind_settings.now_s when last looked at */
    __u32 version;   /* moves whenever the rest does */
};

enum unwind_mapping_kind {
    UNWIND_MAPPING_FILE,
    UNWIND_MAPPING_JIT, /* executable, of no file: frame pointers */
};

/* virtual address in the file = address - bias. 32 bytes. */
struct unwind_mapping {
    __u64 begin, end;
    __u64 bias;
    __u32 file; /* index of an unwind_file; 0 is none */
    __u32 kind;
};

/* What is collected of a process. */
enum {
    PROCESS_CPU = 1,
    PROCESS_WALL = 2,
    PROCESS_OFF_CPU = 4,
    PROCESS_FAULTS = 8,
    PROCESS_THREADS = 16, /* threads counted by state */
};

/* How to find the span that a thread is in. */
enum thread_context_kind {
    THREAD_CONTEXT_NONE,
    THREAD_CONTEXT_TLS,       /* a pointer to the record at thread pointer + tls_offset */
    THREAD_CONTEXT_TLS_DTV,   /* module tls_module's block, found through the DTV, + tls_offset */
    THREAD_CONTEXT_GO_LABELS, /* pprof labels of the current goroutine */
};

struct thread_context_place {
    __u32 kind; /* enum thread_context_kind */
    __u32 tls_module;
    __s64 tls_offset;
    /* Go: offsets within g, m and where g is found at thread pointer + tls_offset. */
    __u16 g_m, m_curg, g_labels;
    __u8 labels_are_slice; /* Go 1.24 and later */
    __u8 is_musl;          /* DTV entries of 8 bytes rather than 16 */
};

/*
 * Value of the map of processes, by tgid. A process is the one meant only while its code and stack
 * start where they did: after exec, and when a pid is used again, they differ, and the entry is
 * taken as not there. A child that was forked and did nothing else shares its parent's.
 */
struct unwind_process {
    __u64 code_start, stack_start; /* mm->start_code, mm->start_stack */
    __u32 first_mapping, n_mappings;
    __u32 collected;   /* PROCESS_... */
    __u32 mappings_id; /* no other mappings ever had it */
    struct thread_context_place context;
};

#define UNWIND_KERNEL_FRAMES_MAX 127
#define UNWIND_USER_FRAMES_MAX   1024

/* Why a walk ended. Anything but the first two is a stack whose outer part is missing. */
enum unwind_end {
    UNWIND_END_OUTERMOST,   /* reached what has no caller */
    UNWIND_END_NO_USER,     /* a kernel thread, or a sample without a user part */
    UNWIND_END_NO_PROCESS,  /* not known yet: only where it was */
    UNWIND_END_NO_MAPPING,  /* an address that no mapping holds: just mapped, or a broken chain */
    UNWIND_END_NO_TABLE,    /* a file without rows, where frame pointers led nowhere */
    UNWIND_END_NO_FRAME,    /* code of no file, where frame pointers led nowhere */
    UNWIND_END_READ,        /* the stack's memory could not be read */
    UNWIND_END_UNSUPPORTED, /* a rule that is not followed */
    UNWIND_END_TOO_DEEP,    /* more than UNWIND_USER_FRAMES_MAX */
    UNWIND_END_NOT_UPWARD,  /* a frame that is not above the one before: broken */
    UNWIND_END_COUNT,
};

/* Set by us while the programs run. */
struct unwind_settings {
    __u32 now_s;            /* a coarse clock for last_used */
    __u32 young_ms;         /* samples of younger processes are marked EVENT_YOUNG... */
    __u64 wall_tick_ns;     /* what one blocked thread seen in a pass stands for */
    __u64 off_cpu_usual_ns; /* a wait this long is walked always, shorter ones by chance */
    __u32 own_tgid;         /* never sampled: 0 when it may be */
    __u32 asks_young;       /* ...and nobody asks about these, unless this is set */
    __u32 has_filter;       /* processes not known yet may be unwanted: tell, do not record */
};
