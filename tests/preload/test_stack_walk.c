/*
 * Stacks of frames of all shapes, against what they must be and against libgcc's, which reads the
 * same tables with other code.
 *
 * Links: dl.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "preload/walk_world.h"

#define TESTED __attribute__((noinline, visibility("default")))

/* Cases are functions of this file, which dladdr() knows by their names if they are exported. */
#define CASE(name)                                                                                 \
    TESTED void name(struct test *t);                                                              \
    void name(struct test *t)

static struct two_stacks s;

static void begin(void)
{
    memset(&s, 0, sizeof(s));
}

CASE(shapes)
{
    begin();
    walk_start();
    CHECK(t, preload_thread.stack_root != 0);
    shape_plain(take_stacks, &s);
    CHECK_STR(t, names_of(&s), "shape_plain shapes main");
    CHECK_SAME(t, &s);
    CHECK_INT(t, s.flags, 0);
    shape_many_registers(take_stacks, &s);
    CHECK_STR(t, names_of(&s), "shape_many_registers shapes main");
    CHECK_SAME(t, &s);
    shape_variable(take_stacks, &s, 1000);
    CHECK_STR(t, names_of(&s), "shape_variable shapes main");
    CHECK_SAME(t, &s);
    shape_aligned(take_stacks, &s);
    CHECK_STR(t, names_of(&s), "shape_aligned shapes main");
    CHECK_SAME(t, &s);
    shape_aligned_variable(take_stacks, &s, 300);
    CHECK_STR(t, names_of(&s), "shape_aligned_variable shapes main");
    CHECK_SAME(t, &s);
    shape_large(take_stacks, &s);
    CHECK_STR(t, names_of(&s), "shape_large shapes main");
    CHECK_SAME(t, &s);
    shape_early_out(take_stacks, &s, 0);
    CHECK_STR(t, names_of(&s), "shape_many_registers shape_early_out shapes main");
    CHECK_SAME(t, &s);
    CHECK_INT(t, s.flags, 0);
}

/* Calls the next one of a list: stacks of all orders. */
struct chain {
    const uint8_t *next;
    struct two_stacks *s;
};

static void call_next(void *ctx)
{
    struct chain *c = ctx;

    switch (*c->next++) {
    case 0:
        shape_plain(call_next, c);
        return;
    case 1:
        shape_many_registers(call_next, c);
        return;
    case 2:
        shape_variable(call_next, c, 100 + (size_t)*c->next * 50);
        return;
    case 3:
        shape_aligned(call_next, c);
        return;
    case 4:
        shape_aligned_variable(call_next, c, 64);
        return;
    case 5:
        shape_early_out(call_next, c, 0);
        return;
    case 6:
        shape_with_pointer(take_stacks, c->s); /* libgcc ends there */
        return;
    default:
        take_stacks(c->s);
    }
    __asm__ volatile("" ::: "memory");
}

CASE(random_orders_of_shapes)
{
    uint8_t order[40];
    uint32_t random = 7;

    for (int round = 0; round < 300; round++) {
        struct chain c = {order, &s};
        size_t n = 1 + (size_t)round % 30;
        begin();
        for (size_t i = 0; i < n; i++) {
            random = random * 1664525 + 1013904223;
            order[i] = (uint8_t)((random >> 16) % 6);
        }
        memset(order + n, 7, sizeof(order) - n);
        call_next(&c);
        CHECK_INT(t, s.flags, 0);
        CHECK_SAME(t, &s);
        if (t->failures)
            return;
    }
}

static int compare_first(const void *a, const void *b)
{
    if (s.n_ours == 0)
        take_stacks(&s);
    return *(const int *)a - *(const int *)b;
}

CASE(through_libc)
{
    int numbers[] = {3, 1, 2, 5, 4};

    begin();
    qsort(numbers, 5, sizeof(int), compare_first);
    CHECK_SAME(t, &s);
    CHECK_INT(t, s.flags, 0);
    CHECK(t, strstr(names_of(&s), " through_libc main"));
    CHECK(t, s.n_ours > 5); /* with qsort's own */
}

CASE(deep_stacks_are_cut)
{
    begin();
    shape_deep(take_stacks, &s, 150);
    CHECK_SAME(t, &s);
    CHECK_INT(t, s.flags, 0);
    begin();
    s.ours_only = true;
    shape_deep(take_stacks, &s, 5000);
    CHECK_INT(t, s.n_ours, PRELOAD_FRAMES_MAX);
    CHECK_INT(t, s.flags, PRELOAD_STACK_CUT);
    CHECK(t, s.ours[1] != 0 && s.ours[100] == s.ours[191]);
}

static void on_signal(int number)
{
    (void)number;
    take_stacks(&s);
}

static void raise_it(void *ctx)
{
    (void)ctx;
    raise(SIGUSR1);
    __asm__ volatile("" ::: "memory");
}

