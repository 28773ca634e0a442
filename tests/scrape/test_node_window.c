/*
 * Conversations with inspectors that do what they should, and with such as do not: a thread plays
 * the other side, over a pair of sockets.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "lib/test.h"
#include "net/websocket.h"
#include "scrape/cdp.h"
#include "scrape/node_window.h"
#include "wire/base64.h"

#define MS_NS ((int64_t)1000000)

#define LIST "[{\"id\":\"a\",\"webSocketDebuggerUrl\":\"ws://127.0.0.1:9229/a-b\"}]"
#define CPU                                                                                        \
    "{\"profile\":{\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":\"burn\",\"url\":\"\","    \
    "\"scriptId\":\"1\",\"lineNumber\":1,\"columnNumber\":1}}],\"startTime\":1000,"                \
    "\"endTime\":21000,\"samples\":[1,1],\"timeDeltas\":[0,20000]}}"

/* How the other side behaves. */
enum manner {
    GOOD,
    OTHER_PID,
    ENDS,        /* its program ends while the window lasts */
    TALKS,       /* events without end, and no answer to Profiler.stop */
    SILENT,      /* no answer to Profiler.start */
    REFUSES,     /* to start */
    OWN,         /* our package is at work in it */
    BREAKS_OFF,  /* when it is to stop */
    LARGE,       /* one message of 20 MiB */
    NO_LIST,     /* of inspectors */
    NO_PROTOCOL, /* another than was asked for */
};

struct inspector {
    enum manner manner;
    int fd;
    pthread_t thread;
    struct buf in;
    struct buf told; /* methods, in the order of asking */
};

static bool receive(struct inspector *s)
{
    ssize_t n = recv(s->fd, buf_reserve(&s->in, 4096), 4096, 0);

    s->in.len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void drop(struct inspector *s, size_t n)
{
    memmove(s->in.data, s->in.data + n, s->in.len - n);
    s->in.len -= n;
}

static bool tell(struct inspector *s, const void *data, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(s->fd, data, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data = (const uint8_t *)data + sent;
        n -= (size_t)sent;
    }
    return true;
}

/* A head, up to its empty line; NULL at the end. */
static const char *read_head(struct inspector *s, struct buf *to)
{
    const uint8_t *end;

    while (!(end = bytes_find(buf_bytes(&s->in), BYTES("\r\n\r\n"))))
        if (!receive(s))
            return NULL;
    size_t n = (size_t)(end - s->in.data) + 4;
    buf_clear(to);
    buf_add(to, s->in.data, n);
    drop(s, n);
    return buf_cstr(to);
}

static bool begin(struct inspector *s)
{
    CLEANUP(buf_done) struct buf head = {0}, nonce = {0}, reply = {0};
    const char *list = s->manner == NO_LIST ? "[]" : LIST;

    const char *text = read_head(s, &head);
    if (!text || strncmp(text, "GET /json/list HTTP/1.1\r\n", 25) != 0)
        return false;
    buf_addf(&reply, "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(list), list);
    tell(s, reply.data, reply.len);
    text = read_head(s, &head);
    if (!text || strncmp(text, "GET /a-b HTTP/1.1\r\n", 19) != 0)
        return false;
    const char *key = strstr(text, "Sec-WebSocket-Key: ") + 19;
    if (!base64_decode((struct bytes){(const uint8_t *)key, 24}, &nonce) || nonce.len != 16)
        return false;
    buf_clear(&reply);
    buf_add_str(&reply, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                        "Connection: Upgrade\r\nSec-WebSocket-Accept: ");
    if (s->manner == NO_PROTOCOL)
        nonce.data[0] ^= 1;
    websocket_add_accept(nonce.data, &reply);
    buf_add_str(&reply, "\r\n\r\n");
    return tell(s, reply.data, reply.len);
}

/* One frame of the client, unmasked; false at the end. */
static bool read_frame(struct inspector *s, struct buf *to)
{
    for (;;) {
        size_t head = 6, len = s->in.len > 1 ? s->in.data[1] & 0x7f : 0;
        if (len == 126 && s->in.len >= 4) {
            len = (size_t)s->in.data[2] << 8 | s->in.data[3];
            head = 8;
        }
        if (s->in.len >= 2 && len != 126 && s->in.len >= head + len) {
            const uint8_t *mask = s->in.data + head - 4;
            buf_clear(to);
            for (size_t i = 0; i < len; i++)
                buf_add_byte(to, s->in.data[head + i] ^ mask[i % 4]);
            drop(s, head + len);
            return true;
        }
        if (!receive(s))
            return false;
    }
}

static bool tell_frame(struct inspector *s, const char *text)
{
    size_t n = strlen(text);
    uint8_t head[4] = {0x81, n < 126 ? (uint8_t)n : 126, (uint8_t)(n >> 8), (uint8_t)n};

    return tell(s, head, n < 126 ? 2 : 4) && tell(s, text, n);
}

static bool tell_large(struct inspector *s)
{
    static const uint8_t head[10] = {0x81, 127, 0, 0, 0, 0, 0x01, 0x40, 0, 0};

    return tell(s, head, sizeof(head));
}

static void tell_result(struct inspector *s, unsigned number, const char *result)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_addf(&text, "{\"id\":%u,\"result\":%s}", number, result);
    tell_frame(s, buf_cstr(&text));
}

static void tell_refusal(struct inspector *s, unsigned number)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_addf(&text, "{\"id\":%u,\"error\":{\"code\":-1,\"message\":\"not today\"}}", number);
    tell_frame(s, buf_cstr(&text));
}

