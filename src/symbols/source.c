#include "symbols/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"
#include "profile/path.h"

struct source_file {
    struct budget budget;
    char path[PATH_MAX];
    VEC(uint8_t) text;
    VEC(uint32_t) starts; /* of lines, in text */
};

/* True when this is a plain file, whose name is then in `to`. */
static bool try_file(const char *path, char *to)
{
    struct stat st;

    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    snprintf(to, PATH_MAX, "%s", path);
    return true;
}

/* Looks below a folder and all above it. */
static bool search_up(struct bytes dir, struct bytes name, char *to)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct buf clean = {0};

    if (dir.len > 0 && dir.data[0] != '/' && getcwd(folder, sizeof(folder)))
        buf_addf(&clean, "%s/", folder);
    buf_add_bytes(&clean, dir);
    struct buf shortest = {0};
    path_clean(buf_bytes(&clean), &shortest);
    snprintf(folder, sizeof(folder), "%s", buf_cstr(&shortest));
    buf_done(&clean);
    buf_done(&shortest);
    for (;;) {
        int n = snprintf(path, sizeof(path), "%s%s%.*s", folder,
                         strcmp(folder, "/") == 0 ? "" : "/", (int)name.len, name.data);
        if (n > 0 && n < PATH_MAX && try_file(path, to))
            return true;
        char *slash = strrchr(folder, '/');
        if (!slash || strcmp(folder, "/") == 0)
            return false;
        slash[slash == folder] = '\0';
    }
}

/* Node and browsers name local files as URLs; cleaned as paths, these begin "file:/". */
static const char *without_scheme(const char *file)
{
    if (strncmp(file, "file:/", 6) != 0)
        return file;
    file += 5;
    while (file[0] == '/' && file[1] == '/')
        file++;
    return file;
}

static bool find_file(const char *file, const char *trim_path, const char *search_path, char *to)
{
    char path[PATH_MAX];
    struct bytes name = path_trim(bytes_of(without_scheme(file)), trim_path, search_path);

    if (name.len == 0 || name.len >= PATH_MAX)
        return false;
    snprintf(path, sizeof(path), "%.*s", (int)name.len, name.data);
    if (path[0] == '/')
        return try_file(path, to);
    for (const char *dirs = search_path; *dirs;) {
        size_t n = strcspn(dirs, ":");
        if (n > 0 && n < PATH_MAX && search_up((struct bytes){(const uint8_t *)dirs, n}, name, to))
            return true;
        dirs += n + (dirs[n] != '\0');
    }
    return false;
}

static int read_text(struct source_file *s, struct error *err)
{
    struct stat st;
    CLEANUP(closep) int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, -errno, "could not open \"%s\": %m", s->path);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > SOURCE_FILE_MAX)
        return error_set(err, -EFBIG, "\"%s\" has %jd bytes, the limit for source is %zu", s->path,
                         (intmax_t)st.st_size, SOURCE_FILE_MAX);
    if (!vec_resize(&s->budget, &s->text, (size_t)st.st_size))
        return budget_error(&s->budget, err);
    size_t at = 0;
    while (at < s->text.len) {
        ssize_t n = read(fd, s->text.data + at, s->text.len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, -errno, "could not read \"%s\": %m", s->path);
        if (n == 0)
            break;
        at += (size_t)n;
    }
    s->text.len = at;
    return 0;
}

static void split_lines(struct source_file *s)
{
    for (size_t at = 0; at < s->text.len;) {
        vec_push(&s->budget, &s->starts, (uint32_t)at);
        const uint8_t *end = memchr(s->text.data + at, '\n', s->text.len - at);
        at = end ? (size_t)(end - s->text.data) + 1 : s->text.len;
    }
}

int source_open(const char *file, const char *trim_path, const char *search_path,
                struct source_file **ret, struct error *err)
{
    const char *where = search_path && search_path[0] ? search_path : ".";
    CLEANUP(source_closep) struct source_file *s = calloc(1, sizeof(*s));

    if (!s)
        return error_set(err, -ENOMEM, "out of memory");
    /* A line costs 4 bytes more than its own. */
    budget_init(&s->budget, 16 * SOURCE_FILE_MAX);
    if (!find_file(file, trim_path, where, s->path))
        return error_set(err, -ENOENT, "could not find file %s on path %s", file, where);
    int r = read_text(s, err);
    if (r < 0)
        return r;
    split_lines(s);
    if (budget_failed(&s->budget))
        return budget_error(&s->budget, err);
    *ret = TAKE_PTR(s);
    return 0;
}

void source_close(struct source_file *s)
{
    if (!s)
        return;
    vec_done(&s->budget, &s->text);
    vec_done(&s->budget, &s->starts);
    free(s);
}

const char *source_path(const struct source_file *s)
{
    return s->path;
}

size_t source_line_count(const struct source_file *s)
{
    return s->starts.len;
}

struct bytes source_line(const struct source_file *s, size_t n)
{
    if (n == 0 || n > s->starts.len)
        return (struct bytes){s->text.data, 0};
    size_t from = s->starts.data[n - 1];
    size_t to = n < s->starts.len ? s->starts.data[n] : s->text.len;
    while (to > from && (s->text.data[to - 1] == '\n' || s->text.data[to - 1] == '\r'))
        to--;
    return (struct bytes){s->text.data + from, to - from};
}
