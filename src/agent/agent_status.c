#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/must.h"
#include "wire/json.h"

#define PROCESSES_SHOWN 50
#define SERVICES_SHOWN  32

/* As people and programs read them; the order is that of enum unwind_end. */
static const char *const end_names[UNWIND_END_COUNT] = {
    "outermost", "no_user",    "no_process",  "no_mapping", "no_table",
    "no_frame",  "unreadable", "unsupported", "too_deep",   "broken",
};

static struct bytes service_of(const struct process *p)
{
    struct bytes key, value;

    for (size_t i = 0; p->identity && identity_attribute(p->identity, i, &key, &value); i++)
        if (bytes_are(key, "service.name"))
            return value;
    return bytes_of(p->comm);
}

static void key_u64(struct json_writer *w, const char *key, uint64_t value)
{
    json_key(w, key);
    json_u64(w, value);
}

static void key_text(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, key);
    json_cstring(w, value);
}

static void key_percent(struct json_writer *w, const char *key, double share)
{
    json_key(w, key);
    json_double(w, (double)(int64_t)(share * 1e5 + 0.5) / 1e3);
}

/* ---- Parts of the status */

static void add_types(const struct agent *a, struct json_writer *w)
{
    json_key(w, "types");
    json_begin_array(w);
    for (uint32_t t = 0; t < AGENT_TYPES; t++)
        if (a->types & 1u << t)
            json_cstring(w, agent_type_name((enum agent_type)t));
    json_end_array(w);
}

static void add_cost(struct agent *a, const struct probe_stats *stats, struct json_writer *w)
{
    struct code_files_stats files;

    code_files_stats(a->files, &files);
    json_key(w, "cost");
    json_begin_object(w);
    key_percent(w, "cpu_percent", a->reading.own_cpu);
    key_u64(w, "bpf_ns", stats->run_ns);
    key_u64(w, "bpf_runs", stats->runs);
    key_u64(w, "memory_bytes", a->reading.memory);
    key_u64(w, "table_bytes", probe_table_bytes(a->probe));
    key_u64(w, "map_bytes", stats->map_bytes);
    key_u64(w, "files", files.files);
    key_u64(w, "tables", files.tables);
    key_u64(w, "tables_evicted", files.evicted);
    json_end_object(w);
}

static void add_stacks(const struct probe_stats *stats, struct json_writer *w)
{
    json_key(w, "stacks");
    json_begin_object(w);
    for (size_t i = 0; i < UNWIND_END_COUNT; i++)
        key_u64(w, end_names[i], stats->ends[i]);
    json_end_object(w);
}

static void add_worker(const char *name, const struct worker *worker, struct json_writer *w)
{
    struct worker_stats s;

    worker_stats(worker, &s);
    json_key(w, name);
    json_begin_object(w);
    key_u64(w, "pid", (uint64_t)s.pid);
    key_u64(w, "asked", s.asked);
    key_u64(w, "refused", s.refused);
    key_u64(w, "killed", s.killed);
    key_u64(w, "died", s.died);
    json_end_object(w);
}

static int by_samples(const void *a, const void *b)
{
    const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;

    return x->samples < y->samples ? 1 : x->samples > y->samples ? -1 : 0;
}

/* Those that were sampled, most often first; NULL-ended. */
static struct process **sampled(struct agent *a, size_t *ret_n)
{
    struct process **list = must_calloc(process_table_count(a->processes) + 1, sizeof(*list));
    size_t n = 0;

    for (struct process *p = NULL; (p = process_table_next(a->processes, p)) != NULL;)
        if (p->samples + p->young > 0 && p->is_wanted)
            list[n++] = p;
    qsort(list, n, sizeof(struct process *), by_samples);
    *ret_n = n;
    return list;
}

static void add_process(const struct process *p, struct json_writer *w)
{
    json_begin_object(w);
    key_u64(w, "pid", p->tgid);
    json_key(w, "service");
    json_string(w, service_of(p));
    key_u64(w, "samples", p->samples);
    key_u64(w, "complete", p->complete);
    key_u64(w, "young", p->young);
    json_end_object(w);
}

