#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "abi/preload.h"
#include "agent/agent_internal.h"
#include "agent/thread_context.h"
#include "agent/window_lines.h"
#include "base/clock.h"
#include "base/must.h"
#include "host/attach_worker.h"
#include "wire/log.h"

#define SECOND_NS        ((int64_t)1000000000)
#define TICK_NS          (SECOND_NS / 4)
#define TICK_FAST_NS     (SECOND_NS / 50) /* while something is being waited for */
#define STATUS_NS        (5 * SECOND_NS)
#define LIST_NS          (10 * SECOND_NS)
#define OFF_CPU_WALKS    5 /* a second */
#define PROCESSES_MAX    8192
#define BURST_NS         (60 * SECOND_NS)
#define HELD_NS          (3 * SECOND_NS)
#define DETACH_NS        (4 * SECOND_NS)
#define FINISH_MS        3000
#define OFF_CPU_USUAL_NS (10 * SECOND_NS / 1000)

static uint32_t attribute_bits(const struct config_list *list)
{
    static const char *const names[] = {"thread.name", "thread.id", "cpu.id", "time"};
    uint32_t bits = 0;

    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            if (strcmp(list->items[i], names[k]) == 0)
                bits |= 1u << k;
    return bits;
}

static uint32_t type_bits(const struct config_list *list)
{
    uint32_t bits = 0;
    enum agent_type t;

    for (size_t i = 0; i < list->n; i++)
        if (agent_type_parse(list->items[i], &t))
            bits |= 1u << t;
    return bits;
}

void agent_log(const struct agent *a, int level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_write((struct log_style){a->config->log_level, a->config->log_format}, level, fmt, ap);
    va_end(ap);
}

/* ---- What is switched on ---- */

static void set_rate(struct agent *a, uint32_t rate)
{
    struct error err;

    agent_drain(a); /* what was sampled at the old rate counts at the old period */
    if (probe_set_cpu_rate(a->probe, rate, &err) < 0) {
        agent_log(a, 3, "the rate cannot be set to %u: %s", rate, err.text);
        return;
    }
    a->rate = rate;
    if (rate > 0)
        a->period_ns = (uint64_t)SECOND_NS / rate;
}

static void set_types(struct agent *a, uint32_t types)
{
    struct error err;
    uint32_t any = types | identity_all_kinds(a->rules);
    bool off_cpu = any & (1u << AGENT_TYPE_OFF_CPU | 1u << AGENT_TYPE_LOCK);
    bool faults = any & 1u << AGENT_TYPE_FAULTS;

    if (a->ruling.mode == MODE_OFF || a->rate == 0)
        off_cpu = faults = false;
    if (probe_set_off_cpu(a->probe, off_cpu, &err) < 0 && off_cpu)
        agent_log(a, 2, "no off-CPU profiles: %s", err.text);
    if (probe_set_faults(a->probe, faults ? a->config->fault_period : 0, &err) < 0 && faults)
        agent_log(a, 2, "no page fault profiles: %s", err.text);
    a->types = types;
    process_table_set_kinds(a->processes, types);
}

static void obey(struct agent *a)
{
    const struct governor_ruling *r = &a->ruling;
    uint32_t types = r->types ? r->types : type_bits(&a->config->types);

    /* Whatever is collected, samples of the CPU tell which processes there are. */
    bool is_off = r->mode == MODE_OFF || (types | identity_all_kinds(a->rules)) == 0;
    set_rate(a, is_off ? 0 : r->rate);
    set_types(a, types);
    if (a->inside)
        inside_switch(a->inside, r->mode != MODE_OFF);
    if (r->shed >= SHED_NAMES)
        naming_renew(a->naming, true);
    if (r->shed >= SHED_TABLES)
        code_files_shed(a->files);
    if (r->shed >= SHED_WINDOW)
        a->window_end_ns = 0;
}

