#include "symbols/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/bisect.h"
#include "base/cleanup.h"

/* How many replaced functions that start before an address are looked at. */
#define OVERLAPS_MAX 256

static bool parse_line(struct bytes line, struct perf_map_entry *ret, struct bytes *ret_name)
{
    uint64_t start, size;
    const uint8_t *space = bytes_find_byte(line, ' ');

    if (!space || !bytes_to_hex(bytes_head(line, (size_t)(space - line.data)), &start))
        return false;
    line = bytes_from(line, (size_t)(space - line.data) + 1);
    space = bytes_find_byte(line, ' ');
    if (!space || !bytes_to_hex(bytes_head(line, (size_t)(space - line.data)), &size))
        return false;
    *ret_name = bytes_trim(bytes_from(line, (size_t)(space - line.data) + 1));
    if (ret_name->len == 0 || size == 0 || start + size < start)
        return false;
    *ret = (struct perf_map_entry){.start = start, .end = start + size};
    return true;
}

static int compare_entries(const void *a, const void *b)
{
    const struct perf_map_entry *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->line < y->line ? -1 : 1;
}

int perf_map_parse(struct perf_map *m, struct bytes text, struct budget *budget, struct error *err)
{
    struct bytes line, name;
    struct perf_map_entry e;
    uint32_t n = 0;

    *m = (struct perf_map){.budget = budget};
    arena_init(&m->text, budget);
    while (bytes_next_line(&text, &line) && n < UINT32_MAX) {
        n++;
        if (!parse_line(line, &e, &name)) {
            m->skipped += line.len > 0;
            continue;
        }
        e.line = n;
        e.name = arena_strdup(&m->text, name);
        if (!e.name || !vec_push(budget, &m->entries, e))
            return budget_error(budget, err);
    }
    if (m->entries.len == 0 && m->skipped > 0)
        return error_set(err, -EBADMSG, "perf map: no line reads \"START SIZE NAME\"");
    if (m->entries.len > 0)
        qsort(m->entries.data, m->entries.len, sizeof(e), compare_entries);
    return 0;
}

static int read_all(int fd, struct budget *budget, struct stat *st, struct bytes *ret,
                    struct error *err)
{
    void *data = NULL;
    size_t size = (size_t)st->st_size, at = 0;

    if (!budget_resize(budget, &data, 0, size + 1))
        return budget_error(budget, err);
    while (at < size) {
        ssize_t n = read(fd, (uint8_t *)data + at, size - at);
        if (n <= 0)
            break; /* the program may still be writing: what is there counts */
        at += (size_t)n;
    }
    *ret = (struct bytes){data, at};
    return 0;
}

int perf_map_read(struct perf_map *m, const char *path, struct budget *budget, struct error *err)
{
    struct stat st;
    struct bytes text = {0};

    *m = (struct perf_map){.budget = budget};
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0)
        return error_set(err, -errno, "could not open \"%s\": %m", path);
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "could not stat \"%s\": %m", path);
    if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
        return error_set(err, -EPERM, "\"%s\" is not a plain file of this user or root", path);
    int r = read_all(fd, budget, &st, &text, err);
    if (r < 0)
        return r;
    r = perf_map_parse(m, text, budget, err);
    budget_free(budget, (void *)(uintptr_t)text.data, (size_t)st.st_size + 1);
    return r < 0 ? error_prefix(err, r, "%s", path) : 0;
}

void perf_map_done(struct perf_map *m)
{
    if (!m->budget)
        return;
    vec_done(m->budget, &m->entries);
    if (m->text.budget)
        arena_done(&m->text);
}

const char *perf_map_find(const struct perf_map *m, uint64_t address)
{
    size_t after = BISECT(m->entries.len, i, m->entries.data[i].start <= address);
    const struct perf_map_entry *best = NULL;

    for (size_t i = after, steps = 0; i > 0 && steps < OVERLAPS_MAX; i--, steps++) {
        const struct perf_map_entry *e = &m->entries.data[i - 1];
        if (address < e->end && (!best || e->line > best->line))
            best = e;
    }
    return best ? best->name : NULL;
}
