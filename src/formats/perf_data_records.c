/*
 * Records of perf.data in the order of time: who runs where (MMAP, COMM, FORK), and samples.
 */
#include <errno.h>
#include <stdarg.h>

#include "base/hash.h"
#include "base/hex.h"
#include "formats/perf_data_internal.h"
#include "formats/perf_names.h"

enum cpu_mode { MODE_KERNEL = 1, MODE_USER = 2, MODE_GUEST_KERNEL = 4 };
#define MISC_CPU_MODE      7
#define MISC_MMAP_BUILD_ID (1 << 14)

#define KERNEL_PID   UINT32_MAX
#define BUILD_ID_MAX 20

enum read_format {
    READ_TIME_ENABLED = 1,
    READ_TIME_RUNNING = 2,
    READ_ID = 4,
    READ_GROUP = 8,
    READ_LOST = 16,
};

/* Entries of a call chain that say where the ones behind them are. */
#define CONTEXT_MAX          ((uint64_t)-4095)
#define CONTEXT_KERNEL       ((uint64_t)-128)
#define CONTEXT_GUEST        ((uint64_t)-2048)
#define CONTEXT_GUEST_KERNEL ((uint64_t)-2176)
#define CONTEXT_GUEST_USER   ((uint64_t)-2560)

struct sample_fields {
    uint64_t ip, time, period;
    uint32_t pid, tid, cpu;
    struct bytes chain; /* u64 entries */
};

/* Where the id of a sample is: at the front, or behind these fields. */
static uint64_t sample_id(const struct perf_attr *a, struct perf_cursor body)
{
    uint64_t in_front =
        a->sample_type & (PERF_HAS_IP | PERF_HAS_TID | PERF_HAS_TIME | PERF_HAS_ADDR);

    if (!(a->sample_type & PERF_HAS_IDENTIFIER)) {
        if (!(a->sample_type & PERF_HAS_ID))
            return 0;
        perf_take(&body, 8 * (uint64_t)__builtin_popcountll(in_front));
    }
    return perf_u64(&body);
}

/* Ids of 0 are those of records that perf made up itself. */
static struct perf_event *event_of_sample(struct perf_reader *r, const struct perf_record *record)
{
    if (r->events.len == 0)
        return NULL;
    struct perf_event *first = &r->events.data[0];
    uint64_t id = r->events.len > 1 ? sample_id(&first->attr, record->body) : 0;

    return id ? perf_find_event(r, id) : first;
}

uint64_t perf_record_time(struct perf_reader *r, const struct perf_record *record)
{
    struct perf_cursor c = record->body;

    if (r->events.len == 0)
        return 0;
    if (record->type == PERF_SAMPLE) {
        struct perf_event *e = event_of_sample(r, record);
        uint64_t in_front = PERF_HAS_IDENTIFIER | PERF_HAS_IP | PERF_HAS_TID;
        if (e)
            e->has_samples = true;
        if (!e || !(e->attr.sample_type & PERF_HAS_TIME))
            return 0;
        perf_take(&c, 8 * (uint64_t)__builtin_popcountll(e->attr.sample_type & in_front));
        return perf_u64(&c);
    }
    const struct perf_attr *a = &r->events.data[0].attr;
    uint64_t in_trailer =
        a->sample_type & (PERF_HAS_TID | PERF_HAS_TIME | PERF_HAS_ID | PERF_HAS_STREAM_ID |
                          PERF_HAS_CPU | PERF_HAS_IDENTIFIER);
    size_t size = 8 * (size_t)__builtin_popcountll(in_trailer);
    if (!(a->flags & PERF_FLAG_SAMPLE_ID_ALL) || !(in_trailer & PERF_HAS_TIME) ||
        size > perf_left(&c))
        return 0;
    c.pos = c.end - size + (in_trailer & PERF_HAS_TID ? 8 : 0);
    return perf_u64(&c);
}

