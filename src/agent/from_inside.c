#include "agent/from_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/must.h"
#include "inproc/inproc_profiles.h"

/* All together; one user's have at most half of what others leave. */
#define PROCESSES_MAX 512

/* Memory: every process has a share, and all shares together are within the limit. A process that
 * is new has some of what is left; when a window begins, all have the same, and a quarter is left
 * for the next ones. */
#define SHARE_MIN   ((size_t)128 << 10)
#define SHARE_FIXED ((size_t)16 << 10) /* of a share: what is there without any text or row */

/* Near what the library makes by itself. Anybody can make such memory, and larger one. */
#define RECORDS_MAX       65536
#define LIVE_KEYS_MAX     262144
#define TEXTS_BYTES_MAX   ((uint64_t)16 << 20)
#define MODULES_BYTES_MAX ((uint64_t)1 << 20)
#define DRAINED_MAX       8192
#define DOUBTS_MAX        1000 /* in a window; a library that is sound gives no reason for any */

#define CPU_SHARE_DEFAULT 0.05
#define COSTLY_TIMES      3 /* more than its part, and in so many windows one after the other */
#define COSTLY_WINDOWS    3
#define WAIT_PART         20 /* of a window, in which one of them may keep us waiting */

/* A process that carries the library. */
struct carrier {
    struct inside *in;
    struct process *process;       /* held; what it was, once it has called exec */
    struct segment_reader *reader; /* NULL while it is being opened, or it is dropped */
    struct inproc_window *window;
    size_t memory; /* its share */
    uint64_t records;
    int64_t cost_ns;   /* CPU, and waiting */
    int64_t waited_ns; /* of that: for whoever else uses its memory */
    unsigned costly_windows;
    uint32_t wanted, alloc_rate, lock_rate; /* as the program had them */
    bool is_over;                           /* everything was taken, and the process is gone */
    bool is_dropped;                        /* this memory is not read any more */
    struct carrier *next;
};

struct inside {
    struct inside_options o;
    struct carrier *carriers;
    size_t n, asked; /* without those that were dropped */
    size_t memory;   /* of all shares */
    int64_t cost_ns; /* of all, in this window */
    bool is_off;
    bool is_full_told; /* in this window */
    size_t shut_out;   /* processes that wait for room, when that was looked at last */
    uint64_t records, lost, refused, dropped, stalled;
};

struct inside *inside_new(const struct inside_options *o)
{
    struct inside *in = must_calloc(1, sizeof(*in));

    in->o = *o;
    if (in->o.cpu_share <= 0)
        in->o.cpu_share = CPU_SHARE_DEFAULT;
    if (in->o.wait_max_ns <= 0)
        in->o.wait_max_ns = in->o.window_ns / WAIT_PART;
    return in;
}

static void stop_reading(struct carrier *c)
{
    inproc_window_free(c->window);
    segment_reader_free(c->reader);
    c->window = NULL;
    c->reader = NULL;
    c->in->memory -= c->memory;
    c->memory = 0;
}

static void free_carrier(struct carrier *c)
{
    stop_reading(c);
    c->in->n -= !c->is_dropped;
    process_let_go(c->in->o.processes, c->process);
    free(c);
}

void inside_free(struct inside *in)
{
    if (!in)
        return;
    while (in->carriers) {
        struct carrier *c = in->carriers;
        in->carriers = c->next;
        free_carrier(c);
    }
    free(in);
}

static void forget(struct inside *in, struct carrier *gone)
{
    for (struct carrier **at = &in->carriers; *at; at = &(*at)->next) {
        if (*at != gone)
            continue;
        *at = gone->next;
        free_carrier(gone);
        return;
    }
}

static bool is_slow(const struct carrier *c)
{
    return c->waited_ns > c->in->o.wait_max_ns;
}

/* It stays known as one that is not read, so that it is not opened again and again. */
static void drop(struct carrier *c, const char *why)
{
    struct inside *in = c->in;
    struct error err;

    if (c->reader && !is_slow(c))
        (void)segment_reader_set(c->reader, 0, c->alloc_rate, c->lock_rate, &err);
    stop_reading(c);
    c->is_dropped = true;
    in->n--;
    error_set(&err, 0, "process %u: %s", c->process->tgid, why);
    in->o.complain(in->o.arg, err.text);
}

/* ---- What it costs ---- */

/* What this thread has used up so far. */
struct spent {
    int64_t cpu_ns, wall_ns;
    long waits; /* how often it has let go of the CPU by itself */
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct spent spent_now(void)
{
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_THREAD, &usage);
    return (struct spent){.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID),
                          .wall_ns = clock_ns(CLOCK_MONOTONIC),
                          .waits = usage.ru_nvcsw};
}

