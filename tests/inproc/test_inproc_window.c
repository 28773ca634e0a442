#include <math.h>

#include "base/random.h"
#include "inproc/inproc_profiles.h"
#include "inproc/inproc_window.h"
#include "inproc/segment_writer.h"
#include "lib/test.h"

#define SECOND ((uint64_t)1000000000)

struct bench {
    struct segment_writer writer;
    struct segment_reader *reader;
    struct inproc_window *window;
    struct budget budget;
    struct profile_set *set;
};

static void open_bench(struct test *t, struct bench *b, bool by_thread)
{
    struct inproc_window_options o = {.by_thread = by_thread, .window_ns = SECOND};

    writer_open(&b->writer);
    CHECK_INT(
        t, segment_reader_open(dup(b->writer.fd), &(struct segment_options){0}, &b->reader, NULL),
        0);
    b->window = inproc_window_new(b->reader, &o);
    budget_init(&b->budget, (size_t)64 << 20);
    b->set = profile_set_new(&b->budget);
}

static void close_bench(struct bench *b)
{
    profile_set_free(b->set);
    inproc_window_free(b->window);
    segment_reader_free(b->reader);
    writer_close(&b->writer);
}

static void make_profiles(struct test *t, struct bench *b)
{
    struct inproc_profiles_options o = {
        .scope_name = "test", .start_unix_ns = 5, .end_unix_ns = 5 + (int64_t)SECOND};

    CHECK_INT(t, inproc_window_end(b->window, SECOND, false, NULL), 0);
    inproc_profiles_add(b->window, &o, b->set);
    inproc_profiles_named(b->set);
    CHECK(t, !budget_failed(&b->budget));
}

static struct profile *profile_of(const struct bench *b, const char *kind)
{
    for (size_t i = 0; i < b->set->profiles.len; i++)
        if (strcmp(inproc_profile_kind(b->set->profiles.data[i]), kind) == 0)
            return b->set->profiles.data[i];
    return NULL;
}

static const char *attribute(const struct profile *p, size_t row, const char *key)
{
    const struct dict *d = p->dict;
    uint32_t name = dict_find_string(d, bytes_of(key));
    uint32_t a = name ? dict_attrs_get(d, profile_attrs(p, row), name) : 0;

    return a ? dict_cstr(d, d->attributes.data[a].text) : NULL;
}

static struct preload_record alloc_of(uint32_t stack, uint64_t size, uint32_t rate)
{
    return (struct preload_record){.kind = PRELOAD_ALLOC,
                                   .what = PRELOAD_WHAT_MALLOC,
                                   .stack = stack,
                                   .value = size,
                                   .rate = rate};
}

static void weights_are_unbiased(struct test *t)
{
    enum { SEEDS = 40, OBJECTS = 20000, RATE = 16384 };
    static const uint64_t sizes[] = {16, 100, 1000, 5000, 40000};
    double objects = 0, bytes = 0, true_bytes = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct bench b;
        struct random random;
        open_bench(t, &b, false);
        random_init(&random, seed);
        uint32_t stack = writer_stack(&b.writer, 0x1001, 0, 0);
        for (size_t i = 0; i < OBJECTS; i++) {
            uint64_t size = sizes[i % ARRAY_SIZE(sizes)];
            double u = (double)(random_u64(&random) >> 11) * 0x1p-53;
            true_bytes += (double)size;
            if (u >= -expm1(-(double)size / RATE))
                continue;
            CHECK(t, writer_put(&b.writer, alloc_of(stack, size, RATE)));
            if (b.writer.h->ring_head - b.writer.h->ring_tail > 200)
                CHECK(t, inproc_window_poll(b.window, 1, false, NULL) > 0);
        }
        make_profiles(t, &b);
        struct profile *p = profile_of(&b, "alloc");
        CHECK(t, p && p->n_samples == 1);
        objects += (double)profile_total(p, 0);
        bytes += (double)profile_total(p, 1);
        close_bench(&b);
    }
    /* The error of objects is that of the small ones: 16 bytes stand for 1024 objects. */
    double one = 4000 * SEEDS * 1024.5, deviation = sqrt(one) / (double)(SEEDS * OBJECTS);
    CHECK(t, fabs(objects / (SEEDS * OBJECTS) - 1) < 4 * deviation);
    CHECK(t, fabs(bytes / true_bytes - 1) < 0.01);
}

