#include "lib/h2_world.h"
#include "wire/base64.h"

#define MIB ((size_t)1 << 20)

static struct bytes many_bytes(struct buf *b, size_t n)
{
    while (b->len < n)
        buf_add_byte(b, (uint8_t)(b->len * 31 >> 3));
    return buf_bytes(b);
}

static void tells_of_a_request_and_answers_it(struct test *t)
{
    struct world w;
    const char *more[] = {"accept", "*/*", "x-two", "2", NULL};

    world_open(&w, NULL);
    int32_t id = world_request(&w, "GET", "/a/b?c=d&e", more, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_STR(t, s->request, "GET /a/b?c=d&e host.example:4040");
    CHECK_STR(t, buf_cstr(&s->headers), "accept: */*\nx-two: 2\n");
    CHECK_INT(t, s->heads, 1);
    CHECK_INT(t, s->completes, 1);
    CHECK_INT(t, s->ends, 1);
    CHECK_INT(t, s->done, 1);
    CHECK_INT(t, s->status, 200);
    CHECK_STR(t, buf_cstr(&s->reply_body), "hello");
    CHECK(t, strstr(buf_cstr(&s->reply_headers), "content-type: text/plain\n"));
    CHECK(t, strstr(buf_cstr(&s->reply_headers), "content-length: 5\n"));
    CHECK(t, strstr(buf_cstr(&s->reply_headers), "date: "));
    CHECK(t, s->is_closed);
    CHECK_INT(t, s->close_code, NGHTTP2_NO_ERROR);
    CHECK_INT(t, w.server->n_streams, 0);
    CHECK_INT(t, w.server->held, 0);
    CHECK(t, !w.server->is_closing);
    CHECK(t, !w.server->is_reading_head);
    world_done(&w);
}

static void hands_a_body_over_and_opens_the_windows_again(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf data = {0};
    struct bytes sent = many_bytes(&data, 9 * MIB), rest = sent;

    world_open(&w, NULL);
    world_pump(&w);
    int32_t id = world_request(&w, "POST", "/in", NULL, &rest);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK(t, bytes_equal(buf_bytes(&s->body), sent));
    CHECK_INT(t, s->completes, 1);
    CHECK_INT(t, s->status, 200);
    world_done(&w);
}

static void keeps_a_window_shut_until_the_body_was_dealt_with(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf data = {0};
    struct bytes rest = many_bytes(&data, 3 * MIB);

    world_open(&w, NULL);
    w.holds_bodies = true;
    world_pump(&w);
    int32_t id = world_request(&w, "POST", "/in", NULL, &rest);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->body.len, MIB);
    w.server->ops->consumed(w.server, s->stream, MIB);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, s->body.len, 2 * MIB);
    /* More than there is changes nothing beyond that. */
    w.server->ops->consumed(w.server, s->stream, 100 * MIB);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, s->body.len, 3 * MIB);
    CHECK_INT(t, s->completes, 1);
    world_done(&w);
}

