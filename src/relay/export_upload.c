#include "relay/export_upload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/http_client.h"
#include "relay/export.h"

#define QUEUE_MAX   64
#define SEEN_MAX    4096
#define ID_MAX      128
#define TRIES       5
#define WAIT_S      30
#define FILE_MAX    ((off_t)4 << 30)
#define ANSWER_MAX  ((uint64_t)16 << 10)
#define BUDGET      ((size_t)256 << 10)
#define SILENCE_S   60
#define ASK_PATH    "/debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload"
#define UPLOAD_PATH "/api/v1/debuginfo/"

struct waiting {
    int fd;
    unsigned tries;
    char id[ID_MAX + 1];
};

struct uploads {
    struct relay_child *child;
    struct http_client *client;
    pthread_t thread;
    volatile sig_atomic_t cancelled;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    bool is_stopping;
    struct waiting queue[QUEUE_MAX];
    size_t first, n;
    char *seen[SEEN_MAX];
    size_t n_seen;
    uint64_t sent, sent_bytes, known, failed, dropped;
};

/* ---- Asking and sending, on the thread ---- */

/* 1: it lacks the file; 0: it has it; -EAGAIN: ask again later. */
static int ask(struct uploads *u, const char *id, struct error *err)
{
    struct http_header headers[EXPORT_HEADERS_MAX + EXPORT_OWN_HEADERS];
    CLEANUP(buf_done) struct buf authorization = {0};
    CLEANUP(buf_done) struct buf url = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct http_answer a;
    struct budget b;
    size_t n;

    if (export_headers(u->child, &authorization, headers, &n, err) < 0)
        return -EAGAIN;
    budget_init(&b, BUDGET);
    headers[n++] = (struct http_header){BYTES("content-type"), BYTES("application/json")};
    buf_addf(&url, "%s" ASK_PATH, u->child->settings.server);
    buf_addf(&body, "{\"file\":{\"GNU\":\"%s\"}}", id);
    struct http_fetch f = {.url = buf_cstr(&url),
                           .headers = headers,
                           .n_headers = n,
                           .body = buf_bytes(&body),
                           .answer_max = ANSWER_MAX,
                           .is_repeatable = true};
    int r = http_fetch(u->client, &f, &b, &a, err);
    if (r < 0)
        return http_should_retry(r, NULL) ? -EAGAIN : r;
    if (a.status == 200)
        r = bytes_find(http_answer_body(&a), BYTES("\"shouldInitiateUpload\":true")) != NULL;
    else
        r = http_should_retry(0, &a) ? -EAGAIN : http_answer_error(&a, f.url, err);
    http_answer_done(&b, &a);
    return r;
}

static int put(struct uploads *u, const struct waiting *w, uint64_t size, struct error *err)
{
    struct http_header headers[EXPORT_HEADERS_MAX + EXPORT_OWN_HEADERS];
    CLEANUP(buf_done) struct buf authorization = {0};
    CLEANUP(buf_done) struct buf url = {0};
    struct http_answer a;
    struct budget b;
    size_t n;

    if (export_headers(u->child, &authorization, headers, &n, err) < 0)
        return -EAGAIN;
    budget_init(&b, BUDGET);
    buf_addf(&url, "%s" UPLOAD_PATH "%s", u->child->settings.server, w->id);
    struct http_fetch f = {.method = "PUT",
                           .url = buf_cstr(&url),
                           .headers = headers,
                           .n_headers = n,
                           .body_file = w->fd,
                           .body_file_len = size,
                           .answer_max = ANSWER_MAX};
    int r = http_fetch(u->client, &f, &b, &a, err);
    if (r < 0)
        return http_should_retry(r, NULL) ? -EAGAIN : r;
    if (a.status < 200 || a.status >= 300)
        r = http_should_retry(0, &a) ? -EAGAIN : http_answer_error(&a, f.url, err);
    http_answer_done(&b, &a);
    return r;
}

