#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/must.h"
#include "net/url.h"
#include "scrape/scrape_internal.h"

/* ---- The heap */

void target_heap_push(struct scrape *s, struct entry *e)
{
    size_t at = s->n_heap++;

    for (; at > 0 && s->heap[(at - 1) / 2]->due_ns > e->due_ns; at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = e;
}

struct entry *target_heap_pop(struct scrape *s)
{
    struct entry *top = s->heap[0], *last = s->heap[--s->n_heap];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < s->n_heap; at = child) {
        if (child + 1 < s->n_heap && s->heap[child + 1]->due_ns < s->heap[child]->due_ns)
            child++;
        if (s->heap[child]->due_ns >= last->due_ns)
            break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = last;
    return top;
}

/* Entries that run come back by themselves. */
static void heap_rebuild(struct scrape *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_targets; i++)
        n += s->targets[i]->n_entries;
    s->heap = must_realloc(s->heap, (n + 1) * sizeof(struct entry *));
    s->n_heap = 0;
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = s->targets[i];
        for (size_t k = 0; k < t->n_entries; k++) {
            if (!t->entries[k].is_running)
                target_heap_push(s, &t->entries[k]);
        }
    }
}

/* ---- A target of tags */

void target_drop(struct scrape *s, struct target *t)
{
    for (size_t i = 0; i < t->n_entries; i++) {
        atomic_fetch_sub(&s->kept, t->entries[i].last.len);
        buf_done(&t->entries[i].last);
    }
    free(t->entries);
    free(t->key);
    free(t->base);
    free(t->query);
    tags_done(&t->tags);
    free(t);
}

/* What relabelling sees beside what was found. */
static void add_defaults(const struct scrape_job *job, struct tags *t)
{
    if (!tags_get(t, "job")[0])
        tags_set(t, BYTES("job"), bytes_of(job->name));
    if (!tags_get(t, "__scheme__")[0])
        tags_set(t, BYTES("__scheme__"), bytes_of(job->scheme));
    if (!tags_get(t, "__path_prefix__")[0])
        tags_set(t, BYTES("__path_prefix__"), bytes_of(job->path_prefix));
    for (const struct config_node *n = job->params ? job->params->first : NULL; n; n = n->next) {
        const struct config_node *value = n->kind == CONFIG_NODE_LIST ? n->first : n;
        char name[TAG_NAME_MAX];
        int len = snprintf(name, sizeof(name), "__param_%s", n->key);
        if (value && len < (int)sizeof(name))
            tags_set(t, bytes_of(name), bytes_of(value->value));
    }
}

static void add_param(struct buf *out, const char *name, const char *value)
{
    buf_add_str(out, out->len ? "&" : "");
    url_add_escaped(out, bytes_of(name), "");
    buf_add_byte(out, '=');
    url_add_escaped(out, bytes_of(value), "");
}

/* The first value of a parameter is a tag, which relabelling may have changed. */
static void add_query(const struct scrape_job *job, const struct tags *t, struct buf *out)
{
    static const char prefix[] = "__param_";

    for (size_t i = 0; i < t->n; i++) {
        if (strncmp(t->items[i].name, prefix, sizeof(prefix) - 1) == 0)
            add_param(out, t->items[i].name + sizeof(prefix) - 1, t->items[i].value);
    }
    for (const struct config_node *n = job->params ? job->params->first : NULL; n; n = n->next) {
        const struct config_node *v =
            n->kind == CONFIG_NODE_LIST && n->first ? n->first->next : NULL;
        for (; v; v = v->next)
            add_param(out, n->key, v->value);
    }
}

static void drop_private(struct tags *t)
{
    for (size_t i = t->n; i-- > 0;) {
        if (strncmp(t->items[i].name, "__", 2) == 0)
            tags_set(t, bytes_of(t->items[i].name), (struct bytes){0});
    }
}

static bool is_on_this_host(const char *address)
{
    return strncmp(address, "localhost", 9) == 0 || strncmp(address, "127.", 4) == 0 ||
           strncmp(address, "[::1]", 5) == 0;
}

/* What no label says. "localhost:8080" is a program on every host: it needs the name of ours. */
static void add_resource(const struct scrape *s, const char *address, struct tags *t)
{
    const struct config_list *resource = s->o.resource;
    char host[256] = "";

    for (size_t i = 0; resource && i < resource->n; i++) {
        const char *value = strchr(resource->items[i], '=');
        struct bytes name = {(const uint8_t *)resource->items[i],
                             value ? (size_t)(value - resource->items[i]) : 0};
        if (value && name.len > 0 && !tags_has(t, name))
            tags_set(t, name, bytes_of(value + 1));
    }
    if (is_on_this_host(address) && !tags_has(t, BYTES("host.name")) &&
        gethostname(host, sizeof(host) - 1) == 0)
        tags_set(t, BYTES("host.name"), bytes_of(host));
}

