#pragma once

#include "probe/bpf/maps.bpf.h"

/*
 * What samplers of all kinds share: who runs, how a stack is walked, how a sample leaves.
 */

#ifdef __TARGET_ARCH_arm64
#define UNWIND_IS_ARM64 1
#else
#define UNWIND_IS_ARM64 0
#endif
#define UNWIND_INLINE static __always_inline

#define ELEMENT(map, i)                                                                            \
    ({                                                                                             \
        u32 i_ = (i);                                                                              \
        bpf_map_lookup_elem(&(map), &i_);                                                          \
    })
#define UNWIND_MAPPING(env, i)  ((const struct unwind_mapping *)ELEMENT(mappings, i))
#define UNWIND_FILE(env, i)     ((struct unwind_file *)ELEMENT(files, i))
#define UNWIND_PAGE(env, i)     ((const struct unwind_page *)ELEMENT(pages, i))
#define UNWIND_ROW_PAIR(env, i) ((const struct unwind_row_pair *)ELEMENT(rows, i))
#define UNWIND_RULE(env, i)     ((const struct unwind_rule *)ELEMENT(rules, i))
#define UNWIND_MEMO(env, i)     ((struct unwind_memo *)ELEMENT(memos, i))

/* Handed to the callback of bpf_loop. `task` is for readers of other tasks' memory. */
struct walk_env {
    struct probe_scratch *s;
    struct task_struct *task;
};
#define UNWIND_ENV struct walk_env *

/* Walks of the current task. */
#define UNWIND_NAME(x)              own_##x
#define UNWIND_READ(env, to, n, at) bpf_probe_read_user((to), (n), (const void *)(at))
#include "probe/unwind_step.h"
#undef UNWIND_NAME
#undef UNWIND_READ

static long own_step_callback(u32 i, void *p)
{
    struct walk_env *env = p;
    return own_step(env, &env->s->walk, env->s->addresses);
}

static __always_inline struct probe_counters *own_counters(void)
{
    return ELEMENT(counters, 0);
}

static __always_inline void count_lost(void)
{
    struct probe_counters *c = own_counters();
    if (c)
        c->lost++;
}

/* Past the first 32 KiB the reader has been woken and is on its way; each time costs an interrupt.
 */
static __always_inline u64 wakeup_flag(void)
{
    u64 n = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA), wake = constants.wake_bytes;
    return n > wake && n < wake + 32768 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/*
 * The entry of a process, or of its parent when it was forked and did not call exec: both have
 * their code and stack in the same place. NULL when it is not known. `ret_is_own` may be set also
 * then.
 */
static __always_inline struct unwind_process *find_process(struct task_struct *task, u32 tgid,
                                                           bool *ret_is_own)
{
    u64 code = task->mm->start_code, stack = task->mm->start_stack;
    *ret_is_own = true;
    struct unwind_process *p = bpf_map_lookup_elem(&processes, &tgid);
    if (p && p->code_start == code && p->stack_start == stack)
        return p;
    *ret_is_own = false;
    u32 parent = (u32)task->group_leader->real_parent->tgid;
    p = bpf_map_lookup_elem(&processes, &parent);
    if (p && p->code_start == code && p->stack_start == stack)
        return p;
    return NULL;
}

#define TELL_SEEN_NS     1000000000ull
#define TELL_REMAP_NS    250000000ull
#define TELL_DOUBLINGS   7
#define TELL_NO_LIMIT_NS 0

/* Tells the agent about a process, not again within `interval_ns`; each time in a row doubles it.
 */
static __always_inline void tell_process(struct task_struct *task, u32 tgid, u32 what,
                                         u64 interval_ns)
{
    u64 now = bpf_ktime_get_ns(), key = (u64)tgid << 32 | what;
    struct probe_told next = {.time_ns = now};
    if (interval_ns) {
        struct probe_told *last = bpf_map_lookup_elem(&told, &key);
        if (last) {
            u32 n = last->n < TELL_DOUBLINGS ? last->n : TELL_DOUBLINGS;
            u64 since = now - last->time_ns;
            if (since < interval_ns << n)
                return;
            next.n = since < interval_ns << (n + 1) ? n + 1 : 0;
        }
    }
    struct event_process *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
    if (!e) {
        count_lost();
        return;
    }
    e->head.kind = EVENT_PROCESS;
    e->head.flags = 0;
    e->head.size = sizeof(*e);
    e->tgid = tgid;
    e->event = what;
    e->start_ns = task->group_leader->start_boottime;
    BPF_CORE_READ_INTO(&e->comm, task, group_leader, comm);
    /* Nobody waits for a process to be noticed: a drain comes soon. */
    /* Whoever is not known yet shall be soon. */
    bpf_ringbuf_submit(e, what == PROCESS_EVENT_EXIT ? wakeup_flag() : BPF_RB_FORCE_WAKEUP);
    if (interval_ns)
        bpf_map_update_elem(&told, &key, &next, BPF_ANY);
}

/* Registers with which a task entered the kernel. 0 when it has none: a kernel thread. */
static __always_inline bool registers_of_task(struct task_struct *task, struct unwind_walk *w,
                                              u64 *ret_mode)
{
    struct pt_regs *r = (struct pt_regs *)bpf_task_pt_regs(task);
#ifdef __TARGET_ARCH_arm64
    w->pc = r->user_regs.pc;
    w->sp = r->user_regs.sp;
    w->fp = r->user_regs.regs[29];
    w->lr = r->user_regs.regs[30];
    w->has_lr = 1;
    w->is_return = r->syscallno >= 0;
    *ret_mode = r->user_regs.pstate;
#else
    w->pc = r->ip;
    w->sp = r->sp;
    w->fp = r->bp;
    w->has_lr = 0;
    /* In a system call, the next instruction is what is to come. */
    w->is_return = (s64)r->orig_ax >= 0;
    *ret_mode = r->cs;
#endif
    return w->pc != 0 && MODE_IS_USER(*ret_mode);
}

