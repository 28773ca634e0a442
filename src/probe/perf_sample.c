#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "probe/perf_internal.h"

/* ---- Parsing. */

#ifdef __aarch64__
#define N_REGS 4 /* x29, lr, sp, pc */
#else
#define N_REGS 3 /* bp, sp, ip */
#endif

/* The next n bytes of a record; false when there are fewer. */
struct cursor {
    const uint8_t *at;
    size_t left;
};

static bool take(struct cursor *c, void *to, size_t n)
{
    if (c->left < n)
        return false;
    memcpy(to, c->at, n);
    c->at += n;
    c->left -= n;
    return true;
}

static void take_registers(const uint64_t regs[N_REGS], struct perf_sample *s)
{
    s->fp = regs[0];
#ifdef __aarch64__
    s->lr = regs[1];
#endif
    s->sp = regs[N_REGS - 2];
    s->pc = regs[N_REGS - 1];
}

static bool parse_stack(struct cursor *c, struct perf_sample *s)
{
    uint64_t size, valid;
    if (!take(c, &size, 8))
        return false;
    if (size == 0)
        return true;
    if (size > c->left)
        return false;
    s->stack = c->at;
    c->at += size;
    c->left -= (size_t)size;
    if (!take(c, &valid, 8))
        return false;
    s->stack_len = valid < size ? valid : size;
    return true;
}

bool perf_sample_parse(const struct perf_event_header *h, struct perf_sample *ret)
{
    struct {
        uint64_t ip;
        uint32_t pid, tid;
        uint64_t time;
        uint32_t cpu, spare;
        uint64_t abi;
    } head;
    uint64_t regs[N_REGS];
    struct cursor c = {(const uint8_t *)(h + 1), h->size - sizeof(*h)};
    if (h->size < sizeof(*h) || !take(&c, &head, sizeof(head)))
        return false;
    struct perf_sample s = {.tgid = head.pid,
                            .tid = head.tid,
                            .cpu = head.cpu,
                            .time_ns = (int64_t)head.time,
                            .pc = head.ip,
                            .is_32_bit = head.abi != PERF_SAMPLE_REGS_ABI_64};
    if (head.abi != PERF_SAMPLE_REGS_ABI_NONE) {
        if (!take(&c, regs, sizeof(regs)))
            return false;
        take_registers(regs, &s);
    }
    if (!parse_stack(&c, &s) || (int32_t)s.tgid <= 0)
        return false;
    *ret = s;
    return true;
}

/* ---- Walking: the same source as in the kernel, over our arrays and the copy of the stack. */

struct perf_walk {
    const struct probe *p;
    const struct perf_sample *s;
};

static int read_copy(const struct perf_walk *w, void *to, size_t n, uint64_t at)
{
    uint64_t off = at - w->s->sp;
    if (at < w->s->sp || off > w->s->stack_len || w->s->stack_len - off < n)
        return -1;
    memcpy(to, w->s->stack + off, n);
    return 0;
}

#define ELEMENT(array, type, i)     ((i) < (array).n ? (type *)(array).data + (i) : NULL)
#define UNWIND_INLINE               static inline
#define UNWIND_ENV                  const struct perf_walk *
#define UNWIND_READ(env, to, n, at) read_copy(env, to, n, at)
#define UNWIND_MAPPING(env, i)      ELEMENT((env)->p->mappings, const struct unwind_mapping, i)
#define UNWIND_FILE(env, i)         ELEMENT((env)->p->files, struct unwind_file, i)
#define UNWIND_PAGE(env, i)         ELEMENT((env)->p->pages, const struct unwind_page, i)
#define UNWIND_ROW_PAIR(env, i)                                                                    \
    ((i) < (env)->p->rows.n / 2 ? (const struct unwind_row_pair *)(env)->p->rows.data + (i) : NULL)
#define UNWIND_RULE(env, i) ELEMENT((env)->p->rules, const struct unwind_rule, i)
#define UNWIND_MEMO(env, i)                                                                        \
    ((i) < UNWIND_MEMO_BLOCKS * UNWIND_BLOCK_MEMOS ? &(env)->p->perf->memos[i] : NULL)