static void govern(struct agent *a, int64_t now_ns)
{
    struct governor_reading reading = {0};
    struct probe_stats stats;
    struct worker_stats inspector, parser, attacher = {0};
    struct relay_stats relay = {0};
    struct governor_ruling before = a->ruling;

    probe_stats(a->probe, &stats);
    worker_stats(a->inspector, &inspector);
    worker_stats(a->parser, &parser);
    if (a->relay)
        relay_stats(a->relay, &relay);
    if (a->attacher)
        worker_stats(a->attacher, &attacher);
    meter_set_children(
        a->meter, (int[]){inspector.pid, parser.pid, relay.pid, stats.looker, attacher.pid}, 5);
    meter_read(a->meter, now_ns, stats.run_ns, stats.map_bytes, &reading);
    if (a->rate > 0)
        reading.hottest_process = (double)a->hottest_samples / a->rate;
    a->round++;
    a->hottest_samples = 0;
    a->reading = reading;
    if (a->o.is_recording)
        return;
    gate_look(a->gate, now_ns, clock_wall_ns(clock_real()));
    if (!governor_feed(a->governor, &reading, &a->ruling))
        return;
    if (a->ruling.mode != before.mode || a->ruling.rate != before.rate)
        agent_log(a, 1, "mode %s, %u samples per second%s%s", agent_mode_name(a->ruling.mode),
                  a->ruling.rate, a->ruling.why[0] ? ": " : "", a->ruling.why);
    obey(a);
    a->next_status_ns = 0; /* the server and whoever looks are told at once */
}

/* ---- The round ---- */

static void walk_threads(struct agent *a, int64_t now_ns)
{
    uint32_t any = a->types | identity_all_kinds(a->rules);
    uint32_t wall = any & 1u << AGENT_TYPE_WALL, threads = any & 1u << AGENT_TYPE_THREADS;
    uint32_t off_cpu = any & (1u << AGENT_TYPE_OFF_CPU | 1u << AGENT_TYPE_LOCK);
    struct error err;

    if (!(wall | threads | off_cpu) || !probe_has(a->probe, PROBE_WALL) || a->rate == 0 ||
        now_ns < a->next_walk_ns)
        return;
    uint32_t rate = wall || threads ? a->config->wall_rate : OFF_CPU_WALKS;
    a->next_walk_ns = now_ns + SECOND_NS / rate;
    uint32_t bits = (wall ? PROCESS_WALL : 0u) | (off_cpu ? PROCESS_OFF_CPU : 0u) |
                    (threads ? PROCESS_THREADS : 0u);
    if (probe_walk_threads(a->probe, bits, &err) < 0)
        agent_log(a, 2, "a look at all threads failed: %s", err.text);
}

static void tell_relay(struct agent *a)
{
    CLEANUP(buf_done) struct buf status = {0}, metrics = {0};

    if (!a->relay)
        return;
    agent_status(a, &status);
    relay_send(a->relay, RELAY_STATUS, buf_bytes(&status), -1);
    agent_metrics(a, &metrics);
    relay_send(a->relay, RELAY_METRICS, buf_bytes(&metrics), -1);
    if (a->config->scrape_local_go) {
        buf_clear(&status);
        agent_targets(a, &status);
        relay_send(a->relay, RELAY_TARGETS, buf_bytes(&status), -1);
    }
}

static void every_second(struct agent *a, int64_t now_ns)
{
    a->next_second_ns = now_ns + SECOND_NS;
    probe_settings(a->probe)->now_s = (uint32_t)(now_ns / SECOND_NS) + 1;
    govern(a, now_ns);
    if (a->rate > 0 && !a->is_held)
        set_rate(a, a->rate); /* CPUs that have come are taken in */
    /* Nobody tells of new ones, or of such as are idle. */
    if ((probe_lacks(a->probe) || a->nodes) && now_ns >= a->next_list_ns) {
        a->next_list_ns = now_ns + LIST_NS;
        process_table_list(a->processes);
    }
    if (now_ns >= a->next_status_ns) {
        a->next_status_ns = now_ns + STATUS_NS;
        tell_relay(a);
    }
}

static void finish_if_done(struct agent *a)
{
    if (!a->is_finishing || a->closing || !a->finished)
        return;
    if (a->nodes && !node_attach_is_idle(a->nodes) && loop_now_ns(a->loop) < a->detach_until_ns)
        return;
    void (*finished)(void *) = a->finished;
    if (a->relay && !a->is_flushing) {
        uint32_t ms = FINISH_MS;
        a->is_flushing = true;
        a->flush_until_ns = loop_now_ns(a->loop) + (FINISH_MS + 500) * (SECOND_NS / 1000);
        relay_send(a->relay, RELAY_FLUSH, (struct bytes){(const uint8_t *)&ms, sizeof(ms)}, -1);
        return;
    }
    if (a->relay && !a->is_flushed && loop_now_ns(a->loop) < a->flush_until_ns)
        return;
    a->finished = NULL;
    finished(a->finished_arg);
}

