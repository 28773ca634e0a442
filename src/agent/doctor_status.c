#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/doctor.h"
#include "agent/doctor_internal.h"
#include "base/budget.h"
#include "base/cleanup.h"
#include "base/must.h"
#include "net/http_client.h"
#include "wire/json.h"

/* `vesta-agent status`: the JSON of docs/agent-status.md, for people. What is not there is not
 * shown, so that an older or newer agent can be asked as well. */

#define PROCESSES_MAX 64
#define ROWS_MAX      24
#define MEMORY_MAX    ((size_t)16 << 20)

/* A number by name: how walks ended, what was lost. */
struct counted {
    char name[32];
    uint64_t n;
};

struct shown_process {
    uint64_t pid, samples, complete, young;
    char service[64];
};

struct shown_exporter {
    char name[96];
    bool answers;
    uint64_t sent, sent_bytes, refused, dropped, waiting;
};

struct shown_status {
    bool has_agent;
    double age_s;
    char version[32], mode[16], why[160], types[96];
    uint64_t rate, samples, lost, left_out, windows;
    double host_cpu, cpu;
    uint64_t memory, table_bytes, tables, files;
    struct counted stacks[ROWS_MAX];
    size_t n_stacks;
    struct counted workers[ROWS_MAX]; /* times that one was killed or died */
    size_t n_workers;
    struct shown_process processes[PROCESSES_MAX];
    size_t n_processes;
    struct shown_exporter exporters[ROWS_MAX];
    size_t n_exporters;
    char server[128], trouble[200];
    bool server_answers;
};

/* ---- reading */

/* Bytes from outside do not reach a terminal as they are. */
static void get_text(struct json_reader *r, char *to, size_t size)
{
    struct bytes text = bytes_head(json_get_string_or_empty(r), size - 1);
    for (size_t i = 0; i < text.len; i++)
        to[i] = text.data[i] < 0x20 || text.data[i] == 0x7f ? '?' : (char)text.data[i];
    to[text.len] = '\0';
}

/* A number, or 0 for what is none. */
static double get_number(struct json_reader *r)
{
    if (json_peek(r) == JSON_NUMBER)
        return json_get_double(r);
    json_skip(r);
    return 0;
}

static uint64_t get_count(struct json_reader *r)
{
    double v = get_number(r);
    return v > 0 && v < 1e18 ? (uint64_t)v : 0;
}

/* Steps into an object or an array; anything else is skipped, and false. */
static bool enter(struct json_reader *r, enum json_kind kind)
{
    if (json_peek(r) != kind) {
        json_skip(r);
        return false;
    }
    if (kind == JSON_OBJECT)
        json_enter_object(r);
    else
        json_enter_array(r);
    return true;
}

static void read_types(struct json_reader *r, struct shown_status *s)
{
    if (!enter(r, JSON_ARRAY))
        return;
    while (json_next_element(r)) {
        char name[16];
        get_text(r, name, sizeof(name));
        size_t len = strlen(s->types);
        snprintf(s->types + len, sizeof(s->types) - len, "%s%s", len ? ", " : "", name);
    }
}

static void read_cost(struct json_reader *r, struct shown_status *s)
{
    if (!enter(r, JSON_OBJECT))
        return;
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "cpu_percent"))
            s->cpu = get_number(r);
        else if (bytes_are(key, "memory_bytes"))
            s->memory = get_count(r);
        else if (bytes_are(key, "table_bytes"))
            s->table_bytes = get_count(r);
        else if (bytes_are(key, "tables"))
            s->tables = get_count(r);
        else if (bytes_are(key, "files"))
            s->files = get_count(r);
        else
            json_skip(r);
    }
}

static void add_counted(struct counted *list, size_t *n, struct bytes name, uint64_t value)
{
    if (*n == ROWS_MAX)
        return;
    struct counted *c = &list[(*n)++];
    snprintf(c->name, sizeof(c->name), "%.*s", (int)(name.len < 31 ? name.len : 31),
             (const char *)name.data);
    c->n = value;
}

static void read_stacks(struct json_reader *r, struct shown_status *s)
{
    if (!enter(r, JSON_OBJECT))
        return;
    for (struct bytes key; json_next_key(r, &key);) {
        char name[32];
        snprintf(name, sizeof(name), "%.*s", (int)(key.len < 31 ? key.len : 31),
                 (const char *)key.data);
        add_counted(s->stacks, &s->n_stacks, bytes_of(name), get_count(r));
    }
}