static void samples_that_were_certain_stand_for_themselves(struct test *t)
{
    struct bench b;

    open_bench(t, &b, false);
    uint32_t stack = writer_stack(&b.writer, 0x1001, 0, 0);
    writer_put(&b.writer, alloc_of(stack, 100, 0));
    writer_put(&b.writer, alloc_of(stack, 0, 1)); /* malloc(0) counts as a byte when it is drawn */
    make_profiles(t, &b);
    struct profile *p = profile_of(&b, "alloc");
    CHECK_INT(t, profile_total(p, 1), 100);
    CHECK_INT(t, profile_total(p, 0), 3); /* 1 + 1 / (1 - 1/e), rounded once */
    close_bench(&b);
}

static void places_are_where_calls_were_made(struct test *t)
{
    struct bench b;
    uint64_t stack[] = {0x401000 | PRELOAD_EXACT, 0x401234, 0x900000};

    open_bench(t, &b, false);
    writer_module(&b.writer,
                  (struct preload_module){.start = 0x400000,
                                          .end = 0x500000,
                                          .file_offset = 0x1000,
                                          .build_id = {0xab, 0xcd},
                                          .build_id_len = 2},
                  "/bin/prog");
    uint32_t text =
        writer_text(&b.writer, PRELOAD_TEXT_STACK, stack, sizeof(stack), PRELOAD_STACK_CUT);
    writer_put(&b.writer, alloc_of(text, 100, 0));
    make_profiles(t, &b);
    const struct profile *p = profile_of(&b, "alloc");
    const struct dict *d = b.set->dict;
    uint64_t want[] = {0x401000, 0x401233, 0x8fffff};
    uint32_t node = p->node[0];
    for (size_t i = 0; i < 3; i++, node = d->node_parent.data[node]) {
        const struct location *l = &d->locations.data[d->node_location.data[node]];
        CHECK_INT(t, l->address, want[i]);
        const struct mapping *m = &d->mappings.data[l->mapping];
        CHECK_STR(t, dict_cstr(d, m->file), i < 2 ? "/bin/prog" : "//anonymous");
        CHECK_STR(t, dict_cstr(d, m->build_id), i < 2 ? "abcd" : "");
        CHECK_INT(t, m->offset, i < 2 ? 0x1000 : 0);
    }
    const struct location *cut = &d->locations.data[d->node_location.data[node]];
    CHECK_INT(t, cut->n_lines, 1);
    CHECK(t, strstr(dict_cstr(d, d->functions.data[d->lines.data[cut->first_line].function].name),
                    "cut"));
    CHECK_INT(t, d->node_parent.data[node], 0);
    CHECK_INT(t, p->duration_ns, SECOND);
    close_bench(&b);
}

static void spans_labels_and_threads_keep_rows_apart(struct test *t)
{
    struct bench b;

    open_bench(t, &b, true);
    uint32_t stack = writer_stack(&b.writer, 0x1001, 0, 0);
    uint32_t again = writer_stack(&b.writer, 0x1001, 0, 0);
    uint32_t labels = writer_text(&b.writer, PRELOAD_TEXT_LABELS, "\x05\x04route/buy", 11, 0);
    uint32_t name = writer_text(&b.writer, PRELOAD_TEXT_STRING, "worker", 6, 0);
    struct preload_record r = alloc_of(stack, 10, 0);
    writer_put(&b.writer, r);
    r.stack = again;
    writer_put(&b.writer, r); /* the same stack under another number */
    r.labels = labels;
    writer_put(&b.writer, r);
    r.labels = 0;
    r.thread_name = name;
    writer_put(&b.writer, r);
    r.trace_id[0] = r.span_id[0] = 7;
    writer_put(&b.writer, r);
    make_profiles(t, &b);
    const struct profile *p = profile_of(&b, "alloc");
    CHECK_INT(t, p->n_samples, 4);
    CHECK_INT(t, p->values[1][0], 20);
    CHECK_STR(t, attribute(p, 0, "memory.kind"), "malloc");
    CHECK_STR(t, attribute(p, 1, "route"), "/buy");
    CHECK_STR(t, attribute(p, 2, "thread.name"), "worker");
    CHECK_INT(t, profile_link(p, 2), 0);
    CHECK(t, profile_link(p, 3) != 0);
    CHECK_INT(t, p->dict->links.data[profile_link(p, 3)].span_id[0], 7);
    close_bench(&b);
}