/* Steps over the counter values of a sample. */
static void skip_read(const struct perf_attr *a, struct perf_cursor *c)
{
    uint64_t format = a->read_format;
    uint64_t times =
        (uint64_t)__builtin_popcountll(format & (READ_TIME_ENABLED | READ_TIME_RUNNING));
    uint64_t each = 1 + (uint64_t)__builtin_popcountll(format & (READ_ID | READ_LOST));

    if (!(format & READ_GROUP)) {
        perf_take(c, 8 * (each + times));
        return;
    }
    uint64_t n = perf_u64(c);
    perf_take(c, 8 * times);
    perf_take(c, n > perf_left(c) ? UINT64_MAX : 8 * each * n);
}

static int read_fields(const struct perf_attr *a, struct perf_record *record,
                       struct sample_fields *ret, struct error *err)
{
    struct perf_cursor *c = &record->body;
    struct sample_fields f = {
        .pid = UINT32_MAX, .tid = UINT32_MAX, .cpu = UINT32_MAX, .chain = {c->end, 0}};
    uint64_t has = a->sample_type;

    perf_take(c, has & PERF_HAS_IDENTIFIER ? 8 : 0);
    f.ip = has & PERF_HAS_IP ? perf_u64(c) : 0;
    if (has & PERF_HAS_TID) {
        f.pid = perf_u32(c);
        f.tid = perf_u32(c);
    }
    f.time = has & PERF_HAS_TIME ? perf_u64(c) : 0;
    perf_take(c, has & PERF_HAS_ADDR ? 8 : 0);
    perf_take(c, has & PERF_HAS_ID ? 8 : 0);
    perf_take(c, has & PERF_HAS_STREAM_ID ? 8 : 0);
    if (has & PERF_HAS_CPU) {
        f.cpu = perf_u32(c);
        perf_u32(c);
    }
    f.period = has & PERF_HAS_PERIOD ? perf_u64(c) : a->sample_period;
    if (has & PERF_HAS_READ)
        skip_read(a, c);
    if (has & PERF_HAS_CALLCHAIN) {
        uint64_t n = perf_u64(c);
        if (n > perf_left(c) / 8)
            return perf_record_error(record, err,
                                     "a call chain of %llu entries runs past the end of its sample",
                                     (unsigned long long)n);
        f.chain = perf_take(c, n * 8);
    }
    if (c->failed)
        return perf_record_error(record, err, "a sample is shorter than its event says");
    *ret = f;
    return 0;
}

static struct perf_process *find_process(struct perf_reader *r, uint32_t pid)
{
    uint64_t hash = hash_mix(pid, 2);
    uint32_t at = IDSET_FIND(&r->process_index, hash, i, r->processes.data[i].pid == pid);

    if (at != IDSET_NONE)
        return &r->processes.data[at];
    at = (uint32_t)r->processes.len;
    if (!vec_push(r->budget, &r->processes, (struct perf_process){.pid = pid}))
        return NULL;
    idset_add(r->budget, &r->process_index, hash, at);
    return &r->processes.data[at];
}

static struct perf_thread *find_thread(struct perf_reader *r, uint32_t tid)
{
    uint64_t hash = hash_mix(tid, 3);
    uint32_t at = IDSET_FIND(&r->thread_index, hash, i, r->threads.data[i].tid == tid);

    if (at != IDSET_NONE)
        return &r->threads.data[at];
    at = (uint32_t)r->threads.len;
    uint32_t comm = tid == 0 ? dict_cstring(r->dict, "swapper") : 0;
    if (!vec_push(r->budget, &r->threads, (struct perf_thread){.tid = tid, .comm = comm}))
        return NULL;
    idset_add(r->budget, &r->thread_index, hash, at);
    return &r->threads.data[at];
}

/* The mapping of the dictionary, made when a sample first needs it. */
static uint32_t mapping_of(struct perf_reader *r, struct perf_map *m)
{
    struct mapping d = {.file = m->file, .build_id = m->build_id, .offset = m->pgoff};

    if (m->mapping)
        return m->mapping;
    d.start = m->is_file ? m->pgoff : m->start;
    if (__builtin_add_overflow(d.start, m->len, &d.limit))
        d.limit = UINT64_MAX;
    m->mapping = dict_mapping(r->dict, d);
    vec_push(r->budget, &r->profile->mappings, m->mapping);
    return m->mapping;
}

