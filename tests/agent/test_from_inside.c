#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "agent/from_inside.h"
#include "base/error.h"
/* Enough live memory to make no sense. */
#define WRITER_RECORDS 256
#define WRITER_TEXTS   ((size_t)256 << 10)
#define WRITER_LIVE    2048
#define WRITER_MODULES ((size_t)16 << 10)
#include "inproc/segment_writer.h"
#include "lib/test.h"

#define SECOND ((int64_t)1000000000)
#define INODE  77

struct world {
    struct process_table *table;
    struct inside *inside;
    struct error said;
    unsigned n_said;
};

static void hear(void *arg, const char *text)
{
    struct world *w = arg;

    snprintf(w->said.text, sizeof(w->said.text), "%s", text);
    w->n_said++;
}

static void open_world(struct world *w, struct inside_options o)
{
    *w = (struct world){.table = process_table_new(&(struct process_table_options){.max = 1000})};
    o.processes = w->table;
    o.window_ns = SECOND;
    o.memory_max = o.memory_max ? o.memory_max : (size_t)24 << 20;
    o.complain = hear;
    o.arg = w;
    w->inside = inside_new(&o);
}

static void close_world(struct world *w)
{
    inside_free(w->inside);
    process_table_free(w->table);
}

static struct process *process_of(struct world *w, uint32_t pid)
{
    static const char comm[16] = "program";
    struct process *p = process_table_get(w->table, pid, 1, comm, 1);

    p->namespaced_pid = 4711; /* as the writer says */
    p->handover_begin = 0x10000;
    p->handover_inode = INODE;
    p->next_ask_ns = INT64_MAX; /* there is no inspector */
    return p;
}

static int open_segment(struct world *w, struct process *p, const struct segment_writer *s)
{
    struct error err = {""};

    writer_seal(s);
    return inside_open(w->inside, p, dup(s->fd), p->handover_inode, &err);
}

static struct inside_stats stats_of(const struct world *w)
{
    struct inside_stats s;

    inside_stats(w->inside, &s);
    return s;
}

static void pass_window(struct world *w, int64_t now_ns)
{
    inside_poll(w->inside, now_ns);
    inside_end(w->inside, now_ns);
    inside_begin(w->inside);
}

static void put(struct segment_writer *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        writer_put(s, (struct preload_record){.kind = PRELOAD_ALLOC,
                                              .what = PRELOAD_WHAT_MALLOC,
                                              .stack = writer_stack(s, 0x1000 + i, 0, 0),
                                              .value = 10});
}

static void memory_beyond_limits_is_refused_once(struct test *t)
{
    struct segment_writer s;
    struct world w;

    open_world(&w, (struct inside_options){0});
    writer_open(&s);
    s.h->texts = (struct preload_area){s.h->file_size, (uint64_t)32 << 20};
    s.h->file_size += s.h->texts.size;
    CHECK_INT(t, ftruncate(s.fd, (off_t)s.h->file_size), 0);
    struct process *p = process_of(&w, 100);
    CHECK_INT(t, open_segment(&w, p, &s), -EFBIG);
    CHECK_INT(t, stats_of(&w).refused, 1);
    CHECK_STR(t, w.said.text,
              "process 100: the segment has 33935744 bytes, and the limit is 33619968");
    /* It is not asked for again: there is nobody to ask. */
    inside_learnt(w.inside, p);
    pass_window(&w, SECOND);
    inside_learnt(w.inside, p);
    CHECK_INT(t, w.n_said, 1);
    CHECK_INT(t, stats_of(&w).processes, 0);
    CHECK_INT(t, stats_of(&w).memory, 0);
    writer_close(&s);
    close_world(&w);
}