static void returns_the_connections_window_of_streams_that_end_early(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf data = {0};
    struct bytes all = many_bytes(&data, 2 * MIB);

    world_open(&w, NULL);
    w.holds_bodies = true;
    w.answer = NULL;
    world_pump(&w);
    for (int i = 0; i < 12; i++) {
        struct bytes rest = all;
        int32_t id = world_request(&w, "POST", "/in", NULL, &rest);
        CHECK(t, world_pump(&w));
        CHECK_INT(t, world_seen(&w, (uint64_t)id)->body.len, MIB);
        nghttp2_submit_rst_stream(w.client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        CHECK(t, world_pump(&w));
        CHECK_INT(t, world_seen(&w, (uint64_t)id)->ends, 1);
        CHECK_INT(t, world_seen(&w, (uint64_t)id)->done, 0);
        CHECK_INT(t, world_seen(&w, (uint64_t)id)->completes, 0);
    }
    world_done(&w);
}

static void drops_a_body_that_is_not_wanted(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf data = {0};
    struct bytes all = many_bytes(&data, 2 * MIB);

    world_open(&w, NULL);
    w.refuses_bodies = true;
    world_pump(&w);
    for (int i = 0; i < 8; i++) {
        struct bytes rest = all;
        int32_t id = world_request(&w, "POST", "/in", NULL, &rest);
        CHECK(t, world_pump(&w));
        struct seen *s = world_seen(&w, (uint64_t)id);
        CHECK_INT(t, s->body.len, 0);
        CHECK_INT(t, s->completes, 0);
        CHECK_INT(t, s->status, 200);
        CHECK_STR(t, buf_cstr(&s->reply_body), "hello");
        CHECK(t, s->is_closed);
        CHECK_INT(t, s->close_code, NGHTTP2_NO_ERROR);
        CHECK_INT(t, s->ends, 1);
        CHECK_INT(t, s->done, 1);
    }
    world_done(&w);
}

static void resets_a_stream_whose_unwanted_body_does_not_end(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf data = {0};
    struct bytes all = many_bytes(&data, 12 * MIB), rest = all;

    world_open(&w, NULL);
    w.refuses_bodies = true;
    world_pump(&w);
    int32_t id = world_request(&w, "POST", "/in", NULL, &rest);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->status, 200);
    CHECK(t, s->is_closed);
    CHECK_INT(t, s->close_code, NGHTTP2_NO_ERROR);
    CHECK(t, rest.len > 5 * MIB);
    CHECK_INT(t, s->done, 1);
    /* The connection's window is as it was. */
    rest = all;
    w.refuses_bodies = false;
    id = world_request(&w, "POST", "/in", NULL, &rest);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, world_seen(&w, (uint64_t)id)->body.len, 12 * MIB);
    world_done(&w);
}

static ssize_t read_never(nghttp2_session *n, int32_t id, uint8_t *to, size_t max, uint32_t *flags,
                          nghttp2_data_source *source, void *arg)
{
    (void)n;
    (void)id;
    (void)to;
    (void)max;
    (void)flags;
    (void)source;
    (void)arg;
    return NGHTTP2_ERR_DEFERRED;
}

static void waits_for_few_streams_whose_bodies_are_not_wanted(struct test *t)
{
    struct world w;
    nghttp2_data_provider never = {.read_callback = read_never};
    nghttp2_nv head[] = {world_nv(":method", "POST"), world_nv(":scheme", "http"),
                         world_nv(":authority", "a"), world_nv(":path", "/")};
    int closed = 0;

    world_open(&w, NULL);
    w.refuses_bodies = true;
    for (int i = 0; i < 20; i++)
        nghttp2_submit_request(w.client, NULL, head, ARRAY_SIZE(head), &never, NULL);
    CHECK(t, world_pump(&w));
    for (uint64_t id = 1; id < 40; id += 2) {
        CHECK_INT(t, world_seen(&w, id)->status, 200);
        CHECK_INT(t, world_seen(&w, id)->done, 1);
        closed += world_seen(&w, id)->is_closed;
    }
    CHECK_INT(t, closed, 12);
    CHECK_INT(t, w.server->n_streams, 0);
    /* Trailers end one of those that are left. */
    nghttp2_nv trailer = world_nv("x", "y");
    nghttp2_submit_trailer(w.client, 39, &trailer, 1);
    CHECK(t, world_pump(&w));
    CHECK(t, world_seen(&w, 39)->is_closed);
    CHECK_INT(t, world_seen(&w, 39)->close_code, NGHTTP2_NO_ERROR);
    world_done(&w);
}

