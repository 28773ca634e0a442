#include "agent/node_attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "base/must.h"
#include "host/attach_worker.h"
#include "wire/json.h"
#include "wire/log.h"

#define SECOND_NS    ((int64_t)1000000000)
#define TALK_NS      (30 * SECOND_NS) /* what a conversation may take beyond its window */
#define CLOSED_NS    (SECOND_NS / 20) /* until a listener that was closed is gone */
#define CLOSE_TRIES  3
#define DOUBT_NS     (2 * SECOND_NS)   /* until one in doubt is looked at, the first time */
#define DOUBT_MAX_NS (16 * SECOND_NS)  /* later */
#define STUCK_NS     (300 * SECOND_NS) /* when it could not be closed */
#define LOW_TIMES    4                 /* windows are so much rarer in mode `low` */
#define MESSAGE_SIZE ((size_t)64 << 10)

enum state {
    IDLE,
    OPENING,  /* the attacher is at it */
    TALKING,  /* the relay is */
    WAITING,  /* a moment, until the listener should be gone */
    CHECKING, /* the attacher looks whether it is */
};

struct node_attach {
    struct agent *agent;
    enum state state;
    struct process *process; /* held, unless idle */
    uint64_t number;         /* of the conversation */
    struct attach_place place;
    int64_t until_ns;  /* of the state */
    uint64_t restarts; /* of the relay, when it began to talk */
    unsigned tries;    /* to close it */
    bool is_told;      /* to end early */
    bool is_stuck;     /* there is an inspector that could not be closed */
    bool is_finishing;
};

struct node_attach *node_attach_new(struct agent *a)
{
    struct node_attach *n = must_calloc(1, sizeof(*n));

    n->agent = a;
    return n;
}

void node_attach_free(struct node_attach *n)
{
    free(n);
}

bool node_attach_is_closing(const struct node_attach *n)
{
    return n->state == WAITING;
}

static void end(struct node_attach *n)
{
    process_let_go(n->agent->processes, n->process);
    n->process = NULL;
    n->state = IDLE;
}

/* ---- Whose turn it is */

static bool is_time_for_windows(const struct agent *a)
{
    const struct governor_ruling *r = &a->ruling;

    return r->mode != MODE_OFF && !r->is_backing_off && !r->is_throttled && r->shed == SHED_NOTHING;
}

static bool is_old_enough(const struct agent *a, const struct process *p)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return p->start_ns > 0 &&
           ts.tv_sec * SECOND_NS + ts.tv_nsec - (int64_t)p->start_ns >= a->config->node_min_age_ns;
}

static bool is_due(const struct agent *a, const struct process *p, int64_t now_ns)
{
    if (!p->is_node || !p->is_wanted || p->state != PROCESS_KNOWN || p->is_gone || !p->identity ||
        !identity_may_attach(p->identity) || p->attach_ns == INT64_MAX)
        return false;
    int64_t more = p->attach_ns > 0 && a->ruling.mode == MODE_LOW
                       ? (LOW_TIMES - 1) * a->config->node_interval_ns
                       : 0;
    return now_ns >= p->attach_ns + more && is_old_enough(a, p);
}

/* Who has waited longest. */
static struct process *next_process(const struct agent *a, int64_t now_ns)
{
    struct process *found = NULL;

    for (struct process *p = NULL; (p = process_table_next(a->processes, p)) != NULL;)
        if (is_due(a, p, now_ns) && (!found || p->attach_ns < found->attach_ns))
            found = p;
    return found;
}

/* One that was busy since it was signalled, and may have opened its inspector by now. */
static struct process *next_doubtful(const struct agent *a, int64_t now_ns)
{
    for (struct process *p = NULL; (p = process_table_next(a->processes, p)) != NULL;)
        if (p->attach_check_ns > 0 && now_ns >= p->attach_check_ns && !p->is_gone)
            return p;
    return NULL;
}

bool node_attach_is_idle(const struct node_attach *n)
{
    return n->state == IDLE && !(n->is_finishing && next_doubtful(n->agent, INT64_MAX));
}

/* No look finds out whether a signal is still to be handled: they end with the process. */
static void look_again(struct node_attach *n, int64_t least_ns)
{
    struct process *p = n->process;
    int64_t twice = 2 * p->attach_pause_ns;

    p->attach_pause_ns = twice > DOUBT_MAX_NS ? DOUBT_MAX_NS : twice;
    if (p->attach_pause_ns < least_ns)
        p->attach_pause_ns = least_ns;
    p->attach_check_ns = n->is_finishing ? 0 : loop_now_ns(n->agent->loop) + p->attach_pause_ns;
}

static void look_no_more(struct node_attach *n)
{
    n->process->attach_check_ns = n->process->attach_pause_ns = 0;
}

static void leave_alone(struct node_attach *n, int level, const char *why)
{
    n->process->attach_ns = INT64_MAX;
    agent_log(n->agent, level, "process %u is not attached to: %s", n->process->tgid, why);
}

