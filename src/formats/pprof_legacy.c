/*
 * The formats that pprof read before it had its own: text of gperftools, Go and jemalloc (heap,
 * contention, threads, counts), read here; the binary CPU profile, Java's variants and goroutine
 * dumps, read in files of their own. Numbers come out as pprof gives them.
 */
#include <errno.h>

#include "formats/formats.h"
#include "formats/pprof_legacy_internal.h"

/* Frames of the profiler itself, which reports leave out once there are names: what pprof calls
 * drop_frames and keep_frames. */
static const char drop_in_heap[] =
    "calloc|cfree|malloc|free|(do_)?memalign|(__)?posix_memalign|p?valloc|realloc|"
    "tcmalloc::.*|"
    "tc_(calloc|cfree|malloc|free|memalign|posix_memalign|pvalloc|valloc|realloc)|"
    "tc_(delete|deletearray|(new|newarray)(_nothrow)?)|"
    "malloc_zone_(malloc|calloc|valloc|realloc|memalign|free)|"
    "runtime\\..*|BaseArena::.*|(::)?do_malloc(_no_errno|_pages)?|DoSampledAllocation|"
    "MallocedMemBlock::MallocedMemBlock|_M_allocate|__builtin_(vec_)?(delete|new)|"
    "__gnu_cxx::new_allocator::allocate|__libc_malloc|__malloc_alloc_template::allocate|"
    "allocate|cpp_alloc|operator new(\\[\\])?|simple_alloc::allocate";
static const char keep_in_heap[] = "runtime\\.(panic|reflectcall|call[0-9]*)";
static const char drop_in_contention[] =
    "(base::)?RecordLockProfileData.*|(base::)?Submit(Mutex|SpinLock)ProfileData.*|"
    "((base::)?Mutex::)?(AwaitCommon|Unlock|UnlockSlow|ReaderUnlock).*|"
    "((base::)?MutexLock::)?~MutexLock.*|(SpinLock::)?(Unlock|SlowUnlock).*|"
    "(SpinLockHolder::)?~SpinLockHolder.*";
static const char drop_elsewhere[] =
    "ProfileData::(Add|prof_handler)|CpuProfiler::prof_handler|__pthread_sighandler|__restore";

static bool is_blank_or_comment(struct bytes line)
{
    line = bytes_trim(line);
    return line.len == 0 || line.data[0] == '#';
}

static bool is_section(struct bytes line)
{
    return bytes_start_with(line, BYTES("---"));
}

static void set_period(struct legacy *l, const char *type, const char *unit, int64_t period)
{
    l->profile->period_type =
        (struct value_type){dict_cstring(l->dict, type), dict_cstring(l->dict, unit)};
    l->profile->period = period;
}

/* "NAME profile: total N" */
static bool take_count_header(struct bytes line, struct bytes *ret_name)
{
    uint64_t total;

    return take_word(&line, ret_name) && take_text(&line, " profile: total ") &&
           take_u64(&line, &total) && line.len == 0;
}

/* Go's counts: goroutine, threadcreate and whatever a program defines itself. */
static int read_counts(struct legacy *l, struct bytes name)
{
    uint32_t type = dict_string(l->dict, name), unit = dict_cstring(l->dict, "count");

    profile_add_type(l->profile, type, unit);
    l->profile->period_type = (struct value_type){type, unit};
    l->profile->period = 1;
    for (struct bytes line; legacy_next_line(l, &line);) {
        struct legacy_sample s = {0};
        if (is_blank_or_comment(line))
            continue;
        if (is_section(line)) {
            if (legacy_is_map_start(line)) {
                legacy_read_maps(l);
                return 0;
            }
            break;
        }
        if (!take_i64(&line, &s.values[0]) || !take_text(&line, " @ 0x"))
            return legacy_fail(l, "not \"COUNT @ ADDRESS...\"");
        line.data -= 2; /* the address that was looked at */
        line.len += 2;
        int r = legacy_add_addresses(l, line, 0);
        if (r < 0)
            return r;
        legacy_add_sample(l, s);
    }
    legacy_skip_to_maps(l);
    return 0;
}