static void writes_trailers_behind_the_body(struct test *t)
{
    struct world w;

    world_open(&w, NULL);
    w.answer = answer_next;
    http_reply_header(&w.next_reply, "content-type", BYTES("application/grpc"));
    buf_add_str(&w.next_reply.body, "message");
    http_reply_trailer(&w.next_reply, "grpc-status", BYTES("0"));
    int32_t id = world_request(&w, "POST", "/s/m", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_STR(t, buf_cstr(&s->reply_body), "message");
    const char *head = buf_cstr(&s->reply_headers), *date = strstr(head, "date: ");
    CHECK(t, date && strstr(date, "grpc-status: 0\n"));
    CHECK(t, !strstr(head, "content-length"));
    CHECK_INT(t, s->done, 1);
    world_done(&w);
}

static void writes_a_reply_that_is_only_a_head(struct test *t)
{
    struct world w;

    world_open(&w, NULL);
    w.answer = answer_next;
    w.next_reply.is_head_only = true;
    http_reply_header(&w.next_reply, "grpc-status", BYTES("12"));
    http_reply_trailer(&w.next_reply, "grpc-message", BYTES("no"));
    int32_t id = world_request(&w, "POST", "/s/m", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->status, 200);
    CHECK(t, strstr(buf_cstr(&s->reply_headers), "grpc-status: 12\ngrpc-message: no\n"));
    CHECK_INT(t, s->reply_body.len, 0);
    CHECK_INT(t, s->done, 1);
    world_done(&w);
}

static void writes_no_body_where_there_must_be_none(struct test *t)
{
    struct world w;

    world_open(&w, NULL);
    int32_t id = world_request(&w, "HEAD", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->reply_body.len, 0);
    CHECK(t, strstr(buf_cstr(&s->reply_headers), "content-length: 5\n"));
    CHECK_INT(t, s->done, 1);

    w.answer = answer_next;
    w.next_reply.status = 304;
    buf_add_str(&w.next_reply.body, "not to be seen");
    http_reply_header(&w.next_reply, "connection", BYTES("close"));
    id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->status, 304);
    CHECK_INT(t, s->reply_body.len, 0);
    CHECK(t, !strstr(buf_cstr(&s->reply_headers), "content-length"));
    CHECK(t, !strstr(buf_cstr(&s->reply_headers), "connection"));
    CHECK_INT(t, s->done, 1);
    world_done(&w);
}

static void add_part(struct world *w, struct http_stream *st, const char *text, bool is_last)
{
    struct buf part = {0};

    buf_add_str(&part, text);
    w->server->ops->reply_more(w->server, st, &part, is_last, NULL);
}

static void streams_a_reply_in_parts(struct test *t)
{
    struct world w;
    struct http_reply reply = {0};

    world_open(&w, NULL);
    w.answer = NULL;
    int32_t id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    struct http_stream *st = s->stream;
    buf_add_str(&reply.body, "one ");
    w.server->ops->reply(w.server, st, &reply, false);
    CHECK_INT(t, reply.body.len, 0);
    CHECK_INT(t, w.server->ops->unwritten(w.server, st), 4);
    CHECK(t, world_pump(&w));
    CHECK_STR(t, buf_cstr(&s->reply_body), "one ");
    CHECK_INT(t, w.server->ops->unwritten(w.server, st), 0);
    CHECK(t, !strstr(buf_cstr(&s->reply_headers), "content-length"));

    /* Parts that pile up, and one with nothing in it. */
    add_part(&w, st, "two ", false);
    add_part(&w, st, "", false);
    add_part(&w, st, "three ", false);
    CHECK_INT(t, w.server->ops->unwritten(w.server, st), 10);
    CHECK(t, world_pump(&w));
    CHECK_STR(t, buf_cstr(&s->reply_body), "one two three ");
    CHECK_INT(t, s->ends, 0);

    struct http_reply end = {0};
    struct buf nothing = {0};
    http_reply_trailer(&end, "x-end", BYTES("yes"));
    w.server->ops->reply_more(w.server, st, &nothing, true, &end.trailers);
    CHECK(t, world_pump(&w));
    CHECK(t, strstr(buf_cstr(&s->reply_headers), "x-end: yes\n"));
    CHECK_INT(t, s->done, 1);
    http_reply_done(&end);
    world_done(&w);
}

