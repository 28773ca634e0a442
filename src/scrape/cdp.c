#include "scrape/cdp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/random.h"
#include "net/http1.h"
#include "net/websocket.h"
#include "wire/json.h"

#define MS_NS     ((int64_t)1000000)
#define CALL_NS   (5000 * MS_NS) /* of one question: programs may be busy */
#define HURRY_NS  (1200 * MS_NS) /* of all that is said once there is no time left */
#define LIST_MAX  ((size_t)64 << 10)
#define HEAD_MAX  ((size_t)8 << 10)
#define HOST      "127.0.0.1:9229" /* whatever the port: an address, so that it is let in */
#define EVENT_END "NodeRuntime.waitingForDisconnect"

struct cdp {
    struct cdp_options o;
    struct buf in; /* received, not read yet */
    size_t in_at;
    struct websocket_reader reader;
    struct random random;
    struct cdp_message message;
    uint64_t number;  /* of the last question */
    int64_t until_ns; /* from when on nothing is waited for; INT64_MAX: not in a hurry */
    bool is_ending;
};

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

/* ---- What is read */

static void copy_text(struct bytes from, char *to, size_t size)
{
    snprintf(to, size, "%.*s", (int)bytes_head(from, size - 1).len, (const char *)from.data);
}

static void read_error(struct json_reader *r, struct cdp_message *ret)
{
    copy_text(BYTES("no reason given"), ret->failure, sizeof(ret->failure));
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "message"))
            copy_text(json_get_string_or_empty(r), ret->failure, sizeof(ret->failure));
        else
            json_skip(r);
    }
}

int cdp_read_message(struct bytes json, struct cdp_message *ret, struct error *err)
{
    struct budget budget;

    budget_init(&budget, 4 * json.len + ((size_t)1 << 20));
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    json_reader_set_text(r, json, 0);
    ret->number = 0;
    ret->event[0] = ret->failure[0] = '\0';
    buf_clear(&ret->result);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "id"))
            ret->number = json_get_u64(r);
        else if (bytes_are(key, "method"))
            copy_text(json_get_string_or_empty(r), ret->event, sizeof(ret->event));
        else if (bytes_are(key, "error"))
            read_error(r, ret);
        else if (bytes_are(key, "result")) {
            buf_clear(&ret->result);
            buf_add_bytes(&ret->result, json_get_raw(r));
        } else
            json_skip(r);
    }
    return json_finish(r, "message of an inspector", err);
}

/* "ws://127.0.0.1:9229/ID": the path, if nothing in it could mean more than a path. */
static bool take_path(struct bytes url, char ret[CDP_PATH_MAX + 1])
{
    if (!bytes_start_with(url, BYTES("ws://")))
        return false;
    url = bytes_from(url, 5);
    const uint8_t *slash = bytes_find_byte(url, '/');
    struct bytes path = slash ? bytes_from(url, (size_t)(slash - url.data)) : (struct bytes){0};
    if (path.len < 2 || path.len > CDP_PATH_MAX)
        return false;
    for (size_t i = 0; i < path.len; i++)
        if (path.data[i] <= ' ' || path.data[i] > '~')
            return false;
    copy_text(path, ret, CDP_PATH_MAX + 1);
    return true;
}

int cdp_read_list(struct bytes json, char ret[CDP_PATH_MAX + 1], struct error *err)
{
    struct budget budget;
    bool is_found = false;

    budget_init(&budget, (size_t)1 << 20);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    json_reader_set_text(r, json, 0);
    json_enter_array(r);
    while (json_next_element(r)) {
        json_enter_object(r);
        for (struct bytes key; json_next_key(r, &key);) {
            if (bytes_are(key, "webSocketDebuggerUrl") && !is_found)
                is_found = take_path(json_get_string_or_empty(r), ret);
            else
                json_skip(r);
        }
    }
    int bad = json_finish(r, "list of inspectors", err);
    if (bad < 0)
        return bad;
    /* One that somebody is connected to has no such address. */
    return is_found ? 0 : error_set(err, -EBADMSG, "there is no inspector to talk to");
}

/* ---- Waiting */

static void hurry(struct cdp *c)
{
    if (c->until_ns == INT64_MAX)
        c->until_ns = now_ns() + HURRY_NS;
}

/* Until the socket is ready: 1; 0 when the time is over, or there is suddenly no time. */
static int wait_for_socket(struct cdp *c, short events, int64_t until_ns, bool *ret_stop,
                           struct error *err)
{
    for (;;) {
        struct pollfd fds[2] = {{c->o.fd, events, 0}, {c->o.stop_fd, POLLIN, 0}};
        bool watches = c->until_ns == INT64_MAX && c->o.stop_fd >= 0;
        int64_t until = until_ns < c->until_ns ? until_ns : c->until_ns;
        int64_t left = until - now_ns();
        if (left <= 0)
            return 0;
        int64_t ms = left / MS_NS + 1;
        int n = poll(fds, watches ? 2 : 1, ms < 60000 ? (int)ms : 60000);
        if (n < 0 && errno != EINTR)
            return error_set(err, -errno, "could not wait for an inspector: %m");
        if (n > 0 && watches && fds[1].revents) {
            hurry(c);
            if (ret_stop) {
                *ret_stop = true;
                return 0;
            }
        }
        if (n > 0 && fds[0].revents)
            return 1;
    }
}

