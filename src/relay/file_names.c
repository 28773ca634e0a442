#include "relay/file_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* "20261115T211054.123Z" */
#define TIME_LEN  ((size_t)20)
#define NAMES_MAX ((size_t)1 << 17) /* beyond, the oldest go as well */

struct kept_name {
    char *name;
    uint64_t size;
    char time[TIME_LEN + 1]; /* as the name has it: it sorts as the time does */
};

/* Where the time stands in a name that is ours, or NULL: "-TIME[-N].pb.gz", ".pb.gz.json" or
 * ".otlp.gz" at the end. */
static const char *time_in(const char *name)
{
    static const char shape[] = "00000000T000000.000Z";
    const char *dot = NULL;

    for (const char *at = strchr(name, '-'); at; at = strchr(at + 1, '-')) {
        size_t i = 0;
        while (i < TIME_LEN &&
               (shape[i] == '0' ? isdigit((unsigned char)at[1 + i]) != 0 : at[1 + i] == shape[i]))
            i++;
        if (i == TIME_LEN)
            dot = at + 1;
    }
    if (!dot)
        return NULL;
    const char *end = dot + TIME_LEN;
    if (*end == '-')
        end += 1 + strspn(end + 1, "0123456789");
    return strcmp(end, ".pb.gz") == 0 || strcmp(end, ".pb.gz.json") == 0 ||
                   strcmp(end, ".otlp.gz") == 0
               ? dot
               : NULL;
}

void file_names_add(struct file_names *f, const char *name, uint64_t size)
{
    const char *time = time_in(name);

    if (!time)
        return;
    if (f->n == f->cap && f->first > f->cap / 2) {
        memmove(f->list, f->list + f->first, (f->n - f->first) * sizeof(*f->list));
        f->n -= f->first;
        f->first = 0;
    }
    if (f->n == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 64;
        f->list = must_realloc(f->list, f->cap * sizeof(*f->list));
    }
    struct kept_name *k = &f->list[f->n++];
    *k = (struct kept_name){.name = must_copy(bytes_of(name)), .size = size};
    memcpy(k->time, time, TIME_LEN);
    f->bytes += size;
}

struct reading {
    struct file_names *names;
    struct fs *fs;
};

static int found(void *arg, const char *name, bool is_dir)
{
    struct reading *r = arg;
    uint64_t size;

    if (!is_dir && time_in(name) && fs_path_size(r->fs, name, &size, NULL) == 0)
        file_names_add(r->names, name, size);
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct kept_name *x = a, *y = b;
    int order = strcmp(x->time, y->time);

    return order ? order : strcmp(x->name, y->name);
}

int file_names_read(struct file_names *f, struct fs *fs, struct error *err)
{
    struct reading r = {f, fs};
    int failed = fs_list(fs, ".", found, &r, err);

    if (failed == 0 && f->n > 0)
        qsort(f->list, f->n, sizeof(*f->list), by_time);
    return failed;
}

static bool is_sidecar_of(const struct kept_name *k, const char *name)
{
    size_t len = strlen(name);

    return strncmp(k->name, name, len) == 0 && strcmp(k->name + len, ".json") == 0;
}

static void remove_first(struct file_names *f, struct fs *fs)
{
    struct kept_name *k = &f->list[f->first++];

    (void)fs_unlink(fs, k->name, NULL);
    f->bytes -= k->size;
    f->removed++;
    if (f->first < f->n && is_sidecar_of(&f->list[f->first], k->name))
        remove_first(f, fs);
    free(k->name);
}

void file_names_cut(struct file_names *f, struct fs *fs)
{
    while (f->n - f->first > 2 &&
           ((f->keep > 0 && f->bytes > f->keep) || f->n - f->first > NAMES_MAX))
        remove_first(f, fs);
}

void file_names_done(struct file_names *f)
{
    while (f->first < f->n)
        free(f->list[f->first++].name);
    free(f->list);
}