static bool is_waiting(const struct agent *a)
{
    struct code_files_stats stats;

    code_files_stats(a->files, &stats);
    return a->closing || a->is_finishing || stats.asked > 0 ||
           process_table_asking(a->processes) > 0 || (a->nodes && node_attach_is_closing(a->nodes));
}

static int64_t next_tick(const struct agent *a, int64_t now_ns)
{
    int64_t due = now_ns + (is_waiting(a) ? TICK_FAST_NS : TICK_NS);

    if (a->next_walk_ns > now_ns && a->next_walk_ns < due)
        due = a->next_walk_ns;
    return due;
}

/* A recording begins when what runs already is known, so that its first stacks are whole. */
static void begin_if_known(struct agent *a, int64_t now_ns)
{
    struct code_files_stats files;

    code_files_stats(a->files, &files);
    bool is_known = files.asked == 0 && process_table_asking(a->processes) == 0;
    if (!a->is_held || (!is_known && now_ns < a->held_until_ns))
        return;
    a->is_held = false;
    a->window->start_unix_ns = clock_wall_ns(clock_real());
    obey(a);
}

bool agent_is_sampling(const struct agent *a)
{
    return !a->is_held;
}

static void tick(struct agent *a)
{
    int64_t now = loop_now_ns(a->loop);

    begin_if_known(a, now);
    if (!a->is_finishing) {
        agent_drain(a);
        walk_threads(a, now);
        if (a->inside && !a->closing)
            inside_poll(a->inside, now);
        if (now >= a->next_second_ns)
            every_second(a, now);
        if (now >= a->window_end_ns) {
            a->window_end_ns = now + a->config->window_ns;
            agent_close_window(a);
        }
    }
    code_files_tick(a->files, now);
    process_table_tick(a->processes, now);
    if (a->nodes)
        node_attach_tick(a->nodes, now);
    (void)agent_try_publish(a, now);
    finish_if_done(a);
    loop_timer_start(&a->tick_timers, &a->tick, next_tick(a, now));
}

static void ticked(struct loop_timer *timer)
{
    tick(OWNER_OF(timer, struct agent, tick));
}

static void ring_ready(struct loop_io *io, uint32_t events)
{
    struct agent *a = OWNER_OF(io, struct agent, ring);

    (void)events;
    if (!a->is_finishing)
        agent_drain(a);
}

/* ---- What others tell ---- */

static void file_learnt(void *arg)
{
    struct agent *a = arg;

    process_table_poke(a->processes);
    /* Soon, and once for all that is learnt at a time. */
    loop_timer_start(&a->tick_timers, &a->tick, loop_now_ns(a->loop) + SECOND_NS / 1000);
}

static void file_forgotten(void *arg, uint32_t number)
{
    struct agent *a = arg;

    naming_forget_file(a->naming, number);
}

static void file_failed(void *arg, const struct code_file *f, int r, const char *text)
{
    agent_log(arg, LOG_LEVEL_DEBUG, "%s: %s", f->path, text && text[0] ? text : strerror(-r));
}

static void file_offered(void *arg, const struct code_file *f, int fd)
{
    struct agent *a = arg;

    if (a->relay && a->config->upload_debug_files)
        relay_send(a->relay, RELAY_DEBUG_FILE, bytes_of(f->parsed.facts.build_id), fd);
}

/* Where only own processes can be sampled; some of them do not let themselves be looked at. */
static void attach(struct agent *a, const struct process *p)
{
    struct error err;

    if (p->is_wanted && !p->is_kernel && p->uid == geteuid() &&
        probe_attach(a->probe, p->tgid, &err) < 0)
        agent_log(a, LOG_LEVEL_DEBUG, "%s", err.text);
}

static void process_learnt(void *arg, struct process *p)
{
    struct agent *a = arg;

    thread_context_find(a->processes, a->inspector, p);
    attach(a, p);
    if (a->inside)
        inside_learnt(a->inside, p);
    if (p->has_jit)
        process_want_jit_names(a->processes, p, loop_now_ns(a->loop));
}

