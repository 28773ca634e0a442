/*
 * perf.data, as `perf record` writes it: to a file (a header that points to sections) or to a pipe
 * (everything in records). Records of several CPUs are not in the order of time, but who runs where
 * depends on it, so all are found first, put in order, and then read.
 *
 * Names are not in the file: a location is an address in a mapping, for a symbolizer to name.
 * Addresses in files are kept as offsets in the file (the mapping says the same of itself), so that
 * a binary is the same code in every process wherever it was loaded; addresses of the kernel and of
 * code written at run time stay as they were in memory.
 */
#include <errno.h>

#include "formats/formats.h"
#include "formats/perf_data_internal.h"
#include "wire/inflate.h"

#define FILE_HEADER_SIZE 104
#define PIPE_HEADER_SIZE 16
#define FEATURE_WORDS    4

/* A record to be read in the order of time. */
struct ref {
    uint64_t time;
    uint64_t offset;
};
#define REF_UNPACKED ((uint64_t)1 << 63)

struct scan {
    struct perf_reader *r;
    struct bytes file;
    VEC(struct ref) refs;
    struct unpack_stream *stream;
    size_t unpacked_read; /* of r->unpacked, what was scanned */
    struct error *err;
};

struct section {
    uint64_t offset, size;
};

static int perf_data_sniff(struct bytes head)
{
    bool has_magic =
        bytes_start_with(head, BYTES("PERFILE2")) || bytes_start_with(head, BYTES("2ELIFREP"));

    return has_magic ? 100 : 0;
}

static int fail_at(struct error *err, uint64_t offset, const char *why)
{
    return error_set(err, -EBADMSG, "perf.data at byte %llu: %s", (unsigned long long)offset, why);
}

static struct section read_section(struct perf_cursor *c)
{
    uint64_t offset = perf_u64(c);

    return (struct section){offset, perf_u64(c)};
}

static bool section_fits(struct bytes file, struct section s)
{
    return s.offset <= file.len && s.size <= file.len - s.offset;
}

static struct perf_cursor section_cursor(const struct scan *s, struct section at)
{
    const uint8_t *p = s->file.data + at.offset;

    return (struct perf_cursor){p, p + at.size, s->r->is_swapped, false};
}

/* The header of the record at `offset` of `all`; its body stays inside `all`. */
static int record_at(const struct scan *s, struct bytes all, uint64_t offset,
                     struct perf_record *ret)
{
    struct perf_cursor c = {all.data + offset, all.data + all.len, s->r->is_swapped, false};
    struct perf_record record = {.offset = offset, .is_unpacked = all.data != s->file.data};

    record.type = perf_u32(&c);
    record.misc = perf_u16(&c);
    uint16_t size = perf_u16(&c);
    if (c.failed)
        return perf_record_error(&record, s->err, "a record header is cut short");
    if (size < 8)
        return perf_record_error(&record, s->err, "a record of %u bytes is smaller than its header",
                                 size);
    struct bytes body = perf_take(&c, size - 8u);
    if (c.failed)
        return perf_record_error(&record, s->err, "a record of %u bytes runs past the end", size);
    record.body = (struct perf_cursor){body.data, body.data + body.len, s->r->is_swapped, false};
    *ret = record;
    return 0;
}

static void count_record(struct perf_reader *r, const struct perf_record *record)
{
    struct perf_cursor c = record->body;

    if (record->type < PERF_TYPES_END)
        r->counts[record->type]++;
    else
        r->n_other_types++;
    if (record->type == PERF_LOST) {
        perf_u64(&c);
        r->lost += perf_u64(&c);
    } else if (record->type == PERF_LOST_SAMPLES) {
        r->lost += perf_u64(&c);
    }
}

/* What a scan does with one record that is not a container of others. */
static int scan_record(struct scan *s, struct perf_record *record)
{
    struct perf_reader *r = s->r;

    if (record->type == 0)
        return perf_record_error(record, s->err, "a record of type 0");
    count_record(r, record);
    if (record->type >= PERF_KERNEL_TYPES_END)
        return perf_read_header_record(r, record, s->err);
    if (record->type == PERF_SAMPLE || record->type == PERF_MMAP || record->type == PERF_MMAP2 ||
        record->type == PERF_COMM || record->type == PERF_FORK) {
        uint64_t offset = record->offset | (record->is_unpacked ? REF_UNPACKED : 0);
        vec_push(r->budget, &s->refs, (struct ref){perf_record_time(r, record), offset});
    }
    return 0;
}