/* False: it ends the connection. */
static bool answer(struct inspector *s, const char *question, unsigned number)
{
    bool is_start = strstr(question, "Profiler.start\""), is_stop = strstr(question, "er.stop\"");

    if (strstr(question, "inspector').close()"))
        return tell(s, "\x88\x00", 2) && false;
    if (strstr(question, "process.pid"))
        tell_result(s, number,
                    s->manner == OTHER_PID ? "{\"result\":{\"type\":\"number\",\"value\":8}}"
                                           : "{\"result\":{\"type\":\"number\",\"value\":7}}");
    else if (strstr(question, "vesta.node.") && s->manner == OWN)
        tell_result(s, number, "{\"result\":{\"type\":\"number\",\"value\":2}}");
    else if (is_start && s->manner == SILENT)
        return true;
    else if (is_start && s->manner == REFUSES)
        tell_refusal(s, number);
    else if (is_stop && s->manner == BREAKS_OFF)
        return false;
    else if (is_stop && s->manner == LARGE)
        tell_large(s);
    else if (is_stop && s->manner == TALKS)
        while (tell_frame(s, "{\"method\":\"Runtime.said\",\"params\":{}}"))
            ;
    else
        tell_result(s, number, is_stop ? CPU : "{}");
    if (is_start && s->manner == ENDS)
        tell_frame(s, "{\"method\":\"NodeRuntime.waitingForDisconnect\",\"params\":{}}");
    return true;
}

static void *play(void *arg)
{
    struct inspector *s = arg;
    CLEANUP(buf_done) struct buf frame = {0};
    char method[64];
    unsigned number;

    bool goes_on = begin(s);
    while (goes_on && read_frame(s, &frame)) {
        const char *text = buf_cstr(&frame);
        if (sscanf(text, "{\"id\":%u,\"method\":\"%63[^\"]", &number, method) != 2)
            break;
        buf_addf(&s->told, "%s%s", s->told.len ? " " : "",
                 strstr(text, "').close()") ? "close" : strchr(method, '.') + 1);
        goes_on = answer(s, text, number);
    }
    close(s->fd);
    return NULL;
}

struct held {
    struct inspector inspector;
    struct node_window_result result;
    struct error err;
    int r;
    size_t otlp; /* bytes that came out */
};

static void profiles(void *arg, struct bytes otlp)
{
    struct held *h = arg;

    h->otlp += otlp.len;
}

