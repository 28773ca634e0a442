#include "cli/run_output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/random.h"
#include "cli/remote.h"
#include "cli/run_summary.h"
#include "formats/format.h"
#include "formats/otlp_response.h"
#include "inproc/inproc_profiles.h"
#include "profile/merge.h"
#include "query/time_range.h"
#include "symbols/symbolizer.h"
#include "wire/inflate.h"

#define OTLP_PATH        "/v1development/profiles"
#define DEFAULT_FOLDER   "profiles"
#define WINDOWS_MAX      16 /* that wait to be named */
#define KEPT_BYTES_MAX   ((size_t)64 << 20)
#define FIRST_WAIT_NS    ((int64_t)500 * 1000 * 1000)
#define LAST_WAIT_NS     ((int64_t)30 * 1000 * 1000 * 1000)
#define RETRY_NS         ((int64_t)10 * 1000 * 1000 * 1000)
#define ONE_TRY_NS       RETRY_NS /* --retry-for 0 */
#define ANSWER_MEMORY    ((size_t)4 << 20)
#define FILES_TOLD       8
#define KIND_NAME_MAX    80
#define OTEL_HEADERS_MAX 12

/* A request that is to be sent. */
struct message {
    struct message *next;
    struct buf body;
    size_t n_profiles;
};

struct run_output {
    const struct options *o;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;

    /* Under the mutex. */
    struct run_window *windows[WINDOWS_MAX];
    size_t n_windows;
    bool is_over;
    size_t windows_dropped;

    /* The thread's. */
    struct run_summary summary;
    const char *folder; /* NULL: no files */
    struct buf files;   /* names of those that were written, for people */
    size_t n_files, files_failed;
    struct error file_trouble; /* the last */

    bool sends;
    struct remote remote;
    struct buf path; /* of the request */
    char *headers[2 * OTEL_HEADERS_MAX];
    size_t n_header_texts;
    struct random random;
    struct budget budget;
    struct message *first, **last;
    size_t kept_bytes;
    unsigned failures;
    int64_t next_try_ns, retry_ns;
    volatile sig_atomic_t is_stopped;
    _Atomic bool is_calling, is_late;
    _Atomic int64_t give_up_ns; /* at the end: no call lasts longer */
    size_t sent, messages_dropped;
    uint64_t taken, rejected;      /* profiles of messages that were sent */
    struct otlp_response response; /* the last with words */
    struct error trouble;          /* the last */
    char cache[4096];
};

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

/* ---- Where to ---- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static int add_header(struct run_output *out, struct bytes item, const char *by, struct error *err)
{
    CLEANUP(buf_done) struct buf value = {0};
    const uint8_t *equals = bytes_find_byte(item, '=');
    struct bytes name = bytes_trim(bytes_head(item, equals ? (size_t)(equals - item.data) : 0));

    if (name.len == 0 ||
        !http_unescape(bytes_trim(bytes_from(item, (size_t)(equals - item.data) + 1)), false,
                       &value))
        return error_set(err, -EINVAL, "%s is not NAME=VALUE,...", by);
    if (out->n_header_texts + 2 > ARRAY_SIZE(out->headers))
        return error_set(err, -EINVAL, "%s has more than %d headers", by, OTEL_HEADERS_MAX);
    char *key = out->headers[out->n_header_texts++] = must_copy(name);
    char *text = out->headers[out->n_header_texts++] = must_copy(buf_bytes(&value));
    out->remote.headers[out->remote.n_headers++] =
        (struct http_header){bytes_of(key), bytes_of(text)};
    return 0;
}

static int add_headers(struct run_output *out, struct error *err)
{
    const char *by = "OTEL_EXPORTER_OTLP_PROFILES_HEADERS", *text = variable(by);
    int r = 0;

    if (!text)
        text = variable(by = "OTEL_EXPORTER_OTLP_HEADERS");
    for (struct bytes rest = text ? bytes_of(text) : (struct bytes){0}; r == 0 && rest.len > 0;) {
        const uint8_t *comma = bytes_find_byte(rest, ',');
        size_t len = comma ? (size_t)(comma - rest.data) : rest.len;
        struct bytes item = bytes_trim(bytes_head(rest, len));
        r = item.len > 0 ? add_header(out, item, by, err) : 0;
        rest = bytes_from(rest, len + 1);
    }
    return r;
}

/* --url and VESTA_URL say a server; OpenTelemetry's variables a server, or the whole address. */
static int find_server(struct run_output *out, const struct options *o, struct error *err)
{
    struct options said = *o;
    const char *whole = variable("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT");

    buf_add_str(&out->path, OTLP_PATH);
    if (!o->url && whole) {
        said.url = whole;
        buf_clear(&out->path);
    } else if (!o->url) {
        said.url = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
    }
    out->sends = said.url != NULL;
    if (!out->sends)
        return 0;
    int r = remote_init(&out->remote, &said, err);
    return r < 0 ? r : add_headers(out, err);
}

