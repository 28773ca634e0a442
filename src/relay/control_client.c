#include "relay/control_client.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/random.h"
#include "net/http_client.h"
#include "net/url.h"
#include "relay/agent_id.h"
#include "relay/directive.h"
#include "wire/json.h"

#define SECOND          ((int64_t)1000000000)
#define HEARTBEAT_NS    (30 * SECOND)
#define GAP_NS          (5 * SECOND)
#define RETRY_NS        SECOND
#define RETRY_MAX_NS    (60 * SECOND)
#define RETRY_SAID_MAX  (300 * SECOND) /* what a server may ask for */
#define DEAF_NS         (600 * SECOND)
#define WAIT_MAX_NS     (30 * SECOND)
#define POLL_GAP_NS     SECOND /* also when a server answers at once, always with news */
#define SERVICES_MAX    32     /* as many as a heartbeat may name */
#define NAME_MAX_BYTES  127
#define TYPES_MAX       16
#define TYPE_NAME_MAX   31
#define FIRST_STATUS_NS (2 * SECOND) /* so long the first heartbeat waits for something to tell */
#define STATUS_MEMORY   ((size_t)4 << 20)
#define ANSWER_MAX      ((uint64_t)64 << 10)

/* What a heartbeat tells, from the agent's last status. */
struct state {
    char mode[16];
    double rate;
    uint64_t samples, lost;
    double cpu_percent;
    uint64_t memory;
    char types[TYPES_MAX][TYPE_NAME_MAX + 1];
    size_t n_types;
    char services[SERVICES_MAX][NAME_MAX_BYTES + 1];
    size_t n_services;
};

enum health { UNKNOWN, ANSWERS, FAILS, DEAF };

struct control_client {
    struct relay_child *child;
    struct control_options o;
    char id[AGENT_ID_MAX], host[65];
    char shown[256]; /* the server, without a password */
    struct http_client *http;
    struct random random;
    pthread_t thread;
    volatile sig_atomic_t interrupt; /* ends the request that is going on */

    /* Of the thread. */
    bool is_announced, was_forgotten;
    int64_t heartbeat_at_ns, retry_ns;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t woken;
    bool is_ending, is_changed, is_polling;
    struct state state;
    struct directive directive;
    enum health health;
    char trouble[256];
    int64_t answered_at_ns;
    uint64_t heartbeats, polls, failures, directives;
};

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

/* ---- the agent's status */

static void read_services(struct json_reader *r, struct state *s)
{
    json_enter_array(r);
    while (json_next_element(r)) {
        struct bytes name = json_get_string(r);
        bool is_fit = name.len > 0 && name.len <= NAME_MAX_BYTES;
        for (size_t i = 0; is_fit && i < name.len; i++)
            is_fit = name.data[i] >= 0x20 && name.data[i] != 0x7f;
        if (is_fit && s->n_services < SERVICES_MAX)
            memcpy(s->services[s->n_services++], name.data, name.len);
    }
}

static void read_types(struct json_reader *r, struct state *s)
{
    json_enter_array(r);
    while (json_next_element(r)) {
        struct bytes name = json_get_string(r);
        if (name.len > 0 && name.len <= TYPE_NAME_MAX && s->n_types < TYPES_MAX)
            memcpy(s->types[s->n_types++], name.data, name.len);
    }
}

static void read_cost(struct json_reader *r, struct state *s)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "cpu_percent"))
            s->cpu_percent = json_get_double(r);
        else if (bytes_are(key, "memory_bytes"))
            s->memory = json_get_u64(r);
        else
            json_skip(r);
    }
}

static bool read_status(struct bytes json, struct state *ret)
{
    struct budget budget;
    struct error err;
    budget_init(&budget, STATUS_MEMORY);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);

    json_reader_set_text(r, json, 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "mode")) {
            struct bytes mode = bytes_head(json_get_string(r), sizeof(ret->mode) - 1);
            if (mode.len > 0)
                memcpy(ret->mode, mode.data, mode.len);
        } else if (bytes_are(key, "rate")) {
            ret->rate = json_get_double(r);
        } else if (bytes_are(key, "samples")) {
            ret->samples = json_get_u64(r);
        } else if (bytes_are(key, "lost")) {
            ret->lost = json_get_u64(r);
        } else if (bytes_are(key, "services")) {
            read_services(r, ret);
        } else if (bytes_are(key, "types")) {
            read_types(r, ret);
        } else if (bytes_are(key, "cost")) {
            read_cost(r, ret);
        } else {
            json_skip(r);
        }
    }
    return json_finish(r, "status", &err) == 0;
}