static void process_replaced(void *arg, struct process *p, struct process *former)
{
    struct agent *a = arg;

    if (a->inside)
        inside_replaced(a->inside, p, former);
}

static void relay_told(void *arg, enum relay_kind kind, struct bytes data)
{
    struct agent *a = arg;

    if (kind == RELAY_DIRECTIVE) {
        gate_directive(a->gate, data, loop_now_ns(a->loop), clock_wall_ns(clock_real()));
        a->next_second_ns = 0;
    } else if (kind == RELAY_FLUSHED) {
        a->is_flushed = true;
    } else if (kind == RELAY_NODE_DONE && a->nodes) {
        node_attach_done(a->nodes, data, loop_now_ns(a->loop));
    } else if (kind == RELAY_COUNTS) {
        buf_clear(&a->relay_counts);
        buf_add_bytes(&a->relay_counts, data);
    }
}

/* ---- Starting ---- */

/* Names of the kernel's functions, read while that is allowed. */
static struct name_table *kernel_names(struct agent *a)
{
    CLEANUP(closep) int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    CLEANUP(closep) int memfd = memfd_create("vesta-kernel", MFD_CLOEXEC);
    CLEANUP(buf_done) struct buf q = {0}, answer = {0};
    struct name_table *names = NULL;
    struct error err = {""};
    int fds[] = {fd, fd, memfd}, other = -1;

    parse_question_kallsyms(&q);
    int r = fd < 0 || memfd < 0
                ? -errno
                : worker_ask_now(a->parser, buf_bytes(&q), fds, 3, &answer, &other, &err);
    if (r == 0)
        r = name_table_open(TAKE_FD(memfd), &names, &err);
    if (r < 0)
        agent_log(a, 2, "functions of the kernel have no names: %s",
                  err.text[0] ? err.text : strerror(-r));
    return r < 0 ? NULL : names;
}

static int start_workers(struct agent *a, struct error *err)
{
    int r = worker_new(a->loop, &inspect_worker, &a->inspector, err);

    if (r == 0)
        r = worker_new(a->loop, &parse_worker, &a->parser, err);
    if (r == 0 && a->relay && a->config->node_attach.n > 0)
        r = worker_new(a->loop,
                       a->config->node_containers ? &attach_worker_everywhere : &attach_worker,
                       &a->attacher, err);
    return r;
}

static void start_tables(struct agent *a)
{
    const struct agent_config *c = a->config;
    bool wants_names = strcmp(c->symbols, "none") != 0;

    a->files = code_files_new(&(struct code_files_options){
        .probe = a->probe,
        .inspector = a->inspector,
        .parser = a->parser,
        .cache = a->cache,
        .debug_dirs = c->debug_dirs.items,
        .n_debug_dirs = c->debug_dirs.n,
        .wants_names = wants_names,
        .is_eager = a->n_pids > 0 || a->o.is_picky,
        .keeps_open = strcmp(c->symbols, "lines") == 0,
        .changed = file_learnt,
        .forgotten = file_forgotten,
        .complain = file_failed,
        .offer = file_offered,
        .arg = a,
    });
    a->processes = process_table_new(&(struct process_table_options){
        .probe = a->probe,
        .inspector = a->inspector,
        .parser = a->parser,
        .files = a->files,
        .rules = a->rules,
        .kinds = a->types,
        .finds_ports = c->scrape_local_go,
        .with_own = c->own_process || a->o.is_picky,
        .pids = a->pids,
        .n_pids = &a->n_pids,
        .is_picky = a->n_pids > 0 || a->o.is_picky,
        .known = process_learnt,
        .replaced = process_replaced,
        .arg = a,
        .max = PROCESSES_MAX,
    });
    if (a->attacher)
        a->nodes = node_attach_new(a);
    a->naming = naming_new(&(struct naming_options){
        .files = a->files,
        .kernel = wants_names && !probe_lacks(a->probe) ? kernel_names(a) : NULL,
        .memory_max = (size_t)c->memory_max / 4,
        .wants_names = wants_names,
        .mask = a->mask,
    });
    a->waits = waits_new(
        &(struct waits_calls){.count = agent_count_wait, .threads = agent_count_threads, .arg = a},
        &(struct waits_limits){.memory_max = (size_t)c->memory_max / 8});
}

