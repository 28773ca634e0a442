/* HTTP/1.1 requests, fed whole and byte by byte: both must see the same, and every stream that was
 * told of must end, once. */
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "net/http_session.h"

struct seen {
    struct buf told, output;
    int open;
};

static void note(struct seen *s, struct bytes text)
{
    buf_add_bytes(&s->told, text);
    buf_add_byte(&s->told, '\n');
}

static bool on_head(void *ctx, struct http_stream *stream)
{
    struct seen *s = ctx;
    const struct http_request *r = &stream->request;

    s->open++;
    REQUIRE(r->method.len > 0 && r->path.len > 0 && r->n_headers <= HTTP_HEADERS_MAX);
    note(s, r->method);
    note(s, r->path);
    note(s, r->query);
    note(s, r->authority);
    for (size_t i = 0; i < r->n_headers; i++) {
        REQUIRE(r->headers[i].name.len > 0);
        for (size_t k = 0; k < r->headers[i].value.len; k++)
            REQUIRE(http_is_value_byte(r->headers[i].value.data[k]));
        note(s, r->headers[i].name);
        note(s, r->headers[i].value);
    }
    if (r->method.data[0] != 'D')
        return true;
    struct http_reply reply = {.status = 403};
    stream->session->ops->reply(stream->session, stream, &reply, true);
    return false;
}

static void on_body(void *ctx, struct http_stream *stream, struct bytes part)
{
    struct seen *s = ctx;

    (void)stream;
    buf_add_bytes(&s->told, part);
}

static void on_complete(void *ctx, struct http_stream *stream)
{
    struct seen *s = ctx;
    struct http_reply reply = {0};
    struct buf part = {0};

    note(s, BYTES(" complete"));
    buf_add_str(&reply.body, "ok");
    if (stream->request.method.data[0] != 'P') {
        stream->session->ops->reply(stream->session, stream, &reply, true);
        return;
    }
    stream->session->ops->reply(stream->session, stream, &reply, false);
    stream->session->ops->reply_more(stream->session, stream, &part, true, NULL);
}

static void on_end(void *ctx, struct http_stream *stream, bool is_done)
{
    struct seen *s = ctx;

    (void)stream;
    s->open--;
    note(s, is_done ? BYTES("done") : BYTES("broken off"));
}

static void run(struct seen *s, struct bytes in, size_t piece)
{
    struct http_events events = {on_head, on_body, on_complete, on_end, s};
    struct http_session_limits limits = {0};
    struct http_session *session = http1_session_new(&events, &limits);

    while (in.len > 0) {
        size_t n = piece < in.len ? piece : in.len;
        bool is_sound = session->ops->feed(session, bytes_head(in, n));
        REQUIRE(is_sound == (session->failure == NULL));
        session->ops->take_output(session, &s->output, (size_t)1 << 30);
        REQUIRE(session->n_streams <= 1 && s->open == (int)session->n_streams);
        REQUIRE(session->failure == NULL || session->is_closing);
        in = bytes_from(in, n);
    }
    if (session->failure)
        note(s, bytes_of(session->failure));
    session->ops->free(session);
    REQUIRE(s->open == 0);
}

/* Each answer has a date, which may differ by a second. */
static void drop_dates(struct buf *b)
{
    const uint8_t *date;

    for (size_t at = 0; (date = bytes_find(bytes_from(buf_bytes(b), at), BYTES("\r\ndate: ")));) {
        at = (size_t)(date - b->data) + 8;
        REQUIRE(at + 29 <= b->len);
        memset(b->data + at, '-', 29);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct seen whole = {0}, bytewise = {0};

    run(&whole, (struct bytes){data, len}, len ? len : 1);
    run(&bytewise, (struct bytes){data, len}, 1);
    REQUIRE(bytes_equal(buf_bytes(&whole.told), buf_bytes(&bytewise.told)));
    drop_dates(&whole.output);
    drop_dates(&bytewise.output);
    REQUIRE(bytes_equal(buf_bytes(&whole.output), buf_bytes(&bytewise.output)));
    buf_done(&whole.told);
    buf_done(&whole.output);
    buf_done(&bytewise.told);
    buf_done(&bytewise.output);
    return 0;
}
