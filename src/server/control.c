#include "server/control.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "query/time_range.h"
#include "server/admin.h"
#include "server/control_state.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "wire/json.h"

#define WAIT_DEFAULT_NS ((int64_t)30000000000)
#define WAIT_MAX_NS     ((int64_t)50000000000) /* within what a query may take */
#define WAITERS_MAX     8192
#define CPU_PERCENT_MAX 1e6
#define RATE_MAX        10000.0
#define LOOK_NS         200000000 /* how often waiters are looked at */

/* Someone who holds a long poll. */
struct waiter {
    struct waiter *next;
    struct call *call;
    struct control_name id;
    uint64_t after;
    int64_t deadline_ns;
};

struct control {
    struct server *server;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, is_ending;
    struct control_state state;
    struct waiter *waiters;
    size_t n_waiters;
};

static int64_t now_ns(void)
{
    return clock_wall_ns(clock_real());
}

/* ---- JSON */

/* Reads a name; anything unfit makes the reader fail, naming the key. */
static void get_name(struct json_reader *r, const char *key, struct control_name *ret)
{
    struct bytes text = json_get_string(r);
    if (!json_failed(r) && !control_name_set(ret, text))
        json_fail(r, "\"%s\" is longer than %d bytes or holds control characters", key,
                  CONTROL_NAME_MAX - 1);
}

static size_t get_names(struct json_reader *r, const char *key, struct control_name *to, size_t max)
{
    size_t n = 0;
    json_enter_array(r);
    while (json_next_element(r)) {
        if (n == max) {
            json_fail(r, "\"%s\" has more than %zu entries", key, max);
            break;
        }
        get_name(r, key, &to[n++]);
    }
    return n;
}

static double get_rate(struct json_reader *r)
{
    double rate = json_get_double(r);
    if (!json_failed(r) && !(rate >= 0 && rate <= RATE_MAX))
        json_fail(r, "\"rate\" must be 0 to %g", RATE_MAX);
    return rate;
}

static void add_names(struct json_writer *w, const char *key, const struct control_name *names,
                      size_t n)
{
    json_key(w, key);
    json_begin_array(w);
    for (size_t i = 0; i < n; i++)
        json_cstring(w, names[i].text);
    json_end_array(w);
}

/* Its fields, into an object that is open. */
static void add_directive_fields(struct json_writer *w, const struct control_directive *d)
{
    char until[TIME_TEXT_MAX];

    json_key(w, "number");
    json_u64(w, d ? d->number : 0);
    json_key(w, "mode");
    json_cstring(w, control_mode_names[d ? d->mode : MODE_NORMAL]);
    if (!d)
        return;
    if (d->rate > 0) {
        json_key(w, "rate");
        json_double(w, d->rate);
    }
    add_names(w, "types", d->types, d->n_types);
    if (d->until_ns > 0) {
        json_key(w, "until");
        json_cstring(w, time_text(d->until_ns, until));
    }
    json_key(w, "reason");
    json_cstring(w, d->reason.text);
}

static void add_directive(struct json_writer *w, const struct control_directive *d)
{
    json_begin_object(w);
    add_directive_fields(w, d);
    json_end_object(w);
}

static void reply_directive(struct call *c, const struct control_directive *d)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct json_writer w = {.out = &out};

    json_begin_object(&w);
    json_key(&w, "directive");
    add_directive(&w, d);
    json_end_object(&w);
    call_reply(c, "application/json", &out);
}

/* ---- Heartbeats */

/* What it takes itself, and its clock. */
static bool read_cost_key(struct json_reader *r, struct bytes key, struct control_agent *a)
{
    if (bytes_are(key, "cpu_percent")) {
        a->cpu_percent = json_get_double(r);
        a->has_cost = a->cpu_percent >= 0 && a->cpu_percent <= CPU_PERCENT_MAX;
    } else if (bytes_are(key, "memory_bytes")) {
        a->memory = json_get_u64(r);
    } else if (bytes_are(key, "time_ns")) {
        a->clock_ns = json_get_i64(r);
        a->has_clock = true;
    } else {
        return false;
    }
    return true;
}

