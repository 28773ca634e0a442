#pragma once

#include "abi/unwind.h"

/*
 * The state of one walk of a user stack, and what bounds it. Shared by the programs in the kernel
 * and by the tests, which replay walks natively.
 */

/* How far a frame pointer may lie above the stack pointer where nothing vouches for it. */
#define UNWIND_FRAME_BYTES_MAX (1ull << 20)

/* Changes to another stack (Go's system stack, coroutines) that one walk follows. */
#define UNWIND_SWITCHES_MAX 4

/* What a frame pointer is worth in code without rows. */
enum {
    UNWIND_FP_PROMISED = 1,   /* this code keeps them: also another stack is followed */
    UNWIND_FP_ZERO_ENDS = 2,  /* 0 is the outermost frame */
    UNWIND_FP_OF_NO_FILE = 4, /* code that was made at run time */
};

#define UNWIND_ADDRESSES_MAX (UNWIND_KERNEL_FRAMES_MAX + UNWIND_USER_FRAMES_MAX)

/* What lies right below a frame's end: the return address and registers that were pushed. No read
 * of a step is longer. */
#define UNWIND_SAVED_BYTES 56

/*
 * A rule that was found, kept by address: most addresses of a walk were in the last one as well,
 * and searching for them anew touches many times as much memory. Those of a process lie in a block
 * of their own: on machines where an interrupt finds an empty TLB, pages count more than bytes.
 * Written by all CPUs without a lock: what does not agree with its `check` is not there. 32 bytes.
 */
struct unwind_memo {
    __u64 pc;
    __u64 rule;        /* struct unwind_rule */
    __u32 mappings_id; /* whose pc that is */
    __u32 file, version;
    __u32 check;
};

#define UNWIND_MEMO_BLOCKS 16
#define UNWIND_BLOCK_MEMOS 256

struct unwind_walk {
    __u64 pc, sp, fp;
    __u64 lr; /* aarch64; meant only while has_lr */
    /* The mapping that held the last address; empty at the start. */
    __u64 map_begin, map_end, bias;
    __u32 file, map_kind;
    __u32 first_mapping, n_mappings, mappings_id; /* of the process */
    __u32 now_s;
    __u32 first; /* where the user part begins in the array of addresses */
    __u32 n;     /* addresses of the user part */
    __u32 exact;
    __u8 end;       /* enum unwind_end */
    __u8 is_return; /* pc is a return address: the call is before it */
    __u8 has_fp;    /* fp is known */
    __u8 has_lr;    /* only in the innermost frame and in what a signal interrupted */
    __u8 is_guess;  /* pc was found by a frame pointer that nothing vouches for */
    __u8 guess_end; /* what to say if that guess was wrong */
    __u8 n_switches;
    __u8 spare;
    __u64 saved[8]; /* UNWIND_SAVED_BYTES, and a power of two for the verifier's sake */
};