#define UNWIND_NAME(x) perf_##x
#ifdef __aarch64__
#define UNWIND_IS_ARM64 1
#else
#define UNWIND_IS_ARM64 0
#endif
#include "probe/unwind_step.h"

static void walk(struct probe *p, const struct perf_sample *s, const struct unwind_process *known,
                 struct unwind_walk *w)
{
    __u64 *addresses = p->perf->out.addresses;
    *w = (struct unwind_walk){.pc = s->pc,
                              .sp = s->sp,
                              .fp = s->fp,
                              .lr = s->lr,
                              .has_lr = UNWIND_IS_ARM64,
                              .has_fp = 1,
                              .end = UNWIND_END_TOO_DEEP,
                              .now_s = p->settings->now_s};
    if (!known || s->is_32_bit) {
        addresses[0] = s->pc;
        w->n = w->exact = 1;
        w->end = known ? UNWIND_END_UNSUPPORTED : UNWIND_END_NO_PROCESS;
        return;
    }
    w->first_mapping = known->first_mapping;
    w->n_mappings = known->n_mappings;
    w->mappings_id = known->mappings_id;
    struct perf_walk env = {p, s};
    for (int i = 0; i <= UNWIND_USER_FRAMES_MAX && !perf_step(&env, w, addresses); i++)
        ;
}

/* ---- Handing out. */

#define TELL_SEEN_NS   1000000000ull
#define TELL_REMAP_NS  250000000ull
#define TELL_DOUBLINGS 7

/* Not again within a while that doubles each time in a row. */
static bool was_told(struct probe_told *last, uint64_t now, uint64_t interval)
{
    uint32_t n = last->n < TELL_DOUBLINGS ? last->n : TELL_DOUBLINGS;
    uint64_t since = now - last->time_ns;
    if (last->time_ns && since < interval << n)
        return true;
    last->n = last->time_ns && since < interval << (n + 1) ? n + 1 : 0;
    last->time_ns = now;
    return false;
}

void perf_tell(struct probe *p, struct perf_process *q, uint32_t what)
{
    struct perf_backend *b = p->perf;
    if (what <= PROCESS_EVENT_REMAP &&
        was_told(&q->told[what], (uint64_t)b->now_ns,
                 what == PROCESS_EVENT_SEEN ? TELL_SEEN_NS : TELL_REMAP_NS))
        return;
    struct event_process e = {.head = {EVENT_PROCESS, 0, sizeof(e)},
                              .tgid = q->tgid,
                              .event = what,
                              .start_ns = q->start_ns};
    memcpy(e.comm, q->comm, sizeof(e.comm));
    p->drain.event(p->drain.arg, &e.head);
    b->drained++;
}

static bool is_young(const struct probe *p, const struct perf_process *q,
                     const struct perf_sample *s)
{
    int64_t age = s->time_ns + p->perf->boot_ahead_ns - (int64_t)q->start_ns;
    return q->start_ns && age < (int64_t)p->settings->young_ms * 1000000;
}

static void hand_out(struct probe *p, const struct perf_process *q, const struct perf_sample *s,
                     const struct unwind_walk *w)
{
    struct perf_backend *b = p->perf;
    struct event_sample *e = &b->out.sample;
    uint32_t size = (uint32_t)sizeof(*e) + w->n * 8;
    *e = (struct event_sample){.head = {EVENT_SAMPLE, is_young(p, q, s) ? EVENT_YOUNG : 0, size},
                               .time_ns = (uint64_t)s->time_ns,
                               .start_ns = q->start_ns,
                               .tgid = s->tgid,
                               .tid = s->tid,
                               .cpu = s->cpu,
                               .kind = SAMPLE_CPU,
                               .end = w->end,
                               .state = THREAD_RUNNING,
                               .n_user = (__u16)w->n,
                               .exact = w->exact};
    const char *comm = perf_thread_comm(b, s->tid);
    memcpy(e->comm, comm ? comm : q->comm, sizeof(e->comm));
    b->samples++;
    b->ends[w->end]++;
    p->drain.event(p->drain.arg, &e->head);
    b->drained++;
}