static bool is_news(const struct state *a, const struct state *b)
{
    return strcmp(a->mode, b->mode) != 0 || a->rate < b->rate || a->rate > b->rate ||
           a->n_services != b->n_services ||
           memcmp(a->services, b->services, sizeof(a->services)) != 0;
}

void control_client_message(struct control_client *k, enum relay_kind kind, struct bytes data)
{
    CLEANUP(freep) struct state *s = must_calloc(1, sizeof(*s));

    if (kind != RELAY_STATUS || !read_status(data, s))
        return;
    pthread_mutex_lock(&k->lock);
    if (is_news(s, &k->state)) {
        k->is_changed = true;
        k->interrupt |= k->is_polling;
        pthread_cond_signal(&k->woken);
    }
    k->state = *s;
    pthread_mutex_unlock(&k->lock);
}

/* What it collects, what it takes itself, what time it has. */
static void add_own(const struct control_client *k, struct json_writer *w)
{
    json_key(w, "types");
    json_begin_array(w);
    for (size_t i = 0; i < k->state.n_types; i++)
        json_cstring(w, k->state.types[i]);
    json_end_array(w);
    if (k->state.memory > 0) { /* the agent has told of itself */
        json_key(w, "cpu_percent");
        json_double(w, k->state.cpu_percent);
        json_key(w, "memory_bytes");
        json_u64(w, k->state.memory);
    }
    json_key(w, "time_ns");
    json_i64_string(w, clock_wall_ns(clock_real()));
}

static void add_heartbeat(struct control_client *k, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_begin_object(&w);
    json_key(&w, "id");
    json_cstring(&w, k->id);
    json_key(&w, "kind");
    json_cstring(&w, "agent");
    json_key(&w, "version");
    json_cstring(&w, VESTA_VERSION);
    json_key(&w, "host");
    json_cstring(&w, k->host);
    pthread_mutex_lock(&k->lock);
    json_key(&w, "services");
    json_begin_array(&w);
    for (size_t i = 0; i < k->state.n_services; i++)
        json_cstring(&w, k->state.services[i]);
    json_end_array(&w);
    json_key(&w, "mode");
    json_cstring(&w, k->state.mode[0] ? k->state.mode : "normal");
    json_key(&w, "rate");
    json_double(&w, k->state.rate);
    json_key(&w, "samples");
    json_u64(&w, k->state.samples);
    json_key(&w, "lost");
    json_u64(&w, k->state.lost);
    add_own(k, &w);
    k->is_changed = false;
    pthread_mutex_unlock(&k->lock);
    json_end_object(&w);
}

/* ---- asking */

/* Says so when it is no longer as it was. */
static void note_health(struct control_client *k, enum health health, const char *text)
{
    pthread_mutex_lock(&k->lock);
    bool is_new = k->health != health;
    k->health = health;
    if (health == ANSWERS)
        k->answered_at_ns = now_ns();
    else
        k->failures++;
    snprintf(k->trouble, sizeof(k->trouble), "%s", health == ANSWERS ? "" : text);
    pthread_mutex_unlock(&k->lock);
    if (!is_new)
        return;
    if (health == ANSWERS)
        relay_log(k->child, RELAY_INFO, "%s takes directives from %s", k->id, k->shown);
    else
        relay_log(k->child, health == DEAF ? RELAY_INFO : RELAY_WARNING,
                  "no directives for now: %s", text);
}

/* How long to leave the server alone. */
static int64_t after_failure(struct control_client *k, const struct http_answer *a)
{
    int64_t wait = k->retry_ns;
    k->retry_ns = 2 * wait < k->o.retry_max_ns ? 2 * wait : k->o.retry_max_ns;
    wait += (int64_t)random_below(&k->random, (uint64_t)(wait / 4) + 1);
    if (a && a->retry_after_ms > 0) {
        int64_t said = a->retry_after_ms > RETRY_SAID_MAX / 1000000 ? RETRY_SAID_MAX
                                                                    : a->retry_after_ms * 1000000;
        wait = said > wait ? said : wait;
    }
    return wait;
}

