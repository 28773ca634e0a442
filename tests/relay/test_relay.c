#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/le.h"
#include "config/agent_config.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "relay/relay.h"
#include "relay/relay_link.h"

#define MIB ((size_t)1 << 20)

/* ---- Messages ---- */

static void fill(struct buf *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_byte(b, (uint8_t)(i * 31 >> 3));
}

static void messages_of_every_size_arrive_whole(struct test *t)
{
    static const size_t sizes[] = {0, 1, LINK_INLINE_MAX, LINK_INLINE_MAX + 1, 3 * MIB};
    struct link_message m = {0};
    int pair[2];

    CHECK_INT(t, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        CLEANUP(buf_done) struct buf data = {0};
        fill(&data, sizes[i]);
        CHECK_INT(t, link_send(pair[0], RELAY_PROFILES, buf_bytes(&data), -1), 0);
        CHECK_INT(t, link_receive(pair[1], true, &m), 1);
        CHECK_INT(t, m.kind, RELAY_PROFILES);
        CHECK_INT(t, m.fd, -1);
        CHECK(t, bytes_equal(buf_bytes(&m.data), buf_bytes(&data)));
    }
    CHECK_INT(t, link_receive(pair[1], true, &m), 0);
    CHECK_INT(t,
              link_send(pair[0], RELAY_PROFILES, (struct bytes){NULL, RELAY_MESSAGE_MAX + 1}, -1),
              -EMSGSIZE);
    close(pair[0]);
    CHECK_INT(t, link_receive(pair[1], true, &m), -EPIPE);
    close(pair[1]);
    buf_done(&m.data);
}

