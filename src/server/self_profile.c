/*
 * A timer of the process's CPU time raises SIGPROF in whichever thread is running; its handler
 * copies the stack's first bytes by process_vm_readv(), which cannot fault, and follows the frame
 * pointers in the copy (everything here is compiled with them). Every ten seconds a thread makes a
 * profile of what was seen.
 */
#include "server/self_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "formats/formats.h"
#include "server/server_internal.h"
#include "symbols/symbolizer.h"

#define RATE_HZ     97
#define PERIOD_NS   (1000000000 / RATE_HZ)
#define WINDOW_S    10
#define FRAMES_MAX  96
#define SAMPLES_MAX 4096 /* of a window: all of four busy cores */
#define STACK_BYTES 16384

struct stack {
    atomic_uint n; /* 0: not written yet */
    uintptr_t pc[FRAMES_MAX];
};

struct window {
    atomic_uint n; /* taken; may pass SAMPLES_MAX */
    struct stack stacks[SAMPLES_MAX];
};

struct self_profiler {
    struct server *server;
    struct window windows[2];
    _Atomic(struct window *) active;
    timer_t timer;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_ending, has_timer, has_thread;
};

/* What the handler fills; NULL while nobody profiles. */
static _Atomic(struct self_profiler *) current;

#if defined(__x86_64__)
#define CONTEXT_PC(u) ((uintptr_t)(u)->uc_mcontext.gregs[REG_RIP])
#define CONTEXT_SP(u) ((uintptr_t)(u)->uc_mcontext.gregs[REG_RSP])
#define CONTEXT_FP(u) ((uintptr_t)(u)->uc_mcontext.gregs[REG_RBP])
#elif defined(__aarch64__)
#define CONTEXT_PC(u) ((uintptr_t)(u)->uc_mcontext.pc)
#define CONTEXT_SP(u) ((uintptr_t)(u)->uc_mcontext.sp)
#define CONTEXT_FP(u) ((uintptr_t)(u)->uc_mcontext.regs[29])
#else
#error "which registers hold the program counter, the stack pointer and the frame pointer?"
#endif

/* Return addresses along the frame pointers, as far as the copy reaches. */
static unsigned follow(uintptr_t fp, uintptr_t from, const uint8_t *copy, size_t len,
                       struct stack *to)
{
    unsigned n = 1;
    while (n < FRAMES_MAX) {
        uintptr_t pair[2];
        if (fp < from || fp - from > len - sizeof(pair) || fp % sizeof(uintptr_t) != 0)
            break;
        memcpy(pair, copy + (fp - from), sizeof(pair));
        if (pair[1] < 4096 || pair[0] <= fp)
            break;
        to->pc[n++] = pair[1] - 1; /* inside of the call */
        fp = pair[0];
    }
    return n;
}

static void on_prof(int signo, siginfo_t *info, void *context)
{
    struct self_profiler *p = atomic_load(&current);
    const ucontext_t *u = context;
    uint8_t copy[STACK_BYTES];
    int saved = errno;

    (void)signo;
    (void)info;
    if (!p)
        return;
    struct window *w = atomic_load(&p->active);
    unsigned i = atomic_fetch_add(&w->n, 1);
    if (i < SAMPLES_MAX) {
        struct stack *to = &w->stacks[i];
        uintptr_t sp = CONTEXT_SP(u);
        struct iovec local = {copy, sizeof(copy)}, remote = {(void *)sp, sizeof(copy)};
        ssize_t len = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        if (len <= 0) { /* the stack ends within it */
            local.iov_len = remote.iov_len = 4096 - sp % 4096;
            len = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        }
        to->pc[0] = CONTEXT_PC(u);
        unsigned n = len > (ssize_t)(2 * sizeof(uintptr_t))
                         ? follow(CONTEXT_FP(u), sp, copy, (size_t)len, to)
                         : 1;
        atomic_store_explicit(&to->n, n, memory_order_release);
    }
    errno = saved;
}

/* ---- A profile of a window */

struct region {
    uintptr_t start, end;
    uint32_t mapping;
};

struct regions {
    struct region all[256];
    size_t n;
};

/* What is mapped and may run, from /proc/self/maps. */
static void read_regions(struct dict *d, struct regions *ret)
{
    CLEANUP(fclosep) FILE *f = fopen("/proc/self/maps", "re");
    char line[4096 + 128];

    while (f && fgets(line, sizeof(line), f) && ret->n < ARRAY_SIZE(ret->all)) {
        uintptr_t start, end;
        uint64_t offset;
        char flags[5];
        int at = 0;
        /* NOLINTNEXTLINE(cert-err34-c): the kernel wrote them */
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %*s %*s %n", &start, &end,
                   flags, &offset, &at) < 4 ||
            flags[2] != 'x' || at == 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        struct mapping m = {
            .start = start, .limit = end, .offset = offset, .file = dict_cstring(d, line + at)};
        ret->all[ret->n++] = (struct region){start, end, dict_mapping(d, m)};
    }
}

static uint32_t location_of(struct dict *d, const struct regions *regions, uintptr_t pc)
{
    struct location l = {.address = pc, .type = dict_cstring(d, "native")};
    for (size_t i = 0; i < regions->n; i++) {
        if (pc >= regions->all[i].start && pc < regions->all[i].end)
            l.mapping = regions->all[i].mapping;
    }
    return dict_location(d, l, NULL, 0);
}