/* What libraries inside programs are told; 0: nothing. */
static uint32_t wanted_inside(const struct config_list *list)
{
    static const struct {
        const char *name;
        enum preload_kind kind;
    } kinds[] = {{"alloc", PRELOAD_ALLOC},
                 {"live", PRELOAD_LIVE},
                 {"lock", PRELOAD_LOCK},
                 {"threads", PRELOAD_THREAD}};
    uint32_t wanted = 0;

    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
            if (strcmp(list->items[i], kinds[k].name) == 0)
                wanted |= PRELOAD_WANTS(kinds[k].kind) | PRELOAD_WANTS(PRELOAD_CUSTOM);
    return wanted;
}

static void complain(void *arg, const char *text)
{
    agent_log(arg, LOG_LEVEL_WARN, "no profiles from inside a process: %s", text);
}

static void start_inside(struct agent *a)
{
    const struct agent_config *c = a->config;

    if (a->o.is_recording || !c->preload)
        return;
    a->inside = inside_new(&(struct inside_options){.processes = a->processes,
                                                    .files = a->files,
                                                    .inspector = a->inspector,
                                                    .wanted = wanted_inside(&c->preload_types),
                                                    .alloc_rate = (uint32_t)c->preload_interval,
                                                    .window_ns = c->window_ns,
                                                    .memory_max = (size_t)c->memory_max / 4,
                                                    .complain = complain,
                                                    .arg = a});
}

static void gate_said(void *arg, const char *text)
{
    agent_log(arg, LOG_LEVEL_INFO, "%s", text);
}

static void start_governor(struct agent *a)
{
    const struct agent_config *c = a->config;
    struct governor_limits limits = {.rate = c->rate,
                                     .burst_rate = c->burst_rate,
                                     .cpu_budget = c->cpu_budget / 1000.0,
                                     .burst_cpu_budget = c->burst_cpu_budget / 1000.0,
                                     .host_cpu_high = c->host_cpu_high / 100.0,
                                     .process_cpu_high = c->process_cpu_high / 100.0,
                                     .burst_max_ns = c->burst_max_ns,
                                     .memory_max = c->memory_max};

    struct governor_ask ask = {.speaks = true, .mode = MODE_NORMAL};

    (void)agent_mode_parse(c->mode, &ask.mode);
    a->governor = governor_new(&limits);
    governor_ask(a->governor, ASKED_BY_CONFIG, &ask);
    a->meter = meter_new("/proc");
    a->gate = gate_new(
        &(struct gate_options){.governor = a->governor,
                               .file = c->gate_file,
                               .burst_ns = BURST_NS < c->burst_max_ns ? BURST_NS : c->burst_max_ns,
                               .say = gate_said,
                               .arg = a});
    a->ruling = (struct governor_ruling){.mode = MODE_NORMAL, .rate = c->rate};
}

static int start_probe(struct agent *a, struct error *err)
{
    const struct agent_config *c = a->config;
    struct probe_options o = {
        .table_bytes = c->table_bytes, .prefers_cycles = c->prefers_cycles, .wanted = UINT32_MAX};
    int r = probe_open(&o, &a->probe, err);

    if (r < 0)
        return r;
    if (probe_lacks(a->probe) && !a->o.is_recording)
        agent_log(a, LOG_LEVEL_WARN, "%s", probe_lacks(a->probe));
    struct unwind_settings *s = probe_settings(a->probe);
    s->now_s = (uint32_t)(loop_now_ns(a->loop) / SECOND_NS) + 1;
    s->young_ms = (uint32_t)(c->young_ns / (SECOND_NS / 1000));
    s->asks_young = a->o.is_recording;
    s->wall_tick_ns = (uint64_t)SECOND_NS / c->wall_rate;
    s->off_cpu_usual_ns = OFF_CPU_USUAL_NS;
    s->own_tgid = c->own_process ? 0 : (uint32_t)getpid();
    (void)probe_measure(a->probe, err);
    a->ring = (struct loop_io){probe_fd(a->probe), ring_ready};
    return loop_watch(a->loop, &a->ring, EPOLLIN, err);
}

