#pragma once

#include "probe/bpf/context.bpf.h"
#include "probe/bpf/walk.bpf.h"
#include "probe/waits_layout.h"

/*
 * Threads that wait. Two programs:
 *
 *   - At each switch of a CPU from one thread to another: when a thread left, for how long it was
 *     away, and by chance where it left (waits_chance.h says why the sums are right).
 *   - One that looks at all threads, run by a child of the agent as often as it likes: those that
 *     wait are walked, from outside, unless they have not run since the last look.
 */

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct waits_thread);
} waits_threads SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct waits_pace);
} waits_paces SEC(".maps");

/* Processes whose memory hung a pass: tgid to the time it was started. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __type(key, u32);
    __type(value, u64);
} waits_refused SEC(".maps");

/* What a pass works with. */
struct waits_looker {
    /* Memory of the thread that is known not to hang its readers. */
    u64 safe_begin, safe_end;
    /* The last piece that was read of it. */
    u64 block_at;
    u64 block[WAITS_BLOCK_BYTES / 8];
    struct probe_scratch scratch;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, WAITS_LOOKERS);
    __type(key, u32);
    __type(value, struct waits_looker);
} waits_lookers SEC(".maps");

struct waits_control waits_control SEC(".data.waits");

static __always_inline bool filter_has(const u64 *filter, u32 tgid)
{
    return filter[tgid / 64 % (WAITS_FILTER_BITS / 64)] >> (tgid % 64) & 1;
}

static __always_inline u8 state_of(u32 state)
{
    if (state == 0 || state & (TASK_WAKING | TASK_NEW))
        return THREAD_RUNNABLE;
    if (state & TASK_INTERRUPTIBLE)
        return THREAD_SLEEPING;
    if (state & TASK_UNINTERRUPTIBLE)
        return THREAD_BLOCKED;
    return state & (TASK_STOPPED | TASK_TRACED) ? THREAD_STOPPED : THREAD_OTHER;
}

static __always_inline u64 switches_of(struct task_struct *task)
{
    return (u64)task->nvcsw + task->nivcsw;
}

/* The longest read of a step: registers of a signal's frame. */
#define WAITS_READ_MAX 56u

/* A thread that does not run is walked anew after a minute; one whose stack could not be followed
 * to its end after a second, as tables and mappings may have come. */
#define LOOK_AGAIN_NS      60000000000ull
#define LOOK_AGAIN_SOON_NS 1000000000ull
/* That a wait goes on is told this often. */
#define LOOK_TELL_NS       30000000000ull

/* Leaving and coming back. */

/* The sample of a thread that is about to leave the CPU; false when none could be sent. */
static __noinline bool walk_leaving(u64 *ctx, struct task_struct *task, struct waits_thread *t,
                                    u32 state)
{
    u32 tgid = (u32)task->tgid;
    bool is_own = false;
    u64 mode;
    if (!task->mm)
        return false;
    struct unwind_process *p = find_process(task, tgid, &is_own);
    struct probe_scratch *s = ELEMENT(scratches, SAMPLE_OFF_CPU);
    if (!p || !(p->collected & PROCESS_OFF_CPU) || !s)
        return false;
    begin_sample(s, task, SAMPLE_OFF_CPU);
    s->sample.time_ns = t->off_ns;
    s->sample.wait = t->wait;
    s->sample.state = state_of(state);
    s->sample.head.flags = EVENT_IN_KERNEL;
    /* Without our own two frames, and that of who called us. */
    long bytes = bpf_get_stack(ctx, s->addresses, UNWIND_KERNEL_FRAMES_MAX * sizeof(u64), 3);
    s->sample.n_kernel = bytes > 0 ? (u16)((u32)bytes / 8) : 0;
    begin_walk(&s->walk, p, s->sample.n_kernel);
    if (!registers_of_task(task, &s->walk, &mode)) {
        s->walk.end = UNWIND_END_NO_USER;
    } else if (MODE_IS_32_BIT(mode)) {
        walk_nowhere(s, UNWIND_END_UNSUPPORTED);
    } else {
        walk_own_stack(s);
        read_thread_context(s, task, &p->context);
    }
    return send_sample(s);
}

static __always_inline void begin_wait(struct task_struct *task, struct waits_thread *t, u64 now)
{
    if (!t->wait)
        t->usual_ns = settings.off_cpu_usual_ns;
    t->off_ns = now;
    t->off_switches = switches_of(task);
    t->wait = t->wait + 1 ? t->wait + 1 : 1;
}