/* Time in which others have the CPU is not a process's fault; waiting for its memory is. */
static void charge(struct carrier *c, const struct spent *since)
{
    struct spent now = spent_now();
    int64_t cpu = now.cpu_ns - since->cpu_ns, wall = now.wall_ns - since->wall_ns;
    int64_t waited = now.waits != since->waits && wall > cpu ? wall - cpu : 0;

    c->cost_ns += cpu + waited;
    c->waited_ns += waited;
    c->in->cost_ns += cpu + waited;
}

/* Whether all have cost more than they may in this window, and this one so many times its part. */
static bool is_costly(const struct carrier *c, int64_t times)
{
    const struct inside *in = c->in;
    int64_t allowed = (int64_t)((double)in->o.window_ns * in->o.cpu_share);

    return in->cost_ns > allowed && c->cost_ns > times * allowed / (int64_t)(in->n ? in->n : 1);
}

static void drop_if_slow(struct carrier *c)
{
    struct error why;

    if (c->is_dropped || !is_slow(c))
        return;
    error_set(&why, 0, "its memory keeps us waiting: %lld ms in a window",
              (long long)c->waited_ns / 1000000);
    c->in->dropped++;
    c->in->stalled++;
    drop(c, why.text);
}

/* ---- Opening ---- */

static void tell(struct carrier *c)
{
    const struct inside_options *o = &c->in->o;
    uint32_t wanted = o->wanted ? o->wanted : c->wanted;
    struct error err;

    if (c->reader)
        (void)segment_reader_set(c->reader, c->in->is_off ? 0 : wanted,
                                 o->alloc_rate ? o->alloc_rate : c->alloc_rate, c->lock_rate, &err);
}

static size_t reader_memory(const struct carrier *c)
{
    return (c->memory - SHARE_FIXED) / 2;
}

static size_t window_memory(const struct carrier *c)
{
    return (c->memory - SHARE_FIXED) / 2;
}

static int take_share(struct carrier *c, struct error *err)
{
    struct inside *in = c->in;
    size_t left = in->o.memory_max - in->memory;

    if (in->o.memory_max < in->memory || left < SHARE_MIN)
        return error_set(err, -EAGAIN, "no memory is left for process %u", c->process->tgid);
    c->memory = left / 16 > SHARE_MIN ? left / 16 : SHARE_MIN;
    in->memory += c->memory;
    return 0;
}

/* The memory must be that of this very process: a child that has not made its own yet still shows
 * that of its parent. */
static int begin_reading(struct carrier *c, int fd, struct error *err)
{
    struct segment_options o = {.max_memory = reader_memory(c),
                                .max_records = RECORDS_MAX,
                                .max_live_keys = LIVE_KEYS_MAX,
                                .max_texts_bytes = TEXTS_BYTES_MAX,
                                .max_modules_bytes = MODULES_BYTES_MAX,
                                .max_drained = DRAINED_MAX,
                                .max_doubts = DOUBTS_MAX,
                                .must_be_sealed = true};
    struct segment_counters counters;

    int r = segment_reader_open(fd, &o, &c->reader, err);
    if (r < 0)
        return r;
    if (segment_reader_facts(c->reader)->pid != c->process->namespaced_pid)
        return error_set(err, -EAGAIN, "process %u has the memory of another one",
                         c->process->tgid);
    r = segment_reader_counters(c->reader, &counters, err);
    if (r < 0)
        return r;
    c->wanted = counters.wished; /* not what an agent before us has left there */
    c->alloc_rate = counters.alloc_rate;
    c->lock_rate = counters.lock_rate;
    c->window = inproc_window_new(
        c->reader, &(struct inproc_window_options){.max_memory = window_memory(c),
                                                   .window_ns = (uint64_t)c->in->o.window_ns});
    tell(c);
    return 0;
}

static struct carrier *find(struct inside *in, const struct process *p)
{
    for (struct carrier *c = in->carriers; c; c = c->next)
        if (c->process == p)
            return c;
    return NULL;
}

static struct carrier *add_carrier(struct inside *in, struct process *p)
{
    struct carrier *c = must_calloc(1, sizeof(*c));

    *c = (struct carrier){.in = in, .process = p, .next = in->carriers};
    process_hold(p);
    in->carriers = c;
    in->n++;
    return c;
}

/* ---- Whose turn it is ---- */

/* So much is left for others at any time that each of them finds some. */
static bool has_room(const struct inside *in, uint32_t uid)
{
    size_t most = in->o.memory_max / SHARE_MIN, of_user = 0;

    most = most < PROCESSES_MAX ? most : PROCESSES_MAX;
    for (const struct carrier *c = in->carriers; c; c = c->next)
        of_user += !c->is_dropped && c->process->uid == uid;
    size_t others = in->n - of_user;
    return in->n < most && of_user < (most - others + 1) / 2;
}