static void streams_much_more_than_a_window(struct test *t)
{
    struct world w;
    struct http_reply reply = {0};
    CLEANUP(buf_done) struct buf data = {0}, want = {0};

    many_bytes(&data, 50000);
    world_open(&w, NULL);
    w.answer = NULL;
    int32_t id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    struct http_stream *st = s->stream;
    w.server->ops->reply(w.server, st, &reply, false);
    for (int i = 0; i < 60; i++) {
        struct buf part = {0};
        buf_add_bytes(&part, buf_bytes(&data));
        buf_add_bytes(&want, buf_bytes(&data));
        w.server->ops->reply_more(w.server, st, &part, i == 59, NULL);
        if (i % 7 == 0)
            world_pump(&w);
    }
    CHECK(t, world_pump(&w));
    CHECK(t, bytes_equal(buf_bytes(&s->reply_body), buf_bytes(&want)));
    CHECK_INT(t, s->done, 1);
    world_done(&w);
}

static void moves_what_is_left_of_a_streamed_reply(struct test *t)
{
    struct world w;
    struct http_reply reply = {0};
    CLEANUP(buf_done) struct buf want = {0};

    /* A window that lets 65,535 bytes through: of 70,000 a few are left. */
    world_open(&w, NULL);
    w.answer = NULL;
    int32_t id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    many_bytes(&reply.body, 70000);
    many_bytes(&want, 70000);
    w.server->ops->reply(w.server, s->stream, &reply, false);
    CLEANUP(buf_done) struct buf out = {0};
    w.server->ops->take_output(w.server, &out, 1 << 20);
    CHECK_INT(t, w.server->ops->unwritten(w.server, s->stream), 70000 - 65535);
    add_part(&w, s->stream, "the end", true);
    buf_add_str(&want, "the end");
    CHECK_INT(t, w.server->ops->unwritten(w.server, s->stream), 70000 - 65535 + 7);
    nghttp2_session_mem_recv(w.client, out.data, out.len);
    CHECK(t, world_pump(&w));
    CHECK(t, bytes_equal(buf_bytes(&s->reply_body), buf_bytes(&want)));
    CHECK_INT(t, s->done, 1);
    world_done(&w);
}

/* What an owner should not do, and might: nothing leaks, and the first reply stands. */
static void takes_one_reply_for_each_stream(struct test *t)
{
    struct world w;

    world_open(&w, NULL);
    w.answer = NULL;
    int32_t id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    add_part(&w, s->stream, "before its head", false);
    answer_hello(&w, s->stream);
    answer_hello(&w, s->stream);
    struct http_reply more = {0};
    buf_add_str(&more.body, "more");
    http_reply_trailer(&more, "x", BYTES("y"));
    w.server->ops->reply_more(w.server, s->stream, &more.body, true, &more.trailers);
    CHECK_INT(t, more.body.len + more.trailers.len, 0);
    CHECK(t, world_pump(&w));
    CHECK_STR(t, buf_cstr(&s->reply_body), "hello");
    CHECK_INT(t, s->done, 1);
    world_done(&w);
}

static void resets_a_stream_whose_reply_has_too_large_a_head(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf value = {0};

    world_open(&w, NULL);
    w.answer = answer_next;
    while (value.len < 100000)
        buf_add_byte(&value, 'v');
    http_reply_header(&w.next_reply, "x", buf_bytes(&value));
    int32_t id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->status, 0);
    CHECK_INT(t, s->close_code, NGHTTP2_INTERNAL_ERROR);
    CHECK_INT(t, s->ends, 1);
    CHECK_INT(t, s->done, 0);
    world_done(&w);
}

