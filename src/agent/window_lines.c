#include "agent/window_lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"

#define WAIT_NS    ((int64_t)5000000000)
#define PLACES_MAX 65536
#define FRAMES_MAX ((size_t)8 << 20)

struct lines {
    struct window *window; /* that it is about */
    place *places;         /* ascending: those of a file stand together */
    size_t n, next;
    size_t asked; /* answers that are due */
    bool is_abandoned;
    int64_t since_ns;
};

/* A question under way: places[first .. first + n) of one file. */
struct batch {
    struct agent *agent;
    struct lines *lines;
    size_t first, n;
};

static int by_place(const void *a, const void *b)
{
    place x = *(const place *)a, y = *(const place *)b;

    return x < y ? -1 : x > y;
}

/* Frees it, or leaves that to the last answer. */
void lines_free(struct lines *l)
{
    if (!l)
        return;
    if (l->asked > 0) {
        l->is_abandoned = true;
        return;
    }
    free(l->places);
    free(l);
}

static void collect(struct agent *a, struct lines *l)
{
    l->places = must_calloc(PLACES_MAX, sizeof(place));
    for (size_t i = 0; i < l->window->rows.len; i++) {
        const struct window_sample *s = &l->window->rows.data[i].sample;
        for (uint32_t k = s->n_kernel; k < s->n_places && l->n < PLACES_MAX; k++) {
            uint32_t file = place_file(s->places[k]);
            if (file != PLACE_RAW && file != PLACE_JIT && !naming_knows(a->naming, s->places[k]))
                l->places[l->n++] = s->places[k];
        }
    }
    qsort(l->places, l->n, sizeof(place), by_place);
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++)
        if (kept == 0 || l->places[kept - 1] != l->places[i])
            l->places[kept++] = l->places[i];
    l->n = kept;
}

static void take_answer(struct batch *b, struct bytes data)
{
    struct agent *a = b->agent;
    struct code_file *f = code_files_get(a->files, place_file(b->lines->places[b->first]));
    struct lookup *lookups = must_calloc(b->n, sizeof(*lookups));
    struct budget budget;
    struct arena arena;
    struct error err;

    budget_init(&budget, FRAMES_MAX);
    arena_init(&arena, &budget);
    for (size_t i = 0; i < b->n; i++)
        lookups[i].va = place_address(b->lines->places[b->first + i]);
    int answered = parse_read_lines(data, &arena, lookups, b->n, &err);
    for (int i = 0; f && i < answered; i++)
        naming_put_lines(a->naming, f, lookups[i].va, lookups[i].innermost);
    arena_done(&arena);
    free(lookups);
}

static void answered(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct batch *b = arg;
    struct lines *l = b->lines;

    (void)text;
    if (fd >= 0)
        close(fd);
    l->asked--;
    if (r == 0 && !l->is_abandoned)
        take_answer(b, data);
    if (l->is_abandoned)
        lines_free(l);
    free(b);
}

static void ask_file(struct agent *a, struct lines *l, size_t first, size_t n)
{
    struct code_file *f = code_files_get(a->files, place_file(l->places[first]));
    uint64_t vas[PARSE_LINES_MAX];

    if (!f || f->fd < 0 ||
        !(f->parsed.facts.has_dwarf || f->parsed.facts.is_go || f->debug_fd >= 0))
        return;
    for (size_t i = 0; i < n; i++)
        vas[i] = place_address(l->places[first + i]);
    CLEANUP(buf_done) struct buf q = {0};
    parse_question_lines(vas, n, &q);
    struct batch *b = must_calloc(1, sizeof(*b));
    *b = (struct batch){a, l, first, n};
    int fds[] = {f->fd, f->debug_fd >= 0 ? f->debug_fd : f->fd};
    l->asked++;
    if (worker_ask(a->parser, buf_bytes(&q), fds, 2, answered, b) < 0) {
        l->asked--;
        free(b);
    }
}

static void ask_all(struct agent *a, struct lines *l)
{
    for (size_t i = 0; i < l->n;) {
        size_t n = 1;
        while (i + n < l->n && n < PARSE_LINES_MAX &&
               place_file(l->places[i + n]) == place_file(l->places[i]))
            n++;
        ask_file(a, l, i, n);
        i += n;
    }
}

bool lines_are_ready(struct agent *a, int64_t now_ns)
{
    struct lines *l = a->lines;

    if (!l) {
        l = a->lines = must_calloc(1, sizeof(*l));
        l->window = a->closing;
        l->since_ns = loop_now_ns(a->loop);
        collect(a, l);
        ask_all(a, l);
    }
    if (l->asked > 0 && now_ns - l->since_ns < WAIT_NS)
        return false;
    a->lines = NULL;
    lines_free(l);
    return true;
}
