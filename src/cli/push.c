#include "cli/push.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "query/time_range.h"
#include "wire/inflate.h"
#include "wire/json.h"

#define PACKED_MAX    ((uint64_t)64 << 20) /* larger files go as they are, from the disk */
#define FIRST_WAIT_NS ((int64_t)250 * 1000000)
#define LAST_WAIT_NS  ((int64_t)30 * 1000000000)
#define RETRY_NS      ((int64_t)60 * 1000000000)

static void show_progress(void *arg, const struct http_progress *http)
{
    struct pusher *p = arg;
    CLEANUP(buf_done) struct buf line = {0};

    if (http->seconds < 0.3 && p->n_at % 10 != 0)
        return;
    p->is_line_shown = true;
    buf_add_str(&line, "\r\033[K");
    if (p->n_of > 1)
        buf_addf(&line, "%zu of %zu: ", p->n_at + 1, p->n_of);
    buf_addf(&line, "%.60s", p->name);
    if (http->to_send > 1 << 20)
        buf_addf(&line, ", %.0f %% of %.1f MB", 100.0 * (double)http->sent / (double)http->to_send,
                 (double)http->to_send / 1e6);
    fwrite(line.data, 1, line.len, stderr);
    fflush(stderr);
}

static void clear_line(struct pusher *p)
{
    if (p->is_line_shown)
        fputs("\r\033[K", stderr);
    p->is_line_shown = false;
}

static void say(struct pusher *p, const char *name, const char *text)
{
    CLEANUP(buf_done) struct buf line = {0};

    clear_line(p);
    buf_addf(&line, "vesta: %s%s%s\n", name ? name : "", name ? ": " : "", text);
    terminal_say(buf_bytes(&line));
}

static int add_label(struct pusher *p, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text)
        return error_set(err, -EINVAL, "--label takes NAME=VALUE, not \"%s\"", text);
    remote_label(&p->params, bytes_head(bytes_of(text), (size_t)(equals - text)),
                 bytes_of(equals + 1));
    return 0;
}

static int add_time(struct pusher *p, const char *name, const char *text, struct error *err)
{
    int64_t ns;

    if (!text)
        return 0;
    int r = time_parse(bytes_of(text), clock_wall_ns(clock_real()), &ns, err);
    if (r < 0)
        return error_prefix(err, r, "--%s", name);
    remote_param_i64(&p->params, name, ns);
    return 0;
}

int pusher_init(struct pusher *p, const struct options *o, struct error *err)
{
    *p = (struct pusher){.o = o, .retry_ns = RETRY_NS, .has_from = o->from != NULL};
    random_init(&p->random, random_seed_os());
    budget_init(&p->budget, o->max_memory);
    int r = remote_init(&p->remote, o, err);
    if (r == 0 && o->retry_for && strcmp(o->retry_for, "0") == 0)
        p->retry_ns = 0;
    else if (r == 0 && o->retry_for &&
             duration_parse(bytes_of(o->retry_for), &p->retry_ns, err) < 0)
        r = error_prefix(err, -EINVAL, "--retry-for");
    if (r == 0 && o->service)
        remote_label(&p->params, BYTES("service.name"), bytes_of(o->service));
    for (size_t i = 0; r == 0 && i < o->labels.n; i++)
        r = add_label(p, o->labels.items[i], err);
    if (r == 0)
        r = add_time(p, "from", o->from, err);
    if (r == 0)
        r = add_time(p, "until", o->until, err);
    if (r == 0 && o->input_format)
        remote_param(&p->params, BYTES("format"), bytes_of(o->input_format));
    if (r == 0 && o->is_instant_profile)
        remote_param(&p->params, BYTES("instant"), BYTES("true"));
    if (!o->quiet && isatty(STDERR_FILENO)) {
        p->remote.http.progress = show_progress;
        p->remote.http.progress_arg = p;
    }
    return r;
}

void pusher_done(struct pusher *p)
{
    clear_line(p);
    remote_done(&p->remote);
    buf_done(&p->params);
}

void push_reject(struct pusher *p, const char *name, const char *why)
{
    p->rejected++;
    say(p, name, why);
}