static void gives_output_in_pieces_of_about_the_size_asked_for(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf out = {0};
    size_t most = 0, rounds = 0;

    world_open(&w, NULL);
    nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 4 * MIB};
    nghttp2_submit_settings(w.client, NGHTTP2_FLAG_NONE, &window, 1);
    nghttp2_session_set_local_window_size(w.client, NGHTTP2_FLAG_NONE, 0, 4 * MIB);
    w.answer = answer_next;
    many_bytes(&w.next_reply.body, MIB);
    world_pump(&w);
    int32_t id = world_request(&w, "GET", "/", NULL, NULL);
    const uint8_t *data;
    ssize_t n = nghttp2_session_mem_send(w.client, &data);
    CHECK(t, w.server->ops->feed(w.server, (struct bytes){data, (size_t)n}));
    do {
        buf_clear(&out);
        w.server->ops->take_output(w.server, &out, 30000);
        if (out.len > most)
            most = out.len;
        rounds += out.len > 0;
        if (out.len > 0)
            nghttp2_session_mem_recv(w.client, out.data, out.len);
    } while (out.len > 0);
    CHECK(t, most <= 30000 + 16384 + 9);
    CHECK(t, rounds > 20);
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->reply_body.len, MIB);
    CHECK_INT(t, s->done, 1);
    world_done(&w);
}

static void breaks_a_stream_off_when_its_owner_says_so(struct test *t)
{
    struct world w;
    struct http_reply reply = {0};

    world_open(&w, NULL);
    w.answer = NULL;
    int32_t id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    buf_add_str(&reply.body, "half of");
    w.server->ops->reply(w.server, s->stream, &reply, false);
    CHECK(t, world_pump(&w));
    w.server->ops->reset(w.server, s->stream);
    CHECK(t, world_pump(&w));
    CHECK(t, s->is_closed);
    CHECK_INT(t, s->close_code, NGHTTP2_INTERNAL_ERROR);
    CHECK_INT(t, s->ends, 1);
    CHECK_INT(t, s->done, 0);
    CHECK(t, !w.server->failure);
    world_done(&w);
}

static void tells_of_the_end_of_open_streams_when_freed(struct test *t)
{
    struct world w;

    world_open(&w, NULL);
    w.answer = NULL;
    for (int i = 0; i < 3; i++)
        world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, w.server->n_streams, 3);
    CHECK_INT(t, w.server->held,
              3 * strlen("GET"
                         "/"
                         "host.example:4040"));
    w.server->ops->free(w.server);
    w.server = NULL;
    for (uint64_t id = 1; id <= 5; id += 2) {
        CHECK_INT(t, world_seen(&w, id)->ends, 1);
        CHECK_INT(t, world_seen(&w, id)->done, 0);
    }
    world_done(&w);
}

static void drains_without_losing_a_request(struct test *t)
{
    struct world w;

    world_open(&w, NULL);
    w.answer = NULL;
    int32_t first = world_request(&w, "GET", "/1", NULL, NULL);
    CHECK(t, world_pump(&w));
    w.server->ops->drain(w.server);
    w.server->ops->drain(w.server);
    /* A request that was on its way when the server began. */
    int32_t second = world_request(&w, "GET", "/2", NULL, NULL);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, w.goaways, 2);
    CHECK_INT(t, w.goaway_code, NGHTTP2_NO_ERROR);
    CHECK_INT(t, w.goaway_last, second);
    CHECK(t, !w.server->is_closing);
    answer_hello(&w, world_seen(&w, (uint64_t)first)->stream);
    answer_hello(&w, world_seen(&w, (uint64_t)second)->stream);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, world_seen(&w, (uint64_t)first)->done, 1);
    CHECK_INT(t, world_seen(&w, (uint64_t)second)->done, 1);
    CHECK(t, w.server->is_closing);
    CHECK(t, !w.server->failure);
    world_done(&w);
}

static void ends_the_connection_behind_a_reply_that_says_so(struct test *t)
{
    struct world w;

    world_open(&w, NULL);
    w.answer = answer_next;
    w.next_reply.closes = true;
    int32_t id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, world_seen(&w, (uint64_t)id)->done, 1);
    CHECK_INT(t, w.goaways, 1);
    CHECK_INT(t, w.goaway_code, NGHTTP2_NO_ERROR);
    CHECK(t, w.server->is_closing);
    world_done(&w);
}

