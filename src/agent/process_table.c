#include "agent/process_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/window.h"
#include "base/hash.h"
#include "base/must.h"

#define SECOND_NS     ((int64_t)1000000000)
#define START_TICK_NS 10000000
#define BUCKETS       1024
#define LOOK_FIRST_NS (SECOND_NS / 10)
#define LOOK_LAST_NS  (25 * SECOND_NS)

/* Programs come to say who they are after they have started: young ones are looked at again. */
#define YOUNG_NS       (30 * SECOND_NS)
#define YOUNG_AGAIN_NS (2 * SECOND_NS)

#define HANGS_FEW  2 /* of the inspector, on one process: its memory is not read any more */
#define HANGS_MAX  4 /* it is not looked at any more */
#define STUCK_MANY (WORKER_STUCK_MAX / 4) /* inspectors: from then on nobody's memory is read */

#define JIT_AGAIN_NS   (5 * SECOND_NS)
#define INSPECT_MEMORY ((size_t)4 << 20)

struct process_table {
    struct process_table_options o;
    struct process *buckets[BUCKETS];
    struct process *detached; /* of a tgid that means another process by now */
    size_t count, asking;
    bool is_poked;
};

struct look {
    struct process_table *table;
    struct process *process; /* held */
    int memfd;               /* for a table of names; -1: none */
    bool is_careful;         /* nothing of its memory was asked for */
};

static struct process **bucket(struct process_table *t, uint32_t tgid)
{
    return &t->buckets[hash_mix(tgid, 1) % BUCKETS];
}

struct process_table *process_table_new(const struct process_table_options *o)
{
    struct process_table *t = must_calloc(1, sizeof(*t));

    t->o = *o;
    return t;
}

static void let_mappings_go(struct process_table *t, struct process *p)
{
    for (uint32_t i = 0; i < p->n_mappings; i++)
        if (p->mappings[i].file)
            code_files_let_go(t->o.files, p->mappings[i].file);
    free(p->mappings);
    p->mappings = NULL;
    p->n_mappings = 0;
}

static void free_process(struct process_table *t, struct process *p)
{
    let_mappings_go(t, p);
    identity_free(p->identity);
    name_table_close(p->jit_names);
    free(p);
}

static void free_list(struct process_table *t, struct process *first)
{
    while (first) {
        struct process *next = first->next;
        free_process(t, first);
        first = next;
    }
}

void process_table_free(struct process_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        free_list(t, t->buckets[i]);
    free_list(t, t->detached);
    free(t);
}

struct process *process_table_find(struct process_table *t, uint32_t tgid)
{
    for (struct process *p = *bucket(t, tgid); p; p = p->next)
        if (p->tgid == tgid)
            return p;
    return NULL;
}

static void take_from_bucket(struct process_table *t, struct process *p)
{
    struct process **at = bucket(t, p->tgid);

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    p->is_current = false;
    t->count--;
}

/* The probe forgets it; samples that are counted already keep it alive. */
static void retire(struct process_table *t, struct process *p)
{
    take_from_bucket(t, p);
    p->is_gone = true;
    if (t->o.probe && p->is_published)
        probe_process_drop(t->o.probe, p->tgid);
    p->next = t->detached;
    t->detached = p;
}

static struct process *oldest(struct process_table *t)
{
    struct process *found = NULL;

    for (size_t i = 0; i < BUCKETS; i++)
        for (struct process *p = t->buckets[i]; p; p = p->next)
            if (p->state != PROCESS_ASKED && p->attach_check_ns == 0 &&
                (!found || p->seen_ns < found->seen_ns))
                found = p;
    return found;
}

/* /proc counts in ticks of 10 ms, the probe in nanoseconds; 0 is not known. */
static bool is_same_start(uint64_t a, uint64_t b)
{
    uint64_t apart = a > b ? a - b : b - a;

    return a == 0 || b == 0 || apart < 2 * START_TICK_NS;
}

/* One that has ended, and that something of the window is about: its last waits are told late. */
static struct process *ended(struct process_table *t, uint32_t tgid, uint64_t start_ns)
{
    for (struct process *p = t->detached; p && start_ns; p = p->next)
        if (p->tgid == tgid && is_same_start(p->start_ns, start_ns))
            return p;
    return NULL;
}

