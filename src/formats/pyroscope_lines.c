/*
 * Stacks as some agents of Pyroscope send them to /ingest, root first, frames joined by ';':
 *
 *     lines      a stack a line, each counts one
 *     groups     a stack, a space and a whole number a line
 *
 * Groups are collapsed stacks, but nothing is guessed: a number in front of the count belongs to
 * the stack. Any text looks like lines, so both are read only when asked for.
 */
#include <errno.h>

#include "formats/folded_stack.h"
#include "formats/formats.h"
#include "wire/lines.h"

struct reader {
    const char *what;
    bool has_counts;
    struct profile *profile;
    struct lines lines;
    struct folded_stacks stacks;
};

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    folded_stacks_done(&r->stacks);
}

/* Takes the count off the line; NULL, or why not. */
static const char *take_count(struct bytes *line, int64_t *ret)
{
    const uint8_t *space = memrchr(line->data, ' ', line->len);
    size_t at = space ? (size_t)(space - line->data) : 0;

    if (at == 0)
        return "not \"frame;frame count\"";
    if (!bytes_to_i64(bytes_from(*line, at + 1), ret))
        return "the count is not a whole number";
    line->len = at;
    return NULL;
}

static int read_line(struct reader *r, struct bytes line, struct error *err)
{
    const char *why = NULL;
    int64_t count = 1;

    if (line.len == 0)
        return 0;
    if (bytes_find_byte(line, '\0'))
        why = "a NUL byte; this is not text";
    else if (line.len >= UINT32_MAX)
        why = "the line is longer than 4 GiB";
    else if (r->has_counts)
        why = take_count(&line, &count);
    if (why)
        return lines_refuse(&r->lines, r->what, why, err);
    profile_add_value(r->profile, folded_stack_node(&r->stacks, line, SIZE_MAX), count);
    return 0;
}

static int decode(struct input *in, const char *what, bool has_counts, struct profile_set *out,
                  struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);
    profile_add_ctype(p, "samples", "count");

    CLEANUP(reader_done)
    struct reader r = {.what = what, .has_counts = has_counts, .profile = p};
    lines_init(&r.lines, in, out->budget);
    folded_stacks_init(&r.stacks, out->dict);
    for (struct bytes line; lines_next(&r.lines, &line);) {
        int e = read_line(&r, line, err);
        if (e < 0)
            return e;
    }
    return lines_result(&r.lines, err);
}

static int lines_decode(struct input *in, struct profile_set *out, struct error *err)
{
    return decode(in, "pyroscope lines", false, out, err);
}

static int groups_decode(struct input *in, struct profile_set *out, struct error *err)
{
    return decode(in, "pyroscope groups", true, out, err);
}

const struct format format_pyroscope_lines = {
    .name = "pyroscope-lines",
    .title = "a stack a line, without counts (only when named)",
    .decode = lines_decode,
};

const struct format format_pyroscope_groups = {
    .name = "pyroscope-groups",
    .title = "a stack and a count a line (only when named)",
    .decode = groups_decode,
};
