/*
 * The text that `perf script` prints (and simpleperf, in the same shape): a header line per sample,
 * its frames below, innermost first, then an empty line. Samples without a call chain have their
 * one frame on the header line or none at all.
 *
 * Addresses are kept as printed: some versions print them relative to the file, some as they were
 * in memory, and the text does not say which.
 */
#include <errno.h>

#include "formats/formats.h"
#include "formats/perf_columns.h"
#include "formats/perf_names.h"
#include "formats/perf_script_lines.h"
#include "formats/text_cache.h"
#include "wire/lines.h"

/* A frame line as it is remembered. */
struct frame {
    uint32_t location; /* of a frame that is not inlined and has no source line */
    uint32_t function; /* 0 when the symbol is not known */
    uint32_t mapping;
    uint32_t type;
    uint64_t address;
    bool is_inlined;
    bool is_jit;
};

struct reader {
    struct profile_set *set;
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct lines lines;
    struct perf_columns columns;

    struct text_cache frame_texts; /* index into frames */
    VEC(struct frame) frames;
    struct text_cache who_texts; /* attribute set */

    /* The sample being read. */
    bool in_sample;
    struct perf_header header; /* its texts are gone */
    int event;
    uint32_t attrs;
    VEC(uint32_t) stack;      /* locations, innermost first */
    VEC(struct line) pending; /* functions inlined into the next frame */
    uint64_t pending_address;
    uint32_t last_frame; /* into frames: the one a source line would belong to */
    bool has_last_frame;

    uint64_t first_ns, last_ns;
    uint64_t n_skipped;
    uint64_t n_payloads;
};

static bool is_comment(struct bytes line)
{
    return line.len > 0 && line.data[0] == '#';
}

static bool is_empty(struct bytes line)
{
    return bytes_trim(line).len == 0;
}

/* What perf prints for records that are not samples, when asked to. */
static bool is_other_record(const struct perf_header *h)
{
    return bytes_start_with(h->event, BYTES("PERF_RECORD_")) ||
           bytes_start_with(h->rest, BYTES("PERF_RECORD_"));
}

static int perf_script_sniff(struct bytes head)
{
    struct bytes rest = head, line;
    struct perf_header h;
    struct perf_frame f;
    bool has_header = false;

    if (bytes_start_with(head, BYTES("# ========\n# captured on")))
        return 90;
    while (bytes_next_line(&rest, &line)) {
        if (is_comment(line) || is_empty(line))
            continue;
        if (bytes_find_byte(line, '\0'))
            return 0;
        if (has_header && perf_parse_frame(line, &f) && line.data[0] != '#')
            return 60;
        if (!perf_parse_header(line, &h) || (h.event.len == 0 && !h.has_time))
            return 0;
        if (has_header || h.rest.len > 0)
            return h.has_time ? 50 : 20;
        has_header = true;
    }
    return has_header && h.has_time ? 30 : 0;
}

static uint32_t mapping_of(struct reader *r, struct bytes dso)
{
    struct mapping m = {.file = dict_string(r->dict, dso)};

    return dso.len > 0 ? dict_mapping(r->dict, m) : 0;
}

/* "outer->inner" of a perf map written with unfolded inlining. Appends innermost first. */
static void add_jit_lines(struct reader *r, struct bytes symbol)
{
    while (symbol.len > 0) {
        size_t at = symbol.len;
        while (at > 1 && !(symbol.data[at - 2] == '-' && symbol.data[at - 1] == '>'))
            at--;
        if (at <= 1)
            at = 0;
        struct function f = {.name = dict_string(r->dict, bytes_from(symbol, at))};
        vec_push(r->budget, &r->pending, (struct line){.function = dict_function(r->dict, f)});
        symbol.len = at > 2 ? at - 2 : 0;
    }
}

/* The location of a frame, with what was inlined into it. */
static uint32_t make_location(struct reader *r, const struct frame *f, int64_t line)
{
    struct location l = {.address = f->address, .mapping = f->mapping, .type = f->type};

    if (f->function)
        vec_push(r->budget, &r->pending, (struct line){.function = f->function, .line = line});
    uint32_t id = dict_location(r->dict, l, r->pending.data, r->pending.len);
    vec_clear(&r->pending);
    return id;
}

/* Functions whose outermost, not inlined one is missing are a frame of their own. */
static void flush_pending(struct reader *r)
{
    struct frame none = {.address = r->pending_address};

    if (r->pending.len > 0)
        vec_push(r->budget, &r->stack, make_location(r, &none, 0));
}