static int64_t refused(struct control_client *k, const struct http_answer *a, bool is_heartbeat)
{
    struct error err;
    (void)http_answer_error(a, k->shown, &err);

    if (a->status == 404 && !is_heartbeat && !k->was_forgotten) {
        k->is_announced = false; /* it was started anew, and wants to know us first */
        k->was_forgotten = true;
        return 0;
    }
    bool is_deaf = is_heartbeat && (a->status == 404 || a->status == 405 || a->status == 501);
    bool is_unwelcome = a->status == 401 || a->status == 403;
    k->is_announced = false;
    note_health(k, is_deaf ? DEAF : FAILS, err.text);
    int64_t wait = after_failure(k, a);
    int64_t least = is_deaf ? k->o.deaf_ns : is_unwelcome ? k->o.retry_max_ns : 0;
    return wait > least ? wait : least;
}

static int64_t obey(struct control_client *k, const struct http_answer *a)
{
    struct error err;
    struct directive d;

    if (directive_read(http_answer_body(a), &d, &err) < 0) {
        note_health(k, FAILS, err.text);
        return after_failure(k, NULL);
    }
    directive_count_from(&d, http_answer_header(a, "date"), clock_wall_ns(clock_real()));
    note_health(k, ANSWERS, "");
    k->retry_ns = k->o.retry_ns;
    pthread_mutex_lock(&k->lock);
    k->directives += !directive_same(&d, &k->directive);
    k->directive = d;
    pthread_mutex_unlock(&k->lock);

    /* Also when it is the same: the agent may have missed it. */
    CLEANUP(buf_done) struct buf json = {0};
    directive_write(&d, &json);
    relay_tell(k->child, RELAY_DIRECTIVE, buf_bytes(&json));
    return 0;
}

/* Makes the request; returns how long to wait for the next. */
static int64_t ask(struct control_client *k, const char *url, struct bytes body, bool is_heartbeat)
{
    const struct export_settings *s = &k->child->settings;
    struct http_header headers[EXPORT_HEADERS_MAX + 2];
    CLEANUP(buf_done) struct buf authorization = {0};
    size_t n = 0;
    bool has_token = relay_authorization(k->child, &authorization, NULL) == 1;

    for (size_t i = 0; i < s->n_headers; i++)
        if (!has_token || !bytes_are(s->headers[i].name, "authorization"))
            headers[n++] = s->headers[i];
    if (has_token)
        headers[n++] = (struct http_header){BYTES("authorization"), buf_bytes(&authorization)};
    if (body.len > 0)
        headers[n++] = (struct http_header){BYTES("content-type"), BYTES("application/json")};

    struct budget budget;
    struct error err;
    struct http_answer answer = {0};
    budget_init(&budget, 2 * ANSWER_MAX);
    int r = http_fetch(k->http,
                       &(struct http_fetch){.url = url,
                                            .headers = headers,
                                            .n_headers = n,
                                            .body = body,
                                            .answer_max = ANSWER_MAX,
                                            .is_repeatable = true},
                       &budget, &answer, &err);
    if (r == -ECANCELED)
        return 0;
    if (r < 0) {
        k->is_announced = false;
        note_health(k, FAILS, err.text);
        return after_failure(k, NULL);
    }
    int64_t wait = answer.status == 200 ? obey(k, &answer) : refused(k, &answer, is_heartbeat);
    http_answer_done(&budget, &answer);
    return wait;
}

static int64_t heartbeat(struct control_client *k)
{
    CLEANUP(buf_done) struct buf url = {0}, body = {0};
    int64_t begin = now_ns();

    buf_addf(&url, "%s/api/v1/agents/heartbeat", k->o.server);
    add_heartbeat(k, &body);
    k->is_announced = true;
    int64_t wait = ask(k, buf_cstr(&url), buf_bytes(&body), true);
    k->heartbeat_at_ns = begin + k->o.heartbeat_ns;
    pthread_mutex_lock(&k->lock);
    k->heartbeats++;
    pthread_mutex_unlock(&k->lock);
    return wait;
}