static bool has_service(struct process *const *list, size_t n, struct bytes name)
{
    for (size_t i = 0; i < n; i++)
        if (bytes_equal(service_of(list[i]), name))
            return true;
    return false;
}

static void add_processes(struct agent *a, struct json_writer *w)
{
    size_t n, shown = 0;
    CLEANUP(freep) struct process **list = sampled(a, &n);

    json_key(w, "services");
    json_begin_array(w);
    for (size_t i = 0; i < n && shown < SERVICES_SHOWN; i++)
        if (!has_service(list, i, service_of(list[i]))) {
            json_string(w, service_of(list[i]));
            shown++;
        }
    json_end_array(w);
    json_key(w, "processes");
    json_begin_array(w);
    for (size_t i = 0; i < n && i < PROCESSES_SHOWN; i++)
        add_process(list[i], w);
    json_end_array(w);
}

void agent_status(struct agent *a, struct buf *json)
{
    struct json_writer w = {.out = json};
    struct probe_stats stats;

    probe_stats(a->probe, &stats);
    json_begin_object(&w);
    key_text(&w, "version", VESTA_VERSION);
    key_text(&w, "mode", agent_mode_name(a->ruling.mode));
    key_u64(&w, "rate", a->rate);
    key_text(&w, "why", a->ruling.why);
    add_types(a, &w);
    key_u64(&w, "samples", a->counts.samples);
    key_u64(&w, "lost", stats.lost);
    key_u64(&w, "left_out", a->left_out);
    key_u64(&w, "windows", a->counts.windows);
    key_percent(&w, "host_cpu_percent", a->reading.host_cpu);
    add_cost(a, &stats, &w);
    add_stacks(&stats, &w);
    json_key(&w, "workers");
    json_begin_object(&w);
    add_worker("inspector", a->inspector, &w);
    add_worker("parser", a->parser, &w);
    if (a->attacher)
        add_worker("attacher", a->attacher, &w);
    json_end_object(&w);
    add_processes(a, &w);
    json_end_object(&w);
}

/* ---- Metrics */

static void add_metric(struct buf *out, const char *name, const char *kind, const char *help,
                       double value)
{
    buf_addf(out, "# HELP vesta_agent_%s %s\n# TYPE vesta_agent_%s %s\nvesta_agent_%s %.17g\n",
             name, help, name, kind, name, value);
}

static void add_ends(const struct probe_stats *stats, struct buf *out)
{
    buf_add_str(out, "# HELP vesta_agent_stacks_total User stacks by how their walk ended.\n"
                     "# TYPE vesta_agent_stacks_total counter\n");
    for (size_t i = 0; i < UNWIND_END_COUNT; i++)
        buf_addf(out, "vesta_agent_stacks_total{end=\"%s\"} %llu\n", end_names[i],
                 (unsigned long long)stats->ends[i]);
}

static void add_workers(const struct agent *a, struct buf *out)
{
    const struct worker *workers[] = {a->inspector, a->parser, a->attacher};
    static const char *const names[] = {"inspector", "parser", "attacher"};
    struct worker_stats s;

    buf_add_str(out, "# HELP vesta_agent_worker_ended_total Workers that were killed or died.\n"
                     "# TYPE vesta_agent_worker_ended_total counter\n");
    for (size_t i = 0; i < ARRAY_SIZE(workers) && workers[i]; i++) {
        worker_stats(workers[i], &s);
        buf_addf(out,
                 "vesta_agent_worker_ended_total{worker=\"%s\",how=\"killed\"} %llu\n"
                 "vesta_agent_worker_ended_total{worker=\"%s\",how=\"died\"} %llu\n",
                 names[i], (unsigned long long)s.killed, names[i], (unsigned long long)s.died);
    }
}

