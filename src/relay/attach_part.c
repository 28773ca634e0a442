#include "relay/attach_part.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mask_rules.h"
#include "base/must.h"
#include "scrape/node_window.h"
#include "wire/json.h"

#define PROFILE_MEMORY ((uint64_t)64 << 20)
#define MESSAGE_MEMORY ((size_t)1 << 20)

/* What the agent wants. */
struct job {
    uint64_t number;
    uint32_t pid;
    bool takes; /* profiles; else the inspector is closed only */
    struct tags attributes;
};

struct attach {
    struct relay_child *child;
    struct mask_matcher *mask; /* of the thread */
    int stop_fd;
    pthread_t thread;
    bool has_thread; /* to be joined */

    pthread_mutex_t lock;
    bool is_running;
    uint64_t windows, failed, samples; /* for metrics */

    /* Of the thread while it runs. */
    struct job job;
    int fd;
};

/* ---- Messages */

static void read_attributes(struct json_reader *r, struct job *ret)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        CLEANUP(buf_done) struct buf name = {0};
        buf_add_bytes(&name, key);
        if (json_peek(r) == JSON_STRING && tag_name_is_sound(buf_bytes(&name)))
            tags_set(&ret->attributes, buf_bytes(&name), json_get_string(r));
        else
            json_skip(r);
    }
}

static int read_job(struct bytes json, struct job *ret, struct error *err)
{
    struct budget budget;

    budget_init(&budget, MESSAGE_MEMORY);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    json_reader_set_text(r, json, 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "number"))
            ret->number = json_get_u64(r);
        else if (bytes_are(key, "pid"))
            ret->pid = (uint32_t)json_get_u64(r);
        else if (bytes_are(key, "takes"))
            ret->takes = json_get_bool(r);
        else if (bytes_are(key, "attributes"))
            read_attributes(r, ret);
        else
            json_skip(r);
    }
    return json_finish(r, "message of the agent", err);
}

static void tell(struct attach *a, uint64_t number, const struct node_window_result *result,
                 const char *error)
{
    CLEANUP(buf_done) struct buf json = {0};
    struct json_writer w = {.out = &json};

    json_begin_object(&w);
    json_key(&w, "number");
    json_u64(&w, number);
    json_key(&w, "samples");
    json_u64(&w, result->n_samples);
    json_key(&w, "inspector");
    json_bool(&w, result->is_inspector);
    json_key(&w, "closed");
    json_bool(&w, result->is_closed);
    json_key(&w, "own");
    json_bool(&w, result->is_own);
    json_key(&w, "reopens");
    json_bool(&w, result->may_reopen);
    json_key(&w, "error");
    json_cstring(&w, error);
    json_end_object(&w);
    relay_tell(a->child, RELAY_NODE_DONE, buf_bytes(&json));
}

/* ---- The thread */

static void profiles(void *arg, struct bytes otlp)
{
    struct attach *a = arg;

    relay_export(a->child, otlp);
}

static bool has_type(const struct config_list *types, const char *name)
{
    for (size_t i = 0; i < types->n; i++)
        if (strcmp(types->items[i], name) == 0)
            return true;
    return false;
}

static void *run(void *arg)
{
    struct attach *a = arg;
    const struct agent_config *c = a->child->config;
    struct node_window window = {
        .fd = a->fd,
        .stop_fd = a->stop_fd,
        .pid = a->job.pid,
        .takes_cpu = a->job.takes && has_type(&c->node_types, "cpu"),
        .takes_heap = a->job.takes && has_type(&c->node_types, "heap"),
        .duration_ns = c->node_duration_ns,
        .sampling_ns = c->node_sampling_ns,
        .heap_bytes = c->node_heap_bytes,
        .attributes = &a->job.attributes,
        .mask = a->mask,
        .memory_max = PROFILE_MEMORY,
        .profiles = profiles,
        .arg = a,
    };
    struct node_window_result result;
    struct error err = {""};

    int r = node_window_run(&window, &result, &err);
    pthread_mutex_lock(&a->lock);
    a->windows += a->job.takes;
    a->failed += r < 0;
    a->samples += result.n_samples;
    a->is_running = false;
    pthread_mutex_unlock(&a->lock);
    tell(a, a->job.number, &result, r < 0 ? err.text : "");
    return NULL;
}

