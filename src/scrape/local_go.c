#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/http_client.h"
#include "scrape/scrape_internal.h"
#include "wire/json.h"

/*
 * Go programs of this host that serve /debug/pprof. The agent says which Go processes listen where;
 * each port is asked once, and what it answered is remembered for as long as it is listed.
 */
#define LOCAL_BYTES ((size_t)4 << 20)
#define INDEX_MAX   ((uint64_t)64 << 10)
#define PROBE_S     1
#define PORTS_MAX   64                          /* of one process */
#define AGAIN_NS    ((int64_t)300 * 1000000000) /* a port that does not answer may yet */

bool local_go_is_index(int status, struct bytes body)
{
    return status == 200 && bytes_find(body, BYTES("goroutine")) &&
           bytes_find(body, BYTES("/debug/pprof")) && bytes_find(body, BYTES("profile?"));
}

/* Whether it is there, and whether anybody answered. */
static bool probe(uint16_t port, bool *ret_is_answered)
{
    struct http_client_options o = {.connect_s = PROBE_S, .silence_s = PROBE_S, .total_s = PROBE_S};
    CLEANUP(http_client_freep) struct http_client *client = http_client_new(&o);
    struct http_answer answer;
    struct budget budget;
    char url[64];

    snprintf(url, sizeof(url), "http://127.0.0.1:%u/debug/pprof/", port);
    budget_init(&budget, 2 * INDEX_MAX);
    const struct http_fetch f = {.url = url, .answer_max = INDEX_MAX, .no_redirects = true};
    *ret_is_answered = http_fetch(client, &f, &budget, &answer, NULL) == 0;
    if (!*ret_is_answered)
        return false;
    bool is_index = local_go_is_index(answer.status, http_answer_body(&answer));
    http_answer_done(&budget, &answer);
    return is_index;
}

static struct local_port *find_port(struct scrape *s, int64_t pid, uint16_t port)
{
    for (size_t i = 0; i < s->n_ports; i++) {
        if (s->ports[i].pid == pid && s->ports[i].port == port)
            return &s->ports[i];
    }
    s->ports = must_realloc(s->ports, (s->n_ports + 1) * sizeof(*s->ports));
    s->ports[s->n_ports] = (struct local_port){.pid = pid, .port = port};
    return &s->ports[s->n_ports++];
}

/* What is known of a port, which is asked when nothing is. */
static bool serves_pprof(struct scrape *s, int64_t pid, uint16_t port)
{
    struct local_port *p = find_port(s, pid, port);
    bool is_answered;

    p->is_listed = true;
    if (scrape_now_ns() >= p->again_ns) {
        p->is_pprof = probe(port, &is_answered);
        p->again_ns = is_answered ? INT64_MAX : scrape_now_ns() + AGAIN_NS;
    }
    return p->is_pprof;
}

/* Whether a job that was configured reads from it: two would be in each other's way. */
static bool is_configured(struct scrape *s, uint16_t port)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    bool is_there = false;
    char address[32];

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_targets && !is_there; i++) {
        const struct target *t = s->targets[i];
        const char *rest = strstr(t->base, "://") + 3;
        for (size_t k = 0; k < ARRAY_SIZE(hosts) && t->job != &s->local_job; k++) {
            int n = snprintf(address, sizeof(address), "%s:%u", hosts[k], port);
            is_there |= strncmp(rest, address, (size_t)n) == 0 && (!rest[n] || rest[n] == '/');
        }
    }
    pthread_mutex_unlock(&s->lock);
    return is_there;
}

static void forget_unlisted(struct scrape *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n_ports; i++) {
        if (s->ports[i].is_listed)
            s->ports[kept++] = s->ports[i];
    }
    s->n_ports = kept;
    for (size_t i = 0; i < kept; i++)
        s->ports[i].is_listed = false;
}

/* One process as the agent tells it. */
struct process {
    int64_t pid;
    uint16_t ports[PORTS_MAX];
    size_t n_ports;
    struct tags tags;
};

static void read_ports(struct json_reader *r, struct process *p)
{
    json_enter_array(r);
    while (json_next_element(r)) {
        uint64_t port = json_get_u64(r);
        if (port > 0 && port <= 65535 && p->n_ports < PORTS_MAX)
            p->ports[p->n_ports++] = (uint16_t)port;
    }
}

static void read_attributes(struct json_reader *r, struct process *p)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        CLEANUP(buf_done) struct buf name = {0};
        buf_add_bytes(&name, key);
        if (json_peek(r) == JSON_STRING && tag_name_is_sound(buf_bytes(&name)))
            tags_set(&p->tags, buf_bytes(&name), json_get_string(r));
        else
            json_skip(r);
    }
}

static void read_process(struct json_reader *r, struct process *p)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "pid"))
            p->pid = json_get_i64(r);
        else if (bytes_are(key, "ports"))
            read_ports(r, p);
        else if (bytes_are(key, "service"))
            tags_set(&p->tags, BYTES("service.name"), json_get_string_or_empty(r));
        else if (bytes_are(key, "attributes"))
            read_attributes(r, p);
        else
            json_skip(r);
    }
}

/* The first port that serves it: one process needs to be asked by one. */
static void add_process(struct scrape *s, struct process *p, struct tags_list *to)
{
    char text[32];

    for (size_t i = 0; i < p->n_ports && to->n < SCRAPE_TARGETS_MAX; i++) {
        if (is_configured(s, p->ports[i]))
            return;
        if (!serves_pprof(s, p->pid, p->ports[i]))
            continue;
        struct tags t = tags_copy(&p->tags);
        snprintf(text, sizeof(text), "%lld", (long long)p->pid);
        tags_set(&t, BYTES("process.pid"), bytes_of(text));
        snprintf(text, sizeof(text), "127.0.0.1:%u", p->ports[i]);
        tags_set(&t, BYTES("__address__"), bytes_of(text));
        tags_list_push(to, t);
        return;
    }
}

void local_go_refresh(struct scrape *s, struct buf *problems)
{
    CLEANUP(buf_done) struct buf json = {0};
    struct tags_list found = {0};
    struct budget budget;
    struct error err = {""};

    pthread_mutex_lock(&s->lock);
    buf_add_bytes(&json, buf_bytes(&s->local_json));
    s->has_local_news = false;
    pthread_mutex_unlock(&s->lock);
    budget_init(&budget, LOCAL_BYTES);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    json_reader_set_text(r, buf_bytes(&json), 0);
    json_enter_array(r);
    while (json_next_element(r)) {
        struct process p = {0};
        read_process(r, &p);
        if (!json_failed(r))
            add_process(s, &p, &found);
        tags_done(&p.tags);
    }
    if (json_finish(r, "list of local processes", &err) < 0)
        buf_addf(problems, "%s\n", err.text);
    else
        target_set_sync(s, &s->states[s->n_states - 1], &found, problems);
    forget_unlisted(s);
    tags_list_done(&found);
}