static void shut_out(struct inside *in, struct process *p)
{
    struct error why;

    in->shut_out += !p->is_shut_out;
    p->is_shut_out = true;
    if (in->is_full_told)
        return;
    in->is_full_told = true;
    error_set(&why, 0,
              "process %u waits: %zu are read, and more of user %u would take the room of others",
              p->tgid, in->n, p->uid);
    in->o.complain(in->o.arg, why.text);
}

/* Some may have gone. */
static void let_in(struct inside *in)
{
    if (in->shut_out == 0)
        return;
    in->shut_out = 0;
    for (struct process *p = NULL; (p = process_table_next(in->o.processes, p)) != NULL;) {
        if (!p->is_shut_out || p->is_gone)
            continue;
        p->is_shut_out = !has_room(in, p->uid);
        in->shut_out += p->is_shut_out;
        if (!p->is_shut_out)
            inside_learnt(in, p);
    }
}

int inside_open(struct inside *in, struct process *p, int fd, uint64_t inode, struct error *err)
{
    struct spent began = spent_now();
    struct carrier *c = find(in, p);
    bool is_other = inode != p->handover_inode; /* than when it was looked at: it called exec */

    c = c ? c : add_carrier(in, p);
    int r = is_other ? error_set(err, -EAGAIN, "process %u has other memory by now", p->tgid)
                     : take_share(c, err);
    if (r < 0)
        close(fd);
    else
        r = begin_reading(c, fd, err);
    charge(c, &began);
    if (r == 0)
        return 0;
    if (r == -EAGAIN) {
        process_look_later(p);
        forget(in, c);
    } else {
        in->refused++;
        drop(c, err->text);
    }
    return r;
}

static void opened(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct inspect_file file;
    struct error err = {""};

    if (r == -ECANCELED) /* everything ends, and has ended here */
        return;
    struct carrier *c = arg;
    struct inside *in = c->in;
    in->asked--;
    if (r == 0)
        r = inspect_read_file(data, &file, &err);
    else
        error_set(&err, r, "%s", text);
    if (r == 0) {
        (void)inside_open(in, c->process, fd, file.inode, &err);
        return;
    }
    if (fd >= 0)
        close(fd);
    in->refused += r != -EAGAIN && r != -ESRCH;
    if (r == -EPERM || r == -EFBIG) { /* it will not be another */
        drop(c, err.text);
        return;
    }
    if (r != -EAGAIN && r != -ESRCH)
        in->o.complain(in->o.arg, err.text);
    process_look_later(c->process);
    forget(in, c);
}

void inside_replaced(struct inside *in, struct process *p, struct process *former)
{
    struct carrier *c = find(in, p);

    if (!c || (!c->reader && !c->is_dropped))
        return; /* inside_open() will see */
    process_hold(former);
    process_let_go(in->o.processes, p);
    c->process = former;
}

void inside_learnt(struct inside *in, struct process *p)
{
    if (find(in, p) || p->handover_begin == 0 || !p->is_wanted)
        return;
    if (!has_room(in, p->uid)) {
        shut_out(in, p);
        return;
    }
    CLEANUP(buf_done) struct buf q = {0};
    inspect_question_handover(p->tgid, p->start_ns, p->handover_begin, p->handover_end, &q);
    struct carrier *c = add_carrier(in, p);
    if (worker_ask(in->o.inspector, buf_bytes(&q), NULL, 0, opened, c) < 0)
        forget(in, c);
    else
        in->asked++;
}

void inside_switch(struct inside *in, bool is_on)
{
    if (in->is_off == !is_on)
        return;
    in->is_off = !is_on;
    for (struct carrier *c = in->carriers; c; c = c->next) {
        struct spent began = spent_now();
        tell(c);
        charge(c, &began);
    }
}

/* ---- Windows ---- */

static void count_records(struct carrier *c)
{
    uint64_t taken = segment_reader_taken(c->reader);

    c->in->records += taken - c->records;
    c->records = taken;
}

void inside_poll(struct inside *in, int64_t now_ns)
{
    struct error err;

    for (struct carrier *c = in->carriers; c; c = c->next) {
        drop_if_slow(c);
        if (!c->window || is_costly(c, 1)) /* what the ring does not hold, its library counts */
            continue;
        struct spent began = spent_now();
        ssize_t n = inproc_window_poll(c->window, (uint64_t)now_ns, c->process->is_gone, &err);
        charge(c, &began);
        count_records(c);
        if (n == -EBADMSG) {
            in->dropped++;
            drop(c, err.text);
        }
    }
}