/* Four numbers as heap profiles write them: "N: BYTES [N: BYTES]". */
struct heap_numbers {
    int64_t count, size, alloc_count, alloc_size;
};

/* " 3: 768 ", with spaces or without. */
static bool take_pair(struct bytes *at, int64_t *ret_count, int64_t *ret_size)
{
    (void)take_spaces(at);
    if (!take_i64(at, ret_count) || !take_text(at, ":"))
        return false;
    (void)take_spaces(at);
    if (!take_i64(at, ret_size))
        return false;
    (void)take_spaces(at);
    return true;
}

static bool take_heap_numbers(struct bytes *s, struct heap_numbers *ret)
{
    struct bytes at = *s;
    struct heap_numbers n;

    if (!take_pair(&at, &n.count, &n.size) || !take_text(&at, "[") ||
        !take_pair(&at, &n.alloc_count, &n.alloc_size) || !take_text(&at, "]"))
        return false;
    *s = at;
    *ret = n;
    return true;
}

struct heap_header {
    int64_t period; /* as the profile says it */
    int64_t rate;   /* to estimate by; 0: the numbers are not samples */
    bool has_alloc;
};

/* "heap profile: N: BYTES [N: BYTES] @ KIND/RATE" */
static bool take_heap_header(struct bytes line, struct heap_header *ret)
{
    static const char begin[] = "heap profile:";
    const uint8_t *at = bytes_find(line, BYTES(begin));
    struct heap_numbers n;
    struct heap_header h = {.period = 1};
    uint64_t rate = 0;

    if (!at)
        return false;
    line = bytes_from(line, (size_t)(at - line.data) + sizeof(begin) - 1);
    if (!take_heap_numbers(&line, &n))
        return false;
    (void)take_spaces(&line);
    if (!take_text(&line, "@"))
        return false;
    (void)take_spaces(&line);
    *ret = h;
    if (take_text(&line, "growth") || take_text(&line, "fragmentation"))
        return true;
    bool is_plain = take_text(&line, "heapprofile");
    bool is_v2 = !is_plain && (take_text(&line, "heapz_v2") || take_text(&line, "heap_v2"));
    if (!is_plain && !is_v2 && !take_text(&line, "heap"))
        return false;
    if (take_text(&line, "/"))
        (void)take_u64(&line, &rate);
    if (rate > INT64_MAX)
        return false;
    h.has_alloc = (n.alloc_count != n.count && n.alloc_count != 0) ||
                  (n.alloc_size != n.size && n.alloc_size != 0);
    if (!is_plain) {
        h.period = is_v2 ? (int64_t)rate : (int64_t)rate / 2;
        h.rate = h.period;
    }
    *ret = h;
    return true;
}

static void set_heap_types(struct legacy *l, const struct heap_header *h)
{
    /* The last is shown unless another is asked for. */
    if (h->has_alloc) {
        profile_add_ctype(l->profile, "alloc_objects", "count");
        profile_add_ctype(l->profile, "alloc_space", "bytes");
        profile_add_ctype(l->profile, "inuse_objects", "count");
        profile_add_ctype(l->profile, "inuse_space", "bytes");
    } else {
        profile_add_ctype(l->profile, "objects", "count");
        profile_add_ctype(l->profile, "space", "bytes");
    }
    set_period(l, "space", "bytes", h->period);
}

/* One pair of numbers into s->values[at] and [at + 1], estimated where they are samples. */
static int set_heap_values(struct legacy *l, const struct heap_header *h, struct legacy_sample *s,
                           size_t at, int64_t count, int64_t size)
{
    if (count == 0 && size != 0)
        return legacy_fail(l, "a count of 0 has %lld bytes", (long long)size);
    if (count != 0) {
        s->block_size = count == -1 ? -size : size / count;
        if (h->rate)
            legacy_unsample(&count, &size, h->rate);
    }
    s->values[at] = count;
    s->values[at + 1] = size;
    return 0;
}

static int add_heap_sample(struct legacy *l, const struct heap_header *h,
                           const struct heap_numbers *n)
{
    struct legacy_sample s = {.has_block_size = true};
    size_t at = 0;
    int r;

    if (h->has_alloc) {
        if ((r = set_heap_values(l, h, &s, 0, n->alloc_count, n->alloc_size)) < 0)
            return r;
        at = 2;
    }
    if ((r = set_heap_values(l, h, &s, at, n->count, n->size)) < 0)
        return r;
    legacy_add_sample(l, s);
    return 0;
}