static void read_agent_key(struct json_reader *r, struct bytes key, struct control_agent *a)
{
    if (bytes_are(key, "id"))
        get_name(r, "id", &a->id);
    else if (bytes_are(key, "kind"))
        get_name(r, "kind", &a->kind);
    else if (bytes_are(key, "version"))
        get_name(r, "version", &a->version);
    else if (bytes_are(key, "host"))
        get_name(r, "host", &a->host);
    else if (bytes_are(key, "mode"))
        get_name(r, "mode", &a->mode);
    else if (bytes_are(key, "services"))
        a->n_services = get_names(r, "services", a->services, CONTROL_SERVICES_MAX);
    else if (bytes_are(key, "rate"))
        a->rate = get_rate(r);
    else if (bytes_are(key, "samples"))
        a->samples = json_get_u64(r);
    else if (bytes_are(key, "lost"))
        a->lost = json_get_u64(r);
    else if (bytes_are(key, "types"))
        a->n_types = get_names(r, "types", a->types, CONTROL_TYPES_MAX);
    else if (!read_cost_key(r, key, a))
        json_skip(r); /* newer ones may say more */
}

/* The body as one JSON object, each key handed on. */
static int read_object(struct call *c, const char *what,
                       void (*on_key)(struct json_reader *r, struct bytes key, void *arg),
                       void *arg, struct error *err)
{
    CLEANUP(input_closep) struct input *in = input_from_bytes(c->body, what, &c->budget);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, &c->budget);

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);)
        on_key(r, key, arg);
    return json_finish(r, what, err);
}

static void on_agent_key(struct json_reader *r, struct bytes key, void *arg)
{
    read_agent_key(r, key, arg);
}

static int handle_heartbeat(struct call *c, struct error *err)
{
    struct control *k = c->server->control;
    CLEANUP(freep) struct control_agent *said = must_calloc(1, sizeof(*said));

    int r = read_object(c, "heartbeat", on_agent_key, said, err);
    if (r < 0)
        return r;
    if (said->id.text[0] == '\0')
        return error_set(err, -EINVAL, "a heartbeat needs an \"id\"");
    metrics_add(c->server->metrics, METRIC_CONTROL, "heartbeat", 1);
    pthread_mutex_lock(&k->lock);
    struct control_agent *a = control_agent_seen(&k->state, c->tenant, &said->id, now_ns());
    memcpy(said->tenant, a->tenant, sizeof(said->tenant));
    said->clock_ns = (int64_t)((uint64_t)said->clock_ns - (uint64_t)now_ns());
    said->first_ns = a->first_ns;
    said->last_ns = a->last_ns;
    *a = *said;
    const struct control_directive *d = control_effective(&k->state, a, now_ns());
    reply_directive(c, d);
    pthread_mutex_unlock(&k->lock);
    return 0;
}

/* ---- Long polls */

/* Takes the waiter out of the list and answers; without the lock, since answering may take it. */
static void answer(struct control *k, struct waiter *w, int r)
{
    struct error err;
    int result = r == -ECANCELED   ? error_set(&err, r, "the client has left")
                 : r == -ESHUTDOWN ? error_set(&err, r, "the server is being shut down")
                                   : 0;
    if (result == 0) {
        pthread_mutex_lock(&k->lock);
        struct control_agent *a = control_agent_find(&k->state, w->call->tenant, &w->id);
        reply_directive(w->call, a ? control_effective(&k->state, a, now_ns()) : NULL);
        pthread_mutex_unlock(&k->lock);
    }
    call_finish(w->call, result, &err);
    free(w);
}

static bool has_news(struct control *k, const struct waiter *w)
{
    struct control_agent *a = control_agent_find(&k->state, w->call->tenant, &w->id);
    const struct control_directive *d = a ? control_effective(&k->state, a, now_ns()) : NULL;
    return (d ? d->number : 0) != w->after;
}

