#pragma once

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A directory of a test's own, in TMPDIR, removed with all that is in it. */
struct scratch {
    char path[256];
    char name[512];
};

static inline void scratch_init(struct scratch *s)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(s->path, sizeof(s->path), "%s/vesta-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(s->path)) {
        printf("Bail out! could not make %s\n", s->path);
        exit(1);
    }
}

static inline int scratch_remove_(const char *path, const struct stat *st, int type,
                                  struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

static inline void scratch_done(struct scratch *s)
{
    nftw(s->path, scratch_remove_, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path of `name` in it, until the next call. */
static inline char *scratch_name(struct scratch *s, const char *name)
{
    snprintf(s->name, sizeof(s->name), "%s/%s", s->path, name);
    return s->name;
}
