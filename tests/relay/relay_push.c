/*
 * The agent's side of the relay without an agent: takes the agent's flags, then commands from
 * standard input, one a line, and prints what the relay says.
 *
 *     send FILE            an OTLP request, as it is in the file
 *     debug FILE BUILDID   a debug file
 *     status JSON | metrics TEXT | targets JSON
 *     flush MS             until "flushed"
 *     stat                 prints "stat PID RESTARTS QUEUED DROPPED"
 *     quit                 as does the end of the input
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/le.h"
#include "config/agent_config.h"
#include "net/loop.h"
#include "relay/relay.h"

struct push {
    struct loop *loop;
    struct relay *relay;
    struct loop_io in;
    struct buf text;
};

static void on_message(void *arg, enum relay_kind kind, struct bytes data)
{
    const char *name = kind == RELAY_DIRECTIVE ? "directive"
                       : kind == RELAY_FLUSHED ? "flushed"
                       : kind == RELAY_COUNTS  ? "counts"
                                               : "unknown";

    (void)arg;
    printf("%s %.*s\n", name, (int)data.len, (const char *)data.data);
    fflush(stdout);
}

static void read_whole(const char *path, struct buf *to)
{
    CLEANUP(fclosep) FILE *f = fopen(path, "rb");

    for (size_t n = 1; f && n > 0; to->len += n)
        n = fread(buf_reserve(to, 65536), 1, 65536, f);
}

static void command(struct push *p, char *line)
{
    CLEANUP(buf_done) struct buf data = {0};
    char *rest = strchr(line, ' ');
    uint8_t ms[4];

    if (rest)
        *rest++ = '\0';
    struct bytes text = rest ? bytes_of(rest) : (struct bytes){0};
    if (strcmp(line, "send") == 0 && rest) {
        read_whole(rest, &data);
        relay_send(p->relay, RELAY_PROFILES, buf_bytes(&data), -1);
    } else if (strcmp(line, "debug") == 0 && rest && strchr(rest, ' ')) {
        char *id = strchr(rest, ' ');
        *id++ = '\0';
        CLEANUP(closep) int fd = open(rest, O_RDONLY | O_CLOEXEC);
        relay_send(p->relay, RELAY_DEBUG_FILE, bytes_of(id), fd);
    } else if (strcmp(line, "flush") == 0 && rest) {
        le32_put(ms, (uint32_t)atoi(rest));
        relay_send(p->relay, RELAY_FLUSH, (struct bytes){ms, 4}, -1);
    } else if (strcmp(line, "status") == 0) {
        relay_send(p->relay, RELAY_STATUS, text, -1);
    } else if (strcmp(line, "metrics") == 0) {
        relay_send(p->relay, RELAY_METRICS, text, -1);
    } else if (strcmp(line, "targets") == 0) {
        relay_send(p->relay, RELAY_TARGETS, text, -1);
    } else if (strcmp(line, "stat") == 0) {
        struct relay_stats s;
        relay_stats(p->relay, &s);
        printf("stat %d %llu %llu %llu\n", s.pid, (unsigned long long)s.restarts,
               (unsigned long long)s.queued_bytes, (unsigned long long)s.dropped);
        fflush(stdout);
    } else {
        loop_stop(p->loop);
    }
}

static void input_is_here(struct loop_io *io, uint32_t events)
{
    struct push *p = OWNER_OF(io, struct push, in);
    ssize_t n = read(io->fd, buf_reserve(&p->text, 4096), 4096);

    (void)events;
    if (n <= 0) {
        loop_forget(p->loop, io);
        loop_stop(p->loop);
        return;
    }
    p->text.len += (size_t)n;
    for (uint8_t *end; p->text.len > 0 && (end = memchr(p->text.data, '\n', p->text.len));) {
        size_t len = (size_t)(end - p->text.data) + 1;
        *end = '\0';
        command(p, (char *)p->text.data);
        memmove(p->text.data, p->text.data + len, p->text.len - len);
        p->text.len -= len;
    }
}

int main(int argc, char **argv)
{
    CLEANUP(config_freep) struct config *config = NULL;
    struct push p = {.in = {STDIN_FILENO, input_is_here}};
    struct error err;
    struct config_input in = {.args = (const char *const *)(argv + 1),
                              .n_args = (size_t)argc - 1,
                              .env = (const char *const *)environ};

    int r = agent_config_load(&in, &config, &err);
    if (r == 0)
        r = loop_new(&p.loop, &err);
    if (r == 0)
        r = relay_start(p.loop, agent_config_of(config), on_message, NULL, &p.relay, &err);
    if (r == 0)
        r = loop_watch(p.loop, &p.in, EPOLLIN, &err);
    if (r < 0) {
        fprintf(stderr, "relay_push: %s\n", err.text);
        return 1;
    }
    loop_run(p.loop);
    relay_free(p.relay);
    loop_free(p.loop);
    buf_done(&p.text);
    return 0;
}