struct process *process_table_get(struct process_table *t, uint32_t tgid, uint64_t start_ns,
                                  const char *comm, int64_t now_ns)
{
    struct process *p = process_table_find(t, tgid);

    if (p && !is_same_start(p->start_ns, start_ns)) {
        retire(t, p);
        p = NULL;
    }
    if (!p)
        p = ended(t, tgid, start_ns);
    if (!p) {
        struct process *last = t->count >= t->o.max ? oldest(t) : NULL;
        if (last)
            retire(t, last);
        p = must_calloc(1, sizeof(*p));
        p->tgid = tgid;
        p->is_current = true;
        p->is_wanted = true;
        p->state = PROCESS_ASKED;
        p->start_ns = start_ns;
        p->next = *bucket(t, tgid);
        *bucket(t, tgid) = p;
        t->count++;
    }
    if (comm && !p->comm[0])
        memcpy(p->comm, comm, sizeof(p->comm) - 1);
    p->seen_ns = now_ns;
    return p;
}

void process_hold(struct process *p)
{
    p->refs++;
}

void process_let_go(struct process_table *t, struct process *p)
{
    (void)t; /* process_table_tick() frees it */
    p->refs--;
}

static uint32_t probe_bits(uint32_t kinds)
{
    uint32_t bits = 0;

    if (kinds & (1u << AGENT_TYPE_CPU))
        bits |= PROCESS_CPU;
    if (kinds & (1u << AGENT_TYPE_WALL | 1u << AGENT_TYPE_THREADS))
        bits |= PROCESS_WALL | PROCESS_CPU;
    if (kinds & (1u << AGENT_TYPE_OFF_CPU | 1u << AGENT_TYPE_LOCK))
        bits |= PROCESS_OFF_CPU;
    if (kinds & (1u << AGENT_TYPE_FAULTS))
        bits |= PROCESS_FAULTS;
    return bits;
}

/* Places what can be placed by now. True when nothing is waited for any more. */
static bool place_mappings(struct process *p)
{
    bool is_complete = true;

    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct process_mapping *m = &p->mappings[i];
        if (!m->file || m->is_placed)
            continue;
        struct inspect_mapping im = {.begin = m->begin, .end = m->end, .offset = m->offset};
        m->is_placed = code_file_bias(m->file, &im, &m->bias);
        if (!m->is_placed && code_file_is_pending(m->file))
            is_complete = false;
    }
    return is_complete;
}

static void publish(struct process_table *t, struct process *p)
{
    if (!t->o.probe || !p->is_current)
        return;
    struct unwind_process value = {.code_start = p->code_start,
                                   .stack_start = p->stack_start,
                                   .collected = p->is_wanted ? probe_bits(p->kinds) : 0,
                                   .context = p->context};
    CLEANUP(freep)
    struct unwind_mapping *list = must_calloc(p->n_mappings ? p->n_mappings : 1, sizeof(*list));
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct process_mapping *m = &p->mappings[i];
        list[i] = (struct unwind_mapping){
            .begin = m->begin,
            .end = m->end,
            .bias = m->bias,
            .file = m->is_placed ? m->file->number : 0,
            .kind = m->is_placed ? UNWIND_MAPPING_FILE : UNWIND_MAPPING_JIT,
        };
    }
    p->is_published = probe_process_put(t->o.probe, p->tgid, &value, list, p->n_mappings) == 0;
}

void process_table_set_context(struct process_table *t, struct process *p,
                               const struct thread_context_place *context)
{
    if (memcmp(&p->context, context, sizeof(*context)) == 0)
        return;
    p->context = *context;
    publish(t, p);
}

static void take_mappings(struct process_table *t, struct process *p,
                          const struct inspect_process *seen)
{
    struct process_mapping *list = must_calloc(seen->mappings.len + 1, sizeof(*list));

    p->has_jit = false;
    for (size_t i = 0; i < seen->mappings.len; i++) {
        const struct inspect_mapping *m = &seen->mappings.data[i];
        list[i] = (struct process_mapping){.begin = m->begin,
                                           .end = m->end,
                                           .offset = m->offset,
                                           .file = code_files_hold(t->o.files, seen, m)};
        if (!list[i].file)
            p->has_jit = true;
    }
    let_mappings_go(t, p); /* only now, so that files in both are not let go of in between */
    p->mappings = list;
    p->n_mappings = (uint32_t)seen->mappings.len;
}

static const struct parse_facts *main_facts(const struct process *p)
{
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct code_file *f = p->mappings[i].file;
        if (f && f->state == CODE_FILE_KNOWN && f->path[0] == '/')
            return &f->parsed.facts;
    }
    return NULL;
}

