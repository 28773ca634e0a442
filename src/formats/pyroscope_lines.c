/*
 * Stacks one by one, as some agents of Pyroscope send them to /ingest: a line is a stack, root
 * first, frames joined by ';', and counts one. Like collapsed stacks without counts; since any text
 * looks like that, it is read only when asked for.
 */
#include <errno.h>

#include "formats/folded_stack.h"
#include "formats/formats.h"
#include "wire/lines.h"

struct reader {
    struct lines lines;
    struct folded_stacks stacks;
};

static void reader_done(struct reader *r)
{
    lines_done(&r->lines);
    folded_stacks_done(&r->stacks);
}

static int lines_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);
    profile_add_ctype(p, "samples", "count");

    CLEANUP(reader_done) struct reader r = {0};
    lines_init(&r.lines, in, out->budget);
    folded_stacks_init(&r.stacks, out->dict);
    for (struct bytes line; lines_next(&r.lines, &line);) {
        if (bytes_find_byte(line, '\0'))
            return lines_refuse(&r.lines, "pyroscope lines", "a NUL byte; this is not text", err);
        if (line.len >= UINT32_MAX)
            return lines_refuse(&r.lines, "pyroscope lines", "the line is longer than 4 GiB", err);
        if (line.len > 0)
            profile_add_value(p, folded_stack_node(&r.stacks, line, SIZE_MAX), 1);
    }
    return lines_result(&r.lines, err);
}

const struct format format_pyroscope_lines = {
    .name = "pyroscope-lines",
    .title = "one stack a line, without counts (only when named)",
    .decode = lines_decode,
};
