#include "server/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/must.h"
#include "query/time_range.h"
#include "wire/json.h"

#define TAIL_MAX   ((size_t)1 << 20) /* bytes of a file that are looked at */
#define MEMORY_MAX ((size_t)1 << 20)

struct audit {
    char *path; /* NULL: in memory */
    pthread_mutex_t lock;
    struct buf memory;
};

static int failed(const struct audit *a, const char *what, struct error *err)
{
    int r = -errno;
    return error_set(err, r, "could not %s the audit log \"%s\": %m", what, a->path);
}

static int open_file(const struct audit *a, struct error *err)
{
    int fd = open(a->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    return fd < 0 ? failed(a, "open", err) : fd;
}

int audit_open(const char *path, struct audit **ret, struct error *err)
{
    CLEANUP(audit_closep) struct audit *a = must_calloc(1, sizeof(*a));

    pthread_mutex_init(&a->lock, NULL);
    if (path) {
        a->path = must_copy(bytes_of(path));
        CLEANUP(closep) int fd = open_file(a, err);
        if (fd < 0)
            return fd;
    }
    *ret = TAKE_PTR(a);
    return 0;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    pthread_mutex_destroy(&a->lock);
    buf_done(&a->memory);
    free(a->path);
    free(a);
}

static void name_of(const struct audit *a, int age, char path[PATH_MAX])
{
    if (age == 0)
        snprintf(path, PATH_MAX, "%s", a->path);
    else
        snprintf(path, PATH_MAX, "%s.%d", a->path, age);
}

/* Two processes that do this at once lose nothing but order. */
static void rotate(const struct audit *a)
{
    char from[PATH_MAX], to[PATH_MAX];

    for (int age = AUDIT_FILES; age > 0; age--) {
        name_of(a, age - 1, from);
        name_of(a, age, to);
        (void)rename(from, to);
    }
}

static int add_to_file(const struct audit *a, struct bytes line, struct error *err)
{
    CLEANUP(closep) int fd = open_file(a, err);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size > AUDIT_FILE_MAX) {
        rotate(a);
        close(fd);
        fd = open_file(a, err);
        if (fd < 0)
            return fd;
    }
    ssize_t n = write(fd, line.data, line.len); /* one call: lines do not mix */
    if (n >= 0 && (size_t)n < line.len)
        errno = ENOSPC;
    if (n < (ssize_t)line.len || fsync(fd) < 0)
        return failed(a, "add to", err);
    return 0;
}

static void add_to_memory(struct audit *a, struct bytes line)
{
    if (a->memory.len + line.len > MEMORY_MAX)
        buf_clear(&a->memory);
    buf_add_bytes(&a->memory, line);
}

int audit_add(struct audit *a, const struct audit_event *e, struct error *err)
{
    CLEANUP(buf_done) struct buf line = {0};
    struct json_writer w = {.out = &line};
    char when[TIME_TEXT_MAX];
    int r = 0;

    const struct {
        const char *key;
        struct bytes value;
    } fields[] = {
        {"time", bytes_of(time_text(clock_wall_ns(clock_real()), when))},
        {"actor", bytes_of(e->actor)},
        {"peer", bytes_of(e->peer)},
        {"tenant", e->tenant},
        {"action", bytes_of(e->action)},
        {"what", e->what},
    };
    json_begin_object(&w);
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        json_key(&w, fields[i].key);
        json_string(&w, fields[i].value);
    }
    json_end_object(&w);
    buf_add_byte(&line, '\n');
    pthread_mutex_lock(&a->lock);
    if (a->path)
        r = add_to_file(a, buf_bytes(&line), err);
    else
        add_to_memory(a, buf_bytes(&line));
    pthread_mutex_unlock(&a->lock);
    return r;
}

/* The end of the file of this age; nothing when there is none. */
static int read_end(const struct audit *a, int age, struct buf *to, struct error *err)
{
    char path[PATH_MAX];
    name_of(a, age, path);
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    if (fd < 0)
        return errno == ENOENT ? 0 : failed(a, "read", err);
    if (fstat(fd, &st) < 0)
        return failed(a, "read", err);
    size_t n = (uint64_t)st.st_size < TAIL_MAX ? (size_t)st.st_size : TAIL_MAX;
    ssize_t got = pread(fd, buf_reserve(to, n), n, st.st_size - (off_t)n);
    if (got < 0)
        return failed(a, "read", err);
    to->len += (size_t)got;
    return 0;
}

struct tail {
    struct bytes mark; /* how lines of the tenant can be told; empty: all */
    size_t left;
    struct buf *out;
    const char *comma;
};

/* Whole lines from the end; a first one that is cut is left out. */
static void take_lines(struct tail *t, struct bytes text)
{
    while (text.len > 0 && t->left > 0) {
        text.len--; /* its newline */
        const uint8_t *start = text.len ? memrchr(text.data, '\n', text.len) : NULL;
        size_t at = start ? (size_t)(start - text.data) + 1 : 0;
        struct bytes line = bytes_from(text, at);
        bool is_whole = line.len > 1 && line.data[0] == '{' && line.data[line.len - 1] == '}';
        if (is_whole && (t->mark.len == 0 || bytes_find(line, t->mark))) {
            buf_add_str(t->out, t->comma);
            buf_add_bytes(t->out, line);
            t->comma = ",\n";
            t->left--;
        }
        text.len = at;
    }
}

int audit_tail(struct audit *a, struct bytes tenant, size_t limit, struct buf *out,
               struct error *err)
{
    CLEANUP(buf_done) struct buf mark = {0}, text = {0};
    struct tail t = {.left = limit, .out = out, .comma = ""};
    size_t from = out->len;
    int r = 0;

    /* In a line a quote within a value has a backslash before it: this can only be the key. */
    if (tenant.len > 0) {
        struct json_writer w = {.out = &mark};
        json_key(&w, "tenant");
        json_string(&w, tenant);
        t.mark = buf_bytes(&mark);
    }
    buf_add_byte(out, '[');
    if (!a->path) {
        pthread_mutex_lock(&a->lock);
        take_lines(&t, buf_bytes(&a->memory));
        pthread_mutex_unlock(&a->lock);
    }
    for (int age = 0; a->path && age <= AUDIT_FILES && t.left > 0 && r == 0; age++) {
        buf_clear(&text);
        r = read_end(a, age, &text, err);
        take_lines(&t, buf_bytes(&text));
    }
    buf_add_byte(out, ']');
    if (r < 0)
        out->len = from;
    return r;
}