static int send_all(struct cdp *c, struct bytes data, int64_t until_ns, struct error *err)
{
    while (data.len > 0) {
        ssize_t n = send(c->o.fd, data.data, data.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            data = bytes_from(data, (size_t)n);
            continue;
        }
        if (errno == EPIPE || errno == ECONNRESET)
            return error_set(err, -EPIPE, "the inspector has ended the connection");
        if (errno != EAGAIN && errno != EINTR)
            return error_set(err, -errno, "could not send to an inspector: %m");
        int r = wait_for_socket(c, POLLOUT, until_ns, NULL, err);
        if (r < 0)
            return r;
        if (r == 0)
            return error_set(err, -ETIMEDOUT, "the inspector does not read");
    }
    return 0;
}

/* Adds to c->in: 1; 0 when the time is over; -EPIPE at the end. */
static int receive(struct cdp *c, int64_t until_ns, bool *ret_stop, struct error *err)
{
    for (;;) {
        if (c->in_at == c->in.len) {
            buf_clear(&c->in);
            c->in_at = 0;
        }
        int64_t now = now_ns(); /* who talks all the time does not get more of it */
        if (now >= until_ns || now >= c->until_ns)
            return 0;
        uint8_t *room = buf_reserve(&c->in, (size_t)64 << 10);
        ssize_t n = recv(c->o.fd, room, (size_t)64 << 10, MSG_DONTWAIT);
        if (n > 0) {
            c->in.len += (size_t)n;
            return 1;
        }
        if (n == 0 || errno == ECONNRESET)
            return error_set(err, -EPIPE, "the inspector has ended the connection");
        if (errno != EAGAIN && errno != EINTR)
            return error_set(err, -errno, "could not read from an inspector: %m");
        int r = wait_for_socket(c, POLLIN, until_ns, ret_stop, err);
        if (r <= 0)
            return r;
    }
}

static struct bytes unread(const struct cdp *c)
{
    return bytes_from(buf_bytes(&c->in), c->in_at);
}

/* ---- Messages */

static void make_mask(struct cdp *c, uint8_t mask[4])
{
    uint64_t number = random_u64(&c->random);

    memcpy(mask, &number, 4);
}

static int send_frame(struct cdp *c, enum websocket_opcode opcode, struct bytes payload,
                      int64_t until_ns, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    uint8_t mask[4];

    make_mask(c, mask);
    websocket_put(&out, opcode, payload, mask);
    return send_all(c, buf_bytes(&out), until_ns, err);
}

/* The next message, in c->message: 1; 0 when the time is over. */
static int next_message(struct cdp *c, int64_t until_ns, bool *ret_stop, struct error *err)
{
    enum websocket_opcode opcode;
    struct bytes data;

    for (;;) {
        struct bytes in = unread(c);
        size_t had = in.len;
        int r = websocket_read(&c->reader, &in, &opcode, &data, err);
        c->in_at += had - in.len;
        if (r == 0)
            r = receive(c, until_ns, ret_stop, err);
        else if (r > 0 && opcode == WEBSOCKET_CLOSE)
            return error_set(err, -EPIPE, "the inspector has ended the conversation");
        else if (r > 0 && opcode == WEBSOCKET_PING)
            r = send_frame(c, WEBSOCKET_PONG, data, until_ns, err) < 0 ? -EPIPE : 1;
        else if (r > 0 && opcode != WEBSOCKET_PONG) {
            r = cdp_read_message(data, &c->message, err);
            if (r == 0 && strcmp(c->message.event, EVENT_END) == 0)
                c->is_ending = true;
            return r < 0 ? r : 1;
        }
        if (r <= 0)
            return r;
    }
}

static int ask(struct cdp *c, const char *method, const char *params, int64_t until_ns,
               struct error *err)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_addf(&text, "{\"id\":%llu,\"method\":\"%s\"", (unsigned long long)++c->number, method);
    if (params)
        buf_addf(&text, ",\"params\":%s", params);
    buf_add_byte(&text, '}');
    return send_frame(c, WEBSOCKET_TEXT, buf_bytes(&text), until_ns, err);
}

static int call_until(struct cdp *c, int64_t until_ns, const char *method, const char *params,
                      struct buf *ret, struct error *err)
{
    int r = ask(c, method, params, until_ns, err);

    while (r == 0) {
        r = next_message(c, until_ns, NULL, err);
        if (r == 0)
            return error_set(err, -ETIMEDOUT, "%s is not answered", method);
        if (r < 0 || c->message.number == c->number)
            break;
        r = 0; /* an event, or the answer to a question that was given up */
    }
    if (r < 0)
        return error_prefix(err, r, "%s", method);
    if (c->message.failure[0])
        return error_set(err, -EREMOTEIO, "%s is refused: %s", method, c->message.failure);
    if (ret) {
        buf_clear(ret);
        buf_add_bytes(ret, buf_bytes(&c->message.result));
    }
    return 0;
}

