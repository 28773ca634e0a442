#include "server/call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "net/http_server.h"
#include "server/call_internal.h"
#include "server/jobs.h"
#include "server/server_internal.h"
#include "server/tenant_limits.h"

/* What a call may use beside its body: parameters, an answer being put together. */
#define CALL_BYTES ((size_t)64 << 20)

static struct job *job_of(struct call *c)
{
    return (struct job *)c; /* its first member */
}

struct job *job_new(struct server *s, const struct http_request *request)
{
    struct job *j = must_calloc(1, sizeof(*j));

    j->call.server = s;
    j->call.request = request;
    j->call.cancelled = &j->never;
    j->begun_ns = clock_monotonic_ns(clock_real());
    budget_init(&j->call.budget, CALL_BYTES + s->config->body_limit);
    arena_init(&j->arena, &j->call.budget);
    return j;
}

void job_free(struct job *j)
{
    if (!j)
        return;
    http_reply_done(&j->call.reply);
    unpacked_done(&j->call.budget, &j->plain);
    arena_done(&j->arena);
    free(j);
}

struct arena *call_arena(struct call *c)
{
    return &job_of(c)->arena;
}

/* The value, copied to where it lives as long as the call. */
static bool keep(struct call *c, struct bytes value, struct bytes *ret)
{
    char *copy = arena_strdup(call_arena(c), value);
    if (!copy)
        return false;
    *ret = (struct bytes){(const uint8_t *)copy, value.len};
    return true;
}

bool call_param(struct call *c, const char *name, struct bytes *ret)
{
    CLEANUP(buf_done) struct buf scratch = {.budget = &c->budget};
    struct bytes value;

    if (http_query_value(c->request->query, name, &scratch, &value))
        return keep(c, value, ret);
    if (bytes_are(http_media_type(call_header(c, "content-type")),
                  "application/x-www-form-urlencoded") &&
        http_query_value(c->body, name, &scratch, &value))
        return keep(c, value, ret);
    return false;
}

struct bytes call_header(const struct call *c, const char *name)
{
    return http_header_value(c->request, name);
}

uint64_t call_body_limit(const struct call *c)
{
    const struct server_config *config = c->server->config;

    if (c->route->body_limit == ROUTE_UPLOAD)
        return config->upload_limit;
    return c->route->body_limit ? c->route->body_limit : config->body_limit;
}

int call_input(struct call *c, const char *name, struct input **ret, struct error *err)
{
    char path[64];
    int fd = -1;

    if (c->request->body_file >= 0) {
        /* Opened again, so that each reader starts at the beginning. */
        snprintf(path, sizeof(path), "/proc/self/fd/%d", c->request->body_file);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return error_set(err, -errno, "could not open the body's file again: %m");
    }
    *ret =
        fd >= 0 ? input_from_fd(fd, name, &c->budget) : input_from_bytes(c->body, name, &c->budget);
    /* What is packed inside has the limit of what is not. */
    input_set_limit(*ret, call_body_limit(c));
    return 0;
}

void call_reply(struct call *c, const char *content_type, struct buf *body)
{
    http_reply_header(&c->reply, "content-type", bytes_of(content_type));
    buf_done(&c->reply.body);
    c->reply.body = *body;
    *body = (struct buf){0};
    /* It leaves the budget with the call; the connection's limits hold from here. */
    c->reply.body.budget = NULL;
}

void call_stream(struct call *c, const char *content_type)
{
    http_reply_header(&c->reply, "content-type", bytes_of(content_type));
    c->is_streaming = true;
}

int call_stream_part(struct call *c, struct buf *part)
{
    struct job *j = job_of(c);

    if (!c->exchange) {
        buf_add_bytes(&c->reply.body, buf_bytes(part));
        buf_clear(part);
        return 0;
    }
    if (!j->has_begun) {
        if (!jobs_begin_stream(c->server->jobs))
            return -EBUSY;
        j->has_begun = true;
        call_add_usual_headers(c);
        http_reply_begin(c->exchange, &c->reply);
    }
    return http_reply_write(c->exchange, part);
}

struct call *call_keep(struct call *c)
{
    struct job *j = job_of(c);
    j->is_kept = true;
    /* Who waits does not work. */
    if (j->has_query_slot)
        limits_end_query(c->server->limits, c->tenant);
    j->has_query_slot = false;
    return c;
}

void call_finish(struct call *kept, int r, const struct error *err)
{
    job_finish(job_of(kept), r, err);
}