static __always_inline void leave_cpu(u64 *ctx, struct task_struct *task, u32 state, u64 now)
{
    struct waits_thread *t =
        bpf_task_storage_get(&waits_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
    struct waits_pace *pace = ELEMENT(waits_paces, 0);
    if (!t || !pace)
        return;
    if (state & TASK_DEAD) {
        t->off_ns = 0;
        return;
    }
    begin_wait(task, t, now);
    waits_pace_keep(pace, now);
    t->chance = waits_chance(t->usual_ns, settings.off_cpu_usual_ns, pace->scale);
    if (bpf_get_prandom_u32() % WAITS_CHANCE_ONE >= t->chance)
        return;
    pace->walks++;
    if (walk_leaving(ctx, task, t, state))
        t->walked = t->wait;
}

static __always_inline void come_back(struct task_struct *task, u64 now)
{
    struct waits_thread *t = bpf_task_storage_get(&waits_threads, task, NULL, 0);
    if (!t || !t->off_ns)
        return;
    u64 waited = now - t->off_ns;
    t->off_ns = 0;
    if (t->off_switches != switches_of(task)) /* it was not watched in between */
        return;
    t->usual_ns = waits_usual(t->usual_ns, waited);
    bool is_seen = t->seen == t->wait;
    if (!is_seen && t->walked != t->wait)
        return;
    struct event_wait_end *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
    if (!e) {
        count_lost();
        return;
    }
    e->head.kind = EVENT_WAIT_END;
    e->head.flags = 0;
    e->head.size = sizeof(*e);
    e->tgid = (u32)task->tgid;
    e->tid = (u32)task->pid;
    e->wait = t->wait;
    e->chance = is_seen ? WAITS_CHANCE_ONE : t->chance;
    e->waited_ns = waited;
    e->time_ns = now;
    bpf_ringbuf_submit(e, wakeup_flag());
}

/* How a thread leaves. Kernels that do not say so have not changed it yet. */
static __always_inline u32 state_at_switch(u64 *ctx, struct task_struct *prev)
{
    if (ctx[0])
        return 0; /* it was made to */
    return constants.no_switch_state ? prev->__state : (u32) * (volatile u64 *)&ctx[3];
}

SEC("tp_btf/sched_switch")
int watch_switch(u64 *ctx)
{
    struct task_struct *prev = (struct task_struct *)ctx[1], *next = (struct task_struct *)ctx[2];
    bool leaves = filter_has(waits_control.off_cpu, (u32)prev->tgid);
    bool comes = filter_has(waits_control.off_cpu, (u32)next->tgid);
    if (!leaves && !comes)
        return 0;
    u64 now = bpf_ktime_get_ns();
    if (leaves)
        leave_cpu(ctx, prev, state_at_switch(ctx, prev), now);
    if (comes)
        come_back(next, now);
    return 0;
}

/* Looking at threads. */

/* One look at one thread. */
struct look {
    struct task_struct *task;
    struct unwind_process *process;
    struct waits_thread *thread;
    u32 number; /* of the pass */
    u32 wait;   /* that the sample is about as well; 0: none */
    u32 kind;   /* of sample */
};

/* What its walk is handed. */
struct look_env {
    struct waits_looker *looker;
    struct task_struct *task;
};

static long check_memory(struct task_struct *task, struct vm_area_struct *vma, void *p)
{
    struct look_env *env = p;
    if (vma->vm_file || vma->vm_flags & (VM_UFFD_MISSING | VM_UFFD_WP | VM_IO | VM_PFNMAP))
        return 0;
    env->looker->safe_begin = vma->vm_start;
    env->looker->safe_end = vma->vm_end;
    return 0;
}

/* Another task's memory is read only where it has no file behind it, and no userfaultfd: their
 * pages can be withheld for as long as somebody likes, and this would wait for them. */
static __always_inline bool look_is_safe(struct look_env *env, u32 n, u64 at)
{
    struct waits_looker *l = env->looker;
    if (at >= l->safe_begin && at + n <= l->safe_end && at + n >= at)
        return true;
    bpf_find_vma(env->task, at, check_memory, env, 0);
    return at >= l->safe_begin && at + n <= l->safe_end && at + n >= at;
}

/* Reads another task's memory, in blocks that mostly serve the next reads too. */
static __noinline int look_read(struct look_env *env, u64 *to, u32 n, u64 at)
{
    struct waits_looker *l = env->looker;
    u64 block_at = at & ~(u64)(WAITS_BLOCK_BYTES - 1);
    if (!l || n > WAITS_READ_MAX || !look_is_safe(env, n, at))
        return -1;
    u32 first = (u32)(at - block_at) / 8;
    if (at & 7 || n & 7 || first + n / 8 > WAITS_BLOCK_BYTES / 8)
        return (int)bpf_copy_from_user_task(to, n, (const void *)at, env->task, 0);
    if (l->block_at != block_at) {
        l->block_at = 0;
        if (bpf_copy_from_user_task(l->block, sizeof(l->block), (const void *)block_at, env->task,
                                    0))
            return -1;
        l->block_at = block_at;
    }
    for (u32 i = 0; i < WAITS_READ_MAX / 8 && i < n / 8; i++)
        to[i] = l->block[(first + i) % (WAITS_BLOCK_BYTES / 8)];
    return 0;
}

#undef UNWIND_ENV
#define UNWIND_ENV                  struct look_env *
#define UNWIND_NAME(x)              look_##x
#define UNWIND_READ(env, to, n, at) look_read((env), (u64 *)(to), (n), (at))
#include "probe/unwind_step.h"
#undef UNWIND_NAME
#undef UNWIND_READ
#undef UNWIND_ENV
#define UNWIND_ENV struct walk_env *

static __noinline int look_copy(struct look_env *env, void *to, u32 n, u64 at)
{
    if (!env->looker || n > EVENT_ATTRS_MAX || !look_is_safe(env, n, at))
        return -1;
    return (int)bpf_copy_from_user_task(to, n, (const void *)at, env->task, 0);
}

#define CONTEXT_NAME(x)              look_context_##x
#define CONTEXT_ENV                  struct look_env *
#define CONTEXT_READ(env, to, n, at) look_copy((env), (to), (n), (at))
#define CONTEXT_LOOP(n, fn, arg)     bpf_loop((n), (fn), (arg), 0)
#include "probe/bpf/context_read.bpf.h"
#undef CONTEXT_NAME
#undef CONTEXT_ENV
#undef CONTEXT_READ
#undef CONTEXT_LOOP

static long look_step_callback(u32 i, void *p)
{
    struct look_env *env = p;
    return look_step(env, &env->looker->scratch.walk, env->looker->scratch.addresses);
}

/* The number of the pass that this is, taken at its first thread; WAITS_LOOKERS when none is free.
 */
static __always_inline u32 looker_of(u64 session)
{
    for (u32 i = 0; i < WAITS_LOOKERS; i++) {
        if (waits_control.session[i] == session)
            return i;
    }
    for (u32 i = 0; i < WAITS_LOOKERS; i++) {
        if (__sync_val_compare_and_swap(&waits_control.session[i], 0, session) == 0)
            return i;
    }
    return WAITS_LOOKERS;
}

static __always_inline void end_look(u64 session)
{
    for (u32 i = 0; i < WAITS_LOOKERS; i++) {
        if (waits_control.session[i] == session)
            waits_control.session[i] = 0;
    }
}

static __always_inline void tell_repeat(struct task_struct *task, u32 flags, u64 value_ns)
{
    struct event_repeat *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
    if (!e) {
        count_lost();
        return;
    }
    e->head.kind = EVENT_REPEAT;
    e->head.flags = (u16)flags;
    e->head.size = sizeof(*e);
    e->tgid = (u32)task->tgid;
    e->tid = (u32)task->pid;
    e->value_ns = value_ns;
    bpf_ringbuf_submit(e, wakeup_flag());
}

/* Walks a thread that waits, and sends the sample unless it has run meanwhile. */
static __always_inline bool walk_waiting(struct look *k, struct waits_looker *l, u64 switches)
{
    struct task_struct *task = k->task;
    struct probe_scratch *s = &l->scratch;
    u64 mode;
    s->sample.wait = k->wait;
    s->sample.head.flags = EVENT_IN_KERNEL;
    s->sample.value_ns = waits_control.wall_ns;
    long bytes = bpf_get_task_stack(task, s->addresses, UNWIND_KERNEL_FRAMES_MAX * sizeof(u64), 0);
    s->sample.n_kernel = bytes > 0 ? (u16)((u32)bytes / 8) : 0;
    begin_walk(&s->walk, k->process, s->sample.n_kernel);
    l->safe_begin = l->safe_end = l->block_at = 0;
    if (!registers_of_task(task, &s->walk, &mode)) {
        s->walk.end = UNWIND_END_NO_USER;
    } else if (MODE_IS_32_BIT(mode)) {
        walk_nowhere(s, UNWIND_END_UNSUPPORTED);
    } else {
        struct look_env env = {.looker = l, .task = task};
        bpf_loop(UNWIND_USER_FRAMES_MAX + 1, look_step_callback, &env, 0);
        if (k->process->context.kind != THREAD_CONTEXT_NONE)
            look_context_read(&env, &s->context, task, &k->process->context);
    }
    if (task->on_cpu || switches_of(task) != switches)
        return false;
    return send_sample(s);
}

/* The same, leaving word of who it is in case that this hangs. */
static __noinline bool walk_watched(struct look *k)
{
    struct task_struct *task = k->task;
    struct waits_looker *l = ELEMENT(waits_lookers, k->number);
    u32 tgid = (u32)task->tgid, number = k->number;
    if (!l || number >= WAITS_LOOKERS)
        return false;
    u64 switches = switches_of(task);
    begin_sample(&l->scratch, task, (u8)k->kind);
    l->scratch.sample.state = state_of(task->__state);
    u64 *refused = bpf_map_lookup_elem(&waits_refused, &tgid);
    if (refused && *refused == l->scratch.sample.start_ns)
        return false;
    waits_control.walked_start_ns[number] = l->scratch.sample.start_ns;
    waits_control.walked_tgid[number] = tgid;
    bool is_sent = walk_waiting(k, l, switches);
    waits_control.walked_tgid[number] = 0;
    if (l->scratch.walk.end == UNWIND_END_NO_MAPPING)
        tell_process(task, tgid, PROCESS_EVENT_REMAP, TELL_REMAP_NS);
    if (!is_sent || k->kind != SAMPLE_WALL)
        return is_sent;
    struct waits_thread *t = k->thread;
    t->switches = switches;
    t->walk_ns = l->scratch.sample.time_ns;
    t->again_ns = l->scratch.walk.end == UNWIND_END_OUTERMOST ? LOOK_AGAIN_NS : LOOK_AGAIN_SOON_NS;
    return true;
}

/* A thread of a process of which `wanted` is collected, and that does not run. */
static __always_inline void look_at_waiting(struct task_struct *task, struct unwind_process *p,
                                            u32 wanted, u32 number)
{
    struct waits_thread *t =
        bpf_task_storage_get(&waits_threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!t)
        return;
    u64 now = bpf_ktime_get_ns(), switches = switches_of(task);
    bool is_wall = wanted & PROCESS_WALL, is_off_cpu = wanted & PROCESS_OFF_CPU;
    /* One that left before it was watched: it waits from now on. */
    if (is_off_cpu && (!t->off_ns || t->off_switches != switches))
        begin_wait(task, t, now);
    u64 off_ns = t->off_ns;
    u32 wait = t->wait;
    bool is_long = is_off_cpu && off_ns < now && now - off_ns >= settings.off_cpu_usual_ns;
    bool is_known = t->walked == wait || t->seen == wait;
    bool has_moved = !t->walk_ns || t->switches != switches || now - t->walk_ns >= t->again_ns;
    u32 state = state_of(task->__state);

    if (is_long && is_known)
        t->seen = wait;
    if ((is_wall && has_moved) || (is_long && !is_known)) {
        struct look k = {.task = task, .process = p, .thread = t, .number = number};
        k.wait = is_long && !is_known ? wait : 0;
        k.kind = is_wall ? SAMPLE_WALL : SAMPLE_OFF_CPU;
        if (walk_watched(&k)) {
            if (k.wait)
                t->seen = k.wait;
            t->told_ns = now;
        }
    } else if (is_wall) {
        tell_repeat(task, state, waits_control.wall_ns);
        t->told_ns = now;
    } else if (is_long && now - t->told_ns >= LOOK_TELL_NS) {
        tell_repeat(task, state | REPEAT_STILL_WAITS, 0);
        t->told_ns = now;
    }
    if (!is_wall && wanted & PROCESS_THREADS)
        tell_repeat(task, state | REPEAT_ONLY_STATE, waits_control.states_ns);
}

SEC("iter.s/task")
int look_at_thread(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    u64 session = ctx->meta->session_id;
    if (!task) {
        end_look(session);
        return 0;
    }
    u32 tgid = (u32)task->tgid;
    if (!filter_has(waits_control.looked_at, tgid) || task->exit_state || !task->mm)
        return 0;
    bool is_own = false;
    struct unwind_process *p = find_process(task, tgid, &is_own);
    if (!p || !is_own)
        return 0;
    u32 wanted = p->collected & waits_control.bits, number;
    if (!wanted)
        return 0;
    waits_control.progress++;
    if (task->on_cpu) {
        if (wanted & (PROCESS_THREADS | PROCESS_WALL))
            tell_repeat(task, THREAD_RUNNING | REPEAT_ONLY_STATE,
                        wanted & PROCESS_WALL ? waits_control.wall_ns : waits_control.states_ns);
        return 0;
    }
    number = looker_of(session);
    if (number < WAITS_LOOKERS)
        look_at_waiting(task, p, wanted, number);
    return 0;
}
