#include "net/http_client.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/must.h"
#include "net/client_conn.h"
#include "net/http1.h"
#include "wire/base64.h"
#include "wire/json.h"

#define REDIRECTS_MAX   5
#define CHUNK           ((size_t)64 << 10)
#define RETRY_AFTER_MAX ((int64_t)24 * 3600 * 1000)

struct http_client {
    struct http_client_options o;
    struct client_conn conn;
    uint8_t chunk[CHUNK];
};

struct http_client *http_client_new(const struct http_client_options *o)
{
    struct http_client *c = must_calloc(1, sizeof(*c));
    c->o = *o;
    c->conn = (struct client_conn){.fd = -1, .o = &c->o};
    return c;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    client_conn_close(&c->conn);
    free(c);
}

/* One request on its way, over all of its redirects. */
struct attempt {
    struct http_client *client;
    const struct http_fetch *f;
    struct budget *budget;
    struct url url;    /* where it goes now */
    struct url asked;  /* where the caller sent it */
    struct buf where;  /* `url` as text */
    struct buf head;   /* of the request */
    bool is_elsewhere; /* a redirect led to another origin */
    struct http_answer answer;
    bool is_too_large;
};

static const char *method_of(const struct http_fetch *f)
{
    if (f->method)
        return f->method;
    return f->body.len > 0 || f->body_file_len > 0 ? "POST" : "GET";
}

static bool is_get(const struct http_fetch *f)
{
    return strcmp(method_of(f), "GET") == 0 || strcmp(method_of(f), "HEAD") == 0;
}

static bool may_repeat(const struct http_fetch *f)
{
    return f->is_repeatable || is_get(f) || strcmp(method_of(f), "PUT") == 0 ||
           strcmp(method_of(f), "DELETE") == 0;
}

static uint64_t body_len(const struct http_fetch *f)
{
    return f->body_file_len > 0 ? f->body_file_len : f->body.len;
}

static bool is_clean(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < 0x20 || text.data[i] == 0x7f)
            return false;
    return true;
}

static int check_headers(const struct http_fetch *f, struct error *err)
{
    for (size_t i = 0; i < f->n_headers; i++) {
        const struct http_header *h = &f->headers[i];
        if (h->name.len == 0 || !is_clean(h->name) || !is_clean(h->value) ||
            bytes_find_byte(h->name, ':') || bytes_find_byte(h->name, ' '))
            return error_set(err, -EINVAL,
                             "the header \"%.*s\" has a control character, or no name",
                             (int)(h->name.len < 60 ? h->name.len : 60),
                             is_clean(h->name) ? (const char *)h->name.data : "?");
    }
    return 0;
}

/* What says nothing about who asks. */
static bool is_for_anyone(struct bytes name)
{
    return name.len == 6 && strncasecmp((const char *)name.data, "accept", 6) == 0;
}

static void write_head(struct attempt *a)
{
    const struct http_fetch *f = a->f;
    struct buf *b = &a->head;

    buf_clear(b);
    buf_addf(b, "%s %s HTTP/1.1\r\nHost: ", method_of(f), a->url.path);
    url_add_authority(&a->url, b);
    buf_add_str(b, "\r\n");
    if (a->url.userinfo[0]) {
        buf_add_str(b, "Authorization: Basic ");
        base64_encode(bytes_of(a->url.userinfo), true, b);
        buf_add_str(b, "\r\n");
    }
    bool has_accept = false;
    for (size_t i = 0; i < f->n_headers; i++) {
        const struct http_header *h = &f->headers[i];
        if (a->is_elsewhere && !is_for_anyone(h->name))
            continue;
        has_accept = has_accept || is_for_anyone(h->name);
        buf_add_bytes(b, h->name);
        buf_add_str(b, ": ");
        buf_add_bytes(b, h->value);
        buf_add_str(b, "\r\n");
    }
    if (!has_accept)
        buf_add_str(b, "Accept: */*\r\n");
    if (!is_get(f))
        buf_addf(b, "Content-Length: %llu\r\n", (unsigned long long)body_len(f));
    buf_add_str(b, "User-Agent: vesta/" VESTA_VERSION "\r\n\r\n");
}

