#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/vec.h"
#include "host/worker.h"

/*
 * Looking at a process from outside, in a worker of its own: whatever of a process its owner can
 * make hang (its memory, its files) hangs that worker only.
 *
 * A process is named by pid and start time (compared in ticks of 10 ms: /proc has no finer ones).
 * When it is gone, or another one by now, or execs while it is looked at, the answer is -ESRCH and
 * nothing of it is believed. -EACCES: we have no rights over it.
 *
 * Mappings that follow one another in memory and in their file are one.
 */
struct inspect_mapping {
    uint64_t begin, end, offset;
    uint64_t inode;
    uint32_t device_major, device_minor;
    struct bytes
        path; /* without " (deleted)", at most 4095 bytes; "[vdso]", "" for code of no file */
    bool is_deleted;
    bool is_executable;
};

#define INSPECT_ANCESTORS_MAX 16

/* What a process looks like. Everything lives in the arena. Texts from the process are its own
 * claims: any bytes, cut at the lengths given. */
struct inspect_process {
    struct arena arena;
    uint32_t pid, parent, uid;
    uint32_t ancestors[INSPECT_ANCESTORS_MAX]; /* its parent first; only when asked */
    size_t n_ancestors;
    uint64_t start_ns;                /* CLOCK_BOOTTIME */
    uint64_t code_start, stack_start; /* as struct unwind_process */
    uint32_t namespaced_pid;          /* what it calls itself */
    bool is_kernel_thread;
    bool shares_mount_namespace; /* with us */
    struct bytes comm;           /* 15 */
    struct bytes exe;            /* 4095, without " (deleted)" */
    struct bytes cmdline;        /* 4096; NULs between arguments. Read only when asked */
    struct bytes cgroup;         /* the text of /proc/PID/cgroup, 8192 */
    struct bytes environ;        /* only the variables asked for, "NAME=VALUE\0" each, the first of
                                    a name; 16 KiB in all, of the first 1 MiB */
    /* As files of the kubelet and of container runtimes tell (host/container.h); 255. */
    struct bytes container_name, container_image, container_service;
    struct bytes pod, pod_namespace, pod_container;
    struct bytes context;  /* OTEP 4719: the payload, checked as far as its frame goes; 65536 */
    uint64_t context_time; /* its timestamp: the same one need not be read again */
    uint64_t handover_begin, handover_end; /* memory of a preloaded library; 0: none */
    uint64_t handover_inode;               /* which: another program has another one */
    bool listens;                          /* has a listening TCP socket (only when asked) */
    uint16_t ports[8]; /* the first on loopback or any address; none in another network */
    size_t n_ports;
    VEC(struct inspect_mapping)
    mappings; /* executable ones only, sorted; at most INSPECT_MAPPINGS_MAX */
    bool mappings_cut;
};
#define INSPECT_MAPPINGS_MAX 4096
#define INSPECT_ENVIRON_MAX  ((size_t)16 << 10)
#define INSPECT_CONTEXT_MAX  ((size_t)64 << 10)

struct inspect_ask {
    uint32_t pid;
    uint64_t start_ns;                              /* 0: whoever has the pid now */
    bool maps, identity, cmdline, ports, ancestors; /* what is wanted */
    bool carefully; /* not what lies in its memory: command line, environment, context */
    const char *const *variables; /* names, ended by NULL: of the environment */
};

/* Writes a question, and reads an answer of the worker below. The answer is not believed: -EBADMSG.
 */
void inspect_question(const struct inspect_ask *a, struct buf *out);
int inspect_read(struct bytes answer, struct budget *b, struct inspect_process *ret,
                 struct error *err);
void inspect_process_done(struct inspect_process *p);

/*
 * The file behind a mapping, opened through /proc/PID/map_files (so also when it was deleted or
 * replaced, and in whatever mount namespace), or by its path in the process's root, if that is
 * still the same file. Only regular files of at most INSPECT_FILE_MAX bytes, never waiting for a
 * FIFO, and none of FUSE: a question that it does not answer cannot be taken back. The answer has
 * the descriptor, and struct inspect_file as bytes. The vDSO comes as a memfd with its bytes.
 * -ENOENT: nothing is mapped there, or no file.
 */
#define INSPECT_FILE_MAX ((uint64_t)8 << 30)
struct inspect_file {
    uint64_t device, inode, size, mtime_ns;
    uint32_t uid;
};
void inspect_question_file(uint32_t pid, uint64_t start_ns, uint64_t begin, uint64_t end,
                           struct buf *out);
int inspect_read_file(struct bytes answer, struct inspect_file *ret, struct error *err);

/* The memory that a preloaded library shares (abi/preload.h), to be read and written: only a memfd
 * of its name, whose size is sealed (-EPERM) and at most INSPECT_HANDOVER_MAX (-EFBIG): its owner
 * can hold up whoever writes to it for as long as filling it takes. Answered as above. */
#define INSPECT_HANDOVER_MAX ((uint64_t)64 << 20)
void inspect_question_handover(uint32_t pid, uint64_t start_ns, uint64_t begin, uint64_t end,
                               struct buf *out);

/* A file by its path in the root of a process (pid 0: of this one), no symlink at its end when
 * `no_link`; `owner` other than UINT32_MAX: only when it or root owns it, and it has at most
 * INSPECT_OWNED_MAX bytes. For debug files and perf maps. */
#define INSPECT_OWNED_MAX ((uint64_t)64 << 20)
void inspect_question_path(uint32_t pid, uint64_t start_ns, const char *path, bool no_link,
                           uint32_t owner, struct buf *out);

/* All processes there are, the first INSPECT_LIST_MAX of them. */
#define INSPECT_LIST_MAX 13000
struct inspect_listed {
    uint32_t pid;
    uint64_t start_ns; /* in ticks of 10 ms */
};
void inspect_question_list(struct buf *out);
/* How many are written to ret[0 ... INSPECT_LIST_MAX). */
int inspect_read_list(struct bytes answer, struct inspect_listed *ret, struct error *err);

/* Words of 8 bytes of a process's memory, at most INSPECT_WORDS_MAX. Those that cannot be read are
 * 0, and their bit (1 << i) of *ret_read as well. */
#define INSPECT_WORDS_MAX 16
void inspect_question_words(uint32_t pid, uint64_t start_ns, const uint64_t *addresses, size_t n,
                            struct buf *out);
int inspect_read_words(struct bytes answer, uint64_t *ret, size_t n, uint32_t *ret_read,
                       struct error *err);

extern const struct worker_kind inspect_worker;