/* Without its folder names live in memory. */
static int start_cache(struct agent *a, struct error *err)
{
    const struct agent_config *c = a->config;

    if (c->cache_dir[0] && name_cache_open(c->cache_dir, c->cache_max, &a->cache, err) == 0)
        return 0;
    if (c->cache_dir[0])
        agent_log(a, LOG_LEVEL_WARN, "names are not kept between runs: %s", err->text);
    return name_cache_open(NULL, 0, &a->cache, err);
}

static int parse_pids(struct agent *a, struct error *err)
{
    struct bytes rest = bytes_of(a->config->pid_list);
    uint64_t pid;

    while (rest.len > 0) {
        const uint8_t *comma = bytes_find_byte(rest, ',');
        struct bytes word = bytes_head(rest, comma ? (size_t)(comma - rest.data) : rest.len);
        rest = bytes_from(rest, word.len + (comma ? 1 : 0));
        if (!bytes_to_u64(word, &pid) || pid == 0 || pid > INT32_MAX)
            return error_set(err, -EINVAL, "pids: \"%.*s\" is no process id", (int)word.len,
                             (const char *)word.data);
        if (a->n_pids == ARRAY_SIZE(a->pids))
            return error_set(err, -EINVAL, "pids: more than %zu", ARRAY_SIZE(a->pids));
        a->pids[a->n_pids++] = (uint32_t)pid;
    }
    return 0;
}

/* Whether a look at waiting threads, or at switches, can be had: else why not. */
static int check_type(struct agent *a, enum agent_type t, struct error *err)
{
    switch (t) {
    case AGENT_TYPE_WALL:
    case AGENT_TYPE_THREADS:
        return probe_has(a->probe, PROBE_WALL) ? 0 : probe_walk_threads(a->probe, 0, err);
    case AGENT_TYPE_OFF_CPU:
    case AGENT_TYPE_LOCK:
        return probe_has(a->probe, PROBE_OFF_CPU) ? 0 : probe_set_off_cpu(a->probe, true, err);
    case AGENT_TYPE_FAULTS:
        return probe_has(a->probe, PROBE_FAULTS) ? 0 : probe_set_faults(a->probe, 1, err);
    default:
        return 0;
    }
}

/* A recording gives what it was asked for, or says why not; the agent goes on with the rest. */
static int check_types(struct agent *a, struct error *err)
{
    for (enum agent_type t = 0; t < AGENT_TYPES; t++) {
        int r = a->types & 1u << t ? check_type(a, t, err) : 0;
        if (r < 0 && a->o.is_recording)
            return r;
        if (r < 0 && (t == AGENT_TYPE_WALL || t == AGENT_TYPE_THREADS)) /* set_types() tells more */
            agent_log(a, LOG_LEVEL_WARN, "no %s profiles: %s", agent_type_name(t), err->text);
    }
    return 0;
}

static int start(struct agent *a, struct error *err)
{
    int r = parse_pids(a, err);

    struct mask_rules *rules = NULL;
    if (r == 0)
        r = mask_rules_new(true, a->config->mask.items, a->config->mask.n, &rules, err);
    if (r == 0)
        a->mask = mask_matcher_new(rules);
    /* The relay first: it shall inherit nothing. */
    if (r == 0 && !a->o.is_recording)
        r = relay_start(a->loop, a->config, relay_told, a, &a->relay, err);
    if (r == 0)
        r = identity_rules_new(a->config, &a->rules, err);
    if (r == 0)
        r = start_workers(a, err);
    if (r == 0)
        r = start_probe(a, err);
    if (r == 0)
        r = start_cache(a, err);
    if (r < 0)
        return r;
    a->host = identity_of_host(a->rules);
    a->types = type_bits(&a->config->types);
    r = check_types(a, err);
    if (r < 0)
        return r;
    a->attributes = attribute_bits(&a->config->sample_attributes);
    start_governor(a);
    start_tables(a);
    start_inside(a);
    if (!a->o.is_picky)
        process_table_list(a->processes);
    return 0;
}

/* What was asked for by name and cannot be had is told. */
static int attach_picked(struct agent *a, struct error *err)
{
    for (size_t i = 0; i < a->n_pids; i++) {
        int r = probe_attach(a->probe, a->pids[i], err);
        if (r < 0 && a->o.is_recording)
            return r;
        if (r < 0)
            agent_log(a, LOG_LEVEL_WARN, "%s", err->text);
    }
    return 0;
}