static int send_file(struct attempt *a, struct error *err)
{
    struct client_conn *c = &a->client->conn;

    for (uint64_t at = 0; at < a->f->body_file_len;) {
        uint64_t left = a->f->body_file_len - at;
        ssize_t n = pread(a->f->body_file, a->client->chunk, left < CHUNK ? (size_t)left : CHUNK,
                          (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, -errno, "could not read what is to be sent: %m");
        if (n == 0)
            return error_set(err, -EIO, "what is to be sent has become shorter");
        int r = client_conn_send(c, (struct bytes){a->client->chunk, (size_t)n}, err);
        if (r != 0)
            return r;
        at += (uint64_t)n;
        c->progress.sent = at;
    }
    return 0;
}

static int send_request(struct attempt *a, struct error *err)
{
    struct client_conn *c = &a->client->conn;

    c->progress.to_send = body_len(a->f);
    int r = client_conn_send(c, buf_bytes(&a->head), err);
    if (r == 0 && a->f->body_file_len > 0)
        return send_file(a, err);
    for (struct bytes rest = a->f->body; r == 0 && rest.len > 0;) {
        struct bytes part = bytes_head(rest, CHUNK);
        r = client_conn_send(c, part, err);
        rest = bytes_from(rest, part.len);
        c->progress.sent += part.len;
    }
    return r;
}

static bool take_body(void *arg, struct bytes part)
{
    struct attempt *a = arg;
    uint64_t max = a->f->answer_max;

    a->is_too_large = max > 0 && part.len > max - a->answer.body.data.len;
    return !a->is_too_large && vec_append(a->budget, &a->answer.body.data, part.data, part.len);
}

/* "name\0value\0", the name in lower case. */
static void take_header(void *arg, struct bytes name, struct bytes value)
{
    struct attempt *a = arg;
    struct buf *head = &a->answer.head;

    if (head->len + name.len + value.len + 2 > HTTP_ANSWER_HEAD_MAX)
        return;
    for (size_t i = 0; i < name.len; i++)
        buf_add_byte(head, (uint8_t)tolower(name.data[i]));
    buf_add_byte(head, '\0');
    buf_add_bytes(head, value);
    buf_add_byte(head, '\0');
}

static int refused_by_reader(struct attempt *a, const struct http1_response *response,
                             struct error *err)
{
    if (a->is_too_large)
        return error_set(err, -ENOBUFS, "the answer of %s is larger than %llu bytes", a->url.host,
                         (unsigned long long)a->f->answer_max);
    if (budget_failed(a->budget))
        return budget_error(a->budget, err);
    return error_set(err, -EPROTO, "%s: %s", a->url.host, response->failure);
}

static int receive_answer(struct attempt *a, struct http1_response *response, struct error *err)
{
    struct http_client *c = a->client;

    response->is_to_head = strcmp(method_of(a->f), "HEAD") == 0;
    response->on_header = take_header;
    response->header_arg = a;
    while (!response->done) {
        ssize_t n = client_conn_receive(&c->conn, c->chunk, CHUNK, err);
        if (n < 0)
            return (int)n;
        if (n == 0 && !http1_response_end(response)) /* perhaps it is being restarted */
            return error_set(err, -ECONNRESET, "%s: %s", a->url.host, response->failure);
        if (n > 0 &&
            !http1_response_feed(response, (struct bytes){c->chunk, (size_t)n}, take_body, a))
            return refused_by_reader(a, response, err);
    }
    return 0;
}

static void clear_answer(struct attempt *a)
{
    vec_clear(&a->answer.body.data);
    buf_clear(&a->answer.head);
}

/* One request over a connection that is open. */
static int exchange(struct attempt *a, struct http1_response *response, struct error *err)
{
    struct client_conn *c = &a->client->conn;
    uint64_t before = c->progress.received;

    clear_answer(a);
    c->progress.sent = 0;
    c->moved = client_now_s();
    int sent = send_request(a, err);
    /* Whoever hangs up on a body may have said why. */
    int r = sent < 0 && sent != -EPIPE && sent != -ECONNRESET
                ? sent
                : receive_answer(a, response, sent < 0 ? NULL : err);
    if (r < 0 && sent < 0)
        r = sent;
    bool is_kept = r == 0 && sent == 0 && !response->closes;
    bool is_dead = r < 0 && c->was_used && c->progress.received == before && r != -ETIMEDOUT &&
                   r != -ECANCELED;
    c->was_used = true;
    if (!is_kept)
        client_conn_close(c);
    return is_dead ? -EAGAIN : r;
}

static bool can_reuse(const struct attempt *a)
{
    struct client_conn *c = &a->client->conn;

    return c->fd >= 0 && url_same_origin(&c->url, &a->url) &&
           c->with_certificate == !a->is_elsewhere && client_conn_is_fresh(c);
}

/* One request, no redirects. */
static int fetch_once(struct attempt *a, struct http1_response *response, struct error *err)
{
    struct client_conn *c = &a->client->conn;

    write_head(a);
    if (can_reuse(a)) {
        int r = exchange(a, response, err);
        if (r != -EAGAIN)
            return r;
        if (!may_repeat(a->f))
            return error_set(err, -ECONNRESET, "%s closed the connection before it answered",
                             a->url.host);
        *response = (struct http1_response){0};
    }
    client_conn_close(c);
    int r = client_conn_open(c, &a->url, !a->is_elsewhere, err);
    return r < 0 ? r : exchange(a, response, err);
}

/* Sets `where` to where the redirect leads. */
static void resolve(struct attempt *a, const char *location)
{
    struct buf full = {0};

    if (location[0] == '/' && location[1] == '/') {
        buf_addf(&full, "http%s:%s", a->url.is_tls ? "s" : "", location);
    } else if (location[0] == '/') {
        buf_addf(&full, "http%s://", a->url.is_tls ? "s" : "");
        url_add_authority(&a->url, &full);
        buf_add_str(&full, location);
    } else {
        buf_add_str(&full, location);
    }
    buf_done(&a->where);
    a->where = full;
}

static int follow(struct attempt *a, const struct http1_response *response, struct error *err)
{
    struct url next;

    resolve(a, response->location);
    int r = url_parse(buf_cstr(&a->where), &next, err);
    if (r < 0)
        return error_prefix(err, r, "could not follow a redirect");
    if (a->url.is_tls && !next.is_tls)
        return error_set(err, -EPERM, "refused a redirect from https to %s", buf_cstr(&a->where));
    bool is_elsewhere = !url_same_origin(&next, &a->asked);
    if (!is_get(a->f) && (is_elsewhere || (response->status != 307 && response->status != 308)))
        return error_set(err, -EPERM, "%s moved to %s: use that address instead", a->f->url,
                         buf_cstr(&a->where));
    if (is_elsewhere && a->client->o.unix_path)
        return error_set(err, -EPERM, "refused a redirect from a socket to %s",
                         buf_cstr(&a->where));
    /* Once away, nothing that was given for the first origin is shown any more. */
    a->is_elsewhere = a->is_elsewhere || is_elsewhere;
    if (!a->is_elsewhere && !next.userinfo[0])
        memcpy(next.userinfo, a->asked.userinfo, sizeof(next.userinfo));
    a->url = next;
    return 0;
}

static bool is_redirect(const struct attempt *a, const struct http1_response *response)
{
    return !a->f->no_redirects && response->location[0] &&
           (response->status == 301 || response->status == 302 || response->status == 303 ||
            response->status == 307 || response->status == 308);
}

static int64_t retry_after_ms(const struct http_answer *answer)
{
    struct bytes value = http_answer_header(answer, "retry-after");
    uint64_t seconds;
    char text[64];
    struct tm tm = {0};

    if (bytes_to_u64(value, &seconds))
        return seconds < (uint64_t)RETRY_AFTER_MAX / 1000 ? (int64_t)seconds * 1000
                                                          : RETRY_AFTER_MAX;
    if (value.len == 0 || value.len >= sizeof(text))
        return -1;
    memcpy(text, value.data, value.len);
    text[value.len] = '\0';
    const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (!end || *end)
        return -1;
    int64_t ms = ((int64_t)timegm(&tm) - (int64_t)time(NULL)) * 1000;
    return ms < 0 ? 0 : ms < RETRY_AFTER_MAX ? ms : RETRY_AFTER_MAX;
}

static int run(struct attempt *a, struct error *err)
{
    for (int hops = 0;; hops++) {
        struct http1_response response = {0};
        int r = fetch_once(a, &response, err);
        if (r == 0 && is_redirect(a, &response)) {
            r = hops == REDIRECTS_MAX ? error_set(err, -ELOOP, "%s redirects more than %d times",
                                                  a->f->url, REDIRECTS_MAX)
                                      : follow(a, &response, err);
            if (r == 0)
                continue;
        }
        if (r < 0)
            return r;
        a->answer.status = response.status;
        memcpy(a->answer.reason, response.reason, sizeof(response.reason));
        a->answer.retry_after_ms = retry_after_ms(&a->answer);
        return 0;
    }
}

int http_fetch(struct http_client *c, const struct http_fetch *f, struct budget *b,
               struct http_answer *ret, struct error *err)
{
    struct attempt a = {.client = c, .f = f, .budget = b};

    int r = url_parse(f->url, &a.asked, err);
    if (r == 0)
        r = check_headers(f, err);
    if (r < 0)
        return r;
    a.url = a.asked;
    c->conn.started = client_now_s();
    c->conn.progress = (struct http_progress){0};
    r = run(&a, err);
    buf_done(&a.where);
    buf_done(&a.head);
    if (r < 0)
        http_answer_done(b, &a.answer);
    else
        *ret = a.answer;
    return r;
}

struct bytes http_answer_header(const struct http_answer *a, const char *name)
{
    struct bytes rest = buf_bytes(&a->head);

    while (rest.len > 0) {
        size_t name_len = strnlen((const char *)rest.data, rest.len);
        struct bytes value = bytes_from(rest, name_len + 1);
        value.len = strnlen((const char *)value.data, value.len);
        if (bytes_are(bytes_head(rest, name_len), name))
            return value;
        rest = bytes_from(rest, name_len + value.len + 2);
    }
    return (struct bytes){0};
}

struct bytes http_answer_body(const struct http_answer *a)
{
    return (struct bytes){a->body.data.data, a->body.data.len};
}

void http_answer_done(struct budget *b, struct http_answer *a)
{
    http_body_done(b, &a->body);
    buf_done(&a->head);
}

/* The "error" of a JSON object; false when it is none. */
static bool json_error(struct bytes body, char *ret, size_t size)
{
    struct budget budget;
    bool found = false;

    if (body.len == 0 || body.data[0] != '{')
        return false;
    budget_init(&budget, (size_t)1 << 20);
    struct json_reader *r = json_reader_new(NULL, &budget);
    json_reader_set_text(r, bytes_head(body, (size_t)64 << 10), 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        bool is_it = bytes_are(key, "error") || (!found && bytes_are(key, "message"));
        if (is_it && json_peek(r) == JSON_STRING) {
            struct bytes text = json_get_string(r);
            snprintf(ret, size, "%.*s", (int)(text.len < size ? text.len : size),
                     (const char *)text.data);
            found = true;
        } else {
            json_skip(r);
        }
    }
    json_reader_free(r);
    return found;
}

int http_answer_error(const struct http_answer *a, const char *url, struct error *err)
{
    char text[300];
    struct bytes rest = http_answer_body(a), line = {0};

    if (!json_error(rest, text, sizeof(text))) {
        (void)bytes_next_line(&rest, &line);
        line = bytes_head(bytes_trim(line), 160);
        snprintf(text, sizeof(text), "%.*s", (int)line.len, (const char *)line.data);
    }
    return error_set(err, -EIO, "%s answered %d %s%s%s", url, a->status, a->reason,
                     text[0] ? ": " : "", text);
}

bool http_should_retry(int r, const struct http_answer *a)
{
    switch (r) {
    case 0:
        return a && (a->status == 429 || a->status == 502 || a->status == 503 || a->status == 504);
    case -ECONNREFUSED:
    case -ECONNRESET:
    case -ECONNABORTED:
    case -EPIPE:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
    case -ENETDOWN:
    case -ETIMEDOUT:
        return true;
    default:
        return false;
    }
}

int http_get(const char *url, const struct http_client_options *o, struct budget *b,
             struct http_body *ret, struct error *err)
{
    CLEANUP(http_client_freep) struct http_client *c = http_client_new(o);
    struct http_answer a;

    int r = http_fetch(c, &(struct http_fetch){.url = url}, b, &a, err);
    if (r < 0)
        return r;
    if (a.status != 200) {
        r = http_answer_error(&a, url, err);
        http_answer_done(b, &a);
        return r;
    }
    *ret = a.body;
    buf_done(&a.head);
    return 0;
}

void http_body_done(struct budget *b, struct http_body *body)
{
    vec_done(b, &body->data);
}