static int64_t poll_once(struct control_client *k, int64_t wait_ns)
{
    CLEANUP(buf_done) struct buf url = {0};
    int64_t begin = now_ns();

    if (wait_ns > WAIT_MAX_NS)
        wait_ns = WAIT_MAX_NS;
    buf_addf(&url, "%s/api/v1/agents/directive?id=", k->o.server);
    url_add_escaped(&url, bytes_of(k->id), "");
    pthread_mutex_lock(&k->lock);
    buf_addf(&url, "&after=%llu&wait=%lldms", (unsigned long long)k->directive.number,
             (long long)(wait_ns / 1000000 + 1));
    k->polls++;
    pthread_mutex_unlock(&k->lock);
    int64_t wait = ask(k, buf_cstr(&url), (struct bytes){0}, false);
    if (wait > 0 || !k->is_announced)
        return wait;
    k->was_forgotten = false;
    int64_t took = now_ns() - begin;
    return took < POLL_GAP_NS ? POLL_GAP_NS - took : 0;
}

/* What is due; returns how long to wait for the next. */
static int64_t step(struct control_client *k)
{
    int64_t now = now_ns();
    pthread_mutex_lock(&k->lock);
    int64_t due = k->heartbeat_at_ns;
    if (k->is_changed)
        due += k->o.gap_ns - k->o.heartbeat_ns;
    bool is_due = !k->is_announced || due <= now;
    k->is_polling = !is_due;
    k->interrupt = k->is_ending;
    pthread_mutex_unlock(&k->lock);
    return is_due ? heartbeat(k) : poll_once(k, due - now);
}

/* With the lock. `ends_by_news`: of the agent. */
static void rest(struct control_client *k, int64_t ns, bool ends_by_news)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ns / SECOND);
    until.tv_nsec += (long)(ns % SECOND);
    if (until.tv_nsec >= SECOND) {
        until.tv_sec++;
        until.tv_nsec -= SECOND;
    }
    while (!k->is_ending && !(ends_by_news && k->is_changed))
        if (pthread_cond_timedwait(&k->woken, &k->lock, &until) == ETIMEDOUT)
            break;
}