static uint32_t make_location(struct perf_reader *r, uint32_t root, bool is_kernel,
                              uint64_t address)
{
    const struct perf_range *range = perf_maps_find(&r->maps, root, address);
    struct location l = {.address = address};

    if (is_kernel)
        l.type = dict_cstring(r->dict, "kernel");
    if (range) {
        struct perf_map *m = &r->map_infos.data[range->map];
        l.mapping = mapping_of(r, m);
        if (m->is_file)
            l.address = address - m->start + m->pgoff;
        if (!is_kernel)
            l.type = m->type;
    }
    return dict_location(r->dict, l, NULL, 0);
}

static uint32_t location_of(struct perf_reader *r, uint32_t root, bool is_kernel, uint64_t address)
{
    uint64_t space = (uint64_t)root << 1 | is_kernel;
    size_t slot = (size_t)(hash_mix(address, space) % PERF_LOCATION_CACHE);
    struct perf_cached_location *e = &r->locations[slot];

    if (e->location && e->address == address && e->space == space)
        return e->location;
    *e = (struct perf_cached_location){address, space, make_location(r, root, is_kernel, address)};
    return e->location;
}

/*
 * The stack of a sample. Callers are known by the address they return to, which may belong to the
 * next line or even function: what is kept is the byte before it, inside the call.
 */
static uint32_t sample_stack(struct perf_reader *r, const struct sample_fields *f, uint16_t misc,
                             uint32_t root)
{
    struct perf_cursor c = {f->chain.data, f->chain.data + f->chain.len, r->is_swapped, false};
    uint32_t mode = misc & MISC_CPU_MODE;
    bool is_kernel = mode == MODE_KERNEL || mode == MODE_GUEST_KERNEL, is_exact = true;
    bool is_guest = mode >= MODE_GUEST_KERNEL;

    vec_clear(&r->stack);
    while (perf_left(&c) > 0) {
        uint64_t address = perf_u64(&c);
        if (address >= CONTEXT_MAX) {
            is_guest = address == CONTEXT_GUEST || address == CONTEXT_GUEST_KERNEL ||
                       address == CONTEXT_GUEST_USER;
            is_kernel = address == CONTEXT_KERNEL || address == CONTEXT_GUEST_KERNEL;
            is_exact = true;
            continue;
        }
        uint32_t space = is_guest ? 0 : is_kernel ? r->kernel_root : root;
        vec_push(r->budget, &r->stack,
                 location_of(r, space, is_kernel, address - (is_exact || address == 0 ? 0 : 1)));
        is_exact = false;
    }
    if (r->stack.len == 0 && f->ip) {
        uint32_t space = is_guest ? 0 : is_kernel ? r->kernel_root : root;
        vec_push(r->budget, &r->stack, location_of(r, space, is_kernel, f->ip));
    }
    return dict_stack(r->dict, r->stack.data, r->stack.len);
}

static uint32_t comm_of(struct perf_reader *r, uint32_t tid)
{
    struct perf_thread *t = tid == UINT32_MAX ? NULL : find_thread(r, tid);

    return t ? t->comm : 0;
}

static int64_t id_or_unknown(uint32_t v)
{
    return v == UINT32_MAX ? -1 : (int64_t)v;
}

static uint32_t sampler_attrs(struct perf_reader *r, const struct sample_fields *f)
{
    struct perf_cached_sampler want = {.pid = f->pid, .tid = f->tid, .cpu = f->cpu, .is_set = true};
    want.comm = comm_of(r, f->tid);
    want.process_comm = comm_of(r, f->pid);
    uint64_t hash = hash_mix((uint64_t)f->tid << 32 | f->cpu, (uint64_t)f->pid << 32 | want.comm);
    struct perf_cached_sampler *e = &r->samplers[hash % PERF_SAMPLER_CACHE];

    if (e->is_set && e->pid == want.pid && e->tid == want.tid && e->cpu == want.cpu &&
        e->comm == want.comm && e->process_comm == want.process_comm)
        return e->attrs;
    struct perf_sampler s = {.comm = dict_text(r->dict, want.comm),
                             .pid = id_or_unknown(f->pid),
                             .tid = id_or_unknown(f->tid),
                             .cpu = id_or_unknown(f->cpu)};
    want.attrs = perf_sampler_attrs(r->dict, &s);
    if (want.process_comm) {
        uint32_t key = dict_cstring(r->dict, "process.executable.name");
        want.attrs = dict_attrs_with(r->dict, want.attrs,
                                     dict_string_attribute(r->dict, key, want.process_comm));
    }
    *e = want;
    return e->attrs;
}