/* Takes a frame line apart that was not met before. */
static bool new_frame(struct reader *r, struct bytes line, struct frame *ret)
{
    struct perf_frame p;

    if (!perf_parse_frame(line, &p))
        return false;
    struct frame f = {.address = p.address, .is_inlined = p.is_inlined};
    f.mapping = mapping_of(r, p.dso);
    f.type = dict_cstring(r->dict, perf_frame_type(p.symbol, p.dso, p.address));
    f.is_jit = perf_dso_is_jit(p.dso) && bytes_find(p.symbol, BYTES("->"));
    if (p.symbol.len > 0)
        f.function =
            dict_function(r->dict, (struct function){.name = dict_string(r->dict, p.symbol)});
    if (f.is_jit) {
        flush_pending(r);
        f.function = 0;
        add_jit_lines(r, p.symbol);
        f.location = make_location(r, &f, 0);
    } else if (!f.is_inlined && r->pending.len == 0) {
        f.location = make_location(r, &f, 0);
    }
    *ret = f;
    return true;
}

/* Adds a frame line to the sample; false when it is none. */
static bool add_frame(struct reader *r, struct bytes line)
{
    uint32_t at;

    if (!text_cache_find(&r->frame_texts, line, &at)) {
        struct frame f;
        if (!new_frame(r, line, &f))
            return false;
        at = (uint32_t)r->frames.len;
        if (!vec_push(r->budget, &r->frames, f))
            return true;
        text_cache_add(&r->frame_texts, line, at);
    }
    struct frame *f = &r->frames.data[at];
    r->last_frame = at;
    r->has_last_frame = true;
    if (f->address != r->pending_address || !f->function)
        flush_pending(r);
    if (f->is_inlined && f->function) {
        r->pending_address = f->address;
        vec_push(r->budget, &r->pending, (struct line){.function = f->function});
        return true;
    }
    if (!f->location && r->pending.len == 0)
        f->location = make_location(r, f, 0);
    uint32_t location = r->pending.len > 0 ? make_location(r, f, 0) : f->location;
    vec_push(r->budget, &r->stack, location);
    return true;
}

/* Gives the frame of the line above the source line it has. */
static void add_source(struct reader *r, struct bytes file, int64_t number)
{
    struct frame f = r->frames.data[r->last_frame];
    struct dict *d = r->dict;

    if (!f.function || f.is_jit)
        return;
    struct function function = d->functions.data[f.function];
    function.file = dict_string(d, file);
    f.function = dict_function(d, function);
    if (f.is_inlined && r->pending.len > 0) {
        vec_last(&r->pending) = (struct line){.function = f.function, .line = number};
        return;
    }
    if (f.is_inlined || r->stack.len == 0)
        return;
    struct location old = d->locations.data[vec_last(&r->stack)];
    for (uint32_t i = 0; i + 1 < old.n_lines; i++)
        vec_push(r->budget, &r->pending, d->lines.data[old.first_line + i]);
    vec_last(&r->stack) = make_location(r, &f, number);
}

static void finish_sample(struct reader *r)
{
    if (!r->in_sample)
        return;
    r->in_sample = false;
    flush_pending(r);
    struct sample s = {
        .node = dict_stack(r->dict, r->stack.data, r->stack.len),
        .attrs = r->attrs,
        .time_ns = r->header.has_time ? r->header.time_ns : 0,
    };
    perf_columns_add(&r->columns, r->event, r->header.has_period ? &r->header.period : NULL, &s);
    vec_clear(&r->stack);
    if (!r->header.has_time)
        return;
    if (!r->first_ns || s.time_ns < r->first_ns)
        r->first_ns = s.time_ns;
    if (s.time_ns > r->last_ns)
        r->last_ns = s.time_ns;
}

static uint32_t sampler_attrs(struct reader *r, const struct perf_header *h)
{
    struct perf_sampler s = {.comm = h->comm, .pid = h->pid, .tid = h->tid, .cpu = h->cpu};
    uint32_t attrs;

    if (text_cache_find(&r->who_texts, h->who, &attrs))
        return attrs;
    attrs = perf_sampler_attrs(r->dict, &s);
    text_cache_add(&r->who_texts, h->who, attrs);
    return attrs;
}

static int refuse(const struct reader *r, const char *why, struct error *err)
{
    return lines_refuse(&r->lines, "perf script", why, err);
}