static void add_libraries(const struct process_table *t, struct process *p)
{
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct code_file *f = p->mappings[i].file;
        if (f && f->state == CODE_FILE_KNOWN && f->parsed.facts.runtime[0] != '\0')
            identity_add_library(p->identity, t->o.rules, &f->parsed.facts);
    }
}

static bool is_node(const struct process *p)
{
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct code_file *f = p->mappings[i].file;
        if (f && f->state == CODE_FILE_KNOWN && strcmp(f->parsed.facts.runtime, "nodejs") == 0)
            return true;
    }
    return false;
}

static bool is_picked(const struct process_table *t, const struct inspect_process *seen)
{
    for (size_t i = 0; t->o.is_picky && i < *t->o.n_pids; i++) {
        if (seen->pid == t->o.pids[i])
            return true;
        for (size_t k = 0; k < seen->n_ancestors; k++)
            if (seen->ancestors[k] == t->o.pids[i])
                return true;
    }
    return !t->o.is_picky;
}

static bool is_ours(const struct process_table *t, const struct inspect_process *seen)
{
    uint32_t self = (uint32_t)getpid();

    return !t->o.with_own && (seen->pid == self || seen->parent == self);
}

/* What it was before it called exec, for those who have something to tell of that. */
static void leave_former(struct process_table *t, struct process *p)
{
    struct process *former = must_calloc(1, sizeof(*former));

    *former = *p;
    former->refs = 0;
    former->is_gone = true;
    former->is_current = former->is_published = former->is_changed = false;
    former->generation = 0;
    former->jit_names = NULL;
    former->jit_state = JIT_NAMES_NONE;
    p->identity = NULL;
    p->mappings = NULL;
    p->n_mappings = 0;
    process_look_later(p); /* its next memory may not be there yet */
    t->o.replaced(t->o.arg, p, former);
    former->next = t->detached;
    t->detached = former;
}

static void got_process(struct process_table *t, struct process *p, struct inspect_process *seen,
                        bool is_careful)
{
    bool is_same =
        p->identity && p->code_start == seen->code_start && p->stack_start == seen->stack_start;

    if (t->o.replaced && p->identity && p->handover_inode != 0 &&
        p->handover_inode != seen->handover_inode) {
        leave_former(t, p);
        is_same = false;
    }
    if (p->start_ns == 0)
        p->start_ns = seen->start_ns;
    p->uid = seen->uid;
    p->namespaced_pid = seen->namespaced_pid;
    p->is_kernel = seen->is_kernel_thread;
    memcpy(p->ports, seen->ports, sizeof(p->ports));
    p->n_ports = seen->n_ports;
    if (p->code_start != seen->code_start || p->stack_start != seen->stack_start) {
        p->context = (struct thread_context_place){0}; /* it called exec */
        p->is_node = false;
        p->attach_ns = p->attach_check_ns = p->attach_pause_ns = 0;
    }
    p->code_start = seen->code_start;
    p->stack_start = seen->stack_start;
    if (seen->comm.len > 0)
        snprintf(p->comm, sizeof(p->comm), "%.*s", (int)seen->comm.len,
                 (const char *)seen->comm.data);
    if (!is_careful || !is_same) { /* else what was known is more */
        identity_free(p->identity);
        p->identity = identity_new(t->o.rules, seen);
    }
    p->hangs = is_careful ? p->hangs : 0;
    p->generation = 0;
    p->is_wanted = is_picked(t, seen) && !is_ours(t, seen) && identity_is_wanted(p->identity);
    if (p->is_wanted) /* else nobody needs its files */
        take_mappings(t, p, seen);
    p->handover_begin = seen->handover_begin;
    p->handover_end = seen->handover_end;
    p->handover_inode = seen->handover_inode;
    /* What is known already; it may be gone before the rest is. */
    identity_add_facts(p->identity, t->o.rules, main_facts(p));
    p->kinds = t->o.kinds | identity_kinds(p->identity);
    p->state = PROCESS_KNOWN;
    p->is_changed = true;
    t->is_poked = true;
}

static void looked(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct look *l = arg;
    struct process_table *t = l->table;
    struct process *p = l->process;
    struct inspect_process seen = {0};
    struct budget budget;
    struct error err;

    (void)text;
    if (fd >= 0)
        close(fd);
    if (r != -ECANCELED) {
        t->asking--;
        budget_init(&budget, INSPECT_MEMORY);
        if (r == 0)
            r = inspect_read(data, &budget, &seen, &err);
        if (r == 0)
            got_process(t, p, &seen, l->is_careful);
        else if (p->state == PROCESS_ASKED)
            p->state = PROCESS_LOST;
        p->hangs += r == -ETIMEDOUT;
        if (r == -ESRCH && p->is_current)
            retire(t, p);
        inspect_process_done(&seen);
        process_let_go(t, p);
    }
    free(l);
}

