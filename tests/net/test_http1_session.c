#include "base/cleanup.h"
#include "base/must.h"
#include "lib/test.h"
#include "net/http_session.h"

/* A service that writes down what it is told and answers "ok" to every complete request. */
struct record {
    struct buf told, output;
    struct http_session *session;
    struct http_stream *stream;
    bool answers_late, refuses_heads, answers_body;
    struct http_reply reply; /* instead of "ok" when it has a status */
};

static void answer(struct record *r, struct http_stream *stream, int status)
{
    struct http_reply reply = r->reply;

    r->reply = (struct http_reply){0};
    if (reply.status == 0) {
        reply.status = status;
        buf_add_str(&reply.body, "ok");
    }
    stream->session->ops->reply(stream->session, stream, &reply, true);
}

static bool on_head(void *ctx, struct http_stream *stream)
{
    struct record *r = ctx;
    const struct http_request *q = &stream->request;

    r->stream = stream;
    buf_add_bytes(&r->told, q->method);
    buf_add_byte(&r->told, ' ');
    buf_add_bytes(&r->told, q->path);
    buf_add_str(&r->told, "?");
    buf_add_bytes(&r->told, q->query);
    buf_add_str(&r->told, " @");
    buf_add_bytes(&r->told, q->authority);
    for (size_t i = 0; i < q->n_headers; i++) {
        buf_add_str(&r->told, " {");
        buf_add_bytes(&r->told, q->headers[i].name);
        buf_add_str(&r->told, "=");
        buf_add_bytes(&r->told, q->headers[i].value);
        buf_add_str(&r->told, "}");
    }
    buf_add_str(&r->told, " [");
    if (r->refuses_heads)
        answer(r, stream, 403);
    return !r->refuses_heads;
}

static void on_body(void *ctx, struct http_stream *stream, struct bytes part)
{
    struct record *r = ctx;

    if (r->answers_body) {
        r->answers_body = false;
        answer(r, stream, 413);
    }
    buf_add_bytes(&r->told, part);
}

static void on_complete(void *ctx, struct http_stream *stream)
{
    struct record *r = ctx;

    buf_add_str(&r->told, "] complete");
    if (!r->answers_late)
        answer(r, stream, 200);
}

static void on_end(void *ctx, struct http_stream *stream, bool is_done)
{
    struct record *r = ctx;

    (void)stream;
    r->stream = NULL;
    buf_add_str(&r->told, is_done ? " done\n" : " broken off\n");
}

static void record_begin(struct record *r, bool offers_h2c)
{
    struct http_events events = {on_head, on_body, on_complete, on_end, r};
    struct http_session_limits limits = {.offers_h2c = offers_h2c};

    r->session = http1_session_new(&events, &limits);
}

static void record_done(struct record *r)
{
    if (r->session)
        r->session->ops->free(r->session);
    buf_done(&r->told);
    buf_done(&r->output);
    http_reply_done(&r->reply);
}

static void feed(struct record *r, struct bytes in)
{
    (void)r->session->ops->feed(r->session, in);
    r->session->ops->take_output(r->session, &r->output, 1 << 20);
}

static void feed_str(struct record *r, const char *text)
{
    feed(r, bytes_of(text));
}

/* Feeds it in pieces of so many bytes (0: whole). */
static void feed_cut(struct record *r, struct bytes in, size_t piece)
{
    while (in.len > 0) {
        size_t n = piece && piece < in.len ? piece : in.len;
        feed(r, bytes_head(in, n));
        in = bytes_from(in, n);
    }
}

/* The statuses of all answers: "200 400". */
static const char *statuses(const struct record *r, char to[64])
{
    struct bytes rest = buf_bytes(&r->output);
    const uint8_t *at;
    size_t n = 0;

    to[0] = '\0';
    while (n < 48 && (at = bytes_find(rest, BYTES("HTTP/1.1 ")))) {
        rest = bytes_from(rest, (size_t)(at - rest.data) + 9);
        n += (size_t)snprintf(to + n, 64 - n, "%s%.3s", n ? " " : "", (const char *)rest.data);
    }
    return to;
}

#define HOST "host: a\r\n"
#define GET  "GET / HTTP/1.1\r\n" HOST
#define POST "POST /p HTTP/1.1\r\n" HOST

struct vector {
    const char *text;
    const char *statuses;
    const char *failure; /* a part of it; NULL: none */
};

