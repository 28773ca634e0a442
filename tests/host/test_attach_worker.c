#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/attach_worker.h"
#include "lib/test.h"

#define MANY_FDS       17000 /* more than are looked at */
#define MANY_LISTENERS 4200

static struct loop *loop;
static struct worker *attacher;
static pid_t pid;

/* What the child is like, and what it tells. */
static struct child {
    int fds, listeners; /* which it has open, in this order */
    bool is_apart;      /* in a network of its own */
    bool has_title;     /* written over its command line */
    int opens;          /* AF_...: what it listens on, at any address, when it is signalled */
    bool is_ready;
    uint16_t port; /* of the last listener */
    volatile int signals;
} * child;

static bool listen_somewhere(uint32_t address)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(address)}};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 5) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return false;
    child->port = ntohs(a.sin_port);
    return true;
}

static bool listen_to_all(int family)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {.v6 = {.sin6_family = (sa_family_t)family}};
    socklen_t len = family == AF_INET ? sizeof(a.v4) : sizeof(a.v6);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, &a.any, len) < 0 || listen(fd, 5) < 0 ||
        getsockname(fd, &a.any, &len) < 0)
        return false;
    child->port = ntohs(a.v4.sin_port); /* in the same place in both */
    return true;
}

static void note_signal(int number)
{
    (void)number;
    child->signals++;
    if (child->opens)
        (void)listen_to_all(child->opens);
}

/* As process.title does it. */
static bool write_title(void)
{
    size_t n = strlen(program_invocation_name);

    memset(program_invocation_name, 0, n);
    program_invocation_name[0] = 'x';
    return n > 2;
}

static bool become(void)
{
    int n = child->fds + child->listeners + 100;
    struct rlimit max = {(rlim_t)n, (rlim_t)n};
    bool is_well = (n < 1000 || setrlimit(RLIMIT_NOFILE, &max) == 0) &&
                   (!child->is_apart || unshare(CLONE_NEWNET) == 0) &&
                   (!child->has_title || write_title()) && signal(SIGUSR1, note_signal) != SIG_ERR;

    for (int i = 0; is_well && i < child->fds; i++)
        is_well = fcntl(2, F_DUPFD_CLOEXEC, 3) >= 0;
    for (int i = 0; is_well && i < child->listeners; i++)
        is_well = listen_somewhere(child->is_apart ? INADDR_ANY : INADDR_LOOPBACK);
    return is_well;
}

static bool start(struct test *t, struct child like)
{
    struct error err = {""};
    int pipes[2];
    char c;

    child = mmap(NULL, sizeof(*child), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *child = like;
    CHECK_INT(t, pipe(pipes), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        child->is_ready = become();
        (void)!write(pipes[1], "x", 1);
        for (;;)
            pause();
    }
    close(pipes[1]);
    (void)!read(pipes[0], &c, 1);
    close(pipes[0]);
    if (!child->is_ready)
        t->skipped = "no such process can be made here";
    CHECK_INT(t, loop_new(&loop, &err), 0);
    CHECK_INT(t, worker_new(loop, &attach_worker, &attacher, &err), 0);
    return child->is_ready;
}

static void end(void)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    munmap(child, sizeof(*child));
    worker_free(attacher);
    loop_free(loop);
}

static int ask(struct buf *question, struct attach_place *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf answer = {0};
    CLEANUP(closep) int fd = -1;

    int r = worker_ask_now(attacher, buf_bytes(question), NULL, 0, &answer, &fd, err);
    buf_done(question);
    return r < 0 ? r : attach_read(buf_bytes(&answer), ret, err);
}

static int ask_again(uint16_t port)
{
    struct buf q = {0};
    struct error err = {""};

    attach_question_again((uint32_t)pid, 0, port, &q);
    return ask(&q, &(struct attach_place){0}, &err);
}

static void an_inspector_is_found_until_it_is_closed(struct test *t)
{
    if (start(t, (struct child){.fds = 10, .listeners = 1})) {
        CHECK_INT(t, ask_again(child->port), 0);
        CHECK_INT(t, ask_again(child->port ^ 1), -ENOENT);
    }
    end();
}