/* When to look at a process the next time, if it is young: at four times its age. */
static int64_t when_again(const struct process *p, int64_t now_ns)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    int64_t age = ts.tv_sec * SECOND_NS + ts.tv_nsec - (int64_t)p->start_ns;
    if (p->start_ns == 0)
        age = 0; /* not known yet: it was just begun */
    if (age > YOUNG_NS)
        return 0;
    return now_ns + (age * 3 > YOUNG_AGAIN_NS ? age * 3 : YOUNG_AGAIN_NS);
}

void process_look_later(struct process *p)
{
    p->look_again_ns = 1;
}

void process_table_look(struct process_table *t, struct process *p, int64_t now_ns)
{
    if (now_ns < p->next_ask_ns || !p->is_current || p->hangs >= HANGS_MAX)
        return;
    p->look_again_ns = when_again(p, now_ns);
    int64_t wait = p->asks < 9 ? LOOK_FIRST_NS << p->asks : LOOK_LAST_NS;
    p->asks++;
    p->asked_ns = now_ns;
    p->next_ask_ns = now_ns + (wait < LOOK_LAST_NS ? wait : LOOK_LAST_NS);
    struct worker_stats inspector;
    worker_stats(t->o.inspector, &inspector);
    struct inspect_ask ask = {.pid = p->tgid,
                              .start_ns = p->start_ns,
                              .maps = true,
                              .identity = true,
                              .cmdline = true,
                              .carefully = p->hangs >= HANGS_FEW || inspector.stuck >= STUCK_MANY,
                              .ports = t->o.finds_ports,
                              .ancestors = t->o.is_picky,
                              .variables = identity_variables(t->o.rules)};
    CLEANUP(buf_done) struct buf q = {0};
    inspect_question(&ask, &q);
    struct look *l = must_calloc(1, sizeof(*l));
    *l = (struct look){t, p, -1, ask.carefully};
    process_hold(p);
    if (worker_ask(t->o.inspector, buf_bytes(&q), NULL, 0, looked, l) < 0) {
        process_let_go(t, p);
        free(l);
        return;
    }
    t->asking++;
}

void process_table_exited(struct process_table *t, uint32_t tgid)
{
    struct process *p = process_table_find(t, tgid);

    if (p)
        retire(t, p);
}

/* One that was not ours when it was young may be by now: nobody tells when it changes its user. */
static bool may_be_ours_yet(const struct process_table *t, const struct process *p)
{
    return t->o.probe && probe_lacks(t->o.probe) && p->uid != geteuid() && p->asks < 4;
}

static void listed(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct process_table *t = arg;

    (void)text;
    if (fd >= 0)
        close(fd);
    if (r == -ECANCELED)
        return;
    t->asking--;
    for (size_t at = 0; r == 0 && at + 12 <= data.len; at += 12) {
        uint32_t pid;
        uint64_t start;
        memcpy(&pid, data.data + at, 4);
        memcpy(&start, data.data + at + 4, 8);
        struct process *p = process_table_get(t, pid, start, NULL, 0);
        if (may_be_ours_yet(t, p))
            p->next_ask_ns = 0;
        if (p->asks == 0 || p->next_ask_ns == 0)
            process_table_look(t, p, 1);
    }
}

void process_table_list(struct process_table *t)
{
    CLEANUP(buf_done) struct buf q = {0};

    inspect_question_list(&q);
    if (worker_ask(t->o.inspector, buf_bytes(&q), NULL, 0, listed, t) == 0)
        t->asking++;
}

place process_place(const struct process *p, uint64_t address, bool is_exact)
{
    uint64_t at = is_exact ? address : address - 1;
    uint32_t lo = 0, hi = p->n_mappings;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (p->mappings[mid].begin <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0 || at >= p->mappings[lo - 1].end)
        return place_of(PLACE_RAW, at);
    const struct process_mapping *m = &p->mappings[lo - 1];
    if (!m->file)
        return place_of(PLACE_JIT, at);
    return m->is_placed ? place_of(m->file->number, at - m->bias) : place_of(PLACE_RAW, at);
}

static void done_with_jit(struct look *l)
{
    if (l->memfd >= 0)
        close(l->memfd);
    free(l);
}