static void read_worker(struct json_reader *r, struct shown_status *s, struct bytes worker)
{
    char name[24];
    uint64_t ended = 0;
    snprintf(name, sizeof(name), "%.*s", (int)(worker.len < 23 ? worker.len : 23),
             (const char *)worker.data);
    if (!enter(r, JSON_OBJECT))
        return;
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "killed") || bytes_are(key, "died"))
            ended += get_count(r);
        else
            json_skip(r);
    }
    add_counted(s->workers, &s->n_workers, bytes_of(name), ended);
}

static void read_workers(struct json_reader *r, struct shown_status *s)
{
    if (!enter(r, JSON_OBJECT))
        return;
    for (struct bytes key; json_next_key(r, &key);)
        read_worker(r, s, key);
}

static void read_process(struct json_reader *r, struct shown_status *s)
{
    struct shown_process p = {0};
    if (!enter(r, JSON_OBJECT))
        return;
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "pid"))
            p.pid = get_count(r);
        else if (bytes_are(key, "service"))
            get_text(r, p.service, sizeof(p.service));
        else if (bytes_are(key, "samples"))
            p.samples = get_count(r);
        else if (bytes_are(key, "complete"))
            p.complete = get_count(r);
        else if (bytes_are(key, "young"))
            p.young = get_count(r);
        else
            json_skip(r);
    }
    if (s->n_processes < PROCESSES_MAX)
        s->processes[s->n_processes++] = p;
}

static void read_processes(struct json_reader *r, struct shown_status *s)
{
    if (!enter(r, JSON_ARRAY))
        return;
    while (json_next_element(r))
        read_process(r, s);
}

static void read_agent_key(struct json_reader *r, struct bytes key, struct shown_status *s)
{
    if (bytes_are(key, "version"))
        get_text(r, s->version, sizeof(s->version));
    else if (bytes_are(key, "mode"))
        get_text(r, s->mode, sizeof(s->mode));
    else if (bytes_are(key, "why"))
        get_text(r, s->why, sizeof(s->why));
    else if (bytes_are(key, "rate"))
        s->rate = get_count(r);
    else if (bytes_are(key, "types"))
        read_types(r, s);
    else if (bytes_are(key, "samples"))
        s->samples = get_count(r);
    else if (bytes_are(key, "lost"))
        s->lost = get_count(r);
    else if (bytes_are(key, "left_out"))
        s->left_out = get_count(r);
    else if (bytes_are(key, "windows"))
        s->windows = get_count(r);
    else if (bytes_are(key, "host_cpu_percent"))
        s->host_cpu = get_number(r);
    else if (bytes_are(key, "cost"))
        read_cost(r, s);
    else if (bytes_are(key, "stacks"))
        read_stacks(r, s);
    else if (bytes_are(key, "workers"))
        read_workers(r, s);
    else if (bytes_are(key, "processes"))
        read_processes(r, s);
    else
        json_skip(r);
}

static void read_agent(struct json_reader *r, struct shown_status *s)
{
    s->has_agent = enter(r, JSON_OBJECT);
    for (struct bytes key; s->has_agent && json_next_key(r, &key);)
        read_agent_key(r, key, s);
}

static void read_exporter(struct json_reader *r, struct shown_status *s)
{
    struct shown_exporter e = {0};
    if (!enter(r, JSON_OBJECT))
        return;
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "exporter"))
            get_text(r, e.name, sizeof(e.name));
        else if (bytes_are(key, "answers"))
            e.answers = json_get_bool(r);
        else if (bytes_are(key, "sent_requests"))
            e.sent = get_count(r);
        else if (bytes_are(key, "sent_bytes"))
            e.sent_bytes = get_count(r);
        else if (bytes_are(key, "refused_requests"))
            e.refused = get_count(r);
        else if (bytes_are(key, "dropped_requests") || bytes_are(key, "spool_dropped_requests"))
            e.dropped += get_count(r);
        else if (bytes_are(key, "spool_bytes") || bytes_are(key, "queue_bytes"))
            e.waiting += get_count(r);
        else
            json_skip(r);
    }
    if (s->n_exporters < ROWS_MAX)
        s->exporters[s->n_exporters++] = e;
}

static void read_exporters(struct json_reader *r, struct shown_status *s)
{
    if (!enter(r, JSON_ARRAY))
        return;
    while (json_next_element(r))
        read_exporter(r, s);
}

