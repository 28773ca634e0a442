#include "debuginfo/debuginfod.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "net/http_client.h"

#define WANTED_MAX   256
#define ASKED_MAX    4096
#define ID_TEXT_MAX  129
#define ASK_AGAIN_NS ((int64_t)3600000000000)
#define TOTAL_S      300

struct asked {
    char id[ID_TEXT_MAX];
    int64_t when_ns;
};

struct debuginfod {
    struct debuginfod_options options;
    char **urls;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    char wanted[WANTED_MAX][ID_TEXT_MAX]; /* a ring */
    size_t first, n;
    struct asked asked[ASKED_MAX]; /* by a hash of the id: a later one takes the place */
    volatile sig_atomic_t is_ending;
};

static void say(struct debuginfod *d, int level, const char *text)
{
    if (d->options.log)
        d->options.log(d->options.log_ctx, level, text);
}

static struct asked *place_of(struct debuginfod *d, struct bytes id)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < id.len; i++)
        h = (h ^ id.data[i]) * 16777619u;
    return &d->asked[h % ASKED_MAX];
}

void debuginfod_want(struct debuginfod *d, struct bytes build_id)
{
    int64_t now = clock_monotonic_ns(clock_real());

    if (!d || !build_id_is_sound(build_id))
        return;
    pthread_mutex_lock(&d->lock);
    struct asked *a = place_of(d, build_id);
    bool was_asked = bytes_equal(bytes_of(a->id), build_id) && now - a->when_ns < ASK_AGAIN_NS;
    if (!was_asked && d->n < WANTED_MAX) {
        memcpy(a->id, build_id.data, build_id.len);
        a->id[build_id.len] = '\0';
        a->when_ns = now;
        memcpy(d->wanted[(d->first + d->n++) % WANTED_MAX], a->id, sizeof(a->id));
        pthread_cond_signal(&d->filled);
    }
    pthread_mutex_unlock(&d->lock);
}

/* Fetches from one server. 0 when the file is kept now. */
static int fetch_from(struct debuginfod *d, const char *base, const char *id, struct error *err)
{
    struct http_client_options co = {
        .deny_private = !d->options.allow_private, .total_s = TOTAL_S, .cancelled = &d->is_ending};
    CLEANUP(http_client_freep) struct http_client *client = http_client_new(&co);
    CLEANUP(buf_done) struct buf url = {0};
    struct http_answer answer;
    struct budget budget;

    buf_addf(&url, "%s%sbuildid/%s/debuginfo", base, base[strlen(base) - 1] == '/' ? "" : "/", id);
    budget_init(&budget, (size_t)d->options.file_max + (1 << 20));
    struct http_fetch f = {.url = buf_cstr(&url), .answer_max = d->options.file_max};
    int r = http_fetch(client, &f, &budget, &answer, err);
    if (r < 0)
        return r;
    if (answer.status == 404) {
        r = error_set(err, -ENOENT, "%s has no debug file for %s", base, id);
    } else if (answer.status != 200) {
        r = http_answer_error(&answer, f.url, err);
    } else {
        CLEANUP(input_closep)
        struct input *in = input_from_bytes(http_answer_body(&answer), f.url, &budget);
        r = debug_files_put(d->options.files, BYTES(DEBUG_FILES_SHARED), bytes_of(id), in,
                            d->options.file_max, err);
    }
    http_answer_done(&budget, &answer);
    return r;
}

static void fetch(struct debuginfod *d, const char *id)
{
    char text[700];

    for (size_t i = 0; i < d->options.n_urls && !d->is_ending; i++) {
        struct error err = {""};
        int r = fetch_from(d, d->urls[i], id, &err);
        if (r == 0) {
            snprintf(text, sizeof(text), "debuginfod: %s has the debug file of %s", d->urls[i], id);
            say(d, 1, text);
            return;
        }
        snprintf(text, sizeof(text), "debuginfod: %s", err.text);
        say(d, r == -ENOENT ? 0 : 2, text);
    }
}

static void *run(void *arg)
{
    struct debuginfod *d = arg;

    for (;;) {
        char id[ID_TEXT_MAX];
        pthread_mutex_lock(&d->lock);
        while (d->n == 0 && !d->is_ending)
            pthread_cond_wait(&d->filled, &d->lock);
        bool is_over = d->is_ending;
        if (!is_over) {
            memcpy(id, d->wanted[d->first], sizeof(id));
            d->first = (d->first + 1) % WANTED_MAX;
            d->n--;
        }
        pthread_mutex_unlock(&d->lock);
        if (is_over)
            return NULL;
        fetch(d, id);
    }
}

static void debuginfod_free(struct debuginfod *d)
{
    for (size_t i = 0; i < d->options.n_urls; i++)
        free(d->urls[i]);
    free(d->urls);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->filled);
    free(d);
}

int debuginfod_start(const struct debuginfod_options *o, struct debuginfod **ret, struct error *err)
{
    struct debuginfod *d = must_calloc(1, sizeof(*d));

    d->options = *o;
    d->urls = must_calloc(o->n_urls + 1, sizeof(*d->urls));
    for (size_t i = 0; i < o->n_urls; i++)
        d->urls[i] = must_copy(bytes_of(o->urls[i]));
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->filled, NULL);
    if (pthread_create(&d->thread, NULL, run, d) != 0) {
        debuginfod_free(d);
        return error_set(err, -EAGAIN, "could not start a thread for debuginfod");
    }
    *ret = d;
    return 0;
}

void debuginfod_stop(struct debuginfod *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->is_ending = 1;
    pthread_cond_signal(&d->filled);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    debuginfod_free(d);
}