int perf_add_columns(struct perf_reader *r, struct error *err)
{
    CLEANUP(buf_done) struct buf name = {0};

    for (size_t i = 0; i < r->events.len; i++) {
        struct perf_event *e = &r->events.data[i];
        if (!e->has_samples)
            continue;
        buf_clear(&name);
        if (e->name)
            buf_add_bytes(&name, dict_text(r->dict, e->name));
        else
            perf_event_name(&e->attr, &name);
        e->column = perf_columns_event(&r->columns, buf_bytes(&name));
        if (e->column < 0)
            return error_set(err, -EBADMSG, "perf.data: more than %d events have samples",
                             PERF_EVENTS_MAX);
    }
    return 0;
}

static void note_time(struct perf_reader *r, uint64_t time)
{
    if (time == 0)
        return;
    if (r->first_ns == 0 || time < r->first_ns)
        r->first_ns = time;
    if (time > r->last_ns)
        r->last_ns = time;
}

static int read_sample(struct perf_reader *r, struct perf_record *record, struct error *err)
{
    struct perf_event *e = event_of_sample(r, record);
    struct sample_fields f = {0};

    if (r->events.len == 0)
        return perf_record_error(record, err, "a sample, and no event was described");
    if (!e || !e->has_samples) { /* the latter: described only behind its samples */
        r->unknown_ids++;
        return 0;
    }
    int result = read_fields(&e->attr, record, &f, err);
    if (result < 0)
        return result;
    struct perf_process *process = f.pid == UINT32_MAX ? NULL : find_process(r, f.pid);
    struct sample s = {
        .node = sample_stack(r, &f, record->misc, process ? process->root : 0),
        .attrs = sampler_attrs(r, &f),
        .time_ns = f.time ? f.time + (r->has_clock ? r->clock_to_utc : 0) : 0,
    };
    bool has_period = (e->attr.sample_type & PERF_HAS_PERIOD) || !(e->attr.flags & PERF_FLAG_FREQ);
    int64_t period = (int64_t)f.period;
    perf_columns_add(&r->columns, e->column, has_period ? &period : NULL, &s);
    note_time(r, f.time);
    r->stack_dumps += (e->attr.sample_type & PERF_HAS_USER_STACK) != 0;
    r->branch_stacks += (e->attr.sample_type & PERF_HAS_BRANCHES) != 0;
    r->raw_payloads += (e->attr.sample_type & PERF_HAS_RAW) != 0;
    return 0;
}

/* "[kernel.kallsyms]_text" is the kernel, named after where its address was taken. */
static struct bytes kernel_name(struct bytes file)
{
    const uint8_t *end = bytes_find_byte(file, ']');

    return end && file.data[0] == '[' ? bytes_head(file, (size_t)(end - file.data) + 1) : file;
}

/* True for mappings of a file that stays what it is; false for memory that code is written to. */
static bool is_file_name(struct bytes file)
{
    static const char *const memory[] = {"//", "/dev/", "/SYSV", "/memfd:", "/anon_hugepage"};

    for (size_t i = 0; i < ARRAY_SIZE(memory); i++) {
        if (bytes_start_with(file, bytes_of(memory[i])))
            return false;
    }
    return file.len > 0 && file.data[0] == '/';
}

static uint32_t build_id_of(struct perf_reader *r, struct bytes raw, struct bytes file)
{
    char text[2 * BUILD_ID_MAX + 1];
    uint32_t id = 0;

    if (raw.len == 0) {
        text_cache_find(&r->build_ids, file, &id);
        return id;
    }
    return dict_string(r->dict, bytes_of(hex_encode(raw.data, raw.len, text)));
}