static int read_heap(struct legacy *l, const struct heap_header *h)
{
    set_heap_types(l, h);
    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);) {
        struct heap_numbers n;
        line = bytes_trim(line);
        if (is_blank_or_comment(line))
            continue;
        if (legacy_is_map_start(line)) {
            legacy_read_maps(l);
            return 0;
        }
        if (!take_heap_numbers(&line, &n) || !take_text(&line, " @"))
            return legacy_fail(l, "not \"COUNT: BYTES [COUNT: BYTES] @ ADDRESS...\"");
        int r = legacy_add_addresses(l, line, 0);
        if (r < 0 || (r = add_heap_sample(l, h, &n)) < 0)
            return r;
    }
    return 0;
}

/* jemalloc: "heap_v2/RATE", then "@ ADDRESS..." lines, each followed by numbers per thread, of
 * which "t*" is their sum. The numbers before the first stack are the sum of all. */
static int read_jemalloc(struct legacy *l, int64_t rate)
{
    struct heap_header h = {.period = rate, .rate = rate};
    bool in_stack = false, has_types = false;

    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);) {
        struct heap_numbers n;
        int r = 0;
        line = bytes_trim(line);
        if (legacy_is_map_start(line)) {
            legacy_read_maps(l);
            break;
        }
        if (take_text(&line, "@")) {
            in_stack = true;
            r = legacy_add_addresses(l, line, 0);
        } else if (take_text(&line, "t*:")) {
            if (!take_heap_numbers(&line, &n))
                return legacy_fail(l, "not \"t*: COUNT: BYTES [COUNT: BYTES]\"");
            if (!has_types) {
                h.has_alloc = n.alloc_count != 0 || n.alloc_size != 0;
                set_heap_types(l, &h);
                has_types = true;
            }
            if (in_stack)
                r = add_heap_sample(l, &h, &n);
            in_stack = false;
        }
        if (r < 0)
            return r;
    }
    return has_types ? 0 : legacy_fail(l, "there is no \"t*:\" line with the totals");
}

struct contention {
    int64_t cycles_per_second;
};

/* "NAME = VALUE" above the samples. Sets *ret_is_attribute to false for anything else. */
static int read_contention_attribute(struct legacy *l, struct bytes line, struct contention *c,
                                     bool *ret_is_attribute)
{
    const uint8_t *equals = bytes_find_byte(line, '=');
    int64_t value = 0;

    *ret_is_attribute = equals != NULL;
    if (!equals)
        return 0;
    struct bytes key = bytes_trim(bytes_head(line, (size_t)(equals - line.data)));
    struct bytes text = bytes_trim(bytes_from(line, (size_t)(equals - line.data) + 1));
    bool is_number = bytes_to_i64(text, &value);
    if (bytes_are(key, "cycles/second") && is_number)
        c->cycles_per_second = value;
    else if (bytes_are(key, "sampling period") && is_number)
        l->profile->period = value;
    else if (bytes_are(key, "ms since reset") && is_number &&
             !__builtin_mul_overflow(value, 1000000, &l->profile->duration_ns))
        return 0;
    else if (!bytes_are(key, "discarded samples"))
        return legacy_fail(l, "\"%.*s\" is not known or not a number", (int)(key.len & 127),
                           (const char *)key.data);
    return 0;
}

/* "CYCLES COUNT @ ADDRESS..." */
static int read_contention_sample(struct legacy *l, struct bytes line, const struct contention *c)
{
    struct legacy_sample s = {0};
    int64_t delay, count, period = l->profile->period;

    if (!take_i64(&line, &delay) || !take_spaces(&line) || !take_i64(&line, &count) ||
        !take_text(&line, " @") || delay < 0 || count < 0)
        return legacy_fail(l, "not \"CYCLES COUNT @ ADDRESS...\"");
    if (period > 0) {
        if (c->cycles_per_second > 0) {
            double ns = (double)delay * (double)period / ((double)c->cycles_per_second / 1e9);
            delay = ns < 9e18 ? (int64_t)ns : INT64_MAX;
        }
        if (__builtin_mul_overflow(count, period, &count))
            return legacy_fail(l, "a count does not fit 64 bits");
    }
    s.values[0] = count;
    s.values[1] = delay;
    int r = legacy_add_addresses(l, line, 0);
    if (r == 0)
        legacy_add_sample(l, s);
    return r;
}