static void goes_on_from_an_upgrade_with_the_request_as_stream_1(struct test *t)
{
    struct world w = {.answer = answer_hello};
    struct http_header headers[] = {
        {BYTES("host"), BYTES("h:1")},      {BYTES("connection"), BYTES("upgrade, http2-settings")},
        {BYTES("upgrade"), BYTES("h2c")},   {BYTES("http2-settings"), BYTES("AAMAAABkAAQAoAAA")},
        {BYTES("accept"), BYTES("text/*")},
    };
    struct http_request request = {.method = BYTES("GET"),
                                   .path = BYTES("/p"),
                                   .query = BYTES("q=1"),
                                   .authority = BYTES("h:1"),
                                   .headers = headers,
                                   .n_headers = ARRAY_SIZE(headers),
                                   .body_file = -1};
    struct http_events events = world_events(&w);
    CLEANUP(buf_done) struct buf settings = {0};

    w.server = http2_session_upgrade(&events, NULL, &request, BYTES("AAMAAABkAAQAoAAA"));
    world_client(&w);
    CHECK(t, base64_decode(BYTES("AAMAAABkAAQAoAAA"), &settings));
    CHECK_INT(t, nghttp2_session_upgrade2(w.client, settings.data, settings.len, 0, NULL), 0);
    nghttp2_submit_settings(w.client, NGHTTP2_FLAG_NONE, NULL, 0);
    CHECK_INT(t, w.seen[0].heads, 0);
    int32_t id = world_request(&w, "GET", "/next", NULL, NULL);
    CHECK_INT(t, id, 3);
    CHECK(t, world_pump(&w));
    CHECK_STR(t, w.seen[0].request, "GET /p?q=1 h:1");
    CHECK_STR(t, buf_cstr(&w.seen[0].headers), "host: h:1\naccept: text/*\n");
    CHECK_STR(t, buf_cstr(&w.seen[0].reply_body), "hello");
    CHECK_INT(t, w.seen[0].completes, 1);
    CHECK_INT(t, w.seen[0].done, 1);
    CHECK_INT(t, w.seen[1].done, 1);
    world_done(&w);
}

static void refuses_an_upgrade_with_settings_that_are_not_sound(struct test *t)
{
    struct world w = {0};
    struct http_events events = world_events(&w);
    struct http_request request = {.method = BYTES("GET"), .path = BYTES("/"), .body_file = -1};
    static const char *const bad[] = {"***", "AAMAAABkAA"};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK(t, !http2_session_upgrade(&events, NULL, &request, bytes_of(bad[i])));
    CHECK_INT(t, w.seen[0].heads + w.seen[0].ends, 0);
}

static void knows_the_preface(struct test *t)
{
    CHECK_INT(t, http2_is_preface(BYTES("")), -1);
    CHECK_INT(t, http2_is_preface(BYTES("PRI * HT")), -1);
    CHECK_INT(t, http2_is_preface(BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), 1);
    CHECK_INT(t, http2_is_preface(BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore")), 1);
    CHECK_INT(t, http2_is_preface(BYTES("PRI * HTTP/1")), 0);
    CHECK_INT(t, http2_is_preface(BYTES("POST /")), 0);
}

static void asks_for_the_body_when_the_client_waits_to_be_asked(struct test *t)
{
    struct world w;
    const char *more[] = {"expect", "100-continue", NULL};
    struct bytes body = BYTES("body");

    world_open(&w, NULL);
    int32_t id = world_request(&w, "POST", "/", more, &body);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, world_seen(&w, (uint64_t)id)->informational, 100);
    CHECK_INT(t, world_seen(&w, (uint64_t)id)->status, 200);
    world_done(&w);
}

/* ---- heads that are refused ---- */

static void check_refused(struct test *t, const char *method, const char *path,
                          const char *const *more, int status, const char *text)
{
    struct world w;
    CLEANUP(buf_done) struct buf data = {0};
    struct bytes body = many_bytes(&data, 3 * MIB);

    world_open(&w, NULL);
    world_pump(&w);
    int32_t id = world_request(&w, method, path, more, &body);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->status, status);
    CHECK(t, strstr(buf_cstr(&s->reply_body), text));
    CHECK_INT(t, s->close_code, NGHTTP2_NO_ERROR);
    CHECK_INT(t, s->heads + s->completes + s->ends, 0);
    /* Nobody else is disturbed. */
    id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, world_seen(&w, (uint64_t)id)->status, 200);
    world_done(&w);
}