static void got_jit_names(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct look *l = arg;
    struct process *p = l->process;
    struct name_table *names = NULL;
    struct error err;

    (void)data;
    (void)text;
    if (fd >= 0)
        close(fd);
    if (r != -ECANCELED) {
        l->table->asking--;
        if (r == 0)
            r = name_table_open(TAKE_FD(l->memfd), &names, &err);
        if (r == 0) {
            name_table_close(p->jit_names);
            p->jit_names = names;
        }
        p->jit_state = p->jit_names ? JIT_NAMES_READY : JIT_NAMES_MISSING;
        process_let_go(l->table, p);
    }
    done_with_jit(l);
}

/* The map is open: the parser makes a table of names of it. */
static void got_perf_map(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct look *l = arg;
    CLEANUP(buf_done) struct buf q = {0};
    CLEANUP(closep) int map = fd;

    (void)data;
    (void)text;
    if (r == -ECANCELED) {
        done_with_jit(l);
        return;
    }
    if (r == 0 && map >= 0)
        l->memfd = memfd_create("vesta-jit", MFD_CLOEXEC);
    int fds[] = {map, map, l->memfd};
    parse_question_perf_map(&q);
    if (l->memfd < 0 || worker_ask(l->table->o.parser, buf_bytes(&q), fds, 3, got_jit_names, l) < 0)
        got_jit_names(l, -ENOENT, (struct bytes){0}, -1, "");
}

void process_want_jit_names(struct process_table *t, struct process *p, int64_t now_ns)
{
    char path[64];

    if (!p->is_current || p->jit_state == JIT_NAMES_ASKED ||
        (p->jit_state != JIT_NAMES_NONE && now_ns - p->jit_asked_ns < JIT_AGAIN_NS))
        return;
    p->jit_asked_ns = now_ns;
    snprintf(path, sizeof(path), "/tmp/perf-%u.map",
             p->namespaced_pid ? p->namespaced_pid : p->tgid);
    CLEANUP(buf_done) struct buf q = {0};
    inspect_question_path(p->tgid, p->start_ns, path, true, p->uid, &q);
    struct look *l = must_calloc(1, sizeof(*l));
    *l = (struct look){.table = t, .process = p, .memfd = -1};
    if (worker_ask(t->o.inspector, buf_bytes(&q), NULL, 0, got_perf_map, l) < 0) {
        free(l);
        return;
    }
    process_hold(p);
    t->asking++;
    p->jit_state = JIT_NAMES_ASKED;
}

static void settle(struct process_table *t, struct process *p)
{
    if (!p->is_changed)
        return;
    bool is_complete = place_mappings(p);
    /* As it was until it is whole; samples that are walked later wait for that. */
    if (!is_complete && (p->is_published || (t->o.probe && probe_lacks(t->o.probe))))
        return;
    publish(t, p);
    if (is_complete) {
        const struct parse_facts *facts = main_facts(p);
        p->is_go = facts && facts->is_go;
        p->is_node = is_node(p);
        identity_add_facts(p->identity, t->o.rules, facts);
        add_libraries(t, p);
        p->generation = 0;
        p->is_changed = false;
        t->o.known(t->o.arg, p);
    }
}

void process_table_poke(struct process_table *t)
{
    t->is_poked = true;
}

void process_table_tick(struct process_table *t, int64_t now_ns)
{
    (void)now_ns;
    if (t->is_poked) {
        t->is_poked = false;
        for (size_t i = 0; i < BUCKETS; i++)
            for (struct process *p = t->buckets[i]; p; p = p->next)
                settle(t, p);
    }
    for (struct process **at = &t->detached; *at;) {
        struct process *p = *at;
        if (p->refs > 0) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        free_process(t, p);
    }
}

void process_table_set_kinds(struct process_table *t, uint32_t kinds)
{
    if (kinds == t->o.kinds)
        return;
    t->o.kinds = kinds;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct process *p = t->buckets[i]; p; p = p->next)
            if (p->identity) {
                p->kinds = kinds | identity_kinds(p->identity);
                p->is_changed = true;
            }
    t->is_poked = true;
}

struct process *process_table_next(struct process_table *t, struct process *after)
{
    if (after && after->next)
        return after->next;
    size_t i = after ? hash_mix(after->tgid, 1) % BUCKETS + 1 : 0;
    for (; i < BUCKETS; i++)
        if (t->buckets[i])
            return t->buckets[i];
    return NULL;
}

size_t process_table_asking(const struct process_table *t)
{
    return t->asking;
}

size_t process_table_count(const struct process_table *t)
{
    return t->count;
}
