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

/* It makes iterators from a descriptor it has: nothing else needs rights. */
static void keep_only_cap_bpf(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    data[CAP_BPF / 32].effective = data[CAP_BPF / 32].permitted = 1u << CAP_BPF % 32;
    if (syscall(SYS_capset, &head, data) < 0)
        _exit(1);
}

static int look_once(int link)
{
    CLEANUP(closep) int fd = bpf_iter_create(link);
    char nothing[64];
    ssize_t n;

    if (fd < 0)
        return -errno;
    do {
        n = read(fd, nothing, sizeof(nothing));
    } while (n > 0 || (n < 0 && errno == EAGAIN));
    return n < 0 ? -errno : 0;
}

/* Ends with its parent, whose end of the socket closes then. */
static _Noreturn void look_when_asked(int socket, int link, int parent)
{
    char question;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "vesta-looker");
    if (getppid() != parent)
        _exit(0);
    /* Ctrl-C is for the parent to hear of. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    if (dup2(socket, 0) < 0 || dup3(link, 1, 0) < 0 || close_range(2, ~0u, 0) < 0)
        _exit(1);
    keep_only_cap_bpf();
    while (recv(0, &question, 1, 0) == 1) {
        int answer = look_once(1);

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
        look_when_asked(pair[1], k->link, parent);
    close(pair[1]);
    if (pid < 0) {
        int r = -errno;

        close(pair[0]);
        return error_set(err, r, "could not start a process for looking at threads: %s",
                         strerror(-r));
    }
    *k = (struct looker){.link = k->link, .socket = pair[0], .pid = pid};
    return 0;
}

int looker_ask(struct looker *k)
{
    if (send(k->socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
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
    *k = (struct looker){.link = k->link, .socket = -1};
    return pid;
}