/* Names of what is in the window will be needed, and mappings that are not known yet. */
static void want_names(void *arg, const struct inproc_row *row)
{
    struct carrier *c = arg;
    uint32_t last = PLACE_KERNEL;

    for (size_t i = 0; i < row->n_addresses; i++) {
        uint32_t file = place_file(process_place(c->process, row->addresses[i], true));
        if (file == PLACE_RAW)
            process_look_later(c->process);
        struct code_file *f =
            file == last || file == PLACE_RAW ? NULL : code_files_get(c->in->o.files, file);
        if (f)
            code_file_want_names(c->in->o.files, f);
        last = file;
    }
}

static void end_window(struct carrier *c, int64_t now_ns)
{
    struct inside *in = c->in;
    struct error err = {""};

    int r = inproc_window_end(c->window, (uint64_t)now_ns, c->is_over, &err);
    in->lost += inproc_window_losses(c->window)->lost[PRELOAD_LOSS_RING];
    count_records(c);
    if (r == -EBADMSG) {
        in->dropped++;
        drop(c, err.text);
        return;
    }
    inproc_window_rows(c->window, want_names, c);
    if (c->process->look_again_ns == 1)
        process_table_look(in->o.processes, c->process, now_ns);
}

void inside_end(struct inside *in, int64_t now_ns)
{
    for (struct carrier *c = in->carriers; c; c = c->next) {
        struct spent began = spent_now();
        c->is_over = c->process->is_gone && (c->window || c->is_dropped);
        if (c->window)
            end_window(c, now_ns);
        charge(c, &began);
    }
}

struct names {
    const struct process *process;
    struct naming *naming;
};

static uint32_t location_of(void *arg, uint64_t address)
{
    struct names *n = arg;

    return naming_location(n->naming, n->process, process_place(n->process, address, true));
}

static uint32_t text_of(void *arg, struct bytes text)
{
    struct names *n = arg;

    return naming_string(n->naming, MASK_LABELS, text);
}

void inside_publish(struct inside *in, const struct window *w, const struct publish_options *o,
                    struct profile_set *set)
{
    for (struct carrier *c = in->carriers; c; c = c->next) {
        struct names names = {c->process, o->naming};
        if (!c->window)
            continue;
        inproc_profiles_add(
            c->window,
            &(struct inproc_profiles_options){.resource_attrs = publish_resource(o, c->process),
                                              .scope_name = "vesta-agent",
                                              .start_unix_ns = w->start_unix_ns,
                                              .end_unix_ns = w->end_unix_ns,
                                              .location = location_of,
                                              .text = text_of,
                                              .arg = &names},
            set);
    }
    inproc_profiles_named(set);
}

static void drop_if_costly(struct carrier *c)
{
    struct error why;

    drop_if_slow(c);
    c->costly_windows = is_costly(c, COSTLY_TIMES) ? c->costly_windows + 1 : 0;
    if (!c->window || c->costly_windows < COSTLY_WINDOWS)
        return;
    error_set(&why, 0, "reading what it samples costs too much: %lld ms in a window",
              (long long)c->cost_ns / 1000000);
    c->in->dropped++;
    drop(c, why.text);
}

/* All have the same, of three quarters of the limit. */
static void share_out(struct inside *in)
{
    size_t share = in->o.memory_max / 4 * 3 / (in->n ? in->n : 1);

    for (struct carrier *c = in->carriers; c; c = c->next) {
        if (!c->window)
            continue;
        in->memory -= c->memory;
        c->memory = share > SHARE_MIN ? share : SHARE_MIN;
        in->memory += c->memory;
        inproc_window_begin_within(c->window, reader_memory(c), window_memory(c));
    }
}

void inside_begin(struct inside *in)
{
    struct carrier *next;

    for (struct carrier *c = in->carriers; c; c = next) {
        next = c->next;
        if (c->is_over)
            forget(in, c);
        else
            drop_if_costly(c);
    }
    share_out(in);
    in->cost_ns = 0;
    in->is_full_told = false;
    for (struct carrier *c = in->carriers; c; c = c->next)
        c->cost_ns = c->waited_ns = 0;
    let_in(in);
}

void inside_stats(const struct inside *in, struct inside_stats *ret)
{
    *ret = (struct inside_stats){.processes = in->n,
                                 .asked = in->asked,
                                 .shut_out = in->shut_out,
                                 .records = in->records,
                                 .lost = in->lost,
                                 .refused = in->refused,
                                 .dropped = in->dropped,
                                 .stalled = in->stalled,
                                 .memory = in->memory};
}
