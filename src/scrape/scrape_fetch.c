#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "net/http_client.h"
#include "net/url.h"
#include "scrape/scrape_internal.h"
#include "scrape/turn.h"
#include "wire/base64.h"

#define SECOND_NS  ((int64_t)1000000000)
#define SECRET_MAX 4096

/* ---- Who we are */

static int read_secret(const char *path, struct buf *out, struct error *err)
{
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint8_t text[SECRET_MAX];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (n < 0)
        return error_set(err, -errno, "could not read \"%s\": %m", path);
    buf_add_bytes(out, bytes_trim((struct bytes){text, (size_t)n}));
    return 0;
}

/* The value of the authorization header; nothing when there is none to send. */
static int add_authorization(const struct scrape_job *job, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf pair = {0};
    int r = 0;

    if (job->username[0]) {
        buf_addf(&pair, "%s:%s", job->username, job->password);
        if (job->password_file[0])
            r = read_secret(job->password_file, &pair, err);
        buf_add_str(out, "Basic ");
        base64_encode(buf_bytes(&pair), true, out);
    } else if (job->credentials[0] || job->credentials_file[0]) {
        buf_addf(out, "%s %s", job->auth_type, job->credentials);
        if (job->credentials_file[0])
            r = read_secret(job->credentials_file, out, err);
    }
    return r;
}

/* ---- The request */

static void add_params(const struct config_node *params, struct buf *out)
{
    for (const struct config_node *n = params ? params->first : NULL; n; n = n->next) {
        const struct config_node *v = n->kind == CONFIG_NODE_LIST ? n->first : n;
        for (; v; v = n->kind == CONFIG_NODE_LIST ? v->next : NULL) {
            buf_add_byte(out, '&');
            url_add_escaped(out, bytes_of(n->key), "");
            buf_add_byte(out, '=');
            url_add_escaped(out, bytes_of(v->value), "");
        }
    }
}

static void add_url(const struct entry *e, struct buf *out)
{
    CLEANUP(buf_done) struct buf query = {0};

    buf_addf(out, "%s%s", e->target->base, e->kind->path);
    if (e->target->query[0])
        buf_addf(&query, "&%s", e->target->query);
    add_params(e->kind->params, &query);
    if (e->kind->seconds > 0)
        buf_addf(&query, "&seconds=%llu", (unsigned long long)e->kind->seconds);
    if (query.len > 0)
        buf_addf(out, "%c%s", strchr(e->kind->path, '?') ? '&' : '?', buf_cstr(&query) + 1);
}