static void one_among_too_many_descriptors_is_not_called_closed(struct test *t)
{
    if (start(t, (struct child){.fds = MANY_FDS, .listeners = 1})) {
        CHECK_INT(t, ask_again(child->port), -E2BIG);
        /* Where nobody listens, no descriptor does. */
        CHECK_INT(t, ask_again(child->port ^ 1), -ENOENT);
    }
    end();
}

static void among_too_many_listeners_none_is_called_closed(struct test *t)
{
    if (start(t, (struct child){.listeners = MANY_LISTENERS, .is_apart = true}))
        CHECK_INT(t, ask_again(child->port), -E2BIG);
    end();
}

static void who_has_too_many_descriptors_gets_no_signal(struct test *t)
{
    struct buf q = {0};
    struct error err = {""};

    if (start(t, (struct child){.fds = MANY_FDS})) {
        attach_question_open((uint32_t)pid, 0, &q);
        CHECK_INT(t, ask(&q, &(struct attach_place){0}, &err), -ENOTSUP);
        CHECK(t, strstr(err.text, "too many"));
        CHECK_INT(t, child->signals, 0);
    }
    end();
}

/* What its command line said about inspectors is not to be seen any more. */
static void who_has_a_title_gets_no_signal(struct test *t)
{
    struct buf q = {0};
    struct error err = {""};

    if (start(t, (struct child){.has_title = true})) {
        attach_question_open((uint32_t)pid, 0, &q);
        CHECK_INT(t, ask(&q, &(struct attach_place){0}, &err), -ENOTSUP);
        CHECK(t, strstr(err.text, "command line"));
        CHECK_INT(t, child->signals, 0);
    }
    end();
}

static void find_open_to_all(struct test *t, int family, const char *address)
{
    struct buf q = {0};
    struct error err = {""};
    struct attach_place place = {0};

    if (start(t, (struct child){.opens = family})) {
        attach_question_open((uint32_t)pid, 0, &q);
        int r = ask(&q, &place, &err);
        if (r == -EADDRINUSE || (r == -ENXIO && child->signals && child->port == 0)) {
            t->skipped = r == -ENXIO ? "there is no such network here" : "the port is taken";
        } else {
            char text[64];
            snprintf(text, sizeof(text), "%s:%u", address, child->port);
            CHECK_STR(t, err.text, "");
            CHECK_INT(t, r, 0);
            CHECK_STR(t, place.text, text);
            CHECK_INT(t, place.port, child->port);
            CHECK(t, !place.is_loopback);
            CHECK_INT(t, ask_again(child->port), 0);
        }
    }
    end();
}

static void inspectors_that_are_open_to_others_are_found(struct test *t)
{
    find_open_to_all(t, AF_INET, "0.0.0.0");
    find_open_to_all(t, AF_INET6, "[::]");
}

static void answers_are_not_believed(struct test *t)
{
    static const uint8_t v4[19] = {0x0d, 0x24, 4, 127, 0, 0, 1}, odd[19] = {0x0d, 0x24, 5, 127},
                         no_port[19] = {0, 0, 4, 127, 0, 0, 1};
    struct attach_place place;
    struct error err;

    CHECK_INT(t, attach_read((struct bytes){v4, sizeof(v4)}, &place, &err), 0);
    CHECK_STR(t, place.text, "127.0.0.1:9229");
    CHECK(t, place.is_loopback);
    CHECK_INT(t, attach_read((struct bytes){v4, 2}, &place, &err), -EBADMSG);
    CHECK_INT(t, attach_read((struct bytes){odd, sizeof(odd)}, &place, &err), -EBADMSG);
    CHECK_INT(t, attach_read((struct bytes){no_port, sizeof(no_port)}, &place, &err), -EBADMSG);
}

static const struct test_case cases[] = {
    TEST(an_inspector_is_found_until_it_is_closed),
    TEST(one_among_too_many_descriptors_is_not_called_closed),
    TEST(among_too_many_listeners_none_is_called_closed),
    TEST(who_has_too_many_descriptors_gets_no_signal),
    TEST(who_has_a_title_gets_no_signal),
    TEST(inspectors_that_are_open_to_others_are_found),
    TEST(answers_are_not_believed),
};

TEST_MAIN(cases)