static int read_contention(struct legacy *l)
{
    struct contention c = {0};
    bool in_header = true;

    profile_add_ctype(l->profile, "contentions", "count");
    profile_add_ctype(l->profile, "delay", "nanoseconds");
    set_period(l, "contentions", "count", 1);
    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);) {
        int r = 0;
        line = bytes_trim(line);
        if (is_blank_or_comment(line))
            continue;
        if (legacy_is_map_start(line)) {
            legacy_read_maps(l);
            return 0;
        }
        if (is_section(line))
            break;
        if (in_header)
            r = read_contention_attribute(l, line, &c, &in_header);
        if (r == 0 && !in_header)
            r = read_contention_sample(l, line, &c);
        if (r < 0)
            return r;
    }
    legacy_skip_to_maps(l);
    return 0;
}

/* "--- Thread HEX (name: NAME/ID) stack: ---" */
static bool is_thread(struct bytes line)
{
    uint64_t id;

    return take_text(&line, "--- Thread ") && take_hex(&line, &id) &&
           take_text(&line, " (name: ") && bytes_find(line, BYTES(") stack: ---"));
}

/* A thread without a stack of its own is counted with the one before, as pprof does. */
static void end_thread(struct legacy *l, bool is_same)
{
    if (!is_same && legacy_frames(l) > 0)
        legacy_add_sample(l, (struct legacy_sample){.values = {1}});
    else if (l->samples.len > 0)
        vec_last(&l->samples).values[0]++;
}

static int read_threads(struct legacy *l, bool in_thread)
{
    bool is_same = false;

    profile_add_ctype(l->profile, "thread", "count");
    set_period(l, "thread", "count", 1);
    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);) {
        line = bytes_trim(line);
        if (is_section(line)) {
            if (in_thread)
                end_thread(l, is_same);
            is_same = false;
            in_thread = is_thread(line);
            if (legacy_is_map_start(line)) {
                legacy_read_maps(l);
                break;
            }
            if (bytes_start_with(line, BYTES("---- no stack trace for")))
                break;
            if (!in_thread)
                return legacy_fail(l, "not \"--- Thread ID (name: NAME/ID) stack: ---\"");
        } else if (in_thread && bytes_find(line, BYTES("same as previous thread"))) {
            is_same = true;
        } else if (in_thread && !is_same) {
            int r = legacy_add_addresses(l, line, 1);
            if (r < 0)
                return r;
        }
    }
    if (in_thread && !budget_failed(l->budget))
        end_thread(l, is_same);
    legacy_skip_to_maps(l);
    legacy_drop_doubled_leaves(l);
    return 0;
}

/* What the first line that says something is. */
enum kind {
    KIND_NONE,
    KIND_COUNTS,
    KIND_HEAP,
    KIND_JEMALLOC,
    KIND_CONTENTION,
    KIND_THREADS,
    KIND_JAVA
};

struct header {
    enum kind kind;
    struct bytes line, name; /* name: of KIND_COUNTS */
    struct heap_header heap;
    bool in_thread;
};

static bool take_threadz(struct bytes line)
{
    const uint8_t *at = bytes_find(line, BYTES("--- threadz "));
    return at && bytes_find(bytes_from(line, (size_t)(at - line.data) + 12), BYTES(" ---"));
}

/* Java writes "format = java" below the same header as C++. */
static bool says_java(struct bytes rest)
{
    for (struct bytes line; bytes_next_line(&rest, &line);) {
        line = bytes_trim(line);
        if (line.len == 0)
            continue;
        return take_text(&line, "format") && bytes_find(line, BYTES("java"));
    }
    return false;
}

static struct header find_header(struct bytes text)
{
    struct bytes line = {0}, rest = text, number;
    struct header h = {0};
    uint64_t rate;