/* The whole records of what was unpacked so far. One may continue in the next compressed record. */
static int scan_unpacked(struct scan *s, bool is_last)
{
    struct perf_reader *r = s->r;

    while (s->unpacked_read < r->unpacked.len) {
        struct bytes all = {r->unpacked.data, r->unpacked.len};
        struct perf_cursor c = {all.data + s->unpacked_read, all.data + all.len, r->is_swapped,
                                false};
        perf_u32(&c);
        perf_u16(&c);
        uint16_t size = perf_u16(&c);
        if (!is_last && (c.failed || size > all.len - s->unpacked_read))
            return 0;
        struct perf_record record = {0};
        int result = record_at(s, all, s->unpacked_read, &record);
        if (result == 0)
            result = scan_record(s, &record);
        if (result < 0)
            return result;
        s->unpacked_read += size;
    }
    return 0;
}

/* All compressed records together are one stream. */
static int scan_compressed(struct scan *s, const struct perf_record *record)
{
    struct perf_reader *r = s->r;
    struct bytes in = {record->body.pos, perf_left(&record->body)};

    count_record(r, record);
    if (!s->stream)
        s->stream = unpack_stream_new(CODEC_ZSTD);
    for (;;) {
        size_t room = (size_t)64 << 10;
        if (!vec_reserve(r->budget, &r->unpacked, room))
            return budget_error(r->budget, s->err);
        struct error why;
        ssize_t n = unpack_stream_read(s->stream, &in, false, r->unpacked.data + r->unpacked.len,
                                       room, &why);
        if (n < 0)
            return perf_record_error(record, s->err, "%s", why.text);
        if (n == 0)
            return scan_unpacked(s, false);
        r->unpacked.len += (size_t)n;
    }
}

/* How many bytes follow a record that are not part of it. */
static uint64_t bytes_behind(const struct perf_record *record)
{
    struct perf_cursor c = record->body;

    if (record->type == PERF_TRACING_DATA)
        return ((uint64_t)perf_u32(&c) + 7) & ~(uint64_t)7;
    return record->type == PERF_AUXTRACE ? perf_u64(&c) : 0;
}

static int scan_data(struct scan *s, struct section data)
{
    struct bytes all = bytes_head(s->file, (size_t)(data.offset + data.size));

    for (uint64_t at = data.offset; at < all.len;) {
        struct perf_record record = {0};
        int result = record_at(s, all, at, &record);
        if (result < 0)
            return result;
        at += 8 + perf_left(&record.body);
        uint64_t behind = bytes_behind(&record);
        if (behind > all.len - at)
            return perf_record_error(&record, s->err, "%llu bytes behind a record run past the end",
                                     (unsigned long long)behind);
        at += behind;
        result =
            record.type == PERF_COMPRESSED ? scan_compressed(s, &record) : scan_record(s, &record);
        if (budget_failed(s->r->budget))
            return budget_error(s->r->budget, s->err);
        if (result < 0)
            return result;
    }
    return scan_unpacked(s, true);
}

/* The events of file mode: attributes, each with a section of ids. */
static int read_attrs(struct scan *s, uint64_t attr_size, struct section attrs)
{
    struct perf_cursor c = section_cursor(s, attrs);

    if (attr_size <= 16 && attrs.size > 0)
        return fail_at(s->err, 16, "event attributes have no size");
    while (perf_left(&c) >= attr_size && perf_left(&c) > 0) {
        uint64_t at = (uint64_t)(c.pos - s->file.data);
        struct perf_attr attr;
        if (!perf_read_attr(&c, attr_size - 16, &attr))
            return fail_at(s->err, at, "event attributes are cut short");
        struct section ids = read_section(&c);
        if (!section_fits(s->file, ids))
            return fail_at(s->err, at, "the ids of an event lie past the end of the file");
        struct perf_cursor id_cursor = section_cursor(s, ids);
        if (!perf_add_event(s->r, &attr, &id_cursor))
            return fail_at(s->err, at, "too many events");
        if (budget_failed(s->r->budget))
            return budget_error(s->r->budget, s->err);
    }
    return 0;
}

/* The features of file mode: a table behind the data, one entry for each bit that is set. */
static int read_features(struct scan *s, uint64_t table, const uint64_t *flags)
{
    struct section rest = {table, s->file.len - table};
    struct perf_cursor c = section_cursor(s, rest);

    for (uint32_t i = 0; i < 64 * FEATURE_WORDS; i++) {
        if (!(flags[i / 64] >> (i % 64) & 1))
            continue;
        uint64_t at = (uint64_t)(c.pos - s->file.data);
        struct section feature = read_section(&c);
        if (c.failed)
            return fail_at(s->err, at, "the table of features is cut short");
        if (!section_fits(s->file, feature))
            return fail_at(s->err, at, "a feature lies past the end of the file");
        perf_read_feature(s->r, i, section_cursor(s, feature));
    }
    return 0;
}