static void add_samples(struct window *w, struct profile *p, const struct regions *regions)
{
    unsigned taken = atomic_load(&w->n), n = taken < SAMPLES_MAX ? taken : SAMPLES_MAX;

    for (unsigned i = 0; i < n; i++) {
        uint32_t path[FRAMES_MAX];
        unsigned depth = atomic_load_explicit(&w->stacks[i].n, memory_order_acquire);
        for (unsigned k = 0; k < depth; k++)
            path[k] = location_of(p->dict, regions, w->stacks[i].pc[k]);
        if (depth > 0)
            profile_add_value(p, dict_stack(p->dict, path, depth), PERIOD_NS);
        atomic_store(&w->stacks[i].n, 0);
    }
    atomic_store(&w->n, 0);
}

static int make_profile(struct window *w, int64_t start_ns, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf losses = {0};
    struct regions *regions = must_calloc(1, sizeof(*regions));
    struct budget budget;

    budget_init(&budget, (size_t)64 << 20);
    struct profile_set *set = profile_set_new(&budget);
    struct profile *p = profile_set_add(set);
    profile_add_ctype(p, "cpu", "nanoseconds");
    p->time_unix_ns = start_ns;
    p->duration_ns = WINDOW_S * (int64_t)1000000000;
    p->period_type = p->types[0];
    p->period = PERIOD_NS;
    read_regions(set->dict, regions);
    add_samples(w, p, regions);
    int r =
        p->n_samples == 0 ? -ENODATA : symbolize(set, &(struct symbolizer_options){0}, NULL, err);
    if (r == 0)
        r = format_pprof.encode(set, out, &losses, err);
    profile_set_free(set);
    free(regions);
    return r;
}

static void push(struct self_profiler *p, struct window *w, int64_t start_ns)
{
    CLEANUP(buf_done) struct buf body = {0};
    CLEANUP(buf_done) struct buf query = {0};
    struct http_reply reply = {0};
    struct error err = {""};

    if (make_profile(w, start_ns, &body, &err) < 0)
        return;
    buf_addf(&query, "service.name=%s&service.version=" VESTA_VERSION,
             p->server->config->self_profile_service);
    struct http_request request = {.method = BYTES("POST"),
                                   .path = BYTES("/v1/pprof"),
                                   .query = buf_bytes(&query),
                                   .body = buf_bytes(&body),
                                   .body_len = body.len,
                                   .body_file = -1};
    server_handle_own(p->server, &request, &reply);
    if (reply.status >= 300)
        server_log(p->server, 2, "the server's own profile was not taken: %.*s",
                   (int)(reply.body.len < 300 ? reply.body.len : 300),
                   (const char *)reply.body.data);
    http_reply_done(&reply);
}

/* Waits for the end of a window; true when it is the last. */
static bool wait_for_window(struct self_profiler *p)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WINDOW_S;
    pthread_mutex_lock(&p->lock);
    while (!p->is_ending && pthread_cond_timedwait(&p->wake, &p->lock, &until) == 0)
        ;
    bool is_last = p->is_ending;
    pthread_mutex_unlock(&p->lock);
    return is_last;
}

static void *run(void *arg)
{
    struct self_profiler *p = arg;
    size_t which = 0;
    bool is_last = false;

    while (!is_last) {
        int64_t start = clock_wall_ns(clock_real());
        is_last = wait_for_window(p);
        which ^= 1;
        struct window *full = atomic_exchange(&p->active, &p->windows[which]);
        /* Handlers that had it before are done by then; a late one is a lost sample. */
        usleep(1000);
        push(p, full, start);
    }
    return NULL;
}

/* ---- Its life */

static int start_timer(struct self_profiler *p, struct error *err)
{
    struct sigaction action = {.sa_sigaction = on_prof, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    struct itimerspec every = {{0, PERIOD_NS}, {0, PERIOD_NS}};

    sigemptyset(&action.sa_mask);
    sigaction(SIGPROF, &action, NULL);
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &p->timer) < 0) {
        int r = -errno;
        return error_set(err, r, "could not make a timer for the server's own profile: %m");
    }
    p->has_timer = true;
    timer_settime(p->timer, 0, &every, NULL);
    return 0;
}

int self_profiler_start(struct server *s, struct self_profiler **ret, struct error *err)
{
    struct self_profiler *none = NULL;
    struct self_profiler *p = must_calloc(1, sizeof(*p));

    p->server = s;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    atomic_store(&p->active, &p->windows[0]);
    int r = 0;
    if (!atomic_compare_exchange_strong(&current, &none, p))
        r = error_set(err, -EBUSY, "this process profiles itself already");
    if (r == 0)
        r = start_timer(p, err);
    if (r == 0 && pthread_create(&p->thread, NULL, run, p) != 0)
        r = error_set(err, -EAGAIN, "could not start a thread for the server's own profile");
    if (r < 0) {
        self_profiler_stop(p);
        return r;
    }
    p->has_thread = true;
    *ret = p;
    return 0;
}

void self_profiler_stop(struct self_profiler *p)
{
    struct self_profiler *own = p;

    if (!p)
        return;
    if (p->has_timer)
        timer_delete(p->timer);
    pthread_mutex_lock(&p->lock);
    p->is_ending = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    if (p->has_thread)
        pthread_join(p->thread, NULL);
    if (atomic_compare_exchange_strong(&current, &own, NULL))
        usleep(1000); /* a signal that was on its way */
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p);
}
