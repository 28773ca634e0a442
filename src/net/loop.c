#include "net/loop.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/must.h"

#define EVENTS_AT_ONCE 128

struct task_list {
    struct loop_task *first, **end;
};

struct loop {
    int epoll_fd;
    struct loop_io wake; /* an eventfd */
    int64_t now_ns;
    struct loop_timers *timers;
    struct epoll_event *ready; /* of this round, not looked at yet */
    int n_ready;
    struct task_list again;
    pthread_t thread;
    atomic_bool is_running, is_stopping;

    pthread_mutex_t lock; /* of what follows */
    struct task_list posted;
    bool is_closed;
};

static void list_init(struct task_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void list_add(struct task_list *list, struct loop_task *task)
{
    task->next = NULL;
    *list->end = task;
    list->end = &task->next;
}

static void run_all(struct loop_task *task)
{
    while (task) {
        struct loop_task *next = task->next; /* the task may free itself */
        task->run(task);
        task = next;
    }
}

/* Tasks themselves are looked at in every round. */
static void woken(struct loop_io *io, uint32_t events)
{
    uint64_t n;

    (void)events;
    (void)!read(io->fd, &n, sizeof(n));
}

int loop_new(struct loop **ret, struct error *err)
{
    CLEANUP(loop_freep) struct loop *loop = must_calloc(1, sizeof(*loop));

    loop->wake.fd = -1;
    list_init(&loop->again);
    list_init(&loop->posted);
    pthread_mutex_init(&loop->lock, NULL);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        return error_set(err, -errno, "could not make an event loop: %m");
    loop->wake = (struct loop_io){eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), woken};
    if (loop->wake.fd < 0)
        return error_set(err, -errno, "could not make an eventfd: %m");
    int r = loop_watch(loop, &loop->wake, EPOLLIN, err);
    if (r < 0)
        return r;
    loop->now_ns = clock_monotonic_ns(clock_real());
    *ret = TAKE_PTR(loop);
    return 0;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    if (loop->wake.fd >= 0)
        close(loop->wake.fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

bool loop_is_mine(const struct loop *loop)
{
    return atomic_load(&loop->is_running) && pthread_equal(loop->thread, pthread_self());
}

int64_t loop_now_ns(const struct loop *loop)
{
    return loop->now_ns;
}

int loop_watch(struct loop *loop, struct loop_io *io, uint32_t events, struct error *err)
{
    struct epoll_event e = {.events = events, .data.ptr = io};

    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, io->fd, &e) < 0)
        return error_set(err, -errno, "could not watch a descriptor: %m");
    return 0;
}

void loop_change(struct loop *loop, struct loop_io *io, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = io};

    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &e);
}

void loop_forget(struct loop *loop, struct loop_io *io)
{
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    for (int i = 0; i < loop->n_ready; i++) {
        if (loop->ready[i].data.ptr == io)
            loop->ready[i].data.ptr = NULL;
    }
}

static void wake(struct loop *loop)
{
    uint64_t one = 1;

    (void)!write(loop->wake.fd, &one, sizeof(one));
}

bool loop_post(struct loop *loop, struct loop_task *task)
{
    pthread_mutex_lock(&loop->lock);
    bool is_taken = !loop->is_closed;
    if (is_taken) {
        bool was_empty = !loop->posted.first;
        list_add(&loop->posted, task);
        /* Under the lock: once the task has run, the loop may be gone. */
        if (was_empty)
            wake(loop);
    }
    pthread_mutex_unlock(&loop->lock);
    return is_taken;
}

void loop_again(struct loop *loop, struct loop_task *task)
{
    list_add(&loop->again, task);
}

static struct loop_task *take_posted(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    struct loop_task *first = loop->posted.first;
    list_init(&loop->posted);
    pthread_mutex_unlock(&loop->lock);
    return first;
}

void loop_add_timers(struct loop *loop, struct loop_timers *list)
{
    list->next_kind = loop->timers;
    loop->timers = list;
}

void loop_remove_timers(struct loop *loop, struct loop_timers *list)
{
    for (struct loop_timers **l = &loop->timers; *l; l = &(*l)->next_kind) {
        if (*l == list) {
            *l = list->next_kind;
            return;
        }
    }
}

void loop_timer_stop(struct loop_timer *timer)
{
    struct loop_timers *list = timer->list;

    if (!list)
        return;
    if (timer->prev)
        timer->prev->next = timer->next;
    else
        list->first = timer->next;
    if (timer->next)
        timer->next->prev = timer->prev;
    else
        list->last = timer->prev;
    *timer = (struct loop_timer){0};
}

void loop_timer_start(struct loop_timers *list, struct loop_timer *timer, int64_t due_ns)
{
    loop_timer_stop(timer);
    struct loop_timer *before = list->last;
    while (before && before->due_ns > due_ns)
        before = before->prev;
    *timer = (struct loop_timer){.prev = before, .list = list, .due_ns = due_ns};
    timer->next = before ? before->next : list->first;
    if (timer->next)
        timer->next->prev = timer;
    else
        list->last = timer;
    if (before)
        before->next = timer;
    else
        list->first = timer;
}

static struct loop_timer *any_due(const struct loop *loop)
{
    for (struct loop_timers *list = loop->timers; list; list = list->next_kind)
        if (list->first && list->first->due_ns <= loop->now_ns)
            return list->first;
    return NULL;
}

/* Looks anew after each: what it does may remove lists. */
static void expire(struct loop *loop)
{
    for (struct loop_timer *timer; (timer = any_due(loop));) {
        struct loop_timers *list = timer->list;
        loop_timer_stop(timer);
        list->expired(timer);
    }
}

/* How long to sleep, in milliseconds, rounded up: -1 for ever. */
static int sleep_ms(const struct loop *loop)
{
    int64_t due = INT64_MAX;

    if (loop->again.first)
        return 0;
    for (const struct loop_timers *list = loop->timers; list; list = list->next_kind)
        if (list->first && list->first->due_ns < due)
            due = list->first->due_ns;
    if (due == INT64_MAX)
        return -1;
    int64_t left = due - clock_monotonic_ns(clock_real());
    if (left <= 0)
        return 0;
    left = left / 1000000 + 1;
    return left > INT_MAX ? INT_MAX : (int)left;
}

static void run_again(struct loop *loop)
{
    struct loop_task *first = loop->again.first;

    list_init(&loop->again);
    run_all(first);
}

void loop_run(struct loop *loop)
{
    struct epoll_event events[EVENTS_AT_ONCE];

    loop->thread = pthread_self();
    atomic_store(&loop->is_running, true);
    while (!atomic_load(&loop->is_stopping)) {
        int n = epoll_wait(loop->epoll_fd, events, EVENTS_AT_ONCE, sleep_ms(loop));
        loop->now_ns = clock_monotonic_ns(clock_real());
        loop->ready = events;
        for (loop->n_ready = n; loop->n_ready > 0;) {
            const struct epoll_event *e = loop->ready++;
            struct loop_io *io = e->data.ptr;
            loop->n_ready--;
            if (io)
                io->ready(io, e->events);
        }
        run_all(take_posted(loop));
        expire(loop);
        run_again(loop);
    }
    atomic_store(&loop->is_running, false);
}

void loop_close(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->is_closed = true;
    pthread_mutex_unlock(&loop->lock);
    run_all(take_posted(loop));
    run_again(loop);
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->is_stopping, true);
    wake(loop);
}