static void look_at(struct node_attach *n, uint16_t port)
{
    n->place = (struct attach_place){.port = port};
    snprintf(n->place.text, sizeof(n->place.text), "port %u", port);
    n->tries = 0;
}

static void take_on(struct node_attach *n, struct process *p)
{
    process_hold(p);
    n->process = p;
    look_at(n, p->attach_port ? p->attach_port : ATTACH_PORT);
    n->is_told = n->is_stuck = false;
}

/* ---- Talking */

static void send_job(struct node_attach *n, bool takes, int fd, int64_t now_ns)
{
    CLEANUP(buf_done) struct buf json = {0};
    struct json_writer w = {.out = &json};
    struct process *p = n->process;
    struct relay_stats stats;

    relay_stats(n->agent->relay, &stats);
    n->restarts = stats.restarts;
    json_begin_object(&w);
    json_key(&w, "number");
    json_u64(&w, ++n->number);
    json_key(&w, "pid");
    json_u64(&w, p->namespaced_pid ? p->namespaced_pid : p->tgid);
    json_key(&w, "takes");
    json_bool(&w, takes);
    agent_add_attributes(p, &w);
    json_end_object(&w);
    relay_send(n->agent->relay, RELAY_NODE_WINDOW, buf_bytes(&json), fd);
    n->state = TALKING;
    n->until_ns = now_ns + TALK_NS + (takes ? n->agent->config->node_duration_ns : 0);
}

static void end_early(struct node_attach *n)
{
    if (n->state != TALKING || n->is_told)
        return;
    n->is_told = true;
    relay_send(n->agent->relay, RELAY_NODE_STOP, (struct bytes){0}, -1);
}

static bool is_relay_another(const struct node_attach *n)
{
    struct relay_stats stats;

    relay_stats(n->agent->relay, &stats);
    return stats.restarts != n->restarts;
}

/* ---- Closing */

static void wait_a_moment(struct node_attach *n, int64_t now_ns)
{
    n->state = WAITING;
    n->until_ns = now_ns + CLOSED_NS;
}

static void check(struct node_attach *n);

/* What listens elsewhere may be no inspector, and then the inspector is at the usual port, now or
 * later. */
static void give_up(struct node_attach *n, const char *why)
{
    bool is_usual = n->place.port == ATTACH_PORT;

    n->process->attach_ns = INT64_MAX;
    agent_log(n->agent, LOG_LEVEL_WARN, "the inspector of process %u may be open at %s: %s",
              n->process->tgid, n->place.text, why);
    n->is_stuck |= is_usual || n->place.port == n->process->attach_port;
    look_again(n, n->is_stuck ? STUCK_NS : DOUBT_NS);
    if (is_usual) {
        end(n);
        return;
    }
    look_at(n, ATTACH_PORT);
    check(n);
}

static void close_again(struct node_attach *n, int fd, const char *why)
{
    int64_t now = loop_now_ns(n->agent->loop);

    if (++n->tries > CLOSE_TRIES) {
        give_up(n, why);
    } else if (fd >= 0) {
        send_job(n, false, fd, now);
    } else {
        wait_a_moment(n, now + SECOND_NS);
    }
}

/* Where it is. True when others than this host can reach it: then it must not stay, nor come again.
 */
static bool is_exposed(struct node_attach *n, const struct attach_place *found)
{
    bool is_told = strcmp(n->place.text, found->text) == 0;

    n->place = *found;
    if (found->is_loopback)
        return false;
    n->process->attach_ns = INT64_MAX;
    if (!is_told)
        agent_log(n->agent, LOG_LEVEL_WARN,
                  "process %u is not attached to: its inspector has opened at %s, where others may "
                  "reach it; it is being closed",
                  n->process->tgid, found->text);
    return true;
}

static void checked(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct node_attach *n = arg;
    CLEANUP(closep) int open = fd;
    struct attach_place found;
    struct error err;

    if (r == -ECANCELED)
        return;
    if (r == 0 && attach_read(data, &found, &err) == 0)
        (void)is_exposed(n, &found);
    if (r != -ENOENT && r != -ESRCH) {
        close_again(n, open, r < 0 ? text : "it was told to close, and does not");
        return;
    }
    if (r == -ENOENT && n->place.port != ATTACH_PORT) {
        look_at(n, ATTACH_PORT);
        check(n);
        return;
    }
    if (r == -ESRCH)
        look_no_more(n);
    else if (n->process->attach_check_ns > 0)
        look_again(n, n->is_stuck ? STUCK_NS : DOUBT_NS);
    end(n);
}

/* Whether the inspector is closed. */
static void check(struct node_attach *n)
{
    CLEANUP(buf_done) struct buf q = {0};

    n->state = CHECKING;
    attach_question_again(n->process->tgid, n->process->start_ns, n->place.port, &q);
    if (worker_ask(n->agent->attacher, buf_bytes(&q), NULL, 0, checked, n) < 0)
        close_again(n, -1, "nobody can look whether it is closed");
}