/* A window of 50 ms; with `stop` it is to end before that. */
static void hold(struct held *h, enum manner manner, bool takes, bool stop)
{
    static const struct tags none;
    uint64_t one = 1;
    int pair[2];

    *h = (struct held){.inspector = {.manner = manner}};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    h->inspector.fd = pair[1];
    int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop && write(stop_fd, &one, sizeof(one)) < 0)
        abort();
    pthread_create(&h->inspector.thread, NULL, play, &h->inspector);
    h->r = node_window_run(&(struct node_window){.fd = pair[0],
                                                 .stop_fd = stop_fd,
                                                 .pid = 7,
                                                 .takes_cpu = takes,
                                                 .duration_ns = (stop ? 60000 : 50) * MS_NS,
                                                 .sampling_ns = 10 * MS_NS,
                                                 .attributes = &none,
                                                 .memory_max = 1 << 24,
                                                 .profiles = profiles,
                                                 .arg = h},
                           &h->result, &h->err);
    pthread_join(h->inspector.thread, NULL); /* the connection has ended, else it would not */
    close(stop_fd);
}

static void held_done(struct held *h)
{
    buf_done(&h->inspector.in);
    buf_done(&h->inspector.told);
}

static const char *told(struct held *h)
{
    return buf_cstr(&h->inspector.told);
}

#define BEGINNING                                                                                  \
    "evaluate evaluate notifyWhenWaitingForDisconnect enable setSamplingInterval start"

static void a_window_is_taken_and_the_inspector_closed(struct test *t)
{
    CLEANUP(held_done) struct held h;

    hold(&h, GOOD, true, false);
    CHECK_STR(t, h.err.text, "");
    CHECK_INT(t, h.r, 0);
    CHECK_STR(t, told(&h), BEGINNING " stop evaluate close");
    CHECK(t, h.result.is_closed && !h.result.may_reopen);
    CHECK_INT(t, h.result.n_samples, 1);
    CHECK(t, h.otlp > 0);
}

static void a_window_that_is_cut_short_is_told_as_well(struct test *t)
{
    CLEANUP(held_done) struct held h;

    hold(&h, GOOD, true, true);
    CHECK_INT(t, h.r, 0);
    CHECK(t, h.result.is_closed && h.otlp > 0);
}

static void closing_alone_takes_nothing(struct test *t)
{
    CLEANUP(held_done) struct held h;

    hold(&h, GOOD, false, false);
    CHECK_INT(t, h.r, 0);
    CHECK_STR(t, told(&h), "evaluate evaluate close");
    CHECK(t, h.result.is_closed && h.otlp == 0);
}

static void another_process_is_left_alone(struct test *t)
{
    CLEANUP(held_done) struct held h;

    hold(&h, OTHER_PID, true, false);
    CHECK_INT(t, h.r, -EXDEV);
    CHECK_STR(t, told(&h), "evaluate");
    CHECK(t, !h.result.is_closed);
}

static void a_program_that_profiles_itself_is_left_alone(struct test *t)
{
    CLEANUP(held_done) struct held h;

    hold(&h, OWN, true, false);
    CHECK_INT(t, h.r, -EALREADY);
    CHECK_STR(t, told(&h), "evaluate evaluate evaluate close");
    CHECK(t, h.result.is_own && h.result.is_closed);
}

static void a_program_that_ends_is_let_go_of(struct test *t)
{
    CLEANUP(held_done) struct held h;

    hold(&h, ENDS, true, false);
    CHECK_INT(t, h.r, 0);
    CHECK_STR(t, told(&h), BEGINNING " stop");
    CHECK(t, h.otlp > 0);
}

static void a_refusal_is_told_and_the_inspector_closed(struct test *t)
{
    CLEANUP(held_done) struct held h;

    hold(&h, REFUSES, true, false);
    CHECK_INT(t, h.r, -EREMOTEIO);
    CHECK_STR(t, h.err.text, "Profiler.start is refused: not today");
    CHECK(t, h.result.is_closed && h.otlp == 0);
}