static void read_control(struct json_reader *r, struct shown_status *s)
{
    if (!enter(r, JSON_OBJECT))
        return;
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "server"))
            get_text(r, s->server, sizeof(s->server));
        else if (bytes_are(key, "trouble"))
            get_text(r, s->trouble, sizeof(s->trouble));
        else if (bytes_are(key, "answers"))
            s->server_answers = json_get_bool(r);
        else
            json_skip(r);
    }
}

static void read_relay(struct json_reader *r, struct shown_status *s)
{
    if (!enter(r, JSON_OBJECT))
        return;
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "exporters"))
            read_exporters(r, s);
        else if (bytes_are(key, "control"))
            read_control(r, s);
        else
            json_skip(r);
    }
}

static int read_status(struct bytes json, struct shown_status *s, struct error *err)
{
    struct budget budget;
    budget_init(&budget, MEMORY_MAX);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);

    json_reader_set_text(r, json, 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "agent"))
            read_agent(r, s);
        else if (bytes_are(key, "relay"))
            read_relay(r, s);
        else if (bytes_are(key, "age_s"))
            s->age_s = get_number(r);
        else
            json_skip(r);
    }
    return json_finish(r, "status", err);
}

/* ---- showing */

/* 1,234,567 */
static const char *grouped(uint64_t n, char text[32])
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

static void show_head(const struct shown_status *s, bool is_colored, struct buf *out)
{
    const char *bold = is_colored ? "\033[1m" : "", *end = is_colored ? "\033[0m" : "";
    char memory[BUDGET_TEXT_MAX], tables[BUDGET_TEXT_MAX], n[3][32];

    buf_addf(out, "%svesta-agent %s%s  %s", bold, s->version, end, s->mode);
    if (s->rate > 0)
        buf_addf(out, " at %" PRIu64 " Hz", s->rate);
    buf_addf(out, "%s%s: %s\n", s->types[0] ? ", " : "", s->types, s->why);
    if (s->age_s > 60)
        buf_addf(out, "  %-9s the agent has said nothing for %.0f s\n", "silent", s->age_s);
    buf_addf(out,
             "  %-9s %.2f %% of a core, %s of memory, of which tables %s (%" PRIu64 " of %" PRIu64
             " files)\n",
             "cost", s->cpu, budget_text((size_t)s->memory, memory),
             budget_text((size_t)s->table_bytes, tables), s->tables, s->files);
    buf_addf(out, "  %-9s %s taken, %s lost, %s left out; %" PRIu64 " windows\n", "samples",
             grouped(s->samples, n[0]), grouped(s->lost, n[1]), grouped(s->left_out, n[2]),
             s->windows);
    buf_addf(out, "  %-9s %.0f %% CPU\n", "host", s->host_cpu);
}

/* "outermost" is how a walk should end, and "no_user" is one that was not needed. */
static void show_stacks(const struct shown_status *s, struct buf *out)
{
    uint64_t all = 0, whole = 0;
    for (size_t i = 0; i < s->n_stacks; i++) {
        if (strcmp(s->stacks[i].name, "no_user") == 0)
            continue;
        all += s->stacks[i].n;
        if (strcmp(s->stacks[i].name, "outermost") == 0)
            whole = s->stacks[i].n;
    }
    if (all == 0)
        return;
    buf_addf(out, "  %-9s %.1f %% whole", "stacks", 100.0 * (double)whole / (double)all);
    for (size_t i = 0; i < s->n_stacks; i++) {
        const struct counted *c = &s->stacks[i];
        if (c->n > 0 && strcmp(c->name, "no_user") != 0 && strcmp(c->name, "outermost") != 0)
            buf_addf(out, ", %s %.1f %%", c->name, 100.0 * (double)c->n / (double)all);
    }
    buf_add_byte(out, '\n');
}

static void show_others(const struct shown_status *s, struct buf *out)
{
    char n[4][32], bytes[2][BUDGET_TEXT_MAX];

    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i].n > 0)
            buf_addf(out, "  %-9s %s had to be started anew %s times\n", "workers",
                     s->workers[i].name, grouped(s->workers[i].n, n[0]));
    for (size_t i = 0; i < s->n_exporters; i++) {
        const struct shown_exporter *e = &s->exporters[i];
        buf_addf(out, "  %-9s %s %s; %s sent (%s), %s refused, %s dropped, %s waiting\n",
                 i == 0 ? "sending" : "", e->name, e->answers ? "answers" : "DOES NOT ANSWER",
                 grouped(e->sent, n[0]), budget_text((size_t)e->sent_bytes, bytes[0]),
                 grouped(e->refused, n[1]), grouped(e->dropped, n[2]),
                 budget_text((size_t)e->waiting, bytes[1]));
    }
    if (s->server[0])
        buf_addf(out, "  %-9s %s %s%s%s\n", "server", s->server,
                 s->server_answers ? "answers" : "DOES NOT ANSWER", s->trouble[0] ? ": " : "",
                 s->trouble);
}