static void locks_say_what_kind_and_who_held_them(struct test *t)
{
    struct bench b;

    open_bench(t, &b, false);
    writer_module(&b.writer, (struct preload_module){.start = 0x1000, .end = 0x9000}, "/bin/prog");
    struct preload_record r = {.kind = PRELOAD_LOCK,
                               .what = PRELOAD_WHAT_WRITE_LOCK,
                               .stack = writer_stack(&b.writer, 0x1001, 0, 0),
                               .value = 2000,
                               .rate = 0};
    writer_put(&b.writer, r);
    r.other = writer_stack(&b.writer, 0x2001, 0x3001, 0);
    writer_put(&b.writer, r);
    make_profiles(t, &b);
    const struct profile *p = profile_of(&b, "lock");
    CHECK_INT(t, b.set->profiles.len, 1); /* holders are no profile of their own */
    CHECK_INT(t, p->n_samples, 2);
    CHECK_INT(t, p->values[0][0], 1);
    CHECK_INT(t, p->values[1][1], 2000);
    CHECK_STR(t, attribute(p, 0, "lock.kind"), "write_lock");
    CHECK(t, !attribute(p, 0, "lock.holder"));
    CHECK_STR(t, attribute(p, 1, "lock.holder"), "prog < prog");
    close_bench(&b);
}

static void custom_samples_have_their_own_type(struct test *t)
{
    struct bench b;

    open_bench(t, &b, false);
    struct preload_record r = {.kind = PRELOAD_CUSTOM,
                               .stack = writer_stack(&b.writer, 0x1001, 0, 0),
                               .other =
                                   writer_text(&b.writer, PRELOAD_TEXT_STRING, "rows/count", 10, 0),
                               .value = 12};
    writer_put(&b.writer, r);
    r.other = writer_text(&b.writer, PRELOAD_TEXT_STRING, "\x01\xff", 2, 0);
    writer_put(&b.writer, r);
    writer_put(&b.writer, (struct preload_record){.kind = PRELOAD_THREAD, .value = 1});
    make_profiles(t, &b);
    CHECK_INT(t, b.set->profiles.len, 3);
    const struct profile *p = profile_of(&b, "custom");
    CHECK_STR(t, dict_cstr(p->dict, p->types[0].type), "rows");
    CHECK_INT(t, profile_total(p, 0), 12);
    CHECK_INT(t, profile_total(profile_of(&b, "threads"), 0), 1);
    close_bench(&b);
}

static void live_memory_is_that_of_the_end(struct test *t)
{
    struct bench b;

    open_bench(t, &b, false);
    uint32_t stack = writer_stack(&b.writer, 0x1001, 0, 0);
    struct preload_live live = {.size = 1000, .stack = stack, .what = PRELOAD_WHAT_MALLOC};
    writer_live(&b.writer, 1, 0x7000, live);
    writer_live(&b.writer, 2, 0x8000, live);
    inproc_window_poll(b.window, 1, false, NULL);
    writer_live(&b.writer, 1, 0, live);
    make_profiles(t, &b);
    CHECK_INT(t, profile_total(profile_of(&b, "heap"), 1), 1000);
    /* The next window has what is there then, and no records of this one. */
    inproc_window_begin(b.window);
    writer_live(&b.writer, 5, 0x9000, live);
    profile_set_truncate(b.set, 0);
    make_profiles(t, &b);
    CHECK_INT(t, b.set->profiles.len, 1);
    CHECK_INT(t, profile_total(profile_of(&b, "heap"), 1), 2000);
    close_bench(&b);
}

/* Second after second a site keeps more; the profile of the last window marks it. */
static void suspects_are_marked(struct test *t)
{
    struct bench b;
    size_t slot = 0;

    open_bench(t, &b, false);
    uint32_t leak = writer_stack(&b.writer, 0x1001, 0, 0);
    uint32_t stays = writer_stack(&b.writer, 0x2001, 0, 0);
    for (uint64_t s = 1; s <= 12; s++) {
        for (size_t i = 0; i < 20; i++)
            writer_live(&b.writer, slot, 0x10000 + slot * 16,
                        (struct preload_live){
                            .size = 4096, .stack = leak, .rate = 4096, .time_ns = s * SECOND - 5}),
                slot++;
        for (size_t i = 0; s < 3 && i < 100; i++)
            writer_live(&b.writer, slot, 0x10000 + slot * 16,
                        (struct preload_live){
                            .size = 4096, .stack = stays, .rate = 4096, .time_ns = s * SECOND - 5}),
                slot++;
        CHECK_INT(t, inproc_window_poll(b.window, s * SECOND, false, NULL), 0);
    }
    make_profiles(t, &b);
    const struct profile *p = profile_of(&b, "heap");
    CHECK_INT(t, p->n_samples, 2);
    CHECK_STR(t, attribute(p, 0, "leak.suspect"), "true");
    CHECK(t, !attribute(p, 1, "leak.suspect"));
    close_bench(&b);
}

