#include "probe/bpf/context.bpf.h"
#include "probe/bpf/waits.bpf.h"
#include "probe/bpf/walk.bpf.h"

/* Of these programs only; the helpers that they call ask for it. */
char licence[] SEC("license") = "Dual BSD/GPL";

/* Kernel addresses of a perf event's sample. */
static __always_inline u32 read_kernel_stack(void *ctx, struct probe_scratch *s)
{
    long bytes = bpf_get_stack(ctx, s->addresses, UNWIND_KERNEL_FRAMES_MAX * sizeof(u64), 0);
    return bytes > 0 ? (u32)bytes / 8 : 0;
}

/* The user part of a sample in s, of which registers and the like are set. */
static __always_inline void walk_user(struct probe_scratch *s, struct task_struct *task,
                                      struct unwind_process *p, u64 mode)
{
    KEEP_POINTER(p);
    if (!p) {
        walk_nowhere(s, UNWIND_END_NO_PROCESS);
    } else if (MODE_IS_32_BIT(mode)) {
        walk_nowhere(s, UNWIND_END_UNSUPPORTED);
    } else {
        walk_own_stack(s);
        read_thread_context(s, task, &p->context);
    }
}

/* A sample of the current task by perf event: `ctx` has registers and the period. */
static __always_inline void take_sample(void *ctx, u8 kind, u32 wanted, u64 unit)
{
    u64 pc = CONTEXT_PC(ctx), sp = CONTEXT_SP(ctx), fp = CONTEXT_FP(ctx), lr = CONTEXT_LR(ctx);
    u64 mode = CONTEXT_MODE(ctx), period = CONTEXT_PERIOD(ctx);
    u32 tgid = bpf_get_current_pid_tgid() >> 32;
    if (!tgid || tgid == settings.own_tgid)
        return;
    struct task_struct *task = bpf_get_current_task_btf();
    /* One that is ending has given up its memory. */
    bool is_thread_of_kernel = task->flags & PF_KTHREAD || !task->mm, is_own = false;
    struct unwind_process *p = is_thread_of_kernel ? NULL : find_process(task, tgid, &is_own);
    if (p && !(p->collected & wanted))
        return;
    struct probe_scratch *s = ELEMENT(scratches, kind);
    if (!s)
        return;
    begin_sample(s, task, kind);
    bool young = is_young(s->sample.start_ns);
    if (young)
        s->sample.head.flags |= EVENT_YOUNG;
    if ((!young || settings.asks_young) && !is_own && !is_thread_of_kernel)
        tell_process(task, tgid, PROCESS_EVENT_SEEN, TELL_SEEN_NS);
    if (!p && settings.has_filter)
        return;
    s->sample.value_ns = unit ? period * unit : 0;

    bool is_user = MODE_IS_USER(mode);
    if (!is_user) {
        s->sample.head.flags |= EVENT_IN_KERNEL;
        s->sample.n_kernel = (u16)read_kernel_stack(ctx, s);
    }
    begin_walk(&s->walk, p, s->sample.n_kernel);
    if (is_user) {
        s->walk.pc = pc;
        s->walk.sp = sp;
        s->walk.fp = fp;
        s->walk.lr = lr;
        s->walk.has_lr = UNWIND_IS_ARM64;
        s->walk.is_return = 0;
    }
    if (is_thread_of_kernel || (!is_user && !registers_of_task(task, &s->walk, &mode)))
        s->walk.end = UNWIND_END_NO_USER;
    else
        walk_user(s, task, p, mode);
    send_sample(s);
    if (s->walk.end == UNWIND_END_NO_MAPPING)
        tell_process(task, tgid, PROCESS_EVENT_REMAP, TELL_REMAP_NS);
    struct probe_counters *c = own_counters();
    if (c) {
        c->runs++;
        c->run_ns += bpf_ktime_get_ns() - s->sample.time_ns;
    }
}

SEC("perf_event")
int sample_cpu(void *ctx)
{
    take_sample(ctx, SAMPLE_CPU, PROCESS_CPU, 0);
    return 0;
}

SEC("perf_event")
int sample_fault(void *ctx)
{
    take_sample(ctx, SAMPLE_FAULT, PROCESS_FAULTS, constants.page_bytes);
    return 0;
}

/* Ends of processes that the agent keeps something about: all others cost a lookup. */
static __always_inline void tell_life(struct task_struct *task, u32 what)
{
    u32 tgid = (u32)task->tgid;
    if (bpf_map_lookup_elem(&processes, &tgid))
        tell_process(task, tgid, what, TELL_NO_LIMIT_NS);
}

SEC("tp_btf/sched_process_exit")
int tell_exit(u64 *ctx)
{
    struct task_struct *task = (struct task_struct *)ctx[0];
    if (task->signal->live.counter == 0)
        tell_life(task, PROCESS_EVENT_EXIT);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int tell_exec(u64 *ctx)
{
    tell_life((struct task_struct *)ctx[0], PROCESS_EVENT_EXEC);
    return 0;
}