/* ---- Opening */

static void not_opened(struct node_attach *n, int r, const char *text)
{
    switch (r) {
    case -ESRCH:
        end(n);
        break;
    case -ENOTSUP: /* no signal was sent */
        leave_alone(n, LOG_LEVEL_INFO, text);
        end(n);
        break;
    case -EBUSY:
    case -EADDRINUSE:
    case -EAGAIN:
        agent_log(n->agent, LOG_LEVEL_INFO, "process %u is not attached to this time: %s",
                  n->process->tgid, text);
        end(n);
        break;
    default: /* a signal may have been sent, and an inspector may be open, now or later */
        leave_alone(n, LOG_LEVEL_WARN, text);
        n->process->attach_check_ns = loop_now_ns(n->agent->loop);
        check(n);
    }
}

static void opened(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct node_attach *n = arg;
    CLEANUP(closep) int open = fd;
    struct attach_place found;
    struct error err = {""};

    if (r == -ECANCELED)
        return;
    if (r == 0)
        r = attach_read(data, &found, &err);
    if (r < 0) {
        not_opened(n, r, err.text[0] ? err.text : text);
        return;
    }
    bool takes = !is_exposed(n, &found) && !n->is_finishing;
    agent_log(n->agent, LOG_LEVEL_DEBUG, "the inspector of process %u is open at %s",
              n->process->tgid, found.text);
    send_job(n, takes, open, loop_now_ns(n->agent->loop));
}

static void begin(struct node_attach *n, struct process *p, int64_t now_ns)
{
    CLEANUP(buf_done) struct buf q = {0};

    attach_question_open(p->tgid, p->start_ns, &q);
    p->attach_ns = now_ns + n->agent->config->node_interval_ns;
    if (worker_ask(n->agent->attacher, buf_bytes(&q), NULL, 0, opened, n) < 0)
        return;
    take_on(n, p);
    n->state = OPENING;
}

/* ---- What others tell */

struct done {
    uint64_t number, samples;
    bool is_inspector, is_own, reopens;
    char error[256];
};

static bool read_done(struct bytes json, struct done *ret)
{
    struct budget budget;

    budget_init(&budget, MESSAGE_SIZE);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    json_reader_set_text(r, json, 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "number"))
            ret->number = json_get_u64(r);
        else if (bytes_are(key, "samples"))
            ret->samples = json_get_u64(r);
        else if (bytes_are(key, "inspector"))
            ret->is_inspector = json_get_bool(r);
        else if (bytes_are(key, "own"))
            ret->is_own = json_get_bool(r);
        else if (bytes_are(key, "reopens"))
            ret->reopens = json_get_bool(r);
        else if (bytes_are(key, "error")) {
            struct bytes text = json_get_string_or_empty(r);
            snprintf(ret->error, sizeof(ret->error), "%.*s",
                     (int)bytes_head(text, sizeof(ret->error) - 1).len, (const char *)text.data);
        } else
            json_skip(r);
    }
    return !json_failed(r);
}

void node_attach_done(struct node_attach *n, struct bytes json, int64_t now_ns)
{
    struct done done = {0};

    if (n->state != TALKING || !read_done(json, &done) || done.number != n->number)
        return;
    if (done.is_own)
        leave_alone(n, LOG_LEVEL_INFO, done.error);
    else if (done.error[0])
        agent_log(n->agent, n->process->is_gone ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN,
                  "no profiles from inside process %u: %s", n->process->tgid, done.error);
    else
        agent_log(n->agent, LOG_LEVEL_DEBUG, "%llu samples from inside process %u",
                  (unsigned long long)done.samples, n->process->tgid);
    if (done.is_inspector)
        n->process->attach_port = n->place.port;
    look_no_more(n);
    if (done.reopens)
        n->process->attach_check_ns = now_ns; /* the look that follows is not the last one */
    wait_a_moment(n, now_ns);
}

void node_attach_finish(struct node_attach *n)
{
    n->is_finishing = true;
    end_early(n);
    for (struct process *p = NULL; (p = process_table_next(n->agent->processes, p)) != NULL;)
        if (p->attach_check_ns > 0)
            p->attach_check_ns = 1; /* now, for the last time */
}

void node_attach_tick(struct node_attach *n, int64_t now_ns)
{
    bool is_time = is_time_for_windows(n->agent) && !n->is_finishing;

    if (n->state == TALKING && !is_time)
        end_early(n);
    if ((n->state == TALKING && (now_ns >= n->until_ns || is_relay_another(n))) ||
        (n->state == WAITING && now_ns >= n->until_ns))
        check(n);
    if (n->state != IDLE || n->agent->is_held)
        return;
    struct process *p = next_doubtful(n->agent, now_ns);
    if (p) {
        take_on(n, p);
        check(n);
        return;
    }
    p = is_time ? next_process(n->agent, now_ns) : NULL;
    if (p)
        begin(n, p, now_ns);
}