static void what_was_lost_is_told(struct test *t)
{
    struct bench b;

    open_bench(t, &b, false);
    uint32_t stack = writer_stack(&b.writer, 0x1001, 0, 0);
    for (size_t i = 0; i < WRITER_RECORDS + 9; i++)
        writer_put(&b.writer, alloc_of(stack, 1, 0));
    inproc_window_poll(b.window, 1, false, NULL);
    writer_put(&b.writer, (struct preload_record){.kind = 99});
    make_profiles(t, &b);
    const struct inproc_losses *l = inproc_window_losses(b.window);
    CHECK_INT(t, l->lost[PRELOAD_LOSS_RING], 9);
    CHECK_INT(t, l->unsound, 1);
    CHECK(t, inproc_losses_any(l));
    CHECK_INT(t, b.set->notes.len, 2);
    /* Each window tells its own. */
    inproc_window_begin(b.window);
    CHECK_INT(t, inproc_window_end(b.window, SECOND, false, NULL), 0);
    CHECK(t, !inproc_losses_any(inproc_window_losses(b.window)));
    close_bench(&b);
}

static void count_stackless(void *arg, const struct inproc_row *row)
{
    size_t *n = arg;

    n[row->has_no_stack]++;
}

/* More stacks than there is room for: the next window has room again, and nothing of leaks is
 * told by numbers that mean other stacks by then. */
static void a_window_without_room_is_followed_by_one_with_it(struct test *t)
{
    struct bench b;
    size_t before[2] = {0}, after[2] = {0};

    open_bench(t, &b, false);
    b.writer.h->wanted |= PRELOAD_WANTS(PRELOAD_LIVE);
    inproc_window_begin_within(b.window, (size_t)64 << 10, (size_t)1 << 20);
    for (uint64_t i = 1; i <= 4000; i++) {
        writer_put(&b.writer, alloc_of(writer_stack(&b.writer, 0x1000 + i, 0, 0), 10, 0));
        inproc_window_poll(b.window, i, false, NULL);
    }
    CHECK_INT(t, inproc_window_end(b.window, SECOND, false, NULL), 0);
    inproc_window_rows(b.window, count_stackless, before);
    CHECK(t, before[0] > 100 && before[1] == 1);
    CHECK(t, inproc_window_losses(b.window)->left_out > 0);
    inproc_window_begin(b.window);
    for (uint64_t i = 1; i <= 50; i++)
        writer_put(&b.writer, alloc_of(writer_stack(&b.writer, 0x9000 + i, 0, 0), 10, 0));
    CHECK_INT(t, inproc_window_end(b.window, 2 * SECOND, false, NULL), 0);
    inproc_window_rows(b.window, count_stackless, after);
    CHECK_INT(t, after[0], 50);
    CHECK_INT(t, after[1], 0);
    struct inproc_losses l = *inproc_window_losses(b.window);
    CHECK_INT(t, l.restarted, 1); /* and that is told */
    l.restarted = 0;
    CHECK(t, !inproc_losses_any(&l));
    inproc_window_begin(b.window);
    CHECK(t, !inproc_losses_any(inproc_window_losses(b.window)));
    close_bench(&b);
}

static const struct test_case cases[] = {
    TEST(weights_are_unbiased),
    TEST(samples_that_were_certain_stand_for_themselves),
    TEST(places_are_where_calls_were_made),
    TEST(spans_labels_and_threads_keep_rows_apart),
    TEST(locks_say_what_kind_and_who_held_them),
    TEST(custom_samples_have_their_own_type),
    TEST(live_memory_is_that_of_the_end),
    TEST(suspects_are_marked),
    TEST(what_was_lost_is_told),
    TEST(a_window_without_room_is_followed_by_one_with_it),
};
TEST_MAIN(cases)