int cdp_call(struct cdp *c, const char *method, const char *params, struct buf *ret,
             struct error *err)
{
    return call_until(c, now_ns() + CALL_NS, method, params, ret, err);
}

int cdp_call_for(struct cdp *c, int64_t time_ns, const char *method, const char *params,
                 struct buf *ret, struct error *err)
{
    int64_t now = now_ns();

    if (c->until_ns != INT64_MAX && time_ns > (c->until_ns - now) / 3)
        time_ns = (c->until_ns - now) / 3;
    return call_until(c, now + time_ns, method, params, ret, err);
}

int cdp_call_last(struct cdp *c, const char *method, const char *params, struct error *err)
{
    int64_t until = now_ns() + CALL_NS;
    int r = ask(c, method, params, until, err);

    while (r == 0) {
        r = next_message(c, until, NULL, err);
        if (r == -EPIPE)
            return 0;
        if (r == 0)
            return error_set(err, -ETIMEDOUT, "%s is not answered", method);
        r = r < 0 ? r : 0;
    }
    return r == -EPIPE ? 0 : r;
}

int cdp_wait(struct cdp *c, int64_t duration_ns, enum cdp_why *ret, struct error *err)
{
    int64_t until = now_ns() + duration_ns;
    bool is_stopped = false;
    int r = 1;

    while (r > 0 && !c->is_ending && c->until_ns == INT64_MAX)
        r = next_message(c, until, &is_stopped, err);
    if (r < 0)
        return r;
    *ret = c->is_ending ? CDP_ENDING : is_stopped || c->until_ns != INT64_MAX ? CDP_STOP : CDP_TIME;
    return 0;
}

bool cdp_is_ending(const struct cdp *c)
{
    return c->is_ending;
}

/* ---- Beginning */

static bool add_body(void *arg, struct bytes body)
{
    struct buf *to = arg;

    if (to->len + body.len > LIST_MAX)
        return false;
    buf_add_bytes(to, body);
    return true;
}

static int find_path(struct cdp *c, int64_t until_ns, char path[CDP_PATH_MAX + 1],
                     struct error *err)
{
    CLEANUP(buf_done) struct buf body = {0};
    CLEANUP(freep) struct http1_response *response = must_calloc(1, sizeof(*response));
    int r = send_all(c, BYTES("GET /json/list HTTP/1.1\r\nHost: " HOST "\r\n\r\n"), until_ns, err);

    while (r == 0 && !response->done) {
        r = receive(c, until_ns, NULL, err);
        if (r == 0)
            return error_set(err, -ETIMEDOUT, "the inspector does not say what there is");
        if (r < 0)
            return r;
        r = 0;
        if (!http1_response_feed(response, unread(c), add_body, &body))
            return error_set(err, -EBADMSG, "what answers is no inspector: %s",
                             response->failure ? response->failure : "too long a list");
        c->in_at = c->in.len;
    }
    if (r == 0 && response->status != 200)
        return error_set(err, -EBADMSG, "what answers is no inspector: status %d",
                         response->status);
    return r < 0 ? r : cdp_read_list(buf_bytes(&body), path, err);
}

static int upgrade(struct cdp *c, int64_t until_ns, const char *path, struct error *err)
{
    static const struct bytes empty_line = BYTES("\r\n\r\n");
    CLEANUP(buf_done) struct buf out = {0};
    uint64_t words[2] = {random_u64(&c->random), random_u64(&c->random)};
    uint8_t nonce[WEBSOCKET_NONCE];

    memcpy(nonce, words, sizeof(nonce));
    websocket_request(HOST, path, nonce, &out);
    int r = send_all(c, buf_bytes(&out), until_ns, err);
    while (r == 0) {
        struct bytes in = unread(c);
        const uint8_t *end = bytes_find(in, empty_line);
        if (end) {
            struct bytes head = bytes_head(in, (size_t)(end - in.data) + empty_line.len);
            c->in_at += head.len;
            return websocket_check_reply(head, nonce, err);
        }
        if (in.len > HEAD_MAX)
            return error_set(err, -EBADMSG, "what answers is no inspector: a head without end");
        r = receive(c, until_ns, NULL, err);
        if (r == 0)
            return error_set(err, -ETIMEDOUT, "the inspector does not begin to talk");
        r = r < 0 ? r : 0;
    }
    return r;
}

int cdp_open(const struct cdp_options *o, struct cdp **ret, struct error *err)
{
    CLEANUP(cdp_freep) struct cdp *c = must_calloc(1, sizeof(*c));
    int64_t until = now_ns() + CALL_NS;
    char path[CDP_PATH_MAX + 1];

    c->o = *o;
    c->until_ns = INT64_MAX;
    c->reader.max = o->message_max;
    random_init(&c->random, random_seed_os());
    int r = find_path(c, until, path, err);
    if (r == 0)
        r = upgrade(c, until, path, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(c);
    return 0;
}

void cdp_free(struct cdp *c)
{
    if (!c)
        return;
    closep(&c->o.fd);
    buf_done(&c->in);
    buf_done(&c->message.result);
    websocket_reader_done(&c->reader);
    free(c);
}