/* What the command line says counts more than what a sidecar does. */
static void make_path(const struct pusher *p, const struct push_item *item, struct buf *path)
{
    CLEANUP(buf_done) struct buf params = {0};
    const struct sidecar *s = item->sidecar;

    buf_add_bytes(&params, buf_bytes(&p->params));
    if (s)
        remote_param_missing(&params, buf_bytes(&s->params));
    if (!p->has_from && !(s && s->has_from) && item->time_ns > 0)
        remote_param_i64(&params, "from", item->time_ns);
    remote_path(path, "/api/v1/profiles", buf_bytes(&params));
}

struct counts {
    size_t stored, duplicates, rejected;
    char why[300];
};

static void read_counts(struct bytes body, struct counts *ret)
{
    struct budget budget;
    budget_init(&budget, (size_t)1 << 20);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);

    *ret = (struct counts){0};
    json_reader_set_text(r, bytes_head(body, (size_t)64 << 10), 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "stored")) {
            ret->stored = (size_t)json_get_u64(r);
        } else if (bytes_are(key, "duplicates")) {
            ret->duplicates = (size_t)json_get_u64(r);
        } else if (bytes_are(key, "rejected")) {
            ret->rejected = (size_t)json_get_u64(r);
        } else if (bytes_are(key, "why")) {
            struct bytes text = bytes_head(json_get_string_or_empty(r), sizeof(ret->why) - 1);
            memcpy(ret->why, text.data, text.len);
            ret->why[text.len] = '\0';
        } else {
            json_skip(r);
        }
    }
}

/* An answer that is no reason to try again. */
static int take_answer(struct pusher *p, const char *name, const struct http_answer *a,
                       struct error *err)
{
    struct counts c;

    if (a->status / 100 == 2 || a->status == 422) { /* 422: all of it was rejected */
        read_counts(http_answer_body(a), &c);
        p->stored += c.stored;
        p->duplicates += c.duplicates;
        p->rejected += c.rejected;
        if (c.rejected > 0)
            say(p, name, c.why[0] ? c.why : "rejected");
        else if (c.stored + c.duplicates == 0)
            say(p, name, "holds no profile");
        return c.rejected == 0;
    }
    int r = remote_refusal(&p->remote, a, err);
    /* Not about this file: the next would fare no better. */
    if (a->status == 401 || a->status == 403 || a->status == 404 || a->status == 405 ||
        a->status == 507)
        return r == -ENOENT ? error_prefix(err, -EIO, "is this a Vesta server?") : r;
    push_reject(p, name, err->text);
    return 0;
}

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

static bool is_stopped(const struct pusher *p)
{
    return p->stop && *p->stop;
}

/* Sleeps, or less when it is to stop. */
static void wait_ns(const struct pusher *p, int64_t ns)
{
    int64_t end = now_ns() + ns;

    for (int64_t left = ns; left > 0 && !is_stopped(p); left = end - now_ns()) {
        int64_t step = left < 200000000 ? left : 200000000;
        nanosleep(&(struct timespec){step / 1000000000, step % 1000000000}, NULL);
    }
}

/* Twice as long each time, and never in step with others that wait for the same server. */
static int64_t next_wait(struct pusher *p, unsigned failures, int64_t retry_after_ms)
{
    int64_t wait = FIRST_WAIT_NS << (failures < 10 ? failures : 10);

    wait = wait < LAST_WAIT_NS ? wait : LAST_WAIT_NS;
    wait = wait / 2 + (int64_t)random_below(&p->random, (uint64_t)wait / 2);
    int64_t asked = retry_after_ms * 1000000;
    if (asked > wait)
        wait = asked + (int64_t)random_below(&p->random, (uint64_t)asked / 10 + 1);
    return wait;
}

static void tell_trouble(struct pusher *p, const struct error *why)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!p->is_troubled && !p->o->quiet) {
        buf_addf(&text, "%s; trying again", why->text);
        say(p, NULL, buf_cstr(&text));
    }
    p->is_troubled = true;
}

static int call_until_answered(struct pusher *p, const struct remote_call *call, const char *name,
                               struct error *err)
{
    int64_t give_up = p->retry_ns < INT64_MAX - now_ns() ? now_ns() + p->retry_ns : INT64_MAX;