static int scan_file(struct scan *s, struct perf_cursor *c)
{
    uint64_t flags[FEATURE_WORDS];
    uint64_t attr_size = perf_u64(c);
    struct section attrs = read_section(c), data = read_section(c);

    read_section(c); /* event types, of old */
    for (size_t i = 0; i < FEATURE_WORDS; i++)
        flags[i] = perf_u64(c);
    if (c->failed)
        return fail_at(s->err, s->file.len, "the file header is cut short");
    if (!section_fits(s->file, attrs))
        return fail_at(s->err, 24, "the event attributes lie past the end of the file");
    if (!section_fits(s->file, data))
        return fail_at(s->err, 40, "the data section runs past the end of the file");
    int result = read_attrs(s, attr_size, attrs);
    if (result < 0)
        return result;
    if (data.size == 0) {
        data.size = s->file.len - data.offset;
        if (data.size > 0)
            profile_set_note(s->r->set, "perf record did not end properly: its data was read up to "
                                        "the end of the file");
    } else if ((result = read_features(s, data.offset + data.size, flags)) < 0) {
        return result;
    }
    return scan_data(s, data);
}

static int scan_all(struct scan *s)
{
    struct perf_reader *r = s->r;

    r->is_swapped = s->file.len > 0 && s->file.data[0] == '2';
    struct perf_cursor c = {s->file.data, s->file.data + s->file.len, r->is_swapped, false};
    perf_take(&c, 8);
    uint64_t size = perf_u64(&c);
    if (!perf_data_sniff(s->file) || c.failed)
        return fail_at(s->err, 0, "not a perf.data header");
    if (size == PIPE_HEADER_SIZE)
        return scan_data(s, (struct section){PIPE_HEADER_SIZE, s->file.len - PIPE_HEADER_SIZE});
    if (size < FILE_HEADER_SIZE)
        return fail_at(s->err, 8, "a file header of unknown size");
    return scan_file(s, &c);
}

static bool comes_before(const struct ref *a, const struct ref *b)
{
    return a->time != b->time ? a->time < b->time : a->offset < b->offset;
}

static void merge_runs(const struct ref *from, size_t a, size_t b, size_t end, struct ref *to)
{
    size_t i = a, k = b;

    for (size_t at = a; at < end; at++) {
        bool take_left = i < b && (k >= end || !comes_before(&from[k], &from[i]));
        to[at] = take_left ? from[i++] : from[k++];
    }
}

/* Merge sort: records are nearly in order, and the room it takes is within the budget. */
static bool sort_refs(struct scan *s)
{
    struct budget *b = s->r->budget;
    size_t n = s->refs.len, size = n * sizeof(struct ref);
    bool is_sorted = true;
    void *p = NULL;

    for (size_t i = 1; is_sorted && i < n; i++)
        is_sorted = !comes_before(&s->refs.data[i], &s->refs.data[i - 1]);
    if (is_sorted)
        return true;
    if (!budget_resize(b, &p, 0, size))
        return false;
    struct ref *from = s->refs.data, *to = p;
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t at = 0; at < n; at += 2 * run) {
            size_t middle = at + run < n ? at + run : n, end = at + 2 * run < n ? at + 2 * run : n;
            merge_runs(from, at, middle, end, to);
        }
        struct ref *t = from;
        from = to;
        to = t;
    }
    if (from != s->refs.data)
        memcpy(s->refs.data, from, size);
    budget_free(b, p, size);
    return true;
}

static int read_in_order(struct scan *s)
{
    struct perf_reader *r = s->r;

    if (!sort_refs(s))
        return budget_error(r->budget, s->err);
    struct bytes unpacked = {r->unpacked.data, r->unpacked.len};
    for (size_t i = 0; i < s->refs.len; i++) {
        uint64_t offset = s->refs.data[i].offset;
        struct perf_record record = {0};
        int result = record_at(s, offset & REF_UNPACKED ? unpacked : s->file,
                               offset & ~REF_UNPACKED, &record);
        if (result == 0)
            result = perf_read_record(r, &record, s->err);
        if (budget_failed(r->budget))
            return budget_error(r->budget, s->err);
        if (result < 0)
            return result;
    }
    return 0;
}

static void add_counts_note(const struct perf_reader *r)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (uint32_t i = 0; i < PERF_TYPES_END; i++) {
        const char *name = perf_record_name(i);
        if (r->counts[i] && name)
            buf_addf(&text, "%s%s %llu", text.len ? ", " : "", name,
                     (unsigned long long)r->counts[i]);
        else if (r->counts[i])
            buf_addf(&text, "%stype %u %llu", text.len ? ", " : "", i,
                     (unsigned long long)r->counts[i]);
    }
    if (r->n_other_types)
        buf_addf(&text, "%sof unknown types %llu", text.len ? ", " : "",
                 (unsigned long long)r->n_other_types);
    if (text.len > 0)
        profile_set_note(r->set, "records: %s", buf_cstr(&text));
}

