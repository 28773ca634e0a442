#include "symbols/binary_search.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

static bool all_zeros(const char *s)
{
    return s[strspn(s, "0")] == '\0';
}

/*
 * How a file's build id and a mapping's agree: equal, different, or one is not known. A mapping's
 * may be padded with zeros (perf does) or be Go's own build id.
 */
enum build_id_match { BUILD_ID_SAME, BUILD_ID_OTHER, BUILD_ID_UNKNOWN };

static enum build_id_match build_id_compare(const struct elf_file *f, const char *build_id)
{
    struct build_id_text id = elf_build_id_text(f);
    size_t n = strlen(id.text);

    if (build_id[0] == '\0')
        return BUILD_ID_UNKNOWN;
    if (f->go_build_id && strcmp(f->go_build_id, build_id) == 0)
        return BUILD_ID_SAME;
    if (n == 0 || build_id[strspn(build_id, "0123456789abcdefABCDEF")] != '\0')
        return BUILD_ID_UNKNOWN;
    if (strncasecmp(id.text, build_id, n) == 0 && all_zeros(build_id + n))
        return BUILD_ID_SAME;
    return BUILD_ID_OTHER;
}

struct search {
    const struct binary_query *q;
    struct binary *found;
    bool is_stale; /* a file was there, but of another build */
    char stale[256];
};

/* Opens a candidate and keeps it if its build id agrees. */
static bool consider(struct search *s, bool must_agree, const char *path)
{
    CLEANUP(binary_closep) struct binary *b = NULL;

    if (s->found || binary_open(path, s->q->options, &b, NULL) < 0)
        return s->found != NULL;
    enum build_id_match match = build_id_compare(binary_elf(b), s->q->build_id);
    if (match == BUILD_ID_OTHER || (must_agree && match != BUILD_ID_SAME)) {
        s->is_stale = true;
        snprintf(s->stale, sizeof(s->stale), "%s", path);
        return false;
    }
    s->found = TAKE_PTR(b);
    return true;
}

static bool try_path(struct search *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool try_path(struct search *s, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    return n > 0 && n < PATH_MAX && consider(s, s->q->build_id[0] != '\0', path);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Build ids become parts of paths, so only plain hex is used for that. */
static bool is_plain_id(const char *id)
{
    size_t n = strlen(id);
    return n > 2 && n <= (size_t)2 * BUILD_ID_MAX &&
           id[strspn(id, "0123456789abcdefABCDEF")] == '\0';
}

static bool search_by_id(struct search *s, const char *dir, int n)
{
    const char *id = s->q->build_id, *file = s->q->file;

    if (!is_plain_id(id))
        return false;
    if (!s->q->only_by_build_id && (try_path(s, "%.*s/%s/%s", n, dir, id, base_name(file)) ||
                                    try_path(s, "%.*s/%s/%s/elf", n, dir, file, id) ||
                                    try_path(s, "%.*s/%s/%s", n, dir, file, id)))
        return true;
    return (try_path(s, "%.*s/%.2s/%s.debug", n, dir, id, id + 2) ||
            try_path(s, "%.*s/.build-id/%.2s/%s.debug", n, dir, id, id + 2) ||
            try_path(s, "%.*s/%s/executable", n, dir, id) ||
            try_path(s, "%.*s/%s/debuginfo", n, dir, id));
}

static bool search_by_name(struct search *s, const char *dir, int n)
{
    const char *file = s->q->file, *base = base_name(file);
    int folder = (int)(base - file);

    if (file[0] == '\0' || base[0] == '\0')
        return false;
    return try_path(s, "%.*s/%s", n, dir, base) || try_path(s, "%.*s/%s", n, dir, file) ||
           try_path(s, "%.*s/%s.debug", n, dir, file) ||
           try_path(s, "%.*s/%.*s.debug/%s.debug", n, dir, folder, file, base) ||
           try_path(s, "%.*s/usr/lib/debug/%s.debug", n, dir, file);
}

static void search_path(struct search *s)
{
    const char *dirs = s->q->search_path;

    while (dirs && *dirs && !s->found) {
        int n = (int)strcspn(dirs, ":");
        if (n > 0 && !search_by_id(s, dirs, n) && !s->q->only_by_build_id)
            search_by_name(s, dirs, n);
        dirs += n + (dirs[n] != '\0');
    }
}

static int stale(struct error *err, const char *path, const char *build_id)
{
    return error_set(err, -ESTALE, "%s has another build id than the profile (%s)", path, build_id);
}

/* A program given by hand is taken unless it is of another build. */
static int open_override(const struct binary_query *q, struct binary **ret, struct error *err)
{
    CLEANUP(binary_closep) struct binary *b = NULL;
    int r = binary_open(q->override, q->options, &b, err);

    if (r < 0)
        return r;
    if (build_id_compare(binary_elf(b), q->build_id) == BUILD_ID_OTHER)
        return stale(err, q->override, q->build_id);
    *ret = TAKE_PTR(b);
    return 0;
}

int binary_find(const struct binary_query *query, struct binary **ret, struct error *err)
{
    static const char deleted[] = " (deleted)";
    struct binary_query copy = *query, *q = &copy;
    struct search s = {.q = q};
    char file[PATH_MAX];

    if (q->override)
        return open_override(q, ret, err);
    /* What the kernel appends when a file was replaced; the new one may be the same build. */
    size_t n = strlen(q->file), suffix = sizeof(deleted) - 1;
    if (n > suffix && n < PATH_MAX && strcmp(q->file + n - suffix, deleted) == 0) {
        snprintf(file, sizeof(file), "%.*s", (int)(n - suffix), q->file);
        q->file = file;
    }
    search_path(&s);
    if (!s.found && q->file[0] != '\0' && !q->only_by_build_id)
        consider(&s, false, q->file);
    if (!s.found && is_plain_id(q->build_id) && !q->only_by_build_id)
        try_path(&s, "/usr/lib/debug/.build-id/%.2s/%s.debug", q->build_id, q->build_id + 2);
    if (s.found) {
        *ret = s.found;
        return 0;
    }
    if (s.is_stale)
        return stale(err, s.stale, q->build_id);
    return error_set(err, -ENOENT, "no binary found for %s",
                     q->file[0] ? q->file : "a mapping without a name");
}