static void *run(void *arg)
{
    struct control_client *k = arg;

    pthread_mutex_lock(&k->lock);
    rest(k, FIRST_STATUS_NS, true);
    while (!k->is_ending) {
        pthread_mutex_unlock(&k->lock);
        int64_t wait = step(k);
        pthread_mutex_lock(&k->lock);
        k->is_polling = false;
        if (wait > 0)
            rest(k, wait, false);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* ---- the part */

static void set_default(int64_t *value, int64_t standard)
{
    if (*value == 0)
        *value = standard;
}

/* "https://user:password@host:4040" without what stands before the "@". */
static void show_server(const char *url, char *to, size_t size)
{
    const char *at = strrchr(url, '@'), *host = strstr(url, "://");
    int scheme = host && at ? (int)(host - url) + 3 : 0;
    snprintf(to, size, "%.*s%s", scheme, url, at ? at + 1 : url);
}

static struct control_client *client_new(struct relay_child *c, const struct control_options *o)
{
    const struct export_settings *s = &c->settings;
    struct control_client *k = must_calloc(1, sizeof(*k));
    pthread_condattr_t attr;

    k->child = c;
    k->o = *o;
    set_default(&k->o.heartbeat_ns, HEARTBEAT_NS);
    set_default(&k->o.gap_ns, GAP_NS);
    set_default(&k->o.retry_ns, RETRY_NS);
    set_default(&k->o.retry_max_ns, RETRY_MAX_NS);
    set_default(&k->o.deaf_ns, DEAF_NS);
    k->retry_ns = k->o.retry_ns;
    snprintf(k->id, sizeof(k->id), "%s", o->id);
    show_server(o->server, k->shown, sizeof(k->shown));
    if (gethostname(k->host, sizeof(k->host) - 1) < 0)
        k->host[0] = '\0';
    random_init(&k->random, random_seed_os());
    k->http = http_client_new(&(struct http_client_options){
        .ca_file = s->ca_file,
        .cert_file = s->cert_file,
        .key_file = s->key_file,
        .silence_s = 45,
        .total_s = 60,
        .cancelled = &k->interrupt,
    });
    pthread_mutex_init(&k->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&k->woken, &attr);
    pthread_condattr_destroy(&attr);
    return k;
}

static void client_free(struct control_client *k)
{
    http_client_free(k->http);
    pthread_cond_destroy(&k->woken);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

int control_client_start(struct relay_child *c, const struct control_options *o,
                         struct control_client **ret, struct error *err)
{
    struct control_client *k = client_new(c, o);
    int r = pthread_create(&k->thread, NULL, run, k);
    if (r != 0) {
        client_free(k);
        return error_set(err, -r, "could not start a thread for directives: %s", strerror(r));
    }
    *ret = k;
    return 0;
}

void control_client_stop(struct control_client *k)
{
    pthread_mutex_lock(&k->lock);
    k->is_ending = true;
    k->interrupt = 1;
    pthread_cond_signal(&k->woken);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    client_free(k);
}

static int part_start(struct relay_child *c, void **ret, struct error *err)
{
    char id[AGENT_ID_MAX];
    struct error doubt;
    struct control_client *k;

    if (!c->settings.server)
        return 0;
    if (agent_id_find(c->config->id, c->config->state_dir, id, &doubt) < 0)
        relay_log(c, RELAY_WARNING, "the agent's id will be another one after a restart: %s",
                  doubt.text);
    int r = control_client_start(
        c, &(struct control_options){.server = c->settings.server, .id = id}, &k, err);
    if (r == 0)
        *ret = k;
    return r;
}

static void part_stop(void *part)
{
    control_client_stop(part);
}

static void part_message(void *part, enum relay_kind kind, struct bytes data, int fd)
{
    (void)fd;
    control_client_message(part, kind, data);
}

static void add_counter(struct buf *text, const char *name, const char *help, uint64_t v)
{
    buf_addf(text, "# HELP vesta_agent_control_%s %s.\n# TYPE vesta_agent_control_%s counter\n",
             name, help, name);
    buf_addf(text, "vesta_agent_control_%s %llu\n", name, (unsigned long long)v);
}

static void part_metrics(void *part, struct buf *text)
{
    struct control_client *k = part;

    pthread_mutex_lock(&k->lock);
    add_counter(text, "heartbeats_total", "Heartbeats sent to the server", k->heartbeats);
    add_counter(text, "polls_total", "Times the server was asked for a directive", k->polls);
    add_counter(text, "failures_total", "Heartbeats and polls that failed", k->failures);
    add_counter(text, "directives_total", "Directives received, each counted once", k->directives);
    buf_addf(text,
             "# HELP vesta_agent_control_up Whether the server answers.\n"
             "# TYPE vesta_agent_control_up gauge\nvesta_agent_control_up %d\n",
             k->health == ANSWERS);
    pthread_mutex_unlock(&k->lock);
}

static void part_status(void *part, struct buf *json)
{
    struct control_client *k = part;
    struct json_writer w = {.out = json};

    buf_add_str(json, "\"control\":");
    json_begin_object(&w);
    json_key(&w, "server");
    json_cstring(&w, k->shown);
    json_key(&w, "id");
    json_cstring(&w, k->id);
    pthread_mutex_lock(&k->lock);
    json_key(&w, "answers");
    json_bool(&w, k->health == ANSWERS);
    if (k->trouble[0]) {
        json_key(&w, "trouble");
        json_cstring(&w, k->trouble);
    }
    json_key(&w, "failures");
    json_u64(&w, k->failures);
    if (k->answered_at_ns > 0) {
        json_key(&w, "answered_s_ago");
        json_double(&w, (double)((now_ns() - k->answered_at_ns) / 1000000) / 1e3);
        json_key(&w, "directive");
        directive_write(&k->directive, json);
    }
    pthread_mutex_unlock(&k->lock);
    json_end_object(&w);
}

const struct relay_part control_part = {
    .name = "directives",
    .start = part_start,
    .message = part_message,
    .stop = part_stop,
    .metrics = part_metrics,
    .status = part_status,
};