static void a_descriptor_goes_along_with_small_and_large_messages(struct test *t)
{
    CLEANUP(buf_done) struct buf large = {0};
    struct link_message m = {0};
    int pair[2], fd = memfd_create("x", MFD_CLOEXEC);
    struct stat ours, theirs;

    fill(&large, MIB);
    fstat(fd, &ours);
    CHECK_INT(t, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    for (int i = 0; i < 2; i++) {
        struct bytes data = i ? buf_bytes(&large) : BYTES("abc");
        CHECK_INT(t, link_send(pair[0], RELAY_DEBUG_FILE, data, fd), 0);
        CHECK_INT(t, link_receive(pair[1], true, &m), 1);
        CHECK(t, bytes_equal(buf_bytes(&m.data), data));
        CHECK(t, m.fd >= 0 && m.fd != fd);
        CHECK_INT(t, fstat(m.fd, &theirs), 0);
        CHECK(t, theirs.st_ino == ours.st_ino);
        close(m.fd);
    }
    close(pair[0]);
    close(pair[1]);
    close(fd);
    buf_done(&m.data);
}

static void the_agent_takes_no_descriptors_and_no_nonsense(struct test *t)
{
    CLEANUP(buf_done) struct buf large = {0};
    struct link_message m = {0};
    const uint32_t lies[3] = {RELAY_COUNTS, 0, 1000};
    int pair[2];

    fill(&large, MIB);
    CHECK_INT(t, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    CHECK_INT(t, link_send(pair[0], RELAY_COUNTS, buf_bytes(&large), -1), 0);
    CHECK_INT(t, link_receive(pair[1], false, &m), -EBADMSG);
    CHECK_INT(t, link_send(pair[0], RELAY_COUNTS, BYTES("x"), pair[0]), 0);
    CHECK_INT(t, link_receive(pair[1], false, &m), -EBADMSG);
    CHECK_INT(t, write(pair[0], "short", 5), 5);
    CHECK_INT(t, link_receive(pair[1], true, &m), -EBADMSG);
    CHECK_INT(t, write(pair[0], lies, sizeof(lies)), sizeof(lies));
    CHECK_INT(t, link_receive(pair[1], true, &m), -EBADMSG);
    CHECK_INT(t, m.fd, -1);
    close(pair[0]);
    close(pair[1]);
    buf_done(&m.data);
}

/* ---- The agent's side ---- */

struct world {
    struct scratch scratch;
    struct agent_config config;
    struct loop *loop;
    struct relay *relay;
    int flushed, counts;
    struct loop_timers timers;
    struct loop_timer timer;
};

static void on_message(void *arg, enum relay_kind kind, struct bytes data)
{
    struct world *w = arg;

    (void)data;
    w->flushed += kind == RELAY_FLUSHED;
    w->counts += kind == RELAY_COUNTS;
}

static struct world *running; /* of the timer below */

/* The loop cannot be run twice: it is looked at from within. */
struct look {
    struct test *t;
    int step, waited;
    bool (*next)(struct test *t, struct world *w, int step);
};
static struct look look;

static void tick(struct loop_timer *timer)
{
    (void)timer;
    if (look.next(look.t, running, look.step)) {
        look.step++;
        look.waited = 0;
    } else if (++look.waited > 1000) {
        CHECK(look.t, look.waited <= 1000); /* it did not happen */
        loop_stop(running->loop);
        return;
    }
    loop_timer_start(&running->timers, &running->timer, loop_now_ns(running->loop) + 10000000);
}

static void run_world(struct test *t, bool (*next)(struct test *t, struct world *w, int step))
{
    struct world w = {0};
    struct error err = {""};

    scratch_init(&w.scratch);
    w.config = (struct agent_config){.exporters = {.items = {"none"}, .n = 1},
                                     .spool_dir = "",
                                     .state_dir = w.scratch.path,
                                     .user = "",
                                     .server = "off",
                                     .log_level = "error",
                                     .log_format = "text"};
    CHECK_INT(t, loop_new(&w.loop, &err), 0);
    CHECK_INT(t, relay_start(w.loop, &w.config, on_message, &w, &w.relay, &err), 0);
    w.timers.expired = tick;
    loop_add_timers(w.loop, &w.timers);
    running = &w;
    look = (struct look){.t = t, .next = next};
    loop_timer_start(&w.timers, &w.timer, 0);
    loop_run(w.loop);
    relay_free(w.relay);
    loop_free(w.loop);
    scratch_done(&w.scratch);
}

static struct relay_stats stats_of(struct world *w)
{
    struct relay_stats s;

    relay_stats(w->relay, &s);
    return s;
}

static void flush(struct world *w)
{
    uint8_t ms[4];

    le32_put(ms, 100);
    relay_send(w->relay, RELAY_FLUSH, (struct bytes){ms, 4}, -1);
}

static bool stop_and_fill(struct test *t, struct world *w, int step)
{
    CLEANUP(buf_done) struct buf data = {0};
    struct relay_stats s = stats_of(w);

    switch (step) {
    case 0: /* while it reads nothing, the queue grows and the oldest go */
        kill(s.pid, SIGSTOP);
        fill(&data, MIB);
        for (int i = 0; i < 400; i++)
            relay_send(w->relay, RELAY_PROFILES, buf_bytes(&data), -1);
        s = stats_of(w);
        CHECK(t, s.queued_bytes > 0 && s.queued_bytes <= 32 * MIB);
        CHECK(t, s.dropped > 0);
        uint64_t before = s.queued_bytes;
        relay_send(w->relay, RELAY_STATUS, BYTES("{\"first\":1}"), -1);
        relay_send(w->relay, RELAY_STATUS, BYTES("{}"), -1);
        CHECK(t, stats_of(w).queued_bytes <= before + 11);
        kill(s.pid, SIGCONT);
        flush(w);
        return true;
    case 1: /* and then all of it goes */
        if (w->flushed < 1)
            return false;
        CHECK_INT(t, s.queued_bytes, 0);
        CHECK_INT(t, s.restarts, 0);
        loop_stop(w->loop);
        return true;
    default:
        return true;
    }
}

static void a_relay_that_does_not_read_costs_bounded_memory(struct test *t)
{
    run_world(t, stop_and_fill);
}

static int first_pid;

static bool kill_and_look(struct test *t, struct world *w, int step)
{
    struct relay_stats s = stats_of(w);

    switch (step) {
    case 0:
        first_pid = s.pid;
        kill(s.pid, SIGKILL);
        return true;
    case 1:
        if (s.restarts == 0)
            return false;
        flush(w); /* waits for the next one */
        return true;
    case 2:
        if (w->flushed < 1)
            return false;
        CHECK(t, s.pid > 0 && s.pid != first_pid);
        CHECK_INT(t, s.restarts, 1);
        CHECK_INT(t, kill(first_pid, 0), -1); /* reaped */
        loop_stop(w->loop);
        return true;
    default:
        return true;
    }
}

static void a_relay_that_dies_is_started_again(struct test *t)
{
    run_world(t, kill_and_look);
    CHECK_INT(t, kill(first_pid, 0), -1);
}

static void a_bad_address_is_refused_before_anything_is_started(struct test *t)
{
    struct agent_config config = {.exporters = {.items = {"http://"}, .n = 1}};
    CLEANUP(loop_freep) struct loop *loop = NULL;
    struct relay *r = NULL;
    struct error err = {""};

    CHECK_INT(t, loop_new(&loop, &err), 0);
    CHECK_INT(t, relay_start(loop, &config, on_message, NULL, &r, &err), -EINVAL);
    CHECK_STR(t, err.text, "\"http://\" has no host, or one that is too long");
    CHECK(t, r == NULL);
}

static const struct test_case cases[] = {
    TEST(messages_of_every_size_arrive_whole),
    TEST(a_descriptor_goes_along_with_small_and_large_messages),
    TEST(the_agent_takes_no_descriptors_and_no_nonsense),
    TEST(a_relay_that_does_not_read_costs_bounded_memory),
    TEST(a_relay_that_dies_is_started_again),
    TEST(a_bad_address_is_refused_before_anything_is_started),
};
TEST_MAIN(cases)