static void what_makes_no_sense_is_dropped(struct test *t)
{
    struct segment_writer s;
    struct world w;

    open_world(&w, (struct inside_options){0});
    writer_open(&s);
    s.h->wished = ~0u;
    struct process *p = process_of(&w, 100);
    CHECK_INT(t, open_segment(&w, p, &s), 0);
    for (size_t i = 0; i < WRITER_LIVE; i++)
        writer_live(&s, i, 0x1000 * (i + 1),
                    (struct preload_live){.stack = 20000 + (uint32_t)i, .size = 1});
    inside_poll(w.inside, 1); /* looks for leaks */
    inside_poll(w.inside, 2);
    CHECK_INT(t, stats_of(&w).dropped, 1);
    CHECK_INT(t, stats_of(&w).processes, 0);
    CHECK_INT(t, stats_of(&w).memory, 0);
    CHECK(t, strstr(w.said.text, "process 100: the segment makes no sense"));
    CHECK_INT(t, s.h->wanted, 0);
    inside_learnt(w.inside, p);
    pass_window(&w, SECOND);
    CHECK_INT(t, w.n_said, 1);
    writer_close(&s);
    close_world(&w);
}

static void what_costs_too_much_is_dropped(struct test *t)
{
    struct segment_writer s;
    struct world w;

    open_world(&w, (struct inside_options){.cpu_share = 1e-9});
    writer_open(&s);
    CHECK_INT(t, open_segment(&w, process_of(&w, 100), &s), 0);
    for (int64_t i = 1; i <= 2; i++)
        pass_window(&w, i * SECOND);
    CHECK_INT(t, stats_of(&w).dropped, 0);
    pass_window(&w, 3 * SECOND);
    CHECK_INT(t, stats_of(&w).dropped, 1);
    CHECK(t, strstr(w.said.text, "costs too much"));
    writer_close(&s);
    close_world(&w);
}

static void off_is_not_what_the_program_wished(struct test *t)
{
    uint32_t wished = PRELOAD_WANTS(PRELOAD_LOCK);
    struct segment_writer s;
    struct world w;

    writer_open(&s);
    s.h->wanted = s.h->wished = wished;
    open_world(&w, (struct inside_options){0});
    CHECK_INT(t, open_segment(&w, process_of(&w, 100), &s), 0);
    CHECK_INT(t, s.h->wanted, wished);
    inside_switch(w.inside, false);
    CHECK_INT(t, s.h->wanted, 0);
    inside_switch(w.inside, true);
    CHECK_INT(t, s.h->wanted, wished);
    inside_switch(w.inside, false);
    close_world(&w);
    /* The next agent. */
    open_world(&w, (struct inside_options){0});
    CHECK_INT(t, open_segment(&w, process_of(&w, 100), &s), 0);
    CHECK_INT(t, s.h->wanted, wished);
    close_world(&w);
    writer_close(&s);
}

static void all_together_stay_within_the_memory(struct test *t)
{
    size_t max = (size_t)2 << 20, opened = 0;
    struct segment_writer s;
    struct world w;

    writer_open(&s);
    open_world(&w, (struct inside_options){.memory_max = max});
    CHECK_INT(t, open_segment(&w, process_of(&w, 100), &s), 0);
    inside_begin(w.inside);
    CHECK_INT(t, stats_of(&w).memory, max / 4 * 3); /* one alone has most of it */
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < 40; i++)
            opened += open_segment(&w, process_of(&w, 1000 * (round + 1) + i), &s) == 0;
        CHECK(t, stats_of(&w).memory <= max);
        inside_begin(w.inside);
        CHECK(t, stats_of(&w).memory <= max);
    }
    CHECK_INT(t, opened, 15); /* of 128 KiB and more */
    CHECK_INT(t, stats_of(&w).processes, 16);
    CHECK_INT(t, w.n_said, 0); /* the others may come later */
    close_world(&w);
    writer_close(&s);
}