int agent_start(const struct agent_options *o, struct agent **ret, struct error *err)
{
    struct agent *a = must_calloc(1, sizeof(*a));

    a->o = *o;
    a->config = o->config;
    a->loop = o->loop;
    a->ring.fd = -1;
    int r = start(a, err);
    if (r < 0) {
        agent_free(a);
        return r;
    }
    int64_t now = clock_monotonic_ns(clock_real());
    agent_close_window(a); /* opens the first */
    a->window_end_ns = a->o.is_recording ? INT64_MAX : now + a->config->window_ns;
    a->is_held = a->o.is_recording && !a->o.is_picky;
    a->held_until_ns = now + HELD_NS;
    if (!a->is_held)
        obey(a);
    r = attach_picked(a, err);
    if (r < 0) {
        agent_free(a);
        return r;
    }
    a->tick_timers.expired = ticked;
    loop_add_timers(a->loop, &a->tick_timers);
    loop_timer_start(&a->tick_timers, &a->tick, now + TICK_FAST_NS);
    *ret = a;
    return 0;
}

const char *agent_lacks(const struct agent *a)
{
    return probe_lacks(a->probe);
}

int agent_pick(struct agent *a, uint32_t pid, struct error *err)
{
    if (a->n_pids < ARRAY_SIZE(a->pids))
        a->pids[a->n_pids++] = pid;
    return probe_attach(a->probe, pid, err);
}

void agent_look(struct agent *a, uint32_t pid)
{
    int64_t now = clock_monotonic_ns(clock_real());

    process_table_look(a->processes, process_table_get(a->processes, pid, 0, NULL, now), now);
}

void agent_finish(struct agent *a, void (*done)(void *arg), void *arg)
{
    struct error err;

    if (a->is_finishing)
        return;
    agent_drain(a);
    (void)probe_set_cpu_rate(a->probe, 0, &err);
    (void)probe_set_off_cpu(a->probe, false, &err);
    (void)probe_set_faults(a->probe, 0, &err);
    agent_drain(a);
    a->is_finishing = true;
    a->finished = done;
    a->finished_arg = arg;
    agent_close_window(a);
    if (a->nodes)
        node_attach_finish(a->nodes);
    a->detach_until_ns = loop_now_ns(a->loop) + DETACH_NS;
    loop_timer_start(&a->tick_timers, &a->tick, loop_now_ns(a->loop));
}

uint64_t agent_also_needs(const struct agent_config *c)
{
    if (c->node_attach.n == 0)
        return 0;
    return (uint64_t)1 << CAP_KILL | (uint64_t)c->node_containers << CAP_SYS_ADMIN;
}

static void free_window(struct window *w)
{
    window_free(w); /* processes go with their table */
}

void agent_free(struct agent *a)
{
    if (!a)
        return;
    loop_timer_stop(&a->tick);
    if (a->ring.fd >= 0)
        loop_forget(a->loop, &a->ring);
    worker_free(a->inspector);
    worker_free(a->parser);
    worker_free(a->attacher);
    node_attach_free(a->nodes);
    lines_free(a->lines);
    free_window(a->window);
    free_window(a->closing);
    waits_free(a->waits);
    inside_free(a->inside);
    process_table_free(a->processes);
    naming_free(a->naming);
    mask_matcher_free(a->mask);
    code_files_free(a->files);
    name_cache_close(a->cache);
    identity_free(a->host);
    identity_rules_free(a->rules);
    governor_free(a->governor);
    gate_free(a->gate);
    meter_free(a->meter);
    probe_close(a->probe);
    relay_free(a->relay);
    buf_done(&a->relay_counts);
    free(a);
}

void agent_signal(struct agent *a, int signo)
{
    if (!a->gate)
        return;
    gate_signal(a->gate, signo, loop_now_ns(a->loop));
    a->next_second_ns = 0;
}

void agent_counts(struct agent *a, struct agent_counts *ret)
{
    struct probe_stats stats;

    probe_stats(a->probe, &stats);
    *ret = a->counts;
    ret->lost = stats.lost;
    ret->processes = process_table_count(a->processes);
}