static void nobody_keeps_us_for_long(struct test *t)
{
    static const enum manner manners[] = {TALKS, SILENT};

    for (size_t i = 0; i < ARRAY_SIZE(manners); i++) {
        CLEANUP(held_done) struct held h;
        hold(&h, manners[i], true, true);
        CHECK_INT(t, h.r, -ETIMEDOUT);
        CHECK_INT(t, h.otlp, 0);
    }
}

static void what_breaks_the_rules_is_an_error(struct test *t)
{
    static const struct {
        enum manner manner;
        int r;
    } bad[] = {
        {BREAKS_OFF, -EPIPE}, {LARGE, -EMSGSIZE}, {NO_LIST, -EBADMSG}, {NO_PROTOCOL, -EBADMSG}};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        CLEANUP(held_done) struct held h;
        hold(&h, bad[i].manner, true, false);
        CHECK_INT(t, h.r, bad[i].r);
        CHECK_INT(t, h.otlp, 0);
    }
}

static void paths_that_could_be_more_are_refused(struct test *t)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[{}]",
        "[{\"webSocketDebuggerUrl\":7}]",
        "[{\"webSocketDebuggerUrl\":\"http://a/b\"}]",
        "[{\"webSocketDebuggerUrl\":\"ws://a\"}]",
        "[{\"webSocketDebuggerUrl\":\"ws://a/\"}]",
        "[{\"webSocketDebuggerUrl\":\"ws://a/b c\"}]",
        "[{\"webSocketDebuggerUrl\":\"ws://a/b\\r\\nx: y\"}]",
    };
    char path[CDP_PATH_MAX + 1], text[600];

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK_INT(t, cdp_read_list(bytes_of(bad[i]), path, NULL), -EBADMSG);
    CHECK_INT(t, cdp_read_list(BYTES(LIST), path, NULL), 0);
    CHECK_STR(t, path, "/a-b");
    snprintf(text, sizeof(text), "[{\"webSocketDebuggerUrl\":\"ws://a/%0128d\"}]", 1);
    CHECK_INT(t, cdp_read_list(bytes_of(text), path, NULL), -EBADMSG);
}

static void messages_are_told_apart(struct test *t)
{
    struct cdp_message m = {0};

    CHECK_INT(t, cdp_read_message(BYTES("{\"id\":3,\"result\":{\"a\":[1, 2]}}"), &m, NULL), 0);
    CHECK_INT(t, m.number, 3);
    CHECK_STR(t, buf_cstr(&m.result), "{\"a\":[1, 2]}");
    CHECK_INT(t, cdp_read_message(BYTES("{\"method\":\"A.b\",\"params\":{\"id\":9}}"), &m, NULL),
              0);
    CHECK_INT(t, m.number, 0);
    CHECK_STR(t, m.event, "A.b");
    CHECK_INT(t, m.result.len, 0);
    CHECK_INT(t, cdp_read_message(BYTES("{\"id\":1,\"error\":{}}"), &m, NULL), 0);
    CHECK_STR(t, m.failure, "no reason given");
    CHECK_INT(t, cdp_read_message(BYTES("{\"id\":1"), &m, NULL), -EBADMSG);
    CHECK_INT(t, cdp_read_message(BYTES("[]"), &m, NULL), -EBADMSG);
    buf_done(&m.result);
}

static const struct test_case cases[] = {
    TEST(a_window_is_taken_and_the_inspector_closed),
    TEST(a_window_that_is_cut_short_is_told_as_well),
    TEST(closing_alone_takes_nothing),
    TEST(another_process_is_left_alone),
    TEST(a_program_that_profiles_itself_is_left_alone),
    TEST(a_program_that_ends_is_let_go_of),
    TEST(a_refusal_is_told_and_the_inspector_closed),
    TEST(nobody_keeps_us_for_long),
    TEST(what_breaks_the_rules_is_an_error),
    TEST(paths_that_could_be_more_are_refused),
    TEST(messages_are_told_apart),
};

TEST_MAIN(cases)