/* Answers of all workers together stay under the limit: who goes over it is ended. */
static void on_progress(void *arg, const struct http_progress *p)
{
    struct worker *w = arg;
    struct scrape *s = w->scrape;
    uint64_t all =
        atomic_fetch_add(&s->receiving, p->received - w->received) + p->received - w->received;

    w->received = p->received;
    if (all > s->o.memory_max && p->received > 0) {
        w->is_over_memory = true;
        w->is_cancelled = 1;
    }
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static int whole_seconds(int64_t ns)
{
    return (int)((ns + SECOND_NS - 1) / SECOND_NS);
}

static struct http_client *make_client(struct worker *w, const struct entry *e)
{
    const struct scrape_job *job = e->target->job;
    int timeout = whole_seconds(job->timeout_ns), total = timeout + (int)e->kind->seconds;

    return http_client_new(&(struct http_client_options){
        .ca_file = or_null(job->ca_file),
        .cert_file = or_null(job->cert_file),
        .key_file = or_null(job->key_file),
        .server_name = or_null(job->server_name),
        .skips_verification = job->skips_verification,
        .connect_s = timeout,
        .silence_s = total,
        .total_s = total,
        .cancelled = &w->is_cancelled,
        .progress = on_progress,
        .progress_arg = w,
    });
}

static bool body_has(const struct http_answer *a, const char *text)
{
    return bytes_find(bytes_head(http_answer_body(a), 4096), bytes_of(text)) != NULL;
}

/* What a status says. Go answers 500 to who asks for a second CPU profile at a time. */
static int check_answer(const struct http_answer *a, const char *url, struct fetched *ret,
                        struct error *err)
{
    if (a->status == 200)
        return 0;
    bool is_busy = a->status == 500 && body_has(a, "already in use");
    ret->outcome = is_busy ? OUTCOME_BUSY : OUTCOME_DOWN;
    return http_answer_error(a, url, err);
}

static enum outcome outcome_of(int r)
{
    switch (r) {
    case -ETIMEDOUT:
        return OUTCOME_TIMEOUT;
    case -ENOBUFS:
    case -E2BIG:
    case -EFBIG:
        return OUTCOME_LARGE;
    case -EBADMSG:
    case -EPROTO:
        return OUTCOME_BAD;
    default:
        return OUTCOME_DOWN;
    }
}

/* ---- The answer */

/* The body is the one that the next is compared with. */
static void keep_body(struct scrape *s, struct entry *e, struct bytes body, int64_t now_ns)
{
    atomic_fetch_sub(&s->kept, e->last.len);
    buf_done(&e->last);
    if (atomic_fetch_add(&s->kept, body.len) + body.len > s->o.memory_max) {
        atomic_fetch_sub(&s->kept, body.len);
        scrape_say(s, LOG_LEVEL_WARN,
                   "the last profiles of all targets together are over the limit of "
                   "memory; some cumulative ones are left out");
        return;
    }
    buf_add_bytes(&e->last, body);
    e->last_ns = now_ns;
}

static int turn_answer(struct scrape *s, struct entry *e, struct turn_input *in,
                       struct fetched *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf otlp = {0};
    struct turn_result turned;

    pthread_mutex_lock(&s->turning);
    int r = turn_profile(in, &otlp, &turned, err);
    pthread_mutex_unlock(&s->turning);
    if (r < 0)
        return r;
    ret->n_samples = turned.n_samples;
    ret->is_reset = turned.is_reset;
    if (e->kind->is_cumulative)
        keep_body(s, e, in->body, in->end_ns);
    if (otlp.len > 0)
        s->o.profiles(s->o.arg, buf_bytes(&otlp));
    return 0;
}

static int fetch(struct worker *w, struct entry *e, const char *url, struct fetched *ret,
                 struct error *err)
{
    CLEANUP(http_client_freep) struct http_client *client = make_client(w, e);
    CLEANUP(buf_done) struct buf authorization = {0};
    const struct clock *clock = clock_real();
    struct http_answer answer;
    struct budget budget;
    int r = add_authorization(e->target->job, &authorization, err);

    if (r < 0)
        return r;
    const struct http_header header = {BYTES("authorization"), buf_bytes(&authorization)};
    const struct http_fetch f = {.url = url,
                                 .headers = &header,
                                 .n_headers = authorization.len > 0,
                                 .answer_max = e->target->job->body_max,
                                 .no_redirects = !e->target->job->follows_redirects};
    struct turn_input in = {.kind = e->kind,
                            .tags = &e->target->tags,
                            .url = url,
                            .before = buf_bytes(&e->last),
                            .before_ns = e->last_ns,
                            .start_ns = clock_wall_ns(clock),
                            .memory_max = w->scrape->o.memory_max};
    budget_init(&budget, w->scrape->o.memory_max);
    r = http_fetch(client, &f, &budget, &answer, err);
    if (r < 0 && w->is_over_memory)
        return error_set(err, -ENOBUFS,
                         "%s: answers of all targets together are larger than the limit of %llu "
                         "MiB",
                         url, (unsigned long long)(w->scrape->o.memory_max >> 20));
    if (r == -ENOBUFS)
        return error_prefix(err, r, "%s: body_size_limit", url);
    if (r < 0)
        return r;
    in.end_ns = clock_wall_ns(clock);
    in.body = http_answer_body(&answer);
    ret->bytes = in.body.len;
    r = check_answer(&answer, url, ret, err);
    if (r == 0)
        r = turn_answer(w->scrape, e, &in, ret, err);
    http_answer_done(&budget, &answer);
    return r;
}

void scrape_fetch(struct worker *w, struct entry *e, struct fetched *ret)
{
    CLEANUP(buf_done) struct buf url = {0};
    struct error err = {""};
    int64_t from = scrape_now_ns();

    *ret = (struct fetched){.outcome = OUTCOME_OK};
    w->received = 0;
    w->is_over_memory = false;
    add_url(e, &url);
    int r = fetch(w, e, buf_cstr(&url), ret, &err);
    atomic_fetch_sub(&w->scrape->receiving, w->received);
    ret->took_ns = scrape_now_ns() - from;
    if (r < 0) {
        ret->outcome = ret->outcome != OUTCOME_OK ? ret->outcome : outcome_of(r);
        snprintf(ret->error, sizeof(ret->error), "%s", err.text);
    }
    /* Who stops is asked about before the next. */
    if (w->is_over_memory)
        w->is_cancelled = 0;
}