/* 1: sent; 0: not wanted; -EAGAIN: later; else given up. */
static int serve(struct uploads *u, const struct waiting *w, uint64_t *ret_size, struct error *err)
{
    struct stat st;

    if (fstat(w->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > FILE_MAX)
        return error_set(err, -EINVAL, "it is no file of 1 byte to 4 GiB");
    int r = ask(u, w->id, err);
    if (r <= 0)
        return r;
    r = put(u, w, (uint64_t)st.st_size, err);
    *ret_size = (uint64_t)st.st_size;
    return r < 0 ? r : 1;
}

static void pause_for(struct uploads *u, int seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    while (!u->is_stopping && pthread_cond_timedwait(&u->changed, &u->lock, &until) == 0)
        ;
}

static void serve_first(struct uploads *u)
{
    struct waiting w = u->queue[u->first];
    struct error err = {""};
    uint64_t size = 0;

    pthread_mutex_unlock(&u->lock);
    int r = serve(u, &w, &size, &err);
    pthread_mutex_lock(&u->lock);
    if (r == -EAGAIN && ++u->queue[u->first].tries < TRIES) {
        pause_for(u, WAIT_S);
        return;
    }
    close(w.fd);
    u->first = (u->first + 1) % QUEUE_MAX;
    u->n--;
    if (r == 1) {
        u->sent++;
        u->sent_bytes += size;
        relay_log(u->child, RELAY_INFO, "sent the debug file of %s, %llu bytes", w.id,
                  (unsigned long long)size);
    } else if (r == 0) {
        u->known++;
    } else {
        u->failed++;
        relay_log(u->child, RELAY_WARNING, "could not send the debug file of %s: %s", w.id,
                  r == -EAGAIN ? "the server does not answer" : err.text);
    }
}

static void *run(void *arg)
{
    struct uploads *u = arg;

    pthread_mutex_lock(&u->lock);
    while (!u->is_stopping) {
        if (u->n > 0)
            serve_first(u);
        else
            pthread_cond_wait(&u->changed, &u->lock);
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* ---- From the main thread ---- */

static bool is_sound(struct bytes id)
{
    for (size_t i = 0; i < id.len; i++)
        if (!strchr("0123456789abcdef", id.data[i]) || id.data[i] == '\0')
            return false;
    return id.len >= 2 && id.len <= ID_MAX;
}

/* True the first time. */
static bool is_news(struct uploads *u, struct bytes id)
{
    for (size_t i = 0; i < u->n_seen; i++)
        if (bytes_are(id, u->seen[i]))
            return false;
    if (u->n_seen == SEEN_MAX)
        return false;
    u->seen[u->n_seen++] = must_copy(id);
    return true;
}

static void message(void *part, enum relay_kind kind, struct bytes data, int fd)
{
    struct uploads *u = part;

    if (kind != RELAY_DEBUG_FILE || fd < 0 || !is_sound(data))
        return;
    pthread_mutex_lock(&u->lock);
    if (u->n == QUEUE_MAX) {
        u->dropped++; /* not noted as seen: there is a next time */
    } else if (is_news(u, data)) {
        struct waiting *w = &u->queue[(u->first + u->n) % QUEUE_MAX];
        *w = (struct waiting){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
        memcpy(w->id, data.data, data.len);
        u->n += w->fd >= 0;
        pthread_cond_signal(&u->changed);
    }
    pthread_mutex_unlock(&u->lock);
}

static void free_uploads(struct uploads *u)
{
    for (; u->n > 0; u->n--, u->first = (u->first + 1) % QUEUE_MAX)
        close(u->queue[u->first].fd);
    while (u->n_seen > 0)
        free(u->seen[--u->n_seen]);
    http_client_free(u->client);
    free(u);
}

static int start(struct relay_child *c, void **ret, struct error *err)
{
    const struct export_settings *s = &c->settings;
    pthread_condattr_t monotonic;

    if (!c->config->upload_debug_files || !s->server)
        return 0;
    struct uploads *u = must_calloc(1, sizeof(*u));
    u->child = c;
    u->client = http_client_new(&(struct http_client_options){.ca_file = s->ca_file,
                                                              .cert_file = s->cert_file,
                                                              .key_file = s->key_file,
                                                              .silence_s = SILENCE_S,
                                                              .cancelled = &u->cancelled});
    pthread_mutex_init(&u->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&u->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int r = pthread_create(&u->thread, NULL, run, u);
    if (r != 0) {
        free_uploads(u);
        return error_set(err, -r, "could not start a thread: %s", strerror(r));
    }
    (void)pthread_setname_np(u->thread, "vesta-upload");
    *ret = u;
    return 0;
}

static void stop(void *part)
{
    struct uploads *u = part;
    struct timespec until;

    pthread_mutex_lock(&u->lock);
    u->is_stopping = true;
    u->cancelled = 1;
    pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_timedjoin_np(u->thread, NULL, &until) == 0)
        free_uploads(u);
}

static void metrics(void *part, struct buf *text)
{
    struct uploads *u = part;

    pthread_mutex_lock(&u->lock);
    buf_addf(text,
             "# HELP vesta_agent_debug_files_total Debug files by what became of them.\n"
             "# TYPE vesta_agent_debug_files_total counter\n"
             "vesta_agent_debug_files_total{result=\"sent\"} %llu\n"
             "vesta_agent_debug_files_total{result=\"known\"} %llu\n"
             "vesta_agent_debug_files_total{result=\"failed\"} %llu\n"
             "vesta_agent_debug_files_total{result=\"dropped\"} %llu\n",
             (unsigned long long)u->sent, (unsigned long long)u->known,
             (unsigned long long)u->failed, (unsigned long long)u->dropped);
    pthread_mutex_unlock(&u->lock);
}

static void status(void *part, struct buf *json)
{
    struct uploads *u = part;

    pthread_mutex_lock(&u->lock);
    buf_addf(json,
             "\"debug_files\":{\"sent\":%llu,\"sent_bytes\":%llu,\"known\":%llu,\"failed\":%llu,"
             "\"dropped\":%llu,\"waiting\":%zu}",
             (unsigned long long)u->sent, (unsigned long long)u->sent_bytes,
             (unsigned long long)u->known, (unsigned long long)u->failed,
             (unsigned long long)u->dropped, u->n);
    pthread_mutex_unlock(&u->lock);
}

const struct relay_part upload_part = {.name = "debug files",
                                       .start = start,
                                       .message = message,
                                       .stop = stop,
                                       .metrics = metrics,
                                       .status = status};
