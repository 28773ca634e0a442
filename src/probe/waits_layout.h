#pragma once

#include <linux/types.h>

#include "probe/waits_chance.h"

/* What the programs that watch waiting threads and probe_waits.c share. */

#define WAITS_FILTER_BITS 8192u
#define WAITS_LOOKERS     4
#define WAITS_BLOCK_BYTES 1024u /* divides a page */

/* Mapped into the agent. */
struct waits_control {
    /* Bit tgid % WAITS_FILTER_BITS: some process with that remainder may be watched, others need
     * not be looked up. */
    __u64 off_cpu[WAITS_FILTER_BITS / 64]; /* has PROCESS_OFF_CPU */
    __u64 looked_at[WAITS_FILTER_BITS / 64];
    __u32 bits;      /* PROCESS_...: what the pass is about */
    __u32 progress;  /* threads looked at, by all passes: one that hangs makes none */
    __u64 wall_ns;   /* what a thread stands for in this pass, of a process with PROCESS_WALL */
    __u64 states_ns; /* and of others */
    /* Passes that are under way, one and those that hang: the iterator's number (0: free), and whom
     * it is walking (0: nobody), so that one that hangs can be told. */
    __u64 session[WAITS_LOOKERS];
    __u32 walked_tgid[WAITS_LOOKERS];
    __u64 walked_start_ns[WAITS_LOOKERS];
};

/* Kept with each thread by the kernel, and gone with it. */
struct waits_thread {
    __u64 off_ns;       /* when it left the CPU; 0: it runs, or is not known to wait */
    __u64 usual_ns;     /* how long its waits are */
    __u64 off_switches; /* of the thread, when it left: more of them make this an old story */
    __u32 wait;         /* number of that wait, never 0 */
    __u32 chance;       /* by which it was to be walked */
    __u32 walked;       /* the wait that was walked when it began */
    __u32 seen;         /* the wait that a pass has seen, and that is walked */
    __u64 told_ns;      /* when the agent last heard of it */
    /* Of the wall clock's last walk. */
    __u64 switches;
    __u64 walk_ns;  /* 0: none yet */
    __u64 again_ns; /* after so much it is walked anew */
};
