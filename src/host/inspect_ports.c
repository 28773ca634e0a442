#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/inspect_internal.h"
#include "host/inspect_text.h"
#include "wire/protobuf.h"

#define LISTENERS_MAX 4096
#define FDS_MAX       16384
#define TABLE_MAX     ((size_t)1 << 20) /* listening sockets come first */

static int add_listeners(const struct target *t, const char *file, struct buf *out)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct tcp_line l;

    int r = target_read(t, file, TABLE_MAX, &text);
    if (r < 0)
        return r;
    struct bytes rest = buf_bytes(&text), line;
    (void)bytes_next_line(&rest, &line); /* what columns are called */
    while (bytes_next_line(&rest, &line)) {
        if (!tcp_line_read(line, &l))
            return -E2BIG; /* cut in the middle */
        if (!l.is_listening)
            return 0;
        if (out->len >= LISTENERS_MAX * sizeof(struct listener))
            return -E2BIG;
        struct listener found = {.inode = l.inode,
                                 .port = l.port,
                                 .is_near = l.is_near,
                                 .is_loopback = l.is_loopback,
                                 .is_v6 = l.is_v6};
        memcpy(found.address, l.address, sizeof(found.address));
        buf_add(out, &found, sizeof(found));
    }
    return text.len < TABLE_MAX ? 0 : -E2BIG;
}

/* The socket a descriptor is, 0: none. */
static uint64_t socket_of(int dir, const char *name)
{
    char link[64];
    uint64_t inode = 0;
    ssize_t n = readlinkat(dir, name, link, sizeof(link) - 1);

    if (n < 0)
        return 0;
    link[n] = '\0';
    return sscanf(link, "socket:[%lu]", &inode) == 1 ? inode : 0;
}

static const struct listener *find(const struct buf *all, uint64_t inode)
{
    const struct listener *l = (const struct listener *)(const void *)all->data;

    for (size_t i = 0; i < all->len / sizeof(*l); i++) {
        if (l[i].inode == inode)
            return &l[i];
    }
    return NULL;
}

/* A port of a container is somebody else's port here. */
bool inspect_shares_network(const struct target *t)
{
    char ours[64], theirs[64];
    ssize_t n = readlinkat(AT_FDCWD, "/proc/self/ns/net", ours, sizeof(ours));

    return n > 0 && readlinkat(t->fd, "ns/net", theirs, sizeof(theirs)) == n &&
           memcmp(ours, theirs, (size_t)n) == 0;
}

int inspect_listeners(const struct target *t, struct buf *out)
{
    int r = add_listeners(t, "net/tcp", out);
    int r6 = add_listeners(t, "net/tcp6", out);

    return r < 0 ? r : r6 == -ENOENT ? 0 : r6; /* it may have none of the latter */
}

static int walk_fds(DIR *dir, const struct buf *listeners, inspect_owned *fn, void *arg)
{
    for (size_t i = 0; i < FDS_MAX; i++) {
        errno = 0;
        const struct dirent *e = readdir(dir);
        if (!e)
            return -errno;
        uint64_t inode = socket_of(dirfd(dir), e->d_name);
        const struct listener *l = inode == 0 ? NULL : find(listeners, inode);
        if (l && !fn(arg, l))
            return 0;
    }
    return -E2BIG;
}

int inspect_owned_listeners(const struct target *t, const struct buf *listeners, inspect_owned *fn,
                            void *arg)
{
    CLEANUP(closep) int fd = openat(t->fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir)
        return -errno;
    (void)TAKE_FD(fd);
    int r = walk_fds(dir, listeners, fn, arg);
    closedir(dir);
    return r;
}

struct telling {
    struct buf *out;
    bool is_ours, listens;
    size_t n;
};

static bool tell_port(void *arg, const struct listener *l)
{
    struct telling *t = arg;

    t->listens = true;
    if (l->is_near && t->is_ours && t->n++ < 8)
        pb_put_u64(t->out, TOLD_PORT, l->port);
    return true;
}

bool inspect_ports(const struct target *t, struct buf *out)
{
    struct buf listeners = {0};
    struct telling told = {.out = out, .is_ours = inspect_shares_network(t)};

    (void)inspect_listeners(t, &listeners); /* some of them are better than none */
    if (listeners.len > 0)
        (void)inspect_owned_listeners(t, &listeners, tell_port, &told);
    buf_done(&listeners);
    return told.listens;
}