static void refuses_too_many_fields(struct test *t)
{
    const char *more[2 * 129 + 1] = {0};

    for (size_t i = 0; i < 129; i++) {
        more[2 * i] = "x";
        more[2 * i + 1] = "y";
    }
    check_refused(t, "POST", "/", more, 431, "128 fields, 65536 bytes");
}

static void refuses_a_head_that_is_too_large(struct test *t)
{
    static char value[30000];
    const char *more[] = {"a", value, "b", value, "c", value, NULL};

    memset(value, '{', sizeof(value) - 1); /* has a long code, so that it is not packed */
    check_refused(t, "POST", "/", more, 431, "65536 bytes");
}

static void refuses_a_target_that_is_too_long(struct test *t)
{
    static char path[(16 << 10) + 2];

    memset(path, 'p', sizeof(path) - 1);
    path[0] = '/';
    check_refused(t, "POST", path, NULL, 414, "16384 bytes");
}

static void refuses_two_different_hosts(struct test *t)
{
    const char *more[] = {"host", "other.example", NULL};

    check_refused(t, "POST", "/", more, 400, "not the same");
}

static void refuses_connect_and_takes_host_for_authority(struct test *t)
{
    struct world w;
    nghttp2_nv connect[] = {world_nv(":method", "CONNECT"), world_nv(":authority", "a:1")};
    nghttp2_nv get[] = {world_nv(":method", "GET"), world_nv(":scheme", "http"),
                        world_nv(":path", "/"), world_nv("host", "b:2")};

    world_open(&w, NULL);
    int32_t first = nghttp2_submit_request(w.client, NULL, connect, 2, NULL, NULL);
    int32_t second = nghttp2_submit_request(w.client, NULL, get, 4, NULL, NULL);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, world_seen(&w, (uint64_t)first)->status, 501);
    CHECK_INT(t, world_seen(&w, (uint64_t)first)->heads, 0);
    CHECK_STR(t, world_seen(&w, (uint64_t)second)->request, "GET / b:2");
    world_done(&w);
}

static void drains_without_waiting_for_bodies_that_nobody_wants(struct test *t)
{
    struct world w;
    nghttp2_data_provider never = {.read_callback = read_never};
    nghttp2_nv head[] = {world_nv(":method", "POST"), world_nv(":scheme", "http"),
                         world_nv(":authority", "a"), world_nv(":path", "/")};

    world_open(&w, NULL);
    w.refuses_bodies = true;
    nghttp2_submit_request(w.client, NULL, head, ARRAY_SIZE(head), &never, NULL);
    CHECK(t, world_pump(&w));
    CHECK(t, !world_seen(&w, 1)->is_closed);
    w.server->ops->drain(w.server);
    CHECK(t, world_pump(&w));
    CHECK(t, world_seen(&w, 1)->is_closed);
    CHECK(t, w.server->is_closing);
    world_done(&w);
}

/* Streams that break the rules: reset, and nobody is told that they are complete. */
static void check_reset(struct test *t, const char *method, const char *path,
                        const char *const *more, struct bytes *body)
{
    struct world w;

    world_open(&w, NULL);
    int32_t id = world_request(&w, method, path, more, body);
    CHECK(t, world_pump(&w));
    struct seen *s = world_seen(&w, (uint64_t)id);
    CHECK_INT(t, s->status, 0);
    CHECK(t, s->is_closed);
    CHECK_INT(t, s->close_code, NGHTTP2_PROTOCOL_ERROR);
    CHECK_INT(t, s->completes, 0);
    CHECK_INT(t, s->ends, s->heads);
    id = world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, world_seen(&w, (uint64_t)id)->status, 200);
    world_done(&w);
}

