#include "agent/from_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "inproc/inproc_profiles.h"

#define PROCESSES_MAX 256
#define MEMORY_MIN    ((size_t)1 << 20)

/* A process that carries the library. */
struct carrier {
    struct inside *in;
    struct process *process;       /* held */
    uint64_t begin, inode;         /* where and which memory: another one after exec */
    struct segment_reader *reader; /* NULL while it is being opened */
    struct inproc_window *window;
    uint32_t wanted, alloc_rate, lock_rate; /* as the program had them */
    bool is_over;                           /* everything was taken, and the process is gone */
    struct carrier *next;
};

struct inside {
    struct inside_options o;
    struct carrier *carriers;
    size_t n, asked;
    bool is_off;
    uint64_t records, lost, refused;
};

struct inside *inside_new(const struct inside_options *o)
{
    struct inside *in = must_calloc(1, sizeof(*in));

    in->o = *o;
    return in;
}

static void drop(struct inside *in, struct carrier *c)
{
    inproc_window_free(c->window);
    segment_reader_free(c->reader);
    process_let_go(in->o.processes, c->process);
    free(c);
    in->n--;
}

void inside_free(struct inside *in)
{
    if (!in)
        return;
    while (in->carriers) {
        struct carrier *c = in->carriers;
        in->carriers = c->next;
        drop(in, c);
    }
    free(in);
}

static void forget(struct inside *in, struct carrier *gone)
{
    for (struct carrier **at = &in->carriers; *at; at = &(*at)->next) {
        if (*at != gone)
            continue;
        *at = gone->next;
        drop(in, gone);
        return;
    }
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

/* The memory must be that of this very process: a child that has not made its own yet still shows
 * that of its parent. */
static int begin_reading(struct carrier *c, int fd, struct error *err)
{
    const struct inside_options *o = &c->in->o;
    size_t memory = o->memory_max / 16 > MEMORY_MIN ? o->memory_max / 16 : MEMORY_MIN;
    struct segment_counters counters;

    int r = segment_reader_open(fd, memory, &c->reader, err);
    if (r < 0)
        return r;
    if (segment_reader_facts(c->reader)->pid != c->process->namespaced_pid)
        return error_set(err, -EAGAIN, "process %u has the memory of another one",
                         c->process->tgid);
    r = segment_reader_counters(c->reader, &counters, err);
    if (r < 0)
        return r;
    c->wanted = counters.wanted;
    c->alloc_rate = counters.alloc_rate;
    c->lock_rate = counters.lock_rate;
    c->window = inproc_window_new(
        c->reader,
        &(struct inproc_window_options){.max_memory = memory, .window_ns = (uint64_t)o->window_ns});
    tell(c);
    return 0;
}

static void opened(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct carrier *c = arg;
    struct inside *in = c->in;
    struct inspect_file file;
    struct error err = {""};

    if (r == -ECANCELED) /* everything ends */
        return;
    in->asked--;
    if (r == 0)
        r = inspect_read_file(data, &file, &err);
    else
        error_set(&err, r, "%s", text);
    if (r == 0) {
        c->inode = file.inode;
        r = begin_reading(c, fd, &err);
    } else if (fd >= 0) {
        close(fd);
    }
    if (r == 0)
        return;
    in->refused += r != -EAGAIN && r != -ESRCH;
    if (r != -EAGAIN && r != -ESRCH)
        in->o.complain(in->o.arg, err.text);
    process_look_later(c->process);
    forget(in, c);
}

static struct carrier *find(struct inside *in, const struct process *p)
{
    for (struct carrier *c = in->carriers; c; c = c->next)
        if (c->process == p)
            return c;
    return NULL;
}

void inside_learnt(struct inside *in, struct process *p)
{
    struct carrier *c = find(in, p);

    if (c && c->begin == p->handover_begin)
        return;
    if (c && c->reader) /* it called exec, and the memory is another one */
        forget(in, c);
    else if (c)
        return;
    if (p->handover_begin == 0 || !p->is_wanted || in->n >= PROCESSES_MAX)
        return;
    CLEANUP(buf_done) struct buf q = {0};
    inspect_question_handover(p->tgid, p->start_ns, p->handover_begin, p->handover_end, &q);
    c = must_calloc(1, sizeof(*c));
    *c = (struct carrier){.in = in, .process = p, .begin = p->handover_begin, .next = in->carriers};
    process_hold(p);
    in->carriers = c;
    in->n++;
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
    for (struct carrier *c = in->carriers; c; c = c->next)
        tell(c);
}

/* ---- Windows ---- */

void inside_poll(struct inside *in, int64_t now_ns)
{
    struct error err;

    for (struct carrier *c = in->carriers; c; c = c->next) {
        ssize_t n = c->window
                        ? inproc_window_poll(c->window, (uint64_t)now_ns, c->process->is_gone, &err)
                        : 0;
        in->records += n > 0 ? (uint64_t)n : 0;
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

void inside_end(struct inside *in, int64_t now_ns)
{
    struct error err;

    for (struct carrier *c = in->carriers; c; c = c->next) {
        if (!c->window)
            continue;
        c->is_over = c->process->is_gone;
        (void)inproc_window_end(c->window, (uint64_t)now_ns, c->is_over, &err);
        in->lost += inproc_window_losses(c->window)->lost[PRELOAD_LOSS_RING];
        inproc_window_rows(c->window, want_names, c);
        if (c->process->look_again_ns == 1)
            process_table_look(in->o.processes, c->process, now_ns);
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

void inside_begin(struct inside *in)
{
    struct carrier *next;

    for (struct carrier *c = in->carriers; c; c = next) {
        next = c->next;
        if (c->is_over)
            forget(in, c);
        else if (c->window)
            inproc_window_begin(c->window);
    }
}

void inside_stats(const struct inside *in, struct inside_stats *ret)
{
    *ret = (struct inside_stats){.processes = in->n,
                                 .asked = in->asked,
                                 .records = in->records,
                                 .lost = in->lost,
                                 .refused = in->refused};
}
