/*
 * Stacks that DTrace prints for an aggregation by stack() and ustack(): frames, innermost first,
 * then a count on a line of its own. An empty line divides the kernel's frames from the user's.
 *
 *               genunix`fop_write+0x5d
 *
 *               libc.so.1`__pwrite+0xa
 *                 1
 */

#include "formats/formats.h"
#include "wire/lines.h"

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct lines lines;
    VEC(uint32_t) stack; /* locations, innermost first */
    size_t n_kernel;     /* frames in front of the empty line */
    bool has_samples;
};

static bool is_heading(struct bytes line)
{
    return bytes_start_with(line, BYTES("CPU ")) && bytes_find(line, BYTES("FUNCTION:NAME"));
}

/* " 30  76446                       :tick-10ms": which probe printed what follows. */
static bool is_probe(struct bytes line)
{
    struct bytes s = bytes_trim(line);
    size_t n = 0;

    while (n < s.len && ((s.data[n] >= '0' && s.data[n] <= '9') || s.data[n] == ' '))
        n++;
    return n > 2 && n < s.len && bytes_find_byte(bytes_head(s, n), ' ') &&
           bytes_find_byte(bytes_from(s, n), ':') && !bytes_find_byte(s, '`');
}

static int dtrace_sniff(struct bytes head)
{
    struct bytes rest = head, line;
    int n_frames = 0;

    while (n_frames < 3 && bytes_next_line(&rest, &line)) {
        if (bytes_trim(line).len == 0)
            continue;
        if (is_heading(line))
            return 85;
        bool is_frame = line.data[0] == ' ' && bytes_find_byte(line, '`') && line.data[1] == ' ';
        if (!is_frame)
            return 0;
        n_frames++;
    }
    return n_frames == 3 ? 50 : 0;
}

/* "module`function+0xoffset", or an address. */
static uint32_t make_location(struct reader *r, struct bytes text)
{
    struct dict *d = r->dict;
    struct location l = {0};
    const uint8_t *tick = bytes_find_byte(text, '`');
    uint64_t offset;

    if (bytes_start_with(text, BYTES("0x")) && bytes_to_hex(text, &l.address))
        return dict_location(d, l, NULL, 0);
    if (tick) {
        struct bytes module = bytes_head(text, (size_t)(tick - text.data));
        l.mapping = dict_mapping(d, (struct mapping){.file = dict_string(d, module)});
        text = bytes_from(text, module.len + 1);
    }
    for (size_t i = text.len; i-- > 1;) {
        if (text.data[i] != '+')
            continue;
        if (bytes_to_hex(bytes_from(text, i + 1), &offset))
            text.len = i;
        break;
    }
    struct function f = {.name = dict_string(d, text)};
    struct line line = {.function = dict_function(d, f)};
    return dict_location(d, l, &line, line.function ? 1 : 0);
}

/* The location (of at most one line) with the type that its place in the stack gives it. */
static uint32_t typed(struct reader *r, uint32_t location, const char *type)
{
    struct dict *d = r->dict;
    struct location l = d->locations.data[location];
    struct line line = l.n_lines ? d->lines.data[l.first_line] : (struct line){0};

    l.type = dict_cstring(d, type);
    return dict_location(d, l, &line, l.n_lines);
}

static void add_sample(struct reader *r, int64_t count)
{
    for (size_t i = 0; r->n_kernel > 0 && i < r->stack.len; i++)
        r->stack.data[i] = typed(r, r->stack.data[i], i < r->n_kernel ? "kernel" : "native");
    profile_add_value(r->profile, dict_stack(r->dict, r->stack.data, r->stack.len), count);
    vec_clear(&r->stack);
    r->n_kernel = 0;
    r->has_samples = true;
}

static int read_line(struct reader *r, struct bytes line, struct error *err)
{
    struct bytes text = bytes_trim(line);
    int64_t count;

    if (bytes_find_byte(line, '\0'))
        return lines_refuse(&r->lines, "dtrace", "a NUL byte; this is not text", err);
    if (text.len == 0)
        r->n_kernel = r->n_kernel ? r->n_kernel : r->stack.len;
    else if (is_heading(line) || (r->stack.len == 0 && is_probe(line)))
        return 0;
    else if (bytes_to_i64(text, &count))
        add_sample(r, count);
    else
        vec_push(r->budget, &r->stack, make_location(r, text));
    return 0;
}

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    vec_done(r->budget, &r->stack);
}

static int dtrace_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {.profile = p, .dict = out->dict, .budget = out->budget};
    lines_init(&r.lines, in, out->budget);
    profile_add_ctype(p, "samples", "count");
    for (struct bytes line; lines_next(&r.lines, &line);) {
        int result = read_line(&r, line, err);
        if (result < 0)
            return result;
    }
    int result = lines_result(&r.lines, err);
    if (result == 0 && (r.stack.len > 0 || !r.has_samples))
        return lines_refuse(&r.lines, "dtrace",
                            r.stack.len > 0 ? "a stack without its count" : "there is no stack",
                            err);
    return result;
}

const struct format format_dtrace = {
    .name = "dtrace",
    .title = "DTrace stacks",
    .sniff = dtrace_sniff,
    .decode = dtrace_decode,
};