static void exec_loses_nothing(struct test *t)
{
    struct segment_writer s, next;
    struct world w;
    struct process former = {.tgid = 100, .is_gone = true};

    writer_open(&s);
    writer_open(&next);
    open_world(&w, (struct inside_options){0});
    struct process *p = process_of(&w, 100);
    CHECK_INT(t, open_segment(&w, p, &s), 0);
    put(&s, 10);
    inside_poll(w.inside, 1);
    put(&s, 20); /* and nobody has read these */
    inside_replaced(w.inside, p, &former);
    CHECK_INT(t, former.refs, 1);
    /* In the same place: only the inode is another one. */
    p->handover_inode = INODE + 1;
    CHECK_INT(t, open_segment(&w, p, &next), 0);
    put(&next, 5);
    inside_end(w.inside, SECOND);
    CHECK_INT(t, stats_of(&w).records, 35);
    CHECK_INT(t, stats_of(&w).processes, 2);
    inside_begin(w.inside);
    CHECK_INT(t, stats_of(&w).processes, 1);
    CHECK_INT(t, former.refs, 0);
    close_world(&w);
    writer_close(&next);
    writer_close(&s);
}

/* The window has ended and is not published yet: it is kept until it is. */
static void exec_while_a_window_is_published_loses_nothing(struct test *t)
{
    struct segment_writer s;
    struct world w;
    struct process former = {.tgid = 100, .is_gone = true};

    writer_open(&s);
    open_world(&w, (struct inside_options){0});
    struct process *p = process_of(&w, 100);
    CHECK_INT(t, open_segment(&w, p, &s), 0);
    put(&s, 10);
    inside_end(w.inside, SECOND);
    put(&s, 3);
    inside_replaced(w.inside, p, &former);
    inside_begin(w.inside);
    CHECK_INT(t, stats_of(&w).processes, 1);
    pass_window(&w, 2 * SECOND);
    CHECK_INT(t, stats_of(&w).records, 13);
    CHECK_INT(t, stats_of(&w).processes, 0);
    close_world(&w);
    writer_close(&s);
}

static void memory_that_is_another_by_now_waits(struct test *t)
{
    struct segment_writer s;
    struct world w;
    struct error err = {""};

    writer_open(&s);
    open_world(&w, (struct inside_options){0});
    struct process *p = process_of(&w, 100);
    CHECK_INT(t, inside_open(w.inside, p, dup(s.fd), INODE + 1, &err), -EAGAIN);
    CHECK_INT(t, stats_of(&w).processes, 0);
    CHECK_INT(t, w.n_said, 0);
    CHECK_INT(t, open_segment(&w, p, &s), 0);
    close_world(&w);
    writer_close(&s);
}

static void memory_that_can_grow_is_refused(struct test *t)
{
    struct segment_writer s;
    struct world w;
    struct error err = {""};

    writer_open(&s);
    open_world(&w, (struct inside_options){0});
    struct process *p = process_of(&w, 100);
    CHECK_INT(t, inside_open(w.inside, p, dup(s.fd), INODE, &err), -EPERM);
    CHECK_STR(t, w.said.text, "process 100: the segment's size is not sealed");
    CHECK_INT(t, stats_of(&w).refused, 1);
    close_world(&w);
    writer_close(&s);
}

/* Whoever fills a memfd keeps those waiting who write to it. */
struct holder {
    const struct segment_writer *s;
    off_t end;
    bool is_over;
};

static void *hold_up(void *arg)
{
    struct holder *h = arg;
    off_t from = ((off_t)h->s->size + 4095) & ~(off_t)4095;

    while (!__atomic_load_n(&h->is_over, __ATOMIC_RELAXED)) {
        (void)!fallocate(h->s->fd, 0, from, h->end - from);
        (void)!fallocate(h->s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, h->end - from);
    }
    return NULL;
}