static void check_signal(struct test *t, const char *end)
{
    const char *names = names_of(&s);
    int exact = 0;

    CHECK_SAME(t, &s);
    CHECK_INT(t, s.flags, 0);
    CHECK(t, strlen(names) > strlen(end) && strcmp(names + strlen(names) - strlen(end), end) == 0);
    for (size_t i = 0; i < s.n_ours; i++)
        exact += (s.ours[i] & PRELOAD_EXACT) != 0;
    CHECK_INT(t, exact, 2); /* where it came, and the code that returns from it */
}

CASE(through_a_signal_handler)
{
    struct sigaction a = {.sa_handler = on_signal};

    begin();
    sigaction(SIGUSR1, &a, NULL);
    shape_variable(raise_it, NULL, 700);
    check_signal(t, "shape_variable through_a_signal_handler main");
}

CASE(through_a_handler_on_its_own_stack)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    size_t size = 128 << 10;
    char *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t other = {.ss_sp = room, .ss_size = size}, off = {.ss_flags = SS_DISABLE};

    begin();
    sigaltstack(&other, NULL);
    sigaction(SIGUSR1, &a, NULL);
    for (int i = 0; i < 3; i++) {
        shape_many_registers(raise_it, NULL);
        check_signal(t, "shape_many_registers through_a_handler_on_its_own_stack main");
    }
    sigaltstack(&off, NULL);
    munmap(room, size);
}

/* ---- Every instruction ---- */

static struct {
    uint64_t steps, same, shorter, others;
    struct two_stacks worst;
} traced;

static void on_step(int number)
{
    int was = errno;

    (void)number;
    take_stacks(&s);
    traced.steps++;
    if (same_stacks(&s)) {
        traced.same++;
    } else if (s.n_theirs < s.n_ours) {
        traced.shorter++;
    } else {
        traced.others++;
        traced.worst = s;
    }
    errno = was;
}

static void do_nothing(void *ctx)
{
    (void)ctx;
    __asm__ volatile("");
}

/* The processor's trap flag: a signal after each instruction. */
static inline void trap_flag(bool on)
{
    if (on)
        __asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" ::: "memory", "cc");
    else
        __asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

CASE(at_every_instruction)
{
    struct sigaction a = {.sa_handler = on_step};
    char text[100];
    int numbers[] = {3, 1, 2, 5, 4, 9, 7};

#ifdef __SANITIZE_THREAD__
    TEST_SKIP(t, "TSan calls handlers later");
#endif
    begin();
    memset(&traced, 0, sizeof(traced));
    sigaction(SIGTRAP, &a, NULL);
    trap_flag(true);
    shape_plain(do_nothing, NULL);
    shape_many_registers(do_nothing, NULL);
    shape_variable(do_nothing, NULL, 100);
    shape_aligned(do_nothing, NULL);
    shape_aligned_variable(do_nothing, NULL, 100);
    shape_early_out(do_nothing, NULL, 2);
    shape_early_out(do_nothing, NULL, -1);
    shape_deep(do_nothing, NULL, 3);
    qsort(numbers, 7, sizeof(int), compare_first);
    snprintf(text, sizeof(text), "%d %s %.3f", numbers[0], "text", 1.25);
    free(malloc(100));
    trap_flag(false);
    signal(SIGTRAP, SIG_DFL);
    printf("# %" PRIu64 " instructions: %" PRIu64 " the same, %" PRIu64 " longer than libgcc's\n",
           traced.steps, traced.same, traced.shorter);
    CHECK(t, traced.steps > 1000);
    CHECK_INT(t, traced.others, 0);
    CHECK(t, traced.shorter <= traced.steps / 100);
    if (traced.others)
        print_stacks(&traced.worst);
}

/* ---- Threads and other stacks ---- */

TESTED void *thread_main(void *arg);
void *thread_main(void *arg)
{
    if (arg)
        walk_thread_starts(__builtin_frame_address(0));
    shape_variable(take_stacks, &s, 3000);
    shape_deep(take_stacks, &s, 100);
    shape_plain(take_stacks, &s);
    __asm__ volatile("" ::: "memory");
    return NULL;
}

CASE(from_the_start_of_a_thread)
{
    for (uintptr_t known = 0; known < 2; known++) {
        pthread_t thread;
        begin();
        pthread_create(&thread, NULL, thread_main, (void *)known);
        pthread_join(thread, NULL);
        CHECK(t, strncmp(names_of(&s), "shape_plain thread_main ", 24) == 0);
        CHECK_SAME(t, &s);
        CHECK_INT(t, s.flags, 0);
    }
}

TESTED void *thread_that_leaves(void *arg);
void *thread_that_leaves(void *arg)
{
    shape_cleanup(take_stacks, arg);
    __asm__ volatile("" ::: "memory");
    return NULL;
}

/* As an exception does: what must be cleaned up runs while the stack is being unwound. */
CASE(while_unwinding)
{
    pthread_t thread;

    begin();
    pthread_create(&thread, NULL, thread_that_leaves, &s);
    pthread_join(thread, NULL);
    CHECK_SAME(t, &s);
    CHECK_INT(t, s.flags, 0);
    /* The first is the cold part of shape_cleanup, which has no name. */
    CHECK(t, strstr(names_of(&s), " thread_that_leaves ") != NULL);
}

static ucontext_t back, inside;

TESTED void coroutine(void);
void coroutine(void)
{
    shape_aligned(take_stacks, &s);
    __asm__ volatile("" ::: "memory");
}

static void walk_on(char *room, size_t size)
{
    begin();
    getcontext(&inside);
    inside.uc_stack.ss_sp = room;
    inside.uc_stack.ss_size = size;
    inside.uc_link = &back;
    makecontext(&inside, coroutine, 0);
    swapcontext(&back, &inside);
}

/* Its stack is gone afterwards: what was learned about it must not be believed. */
CASE(on_a_stack_that_goes_away)
{
    size_t size = 64 << 10;

    for (int i = 0; i < 4; i++) {
        char *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        walk_on(room, size);
        CHECK(t, strncmp(names_of(&s), "shape_aligned coroutine", 23) == 0);
        CHECK_SAME(t, &s);
        CHECK_INT(t, s.flags & ~PRELOAD_STACK_LOST, 0);
        munmap(room, size);
    }
}

/* ---- What is broken ---- */

CASE(code_without_tables_has_a_frame_pointer)
{
    begin();
    s.ours_only = true;
    for (int i = 0; i < 3; i++) {
        shape_with_pointer(take_stacks, &s);
        CHECK_STR(t, names_of(&s),
                  "shape_with_pointer code_without_tables_has_a_frame_pointer main");
        CHECK_INT(t, s.flags, 0);
    }
}

CASE(wrong_frame_pointers_end_softly)
{
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t here = (uintptr_t)__builtin_frame_address(0);
    uint64_t self[2] = {(uintptr_t)self, (uintptr_t)shape_plain + 1};
    const uint64_t wrong[] = {1,
                              7,
                              here + 1,
                              here - 100000,
                              here + 200000,
                              (uintptr_t)pages,
                              (uintptr_t)pages + 4088,
                              (uintptr_t)&s,
                              (uintptr_t)self,
                              0xdeadbeef000,
                              1ull << 47,
                              (1ull << 63) + 8,
                              ~7ull,
                              ~0ull};

    mprotect(pages + 4096, 4096, PROT_NONE);
    begin();
    s.ours_only = true;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        shape_without_tables(take_stacks, &s, wrong[i]);
        CHECK(t, memcmp(names_of(&s), "shape_without_tables", 20) == 0);
        CHECK(t, s.n_ours < 10 || (s.flags & PRELOAD_STACK_CUT));
        CHECK(t, s.flags != 0);
    }
    /* The outermost frame has 0, but this is not it. */
    shape_without_tables(take_stacks, &s, 0);
    CHECK_INT(t, s.n_ours, 2);
    CHECK_INT(t, s.flags, preload_thread.stack_root ? PRELOAD_STACK_LOST : 0);
    munmap(pages, 8192);
}

