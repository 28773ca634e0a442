/*
 * FreeBSD's `pmcstat -G`: call graphs upside down, the sampled function first and its callers below
 * it, one blank deeper each:
 *
 *     @ inst_retired.any [35705 samples]
 *
 *     14.44%  [5156]     fletcher_2_native @ /boot/kernel/zfs.ko
 *      50.62%  [2610]      arc_cksum_verify
 *
 * pmcstat leaves out callers with few samples. A stack is what a line without callers ends; the
 * samples of callers that were left out are in no stack, and a note says how many they are.
 */

#include "formats/formats.h"
#include "wire/lines.h"

struct level {
    uint32_t location;
    uint32_t mapping;
    int64_t count;
    int64_t below; /* samples of the callers listed */
};

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct lines lines;
    VEC(struct level) path; /* from the sampled function outwards */
    VEC(uint32_t) stack;
    uint32_t column;
    int64_t values[PROFILE_TYPES_MAX];
    uint64_t n_left_out;
    bool has_event;
};

static int pmcstat_sniff(struct bytes head)
{
    struct bytes rest = head, line;

    if (!bytes_next_line(&rest, &line))
        return 0;
    return bytes_start_with(line, BYTES("@ ")) && bytes_find(line, BYTES(" samples]")) ? 90 : 0;
}

static int fail(const struct reader *r, struct error *err, const char *why)
{
    return lines_refuse(&r->lines, "pmcstat", why, err);
}

/* Takes levels off the path down to `depth`, adding the stack that ended there. */
static void leave(struct reader *r, size_t depth)
{
    bool is_end = true; /* the outermost caller listed has none below it */

    while (r->path.len > depth) {
        struct level l = vec_last(&r->path);
        if (is_end && l.below == 0) {
            vec_clear(&r->stack);
            for (size_t i = 0; i < r->path.len; i++)
                vec_push(r->budget, &r->stack, r->path.data[i].location);
            r->values[r->column] = l.count;
            profile_add(r->profile,
                        &(struct sample){.node = dict_stack(r->dict, r->stack.data, r->stack.len),
                                         .values = r->values});
            r->values[r->column] = 0;
        } else if (l.count > l.below) {
            r->n_left_out += (uint64_t)(l.count - l.below);
        }
        is_end = false;
        r->path.len--;
    }
}

static int read_event(struct reader *r, struct bytes line, struct error *err)
{
    const uint8_t *open = bytes_find_byte(line, '[');

    leave(r, 0);
    if (!open)
        return fail(r, err, "an event without its number of samples");
    struct bytes name = bytes_trim(bytes_head(bytes_from(line, 2), (size_t)(open - line.data) - 2));
    if (r->profile->n_types == PROFILE_TYPES_MAX)
        return fail(r, err, "more than 64 events");
    r->column =
        profile_add_type(r->profile, dict_string(r->dict, name), dict_cstring(r->dict, "count"));
    if (!r->profile->default_type)
        r->profile->default_type = dict_string(r->dict, name);
    r->has_event = true;
    return 0;
}

static uint32_t make_location(struct reader *r, struct bytes name, uint32_t mapping)
{
    struct dict *d = r->dict;
    struct bytes file = dict_text(d, d->mappings.data[mapping].file);
    bool is_kernel = bytes_start_with(file, BYTES("/boot/"));
    struct location l = {.mapping = mapping,
                         .type = dict_cstring(d, is_kernel ? "kernel" : "native")};
    struct line line = {.function =
                            dict_function(d, (struct function){.name = dict_string(d, name)})};

    return dict_location(d, l, &line, 1);
}

/* "100.0%  [7447]      zio_compress_data @ /boot/kernel/zfs.ko" */
static int read_frame(struct reader *r, struct bytes line, struct error *err)
{
    size_t depth = 0;

    while (depth < line.len && line.data[depth] == ' ')
        depth++;
    const uint8_t *open = bytes_find_byte(line, '['), *close = bytes_find_byte(line, ']');
    int64_t count;
    if (!r->has_event || !open || !close || close < open ||
        !bytes_find_byte(bytes_head(line, (size_t)(open - line.data)), '%') ||
        !bytes_to_i64(bytes_head(bytes_from(line, (size_t)(open - line.data) + 1),
                                 (size_t)(close - open) - 1),
                      &count) ||
        count < 0)
        return fail(r, err, "not \"percent [samples] function\"");
    struct bytes name = bytes_trim(bytes_from(line, (size_t)(close - line.data) + 1));
    if (name.len == 0)
        return fail(r, err, "a line without a function");
    if (depth > r->path.len)
        return fail(r, err, "a caller is too far to the right");
    leave(r, depth);

    uint32_t mapping = depth > 0 ? r->path.data[depth - 1].mapping : 0;
    const uint8_t *at = bytes_find(name, BYTES(" @ "));
    if (at) {
        struct bytes file = bytes_from(name, (size_t)(at - name.data) + 3);
        mapping = dict_mapping(r->dict, (struct mapping){.file = dict_string(r->dict, file)});
        name = bytes_head(name, (size_t)(at - name.data));
    }
    struct level l = {
        .location = make_location(r, name, mapping), .mapping = mapping, .count = count};
    if (depth > 0 && __builtin_add_overflow(r->path.data[depth - 1].below, count,
                                            &r->path.data[depth - 1].below))
        return fail(r, err, "the callers of a function have too many samples");
    vec_push(r->budget, &r->path, l);
    return 0;
}

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    vec_done(r->budget, &r->path);
    vec_done(r->budget, &r->stack);
}

static int pmcstat_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {.profile = p, .dict = out->dict, .budget = out->budget};
    lines_init(&r.lines, in, out->budget);
    for (struct bytes line; lines_next(&r.lines, &line);) {
        int result = 0;
        if (bytes_start_with(line, BYTES("@ ")))
            result = read_event(&r, line, err);
        else if (bytes_trim(line).len > 0)
            result = read_frame(&r, line, err);
        if (result < 0)
            return result;
    }
    leave(&r, 0);
    if (r.n_left_out > 0)
        profile_set_note(out,
                         "%llu samples have callers that pmcstat did not list; they are in no "
                         "stack",
                         (unsigned long long)r.n_left_out);
    return lines_result(&r.lines, err);
}

const struct format format_pmcstat = {
    .name = "pmcstat",
    .title = "FreeBSD pmcstat call graph",
    .sniff = pmcstat_sniff,
    .decode = pmcstat_decode,
};