static void resets_streams_with_fields_that_are_not_sound(struct test *t)
{
    static const char *const fields[][3] = {
        {"Upper-Case", "x"},
        {"connection", "close"},
        {"keep-alive", "1"},
        {"upgrade", "h2c"},
        {"te", "gzip"},
        {"transfer-encoding", "chunked"},
        {"x-control", "a\x01z"},
        {"x-line", "a\r\nb: c"},
        {":unknown", "x"},
        {"bad name", "x"},
        {"", "x"},
        {"content-length", "1x"},
        {"proxy-connection", ""},
        {"x-trail", "space "},
        {":method", "GET"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        check_reset(t, "GET", "/", fields[i], NULL);
    check_reset(t, "GET", "", NULL, NULL);
    check_reset(t, "GET", "no-slash", NULL, NULL);
}

static void resets_streams_whose_length_is_not_what_was_said(struct test *t)
{
    const char *longer[] = {"content-length", "5", NULL},
               *shorter[] = {"content-length", "3", NULL};
    const char *two[] = {"content-length", "4", "content-length", "5", NULL};
    struct bytes body = BYTES("four");

    check_reset(t, "POST", "/", longer, &body);
    body = BYTES("four");
    check_reset(t, "POST", "/", shorter, &body);
    body = BYTES("four");
    check_reset(t, "POST", "/", two, &body);
}

static void refuses_more_streams_than_the_limit(struct test *t)
{
    struct world w;
    struct http_session_limits limits = {.streams_max = 2};

    world_open(&w, &limits);
    w.answer = NULL;
    for (int i = 0; i < 3; i++)
        world_request(&w, "GET", "/", NULL, NULL);
    CHECK(t, world_pump(&w));
    CHECK_INT(t, w.server->n_streams, 2);
    CHECK_INT(t, world_seen(&w, 5)->heads, 0);
    world_done(&w);
}

static const struct test_case cases[] = {
    TEST(tells_of_a_request_and_answers_it),
    TEST(hands_a_body_over_and_opens_the_windows_again),
    TEST(keeps_a_window_shut_until_the_body_was_dealt_with),
    TEST(returns_the_connections_window_of_streams_that_end_early),
    TEST(drops_a_body_that_is_not_wanted),
    TEST(resets_a_stream_whose_unwanted_body_does_not_end),
    TEST(waits_for_few_streams_whose_bodies_are_not_wanted),
    TEST(writes_trailers_behind_the_body),
    TEST(writes_a_reply_that_is_only_a_head),
    TEST(writes_no_body_where_there_must_be_none),
    TEST(streams_a_reply_in_parts),
    TEST(streams_much_more_than_a_window),
    TEST(moves_what_is_left_of_a_streamed_reply),
    TEST(takes_one_reply_for_each_stream),
    TEST(resets_a_stream_whose_reply_has_too_large_a_head),
    TEST(gives_output_in_pieces_of_about_the_size_asked_for),
    TEST(breaks_a_stream_off_when_its_owner_says_so),
    TEST(tells_of_the_end_of_open_streams_when_freed),
    TEST(drains_without_losing_a_request),
    TEST(ends_the_connection_behind_a_reply_that_says_so),
    TEST(goes_on_from_an_upgrade_with_the_request_as_stream_1),
    TEST(refuses_an_upgrade_with_settings_that_are_not_sound),
    TEST(knows_the_preface),
    TEST(asks_for_the_body_when_the_client_waits_to_be_asked),
    TEST(refuses_too_many_fields),
    TEST(refuses_a_head_that_is_too_large),
    TEST(refuses_a_target_that_is_too_long),
    TEST(refuses_two_different_hosts),
    TEST(refuses_connect_and_takes_host_for_authority),
    TEST(drains_without_waiting_for_bodies_that_nobody_wants),
    TEST(resets_streams_with_fields_that_are_not_sound),
    TEST(resets_streams_whose_length_is_not_what_was_said),
    TEST(refuses_more_streams_than_the_limit),
};
TEST_MAIN(cases)