/* Why this one need not wait any more: 1 is news or time, negative an error, 0 wait on. */
static int verdict(struct control *k, const struct waiter *w)
{
    if (k->is_ending)
        return -ESHUTDOWN;
    if (atomic_load(w->call->cancelled))
        return -ECANCELED;
    return has_news(k, w) || clock_monotonic_ns(clock_real()) >= w->deadline_ns;
}

/* All that are due, taken off the list with their verdicts. */
static struct waiter *take_due(struct control *k)
{
    struct waiter *due = NULL;
    for (struct waiter **at = &k->waiters; *at;) {
        struct waiter *w = *at;
        if (verdict(k, w) == 0) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = due;
        due = w;
        k->n_waiters--;
    }
    return due;
}

static void *watch(void *arg)
{
    struct control *k = arg;

    pthread_mutex_lock(&k->lock);
    while (!k->is_ending || k->waiters) {
        struct waiter *due = take_due(k);
        bool is_ending = k->is_ending;
        pthread_mutex_unlock(&k->lock);
        while (due) {
            struct waiter *w = due;
            due = w->next;
            int r = is_ending ? -ESHUTDOWN : atomic_load(w->call->cancelled) ? -ECANCELED : 0;
            answer(k, w, r);
        }
        pthread_mutex_lock(&k->lock);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!k->is_ending)
            pthread_cond_timedwait(&k->changed, &k->lock, &until);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* The thread exists from the first long poll on: most servers have none. */
static int need_thread(struct control *k, struct error *err)
{
    if (k->is_ending)
        return error_set(err, -ESHUTDOWN, "the server is being shut down");
    if (k->has_thread)
        return 0;
    if (pthread_create(&k->thread, NULL, watch, k) != 0)
        return error_set(err, -EAGAIN, "could not start a thread for directives");
    k->has_thread = true;
    return 0;
}

static int read_wait(struct call *c, struct waiter *w, struct error *err)
{
    struct bytes text;
    int64_t wait = WAIT_DEFAULT_NS;

    if (!call_param(c, "id", &text) || text.len == 0)
        return error_set(err, -EINVAL, "whose directive? Say id=");
    if (!control_name_set(&w->id, text))
        return error_set(err, -EINVAL, "id is longer than %d bytes or holds control characters",
                         CONTROL_NAME_MAX - 1);
    if (call_param(c, "after", &text) && !bytes_to_u64(text, &w->after))
        return error_set(err, -EINVAL, "after takes the number of a directive");
    if (call_param(c, "wait", &text) && duration_parse(text, &wait, err) < 0)
        return error_prefix(err, -EINVAL, "wait");
    if (wait < 0 || wait > WAIT_MAX_NS)
        wait = WAIT_MAX_NS;
    w->deadline_ns = clock_monotonic_ns(clock_real()) + wait;
    return 0;
}

static int handle_poll(struct call *c, struct error *err)
{
    struct control *k = c->server->control;
    CLEANUP(freep) struct waiter *w = must_calloc(1, sizeof(*w));

    int r = read_wait(c, w, err);
    if (r < 0)
        return r;
    metrics_add(c->server->metrics, METRIC_CONTROL, "poll", 1);
    w->call = c;
    pthread_mutex_lock(&k->lock);
    struct control_agent *a = control_agent_find(&k->state, c->tenant, &w->id);
    if (!a) {
        r = error_set(err, -ENOENT, "no heartbeat was received from \"%s\"", w->id.text);
    } else if (has_news(k, w)) {
        reply_directive(c, control_effective(&k->state, a, now_ns()));
    } else if (k->n_waiters >= WAITERS_MAX) {
        r = error_set(err, -EAGAIN, "%d others wait for directives already", WAITERS_MAX);
    } else if ((r = need_thread(k, err)) == 0) {
        call_keep(c);
        w->next = k->waiters;
        k->waiters = TAKE_PTR(w);
        k->n_waiters++;
        r = CALL_PENDING;
    }
    pthread_mutex_unlock(&k->lock);
    return r;
}

/* ---- Directives */

struct reading {
    struct control_directive *d;
    bool has_mode;
};

static void on_directive_key(struct json_reader *r, struct bytes key, void *arg)
{
    struct reading *reading = arg;
    struct control_directive *d = reading->d;
    struct error err;

    if (bytes_are(key, "mode")) {
        struct bytes name = json_get_string(r);
        for (int i = 0; i < MODE_COUNT; i++) {
            if (bytes_are(name, control_mode_names[i])) {
                d->mode = (enum control_mode)i;
                reading->has_mode = true;
            }
        }
        if (!reading->has_mode)
            json_fail(r, "\"mode\" is off, low, normal or burst");
    } else if (bytes_are(key, "agent")) {
        get_name(r, "agent", &d->agent);
    } else if (bytes_are(key, "service")) {
        get_name(r, "service", &d->service);
    } else if (bytes_are(key, "host")) {
        get_name(r, "host", &d->host);
    } else if (bytes_are(key, "reason")) {
        get_name(r, "reason", &d->reason);
    } else if (bytes_are(key, "types")) {
        d->n_types = get_names(r, "types", d->types, CONTROL_TYPES_MAX);
    } else if (bytes_are(key, "rate")) {
        d->rate = get_rate(r);
    } else if (bytes_are(key, "duration")) {
        struct bytes text = json_get_string(r);
        int64_t ns = 0;
        if (!json_failed(r) && (duration_parse(text, &ns, &err) < 0 || ns <= 0))
            json_fail(r, "\"duration\" takes 60s, 5m, 1h...");
        d->until_ns = d->issued_ns + ns;
    } else {
        json_fail(r, "unknown key \"%.*s\"", (int)(key.len < 60 ? key.len : 60),
                  (const char *)key.data);
    }
}

static int write_down(struct call *c, const struct control_directive *d, struct error *err)
{
    CLEANUP(buf_done) struct buf what = {0};

    buf_addf(&what, "%s for agent \"%s\", service \"%s\", host \"%s\": %s",
             control_mode_names[d->mode], d->agent.text, d->service.text, d->host.text,
             d->reason.text);
    return admin_note(c, "agents.direct", c->tenant, &what, err);
}

static int handle_direct(struct call *c, struct error *err)
{
    struct control *k = c->server->control;
    CLEANUP(freep) struct control_directive *d = must_calloc(1, sizeof(*d));
    struct reading reading = {.d = d};

    d->issued_ns = now_ns();
    int r = read_object(c, "directive", on_directive_key, &reading, err);
    if (r < 0)
        return r;
    if (!reading.has_mode)
        return error_set(err, -EINVAL, "a directive needs a \"mode\": off, low, normal or burst");
    if (d->mode == MODE_BURST && d->until_ns == 0)
        return error_set(err, -EINVAL, "a burst needs a \"duration\": it is not for ever");
    memcpy(d->tenant, c->tenant.data, c->tenant.len < 64 ? c->tenant.len : 64);
    (void)control_name_set(&d->actor, bytes_of(c->actor));
    r = write_down(c, d, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&k->lock);
    r = control_direct(&k->state, d, now_ns(), err);
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
    if (r < 0)
        return r;
    metrics_add(c->server->metrics, METRIC_CONTROL, "directive", 1);
    reply_directive(c, d);
    return 0;
}

/* ---- Lists */

static void add_agent(struct json_writer *w, const struct control_agent *a,
                      const struct control_directive *d)
{
    char time[TIME_TEXT_MAX];

    json_begin_object(w);
    json_key(w, "id");
    json_cstring(w, a->id.text);
    json_key(w, "kind");
    json_cstring(w, a->kind.text);
    json_key(w, "version");
    json_cstring(w, a->version.text);
    json_key(w, "host");
    json_cstring(w, a->host.text);
    add_names(w, "services", a->services, a->n_services);
    add_names(w, "types", a->types, a->n_types);
    json_key(w, "mode");
    json_cstring(w, a->mode.text);
    json_key(w, "rate");
    json_double(w, a->rate);
    json_key(w, "samples");
    json_u64(w, a->samples);
    json_key(w, "lost");
    json_u64(w, a->lost);
    if (a->has_cost) {
        json_key(w, "cpu_percent");
        json_double(w, a->cpu_percent);
        json_key(w, "memory_bytes");
        json_u64(w, a->memory);
    }
    if (a->has_clock) {
        json_key(w, "skew_ns");
        json_i64_string(w, a->clock_ns);
    }
    json_key(w, "first_seen");
    json_cstring(w, time_text(a->first_ns, time));
    json_key(w, "last_seen");
    json_cstring(w, time_text(a->last_ns, time));
    json_key(w, "directive");
    add_directive(w, d);
    json_end_object(w);
}

/* A directive that holds, with whom it means and who gave it. */
static void add_order(struct json_writer *w, const struct control_directive *d)
{
    char time[TIME_TEXT_MAX];

    json_begin_object(w);
    add_directive_fields(w, d);
    json_key(w, "agent");
    json_cstring(w, d->agent.text);
    json_key(w, "service");
    json_cstring(w, d->service.text);
    json_key(w, "host");
    json_cstring(w, d->host.text);
    json_key(w, "issued");
    json_cstring(w, time_text(d->issued_ns, time));
    json_key(w, "actor");
    json_cstring(w, d->actor.text);
    json_end_object(w);
}

static void add_orders(struct json_writer *w, const struct control_state *s, struct bytes tenant)
{
    json_key(w, "directives");
    json_begin_array(w);
    for (size_t i = 0; i < s->n_directives; i++) {
        const struct control_directive *d = &s->directives[i];
        if (bytes_equal(bytes_of(d->tenant), tenant) && !control_is_over(d, now_ns()))
            add_order(w, d);
    }
    json_end_array(w);
}

static int handle_agents(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    struct json_writer w = {.out = &out};
    struct control *k = c->server->control;

    json_begin_object(&w);
    json_key(&w, "agents");
    json_begin_array(&w);
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < k->state.n_agents; i++) {
        const struct control_agent *a = &k->state.agents[i];
        if (bytes_equal(bytes_of(a->tenant), c->tenant))
            add_agent(&w, a, control_effective(&k->state, a, now_ns()));
    }
    json_end_array(&w);
    add_orders(&w, &k->state, c->tenant);
    pthread_mutex_unlock(&k->lock);
    json_end_object(&w);
    if (buf_full(&out))
        return buf_error(&out, err);
    call_reply(c, "application/json", &out);
    return 0;
}

