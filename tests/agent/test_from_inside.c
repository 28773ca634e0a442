#include <errno.h>
#include <stdio.h>

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
    s.h->texts = (struct preload_area){s.h->file_size, ((uint64_t)16 << 20) + 64};
    s.h->file_size += s.h->texts.size;
    CHECK_INT(t, ftruncate(s.fd, (off_t)s.h->file_size), 0);
    struct process *p = process_of(&w, 100);
    CHECK_INT(t, open_segment(&w, p, &s), -EFBIG);
    CHECK_INT(t, stats_of(&w).refused, 1);
    CHECK_STR(t, w.said.text,
              "process 100: the segment has 16777280 bytes of texts, and the limit is 16777216");
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
        writer_live(&s, i, 0x1000 * (i + 1), (struct preload_live){.stack = 20000, .size = 1});
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

static const struct test_case cases[] = {
    TEST(memory_beyond_limits_is_refused_once),
    TEST(what_makes_no_sense_is_dropped),
    TEST(what_costs_too_much_is_dropped),
    TEST(off_is_not_what_the_program_wished),
    TEST(all_together_stay_within_the_memory),
    TEST(exec_loses_nothing),
    TEST(exec_while_a_window_is_published_loses_nothing),
    TEST(memory_that_is_another_by_now_waits),
};
TEST_MAIN(cases)
