#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/code_files.h"
#include "agent/place.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "host/identity.h"
#include "host/inspect.h"
#include "probe/probe.h"

/*
 * The processes that were sampled: who each is, and where its code lies. A process is known by pid
 * and start time, so one that reuses a pid is another one. It is looked at when a sample of it
 * arrives, by the inspector; meanwhile its samples are kept with it.
 */
enum process_state {
    PROCESS_ASKED, /* being looked at */
    PROCESS_KNOWN,
    PROCESS_LOST, /* gone before it could be looked at, or it cannot be */
};

struct process_mapping {
    uint64_t begin, end, bias;
    struct code_file *file; /* NULL: code of no file, or of one that is bad */
    uint64_t offset;        /* while the bias is not known */
    bool is_placed;         /* the bias is known */
};

struct process {
    uint32_t tgid;
    uint64_t start_ns;
    uint32_t refs; /* windows and waits; the table's own hold is not counted */
    enum process_state state;
    bool is_gone;
    bool is_current; /* the one that the table finds under its tgid */
    bool is_kernel;
    bool is_wanted; /* filters let it through */
    uint32_t kinds; /* bits of enum agent_type */
    char comm[16];
    uint32_t uid, namespaced_pid;
    bool is_go;        /* its main program is */
    bool is_node;      /* its program, or a library of it, is Node */
    uint16_t ports[8]; /* it listens on, where that is asked for */
    size_t n_ports;

    struct process_mapping *mappings;
    uint32_t n_mappings;
    bool is_published; /* the probe knows it as it is */
    bool is_changed;   /* has more to tell the probe, once files are known */
    bool has_jit;
    uint64_t code_start, stack_start;
    uint64_t handover_begin, handover_end; /* memory of a library inside it; 0: none */
    uint64_t handover_inode;               /* which: another one after exec */
    struct thread_context_place context;

    struct identity *identity;  /* NULL until known */
    uint32_t attrs, generation; /* its resource attributes in the dictionary of this generation */

    /* Code made at run time. */
    struct name_table *jit_names;
    enum { JIT_NAMES_NONE, JIT_NAMES_ASKED, JIT_NAMES_READY, JIT_NAMES_MISSING } jit_state;
    int64_t jit_asked_ns;

    int64_t asked_ns;    /* monotonic: when it was last looked at */
    int64_t next_ask_ns; /* not before */
    uint32_t asks;
    uint32_t hangs; /* of the inspector, on it */
    int64_t seen_ns;
    int64_t look_again_ns; /* what it says about itself may be more by then; 0: it is known */

    /* For status: walks of this process that reached the outermost frame, and others. */
    uint64_t samples, complete, young;

    /* For node_attach.c: when its inspector may be opened again; INT64_MAX: never. */
    int64_t attach_ns;
    int64_t attach_check_ns; /* when to look whether it has opened late; 0: it will not */
    int64_t attach_pause_ns; /* from look to look */
    uint16_t attach_port;    /* where its inspector was, for certain; 0: at the usual one */

    bool is_shut_out; /* for from_inside.c: there was no room for it */

    /* For the governor: CPU samples of this round of it. */
    uint32_t round, round_samples;

    struct process *next; /* in its bucket, or among those let go */
};

struct process_table;

struct process_table_options {
    struct probe *probe; /* may be NULL */
    struct worker *inspector;
    struct worker *parser;
    struct code_files *files;
    const struct identity_rules *rules;
    uint32_t kinds; /* of every process that is wanted */
    bool reads_cmdline, finds_ports;
    void (*known)(void *arg, struct process *p); /* identity and mappings are there, or new */
    /* It has other memory of a library than before: it called exec. `former` is the process with
     * who it was and where its code was, gone, for whoever holds it from then on. May be NULL. */
    void (*replaced)(void *arg, struct process *p, struct process *former);
    void *arg;
    bool with_own; /* the agent's own processes are wanted like others */
    bool is_picky; /* only `pids` and their children; there may be more of them later */
    const uint32_t *pids;
    const size_t *n_pids;
    uint32_t max; /* processes; the ones seen longest ago make room */
};

struct process_table *process_table_new(const struct process_table_options *o);
void process_table_free(struct process_table *t); /* NULL is fine */

/* The process of a sample, made and asked about when it is new. */
struct process *process_table_get(struct process_table *t, uint32_t tgid, uint64_t start_ns,
                                  const char *comm, int64_t now_ns);
struct process *process_table_find(struct process_table *t, uint32_t tgid);

/* It was sampled and is not known as it is: look at it, unless that was done just now. */
void process_table_look(struct process_table *t, struct process *p, int64_t now_ns);
/* The same when the next sample of it comes. */
void process_look_later(struct process *p);
void process_table_exited(struct process_table *t, uint32_t tgid);
/* All processes of the machine are looked at. */
void process_table_list(struct process_table *t);

void process_hold(struct process *p);
void process_let_go(struct process_table *t, struct process *p);

/* Where its threads tell their spans, for the probe. */
void process_table_set_context(struct process_table *t, struct process *p,
                               const struct thread_context_place *context);

/* The place of a user address: `is_exact` when it is no return address. */
place process_place(const struct process *p, uint64_t address, bool is_exact);

/* The perf map of a process with code made at run time is read (again), at most every 5 s. */
void process_want_jit_names(struct process_table *t, struct process *p, int64_t now_ns);

/* Tells the probe of processes whose files have become known; drops what is long gone. */
void process_table_tick(struct process_table *t, int64_t now_ns);
/* Something a process waits for was learnt: the next tick looks at all that wait. */
void process_table_poke(struct process_table *t);

/* What is collected now, of every process that is wanted; kinds given by rules stay. */
void process_table_set_kinds(struct process_table *t, uint32_t kinds);

struct process *process_table_next(struct process_table *t,
                                   struct process *after);  /* NULL: first */
size_t process_table_asking(const struct process_table *t); /* questions that are open */
size_t process_table_count(const struct process_table *t);