/* Told now: at the end all would be lost. */
static int make_folder(const char *path, struct error *err)
{
    struct stat st;

    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, "could not make the folder \"%s\": %s", path,
                         strerror(errno));
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return error_set(err, -ENOTDIR, "--output takes a folder, and \"%s\" is a file", path);
    if (access(path, W_OK | X_OK) < 0)
        return error_set(err, -errno, "could not write to the folder \"%s\": %s", path,
                         strerror(errno));
    return 0;
}

int run_output_new(const struct options *o, struct run_output **ret, struct error *err)
{
    struct run_output *out = must_calloc(1, sizeof(*out));

    out->o = o;
    out->last = &out->first;
    out->retry_ns = RETRY_NS;
    pthread_mutex_init(&out->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&out->cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    run_summary_init(&out->summary);
    random_init(&out->random, random_seed_os());
    budget_init(&out->budget, ANSWER_MEMORY);
    int r = find_server(out, o, err);
    if (r == 0 && o->retry_for && strcmp(o->retry_for, "0") == 0)
        out->retry_ns = 0;
    else if (r == 0 && o->retry_for &&
             duration_parse(bytes_of(o->retry_for), &out->retry_ns, err) < 0)
        r = error_prefix(err, -EINVAL, "--retry-for");
    out->folder = o->output ? o->output : out->sends ? NULL : DEFAULT_FOLDER;
    if (r == 0 && out->folder)
        r = make_folder(out->folder, err);
    if (r < 0) {
        run_output_free(out);
        return r;
    }
    *ret = out;
    return 0;
}

void run_output_free(struct run_output *out)
{
    if (!out)
        return;
    for (size_t i = 0; i < out->n_windows; i++)
        run_window_free(out->windows[i]);
    while (out->first) {
        struct message *m = out->first;
        out->first = m->next;
        buf_done(&m->body);
        free(m);
    }
    for (size_t i = 0; i < out->n_header_texts; i++)
        free(out->headers[i]);
    remote_done(&out->remote);
    run_summary_done(&out->summary);
    buf_done(&out->files);
    buf_done(&out->path);
    pthread_cond_destroy(&out->cond);
    pthread_mutex_destroy(&out->mutex);
    free(out);
}

/* ---- Files ---- */

/* "alloc", and of a program's own samples the name that it gave. */
static void kind_name(const struct profile *p, char to[KIND_NAME_MAX])
{
    const char *kind = inproc_profile_kind(p);

    snprintf(to, KIND_NAME_MAX, "%s", kind);
    if (strcmp(kind, "custom") != 0)
        return;
    snprintf(to, KIND_NAME_MAX, "custom-%s", dict_cstr(p->dict, p->types[0].type));
    for (char *c = to; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *c))
            *c = '_';
}