static int start_sample(struct reader *r, const struct perf_header *h, struct error *err)
{
    finish_sample(r);
    r->event = perf_columns_event(&r->columns, h->event);
    if (r->event < 0)
        return error_set(err, -EBADMSG,
                         "perf script at line %llu: more than %d events; the limit is %d",
                         (unsigned long long)r->lines.number, PERF_EVENTS_MAX, PERF_EVENTS_MAX);
    r->header = *h;
    r->attrs = h->who.len > 0 ? sampler_attrs(r, h) : 0;
    r->in_sample = true;
    r->has_last_frame = false;
    if (h->rest.len > 0 && !add_frame(r, h->rest))
        r->n_payloads++;
    return 0;
}

/* "# hostname : x" and the like, which `--header` prints. */
static void read_comment(struct reader *r, struct bytes line)
{
    struct bytes s = bytes_trim(bytes_from(line, 1));
    const uint8_t *colon = bytes_find_byte(s, ':');
    if (!colon)
        return;
    struct bytes key = bytes_trim(bytes_head(s, (size_t)(colon - s.data)));
    struct bytes value = bytes_trim(bytes_from(s, (size_t)(colon - s.data) + 1));

    if (bytes_are(key, "cmdline"))
        vec_push(r->budget, &r->profile->comments, dict_string(r->dict, value));
    else
        perf_add_host_attribute(r->profile, key, value);
}

static bool starts_blank(struct bytes line)
{
    return line.data[0] == ' ' || line.data[0] == '\t';
}

/* A line inside a sample that is not blank: a frame, what belongs to one, or the next header. */
static int read_line(struct reader *r, struct bytes line, struct error *err)
{
    struct perf_header h;
    struct bytes file;
    int64_t number;

    /* Frames are many and mostly known: ask the cache before anything else. */
    uint32_t at;
    if (r->in_sample && text_cache_find(&r->frame_texts, line, &at) && add_frame(r, line))
        return 0;
    bool may_be_header = !r->in_sample || !starts_blank(line);
    if (may_be_header && perf_parse_header(line, &h)) {
        if (!is_other_record(&h))
            return start_sample(r, &h, err);
        finish_sample(r);
        r->n_skipped++;
        return 0;
    }
    if (!r->in_sample) { /* output without headers: every stack is a sample */
        struct perf_frame f;
        h = (struct perf_header){.pid = -1, .tid = -1, .cpu = -1};
        int result = perf_parse_frame(line, &f) ? start_sample(r, &h, err)
                                                : refuse(r, "neither a sample nor a frame", err);
        if (result < 0)
            return result;
    }
    if (add_frame(r, line))
        return 0;
    if (!starts_blank(line))
        return refuse(r, "neither a sample nor a frame", err);
    if (r->has_last_frame && perf_parse_source(line, &file, &number))
        add_source(r, file, number);
    else
        r->n_skipped++;
    return 0;
}

static int read_lines(struct reader *r, struct error *err)
{
    for (struct bytes line; lines_next(&r->lines, &line);) {
        int result = 0;
        if (is_empty(line))
            finish_sample(r);
        else if (is_comment(line))
            read_comment(r, line);
        else if (bytes_find_byte(line, '\0'))
            result = refuse(r, "a NUL byte; this is not text", err);
        else
            result = read_line(r, line, err);
        if (result < 0)
            return result;
    }
    finish_sample(r);
    return lines_result(&r->lines, err);
}

static void add_notes(struct reader *r)
{
    if (r->last_ns)
        profile_set_note(r->set, "times are those of perf's clock, not UTC");
    if (r->n_payloads)
        profile_set_note(r->set, "fields of %llu events were not kept",
                         (unsigned long long)r->n_payloads);
    if (r->n_skipped)
        profile_set_note(r->set, "%llu lines that are neither samples nor frames were skipped",
                         (unsigned long long)r->n_skipped);
}

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    text_cache_done(&r->frame_texts);
    text_cache_done(&r->who_texts);
    vec_done(r->budget, &r->frames);
    vec_done(r->budget, &r->stack);
    vec_done(r->budget, &r->pending);
}

static int perf_script_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {.set = out, .profile = p, .dict = out->dict, .budget = out->budget};
    lines_init(&r.lines, in, out->budget);
    text_cache_init(&r.frame_texts, out->budget);
    text_cache_init(&r.who_texts, out->budget);
    perf_columns_init(&r.columns, p);
    int result = read_lines(&r, err);
    if (result < 0)
        return result;
    perf_columns_finish(&r.columns);
    p->duration_ns = (int64_t)(r.last_ns - r.first_ns);
    add_notes(&r);
    return 0;
}

const struct format format_perf_script = {
    .name = "perf-script",
    .title = "perf script text",
    .sniff = perf_script_sniff,
    .decode = perf_script_decode,
};
