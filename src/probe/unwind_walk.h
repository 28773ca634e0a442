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

#define UNWIND_ADDRESSES_MAX (UNWIND_KERNEL_FRAMES_MAX + UNWIND_USER_FRAMES_MAX)

/* What lies right below a frame's end: the return address and registers that were pushed. */
#define UNWIND_SAVED_WORDS 8

struct unwind_walk {
    __u64 pc, sp, fp;
    __u64 lr; /* aarch64; meant only while has_lr */
    /* The mapping that held the last address; empty at the start. */
    __u64 map_begin, map_end, bias;
    __u32 file, map_kind;
    __u32 first_mapping, n_mappings; /* of the process */
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
    __u64 saved[UNWIND_SAVED_WORDS];
};