static void add_entries(struct target *t)
{
    const struct scrape_job *job = t->job;
    int64_t now = scrape_now_ns();
    uint64_t place = hash_bytes(t->key, strlen(t->key));

    t->entries = must_calloc(job->n_kinds + 1, sizeof(*t->entries));
    for (size_t i = 0; i < job->n_kinds; i++) {
        const struct scrape_kind *kind = &job->kinds[i];
        if (!kind->is_enabled)
            continue;
        /* Targets are spread over the interval, and so are the kinds of one. What is sent as a
         * difference needs a first to differ from: the sooner the better. */
        uint64_t spread = (uint64_t)kind->interval_ns;
        int64_t offset = (int64_t)(hash_mix(place, i + 1) % spread);
        t->entries[t->n_entries++] = (struct entry){
            .target = t, .kind = kind, .due_ns = now + (kind->is_cumulative ? offset / 4 : offset)};
    }
}

/* NULL when it is dropped, or cannot be. */
static struct target *make_target(const struct scrape *s, const struct scrape_job *job,
                                  const struct tags *found, struct buf *problems)
{
    CLEANUP(buf_done) struct buf base = {0}, query = {0}, key = {0};
    struct tags tags = tags_copy(found);
    struct target *t = NULL;

    add_defaults(job, &tags);
    bool is_wanted = relabel_apply(&job->relabel, &tags);
    const char *address = tags_get(&tags, "__address__"), *scheme = tags_get(&tags, "__scheme__");
    const char *prefix = tags_get(&tags, "__path_prefix__");
    bool is_sound = scrape_address_is_sound(address) &&
                    (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) &&
                    (!prefix[0] || prefix[0] == '/');
    if (is_wanted && !is_sound)
        buf_addf(problems, "job %s: \"%.60s://%.100s%.60s\" is no address of a target\n", job->name,
                 scheme, address, prefix);
    if (is_wanted && is_sound) {
        if (!tags_get(&tags, "instance")[0])
            tags_set(&tags, BYTES("instance"), bytes_of(address));
        buf_addf(&base, "%s://%s%s", scheme, address, prefix);
        add_query(job, &tags, &query);
        add_resource(s, address, &tags);
        drop_private(&tags);
        buf_addf(&key, "%s\n%s?%s\n", job->name, buf_cstr(&base), buf_cstr(&query));
        tags_add_key(&tags, &key);
        t = must_calloc(1, sizeof(*t));
        *t = (struct target){.job = job,
                             .key = must_copy(buf_bytes(&key)),
                             .base = must_copy(buf_bytes(&base)),
                             .query = must_copy(buf_bytes(&query)),
                             .tags = tags};
        add_entries(t);
        return t;
    }
    tags_done(&tags);
    return NULL;
}

/* ---- All of a job */

static struct target *find_target(const struct scrape *s, const char *key)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        if (strcmp(s->targets[i]->key, key) == 0)
            return s->targets[i];
    }
    return NULL;
}

static void take_target(struct scrape *s, struct target *t)
{
    struct target *known = find_target(s, t->key);

    if (known) {
        known->is_kept = true;
        target_drop(s, t);
    } else if (s->n_targets == SCRAPE_TARGETS_MAX) {
        s->n_over++;
        target_drop(s, t);
    } else {
        t->is_kept = true;
        s->targets = must_realloc(s->targets, (s->n_targets + 1) * sizeof(struct target *));
        s->targets[s->n_targets++] = t;
    }
}

static void drop_gone(struct scrape *s, const struct scrape_job *job)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = s->targets[i];
        if (t->job != job || t->is_kept) {
            s->targets[kept++] = t;
            continue;
        }
        t->is_gone = true;
        if (t->n_running == 0)
            target_drop(s, t);
    }
    s->n_targets = kept;
}

void target_set_sync(struct scrape *s, struct job_state *state, const struct tags_list *found,
                     struct buf *problems)
{
    struct target **made = must_calloc(found->n + 1, sizeof(struct target *));
    size_t n = 0;

    for (size_t i = 0; i < found->n; i++) {
        struct target *t = make_target(s, state->job, &found->items[i], problems);
        if (t)
            made[n++] = t;
    }
    pthread_mutex_lock(&s->lock);
    size_t over = s->n_over;
    state->n_dropped = found->n - n;
    for (size_t i = 0; i < s->n_targets; i++)
        s->targets[i]->is_kept = s->targets[i]->is_kept && s->targets[i]->job != state->job;
    for (size_t i = 0; i < n; i++)
        take_target(s, made[i]);
    drop_gone(s, state->job);
    heap_rebuild(s);
    over = s->n_over - over;
    /* What is listed now need not be found. */
    if (state->job != &s->local_job && s->local_json.len > 0)
        s->has_local_news = true;
    pthread_cond_broadcast(&s->due);
    pthread_mutex_unlock(&s->lock);
    if (over > 0)
        buf_addf(problems, "job %s: %zu targets are over the limit of %d and left out\n",
                 state->job->name, over, SCRAPE_TARGETS_MAX);
    free(made);
}
