#include "rival.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "formats/formats.h"

#define ASKED 7 /* times */

double rival_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void rival_die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(1);
}

/* Which number a node has among the stacks. */
static uint32_t stack_of(struct rival_rows *rows, uint32_t **numbers, size_t *n_numbers,
                         uint32_t node)
{
    if (node >= *n_numbers) {
        size_t n = (size_t)node * 2 + 64;
        *numbers = realloc(*numbers, n * sizeof(**numbers));
        rows->stacks = realloc(rows->stacks, n * sizeof(*rows->stacks));
        if (!*numbers || !rows->stacks)
            abort();
        memset(*numbers + *n_numbers, 0, (n - *n_numbers) * sizeof(**numbers));
        *n_numbers = n;
    }
    if ((*numbers)[node] == 0) {
        rows->stacks[rows->n_stacks++] = node;
        (*numbers)[node] = (uint32_t)rows->n_stacks;
    }
    return (*numbers)[node] - 1;
}

static void add_profile(struct rival_rows *rows, const struct data_r_profile *from,
                        uint32_t **numbers, size_t *n_numbers)
{
    struct error err;
    CLEANUP(input_closep)
    struct input *in = input_from_bytes(from->packed, "set R", &rows->budget);
    bool is_asked = from->time_ns >= DATA_R_FROM_NS && from->time_ns < DATA_R_TO_NS;

    if (format_read(in, &format_pprof, rows->set, NULL, &err) < 0)
        rival_die("set R", err.text);
    const struct profile *p = rows->set->profiles.data[0];
    for (size_t i = 0; i < p->n_samples; i++) {
        struct rival_row *row = &rows->rows[rows->n++];
        *row = (struct rival_row){
            .time_ns = from->time_ns,
            .pod = from->pod,
            .stack = stack_of(rows, numbers, n_numbers, p->node[i]),
            .count = p->values[0][i],
            .cpu = p->values[1][i],
        };
        rows->asked_cpu += is_asked ? row->cpu : 0;
        rows->asked_pod_cpu += is_asked && from->pod == RIVAL_POD ? row->cpu : 0;
    }
    profile_set_truncate(rows->set, 0);
}

void rival_load(int argc, char **argv, struct rival_rows *ret)
{
    struct error err;
    uint32_t *numbers = NULL;
    size_t n_numbers = 0;

    if (argc < 5)
        rival_die("usage", "DIR PODS WINDOWS WORK...");
    *ret = (struct rival_rows){0};
    budget_init(&ret->budget, SIZE_MAX / 2);
    ret->set = profile_set_new(&ret->budget);
    if (data_r_open(argv[1], (uint32_t)strtoul(argv[2], NULL, 10),
                    (uint32_t)strtoul(argv[3], NULL, 10), &ret->r, &err) < 0)
        rival_die("set R", err.text);
    ret->rows = calloc(ret->r->n_samples, sizeof(*ret->rows));
    if (!ret->rows)
        abort();
    for (size_t i = 0; i < ret->r->n; i++)
        add_profile(ret, &ret->r->profiles[i], &numbers, &n_numbers);
    free(numbers);
}

void rival_done(struct rival_rows *rows)
{
    profile_set_free(rows->set);
    data_r_close(rows->r);
    free(rows->rows);
    free(rows->stacks);
}

void rival_stack_text(const struct rival_rows *rows, size_t stack, struct buf *out)
{
    const struct dict *d = rows->set->dict;
    bool is_first = true;

    for (uint32_t node = rows->stacks[stack]; node; node = d->node_parent.data[node]) {
        const struct location *l = &d->locations.data[d->node_location.data[node]];
        for (uint32_t i = 0; i < l->n_lines; i++, is_first = false) {
            const struct line *line = &d->lines.data[l->first_line + i];
            if (!is_first)
                buf_add_byte(out, ';');
            buf_add_str(out, dict_cstr(d, d->functions.data[line->function].name));
        }
    }
}

double rival_ask(int64_t (*ask)(void *ctx, bool one_pod), void *ctx, bool one_pod, int64_t want)
{
    double best = 1e9;

    for (int i = 0; i < ASKED; i++) {
        double start = rival_now();
        if (ask(ctx, one_pod) != want)
            rival_die("merge", "its sum is wrong");
        double took = (rival_now() - start) * 1e3;
        best = took < best ? took : best;
    }
    return best;
}

uint64_t rival_disk_bytes(const char *dir)
{
    DIR *d = opendir(dir);
    uint64_t sum = 0;

    if (!d)
        rival_die(dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || lstat(path, &st) < 0)
            continue;
        sum += S_ISDIR(st.st_mode) ? rival_disk_bytes(path) : (uint64_t)st.st_size;
    }
    closedir(d);
    return sum;
}