static void check_vector(struct test *t, const struct vector *v, size_t len)
{
    struct bytes in = {(const uint8_t *)v->text, len ? len : strlen(v->text)};
    static const size_t pieces[] = {0, 1, 2, 7};
    struct buf first = {0};
    char got[64];

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        struct record r = {0};
        record_begin(&r, false);
        feed_cut(&r, in, pieces[i]);
        CHECK_STR(t, statuses(&r, got), v->statuses);
        CHECK(t, (v->failure != NULL) == (r.session->failure != NULL));
        if (v->failure && (!r.session->failure || !strstr(r.session->failure, v->failure)))
            CHECK_STR(t, r.session->failure, v->failure);
        CHECK(t, v->failure == NULL || r.session->is_closing);
        if (t->failures)
            printf("# in %s\n", v->text);
        if (i == 0)
            buf_add_bytes(&first, buf_bytes(&r.told));
        CHECK_STR(t, buf_cstr(&r.told), buf_cstr(&first));
        record_done(&r);
    }
    buf_done(&first);
}

static void refuses_what_two_readers_could_read_differently(struct test *t)
{
    static const struct vector vectors[] = {
        /* lengths */
        {POST "content-length: 3\r\ncontent-length: 4\r\n\r\nabcd", "400", "given twice"},
        {POST "content-length: 3\r\ncontent-length: 3\r\n\r\nabc", "400", "given twice"},
        {POST "content-length: 3, 3\r\n\r\nabc", "400", "not a number"},
        {POST "content-length: +3\r\n\r\nabc", "400", "not a number"},
        {POST "content-length: -1\r\n\r\n", "400", "not a number"},
        {POST "content-length: 0x3\r\n\r\nabc", "400", "not a number"},
        {POST "content-length: 3 3\r\n\r\nabc", "400", "not a number"},
        {POST "content-length:\r\n\r\n", "400", "not a number"},
        {POST "content-length: 9999999999999999999\r\n\r\n", "400", "not a number"},
        {POST "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "400", "both"},
        {POST "transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n", "400", "both"},
        /* transfer codings */
        {POST "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "400",
         "twice"},
        {POST "transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "400", "end in chunked"},
        {POST "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400", "end in chunked"},
        {POST "transfer-encoding: identity\r\n\r\n", "400", "end in chunked"},
        {POST "transfer-encoding: xchunked\r\n\r\n", "400", "end in chunked"},
        {POST "transfer-encoding: \"chunked\"\r\n\r\n", "400", "end in chunked"},
        {POST "transfer-encoding: chunked;q=1\r\n\r\n", "400", "end in chunked"},
        {POST "transfer-encoding:\r\n\r\n", "400", "end in chunked"},
        {POST "transfer-encoding: \x0b chunked\r\n\r\n", "400", "control character"},
        {POST "transfer-encoding: gzip, chunked\r\n\r\n", "501", "no transfer-encoding but"},
        {"POST / HTTP/1.0\r\n" HOST "transfer-encoding: chunked\r\n\r\n", "400", "HTTP/1.0"},
        /* line ends */
        {"GET / HTTP/1.1\nhost: a\n\n", "400", "CR LF"},
        {"GET / HTTP/1.1\r\nhost: a\n\r\n", "400", "CR LF"},
        {GET "\n", "400", "CR LF"},
        {GET "a: b\rc: d\r\n\r\n", "400", "CR or NUL"},
        {GET "a: b\r\r\n\r\n", "400", "CR or NUL"},
        {"GET / HTTP/1.1\r\r\n" HOST "\r\n", "400", "CR or NUL"},
        {"\r\n\r\n" GET "\r\n", "400", "empty lines"},
        {"\n" GET "\r\n", "400", "CR LF"},
        /* headers */
        {GET " a: b\r\n\r\n", "400", "folded"},
        {GET "a: b\r\n c\r\n\r\n", "400", "folded"},
        {GET "a: b\r\n\tc\r\n\r\n", "400", "folded"},
        {GET "a : b\r\n\r\n", "400", "name"},
        {GET "content-length : 3\r\n\r\nabc", "400", "name"},
        {GET "a\t: b\r\n\r\n", "400", "name"},
        {GET ": b\r\n\r\n", "400", "no name"},
        {GET "a\r\n\r\n", "400", "no name"},
        {GET "a(b): c\r\n\r\n", "400", "name"},
        {GET "\x80: c\r\n\r\n", "400", "name"},
        {GET "a: \x01\r\n\r\n", "400", "control"},
        {GET "a: \x7f\r\n\r\n", "400", "control"},
        /* host */
        {"GET / HTTP/1.1\r\n\r\n", "400", "host is missing"},
        {GET HOST "\r\n", "400", "host is given twice"},
        {"GET / HTTP/1.1\r\nhost: a b\r\n\r\n", "400", "host"},
        {"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", "400", "host"},
        {"GET / HTTP/1.1\r\nhost: u@b\r\n\r\n", "400", "host"},
        {"GET / HTTP/1.1\r\nhost: a, b\r\n\r\n", "400", "host"},
        {"GET http://a/ HTTP/1.1\r\nhost: b\r\n\r\n", "400", "not that of the target"},
        /* the request line */
        {"GET /\r\n" HOST "\r\n", "400", "request line"},
        {"GET\r\n" HOST "\r\n", "400", "request line"},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", "400", "target"},
        {"GET / a HTTP/1.1\r\n" HOST "\r\n", "400", "target"},
        {"GET /\tHTTP/1.1\r\n" HOST "\r\n", "400", "request line"},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", "400", "target"},
        {" GET / HTTP/1.1\r\n" HOST "\r\n", "400", "method"},
        {"GE(T / HTTP/1.1\r\n" HOST "\r\n", "400", "method"},
        {"GET x HTTP/1.1\r\n" HOST "\r\n", "400", "neither a path nor a URL"},
        {"GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n", "400", "neither"},
        {"GET http:///x HTTP/1.1\r\n" HOST "\r\n", "400", "neither"},
        {"GET http://u@a/ HTTP/1.1\r\n" HOST "\r\n", "400", "neither"},
        {"GET /#x HTTP/1.1\r\n" HOST "\r\n", "400", "target"},
        {"GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", "400", "target"},
        {"GET * HTTP/1.1\r\n" HOST "\r\n", "400", "neither"},
        {"CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", "501", "CONNECT"},
        {"GET / HTTP/1.2\r\n" HOST "\r\n", "505", "version"},
        {"GET / HTTP/3.0\r\n" HOST "\r\n", "505", "version"},
        {"GET / http/1.1\r\n" HOST "\r\n", "400", "version"},
        {"GET / HTTP/1.10\r\n" HOST "\r\n", "400", "version"},
        {"GET / HTTP/11\r\n" HOST "\r\n", "400", "version"},
        {GET "expect: the unexpected\r\n\r\n", "417", "100-continue"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
        check_vector(t, &vectors[i], 0);
}

static void refuses_bad_chunks(struct test *t)
{
#define CHUNKS POST "transfer-encoding: chunked\r\n\r\n"
    static const struct vector vectors[] = {
        {CHUNKS "\r\n", "400", "readable size"},
        {CHUNKS "g\r\n", "400", "readable size"},
        {CHUNKS "0x3\r\nabc\r\n0\r\n\r\n", "400", "readable size"},
        {CHUNKS "+3\r\nabc\r\n0\r\n\r\n", "400", "readable size"},
        {CHUNKS "-3\r\nabc\r\n0\r\n\r\n", "400", "readable size"},
        {CHUNKS " 3\r\nabc\r\n0\r\n\r\n", "400", "readable size"},
        {CHUNKS "3 \r\nabc\r\n0\r\n\r\n", "400", "readable size"},
        {CHUNKS ";a\r\nabc\r\n0\r\n\r\n", "400", "readable size"},
        {CHUNKS "10000000000000003\r\nabc\r\n0\r\n\r\n", "400", "readable size"},
        {CHUNKS "3\nabc\r\n0\r\n\r\n", "400", "CR LF"},
        {CHUNKS "3\r\rabc\r\n0\r\n\r\n", "400", "CR LF"},
        {CHUNKS "3;a\rb\r\nabc\r\n0\r\n\r\n", "400", "CR LF"},
        {CHUNKS "3;a\x01\r\nabc\r\n0\r\n\r\n", "400", "readable size"},
        {CHUNKS "3\r\nabcd\r\n0\r\n\r\n", "400", "longer than its size"},
        {CHUNKS "3\r\nabcde\r\n0\r\n\r\n", "400", "longer than its size"},
        {CHUNKS "3\r\nab\r\n0\r\n\r\n", "400", ""},
        {CHUNKS "3\r\nabc\n0\r\n\r\n", "400", ""},
        {CHUNKS "0\r\n\n", "400", "CR LF"},
        {CHUNKS "0\r\ncontent-length: 5\r\n\r\n", "400", "only headers"},
        {CHUNKS "0\r\nTransfer-Encoding: chunked\r\n\r\n", "400", "only headers"},
        {CHUNKS "0\r\nhost: b\r\n\r\n", "400", "only headers"},
        {CHUNKS "0\r\nauthorization: b\r\n\r\n", "400", "only headers"},
        {CHUNKS "0\r\na : b\r\n\r\n", "400", "name"},
        {CHUNKS "0\r\n a: b\r\n\r\n", "400", "folded"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
        check_vector(t, &vectors[i], 0);
}

static void takes_what_is_well_formed(struct test *t)
{
    static const struct vector vectors[] = {
        {GET "\r\n", "200", NULL},
        {"\r\n" GET "\r\n", "200", NULL},
        {"GET / HTTP/1.0\r\n\r\n", "200", NULL},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "200", NULL},
        {"GET http://a/x?y HTTP/1.1\r\n" HOST "\r\n", "200", NULL},
        {"GET HTTPS://A?y HTTP/1.1\r\n" HOST "\r\n", "200", NULL},
        {"GET /?q=cpu{a=\"b\"}|x HTTP/1.1\r\n" HOST "\r\n", "200", NULL},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "200", NULL},
        {"GET / HTTP/1.1\r\nHOST: [::1]:80\r\n\r\n", "200", NULL},
        {GET "a:\t b c \t\r\nx:\r\ny: \xff\r\n\r\n", "200", NULL},
        {POST "content-length: 3\r\n\r\nabc", "200", NULL},
        {POST "content-length: 0\r\n\r\n" GET "\r\n", "200 200", NULL},
        {CHUNKS "3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n" GET "\r\n", "200 200", NULL},
        {CHUNKS "3\r\nabc\r\n0\r\nx-checksum: 5\r\n\r\n" GET "\r\n", "200 200", NULL},
        {POST "Transfer-Encoding:  CHUNKED \r\n\r\n0\r\n\r\n", "200", NULL},
        {GET "\r\n" GET "\r\n" GET "\r\n" GET "x\r\n\r\n", "200 200 200 400", "no name"},
        {GET "connection: close\r\n\r\n" GET "\r\n", "200", NULL},
        {"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n" GET "\r\n", "200", NULL},
        {GET "upgrade: h2c\r\nconnection: upgrade\r\n\r\n", "200", NULL},
        {POST "expect: 100-continue\r\ncontent-length: 3\r\n\r\nabc", "100 200", NULL},
        {POST "expect: 100-Continue\r\ncontent-length: 0\r\n\r\n", "200", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(vectors); i++)
        check_vector(t, &vectors[i], 0);
}

static void refuses_nul_everywhere(struct test *t)
{
    static const char in_value[] = GET "a: b\0c\r\n\r\n";
    static const char in_name[] = GET "a\0: b\r\n\r\n";
    static const char in_target[] = "GET /\0 HTTP/1.1\r\n" HOST "\r\n";
    static const char in_chunk[] = CHUNKS "3\0\r\nabc\r\n0\r\n\r\n";

    check_vector(t, &(struct vector){in_value, "400", "NUL"}, sizeof(in_value) - 1);
    check_vector(t, &(struct vector){in_name, "400", "NUL"}, sizeof(in_name) - 1);
    check_vector(t, &(struct vector){in_target, "400", "NUL"}, sizeof(in_target) - 1);
    check_vector(t, &(struct vector){in_chunk, "400", "size"}, sizeof(in_chunk) - 1);
}

static void check_long(struct test *t, const char *before, size_t n, const char *behind,
                       const char *want)
{
    struct buf text = {0};

    buf_add_str(&text, before);
    for (size_t i = 0; i < n; i++)
        buf_add_byte(&text, 'a');
    buf_add_str(&text, behind);
    for (size_t piece = 0; piece < 1000; piece += 333) {
        struct record r = {0};
        char got[64];
        record_begin(&r, false);
        feed_cut(&r, buf_bytes(&text), piece);
        CHECK_STR(t, statuses(&r, got), want);
        CHECK(t, r.session->held < 200000);
        record_done(&r);
    }
    buf_done(&text);
}

static void limits_bite_before_a_line_is_complete(struct test *t)
{
    check_long(t, "GET /", HTTP_TARGET_MAX - 1, " HTTP/1.1\r\n" HOST "\r\n", "200");
    check_long(t, "GET /", HTTP_TARGET_MAX, " HTTP/1.1\r\n" HOST "\r\n", "414");
    check_long(t, "GET /", 1 << 20, "", "414");
    check_long(t, "", 1 << 20, "", "414");
    check_long(t, "", 33, " / HTTP/1.1\r\n" HOST "\r\n", "400");
    check_long(t, GET "x: ", 60000, "\r\n\r\n", "200");
    check_long(t, GET "x: ", HTTP_HEADER_BYTES_MAX, "", "431");
    check_long(t, GET, HTTP_HEADER_BYTES_MAX, "", "431");
    check_long(t, CHUNKS "3;", 250, "\r\nabc\r\n0\r\n\r\n", "200");
    check_long(t, CHUNKS "3;", 300, "", "400");
    check_long(t, CHUNKS "0\r\nx: ", HTTP_HEADER_BYTES_MAX, "", "431");
}

static void counts_headers_and_trailers(struct test *t)
{
    for (int n = 126; n < 130; n++) {
        struct record r = {0};
        struct buf text = {0};
        char got[64];
        record_begin(&r, false);
        buf_add_str(&text, GET);
        for (int i = 0; i < n; i++)
            buf_add_str(&text, "a: b\r\n");
        buf_add_str(&text, "\r\n");
        feed(&r, buf_bytes(&text));
        CHECK_STR(t, statuses(&r, got), n < HTTP_HEADERS_MAX ? "200" : "431");
        buf_done(&text);
        record_done(&r);
    }
    struct record r = {0};
    char got[64];
    record_begin(&r, false);
    feed_str(&r, CHUNKS "0\r\n");
    for (int i = 0; i < 130; i++)
        feed_str(&r, "a: b\r\n");
    CHECK_STR(t, statuses(&r, got), "431");
    record_done(&r);
}

static void tells_what_the_request_said(struct test *t)
{
    struct record r = {0};

    record_begin(&r, false);
    feed_str(&r,
             "POST /a%20b/?x=1&y HTTP/1.1\r\nHost: h:1\r\nX-Y: Z \r\nContent-Length: 3\r\n\r\nabc");
    CHECK_STR(
        t, buf_cstr(&r.told),
        "POST /a%20b/?x=1&y @h:1 {host=h:1} {x-y=Z} {content-length=3} [abc] complete done\n");
    buf_clear(&r.told);
    feed_str(&r, "GET http://h?z HTTP/1.1\r\nhost: h\r\n\r\n");
    CHECK_STR(t, buf_cstr(&r.told), "GET /?z @h {host=h} [] complete done\n");
    buf_clear(&r.told);
    feed_str(&r, CHUNKS "3\r\nabc\r\n2\r\nde\r\n0\r\nx: y\r\n\r\n");
    CHECK(t, strstr(buf_cstr(&r.told), "[abcde] complete done"));
    record_done(&r);
}

/* The output without the date, which nobody can foresee. */
static const char *without_date(struct record *r)
{
    char *text = (char *)(uintptr_t)buf_cstr(&r->output);
    char *date = strstr(text, "date: ");

    if (date) {
        char *end = strstr(date, "\r\n") + 2;
        memmove(date, end, strlen(end) + 1);
    }
    return text;
}

static void answers_head_without_a_body(struct test *t)
{
    struct record r = {0};

    record_begin(&r, false);
    feed_str(&r, "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    CHECK_STR(t, without_date(&r), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
    buf_clear(&r.output);
    r.reply.status = 304;
    http_reply_header(&r.reply, "etag", BYTES("x"));
    feed_str(&r, GET "\r\n");
    CHECK_STR(t, without_date(&r), "HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n");
    record_done(&r);
}

static void writes_no_header_that_would_split_the_answer(struct test *t)
{
    struct record r = {0};

    record_begin(&r, false);
    r.reply.status = 200;
    http_reply_header(&r.reply, "x", BYTES("a\r\nset-cookie: b"));
    http_reply_header(&r.reply, "x y", BYTES("a"));
    http_reply_header(&r.reply, "X", BYTES("a"));
    http_reply_header(&r.reply, "content-length", BYTES("100"));
    http_reply_headerf(&r.reply, "y", "%d", 5);
    feed_str(&r, GET "\r\n");
    CHECK_STR(t, without_date(&r), "HTTP/1.1 200 OK\r\ny: 5\r\ncontent-length: 0\r\n\r\n");
    record_done(&r);
}

static void writes_trailers_for_those_who_take_them(struct test *t)
{
    struct record r = {0};

    record_begin(&r, false);
    r.reply.status = 200;
    buf_add_str(&r.reply.body, "abc");
    http_reply_trailer(&r.reply, "grpc-status", BYTES("0"));
    feed_str(&r, GET "te: trailers\r\n\r\n");
    CHECK_STR(t, without_date(&r),
              "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
              "grpc-status: 0\r\n\r\n");
    buf_clear(&r.output);
    r.reply.status = 200;
    http_reply_trailer(&r.reply, "grpc-status", BYTES("0"));
    feed_str(&r, GET "\r\n");
    CHECK_STR(t, without_date(&r), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    record_done(&r);
}

static void more(struct record *r, const char *text, bool is_last)
{
    struct buf part = {0};

    buf_add_str(&part, text);
    r->session->ops->reply_more(r->session, r->stream, &part, is_last, NULL);
    r->session->ops->take_output(r->session, &r->output, 1 << 20);
}

static void streams_in_chunks_and_to_http10_until_the_end(struct test *t)
{
    static const struct {
        const char *request, *want;
        bool closes;
    } cases[] = {
        {GET "\r\n",
         "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
         false},
        {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabcde", true},
        {"HEAD / HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
         false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct record r = {.answers_late = true};
        record_begin(&r, false);
        feed_str(&r, cases[i].request);
        struct http_reply reply = {0};
        buf_add_str(&reply.body, "abc");
        r.session->ops->reply(r.session, r.stream, &reply, false);
        CHECK(t, r.session->ops->unwritten(r.session, r.stream) > 0);
        more(&r, "", false);
        CHECK_INT(t, r.session->ops->unwritten(r.session, r.stream), 0);
        more(&r, "de", false);
        more(&r, "", true);
        CHECK_STR(t, without_date(&r), cases[i].want);
        CHECK_INT(t, r.session->is_closing, cases[i].closes);
        CHECK_INT(t, r.session->n_streams, 0);
        record_done(&r);
    }
}

static void answers_pipelined_requests_one_at_a_time(struct test *t)
{
    struct record r = {.answers_late = true};
    char got[64];

    record_begin(&r, false);
    feed_str(&r, GET "\r\n" POST "content-length: 3\r\n\r\nabc" GET "\r\n");
    CHECK(t, r.session->is_paused);
    CHECK_INT(t, r.session->n_streams, 1);
    CHECK(t, r.session->held > 0);
    for (int i = 0; i < 3; i++) {
        CHECK(t, r.stream != NULL);
        answer(&r, r.stream, 200 + i);
        r.session->ops->take_output(r.session, &r.output, 1 << 20);
    }
    CHECK_STR(t, statuses(&r, got), "200 201 202");
    CHECK(t, !r.session->is_paused);
    CHECK_INT(t, r.session->held, 0); /* an idle session holds nothing */
    record_done(&r);
}

static void gives_output_in_pieces(struct test *t)
{
    struct record r = {0};
    struct buf whole = {0};

    record_begin(&r, false);
    r.reply.status = 200;
    for (int i = 0; i < 50000; i++)
        buf_add_str(&r.reply.body, "0123456789");
    (void)r.session->ops->feed(r.session, BYTES(GET "\r\n"));
    size_t n = 0, before;
    do {
        before = whole.len;
        r.session->ops->take_output(r.session, &whole, 1000);
        CHECK(t, whole.len - before <= 1000);
        n++;
    } while (whole.len > before);
    CHECK(t, n > 500 && whole.len > 500000);
    CHECK_INT(t, r.session->n_streams, 0);
    buf_done(&whole);
    record_done(&r);
}

static void an_early_answer_ends_the_connection(struct test *t)
{
    struct record r = {.refuses_heads = true};
    char got[64];

    record_begin(&r, false);
    feed_str(&r, POST "content-length: 10\r\nexpect: 100-continue\r\n\r\n");
    CHECK_STR(t, statuses(&r, got), "403");
    CHECK(t, r.session->is_closing);
    feed_str(&r, "0123456789" GET "\r\n");
    CHECK_STR(t, statuses(&r, got), "403");
    record_done(&r);

    struct record without_body = {.refuses_heads = true};
    record_begin(&without_body, false);
    feed_str(&without_body, GET "\r\n" GET "\r\n");
    CHECK_STR(t, statuses(&without_body, got), "403 403");
    CHECK(t, !without_body.session->is_closing);
    record_done(&without_body);

    struct record within = {.answers_body = true};
    record_begin(&within, false);
    feed_str(&within, POST "content-length: 10\r\n\r\n012");
    CHECK_STR(t, statuses(&within, got), "413");
    CHECK(t, within.session->is_closing);
    CHECK(t, strstr(buf_cstr(&within.told), "[012 done"));
    record_done(&within);
}

static void drains(struct test *t)
{
    struct record idle = {0}, busy = {.answers_late = true};

    record_begin(&idle, false);
    idle.session->ops->drain(idle.session);
    CHECK(t, idle.session->is_closing);
    record_done(&idle);

    record_begin(&busy, false);
    feed_str(&busy, GET "\r\n" GET "\r\n");
    busy.session->ops->drain(busy.session);
    CHECK(t, !busy.session->is_closing);
    answer(&busy, busy.stream, 200);
    busy.session->ops->take_output(busy.session, &busy.output, 1 << 20);
    CHECK(t, strstr(buf_cstr(&busy.output), "connection: close\r\n"));
    CHECK(t, busy.session->is_closing);
    CHECK_INT(t, busy.session->n_streams, 0);
    record_done(&busy);
}

static void tells_the_end_of_every_stream_once(struct test *t)
{
    struct record freed = {.answers_late = true}, reset = {.answers_late = true};

    record_begin(&freed, false);
    feed_str(&freed, POST "content-length: 10\r\n\r\n0");
    freed.session->ops->free(TAKE_PTR(freed.session));
    CHECK(t, strstr(buf_cstr(&freed.told), "[0 broken off\n"));
    record_done(&freed);

    record_begin(&reset, false);
    feed_str(&reset, GET "\r\n");
    reset.session->ops->reset(reset.session, reset.stream);
    CHECK(t, strstr(buf_cstr(&reset.told), "complete broken off\n"));
    CHECK(t, reset.session->is_closing);
    reset.session->ops->take_output(reset.session, &reset.output, 1 << 20);
    CHECK_INT(t, reset.output.len, 0);
    record_done(&reset);
}

static void waits_to_hear_about_upgrades(struct test *t)
{
#define UPGRADE                                                                                    \
    GET "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n"
    const struct http_request *request = NULL;
    struct bytes settings = {0};
    struct buf rest = {0};
    struct record taken = {0}, declined = {0};

    record_begin(&taken, true);
    feed_str(&taken, UPGRADE "PRI");
    CHECK(t, http1_session_asks_upgrade(taken.session, &request, &settings));
    CHECK(t, bytes_are(settings, "AAMAAABk"));
    CHECK(t, request && bytes_are(request->path, "/"));
    http1_session_end_upgrade(taken.session, true, &rest);
    CHECK_STR(t, buf_cstr(&rest), "PRI");
    CHECK_INT(t, taken.told.len, 0);
    record_done(&taken);
    buf_done(&rest);

    record_begin(&declined, true);
    feed_str(&declined, UPGRADE);
    CHECK(t, http1_session_asks_upgrade(declined.session, &request, &settings));
    http1_session_end_upgrade(declined.session, false, &rest);
    CHECK(t, !http1_session_asks_upgrade(declined.session, &request, &settings));
    CHECK(t, strstr(buf_cstr(&declined.told), "complete"));
    record_done(&declined);
}

static const struct test_case cases[] = {
    TEST(refuses_what_two_readers_could_read_differently),
    TEST(refuses_bad_chunks),
    TEST(takes_what_is_well_formed),
    TEST(refuses_nul_everywhere),
    TEST(limits_bite_before_a_line_is_complete),
    TEST(counts_headers_and_trailers),
    TEST(tells_what_the_request_said),
    TEST(answers_head_without_a_body),
    TEST(writes_no_header_that_would_split_the_answer),
    TEST(writes_trailers_for_those_who_take_them),
    TEST(streams_in_chunks_and_to_http10_until_the_end),
    TEST(answers_pipelined_requests_one_at_a_time),
    TEST(gives_output_in_pieces),
    TEST(an_early_answer_ends_the_connection),
    TEST(drains),
    TEST(tells_the_end_of_every_stream_once),
    TEST(waits_to_hear_about_upgrades),
};
TEST_MAIN(cases)
