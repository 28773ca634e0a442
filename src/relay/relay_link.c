#include "relay/relay_link.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FDS_MAX 2

enum { IN_FILE = 1, WITH_FD = 2 };

/* In front of every datagram. */
struct link_head {
    uint32_t kind, flags, len;
};

static int write_all(int fd, struct bytes data)
{
    while (data.len > 0) {
        ssize_t n = write(fd, data.data, data.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data = bytes_from(data, (size_t)n);
    }
    return 0;
}

static int send_datagram(int socket, const struct link_head *head, struct bytes data,
                         const int *fds, size_t n_fds)
{
    struct iovec parts[2] = {{.iov_base = (void *)(uintptr_t)head, .iov_len = sizeof(*head)},
                             {.iov_base = (void *)(uintptr_t)data.data, .iov_len = data.len}};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    } control = {0};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = data.len > 0 ? 2 : 1};

    if (n_fds > 0) {
        m.msg_control = control.space;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    for (;;) {
        if (sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        /* Too many descriptors on their way is a lack of room like others. */
        return errno == ENOBUFS || errno == ETOOMANYREFS ? -EAGAIN
               : errno == ECONNRESET                     ? -EPIPE
                                                         : -errno;
    }
}

int link_send(int socket, enum relay_kind kind, struct bytes data, int fd)
{
    struct link_head head = {.kind = kind, .len = (uint32_t)data.len};
    CLEANUP(closep) int file = -1;
    int fds[FDS_MAX];
    size_t n = 0;

    if (data.len > RELAY_MESSAGE_MAX)
        return -EMSGSIZE;
    if (data.len > LINK_INLINE_MAX) {
        file = memfd_create("vesta-relay", MFD_CLOEXEC);
        if (file < 0)
            return -errno;
        int r = write_all(file, data);
        if (r < 0)
            return r;
        head.flags |= IN_FILE;
        fds[n++] = file;
        data = (struct bytes){0};
    }
    if (fd >= 0) {
        head.flags |= WITH_FD;
        fds[n++] = fd;
    }
    return send_datagram(socket, &head, data, fds, n);
}

static int read_file(int fd, size_t len, struct buf *to)
{
    uint8_t *room = buf_reserve(to, len);

    for (size_t at = 0; at < len;) {
        ssize_t n = pread(fd, room + at, len - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EBADMSG;
        at += (size_t)n;
    }
    to->len += len;
    return 0;
}

static size_t take_fds(struct msghdr *m, int *fds)
{
    size_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (n < FDS_MAX)
                fds[n++] = fd;
            else
                close(fd);
        }
    }
    return n;
}

/* Puts together what came: the datagram behind its head is in ret->data. */
static int finish(const struct link_head *head, const int *fds, size_t n_fds,
                  struct link_message *ret)
{
    size_t wanted = (head->flags & IN_FILE ? 1u : 0) + (head->flags & WITH_FD ? 1u : 0);

    if (n_fds != wanted || head->len > RELAY_MESSAGE_MAX)
        return -EBADMSG;
    if (head->flags & IN_FILE) {
        if (ret->data.len > 0)
            return -EBADMSG;
        int r = read_file(fds[0], head->len, &ret->data);
        if (r < 0)
            return r;
    } else if (ret->data.len != head->len) {
        return -EBADMSG;
    }
    ret->kind = (enum relay_kind)head->kind;
    return 1;
}

int link_receive(int socket, bool takes_fds, struct link_message *ret)
{
    struct link_head head;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    } control;
    int fds[FDS_MAX];

    ret->fd = -1;
    buf_clear(&ret->data);
    uint8_t *room = buf_reserve(&ret->data, LINK_INLINE_MAX);
    struct iovec parts[2] = {{.iov_base = &head, .iov_len = sizeof(head)},
                             {.iov_base = room, .iov_len = LINK_INLINE_MAX}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    if (takes_fds) {
        m.msg_control = control.space;
        m.msg_controllen = sizeof(control.space);
    }
    ssize_t n = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : errno == ECONNRESET ? -EPIPE : -errno;
    if (n == 0)
        return -EPIPE;
    size_t n_fds = takes_fds ? take_fds(&m, fds) : 0;
    int r = -EBADMSG;
    if ((size_t)n >= sizeof(head) && !(m.msg_flags & MSG_TRUNC)) {
        ret->data.len = (size_t)n - sizeof(head);
        r = finish(&head, fds, n_fds, ret);
    }
    size_t kept = r == 1 && (head.flags & WITH_FD) ? 1 : 0;
    if (kept)
        ret->fd = fds[n_fds - 1];
    for (size_t i = 0; i + kept < n_fds; i++)
        close(fds[i]);
    return r;
}