/* ---- Keeping. */

static bool is_worth_keeping(const struct perf_backend *b, const struct perf_process *q,
                             const struct perf_sample *s, uint8_t end)
{
    bool may_come = end == UNWIND_END_NO_PROCESS || end == UNWIND_END_NO_MAPPING ||
                    end == UNWIND_END_NO_TABLE || end == UNWIND_END_NO_FRAME;
    return may_come && b->rate > 0 && b->now_ns - s->time_ns < PERF_HELD_NS &&
           b->now_ns - q->first_ns < 2 * PERF_HELD_NS;
}

static bool keep(struct perf_backend *b, const struct perf_sample *s)
{
    size_t bytes = sizeof(struct perf_held) + (size_t)s->stack_len;
    if (b->held_bytes + bytes > PERF_HELD_BYTES)
        return false;
    struct perf_held *h = must_calloc(1, bytes);
    h->sample = *s;
    if (s->stack_len > 0)
        memcpy(h->stack, s->stack, (size_t)s->stack_len);
    h->sample.stack = h->stack;
    h->tried = b->changes;
    *b->held_end = h;
    b->held_end = &h->next;
    b->held_bytes += bytes;
    return true;
}

/* Walks it and hands it out, unless `may_keep` and more will be known soon: then false. */
static bool try_sample(struct probe *p, const struct perf_sample *s, bool may_keep)
{
    struct perf_backend *b = p->perf;
    struct perf_process *q = perf_process_find(b, s->tgid);
    struct unwind_walk w;
    if (!q)
        return true;
    bool is_own;
    const struct unwind_process *known = perf_process_entry(b, q, &is_own);
    if (known && !(known->collected & PROCESS_CPU))
        return true;
    walk(p, s, known, &w);
    if (!is_own && (p->settings->asks_young || !is_young(p, q, s)))
        perf_tell(p, q, PROCESS_EVENT_SEEN);
    if (w.end == UNWIND_END_NO_MAPPING)
        perf_tell(p, q, PROCESS_EVENT_REMAP);
    if (may_keep && is_worth_keeping(b, q, s, w.end))
        return false;
    if (known || !p->settings->has_filter)
        hand_out(p, q, s, &w);
    return true;
}

void perf_sample_take(struct probe *p, const struct perf_sample *s)
{
    struct perf_backend *b = p->perf;
    if (s->tgid == p->settings->own_tgid)
        return;
    struct perf_process *q = perf_process_get(b, s->tgid);
    if (!q) {
        b->lost++;
        return;
    }
    if (!q->start_ns)
        perf_process_renew(q);
    if (!q->first_ns)
        q->first_ns = s->time_ns;
    if (!try_sample(p, s, true) && !keep(b, s))
        (void)try_sample(p, s, false);
}

void perf_held_retry(struct probe *p, uint32_t tgid, bool is_last)
{
    struct perf_backend *b = p->perf;
    for (struct perf_held **at = &b->held; *at;) {
        struct perf_held *h = *at;
        bool is_due =
            is_last || h->sample.tgid == tgid || b->now_ns - h->sample.time_ns >= PERF_HELD_NS;
        bool is_new = h->tried != b->changes;
        h->tried = b->changes;
        if (!is_due && (!is_new || !try_sample(p, &h->sample, true))) {
            at = &h->next;
            continue;
        }
        if (is_due)
            (void)try_sample(p, &h->sample, false);
        *at = h->next;
        if (!*at)
            b->held_end = at;
        b->held_bytes -= sizeof(*h) + (size_t)h->sample.stack_len;
        free(h);
    }
}

void perf_held_done(struct perf_backend *b)
{
    while (b->held) {
        struct perf_held *h = b->held;
        b->held = h->next;
        free(h);
    }
}