/* The compiler likes to remember whether a pointer is NULL in another place than the pointer, and
 * verifiers before Linux 5.16 lose sight of that: from here on, it has to ask again. */
#define KEEP_POINTER(p) barrier_var(p)

/* Makes a walk ready, but for registers. */
static __always_inline void begin_walk(struct unwind_walk *w, const struct unwind_process *p,
                                       u32 first)
{
    KEEP_POINTER(p);
    w->map_begin = w->map_end = 0;
    w->first_mapping = p ? p->first_mapping : 0;
    w->n_mappings = p ? p->n_mappings : 0;
    w->mappings_id = p ? p->mappings_id : 0;
    w->now_s = settings.now_s;
    w->first = first;
    w->n = 0;
    w->exact = 0;
    w->end = UNWIND_END_TOO_DEEP; /* unless it ends before */
    w->has_fp = 1;
    w->is_guess = 0;
    w->n_switches = 0;
}

/* Only where it was. */
static __always_inline void walk_nowhere(struct probe_scratch *s, u8 end)
{
    u32 at = s->walk.first;
    if (at >= UNWIND_ADDRESSES_MAX)
        return;
    s->addresses[at] = s->walk.pc;
    s->walk.n = 1;
    s->walk.exact = !s->walk.is_return;
    s->walk.end = end;
}

/* Kernels without bpf_loop: frame pointers, and not so far. */
static __always_inline void walk_frame_pointers(struct probe_scratch *s)
{
    struct unwind_walk *w = &s->walk;
    struct walk_env env = {.s = s};
    for (u32 i = 0; i < 127; i++) {
        u32 at = w->first + i;
        if (at >= UNWIND_ADDRESSES_MAX)
            return;
        s->addresses[at] = w->pc;
        w->n = i + 1;
        if (i == 0)
            w->exact = !w->is_return;
        if (!w->fp) {
            w->end = UNWIND_END_OUTERMOST;
            return;
        }
        if (own_by_frame_pointer(&env, w, 0))
            return;
    }
}

static __always_inline void walk_own_stack(struct probe_scratch *s)
{
    if (constants.has_tables) {
        struct walk_env env = {.s = s};
        bpf_loop(UNWIND_USER_FRAMES_MAX + 1, own_step_callback, &env, 0);
    } else {
        walk_frame_pointers(s);
    }
}

/*
 * Sends s->sample with its addresses and attributes; n_kernel and the walk are set. The rest of
 * s->sample is the caller's: see begin_sample().
 */
static __always_inline bool send_sample(struct probe_scratch *s)
{
    struct event_sample *e = &s->sample;
    u32 n_kernel = e->n_kernel, n_user = s->walk.n;
    u32 n = n_kernel + n_user, attrs = s->context.attrs_len;
    if (n_kernel > UNWIND_KERNEL_FRAMES_MAX || n_user > UNWIND_USER_FRAMES_MAX)
        return false;
    if (n > UNWIND_ADDRESSES_MAX || attrs > EVENT_ATTRS_MAX)
        return false;
    if (attrs) {
        s->addresses[n + attrs / 8] = 0;
        bpf_probe_read_kernel((u8 *)&s->addresses[n], attrs, s->context.attrs);
    }
    e->n_user = (u16)n_user;
    e->end = s->walk.end;
    e->exact = s->walk.exact;
    e->attrs_len = attrs;
    if (s->context.has_span) {
        e->head.flags |= EVENT_IN_SPAN;
        __builtin_memcpy(e->trace_id, s->context.record.trace_id, sizeof(e->trace_id));
        __builtin_memcpy(e->span_id, s->context.record.span_id, sizeof(e->span_id));
    } else {
        __builtin_memset(e->trace_id, 0, sizeof(e->trace_id));
        __builtin_memset(e->span_id, 0, sizeof(e->span_id));
    }
    u32 size = sizeof(*e) + n * 8 + ((attrs + 7) & ~7u);
    e->head.size = size;
    if (size > sizeof(*e) + sizeof(s->addresses))
        return false;
    struct probe_counters *c = own_counters();
    if (!c)
        return false;
    if (bpf_ringbuf_output(&ring, e, size, wakeup_flag())) {
        c->lost++;
        return false;
    }
    if (e->kind < SAMPLE_KINDS)
        c->samples[e->kind]++;
    if (e->end < UNWIND_END_COUNT)
        c->ends[e->end]++;
    return true;
}

/* All of s->sample that is about who and when. */
static __always_inline void begin_sample(struct probe_scratch *s, struct task_struct *task, u8 kind)
{
    struct event_sample *e = &s->sample;
    e->head.kind = EVENT_SAMPLE;
    e->head.flags = 0;
    e->time_ns = bpf_ktime_get_ns();
    e->value_ns = 0;
    e->start_ns = task->group_leader->start_boottime;
    e->tgid = (u32)task->tgid;
    e->tid = (u32)task->pid;
    e->cpu = bpf_get_smp_processor_id();
    e->wait = 0;
    e->kind = kind;
    e->state = THREAD_RUNNING;
    e->n_kernel = 0;
    BPF_CORE_READ_INTO(&e->comm, task, comm);
    s->context.has_span = 0;
    s->context.attrs_len = 0;
}

static __always_inline bool is_young(u64 start_ns)
{
    return bpf_ktime_get_boot_ns() - start_ns < settings.young_ms * 1000000ull;
}
