#include "scrape/discover.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "scrape/dns.h"
#include "scrape/node_values.h"

#define SECOND_NS       ((int64_t)1000000000)
#define FILES_MAX       256
#define TREE_BYTES      ((size_t)32 << 20) /* of one file, taken apart */
#define FILE_REFRESH_NS (300 * SECOND_NS)
#define FILE_LOOK_NS    SECOND_NS /* whether files changed */
#define DNS_REFRESH_NS  (30 * SECOND_NS)

/* One file or name, and what was found there. */
struct place {
    char *name;
    struct stat seen; /* of a file, when it was read */
    struct tags_list found;
    bool is_broken; /* was told of */
};

enum source_kind { SOURCE_STATIC, SOURCE_FILE, SOURCE_DNS };

struct source {
    enum source_kind kind;
    const struct config_node *node;
    struct place *places;
    size_t n_places;
    int64_t look_ns, refresh_ns; /* when it is due: whether something changed; all of it */
};

struct discover {
    struct source *sources;
    size_t n_sources;
};

/* ---- Groups of targets */

static void add_group(const struct config_node *group, const char *path, struct tags_list *to)
{
    const struct config_node *targets = config_node_get(group, "targets");
    const struct config_node *labels = config_node_get(group, "labels");

    for (const struct config_node *t = targets ? targets->first : NULL;
         t && to->n < SCRAPE_TARGETS_MAX; t = t->next) {
        struct tags tags = {0};
        for (const struct config_node *l = labels ? labels->first : NULL; l; l = l->next)
            tags_set(&tags, bytes_of(l->key), bytes_of(l->value));
        tags_set(&tags, BYTES("__address__"), bytes_of(t->value));
        if (path)
            tags_set(&tags, BYTES("__meta_filepath"), bytes_of(path));
        tags_list_push(to, tags);
    }
}

static void add_groups(const struct config_node *list, const char *path, struct tags_list *to)
{
    for (const struct config_node *n = list ? list->first : NULL; n; n = n->next)
        add_group(n, path, to);
}

int discover_parse_file(struct bytes text, const char *path, struct tags_list *ret,
                        struct error *err)
{
    struct budget budget;
    struct arena arena;
    const struct config_node *tree = NULL;

    budget_init(&budget, TREE_BYTES);
    arena_init(&arena, &budget);
    int r = config_node_read(text, &arena, &tree, err);
    if (r == 0)
        r = scrape_groups_check(tree, err);
    if (r == 0)
        add_groups(tree, path, ret);
    arena_done(&arena);
    return r;
}

/* ---- Files */