    while (bytes_next_line(&rest, &line) && is_blank_or_comment(line))
        ;
    h.line = line;
    struct bytes trimmed = bytes_trim(line);
    number = trimmed;
    if (take_count_header(line, &h.name))
        h.kind = KIND_COUNTS;
    else if (take_heap_header(line, &h.heap))
        h.kind = KIND_HEAP;
    else if (take_text(&number, "heap_v2/") && take_u64(&number, &rate) && rate <= INT64_MAX &&
             number.len == 0) {
        h.kind = KIND_JEMALLOC;
        h.heap.rate = (int64_t)rate;
    } else if (take_threadz(line) || is_thread(trimmed)) {
        h.kind = KIND_THREADS;
        h.in_thread = !take_threadz(line);
    } else if ((bytes_are(trimmed, "--- heapz 1 ---") ||
                bytes_are(trimmed, "--- contentionz 1 ---")) &&
               says_java(rest))
        h.kind = KIND_JAVA;
    else if (bytes_start_with(line, BYTES("--- contentionz ")) ||
             bytes_start_with(line, BYTES("--- mutex:")) ||
             bytes_start_with(line, BYTES("--- contention:")))
        h.kind = KIND_CONTENTION;
    return h;
}

static int legacy_sniff(struct bytes head)
{
    int score = legacy_sniff_cpu(head);

    if (score == 0 && find_header(head).kind != KIND_NONE)
        score = 90;
    return score ? score : legacy_sniff_dump(head);
}

static int read_text(struct legacy *l)
{
    struct header h = find_header(l->rest);
    struct bytes line;

    if (h.kind == KIND_NONE)
        return legacy_read_dump(l);
    while (legacy_next_line(l, &line) && line.data != h.line.data)
        ;
    switch (h.kind) {
    case KIND_COUNTS:
        return read_counts(l, h.name);
    case KIND_HEAP:
        return read_heap(l, &h.heap);
    case KIND_JEMALLOC:
        return read_jemalloc(l, h.heap.rate);
    case KIND_CONTENTION:
        return read_contention(l);
    case KIND_THREADS:
        return read_threads(l, h.in_thread);
    case KIND_JAVA:
        return legacy_read_java(l, bytes_trim(h.line));
    case KIND_NONE:
        break;
    }
    return -EBADMSG;
}

/* pprof goes by the types alone. */
static void set_frames_to_drop(struct legacy *l)
{
    const struct profile *p = l->profile;
    const char *first = p->n_types ? dict_cstr(l->dict, p->types[0].type) : "";

    if (strstr(first, "objects")) {
        l->profile->drop_frames = dict_cstring(l->dict, drop_in_heap);
        l->profile->keep_frames = dict_cstring(l->dict, keep_in_heap);
    } else if (strcmp(first, "contentions") == 0) {
        l->profile->drop_frames = dict_cstring(l->dict, drop_in_contention);
    } else {
        l->profile->drop_frames = dict_cstring(l->dict, drop_elsewhere);
    }
}

static int legacy_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct bytes all;
    int r = input_all(in, &all, err);
    if (r < 0)
        return r;
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);
    struct legacy l = {.out = out,
                       .profile = p,
                       .dict = out->dict,
                       .budget = out->budget,
                       .err = err,
                       .rest = all,
                       .keeps_addresses = true};

    r = legacy_sniff_cpu(all) ? legacy_read_cpu(&l, all) : read_text(&l);
    if (r == 0 && l.samples.len > 0 && !budget_failed(l.budget))
        r = legacy_build(&l);
    if (r == 0 && l.samples.len > 0)
        set_frames_to_drop(&l);
    vec_done(l.budget, &l.places);
    idset_done(l.budget, &l.place_index);
    vec_done(l.budget, &l.refs);
    vec_done(l.budget, &l.samples);
    vec_done(l.budget, &l.maps);
    return r;
}

const struct format format_pprof_legacy = {
    .name = "pprof-legacy",
    .title = "pprof legacy (gperftools, Go, jemalloc and Java)",
    .extension = NULL,
    .sniff = legacy_sniff,
    .decode = legacy_decode,
};