CASE(wrong_tables_end_softly)
{
    static void (*const wrong[])(shape_fn *, void *) = {shape_wrong_far, shape_wrong_unmapped,
                                                        shape_wrong_expression, shape_wrong_loop};

    begin();
    s.ours_only = true;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        wrong[i](take_stacks, &s);
        CHECK(t, s.n_ours >= 2 && s.n_ours <= 3);
        CHECK_INT(t, s.flags, PRELOAD_STACK_LOST);
    }
}

CASE(errno_is_kept)
{
    begin();
    s.ours_only = true;
    errno = 77;
    walk_start();
    shape_wrong_far(take_stacks, &s);
    CHECK_INT(t, errno, 77);
}

/* ---- Time ---- */

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static void measure(void *ctx)
{
    struct two_stacks *m = ctx;
    double first = 0, best = 1e9;

    for (int i = 0; i < 1000; i++) {
        double from = now();
        m->n_ours = walk_addresses(m->ours, PRELOAD_FRAMES_MAX, &m->flags);
        double took = now() - from;
        first = i == 0 ? took : first;
        best = took < best ? took : best;
    }
    printf("# %zu frames: %.0f ns at first, then %.0f ns, %.1f ns a frame\n", m->n_ours, first,
           best, best / (double)m->n_ours);
}

CASE(how_long_it_takes)
{
    begin();
    walk_start();
    shape_deep(measure, &s, 5);
    CHECK(t, s.n_ours > 8);
    shape_deep(measure, &s, 20);
    shape_deep(measure, &s, 100);
    CHECK(t, s.n_ours > 100);
}

static const struct test_case cases[] = {
    TEST(shapes),
    {"shapes_again_with_rules_from_the_cache", shapes},
    TEST(random_orders_of_shapes),
    TEST(through_libc),
    TEST(deep_stacks_are_cut),
    TEST(through_a_signal_handler),
    TEST(through_a_handler_on_its_own_stack),
    TEST(at_every_instruction),
    TEST(from_the_start_of_a_thread),
    TEST(while_unwinding),
    TEST(on_a_stack_that_goes_away),
    TEST(code_without_tables_has_a_frame_pointer),
    TEST(wrong_frame_pointers_end_softly),
    TEST(wrong_tables_end_softly),
    TEST(errno_is_kept),
    TEST(how_long_it_takes),
};

__attribute__((visibility("default"))) int main(void);
TEST_MAIN(cases)
