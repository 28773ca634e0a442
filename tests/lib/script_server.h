#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * A server that answers requests with the lines of a script, one after another, and remembers what
 * it was asked. For tests of clients.
 */
struct script_line {
    const char *answer; /* NULL: hang up without one */
    bool hangs_up;      /* behind the answer */
    bool early;         /* answer as soon as the head is there, then hang up */
};

#define SCRIPT_REQUESTS_MAX 16

struct script_server {
    const struct script_line *lines;
    size_t n_lines, n_requests, n_connections;
    char requests[SCRIPT_REQUESTS_MAX][1024]; /* head and the first bytes of the body */
    size_t body_lens[SCRIPT_REQUESTS_MAX];
    int listener, port;
    char path[108]; /* of a Unix socket, or empty */
    pthread_t thread;
};

static size_t script_length(const char *head)
{
    const char *at = strcasestr(head, "\r\ncontent-length:");
    return at ? strtoul(at + 17, NULL, 10) : 0;
}

/* Reads a request; false at the end. */
static bool script_read(struct script_server *s, int fd)
{
    char *to = s->requests[s->n_requests];
    size_t n = 0, size = sizeof(s->requests[0]) - 1, dropped = 0;
    char *end = NULL;
    for (;;) {
        char waste[4096];
        ssize_t got = n < size ? read(fd, to + n, size - n) : read(fd, waste, sizeof(waste));
        if (got <= 0)
            return false;
        if (n < size)
            n += (size_t)got;
        else
            dropped += (size_t)got;
        to[n] = '\0';
        end = end ? end : strstr(to, "\r\n\r\n");
        if (!end)
            continue;
        size_t body = n - (size_t)(end + 4 - to) + dropped;
        s->body_lens[s->n_requests] = body;
        if (body >= script_length(to) || s->lines[s->n_requests].early)
            return true;
    }
}

static void *script_serve(void *arg)
{
    struct script_server *s = arg;
    while (s->n_requests < s->n_lines) {
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0)
            break;
        s->n_connections++;
        while (s->n_requests < s->n_lines && script_read(s, fd)) {
            const struct script_line *l = &s->lines[s->n_requests++];
            size_t len = l->answer ? strlen(l->answer) : 0;
            if (len > 0 && write(fd, l->answer, len) != (ssize_t)len)
                break;
            if (l->early) { /* with an orderly end: a reset could eat the answer */
                char waste[4096];
                shutdown(fd, SHUT_WR);
                while (read(fd, waste, sizeof(waste)) > 0)
                    ;
            }
            if (!l->answer || l->hangs_up || l->early)
                break;
        }
        close(fd);
    }
    return NULL;
}

static inline void script_start(struct script_server *s, const struct script_line *lines, size_t n,
                                const char *unix_path)
{
    memset(s, 0, sizeof(*s));
    s->lines = lines;
    s->n_lines = n;
    if (unix_path) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", unix_path);
        snprintf(s->path, sizeof(s->path), "%s", unix_path);
        unlink(unix_path);
        s->listener = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(s->listener, (struct sockaddr *)&a, sizeof(a)) < 0)
            abort();
    } else {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(a);
        s->listener = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(s->listener, (struct sockaddr *)&a, len) < 0 ||
            getsockname(s->listener, (struct sockaddr *)&a, &len) < 0)
            abort();
        s->port = ntohs(a.sin_port);
    }
    if (listen(s->listener, 8) < 0 || pthread_create(&s->thread, NULL, script_serve, s) != 0)
        abort();
}

static inline void script_stop(struct script_server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
    if (s->path[0])
        unlink(s->path);
}