static void what_keeps_us_waiting_is_dropped(struct test *t)
{
    struct segment_writer s;
    struct world w;
    struct holder h = {.s = &s, .end = (off_t)16 << 20};
    pthread_t threads[4];
    struct timespec now, end;

    writer_open(&s);
    CHECK_INT(t, ftruncate(s.fd, h.end), 0);
    open_world(&w, (struct inside_options){.wait_max_ns = 1, .cpu_share = 1000});
    CHECK_INT(t, open_segment(&w, process_of(&w, 100), &s), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        CHECK_INT(t, pthread_create(&threads[i], NULL, hold_up, &h), 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 20;
    for (int64_t i = 1; stats_of(&w).processes > 0; i++) {
        put(&s, 1);
        inside_poll(w.inside, i);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > end.tv_sec || s.h->texts_used > WRITER_TEXTS / 16)
            break;
    }
    __atomic_store_n(&h.is_over, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(t, stats_of(&w).processes, 0);
    CHECK_INT(t, stats_of(&w).dropped, 1);
    CHECK_INT(t, stats_of(&w).stalled, 1);
    CHECK(t, strstr(w.said.text, "process 100: its memory keeps us waiting"));
    close_world(&w);
    writer_close(&s);
}

/* There is nobody behind these: asking is enough. */
static struct process *learn(struct world *w, uint32_t pid, uint32_t uid)
{
    struct process *p = process_of(w, pid);

    p->uid = uid;
    p->is_wanted = true;
    inside_learnt(w->inside, p);
    return p;
}

static void one_user_leaves_room_for_others(struct test *t)
{
    struct error err = {""};
    struct loop *loop = NULL;
    struct worker *inspector = NULL;
    struct world w;

    CHECK_INT(t, loop_new(&loop, &err), 0);
    CHECK_INT(t, worker_new(loop, &inspect_worker, &inspector, &err), 0);
    open_world(&w, (struct inside_options){.inspector = inspector, .memory_max = (size_t)2 << 20});
    struct segment_writer s;
    writer_open(&s);
    struct process *first = process_of(&w, 99);
    first->uid = 1000;
    CHECK_INT(t, open_segment(&w, first, &s), 0);
    for (uint32_t i = 0; i < 20; i++)
        (void)learn(&w, 100 + i, 1000);
    CHECK_INT(t, stats_of(&w).processes, 8); /* of 16 for which there is memory */
    CHECK_INT(t, stats_of(&w).shut_out, 13);
    CHECK_INT(t, w.n_said, 1);
    CHECK_STR(t, w.said.text,
              "process 107 waits: 8 are read, and more of user 1000 would take the room of others");
    CHECK_INT(t, stats_of(&w).asked, 7);
    inside_begin(w.inside);
    CHECK_INT(t, stats_of(&w).asked, 7);
    /* One goes: one comes in. */
    first->is_gone = true;
    pass_window(&w, SECOND);
    CHECK_INT(t, stats_of(&w).processes, 8);
    CHECK_INT(t, stats_of(&w).shut_out, 12);
    CHECK_INT(t, stats_of(&w).asked, 8);
    for (uint32_t i = 0; i < 20; i++)
        (void)learn(&w, 200 + i, 2000);
    CHECK_INT(t, stats_of(&w).processes, 12);
    (void)learn(&w, 300, 3000);
    CHECK_INT(t, stats_of(&w).processes, 13); /* and whoever comes next finds some, too */
    close_world(&w);
    worker_free(inspector);
    loop_free(loop);
    writer_close(&s);
}

static const struct test_case cases[] = {
    TEST(memory_beyond_limits_is_refused_once),
    TEST(what_makes_no_sense_is_dropped),
    TEST(what_costs_too_much_is_dropped),
    TEST(off_is_not_what_the_program_wished),
    TEST(all_together_stay_within_the_memory),
    TEST(exec_loses_nothing),
    TEST(exec_while_a_window_is_published_loses_nothing),
    TEST(memory_that_is_another_by_now_waits),
    TEST(memory_that_can_grow_is_refused),
    TEST(what_keeps_us_waiting_is_dropped),
    TEST(one_user_leaves_room_for_others),
};
TEST_MAIN(cases)
