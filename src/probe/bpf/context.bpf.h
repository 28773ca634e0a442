#pragma once

#include "probe/bpf/maps.bpf.h"

#define GO_KEY_MAX      32
#define GO_VALUE_MAX    64
#define GO_LABEL_MAX    (2 + GO_KEY_MAX + GO_VALUE_MAX)
#define GO_LABELS_MAX   16
#define GO_BUCKET_BYTES 272
#define GO_MARK_USED    5 /* lower ones are of empty places */

struct go_string {
    u64 at, len;
};

struct go_map {
    u64 count;
    u8 flags, bucket_bits;
    u16 n_overflow;
    u32 seed;
    u64 buckets;
};

static __always_inline u64 thread_pointer(struct task_struct *task)
{
#ifdef __TARGET_ARCH_arm64
    return task->thread.uw.tp_value;
#else
    return task->thread.fsbase;
#endif
}

/* Where, from the thread pointer, the list of the thread's TLS blocks is pointed to. */
static __always_inline s64 dtv_offset(bool is_musl)
{
#ifdef __TARGET_ARCH_arm64
    return is_musl ? -8 : 0;
#else
    return 8;
#endif
}

/* aarch64: Go's code keeps g in a register. */
static __always_inline u64 register_of_g(struct task_struct *task)
{
#ifdef __TARGET_ARCH_arm64
    return ((struct pt_regs *)bpf_task_pt_regs(task))->user_regs.regs[28];
#else
    return 0;
#endif
}

/* Of the current task. */
#define CONTEXT_NAME(x)              own_context_##x
#define CONTEXT_ENV                  void *
#define CONTEXT_READ(env, to, n, at) bpf_probe_read_user((to), (n), (const void *)(at))
/* Also on kernels that have no bpf_loop. */
#define CONTEXT_LOOP(n, fn, arg)                                                                   \
    for (u32 i_ = 0; i_ < (n) && !fn(i_, (arg)); i_++)                                             \
        ;
#include "probe/bpf/context_read.bpf.h"
#undef CONTEXT_NAME
#undef CONTEXT_ENV
#undef CONTEXT_READ
#undef CONTEXT_LOOP

/* What the current thread says about the span that it is in, into s->context, which is empty. */
static __always_inline void read_thread_context(struct probe_scratch *s, struct task_struct *task,
                                                const struct thread_context_place *place)
{
    if (place->kind != THREAD_CONTEXT_NONE)
        own_context_read(NULL, &s->context, task, place);
}
