#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "net/port_holder.h"

#define BACKLOG 4096

static void address_text(const struct sockaddr_storage *a, char *to, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";

    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)a;
        bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        if (is_v4)
            inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, host, sizeof(host));
        else
            inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        snprintf(to, size, is_v4 ? "%s:%u" : "[%s]:%u", host, ntohs(v6->sin6_port));
    } else if (a->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)a;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        snprintf(to, size, "%s:%u", host, ntohs(v4->sin_port));
    } else {
        snprintf(to, size, "unix");
    }
}

/* ---- unix sockets ---- */

static int taken_path(const char *path, int fd, struct error *err)
{
    struct ucred holder;
    socklen_t len = sizeof(holder);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &holder, &len) == 0)
        return error_set(err, -EADDRINUSE,
                         "could not listen on \"%s\": process %d listens there; choose another "
                         "with --listen or stop it",
                         path, (int)holder.pid);
    return error_set(err, -EADDRINUSE,
                     "could not listen on \"%s\": somebody listens there; choose another with "
                     "--listen or stop them",
                     path);
}

/* Removes a socket that nobody listens on any more, as a killed server leaves it. */
static int remove_stale(const struct sockaddr_un *a, struct error *err)
{
    struct stat st;

    if (lstat(a->sun_path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, -EEXIST, "could not listen on \"%s\": it is there and is no socket",
                         a->sun_path);
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, -errno, "could not make a socket: %m");
    if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN)
        return taken_path(a->sun_path, fd, err);
    if (errno == ECONNREFUSED)
        (void)unlink(a->sun_path);
    return 0;
}

static int open_unix(const char *path, struct listener *ret, struct error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(a.sun_path) || path[0] == '\0')
        return error_set(err, -EINVAL, "the path of \"unix:%s\" is empty or too long", path);
    memcpy(a.sun_path, path, strlen(path));
    int r = remove_stale(&a, err);
    if (r < 0)
        return r;
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, -errno, "could not make a socket: %m");
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
        return error_set(err, -errno, "could not listen on \"%s\": %m", path);
    snprintf(ret->address, sizeof(ret->address), "unix:%s", path);
    ret->io.fd = TAKE_FD(fd);
    return 0;
}

/* ---- TCP ---- */

static int taken_port(const char *address, const struct sockaddr *a, struct error *err)
{
    char holder[128];

    if (port_holder(a, holder, sizeof(holder)))
        return error_set(err, -EADDRINUSE,
                         "could not listen on %s: the port is taken by %s; choose another with "
                         "--listen or stop it",
                         address, holder);
    return error_set(err, -EADDRINUSE,
                     "could not listen on %s: the port is taken by a process of another user; "
                     "choose another with --listen or stop it",
                     address);
}

static int open_one(const char *address, const struct addrinfo *a, struct listener *ret,
                    struct error *err)
{
    CLEANUP(closep)
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    int on = 1, off = 0;
    if (fd < 0)
        return error_set(err, -errno, "could not make a socket for %s: %m", address);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        if (errno == EADDRINUSE)
            return taken_port(address, a->ai_addr, err);
        if (errno == EACCES)
            return error_set(err, -EACCES,
                             "could not listen on %s: ports below 1024 need privileges; choose "
                             "another with --listen",
                             address);
        return error_set(err, -errno, "could not listen on %s: %m", address);
    }
    struct sockaddr_storage got = {0};
    socklen_t len = sizeof(got);
    if (getsockname(fd, (struct sockaddr *)&got, &len) < 0)
        return error_set(err, -errno, "could not ask for the address of %s: %m", address);
    address_text(&got, ret->address, sizeof(ret->address));
    ret->io.fd = TAKE_FD(fd);
    return 0;
}

/* Cuts "host:port" in two; an IPv6 address stands in brackets. */
static int split(const char *address, char *host, size_t size, const char **ret_port,
                 struct error *err)
{
    const char *colon = strrchr(address, ':');
    uint64_t port;

    if (!colon || !bytes_to_u64(bytes_of(colon + 1), &port) || port > 65535)
        return error_set(err, -EINVAL,
                         "the address \"%s\" is not HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH",
                         address);
    size_t len = (size_t)(colon - address);
    bool has_brackets = len >= 2 && address[0] == '[' && address[len - 1] == ']';
    const char *start = has_brackets ? address + 1 : address;
    if (has_brackets)
        len -= 2;
    if (len >= size || (!has_brackets && memchr(start, ':', len)))
        return error_set(err, -EINVAL,
                         "the address \"%s\" has a host that is too long, or IPv6 without brackets",
                         address);
    memcpy(host, start, len);
    host[len] = '\0';
    *ret_port = colon + 1;
    return 0;
}

static int open_tcp(const char *address, struct listener *ret, struct error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *all;
    char host[256] = "";
    const char *port = NULL;

    int r = split(address, host, sizeof(host), &port, err);
    if (r < 0)
        return r;
    bool is_every = host[0] == '\0' || strcmp(host, "*") == 0;
    /* Every address is one socket of IPv6, which takes IPv4 as well; of IPv4 where that is all
     * there is. */
    int code = getaddrinfo(is_every ? "::" : host, port, &hints, &all);
    if (code != 0)
        return error_set(err, -EINVAL, "could not find the address \"%s\": %s", address,
                         gai_strerror(code));
    r = -EINVAL;
    for (const struct addrinfo *a = all; a && r < 0 && r != -EADDRINUSE; a = a->ai_next)
        r = open_one(address, a, ret, err);
    freeaddrinfo(all);
    if (is_every && (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL) &&
        getaddrinfo("0.0.0.0", port, &hints, &all) == 0) {
        r = open_one(address, all, ret, err);
        freeaddrinfo(all);
    }
    return r;
}

int listener_open(const char *address, struct listener *ret, struct error *err)
{
    ret->io.fd = -1;
    return strncmp(address, "unix:", 5) == 0 ? open_unix(address + 5, ret, err)
                                             : open_tcp(address, ret, err);
}

void listener_close(struct listener *l)
{
    if (l->io.fd < 0)
        return;
    close(TAKE_FD(l->io.fd));
    if (strncmp(l->address, "unix:", 5) == 0)
        (void)unlink(l->address + 5);
}

int listener_accept(struct listener *l, char peer[PEER_TEXT_MAX])
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof(a);
    int on = 1;
    int fd = accept4(l->io.fd, (struct sockaddr *)&a, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    address_text(&a, peer, PEER_TEXT_MAX);
    if (a.ss_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}