static int read_place(const struct place *p, struct tags_list *ret, struct error *err)
{
    CLEANUP(closep) int fd = open(p->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CLEANUP(buf_done) struct buf text = {0};
    ssize_t n = 1;

    if (fd < 0)
        return error_set(err, -errno, "could not open \"%s\": %m", p->name);
    while (n > 0 && text.len <= DISCOVER_FILE_MAX) {
        uint8_t *at = buf_reserve(&text, (size_t)64 << 10);
        n = read(fd, at, (size_t)64 << 10);
        text.len += n > 0 ? (size_t)n : 0;
    }
    if (n < 0)
        return error_set(err, -errno, "could not read \"%s\": %m", p->name);
    if (text.len > DISCOVER_FILE_MAX)
        return error_set(err, -EFBIG, "\"%s\" is larger than the limit of %zu MiB", p->name,
                         DISCOVER_FILE_MAX >> 20);
    int r = discover_parse_file(buf_bytes(&text), p->name, ret, err);
    return r < 0 ? error_prefix(err, r, "%s", p->name) : 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void place_done(struct place *p)
{
    free(p->name);
    tags_list_done(&p->found);
}

/* Puts what was found in place of what was there, or tells why it stays. */
static bool settle(struct place *p, int r, struct tags_list *found, const struct error *err,
                   struct buf *problems)
{
    if (r < 0) {
        tags_list_done(found);
        if (!p->is_broken)
            buf_addf(problems, "%s; what was found there before stays\n", err->text);
        p->is_broken = true;
        return false;
    }
    tags_list_done(&p->found);
    p->found = *found;
    p->is_broken = false;
    return true;
}

static bool refresh_file(struct place *p, bool is_due, struct buf *problems)
{
    struct error err = {""};
    struct tags_list found = {0};
    struct stat now;
    int r = 0;

    if (stat(p->name, &now) < 0)
        r = error_set(&err, -errno, "could not open \"%s\": %m", p->name);
    else if (!S_ISREG(now.st_mode))
        r = error_set(&err, -EINVAL, "\"%s\" is not a file", p->name);
    else if (!is_due && same_file(&now, &p->seen))
        return false;
    if (r == 0) {
        p->seen = now;
        r = read_place(p, &found, &err);
    }
    return settle(p, r, &found, &err, problems);
}

static struct place *find_place(const struct source *s, const char *name)
{
    for (size_t i = 0; i < s->n_places; i++) {
        if (s->places[i].name && strcmp(s->places[i].name, name) == 0)
            return &s->places[i];
    }
    return NULL;
}

/* The files that the patterns name now. A name without a pattern stays, though it be gone: who
 * writes a file anew may have taken it away for a moment. */
static bool list_files(struct source *s)
{
    const struct config_node *files = config_node_get(s->node, "files");
    struct place *places = must_calloc(FILES_MAX, sizeof(*places));
    size_t n = 0, kept = 0, before = s->n_places;

    for (const struct config_node *f = files->first; f; f = f->next) {
        glob_t g = {0};
        glob(f->value, GLOB_NOCHECK, NULL, &g);
        for (size_t i = 0; i < g.gl_pathc && n < FILES_MAX; i++) {
            if (strpbrk(g.gl_pathv[i], "*?[") && access(g.gl_pathv[i], F_OK) < 0)
                continue; /* a pattern that matches nothing */
            if (find_place(&(struct source){.places = places, .n_places = n}, g.gl_pathv[i]))
                continue; /* two patterns match it */
            struct place *known = find_place(s, g.gl_pathv[i]);
            places[n++] =
                known ? *known : (struct place){.name = must_copy(bytes_of(g.gl_pathv[i]))};
            if (known)
                *known = (struct place){0};
            kept += known != NULL;
        }
        globfree(&g);
    }
    for (size_t i = 0; i < s->n_places; i++)
        place_done(&s->places[i]);
    free(s->places);
    s->places = places;
    s->n_places = n;
    return kept != before;
}

static bool refresh_files(struct source *s, bool is_due, struct buf *problems)
{
    bool is_changed = list_files(s);

    for (size_t i = 0; i < s->n_places; i++)
        is_changed |= refresh_file(&s->places[i], is_due, problems);
    return is_changed;
}

/* ---- DNS */

static bool refresh_names(struct source *s, struct buf *problems)
{
    struct dns_question q = {.type = "SRV", .server = ""};
    bool is_changed = false;
    uint64_t port = 0;

    node_string(s->node, "type", &q.type, NULL);
    node_string(s->node, "server", &q.server, NULL);
    node_number(s->node, "port", UINT16_MAX, &port, NULL);
    q.port = (uint16_t)port;
    for (size_t i = 0; i < s->n_places; i++) {
        struct tags_list found = {0};
        struct error err = {""};
        q.name = s->places[i].name;
        int r = dns_find(&q, &found, &err);
        is_changed |= settle(&s->places[i], r, &found, &err, problems);
    }
    return is_changed;
}

/* ---- All of a job */

static struct source *add_source(struct discover *d, enum source_kind kind,
                                 const struct config_node *node)
{
    d->sources = must_realloc(d->sources, (d->n_sources + 1) * sizeof(*d->sources));
    d->sources[d->n_sources] = (struct source){.kind = kind, .node = node};
    return &d->sources[d->n_sources++];
}

static void add_names(struct source *s)
{
    const struct config_node *names = config_node_get(s->node, "names");

    for (const struct config_node *n = names->first; n; n = n->next) {
        s->places = must_realloc(s->places, (s->n_places + 1) * sizeof(*s->places));
        s->places[s->n_places++] = (struct place){.name = must_copy(bytes_of(n->value))};
    }
}

struct discover *discover_new(const struct scrape_job *job)
{
    struct discover *d = must_calloc(1, sizeof(*d));

    if (job->static_configs) {
        struct source *s = add_source(d, SOURCE_STATIC, job->static_configs);
        s->places = must_calloc(1, sizeof(*s->places));
        s->n_places = 1;
    }
    for (const struct config_node *n = job->file_sd_configs ? job->file_sd_configs->first : NULL; n;
         n = n->next)
        add_source(d, SOURCE_FILE, n);
    for (const struct config_node *n = job->dns_sd_configs ? job->dns_sd_configs->first : NULL; n;
         n = n->next)
        add_names(add_source(d, SOURCE_DNS, n));
    return d;
}

void discover_free(struct discover *d)
{
    for (size_t i = 0; d && i < d->n_sources; i++) {
        for (size_t k = 0; k < d->sources[i].n_places; k++)
            place_done(&d->sources[i].places[k]);
        free(d->sources[i].places);
    }
    if (d)
        free(d->sources);
    free(d);
}

static bool refresh_source(struct source *s, int64_t now_ns, struct buf *problems)
{
    bool is_due = now_ns >= s->refresh_ns, is_changed = false;
    int64_t interval = s->kind == SOURCE_FILE ? FILE_REFRESH_NS : DNS_REFRESH_NS;

    node_duration(s->node, "refresh_interval", 0, &interval, NULL);
    switch (s->kind) {
    case SOURCE_STATIC:
        tags_list_done(&s->places[0].found);
        add_groups(s->node, NULL, &s->places[0].found);
        s->look_ns = s->refresh_ns = INT64_MAX;
        return true;
    case SOURCE_FILE:
        is_changed = refresh_files(s, is_due, problems);
        s->look_ns = now_ns + FILE_LOOK_NS;
        break;
    case SOURCE_DNS:
        is_changed = refresh_names(s, problems);
        s->look_ns = now_ns + interval;
        break;
    }
    if (is_due)
        s->refresh_ns = now_ns + interval;
    return is_changed;
}

bool discover_refresh(struct discover *d, int64_t now_ns, struct buf *problems)
{
    bool is_changed = false;

    for (size_t i = 0; i < d->n_sources; i++) {
        if (now_ns >= d->sources[i].look_ns)
            is_changed |= refresh_source(&d->sources[i], now_ns, problems);
    }
    return is_changed;
}

int64_t discover_next_ns(const struct discover *d)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < d->n_sources; i++) {
        if (d->sources[i].look_ns < next)
            next = d->sources[i].look_ns;
    }
    return next;
}

void discover_each(const struct discover *d, void (*target)(void *arg, const struct tags *t),
                   void *arg)
{
    for (size_t i = 0; i < d->n_sources; i++) {
        for (size_t k = 0; k < d->sources[i].n_places; k++) {
            const struct tags_list *found = &d->sources[i].places[k].found;
            for (size_t j = 0; j < found->n; j++)
                target(arg, &found->items[j]);
        }
    }
}