static void show_processes(const struct shown_status *s, bool is_colored, struct buf *out)
{
    char n[2][32];
    size_t width = 7;

    /* The busiest come first; processes without samples of an age that counts come last. */
    if (s->n_processes == 0 || s->processes[0].samples == 0)
        return;
    for (size_t i = 0; i < s->n_processes && s->processes[i].samples > 0; i++)
        if (strlen(s->processes[i].service) > width)
            width = strlen(s->processes[i].service);
    buf_addf(out, "\n%s%8s  %-*s  %12s  %7s  %8s%s\n", is_colored ? "\033[1m" : "", "PID",
             (int)width, "SERVICE", "SAMPLES", "WHOLE", "YOUNG", is_colored ? "\033[0m" : "");
    for (size_t i = 0; i < s->n_processes && s->processes[i].samples > 0; i++) {
        const struct shown_process *p = &s->processes[i];
        double whole = 100.0 * (double)p->complete / (double)p->samples;
        bool is_bad = is_colored && p->samples >= 100 && whole < 90;
        buf_addf(out, "%8" PRIu64 "  %-*s  %12s  ", p->pid, (int)width, p->service,
                 grouped(p->samples, n[0]));
        buf_addf(out, "%s%5.1f %%%s", is_bad ? "\033[33m" : "", whole, is_bad ? "\033[0m" : "");
        buf_addf(out, "  %8s\n", grouped(p->young, n[1]));
    }
}

int doctor_show_status(struct bytes json, bool is_colored, struct buf *out, struct error *err)
{
    CLEANUP(freep) struct shown_status *s = must_calloc(1, sizeof(*s));

    int r = read_status(json, s, err);
    if (r < 0)
        return r;
    if (!s->has_agent) {
        buf_addf(out, "The agent has started and told nothing yet.\n");
        show_others(s, out);
        return 0;
    }
    show_head(s, is_colored, out);
    show_stacks(s, out);
    show_others(s, out);
    show_processes(s, is_colored, out);
    return 0;
}

/* ---- the command */

static int fetch(const char *listen, struct budget *b, struct http_body *ret, struct error *err)
{
    bool is_unix = strncmp(listen, "unix:", 5) == 0;
    char url[512];

    /* ":4042" and "0.0.0.0:4042" are every address, this host's own among them. */
    if (is_unix)
        snprintf(url, sizeof(url), "http://localhost/status");
    else if (listen[0] == ':')
        snprintf(url, sizeof(url), "http://127.0.0.1%s/status", listen);
    else if (strncmp(listen, "0.0.0.0:", 8) == 0)
        snprintf(url, sizeof(url), "http://127.0.0.1%s/status", listen + 7);
    else
        snprintf(url, sizeof(url), "http://%s/status", listen);
    return http_get(url,
                    &(struct http_client_options){
                        .unix_path = is_unix ? listen + 5 : NULL, .connect_s = 3, .total_s = 10},
                    b, ret, err);
}

int status_main(int argc, char **argv)
{
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct budget budget;
    struct http_body body = {0};
    struct error err = {""};
    bool is_json;

    int r = doctor_options(argc, argv, &is_json, &config);
    if (r != 0)
        return r;
    const char *listen = agent_config_of(config)->listen;
    if (listen[0] == '\0') {
        fputs("vesta-agent: the agent can be asked once it has an address: set listen, to "
              "127.0.0.1:4042 for one\n",
              stderr);
        return 2;
    }
    budget_init(&budget, MEMORY_MAX);
    r = fetch(listen, &budget, &body, &err);
    if (r == 0 && is_json)
        buf_add(&out, body.data.data, body.data.len);
    else if (r == 0)
        r = doctor_show_status((struct bytes){body.data.data, body.data.len}, doctor_wants_color(),
                               &out, &err);
    http_body_done(&budget, &body);
    if (r < 0) {
        fprintf(stderr, "vesta-agent: %s\n", err.text);
        return 1;
    }
    fwrite(out.data, 1, out.len, stdout);
    return 0;
}