    for (unsigned failures = 0;; failures++) {
        struct http_answer a = {.retry_after_ms = -1};
        p->remote.http.cancelled = p->stop;
        int r = remote_call(&p->remote, call, &p->budget, &a, err);
        bool is_later = http_should_retry(r, &a);
        int64_t wait = is_later ? next_wait(p, failures, a.retry_after_ms) : 0;
        if (r == 0 && is_later)
            r = remote_refusal(&p->remote, &a, err);
        else if (r == 0)
            r = take_answer(p, name, &a, err);
        http_answer_done(&p->budget, &a);
        if (!is_later || is_stopped(p) || wait > give_up - now_ns()) {
            p->is_troubled = p->is_troubled && is_later;
            return is_later && is_stopped(p) ? -ECANCELED : r;
        }
        tell_trouble(p, err);
        wait_ns(p, wait);
    }
}

int push_item(struct pusher *p, const struct push_item *item, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    CLEANUP(buf_done) struct buf packed = {0};
    struct remote_call call = {.content_type = "application/octet-stream",
                               .accept = "application/json",
                               .body = item->content,
                               .body_file = item->file,
                               .body_file_len = item->file_len};

    make_path(p, item, &path);
    call.path = buf_cstr(&path);
    p->name = item->name;
    if (item->file_len == 0 && codec_detect(item->content) == CODEC_NONE) {
        gzip_pack(item->content, 6, &packed);
        call.body = buf_bytes(&packed);
        call.content_encoding = "gzip";
    }
    return call_until_answered(p, &call, item->name, err);
}

/* All of an open file, as long as it fits. */
static int read_all(struct pusher *p, int fd, struct buf *to, struct error *err)
{
    to->budget = &p->budget;
    for (;;) {
        uint8_t *room = buf_reserve(to, (size_t)256 << 10);
        if (!room)
            return buf_error(to, err);
        ssize_t n = read(fd, room, (size_t)256 << 10);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, -errno, "%m");
        if (n == 0)
            return 0;
        to->len += (size_t)n;
    }
}

static int open_file(int folder, const char *path, struct stat *st, struct error *err)
{
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO)
                                    : openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, st) < 0) {
        int r = -errno;
        if (fd >= 0)
            close(fd);
        errno = -r;
        return error_set(err, r, "could not open it: %m");
    }
    if (S_ISDIR(st->st_mode)) {
        close(fd);
        return error_set(err, -EISDIR, "is a folder; --watch %.300s pushes what is put there",
                         path);
    }
    return fd;
}

int push_file(struct pusher *p, int folder, const char *path, struct error *err)
{
    CLEANUP(buf_done) struct buf content = {0};
    CLEANUP(sidecar_done) struct sidecar sidecar = {0};
    struct stat st = {0};
    int64_t now = clock_wall_ns(clock_real());
    struct push_item item = {.name = path, .sidecar = &sidecar, .time_ns = now};

    CLEANUP(closep) int fd = open_file(folder, path, &st, err);
    int r = fd < 0 ? fd : 0;
    if (r == 0 && strcmp(path, "-") != 0)
        r = sidecar_read(folder, path, now, &sidecar, err);
    if (r == 0 && S_ISREG(st.st_mode))
        item.time_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (r == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > PACKED_MAX) {
        item.file = fd;
        item.file_len = (uint64_t)st.st_size;
    } else if (r == 0) {
        r = read_all(p, fd, &content, err);
        item.content = buf_bytes(&content);
        if (r == 0 && content.len == 0)
            r = error_set(err, -EBADMSG, "is empty");
    }
    if (r < 0) { /* one bad file does not keep the others out */
        push_reject(p, path, err->text);
        return 0;
    }
    return push_item(p, &item, err);
}

static void summary(struct pusher *p)
{
    clear_line(p);
    if (!p->o->quiet)
        fprintf(stderr, "%zu stored, %zu there already, %zu rejected\n", p->stored, p->duplicates,
                p->rejected);
}

int push_exit(struct pusher *p, int r, const struct error *err)
{
    summary(p);
    if (r < 0 && r != -ECANCELED) {
        int code = command_fail(r, err);
        return r == -EAGAIN || http_should_retry(r, NULL) ? VESTA_EXIT_LATER : code;
    }
    return p->rejected > 0 ? VESTA_EXIT_ERROR : VESTA_EXIT_OK;
}
