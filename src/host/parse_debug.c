#include <limits.h>
#include <stdio.h>

#include "host/parse.h"

/* Where to look, and whom to tell. */
struct search {
    const struct parse_facts *facts;
    const char *path;
    int folder; /* length of the path's folder, without a slash at its end */
    parse_debug_path *fn;
    void *arg;
};

static int try(const struct search *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int try(const struct search *s, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    if (n < 0 || n >= PATH_MAX || strcmp(path, s->path) == 0)
        return 0;
    return s->fn(s->arg, path);
}

static int try_build_id(const struct search *s, const char *dir)
{
    const char *id = s->facts->build_id;

    return strlen(id) > 2 ? try(s, "%s/.build-id/%.2s/%s.debug", dir, id, id + 2) : 0;
}

static int try_link(const struct search *s, const char *dir)
{
    return try(s, "%s%.*s/%s", dir, s->folder, s->path, s->facts->debug_link);
}

int parse_debug_paths(const struct parse_facts *f, const char *path, const char *const *dirs,
                      size_t n_dirs, parse_debug_path *fn, void *arg)
{
    const char *slash = strrchr(path, '/');
    struct search s = {f, path, slash ? (int)(slash - path) : 0, fn, arg};
    int r = 0;

    for (size_t i = 0; i < n_dirs && r == 0; i++)
        r = try_build_id(&s, dirs[i]);
    if (r == 0)
        r = try_build_id(&s, PARSE_DEBUG_DIR);
    /* What a file says of itself must not lead out of the folders. */
    if (r != 0 || f->debug_link[0] == '\0' || strchr(f->debug_link, '/') || path[0] != '/')
        return r;
    r = try(&s, "%.*s/%s", s.folder, path, f->debug_link);
    if (r == 0)
        r = try(&s, "%.*s/.debug/%s", s.folder, path, f->debug_link);
    for (size_t i = 0; i < n_dirs && r == 0; i++)
        r = try_link(&s, dirs[i]);
    return r == 0 ? try_link(&s, PARSE_DEBUG_DIR) : r;
}
