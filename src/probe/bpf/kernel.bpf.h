#pragma once

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/types.h>

/*
 * The few members of the kernel's structs that are read, relocated when loading: no generated
 * header, no dependence on the kernel of the machine that builds.
 */
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define PF_KTHREAD 0x00200000

#define TASK_INTERRUPTIBLE   1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_STOPPED         4
#define TASK_TRACED          8
#define TASK_DEAD            0x80
#define TASK_WAKING          0x200
#define TASK_NEW             0x800

#define VM_UFFD_MISSING 0x200
#define VM_PFNMAP       0x400
#define VM_UFFD_WP      0x1000
#define VM_IO           0x4000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct {
    unsigned long start_code, start_stack;
};

struct signal_struct {
    struct {
        int counter;
    } live;
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
    unsigned long fsbase;
};
#else
struct thread_struct {
    struct {
        unsigned long tp_value;
    } uw;
};
#endif

struct task_struct {
    unsigned int __state;
    unsigned int flags;
    int pid, tgid;
    struct mm_struct *mm;
    struct task_struct *group_leader, *real_parent;
    struct signal_struct *signal;
    unsigned long nvcsw, nivcsw;
    int on_cpu, exit_state;
    u64 start_boottime;
    char comm[16];
    struct thread_struct thread;
};

struct file;

struct vm_area_struct {
    unsigned long vm_start, vm_end, vm_flags;
    struct file *vm_file;
};

struct bpf_iter_meta {
    u64 session_id;
};

struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
    unsigned long bp, orig_ax, ip, cs, sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
    u64 regs[31];
    u64 sp, pc, pstate;
};
struct pt_regs {
    struct user_pt_regs user_regs;
    s32 syscallno;
};
#else
#error "only x86-64 and aarch64"
#endif

#pragma clang attribute pop

/*
 * The context of a perf event's program, by offset: loads must be of 8 bytes (the kernel's own
 * struct has narrower members), and volatile keeps the compiler from merging those of two branches,
 * which the verifier refuses.
 */
#define CONTEXT_WORD(ctx, offset) (*(volatile u64 *)((void *)(ctx) + (offset)))
#if defined(__TARGET_ARCH_x86)
#define CONTEXT_PC(ctx)      CONTEXT_WORD(ctx, 128)
#define CONTEXT_SP(ctx)      CONTEXT_WORD(ctx, 152)
#define CONTEXT_FP(ctx)      CONTEXT_WORD(ctx, 32)
#define CONTEXT_LR(ctx)      0
#define CONTEXT_MODE(ctx)    CONTEXT_WORD(ctx, 136)
#define CONTEXT_PERIOD(ctx)  CONTEXT_WORD(ctx, 168)
#define MODE_IS_USER(mode)   (((mode)&3) == 3)
#define MODE_IS_32_BIT(mode) (((mode)&0xffff) == 0x23)
#else
#define CONTEXT_PC(ctx)      CONTEXT_WORD(ctx, 256)
#define CONTEXT_SP(ctx)      CONTEXT_WORD(ctx, 248)
#define CONTEXT_FP(ctx)      CONTEXT_WORD(ctx, 232)
#define CONTEXT_LR(ctx)      CONTEXT_WORD(ctx, 240)
#define CONTEXT_MODE(ctx)    CONTEXT_WORD(ctx, 264)
#define CONTEXT_PERIOD(ctx)  CONTEXT_WORD(ctx, 272)
#define MODE_IS_USER(mode)   (((mode)&15) == 0)
#define MODE_IS_32_BIT(mode) (((mode)&16) != 0)
#endif