static void add_inside(const struct agent *a, struct buf *text)
{
    struct inside_stats s = {0};

    if (a->inside)
        inside_stats(a->inside, &s);
    add_metric(text, "preload_processes", "gauge", "Processes that carry libvesta-preload.so.",
               (double)s.processes);
    add_metric(text, "preload_samples_total", "counter", "Samples that their libraries took.",
               (double)s.records);
    add_metric(text, "preload_lost_total", "counter", "Of those, what came faster than was read.",
               (double)s.lost);
    add_metric(text, "preload_refused_total", "counter",
               "Memory of such libraries that could not be read.", (double)s.refused);
    add_metric(text, "preload_dropped_total", "counter",
               "Memory of such libraries that made no sense, or cost too much, and is not read "
               "any more.",
               (double)s.dropped);
    add_metric(text, "preload_stalled_total", "counter",
               "Of those, memory that kept the agent waiting.", (double)s.stalled);
    add_metric(text, "preload_shut_out", "gauge",
               "Processes with such a library that wait for room: their user has its share.",
               (double)s.shut_out);
}

void agent_metrics(struct agent *a, struct buf *text)
{
    struct probe_stats stats;
    struct meter_totals totals;

    probe_stats(a->probe, &stats);
    meter_totals(a->meter, &totals);
    add_metric(text, "samples_total", "counter", "Samples taken.", (double)a->counts.samples);
    add_metric(text, "lost_total", "counter", "Events that did not fit the ring.",
               (double)stats.lost);
    add_metric(text, "left_out_total", "counter", "Samples that did not fit a window.",
               (double)a->left_out);
    add_metric(text, "windows_total", "counter", "Windows handed over.", (double)a->counts.windows);
    add_metric(text, "rate_hertz", "gauge", "Samples per second and CPU.", a->rate);
    add_metric(text, "mode", "gauge", "0 off, 1 low, 2 normal, 3 burst.", a->ruling.mode);
    add_metric(text, "changes_total", "counter", "How often mode or rate have changed.",
               (double)a->ruling.changes);
    add_metric(text, "cpu_seconds_total", "counter", "CPU of the agent's processes and programs.",
               (double)totals.own_ns / 1e9);
    add_metric(text, "bpf_seconds_total", "counter", "Of that, its programs in the kernel.",
               (double)stats.run_ns / 1e9);
    add_metric(text, "memory_bytes", "gauge", "Memory of all the agent's processes.",
               (double)totals.memory);
    add_metric(text, "table_bytes", "gauge", "Unwind tables in the kernel.",
               (double)probe_table_bytes(a->probe));
    add_metric(text, "processes", "gauge", "Processes that are known.",
               (double)process_table_count(a->processes));
    add_inside(a, text);
    add_ends(&stats, text);
    add_workers(a, text);
}

/* ---- Go programs that listen, for scraping */

/* Version, commit, container...: profiles that are read from it have them as well. */
void agent_add_attributes(const struct process *p, struct json_writer *w)
{
    struct bytes key, value;

    json_key(w, "attributes");
    json_begin_object(w);
    for (size_t i = 0; p->identity && identity_attribute(p->identity, i, &key, &value); i++) {
        json_key_bytes(w, key);
        json_string(w, value);
    }
    json_end_object(w);
}

void agent_targets(struct agent *a, struct buf *json)
{
    struct json_writer w = {.out = json};

    json_begin_array(&w);
    for (struct process *p = NULL; (p = process_table_next(a->processes, p)) != NULL;) {
        if (!p->is_go || p->n_ports == 0 || !p->is_wanted)
            continue;
        json_begin_object(&w);
        key_u64(&w, "pid", p->tgid);
        json_key(&w, "service");
        json_string(&w, service_of(p));
        json_key(&w, "ports");
        json_begin_array(&w);
        for (size_t i = 0; i < p->n_ports; i++)
            json_u64(&w, p->ports[i]);
        json_end_array(&w);
        agent_add_attributes(p, &w);
        json_end_object(&w);
    }
    json_end_array(&w);
}