static void add_notes(const struct perf_reader *r)
{
    add_counts_note(r);
    if (r->lost)
        profile_set_note(r->set, "%llu events were lost while recording",
                         (unsigned long long)r->lost);
    if (r->unknown_ids)
        profile_set_note(r->set, "%llu samples have an id of no event and were left out",
                         (unsigned long long)r->unknown_ids);
    if (r->stack_dumps)
        profile_set_note(r->set,
                         "%llu samples hold a copy of the stack instead of a call chain: their "
                         "callers are not known",
                         (unsigned long long)r->stack_dumps);
    if (r->branch_stacks)
        profile_set_note(r->set, "branch records of %llu samples were not kept",
                         (unsigned long long)r->branch_stacks);
    if (r->raw_payloads)
        profile_set_note(r->set, "raw data of %llu samples was not kept",
                         (unsigned long long)r->raw_payloads);
    if (r->last_ns && !r->has_clock)
        profile_set_note(r->set, "times are those of perf's clock, not UTC");
}

/* The kernel maps a program before its libraries, so the first file that has samples is it. */
static uint32_t main_mapping(const struct perf_reader *r)
{
    for (size_t i = 0; i < r->map_infos.len; i++) {
        if (r->map_infos.data[i].is_file && r->map_infos.data[i].mapping)
            return r->map_infos.data[i].mapping;
    }
    return 0;
}

static void finish_profile(struct perf_reader *r)
{
    struct profile *p = r->profile;

    p->default_mapping = main_mapping(r);
    for (size_t i = 0; i < p->mappings.len; i++) { /* and goes first */
        if (p->mappings.data[i] == p->default_mapping) {
            p->mappings.data[i] = p->mappings.data[0];
            p->mappings.data[0] = p->default_mapping;
        }
    }
    perf_columns_finish(&r->columns);
    p->duration_ns = (int64_t)(r->last_ns - r->first_ns);
    if (r->has_clock && r->first_ns)
        p->time_unix_ns = (int64_t)(r->first_ns + r->clock_to_utc);
    const struct perf_attr *a = r->events.len == 1 ? &r->events.data[0].attr : NULL;
    if (a && !(a->flags & PERF_FLAG_FREQ) && r->columns.n_events == 1) {
        p->period = (int64_t)a->sample_period;
        p->period_type = p->types[r->columns.events[0].period];
    }
    add_notes(r);
}

static void scan_done(struct scan *s)
{
    struct perf_reader *r = s->r;
    struct budget *b = r->budget;

    vec_done(b, &s->refs);
    unpack_stream_free(s->stream);
    vec_done(b, &r->events);
    vec_done(b, &r->ids);
    idset_done(b, &r->id_index);
    vec_done(b, &r->unpacked);
    text_cache_done(&r->build_ids);
    perf_maps_done(&r->maps);
    vec_done(b, &r->map_infos);
    vec_done(b, &r->processes);
    idset_done(b, &r->process_index);
    vec_done(b, &r->threads);
    idset_done(b, &r->thread_index);
    vec_done(b, &r->stack);
    budget_free(b, r->locations, PERF_LOCATION_CACHE * sizeof(*r->locations));
    budget_free(b, r->samplers, PERF_SAMPLER_CACHE * sizeof(*r->samplers));
}

/* Zeroed memory of n bytes within the budget, or NULL. */
static void *new_cache(struct budget *b, size_t n)
{
    void *p = NULL;

    if (!budget_resize(b, &p, 0, n))
        return NULL;
    return memset(p, 0, n);
}

static int perf_data_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    struct bytes file;
    if (!p)
        return budget_error(out->budget, err);
    int result = input_all(in, &file, err);
    if (result < 0)
        return result;

    struct perf_reader r = {.set = out, .profile = p, .dict = out->dict, .budget = out->budget};
    CLEANUP(scan_done) struct scan s = {.r = &r, .file = file, .err = err};
    text_cache_init(&r.build_ids, out->budget);
    perf_maps_init(&r.maps, out->budget);
    perf_columns_init(&r.columns, p);
    r.locations = new_cache(out->budget, PERF_LOCATION_CACHE * sizeof(*r.locations));
    r.samplers = new_cache(out->budget, PERF_SAMPLER_CACHE * sizeof(*r.samplers));
    if (budget_failed(out->budget))
        return budget_error(out->budget, err);
    result = scan_all(&s);
    if (result == 0)
        result = perf_add_columns(&r, err);
    if (result == 0)
        result = read_in_order(&s);
    if (result == 0)
        finish_profile(&r);
    return result;
}

const struct format format_perf_data = {
    .name = "perf-data",
    .title = "perf.data",
    .sniff = perf_data_sniff,
    .decode = perf_data_decode,
};