/* ---- Its life */

struct control *control_new(struct server *s)
{
    struct control *k = must_calloc(1, sizeof(*k));
    k->server = s;
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    return k;
}

void control_stop(struct control *k)
{
    pthread_mutex_lock(&k->lock);
    k->is_ending = true;
    pthread_cond_signal(&k->changed);
    bool has_thread = k->has_thread;
    k->has_thread = false;
    pthread_mutex_unlock(&k->lock);
    if (has_thread)
        pthread_join(k->thread, NULL);
}

void control_free(struct control *k)
{
    if (!k)
        return;
    control_stop(k);
    control_state_done(&k->state);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    free(k);
}

const struct route control_routes[] = {
    {"POST", "/api/v1/agents/heartbeat", ROLE_INGEST, LANE_QUERY, .body_limit = 64 << 10,
     .handle = handle_heartbeat, .summary = "An agent or SDK says that it is there"},
    {"GET", "/api/v1/agents/directive", ROLE_INGEST, LANE_QUERY, .handle = handle_poll,
     .summary = "What an agent is to do; held until there is news",
     .params =
         "id!: the agent's id; after: number of the directive it has; wait: how long to hold"},
    {"POST", "/api/v1/agents/directive", ROLE_ADMIN, LANE_QUERY, .body_limit = 64 << 10,
     .handle = handle_direct, .summary = "Tells agents what to do: off, low, normal, burst"},
    {"GET", "/api/v1/agents", ROLE_READ, LANE_QUERY, .handle = handle_agents,
     .summary = "Agents and SDKs that have announced themselves, and the directives that hold"},
    {0},
};
