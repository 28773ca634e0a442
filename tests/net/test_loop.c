#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/test.h"
#include "net/loop.h"

#define MS_NS 1000000LL

struct timed {
    struct loop_timer timer;
    int number;
};

static int order[16], n_order;
static struct loop *running;

static void noted(struct loop_timer *timer)
{
    order[n_order++] = OWNER_OF(timer, struct timed, timer)->number;
    if (n_order == 4)
        loop_stop(running);
}

static void timers_expire_in_their_order(struct test *t)
{
    struct loop_timers list = {.expired = noted}, other = {.expired = noted};
    struct timed timers[6] = {0};
    static const int due_ms[] = {30, 10, 20, 10, 15, 5};
    struct loop *loop;

    CHECK_INT(t, loop_new(&loop, NULL), 0);
    running = loop;
    n_order = 0;
    loop_add_timers(loop, &list);
    loop_add_timers(loop, &other);
    int64_t now = clock_monotonic_ns(clock_real());
    for (int i = 0; i < 6; i++) {
        timers[i].number = i;
        loop_timer_start(i == 4 ? &other : &list, &timers[i].timer, now + due_ms[i] * MS_NS);
    }
    loop_timer_stop(&timers[3].timer);
    loop_timer_stop(&timers[3].timer);
    loop_timer_stop(&timers[5].timer);
    loop_run(loop);
    CHECK_INT(t, n_order, 4);
    /* Which of two lists is looked at first is nobody's business. */
    static const int want[] = {1, 2, 0};
    for (int i = 0, k = 0; i < 4; i++) {
        if (order[i] != 4)
            CHECK_INT(t, order[i], want[k++]);
    }
    CHECK(t, clock_monotonic_ns(clock_real()) - now >= 30 * MS_NS);
    CHECK(t, !list.first && !list.last && !other.first);
    loop_free(loop);
}

struct counting {
    struct loop_task task;
    struct loop *loop;
    int *n, stop_at;
    bool is_again;
};

static void counted(struct loop_task *task)
{
    struct counting *c = OWNER_OF(task, struct counting, task);

    if (c->is_again) {
        c->is_again = false;
        loop_again(c->loop, task);
        return;
    }
    if (++*c->n == c->stop_at)
        loop_stop(c->loop);
}

static void *post_many(void *arg)
{
    struct counting *all = arg;

    for (int i = 0; i < 1000; i++)
        (void)loop_post(all[i].loop, &all[i].task);
    return NULL;
}

static void tasks_come_from_every_thread_and_run_once(struct test *t)
{
    static struct counting all[4][1000];
    pthread_t threads[4];
    struct loop *loop;
    int n = 0;

    CHECK_INT(t, loop_new(&loop, NULL), 0);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 1000; k++)
            all[i][k] = (struct counting){{NULL, counted}, loop, &n, 4000, k % 10 == 0};
        pthread_create(&threads[i], NULL, post_many, all[i]);
    }
    loop_run(loop);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(t, n, 4000);
    loop_free(loop);
}

static void a_closed_loop_runs_what_is_left_and_takes_no_more(struct test *t)
{
    struct loop *loop;
    int n = 0;

    CHECK_INT(t, loop_new(&loop, NULL), 0);
    struct counting left = {{NULL, counted}, loop, &n, 0, true};
    struct counting late = left;
    CHECK(t, loop_post(loop, &left.task));
    loop_close(loop);
    CHECK_INT(t, n, 1);
    CHECK(t, !loop_post(loop, &late.task));
    CHECK_INT(t, n, 1);
    CHECK(t, !loop_is_mine(loop));
    loop_free(loop);
}

/* Two that are ready in the same round: whichever comes first ends the other. */
struct rival {
    struct loop_io io;
    struct loop *loop;
    struct rival *other;
    int *n;
};

static void ends_the_other(struct loop_io *io, uint32_t events)
{
    struct rival *r = OWNER_OF(io, struct rival, io);
    struct loop *loop = r->loop;

    (void)events;
    ++*r->n;
    loop_forget(loop, &r->other->io);
    close(r->other->io.fd);
    free(r->other);
    loop_forget(loop, io);
    close(io->fd);
    free(r);
    loop_stop(loop);
}

static void what_is_forgotten_is_not_called_any_more(struct test *t)
{
    struct rival *rivals[2];
    struct loop *loop;
    int pipes[2][2], n = 0;

    CHECK_INT(t, loop_new(&loop, NULL), 0);
    for (int i = 0; i < 2; i++) {
        rivals[i] = calloc(1, sizeof(*rivals[i]));
        CHECK_INT(t, pipe(pipes[i]), 0);
        CHECK_INT(t, write(pipes[i][1], "x", 1), 1);
        *rivals[i] = (struct rival){{pipes[i][0], ends_the_other}, loop, NULL, &n};
        CHECK_INT(t, loop_watch(loop, &rivals[i]->io, EPOLLIN, NULL), 0);
    }
    rivals[0]->other = rivals[1];
    rivals[1]->other = rivals[0];
    loop_run(loop);
    CHECK_INT(t, n, 1);
    close(pipes[0][1]);
    close(pipes[1][1]);
    loop_free(loop);
}

static void unlisted(struct loop_timer *timer)
{
    struct loop_timers *list = (struct loop_timers *)(void *)(timer + 1);

    loop_remove_timers(running, list);
    free(timer);
    loop_stop(running);
}

static void a_timer_may_remove_and_free_its_own_list(struct test *t)
{
    struct loop_timers other = {.expired = noted};
    struct loop_timer *timer = calloc(1, sizeof(*timer) + sizeof(struct loop_timers));
    struct loop_timers *list = (struct loop_timers *)(void *)(timer + 1);

    CHECK_INT(t, loop_new(&running, NULL), 0);
    list->expired = unlisted;
    loop_add_timers(running, &other);
    loop_add_timers(running, list);
    loop_timer_start(list, timer, 0);
    loop_run(running);
    loop_free(running);
}

static const struct test_case cases[] = {
    TEST(timers_expire_in_their_order),
    TEST(tasks_come_from_every_thread_and_run_once),
    TEST(a_closed_loop_runs_what_is_left_and_takes_no_more),
    TEST(what_is_forgotten_is_not_called_any_more),
    TEST(a_timer_may_remove_and_free_its_own_list),
};
TEST_MAIN(cases)