static bool is_running(struct attach *a)
{
    pthread_mutex_lock(&a->lock);
    bool runs = a->is_running;
    pthread_mutex_unlock(&a->lock);
    return runs;
}

static void set_running(struct attach *a, bool runs)
{
    pthread_mutex_lock(&a->lock);
    a->is_running = runs;
    pthread_mutex_unlock(&a->lock);
}

static void join(struct attach *a)
{
    uint64_t pokes;

    if (a->has_thread)
        pthread_join(a->thread, NULL);
    a->has_thread = false;
    (void)!read(a->stop_fd, &pokes, sizeof(pokes)); /* who was told to stop has stopped */
}

static int begin(struct attach *a, struct job *job, int fd, struct error *err)
{
    if (is_running(a))
        return error_set(err, -EBUSY, "another window is being taken");
    join(a);
    tags_done(&a->job.attributes);
    a->job = *job;
    job->attributes = (struct tags){0};
    a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (a->fd < 0)
        return error_set(err, -errno, "there was no descriptor to talk over: %m");
    set_running(a, true);
    int r = pthread_create(&a->thread, NULL, run, a);
    a->has_thread = r == 0;
    if (r == 0)
        return 0;
    set_running(a, false);
    close(a->fd);
    return error_set(err, -r, "could not start a thread: %s", strerror(r));
}

/* ---- The part */

static int start(struct relay_child *c, void **ret, struct error *err)
{
    struct mask_rules *rules = NULL;

    if (c->config->node_attach.n == 0)
        return 0;
    int r = mask_rules_new(true, c->config->mask.items, c->config->mask.n, &rules, err);
    if (r < 0)
        return r;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        mask_rules_unref(rules);
        return error_set(err, -errno, "could not make an event descriptor: %m");
    }
    struct attach *a = must_calloc(1, sizeof(*a));
    *a = (struct attach){.child = c, .mask = mask_matcher_new(rules), .stop_fd = fd};
    pthread_mutex_init(&a->lock, NULL);
    *ret = a;
    return 0;
}

static void poke(struct attach *a)
{
    uint64_t one = 1;

    (void)!write(a->stop_fd, &one, sizeof(one));
}

static void message(void *part, enum relay_kind kind, struct bytes data, int fd)
{
    struct attach *a = part;
    struct job job = {0};
    struct error err = {""};

    if (kind == RELAY_NODE_STOP && is_running(a))
        poke(a);
    if (kind != RELAY_NODE_WINDOW)
        return;
    int r = read_job(data, &job, &err);
    if (r == 0)
        r = begin(a, &job, fd, &err);
    if (r < 0)
        tell(a, job.number, &(struct node_window_result){0}, err.text);
    tags_done(&job.attributes);
}

static void stop(void *part)
{
    struct attach *a = part;

    poke(a);
    join(a);
    tags_done(&a->job.attributes);
    mask_matcher_free(a->mask);
    close(a->stop_fd);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

static void metrics(void *part, struct buf *text)
{
    struct attach *a = part;

    pthread_mutex_lock(&a->lock);
    buf_addf(text,
             "# HELP vesta_agent_node_windows_total Windows of Node processes.\n"
             "# TYPE vesta_agent_node_windows_total counter\n"
             "vesta_agent_node_windows_total %llu\n"
             "# HELP vesta_agent_node_failed_total Conversations with inspectors that failed.\n"
             "# TYPE vesta_agent_node_failed_total counter\n"
             "vesta_agent_node_failed_total %llu\n"
             "# HELP vesta_agent_node_samples_total Samples of Node processes that were sent.\n"
             "# TYPE vesta_agent_node_samples_total counter\n"
             "vesta_agent_node_samples_total %llu\n",
             (unsigned long long)a->windows, (unsigned long long)a->failed,
             (unsigned long long)a->samples);
    pthread_mutex_unlock(&a->lock);
}

const struct relay_part attach_part = {.name = "attaching to Node processes",
                                       .start = start,
                                       .message = message,
                                       .stop = stop,
                                       .metrics = metrics};