static int read_mmap(struct perf_reader *r, struct perf_record *record, struct error *err)
{
    struct perf_cursor *c = &record->body;
    uint32_t pid = perf_u32(c);
    struct perf_map m = {0};
    struct bytes build_id = {0};

    perf_u32(c);
    m.start = perf_u64(c);
    m.len = perf_u64(c);
    m.pgoff = perf_u64(c);
    if (record->type == PERF_MMAP2) {
        struct bytes id = perf_take(c, 24);
        if (record->misc & MISC_MMAP_BUILD_ID && id.len > 0)
            build_id = bytes_head(bytes_from(id, 4),
                                  id.data[0] < BUILD_ID_MAX ? id.data[0] : BUILD_ID_MAX);
        perf_u64(c); /* protection and flags */
    }
    if (c->failed)
        return perf_record_error(record, err, "a mapping is cut short");
    struct bytes file = perf_cstring(c);
    m.is_kernel = pid == KERNEL_PID || (record->misc & MISC_CPU_MODE) == MODE_KERNEL;
    if (m.is_kernel)
        file = kernel_name(file);
    m.is_file = !m.is_kernel && is_file_name(file);
    m.file = dict_string(r->dict, file);
    m.build_id = build_id_of(r, build_id, file);
    m.type =
        m.is_file || bytes_start_with(file, BYTES("[vdso]")) ? dict_cstring(r->dict, "native") : 0;
    struct perf_range range = {.start = m.start, .map = (uint32_t)r->map_infos.len};
    if (__builtin_add_overflow(m.start, m.len, &range.end))
        range.end = UINT64_MAX;
    struct perf_process *process = m.is_kernel ? NULL : find_process(r, pid);
    uint32_t *root = m.is_kernel ? &r->kernel_root : process ? &process->root : NULL;
    if (root && vec_push(r->budget, &r->map_infos, m))
        *root = perf_maps_add(&r->maps, *root, range);
    return 0;
}

static int read_comm(struct perf_reader *r, struct perf_record *record, struct error *err)
{
    struct perf_cursor *c = &record->body;

    perf_u32(c);
    uint32_t tid = perf_u32(c);
    if (c->failed)
        return perf_record_error(record, err, "a thread name is cut short");
    uint32_t comm = dict_string(r->dict, perf_cstring(c));
    struct perf_thread *thread = find_thread(r, tid);
    if (thread)
        thread->comm = comm;
    return 0;
}

static int read_fork(struct perf_reader *r, struct perf_record *record, struct error *err)
{
    struct perf_cursor *c = &record->body;
    uint32_t pid = perf_u32(c), parent_pid = perf_u32(c);
    uint32_t tid = perf_u32(c), parent_tid = perf_u32(c);

    if (c->failed)
        return perf_record_error(record, err, "a fork is cut short");
    uint32_t comm = comm_of(r, parent_tid);
    struct perf_thread *thread = find_thread(r, tid);
    if (thread)
        thread->comm = comm;
    if (pid == parent_pid)
        return 0;
    struct perf_process *parent = find_process(r, parent_pid);
    uint32_t root = parent ? parent->root : 0;
    struct perf_process *child = find_process(r, pid);
    if (child)
        child->root = root;
    return 0;
}

int perf_read_record(struct perf_reader *r, struct perf_record *record, struct error *err)
{
    switch (record->type) {
    case PERF_SAMPLE:
        return read_sample(r, record, err);
    case PERF_MMAP:
    case PERF_MMAP2:
        return read_mmap(r, record, err);
    case PERF_COMM:
        return read_comm(r, record, err);
    case PERF_FORK:
        return read_fork(r, record, err);
    default:
        return 0;
    }
}

int perf_record_error(const struct perf_record *r, struct error *err, const char *fmt, ...)
{
    char why[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return error_set(err, -EBADMSG, "perf.data at byte %llu%s: %s", (unsigned long long)r->offset,
                     r->is_unpacked ? " of the compressed records" : "", why);
}
