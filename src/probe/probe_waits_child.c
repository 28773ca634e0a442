#include <bpf/bpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "probe/probe_waits.h"

struct question {
    uint32_t n; /* 0: all processes */
    uint32_t tgids[LOOKER_PROCESSES_MAX];
};

/* It makes iterators of a program that it has: nothing else needs rights. */
static void keep_only_cap_bpf(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    data[CAP_BPF / 32].effective = data[CAP_BPF / 32].permitted = 1u << CAP_BPF % 32;
    if (syscall(SYS_capset, &head, data) < 0)
        _exit(1);
}

/* At the threads of one process; 0: of all. */
static int look_once(int program, uint32_t tgid)
{
    union bpf_iter_link_info info = {.task = {.pid = tgid}};
    LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = tgid ? &info : NULL,
                .iter_info_len = tgid ? sizeof(info) : 0);
    CLEANUP(closep) int link = bpf_link_create(program, 0, BPF_TRACE_ITER, &opts);
    CLEANUP(closep) int fd = link < 0 ? -1 : bpf_iter_create(link);
    char nothing[64];
    ssize_t n;

    if (fd < 0)
        return -errno;
    do {
        n = read(fd, nothing, sizeof(nothing));
    } while (n > 0 || (n < 0 && errno == EAGAIN));
    return n < 0 ? -errno : 0;
}

static int look(int program, const struct question *q)
{
    int r = 0;

    for (size_t i = 0; i < q->n && i < LOOKER_PROCESSES_MAX && r == 0; i++)
        r = look_once(program, q->tgids[i]);
    /* Kernels before 6.1 cannot look at one process. */
    if (q->n == 0 || r == -EINVAL || r == -E2BIG)
        r = look_once(program, 0);
    return r;
}

/* Ends with its parent, whose end of the socket closes then. */
static _Noreturn void look_when_asked(int socket, int program, int parent)
{
    struct question question;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "vesta-looker");
    if (getppid() != parent)
        _exit(0);
    /* Ctrl-C is for the parent to hear of. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    if (dup2(socket, 0) < 0 || dup2(program, 1) < 0 || close_range(2, ~0u, 0) < 0)
        _exit(1);
    keep_only_cap_bpf();
    while (recv(0, &question, sizeof(question), 0) == sizeof(question)) {
        int answer = look(1, &question);

        if (send(0, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
            break;
    }
    _exit(0);
}

int looker_start(struct looker *k, struct error *err)
{
    int pair[2], parent = getpid(), pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set(err, -errno, "could not make a socket for looking at threads: %m");
    pid = fork();
    if (pid == 0)
        look_when_asked(pair[1], k->program, parent);
    close(pair[1]);
    if (pid < 0) {
        int r = -errno;

        close(pair[0]);
        return error_set(err, r, "could not start a process for looking at threads: %s",
                         strerror(-r));
    }
    *k = (struct looker){.program = k->program, .socket = pair[0], .pid = pid};
    return 0;
}

int looker_ask(struct looker *k, const uint32_t *tgids, size_t n)
{
    struct question q = {.n = (uint32_t)(n <= LOOKER_PROCESSES_MAX ? n : 0)};

    if (q.n > 0)
        memcpy(q.tgids, tgids, q.n * sizeof(*tgids));
    if (send(k->socket, &q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(q))
        return -EPIPE;
    k->is_asked = true;
    return 0;
}

int looker_answer(struct looker *k)
{
    int answer;
    ssize_t n = recv(k->socket, &answer, sizeof(answer), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return -EAGAIN;
    k->is_asked = false;
    return n == sizeof(answer) ? answer : -EPIPE;
}

int looker_kill(struct looker *k)
{
    int pid = k->pid;

    kill(pid, SIGKILL);
    close(k->socket);
    *k = (struct looker){.program = k->program, .socket = -1};
    return pid;
}