static int write_all(int fd, struct bytes content)
{
    while (content.len > 0) {
        ssize_t n = write(fd, content.data, content.len);
        if (n < 0 && errno != EINTR)
            return -errno;
        content = bytes_from(content, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

/* A new file: two windows of one second do not share one. -1 with errno. */
static int make_file(const struct run_output *out, const char *kind, int64_t time_ns,
                     struct buf *path)
{
    char stamp[32];
    struct tm tm;
    time_t seconds = (time_t)(time_ns / 1000000000);
    int fd = -1;

    gmtime_r(&seconds, &tm);
    strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
    for (unsigned i = 1; fd < 0 && i < 1000; i++) {
        buf_clear(path);
        buf_addf(path, "%s/%s-%s", out->folder, kind, stamp);
        if (i > 1)
            buf_addf(path, "-%u", i);
        buf_add_str(path, ".pb.gz");
        fd = open(buf_cstr(path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

static int write_file(struct run_output *out, const char *kind, int64_t time_ns,
                      struct bytes content, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    int fd = make_file(out, kind, time_ns, &path);
    int r = fd < 0 ? -errno : write_all(fd, content);

    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r < 0) {
        if (fd >= 0)
            (void)unlink(buf_cstr(&path));
        return error_set(err, r, "could not write \"%s\": %s", buf_cstr(&path), strerror(-r));
    }
    out->n_files++;
    if (out->n_files <= FILES_TOLD)
        buf_addf(&out->files, "  %s\n", buf_cstr(&path));
    return 0;
}

/* All processes' profiles of a kind, as one. */
static void write_kind(struct run_output *out, struct run_window *w, size_t first)
{
    struct profile_set *set = w->set;
    char kind[KIND_NAME_MAX], other[KIND_NAME_MAX];
    VEC(struct profile *) same = {0};
    CLEANUP(buf_done) struct buf content = {0};
    CLEANUP(buf_done) struct buf losses = {0};
    struct error err = {""};

    kind_name(set->profiles.data[first], kind);
    for (size_t i = 0; i < set->profiles.len; i++) {
        kind_name(set->profiles.data[i], other);
        if (strcmp(kind, other) != 0)
            continue;
        if (i < first) { /* it has been written with that one */
            vec_done(set->budget, &same);
            return;
        }
        (void)vec_push(set->budget, &same, set->profiles.data[i]);
    }
    CLEANUP(profile_freep)
    struct profile *merged =
        profile_merge(set->dict, same.data, same.len, (struct merge_options){.drop_zero = true});
    vec_done(set->budget, &same);
    if (!merged) {
        out->files_failed++;
        (void)budget_error(set->budget, &out->file_trouble);
        return;
    }
    merged->time_unix_ns = w->start_unix_ns;
    merged->duration_ns = w->end_unix_ns - w->start_unix_ns;
    struct profile *only = merged;
    struct profile_set one = {
        .budget = set->budget, .dict = set->dict, .profiles = {.data = &only, .len = 1, .cap = 1}};
    if (format_by_name("pprof")->encode(&one, &content, &losses, &err) < 0 ||
        write_file(out, kind, w->start_unix_ns, buf_bytes(&content), &err) < 0) {
        out->files_failed++;
        out->file_trouble = err;
    }
}

/* ---- Sending ---- */

static void drop_first(struct run_output *out)
{
    struct message *m = out->first;

    out->first = m->next;
    if (!out->first)
        out->last = &out->first;
    out->kept_bytes -= m->body.len;
    buf_done(&m->body);
    free(m);
}

static void keep_message(struct run_output *out, const struct profile_set *set)
{
    CLEANUP(buf_done) struct buf plain = {0};
    CLEANUP(buf_done) struct buf losses = {0};
    struct error err = {""};

    if (format_by_name("otlp")->encode(set, &plain, &losses, &err) < 0) {
        out->trouble = err;
        return;
    }
    struct message *m = must_calloc(1, sizeof(*m));
    m->n_profiles = set->profiles.len;
    gzip_pack(buf_bytes(&plain), 6, &m->body);
    *out->last = m;
    out->last = &m->next;
    out->kept_bytes += m->body.len;
    while (out->kept_bytes > KEPT_BYTES_MAX && out->first->next) {
        out->messages_dropped++;
        drop_first(out);
    }
}

/* Twice as long each time, and never in step with others. */
static void wait_longer(struct run_output *out, int64_t retry_after_ms)
{
    int64_t wait = FIRST_WAIT_NS << (out->failures < 10 ? out->failures : 10);

    out->failures++;
    wait = wait < LAST_WAIT_NS ? wait : LAST_WAIT_NS;
    wait = wait / 2 + (int64_t)random_below(&out->random, (uint64_t)wait / 2);
    if (retry_after_ms > 0 && retry_after_ms * 1000000 > wait)
        wait = retry_after_ms * 1000000;
    out->next_try_ns = now_ns() + wait;
}

/* It was sent: some of it may have been refused all the same. */
static void read_response(struct run_output *out, const struct http_answer *a)
{
    struct bytes type = http_media_type(http_answer_header(a, "content-type"));
    struct otlp_response said = {0};
    uint64_t n = out->first->n_profiles;

    if (bytes_are(type, "application/x-protobuf"))
        otlp_read_response(http_answer_body(a), &said);
    uint64_t rejected = said.rejected < n ? said.rejected : n;
    out->rejected += rejected;
    out->taken += n - rejected;
    if (said.text[0])
        out->response = said;
}

/* True when the first message is dealt with. */
static bool send_first(struct run_output *out)
{
    struct remote_call call = {.path = buf_cstr(&out->path),
                               .body = buf_bytes(&out->first->body),
                               .content_type = "application/x-protobuf",
                               .content_encoding = "gzip"};
    struct http_answer a = {.retry_after_ms = -1};
    struct error err = {""};

    out->remote.http.cancelled = &out->is_stopped;
    out->is_calling = true;
    int r = remote_call(&out->remote, &call, &out->budget, &a, &err);
    out->is_calling = false;
    if (r < 0 && out->is_late)
        error_set(&err, r, "%s did not answer within --retry-for", out->remote.shown);
    bool is_later = http_should_retry(r, &a);
    if (r == 0 && a.status / 100 != 2)
        (void)remote_refusal(&out->remote, &a, &err);
    bool is_sent = r == 0 && a.status / 100 == 2;
    int64_t retry_after_ms = a.retry_after_ms;
    if (is_sent)
        read_response(out, &a);
    if (r == 0)
        http_answer_done(&out->budget, &a);
    if (is_sent) {
        out->sent++;
        out->failures = 0;
        out->next_try_ns = 0;
        return true;
    }
    out->trouble = err;
    if (is_later) {
        wait_longer(out, retry_after_ms);
        return false;
    }
    out->messages_dropped++;
    return true;
}

static void send_some(struct run_output *out)
{
    while (out->first && now_ns() >= out->next_try_ns && !out->is_stopped)
        if (send_first(out))
            drop_first(out);
}

/* ---- A window ---- */

/* Suspects are for the list at the end: in profiles they are marked. */
static void take_suspects_off(struct profile_set *set)
{
    size_t kept = 0;

    for (size_t i = 0; i < set->profiles.len; i++) {
        struct profile *p = set->profiles.data[i];
        if (strcmp(inproc_profile_kind(p), "suspects") == 0)
            profile_free(p);
        else
            set->profiles.data[kept++] = p;
    }
    set->profiles.len = kept;
}

static void name_all(struct run_output *out, struct profile_set *set)
{
    struct symbolizer_options o = {.cache_dir =
                                       symbolizer_default_cache(out->cache, sizeof(out->cache))};
    struct error err = {""};

    if (symbolize(set, &o, NULL, &err) < 0)
        out->trouble = err;
    inproc_profiles_named(set);
}

static void deal_with(struct run_output *out, struct run_window *w)
{
    struct profile_set *set = w->set;

    name_all(out, set);
    if (budget_failed(&w->budget)) {
        (void)budget_error(&w->budget, &out->trouble);
        out->messages_dropped++;
        return;
    }
    run_summary_add(&out->summary, set, w->end_unix_ns);
    take_suspects_off(set);
    for (size_t i = 0; out->folder && i < set->profiles.len; i++)
        write_kind(out, w, i);
    if (out->sends && set->profiles.len > 0)
        keep_message(out, set);
}

/* The next window, waiting for it when nothing else is to be done; NULL when there is none yet.
 * *ret_over: there will be none. */
static struct run_window *next_window(struct run_output *out, bool *ret_over)
{
    struct run_window *w = NULL;

    pthread_mutex_lock(&out->mutex);
    while (out->n_windows == 0 && !out->is_over) {
        if (!out->first) {
            pthread_cond_wait(&out->cond, &out->mutex);
            continue;
        }
        struct timespec until = {out->next_try_ns / 1000000000, out->next_try_ns % 1000000000};
        if (pthread_cond_timedwait(&out->cond, &out->mutex, &until) == ETIMEDOUT)
            break;
    }
    if (out->n_windows > 0) {
        w = out->windows[0];
        memmove(out->windows, out->windows + 1, --out->n_windows * sizeof(out->windows[0]));
    }
    *ret_over = out->is_over && out->n_windows == 0;
    pthread_mutex_unlock(&out->mutex);
    return w;
}

static int64_t last_call_ends(const struct run_output *out)
{
    return now_ns() + (out->retry_ns > 0 ? out->retry_ns : ONE_TRY_NS);
}

/* The command has ended: what is left is sent within a limit. */
static void send_rest(struct run_output *out)
{
    int64_t give_up = now_ns() + out->retry_ns;

    out->next_try_ns = 0; /* whatever failed before: there may be no later one */
    out->give_up_ns = last_call_ends(out);
    send_some(out);
    while (out->first && !out->is_stopped && out->next_try_ns < give_up) {
        int64_t left = out->next_try_ns - now_ns(), step = left < 100000000 ? left : 100000000;
        if (step > 0)
            nanosleep(&(struct timespec){0, step}, NULL);
        send_some(out);
    }
    while (out->first) {
        out->messages_dropped++;
        drop_first(out);
    }
}

static void *work(void *arg)
{
    struct run_output *out = arg;
    bool is_over = false;

    while (!is_over) {
        struct run_window *w = next_window(out, &is_over);
        if (w)
            deal_with(out, w);
        run_window_free(w);
        if (!is_over)
            send_some(out);
    }
    send_rest(out);
    return NULL;
}

void run_output_put(struct run_output *out, struct run_window *w)
{
    if (!w)
        return;
    if (!out->has_thread)
        out->has_thread = pthread_create(&out->thread, NULL, work, out) == 0;
    pthread_mutex_lock(&out->mutex);
    if (out->n_windows < WINDOWS_MAX && out->has_thread) {
        out->windows[out->n_windows++] = w;
        w = NULL;
    } else {
        out->windows_dropped++;
    }
    pthread_cond_signal(&out->cond);
    pthread_mutex_unlock(&out->mutex);
    run_window_free(w);
}

static void tell(struct run_output *out, struct buf *told)
{
    run_summary_print(&out->summary, told);
    if (out->n_files > 0) {
        buf_addf(told, "profiles:\n");
        buf_add_bytes(told, buf_bytes(&out->files));
        if (out->n_files > FILES_TOLD)
            buf_addf(told, "  and %zu more in %s\n", out->n_files - FILES_TOLD, out->folder);
    }
    if (out->taken > 0)
        buf_addf(told, "sent to %s\n", out->remote.shown);
}

static void tell_trouble(const struct run_output *out, struct buf *told)
{
    size_t dropped = out->windows_dropped + out->messages_dropped;

    if (out->files_failed > 0)
        buf_addf(told, "vesta: %zu files of profiles were not written: %s\n", out->files_failed,
                 out->file_trouble.text);
    if (out->rejected > 0)
        buf_addf(told, "vesta: %s rejected %llu profiles%s%s\n", out->remote.shown,
                 (unsigned long long)out->rejected, out->response.text[0] ? ": " : "",
                 out->response.text);
    else if (out->response.text[0])
        buf_addf(told, "vesta: %s says: %s\n", out->remote.shown, out->response.text);
    if (dropped > 0)
        buf_addf(told, "vesta: %zu windows of profiles were dropped\n", dropped);
    if (out->trouble.text[0] && (dropped > 0 || out->sent + out->n_files + out->files_failed == 0))
        buf_addf(told, "vesta: %s\n", out->trouble.text);
}

void run_output_finish(struct run_output *out, const volatile sig_atomic_t *stop,
                       struct buf *summary, struct buf *trouble)
{
    out->give_up_ns = last_call_ends(out);
    pthread_mutex_lock(&out->mutex);
    out->is_over = true;
    pthread_cond_signal(&out->cond);
    pthread_mutex_unlock(&out->mutex);
    while (out->has_thread) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_timedjoin_np(out->thread, NULL, &until) == 0)
            out->has_thread = false;
        else if (out->is_calling && now_ns() >= out->give_up_ns)
            out->is_late = true;
        if (*stop || out->is_late)
            out->is_stopped = 1;
    }
    tell(out, summary);
    tell_trouble(out, trouble);
}
